//! Datagrams between hosts, for code that may not use `unsafe`: a UDP socket that never waits and is close-on-exec.
//!
//! A datagram that the kernel has taken may still be lost, doubled or overtaken.
use crate::sockaddr::{self, RawAddr};
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Errors of earlier datagrams that are passed over in one call.
const STALE_ERRORS_MAX: usize = 16;

/// A socket that sends to and receives from anybody.
#[derive(Debug)]
pub struct Datagrams {
    fd: OwnedFd,
}

impl Datagrams {
    /// Receives at `addr`; port 0 takes any free port.
    pub fn bind(addr: SocketAddr) -> io::Result<Datagrams> {
        let fd = sockaddr::socket(addr, libc::SOCK_DGRAM)?;
        sockaddr::bind(fd.as_fd(), addr)?;
        Ok(Datagrams { fd })
    }

    /// Receives at the first free port of `ports`, tried from `offset` on and all round. The port in `addr` is not
    /// used. That no port is free is `AddrInUse`, with the range in its message.
    pub fn bind_within(addr: SocketAddr, ports: &RangeInclusive<u16>, offset: u32) -> io::Result<Datagrams> {
        sockaddr::bind_within(addr.ip(), sockaddr::scope_of(addr), ports, offset, Datagrams::bind)
    }

    /// Where it receives.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sockaddr::local_addr(self.fd.as_fd())
    }

    /// Sends one datagram. `false`: not now (the kernel has no room, or tells of an earlier datagram that nobody
    /// received). An error is about the way to this address: no route, not allowed, too long.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<bool> {
        let raw = RawAddr::new(to);
        let (at, flags) = (bytes.as_ptr().cast(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        // SAFETY: an open descriptor; bytes and address are readable for the call.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), at, bytes.len(), flags, raw.as_ptr(), raw.len()) };
        if sent >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM | libc::ECONNREFUSED) => Ok(false),
            _ => Err(error),
        }
    }

    /// Takes one datagram: its length and sender; `None` when there is none now. What is longer than `to` is cut.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
        for _ in 0..STALE_ERRORS_MAX {
            let mut from = RawAddr::room();
            let (at, len) = (from.as_mut_ptr(), from.len_mut() as *mut libc::socklen_t);
            let (bytes, flags) = (to.as_mut_ptr().cast(), libc::MSG_DONTWAIT);
            // SAFETY: an open descriptor; `to` is writable for its length, `at` for `*len` bytes.
            let got = unsafe { libc::recvfrom(self.fd.as_raw_fd(), bytes, to.len(), flags, at, len) };
            if got >= 0 {
                return Ok(Some((got as usize, from.get()?)));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(None),
                Some(libc::EINTR | libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH) => {}
                _ => return Err(error),
            }
        }
        Ok(None)
    }

    /// Asks for buffers of these sizes in the kernel: what arrives while nobody receives waits there.
    pub fn set_buffers(&self, send: Option<usize>, receive: Option<usize>) -> io::Result<()> {
        sockaddr::set_buffers(self.as_fd(), send, receive)
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Interest, Poll};
    use std::time::Duration;

    fn loopback() -> Datagrams {
        Datagrams::bind("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    fn receive(socket: &Datagrams, to: &mut [u8]) -> (usize, SocketAddr) {
        let poll = Poll::new().unwrap();
        poll.add(socket.as_fd(), 0, Interest::Read).unwrap();
        poll.wait_for(Some(Duration::from_secs(20)), &mut Vec::new()).unwrap();
        socket.receive(to).unwrap().expect("a datagram")
    }

    #[test]
    fn a_datagram_arrives_with_its_sender() {
        let (a, b) = (loopback(), loopback());
        let mut to = [0; 16];
        assert_eq!(b.receive(&mut to).unwrap(), None);
        assert!(a.send_to(b"hello", b.local_addr().unwrap()).unwrap());
        assert_eq!(receive(&b, &mut to), (5, a.local_addr().unwrap()));
        assert_eq!(&to[..5], b"hello");
        assert!(a.send_to(b"", b.local_addr().unwrap()).unwrap());
        assert_eq!(receive(&b, &mut to).0, 0);
        assert!(a.send_to(&[7; 100], b.local_addr().unwrap()).unwrap());
        assert_eq!((receive(&b, &mut to).0, to), (16, [7; 16]));
    }

    #[test]
    fn a_receiver_that_is_gone_is_silence() {
        let a = loopback();
        let gone = loopback().local_addr().unwrap();
        for _ in 0..100 {
            a.send_to(b"anybody?", gone).unwrap();
        }
        assert_eq!(a.receive(&mut [0; 8]).unwrap(), None);
    }

    #[test]
    fn what_no_datagram_can_hold_is_an_error() {
        let (a, b) = (loopback(), loopback());
        assert!(a.send_to(&[0; 70_000], b.local_addr().unwrap()).is_err());
    }

    #[test]
    fn a_taken_port_is_passed_over() {
        let a = loopback();
        let port = a.local_addr().unwrap().port();
        let at = a.local_addr().unwrap();
        assert_eq!(
            Datagrams::bind_within(at, &(port..=port), 0).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        let low = port.saturating_sub(50);
        let b = Datagrams::bind_within(at, &(low..=port), u32::from(port - low)).unwrap();
        assert_ne!(b.local_addr().unwrap().port(), port);
    }
}
