//! Updates of a table at places that look random: those of the HPC Challenge's RandomAccess, as accumulates.
//!
//! The sequence of numbers is that benchmark's, each process going through its own part of it. A number is added at the place
//! that its first bits name; so many updates are collected before they leave. Sums of integers do not depend on their order, so
//! that every element can be checked.
use crate::{Checked, Job, Wrong};
use mpi::Op;
use pgas::ga::GlobalArray;
use std::ops::Range;

/// Updates that leave together, as the benchmark allows.
const TOGETHER: usize = 1024;
/// For each number of the table.
const UPDATES_EACH: usize = 4;
/// x^63 + x^2 + x + 1, of which the sequence is made.
const POLYNOMIAL: u64 = 7;

/// Runs it.
pub fn run(job: &Job, size: usize) -> Checked {
    let (rank, ranks, bits) = (job.armci.rank(), job.armci.size(), size as u32);
    let table = GlobalArray::<i64, 1>::create(&job.armci, [1 << bits])?;
    table.fill_with(|[at]| at as i64)?;
    let updates = UPDATES_EACH << bits;
    let share = updates * rank / ranks..updates * (rank + 1) / ranks;
    let (mut points, mut values) = (Vec::new(), Vec::new());
    for number in Sequence::over(share) {
        points.push([place(number, bits)]);
        values.push(number as i64);
        if points.len() == TOGETHER {
            table.scatter_add(&points, &values, 1)?;
            points.clear();
            values.clear();
        }
    }
    table.scatter_add(&points, &values, 1)?;
    table.sync()?;
    let wrong = compare(&table, updates, bits)?;
    let mut all = [0];
    job.world.allreduce(&[wrong], &mut all, Op::Sum)?;
    if all[0] > 0 {
        return Err(Wrong::Result(format!("{} of {} numbers of the table", all[0], 1_usize << bits)));
    }
    Ok(format!("{updates} updates of {} numbers, each of which is right", 1_usize << bits))
}

fn place(number: u64, bits: u32) -> usize {
    (number >> (u64::BITS - bits)) as usize
}

/// How many numbers of this process's part are not what a serial run gives.
fn compare(table: &GlobalArray<i64, 1>, updates: usize, bits: u32) -> Result<usize, Wrong> {
    let own = table.own();
    let mut expected: Vec<i64> = (own.lo[0] as i64..own.hi[0] as i64).collect();
    for number in Sequence::over(0..updates) {
        let at = place(number, bits);
        if own.contains([at]) {
            let value = &mut expected[at - own.lo[0]];
            *value = value.wrapping_add(number as i64);
        }
    }
    let seen = table.read(own)?;
    Ok(seen.iter().zip(&expected).filter(|(seen, expected)| seen != expected).count())
}

/// Numbers of a part of the sequence.
struct Sequence {
    last: u64,
    left: usize,
}

impl Sequence {
    fn over(part: Range<usize>) -> Self {
        Sequence { last: power(part.start as u64), left: part.len() }
    }
}

impl Iterator for Sequence {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        self.last = times_x(self.last);
        Some(self.last)
    }
}

/// The next number: times x, modulo the polynomial.
fn times_x(number: u64) -> u64 {
    (number << 1) ^ if number >> 63 == 1 { POLYNOMIAL } else { 0 }
}

/// x to this power, modulo the polynomial.
fn power(exponent: u64) -> u64 {
    let product = |a: u64, b: u64| {
        (0..u64::BITS).rev().fold(0, |sum, bit| times_x(sum) ^ if a >> bit & 1 == 1 { b } else { 0 })
    };
    let (mut result, mut square, mut left) = (1, 2, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = product(result, square);
        }
        square = product(square, square);
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_sequence() {
        let all: Vec<u64> = Sequence::over(0..1000).collect();
        assert_eq!((all[0], all[62], all[63]), (2, 1 << 63, POLYNOMIAL));
        for part in [0..1, 1..500, 63..65, 500..1000] {
            assert_eq!(Sequence::over(part.clone()).collect::<Vec<_>>(), all[part]);
        }
    }
}
