//! Poisson's equation in a cube, by symmetric successive over-relaxation. Processes form a 2-D grid, each with a column of
//! points from the bottom to the top. A sweep goes through the planes of it: a process that has the values of its northern
//! and western neighbours computes its part of a plane and gives its own values on to the south and the east, so that many
//! planes are under way at a time; the sweep back goes the other way.
use crate::numbers::{Fingerprint, unit};
use crate::shared::{Solved, share, sum};
use crate::{Checked, Job, Wrong};
use mpi::Communicator;
use std::ops::Range;

const ITERATIONS: usize = 12;
/// Of the over-relaxation.
const OMEGA: f64 = 1.5;
/// What must be left of the residual.
const FELL_TO: f64 = 1e-2;
const SIZE_MAX: usize = 512;

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    let grid = Grid::new(&job.world);
    if !(grid.columns.max(4)..=SIZE_MAX).contains(&size) {
        return Err(Wrong::Usage(format!("SIZE is from {} to {SIZE_MAX}", grid.columns.max(4))));
    }
    job.solve(FELL_TO, |comm| solve(&Grid::new(comm), size))
}

/// The processes as a grid: rank + 1 is to the south, rank + rows to the east.
struct Grid<'a> {
    comm: &'a Communicator,
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
}

/// Which way a sweep goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sweep {
    /// To the south, the east and the top.
    Forth,
    Back,
}

impl<'a> Grid<'a> {
    /// Of a power of two of processes: a square, or twice as many columns as rows.
    fn new(comm: &'a Communicator) -> Self {
        let rows = 1 << (comm.size().trailing_zeros() / 2);
        let columns = comm.size() / rows;
        Grid { comm, rows, columns, row: comm.rank() % rows, column: comm.rank() / rows }
    }

    /// The rank at a distance, unless that is outside.
    fn at(&self, south: isize, east: isize) -> Option<usize> {
        let row = self.row.checked_add_signed(south).filter(|row| *row < self.rows)?;
        let column = self.column.checked_add_signed(east).filter(|column| *column < self.columns)?;
        Some(column * self.rows + row)
    }
}

/// The values of a process, with a border of one around them in every direction.
struct Field {
    rows: Range<usize>,
    columns: Range<usize>,
    height: usize,
    values: Vec<f64>,
}

/// A side of a field: its row or its column, counted with the border.
#[derive(Clone, Copy)]
enum Side {
    Row(usize),
    Column(usize),
}

impl Field {
    fn new(grid: &Grid, size: usize) -> Self {
        let rows = share(size, grid.rows, grid.row);
        let columns = share(size, grid.columns, grid.column);
        let values = vec![0.0; (rows.len() + 2) * (columns.len() + 2) * (size + 2)];
        Field { rows, columns, height: size, values }
    }

    /// Counted with the border.
    fn index(&self, plane: usize, row: usize, column: usize) -> usize {
        (plane * (self.rows.len() + 2) + row) * (self.columns.len() + 2) + column
    }

    fn side(&self, plane: usize, side: Side) -> Vec<f64> {
        self.places(plane, side).map(|at| self.values[at]).collect()
    }

    fn set_side(&mut self, plane: usize, side: Side, values: &[f64]) {
        let places: Vec<usize> = self.places(plane, side).collect();
        places.into_iter().zip(values).for_each(|(at, value)| self.values[at] = *value);
    }

    fn places(&self, plane: usize, side: Side) -> impl Iterator<Item = usize> + '_ {
        let len = match side {
            Side::Row(_) => self.columns.len(),
            Side::Column(_) => self.rows.len(),
        };
        (1..=len).map(move |along| match side {
            Side::Row(row) => self.index(plane, row, along),
            Side::Column(column) => self.index(plane, along, column),
        })
    }

    /// All places within, with the number of each in the whole cube.
    fn inner(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (rows, columns, size) = (self.rows.clone(), self.columns.clone(), self.height);
        let plane = move |plane: usize| {
            let columns = columns.clone();
            let (first_row, first_column) = (rows.start, columns.start);
            rows.clone().flat_map(move |row| columns.clone().map(move |column| (row, column))).map(
                move |(row, column)| {
                    let at = self.index(plane + 1, row - first_row + 1, column - first_column + 1);
                    (at, (plane * size + row) * size + column)
                },
            )
        };
        (0..size).flat_map(plane)
    }

    /// The six around a place, in the order in which sums are made.
    fn around(&self, at: usize) -> [f64; 6] {
        let (plane, row) = (self.index(1, 0, 0), self.index(0, 1, 0));
        [at - plane, at - row, at - 1, at + 1, at + row, at + plane].map(|at| self.values[at])
    }
}

fn solve(grid: &Grid, size: usize) -> mpi::Result<Solved> {
    let mut solution = Field::new(grid, size);
    let (mut first, mut rest) = (None, rest_of(grid, &mut solution)?);
    for _ in 0..ITERATIONS {
        first = first.or(Some(norm(grid, &rest)?));
        sweep(grid, &mut rest, Sweep::Forth)?;
        let inner: Vec<usize> = rest.inner().map(|(at, _)| at).collect();
        inner.iter().for_each(|at| rest.values[*at] *= 6.0 * (2.0 - OMEGA) / OMEGA);
        sweep(grid, &mut rest, Sweep::Back)?;
        inner.iter().for_each(|at| solution.values[*at] += rest.values[*at]);
        rest = rest_of(grid, &mut solution)?;
    }
    let mut print = Fingerprint::default();
    solution.inner().for_each(|(at, place)| print.add(place, solution.values[at]));
    let last = norm(grid, &rest)?;
    Ok(Solved { first: first.unwrap_or(last), last, print: print.of_all(grid.comm)? })
}

fn norm(grid: &Grid, field: &Field) -> mpi::Result<f64> {
    let squares = field.inner().map(|(at, _)| field.values[at] * field.values[at]).sum();
    Ok(sum(grid.comm, squares)?.sqrt())
}

/// What the solution lacks; neighbours exchange the values at their borders for it.
fn rest_of(grid: &Grid, solution: &mut Field) -> mpi::Result<Field> {
    fill_border(grid, solution)?;
    let mut rest = Field { values: vec![0.0; solution.values.len()], ..solution.shape() };
    for (at, place) in solution.inner() {
        let around: f64 = solution.around(at).iter().sum();
        rest.values[at] = unit(place as u64) - 0.5 - (6.0 * solution.values[at] - around);
    }
    Ok(rest)
}

impl Field {
    /// The same shape without values.
    fn shape(&self) -> Field {
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        Field { rows, columns, height: self.height, values: Vec::new() }
    }
}

/// Whole sides, of all planes at once, to all four neighbours.
fn fill_border(grid: &Grid, field: &mut Field) -> mpi::Result<()> {
    let (last_row, last_column) = (field.rows.len(), field.columns.len());
    let sides = [
        (grid.at(-1, 0), Side::Row(1), Side::Row(0)),
        (grid.at(1, 0), Side::Row(last_row), Side::Row(last_row + 1)),
        (grid.at(0, -1), Side::Column(1), Side::Column(0)),
        (grid.at(0, 1), Side::Column(last_column), Side::Column(last_column + 1)),
    ];
    let all =
        |side: Side| -> Vec<f64> { (1..=field.height).flat_map(|plane| field.side(plane, side)).collect() };
    let out = sides.map(|(_, own, _)| all(own));
    let mut into = sides.map(|(_, own, _)| vec![0.0; all(own).len()]);
    grid.comm.scope(|s| {
        for (((neighbour, ..), out), into) in sides.iter().zip(&out).zip(&mut into) {
            if let Some(neighbour) = neighbour {
                s.irecv(into, *neighbour, 0)?;
                s.isend(out, *neighbour, 0)?;
            }
        }
        Ok(())
    })?;
    for ((neighbour, _, border), into) in sides.iter().zip(&into) {
        if neighbour.is_some() {
            let planes = into.chunks(into.len() / field.height);
            planes.enumerate().for_each(|(plane, values)| field.set_side(plane + 1, *border, values));
        }
    }
    Ok(())
}

/// Solves with the lower triangle of the matrix, or with the upper one, plane after plane.
fn sweep(grid: &Grid, field: &mut Field, way: Sweep) -> mpi::Result<()> {
    let (rows, columns, height) = (field.rows.len(), field.columns.len(), field.height);
    let (before, behind) = match way {
        Sweep::Forth => ([grid.at(-1, 0), grid.at(0, -1)], [grid.at(1, 0), grid.at(0, 1)]),
        Sweep::Back => ([grid.at(1, 0), grid.at(0, 1)], [grid.at(-1, 0), grid.at(0, -1)]),
    };
    let (borders, own) = match way {
        Sweep::Forth => ([Side::Row(0), Side::Column(0)], [Side::Row(rows), Side::Column(columns)]),
        Sweep::Back => ([Side::Row(rows + 1), Side::Column(columns + 1)], [Side::Row(1), Side::Column(1)]),
    };
    for step in 1..=height {
        let plane = if way == Sweep::Forth { step } else { height + 1 - step };
        for (from, border) in before.iter().zip(borders) {
            if let Some(from) = from {
                let mut values = field.side(plane, border);
                grid.comm.recv_into(&mut values, *from, 1)?;
                field.set_side(plane, border, &values);
            }
        }
        field.relax(plane, way);
        for (to, side) in behind.iter().zip(own) {
            if let Some(to) = to {
                grid.comm.send(&field.side(plane, side), *to, 1)?;
            }
        }
    }
    Ok(())
}

impl Field {
    /// One plane: every value takes in the three that come before it.
    fn relax(&mut self, plane: usize, way: Sweep) {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        for step in 0..rows * columns {
            let step = if way == Sweep::Forth { step } else { rows * columns - 1 - step };
            let at = self.index(plane, 1 + step / columns, 1 + step % columns);
            let [below, north, west, east, south, above] = self.around(at);
            let before = match way {
                Sweep::Forth => [below, north, west],
                Sweep::Back => [above, south, east],
            };
            self.values[at] = OMEGA * (self.values[at] + before.iter().sum::<f64>()) / 6.0;
        }
    }
}
