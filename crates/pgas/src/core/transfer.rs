//! Put, get and accumulate, of bytes in a row or with strides.
use super::regions::Place;
use super::{Core, Driver};
pub use mpi::core::Factor;
use mpi::core::{Data, Mpi, OpId, Peer, Remote, RequestId, TypeId};
use mpi::{ErrorClass, MpiError, RecvBuf, Result, Scratch, SendBuf};

/// Bytes at regular distances: `counts[0]` in a row, and `counts[i]` times that at a distance of `strides[i - 1]`. Here and there
/// have strides of their own.
#[derive(Clone, Copy, Debug)]
pub struct Strides<'a> {
    /// Distances in this process's memory, one less than counts.
    pub here: &'a [i64],
    /// Distances in the other's.
    pub there: &'a [i64],
    /// Bytes in a row, and how often.
    pub counts: &'a [i64],
}

impl<'a> Strides<'a> {
    /// Bytes in a row, whose number is all of `counts`.
    pub fn row(counts: &'a [i64; 1]) -> Self {
        Strides { here: &[], there: &[], counts }
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> Result<u64> {
        let product =
            self.counts.iter().try_fold(1u64, |all, count| all.checked_mul(u64::try_from(*count).ok()?));
        product.ok_or_else(|| MpiError::new(ErrorClass::Count, format!("counts {:?}", self.counts)))
    }

    fn checked(&self) -> Result<u64> {
        let levels = self.counts.len().wrapping_sub(1);
        if self.here.len() != levels || self.there.len() != levels {
            let text = format!(
                "{} counts with {} strides here and {} there",
                self.counts.len(),
                self.here.len(),
                self.there.len()
            );
            return Err(MpiError::new(ErrorClass::Count, text));
        }
        self.bytes()
    }

    fn is_row(&self) -> bool {
        self.counts.len() == 1
    }
}

/// What an operation does, and the memory here.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Put(SendBuf),
    Get(RecvBuf),
    /// Adds; the parts of elements that are added have this type and so many bytes.
    Add(SendBuf, TypeId, usize),
}

impl Core {
    /// Copies to a process's memory; returns when the memory here may be used again.
    pub fn put(&mut self, driver: &mut impl Driver, from: SendBuf, to: Place, how: Strides) -> Result<()> {
        self.transfer(driver, What::Put(from), to, how)
    }

    /// Copies from a process's memory.
    pub fn get(&mut self, driver: &mut impl Driver, into: RecvBuf, from: Place, how: Strides) -> Result<()> {
        self.transfer(driver, What::Get(into), from, how)
    }

    /// Adds elements times a factor to those of a process's memory, atomically.
    pub fn acc(
        &mut self,
        driver: &mut impl Driver,
        factor: Factor,
        from: SendBuf,
        to: Place,
        how: Strides,
    ) -> Result<()> {
        let part = (factor.part(), factor.part_bytes());
        if how.checked()? == 0 {
            return Ok(());
        }
        if !(how.counts[0] as usize).is_multiple_of(factor.bytes()) {
            let text = format!("{} bytes in a row of elements of {} bytes", how.counts[0], factor.bytes());
            return Err(MpiError::new(ErrorClass::Type, text));
        }
        if factor.is_one() {
            return self.transfer(driver, What::Add(from, part.0, part.1), to, how);
        }
        let product = self.scaled(driver, factor, from, how)?;
        let dense = dense(how.counts);
        let how = Strides { here: &dense, ..how };
        self.transfer(driver, What::Add(product.as_send(), part.0, part.1), to, how)
    }

    /// Elements without gaps, times a factor.
    fn scaled(
        &mut self,
        driver: &mut impl Driver,
        factor: Factor,
        from: SendBuf,
        how: Strides,
    ) -> Result<Scratch> {
        let part = (factor.part(), factor.part_bytes());
        driver.call(|mpi| {
            let (count, ty) = self.elements(mpi, part, how.here, how.counts)?;
            mpi.scaled(Data::new(from, count, ty), factor)
        })
    }

    /// Number and type of what strides describe.
    fn elements(
        &mut self,
        mpi: &mut Mpi,
        part: (TypeId, usize),
        strides: &[i64],
        counts: &[i64],
    ) -> Result<(i64, TypeId)> {
        match counts {
            [bytes] => Ok((bytes / part.1 as i64, part.0)),
            _ => Ok((1, self.shapes.of(mpi, part, strides, counts)?)),
        }
    }

    pub(super) fn transfer(
        &mut self,
        driver: &mut impl Driver,
        what: What,
        place: Place,
        how: Strides,
    ) -> Result<()> {
        let bytes = how.checked()?;
        let near = self.part(place.region, place.rank)?.is_near();
        let win = self.region(place.region)?.win;
        if bytes == 0 {
            return Ok(());
        }
        if !near {
            self.keep_order(driver, place, bytes, how.is_row())?;
        }
        let part = match what {
            What::Put(_) | What::Get(_) => (TypeId::BYTE, 1),
            What::Add(_, ty, bytes) => (ty, bytes),
        };
        let request = driver.call(|mpi| {
            let (count, ty) = self.elements(mpi, part, how.there, how.counts)?;
            let disp = i64::try_from(place.at).unwrap_or(i64::MAX);
            let remote = Remote { peer: Peer::Rank(place.rank as i32), disp, count, ty };
            let (count, ty) = self.elements(mpi, part, how.here, how.counts)?;
            match what {
                What::Put(from) => match near {
                    true => mpi.win_put(win, Data::new(from, count, ty), remote).map(|()| RequestId::SENT),
                    false => mpi.win_rput(win, Data::new(from, count, ty), remote),
                },
                What::Get(into) => match near {
                    true => mpi.win_get(win, Data::new(into, count, ty), remote).map(|()| RequestId::SENT),
                    false => mpi.win_rget(win, Data::new(into, count, ty), remote),
                },
                What::Add(from, ..) => match near {
                    true => mpi
                        .win_accumulate(win, Data::new(from, count, ty), remote, OpId::SUM)
                        .map(|()| RequestId::SENT),
                    false => mpi.win_raccumulate(win, Data::new(from, count, ty), remote, OpId::SUM),
                },
            }
        })?;
        if !near && !matches!(what, What::Get(_)) {
            self.is_dirty(place);
        }
        if request == RequestId::SENT { Ok(()) } else { driver.wait(request) }
    }
}

/// Strides of the same without gaps.
fn dense(counts: &[i64]) -> Vec<i64> {
    let mut bytes = 1;
    let within = counts.iter().map(|count| {
        bytes *= count;
        bytes
    });
    within.take(counts.len() - 1).collect()
}
