//! Memory of connections: how large their rings are, and when that changes.
//!
//! A ring starts small, packed beside others. It grows when its writer finds it full, or nearly so, again and again and
//! it carries a fair part of what comes in, or when a message needs it; it becomes small again when it is idle, or carries next to
//! nothing. The reader owns the memory and decides. What large rings take in all has a limit.
//!
//! Rings of early messages are in their writer's memory. They are used for a moment each, so a few are kept for the
//! next connections.
use super::Soft;
use super::qp::{Early, Home, Inbound, QpEntry};
use std::io;
use std::rc::Rc;
use sys::SharedMap;
use sys::ring::{RING_BYTES_MIN, RingRx, RingTx, payload_max};
use sys::segment::PeerSegment;

/// Sizes a ring may have: it starts with the first and grows with use.
pub(super) const RING_SIZES: [usize; 4] = [RING_BYTES_MIN, 32 << 10, RING_BYTES_NEEDED_MAX, 1 << 20];
/// The largest that a message may need. A larger one only makes streams faster, and is only made within a limit.
pub(super) const RING_BYTES_NEEDED_MAX: usize = 128 << 10;
/// Sizes of a ring of early messages: the first where memory is short. Pages are touched by messages only.
pub(super) const EARLY_SIZES: [usize; 2] = [8 << 10, 256 << 10];
/// Rings of early messages that are kept while others are still read, and when none is; and what of them may have been
/// used.
const EARLY_KEPT_MAX: usize = 64;
const EARLY_KEPT_QUIET: usize = 8;
const EARLY_KEPT_BYTES: usize = 8 << 10;

/// Where nobody set a limit, rings that are merely full grow within this.
const LARGE_BYTES_DEFAULT: u64 = 4 << 20;
/// The widest rings, which only make streams faster, take at most so much, beside the others; or that part of a limit that
/// was set.
const WIDE_BYTES_MAX: u64 = 4 << 20;
const WIDE_PART: u64 = 4;
/// A ring that is full grows if it brings at least this part of all messages.
const WORTH_PART: u64 = 64;
/// A large one that brings less than this part becomes small again.
const IDLE_PART: u64 = 256;
/// Messages after which the large ones are looked through.
const SWEEP_EVENTS: u32 = 4096;
/// They are looked through that often when nothing comes.
const SWEEP_NS: u64 = 1_000_000_000;

/// What the memory of connections is, and may be.
#[derive(Debug)]
pub(super) struct RingMemory {
    ring_bytes_max: usize,
    /// Most bytes of large rings.
    limit: Option<u64>,
    /// Bytes of large rings, of those on offer, and of large rings of early messages.
    large_bytes: u64,
    /// Those of them that are of the widest.
    wide_bytes: u64,
    large: Vec<Large>,
    /// Messages found when the large rings were looked through last.
    swept_events: u32,
    due_ns: u64,
    /// Rings of early messages that their readers may not have read to the end.
    retired: Vec<Early>,
    /// Those that were, cleared.
    kept: Vec<(u64, SharedMap)>,
}

/// A queue pair that reads a large ring.
#[derive(Debug)]
struct Large {
    index: u32,
    /// Messages that had come when it was looked at last.
    messages: u64,
    /// Its writer was asked to leave it, and has not been heard of since.
    asked: bool,
}

impl RingMemory {
    pub(super) fn new(ring_bytes_max: usize, limit: Option<u64>) -> Self {
        RingMemory {
            ring_bytes_max,
            limit,
            large_bytes: 0,
            wide_bytes: 0,
            large: Vec::new(),
            swept_events: 0,
            due_ns: 0,
            retired: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Sizes that rings may have here.
    fn sizes(&self) -> &'static [usize] {
        let most = self.limit.unwrap_or(u64::MAX).min(self.ring_bytes_max as u64);
        let count = RING_SIZES.iter().filter(|size| **size as u64 <= most).count();
        &RING_SIZES[..count.max(1)]
    }

    /// The longest message that every connection takes, at least after a while.
    pub(super) fn message_max(&self) -> usize {
        // With a limit others may have all of it.
        let size =
            if self.limit.is_some() { RING_SIZES[0] } else { *self.sizes().last().expect("not empty") };
        payload_max(size.min(RING_BYTES_NEEDED_MAX))
    }

    /// The size of the next ring for a writer that asked for messages of `payload` bytes.
    fn grown(&self, from: usize, payload: usize) -> Option<usize> {
        let needed = payload > payload_max(from);
        let others = LARGE_BYTES_DEFAULT + self.wide_bytes;
        let limit = self.limit.unwrap_or(if needed { u64::MAX } else { others });
        let left = limit.saturating_sub(self.large_bytes);
        let wide_max = self.limit.map_or(WIDE_BYTES_MAX, |limit| limit / WIDE_PART);
        let left_wide = left.min(wide_max.saturating_sub(self.wide_bytes));
        let may_have = |size: u64| size <= if is_wide(size as usize) { left_wide } else { left };
        let larger = || self.sizes().iter().copied().filter(|size| *size > from && may_have(*size as u64));
        // A stream of messages profits from the largest there is.
        larger().find(|size| payload_max(*size) >= payload).or_else(|| larger().next_back())
    }

    fn early_size(&self) -> usize {
        let large = EARLY_SIZES[1] as u64;
        let fits = self.limit.is_none_or(|limit| self.large_bytes + large <= limit);
        EARLY_SIZES[usize::from(fits)]
    }
}

/// Is a ring of these many bytes one that the limit is for?
fn is_large(bytes: usize) -> bool {
    bytes > RING_SIZES[0]
}

/// Is it one that no message needs?
fn is_wide(bytes: usize) -> bool {
    bytes > RING_BYTES_NEEDED_MAX
}

impl Soft {
    /// Memory for a receive ring.
    pub(super) fn carve_ring(&mut self, bytes: usize) -> io::Result<(u64, SharedMap)> {
        if is_large(bytes) {
            let carved = self.segment.carve(bytes)?;
            self.memory.large_bytes += bytes as u64;
            self.memory.wide_bytes += if is_wide(bytes) { bytes as u64 } else { 0 };
            Ok(carved)
        } else {
            self.segment.carve_packed(bytes)
        }
    }

    /// The memory of a receive ring that nobody writes to any more.
    pub(super) fn release_ring(&mut self, offset: u64, bytes: usize) {
        if is_large(bytes) {
            self.memory.large_bytes -= bytes as u64;
            self.memory.wide_bytes -= if is_wide(bytes) { bytes as u64 } else { 0 };
            self.segment.give_back(offset, bytes);
        } else {
            self.segment.give_back_packed(offset, bytes);
        }
    }

    /// The memory of a queue pair that receives no more.
    pub(super) fn release_inbound(&mut self, index: u32, inbound: Inbound) {
        self.memory.large.retain(|large| large.index != index);
        if let Some((next, offset)) = inbound.next {
            let bytes = next.bytes();
            drop(next);
            self.release_ring(offset, bytes);
        }
        let bytes = inbound.ring.bytes();
        drop(inbound.ring);
        if let Home::Own(offset) = inbound.home {
            self.release_ring(offset, bytes);
        }
    }

    /// A ring for messages to a peer that has not answered yet. Without memory they wait for the answer, as elsewhere.
    pub(super) fn make_early(&mut self, peer: Rc<PeerSegment>) -> Option<Early> {
        self.reclaim();
        let bytes = self.memory.early_size();
        let kept = self.memory.kept.iter().rposition(|(_, map)| map.bytes() == bytes);
        let (offset, map) = match kept {
            Some(place) => self.memory.kept.swap_remove(place),
            None => self.segment.carve(bytes).ok()?,
        };
        self.count_early(bytes, i64::try_from(bytes).ok()?);
        Some(Early { ring: RingTx::new(map), offset, peer })
    }

    /// A ring of early messages into which nothing more is written.
    pub(super) fn retire(&mut self, early: Early) {
        self.memory.retired.push(early);
    }

    /// Takes the rings of early messages back that have been read to the end.
    pub(super) fn reclaim(&mut self) {
        let mut at = 0;
        while at < self.memory.retired.len() {
            if self.memory.retired[at].ring.is_read_to_its_end() {
                let early = self.memory.retired.swap_remove(at);
                self.keep_early(early);
            } else {
                at += 1;
            }
        }
        if self.memory.retired.is_empty() && self.memory.kept.len() > EARLY_KEPT_QUIET {
            for (offset, map) in self.memory.kept.split_off(EARLY_KEPT_QUIET) {
                let bytes = map.bytes();
                drop(map);
                self.segment.give_back(offset, bytes);
            }
        }
    }

    fn keep_early(&mut self, early: Early) {
        let bytes = early.ring.bytes();
        self.count_early(bytes, -(bytes as i64));
        let room = self.memory.kept.len() < EARLY_KEPT_MAX;
        match room.then(|| early.ring.into_cleared(EARLY_KEPT_BYTES)).flatten() {
            Some(map) => self.memory.kept.push((early.offset, map)),
            None => self.segment.give_back(early.offset, bytes),
        }
    }

    fn count_early(&mut self, bytes: usize, change: i64) {
        if bytes == EARLY_SIZES[1] && self.memory.limit.is_some() {
            self.memory.large_bytes = self.memory.large_bytes.saturating_add_signed(change);
        }
    }

    /// A writer asks for a ring that takes `payload` bytes.
    #[cold]
    pub(super) fn grow(&mut self, index: u32, payload: usize) {
        let events = self.events();
        let Some(entry) = self.qps[index as usize].entry.as_mut() else { return };
        let Some(inbound) = entry.inbound.as_mut().filter(|inbound| inbound.next.is_none()) else { return };
        let needed = payload > inbound.ring.payload_max();
        let share = entry.judged.share(inbound.ring.messages(), events);
        if !needed && share < 1.0 / WORTH_PART as f64 {
            return; // it asks again
        }
        let bytes = self.memory.grown(inbound.ring.bytes(), payload);
        let carved = bytes.map(|bytes| self.carve_ring(bytes));
        match carved {
            Some(Ok((offset, map))) => {
                self.offer(index, offset, map);
                // Who does not need it, and is never quite out of room, would not look.
                let entry = self.qps[index as usize].entry.as_mut().filter(|_| !needed);
                entry.into_iter().for_each(|entry| _ = entry.ask_move());
            }
            // The writer goes on in the small one, and is told so.
            _ if needed => self.inbound(index).into_iter().for_each(|inbound| inbound.ring.refuse()),
            _ => {}
        }
    }

    /// Offers a ring to the writer of the one that is read now.
    fn offer(&mut self, index: u32, offset: u64, map: SharedMap) {
        let frugal = self.frugal;
        let Some(entry) = self.qps[index as usize].entry.as_mut() else { return };
        let hot = entry.hot;
        let Some(inbound) = entry.inbound.as_mut() else { return };
        let mut ring = RingRx::new(map);
        ring.set_barrier(inbound.ring.barrier());
        ring.set_polled(hot);
        ring.set_frugal(frugal);
        inbound.ring.offer(offset, ring.bytes());
        inbound.next = Some((ring, offset));
    }

    /// The ring that is read has been replaced by another.
    pub(super) fn replaced(&mut self, index: u32, bytes: usize) {
        self.memory.large.retain(|large| large.index != index);
        if is_large(bytes) {
            if self.memory.large.is_empty() {
                self.memory.due_ns = 0;
                self.memory.swept_events = self.events();
            }
            self.memory.large.push(Large { index, messages: 0, asked: false });
        }
    }

    /// Is it time to look through the large rings, by what has come?
    #[inline]
    pub(super) fn is_sweep_due(&self) -> bool {
        !self.memory.large.is_empty() && self.events().wrapping_sub(self.memory.swept_events) >= SWEEP_EVENTS
    }

    /// Has large rings that bring little become small again.
    #[cold]
    pub(super) fn sweep(&mut self) {
        let events = self.events().wrapping_sub(self.memory.swept_events);
        self.memory.swept_events = self.events();
        self.shrink_where(u64::from(events) / IDLE_PART);
    }

    /// When [`Soft::tick`] has something to do.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        (!self.memory.large.is_empty()).then_some(self.memory.due_ns)
    }

    /// Looks after large rings on which nothing comes.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if self.memory.large.is_empty() || now_ns < self.memory.due_ns {
            return;
        }
        // The first time only sets the marks.
        let first = std::mem::replace(&mut self.memory.due_ns, now_ns + SWEEP_NS) == 0;
        if !first {
            self.memory.swept_events = self.events();
            self.shrink_where(0);
        }
    }

    /// Shrinks the rings on which at most `most` messages have come since the last look.
    fn shrink_where(&mut self, most: u64) {
        for place in 0..self.memory.large.len() {
            let index = self.memory.large[place].index;
            let Some(messages) = self.inbound(index).map(|inbound| inbound.ring.messages()) else { continue };
            let large = &mut self.memory.large[place];
            let before = std::mem::replace(&mut large.messages, messages);
            large.asked &= messages == before;
            if messages - before <= most && !large.asked {
                self.memory.large[place].asked = self.shrink(index);
            }
        }
    }

    /// Asks the writer of a large ring to go on in a small one, for which it may take its time. Could it be asked?
    fn shrink(&mut self, index: u32) -> bool {
        let offered = self.inbound(index).is_none_or(|inbound| inbound.next.is_some());
        if !offered {
            match self.carve_ring(RING_SIZES[0]) {
                Ok((offset, map)) => self.offer(index, offset, map),
                Err(_) => return false,
            }
        }
        self.qps[index as usize].entry.as_mut().is_some_and(QpEntry::ask_move)
    }

    fn inbound(&mut self, index: u32) -> Option<&mut Inbound> {
        self.qps[index as usize].entry.as_mut()?.inbound.as_mut()
    }
}

/// Messages of a queue pair, and of all, when its ring was judged last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judged {
    messages: u64,
    events: u32,
}

impl Judged {
    pub(super) fn new(events: u32) -> Self {
        Judged { messages: 0, events }
    }

    /// The part of all messages since the last time that came on the ring.
    fn share(&mut self, messages: u64, events: u32) -> f64 {
        // One less: it may have been the first of many to have its turn.
        let own = messages.saturating_sub(self.messages).saturating_sub(1);
        let all = u64::from(events.wrapping_sub(self.events)).max(1);
        *self = Judged { messages, events };
        own as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rings_are_for_streams_within_a_limit() {
        let [small, _, needed, wide] = RING_SIZES;
        let mut memory = RingMemory::new(wide, None);
        let asked = payload_max(wide);
        assert_eq!(memory.message_max(), payload_max(needed), "nobody may count on more");
        assert_eq!(memory.grown(small, asked), Some(wide));
        (memory.wide_bytes, memory.large_bytes) = (WIDE_BYTES_MAX, WIDE_BYTES_MAX);
        assert_eq!((memory.grown(small, asked), memory.grown(needed, asked)), (Some(needed), None));
        // They are no reason for others to stay small.
        assert_eq!(memory.grown(small, 100), Some(RING_SIZES[1]));
        memory.large_bytes += LARGE_BYTES_DEFAULT;
        assert_eq!(memory.grown(small, 100), None);
        // What a message needs has no limit, unless one was set.
        memory.large_bytes = u64::MAX / 2;
        assert_eq!(memory.grown(small, payload_max(needed)), Some(needed));
        memory.limit = Some(1 << 20);
        assert_eq!(memory.grown(small, asked), None);
        (memory.wide_bytes, memory.large_bytes) = (0, 0);
        assert_eq!(memory.grown(small, asked), Some(needed));
        memory.limit = Some(4 << 20);
        assert_eq!(memory.grown(small, asked), Some(wide));
    }
}
