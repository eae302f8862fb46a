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

/// Numbers of receives: this, whether it is a datagram's, arena and slot.
const RECEIVE: u64 = 1 << 63;
const LETTER: u64 = 1 << 62;

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
    pub header: [u64; 2],
}

impl Head {
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let word = (u64::from(self.message) + 1)
            | u64::from(self.frugal) << 8
            | u64::from(self.taken) << 16
            | u64::from(self.last) << 32;
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
            header: [word(8), word(16)],
        })
    }
}

/// Where messages and datagrams come in.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Receives of messages, and of datagrams.
    pub srq: Rc<Srq>,
    pub letters: Rc<Srq>,
    letter_slots: Rc<Arena>,
    slots: Slots,
    posted: usize,
    most: usize,
    wanted: usize,
    /// The windows of all peers.
    pub granted: usize,
    /// What the last event has lent: the number of the receive, and the connection.
    lent: Option<(u64, Option<u32>)>,
    /// The last datagram.
    letter: Vec<u8>,
}

impl Inbox {
    /// Messages and datagrams take no more than half of the completions.
    pub(super) fn new(pd: &Rc<Pd>, completions: usize) -> Result<Inbox, VerbsError> {
        let (most, letter_count) = (RECEIVES_MAX.min(completions * 3 / 8), LETTERS.min(completions / 8));
        let (srq, letters) = (Srq::new(pd, most as u32)?, Srq::new(pd, letter_count as u32)?);
        let letter_slots = Arena::new(pd, letter_count, LETTER_BYTES)?;
        for slot in 0..letter_count {
            letters.post(RECEIVE | LETTER | slot as u64, &letter_slots, slot)?;
        }
        Ok(Inbox {
            srq,
            letters,
            letter_slots,
            slots: Slots::default(),
            posted: 0,
            most,
            wanted: 0,
            granted: 0,
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

    /// Receives for so many connections.
    pub(super) fn make_room(&mut self, pd: &Rc<Pd>, links: usize) -> Result<(), VerbsError> {
        self.shrink(links);
        while self.posted < self.wanted {
            let Some(at) = self.slots.take(pd, usize::MAX)? else { break };
            self.post(at)?;
        }
        Ok(())
    }

    /// There are so many connections now: what is too much is not posted again.
    pub(super) fn shrink(&mut self, links: usize) {
        let spare = if links == 0 { 0 } else { RECEIVES_SPARE };
        self.wanted = (spare + links * RECEIVES_EACH + self.granted).min(self.most);
    }

    fn post(&mut self, at: At) -> Result<(), VerbsError> {
        let id = RECEIVE | (at.0 as u64) << 32 | at.1 as u64;
        match self.srq.post(id, self.slots.arena(at), at.1) {
            Ok(()) => {
                self.posted += 1;
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
        } else if self.posted < self.wanted {
            let _ = self.post(at); // it is free then, and posted with the next connection
        } else {
            self.slots.give_back(at);
        }
    }
}

fn place(id: u64) -> At {
    ((id & !(RECEIVE | LETTER)) as usize >> 32, id as u32 as usize)
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
        let links = self.links.len();
        let Some(link) = self.links.at_mut(index) else { return };
        let more = link.granted.min(WINDOW - link.granted);
        if more == 0 || self.frugal || self.inbox.wanted + more as usize > self.inbox.most {
            return;
        }
        self.inbox.granted += more as usize;
        if self.inbox.make_room(&self.pd, links).is_err() {
            self.inbox.granted -= more as usize;
            self.inbox.shrink(links);
            return;
        }
        link.granted += more;
        link.taken += more;
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
        self.inbox.posted -= usize::from(!is_letter);
        let found = match &completion.outcome {
            Outcome::Done { bytes, immediate, .. } if is_letter => {
                self.read_letter(place(id).1, *bytes, *immediate)
            }
            Outcome::Done { bytes, .. } => return self.read_message(completion.qp, id, *bytes),
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
            let head = Head { message, frugal, last: message, taken, header: [1 << 63, 7] };
            assert_eq!(Head::from_bytes(&head.to_bytes()), Some(head));
        }
        assert_eq!(Head::from_bytes(&[0; HEAD_BYTES]), None);
        assert_eq!(place(RECEIVE | 3 << 32 | 17), (3, 17));
    }
}
