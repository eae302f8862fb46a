//! Datatypes: constructors and questions.
use super::attr::Attributes;
use super::layout::{Datatype, Entry, Origin, product};
use super::predefined::{TABLE, name_of};
use super::slots::Slots;
use super::*;
use crate::buffer::{At, RecvBuf, SendBuf};
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
    F90Real,
    F90Complex,
    F90Integer,
}

/// The kinds of numbers that Fortran programs choose by precision and range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum F90 {
    /// Decimal digits, decimal exponent.
    Real(Option<i64>, Option<i64>),
    /// As `Real`.
    Complex(Option<i64>, Option<i64>),
    /// Decimal digits.
    Integer(i64),
}

/// Stands for an argument that was not given among the integers of a datatype's contents.
pub const NOT_GIVEN: i64 = -1;

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
    /// Was it made by a function with large counts?
    pub large: bool,
}

/// Storage order of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last index runs fastest.
    C,
    /// The first index runs fastest.
    Fortran,
}

impl Order {
    /// As it stands among the integers of a datatype's contents.
    pub(super) fn code(self) -> i64 {
        self as i64
    }

    /// The dimensions of an array, the one whose index runs fastest first.
    pub(super) fn fastest_first(self, dimensions: usize) -> Vec<usize> {
        match self {
            Order::C => (0..dimensions).rev().collect(),
            Order::Fortran => (0..dimensions).collect(),
        }
    }
}

/// Real and complex numbers (digits, exponent) that Fortran compilers have here.
const REALS: [(TypeId, TypeId, i64, i64); 4] = [
    (TypeId::REAL4, TypeId::COMPLEX8, 6, 37),
    (TypeId::REAL8, TypeId::COMPLEX16, 15, 307),
    (TypeId::LONG_DOUBLE, TypeId::C_LONG_DOUBLE_COMPLEX, 18, 4931),
    (TypeId::REAL16, TypeId::COMPLEX32, 33, 4931),
];

/// Integers and their decimal digits.
const INTEGERS: [(TypeId, i64); 5] = [
    (TypeId::INTEGER1, 2),
    (TypeId::INTEGER2, 4),
    (TypeId::INTEGER4, 9),
    (TypeId::INTEGER8, 18),
    (TypeId::INTEGER16, 38),
];

impl F90 {
    /// The smallest predefined datatype that will do.
    fn found(self) -> Option<(Combiner, TypeId)> {
        let real = |precision: Option<i64>, range: Option<i64>| {
            let given = precision.is_some() || range.is_some();
            let (precision, range) = (precision.unwrap_or(0), range.unwrap_or(0));
            REALS.iter().find(|(.., digits, exponent)| given && precision <= *digits && range <= *exponent)
        };
        match self {
            F90::Real(precision, range) => real(precision, range).map(|row| (Combiner::F90Real, row.0)),
            F90::Complex(precision, range) => real(precision, range).map(|row| (Combiner::F90Complex, row.1)),
            F90::Integer(range) => {
                INTEGERS.iter().find(|(_, digits)| range <= *digits).map(|row| (Combiner::F90Integer, row.0))
            }
        }
    }

    fn integers(self) -> Vec<i64> {
        match self {
            F90::Real(precision, range) | F90::Complex(precision, range) => {
                vec![precision.unwrap_or(NOT_GIVEN), range.unwrap_or(NOT_GIVEN)]
            }
            F90::Integer(range) => vec![range],
        }
    }
}

/// The lengths of blocks.
#[derive(Clone, Copy)]
enum Lengths<'a> {
    All(i64),
    Each(&'a [i64]),
}

impl Lengths<'_> {
    fn at(self, index: usize) -> i64 {
        match self {
            Lengths::All(length) => length,
            Lengths::Each(lengths) => lengths[index],
        }
    }
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
        types.insert(TypeEntry::new(Rc::new(Datatype::predefined(TypeId(index as u32), row))));
    }
    types
}

impl Mpi {
    /// `count` elements in a row.
    pub fn type_contiguous(&mut self, count: i64, ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        not_negative(&[count])?;
        let origin = origin(Combiner::Contiguous, vec![count], vec![], vec![ty.clone()]);
        self.add_type([Entry::block(0, count, &ty)], origin)
    }

    /// Blocks at a stride counted in extents.
    pub fn type_vector(&mut self, count: i64, block: i64, stride: i64, ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Vector, vec![count, block, stride], vec![], vec![ty.clone()]);
        not_negative(&[count, block])?;
        let stride = product(stride, ty.extent)?;
        self.add_type([Entry { at: 0, count, stride, repeat: block, ty: &ty }], origin)
    }

    /// Blocks at a stride counted in bytes.
    pub fn type_hvector(&mut self, count: i64, block: i64, stride: i64, ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Hvector, vec![count, block], vec![stride], vec![ty.clone()]);
        not_negative(&[count, block])?;
        self.add_type([Entry { at: 0, count, stride, repeat: block, ty: &ty }], origin)
    }

    /// Blocks of given lengths at displacements in extents.
    pub fn type_indexed(&mut self, blocks: &[i64], displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = [&[blocks.len() as i64], blocks, displs].concat();
        let origin = origin(Combiner::Indexed, integers, vec![], vec![ty.clone()]);
        self.add_indexed(Lengths::Each(blocks), displs, ty.extent, &ty, origin)
    }

    /// Blocks of given lengths at displacements in bytes.
    pub fn type_hindexed(&mut self, blocks: &[i64], displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = [&[blocks.len() as i64], blocks].concat();
        let origin = origin(Combiner::Hindexed, integers, displs.to_vec(), vec![ty.clone()]);
        self.add_indexed(Lengths::Each(blocks), displs, 1, &ty, origin)
    }

    /// Blocks of one length at displacements in extents.
    pub fn type_indexed_block(&mut self, block: i64, displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = [&[displs.len() as i64, block], displs].concat();
        let origin = origin(Combiner::IndexedBlock, integers, vec![], vec![ty.clone()]);
        self.add_indexed(Lengths::All(block), displs, ty.extent, &ty, origin)
    }

    /// Blocks of one length at displacements in bytes.
    pub fn type_hindexed_block(&mut self, block: i64, displs: &[i64], ty: TypeId) -> Result<TypeId> {
        let ty = self.datatype(ty)?.clone();
        let integers = vec![displs.len() as i64, block];
        let origin = origin(Combiner::HindexedBlock, integers, displs.to_vec(), vec![ty.clone()]);
        self.add_indexed(Lengths::All(block), displs, 1, &ty, origin)
    }

    fn add_indexed(
        &mut self,
        blocks: Lengths<'_>,
        displs: &[i64],
        unit: i64,
        ty: &Rc<Datatype>,
        origin: Origin,
    ) -> Result<TypeId> {
        if let Lengths::Each(blocks) = blocks {
            same_length(blocks.len(), displs.len())?;
        }
        let entries = displs.iter().enumerate().map(|(i, displ)| {
            let repeat = blocks.at(i);
            not_negative(&[repeat])?;
            Ok((product(*displ, unit)?, repeat))
        });
        let made = Datatype::of_blocks(entries, ty, origin)?;
        Ok(self.new_type(Rc::new(made)))
    }

    /// Blocks of several datatypes at displacements in bytes.
    pub fn type_struct(&mut self, blocks: &[i64], displs: &[i64], types: &[TypeId]) -> Result<TypeId> {
        not_negative(blocks)?;
        same_length(blocks.len(), displs.len())?;
        same_length(blocks.len(), types.len())?;
        let types = types.iter().map(|ty| self.datatype(*ty).cloned()).collect::<Result<Vec<_>>>()?;
        let entries: Vec<Entry<'_>> =
            (0..blocks.len()).map(|i| Entry::block(displs[i], blocks[i], &types[i])).collect();
        let integers = [&[blocks.len() as i64], blocks].concat();
        self.add_type(entries, origin(Combiner::Struct, integers, displs.to_vec(), types.clone()))
    }

    /// The same data with another lower bound and extent.
    pub fn type_resized(&mut self, ty: TypeId, lb: i64, extent: i64) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Resized, vec![], vec![lb, extent], vec![old.clone()]);
        Ok(self.new_type(Rc::new(Datatype::resized(&old, lb, extent, origin)?)))
    }

    /// A copy (the caller copies attributes).
    pub fn type_dup(&mut self, ty: TypeId) -> Result<TypeId> {
        let old = self.datatype(ty)?.clone();
        let origin = origin(Combiner::Dup, vec![], vec![], vec![old.clone()]);
        Ok(self.new_type(Rc::new(Datatype::copied(&old, origin))))
    }

    /// The datatype of Fortran numbers with at least this precision and range: the same for the same arguments, and never
    /// to be freed (MPI-5 19.1.9).
    pub fn type_f90(&mut self, wanted: F90) -> Result<TypeId> {
        let Some((combiner, old)) = wanted.found() else {
            return fail(ErrorClass::Arg, format!("no Fortran type has {wanted:?}"));
        };
        let integers = wanted.integers();
        if let Some((_, ty)) = self.f90_types.iter().find(|(other, _)| *other == wanted) {
            return Ok(*ty);
        }
        let made = Datatype::copied(self.datatype(old)?, origin(combiner, integers, vec![], vec![]));
        let ty = self.new_type(Rc::new(made));
        self.f90_types.push((wanted, ty));
        Ok(ty)
    }

    /// Makes it usable in communication.
    pub fn type_commit(&mut self, ty: TypeId) -> Result<()> {
        self.datatype(ty)?.committed.set(true);
        Ok(())
    }

    /// The program gives the datatype up. Operations under way keep what they need.
    pub fn type_free(&mut self, ty: TypeId) -> Result<()> {
        let combiner = self.datatype(ty)?.origin.combiner;
        let shared = matches!(combiner, Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer);
        if ty.0 < TypeId::PREDEFINED || shared {
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

    /// The bytes of so many elements, if they are in a row without gaps.
    pub fn type_in_row(&self, ty: TypeId, count: i64) -> Result<Option<u64>> {
        let count = super::p2p::element_count(count)?;
        Ok(self.datatype(ty)?.flat(count).map(|(_, bytes)| bytes as u64))
    }

    /// (lower bound, extent).
    pub fn type_extent(&self, ty: TypeId) -> Result<(i64, i64)> {
        let ty = self.datatype(ty)?;
        Ok((ty.lb(), ty.extent))
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
            large: ty.made_large.get(),
        })
    }

    /// How it was made, without giving out references: the constructor, and how many integers, addresses and datatypes
    /// it was given.
    pub fn type_envelope(&self, ty: TypeId) -> Result<(Combiner, [usize; 3])> {
        let o = &self.datatype(ty)?.origin;
        Ok((o.combiner, [o.integers.len(), o.addresses.len(), o.types.len()]))
    }

    /// It was made by a function with large counts, in which its contents are to be told.
    pub fn type_made_large(&mut self, ty: TypeId) -> Result<()> {
        self.datatype(ty)?.made_large.set(true);
        Ok(())
    }

    /// Was it?
    pub fn type_is_large(&self, ty: TypeId) -> Result<bool> {
        Ok(self.datatype(ty)?.made_large.get())
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
        let ty = self.committed(data.ty)?;
        placed(out, need)?;
        ty.check_at(data.buf, data.count as usize)?;
        let to = out.range(*position as isize, need as usize);
        ty.pack(data.buf, data.count as usize, to);
        *position += need;
        Ok(())
    }

    /// Unpacks from `input` (of `bytes` in all) from `*position` on, and moves it.
    pub fn unpack(&self, input: SendBuf, bytes: i64, position: &mut i64, data: RecvData) -> Result<()> {
        let need = self.pack_size(data.count, data.ty)? as i64;
        room(need, bytes, *position)?;
        let ty = self.committed(data.ty)?;
        placed(input, need)?;
        ty.check_at(data.buf, data.count as usize)?;
        let from = input.range(*position as isize, need as usize);
        ty.unpack(from, data.buf, data.count as usize);
        *position += need;
        Ok(())
    }

    fn add_type<'a>(
        &mut self,
        entries: impl IntoIterator<Item = Entry<'a>>,
        origin: Origin,
    ) -> Result<TypeId> {
        let ty = Rc::new(Datatype::of(entries, origin)?);
        Ok(self.new_type(ty))
    }

    pub(super) fn new_type(&mut self, ty: Rc<Datatype>) -> TypeId {
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

/// Is there memory for packed data?
pub(super) fn placed(buf: impl At, bytes: i64) -> Result<()> {
    if buf.at() == 0 && bytes > 0 {
        return fail(ErrorClass::Buffer, format!("{bytes} packed bytes at a null address"));
    }
    Ok(())
}

pub(super) fn origin(
    combiner: Combiner,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    types: Vec<Rc<Datatype>>,
) -> Origin {
    Origin { combiner, integers, addresses, types }
}

fn not_negative(counts: &[i64]) -> Result<()> {
    match counts.iter().position(|count| *count < 0) {
        Some(at) => fail(ErrorClass::Count, format!("count {} at {at} is negative", counts[at])),
        None => Ok(()),
    }
}

pub(super) fn same_length(a: usize, b: usize) -> Result<()> {
    if a == b { Ok(()) } else { fail(ErrorClass::Arg, format!("lists of {a} and of {b} entries")) }
}

pub(super) fn room(need: i64, bytes: i64, position: i64) -> Result<()> {
    if position >= 0 && bytes >= position && need <= bytes - position {
        return Ok(());
    }
    fail(ErrorClass::Truncate, format!("{need} bytes at position {position} of a buffer of {bytes}"))
}
