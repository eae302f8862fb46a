//! Receive-only ends that the processes of a node share: one for each process elsewhere that sends to this node.
//!
//! A target is there as long as one process of the node has it open, whichever opened it first: it outlives that one. Each
//! process has a bit for each target in a row of its own, so that a killed process is corrected by clearing its row. Which
//! cell is whose stays as it is until the segment ends: processes elsewhere are not more than there are peers.
use super::NodeSegment;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// Most processes elsewhere that a node tells apart.
pub const TARGETS_MAX: usize = 4096;
const ROW_WORDS: usize = TARGETS_MAX / 64;

/// Bytes of the cells and of the rows.
pub(super) fn bytes_of(slots: u32) -> usize {
    TARGETS_MAX * 8 + slots as usize * ROW_WORDS * 8
}

impl NodeSegment {
    /// The process in `slot` opens the target of the process elsewhere that `key` (not 0) names: its number, from 1 on, and
    /// whether another process of the node had it open. `None`: the table is full.
    pub fn open_target(&self, slot: u32, key: u64) -> Option<(u32, bool)> {
        let cell = self.cell_of(key)?;
        let shared = self.is_target_open(cell);
        self.row_word(slot, cell / 64).fetch_or(1 << (cell % 64), Ordering::SeqCst);
        Some((cell as u32 + 1, shared))
    }

    /// The process in `slot` needs it no more. Is it gone?
    pub fn close_target(&self, slot: u32, number: u32) -> bool {
        let Some(cell) = (number as usize).checked_sub(1).filter(|cell| *cell < TARGETS_MAX) else {
            return false;
        };
        self.row_word(slot, cell / 64).fetch_and(!(1 << (cell % 64)), Ordering::SeqCst);
        !self.is_target_open(cell)
    }

    /// Targets that some process of the node has open.
    pub fn targets(&self) -> u32 {
        let word = |word: usize| self.rows(word).fold(0, |all, row| all | row);
        (0..ROW_WORDS).map(|index| word(index).count_ones()).sum()
    }

    pub(super) fn clear_targets(&self, slot: u32) {
        // (A page that nobody has written stays so.)
        for word in (0..ROW_WORDS).map(|index| self.row_word(slot, index)) {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::SeqCst);
            }
        }
    }

    fn is_target_open(&self, cell: usize) -> bool {
        self.rows(cell / 64).any(|row| row >> (cell % 64) & 1 == 1)
    }

    fn rows(&self, index: usize) -> impl Iterator<Item = u64> {
        (0..self.facts.slots).map(move |slot| self.row_word(slot, index).load(Ordering::SeqCst))
    }

    /// The cell of a process elsewhere; a free one becomes its own.
    fn cell_of(&self, key: u64) -> Option<usize> {
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % TARGETS_MAX;
        (0..TARGETS_MAX).map(|step| (first + step) % TARGETS_MAX).find(|cell| {
            let word = self.map.u64_at(self.at_targets + cell * 8);
            match word.load(Ordering::Acquire) {
                0 => match word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => true,
                    Err(other) => other == key,
                },
                other => other == key,
            }
        })
    }

    fn row_word(&self, slot: u32, index: usize) -> &AtomicU64 {
        assert!(slot < self.facts.slots && index < ROW_WORDS);
        self.map.u64_at(self.at_targets + (TARGETS_MAX + slot as usize * ROW_WORDS + index) * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts;
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
        assert!(owner.open_target(2, 5).unwrap().1);
    }
}
