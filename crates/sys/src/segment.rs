//! A process's own segment: doorbell, ready bitmap, mailbox, table of registered memory, and an arena from
//! which receive rings are carved.
//!
//! Peers map the head of it to wake the owner, the mailbox while they send a datagram, and each ring they write to.
//! One sparse memfd per process; what was never touched costs nothing.
mod arena;
mod doorbell;
mod mailbox;
#[cfg(all(test, loom))]
mod model;

use crate::cpu::Barrier;
use crate::mem::{Locator, SharedMap, SharedMemory, UserBufMut};
use crate::ring::RingTx;
use crate::sync::{AtomicU64, Bug, fence, planted};
use arena::Arena;
pub use arena::packed_place;
use doorbell::{AT_SLEEPING, PAGE_BYTES, Rope};
use mailbox::{AT_MAIL, AT_MAIL_WORDS, MAIL_WORDS, Mailbox, NEAR_BYTES, Outbox, SLOTS_BYTES};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use doorbell::{Armed, Sleeper};
pub use mailbox::{DATAGRAM_MAX, MAIL_SLOTS};

const MAGIC: u64 = u64::from_le_bytes(*b"banyanP4");

/// Most inbound rings of a process.
pub const RINGS_MAX: usize = 4096;
/// Most registered regions of a process at a time.
pub const REGIONS_MAX: usize = 256;

// Layout of the head. Words that different sides write live in different lines.
const AT_MAGIC: usize = 0;
const AT_FLAGS: usize = 8;
/// When the owner started, as in its locator: who opens the segment of a recycled process id finds that out here.
const AT_START: usize = 16;
// Words of doorbell and mailbox are in between: see there.
const AT_READY: usize = 256;
const AT_READY_WORDS: usize = 320;
/// Bytes of the head: what a peer maps to reach the owner. The first slots of the mailbox belong to it.
pub const HEAD_BYTES: usize = PAGE_BYTES + NEAR_BYTES;
// Behind the mailbox: mapped by peers that read or write registered memory.
const AT_REGIONS: usize = PAGE_BYTES + SLOTS_BYTES;
/// A line for each: its key, address, length and place in the segment, which of its parts are taken, and whether its owner does
/// nothing but wait for who reads it.
const REGION_BYTES: usize = 64;
const AT_PARTS: usize = 32;
const AT_WAITS: usize = 40;
const REGIONS_BYTES: usize = REGIONS_MAX * REGION_BYTES;
/// Where the arena begins: behind head, mailbox and regions.
const AT_ARENA: u64 = (AT_REGIONS + REGIONS_BYTES) as u64;

const _: () = assert!(AT_READY_WORDS + RINGS_MAX / 64 * 8 <= AT_MAIL_WORDS);
const _: () = assert!(AT_MAIL_WORDS + MAIL_WORDS * 8 <= PAGE_BYTES);
#[cfg(not(all(test, loom)))] // models have a smaller mailbox
const _: () = assert!(
    HEAD_BYTES.is_multiple_of(4096) && AT_ARENA.is_multiple_of(4096) && AT_REGIONS.is_multiple_of(4096)
);

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
    regions: SharedMap,
    start_ticks: u64,
    arena: Arena,
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
        let start_ticks = memory.locator()?.start_ticks;
        Self::in_memory(memory, start_ticks, barrier)
    }

    fn in_memory(memory: SharedMemory, start_ticks: u64, barrier: Barrier) -> io::Result<Self> {
        let head = memory.map(0, HEAD_BYTES)?;
        let flags = if barrier == Barrier::Both { FLAG_SENDERS_FENCE } else { 0 };
        head.u32_at(AT_FLAGS).store(flags, Ordering::Relaxed);
        head.u64_at(AT_START).store(start_ticks, Ordering::Relaxed);
        head.u64_at(AT_MAGIC).store(MAGIC, Ordering::Release);
        let sleeper = Sleeper::new(memory.map(0, PAGE_BYTES)?);
        let mailbox = Mailbox::map(&memory)?;
        let arena = Arena::new(AT_ARENA);
        let regions = memory.map(AT_REGIONS as u64, REGIONS_BYTES)?;
        Ok(Segment { memory, head, regions, start_ticks, arena, regions_next: 0, barrier, sleeper, mailbox })
    }

    /// Where peers find it.
    pub fn locator(&self) -> io::Result<Locator> {
        Ok(Locator { start_ticks: self.start_ticks, ..self.memory.locator()? })
    }

    /// Bytes in use (head, mailbox and everything carved out).
    pub fn bytes(&self) -> u64 {
        self.arena.end()
    }

    /// Bytes with pages behind them.
    pub fn touched_bytes(&self) -> u64 {
        self.memory.touched_bytes().unwrap_or(0)
    }

    /// Carves out `bytes` (a multiple of the page size), zeroed.
    pub fn carve(&mut self, bytes: usize) -> io::Result<(u64, SharedMap)> {
        self.arena.carve(&self.memory, bytes)
    }

    /// Gives a range back; its pages go back to the system, so that it reads as zero next time.
    pub fn give_back(&mut self, offset: u64, bytes: usize) {
        self.arena.give_back(&self.memory, offset, bytes);
    }

    /// Carves out few `bytes` (a multiple of a cache line), zeroed, which share pages with others.
    pub fn carve_packed(&mut self, bytes: usize) -> io::Result<(u64, SharedMap)> {
        self.arena.carve_packed(&self.memory, bytes)
    }

    /// Gives such a piece back. Its memory stays for the next one.
    pub fn give_back_packed(&mut self, offset: u64, bytes: usize) {
        self.arena.give_back_packed(offset, bytes);
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
        if planted(Bug::LookBeforeArming) {
            if nothing_there() && !self.has_news() {
                let armed = self.arm();
                self.sleeper.wait(&armed, timeout);
                self.disarm(armed);
            }
            return;
        }
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
        if !planted(Bug::ArmWithoutBarrier) {
            self.barrier.heavy();
        }
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
            let at = line_of(key);
            if self.regions.u64_at(at).load(Ordering::Relaxed) == 0 {
                self.regions.u64_at(at + 8).store(region.addr, Ordering::Relaxed);
                self.regions.u64_at(at + 16).store(region.bytes, Ordering::Relaxed);
                let offset = region.segment_offset.unwrap_or(0); // offset 0 is the head, never a region
                self.regions.u64_at(at + 24).store(offset, Ordering::Relaxed);
                self.regions.u64_at(at + AT_PARTS).store(0, Ordering::Relaxed);
                self.regions.u64_at(at + AT_WAITS).store(0, Ordering::Relaxed);
                self.regions.u64_at(at).store(1 << 32 | u64::from(key), Ordering::Release);
                return Some(key);
            }
        }
        None
    }

    /// Ends a registration.
    pub fn deregister(&mut self, key: u32) {
        self.regions.u64_at(line_of(key)).store(0, Ordering::Release);
    }

    /// The owner does nothing but wait for who reads a registered region, from now on.
    pub fn say_waits(&self, key: u32) {
        self.regions.u64_at(line_of(key) + AT_WAITS).store(1, Ordering::Relaxed);
    }

    /// Takes the last of `count` parts of a registered region that neither the owner has taken, from the end, nor a peer,
    /// from the front ([`PeerSegment::take_part`]). Nobody else takes it then.
    pub fn take_part(&self, key: u32, count: u32) -> Option<u32> {
        let taken = self.regions.u64_at(parts_of(key)).fetch_add(1 << 32, Ordering::AcqRel);
        let (front, back) = (taken as u32, (taken >> 32) as u32);
        (front.saturating_add(back) < count).then(|| count - 1 - back)
    }
}

/// The line of a region.
fn line_of(key: u32) -> usize {
    key as usize % REGIONS_MAX * REGION_BYTES
}

/// Where it stands how many parts of a region are taken: from the front in the low half, from the end in the high one.
fn parts_of(key: u32) -> usize {
    line_of(key) + AT_PARTS
}

/// A peer's view of another process's segment.
#[derive(Debug)]
pub struct PeerSegment {
    memory: SharedMemory,
    head: SharedMap,
    barrier: Barrier,
    rope: Rope,
    outbox: Outbox,
    /// The table of registered memory, once it was looked at.
    regions: OnceLock<SharedMap>,
}

impl PeerSegment {
    /// Maps the head. `mine` is what this process registered for.
    pub fn open(at: &Locator, mine: Barrier) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("segment {at}: {why}"));
        let memory = SharedMemory::open_unproven(at)?;
        if !memory.cannot_shrink() {
            return Err(bad("not sealed against shrinking"));
        }
        if memory.bytes()? < AT_ARENA {
            return Err(bad("too short"));
        }
        Self::in_memory(memory, at, mine)
    }

    fn in_memory(memory: SharedMemory, at: &Locator, mine: Barrier) -> io::Result<Self> {
        let head = memory.map(0, HEAD_BYTES)?;
        if head.u64_at(AT_MAGIC).load(Ordering::Acquire) != MAGIC {
            let why = format!("segment {at}: not a process segment of this version");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if head.u64_at(AT_START).load(Ordering::Relaxed) != at.start_ticks {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {} is gone", at.pid)));
        }
        let outbox = Outbox::new(&head);
        let asks_fence = head.u32_at(AT_FLAGS).load(Ordering::Relaxed) & FLAG_SENDERS_FENCE != 0;
        let barrier = if asks_fence { Barrier::Both } else { mine };
        Ok(PeerSegment { memory, head, barrier, rope: Rope::new(*at), outbox, regions: OnceLock::new() })
    }

    /// How this process and the owner order their stores: light here, heavy there.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// Maps a range of the arena.
    pub fn map(&self, offset: u64, bytes: usize) -> io::Result<SharedMap> {
        let (page, inside) = self.pages(offset, bytes)?;
        Ok(self.memory.map(page, inside + bytes)?.part(inside, bytes))
    }

    /// Maps a range that is going to be used from end to end.
    pub fn map_populated(&self, offset: u64, bytes: usize) -> io::Result<SharedMap> {
        let (page, inside) = self.pages(offset, bytes)?;
        Ok(self.memory.map_populated(page, inside + bytes)?.part(inside, bytes))
    }

    /// The page that a range of the arena begins in, and where it begins there.
    fn pages(&self, offset: u64, bytes: usize) -> io::Result<(u64, usize)> {
        let inside =
            offset.checked_add(bytes as u64).is_some_and(|end| end <= self.memory.bytes().unwrap_or(0));
        if !inside || offset < AT_ARENA || !offset.is_multiple_of(8) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a range outside the peer's arena"));
        }
        let page = offset & !(PAGE_BYTES as u64 - 1);
        Ok((page, (offset - page) as usize))
    }

    /// After a message was written: tells the owner, if it does not look by itself.
    #[inline]
    pub fn notify(&self, ring: usize, is_polled: impl FnOnce() -> bool) {
        self.barrier.light();
        if !is_polled() {
            self.set_ready(ring);
        }
        self.wake();
    }

    /// After a message was written to a ring in this process's own memory: tells the owner of this segment, if it has
    /// begun to read there. Before that it will look by itself.
    pub fn notify_reader(&self, ring: &RingTx) {
        self.barrier.light();
        if let Some(id) = ring.ready_id() {
            if !ring.is_polled() && (id as usize) < RINGS_MAX {
                self.set_ready(id as usize);
            }
            self.wake();
        }
    }

    /// The bit, and then the look at the sleeper's word: setting a bit is no full barrier on every processor.
    #[inline]
    fn set_ready(&self, ring: usize) {
        set_ready(&self.head, ring);
        if !planted(Bug::BitWithoutBarrier) {
            self.barrier.light();
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
        self.send_datagram_from(std::process::id(), bytes)
    }

    fn send_datagram_from(&self, me: u32, bytes: &[u8]) -> bool {
        let posted = self.outbox.post(&self.head, &self.memory, me, bytes);
        if posted {
            fence(Ordering::SeqCst); // the bit before the look at the sleeper's word
            self.wake();
        }
        posted
    }

    /// A registered region of the owner, if the key is live.
    pub fn region(&self, key: u32) -> Option<Region> {
        let regions = self.regions()?;
        let at = line_of(key);
        let word = |i: usize| regions.u64_at(at + i * 8).load(Ordering::Relaxed);
        if regions.u64_at(at).load(Ordering::Acquire) != 1 << 32 | u64::from(key) {
            return None;
        }
        let segment_offset = Some(word(3)).filter(|offset| *offset != 0);
        Some(Region { addr: word(1), bytes: word(2), segment_offset })
    }

    /// Does the owner of a live region do nothing but wait for who reads it?
    pub fn owner_waits(&self, key: u32) -> bool {
        let said = |regions: &SharedMap| regions.u64_at(line_of(key) + AT_WAITS).load(Ordering::Relaxed) == 1;
        self.region(key).is_some() && self.regions().is_some_and(said)
    }

    /// Takes the first of `count` parts of a live region that nobody has taken yet ([`Segment::take_part`]). Once there
    /// is none left, the owner has as many as this side has not.
    pub fn take_part(&self, key: u32, count: u32) -> Option<u32> {
        self.region(key)?;
        let taken = self.regions()?.u64_at(parts_of(key)).fetch_add(1, Ordering::AcqRel);
        let (front, back) = (taken as u32, (taken >> 32) as u32);
        (front.saturating_add(back) < count).then_some(front)
    }

    fn regions(&self) -> Option<&SharedMap> {
        if self.regions.get().is_none() {
            let _ = self.regions.set(self.memory.map(AT_REGIONS as u64, REGIONS_BYTES).ok()?);
        }
        self.regions.get()
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
    map.copy_out(offset, to);
}

/// A copy into a mapping of a peer's segment.
pub fn copy_to_map(map: &SharedMap, offset: usize, from: crate::UserBuf) {
    map.copy_in(offset, from);
}

#[cfg(all(test, not(loom)))]
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
        let locator = unsealed.locator().unwrap();
        let head = unsealed.map(0, 4096).unwrap();
        head.u64_at(AT_START).store(locator.start_ticks, Ordering::Relaxed);
        head.u64_at(AT_MAGIC).store(MAGIC, Ordering::Relaxed);
        let refused = PeerSegment::open(&locator, Barrier::Both).unwrap_err();
        assert!(refused.to_string().contains("shrinking"), "{refused}");
        unsealed.seal_against_shrinking().unwrap();
        PeerSegment::open(&locator, Barrier::Both).unwrap();
    }

    #[test]
    fn the_segment_of_a_recycled_process_id_is_refused() {
        let (segment, _peer) = pair();
        let locator = segment.locator().unwrap();
        let other = Locator { start_ticks: locator.start_ticks + 1, ..locator };
        let refused = PeerSegment::open(&other, Barrier::Both).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{refused}");
        assert!(refused.to_string().contains("is gone"), "{refused}");
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
    fn who_waits_says_so_of_one_region() {
        let (mut segment, peer) = pair();
        let region = Region { addr: 4096, bytes: 10, segment_offset: None };
        let keys = [segment.register(region).unwrap(), segment.register(region).unwrap()];
        segment.say_waits(keys[1]);
        assert_eq!(keys.map(|key| peer.owner_waits(key)), [false, true]);
        segment.deregister(keys[1]);
        assert!(!peer.owner_waits(keys[1]), "it is gone");
        // The next one in its place has nobody who waits.
        let next: Vec<u32> = (0..REGIONS_MAX - 1).map(|_| segment.register(region).unwrap()).collect();
        assert!(next.iter().any(|key| *key as usize % REGIONS_MAX == keys[1] as usize % REGIONS_MAX));
        assert!(next.iter().all(|key| !peer.owner_waits(*key)));
    }

    #[test]
    fn every_part_of_a_region_is_taken_once() {
        let (mut segment, peer) = pair();
        let region = Region { addr: 0x1000, bytes: 64, segment_offset: None };
        for _ in 0..3 * REGIONS_MAX {
            let key = segment.register(region).unwrap();
            assert_eq!((peer.take_part(key, 5), segment.take_part(key, 5)), (Some(0), Some(4)));
            assert_eq!((segment.take_part(key, 5), peer.take_part(key, 5)), (Some(3), Some(1)));
            assert_eq!((peer.take_part(key, 5), segment.take_part(key, 5)), (Some(2), None));
            assert_eq!(peer.take_part(key, 5), None);
            segment.deregister(key);
        }
        // At the same time, and of many.
        let key = segment.register(region).unwrap();
        let (mut front, mut back) = (Vec::new(), Vec::new());
        std::thread::scope(|threads| {
            threads.spawn(|| front.extend(std::iter::from_fn(|| peer.take_part(key, 100_000))));
            back.extend(std::iter::from_fn(|| segment.take_part(key, 100_000)));
        });
        back.reverse();
        assert!(front.iter().chain(&back).copied().eq(0..100_000), "{} and {}", front.len(), back.len());
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
