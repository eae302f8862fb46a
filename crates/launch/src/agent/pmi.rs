//! The PMI service for one rank: its descriptor and what goes over it. Which version a client speaks shows in its
//! first line; the versions themselves are [`one`] and [`two`].
mod one;
mod two;

use super::asks::{Asker, Asks};
use crate::job::{Group, Tree};
use one::One;
use proto::board::Board;
use proto::ids::Rank;
use proto::lane::Bytes;
use proto::pmi2::{NodeAttributes, RequestId};
use proto::tree::{Answer, PmiState, Question};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};
use two::Two;

/// Replies a client may leave unread. It waits for most of them, so more is nonsense.
const UNREAD_BYTES_MAX: usize = 256 << 10;
const READ_BYTES: usize = 16 << 10;

/// A rank's side of the conversation.
#[derive(Debug)]
pub(crate) struct PmiClient {
    fd: Option<OwnedFd>,
    token: u64,
    interest: Interest,
    unsent: Vec<u8>,
    version: Version,
}

/// What a client speaks. It has version 2 until it says otherwise: that one knows both greetings.
#[derive(Debug)]
enum Version {
    One(One),
    Two(Two),
}

/// What a rank said that is not for its agent alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It wants the job to end.
    Abort(i32, String),
    /// It broke the protocol.
    Nonsense(String),
}

/// The attributes that ranks of a job leave for each other on a node. Who waits for one is a local rank's request.
pub(crate) type Attributes = NodeAttributes<(u32, RequestId)>;

/// A local rank that has waited for an attribute which is there now.
#[derive(Debug)]
pub(crate) struct Woken {
    pub(crate) slot: u32,
    pub(crate) request: RequestId,
    pub(crate) value: Vec<u8>,
}

/// What the service needs to serve a rank.
pub(crate) struct RequestContext<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) group: &'a Group,
    pub(crate) rank: Rank,
    pub(crate) slot: u32,
    pub(crate) seat: u32,
    pub(crate) board: &'a mut Board,
    pub(crate) asks: &'a mut Asks,
    pub(crate) attributes: &'a mut Attributes,
    /// Whom the caller has to answer next.
    pub(crate) woken: &'a mut VecDeque<Woken>,
    /// For how many seconds the rank has waited, if it has just said so.
    pub(crate) waiting: &'a mut Option<u32>,
}

impl RequestContext<'_> {
    /// Asks the launcher. The error is for the rank.
    fn ask(&mut self, request: RequestId, question: Question) -> Result<(), String> {
        let asker = Asker { seat: self.seat, request };
        self.asks.ask(asker, question).map_err(|error| error.to_string())
    }

    /// The placement of ranks, as clients ask for it.
    fn mapping(&self) -> String {
        self.group.placement.to_string()
    }
}

impl PmiClient {
    pub(crate) fn new(token: u64) -> Self {
        PmiClient {
            fd: None,
            token,
            interest: Interest::Read,
            unsent: Vec::new(),
            version: Version::Two(Two::default()),
        }
    }

    pub(crate) fn open(&mut self, fd: OwnedFd, poll: &Poll) -> io::Result<()> {
        socket::set_nonblocking(fd.as_fd())?;
        poll.add(fd.as_fd(), self.token, Interest::Read)?;
        self.fd = Some(fd);
        Ok(())
    }

    pub(crate) fn close(&mut self, poll: &Poll) {
        if let Some(fd) = self.fd.take() {
            let _ = poll.remove(fd.as_fd());
        }
    }

    pub(crate) fn state(&self) -> PmiState {
        match &self.version {
            Version::One(one) => one.state(),
            Version::Two(two) => two.state(),
        }
    }

    /// Reads and answers what is there.
    pub(crate) fn serve(
        &mut self,
        context: &mut RequestContext<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        let mut bytes = [0; READ_BYTES];
        while let Some(fd) = &self.fd {
            match socket::read(fd.as_fd(), &mut bytes)? {
                Transfer::Bytes(n) => {
                    let said = self.act(poll, |version, out| version.hear(&bytes[..n], context, out))?;
                    if said.is_some() {
                        return Ok(said);
                    }
                }
                Transfer::WouldBlock => break,
                Transfer::Closed => self.close(poll),
            }
        }
        self.flush(poll)?;
        Ok(None)
    }

    /// The fence that this rank may be in is over.
    pub(crate) fn release(
        &mut self,
        context: &mut RequestContext<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        self.act(poll, |version, out| match version {
            Version::One(one) => one.release(context, out),
            Version::Two(two) => two.release(context, out),
        })
    }

    /// The board knows a key that this rank asked for.
    pub(crate) fn got(
        &mut self,
        key: &[u8],
        value: Option<&Bytes>,
        context: &mut RequestContext<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        self.act(poll, |version, out| match version {
            Version::One(one) => one.got(value, context, out),
            Version::Two(two) => two.got(key, value, context, out),
        })
    }

    /// The launcher answered.
    pub(crate) fn answered(
        &mut self,
        request: RequestId,
        answer: &Answer,
        context: &mut RequestContext<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        self.act(poll, |version, out| match version {
            Version::One(one) => one.answered(answer, context, out),
            Version::Two(two) => two.answered(request, answer, context, out),
        })
    }

    /// An attribute that this rank waits for is there.
    pub(crate) fn wake(
        &mut self,
        woken: &Woken,
        context: &mut RequestContext<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        self.act(poll, |version, out| match version {
            Version::One(_) => Ok(()),
            Version::Two(two) => two.wake(woken, context, out),
        })
    }

    fn act(
        &mut self,
        poll: &Poll,
        act: impl FnOnce(&mut Version, &mut Vec<u8>) -> Result<(), Said>,
    ) -> io::Result<Option<Said>> {
        let outcome = act(&mut self.version, &mut self.unsent);
        self.flush(poll)?;
        Ok(outcome.err().inspect(|_| self.close(poll)))
    }

    fn flush(&mut self, poll: &Poll) -> io::Result<()> {
        let Some(fd) = &self.fd else {
            self.unsent.clear();
            return Ok(());
        };
        let mut sent = 0;
        let mut closed = false;
        while sent < self.unsent.len() && !closed {
            match socket::write(fd.as_fd(), &self.unsent[sent..])? {
                Transfer::Bytes(n) => sent += n,
                Transfer::WouldBlock => break,
                Transfer::Closed => closed = true,
            }
        }
        self.unsent.drain(..sent);
        let wanted = if self.unsent.is_empty() { Interest::Read } else { Interest::ReadWrite };
        if wanted != self.interest {
            poll.change(fd.as_fd(), self.token, wanted)?;
            self.interest = wanted;
        }
        if closed || self.unsent.len() > UNREAD_BYTES_MAX {
            self.close(poll);
        }
        Ok(())
    }
}

impl Version {
    fn hear(
        &mut self,
        bytes: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        match self {
            Version::One(one) => one.hear(bytes, context, out),
            Version::Two(two) => {
                let Some(bytes) = two.hear(bytes, context, out)? else { return Ok(()) };
                let mut one = One::default();
                let outcome = one.hear(&bytes, context, out);
                *self = Version::One(one);
                outcome
            }
        }
    }
}

fn nonsense(error: impl std::fmt::Display) -> Said {
    Said::Nonsense(error.to_string())
}
