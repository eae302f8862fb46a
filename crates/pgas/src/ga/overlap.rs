//! Access to patches that goes on while the program computes, or while other patches are on their way.
use super::array::{GlobalArray, places};
use super::element::Element;
use super::error::Result;
use super::levels::Levels;
use super::patch::Patch;
use crate::core::What;
use crate::memory::Scaled;
use crate::slices::{source, target};
use crate::{Armci, Scope};

/// Runs `body`, which may begin operations on arrays, then waits until their slices may be used again.
///
/// Such operations have no order, neither among each other nor with those before: [`sync`](GlobalArray::sync) or
/// [`fence`](GlobalArray::fence) stands between what depends on each other.
///
/// ```no_run
/// # use pgas::ga::{GlobalArray, GaError, overlap};
/// # fn example(a: GlobalArray<f64, 2>, b: GlobalArray<f64, 2>) -> Result<(), GaError> {
/// let (mut left, mut right) = ([0.0; 100], [0.0; 100]);
/// overlap(a.armci(), |scope| {
///     a.begin_get(scope, [0..10, 0..10], &mut left)?;
///     b.begin_get(scope, [5..15, 0..10], &mut right)
///     // Both are on their way.
/// })?;
/// # Ok(()) }
/// ```
pub fn overlap<'env, R>(
    armci: &'env Armci,
    body: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Result<R>,
) -> Result<R> {
    armci.scope_with(body)
}

impl<T: Element, const N: usize> GlobalArray<T, N> {
    /// Begins to write a patch.
    pub fn begin_put<'env>(
        &'env self,
        scope: &Scope<'_, 'env>,
        patch: impl Into<Patch<N>>,
        data: &'env [T],
    ) -> Result<()> {
        self.each_part(patch.into(), data.len(), |rank, here, there| {
            let levels = Levels::of(here, there);
            let (from, to) = places(here, there, &levels);
            let how = Scaled::of::<T>(&from, &to, levels.counts(), data.len())?;
            scope.begin(&self.memory, What::Put(source(&data[here.at..])), (rank, there.at), &how)
        })
    }

    /// Begins to read a patch.
    pub fn begin_get<'env>(
        &'env self,
        scope: &Scope<'_, 'env>,
        patch: impl Into<Patch<N>>,
        data: &'env mut [T],
    ) -> Result<()> {
        self.each_part(patch.into(), data.len(), |rank, here, there| {
            let levels = Levels::of(here, there);
            let (to, from) = places(here, there, &levels);
            let how = Scaled::of::<T>(&to, &from, levels.counts(), data.len())?;
            // The parts of several processes do not overlap here.
            let into = target(&mut data[here.at..]);
            scope.begin(&self.memory, What::Get(into), (rank, there.at), &how)
        })
    }

    /// Begins to add `scale` times the data to a patch, each element atomically.
    pub fn begin_accumulate<'env>(
        &'env self,
        scope: &Scope<'_, 'env>,
        patch: impl Into<Patch<N>>,
        data: &'env [T],
        scale: T,
    ) -> Result<()> {
        self.each_part(patch.into(), data.len(), |rank, here, there| {
            let levels = Levels::of(here, there);
            let (from, to) = places(here, there, &levels);
            let how = Scaled::of::<T>(&from, &to, levels.counts(), data.len())?;
            let what = What::Acc(source(&data[here.at..]), scale.factor());
            scope.begin(&self.memory, what, (rank, there.at), &how)
        })
    }
}
