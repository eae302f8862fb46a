//! A cell of the multi-partition: its values with a border of one around them, and how they change in a step.
use super::Way;
use crate::numbers::{Fingerprint, unit};
use crate::shared::share;
use std::ops::Range;

/// How much heat flows between two points in a step.
const FLOW: f64 = 0.8;

/// A cell.
pub(super) struct Cell {
    /// Which cell along each axis.
    pub(super) place: [usize; 3],
    /// Its points in the whole cube.
    points: [Range<usize>; 3],
    /// Points of an edge of the whole cube.
    size: usize,
    /// With the border, which is 0 outside the cube.
    values: Vec<f64>,
    /// By how much values change; the border is not used.
    change: Vec<f64>,
    /// What elimination leaves of the matrix, for the way back.
    factors: Vec<f64>,
}

/// Two numbers for each line along an axis that goes on in the next cell.
#[derive(Default)]
pub(super) struct Lines(pub(super) Vec<f64>);

impl Cell {
    pub(super) fn new(place: [usize; 3], q: usize, size: usize) -> Self {
        let points = place.map(|place| share(size, q, place));
        let all = points.iter().map(|points| points.len() + 2).product();
        let none = vec![0.0; all];
        let mut cell =
            Cell { place, points, size, values: none.clone(), change: none.clone(), factors: none };
        for (at, number) in cell.inner() {
            cell.values[at] = unit(number as u64);
        }
        cell
    }

    fn len(&self, axis: usize) -> usize {
        self.points[axis].len()
    }

    /// Counted with the border.
    fn index(&self, [x, y, z]: [usize; 3]) -> usize {
        (z * (self.len(1) + 2) + y) * (self.len(0) + 2) + x
    }

    /// Where its points are here, and their numbers in the whole cube.
    fn inner(&self) -> Vec<(usize, usize)> {
        let mut all = Vec::with_capacity(self.values.len());
        for z in 0..self.len(2) {
            for y in 0..self.len(1) {
                for x in 0..self.len(0) {
                    let [i, j, k] =
                        [x + self.points[0].start, y + self.points[1].start, z + self.points[2].start];
                    all.push((self.index([x + 1, y + 1, z + 1]), (k * self.size + j) * self.size + i));
                }
            }
        }
        all
    }

    /// The places across an axis, at one place along it.
    fn across(&self, axis: usize, at: usize) -> Vec<usize> {
        let (first, second) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut places = Vec::with_capacity(self.len(first) * self.len(second));
        for b in 1..=self.len(second) {
            for a in 1..=self.len(first) {
                let mut point = [0; 3];
                (point[axis], point[first], point[second]) = (at, a, b);
                places.push(self.index(point));
            }
        }
        places
    }

    pub(super) fn face_len(&self, axis: usize) -> usize {
        self.len((axis + 1) % 3) * self.len((axis + 2) % 3)
    }

    /// The values that the next cell needs.
    pub(super) fn face(&self, axis: usize, way: Way) -> Vec<f64> {
        let at = if matches!(way, Way::Up) { self.len(axis) } else { 1 };
        self.across(axis, at).into_iter().map(|at| self.values[at]).collect()
    }

    /// Those that came from it.
    pub(super) fn set_border(&mut self, axis: usize, way: Way, face: &[f64]) {
        let at = if matches!(way, Way::Up) { 0 } else { self.len(axis) + 1 };
        self.across(axis, at).into_iter().zip(face).for_each(|(at, value)| self.values[at] = *value);
    }

    /// What a step would change if it were explicit.
    pub(super) fn compute_change(&mut self) {
        let steps = [self.index([1, 0, 0]), self.index([0, 1, 0]), self.index([0, 0, 1])];
        for (at, _) in self.inner() {
            let mut flow = 0.0;
            for step in steps {
                flow += self.values[at - step] - 2.0 * self.values[at] + self.values[at + step];
            }
            self.change[at] = FLOW * flow;
        }
    }

    pub(super) fn change_squared(&self) -> f64 {
        self.inner().into_iter().map(|(at, _)| self.change[at] * self.change[at]).sum()
    }

    pub(super) fn add_change(&mut self) {
        for (at, _) in self.inner() {
            self.values[at] += self.change[at];
        }
    }

    pub(super) fn print(&self, print: &mut Fingerprint) {
        self.inner().into_iter().for_each(|(at, number)| print.add(number, self.values[at]));
    }

    /// Room for what comes from another cell; what it is where there is none.
    pub(super) fn lines(&self, axis: usize) -> Lines {
        Lines(vec![0.0; 2 * self.face_len(axis)])
    }

    /// Upwards: what is left of the matrix, and of the right-hand side, goes from point to point.
    pub(super) fn eliminate(&mut self, axis: usize, lines: &mut Lines) {
        for along in 1..=self.len(axis) {
            for (at, line) in self.across(axis, along).into_iter().zip(lines.0.chunks_exact_mut(2)) {
                let pivot = 1.0 + 2.0 * FLOW + FLOW * line[0];
                line[0] = -FLOW / pivot;
                line[1] = (self.change[at] + FLOW * line[1]) / pivot;
                self.factors[at] = line[0];
                self.change[at] = line[1];
            }
        }
    }

    /// Downwards: each point takes in the one above it.
    pub(super) fn put_in(&mut self, axis: usize, lines: &mut Lines) {
        for along in (1..=self.len(axis)).rev() {
            for (at, line) in self.across(axis, along).into_iter().zip(lines.0.chunks_exact_mut(2)) {
                self.change[at] -= self.factors[at] * line[0];
                line[0] = self.change[at];
            }
        }
    }
}
