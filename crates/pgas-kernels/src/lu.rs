//! A factorization into triangles, without pivots, of a matrix whose diagonal is large.
//!
//! Blocks are dealt out to the processes of a 2-D grid in turn, row by row and column by column, so that all have work to the
//! end: the rows of an array are those of the matrix in another order, in which the blocks of a process are one behind the
//! other ([`Deal`]). A process works on its blocks in its own memory, publishes what is final, and fetches the panels of each
//! step: of the left triangle from the processes of its row of the grid, of the right one from those of its column.
//!
//! Each element sees the same operations in the same order as in the serial loop, so that the bits are the same.
use crate::{Checked, Job, Wrong};
use kernels::numbers::{Fingerprint, unit};
use pgas::ga::{Block, Distribution, GaError, GlobalArray, Layout, Patch};
use std::ops::Range;

/// Rows of a block.
const BLOCK: usize = 16;

/// Runs it.
pub fn run(job: &Job, size: usize) -> Checked {
    let blocks = size.div_ceil(BLOCK);
    let n = blocks * BLOCK;
    let grid = Distribution::blocks([blocks; 2], [1, 1], job.armci.size()).map_err(GaError::from)?.grid();
    let deals = grid.map(|parts| Deal { blocks, parts });
    let starts = deals.map(|deal| deal.starts());
    let matrix = Layout::irregular([n, n], starts.each_ref().map(Vec::as_slice)).create::<f64>(&job.armci)?;
    let mine = factor(&matrix, deals)?;
    let mut print = Fingerprint::default();
    for at in mine.patch().points() {
        let [row, column] = [deals[0].row(at[0]), deals[1].row(at[1])];
        print.add(row * n + column, mine[at]);
    }
    job.same_bits(print, || serial(n))?;
    published(&matrix, &mine)?;
    Ok(format!("{n} x {n} on a grid of {} x {}, and one process finds the same bits", grid[0], grid[1]))
}

/// What others have read is what the result holds.
fn published(matrix: &GlobalArray<f64, 2>, mine: &Block<f64, 2>) -> Result<(), Wrong> {
    matrix.sync()?;
    if matrix.read(mine.patch())? != mine.elements() {
        return Err(Wrong::Result("the array does not hold what was published".into()));
    }
    Ok(matrix.sync()?)
}

/// Blocks dealt out to parts of one dimension, the first to the first.
#[derive(Clone, Copy, Debug)]
struct Deal {
    blocks: usize,
    parts: usize,
}

impl Deal {
    /// Blocks of all parts before this one.
    fn before(&self, part: usize) -> usize {
        let (each, more) = (self.blocks / self.parts, self.blocks % self.parts);
        part * each + part.min(more)
    }

    /// Where each part begins in the array.
    fn starts(&self) -> Vec<usize> {
        (0..self.parts).map(|part| BLOCK * self.before(part)).collect()
    }

    /// Where the rows of a block of the matrix are in the array.
    fn stored(&self, block: usize) -> Range<usize> {
        let at = BLOCK * (self.before(block % self.parts) + block / self.parts);
        at..at + BLOCK
    }

    /// The row of the matrix that is at this place of the array.
    fn row(&self, stored: usize) -> usize {
        let at = stored / BLOCK;
        let part = (0..self.parts).rev().find(|part| self.before(*part) <= at).unwrap_or(0);
        BLOCK * (part + (at - self.before(part)) * self.parts) + stored % BLOCK
    }

    /// Where a part's blocks behind this one begin in the array.
    fn behind(&self, part: usize, block: usize) -> usize {
        let passed = if block >= part { (block - part) / self.parts + 1 } else { 0 };
        BLOCK * (self.before(part) + passed)
    }
}

/// An element of the matrix.
fn element(n: usize, row: usize, column: usize) -> f64 {
    unit((row * n + column) as u64) - 0.5 + if row == column { n as f64 } else { 0.0 }
}

/// This process's part of the result.
fn factor(matrix: &GlobalArray<f64, 2>, deals: [Deal; 2]) -> Result<Block<f64, 2>, GaError> {
    let own = matrix.own();
    let n = matrix.dims()[0];
    let values = own.points().map(|at| element(n, deals[0].row(at[0]), deals[1].row(at[1]))).collect();
    let mut mine = Block::of(own, values);
    let place = matrix.distribution().coordinates(matrix.armci().rank());
    for step in 0..deals[0].blocks {
        let at = [deals[0].stored(step), deals[1].stored(step)];
        let here = place.map(|place| [step % deals[0].parts == place[0], step % deals[1].parts == place[1]]);
        let behind = place.map(|place| [0, 1].map(|d| deals[d].behind(place[d], step)..own.hi[d]));
        if here == Some([true, true]) {
            diagonal(&mut mine, &at);
            publish(matrix, &mine, at.clone())?;
        }
        matrix.sync()?;
        let (Some(here), Some([rows, columns])) = (here, behind) else {
            matrix.sync()?;
            continue;
        };
        if here[1] && !rows.is_empty() {
            left_panel(&mut mine, &rows, &at[1], &matrix.read(at.clone())?);
            publish(matrix, &mine, [rows.clone(), at[1].clone()])?;
        }
        if here[0] && !columns.is_empty() {
            upper_panel(&mut mine, &at[0], &columns, &matrix.read(at.clone())?);
            publish(matrix, &mine, [at[0].clone(), columns.clone()])?;
        }
        matrix.sync()?;
        if !rows.is_empty() && !columns.is_empty() {
            let left = matrix.read([rows.clone(), at[1].clone()])?;
            let upper = matrix.read([at[0].clone(), columns.clone()])?;
            update(&mut mine, &rows, &columns, &left, &upper);
        }
    }
    matrix.sync()?;
    Ok(mine)
}

fn publish(
    matrix: &GlobalArray<f64, 2>,
    mine: &Block<f64, 2>,
    part: [Range<usize>; 2],
) -> Result<(), GaError> {
    let part = Patch::from(part);
    let values: Vec<f64> = part.points().map(|at| mine[at]).collect();
    matrix.put(part, &values)
}

/// Factors the block on the diagonal.
fn diagonal(mine: &mut Block<f64, 2>, [rows, columns]: &[Range<usize>; 2]) {
    for k in 0..BLOCK {
        for i in k + 1..BLOCK {
            let factor =
                mine[[rows.start + i, columns.start + k]] / mine[[rows.start + k, columns.start + k]];
            mine[[rows.start + i, columns.start + k]] = factor;
            for j in k + 1..BLOCK {
                let above = mine[[rows.start + k, columns.start + j]];
                mine[[rows.start + i, columns.start + j]] -= factor * above;
            }
        }
    }
}

/// The left triangle's rows below the diagonal.
fn left_panel(mine: &mut Block<f64, 2>, rows: &Range<usize>, columns: &Range<usize>, diagonal: &[f64]) {
    for i in rows.clone() {
        for k in 0..BLOCK {
            let factor = mine[[i, columns.start + k]] / diagonal[k * BLOCK + k];
            mine[[i, columns.start + k]] = factor;
            for j in k + 1..BLOCK {
                mine[[i, columns.start + j]] -= factor * diagonal[k * BLOCK + j];
            }
        }
    }
}

/// The upper triangle's columns right of the diagonal.
fn upper_panel(mine: &mut Block<f64, 2>, rows: &Range<usize>, columns: &Range<usize>, diagonal: &[f64]) {
    for k in 0..BLOCK {
        for i in k + 1..BLOCK {
            let factor = diagonal[i * BLOCK + k];
            for j in columns.clone() {
                let above = mine[[rows.start + k, j]];
                mine[[rows.start + i, j]] -= factor * above;
            }
        }
    }
}

/// What is behind both panels.
fn update(
    mine: &mut Block<f64, 2>,
    rows: &Range<usize>,
    columns: &Range<usize>,
    left: &[f64],
    upper: &[f64],
) {
    for (i, factors) in rows.clone().zip(left.chunks_exact(BLOCK)) {
        let row = mine.row_mut([i, columns.start]);
        for (factor, above) in factors.iter().zip(upper.chunks_exact(columns.len())) {
            for (value, above) in row.iter_mut().zip(above) {
                *value -= factor * above;
            }
        }
    }
}

/// The same by the plain loop.
fn serial(n: usize) -> Fingerprint {
    let mut all: Vec<f64> = (0..n * n).map(|at| element(n, at / n, at % n)).collect();
    for k in 0..n {
        let (above, below) = all.split_at_mut((k + 1) * n);
        let above = &above[k * n..];
        for row in below.chunks_exact_mut(n) {
            row[k] /= above[k];
            let factor = row[k];
            for (value, above) in row[k + 1..].iter_mut().zip(&above[k + 1..]) {
                *value -= factor * above;
            }
        }
    }
    let mut print = Fingerprint::default();
    all.iter().enumerate().for_each(|(at, value)| print.add(at, *value));
    print
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealing_is_a_permutation_that_keeps_the_order_of_each_part() {
        for (blocks, parts) in [(8, 3), (4, 4), (7, 1), (5, 4)] {
            let deal = Deal { blocks, parts };
            let mut seen: Vec<usize> = (0..blocks).map(|block| deal.stored(block).start / BLOCK).collect();
            for block in 0..blocks {
                assert_eq!(deal.row(deal.stored(block).start + 3), block * BLOCK + 3);
                let part = block % parts;
                assert_eq!(deal.behind(part, block), deal.stored(block).end);
                assert!(deal.starts()[part] <= deal.stored(block).start);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
        }
        assert_eq!(Deal { blocks: 8, parts: 3 }.behind(2, 0), BLOCK * 6);
    }
}
