//! A shared receive queue: one set of slots in the receiver's segment, for messages of any number of senders.
//!
//! A sender claims the first free slot with its process id, fills it, and puts it in front of the list of those that are
//! done. The receiver takes the whole list at once and turns it round, so messages of one sender keep their order. Who puts
//! the first one on the list tells the receiver, who looks at the list after that; the others need not.
//!
//! Any sender may stop or die between any two steps. Nobody waits for it: its slot alone stays taken, and is given back
//! when somebody lacks one and its process is gone ([`PoolRx::repair`]). What the list holds is checked: a number that no
//! sender writes ends it.
use crate::mem::{SharedMap, UserBuf, UserBufMut};
use crate::sync::{self, AtomicU32};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Slots of a pool.
pub const POOL_SLOTS: usize = 128;
/// Bytes of a slot. A message touches the pages that it needs, and the first free slot is taken first, so memory follows use.
const SLOT_BYTES: usize = 8 << 10;
/// Bytes of a pool.
pub const POOL_BYTES: usize = AT_SLOTS + POOL_SLOTS * SLOT_BYTES;
/// The longest message.
pub const POOL_PAYLOAD_MAX: usize = SLOT_BYTES - SLOT_PAYLOAD;

// The head. Words that different sides write live in different lines.
/// The slot that was done last, counted from 1; 0: none.
const AT_DONE: usize = 0;
const AT_FRUGAL: usize = 64;
const AT_WAITING: usize = 128;
/// For each slot the process that has claimed it; 0: free.
const AT_CLAIMS: usize = 256;
const AT_SLOTS: usize = 4096;
const _: () = assert!(AT_CLAIMS + POOL_SLOTS * 4 <= AT_SLOTS);

// A slot.
/// The one that was done before it.
const SLOT_NEXT: usize = 0;
const SLOT_LEN: usize = 4;
const SLOT_TO: usize = 8;
const SLOT_HEADER: usize = 16;
const SLOT_PAYLOAD: usize = 32;

fn claim_of(map: &SharedMap, slot: usize) -> &AtomicU32 {
    map.u32_at(AT_CLAIMS + slot * 4)
}

fn slot_at(slot: usize) -> usize {
    AT_SLOTS + slot * SLOT_BYTES
}

/// No slot is free at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The receiver's end.
#[derive(Debug)]
pub struct PoolRx {
    map: SharedMap,
    /// Slots with messages, the oldest first.
    pending: VecDeque<u32>,
    /// The one whose message was lent.
    lent: Option<u32>,
}

/// A received message in place. Its slot is free when the next one is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PoolView<'a> {
    map: &'a SharedMap,
    slot: usize,
    len: usize,
}

impl PoolRx {
    /// In zeroed memory of [`POOL_BYTES`].
    pub fn new(map: SharedMap) -> Self {
        assert_eq!(map.bytes(), POOL_BYTES);
        PoolRx { map, pending: VecDeque::new(), lent: None }
    }

    /// Takes what is done behind what was taken before. Is there something?
    pub fn look(&mut self) -> bool {
        let done = self.map.u32_at(AT_DONE);
        if done.load(Ordering::Relaxed) != 0 {
            let mut next = done.swap(0, Ordering::AcqRel);
            let from = self.pending.len();
            while let Some(slot) = next.checked_sub(1).filter(|slot| (*slot as usize) < POOL_SLOTS) {
                if self.pending.len() >= POOL_SLOTS {
                    break;
                }
                self.pending.push_back(slot);
                next = self.map.u32_at(slot_at(slot as usize) + SLOT_NEXT).load(Ordering::Relaxed);
            }
            self.pending.make_contiguous()[from..].reverse();
        }
        !self.pending.is_empty()
    }

    /// Is there something that was not taken yet?
    #[inline]
    pub fn has_news(&self) -> bool {
        self.map.u32_at(AT_DONE).load(Ordering::Relaxed) != 0
    }

    /// Is there one among those that were taken whose receiver is wanted?
    pub fn has(&self, mut wanted: impl FnMut(u64) -> bool) -> bool {
        self.pending.iter().any(|slot| wanted(self.to(*slot)))
    }

    fn to(&self, slot: u32) -> u64 {
        self.map.u64_at(slot_at(slot as usize) + SLOT_TO).load(Ordering::Relaxed)
    }

    /// Lends the first of those that were taken whose receiver is wanted: for whom it is, as its sender was told to say it.
    /// The one that was lent before is given back.
    pub fn pick(&mut self, mut wanted: impl FnMut(u64) -> bool) -> Option<u64> {
        self.give_back();
        let place = self.pending.iter().position(|slot| wanted(self.to(*slot)))?;
        self.lent = self.pending.remove(place);
        self.lent.map(|slot| self.to(slot))
    }

    /// The message that is lent.
    pub fn view(&self) -> Option<PoolView<'_>> {
        let slot = self.lent? as usize;
        let len = self.map.u32_at(slot_at(slot) + SLOT_LEN).load(Ordering::Relaxed) as usize;
        Some(PoolView { map: &self.map, slot, len: len.min(POOL_PAYLOAD_MAX) })
    }

    /// Is a message lent?
    #[inline]
    pub fn lends(&self) -> bool {
        self.lent.is_some()
    }

    /// The message that was lent last is not needed any more.
    pub fn give_back(&mut self) {
        if let Some(slot) = self.lent.take() {
            // A full barrier: behind it stands the look whether a sender waits.
            claim_of(&self.map, slot as usize).swap(0, Ordering::SeqCst);
        }
    }

    /// Does a sender wait for a slot? It is forgotten then: all are to be told.
    #[inline]
    pub fn take_waiting(&self) -> bool {
        let waiting = self.map.u32_at(AT_WAITING);
        waiting.load(Ordering::SeqCst) != 0 && waiting.swap(0, Ordering::SeqCst) != 0
    }

    /// Asks for rendezvous instead of eager messages, or takes that back.
    pub fn set_frugal(&self, frugal: bool) {
        self.map.u32_at(AT_FRUGAL).store(u32::from(frugal), Ordering::Relaxed);
    }

    /// Frees the slots that dead senders claimed and never put on the list. How many.
    pub fn repair(&mut self) -> usize {
        let dead = |slot: &usize| {
            let claim = claim_of(&self.map, *slot).load(Ordering::Acquire);
            claim != 0 && !sync::process_exists(claim)
        };
        let dead: Vec<usize> = (0..POOL_SLOTS).filter(dead).collect();
        // What they put there before they died is on the list now.
        self.look();
        let kept = |slot: usize| self.lent == Some(slot as u32) || self.pending.contains(&(slot as u32));
        let lost: Vec<usize> = dead.into_iter().filter(|slot| !kept(*slot)).collect();
        lost.iter().for_each(|slot| claim_of(&self.map, *slot).store(0, Ordering::Release));
        lost.len()
    }
}

impl PoolView<'_> {
    /// The sender's header.
    pub fn header(&self) -> [u64; 2] {
        let word = |at| self.map.u64_at(slot_at(self.slot) + SLOT_HEADER + at).load(Ordering::Relaxed);
        [word(0), word(8)]
    }

    /// Bytes of the payload.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is the payload empty?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the payload from `offset` on, as much as `to` takes; returns the bytes copied.
    pub fn copy_to(&self, offset: usize, to: UserBufMut) -> usize {
        let bytes = to.len().min(self.len.saturating_sub(offset));
        if bytes > 0 {
            self.map.copy_out(slot_at(self.slot) + SLOT_PAYLOAD + offset, to.part(0, bytes));
        }
        bytes
    }

    /// The payload, copied out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: the vector is exclusively ours and as long as the view.
        self.copy_to(0, unsafe { UserBufMut::new(bytes.as_mut_ptr(), bytes.len()) });
        bytes
    }

    /// The first bytes of the payload, zero-filled if it is shorter.
    pub fn start<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: the array is exclusively ours.
        self.copy_to(0, unsafe { UserBufMut::new(bytes.as_mut_ptr(), N) });
        bytes
    }
}

/// A sender's end.
#[derive(Debug)]
pub struct PoolTx {
    map: SharedMap,
    me: u32,
}

impl PoolTx {
    /// `me` is the sender's process.
    pub fn new(map: SharedMap, me: u32) -> Self {
        assert_eq!(map.bytes(), POOL_BYTES);
        PoolTx { map, me }
    }

    /// Sends a message of at most [`POOL_PAYLOAD_MAX`] bytes. Is it the first on the list, so that the receiver has to be told?
    pub fn send(&self, to: u64, header: [u64; 2], payload: UserBuf) -> Result<bool, Full> {
        assert!(payload.len() <= POOL_PAYLOAD_MAX);
        let slot = self.claim().ok_or(Full)?;
        let at = slot_at(slot);
        self.map.u32_at(at + SLOT_LEN).store(payload.len() as u32, Ordering::Relaxed);
        self.map.u64_at(at + SLOT_TO).store(to, Ordering::Relaxed);
        self.map.u64_at(at + SLOT_HEADER).store(header[0], Ordering::Relaxed);
        self.map.u64_at(at + SLOT_HEADER + 8).store(header[1], Ordering::Relaxed);
        if !payload.is_empty() {
            self.map.copy_in(at + SLOT_PAYLOAD, payload);
        }
        Ok(self.put(slot))
    }

    /// The same with bytes of this process's own.
    pub fn send_bytes(&self, to: u64, header: [u64; 2], payload: &[u8]) -> Result<bool, Full> {
        // SAFETY: the slice is readable for the whole call.
        self.send(to, header, unsafe { UserBuf::new(payload.as_ptr(), payload.len()) })
    }

    fn claim(&self) -> Option<usize> {
        (0..POOL_SLOTS).find(|slot| {
            let claim = claim_of(&self.map, *slot);
            claim.load(Ordering::Relaxed) == 0
                && claim.compare_exchange(0, self.me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// In front of the list. Was it empty?
    fn put(&self, slot: usize) -> bool {
        let done = self.map.u32_at(AT_DONE);
        let mut first = done.load(Ordering::Relaxed);
        loop {
            self.map.u32_at(slot_at(slot) + SLOT_NEXT).store(first, Ordering::Relaxed);
            match done.compare_exchange_weak(first, slot as u32 + 1, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(before) => return before == 0,
                Err(now) => first = now,
            }
        }
    }

    /// Is a slot free?
    pub fn has_room(&self) -> bool {
        (0..POOL_SLOTS).any(|slot| claim_of(&self.map, slot).load(Ordering::SeqCst) == 0)
    }

    /// This process will sleep until a slot is free. Had somebody said that already? (Nobody takes it back: the receiver
    /// tells all, who look again.)
    pub fn set_waiting(&self) -> bool {
        self.map.u32_at(AT_WAITING).swap(1, Ordering::SeqCst) != 0
    }

    /// Does the receiver ask for rendezvous instead of eager messages?
    pub fn is_frugal(&self) -> bool {
        self.map.u32_at(AT_FRUGAL).load(Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::SharedMemory;

    fn pool() -> (SharedMemory, PoolRx) {
        let memory = SharedMemory::create("test", POOL_BYTES as u64).unwrap();
        let rx = PoolRx::new(memory.map(0, POOL_BYTES).unwrap());
        (memory, rx)
    }

    fn sender(memory: &SharedMemory, me: u32) -> PoolTx {
        PoolTx::new(memory.map(0, POOL_BYTES).unwrap(), me)
    }

    fn take(rx: &mut PoolRx) -> Option<PoolView<'_>> {
        rx.pick(|_| true)?;
        rx.view()
    }

    fn dead_process() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn messages_come_in_the_order_of_their_sending_and_the_first_is_to_be_told() {
        let (memory, mut rx) = pool();
        let me = std::process::id();
        let (a, b) = (sender(&memory, me), sender(&memory, me));
        assert!(!rx.has_news() && !rx.look() && take(&mut rx).is_none());
        assert_eq!(a.send_bytes(7, [1, 2], b"first"), Ok(true));
        assert_eq!(b.send_bytes(8, [3, 4], b""), Ok(false));
        assert_eq!(a.send_bytes(7, [5, 6], &[9; POOL_PAYLOAD_MAX]), Ok(false));
        assert!(rx.has_news() && rx.look() && !rx.has_news());
        assert!(rx.has(|to| to == 8) && !rx.has(|to| to == 9));
        assert_eq!(b.send_bytes(8, [0, 0], b"behind"), Ok(true));
        assert!(rx.look());
        let mut seen = Vec::new();
        while let Some(to) = rx.pick(|_| true) {
            let view = rx.view().unwrap();
            seen.push((to, view.header(), view.to_vec().len(), view.start::<2>()));
        }
        assert_eq!(
            seen,
            [
                (7, [1, 2], 5, *b"fi"),
                (8, [3, 4], 0, [0, 0]),
                (7, [5, 6], POOL_PAYLOAD_MAX, [9, 9]),
                (8, [0, 0], 6, *b"be"),
            ]
        );
        rx.give_back();
        assert!((0..POOL_SLOTS).all(|slot| claim_of(&rx.map, slot).load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn one_may_be_asked_for_before_the_others() {
        let (memory, mut rx) = pool();
        let tx = sender(&memory, std::process::id());
        for (to, word) in [(1, 10), (2, 20), (1, 11), (2, 21)] {
            tx.send_bytes(to, [word, 0], b"").unwrap();
        }
        rx.look();
        assert_eq!((rx.pick(|to| to == 2), rx.view().unwrap().header()[0]), (Some(2), 20));
        assert_eq!((rx.pick(|to| to == 2), rx.view().unwrap().header()[0]), (Some(2), 21));
        assert!(rx.pick(|to| to == 2).is_none() && rx.view().is_none());
        assert_eq!(take(&mut rx).unwrap().header()[0], 10);
    }

    #[test]
    fn a_full_pool_refuses_and_who_waits_is_told() {
        let (memory, mut rx) = pool();
        let tx = sender(&memory, std::process::id());
        for _ in 0..POOL_SLOTS {
            tx.send_bytes(0, [0, 0], b"x").unwrap();
        }
        assert_eq!(tx.send_bytes(0, [0, 0], b"x"), Err(Full));
        assert!(!tx.has_room() && !tx.set_waiting() && tx.set_waiting());
        rx.look();
        take(&mut rx).unwrap();
        assert!(!tx.has_room());
        rx.give_back();
        assert!(rx.take_waiting() && !rx.take_waiting() && tx.has_room());
    }

    #[test]
    fn what_a_dead_sender_claimed_comes_back_and_what_it_sent_stays() {
        let (memory, mut rx) = pool();
        let dead = sender(&memory, dead_process());
        let live = sender(&memory, std::process::id());
        dead.send_bytes(1, [5, 0], b"sent").unwrap();
        dead.claim().unwrap();
        live.claim().unwrap();
        assert_eq!((rx.repair(), rx.repair()), (1, 0));
        assert_eq!(take(&mut rx).unwrap().to_vec(), b"sent");
    }

    #[test]
    fn nonsense_on_the_list_ends_it() {
        let (memory, mut rx) = pool();
        let tx = sender(&memory, std::process::id());
        tx.send_bytes(1, [5, 0], b"sent").unwrap();
        // The list goes round in a circle, and then to where there is nothing.
        rx.map.u32_at(slot_at(0) + SLOT_NEXT).store(1, Ordering::Relaxed);
        rx.map.u32_at(slot_at(0) + SLOT_LEN).store(u32::MAX, Ordering::Relaxed);
        assert!(rx.look());
        assert_eq!(rx.pending.len(), POOL_SLOTS);
        assert_eq!(take(&mut rx).unwrap().len(), POOL_PAYLOAD_MAX);
        rx.pending.clear();
        rx.map.u32_at(AT_DONE).store(u32::MAX, Ordering::Relaxed);
        assert!(!rx.look() && take(&mut rx).is_none());
    }

    #[test]
    fn many_send_at_once_and_nothing_is_lost_or_overtaken() {
        const EACH: u64 = 20_000;
        let (memory, mut rx) = pool();
        std::thread::scope(|threads| {
            for who in 0..4u64 {
                let tx = sender(&memory, std::process::id());
                threads.spawn(move || {
                    for count in 0..EACH {
                        while tx.send_bytes(who, [who, count], &count.to_le_bytes()).is_err() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0; 4];
            while next.iter().any(|count| *count < EACH) {
                if !rx.look() {
                    std::thread::yield_now();
                }
                while let Some(view) = take(&mut rx) {
                    let [who, count] = view.header();
                    assert_eq!(count, next[who as usize]);
                    assert_eq!(u64::from_le_bytes(view.start()), count);
                    next[who as usize] += 1;
                }
            }
        });
    }
}
