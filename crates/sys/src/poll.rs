//! Waiting for many descriptors at once (epoll, level-triggered).
//!
//! A descriptor is registered under a number of the caller's choosing and must be removed before it is
//! closed: a copy of it in a forked process would keep the registration alive.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Only for the other end's going away.
    Hangup,
    /// Bytes to read.
    Read,
    /// Room to write.
    Write,
    /// Either.
    ReadWrite,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number it was registered under.
    pub token: u64,
    /// Reading will say something (bytes, or the end).
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// Events taken out of the kernel at once.
const BATCH: usize = 64;

/// The set of descriptors waited for.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us.
        Ok(Poll { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Adds `fd` under `token`. Plain files cannot be waited for: they are always ready, and the error
    /// (`PermissionDenied`) says so.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes what `fd` is waited for.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Takes `fd` out.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Hangup)
    }

    /// Waits until something is ready or `timeout_ms` has passed (`None`: for ever) and appends it to
    /// `ready`. An interrupted wait is an empty one.
    pub fn wait(&self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let timeout = timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
        // SAFETY: `events` has room for BATCH entries.
        let n =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, timeout) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        ready.extend(events[..n as usize].iter().map(|event| Ready {
            token: event.u64,
            readable: event.events & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
            writable: event.events & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
        }));
        Ok(())
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Hangup => 0,
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open, `event` is readable.
        if unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd.as_raw_fd(), &mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_ready_is_reported_under_its_token() {
        let poll = Poll::new().unwrap();
        let (a, b) = socket::socket_pair().unwrap();
        poll.add(a.as_fd(), 7, Interest::Read).unwrap();
        let mut ready = Vec::new();
        poll.wait(Some(0), &mut ready).unwrap();
        assert!(ready.is_empty());
        socket::write(b.as_fd(), b"x").unwrap();
        poll.wait(Some(1000), &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
    }
}
