//! The process's one engine, and how a C call gets hold of it.
//!
//! Below `MPI_THREAD_MULTIPLE` entering costs one load: the program promised one call at a time. At
//! `MPI_THREAD_MULTIPLE` a lock guards the engine, and whoever waits gives it up between polls and while it sleeps.
//! Callbacks of the program run while nobody is inside (they may call MPI).
use crate::abi::Abi;
use mpi::core::{Focus, Mpi, RequestId, Status, UserReduce, Waited, enter_call};
use mpi::{Backoff, Nap, Rest, Result};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How calls come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Not at all: nobody uses the engine (see [`crate::life`]).
    Closed = 0,
    /// One at a time.
    Single = 1,
    /// From several threads at once.
    Threaded = 2,
}

/// Is added to a phase in which calls come in, where the program is checked: the short way in does not look for that.
const CHECKED: u8 = 2;

struct Engine {
    phase: AtomicU8,
    lock: Mutex<()>,
    mpi: UnsafeCell<Option<Mpi>>,
}

// SAFETY: `mpi` is reached only through `Call`, which holds the lock in phase `Threaded`; in phase `Single`
// the program has promised that calls do not overlap (MPI-5 11.6).
unsafe impl Sync for Engine {}

static ENGINE: Engine = Engine { phase: AtomicU8::new(0), lock: Mutex::new(()), mpi: UnsafeCell::new(None) };

/// The present phase.
#[inline(always)]
pub fn phase() -> Phase {
    match ENGINE.phase.load(Acquire) {
        0 => Phase::Closed,
        word if word == Phase::Single as u8 || word == Phase::Single as u8 + CHECKED => Phase::Single,
        _ => Phase::Threaded,
    }
}

/// Is the program checked?
fn is_checked() -> bool {
    ENGINE.phase.load(Relaxed) > Phase::Threaded as u8
}

/// Brings in the engine that this process has from now on.
#[inline(never)]
pub fn install(mpi: Box<Mpi>) {
    mpi::core::set_called(called);
    let _guard = lock();
    // SAFETY: nobody is inside: the phase is `Closed`, in which `Call::enter` refuses.
    unsafe { *ENGINE.mpi.get() = Some(*mpi) };
}

/// Lets calls in as `phase` says, or no more. The caller knows that nobody is inside: no call is under way when the
/// first user comes or the last one goes, nor when the one thread of the process asks for more (MPI-5 11.2, 11.6).
pub fn set_phase(phase: Phase) {
    let _guard = lock();
    let mut word = phase as u8;
    // SAFETY: nobody is inside, as the caller knows.
    if let Some(mpi) = unsafe { (*ENGINE.mpi.get()).as_mut() } {
        if phase == Phase::Threaded {
            mpi.allow_threads();
        }
        if phase != Phase::Closed && mpi.rigor().is_some() {
            word += CHECKED;
        }
    }
    ENGINE.phase.store(word, Release);
}

/// The last user goes: lets no more calls in and, when nobody is inside, lets `end` have the engine.
pub fn close(end: impl FnOnce(&mut Mpi)) {
    ENGINE.phase.store(Phase::Closed as u8, Release);
    with_closed(&lock(), end);
}

/// Does what is left to do at the exit of a process, unless another thread is inside.
pub fn at_exit(end: impl FnOnce(&mut Mpi)) {
    if let Ok(guard) = ENGINE.lock.try_lock() {
        with_closed(&guard, end);
    }
}

/// Looks at the engine without being a call of the program; `None` if there has been none. Who looks from another thread
/// than the one that may call has been given a level for it (see [`crate::life`]).
pub fn look<R>(look: impl FnOnce(&Mpi) -> R) -> Option<R> {
    let _guard = (phase() != Phase::Single).then(lock);
    // SAFETY: with the lock nobody else is inside; in phase `Single` nobody else may call.
    unsafe { (*ENGINE.mpi.get()).as_ref() }.map(look)
}

fn with_closed(_guard: &MutexGuard<'static, ()>, end: impl FnOnce(&mut Mpi)) {
    if phase() == Phase::Closed {
        // SAFETY: nobody comes in while the phase is `Closed`, and with the lock nobody is inside any more.
        if let Some(mpi) = unsafe { (*ENGINE.mpi.get()).as_mut() } {
            end(mpi);
        }
    }
}

#[inline(always)]
fn lock() -> MutexGuard<'static, ()> {
    match ENGINE.lock.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => lock_behind_others(),
    }
}

/// Threads that wait for the lock.
static WAITING: AtomicU32 = AtomicU32::new(0);
/// Times that one of them got it.
static TURNS: AtomicU32 = AtomicU32::new(0);
/// Times that the lock was given back while somebody waited.
static PASSED_OVER: AtomicU32 = AtomicU32::new(0);
/// After so many of them, one of those who wait comes first. Each time would cost every call a switch of threads.
const PASSED_OVER_MAX: u32 = 16;
/// A thread that has found so many messages without leaving the engine lets others of its core run.
const STAYED_MAX: u32 = 16;
/// Most yields until a thread that was woken has its turn.
const GIVE_WAY_MAX: u32 = 1000;

#[cold]
fn lock_behind_others() -> MutexGuard<'static, ()> {
    WAITING.fetch_add(1, Relaxed);
    let guard = ENGINE.lock.lock().unwrap_or_else(PoisonError::into_inner);
    WAITING.fetch_sub(1, Relaxed);
    TURNS.fetch_add(1, Relaxed);
    guard
}

/// The lock was given back. A thread that calls all the time would have it again before one that is woken runs, so
/// that it now and then waits until somebody else had it.
#[inline(always)]
fn give_way() {
    if WAITING.load(Relaxed) > 0 {
        let_others_in();
    }
}

#[cold]
fn let_others_in() {
    if !PASSED_OVER.fetch_add(1, Relaxed).is_multiple_of(PASSED_OVER_MAX) {
        return;
    }
    let turns = TURNS.load(Relaxed);
    for _ in 0..GIVE_WAY_MAX {
        if WAITING.load(Relaxed) == 0 || TURNS.load(Relaxed) != turns {
            return;
        }
        std::thread::yield_now();
    }
}

/// Has more than one thread called MPI yet? Most programs that ask for `MPI_THREAD_MULTIPLE` have one caller.
static SEVERAL_CALLERS: AtomicBool = AtomicBool::new(false);

/// Remembers which threads call, before they wait for the lock.
#[inline(always)]
fn note_thread() {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static HERE: u8 = const { 0 } }
    let here = HERE.with(|place| place as *const u8 as usize);
    match FIRST.load(Relaxed) {
        first if first == here => {}
        0 => FIRST.store(here, Relaxed),
        _ => SEVERAL_CALLERS.store(true, Relaxed),
    }
}

/// The function that the program has called last: where its name lies, and above [`NAME_BITS`] how long it is. One store in
/// each call that does not take the short way; the call itself is known to nobody else while it waits.
static CALLED: AtomicU64 = AtomicU64::new(0);
/// Addresses of a process have no more.
const NAME_BITS: u32 = 48;

#[inline(always)]
fn note_called(name: &'static str) {
    let (address, bytes) = (name.as_ptr() as u64, name.len() as u64);
    CALLED.store(if address >> NAME_BITS == 0 { bytes << NAME_BITS | address } else { 0 }, Relaxed);
}

/// Its name; empty before the first one.
pub fn called() -> &'static str {
    let word = CALLED.load(Relaxed);
    let (address, bytes) = (word & ((1 << NAME_BITS) - 1), (word >> NAME_BITS) as usize);
    if address == 0 {
        return "";
    }
    // SAFETY: only `note_called` stores there, address and length of one static string in one word.
    let name = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
    std::str::from_utf8(name).unwrap_or_default()
}

/// Enters where the program is checked, or not at all.
#[cold]
#[inline(never)]
fn enter_checked(name: &'static str) -> Option<MutexGuard<'static, ()>> {
    match phase() {
        Phase::Closed => crate::errors::outside(name),
        Phase::Single => {
            enter_call(name);
            None
        }
        Phase::Threaded => {
            enter_call(name);
            note_thread();
            Some(lock())
        }
    }
}

/// The engine, for a call that needs nothing else: where one thread calls, unchecked. `None`: the call is to be made the
/// long way, by a [`Call`].
#[inline(always)]
pub fn short() -> Option<Short> {
    (ENGINE.phase.load(Acquire) == Phase::Single as u8).then_some(Short(PhantomData))
}

/// A call that is inside the engine and will not leave it before its end; dereferences to it.
#[derive(Debug)]
pub struct Short(PhantomData<*const ()>);

impl Deref for Short {
    type Target = Mpi;
    #[inline(always)]
    fn deref(&self) -> &Mpi {
        // SAFETY: calls do not overlap in the phase that `short` has seen; the engine was installed before it.
        unsafe { (*ENGINE.mpi.get()).as_ref().expect("MPI_Finalize ran inside another MPI call") }
    }
}

impl DerefMut for Short {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Mpi {
        // SAFETY: as in `deref`.
        unsafe { (*ENGINE.mpi.get()).as_mut().expect("MPI_Finalize ran inside another MPI call") }
    }
}

/// A C call that is inside the engine; dereferences to it.
#[derive(Debug)]
pub struct Call<A> {
    /// The function that the program called.
    pub name: &'static str,
    guard: Option<MutexGuard<'static, ()>>,
    /// May what it has sent wait for the next call?
    followed: bool,
    abi: PhantomData<A>,
}

impl<A: Abi> Call<A> {
    /// Enters. While nobody uses the engine the process ends with a message.
    #[inline(always)]
    pub fn enter(name: &'static str) -> Self {
        const SINGLE: u8 = Phase::Single as u8;
        const THREADED: u8 = Phase::Threaded as u8;
        let guard = match ENGINE.phase.load(Acquire) {
            SINGLE => None,
            THREADED => {
                note_thread();
                Some(lock())
            }
            _ => enter_checked(name),
        };
        note_called(name);
        Call { name, guard, followed: false, abi: PhantomData }
    }

    /// Is another thread allowed to call at the same time?
    #[inline(always)]
    pub fn is_threaded(&self) -> bool {
        self.guard.is_some()
    }

    /// Runs `f` while nobody is inside, so that it (or another thread) may call MPI.
    pub fn outside<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.tell_sleepers();
        let threaded = self.guard.take().is_some();
        if threaded {
            give_way();
        }
        let result = f();
        self.guard = threaded.then(lock);
        note_called(self.name);
        if is_checked() {
            enter_call(self.name); // `f` may have called others
        }
        result
    }

    /// The call has looked for something and not found it. A program that does only that lets others run now and then.
    #[inline]
    pub fn in_vain(&mut self, focus: Focus<'_>) {
        self.say_looking(focus);
        if self.looked_in_vain() {
            self.outside(std::thread::yield_now);
        }
    }

    /// Waits for a request, running reduction functions of the program when they are due.
    #[inline(always)]
    pub fn complete(&mut self, request: RequestId) -> Result<Status> {
        self.complete_among(request, Focus::One(request))
    }

    /// The same, for who waits for others too.
    #[inline(always)]
    pub fn complete_among(&mut self, request: RequestId, focus: Focus<'_>) -> Result<Status> {
        if self.is_threaded() {
            self.say_waits(request);
            return self.poll(focus, |call| call.test(request));
        }
        loop {
            match self.wait_among(request, focus)? {
                Waited::Done(status) => return Ok(status),
                Waited::Job(job) => self.run_job(job),
            }
        }
    }

    /// Makes progress until `ready` gives something. It may have much to look at, so that it is asked again only if
    /// something has moved or ended, or somebody else may have been let in.
    pub fn poll<T>(
        &mut self,
        focus: Focus<'_>,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        self.stay(true);
        let mut backoff = Backoff::default();
        let (mut look, mut ended, mut rounds) = (true, 0, 0_u32);
        loop {
            let before = std::mem::replace(&mut ended, self.ended());
            if (look || ended != before)
                && let Some(value) = ready(self).transpose()
            {
                self.stay(false);
                if rounds > 0 && self.is_threaded() {
                    self.let_others_run();
                }
                return value;
            }
            let moved = self.advance();
            if moved {
                backoff = Backoff::default();
            }
            // As long as an answer takes that comes at once, leaving would cost more than staying; but nobody is kept out,
            // and a flood for others is no reason to stay.
            rounds = rounds.saturating_add(1);
            look = moved;
            if self.is_threaded() && rounds < self.rounds_at_once() && WAITING.load(Relaxed) == 0 {
                continue;
            }
            look |= self.is_threaded();
            if !moved {
                self.pause_outside(&mut backoff, focus);
            } else if self.is_threaded() && SEVERAL_CALLERS.load(Relaxed) {
                self.outside(std::thread::yield_now);
            }
        }
    }

    /// A thread whose messages come at once would have its core to itself, while others wait there for theirs.
    fn let_others_run(&mut self) {
        static STAYED: AtomicU32 = AtomicU32::new(0);
        if self.anybody_stays() && STAYED.fetch_add(1, Relaxed).is_multiple_of(STAYED_MAX) {
            self.outside(std::thread::yield_now);
        }
    }

    /// As [`Call::poll`], for what is not told by a message that ends: it is asked each time.
    pub fn until(&mut self, mut ready: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let mut backoff = Backoff::default();
        while !ready(self)? {
            if self.advance() {
                backoff = Backoff::default();
            } else {
                self.pause_outside(&mut backoff, Focus::Anything);
            }
        }
        Ok(())
    }

    /// As [`Call::until`], for what may change with no message at all (a lock in memory that processes share): nobody
    /// sleeps for long. A message wakes the caller all the same, and it notices if its launcher is gone.
    #[cold]
    pub fn watch(&mut self, mut ready: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        self.stay(true);
        let (mut backoff, mut nap, mut rounds) = (Backoff::default(), Nap::default(), 0_u32);
        let ended = loop {
            match ready(self) {
                Ok(false) => {}
                ended => break ended.map(|_| ()),
            }
            let moved = self.advance();
            if moved {
                (backoff, nap) = (Backoff::default(), Nap::default());
            }
            // As in `poll`.
            rounds = rounds.saturating_add(1);
            if self.is_threaded() && rounds < self.rounds_at_once() && WAITING.load(Relaxed) == 0 {
                continue;
            }
            if !moved {
                if self.rest_outside(&mut backoff, nap.most()) {
                    nap.again();
                }
                if self.is_asked() {
                    self.say_where(&backoff, Focus::Anything);
                }
            } else if self.is_threaded() && SEVERAL_CALLERS.load(Relaxed) {
                self.outside(std::thread::yield_now);
            }
        };
        self.stay(false);
        ended
    }

    /// Waits a moment, as the endpoint says. Where other threads may call, nobody waits inside: they need the lock.
    fn pause_outside(&mut self, backoff: &mut Backoff, focus: Focus<'_>) {
        match self.is_threaded() {
            true => _ = self.rest_outside(backoff, Duration::MAX),
            false => self.pause(backoff),
        }
        if self.is_asked() {
            self.say_where(backoff, focus);
        }
    }

    /// Waits a moment outside, as the endpoint says, but sleeps no longer than `most`. Has it slept?
    fn rest_outside(&mut self, backoff: &mut Backoff, most: Duration) -> bool {
        match self.rest(backoff) {
            Rest::Again if !SEVERAL_CALLERS.load(Relaxed) => false,
            Rest::Again | Rest::Yield => {
                self.outside(std::thread::yield_now);
                false
            }
            Rest::Sleep(sleep, due) => {
                self.outside(|| sleep.wait(due.min(most)));
                self.rested();
                true
            }
        }
    }

    /// Makes progress once, running reduction functions of the program that are due. Did anything move?
    pub fn advance(&mut self) -> bool {
        let mut moved = self.progress();
        while let Some(job) = self.next_job() {
            self.run_job(job);
            moved = true;
        }
        moved
    }

    /// What this call has sent may wait for the next one, and travel with what that sends.
    #[inline(always)]
    pub fn is_followed(&mut self) {
        self.followed = true;
    }

    /// Other threads may sleep until what this call has brought to its end.
    #[inline(always)]
    fn tell_sleepers(&mut self) {
        if self.guard.is_some() {
            self.stir();
        }
    }

    #[cold]
    fn run_job(&mut self, job: UserReduce) {
        self.reduce(&job);
        self.job_done(job);
    }

    /// Calls the reduction function of a job.
    pub fn reduce(&mut self, job: &UserReduce) {
        let extent = self.type_extent(job.ty).map_or(0, |(_, extent)| extent);
        self.outside(|| crate::callbacks::reduce::<A>(job, extent));
    }
}

impl<A> Drop for Call<A> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: as in `deref`; nothing else is inside.
        if let Some(mpi) = unsafe { (*ENGINE.mpi.get()).as_mut() } {
            // The program may compute next: what was sent is on its way then.
            if !self.followed {
                mpi.push_out();
            }
            if self.guard.is_some() {
                mpi.stir();
            }
        }
        if let Some(guard) = self.guard.take() {
            drop(guard);
            give_way();
        }
    }
}

impl<A> Deref for Call<A> {
    type Target = Mpi;
    #[inline(always)]
    fn deref(&self) -> &Mpi {
        // SAFETY: `enter` saw an open engine and holds the lock where needed; the reference lives shorter
        // than a call of `outside`, which needs `&mut self`.
        unsafe { (*ENGINE.mpi.get()).as_ref().expect("MPI_Finalize ran inside another MPI call") }
    }
}

impl<A> DerefMut for Call<A> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Mpi {
        // SAFETY: as in `deref`.
        unsafe { (*ENGINE.mpi.get()).as_mut().expect("MPI_Finalize ran inside another MPI call") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine is not there, so that nobody else here takes its lock.
    #[test]
    fn a_thread_that_calls_all_the_time_lets_others_in() {
        const VISITS: u32 = 100;
        /// Far above what it takes, far below what a thread has to itself before one that is woken runs.
        const PASSED_OVER_USUAL_MAX: u32 = 4 * PASSED_OVER_MAX;
        let (calls, visit, over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        let mut passed_over = [0; VISITS as usize + 1];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..VISITS {
                    let before = calls.load(Relaxed);
                    while calls.load(Relaxed) == before {
                        std::thread::yield_now();
                    }
                    drop(lock_behind_others());
                    visit.fetch_add(1, Relaxed);
                }
                over.store(true, Relaxed);
            });
            while !over.load(Relaxed) {
                let guard = lock();
                calls.fetch_add(1, Relaxed);
                (0..5000).for_each(|i| _ = std::hint::black_box(i)); // longer than what is between two calls
                passed_over[visit.load(Relaxed) as usize] += WAITING.load(Relaxed);
                drop(guard);
                give_way();
            }
        });
        // Some visitors may have been kept from their core.
        passed_over.sort_unstable();
        let usual = passed_over[VISITS as usize / 2];
        assert!(usual < PASSED_OVER_USUAL_MAX, "{usual} calls came before one: {passed_over:?}");
    }
}
