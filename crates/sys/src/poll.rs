//! Waiting for many descriptors at once (epoll), level-triggered unless asked otherwise.
//!
//! A descriptor is registered under a number of the caller's choosing and must be removed before it is
//! closed: a copy of it in a forked process would keep the registration alive.
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
const NO_EVENTS: [libc::epoll_event; BATCH] = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
/// The kernel has no finer time-outs than milliseconds.
static COARSE: AtomicBool = AtomicBool::new(false);

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
        self.control(libc::EPOLL_CTL_ADD, fd, token, events_of(interest))
    }

    /// The same, edge-triggered: reported when something *becomes* ready, and again only after the caller has met
    /// the end (`WouldBlock`) in between. Add it with every interest at once; it need not be changed.
    pub fn add_edge(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, events_of(interest) | libc::EPOLLET)
    }

    /// Changes what `fd` is waited for.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, events_of(interest))
    }

    /// Takes `fd` out.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Waits until something is ready or `timeout_ms` has passed (`None`: for ever) and appends it to
    /// `ready`. An interrupted wait is an empty one.
    pub fn wait(&self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = NO_EVENTS;
        let timeout = timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
        // SAFETY: `events` has room for BATCH entries.
        let n =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, timeout) };
        self.report(&events, n.into(), ready)
    }

    /// The same with a time-out of any length, to the nanosecond where the kernel can (Linux 5.11), otherwise
    /// rounded up to milliseconds.
    pub fn wait_for(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) || timeout.is_none() || COARSE.load(Ordering::Relaxed) {
            return self.wait(timeout.map(millis_up), ready);
        }
        let mut events = NO_EVENTS;
        let time = timeout.map(crate::cpu::timespec);
        let at = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `events` has room for BATCH entries, `at` is null or readable; no signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as libc::c_int,
                at,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        // Old kernels lack it, and old filters of system calls forbid what they do not know.
        if n < 0 && matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
            COARSE.store(true, Ordering::Relaxed);
            return self.wait(timeout.map(millis_up), ready);
        }
        self.report(&events, n, ready)
    }

    fn report(
        &self,
        events: &[libc::epoll_event; BATCH],
        n: libc::c_long,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
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

    fn control(&self, op: i32, fd: BorrowedFd<'_>, token: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open, `event` is readable.
        if unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd.as_raw_fd(), &mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn events_of(interest: Interest) -> i32 {
    match interest {
        Interest::Hangup => 0,
        Interest::Read => libc::EPOLLIN,
        Interest::Write => libc::EPOLLOUT,
        Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
    }
}

/// Milliseconds, rounded up: a wait that ends early would be begun again for nothing.
fn millis_up(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
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

    #[test]
    fn a_short_wait_ends_no_earlier_and_not_at_the_next_millisecond() {
        let poll = Poll::new().unwrap();
        let mut ready = Vec::new();
        let short = Duration::from_micros(50);
        // One of so many is undisturbed on any machine.
        let undisturbed = (0..20_000).any(|_| {
            let start = std::time::Instant::now();
            poll.wait_for(Some(short), &mut ready).unwrap();
            let time = start.elapsed();
            assert!(time >= short, "{time:?}");
            COARSE.load(Ordering::Relaxed) || time.as_micros() < 1000
        });
        assert!(undisturbed && ready.is_empty());
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        assert_eq!(
            [0, 1, 999_999, 1_000_000, 1_000_001].map(|ns| millis_up(Duration::from_nanos(ns))),
            [0, 1, 1, 1, 2]
        );
        assert_eq!(millis_up(Duration::MAX), u32::MAX);
    }

    #[test]
    fn an_edge_is_reported_once() {
        let poll = Poll::new().unwrap();
        let (a, b) = socket::socket_pair().unwrap();
        poll.add_edge(a.as_fd(), 1, Interest::Read).unwrap();
        let reported = |expected: usize| {
            let mut ready = Vec::new();
            poll.wait_for(Some(Duration::ZERO), &mut ready).unwrap();
            assert_eq!(ready.len(), expected);
        };
        socket::write(b.as_fd(), b"x").unwrap();
        reported(1);
        reported(0);
        socket::write(b.as_fd(), b"y").unwrap();
        reported(1);
    }
}
