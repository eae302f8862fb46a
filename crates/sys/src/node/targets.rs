//! Receive-only ends that the processes of a node share: one for each process elsewhere that sends to this node.
//!
//! A target is there as long as one process of the node has it open, whichever opened it first: it outlives that one. Each
//! process has a bit for each target in a row of its own, so that a killed process is corrected by clearing its row. Which
//! cell is whose stays as it is until the table ends: processes elsewhere are not more than there are peers.
//!
//! The table is memory of its own, which the segments of all jobs that an agent has on the node name: their processes share
//! targets, too. It is opened when it is needed. The file behind it stands for the node where a device wants one (an XRC domain).
//!
//! ```text
//! header   rows that were ever in use; has a cell ever been in use
//! cells    key, number of the queue pair, who works on it, the initiator that it is connected to, how many there were
//! rows     a bit for each cell; the cell that the process works on
//! ```
use super::NodeSegment;
use crate::mem::{Locator, SharedMap, SharedMemory};
use crate::sync::{AtomicU32, AtomicU64};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Most processes elsewhere that a node tells apart.
pub const TARGETS_MAX: usize = 4096;
const ROW_WORDS: usize = TARGETS_MAX / 64;
/// With the cell that its process works on, in a cache line of its own.
const ROW_BYTES: usize = (ROW_WORDS + 8) * 8;
const HEADER_BYTES: usize = 4096;
const CELL_BYTES: usize = 32;
const AT_ROWS: usize = HEADER_BYTES + TARGETS_MAX * CELL_BYTES;
/// Rows of a table, where fewer would do for its first job.
const ROWS_LEAST: u32 = 1024;
const MAGIC: u64 = u64::from_le_bytes(*b"banyantg");
/// How long a process may work on a cell: it makes and moves a queue pair.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_micros(50);

// Offsets in the header.
const AT_MAGIC: usize = 0;
const AT_ROWS_END: usize = 8;
const AT_IN_USE: usize = 12;
// Offsets in a cell.
const CELL_NUMBER: usize = 8;
const CELL_WORKER: usize = 12;
const CELL_INITIATOR: usize = 16;
const CELL_GENERATION: usize = 20;
const CELL_COUNT: usize = 24;

/// A process elsewhere that sends to this node, by the queue pair that it does so with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initiator {
    /// The number of that queue pair; 0: none.
    pub number: u32,
    /// Counts those that it has had for this node, one after the other.
    pub generation: u32,
}

/// Why a target cannot be had.
#[derive(Debug)]
pub enum TargetError {
    /// There are too many.
    Full,
    /// Another process of the node does not come to an end with it.
    Busy,
    /// The table cannot be opened.
    Table(io::Error),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::Full => {
                write!(f, "a node tells {TARGETS_MAX} processes elsewhere apart, and no more")
            }
            TargetError::Busy => {
                write!(f, "another process of the node has been at it for {} s", PATIENCE.as_secs())
            }
            TargetError::Table(error) => write!(f, "the node's table of targets: {error}"),
        }
    }
}

impl std::error::Error for TargetError {}

/// The table.
#[derive(Debug)]
pub(super) struct Targets {
    memory: SharedMemory,
    map: SharedMap,
    rows: u32,
    /// Which rows jobs have; only the owner knows.
    taken: Mutex<Vec<bool>>,
}

impl Targets {
    pub(super) fn create(slots: u32) -> io::Result<Self> {
        let rows = slots.saturating_mul(4).max(ROWS_LEAST);
        let bytes = AT_ROWS + rows as usize * ROW_BYTES;
        let memory = SharedMemory::create_sealable("banyan-targets", bytes as u64)?;
        memory.seal_against_shrinking()?;
        let map = memory.map(0, bytes)?;
        map.u64_at(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(Targets { memory, map, rows, taken: Mutex::new(vec![false; rows as usize]) })
    }

    fn open(at: &Locator) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("table {at}: {why}"));
        let memory = SharedMemory::open(at)?;
        let bytes = memory.bytes()? as usize;
        if !memory.cannot_shrink() || bytes < AT_ROWS {
            return Err(bad("too short"));
        }
        let map = memory.map(0, bytes)?;
        if map.u64_at(AT_MAGIC).load(Ordering::Acquire) != MAGIC {
            return Err(bad("no table of targets"));
        }
        let rows = ((bytes - AT_ROWS) / ROW_BYTES) as u32;
        Ok(Targets { memory, map, rows, taken: Mutex::default() })
    }

    pub(super) fn locator(&self) -> io::Result<Locator> {
        self.memory.locator()
    }

    /// Rows for so many processes; the first of them. `None`: there are not so many left.
    pub(super) fn take_rows(&self, slots: u32) -> Option<u32> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = slots.max(1) as usize;
        let first = taken.windows(slots).position(|rows| rows.iter().all(|row| !row))?;
        taken[first..first + slots].fill(true);
        self.map.u32_at(AT_ROWS_END).fetch_max((first + slots) as u32, Ordering::SeqCst);
        (first..first + slots).for_each(|row| self.clear(row as u32));
        Some(first as u32)
    }

    pub(super) fn give_rows(&self, first: u32, slots: u32) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = first as usize..first as usize + slots.max(1) as usize;
        taken.get_mut(rows).into_iter().for_each(|rows| rows.fill(false));
    }

    /// The process of a row is gone.
    fn clear(&self, row: u32) {
        // (A page that nobody has looked at costs nothing.)
        if self.map.u32_at(AT_IN_USE).load(Ordering::SeqCst) == 0 {
            return;
        }
        let works_on = self.works_on(row).swap(0, Ordering::SeqCst) as usize;
        if (1..=TARGETS_MAX).contains(&works_on) {
            let worker = self.cell_u32(works_on - 1, CELL_WORKER);
            let _ = worker.compare_exchange(row + 1, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
        (0..ROW_WORDS).for_each(|index| self.row_word(row, index).store(0, Ordering::SeqCst));
    }

    fn count(&self) -> u32 {
        let word = |index: usize| self.words(index).fold(0, |all, row| all | row);
        match self.map.u32_at(AT_IN_USE).load(Ordering::SeqCst) {
            0 => 0,
            _ => (0..ROW_WORDS).map(|index| word(index).count_ones()).sum(),
        }
    }

    fn open_for(&self, row: u32, cell: usize) {
        self.row_word(row, cell / 64).fetch_or(1 << (cell % 64), Ordering::SeqCst);
    }

    /// Is it gone by that?
    fn close_for(&self, row: u32, cell: usize) -> bool {
        self.row_word(row, cell / 64).fetch_and(!(1 << (cell % 64)), Ordering::SeqCst);
        !self.is_open(cell)
    }

    fn is_open(&self, cell: usize) -> bool {
        self.words(cell / 64).any(|word| word >> (cell % 64) & 1 == 1)
    }

    /// One word of all rows.
    fn words(&self, index: usize) -> impl Iterator<Item = u64> {
        let rows = self.map.u32_at(AT_ROWS_END).load(Ordering::SeqCst).min(self.rows);
        (0..rows).map(move |row| self.row_word(row, index).load(Ordering::SeqCst))
    }

    /// The cell of a process elsewhere; a free one becomes its own.
    fn cell_of(&self, key: u64) -> Option<usize> {
        self.map.u32_at(AT_IN_USE).store(1, Ordering::SeqCst);
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % TARGETS_MAX;
        (0..TARGETS_MAX).map(|step| (first + step) % TARGETS_MAX).find(|cell| {
            let word = self.map.u64_at(HEADER_BYTES + cell * CELL_BYTES);
            match word.load(Ordering::Acquire) {
                0 => match word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => true,
                    Err(other) => other == key,
                },
                other => other == key,
            }
        })
    }

    fn cell_u32(&self, cell: usize, offset: usize) -> &AtomicU32 {
        assert!(cell < TARGETS_MAX);
        self.map.u32_at(HEADER_BYTES + cell * CELL_BYTES + offset)
    }

    fn row_word(&self, row: u32, index: usize) -> &AtomicU64 {
        assert!(row < self.rows && index < ROW_WORDS);
        self.map.u64_at(AT_ROWS + row as usize * ROW_BYTES + index * 8)
    }

    /// The cell that the process of a row works on, counted from 1.
    fn works_on(&self, row: u32) -> &AtomicU64 {
        assert!(row < self.rows);
        self.map.u64_at(AT_ROWS + row as usize * ROW_BYTES + ROW_WORDS * 8)
    }
}

/// A target that no other process of the node touches meanwhile. If the one that has this is killed, its agent ends it.
#[derive(Debug)]
pub struct TargetLock<'n> {
    table: &'n Targets,
    row: u32,
    cell: usize,
}

impl TargetLock<'_> {
    /// The number of its queue pair, if a process has it open.
    pub fn number(&self) -> Option<u32> {
        let number = self.table.cell_u32(self.cell, CELL_NUMBER).load(Ordering::SeqCst);
        (number != 0 && self.table.is_open(self.cell)).then_some(number)
    }

    /// This process has a new queue pair for it.
    pub fn make(&self, number: u32) {
        self.table.cell_u32(self.cell, CELL_NUMBER).store(number, Ordering::SeqCst);
        self.table.cell_u32(self.cell, CELL_COUNT).fetch_add(1, Ordering::SeqCst);
        self.connect(Initiator::default());
        self.open();
    }

    /// This process has the queue pair open that is there.
    pub fn open(&self) {
        self.table.open_for(self.row, self.cell);
    }

    /// Which of the queue pairs that were made for it one after the other that is: numbers are used again.
    pub fn count(&self) -> u32 {
        self.table.cell_u32(self.cell, CELL_COUNT).load(Ordering::SeqCst)
    }

    /// This process needs it no more. Is it gone?
    pub fn close(&self) -> bool {
        let gone = self.table.close_for(self.row, self.cell);
        if gone {
            self.table.cell_u32(self.cell, CELL_NUMBER).store(0, Ordering::SeqCst);
            self.connect(Initiator::default());
        }
        gone
    }

    /// Whom it is connected to.
    pub fn initiator(&self) -> Initiator {
        let word = |offset| self.table.cell_u32(self.cell, offset).load(Ordering::SeqCst);
        Initiator { number: word(CELL_INITIATOR), generation: word(CELL_GENERATION) }
    }

    /// It is connected to this one now.
    pub fn connect(&self, to: Initiator) {
        self.table.cell_u32(self.cell, CELL_INITIATOR).store(to.number, Ordering::SeqCst);
        self.table.cell_u32(self.cell, CELL_GENERATION).store(to.generation, Ordering::SeqCst);
    }
}

impl Drop for TargetLock<'_> {
    fn drop(&mut self) {
        self.table.cell_u32(self.cell, CELL_WORKER).store(0, Ordering::SeqCst);
        self.table.works_on(self.row).store(0, Ordering::SeqCst);
    }
}

impl NodeSegment {
    /// The table, which is opened the first time.
    fn table(&self) -> io::Result<&Arc<Targets>> {
        if let Some(table) = self.targets.get() {
            return Ok(table);
        }
        let table = Targets::open(&self.targets_at)?;
        if self.first_row.saturating_add(self.facts.slots) > table.rows {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "fewer rows than slots"));
        }
        Ok(self.targets.get_or_init(|| Arc::new(table)))
    }

    fn row(&self, slot: u32) -> u32 {
        assert!(slot < self.facts.slots, "slot {slot} of {}", self.facts.slots);
        self.first_row + slot
    }

    /// The process in `slot` opens the target of the process elsewhere that `key` (not 0) names: its number, from 1 on, and
    /// whether another process of the node had it open. `None`: the table is full, or not to be had.
    pub fn open_target(&self, slot: u32, key: u64) -> Option<(u32, bool)> {
        let table = self.table().ok()?;
        let cell = table.cell_of(key)?;
        let shared = table.is_open(cell);
        table.open_for(self.row(slot), cell);
        Some((cell as u32 + 1, shared))
    }

    /// The process in `slot` needs it no more. Is it gone?
    pub fn close_target(&self, slot: u32, number: u32) -> bool {
        let cell = (number as usize).checked_sub(1).filter(|cell| *cell < TARGETS_MAX);
        let (Some(cell), Ok(table)) = (cell, self.table()) else { return false };
        table.close_for(self.row(slot), cell)
    }

    /// The same for a target that is a queue pair of a device: the process in `slot` looks what there is, and changes it, while no
    /// other process of the node does.
    pub fn lock_target(&self, slot: u32, key: u64) -> Result<TargetLock<'_>, TargetError> {
        let (table, row, start) = (self.table().map_err(TargetError::Table)?, self.row(slot), Instant::now());
        let cell = table.cell_of(key).ok_or(TargetError::Full)?;
        let worker = table.cell_u32(cell, CELL_WORKER);
        // Said before: whoever is killed then has held it, or has not.
        table.works_on(row).store(cell as u64 + 1, Ordering::SeqCst);
        while worker.compare_exchange(0, row + 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            if start.elapsed() > PATIENCE {
                table.works_on(row).store(0, Ordering::SeqCst);
                return Err(TargetError::Busy);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(TargetLock { table, row, cell })
    }

    /// A file that all processes of the node have, of whatever job, and that leaves nothing behind; and a number that it has alone on
    /// this host.
    pub fn node_file(&self) -> io::Result<(BorrowedFd<'_>, u64)> {
        let table = self.table()?;
        let file = table.memory.as_fd();
        let facts = std::fs::File::from(file.try_clone_to_owned()?).metadata()?;
        Ok((file, facts.ino() ^ facts.dev().rotate_left(40)))
    }

    /// Targets that some process of the node has open.
    pub fn targets(&self) -> u32 {
        self.table().map_or(0, |table| table.count())
    }

    pub(super) fn clear_targets(&self, slot: u32) {
        // (Who has not opened it has nothing in it.)
        if let Some(table) = self.targets.get() {
            table.clear(self.row(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts;
    use super::super::{NodeFacts, Records};
    use super::*;

    #[test]
    fn a_target_outlives_the_process_that_opened_it() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        let (number, shared) = owner.open_target(0, 77).unwrap();
        assert!(!shared && number > 0);
        assert_eq!(other.open_target(3, 77), Some((number, true)));
        assert_ne!(other.open_target(3, 78).unwrap().0, number);
        assert_eq!(owner.targets(), 2);
        owner.clear_slot(0); // it was killed
        assert_eq!(owner.targets(), 2);
        assert!(other.close_target(3, number));
        assert_eq!(owner.targets(), 1);
        other.clear_slot(3);
        assert_eq!(owner.targets(), 0);
        assert_eq!(other.open_target(1, 77), Some((number, false)));
        assert!(!other.close_target(1, 0) && !other.close_target(1, u32::MAX));
    }

    #[test]
    fn a_full_table_says_so() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        for key in 1..=TARGETS_MAX as u64 {
            assert!(owner.open_target(1, key).is_some());
        }
        assert_eq!(owner.targets() as usize, TARGETS_MAX);
        assert_eq!(owner.open_target(1, 1 << 40), None);
        assert!(matches!(owner.lock_target(1, 1 << 40), Err(TargetError::Full)));
        assert!(owner.open_target(2, 5).unwrap().1);
    }

    #[test]
    fn a_queue_pair_is_known_while_a_process_has_it_open() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        let five = Initiator { number: 5, generation: 1 };
        let first = owner.lock_target(0, 77).unwrap();
        assert_eq!((first.number(), first.initiator()), (None, Initiator::default()));
        first.make(9);
        first.connect(five);
        drop(first);
        let second = other.lock_target(1, 77).unwrap();
        assert_eq!((second.number(), second.initiator()), (Some(9), five));
        second.open();
        assert_eq!((second.initiator(), second.count()), (five, 1), "it is the same");
        drop(second);
        owner.clear_slot(0);
        assert_eq!(other.lock_target(2, 77).unwrap().number(), Some(9), "the other has it");
        assert!(other.lock_target(1, 77).unwrap().close());
        let last = owner.lock_target(3, 77).unwrap();
        assert_eq!((last.number(), last.initiator()), (None, Initiator::default()));
    }

    #[test]
    fn who_is_killed_at_it_holds_nobody_up() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        let lock = owner.lock_target(2, 77).unwrap();
        lock.make(9);
        lock.connect(Initiator { number: 5, generation: 1 });
        std::mem::forget(lock); // it was killed
        owner.clear_slot(2);
        let lock = owner.lock_target(1, 77).unwrap();
        assert_eq!(lock.number(), None, "nobody has it open");
        lock.make(9);
        assert_eq!((lock.initiator(), lock.count()), (Initiator::default(), 2), "another one");
    }

    #[test]
    fn jobs_of_a_node_have_one_table_and_rows_of_their_own() {
        let first = NodeSegment::create(&facts(10)).unwrap();
        let beside = || NodeSegment::create_beside(&facts(10), Records::default(), Some(&first)).unwrap();
        let (second, third) = (beside(), beside());
        assert_eq!((first.first_row, second.first_row, third.first_row), (0, 4, 8));
        let number = first.open_target(1, 77).unwrap().0;
        let other = NodeSegment::open(&second.locator().unwrap()).unwrap();
        assert_eq!(other.open_target(1, 77), Some((number, true)));
        assert_eq!(other.node_file().unwrap().1, first.node_file().unwrap().1);
        first.clear_slot(1);
        assert_eq!(first.targets(), 1);
        drop(second);
        let again = beside();
        assert_eq!((again.first_row, again.targets()), (4, 0), "what was left of those before is gone");
        let alone = NodeSegment::create(&NodeFacts { slots: 2000, ..facts(10) }).unwrap();
        assert_ne!(alone.node_file().unwrap().1, first.node_file().unwrap().1);
        let many = NodeFacts { slots: 5000, ..facts(10) };
        let many = NodeSegment::create_beside(&many, Records::default(), Some(&first)).unwrap();
        assert_ne!(many.node_file().unwrap().1, first.node_file().unwrap().1, "it does not fit there");
    }
}
