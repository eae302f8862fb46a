//! Connects to everybody before the program goes on, where the policy says so (`proto::wireup::policy`).
//!
//! ```text
//! by messages   fence; a handshake with each peer, one after the other by rank, or all at once
//! by the board  queue pairs for all peers; their numbers on the board; fence; each finds its own among those of the others
//! ```
//! The board serves those that share memory with this process; all others, and those of whom it tells nothing, are connected to
//! by messages, and so are those of other nodes where they share connections (`--xrc`). By turns, one process of the node after the other makes its queue pairs, so that numbers come in a row.
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
use proto::ids::{Peer, PeerIx, Rank};
use proto::stats::Stat;
use proto::wireup::auto::Shortage;
use proto::wireup::{
    self, Bulletin, Epoch, Exchange, NeedError, Numbers, Policy, Published, StateName, Trigger,
};
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
    /// Those that share memory, by rank, this process included.
    group: Vec<Rank>,
    /// That make and connect queue pairs, if they may all at once.
    threads: usize,
    warn_s: u64,
    create_ns: u64,
    put_ns: u64,
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
        // What the processes of a node share is made when the first of them is connected to.
        let board_is_for_all = config.is_on_one_host() && !self.context.card().shared;
        let is_told = |rank: &Rank| board_is_for_all || self.node_of(*rank) == self.node_of(self.rank());
        let group: Vec<Rank> = (0..self.job.size).map(Rank).filter(is_told).collect();
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
            group,
            threads: config.connect_threads,
            warn_s: config.warn_s,
            create_ns: 0,
            put_ns: 0,
        };
        let by_board = policy.exchange() != Exchange::Messages && !config.net.force;
        if by_board && (shortage.is_some() || self.context.is_unshared()) {
            // Others of the node may wait for it all the same.
            if policy.trigger() == Trigger::StartByTurns {
                self.await_turn(config.warn_s);
                self.context.end_turn();
            }
        } else if by_board {
            let bulletin = self.make_for(&everyone)?;
            everyone.create_ns = clock.lap();
            if let Some(bulletin) = bulletin {
                self.put_bulletin(&everyone, &bulletin)?;
            }
            everyone.put_ns = clock.lap();
        }
        Ok(Some(everyone))
    }

    /// Queue pairs for a group, in the order of ranks. `None`: none that few words could tell of.
    fn make_for(&mut self, everyone: &Everyone) -> Result<Option<Bulletin>, StartError> {
        let me = self.rank();
        for rank in everyone.group.iter().filter(|rank| **rank != me) {
            let ix = self.intern(Peer::Rank { job: self.job.id, rank: *rank })?;
            let now_ns = self.now_ns();
            let _ = self.wireup.ahead(ix, now_ns);
        }
        self.carry_out();
        let wanted = std::mem::take(&mut self.waits.aheads);
        let by_turns = everyone.policy.trigger() == Trigger::StartByTurns;
        if by_turns {
            self.await_turn(everyone.warn_s);
        }
        let begun_ns = self.now_ns();
        let ahead = self.context.create_ahead(ProviderKind::Soft, wanted.len(), everyone.threads());
        self.counters.qp_create_ns += self.now_ns() - begun_ns;
        if by_turns {
            self.context.end_turn();
        }
        let (qps, facts) = ahead.map_or_else(Default::default, |ahead| (ahead.qps, ahead.facts));
        let now_ns = self.now_ns();
        let mut told = true;
        for (place, (ix, (qp, number))) in (0..).zip(wanted.iter().zip(&qps)) {
            let Some(params) = self.context.ahead_params(ProviderKind::Soft, facts, place, *number) else {
                break;
            };
            self.made(*ix, *qp, params, now_ns);
            told &= self.wireup.published(*ix) == expected(params, place);
        }
        self.refuse_ahead(&wanted[qps.len()..]);
        self.carry_out();
        let numbers = Numbers::from_rising(qps.iter().map(|(_, number)| *number));
        self.counters.exchange_ranges += numbers.ranges() as u64;
        let bulletin = Bulletin { provider: ProviderKind::Soft as u8, facts, numbers };
        Ok(Some(bulletin).filter(|_| told && !qps.is_empty()))
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
            for (place, rank) in (0..).zip(everyone.group.iter().filter(|rank| **rank != me)) {
                if let Some(number) = bulletin.numbers.nth(place) {
                    put(pmi, &number_key(me, *rank), &number.to_string())?;
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
            put(pmi, &numbers_key(me, at), &value)?;
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
        let me = self.rank();
        let mine = everyone.group.iter().position(|rank| *rank == me).unwrap_or(0);
        let mut found = Vec::new();
        // Each begins behind itself: not all read the same at the same time.
        let all = everyone.group.iter().copied().enumerate();
        let (before, behind) = (all.clone().take(mine), all.skip(mine + 1));
        for (theirs, rank) in behind.chain(before) {
            let peer = Peer::Rank { job: self.job.id, rank };
            let ix = self.intern(peer)?;
            if self.wireup.state(ix) != StateName::Published {
                continue;
            }
            let card = self.card_of(peer).map_err(|cause| self.unreachable(ix, Arc::new(cause)))?;
            let card = card.and_then(|card| wireup::Card::new(&card.to_bytes()).ok());
            let Some(card) = card else { continue };
            // My place among those of the other one.
            let place = Bulletin::place_of(Rank(mine as u32), Rank(theirs as u32));
            let facts = self.facts_of(everyone, rank, place)?;
            found.push((ix, facts, card));
        }
        Ok(found)
    }

    /// What the board says of the queue pair that a peer has made for this process.
    fn facts_of(
        &mut self,
        everyone: &Everyone,
        rank: Rank,
        place: u32,
    ) -> Result<Option<Published>, StartError> {
        let Some(text) = self.get_pieces(rank)? else { return Ok(None) };
        let Ok(bulletin) = Bulletin::parse(&text) else { return Ok(None) };
        let number = match everyone.policy.exchange() {
            Exchange::Published => {
                let text = self.get(&number_key(rank, self.rank()))?;
                text.and_then(|text| text.parse().ok())
            }
            _ => bulletin.numbers.nth(place),
        };
        let kind = ProviderKind::Soft;
        if bulletin.provider != kind as u8 {
            return Ok(None);
        }
        let params = number.and_then(|number| self.context.ahead_params(kind, bulletin.facts, place, number));
        Ok(params.and_then(|params| expected(params, place)))
    }

    fn get_pieces(&mut self, rank: Rank) -> Result<Option<String>, StartError> {
        let Some(first) = self.get(&numbers_key(rank, 0))? else { return Ok(None) };
        let Some((count, mut text)) = first.split_once('.').map(|(count, text)| (count, text.to_string()))
        else {
            return Ok(Some(first));
        };
        let count = count.parse().ok().filter(|count| *count <= PIECES_MAX).unwrap_or(0);
        for piece in 1..count {
            match self.get(&numbers_key(rank, piece))? {
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

fn numbers_key(rank: Rank, piece: usize) -> String {
    if piece == 0 { format!("qps-{rank}") } else { format!("qps-{rank}-{piece}") }
}

fn number_key(owner: Rank, peer: Rank) -> String {
    format!("qp-{owner}-{peer}")
}
