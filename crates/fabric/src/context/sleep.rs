//! Sleeping until something may have arrived: a doorbell, and descriptors beside it.
use super::{Context, TOKEN_CALLER, TOKEN_DOORBELL};
use crate::qp::{ProviderKind, Qp};
use crate::rdma::Rdma;
use crate::sockets::Sockets;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use sys::poll::{Interest, Poll};
use sys::segment::{Armed, Sleeper};

/// A thread that is about to sleep. It borrows nothing, so that it can sleep without a lock. Until it is dropped,
/// senders ring.
#[derive(Debug)]
pub struct Sleep {
    sleeper: Sleeper,
    armed: Option<Armed>,
    waits: Option<Arc<Poll>>,
}

impl Sleep {
    /// Sleeps until something may have arrived, another thread wakes it, or `most` is over.
    pub fn wait(self, most: Duration) {
        match (&self.waits, &self.armed) {
            // An error would be a sleep of no time; the caller looks again either way.
            (Some(waits), _) => drop(waits.wait_for(Some(most), &mut Vec::new())),
            (None, Some(armed)) => self.sleeper.wait(armed, most),
            (None, None) => {}
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(armed) = self.armed.take() {
            self.sleeper.disarm(armed);
        }
    }
}

impl Context {
    /// The set of descriptors that a sleeping process watches. With one, its doorbell is one of them.
    pub(super) fn waits(&mut self) -> io::Result<Arc<Poll>> {
        if let Some(waits) = &self.waits {
            return Ok(waits.clone());
        }
        let waits = Arc::new(Poll::new()?);
        waits.add(self.soft.pollable_doorbell()?, TOKEN_DOORBELL, Interest::Read)?;
        self.waits = Some(waits.clone());
        Ok(waits)
    }

    /// Before a sleep: asks to be rung, and looks once more. `None`: something is there already. A descriptor of the
    /// caller's is watched as well.
    pub fn prepare_sleep(&mut self, fd: Option<BorrowedFd<'_>>) -> io::Result<Option<Sleep>> {
        self.flush();
        if let Some(fd) = fd
            && !self.caller_fd
        {
            self.waits()?.add(fd, TOKEN_CALLER, Interest::Read)?;
            self.caller_fd = true;
        }
        self.turns.sleeps();
        // A futex is the shorter way where there is nothing but the doorbell.
        let pollable = self.has_devices() || self.caller_fd || self.watched > 0;
        let waits = self.waits.clone().filter(|_| pollable);
        let armed = self.soft.arm(waits.is_some())?;
        let sleep = Sleep { sleeper: self.soft.sleeper(), armed: Some(armed), waits };
        let ready = self.soft.any_ready() || self.sockets.as_deref().is_some_and(Sockets::any_ready);
        let ready = ready | self.rdma.as_deref_mut().is_some_and(Rdma::prepare_sleep);
        Ok(if ready { None } else { Some(sleep) })
    }

    /// Says that this process will sleep until there is room in the peer's ring, or that it does not any more. Had it been
    /// said already? Not in a ring that is new.
    pub fn set_waiting(&mut self, qp: Qp, waiting: bool) -> bool {
        qp.provider() != ProviderKind::Soft || self.soft.set_waiting(qp, waiting)
    }

    /// Wakes threads of this process that sleep.
    pub fn sleeper(&self) -> Sleeper {
        self.soft.sleeper()
    }

    /// Has sleeps end when the descriptor is ready to be read.
    pub fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.waits()?.add(fd, TOKEN_CALLER, Interest::Read)?;
        self.watched += 1;
        Ok(())
    }

    /// The descriptor, which was [watched](Self::watch), is so no more.
    pub fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        self.watched = self.watched.saturating_sub(1);
        if let Some(waits) = &self.waits {
            let _ = waits.remove(fd);
        }
    }

    /// The caller's descriptor is not watched any more.
    pub fn forget_fd(&mut self, fd: BorrowedFd<'_>) {
        if std::mem::take(&mut self.caller_fd)
            && let Some(waits) = &self.waits
        {
            let _ = waits.remove(fd.as_fd());
        }
    }
}
