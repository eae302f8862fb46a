//! The safe API: a process's part, and what concerns all memory.
use crate::core::{Core, Driver};
use crate::memory::Memory;
use mpi::core::{Mpi, RequestId};
use mpi::{Communicator, Datum, Result};
use std::cell::RefCell;
use std::rc::Rc;

/// ARMCI over the processes of a communicator. Cheap to clone.
#[derive(Clone)]
pub struct Armci {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) comm: Communicator,
    core: RefCell<Option<Core>>,
}

/// The engine of a Rust program.
pub(crate) struct OfComm<'a>(&'a Communicator);

impl OfComm<'_> {
    /// What was begun and cannot be waited for may be under way when its buffers go: that is the end.
    fn or_end<T>(&self, ended: Result<T>) -> Result<T> {
        if let Err(error) = &ended {
            self.0.core(|mpi| -> Result<()> { mpi.abort(1, &error.to_string()) })?;
        }
        ended
    }
}

impl Driver for OfComm<'_> {
    fn call<T>(&mut self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T> {
        self.0.core(call)
    }

    fn wait(&mut self, request: RequestId) -> Result<usize> {
        let ended = self.0.core_wait(request).and_then(|status| status.checked());
        self.or_end(ended.map(|status| status.bytes))
    }

    fn watch(&mut self, ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()> {
        let ended = self.0.core_watch(ready);
        self.or_end(ended)
    }
}

impl Armci {
    /// Collective over the communicator, whose ranks are meant from here on.
    pub fn new(comm: &Communicator) -> Result<Armci> {
        let core = Core::new(&mut OfComm(comm), comm.core_id())?;
        Ok(Armci { inner: Rc::new(Inner { comm: comm.clone(), core: RefCell::new(Some(core)) }) })
    }

    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.inner.comm.rank()
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.inner.comm.size()
    }

    /// The communicator that it was made over: for messages and collectives.
    pub fn comm(&self) -> &Communicator {
        &self.inner.comm
    }

    /// Collective: memory to which this process brings `len` elements, zero at first. Others may bring more or less.
    pub fn malloc<T: Datum>(&self, len: usize) -> Result<Memory<T>> {
        Memory::new(self, len)
    }

    /// Everything that this process has begun towards another is done there.
    pub fn fence(&self, rank: usize) -> Result<()> {
        self.with(|core, driver| core.fence(driver, u32::try_from(rank).unwrap_or(u32::MAX)))
    }

    /// Everything that this process has begun is done.
    pub fn all_fence(&self) -> Result<()> {
        self.with(|core, driver| core.all_fence(driver))
    }

    /// Collective: everything that anybody has begun is done.
    pub fn barrier(&self) -> Result<()> {
        self.with(|core, driver| core.barrier(driver))
    }

    /// Is it the same, and not only over the same processes?
    pub(crate) fn is(&self, other: &Armci) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }

    /// One call of the core.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut Core, &mut OfComm) -> Result<T>) -> Result<T> {
        let mut core = self.inner.core.borrow_mut();
        call(core.as_mut().expect("there until it is dropped"), &mut OfComm(&self.inner.comm))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A process that panics or leaves with an error ends the job: it does not wait for those who go on.
        if std::thread::panicking() || self.comm.has_failed() {
            return;
        }
        if let Some(core) = self.core.get_mut().take() {
            let ended = core.end(&mut OfComm(&self.comm));
            debug_assert!(ended.is_ok(), "{ended:?}");
        }
    }
}
