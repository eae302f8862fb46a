//! A table of objects by number; numbers of freed objects are used again.

#[derive(Debug)]
pub(super) struct Slots<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots { items: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = Some(item);
            return index;
        }
        self.items.push(Some(item));
        u32::try_from(self.items.len() - 1).expect("fewer than 2^32 objects")
    }

    /// Would another object get a number that is not below `max`?
    #[inline]
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.items.len() >= max && self.free.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.items.get(index as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    /// All objects, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(number, item)| Some((number, item.as_ref()?)))
    }

    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let item = self.items.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn numbers_are_dense_and_used_again() {
        let mut slots = Slots::new();
        assert_eq!((slots.insert('a'), slots.insert('b')), (0, 1));
        assert_eq!(slots.remove(0), Some('a'));
        assert_eq!(slots.remove(0), None);
        assert!(slots.get(0).is_none() && slots.get(7).is_none());
        assert_eq!(slots.insert('c'), 0);
        assert_eq!(slots.get_mut(1), Some(&mut 'b'));
    }
}
