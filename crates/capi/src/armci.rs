//! ARMCI for C programs: the translation of its functions to `pgas`. `libarmci.so` has their names, and finds them in the MPI
//! library of its process by a table, so that both have one engine.
//!
//! ARMCI knows no error handlers: what is wrong ends the job, with a message that names the call.
#![allow(clippy::extra_unused_type_parameters)] // each function of the table has the interface for its parameter
#![allow(clippy::too_many_arguments)] // ARMCI's
mod groups;
mod life;
mod messages;
mod onesided;
mod order;
mod values;

use crate::abi::Abi;
use crate::args::{BufMut, Opaque, Ptr, Text};
use crate::engine::{self, Call, Phase};
use groups::*;
use life::*;
use messages::*;
use mpi::core::{CommId, Mpi, RequestId, Status};
use mpi::{MpiError, Result};
use onesided::*;
use order::*;
use pgas::core::{Core, Domains, Driver, GroupId, Turn};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_long, c_ulong};
use std::sync::{Mutex, MutexGuard, PoisonError};
use values::*;

#[allow(missing_docs)] // one field for each function
mod table {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/armci.rs"));
}
pub use table::Table;

/// `armci_giov_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Segment {
    sources: Ptr<BufMut>,
    targets: Ptr<BufMut>,
    bytes: c_int,
    count: c_int,
}

/// `armci_hdl_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Handle {
    words: [u64; 4],
}

/// What a process has between `ARMCI_Init` and `ARMCI_Finalize`.
struct Session {
    core: Core,
    /// Inits without their finalize.
    users: u32,
    default: GroupId,
    domains: Domains,
    /// For messages of the program.
    messages: CommId,
    /// Processes of this node, and the first of each, when they have met.
    node: Option<GroupId>,
    firsts: Option<GroupId>,
    /// Notices that this process has waited for, by sender, and sent.
    heard: HashMap<u32, i32>,
    told: HashMap<u32, i32>,
}

struct Global {
    lock: Mutex<()>,
    session: UnsafeCell<Option<Session>>,
}

// SAFETY: the session is reached only through `Inside`, which holds the lock where several threads may call; otherwise calls
// do not overlap, as the program has promised MPI.
unsafe impl Sync for Global {}

static GLOBAL: Global = Global { lock: Mutex::new(()), session: UnsafeCell::new(None) };

/// A call that is inside.
struct Inside {
    _guard: Option<MutexGuard<'static, ()>>,
}

impl Inside {
    #[inline(always)]
    fn enter() -> Inside {
        let several = engine::phase() == Phase::Threaded;
        Inside { _guard: several.then(|| GLOBAL.lock.lock().unwrap_or_else(PoisonError::into_inner)) }
    }

    #[inline(always)]
    fn session(&mut self) -> &mut Option<Session> {
        // SAFETY: nobody else is inside (see `Global`), and the reference lives no longer than this.
        unsafe { &mut *GLOBAL.session.get() }
    }
}

/// The engine of a C call.
struct OfCall<'a, A: Abi>(&'a mut Call<A>);

impl<A: Abi> Driver for OfCall<'_, A> {
    #[inline(always)]
    fn call<T>(&mut self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T> {
        call(self.0)
    }

    fn wait(&mut self, request: RequestId) -> Result<usize> {
        Ok(self.0.complete(request)?.checked()?.bytes)
    }

    fn watch(&mut self, mut ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()> {
        if ready(self.0)? {
            return Ok(());
        }
        self.0.watch(|call| ready(call))
    }
}

/// One call of the program.
#[inline]
fn with<A: Abi, R>(
    name: &'static str,
    body: impl FnOnce(&mut Session, &mut OfCall<'_, A>) -> Result<R>,
) -> R {
    let mut inside = Inside::enter();
    let Some(session) = inside.session() else { outside(name) };
    let mut call = Call::<A>::enter(name);
    match body(session, &mut OfCall(&mut call)) {
        Ok(result) => result,
        Err(error) => end(&mut call, name, &error),
    }
}

/// One call of the program that waits for a request. Other threads may call meanwhile: what it waits for may depend on
/// them. (Operations on memory, and what makes or frees something, keep others out until they have ended: they need no more
/// than that processes make progress.)
fn waiting<A: Abi, R>(
    name: &'static str,
    begin: impl FnOnce(&mut Session, &mut OfCall<'_, A>) -> Result<RequestId>,
    end_with: impl FnOnce(&mut Session, Status) -> Result<R>,
) -> R {
    let request = with::<A, _>(name, begin);
    let mut call = Call::<A>::enter(name);
    let status = match call.complete(request).and_then(|status| status.checked()) {
        Ok(status) => status,
        Err(error) => end(&mut call, name, &error),
    };
    drop(call);
    with::<A, _>(name, |session, _| end_with(session, status))
}

/// Ends the job.
#[cold]
fn end<A: Abi>(call: &mut Call<A>, name: &str, error: &MpiError) -> ! {
    call.abort(1, &format!("{name}: {}", error.cause()))
}

#[cold]
fn outside(name: &str) -> ! {
    eprintln!("banyan: {name} was called before ARMCI_Init, or after the last ARMCI_Finalize");
    std::process::exit(1)
}

/// A process, as a program names it.
#[inline(always)]
fn process(rank: c_int) -> u32 {
    rank as u32 // a negative one is too large
}
