//! How words of the segment are packed, and one attempt to read an entry.
use super::{AT_TABLE, Load, UNIT_WORDS, VALUE_BYTES_MAX, fence, hash, words_of};
use std::sync::atomic::Ordering;

/// Slots of a bucket, behind its head.
pub(super) const SLOTS: u64 = UNIT_WORDS - 1;
/// Buckets, its own included, in which a key may stand.
pub(super) const BUCKETS_PER_KEY_MAX: u64 = 8;
/// Words of an entry in front of its key: lengths and hash.
pub(super) const ENTRY_HEAD_WORDS: u64 = 2;
/// Largest table that makes sense, as a power of two.
const BUCKETS_LOG2_MAX: u32 = 26;

/// Where the table is and how large: a word of the header. Tables only grow, so no word ever comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableWord {
    /// First unit.
    pub(super) unit: u32,
    pub(super) buckets_log2: u32,
}

impl TableWord {
    pub(super) fn pack(self) -> u64 {
        u64::from(self.unit) | u64::from(self.buckets_log2) << 32
    }

    pub(super) fn unpack(word: u64) -> TableWord {
        TableWord { unit: word as u32, buckets_log2: ((word >> 32) as u32).min(BUCKETS_LOG2_MAX) }
    }

    pub(super) fn buckets(self) -> u64 {
        1 << self.buckets_log2
    }

    /// The word at which a bucket begins, `step` buckets behind the first for `hash`.
    #[inline]
    pub(super) fn bucket(self, hash: u64, step: u64) -> u64 {
        let bucket = hash.wrapping_add(step) & (self.buckets() - 1);
        (u64::from(self.unit) + bucket) * UNIT_WORDS
    }
}

/// The head of a bucket: a version, and how many buckets further its keys stand at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head(pub(super) u64);

impl Head {
    pub(super) fn spill(self) -> u64 {
        (self.0 & 0xff).min(BUCKETS_PER_KEY_MAX - 1)
    }

    pub(super) fn with_spill(self, spill: u64) -> Head {
        Head(self.0 & !0xff | spill)
    }

    pub(super) fn next_version(self) -> Head {
        Head(self.0.wrapping_add(0x100))
    }
}

/// A slot: the tag of a hash, and the unit at which the entry begins. Unit 0 is the header, so 0 is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    pub(super) const EMPTY: Slot = Slot(0);

    pub(super) fn new(hash: u64, unit: u32) -> Slot {
        Slot(hash >> 32 << 32 | u64::from(unit))
    }

    pub(super) fn unit(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn may_be(self, hash: u64) -> bool {
        self != Slot::EMPTY && self.0 >> 32 == hash >> 32
    }

    pub(super) fn entry(self) -> u64 {
        u64::from(self.unit()) * UNIT_WORDS
    }
}

/// Lengths of an entry's key and value: its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) key: usize,
    pub(super) value: usize,
}

impl Lengths {
    pub(super) fn pack(self) -> u64 {
        self.key as u64 | (self.value as u64) << 32
    }

    pub(super) fn unpack(word: u64) -> Lengths {
        Lengths { key: word as u32 as usize, value: (word >> 32) as usize }
    }

    /// Words of the whole entry.
    pub(super) fn words(self) -> u64 {
        ENTRY_HEAD_WORDS + self.key.div_ceil(8) as u64 + self.value.div_ceil(8) as u64
    }
}

/// What one attempt comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Value(Vec<u8>),
    NotHere,
    /// The owner changed what was being read.
    Changed,
    /// It stands outside the map.
    Beyond,
}

/// Outside the map.
pub(super) struct Outside;

/// Looks for a key once.
pub(super) fn attempt(words: &impl Load, key: &[u8]) -> Attempt {
    let Some(word) = words.load(AT_TABLE) else { return Attempt::NotHere };
    fence(Ordering::Acquire);
    let seen = probe(words, TableWord::unpack(word), hash(key), key);
    fence(Ordering::Acquire);
    if words.load(AT_TABLE) == Some(word) { seen } else { Attempt::Changed }
}

fn probe(words: &impl Load, table: TableWord, hash: u64, key: &[u8]) -> Attempt {
    let (mut step, mut spill) = (0, 0);
    while step <= spill {
        let at = table.bucket(hash, step);
        let Some(head) = words.load(at).map(Head) else { return Attempt::Beyond };
        fence(Ordering::Acquire);
        if step == 0 {
            spill = head.spill();
        }
        for slot in (1..=SLOTS).map_while(|slot| words.load(at + slot).map(Slot)) {
            if !slot.may_be(hash) {
                continue;
            }
            fence(Ordering::Acquire);
            let read = copy_value(words, slot.entry(), hash, key);
            fence(Ordering::Acquire);
            if words.load(at) != Some(head.0) {
                return Attempt::Changed;
            }
            match read {
                Ok(Some(value)) => return Attempt::Value(value),
                Ok(None) => {} // another key with the same tag
                Err(Outside) => return Attempt::Beyond,
            }
        }
        step += 1;
    }
    Attempt::NotHere
}

/// The value of the entry at `at`, if its key is `key`.
fn copy_value(words: &impl Load, at: u64, hash: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Outside> {
    let Some(lengths) = match_entry(words, at, hash, key)? else { return Ok(None) };
    let first = at + ENTRY_HEAD_WORDS + key.len().div_ceil(8) as u64;
    let mut value = Vec::with_capacity(lengths.value.next_multiple_of(8));
    for word in first..at + lengths.words() {
        value.extend_from_slice(&words.load(word).ok_or(Outside)?.to_le_bytes());
    }
    value.truncate(lengths.value);
    Ok(Some(value))
}

/// The lengths of the entry at `at`, if its key is `key`.
pub(super) fn match_entry(
    words: &impl Load,
    at: u64,
    hash: u64,
    key: &[u8],
) -> Result<Option<Lengths>, Outside> {
    let lengths = Lengths::unpack(words.load(at).ok_or(Outside)?);
    let same_hash = words.load(at + 1).ok_or(Outside)? == hash;
    if !same_hash || lengths.key != key.len() || lengths.value > VALUE_BYTES_MAX {
        return Ok(None);
    }
    for (index, word) in (at + ENTRY_HEAD_WORDS..).zip(words_of(key)) {
        if words.load(index).ok_or(Outside)? != word {
            return Ok(None);
        }
    }
    Ok(Some(lengths))
}
