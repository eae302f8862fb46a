//! A board in memory: keys and values that one process writes and the processes of its node read, without asking.
//!
//! The owner (a node's agent) creates a sparse memfd, maps it, and seals it: nobody else can write it or change
//! its size. Readers find it by a [`Locator`] and map it read-only. A lookup is a hash, one line of a table, one entry
//! and a check; it makes no system call, takes no lock and leaves no trace, so a reader may be killed anywhere. The
//! owner never waits for readers and may be killed anywhere too: the table makes sense between any two stores.
//!
//! ```text
//! header   magic, bytes, start of the owner | word of the table | fences that are over
//! bucket   one line: its head (version, how far its keys spill) and 7 slots (tag of the hash, place of the entry)
//! entry    lengths, hash, key, value; never changed while a slot points to it
//! ```
//!
//! # How a reader knows that what it copied was whole
//! An entry is written before the slot that points to it. To replace or to drop one, the owner changes the slot, then the
//! *version* in the head of the bucket, and only then uses the room again, for whatever; to grow, it builds a
//! table of twice the size aside, changes the *word of the table*, and only then uses the old one's room again. A reader
//! that finds head and word unchanged behind its copy has read nothing that was used again. If they changed it starts
//! over, at most [`ATTEMPTS_MAX`] times. Between copy and check stands an acquire fence, between a change of head or
//! word and the next use of the room a release fence: whoever reads a store behind the one sees, behind the other,
//! the change before it.
//!
//! # What is not promised
//! What is not here has to be asked for: it may be absent, dropped, or never written for lack of room. Readers check
//! every offset, so nonsense in the segment is at worst a wrong value, never a fault.
mod look;
#[cfg(all(test, loom))]
mod model;
mod space;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::mem::{Locator, ReadMap, SharedMap, SharedMemory};
use crate::sync::fence;
use look::Attempt;
use std::io;
use std::sync::atomic::Ordering;
use table::Table;

pub use table::Kept;

const MAGIC: u64 = u64::from_le_bytes(*b"banyanB2");

/// Most bytes of a key.
pub const KEY_BYTES_MAX: usize = 1 << 10;
/// Most bytes of a value.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Size of the segment: room for a board of 256 MiB whose entries are rounded up to powers of two. Sparse.
pub const SEGMENT_BYTES: u64 = 512 << 20;
/// How often a lookup that was overtaken starts over.
pub const ATTEMPTS_MAX: usize = 64;
/// Bytes of the segment that a reader maps at first. A larger board costs it a system call whenever the part it has
/// mapped doubles. (Mapping all at once would cost nothing either, but for programs that lock or limit their memory.)
const WINDOW_BYTES: u64 = 4 << 20;
/// Buckets at first, as a power of two: one page.
const FIRST_BUCKETS_LOG2: u32 = 6;

/// Room is given out in units of a cache line.
const UNIT_BYTES: u64 = 64;
const UNIT_WORDS: u64 = UNIT_BYTES / 8;
/// Units of the header.
const HEADER_UNITS: u32 = 4;

// Double words of the header.
const AT_MAGIC: u64 = 0;
const AT_BYTES: u64 = 1;
/// When the owner started: `/proc` takes long to say it, and a process id may come again.
const AT_START: u64 = 2;
const AT_TABLE: u64 = UNIT_WORDS;
const AT_FENCES: u64 = 2 * UNIT_WORDS;

/// Where words of the segment are read.
trait Load {
    /// The word number `at`, relaxed; `None` outside the map.
    fn load(&self, at: u64) -> Option<u64>;
}

/// Where its owner writes them.
trait Store: Load {
    /// `at` is inside: the owner's own bookkeeping says so.
    fn store(&self, at: u64, word: u64, order: Ordering);
}

impl Load for ReadMap {
    #[inline]
    fn load(&self, at: u64) -> Option<u64> {
        self.word(at)
    }
}

impl Load for SharedMap {
    fn load(&self, at: u64) -> Option<u64> {
        let inside = at < self.bytes() as u64 / 8;
        inside.then(|| self.u64_at(at as usize * 8).load(Ordering::Relaxed))
    }
}

impl Store for SharedMap {
    fn store(&self, at: u64, word: u64, order: Ordering) {
        self.u64_at(at as usize * 8).store(word, order);
    }
}

/// The owner's side.
#[derive(Debug)]
pub struct BoardWriter {
    locator: Locator,
    memory: SharedMemory,
    table: Table<SharedMap>,
}

impl BoardWriter {
    /// A new board, empty.
    pub fn create() -> io::Result<Self> {
        let memory = SharedMemory::create_sealable("banyan-board", SEGMENT_BYTES)?;
        let map = memory.map(0, SEGMENT_BYTES as usize)?;
        memory.seal_but_for_maps()?;
        map.leave_out_of_dumps();
        let locator = memory.locator()?;
        map.store(AT_START, locator.start_ticks, Ordering::Relaxed);
        let table = Table::new(map, SEGMENT_BYTES, FIRST_BUCKETS_LOG2);
        Ok(BoardWriter { locator, memory, table })
    }

    /// Where the processes of the node find it.
    pub fn locator(&self) -> Locator {
        self.locator
    }

    /// A key has this value, instead of any before. Where there is no room for it the key is not here.
    pub fn keep(&mut self, key: &[u8], value: &[u8]) -> Kept {
        self.table.keep(key, value)
    }

    /// A key is not here any more. Was it?
    pub fn drop_key(&mut self, key: &[u8]) -> bool {
        self.table.drop_key(key)
    }

    /// So many fences are over, and what was put before them is here, as far as it will be.
    pub fn fences_over(&mut self, count: u64) {
        self.table.fences_over(count);
    }

    /// Keys that are here.
    pub fn entries(&self) -> u64 {
        self.table.entries()
    }

    /// Bytes that have pages behind them.
    pub fn touched_bytes(&self) -> io::Result<u64> {
        self.memory.touched_bytes()
    }
}

/// What a lookup finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The value, whole.
    Value(Vec<u8>),
    /// It has to be asked for: absent, not kept, or changed too often while it was read.
    NotHere,
}

/// A reader's side.
#[derive(Debug)]
pub struct BoardReader {
    memory: SharedMemory,
    bytes: u64,
    map: ReadMap,
}

impl BoardReader {
    /// Opens the board of another process of the node.
    pub fn open(at: &Locator) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("board {at}: {why}"));
        let (memory, bytes) = SharedMemory::open_unproven_read_only(at)?;
        // A segment that could shrink would be a fault waiting for its reader.
        if !memory.is_sealed() {
            return Err(bad("not sealed"));
        }
        let window = bytes.min(WINDOW_BYTES);
        if window < u64::from(HEADER_UNITS) * UNIT_BYTES {
            return Err(bad("too short"));
        }
        let map = memory.map_read_only(window as usize, bytes)?;
        let magic = map.load(AT_MAGIC);
        fence(Ordering::Acquire);
        if magic != Some(MAGIC) || map.load(AT_BYTES) != Some(bytes) {
            return Err(bad("not a board of this version"));
        }
        if map.load(AT_START) != Some(at.start_ticks) {
            return Err(bad("of an earlier process with this number"));
        }
        Ok(BoardReader { memory, bytes, map })
    }

    /// Copies the value of a key. Makes no system call unless the board has outgrown what is mapped.
    pub fn get(&mut self, key: &[u8]) -> Lookup {
        for _ in 0..ATTEMPTS_MAX {
            match look::attempt(&self.map, key) {
                Attempt::Value(value) => return Lookup::Value(value),
                Attempt::NotHere => return Lookup::NotHere,
                Attempt::Changed => std::hint::spin_loop(),
                Attempt::Beyond => {
                    if !self.widen() {
                        return Lookup::NotHere;
                    }
                }
            }
        }
        Lookup::NotHere
    }

    /// Fences that are over: what was put before them is here, as far as it is kept.
    pub fn fences(&self) -> u64 {
        let fences = self.map.load(AT_FENCES).unwrap_or(0);
        fence(Ordering::Acquire);
        fences
    }

    /// Maps twice as much, if there is more.
    fn widen(&mut self) -> bool {
        let mapped = self.map.bytes() as u64;
        let wanted = self.bytes.min(mapped * 2);
        if wanted == mapped {
            return false;
        }
        match self.memory.map_read_only(wanted as usize, self.bytes) {
            Ok(map) => {
                self.map = map;
                true
            }
            Err(_) => false,
        }
    }
}

/// Mixes a key into 64 bits: low bits choose the bucket, high bits are the tag. No secret; who makes keys collide on
/// purpose gets keys that are not here.
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = (key.len() as u64).wrapping_mul(FACTOR);
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mixed = words_of(key).fold(start, mix);
    let folded = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    folded ^ folded >> 32
}

/// Bytes as words, the last filled up with zeros.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}
