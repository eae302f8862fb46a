//! Products of matrices: tiles are fetched and multiplied where they are needed.
use super::array::{GlobalArray, Layout};
use super::element::Element;
use super::error::{GaError, Result};
use super::patch::Patch;
use super::whole::{flipped, swapped};
use std::ops::Range;

/// A patch of a matrix as an operand, or its transpose.
pub struct Operand<'a, T: Element> {
    array: &'a GlobalArray<T, 2>,
    patch: Patch<2>,
    transposed: bool,
}

/// Who computes what of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// Each process what it holds of the result.
    Own,
    /// Tiles of the result, each of which the next process takes that has nothing to do.
    Shared,
}

/// How a product is cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Indices of a tile in each dimension.
    pub extent: usize,
    /// Who computes what.
    pub tasks: Tasks,
}

impl Default for Tiling {
    fn default() -> Self {
        Tiling { extent: 128, tasks: Tasks::Own }
    }
}

impl<T: Element> GlobalArray<T, 2> {
    /// All of the matrix as an operand.
    pub fn operand(&self) -> Operand<'_, T> {
        Operand { array: self, patch: self.whole(), transposed: false }
    }

    /// A patch of it.
    pub fn operand_of(&self, patch: impl Into<Patch<2>>) -> Result<Operand<'_, T>> {
        let patch = patch.into();
        self.inside(&patch)?;
        Ok(Operand { array: self, patch, transposed: false })
    }

    /// Collective: a patch becomes `alpha a b + beta` times what it was. If `beta` is zero, it does not matter what it was.
    /// It may be in the array of an operand, and not overlap it: others still read that while this process writes.
    ///
    /// ```no_run
    /// # use pgas::ga::{GlobalArray, Tiling};
    /// # fn example(a: GlobalArray<f64, 2>, c: GlobalArray<f64, 2>) -> Result<(), pgas::ga::GaError> {
    /// // c becomes the product of a and its transpose.
    /// c.multiply(c.whole(), 1.0, &a.operand(), &a.operand().transposed(), 0.0, Tiling::default())?;
    /// # Ok(()) }
    /// ```
    pub fn multiply(
        &self,
        patch: impl Into<Patch<2>>,
        alpha: T,
        a: &Operand<'_, T>,
        b: &Operand<'_, T>,
        beta: T,
        tiling: Tiling,
    ) -> Result<()> {
        let patch = patch.into();
        self.inside(&patch)?;
        let product = Product { into: self, patch, alpha, a, b, extent: tiling.extent.max(1) };
        product.check()?;
        a.array.sync()?;
        b.array.sync()?;
        self.sync()?;
        match tiling.tasks {
            Tasks::Own => product.own(beta)?,
            Tasks::Shared => product.shared(beta)?,
        }
        self.sync()
    }
}

impl<T: Element> Operand<'_, T> {
    /// The transpose of it.
    #[must_use]
    pub fn transposed(mut self) -> Self {
        self.transposed = !self.transposed;
        self
    }

    /// Rows and columns.
    pub fn extents(&self) -> [usize; 2] {
        let [rows, columns] = self.patch.extents();
        if self.transposed { [columns, rows] } else { [rows, columns] }
    }

    /// Elements of these rows and columns.
    fn tile(&self, rows: &Range<usize>, columns: &Range<usize>) -> Result<Vec<T>> {
        let tile = Patch::from([rows.clone(), columns.clone()]);
        let stored = if self.transposed { swapped(&tile) } else { tile };
        let shifted = |at: [usize; 2]| std::array::from_fn(|d| at[d] + self.patch.lo[d]);
        let data = self.array.read(Patch { lo: shifted(stored.lo), hi: shifted(stored.hi) })?;
        Ok(if self.transposed { flipped(&data, tile.extents()) } else { data })
    }
}

struct Product<'a, T: Element> {
    into: &'a GlobalArray<T, 2>,
    patch: Patch<2>,
    alpha: T,
    a: &'a Operand<'a, T>,
    b: &'a Operand<'a, T>,
    extent: usize,
}

impl<T: Element> Product<'_, T> {
    fn check(&self) -> Result<()> {
        for operand in [self.a, self.b] {
            let shared = operand.patch.intersect(&self.patch);
            if self.into.memory.is(&operand.array.memory) && !shared.is_empty() {
                let (result, operand) = (format!("{:?}", self.patch), format!("{:?}", operand.patch));
                return self.into.fail(GaError::Overlap { result, operand });
            }
        }
        let ([rows, depth], [height, columns]) = (self.a.extents(), self.b.extents());
        if depth == height && self.patch.extents() == [rows, columns] {
            return Ok(());
        }
        self.into.mismatch(format!(
            "a product of [{rows}, {depth}] and [{height}, {columns}] is not {:?}",
            self.patch.extents()
        ))
    }

    fn own(&self, beta: T) -> Result<()> {
        let mine = self.into.own().intersect(&self.patch);
        if mine.is_empty() {
            return Ok(());
        }
        let product = self.tile(&mine)?;
        let old = if beta == T::default() { vec![beta; mine.volume()] } else { self.into.read(mine)? };
        let sums = product.into_iter().zip(old).map(|(new, old)| self.alpha.times(new).plus(beta.times(old)));
        self.into.put(mine, &sums.collect::<Vec<T>>())
    }

    fn shared(&self, beta: T) -> Result<()> {
        let mine = self.into.own().intersect(&self.patch);
        if !mine.is_empty() {
            let zero = beta == T::default();
            let mut old = if zero { vec![beta; mine.volume()] } else { self.into.read(mine)? };
            old.iter_mut().for_each(|value| *value = beta.times(*value));
            self.into.put(mine, &old)?;
        }
        let next = Layout::new([1]).create::<i64>(self.into.armci())?;
        self.into.sync()?;
        let extents = self.patch.extents();
        let tiles = Patch::whole(extents.map(|extent| extent.div_ceil(self.extent)));
        loop {
            let taken = next.fetch_add([0], 1)? as usize;
            let Some(tile) = tiles.points().nth(taken) else { break };
            let lo = |d: usize| self.patch.lo[d] + tile[d] * self.extent;
            let tile = Patch {
                lo: [lo(0), lo(1)],
                hi: std::array::from_fn(|d| (lo(d) + self.extent).min(self.patch.hi[d])),
            };
            self.into.accumulate(tile, &self.tile(&tile)?, self.alpha)?;
        }
        next.sync()
    }

    /// What the product of the operands is at these points of the result.
    fn tile(&self, tile: &Patch<2>) -> Result<Vec<T>> {
        let range = |d: usize| tile.lo[d] - self.patch.lo[d]..tile.hi[d] - self.patch.lo[d];
        let (rows, columns, depth) = (range(0), range(1), self.a.extents()[1]);
        let mut sum = vec![T::default(); tile.volume()];
        for from in (0..depth).step_by(self.extent) {
            let between = from..(from + self.extent).min(depth);
            let (a, b) = (self.a.tile(&rows, &between)?, self.b.tile(&between, &columns)?);
            multiply_add(&a, &b, &mut sum, [between.len(), columns.len()]);
        }
        Ok(sum)
    }
}

/// Adds the product of two matrices in rows: the first has `depth` columns, the second `columns`.
pub(crate) fn multiply_add<T: Element>(a: &[T], b: &[T], sum: &mut [T], [depth, columns]: [usize; 2]) {
    for (row, sums) in a.chunks_exact(depth).zip(sum.chunks_exact_mut(columns)) {
        for (left, others) in row.iter().zip(b.chunks_exact(columns)) {
            for (sum, right) in sums.iter_mut().zip(others) {
                *sum = sum.plus(left.times(*right));
            }
        }
    }
}
