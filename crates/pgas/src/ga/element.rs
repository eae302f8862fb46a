//! What arrays may be made of.
use crate::{Complex32, Complex64, Memory};
use mpi::{Communicator, Op, Result};
use std::fmt::Debug;

/// A number that a global array may hold. Integers wrap around, here as in accumulates.
pub trait Element: crate::Element + PartialEq + Debug {
    /// One.
    const ONE: Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// Collective: the sum of what all processes bring.
    fn sum_of_all(self, comm: &Communicator) -> Result<Self>;
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

            fn sum_of_all(self, comm: &Communicator) -> Result<Self> {
                sum(self, comm)
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
    ($($ty:ty: $one:expr, $sum:expr);* $(;)?) => {
        $(impl Element for $ty {
            const ONE: Self = $one;

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }

            fn sum_of_all(self, comm: &Communicator) -> Result<Self> {
                $sum(self, comm)
            }
        })*
    };
}

fn sum<T: mpi::Number>(mine: T, comm: &Communicator) -> Result<T> {
    let mut all = [mine];
    comm.allreduce(&[mine], &mut all, Op::Sum)?;
    Ok(all[0])
}

/// The parts of complex numbers are added each for itself.
fn sums<T: mpi::Number, C>(mine: [T; 2], comm: &Communicator, of: fn(T, T) -> C) -> Result<C> {
    let mut all = mine;
    comm.allreduce(&mine, &mut all, Op::Sum)?;
    Ok(of(all[0], all[1]))
}

numbers! {
    f32: 1.0, sum;
    f64: 1.0, sum;
    Complex32: Complex32::new(1.0, 0.0), |mine: Self, comm| sums([mine.re, mine.im], comm, Complex32::new);
    Complex64: Complex64::new(1.0, 0.0), |mine: Self, comm| sums([mine.re, mine.im], comm, Complex64::new);
}

/// An integer that can be read and increased in one step.
pub trait Counter: Element {
    /// Adds to the element at `at` of a process's part, and gives what was there.
    #[doc(hidden)]
    fn fetch_add(memory: &Memory<Self>, rank: usize, at: usize, by: Self) -> Result<Self>;
}
