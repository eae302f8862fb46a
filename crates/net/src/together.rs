//! Everybody connects to everybody while a program runs, because a collective is about to have everyone send to everyone
//! (`proto::coll::meeting`): each makes queue pairs for all others, all tell all in few messages, and nobody asks anybody. A handshake
//! of its own for each pair takes longer, above all where processes share cores: each has to wait for a peer that is not running.
//!
//! Only by `--connect auto`, and only inside a host. That all members do so follows from what all know; whom a member offers
//! something is its own affair. Who offers nothing, and who is met otherwise in between, is connected to by messages.
use crate::api::Cause;
use crate::endpoint::Endpoint;
use crate::start::Config;
use fabric::ProviderKind;
use proto::ids::{PeerIx, Process};
use proto::wireup::auto::{Asked, Choice, Facts};
use proto::wireup::{self, Published, StateName, Trigger};

/// A record for a peer.
pub type Record = [u8; Published::BYTES];

/// Fewer processes are as fast without.
const MEMBERS_MIN: u32 = 16;
/// What more of them tell each other is too much for one process's memory.
const MEMBERS_MAX: u32 = 1024;

/// How processes connect together, if they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    threads: usize,
}

impl Together {
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Together { threads: 2 }
    }

    /// The same for all processes that were told the same. Programs of one job may not have been: then some would wait for what
    /// others do not send.
    pub(crate) fn new(config: &Config, choice: Choice, facts: &Facts, card: &fabric::Card) -> Option<Self> {
        let is_free = config.connect == Asked::Auto && choice.policy.trigger() == Trigger::FirstUse;
        let has_room = facts.shortage().is_none();
        let is_near = config.is_on_one_host() && !config.net.force;
        // What the processes of a node share is made when the first of them is connected to.
        let is_each_its_own = !card.shared;
        let are_alike = config.alike && !crate::meeting::was_spawned();
        (is_free && has_room && is_near && is_each_its_own && are_alike)
            .then(|| Together { threads: config.connect_threads.unwrap_or_else(sys::cpu::cores) })
    }
}

impl Endpoint {
    /// Do so many processes of this job connect together, when a collective needs them all?
    pub fn connects_together(&self, members: u32) -> bool {
        self.job.together.is_some() && (MEMBERS_MIN..=MEMBERS_MAX).contains(&members)
    }

    /// Makes queue pairs for peers that this process has nothing to do with yet. What each of them has to know, if there is one.
    pub fn offer_together(&mut self, peers: &[Process]) -> Vec<Option<Record>> {
        let Some(Together { threads }) = self.job.together.filter(|_| !self.context.is_unshared()) else {
            return vec![None; peers.len()];
        };
        let rows: Vec<Option<PeerIx>> = peers.iter().map(|peer| self.row_of(*peer)).collect();
        for ix in rows.iter().flatten() {
            let _ = self.wireup.ahead(*ix, self.now_ns());
        }
        self.carry_out();
        let wanted = std::mem::take(&mut self.waits.aheads);
        let begun_ns = self.now_ns();
        let made = self.context.create_together(ProviderKind::Soft, wanted.len(), threads);
        let now_ns = self.now_ns();
        self.counters.qp_create_ns += now_ns - begun_ns;
        let count = made.len();
        for (ix, (qp, params)) in wanted.iter().zip(made) {
            self.made(*ix, qp, params, now_ns);
        }
        self.refuse_ahead(&wanted[count..]);
        self.carry_out();
        let record = |ix: PeerIx| self.wireup.published(ix).map(|published| published.to_record());
        rows.into_iter().map(|ix| record(ix?)).collect()
    }

    fn row_of(&mut self, process: Process) -> Option<PeerIx> {
        let peer = self.peer_of(process).filter(|peer| peer.job() == self.job.id)?;
        self.intern(peer).ok().filter(|ix| *ix != Self::SELF)
    }

    /// What a peer has offered, or that it has offered nothing. Every peer that was offered something has to be told of so.
    pub fn take_together(&mut self, peer: Process, record: &Record) {
        let Some(ix) = self.row_of(peer).filter(|ix| self.wireup.state(*ix) == StateName::Published) else {
            return;
        };
        // All have started, as they have told something; this process may not have heard so yet.
        let _ = self.await_fence();
        let Some(peer) = self.wireup.who(ix) else { return };
        let card = match self.card_of(peer) {
            Ok(card) => card.and_then(|card| wireup::Card::new(&card.to_bytes()).ok()),
            Err(cause) => return self.lose(ix, cause),
        };
        let Some(card) = card else { return self.lose(ix, Cause::NoCard) };
        let published = Published::from_record(record);
        self.counters.together += u64::from(published.is_some());
        let _ = self.wireup.facts(ix, published, card, self.now_ns());
        self.carry_out();
    }
}
