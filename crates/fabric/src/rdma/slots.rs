//! Registered memory that messages come into and are sent from, cut into slots.
use super::{HEAD_BYTES, MESSAGE_MAX};
use std::rc::Rc;
use verbs::{Arena, Pd, VerbsError};

/// Slots that are registered together.
const ARENA_SLOTS: usize = 64;
const SLOT_BYTES: usize = (HEAD_BYTES + MESSAGE_MAX).next_multiple_of(64);

/// Where a slot is: which arena, and which slot of it.
pub(super) type At = (usize, usize);

/// Slots, of which some are free. There are more when more are needed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    arenas: Vec<Rc<Arena>>,
    free: Vec<At>,
}

impl Slots {
    /// A free one; `None` if there are `most` arenas already.
    pub(super) fn take(&mut self, pd: &Rc<Pd>, most: usize) -> Result<Option<At>, VerbsError> {
        if self.free.is_empty() && self.arenas.len() < most {
            self.arenas.push(Arena::new(pd, ARENA_SLOTS, SLOT_BYTES)?);
            let arena = self.arenas.len() - 1;
            self.free.extend((0..ARENA_SLOTS).rev().map(|slot| (arena, slot)));
        }
        Ok(self.free.pop())
    }

    pub(super) fn give_back(&mut self, at: At) {
        self.free.push(at);
    }

    pub(super) fn arena(&self, at: At) -> &Rc<Arena> {
        &self.arenas[at.0]
    }

    /// Bytes of registered memory.
    pub(super) fn bytes(&self) -> usize {
        self.arenas.iter().map(|arena| arena.bytes()).sum()
    }
}
