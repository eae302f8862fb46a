//! Heat on a plate, cut into one block per rank. In every step neighbours exchange the values along their
//! borders; the result must be, to the last bit, the one that a single process computes.
use super::{Wrong, expect};
use mpi::{Communicator, Result};

/// Points of a block in each direction.
const SIDE: usize = 16;
/// Blocks in a row; there are as many rows as the job's size allows.
const COLUMNS: usize = 4;
const STEPS: usize = 100;

/// Runs the exchange and checks this rank's block.
pub fn exchange(world: &Communicator) -> std::result::Result<String, Wrong> {
    let columns = COLUMNS.min(world.size());
    let rows = world.size() / columns;
    expect(rows * columns == world.size(), || format!("{} ranks make no rectangle", world.size()))?;
    let (row, column) = (world.rank() / columns, world.rank() % columns);
    let mut block = Plate::new(SIDE, SIDE, |y, x| start(row * SIDE + y, column * SIDE + x));
    for _ in 0..STEPS {
        fill_halo(world, &mut block, (row, column), (rows, columns))?;
        block = block.stepped();
    }
    let mut whole = Plate::new(rows * SIDE, columns * SIDE, start);
    for _ in 0..STEPS {
        whole = whole.stepped();
    }
    let same = |y: usize, x: usize| block.at(y, x) == whole.at(row * SIDE + y, column * SIDE + x);
    let right = (0..SIDE).all(|y| (0..SIDE).all(|x| same(y, x)));
    expect(right, || format!("the block in row {row}, column {column} differs"))?;
    Ok(format!("{STEPS} steps of {rows} x {columns} blocks agree with one process"))
}

fn start(y: usize, x: usize) -> f64 {
    ((y * 37 + x * 101) % 97) as f64
}

/// Values with a border of one point around them, which is 0 unless a neighbour fills it.
struct Plate {
    height: usize,
    width: usize,
    values: Vec<f64>,
}

/// The border of a block that a neighbour fills, and the edge that goes to it.
#[derive(Clone, Copy)]
enum Side {
    Top,
    Bottom,
    Left,
    Right,
}

impl Plate {
    fn new(height: usize, width: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let mut plate = Plate { height, width, values: vec![0.0; (height + 2) * (width + 2)] };
        for y in 0..height {
            for x in 0..width {
                let at = plate.index(y + 1, x + 1);
                plate.values[at] = value(y, x);
            }
        }
        plate
    }

    /// Counted with the border.
    fn index(&self, y: usize, x: usize) -> usize {
        y * (self.width + 2) + x
    }

    /// Counted without the border.
    fn at(&self, y: usize, x: usize) -> f64 {
        self.values[self.index(y + 1, x + 1)]
    }

    fn stepped(&self) -> Plate {
        Plate::new(self.height, self.width, |y, x| {
            let here = self.index(y + 1, x + 1);
            let row = self.width + 2;
            let around = self.values[here - row]
                + self.values[here + row]
                + self.values[here - 1]
                + self.values[here + 1];
            0.5 * self.values[here] + 0.125 * around
        })
    }

    /// The outermost row or column of the block itself.
    fn edge(&self, side: Side) -> Vec<f64> {
        match side {
            Side::Top => (0..self.width).map(|x| self.at(0, x)).collect(),
            Side::Bottom => (0..self.width).map(|x| self.at(self.height - 1, x)).collect(),
            Side::Left => (0..self.height).map(|y| self.at(y, 0)).collect(),
            Side::Right => (0..self.height).map(|y| self.at(y, self.width - 1)).collect(),
        }
    }

    fn set_border(&mut self, side: Side, values: &[f64]) {
        for (i, value) in values.iter().enumerate() {
            let at = match side {
                Side::Top => self.index(0, i + 1),
                Side::Bottom => self.index(self.height + 1, i + 1),
                Side::Left => self.index(i + 1, 0),
                Side::Right => self.index(i + 1, self.width + 1),
            };
            self.values[at] = *value;
        }
    }
}

/// Exchanges the edges with all neighbours at once.
fn fill_halo(
    world: &Communicator,
    block: &mut Plate,
    (row, column): (usize, usize),
    (rows, columns): (usize, usize),
) -> Result<()> {
    let rank = world.rank();
    let neighbours = [
        (row > 0).then(|| (Side::Top, rank - columns)),
        (row + 1 < rows).then(|| (Side::Bottom, rank + columns)),
        (column > 0).then(|| (Side::Left, rank - 1)),
        (column + 1 < columns).then(|| (Side::Right, rank + 1)),
    ];
    let neighbours: Vec<(Side, usize)> = neighbours.into_iter().flatten().collect();
    let edges: Vec<Vec<f64>> = neighbours.iter().map(|(side, _)| block.edge(*side)).collect();
    let mut borders = vec![vec![0.0; SIDE]; neighbours.len()];
    world.scope(|scope| {
        for (((_, peer), edge), border) in neighbours.iter().zip(&edges).zip(&mut borders) {
            scope.irecv(border, *peer, 3)?;
            scope.isend(edge, *peer, 3)?;
        }
        Ok(())
    })?;
    for ((side, _), border) in neighbours.iter().zip(&borders) {
        block.set_border(*side, border);
    }
    Ok(())
}
