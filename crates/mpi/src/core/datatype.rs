//! Datatypes: constructors and questions.
use super::attr::Attributes;
use super::layout::{Datatype, Entry, Origin};
use super::predefined::{Scalar, TABLE, name_of};
use super::slots::Slots;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::{ErrorClass, Result, fail, fail_with};
use std::rc::Rc;

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

/// A datatype under its number.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) ty: Rc<Datatype>,
    name: Option<String>,
    pub(super) attributes: Attributes,
}

impl TypeEntry {
    fn new(ty: Rc<Datatype>) -> Self {
        TypeEntry { ty, name: None, attributes: Attributes::new() }
    }
}

pub(super) fn predefined_types() -> Slots<TypeEntry> {
    let mut types = Slots::new();
    for (index, row) in TABLE.iter().enumerate() {
        let parts: Vec<(u64, Rc<Datatype>)> = pair_parts(row.scalar)
            .iter()
            .map(|id| {
                (1, types.get(id.0).map(|entry: &TypeEntry| entry.ty.clone()).expect("stands before pairs"))
            })
            .collect();
        types.insert(TypeEntry::new(Rc::new(Datatype::predefined(TypeId(index as u32), row, parts))));
    }
    types
}

/// What a pair consists of.
fn pair_parts(scalar: Scalar) -> &'static [TypeId] {
    match scalar {
        Scalar::PairF32I32 => &[TypeId::FLOAT, TypeId::INT],
        Scalar::PairF64I32 => &[TypeId::DOUBLE, TypeId::INT],
        Scalar::PairI64I32 => &[TypeId::LONG, TypeId::INT],
        Scalar::PairI32I32 => &[TypeId::INT, TypeId::INT],
        Scalar::PairI16I32 => &[TypeId::SHORT, TypeId::INT],
        Scalar::PairF80I32 => &[TypeId::LONG_DOUBLE, TypeId::INT],
        Scalar::PairF32F32 => &[TypeId::FLOAT, TypeId::FLOAT],
        Scalar::PairF64F64 => &[TypeId::DOUBLE, TypeId::DOUBLE],
        _ => &[],
    }
}

impl Mpi {
    /// `count` elements in a row.
    pub fn type_contiguous(&mut self, count: i64, ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        not_negative(&[count])?;
        let origin = origin(Combiner::Contiguous, vec![count], vec![], vec![ty.clone()]);
        self.add_type(&[Entry { at: 0, repeat: count, ty }], origin)
    }

    /// Blocks at a stride counted in extents.
    pub fn type_vector(&mut self, count: i64, block: i64, stride: i64, ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Vector, vec![count, block, stride], vec![], vec![ty.clone()]);
        self.add_vector(count, block, stride * ty.extent, ty, origin)
    }

    /// Blocks at a stride counted in bytes.
    pub fn type_hvector(&mut self, count: i64, block: i64, stride: i64, ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Hvector, vec![count, block], vec![stride], vec![ty.clone()]);
        self.add_vector(count, block, stride, ty, origin)
    }

    fn add_vector(
        &mut self,
        count: i64,
        block: i64,
        stride: i64,
        ty: Rc<Datatype>,
        o: Origin,
    ) -> Result<TypeId> {
        not_negative(&[count, block])?;
        let entries: Vec<Entry> =
            (0..count).map(|i| Entry { at: i * stride, repeat: block, ty: ty.clone() }).collect();
        self.add_type(&entries, o)
    }

    /// Blocks of given lengths at displacements in extents.
    pub fn type_indexed(&mut self, blocks: &[i64], displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = [&[blocks.len() as i64], blocks, displs].concat();
        let origin = origin(Combiner::Indexed, integers, vec![], vec![ty.clone()]);
        self.add_indexed(blocks, displs, ty.extent, ty, origin)
    }

    /// Blocks of given lengths at displacements in bytes.
    pub fn type_hindexed(&mut self, blocks: &[i64], displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = [&[blocks.len() as i64], blocks].concat();
        let origin = origin(Combiner::Hindexed, integers, displs.to_vec(), vec![ty.clone()]);
        self.add_indexed(blocks, displs, 1, ty, origin)
    }

    /// Blocks of one length at displacements in extents.
    pub fn type_indexed_block(&mut self, block: i64, displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = [&[displs.len() as i64, block], displs].concat();
        let origin = origin(Combiner::IndexedBlock, integers, vec![], vec![ty.clone()]);
        self.add_indexed(&vec![block; displs.len()], displs, ty.extent, ty, origin)
    }

    /// Blocks of one length at displacements in bytes.
    pub fn type_hindexed_block(&mut self, block: i64, displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = vec![displs.len() as i64, block];
        let origin = origin(Combiner::HindexedBlock, integers, displs.to_vec(), vec![ty.clone()]);
        self.add_indexed(&vec![block; displs.len()], displs, 1, ty, origin)
    }

    fn add_indexed(
        &mut self,
        blocks: &[i64],
        displs: &[i64],
        unit: i64,
        ty: Rc<Datatype>,
        origin: Origin,
    ) -> Result<TypeId> {
        not_negative(blocks)?;
        same_length(blocks.len(), displs.len())?;
        let entries: Vec<Entry> = blocks
            .iter()
            .zip(displs)
            .map(|(repeat, displ)| Entry { at: displ * unit, repeat: *repeat, ty: ty.clone() })
            .collect();
        self.add_type(&entries, origin)
    }

    /// Blocks of several datatypes at displacements in bytes.
    pub fn type_struct(&mut self, blocks: &[i64], displs: &[i64], types: &[TypeId]) -> Result<TypeId> {
        not_negative(blocks)?;
        same_length(blocks.len(), displs.len())?;
        same_length(blocks.len(), types.len())?;
        let types = types.iter().map(|ty| self.datatype(*ty).cloned()).collect::<Result<Vec<_>>>()?;
        let entries: Vec<Entry> = (0..blocks.len())
            .map(|i| Entry { at: displs[i], repeat: blocks[i], ty: types[i].clone() })
            .collect();
        let integers = [&[blocks.len() as i64], blocks].concat();
        self.add_type(&entries, origin(Combiner::Struct, integers, displs.to_vec(), types))
    }

    /// A part of an array.
    pub fn type_subarray(
        &mut self,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        ty: TypeId,
    ) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        same_length(sizes.len(), subsizes.len())?;
        same_length(sizes.len(), starts.len())?;
        if sizes.is_empty() {
            return fail(ErrorClass::Arg, "a subarray of no dimensions");
        }
        for ((size, sub), start) in sizes.iter().zip(subsizes).zip(starts) {
            if *size < 1 || *sub < 1 || *start < 0 || start + sub > *size {
                return fail(ErrorClass::Arg, format!("{sub} from {start} in a dimension of {size}"));
            }
        }
        let code = if order == Order::C { 0 } else { 1 };
        let integers = [&[sizes.len() as i64], sizes, subsizes, starts, &[code]].concat();
        let made = origin(Combiner::Subarray, integers, vec![], vec![old.clone()]);
        // From the dimension that runs fastest outwards; each level has the extent of its whole row.
        let fastest_first: Vec<usize> = match order {
            Order::C => (0..sizes.len()).rev().collect(),
            Order::Fortran => (0..sizes.len()).collect(),
        };
        let mut row = old;
        for dimension in fastest_first {
            let extent = row.extent * sizes[dimension];
            let at = row.extent * starts[dimension];
            let part = Entry { at, repeat: subsizes[dimension], ty: row };
            let part = Rc::new(Datatype::of(&[part], made.clone())?);
            row = Rc::new(Datatype::resized(&part, 0, extent, made.clone()));
        }
        Ok(self.new_type(row))
    }

    /// The same data with another lower bound and extent.
    pub fn type_resized(&mut self, ty: TypeId, lb: i64, extent: i64) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Resized, vec![], vec![lb, extent], vec![old.clone()]);
        Ok(self.new_type(Rc::new(Datatype::resized(&old, lb, extent, origin))))
    }

    /// A copy (the caller copies attributes).
    pub fn type_dup(&mut self, ty: TypeId) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Dup, vec![], vec![], vec![old.clone()]);
        Ok(self.new_type(Rc::new(Datatype::copied(&old, origin))))
    }

    /// Makes it usable in communication.
    pub fn type_commit(&mut self, ty: TypeId) -> Result<()> {
        self.datatype(ty)?.committed.set(true);
        Ok(())
    }

    /// The program gives the datatype up. Operations under way keep what they need.
    pub fn type_free(&mut self, ty: TypeId) -> Result<()> {
        self.datatype(ty)?;
        if ty.0 < TypeId::PREDEFINED {
            return fail(ErrorClass::Type, "a predefined datatype cannot be freed");
        }
        if let Some(entry) = self.types.remove(ty.0) {
            for (key, _) in entry.attributes {
                self.release_keyval(key);
            }
        }
        Ok(())
    }

    /// Bytes of data.
    #[inline]
    pub fn type_size(&self, ty: TypeId) -> Result<usize> {
        Ok(self.datatype(ty)?.size)
    }

    /// (lower bound, extent).
    pub fn type_extent(&self, ty: TypeId) -> Result<(i64, i64)> {
        let ty = self.datatype(ty)?;
        Ok((ty.lb, ty.extent))
    }

    /// (true lower bound, true extent).
    pub fn type_true_extent(&self, ty: TypeId) -> Result<(i64, i64)> {
        let ty = self.datatype(ty)?;
        Ok((ty.true_lb, ty.true_ub - ty.true_lb))
    }

    /// How it was made. The datatypes in it are given as new references if derived (free them).
    pub fn type_contents(&mut self, ty: TypeId) -> Result<Contents> {
        let ty = self.datatype(ty)?.clone();
        let types = ty.origin.types.iter().map(|inner| match inner.named {
            Some(id) => id,
            None => self.new_type(inner.clone()),
        });
        Ok(Contents {
            combiner: ty.origin.combiner,
            integers: ty.origin.integers.clone(),
            addresses: ty.origin.addresses.clone(),
            types: types.collect(),
        })
    }

    /// How it was made, without giving out references: (combiner, integers, addresses, datatypes).
    pub fn type_envelope(&self, ty: TypeId) -> Result<(Combiner, usize, usize, usize)> {
        let o = &self.datatype(ty)?.origin;
        Ok((o.combiner, o.integers.len(), o.addresses.len(), o.types.len()))
    }

    /// Its name.
    pub fn type_name(&self, ty: TypeId) -> Result<String> {
        let entry = self.type_entry(ty)?;
        Ok(entry.name.clone().or_else(|| name_of(ty)).unwrap_or_default())
    }

    /// Names it.
    pub fn type_set_name(&mut self, ty: TypeId, name: &str) -> Result<()> {
        self.type_entry_mut(ty)?.name = Some(name.into());
        Ok(())
    }

    /// Bytes that `count` elements need when packed.
    pub fn pack_size(&self, count: i64, ty: TypeId) -> Result<usize> {
        not_negative(&[count])?;
        self.datatype(ty)?.bytes(count as usize)
    }

    /// Packs into `out` (of `bytes` in all) from `*position` on, and moves it.
    pub fn pack(&self, data: SendData, out: RecvBuf, bytes: i64, position: &mut i64) -> Result<()> {
        let need = self.pack_size(data.count, data.ty)? as i64;
        room(need, bytes, *position)?;
        let to = out.range(*position as isize, need as usize);
        self.committed(data.ty)?.pack(data.buf, data.count as usize, to);
        *position += need;
        Ok(())
    }

    /// Unpacks from `input` (of `bytes` in all) from `*position` on, and moves it.
    pub fn unpack(&self, input: SendBuf, bytes: i64, position: &mut i64, data: RecvData) -> Result<()> {
        let need = self.pack_size(data.count, data.ty)? as i64;
        room(need, bytes, *position)?;
        let from = input.range(*position as isize, need as usize);
        self.committed(data.ty)?.unpack(from, data.buf, data.count as usize);
        *position += need;
        Ok(())
    }

    fn add_type(&mut self, entries: &[Entry], origin: Origin) -> Result<TypeId> {
        let ty = Rc::new(Datatype::of(entries, origin)?);
        Ok(self.new_type(ty))
    }

    fn new_type(&mut self, ty: Rc<Datatype>) -> TypeId {
        TypeId(self.types.insert(TypeEntry::new(ty)))
    }

    #[inline]
    pub(super) fn type_entry(&self, ty: TypeId) -> Result<&TypeEntry> {
        match self.types.get(ty.0) {
            Some(entry) => Ok(entry),
            None => fail_with(ErrorClass::Type, || format!("there is no datatype {}", ty.0)),
        }
    }

    pub(super) fn type_entry_mut(&mut self, ty: TypeId) -> Result<&mut TypeEntry> {
        match self.types.get_mut(ty.0) {
            Some(entry) => Ok(entry),
            None => fail_with(ErrorClass::Type, || format!("there is no datatype {}", ty.0)),
        }
    }

    #[inline]
    pub(super) fn datatype(&self, ty: TypeId) -> Result<&Rc<Datatype>> {
        Ok(&self.type_entry(ty)?.ty)
    }

    /// For communication.
    #[inline]
    pub(super) fn committed(&self, id: TypeId) -> Result<&Rc<Datatype>> {
        let ty = self.datatype(id)?;
        if ty.committed.get() {
            return Ok(ty);
        }
        fail_with(ErrorClass::Type, || format!("datatype {} has not been committed", id.0))
    }
}

fn origin(combiner: Combiner, integers: Vec<i64>, addresses: Vec<i64>, types: Vec<Rc<Datatype>>) -> Origin {
    Origin { combiner, integers, addresses, types }
}

fn not_negative(counts: &[i64]) -> Result<()> {
    match counts.iter().find(|count| **count < 0) {
        Some(count) => fail(ErrorClass::Count, format!("count {count}")),
        None => Ok(()),
    }
}

fn same_length(a: usize, b: usize) -> Result<()> {
    if a == b { Ok(()) } else { fail(ErrorClass::Arg, format!("lists of {a} and of {b} entries")) }
}

fn room(need: i64, bytes: i64, position: i64) -> Result<()> {
    if position >= 0 && need <= bytes - position {
        return Ok(());
    }
    fail(ErrorClass::Truncate, format!("{need} bytes at position {position} of a buffer of {bytes}"))
}
