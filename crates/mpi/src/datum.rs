//! What a Rust program may send: numbers.
use crate::buffer::{Plain, source_of, target_of};
use crate::core::{Data, RecvData, SendData, TypeId};

/// An element of a message. Sealed: any bytes that arrive must be a value of the type.
pub trait Datum: Plain + Default + 'static {
    /// The datatype that stands for it.
    const TYPE: TypeId;
}

macro_rules! datum {
    ($($ty:ty: $id:ident),* $(,)?) => { $(impl Datum for $ty { const TYPE: TypeId = TypeId::$id; })* };
}

datum! {
    i8: INT8_T, i16: INT16_T, i32: INT32_T, i64: INT64_T, isize: INT64_T,
    u8: UINT8_T, u16: UINT16_T, u32: UINT32_T, u64: UINT64_T, usize: UINT64_T,
    f32: FLOAT, f64: DOUBLE,
}

/// The elements of a slice as data to send. The caller keeps the borrow until the operation has completed.
#[inline]
pub(crate) fn sent<T: Datum>(slice: &[T]) -> SendData {
    Data::new(source_of(slice), slice.len() as i64, T::TYPE)
}

/// The elements of a slice as room for what arrives, as [`sent`].
#[inline]
pub(crate) fn received<T: Datum>(slice: &mut [T]) -> RecvData {
    Data::new(target_of(slice), slice.len() as i64, T::TYPE)
}

/// A predefined reduction.
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
}

impl Op {
    pub(crate) fn id(self) -> crate::core::OpId {
        use crate::core::OpId;
        match self {
            Op::Sum => OpId::SUM,
            Op::Prod => OpId::PROD,
            Op::Max => OpId::MAX,
            Op::Min => OpId::MIN,
            Op::And => OpId::BAND,
            Op::Or => OpId::BOR,
            Op::Xor => OpId::BXOR,
        }
    }
}
