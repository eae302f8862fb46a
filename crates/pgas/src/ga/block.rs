//! A block of an array in this process's own memory, with the ghosts around it.
use super::patch::{Patch, Section, row_major};
use std::ops::{Index, IndexMut};

/// Elements of a patch, addressed by their indices in the array.
///
/// ```
/// use pgas::ga::{Block, Patch};
/// let mut block = Block::new(Patch::from([4..6, 0..3]), [0, 0]);
/// block[[5, 2]] = 7;
/// assert_eq!(block.elements(), [0, 0, 0, 0, 0, 7]);
/// assert_eq!(block.row([5, 0]), [0, 0, 7]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Block<T, const N: usize> {
    patch: Patch<N>,
    ghosts: [usize; N],
    strides: [usize; N],
    elements: Vec<T>,
}

impl<T: Copy + Default, const N: usize> Block<T, N> {
    /// Zeros for the points of a patch, with room for neighbours' elements around it.
    pub fn new(patch: Patch<N>, ghosts: [usize; N]) -> Self {
        let mut block = Block { patch, ghosts, strides: [0; N], elements: Vec::new() };
        let stored = block.stored();
        block.strides = row_major(stored.extents());
        block.elements = vec![T::default(); stored.volume()];
        block
    }

    /// The points of a patch with these elements, the last index fastest.
    ///
    /// # Panics
    /// If there are not as many elements as points.
    pub fn of(patch: Patch<N>, elements: Vec<T>) -> Self {
        assert_eq!(patch.volume(), elements.len(), "elements of {patch:?}");
        Block { patch, ghosts: [0; N], strides: patch.strides(), elements }
    }
}

impl<T, const N: usize> Block<T, N> {
    /// The points that it has, without ghosts.
    pub fn patch(&self) -> Patch<N> {
        self.patch
    }

    /// Indices in each dimension, ghosts included, from 0.
    pub fn stored(&self) -> Patch<N> {
        if self.patch.is_empty() {
            return Patch::whole([0; N]);
        }
        let extents = self.patch.extents();
        Patch::whole(std::array::from_fn(|d| extents[d] + 2 * self.ghosts[d]))
    }

    /// All elements, ghosts included, the last index fastest.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// As [`elements`](Self::elements), to change them.
    pub fn elements_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// How far apart neighbours of each dimension are among [`elements`](Self::elements).
    pub fn strides(&self) -> [usize; N] {
        self.strides
    }

    /// The place of a point of the patch among [`elements`](Self::elements). Its neighbours are a stride away, beyond the
    /// patch as far as there are ghosts.
    ///
    /// # Panics
    /// If the patch does not have the point.
    pub fn place(&self, at: [usize; N]) -> usize {
        assert!(self.patch.contains(at), "{at:?} is not in the block {:?}", self.patch);
        (0..N).map(|d| (at[d] - self.patch.lo[d] + self.ghosts[d]) * self.strides[d]).sum()
    }

    /// Elements from a point of the patch to the end of its row, without ghosts.
    pub fn row(&self, from: [usize; N]) -> &[T] {
        let place = self.place(from);
        &self.elements[place..place + self.patch.hi[N - 1] - from[N - 1]]
    }

    /// As [`row`](Self::row), to change them.
    pub fn row_mut(&mut self, from: [usize; N]) -> &mut [T] {
        let place = self.place(from);
        &mut self.elements[place..place + self.patch.hi[N - 1] - from[N - 1]]
    }

    /// The first points of the rows of the patch.
    pub fn row_starts(&self) -> impl Iterator<Item = [usize; N]> + use<T, N> {
        let mut first = self.patch;
        if !first.is_empty() {
            first.hi[N - 1] = first.lo[N - 1] + 1;
        }
        first.points()
    }

    /// Where the patch is among all elements.
    pub(crate) fn inner(&self) -> Section<N> {
        let hi = self.patch.extents();
        let inner = Patch { lo: self.ghosts, hi: std::array::from_fn(|d| hi[d] + self.ghosts[d]) };
        Section::of(&inner, &self.stored())
    }
}

impl<T, const N: usize> Index<[usize; N]> for Block<T, N> {
    type Output = T;

    fn index(&self, at: [usize; N]) -> &T {
        &self.elements[self.place(at)]
    }
}

impl<T, const N: usize> IndexMut<[usize; N]> for Block<T, N> {
    fn index_mut(&mut self, at: [usize; N]) -> &mut T {
        let place = self.place(at);
        &mut self.elements[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_found_between_ghosts() {
        let mut block = Block::<i32, 2>::new(Patch::from([4..6, 7..9]), [1, 2]);
        assert_eq!((block.stored(), block.strides()), (Patch::whole([4, 6]), [6, 1]));
        block[[4, 7]] = 1;
        block[[5, 8]] = 2;
        assert_eq!((block.elements()[8], block.elements()[15]), (1, 2));
        assert_eq!(block.row([5, 7]), [0, 2]);
        assert_eq!(block.row_starts().collect::<Vec<_>>(), [[4, 7], [5, 7]]);
        assert_eq!(block.inner().rows().collect::<Vec<_>>(), [8, 14]);
    }

    #[test]
    fn an_empty_block_has_nothing() {
        let block = Block::<i32, 2>::new(Patch::whole([0, 0]), [1, 1]);
        assert!(block.elements().is_empty() && block.row_starts().next().is_none());
    }

    #[test]
    #[should_panic(expected = "[6, 7] is not in the block [4..6, 7..9]")]
    fn a_ghost_has_no_index_of_the_array() {
        let _ = Block::<i32, 2>::new(Patch::from([4..6, 7..9]), [1, 1])[[6, 7]];
    }
}
