//! Shared memory for models: what processes share is an array of loom's words, so that loom tries every order in which
//! one side may see what the other has stored. Plain copies are relaxed loads and stores of the words that they cover.
//!
//! Words exist from the start, where the model says so; any other place is a mistake of the model. There are no
//! mappings, descriptors or system calls. The functions are those of `mem/map.rs`, and documented there.
#![allow(missing_docs)]

use super::{SharedMemory, UserBuf, UserBufMut};
use crate::sync::{AtomicU32, AtomicU64};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A word of the memory, by its offset.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Single(usize),
    Double(usize),
}

#[derive(Debug)]
enum Word {
    Single(AtomicU32),
    Double(AtomicU64),
}

/// What is behind a modelled memory.
#[derive(Debug, Default)]
pub(crate) struct Words(BTreeMap<usize, Word>);

impl SharedMemory {
    /// Memory with these words, all zero.
    pub(crate) fn modelled(places: impl IntoIterator<Item = Place>) -> SharedMemory {
        let words = places.into_iter().map(|place| match place {
            Place::Single(at) => (at, Word::Single(AtomicU32::new(0))),
            Place::Double(at) => (at, Word::Double(AtomicU64::new(0))),
        });
        let words = Arc::new(Words(words.collect()));
        SharedMemory { fd: File::open("/dev/null").unwrap().into(), words }
    }

    /// Another process's hold of the same memory.
    pub(crate) fn again(&self) -> SharedMemory {
        SharedMemory { fd: self.fd.try_clone().unwrap(), words: self.words.clone() }
    }

    pub(crate) fn touched_ranges(&self, from: u64, to: u64) -> Vec<Range<u64>> {
        vec![from..to]
    }
}

/// A window onto modelled memory.
#[derive(Debug)]
pub struct SharedMap {
    words: Arc<Words>,
    base: usize,
    bytes: usize,
}

impl SharedMap {
    pub(super) fn new(
        memory: &SharedMemory,
        offset: u64,
        bytes: usize,
        _protection: libc::c_int,
        _flags: libc::c_int,
    ) -> io::Result<SharedMap> {
        Ok(SharedMap { words: memory.words.clone(), base: offset as usize, bytes })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn addr(&self) -> u64 {
        self.base as u64
    }

    pub fn part(&self, offset: usize, bytes: usize) -> SharedMap {
        SharedMap { words: self.words.clone(), base: self.at(offset, bytes), bytes }
    }

    pub(crate) fn clear(&self) {
        for (_, word) in self.words.0.range(self.base..self.base + self.bytes) {
            match word {
                Word::Single(word) => word.store(0, Relaxed),
                Word::Double(word) => word.store(0, Relaxed),
            }
        }
    }

    pub(crate) fn leave_out_of_dumps(&self) {}

    fn at(&self, offset: usize, bytes: usize) -> usize {
        assert!(offset + bytes <= self.bytes, "outside the mapping");
        self.base + offset
    }

    pub(crate) fn assert_inside(&self, offset: usize, bytes: usize) {
        self.at(offset, bytes);
    }

    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        match self.words.0.get(&self.at(offset, 4)) {
            Some(Word::Single(word)) => word,
            other => panic!("the model has {other:?} at {offset}, not a single word"),
        }
    }

    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        match self.words.0.get(&self.at(offset, 8)) {
            Some(Word::Double(word)) => word,
            other => panic!("the model has {other:?} at {offset}, not a double word"),
        }
    }

    pub(crate) fn claim(&self, _offset: usize) {}

    pub(crate) fn fetch(&self, _offset: usize) {}

    pub(crate) fn write_words<const N: usize>(&self, offset: usize, words: [u64; N]) {
        for (index, word) in words.into_iter().enumerate() {
            self.u64_at(offset + index * 8).store(word, Relaxed);
        }
    }

    pub(crate) fn read_word(&self, offset: usize) -> u64 {
        self.u64_at(offset).load(Relaxed)
    }

    pub(crate) fn copy_in(&self, offset: usize, from: UserBuf) {
        let mut bytes = vec![0; from.len()];
        from.copy_to(&mut bytes);
        for (range, word) in self.covered(offset, bytes.len()) {
            let bytes = &bytes[range];
            match word {
                Word::Single(word) => word.store(u32::from_le_bytes(bytes.try_into().unwrap()), Relaxed),
                Word::Double(word) => word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Relaxed),
            }
        }
    }

    pub(crate) fn copy_out_past_caches(&self, offset: usize, to: UserBufMut) {
        self.copy_out(offset, to);
    }

    pub(crate) fn copy_out(&self, offset: usize, to: UserBufMut) {
        for (range, word) in self.covered(offset, to.len()) {
            let part = to.part(range.start, range.len());
            match word {
                Word::Single(word) => part.copy_from_slice(&word.load(Relaxed).to_le_bytes()),
                Word::Double(word) => part.copy_from_slice(&word.load(Relaxed).to_le_bytes()),
            }
        }
    }

    /// The words that make up `bytes` from `offset` on, each with its place there.
    fn covered(&self, offset: usize, bytes: usize) -> impl Iterator<Item = (Range<usize>, &Word)> {
        let start = self.at(offset, bytes);
        let mut next = 0;
        self.words.0.range(start..start + bytes).map(move |(at, word)| {
            let len = if matches!(word, Word::Single(_)) { 4 } else { 8 };
            assert_eq!((at - start, at - start + len <= bytes), (next, true), "a copy of parts of words");
            next += len;
            (next - len..next, word)
        })
    }
}
