//! The short way of the commonest calls: bytes in a row, between connected processes of one host or through an RDMA device. Nothing
//! here makes an error: what is not for it, mistakes among it, is left to the long way ([`super::p2p`]).
use super::comm::{Comm, Roster};
use super::layout::Datatype;
use super::request::{Receiving, Request, State};
use super::*;
use crate::error::ErrorClass;
use net::{Envelope, Outcome, Pattern};
use std::rc::Rc;

impl Mpi {
    /// Sends, complete at once. `false`: it is not for this way, and nothing has been done.
    #[inline(always)]
    pub fn send_short(&mut self, comm: CommId, data: SendData, rank: i32, tag: i32) -> bool {
        let Some(comm) = self.comms.get(comm.0) else { return false };
        let roster = &*comm.roster;
        if rank as u32 >= roster.size || !is_tag(tag) {
            return false;
        }
        let Some((offset, bytes)) = self.row(data) else { return false };
        let envelope = Envelope { context: roster.context(), tag };
        let to = roster.members.at(rank as u32);
        self.endpoint.send_short(to, envelope, data.buf.range(offset, bytes))
    }

    /// Receives what is there or comes soon, or `None`: then nothing has been done.
    #[inline(always)]
    pub fn recv_short(&mut self, comm: CommId, data: RecvData, source: Source) -> Option<Status> {
        let (pattern, roster) = accepted(&self.comms, comm, source)?;
        let (offset, bytes) = self.row(data)?;
        if !self.is_quiet() {
            return None;
        }
        let end = self.endpoint.recv_short(pattern, data.buf.range(offset, bytes))?;
        let source = match source.peer {
            Peer::Any => roster.rank_of(self.endpoint.process_of(end.source)),
            known => known,
        };
        Some(Status { source, ..of_end(&end) })
    }

    /// Starts a receive, or `None`: then nothing has been done.
    #[inline(always)]
    pub fn irecv_short(&mut self, comm: CommId, data: RecvData, source: Source) -> Option<RequestId> {
        let (pattern, roster) = accepted(&self.comms, comm, source)?;
        let (offset, bytes) = self.row(data)?;
        if self.requests.is_full(self.requests_max) {
            return None;
        }
        let roster = roster.clone();
        let id = self.endpoint.irecv(pattern, data.buf.range(offset, bytes));
        let state = State::Recv(Receiving { id, roster, more: None });
        Some(RequestId(self.requests.place(Request::new(comm, state))))
    }

    /// The status of a plain receive that has ended, which is gone then; or `None`, and nothing has been done. The sender's
    /// rank is there only if it is wanted.
    #[inline(always)]
    pub fn take_short(&mut self, request: RequestId, wanted: bool) -> Option<Status> {
        let entry = self.requests.get(request.0)?;
        let State::Recv(Receiving { id, roster, more: None }) = &entry.state else { return None };
        if entry.recipe.is_some() {
            return None;
        }
        let end = self.endpoint.take_end(*id)?;
        let mut status = of_end(&end);
        if wanted {
            status.source = roster.rank_of(self.endpoint.process_of(end.source));
        }
        self.requests.remove(request.0);
        Some(status)
    }

    /// As [`Mpi::take_short`], of a receive whose message is there soon: waits for it, as long as one that comes at once takes.
    #[inline]
    pub fn await_short(&mut self, request: RequestId, wanted: bool) -> Option<Status> {
        let entry = self.requests.get(request.0)?;
        let State::Recv(Receiving { id, more: None, .. }) = entry.state else { return None };
        if !self.is_quiet() || !self.endpoint.ends_soon(id) {
            return None;
        }
        self.take_short(request, wanted)
    }

    /// Is there nothing but messages to be moved along?
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.running.is_empty() && self.orphans.is_empty() && self.buffers.is_idle()
    }

    /// Where bytes in a row begin, and how many they are.
    #[inline(always)]
    pub(in crate::core) fn row<B>(&self, data: Data<B>) -> Option<(isize, usize)> {
        let ty: &Datatype = &self.types.get(data.ty.0)?.ty;
        if data.count < 0 || !ty.committed.get() {
            return None;
        }
        ty.row(data.count as usize)
    }
}

/// What a receive accepts, and who is in its communicator.
#[inline(always)]
fn accepted(
    comms: &Slots<Comm>,
    comm: CommId,
    source: Source,
) -> Option<(Pattern<net::Process>, &Rc<Roster>)> {
    let roster = &comms.get(comm.0)?.roster;
    let from = match source.peer {
        Peer::Rank(rank) if (rank as u32) < roster.size => Some(roster.members.at(rank as u32)),
        Peer::Any => None,
        _ => return None,
    };
    let tag = match source.tag {
        Tag::Is(tag) if is_tag(tag) => Some(tag),
        Tag::Is(_) => return None,
        Tag::Any => None,
    };
    Some((Pattern { context: roster.context(), source: from, tag }, roster))
}

/// The status of a receive, but for its sender.
#[inline(always)]
fn of_end(end: &Outcome) -> Status {
    let error = if end.truncated { ErrorClass::Truncate } else { ErrorClass::Success };
    let (tag, cancelled) = (Tag::Is(end.tag), end.cancelled);
    Status { source: Peer::Any, tag, error, bytes: end.bytes, cancelled }
}

#[inline(always)]
fn is_tag(tag: i32) -> bool {
    (0..=TAG_UB).contains(&tag)
}
