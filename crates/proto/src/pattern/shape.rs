//! Shapes: rules that say who the neighbours of a rank are in a job of any size.
//!
//! Every shape is symmetric: if `a` is a neighbour of `b`, then `b` is one of `a`. A connection has two ends, and whoever of
//! both comes first asks for it.
use crate::dims::balanced;
use alloc::vec::Vec;

/// Most dimensions of a grid.
pub const DIMS_MAX: usize = 4;
/// Most ranks of a job that patterns are kept for. Everything here fits 32 bits then.
pub const RANKS_MAX: u32 = 1 << 20;

/// Who is a neighbour of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Neighbours in a grid of two dimensions and more. (One dimension is a [`Shape::Stride`] of 1.)
    Grid(Grid),
    /// Ranks that differ by a number.
    Stride {
        /// The number.
        step: Step,
        /// What happens at the ends.
        ends: Ends,
    },
    /// Ranks that differ by any power of two, as in a dissemination.
    Powers(Ends),
    /// Ranks that differ in these bits.
    Xor(u32),
    /// Ranks that differ in one bit, as in recursive doubling.
    Doubling(Beyond),
    /// A tree.
    Tree {
        /// How it branches.
        branch: Branch,
        /// The rank at its top.
        root: u32,
    },
    /// One rank with everybody.
    Star {
        /// That rank.
        root: u32,
    },
    /// Everybody with everybody.
    All,
    /// What no rule explains: pairs of ranks, the lower first. They mean nothing in a job of another size.
    Pairs(Vec<(u32, u32)>),
}

/// A grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Its extents.
    pub dims: Dims,
    /// Which coordinate of consecutive ranks changes.
    pub order: Order,
    /// Who is near.
    pub near: Near,
    /// What happens at the ends of each dimension; the first of it for as many as there are.
    pub ends: [Ends; DIMS_MAX],
}

/// The extents of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dims {
    /// What `MPI_Dims_create` gives for so many dimensions in a job of any size.
    Created(usize),
    /// These, of so many dimensions, for jobs of exactly that size.
    Fixed([u32; DIMS_MAX], usize),
}

/// How ranks are numbered in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last coordinate changes first, as in MPI.
    Rows,
    /// The first coordinate changes first.
    Columns,
}

/// Who is near in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// Those at one step in one dimension.
    Faces,
    /// Those at one step in any number of dimensions.
    Corners,
}

/// What is behind the last and before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Nobody.
    Open,
    /// The other end.
    Wrap,
}

/// By what two ranks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many ranks.
    Ranks(u32),
    /// This part of the job.
    Part(u32),
}

/// Where recursive doubling leaves the ranks beyond the largest power of two. In jobs of such a size all are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// The first ranks pair up with their neighbours, and one of each pair takes part.
    Beside,
    /// Each of them reports to the rank that is so much lower.
    Behind,
    /// They take part where there is a partner.
    Among,
}

/// How a tree branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Multiples of `radix^(l + 1)` have the next multiples of `radix^l` below them; 2 is the binomial tree.
    Radix(u32),
    /// Rank `r` has `r * arity + 1` and so on below it.
    Arity(u32),
}

/// A shape in a job of one size. What is the same for all ranks is found once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'s> {
    shape: &'s Shape,
    size: u32,
    dims: Option<([u32; DIMS_MAX], usize)>,
}

impl<'s> Placed<'s> {
    pub(super) fn new(shape: &'s Shape, size: u32) -> Self {
        let dims = match shape {
            Shape::Grid(grid) => grid.dims.of(size),
            _ => None,
        };
        Placed { shape, size, dims }
    }

    /// As [`Shape::neighbours`].
    pub(super) fn neighbours(&self, rank: u32, into: &mut Vec<u32>) {
        match (self.shape, self.dims) {
            (Shape::Grid(grid), Some(dims)) => grid.neighbours(rank, dims, into),
            (Shape::Grid(_), None) => {}
            (shape, _) => shape.neighbours(rank, self.size, into),
        }
    }
}

impl Shape {
    /// Appends the neighbours of a rank in a job of this size; some may be named twice, and so may the rank itself.
    /// Nothing if the shape has no meaning at that size.
    pub fn neighbours(&self, rank: u32, size: u32, into: &mut Vec<u32>) {
        match self {
            Shape::Grid(_) => Placed::new(self, size).neighbours(rank, into),
            Shape::Stride { step, ends } => stride(rank, size, step.ranks(size), *ends, into),
            Shape::Powers(ends) => {
                powers(size).for_each(|step| stride(rank, size, step, *ends, into));
            }
            Shape::Xor(mask) => into.extend(Some(rank ^ mask).filter(|other| *other < size)),
            Shape::Doubling(beyond) => doubling(rank, size, *beyond, into),
            Shape::Tree { root, .. } | Shape::Star { root } if *root >= size => {}
            Shape::Tree { branch, root } => {
                let me = (rank + size - root) % size;
                let first = into.len();
                branch.neighbours(me, size, into);
                into[first..].iter_mut().for_each(|other| *other = (*other + root) % size);
            }
            Shape::Star { root } if *root == rank => into.extend(0..size),
            Shape::Star { root } => into.push(*root),
            Shape::All => into.extend((1..size).map(|step| (rank + step) % size)),
            Shape::Pairs(pairs) => into.extend(pairs.iter().filter_map(|pair| match pair {
                (low, high) if *low == rank => Some(*high),
                (low, high) if *high == rank => Some(*low),
                _ => None,
            })),
        }
    }
}

impl Dims {
    /// How many dimensions there are.
    pub fn count(self) -> usize {
        match self {
            Dims::Created(count) | Dims::Fixed(_, count) => count,
        }
    }

    /// The extents in a job of this size, and how many there are.
    pub fn of(self, size: u32) -> Option<([u32; DIMS_MAX], usize)> {
        match self {
            Dims::Created(count) => {
                let mut dims = [1; DIMS_MAX];
                let found = balanced(i32::try_from(size).ok()?, count);
                dims.iter_mut().zip(found).for_each(|(dim, extent)| *dim = extent as u32);
                Some((dims, count))
            }
            Dims::Fixed(dims, count) => {
                let product = dims[..count].iter().try_fold(1_u32, |all, dim| all.checked_mul(*dim));
                (product == Some(size)).then_some((dims, count))
            }
        }
    }
}

impl Grid {
    fn neighbours(&self, rank: u32, (dims, count): ([u32; DIMS_MAX], usize), into: &mut Vec<u32>) {
        let (strides, mut at) = (self.strides(dims, count), [0; DIMS_MAX]);
        for dim in 0..count {
            at[dim] = rank / strides[dim] % dims[dim];
        }
        // The coordinate after a step back (0), none (1) or ahead (2), if there is one.
        let moved = |dim: usize, step: u32| match (at[dim], step, self.ends[dim]) {
            (here, 1, _) => Some(here),
            (0, 0, Ends::Open) => None,
            (0, 0, Ends::Wrap) => Some(dims[dim] - 1),
            (here, 0, _) => Some(here - 1),
            (here, _, ends) if here + 1 == dims[dim] => (ends == Ends::Wrap).then_some(0),
            (here, _, _) => Some(here + 1),
        };
        let rank_of = |steps: [u32; DIMS_MAX]| {
            (0..count).try_fold(0, |rank, dim| Some(rank + moved(dim, steps[dim])? * strides[dim]))
        };
        match self.near {
            Near::Faces => (0..count).for_each(|dim| {
                for step in [0, 2] {
                    let mut steps = [1; DIMS_MAX];
                    steps[dim] = step;
                    into.extend(rank_of(steps));
                }
            }),
            Near::Corners => (0..3_u32.pow(count as u32)).for_each(|mut number| {
                let mut steps = [1; DIMS_MAX];
                for step in &mut steps[..count] {
                    (*step, number) = (number % 3, number / 3);
                }
                into.extend(rank_of(steps));
            }),
        }
    }

    /// By how much a rank changes with a step in each dimension.
    fn strides(&self, dims: [u32; DIMS_MAX], count: usize) -> [u32; DIMS_MAX] {
        let mut strides = [1; DIMS_MAX];
        let mut stride = 1;
        for place in 0..count {
            let dim = if self.order == Order::Rows { count - 1 - place } else { place };
            strides[dim] = stride;
            stride *= dims[dim];
        }
        strides
    }
}

impl Step {
    /// In a job of this size; 0 if there is no such step.
    pub fn ranks(self, size: u32) -> u32 {
        match self {
            Step::Ranks(ranks) => ranks,
            Step::Part(part) if size.is_multiple_of(part) => size / part,
            Step::Part(_) => 0,
        }
    }
}

impl Branch {
    /// Of a rank that is counted from the top: the one above, then those below.
    fn neighbours(self, me: u32, size: u32, into: &mut Vec<u32>) {
        match self {
            Branch::Arity(arity) => {
                into.extend((me > 0).then(|| (me - 1) / arity));
                let first = me.saturating_mul(arity).saturating_add(1);
                into.extend((first..first.saturating_add(arity)).take_while(|below| *below < size));
            }
            Branch::Radix(radix) => {
                // All up to here are its own: the one above is the multiple of the next power.
                let mut span = 1_u32;
                while span < size && me.is_multiple_of(span.saturating_mul(radix)) {
                    span = span.saturating_mul(radix);
                }
                into.extend((me > 0).then(|| me - me % span.saturating_mul(radix)));
                while span > 1 {
                    span /= radix;
                    let below = (1..radix).map(|child| me.saturating_add(child.saturating_mul(span)));
                    into.extend(below.take_while(|below| *below < size));
                }
            }
        }
    }
}

fn stride(rank: u32, size: u32, step: u32, ends: Ends, into: &mut Vec<u32>) {
    if step == 0 || step >= size {
        return;
    }
    match ends {
        Ends::Wrap => into.extend([(rank + size - step) % size, (rank + step) % size]),
        Ends::Open => {
            into.extend(rank.checked_sub(step));
            into.extend(Some(rank + step).filter(|other| *other < size));
        }
    }
}

/// Those below the size.
fn powers(size: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|bit| 1 << bit).take_while(move |power| *power < size)
}

fn doubling(rank: u32, size: u32, beyond: Beyond, into: &mut Vec<u32>) {
    let core = 1 << size.max(1).ilog2();
    let extra = size - core;
    match beyond {
        Beyond::Among => into.extend(powers(size).map(|bit| rank ^ bit).filter(|other| *other < size)),
        Beyond::Behind if rank >= core => into.push(rank - core),
        Beyond::Behind => {
            into.extend(powers(core).map(|bit| rank ^ bit));
            into.extend((rank < extra).then_some(rank + core));
        }
        Beyond::Beside if rank < 2 * extra && rank.is_multiple_of(2) => into.push(rank + 1),
        Beyond::Beside => {
            let number = if rank < 2 * extra { rank / 2 } else { rank - extra };
            into.extend((rank < 2 * extra).then(|| rank - 1));
            let rank_of = |number: u32| if number < extra { 2 * number + 1 } else { number + extra };
            into.extend(powers(core).map(|bit| rank_of(number ^ bit)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn of(shape: &Shape, rank: u32, size: u32) -> Vec<u32> {
        let mut found = Vec::new();
        shape.neighbours(rank, size, &mut found);
        found.retain(|other| *other != rank);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn grid(count: usize, near: Near, ends: Ends) -> Shape {
        let dims = Dims::Created(count);
        Shape::Grid(Grid { dims, order: Order::Rows, near, ends: [ends; DIMS_MAX] })
    }

    #[test]
    fn neighbours_are_those_of_the_textbooks() {
        // 8 ranks are 4 rows of 2 columns, 16 are 4 by 4.
        assert_eq!(of(&grid(2, Near::Faces, Ends::Open), 2, 8), [0, 3, 4]);
        assert_eq!(of(&grid(2, Near::Faces, Ends::Wrap), 0, 16), [1, 3, 4, 12]);
        assert_eq!(of(&grid(2, Near::Corners, Ends::Open), 0, 16), [1, 4, 5]);
        assert_eq!(of(&grid(3, Near::Corners, Ends::Wrap), 21, 64).len(), 26);
        let step = |step, ends| Shape::Stride { step, ends };
        assert_eq!(of(&step(Step::Ranks(3), Ends::Wrap), 1, 8), [4, 6]);
        assert_eq!(of(&step(Step::Ranks(3), Ends::Open), 1, 8), [4]);
        assert_eq!(of(&step(Step::Part(2), Ends::Open), 1, 8), [5]);
        assert_eq!(of(&step(Step::Part(2), Ends::Open), 1, 7), []);
        assert_eq!(of(&Shape::Powers(Ends::Wrap), 0, 8), [1, 2, 4, 6, 7]);
        assert_eq!(of(&Shape::Doubling(Beyond::Among), 5, 8), [1, 4, 7]);
        assert_eq!(of(&Shape::Doubling(Beyond::Behind), 9, 10), [1]);
        assert_eq!(of(&Shape::Doubling(Beyond::Beside), 2, 10), [3]);
        assert_eq!(of(&Shape::Doubling(Beyond::Beside), 3, 10), [1, 2, 5, 7]);
        assert_eq!(of(&Shape::Tree { branch: Branch::Radix(2), root: 0 }, 4, 8), [0, 5, 6]);
        assert_eq!(of(&Shape::Tree { branch: Branch::Arity(2), root: 0 }, 1, 8), [0, 3, 4]);
        assert_eq!(of(&Shape::Tree { branch: Branch::Radix(2), root: 3 }, 3, 8), [4, 5, 7]);
        assert_eq!(of(&Shape::Star { root: 2 }, 2, 4), [0, 1, 3]);
        assert_eq!(of(&Shape::Star { root: 9 }, 2, 4), []);
        assert_eq!(of(&Shape::Pairs(vec![(1, 5), (2, 3)]), 5, 8), [1]);
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let ends = || prop_oneof![Just(Ends::Open), Just(Ends::Wrap)];
        let near = prop_oneof![Just(Near::Faces), Just(Near::Corners)];
        let order = prop_oneof![Just(Order::Rows), Just(Order::Columns)];
        let all = [ends(), ends(), ends(), ends()];
        let grid = (2..=4_usize, order, near, all).prop_map(|(count, order, near, ends)| {
            Shape::Grid(Grid { dims: Dims::Created(count), order, near, ends })
        });
        let step = prop_oneof![(1..40_u32).prop_map(Step::Ranks), (2..9_u32).prop_map(Step::Part)];
        let branch = prop_oneof![(2..40_u32).prop_map(Branch::Radix), (1..9_u32).prop_map(Branch::Arity)];
        let beyond = prop_oneof![Just(Beyond::Beside), Just(Beyond::Behind), Just(Beyond::Among)];
        prop_oneof![
            grid,
            (step, ends()).prop_map(|(step, ends)| Shape::Stride { step, ends }),
            ends().prop_map(Shape::Powers),
            (1..64_u32).prop_map(Shape::Xor),
            beyond.prop_map(Shape::Doubling),
            (branch, 0..80_u32).prop_map(|(branch, root)| Shape::Tree { branch, root }),
            (0..80_u32).prop_map(|root| Shape::Star { root }),
            Just(Shape::All),
        ]
    }

    proptest! {
        #[test]
        fn neighbours_are_ranks_and_mutual(shape in shapes(), size in 1..70_u32) {
            for rank in 0..size {
                for other in of(&shape, rank, size) {
                    prop_assert!(other < size);
                    prop_assert!(of(&shape, other, size).contains(&rank), "{rank} and {other} of {size}");
                }
            }
        }
    }
}
