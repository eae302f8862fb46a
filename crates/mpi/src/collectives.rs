//! Collective operations of the safe API. Every process of the communicator calls the same ones in the same order.
use crate::buffer::combine;
use crate::communicator::{Communicator, peer};
use crate::core::{Coll, Data, OpId, Parts, RecvData, Reduction, SendData, UserOp, UserReduce};
use crate::datum::{Datum, Op, received, sent};
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
        self.collective(Coll::Bcast { data: received(data), root: peer(root) })
    }

    /// Combines everyone's elements at the root, which gets the result.
    pub fn reduce<T: Datum>(&self, data: &[T], op: Op, root: usize) -> Result<Option<Vec<T>>> {
        let mut result = self.at_root(root, data.len());
        let send = sent(data);
        let room = result.as_mut().map_or(RecvData::NONE, |result| received(result));
        let recv = Data::new(room.buf, send.count, send.ty);
        let of = Reduction { send: send.buf, recv, op: op.id() };
        self.collective(Coll::Reduce { of, root: peer(root) })?;
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
        let of = self.engine().note(reduction(data, result, op.id()))?;
        self.collective(Coll::Allreduce(of))
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
        // The operation is made when nothing else can fail, so that it is always freed.
        let mut of = self.engine().note(reduction(data, result, OpId::NO_OP))?;
        let commutative = order == Order::Any;
        of.op = self.engine().mpi.borrow_mut().op_create(UserOp { function: 0, extra: 0, commutative });
        let (op, call) = (of.op, Coll::Allreduce(of));
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
        let of = self.engine().note(reduction(data, result, op.id()))?;
        self.collective(Coll::Scan(of))
    }

    /// Collects everyone's elements (equally many) at the root, by rank.
    pub fn gather<T: Datum>(&self, data: &[T], root: usize) -> Result<Option<Vec<T>>> {
        let mut all = self.at_root(root, data.len() * self.size());
        let room = all.as_mut().map_or(RecvData::NONE, |all| received(all));
        let recv = Data::new(room.buf, data.len() as i64, T::TYPE);
        self.collective(Coll::Gather { send: sent(data), recv, root: peer(root) })?;
        Ok(all)
    }

    /// Gives everyone its part of the root's elements, by rank. Only the root has `all`.
    pub fn scatter<T: Datum>(&self, all: Option<&[T]>, part: &mut [T], root: usize) -> Result<()> {
        if self.rank() == root && all.map(<[T]>::len) != Some(part.len() * self.size()) {
            let text = format!("the root needs {} elements", part.len() * self.size());
            return self.engine().note(fail(ErrorClass::Count, text));
        }
        let recv = received(part);
        let send = Data::new(all.map_or(SendData::NONE, sent).buf, recv.count, recv.ty);
        self.collective(Coll::Scatter { send, recv, root: peer(root) })
    }

    /// Collects everyone's elements (equally many) everywhere, by rank.
    pub fn allgather<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        let mut all = vec![T::default(); data.len() * self.size()];
        let (send, room) = (sent(data), received(&mut all));
        self.collective(Coll::Allgather { send, recv: Data { count: send.count, ..room } })?;
        Ok(all)
    }

    /// The i-th part of everyone's elements goes to process i; parts are equal.
    pub fn alltoall<T: Datum>(&self, data: &[T]) -> Result<Vec<T>> {
        if !data.len().is_multiple_of(self.size()) {
            let text = format!("{} elements for {} processes", data.len(), self.size());
            return self.engine().note(fail(ErrorClass::Count, text));
        }
        let mut all = vec![T::default(); data.len()];
        let count = (data.len() / self.size()) as i64;
        let (send, recv) = (Data { count, ..sent(data) }, Data { count, ..received(&mut all) });
        self.collective(Coll::Alltoall { send, recv })?;
        Ok(all)
    }

    /// As [`Communicator::alltoall`], where parts may have any length: the first `sends[0]` elements go to process 0, the
    /// next `sends[1]` to process 1, and so on. `recvs[i]` elements come from process i; the result has them by rank.
    ///
    /// ```no_run
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
        self.engine().note(fits(data.len(), sends, recvs, self.size()))?;
        let mut all = vec![T::default(); recvs.iter().sum()];
        let ((send_counts, send_displs), (recv_counts, recv_displs)) = (in_a_row(sends), in_a_row(recvs));
        let (send, recv) = (sent(data).buf, received(&mut all).buf);
        self.collective(Coll::Alltoallv {
            send: Parts { buf: send, counts: &send_counts, displs: &send_displs, ty: T::TYPE },
            recv: Parts { buf: recv, counts: &recv_counts, displs: &recv_displs, ty: T::TYPE },
        })?;
        Ok(all)
    }

    fn at_root<T: Datum>(&self, root: usize, len: usize) -> Option<Vec<T>> {
        (self.rank() == root).then(|| vec![T::default(); len])
    }
}

/// Do parts of these lengths make up the data, and is there one for everybody?
fn fits(elements: usize, sends: &[usize], recvs: &[usize], processes: usize) -> Result<()> {
    if sends.len() != processes || recvs.len() != processes {
        let text = format!("{} and {} lengths for {processes} processes", sends.len(), recvs.len());
        return fail(ErrorClass::Count, text);
    }
    let total = |counts: &[usize]| counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
    if total(sends) != Some(elements) {
        return fail(ErrorClass::Count, format!("the parts to send do not make up {elements} elements"));
    }
    match total(recvs) {
        Some(_) => Ok(()),
        None => fail(ErrorClass::Count, "the parts to receive are longer than any memory"),
    }
}

/// Lengths and places of parts that lie one behind the other.
fn in_a_row(counts: &[usize]) -> (Vec<i64>, Vec<i64>) {
    let place = |next: &mut i64, count: &usize| {
        let at = *next;
        *next += *count as i64;
        Some(at)
    };
    (counts.iter().map(|count| *count as i64).collect(), counts.iter().scan(0, place).collect())
}

/// A reduction of one slice into another of the same length.
pub(crate) fn reduction<T: Datum>(data: &[T], result: &mut [T], op: OpId) -> Result<Reduction> {
    if data.len() == result.len() {
        return Ok(Reduction { send: sent(data).buf, recv: received(result), op });
    }
    fail(ErrorClass::Count, format!("{} elements in, {} out", data.len(), result.len()))
}
