//! Complex numbers, as C has them in memory.
use crate::core::Factor;
use crate::memory::Element;
use mpi::Datum;
use std::ops::{Add, Mul};

macro_rules! complex {
    ($name:ident, $part:ty, $factor:ident, $about:literal) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Datum)]
        #[repr(C)]
        pub struct $name {
            /// The real part.
            pub re: $part,
            /// The imaginary part.
            pub im: $part,
        }

        impl $name {
            /// Of its parts.
            pub const fn new(re: $part, im: $part) -> Self {
                $name { re, im }
            }
        }

        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                $name { re: self.re + other.re, im: self.im + other.im }
            }
        }

        impl Mul for $name {
            type Output = Self;

            fn mul(self, other: Self) -> Self {
                $name {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
        }

        impl Element for $name {
            fn factor(self) -> Factor {
                Factor::$factor([self.re, self.im])
            }
        }
    };
}

complex!(Complex32, f32, C32, "A complex number of two 32-bit numbers.");
complex!(Complex64, f64, C64, "A complex number of two 64-bit numbers.");
