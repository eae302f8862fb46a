//! Room for connections: which of them are in use, and what the processes of a node do when their device has too few
//! queue pairs. Who lacks one gives up an idle connection of its own, and asks those that have most for one; who gives
//! one up tells somebody who lacks one. Words may get lost: attempts are repeated anyway.
use crate::endpoint::Endpoint;
use crate::knock::Word;
use crate::link::Link;
use fabric::{Context, ProviderKind};
use proto::ids::{Peer, Rank};
use proto::wireup::{StateName, Usage};

/// Processes that are asked for a queue pair at a time.
const ASKED_MAX: usize = 2;
/// A handshake through the kernel costs so much more than one in memory.
const REOPEN_SOCKETS: u32 = 4;

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

    /// The device had no queue pair for this process.
    pub(crate) fn lack(&mut self) {
        self.waits.lacking = self.waits.lacking.wrapping_add(1).max(1);
        self.context.want_qp(true);
        self.release_one();
        let mut holding = self.context.holding();
        // Those with most, each time others of them: some may compute.
        holding.sort_by_key(|(_, qps)| std::cmp::Reverse(*qps));
        let from = (self.waits.lacking as usize - 1) * ASKED_MAX % holding.len().max(1);
        let asked: Vec<u32> =
            holding.iter().cycle().skip(from).take(ASKED_MAX).map(|(slot, _)| *slot).collect();
        asked.into_iter().for_each(|slot| self.tell_slot(slot, Word::Lack));
    }

    /// A queue pair of this process was destroyed: somebody may have waited for that.
    pub(crate) fn gave_back(&mut self) {
        if self.waits.lacking > 0 {
            self.waits.retry = true;
        } else if self.context.qp_wanted() {
            let wanting = self.context.wanting();
            self.waits.told_room = self.waits.told_room.wrapping_add(1);
            if let Some(slot) = wanting.get(self.waits.told_room as usize % wanting.len().max(1)) {
                self.tell_slot(*slot, Word::Room);
            }
        }
    }

    /// Tries again what was refused a queue pair, if one may be had now; and says so when none is lacking any more.
    pub(crate) fn look_for_room(&mut self) {
        if self.waits.lacking == 0 {
            return;
        }
        if std::mem::take(&mut self.waits.retry) {
            let now_ns = self.now_ns();
            self.wireup.room_again(now_ns);
        }
        if !self.wireup.waiting().any(|waiting| waiting.state == StateName::Starved) {
            self.waits.lacking = 0;
            self.context.want_qp(false);
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
            Word::Room => self.waits.retry = true,
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
    let busy =
        !link.queue.is_empty() || !link.reads.is_empty() || context.is_busy(qp) || !context.is_drained(qp);
    let reopen_cost = if qp.provider() == ProviderKind::Sockets { REOPEN_SOCKETS } else { 1 };
    Usage { traffic: context.traffic(qp), busy, reopen_cost }
}
