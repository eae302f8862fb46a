//! Heat in a cube, by implicit steps in alternating directions on a multi-partition: the cube is cut into q x q x q cells
//! for q x q processes, and each process has q of them, along a diagonal, one at every place of every axis. So all have work
//! in every stage of a sweep along any axis, and the cells above all of its own along an axis belong to the same process.
//! Those in x and y are neighbours in the square of processes; those in z are diagonal ones.
mod cell;

use crate::numbers::Fingerprint;
use crate::shared::{Solved, sum};
use crate::{Checked, Job, Wrong};
use cell::{Cell, Lines};
use mpi::Communicator;
use std::ops::Range;

const STEPS: usize = 8;
/// What must be left of what a step changes: heat leaves through the faces.
const FELL_TO: f64 = 0.5;
const SIZE_MAX: usize = 512;

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    let least = job.world.size().isqrt().max(4);
    if !(least..=SIZE_MAX).contains(&size) {
        return Err(Wrong::Usage(format!("SIZE is from {least} to {SIZE_MAX}, not {size}")));
    }
    job.solve(FELL_TO, |comm| Partition::new(comm, size).solve())
}

/// The cells of a process, and who has those next to them.
struct Partition<'a> {
    comm: &'a Communicator,
    /// Cells of an edge, and of a process.
    q: usize,
    /// In the order of z.
    cells: Vec<Cell>,
    /// By axis: who has the cells above and below.
    above: [usize; 3],
    below: [usize; 3],
}

/// Which way values go along an axis.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

impl Way {
    /// Both ways along all axes; the place in the list is a tag.
    fn all() -> Vec<(usize, Way)> {
        (0..3).flat_map(|axis| [(axis, Way::Up), (axis, Way::Down)]).collect()
    }

    /// The places of cells along an axis that have one to send to.
    fn sending(self, q: usize) -> Range<usize> {
        match self {
            Way::Up => 0..q - 1,
            Way::Down => 1..q,
        }
    }

    /// And those that have one to receive from, in the same order.
    fn receiving(self, q: usize) -> Range<usize> {
        match self {
            Way::Up => 1..q,
            Way::Down => 0..q - 1,
        }
    }
}

impl<'a> Partition<'a> {
    fn new(comm: &'a Communicator, size: usize) -> Self {
        let q = comm.size().isqrt();
        let (i, j) = (comm.rank() % q, comm.rank() / q);
        let whose = |right: usize, up: usize| (i + right) % q + q * ((j + up) % q);
        let cells = (0..q).map(|z| Cell::new([(i + z) % q, (j + q - z) % q, z], q, size)).collect();
        Partition {
            comm,
            q,
            cells,
            above: [whose(1, 0), whose(0, 1), whose(q - 1, 1)],
            below: [whose(q - 1, 0), whose(0, q - 1), whose(1, q - 1)],
        }
    }

    fn solve(mut self) -> mpi::Result<Solved> {
        let (mut first, mut last) = (None, 0.0);
        for _ in 0..STEPS {
            self.fill_borders()?;
            self.cells.iter_mut().for_each(Cell::compute_change);
            last = self.norm()?;
            first = first.or(Some(last));
            for axis in 0..3 {
                self.sweep(axis)?;
            }
            self.cells.iter_mut().for_each(Cell::add_change);
        }
        let mut print = Fingerprint::default();
        self.cells.iter().for_each(|cell| cell.print(&mut print));
        Ok(Solved { first: first.unwrap_or(last), last, print: print.of_all(self.comm)? })
    }

    fn norm(&self) -> mpi::Result<f64> {
        Ok(sum(self.comm, self.cells.iter().map(Cell::change_squared).sum())?.sqrt())
    }

    /// The cell at a place of an axis: there is one.
    fn cell_at(&self, axis: usize, place: usize) -> usize {
        self.cells.iter().position(|cell| cell.place[axis] == place).expect("a cell at every place")
    }

    /// To whom values go that way, and from whom they come.
    fn ends(&self, axis: usize, way: Way) -> (usize, usize) {
        match way {
            Way::Up => (self.above[axis], self.below[axis]),
            Way::Down => (self.below[axis], self.above[axis]),
        }
    }

    /// Faces of all cells go to both neighbours of every axis, together.
    fn fill_borders(&mut self) -> mpi::Result<()> {
        let (q, ways) = (self.q, Way::all());
        if q == 1 {
            return Ok(());
        }
        let cell = |axis: usize, place: usize| &self.cells[self.cell_at(axis, place)];
        let faces = |&(axis, way): &(usize, Way)| -> Vec<f64> {
            way.sending(q).flat_map(|place| cell(axis, place).face(axis, way)).collect()
        };
        let room = |&(axis, way): &(usize, Way)| {
            vec![0.0; way.receiving(q).map(|place| cell(axis, place).face_len(axis)).sum()]
        };
        let out: Vec<Vec<f64>> = ways.iter().map(faces).collect();
        let mut into: Vec<Vec<f64>> = ways.iter().map(room).collect();
        self.comm.scope(|s| {
            for ((tag, (axis, way)), room) in ways.iter().enumerate().zip(&mut into) {
                s.irecv(room, self.ends(*axis, *way).1, tag as i32)?;
            }
            for ((tag, (axis, way)), faces) in ways.iter().enumerate().zip(&out) {
                s.isend(faces, self.ends(*axis, *way).0, tag as i32)?;
            }
            Ok(())
        })?;
        for ((axis, way), faces) in ways.into_iter().zip(&into) {
            let mut faces = &faces[..];
            for place in way.receiving(q) {
                let at = self.cell_at(axis, place);
                let (face, rest) = faces.split_at(self.cells[at].face_len(axis));
                self.cells[at].set_border(axis, way, face);
                faces = rest;
            }
        }
        Ok(())
    }

    /// Solves the systems of all lines along an axis: eliminates on the way up, and puts in on the way down. Between two
    /// stages everybody gives its lines on, and gets others.
    fn sweep(&mut self, axis: usize) -> mpi::Result<()> {
        let (above, below, last) = (self.above[axis], self.below[axis], self.q - 1);
        let mut lines = Lines::default();
        for place in 0..=last {
            let at = self.cell_at(axis, place);
            lines = match place {
                0 => self.cells[at].lines(axis),
                _ => self.pass(&lines, above, below, self.cells[at].lines(axis))?,
            };
            self.cells[at].eliminate(axis, &mut lines);
        }
        for place in (0..=last).rev() {
            let at = self.cell_at(axis, place);
            lines = match place {
                _ if place == last => self.cells[at].lines(axis),
                _ => self.pass(&lines, below, above, self.cells[at].lines(axis))?,
            };
            self.cells[at].put_in(axis, &mut lines);
        }
        Ok(())
    }

    fn pass(&self, lines: &Lines, to: usize, from: usize, mut room: Lines) -> mpi::Result<Lines> {
        self.comm.sendrecv(&lines.0, to, &mut room.0, from, 7)?;
        Ok(room)
    }
}
