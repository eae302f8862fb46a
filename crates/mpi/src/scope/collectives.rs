//! Collective operations that go on while the program computes. Their buffers are the scope's: the blocking forms make them,
//! these are given them.
use super::{Pending, Scope};
use crate::calls::Calls;
use crate::core::Coll;
use crate::datum::{Datum, Number, Op};
use crate::error::Result;
use crate::slices::{Slice, SliceMut};

/// Non-blocking calls: each starts what the blocking one of the same name (without the `i`) does.
impl<'s, 'env> Scope<'s, 'env> {
    /// A call that is only begun.
    fn start(
        &'s self,
        call: &'static str,
    ) -> Calls<'env, impl FnOnce(Coll<'_>) -> Result<Pending<'s, 'env>>, Pending<'s, 'env>> {
        let here = self.comm.here(call);
        Calls::new(self.comm, here, move |call: Coll<'_>| {
            let request = self.comm.engine().call(here, |mpi| mpi.icollective(self.comm.id(), call))?;
            Ok(self.add(here, request))
        })
    }

    /// Starts a barrier.
    pub fn ibarrier(&'s self) -> Result<Pending<'s, 'env>> {
        self.start("ibarrier").barrier()
    }

    /// Starts a broadcast.
    pub fn ibcast<T: Datum>(&'s self, data: &'env mut [T], root: usize) -> Result<Pending<'s, 'env>> {
        self.start("ibcast").bcast(data, root)
    }

    /// Starts a reduction to the root, which brings room for the result.
    pub fn ireduce<T: Number>(
        &'s self,
        data: &'env [T],
        result: Option<&'env mut [T]>,
        op: Op,
        root: usize,
    ) -> Result<Pending<'s, 'env>> {
        self.start("ireduce").reduce(data, result, op, root)
    }

    /// Starts an allreduce.
    pub fn iallreduce<T: Number>(
        &'s self,
        data: &'env [T],
        result: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        self.start("iallreduce").allreduce(data, result, op)
    }

    /// Starts an allreduce whose result takes the place of the elements.
    pub fn iallreduce_in_place<T: Number>(
        &'s self,
        data: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        self.start("iallreduce_in_place").allreduce_in_place(data, op)
    }

    /// Starts a scan.
    pub fn iscan<T: Number>(
        &'s self,
        data: &'env [T],
        result: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        self.start("iscan").scan(data, result, op)
    }

    /// Starts an exclusive scan.
    pub fn iexscan<T: Number>(
        &'s self,
        data: &'env [T],
        result: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        self.start("iexscan").exscan(data, result, op)
    }

    /// Starts a reduction of which each process gets a block. `result` has room for this process's.
    pub fn ireduce_scatter<T: Number>(
        &'s self,
        data: &'env [T],
        counts: &[usize],
        result: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        self.start("ireduce_scatter").reduce_scatter((data, counts), result, op)
    }

    /// Starts a reduction of which each process gets an equal block.
    pub fn ireduce_scatter_block<T: Number>(
        &'s self,
        data: &'env [T],
        result: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        self.start("ireduce_scatter_block").reduce_scatter_block(data, result, op)
    }

    /// Starts a gather. The root brings room for all.
    pub fn igather<T: Datum>(
        &'s self,
        data: &'env [T],
        into: Option<&'env mut [T]>,
        root: usize,
    ) -> Result<Pending<'s, 'env>> {
        self.start("igather").gather(data, into, root)
    }

    /// Starts a gather of blocks. The root brings room for all, and their lengths.
    pub fn igatherv<T: Datum>(
        &'s self,
        data: &'env [T],
        into: Option<(&'env mut [T], &[usize])>,
        root: usize,
    ) -> Result<Pending<'s, 'env>> {
        self.start("igatherv").gatherv(data, into, root)
    }

    /// Starts a scatter. Only the root has `all`.
    pub fn iscatter<T: Datum>(
        &'s self,
        all: Option<&'env [T]>,
        part: &'env mut [T],
        root: usize,
    ) -> Result<Pending<'s, 'env>> {
        self.start("iscatter").scatter(all, part, root)
    }

    /// Starts a scatter of blocks. Only the root has elements and lengths.
    pub fn iscatterv<T: Datum>(
        &'s self,
        all: Option<(&'env [T], &[usize])>,
        part: &'env mut [T],
        root: usize,
    ) -> Result<Pending<'s, 'env>> {
        self.start("iscatterv").scatterv(all, part, root)
    }

    /// Starts an allgather.
    pub fn iallgather<T: Datum>(&'s self, data: &'env [T], into: &'env mut [T]) -> Result<Pending<'s, 'env>> {
        self.start("iallgather").allgather(data, into)
    }

    /// Starts an allgather of blocks.
    pub fn iallgatherv<T: Datum>(
        &'s self,
        data: &'env [T],
        into: &'env mut [T],
        counts: &[usize],
    ) -> Result<Pending<'s, 'env>> {
        self.start("iallgatherv").allgatherv(data, (into, counts))
    }

    /// Starts an all-to-all.
    pub fn ialltoall<T: Datum>(&'s self, data: &'env [T], into: &'env mut [T]) -> Result<Pending<'s, 'env>> {
        self.start("ialltoall").alltoall(data, into)
    }

    /// Starts an all-to-all of blocks.
    pub fn ialltoallv<T: Datum>(
        &'s self,
        data: &'env [T],
        sends: &[usize],
        into: &'env mut [T],
        recvs: &[usize],
    ) -> Result<Pending<'s, 'env>> {
        self.start("ialltoallv").alltoallv((data, sends), (into, recvs))
    }

    /// Starts an all-to-all of slices of any types.
    pub fn ialltoallw(
        &'s self,
        sends: impl IntoIterator<Item = Slice<'env>>,
        recvs: impl IntoIterator<Item = SliceMut<'env>>,
    ) -> Result<Pending<'s, 'env>> {
        self.start("ialltoallw").alltoallw(sends, recvs)
    }

    /// Starts an allgather among neighbors.
    pub fn ineighbor_allgather<T: Datum>(
        &'s self,
        data: &'env [T],
        into: &'env mut [T],
    ) -> Result<Pending<'s, 'env>> {
        self.start("ineighbor_allgather").neighbor_allgather(data, into)
    }

    /// Starts an allgather of blocks among neighbors.
    pub fn ineighbor_allgatherv<T: Datum>(
        &'s self,
        data: &'env [T],
        into: &'env mut [T],
        counts: &[usize],
    ) -> Result<Pending<'s, 'env>> {
        self.start("ineighbor_allgatherv").neighbor_allgatherv(data, (into, counts))
    }

    /// Starts an all-to-all among neighbors.
    pub fn ineighbor_alltoall<T: Datum>(
        &'s self,
        data: &'env [T],
        into: &'env mut [T],
    ) -> Result<Pending<'s, 'env>> {
        self.start("ineighbor_alltoall").neighbor_alltoall(data, into)
    }

    /// Starts an all-to-all of blocks among neighbors.
    pub fn ineighbor_alltoallv<T: Datum>(
        &'s self,
        data: &'env [T],
        sends: &[usize],
        into: &'env mut [T],
        recvs: &[usize],
    ) -> Result<Pending<'s, 'env>> {
        self.start("ineighbor_alltoallv").neighbor_alltoallv((data, sends), (into, recvs))
    }

    /// Starts an all-to-all of slices of any types among neighbors.
    pub fn ineighbor_alltoallw(
        &'s self,
        sends: impl IntoIterator<Item = Slice<'env>>,
        recvs: impl IntoIterator<Item = SliceMut<'env>>,
    ) -> Result<Pending<'s, 'env>> {
        self.start("ineighbor_alltoallw").neighbor_alltoallw(sends, recvs)
    }
}
