//! Operations that go on while the program computes, soundly: a scope borrows their buffers and does not end
//! before they have.
use crate::collectives::reduction;
use crate::communicator::{Communicator, Source, Status, Tag, peer, source};
use crate::core::{Coll, Dest, Mode, RequestId, Status as CoreStatus};
use crate::datum::{Datum, Op, received, sent};
use crate::error::Result;
use crate::universe::no_job;
use std::cell::RefCell;
use std::marker::PhantomData;

impl Communicator {
    /// Runs `body`, which may start operations, then waits for all of them.
    ///
    /// ```no_run
    /// # let world = mpi::init()?.world();
    /// let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    /// let (mine, mut theirs) = ([1.0, 2.0], [0.0; 2]);
    /// world.scope(|s| {
    ///     s.irecv(&mut theirs, left, 0)?;
    ///     s.isend(&mine, right, 0)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(theirs, mine);
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let scope = Scope { comm: self, open: RefCell::new(Vec::new()), marker: PhantomData };
        let guard = EndOnPanic(self);
        let result = body(&scope);
        if result.is_err() {
            scope.cancel_receives();
        }
        let waited = scope.wait_all();
        std::mem::forget(guard);
        let result = self.engine().note(result)?;
        waited?;
        Ok(result)
    }
}

/// A panic leaves operations under way whose buffers are about to go: the job must end here and now.
pub(crate) struct EndOnPanic<'a>(pub(crate) &'a Communicator);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        match self.0.engine().mpi.try_borrow_mut() {
            Ok(mut mpi) => mpi.abort(1, "a process panicked"),
            Err(_) => std::process::abort(),
        }
    }
}

/// Where operations are started. Their buffers are borrowed until the scope has ended.
pub struct Scope<'s, 'env> {
    comm: &'env Communicator,
    open: RefCell<Vec<Option<RequestId>>>,
    /// Invariant in both lifetimes, so that neither can be shortened to let a buffer go early.
    marker: PhantomData<(&'s mut &'s (), &'env mut &'env ())>,
}

/// An operation under way. Dropping it does nothing: the scope waits for it.
pub struct Pending<'s, 'env> {
    scope: &'s Scope<'s, 'env>,
    index: usize,
}

impl<'s, 'env> Scope<'s, 'env> {
    /// Starts to send.
    pub fn isend<T: Datum>(&'s self, data: &'env [T], to: usize, tag: i32) -> Result<Pending<'s, 'env>> {
        self.send(data, to, tag, Mode::Standard)
    }

    /// Starts a send that is complete when the receiver has begun to receive.
    pub fn issend<T: Datum>(&'s self, data: &'env [T], to: usize, tag: i32) -> Result<Pending<'s, 'env>> {
        self.send(data, to, tag, Mode::Synchronous)
    }

    fn send<T: Datum>(
        &'s self,
        data: &'env [T],
        to: usize,
        tag: i32,
        mode: Mode,
    ) -> Result<Pending<'s, 'env>> {
        let (comm, dest) = (self.comm.id(), Dest::new(peer(to), tag));
        let request = self.comm.engine().call(|mpi| mpi.isend(comm, sent(data), dest, mode))?;
        Ok(self.add(request))
    }

    /// Starts to receive.
    pub fn irecv<T: Datum>(
        &'s self,
        data: &'env mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Pending<'s, 'env>> {
        let (comm, source) = (self.comm.id(), source(from, tag));
        let request = self.comm.engine().call(|mpi| mpi.irecv(comm, received(data), source))?;
        Ok(self.add(request))
    }

    /// Starts a barrier.
    pub fn ibarrier(&'s self) -> Result<Pending<'s, 'env>> {
        self.collective(Coll::Barrier)
    }

    /// Starts a broadcast.
    pub fn ibcast<T: Datum>(&'s self, data: &'env mut [T], root: usize) -> Result<Pending<'s, 'env>> {
        self.collective(Coll::Bcast { data: received(data), root: peer(root) })
    }

    /// Starts an allreduce.
    pub fn iallreduce<T: Datum>(
        &'s self,
        data: &'env [T],
        result: &'env mut [T],
        op: Op,
    ) -> Result<Pending<'s, 'env>> {
        let of = self.comm.engine().note(reduction(data, result, op.id()))?;
        self.collective(Coll::Allreduce(of))
    }

    fn collective(&'s self, call: Coll<'_>) -> Result<Pending<'s, 'env>> {
        let request = self.comm.engine().call(|mpi| mpi.icollective(self.comm.id(), call))?;
        Ok(self.add(request))
    }

    fn add(&'s self, request: RequestId) -> Pending<'s, 'env> {
        let mut open = self.open.borrow_mut();
        open.push(Some(request));
        Pending { scope: self, index: open.len() - 1 }
    }

    /// After an error in the body, nobody may be about to send what it waits for.
    fn cancel_receives(&self) {
        let mut mpi = self.comm.engine().mpi.borrow_mut();
        for request in self.open.borrow().iter().flatten() {
            let cancelled = mpi.cancel(*request);
            debug_assert!(cancelled.is_ok());
        }
    }

    /// Waits for everything, also after an error; gives the first one.
    fn wait_all(&self) -> Result<()> {
        let open = std::mem::take(&mut *self.open.borrow_mut());
        let mut first = Ok(());
        for request in open.into_iter().flatten() {
            let done = self.comm.engine().wait(request, no_job).and_then(CoreStatus::checked);
            first = first.and(done.map(|_| ()));
        }
        self.comm.engine().note(first)
    }
}

impl Pending<'_, '_> {
    /// Waits for it.
    pub fn wait(self) -> Result<Status> {
        let request = self.scope.open.borrow_mut()[self.index].take();
        let Some(request) = request else { return Ok(Status::new(&CoreStatus::EMPTY)) };
        let status = self.scope.comm.engine().wait(request, no_job).and_then(CoreStatus::checked)?;
        Ok(Status::new(&status))
    }

    /// Is it complete? Gives its status once.
    pub fn test(&mut self) -> Result<Option<Status>> {
        let Some(request) = self.scope.open.borrow()[self.index] else { return Ok(None) };
        let engine = self.scope.comm.engine();
        let done = engine.call(|mpi| {
            mpi.progress();
            mpi.test(request)
        });
        if !matches!(done, Ok(None)) {
            self.scope.open.borrow_mut()[self.index] = None;
        }
        match done? {
            Some(status) => Ok(Some(Status::new(&status.checked()?))),
            None => Ok(None),
        }
    }
}
