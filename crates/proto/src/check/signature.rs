//! The type signature of a message as a number: the kinds of its basic elements, in order (MPI-5 3.3.1).
//!
//! A polynomial over a prime field, so that the number of a sequence follows from those of its parts: a vector of 10^8
//! elements costs as much as one.

/// 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;
/// Any number that is not small.
const BASE: u64 = 0x1f3d_5b79_a6c4_e2f1 % PRIME;
/// Marks travel in 24 bits; 0 stands for a message of which nothing is known.
const MARKS: u64 = (1 << 24) - 1;

/// A sequence of basic elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    value: u64,
    /// `BASE` to the power of the number of elements.
    power: u64,
    /// Are there elements that fit anything?
    wild: bool,
}

impl Signature {
    /// No elements.
    pub const EMPTY: Signature = Signature { value: 0, power: 1, wild: false };
    /// Elements that fit anything: raw bytes, packed data.
    pub const WILD: Signature = Signature { value: 0, power: 1, wild: true };

    /// One element of a kind.
    pub fn one(kind: u32) -> Signature {
        Signature { value: u64::from(kind) + 1, power: BASE, wild: false }
    }

    /// This, and then that.
    #[must_use]
    pub fn then(self, next: Signature) -> Signature {
        Signature {
            value: (times(self.value, next.power) + next.value) % PRIME,
            power: times(self.power, next.power),
            wild: self.wild || next.wild,
        }
    }

    /// This, so many times.
    #[must_use]
    pub fn repeated(self, mut count: u64) -> Signature {
        let (mut all, mut square) = (Signature::EMPTY, self);
        while count > 0 {
            if count & 1 == 1 {
                all = all.then(square);
            }
            square = square.then(square);
            count >>= 1;
        }
        all
    }

    /// What travels with a message: never 0, unless the elements fit anything.
    pub fn mark(self) -> u32 {
        if self.wild { 0 } else { ((self.value ^ self.power.rotate_left(17)) % MARKS) as u32 + 1 }
    }
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}
