//! Keys and values in the order of their last use, within bounds.
use crate::lane::Bytes;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

const NIL: u32 = u32::MAX;
/// Bytes that an entry costs beside its key and value, about.
const OVERHEAD_BYTES: usize = 96;

/// What is known about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its value.
    Value(Bytes),
    /// Nobody has published it.
    Absent,
}

#[derive(Debug)]
struct Slot {
    key: Bytes,
    known: Known,
    newer: u32,
    older: u32,
}

/// A cache that gives up what was not used for the longest time.
#[derive(Debug)]
pub(super) struct Cache {
    index: HashMap<Bytes, u32, FxBuildHasher>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    absent: usize,
    bytes: usize,
}

impl Cache {
    pub(super) fn new() -> Self {
        Cache {
            index: HashMap::with_hasher(FxBuildHasher),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NIL,
            oldest: NIL,
            absent: 0,
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Entries that have a value.
    #[cfg(test)]
    pub(super) fn values(&self) -> usize {
        self.index.len() - self.absent
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is known about a key, which counts as a use.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&Known> {
        let at = *self.index.get(key)?;
        self.unlink(at);
        self.link_newest(at);
        Some(&self.slots[at as usize].known)
    }

    /// What is known about a key, which does not count as a use.
    pub(super) fn peek(&self, key: &[u8]) -> Option<&Known> {
        self.index.get(key).map(|at| &self.slots[*at as usize].known)
    }

    pub(super) fn insert(&mut self, key: Bytes, known: Known) {
        self.remove(&key);
        self.bytes += cost(&key, &known);
        self.absent += usize::from(known == Known::Absent);
        let slot = Slot { key: key.clone(), known, newer: NIL, older: NIL };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(key, at);
        self.link_newest(at);
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Known> {
        let at = self.index.remove(key)?;
        Some(self.vacate(at))
    }

    /// Gives up the entry whose last use is the longest ago.
    pub(super) fn evict(&mut self) -> Option<(Bytes, Known)> {
        let at = self.oldest;
        let key = self.slots.get(at as usize)?.key.clone();
        self.index.remove(&key);
        let known = self.vacate(at);
        Some((key, known))
    }

    /// Forgets which keys are absent.
    pub(super) fn forget_absent(&mut self) {
        let mut at = self.newest;
        while at != NIL && self.absent > 0 {
            let slot = &self.slots[at as usize];
            let older = slot.older;
            if slot.known == Known::Absent {
                let key = slot.key.clone();
                self.remove(&key);
            }
            at = older;
        }
    }

    fn vacate(&mut self, at: u32) -> Known {
        self.unlink(at);
        self.free.push(at);
        let slot = &mut self.slots[at as usize];
        let key = core::mem::take(&mut slot.key);
        let known = core::mem::replace(&mut slot.known, Known::Absent);
        self.bytes -= cost(&key, &known);
        self.absent -= usize::from(known == Known::Absent);
        known
    }

    fn link_newest(&mut self, at: u32) {
        let before = self.newest;
        let slot = &mut self.slots[at as usize];
        slot.newer = NIL;
        slot.older = before;
        match self.slots.get_mut(before as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }
}

/// Bytes that an entry is taken to cost.
pub(super) fn cost(key: &Bytes, known: &Known) -> usize {
    let value_bytes = match known {
        Known::Value(value) => value.len(),
        Known::Absent => 0,
    };
    OVERHEAD_BYTES + key.len() + value_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> Bytes {
        Bytes::from([n])
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, Option<u8>),
        Get(u8),
        Remove(u8),
        Evict,
        ForgetAbsent,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u8..12, any::<Option<u8>>()).prop_map(|(key, value)| Step::Insert(key, value)),
            3 => (0u8..12).prop_map(Step::Get),
            1 => (0u8..12).prop_map(Step::Remove),
            1 => Just(Step::Evict),
            1 => Just(Step::ForgetAbsent),
        ]
    }

    fn known(value: Option<u8>) -> Known {
        value.map_or(Known::Absent, |value| Known::Value(Bytes::from([value])))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// The oracle: a list from oldest to newest.
        #[test]
        fn a_cache_behaves_as_a_list_in_order_of_use(steps in prop::collection::vec(step(), 0..80)) {
            let mut cache = Cache::new();
            let mut list: Vec<(u8, Known)> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(k, value) => {
                        list.retain(|(other, _)| *other != k);
                        list.push((k, known(value)));
                        cache.insert(key(k), known(value));
                    }
                    Step::Get(k) => {
                        let at = list.iter().position(|(other, _)| *other == k);
                        let expected = at.map(|at| list.remove(at));
                        list.extend(expected.clone());
                        prop_assert_eq!(cache.get(&[k]).cloned(), expected.map(|(_, known)| known));
                    }
                    Step::Remove(k) => {
                        let at = list.iter().position(|(other, _)| *other == k);
                        prop_assert_eq!(cache.remove(&[k]), at.map(|at| list.remove(at).1));
                    }
                    Step::Evict => {
                        let oldest = (!list.is_empty()).then(|| list.remove(0)).map(|(k, known)| (key(k), known));
                        prop_assert_eq!(cache.evict(), oldest);
                    }
                    Step::ForgetAbsent => {
                        list.retain(|(_, known)| *known != Known::Absent);
                        cache.forget_absent();
                    }
                }
                prop_assert_eq!(cache.len(), list.len());
                let bytes: usize = list.iter().map(|(k, known)| cost(&key(*k), known)).sum();
                prop_assert_eq!(cache.bytes(), bytes);
            }
            for (k, known) in &list {
                prop_assert_eq!(cache.peek(&[*k]), Some(known));
            }
        }
    }

    #[test]
    fn slots_are_used_again() {
        let mut cache = Cache::new();
        for round in 0..100u8 {
            cache.insert(key(round), Known::Absent);
            if cache.len() > 4 {
                cache.evict();
            }
        }
        assert_eq!((cache.len(), cache.slots.len()), (4, 5));
    }
}
