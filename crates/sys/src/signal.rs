//! Signals as descriptors, and their names.
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use libc::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
};

/// The signals a process has blocked, and what it did about ended children; restored when dropped.
#[derive(Debug)]
pub struct SignalMask {
    before: libc::sigset_t,
    children_before: libc::sigaction,
}

impl SignalMask {
    /// Blocks all signals that can be blocked, so that nothing interrupts the process but what it reads
    /// from a [`SignalQueue`]. SIGCHLD is not ignored any more, as whoever started this process may have left it: the
    /// kernel would reap children itself, and nobody would hear how they ended.
    pub fn block_all() -> io::Result<Self> {
        let mut all = MaybeUninit::uninit();
        // SAFETY: sigfillset initialises the set.
        let all = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            all.assume_init()
        };
        let mut before = MaybeUninit::uninit();
        // SAFETY: `all` is initialised, `before` is writable.
        let rc = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, before.as_mut_ptr()) };
        if rc != 0 {
            return Err(io::Error::from_raw_os_error(rc));
        }
        // SAFETY: the call succeeded and filled it in.
        let before = unsafe { before.assume_init() };
        let children_before = action_of(SIGCHLD);
        // SAFETY: a valid signal, and no handler.
        unsafe { libc::signal(SIGCHLD, libc::SIG_DFL) };
        Ok(SignalMask { before, children_before })
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: what was set before.
        unsafe { libc::sigaction(SIGCHLD, &self.children_before, std::ptr::null_mut()) };
        // SAFETY: the set came from the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Does this process ignore `signal`? Whoever started it may have seen to that, as `nohup` does. Blocked, it is queued
/// nevertheless.
pub fn is_ignored(signal: i32) -> bool {
    action_of(signal).sa_sigaction == libc::SIG_IGN
}

fn action_of(signal: i32) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and `action` is writable. All-zero is a valid one, should the number be none.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// Blocked signals, readable from a descriptor.
#[derive(Debug)]
pub struct SignalQueue {
    fd: OwnedFd,
}

impl SignalQueue {
    /// A queue of `signals`, which must be blocked (see [`SignalMask`]).
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for signal in signals {
            // SAFETY: an initialised set; an invalid number is refused.
            unsafe { libc::sigaddset(&mut set, *signal) };
        }
        // SAFETY: an initialised set; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us.
        Ok(SignalQueue { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The next signal that arrived, if any.
    pub fn next_signal(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` has room for one record.
        let n = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), bytes) };
        if n != bytes as isize {
            return None;
        }
        // SAFETY: the kernel filled in a whole record.
        Some(unsafe { info.assume_init() }.ssi_signo as i32)
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a signal is called in messages: "Killed", "Segmentation fault".
pub fn signal_text(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "Hangup",
        libc::SIGINT => "Interrupt",
        libc::SIGQUIT => "Quit",
        libc::SIGILL => "Illegal instruction",
        libc::SIGTRAP => "Trace trap",
        libc::SIGABRT => "Aborted",
        libc::SIGBUS => "Bus error",
        libc::SIGFPE => "Floating point exception",
        libc::SIGKILL => "Killed",
        libc::SIGUSR1 => "User signal 1",
        libc::SIGSEGV => "Segmentation fault",
        libc::SIGUSR2 => "User signal 2",
        libc::SIGPIPE => "Broken pipe",
        libc::SIGALRM => "Alarm clock",
        libc::SIGTERM => "Terminated",
        libc::SIGXCPU => "CPU time limit exceeded",
        libc::SIGXFSZ => "File size limit exceeded",
        libc::SIGSYS => "Bad system call",
        _ => "unnamed signal",
    }
}
