//! Boxes of indices, and where their elements are in memory.
use std::fmt;
use std::ops::Range;

/// A box of indices: all points from `lo` up to and without `hi`, in each dimension.
///
/// ```
/// use pgas::ga::Patch;
/// let patch = Patch::from([2..5, 0..4]);
/// assert_eq!((patch.volume(), patch.extents()), (12, [3, 4]));
/// assert_eq!(patch.intersect(&Patch::from([4..9, 3..9])), Patch::from([4..5, 3..4]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Patch<const N: usize> {
    /// The first index of each dimension.
    pub lo: [usize; N],
    /// The first index behind it.
    pub hi: [usize; N],
}

impl<const N: usize> From<[Range<usize>; N]> for Patch<N> {
    fn from(ranges: [Range<usize>; N]) -> Self {
        Patch { lo: ranges.each_ref().map(|range| range.start), hi: ranges.each_ref().map(|range| range.end) }
    }
}

impl From<Range<usize>> for Patch<1> {
    fn from(range: Range<usize>) -> Self {
        Patch { lo: [range.start], hi: [range.end] }
    }
}

impl<const N: usize> fmt::Debug for Patch<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..N).map(|d| self.lo[d]..self.hi[d])).finish()
    }
}

impl<const N: usize> Patch<N> {
    /// The box of these dimensions, from the origin.
    pub fn whole(dims: [usize; N]) -> Self {
        Patch { lo: [0; N], hi: dims }
    }

    /// The box of one point. The greatest number is no index of any array: a box with it is empty.
    pub fn point(at: [usize; N]) -> Self {
        Patch { lo: at, hi: at.map(|index| index.saturating_add(1)) }
    }

    /// Indices in each dimension; 0 where the box ends before it begins.
    pub fn extents(&self) -> [usize; N] {
        std::array::from_fn(|d| self.hi[d].saturating_sub(self.lo[d]))
    }

    /// How many points it has.
    pub fn volume(&self) -> usize {
        self.extents().iter().product()
    }

    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.extents().contains(&0)
    }

    /// Is this one of its points?
    pub fn contains(&self, at: [usize; N]) -> bool {
        (0..N).all(|d| (self.lo[d]..self.hi[d]).contains(&at[d]))
    }

    /// Are all points of `other` in it?
    pub fn encloses(&self, other: &Patch<N>) -> bool {
        other.is_empty() || (0..N).all(|d| self.lo[d] <= other.lo[d] && other.hi[d] <= self.hi[d])
    }

    /// The points of both.
    pub fn intersect(&self, other: &Patch<N>) -> Patch<N> {
        Patch {
            lo: std::array::from_fn(|d| self.lo[d].max(other.lo[d])),
            hi: std::array::from_fn(|d| self.hi[d].min(other.hi[d])),
        }
    }

    /// How far apart neighbours of each dimension are where its elements stand in a row: the last index runs fastest.
    pub fn strides(&self) -> [usize; N] {
        row_major(self.extents())
    }

    /// The place of a point among elements in a row.
    pub fn index(&self, at: [usize; N]) -> usize {
        let strides = self.strides();
        (0..N).map(|d| (at[d] - self.lo[d]) * strides[d]).sum()
    }

    /// All points, the last index fastest.
    pub fn points(&self) -> impl Iterator<Item = [usize; N]> + use<N> {
        let (lo, extents, strides) = (self.lo, self.extents(), self.strides());
        (0..self.volume()).map(move |at| std::array::from_fn(|d| lo[d] + at / strides[d] % extents[d]))
    }
}

/// Distances between neighbours of each dimension, the last one fastest.
pub(crate) fn row_major<const N: usize>(extents: [usize; N]) -> [usize; N] {
    let mut strides = [1; N];
    for d in (0..N.saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * extents[d + 1];
    }
    strides
}

/// A box inside a larger one whose elements stand in a row: where it begins and how far its neighbours are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section<const N: usize> {
    /// The first element.
    pub(crate) at: usize,
    /// Distances between neighbours of each dimension.
    pub(crate) strides: [usize; N],
    /// Elements in each dimension.
    pub(crate) counts: [usize; N],
}

impl<const N: usize> Section<N> {
    /// `part` of `whole`, which holds it.
    pub(crate) fn of(part: &Patch<N>, whole: &Patch<N>) -> Self {
        debug_assert!(whole.encloses(part), "{part:?} is not in {whole:?}");
        Section { at: whole.index(part.lo), strides: whole.strides(), counts: part.extents() }
    }

    /// Places of the rows (elements in a row) in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> + use<N> {
        let mut outer = self.counts;
        outer[N - 1] = outer[N - 1].min(1);
        let (at, strides) = (self.at, self.strides);
        Patch::whole(outer).points().map(move |row| at + (0..N).map(|d| row[d] * strides[d]).sum::<usize>())
    }

    /// Elements of a row.
    pub(crate) fn row_len(&self) -> usize {
        self.counts[N - 1]
    }
}

/// Copies a section of one slice to a section of another; both have the same counts.
pub(crate) fn copy_section<T: Copy, const N: usize>(
    from: &[T],
    source: &Section<N>,
    into: &mut [T],
    target: &Section<N>,
) {
    debug_assert_eq!(source.counts, target.counts);
    let len = source.row_len();
    for (a, b) in source.rows().zip(target.rows()) {
        into[b..b + len].copy_from_slice(&from[a..a + len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patch() -> impl Strategy<Value = Patch<3>> {
        let side = (0_usize..6, 0_usize..5);
        [side.clone(), side.clone(), side].prop_map(|sides| Patch::from(sides.map(|(lo, len)| lo..lo + len)))
    }

    #[test]
    fn points_come_with_the_last_index_fastest() {
        let points: Vec<_> = Patch::from([1..3, 4..6]).points().collect();
        assert_eq!(points, [[1, 4], [1, 5], [2, 4], [2, 5]]);
        assert_eq!(Patch::from([1..3, 4..4]).points().count(), 0);
        assert_eq!(Patch { lo: [3], hi: [1] }.volume(), 0);
        assert_eq!(Patch::point([3, 4]), Patch::from([3..4, 4..5]));
        assert!(Patch::point([3, usize::MAX]).is_empty());
    }

    proptest! {
        #[test]
        fn an_intersection_has_the_points_of_both(a in patch(), b in patch()) {
            let both = a.intersect(&b);
            let expected = a.points().filter(|at| b.contains(*at)).collect::<Vec<_>>();
            prop_assert_eq!(both.points().collect::<Vec<_>>(), expected);
            prop_assert_eq!(a.encloses(&b), b.points().all(|at| a.contains(at)));
        }

        #[test]
        fn the_place_of_a_point_is_its_number(patch in patch()) {
            for (number, at) in patch.points().enumerate() {
                prop_assert_eq!(patch.index(at), number);
            }
        }

        #[test]
        fn a_section_copied_out_and_back_changes_what_it_holds_only(whole in patch(), part in patch()) {
            let part = part.intersect(&whole);
            if part.is_empty() {
                return Ok(());
            }
            let from: Vec<usize> = (0..whole.volume()).collect();
            let (inside, alone) = (Section::of(&part, &whole), Section::of(&part, &part));
            let mut packed = vec![usize::MAX; part.volume()];
            copy_section(&from, &inside, &mut packed, &alone);
            let expected: Vec<usize> = part.points().map(|at| whole.index(at)).collect();
            prop_assert_eq!(&packed, &expected);
            let mut back = vec![usize::MAX; whole.volume()];
            copy_section(&packed, &alone, &mut back, &inside);
            for (number, at) in whole.points().enumerate() {
                prop_assert_eq!(back[number], if part.contains(at) { number } else { usize::MAX });
            }
        }
    }
}
