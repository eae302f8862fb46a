//! The mailbox: datagrams from any process of the host, in slots of the owner's segment.
//!
//! A sender claims a free slot with its process id, fills it, marks it as ready, and sets the slot's bit; a second
//! level of bits, one word, says which words of bits to look at, so that looking into an empty mailbox is one load.
//! A sender looks for a slot from one on that follows from its process id, so that few meet: first among those that it
//! has mapped with the head, then in one page further on, which ranks that were started one after the other share, and
//! at last everywhere. The slots are a sparse part of the segment.
//!
//! Any sender may stop or die between any two steps. Nobody waits for it: its slot alone stays taken. The owner
//! looks through the slots when datagrams were dropped for lack of one ([`Mailbox::repair`]).
use crate::mem::{SharedMap, SharedMemory, UserBuf, UserBufMut};
use crate::sync::{self, AtomicU64, Bug, planted};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Slots of the mailbox.
pub const MAIL_SLOTS: usize = if cfg!(all(test, loom)) { 2 } else { 4096 };
/// Longest datagram.
pub const DATAGRAM_MAX: usize = 244;

// Words of the segment's head.
/// Which words of bits to look at.
pub(super) const AT_MAIL: usize = 128;
/// Datagrams that found no slot.
pub(super) const AT_DROPPED: usize = 192;
/// A bit for each slot that is ready.
pub(super) const AT_MAIL_WORDS: usize = 1024;
pub(super) const MAIL_WORDS: usize = MAIL_SLOTS.div_ceil(64);

// A slot: state, length, datagram.
const SLOT_BYTES: usize = 256;
/// Slots of a page.
const PAGE_SLOTS: usize = if cfg!(all(test, loom)) { MAIL_SLOTS } else { super::PAGE_BYTES / SLOT_BYTES };
const SLOT_LEN: usize = 4;
const SLOT_DATA: usize = 12;
/// In a slot's state: filled. The rest is the process id of the sender; all zero is a free slot.
const READY: u32 = 1 << 31;

/// Where the slots are in the segment.
const AT_SLOTS: usize = super::PAGE_BYTES;
/// The first slots are near: they lie in what every peer has mapped anyway.
const NEAR_SLOTS: usize = if cfg!(all(test, loom)) { 1 } else { 64 };
pub(super) const NEAR_BYTES: usize = NEAR_SLOTS * SLOT_BYTES;
pub(super) const SLOTS_BYTES: usize = MAIL_SLOTS * SLOT_BYTES;

const _: () = assert!(MAIL_WORDS <= 64 && SLOT_DATA + DATAGRAM_MAX <= SLOT_BYTES);

/// The owner's view.
#[derive(Debug)]
pub(super) struct Mailbox {
    slots: SharedMap,
    /// The slot to look at first: behind the last one taken, so that none waits for ever.
    at: usize,
    dropped_seen: u32,
}

impl Mailbox {
    pub(super) fn map(memory: &SharedMemory) -> io::Result<Self> {
        let slots = memory.map(AT_SLOTS as u64, SLOTS_BYTES)?;
        slots.leave_out_of_dumps();
        Ok(Mailbox { slots, at: 0, dropped_seen: 0 })
    }

    /// Takes one datagram into `to`; its length.
    #[inline]
    pub(super) fn take(&mut self, head: &SharedMap, to: &mut [u8; DATAGRAM_MAX]) -> Option<usize> {
        if head.u64_at(AT_MAIL).load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.take_next(head, to)
    }

    fn take_next(&mut self, head: &SharedMap, to: &mut [u8; DATAGRAM_MAX]) -> Option<usize> {
        for _ in 0..MAIL_SLOTS {
            let slot = next_bit(head, self.at)?;
            self.at = (slot + 1) % MAIL_SLOTS;
            clear_bit(head, slot);
            let len = self.copy_out(slot, to);
            if len.is_some() {
                return len;
            }
        }
        None
    }

    /// A bit alone proves nothing: that of a sender that was stopped may come when the slot, repaired and taken, is
    /// free again or another's.
    fn copy_out(&self, slot: usize, to: &mut [u8; DATAGRAM_MAX]) -> Option<usize> {
        let at = slot * SLOT_BYTES;
        let state = self.slots.u32_at(at);
        if state.load(Ordering::Acquire) & READY == 0 {
            return None;
        }
        let len = (self.slots.u32_at(at + SLOT_LEN).load(Ordering::Relaxed) as usize).min(DATAGRAM_MAX);
        if planted(Bug::SlotFreedBeforeCopy) {
            state.store(0, Ordering::Release);
        }
        // SAFETY: exclusively ours for the whole call; a datagram is no longer than that.
        let to = unsafe { UserBufMut::new(to.as_mut_ptr(), len) };
        self.slots.copy_out(at + SLOT_DATA, to);
        if !planted(Bug::SlotFreedBeforeCopy) {
            state.store(0, Ordering::Release);
        }
        Some(len)
    }

    /// Datagrams that found no slot. When there are new ones, the slots are repaired.
    pub(super) fn dropped(&mut self, head: &SharedMap, memory: &SharedMemory) -> u32 {
        let dropped = head.u32_at(AT_DROPPED).load(Ordering::Relaxed);
        if dropped != self.dropped_seen {
            self.dropped_seen = dropped;
            self.repair(head, memory);
        }
        dropped
    }

    /// Frees the slots that dead senders claimed and never filled, and sets the bits that they did not come to set.
    /// A sender that lives may set its own bit afterwards; that is found out when the slot is taken.
    pub(super) fn repair(&self, head: &SharedMap, memory: &SharedMemory) {
        let (from, to) = (AT_SLOTS as u64, (AT_SLOTS + SLOTS_BYTES) as u64);
        // A look into a page that was never touched would make it.
        for range in memory.touched_ranges(from, to) {
            let first = (range.start - from) as usize / SLOT_BYTES;
            let end = ((range.end - from) as usize).div_ceil(SLOT_BYTES).min(MAIL_SLOTS);
            (first..end).for_each(|slot| self.repair_slot(head, slot));
        }
        for word in (0..MAIL_WORDS).filter(|word| bits(head, *word).load(Ordering::Acquire) != 0) {
            head.u64_at(AT_MAIL).fetch_or(1 << word, Ordering::AcqRel);
        }
    }

    fn repair_slot(&self, head: &SharedMap, slot: usize) {
        let state = self.slots.u32_at(slot * SLOT_BYTES);
        match state.load(Ordering::Acquire) {
            0 => {}
            ready if ready & READY != 0 => set_bit(head, slot),
            claim if sync::process_exists(claim) => {}
            claim => {
                let _ = state.compare_exchange(claim, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

/// A sender's way into another process's mailbox.
#[derive(Debug)]
pub(super) struct Outbox {
    near: SharedMap,
    /// The page of the slot that follows from the process id, once the near ones were all taken.
    page: OnceLock<SharedMap>,
}

impl Outbox {
    pub(super) fn new(head: &SharedMap) -> Self {
        Outbox { near: head.part(AT_SLOTS, NEAR_BYTES), page: OnceLock::new() }
    }

    /// Puts a datagram into a free slot, or counts it as dropped: `false`.
    /// `me` is the sender's process.
    pub(super) fn post(&self, head: &SharedMap, memory: &SharedMemory, me: u32, bytes: &[u8]) -> bool {
        assert!(bytes.len() <= DATAGRAM_MAX);
        let posted = post_into(head, &self.near, 0, me, bytes)
            || self.post_further(head, memory, me, bytes)
            || post_anywhere(head, memory, me, bytes);
        if !posted {
            head.u32_at(AT_DROPPED).fetch_add(1, Ordering::Relaxed);
        }
        posted
    }

    #[cold]
    fn post_further(&self, head: &SharedMap, memory: &SharedMemory, me: u32, bytes: &[u8]) -> bool {
        let first = me as usize % MAIL_SLOTS / PAGE_SLOTS * PAGE_SLOTS;
        self.page(memory, first).is_some_and(|page| post_into(head, page, first, me, bytes))
    }

    fn page(&self, memory: &SharedMemory, first: usize) -> Option<&SharedMap> {
        if self.page.get().is_none() {
            let page = memory.map((AT_SLOTS + first * SLOT_BYTES) as u64, PAGE_SLOTS * SLOT_BYTES).ok()?;
            let _ = self.page.set(page);
        }
        self.page.get()
    }
}

/// All slots around the own one are taken.
#[cold]
fn post_anywhere(head: &SharedMap, memory: &SharedMemory, me: u32, bytes: &[u8]) -> bool {
    let slots = memory.map(AT_SLOTS as u64, SLOTS_BYTES);
    slots.is_ok_and(|slots| post_into(head, &slots, 0, me, bytes))
}

/// Puts a datagram into one of the slots that `slots` maps, from slot `first` on.
fn post_into(head: &SharedMap, slots: &SharedMap, first: usize, me: u32, bytes: &[u8]) -> bool {
    let slot = claim(slots, me);
    if let Some(slot) = slot {
        if planted(Bug::BitBeforeDatagram) {
            set_bit(head, first + slot);
        }
        fill(slots, slot, me, bytes);
        if !planted(Bug::BitBeforeDatagram) {
            set_bit(head, first + slot);
        }
    }
    slot.is_some()
}

fn claim(slots: &SharedMap, me: u32) -> Option<usize> {
    let count = slots.bytes() / SLOT_BYTES;
    let first = me as usize % count;
    (first..count).chain(0..first).find(|slot| {
        let state = slots.u32_at(slot * SLOT_BYTES);
        state.load(Ordering::Relaxed) == 0
            && state.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })
}

/// `slot` is claimed by this process.
fn fill(slots: &SharedMap, slot: usize, me: u32, bytes: &[u8]) {
    let at = slot * SLOT_BYTES;
    slots.u32_at(at + SLOT_LEN).store(bytes.len() as u32, Ordering::Relaxed);
    // SAFETY: the slice is readable for the whole call.
    let from = unsafe { UserBuf::new(bytes.as_ptr(), bytes.len()) };
    slots.copy_in(at + SLOT_DATA, from);
    slots.u32_at(at).store(READY | me, Ordering::Release);
}

fn bits(head: &SharedMap, word: usize) -> &AtomicU64 {
    head.u64_at(AT_MAIL_WORDS + word * 8)
}

fn set_bit(head: &SharedMap, slot: usize) {
    bits(head, slot / 64).fetch_or(1 << (slot % 64), Ordering::SeqCst);
    head.u64_at(AT_MAIL).fetch_or(1 << (slot / 64), Ordering::SeqCst);
}

fn clear_bit(head: &SharedMap, slot: usize) {
    let bit = 1 << (slot % 64);
    if bits(head, slot / 64).fetch_and(!bit, Ordering::AcqRel) & !bit == 0 {
        clear_word(head, slot / 64);
    }
}

/// A word of bits was empty: the level above says so too, unless a bit was set meanwhile. (A sender sets the bit first.
/// Either it is seen here, or the sender sets the level above after it was cleared here.)
fn clear_word(head: &SharedMap, word: usize) {
    let above = head.u64_at(AT_MAIL);
    above.fetch_and(!(1 << word), Ordering::AcqRel);
    if bits(head, word).load(Ordering::Acquire) != 0 && !planted(Bug::EmptyWordNotChecked) {
        above.fetch_or(1 << word, Ordering::AcqRel);
    }
}

/// The first slot from `from` on, and all round, whose bit is set.
fn next_bit(head: &SharedMap, from: usize) -> Option<usize> {
    let above = head.u64_at(AT_MAIL).load(Ordering::Acquire);
    let from_on = !0u64 << (from % 64);
    // The word that `from` is in is looked at twice: its upper part first, its lower part last.
    for step in 0..=MAIL_WORDS {
        let word = (from / 64 + step) % MAIL_WORDS;
        if above & 1 << word == 0 {
            continue;
        }
        let part = match step {
            0 => from_on,
            MAIL_WORDS => !from_on,
            _ => !0,
        };
        match bits(head, word).load(Ordering::Acquire) {
            0 => clear_word(head, word),
            set if set & part != 0 => return Some(word * 64 + (set & part).trailing_zeros() as usize),
            _ => {}
        }
    }
    None
}

/// The words of a modelled mailbox's slots. Datagrams are one word.
#[cfg(all(test, loom))]
pub(super) fn places() -> Vec<crate::mem::Place> {
    let slots = (0..MAIL_SLOTS).map(|slot| AT_SLOTS + slot * SLOT_BYTES);
    slots.flat_map(|at| [0, SLOT_LEN, SLOT_DATA].map(|word| crate::mem::Place::Single(at + word))).collect()
}

/// Claims one of the near slots, as a sender does first.
#[cfg(all(test, loom))]
pub(super) fn claim_first(head: &SharedMap, me: u32) -> Option<usize> {
    claim(&Outbox::new(head).near, me)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{PeerSegment, Segment};
    use super::*;
    use crate::cpu::Barrier;
    use std::collections::BTreeMap;

    fn pair() -> (Segment, PeerSegment) {
        let segment = Segment::create(Barrier::Both).unwrap();
        let peer = PeerSegment::open(&segment.locator().unwrap(), Barrier::Both).unwrap();
        (segment, peer)
    }

    fn take(segment: &mut Segment) -> Option<Vec<u8>> {
        let mut to = [0; DATAGRAM_MAX];
        segment.take_datagram(&mut to).map(|len| to[..len].to_vec())
    }

    fn dead_process() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn state(segment: &Segment, slot: usize) -> &std::sync::atomic::AtomicU32 {
        segment.mailbox.slots.u32_at(slot * SLOT_BYTES)
    }

    #[test]
    fn datagrams_arrive_and_a_full_mailbox_drops_and_counts() {
        let (mut segment, peer) = pair();
        for i in 0..MAIL_SLOTS {
            assert!(peer.send_datagram(&[i as u8; 7]));
        }
        assert!(!peer.send_datagram(b"too many"));
        assert_eq!(segment.dropped(), 1);
        for _ in 0..MAIL_SLOTS {
            assert_eq!(take(&mut segment).map(|bytes| bytes.len()), Some(7));
        }
        assert_eq!(take(&mut segment), None);
        assert!(!segment.has_news());
        assert!(peer.send_datagram(&[9; DATAGRAM_MAX]));
        assert_eq!(take(&mut segment), Some(vec![9; DATAGRAM_MAX]));
    }

    #[test]
    fn an_unused_mailbox_touches_no_page_and_a_used_one_few() {
        let (mut segment, peer) = pair();
        let before = segment.touched_bytes();
        assert_eq!(take(&mut segment), None);
        segment.mailbox.repair(&segment.head, &segment.memory);
        assert_eq!(segment.touched_bytes(), before);
        for _ in 0..100 {
            assert!(peer.send_datagram(b"a"));
            assert!(take(&mut segment).is_some());
        }
        assert_eq!(segment.touched_bytes(), before + 4096);
    }

    #[test]
    fn slots_of_senders_that_died_are_repaired() {
        let (mut segment, peer) = pair();
        let dead = dead_process();
        let me = std::process::id();
        for slot in 0..MAIL_SLOTS {
            state(&segment, slot).store(dead, Ordering::Relaxed);
        }
        // One of them had filled its slot, one had set its bit as well but not the level above, one lives.
        fill(&segment.mailbox.slots, 77, dead, b"filled");
        fill(&segment.mailbox.slots, 1000, dead, b"bit set");
        bits(&segment.head, 1000 / 64).fetch_or(1 << (1000 % 64), Ordering::Relaxed);
        state(&segment, 5).store(me, Ordering::Relaxed);
        assert!(!peer.send_datagram(b"dropped"));
        assert_eq!(take(&mut segment), None);
        assert_eq!(segment.dropped(), 1);
        assert_eq!(take(&mut segment), Some(b"filled".to_vec()));
        assert_eq!(take(&mut segment), Some(b"bit set".to_vec()));
        assert_eq!(take(&mut segment), None);
        let taken = (0..MAIL_SLOTS).filter(|slot| state(&segment, *slot).load(Ordering::Relaxed) != 0);
        assert_eq!(taken.collect::<Vec<_>>(), [5]);
        assert!(peer.send_datagram(b"through"));
        assert_eq!(take(&mut segment), Some(b"through".to_vec()));
    }

    #[test]
    fn a_bit_that_comes_late_is_not_a_datagram() {
        let (mut segment, peer) = pair();
        let slot = (std::process::id() as usize + 1) % MAIL_SLOTS;
        fill(&segment.mailbox.slots, slot, 1, b"once");
        segment.mailbox.repair(&segment.head, &segment.memory);
        assert_eq!(take(&mut segment), Some(b"once".to_vec()));
        set_bit(&segment.head, slot); // the sender goes on at last
        assert!(peer.send_datagram(b"next"));
        assert_eq!(take(&mut segment), Some(b"next".to_vec()));
        set_bit(&segment.head, slot);
        assert_eq!(take(&mut segment), None);
        assert!(!segment.has_news());
    }

    #[test]
    fn no_slot_waits_behind_others_that_are_filled_again() {
        let (mut segment, _peer) = pair();
        let slots = [0, 63, 64, 200, 4095];
        let post = |segment: &Segment, slot: usize| {
            fill(&segment.mailbox.slots, slot, 1, &(slot as u32).to_le_bytes());
            set_bit(&segment.head, slot);
        };
        slots.iter().for_each(|slot| post(&segment, *slot));
        let mut seen = BTreeMap::new();
        for _ in 0..slots.len() * 10 {
            let taken = take(&mut segment).unwrap();
            let slot = u32::from_le_bytes(taken.try_into().unwrap()) as usize;
            *seen.entry(slot).or_insert(0) += 1;
            post(&segment, slot);
        }
        assert_eq!(seen, slots.into_iter().map(|slot| (slot, 10)).collect());
    }

    #[test]
    fn the_next_bit_is_found_all_round() {
        let (segment, _peer) = pair();
        for slot in [3, 70] {
            set_bit(&segment.head, slot);
        }
        for (from, expected) in [(0, 3), (3, 3), (4, 70), (70, 70), (71, 3), (4095, 3), (64, 70)] {
            assert_eq!(next_bit(&segment.head, from), Some(expected), "from {from}");
        }
        clear_bit(&segment.head, 70);
        assert_eq!(next_bit(&segment.head, 4), Some(3));
        clear_bit(&segment.head, 3);
        assert_eq!((next_bit(&segment.head, 4), segment.has_news()), (None, false));
    }

    #[test]
    fn many_threads_lose_nothing() {
        const THREADS: u32 = 4;
        const EACH: u32 = 2_000;
        let (mut segment, peer) = pair();
        let mut next = [0; THREADS as usize];
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let peer = &peer;
                s.spawn(move || {
                    for n in 0..EACH {
                        let bytes = [thread.to_le_bytes(), n.to_le_bytes()].concat();
                        while !peer.send_datagram(&bytes) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut seen = vec![false; (THREADS * EACH) as usize];
            let start = std::time::Instant::now();
            while next.iter().sum::<u32>() < THREADS * EACH {
                let Some(bytes) = take(&mut segment) else {
                    assert!(start.elapsed().as_secs() < 60, "{next:?} arrived");
                    std::thread::yield_now();
                    continue;
                };
                let word = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().unwrap());
                let (thread, n) = (word(0), word(4));
                assert!(!std::mem::replace(&mut seen[(thread * EACH + n) as usize], true), "twice");
                next[thread as usize] += 1;
            }
        });
        assert_eq!(take(&mut segment), None);
    }
}
