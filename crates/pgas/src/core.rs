//! The core: memory by addresses, operations on bytes. It owns what ARMCI knows and windows do not.
//!
//! | room | what happens there |
//! |---|---|
//! | `regions` | memory that processes share, by region or by address |
//! | `groups` | processes that allocate and meet apart from others |
//! | `domains` | processes that have each other's memory mapped |
//! | `shapes` | strides as datatypes, kept for the next operation |
//! | `transfer` | put, get, accumulate |
//! | `handles` | operations that are waited for later |
//! | `order` | what is not known to be done: fences and barriers |
//! | `rmw` | read-modify-write |
//! | `mutexes` | locks, and notices from one process to another |
//!
//! **Order.** Blocking operations towards one process take effect in the order in which they are called (ARMCI's location
//! consistency), which windows do not promise. What is mapped here is done at once. What travels leaves at once, and in
//! messages, which keep their order; only what is long and in a row is copied by the network past the messages before it, and
//! waits until these are done (`order`).
mod domains;
mod groups;
mod handles;
mod mutexes;
mod order;
mod regions;
mod rmw;
mod shapes;
mod transfer;

pub use domains::Domains;
pub use groups::{Group, GroupId};
use handles::Handles;
pub use handles::{HandleId, Later};
use mpi::Result;
use mpi::core::{CommId, Mpi, RequestId, Synchronizing};
use mutexes::Mutexes;
pub use mutexes::Turn;
pub use regions::{Place, RegionId};
use regions::{Region, Spans};
pub use rmw::Rmw;
use shapes::Shapes;
pub use transfer::{Factor, Segments, Strides, What};

/// Who has the engine, and waits in its way.
pub trait Driver {
    /// One call of the engine.
    fn call<T>(&mut self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T>;
    /// Waits for a request; gives the bytes that have come.
    fn wait(&mut self, request: RequestId) -> Result<usize>;
    /// Waits until something holds that may come about with no message at all.
    fn watch(&mut self, ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()>;

    /// Waits for a synchronization of a window.
    fn settle(&mut self, mut what: Synchronizing) -> Result<()> {
        self.watch(move |mpi| mpi.win_ended(&mut what))
    }
}

/// One process's part.
#[derive(Debug)]
pub struct Core {
    comm: CommId,
    rank: u32,
    size: u32,
    groups: Vec<Option<Group>>,
    regions: Vec<Option<Region>>,
    spans: Spans,
    /// Where something was sent of which it is not known whether it is done.
    dirty: Vec<(RegionId, u32)>,
    shapes: Shapes,
    handles: Handles,
    mutexes: Option<Mutexes>,
    /// Is there memory that is not mapped here, so that messages come for this process's?
    has_far: bool,
    fences: u32,
    nears: u32,
}

impl Core {
    /// Collective: begins, with a communicator of its own.
    pub fn new(driver: &mut impl Driver, comm: CommId) -> Result<Core> {
        let (comm, rank, size) = driver.call(|mpi| {
            let comm = mpi.comm_dup(comm)?;
            Ok((comm, mpi.comm_rank(comm)?, mpi.comm_size(comm)?))
        })?;
        Ok(Core {
            comm,
            rank,
            size,
            groups: vec![Some(Group::all(comm, size))],
            regions: Vec::new(),
            spans: Spans::default(),
            dirty: Vec::new(),
            shapes: Shapes::default(),
            handles: Handles::default(),
            mutexes: None,
            has_far: false,
            fences: 0,
            nears: 0,
        })
    }

    /// Collective: gives back what is left. Memory of groups goes in the order in which it was made, as all members know it.
    pub fn end(mut self, driver: &mut impl Driver) -> Result<()> {
        self.wait_all(driver)?;
        self.barrier(driver)?;
        if self.mutexes.is_some() {
            self.mutexes_destroy(driver)?;
        }
        let mut left: Vec<_> = self.regions.iter().flatten().map(|region| region.serial).collect();
        left.sort_unstable();
        for serial in left {
            let is_it =
                |region: &Option<Region>| region.as_ref().is_some_and(|region| region.serial == serial);
            let at = self.regions.iter().position(is_it).expect("listed above");
            self.free(driver, RegionId(at as u32))?;
        }
        driver.call(|mpi| {
            self.shapes.clear(mpi)?;
            let mut comms = self.groups.drain(..).flatten().filter_map(|group| group.comm().ok());
            comms.try_for_each(|comm| mpi.comm_free(comm))
        })
    }

    /// This process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The communicator of its own.
    pub fn comm(&self) -> CommId {
        self.comm
    }
}
