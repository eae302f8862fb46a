//! Connects to everybody before the program goes on, where the policy says so (`proto::wireup::policy`).
//!
//! ```text
//! by messages   fence; a handshake with each peer, one after the other by rank, or all at once
//! by the board  queue pairs for all peers; their numbers on the board; fence; each finds its own among those of the others
//! ```
//! The board serves those that share memory with this process, and those that are reached through RDMA devices where that was asked
//! for (`--fabric verbs`); all others, and those of whom it tells nothing, are connected to by messages, and so are those of other
//! nodes where they share connections (`--xrc`). By turns, one process of the node after the other makes its queue pairs, so
//! that numbers come in a row; meanwhile it may use all cores of the node, to which others are bound.
//!
//! Where a budget or a device has no room for everybody, rank 0 says so and all connect on demand. All come to the same
//! conclusion; who was told something else (programs of a job may be) still takes part in turns and fences. Whoever finds
//! out only when it asks for a queue pair waits no longer for those it cannot have now.
use crate::api::{Cause, NetError};
use crate::choice::NO_ROOM;
use crate::endpoint::Endpoint;
use crate::pmi::Client;
use crate::start::{Config, StartError};
use crate::waiting::{Backoff, Patience, PhaseClock};
use fabric::ProviderKind;
use proto::env::FabricChoice;
use proto::ids::{NodeId, Peer, PeerIx, Rank};
use proto::stats::Stat;
use proto::wireup::auto::Shortage;
use proto::wireup::{
    self, Bulletin, Epoch, Exchange, NeedError, Numbers, Policy, Published, StateName, Trigger,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a process waits for its turn before it looks whether it has to say so.
const TURN_LOOK: Duration = Duration::from_secs(1);
/// What a board tells of a process's queue pairs: the pieces of its text.
const PIECES_MAX: usize = 1 << 12;

/// Which side of a pair asks for the connection?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Here,
    There,
}

/// What was begun before the fence.
#[derive(Debug)]
pub(crate) struct Everyone {
    policy: Policy,
    /// Is there no room for it?
    shortage: Option<Shortage>,
    /// Whom the board serves.
    served: Served,
    /// That make and connect queue pairs, if they may all at once.
    threads: usize,
    warn_s: u64,
    create_ns: u64,
    put_ns: u64,
}

/// Whom the board serves, and by which provider: the same for all processes of the job that were told the same.
#[derive(Debug)]
struct Served {
    /// Those who share memory: all, the processes of each node, or nobody.
    near: Near,
    /// Are others reached through RDMA devices?
    far: bool,
    size: u32,
    /// The ranks of each node, in order.
    nodes: HashMap<NodeId, Vec<Rank>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    All,
    Node,
    Nobody,
}

impl Served {
    /// The ranks of a node.
    fn mates(&self, node: NodeId) -> &[Rank] {
        self.nodes.get(&node).map_or(&[], |ranks| ranks)
    }

    /// By which provider, of a process on a node, is another one connected to?
    fn kind(&self, here: NodeId, there: NodeId) -> Option<ProviderKind> {
        match self.near {
            Near::All => Some(ProviderKind::Soft),
            Near::Node if here == there => Some(ProviderKind::Soft),
            Near::Node | Near::Nobody => self.far.then_some(ProviderKind::Verbs),
        }
    }

    /// The place of the queue pair that `owner` makes for `peer` among those it makes by the same provider, and how many it makes
    /// before these.
    fn place(&self, (owner, node): (Rank, NodeId), (peer, other): (Rank, NodeId)) -> (u32, u32) {
        let others = Bulletin::place_of(peer, owner);
        let mates = self.mates(node);
        let mates_before = mates.partition_point(|rank| *rank < peer) as u32;
        match self.near {
            Near::All | Near::Nobody => (others, 0),
            Near::Node if node == other => (mates_before - u32::from(owner < peer), 0),
            Near::Node => (peer.0 - mates_before, mates.len() as u32 - 1),
        }
    }
}

impl Everyone {
    /// Threads that make and connect queue pairs.
    fn threads(&self) -> usize {
        match self.policy.trigger() {
            Trigger::StartInOrder => 1,
            Trigger::StartByTurns | Trigger::Start | Trigger::FirstUse => self.threads.max(1),
        }
    }
}

impl Endpoint {
    /// Makes queue pairs for those that learn of them by the board, and puts them there.
    pub(crate) fn make_ahead(
        &mut self,
        config: &Config,
        shortage: Option<Shortage>,
    ) -> Result<Option<Everyone>, StartError> {
        let policy = self.job.connect.policy;
        if policy.trigger() == Trigger::FirstUse || self.job.size < 2 {
            return Ok(None);
        }
        let mut clock = PhaseClock::start();
        let served = self.served(config);
        if let Some(shortage) = shortage {
            self.job.connect = NO_ROOM;
            if self.rank().0 == 0 {
                let name = policy.name();
                eprintln!(
                    "banyan: warning: connecting {name} {shortage}; processes connect on demand instead"
                );
            }
        }
        let mut everyone = Everyone {
            policy,
            shortage,
            served,
            threads: config.connect_threads.unwrap_or_else(|| self.cores_for(policy)),
            warn_s: config.warn_s,
            create_ns: 0,
            put_ns: 0,
        };
        let is_served = everyone.served.near != Near::Nobody || everyone.served.far;
        let by_board = policy.exchange() != Exchange::Messages && is_served;
        let cannot = self.context.is_unshared() && everyone.served.near != Near::Nobody;
        if by_board && (shortage.is_some() || cannot) {
            // Others of the node may wait for it all the same.
            if policy.trigger() == Trigger::StartByTurns {
                self.await_turn(config.warn_s);
                self.context.end_turn();
            }
        } else if by_board {
            let bulletins = self.make_for(&everyone)?;
            everyone.create_ns = clock.lap();
            for bulletin in bulletins {
                self.put_bulletin(&everyone, &bulletin)?;
            }
            everyone.put_ns = clock.lap();
        }
        Ok(Some(everyone))
    }

    fn served(&self, config: &Config) -> Served {
        let mut nodes: HashMap<NodeId, Vec<Rank>> = HashMap::new();
        for rank in (0..self.job.size).map(Rank) {
            nodes.entry(self.node_of(rank)).or_default().push(rank);
        }
        // What the processes of a node share is made when the first of them is connected to.
        let is_shared = self.context.card().shared;
        let near = match config.net.force {
            true => Near::Nobody,
            false if config.is_on_one_host() && !is_shared => Near::All,
            false => Near::Node,
        };
        let is_rdma = matches!(config.net.fabric, FabricChoice::Verbs { .. });
        let far = is_rdma && self.context.card().verbs.is_some_and(|verbs| verbs.domain == 0);
        Served { near, far, size: self.job.size, nodes }
    }

    /// As many threads as a process has cores; by turns, it has those of its node.
    fn cores_for(&self, policy: Policy) -> usize {
        let of_node = self.context.facts().core_set.count();
        match policy.trigger() {
            Trigger::StartByTurns if of_node > 0 => of_node,
            _ => sys::cpu::cores(),
        }
    }

    /// Queue pairs for all who are served, by each provider in the order of ranks, and what is told of them; nothing, if few
    /// words could not tell of them.
    fn make_for(&mut self, everyone: &Everyone) -> Result<Vec<Bulletin>, StartError> {
        let (me, here) = (self.rank(), self.node_of(self.rank()));
        let by_turns = everyone.policy.trigger() == Trigger::StartByTurns;
        if by_turns {
            self.await_turn(everyone.warn_s);
        }
        let mut bulletins = Vec::new();
        let mut first = 0;
        for kind in [ProviderKind::Soft, ProviderKind::Verbs] {
            for rank in (0..everyone.served.size).map(Rank).filter(|rank| *rank != me) {
                if everyone.served.kind(here, self.node_of(rank)) == Some(kind) {
                    let ix = self.intern(Peer::Rank { job: self.job.id, rank })?;
                    let now_ns = self.now_ns();
                    let _ = self.wireup.ahead(ix, now_ns);
                }
            }
            self.carry_out();
            let wanted = std::mem::take(&mut self.waits.aheads);
            if !wanted.is_empty() {
                bulletins.extend(self.make_by(kind, &wanted, first, everyone.threads()));
                first += wanted.len() as u32;
            }
        }
        if by_turns {
            self.context.end_turn();
        }
        Ok(bulletins)
    }

    /// The same by one provider, which so many others are made before.
    fn make_by(
        &mut self,
        kind: ProviderKind,
        wanted: &[PeerIx],
        first: u32,
        threads: usize,
    ) -> Option<Bulletin> {
        let begun_ns = self.now_ns();
        let ahead = self.context.create_ahead(kind, wanted.len(), threads);
        self.counters.qp_create_ns += self.now_ns() - begun_ns;
        let (qps, facts) = ahead.map_or_else(Default::default, |ahead| (ahead.qps, ahead.facts));
        let now_ns = self.now_ns();
        let mut told = true;
        for (place, (ix, (qp, number))) in (0..).zip(wanted.iter().zip(&qps)) {
            let Some(params) = self.context.ahead_params(kind, facts, place, *number) else {
                break;
            };
            self.made(*ix, *qp, params, now_ns);
            told &= self.wireup.published(*ix) == expected(params, first + place);
        }
        self.refuse_ahead(&wanted[qps.len()..]);
        self.carry_out();
        let numbers = Numbers::from_rising(qps.iter().map(|(_, number)| *number));
        self.counters.exchange_ranges += numbers.ranges() as u64;
        let bulletin = Bulletin { provider: kind as u8, facts, numbers };
        Some(bulletin).filter(|_| told && !qps.is_empty())
    }

    /// There are no queue pairs for these any more.
    pub(crate) fn refuse_ahead(&mut self, wanted: &[PeerIx]) {
        for ix in wanted {
            let now_ns = self.now_ns();
            let _ = self.wireup.qp_refused(*ix, Arc::new(Cause::NoCard), now_ns);
        }
    }

    /// Waits until the processes of the node before this one have made theirs. (If one of them dies, the job ends.)
    fn await_turn(&mut self, warn_s: u64) {
        let mut patience = Patience::new(warn_s);
        let (me, node) = (self.rank(), self.node_of(self.rank()));
        let before = (0..me.0).rev().map(Rank).find(|rank| self.node_of(*rank) == node);
        while !self.context.wait_turn(TURN_LOOK) {
            self.exit_if_abandoned();
            if let (Some(waited_s), Some(before)) = (patience.runs_out(), before) {
                eprintln!(
                    "banyan: rank {me} has waited {waited_s} s for rank {before} on node {node} to make queue pairs"
                );
            }
        }
    }

    fn put_bulletin(&mut self, everyone: &Everyone, bulletin: &Bulletin) -> Result<(), StartError> {
        let me = self.rank();
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(()) };
        let counters = &mut self.counters;
        let mut put = |pmi: &mut Client, key: &str, value: &str| {
            counters.exchange_puts += 1;
            counters.exchange_bytes += value.len() as u64;
            pmi.put(key, value)
        };
        let mut text = bulletin.to_text(everyone.policy.exchange());
        if everyone.policy.exchange() == Exchange::Published {
            // Each under a key of its own; what holds of all of them as a bulletin without numbers.
            let facts = &self.job.facts;
            let here = facts.node_of(me);
            let is_of_it = |rank: &Rank| {
                *rank != me
                    && everyone.served.kind(here, facts.node_of(*rank)).map(|kind| kind as u8)
                        == Some(bulletin.provider)
            };
            for (place, rank) in (0..).zip((0..everyone.served.size).map(Rank).filter(is_of_it)) {
                if let Some(number) = bulletin.numbers.nth(place) {
                    put(pmi, &number_key(me, rank), &number.to_string())?;
                }
            }
            text = Bulletin { numbers: Numbers::default(), ..bulletin.clone() }.to_text(Exchange::Ranges);
        }
        // The first piece says how many there are.
        let most = pmi.value_max(text.len())?.saturating_sub(8).max(1);
        let pieces: Vec<&str> =
            text.as_bytes().chunks(most).filter_map(|piece| str::from_utf8(piece).ok()).collect();
        for (at, piece) in pieces.iter().enumerate() {
            let value = match at {
                0 if pieces.len() > 1 => format!("{}.{piece}", pieces.len()),
                _ => (*piece).to_string(),
            };
            put(pmi, &numbers_key(bulletin.provider, me, at), &value)?;
        }
        Ok(())
    }

    /// Connects to everybody, and waits until all are there. What that has taken, with what was done before the fence.
    pub(crate) fn connect_everyone(&mut self, everyone: Option<Everyone>) -> Result<u64, StartError> {
        let Some(everyone) = everyone else { return Ok(0) };
        let mut clock = PhaseClock::start();
        if everyone.shortage.is_some() {
            if everyone.policy.exchange() == Exchange::Published {
                self.meet_again()?;
            }
            return Ok(0);
        }
        self.await_fence()?;
        let found = match everyone.policy.exchange() {
            Exchange::Messages => Vec::new(),
            _ => self.read_bulletins(&everyone)?,
        };
        let exchange_ns = everyone.put_ns + clock.lap();
        // By as many threads as have made them.
        for together in found.chunks(everyone.threads()) {
            let connecting = together.iter().filter(|(_, facts, _)| facts.is_some()).count();
            self.context.ready_together(ProviderKind::Soft, connecting);
            for (ix, facts, card) in together {
                let now_ns = self.now_ns();
                self.wireup.facts(*ix, *facts, *card, now_ns).expect("it was published, or is past that");
                self.carry_out();
            }
        }
        self.context.ready_together(ProviderKind::Soft, 0);
        let me = self.rank();
        let peers = (0..self.job.size).map(Rank).filter(|rank| *rank != me);
        if everyone.policy == Policy::StaticSerial(Exchange::Messages) {
            // Of a pair, the higher rank asks.
            for rank in peers {
                let ix = self.intern(Peer::Rank { job: self.job.id, rank })?;
                let asks = if rank < me { Asks::Here } else { Asks::There };
                if asks == Asks::Here {
                    self.need(ix);
                }
                self.await_ready(&[ix], asks)?;
            }
        } else {
            let job = self.job.id;
            let all: Result<Vec<PeerIx>, NetError> =
                peers.map(|rank| self.intern(Peer::Rank { job, rank })).collect();
            let all = all?;
            all.iter().for_each(|ix| self.need(*ix));
            self.await_ready(&all, Asks::Here)?;
        }
        let connect_ns = clock.lap();
        if everyone.policy.exchange() == Exchange::Published {
            self.meet_again()?;
        }
        let phases = [
            (Stat::InitCreate, everyone.create_ns),
            (Stat::InitExchange, exchange_ns + clock.lap()),
            (Stat::InitConnect, connect_ns),
        ];
        phases.into_iter().for_each(|(stat, ns)| self.context.publish_stat(stat as usize, ns));
        Ok(phases.into_iter().map(|(_, ns)| ns).sum())
    }

    /// A fence behind the first one.
    fn meet_again(&mut self) -> Result<(), StartError> {
        self.await_fence()?;
        self.job.pmi.as_mut().map_or(Ok(()), |pmi| pmi.fence_begin())?;
        self.await_fence()
    }

    /// The peers whose queue pairs wait here for what the board says of the other end, and what it says.
    fn read_bulletins(
        &mut self,
        everyone: &Everyone,
    ) -> Result<Vec<(PeerIx, Option<Published>, wireup::Card)>, StartError> {
        let (me, here) = (self.rank(), self.node_of(self.rank()));
        let mut found = Vec::new();
        // Each begins behind itself: not all read the same at the same time.
        let size = everyone.served.size;
        for rank in (me.0 + 1..size).chain(0..me.0).map(Rank) {
            let there = self.node_of(rank);
            let Some(kind) = everyone.served.kind(here, there) else { continue };
            let peer = Peer::Rank { job: self.job.id, rank };
            let ix = self.intern(peer)?;
            if self.wireup.state(ix) != StateName::Published {
                continue;
            }
            let card = self.card_of(peer).map_err(|cause| self.unreachable(ix, Arc::new(cause)))?;
            let card = card.and_then(|card| wireup::Card::new(&card.to_bytes()).ok());
            let Some(card) = card else { continue };
            // My place among those of the other one.
            let place = everyone.served.place((rank, there), (me, here));
            let facts = self.facts_of(everyone, kind, rank, place)?;
            found.push((ix, facts, card));
        }
        Ok(found)
    }

    /// What the board says of the queue pair that a peer has made for this process.
    fn facts_of(
        &mut self,
        everyone: &Everyone,
        kind: ProviderKind,
        rank: Rank,
        (place, before): (u32, u32),
    ) -> Result<Option<Published>, StartError> {
        let Some(text) = self.get_pieces(kind as u8, rank)? else { return Ok(None) };
        let Ok(bulletin) = Bulletin::parse(&text) else { return Ok(None) };
        let number = match everyone.policy.exchange() {
            Exchange::Published => {
                let text = self.get(&number_key(rank, self.rank()))?;
                text.and_then(|text| text.parse().ok())
            }
            _ => bulletin.numbers.nth(place),
        };
        if bulletin.provider != kind as u8 {
            return Ok(None);
        }
        let params = number.and_then(|number| self.context.ahead_params(kind, bulletin.facts, place, number));
        Ok(params.and_then(|params| expected(params, before + place)))
    }

    fn get_pieces(&mut self, provider: u8, rank: Rank) -> Result<Option<String>, StartError> {
        let Some(first) = self.get(&numbers_key(provider, rank, 0))? else { return Ok(None) };
        let Some((count, mut text)) = first.split_once('.').map(|(count, text)| (count, text.to_string()))
        else {
            return Ok(Some(first));
        };
        let count = count.parse().ok().filter(|count| *count <= PIECES_MAX).unwrap_or(0);
        for piece in 1..count {
            match self.get(&numbers_key(provider, rank, piece))? {
                Some(more) => text += &more,
                None => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    /// From the node's memory, or from the process manager.
    fn get(&mut self, key: &str) -> Result<Option<String>, StartError> {
        self.counters.exchange_gets += 1;
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(None) };
        match pmi.get_here(key) {
            Some(value) => Ok(Some(value)),
            None => Ok(pmi.get(key)?),
        }
    }

    /// Waits for the others, and answers them meanwhile.
    pub(crate) fn await_fence(&mut self) -> Result<(), StartError> {
        let mut patience = Patience::new(self.job.warn_s);
        while !self.fence_is_over() {
            // (What is answered ends this sleep, too.)
            self.waits.questions = true;
            if !self.progress() {
                self.sleep_until_news();
            }
            if let Some(waited_s) = patience.runs_out() {
                eprintln!("banyan: rank {} has waited {waited_s} s for other ranks to start", self.rank());
            }
        }
        self.waits.questions = false;
        self.job.pmi.as_mut().map_or(Ok(()), |pmi| pmi.fence_end()).map_err(StartError::from)
    }

    /// Waits until all have been ready, or cannot be now.
    fn await_ready(&mut self, all: &[PeerIx], asks: Asks) -> Result<(), StartError> {
        let mut backoff = Backoff::default();
        for ix in all {
            loop {
                match self.wireup.state(*ix) {
                    // (Who has less room may have closed it again.)
                    StateName::Ready | StateName::Draining | StateName::Closing | StateName::Yielding => {
                        break;
                    }
                    StateName::Idle if asks == Asks::Here => break,
                    StateName::Starved | StateName::Crowded => break,
                    StateName::Failed => {
                        let now_ns = self.now_ns();
                        if let Err(NeedError::Lost { why, .. }) = self.wireup.need(*ix, now_ns) {
                            return Err(self.unreachable(*ix, why).into());
                        }
                    }
                    _ => {}
                }
                if !self.progress() {
                    self.pause(&mut backoff);
                }
            }
        }
        Ok(())
    }
}

/// What a process that has connected to nobody before says of the queue pair at a place: all of it follows from that.
fn expected(params: wireup::Params, place: u32) -> Option<Published> {
    let name = PeerIx::new(place as usize + 1, 0).to_wire();
    Some(Published { epoch: Epoch::new(place + 1)?, params, name })
}

fn numbers_key(provider: u8, rank: Rank, piece: usize) -> String {
    if piece == 0 { format!("qps{provider}-{rank}") } else { format!("qps{provider}-{rank}-{piece}") }
}

fn number_key(owner: Rank, peer: Rank) -> String {
    format!("qp-{owner}-{peer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_where_the_owner_makes_that_queue_pair() {
        let node_of = |rank: Rank| NodeId([0, 1, 0, 2, 1, 1, 0][rank.0 as usize]);
        let ranks = || (0..7).map(Rank);
        let mut nodes: HashMap<NodeId, Vec<Rank>> = HashMap::new();
        ranks().for_each(|rank| nodes.entry(node_of(rank)).or_default().push(rank));
        for (near, far) in [(Near::All, false), (Near::Node, false), (Near::Node, true), (Near::Nobody, true)]
        {
            let served = Served { near, far, size: 7, nodes: nodes.clone() };
            for owner in ranks() {
                let kind = |peer: Rank| served.kind(node_of(owner), node_of(peer));
                let served = &served;
                let by = |kind: Option<ProviderKind>| {
                    let peers = ranks().filter(move |peer| *peer != owner);
                    peers.filter(move |peer| served.kind(node_of(owner), node_of(*peer)) == kind)
                };
                for peer in ranks().filter(|peer| *peer != owner && kind(*peer).is_some()) {
                    let place = by(kind(peer)).position(|other| other == peer).unwrap() as u32;
                    let before = match kind(peer) {
                        Some(ProviderKind::Verbs) => by(Some(ProviderKind::Soft)).count() as u32,
                        _ => 0,
                    };
                    let found = served.place((owner, node_of(owner)), (peer, node_of(peer)));
                    assert_eq!(found, (place, before), "{near:?} {owner} {peer}");
                }
            }
        }
    }
}
