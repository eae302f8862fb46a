//! Elements at any places of a process's part, in one operation.
use crate::core::{Later, Segments, What};
use crate::memory::{Element, Memory};
use crate::slices::{source, target};
use mpi::{Datum, ErrorClass, MpiError, Result};

impl<T: Datum> Memory<T> {
    /// Writes each element to its place of a process's part. Of two for one place it is open which one stays.
    pub fn put_each(&self, data: &[T], rank: usize, places: &[usize]) -> Result<()> {
        self.each(What::Put(source(data)), data.len(), rank, places)
    }

    /// Reads each element from its place.
    pub fn get_each(&self, into: &mut [T], rank: usize, places: &[usize]) -> Result<()> {
        let len = into.len();
        self.each(What::Get(target(into)), len, rank, places)
    }

    fn each(&self, what: What, len: usize, rank: usize, places: &[usize]) -> Result<()> {
        let wrong = |text: String| MpiError::new(ErrorClass::Count, text);
        let distance = |place: &usize| i64::try_from(place.checked_mul(size_of::<T>())?).ok();
        let there: Option<Vec<i64>> = places.iter().map(distance).collect();
        let here: Vec<i64> = (0..len).map(|at| (at * size_of::<T>()) as i64).collect();
        let checked = match there {
            Some(there) if there.len() == here.len() => Ok(there),
            Some(there) => Err(wrong(format!("{len} elements for {} places", there.len()))),
            None => Err(wrong("a place beyond all memory".into())),
        };
        let armci = self.armci();
        armci.with(|core, driver| {
            let how = Segments { bytes: size_of::<T>() as i64, here: &here, there: &checked? };
            core.transfer_segments(driver, what, self.place(rank, 0), how, Later::No)
        })
    }
}

impl<T: Element> Memory<T> {
    /// Adds `factor` times each element to that at its place, each of them atomically. A place is named once.
    pub fn acc_each(&self, factor: T, data: &[T], rank: usize, places: &[usize]) -> Result<()> {
        self.each(What::Acc(source(data), factor.factor()), data.len(), rank, places)
    }
}
