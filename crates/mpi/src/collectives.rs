//! Collective operations of the safe API. Every process of the communicator calls the same ones in the same order.
use crate::buffer::{RecvBuf, SendBuf, combine, source_of, target_of};
use crate::communicator::{Communicator, peer};
use crate::core::{Coll, UserOp, UserReduce};
use crate::datum::{Datum, Op};
use crate::error::{ErrorClass, Result, fail};
use crate::universe::no_job;

/// May a reduction change the order of its operands?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any order gives the same.
    Any,
    /// By rank.
    Ranks,
}

impl Communicator {
    fn collective(&self, call: Coll<'_>) -> Result<()> {
        self.engine().block(|mpi| mpi.collective(self.id(), call), no_job)?;
        Ok(())
    }

    /// Waits until every process is here.
    pub fn barrier(&self) -> Result<()> {
        self.collective(Coll::Barrier)
    }

    /// Gives everyone the root's elements.
    pub fn bcast<T: Datum>(&self, data: &mut [T], root: usize) -> Result<()> {
        let (buf, count) = (target_of(data), data.len() as i64);
        self.collective(Coll::Bcast { buf, count, ty: T::TYPE, root: peer(root) })
    }

    /// Combines everyone's elements at the root, which gets the result.
    pub fn reduce<T: Datum>(&self, data: &[T], op: Op, root: usize) -> Result<Option<Vec<T>>> {
        let mut result = self.at_root(root, data.len());
        let (send, recv) =
            (source_of(data), result.as_mut().map_or(RecvBuf::NONE, |result| target_of(result)));
        let count = data.len() as i64;
        self.collective(Coll::Reduce { send, recv, count, ty: T::TYPE, op: op.id(), root: peer(root) })?;
        Ok(result)
    }

    /// Combines everyone's elements; everyone gets the result.
    ///
    /// ```no_run
    /// # let world = mpi::init()?.world();
    /// let mut largest = [0.0];
    /// world.allreduce(&[world.rank() as f64], &mut largest, mpi::Op::Max)?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn allreduce<T: Datum>(&self, data: &[T], result: &mut [T], op: Op) -> Result<()> {
        self.engine().note(same_length(data, result))?;
        let (send, recv) = (source_of(data), target_of(result));
        self.collective(Coll::Allreduce { send, recv, count: data.len() as i64, ty: T::TYPE, op: op.id() })
    }

    /// As [`Communicator::allreduce`], by a function of two elements, which must be associative.
    ///
    /// ```no_run
    /// # let world = mpi::init()?.world();
    /// fn gcd(a: u64, b: u64) -> u64 { if b == 0 { a } else { gcd(b, a % b) } }
    /// let mut result = [0];
    /// world.allreduce_with(&[12 * (world.rank() as u64 + 1)], &mut result, mpi::Order::Any, gcd)?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn allreduce_with<T: Datum>(
        &self,
        data: &[T],
        result: &mut [T],
        order: Order,
        f: impl Fn(T, T) -> T,
    ) -> Result<()> {
        self.engine().note(same_length(data, result))?;
        let (send, recv, count) = (source_of(data), target_of(result), data.len() as i64);
        let commutative = order == Order::Any;
        let op = self.engine().mpi.borrow_mut().op_create(UserOp { function: 0, extra: 0, commutative });
        let call = Coll::Allreduce { send, recv, count, ty: T::TYPE, op };
        // Only this call combines by a function, so every job is for `f`.
        let run = |job: &UserReduce| {
            let bytes = job.count as usize * size_of::<T>();
            combine::<T>(job.source.range(0, bytes), job.target.range(0, bytes), &f);
        };
        let done = self.engine().block(|mpi| mpi.collective(self.id(), call), run);
        self.engine().mpi.borrow_mut().op_free(op)?;
        done?;
        Ok(())
    }

    /// Combines the elements of ranks up to and including this one.
    pub fn scan<T: Datum>(&self, data: &[T], result: &mut [T], op: Op) -> Result<()> {
        self.engine().note(same_length(data, result))?;
        let (send, recv) = (source_of(data), target_of(result));
        self.collective(Coll::Scan { send, recv, count: data.len() as i64, ty: T::TYPE, op: op.id() })
    }

    /// Collects everyone's elements (equally many) at the root, by rank.
    pub fn gather<T: Datum>(&self, data: &[T], root: usize) -> Result<Option<Vec<T>>> {
        let mut all = self.at_root(root, data.len() * self.size());
        let (send, recv) = (source_of(data), all.as_mut().map_or(RecvBuf::NONE, |all| target_of(all)));
        let (scount, rcount) = (data.len() as i64, data.len() as i64);
        let root = peer(root);
        self.collective(Coll::Gather { send, scount, sty: T::TYPE, recv, rcount, rty: T::TYPE, root })?;
        Ok(all)
    }

    /// Gives everyone its part of the root's elements, by rank. Only the root has `all`.
    pub fn scatter<T: Datum>(&self, all: Option<&[T]>, part: &mut [T], root: usize) -> Result<()> {
        if self.rank() == root && all.map(<[T]>::len) != Some(part.len() * self.size()) {
            let text = format!("the root needs {} elements", part.len() * self.size());
            return self.engine().note(fail(ErrorClass::Count, text));
        }
        let (send, scount) = (all.map_or(SendBuf::NONE, source_of), part.len() as i64);
        let (recv, rcount) = (target_of(part), part.len() as i64);
        let root = peer(root);
        self.collective(Coll::Scatter { send, scount, sty: T::TYPE, recv, rcount, rty: T::TYPE, root })
    }

    /// Collects everyone's elements (equally many) everywhere, by rank.
    pub fn allgather<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut all = vec![T::default(); data.len() * self.size()];
        let (send, recv, count) = (source_of(data), target_of(&mut all), data.len() as i64);
        let (scount, rcount) = (count, count);
        self.collective(Coll::Allgather { send, scount, sty: T::TYPE, recv, rcount, rty: T::TYPE })?;
        Ok(all)
    }

    /// The i-th part of everyone's elements goes to process i; parts are equal.
    pub fn alltoall<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        if !data.len().is_multiple_of(self.size()) {
            let text = format!("{} elements for {} processes", data.len(), self.size());
            return self.engine().note(fail(ErrorClass::Count, text));
        }
        let mut all = vec![T::default(); data.len()];
        let (send, recv, count) = (source_of(data), target_of(&mut all), (data.len() / self.size()) as i64);
        let (scount, rcount) = (count, count);
        self.collective(Coll::Alltoall { send, scount, sty: T::TYPE, recv, rcount, rty: T::TYPE })?;
        Ok(all)
    }

    fn at_root<T: Datum>(&self, root: usize, len: usize) -> Option<Vec<T>> {
        (self.rank() == root).then(|| vec![T::default(); len])
    }
}

pub(crate) fn same_length<T>(data: &[T], result: &[T]) -> Result<()> {
    if data.len() == result.len() {
        return Ok(());
    }
    fail(ErrorClass::Count, format!("{} elements in, {} out", data.len(), result.len()))
}
