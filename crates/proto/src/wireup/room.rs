//! The budget, as the driver meets it: places that get free, connections that go for others, who waits for what.
//! The rules are in [`super::budget`].
use super::budget::{Class, Usage};
use super::handshake::{Input, State, Tries};
use super::plant::Plant;
use super::{Action, Budget, IllegalInput, StateName, Wireup};
use crate::ids::{Peer, PeerIx};
use alloc::vec::Vec;
use core::fmt::{self, Debug};

impl<W: Clone + Debug> Wireup<W> {
    /// How many queue pairs there may be.
    pub fn budget(&self) -> Budget {
        Budget { queue_pairs: self.common.places.budget }
    }

    /// From now on there may be so many queue pairs. If there are more, connections are closed.
    pub fn set_budget(&mut self, budget: Budget, now_ns: u64) {
        self.common.places.budget = checked(budget);
        self.common.places.set_limit();
        self.settle(now_ns);
    }

    /// An [`Action::Destroy`] was carried out, or what [`qp_ready`](Self::qp_ready) refused as stale was destroyed: the
    /// queue pair is gone, and its place is free, unless others share it. Is it?
    pub fn destroyed(&mut self, ix: PeerIx, now_ns: u64) -> bool {
        self.common.places.orphans.remove(&ix);
        let early = self.common.planted.is(Plant::PlaceFreeTooEarly);
        let mut free = true;
        if !early || self.common.places.leaving > 0 {
            free = self.common.places.left(ix.index() as u32);
        }
        if free {
            self.common.places.passes_on(now_ns);
        }
        self.settle(now_ns);
        free
    }

    /// The answer to an [`Action::MakeRoom`]: how the connections are used. `usage` is asked for every connection that
    /// is ready; the least valuable are closed. How many.
    pub fn make_room(&mut self, now_ns: u64, usage: impl FnMut(PeerIx) -> Usage) -> usize {
        let most = self.common.places.ends_look(now_ns);
        let wanted = self.common.places.shortfall(now_ns);
        let found = self.evict(wanted, most, now_ns, usage);
        self.common.places.found(found, wanted, now_ns);
        self.settle(now_ns);
        found
    }

    /// Queue pairs of this process at this moment: made, being made, or not yet destroyed.
    pub fn queue_pairs(&self) -> u32 {
        self.common.places.used()
    }

    /// Who waits for a place, and for whose sake none is free, if somebody does: to say why a process waits.
    pub fn crowd(&self, now_ns: u64) -> Option<Crowd> {
        let limit = self.common.places.limit?;
        let named = |ix, since_ns| {
            let peer = self.who(ix).expect("the row is in use");
            Waits { peer, for_ns: now_ns.saturating_sub(since_ns) }
        };
        let state = |wanted: StateName| self.peers.iter().filter(move |row| row.2.name() == wanted);
        let since = |state: &State<W>| state.waits().map_or(now_ns, |Tries { since_ns, .. }| since_ns);
        let waiting: Vec<Waits> =
            state(StateName::Crowded).map(|(ix, _, state)| named(ix, since(state))).collect();
        if waiting.is_empty() {
            return None;
        }
        let closers = self.common.places.closers();
        let closing = closers.map(|(index, since_ns)| named(self.peers.ix_at(index), since_ns)).collect();
        let unanswered = state(StateName::Requesting).map(|(ix, _, state)| named(ix, since(state))).collect();
        let device = self.common.places.is_narrow();
        Some(Crowd { limit, device, waiting, closing, unanswered })
    }

    fn evict(
        &mut self,
        count: usize,
        most: Class,
        now_ns: u64,
        mut usage: impl FnMut(PeerIx) -> Usage,
    ) -> usize {
        if count == 0 {
            return 0;
        }
        self.common.places.round_ns = self.common.pace.unhurried_ns();
        let peers = &self.peers;
        let places = &mut self.common.places;
        let (found, victims) = places.victims(count, most, now_ns, |index| usage(peers.ix_at(index)));
        for &index in &victims {
            self.common.stats.evicted += 1;
            let closed: Result<(), IllegalInput> = self.turn(self.peers.ix_at(index), Input::Close, now_ns);
            closed.expect("what is ready can be closed");
        }
        found
    }

    /// Gives free places to those that wait, and asks for more if that is not enough. Called whenever a place may
    /// have become free or be needed.
    pub(super) fn settle(&mut self, now_ns: u64) {
        if self.common.places.is_calm() {
            return self.common.places.calm_down();
        }
        self.common.places.widen_if_long_ago(now_ns);
        while let Some(index) = self.common.places.next() {
            let ix = self.peers.ix_at(index);
            self.turn(ix, Input::Place, now_ns).expect("it waits for a place");
        }
        self.common.places.round_ns = self.common.pace.unhurried_ns();
        self.call_later(now_ns);
        if self.common.places.begins_look(now_ns) {
            self.common.actions.push_back(Action::MakeRoom);
        }
    }
}

/// The limit of a budget that makes sense.
pub(super) fn checked(budget: Budget) -> Option<u32> {
    let enough = budget.queue_pairs.is_none_or(|limit| limit >= Budget::QUEUE_PAIRS_MIN);
    assert!(enough, "{budget:?}: at least {} are needed", Budget::QUEUE_PAIRS_MIN);
    budget.queue_pairs
}

/// Who waits for a place among the queue pairs, and why none is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many queue pairs there may be.
    pub limit: u32,
    /// Is it so because the device of the node has no more?
    pub device: bool,
    /// To whom a connection is wanted.
    pub waiting: Vec<Waits>,
    /// Who was asked to close, or asks it, the longest first.
    pub closing: Vec<Waits>,
    /// Who has not answered a request.
    pub unanswered: Vec<Waits>,
}

/// A peer, and how long it has been waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The peer.
    pub peer: Peer,
    /// For how long.
    pub for_ns: u64,
}

/// Peers that are named in one line.
const NAMED_MAX: usize = 4;

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.waiting)?;
        let verb = if self.waiting.len() == 1 { "waits" } else { "wait" };
        write!(f, " {verb} for a place among {} queue pairs", self.limit)?;
        if self.device {
            f.write_str(" (the device of the node has no more)")?;
        }
        if !self.closing.is_empty() {
            f.write_str("; asked ")?;
            list(f, &self.closing)?;
            f.write_str(" to close")?;
            silence(f, &self.closing)?;
        }
        if !self.unanswered.is_empty() {
            f.write_str("; asked ")?;
            list(f, &self.unanswered)?;
            f.write_str(" to connect")?;
            silence(f, &self.unanswered)?;
        }
        Ok(())
    }
}

fn list(f: &mut fmt::Formatter<'_>, peers: &[Waits]) -> fmt::Result {
    for (at, waits) in peers.iter().take(NAMED_MAX).enumerate() {
        f.write_str(if at > 0 { ", " } else { "" })?;
        fmt::Display::fmt(&waits.peer, f)?;
    }
    match peers.len().saturating_sub(NAMED_MAX) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

fn silence(f: &mut fmt::Formatter<'_>, peers: &[Waits]) -> fmt::Result {
    let longest_ns = peers.iter().map(|waits| waits.for_ns).max().unwrap_or(0);
    match longest_ns / 1_000_000_000 {
        0 => Ok(()),
        seconds => write!(f, ", no answer for {seconds} s"),
    }
}
