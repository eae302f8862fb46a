//! Room for connections: which of them are in use, and what the processes of a node tell each other when their device has
//! too few queue pairs. Who gives one up and who gets it is decided in `proto::wireup`; here the node is read and words
//! are carried.
use crate::ahead::Parked;
use crate::endpoint::Endpoint;
use crate::link::Link;
use fabric::{Context, ProviderKind, QpWant};
use proto::ids::{Peer, PeerIx, Rank};
use proto::wireup::{DeviceWord, Lack, NodeDevice, Usage, Word};

/// A handshake through the kernel costs so much more than one in memory.
const REOPEN_SOCKETS: u32 = 4;

impl Endpoint {
    /// Somebody waits for a place within the budget.
    pub(crate) fn make_room(&mut self) {
        let now_ns = self.now_ns();
        let Endpoint { wireup, links, context, watch, .. } = self;
        let use_of = |ix: PeerIx| {
            let link = &links[ix.index()];
            let parked = watch.as_ref().map_or(Parked::No, |watch| watch.parked(ix, link.qp, context));
            usage(link, context, parked)
        };
        wireup.make_room(now_ns, use_of);
    }

    /// The device of this node, as it is now.
    pub(crate) fn node_device(&self) -> NodeDevice {
        let facts = self.context.facts();
        // Each process has one queue pair for datagrams.
        let holding = self.context.holding().into_iter();
        NodeDevice {
            max: facts.qp_max.saturating_sub(facts.slots),
            kept: self.context.kept_qps(),
            processes: facts.slots,
            holding: holding.map(|(slot, qps)| (slot, qps.saturating_sub(1))).collect(),
            wanting: self.context.wanting().into_iter().map(|(slot, want)| (slot, lack_of(want))).collect(),
        }
    }

    /// A queue pair of this process was destroyed: somebody may have waited for that, here or elsewhere on the node.
    pub(crate) fn gave_back(&mut self) {
        let now_ns = self.now_ns();
        if self.wireup.lack(now_ns).is_some() || self.context.qp_wanted() {
            let node = self.node_device();
            self.wireup.gave_back(&node, now_ns);
        }
    }

    /// Lets the other processes of the node know whether this one lacks a queue pair.
    pub(crate) fn say_if_lacking(&mut self) {
        let lack = self.wireup.lack(self.now_ns());
        if lack != std::mem::replace(&mut self.waits.lack, lack) {
            self.context.want_qp(lack.map(|lack| match lack {
                Lack::Spare => QpWant::Spare,
                Lack::Any => QpWant::Any,
            }));
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
            Word::Device(word) => self.hear_of_device(word),
        }
        self.carry_out();
    }

    fn hear_of_device(&mut self, word: DeviceWord) {
        let (node, now_ns) = (self.node_device(), self.now_ns());
        self.wireup.heard(word, &node, now_ns);
    }

    /// Says something to the process in a slot of this node.
    pub(crate) fn tell_slot(&mut self, slot: u32, word: DeviceWord) {
        // Who is asked looks whether somebody lacks one.
        self.say_if_lacking();
        let node = self.node_of(self.rank());
        let rank: Option<Rank> = self.job.facts.placement.ranks_of(node).nth(slot as usize);
        // The slot behind those of the ranks is the server's.
        let peer = rank.map(|rank| self.peer(rank)).or_else(|| self.own_server());
        let Some(peer) = peer.filter(|peer| *peer != self.me()) else { return };
        // Whoever has no card yet has no queue pair either; and what cannot be said now is said again.
        if let Ok(Some(card)) = self.card_of(peer) {
            let _ = self.context.knock(&card, &Word::Device(word).emit(self.me()));
        }
    }
}

fn lack_of(want: QpWant) -> Lack {
    match want {
        QpWant::Spare => Lack::Spare,
        QpWant::Any => Lack::Any,
    }
}

/// How a connection is used.
fn usage(link: &Link, context: &Context, parked: Parked) -> Usage {
    let Some(qp) = link.ready.or(link.qp.filter(|_| parked != Parked::No)) else {
        return Usage { busy: true, ..Usage::default() };
    };
    let spare = parked == Parked::Unused;
    let busy = !link.queue.is_empty() || link.has_reads() || context.is_busy(qp);
    let reopen_cost = if qp.provider() == ProviderKind::Sockets { REOPEN_SOCKETS } else { 1 };
    Usage { traffic: context.traffic(qp), busy, reopen_cost, spare }
}
