//! Windows: memory of processes that others read, write and combine without their help.
//!
//! | room | what happens there |
//! |---|---|
//! | `making` | how a window comes about, and how it goes |
//! | `window` | what one is, and how its targets are reached |
//! | `ops` | operations; those on memory that is mapped here |
//! | `scaled` | elements multiplied before they are combined |
//! | `strided` | puts and gets of regular rows, where memory is mapped |
//! | `short` | the short way of the commonest of these |
//! | `far` | operations that travel in messages, or are copied by the network |
//! | `writing` | how these messages are written |
//! | `serve` | the target's side of these |
//! | `server` | the same, done by the data server of a node |
//! | `route` | which of both is sent what |
//! | `epochs` | synchronization |
//! | `locking` | locks, in the order in which the program asks for them |
//! | `memory` | what is done to memory, and the one rule that makes it atomic |
//!
//! What messages look like, in which order they leave, and the lock that epochs take, is [`proto::rma`]'s.
mod epochs;
mod far;
mod locking;
mod making;
mod memory;
mod ops;
mod route;
mod scaled;
mod serve;
mod server;
mod short;
mod strided;
mod window;
mod writing;

use super::ids::{CommId, ErrhandlerId, GroupId, InfoId, TypeId, WinId};
use super::registry::registry;
use super::status::Peer;
use super::{Mpi, Pairs};
use crate::buffer::RecvBuf;
use crate::error::{ErrorClass, Result, fail, fail_with};
use epochs::Looking;
pub(in crate::core) use far::Fate;
use locking::Locking;
use making::{Freeing, Making};
pub use scaled::Factor;
pub use server::serve_node;
use std::collections::btree_map::Entry;
use std::rc::Rc;
pub use strided::Strided;
pub(in crate::core) use window::{Hall, WaitsForLock};
use window::{Reach, State, Target};

/// How a window came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WinFlavor {
    /// Of the program's memory.
    Create,
    /// Of memory of the library's.
    Allocate,
    /// Of memory of the library's, which all its processes have mapped.
    Shared,
    /// Of memory that the program attaches later.
    Dynamic,
}

/// What a new window is of.
#[derive(Clone, Copy, Debug)]
pub struct NewWindow {
    /// How it comes about.
    pub flavor: WinFlavor,
    /// Memory of the program, if it brings any.
    pub base: RecvBuf,
    /// Its length.
    pub bytes: i64,
    /// What displacements are multiplied by.
    pub disp_unit: i64,
    /// Hints.
    pub info: Option<InfoId>,
}

/// What a program promises of a synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assert {
    /// What it waits for has happened, or nobody is in conflict.
    pub no_check: bool,
    /// The memory was not stored to.
    pub no_store: bool,
    /// Nobody will change it.
    pub no_put: bool,
    /// No operation came before.
    pub no_precede: bool,
    /// No operation follows.
    pub no_succeed: bool,
}

/// Elements in the window of a target.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Whose.
    pub peer: Peer,
    /// Where they begin, in units of the target.
    pub disp: i64,
    /// Number of elements.
    pub count: i64,
    /// Their datatype.
    pub ty: TypeId,
}

/// Something that has been begun, and is asked for until it has ended.
#[must_use = "it has not ended"]
pub struct Synchronizing {
    win: WinId,
    stage: Stage,
}

/// How far it is.
enum Stage {
    Ended,
    Making(Box<Making>),
    Free(Freeing),
    /// Everything for these ranks is done, and then everybody has come so far.
    Fence {
        ranks: Vec<u32>,
        barrier: Option<super::RequestId>,
    },
    /// These have posted their memory.
    Start {
        ranks: Rc<[u32]>,
        /// So many of them have.
        posted: usize,
        looking: Looking,
    },
    /// Those who may access this process's memory are done.
    Wait(Looking),
    /// Everything for these ranks is done.
    Settle(Vec<u32>),
    /// These locks are had.
    Lock(Locking),
    /// Everything is done, and then locks are given back.
    Unlock {
        far: Vec<u32>,
        near: Vec<(u32, State)>,
    },
}

impl Synchronizing {
    fn new(win: WinId, stage: Stage) -> Self {
        Synchronizing { win, stage }
    }
}

impl std::fmt::Debug for Synchronizing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a synchronization of window {}", self.win.0)
    }
}

impl Mpi {
    /// Has it ended? Makes no progress; to be asked until it says so (or fails).
    pub fn win_ended(&mut self, what: &mut Synchronizing) -> Result<bool> {
        let win = what.win;
        let ended = match &mut what.stage {
            Stage::Ended => return Ok(true),
            Stage::Making(making) => {
                let made = self.step_making(win, making);
                if made.is_err() {
                    self.forget_window(win);
                }
                made
            }
            Stage::Free(freeing) => self.step_free(win, freeing),
            stage => self.step(win, stage),
        };
        if !matches!(ended, Ok(false)) {
            what.stage = Stage::Ended;
        }
        let windows = self.hall.windows.borrow();
        let awaits = what.stage.awaits(&windows, win, &self.endpoint);
        self.hall.awaits.set(awaits);
        ended
    }

    /// Address of this process's own memory in the window, its bytes and displacement unit.
    pub fn win_memory(&self, win: WinId) -> Result<(usize, i64, i64)> {
        let windows = self.hall.windows.borrow();
        let window = windows.get(win)?;
        Ok((window.base.as_ptr() as usize, window.bytes as i64, window.unit))
    }

    /// How it came about.
    pub fn win_flavor(&self, win: WinId) -> Result<WinFlavor> {
        Ok(self.hall.windows.borrow().get(win)?.flavor)
    }

    /// The group of its processes.
    pub fn win_group(&mut self, win: WinId) -> Result<GroupId> {
        let comm = self.hall.windows.borrow().get(win)?.comm;
        self.comm_group(comm)
    }

    /// Address here, bytes and displacement unit of a rank's memory, or of the first rank that has any.
    pub fn win_shared_query(&self, win: WinId, peer: Peer) -> Result<(usize, i64, i64)> {
        let windows = self.hall.windows.borrow();
        let window = windows.get(win)?;
        if window.flavor == WinFlavor::Dynamic {
            return fail(ErrorClass::RmaFlavor, "a dynamic window has no memory of its own");
        }
        let mapped = |rank: usize| {
            let Target { bytes, unit, reach, .. } = window.targets[rank];
            match reach {
                // Of what has no bytes there is no place.
                Reach::Mapped(_) if bytes == 0 => Some((0, 0, unit)),
                Reach::Mapped(base) => Some((base.as_ptr() as usize, bytes as i64, unit)),
                _ => None,
            }
        };
        match peer {
            Peer::Rank(rank) => {
                let rank = window.checked(rank)?;
                // What is not shared with this process is said to have a length of 0.
                Ok(mapped(rank as usize).unwrap_or((0, 0, window.targets[rank as usize].unit)))
            }
            // Memory of the program is nobody else's.
            _ if window.flavor == WinFlavor::Create => Ok((0, 0, window.unit)),
            _ => {
                let all = 0..window.targets.len();
                let first = all.clone().filter_map(mapped).find(|(_, bytes, _)| *bytes > 0);
                Ok(first.or_else(|| all.filter_map(mapped).next()).unwrap_or((0, 0, window.unit)))
            }
        }
    }

    /// Adds memory of the program to a dynamic window.
    pub fn win_attach(&mut self, win: WinId, base: RecvBuf, bytes: i64) -> Result<()> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        if window.flavor != WinFlavor::Dynamic {
            return fail(ErrorClass::RmaFlavor, "memory is attached to a window that is not dynamic");
        }
        let Ok(bytes) = u64::try_from(bytes) else {
            return fail_with(ErrorClass::Size, || format!("{bytes} bytes are attached"));
        };
        let at = base.as_ptr() as u64;
        let end = at.checked_add(bytes).filter(|_| at != 0 || bytes == 0);
        let Some(end) = end else {
            return fail_with(ErrorClass::RmaAttach, || format!("{bytes} bytes at address 0x{at:x}"));
        };
        if bytes == 0 {
            // Nothing can be reached there, so that nothing overlaps it: the next buffer that is empty, or as long as it will
            // be, may well have the same address.
            *window.attached_empty.entry(at).or_default() += 1;
            return Ok(());
        }
        let overlaps = |(start, (_, len)): (&u64, &(RecvBuf, u64))| start + len > at && *start < end;
        if window.attached.range(..end).next_back().is_some_and(overlaps) {
            return fail_with(ErrorClass::RmaAttach, || format!("memory at 0x{at:x} is attached already"));
        }
        window.attached.insert(at, (base, bytes));
        window.publish(at, bytes);
        Ok(())
    }

    /// Takes memory back from a dynamic window.
    pub fn win_detach(&mut self, win: WinId, base: usize) -> Result<()> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        if window.flavor != WinFlavor::Dynamic {
            return fail(ErrorClass::RmaFlavor, "memory is detached from a window that is not dynamic");
        }
        if window.attached.remove(&(base as u64)).is_some() {
            window.withdraw(base as u64);
            return Ok(());
        }
        match window.attached_empty.entry(base as u64) {
            Entry::Occupied(mut count) if *count.get() > 1 => *count.get_mut() -= 1,
            Entry::Occupied(last) => _ = last.remove(),
            Entry::Vacant(_) => {
                return fail_with(ErrorClass::RmaAttach, || format!("memory at 0x{base:x} is not attached"));
            }
        }
        Ok(())
    }

    /// The name.
    pub fn win_name(&self, win: WinId) -> Result<String> {
        Ok(self.hall.windows.borrow().get(win)?.name.clone())
    }

    /// Sets the name.
    pub fn win_set_name(&mut self, win: WinId, name: &str) -> Result<()> {
        self.hall.windows.borrow_mut().get_mut(win)?.name = name.into();
        Ok(())
    }

    /// The error handler.
    pub fn win_errhandler(&self, win: WinId) -> Result<ErrhandlerId> {
        Ok(self.hall.windows.borrow().get(win)?.errhandler)
    }

    /// The window that has this communicator for itself.
    pub fn window_of(&self, comm: CommId) -> Option<WinId> {
        if comm == CommId::SELF {
            return None; // which those have that are being made
        }
        let windows = self.hall.windows.borrow();
        windows.list.iter().find(|(_, window)| window.comm == comm).map(|(number, _)| WinId(number))
    }

    /// Sets the error handler.
    pub fn win_set_errhandler(&mut self, win: WinId, handler: ErrhandlerId) -> Result<()> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        registry().errhandler_retain(handler)?;
        let old = std::mem::replace(&mut window.errhandler, handler);
        registry().errhandler_release(old);
        Ok(())
    }

    /// A new info object with the hints that are in use.
    pub fn win_info(&mut self, win: WinId) -> Result<InfoId> {
        let windows = self.hall.windows.borrow();
        let window = windows.get(win)?;
        let mut pairs: Pairs =
            HINTS.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        if matches!(window.flavor, WinFlavor::Shared | WinFlavor::Allocate) {
            pairs.push(("alloc_shared_noncontig".into(), "false".into()));
        }
        pairs.push(("banyan_rma".into(), window.policy.name().into()));
        for (key, value) in &window.info {
            if let Some((_, known)) = pairs.iter_mut().find(|(k, _)| k == key && k != "banyan_rma") {
                known.clone_from(value);
            }
        }
        Ok(registry().info_with(pairs))
    }

    /// Takes hints.
    pub fn win_set_info(&mut self, win: WinId, info: Option<InfoId>) -> Result<()> {
        let mut windows = self.hall.windows.borrow_mut();
        let window = windows.get_mut(win)?;
        let Some(info) = info else { return Ok(()) };
        for (key, value) in registry().info_pairs(info)? {
            match window.info.iter_mut().find(|(k, _)| *k == key) {
                Some((_, old)) => *old = value,
                None => window.info.push((key, value)),
            }
        }
        Ok(())
    }
}

/// What a program may promise of a window, and what holds if it does not.
const HINTS: [(&str, &str); 5] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
];
