//! Completions: which ring has something, without looking at all of them.
//!
//! A few *hot* rings are polled directly: their writers see that and set no ready bit, so that a message
//! costs one line transfer. All others set a bit in this process's ready bitmap. A ring becomes hot when
//! there is room, or when it was found by its bit often; the one that was quiet longest makes room.
use crate::context::Context;
use crate::qp::{Qp, QpEntry, grown};
use crate::state::QpState;
use std::collections::VecDeque;
use sys::ring::{Next, RingRx, View};
use sys::segment::DATAGRAM_MAX;

/// Rings that are polled directly.
const HOT_MAX: usize = 8;
/// A cold ring that was found ready this often takes the place of a hot one.
const COLD_HITS_MAX: u32 = 32;

/// What came in.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message, lent until the view is dropped.
    Receive {
        /// On this queue pair.
        qp: Qp,
        /// The message.
        view: View<'a>,
    },
    /// A datagram.
    Datagram(&'a [u8]),
    /// The peer wrote what no peer writes; the queue pair is in ERROR.
    Broken(Qp),
}

/// Where to look next.
#[derive(Debug)]
pub(crate) struct Cq {
    /// Queue pairs polled directly, the most recently active first.
    hot: Vec<u32>,
    /// Queue pairs whose ready bit was found, to be emptied.
    draining: VecDeque<u32>,
    datagram: Box<[u8; DATAGRAM_MAX]>,
}

impl Default for Cq {
    fn default() -> Self {
        Cq {
            hot: Vec::with_capacity(HOT_MAX),
            draining: VecDeque::new(),
            datagram: Box::new([0; DATAGRAM_MAX]),
        }
    }
}

enum Found {
    Message(u32),
    Broken(u32),
    Nothing,
}

impl Context {
    /// The next event, if there is one. Call again until there is none.
    #[inline]
    pub fn poll(&mut self) -> Option<Event<'_>> {
        match self.find() {
            Found::Message(index) => {
                let ring = &mut self.qps[index as usize].as_mut()?.inbound.as_mut()?.ring;
                Some(Event::Receive { qp: Qp(index), view: ring.view() })
            }
            Found::Broken(index) => {
                self.qps[index as usize].as_mut()?.state = QpState::Error;
                self.forget_receiving(index);
                Some(Event::Broken(Qp(index)))
            }
            Found::Nothing => {
                let len = self.segment.take_datagram(&mut self.cq.datagram)?;
                Some(Event::Datagram(&self.cq.datagram[..len]))
            }
        }
    }

    /// Is there a message in a ring that is polled directly, or left to be emptied?
    pub(crate) fn any_ready(&self) -> bool {
        let looked_at = self.cq.hot.iter().chain(&self.cq.draining);
        looked_at.filter_map(|index| self.qps[*index as usize].as_ref()).any(is_ready)
    }

    #[inline]
    fn find(&mut self) -> Found {
        for place in 0..self.cq.hot.len() {
            let index = self.cq.hot[place];
            if self.qps[index as usize].as_ref().is_some_and(is_ready) {
                if place > 0 {
                    // Move to front: the order is the order of recent activity.
                    self.cq.hot[..=place].rotate_right(1);
                }
                match self.look(index) {
                    Next::Message => return Found::Message(index),
                    Next::Broken => return Found::Broken(index),
                    _ => return self.find(),
                }
            }
        }
        if self.cq.draining.is_empty() && !self.segment.has_news() {
            return Found::Nothing;
        }
        self.find_cold()
    }

    #[cold]
    fn find_cold(&mut self) -> Found {
        loop {
            while let Some(&index) = self.cq.draining.front() {
                match self.look(index) {
                    Next::Message => return Found::Message(index),
                    Next::Broken => return Found::Broken(index),
                    Next::Empty => drop(self.cq.draining.pop_front()),
                    Next::Grow(_) | Next::Switch => {}
                }
            }
            if !self.take_ready() {
                return Found::Nothing;
            }
        }
    }

    /// Moves what the ready bitmap names to the list of rings to be emptied.
    fn take_ready(&mut self) -> bool {
        let mut ready = Vec::new();
        self.segment.take_ready(|ring| ready.push(ring));
        for ring in &ready {
            let Some(Some(index)) = self.rings.get(*ring).copied() else { continue };
            let Some(entry) = self.qps[index as usize].as_mut() else { continue };
            if entry.state == QpState::Init {
                continue; // not receiving yet; looked at when it is
            }
            entry.cold_hits += 1;
            if !entry.hot && entry.cold_hits > COLD_HITS_MAX {
                self.make_hot(index);
            }
            if !self.cq.draining.contains(&index) {
                self.cq.draining.push_back(index);
            }
        }
        !self.cq.draining.is_empty()
    }

    /// Looks at the next slot of a queue pair's ring; growth is dealt with here.
    #[inline]
    fn look(&mut self, index: u32) -> Next {
        let entry = self.qps[index as usize].as_mut();
        let Some(inbound) = entry.and_then(|entry| entry.inbound.as_mut()) else { return Next::Empty };
        let next = inbound.ring.next_slot();
        match next {
            Next::Grow(payload) => self.grow(index, payload),
            Next::Switch => return self.switch(index),
            _ => {}
        }
        next
    }

    #[cold]
    fn grow(&mut self, index: u32, payload: usize) {
        let entry = self.qps[index as usize].as_mut().expect("a live queue pair");
        let inbound = entry.inbound.as_mut().expect("a receiving queue pair");
        let Some(bytes) = grown(inbound.ring.bytes(), payload) else { return };
        if inbound.larger.is_some() {
            return;
        }
        // Without memory for a larger ring the writer goes on in the small one, fragment by fragment.
        let Ok((offset, map)) = self.segment.carve(bytes) else { return };
        let ring = RingRx::new(map);
        ring.set_polled(entry.hot);
        ring.set_frugal(self.frugal);
        inbound.larger = Some((ring, offset));
        inbound.ring.offer(offset, bytes);
    }

    #[cold]
    fn switch(&mut self, index: u32) -> Next {
        let entry = self.qps[index as usize].as_mut().expect("a live queue pair");
        let inbound = entry.inbound.as_mut().expect("a receiving queue pair");
        let Some((ring, offset)) = inbound.larger.take() else { return Next::Broken };
        let old = std::mem::replace(&mut inbound.ring, ring);
        let old_offset = std::mem::replace(&mut inbound.offset, offset);
        let bytes = old.bytes();
        drop(old);
        self.segment.give_back(old_offset, bytes);
        Next::Switch
    }

    /// A queue pair begins to receive: hot if there is room.
    pub(crate) fn begin_receiving(&mut self, index: u32) {
        if self.cq.hot.len() < HOT_MAX {
            self.make_hot(index);
        }
        self.cq.draining.push_back(index);
    }

    /// A queue pair receives no more.
    pub(crate) fn forget_receiving(&mut self, index: u32) {
        self.cq.hot.retain(|i| *i != index);
        self.cq.draining.retain(|i| *i != index);
    }

    fn make_hot(&mut self, index: u32) {
        if self.cq.hot.len() == HOT_MAX {
            let quiet = self.cq.hot.pop().expect("a full set");
            if let Some(entry) = self.qps[quiet as usize].as_mut() {
                entry.cold_hits = 0;
                entry.set_polled(false);
            }
            // A writer that still saw the ring polled has written before this returns.
            self.segment.settle();
            self.cq.draining.push_back(quiet);
        }
        self.cq.hot.push(index);
        if let Some(entry) = self.qps[index as usize].as_mut() {
            entry.set_polled(true);
        }
    }
}

#[inline]
fn is_ready(entry: &QpEntry) -> bool {
    entry.inbound.as_ref().is_some_and(|inbound| inbound.ring.is_ready())
}
