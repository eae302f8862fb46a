//! Descriptors that a parent left open for this process and named by number, in the environment.
use crate::socket::duplicate;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// An own copy of the inherited descriptor `number`, or an error if nothing is open there. From now on programs
/// that this process starts inherit neither of the two.
///
/// It is a copy, because a number from the environment proves no ownership: a second call, or another
/// library in the process, may use the same one.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: takes and returns plain numbers; the kernel refuses one that is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: not -1, and open as the call before has shown; used only for the copy that follows, which fails
    // cleanly if another thread closes the number in between.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    duplicate(borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Transfer, read, socket_pair, write};
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn a_copy_reaches_the_same_stream_and_survives_the_original() {
        let (here, there) = socket_pair().unwrap();
        let copy = inherited(here.as_raw_fd()).unwrap();
        assert_ne!(copy.as_raw_fd(), here.as_raw_fd());
        drop(here);
        assert_eq!(write(there.as_fd(), b"x").unwrap(), Transfer::Bytes(1));
        assert_eq!(read(copy.as_fd(), &mut [0; 4]).unwrap(), Transfer::Bytes(1));
    }

    #[test]
    fn a_number_that_is_not_open_is_an_error() {
        for number in [-1, RawFd::MAX] {
            assert_eq!(inherited(number).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}
