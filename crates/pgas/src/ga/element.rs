//! What arrays may be made of.
use crate::Memory;
use mpi::Result;
use std::fmt::Debug;

/// A number that a global array may hold. Integers wrap around, here as in accumulates.
pub trait Element: crate::Element + PartialEq + Debug {
    /// One.
    const ONE: Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(impl Element for $ty {
            const ONE: Self = 1;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Counter for $ty {
            fn fetch_add(memory: &Memory<Self>, rank: usize, at: usize, by: Self) -> Result<Self> {
                memory.fetch_add(rank, at, by)
            }
        })*
    };
}
integers!(i32, i64, u32, u64);

macro_rules! numbers {
    ($($ty:ty: $one:expr),*) => {
        $(impl Element for $ty {
            const ONE: Self = $one;

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }
        })*
    };
}
numbers!(f32: 1.0, f64: 1.0);

/// An integer that can be read and increased in one step.
pub trait Counter: Element {
    /// Adds to the element at `at` of a process's part, and gives what was there.
    #[doc(hidden)]
    fn fetch_add(memory: &Memory<Self>, rank: usize, at: usize, by: Self) -> Result<Self>;
}
