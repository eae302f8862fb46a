//! Memory: anonymous shared segments found through `/proc`, and views of a program's own buffers.
//!
//! All shared memory is a memfd, so a process killed at any moment leaves no file behind. Another process
//! of the same user maps it through `/proc/PID/fd/N`.
#[cfg(not(all(test, loom)))]
mod map;
// Under loom, memory that processes share is an array of loom's words.
#[cfg(all(test, loom))]
#[path = "mem/model.rs"]
mod map;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
#[cfg(not(all(test, loom)))]
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

pub use map::SharedMap;
#[cfg(all(test, loom))]
pub(crate) use map::{Place, Words};

/// No change of the size, no writing but through maps that exist, and no other seals.
const SEALS: libc::c_int =
    libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;

/// Where a shared segment is found: a process, its descriptor, and when the process started (so that a
/// recycled process id is not taken for the owner).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locator {
    /// Owner.
    pub pid: u32,
    /// Descriptor in the owner.
    pub fd: u32,
    /// Start time of the owner in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
}

impl Locator {
    /// Does the owner still live, or has its process id gone to another? [`io::ErrorKind::NotFound`] if it does not;
    /// another error if that cannot be known.
    pub fn check_alive(&self) -> io::Result<()> {
        let lives = match Stat::of(self.pid) {
            Ok(stat) => stat.start_ticks == self.start_ticks && !stat.is_dead(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => false, // while it was read
            Err(error) => return Err(error),
        };
        if lives {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("process {} is gone", self.pid)))
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.pid, self.fd, self.start_ticks)
    }
}

impl FromStr for Locator {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, format!("'{text}' is not pid:fd:start"));
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or_else(bad);
        let locator = Locator {
            pid: next()?.parse().map_err(|_| bad())?,
            fd: next()?.parse().map_err(|_| bad())?,
            start_ticks: next()?.parse().map_err(|_| bad())?,
        };
        if parts.next().is_some() { Err(bad()) } else { Ok(locator) }
    }
}

/// The start time of a process in clock ticks since boot. `/proc` takes long to say it, so that this process asks once
/// for its own (and once more after a fork).
pub fn start_ticks(pid: u32) -> io::Result<u64> {
    static OWN: Mutex<Option<(u32, u64)>> = Mutex::new(None);
    if pid != std::process::id() {
        return Ok(Stat::of(pid)?.start_ticks);
    }
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, ticks)) = *own
        && of == pid
    {
        return Ok(ticks);
    }
    let ticks = Stat::of(pid)?.start_ticks;
    *own = Some((pid, ticks));
    Ok(ticks)
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    state: u8,
    start_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> io::Result<Self> {
        // What is looked for stands near the beginning, and comes with the first look.
        let mut stat = [0; 1024];
        let len = File::open(format!("/proc/{pid}/stat"))?.read(&mut stat)?;
        Self::read(&stat[..len])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat"))
    }

    /// The command name stands in parentheses and may hold any bytes, as the kernel cuts names without regard to
    /// characters; fields count from behind it.
    fn read(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        Some(Stat { state, start_ticks: fields.nth(18)?.parse().ok()? })
    }

    /// Has it ended, though nobody has asked how?
    fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// An anonymous shared segment: a memfd.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    #[cfg(all(test, loom))]
    words: std::sync::Arc<Words>,
}

impl SharedMemory {
    /// A new segment of `bytes`, sparse: pages cost memory only once touched.
    pub fn create(name: &str, bytes: u64) -> io::Result<Self> {
        Self::create_with(name, bytes, libc::MFD_CLOEXEC)
    }

    /// The same, to be sealed.
    pub fn create_sealable(name: &str, bytes: u64) -> io::Result<Self> {
        Self::create_with(name, bytes, libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    }

    fn create_with(name: &str, bytes: u64, flags: libc::c_uint) -> io::Result<Self> {
        let name = std::ffi::CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: memfd_create reads a NUL-terminated name and returns a new descriptor or -1.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let memory = SharedMemory::of(fd);
        memory.resize(bytes)?;
        Ok(memory)
    }

    /// Opens the segment of another process of the same user. The file's owner and the process's start
    /// time are checked.
    pub fn open(at: &Locator) -> io::Result<Self> {
        let memory = Self::open_unproven(at)?;
        at.check_alive()?;
        Ok(memory)
    }

    /// The same, but the start time is left to the caller, whose segment tells it: `/proc` takes long to say it.
    pub(crate) fn open_unproven(at: &Locator) -> io::Result<Self> {
        Ok(Self::open_file(at, OpenOptions::new().read(true).write(true))?.0)
    }

    /// The same for reading alone; and its size.
    pub(crate) fn open_unproven_read_only(at: &Locator) -> io::Result<(Self, u64)> {
        Self::open_file(at, OpenOptions::new().read(true))
    }

    /// The segment, and its size.
    fn open_file(at: &Locator, options: &OpenOptions) -> io::Result<(Self, u64)> {
        let file: File = options.open(format!("/proc/{}/fd/{}", at.pid, at.fd))?;
        let memory = SharedMemory::of(file.into());
        let stat = memory.stat()?;
        // SAFETY: geteuid has no preconditions.
        let me = unsafe { libc::geteuid() };
        if stat.st_uid != me {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the segment belongs to another user",
            ));
        }
        Ok((memory, stat.st_size as u64))
    }

    fn of(fd: OwnedFd) -> Self {
        SharedMemory {
            fd,
            #[cfg(all(test, loom))]
            words: Default::default(),
        }
    }

    /// Sets the size.
    pub fn resize(&self, bytes: u64) -> io::Result<()> {
        let bytes = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: the descriptor is open for as long as `self` lives.
        if unsafe { libc::ftruncate(self.fd.as_raw_fd(), bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// The descriptor.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.stat()?.st_size as u64)
    }

    /// Bytes that have pages behind them.
    pub fn touched_bytes(&self) -> io::Result<u64> {
        Ok(self.stat()?.st_blocks as u64 * 512)
    }

    /// The parts of `from..to` that have pages behind them, found without touching any.
    #[cfg(not(all(test, loom)))]
    pub(crate) fn touched_ranges(&self, from: u64, to: u64) -> Vec<Range<u64>> {
        let seek = |at: u64, what| {
            // SAFETY: an open descriptor and numbers; nobody uses the position that this changes.
            let found = unsafe { libc::lseek(self.fd.as_raw_fd(), at as libc::off_t, what) };
            u64::try_from(found).unwrap_or(to).min(to)
        };
        let mut ranges = Vec::new();
        let mut at = from;
        while at < to {
            let data = seek(at, libc::SEEK_DATA);
            at = seek(data, libc::SEEK_HOLE);
            if data < at {
                ranges.push(data..at);
            } else {
                break; // nothing behind, or pages that are gone already
            }
        }
        ranges
    }

    /// Where other processes find this segment while this process lives.
    pub fn locator(&self) -> io::Result<Locator> {
        let pid = std::process::id();
        Ok(Locator { pid, fd: self.fd.as_raw_fd() as u32, start_ticks: start_ticks(pid)? })
    }

    /// From now on nobody makes it shorter: what is mapped stays there. It can still grow, and pages be given back.
    pub fn seal_against_shrinking(&self) -> io::Result<()> {
        self.add_seals(libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL)
    }

    /// Has the owner sealed it so? Otherwise it could take the memory from under a peer's map, whose next
    /// access would be a SIGBUS.
    pub fn cannot_shrink(&self) -> bool {
        self.has_seals(libc::F_SEAL_SHRINK)
    }

    /// From now on nobody changes the size, and nobody writes but through maps that are there already.
    pub fn seal_but_for_maps(&self) -> io::Result<()> {
        self.add_seals(SEALS)
    }

    /// Has the owner sealed it so? Then what a reader has mapped stays there.
    pub fn is_sealed(&self) -> bool {
        self.has_seals(SEALS)
    }

    fn add_seals(&self, seals: libc::c_int) -> io::Result<()> {
        // SAFETY: adding seals to a descriptor that is open for as long as `self` lives.
        if unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn has_seals(&self, wanted: libc::c_int) -> bool {
        // SAFETY: asking for the seals of a descriptor that is open for as long as `self` lives.
        let seals = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_GET_SEALS) };
        seals >= 0 && seals & wanted == wanted
    }

    /// Maps `bytes` from `offset` (a multiple of the page size).
    pub fn map(&self, offset: u64, bytes: usize) -> io::Result<SharedMap> {
        SharedMap::new(self, offset, bytes, libc::PROT_READ | libc::PROT_WRITE, 0)
    }

    /// The same, with all its pages at once: cheaper than a fault for each where all are going to be used.
    pub(crate) fn map_populated(&self, offset: u64, bytes: usize) -> io::Result<SharedMap> {
        SharedMap::new(self, offset, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_POPULATE)
    }

    /// Maps the first `bytes` to be read, of a segment that has and keeps at least `size`.
    pub(crate) fn map_read_only(&self, bytes: usize, size: u64) -> io::Result<ReadMap> {
        if bytes as u64 > size {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a map beyond the end of the segment"));
        }
        let map = SharedMap::new(self, 0, bytes, libc::PROT_READ, 0)?;
        map.leave_out_of_dumps();
        Ok(ReadMap(map))
    }

    fn stat(&self) -> io::Result<libc::stat> {
        // SAFETY: all-zero is a valid `stat`, a plain C struct.
        let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
        // SAFETY: the descriptor is open, `stat` is writable.
        if unsafe { libc::fstat(self.fd.as_raw_fd(), &mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stat)
    }
}

/// A mapping that can only be read. Words are loaded relaxed: on memory without the right to write, a load may be
/// nothing else. Order is a matter of fences.
#[derive(Debug)]
pub struct ReadMap(SharedMap);

impl ReadMap {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The double word number `index`, if it is inside.
    #[inline]
    pub fn word(&self, index: u64) -> Option<u64> {
        let offset = usize::try_from(index).ok()?.checked_mul(8)?;
        let inside = offset.checked_add(8).is_some_and(|end| end <= self.bytes());
        inside.then(|| self.0.u64_at(offset).load(Ordering::Relaxed))
    }
}

/// A program's buffer that is read: the source of a send.
#[derive(Clone, Copy, Debug)]
pub struct UserBuf {
    at: *const u8,
    bytes: usize,
}

impl UserBuf {
    /// No bytes.
    pub const EMPTY: UserBuf = UserBuf { at: NonNull::<u8>::dangling().as_ptr(), bytes: 0 };

    /// Memory that is never written or freed: it may be in flight for as long as it likes.
    pub fn of_static(bytes: &'static [u8]) -> Self {
        UserBuf { at: bytes.as_ptr(), bytes: bytes.len() }
    }

    /// # Safety
    /// `bytes` from `at` must be readable, and not written by the program, until the operation that was
    /// given this buffer has completed. (`at` is ignored when `bytes` is 0.)
    #[inline]
    pub const unsafe fn new(at: *const u8, bytes: usize) -> Self {
        UserBuf { at, bytes }
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Is it empty?
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address, for registration.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.at as u64
    }

    /// `bytes` from `offset` (asserted to be inside).
    #[inline]
    pub fn part(&self, offset: usize, bytes: usize) -> UserBuf {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside the buffer");
        // SAFETY: inside the buffer, as just asserted.
        UserBuf { at: unsafe { self.at.add(offset) }, bytes }
    }

    /// Is all of it mapped? Asks the system, once per page.
    pub fn is_mapped(&self) -> bool {
        const PAGE: usize = 4096;
        let start = self.at as usize & !(PAGE - 1);
        let end = (self.at as usize).saturating_add(self.bytes);
        let pages = end.saturating_sub(start).div_ceil(PAGE);
        // A bounded answer at a time: the buffer may be many gigabytes.
        let mut answer = [0u8; 4096];
        (0..pages).step_by(answer.len()).all(|page| {
            let count = (pages - page).min(answer.len());
            let at = (start + page * PAGE) as *mut libc::c_void;
            // SAFETY: a page-aligned address of which only the mapping is asked about, and room for one byte a page.
            unsafe { libc::mincore(at, count * PAGE, answer.as_mut_ptr()) == 0 }
        })
    }

    /// The first eight bytes (asserted to be there), wherever they begin.
    #[inline]
    pub(crate) fn read_word(&self) -> u64 {
        assert!(self.bytes >= 8);
        // SAFETY: readable by the constructor, and every bit pattern is a number.
        unsafe { self.at.cast::<u64>().read_unaligned() }
    }

    /// The same memory as a target: for memory that its owner has registered so that peers may write it.
    #[inline]
    pub fn as_target(&self) -> UserBufMut {
        UserBufMut { at: self.at.cast_mut(), bytes: self.bytes }
    }

    /// Copies everything into `to`, which must have the same length.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        assert!(to.len() == self.bytes);
        // SAFETY: the constructor promised that the source is readable; lengths agree; `to` is exclusive.
        unsafe { std::ptr::copy_nonoverlapping(self.at, to.as_mut_ptr(), self.bytes) };
    }

    /// The raw address; for copies inside `sys`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.at
    }
}

/// A program's buffer that is written: the target of a receive.
#[derive(Clone, Copy, Debug)]
pub struct UserBufMut {
    at: *mut u8,
    bytes: usize,
}

impl UserBufMut {
    /// No room.
    pub const EMPTY: UserBufMut = UserBufMut { at: NonNull::<u8>::dangling().as_ptr(), bytes: 0 };

    /// Memory that is given away for good.
    pub fn of_static(bytes: &'static mut [u8]) -> Self {
        UserBufMut { at: bytes.as_mut_ptr(), bytes: bytes.len() }
    }

    /// # Safety
    /// `bytes` from `at` must be writable, and not accessed by the program, until the operation that was
    /// given this buffer has completed. (`at` is ignored when `bytes` is 0.)
    #[inline]
    pub const unsafe fn new(at: *mut u8, bytes: usize) -> Self {
        UserBufMut { at, bytes }
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Is there no room?
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address, for registration.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.at as u64
    }

    /// `bytes` from `offset` (asserted to be inside).
    #[inline]
    pub fn part(&self, offset: usize, bytes: usize) -> UserBufMut {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside the buffer");
        // SAFETY: inside the buffer, as just asserted.
        UserBufMut { at: unsafe { self.at.add(offset) }, bytes }
    }

    /// Writes the first eight bytes (asserted to be there), wherever they begin.
    #[inline]
    pub(crate) fn write_word(&self, word: u64) {
        assert!(self.bytes >= 8);
        // SAFETY: writable by the constructor.
        unsafe { self.at.cast::<u64>().write_unaligned(word) };
    }

    /// The same memory as a source.
    #[inline]
    pub fn as_source(&self) -> UserBuf {
        UserBuf { at: self.at, bytes: self.bytes }
    }

    /// Copies `from` to the start of the buffer; asserts that it fits. Overlap is allowed.
    #[inline]
    pub fn copy_from(&self, from: &UserBuf) {
        assert!(from.bytes <= self.bytes);
        // SAFETY: both constructors promised their ranges; `copy` allows overlap.
        unsafe { std::ptr::copy(from.at, self.at, from.bytes) };
    }

    /// Copies `from` to the start of the buffer; asserts that it fits.
    #[inline]
    pub fn copy_from_slice(&self, from: &[u8]) {
        assert!(from.len() <= self.bytes);
        // SAFETY: the constructor promised that the target is writable; it fits.
        unsafe { std::ptr::copy(from.as_ptr(), self.at, from.len()) };
    }

    /// The raw address; for copies inside `sys`.
    #[inline]
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.at
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_by_its_locator_and_shared() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        let map = memory.map(4096, 4096).unwrap();
        map.u32_at(8).store(77, Ordering::Release);
        let text = memory.locator().unwrap().to_string();
        let again = SharedMemory::open(&text.parse().unwrap()).unwrap();
        assert_eq!(again.bytes().unwrap(), 8192);
        assert_eq!(again.map(4096, 4096).unwrap().u32_at(8).load(Ordering::Acquire), 77);
        assert_eq!(again.touched_bytes().unwrap(), 4096);
    }

    #[test]
    fn a_sealed_segment_is_written_by_its_owner_alone() {
        let memory = SharedMemory::create_sealable("test", 8192).unwrap();
        let map = memory.map(0, 8192).unwrap();
        assert!(!memory.is_sealed());
        memory.seal_but_for_maps().unwrap();
        map.u64_at(8).store(77, Ordering::Relaxed);
        let (reader, size) = SharedMemory::open_unproven_read_only(&memory.locator().unwrap()).unwrap();
        assert!(reader.is_sealed());
        let read = reader.map_read_only(4096, size).unwrap();
        assert_eq!(
            (read.word(1), read.word(511), read.word(512), read.word(u64::MAX)),
            (Some(77), Some(0), None, None)
        );
        assert!(reader.map_read_only(8193, size).is_err());
        let other = SharedMemory::open(&memory.locator().unwrap()).unwrap();
        assert_eq!(other.map(0, 4096).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(other.resize(4096).is_err() && other.resize(1 << 20).is_err());
        assert!(SharedMemory::create("test", 4096).unwrap().seal_but_for_maps().is_err());
    }

    #[test]
    fn a_segment_sealed_against_shrinking_still_grows() {
        let memory = SharedMemory::create_sealable("test", 8192).unwrap();
        assert!(!memory.cannot_shrink());
        memory.seal_against_shrinking().unwrap();
        let other = SharedMemory::open(&memory.locator().unwrap()).unwrap();
        assert!(other.cannot_shrink() && !other.is_sealed());
        assert!(other.resize(4096).is_err() && other.resize(0).is_err());
        memory.resize(16384).unwrap();
        memory.map(8192, 8192).unwrap().u32_at(0).store(1, Ordering::Relaxed);
        assert!(!SharedMemory::create("test", 4096).unwrap().cannot_shrink());
    }

    #[test]
    fn touched_ranges_are_pages_that_are_there() {
        let memory = SharedMemory::create("test", 16 * 4096).unwrap();
        let map = memory.map(0, 16 * 4096).unwrap();
        assert_eq!(memory.touched_ranges(0, 16 * 4096), []);
        for page in [1, 2, 5, 15] {
            map.u32_at(page * 4096).store(1, Ordering::Relaxed);
        }
        let pages = |from: u64, to: u64| {
            let ranges = memory.touched_ranges(from * 4096, to * 4096);
            ranges.into_iter().map(|range| range.start / 4096..range.end / 4096).collect::<Vec<_>>()
        };
        assert_eq!(pages(0, 16), [1..3, 5..6, 15..16]);
        assert_eq!(pages(2, 6), [2..3, 5..6]);
        assert_eq!(memory.touched_bytes().unwrap(), 4 * 4096);
    }

    #[test]
    fn a_process_may_have_any_bytes_for_a_name() {
        let before = start_ticks(std::process::id()).unwrap();
        let name = c"\xff) \xc3(";
        let ticks = std::thread::spawn(move || {
            // SAFETY: names the calling thread; the name ends in NUL.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
            // SAFETY: no arguments, cannot fail. Threads have a folder in /proc too.
            let me = unsafe { libc::gettid() } as u32;
            let stat = std::fs::read(format!("/proc/{me}/stat")).unwrap();
            assert!(stat.windows(6).any(|bytes| bytes == b"(\xff) \xc3("), "the name was not taken");
            start_ticks(me)
        });
        assert!(ticks.join().unwrap().unwrap() >= before);
    }

    #[test]
    fn a_process_that_nobody_waits_for_is_dead() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let locator = Locator { pid: child.id(), fd: 3, start_ticks: start_ticks(child.id()).unwrap() };
        locator.check_alive().unwrap();
        drop(child.stdin.take());
        while locator.check_alive().is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(locator.check_alive().unwrap_err().kind(), io::ErrorKind::NotFound);
        child.wait().unwrap();
        assert_eq!(locator.check_alive().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_recycled_process_id_is_refused() {
        let memory = SharedMemory::create("test", 4096).unwrap();
        let mut locator = memory.locator().unwrap();
        locator.start_ticks += 1;
        assert_eq!(SharedMemory::open(&locator).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_malformed_locator_is_an_error() {
        for text in ["", "1", "1:2", "1:2:3:4", "a:2:3", "1:-2:3"] {
            assert!(text.parse::<Locator>().is_err(), "{text}");
        }
    }
}
