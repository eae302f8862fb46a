//! Topologies of communicators, and the Cartesian one. Graphs are in [`super::graph`].
use super::graph::{Distributed, Graph};
use super::*;
use crate::error::{ErrorClass, Result, fail};
use proto::dims::balanced;
use std::rc::Rc;

/// What the processes of a communicator are to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cart(Cart),
    /// A graph that every process knows.
    Graph(Graph),
    /// A graph of which a process knows its own edges.
    Distributed(Distributed),
}

/// Whom a process receives from and sends to in a neighborhood collective, in the order of its blocks. `None` is the
/// null process: its block stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighborhood {
    /// Those who send to it.
    pub sources: Vec<Option<u32>>,
    /// Those to whom it sends.
    pub dests: Vec<Option<u32>>,
    /// Do the two neighbors of a dimension change places between a sender and its receiver? What goes down a dimension
    /// comes from above, also where both neighbors are the same process.
    pub(super) paired: bool,
}

impl Neighborhood {
    fn of_graph(sources: &[i32], dests: &[i32]) -> Self {
        let ranks = |list: &[i32]| list.iter().map(|rank| Some(*rank as u32)).collect();
        Neighborhood { sources: ranks(sources), dests: ranks(dests), paired: false }
    }

    /// The places of the sources in the order in which their messages are expected.
    pub(super) fn expected(&self) -> impl Iterator<Item = usize> {
        let flip = usize::from(self.paired);
        (0..self.sources.len()).map(move |place| place ^ flip)
    }
}

/// A Cartesian grid of processes; the last dimension runs fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Processes in each dimension.
    pub dims: Vec<i32>,
    /// Does the dimension wrap around?
    pub periods: Vec<bool>,
    /// This process's place.
    pub coords: Vec<i32>,
}

impl Cart {
    fn new(dims: &[i32], periods: &[bool], rank: u32) -> Self {
        Cart { dims: dims.to_vec(), periods: periods.to_vec(), coords: coords_of(dims, rank) }
    }

    /// The neighbors in each dimension, the lower one first.
    fn neighbors(&self) -> Vec<Option<u32>> {
        let dims = 0..self.dims.len();
        dims.flat_map(|dimension| [self.shifted(dimension, -1), self.shifted(dimension, 1)]).collect()
    }

    /// The rank at a distance in one dimension.
    fn shifted(&self, dimension: usize, by: i32) -> Option<u32> {
        let by = |d: usize| if d == dimension { i64::from(by) } else { 0 };
        self.rank(self.coords.iter().enumerate().map(|(d, at)| i64::from(*at) + by(d)))
    }

    /// The rank at `coords`, wrapped where periodic; `None` outside the grid.
    fn rank(&self, coords: impl Iterator<Item = i64>) -> Option<u32> {
        let mut rank = 0i64;
        for ((&size, &wraps), at) in self.dims.iter().zip(&self.periods).zip(coords) {
            let size = i64::from(size);
            let at = if wraps { at.rem_euclid(size) } else { at };
            if !(0..size).contains(&at) {
                return None;
            }
            rank = rank * size + at;
        }
        Some(rank as u32)
    }
}

impl Mpi {
    /// Collective: a communicator with a grid; none for processes beyond it.
    pub fn start_cart(&mut self, comm: CommId, dims: &[i32], periods: &[bool]) -> Result<Made> {
        self.one_group(comm, "a grid")?;
        let (rank, size) = (self.comm_rank(comm)?, self.comm_size(comm)?);
        if dims.len() != periods.len() {
            return fail(ErrorClass::Arg, format!("{} dimensions, {} periods", dims.len(), periods.len()));
        }
        let cells =
            dims.iter().try_fold(1i64, |cells, &dim| (dim > 0).then(|| cells.saturating_mul(dim.into())));
        let Some(cells) = cells else { return fail(ErrorClass::Dims, format!("dimensions {dims:?}")) };
        if cells > i64::from(size) {
            return fail(ErrorClass::Dims, format!("a grid of {cells} in a communicator of {size}"));
        }
        self.start_first(comm, cells as u32, Topology::Cart(Cart::new(dims, periods, rank)))
    }

    /// The topology of a communicator; `None` if it has none.
    pub fn topology(&self, comm: CommId) -> Result<Option<&Topology>> {
        Ok(self.comm(comm)?.topology.as_deref())
    }

    /// This process's neighbors.
    pub fn neighborhood(&self, comm: CommId) -> Result<Neighborhood> {
        Ok(match self.topology(comm)? {
            Some(Topology::Cart(cart)) => {
                let both = cart.neighbors();
                Neighborhood { sources: both.clone(), dests: both, paired: true }
            }
            Some(Topology::Graph(graph)) => {
                let both = graph.neighbors(self.comm_rank(comm)? as i32)?;
                Neighborhood::of_graph(both, both)
            }
            Some(Topology::Distributed(edges)) => Neighborhood::of_graph(&edges.sources, &edges.dests),
            None => return fail(ErrorClass::Topology, "the communicator has no topology"),
        })
    }

    /// The grid of a communicator; `None` if it has none.
    pub fn cart(&self, comm: CommId) -> Result<Option<&Cart>> {
        Ok(match self.topology(comm)? {
            Some(Topology::Cart(cart)) => Some(cart),
            _ => None,
        })
    }

    fn grid(&self, comm: CommId) -> Result<&Cart> {
        match self.cart(comm)? {
            Some(cart) => Ok(cart),
            None => fail(ErrorClass::Topology, "the communicator has no grid"),
        }
    }

    /// The rank at `coords` (wrapped where periodic).
    pub fn cart_rank(&self, comm: CommId, coords: &[i32]) -> Result<u32> {
        let cart = self.grid(comm)?;
        if coords.len() < cart.dims.len() {
            return fail(
                ErrorClass::Arg,
                format!("{} coordinates in {} dimensions", coords.len(), cart.dims.len()),
            );
        }
        match cart.rank(coords.iter().map(|at| i64::from(*at))) {
            Some(rank) => Ok(rank),
            None => fail(ErrorClass::Arg, format!("{coords:?} is outside the grid {:?}", cart.dims)),
        }
    }

    /// The coordinates of a rank.
    pub fn cart_coords(&self, comm: CommId, rank: i32) -> Result<Vec<i32>> {
        let cart = self.grid(comm)?;
        let size = self.comm_size(comm)?;
        match u32::try_from(rank) {
            Ok(rank) if rank < size => Ok(coords_of(&cart.dims, rank)),
            _ => fail(ErrorClass::Rank, format!("rank {rank} in a grid of {size}")),
        }
    }

    /// (source, destination) of a shift.
    pub fn cart_shift(&self, comm: CommId, dimension: i32, displacement: i32) -> Result<(Peer, Peer)> {
        let cart = self.grid(comm)?;
        let Some(dimension) = usize::try_from(dimension).ok().filter(|d| *d < cart.dims.len()) else {
            return fail(ErrorClass::Dims, format!("dimension {dimension} of {}", cart.dims.len()));
        };
        let at = |by: i32| cart.shifted(dimension, by).map_or(Peer::Null, |rank| Peer::Rank(rank as i32));
        Ok((at(displacement.wrapping_neg()), at(displacement)))
    }

    /// Collective: the sub-grids that keep the given dimensions.
    pub fn start_cart_sub(&mut self, comm: CommId, keep: &[bool]) -> Result<Made> {
        let cart = self.grid(comm)?.clone();
        if keep.len() < cart.dims.len() {
            return fail(ErrorClass::Arg, format!("{} flags for {} dimensions", keep.len(), cart.dims.len()));
        }
        let pick = |kept: bool| {
            let chosen = (0..cart.dims.len()).filter(move |d| keep[*d] == kept);
            let (mut rank, mut dims, mut periods) = (0, Vec::new(), Vec::new());
            for d in chosen {
                rank = rank * cart.dims[d] + cart.coords[d];
                dims.push(cart.dims[d]);
                periods.push(cart.periods[d]);
            }
            (rank, dims, periods)
        };
        let ((color, ..), (key, dims, periods)) = (pick(false), pick(true));
        let made = self.start_split(comm, Some(color), key)?;
        if let Some(new) = made.comm {
            // Keys are ranks in the sub-grid, from 0 on without a gap.
            let cart = Cart::new(&dims, &periods, key as u32);
            self.comm_mut(new)?.topology = Some(Rc::new(Topology::Cart(cart)));
        }
        Ok(made)
    }

    /// Fills the zeros of `dims` with a balanced factorisation of `nodes`, largest first.
    pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
        let fixed = dims.iter().filter(|dim| **dim > 0).try_fold(1i32, |all, dim| all.checked_mul(*dim));
        let fixed = fixed.unwrap_or(i32::MAX); // more than there are in any case
        let wrong = nodes < 1 || dims.iter().any(|dim| *dim < 0) || nodes % fixed != 0;
        let free = dims.iter().filter(|dim| **dim == 0).count();
        let rest = if wrong { 0 } else { nodes / fixed };
        if wrong || (free == 0 && rest != 1) {
            return fail(ErrorClass::Dims, format!("{nodes} processes in dimensions {dims:?}"));
        }
        let mut found = balanced(rest, free).into_iter();
        for dim in dims.iter_mut().filter(|dim| **dim == 0) {
            *dim = found.next().unwrap_or(1);
        }
        Ok(())
    }
}

fn coords_of(dims: &[i32], rank: u32) -> Vec<i32> {
    let mut rest = rank as i32;
    let mut coords = vec![0; dims.len()];
    for (at, dim) in coords.iter_mut().zip(dims).rev() {
        (*at, rest) = (rest % dim, rest / dim);
    }
    coords
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_balanced_and_fixed_ones_stay() {
        for (nodes, mut dims, expected) in [
            (6, vec![0, 0], vec![3, 2]),
            (7, vec![0, 0], vec![7, 1]),
            (16, vec![0, 0, 0], vec![4, 2, 2]),
            (6, vec![0, 3, 0], vec![2, 3, 1]),
            (12, vec![0, 0], vec![4, 3]),
            (1, vec![0, 0], vec![1, 1]),
            (60, vec![0, 0, 0], vec![5, 4, 3]),
            (5040, vec![0, 0, 0], vec![21, 16, 15]), // not 20, 18, 14, which differ as much
            (5616, vec![0, 0, 0, 0], vec![13, 9, 8, 6]), // not 13, 12, 6, 6
            (98_784, vec![0; 5], vec![14, 14, 9, 8, 7]),
        ] {
            Mpi::dims_create(nodes, &mut dims).unwrap();
            assert_eq!(dims, expected, "{nodes}");
        }
        for (nodes, parts) in
            [(1 << 30, 15), (2_095_133_040, 12), (i32::MAX, 3), (963_761_198, 20), (1 << 30, 30)]
        {
            let mut dims = vec![0; parts];
            Mpi::dims_create(nodes, &mut dims).unwrap();
            assert_eq!(dims.iter().map(|dim| i64::from(*dim)).product::<i64>(), nodes.into());
            assert!(dims.is_sorted_by(|a, b| a >= b));
        }
        assert!(Mpi::dims_create(7, &mut [0, 3, 0]).is_err());
        assert!(Mpi::dims_create(7, &mut [3, 2]).is_err());
    }

    #[test]
    fn ranks_and_coordinates_undo_each_other() {
        let cart = Cart::new(&[2, 3, 4], &[true, false, true], 0);
        for rank in 0..24 {
            assert_eq!(cart.rank(coords_of(&cart.dims, rank).into_iter().map(i64::from)), Some(rank));
        }
        assert_eq!(cart.rank([-1, 1, 5].into_iter()), cart.rank([1, 1, 1].into_iter().map(i64::from)));
        assert_eq!(cart.rank([0, 3, 0].into_iter().map(i64::from)), None);
    }
}
