//! A table of objects by number; numbers of freed objects are used again. Where the program is checked, it is noted which
//! call has made each.
use super::check;

#[derive(Debug)]
pub(super) struct Slots<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
    births: Option<Box<Births>>,
}

/// Which calls have made the objects of a table.
#[derive(Debug, Default)]
struct Births {
    count: u64,
    by_number: Vec<Birth>,
}

/// How an object came about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Birth {
    /// The function that made it; empty if that is not known.
    pub(super) call: &'static str,
    /// It was the so-manieth of its kind, from 1.
    pub(super) number: u64,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots { items: Vec::new(), free: Vec::new(), births: None }
    }

    /// Notes from now on which call makes an object.
    pub(super) fn note_births(&mut self) {
        self.births.get_or_insert_default();
    }

    /// How an object came about.
    pub(super) fn birth(&self, index: u32) -> Birth {
        let births = self.births.as_ref();
        births.and_then(|births| births.by_number.get(index as usize)).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn insert(&mut self, item: T) -> u32 {
        self.place(item)
    }

    /// As [`Slots::insert`], where the object goes from registers straight to its place.
    #[inline(always)]
    pub(super) fn place(&mut self, item: T) -> u32 {
        // Room is made first, apart: what two paths store makes a detour through the stack.
        if self.free.is_empty() {
            self.grow();
        }
        let index = self.free.pop().expect("there is a free place");
        let vacant = self.items[index as usize].replace(item);
        debug_assert!(vacant.is_none(), "a free place is empty");
        std::mem::forget(vacant);
        if let Some(births) = &mut self.births {
            births.note(index as usize);
        }
        index
    }

    /// Adds a free place.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free.push(u32::try_from(self.items.len()).expect("fewer than 2^32 objects"));
        self.items.push(None);
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

impl Births {
    #[cold]
    fn note(&mut self, index: usize) {
        self.count += 1;
        if self.by_number.len() <= index {
            self.by_number.resize(index + 1, Birth::default());
        }
        self.by_number[index] = Birth { call: check::current_call(), number: self.count };
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

    #[test]
    fn births_are_noted_once_asked_for() {
        let mut slots = Slots::new();
        slots.insert('a');
        slots.note_births();
        super::check::enter_call("MPI_Comm_dup");
        let index = slots.insert('b');
        super::check::enter_call("");
        assert_eq!((slots.birth(index).call, slots.birth(index).number), ("MPI_Comm_dup", 1));
        assert_eq!((slots.birth(0).call, slots.birth(9).number), ("", 0));
    }
}
