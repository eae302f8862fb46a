//! Start and end of an endpoint: the job's facts, the device, the card on the board, the statistics.
use crate::api::NetError;
use crate::endpoint::Endpoint;
use crate::job::JobFacts;
use crate::pmi::{Client, PmiError};
use fabric::{Context, Node, OpenError};
use proto::ids::Rank;
use proto::stats::{SLOT_STATS_MAX, Stat};
use proto::wireup::{self, Card, Wireup};
use std::time::Duration;
use sys::node::{NodeFacts, SLOT_STATS};
use sys::{Locator, cpu};

const _: () = assert!(SLOT_STATS == SLOT_STATS_MAX);

/// Seconds after which a waiting process says for whom it waits.
const WARN_S: u64 = 30;
/// Queue pairs of a device that no agent limits.
const QP_MAX: u32 = 131_072;

/// What the environment says about this process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's segment, if an agent made one.
    pub node: Option<Locator>,
    /// This process's slot in it.
    pub slot: u32,
    /// May memory of other processes be read directly (`BANYAN_CMA=off` forbids it)?
    pub cma: bool,
    /// Seconds until a waiting process says for whom it waits; 0 for never (`BANYAN_WAIT_WARN`).
    pub warn_s: u64,
}

/// Why an endpoint does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A variable of the environment is not what it should be.
    #[error("the environment variable {name} is '{value}', which is {why}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// The process manager does not answer as it should.
    #[error("process manager: {0}")]
    Pmi(#[from] PmiError),
    /// The device cannot be opened.
    #[error("device: {0}")]
    Device(#[from] OpenError),
}

impl Config {
    /// Reads the environment.
    pub fn from_env() -> Result<Config, StartError> {
        let read = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let bad = |name, value: &str, why: String| StartError::Environment { name, value: value.into(), why };
        let number = |name: &'static str, default: u64| match read(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| bad(name, &text, "not a number".into())),
        };
        let node = match read("BANYAN_NODE") {
            None => None,
            Some(text) => Some(text.parse().map_err(|e| bad("BANYAN_NODE", &text, format!("{e}")))?),
        };
        let cma = match read("BANYAN_CMA").as_deref() {
            None | Some("on") => true,
            Some("off") => false,
            Some(text) => return Err(bad("BANYAN_CMA", text, "neither 'on' nor 'off'".into())),
        };
        let slot = number("MPI_LOCALRANKID", 0)? as u32;
        Ok(Config { node, slot, cma, warn_s: number("BANYAN_WAIT_WARN", WARN_S)? })
    }
}

/// The job as this process sees it.
#[derive(Debug)]
pub(crate) struct Job {
    /// Copies of what every message needs.
    pub rank: Rank,
    pub size: u32,
    pub facts: JobFacts,
    pub pmi: Option<Client>,
    pub wireup: Wireup,
    pub oversubscribed: bool,
    pub warn_s: u64,
    pub lookups: Lookups,
    finished: bool,
}

/// How cards of peers were found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookups {
    /// In the node's memory.
    pub here: u64,
    /// By a question to the process manager.
    pub asked: u64,
}

impl Job {
    /// The card of a peer, from the board.
    pub fn look_up(&mut self, peer: Rank) -> Result<String, String> {
        let key = card_key(peer);
        if let Some(card) = self.card_here(&key) {
            return Ok(card);
        }
        self.wait_for_all(peer)?;
        if let Some(card) = self.card_here(&key) {
            return Ok(card);
        }
        self.lookups.asked += 1;
        match self.process_manager()?.get(&key) {
            Ok(Some(card)) => Ok(card),
            Ok(None) => Err("it published no card; is it a program of another MPI library?".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn card_here(&mut self, key: &str) -> Option<String> {
        let card = self.pmi.as_mut()?.get_here(key)?;
        self.lookups.here += 1;
        Some(card)
    }

    /// Waits until all processes have put their cards.
    fn wait_for_all(&mut self, peer: Rank) -> Result<(), String> {
        let (me, mut patience) = (self.rank, Patience::new(self.warn_s));
        let pmi = self.process_manager()?;
        while !pmi.fence_poll(Duration::from_secs(1)).map_err(|error| error.to_string())? {
            if let Some(waited_s) = patience.runs_out() {
                eprintln!(
                    "banyan: rank {me} has waited {waited_s} s for all ranks to initialise, to reach rank {peer}"
                );
            }
        }
        Ok(())
    }

    fn process_manager(&mut self) -> Result<&mut Client, String> {
        self.pmi.as_mut().ok_or_else(|| "a process of its own has no peers".into())
    }
}

impl Endpoint {
    /// Joins the job: asks the process manager, opens the device, publishes the card. Connects to nobody and
    /// waits for nobody: the fence that makes the cards visible ends at the first contact.
    pub fn start(config: &Config) -> Result<Endpoint, StartError> {
        let age_ns = cpu::process_age_ns().unwrap_or(0);
        let mut clock = PhaseClock::start();
        let mut pmi = Client::from_env()?;
        let facts = JobFacts::discover(pmi.as_mut())?;
        let number = pmi.as_ref().map_or(0, |pmi| job_number(pmi.kvs_name()));
        let pmi_ns = clock.lap();
        let node = match config.node {
            Some(segment) => Node::Agent { segment, slot: config.slot },
            None => Node::Own(Box::new(facts_without_agent(&facts))),
        };
        let context = Context::open(&fabric::Config { node, cma: config.cma })?;
        let device_ns = clock.lap();
        let address = *context.address();
        if let Some(pmi) = pmi.as_mut() {
            pmi.put(&card_key(facts.rank), &address.to_string())?;
            pmi.fence_begin()?;
        }
        let fence_ns = clock.lap();
        let wireup = Wireup::new(wireup::Config {
            me: facts.rank,
            size: facts.size,
            job: number,
            card: Card::new(&address.to_bytes()).expect("a card fits"),
            seed: u64::from(std::process::id()) << 32 ^ cpu::now_ns(),
            policy: wireup::Policy::OnDemand,
        });
        let oversubscribed = context.facts().oversubscribed;
        let warn_s = config.warn_s;
        let (rank, size) = (facts.rank, facts.size);
        let lookups = Lookups::default();
        let job = Job { rank, size, facts, pmi, wireup, oversubscribed, warn_s, lookups, finished: false };
        let endpoint = Endpoint::new(job, context);
        let rest_ns = clock.lap();
        let phases = [
            (Stat::InitLoad, age_ns),
            (Stat::InitPmi, pmi_ns),
            (Stat::InitDevice, device_ns),
            (Stat::InitFence, fence_ns),
            (Stat::InitRest, rest_ns),
            (Stat::InitTotal, pmi_ns + device_ns + fence_ns + rest_ns),
        ];
        phases.into_iter().for_each(|(stat, ns)| endpoint.context.publish_stat(stat as usize, ns));
        endpoint.publish_stats();
        Ok(endpoint)
    }

    /// A counter of this process, now.
    pub fn stat(&self, stat: Stat) -> u64 {
        let counters = &self.counters;
        let wireup = self.job.wireup.stats();
        match stat {
            Stat::Connections => counters.connected_peak,
            Stat::ConnectionsRemote => counters.connected_remote_peak,
            Stat::MappedBytes => self.context.mapped_bytes(),
            Stat::TouchedBytes => self.context.touched_bytes(),
            Stat::Handshakes => wireup.started + wireup.answered,
            Stat::Retransmits => wireup.retransmits,
            Stat::EagerSent => counters.eager,
            Stat::RendezvousSent => counters.rendezvous,
            Stat::BytesSent => counters.bytes,
            Stat::CardsHere => self.job.lookups.here,
            Stat::CardsAsked => self.job.lookups.asked,
            _ => self.context.published_stat(stat as usize),
        }
    }

    /// Writes the counters where the agent finds them.
    fn publish_stats(&self) {
        for stat in Stat::ALL {
            self.context.publish_stat(*stat as usize, self.stat(*stat));
        }
    }

    /// Writes the counters that a crash must not lose.
    pub(crate) fn publish_connections(&self) {
        for stat in [Stat::Connections, Stat::ConnectionsRemote, Stat::MappedBytes] {
            self.context.publish_stat(stat as usize, self.stat(stat));
        }
    }

    /// Which program of a multi-program job this is.
    pub fn appnum(&mut self) -> Option<i32> {
        self.job.pmi.as_mut()?.appnum().ok()
    }

    /// How many processes the job's place has room for, if the process manager says so.
    pub fn universe_size(&mut self) -> Option<i32> {
        let size = self.job.pmi.as_mut()?.universe_size().ok().flatten()?;
        i32::try_from(size).ok()
    }

    /// Leaves the job, when all others are ready to leave: a peer may still wait for this one's part of a
    /// handshake. Calling it again does nothing.
    pub fn finish(&mut self) -> Result<(), NetError> {
        if std::mem::replace(&mut self.job.finished, true) {
            return Ok(());
        }
        self.flush();
        let left = self.leave();
        self.publish_stats();
        left.map_err(|why| NetError::Unreachable {
            rank: self.rank(),
            node: self.node_of(self.rank()),
            why: why.to_string(),
        })
    }

    /// Waits until everything that was sent has left this process.
    fn flush(&mut self) {
        let mut backoff = crate::Backoff::default();
        while !self.waiting.is_empty() || self.requests.sends_open() > 0 {
            if !self.progress() {
                self.pause(&mut backoff);
            }
        }
    }

    fn leave(&mut self) -> Result<(), PmiError> {
        let Some(mut pmi) = self.job.pmi.take() else { return Ok(()) };
        pmi.fence_end()?;
        pmi.fence_begin()?;
        // Peers may still connect or send: progress goes on until all are here.
        let mut patience = Patience::new(self.job.warn_s);
        while !pmi.fence_poll(Duration::from_millis(1))? {
            while self.progress() {}
            self.tick();
            if let Some(waited_s) = patience.runs_out() {
                eprintln!("banyan: rank {} has waited {waited_s} s for other ranks to finalize", self.rank());
            }
        }
        pmi.finalize()
    }

    /// Ends the whole job with an exit code.
    pub fn abort(&mut self, code: i32, why: &str) -> ! {
        eprintln!(
            "banyan: rank {} on node {} aborts with code {code}: {why}",
            self.rank(),
            self.node_of(self.rank())
        );
        self.publish_stats();
        if let Some(pmi) = self.job.pmi.as_mut() {
            pmi.abort(code);
        }
        let code = if code & 255 == 0 { 1 } else { code & 255 };
        std::process::exit(code)
    }
}

/// The name of a rank's card on the board.
fn card_key(rank: Rank) -> String {
    format!("card-{rank}")
}

/// Tells jobs apart: FNV-1a of the name of the job's key-value space. Enough for a stray datagram, no secret.
fn job_number(name: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// A node nobody made a segment for: alone, or under a foreign launcher.
fn facts_without_agent(facts: &JobFacts) -> NodeFacts {
    let cores = cpu::cores() as u32;
    NodeFacts {
        node: facts.node_of(facts.rank).0,
        slots: 1,
        cores,
        qp_max: QP_MAX,
        oversubscribed: facts.local_size > cores,
        host: sys::node::host_id(),
        key: [0; 4],
        pid_space: sys::node::pid_space(),
    }
}

/// When a wait for the process manager is worth a word: after so many seconds, and each time that doubles.
struct Patience {
    since_ns: u64,
    limit_s: u64,
}

impl Patience {
    fn new(limit_s: u64) -> Self {
        Patience { since_ns: cpu::now_ns(), limit_s }
    }

    /// The seconds waited, if they have reached the limit. Never for a limit of 0.
    fn runs_out(&mut self) -> Option<u64> {
        let waited_s = (cpu::now_ns() - self.since_ns) / 1_000_000_000;
        if self.limit_s == 0 || waited_s < self.limit_s {
            return None;
        }
        self.limit_s = self.limit_s.saturating_mul(2);
        Some(waited_s)
    }
}

/// Time since the last look.
struct PhaseClock(u64);

impl PhaseClock {
    fn start() -> Self {
        PhaseClock(cpu::now_ns())
    }

    fn lap(&mut self) -> u64 {
        let now_ns = cpu::now_ns();
        now_ns - std::mem::replace(&mut self.0, now_ns)
    }
}
