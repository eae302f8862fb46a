//! Collective calls made of slices. What blocking and non-blocking forms have in common: which lengths fit each other, and
//! who has to bring what.
use crate::buffer::{RecvBuf, SendBuf};
use crate::communicator::{Communicator, peer};
use crate::core::{Coll, Data, OpId, Parts, RecvData, Reduction, SendData, TypedParts};
use crate::datum::{Datum, Number, Op};
use crate::error::{ErrorClass, Result, fail};
use crate::slices::{Slice, SliceMut, Table};
use crate::universe::Here;
use std::marker::PhantomData;

/// A collective call that is about to be made, and what then makes it: at once, or in a scope.
pub(crate) struct Calls<'c, F, R> {
    comm: &'c Communicator,
    here: Here,
    make: F,
    marker: PhantomData<fn() -> R>,
}

/// Room for what arrives in blocks of some lengths.
pub(crate) type Room<'a, T> = (&'a mut [T], &'a [usize]);

impl<'c, F: FnOnce(Coll<'_>) -> Result<R>, R> Calls<'c, F, R> {
    pub(crate) fn new(comm: &'c Communicator, here: Here, make: F) -> Self {
        Calls { comm, here, make, marker: PhantomData }
    }

    pub(crate) fn barrier(self) -> Result<R> {
        (self.make)(Coll::Barrier)
    }

    pub(crate) fn bcast<T: Datum>(self, data: &mut [T], root: usize) -> Result<R> {
        let data = self.received(data)?;
        (self.make)(Coll::Bcast { data, root: peer(root) })
    }

    pub(crate) fn gather<T: Datum>(self, data: &[T], into: Option<&mut [T]>, root: usize) -> Result<R> {
        let send = self.sent(data)?;
        let room = self.at_root(root, into, |into| self.lengths(into.len(), data.len() * self.size()))?;
        let room = room.map_or(Ok(RecvData::NONE), |into| self.received(into))?;
        (self.make)(Coll::Gather { send, recv: Data::new(room.buf, send.count, send.ty), root: peer(root) })
    }

    pub(crate) fn gatherv<T: Datum>(self, data: &[T], into: Option<Room<'_, T>>, root: usize) -> Result<R> {
        let send = self.sent(data)?;
        let room = self.at_root(root, into, |_| Ok(()))?;
        let (into, counts) = room.unwrap_or_default();
        let blocks = match self.is_root(root) {
            true => self.blocks(counts, self.size(), into.len())?,
            false => Blocks::default(),
        };
        let recv = blocks.parts(self.received(into)?);
        (self.make)(Coll::Gatherv { send, recv, root: peer(root) })
    }

    pub(crate) fn scatter<T: Datum>(self, all: Option<&[T]>, part: &mut [T], root: usize) -> Result<R> {
        let all = self.at_root(root, all, |all| self.lengths(all.len(), part.len() * self.size()))?;
        let recv = self.received(part)?;
        let all = all.map_or(Ok(SendData::NONE), |all| self.sent(all))?;
        (self.make)(Coll::Scatter { send: Data::new(all.buf, recv.count, recv.ty), recv, root: peer(root) })
    }

    pub(crate) fn scatterv<T: Datum>(
        self,
        all: Option<(&[T], &[usize])>,
        part: &mut [T],
        root: usize,
    ) -> Result<R> {
        let (all, counts) = self.at_root(root, all, |_| Ok(()))?.unwrap_or_default();
        let blocks = match self.is_root(root) {
            true => self.blocks(counts, self.size(), all.len())?,
            false => Blocks::default(),
        };
        let (send, recv) = (blocks.parts(self.sent(all)?), self.received(part)?);
        (self.make)(Coll::Scatterv { send, recv, root: peer(root) })
    }

    pub(crate) fn allgather<T: Datum>(self, data: &[T], into: &mut [T]) -> Result<R> {
        self.lengths(into.len(), data.len() * self.size())?;
        let (send, room) = (self.sent(data)?, self.received(into)?);
        (self.make)(Coll::Allgather { send, recv: Data { count: send.count, ..room } })
    }

    pub(crate) fn allgatherv<T: Datum>(self, data: &[T], (into, counts): Room<'_, T>) -> Result<R> {
        let blocks = self.blocks(counts, self.size(), into.len())?;
        self.lengths(data.len(), counts[self.comm.rank()])?;
        let (send, recv) = (self.sent(data)?, blocks.parts(self.received(into)?));
        (self.make)(Coll::Allgatherv { send, recv })
    }

    pub(crate) fn alltoall<T: Datum>(self, data: &[T], into: &mut [T]) -> Result<R> {
        self.lengths(into.len(), data.len())?;
        let count = self.part(data.len(), self.size())?;
        let (send, recv) = (Data { count, ..self.sent(data)? }, Data { count, ..self.received(into)? });
        (self.make)(Coll::Alltoall { send, recv })
    }

    pub(crate) fn alltoallv<T: Datum>(
        self,
        (data, sends): (&[T], &[usize]),
        (into, recvs): Room<'_, T>,
    ) -> Result<R> {
        let sends = self.blocks(sends, self.size(), data.len())?;
        let recvs = self.blocks(recvs, self.size(), into.len())?;
        let (send, recv) = (sends.parts(self.sent(data)?), recvs.parts(self.received(into)?));
        (self.make)(Coll::Alltoallv { send, recv })
    }

    pub(crate) fn alltoallw<'a>(
        self,
        sends: impl IntoIterator<Item = Slice<'a>>,
        recvs: impl IntoIterator<Item = SliceMut<'a>>,
    ) -> Result<R> {
        let (sends, recvs) = self.tables((sends, self.size()), (recvs, self.size()))?;
        (self.make)(Coll::Alltoallw { send: sends.parts(SendBuf::NONE), recv: recvs.parts(RecvBuf::NONE) })
    }

    pub(crate) fn reduce<T: Number>(
        self,
        data: &[T],
        into: Option<&mut [T]>,
        op: Op,
        root: usize,
    ) -> Result<R> {
        let room = self.at_root(root, into, |into| self.lengths(into.len(), data.len()))?;
        let room = room.map_or(Ok(RecvData::NONE), |into| self.received(into))?;
        let send = self.sent(data)?;
        let recv = Data::new(room.buf, send.count, send.ty);
        (self.make)(Coll::Reduce { of: Reduction { send: send.buf, recv, op: op.id() }, root: peer(root) })
    }

    pub(crate) fn allreduce<T: Number>(self, data: &[T], result: &mut [T], op: Op) -> Result<R> {
        let of = self.reduction(data, result, op.id())?;
        (self.make)(Coll::Allreduce(of))
    }

    pub(crate) fn allreduce_in_place<T: Number>(self, data: &mut [T], op: Op) -> Result<R> {
        let (send, recv) = (SendData::IN_PLACE.buf, self.received(data)?);
        (self.make)(Coll::Allreduce(Reduction { send, recv, op: op.id() }))
    }

    pub(crate) fn scan<T: Number>(self, data: &[T], result: &mut [T], op: Op) -> Result<R> {
        let of = self.reduction(data, result, op.id())?;
        (self.make)(Coll::Scan(of))
    }

    pub(crate) fn exscan<T: Number>(self, data: &[T], result: &mut [T], op: Op) -> Result<R> {
        let of = self.reduction(data, result, op.id())?;
        (self.make)(Coll::Exscan(of))
    }

    pub(crate) fn reduce_scatter<T: Number>(
        self,
        (data, counts): (&[T], &[usize]),
        result: &mut [T],
        op: Op,
    ) -> Result<R> {
        let blocks = self.blocks(counts, self.size(), data.len())?;
        self.lengths(result.len(), counts[self.comm.rank()])?;
        let (send, recv) = (self.sent(data)?.buf, self.received(result)?);
        let of = Reduction { send, recv, op: op.id() };
        (self.make)(Coll::ReduceScatter { of, counts: &blocks.counts })
    }

    pub(crate) fn reduce_scatter_block<T: Number>(self, data: &[T], result: &mut [T], op: Op) -> Result<R> {
        self.lengths(data.len(), result.len() * self.size())?;
        let (send, recv) = (self.sent(data)?.buf, self.received(result)?);
        (self.make)(Coll::ReduceScatterBlock(Reduction { send, recv, op: op.id() }))
    }

    pub(crate) fn neighbor_allgather<T: Datum>(self, data: &[T], into: &mut [T]) -> Result<R> {
        let sources = self.neighbors()?.0;
        self.lengths(into.len(), data.len() * sources)?;
        let (send, room) = (self.sent(data)?, self.received(into)?);
        (self.make)(Coll::NeighborAllgather { send, recv: Data { count: send.count, ..room } })
    }

    pub(crate) fn neighbor_allgatherv<T: Datum>(self, data: &[T], (into, counts): Room<'_, T>) -> Result<R> {
        let blocks = self.blocks(counts, self.neighbors()?.0, into.len())?;
        let (send, recv) = (self.sent(data)?, blocks.parts(self.received(into)?));
        (self.make)(Coll::NeighborAllgatherv { send, recv })
    }

    pub(crate) fn neighbor_alltoall<T: Datum>(self, data: &[T], into: &mut [T]) -> Result<R> {
        let (sources, dests) = self.neighbors()?;
        let (sends, recvs) = (self.part(data.len(), dests)?, self.part(into.len(), sources)?);
        let (send, room) = (self.sent(data)?, self.received(into)?);
        let (send, recv) = (Data { count: sends, ..send }, Data { count: recvs, ..room });
        (self.make)(Coll::NeighborAlltoall { send, recv })
    }

    pub(crate) fn neighbor_alltoallv<T: Datum>(
        self,
        (data, sends): (&[T], &[usize]),
        (into, recvs): Room<'_, T>,
    ) -> Result<R> {
        let (sources, dests) = self.neighbors()?;
        let sends = self.blocks(sends, dests, data.len())?;
        let recvs = self.blocks(recvs, sources, into.len())?;
        let (send, recv) = (sends.parts(self.sent(data)?), recvs.parts(self.received(into)?));
        (self.make)(Coll::NeighborAlltoallv { send, recv })
    }

    pub(crate) fn neighbor_alltoallw<'a>(
        self,
        sends: impl IntoIterator<Item = Slice<'a>>,
        recvs: impl IntoIterator<Item = SliceMut<'a>>,
    ) -> Result<R> {
        let (sources, dests) = self.neighbors()?;
        let (sends, recvs) = self.tables((sends, dests), (recvs, sources))?;
        let (send, recv) = (sends.parts(SendBuf::NONE), recvs.parts(RecvBuf::NONE));
        (self.make)(Coll::NeighborAlltoallw { send, recv })
    }

    /// Slices of any types, one for each of so many processes.
    fn tables<'a>(
        &self,
        (sends, dests): (impl IntoIterator<Item = Slice<'a>>, usize),
        (recvs, sources): (impl IntoIterator<Item = SliceMut<'a>>, usize),
    ) -> Result<(Table, Table)> {
        let engine = self.comm.engine();
        let sends = self.noted(Table::of_sent(engine, sends))?;
        let recvs = self.noted(Table::of_received(engine, recvs))?;
        for (given, processes) in [(sends.len(), dests), (recvs.len(), sources)] {
            if given != processes {
                let text = format!("{given} slices for {processes} processes");
                return self.noted(fail(ErrorClass::Count, text));
            }
        }
        Ok((sends, recvs))
    }

    /// A reduction of one slice into another of the same length.
    pub(crate) fn reduction<T: Datum>(&self, data: &[T], result: &mut [T], op: OpId) -> Result<Reduction> {
        self.lengths(result.len(), data.len())?;
        Ok(Reduction { send: self.sent(data)?.buf, recv: self.received(result)?, op })
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn is_root(&self, root: usize) -> bool {
        self.comm.rank() == root
    }

    fn sent<T: Datum>(&self, slice: &[T]) -> Result<SendData> {
        self.noted(self.comm.engine().sent(slice))
    }

    fn received<T: Datum>(&self, slice: &mut [T]) -> Result<RecvData> {
        self.noted(self.comm.engine().received(slice))
    }

    /// How many neighbors send to this process, and to how many it sends.
    fn neighbors(&self) -> Result<(usize, usize)> {
        let around = self.comm.engine().call(self.here, |mpi| mpi.neighborhood(self.comm.id()))?;
        Ok((around.sources.len(), around.dests.len()))
    }

    /// What the root has to bring, and others need not.
    fn at_root<B>(
        &self,
        root: usize,
        brought: Option<B>,
        fits: impl FnOnce(&B) -> Result<()>,
    ) -> Result<Option<B>> {
        match (self.is_root(root), brought) {
            (false, _) => Ok(None),
            (true, Some(buffer)) => fits(&buffer).map(|()| Some(buffer)),
            (true, None) => self.noted(fail(ErrorClass::Buffer, "the root brings no buffer")),
        }
    }

    fn lengths(&self, given: usize, needed: usize) -> Result<()> {
        let wrong = || fail(ErrorClass::Count, format!("{given} elements where {needed} are needed"));
        if given == needed { Ok(()) } else { self.noted(wrong()) }
    }

    /// Elements of each of some equal parts.
    fn part(&self, elements: usize, parts: usize) -> Result<i64> {
        match parts {
            0 if elements == 0 => Ok(0),
            1.. if elements.is_multiple_of(parts) => Ok((elements / parts) as i64),
            _ => {
                let text = format!("{elements} elements for {parts} processes, which get equally many");
                self.noted(fail(ErrorClass::Count, text))
            }
        }
    }

    fn blocks(&self, counts: &[usize], processes: usize, elements: usize) -> Result<Blocks> {
        self.noted(Blocks::new(counts, processes, elements))
    }

    #[inline]
    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_ok() { result } else { self.comm.engine().note(self.here, result) }
    }
}

/// Lengths and places of blocks that lie one behind the other.
#[derive(Default)]
struct Blocks {
    counts: Vec<i64>,
    displs: Vec<i64>,
}

impl Blocks {
    fn new(counts: &[usize], processes: usize, elements: usize) -> Result<Self> {
        if counts.len() != processes {
            return fail(ErrorClass::Count, format!("{} lengths for {processes} processes", counts.len()));
        }
        if counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count)) != Some(elements) {
            let text =
                format!("the lengths of the blocks do not make up the {elements} elements of the slice");
            return fail(ErrorClass::Count, text);
        }
        let place = |next: &mut i64, count: &usize| {
            let at = *next;
            *next += *count as i64;
            Some(at)
        };
        Ok(Blocks {
            counts: counts.iter().map(|count| *count as i64).collect(),
            displs: counts.iter().scan(0, place).collect(),
        })
    }

    fn parts<B>(&self, of: Data<B>) -> Parts<'_, B> {
        Parts { buf: of.buf, counts: &self.counts, displs: &self.displs, ty: of.ty }
    }
}

impl Table {
    fn parts<B>(&self, buf: B) -> TypedParts<'_, B> {
        TypedParts { buf, counts: &self.counts, displs: &self.displs, types: &self.types }
    }
}
