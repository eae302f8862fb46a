//! Operations that go on while the program computes, soundly: a scope borrows their buffers and does not end
//! before they have.
mod collectives;

use crate::communicator::{Communicator, Source, Status, Tag, peer, source};
use crate::core::{Dest, Focus, Mode, RequestId, Status as CoreStatus, enter_call};
use crate::datum::Datum;
use crate::error::Result;
use crate::universe::{Here, no_job};
use std::cell::RefCell;
use std::marker::PhantomData;

impl Communicator {
    /// Runs `body`, which may start operations, then waits for all of them.
    ///
    /// It does so after an error of `body`, too. Receives that nothing has come for are cancelled then; sends and collectives
    /// cannot be, since others may be reading their buffers, or writing to them, at that moment. So if `body` fails because
    /// others have gone another way, and they will never receive what it has sent or never join the collective it has begun,
    /// the scope waits for ever, and the error is not seen; a report of a wait that is long (`BANYAN_WAIT_WARN`) names it. Who
    /// would rather end the job than wait, ends it in `body`: a panic does, at once and everywhere.
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
        let result = self.engine().note(self.here("scope"), result)?;
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
    open: RefCell<Vec<Option<Open>>>,
    /// Invariant in both lifetimes, so that neither can be shortened to let a buffer go early.
    marker: PhantomData<(&'s mut &'s (), &'env mut &'env ())>,
}

/// An operation under way: its request, and the call that began it.
#[derive(Clone, Copy)]
struct Open {
    request: RequestId,
    here: Here,
}

/// An operation under way. Dropping it does nothing: the scope waits for it.
pub struct Pending<'s, 'env> {
    scope: &'s Scope<'s, 'env>,
    index: usize,
}

impl<'s, 'env> Scope<'s, 'env> {
    /// Starts to send.
    pub fn isend<T: Datum>(&'s self, data: &'env [T], to: usize, tag: i32) -> Result<Pending<'s, 'env>> {
        self.send("isend", data, Dest::new(peer(to), tag), Mode::Standard)
    }

    /// Starts a send that is complete when the receiver has begun to receive.
    pub fn issend<T: Datum>(&'s self, data: &'env [T], to: usize, tag: i32) -> Result<Pending<'s, 'env>> {
        self.send("issend", data, Dest::new(peer(to), tag), Mode::Synchronous)
    }

    fn send<T: Datum>(
        &'s self,
        call: &'static str,
        data: &'env [T],
        dest: Dest,
        mode: Mode,
    ) -> Result<Pending<'s, 'env>> {
        let (here, data) = (self.comm.here(call), self.comm.engine().sent(data)?);
        let request = self.comm.engine().call(here, |mpi| mpi.isend(self.comm.id(), data, dest, mode))?;
        Ok(self.add(here, request))
    }

    /// Starts to receive.
    pub fn irecv<T: Datum>(
        &'s self,
        data: &'env mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Pending<'s, 'env>> {
        let (here, source) = (self.comm.here("irecv"), source(from, tag));
        let room = self.comm.engine().received(data)?;
        let request = self.comm.engine().call(here, |mpi| mpi.irecv(self.comm.id(), room, source))?;
        Ok(self.add(here, request))
    }

    fn add(&'s self, here: Here, request: RequestId) -> Pending<'s, 'env> {
        let mut open = self.open.borrow_mut();
        open.push(Some(Open { request, here }));
        Pending { scope: self, index: open.len() - 1 }
    }

    /// After an error in the body, nobody may be about to send what it waits for.
    fn cancel_receives(&self) {
        let mut mpi = self.comm.engine().mpi.borrow_mut();
        for open in self.open.borrow().iter().flatten() {
            let cancelled = mpi.cancel(open.request);
            debug_assert!(cancelled.is_ok());
        }
    }

    /// Waits for everything, also after an error; gives the first one.
    fn wait_all(&self) -> Result<()> {
        let open = std::mem::take(&mut *self.open.borrow_mut());
        let mut first = Ok(());
        for open in open.into_iter().flatten() {
            first = first.and(self.ended(open).map(|_| ()));
        }
        self.comm.engine().note(self.comm.here("scope"), first)
    }

    fn ended(&self, Open { request, here }: Open) -> Result<CoreStatus> {
        let engine = self.comm.engine();
        let ended = engine.wait(here, request, no_job).and_then(CoreStatus::checked);
        engine.note(here, ended)
    }
}

impl Pending<'_, '_> {
    /// Waits for it.
    pub fn wait(self) -> Result<Status> {
        let open = self.scope.open.borrow_mut()[self.index].take();
        let Some(open) = open else { return Ok(Status::new(&CoreStatus::EMPTY)) };
        Ok(Status::new(&self.scope.ended(open)?))
    }

    /// Is it complete? Gives its status once.
    pub fn test(&mut self) -> Result<Option<Status>> {
        let Some(Open { request, here }) = self.scope.open.borrow()[self.index] else { return Ok(None) };
        let engine = self.scope.comm.engine();
        let done = engine.call(here, |mpi| {
            mpi.progress();
            let ended = mpi.test(request)?;
            if ended.is_none() {
                enter_call("test"); // and not what began it
                mpi.say_looking(Focus::One(request));
            }
            Ok(ended)
        });
        if !matches!(done, Ok(None)) {
            self.scope.open.borrow_mut()[self.index] = None;
        }
        match done? {
            Some(status) => Ok(Some(Status::new(&engine.note(here, status.checked())?))),
            None => Ok(None),
        }
    }
}
