//! Completions: which ring has something, without looking at all of them.
//!
//! A few *hot* rings are polled directly: their writers see that and set no ready bit, so that a message
//! costs one line transfer. All others set a bit in this process's ready bitmap. A ring becomes hot when
//! there is room, or when it was found by its bit often; the one that was quiet longest makes room.
//!
//! Nobody waits for ever: every so many events the order is turned round, so that datagrams, rings found by their bit
//! and hot rings further back have their turn beside a ring that never runs empty.
use super::Soft;
use super::memory::Judged;
use super::qp::{Home, QpEntry};
use super::shared::POOL_RING;
use crate::event::{Event, View};
use crate::provider::BreakReason;
use crate::qp::Qp;
use crate::state::QpState;
use std::collections::VecDeque;
use sys::ring::{self, Next};
use sys::segment::DATAGRAM_MAX;

/// Rings that are polled directly.
pub const HOT_MAX: usize = 8;
/// A cold ring that was found ready this often takes the place of a hot one.
const COLD_HITS_MAX: u32 = 32;
/// Messages after which everybody else is looked at first.
const TURN: u32 = 64;
/// Messages of one cold ring before the next one has its turn.
const COLD_BURST: u32 = 16;

/// Where to look next.
#[derive(Debug)]
pub(super) struct Cq {
    /// Queue pairs polled directly, the most recently active first.
    hot: Vec<u32>,
    /// Queue pairs whose ready bit was found, to be emptied.
    draining: VecDeque<u32>,
    /// Room for the numbers of rings that are ready.
    ready: Vec<usize>,
    /// Messages that the first of them has given in a row.
    burst: u32,
    /// Messages found.
    events: u32,
    /// Whose turn it is among the hot ones.
    turn: usize,
    /// Is it the receive queue's, beside rings that are found by their bit?
    pool_turn: bool,
    /// Whose ring was found to hold nonsense.
    broken: Option<u32>,
    /// Whose peer cannot be reached, and why.
    lost: Vec<(u32, BreakReason)>,
    /// Whose message was lent last: its writer may wait for the room.
    lent: Option<u32>,
    datagram: Box<[u8; DATAGRAM_MAX]>,
}

impl Default for Cq {
    fn default() -> Self {
        Cq {
            hot: Vec::with_capacity(HOT_MAX),
            draining: VecDeque::new(),
            ready: Vec::new(),
            burst: 0,
            events: 0,
            turn: 0,
            pool_turn: false,
            broken: None,
            lost: Vec::new(),
            lent: None,
            datagram: Box::new([0; DATAGRAM_MAX]),
        }
    }
}

pub(super) enum Found {
    Message(u32),
    /// In the receive queue, for this queue pair.
    Pooled(u32),
    Broken(u32),
    Lost,
    Datagram(usize),
    Nothing,
}

impl Soft {
    /// The next event, if there is one. Call again until there is none.
    #[inline]
    pub fn poll(&mut self) -> Option<Event<'_>> {
        match self.find() {
            Found::Message(index) => {
                let qp = self.named(index);
                self.cq.lent = Some(index);
                self.cq.events = self.cq.events.wrapping_add(1);
                let ring = &mut self.qps[index as usize].entry.as_mut()?.inbound.as_mut()?.ring;
                Some(Event::Receive { qp, view: View::Ring(ring.view()) })
            }
            Found::Pooled(index) => {
                self.cq.events = self.cq.events.wrapping_add(1);
                Some(Event::Receive { qp: self.named(index), view: View::Pool(self.pooled()?) })
            }
            Found::Lost => {
                let (index, why) = self.cq.lost.pop()?;
                self.qps[index as usize].entry.as_mut()?.state = QpState::Error;
                self.forget_receiving(index);
                Some(Event::Broken { qp: self.named(index), why })
            }
            Found::Nothing => None,
            Found::Datagram(len) => Some(Event::Datagram(&self.cq.datagram[..len])),
            Found::Broken(index) => {
                self.qps[index as usize].entry.as_mut()?.state = QpState::Error;
                self.forget_receiving(index);
                let why = BreakReason::Nonsense("a slot that no writer writes");
                Some(Event::Broken { qp: self.named(index), why })
            }
        }
    }

    /// Is there something to be found?
    pub(crate) fn any_ready(&self) -> bool {
        let looked_at = self.cq.hot.iter().chain(&self.cq.draining);
        let entries = looked_at.filter_map(|index| self.qps[*index as usize].entry.as_ref());
        let news = self.segment.has_news() || !self.cq.lost.is_empty();
        news || entries.into_iter().any(is_ready) || self.is_pool_ready()
    }

    /// The next message in one queue pair's ring.
    pub(crate) fn poll_only(&mut self, qp: Qp) -> Option<View<'_>> {
        if self.entry(qp)?.halves.is_some() {
            return if self.find_pooled_for(qp) { self.pooled().map(View::Pool) } else { None };
        }
        let index = qp.index() as u32;
        if let Some(lent) = self.cq.lent.take()
            && let Some(entry) = self.qps[lent as usize].entry.as_mut()
        {
            entry.wake_writer();
        }
        loop {
            match self.look(index) {
                Next::Message => break,
                Next::Grow(_) | Next::Switch | Next::Move => {}
                Next::Empty | Next::Broken => return None,
            }
        }
        self.cq.lent = Some(index);
        Some(View::Ring(self.qps[index as usize].entry.as_mut()?.inbound.as_mut()?.ring.view()))
    }

    /// A message in one of the hot rings, unless it is somebody else's turn.
    #[inline(always)]
    pub(crate) fn poll_ring(&mut self) -> Option<(Qp, ring::View<'_>)> {
        if let Some(index) = self.cq.lent {
            if self.cq.events.is_multiple_of(TURN) {
                return None; // `poll` sees to that
            }
            self.cq.lent = None;
            if let Some(entry) = self.qps[index as usize].entry.as_mut() {
                entry.wake_writer();
            }
        }
        let index = match self.find_hot(0) {
            Found::Message(index) => index,
            Found::Broken(index) => {
                self.cq.broken = Some(index); // `poll` tells
                return None;
            }
            _ => return None,
        };
        let qp = self.named(index);
        self.cq.lent = Some(index);
        self.cq.events = self.cq.events.wrapping_add(1);
        let ring = &mut self.qps[index as usize].entry.as_mut()?.inbound.as_mut()?.ring;
        Some((qp, ring.view()))
    }

    /// Is there something beside the hot rings to be looked at? Also a writer that is to be woken: who has taken as many
    /// messages as it wants may not come back for long, and the writer sleep although it has room.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.segment.has_news()
            || !self.cq.draining.is_empty()
            || self.cq.broken.is_some()
            || !self.cq.lost.is_empty()
            || self.is_pool_lent()
            || self.is_pool_ready()
            || self.cq.lent.is_some_and(|index| self.is_turn_or_waited_for(index))
    }

    fn is_turn_or_waited_for(&self, lent: u32) -> bool {
        let entry = self.qps[lent as usize].entry.as_ref();
        let inbound = entry.and_then(|entry| entry.inbound.as_ref());
        self.cq.events.is_multiple_of(TURN) || inbound.is_some_and(|inbound| inbound.ring.writer_waits())
    }

    /// The message that was lent last is not needed any more. Whoever polls again need not say so.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if let Some(entry) = self.cq.lent.and_then(|index| self.qps[index as usize].entry.as_mut()) {
            entry.wake_writer();
        }
        self.release_pooled();
    }

    /// Messages found so far.
    #[inline]
    pub(super) fn events(&self) -> u32 {
        self.cq.events
    }

    #[inline]
    fn find(&mut self) -> Found {
        if let Some(index) = self.cq.broken.take() {
            return Found::Broken(index);
        }
        if !self.cq.lost.is_empty() {
            return Found::Lost;
        }
        if self.release_pooled() && self.cq.events.is_multiple_of(TURN) {
            return self.find_in_turn();
        }
        if let Some(index) = self.cq.lent.take() {
            if let Some(entry) = self.qps[index as usize].entry.as_mut() {
                entry.wake_writer();
            }
            if self.cq.events.is_multiple_of(TURN) {
                return self.find_in_turn();
            }
        }
        let found = self.find_hot(0);
        if !matches!(found, Found::Nothing) {
            return found;
        }
        if self.cq.draining.is_empty() && !self.segment.has_news() && !self.is_pool_ready() {
            return Found::Nothing;
        }
        self.find_cold()
    }

    #[inline(always)]
    fn find_hot(&mut self, from: usize) -> Found {
        let mut place = from;
        while place < self.cq.hot.len() {
            let index = self.cq.hot[place];
            let next = self.look(index);
            if next == Next::Empty {
                place += 1;
                continue;
            }
            if place > 0 {
                // Move to front: the order is the order of recent activity.
                self.cq.hot[..=place].rotate_right(1);
            }
            match next {
                Next::Message => return Found::Message(index),
                Next::Broken => return Found::Broken(index),
                // Growth was dealt with: the same ring, or the one behind it, may have a message.
                _ => place = 0,
            }
        }
        Found::Nothing
    }

    /// Everybody else first.
    #[cold]
    fn find_in_turn(&mut self) -> Found {
        if self.is_sweep_due() {
            self.sweep();
        }
        self.reclaim();
        if let Some(len) = self.segment.take_datagram(&mut self.cq.datagram) {
            return Found::Datagram(len);
        }
        let found = self.find_received();
        if !matches!(found, Found::Nothing) {
            return found;
        }
        self.cq.turn = (self.cq.turn + 1) % self.cq.hot.len().max(1);
        match self.find_hot(self.cq.turn) {
            Found::Nothing => self.find_hot(0),
            found => found,
        }
    }

    #[cold]
    fn find_cold(&mut self) -> Found {
        match self.find_received() {
            Found::Nothing => {
                let taken = self.segment.take_datagram(&mut self.cq.datagram);
                taken.map_or(Found::Nothing, Found::Datagram)
            }
            found => found,
        }
    }

    /// A message in a ring that is not polled directly, or in the receive queue; they take turns.
    fn find_received(&mut self) -> Found {
        if self.cq.pool_turn {
            self.cq.pool_turn = false;
            let found = self.find_pooled();
            if !matches!(found, Found::Nothing) {
                return found;
            }
        }
        self.cq.pool_turn = true;
        match self.find_rings() {
            Found::Nothing => self.find_pooled(),
            found => found,
        }
    }

    /// A message in a ring that is not polled directly.
    fn find_rings(&mut self) -> Found {
        loop {
            while let Some(&index) = self.cq.draining.front() {
                match self.look(index) {
                    Next::Message => {
                        self.cq.burst += 1;
                        if self.cq.burst >= COLD_BURST {
                            self.cq.burst = 0;
                            // While this one never runs empty, nobody else would look for others.
                            if self.segment.has_news() {
                                self.take_ready();
                            }
                            self.cq.draining.rotate_left(1);
                        }
                        return Found::Message(index);
                    }
                    Next::Broken => return Found::Broken(index),
                    Next::Empty => {
                        self.cq.burst = 0;
                        self.cq.draining.pop_front();
                    }
                    Next::Grow(_) | Next::Switch | Next::Move => {}
                }
            }
            if !self.take_ready() {
                return Found::Nothing;
            }
        }
    }

    /// Moves what the ready bitmap names to the list of rings to be emptied.
    fn take_ready(&mut self) -> bool {
        let mut ready = std::mem::take(&mut self.cq.ready);
        ready.clear();
        self.segment.take_ready(|ring| ready.push(ring));
        for ring in &ready {
            let Some(Some(index)) = self.rings.get(*ring).copied() else { continue };
            if index == POOL_RING {
                continue; // it is looked at in any case
            }
            let Some(entry) = self.qps[index as usize].entry.as_mut() else { continue };
            if entry.state == QpState::Init {
                entry.cold_hits += 1;
                continue; // not receiving yet; looked at when it is
            }
            if entry.later.is_some() && !self.complete_found(index) {
                continue; // an event says why
            }
            let Some(entry) = self.qps[index as usize].entry.as_mut() else { continue };
            entry.cold_hits += 1;
            if !entry.hot && entry.cold_hits > COLD_HITS_MAX {
                self.make_hot(index);
            }
            if !self.cq.draining.contains(&index) {
                self.cq.draining.push_back(index);
            }
        }
        self.cq.ready = ready;
        !self.cq.draining.is_empty()
    }

    /// Looks at the next slot of a queue pair's ring; growth is dealt with here.
    #[inline(always)]
    fn look(&mut self, index: u32) -> Next {
        let entry = self.qps[index as usize].entry.as_mut();
        let Some(inbound) = entry.and_then(|entry| entry.inbound.as_mut()) else { return Next::Empty };
        match inbound.ring.next_slot() {
            next @ (Next::Message | Next::Empty | Next::Broken) => next,
            next => self.change(index, next),
        }
    }

    /// The writer wants, or begins, another ring.
    #[cold]
    fn change(&mut self, index: u32, next: Next) -> Next {
        let next = match next {
            Next::Grow(payload) => {
                self.grow(index, payload);
                next
            }
            Next::Move => {
                self.qps[index as usize].entry.iter_mut().for_each(QpEntry::accept_offer);
                next
            }
            _ => self.switch(index),
        };
        // A writer that sleeps may wait for just that.
        if let Some(entry) = self.qps[index as usize].entry.as_mut() {
            entry.wake_writer();
        }
        next
    }

    #[cold]
    fn switch(&mut self, index: u32) -> Next {
        let events = self.events();
        let entry = self.qps[index as usize].entry.as_mut().expect("a live queue pair");
        let inbound = entry.inbound.as_mut().expect("a receiving queue pair");
        let Some((ring, offset)) = inbound.next.take() else { return Next::Broken };
        let bytes = ring.bytes();
        let old = std::mem::replace(&mut inbound.ring, ring);
        let home = std::mem::replace(&mut inbound.home, Home::Own(offset));
        // The line that ends a ring of early messages is none of a message, and comes over an idle connection too.
        entry.past += old.lines_read() - u64::from(home == Home::Peer && old.lines_read() > 0);
        entry.judged = Judged::new(events);
        match home {
            // The owner takes its memory back when all of it has been read.
            Home::Peer => old.end(),
            Home::Own(old_offset) => {
                let bytes = old.bytes();
                drop(old);
                self.release_ring(old_offset, bytes);
            }
        }
        self.replaced(index, bytes);
        Next::Switch
    }

    /// A queue pair begins to receive: hot if there is room.
    pub(super) fn begin_receiving(&mut self, index: u32) {
        if self.cq.hot.len() < HOT_MAX {
            self.make_hot(index);
        }
        // A writer that saw neither the flag nor the number of the ring has written before this returns.
        self.segment.settle();
        self.cq.draining.push_back(index);
    }

    /// A queue pair's peer cannot be reached: an event says so.
    pub(super) fn lose(&mut self, index: u32, why: BreakReason) {
        self.cq.lost.push((index, why));
    }

    /// A queue pair receives no more.
    pub(super) fn forget_receiving(&mut self, index: u32) {
        self.cq.lost.retain(|(lost, _)| *lost != index);
        self.cq.hot.retain(|i| *i != index);
        self.cq.draining.retain(|i| *i != index);
    }

    fn make_hot(&mut self, index: u32) {
        if self.cq.hot.len() == HOT_MAX {
            let quiet = self.cq.hot.pop().expect("a full set");
            if let Some(entry) = self.qps[quiet as usize].entry.as_mut() {
                entry.cold_hits = 0;
                entry.set_polled(false);
            }
            // A writer that still saw the ring polled has written before this returns.
            self.segment.settle();
            self.cq.draining.push_back(quiet);
        }
        self.cq.hot.push(index);
        if let Some(entry) = self.qps[index as usize].entry.as_mut() {
            entry.set_polled(true);
        }
    }
}

#[inline]
fn is_ready(entry: &QpEntry) -> bool {
    entry.inbound.as_ref().is_some_and(|inbound| inbound.ring.is_ready())
}
