//! The smallest eigenvalue of a sparse symmetric matrix, by inverse iteration whose systems conjugate gradients solve.
//!
//! Processes form a grid, square or twice as wide as high, and each has a block of the matrix. A vector is cut by columns:
//! everybody in a column has the same piece. A product gives a piece by rows, which is summed up along the row in
//! exchanges at doubling distances, and exchanged with the process at the transposed place. Sums of dot products go along
//! rows too. No collective is called for any of it.
use crate::numbers::{mix, unit};
use crate::shared::expect;
use crate::{Checked, Job, Wrong};
use mpi::Communicator;

/// Pairs of entries off the diagonal for each row, on average.
const PAIRS: u64 = 7;
/// What the diagonal has beyond the sum of its row, so that the matrix is positive definite.
const BEYOND: f64 = 0.1;
const ITERATIONS: usize = 3;
const STEPS: usize = 25;
/// How small residuals must become.
const RESIDUAL: f64 = 1e-6;
/// How far results may be apart that were added up in another order.
const CLOSE: f64 = 1e-9;
const SIZE_MAX: usize = 1 << 22;

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    let grid = Grid::new(&job.world);
    if !size.is_multiple_of(grid.columns) || !(16..=SIZE_MAX).contains(&size) {
        let what = format!("SIZE is a multiple of {} from 16 to {SIZE_MAX}, not {size}", grid.columns);
        return Err(Wrong::Usage(what));
    }
    let (eigenvalue, residual) = inverse_iteration(&grid, size)?;
    expect(residual < RESIDUAL, || format!("the residual is {residual:.1e}"))?;
    if job.world.rank() == 0 {
        let (alone, _) = inverse_iteration(&Grid::new(&job.alone), size)?;
        let right = (eigenvalue - alone).abs() <= CLOSE * alone.abs();
        expect(right, || format!("the eigenvalue is {eigenvalue}, but {alone} for one process"))?;
    }
    Ok(format!("eigenvalue {eigenvalue:.10} as one process finds, residual {residual:.1e}"))
}

/// The eigenvalue, and the residual of the last system.
fn inverse_iteration(grid: &Grid, size: usize) -> mpi::Result<(f64, f64)> {
    let matrix = Block::new(grid, size);
    let mut x = vec![1.0; size / grid.columns];
    let (mut eigenvalue, mut residual) = (0.0, 0.0);
    for _ in 0..ITERATIONS {
        let z = solve(grid, &matrix, &x)?;
        let product = matrix.times(grid, &z)?;
        let rest: Vec<f64> = x.iter().zip(&product).map(|(x, product)| x - product).collect();
        let norm = grid.dot(&z, &z)?.sqrt();
        residual = (grid.dot(&rest, &rest)? / grid.dot(&x, &x)?).sqrt();
        eigenvalue = grid.dot(&x, &x)? / grid.dot(&x, &z)?;
        x = z.iter().map(|z| z / norm).collect();
    }
    Ok((eigenvalue, residual))
}

/// z such that the matrix times z is x, nearly.
fn solve(grid: &Grid, matrix: &Block, x: &[f64]) -> mpi::Result<Vec<f64>> {
    let (mut z, mut rest, mut way) = (vec![0.0; x.len()], x.to_vec(), x.to_vec());
    let mut square = grid.dot(&rest, &rest)?;
    for _ in 0..STEPS {
        let product = matrix.times(grid, &way)?;
        let far = square / grid.dot(&way, &product)?;
        for i in 0..z.len() {
            z[i] += far * way[i];
            rest[i] -= far * product[i];
        }
        let before = std::mem::replace(&mut square, grid.dot(&rest, &rest)?);
        if square == 0.0 {
            break; // everybody has the same sum
        }
        way.iter_mut().zip(&rest).for_each(|(way, rest)| *way = rest + square / before * *way);
    }
    Ok(z)
}

/// The processes as a grid, rows first.
struct Grid<'a> {
    comm: &'a Communicator,
    columns: usize,
    row: usize,
    column: usize,
    /// Columns for each row: 1 or 2.
    wider: usize,
}

impl<'a> Grid<'a> {
    /// Of a power of two of processes.
    fn new(comm: &'a Communicator) -> Self {
        let columns = 1 << comm.size().trailing_zeros().div_ceil(2);
        let (row, column) = (comm.rank() / columns, comm.rank() % columns);
        Grid { comm, columns, row, column, wider: columns * columns / comm.size() }
    }

    /// Adds up what the processes of the row have, everywhere in it.
    fn sum_row(&self, values: &mut [f64]) -> mpi::Result<()> {
        let mut theirs = vec![0.0; values.len()];
        let mut distance = self.columns / 2;
        while distance > 0 {
            let partner = self.row * self.columns + (self.column ^ distance);
            self.comm.sendrecv(values, partner, &mut theirs, partner, 1)?;
            values.iter_mut().zip(&theirs).for_each(|(mine, theirs)| *mine += theirs);
            distance /= 2;
        }
        Ok(())
    }

    /// From a piece by rows, which the whole row has, to the piece of the column.
    fn transpose(&self, by_row: &[f64]) -> mpi::Result<Vec<f64>> {
        // A piece of a row is that of `wider` columns. The partner needs the one that is, in its row, where this one's
        // column is in its own.
        let (len, which) = (by_row.len() / self.wider, self.column % self.wider);
        let part = &by_row[which * len..(which + 1) * len];
        let partner = self.column / self.wider * self.columns + self.row * self.wider + which;
        if partner == self.comm.rank() {
            return Ok(part.to_vec());
        }
        let mut by_column = vec![0.0; len];
        self.comm.sendrecv(part, partner, &mut by_column, partner, 2)?;
        Ok(by_column)
    }

    fn dot(&self, a: &[f64], b: &[f64]) -> mpi::Result<f64> {
        let mut sum = [a.iter().zip(b).map(|(a, b)| a * b).sum()];
        self.sum_row(&mut sum)?;
        Ok(sum[0])
    }
}

/// This process's block of the matrix: by row, places in the piece of the vector, and values.
struct Block {
    rows: Vec<Vec<(usize, f64)>>,
}

impl Block {
    /// Every process goes through all entries, and keeps its own.
    fn new(grid: &Grid, size: usize) -> Self {
        let (height, width) = (size * grid.wider / grid.columns, size / grid.columns);
        let (top, left) = (grid.row * height, grid.column * width);
        let mut rows = vec![Vec::new(); height];
        let mut add = |row: usize, column: usize, value: f64| {
            if (top..top + height).contains(&row) && (left..left + width).contains(&column) {
                rows[row - top].push((column - left, value));
            }
        };
        let mut diagonal = vec![1.0 + BEYOND; size];
        for row in 0..size {
            for pair in 0..PAIRS {
                let seed = mix(row as u64 * PAIRS + pair);
                let (column, value) = (seed as usize % size, unit(seed) - 0.5);
                if column == row {
                    continue;
                }
                add(row, column, value);
                add(column, row, value);
                diagonal[row] += value.abs();
                diagonal[column] += value.abs();
            }
        }
        diagonal.iter().enumerate().for_each(|(at, value)| add(at, at, *value));
        Block { rows }
    }

    /// The product with a vector, both by columns.
    fn times(&self, grid: &Grid, vector: &[f64]) -> mpi::Result<Vec<f64>> {
        let row = |row: &Vec<(usize, f64)>| row.iter().map(|(at, value)| value * vector[*at]).sum();
        let mut by_row: Vec<f64> = self.rows.iter().map(row).collect();
        grid.sum_row(&mut by_row)?;
        grid.transpose(&by_row)
    }
}
