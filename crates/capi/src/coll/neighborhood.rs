//! Collective operations among the neighbors of a topology.
use super::*;

forms! {
    allgather_with: neighbor_allgather ineighbor_allgather neighbor_allgather_init
        "MPI_Neighbor_allgather" "MPI_Ineighbor_allgather" "MPI_Neighbor_allgather_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle)
        => (Passed::new(sendbuf, sendcount, sendtype), Passed::new(recvbuf, recvcount, recvtype));
    allgatherv_with: neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init
        "MPI_Neighbor_allgatherv" "MPI_Ineighbor_allgatherv" "MPI_Neighbor_allgatherv_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcounts: In<C>, displs: In<C>,
         recvtype: A::Handle)
        => (Passed::new(sendbuf, sendcount, sendtype),
            PassedParts { buf: recvbuf, counts: recvcounts, displs, datatype: recvtype });
    alltoall_with: neighbor_alltoall ineighbor_alltoall neighbor_alltoall_init
        "MPI_Neighbor_alltoall" "MPI_Ineighbor_alltoall" "MPI_Neighbor_alltoall_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle)
        => (Passed::new(sendbuf, sendcount, sendtype), Passed::new(recvbuf, recvcount, recvtype));
    alltoallv_with: neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init
        "MPI_Neighbor_alltoallv" "MPI_Ineighbor_alltoallv" "MPI_Neighbor_alltoallv_init"
        (sendbuf: Buf, sendcounts: In<C>, sdispls: In<C>, sendtype: A::Handle, recvbuf: BufMut,
         recvcounts: In<C>, rdispls: In<C>, recvtype: A::Handle)
        => (PassedParts { buf: sendbuf, counts: sendcounts, displs: sdispls, datatype: sendtype },
            PassedParts { buf: recvbuf, counts: recvcounts, displs: rdispls, datatype: recvtype });
    alltoallw_with: neighbor_alltoallw ineighbor_alltoallw neighbor_alltoallw_init
        "MPI_Neighbor_alltoallw" "MPI_Ineighbor_alltoallw" "MPI_Neighbor_alltoallw_init"
        (sendbuf: Buf, sendcounts: In<C>, sdispls: In<i64>, sendtypes: In<A::Handle>, recvbuf: BufMut,
         recvcounts: In<C>, rdispls: In<i64>, recvtypes: In<A::Handle>)
        => (PassedTypedParts { buf: sendbuf, counts: sendcounts, displs: sdispls, datatypes: sendtypes },
            PassedTypedParts { buf: recvbuf, counts: recvcounts, displs: rdispls, datatypes: recvtypes });
}

impl<A: Abi> Calling<'_, A> {
    /// How many blocks are received and how many are sent.
    fn neighbors(&self) -> Outcome<(usize, usize)> {
        let around = self.call.neighborhood(self.comm)?;
        Ok((around.sources.len(), around.dests.len()))
    }
}

fn allgather_with<A: Abi>(at: Calling<A>, send: Passed<A, Buf>, recv: Passed<A, BufMut>) -> Outcome<()> {
    let recv = recv.for_each_of(at.neighbors()?.0);
    at.perform(Coll::NeighborAllgather { send: send.data()?, recv: recv.data()? })
}

fn allgatherv_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: Passed<A, Buf>,
    recv: PassedParts<A, BufMut, C>,
) -> Outcome<()> {
    let (send, recv) = (send.data()?, recv.read(at.neighbors()?.0)?);
    at.perform(Coll::NeighborAllgatherv { send, recv: recv.parts() })
}

fn alltoall_with<A: Abi>(at: Calling<A>, send: Passed<A, Buf>, recv: Passed<A, BufMut>) -> Outcome<()> {
    let (sources, dests) = at.neighbors()?;
    let (send, recv) = (send.for_each_of(dests), recv.for_each_of(sources));
    at.perform(Coll::NeighborAlltoall { send: send.data()?, recv: recv.data()? })
}

fn alltoallv_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: PassedParts<A, Buf, C>,
    recv: PassedParts<A, BufMut, C>,
) -> Outcome<()> {
    let (sources, dests) = at.neighbors()?;
    let (send, recv) = (send.read(dests)?, recv.read(sources)?);
    at.perform(Coll::NeighborAlltoallv { send: send.parts(), recv: recv.parts() })
}

fn alltoallw_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: PassedTypedParts<A, Buf, C, i64>,
    recv: PassedTypedParts<A, BufMut, C, i64>,
) -> Outcome<()> {
    let (sources, dests) = at.neighbors()?;
    let (send, recv) = (send.read(dests)?, recv.read(sources)?);
    at.perform(Coll::NeighborAlltoallw { send: send.parts(), recv: recv.parts() })
}
