//! What comes in: slots that all connections share, and who gets them back.
use super::slots::{At, Slots};
use super::*;
use crate::event::{Event, SlotView, View};
use verbs::{Arena, Srq};

/// Receives that a device may have at a time.
const RECEIVES_MAX: usize = 4096;
/// Those for each connection beside the peer's window: for words about windows.
const RECEIVES_EACH: usize = 2;
/// Those for all of them: a peer may say more than that while this process computes.
const RECEIVES_SPARE: usize = 16;
/// Datagrams that may wait at a time, and bytes of one: as every provider has them, with a tag and what the device puts before.
const LETTERS: usize = 256;
const LETTER_BYTES: usize = 512;
/// What the device puts before a datagram.
const ROUTE_BYTES: usize = 40;

/// Numbers of receives: this, whether it is a datagram's or one of those that nodes share, arena and slot.
pub(super) const RECEIVE: u64 = 1 << 63;
const LETTER: u64 = 1 << 62;
const SHARED: u64 = 1 << 61;

/// Which receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Of connections with a queue pair of their own.
    Own,
    /// Of those that a node shares.
    Shared,
}

/// What goes before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// A message, or only a word about windows?
    pub message: bool,
    /// Is the sender short of memory?
    pub frugal: bool,
    /// Is the sender's window used up with this one?
    pub last: bool,
    /// Messages that were taken.
    pub taken: u16,
    /// Counts those that the sender has sent on this connection: the device is to bring each once, and in order.
    pub number: u16,
    pub header: [u64; 2],
}

impl Head {
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let word = (u64::from(self.message) + 1)
            | u64::from(self.frugal) << 8
            | u64::from(self.taken) << 16
            | u64::from(self.last) << 32
            | u64::from(self.number) << 48;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.header[0].to_le_bytes());
        bytes[16..].copy_from_slice(&self.header[1].to_le_bytes());
        bytes
    }

    /// `None`: no peer sends this.
    #[inline]
    pub(super) fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let message = match bytes[0] {
            1 => false,
            2 => true,
            _ => return None,
        };
        Some(Head {
            message,
            frugal: bytes[1] != 0,
            last: bytes[4] != 0,
            taken: u16::from_le_bytes([bytes[2], bytes[3]]),
            number: u16::from_le_bytes([bytes[6], bytes[7]]),
            header: [word(8), word(16)],
        })
    }
}

/// Where messages and datagrams come in.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Receives of messages, and of datagrams.
    own: Queue,
    shared: Option<Queue>,
    pub letters: Rc<Srq>,
    letter_slots: Rc<Arena>,
    slots: Slots,
    most: usize,
    /// What the last event has lent: the number of the receive, and the connection.
    lent: Option<(u64, Option<u32>)>,
    /// The last datagram.
    letter: Vec<u8>,
}

/// Receives that connections share.
#[derive(Debug)]
struct Queue {
    srq: Rc<Srq>,
    /// What goes into the numbers of its receives.
    mark: u64,
    posted: usize,
    wanted: usize,
    links: usize,
    /// The windows of all peers.
    granted: usize,
}

impl Queue {
    fn new(srq: Rc<Srq>, mark: u64) -> Self {
        Queue { srq, mark, posted: 0, wanted: 0, links: 0, granted: 0 }
    }
}

impl Inbox {
    /// Messages and datagrams take no more than half of the completions.
    pub(super) fn new(pd: &Rc<Pd>, completions: usize) -> Result<Inbox, VerbsError> {
        let (most, letter_count) = (RECEIVES_MAX.min(completions * 3 / 8), LETTERS.min(completions / 8));
        let (own, letters) = (Srq::new(pd, most as u32)?, Srq::new(pd, letter_count as u32)?);
        let letter_slots = Arena::new(pd, letter_count, LETTER_BYTES)?;
        for slot in 0..letter_count {
            letters.post(RECEIVE | LETTER | slot as u64, &letter_slots, slot)?;
        }
        Ok(Inbox {
            own: Queue::new(own, RECEIVE),
            shared: None,
            letters,
            letter_slots,
            slots: Slots::default(),
            most,
            lent: None,
            letter: Vec::new(),
        })
    }

    /// Bytes of registered memory.
    pub(super) fn bytes(&self) -> usize {
        self.letter_slots.bytes() + self.slots.bytes()
    }

    /// Has the memory for the first connections.
    pub(super) fn reserve(&mut self, pd: &Rc<Pd>) -> Result<(), VerbsError> {
        self.slots.reserve(pd)
    }

    /// Is there no memory for messages at all?
    pub(super) fn is_empty(&self) -> bool {
        self.slots.bytes() == 0
    }

    /// The receives of connections with a queue pair of their own.
    pub(super) fn srq(&self) -> &Rc<Srq> {
        &self.own.srq
    }

    /// Those that a queue may have.
    pub(super) fn receives_max(&self) -> u32 {
        self.most as u32
    }

    /// Connections may be shared: their messages come here.
    pub(super) fn share(&mut self, srq: &Rc<Srq>) {
        self.shared = Some(Queue::new(srq.clone(), RECEIVE | SHARED));
    }

    #[inline]
    fn queue(&mut self, which: Which) -> &mut Queue {
        match (which, &mut self.shared) {
            (Which::Shared, Some(shared)) => shared,
            _ => &mut self.own,
        }
    }

    /// One more connection.
    pub(super) fn join(&mut self, which: Which) {
        let queue = self.queue(which);
        queue.links += 1;
        queue.granted += WINDOW_FIRST as usize;
    }

    /// One less, whose peer had this window.
    pub(super) fn leave(&mut self, which: Which, granted: u32) {
        let queue = self.queue(which);
        queue.links -= 1;
        queue.granted -= granted as usize;
        self.count(which);
    }

    /// Receives for all connections.
    pub(super) fn make_room(&mut self, pd: &Rc<Pd>, which: Which) -> Result<(), VerbsError> {
        self.count(which);
        while self.queue(which).posted < self.queue(which).wanted {
            let Some(at) = self.slots.take(pd, usize::MAX)? else { break };
            self.post(which, at)?;
        }
        Ok(())
    }

    /// How many are wanted now: what is too much is not posted again. Both kinds together have no more than the completion
    /// queue has room for.
    fn count(&mut self, which: Which) {
        let all = self.own.wanted + self.shared.as_ref().map_or(0, |shared| shared.wanted);
        let most = self.most;
        let queue = self.queue(which);
        let spare = if queue.links == 0 { 0 } else { RECEIVES_SPARE };
        let left = most.saturating_sub(all - queue.wanted);
        queue.wanted = (spare + queue.links * RECEIVES_EACH + queue.granted).min(left);
    }

    /// A peer's window becomes larger by so much, if there is room for all that it may send then.
    fn widen(&mut self, pd: &Rc<Pd>, which: Which, more: usize) -> bool {
        let all = self.own.wanted + self.shared.as_ref().map_or(0, |shared| shared.wanted);
        if all + more > self.most {
            return false;
        }
        self.queue(which).granted += more;
        if self.make_room(pd, which).is_ok() {
            return true;
        }
        self.queue(which).granted -= more;
        self.count(which);
        false
    }

    fn post(&mut self, which: Which, at: At) -> Result<(), VerbsError> {
        let (slots, queue) = match (which, &mut self.shared) {
            (Which::Shared, Some(shared)) => (&self.slots, shared),
            _ => (&self.slots, &mut self.own),
        };
        let id = queue.mark | (at.0 as u64) << 32 | at.1 as u64;
        match queue.srq.post(id, slots.arena(at), at.1) {
            Ok(()) => {
                queue.posted += 1;
                Ok(())
            }
            Err(error) => {
                self.slots.give_back(at);
                Err(error)
            }
        }
    }

    /// A receive is not needed any more.
    pub(super) fn take_back(&mut self, id: u64) {
        let at = place(id);
        if id & LETTER != 0 {
            // If it cannot be posted, there is one less: datagrams may be lost.
            let _ = self.letters.post(id, &self.letter_slots, at.1);
        } else if self.queue(which(id)).posted < self.queue(which(id)).wanted {
            let _ = self.post(which(id), at); // it is free then, and posted with the next connection
        } else {
            self.slots.give_back(at);
        }
    }
}

fn place(id: u64) -> At {
    ((id & !(RECEIVE | LETTER | SHARED)) as usize >> 32, id as u32 as usize)
}

/// Which queue a receive is of.
#[inline]
fn which(id: u64) -> Which {
    if id & SHARED == 0 { Which::Own } else { Which::Shared }
}

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    Message { qp: Qp, link: u32, id: u64, header: [u64; 2], len: usize },
    Letter,
    Note(Note),
}

impl Found {
    /// Is it a message of this connection?
    pub(super) fn is_of(&self, index: u32) -> bool {
        matches!(self, Found::Message { link, .. } if *link == index)
    }
}

impl Rdma {
    /// The next message, if that is the next event: it comes in registers, where an [`Event`] would go through memory. What is
    /// something else stays for [`Rdma::poll`].
    #[inline]
    pub fn poll_message(&mut self) -> Option<(Qp, SlotView<'_>)> {
        if !self.look() {
            return None;
        }
        let Some(Found::Message { qp, id, header, len, link }) = self.found else { return None };
        self.found = None;
        Some((qp, self.lend(id, link, header, len)))
    }

    #[inline]
    fn lend(&mut self, id: u64, link: u32, header: [u64; 2], len: usize) -> SlotView<'_> {
        self.inbox.lent = Some((id, Some(link)));
        let at = place(id);
        SlotView { arena: self.inbox.slots.arena(at), slot: at.1, start: HEAD_BYTES, len, header }
    }

    /// Is there an event that needs no look at the device? (Behind [`Rdma::poll_message`] that found nothing: one that is no message.)
    #[inline]
    pub fn has_found(&self) -> bool {
        self.found.is_some() || !self.notes.is_empty()
    }

    /// Has the device given more than was looked at?
    #[inline]
    pub fn has_more(&self) -> bool {
        self.has_found() || !self.fetched.is_empty() || self.cq.has_more()
    }

    /// The next event, if there is one.
    pub fn poll(&mut self) -> Option<Event<'_>> {
        self.look();
        match self.found.take()? {
            Found::Message { qp, id, header, len, link } => {
                Some(Event::Receive { qp, view: View::Slot(self.lend(id, link, header, len)) })
            }
            Found::Letter => Some(Event::Datagram(&self.inbox.letter)),
            Found::Note(Note::Done(work, result)) => Some(Event::Done(work, result)),
            Found::Note(Note::Broken(qp, why)) => Some(Event::Broken { qp, why }),
        }
    }

    /// What the last event has lent is not needed any more.
    #[inline]
    pub fn give_back(&mut self) {
        if let Some((id, link)) = self.inbox.lent.take() {
            self.take_back(id, link);
        }
    }

    fn take_back(&mut self, id: u64, link: Option<u32>) {
        self.inbox.take_back(id);
        if let Some(index) = link {
            if let Some(link) = self.links.at_mut(index) {
                link.taken += 1;
            }
            self.tell_if_needed(index);
        }
    }

    /// A peer has used up its window: the next one is twice as large, if there is memory for it. Idle peers cost little so, and
    /// however many send while this process computes, each message that may come has a slot.
    fn widen(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        let more = link.granted.min(WINDOW - link.granted);
        if more > 0 && !self.frugal && self.inbox.widen(&self.pd, link.inlet(), more as usize) {
            link.granted += more;
            link.taken += more;
        }
    }

    pub(super) fn find(&mut self) -> Option<Found> {
        loop {
            if let Some(note) = self.notes.pop_front() {
                return Some(Found::Note(note));
            }
            let completion = match self.fetched.pop_front() {
                Some(completion) => completion,
                None => self.cq.next()?,
            };
            if completion.id & RECEIVE == 0 {
                self.complete(completion);
                continue;
            }
            if let Some(found) = self.receive(&completion) {
                return Some(found);
            }
        }
    }

    fn receive(&mut self, completion: &Completion) -> Option<Found> {
        let id = completion.id;
        let is_letter = id & LETTER != 0;
        self.inbox.queue(which(id)).posted -= usize::from(!is_letter);
        let found = match &completion.outcome {
            Outcome::Done { bytes, immediate, .. } if is_letter => {
                self.read_letter(place(id).1, *bytes, *immediate)
            }
            Outcome::Done { bytes, immediate, .. } => {
                // Of a connection that is shared the queue pair says only who has sent: its name is beside the message.
                let name = if id & SHARED == 0 { completion.qp } else { immediate.unwrap_or(0) };
                if id & SHARED != 0 && self.index_of(name).is_none() {
                    self.say_gone(completion.qp, name);
                }
                return self.read_message(name, id, *bytes);
            }
            Outcome::Failed(failed) => {
                if let Some(index) = self.index_of(completion.qp) {
                    self.fail_link(index, failed);
                }
                None
            }
        };
        self.inbox.take_back(id);
        found
    }

    fn read_letter(&mut self, slot: usize, bytes: usize, immediate: Option<u32>) -> Option<Found> {
        let mut sealed = vec![0; bytes.checked_sub(ROUTE_BYTES)?.min(LETTER_BYTES - ROUTE_BYTES)];
        self.inbox.letter_slots.read(slot, ROUTE_BYTES, &mut sealed);
        let Some(message) = self.secrets.check_datagram(self.section.nonce, &sealed) else {
            self.strangers += 1;
            return None;
        };
        if let Some(kind) = immediate {
            let message = message.to_vec();
            self.hear_ready(kind, &message);
            return None;
        }
        self.inbox.letter.clear();
        self.inbox.letter.extend_from_slice(message);
        Some(Found::Letter)
    }

    fn read_message(&mut self, number: u32, id: u64, bytes: usize) -> Option<Found> {
        let at = place(id);
        let mut head = [0; HEAD_BYTES];
        self.inbox.slots.arena(at).read(at.1, 0, &mut head);
        let index = self.index_of(number);
        let head = Head::from_bytes(&head).filter(|_| bytes >= HEAD_BYTES);
        let (Some(index), Some(head)) = (index, head) else {
            self.inbox.take_back(id);
            if let Some(index) = index {
                self.break_link(index, BreakReason::Nonsense("a message without a head"));
            }
            return None;
        };
        let qp = self.qp(index);
        let link = self.links.at_mut(index)?;
        let ahead = head.number.wrapping_sub(link.seen) as i16;
        if ahead != 0 {
            self.inbox.take_back(id);
            match ahead < 0 {
                true => self.repeated += 1,
                false => {
                    self.break_link(index, BreakReason::Nonsense("a message behind one that never came"))
                }
            }
            return None;
        }
        link.seen = link.seen.wrapping_add(1);
        link.window = link.window.saturating_add(head.taken.into()).min(WINDOW);
        link.peer_frugal = head.frugal;
        link.traffic += 1;
        // Who sends receives.
        let opens = !std::mem::replace(&mut link.meeting.open, true);
        link.meeting.due_ns = None;
        if head.last {
            self.widen(index);
        }
        if opens {
            self.tell_if_needed(index);
        }
        if !head.message {
            self.inbox.take_back(id);
            return None;
        }
        Some(Found::Message { qp, link: index, id, header: head.header, len: bytes - HEAD_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_as_bytes() {
        for (message, frugal, taken) in [(true, false, 0), (false, true, 16), (true, true, u16::MAX)] {
            let head = Head { message, frugal, last: message, taken, number: !taken, header: [1 << 63, 7] };
            assert_eq!(Head::from_bytes(&head.to_bytes()), Some(head));
        }
        assert_eq!(Head::from_bytes(&[0; HEAD_BYTES]), None);
        assert_eq!(place(RECEIVE | SHARED | 3 << 32 | 17), (3, 17));
    }
}
