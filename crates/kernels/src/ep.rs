//! Pairs of normal deviates, counted by how far out they lie. Nobody needs anybody until the counts are added up.
//!
//! The numbers are those that the NAS Parallel Benchmarks define: a linear congruence modulo 2^46, pairs of it that lie in
//! the unit circle, and Marsaglia's polar method. So their published sums must come out.
use crate::shared::{expect, share};
use crate::{Checked, Job, Wrong};
use mpi::{Communicator, Op};

const MULTIPLIER: u64 = 1_220_703_125; // 5^13
const SEED: u64 = 271_828_183;
const MASK: u64 = (1 << 46) - 1;
/// Squares around the origin in which deviates are counted.
const RINGS: usize = 10;
const SIZE_MAX: usize = 32;
/// Sums of all deviates that are published, by the logarithm of the number of pairs.
const PUBLISHED: [(usize, [f64; 2]); 2] = [
    (24, [-3.247_834_652_034_74e3, -6.958_407_078_382_297e3]),
    (25, [-2.863_319_731_645_753e3, -6.320_053_679_109_499e3]),
];
/// How far sums may be apart that were added up in another order.
const CLOSE: f64 = 1e-8;

/// What was found.
#[derive(Debug, Default)]
struct Tally {
    sums: [f64; 2],
    rings: [u64; RINGS],
}

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    if size > SIZE_MAX {
        return Err(Wrong::Usage(format!("SIZE is {SIZE_MAX} at the most, not {size}")));
    }
    let tally = together(&job.world, 1 << size)?;
    let pairs: u64 = tally.rings.iter().sum();
    let published = PUBLISHED.iter().find(|(of, _)| *of == size);
    if job.world.rank() == 0 {
        let sums = match published {
            Some((_, sums)) => *sums,
            None => {
                let alone = together(&job.alone, 1 << size)?;
                expect(alone.rings == tally.rings, || {
                    format!("{:?}, but one process counts {:?}", tally.rings, alone.rings)
                })?;
                alone.sums
            }
        };
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= CLOSE * b.abs();
        let right = tally.sums.iter().zip(&sums).all(close);
        expect(right, || format!("the sums are {:?}, not {sums:?}", tally.sums))?;
    }
    let by_whom = if published.is_some() { "as published" } else { "as one process finds" };
    Ok(format!("{pairs} of {} pairs, sums {:.6?} {by_whom}", 1_u64 << size, tally.sums))
}

fn together(comm: &Communicator, pairs: usize) -> mpi::Result<Tally> {
    let range = share(pairs, comm.size(), comm.rank());
    let mine = Tally::of(range.start as u64, range.len());
    let mut all = Tally::default();
    for (sum, of_all) in mine.sums.iter().zip(&mut all.sums) {
        comm.allreduce(&[*sum], std::slice::from_mut(of_all), Op::Sum)?;
    }
    comm.allreduce(&mine.rings, &mut all.rings, Op::Sum)?;
    Ok(all)
}

impl Tally {
    /// Of so many pairs, from one on.
    fn of(first: u64, pairs: usize) -> Tally {
        let mut tally = Tally::default();
        let mut state = SEED.wrapping_mul(power(MULTIPLIER, 2 * first)) & MASK;
        let mut next = || {
            state = state.wrapping_mul(MULTIPLIER) & MASK;
            2.0 * (state as f64 / (MASK + 1) as f64) - 1.0
        };
        for _ in 0..pairs {
            let (x, y) = (next(), next());
            let square = x * x + y * y;
            if square <= 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                tally.add(x * factor, y * factor);
            }
        }
        tally
    }

    fn add(&mut self, x: f64, y: f64) {
        self.sums[0] += x;
        self.sums[1] += y;
        self.rings[x.abs().max(y.abs()) as usize] += 1;
    }
}

/// Modulo 2^46.
fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1_u64, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(square) & MASK;
        }
        square = square.wrapping_mul(square) & MASK;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_sequence_make_up_the_whole() {
        let (whole, parts) = (Tally::of(0, 1000), [Tally::of(0, 300), Tally::of(300, 700)]);
        for ring in 0..RINGS {
            assert_eq!(whole.rings[ring], parts.iter().map(|part| part.rings[ring]).sum::<u64>());
        }
    }
}
