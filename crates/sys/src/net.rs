//! What the launcher needs of the network beyond the standard library: the host's addresses, and connections that
//! notice when the other host is gone.
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

/// Questions that an idle connection asks before it gives up.
const PROBES: u32 = 3;

/// The addresses under which other hosts may reach this one: of interfaces that are up, without loopback and without
/// addresses that mean nothing without an interface.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first = ptr::null_mut();
    // SAFETY: `first` is writable; the list is given back below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at: *const libc::ifaddrs = first;
    while !at.is_null() {
        // SAFETY: an entry of the list, which lives until freeifaddrs; nobody writes to it.
        let entry = unsafe { &*at };
        if entry.ifa_flags & libc::IFF_UP as u32 != 0 {
            // SAFETY: null, or a socket address of the family that it names.
            found.extend(unsafe { ip_address(entry.ifa_addr) });
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list from getifaddrs, of which nothing is kept.
    unsafe { libc::freeifaddrs(first) };
    found.retain(is_reachable);
    Ok(found)
}

/// # Safety
/// `address` is null or points to a socket address that is as long as its family says.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, so there is at least a family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says what it is; the C library aligned it.
            let v4 = unsafe { ptr::read_unaligned(address.cast::<libc::sockaddr_in>()) };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { ptr::read_unaligned(address.cast::<libc::sockaddr_in6>()) };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn is_reachable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    }
}

/// Makes the TCP connection `fd` fail when its other end has answered nothing for about `silence`, whether bytes are on
/// their way or not. Without it, a host that lost its power is never noticed.
pub fn notice_silence(fd: BorrowedFd<'_>, silence: Duration) -> io::Result<()> {
    let seconds = |part: Duration| i32::try_from(part.as_secs().max(1)).unwrap_or(i32::MAX);
    let milliseconds = i32::try_from(silence.as_millis()).unwrap_or(i32::MAX);
    set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(silence / 2))?;
    set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(silence / 2 / PROBES))?;
    set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, PROBES as i32)?;
    set(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, milliseconds)
}

fn set(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: an open descriptor; `value` is readable for `length` bytes.
    let set = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn addresses_are_such_that_others_can_use() {
        let addresses = addresses().unwrap();
        assert!(addresses.iter().all(|address| !address.is_loopback() && !address.is_unspecified()));
        for address in addresses {
            TcpListener::bind((address, 0)).unwrap_or_else(|error| panic!("{address}: {error}"));
        }
    }

    #[test]
    fn silence_is_a_matter_of_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_silence(stream.as_fd(), Duration::from_secs(30)).unwrap();
        let (pipe, _) = socket::pipe().unwrap();
        assert!(notice_silence(pipe.as_fd(), Duration::from_secs(30)).is_err());
    }
}
