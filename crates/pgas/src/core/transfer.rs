//! Put, get and accumulate: of bytes in a row, with strides, or of segments that are anywhere.
use super::handles::Later;
use super::regions::Place;
use super::{Core, Driver};
pub use mpi::core::Factor;
pub use mpi::core::Strided as Strides;
use mpi::core::{Data, Mpi, OpId, Peer, Remote, RequestId, TypeId, WinId};
use mpi::{ErrorClass, MpiError, RecvBuf, Result, Scratch, SendBuf};

/// What an operation does, and the memory here.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Copies to the other's memory.
    Put(SendBuf),
    /// Copies from it.
    Get(RecvBuf),
    /// Adds elements times a factor to those of the other's memory, each atomically.
    Acc(SendBuf, Factor),
}

impl What {
    /// The datatype of the smallest part that is moved, and its bytes.
    fn part(self) -> (TypeId, usize) {
        match self {
            What::Put(_) | What::Get(_) => (TypeId::BYTE, 1),
            What::Acc(_, factor) => (factor.part(), factor.part_bytes()),
        }
    }

    /// Bytes in a row are whole elements.
    fn check_row(self, bytes: i64) -> Result<()> {
        match self {
            What::Acc(_, factor) if !(bytes as u64).is_multiple_of(factor.bytes() as u64) => {
                let text = format!("{bytes} bytes in a row of elements of {} bytes", factor.bytes());
                Err(MpiError::new(ErrorClass::Type, text))
            }
            _ => Ok(()),
        }
    }
}

/// Segments of one length: where they are here, from the operation's buffer on, and there.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    /// Of each, in bytes.
    pub bytes: i64,
    /// Distances from the buffer here.
    pub here: &'a [i64],
    /// Distances from the first place there.
    pub there: &'a [i64],
}

/// Bytes of all of it.
fn bytes_of(how: &Strides) -> Result<u64> {
    let levels = how.counts.len().wrapping_sub(1);
    if how.here.len() != levels || how.there.len() != levels {
        let text = format!(
            "{} counts with {} strides here and {} there",
            how.counts.len(),
            how.here.len(),
            how.there.len()
        );
        return Err(MpiError::new(ErrorClass::Count, text));
    }
    let product = how.counts.iter().try_fold(1u64, |all, count| all.checked_mul(u64::try_from(*count).ok()?));
    product.ok_or_else(|| MpiError::new(ErrorClass::Count, format!("counts {:?}", how.counts)))
}

/// An operation as a window takes it.
pub(super) struct Call {
    win: WinId,
    what: What,
    /// Elements here, as number and type.
    here: (i64, TypeId),
    there: Remote,
}

impl Call {
    /// Bytes that are in a row here and there, however the program has described them, and travel without a message.
    pub(super) fn bytes_in_row(&self, mpi: &Mpi) -> Result<Option<u64>> {
        if matches!(self.what, What::Acc(..)) {
            return Ok(None);
        }
        let here = mpi.type_in_row(self.here.1, self.here.0)?;
        let there = mpi.type_in_row(self.there.ty, self.there.count)?;
        Ok(here.and(there))
    }
}

impl Core {
    /// An operation; with `Later::No` the memory here may be used again when it returns.
    #[inline]
    pub fn transfer(
        &mut self,
        driver: &mut impl Driver,
        what: What,
        place: Place,
        how: Strides,
        later: Later,
    ) -> Result<()> {
        if let (Ok(region), What::Put(_) | What::Get(_)) = (self.region(place.region), what) {
            let win = region.win;
            let done = driver.call(|mpi| {
                Ok(match what {
                    What::Put(from) => mpi.put_strided_short(win, from, place.rank, place.at, how),
                    What::Get(into) => mpi.get_strided_short(win, into, place.rank, place.at, how),
                    What::Acc(..) => false,
                })
            })?;
            if done {
                return self.look_for_messages(driver);
            }
        }
        self.transfer_long(driver, what, place, how, later)
    }

    fn transfer_long(
        &mut self,
        driver: &mut impl Driver,
        what: What,
        place: Place,
        how: Strides,
        later: Later,
    ) -> Result<()> {
        let bytes = bytes_of(&how)?;
        self.part(place.region, place.rank)?;
        self.check_handle(later)?;
        if bytes == 0 {
            return Ok(());
        }
        what.check_row(how.counts[0])?;
        let (what, product) = self.scaled(driver, what, how)?;
        let dense = dense(how.counts);
        let here = if product.is_some() { &dense } else { how.here };
        let (win, part) = (self.region(place.region)?.win, what.part());
        let call = driver.call(|mpi| {
            let there = remote(place, self.elements(mpi, part, how.there, how.counts)?);
            Ok(Call { win, what, here: self.elements(mpi, part, here, how.counts)?, there })
        })?;
        self.start(driver, call, place, later, product)
    }

    /// The same of segments.
    pub fn transfer_segments(
        &mut self,
        driver: &mut impl Driver,
        what: What,
        place: Place,
        how: Segments,
        later: Later,
    ) -> Result<()> {
        self.part(place.region, place.rank)?;
        self.check_handle(later)?;
        let bytes = u64::try_from(how.bytes).ok().and_then(|bytes| bytes.checked_mul(how.here.len() as u64));
        let Some(bytes) = bytes.filter(|_| how.here.len() == how.there.len()) else {
            let text = format!("{} and {} segments of {} bytes", how.here.len(), how.there.len(), how.bytes);
            return Err(MpiError::new(ErrorClass::Count, text));
        };
        if bytes == 0 {
            return Ok(());
        }
        what.check_row(how.bytes)?;
        let (win, part) = (self.region(place.region)?.win, what.part());
        let count = how.bytes / part.1 as i64;
        let (types, product) = driver.call(|mpi| {
            let here = mpi.type_hindexed_block(count, how.here, part.0)?;
            mpi.type_commit(here)?;
            let there = mpi.type_hindexed_block(count, how.there, part.0)?;
            mpi.type_commit(there)?;
            let product = match what {
                What::Acc(from, factor) if !factor.is_one() => {
                    Some(mpi.scaled(Data::new(from, 1, here), factor)?)
                }
                _ => None,
            };
            Ok(([here, there], product))
        })?;
        let (what, here) = match (&product, what) {
            (Some(product), What::Acc(_, factor)) => {
                (What::Acc(product.as_send(), factor), ((bytes / part.1 as u64) as i64, part.0))
            }
            _ => (what, (1, types[0])),
        };
        let call = Call { win, what, here, there: remote(place, (1, types[1])) };
        let started = self.start(driver, call, place, later, product);
        // Operations that are under way keep their datatypes.
        driver.call(|mpi| types.into_iter().try_for_each(|ty| mpi.type_free(ty)))?;
        started
    }

    /// The same inside this process's own memory, of which others need not know.
    pub fn transfer_own(
        &mut self,
        driver: &mut impl Driver,
        what: What,
        other: RecvBuf,
        how: Strides,
    ) -> Result<()> {
        if bytes_of(&how)? == 0 {
            return Ok(());
        }
        what.check_row(how.counts[0])?;
        let (what, product) = self.scaled(driver, what, how)?;
        let dense = dense(how.counts);
        let here = if product.is_some() { &dense } else { how.here };
        driver.call(|mpi| {
            let (count, ty) = self.elements(mpi, what.part(), here, how.counts)?;
            let (others, other_ty) = self.elements(mpi, what.part(), how.there, how.counts)?;
            let other = Data::new(other, others, other_ty);
            match what {
                What::Put(from) => mpi.copy(Data::new(from, count, ty), other),
                What::Get(into) => mpi.copy(other.as_source(), Data::new(into, count, ty)),
                What::Acc(from, _) => mpi.add(Data::new(from, count, ty), other),
            }
        })?;
        self.look_for_messages(driver)
    }

    fn start(
        &mut self,
        driver: &mut impl Driver,
        call: Call,
        place: Place,
        later: Later,
        product: Option<Scratch>,
    ) -> Result<()> {
        let near = self.part(place.region, place.rank)?.is_near();
        if !near && later == Later::No {
            self.keep_order(driver, &call, place)?;
        }
        let gathers = !near && self.gathers(later);
        let request =
            driver.call(|mpi| if near || gathers { begin(mpi, &call) } else { request(mpi, &call) })?;
        if near {
            return self.look_for_messages(driver);
        }
        if gathers || !matches!(call.what, What::Get(_)) {
            self.is_dirty(place);
        }
        match later {
            Later::Handle(id) if gathers => self.hold(id, (place.region, place.rank), product),
            _ if request == RequestId::SENT => Ok(()),
            _ => {
                let rank = self.world_rank(place.region, place.rank);
                self.keep(driver, later, (request, rank), product)
            }
        }
    }

    /// The operation, of elements that have been multiplied if there is a factor.
    fn scaled(
        &mut self,
        driver: &mut impl Driver,
        what: What,
        how: Strides,
    ) -> Result<(What, Option<Scratch>)> {
        let What::Acc(from, factor) = what else { return Ok((what, None)) };
        if factor.is_one() {
            return Ok((what, None));
        }
        let product = driver.call(|mpi| {
            let (count, ty) = self.elements(mpi, what.part(), how.here, how.counts)?;
            mpi.scaled(Data::new(from, count, ty), factor)
        })?;
        Ok((What::Acc(product.as_send(), factor), Some(product)))
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
}

fn remote(place: Place, (count, ty): (i64, TypeId)) -> Remote {
    let disp = i64::try_from(place.at).unwrap_or(i64::MAX);
    Remote { peer: Peer::Rank(i32::try_from(place.rank).unwrap_or(i32::MAX)), disp, count, ty }
}

/// Begins it, for a synchronization to end.
fn begin(mpi: &mut Mpi, call: &Call) -> Result<RequestId> {
    let (count, ty) = call.here;
    match call.what {
        What::Put(from) => mpi.win_put(call.win, Data::new(from, count, ty), call.there)?,
        What::Get(into) => mpi.win_get(call.win, Data::new(into, count, ty), call.there)?,
        What::Acc(from, _) => {
            mpi.win_accumulate(call.win, Data::new(from, count, ty), call.there, OpId::SUM)?;
        }
    }
    Ok(RequestId::SENT)
}

/// Begins it, so that it leaves at once.
fn request(mpi: &mut Mpi, call: &Call) -> Result<RequestId> {
    let (count, ty) = call.here;
    match call.what {
        What::Put(from) => mpi.win_rput(call.win, Data::new(from, count, ty), call.there),
        What::Get(into) => mpi.win_rget(call.win, Data::new(into, count, ty), call.there),
        What::Acc(from, _) => {
            mpi.win_raccumulate(call.win, Data::new(from, count, ty), call.there, OpId::SUM)
        }
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
