//! Collective operations: each is written once and exported in its blocking, non-blocking and persistent
//! form.
use crate::abi::{Abi, Count};
use crate::args::{Buf, BufMut, In, Ptr};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles::{self, Flavor};
use crate::p2p::{not_negative, put_request};
use crate::status;
use mpi::core::{Coll, CommId, Parts, Peer, TypeId};
use mpi::{ErrorClass, RecvBuf, SendBuf};
use std::ffi::c_int;

/// In which form a collective is called.
enum How<A: Abi> {
    /// Blocking.
    Wait,
    /// Non-blocking: the request goes here.
    Start(Ptr<A::Handle>),
    /// Persistent: the request goes here.
    Prepare(Ptr<A::Handle>),
}

/// Hands a collective to the engine.
fn perform<A: Abi>(call: &mut Call<A>, how: How<A>, comm: CommId, coll: Coll<'_>) -> Outcome<()> {
    match how {
        How::Wait if call.is_threaded() => {
            let request = call.icollective(comm, coll)?;
            status::check(&call.complete(request)?)
        }
        How::Wait => {
            let done = call.collective(comm, coll)?;
            status::check(&call.end(done)?)
        }
        How::Start(out) => {
            let request = call.icollective(comm, coll)?;
            put_request::<A>(out, request, Flavor::Once)
        }
        How::Prepare(out) => {
            let request = call.collective_init(comm, coll)?;
            put_request::<A>(out, request, Flavor::Persistent)
        }
    }
}

/// The root of a collective; the engine checks the rank.
fn root_of<A: Abi>(root: c_int) -> Peer {
    match i64::from(root) {
        r if r == A::C.root => Peer::Root,
        r if r == A::C.proc_null => Peer::Null,
        _ => Peer::Rank(root),
    }
}

/// Do the arguments that are significant at the root only count here?
fn at_root<A: Abi>(call: &Call<A>, comm: CommId, root: c_int) -> Outcome<bool> {
    Ok(match root_of::<A>(root) {
        Peer::Rank(rank) => i64::from(call.comm_rank(comm)?) == i64::from(rank),
        other => other == Peer::Root,
    })
}

fn some_data(addr: usize, count: i64, ty: TypeId) -> Outcome<()> {
    if addr == 0 && count > 0 && crate::callbacks::is_predefined(ty) {
        return fail(ErrorClass::Buffer, format!("{count} elements at a null address"));
    }
    Ok(())
}

/// A send buffer, which may be `MPI_IN_PLACE`: then count and datatype are ignored.
fn sent<A: Abi>(buf: Buf, count: i64, datatype: A::Handle) -> Outcome<(SendBuf, i64, TypeId)> {
    if buf.addr() as i64 == A::C.in_place {
        return Ok((SendBuf::IN_PLACE, 0, TypeId::BYTE));
    }
    let ty = handles::datatype::<A>(datatype)?;
    some_data(buf.addr(), not_negative(count)?, ty)?;
    Ok((buf.source(), count, ty))
}

/// A receive buffer, which may be `MPI_IN_PLACE` (at the root of a scatter).
fn received<A: Abi>(buf: BufMut, count: i64, datatype: A::Handle) -> Outcome<(RecvBuf, i64, TypeId)> {
    if buf.addr() as i64 == A::C.in_place {
        return Ok((RecvBuf::IN_PLACE, 0, TypeId::BYTE));
    }
    let ty = handles::datatype::<A>(datatype)?;
    some_data(buf.addr(), not_negative(count)?, ty)?;
    Ok((buf.target(), count, ty))
}

/// A send buffer of reductions, where the count is common to both buffers.
fn operand<A: Abi>(buf: Buf, count: i64, ty: TypeId) -> Outcome<SendBuf> {
    if buf.addr() as i64 == A::C.in_place {
        return Ok(SendBuf::IN_PLACE);
    }
    some_data(buf.addr(), not_negative(count)?, ty)?;
    Ok(buf.source())
}

fn result(buf: BufMut, count: i64, ty: TypeId) -> Outcome<RecvBuf> {
    some_data(buf.addr(), not_negative(count)?, ty)?;
    Ok(buf.target())
}

fn wide<C: Count>(list: In<C>, len: usize) -> Outcome<Vec<i64>> {
    Ok(list.list(len)?.into_iter().map(C::wide).collect())
}

/// Counts and displacements of a collective with varying counts.
struct Layout {
    counts: Vec<i64>,
    displs: Vec<i64>,
    ty: TypeId,
}

impl Layout {
    /// For processes where the arguments do not count.
    const NONE: Layout = Layout { counts: Vec::new(), displs: Vec::new(), ty: TypeId::BYTE };

    fn read<A: Abi, C: Count>(
        counts: In<C>,
        displs: In<C>,
        datatype: A::Handle,
        len: usize,
    ) -> Outcome<Layout> {
        let ty = handles::datatype::<A>(datatype)?;
        Ok(Layout { counts: wide(counts, len)?, displs: wide(displs, len)?, ty })
    }

    fn parts(&self) -> Parts<'_> {
        Parts { counts: &self.counts, displs: &self.displs, ty: self.ty }
    }
}

/// Both ends: how many blocks the lists of a collective have.
fn blocks<A: Abi>(call: &Call<A>, comm: CommId) -> Outcome<usize> {
    Ok(call.comm_size(comm)? as usize)
}

macro_rules! forms {
    ($($with:ident: $wait:ident $start:ident $prepare:ident $n1:literal $n2:literal $n3:literal
       ($($arg:ident: $ty:ty),*);)*) => {$(
        #[doc = concat!("`", $n1, "`")]
        #[allow(clippy::too_many_arguments)]
        pub fn $wait<A: Abi, C: Count>($($arg: $ty,)* comm: A::Handle) -> c_int {
            run::<A>($n1, On::Comm(comm), |call| $with::<A, C>(call, How::Wait, $($arg,)* comm))
        }
        #[doc = concat!("`", $n2, "`")]
        #[allow(clippy::too_many_arguments)]
        pub fn $start<A: Abi, C: Count>(
            $($arg: $ty,)* comm: A::Handle, request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($n2, On::Comm(comm), |call| $with::<A, C>(call, How::Start(request), $($arg,)* comm))
        }
        #[doc = concat!("`", $n3, "`")]
        #[allow(clippy::too_many_arguments)]
        pub fn $prepare<A: Abi, C: Count>(
            $($arg: $ty,)* comm: A::Handle, info: A::Handle, request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($n3, On::Comm(comm), |call| {
                handles::info_or_null::<A>(info)?;
                $with::<A, C>(call, How::Prepare(request), $($arg,)* comm)
            })
        }
    )*};
}

forms! {
    bcast_with: bcast ibcast bcast_init "MPI_Bcast" "MPI_Ibcast" "MPI_Bcast_init"
        (buffer: BufMut, count: C, datatype: A::Handle, root: c_int);
    gather_with: gather igather gather_init "MPI_Gather" "MPI_Igather" "MPI_Gather_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle,
         root: c_int);
    gatherv_with: gatherv igatherv gatherv_init "MPI_Gatherv" "MPI_Igatherv" "MPI_Gatherv_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcounts: In<C>, displs: In<C>,
         recvtype: A::Handle, root: c_int);
    scatter_with: scatter iscatter scatter_init "MPI_Scatter" "MPI_Iscatter" "MPI_Scatter_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle,
         root: c_int);
    scatterv_with: scatterv iscatterv scatterv_init "MPI_Scatterv" "MPI_Iscatterv" "MPI_Scatterv_init"
        (sendbuf: Buf, sendcounts: In<C>, displs: In<C>, sendtype: A::Handle, recvbuf: BufMut, recvcount: C,
         recvtype: A::Handle, root: c_int);
    allgather_with: allgather iallgather allgather_init "MPI_Allgather" "MPI_Iallgather" "MPI_Allgather_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle);
    allgatherv_with: allgatherv iallgatherv allgatherv_init
        "MPI_Allgatherv" "MPI_Iallgatherv" "MPI_Allgatherv_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcounts: In<C>, displs: In<C>,
         recvtype: A::Handle);
    alltoall_with: alltoall ialltoall alltoall_init "MPI_Alltoall" "MPI_Ialltoall" "MPI_Alltoall_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle);
    alltoallv_with: alltoallv ialltoallv alltoallv_init "MPI_Alltoallv" "MPI_Ialltoallv" "MPI_Alltoallv_init"
        (sendbuf: Buf, sendcounts: In<C>, sdispls: In<C>, sendtype: A::Handle, recvbuf: BufMut,
         recvcounts: In<C>, rdispls: In<C>, recvtype: A::Handle);
    alltoallw_with: alltoallw ialltoallw alltoallw_init "MPI_Alltoallw" "MPI_Ialltoallw" "MPI_Alltoallw_init"
        (sendbuf: Buf, sendcounts: In<C>, sdispls: In<C>, sendtypes: In<A::Handle>, recvbuf: BufMut,
         recvcounts: In<C>, rdispls: In<C>, recvtypes: In<A::Handle>);
    reduce_with: reduce ireduce reduce_init "MPI_Reduce" "MPI_Ireduce" "MPI_Reduce_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle, root: c_int);
    allreduce_with: allreduce iallreduce allreduce_init "MPI_Allreduce" "MPI_Iallreduce" "MPI_Allreduce_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle);
    reduce_scatter_with: reduce_scatter ireduce_scatter reduce_scatter_init
        "MPI_Reduce_scatter" "MPI_Ireduce_scatter" "MPI_Reduce_scatter_init"
        (sendbuf: Buf, recvbuf: BufMut, recvcounts: In<C>, datatype: A::Handle, op: A::Handle);
    reduce_scatter_block_with: reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init
        "MPI_Reduce_scatter_block" "MPI_Ireduce_scatter_block" "MPI_Reduce_scatter_block_init"
        (sendbuf: Buf, recvbuf: BufMut, recvcount: C, datatype: A::Handle, op: A::Handle);
    scan_with: scan iscan scan_init "MPI_Scan" "MPI_Iscan" "MPI_Scan_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle);
    exscan_with: exscan iexscan exscan_init "MPI_Exscan" "MPI_Iexscan" "MPI_Exscan_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle);
}

/// `MPI_Barrier`
pub fn barrier<A: Abi>(comm: A::Handle) -> c_int {
    run::<A>("MPI_Barrier", On::Comm(comm), |call| {
        perform(call, How::Wait, handles::comm::<A>(comm)?, Coll::Barrier)
    })
}

/// `MPI_Ibarrier`
pub fn ibarrier<A: Abi>(comm: A::Handle, request: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Ibarrier", On::Comm(comm), |call| {
        perform(call, How::Start(request), handles::comm::<A>(comm)?, Coll::Barrier)
    })
}

/// `MPI_Barrier_init`
pub fn barrier_init<A: Abi>(comm: A::Handle, info: A::Handle, request: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Barrier_init", On::Comm(comm), |call| {
        handles::info_or_null::<A>(info)?;
        perform(call, How::Prepare(request), handles::comm::<A>(comm)?, Coll::Barrier)
    })
}

fn bcast_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    buffer: BufMut,
    count: C,
    datatype: A::Handle,
    root: c_int,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let ty = handles::datatype::<A>(datatype)?;
    let buf = result(buffer, count.wide(), ty)?;
    perform(call, how, comm, Coll::Bcast { buf, count: count.wide(), ty, root: root_of::<A>(root) })
}

#[allow(clippy::too_many_arguments)]
fn gather_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcount: C,
    recvtype: A::Handle,
    root: c_int,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (send, scount, sty) = sent::<A>(sendbuf, sendcount.wide(), sendtype)?;
    let (recv, rcount, rty) = match at_root(call, comm, root)? {
        true => received::<A>(recvbuf, recvcount.wide(), recvtype)?,
        false => (RecvBuf::NONE, 0, TypeId::BYTE),
    };
    perform(call, how, comm, Coll::Gather { send, scount, sty, recv, rcount, rty, root: root_of::<A>(root) })
}

#[allow(clippy::too_many_arguments)]
fn gatherv_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcounts: In<C>,
    displs: In<C>,
    recvtype: A::Handle,
    root: c_int,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (send, scount, sty) = sent::<A>(sendbuf, sendcount.wide(), sendtype)?;
    let layout = match at_root(call, comm, root)? {
        true => Layout::read::<A, C>(recvcounts, displs, recvtype, blocks(call, comm)?)?,
        false => Layout::NONE,
    };
    let recv = recvbuf.target();
    let parts = layout.parts();
    perform(call, how, comm, Coll::Gatherv { send, scount, sty, recv, parts, root: root_of::<A>(root) })
}

#[allow(clippy::too_many_arguments)]
fn scatter_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcount: C,
    recvtype: A::Handle,
    root: c_int,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (send, scount, sty) = match at_root(call, comm, root)? {
        true => sent::<A>(sendbuf, sendcount.wide(), sendtype)?,
        false => (SendBuf::NONE, 0, TypeId::BYTE),
    };
    let (recv, rcount, rty) = received::<A>(recvbuf, recvcount.wide(), recvtype)?;
    perform(call, how, comm, Coll::Scatter { send, scount, sty, recv, rcount, rty, root: root_of::<A>(root) })
}

#[allow(clippy::too_many_arguments)]
fn scatterv_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcounts: In<C>,
    displs: In<C>,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcount: C,
    recvtype: A::Handle,
    root: c_int,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let layout = match at_root(call, comm, root)? {
        true => Layout::read::<A, C>(sendcounts, displs, sendtype, blocks(call, comm)?)?,
        false => Layout::NONE,
    };
    let (recv, rcount, rty) = received::<A>(recvbuf, recvcount.wide(), recvtype)?;
    let (send, parts) = (sendbuf.source(), layout.parts());
    perform(call, how, comm, Coll::Scatterv { send, parts, recv, rcount, rty, root: root_of::<A>(root) })
}

#[allow(clippy::too_many_arguments)]
fn allgather_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcount: C,
    recvtype: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (send, scount, sty) = sent::<A>(sendbuf, sendcount.wide(), sendtype)?;
    let (recv, rcount, rty) = received::<A>(recvbuf, recvcount.wide(), recvtype)?;
    perform(call, how, comm, Coll::Allgather { send, scount, sty, recv, rcount, rty })
}

#[allow(clippy::too_many_arguments)]
fn allgatherv_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcounts: In<C>,
    displs: In<C>,
    recvtype: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (send, scount, sty) = sent::<A>(sendbuf, sendcount.wide(), sendtype)?;
    let layout = Layout::read::<A, C>(recvcounts, displs, recvtype, blocks(call, comm)?)?;
    let (recv, parts) = (recvbuf.target(), layout.parts());
    perform(call, how, comm, Coll::Allgatherv { send, scount, sty, recv, parts })
}

#[allow(clippy::too_many_arguments)]
fn alltoall_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcount: C,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcount: C,
    recvtype: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (send, scount, sty) = sent::<A>(sendbuf, sendcount.wide(), sendtype)?;
    let (recv, rcount, rty) = received::<A>(recvbuf, recvcount.wide(), recvtype)?;
    perform(call, how, comm, Coll::Alltoall { send, scount, sty, recv, rcount, rty })
}

#[allow(clippy::too_many_arguments)]
fn alltoallv_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcounts: In<C>,
    sdispls: In<C>,
    sendtype: A::Handle,
    recvbuf: BufMut,
    recvcounts: In<C>,
    rdispls: In<C>,
    recvtype: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let len = blocks(call, comm)?;
    let (send, slayout) = if sendbuf.addr() as i64 == A::C.in_place {
        (SendBuf::IN_PLACE, Layout::NONE)
    } else {
        (sendbuf.source(), Layout::read::<A, C>(sendcounts, sdispls, sendtype, len)?)
    };
    let rlayout = Layout::read::<A, C>(recvcounts, rdispls, recvtype, len)?;
    let (sparts, rparts) = (slayout.parts(), rlayout.parts());
    perform(call, how, comm, Coll::Alltoallv { send, sparts, recv: recvbuf.target(), rparts })
}

fn type_list<A: Abi>(list: In<A::Handle>, len: usize) -> Outcome<Vec<TypeId>> {
    list.list(len)?.into_iter().map(|handle| Ok(handles::datatype::<A>(handle)?)).collect()
}

#[allow(clippy::too_many_arguments)]
fn alltoallw_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    sendcounts: In<C>,
    sdispls: In<C>,
    sendtypes: In<A::Handle>,
    recvbuf: BufMut,
    recvcounts: In<C>,
    rdispls: In<C>,
    recvtypes: In<A::Handle>,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let len = blocks(call, comm)?;
    let in_place = sendbuf.addr() as i64 == A::C.in_place;
    let slen = if in_place { 0 } else { len };
    let (scounts, sdispls) = (wide(sendcounts, slen)?, wide(sdispls, slen)?);
    let stypes = type_list::<A>(sendtypes, slen)?;
    let (rcounts, rdispls) = (wide(recvcounts, len)?, wide(rdispls, len)?);
    let rtypes = type_list::<A>(recvtypes, len)?;
    let coll = Coll::Alltoallw {
        send: if in_place { SendBuf::IN_PLACE } else { sendbuf.source() },
        scounts: &scounts,
        sdispls: &sdispls,
        stypes: &stypes,
        recv: recvbuf.target(),
        rcounts: &rcounts,
        rdispls: &rdispls,
        rtypes: &rtypes,
    };
    perform(call, how, comm, coll)
}

#[allow(clippy::too_many_arguments)]
fn reduce_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    recvbuf: BufMut,
    count: C,
    datatype: A::Handle,
    op: A::Handle,
    root: c_int,
    comm: A::Handle,
) -> Outcome<()> {
    let (comm, count) = (handles::comm::<A>(comm)?, count.wide());
    let (ty, op) = (handles::datatype::<A>(datatype)?, handles::op::<A>(op)?);
    let send = operand::<A>(sendbuf, count, ty)?;
    let recv = match at_root(call, comm, root)? {
        true => result(recvbuf, count, ty)?,
        false => RecvBuf::NONE,
    };
    perform(call, how, comm, Coll::Reduce { send, recv, count, ty, op, root: root_of::<A>(root) })
}

#[allow(clippy::too_many_arguments)]
fn allreduce_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    recvbuf: BufMut,
    count: C,
    datatype: A::Handle,
    op: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let (comm, count) = (handles::comm::<A>(comm)?, count.wide());
    let (ty, op) = (handles::datatype::<A>(datatype)?, handles::op::<A>(op)?);
    let (send, recv) = (operand::<A>(sendbuf, count, ty)?, result(recvbuf, count, ty)?);
    perform(call, how, comm, Coll::Allreduce { send, recv, count, ty, op })
}

#[allow(clippy::too_many_arguments)]
fn reduce_scatter_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    recvbuf: BufMut,
    recvcounts: In<C>,
    datatype: A::Handle,
    op: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let comm = handles::comm::<A>(comm)?;
    let (ty, op) = (handles::datatype::<A>(datatype)?, handles::op::<A>(op)?);
    let counts = wide(recvcounts, blocks(call, comm)?)?;
    let send = operand::<A>(sendbuf, 0, ty)?;
    perform(call, how, comm, Coll::ReduceScatter { send, recv: recvbuf.target(), counts: &counts, ty, op })
}

#[allow(clippy::too_many_arguments)]
fn reduce_scatter_block_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    recvbuf: BufMut,
    recvcount: C,
    datatype: A::Handle,
    op: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let (comm, count) = (handles::comm::<A>(comm)?, recvcount.wide());
    let (ty, op) = (handles::datatype::<A>(datatype)?, handles::op::<A>(op)?);
    let (send, recv) = (operand::<A>(sendbuf, count, ty)?, result(recvbuf, count, ty)?);
    perform(call, how, comm, Coll::ReduceScatterBlock { send, recv, count, ty, op })
}

#[allow(clippy::too_many_arguments)]
fn scan_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    recvbuf: BufMut,
    count: C,
    datatype: A::Handle,
    op: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let (comm, count) = (handles::comm::<A>(comm)?, count.wide());
    let (ty, op) = (handles::datatype::<A>(datatype)?, handles::op::<A>(op)?);
    let (send, recv) = (operand::<A>(sendbuf, count, ty)?, result(recvbuf, count, ty)?);
    perform(call, how, comm, Coll::Scan { send, recv, count, ty, op })
}

#[allow(clippy::too_many_arguments)]
fn exscan_with<A: Abi, C: Count>(
    call: &mut Call<A>,
    how: How<A>,
    sendbuf: Buf,
    recvbuf: BufMut,
    count: C,
    datatype: A::Handle,
    op: A::Handle,
    comm: A::Handle,
) -> Outcome<()> {
    let (comm, count) = (handles::comm::<A>(comm)?, count.wide());
    let (ty, op) = (handles::datatype::<A>(datatype)?, handles::op::<A>(op)?);
    let (send, recv) = (operand::<A>(sendbuf, count, ty)?, result(recvbuf, count, ty)?);
    perform(call, how, comm, Coll::Exscan { send, recv, count, ty, op })
}
