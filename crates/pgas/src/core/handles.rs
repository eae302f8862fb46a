//! Operations that are waited for later, by a handle or all together.
//!
//! What a handle has begun leaves at once, each operation by itself. A handle that *gathers* (ARMCI's aggregate handles) lets
//! windows hold its operations, so that they travel together when it is waited for.
use super::regions::RegionId;
use super::{Core, Driver};
use mpi::core::RequestId;
use mpi::{ErrorClass, MpiError, Result, Scratch};

/// So many operations may be under way without a handle; the oldest is waited for before another begins.
const IMPLICIT_MAX: usize = 1024;

/// An explicit handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleId {
    index: u32,
    generation: u32,
}

impl HandleId {
    /// As a number that is never 0.
    pub fn to_word(self) -> u64 {
        (u64::from(self.generation) << 32) | (u64::from(self.index) + 1)
    }

    /// The handle of such a number.
    pub fn from_word(word: u64) -> Option<HandleId> {
        let index = (word as u32).checked_sub(1)?;
        Some(HandleId { index, generation: (word >> 32) as u32 })
    }
}

/// When an operation's memory here is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// When it returns.
    No,
    /// When this handle has been waited for,
    Handle(HandleId),
    /// when everything without a handle has.
    Implicit,
}

/// One operation that is under way.
#[derive(Debug)]
pub(super) struct Pending {
    request: RequestId,
    /// To which of all processes.
    rank: u32,
    /// What it reads, if that is not the program's.
    _source: Option<Scratch>,
}

#[derive(Debug, Default)]
struct Handle {
    gathers: bool,
    pending: Vec<Pending>,
    /// Where windows hold operations of it, and what these read.
    held: Vec<(RegionId, u32)>,
    sources: Vec<Scratch>,
}

#[derive(Debug, Default)]
pub(super) struct Handles {
    slots: Vec<(u32, Option<Handle>)>,
    free: Vec<u32>,
    implicit: std::collections::VecDeque<Pending>,
}

impl Handles {
    fn get(&mut self, id: HandleId) -> Option<&mut Handle> {
        let (generation, handle) = self.slots.get_mut(id.index as usize)?;
        handle.as_mut().filter(|_| *generation == id.generation)
    }

    fn remove(&mut self, id: HandleId) -> Option<Handle> {
        self.get(id)?;
        let (generation, handle) = &mut self.slots[id.index as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(id.index);
        handle.take()
    }
}

impl Core {
    /// A new handle. One that gathers lets its operations travel together.
    pub fn handle_begin(&mut self, gathers: bool) -> HandleId {
        let handle = Some(Handle { gathers, ..Handle::default() });
        let index = self.handles.free.pop().unwrap_or_else(|| {
            self.handles.slots.push((0, None));
            self.handles.slots.len() as u32 - 1
        });
        let slot = &mut self.handles.slots[index as usize];
        slot.1 = handle;
        HandleId { index, generation: slot.0 }
    }

    /// Is it there?
    pub fn handle_exists(&mut self, handle: HandleId) -> bool {
        self.handles.get(handle).is_some()
    }

    /// Nothing is begun with a handle that is not there.
    pub(super) fn check_handle(&mut self, later: Later) -> Result<()> {
        match later {
            Later::Handle(id) if !self.handle_exists(id) => Err(no_handle()),
            _ => Ok(()),
        }
    }

    /// Does it gather?
    pub(super) fn gathers(&mut self, later: Later) -> bool {
        match later {
            Later::Handle(id) => self.handles.get(id).is_some_and(|handle| handle.gathers),
            _ => false,
        }
    }

    /// An operation is under way with which the caller goes on.
    pub(super) fn keep(
        &mut self,
        driver: &mut impl Driver,
        later: Later,
        (request, rank): (RequestId, u32),
        source: Option<Scratch>,
    ) -> Result<()> {
        let pending = Pending { request, rank, _source: source };
        match later {
            Later::No => driver.wait(request).map(drop),
            Later::Handle(id) => {
                let handle = self.handles.get(id).expect("checked before it was begun");
                handle.pending.push(pending);
                Ok(())
            }
            Later::Implicit => {
                if self.handles.implicit.len() >= IMPLICIT_MAX
                    && let Some(oldest) = self.handles.implicit.pop_front()
                {
                    driver.wait(oldest.request)?;
                }
                self.handles.implicit.push_back(pending);
                Ok(())
            }
        }
    }

    /// Windows hold an operation.
    pub(super) fn hold(
        &mut self,
        id: HandleId,
        place: (RegionId, u32),
        source: Option<Scratch>,
    ) -> Result<()> {
        let handle = self.handles.get(id).expect("checked before it was begun");
        if !handle.held.contains(&place) {
            handle.held.push(place);
        }
        handle.sources.extend(source);
        Ok(())
    }

    /// Waits for everything of a handle, which is gone then.
    pub fn wait(&mut self, driver: &mut impl Driver, id: HandleId) -> Result<()> {
        let handle = self.handles.remove(id).ok_or_else(no_handle)?;
        for (region, rank) in handle.held {
            self.clean(driver, region, rank)?;
        }
        handle.pending.into_iter().try_for_each(|pending| driver.wait(pending.request).map(drop))
    }

    /// Has everything of a handle ended? Then it is gone.
    pub fn test(&mut self, driver: &mut impl Driver, id: HandleId) -> Result<bool> {
        let handle = self.handles.get(id).ok_or_else(no_handle)?;
        if !handle.held.is_empty() {
            return self.wait(driver, id).map(|()| true);
        }
        let ended = driver.call(|mpi| {
            mpi.progress();
            for pending in &handle.pending {
                if !mpi.is_complete(pending.request)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if ended {
            self.wait(driver, id)?;
        }
        Ok(ended)
    }

    /// Waits for everything that was begun without a handle: towards one process, or all.
    pub fn wait_implicit(&mut self, driver: &mut impl Driver, rank: Option<u32>) -> Result<()> {
        let (mut at, mut all) = (0, std::mem::take(&mut self.handles.implicit));
        while at < all.len() {
            if rank.is_some_and(|rank| all[at].rank != rank) {
                at += 1;
                continue;
            }
            let pending = all.remove(at).expect("it is inside");
            driver.wait(pending.request)?;
        }
        self.handles.implicit = all;
        Ok(())
    }

    /// Waits for everything, also that of handles.
    pub fn wait_all(&mut self, driver: &mut impl Driver) -> Result<()> {
        self.wait_implicit(driver, None)?;
        let all = (0..).zip(&self.handles.slots).filter(|(_, (_, handle))| handle.is_some());
        let all: Vec<HandleId> =
            all.map(|(index, (generation, _))| HandleId { index, generation: *generation }).collect();
        all.into_iter().try_for_each(|handle| self.wait(driver, handle))
    }
}

fn no_handle() -> MpiError {
    MpiError::new(ErrorClass::Request, "the handle names no operation that is under way")
}
