//! What kernels share: numbers that look random, shares of a range, and the comparison with one process.
use crate::{Checked, Job, Wrong};
use mpi::{Communicator, Op};
use std::ops::Range;

/// A number that looks random (splitmix64).
pub fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same, from 0 to 1 (excluded).
pub fn unit(seed: u64) -> f64 {
    (mix(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// One of equal shares of `0..total`; they differ by one at most.
pub fn share(total: usize, shares: usize, which: usize) -> Range<usize> {
    total * which / shares..total * (which + 1) / shares
}

/// The sum over all processes, everywhere.
pub fn sum(comm: &Communicator, mine: f64) -> mpi::Result<f64> {
    let mut all = [0.0];
    comm.allreduce(&[mine], &mut all, Op::Sum)?;
    Ok(all[0])
}

/// Stands for the bits of some values at their places. Which process has which of them, and in which order they are
/// added, makes no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Adds a value.
    pub fn add(&mut self, place: usize, value: f64) {
        self.0 ^= mix(mix(place as u64) ^ value.to_bits());
    }

    /// That of the values of all processes.
    pub fn of_all(self, comm: &Communicator) -> mpi::Result<Fingerprint> {
        let mut all = [0];
        comm.allreduce(&[self.0], &mut all, Op::Xor)?;
        Ok(Fingerprint(all[0]))
    }
}

/// What a solver of a differential equation found.
#[derive(Clone, Copy, Debug)]
pub struct Solved {
    /// Norm of the residual at the start.
    pub first: f64,
    /// And in the end.
    pub last: f64,
    /// The solution, of all processes.
    pub print: Fingerprint,
}

impl Job {
    /// Solves it together, and in the first process alone: the same bits must come out, and the residual must have fallen
    /// to `at_most` of what it was.
    pub fn solve(&self, at_most: f64, solve: impl Fn(&Communicator) -> mpi::Result<Solved>) -> Checked {
        let solved = solve(&self.world)?;
        let fell = solved.last / solved.first;
        if fell.is_nan() || fell > at_most {
            return Err(Wrong::Result(format!("the residual fell to {fell:.1e}, not to {at_most:.0e}")));
        }
        if self.world.rank() == 0 && solve(&self.alone)?.print != solved.print {
            return Err(Wrong::Result("one process finds another solution".into()));
        }
        Ok(format!("the residual fell to {fell:.1e}, and one process finds the same bits"))
    }
}

/// An error of the result, unless it is right.
pub fn expect(right: bool, otherwise: impl FnOnce() -> String) -> Result<(), Wrong> {
    if right { Ok(()) } else { Err(Wrong::Result(otherwise())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_up_the_whole() {
        for (total, shares) in [(16, 4), (17, 4), (3, 5), (0, 2)] {
            let all: Vec<usize> = (0..shares).flat_map(|which| share(total, shares, which)).collect();
            assert_eq!(all, (0..total).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_fingerprint_knows_places_but_no_order() {
        let of = |values: &[(usize, f64)]| {
            let mut print = Fingerprint::default();
            values.iter().for_each(|(place, value)| print.add(*place, *value));
            print
        };
        assert_eq!(of(&[(0, 1.0), (1, 2.0)]), of(&[(1, 2.0), (0, 1.0)]));
        assert_ne!(of(&[(0, 1.0), (1, 2.0)]), of(&[(0, 2.0), (1, 1.0)]));
        assert_ne!(of(&[(0, 0.0)]), of(&[(0, -0.0)]));
    }
}
