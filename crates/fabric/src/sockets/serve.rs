//! Requests of peers for registered memory, and their answers to this side's.
use super::link::{Asked, Body, Dest, Request, Then};
use super::out::Lender;
use super::{Note, Sockets};
use crate::provider::{BreakReason, WorkError};
use proto::stream::{Frame, Place, Refusal};
use std::collections::VecDeque;

/// Requests of one peer that are not answered.
pub(super) const REQUESTS_MAX: usize = 1024;

impl Sockets {
    /// The peer reads registered memory: straight from there.
    pub(super) fn serve_read(&mut self, index: u32, id: u32, from: Place, len: usize) {
        let Some(link) = self.links.at_mut(index) else { return };
        if link.out.served() >= REQUESTS_MAX {
            return self.break_link(index, BreakReason::Nonsense("more requests than it may make"));
        }
        // What the program has registered and then given back to the system is not to be read.
        let piece = self.memory.find(from.key, from.addr, len).filter(|piece| piece.buf.is_mapped());
        let Some(piece) = piece else {
            return self.answer(index, Frame::Refused { id, why: Refusal::Key });
        };
        self.memory.hold(piece.number);
        link.out.push(&Frame::Bytes { id, len }.emit(), &mut self.spare);
        link.out.push_lent(piece.buf, Lender::Memory(piece.number));
        self.mark_dirty(index);
    }

    /// The peer writes registered memory: straight into it.
    pub(super) fn serve_write(&mut self, index: u32, id: u32, to: Place, len: usize) {
        let (to, then) = match self.memory.find(to.key, to.addr, len) {
            Some(piece) => {
                self.memory.hold(piece.number);
                (Dest::User(piece.buf.as_target()), Then::Written { id, number: piece.number })
            }
            None => (Dest::Unknown, Then::Denied { id }),
        };
        self.begin_body(index, Body { to, got: 0, len, then });
    }

    /// Changes a double word of registered memory. One thread serves all peers, so that their operations are atomic
    /// to each other.
    pub(super) fn serve_atomic(
        &mut self,
        index: u32,
        id: u32,
        at: Place,
        change: impl Fn(u64) -> Option<u64>,
    ) {
        let Some(piece) = self.memory.find(at.key, at.addr, 8) else {
            return self.answer(index, Frame::Refused { id, why: Refusal::Key });
        };
        if !at.addr.is_multiple_of(8) {
            return self.answer(index, Frame::Refused { id, why: Refusal::Atomic });
        }
        let mut bytes = [0; 8];
        piece.buf.copy_to(&mut bytes);
        let value = u64::from_ne_bytes(bytes);
        if let Some(new) = change(value) {
            piece.buf.as_target().copy_from_slice(&new.to_ne_bytes());
        }
        self.answer(index, Frame::Old { id, value });
    }

    /// Answers a request; answers to several leave together.
    pub(super) fn answer(&mut self, index: u32, frame: Frame) {
        if let Some(link) = self.links.at_mut(index) {
            link.out.push(&frame.emit(), &mut self.spare);
            self.mark_dirty(index);
        }
    }

    /// What the oldest request has asked for: straight into its buffer.
    pub(super) fn take_answer(&mut self, index: u32, id: u32, len: usize) {
        let asked = self.links.at(index).and_then(|link| link.asked.front());
        let to = match asked {
            Some(Asked { id: asked, what: Request::Read(to), .. }) if *asked == id && to.len() == len => *to,
            _ => return self.break_link(index, BreakReason::Nonsense("an answer to nothing")),
        };
        self.begin_body(index, Body { to: Dest::User(to), got: 0, len, then: Then::Answered });
    }

    pub(super) fn match_answer(
        &mut self,
        index: u32,
        id: u32,
        fits: impl Fn(&Request) -> bool,
        result: Result<u64, WorkError>,
    ) {
        let asked = self.links.at(index).and_then(|link| link.asked.front());
        match asked {
            Some(asked) if asked.id == id && fits(&asked.what) => self.answered(index, result),
            _ => self.break_link(index, BreakReason::Nonsense("an answer to nothing")),
        }
    }

    /// The oldest request is answered.
    pub(super) fn answered(&mut self, index: u32, result: Result<u64, WorkError>) {
        let Some(link) = self.links.at_mut(index) else { return };
        if let Some(asked) = link.asked.pop_front() {
            self.notes.push_back(Note::Done(asked.work, result));
        }
        if link.asked.is_empty() && link.asked.capacity() > 8 {
            link.asked = VecDeque::new();
        }
    }
}
