//! Global arrays: making them, and blocking access to patches, elements and the own block.
use super::block::Block;
use super::distribution::{Distribution, ShapeError};
use super::element::{Counter, Element};
use super::error::{GaError, Result, noted};
use super::levels::Levels;
use super::patch::{Patch, Section};
use crate::memory::Patch as Place;
use crate::{Armci, Memory};

/// What an array is to look like. [`create`](Layout::create) makes it.
///
/// ```no_run
/// use pgas::ga::Layout;
/// # fn example() -> Result<(), pgas::ga::GaError> {
/// # let armci = pgas::Armci::new(&mpi::init()?.world())?;
/// let field = Layout::new([200, 200, 15]).chunk([1, 1, 15]).ghosts([1, 1, 1]).create::<f64>(&armci)?;
/// let bands = Layout::irregular([100], [&[0, 10, 60]]).create::<i64>(&armci)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Layout<const N: usize> {
    dims: [usize; N],
    cuts: Cuts<N>,
    ghosts: [usize; N],
}

#[derive(Clone, Debug)]
enum Cuts<const N: usize> {
    Chunk([usize; N]),
    Grid([usize; N]),
    Starts([Vec<usize>; N]),
}

impl<const N: usize> Layout<N> {
    /// So many indices in each dimension, in blocks of nearly equal size.
    pub fn new(dims: [usize; N]) -> Self {
        Layout { dims, cuts: Cuts::Chunk([1; N]), ghosts: [0; N] }
    }

    /// No block is to be smaller than this.
    pub fn chunk(mut self, least: [usize; N]) -> Self {
        self.cuts = Cuts::Chunk(least);
        self
    }

    /// So many blocks in each dimension.
    pub fn grid(mut self, blocks: [usize; N]) -> Self {
        self.cuts = Cuts::Grid(blocks);
        self
    }

    /// Blocks that begin at these indices of each dimension.
    pub fn irregular(dims: [usize; N], starts: [&[usize]; N]) -> Self {
        Layout { dims, cuts: Cuts::Starts(starts.map(<[usize]>::to_vec)), ghosts: [0; N] }
    }

    /// Each block has room for so many indices of its neighbours on either side, see
    /// [`update_ghosts`](GlobalArray::update_ghosts).
    pub fn ghosts(mut self, width: [usize; N]) -> Self {
        self.ghosts = width;
        self
    }

    /// Who would hold what among so many processes.
    pub fn distribution(&self, ranks: usize) -> Result<Distribution<N>> {
        Ok(match &self.cuts {
            Cuts::Chunk(least) => Distribution::blocks(self.dims, *least, ranks),
            Cuts::Grid(blocks) => Distribution::with_grid(self.dims, *blocks, ranks),
            Cuts::Starts(starts) => {
                Distribution::irregular(self.dims, starts.each_ref().map(Vec::as_slice), ranks)
            }
        }?)
    }

    /// Collective: an array of zeros. Everybody gives the same layout.
    pub fn create<T: Element>(&self, armci: &Armci) -> Result<GlobalArray<T, N>> {
        let distribution = noted(armci, self.distribution(armci.size()))?;
        let shape = noted(armci, Shape::of(distribution, self.ghosts, size_of::<T>()))?;
        let memory = armci.malloc(shape.stored(armci.rank()).volume())?;
        Ok(GlobalArray { shape, memory, armci: armci.clone() })
    }
}

/// Where elements are, at each process.
#[derive(Clone, Debug)]
pub(crate) struct Shape<const N: usize> {
    pub(crate) distribution: Distribution<N>,
    pub(crate) ghosts: [usize; N],
}

impl<const N: usize> Shape<N> {
    /// With ghosts that fit into memory around the largest block, so that all processes find the same.
    fn of(distribution: Distribution<N>, ghosts: [usize; N], element_bytes: usize) -> Result<Self> {
        let extents = distribution.extents_max();
        let mut bytes = element_bytes;
        for dimension in 0..N {
            let width = ghosts[dimension];
            let stored = width.checked_mul(2).and_then(|both| both.checked_add(extents[dimension]));
            let all = stored.and_then(|stored| stored.checked_mul(bytes));
            bytes = all
                .filter(|bytes| *bytes <= isize::MAX as usize)
                .ok_or(ShapeError::Ghosts { dimension, width })?;
        }
        Ok(Shape { distribution, ghosts })
    }

    /// What a process has in memory, ghosts included, from its first element on.
    pub(crate) fn stored(&self, rank: usize) -> Patch<N> {
        let block = self.distribution.patch(rank);
        if block.is_empty() {
            return Patch::whole([0; N]);
        }
        let extents = block.extents();
        Patch::whole(std::array::from_fn(|d| extents[d] + 2 * self.ghosts[d]))
    }

    /// Where a part of a process's block is in its memory.
    pub(crate) fn section(&self, rank: usize, part: &Patch<N>) -> Section<N> {
        let lo = self.distribution.patch(rank).lo;
        let shifted = |at: [usize; N]| std::array::from_fn(|d| at[d] - lo[d] + self.ghosts[d]);
        Section::of(&Patch { lo: shifted(part.lo), hi: shifted(part.hi) }, &self.stored(rank))
    }
}

/// A dense array of `N` dimensions, cut into blocks that processes hold, of which every process reads, writes and
/// accumulates any patch without the help of who holds it. Collective to make and to drop.
///
/// Patches stand in slices with the last index running fastest. An operation returns when the caller's slice may be used
/// again. Operations of one process on one element happen in order; what others see of them is settled by
/// [`sync`](Self::sync).
///
/// ```no_run
/// use pgas::ga::GlobalArray;
/// # fn example() -> Result<(), pgas::ga::GaError> {
/// let armci = pgas::Armci::new(&mpi::init()?.world())?;
/// let matrix = GlobalArray::<f64, 2>::create(&armci, [100, 100])?;
/// if armci.rank() == 0 {
///     matrix.put([10..12, 0..3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// }
/// matrix.sync()?;
/// matrix.accumulate([11..12, 0..3], &[1.0; 3], 0.5)?;
/// matrix.sync()?;
/// assert_eq!(matrix.read([11..12, 0..1])?, [4.0 + 0.5 * armci.size() as f64]);
/// # Ok(()) }
/// ```
pub struct GlobalArray<T: Element, const N: usize> {
    pub(crate) shape: Shape<N>,
    pub(crate) memory: Memory<T>,
    pub(crate) armci: Armci,
}

impl<T: Element, const N: usize> GlobalArray<T, N> {
    /// Collective: an array of zeros in blocks of nearly equal size. [`Layout`] makes others.
    pub fn create(armci: &Armci, dims: [usize; N]) -> Result<Self> {
        Layout::new(dims).create(armci)
    }

    /// Indices in each dimension.
    pub fn dims(&self) -> [usize; N] {
        self.shape.distribution.dims()
    }

    /// All of its points.
    pub fn whole(&self) -> Patch<N> {
        Patch::whole(self.dims())
    }

    /// Who holds what.
    pub fn distribution(&self) -> &Distribution<N> {
        &self.shape.distribution
    }

    /// The block that this process holds; an empty one if it holds none.
    pub fn own(&self) -> Patch<N> {
        self.shape.distribution.patch(self.armci.rank())
    }

    /// The processes that share it.
    pub fn armci(&self) -> &Armci {
        &self.armci
    }

    /// Collective: what everybody has written or accumulated so far is there for everybody.
    pub fn sync(&self) -> Result<()> {
        Ok(self.armci.barrier()?)
    }

    /// Waits until what this process has written or accumulated is there.
    pub fn fence(&self) -> Result<()> {
        Ok(self.armci.all_fence()?)
    }

    /// Writes a patch.
    pub fn put(&self, patch: impl Into<Patch<N>>, data: &[T]) -> Result<()> {
        self.each_part(patch.into(), data.len(), |rank, here, there| {
            let levels = Levels::of(here, there);
            let (from, to) = places(here, there, &levels);
            self.memory.put_strided(data, from, rank, to, levels.counts())
        })
    }

    /// Reads a patch.
    pub fn get(&self, patch: impl Into<Patch<N>>, data: &mut [T]) -> Result<()> {
        self.each_part(patch.into(), data.len(), |rank, here, there| {
            let levels = Levels::of(here, there);
            let (to, from) = places(here, there, &levels);
            self.memory.get_strided(data, to, rank, from, levels.counts())
        })
    }

    /// Reads a patch into a new vector.
    pub fn read(&self, patch: impl Into<Patch<N>>) -> Result<Vec<T>> {
        let patch = patch.into();
        self.inside(&patch)?;
        let mut data = vec![T::default(); patch.volume()];
        self.get(patch, &mut data)?;
        Ok(data)
    }

    /// Adds `scale` times the data to a patch, each element atomically.
    pub fn accumulate(&self, patch: impl Into<Patch<N>>, data: &[T], scale: T) -> Result<()> {
        self.each_part(patch.into(), data.len(), |rank, here, there| {
            let levels = Levels::of(here, there);
            let (from, to) = places(here, there, &levels);
            self.memory.acc_strided(scale, data, from, rank, to, levels.counts())
        })
    }

    /// Reads one element.
    pub fn element(&self, at: [usize; N]) -> Result<T> {
        let mut value = [T::default()];
        self.get(self.point(at)?, &mut value)?;
        Ok(value[0])
    }

    /// Writes one element.
    pub fn set(&self, at: [usize; N], value: T) -> Result<()> {
        self.put(self.point(at)?, &[value])
    }

    /// Adds to an element, atomically, and gives what was there before: a counter from which processes take their work.
    pub fn fetch_add(&self, at: [usize; N], by: T) -> Result<T>
    where
        T: Counter,
    {
        let point = self.point(at)?;
        let (rank, part) = self.shape.distribution.owners(&point).next().expect("it is inside");
        Ok(T::fetch_add(&self.memory, rank, self.shape.section(rank, &part).at, by)?)
    }

    /// Shows this process's block. It is a copy, made before `look` runs: others may write meanwhile.
    pub fn with_own<R>(&self, look: impl FnOnce(&Block<T, N>) -> R) -> Result<R> {
        Ok(look(&self.own_block()?))
    }

    /// Lets `change` work on this process's block, and writes it back. Nobody else may write to the block meanwhile; use
    /// [`sync`](Self::sync) before and after.
    pub fn change_own<R>(&self, change: impl FnOnce(&mut Block<T, N>) -> R) -> Result<R> {
        let mut block = self.own_block()?;
        let result = change(&mut block);
        self.write_block(&block)?;
        Ok(result)
    }

    pub(crate) fn own_block(&self) -> Result<Block<T, N>> {
        let mut block = Block::new(self.own(), self.shape.ghosts);
        let stored = block.stored();
        if !stored.is_empty() {
            self.memory.get(block.elements_mut(), self.armci.rank(), 0)?;
        }
        Ok(block)
    }

    pub(crate) fn write_block(&self, block: &Block<T, N>) -> Result<()> {
        let stored = block.stored();
        if !stored.is_empty() {
            self.memory.put(block.elements(), self.armci.rank(), 0)?;
        }
        Ok(())
    }

    pub(crate) fn inside(&self, patch: &Patch<N>) -> Result<()> {
        if self.whole().encloses(patch) {
            return Ok(());
        }
        self.fail(GaError::Outside { patch: format!("{patch:?}"), dims: self.dims().to_vec() })
    }

    /// The box of one of its points.
    pub(crate) fn point(&self, at: [usize; N]) -> Result<Patch<N>> {
        if self.whole().contains(at) {
            return Ok(Patch::point(at));
        }
        self.fail(GaError::Outside { patch: format!("{at:?}"), dims: self.dims().to_vec() })
    }

    /// Does a slice hold as many elements as there are points?
    pub(crate) fn fits(&self, needed: usize, given: usize) -> Result<()> {
        if needed == given { Ok(()) } else { self.fail(GaError::Length { needed, given }) }
    }

    /// Extents that must agree do not.
    pub(crate) fn mismatch<R>(&self, what: String) -> Result<R> {
        self.fail(GaError::Mismatch { what })
    }

    /// A mistake of the program, which may be about to leave: others are not to wait for it.
    pub(crate) fn fail<R>(&self, error: GaError) -> Result<R> {
        noted(&self.armci, Err(error))
    }

    /// The parts of a patch that processes hold: where each is in a slice of the patch, and in the memory of its process.
    pub(crate) fn each_part(
        &self,
        patch: Patch<N>,
        given: usize,
        mut act: impl FnMut(usize, &Section<N>, &Section<N>) -> mpi::Result<()>,
    ) -> Result<()> {
        self.inside(&patch)?;
        self.fits(patch.volume(), given)?;
        for (rank, part) in self.shape.distribution.owners(&patch) {
            act(rank, &Section::of(&part, &patch), &self.shape.section(rank, &part))?;
        }
        Ok(())
    }
}

/// The two sides of a strided operation.
pub(crate) fn places<'a, const N: usize>(
    here: &Section<N>,
    there: &Section<N>,
    levels: &'a Levels,
) -> (Place<'a>, Place<'a>) {
    (Place { at: here.at, strides: levels.here() }, Place { at: there.at, strides: levels.there() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghosts_that_no_memory_has_room_for_are_refused() {
        let shape = |ghosts| Shape::of(Distribution::blocks([40, 50], [1, 1], 4).unwrap(), ghosts, 8);
        assert_eq!(shape([2, 3]).unwrap().stored(3), Patch::from([0..24, 0..31]));
        for (ghosts, dimension) in [([usize::MAX, 0], 0), ([0, usize::MAX / 2], 1), ([1 << 40, 1 << 40], 1)] {
            let Err(GaError::Shape(error)) = shape(ghosts) else { panic!("{ghosts:?}") };
            assert_eq!(error, ShapeError::Ghosts { dimension, width: ghosts[dimension] });
        }
        let text = ShapeError::Ghosts { dimension: 1, width: 9 }.to_string();
        assert_eq!(text, "9 ghosts on either side of dimension 1 do not fit into memory");
    }
}
