//! Poisson's equation in a periodic box, by multigrid V-cycles. Processes form a 3-D grid, and neighbours exchange the faces
//! of their boxes, axis after axis, so that edges and corners come along.
//!
//! Each level has half as many points in a direction as the one above it, down to two. Once there are fewer points than
//! processes, only every second, then every fourth process has one, and neighbours are that far apart. On the way up, those
//! who come back need values of a level of which they have no point themselves.
//!
//! Receives take a face from anybody, told by its tag: that must connect nobody.
mod level;

use crate::numbers::{Fingerprint, mix};
use crate::shared::{Solved, sum};
use crate::{Checked, Job, Wrong};
use level::{Level, Reach};
use mpi::Communicator;

const CYCLES: usize = 3;
/// Sweeps of the smoother before and after the coarser levels, and on the coarsest.
const SWEEPS: usize = 2;
const SWEEPS_COARSEST: usize = 6;
/// Damping of Jacobi's method: what smooths best in three dimensions.
const DAMPING: f64 = 6.0 / 7.0;
/// Points at which there is a source, and as many with a sink.
const CHARGES: u64 = 10;
/// What must be left of the residual.
const FELL_TO: f64 = 1e-2;
const SIZE_MAX: usize = 512;
/// Points of an edge on the coarsest level.
const COARSEST: usize = 2;

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    let processes = Processes::new(&job.world);
    let least = (2 * COARSEST).max(processes.dims[2]);
    if !size.is_power_of_two() || !(least..=SIZE_MAX).contains(&size) {
        return Err(Wrong::Usage(format!("SIZE is a power of two from {least} to {SIZE_MAX}, not {size}")));
    }
    job.solve(FELL_TO, |comm| Multigrid::new(comm, size).solve())
}

/// The processes as a grid, x first.
pub(crate) struct Processes<'a> {
    comm: &'a Communicator,
    dims: [usize; 3],
    at: [usize; 3],
}

impl<'a> Processes<'a> {
    /// Of a power of two of processes: as near to a cube as can be, z the longest.
    fn new(comm: &'a Communicator) -> Self {
        let log = comm.size().trailing_zeros();
        let (x, y) = (log / 3, (log - log / 3) / 2);
        let dims = [1 << x, 1 << y, comm.size() >> (x + y)];
        let rank = comm.rank();
        Processes { comm, dims, at: [rank % dims[0], rank / dims[0] % dims[1], rank / (dims[0] * dims[1])] }
    }

    /// The rank at a distance along an axis, around the end.
    fn along(&self, axis: usize, distance: isize) -> usize {
        let mut at = self.at;
        at[axis] = (at[axis] as isize + distance).rem_euclid(self.dims[axis] as isize) as usize;
        (at[2] * self.dims[1] + at[1]) * self.dims[0] + at[0]
    }
}

struct Multigrid<'a> {
    processes: Processes<'a>,
    /// The finest first.
    levels: Vec<Level>,
}

impl<'a> Multigrid<'a> {
    fn new(comm: &'a Communicator, size: usize) -> Self {
        let processes = Processes::new(comm);
        let edges = std::iter::successors(Some(size), |edge| (*edge > COARSEST).then_some(edge / 2));
        let levels = edges.enumerate().map(|(number, edge)| Level::new(&processes, number, edge)).collect();
        Multigrid { processes, levels }
    }

    fn solve(mut self) -> mpi::Result<Solved> {
        self.set_charges();
        let first = self.rest_norm()?;
        for _ in 0..CYCLES {
            self.cycle(0)?;
        }
        let last = self.rest_norm()?;
        let mut print = Fingerprint::default();
        let finest = &self.levels[0];
        finest.inner().for_each(|(at, place)| print.add(place, finest.solution[at]));
        Ok(Solved { first, last, print: print.of_all(self.processes.comm)? })
    }

    /// As many sources as sinks: what flows in flows out.
    fn set_charges(&mut self) {
        let finest = &mut self.levels[0];
        let points = finest.edge.pow(3) as u64;
        let places: Vec<(usize, usize)> = finest.inner().collect();
        for charge in 0..2 * CHARGES {
            let chosen = mix(charge) % points;
            let own = places.iter().find(|(_, place)| *place as u64 == chosen);
            if let Some((at, _)) = own {
                finest.wanted[*at] += if charge < CHARGES { 1.0 } else { -1.0 };
            }
        }
    }

    fn rest_norm(&mut self) -> mpi::Result<f64> {
        self.levels[0].compute_rest(&self.processes)?;
        let finest = &self.levels[0];
        let squares = finest.inner().map(|(at, _)| finest.rest[at] * finest.rest[at]).sum();
        Ok(sum(self.processes.comm, squares)?.sqrt())
    }

    /// Smooths, solves for the rest on the coarser level, adds that, and smooths again.
    fn cycle(&mut self, at: usize) -> mpi::Result<()> {
        if at + 1 == self.levels.len() {
            return self.smooth(at, SWEEPS_COARSEST);
        }
        self.smooth(at, SWEEPS)?;
        let (finer, coarser) = self.levels.split_at_mut(at + 1);
        let (fine, coarse) = (&mut finer[at], &mut coarser[0]);
        fine.compute_rest(&self.processes)?;
        fine.exchange(&self.processes, Reach::Own, |level| &mut level.rest)?;
        coarse.restrict(fine);
        self.cycle(at + 1)?;
        let (finer, coarser) = self.levels.split_at_mut(at + 1);
        let (fine, coarse) = (&mut finer[at], &mut coarser[0]);
        coarse.exchange(&self.processes, Reach::Finer, |level| &mut level.solution)?;
        fine.add_interpolated(coarse);
        self.smooth(at, SWEEPS)
    }

    fn smooth(&mut self, at: usize, sweeps: usize) -> mpi::Result<()> {
        let level = &mut self.levels[at];
        for _ in 0..sweeps {
            level.compute_rest(&self.processes)?;
            level.relax(DAMPING / 6.0);
        }
        Ok(())
    }
}
