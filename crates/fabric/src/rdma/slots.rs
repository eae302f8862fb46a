//! Registered memory that messages come into and are sent from, cut into slots.
use super::{HEAD_BYTES, MESSAGE_MAX};
use std::rc::Rc;
use verbs::{Arena, Pd, VerbsError};

/// Slots that are registered together.
const ARENA_SLOTS: usize = 64;
const SLOT_BYTES: usize = (HEAD_BYTES + MESSAGE_MAX).next_multiple_of(64);

/// Where a slot is: which arena, and which slot of it.
pub(super) type At = (usize, usize);

/// Slots, of which some are free. There are more when more are needed, and fewer when they are not.
#[derive(Debug)]
pub(super) struct Slots<A = Rc<Arena>> {
    places: Vec<Place<A>>,
    free: usize,
}

/// Where an arena is, or was, and its free slots.
#[derive(Debug)]
struct Place<A> {
    arena: Option<A>,
    free: Vec<u8>,
}

impl<A> Default for Slots<A> {
    fn default() -> Self {
        Slots { places: Vec::new(), free: 0 }
    }
}

impl Slots {
    /// A free one; `None` if there are `most` arenas already.
    pub(super) fn take(&mut self, pd: &Rc<Pd>, most: usize) -> Result<Option<At>, VerbsError> {
        self.take_with(most, || Arena::new(pd, ARENA_SLOTS, SLOT_BYTES))
    }

    /// Has one more arena.
    pub(super) fn reserve(&mut self, pd: &Rc<Pd>) -> Result<(), VerbsError> {
        self.add(usize::MAX, || Arena::new(pd, ARENA_SLOTS, SLOT_BYTES)).map(drop)
    }

    /// Bytes of registered memory.
    pub(super) fn bytes(&self) -> usize {
        self.places.iter().filter_map(|place| place.arena.as_deref()).map(Arena::bytes).sum()
    }
}

impl<A> Slots<A> {
    fn take_with<E>(&mut self, most: usize, make: impl FnOnce() -> Result<A, E>) -> Result<Option<At>, E> {
        if self.free == 0 && !self.add(most, make)? {
            return Ok(None);
        }
        // The first arenas are filled first, so that the last ones become empty.
        let has_free = |place: &mut Place<A>| place.free.pop();
        let found = self.places.iter_mut().enumerate().find_map(|(at, place)| Some((at, has_free(place)?)));
        self.free -= usize::from(found.is_some());
        Ok(found.map(|(at, slot)| (at, slot.into())))
    }

    /// Adds an arena. `false`: there are enough.
    fn add<E>(&mut self, most: usize, make: impl FnOnce() -> Result<A, E>) -> Result<bool, E> {
        let empty = self.places.iter().position(|place| place.arena.is_none());
        if empty.is_none() && self.places.len() >= most {
            return Ok(false);
        }
        let place = Place { arena: Some(make()?), free: (0..ARENA_SLOTS as u8).rev().collect() };
        match empty {
            Some(at) => self.places[at] = place,
            None => self.places.push(place),
        }
        self.free += ARENA_SLOTS;
        Ok(true)
    }

    /// A slot is not needed any more. Of arenas that are free as a whole one stays.
    pub(super) fn give_back(&mut self, at: At) {
        let place = &mut self.places[at.0];
        place.free.push(at.1 as u8);
        self.free += 1;
        if place.free.len() == ARENA_SLOTS && self.free >= 2 * ARENA_SLOTS {
            *place = Place { arena: None, free: Vec::new() };
            self.free -= ARENA_SLOTS;
        }
    }

    pub(super) fn arena(&self, at: At) -> &A {
        self.places[at.0].arena.as_ref().expect("a slot that is in use has memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &mut Slots<u32>) -> Option<At> {
        slots.take_with(3, || Ok::<u32, ()>(7)).unwrap()
    }

    #[test]
    fn there_are_as_many_as_are_needed() {
        let mut slots = Slots::default();
        let mut all: Vec<At> = std::iter::from_fn(|| take(&mut slots)).collect();
        assert_eq!(all.len(), 3 * ARENA_SLOTS);
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        let arenas = |slots: &Slots<u32>| slots.places.iter().filter(|place| place.arena.is_some()).count();
        // Those of the first arena go first: it is kept as the one that is free, until there are two.
        all.drain(..ARENA_SLOTS).for_each(|at| slots.give_back(at));
        assert_eq!((arenas(&slots), slots.free), (3, ARENA_SLOTS));
        all.drain(..ARENA_SLOTS).for_each(|at| slots.give_back(at));
        assert_eq!((arenas(&slots), slots.free), (2, ARENA_SLOTS));
        all.drain(..).for_each(|at| slots.give_back(at));
        assert_eq!((arenas(&slots), slots.free), (1, ARENA_SLOTS));
        // And again.
        assert_eq!(std::iter::from_fn(|| take(&mut slots)).count(), 3 * ARENA_SLOTS);
        assert_eq!(slots.take_with(3, || Err(())), Ok(None));
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let mut slots = Slots::<u32>::default();
        assert_eq!(slots.take_with(3, || Err("no memory")), Err("no memory"));
        assert_eq!(take(&mut slots), Some((0, 0)));
    }
}
