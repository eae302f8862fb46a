//! The users of the library: the world (from `MPI_Init` to `MPI_Finalize`) and any number of sessions.
//!
//! The first user starts the engine. When the last one goes, what it sent has left the process and calls are refused, but
//! the engine stays: its peers know where it is, and a later session goes on with the same connections. (Starting anew was
//! rejected: launchers take one finalize per process, and peers that still run would meet a stranger.)
//!
//! A process leaves its job once, which waits for all others: in `MPI_Finalize`, or, if it has used sessions before, at its
//! exit, since nobody can know which session is the last. (So a process that goes through `MPI_Finalize` without having
//! used sessions does not get out of it while others wait to meet it in a session.) A foreign launcher, which answers no
//! questions after it was told, is told at the exit in both cases.
//!
//! At the exit of a process whose first session came after `MPI_Finalize` nobody waits for others. With a budget of
//! connections, who has exited then cannot be asked to close one.
use crate::abi::Abi;
use crate::args;
use crate::engine::{self, Phase, phase};
use mpi::MpiError;
use mpi::core::{CommId, Mpi, Rigor, registry};
use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Thread levels, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// One thread.
    Single,
    /// Only the main thread calls.
    Funneled,
    /// One thread calls at a time.
    Serialized,
    /// Anything.
    Multiple,
}

impl Level {
    /// All of them, by name.
    const NAMES: [(&'static str, Level); 4] = [
        ("MPI_THREAD_SINGLE", Level::Single),
        ("MPI_THREAD_FUNNELED", Level::Funneled),
        ("MPI_THREAD_SERIALIZED", Level::Serialized),
        ("MPI_THREAD_MULTIPLE", Level::Multiple),
    ];

    /// Its number.
    pub fn value<A: Abi>(self) -> c_int {
        let value = match self {
            Level::Single => A::C.thread_single,
            Level::Funneled => A::C.thread_funneled,
            Level::Serialized => A::C.thread_serialized,
            Level::Multiple => A::C.thread_multiple,
        };
        value as c_int
    }

    /// The lowest level that satisfies what was asked for.
    pub fn at_least<A: Abi>(required: c_int) -> Level {
        let levels = [Level::Single, Level::Funneled, Level::Serialized];
        levels.into_iter().find(|level| level.value::<A>() >= required).unwrap_or(Level::Multiple)
    }

    /// By its name in info objects.
    pub fn named(name: &str) -> Option<Level> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, level)| level)
    }

    /// Its name in info objects.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

/// Where the process stands between `MPI_Init` and `MPI_Finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum World {
    /// `MPI_Init` was not called.
    Before = 0,
    /// It was.
    Active = 1,
    /// `MPI_Finalize` was.
    Finalized = 2,
}

/// Why the world does not begin.
#[derive(Debug)]
pub enum BeginError {
    /// `MPI_Init` was called before.
    Twice,
    /// Nothing begins after the end.
    AfterFinalize,
    /// The engine does not start.
    Start(MpiError),
}

impl fmt::Display for BeginError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BeginError::Twice => out.write_str("was called twice"),
            BeginError::AfterFinalize => out.write_str("was called after MPI_Finalize"),
            BeginError::Start(error) => write!(out, "failed: {error}"),
        }
    }
}

#[derive(Debug)]
struct Life {
    /// What the world was promised, while it is active.
    world: Option<Level>,
    sessions: u32,
    started: bool,
    /// May tools look from other threads?
    tools: Level,
}

static LIFE: Mutex<Life> =
    Mutex::new(Life { world: None, sessions: 0, started: false, tools: Level::Single });
static WORLD: AtomicU8 = AtomicU8::new(World::Before as u8);
static HAD_SESSIONS: AtomicBool = AtomicBool::new(false);
/// The process that has to say goodbye at its exit; 0 if none. (A forked child has not.)
static SAYS_GOODBYE: AtomicU32 = AtomicU32::new(0);
/// The process whose program is checked; 0 if none. Does what is left at its exit make it fail?
static CHECKED_BY: AtomicU32 = AtomicU32::new(0);
static FAILS_AT_EXIT: AtomicBool = AtomicBool::new(false);

fn life() -> MutexGuard<'static, Life> {
    LIFE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the process stands.
pub fn world() -> World {
    match WORLD.load(Acquire) {
        0 => World::Before,
        1 => World::Active,
        _ => World::Finalized,
    }
}

/// `MPI_Init`
pub fn begin_world(level: Level) -> Result<(), BeginError> {
    let mut life = life();
    match world() {
        World::Before => {}
        World::Active => return Err(BeginError::Twice),
        World::Finalized => return Err(BeginError::AfterFinalize),
    }
    life.start().map_err(BeginError::Start)?;
    if life.sessions == 0 {
        let several = level == Level::Multiple || life.tools >= Level::Serialized;
        engine::set_phase(if several { Phase::Threaded } else { Phase::Single });
    }
    life.world = Some(level);
    WORLD.store(World::Active as u8, Release);
    Ok(())
}

/// `MPI_Finalize`, when everything is done but this.
pub fn end_world() {
    let mut life = life();
    life.world = None;
    WORLD.store(World::Finalized as u8, Release);
    match had_sessions() {
        true => life.close_if_unused(),
        false => engine::close(|_| {}), // everything has left already
    }
}

/// Has the process used sessions, so that it stays in its job until it exits?
pub fn had_sessions() -> bool {
    HAD_SESSIONS.load(Relaxed)
}

/// A session begins: gives the level that it gets. One that names none gets the world's; without a world the least.
pub fn begin_session(wanted: Option<Level>) -> Result<Level, MpiError> {
    let mut life = life();
    life.start()?;
    let granted = life.grant(wanted.or(life.world).unwrap_or(Level::Single));
    life.sessions += 1;
    HAD_SESSIONS.store(true, Relaxed);
    Ok(granted)
}

/// Tools come: gives the level that they get.
pub fn admit_tools(wanted: Level) -> Level {
    let mut life = life();
    let granted = match phase() {
        Phase::Closed => wanted,
        _ => life.grant(wanted),
    };
    life.tools = life.tools.max(granted);
    granted
}

/// Is there an engine, or was there one?
pub fn has_started() -> bool {
    life().started
}

/// A session has ended.
pub fn end_session() {
    let mut life = life();
    life.sessions -= 1;
    life.close_if_unused();
}

impl Life {
    fn start(&mut self) -> mpi::Result<()> {
        if !self.started {
            let mpi = Mpi::start()?;
            if let Some(rigor) = mpi.rigor() {
                CHECKED_BY.store(std::process::id(), Relaxed);
                FAILS_AT_EXIT.store(rigor == Rigor::Fail, Relaxed);
                args::at_process_exit(report);
            }
            engine::install(mpi);
            self.started = true;
            if SAYS_GOODBYE.swap(std::process::id(), Relaxed) == 0 {
                args::at_process_exit(goodbye);
            }
        }
        Ok(())
    }

    /// Sessions know nothing of each other and may be used by different threads whatever their level, so that calls are
    /// always locked out from each other. Only where the world runs without a lock already, and may be inside, a session
    /// gets no more than the world has.
    fn grant(&self, wanted: Level) -> Level {
        match (phase(), self.world) {
            (Phase::Single, Some(world)) if world != Level::Single => wanted.min(world),
            (Phase::Single, Some(_)) if wanted < Level::Serialized => wanted,
            (Phase::Threaded, _) => wanted,
            _ => {
                engine::set_phase(Phase::Threaded);
                wanted
            }
        }
    }

    fn close_if_unused(&self) {
        if self.is_unused() {
            engine::close(Mpi::quiesce);
        }
    }

    fn is_unused(&self) -> bool {
        self.world.is_none() && self.sessions == 0
    }
}

/// At the exit of a process whose program is checked: what needs no engine may be freed until now.
extern "C" fn report() {
    let unused = LIFE.try_lock().is_ok_and(|life| life.is_unused());
    if !unused || CHECKED_BY.load(Relaxed) != std::process::id() {
        return;
    }
    let left = registry().leftovers();
    let rank = engine::look(|mpi| mpi.comm_rank(CommId::WORLD).unwrap_or(0)).unwrap_or(0);
    left.iter().for_each(|words| eprintln!("banyan: check: rank {rank}: {words}"));
    if !left.is_empty() && FAILS_AT_EXIT.load(Relaxed) {
        args::leave(1);
    }
}

/// At the exit of a process. With the world or a session still open it leaves without a word, and its launcher takes
/// it for failed.
extern "C" fn goodbye() {
    let unused = LIFE.try_lock().is_ok_and(|life| life.is_unused());
    if unused && SAYS_GOODBYE.load(Relaxed) == std::process::id() {
        engine::at_exit(|mpi| {
            if let Err(error) = mpi.finish() {
                eprintln!("banyan: at exit: {error}");
                if FAILS_AT_EXIT.load(Relaxed) {
                    args::leave(1);
                }
            }
        });
    }
}
