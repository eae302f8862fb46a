//! What is not known to be done at its target: fences, barriers, and the order of blocking operations.
use super::regions::{Place, RegionId};
use super::transfer::Call;
use super::{Core, Driver};
use mpi::Result;
use mpi::core::{Coll, RequestId};

/// Operations up to this length go as messages behind those before them; longer ones, if in a row, may be copied past these.
const MESSAGE_MAX: u64 = 4 << 10;

/// So many fences come to a look for messages where all memory is mapped.
const FENCES_PER_LOOK: u32 = 16;

/// So many operations on mapped memory come to a look for messages where there is memory that is not.
const NEAR_PER_LOOK: u32 = 16;

impl Core {
    /// Everything that was begun towards a process is done there. `rank` is one of all processes.
    pub fn fence(&mut self, driver: &mut impl Driver, rank: u32) -> Result<()> {
        self.fence_of(driver, Some(rank))
    }

    /// Everything that was begun is done.
    pub fn all_fence(&mut self, driver: &mut impl Driver) -> Result<()> {
        self.fence_of(driver, None)
    }

    /// Collective: everything that anybody has begun is done.
    pub fn barrier(&mut self, driver: &mut impl Driver) -> Result<()> {
        let others = self.barrier_begin(driver)?;
        driver.wait(others).map(drop)
    }

    /// Collective: everything that this process has begun is done; the request ends when everybody has come.
    pub fn barrier_begin(&mut self, driver: &mut impl Driver) -> Result<RequestId> {
        self.all_fence(driver)?;
        driver.call(|mpi| mpi.icollective(self.comm, Coll::Barrier))
    }

    fn fence_of(&mut self, driver: &mut impl Driver, rank: Option<u32>) -> Result<()> {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let mut at = 0;
        while let Some((region, member)) = self.dirty.get(at).copied() {
            if rank.is_some_and(|rank| self.world_rank(region, member) != rank) {
                at += 1;
                continue;
            }
            self.clean(driver, region, member)?;
        }
        // A program may wait in a loop of fences for what others do to its memory.
        self.fences = self.fences.wrapping_add(1);
        if self.has_far || self.fences.is_multiple_of(FENCES_PER_LOOK) {
            driver.call(|mpi| Ok(mpi.progress()))?;
        }
        Ok(())
    }

    /// A blocking operation is about to be sent: may it overtake what is under way, and must not? The window decides by what
    /// the datatypes come to: rows without gaps between them are one row.
    pub(super) fn keep_order(&mut self, driver: &mut impl Driver, call: &Call, place: Place) -> Result<()> {
        if !self.region(place.region)?.dirty[place.rank as usize] {
            return Ok(());
        }
        match driver.call(|mpi| call.bytes_in_row(mpi))? {
            Some(bytes) if bytes > MESSAGE_MAX => self.clean(driver, place.region, place.rank),
            _ => Ok(()),
        }
    }

    /// An operation on mapped memory has ended, which took no message. A program may wait in a loop of them for what
    /// processes elsewhere do, who are served inside calls only.
    #[inline]
    pub(super) fn look_for_messages(&mut self, driver: &mut impl Driver) -> Result<()> {
        if !self.has_far {
            return Ok(());
        }
        self.nears = self.nears.wrapping_add(1);
        if self.nears.is_multiple_of(NEAR_PER_LOOK) {
            driver.call(|mpi| Ok(mpi.progress()))?;
        }
        Ok(())
    }

    /// Something was sent.
    pub(super) fn is_dirty(&mut self, place: Place) {
        let region = self.regions[place.region.0 as usize].as_mut().expect("an operation was begun on it");
        if !std::mem::replace(&mut region.dirty[place.rank as usize], true) {
            self.dirty.push((place.region, place.rank));
        }
    }

    /// Everything that was begun on a process's part is done.
    pub(super) fn clean(&mut self, driver: &mut impl Driver, region: RegionId, rank: u32) -> Result<()> {
        let win = self.region(region)?.win;
        let flush = driver.call(|mpi| mpi.win_flush(win, Some(rank as i32)))?;
        driver.settle(flush)?;
        let of = self.regions[region.0 as usize].as_mut().expect("found above");
        of.dirty[rank as usize] = false;
        self.dirty.retain(|dirty| *dirty != (region, rank));
        Ok(())
    }
}
