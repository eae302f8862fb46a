//! Memory that processes share: a window for each allocation, open for everybody from its beginning to its end.
use super::{Core, Driver};
use mpi::core::{Assert, Coll, CommId, Data, NewWindow, Peer, TypeId, WinFlavor, WinId, registry};
use mpi::{ErrorClass, MpiError, RecvBuf, Result};

/// A piece of memory that processes have allocated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub(super) u32);

/// A place in a process's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which memory.
    pub region: RegionId,
    /// Whose part, by the rank among those who have allocated it.
    pub rank: u32,
    /// Bytes from the beginning of that part.
    pub at: u64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) win: WinId,
    pub(super) parts: Vec<Part>,
    /// Is something under way to a part of which it is not known whether it is done?
    pub(super) dirty: Vec<bool>,
}

/// What a process has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: u64,
    /// Where it is in memory here, if it is mapped.
    pub(super) here: usize,
    /// Where its owner has it.
    pub(super) there: usize,
}

impl Part {
    pub(super) fn is_near(&self) -> bool {
        self.here != 0
    }
}

impl Core {
    /// Collective over `comm`: everybody brings so many bytes, zero at first.
    pub fn malloc(&mut self, driver: &mut impl Driver, comm: CommId, bytes: u64) -> Result<RegionId> {
        let new = NewWindow {
            flavor: WinFlavor::Allocate,
            base: RecvBuf::NONE,
            bytes: i64::try_from(bytes).unwrap_or(-1),
            disp_unit: 1,
            info: Some(registry().info_with(vec![("banyan_rma".into(), "auto".into())])),
        };
        let made = driver.call(|mpi| mpi.win_make(comm, new));
        let freed = registry().info_free(new.info.expect("set above"));
        let (win, making) = made?;
        driver.settle(making)?;
        freed?;
        // Nobody ever locks it alone, so that nobody's lock need be asked for.
        let open = Assert { no_check: true, ..Assert::default() };
        let opening = driver.call(|mpi| mpi.win_lock_all(win, open))?;
        driver.settle(opening)?;
        let parts = parts(driver, comm, win)?;
        let region = Region { win, dirty: vec![false; parts.len()], parts };
        let free = self.regions.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.regions.push(None);
            self.regions.len() - 1
        });
        self.regions[at] = Some(region);
        Ok(RegionId(at as u32))
    }

    /// Collective over those who have allocated it. What they have begun on it is done.
    pub fn free(&mut self, driver: &mut impl Driver, region: RegionId) -> Result<()> {
        let win = self.region(region)?.win;
        let closing = driver.call(|mpi| mpi.win_unlock_all(win))?;
        driver.settle(closing)?;
        let freeing = driver.call(|mpi| mpi.win_free(win))?;
        driver.settle(freeing)?;
        self.dirty.retain(|(dirty, _)| *dirty != region);
        self.regions[region.0 as usize] = None;
        Ok(())
    }

    /// How many bytes a process has brought.
    pub fn bytes_of(&self, region: RegionId, rank: u32) -> Result<u64> {
        Ok(self.part(region, rank)?.bytes)
    }

    /// Is a process's part mapped here?
    pub fn is_mapped(&self, region: RegionId, rank: u32) -> Result<bool> {
        Ok(self.part(region, rank)?.is_near())
    }

    pub(super) fn region(&self, region: RegionId) -> Result<&Region> {
        let found = self.regions.get(region.0 as usize).and_then(Option::as_ref);
        found.ok_or_else(|| MpiError::new(ErrorClass::Win, format!("there is no memory {}", region.0)))
    }

    pub(super) fn part(&self, region: RegionId, rank: u32) -> Result<&Part> {
        let parts = &self.region(region)?.parts;
        parts.get(rank as usize).ok_or_else(|| {
            let text = format!("rank {rank} of memory that {} processes share", parts.len());
            MpiError::new(ErrorClass::Rank, text)
        })
    }
}

/// What everybody has brought, and where it is.
fn parts(driver: &mut impl Driver, comm: CommId, win: WinId) -> Result<Vec<Part>> {
    let (size, own) = driver.call(|mpi| Ok((mpi.comm_size(comm)?, mpi.win_memory(win)?)))?;
    let mine = [own.1 as u64, if own.1 > 0 { own.0 as u64 } else { 0 }];
    let mut all = vec![0u64; 2 * size as usize];
    let send = Data::new(crate::slices::source(&mine), 2, TypeId::UINT64_T);
    let recv = Data::new(crate::slices::target(&mut all), 2, TypeId::UINT64_T);
    let request = driver.call(|mpi| mpi.icollective(comm, Coll::Allgather { send, recv }))?;
    driver.wait(request)?;
    let part = |(rank, facts): (usize, &[u64])| {
        let (here, _, _) = driver.call(|mpi| mpi.win_shared_query(win, Peer::Rank(rank as i32)))?;
        Ok(Part { bytes: facts[0], here, there: facts[1] as usize })
    };
    all.chunks(2).enumerate().map(part).collect()
}
