//! Room for connections: which of them are in use, and what the processes of a node do when their device has too few
//! queue pairs. Who lacks one gives up an idle connection of its own, and asks those that have most for one; who gives
//! one up tells somebody who lacks one. Words may get lost: attempts are repeated anyway.
use crate::endpoint::Endpoint;
use crate::knock::Word;
use crate::link::Link;
use fabric::{Context, ProviderKind};
use proto::ids::{Peer, Rank};
use proto::wireup::{Budget, StateName, Usage};
use std::cmp::Reverse;

/// Processes that are asked for a queue pair at a time.
const ASKED_MAX: usize = 2;
/// A handshake through the kernel costs so much more than one in memory.
const REOPEN_SOCKETS: u32 = 4;

/// What a process knows of the lack of queue pairs on its node.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// So many queue pairs it makes do with, since the node's device has no more.
    narrow: Option<u32>,
    /// How often the device had none.
    refused: u32,
    /// Is it worth to try again?
    retry: bool,
    /// How often somebody else was told that there may be one, and whether it is this process's turn.
    told: u32,
    my_turn: bool,
}

impl Endpoint {
    /// Somebody waits for a place within the budget.
    pub(crate) fn make_room(&mut self) {
        let now_ns = self.now_ns();
        let Endpoint { wireup, links, context, .. } = self;
        wireup.make_room(now_ns, |ix| usage(&links[ix.index()], context));
    }

    /// Closes an idle connection, if there is one.
    fn release_one(&mut self) {
        let now_ns = self.now_ns();
        let Endpoint { wireup, links, context, .. } = self;
        wireup.release(1, now_ns, |ix| usage(&links[ix.index()], context));
    }

    /// The device had no queue pair for this process, which makes do with those it has from now on: whoever else it needs
    /// waits for one of them. It asks others for one, since it may have none at all.
    pub(crate) fn lack(&mut self) {
        self.waits.room.refused = self.waits.room.refused.wrapping_add(1);
        self.narrow_to(self.wireup.queue_pairs());
        self.context.want_qp(true);
        self.release_one();
        let mut holding = self.context.holding();
        // Those with most, each time others of them: some may compute.
        holding.sort_by_key(|(_, qps)| Reverse(*qps));
        let from = self.waits.room.refused as usize * ASKED_MAX % holding.len().max(1);
        let asked: Vec<u32> =
            holding.iter().cycle().skip(from).take(ASKED_MAX).map(|(slot, _)| *slot).collect();
        asked.into_iter().for_each(|slot| self.tell_slot(slot, Word::Lack));
    }

    /// Makes do with so many queue pairs, while the device has no more.
    fn narrow_to(&mut self, most: u32) {
        let now_ns = self.now_ns();
        let most = most.max(Budget::QUEUE_PAIRS_MIN).min(self.job.qp_budget.unwrap_or(u32::MAX));
        self.waits.room.narrow = Some(most);
        self.wireup.set_budget(Budget { queue_pairs: Some(most) }, now_ns);
    }

    /// A queue pair of this process was destroyed: somebody may have waited for that, here or elsewhere on the node.
    pub(crate) fn gave_back(&mut self) {
        let mine = self.waits.room.narrow.is_some() && self.has_starved();
        if self.context.qp_wanted() && !(mine && std::mem::replace(&mut self.waits.room.my_turn, false)) {
            self.waits.room.my_turn = true;
            self.waits.room.told = self.waits.room.told.wrapping_add(1);
            let wanting = self.context.wanting();
            if let Some(slot) = wanting.get(self.waits.room.told as usize % wanting.len().max(1)) {
                self.tell_slot(*slot, Word::Room);
            }
        } else if mine {
            self.waits.room.retry = true;
        }
    }

    fn has_starved(&self) -> bool {
        self.wireup.waiting().any(|waiting| waiting.state == StateName::Starved)
    }

    /// Tries again what was refused a queue pair, if one may be had now; and says so when none is lacking any more.
    pub(crate) fn look_for_room(&mut self) {
        let Some(most) = self.waits.room.narrow else { return };
        let now_ns = self.now_ns();
        if std::mem::take(&mut self.waits.room.retry) {
            self.narrow_to(most + 1);
            self.wireup.room_again(now_ns);
        }
        let wants = self.wireup.stats().crowded_now > 0 || self.has_starved();
        self.context.want_qp(wants);
        if !wants && !self.context.qp_wanted() {
            self.waits.room.narrow = None;
            self.wireup.set_budget(Budget { queue_pairs: self.job.qp_budget }, now_ns);
        }
    }

    /// A word of another process of this host.
    pub(crate) fn hear(&mut self, word: Word, by: Peer) {
        match word {
            Word::Call => {
                if let Ok(ix) = self.intern(by)
                    && ix != Self::SELF
                {
                    self.need(ix);
                }
            }
            Word::Lack => {
                if self.context.qp_wanted() {
                    self.release_one();
                }
            }
            Word::Room => self.waits.room.retry = true,
        }
        self.look_for_room();
        self.carry_out();
    }

    /// Says something to the process in a slot of this node.
    fn tell_slot(&mut self, slot: u32, word: Word) {
        let node = self.node_of(self.rank());
        let rank: Option<Rank> = self.job.facts.placement.ranks_of(node).nth(slot as usize);
        let Some(rank) = rank.filter(|rank| *rank != self.rank()) else { return };
        let peer = Peer::Rank { job: self.job.id, rank };
        // Whoever has no card yet has no queue pair either; and what cannot be said now is said again.
        if let Ok(Some(card)) = self.card_of(peer) {
            let _ = self.context.knock(&card, &word.emit(self.me()));
        }
    }
}

/// How a connection is used.
fn usage(link: &Link, context: &Context) -> Usage {
    let Some(qp) = link.ready else { return Usage { busy: true, ..Usage::default() } };
    let busy = !link.queue.is_empty() || !link.reads.is_empty() || context.is_busy(qp);
    let reopen_cost = if qp.provider() == ProviderKind::Sockets { REOPEN_SOCKETS } else { 1 };
    Usage { traffic: context.traffic(qp), busy, reopen_cost }
}
