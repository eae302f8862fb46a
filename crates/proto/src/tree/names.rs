//! The services that processes have published, by name.
use super::Answer;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

/// Most names that may be published at a time.
pub const NAMES_MAX: usize = 65_536;

/// Published names. The launcher has them: whatever job a process belongs to, it finds the same.
#[derive(Debug, Default)]
pub struct Names {
    ports: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Names {
    /// Publishes a port. A name that is taken stays as it is.
    pub fn publish(&mut self, service: Vec<u8>, port: Vec<u8>) -> Answer {
        let is_full = self.ports.len() >= NAMES_MAX;
        match self.ports.entry(service) {
            Entry::Occupied(_) => Answer::Taken,
            Entry::Vacant(_) if is_full => Answer::Full,
            Entry::Vacant(place) => {
                place.insert(port);
                Answer::Done
            }
        }
    }

    /// The port of a service.
    pub fn lookup(&self, service: &[u8]) -> Answer {
        self.ports.get(service).map_or(Answer::NotFound, |port| Answer::Found(port.clone()))
    }

    /// Withdraws a service.
    pub fn unpublish(&mut self, service: &[u8]) -> Answer {
        if self.ports.remove(service).is_some() { Answer::Done } else { Answer::NotFound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_name_is_found_until_it_is_withdrawn() {
        let mut names = Names::default();
        assert_eq!(names.lookup(b"a service"), Answer::NotFound);
        assert_eq!(names.publish(b"a service".to_vec(), b"p".to_vec()), Answer::Done);
        assert_eq!(names.publish(b"a service".to_vec(), b"q".to_vec()), Answer::Taken);
        assert_eq!(names.lookup(b"a service"), Answer::Found(b"p".to_vec()));
        assert_eq!(names.unpublish(b"a service"), Answer::Done);
        assert_eq!(names.unpublish(b"a service"), Answer::NotFound);
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::default();
        for number in 0..NAMES_MAX {
            assert_eq!(names.publish(number.to_le_bytes().to_vec(), vec![]), Answer::Done);
        }
        assert_eq!(names.publish(b"more".to_vec(), vec![]), Answer::Full);
    }
}
