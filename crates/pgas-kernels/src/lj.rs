//! Atoms with Lennard-Jones forces, moved by velocity Verlet.
//!
//! The matrix of forces between atoms is cut into blocks; whoever has nothing to do takes the next one from a shared counter,
//! fetches the positions of its rows and columns, and accumulates the forces of both. A block of positions or forces lies at
//! any process. The order in which forces are added is open, so that results agree to rounding.
use crate::{Checked, Job, Wrong};
use kernels::numbers::unit;
use mpi::Op;
use pgas::ga::{GaError, GlobalArray, Layout, Patch};
use std::ops::Range;

const STEPS: usize = 4;
/// Length of a step, in the unit of time of the potential.
const STEP: f64 = 0.002;
/// From an atom to the next at the start, in the unit of length of the potential.
const APART: f64 = 1.15;
/// How far results may differ: sums of some hundred numbers in another order.
const TOLERANCE: f64 = 1e-9;
/// Blocks of the matrix of forces, in each dimension, at least; one for each process if there are more of these.
const BLOCKS_MIN: usize = 16;

type Vector = [f64; 3];

/// Runs it.
pub fn run(job: &Job, size: usize) -> Checked {
    let mut system = System::new(job, size)?;
    let mut energy = system.forces(job)?;
    for _ in 0..STEPS {
        system.kick();
        system.drift()?;
        energy = system.forces(job)?;
        system.kick();
    }
    let (wanted, total) = expected(job, size)?;
    let own = system.own();
    let away =
        system.positions.iter().zip(&wanted[own]).flat_map(|(a, b)| (0..3).map(move |d| (a[d] - b[d]).abs()));
    let mut sums = [0.0; 2];
    job.world.allreduce(&[energy, system.kinetic()], &mut sums, Op::Sum)?;
    let mut worst = [0.0];
    job.world.allreduce(&[away.fold(0.0, f64::max)], &mut worst, Op::Max)?;
    let difference = (sums[0] + sums[1] - total).abs() / total.abs();
    // A difference that is no number is too large as well.
    if !(difference <= TOLERANCE && worst[0] <= TOLERANCE) {
        return Err(Wrong::Result(format!(
            "an energy that differs by {difference:.1e}, and positions by {:.1e}, from those of one process",
            worst[0]
        )));
    }
    Ok(format!("energy {total:.6}; positions and energy are those of one process to {TOLERANCE:.0e}"))
}

/// This process's atoms, and everybody's positions and forces.
struct System {
    shared: GlobalArray<f64, 2>,
    forces: GlobalArray<f64, 2>,
    next: GlobalArray<i64, 1>,
    positions: Vec<Vector>,
    velocities: Vec<Vector>,
    accelerations: Vec<Vector>,
}

impl System {
    fn new(job: &Job, size: usize) -> Result<Self, GaError> {
        let layout = Layout::new([size, 3]).chunk([1, 3]);
        let shared = layout.create::<f64>(&job.armci)?;
        let own = shared.own();
        let atoms = own.lo[0]..own.hi[0];
        let system = System {
            forces: layout.create(&job.armci)?,
            next: Layout::new([1]).create(&job.armci)?,
            positions: atoms.clone().map(|atom| position(atom, size)).collect(),
            velocities: atoms.clone().map(velocity).collect(),
            accelerations: vec![[0.0; 3]; atoms.len()],
            shared,
        };
        system.publish()?;
        Ok(system)
    }

    /// Atoms of this process.
    fn own(&self) -> Range<usize> {
        let own = self.shared.own();
        own.lo[0]..own.hi[0]
    }

    fn publish(&self) -> Result<(), GaError> {
        self.shared.put(self.shared.own(), self.positions.as_flattened())
    }

    /// Half a step of velocities.
    fn kick(&mut self) {
        kick(&mut self.velocities, &self.accelerations);
    }

    /// A step of positions.
    fn drift(&mut self) -> Result<(), GaError> {
        drift(&mut self.positions, &self.velocities);
        self.publish()
    }

    fn kinetic(&self) -> f64 {
        self.velocities.iter().map(|v| 0.5 * dot(*v, *v)).sum()
    }

    /// Computes the forces on all atoms together; gives the part of the potential energy that this process has found.
    fn forces(&mut self, job: &Job) -> Result<f64, GaError> {
        let size = self.shared.dims()[0];
        self.next.zero()?;
        self.forces.zero()?;
        let blocks = BLOCKS_MIN.max(job.armci.size()).min(size);
        let part = |block: usize| size * block / blocks..size * (block + 1) / blocks;
        let mut energy = 0.0;
        loop {
            let task = self.next.fetch_add([0], 1)? as usize;
            let Some((row, column)) = pair(task, blocks) else { break };
            energy += self.block(part(row), part(column))?;
        }
        self.forces.sync()?;
        let own = self.forces.read(self.forces.own())?;
        self.accelerations = own.as_chunks::<3>().0.to_vec();
        self.forces.sync()?;
        Ok(energy)
    }

    /// One block of the matrix of forces, and its mirror.
    fn block(&self, rows: Range<usize>, columns: Range<usize>) -> Result<f64, GaError> {
        let patch = |atoms: &Range<usize>| Patch::from([atoms.clone(), 0..3]);
        let read = |atoms: &Range<usize>| -> Result<Vec<Vector>, GaError> {
            Ok(self.shared.read(patch(atoms))?.as_chunks::<3>().0.to_vec())
        };
        let first = read(&rows)?;
        let mut on_first = vec![[0.0; 3]; rows.len()];
        if rows == columns {
            let energy = among(&first, &mut on_first);
            self.forces.accumulate(patch(&rows), on_first.as_flattened(), 1.0)?;
            return Ok(energy);
        }
        let second = read(&columns)?;
        let mut on_second = vec![[0.0; 3]; columns.len()];
        let mut energy = 0.0;
        for (a, on_a) in first.iter().zip(&mut on_first) {
            for (b, on_b) in second.iter().zip(&mut on_second) {
                energy += between(*a, *b, on_a, on_b);
            }
        }
        self.forces.accumulate(patch(&rows), on_first.as_flattened(), 1.0)?;
        self.forces.accumulate(patch(&columns), on_second.as_flattened(), 1.0)?;
        Ok(energy)
    }
}

/// Row and column of a task: the upper triangle of the matrix, row by row.
fn pair(task: usize, blocks: usize) -> Option<(usize, usize)> {
    let mut left = task;
    for row in 0..blocks {
        match left.checked_sub(blocks - row) {
            None => return Some((row, row + left)),
            Some(rest) => left = rest,
        }
    }
    None
}

/// Positions at the end and the energy, of one process, which everybody is told.
fn expected(job: &Job, size: usize) -> mpi::Result<(Vec<Vector>, f64)> {
    let mut told = vec![[0.0; 3]; size];
    let mut total = [0.0];
    if job.world.rank() == 0 {
        (told, total[0]) = serial(size);
    }
    job.world.bcast(told.as_flattened_mut(), 0)?;
    job.world.bcast(&mut total, 0)?;
    Ok((told, total[0]))
}

fn serial(size: usize) -> (Vec<Vector>, f64) {
    let mut positions: Vec<Vector> = (0..size).map(|atom| position(atom, size)).collect();
    let mut velocities: Vec<Vector> = (0..size).map(velocity).collect();
    let forces = |positions: &[Vector]| {
        let mut on_all = vec![[0.0; 3]; size];
        let energy = among(positions, &mut on_all);
        (on_all, energy)
    };
    let (mut accelerations, mut energy) = forces(&positions);
    for _ in 0..STEPS {
        kick(&mut velocities, &accelerations);
        drift(&mut positions, &velocities);
        (accelerations, energy) = forces(&positions);
        kick(&mut velocities, &accelerations);
    }
    let kinetic: f64 = velocities.iter().map(|v| 0.5 * dot(*v, *v)).sum();
    (positions, energy + kinetic)
}

/// On a lattice, a little off.
fn position(atom: usize, size: usize) -> Vector {
    let edge = (1..).find(|edge: &usize| edge.pow(3) >= size).unwrap_or(1);
    let place = [atom / (edge * edge), atom / edge % edge, atom % edge];
    std::array::from_fn(|d| APART * place[d] as f64 + 0.05 * (unit((3 * atom + d) as u64) - 0.5))
}

fn velocity(atom: usize) -> Vector {
    std::array::from_fn(|d| unit((1 << 40) + (3 * atom + d) as u64) - 0.5)
}

fn kick(velocities: &mut [Vector], accelerations: &[Vector]) {
    for (velocity, acceleration) in velocities.iter_mut().zip(accelerations) {
        (0..3).for_each(|d| velocity[d] += 0.5 * STEP * acceleration[d]);
    }
}

fn drift(positions: &mut [Vector], velocities: &[Vector]) {
    for (position, velocity) in positions.iter_mut().zip(velocities) {
        (0..3).for_each(|d| position[d] += STEP * velocity[d]);
    }
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Each pair of these atoms.
fn among(positions: &[Vector], forces: &mut [Vector]) -> f64 {
    let mut energy = 0.0;
    for first in 0..positions.len() {
        let (before, behind) = forces.split_at_mut(first + 1);
        for (other, on_other) in positions[first + 1..].iter().zip(behind) {
            energy += between(positions[first], *other, &mut before[first], on_other);
        }
    }
    energy
}

/// The potential of two atoms; adds the forces on both.
fn between(a: Vector, b: Vector, on_a: &mut Vector, on_b: &mut Vector) -> f64 {
    let apart = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    let inverse = 1.0 / dot(apart, apart);
    let sixth = inverse * inverse * inverse;
    let force = 24.0 * inverse * sixth * (2.0 * sixth - 1.0);
    for d in 0..3 {
        on_a[d] += force * apart[d];
        on_b[d] -= force * apart[d];
    }
    4.0 * sixth * (sixth - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_the_upper_triangle() {
        let all: Vec<_> = (0..7).map(|task| pair(task, 3)).collect();
        let expected = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)];
        assert_eq!(all[..6], expected.map(Some));
        assert_eq!(all[6], None);
    }

    #[test]
    fn the_force_is_the_slope_of_the_potential() {
        let at = |x: f64| between([x, 0.0, 0.0], [0.0; 3], &mut [0.0; 3], &mut [0.0; 3]);
        for x in [0.9, 1.1, 1.5] {
            let mut forces = [[0.0; 3]; 2];
            let [on_a, on_b] = &mut forces;
            between([x, 0.0, 0.0], [0.0; 3], on_a, on_b);
            let slope = (at(x + 1e-6) - at(x - 1e-6)) / 2e-6;
            assert!((forces[0][0] + slope).abs() < 1e-6 * slope.abs().max(1.0), "{x}");
            assert_eq!(forces[0][0], -forces[1][0]);
        }
    }

    #[test]
    fn energy_is_kept() {
        let total = |steps_of: usize| serial(steps_of).1;
        let mut forces = vec![[0.0; 3]; 64];
        let positions: Vec<Vector> = (0..64).map(|atom| position(atom, 64)).collect();
        let potential = among(&positions, &mut forces);
        let kinetic: f64 = (0..64).map(velocity).map(|v| 0.5 * dot(v, v)).sum();
        assert!((total(64) - potential - kinetic).abs() < 1e-3 * (potential + kinetic).abs());
    }
}
