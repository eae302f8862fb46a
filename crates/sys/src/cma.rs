//! Copies between the memories of two processes (`process_vm_readv`, `process_vm_writev`).
use crate::mem::{UserBuf, UserBufMut};
use std::io;

/// Copies `to.len()` bytes from address `from` of process `pid`.
pub fn read(pid: u32, from: u64, to: UserBufMut) -> io::Result<()> {
    transfer(to.len(), |done| {
        let part = to.part(done, to.len() - done);
        let local = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        let remote = libc::iovec { iov_base: (from + done as u64) as *mut _, iov_len: part.len() };
        // SAFETY: the local range is writable by the constructor of UserBufMut; the kernel checks the
        // remote one and returns an error for what is not there.
        unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) }
    })
}

/// Copies `from` to address `to` of process `pid`.
pub fn write(pid: u32, from: UserBuf, to: u64) -> io::Result<()> {
    transfer(from.len(), |done| {
        let part = from.part(done, from.len() - done);
        let local = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        let remote = libc::iovec { iov_base: (to + done as u64) as *mut _, iov_len: part.len() };
        // SAFETY: the local range is only read, and readable by the constructor of UserBuf; the kernel
        // checks the remote one.
        unsafe { libc::process_vm_writev(pid as libc::pid_t, &local, 1, &remote, 1, 0) }
    })
}

/// Can this process read the word at an address of process `pid`, which should be `word`, and write it?
pub fn finds(pid: u32, at: u64, word: u64) -> io::Result<bool> {
    let mut seen = !word;
    // SAFETY: a word of this function, which lives until its end.
    let here = unsafe { UserBufMut::new((&raw mut seen).cast(), size_of::<u64>()) };
    read(pid, at, here)?;
    // It is written only where it stands already: nothing changes, whoever else does the same.
    Ok(seen == word && write(pid, here.as_source(), at).is_ok())
}

/// The kernel may stop short (about 2 GiB a call, or at a fault); go on where it stopped.
fn transfer(bytes: usize, mut step: impl FnMut(usize) -> isize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        match step(done) {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if n > 0 => done += n as usize,
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Lets any process of the same user read this one's memory where Yama restricts it to parents.
pub fn allow_siblings() {
    // SAFETY: prctl with integers only; a kernel without Yama answers EINVAL, which is no harm.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_where_it_is_and_nowhere_else() {
        let (mut words, me) = ([7u64, 8], std::process::id());
        let at = &raw mut words as u64;
        assert!(finds(me, at, 7).unwrap() && finds(me, at + 8, 8).unwrap());
        assert!(!finds(me, at, 8).unwrap());
        assert!(finds(me, 8, 8).is_err(), "nothing is mapped there");
        assert_eq!(std::hint::black_box(words), [7, 8]);
    }
}
