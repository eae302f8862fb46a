//! Collective operations: the call as data, and three ways to run it.
use super::comm::SEQUENCE_MASK;
use super::request::Request;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;

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
        let mut operation = self.prepare(comm, call)?;
        // Its runs meet by its creation, in whatever order persistent operations are started.
        operation.tag = PERSISTENT | self.next_sequence(comm)?;
        let roster = operation.roster.clone();
        Ok(self.add_request(Request::persistent_collective(comm, operation, roster)))
    }
}

/// Tags of persistent operations are apart from those of all others, which may come round again.
const PERSISTENT: i32 = SEQUENCE_MASK as i32 + 1;
