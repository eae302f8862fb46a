//! A transfer between two boxes as strides and counts, with as few levels as possible.
use super::distribution::DIMS_MAX;
use super::patch::Section;

/// Elements in a row, and how often that at which distances: on either side of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    counts: [usize; DIMS_MAX],
    here: [usize; DIMS_MAX],
    there: [usize; DIMS_MAX],
    used: usize,
}

impl Levels {
    /// Of two sections with the same counts. Dimensions that follow each other without a gap on both sides become one.
    pub(crate) fn of<const N: usize>(here: &Section<N>, there: &Section<N>) -> Levels {
        debug_assert_eq!(here.counts, there.counts);
        let mut levels = Levels { counts: [1; DIMS_MAX], here: [0; DIMS_MAX], there: [0; DIMS_MAX], used: 1 };
        levels.counts[0] = here.counts[N - 1];
        // The distances at which the whole of the last level would follow itself.
        let mut next = [levels.counts[0]; 2];
        for d in (0..N - 1).rev().filter(|d| here.counts[*d] != 1) {
            let strides = [here.strides[d], there.strides[d]];
            if strides == next {
                levels.counts[levels.used - 1] *= here.counts[d];
            } else {
                levels.counts[levels.used] = here.counts[d];
                [levels.here[levels.used - 1], levels.there[levels.used - 1]] = strides;
                levels.used += 1;
            }
            next = strides.map(|stride| stride * here.counts[d]);
        }
        levels
    }

    /// Elements in a row first.
    pub(crate) fn counts(&self) -> &[usize] {
        &self.counts[..self.used]
    }

    /// Distances on this side, one less than counts.
    pub(crate) fn here(&self) -> &[usize] {
        &self.here[..self.used - 1]
    }

    /// Distances on the other side.
    pub(crate) fn there(&self) -> &[usize] {
        &self.there[..self.used - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::patch::Patch;
    use super::*;
    use proptest::prelude::*;

    /// All places of one side, in order.
    fn places(at: usize, counts: &[usize], strides: &[usize]) -> Vec<usize> {
        match counts {
            [row] => (at..at + row).collect(),
            [inner @ .., outer] => {
                let (stride, strides) = strides.split_last().unwrap();
                (0..*outer).flat_map(|i| places(at + i * stride, inner, strides)).collect()
            }
            [] => Vec::new(),
        }
    }

    fn of_section(section: &Section<3>) -> Vec<usize> {
        section.rows().flat_map(|row| row..row + section.row_len()).collect()
    }

    #[test]
    fn what_stands_in_a_row_is_one_level() {
        let whole = Patch::whole([4, 5, 6]);
        let levels = |part: Patch<3>, of: &Patch<3>| {
            let here = Section::of(&part, of);
            Levels::of(&here, &Section::of(&part, &whole)).counts().to_vec()
        };
        assert_eq!(levels(whole, &whole), [120]);
        assert_eq!(levels(Patch::from([1..3, 0..5, 0..6]), &whole), [60]);
        assert_eq!(levels(Patch::from([1..3, 0..4, 0..6]), &whole), [24, 2]);
        assert_eq!(levels(Patch::from([1..3, 0..5, 0..3]), &whole), [3, 10]);
        assert_eq!(levels(Patch::from([1..2, 2..3, 0..3]), &whole), [3]);
        let part = Patch::from([1..3, 1..4, 0..3]);
        assert_eq!(levels(part, &part), [3, 3, 2]);
    }

    proptest! {
        #[test]
        fn both_sides_keep_their_places(
            sides in [(0_usize..4, 1_usize..4, 0_usize..3), (0_usize..4, 1_usize..4, 0_usize..3), (0_usize..4, 1_usize..4, 0_usize..3)],
            pad in [0_usize..2, 0_usize..2, 0_usize..2],
        ) {
            let part = Patch::from(sides.map(|(lo, len, _)| lo..lo + len));
            let first = Patch::from(sides.map(|(lo, len, more)| 0..lo + len + more));
            let second = Patch { lo: part.lo, hi: std::array::from_fn(|d| part.hi[d] + pad[d]) };
            let (here, there) = (Section::of(&part, &first), Section::of(&part, &second));
            let levels = Levels::of(&here, &there);
            prop_assert_eq!(places(here.at, levels.counts(), levels.here()), of_section(&here));
            prop_assert_eq!(places(there.at, levels.counts(), levels.there()), of_section(&there));
        }
    }
}
