//! Cartesian topologies.
use super::*;
use crate::error::{ErrorClass, Result, fail};

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

    /// The rank at `coords`, wrapped where periodic; `None` outside the grid.
    fn rank(&self, coords: impl Iterator<Item = i32>) -> Option<u32> {
        let mut rank = 0i64;
        for ((&size, &wraps), at) in self.dims.iter().zip(&self.periods).zip(coords) {
            let at = if wraps { at.rem_euclid(size) } else { at };
            if !(0..size).contains(&at) {
                return None;
            }
            rank = rank * i64::from(size) + i64::from(at);
        }
        Some(rank as u32)
    }
}

impl Mpi {
    /// Collective: a communicator with a grid; none for processes beyond it.
    pub fn start_cart(&mut self, comm: CommId, dims: &[i32], periods: &[bool]) -> Result<Made> {
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
        let inside = i64::from(rank) < cells;
        let made = self.start_split(comm, inside.then_some(0), rank as i32)?;
        if let Some(new) = made.comm {
            self.comm_mut(new)?.cart = Some(Box::new(Cart::new(dims, periods, rank)));
        }
        Ok(made)
    }

    /// The grid of a communicator; `None` if it has none.
    pub fn cart(&self, comm: CommId) -> Result<Option<&Cart>> {
        Ok(self.comm(comm)?.cart.as_deref())
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
        match cart.rank(coords.iter().copied()) {
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
        let at = |by: i32| {
            let moved =
                cart.coords.iter().enumerate().map(|(d, at)| if d == dimension { at + by } else { *at });
            cart.rank(moved).map_or(Peer::Null, |rank| Peer::Rank(rank as i32))
        };
        Ok((at(-displacement), at(displacement)))
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
            self.comm_mut(new)?.cart = Some(Box::new(Cart::new(&dims, &periods, key as u32)));
        }
        Ok(made)
    }

    /// Fills the zeros of `dims` with a balanced factorisation of `nodes`, largest first.
    pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
        let fixed: i64 = dims.iter().filter(|dim| **dim > 0).map(|dim| i64::from(*dim)).product();
        let wrong = nodes < 1 || dims.iter().any(|dim| *dim < 0) || i64::from(nodes) % fixed != 0;
        let free = dims.iter().filter(|dim| **dim == 0).count();
        let rest = if wrong { 0 } else { i64::from(nodes) / fixed };
        if wrong || (free == 0 && rest != 1) {
            return fail(ErrorClass::Dims, format!("{nodes} processes in dimensions {dims:?}"));
        }
        let mut found = balanced(rest as i32, free).into_iter();
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

/// Cuts `number` into `parts` factors that are as close as possible, largest first: takes the factor nearest to
/// the root from above each time.
fn balanced(number: i32, parts: usize) -> Vec<i32> {
    let mut best: Option<Vec<i32>> = None;
    factorings(number, parts, number, &mut Vec::new(), &mut best);
    best.unwrap_or_default()
}

/// Tries factors in falling order; keeps the list with the smallest spread.
fn factorings(number: i32, parts: usize, limit: i32, chosen: &mut Vec<i32>, best: &mut Option<Vec<i32>>) {
    if parts == 0 {
        let spread = |list: &[i32]| list.first().unwrap_or(&1) - list.last().unwrap_or(&1);
        if number == 1 && best.as_ref().is_none_or(|old| spread(chosen) < spread(old)) {
            *best = Some(chosen.clone());
        }
        return;
    }
    let divisors = (1..=number).take_while(|d| i64::from(*d) * i64::from(*d) <= i64::from(number));
    let mut all: Vec<i32> = divisors.filter(|d| number % d == 0).flat_map(|d| [d, number / d]).collect();
    all.sort_unstable();
    all.dedup();
    for factor in all.into_iter().filter(|factor| *factor <= limit) {
        chosen.push(factor);
        factorings(number / factor, parts - 1, factor, chosen, best);
        chosen.pop();
    }
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
        ] {
            Mpi::dims_create(nodes, &mut dims).unwrap();
            assert_eq!(dims, expected, "{nodes}");
        }
        assert!(Mpi::dims_create(7, &mut [0, 3, 0]).is_err());
        assert!(Mpi::dims_create(7, &mut [3, 2]).is_err());
    }

    #[test]
    fn ranks_and_coordinates_undo_each_other() {
        let cart = Cart::new(&[2, 3, 4], &[true, false, true], 0);
        for rank in 0..24 {
            assert_eq!(cart.rank(coords_of(&cart.dims, rank).into_iter()), Some(rank));
        }
        assert_eq!(cart.rank([-1, 1, 5].into_iter()), cart.rank([1, 1, 1].into_iter()));
        assert_eq!(cart.rank([0, 3, 0].into_iter()), None);
    }
}
