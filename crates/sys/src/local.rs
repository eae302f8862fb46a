//! Streams between processes of one host, met by a name: Unix sockets in the kernel's table of names, which no file
//! holds and which end with their owner. The table is that of the network namespace.
//!
//! They never wait, raise no SIGPIPE and are close-on-exec. [`crate::socket`] reads and writes them.
use crate::sockaddr::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A name has so many bytes at most.
pub const NAME_BYTES_MAX: usize = 107;

/// A socket that others connect to.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Listens at `name`, which nobody else may have (`AddrInUse`).
    pub fn bind(name: &[u8], backlog: u32) -> io::Result<Listener> {
        let (fd, (address, len)) = (socket()?, address(name)?);
        // SAFETY: an open descriptor and an address that lives for the call.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        // SAFETY: an open descriptor and a number.
        check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
        Ok(Listener { fd })
    }

    /// The next connection; `None` when there is none now.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let (flags, nobody) = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, std::ptr::null_mut());
        // SAFETY: an open descriptor; nobody asks for the address.
        let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), nobody, std::ptr::null_mut(), flags) };
        if fd >= 0 {
            // SAFETY: the kernel just made this descriptor for us.
            return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Connects to who listens at `name`, without waiting: `ConnectionRefused` if nobody does, `WouldBlock` if too many
/// wait there already.
pub fn dial(name: &[u8]) -> io::Result<OwnedFd> {
    let (fd, (address, len)) = (socket()?, address(name)?);
    // SAFETY: an open descriptor and an address that lives for the call.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(fd)
}

/// The user whose process is at the other end.
pub fn peer_user(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: an open descriptor, and room for as much as is said.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok(peer.uid)
}

/// The names in the table that begin so.
pub fn names(prefix: &str) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = |line: &str| line.split_once(" @").map(|(_, name)| name.to_string());
    let mut names: Vec<String> = table.lines().filter_map(name).filter(|n| n.starts_with(prefix)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The address and its length. A first byte of 0 says that the rest is a name in the table, not a path.
fn address(name: &[u8]) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let why = format!("a name of {} bytes, and not of 1 to {NAME_BYTES_MAX}", name.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut address =
        libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    for (to, byte) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *byte as libc::c_char;
    }
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, len as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{self, Transfer};

    fn name(of: &str) -> Vec<u8> {
        format!("banyan-test-{of}-{}", std::process::id()).into_bytes()
    }

    #[test]
    fn two_meet_by_a_name_and_nobody_waits() {
        let name = name("meet");
        let listener = Listener::bind(&name, 8).unwrap();
        assert!(listener.accept().unwrap().is_none());
        assert_eq!(Listener::bind(&name, 8).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let called = dial(&name).unwrap();
        let answered = listener.accept().unwrap().expect("somebody called");
        let mut got = [0; 8];
        assert_eq!(socket::read(answered.as_fd(), &mut got).unwrap(), Transfer::WouldBlock);
        assert_eq!(socket::write(called.as_fd(), b"abc").unwrap(), Transfer::Bytes(3));
        assert_eq!(socket::read(answered.as_fd(), &mut got).unwrap(), Transfer::Bytes(3));
        drop(called);
        assert_eq!(socket::read(answered.as_fd(), &mut got).unwrap(), Transfer::Closed);
    }

    #[test]
    fn both_ends_know_each_others_user_and_names_are_listed() {
        let name = name("users");
        let listener = Listener::bind(&name, 8).unwrap();
        let called = dial(&name).unwrap();
        let answered = listener.accept().unwrap().expect("somebody called");
        for end in [&called, &answered] {
            assert_eq!(peer_user(end.as_fd()).unwrap(), crate::process::effective_user());
        }
        let text = String::from_utf8(name).unwrap();
        assert_eq!(names(&text), std::slice::from_ref(&text));
        drop((listener, called, answered));
        assert!(names(&text).is_empty());
    }

    #[test]
    fn a_name_ends_with_its_owner() {
        let name = name("ends");
        drop(Listener::bind(&name, 8).unwrap());
        assert_eq!(dial(&name).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn who_finds_no_room_to_wait_is_told() {
        let name = name("full");
        let _listener = Listener::bind(&name, 0).unwrap();
        let refused = (0..8).map(|_| dial(&name)).collect::<Result<Vec<_>, _>>().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn names_have_a_length() {
        for length in [0, NAME_BYTES_MAX + 1] {
            assert_eq!(dial(&vec![b'x'; length]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let longest = vec![b'y'; NAME_BYTES_MAX];
        assert_eq!(dial(&longest).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
