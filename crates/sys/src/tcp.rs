//! TCP for code that may not use `unsafe`: listeners and streams that never wait, raise no SIGPIPE and are
//! close-on-exec.
//!
//! The standard library's types read into slices only and connect with a wait; a stream here moves bytes from and to
//! a program's own buffer together with bytes of the protocol's, in one system call. What the bytes mean, and when to
//! try again, is the caller's business: [`crate::poll::Poll`] says when.
use crate::cpu;
use crate::mem::{UserBuf, UserBufMut};
use crate::net;
use crate::sockaddr::{self, RawAddr, check};
use crate::socket::{Transfer, transfer};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Connections that broke before they were accepted and are passed over in one call.
const ACCEPT_TRIES: usize = 64;

/// A socket that others connect to.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Listens at `addr`. Port 0 takes any free port; a port that is named may have connections of an earlier
    /// process that wait for their time to run out, but no other listener.
    pub fn bind(addr: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let fd = sockaddr::socket(addr, libc::SOCK_STREAM)?;
        if addr.port() != 0 {
            // Without it a job could not use the ports of the one before for a minute. With it and port 0 the
            // kernel may choose a port that another process has bound and is about to listen at.
            sockaddr::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        }
        sockaddr::bind(fd.as_fd(), addr)?;
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        // SAFETY: an open descriptor and a number.
        check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
        Ok(Listener { fd })
    }

    /// Listens at the first free port of `ports`, tried from `offset` on and all round. The port in `addr` is not
    /// used. That no port is free is `AddrInUse`, with the range in its message.
    pub fn bind_within(
        addr: SocketAddr,
        ports: &RangeInclusive<u16>,
        offset: u32,
        backlog: u32,
    ) -> io::Result<Listener> {
        let scope = sockaddr::scope_of(addr);
        sockaddr::bind_within(addr.ip(), scope, ports, offset, |addr| Listener::bind(addr, backlog))
    }

    /// Connections that are accepted from now on send small writes at once, and fail when they are idle and the other
    /// host is silent: see [`net::keep_alive`]. They inherit it, which spares each of them five system calls.
    pub fn prepare(&self, silence: Duration) -> io::Result<()> {
        sockaddr::set_option(self.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        net::keep_alive(self.as_fd(), silence)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sockaddr::local_addr(self.fd.as_fd())
    }

    /// The next connection and where it comes from; `None` when there is none now. Connections that broke while
    /// they waited are passed over. An error is about this process or host (no descriptor, no memory): the
    /// connection still waits, and a poll says so again at once.
    pub fn accept(&self) -> io::Result<Option<(Stream, SocketAddr)>> {
        for _ in 0..ACCEPT_TRIES {
            let mut from = RawAddr::room();
            let (at, len) = (from.as_mut_ptr(), from.len_mut() as *mut libc::socklen_t);
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            // SAFETY: an open descriptor; `at` is writable for `*len` bytes.
            let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), at, len, flags) };
            if fd >= 0 {
                // SAFETY: the kernel just made this descriptor for us.
                let stream = Stream { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
                return Ok(Some((stream, from.get()?)));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(None),
                Some(errno) if is_of_the_connection(errno) => {}
                _ => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Errors that accept(2) hands on from the connection it would have accepted.
fn is_of_the_connection(errno: i32) -> bool {
    matches!(
        errno,
        libc::EINTR
            | libc::ECONNABORTED
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::ENETUNREACH
    )
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a connection. Every operation takes `&self`: the kernel keeps the state.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
}

impl Stream {
    /// Begins to connect, from the address `from` if one is given. [`Stream::connected`] says how it went. Small writes
    /// are sent at once, not gathered.
    pub fn dial(from: Option<IpAddr>, to: SocketAddr) -> io::Result<Stream> {
        let stream = Stream { fd: sockaddr::socket(to, libc::SOCK_STREAM)? };
        if let Some(from) = from {
            if from.is_ipv4() != to.is_ipv4() {
                let why = format!("{from} and {to} are of different families");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            // The port is then chosen at connect, and one port serves connections to several peers. Kernels
            // before 4.2 lack it, and connect all the same.
            let _ = stream.set(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
            sockaddr::bind(stream.as_fd(), sockaddr::with_scope(from, 0, sockaddr::scope_of(to)))?;
        }
        // Without it the stream works as well, if slowly.
        let _ = stream.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        let raw = RawAddr::new(to);
        // SAFETY: an open descriptor and an address that lives for the call.
        match check(unsafe { libc::connect(stream.fd.as_raw_fd(), raw.as_ptr(), raw.len()) }) {
            // An interrupted connect goes on like one that was begun.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
                Err(error)
            }
            _ => Ok(stream),
        }
    }

    /// Is the connection made? `false` while it is being made. Why it failed (refused, no route, timed out) is
    /// an error, which the kernel reports once.
    pub fn connected(&self) -> io::Result<bool> {
        match self.option(libc::SOL_SOCKET, libc::SO_ERROR)? {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        match sockaddr::peer_addr(self.as_fd()) {
            // On a host's own address the kernel may choose the port that is dialled, and TCP connects the two.
            Ok(peer) if peer == self.local_addr()? => Err(io::Error::from_raw_os_error(libc::ECONNREFUSED)),
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until there is room to write, the connection is made or has failed: `true`; or `timeout` has passed
    /// or a signal came: `false`.
    pub fn wait_writable(&self, timeout: Duration) -> io::Result<bool> {
        let mut fds = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        let time = cpu::timespec(timeout);
        // SAFETY: one entry and a time that live for the call; no signal mask.
        match unsafe { libc::ppoll(&mut fds, 1, &time, std::ptr::null()) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            ready => Ok(ready > 0),
        }
    }

    /// Reads what is there into `to`. `Closed` is the end or a reset; other failures of the connection (timed
    /// out, no route) are errors.
    pub fn read(&self, to: &mut [u8]) -> io::Result<Transfer> {
        // SAFETY: `to` is writable for its length, exclusively, for the call.
        self.read_into(unsafe { UserBufMut::new(to.as_mut_ptr(), to.len()) })
    }

    /// The same into a program's buffer.
    pub fn read_into(&self, to: UserBufMut) -> io::Result<Transfer> {
        if to.is_empty() {
            return Ok(Transfer::WouldBlock); // recv would answer 0, which means the end
        }
        // SAFETY: `to` is writable by its constructor.
        let n =
            unsafe { libc::recv(self.fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT) };
        transfer(n)
    }

    /// Reads what is there into `first` and, when that is full, into `rest`; counts both.
    pub fn read_into2(&self, first: UserBufMut, rest: &mut [u8]) -> io::Result<Transfer> {
        if first.is_empty() {
            return self.read(rest);
        }
        let mut parts = [
            libc::iovec { iov_base: first.as_mut_ptr().cast(), iov_len: first.len() },
            libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
        ];
        let mut message = message_of(&mut parts);
        // SAFETY: `first` is writable by its constructor, `rest` by being exclusive; the parts live for the call.
        transfer(unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) })
    }

    /// Writes as much of `from` as fits now.
    pub fn write(&self, from: &[u8]) -> io::Result<Transfer> {
        // SAFETY: `from` is readable for its length for the call.
        self.write_from(unsafe { UserBuf::new(from.as_ptr(), from.len()) })
    }

    /// The same from a program's buffer.
    pub fn write_from(&self, from: UserBuf) -> io::Result<Transfer> {
        if from.is_empty() {
            return Ok(Transfer::WouldBlock);
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: `from` is readable by its constructor.
        written(unsafe { libc::send(self.fd.as_raw_fd(), from.as_ptr().cast(), from.len(), flags) })
    }

    /// Writes as much of `head` and then `body` as fits now; counts both.
    pub fn write_parts(&self, head: &[u8], body: UserBuf) -> io::Result<Transfer> {
        if head.is_empty() {
            return self.write_from(body);
        }
        if body.is_empty() {
            return self.write(head);
        }
        let mut parts = [
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec { iov_base: body.as_ptr().cast_mut().cast(), iov_len: body.len() },
        ];
        let message = message_of(&mut parts);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: `head` is readable for the call, `body` by its constructor; sendmsg writes to neither.
        written(unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, flags) })
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sockaddr::local_addr(self.as_fd())
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        sockaddr::peer_addr(self.as_fd())
    }

    /// Fails when the other host has answered nothing for about `silence`: see [`net::notice_silence`].
    pub fn notice_silence(&self, silence: Duration) -> io::Result<()> {
        net::notice_silence(self.as_fd(), silence)
    }

    /// Fails when nothing is on its way and the other host has been silent: see [`net::keep_alive`].
    pub fn keep_alive(&self, silence: Duration) -> io::Result<()> {
        net::keep_alive(self.as_fd(), silence)
    }

    /// How long the other host has acknowledged nothing, if something is on its way there. What waits here because the
    /// receiver has no room is not on its way.
    pub fn unanswered(&self) -> io::Result<Option<Duration>> {
        let info = self.info()?;
        let silent = Duration::from_millis(info.tcpi_last_ack_recv.into());
        Ok((info.tcpi_unacked > 0).then_some(silent))
    }

    /// Has the other end closed in order, after all that it had written? Not if it was reset or gave up, which also ends what is
    /// read. To be asked behind that end.
    pub fn has_ended(&self) -> io::Result<bool> {
        const CLOSE_WAIT: u8 = 8;
        Ok(self.info()?.tcpi_state == CLOSE_WAIT)
    }

    /// Bytes that have gone either way, as the kernel counts them.
    pub fn traffic_bytes(&self) -> io::Result<u64> {
        // The libc crate's struct ends before these counters (Linux 4.1 and later: `tcpi_bytes_acked`,
        // `tcpi_bytes_received`).
        const ACKED: usize = 120 / 8;
        const RECEIVED: usize = 128 / 8;
        let mut info = [0u64; RECEIVED + 1];
        let mut length = size_of_val(&info) as libc::socklen_t;
        let at = (&raw mut info).cast();
        // SAFETY: an open descriptor; `info` is writable for `length` bytes. An older kernel writes fewer.
        check(unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut length)
        })?;
        Ok(info[ACKED].saturating_add(info[RECEIVED]))
    }

    /// What the kernel knows of the connection.
    fn info(&self) -> io::Result<libc::tcp_info> {
        // SAFETY: all-zero is a valid `tcp_info`, a plain C struct.
        let mut info = unsafe { std::mem::zeroed::<libc::tcp_info>() };
        let mut length = size_of_val(&info) as libc::socklen_t;
        let at = (&raw mut info).cast();
        // SAFETY: an open descriptor; `info` is writable for `length` bytes. An older kernel writes fewer.
        check(unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut length)
        })?;
        Ok(info)
    }

    /// Fixes the sizes of the kernel's buffers, which otherwise follow the traffic.
    pub fn set_buffers(&self, send: Option<usize>, receive: Option<usize>) -> io::Result<()> {
        sockaddr::set_buffers(self.as_fd(), send, receive)
    }

    /// Sizes of the kernel's buffers now: send, receive.
    pub fn buffers(&self) -> io::Result<(usize, usize)> {
        let bytes = |option| self.option(libc::SOL_SOCKET, option).map(|bytes| bytes.max(0) as usize);
        Ok((bytes(libc::SO_SNDBUF)?, bytes(libc::SO_RCVBUF)?))
    }

    /// Bytes written that the other host has not acknowledged.
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: an open descriptor; SIOCOUTQ (the same number as TIOCOUTQ) writes one int.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
        Ok(bytes.max(0) as usize)
    }

    /// Closes by a reset: what is not sent is thrown away, the other end sees `Closed`, and no port stays
    /// occupied for a minute.
    pub fn close_hard(self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let length = size_of::<libc::linger>() as libc::socklen_t;
        let at = (&raw const linger).cast();
        // A failure leaves an ordinary close.
        // SAFETY: an open descriptor; `linger` is readable for `length` bytes.
        unsafe { libc::setsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, length) };
    }

    /// Says that nothing more will be written; the other end reads the rest and then the end.
    pub fn end_writing(&self) -> io::Result<()> {
        crate::socket::end_writing(self.fd.as_fd())
    }

    fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        sockaddr::set_option(self.as_fd(), level, option, value)
    }

    fn option(&self, level: i32, option: i32) -> io::Result<i32> {
        sockaddr::option(self.as_fd(), level, option)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How a write went. That the kernel has no memory for it at the moment says nothing about the connection.
fn written(n: isize) -> io::Result<Transfer> {
    match transfer(n) {
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Transfer::WouldBlock),
        other => other,
    }
}

/// The message header over `parts`.
fn message_of(parts: &mut [libc::iovec; 2]) -> libc::msghdr {
    // SAFETY: all-zero is a valid `msghdr` without address, parts and control data.
    let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message
}

#[cfg(test)]
mod tests;
