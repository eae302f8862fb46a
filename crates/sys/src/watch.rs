//! Finds out whether memory of the program is still what it was. The kernel says when pages of a watched range go away: unmapped, mapped over,
//! moved, given back by `madvise` or by a heap that shrinks.
//!
//! ```text
//!   thread of the program              watcher
//!   munmap: pages are gone
//!      waits in the kernel             poll: there is something; the turn is odd
//!      goes on         <-----------    reads it, marks ranges; the turn is even
//!   is the range intact? no
//! ```
//! Who takes pages away goes on only when the kernel's word has been read, and before that the turn is odd. So whoever looks
//! afterwards finds the turn odd, and waits until it is not, or finds the range marked.
//!
//! Another thread need not wait for the one that unmaps: its own pages can be at the same place before the kernel has even said
//! its word. But the kernel counts who is at it from before the pages go until the word was read, and answers `EAGAIN` to whoever asks
//! for a change of protection meanwhile. So that is asked first, of a page that is there for it: to change nothing of a page of the
//! program's would still split a huge one.
//!
//! That is what `userfaultfd` tells about ranges in which writes are watched, none of which are ever stopped. It says
//! nothing when files shrink or System V segments are detached: only private memory without a file is watched.
//! A forked child has copies of the pages, and nobody watches them; those of the parent stay what they were.
use crate::poll::{Interest, Poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFD_FEATURE_EVENT_REMAP: u64 = 1 << 2;
const UFFD_FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const UFFD_FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const FEATURES: u64 = UFFD_FEATURE_PAGEFAULT_FLAG_WP
    | UFFD_FEATURE_EVENT_REMAP
    | UFFD_FEATURE_EVENT_REMOVE
    | UFFD_FEATURE_EVENT_UNMAP;
const UFFD_EVENT_REMAP: u8 = 0x14;
const UFFD_EVENT_REMOVE: u8 = 0x15;
const UFFD_EVENT_UNMAP: u8 = 0x16;

const TOKEN_EVENTS: u64 = 0;
const TOKEN_STOP: u64 = 1;
/// The watcher calls few functions, none of them deep.
const STACK_BYTES: usize = 64 << 10;
/// Between two looks, if looking fails.
const BLIND_PAUSE: Duration = Duration::from_millis(10);

/// Watches ranges of this process's memory, with a thread of its own.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Whose thread that is: a forked child has none.
    pid: u32,
}

/// A range that is watched.
#[derive(Debug)]
pub struct Watched(usize);

#[derive(Debug)]
struct Shared {
    events: OwnedFd,
    /// What the kernel is asked of when it is asked whether it has said all. It goes behind `events`: while somebody watches it,
    /// whoever unmaps it waits for the watcher, which has gone.
    asked: Page,
    stop: OwnedFd,
    poll: Poll,
    /// Odd while something is read and marked.
    turn: AtomicU32,
    /// Whoever watched has failed: nothing is known any more.
    blind: AtomicBool,
    ranges: Box<[Range]>,
}

/// A page of this process's addresses that nobody touches, so that there is no memory behind it.
#[derive(Debug)]
struct Page {
    at: NonNull<libc::c_void>,
    bytes: u64,
}

// SAFETY: an address, of a page that nobody reads or writes.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> io::Result<Page> {
        let bytes = page_bytes().ok_or(io::ErrorKind::Unsupported)?;
        let (rights, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever the kernel likes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, rights, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Page { at: NonNull::new(at).ok_or(io::ErrorKind::Unsupported)?, bytes })
    }

    fn start(&self) -> u64 {
        self.at.as_ptr() as u64
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: its own mapping, which nobody refers to.
        unsafe { libc::munmap(self.at.as_ptr(), self.bytes as usize) };
    }
}

/// Pages from `start` to `end`; none, if both are 0.
#[derive(Debug, Default)]
struct Range {
    start: AtomicU64,
    end: AtomicU64,
    gone: AtomicBool,
}

impl Range {
    fn is_free(&self) -> bool {
        self.end.load(SeqCst) == 0
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start.load(SeqCst) < end && start < self.end.load(SeqCst)
    }
}

impl Watch {
    /// Watches up to so many ranges. An error says why this system cannot tell.
    pub fn new(ranges: usize) -> io::Result<Watch> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        // SAFETY: a new descriptor; no memory is involved.
        let events = owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as libc::c_int)?;
        let mut api = [UFFD_API, FEATURES, 0];
        // SAFETY: three words, as this request has them.
        check(unsafe { libc::ioctl(events.as_raw_fd(), UFFDIO_API as _, &mut api) })?;
        let asked = Page::new()?;
        // SAFETY: a new descriptor.
        let stop = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let poll = Poll::new()?;
        poll.add(events.as_fd(), TOKEN_EVENTS, Interest::Read)?;
        poll.add(stop.as_fd(), TOKEN_STOP, Interest::Read)?;
        let shared = Arc::new(Shared {
            events,
            asked,
            stop,
            poll,
            turn: AtomicU32::new(0),
            blind: AtomicBool::new(false),
            ranges: std::iter::repeat_with(Range::default).take(ranges).collect(),
        });
        register(&shared.events, shared.asked.start(), shared.asked.bytes)?;
        let watcher = shared.clone();
        let thread = without_signals(|| {
            let thread = std::thread::Builder::new().name("banyan-watch".into()).stack_size(STACK_BYTES);
            thread.spawn(move || watcher.watch())
        })?;
        Ok(Watch { shared, thread: Some(thread), pid: std::process::id() })
    }

    /// Watches the pages that a range of bytes lies in. `None`: that cannot be done for these, or there are too many ranges.
    pub fn add(&mut self, addr: u64, bytes: usize) -> Option<Watched> {
        let (start, end) = pages(addr, bytes)?;
        let index = self.shared.ranges.iter().position(Range::is_free)?;
        let range = &self.shared.ranges[index];
        range.gone.store(false, SeqCst);
        range.start.store(start, SeqCst);
        range.end.store(end, SeqCst);
        let watched = Watched(index);
        // What comes and goes from then on is told; so the rest is looked up behind it.
        if register(&self.shared.events, start, end - start).is_err() || !is_private(start, end) {
            self.remove(watched);
            return None;
        }
        Some(watched)
    }

    /// Is the memory still there, page for page, that was there when it was added?
    pub fn is_intact(&self, watched: &Watched) -> bool {
        // In this order: all that the kernel had to say by then is read in this turn, or was in one before.
        let is_told = self.shared.has_told();
        while self.shared.turn.load(SeqCst) % 2 == 1 {
            std::thread::yield_now(); // the watcher waits for nothing, and is soon done
        }
        is_told && !self.shared.ranges[watched.0].gone.load(SeqCst) && !self.shared.blind.load(SeqCst)
    }

    /// Watches a range no more.
    pub fn remove(&mut self, watched: Watched) {
        let range = &self.shared.ranges[watched.0];
        let (start, end) = (range.start.load(SeqCst), range.end.load(SeqCst));
        let is_intact = self.is_intact(&watched);
        range.start.store(0, SeqCst);
        range.end.store(0, SeqCst);
        // What is not there needs nothing, and others may want to hear of the same pages.
        if !is_intact || self.shared.ranges.iter().any(|other| other.overlaps(start, end)) {
            return;
        }
        let mut pages = [start, end - start];
        // SAFETY: two words, as this request has them. If it fails, there is more to hear of than need be.
        unsafe { libc::ioctl(self.shared.events.as_raw_fd(), UFFDIO_UNREGISTER as _, &mut pages) };
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight bytes into a counter.
        unsafe { libc::write(self.shared.stop.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The watcher. Threads that hold any lock may wait for it, so it takes none, and allocates nothing.
    fn watch(&self) {
        let mut ready = Vec::with_capacity(2);
        loop {
            ready.clear();
            let waited = self.poll.wait_for(None, &mut ready);
            if ready.iter().any(|at| at.token == TOKEN_STOP) {
                return; // the descriptor is closed behind this, which lets everybody go on
            }
            self.turn.fetch_add(1, SeqCst);
            if !self.hear() || waited.is_err() {
                self.blind.store(true, SeqCst);
            }
            self.turn.fetch_add(1, SeqCst);
            if self.blind.load(SeqCst) {
                std::thread::sleep(BLIND_PAUSE);
            }
        }
    }

    /// Waits until the watcher has read of all pages that are gone. `false`: that cannot be known.
    fn has_told(&self) -> bool {
        let mut nothing = [self.asked.start(), self.asked.bytes, 0];
        loop {
            // SAFETY: three words, as this request has them. The page is this watch's own, and stays as it is.
            let asked =
                unsafe { libc::ioctl(self.events.as_raw_fd(), UFFDIO_WRITEPROTECT as _, &mut nothing) };
            if asked == 0 {
                return true;
            }
            match io::Error::last_os_error().raw_os_error() {
                // Whoever takes pages away goes on when the watcher has read the word of it, which is soon.
                Some(libc::EAGAIN | libc::EINTR) if !self.blind.load(SeqCst) => std::thread::yield_now(),
                _ => return false,
            }
        }
    }

    /// Reads all that there is. `false`: it cannot be read.
    fn hear(&self) -> bool {
        let mut word = [0_u64; 4];
        loop {
            // SAFETY: 32 bytes, as long as a message is.
            let read = unsafe { libc::read(self.events.as_raw_fd(), word.as_mut_ptr().cast(), 32) };
            if read == 32 {
                self.mark(&word);
                continue;
            }
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted if read < 0 => {}
                kind => return read < 0 && kind == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn mark(&self, word: &[u64; 4]) {
        let (start, end) = match word[0].to_ne_bytes()[0] {
            UFFD_EVENT_REMAP => (word[1], word[1].saturating_add(word[3])),
            UFFD_EVENT_REMOVE | UFFD_EVENT_UNMAP => (word[1], word[2]),
            _ => return,
        };
        for range in self.ranges.iter().filter(|range| range.overlaps(start, end)) {
            range.gone.store(true, SeqCst);
        }
    }
}

/// Has the kernel say when these pages go away.
fn register(events: &OwnedFd, start: u64, bytes: u64) -> io::Result<()> {
    let mut register = [start, bytes, UFFDIO_REGISTER_MODE_WP, 0];
    // SAFETY: four words, as this request has them. Pages are neither changed nor protected.
    check(unsafe { libc::ioctl(events.as_raw_fd(), UFFDIO_REGISTER as _, &mut register) })
}

fn page_bytes() -> Option<u64> {
    // SAFETY: asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

/// The pages that bytes lie in: where they start and end.
fn pages(addr: u64, bytes: usize) -> Option<(u64, u64)> {
    let page = page_bytes()?;
    let end = addr.checked_add(bytes as u64).filter(|_| bytes > 0)?;
    Some((addr & !(page - 1), end.checked_next_multiple_of(page)?))
}

/// Is a range private memory without a file, all of it?
fn is_private(start: u64, end: u64) -> bool {
    let Ok(maps) = std::fs::read("/proc/self/maps") else { return false };
    let mut next = start;
    for line in maps.split(|byte| *byte == b'\n') {
        let Some(map) = Map::parse(line) else { continue };
        if map.end <= next {
            continue;
        }
        if map.start > next || !map.is_private {
            return false;
        }
        next = map.end;
        if next >= end {
            return true;
        }
    }
    false
}

/// A line of `/proc/self/maps`: `start-end rights offset device inode name`.
struct Map {
    start: u64,
    end: u64,
    is_private: bool,
}

impl Map {
    fn parse(line: &[u8]) -> Option<Map> {
        let mut words = line.split(|byte| *byte == b' ');
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let (start, end) = word()?.split_once('-')?;
        let (rights, _, _, inode) = (word()?, word()?, word()?, word()?);
        let address = |hex| u64::from_str_radix(hex, 16).ok();
        Some(Map {
            start: address(start)?,
            end: address(end)?,
            is_private: rights.ends_with('p') && inode == "0",
        })
    }
}

/// Runs something with all signals blocked, so that a thread made there never has the program's handlers run.
fn without_signals<T>(run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: all-zero is a valid set.
    let (mut all, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
    // SAFETY: sets of this frame.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let done = run();
    // SAFETY: as it was before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    done
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
