//! Collective operations of the safe API. Every process of the communicator calls the same ones in the same order.
//!
//! Those ending in `v` move blocks of different lengths. Blocks lie in the slice one behind the other, by rank, and their
//! lengths are told beside it; together they are as long as the slice.
use crate::buffer::{Element, combine, zeros};
use crate::calls::Calls;
use crate::communicator::Communicator;
use crate::core::{Coll, OpId, UserOp, UserReduce};
use crate::datum::{Datum, Number, Op};
use crate::error::{ErrorClass, Result, fail};
use crate::scope::EndOnPanic;
use crate::slices::{Slice, SliceMut};
use crate::universe::no_job;

/// May a reduction change the order of its operands?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any order gives the same.
    Any,
    /// By rank.
    Ranks,
}

/// Blocking calls. Each has a non-blocking twin in a [`Scope`](crate::Scope), but for those that take a function.
impl Communicator {
    /// A call that is waited for.
    fn blocking(&self, call: &'static str) -> Calls<'_, impl FnOnce(Coll<'_>) -> Result<()>, ()> {
        let here = self.here(call);
        Calls::new(self, here, move |call: Coll<'_>| {
            self.engine().block(here, |mpi| mpi.collective(self.id(), call), no_job).map(|_| ())
        })
    }

    /// Waits until every process is here.
    pub fn barrier(&self) -> Result<()> {
        self.blocking("barrier").barrier()
    }

    /// Gives everyone the root's elements.
    pub fn bcast<T: Datum>(&self, data: &mut [T], root: usize) -> Result<()> {
        self.blocking("bcast").bcast(data, root)
    }

    /// Combines everyone's elements at the root, which gets the result.
    pub fn reduce<T: Number>(&self, data: &[T], op: Op, root: usize) -> Result<Option<Vec<T>>> {
        let mut result = self.at_root(root, data.len());
        self.blocking("reduce").reduce(data, result.as_deref_mut(), op, root)?;
        Ok(result)
    }

    /// Combines everyone's elements; everyone gets the result.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// let mut largest = [0.0];
    /// world.allreduce(&[world.rank() as f64], &mut largest, mpi::Op::Max)?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn allreduce<T: Number>(&self, data: &[T], result: &mut [T], op: Op) -> Result<()> {
        self.blocking("allreduce").allreduce(data, result, op)
    }

    /// As [`Communicator::allreduce`]; the result takes the place of the elements.
    pub fn allreduce_in_place<T: Number>(&self, data: &mut [T], op: Op) -> Result<()> {
        self.blocking("allreduce_in_place").allreduce_in_place(data, op)
    }

    /// As [`Communicator::allreduce`], by a function of two elements, which must be associative. Elements may be of any type
    /// that can be sent.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// fn gcd(a: u64, b: u64) -> u64 { if b == 0 { a } else { gcd(b, a % b) } }
    /// let mut result = [0];
    /// world.allreduce_with(&[12 * (world.rank() as u64 + 1)], &mut result, mpi::Order::Any, gcd)?;
    /// assert_eq!(result, [12]);
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn allreduce_with<T: Datum>(
        &self,
        data: &[T],
        result: &mut [T],
        order: Order,
        f: impl Fn(T, T) -> T,
    ) -> Result<()> {
        // The operation is made when nothing else can fail, so that it is always freed.
        let mut of = self.blocking("allreduce_with").reduction(data, result, OpId::NO_OP)?;
        let commutative = order == Order::Any;
        of.op = self.engine().mpi.borrow_mut().op_create(UserOp { function: 0, extra: 0, commutative });
        let (op, call) = (of.op, Coll::Allreduce(of));
        // Only this call combines by a function, so every job is for `f`.
        let run = |job: &UserReduce| {
            let bytes = job.count as usize * size_of::<T>();
            let (source, target) = (job.source.range(0, bytes), job.target.range(0, bytes));
            combine::<Element<T>>(source, target, |a, b| Element(f(a.0, b.0)));
        };
        let here = self.here("allreduce_with");
        // If `f` panics, others may be about to read `data` and to write `result`.
        let guard = EndOnPanic(self);
        let done = self.engine().block(here, |mpi| mpi.collective(self.id(), call), run);
        std::mem::forget(guard);
        self.engine().mpi.borrow_mut().op_free(op)?;
        done?;
        Ok(())
    }

    /// Combines the elements of ranks up to and including this one.
    pub fn scan<T: Number>(&self, data: &[T], result: &mut [T], op: Op) -> Result<()> {
        self.blocking("scan").scan(data, result, op)
    }

    /// Combines the elements of ranks below this one. At rank 0, below which there is none, `result` stays as it is.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// // Where do this process's elements go in a file that all write, one behind the other?
    /// let (mine, mut start) = ([100 + world.rank()], [0]);
    /// world.exscan(&mine, &mut start, mpi::Op::Sum)?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn exscan<T: Number>(&self, data: &[T], result: &mut [T], op: Op) -> Result<()> {
        self.blocking("exscan").exscan(data, result, op)
    }

    /// Combines everyone's elements, and gives each process a block of the result: process i gets `counts[i]` elements, behind
    /// those of the processes below it.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// let counts: Vec<usize> = (1..=world.size()).collect();
    /// let data = vec![1_u64; counts.iter().sum()];
    /// let mine = world.reduce_scatter(&data, &counts, mpi::Op::Sum)?;
    /// assert_eq!(mine, vec![world.size() as u64; world.rank() + 1]);
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn reduce_scatter<T: Number>(&self, data: &[T], counts: &[usize], op: Op) -> Result<Vec<T>> {
        let mut mine = zeros(counts.get(self.rank()).copied().unwrap_or(0).min(data.len()));
        self.blocking("reduce_scatter").reduce_scatter((data, counts), &mut mine, op)?;
        Ok(mine)
    }

    /// As [`Communicator::reduce_scatter`] with equal blocks.
    pub fn reduce_scatter_block<T: Number>(&self, data: &[T], op: Op) -> Result<Vec<T>> {
        let mut mine = zeros(data.len() / self.size());
        self.blocking("reduce_scatter_block").reduce_scatter_block(data, &mut mine, op)?;
        Ok(mine)
    }

    /// Collects everyone's elements (equally many) at the root, by rank.
    pub fn gather<T: Datum>(&self, data: &[T], root: usize) -> Result<Option<Vec<T>>> {
        let mut all = self.at_root(root, data.len() * self.size());
        self.blocking("gather").gather(data, all.as_deref_mut(), root)?;
        Ok(all)
    }

    /// As [`Communicator::gather`], where process i sends `counts[i]` elements. Only the root needs `counts`.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// // The root asks first how many there are.
    /// let mine = vec![world.rank() as u32; world.rank() + 1];
    /// let counts = world.gather(&[mine.len()], 0)?.unwrap_or_default();
    /// if let Some(all) = world.gatherv(&mine, &counts, 0)? {
    ///     assert_eq!(all.len(), counts.iter().sum());
    /// }
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn gatherv<T: Datum>(&self, data: &[T], counts: &[usize], root: usize) -> Result<Option<Vec<T>>> {
        let total = if self.rank() == root { self.total::<T>("gatherv", counts)? } else { 0 };
        let mut all = self.at_root(root, total);
        self.blocking("gatherv").gatherv(data, all.as_deref_mut().map(|all| (all, counts)), root)?;
        Ok(all)
    }

    /// Gives everyone its part of the root's elements, by rank. Only the root has `all`.
    pub fn scatter<T: Datum>(&self, all: Option<&[T]>, part: &mut [T], root: usize) -> Result<()> {
        self.blocking("scatter").scatter(all, part, root)
    }

    /// As [`Communicator::scatter`], where process i gets the next `counts[i]` elements. Only the root has elements and counts;
    /// each process knows how many it gets.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// let counts: Vec<usize> = (1..=world.size()).collect();
    /// let all = vec![7_u8; counts.iter().sum()];
    /// let mut part = vec![0; world.rank() + 1];
    /// let given = (world.rank() == 0).then_some((&all[..], &counts[..]));
    /// world.scatterv(given, &mut part, 0)?;
    /// assert_eq!(part, vec![7; world.rank() + 1]);
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn scatterv<T: Datum>(
        &self,
        all: Option<(&[T], &[usize])>,
        part: &mut [T],
        root: usize,
    ) -> Result<()> {
        self.blocking("scatterv").scatterv(all, part, root)
    }

    /// Collects everyone's elements (equally many) everywhere, by rank.
    pub fn allgather<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut all = zeros(data.len() * self.size());
        self.blocking("allgather").allgather(data, &mut all)?;
        Ok(all)
    }

    /// As [`Communicator::allgather`], where process i sends `counts[i]` elements, which everyone has to know.
    pub fn allgatherv<T: Datum>(&self, data: &[T], counts: &[usize]) -> Result<Vec<T>> {
        let mut all = zeros(self.total::<T>("allgatherv", counts)?);
        self.blocking("allgatherv").allgatherv(data, (&mut all, counts))?;
        Ok(all)
    }

    /// The i-th part of everyone's elements goes to process i; parts are equal.
    pub fn alltoall<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut all = zeros(data.len());
        self.blocking("alltoall").alltoall(data, &mut all)?;
        Ok(all)
    }

    /// As [`Communicator::alltoall`], where parts may have any length: the first `sends[0]` elements go to process 0, the
    /// next `sends[1]` to process 1, and so on. `recvs[i]` elements come from process i; the result has them by rank.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// // Everyone sends as many elements to process i as i says, and learns first how many it gets.
    /// let sends: Vec<usize> = (0..world.size()).collect();
    /// let recvs = world.alltoall(&sends)?;
    /// let data = vec![world.rank() as u64; sends.iter().sum()];
    /// let all = world.alltoallv(&data, &sends, &recvs)?;
    /// assert_eq!(all.len(), world.rank() * world.size());
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn alltoallv<T: Datum>(&self, data: &[T], sends: &[usize], recvs: &[usize]) -> Result<Vec<T>> {
        let mut all = zeros(self.total::<T>("alltoallv", recvs)?);
        self.blocking("alltoallv").alltoallv((data, sends), (&mut all, recvs))?;
        Ok(all)
    }

    /// As [`Communicator::alltoallv`], where elements for each process may be of another type, and lie anywhere: the i-th of
    /// `sends` goes to process i, and what comes from process i goes to the i-th of `recvs`, which is as long as what comes.
    /// The types must agree: `f64` is received where `f64` was sent (`--check` says where that is not so).
    ///
    /// ```
    /// use mpi::{Slice, SliceMut};
    /// # let world = mpi::init()?.world();
    /// // Even processes want places, odd ones want names; everybody has one of each for them.
    /// let (place, name) = ([0.5, 1.0 + world.rank() as f64], [world.rank() as u32]);
    /// let sends = (0..world.size()).map(|to| if to % 2 == 0 { Slice::new(&place) } else { Slice::new(&name) });
    /// let (mut places, mut names) = (vec![[0.0; 2]; world.size()], vec![[0]; world.size()]);
    /// if world.rank() % 2 == 0 {
    ///     world.alltoallw(sends, places.iter_mut().map(|place| SliceMut::new(place)))?;
    ///     assert!(places.iter().enumerate().all(|(from, place)| *place == [0.5, 1.0 + from as f64]));
    /// } else {
    ///     world.alltoallw(sends, names.iter_mut().map(|name| SliceMut::new(name)))?;
    ///     assert!(names.iter().enumerate().all(|(from, name)| *name == [from as u32]));
    /// }
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn alltoallw<'a>(
        &self,
        sends: impl IntoIterator<Item = Slice<'a>>,
        recvs: impl IntoIterator<Item = SliceMut<'a>>,
    ) -> Result<()> {
        self.blocking("alltoallw").alltoallw(sends, recvs)
    }

    /// Sends the elements to every neighbor of a [grid](Communicator::grid) or [graph](Communicator::graph), and collects
    /// those of every neighbor (equally many).
    pub fn neighbor_allgather<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut all = zeros(data.len() * self.neighbors()?.sources.len());
        self.blocking("neighbor_allgather").neighbor_allgather(data, &mut all)?;
        Ok(all)
    }

    /// As [`Communicator::neighbor_allgather`], where the i-th neighbor sends `counts[i]` elements.
    pub fn neighbor_allgatherv<T: Datum>(&self, data: &[T], counts: &[usize]) -> Result<Vec<T>> {
        let mut all = zeros(self.total::<T>("neighbor_allgatherv", counts)?);
        self.blocking("neighbor_allgatherv").neighbor_allgatherv(data, (&mut all, counts))?;
        Ok(all)
    }

    /// Sends every neighbor its part of `data`, and receives a part of `into` from every neighbor; parts are equal.
    pub fn neighbor_alltoall<T: Datum>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        self.blocking("neighbor_alltoall").neighbor_alltoall(data, into)
    }

    /// As [`Communicator::neighbor_alltoall`] with parts of any length: `sends[i]` elements go to the i-th neighbor, and
    /// `recvs[i]` come from the i-th.
    pub fn neighbor_alltoallv<T: Datum>(
        &self,
        data: &[T],
        sends: &[usize],
        recvs: &[usize],
    ) -> Result<Vec<T>> {
        let mut all = zeros(self.total::<T>("neighbor_alltoallv", recvs)?);
        self.blocking("neighbor_alltoallv").neighbor_alltoallv((data, sends), (&mut all, recvs))?;
        Ok(all)
    }

    /// As [`Communicator::neighbor_alltoallv`] with slices of any types: the i-th of `sends` goes to the i-th neighbor, and what
    /// comes from the i-th goes to the i-th of `recvs`. See [`Communicator::alltoallw`].
    pub fn neighbor_alltoallw<'a>(
        &self,
        sends: impl IntoIterator<Item = Slice<'a>>,
        recvs: impl IntoIterator<Item = SliceMut<'a>>,
    ) -> Result<()> {
        self.blocking("neighbor_alltoallw").neighbor_alltoallw(sends, recvs)
    }

    fn at_root<T: Datum>(&self, root: usize, len: usize) -> Option<Vec<T>> {
        (self.rank() == root).then(|| zeros(len))
    }

    /// How many elements blocks are together.
    fn total<T>(&self, call: &'static str, counts: &[usize]) -> Result<usize> {
        let total = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
        let bytes =
            |total: usize| total.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
        match total.filter(|total| bytes(*total).is_some()) {
            Some(total) => Ok(total),
            None => {
                let text = "the blocks to receive are longer than any memory";
                self.engine().note(self.here(call), fail(ErrorClass::Count, text))
            }
        }
    }
}
