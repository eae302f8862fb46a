//! Byte streams between processes of one host: socket pairs, pipes, and descriptors that do not wait.
//!
//! Everything made here is close-on-exec. What the bytes mean is the caller's business.
use crate::sockaddr::check;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Two connected ends of a stream. Neither waits: reading an empty one is [`Transfer::WouldBlock`].
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(own_both(ends))
}

/// A pipe: read end, write end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(own_both(ends))
}

fn own_both([first, second]: [RawFd; 2]) -> (OwnedFd, OwnedFd) {
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    let first = unsafe { OwnedFd::from_raw_fd(first) };
    // SAFETY: as above.
    let second = unsafe { OwnedFd::from_raw_fd(second) };
    (first, second)
}

/// Makes the *open file* behind `fd` not wait. Only for what this process alone uses: a terminal shared with
/// a shell would change for the shell too.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an open descriptor; F_GETFL takes no argument.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an open descriptor; F_SETFL takes an int.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// How a read or write on a stream went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing now.
    WouldBlock,
    /// The other end is gone: end of file, or a reset.
    Closed,
}

/// Reads what is there into `to`.
pub fn read(fd: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Transfer> {
    // SAFETY: `to` is writable for its length.
    let n = unsafe { libc::read(fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len()) };
    transfer(n)
}

/// Reads what is there into `to` and does not wait, whether the descriptor would or not; `None` if it has no such read
/// because it is no socket.
pub fn read_now(fd: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Option<Transfer>> {
    // SAFETY: `to` is writable for its length.
    let n = unsafe { libc::recv(fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT) };
    if n < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOTSOCK) {
        return Ok(None);
    }
    transfer(n).map(Some)
}

/// Says that nothing more is written; what was written arrives.
pub fn end_writing(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an open descriptor and a number.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) })
}

/// Writes as much of `from` as fits now. A closed socket is a value, never a signal; for pipes the caller
/// has SIGPIPE blocked or ignored.
pub fn write(fd: BorrowedFd<'_>, from: &[u8]) -> io::Result<Transfer> {
    if from.is_empty() {
        return Ok(Transfer::WouldBlock);
    }
    // SAFETY: `from` is readable for its length.
    let n = unsafe { libc::send(fd.as_raw_fd(), from.as_ptr().cast(), from.len(), libc::MSG_NOSIGNAL) };
    if n < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOTSOCK) {
        // SAFETY: as above.
        return transfer(unsafe { libc::write(fd.as_raw_fd(), from.as_ptr().cast(), from.len()) });
    }
    transfer(n)
}

/// The same, and does not wait, whether the descriptor would or not. Of a pipe or a terminal the kernel is asked right
/// before: an answer from a poll set may be out of date, where another descriptor of the same pipe was written to since. A
/// pipe with room takes a page without waiting: give it no more at once. (To reopen the pipe with a mode of its own would
/// hold against other processes that fill it in between, too; but not every pipe may be reopened.)
pub fn write_now(fd: BorrowedFd<'_>, from: &[u8]) -> io::Result<Transfer> {
    if from.is_empty() {
        return Ok(Transfer::WouldBlock);
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `from` is readable for its length.
    let n = unsafe { libc::send(fd.as_raw_fd(), from.as_ptr().cast(), from.len(), flags) };
    if n >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOTSOCK) {
        return transfer(n);
    }
    if !can_write(fd)? {
        return Ok(Transfer::WouldBlock);
    }
    // SAFETY: as above.
    transfer(unsafe { libc::write(fd.as_raw_fd(), from.as_ptr().cast(), from.len()) })
}

/// Is there room to write now, or an error to be told of?
fn can_write(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry that lives for the call.
    match unsafe { libc::poll(&mut fds, 1, 0) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        ready => Ok(ready > 0),
    }
}

/// The kernel's answer to a read or write, as a value.
pub(crate) fn transfer(n: isize) -> io::Result<Transfer> {
    if n > 0 {
        return Ok(Transfer::Bytes(n as usize));
    }
    if n == 0 {
        return Ok(Transfer::Closed);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(Transfer::WouldBlock),
        Some(libc::EPIPE | libc::ECONNRESET) => Ok(Transfer::Closed),
        _ => Err(error),
    }
}

/// Writes a text to standard error in one piece, as far as that takes one: pieces of several processes do not mix, and a
/// process that is killed meanwhile has said all of it or nothing.
pub fn write_stderr(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        // SAFETY: `rest` is readable for its length.
        let n = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(n) {
            Ok(written) if written > 0 => rest = &rest[written..],
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return, // nobody listens
        }
    }
}

/// What is behind a descriptor, as far as copying to it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file on a disk, or a device such as /dev/null: a write of any size does not wait for a reader.
    Plain,
    /// A terminal.
    Terminal,
    /// A pipe, a socket or anything else with a reader.
    Stream,
}

/// What is behind `fd`?
pub fn file_kind(fd: BorrowedFd<'_>) -> FileKind {
    // SAFETY: only asks about the descriptor.
    if unsafe { libc::isatty(fd.as_raw_fd()) } == 1 {
        return FileKind::Terminal;
    }
    // SAFETY: all-zero is a valid `stat`, a plain C struct.
    let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: `stat` is writable.
    let known = unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } == 0;
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFCHR | libc::S_IFBLK if known => FileKind::Plain,
        _ => FileKind::Stream,
    }
}

/// Is this process in the foreground of the terminal `fd`? Reading from it otherwise would stop the process.
pub fn in_foreground(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: only asks about the descriptor.
    let foreground = unsafe { libc::tcgetpgrp(fd.as_raw_fd()) };
    // SAFETY: no arguments, cannot fail.
    foreground == unsafe { libc::getpgrp() }
}

/// A second descriptor of the same open file, close-on-exec, numbered 3 or higher.
pub fn duplicate(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    duplicate_from(fd, 3)
}

/// The same, numbered `lowest` or higher.
pub fn duplicate_from(fd: BorrowedFd<'_>, lowest: usize) -> io::Result<OwnedFd> {
    // SAFETY: an open descriptor; F_DUPFD_CLOEXEC takes the lowest wanted number.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest as libc::c_int) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Points descriptors 0 and 1 at /dev/null; standard error stays. For a child made by fork that must not
/// hold a pipe of the user's open, or read from a terminal.
pub fn detach_stdio() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for fd in [0, 1] {
        // SAFETY: plain numbers; replaces what the caller gives up.
        if unsafe { libc::dup2(null.as_raw_fd(), fd) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Closes every descriptor from 3 on except `keep`. For a child made by fork, which does not own what its
/// parent had open: nothing may use (or drop) the parent's other descriptors afterwards.
pub fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<u32> = keep.iter().filter(|fd| **fd >= 3).map(|fd| *fd as u32).collect();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep {
        close_range(from, fd.wrapping_sub(1));
        from = fd + 1;
    }
    close_range(from, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    if first <= last {
        // SAFETY: plain numbers; the caller of `close_all_but` gives the descriptors up.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_closed_end_is_a_value() {
        let (a, b) = socket_pair().unwrap();
        set_nonblocking(a.as_fd()).unwrap();
        assert_eq!(read(a.as_fd(), &mut [0; 8]).unwrap(), Transfer::WouldBlock);
        assert_eq!(write(b.as_fd(), b"abc").unwrap(), Transfer::Bytes(3));
        let mut got = [0; 8];
        assert_eq!(read(a.as_fd(), &mut got).unwrap(), Transfer::Bytes(3));
        drop(b);
        assert_eq!(read(a.as_fd(), &mut got).unwrap(), Transfer::Closed);
        assert_eq!(write(a.as_fd(), b"x").unwrap(), Transfer::Closed);
    }

    #[test]
    fn a_pipe_takes_what_fits() {
        let (r, w) = pipe().unwrap();
        set_nonblocking(w.as_fd()).unwrap();
        let Transfer::Bytes(n) = write(w.as_fd(), &vec![7; 1 << 20]).unwrap() else { panic!("nothing fits") };
        assert!(n < 1 << 20);
        assert_eq!(write(w.as_fd(), &[7; 4096]).unwrap(), Transfer::WouldBlock);
        assert_eq!(file_kind(r.as_fd()), FileKind::Stream);
    }

    /// Writes pieces until no more fit.
    fn fill(fd: BorrowedFd<'_>) {
        while let Transfer::Bytes(_) = write_now(fd, &[7; 4096]).unwrap() {}
    }

    #[test]
    fn what_is_full_is_not_waited_for_although_it_would() {
        let (_r, w) = pipe().unwrap();
        let (_a, b) = socket_pair().unwrap();
        for fd in [w, b] {
            fill(fd.as_fd());
            assert_eq!(write_now(fd.as_fd(), b"x").unwrap(), Transfer::WouldBlock);
        }
    }

    #[test]
    fn a_full_pipe_whose_reader_has_gone_says_so() {
        let _mask = crate::signal::SignalMask::block_all().unwrap();
        let (r, w) = pipe().unwrap();
        fill(w.as_fd());
        drop(r);
        assert_eq!(write_now(w.as_fd(), b"x").unwrap(), Transfer::Closed);
    }
}
