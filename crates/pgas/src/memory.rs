//! The safe API: elements of every process that all of them access.
use crate::armci::Armci;
use crate::core::{Factor, GroupId, Later, Place, RegionId, Rmw, Strides, What};
use crate::slices::{source, target};
use mpi::{Datum, ErrorClass, MpiError, Result};
use std::marker::PhantomData;

/// Elements that every process has brought. Collective to make ([`Armci::malloc`]) and to drop.
///
/// No reference to it is ever given out, since others change it at any time: a process puts to and gets from its own part as
/// it does to everybody's. Operations have ended for this process when they return; what they do elsewhere is done after a
/// fence, and blocking operations towards one process take effect there in their order.
pub struct Memory<T: Datum> {
    armci: Armci,
    region: RegionId,
    len: usize,
    marker: PhantomData<T>,
}

/// An element that can be accumulated with a factor.
pub trait Element: Datum + Default {
    /// What the core calls the factor.
    fn factor(self) -> Factor;
}

macro_rules! element {
    ($($ty:ty => $factor:ident as $as:ty),*) => {
        $(impl Element for $ty {
            fn factor(self) -> Factor {
                Factor::$factor(self as $as)
            }
        })*
    };
}
element!(i32 => I32 as i32, u32 => I32 as i32, i64 => I64 as i64, u64 => I64 as i64, isize => I64 as i64,
    usize => I64 as i64, f32 => F32 as f32, f64 => F64 as f64);

/// Where the elements of a strided operation are: the first, and the distances of each level, all counted in elements.
///
/// An operation's counts say how many there are: `counts[0]` in a row, and `counts[i]` times that at a distance of
/// `strides[i - 1]`. A patch of a matrix in rows of length `n` has one stride, `n`.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// The first element.
    pub at: usize,
    /// One less than counts.
    pub strides: &'a [usize],
}

impl<T: Datum> Memory<T> {
    pub(crate) fn new(armci: &Armci, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).map_or(u64::MAX, |bytes| bytes as u64);
        let region = armci.with(|core, driver| core.malloc(driver, GroupId::WORLD, bytes))?;
        Ok(Memory { armci: armci.clone(), region, len, marker: PhantomData })
    }

    /// How many elements this process has brought.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has it brought none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many a process has brought.
    pub fn len_of(&self, rank: usize) -> Result<usize> {
        let bytes = self.armci.with(|core, _| core.bytes_of(self.region, narrow(rank)))?;
        Ok(bytes as usize / size_of::<T>())
    }

    /// Is a process's part mapped here, so that operations are copies?
    pub fn is_mapped(&self, rank: usize) -> Result<bool> {
        self.armci.with(|core, _| core.is_mapped(self.region, narrow(rank)))
    }

    /// Writes elements at `at` of a process's part.
    pub fn put(&self, data: &[T], rank: usize, at: usize) -> Result<()> {
        let counts = [size_of_val(data) as i64];
        self.run(What::Put(source(data)), rank, at, row(&counts))
    }

    /// Reads elements at `at` of a process's part.
    pub fn get(&self, into: &mut [T], rank: usize, at: usize) -> Result<()> {
        let counts = [size_of_val(into) as i64];
        self.run(What::Get(target(into)), rank, at, row(&counts))
    }

    /// Writes a patch of elements.
    pub fn put_strided(
        &self,
        data: &[T],
        from: Patch,
        rank: usize,
        to: Patch,
        counts: &[usize],
    ) -> Result<()> {
        let how = Scaled::of::<T>(&from, &to, counts, data.len())?;
        let data = &data[from.at.min(data.len())..];
        self.run(What::Put(source(data)), rank, to.at, how.strides())
    }

    /// Reads a patch of elements.
    pub fn get_strided(
        &self,
        into: &mut [T],
        to: Patch,
        rank: usize,
        from: Patch,
        counts: &[usize],
    ) -> Result<()> {
        let how = Scaled::of::<T>(&to, &from, counts, into.len())?;
        let at = to.at.min(into.len());
        let into = &mut into[at..];
        self.run(What::Get(target(into)), rank, from.at, how.strides())
    }

    fn run(&self, what: What, rank: usize, at: usize, how: Strides) -> Result<()> {
        let place = self.place(rank, at);
        self.armci.with(|core, driver| core.transfer(driver, what, place, how, Later::No))
    }

    pub(crate) fn armci(&self) -> &Armci {
        &self.armci
    }

    /// Is it the same memory?
    pub(crate) fn is(&self, other: &Memory<T>) -> bool {
        self.armci.is(&other.armci) && self.region == other.region
    }

    pub(crate) fn place(&self, rank: usize, at: usize) -> Place {
        let at = at.checked_mul(size_of::<T>()).map_or(u64::MAX, |at| at as u64);
        Place { region: self.region, rank: narrow(rank), at }
    }
}

impl<T: Element> Memory<T> {
    /// Adds `factor` times elements to those at `at` of a process's part, each of them atomically.
    pub fn acc(&self, factor: T, data: &[T], rank: usize, at: usize) -> Result<()> {
        let counts = [size_of_val(data) as i64];
        self.run(What::Acc(source(data), factor.factor()), rank, at, row(&counts))
    }

    /// Adds a patch of elements.
    pub fn acc_strided(
        &self,
        factor: T,
        data: &[T],
        from: Patch,
        rank: usize,
        to: Patch,
        counts: &[usize],
    ) -> Result<()> {
        let how = Scaled::of::<T>(&from, &to, counts, data.len())?;
        let data = &data[from.at.min(data.len())..];
        self.run(What::Acc(source(data), factor.factor()), rank, to.at, how.strides())
    }
}

macro_rules! rmw {
    ($($ty:ty: $add:ident $swap:ident $as:ty),*) => {
        $(impl Memory<$ty> {
            /// Adds to the element at `at` of a process's part, atomically; gives what was there before.
            pub fn fetch_add(&self, rank: usize, at: usize, value: $ty) -> Result<$ty> {
                let place = self.place(rank, at);
                self.armci.with(|core, driver| Ok(core.rmw(driver, Rmw::$add(value as $as), place)? as $ty))
            }

            /// Replaces the element at `at` of a process's part, atomically; gives what was there before.
            pub fn swap(&self, rank: usize, at: usize, value: $ty) -> Result<$ty> {
                let place = self.place(rank, at);
                self.armci.with(|core, driver| Ok(core.rmw(driver, Rmw::$swap(value as $as), place)? as $ty))
            }
        })*
    };
}
rmw!(i32: Add32 Swap32 i32, u32: Add32 Swap32 i32, i64: Add64 Swap64 i64, u64: Add64 Swap64 i64);

impl<T: Datum> Drop for Memory<T> {
    fn drop(&mut self) {
        // As in `Armci`.
        if std::thread::panicking() || self.armci.comm().has_failed() {
            return;
        }
        let freed = self.armci.with(|core, driver| core.free(driver, self.region));
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// Strides and counts in bytes.
pub(crate) struct Scaled {
    here: Vec<i64>,
    there: Vec<i64>,
    counts: Vec<i64>,
}

impl Scaled {
    /// Of elements, all of which are among `len` here. What is there, its window checks.
    pub(crate) fn of<T>(here: &Patch, there: &Patch, counts: &[usize], len: usize) -> Result<Scaled> {
        let wrong = |text: String| Err(MpiError::new(ErrorClass::Count, text));
        let levels = counts.len().wrapping_sub(1);
        if here.strides.len() != levels || there.strides.len() != levels {
            return wrong(format!(
                "{} counts with {} strides here and {} there",
                counts.len(),
                here.strides.len(),
                there.strides.len()
            ));
        }
        let reach = || {
            let mut end = here.at.checked_add(counts[0])?;
            for (count, stride) in counts[1..].iter().zip(here.strides) {
                end = end.checked_add(count.checked_sub(1)?.checked_mul(*stride)?)?;
            }
            Some(end)
        };
        let is_empty = counts.contains(&0);
        if !is_empty && reach().is_none_or(|end| end > len) {
            return wrong(format!(
                "counts {counts:?} with strides {:?} from {} on: there are {len}",
                here.strides, here.at
            ));
        }
        let bytes = |elements: &usize| {
            let bytes = elements.checked_mul(size_of::<T>()).and_then(|bytes| i64::try_from(bytes).ok());
            bytes
                .ok_or_else(|| MpiError::new(ErrorClass::Count, format!("a distance of {elements} elements")))
        };
        let all = |elements: &[usize]| elements.iter().map(bytes).collect::<Result<Vec<i64>>>();
        let mut counted = all(&counts[..1])?;
        counted.extend(counts[1..].iter().map(|count| i64::try_from(*count).unwrap_or(i64::MAX)));
        Ok(Scaled { here: all(here.strides)?, there: all(there.strides)?, counts: counted })
    }

    pub(crate) fn strides(&self) -> Strides<'_> {
        Strides { here: &self.here, there: &self.there, counts: &self.counts }
    }
}

/// Elements in a row.
fn row(counts: &[i64; 1]) -> Strides<'_> {
    Strides { here: &[], there: &[], counts }
}

/// A rank that is too large stays invalid.
fn narrow(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}
