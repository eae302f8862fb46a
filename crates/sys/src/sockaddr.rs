//! Socket addresses as the kernel takes and gives them, and the calls on any internet socket that need one.
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

/// An address of either family with its length. The scope of an IPv6 address is kept.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddr {
    /// Room for an address that the kernel will fill in.
    pub(crate) fn room() -> Self {
        // SAFETY: all-zero is a valid `sockaddr_storage` of no family.
        let storage = unsafe { std::mem::zeroed() };
        RawAddr { storage, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    pub(crate) fn new(addr: SocketAddr) -> Self {
        let mut raw = RawAddr::room();
        raw.len = match addr {
            SocketAddr::V4(v4) => raw.put(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => raw.put(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            }),
        };
        raw
    }

    fn put<T: Copy>(&mut self, address: T) -> libc::socklen_t {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        // SAFETY: the storage is large enough (asserted) and aligned for every kind of address.
        unsafe { (&raw mut self.storage).cast::<T>().write(address) };
        size_of::<T>() as libc::socklen_t
    }

    /// The address, if it is one of the internet.
    pub(crate) fn get(&self) -> io::Result<SocketAddr> {
        // SAFETY: the storage lives for the call and is longer than any address of its family.
        unsafe { read(self.as_ptr()) }.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }

    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }

    /// Where the kernel writes the length.
    pub(crate) fn len_mut(&mut self) -> &mut libc::socklen_t {
        &mut self.len
    }
}

/// The internet address at `address`.
///
/// # Safety
/// `address` is null or points to a socket address that is as long as its family says.
pub(crate) unsafe fn read(address: *const libc::sockaddr) -> Option<SocketAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, so there is at least a family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says what it is.
            let v4 = unsafe { std::ptr::read_unaligned(address.cast::<libc::sockaddr_in>()) };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { std::ptr::read_unaligned(address.cast::<libc::sockaddr_in6>()) };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// A socket of `kind` for addresses like `addr` that does not wait and is close-on-exec.
pub(crate) fn socket(addr: SocketAddr, kind: libc::c_int) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn bind(fd: BorrowedFd<'_>, addr: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::new(addr);
    // SAFETY: an open descriptor and an address that lives for the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), raw.as_ptr(), raw.len()) })
}

pub(crate) fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut raw = RawAddr::room();
    let (at, len) = (raw.as_mut_ptr(), &raw mut raw.len);
    // SAFETY: an open descriptor; `at` is writable for `*len` bytes.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), at, len) })?;
    raw.get()
}

pub(crate) fn peer_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut raw = RawAddr::room();
    let (at, len) = (raw.as_mut_ptr(), &raw mut raw.len);
    // SAFETY: an open descriptor; `at` is writable for `*len` bytes.
    check(unsafe { libc::getpeername(fd.as_raw_fd(), at, len) })?;
    raw.get()
}

/// Sets an option that is a whole number.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: an open descriptor; `value` is readable for `length` bytes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) })
}

/// Reads an option that is a whole number.
pub(crate) fn option(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: an open descriptor; `value` is writable for `length` bytes.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// Sizes of a socket's buffers in the kernel. It doubles what is asked for and has limits of its own.
pub(crate) fn set_buffers(fd: BorrowedFd<'_>, send: Option<usize>, receive: Option<usize>) -> io::Result<()> {
    for (option, bytes) in [(libc::SO_SNDBUF, send), (libc::SO_RCVBUF, receive)] {
        if let Some(bytes) = bytes {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            set_option(fd, libc::SOL_SOCKET, option, bytes)?;
        }
    }
    Ok(())
}

/// How often a range of ports is gone round before it counts as full.
const ROUNDS: u32 = 8;

/// Calls `bind` with ports of `ports` until one is free, beginning `offset` behind the first and going round.
/// Processes that start at different offsets rarely meet; where they do, the kernel may refuse a port to both (each
/// says that it listens before it looks whether another does), and the ports of a process that ends are free a little
/// later. So a range that seems full is gone round again after a pause that is another one for each offset.
pub(crate) fn bind_within<T>(
    ip: IpAddr,
    scope: u32,
    ports: &RangeInclusive<u16>,
    offset: u32,
    mut bind: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let (low, high) = (u32::from(*ports.start()), u32::from(*ports.end()));
    if low == 0 || low > high {
        let why = format!("{low} to {high} is no range of ports");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let count = high - low + 1;
    for round in 0..ROUNDS {
        if round > 0 {
            thread::sleep(Duration::from_millis(u64::from(1 + offset % 7) << round));
        }
        for nth in 0..count {
            let port = (low + (offset % count + nth) % count) as u16;
            match bind(with_scope(ip, port, scope)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => return bound,
            }
        }
    }
    let why = format!("all ports from {low} to {high} of {ip} are in use");
    Err(io::Error::new(io::ErrorKind::AddrInUse, why))
}

/// An address whose scope counts where the family has one.
pub(crate) fn with_scope(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(v4) => SocketAddrV4::new(v4, port).into(),
        IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, scope).into(),
    }
}

/// The scope of an address; 0 where it has none.
pub(crate) fn scope_of(addr: SocketAddr) -> u32 {
    match addr {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    }
}

/// The kernel's answer as a value.
pub(crate) fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_with_its_scope() {
        for text in ["127.0.0.1:80", "255.255.255.255:65535", "[::1]:1", "[fe80::1%7]:4711"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddr::new(addr).get().unwrap(), addr, "{text}");
        }
        assert!(RawAddr::room().get().is_err());
    }

    #[test]
    fn every_port_of_a_range_is_tried_from_the_offset_on_and_again_before_it_counts_as_full() {
        let ip = "10.0.0.1".parse().unwrap();
        let mut tried = Vec::new();
        let none = bind_within(ip, 0, &(10..=13), 6, |addr| {
            tried.push(addr.port());
            Err::<(), _>(io::Error::from(io::ErrorKind::AddrInUse))
        });
        assert_eq!(tried, [12, 13, 10, 11].repeat(ROUNDS as usize));
        let mut refused = 0;
        let late = bind_within(ip, 0, &(10..=13), 6, |addr| {
            refused += 1;
            if refused > 5 { Ok(addr.port()) } else { Err(io::Error::from(io::ErrorKind::AddrInUse)) }
        });
        assert_eq!(late.unwrap(), 13);
        assert_eq!(none.unwrap_err().to_string(), "all ports from 10 to 13 of 10.0.0.1 are in use");
        let port = bind_within(ip, 0, &(1..=65535), u32::MAX, |addr| Ok(addr.port())).unwrap();
        assert_eq!(port, 1 + (u32::MAX % 65535) as u16);
        #[expect(clippy::reversed_empty_ranges, reason = "a user may write it")]
        let reversed = 13..=10;
        assert!(bind_within(ip, 0, &reversed, 0, |_| Ok(())).is_err());
        let denied = bind_within(ip, 0, &(10..=13), 0, |_| {
            Err::<(), _>(io::Error::from(io::ErrorKind::PermissionDenied))
        });
        assert_eq!(denied.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
