//! A process's part in a job, from start to end.
use crate::buffer::{elements, room_for};
use crate::communicator::Communicator;
use crate::core::{
    Blocking, CommId, Data, Focus, Mpi, RecvData, RequestId, SendData, Status as CoreStatus, Synchronizing,
    TypeId, UserReduce, Waited, WinId, enter_call,
};
use crate::datum::Datum;
use crate::error::{ErrorClass, MpiError, Result, Site, fail};
use net::{Backoff, Nap, Rest};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Joins the job that this process was started in; alone, the job has one process.
///
/// The process leaves the job when the last handle (universe, communicator) is dropped, and waits there for the
/// others. A panic ends the job instead, and so does a process whose last operation failed (it has most likely
/// returned the error from `main`): others may wait for it forever.
///
/// ```
/// let universe = mpi::init()?;
/// let world = universe.world();
/// let mut sum = [0];
/// world.allreduce(&[world.rank()], &mut sum, mpi::Op::Sum)?;
/// assert_eq!(sum[0], world.size() * (world.size() - 1) / 2);
/// # Ok::<(), mpi::MpiError>(())
/// ```
pub fn init() -> Result<Universe> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::Relaxed) {
        return fail(ErrorClass::Other, "init was called before in this process");
    }
    let mpi = RefCell::new(*Mpi::start()?);
    Ok(Universe { engine: Rc::new(Engine { mpi, failed: RefCell::default(), types: RefCell::default() }) })
}

/// This process in its job.
#[derive(Clone)]
pub struct Universe {
    engine: Rc<Engine>,
}

impl Universe {
    pub(crate) fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// All processes of the job.
    pub fn world(&self) -> Communicator {
        Communicator::predefined(self.engine.clone(), CommId::WORLD)
    }

    /// This process alone.
    pub fn itself(&self) -> Communicator {
        Communicator::predefined(self.engine.clone(), CommId::SELF)
    }

    /// The node (host, or emulated node) of a process, by its rank in the world.
    pub fn node_of(&self, rank: usize) -> usize {
        self.engine.mpi.borrow().node_of(rank as u32) as usize
    }

    /// The processes this one is connected to now, by rank in the world.
    pub fn connected_peers(&self) -> Vec<usize> {
        self.engine.mpi.borrow().connected_peers().into_iter().map(|rank| rank as usize).collect()
    }

    /// Closes the connection to a process, by its rank in the world, once nothing is under way on it: both sides give up what
    /// it takes. It is opened again when it is needed. [`connected_peers`](Self::connected_peers) tells when it is closed;
    /// until then both sides have to call the library now and then.
    pub fn close_connection(&self, rank: usize) {
        if let Ok(rank) = u32::try_from(rank) {
            self.engine.mpi.borrow_mut().close_connection(rank);
        }
    }

    /// A counter of this process, now.
    pub fn stat(&self, stat: net::Stat) -> u64 {
        self.engine.mpi.borrow().stat(stat)
    }

    /// All counters of this process by name, now. `banyan run --help-stats` and [`Stat::line`](net::Stat::line) say
    /// what they mean.
    ///
    /// ```
    /// let universe = mpi::init()?;
    /// for (name, value) in universe.stats() {
    ///     println!("{name} {value}");
    /// }
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn stats(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        net::Stat::ALL.iter().map(|stat| (stat.key(), self.stat(*stat)))
    }

    /// Seconds since some moment.
    pub fn wtime(&self) -> f64 {
        self.engine.mpi.borrow().wtime()
    }

    /// Ends the job with an exit code.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        self.engine.mpi.borrow_mut().abort(code, why)
    }
}

/// The engine and how handles use it.
pub(crate) struct Engine {
    pub(crate) mpi: RefCell<Mpi>,
    /// The error of the last operation, in words.
    failed: RefCell<Option<String>>,
    /// Datatypes of structs and arrays, made when they were first needed.
    types: RefCell<Vec<(std::any::TypeId, TypeId)>>,
}

/// Which call of the safe API this is, for its errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub(crate) call: &'static str,
    pub(crate) on: On,
}

/// What a call works on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Comm(CommId),
    Win(WinId),
}

impl Engine {
    /// One call of the engine.
    pub(crate) fn call<T>(&self, here: Here, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T> {
        enter_call(here.call);
        let result = {
            let mut mpi = self.mpi.borrow_mut();
            let result = call(&mut mpi);
            // The program may compute next: what was sent is on its way then.
            mpi.push_out();
            result
        };
        self.note(here, result)
    }

    /// Remembers whether the last operation failed, and has its error say which one it was.
    #[inline]
    pub(crate) fn note<T>(&self, here: Here, result: Result<T>) -> Result<T> {
        match result {
            Ok(value) => {
                *self.failed.borrow_mut() = None;
                Ok(value)
            }
            Err(error) => Err(self.located(here, error)),
        }
    }

    #[cold]
    fn located(&self, here: Here, error: MpiError) -> MpiError {
        let mpi = self.mpi.borrow();
        let error = error.at(|| Site {
            call: here.call,
            object: match here.on {
                On::Comm(id) => name_of(&mpi, id),
                On::Win(id) => mpi.win_name(id).ok(),
            },
            rank: mpi.comm_rank(CommId::WORLD).unwrap_or(0),
        });
        *self.failed.borrow_mut() = Some(error.to_string());
        error
    }

    /// Runs a blocking call to its end. `job` runs the program's reduction function.
    pub(crate) fn block(
        &self,
        here: Here,
        call: impl FnOnce(&mut Mpi) -> Result<Blocking>,
        job: impl FnMut(&UserReduce),
    ) -> Result<CoreStatus> {
        let status = match self.call(here, call)? {
            Blocking::Done(status) => status,
            Blocking::Pending(request) => self.wait(here, request, job)?,
        };
        self.note(here, status.checked())
    }

    /// Waits for a request.
    pub(crate) fn wait(
        &self,
        here: Here,
        request: RequestId,
        mut job: impl FnMut(&UserReduce),
    ) -> Result<CoreStatus> {
        loop {
            // The engine is not borrowed while the function runs: it may use communicators.
            match self.call(here, |mpi| mpi.wait(request))? {
                Waited::Done(status) => return Ok(status),
                Waited::Job(due) => {
                    job(&due);
                    self.mpi.borrow_mut().job_done(due);
                }
            }
        }
    }

    /// The datatype of elements.
    #[inline]
    pub(crate) fn datatype<T: Datum>(&self) -> Result<TypeId> {
        match T::SHAPE.predefined() {
            Some(ty) => Ok(ty),
            None => self.composed::<T>(),
        }
    }

    /// That of a struct or an array: made once, for as long as the process is in the job.
    fn composed<T: Datum>(&self) -> Result<TypeId> {
        let wanted = std::any::TypeId::of::<T>();
        let mut types = self.types.borrow_mut();
        if let Some((_, ty)) = types.iter().find(|(of, _)| *of == wanted) {
            return Ok(*ty);
        }
        let mut mpi = self.mpi.borrow_mut();
        let ty = T::SHAPE.build(&mut mpi)?;
        mpi.type_commit(ty)?;
        mpi.type_set_name(ty, std::any::type_name::<T>())?;
        types.push((wanted, ty));
        Ok(ty)
    }

    /// The elements of a slice as data to send. The caller keeps the borrow until the operation has completed.
    #[inline]
    pub(crate) fn sent<T: Datum>(&self, slice: &[T]) -> Result<SendData> {
        Ok(Data::new(elements(slice), slice.len() as i64, self.datatype::<T>()?))
    }

    /// The elements of a slice as room for what arrives, as [`Engine::sent`].
    #[inline]
    pub(crate) fn received<T: Datum>(&self, slice: &mut [T]) -> Result<RecvData> {
        Ok(Data::new(room_for(slice), slice.len() as i64, self.datatype::<T>()?))
    }

    /// Did the last operation fail?
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// Waits for a synchronization of a window. A lock may come with no message at all: nobody sleeps for long.
    pub(crate) fn settle(&self, here: Here, mut what: Synchronizing) -> Result<()> {
        self.watch(here, |mpi| mpi.win_ended(&mut what))
    }

    /// Waits until something holds that may come about with no message at all.
    pub(crate) fn watch(&self, here: Here, mut ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()> {
        let (mut backoff, mut nap) = (Backoff::default(), Nap::default());
        while !self.call(here, &mut ready)? {
            let mut mpi = self.mpi.borrow_mut();
            if mpi.progress() {
                backoff = Backoff::default();
                continue;
            }
            match mpi.rest(&mut backoff) {
                Rest::Again => {}
                Rest::Yield => std::thread::yield_now(),
                Rest::Sleep(sleep, most) => {
                    sleep.wait(most.min(nap.most()));
                    mpi.rested();
                    nap.again();
                }
            }
            if mpi.is_asked() {
                mpi.say_where(&backoff, Focus::Anything);
            }
        }
        Ok(())
    }

    /// Waits a moment for what a call needs, and says so if somebody asks where this process is.
    pub(crate) fn idle(&self, backoff: &mut Backoff, focus: Focus<'_>) {
        let mut mpi = self.mpi.borrow_mut();
        mpi.pause(backoff);
        if mpi.is_asked() {
            mpi.say_where(backoff, focus);
        }
    }

    /// Calls until there is an answer, and lets messages come meanwhile.
    pub(crate) fn until<T>(
        &self,
        here: Here,
        mut ready: impl FnMut(&mut Mpi) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(value) = self.call(here, &mut ready)? {
                return Ok(value);
            }
            let moved = self.mpi.borrow_mut().progress();
            match moved {
                true => backoff = Backoff::default(),
                false => self.idle(&mut backoff, Focus::Anything),
            }
        }
    }
}

/// What errors call a communicator: by its name, or by its size.
fn name_of(mpi: &Mpi, comm: CommId) -> Option<String> {
    match mpi.comm_name(comm).ok()? {
        "" => Some(format!("a communicator of {}", mpi.comm_size(comm).ok()?)),
        name => Some(name.into()),
    }
}

/// For calls that combine nothing, or by predefined operations.
pub(crate) fn no_job(_: &UserReduce) {
    unreachable!("no function of the program is under way");
}

impl Drop for Engine {
    fn drop(&mut self) {
        let mpi = self.mpi.get_mut();
        if std::thread::panicking() {
            mpi.abort(1, "a process panicked");
        }
        if let Some(what) = self.failed.get_mut() {
            mpi.abort(1, &format!("a process left after an error: {what}"));
        }
        for (_, ty) in self.types.get_mut().drain(..) {
            let freed = mpi.type_free(ty);
            debug_assert!(freed.is_ok());
        }
        if let Err(error) = mpi.finish() {
            mpi.abort(1, &error.to_string());
        }
    }
}
