//! What goes through the data server of a node, in which order, and how the server learns of windows.
//!
//! A data server is a process of a node that has the memory of windows mapped, and does what processes of other nodes ask for,
//! so that the ranks of its node need not look.
//!
//! # One way for everything
//! Two processes that both do what one origin asks for could not keep its order. So **everything about a window that goes to a rank
//! of another node goes through the server of that node, if the server has the window's memory, and otherwise to the rank
//! itself**: operations, locks, flushes, and the words of active targets. Nothing goes both ways ([`way`]).
//!
//! * Operations and locks: the server does them in the order of each origin. Their locks are the words in the memory that
//!   processes of the node take too.
//! * A flush is answered behind what was asked before. So a fence (whose barrier begins behind the flush) and any message
//!   that a program sends behind a flush come after the operations.
//! * That an access is over ([`Kind::Complete`]) is an item behind the operations, which the server passes on to the rank
//!   when it has done them: it cannot overtake them. That memory is exposed ([`Kind::Post`]) follows no operation, and takes
//!   the same way only so that ranks of different nodes need no connection to each other.
//! * Copies straight into memory that the server has lent keep the order of the connection to the server, as those into the
//!   memory of a rank keep that of its own.
//!
//! What concerns only processes of one node does not come here: they have the memory mapped. One that gives a lock back for
//! which somebody waits in the server says so to the server.
//!
//! # Which windows
//! Memory that the node shares: allocated and shared windows. Memory of the program is not mapped in the server (windows that were
//! created, or are dynamic); copies by the kernel could not be atomic to the instructions of its own process, and to have accumulates
//! go to the rank and puts to the server would be two ways. These windows are served by their ranks.
//!
//! # How the server learns of them
//! The process that has made a node's memory sends a [`Record`] ([`Kind::Register`]), and the window is not made until the
//! server has answered with a number for it, or with none: then the ranks serve it. All processes of the window are told the
//! number. Numbers of windows themselves do not name one here: two groups of processes may use the same.
use super::wire::{Kind, Subject};
use crate::wire::{Reader, Writer};
use alloc::vec::Vec;

/// The handler of messages to a data server, and of what it says about windows that are being made.
pub const HANDLER: u32 = 8;

/// Most ranks of a node in one window.
pub const MATES_MAX: usize = 1 << 16;

/// No number of a window at a server.
pub const UNSERVED: u32 = 0;

/// By which way something about a window goes to a rank of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the data server of its node, which has this number for the window.
    Server(u32),
    /// To the rank.
    Rank,
}

/// By which way everything about a window goes to a rank, by the number that the server of its node has for it, and whether it is
/// of the own job: servers are known by job and node.
pub fn way(room: u32, is_own_job: bool) -> Way {
    if room == UNSERVED || !is_own_job { Way::Rank } else { Way::Server(room) }
}

/// May a data server map the memory of such a window: is all of it memory that the node shares?
pub fn can_serve(is_allocated: bool, has_server: bool) -> bool {
    is_allocated && has_server
}

/// A rank of a window whose memory is in a piece of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mate {
    /// Its rank in the window.
    pub rank: u32,
    /// Its rank in the job.
    pub process: u32,
    /// Where its memory begins.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
}

/// A window's memory on a node, for its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number by which the processes of the window know it.
    pub window: u32,
    /// Where the memory is found.
    pub place: [u64; 3],
    /// Its length.
    pub bytes: u64,
    /// Bytes of the words at the beginning: as many lines as there are mates, and more.
    pub words: u64,
    /// The ranks, in the order of their lines.
    pub mates: Vec<Mate>,
}

impl Record {
    /// As a message.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut to = Writer(&mut bytes);
        to.u32(self.window);
        for word in self.place {
            to.u64(word);
        }
        to.u64(self.bytes).u64(self.words).list(&self.mates, |to, mate| {
            to.u32(mate.rank).u32(mate.process).u64(mate.start).u64(mate.bytes);
        });
        bytes
    }

    /// From a message. `None`: it is none, or what it says does not fit together.
    pub fn parse(bytes: &[u8]) -> Option<Record> {
        let mut from = Reader::new(bytes);
        let window = from.u32()?;
        let place = [from.u64()?, from.u64()?, from.u64()?];
        let (bytes, words) = (from.u64()?, from.u64()?);
        let mate = |from: &mut Reader<'_>| {
            let (rank, process) = (from.u32()?, from.u32()?);
            Some(Mate { rank, process, start: from.u64()?, bytes: from.u64()? })
        };
        let record = Record { window, place, bytes, words, mates: from.list(mate)? };
        (from.is_at_end() && record.is_sound()).then_some(record)
    }

    /// Is everything inside the memory, and nobody's part among the words?
    fn is_sound(&self) -> bool {
        let is_inside = |mate: &Mate| {
            mate.start >= self.words
                && mate.start.checked_add(mate.bytes).is_some_and(|end| end <= self.bytes)
        };
        self.words <= self.bytes
            && self.bytes <= i64::MAX as u64
            && (1..=MATES_MAX).contains(&self.mates.len())
            && self.mates.iter().all(is_inside)
    }
}

/// The answer to a [`Record`]: whose argument names the window by its own number, and the server's number for it.
pub fn answer(window: u32, room: u32) -> (Subject, [u8; 4]) {
    (Subject { window, rank: 0, kind: Kind::Registered }, room.to_le_bytes())
}

/// The number in an answer.
pub fn room_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn record() -> Record {
        let mate = |rank: u32, start| Mate { rank, process: rank + 4, start, bytes: 4096 };
        let mates = vec![mate(0, 4096), mate(3, 8192)];
        Record { window: 7, place: [1, 2, 3], bytes: 12288, words: 4096, mates }
    }

    #[test]
    fn records_survive_the_wire_and_what_is_cut_off_is_found_out() {
        let bytes = record().emit();
        assert_eq!(Record::parse(&bytes), Some(record()));
        for len in 0..bytes.len() {
            assert_eq!(Record::parse(&bytes[..len]), None, "{len}");
        }
        let (subject, bytes) = answer(7, 12);
        assert_eq!((subject.window, subject.kind, room_of(&bytes)), (7, Kind::Registered, Some(12)));
        assert_eq!(room_of(&bytes[1..]), None);
    }

    #[test]
    fn records_that_reach_beyond_the_memory_are_none() {
        let refused = |change: fn(&mut Record)| {
            let mut record = record();
            change(&mut record);
            assert_eq!(Record::parse(&record.emit()), None);
        };
        refused(|record| record.mates[1].bytes += 1);
        refused(|record| record.mates[1].start = u64::MAX);
        refused(|record| record.mates[0].start = 4095);
        refused(|record| record.words = 12289);
        refused(|record| record.bytes = u64::MAX);
        refused(|record| record.mates.clear());
    }

    #[test]
    fn everything_goes_one_way() {
        assert_eq!(way(5, true), Way::Server(5));
        assert_eq!(way(UNSERVED, true), Way::Rank);
        assert_eq!(way(5, false), Way::Rank, "servers of other jobs are not known");
        assert!(can_serve(true, true) && !can_serve(true, false) && !can_serve(false, true));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(record) = Record::parse(&bytes) {
                prop_assert!(record.is_sound());
            }
        }
    }
}
