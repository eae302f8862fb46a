//! One level of the grid: this process's box of points with a border of one, who has the neighbouring points, and what is
//! computed on it.
use super::Processes;
use mpi::{Any, Communicator};

/// A level. A process may have no point of it; the border is there all the same, since the finer level may need it.
pub(super) struct Level {
    number: usize,
    /// Points of an edge of the whole level.
    pub(super) edge: usize,
    /// Places of this process along each axis.
    axes: [Axis; 3],
    /// What is looked for.
    pub(super) solution: Vec<f64>,
    /// What the operator should make of it.
    pub(super) wanted: Vec<f64>,
    /// What it lacks.
    pub(super) rest: Vec<f64>,
}

/// A process's part of an axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// The first point.
    first: usize,
    /// Points: with fewer than processes, none or one.
    len: usize,
    /// How far processes that have points are apart.
    stride: usize,
    /// The same on the finer level.
    finer_stride: usize,
    /// Which process it is.
    at: usize,
    /// Of how many.
    of: usize,
}

/// Who gets the values of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Who has points of the level.
    Own,
    /// And who has points of the finer one.
    Finer,
}

/// Which way a face goes.
#[derive(Clone, Copy, Debug)]
enum Way {
    Up = 0,
    Down = 1,
}

impl Axis {
    fn new(at: usize, of: usize, edge: usize) -> Self {
        let first = (at * edge).div_ceil(of);
        let len = ((at + 1) * edge).div_ceil(of) - first;
        let stride = |edge: usize| (of / edge).max(1);
        Axis { first, len, stride: stride(edge), finer_stride: stride(2 * edge), at, of }
    }

    fn has_points(&self) -> bool {
        self.at.is_multiple_of(self.stride)
    }

    fn takes_part(&self, reach: Reach) -> bool {
        match reach {
            Reach::Own => self.has_points(),
            Reach::Finer => self.at.is_multiple_of(self.finer_stride),
        }
    }
}

impl Level {
    pub(super) fn new(processes: &Processes, number: usize, edge: usize) -> Self {
        let axes = [0, 1, 2].map(|axis| Axis::new(processes.at[axis], processes.dims[axis], edge));
        let points = axes.iter().map(|axis| axis.len + 2).product();
        let none = || vec![0.0; points];
        Level { number, edge, axes, solution: none(), wanted: none(), rest: none() }
    }

    /// Counted with the border.
    fn index(&self, [x, y, z]: [usize; 3]) -> usize {
        (z * (self.axes[1].len + 2) + y) * (self.axes[0].len + 2) + x
    }

    /// All points of this process, counted with the border.
    fn points(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let [x, y, z] = self.axes.map(|axis| axis.len);
        (1..=z).flat_map(move |z| (1..=y).flat_map(move |y| (1..=x).map(move |x| [x, y, z])))
    }

    /// All points of this process: where they are here, and their number in the whole level.
    pub(super) fn inner(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.points().map(|point| {
            let [x, y, z] = [0, 1, 2].map(|axis| self.axes[axis].first + point[axis] - 1);
            (self.index(point), (z * self.edge + y) * self.edge + x)
        })
    }

    /// Distances to the next point along each axis.
    fn steps(&self) -> [usize; 3] {
        [self.index([1, 0, 0]), self.index([0, 1, 0]), self.index([0, 0, 1])]
    }

    pub(super) fn compute_rest(&mut self, processes: &Processes) -> mpi::Result<()> {
        self.exchange(processes, Reach::Own, |level| &mut level.solution)?;
        let [x, y, z] = self.steps();
        for point in self.points() {
            let at = self.index(point);
            let around: f64 =
                [at - z, at - y, at - x, at + x, at + y, at + z].map(|at| self.solution[at]).iter().sum();
            self.rest[at] = self.wanted[at] - (6.0 * self.solution[at] - around);
        }
        Ok(())
    }

    pub(super) fn relax(&mut self, by: f64) {
        for point in self.points() {
            let at = self.index(point);
            self.solution[at] += by * self.rest[at];
        }
    }

    /// Takes over the rest of the finer level, each point with a share of those around it; the solution begins with 0.
    pub(super) fn restrict(&mut self, fine: &Level) {
        self.solution.fill(0.0);
        let steps = fine.steps();
        for point in self.points() {
            // A point is where every second one of the finer level is.
            let here = [0, 1, 2]
                .map(|axis| 2 * (self.axes[axis].first + point[axis] - 1) + 1 - fine.axes[axis].first);
            let at = fine.index(here);
            let mut sum = 0.0;
            for (z, y, x) in cube() {
                let weight = [x, y, z].iter().map(|far| if *far == 1 { 0.5 } else { 0.25 }).product::<f64>();
                sum += weight
                    * fine.rest
                        [at + z * steps[2] + y * steps[1] + x * steps[0] - steps.iter().sum::<usize>()];
            }
            let own = self.index(point);
            self.wanted[own] = 4.0 * sum; // points are twice as far apart
        }
    }

    /// Adds the solution of the coarser level, between its points the mean of those around.
    pub(super) fn add_interpolated(&mut self, coarse: &Level) {
        for point in self.points() {
            let number = [0, 1, 2].map(|axis| self.axes[axis].first + point[axis] - 1);
            // The point of the coarser level at or below it, counted with the border.
            let low = [0, 1, 2].map(|axis| number[axis] / 2 + 1 - coarse.axes[axis].first);
            let high = [0, 1, 2].map(|axis| low[axis] + number[axis] % 2);
            let mut sum = 0.0;
            for z in [low[2], high[2]] {
                for y in [low[1], high[1]] {
                    sum += coarse.solution[coarse.index([low[0], y, z])];
                    sum += coarse.solution[coarse.index([high[0], y, z])];
                }
            }
            let at = self.index(point);
            self.solution[at] += sum / 8.0;
        }
    }

    /// Fills the border: along one axis after the other, faces with the border that is filled already.
    pub(super) fn exchange(
        &mut self,
        processes: &Processes,
        reach: Reach,
        of: fn(&mut Level) -> &mut Vec<f64>,
    ) -> mpi::Result<()> {
        for axis in 0..3 {
            // Along axes that are done, who is reached has values too.
            let done = self.axes[..axis].iter().all(|axis| axis.takes_part(reach));
            let ahead = self.axes[axis + 1..].iter().all(Axis::has_points);
            if done && ahead && self.axes[axis].takes_part(reach) {
                self.exchange_along(processes, axis, reach, of)?;
            }
        }
        Ok(())
    }

    fn exchange_along(
        &mut self,
        processes: &Processes,
        axis: usize,
        reach: Reach,
        of: fn(&mut Level) -> &mut Vec<f64>,
    ) -> mpi::Result<()> {
        let Axis { len, of: count, .. } = self.axes[axis];
        let [bottom, first, last, top] = [0, 1, len, len + 1].map(|at| self.face(axis, at));
        let values = of(self);
        let take = |face: &[usize]| -> Vec<f64> { face.iter().map(|at| values[*at]).collect() };
        let (up, down) = (take(&last), take(&first));
        let (from_below, from_above) =
            if count == 1 { (up, down) } else { self.swap(processes, axis, reach, &up, &down)? };
        let values = of(self);
        bottom.iter().zip(&from_below).for_each(|(at, value)| values[*at] = *value);
        top.iter().zip(&from_above).for_each(|(at, value)| values[*at] = *value);
        Ok(())
    }

    /// Sends faces up and down, if this process has them, to all who need them; gives those from below and from above.
    fn swap(
        &self,
        processes: &Processes,
        axis: usize,
        reach: Reach,
        up: &[f64],
        down: &[f64],
    ) -> mpi::Result<(Vec<f64>, Vec<f64>)> {
        let Axis { stride, finer_stride, .. } = self.axes[axis];
        let comm: &Communicator = processes.comm;
        let (mut below, mut above) = (vec![0.0; up.len()], vec![0.0; down.len()]);
        let far = (stride as isize, finer_stride as isize);
        comm.scope(|s| {
            s.irecv(&mut below, Any, self.tag(axis, Way::Up))?;
            s.irecv(&mut above, Any, self.tag(axis, Way::Down))?;
            let between = (reach == Reach::Finer && far.1 < far.0).then_some(far.1);
            let sent = if self.axes[axis].has_points() { [Some(far.0), between] } else { [None; 2] };
            for distance in sent.into_iter().flatten() {
                s.isend(up, processes.along(axis, distance), self.tag(axis, Way::Up))?;
                s.isend(down, processes.along(axis, -distance), self.tag(axis, Way::Down))?;
            }
            Ok(())
        })?;
        Ok((below, above))
    }

    /// One sender has messages of a tag for a process: the order of rounds is kept, whoever it is received from.
    fn tag(&self, axis: usize, way: Way) -> i32 {
        (self.number * 6 + axis * 2 + way as usize) as i32
    }

    /// The places of a face, counted with the border of the other axes.
    fn face(&self, axis: usize, at: usize) -> Vec<usize> {
        let range = |of: usize| if of == axis { at..at + 1 } else { 0..self.axes[of].len + 2 };
        let (xs, ys, zs) = (range(0), range(1), range(2));
        let mut places = Vec::with_capacity(xs.len() * ys.len() * zs.len());
        for z in zs {
            for y in ys.clone() {
                places.extend(xs.clone().map(|x| self.index([x, y, z])));
            }
        }
        places
    }
}

/// A point and those around it, from the lowest on.
fn cube() -> impl Iterator<Item = (usize, usize, usize)> {
    (0..3).flat_map(|z| (0..3).flat_map(move |y| (0..3).map(move |x| (z, y, x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_belong_to_processes_that_are_far_apart() {
        let axis = |at, edge| Axis::new(at, 4, edge);
        assert_eq!(
            [0, 1, 2, 3].map(|at| (axis(at, 8).first, axis(at, 8).len)),
            [(0, 2), (2, 2), (4, 2), (6, 2)]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|at| (axis(at, 2).first, axis(at, 2).len)),
            [(0, 1), (1, 0), (1, 1), (2, 0)]
        );
        assert_eq!((axis(0, 2).stride, axis(0, 2).finer_stride, axis(0, 8).stride), (2, 1, 1));
    }
}
