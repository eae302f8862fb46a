//! Collective operations: the call as data, and three ways to run it.
use super::comm::Roster;
use super::kernels::kernel;
use super::op::Combine;
use super::predefined::{Meaning, Scalar};
use super::request::Request;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;
use proto::coll::{Elements, allgather, allreduce};
use std::rc::Rc;

/// Where the blocks of the processes are, in a collective with varying counts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Elements, by rank.
    pub counts: &'a [i64],
    /// Distance from the buffer's start, by rank, in extents of the datatype.
    pub displs: &'a [i64],
    /// The datatype of all blocks.
    pub ty: TypeId,
}

/// A collective call. `SendBuf::IN_PLACE` (and `RecvBuf::IN_PLACE` for scatter) as in the standard. Arguments
/// that are significant only at the root are ignored elsewhere.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Coll<'a> {
    Barrier,
    Bcast {
        buf: RecvBuf,
        count: i64,
        ty: TypeId,
        root: Peer,
    },
    Gather {
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
        root: Peer,
    },
    Gatherv {
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        parts: Parts<'a>,
        root: Peer,
    },
    Scatter {
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
        root: Peer,
    },
    Scatterv {
        send: SendBuf,
        parts: Parts<'a>,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
        root: Peer,
    },
    Allgather {
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
    },
    Allgatherv {
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        parts: Parts<'a>,
    },
    Alltoall {
        send: SendBuf,
        scount: i64,
        sty: TypeId,
        recv: RecvBuf,
        rcount: i64,
        rty: TypeId,
    },
    Alltoallv {
        send: SendBuf,
        sparts: Parts<'a>,
        recv: RecvBuf,
        rparts: Parts<'a>,
    },
    /// Displacements are in bytes here, and every block has its own datatype.
    Alltoallw {
        send: SendBuf,
        scounts: &'a [i64],
        sdispls: &'a [i64],
        stypes: &'a [TypeId],
        recv: RecvBuf,
        rcounts: &'a [i64],
        rdispls: &'a [i64],
        rtypes: &'a [TypeId],
    },
    Reduce {
        send: SendBuf,
        recv: RecvBuf,
        count: i64,
        ty: TypeId,
        op: OpId,
        root: Peer,
    },
    Allreduce {
        send: SendBuf,
        recv: RecvBuf,
        count: i64,
        ty: TypeId,
        op: OpId,
    },
    ReduceScatter {
        send: SendBuf,
        recv: RecvBuf,
        counts: &'a [i64],
        ty: TypeId,
        op: OpId,
    },
    ReduceScatterBlock {
        send: SendBuf,
        recv: RecvBuf,
        count: i64,
        ty: TypeId,
        op: OpId,
    },
    Scan {
        send: SendBuf,
        recv: RecvBuf,
        count: i64,
        ty: TypeId,
        op: OpId,
    },
    Exscan {
        send: SendBuf,
        recv: RecvBuf,
        count: i64,
        ty: TypeId,
        op: OpId,
    },
}

impl Mpi {
    /// Runs a collective and waits for it.
    pub fn collective(&mut self, comm: CommId, call: Coll<'_>) -> Result<Blocking> {
        let mut operation = self.prepare(comm, call)?;
        operation.tag = self.next_sequence(comm)?;
        self.run(comm, operation)
    }

    /// Starts a collective.
    pub fn icollective(&mut self, comm: CommId, call: Coll<'_>) -> Result<RequestId> {
        let mut operation = self.prepare(comm, call)?;
        operation.tag = self.next_sequence(comm)?;
        Ok(self.adopt(comm, operation))
    }

    /// Prepares a persistent collective; [`Mpi::start_request`] runs it.
    pub fn collective_init(&mut self, comm: CommId, call: Coll<'_>) -> Result<RequestId> {
        let operation = self.prepare(comm, call)?;
        let roster = operation.roster.clone();
        Ok(self.add_request(Request::persistent_collective(comm, operation, roster)))
    }

    /// The largest of everyone's numbers: how members of a roster agree on a new context.
    pub(super) fn internal_maximum(
        &mut self,
        roster: Rc<Roster>,
        context: u32,
        tag: i32,
        mine: u32,
    ) -> Result<u32> {
        let place = roster.place(self.cores);
        let mut c = self.fresh(roster);
        (c.context, c.tag) = (context, tag);
        c.combine = kernel(OpId::MAX, Meaning::Integer, Scalar::U64).map(Combine::Kernel);
        allreduce(&mut c.schedule, place, Elements { count: 1, unit: WORD, commutes: true });
        c.staging.reserve(2 * WORD);
        c.staging.set_word(0, u64::from(mine));
        (c.input, c.output) = (c.staging.as_send(), c.staging.as_recv().shifted(WORD as isize));
        self.run_through(&mut c)?;
        let largest = c.staging.word(1) as u32;
        self.recycle(c);
        Ok(largest)
    }

    /// Everyone's words, by rank.
    pub(super) fn internal_allgather<const N: usize>(
        &mut self,
        comm: CommId,
        mine: [u64; N],
    ) -> Result<Vec<[u64; N]>> {
        let tag = self.next_sequence(comm)?;
        let roster = self.comm(comm)?.roster.clone();
        let (place, context) = (roster.place(self.cores), roster.collective_context());
        let mut c = self.fresh(roster);
        (c.context, c.tag) = (context, tag);
        allgather(&mut c.schedule, place, N * WORD);
        c.staging.reserve((place.size as usize + 1) * N * WORD);
        for (index, word) in mine.iter().enumerate() {
            c.staging.set_word(index, *word);
        }
        (c.input, c.output) = (c.staging.as_send(), c.staging.as_recv().shifted((N * WORD) as isize));
        self.run_through(&mut c)?;
        let words = |rank: usize| std::array::from_fn(|index| c.staging.word((rank + 1) * N + index));
        let all = (0..place.size as usize).map(words).collect();
        self.recycle(c);
        Ok(all)
    }
}

const WORD: usize = size_of::<u64>();
