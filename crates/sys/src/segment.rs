//! A process's own segment: doorbell, ready bitmap, mailbox, table of registered memory, and an arena from
//! which receive rings are carved.
//!
//! Peers map the head of it to wake the owner, the mailbox while they send a datagram, and each ring they write to.
//! One sparse memfd per process; what was never touched costs nothing.
mod doorbell;
mod mailbox;

use crate::cpu::Barrier;
use crate::mem::{Locator, SharedMap, SharedMemory, UserBufMut};
use crate::ring::RingTx;
use doorbell::{AT_SLEEPING, PAGE_BYTES, Rope};
use mailbox::{AT_MAIL, AT_MAIL_WORDS, MAIL_WORDS, Mailbox, SLOTS_BYTES};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

pub use doorbell::{Armed, Sleeper};
pub use mailbox::{DATAGRAM_MAX, MAIL_SLOTS};

const MAGIC: u64 = u64::from_le_bytes(*b"banyanP2");

/// Most inbound rings of a process.
pub const RINGS_MAX: usize = 4096;
/// Most registered regions of a process at a time.
pub const REGIONS_MAX: usize = 256;

// Layout of the head. Words that different sides write live in different lines.
const AT_MAGIC: usize = 0;
const AT_FLAGS: usize = 8;
// Words of doorbell and mailbox are in between: see there.
const AT_READY: usize = 256;
const AT_READY_WORDS: usize = 320;
const AT_REGIONS: usize = PAGE_BYTES;
const REGION_BYTES: usize = 32;
/// Bytes of the head: what a peer maps to reach the owner.
pub const HEAD_BYTES: usize = AT_REGIONS + REGIONS_MAX * REGION_BYTES;
/// Where the arena begins: behind head and mailbox.
const AT_ARENA: u64 = (HEAD_BYTES + SLOTS_BYTES) as u64;

const _: () = assert!(AT_READY_WORDS + RINGS_MAX / 64 * 8 <= AT_MAIL_WORDS);
const _: () = assert!(AT_MAIL_WORDS + MAIL_WORDS * 8 <= PAGE_BYTES);
const _: () = assert!(HEAD_BYTES.is_multiple_of(4096) && AT_ARENA.is_multiple_of(4096));

const FLAG_SENDERS_FENCE: u32 = 1;

/// A region of the owner's memory that peers may read or write, as they see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Start address in the owner.
    pub addr: u64,
    /// Length.
    pub bytes: u64,
    /// Where it lies in the owner's segment, if it does.
    pub segment_offset: Option<u64>,
}

/// The owner's view.
#[derive(Debug)]
pub struct Segment {
    memory: SharedMemory,
    head: SharedMap,
    end: u64,
    /// Free ranges by size; sizes are few (ring sizes).
    free: Vec<(usize, u64)>,
    regions_next: u32,
    barrier: Barrier,
    sleeper: Sleeper,
    mailbox: Mailbox,
}

impl Segment {
    /// A new segment. With [`Barrier::Both`], senders are asked to fence; with `Asymmetric` the owner pays
    /// when it goes to sleep.
    pub fn create(barrier: Barrier) -> io::Result<Self> {
        let memory = SharedMemory::create_sealable("banyan-process", AT_ARENA)?;
        memory.seal_against_shrinking()?;
        let head = memory.map(0, HEAD_BYTES)?;
        let flags = if barrier == Barrier::Both { FLAG_SENDERS_FENCE } else { 0 };
        head.u32_at(AT_FLAGS).store(flags, Ordering::Relaxed);
        head.u64_at(AT_MAGIC).store(MAGIC, Ordering::Release);
        let sleeper = Sleeper::new(memory.map(0, PAGE_BYTES)?);
        let mailbox = Mailbox::map(&memory)?;
        let free = Vec::new();
        Ok(Segment { memory, head, end: AT_ARENA, free, regions_next: 0, barrier, sleeper, mailbox })
    }

    /// Where peers find it.
    pub fn locator(&self) -> io::Result<Locator> {
        self.memory.locator()
    }

    /// Bytes in use (head, mailbox and everything carved out).
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Bytes with pages behind them.
    pub fn touched_bytes(&self) -> u64 {
        self.memory.touched_bytes().unwrap_or(0)
    }

    /// Carves out `bytes` (a multiple of the page size), zeroed.
    pub fn carve(&mut self, bytes: usize) -> io::Result<(u64, SharedMap)> {
        let offset = match self.free.iter().position(|(size, _)| *size == bytes) {
            Some(i) => self.free.swap_remove(i).1,
            None => {
                self.memory.resize(self.end + bytes as u64)?;
                self.end += bytes as u64;
                self.end - bytes as u64
            }
        };
        Ok((offset, self.memory.map(offset, bytes)?))
    }

    /// Gives a range back; its pages go back to the system, so that it reads as zero next time.
    pub fn give_back(&mut self, offset: u64, bytes: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: an open descriptor and a range inside the file; mappings stay valid and read zero.
        let rc = unsafe { libc::fallocate(self.memory.raw_fd(), mode, offset as i64, bytes as i64) };
        if rc == 0 {
            self.free.push((bytes, offset));
        }
    }

    /// Takes the set of rings whose ready bit is on, and calls `f` with each.
    #[inline]
    pub fn take_ready(&self, mut f: impl FnMut(usize)) {
        let summary = self.head.u64_at(AT_READY);
        if summary.load(Ordering::Relaxed) == 0 {
            return;
        }
        for_bits(summary.swap(0, Ordering::AcqRel), |w| {
            let bits = self.head.u64_at(AT_READY_WORDS + w * 8).swap(0, Ordering::AcqRel);
            for_bits(bits, |b| f(w * 64 + b));
        });
    }

    /// Sets a ready bit of its own, so that the next [`Segment::take_ready`] looks at `ring`.
    pub fn set_ready(&self, ring: usize) {
        set_ready(&self.head, ring);
    }

    /// Is there a ready bit or a datagram?
    #[inline]
    pub fn has_news(&self) -> bool {
        self.head.u64_at(AT_READY).load(Ordering::Relaxed) != 0
            || self.head.u64_at(AT_MAIL).load(Ordering::Relaxed) != 0
    }

    /// Takes one datagram into `to`; its length. None waits behind another for ever.
    #[inline]
    pub fn take_datagram(&mut self, to: &mut [u8; DATAGRAM_MAX]) -> Option<usize> {
        self.mailbox.take(&self.head, to)
    }

    /// Datagrams that found the mailbox full. When there are new ones, what senders that died left in the mailbox
    /// is cleared away.
    pub fn dropped(&mut self) -> u32 {
        self.mailbox.dropped(&self.head, &self.memory)
    }

    /// Makes sure that what senders wrote before they saw a cleared flag is visible.
    pub fn settle(&self) {
        self.barrier.heavy();
    }

    /// Sleeps until a sender or another thread rings, or `timeout`. `nothing_there` is asked once more after the
    /// doorbell has been armed.
    pub fn sleep(&self, timeout: Duration, nothing_there: impl FnOnce() -> bool) {
        let armed = self.arm();
        if nothing_there() && !self.has_news() {
            self.sleeper.wait(&armed, timeout);
        }
        self.disarm(armed);
    }

    /// Announces a sleep: senders ring from now on. The caller looks a last time whether there is news, then waits
    /// ([`Sleeper::wait`]), with no lock held, and disarms.
    pub fn arm(&self) -> Armed {
        let armed = self.sleeper.arm();
        self.barrier.heavy();
        armed
    }

    /// The same for a sleep in which [`Segment::pollable_doorbell`] is polled beside other descriptors.
    pub fn arm_pollable(&self) -> io::Result<Armed> {
        let armed = self.sleeper.arm_pipe()?;
        self.barrier.heavy();
        Ok(armed)
    }

    /// The sleep is over.
    pub fn disarm(&self, armed: Armed) {
        self.sleeper.disarm(armed);
    }

    /// The doorbell for threads that sleep without a reference to the segment.
    pub fn sleeper(&self) -> Sleeper {
        self.sleeper.clone()
    }

    /// A descriptor that can be read when somebody rings while armed for it. Made on first use.
    pub fn pollable_doorbell(&self) -> io::Result<BorrowedFd<'_>> {
        self.sleeper.make_pipe()
    }

    /// Registers memory; `None` when the table is full. The key names the slot and its generation.
    pub fn register(&mut self, region: Region) -> Option<u32> {
        for _ in 0..REGIONS_MAX {
            let key = self.regions_next;
            self.regions_next = self.regions_next.wrapping_add(1);
            let at = AT_REGIONS + key as usize % REGIONS_MAX * REGION_BYTES;
            if self.head.u64_at(at).load(Ordering::Relaxed) == 0 {
                self.head.u64_at(at + 8).store(region.addr, Ordering::Relaxed);
                self.head.u64_at(at + 16).store(region.bytes, Ordering::Relaxed);
                let offset = region.segment_offset.unwrap_or(0); // offset 0 is the head, never a region
                self.head.u64_at(at + 24).store(offset, Ordering::Relaxed);
                self.head.u64_at(at).store(1 << 32 | u64::from(key), Ordering::Release);
                return Some(key);
            }
        }
        None
    }

    /// Ends a registration.
    pub fn deregister(&mut self, key: u32) {
        let at = AT_REGIONS + key as usize % REGIONS_MAX * REGION_BYTES;
        self.head.u64_at(at).store(0, Ordering::Release);
    }
}

/// A peer's view of another process's segment.
#[derive(Debug)]
pub struct PeerSegment {
    memory: SharedMemory,
    head: SharedMap,
    barrier: Barrier,
    rope: Rope,
}

impl PeerSegment {
    /// Maps the head. `mine` is what this process registered for.
    pub fn open(at: &Locator, mine: Barrier) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("segment {at}: {why}"));
        let memory = SharedMemory::open(at)?;
        if !memory.cannot_shrink() {
            return Err(bad("not sealed against shrinking"));
        }
        if memory.bytes()? < AT_ARENA {
            return Err(bad("too short"));
        }
        let head = memory.map(0, HEAD_BYTES)?;
        if head.u64_at(AT_MAGIC).load(Ordering::Acquire) != MAGIC {
            return Err(bad("not a process segment of this version"));
        }
        let asks_fence = head.u32_at(AT_FLAGS).load(Ordering::Relaxed) & FLAG_SENDERS_FENCE != 0;
        let barrier = if asks_fence { Barrier::Both } else { mine };
        Ok(PeerSegment { memory, head, barrier, rope: Rope::new(*at) })
    }

    /// How this process and the owner order their stores: light here, heavy there.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// Maps a range of the arena.
    pub fn map(&self, offset: u64, bytes: usize) -> io::Result<SharedMap> {
        let inside =
            offset.checked_add(bytes as u64).is_some_and(|end| end <= self.memory.bytes().unwrap_or(0));
        if !inside || offset < AT_ARENA {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a range outside the peer's arena"));
        }
        self.memory.map(offset, bytes)
    }

    /// After a message was written: tells the owner, if it does not look by itself.
    #[inline]
    pub fn notify(&self, ring: usize, is_polled: impl FnOnce() -> bool) {
        self.barrier.light();
        if !is_polled() {
            set_ready(&self.head, ring);
        }
        self.wake();
    }

    /// After a message was written to a ring in this process's own memory: tells the owner of this segment, if it has
    /// begun to read there. Before that it will look by itself.
    pub fn notify_reader(&self, ring: &RingTx) {
        self.barrier.light();
        if let Some(id) = ring.ready_id() {
            if !ring.is_polled() && (id as usize) < RINGS_MAX {
                set_ready(&self.head, id as usize);
            }
            self.wake();
        }
    }

    /// Wakes the owner, if it sleeps: something that it waits for has been stored, other than a message or a datagram.
    #[inline]
    pub fn ring(&self) {
        self.barrier.light();
        self.wake();
    }

    /// Puts a datagram into the mailbox, or counts it as dropped: `false`.
    pub fn send_datagram(&self, bytes: &[u8]) -> bool {
        let posted = mailbox::post(&self.head, &self.memory, bytes);
        if posted {
            fence(Ordering::SeqCst); // the bit before the look at the sleeper's word
            self.wake();
        }
        posted
    }

    /// A registered region of the owner, if the key is live.
    pub fn region(&self, key: u32) -> Option<Region> {
        let at = AT_REGIONS + key as usize % REGIONS_MAX * REGION_BYTES;
        let word = |i: usize| self.head.u64_at(at + i * 8).load(Ordering::Relaxed);
        if self.head.u64_at(at).load(Ordering::Acquire) != 1 << 32 | u64::from(key) {
            return None;
        }
        let segment_offset = Some(word(3)).filter(|offset| *offset != 0);
        Some(Region { addr: word(1), bytes: word(2), segment_offset })
    }

    #[inline]
    fn wake(&self) {
        if self.head.u32_at(AT_SLEEPING).load(Ordering::Relaxed) != 0 {
            self.rope.pull(&self.head);
        }
    }
}

fn set_ready(head: &SharedMap, ring: usize) {
    head.u64_at(AT_READY_WORDS + ring / 64 * 8).fetch_or(1 << (ring % 64), Ordering::SeqCst);
    let summary: &AtomicU64 = head.u64_at(AT_READY);
    summary.fetch_or(1 << (ring / 64), Ordering::SeqCst);
}

fn for_bits(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// A copy inside a mapping of a peer's segment.
pub fn copy_from_map(map: &SharedMap, offset: usize, to: UserBufMut) {
    // SAFETY: inside the mapping (asserted by `at`); the target is writable by its constructor.
    unsafe { std::ptr::copy_nonoverlapping(map.at(offset, to.len()).as_ptr(), to.as_mut_ptr(), to.len()) };
}

/// A copy into a mapping of a peer's segment.
pub fn copy_to_map(map: &SharedMap, offset: usize, from: crate::UserBuf) {
    // SAFETY: inside the mapping (asserted by `at`); the source is readable by its constructor.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), map.at(offset, from.len()).as_ptr(), from.len()) };
}

impl SharedMemory {
    fn raw_fd(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Segment, PeerSegment) {
        let segment = Segment::create(Barrier::Both).unwrap();
        let peer = PeerSegment::open(&segment.locator().unwrap(), Barrier::Both).unwrap();
        (segment, peer)
    }

    #[test]
    fn a_segment_that_could_shrink_is_refused() {
        let (segment, _peer) = pair();
        let own = SharedMemory::open(&segment.locator().unwrap()).unwrap();
        assert!(own.resize(4096).is_err() && own.resize(AT_ARENA - 1).is_err());
        let unsealed = SharedMemory::create_sealable("test", AT_ARENA).unwrap();
        unsealed.map(0, 4096).unwrap().u64_at(AT_MAGIC).store(MAGIC, Ordering::Relaxed);
        let locator = unsealed.locator().unwrap();
        let refused = PeerSegment::open(&locator, Barrier::Both).unwrap_err();
        assert!(refused.to_string().contains("shrinking"), "{refused}");
        unsealed.seal_against_shrinking().unwrap();
        PeerSegment::open(&locator, Barrier::Both).unwrap();
    }

    #[test]
    fn ready_bits_name_the_ring_once() {
        let (segment, peer) = pair();
        peer.notify(70, || false);
        peer.notify(4095, || false);
        peer.notify(5, || true);
        let mut seen = Vec::new();
        segment.take_ready(|r| seen.push(r));
        assert_eq!(seen, [70, 4095]);
        segment.take_ready(|r| panic!("{r} again"));
    }

    #[test]
    fn a_sleeper_is_woken_by_a_datagram() {
        let (segment, peer) = pair();
        std::thread::scope(|s| {
            s.spawn(|| {
                while segment.head.u32_at(AT_SLEEPING).load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                peer.send_datagram(b"wake");
            });
            let start = std::time::Instant::now();
            segment.sleep(Duration::from_secs(20), || true);
            assert!(start.elapsed() < Duration::from_secs(10));
        });
    }

    #[test]
    fn a_sleeper_is_rung_without_a_message() {
        let (segment, peer) = pair();
        let armed = segment.arm();
        peer.ring();
        let start = std::time::Instant::now();
        segment.sleeper().wait(&armed, Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10) && !segment.has_news());
        segment.disarm(armed);
    }

    #[test]
    fn a_region_is_seen_until_it_is_deregistered() {
        let (mut segment, peer) = pair();
        let region = Region { addr: 0x1000, bytes: 64, segment_offset: None };
        let key = segment.register(region).unwrap();
        assert_eq!(peer.region(key), Some(region));
        segment.deregister(key);
        assert_eq!(peer.region(key), None);
    }

    #[test]
    fn carved_memory_comes_back_zeroed() {
        let (mut segment, peer) = pair();
        let (offset, map) = segment.carve(4096).unwrap();
        map.u64_at(0).store(7, Ordering::Relaxed);
        assert_eq!(peer.map(offset, 4096).unwrap().u64_at(0).load(Ordering::Relaxed), 7);
        drop(map);
        segment.give_back(offset, 4096);
        let (again, map) = segment.carve(4096).unwrap();
        assert_eq!((again, map.u64_at(0).load(Ordering::Relaxed)), (offset, 0));
        assert!(peer.map(0, 4096).is_err());
        assert!(peer.map(AT_ARENA - 4096, 4096).is_err());
    }
}
