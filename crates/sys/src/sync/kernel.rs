//! The kernel's part: sleeping on a word, barriers in other processes, who lives.
use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const MEMBARRIER_GLOBAL_EXPEDITED: i32 = 1 << 1;

/// Sleeps while `word` is `value`, at most for `timeout`; works across processes. Returns at once if the
/// word differs already, and may return early for no reason.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let time = crate::cpu::timespec(timeout);
    // SAFETY: the word lives for the call; a shared futex (no PRIVATE flag), relative time-out.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &time, 0, 0) };
}

/// Wakes all sleepers on `word`.
pub(crate) fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the word lives for the call; waking touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

/// Makes every thread of every registered process pass a full barrier.
pub(crate) fn membarrier() {
    // SAFETY: membarrier takes a command and flags and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0) };
}

/// Does a process with this id exist (or a zombie of it)?
pub(crate) fn process_exists(pid: u32) -> bool {
    // SAFETY: signal 0 only checks.
    let rc = unsafe { libc::kill(pid as libc::pid_t, 0) };
    rc == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}
