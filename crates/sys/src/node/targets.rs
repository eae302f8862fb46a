//! Receive-only ends that the processes of a node share: one for each process elsewhere that sends to this node.
//!
//! A target is there as long as one process of the node has it open, whichever opened it first: it outlives that one. Each
//! process has a bit for each target in a row of its own, so that a killed process is corrected by clearing its row.
//!
//! A cell stays that of its process elsewhere while no other one needs it. When none is free, the next process elsewhere gets one
//! that nobody has open, and that nobody works on: jobs and connections come and go, and there may be more processes elsewhere in
//! the life of a node than cells. So whoever has found a cell and then works on it looks whose it is once more; and cells are only
//! given to others by one process at a time, or a process elsewhere could get two.
//!
//! The table is memory of its own, which the segments of all jobs that an agent has on the node name: their processes share
//! targets, too. It is opened when it is needed. The file behind it stands for the node where a device wants one (an XRC domain).
//!
//! ```text
//! header   rows that were ever in use; has a cell ever been in use; who gives cells to others; queue pairs that were made
//! cells    key, number of the queue pair, who works on it, the initiator that it is connected to, which of those made it is
//! rows     a bit for each cell; what the process works on
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

/// Most processes elsewhere that a node tells apart at a time.
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
const AT_GIVER: usize = 16;
const AT_MADE: usize = 20;
// Offsets in a cell.
const CELL_NUMBER: usize = 8;
const CELL_WORKER: usize = 12;
const CELL_INITIATOR: usize = 16;
const CELL_GENERATION: usize = 20;
const CELL_COUNT: usize = 24;

/// What the process of a row works on: a cell, counted from 1, and the giving of cells.
const WORKS_ON_CELL: u64 = u32::MAX as u64;
const GIVES: u64 = 1 << 32;

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
                write!(f, "a node tells {TARGETS_MAX} processes elsewhere apart at a time, and no more")
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
        let works_on = self.works_on(row).swap(0, Ordering::SeqCst);
        let cell = (works_on & WORKS_ON_CELL) as usize;
        if (1..=TARGETS_MAX).contains(&cell) {
            give_up(self.cell_u32(cell - 1, CELL_WORKER), row);
        }
        if works_on & GIVES != 0 {
            give_up(self.map.u32_at(AT_GIVER), row);
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

    /// The cell of a process elsewhere; a free one becomes its own. `None`: there is no free one.
    fn cell_of(&self, key: u64) -> Option<usize> {
        self.map.u32_at(AT_IN_USE).store(1, Ordering::SeqCst);
        self.cells_from(key).find(|cell| {
            let word = self.key(*cell);
            match word.load(Ordering::SeqCst) {
                0 => match word.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => true,
                    Err(other) => other == key,
                },
                other => other == key,
            }
        })
    }

    /// All cells, in the order in which one is looked for.
    fn cells_from(&self, key: u64) -> impl Iterator<Item = usize> {
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % TARGETS_MAX;
        (0..TARGETS_MAX).map(move |step| (first + step) % TARGETS_MAX)
    }

    fn key(&self, cell: usize) -> &AtomicU64 {
        assert!(cell < TARGETS_MAX);
        self.map.u64_at(HEADER_BYTES + cell * CELL_BYTES)
    }

    /// Gives a process elsewhere the cell of another one that nobody has open, when none is free. (None will be: those that are
    /// given go from one to the other.)
    fn give(&self, row: u32, key: u64, start: Instant) -> Result<usize, TargetError> {
        // Said before, as by whoever works on a cell.
        self.works_on(row).store(GIVES, Ordering::SeqCst);
        let given = take(self.map.u32_at(AT_GIVER), row, start).and_then(|()| {
            let given = self
                .cell_of(key)
                .or_else(|| self.cells_from(key).find(|cell| self.take_over(row, key, *cell)));
            self.map.u32_at(AT_GIVER).store(0, Ordering::SeqCst);
            given.ok_or(TargetError::Full)
        });
        self.works_on(row).store(0, Ordering::SeqCst);
        given
    }

    /// Gives a process elsewhere this cell, unless somebody uses it. Whoever opens it does so as its worker.
    fn take_over(&self, row: u32, key: u64, cell: usize) -> bool {
        let worker = self.cell_u32(cell, CELL_WORKER);
        if self.is_open(cell) || worker.load(Ordering::SeqCst) != 0 {
            return false;
        }
        self.works_on(row).store(GIVES | (cell as u64 + 1), Ordering::SeqCst);
        let alone = worker.compare_exchange(0, row + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let free = alone && !self.is_open(cell);
        if free {
            // What is left is of a process that was killed.
            let words = [CELL_NUMBER, CELL_INITIATOR, CELL_GENERATION];
            words.into_iter().for_each(|offset| self.cell_u32(cell, offset).store(0, Ordering::SeqCst));
            self.key(cell).store(key, Ordering::SeqCst);
        }
        if alone {
            worker.store(0, Ordering::SeqCst);
        }
        self.works_on(row).store(GIVES, Ordering::SeqCst);
        free
    }

    /// Has the process of a row work on a cell, alone.
    fn work_on(&self, row: u32, cell: usize, start: Instant) -> Result<TargetLock<'_>, TargetError> {
        // Said before: whoever is killed then has held it, or has not.
        self.works_on(row).store(cell as u64 + 1, Ordering::SeqCst);
        let taken = take(self.cell_u32(cell, CELL_WORKER), row, start);
        if taken.is_err() {
            self.works_on(row).store(0, Ordering::SeqCst);
        }
        taken.map(|()| TargetLock { table: self, row, cell })
    }

    fn cell_u32(&self, cell: usize, offset: usize) -> &AtomicU32 {
        assert!(cell < TARGETS_MAX);
        self.map.u32_at(HEADER_BYTES + cell * CELL_BYTES + offset)
    }

    fn row_word(&self, row: u32, index: usize) -> &AtomicU64 {
        assert!(row < self.rows && index < ROW_WORDS);
        self.map.u64_at(AT_ROWS + row as usize * ROW_BYTES + index * 8)
    }

    /// What the process of a row works on.
    fn works_on(&self, row: u32) -> &AtomicU64 {
        assert!(row < self.rows);
        self.map.u64_at(AT_ROWS + row as usize * ROW_BYTES + ROW_WORDS * 8)
    }
}

/// Takes what one process at a time may have.
fn take(holder: &AtomicU32, row: u32, start: Instant) -> Result<(), TargetError> {
    while holder.compare_exchange(0, row + 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        if start.elapsed() > PATIENCE {
            return Err(TargetError::Busy);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// What the process of a row has taken is free again, if it had.
fn give_up(holder: &AtomicU32, row: u32) {
    let _ = holder.compare_exchange(row + 1, 0, Ordering::SeqCst, Ordering::SeqCst);
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
        let made = self.table.map.u32_at(AT_MADE).fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        self.table.cell_u32(self.cell, CELL_COUNT).store(made, Ordering::SeqCst);
        self.connect(Initiator::default());
        self.open();
    }

    /// This process has the queue pair open that is there.
    pub fn open(&self) {
        self.table.open_for(self.row, self.cell);
    }

    /// Which of the queue pairs that were made on the node one after the other that is: numbers are used again, and so are cells.
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
        let lock = self.lock_target(slot, key).ok()?;
        let shared = lock.table.is_open(lock.cell);
        lock.open();
        Some((lock.cell as u32 + 1, shared))
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
        loop {
            let cell = match table.cell_of(key) {
                Some(cell) => cell,
                None => table.give(row, key, start)?,
            };
            let lock = table.work_on(row, cell, start)?;
            if table.key(cell).load(Ordering::SeqCst) == key {
                return Ok(lock);
            }
            // It was given to another one between the two.
        }
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
    fn a_cell_that_nobody_has_open_goes_to_another_process() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        let most = TARGETS_MAX as u64;
        let count = |key| {
            let lock = owner.lock_target(1, key).unwrap();
            lock.make(key as u32);
            lock.connect(Initiator { number: 5, generation: 1 });
            lock.count()
        };
        assert!((1..=most).all(|key| u64::from(count(key)) == key));
        assert!(owner.lock_target(2, 7).unwrap().number() == Some(7), "there may be two");
        owner.lock_target(2, 7).unwrap().open();
        owner.lock_target(1, 7).unwrap().close();
        assert!(matches!(owner.lock_target(2, most + 1), Err(TargetError::Full)));
        // Its last process is killed.
        owner.clear_slot(2);
        let lock = owner.lock_target(2, most + 1).unwrap();
        assert_eq!((lock.number(), lock.initiator()), (None, Initiator::default()));
        lock.make(9);
        assert_eq!(u64::from(lock.count()), most + 1, "none was like it");
        assert!(matches!(owner.lock_target(3, 7), Err(TargetError::Full)));
        drop(lock);
        assert_eq!(owner.lock_target(3, most + 1).unwrap().number(), Some(9), "it is found");
        assert_eq!(owner.lock_target(3, 8).unwrap().number(), Some(8), "and so are the others");
    }

    #[test]
    fn who_is_killed_while_it_gives_a_cell_holds_nobody_up() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        (1..=TARGETS_MAX as u64).for_each(|key| assert!(owner.open_target(1, key).is_some()));
        let table = owner.table().unwrap();
        let (row, cell) = (owner.row(2), table.cell_of(77).unwrap());
        table.works_on(row).store(GIVES | (cell as u64 + 1), Ordering::SeqCst);
        table.map.u32_at(AT_GIVER).store(row + 1, Ordering::SeqCst);
        table.cell_u32(cell, CELL_WORKER).store(row + 1, Ordering::SeqCst);
        owner.clear_slot(2);
        owner.clear_slot(1);
        for key in [77, 1 << 40] {
            assert!(owner.lock_target(3, key).is_ok());
        }
    }

    /// Processes elsewhere come and go, more of them than there are cells, and those of the node agree on what each has.
    #[test]
    fn processes_that_share_few_cells_agree_on_whose_they_are() {
        const SLOTS: u32 = 4;
        const KEYS: u64 = 60;
        const LEFT: usize = 24;
        let owner = NodeSegment::create(&facts(10)).unwrap();
        // Few cells are left to all of them.
        (1..=(TARGETS_MAX - LEFT) as u64).for_each(|key| assert!(owner.open_target(0, key << 32).is_some()));
        // By key: how many have it open, and its queue pair.
        let known: Vec<Mutex<(u32, u32)>> = (0..=KEYS).map(|_| Mutex::default()).collect();
        let full = AtomicU32::new(0);
        let at = owner.locator().unwrap();
        std::thread::scope(|threads| {
            for slot in 1..SLOTS {
                let (known, full) = (&known, &full);
                threads.spawn(move || {
                    let node = NodeSegment::open(&at).unwrap();
                    let mut chance = u64::from(slot);
                    for round in 0..4000_u32 {
                        chance = chance
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let key = 1 + (chance >> 33) % KEYS;
                        let Ok(lock) = node.lock_target(slot, key) else {
                            full.fetch_add(1, Ordering::Relaxed);
                            continue;
                        };
                        let mut it = known[key as usize].lock().unwrap();
                        match lock.number() {
                            Some(number) => assert_eq!((it.0 > 0, number), (true, it.1), "key {key}"),
                            None => assert_eq!(it.0, 0, "key {key} is open, and not known"),
                        }
                        match lock.number() {
                            Some(_) => lock.open(),
                            None => {
                                it.1 = slot << 16 | (round + 1);
                                lock.make(it.1);
                            }
                        }
                        it.0 += 1;
                        drop((it, lock));
                        let lock = node.lock_target(slot, key).unwrap();
                        let mut it = known[key as usize].lock().unwrap();
                        it.0 -= 1;
                        assert_eq!(lock.close(), it.0 == 0, "key {key}");
                    }
                });
            }
        });
        assert_eq!(full.into_inner(), 0, "there were always more than they had open");
        assert_eq!(owner.targets() as usize, TARGETS_MAX - LEFT);
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
