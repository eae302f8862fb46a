//! Descriptors: sockets of open devices, counters that programs wait for, and a directory that is watched.
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Numbers of open devices: from 1 to one less than this.
pub(crate) const NUMBERS: u32 = 1 << 12;
const BACKLOG: i32 = 1024;
/// Room for a few descriptors beside a packet.
const ROOM_WORDS: usize = 8;

/// Whose devices reach each other: those of a directory, or those of this process.
#[derive(Clone, Debug)]
pub(crate) struct Realm {
    name: String,
    pub directory: Option<PathBuf>,
}

impl Realm {
    pub(crate) fn new(directory: Option<&Path>) -> io::Result<Realm> {
        let Some(directory) = directory else {
            return Ok(Realm { name: format!("process-{}", std::process::id()), directory: None });
        };
        let facts = std::fs::metadata(directory)?;
        let name = format!("{}-{}", facts.dev(), facts.ino());
        Ok(Realm { name, directory: Some(directory.to_path_buf()) })
    }

    /// A name without a file: the kernel forgets it when its last descriptor is closed.
    fn address(&self, number: u32) -> (libc::sockaddr_un, libc::socklen_t) {
        // SAFETY: integers may be zero.
        let mut addr: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        addr.sun_family = libc::AF_UNIX as u16;
        let name = format!("\0banyan-standin/{}/{number}", self.name);
        for (to, from) in addr.sun_path.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let bytes = std::mem::offset_of!(libc::sockaddr_un, sun_path) + name.len();
        (addr, bytes as libc::socklen_t)
    }
}

/// A socket that packets go through. A forked child does not have it.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    fn new() -> io::Result<Socket> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        Self::own(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
    }

    fn own(fd: RawFd) -> io::Result<Socket> {
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        keep_from_children(fd);
        // SAFETY: the kernel has just made it.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// One that another process has given.
    pub(crate) fn of(fd: OwnedFd) -> Socket {
        keep_from_children(fd.as_raw_fd());
        Socket(fd)
    }

    /// Listens under the first number that nobody has.
    pub(crate) fn listen(realm: &Realm) -> io::Result<(Socket, u32)> {
        let socket = Socket::new()?;
        for number in 1..NUMBERS {
            let (addr, bytes) = realm.address(number);
            // SAFETY: an open socket and an address of that length.
            let bound = unsafe { libc::bind(socket.fd(), (&raw const addr).cast(), bytes) };
            if bound == 0 {
                // SAFETY: an open socket.
                check(unsafe { libc::listen(socket.fd(), BACKLOG) })?;
                return Ok((socket, number));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::AddrInUse {
                return Err(error);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Connects to the device with that number.
    pub(crate) fn connect(realm: &Realm, number: u32) -> io::Result<Socket> {
        let socket = Socket::new()?;
        let (addr, bytes) = realm.address(number);
        // SAFETY: an open socket and an address of that length.
        check(unsafe { libc::connect(socket.fd(), (&raw const addr).cast(), bytes) })?;
        Ok(socket)
    }

    /// The next connection, if there is one.
    pub(crate) fn accept(&self) -> Option<Socket> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let nobody = std::ptr::null_mut();
        // SAFETY: an open socket; the address is not asked for.
        let fd = unsafe { libc::accept4(self.fd(), nobody, std::ptr::null_mut(), flags) };
        Self::own(fd).ok()
    }

    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: an open socket and bytes.
        let sent = unsafe { libc::send(self.fd(), frame.as_ptr().cast(), frame.len(), flags) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The length of the next packet; 0 at the end.
    pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: an open socket and room.
        let got = unsafe { libc::recv(self.fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// Sends a packet, and copies of descriptors with it.
    pub(crate) fn send_with(&self, frame: &[u8], fds: &[RawFd]) -> io::Result<()> {
        let mut part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        let (mut room, bytes) = ([0u64; ROOM_WORDS], size_of_val(fds) as u32);
        // SAFETY: integers and pointers may be zero.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        if !fds.is_empty() {
            message.msg_control = room.as_mut_ptr().cast();
            // SAFETY: only counts.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
            assert!(message.msg_controllen <= size_of_val(&room));
            // SAFETY: there is room for one.
            let head = unsafe { &mut *libc::CMSG_FIRSTHDR(&message) };
            (head.cmsg_level, head.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            // SAFETY: only counts.
            head.cmsg_len = unsafe { libc::CMSG_LEN(bytes) } as usize;
            // SAFETY: behind the head is room for that many.
            unsafe { libc::CMSG_DATA(head).copy_from(fds.as_ptr().cast(), bytes as usize) };
        }
        // SAFETY: an open socket, and a message whose parts are alive.
        let sent = unsafe { libc::sendmsg(self.fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The length of the next packet, and the descriptors that came with it.
    pub(crate) fn receive_with(&self, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let mut room = [0u64; ROOM_WORDS];
        // SAFETY: integers and pointers may be zero.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), size_of_val(&room));
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: an open socket, and a message whose parts are alive.
        let got = unsafe { libc::recvmsg(self.fd(), &mut message, flags) };
        let len = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let mut fds = Vec::new();
        // SAFETY: what the kernel has put there, if it is something.
        if let Some(head) = unsafe { libc::CMSG_FIRSTHDR(&message).as_ref() }
            && (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
        {
            // SAFETY: only counts.
            let count = (head.cmsg_len - unsafe { libc::CMSG_LEN(0) } as usize) / size_of::<RawFd>();
            for at in 0..count {
                // SAFETY: the kernel has put so many behind the head.
                let fd = unsafe { libc::CMSG_DATA(head).cast::<RawFd>().add(at).read_unaligned() };
                // SAFETY: the kernel has just made it.
                fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        Ok((len, fds))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some((word, bit)) = place(self.fd()) {
            word.fetch_and(!bit, Relaxed);
        }
    }
}

fn check(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Descriptors of sockets, as bits. A child that has copies would keep connections of a dead parent alive.
static SOCKETS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
static OWNER: AtomicU32 = AtomicU32::new(0);

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((SOCKETS.get(fd / 64)?, 1 << (fd % 64)))
}

fn keep_from_children(fd: RawFd) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        OWNER.store(std::process::id(), Relaxed);
        // SAFETY: the function only closes descriptors, which a child may.
        unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
    });
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Relaxed);
    }
}

extern "C" fn close_in_child() {
    for (at, word) in SOCKETS.iter().enumerate() {
        let mut bits = word.load(Relaxed);
        while bits != 0 {
            let fd = 64 * at as i32 + bits.trailing_zeros() as i32;
            // SAFETY: the child's copy; nothing in it uses it, see `is_forked`.
            unsafe { libc::close(fd) };
            bits &= bits - 1;
        }
    }
}

/// Is this a child of the process that opened devices? They are not its own.
pub(crate) fn is_forked() -> bool {
    let owner = OWNER.load(Relaxed);
    owner != 0 && owner != std::process::id()
}

/// A number that can be waited for, through its descriptor.
#[derive(Debug)]
pub(crate) struct Counter(OwnedFd);

impl Counter {
    pub(crate) fn new() -> io::Result<Counter> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it.
        Ok(Counter(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn add(&self) {
        let one = 1u64;
        // SAFETY: an open descriptor and eight bytes.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    /// Takes one; waits for it if the descriptor is set so.
    pub(crate) fn take(&self) -> io::Result<()> {
        let mut one = 0u64;
        // SAFETY: an open descriptor and room for eight bytes.
        let got = unsafe { libc::read(self.fd(), (&raw mut one).cast(), 8) };
        if got == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes one that is known to be there, or none.
    pub(crate) fn take_now(&self) -> bool {
        wait(&mut [readable(self.fd())], Some(0)) && self.take().is_ok()
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Files of a directory that are written.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn new(directory: &Path) -> io::Result<Watch> {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: no pointers.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it.
        let watch = Watch(unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: an open descriptor and a path.
        let added =
            unsafe { libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_CLOSE_WRITE | libc::IN_MOVED_TO) };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(watch) }
    }

    /// Was something written?
    pub(crate) fn take(&self) -> bool {
        let (mut buffer, mut any) = ([0u8; 4096], false);
        loop {
            // SAFETY: an open descriptor, which does not block, and room.
            let got = unsafe { libc::read(self.fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
            if got <= 0 {
                return any;
            }
            any = true;
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Waits for descriptors. Is one ready?
pub(crate) fn wait(fds: &mut [libc::pollfd], timeout_ms: Option<i32>) -> bool {
    // SAFETY: so many entries.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms.unwrap_or(-1)) > 0 }
}
