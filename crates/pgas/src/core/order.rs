//! What is not known to be done at its target: fences, barriers, and the order of blocking operations.
use super::regions::{Place, RegionId};
use super::{Core, Driver};
use mpi::Result;
use mpi::core::Coll;

/// Operations up to this length go as messages behind those before them; longer ones, if in a row, may be copied past these.
const MESSAGE_MAX: u64 = 4 << 10;

/// So many fences come to a look for messages where all memory is mapped.
const FENCES_PER_LOOK: u32 = 16;

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
        self.all_fence(driver)?;
        let request = driver.call(|mpi| mpi.icollective(self.comm, Coll::Barrier))?;
        driver.wait(request).map(drop)
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

    /// An operation is about to be sent: may it overtake what is under way, and must not?
    pub(super) fn keep_order(
        &mut self,
        driver: &mut impl Driver,
        place: Place,
        bytes: u64,
        in_row: bool,
    ) -> Result<()> {
        let is_dirty = self.region(place.region)?.dirty[place.rank as usize];
        if is_dirty && in_row && bytes > MESSAGE_MAX {
            return self.clean(driver, place.region, place.rank);
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
