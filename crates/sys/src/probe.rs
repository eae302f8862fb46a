//! What this kernel allows: the answers that `banyan info` prints. Nothing here changes the process.
use std::io;

const MEMBARRIER_CMD_QUERY: libc::c_int = 0;
const MEMBARRIER_CMD_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

/// Can a process read the memory of another one of the same user that is not its child? It is tried: a
/// child reads a word of this process, which is what a sibling may do.
pub fn process_vm_readv() -> io::Result<()> {
    let secret: u64 = 0x6261_6e79_616e;
    let me = std::process::id() as libc::pid_t;
    // SAFETY: the child makes plain system calls only and leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => read_word_and_exit(me, &secret),
        child => {
            let mut status = 0;
            // SAFETY: a child of ours; `status` is writable.
            if unsafe { libc::waitpid(child, &mut status, 0) } != child {
                return Err(io::Error::last_os_error());
            }
            match libc::WEXITSTATUS(status) {
                0 if libc::WIFEXITED(status) => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

/// What `membarrier` offers: (between processes, inside one process).
pub fn membarrier() -> io::Result<(bool, bool)> {
    // SAFETY: the query command has no side effect and takes no pointer.
    let bits = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) };
    if bits < 0 {
        return Err(io::Error::last_os_error());
    }
    let offers = |command: libc::c_int| bits & libc::c_long::from(command) != 0;
    Ok((offers(MEMBARRIER_CMD_GLOBAL_EXPEDITED), offers(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
}

fn read_word_and_exit(pid: libc::pid_t, secret: &u64) -> ! {
    let mut seen = 0u64;
    let local = libc::iovec { iov_base: (&raw mut seen).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: (&raw const *secret).cast_mut().cast(), iov_len: 8 };
    // SAFETY: writes at most 8 bytes to `seen`; the remote range is only read, by the kernel, which
    // checks it.
    let moved = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    let code = match moved {
        8 if seen == *secret => 0,
        -1 => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        _ => libc::EIO,
    };
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_sibling_works_or_says_why_not() {
        if let Err(e) = process_vm_readv() {
            assert!(e.raw_os_error().is_some(), "{e}");
        }
    }

    #[test]
    fn membarrier_answers() {
        if let Err(e) = membarrier() {
            assert_eq!(e.raw_os_error(), Some(libc::ENOSYS));
        }
    }
}
