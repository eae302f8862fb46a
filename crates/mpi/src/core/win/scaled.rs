//! Elements multiplied by a factor before they are combined with a target's: ARMCI's accumulate.
//!
//! The product is made here, in memory of the library's; it then travels and is combined as any sum.
use super::far::Elements;
use super::memory::{Combination, Combining};
use super::ops::apply;
use crate::buffer::{Scratch, change};
use crate::core::{Mpi, OpId, RecvData, SendData, TypeId};
use crate::error::{ErrorClass, Result, fail};
use std::sync::atomic::AtomicU64;

/// What elements are multiplied by; it says their type, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// Integers of 32 bits.
    I32(i32),
    /// Integers of 64 bits.
    I64(i64),
    /// Numbers of 32 bits.
    F32(f32),
    /// Numbers of 64 bits.
    F64(f64),
    /// Pairs of numbers of 32 bits: real and imaginary part.
    C32([f32; 2]),
    /// Pairs of numbers of 64 bits.
    C64([f64; 2]),
}

impl Factor {
    /// The datatype that sums are formed of: the parts of a complex number are added each for itself.
    pub fn part(self) -> TypeId {
        match self {
            Factor::I32(_) => TypeId::INT32_T,
            Factor::I64(_) => TypeId::INT64_T,
            Factor::F32(_) | Factor::C32(_) => TypeId::FLOAT,
            Factor::F64(_) | Factor::C64(_) => TypeId::DOUBLE,
        }
    }

    /// Bytes of such a part.
    pub fn part_bytes(self) -> usize {
        match self {
            Factor::I32(_) | Factor::F32(_) | Factor::C32(_) => 4,
            Factor::I64(_) | Factor::F64(_) | Factor::C64(_) => 8,
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Factor::I32(_) | Factor::F32(_) => 4,
            Factor::I64(_) | Factor::F64(_) | Factor::C32(_) => 8,
            Factor::C64(_) => 16,
        }
    }

    /// Does it leave everything as it is?
    pub fn is_one(self) -> bool {
        match self {
            Factor::I32(factor) => factor == 1,
            Factor::I64(factor) => factor == 1,
            Factor::F32(factor) => factor == 1.0,
            Factor::F64(factor) => factor == 1.0,
            Factor::C32(factor) => factor == [1.0, 0.0],
            Factor::C64(factor) => factor == [1.0, 0.0],
        }
    }
}

impl Mpi {
    /// Elements without gaps, multiplied. What reads them keeps them until it has ended.
    pub fn scaled(&self, from: SendData, factor: Factor) -> Result<Scratch> {
        let from = self.checked(from)?;
        let bytes = from.bytes()?;
        let mut product = Scratch::with(bytes);
        from.ty.pack(from.buf, from.count, product.part(bytes));
        let part = product.part(bytes);
        match factor {
            Factor::I32(factor) => change(part, |old: i32| old.wrapping_mul(factor)),
            Factor::I64(factor) => change(part, |old: i64| old.wrapping_mul(factor)),
            Factor::F32(factor) => change(part, |old: f32| old * factor),
            Factor::F64(factor) => change(part, |old: f64| old * factor),
            Factor::C32([re, im]) => change(part, |[a, b]: [f32; 2]| [a * re - b * im, a * im + b * re]),
            Factor::C64([re, im]) => change(part, |[a, b]: [f64; 2]| [a * re - b * im, a * im + b * re]),
        }
        Ok(product)
    }

    /// Copies elements inside this process's own memory.
    pub fn copy(&self, from: SendData, into: RecvData) -> Result<()> {
        let (from, into) = (self.checked(from)?, self.checked(into)?);
        let bytes = from.bytes()?;
        if into.bytes()? != bytes {
            return fail(ErrorClass::Truncate, "elements are copied to others of another length");
        }
        let mut packed = Scratch::with(bytes);
        from.ty.pack(from.buf, from.count, packed.part(bytes));
        into.ty.unpack(packed.part(bytes).as_source(), into.buf, into.count);
        Ok(())
    }

    /// Adds elements to others of this process's own memory, which nobody else changes at the same time.
    pub fn add(&self, from: SendData, into: RecvData) -> Result<()> {
        let (from, into) = (self.checked(from)?, self.checked(into)?);
        let Some((meaning, scalar)) = into.ty.predefined_element() else {
            return fail(ErrorClass::Type, "what is added is not all of one predefined datatype");
        };
        let how = Combining::of(Combination { op: OpId::SUM, meaning, scalar });
        let Some(how) = how.filter(|_| from.bytes().ok() == into.bytes().ok()) else {
            return fail(ErrorClass::Op, "elements that cannot be added");
        };
        let (base, to) = (into.buf, Elements { ty: into.ty, count: into.count });
        apply(&how, Some(&from), None, &to, base, 0, &AtomicU64::new(0));
        Ok(())
    }
}
