//! What a Rust program may send: numbers, arrays of them, and structs for which [`derive(Datum)`](macro@crate::Datum) has
//! checked that they consist of such.
#![allow(unsafe_code)] // for the promise that `Datum` is
use crate::core::{Mpi, OpId, TypeId};
use crate::error::Result;

/// An element of a message.
///
/// Numbers are, arrays of elements are, and structs are by `#[derive(Datum)]`, which takes `#[repr(C)]` structs whose fields are
/// elements. `bool`, `char`, enums, references and the like are not: what arrives is bytes, and not every byte is a value of
/// theirs.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq, mpi::Datum)]
/// #[repr(C)]
/// struct Particle {
///     kind: u8, // seven bytes of padding follow, which are not sent
///     place: [f64; 3],
/// }
///
/// # let world = mpi::init()?.world();
/// let mine = [Particle { kind: 1, place: [0.0, 0.5, world.rank() as f64] }];
/// let all = world.allgather(&mine)?;
/// assert_eq!(all[world.rank()], mine[0]);
/// # Ok::<(), mpi::MpiError>(())
/// ```
///
/// A field that is no element is refused, and so are structs whose layout is not fixed:
/// ```compile_fail
/// #[derive(Clone, Copy, mpi::Datum)]
/// #[repr(C)]
/// struct Flagged { flag: bool }
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, mpi::Datum)]
/// struct Anyhow { value: u8 }
/// ```
///
/// # Safety
/// [`SHAPE`](Datum::SHAPE) names places inside the type that do not overlap, and any bytes in them make a value of the type,
/// whatever stands in the rest of it (its padding).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent: it is not a number, an array of numbers, or a struct with `#[derive(mpi::Datum)]`",
    label = "not a `Datum`",
    note = "what arrives is bytes: types for which some bytes are no value (`bool`, `char`, enums, references) stay out; send a number and convert it",
    note = "a struct is sent with `#[derive(Clone, Copy, mpi::Datum)] #[repr(C)]`"
)]
pub unsafe trait Datum: Copy + 'static {
    /// Where its numbers are.
    const SHAPE: Shape;
}

/// An element that predefined reductions combine ([`Op`]): a number. Others are combined by a function
/// ([`allreduce_with`](crate::Communicator::allreduce_with)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number, so `Op` does not combine it",
    note = "`Communicator::allreduce_with` combines any `Datum` by a function of yours"
)]
pub trait Number: Datum {}

/// Where the numbers of an element are.
#[derive(Clone, Copy, Debug)]
pub struct Shape(Form);

#[derive(Clone, Copy, Debug)]
enum Form {
    Number(TypeId, usize),
    Array { of: &'static Shape, count: usize },
    Struct { fields: &'static [Field], bytes: usize },
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Bytes from the start of the struct.
    pub at: usize,
    /// Its own shape.
    pub shape: &'static Shape,
}

impl Shape {
    /// Of `count` elements in a row.
    pub const fn array(of: &'static Shape, count: usize) -> Self {
        Shape(Form::Array { of, count })
    }

    /// Of a struct of `bytes`, whose fields are in the order in which they lie there. `derive(Datum)` calls it while the
    /// program is compiled.
    ///
    /// # Panics
    /// If fields overlap, or reach beyond the struct.
    pub const fn structure(fields: &'static [Field], bytes: usize) -> Self {
        let (mut index, mut end) = (0, 0);
        while index < fields.len() {
            assert!(fields[index].at >= end, "fields overlap");
            end = fields[index].at + fields[index].shape.extent();
            assert!(end <= bytes, "a field reaches beyond its struct");
            index += 1;
        }
        Shape(Form::Struct { fields, bytes })
    }

    /// Bytes that are sent of it: all but padding.
    pub const fn bytes(&self) -> usize {
        match self.0 {
            Form::Number(_, bytes) => bytes,
            Form::Array { of, count } => of.bytes() * count,
            Form::Struct { fields, .. } => {
                let (mut index, mut sum) = (0, 0);
                while index < fields.len() {
                    sum += fields[index].shape.bytes();
                    index += 1;
                }
                sum
            }
        }
    }

    /// Bytes from one element to the next.
    pub const fn extent(&self) -> usize {
        match self.0 {
            Form::Number(_, bytes) | Form::Struct { bytes, .. } => bytes,
            Form::Array { of, count } => of.extent() * count,
        }
    }

    /// The predefined datatype of a number.
    #[inline]
    pub(crate) const fn predefined(&self) -> Option<TypeId> {
        match self.0 {
            Form::Number(ty, _) => Some(ty),
            _ => None,
        }
    }

    /// A datatype of this shape: a new one, for whoever calls, but for numbers.
    pub(crate) fn build(&self, mpi: &mut Mpi) -> Result<TypeId> {
        match self.0 {
            Form::Number(ty, _) => Ok(ty),
            Form::Array { of, count } => {
                let element = of.build(mpi)?;
                let row = mpi.type_contiguous(count as i64, element);
                release(mpi, element)?;
                row
            }
            Form::Struct { fields, bytes } => {
                let of = |mpi: &mut Mpi, field: &Field| field.shape.build(mpi);
                let types = fields.iter().map(|field| of(mpi, field)).collect::<Result<Vec<_>>>()?;
                let places: Vec<i64> = fields.iter().map(|field| field.at as i64).collect();
                let packed = mpi.type_struct(&vec![1; fields.len()], &places, &types);
                types.into_iter().try_for_each(|ty| release(mpi, ty))?;
                let packed = packed?;
                let spaced = mpi.type_resized(packed, 0, bytes as i64);
                release(mpi, packed)?;
                spaced
            }
        }
    }
}

/// What was only needed to build another.
fn release(mpi: &mut Mpi, ty: TypeId) -> Result<()> {
    if ty.0 < TypeId::PREDEFINED { Ok(()) } else { mpi.type_free(ty) }
}

macro_rules! numbers {
    ($($ty:ty: $id:ident),* $(,)?) => { $(
        // SAFETY: a number is all of its bytes, and any bytes are one.
        unsafe impl Datum for $ty { const SHAPE: Shape = Shape(Form::Number(TypeId::$id, size_of::<$ty>())); }
        impl Number for $ty {}
    )* };
}

numbers! {
    i8: INT8_T, i16: INT16_T, i32: INT32_T, i64: INT64_T, isize: INT64_T,
    u8: UINT8_T, u16: UINT16_T, u32: UINT32_T, u64: UINT64_T, usize: UINT64_T,
    f32: FLOAT, f64: DOUBLE,
}

// SAFETY: elements lie in a row, and each is a value whatever its bytes are.
unsafe impl<T: Datum, const N: usize> Datum for [T; N] {
    const SHAPE: Shape = Shape::array(&T::SHAPE, N);
}

/// A predefined reduction, of [numbers](Number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Bitwise and; integers only.
    And,
    /// Bitwise or; integers only.
    Or,
    /// Bitwise exclusive or; integers only.
    Xor,
    /// 1 where all are not 0, else 0; integers only.
    All,
    /// 1 where one is not 0, else 0; integers only.
    Any,
}

impl Op {
    pub(crate) fn id(self) -> OpId {
        match self {
            Op::Sum => OpId::SUM,
            Op::Prod => OpId::PROD,
            Op::Max => OpId::MAX,
            Op::Min => OpId::MIN,
            Op::And => OpId::BAND,
            Op::Or => OpId::BOR,
            Op::Xor => OpId::BXOR,
            Op::All => OpId::LAND,
            Op::Any => OpId::LOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_room_but_is_not_sent() {
        static FIELDS: [Field; 2] = [
            Field { at: 0, shape: &<u8 as Datum>::SHAPE },
            Field { at: 8, shape: &<[f64; 3] as Datum>::SHAPE },
        ];
        let shape = Shape::structure(&FIELDS, 32);
        assert_eq!((shape.bytes(), shape.extent()), (25, 32));
        assert_eq!(<[[u16; 2]; 5] as Datum>::SHAPE.bytes(), 20);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn fields_may_not_overlap() {
        static FIELDS: [Field; 2] =
            [Field { at: 0, shape: &<u64 as Datum>::SHAPE }, Field { at: 4, shape: &<u64 as Datum>::SHAPE }];
        Shape::structure(&FIELDS, 16);
    }
}
