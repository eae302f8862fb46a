//! The doorbell: how a process that sleeps is woken, by a sender in another process or by a thread of its own.
//!
//! Who wants to sleep *arms* the doorbell, looks a last time whether there is news, waits, and *disarms* it. A sender
//! looks at one word after each message. Only while that is not zero it rings: it clears the word, changes the
//! *bell*, and wakes. There are two ways to wait:
//!
//! * on the bell itself, a futex ([`Sleeper::wait`]). A bell that was rung after arming has changed, so that
//!   a wait that begins too late ends at once, whoever armed again in between;
//! * for a byte in a pipe, which can be polled beside other descriptors. Senders open the pipe through `/proc`
//!   when they first have to.
//!
//! Several threads may be armed at a time, in either way. A ring wakes all of them.
use crate::mem::{Locator, SharedMap};
use crate::socket;
use crate::sync::{self, Bug, Mutex, MutexGuard, planted};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

// Words of the segment's head. The last two have a line of their own.
/// Descriptor of the pipe in the owner, plus one; 0 while there is none.
pub(super) const AT_PIPE: usize = 12;
/// How the owner sleeps: bits of [`How`].
pub(super) const AT_SLEEPING: usize = 64;
/// Changed by every ring; the futex.
pub(super) const AT_BELL: usize = 68;

/// Bytes of the head that the doorbell's words are in.
pub(super) const PAGE_BYTES: usize = 4096;

/// A way to wait, as a bit of the word that senders look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum How {
    Futex = 1,
    Pipe = 2,
}

/// That somebody is about to sleep, and since when.
#[must_use = "while it is armed, every message costs its sender a system call"]
#[derive(Debug)]
pub struct Armed {
    bell: u32,
    how: How,
}

/// A thread's own hold of the process's doorbell: it sleeps on it, and wakes others, without a reference to the
/// segment (and so without a lock around that).
#[derive(Clone, Debug)]
pub struct Sleeper(Arc<Doorbell>);

#[derive(Debug)]
struct Doorbell {
    /// A map of its own, so that the way to the head on the hot path does not lead through here.
    page: SharedMap,
    pipe: OnceLock<Pipe>,
    armed: Mutex<Counts>,
}

/// Both ends, held by the owner: the pipe never ends.
#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Threads that are armed.
#[derive(Debug, Default)]
struct Counts {
    futex: u32,
    pipe: u32,
}

impl Counts {
    fn of(&mut self, how: How) -> &mut u32 {
        match how {
            How::Futex => &mut self.futex,
            How::Pipe => &mut self.pipe,
        }
    }
}

impl Sleeper {
    /// `page` is the first one of the owner's segment.
    pub(super) fn new(page: SharedMap) -> Self {
        Sleeper(Arc::new(Doorbell { page, pipe: OnceLock::new(), armed: Mutex::default() }))
    }

    /// Waits until the doorbell has been rung since it was armed, or for `timeout`. May end early for no reason.
    pub fn wait(&self, armed: &Armed, timeout: Duration) {
        let bell = self.0.page.u32_at(AT_BELL);
        let expected =
            if planted(Bug::BellReadAtTheWait) { bell.load(Ordering::Acquire) } else { armed.bell };
        sync::futex_wait(bell, expected, timeout);
    }

    /// Wakes every thread of this process that is armed. Costs no system call when there is none.
    pub fn wake(&self) {
        let bell = self.0.page.u32_at(AT_BELL);
        bell.fetch_add(1, Ordering::AcqRel);
        let armed = self.armed();
        if armed.futex > 0 {
            sync::futex_wake_all(bell);
        }
        if let (1.., Some(pipe)) = (armed.pipe, self.0.pipe.get()) {
            ring_pipe(pipe.write.as_fd());
        }
    }

    /// The descriptor to poll for reading while armed for it, once [`super::Segment::pollable_doorbell`] has made it.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.pipe.get().map(|pipe| pipe.read.as_fd())
    }

    /// This thread sleeps no more.
    pub fn disarm(&self, armed: Armed) {
        let mut counts = self.armed();
        let count = counts.of(armed.how);
        *count -= 1;
        // Others may still sleep, and then senders go on ringing and a byte in the pipe stays for them.
        if *count == 0 {
            self.0.page.u32_at(AT_SLEEPING).fetch_and(!(armed.how as u32), Ordering::Relaxed);
            if let (How::Pipe, Some(pipe)) = (armed.how, self.0.pipe.get()) {
                empty(pipe.read.as_fd());
            }
        }
    }

    /// From now on senders ring. A full barrier has to follow, and a last look.
    pub(super) fn arm(&self) -> Armed {
        self.arm_for(How::Futex)
    }

    /// The same for who polls the pipe.
    pub(super) fn arm_pipe(&self) -> io::Result<Armed> {
        self.make_pipe()?;
        Ok(self.arm_for(How::Pipe))
    }

    fn arm_for(&self, how: How) -> Armed {
        let mut counts = self.armed();
        *counts.of(how) += 1;
        let bell = self.0.page.u32_at(AT_BELL).load(Ordering::Acquire);
        self.0.page.u32_at(AT_SLEEPING).fetch_or(how as u32, Ordering::SeqCst);
        Armed { bell, how }
    }

    /// Makes the pipe on first use and tells senders where it is.
    pub(super) fn make_pipe(&self) -> io::Result<BorrowedFd<'_>> {
        let _one_at_a_time = self.armed();
        if self.0.pipe.get().is_none() {
            let (read, write) = socket::pipe()?;
            socket::set_nonblocking(read.as_fd())?;
            socket::set_nonblocking(write.as_fd())?;
            let number = write.as_raw_fd() as u32 + 1;
            let _ = self.0.pipe.set(Pipe { read, write });
            self.0.page.u32_at(AT_PIPE).store(number, Ordering::Release);
        }
        self.descriptor().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Nothing panics while it holds the lock, so that what it guards is sound in any case.
    fn armed(&self) -> MutexGuard<'_, Counts> {
        self.0.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sender's hold of another process's doorbell.
#[derive(Debug)]
pub(super) struct Rope {
    owner: Locator,
    /// The owner's pipe; opened when it is first rung.
    pipe: OnceLock<OwnedFd>,
}

impl Rope {
    pub(super) fn new(owner: Locator) -> Self {
        Rope { owner, pipe: OnceLock::new() }
    }

    /// Wakes the owner, if it still sleeps.
    #[cold]
    pub(super) fn pull(&self, head: &SharedMap) {
        let sleeping = head.u32_at(AT_SLEEPING);
        let how = sleeping.swap(0, Ordering::AcqRel);
        if how == 0 {
            return; // another sender was quicker
        }
        let bell = head.u32_at(AT_BELL);
        bell.fetch_add(1, Ordering::AcqRel);
        if how & How::Futex as u32 != 0 {
            sync::futex_wake_all(bell);
        }
        if how & How::Pipe as u32 != 0 && !self.write(head) {
            // Without a descriptor to spare it cannot be done now. Whoever sends next tries again.
            sleeping.fetch_or(How::Pipe as u32, Ordering::AcqRel);
        }
    }

    fn write(&self, head: &SharedMap) -> bool {
        if self.pipe.get().is_none() {
            let Ok(pipe) = self.open(head) else { return false };
            let _ = self.pipe.set(pipe);
        }
        self.pipe.get().is_some_and(|pipe| {
            ring_pipe(pipe.as_fd());
            true
        })
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn is_unopened(&self) -> bool {
        self.pipe.get().is_none()
    }

    fn open(&self, head: &SharedMap) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let number = head.u32_at(AT_PIPE).load(Ordering::Acquire).checked_sub(1).ok_or_else(gone)?;
        // Open for reading too: when the owner is gone, a write is then no SIGPIPE.
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(format!("/proc/{}/fd/{number}", self.owner.pid))?;
        self.owner.check_alive()?;
        if !file.metadata()?.file_type().is_fifo() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the doorbell is no pipe"));
        }
        Ok(file.into())
    }
}

/// One byte; a pipe that is full has been rung often enough.
fn ring_pipe(write: BorrowedFd<'_>) {
    let _ = socket::write(write, &[1]);
}

/// Reads a pipe empty. Senders write a byte only after a word was set that they clear, so it is soon done.
fn empty(read: BorrowedFd<'_>) {
    const READS_MAX: usize = 64;
    let mut bytes = [0; 1024];
    for _ in 0..READS_MAX {
        // Less than asked for is all there was.
        if !matches!(socket::read(read, &mut bytes), Ok(socket::Transfer::Bytes(n)) if n == bytes.len()) {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{PeerSegment, Segment};
    use super::*;
    use crate::cpu::Barrier;
    use crate::poll::{Interest, Poll, Ready};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);
    /// A wait that ended before this was woken.
    const SOON: Duration = Duration::from_secs(10);

    fn pair() -> (Segment, PeerSegment) {
        let segment = Segment::create(Barrier::Both).unwrap();
        let peer = PeerSegment::open(&segment.locator().unwrap(), Barrier::Both).unwrap();
        (segment, peer)
    }

    fn until_asleep(sleeper: &Sleeper) {
        let start = Instant::now();
        while sleeper.0.page.u32_at(AT_SLEEPING).load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < LONG, "nobody sleeps");
            crate::cpu::yield_now();
        }
    }

    fn ready(poll: &Poll, timeout: Duration) -> Vec<u64> {
        let mut ready: Vec<Ready> = Vec::new();
        poll.wait_for(Some(timeout), &mut ready).unwrap();
        ready.iter().map(|ready| ready.token).collect()
    }

    #[test]
    fn a_sleeper_is_woken_by_a_sender_and_by_a_thread_of_its_own() {
        let (segment, peer) = pair();
        let sleeper = segment.sleeper();
        let wakers: [&(dyn Fn() + Sync); 2] = [&|| peer.notify(5, || false), &|| sleeper.wake()];
        for waker in wakers {
            std::thread::scope(|s| {
                s.spawn(|| {
                    until_asleep(&sleeper);
                    waker();
                });
                let start = Instant::now();
                let armed = segment.arm();
                while !segment.has_news()
                    && sleeper.0.page.u32_at(AT_BELL).load(Ordering::SeqCst) == armed.bell
                {
                    sleeper.wait(&armed, LONG);
                }
                segment.disarm(armed);
                assert!(start.elapsed() < SOON);
            });
            segment.take_ready(|_| {});
        }
    }

    #[test]
    fn a_ring_between_arming_and_waiting_ends_the_wait_although_another_armed() {
        let (segment, peer) = pair();
        let first = segment.arm();
        peer.notify(5, || false);
        let second = segment.arm();
        let start = Instant::now();
        segment.sleeper().wait(&first, LONG);
        assert!(start.elapsed() < SOON);
        // Who armed afterwards has not been rung for: a wait runs its time.
        let start = Instant::now();
        let short = Duration::from_millis(2);
        segment.sleeper().wait(&second, short);
        assert!(start.elapsed() >= short);
        segment.disarm(first);
        segment.disarm(second);
    }

    #[test]
    fn one_ring_wakes_all_threads() {
        let (segment, peer) = pair();
        let armed: Vec<Armed> = (0..4).map(|_| segment.arm()).collect();
        std::thread::scope(|s| {
            for armed in armed {
                let sleeper = segment.sleeper();
                s.spawn(move || {
                    let start = Instant::now();
                    sleeper.wait(&armed, LONG);
                    assert!(start.elapsed() < SOON);
                    sleeper.disarm(armed);
                });
            }
            peer.notify(1, || false);
        });
        assert_eq!(segment.sleeper().0.page.u32_at(AT_SLEEPING).load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_thread_that_leaves_does_not_silence_the_doorbell_of_another() {
        let (segment, peer) = pair();
        let (stays, leaves) = (segment.arm(), segment.arm());
        segment.disarm(leaves);
        peer.notify(1, || false);
        let start = Instant::now();
        segment.sleeper().wait(&stays, LONG);
        assert!(start.elapsed() < SOON);
        segment.disarm(stays);
    }

    #[test]
    fn a_poller_is_woken_by_sender_socket_and_thread() {
        let (segment, peer) = pair();
        let (here, there) = socket::socket_pair().unwrap();
        let poll = Poll::new().unwrap();
        poll.add(segment.pollable_doorbell().unwrap(), 1, Interest::Read).unwrap();
        poll.add(here.as_fd(), 2, Interest::Read).unwrap();
        let sleeper = segment.sleeper();
        let wakers: [(u64, &(dyn Fn() + Sync)); 4] = [
            (1, &|| peer.notify(5, || false)),
            (1, &|| assert!(peer.send_datagram(b"wake"))),
            (1, &|| sleeper.wake()),
            (2, &|| {
                socket::write(there.as_fd(), b"x").unwrap();
            }),
        ];
        for (token, waker) in wakers {
            std::thread::scope(|s| {
                let armed = segment.arm_pollable().unwrap();
                s.spawn(|| {
                    until_asleep(&sleeper);
                    waker();
                });
                assert_eq!(ready(&poll, LONG), [token]);
                segment.disarm(armed);
            });
            // Disarmed, the pipe is empty, and a socket is its reader's business.
            assert!(!ready(&poll, Duration::ZERO).contains(&1));
        }
    }

    #[test]
    fn nobody_rings_while_nobody_sleeps() {
        let (segment, peer) = pair();
        let poll = Poll::new().unwrap();
        poll.add(segment.pollable_doorbell().unwrap(), 1, Interest::Read).unwrap();
        peer.notify(5, || false);
        segment.sleeper().wake();
        assert!(peer.rope.is_unopened());
        assert!(ready(&poll, Duration::ZERO).is_empty());
    }

    #[test]
    fn a_pipe_that_cannot_be_opened_leaves_the_owner_marked_as_asleep() {
        let (segment, peer) = pair();
        let armed = segment.arm_pollable().unwrap();
        let number = segment.sleeper().0.page.u32_at(AT_PIPE).swap(0, Ordering::Relaxed);
        peer.notify(5, || false);
        assert!(peer.rope.is_unopened());
        segment.sleeper().0.page.u32_at(AT_PIPE).store(number, Ordering::Relaxed);
        peer.notify(5, || false);
        let poll = Poll::new().unwrap();
        poll.add(segment.pollable_doorbell().unwrap(), 1, Interest::Read).unwrap();
        assert_eq!(ready(&poll, LONG), [1]);
        segment.disarm(armed);
    }

    #[test]
    fn what_is_no_pipe_is_not_rung() {
        let (segment, peer) = pair();
        let (socket, _other) = socket::socket_pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for fd in [socket.as_raw_fd(), file.as_raw_fd(), 1 << 20] {
            let armed = segment.arm_pollable().unwrap();
            segment.sleeper().0.page.u32_at(AT_PIPE).store(fd as u32 + 1, Ordering::Relaxed);
            peer.notify(5, || false);
            assert!(peer.rope.is_unopened());
            segment.disarm(armed);
        }
    }

    #[test]
    fn another_process_rings_futex_and_pipe() {
        let (segment, _peer) = pair();
        let locator = segment.locator().unwrap().to_string();
        let poll = Poll::new().unwrap();
        poll.add(segment.pollable_doorbell().unwrap(), 1, Interest::Read).unwrap();
        for pollable in [true, false] {
            let armed = if pollable { segment.arm_pollable().unwrap() } else { segment.arm() };
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "segment::doorbell::tests::rings_once", "--ignored", "--nocapture"])
                .env("BANYAN_TEST_SEGMENT", &locator)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let start = Instant::now();
            if pollable {
                assert_eq!(ready(&poll, LONG), [1]);
            } else {
                segment.sleeper().wait(&armed, LONG);
            }
            assert!(start.elapsed() < SOON);
            segment.disarm(armed);
            assert!(child.wait().unwrap().success());
        }
    }

    #[test]
    #[ignore = "the sender of another test"]
    fn rings_once() {
        let locator = std::env::var("BANYAN_TEST_SEGMENT").unwrap().parse().unwrap();
        PeerSegment::open(&locator, Barrier::Both).unwrap().ring();
    }
}
