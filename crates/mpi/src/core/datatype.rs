//! Datatypes.
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;

/// How a datatype was made (`MPI_Type_get_envelope`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
}

/// The arguments a datatype was made with, in the order of MPI-5 5.1.13.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// Its integers (counts, block lengths, displacements in extents; order of arrays as 0 = C, 1 = Fortran).
    pub integers: Vec<i64>,
    /// Its addresses (displacements in bytes).
    pub addresses: Vec<i64>,
    /// Its datatypes.
    pub types: Vec<TypeId>,
}

/// Storage order of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last index runs fastest.
    C,
    /// The first index runs fastest.
    Fortran,
}

impl Mpi {
    /// `count` elements in a row.
    pub fn type_contiguous(&mut self, count: i64, ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks at a stride counted in extents.
    pub fn type_vector(&mut self, count: i64, block: i64, stride: i64, ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks at a stride counted in bytes.
    pub fn type_hvector(&mut self, count: i64, block: i64, stride: i64, ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks of given lengths at displacements in extents.
    pub fn type_indexed(&mut self, blocks: &[i64], displs: &[i64], ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks of given lengths at displacements in bytes.
    pub fn type_hindexed(&mut self, blocks: &[i64], displs: &[i64], ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks of one length at displacements in extents.
    pub fn type_indexed_block(&mut self, block: i64, displs: &[i64], ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks of one length at displacements in bytes.
    pub fn type_hindexed_block(&mut self, block: i64, displs: &[i64], ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Blocks of several datatypes at displacements in bytes.
    pub fn type_struct(&mut self, blocks: &[i64], displs: &[i64], types: &[TypeId]) -> Result<TypeId> {
        unimplemented!()
    }
    /// A part of an array.
    pub fn type_subarray(
        &mut self, sizes: &[i64], subsizes: &[i64], starts: &[i64], order: Order, ty: TypeId,
    ) -> Result<TypeId> {
        unimplemented!()
    }
    /// The same data with another lower bound and extent.
    pub fn type_resized(&mut self, ty: TypeId, lb: i64, extent: i64) -> Result<TypeId> {
        unimplemented!()
    }
    /// A copy (the caller copies attributes).
    pub fn type_dup(&mut self, ty: TypeId) -> Result<TypeId> {
        unimplemented!()
    }
    /// Makes it usable in communication.
    pub fn type_commit(&mut self, ty: TypeId) -> Result<()> {
        unimplemented!()
    }
    /// The program gives the datatype up.
    pub fn type_free(&mut self, ty: TypeId) -> Result<()> {
        unimplemented!()
    }
    /// Bytes of data.
    pub fn type_size(&self, ty: TypeId) -> Result<usize> {
        unimplemented!()
    }
    /// (lower bound, extent).
    pub fn type_extent(&self, ty: TypeId) -> Result<(i64, i64)> {
        unimplemented!()
    }
    /// (true lower bound, true extent).
    pub fn type_true_extent(&self, ty: TypeId) -> Result<(i64, i64)> {
        unimplemented!()
    }
    /// How it was made. The datatypes in it are given as new references if derived (free them).
    pub fn type_contents(&mut self, ty: TypeId) -> Result<Contents> {
        unimplemented!()
    }
    /// How it was made, without giving out references: (combiner, integers, addresses, datatypes).
    pub fn type_envelope(&self, ty: TypeId) -> Result<(Combiner, usize, usize, usize)> {
        unimplemented!()
    }
    /// Its name.
    pub fn type_name(&self, ty: TypeId) -> Result<String> {
        unimplemented!()
    }
    /// Names it.
    pub fn type_set_name(&mut self, ty: TypeId, name: &str) -> Result<()> {
        unimplemented!()
    }
    /// Bytes that `count` elements need when packed.
    pub fn pack_size(&self, count: i64, ty: TypeId) -> Result<usize> {
        unimplemented!()
    }
    /// Packs into `out` (of `bytes` in all) from `*position` on, and moves it.
    pub fn pack(
        &self, from: SendBuf, count: i64, ty: TypeId, out: RecvBuf, bytes: i64, position: &mut i64,
    ) -> Result<()> {
        unimplemented!()
    }
    /// Unpacks from `input` (of `bytes` in all) from `*position` on, and moves it.
    pub fn unpack(
        &self, input: SendBuf, bytes: i64, position: &mut i64, to: RecvBuf, count: i64, ty: TypeId,
    ) -> Result<()> {
        unimplemented!()
    }
}
