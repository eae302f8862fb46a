//! Heat in a periodic box, by Fourier transforms in three dimensions. A process has slabs along z; for the transform in
//! that direction everybody sends a block to everybody, so that it has slabs along x.
//!
//! Some waves are set out. Each fades by itself, at a rate that its length gives: the closed solution must come out.
use crate::numbers::{mix, unit};
use crate::shared::{expect, share, sum};
use crate::{Checked, Job, Wrong};
use mpi::Communicator;
use std::f64::consts::TAU;

/// How fast waves fade.
const ALPHA: f64 = 1e-3;
/// Steps of time.
const STEPS: usize = 3;
/// Waves: their numbers in x, y and z, and how high they are.
const WAVES: [([i64; 3], f64); 3] = [([1, 2, 3], 1.0), ([-5, 0, 4], 0.5), ([7, -6, 1], 0.25)];
/// What rounding may make of numbers of about 1.
const CLOSE: f64 = 1e-10;
const SIZE_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn times(self, that: Complex) -> Complex {
        Complex { re: self.re * that.re - self.im * that.im, im: self.re * that.im + self.im * that.re }
    }

    fn scaled(self, by: f64) -> Complex {
        Complex { re: self.re * by, im: self.im * by }
    }

    fn distance_squared(self, that: Complex) -> f64 {
        (self.re - that.re).powi(2) + (self.im - that.im).powi(2)
    }
}

/// Runs the kernel.
pub fn run(job: &Job, size: usize) -> Checked {
    let ranks = job.world.size();
    if !size.is_power_of_two() || !(16..=SIZE_MAX).contains(&size) || ranks > size {
        let what =
            format!("SIZE is a power of two from 16 to {SIZE_MAX}, and not less than the {ranks} processes");
        return Err(Wrong::Usage(what));
    }
    let cube = Cube::new(&job.world, size);
    let back = cube.there_and_back()?;
    expect(back < CLOSE, || format!("back and forth changes the input by {back:.1e}"))?;
    let apart = cube.fade()?;
    expect(apart < CLOSE, || format!("the solution differs by {apart:.1e}"))?;
    Ok(format!("{STEPS} steps differ from the closed solution by {apart:.1e}; back and forth by {back:.1e}"))
}

/// A cube of values, of which each process has slabs: along z of values, along x of their transform.
struct Cube<'a> {
    comm: &'a Communicator,
    /// Points of an edge.
    edge: usize,
    /// Slabs of this process.
    depth: usize,
    /// Roots of 1.
    roots: Vec<Complex>,
}

/// Which transform.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

impl<'a> Cube<'a> {
    fn new(comm: &'a Communicator, edge: usize) -> Self {
        let root = |k: usize| TAU * k as f64 / edge as f64;
        let roots = (0..edge / 2).map(|k| Complex { re: root(k).cos(), im: -root(k).sin() }).collect();
        Cube { comm, edge, depth: edge / comm.size(), roots }
    }

    /// By how much a random field differs after both transforms.
    fn there_and_back(&self) -> mpi::Result<f64> {
        let random = |z, y, x| {
            let place = (((z * self.edge) + y) * self.edge + x) as u64;
            Complex { re: unit(place), im: unit(mix(place)) }
        };
        let field = self.field(random);
        let back = self.back(self.forward(field.clone())?)?;
        self.apart(&field, &back)
    }

    /// By how much the faded waves differ from the closed solution, in all steps together.
    fn fade(&self) -> mpi::Result<f64> {
        let waves = |time: f64| {
            move |z: usize, y: usize, x: usize| {
                let one = |(number, height): ([i64; 3], f64)| {
                    let places = [x, y, z].map(|at| at as f64 / self.edge as f64);
                    let phase: f64 = number.iter().zip(places).map(|(k, at)| *k as f64 * at).sum();
                    height * faded(number, time) * (TAU * phase).cos()
                };
                Complex { re: WAVES.map(one).iter().sum(), im: 0.0 }
            }
        };
        let start = self.forward(self.field(waves(0.0)))?;
        let mut apart = 0.0;
        for step in 1..=STEPS {
            let values = self.back(self.after(&start, step as f64))?;
            apart += self.apart(&values, &self.field(waves(step as f64)))?;
        }
        Ok(apart)
    }

    /// This process's slabs of values.
    fn field(&self, value: impl Fn(usize, usize, usize) -> Complex) -> Vec<Complex> {
        let slabs = share(self.edge, self.comm.size(), self.comm.rank());
        let row = |z: usize, y: usize| {
            let value = &value;
            (0..self.edge).map(move |x| value(z, y, x))
        };
        slabs.flat_map(|z| (0..self.edge).map(move |y| (z, y))).flat_map(|(z, y)| row(z, y)).collect()
    }

    /// The transform after some time. Its slabs are along x, of which each has rows along z.
    fn after(&self, start: &[Complex], time: f64) -> Vec<Complex> {
        let edge = self.edge;
        let number = |k: usize| if k < edge / 2 { k as i64 } else { k as i64 - edge as i64 };
        let first = self.depth * self.comm.rank();
        let fade = |(at, value): (usize, &Complex)| {
            let (x, y, z) = (first + at / (edge * edge), at / edge % edge, at % edge);
            value.scaled(faded([number(x), number(y), number(z)], time))
        };
        start.iter().enumerate().map(fade).collect()
    }

    fn forward(&self, mut values: Vec<Complex>) -> mpi::Result<Vec<Complex>> {
        self.in_slabs(&mut values, Direction::Forward);
        let mut turned = self.turn(&values)?;
        turned.chunks_mut(self.edge).for_each(|row| self.transform(row, Direction::Forward));
        Ok(turned)
    }

    fn back(&self, mut turned: Vec<Complex>) -> mpi::Result<Vec<Complex>> {
        turned.chunks_mut(self.edge).for_each(|row| self.transform(row, Direction::Back));
        let mut values = self.turn(&turned)?;
        self.in_slabs(&mut values, Direction::Back);
        let scale = (self.edge as f64).powi(-3);
        values.iter_mut().for_each(|value| *value = value.scaled(scale));
        Ok(values)
    }

    /// Along x and y, which a slab along z has all of.
    fn in_slabs(&self, values: &mut [Complex], direction: Direction) {
        let edge = self.edge;
        let mut column = vec![Complex::default(); edge];
        for slab in values.chunks_mut(edge * edge) {
            slab.chunks_mut(edge).for_each(|row| self.transform(row, direction));
            for x in 0..edge {
                (0..edge).for_each(|y| column[y] = slab[y * edge + x]);
                self.transform(&mut column, direction);
                (0..edge).for_each(|y| slab[y * edge + x] = column[y]);
            }
        }
    }

    /// From slabs along z with rows along x to slabs along x with rows along z, or back: everybody has a block for
    /// everybody.
    fn turn(&self, from: &[Complex]) -> mpi::Result<Vec<Complex>> {
        let (edge, depth) = (self.edge, self.depth);
        let flat = |slab: usize, y: usize, along: usize| (slab * edge + y) * edge + along;
        let mut blocks = Vec::with_capacity(2 * from.len());
        for whose in 0..self.comm.size() {
            for (slab, y, along) in places(depth, edge) {
                let value = from[flat(slab, y, whose * depth + along)];
                blocks.extend([value.re, value.im]);
            }
        }
        let blocks = self.comm.alltoall(&blocks)?;
        let mut into = vec![Complex::default(); from.len()];
        let mut blocks = blocks.chunks_exact(2);
        for whose in 0..self.comm.size() {
            // What was along the row is the slab here, and the other way round.
            for (slab, y, along) in places(depth, edge) {
                let value = blocks.next().expect("as many as were sent");
                into[flat(along, y, whose * depth + slab)] = Complex { re: value[0], im: value[1] };
            }
        }
        Ok(into)
    }

    /// In place: by powers of two, the values in the order of reversed bits first.
    fn transform(&self, row: &mut [Complex], direction: Direction) {
        let len = row.len();
        let bits = len.trailing_zeros();
        for at in 0..len {
            let other = at.reverse_bits() >> (usize::BITS - bits);
            if at < other {
                row.swap(at, other);
            }
        }
        let mut half = 1;
        while half < len {
            let stride = len / (2 * half);
            for pair in row.chunks_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    self.butterfly(a, b, k * stride, direction);
                }
            }
            half *= 2;
        }
    }

    #[inline]
    fn butterfly(&self, a: &mut Complex, b: &mut Complex, root: usize, direction: Direction) {
        let Complex { re, im } = self.roots[root];
        let root = if direction == Direction::Forward { Complex { re, im } } else { Complex { re, im: -im } };
        let turned = b.times(root);
        *b = Complex { re: a.re - turned.re, im: a.im - turned.im };
        *a = Complex { re: a.re + turned.re, im: a.im + turned.im };
    }

    /// The root of the mean square of all differences: unlike the largest, it hides no NaN.
    fn apart(&self, these: &[Complex], those: &[Complex]) -> mpi::Result<f64> {
        let squares = these.iter().zip(those).map(|(a, b)| a.distance_squared(*b)).sum();
        Ok((sum(self.comm, squares)? / (self.edge as f64).powi(3)).sqrt())
    }
}

/// Slab, row and place in the row of a block's values, in the order in which they are sent.
fn places(depth: usize, edge: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..depth)
        .flat_map(move |slab| (0..edge).flat_map(move |y| (0..depth).map(move |along| (slab, y, along))))
}

/// What is left of a wave of these numbers after some time.
fn faded(number: [i64; 3], time: f64) -> f64 {
    (-ALPHA * time * number.iter().map(|k| (k * k) as f64).sum::<f64>()).exp()
}
