//! A connection, and the queue pair that it sends by: its own, or one that it shares.
use super::ready::Meeting;
use super::receive::Which;
use super::shared::Initiator;
use super::{WINDOW_FIRST, WORK_MAX};
use crate::state::QpState;
use std::rc::Rc;
use verbs::{Operation, Piece, VerbsError, Work};

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub state: QpState,
    pub end: End,
    /// What the peer calls it: the number of its queue pair, or what goes beside messages to it.
    pub name: u32,
    pub psn: u32,
    /// Does the peer receive?
    pub meeting: Meeting,
    /// Messages that may still be sent, and those of the peer's that were taken and not told.
    pub window: u32,
    pub taken: u32,
    /// The peer's window.
    pub granted: u32,
    /// Work requests that have not completed, and those of them that are messages of which nothing is kept.
    pub busy: u32,
    pub copied: u32,
    pub traffic: u64,
    /// What was sent, and what came.
    pub sent: u16,
    pub seen: u16,
    pub peer_frugal: bool,
    /// Has the peer to hear something: that this side is there, or whether it is short of memory?
    pub tell: bool,
}

/// What a connection sends by.
#[derive(Debug)]
pub(super) enum End {
    Own(verbs::Qp),
    Shared(Half),
}

/// The sending half of a connection that is shared. It receives by the target that its node has for the peer.
#[derive(Debug)]
pub(super) struct Half {
    pub ini: Rc<Initiator>,
    /// The process at the other end, by the number that nobody had before.
    pub peer: u64,
    /// The peer's receive queue, and what the peer calls the connection.
    pub srq: u32,
    pub to: u32,
}

impl Link {
    pub(super) fn new(end: End, name: u32, psn: u32, tell: bool) -> Self {
        Link {
            state: QpState::Reset,
            end,
            name,
            psn,
            meeting: Meeting::default(),
            window: WINDOW_FIRST,
            taken: 0,
            granted: WINDOW_FIRST,
            busy: 0,
            copied: 0,
            traffic: 0,
            sent: 0,
            seen: 0,
            peer_frugal: false,
            tell,
        }
    }

    /// Is there room for a message, at the peer and here?
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.state == QpState::ReadyToSend && self.meeting.open && self.window > 0 && self.has_work_left()
    }

    /// Does the queue pair take more work?
    #[inline]
    pub(super) fn has_work_left(&self) -> bool {
        match &self.end {
            End::Own(_) => self.busy < WORK_MAX,
            End::Shared(half) => half.ini.has_work_left(),
        }
    }

    /// How many messages that were taken the peer has to hear of: early enough, and seldom.
    pub(super) fn tell_at(&self) -> u32 {
        (self.granted / 4).max(WINDOW_FIRST / 2)
    }

    /// The queue pair that it sends by.
    #[inline]
    pub(super) fn qp(&self) -> &verbs::Qp {
        match &self.end {
            End::Own(qp) => qp,
            End::Shared(half) => &half.ini.qp,
        }
    }

    pub(super) fn half(&self) -> Option<&Half> {
        match &self.end {
            End::Own(_) => None,
            End::Shared(half) => Some(half),
        }
    }

    pub(super) fn half_mut(&mut self) -> Option<&mut Half> {
        match &mut self.end {
            End::Own(_) => None,
            End::Shared(half) => Some(half),
        }
    }

    /// The number of the queue pair that work of it has in common with that of other connections; 0: none.
    pub(super) fn via(&self) -> u32 {
        self.half().map_or(0, |half| half.ini.qp.num())
    }

    /// Does it send by this one?
    pub(super) fn sends_by(&self, ini: &Rc<Initiator>) -> bool {
        self.half().is_some_and(|half| Rc::ptr_eq(&half.ini, ini))
    }

    /// Where its messages come in.
    pub(super) fn inlet(&self) -> Which {
        match &self.end {
            End::Own(_) => Which::Own,
            End::Shared(_) => Which::Shared,
        }
    }

    /// Sends bytes that are copied now.
    #[inline]
    pub(super) fn send_copied(&self, id: u64, pieces: &[Piece<'_>]) -> Result<(), VerbsError> {
        match &self.end {
            End::Own(qp) => qp.send_copied(id, pieces),
            End::Shared(half) => half.ini.qp.send_copied_to(id, pieces, half.srq, half.to),
        }
    }

    /// Posts work. Of a connection that is shared, messages say whose they are, and everything whom it is for.
    pub(super) fn post(&self, id: u64, operation: Operation<'_>) -> Result<(), VerbsError> {
        let work = Work::new(id, operation);
        match &self.end {
            End::Own(qp) => qp.post(&work),
            End::Shared(half) => {
                let immediate = matches!(operation, Operation::Send(_)).then_some(half.to);
                half.ini.qp.post(&Work { srq: Some(half.srq), immediate, ..work })
            }
        }
    }

    /// Work was posted.
    #[inline]
    pub(super) fn begins(&mut self) {
        self.busy += 1;
        self.traffic += 1;
        if let End::Shared(half) = &self.end {
            half.ini.begins();
        }
    }

    /// Work has ended.
    #[inline]
    pub(super) fn ends(&mut self) {
        self.busy -= 1;
        if let End::Shared(half) = &self.end {
            half.ini.ends();
        }
    }
}
