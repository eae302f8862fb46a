//! Connections that are made ahead of their first use, because a pattern of an earlier run predicts them; and the first
//! contacts of this run, for the next pattern. Whom to ask for, and when, is decided in `proto::pattern`.
//!
//! # How the first use is seen
//! Messages pay nothing for it. A connection that becomes ready before this side has needed it is *parked*: it is open in every
//! respect, but the short way of sends does not see it (`Link::ready` is empty). The first send goes the long way therefore, as
//! it would without a connection, and finds it there ([`Endpoint::unpark`]). Only processes that record or predict do so.
//!
//! What is received over a parked connection is seen at the end only, by what has gone through it: the sender has noted the
//! contact, and here it is but a number in the statistics.
use crate::endpoint::Endpoint;
use crate::start::Config;
use fabric::{Context, ProviderKind, Push, Qp};
use proto::ids::{Peer, PeerIx, Rank};
use proto::pattern::{self, Ahead, FILE_BYTES_MAX, Load, Need, Pattern, Trust};
use proto::wireup::StateName;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

/// The kernel counts handshakes on sockets too, as far as they have been acknowledged.
const HANDSHAKE_BYTES_MAX: u64 = 1024;

/// What a process that records or predicts keeps.
#[derive(Debug)]
pub(crate) struct Watch {
    machine: Ahead,
    /// When this process started.
    since_ns: u64,
    /// Connections that are ready and not used by this side, and what had gone through them when they became so.
    parked: BTreeMap<PeerIx, u64>,
    /// Most connections of this process.
    budget: Option<u32>,
}

/// Is a connection parked?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    No,
    /// Neither side has used it.
    Unused,
    /// The peer has.
    Heard,
}

impl Watch {
    /// What is known of the connection to a peer, which has this queue pair.
    pub(crate) fn parked(&self, ix: PeerIx, qp: Option<Qp>, context: &Context) -> Parked {
        let (Some(before), Some(qp)) = (self.parked.get(&ix), qp) else { return Parked::No };
        let slack = match qp.provider() {
            ProviderKind::Sockets => HANDSHAKE_BYTES_MAX,
            ProviderKind::Soft | ProviderKind::Verbs => 0,
        };
        if context.traffic(qp) > before + slack { Parked::Heard } else { Parked::Unused }
    }
}

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
enum PatternError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Parse(#[from] pattern::ParseError),
}

impl Endpoint {
    /// Begins to watch for first contacts, where that is wanted, and asks for the first connections. Waits for nothing.
    pub(crate) fn look_ahead(&mut self, pattern: Option<&Pattern>, budget: Option<u32>) {
        if pattern.is_some() || self.context.records_contacts() {
            self.watch(pattern, budget);
        }
    }

    pub(crate) fn watch(&mut self, pattern: Option<&Pattern>, budget: Option<u32>) {
        let mut peers = pattern.map_or_else(Vec::new, |pattern| pattern.peers(self.rank().0, self.size()));
        // The others are for whom nobody has foreseen.
        peers.truncate(budget.map_or(usize::MAX, |most| most as usize / 2));
        let trust = pattern.map_or(Trust::New, Pattern::trust);
        let machine = Ahead::new(peers, trust);
        self.watch =
            Some(Box::new(Watch { machine, since_ns: self.now_ns(), parked: BTreeMap::new(), budget }));
        self.park_all();
        self.ask_ahead(self.now_ns());
        self.set_timers();
    }

    /// Whom this process was connected to at the start it has not used by that.
    fn park_all(&mut self) {
        let is_ready = |ix: &PeerIx| self.links.get(ix.index()).is_some_and(|link| link.ready.is_some());
        let all: Vec<PeerIx> = self.wireup.peers().map(|(ix, _)| ix).filter(is_ready).collect();
        for ix in all {
            if self.parks(ix) {
                self.link(ix).ready = None;
            }
        }
    }

    /// Is somebody to be asked for as soon as there is time?
    pub(crate) fn looks_ahead(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.machine.is_eager())
    }

    /// Asks for connections that are predicted, if it is time. Was one asked for?
    pub(crate) fn ask_ahead(&mut self, now_ns: u64) -> bool {
        let mut asked = false;
        while self.watch.as_mut().is_some_and(|watch| watch.machine.is_time(now_ns)) {
            let load = self.load_ahead();
            let Some(watch) = &mut self.watch else { break };
            let Some(rank) = watch.machine.poll(now_ns, load) else { break };
            asked |= self.ask_rank(rank, now_ns);
        }
        asked
    }

    fn ask_rank(&mut self, rank: u32, now_ns: u64) -> bool {
        let Ok(ix) = self.intern(self.peer(Rank(rank))) else { return false };
        if ix == Self::SELF || self.wireup.state(ix) != StateName::Idle {
            return false; // the peer has asked already, or it is lost
        }
        let asked = self.wireup.need(ix, now_ns).is_ok();
        self.carry_out();
        asked
    }

    /// Does anybody wait for a connection, or is there no room for those that nobody waits for?
    fn load_ahead(&self) -> Load {
        let Some(watch) = &self.watch else { return Load::Busy };
        let is_predicted = |peer: Peer| peer.rank().is_some_and(|rank| watch.machine.is_flying(rank.0));
        let kinds = [ProviderKind::Soft, ProviderKind::Sockets, ProviderKind::Verbs];
        let held: usize = kinds.into_iter().map(|kind| self.context.qps(kind)).sum();
        let is_full = watch.budget.is_some_and(|most| held + 1 >= most as usize);
        let is_short = self.waits.lack.is_some() || self.waits.fits.is_some() || self.context.qp_wanted();
        // An RDMA device says how few queue pairs it has when it refuses one. Attempts that nobody needs must not have them all.
        let is_alone = !self.context.has_rdma() || watch.machine.flying() == 0;
        let leaves = self.job.leaving || self.job.finished;
        let is_needed = || self.wireup.waiting().any(|waiting| !is_predicted(waiting.peer));
        if is_full || is_short || !is_alone || leaves || self.is_device_half_full() || is_needed() {
            Load::Busy
        } else {
            Load::Free
        }
    }

    /// The node's device is for all its processes. What nobody may ever use leaves half of it free.
    fn is_device_half_full(&self) -> bool {
        let facts = self.context.facts();
        let held: u32 = self.context.holding().into_iter().map(|(_, qps)| qps).sum();
        held > facts.qp_max / 2
    }

    /// Attempts that nobody waits for.
    pub(crate) fn flying_ahead(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.machine.flying() as u64)
    }

    /// What has come of it.
    pub(crate) fn ahead_counts(&self) -> pattern::Counts {
        self.watch.as_ref().map_or_else(pattern::Counts::default, |watch| watch.machine.counts())
    }

    /// The program needs a peer: is it the first time?
    pub(crate) fn note_use(&mut self, ix: PeerIx, now_ns: u64) {
        let Some(rank) = self.rank_in_job(ix) else { return };
        let Some(watch) = &mut self.watch else { return };
        if watch.machine.needed(rank) != Need::Old {
            let when_ms = now_ns.saturating_sub(watch.since_ns) / 1_000_000;
            self.context.note_contact(rank, u32::try_from(when_ms).unwrap_or(u32::MAX));
            self.set_timers(); // the next one may be asked for
        }
    }

    /// A connection is about to be ready. Is it to be parked until this side uses it?
    pub(crate) fn parks(&mut self, ix: PeerIx) -> bool {
        if self.watch.is_none() {
            return false;
        }
        let rank = self.rank_in_job(ix);
        let link = self.link(ix);
        let (qp, is_used) = (link.qp, link.is_needed() || !link.queue.is_empty() || link.has_reads());
        let traffic = qp.map_or(0, |qp| self.context.traffic(qp));
        let (Some(watch), Some(rank)) = (&mut self.watch, rank) else { return false };
        watch.machine.ready(rank);
        if is_used {
            return false;
        }
        watch.parked.insert(ix, traffic);
        true
    }

    /// Is there a connection that this side has not used?
    pub(crate) fn is_parked(&self, ix: PeerIx) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.parked.contains_key(&ix))
    }

    /// This side uses a connection that was parked, for the first time.
    #[cold]
    pub(crate) fn unpark(&mut self, ix: PeerIx) {
        let was_parked = self.watch.as_mut().is_some_and(|watch| watch.parked.remove(&ix).is_some());
        if !was_parked || self.wireup.state(ix) != StateName::Ready {
            return;
        }
        self.note_use(ix, self.now_ns());
        let link = self.link(ix);
        link.ready = link.qp;
        self.resume(ix);
    }

    /// A connection is being closed, or was lost.
    pub(crate) fn forget_parked(&mut self, ix: PeerIx) {
        self.hear_parked(ix);
        let rank = self.rank_in_job(ix);
        if let Some(watch) = &mut self.watch {
            watch.parked.remove(&ix);
            if let Some(rank) = rank {
                watch.machine.gone(rank);
            }
        }
    }

    /// Nothing is asked for any more, and what has been used is known.
    pub(crate) fn settle_ahead(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        watch.machine.stop();
        let parked: Vec<PeerIx> = watch.parked.keys().copied().collect();
        parked.into_iter().for_each(|ix| self.hear_parked(ix));
    }

    /// Has anything come over a connection that this side has not used?
    fn hear_parked(&mut self, ix: PeerIx) {
        let Some(rank) = self.rank_in_job(ix) else { return };
        let qp = self.links.get(ix.index()).and_then(|link| link.qp);
        if let Some(watch) = &mut self.watch
            && watch.parked(ix, qp, &self.context) == Parked::Heard
        {
            watch.machine.heard(rank);
        }
    }

    fn rank_in_job(&self, ix: PeerIx) -> Option<u32> {
        match self.wireup.who(ix)? {
            Peer::Rank { job, rank } if job == self.job.id && ix != Self::SELF => Some(rank.0),
            _ => None,
        }
    }

    /// Sends and reads what has waited for a connection.
    pub(crate) fn resume(&mut self, ix: PeerIx) {
        self.read_waiting(ix);
        self.list(ix);
        self.pump(ix, Push::Now);
        self.link(ix).tidy();
    }
}

/// The pattern that the launcher gave, or that of a file where there is another launcher. A bad one is told of, and the job goes
/// on without.
pub(crate) fn pattern_of(config: &Config, me: Rank) -> Option<Pattern> {
    let (name, pattern) = match (&config.forecast, &config.pattern) {
        _ if crate::meeting::was_spawned() => return None,
        (Some(text), _) => ("the launcher's".into(), Pattern::parse(text).map_err(PatternError::from)),
        (None, Some(file)) if config.node.is_none() => (format!("'{file}'"), read(file.as_ref())),
        _ => return None,
    };
    match pattern {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            if me.0 == 0 {
                eprintln!(
                    "banyan: warning: pattern {name}: {error}; connections are made when they are needed"
                );
            }
            None
        }
    }
}

fn read(file: &Path) -> Result<Pattern, PatternError> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Pattern::parse(&String::from_utf8_lossy(&bytes))?)
}
