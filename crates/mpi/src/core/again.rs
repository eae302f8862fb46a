//! Small collectives that a program calls again and again: what was prepared for one is kept with its communicator, and
//! the next like it runs at once, by the short way of messages. From where that does not take it further, the long way
//! goes on with the same operation.
use super::collective::Collective;
use super::layout::is_somewhere;
use super::op::Combine;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;
use proto::coll::{Schedule, Step};

/// Operations that a communicator keeps.
const KEPT_MAX: usize = 8;
/// Longest message of one that is kept, and most working memory.
const MESSAGE_MAX: usize = 8 << 10;
const SCRATCH_MAX: usize = 64 << 10;
/// Most steps.
const STEPS_MAX: usize = 256;

/// What two calls have in common whose operations differ in their buffers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Likeness {
    what: What,
    count: i64,
    ty: TypeId,
    /// Of what is sent, where that may be something else.
    sent: (i64, TypeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Barrier,
    Bcast { root: i32 },
    Allreduce { op: OpId, in_place: bool },
    ReduceScatterBlock { op: OpId, in_place: bool },
    Reduce { op: OpId, root: i32, in_place: bool },
    Allgather,
    Alltoall,
}

impl Likeness {
    /// `None` for calls that are not kept: of other kinds, or with datatypes and operations of the program, which come
    /// and go.
    #[inline]
    pub(super) fn of(call: &Coll<'_>) -> Option<Likeness> {
        let (what, data, sent) = match *call {
            Coll::Barrier => (What::Barrier, RecvData::NONE, SendData::NONE),
            Coll::Bcast { data, root: Peer::Rank(root) } => (What::Bcast { root }, data, SendData::NONE),
            Coll::Allreduce(Reduction { send, recv, op }) => {
                (What::Allreduce { op, in_place: send.is_in_place() }, recv, SendData::NONE)
            }
            Coll::ReduceScatterBlock(Reduction { send, recv, op }) => {
                (What::ReduceScatterBlock { op, in_place: send.is_in_place() }, recv, SendData::NONE)
            }
            Coll::Reduce { of: Reduction { send, recv, op }, root: Peer::Rank(root) } => {
                (What::Reduce { op, root, in_place: send.is_in_place() }, recv, SendData::NONE)
            }
            Coll::Allgather { send, recv } if !send.buf.is_in_place() => (What::Allgather, recv, send),
            Coll::Alltoall { send, recv } if !send.buf.is_in_place() => (What::Alltoall, recv, send),
            _ => return None,
        };
        let predefined = data.ty.0 < TypeId::PREDEFINED && sent.ty.0 < TypeId::PREDEFINED;
        predefined.then_some(Likeness { what, count: data.count, ty: data.ty, sent: (sent.count, sent.ty) })
    }

    /// Can an operation that is kept be run as another? A program whose processes broadcast in turn has one, not one for
    /// each root: it has other steps, and all else in common.
    fn serves(self, other: Likeness) -> bool {
        match (self.what, other.what) {
            (What::Bcast { .. }, What::Bcast { .. }) => Likeness { what: other.what, ..self } == other,
            _ => self == other,
        }
    }
}

/// Where an operation finds the program's bytes, or `None` for mistakes that the long way names. A block of a buffer with
/// one for each process has `block` bytes.
#[inline]
fn buffers(call: &Coll<'_>, rank: u32, block: usize) -> Option<(SendBuf, RecvBuf)> {
    let (send, recv, written) = match *call {
        Coll::Bcast { data: Data { buf, .. }, .. } => {
            return (!buf.is_in_place() && is_somewhere(buf, 0)).then_some((SendBuf::NONE, buf));
        }
        Coll::Reduce { of: Reduction { send, .. }, root } if root != Peer::Rank(rank as i32) => {
            return is_somewhere(send, 0).then_some((send, RecvBuf::NONE));
        }
        Coll::Allreduce(Reduction { send, recv, .. })
        | Coll::ReduceScatterBlock(Reduction { send, recv, .. })
        | Coll::Reduce { of: Reduction { send, recv, .. }, .. } => (send, recv.buf, 0),
        Coll::Allgather { send, recv } => (send.buf, recv.buf, rank as usize * block),
        Coll::Alltoall { send, recv } => (send.buf, recv.buf, 0),
        _ => return Some((SendBuf::NONE, RecvBuf::NONE)),
    };
    if recv.is_in_place() || !is_somewhere(recv, 0) {
        return None;
    }
    if send.is_in_place() {
        return Some((recv.as_source(), recv));
    }
    let aliased = send.as_ptr() == recv.as_source().as_ptr().wrapping_add(written);
    (!aliased && is_somewhere(send, 0)).then_some((send, recv))
}

/// What became of a collective that may run as an earlier one.
pub(super) enum Again {
    /// It has ended well.
    Done,
    /// It was begun, and went on the long way.
    Begun(Result<Blocking>),
    /// Nothing has been done.
    Not,
}

impl Mpi {
    /// Runs a collective as an earlier one was run, if there was one like it.
    #[inline]
    pub(super) fn again(&mut self, at: CommId, call: &Coll<'_>) -> Again {
        let Some((mut c, sequence, input, output)) = self.take_kept(at, call) else { return Again::Not };
        c.repeat(sequence, input, output);
        if !c.hasten(&mut self.endpoint) {
            return Again::Begun(self.run(at, c));
        }
        if let Some(comm) = self.comms.get_mut(at.0) {
            comm.kept.push(c);
        }
        Again::Done
    }

    /// What is kept for a call, ready for its steps; and what it needs for this one.
    #[inline(always)]
    fn take_kept(&mut self, at: CommId, call: &Coll<'_>) -> Option<(Box<Collective>, i32, SendBuf, RecvBuf)> {
        let likeness = Likeness::of(call)?;
        let comm = self.comms.get_mut(at.0)?;
        let place =
            comm.kept.iter().rposition(|kept| kept.likeness.is_some_and(|kept| kept.serves(likeness)))?;
        let block = likeness.count as usize * self.types.get(likeness.ty.0)?.ty.size;
        let (input, output) = buffers(call, comm.roster.rank, block)?;
        if !self.is_quiet() {
            return None;
        }
        let comm = self.comms.get_mut(at.0)?;
        // (The first is the one that was not used for the longest time.)
        let is_last = place + 1 == comm.kept.len();
        let mut c = if is_last { comm.kept.pop()? } else { comm.kept.remove(place) };
        if c.likeness != Some(likeness) && !self.turn(&mut c, likeness, block) {
            self.recycle(c);
            return None;
        }
        let sequence = self.comms.get_mut(at.0)?.take_sequence();
        Some((c, sequence, input, output))
    }

    /// Makes a kept operation one of another root. Are its steps still of the kind that is kept?
    fn turn(&mut self, c: &mut Collective, likeness: Likeness, bytes: usize) -> bool {
        let What::Bcast { root } = likeness.what else { return false };
        let turned = self.turn_to(c, root, bytes) && is_small(&c.schedule);
        c.likeness = Some(likeness);
        c.make_room();
        turned
    }

    /// What becomes of an operation that has ended.
    pub(super) fn put_away(&mut self, comm: CommId, mut c: Box<Collective>) {
        let Some(entry) = self.comms.get_mut(comm.0).filter(|_| c.may_be_kept()) else {
            return self.recycle(c);
        };
        let is_there = |likeness: Likeness| {
            entry.kept.iter().filter_map(|kept| kept.likeness).any(|kept| kept.serves(likeness))
        };
        if c.likeness.is_some_and(is_there) {
            return self.recycle(c);
        }
        c.shed();
        entry.kept.push(c);
        if entry.kept.len() > KEPT_MAX {
            let oldest = entry.kept.remove(0);
            self.recycle(oldest);
        }
    }
}

impl Collective {
    /// Does it work in the program's memory only, with few small messages, and without asking the program?
    fn may_be_kept(&self) -> bool {
        self.likeness.is_some()
            && self.has_ended_well()
            && self.loads.is_empty()
            && self.stores.is_empty()
            && matches!(self.combine, None | Some(Combine::Kernel(_)))
            && is_small(&self.schedule)
    }
}

/// Do these steps exchange small messages and nothing else?
fn is_small(schedule: &Schedule) -> bool {
    let step = |step: &Step| match step {
        Step::Send { from: slice, .. } | Step::Recv { into: slice, .. } => slice.len <= MESSAGE_MAX,
        Step::Copy { .. }
        | Step::Reduce { .. }
        | Step::Wait
        | Step::Declare { .. }
        | Step::Compare { .. } => true,
        _ => false,
    };
    schedule.scratch_bytes() <= SCRATCH_MAX
        && schedule.steps().len() <= STEPS_MAX
        && schedule.steps().iter().all(step)
}
