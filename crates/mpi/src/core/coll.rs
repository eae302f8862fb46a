//! Collective operations: the call as data, and three ways to run it.
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;

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
    Bcast { buf: RecvBuf, count: i64, ty: TypeId, root: Peer },
    Gather { send: SendBuf, scount: i64, sty: TypeId, recv: RecvBuf, rcount: i64, rty: TypeId, root: Peer },
    Gatherv { send: SendBuf, scount: i64, sty: TypeId, recv: RecvBuf, parts: Parts<'a>, root: Peer },
    Scatter { send: SendBuf, scount: i64, sty: TypeId, recv: RecvBuf, rcount: i64, rty: TypeId, root: Peer },
    Scatterv { send: SendBuf, parts: Parts<'a>, recv: RecvBuf, rcount: i64, rty: TypeId, root: Peer },
    Allgather { send: SendBuf, scount: i64, sty: TypeId, recv: RecvBuf, rcount: i64, rty: TypeId },
    Allgatherv { send: SendBuf, scount: i64, sty: TypeId, recv: RecvBuf, parts: Parts<'a> },
    Alltoall { send: SendBuf, scount: i64, sty: TypeId, recv: RecvBuf, rcount: i64, rty: TypeId },
    Alltoallv { send: SendBuf, sparts: Parts<'a>, recv: RecvBuf, rparts: Parts<'a> },
    /// Displacements are in bytes here, and every block has its own datatype.
    Alltoallw {
        send: SendBuf, scounts: &'a [i64], sdispls: &'a [i64], stypes: &'a [TypeId],
        recv: RecvBuf, rcounts: &'a [i64], rdispls: &'a [i64], rtypes: &'a [TypeId],
    },
    Reduce { send: SendBuf, recv: RecvBuf, count: i64, ty: TypeId, op: OpId, root: Peer },
    Allreduce { send: SendBuf, recv: RecvBuf, count: i64, ty: TypeId, op: OpId },
    ReduceScatter { send: SendBuf, recv: RecvBuf, counts: &'a [i64], ty: TypeId, op: OpId },
    ReduceScatterBlock { send: SendBuf, recv: RecvBuf, count: i64, ty: TypeId, op: OpId },
    Scan { send: SendBuf, recv: RecvBuf, count: i64, ty: TypeId, op: OpId },
    Exscan { send: SendBuf, recv: RecvBuf, count: i64, ty: TypeId, op: OpId },
}

impl Mpi {
    /// Runs a collective and waits for it.
    pub fn collective(&mut self, comm: CommId, call: Coll<'_>) -> Result<Blocking> {
        unimplemented!()
    }
    /// Starts a collective.
    pub fn icollective(&mut self, comm: CommId, call: Coll<'_>) -> Result<RequestId> {
        unimplemented!()
    }
    /// Prepares a persistent collective; [`Mpi::start`] runs it.
    pub fn collective_init(&mut self, comm: CommId, call: Coll<'_>) -> Result<RequestId> {
        unimplemented!()
    }
}
