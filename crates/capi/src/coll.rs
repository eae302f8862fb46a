//! Collective operations: each is written once and exported in its blocking, non-blocking and persistent
//! form.
use crate::abi::{Abi, Count};
use crate::args::{self, Buf, BufMut, In, Memory, Passed, Ptr, is_in_place, wide};
use crate::engine::Call;
use crate::errors::{On, Outcome, run};
use crate::handles::{self, Flavor};
use crate::p2p::put_request;
use crate::status;
use mpi::core::{Coll, CommId, Data, OpId, Parts, Peer, RecvData, Reduction, SendData, TypeId, TypedParts};
use mpi::{RecvBuf, SendBuf};
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

/// A collective call on its way to the engine.
struct Calling<'c, A: Abi> {
    call: &'c mut Call<A>,
    how: How<A>,
    comm: CommId,
}

impl<'c, A: Abi> Calling<'c, A> {
    fn new(call: &'c mut Call<A>, how: How<A>, comm: A::Handle) -> Outcome<Self> {
        Ok(Calling { call, how, comm: handles::comm::<A>(comm)? })
    }

    /// Hands it to the engine.
    #[inline]
    fn perform(self, coll: Coll<'_>) -> Outcome<()> {
        let Calling { call, how, comm } = self;
        match how {
            How::Wait if call.is_threaded() => {
                let request = call.icollective(comm, coll)?;
                status::check(&call.complete(request)?)
            }
            How::Wait => match call.collective_short(comm, coll) {
                None => Ok(()),
                Some(done) => status::check(&call.end(done?)?),
            },
            How::Start(out) => put_request::<A>(out, Flavor::Once, || Ok(call.icollective(comm, coll)?)),
            How::Prepare(out) => {
                put_request::<A>(out, Flavor::Persistent, || Ok(call.collective_init(comm, coll)?))
            }
        }
    }

    /// Which arguments count here: those of the root, those of the others?
    fn counts(&self, root: c_int) -> Outcome<Counting> {
        if self.call.comm_remote_size(self.comm)?.is_none() {
            let root = i64::from(self.call.comm_rank(self.comm)?) == i64::from(root);
            return Ok(Counting { root, others: true });
        }
        let root = root_of::<A>(root);
        Ok(Counting { root: root == Peer::Root, others: matches!(root, Peer::Rank(_)) })
    }

    /// How many blocks the lists of a collective have.
    fn blocks(&self) -> Outcome<usize> {
        let remote = self.call.comm_remote_size(self.comm)?;
        Ok(remote.map_or_else(|| self.call.comm_size(self.comm), Ok)? as usize)
    }
}

/// Which arguments of a call count in a process. Between two groups, a root takes or gives and does not do both, and its
/// own group does nothing.
struct Counting {
    root: bool,
    others: bool,
}

/// The root of a collective; the engine checks the rank.
fn root_of<A: Abi>(root: c_int) -> Peer {
    match i64::from(root) {
        r if r == A::C.root => Peer::Root,
        r if r == A::C.proc_null => Peer::Null,
        _ => Peer::Rank(root),
    }
}

/// The arguments of a buffer with varying counts, as passed.
struct PassedParts<A: Abi, M, C> {
    buf: M,
    counts: In<C>,
    displs: In<C>,
    datatype: A::Handle,
}

impl<A: Abi, M: Memory, C: Count> PassedParts<A, M, C> {
    /// Lists of `len` entries; `MPI_IN_PLACE` has none.
    fn read(self, len: usize) -> Outcome<Layout<M::Engine>> {
        if is_in_place::<A>(self.buf) {
            return Ok(Layout::nothing(M::IN_PLACE));
        }
        let ty = handles::datatype::<A>(self.datatype)?;
        let (counts, displs) = (wide(self.counts, len)?, wide(self.displs, len)?);
        Ok(Layout { buf: self.buf.engine(), counts, displs, ty })
    }
}

/// Counts and displacements of a collective with varying counts.
struct Layout<B> {
    buf: B,
    counts: Vec<i64>,
    displs: Vec<i64>,
    ty: TypeId,
}

impl<B: Copy> Layout<B> {
    /// For processes where the arguments do not count.
    fn nothing(buf: B) -> Self {
        Layout { buf, counts: Vec::new(), displs: Vec::new(), ty: TypeId::BYTE }
    }

    fn parts(&self) -> Parts<'_, B> {
        Parts { buf: self.buf, counts: &self.counts, displs: &self.displs, ty: self.ty }
    }
}

/// As [`PassedParts`], where every block has its own datatype and displacements may have a type of their own.
struct PassedTypedParts<A: Abi, M, C, D = C> {
    buf: M,
    counts: In<C>,
    displs: In<D>,
    datatypes: In<A::Handle>,
}

impl<A: Abi, M: Memory, C: Count, D: Count> PassedTypedParts<A, M, C, D> {
    /// As [`PassedParts::read`].
    fn read(self, len: usize) -> Outcome<TypedLayout<M::Engine>> {
        if is_in_place::<A>(self.buf) {
            return Ok(TypedLayout { buf: M::IN_PLACE, counts: vec![], displs: vec![], types: vec![] });
        }
        let (counts, displs) = (wide(self.counts, len)?, wide(self.displs, len)?);
        let types = self.datatypes.list(len)?.into_iter().map(|handle| Ok(handles::datatype::<A>(handle)?));
        Ok(TypedLayout { buf: self.buf.engine(), counts, displs, types: types.collect::<Outcome<_>>()? })
    }
}

/// As [`Layout`], where every block has its own datatype.
struct TypedLayout<B> {
    buf: B,
    counts: Vec<i64>,
    displs: Vec<i64>,
    types: Vec<TypeId>,
}

impl<B: Copy> TypedLayout<B> {
    fn parts(&self) -> TypedParts<'_, B> {
        TypedParts { buf: self.buf, counts: &self.counts, displs: &self.displs, types: &self.types }
    }
}

/// The arguments of a reduction, as passed; count and datatype are common to both buffers.
struct Operands<A: Abi> {
    send: Buf,
    recv: BufMut,
    count: i64,
    datatype: A::Handle,
    op: A::Handle,
}

impl<A: Abi> Operands<A> {
    fn new(send: Buf, recv: BufMut, count: impl Count, datatype: A::Handle, op: A::Handle) -> Self {
        Operands { send, recv, count: count.wide(), datatype, op }
    }

    /// For a process that gives nothing.
    fn read_result(self) -> Outcome<Reduction> {
        let (ty, op) = (handles::datatype::<A>(self.datatype)?, handles::op::<A>(self.op)?);
        let recv = args::at::<A, _>(self.recv, self.count, ty)?;
        Ok(Reduction { send: SendBuf::NONE, recv, op })
    }

    #[inline(always)]
    fn read(self) -> Outcome<Reduction> {
        let buf = self.recv;
        let of = self.read_operands()?;
        Ok(Reduction { recv: args::at_or_in_place::<A, _>(buf, of.recv.count, of.recv.ty)?, ..of })
    }

    /// For a process that gets no result.
    #[inline(always)]
    fn read_operands(self) -> Outcome<Reduction> {
        let (ty, op) = (handles::datatype::<A>(self.datatype)?, handles::op::<A>(self.op)?);
        let send = args::at_or_in_place::<A, _>(self.send, self.count, ty)?;
        Ok(Reduction { send: send.buf, recv: Data::new(RecvBuf::NONE, self.count, ty), op })
    }
}

macro_rules! forms {
    ($($with:ident: $wait:ident $start:ident $prepare:ident $n1:literal $n2:literal $n3:literal
       ($($arg:ident: $ty:ty),*) => ($($pass:expr),*);)*) => {$(
        #[doc = concat!("`", $n1, "`")]
        #[allow(clippy::too_many_arguments)]
        pub fn $wait<A: Abi, C: Count>($($arg: $ty,)* comm: A::Handle) -> c_int {
            run::<A>($n1, On::Comm(comm), |call| $with(Calling::new(call, How::Wait, comm)?, $($pass),*))
        }
        #[doc = concat!("`", $n2, "`")]
        #[allow(clippy::too_many_arguments)]
        pub fn $start<A: Abi, C: Count>(
            $($arg: $ty,)* comm: A::Handle, request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($n2, On::Comm(comm), |call| {
                $with(Calling::new(call, How::Start(request), comm)?, $($pass),*)
            })
        }
        #[doc = concat!("`", $n3, "`")]
        #[allow(clippy::too_many_arguments)]
        pub fn $prepare<A: Abi, C: Count>(
            $($arg: $ty,)* comm: A::Handle, info: A::Handle, request: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($n3, On::Comm(comm), |call| {
                handles::info_or_null::<A>(info)?;
                $with(Calling::new(call, How::Prepare(request), comm)?, $($pass),*)
            })
        }
    )*};
}

pub mod neighborhood;

forms! {
    bcast_with: bcast ibcast bcast_init "MPI_Bcast" "MPI_Ibcast" "MPI_Bcast_init"
        (buffer: BufMut, count: C, datatype: A::Handle, root: c_int)
        => (Passed::new(buffer, count, datatype), root);
    gather_with: gather igather gather_init "MPI_Gather" "MPI_Igather" "MPI_Gather_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle,
         root: c_int)
        => (Passed::new(sendbuf, sendcount, sendtype),
            Passed::new(recvbuf, recvcount, recvtype),
            root);
    gatherv_with: gatherv igatherv gatherv_init "MPI_Gatherv" "MPI_Igatherv" "MPI_Gatherv_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcounts: In<C>, displs: In<C>,
         recvtype: A::Handle, root: c_int)
        => (Passed::new(sendbuf, sendcount, sendtype),
            PassedParts { buf: recvbuf, counts: recvcounts, displs, datatype: recvtype },
            root);
    scatter_with: scatter iscatter scatter_init "MPI_Scatter" "MPI_Iscatter" "MPI_Scatter_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle,
         root: c_int)
        => (Passed::new(sendbuf, sendcount, sendtype),
            Passed::new(recvbuf, recvcount, recvtype),
            root);
    scatterv_with: scatterv iscatterv scatterv_init "MPI_Scatterv" "MPI_Iscatterv" "MPI_Scatterv_init"
        (sendbuf: Buf, sendcounts: In<C>, displs: In<C>, sendtype: A::Handle, recvbuf: BufMut, recvcount: C,
         recvtype: A::Handle, root: c_int)
        => (PassedParts { buf: sendbuf, counts: sendcounts, displs, datatype: sendtype },
            Passed::new(recvbuf, recvcount, recvtype),
            root);
    allgather_with: allgather iallgather allgather_init "MPI_Allgather" "MPI_Iallgather" "MPI_Allgather_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle)
        => (Passed::new(sendbuf, sendcount, sendtype), Passed::new(recvbuf, recvcount, recvtype));
    allgatherv_with: allgatherv iallgatherv allgatherv_init
        "MPI_Allgatherv" "MPI_Iallgatherv" "MPI_Allgatherv_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcounts: In<C>, displs: In<C>,
         recvtype: A::Handle)
        => (Passed::new(sendbuf, sendcount, sendtype),
            PassedParts { buf: recvbuf, counts: recvcounts, displs, datatype: recvtype });
    alltoall_with: alltoall ialltoall alltoall_init "MPI_Alltoall" "MPI_Ialltoall" "MPI_Alltoall_init"
        (sendbuf: Buf, sendcount: C, sendtype: A::Handle, recvbuf: BufMut, recvcount: C, recvtype: A::Handle)
        => (Passed::new(sendbuf, sendcount, sendtype), Passed::new(recvbuf, recvcount, recvtype));
    alltoallv_with: alltoallv ialltoallv alltoallv_init "MPI_Alltoallv" "MPI_Ialltoallv" "MPI_Alltoallv_init"
        (sendbuf: Buf, sendcounts: In<C>, sdispls: In<C>, sendtype: A::Handle, recvbuf: BufMut,
         recvcounts: In<C>, rdispls: In<C>, recvtype: A::Handle)
        => (PassedParts { buf: sendbuf, counts: sendcounts, displs: sdispls, datatype: sendtype },
            PassedParts { buf: recvbuf, counts: recvcounts, displs: rdispls, datatype: recvtype });
    alltoallw_with: alltoallw ialltoallw alltoallw_init "MPI_Alltoallw" "MPI_Ialltoallw" "MPI_Alltoallw_init"
        (sendbuf: Buf, sendcounts: In<C>, sdispls: In<C>, sendtypes: In<A::Handle>, recvbuf: BufMut,
         recvcounts: In<C>, rdispls: In<C>, recvtypes: In<A::Handle>)
        => (PassedTypedParts { buf: sendbuf, counts: sendcounts, displs: sdispls, datatypes: sendtypes },
            PassedTypedParts { buf: recvbuf, counts: recvcounts, displs: rdispls, datatypes: recvtypes });
    reduce_with: reduce ireduce reduce_init "MPI_Reduce" "MPI_Ireduce" "MPI_Reduce_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle, root: c_int)
        => (Operands::new(sendbuf, recvbuf, count, datatype, op), root);
    reduction_with: allreduce iallreduce allreduce_init "MPI_Allreduce" "MPI_Iallreduce" "MPI_Allreduce_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle)
        => (Operands::new(sendbuf, recvbuf, count, datatype, op), Coll::Allreduce);
    reduce_scatter_with: reduce_scatter ireduce_scatter reduce_scatter_init
        "MPI_Reduce_scatter" "MPI_Ireduce_scatter" "MPI_Reduce_scatter_init"
        (sendbuf: Buf, recvbuf: BufMut, recvcounts: In<C>, datatype: A::Handle, op: A::Handle)
        => (Operands::new(sendbuf, recvbuf, 0, datatype, op), recvcounts);
    reduction_with: reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init
        "MPI_Reduce_scatter_block" "MPI_Ireduce_scatter_block" "MPI_Reduce_scatter_block_init"
        (sendbuf: Buf, recvbuf: BufMut, recvcount: C, datatype: A::Handle, op: A::Handle)
        => (Operands::new(sendbuf, recvbuf, recvcount, datatype, op), Coll::ReduceScatterBlock);
    reduction_with: scan iscan scan_init "MPI_Scan" "MPI_Iscan" "MPI_Scan_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle)
        => (Operands::new(sendbuf, recvbuf, count, datatype, op), Coll::Scan);
    reduction_with: exscan iexscan exscan_init "MPI_Exscan" "MPI_Iexscan" "MPI_Exscan_init"
        (sendbuf: Buf, recvbuf: BufMut, count: C, datatype: A::Handle, op: A::Handle)
        => (Operands::new(sendbuf, recvbuf, count, datatype, op), Coll::Exscan);
}

/// `MPI_Barrier`
pub fn barrier<A: Abi>(comm: A::Handle) -> c_int {
    run::<A>("MPI_Barrier", On::Comm(comm), |call| {
        Calling::new(call, How::Wait, comm)?.perform(Coll::Barrier)
    })
}

/// `MPI_Ibarrier`
pub fn ibarrier<A: Abi>(comm: A::Handle, request: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Ibarrier", On::Comm(comm), |call| {
        Calling::new(call, How::Start(request), comm)?.perform(Coll::Barrier)
    })
}

/// `MPI_Barrier_init`
pub fn barrier_init<A: Abi>(comm: A::Handle, info: A::Handle, request: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Barrier_init", On::Comm(comm), |call| {
        handles::info_or_null::<A>(info)?;
        Calling::new(call, How::Prepare(request), comm)?.perform(Coll::Barrier)
    })
}

fn bcast_with<A: Abi>(at: Calling<A>, data: Passed<A, BufMut>, root: c_int) -> Outcome<()> {
    let Counting { root: here, others } = at.counts(root)?;
    let data = if here || others { data.data()? } else { RecvData::NONE };
    at.perform(Coll::Bcast { data, root: root_of::<A>(root) })
}

fn gather_with<A: Abi>(
    at: Calling<A>,
    send: Passed<A, Buf>,
    recv: Passed<A, BufMut>,
    root: c_int,
) -> Outcome<()> {
    let Counting { root: here, others } = at.counts(root)?;
    let send = if others { send.data()? } else { SendData::NONE };
    let recv = if here { recv.data()? } else { RecvData::NONE };
    at.perform(Coll::Gather { send, recv, root: root_of::<A>(root) })
}

fn gatherv_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: Passed<A, Buf>,
    recv: PassedParts<A, BufMut, C>,
    root: c_int,
) -> Outcome<()> {
    let Counting { root: here, others } = at.counts(root)?;
    let send = if others { send.data()? } else { SendData::NONE };
    let recv = if here { recv.read(at.blocks()?)? } else { Layout::nothing(RecvBuf::NONE) };
    at.perform(Coll::Gatherv { send, recv: recv.parts(), root: root_of::<A>(root) })
}

fn scatter_with<A: Abi>(
    at: Calling<A>,
    send: Passed<A, Buf>,
    recv: Passed<A, BufMut>,
    root: c_int,
) -> Outcome<()> {
    let Counting { root: here, others } = at.counts(root)?;
    let send = if here { send.data()? } else { SendData::NONE };
    let recv = if others { recv.data()? } else { RecvData::NONE };
    at.perform(Coll::Scatter { send, recv, root: root_of::<A>(root) })
}

fn scatterv_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: PassedParts<A, Buf, C>,
    recv: Passed<A, BufMut>,
    root: c_int,
) -> Outcome<()> {
    let Counting { root: here, others } = at.counts(root)?;
    let send = if here { send.read(at.blocks()?)? } else { Layout::nothing(SendBuf::NONE) };
    let recv = if others { recv.data()? } else { RecvData::NONE };
    at.perform(Coll::Scatterv { send: send.parts(), recv, root: root_of::<A>(root) })
}

fn allgather_with<A: Abi>(at: Calling<A>, send: Passed<A, Buf>, recv: Passed<A, BufMut>) -> Outcome<()> {
    at.perform(Coll::Allgather { send: send.data()?, recv: recv.data()? })
}

fn allgatherv_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: Passed<A, Buf>,
    recv: PassedParts<A, BufMut, C>,
) -> Outcome<()> {
    let (send, recv) = (send.data()?, recv.read(at.blocks()?)?);
    at.perform(Coll::Allgatherv { send, recv: recv.parts() })
}

fn alltoall_with<A: Abi>(at: Calling<A>, send: Passed<A, Buf>, recv: Passed<A, BufMut>) -> Outcome<()> {
    at.perform(Coll::Alltoall { send: send.data()?, recv: recv.data()? })
}

fn alltoallv_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: PassedParts<A, Buf, C>,
    recv: PassedParts<A, BufMut, C>,
) -> Outcome<()> {
    let len = at.blocks()?;
    let (send, recv) = (send.read(len)?, recv.read(len)?);
    at.perform(Coll::Alltoallv { send: send.parts(), recv: recv.parts() })
}

fn alltoallw_with<A: Abi, C: Count>(
    at: Calling<A>,
    send: PassedTypedParts<A, Buf, C>,
    recv: PassedTypedParts<A, BufMut, C>,
) -> Outcome<()> {
    let len = at.blocks()?;
    let (send, recv) = (send.read(len)?, recv.read(len)?);
    at.perform(Coll::Alltoallw { send: send.parts(), recv: recv.parts() })
}

fn reduce_with<A: Abi>(at: Calling<A>, operands: Operands<A>, root: c_int) -> Outcome<()> {
    let of = match at.counts(root)? {
        Counting { root: true, others: true } => operands.read()?,
        Counting { root: true, .. } => operands.read_result()?,
        Counting { others: true, .. } => operands.read_operands()?,
        _ => Reduction { send: SendBuf::NONE, recv: RecvData::NONE, op: OpId::SUM },
    };
    at.perform(Coll::Reduce { of, root: root_of::<A>(root) })
}

fn reduce_scatter_with<A: Abi, C: Count>(
    at: Calling<A>,
    operands: Operands<A>,
    counts: In<C>,
) -> Outcome<()> {
    let of = operands.read()?;
    // One for each process of the own group, also where there is another one.
    let counts = wide(counts, at.call.comm_size(at.comm)? as usize)?;
    at.perform(Coll::ReduceScatter { of, counts: &counts })
}

/// A reduction in which every process gets a result and the arguments mean the same.
#[inline(always)]
fn reduction_with<A: Abi>(
    at: Calling<A>,
    operands: Operands<A>,
    kind: impl FnOnce(Reduction) -> Coll<'static>,
) -> Outcome<()> {
    at.perform(kind(operands.read()?))
}
