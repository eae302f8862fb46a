//! Read-modify-write of one integer.
use super::regions::Place;
use super::{Core, Driver};
use crate::slices::{source, target};
use mpi::Result;
use mpi::core::{OpId, Peer, TypeId};

/// What is done, with which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmw {
    /// Adds to an integer of 32 bits.
    Add32(i32),
    /// Adds to one of 64 bits.
    Add64(i64),
    /// Replaces one of 32 bits,
    Swap32(i32),
    /// of 64 bits.
    Swap64(i64),
}

impl Core {
    /// Does it, atomically; gives what was there before.
    pub fn rmw(&mut self, driver: &mut impl Driver, what: Rmw, at: Place) -> Result<i64> {
        let (ty, op) = match what {
            Rmw::Add32(_) => (TypeId::INT32_T, OpId::SUM),
            Rmw::Add64(_) => (TypeId::INT64_T, OpId::SUM),
            Rmw::Swap32(_) => (TypeId::INT32_T, OpId::REPLACE),
            Rmw::Swap64(_) => (TypeId::INT64_T, OpId::REPLACE),
        };
        match what {
            Rmw::Add32(value) | Rmw::Swap32(value) => self.fetch(driver, value, at, ty, op).map(i64::from),
            Rmw::Add64(value) | Rmw::Swap64(value) => self.fetch(driver, value, at, ty, op),
        }
    }

    fn fetch<T: mpi::Datum>(
        &mut self,
        driver: &mut impl Driver,
        value: T,
        place: Place,
        ty: TypeId,
        op: OpId,
    ) -> Result<T> {
        let near = self.part(place.region, place.rank)?.is_near();
        let win = self.region(place.region)?.win;
        let (given, mut old) = ([value], [value]);
        let (peer, at) = (Peer::Rank(place.rank as i32), i64::try_from(place.at).unwrap_or(i64::MAX));
        let (from, into) = (source(&given), target(&mut old));
        driver.call(|mpi| mpi.win_fetch_and_op(win, from, into, ty, peer, at, op))?;
        if near {
            self.look_for_messages(driver)?;
        } else {
            let flush = driver.call(|mpi| mpi.win_flush(win, Some(place.rank as i32)))?;
            driver.settle(flush)?;
        }
        Ok(old[0])
    }
}
