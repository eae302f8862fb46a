//! Windows of the safe API: memory that processes read, write and combine without each other's help.
//!
//! No reference to a window's memory is ever given out, since others change it at any time: a process reads and writes
//! its own part as it does everybody's, inside an epoch, or by [`Window::read`] and [`Window::write`] outside. An epoch
//! is a scope: it borrows the buffers of its operations and ends when they have.
use crate::buffer::{RecvBuf, elements, room_for, zeros};
use crate::communicator::{Communicator, peer};
use crate::core::{Assert, GroupId, Mpi, NewWindow, Remote, Synchronizing, WinFlavor, WinId};
use crate::datum::{Datum, Number, Op};
use crate::error::{ErrorClass, Result, fail};
use crate::scope::EndOnPanic;
use crate::universe::{Engine, Here, On};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;

/// How others are kept away while a process accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Others may have a shared lock at the same time.
    Shared,
    /// Nobody else has a lock.
    Exclusive,
}

/// Elements of every process of a communicator, zero at first. Collective to make and to drop.
///
/// ```
/// # let world = mpi::init()?.world();
/// let counter = world.window::<u64>(if world.rank() == 0 { 1 } else { 0 })?;
/// let ticket = counter.lock_all(|all| all.fetch_and_op(0, 0, 1, mpi::Op::Sum))?;
/// println!("rank {} was number {ticket}", world.rank());
/// # Ok::<(), mpi::MpiError>(())
/// ```
pub struct Window<T: Datum> {
    comm: Communicator,
    id: WinId,
    len: usize,
    /// Is the body of a fence running?
    fenced: Cell<bool>,
    marker: PhantomData<T>,
}

impl Communicator {
    /// Collective: a window to which this process brings memory for `len` elements.
    pub fn window<T: Datum>(&self, len: usize) -> Result<Window<T>> {
        let new = NewWindow {
            flavor: WinFlavor::Allocate,
            base: RecvBuf::NONE,
            bytes: len.checked_mul(size_of::<T>()).and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1),
            disp_unit: size_of::<T>() as i64,
            info: None,
        };
        let here = self.here("window");
        let (id, made) = self.engine().call(here, |mpi| mpi.win_make(self.id(), new))?;
        self.engine().settle(here, made)?;
        Ok(Window { comm: self.clone(), id, len, fenced: Cell::new(false), marker: PhantomData })
    }
}

impl<T: Datum> Drop for Window<T> {
    fn drop(&mut self) {
        // A process that panics or leaves with an error ends the job: it does not wait for those who go on.
        let (here, engine) = (self.here("window"), self.comm.engine());
        if std::thread::panicking() || engine.has_failed() {
            return;
        }
        let freed =
            engine.call(here, |mpi| mpi.win_free(self.id)).and_then(|freeing| engine.settle(here, freeing));
        debug_assert!(freed.is_ok(), "no epoch outlives its window");
    }
}

impl<T: Datum> Window<T> {
    /// How many elements this process has brought.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has it brought none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads elements of this process's own part, outside of any epoch.
    pub fn read(&self, at: usize, into: &mut [T]) -> Result<()> {
        let own = self.comm.rank();
        self.lock(own, Lock::Shared, |mine| mine.get(into, own, at))
    }

    /// Writes elements of this process's own part, outside of any epoch.
    pub fn write(&self, data: &[T], at: usize) -> Result<()> {
        let own = self.comm.rank();
        self.lock(own, Lock::Exclusive, |mine| mine.put(data, own, at))
    }

    /// Collective: everybody may access everybody's memory in `body`, and what was done there is done for all when this
    /// returns.
    ///
    /// ```
    /// # let world = mpi::init()?.world();
    /// let window = world.window::<f64>(1)?;
    /// let right = (world.rank() + 1) % world.size();
    /// window.fence(|all| all.put(&[0.5], right, 0))?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    ///
    /// What is put must live until then:
    /// ```compile_fail
    /// # let world = mpi::init().unwrap().world();
    /// let window = world.window::<f64>(1).unwrap();
    /// window.fence(|all| {
    ///     let gone = [0.5];
    ///     all.put(&gone, 0, 0)
    /// });
    /// ```
    pub fn fence<'env, R>(&'env self, body: impl FnOnce(&Access<'env, T>) -> Result<R>) -> Result<R> {
        let (id, engine, here) = (self.id, self.comm.engine(), self.here("fence"));
        let open = Assert { no_precede: true, ..Assert::default() };
        let close = Assert { no_succeed: true, ..Assert::default() };
        let begun = self.begin(here, |mpi| mpi.win_fence(id, open))?;
        engine.settle(here, begun)?;
        self.fenced.set(true);
        self.epoch(here, self.accessed(None), body, || {
            self.fenced.set(false);
            engine.call(here, |mpi| mpi.win_fence(id, close))
        })
    }

    /// Accesses the memory of one process, which need not do anything for it.
    pub fn lock<'env, R>(
        &'env self,
        rank: usize,
        lock: Lock,
        body: impl FnOnce(&Locked<'env, T>) -> Result<R>,
    ) -> Result<R> {
        let (id, engine, here) = (self.id, self.comm.engine(), self.here("lock"));
        let (only, rank) = (rank, i32::try_from(rank).unwrap_or(i32::MAX));
        let exclusive = lock == Lock::Exclusive;
        let begun = self.begin(here, |mpi| mpi.win_lock(id, rank, exclusive, Assert::default()))?;
        engine.settle(here, begun)?;
        let locked = Locked(self.accessed(Some(only)));
        self.epoch(here, locked, body, || engine.call(here, |mpi| mpi.win_unlock(id, rank)))
    }

    /// Accesses the memory of everybody with shared locks.
    pub fn lock_all<'env, R>(&'env self, body: impl FnOnce(&Locked<'env, T>) -> Result<R>) -> Result<R> {
        let (id, engine, here) = (self.id, self.comm.engine(), self.here("lock_all"));
        let begun = self.begin(here, |mpi| mpi.win_lock_all(id, Assert::default()))?;
        engine.settle(here, begun)?;
        self.epoch(here, Locked(self.accessed(None)), body, || {
            engine.call(here, |mpi| mpi.win_unlock_all(id))
        })
    }

    /// Lets these processes access this one's memory while `body` runs, and waits until they are done. Each of them
    /// calls [`Window::access`].
    pub fn expose<R>(&self, to: &[usize], body: impl FnOnce() -> Result<R>) -> Result<R> {
        let (id, engine, here) = (self.id, self.comm.engine(), self.here("expose"));
        self.with_group(here, to, |group| {
            engine.call(here, |mpi| mpi.win_post(id, group, Assert::default()))
        })?;
        let result = body();
        let waited =
            engine.call(here, |mpi| mpi.win_wait(id)).and_then(|waiting| engine.settle(here, waiting));
        let result = engine.note(here, result)?;
        waited?;
        Ok(result)
    }

    /// Accesses the memory of these processes, each of which calls [`Window::expose`] with this one.
    pub fn access<'env, R>(
        &'env self,
        to: &[usize],
        body: impl FnOnce(&Access<'env, T>) -> Result<R>,
    ) -> Result<R> {
        let (id, engine, here) = (self.id, self.comm.engine(), self.here("access"));
        let start = |group| self.begin(here, |mpi| mpi.win_start(id, group, Assert::default()));
        let begun = self.with_group(here, to, start)?;
        engine.settle(here, begun)?;
        self.epoch(here, self.accessed(None), body, || engine.call(here, |mpi| mpi.win_complete(id)))
    }

    /// A group of ranks for as long as `call` takes.
    fn with_group<R>(
        &self,
        here: Here,
        ranks: &[usize],
        call: impl FnOnce(GroupId) -> Result<R>,
    ) -> Result<R> {
        let engine = self.comm.engine();
        let ranks: Vec<i32> = ranks.iter().map(|rank| i32::try_from(*rank).unwrap_or(i32::MAX)).collect();
        let group = engine.call(here, |mpi| {
            let all = mpi.win_group(self.id)?;
            let some = mpi.group_incl(all, &ranks);
            mpi.group_free(all)?;
            some
        })?;
        let result = call(group);
        engine.mpi.borrow_mut().group_free(group)?;
        result
    }

    fn here(&self, call: &'static str) -> Here {
        Here { call, on: On::Win(self.id) }
    }

    fn accessed(&self, only: Option<usize>) -> Access<'_, T> {
        Access { window: self, only, marker: PhantomData }
    }

    /// Begins an epoch, but not in the middle of a fence's, which the engine would take to be over.
    fn begin<R>(&self, here: Here, call: impl FnOnce(&mut Mpi) -> Result<R>) -> Result<R> {
        self.comm.engine().call(here, |mpi| match self.fenced.get() {
            true => {
                fail(ErrorClass::RmaSync, "inside a fence of the same window: use what its function is given")
            }
            false => call(mpi),
        })
    }

    /// Runs the body of an epoch that has begun, and ends it, also after an error.
    fn epoch<A, R>(
        &self,
        here: Here,
        access: A,
        body: impl FnOnce(&A) -> Result<R>,
        end: impl FnOnce() -> Result<Synchronizing>,
    ) -> Result<R> {
        let engine = self.comm.engine();
        let guard = EndOnPanic(&self.comm);
        let result = body(&access);
        if let Err(error) = end().and_then(|ending| engine.settle(here, ending)) {
            // Operations may be under way whose buffers are about to go.
            engine.mpi.borrow_mut().abort(1, &error.to_string());
        }
        std::mem::forget(guard);
        engine.note(here, result)
    }
}

/// Where operations on memory of others are begun. What they read and write here is borrowed until the epoch has ended.
pub struct Access<'env, T: Datum> {
    window: &'env Window<T>,
    /// The only process that is accessed. Its lock is given back before those of others that this process may have, and
    /// waits for this process's operations alone.
    only: Option<usize>,
    /// Invariant, so that it cannot be shortened to let a buffer go early.
    marker: PhantomData<&'env mut &'env ()>,
}

impl<'env, T: Datum> Access<'env, T> {
    /// Begins to write elements at `at` of a process's part.
    pub fn put(&self, data: &'env [T], to: usize, at: usize) -> Result<()> {
        let remote = self.remote(to, at, data.len())?;
        let data = self.engine().sent(data)?;
        self.call("put", |mpi, win| mpi.win_put(win, data, remote))
    }

    /// Begins to read elements at `at` of a process's part.
    pub fn get(&self, into: &'env mut [T], from: usize, at: usize) -> Result<()> {
        let remote = self.remote(from, at, into.len())?;
        let room = self.engine().received(into)?;
        self.call("get", |mpi, win| mpi.win_get(win, room, remote))
    }

    fn call<R>(&self, call: &'static str, run: impl FnOnce(&mut Mpi, WinId) -> Result<R>) -> Result<R> {
        self.engine().call(self.window.here(call), |mpi| run(mpi, self.window.id))
    }

    fn engine(&self) -> &'env Engine {
        self.window.comm.engine()
    }

    /// This process, if operations on it end with this epoch.
    fn allowed(&self, rank: usize) -> Result<usize> {
        match self.only.filter(|only| *only != rank) {
            Some(only) => {
                let text = format!("rank {rank} is accessed through the lock of rank {only}");
                self.engine().note(self.window.here("lock"), fail(ErrorClass::RmaSync, text))
            }
            None => Ok(rank),
        }
    }

    /// Elements of a process's part.
    fn remote(&self, rank: usize, at: usize, count: usize) -> Result<Remote> {
        let (ty, peer) = (self.engine().datatype::<T>()?, peer(self.allowed(rank)?));
        Ok(Remote { peer, disp: place(at), count: count as i64, ty })
    }
}

/// Combining takes numbers.
impl<'env, T: Number> Access<'env, T> {
    /// Begins to combine elements with those at `at` of a process's part, each of them atomically.
    pub fn accumulate(&self, data: &'env [T], to: usize, at: usize, op: Op) -> Result<()> {
        let remote = self.remote(to, at, data.len())?;
        let data = self.engine().sent(data)?;
        self.call("accumulate", |mpi, win| mpi.win_accumulate(win, data, remote, op.id()))
    }

    /// As [`Access::accumulate`], and gives what was there before. Both slices have one length.
    pub fn get_accumulate(
        &self,
        data: &'env [T],
        into: &'env mut [T],
        to: usize,
        at: usize,
        op: Op,
    ) -> Result<()> {
        if data.len() != into.len() {
            let text = format!("{} elements are combined, and {} fetched", data.len(), into.len());
            return self.engine().note(self.window.here("get_accumulate"), fail(ErrorClass::Count, text));
        }
        let remote = self.remote(to, at, data.len())?;
        let (data, room) = (self.engine().sent(data)?, self.engine().received(into)?);
        self.call("get_accumulate", |mpi, win| mpi.win_get_accumulate(win, data, room, remote, op.id()))
    }
}

/// Access under a lock: operations may be waited for before it is given back.
pub struct Locked<'env, T: Datum>(Access<'env, T>);

impl<'env, T: Datum> Deref for Locked<'env, T> {
    type Target = Access<'env, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Datum> Locked<'_, T> {
    /// Waits until what was begun for a process is done there.
    pub fn flush(&self, rank: usize) -> Result<()> {
        self.flush_as("flush", Some(i32::try_from(rank).unwrap_or(i32::MAX)))
    }

    /// Waits until what was begun for anybody is done there.
    pub fn flush_all(&self) -> Result<()> {
        self.flush_as("flush_all", None)
    }

    fn flush_as(&self, call: &'static str, rank: Option<i32>) -> Result<()> {
        let begun = self.call(call, |mpi, win| mpi.win_flush(win, rank))?;
        self.engine().settle(self.window.here(call), begun)
    }
}

impl<T: Number> Locked<'_, T> {
    /// Combines one element with that at `at` of a process's part, atomically, and gives what was there before.
    pub fn fetch_and_op(&self, rank: usize, at: usize, value: T, op: Op) -> Result<T> {
        let ty = self.engine().datatype::<T>()?;
        self.fetch("fetch_and_op", rank, [value], |mpi, win, [value], into| {
            let (from, into) = (elements(std::slice::from_ref(value)), room_for(into));
            mpi.win_fetch_and_op(win, from, into, ty, peer(rank), place(at), op.id())
        })
    }

    /// Stores `value` at `at` of a process's part if `expected` is there, atomically; gives what was there. Integers
    /// only.
    pub fn compare_and_swap(&self, rank: usize, at: usize, expected: T, value: T) -> Result<T> {
        let ty = self.engine().datatype::<T>()?;
        self.fetch("compare_and_swap", rank, [expected, value], |mpi, win, [expected, value], into| {
            let from = elements(std::slice::from_ref(value));
            let compare = elements(std::slice::from_ref(expected));
            mpi.win_compare_and_swap(win, from, compare, room_for(into), ty, peer(rank), place(at))
        })
    }

    /// Begins something that gives one element, and waits for it.
    fn fetch<const N: usize>(
        &self,
        call: &'static str,
        rank: usize,
        given: [T; N],
        begin: impl FnOnce(&mut Mpi, WinId, &[T; N], &mut [T]) -> Result<()>,
    ) -> Result<T> {
        self.allowed(rank)?;
        let mut used = Box::new((given, zeros(1)));
        let (given, into) = &mut *used;
        self.call(call, |mpi, win| begin(mpi, win, given, into))?;
        match self.flush_as(call, Some(i32::try_from(rank).unwrap_or(i32::MAX))) {
            Ok(()) => Ok(used.1[0]),
            Err(error) => {
                // It may still be under way, until the epoch ends, which then ends the job.
                std::mem::forget(used);
                Err(error)
            }
        }
    }
}

/// Where an element is. What is too far stays out of every process's part.
fn place(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}
