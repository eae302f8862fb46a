//! Numbered things: an index that is used again, and a generation that tells its users apart.

/// A table whose indices are dense.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// Boxed, so that an unused place costs little.
    value: Option<Box<T>>,
}

impl<T> Table<T> {
    pub fn new() -> Self {
        Table { slots: Vec::new(), free: Vec::new() }
    }

    /// Things in it.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts something in; its index and generation.
    pub fn insert(&mut self, value: T) -> (u32, u32) {
        let value = Some(Box::new(value));
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = value;
            return (index, slot.generation);
        }
        self.slots.push(Slot { generation: 0, value });
        (self.slots.len() as u32 - 1, 0)
    }

    /// What is at an index, if it is still what it was.
    #[inline]
    pub fn get(&self, index: usize, generation: u32) -> Option<&T> {
        let slot = self.slots.get(index).filter(|slot| slot.generation == generation)?;
        slot.value.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize, generation: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation)?;
        slot.value.as_deref_mut()
    }

    /// What is at an index.
    #[inline]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_deref()
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_deref_mut()
    }

    /// The generation of an index.
    #[inline]
    pub fn generation(&self, index: u32) -> u32 {
        self.slots.get(index as usize).map_or(0, |slot| slot.generation)
    }

    /// Takes something out; its index may be used again.
    pub fn remove(&mut self, index: u32) -> Option<Box<T>> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    /// Everything in it, by index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((index as u32, slot.value.as_deref()?)))
    }

    /// Indices in use.
    pub fn indices(&self) -> Vec<u32> {
        self.iter().map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_index_has_a_new_generation() {
        let mut table = Table::new();
        let (first, generation) = table.insert('a');
        assert_eq!(table.get(first as usize, generation), Some(&'a'));
        assert_eq!(table.remove(first).map(|value| *value), Some('a'));
        assert_eq!((table.remove(first), table.len()), (None, 0));
        let (again, newer) = table.insert('b');
        assert_eq!((again, newer != generation), (first, true));
        assert_eq!(table.get(first as usize, generation), None);
        assert_eq!(table.get_mut(first as usize, newer), Some(&mut 'b'));
        assert_eq!((table.at(7), table.indices()), (None, vec![0]));
    }
}
