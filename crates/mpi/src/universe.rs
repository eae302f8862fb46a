//! A process's part in a job, from start to end.
use crate::communicator::Communicator;
use crate::core::{
    Blocking, CommId, Mpi, RequestId, Status as CoreStatus, Synchronizing, UserReduce, Waited,
};
use crate::error::{ErrorClass, Result, fail};
use net::{Backoff, Nap, Rest};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Joins the job that this process was started in; alone, the job has one process.
///
/// The process leaves the job when the last handle (universe, communicator) is dropped, and waits there for the
/// others. A panic ends the job instead, and so does a process whose last operation failed (it has most likely
/// returned the error from `main`): others may wait for it forever.
///
/// ```no_run
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
    Ok(Universe { engine: Rc::new(Engine { mpi, failed: Cell::new(None) }) })
}

/// This process in its job.
#[derive(Clone)]
pub struct Universe {
    engine: Rc<Engine>,
}

impl Universe {
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
    /// ```no_run
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
    /// The error of the last operation.
    failed: Cell<Option<ErrorClass>>,
}

impl Engine {
    /// One call of the engine.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T> {
        let result = {
            let mut mpi = self.mpi.borrow_mut();
            let result = call(&mut mpi);
            // The program may compute next: what was sent is on its way then.
            mpi.push_out();
            result
        };
        self.note(result)
    }

    /// Remembers whether the last operation failed.
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        self.failed.set(result.as_ref().err().map(|error| error.class));
        result
    }

    /// Runs a blocking call to its end. `job` runs the program's reduction function.
    pub(crate) fn block(
        &self,
        call: impl FnOnce(&mut Mpi) -> Result<Blocking>,
        job: impl FnMut(&UserReduce),
    ) -> Result<CoreStatus> {
        let status = match self.call(call)? {
            Blocking::Done(status) => status,
            Blocking::Pending(request) => self.wait(request, job)?,
        };
        self.note(status.checked())
    }

    /// Waits for a request.
    pub(crate) fn wait(&self, request: RequestId, mut job: impl FnMut(&UserReduce)) -> Result<CoreStatus> {
        loop {
            // The engine is not borrowed while the function runs: it may use communicators.
            match self.call(|mpi| mpi.wait(request))? {
                Waited::Done(status) => return Ok(status),
                Waited::Job(due) => {
                    job(&due);
                    self.mpi.borrow_mut().job_done(due);
                }
            }
        }
    }
}

impl Engine {
    /// Did the last operation fail?
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Waits for a synchronization of a window. A lock may come with no message at all: nobody sleeps for long.
    pub(crate) fn settle(&self, mut what: Synchronizing) -> Result<()> {
        self.watch(|mpi| mpi.win_ended(&mut what))
    }

    /// Waits until something holds that may come about with no message at all.
    pub(crate) fn watch(&self, mut ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()> {
        let (mut backoff, mut nap) = (Backoff::default(), Nap::default());
        while !self.call(&mut ready)? {
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
        }
        Ok(())
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
        if let Some(class) = self.failed.get() {
            mpi.abort(1, &format!("a process left after an error ({})", class.text()));
        }
        if let Err(error) = mpi.finish() {
            mpi.abort(1, &error.to_string());
        }
    }
}
