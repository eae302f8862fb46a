//! Which process holds which part of an array: blocks of a grid of processes.
//!
//! Each dimension is cut at some indices; the cuts of all dimensions make a grid of blocks, and the process of that number
//! (the last dimension fastest) holds the block. Processes beyond the grid hold nothing. It is arithmetic only: whoever
//! has made the same distribution knows where everything is.
use super::patch::Patch;

/// Why there can be no such distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// An array has 1 to 7 dimensions.
    Dimensions(usize),
    /// A dimension has no index.
    Empty {
        /// Which one.
        dimension: usize,
    },
    /// There are more elements than numbers for them.
    TooLarge,
    /// Where blocks begin must start with 0, rise, and stay inside the dimension.
    Starts {
        /// Which one.
        dimension: usize,
    },
    /// Ghosts around a block need more memory than there can be.
    Ghosts {
        /// In which dimension.
        dimension: usize,
        /// So many on either side.
        width: usize,
    },
    /// The grid has more blocks than there are processes.
    Processes {
        /// Blocks.
        blocks: usize,
        /// Processes.
        ranks: usize,
    },
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ShapeError::Dimensions(count) => {
                write!(f, "an array has 1 to {DIMS_MAX} dimensions, not {count}")
            }
            ShapeError::Empty { dimension } => write!(f, "dimension {dimension} of the array has no index"),
            ShapeError::TooLarge => f.write_str("the array has more elements than fit into memory"),
            ShapeError::Starts { dimension } => write!(
                f,
                "blocks of dimension {dimension} must begin at 0 and at rising indices inside of it"
            ),
            ShapeError::Ghosts { dimension, width } => {
                write!(f, "{width} ghosts on either side of dimension {dimension} do not fit into memory")
            }
            ShapeError::Processes { blocks, ranks } => {
                write!(f, "{blocks} blocks are more than {ranks} processes")
            }
        }
    }
}

impl std::error::Error for ShapeError {}

/// Most dimensions of an array.
pub const DIMS_MAX: usize = 7;

/// Which process holds which block.
///
/// ```
/// use pgas::ga::{Distribution, Patch};
/// let blocks = Distribution::blocks([100, 100], [1, 1], 6)?;
/// assert_eq!(blocks.grid(), [2, 3]);
/// assert_eq!(blocks.owner([60, 10]), Some(3));
/// assert_eq!(blocks.patch(3), Patch::from([50..100, 0..33]));
/// let parts: Vec<_> = blocks.owners(&Patch::from([45..55, 0..10])).collect();
/// assert_eq!(parts, [(0, Patch::from([45..50, 0..10])), (3, Patch::from([50..55, 0..10]))]);
/// # Ok::<(), pgas::ga::ShapeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution<const N: usize> {
    dims: [usize; N],
    /// Where the blocks of each dimension begin, and where the last one ends.
    cuts: [Vec<usize>; N],
    ranks: usize,
}

impl<const N: usize> Distribution<N> {
    /// Blocks of nearly equal size, none smaller than `chunk` where a dimension has as many indices, for as many of the
    /// processes as possible. Of the grids with as many blocks it is the one whose blocks have the least surface.
    pub fn blocks(dims: [usize; N], chunk: [usize; N], ranks: usize) -> Result<Self, ShapeError> {
        check(dims)?;
        let most = std::array::from_fn(|d| (dims[d] / chunk[d].max(1)).max(1));
        Self::with_grid(dims, best_grid(dims, most, ranks.max(1)), ranks)
    }

    /// Blocks of nearly equal size on this grid of processes.
    pub fn with_grid(dims: [usize; N], grid: [usize; N], ranks: usize) -> Result<Self, ShapeError> {
        check(dims)?;
        let cut = |d: usize| {
            let parts = grid[d].clamp(1, dims[d]);
            (0..=parts).map(|part| (dims[d] as u128 * part as u128 / parts as u128) as usize).collect()
        };
        Self::of_cuts(dims, std::array::from_fn(cut), ranks)
    }

    /// Blocks that begin at these indices of each dimension, the first at 0.
    pub fn irregular(dims: [usize; N], starts: [&[usize]; N], ranks: usize) -> Result<Self, ShapeError> {
        check(dims)?;
        for (dimension, starts) in starts.iter().enumerate() {
            let rising = starts.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = starts.last().is_some_and(|last| *last < dims[dimension]);
            if starts.first() != Some(&0) || !rising || !inside {
                return Err(ShapeError::Starts { dimension });
            }
        }
        let cuts = std::array::from_fn(|d| starts[d].iter().copied().chain([dims[d]]).collect());
        Self::of_cuts(dims, cuts, ranks)
    }

    fn of_cuts(dims: [usize; N], cuts: [Vec<usize>; N], ranks: usize) -> Result<Self, ShapeError> {
        let made = Distribution { dims, cuts, ranks };
        let product = |all: Option<usize>, parts: usize| all?.checked_mul(parts);
        let blocks = made.grid().into_iter().fold(Some(1), product).unwrap_or(usize::MAX);
        if blocks > ranks { Err(ShapeError::Processes { blocks, ranks }) } else { Ok(made) }
    }

    /// Indices in each dimension.
    pub fn dims(&self) -> [usize; N] {
        self.dims
    }

    /// Processes, with those that hold nothing.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Blocks in each dimension.
    pub fn grid(&self) -> [usize; N] {
        std::array::from_fn(|d| self.cuts[d].len() - 1)
    }

    /// Where the blocks of a dimension begin.
    pub fn starts(&self, dimension: usize) -> &[usize] {
        let cuts = &self.cuts[dimension];
        &cuts[..cuts.len() - 1]
    }

    /// Indices of the longest block in each dimension.
    pub(crate) fn extents_max(&self) -> [usize; N] {
        let longest = |cuts: &Vec<usize>| cuts.windows(2).map(|pair| pair[1] - pair[0]).max();
        self.cuts.each_ref().map(|cuts| longest(cuts).unwrap_or(0))
    }

    /// Where a process stands in the grid, if it holds a block.
    pub fn coordinates(&self, rank: usize) -> Option<[usize; N]> {
        let grid = Patch::whole(self.grid());
        let (extents, strides) = (grid.extents(), grid.strides());
        (rank < grid.volume()).then(|| std::array::from_fn(|d| rank / strides[d] % extents[d]))
    }

    /// The process at a place of the grid.
    pub fn rank_at(&self, coordinates: [usize; N]) -> Option<usize> {
        let grid = Patch::whole(self.grid());
        grid.contains(coordinates).then(|| grid.index(coordinates))
    }

    /// The block of a process; an empty one if it holds nothing.
    pub fn patch(&self, rank: usize) -> Patch<N> {
        let Some(at) = self.coordinates(rank) else { return Patch { lo: [0; N], hi: [0; N] } };
        Patch {
            lo: std::array::from_fn(|d| self.cuts[d][at[d]]),
            hi: std::array::from_fn(|d| self.cuts[d][at[d] + 1]),
        }
    }

    /// Who holds an element, unless it is outside.
    pub fn owner(&self, at: [usize; N]) -> Option<usize> {
        let inside = Patch::whole(self.dims).contains(at);
        inside.then(|| self.rank_at(std::array::from_fn(|d| self.block(d, at[d])))).flatten()
    }

    /// The block of an index that is inside the dimension.
    fn block(&self, dimension: usize, index: usize) -> usize {
        self.cuts[dimension].partition_point(|start| *start <= index) - 1
    }

    /// Who holds which parts of a patch, in the order of processes. What is outside of the array is left out.
    pub fn owners(&self, patch: &Patch<N>) -> impl Iterator<Item = (usize, Patch<N>)> + use<'_, N> {
        let patch = patch.intersect(&Patch::whole(self.dims));
        let blocks = if patch.is_empty() {
            Patch { lo: [0; N], hi: [0; N] }
        } else {
            Patch {
                lo: std::array::from_fn(|d| self.block(d, patch.lo[d])),
                hi: std::array::from_fn(|d| self.block(d, patch.hi[d] - 1) + 1),
            }
        };
        let grid = Patch::whole(self.grid());
        blocks.points().map(move |at| {
            let rank = grid.index(at);
            (rank, self.patch(rank).intersect(&patch))
        })
    }
}

fn check<const N: usize>(dims: [usize; N]) -> Result<(), ShapeError> {
    if !(1..=DIMS_MAX).contains(&N) {
        return Err(ShapeError::Dimensions(N));
    }
    if let Some(dimension) = dims.iter().position(|dim| *dim == 0) {
        return Err(ShapeError::Empty { dimension });
    }
    let volume = dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
    match volume {
        Some(volume) if volume <= isize::MAX as usize => Ok(()),
        _ => Err(ShapeError::TooLarge),
    }
}

/// The grid with the most blocks, at most `ranks` of them and in no dimension more than `most`; of those with as many, the
/// one whose blocks have the least surface.
fn best_grid<const N: usize>(dims: [usize; N], most: [usize; N], ranks: usize) -> [usize; N] {
    let room = most.iter().try_fold(1_usize, |all, most| all.checked_mul(*most)).unwrap_or(usize::MAX);
    for blocks in (1..=ranks.min(room)).rev() {
        let mut search = Search { dims, most, grid: [1; N], best: None };
        search.place(0, blocks);
        if let Some((_, grid)) = search.best {
            return grid;
        }
    }
    [1; N]
}

struct Search<const N: usize> {
    dims: [usize; N],
    most: [usize; N],
    grid: [usize; N],
    best: Option<(f64, [usize; N])>,
}

impl<const N: usize> Search<N> {
    /// All ways to cut dimensions from this one on into so many blocks.
    fn place(&mut self, dimension: usize, blocks: usize) {
        if dimension == N - 1 {
            if blocks <= self.most[dimension] {
                self.grid[dimension] = blocks;
                self.judge();
            }
            return;
        }
        for parts in (1..=blocks.min(self.most[dimension])).filter(|parts| blocks.is_multiple_of(*parts)) {
            self.grid[dimension] = parts;
            self.place(dimension + 1, blocks / parts);
        }
    }

    /// Faces between blocks, as a part of all elements. Of equals, the first stays, which has the most blocks in the
    /// last dimensions: those are neighbours by their numbers, and often on one node.
    fn judge(&mut self) {
        let surface = (0..N).map(|d| (self.grid[d] - 1) as f64 / self.dims[d] as f64).sum();
        if self.best.is_none_or(|(least, _)| surface < least * (1.0 - 1e-12)) {
            self.best = Some((surface, self.grid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn grids_have_blocks_for_everybody_and_little_surface() {
        let grid = |dims, ranks| Distribution::blocks(dims, [1, 1], ranks).unwrap().grid();
        assert_eq!((grid([100, 100], 4), grid([100, 100], 16)), ([2, 2], [4, 4]));
        assert_eq!(grid([100, 100], 128), [8, 16]);
        assert_eq!(grid([1000, 10], 8), [8, 1]);
        assert_eq!(grid([100, 100], 7), [1, 7]);
        assert_eq!(grid([2, 2], 64), [2, 2]);
        assert_eq!(grid([3, 2], 5), [2, 2]);
        assert_eq!(Distribution::blocks([200, 200, 15], [1, 1, 15], 128).unwrap().grid(), [8, 16, 1]);
        assert_eq!(Distribution::blocks([10], [4], 64).unwrap().grid(), [2]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Distribution::blocks([3, 0], [1, 1], 4), Err(ShapeError::Empty { dimension: 1 }));
        assert_eq!(Distribution::blocks([usize::MAX, 2], [1, 1], 4), Err(ShapeError::TooLarge));
        assert_eq!(Distribution::blocks([1; 8], [1; 8], 4), Err(ShapeError::Dimensions(8)));
        assert_eq!(Distribution::blocks([], [], 4), Err(ShapeError::Dimensions(0)));
        for starts in [&[1, 2][..], &[0, 2, 2], &[0, 9], &[]] {
            let wrong = Distribution::irregular([9], [starts], 4);
            assert_eq!(wrong, Err(ShapeError::Starts { dimension: 0 }), "{starts:?}");
        }
        let many = Distribution::irregular([9, 9], [&[0, 1, 2], &[0, 3]], 5);
        assert_eq!(many, Err(ShapeError::Processes { blocks: 6, ranks: 5 }));
        assert!(many.unwrap_err().to_string().contains("6 blocks are more than 5 processes"));
    }

    #[test]
    fn a_large_job_gets_a_grid_in_no_time() {
        assert_eq!(
            Distribution::blocks([1 << 8; 7], [1; 7], 4096).unwrap().grid().iter().product::<usize>(),
            4096
        );
    }

    /// Regular and irregular ones.
    fn distribution() -> impl Strategy<Value = Distribution<3>> {
        let dims = [1_usize..9, 1_usize..9, 1_usize..9];
        let regular = (dims.clone(), [1_usize..4, 1_usize..4, 1_usize..4], 1_usize..40)
            .prop_map(|(dims, chunk, ranks)| Distribution::blocks(dims, chunk, ranks).unwrap());
        let cuts = proptest::collection::btree_set(1_usize..9, 0..4);
        let irregular = (dims, [cuts.clone(), cuts.clone(), cuts]).prop_map(|(dims, cuts)| {
            let starts: [Vec<usize>; 3] = std::array::from_fn(|d| {
                [0].into_iter().chain(cuts[d].iter().copied().filter(|cut| *cut < dims[d])).collect()
            });
            Distribution::irregular(dims, starts.each_ref().map(Vec::as_slice), 64).unwrap()
        });
        prop_oneof![regular, irregular]
    }

    proptest! {
        #[test]
        fn every_element_has_one_owner_whose_block_has_it(made in distribution()) {
            let all: usize = (0..made.ranks()).map(|rank| made.patch(rank).volume()).sum();
            prop_assert_eq!(all, Patch::whole(made.dims()).volume());
            for at in Patch::whole(made.dims()).points() {
                let owner = made.owner(at).unwrap();
                prop_assert!(made.patch(owner).contains(at));
                prop_assert_eq!(made.rank_at(made.coordinates(owner).unwrap()), Some(owner));
            }
            prop_assert_eq!(made.owner(made.dims()), None);
        }

        #[test]
        fn parts_of_a_patch_are_its_points_at_their_owners(
            made in distribution(),
            sides in [(0_usize..9, 0_usize..9), (0_usize..9, 0_usize..9), (0_usize..9, 0_usize..9)],
        ) {
            let patch = Patch::from(sides.map(|(lo, len)| lo..lo + len));
            let parts: Vec<_> = made.owners(&patch).collect();
            prop_assert!(parts.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(parts.iter().all(|(rank, part)| !part.is_empty() && made.patch(*rank).encloses(part)));
            let points: usize = parts.iter().map(|(_, part)| part.volume()).sum();
            prop_assert_eq!(points, patch.intersect(&Patch::whole(made.dims())).volume());
        }

        #[test]
        fn no_block_is_smaller_than_its_chunk(dims in [1_usize..40, 1_usize..40], chunk in [1_usize..9, 1_usize..9], ranks in 1_usize..40) {
            let made = Distribution::blocks(dims, chunk, ranks).unwrap();
            for rank in 0..made.grid().iter().product() {
                let extents = made.patch(rank).extents();
                prop_assert!((0..2).all(|d| extents[d] >= chunk[d].min(dims[d])), "{made:?}");
            }
        }
    }
}
