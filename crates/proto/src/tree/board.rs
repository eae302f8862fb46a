//! The bulletin board of one node.
use super::Entry;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Most bytes of keys and values that a board holds.
pub const BOARD_BYTES_MAX: usize = 256 << 20;

/// The board has no room for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bulletin board is full: {used} of {BOARD_BYTES_MAX} bytes used, {wanted} more wanted")]
pub struct BoardFull {
    /// Bytes in use.
    pub used: usize,
    /// Bytes of the entry.
    pub wanted: usize,
}

/// Keys of earlier phases, and those put since the last barrier.
#[derive(Debug, Default)]
pub(super) struct Board {
    settled: BTreeMap<Vec<u8>, Vec<u8>>,
    fresh: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl Board {
    /// Puts an entry of this phase; a later put of the same key replaces it.
    pub(super) fn put(&mut self, entry: Entry) -> Result<(), BoardFull> {
        let wanted = entry.key.len() + entry.value.len();
        if self.bytes + wanted > BOARD_BYTES_MAX {
            return Err(BoardFull { used: self.bytes, wanted });
        }
        self.bytes += wanted;
        let key_bytes = entry.key.len();
        if let Some(old) = self.fresh.insert(entry.key, entry.value) {
            self.bytes -= old.len() + key_bytes;
        }
        Ok(())
    }

    /// The value of `key`, if it is known here.
    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.fresh.get(key).or_else(|| self.settled.get(key)).map(Vec::as_slice)
    }

    /// Takes out what was put in this phase.
    pub(super) fn take_fresh(&mut self) -> Vec<Entry> {
        let fresh = core::mem::take(&mut self.fresh);
        self.bytes -= fresh.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        fresh.into_iter().map(|(key, value)| Entry { key, value }).collect()
    }

    /// Keeps entries of a phase that ended.
    pub(super) fn settle(&mut self, entries: Vec<Entry>) -> Result<(), BoardFull> {
        for Entry { key, value } in entries {
            let wanted = key.len() + value.len();
            if self.bytes + wanted > BOARD_BYTES_MAX {
                return Err(BoardFull { used: self.bytes, wanted });
            }
            self.bytes += wanted;
            let key_bytes = key.len();
            if let Some(old) = self.settled.insert(key, value) {
                self.bytes -= old.len() + key_bytes;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_a_key_does_not_grow_the_count() {
        let mut board = Board::default();
        let entry = |value: &[u8]| Entry { key: b"k".to_vec(), value: value.to_vec() };
        for _ in 0..3 {
            board.put(entry(b"1")).unwrap();
            board.put(entry(b"12345")).unwrap();
            let fresh = board.take_fresh();
            board.settle(fresh).unwrap();
            assert_eq!(board.bytes, 6);
        }
        assert_eq!(board.get(b"k"), Some(&b"12345"[..]));
    }

    #[test]
    fn a_full_board_refuses_and_keeps_what_it_has() {
        let mut board = Board::default();
        let entry = |key: u8, bytes: usize| Entry { key: alloc::vec![key], value: alloc::vec![0; bytes] };
        board.put(entry(1, BOARD_BYTES_MAX - 1)).unwrap();
        assert_eq!(board.put(entry(2, 0)), Err(BoardFull { used: BOARD_BYTES_MAX, wanted: 1 }));
        assert!(board.get(&[1]).is_some() && board.get(&[2]).is_none());
    }
}
