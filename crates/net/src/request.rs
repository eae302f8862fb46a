//! Messages in progress: a slab whose ids carry a generation.
use crate::api::{Envelope, NetError, Outcome, ReqId};
use crate::remote::Accessing;
use crate::wire::{Offer, REQUEST_MAX};
use fabric::{MrKey, ProviderKind};
use proto::ids::PeerIx;
use proto::matching::PostedKey;
use sys::{UserBuf, UserBufMut};

/// What a send lends to its receiver.
#[derive(Debug)]
pub(crate) enum Lent {
    /// The program's buffer.
    User(UserBuf),
    /// A copy.
    Own(Box<[u8]>),
}

impl Lent {
    pub fn len(&self) -> usize {
        match self {
            Lent::User(buf) => buf.len(),
            Lent::Own(bytes) => bytes.len(),
        }
    }
}

/// A receive that reads the sender's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub buf: UserBufMut,
    pub offer: Offer,
    pub end: Outcome,
}

/// A receive that has read a part of the sender's memory, while the sender writes the rest.
#[derive(Debug)]
pub(crate) struct Sharing {
    pub reading: Reading,
    /// Registration of the receiver's memory.
    pub key: (ProviderKind, MrKey),
    /// Bytes that the sender writes.
    pub missing: usize,
    /// Was this side's part read well? Then the sender has been told, and hears no more if it has written well.
    pub read: bool,
}

/// Where a message is.
#[derive(Debug)]
pub(crate) enum State {
    /// A send that waits in its link's queue.
    SendQueued,
    /// A send whose bytes the device is taking.
    SendPosted { to: PeerIx },
    /// A send that waits for the receiver: for its match (synchronous), or until it has read the buffer.
    SendOffered {
        data: Lent,
        /// Registration of the buffer.
        key: Option<(ProviderKind, MrKey)>,
        to: PeerIx,
        /// By what it is matched: for who hears that it is not.
        envelope: Envelope,
        /// Does its caller do nothing but wait?
        waits: bool,
        /// Bytes of its beginning that were sent with the offer, and of no use as far as is known.
        headed: usize,
        /// Could parts that this side was to write not be written? The receiver reads all of it then.
        unwritten: bool,
    },
    /// A receive without a message.
    ReceivePosted {
        buf: UserBufMut,
        /// Cancels it.
        key: PostedKey,
    },
    /// A receive whose bytes the device is placing; `answer` is the sender's request if it waits for the match.
    ReceivePlaced { end: Outcome, answer: Option<u32> },
    /// A receive that reads the sender's memory.
    ReceiveReading(Box<Reading>),
    /// A receive that reads while the sender writes.
    ReceiveShared(Box<Sharing>),
    /// A receive whose bytes come in fragments.
    ReceiveStreaming {
        buf: UserBufMut,
        /// Bytes still to come, beyond the end of the buffer too.
        missing: u64,
        end: Outcome,
    },
    /// A read or write of a peer's memory.
    Accessing(Accessing),
    /// Ended.
    Done(Result<Outcome, Box<NetError>>),
}

impl State {
    /// A send that only waits for its match.
    pub fn offered(data: Lent, to: PeerIx, envelope: Envelope) -> State {
        State::SendOffered { data, key: None, to, envelope, waits: false, headed: 0, unwritten: false }
    }

    /// The peer without which it cannot end, if that is one.
    pub fn waits_for(&self) -> Option<PeerIx> {
        match self {
            State::SendPosted { to } | State::SendOffered { to, .. } => Some(*to),
            State::ReceiveReading(reading) => Some(reading.end.source),
            State::ReceiveShared(sharing) => Some(sharing.reading.end.source),
            State::ReceivePlaced { end, .. } | State::ReceiveStreaming { end, .. } => Some(end.source),
            State::Accessing(accessing) => Some(accessing.peer),
            State::SendQueued | State::ReceivePosted { .. } | State::Done(_) => None,
        }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    forgotten: bool,
    state: Option<State>,
}

/// All messages in progress.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Messages whose beginning comes next: the sender, its request, and the receive that takes it, if there is one.
    heads: Vec<(PeerIx, u32, Option<ReqId>)>,
    /// Messages that have ended: another thread may wait for one of them.
    ended: u64,
}

impl Requests {
    #[inline]
    pub fn insert(&mut self, state: State) -> ReqId {
        match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.state = Some(state);
                ReqId { index, generation: slot.generation }
            }
            None => {
                let index = self.slots.len() as u32;
                // Every kind of message may be named on the wire, where the index has 24 bits.
                assert!(index <= REQUEST_MAX, "more than {REQUEST_MAX} messages in progress");
                self.slots.push(Slot { generation: 0, forgotten: false, state: Some(state) });
                ReqId { index, generation: 0 }
            }
        }
    }

    /// An id for a message whose state follows at once ([`Requests::begin`]).
    #[inline(always)]
    pub fn reserve(&mut self) -> ReqId {
        match self.free.pop() {
            Some(index) => ReqId { index, generation: self.slots[index as usize].generation },
            None => self.insert(State::SendQueued),
        }
    }

    /// The first state of a message with an id that was reserved.
    #[inline(always)]
    pub fn begin(&mut self, id: ReqId, state: State) {
        // What a reserved id has as its state, if anything, holds nothing that would have to be dropped.
        std::mem::forget(self.slots[id.index as usize].state.replace(state));
    }

    /// How a message ended, if it did, and well; its id is free then.
    #[inline(always)]
    pub fn take_end(&mut self, id: ReqId) -> Option<Outcome> {
        let slot = self.slots.get_mut(id.index as usize)?;
        let Some(State::Done(Ok(end))) = slot.state else { return None };
        if slot.generation != id.generation || end.cancelled || end.truncated {
            return None;
        }
        slot.state = None;
        slot.generation = slot.generation.wrapping_add(1);
        slot.forgotten = false;
        self.free.push(id.index);
        Some(end)
    }

    #[inline]
    pub fn get(&self, id: ReqId) -> Option<&State> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.state.as_ref() } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, id: ReqId) -> Option<&mut State> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.state.as_mut() } else { None }
    }

    /// The live request in a slot that a peer named: peers send the index only.
    pub fn by_index(&self, index: u32) -> Option<ReqId> {
        let slot = self.slots.get(index as usize)?;
        slot.state.as_ref().map(|_| ReqId { index, generation: slot.generation })
    }

    /// Sets a new state and returns the old one. A forgotten message that is done goes away.
    #[inline]
    pub fn replace(&mut self, id: ReqId, state: State) -> Option<State> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation || slot.state.is_none() {
            return None;
        }
        let done = matches!(state, State::Done(_));
        self.ended = self.ended.wrapping_add(u64::from(done));
        let old = slot.state.replace(state);
        if done && slot.forgotten {
            self.remove(id);
        }
        old
    }

    /// A message has ended. As [`Requests::replace`], but the old state is not copied out.
    #[inline(always)]
    pub fn finish(&mut self, id: ReqId, outcome: Outcome) {
        self.set(id, State::Done(Ok(outcome)));
        self.ended = self.ended.wrapping_add(1);
        if self.slots[id.index as usize].forgotten {
            self.forget(id);
        }
    }

    /// The same for a receive that was posted: it holds nothing that would have to be dropped.
    #[inline(always)]
    pub fn finish_posted(&mut self, id: ReqId, outcome: Outcome) {
        let Some(slot) = self.slots.get_mut(id.index as usize) else { return };
        if slot.generation != id.generation {
            return;
        }
        debug_assert!(matches!(slot.state, Some(State::ReceivePosted { .. })));
        std::mem::forget(slot.state.replace(State::Done(Ok(outcome))));
        self.ended = self.ended.wrapping_add(1);
        if slot.forgotten {
            self.forget(id);
        }
    }

    /// Sets a state that is not the last one.
    #[inline(always)]
    pub fn set(&mut self, id: ReqId, state: State) {
        match self.slots.get_mut(id.index as usize) {
            Some(slot) if slot.generation == id.generation && slot.state.is_some() => {
                slot.state = Some(state)
            }
            _ => {}
        }
    }

    #[inline]
    pub fn remove(&mut self, id: ReqId) -> Option<State> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let state = slot.state.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.forgotten = false;
        self.free.push(id.index);
        Some(state)
    }

    /// Lets a message end by itself.
    pub fn forget(&mut self, id: ReqId) {
        if matches!(self.get(id), Some(State::Done(_))) {
            self.remove(id);
        } else if let Some(slot) = self.slots.get_mut(id.index as usize) {
            slot.forgotten |= slot.generation == id.generation;
        }
    }

    /// The beginning of a message comes next from its sender.
    pub fn head_comes(&mut self, from: PeerIx, request: u32) {
        self.forget_heads(from); // of one whose connection broke it never came
        self.heads.push((from, request, None));
    }

    /// Nothing more comes from a peer.
    pub fn forget_heads(&mut self, from: PeerIx) {
        self.heads.retain(|(peer, ..)| *peer != from);
    }

    /// Has the beginning of a message, which is still to come, given to a receive. `false`: it has passed by.
    pub fn expect_head(&mut self, from: PeerIx, request: u32, id: ReqId) -> bool {
        let mut heads = self.heads.iter_mut();
        let head = heads.find(|(peer, of, _)| (*peer, *of) == (from, request));
        head.map(|(.., taker)| *taker = Some(id)).is_some()
    }

    /// Who takes a part of the beginning of a sender's message, if anybody does. What nobody takes has passed by, and so has
    /// what follows it.
    pub fn take_head(&mut self, from: PeerIx, request: u32, last: bool) -> Option<ReqId> {
        let at = self.heads.iter().position(|(peer, of, _)| (*peer, *of) == (from, request))?;
        let taker = self.heads[at].2;
        if last || taker.is_none() {
            self.heads.swap_remove(at);
        }
        taker
    }

    /// How many messages have ended so far.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Messages that have not ended, receives excluded.
    pub fn sends_open(&self) -> usize {
        use State::{Accessing, SendOffered, SendPosted, SendQueued};
        let is_open = |s: &&Slot| {
            matches!(s.state, Some(SendQueued | SendPosted { .. } | SendOffered { .. } | Accessing(_)))
        };
        self.slots.iter().filter(is_open).count()
    }

    /// The states of all messages in progress.
    pub fn states(&self) -> impl Iterator<Item = &State> {
        self.slots.iter().filter_map(|slot| slot.state.as_ref())
    }

    /// Every live request whose state `f` accepts.
    pub fn ids_where(&self, f: impl Fn(&State) -> bool) -> Vec<ReqId> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.state.as_ref().is_some_and(&f))
            .map(|(index, slot)| ReqId { index: index as u32, generation: slot.generation })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> State {
        State::Done(Err(Box::new(NetError::StaleRequest)))
    }

    #[test]
    fn a_stale_id_finds_nothing() {
        let mut requests = Requests::default();
        let first = requests.insert(State::SendQueued);
        assert!(requests.remove(first).is_some());
        let second = requests.insert(State::SendQueued);
        assert_eq!(first.index, second.index);
        assert!(requests.get(first).is_none() && requests.remove(first).is_none());
        assert!(requests.get(second).is_some());
    }

    #[test]
    fn a_forgotten_message_goes_away_when_it_ends() {
        let mut requests = Requests::default();
        let id = requests.insert(State::SendQueued);
        requests.forget(id);
        assert_eq!(requests.sends_open(), 1);
        requests.replace(id, done());
        assert!(requests.get(id).is_none());
    }
}
