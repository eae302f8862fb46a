//! What goes out: messages, words about windows, datagrams; and what became of it.
use super::memory::error_of;
use super::receive::Head;
use super::slots::{At, Slots};
use super::*;
use crate::provider::{PostError, Posted};
use verbs::{Arena, Piece};

/// Arenas of slots, at most.
const ARENAS_MAX: usize = 16;
/// Each time that so many more messages of a connection have not completed, as far as is known, it is looked: who only sends has to
/// hear of those that failed.
const BUSY_LOOK: u32 = 8;

/// Slots that messages are sent from.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    slots: Slots,
    /// Datagrams under way.
    letters: u32,
}

impl Outbox {
    /// Has the memory for the first messages.
    pub(super) fn reserve(&mut self, pd: &Rc<Pd>) -> Result<(), VerbsError> {
        self.slots.reserve(pd)
    }

    /// A slot, if there is one. Where no memory at all can be had, nobody would ever give one back: that is an error.
    pub(super) fn take(&mut self, pd: &Rc<Pd>) -> Result<Option<At>, VerbsError> {
        self.slots.take(pd, ARENAS_MAX).or_else(|error| match self.bytes() {
            0 => Err(error),
            _ => Ok(None),
        })
    }

    /// Are no datagrams under way?
    pub(super) fn is_silent(&self) -> bool {
        self.letters == 0
    }

    pub(super) fn give_back(&mut self, at: At) {
        self.slots.give_back(at);
    }

    pub(super) fn arena(&self, at: At) -> &Rc<Arena> {
        self.slots.arena(at)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes()
    }
}

/// Work that is under way: its connection, and what it keeps. (Of a message that was copied when it was posted there is only its
/// connection, which its number has: see [`COPIED`].)
#[derive(Debug)]
pub(super) enum Pending {
    /// Sent from a slot. (Where the queue pair is shared, its number is here: the connection may go before.)
    Slot { link: u32, via: u32, at: At },
    /// A datagram.
    Letter { at: At },
    /// A piece of a read or write, or an atomic.
    Transfer { link: u32, via: u32, index: u32 },
}

/// The connection of work whose connection is gone.
const GONE: u32 = u32::MAX;

impl Pending {
    pub(super) fn link(&self) -> Option<u32> {
        match self {
            Pending::Slot { link: GONE, .. } | Pending::Transfer { link: GONE, .. } => None,
            Pending::Slot { link, .. } | Pending::Transfer { link, .. } => Some(*link),
            Pending::Letter { .. } => None,
        }
    }

    /// The queue pair that it shares with work of other connections; 0: none.
    pub(super) fn via(&self) -> u32 {
        match self {
            Pending::Slot { via, .. } | Pending::Transfer { via, .. } => *via,
            Pending::Letter { .. } => 0,
        }
    }

    /// Its connection goes.
    pub(super) fn forget_link(&mut self) {
        match self {
            Pending::Slot { link, .. } | Pending::Transfer { link, .. } => *link = GONE,
            Pending::Letter { .. } => {}
        }
    }
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'b> {
    User(UserBuf),
    Bytes(&'b [u8]),
}

impl Source<'_> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Source::User(buf) => buf.len(),
            Source::Bytes(bytes) => bytes.len(),
        }
    }
}

impl Link {
    /// Is a message of so many bytes copied when it is posted?
    #[inline]
    fn copies(&self, len: usize) -> bool {
        let (caps, pieces) = (self.qp().caps(), 1 + u32::from(len > 0));
        HEAD_BYTES + len <= caps.inline_bytes as usize && pieces <= caps.sges
    }

    /// See [`BUSY_LOOK`].
    #[inline]
    fn looks_due(&self) -> bool {
        self.busy > 0 && self.busy.is_multiple_of(BUSY_LOOK)
    }

    /// What goes before a message, or before nothing.
    #[inline]
    fn head(&self, frugal: bool, header: Option<[u64; 2]>) -> Head {
        let taken = u16::try_from(self.taken).unwrap_or(u16::MAX);
        let (message, last) = (header.is_some(), header.is_some() && self.window == 1);
        Head { message, frugal, last, taken, number: self.sent, header: header.unwrap_or_default() }
    }

    /// Posts a message that is copied now, or a word about windows. `false`: the device does not take it.
    #[inline]
    fn post_copied(
        &mut self,
        index: u32,
        generation: u32,
        frugal: bool,
        header: Option<[u64; 2]>,
        from: Source<'_>,
    ) -> bool {
        let head = self.head(frugal, header);
        let (bytes, id) = (head.to_bytes(), COPIED | number(index, generation));
        let tail = match &from {
            Source::User(buf) => Piece::from(buf),
            Source::Bytes(bytes) => Piece::from(*bytes),
        };
        let pieces = [Piece::from(&bytes[..]), tail];
        if self.send_copied(id, &pieces[..1 + usize::from(from.len() > 0)]).is_err() {
            return false;
        }
        self.copied += 1;
        self.half().into_iter().for_each(|half| half.ini.copies());
        self.posted(&head);
        true
    }

    /// This was posted.
    #[inline]
    fn posted(&mut self, head: &Head) {
        self.taken -= u32::from(head.taken);
        self.tell = false;
        self.sent = self.sent.wrapping_add(1);
        self.begins();
    }
}

impl Rdma {
    /// Sends a message, which is copied.
    pub(crate) fn post_message(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        from: Source<'_>,
    ) -> Result<Posted, PostError> {
        let index = qp.index() as u32;
        let link = self.links.get(qp.index(), qp.generation()).ok_or(PostError::Stale)?;
        let is_ready = link.may_send() && !link.looks_due();
        if link.state != QpState::ReadyToSend {
            return Err(PostError::State { qp: link.name, state: link.state });
        }
        if from.len() > MESSAGE_MAX {
            return Err(PostError::TooLong { bytes: from.len(), max: MESSAGE_MAX });
        }
        if !(is_ready && self.has_completions_left()) {
            self.look();
            if !(self.links.at(index).is_some_and(Link::may_send) && self.has_completions_left()) {
                self.ask_if_later(index);
                return Err(PostError::Full);
            }
        }
        self.post_head(index, Some(header), from)?;
        if let Some(link) = self.links.at_mut(index) {
            link.window -= 1;
        }
        Ok(Posted::Done)
    }

    /// As [`Rdma::post_message`], the short way: a message that is copied when it is posted, to a peer that wants it, and nothing to
    /// be looked after. `false`: nothing has been done.
    #[inline]
    pub(crate) fn send_short(&mut self, qp: Qp, header: [u64; 2], payload: UserBuf) -> bool {
        let room = self.has_completions_left();
        let Some(link) = self.links.get_mut(qp.index(), qp.generation()) else { return false };
        let from = Source::User(payload);
        let is_plain = link.may_send() && !link.peer_frugal && !link.looks_due();
        if !(room && is_plain && link.copies(from.len())) {
            return false;
        }
        let sent = link.post_copied(qp.index() as u32, qp.generation(), self.frugal, Some(header), from);
        if sent {
            link.window -= 1;
            self.copied += 1;
        }
        sent
    }

    /// A completion queue that overflows is the end of it.
    #[inline]
    pub(super) fn has_completions_left(&self) -> bool {
        self.pending.len() + self.copied < self.work_max
    }

    /// Posts a message, or a word about windows.
    fn post_head(&mut self, index: u32, header: Option<[u64; 2]>, from: Source<'_>) -> Result<(), PostError> {
        let generation = self.links.generation(index);
        let link = self.links.at_mut(index).ok_or(PostError::Stale)?;
        if !link.copies(from.len()) {
            return self.post_from_slot(index, header, from);
        }
        // Where it fails, the device has less room than it said; what is under way makes some.
        if !link.post_copied(index, generation, self.frugal, header, from) {
            return Err(PostError::Full);
        }
        self.copied += 1;
        Ok(())
    }

    /// The same, through a slot.
    fn post_from_slot(
        &mut self,
        index: u32,
        header: Option<[u64; 2]>,
        from: Source<'_>,
    ) -> Result<(), PostError> {
        let at = match self.outbox.take(&self.pd) {
            Ok(at) => at.ok_or(PostError::Full)?,
            Err(error) => {
                let why = BreakReason::Device { device: self.device(), why: words(&error) };
                self.break_link(index, why);
                return Err(PostError::Full);
            }
        };
        let via = self.links.at(index).map_or(0, Link::via);
        let id = self.insert(Pending::Slot { link: index, via, at });
        let link = self.links.at_mut(index).ok_or(PostError::Stale)?;
        let head = link.head(self.frugal, header);
        let arena = self.outbox.arena(at);
        arena.write(at.1, 0, &head.to_bytes());
        match from {
            Source::User(buf) => arena.write_from(at.1, HEAD_BYTES, &buf),
            Source::Bytes(bytes) => arena.write(at.1, HEAD_BYTES, bytes),
        }
        let local = arena.local(at.1, HEAD_BYTES + from.len());
        if link.post(id, Operation::Send(&[local])).is_err() {
            self.pending.remove(id as u32);
            self.outbox.give_back(at);
            return Err(PostError::Full);
        }
        link.posted(&head);
        Ok(())
    }

    /// Tells the peer that messages were taken, or that this process is short of memory, if it would not hear of it in time.
    #[inline]
    pub(super) fn tell_if_needed(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        if link.taken < link.tell_at() && !link.tell {
            return;
        }
        let sends = matches!(link.state, QpState::ReadyToSend | QpState::SendDrained);
        if !(sends && link.meeting.open) {
            return;
        }
        // If there is no room now, something is under way, after which it is tried again.
        let told = link.has_work_left() && self.post_head(index, None, Source::Bytes(&[])).is_ok();
        if !told && let Some(half) = self.links.at(index).and_then(Link::half) {
            half.ini.lacks_room();
        }
    }

    /// Sends a datagram, which may be lost.
    pub(super) fn post_datagram(
        &mut self,
        to: &VerbsSection,
        kind: Option<u32>,
        sealed: &[u8],
    ) -> Result<Sent, VerbsError> {
        let at = if self.outbox.letters < WORK_MAX { self.outbox.take(&self.pd)? } else { None };
        let Some(at) = at else {
            self.dropped += 1;
            return Ok(Sent::Dropped);
        };
        let id = self.insert(Pending::Letter { at });
        self.outbox.letters += 1;
        let arena = self.outbox.arena(at);
        arena.write(at.1, 0, sealed);
        let part = [arena.local(at.1, sealed.len())];
        let posted = self.addresses.get(to).is_some_and(|ah| {
            let datagram = Some((ah, to.datagrams, DATAGRAM_KEY));
            let work = Work { datagram, immediate: kind, ..Work::new(id, Operation::Send(&part)) };
            self.datagrams.post(&work).is_ok()
        });
        if !posted {
            self.pending.remove(id as u32);
            self.release(Pending::Letter { at }, None);
            self.dropped += 1;
            return Ok(Sent::Dropped);
        }
        Ok(Sent::Sent)
    }

    /// A number for work that is under way.
    pub(super) fn insert(&mut self, pending: Pending) -> u64 {
        let (index, generation) = self.pending.insert(pending);
        number(index, generation)
    }

    /// Work has ended.
    pub(super) fn complete(&mut self, completion: Completion) {
        if completion.id & COPIED != 0 {
            return self.complete_copied(completion);
        }
        let index = completion.id as u32;
        let is_old = u64::from(self.pending.generation(index) & GENERATION) != completion.id >> 32;
        let Some(pending) = (if is_old { None } else { self.pending.remove(index) }) else { return };
        let link = pending.link();
        match link.and_then(|link| self.links.at_mut(link)) {
            Some(link) => link.ends(),
            None if pending.via() != 0 => self.end_left(pending.via(), false),
            None => {}
        }
        let failed = match completion.outcome {
            Outcome::Done { .. } => None,
            Outcome::Failed(failed) => Some(failed),
        };
        if let (Some(failed), Some(link)) = (&failed, link) {
            self.fail_link(link, failed);
        }
        self.release(*pending, failed.as_ref().map(error_of));
        link.into_iter().for_each(|link| self.tell_after(link));
    }

    /// A message that was copied when it was posted has ended.
    #[inline]
    fn complete_copied(&mut self, completion: Completion) {
        let index = completion.id as u32;
        let id = COPIED | number(index, self.links.generation(index));
        let Some(link) = self.links.at_mut(index).filter(|_| id == completion.id) else {
            return self.end_left(completion.qp, true);
        };
        link.ends();
        link.copied -= 1;
        link.half().into_iter().for_each(|half| half.ini.copied_one());
        self.copied -= 1;
        if let Outcome::Failed(failed) = completion.outcome {
            self.fail_link(index, &failed);
        }
        self.tell_after(index);
    }

    /// Gives back what work has kept, and tells whoever waits for it.
    fn release(&mut self, pending: Pending, failed: Option<WorkError>) {
        match pending {
            Pending::Slot { at, .. } => self.outbox.give_back(at),
            Pending::Letter { at } => {
                self.outbox.letters -= 1;
                self.outbox.give_back(at);
            }
            Pending::Transfer { index, .. } => self.end_part(index, failed),
        }
    }

    /// A queue pair goes: what was posted on it has ended.
    pub(super) fn end_work(&mut self, index: u32) {
        let of_link = |(number, pending): (u32, &Pending)| (pending.link() == Some(index)).then_some(number);
        let ended: Vec<u32> = self.pending.iter().filter_map(of_link).collect();
        // The device must have let go of the memory first.
        if let Some(link) = self.links.at_mut(index) {
            let _ = link.qp().fail();
            self.copied -= std::mem::take(&mut link.copied) as usize;
        }
        ended.into_iter().for_each(|number| self.end_pending(number));
    }

    /// Work has ended with an error, which the device does not tell.
    pub(super) fn end_pending(&mut self, number: u32) {
        if let Some(pending) = self.pending.remove(number) {
            self.release(*pending, Some(WorkError::Broken));
        }
    }
}

/// As much of a generation as fits a number.
const GENERATION: u32 = (1 << 29) - 1;
/// In the number of a message of which nothing is kept: the rest is that of its connection.
const COPIED: u64 = 1 << 61;

#[inline]
fn number(index: u32, generation: u32) -> u64 {
    u64::from(generation & GENERATION) << 32 | u64::from(index)
}
