//! The core: memory by addresses, operations on bytes. It owns what ARMCI knows and windows do not.
//!
//! | room | what happens there |
//! |---|---|
//! | `regions` | memory that processes share, and where an address of it is |
//! | `shapes` | strides as datatypes, kept for the next operation |
//! | `transfer` | put, get, accumulate |
//! | `order` | what is not known to be done: fences and barriers |
//! | `rmw` | read-modify-write |
//!
//! **Order.** Blocking operations towards one process take effect in the order in which they are called (ARMCI's location
//! consistency), which windows do not promise. What is mapped here is done at once. What travels leaves at once, and in
//! messages, which keep their order; only what is long and in a row is copied by the network past the messages before it, and
//! waits until these are done ([`order`]).
mod order;
mod regions;
mod rmw;
mod shapes;
mod transfer;

use mpi::Result;
use mpi::core::{CommId, Mpi, RequestId, Synchronizing};
pub use regions::{Place, RegionId};
pub use rmw::Rmw;
pub use transfer::{Factor, Strides};

use regions::Region;
use shapes::Shapes;

/// Who has the engine, and waits in its way.
pub trait Driver {
    /// One call of the engine.
    fn call<T>(&mut self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T>;
    /// Waits for a request.
    fn wait(&mut self, request: RequestId) -> Result<()>;
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
    regions: Vec<Option<Region>>,
    /// Where something was sent of which it is not known whether it is done.
    dirty: Vec<(RegionId, u32)>,
    shapes: Shapes,
}

impl Core {
    /// Collective: begins, with a communicator of its own.
    pub fn new(driver: &mut impl Driver, comm: CommId) -> Result<Core> {
        let (comm, rank, size) = driver.call(|mpi| {
            let comm = mpi.comm_dup(comm)?;
            Ok((comm, mpi.comm_rank(comm)?, mpi.comm_size(comm)?))
        })?;
        Ok(Core { comm, rank, size, regions: Vec::new(), dirty: Vec::new(), shapes: Shapes::default() })
    }

    /// Collective: gives back what is left.
    pub fn end(mut self, driver: &mut impl Driver) -> Result<()> {
        self.barrier(driver)?;
        for region in (0..self.regions.len()).map(|at| RegionId(at as u32)) {
            if self.regions[region.0 as usize].is_some() {
                self.free(driver, region)?;
            }
        }
        driver.call(|mpi| {
            self.shapes.clear(mpi)?;
            mpi.comm_free(self.comm)
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
