//! Slices whose elements' type is known to the slice only: for collectives in which each process gets another type.
use crate::buffer::{RecvBuf, SendBuf, elements, room_for};
use crate::core::TypeId;
use crate::datum::Datum;
use crate::error::Result;
use crate::universe::Engine;
use std::marker::PhantomData;

/// How a type is called in the engine.
type Named = fn(&Engine) -> Result<TypeId>;

/// Elements to send, of any type that can be sent. See [`Communicator::alltoallw`](crate::Communicator::alltoallw).
#[derive(Clone, Copy)]
pub struct Slice<'a> {
    at: SendBuf,
    len: usize,
    ty: Named,
    marker: PhantomData<&'a [u8]>,
}

/// Room for elements of any type that can be received. See [`Communicator::alltoallw`](crate::Communicator::alltoallw).
pub struct SliceMut<'a> {
    at: RecvBuf,
    len: usize,
    ty: Named,
    marker: PhantomData<&'a mut [u8]>,
}

impl<'a> Slice<'a> {
    /// These elements.
    pub fn new<T: Datum>(elements_of: &'a [T]) -> Self {
        let (at, len) = (elements(elements_of), elements_of.len());
        Slice { at, len, ty: Engine::datatype::<T>, marker: PhantomData }
    }

    /// For a process that gets nothing.
    pub fn empty() -> Self {
        Slice::new::<u8>(&[])
    }
}

impl<'a> SliceMut<'a> {
    /// This room.
    pub fn new<T: Datum>(room: &'a mut [T]) -> Self {
        let (at, len) = (room_for(room), room.len());
        SliceMut { at, len, ty: Engine::datatype::<T>, marker: PhantomData }
    }

    /// For a process that sends nothing.
    pub fn empty() -> Self {
        SliceMut::new::<u8>(&mut [])
    }
}

impl<'a, T: Datum> From<&'a [T]> for Slice<'a> {
    fn from(slice: &'a [T]) -> Self {
        Slice::new(slice)
    }
}

impl<'a, T: Datum> From<&'a mut [T]> for SliceMut<'a> {
    fn from(slice: &'a mut [T]) -> Self {
        SliceMut::new(slice)
    }
}

/// Where slices are, by process. Places are addresses: they count from no buffer.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) counts: Vec<i64>,
    pub(crate) displs: Vec<i64>,
    pub(crate) types: Vec<TypeId>,
}

impl Table {
    pub(crate) fn of_sent<'a>(engine: &Engine, slices: impl IntoIterator<Item = Slice<'a>>) -> Result<Self> {
        let row = |slice: Slice<'a>| (slice.at.as_ptr() as i64, slice.len, slice.ty);
        Table::new(engine, slices.into_iter().map(row))
    }

    pub(crate) fn of_received<'a>(
        engine: &Engine,
        slices: impl IntoIterator<Item = SliceMut<'a>>,
    ) -> Result<Self> {
        let row = |slice: SliceMut<'a>| (slice.at.as_ptr() as i64, slice.len, slice.ty);
        Table::new(engine, slices.into_iter().map(row))
    }

    fn new(engine: &Engine, rows: impl Iterator<Item = (i64, usize, Named)>) -> Result<Self> {
        let mut table = Table::default();
        for (at, len, ty) in rows {
            table.displs.push(at);
            table.counts.push(len as i64);
            table.types.push(ty(engine)?);
        }
        Ok(table)
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }
}
