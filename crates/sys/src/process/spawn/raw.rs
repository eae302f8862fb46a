//! System calls of a child that shares its parent's memory. The C library's own would leave their error number where
//! the parent, which goes on at the same time, reads its own.
use std::ffi::{c_char, c_int, c_long};
use std::os::fd::RawFd;

/// Sizes that the kernel wants to hear: a set of signals.
const SIGNAL_SET_BYTES: usize = 8;
/// What the kernel takes for a signal's disposition: handler, flags, restorer and mask. All zero is the default.
type KernelSigaction = [u64; 4];

/// The result, or the error number.
pub(super) type Outcome = Result<usize, i32>;

#[cfg(target_arch = "x86_64")]
unsafe fn call(number: c_long, args: [usize; 5]) -> Outcome {
    let result: isize;
    // SAFETY: the kernel changes these registers and no others, and memory only as the caller has promised.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

/// Elsewhere children have memory of their own, and an error number too.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn call(number: c_long, args: [usize; 5]) -> Outcome {
    let [a, b, c, d, e] = args;
    // SAFETY: promised by the caller.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        // SAFETY: the location is valid in every thread.
        -1 => Err(unsafe { *libc::__errno_location() }),
        result => Ok(result as usize),
    }
}

/// A call that takes and returns plain numbers.
fn plain(number: c_long, args: [usize; 5]) -> Outcome {
    // SAFETY: used below for calls that touch no memory.
    unsafe { call(number, args) }
}

pub(super) fn lead_group() -> Outcome {
    plain(libc::SYS_setpgid, [0; 5])
}

pub(super) fn die_with_parent() -> Outcome {
    plain(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0])
}

pub(super) fn parent() -> i32 {
    plain(libc::SYS_getppid, [0; 5]).unwrap_or(0) as i32
}

pub(super) fn own_id() -> i32 {
    plain(libc::SYS_getpid, [0; 5]).unwrap_or(0) as i32
}

/// A copy of `fd`, not below `lowest`, that is closed on exec.
pub(super) fn copy_above(fd: RawFd, lowest: c_int) -> Result<RawFd, i32> {
    let args = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, lowest as usize, 0, 0];
    plain(libc::SYS_fcntl, args).map(|fd| fd as RawFd)
}

/// A copy of `fd` at `to`, that is not closed on exec. The two differ.
pub(super) fn copy_to(fd: RawFd, to: RawFd) -> Outcome {
    plain(libc::SYS_dup3, [fd as usize, to as usize, 0, 0, 0])
}

/// Everything from `first` on is closed on exec.
pub(super) fn close_on_exec_from(first: usize) -> Outcome {
    plain(libc::SYS_close_range, [first, u32::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize, 0, 0])
}

pub(super) fn pin(cores: &libc::cpu_set_t) -> Outcome {
    let set: *const libc::cpu_set_t = cores;
    // SAFETY: the set is readable and its size is given.
    unsafe { call(libc::SYS_sched_setaffinity, [0, size_of::<libc::cpu_set_t>(), set as usize, 0, 0]) }
}

pub(super) fn limit_descriptors(limit: &libc::rlimit64) -> Outcome {
    let limit: *const libc::rlimit64 = limit;
    // SAFETY: the limit is readable, and nothing is to be written.
    unsafe { call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as usize, limit as usize, 0, 0]) }
}

pub(super) fn default_disposition(signal: c_int) -> Outcome {
    let default: KernelSigaction = [0; 4];
    let args = [signal as usize, default.as_ptr() as usize, 0, SIGNAL_SET_BYTES, 0];
    // SAFETY: the disposition is readable, and nothing is to be written.
    unsafe { call(libc::SYS_rt_sigaction, args) }
}

pub(super) fn unblock_all_signals() -> Outcome {
    let none = 0u64;
    let set: *const u64 = &none;
    let args = [libc::SIG_SETMASK as usize, set as usize, 0, SIGNAL_SET_BYTES, 0];
    // SAFETY: the set is readable, and nothing is to be written.
    unsafe { call(libc::SYS_rt_sigprocmask, args) }
}

/// # Safety
/// A C string.
pub(super) unsafe fn enter_folder(folder: *const c_char) -> Outcome {
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_chdir, [folder as usize, 0, 0, 0, 0]) }
}

/// Returns only with an error number.
///
/// # Safety
/// A C string, and two arrays of C strings with a null pointer at the end.
pub(super) unsafe fn execute(
    path: *const c_char,
    args: *const *const c_char,
    env: *const *const c_char,
) -> i32 {
    // SAFETY: promised by the caller.
    let outcome = unsafe { call(libc::SYS_execve, [path as usize, args as usize, env as usize, 0, 0]) };
    outcome.err().unwrap_or(0)
}

pub(super) fn write(fd: RawFd, bytes: &[u8]) -> Outcome {
    // SAFETY: the buffer is readable for its length.
    unsafe { call(libc::SYS_write, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0]) }
}

pub(super) fn exit(code: i32) -> ! {
    loop {
        let _ = plain(libc::SYS_exit_group, [code as usize, 0, 0, 0, 0]);
    }
}
