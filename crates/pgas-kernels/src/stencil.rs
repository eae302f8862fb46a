//! Diffusion in a layer: what a code for flow under the ground does with its neighbours, without its chemistry.
//!
//! The layer is thin (15 cells, as in the paper), so that the grid of processes has two dimensions. Each time step is one of
//! backward Euler: an equation that is not linear, since it diffuses faster where there is more, solved by a few sweeps
//! that use the last values of the neighbours. Nothing leaves at the edges.
//!
//! Each cell is computed by the same operations as in the serial run, so that the bits are the same.
use crate::{Checked, Job, Wrong};
use kernels::numbers::{Fingerprint, unit};
use pgas::ga::{Edge, Layout, Patch, Reach};

/// Cells from the top to the bottom.
const DEPTH: usize = 15;
const STEPS: usize = 2;
/// Sweeps of a step.
const SWEEPS: usize = 4;
/// Length of a time step, in units of the time that diffusion takes across a cell.
const STEP: f64 = 0.8;

/// Runs it.
pub fn run(job: &Job, size: usize) -> Checked {
    let dims = [size, size, DEPTH];
    let whole = Patch::whole(dims);
    let layout = Layout::new(dims).chunk([1, 1, DEPTH]).ghosts([1, 1, 1]);
    let field = layout.create::<f64>(&job.armci)?;
    field.fill_with(|at| start(whole.index(at)))?;
    for _ in 0..STEPS {
        let before = field.with_own(|block| block.elements().to_vec())?;
        for _ in 0..SWEEPS {
            field.with_ghosts(Reach::Faces, Edge::Open, |block| {
                let (last, strides) = (block.elements().to_vec(), block.strides());
                for at in block.patch().points() {
                    let place = block.place(at);
                    block[at] = cell(before[place], &last, place, strides, &edges(at, dims));
                }
            })?;
        }
    }
    let mut print = Fingerprint::default();
    let own = field.own();
    own.points().zip(field.read(own)?).for_each(|(at, value)| print.add(whole.index(at), value));
    let mut sum = [0.0];
    job.world.allreduce(&[field.read(own)?.iter().sum::<f64>()], &mut sum, mpi::Op::Sum)?;
    if !sum[0].is_finite() {
        return Err(Wrong::Result("the field has no sum".into()));
    }
    job.same_bits(print, || serial(dims))?;
    let grid = field.distribution().grid();
    Ok(format!(
        "{size} x {size} x {DEPTH} on a grid of {} x {}, and one process finds the same bits",
        grid[0], grid[1]
    ))
}

/// What a cell begins with.
fn start(place: usize) -> f64 {
    unit(place as u64)
}

/// Is there a neighbour before and behind, in each dimension?
fn edges(at: [usize; 3], dims: [usize; 3]) -> [[bool; 2]; 3] {
    std::array::from_fn(|d| [at[d] > 0, at[d] + 1 < dims[d]])
}

/// The next value of a cell, from that before the time step and the last ones around it.
fn cell(before: f64, last: &[f64], place: usize, strides: [usize; 3], neighbours: &[[bool; 2]; 3]) -> f64 {
    let own = last[place];
    let (mut weights, mut sum) = (1.0, before);
    for (stride, [lower, upper]) in strides.into_iter().zip(neighbours) {
        for (is_there, at) in [(lower, place.wrapping_sub(stride)), (upper, place + stride)] {
            if *is_there {
                let between = 0.5 * (own + last[at]);
                let weight = STEP * (0.1 + between * between);
                weights += weight;
                sum += weight * last[at];
            }
        }
    }
    sum / weights
}

/// The same, in an array of this process's.
fn serial(dims: [usize; 3]) -> Fingerprint {
    let whole = Patch::whole(dims);
    let mut field: Vec<f64> = (0..whole.volume()).map(start).collect();
    for _ in 0..STEPS {
        let before = field.clone();
        for _ in 0..SWEEPS {
            let last = field.clone();
            for (place, at) in whole.points().enumerate() {
                field[place] = cell(before[place], &last, place, whole.strides(), &edges(at, dims));
            }
        }
    }
    let mut print = Fingerprint::default();
    field.iter().enumerate().for_each(|(place, value)| print.add(place, *value));
    print
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_where_all_is_even_and_the_middle_of_a_heap_falls() {
        let strides = [1, 1, 1];
        let even = cell(2.0, &[2.0; 3], 1, strides, &[[true, true], [false, false], [false, false]]);
        assert!((even - 2.0).abs() < 1e-15);
        let heap = cell(1.0, &[0.0, 1.0, 0.0], 1, strides, &[[true, true], [false, false], [false, false]]);
        assert!(heap < 1.0 && heap > 0.0);
    }
}
