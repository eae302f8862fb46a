//! Letters that wait for receives, and receives that wait for letters.
use super::{LETTERS_BYTES_MAX, LETTERS_MAX, Letter, RECVS_MAX};
use crate::ids::Rank;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Recv {
    from: Option<Rank>,
    tag: u32,
}

impl Recv {
    fn wants(&self, letter: &Letter) -> bool {
        self.tag == letter.tag && self.from.is_none_or(|from| from == letter.from)
    }
}

#[derive(Debug, Default)]
struct Desk {
    letters: VecDeque<Letter>,
    recvs: VecDeque<Recv>,
}

/// By local number of the receiver.
#[derive(Debug)]
pub(super) struct Letters {
    desks: Vec<Desk>,
    waiting: usize,
    bytes: usize,
}

impl Letters {
    pub(super) fn new(clients: usize) -> Self {
        Letters { desks: (0..clients).map(|_| Desk::default()).collect(), waiting: 0, bytes: 0 }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The letter again, if a receive waits for it. An error: there is no room for it.
    pub(super) fn deliver(&mut self, slot: u32, letter: Letter) -> Result<Option<Letter>, ()> {
        let desk = &mut self.desks[slot as usize];
        if let Some(at) = desk.recvs.iter().position(|recv| recv.wants(&letter)) {
            desk.recvs.remove(at);
            return Ok(Some(letter));
        }
        if self.waiting >= LETTERS_MAX || self.bytes + letter.data.len() > LETTERS_BYTES_MAX {
            return Err(());
        }
        self.waiting += 1;
        self.bytes += letter.data.len();
        desk.letters.push_back(letter);
        Ok(None)
    }

    /// The first letter that fits, if one waits. An error: too many receives are open.
    pub(super) fn recv(&mut self, slot: u32, from: Option<Rank>, tag: u32) -> Result<Option<Letter>, ()> {
        let recv = Recv { from, tag };
        let desk = &mut self.desks[slot as usize];
        let found = desk.letters.iter().position(|letter| recv.wants(letter));
        if let Some(letter) = found.and_then(|at| desk.letters.remove(at)) {
            self.waiting -= 1;
            self.bytes -= letter.data.len();
            return Ok(Some(letter));
        }
        if desk.recvs.len() >= RECVS_MAX {
            return Err(());
        }
        desk.recvs.push_back(recv);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(from: u32, tag: u32, bytes: usize) -> Letter {
        Letter { from: Rank(from), to: Rank(0), tag, data: alloc::vec![0; bytes].into() }
    }

    #[test]
    fn letters_wait_within_bounds() {
        let mut letters = Letters::new(1);
        let large = LETTERS_BYTES_MAX / 4;
        for from in 0..4 {
            assert_eq!(letters.deliver(0, letter(from, 1, large)), Ok(None));
        }
        assert_eq!(letters.deliver(0, letter(4, 1, 1)), Err(()));
        assert_eq!(letters.recv(0, Some(Rank(2)), 1), Ok(Some(letter(2, 1, large))));
        assert_eq!(letters.recv(0, None, 1), Ok(Some(letter(0, 1, large))));
        assert_eq!(letters.deliver(0, letter(4, 1, 1)), Ok(None));
        assert_eq!(letters.waiting(), 3);
    }

    #[test]
    fn receives_wait_within_bounds_and_in_order() {
        let mut letters = Letters::new(1);
        for tag in 0..RECVS_MAX as u32 {
            assert_eq!(letters.recv(0, None, tag % 2), Ok(None));
        }
        assert_eq!(letters.recv(0, None, 0), Err(()));
        assert_eq!(letters.deliver(0, letter(7, 1, 3)), Ok(Some(letter(7, 1, 3))));
        assert_eq!(letters.recv(0, None, 0), Ok(None));
        assert_eq!(letters.deliver(0, letter(7, 9, 3)), Ok(None), "nobody wants tag 9");
    }
}
