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

/// A collective call. `SendBuf::IN_PLACE` (and `RecvBuf::IN_PLACE` for scatter) as in the standard. Arguments
/// that are significant only at the root are ignored elsewhere.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Coll<'a> {
    Barrier,
    Bcast {
        data: RecvData,
        root: Peer,
    },
    Gather {
        send: SendData,
        recv: RecvData,
        root: Peer,
    },
    Gatherv {
        send: SendData,
        recv: Parts<'a, RecvBuf>,
        root: Peer,
    },
    Scatter {
        send: SendData,
        recv: RecvData,
        root: Peer,
    },
    Scatterv {
        send: Parts<'a, SendBuf>,
        recv: RecvData,
        root: Peer,
    },
    Allgather {
        send: SendData,
        recv: RecvData,
    },
    Allgatherv {
        send: SendData,
        recv: Parts<'a, RecvBuf>,
    },
    Alltoall {
        send: SendData,
        recv: RecvData,
    },
    Alltoallv {
        send: Parts<'a, SendBuf>,
        recv: Parts<'a, RecvBuf>,
    },
    Alltoallw {
        send: TypedParts<'a, SendBuf>,
        recv: TypedParts<'a, RecvBuf>,
    },
    Reduce {
        of: Reduction,
        root: Peer,
    },
    Allreduce(Reduction),
    /// The receive buffer's count is ignored: `counts` says how many elements of the result each process gets.
    ReduceScatter {
        of: Reduction,
        counts: &'a [i64],
    },
    /// The receive buffer's count is that of each process's block; there are as many operands for every process.
    ReduceScatterBlock(Reduction),
    Scan(Reduction),
    Exscan(Reduction),
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
