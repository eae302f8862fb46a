//! The owner's side: entries, slots, and tables that grow.
use super::look::{
    BUCKETS_PER_KEY_MAX, ENTRY_HEAD_WORDS, Head, Lengths, SLOTS, Slot, TableWord, match_entry,
};
use super::space::Space;
use super::{
    AT_BYTES, AT_FENCES, AT_MAGIC, AT_TABLE, HEADER_UNITS, KEY_BYTES_MAX, MAGIC, Store, UNIT_BYTES,
    UNIT_WORDS, VALUE_BYTES_MAX, fence, hash, words_of,
};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Did a key find room?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It can be read.
    Yes,
    /// There is no room for it, or it is longer than a board takes.
    NoRoom,
}

/// The table and its entries, in words that only this object writes.
#[derive(Debug)]
pub(super) struct Table<W> {
    words: W,
    space: Space,
    at: TableWord,
    entries: u64,
}

/// Where a key stands.
struct Place {
    bucket: u64,
    slot_at: u64,
    slot: Slot,
}

impl<W: Store> Table<W> {
    /// An empty table in `bytes` (a power of two) of zeroed words.
    pub(super) fn new(words: W, bytes: u64, buckets_log2: u32) -> Self {
        let mut space = Space::new((bytes / UNIT_BYTES).ilog2());
        let header = space.take(Space::order_for(HEADER_UNITS.into()));
        let unit = space.take(buckets_log2).expect("a segment holds its first table");
        assert_eq!(header, Some(0));
        let at = TableWord { unit, buckets_log2 };
        words.store(AT_BYTES, bytes, Relaxed);
        words.store(AT_TABLE, at.pack(), Relaxed);
        words.store(AT_MAGIC, MAGIC, Release);
        Table { words, space, at, entries: 0 }
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn fences_over(&mut self, count: u64) {
        self.words.store(AT_FENCES, count, Release);
    }

    pub(super) fn keep(&mut self, key: &[u8], value: &[u8]) -> Kept {
        let hash = hash(key);
        let place = self.find(hash, key);
        let Some(unit) = self.write_entry(hash, key, value) else {
            // The old value would be wrong.
            if let Some(place) = place {
                self.forget(place);
            }
            return Kept::NoRoom;
        };
        let slot = Slot::new(hash, unit);
        match place {
            Some(place) => {
                self.words.store(place.slot_at, slot.0, Release);
                self.retire(place.bucket, place.slot);
                Kept::Yes
            }
            None => self.insert(hash, slot),
        }
    }

    pub(super) fn drop_key(&mut self, key: &[u8]) -> bool {
        let place = self.find(hash(key), key);
        let found = place.is_some();
        if let Some(place) = place {
            self.forget(place);
        }
        found
    }

    fn forget(&mut self, place: Place) {
        self.words.store(place.slot_at, Slot::EMPTY.0, Release);
        self.retire(place.bucket, place.slot);
        self.entries -= 1;
    }

    /// No slot points to the entry any more: readers are told, and then its room is free.
    fn retire(&mut self, bucket: u64, old: Slot) {
        let head = Head(self.word(bucket)).next_version();
        self.words.store(bucket, head.0, Release);
        fence(Release);
        self.give_entry(old);
    }

    fn give_entry(&mut self, slot: Slot) {
        let lengths = Lengths::unpack(self.word(slot.entry()));
        self.space.give(slot.unit(), order_of(lengths));
    }

    /// Writes an entry that no slot points to yet.
    fn write_entry(&mut self, hash: u64, key: &[u8], value: &[u8]) -> Option<u32> {
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return None;
        }
        let lengths = Lengths { key: key.len(), value: value.len() };
        let unit = self.space.take(order_of(lengths))?;
        let at = u64::from(unit) * UNIT_WORDS;
        self.words.store(at, lengths.pack(), Relaxed);
        self.words.store(at + 1, hash, Relaxed);
        for (index, word) in (at + ENTRY_HEAD_WORDS..).zip(words_of(key).chain(words_of(value))) {
            self.words.store(index, word, Relaxed);
        }
        Some(unit)
    }

    fn insert(&mut self, hash: u64, slot: Slot) -> Kept {
        let room = self.at.buckets() * SLOTS;
        if self.entries * 2 >= room {
            self.grow();
        }
        // A table that is nearly empty does not grow for keys that collide: they would again.
        let placed = self.place(self.at, hash, slot)
            || (self.entries * 8 >= room && self.grow() && self.place(self.at, hash, slot));
        if placed {
            self.entries += 1;
            return Kept::Yes;
        }
        self.give_entry(slot);
        Kept::NoRoom
    }

    /// Puts a slot where readers of `table` look for it.
    fn place(&mut self, table: TableWord, hash: u64, slot: Slot) -> bool {
        for step in 0..BUCKETS_PER_KEY_MAX.min(table.buckets()) {
            let bucket = table.bucket(hash, step);
            let empty = (bucket + 1..=bucket + SLOTS).find(|at| Slot(self.word(*at)) == Slot::EMPTY);
            let Some(slot_at) = empty else { continue };
            self.words.store(slot_at, slot.0, Release);
            let home = table.bucket(hash, 0);
            let head = Head(self.word(home));
            if head.spill() < step {
                self.words.store(home, head.with_spill(step).0, Release);
            }
            return true;
        }
        false
    }

    /// Builds a table of twice the size aside and shows it to readers. `false`: there is no room.
    fn grow(&mut self) -> bool {
        let buckets_log2 = self.at.buckets_log2 + 1;
        let Some(unit) = self.space.take(buckets_log2) else { return false };
        let (old, new) = (self.at, TableWord { unit, buckets_log2 });
        let first = new.bucket(0, 0);
        (first..first + new.buckets() * UNIT_WORDS).for_each(|at| self.words.store(at, 0, Relaxed));
        let mut homeless = Vec::new();
        for slot in self.slots(old) {
            let hash = self.word(slot.entry() + 1);
            if !self.place(new, hash, slot) {
                homeless.push(slot);
            }
        }
        self.at = new;
        self.words.store(AT_TABLE, new.pack(), Release);
        fence(Release);
        self.space.give(old.unit, old.buckets_log2);
        self.entries -= homeless.len() as u64;
        homeless.into_iter().for_each(|slot| self.give_entry(slot));
        true
    }

    fn slots(&self, table: TableWord) -> Vec<Slot> {
        let buckets = (0..table.buckets()).map(|bucket| table.bucket(bucket, 0));
        let slots = buckets.flat_map(|bucket| bucket + 1..=bucket + SLOTS).map(|at| Slot(self.word(at)));
        slots.filter(|slot| *slot != Slot::EMPTY).collect()
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<Place> {
        let spill = Head(self.word(self.at.bucket(hash, 0))).spill();
        for bucket in (0..=spill).map(|step| self.at.bucket(hash, step)) {
            for slot_at in bucket + 1..=bucket + SLOTS {
                let slot = Slot(self.word(slot_at));
                let is_it = || matches!(match_entry(&self.words, slot.entry(), hash, key), Ok(Some(_)));
                if slot.may_be(hash) && is_it() {
                    return Some(Place { bucket, slot_at, slot });
                }
            }
        }
        None
    }

    /// A word that this object wrote, where it knows it is.
    fn word(&self, at: u64) -> u64 {
        self.words.load(at).expect("inside the segment")
    }
}

/// The order of an entry's block.
fn order_of(lengths: Lengths) -> u32 {
    Space::order_for(lengths.words().div_ceil(UNIT_WORDS))
}
