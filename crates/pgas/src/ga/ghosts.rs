//! Ghosts: copies of neighbours' elements around a block, so that a stencil finds them beside its own.
use super::array::GlobalArray;
use super::block::Block;
use super::element::Element;
use super::error::{GaError, Result};
use super::overlap::overlap;
use super::patch::{Patch, Section, copy_section};
use std::ops::Range;

/// Which ghosts are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those beyond one face each: what a stencil along the axes needs.
    Faces,
    /// Those beyond edges and corners too.
    All,
}

/// What is beyond the first and the last index of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Nothing: ghosts there stay as they are.
    Open,
    /// The other end of the array.
    Periodic,
}

impl<T: Element, const N: usize> GlobalArray<T, N> {
    /// How many ghosts there are on either side in each dimension.
    pub fn ghost_width(&self) -> [usize; N] {
        self.shape.ghosts
    }

    /// Collective: fetches this block's ghosts from those who hold the elements, with the block, and shows them to `work`.
    /// What `work` changes of the block is written back, and there for everybody when this returns; what it changes of
    /// ghosts is not.
    ///
    /// ```no_run
    /// # use pgas::ga::{Edge, GlobalArray, GaError, Reach};
    /// # fn example(field: GlobalArray<f64, 2>) -> Result<(), GaError> {
    /// // One sweep of a smoother, on a field with ghosts of width 1.
    /// field.with_ghosts(Reach::Faces, Edge::Periodic, |block| {
    ///     let (old, row) = (block.elements().to_vec(), block.strides()[0]);
    ///     for at in block.patch().points() {
    ///         let i = block.place(at);
    ///         block[at] = 0.25 * (old[i - 1] + old[i + 1] + old[i - row] + old[i + row]);
    ///     }
    /// })?;
    /// # Ok(()) }
    /// ```
    pub fn with_ghosts<R>(
        &self,
        reach: Reach,
        edge: Edge,
        work: impl FnOnce(&mut Block<T, N>) -> R,
    ) -> Result<R> {
        self.sync()?;
        let mut block = self.own_block()?;
        self.fetch_ghosts(&mut block, reach, edge)?;
        // Everybody has read before anybody writes.
        self.armci.comm().barrier().map_err(GaError::from)?;
        let result = work(&mut block);
        self.write_inner(&block)?;
        self.sync()?;
        Ok(result)
    }

    /// Collective: fetches this block's ghosts, and keeps them with the block: [`with_own`](Self::with_own) shows them.
    pub fn update_ghosts(&self, reach: Reach, edge: Edge) -> Result<()> {
        self.sync()?;
        let mut block = self.own_block()?;
        self.fetch_ghosts(&mut block, reach, edge)?;
        self.write_block(&block)?;
        self.sync()
    }

    fn write_inner(&self, block: &Block<T, N>) -> Result<()> {
        let own = self.own();
        if own.is_empty() {
            return Ok(());
        }
        let mut inner = vec![T::default(); own.volume()];
        copy_section(block.elements(), &block.inner(), &mut inner, &Section::of(&own, &own));
        self.put(own, &inner)
    }

    fn fetch_ghosts(&self, block: &mut Block<T, N>, reach: Reach, edge: Edge) -> Result<()> {
        let width = self.shape.ghosts;
        if let Some(d) = (0..N).find(|d| edge == Edge::Periodic && width[*d] > self.dims()[*d]) {
            return self.mismatch(format!(
                "{} ghosts beyond a periodic dimension of {}",
                width[d],
                self.dims()[d]
            ));
        }
        if self.own().is_empty() {
            return Ok(());
        }
        let stored = block.stored();
        let pieces = pieces(&self.own(), self.dims(), width, reach, edge);
        let mut data: Vec<Vec<T>> =
            pieces.iter().map(|piece| vec![T::default(); piece.from.volume()]).collect();
        overlap(&self.armci, |scope| {
            let mut begun = pieces.iter().zip(&mut data);
            begun.try_for_each(|(piece, data)| self.begin_get(scope, piece.from, data))
        })?;
        for (piece, data) in pieces.iter().zip(data) {
            let to = Section::of(&piece.to, &stored);
            copy_section(&data, &Section::of(&piece.from, &piece.from), block.elements_mut(), &to);
        }
        Ok(())
    }
}

/// Ghosts that are in a row of the array: where their elements are, and where they go among those of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece<const N: usize> {
    from: Patch<N>,
    to: Patch<N>,
}

/// All ghosts of a block.
fn pieces<const N: usize>(
    own: &Patch<N>,
    dims: [usize; N],
    width: [usize; N],
    reach: Reach,
    edge: Edge,
) -> Vec<Piece<N>> {
    let mut found = Vec::new();
    for side in Patch::whole([3; N]).points() {
        let beyond = side.iter().filter(|side| **side != 1).count();
        if beyond == 0 || (reach == Reach::Faces && beyond > 1) {
            continue;
        }
        let runs: [Vec<Run>; N] = std::array::from_fn(|d| {
            let own = own.lo[d]..own.hi[d];
            runs(own, side[d], dims[d], width[d], edge)
        });
        let choices = Patch::whole(runs.each_ref().map(Vec::len));
        for choice in choices.points() {
            let run = |d: usize| &runs[d][choice[d]];
            found.push(Piece {
                from: Patch::from(std::array::from_fn(|d| run(d).from.clone())),
                to: Patch::from(std::array::from_fn(|d| run(d).to..run(d).to + run(d).from.len())),
            });
        }
    }
    found
}

/// Indices of one dimension, and where the first of them goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    from: Range<usize>,
    to: usize,
}

/// What is before a block (side 0), in it (1), or behind it (2), in one dimension.
fn runs(own: Range<usize>, side: usize, dim: usize, width: usize, edge: Edge) -> Vec<Run> {
    let first = own.start as isize - width as isize;
    let wanted = match side {
        0 => first..own.start as isize,
        1 => own.start as isize..own.end as isize,
        _ => own.end as isize..(own.end + width) as isize,
    };
    let dim = dim as isize;
    let mut found = Vec::new();
    for shift in [-dim, 0, dim] {
        if edge == Edge::Open && shift != 0 {
            continue;
        }
        let (lo, hi) = (wanted.start.max(shift), wanted.end.min(shift + dim));
        if lo < hi {
            found.push(Run { from: (lo - shift) as usize..(hi - shift) as usize, to: (lo - first) as usize });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ghosts_at_an_open_edge_are_left_out() {
        let of = |edge| pieces(&Patch::from([0..2, 3..5]), [6, 6], [1, 1], Reach::Faces, edge);
        let piece =
            |from: [Range<usize>; 2], to: [Range<usize>; 2]| Piece { from: from.into(), to: to.into() };
        let open = [
            piece([0..2, 2..3], [1..3, 0..1]),
            piece([0..2, 5..6], [1..3, 3..4]),
            piece([2..3, 3..5], [3..4, 1..3]),
        ];
        assert_eq!(of(Edge::Open), open);
        assert_eq!(of(Edge::Periodic)[0], piece([5..6, 3..5], [0..1, 1..3]));
        assert_eq!(of(Edge::Periodic).len(), 4);
    }

    proptest! {
        #[test]
        fn all_ghosts_come_once_and_from_where_they_belong(
            sides in [(0_usize..5, 1_usize..5, 0_usize..4, 0_usize..3), (0_usize..5, 1_usize..5, 0_usize..4, 0_usize..3)],
            periodic: bool,
        ) {
            let own = Patch::from(sides.map(|(lo, len, ..)| lo..lo + len));
            let dims = sides.map(|(lo, len, more, _)| lo + len + more);
            let width: [usize; 2] = std::array::from_fn(|d| sides[d].3.min(dims[d]));
            let edge = if periodic { Edge::Periodic } else { Edge::Open };
            let extents = own.extents();
            let stored = Patch::whole(std::array::from_fn(|d| extents[d] + 2 * width[d]));
            let mut seen = vec![0; stored.volume()];
            for Piece { from, to } in pieces(&own, dims, width, Reach::All, edge) {
                prop_assert_eq!(from.extents(), to.extents());
                for (from, to) in from.points().zip(to.points()) {
                    seen[stored.index(to)] += 1;
                    for d in 0..2 {
                        let at = (to[d] + own.lo[d] + dims[d] - width[d]) % dims[d];
                        prop_assert_eq!(at, from[d]);
                    }
                }
            }
            for (number, at) in stored.points().enumerate() {
                let inner = (0..2).all(|d| (width[d]..width[d] + extents[d]).contains(&at[d]));
                let outside = (0..2).any(|d| at[d] + own.lo[d] < width[d] || at[d] + own.lo[d] >= width[d] + dims[d]);
                prop_assert_eq!(seen[number], usize::from(!inner && (periodic || !outside)), "{:?}", at);
            }
        }
    }
}
