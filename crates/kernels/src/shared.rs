//! What kernels share: shares of a range, and the comparison with one process.
use crate::numbers::Fingerprint;
use crate::{Checked, Job, Wrong};
use mpi::{Communicator, Op};
use std::ops::Range;

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
}
