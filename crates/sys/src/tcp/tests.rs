use super::*;
use crate::poll::{Interest, Poll};

const LONG: Duration = Duration::from_secs(20);

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Waits until `fd` can be read; fails after a while.
fn wait_readable(fd: BorrowedFd<'_>) {
    let poll = Poll::new().unwrap();
    poll.add(fd, 0, Interest::Read).unwrap();
    let mut ready = Vec::new();
    poll.wait_for(Some(LONG), &mut ready).unwrap();
    assert!(!ready.is_empty(), "nothing to read");
}

fn accept(listener: &Listener) -> (Stream, SocketAddr) {
    wait_readable(listener.as_fd());
    listener.accept().unwrap().expect("a connection")
}

fn pair() -> (Stream, Stream) {
    let listener = Listener::bind(loopback(), 16).unwrap();
    let dialled = Stream::dial(None, listener.local_addr().unwrap()).unwrap();
    let (accepted, from) = accept(&listener);
    assert!(dialled.wait_writable(LONG).unwrap());
    assert!(dialled.connected().unwrap());
    assert_eq!(dialled.local_addr().unwrap(), from);
    assert_eq!(accepted.local_addr().unwrap(), dialled.peer_addr().unwrap());
    (dialled, accepted)
}

fn source(bytes: &[u8]) -> UserBuf {
    // SAFETY: the tests keep the slice while it is written.
    unsafe { UserBuf::new(bytes.as_ptr(), bytes.len()) }
}

fn target(bytes: &mut [u8]) -> UserBufMut {
    // SAFETY: the tests do not touch the slice while it is read into.
    unsafe { UserBufMut::new(bytes.as_mut_ptr(), bytes.len()) }
}

fn flag(fd: BorrowedFd<'_>, command: i32) -> i32 {
    // SAFETY: asks an open descriptor for its flags.
    unsafe { libc::fcntl(fd.as_raw_fd(), command) }
}

#[test]
fn both_ends_do_not_wait_and_close_on_exec() {
    let (dialled, accepted) = pair();
    for stream in [&dialled, &accepted] {
        assert_ne!(flag(stream.as_fd(), libc::F_GETFL) & libc::O_NONBLOCK, 0);
        assert_ne!(flag(stream.as_fd(), libc::F_GETFD) & libc::FD_CLOEXEC, 0);
        assert_eq!(stream.read(&mut [0; 4]).unwrap(), Transfer::WouldBlock);
    }
    let listener = Listener::bind(loopback(), 1).unwrap();
    assert!(listener.accept().unwrap().is_none());
    assert_ne!(flag(listener.as_fd(), libc::F_GETFD) & libc::FD_CLOEXEC, 0);
}

#[test]
fn head_and_body_leave_in_one_write_and_arrive_in_two_parts() {
    let (a, b) = pair();
    assert_eq!(a.write_parts(b"head", source(b"and the body")).unwrap(), Transfer::Bytes(16));
    wait_readable(b.as_fd());
    let (mut first, mut rest) = ([0; 6], [0; 32]);
    assert_eq!(b.read_into2(target(&mut first), &mut rest).unwrap(), Transfer::Bytes(16));
    assert_eq!((&first, &rest[..10]), (b"headan", &b"d the body"[..]));
    assert_eq!(a.write_parts(b"", source(b"body")).unwrap(), Transfer::Bytes(4));
    assert_eq!(a.write_parts(b"head", UserBuf::EMPTY).unwrap(), Transfer::Bytes(4));
    let mut both = [0; 8];
    let mut got = 0;
    while got < both.len() {
        wait_readable(b.as_fd());
        let Transfer::Bytes(n) = b.read_into(target(&mut both[got..])).unwrap() else { panic!("no bytes") };
        got += n;
    }
    assert_eq!(&both, b"bodyhead");
}

#[test]
fn nothing_to_move_is_not_the_end() {
    let (a, b) = pair();
    a.write(b"x").unwrap();
    wait_readable(b.as_fd());
    assert_eq!(b.read(&mut []).unwrap(), Transfer::WouldBlock);
    assert_eq!(b.read_into2(UserBufMut::EMPTY, &mut []).unwrap(), Transfer::WouldBlock);
    assert_eq!(a.write(&[]).unwrap(), Transfer::WouldBlock);
    assert_eq!(a.write_parts(&[], UserBuf::EMPTY).unwrap(), Transfer::WouldBlock);
    assert_eq!(b.read_into2(UserBufMut::EMPTY, &mut [0; 4]).unwrap(), Transfer::Bytes(1));
}

#[test]
fn a_full_stream_would_block_and_knows_what_is_unsent() {
    let (a, b) = pair();
    a.set_buffers(Some(16 << 10), None).unwrap();
    b.set_buffers(None, Some(16 << 10)).unwrap();
    let block = vec![7; 64 << 10];
    let mut written = 0;
    while let Transfer::Bytes(n) = a.write(&block).unwrap() {
        written += n;
        assert!(written < 64 << 20, "never full");
    }
    assert!(a.unsent_bytes().unwrap() > 0);
    assert!(!a.wait_writable(Duration::ZERO).unwrap());
    let mut read = 0;
    let mut to = vec![0; 64 << 10];
    while read < written {
        wait_readable(b.as_fd());
        let Transfer::Bytes(n) = b.read(&mut to).unwrap() else { panic!("ended at {read} of {written}") };
        read += n;
    }
    assert!(a.wait_writable(LONG).unwrap());
}

#[test]
fn an_orderly_end_and_a_reset_are_both_closed() {
    let (a, b) = pair();
    a.write(b"last words").unwrap();
    a.end_writing().unwrap();
    wait_readable(b.as_fd());
    assert_eq!(b.read(&mut [0; 64]).unwrap(), Transfer::Bytes(10));
    wait_readable(b.as_fd());
    assert_eq!(b.read(&mut [0; 64]).unwrap(), Transfer::Closed);
    assert!(b.has_ended().unwrap());

    let (a, b) = pair();
    a.close_hard();
    wait_readable(b.as_fd());
    assert_eq!(b.read(&mut [0; 64]).unwrap(), Transfer::Closed);
    assert!(!b.has_ended().unwrap());
    assert_eq!(b.write(b"into the void").unwrap(), Transfer::Closed);
    assert_eq!(b.write_parts(b"into", source(b"the void")).unwrap(), Transfer::Closed);
}

#[test]
fn a_refused_dial_says_so() {
    let closed = Listener::bind(loopback(), 1).unwrap().local_addr().unwrap();
    let dialled = match Stream::dial(None, closed) {
        Ok(stream) => stream.wait_writable(LONG).and_then(|_| stream.connected()),
        Err(error) => Err(error),
    };
    assert_eq!(dialled.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_dial_leaves_from_the_address_that_it_is_told() {
    let listener = Listener::bind(loopback(), 4).unwrap();
    let from: IpAddr = "127.0.0.2".parse().unwrap();
    let dialled = Stream::dial(Some(from), listener.local_addr().unwrap()).unwrap();
    let (_accepted, seen) = accept(&listener);
    assert_eq!(seen.ip(), from);
    assert_eq!(dialled.local_addr().unwrap(), seen);
    let other_family = Stream::dial(Some("::1".parse().unwrap()), listener.local_addr().unwrap());
    assert_eq!(other_family.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_connection_to_itself_is_no_connection() {
    // A socket that is bound to the port it dials is what chance does with an ephemeral port.
    let at = loopback();
    let fd = sockaddr::socket(at, libc::SOCK_STREAM).unwrap();
    sockaddr::bind(fd.as_fd(), at).unwrap();
    let itself = RawAddr::new(sockaddr::local_addr(fd.as_fd()).unwrap());
    // SAFETY: an open descriptor and an address that lives for the call.
    let _ = unsafe { libc::connect(fd.as_raw_fd(), itself.as_ptr(), itself.len()) };
    let stream = Stream { fd };
    assert!(stream.wait_writable(LONG).unwrap());
    assert_eq!(stream.connected().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_listener_takes_the_free_port_of_a_range() {
    // Which ports are free is not ours to say: one that is taken and its neighbours will do.
    let taken = Listener::bind(loopback(), 1).unwrap();
    let port = taken.local_addr().unwrap().port();
    let only = Listener::bind_within(loopback(), &(port..=port), 3, 1).unwrap_err();
    assert_eq!(only.kind(), io::ErrorKind::AddrInUse);
    assert!(only.to_string().contains(&port.to_string()), "{only}");
    let (low, high) = (port.saturating_sub(50), port.saturating_add(50));
    let offset = u32::from(port - low);
    let found = Listener::bind_within(loopback(), &(low..=high), offset, 1).unwrap();
    let found = found.local_addr().unwrap().port();
    assert!((low..=high).contains(&found) && found != port, "{found} beside {port}");
}

#[test]
fn a_port_is_free_again_although_its_connections_linger() {
    let listener = Listener::bind(loopback(), 1).unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let Ok(listener) = Listener::bind(at, 1) else { return }; // another process was quicker
    let dialled = Stream::dial(None, at).unwrap();
    let (accepted, _) = accept(&listener);
    drop(accepted); // the side that closes first keeps the port in TIME_WAIT
    wait_readable(dialled.as_fd());
    assert_eq!(dialled.read(&mut [0; 1]).unwrap(), Transfer::Closed);
    drop((dialled, listener));
    Listener::bind(at, 1).unwrap();
}

#[test]
fn ipv6_works_where_the_host_has_it() {
    let Ok(listener) = Listener::bind("[::1]:0".parse().unwrap(), 4) else { return };
    let from = Some("::1".parse().unwrap());
    let dialled = Stream::dial(from, listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = accept(&listener);
    dialled.write(b"six").unwrap();
    wait_readable(accepted.as_fd());
    assert_eq!(accepted.read(&mut [0; 8]).unwrap(), Transfer::Bytes(3));
}

#[test]
fn options_reach_the_socket() {
    let (a, _b) = pair();
    assert_eq!(a.option(libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap(), 1);
    a.notice_silence(Duration::from_secs(30)).unwrap();
    assert_eq!(a.option(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT).unwrap(), 30_000);
    a.set_buffers(Some(32 << 10), Some(64 << 10)).unwrap();
    assert_eq!(a.buffers().unwrap(), (64 << 10, 128 << 10));
}

#[test]
fn accepted_streams_inherit_what_the_listener_prepared() {
    let listener = Listener::bind(loopback(), 16).unwrap();
    listener.prepare(Duration::from_secs(60)).unwrap();
    let dialled = Stream::dial(None, listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = accept(&listener);
    let options = |stream: &Stream| {
        [
            stream.option(libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap(),
            stream.option(libc::SOL_SOCKET, libc::SO_KEEPALIVE).unwrap(),
            stream.option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE).unwrap(),
        ]
    };
    dialled.keep_alive(Duration::from_secs(60)).unwrap();
    assert_eq!(options(&accepted), options(&dialled));
    assert_eq!(options(&accepted)[..2], [1, 1]);
}
