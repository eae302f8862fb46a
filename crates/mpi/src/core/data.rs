//! What an operation works on: elements in the program's memory.
//!
//! [`Data`] is what a caller names, unchecked. [`Checked`] is what the engine keeps: the count is not negative, and the
//! datatype is held by reference, so that the program may free it meanwhile.
use super::ids::{OpId, TypeId};
use super::layout::Datatype;
use super::p2p::element_count;
use super::*;
use crate::buffer::{At, RecvBuf, SendBuf};
use crate::error::Result;
use std::rc::Rc;

/// `count` elements of a datatype at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<B> {
    /// Where they stand.
    pub buf: B,
    /// Number of elements; the operation refuses a negative one.
    pub count: i64,
    /// Their datatype.
    pub ty: TypeId,
}

/// Elements that an operation reads.
pub type SendData = Data<SendBuf>;
/// Elements that an operation writes.
pub type RecvData = Data<RecvBuf>;

impl<B> Data<B> {
    /// `count` elements of `ty` at `buf`.
    #[inline]
    pub const fn new(buf: B, count: i64, ty: TypeId) -> Self {
        Data { buf, count, ty }
    }
}

impl SendData {
    /// For operations that read nothing here.
    pub const NONE: SendData = Data::new(SendBuf::NONE, 0, TypeId::BYTE);
    /// The elements are in the receive buffer already (`MPI_IN_PLACE`).
    pub const IN_PLACE: SendData = Data::new(SendBuf::IN_PLACE, 0, TypeId::BYTE);

    /// The same elements as a place of the engine's plans, which hold sources and targets alike.
    #[inline]
    pub(super) fn as_recv(self) -> RecvData {
        Data::new(self.buf.as_recv(), self.count, self.ty)
    }
}

impl RecvData {
    /// For operations that write nothing here.
    pub const NONE: RecvData = Data::new(RecvBuf::NONE, 0, TypeId::BYTE);
    /// The elements stay in the send buffer (`MPI_IN_PLACE` as receive buffer of a scatter).
    pub const IN_PLACE: RecvData = Data::new(RecvBuf::IN_PLACE, 0, TypeId::BYTE);

    /// The same elements as a source.
    #[inline]
    pub fn as_source(self) -> SendData {
        Data::new(self.buf.as_source(), self.count, self.ty)
    }
}

/// A buffer with one block for each process, in a collective with varying counts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a, B> {
    /// Where the displacements count from.
    pub buf: B,
    /// Elements, by rank.
    pub counts: &'a [i64],
    /// Distance from the buffer's start, by rank, in extents of the datatype.
    pub displs: &'a [i64],
    /// The datatype of all blocks.
    pub ty: TypeId,
}

impl<'a> Parts<'a, SendBuf> {
    /// As [`SendData::as_recv`].
    pub(super) fn as_recv(self) -> Parts<'a, RecvBuf> {
        Parts { buf: self.buf.as_recv(), counts: self.counts, displs: self.displs, ty: self.ty }
    }
}

/// As [`Parts`], where every block has its own datatype and displacements are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct TypedParts<'a, B> {
    /// Where the displacements count from.
    pub buf: B,
    /// Elements, by rank.
    pub counts: &'a [i64],
    /// Distance from the buffer's start, by rank, in bytes.
    pub displs: &'a [i64],
    /// Datatypes, by rank.
    pub types: &'a [TypeId],
}

impl<'a> TypedParts<'a, SendBuf> {
    /// As [`SendData::as_recv`].
    pub(super) fn as_recv(self) -> TypedParts<'a, RecvBuf> {
        TypedParts { buf: self.buf.as_recv(), counts: self.counts, displs: self.displs, types: self.types }
    }
}

/// What a reduction combines. Both buffers hold elements of `recv.ty`; `recv.count` counts those of the result (and of
/// the operands, unless the operation says otherwise).
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The operands of this process.
    pub send: SendBuf,
    /// The result. Where a process gets none, the buffer is ignored; count and datatype are not.
    pub recv: RecvData,
    /// How to combine.
    pub op: OpId,
}

/// Data whose count and datatype have been checked.
#[derive(Clone)]
pub(super) struct Checked<B> {
    pub(super) buf: B,
    pub(super) count: usize,
    pub(super) ty: Rc<Datatype>,
}

impl<B> Checked<B> {
    /// Bytes of data, without gaps.
    pub(super) fn bytes(&self) -> Result<usize> {
        self.ty.bytes(self.count)
    }

    /// Offset and length, if the elements are bytes in a row.
    pub(super) fn flat(&self) -> Option<(isize, usize)> {
        self.ty.flat(self.count)
    }
}

impl Checked<RecvBuf> {
    /// As many elements per process, one after the other: those of one process.
    pub(super) fn of_rank(&self, rank: u32, per_rank: usize) -> Self {
        let distance = self.ty.extent.wrapping_mul(per_rank as i64).wrapping_mul(i64::from(rank));
        Checked { buf: self.buf.shifted(distance as isize), count: per_rank, ty: self.ty.clone() }
    }
}

impl Mpi {
    /// Checks address, count and datatype.
    pub(super) fn checked<B: At>(&self, data: Data<B>) -> Result<Checked<B>> {
        let (count, ty) = (element_count(data.count)?, self.committed(data.ty)?);
        ty.check_at(data.buf, count)?;
        Ok(Checked { buf: data.buf, count, ty: ty.clone() })
    }
}
