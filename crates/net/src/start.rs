//! Start and end of an endpoint: the job's facts, the device, the card on the board.
use crate::ahead;
use crate::alone;
use crate::api::NetError;
use crate::choice;
use crate::endpoint::Endpoint;
use crate::job::JobFacts;
use crate::meeting::Span;
use crate::pmi::{Client, PmiError};
use crate::reach::{self, ReachSetupError, Ways};
use crate::together::Together;
use crate::waiting::{Backoff, Patience, PhaseClock, Wait};
use fabric::fault::{Faults, FaultsError};
use fabric::imitate::{Imitation, ImitationError};
use fabric::{Context, Node, OpenError};
use proto::env::{self, BadValue, NetSettings, Values};
use proto::ids::{Job, NodeId, Peer, Rank};
use proto::rma::Policy;
use proto::stats::{SLOT_STATS_MAX, Stat};
use proto::transfer::{self, Long};
use proto::wireup::{self, Wireup, auto};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use sys::cpu::CoreSet;
use sys::node::{NodeFacts, SLOT_STATS};
use sys::{Locator, cpu};

const _: () = assert!(SLOT_STATS == SLOT_STATS_MAX);

/// Seconds after which a waiting process says for whom it waits.
const WARN_S: u64 = 30;
/// Queue pairs that are made before they are needed, where that is wanted.
const QPS_KEPT: usize = 2;
/// Seconds that a process waits to be accepted at a port, as in MPICH. MPI wants an end to it (`MPI_Comm_connect`).
const CONNECT_S: u64 = 180;
/// Rounds of progress when all processes are ready to leave.
const LAST_LOOKS_MAX: usize = 64;
/// Queue pairs of a device that no agent limits.
const QP_MAX: u32 = 131_072;

/// What the environment says about this process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's segment, if an agent made one.
    pub node: Option<Locator>,
    /// This process's slot in it.
    pub slot: u32,
    /// The number of this process's node, if it has a data server (`BANYAN_SERVER`).
    pub server: Option<NodeId>,
    /// May memory of other processes be read directly (`BANYAN_CMA=off` forbids it)?
    pub cma: bool,
    /// When connections are made (`BANYAN_CONNECT`), and by how many threads at the start (`BANYAN_CONNECT_THREADS`).
    pub connect: auto::Asked,
    /// See there.
    pub connect_threads: Option<usize>,
    /// Are connections to other nodes shared by the processes there (`BANYAN_XRC`)?
    pub xrc: Xrc,
    /// The device to imitate (`BANYAN_DEVICE`).
    pub imitation: Imitation,
    /// How it waits (`BANYAN_WAIT`).
    pub wait: Wait,
    /// Seconds until a waiting process says for whom it waits; 0 for never (`BANYAN_WAIT_WARN`).
    pub warn_s: u64,
    /// How long a process waits to be accepted at a port; zero for ever (`BANYAN_CONNECT_TIMEOUT`).
    pub connect_timeout: Duration,
    /// Traffic between hosts.
    pub net: NetSettings,
    /// What happens to datagrams on their way, for tests.
    pub faults: Option<Faults>,
    /// Largest ring in shared memory.
    pub ring_bytes_max: usize,
    /// Most queue pairs of this process (`BANYAN_QP_BUDGET`).
    pub qp_budget: Option<u32>,
    /// Memory for larger rings of its connections (`BANYAN_CONN_MEMORY`).
    pub conn_memory: Option<u64>,
    /// How algorithms of collectives are chosen (`BANYAN_COLL`).
    pub collectives: Collectives,
    /// In which order operations on windows leave, where the program does not say (`BANYAN_RMA`).
    pub rma: Policy,
    /// The way of long messages (`BANYAN_LONG`).
    pub long: Long,
    /// Longest message that is sent without asking where a ring takes it (`BANYAN_EAGER_MAX`).
    pub eager_grown: usize,
    /// The pattern by which connections are made ahead of their first use, from the launcher (`BANYAN_FORECAST`).
    pub forecast: Option<String>,
    /// The file of one, where there is another launcher (`BANYAN_PATTERN`).
    pub pattern: Option<String>,
    /// Have all processes of the job been told the same, as far as the launcher knows (no `BANYAN_PROGRAMS`)?
    pub alike: bool,
}

/// Are connections to other nodes shared by the processes there?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Xrc {
    /// Where a process may have fewer connections than it has peers on other nodes.
    Auto,
    /// Always.
    On,
    /// Never. (A pair that shares a connection still maps its peer's memory, and a budget that closes none of them bounds no memory.)
    #[default]
    Off,
}

/// How algorithms of collectives are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collectives {
    /// By the cores that processes have, and in two levels between hosts.
    #[default]
    Auto,
    /// Only those whose connection counts are published.
    Flat,
    /// In two levels between emulated nodes too.
    Nodes,
}

impl Config {
    /// Are collectives done in two levels, inside a node and between nodes? Emulated nodes share memory, so that it does
    /// not pay there; what a foreign launcher calls nodes are hosts.
    pub fn levels(&self) -> bool {
        match self.collectives {
            Collectives::Auto => !self.is_on_one_host(),
            Collectives::Flat => false,
            Collectives::Nodes => true,
        }
    }

    /// Are all nodes of the job emulated on this host, as far as everybody knows?
    pub fn is_on_one_host(&self) -> bool {
        self.node.is_some() && self.net.address.is_none()
    }
}

/// Why an endpoint does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A variable of the environment is not what it should be.
    #[error(transparent)]
    Environment(#[from] BadValue),
    /// The faults to imitate are not understood.
    #[error("BANYAN_NET_FAULTS: {0}")]
    Faults(#[from] FaultsError),
    /// The device to imitate is not understood.
    #[error("BANYAN_DEVICE: {0}")]
    Imitation(#[from] ImitationError),
    /// A peer that everybody connects to at the start cannot be connected to.
    #[error(transparent)]
    Connect(#[from] NetError),
    /// It is no agent that started this process as a data server.
    #[error("{name} is not set: agents start data servers", name = env::SERVER)]
    NoServer,
    /// The process manager does not answer as it should.
    #[error("process manager: {0}")]
    Pmi(#[from] PmiError),
    /// The device cannot be opened.
    #[error("device: {0}")]
    Device(#[from] OpenError),
    /// There are other hosts, and no way to them.
    #[error(transparent)]
    Reach(#[from] ReachSetupError),
}

impl Config {
    /// Reads the environment. What begins like a name of Banyan's and is none is told once per job, by its first rank.
    pub fn from_env() -> Result<Config, StartError> {
        Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`Config::from_env`], where `get` knows the variables.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Config, StartError> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let node = match get(env::NODE) {
            None => None,
            Some(text) => {
                let wanted = Values::Locator;
                let wrong = |_| BadValue { name: env::NODE, value: text.clone(), wanted };
                Some(text.parse().map_err(wrong)?)
            }
        };
        let number = |name: &'static str, default: u64, most: u64| match get(name) {
            None => Ok(default),
            Some(text) => env::number(name, &text, 0..=most),
        };
        let net = NetSettings::read(get)?;
        let faults = net.faults.as_deref().map(str::parse::<Faults>).transpose()?;
        Ok(Config {
            node,
            slot: number("MPI_LOCALRANKID", 0, u64::from(u32::MAX))? as u32,
            server: get(env::SERVER)
                .map(|text| env::number(env::SERVER, &text, 0..=u64::from(u32::MAX)))
                .transpose()?
                .map(|node| NodeId(node as u32)),
            cma: get(env::CMA).map_or(Ok(true), |text| env::switch(env::CMA, &text))?,
            connect: get(env::CONNECT)
                .map(|text| env::word(env::CONNECT, &text, &auto::Asked::NAMES).map(auto::Asked::at))
                .transpose()?
                .unwrap_or_default(),
            connect_threads: match get(env::CONNECT_THREADS) {
                None => None,
                Some(text) => {
                    Some(env::number(env::CONNECT_THREADS, &text, 1..=env::CONNECT_THREADS_MOST)? as usize)
                }
            },
            xrc: match get(env::XRC).map_or(Ok(2), |text| env::word(env::XRC, &text, &env::XRCS))? {
                0 => Xrc::Auto,
                1 => Xrc::On,
                _ => Xrc::Off,
            },
            imitation: get(env::DEVICE).map_or(Ok(Imitation::default()), |text| text.parse())?,
            wait: get(env::WAIT)
                .map(|text| env::word(env::WAIT, &text, &env::WAITS))
                .transpose()?
                .map_or(Wait::Auto, |at| Wait::ALL[at]),
            warn_s: get(env::WAIT_WARN)
                .map_or(Ok(WARN_S), |text| env::seconds(env::WAIT_WARN, &text).map(|time| time.as_secs()))?,
            connect_timeout: get(env::CONNECT_TIMEOUT)
                .map_or(Ok(Duration::from_secs(CONNECT_S)), |text| {
                    env::seconds(env::CONNECT_TIMEOUT, &text)
                })?,
            net,
            faults,
            ring_bytes_max: number(env::RING_MAX, 1 << 20, 1 << 20)? as usize,
            qp_budget: get(env::QP_BUDGET)
                .map(|text| env::number(env::QP_BUDGET, &text, 2..=env::QP_MAX_MOST).map(|most| most as u32))
                .transpose()?,
            conn_memory: get(env::CONN_MEMORY).map(|text| env::bytes(env::CONN_MEMORY, &text)).transpose()?,
            collectives: match get(env::COLL)
                .map_or(Ok(0), |text| env::word(env::COLL, &text, &env::COLLS))?
            {
                1 => Collectives::Flat,
                2 => Collectives::Nodes,
                _ => Collectives::Auto,
            },
            rma: get(env::RMA)
                .map(|text| env::word(env::RMA, &text, &Policy::NAMES).map(|at| Policy::ALL[at]))
                .transpose()?
                .unwrap_or_default(),
            eager_grown: number(env::EAGER_MAX, transfer::EAGER_GROWN as u64, 64 << 10)? as usize,
            long: match get(env::LONG).map_or(Ok(0), |text| env::word(env::LONG, &text, &env::LONGS))? {
                1 => Long::Read,
                2 => Long::Stream,
                3 => Long::Share,
                _ => Long::Auto,
            },
            forecast: get(env::FORECAST),
            pattern: get(env::PATTERN),
            alike: get(env::PROGRAMS).is_none(),
        })
    }
}

/// The job as this process sees it.
#[derive(Debug)]
pub(crate) struct Membership {
    pub id: Job,
    /// Copies of what every message needs.
    pub rank: Rank,
    pub size: u32,
    pub facts: JobFacts,
    /// Its node, if this process is no rank but the data server there. Its rank is then that of the node's first process.
    pub serves: Option<NodeId>,
    /// Its node, if that has a data server.
    pub server: Option<NodeId>,
    /// By which policy it connects, and why.
    pub connect: auto::Choice,
    /// Do collectives that need everybody connect all together?
    pub together: Option<Together>,
    pub pmi: Option<Client>,
    pub oversubscribed: bool,
    pub long: Long,
    pub eager_grown: usize,
    pub wait: Wait,
    pub warn_s: u64,
    pub connect_timeout: Duration,
    pub ways: Ways,
    /// Does it only wait for the others to leave as well? Who closes its connections then has left before.
    pub leaving: bool,
    /// The names of hosts, once they were asked for.
    pub hosts: Option<Arc<[String]>>,
    pub finished: bool,
    /// Where processes of other jobs are.
    pub met: HashMap<Peer, fabric::Card>,
    /// Contexts in which processes of other jobs send, and which jobs.
    pub spans: BTreeMap<(u32, Job), Span>,
    /// Other jobs that have lost somebody, and how that was heard of.
    pub broken: HashMap<Job, NetError>,
    /// How often that was heard of.
    pub losses: u64,
    /// Keys that are shared with other jobs.
    pub keys: BTreeSet<(Job, [u8; 32])>,
    /// This host as the kernel knows it, once it was asked for: that takes nine system calls.
    pub kernel_host: OnceCell<[u64; 2]>,
    /// What a board would have, for endpoints that meet without one.
    #[cfg(test)]
    pub cards: Vec<fabric::Card>,
}

/// A process without a process manager says so if it seems to be meant to have one. One that somebody has typed into a
/// shell is not.
fn warn_if_alone() {
    if !std::io::stdin().is_terminal()
        && let Some(text) = alone::warning(|name| std::env::var(name).ok())
    {
        sys::socket::write_stderr(text.as_bytes());
    }
}

impl Endpoint {
    /// Joins the job: asks the process manager, opens the device, publishes the card. Connects to nobody and
    /// waits for nobody: the fence that makes the cards visible ends at the first contact. (A foreign launcher that has
    /// several hosts is waited for once: the job's key is on its board.)
    ///
    /// Boxed: what start-up touches of the stack stays with the process, and each frame that holds an endpoint adds to it.
    pub fn start(config: &Config) -> Result<Box<Endpoint>, StartError> {
        Self::join(config, None)
    }

    /// Joins the job as the data server of this process's node: known to the ranks by its card, but no part of their fences.
    /// It sleeps soon where it has nothing to do, and never says that it waits long.
    pub fn start_server(config: &Config) -> Result<Box<Endpoint>, StartError> {
        let node = config.server.ok_or(StartError::NoServer)?;
        let wait = if config.wait == Wait::Poll { Wait::Auto } else { config.wait };
        // What a pattern predicts concerns ranks, and so does who connects everybody at the start.
        let connect = match config.connect {
            auto::Asked::Fixed(wireup::Policy::Overlapped) => config.connect,
            _ => auto::Asked::default(),
        };
        // A node has one server, so that a connection to it is one per process and node already.
        let xrc = Xrc::Off;
        let config =
            Config { wait, connect, xrc, warn_s: 0, forecast: None, pattern: None, ..config.clone() };
        Self::join(&config, Some(node))
    }

    fn join(config: &Config, serves: Option<NodeId>) -> Result<Box<Endpoint>, StartError> {
        let age_ns = cpu::process_age_ns().unwrap_or(0);
        let mut clock = PhaseClock::start();
        let mut pmi = Client::from_env()?;
        if pmi.is_none() {
            warn_if_alone();
        }
        let facts = JobFacts::discover(pmi.as_mut())?;
        let id = pmi.as_ref().map_or_else(own_number, |pmi| Job::named(pmi.kvs_name()));
        let me = match serves {
            None => Peer::Rank { job: id, rank: facts.rank },
            Some(node) => Peer::Server { job: id, node },
        };
        if facts.rank.0 == 0 && config.node.is_none() {
            warn_of_unknown_variables(); // Banyan's own launcher has done so
        }
        let pmi_ns = clock.lap();
        let mut context = Context::open(&device_config(config, &facts, serves))?;
        // A spawned job may be on one host alone, and its parent on another.
        let several = match config.node {
            None => facts.placement.nodes() > 1,
            Some(_) => {
                config.net.address.is_some() && (facts.placement.nodes() > 1 || crate::meeting::was_spawned())
            }
        };
        let ways = Ways { net: config.net.clone(), hosts: several, agent: config.node };
        ways.open_at_start(&mut context)?;
        let device_ns = clock.lap();
        let pattern = ahead::pattern_of(config, facts.rank);
        let known = choice::facts(config, &facts, &context, pattern.as_ref());
        let connect = auto::choose(config.connect, &known);
        let wireup = Wireup::new(wireup::Config {
            me,
            size: facts.size,
            card: wireup::Card::new(&context.card().to_bytes()).expect("a card fits"),
            seed: u64::from(std::process::id()) << 32 ^ cpu::now_ns(),
            policy: connect.policy,
            budget: wireup::Budget { queue_pairs: config.qp_budget },
            homes: context.card().is_sharing().then_some(home),
        });
        // A server leaves the cores to the ranks.
        let oversubscribed = context.facts().oversubscribed || serves.is_some();
        let (rank, size, warn_s) = (facts.rank, facts.size, config.warn_s);
        let job = Membership {
            id,
            rank,
            size,
            facts,
            serves,
            server: config.server,
            connect,
            together: match serves {
                None => Together::new(config, connect, &known, context.card()),
                Some(_) => None,
            },
            pmi,
            oversubscribed,
            long: config.long,
            eager_grown: config.eager_grown,
            wait: config.wait,
            warn_s,
            connect_timeout: config.connect_timeout,
            ways,
            leaving: false,
            spans: BTreeMap::new(),
            broken: HashMap::new(),
            losses: 0,
            hosts: None,
            finished: false,
            met: HashMap::new(),
            keys: BTreeSet::new(),
            kernel_host: OnceCell::new(),
            #[cfg(test)]
            cards: Vec::new(),
        };
        let mut endpoint = Box::new(Endpoint::new(job, context, wireup));
        endpoint.link(Endpoint::SELF);
        if connect.policy == wireup::Policy::Overlapped && config.qp_budget.is_none() {
            endpoint.waits.keeps = QPS_KEPT;
        }
        endpoint.publish_card()?;
        if serves.is_some() {
            endpoint.settle_server()?;
            return Ok(endpoint);
        }
        let everyone = endpoint.make_ahead(config, known.shortage())?;
        let ahead_ns = clock.lap();
        endpoint.begin_fence(config.node.is_none())?;
        let fence_ns = clock.lap();
        endpoint.set_timers();
        endpoint.waits.starting = true;
        let wired_ns = endpoint.connect_everyone(everyone)?;
        endpoint.waits.starting = false;
        endpoint.look_ahead(pattern.as_ref(), config.qp_budget);
        let rest_ns = (ahead_ns + clock.lap()).saturating_sub(wired_ns);
        let phases = [
            (Stat::InitLoad, age_ns),
            (Stat::InitPmi, pmi_ns),
            (Stat::InitDevice, device_ns),
            (Stat::InitFence, fence_ns),
            (Stat::InitRest, rest_ns),
            (Stat::InitTotal, pmi_ns + device_ns + fence_ns + wired_ns + rest_ns),
        ];
        phases.into_iter().for_each(|(stat, ns)| endpoint.context.publish_stat(stat as usize, ns));
        endpoint.publish_stats();
        Ok(endpoint)
    }

    /// Tells the others where this process is, and, if it is the first, what only the job may know.
    fn publish_card(&mut self) -> Result<(), StartError> {
        let me = self.me();
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(()) };
        publish(pmi, me, &self.context)?;
        // Even if this process needs none: another may.
        if self.job.ways.agent.is_none() && self.job.rank.0 == 0 {
            pmi.put(reach::KEY_OF_JOB, &reach::new_key()?)?;
        }
        Ok(())
    }

    /// A server has told where it is: that is on the board when the agent has answered.
    fn settle_server(&mut self) -> Result<(), StartError> {
        if let Some(pmi) = self.job.pmi.as_mut() {
            pmi.settle()?;
        }
        self.set_timers();
        self.publish_stats();
        Ok(())
    }

    fn begin_fence(&mut self, foreign: bool) -> Result<(), StartError> {
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(()) };
        pmi.fence_begin()?;
        if foreign && self.context.has_devices() {
            pmi.fence_end()?;
            self.context.set_key(reach::parse_key(pmi.get(reach::KEY_OF_JOB)?)?);
        }
        Ok(())
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
        self.part()?;
        let Some(mut pmi) = self.job.pmi.take() else { return Ok(()) };
        pmi.finalize().map_err(|why| NetError::Pmi(Arc::new(why)))
    }

    /// As [`Endpoint::finish`], but this process may have something to say again, and finds others then. Banyan's agents go
    /// on to answer where they are. A foreign launcher answers nothing after the last word, which is left to
    /// [`Endpoint::finish`] therefore.
    pub fn part(&mut self) -> Result<(), NetError> {
        if std::mem::replace(&mut self.job.finished, true) {
            return Ok(());
        }
        self.flush();
        let left = self.leave();
        self.publish_last_stats();
        left.map_err(|why| NetError::Pmi(Arc::new(why)))
    }

    /// Waits until everything that was sent has left this process.
    fn flush(&mut self) {
        let mut backoff = Backoff::default();
        while !self.waiting.is_empty() || self.requests.sends_open() > 0 {
            if !self.progress() {
                self.pause(&mut backoff);
            }
        }
        self.context.flush();
    }

    fn leave(&mut self) -> Result<(), PmiError> {
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(()) };
        pmi.fence_end()?;
        pmi.fence_begin()?;
        // Peers may still connect or send: progress goes on until all are here, and sleeps where there is none.
        self.job.leaving = true;
        let mut patience = Patience::new(self.job.warn_s);
        while !self.fence_is_over() {
            if !self.progress() {
                self.sleep_until_news();
            }
            if self.is_asked() {
                self.answer_leaving(patience.waited_s());
            }
            if let Some(waited_s) = patience.runs_out()
                && !self.job.pmi.as_mut().is_some_and(|pmi| pmi.tell_waiting(waited_s))
            {
                eprintln!("banyan: rank {} has waited {waited_s} s for other ranks to finalize", self.rank());
            }
        }
        // What others did before they came here has arrived, such as the answer to a request whose message went early. Without
        // a last look the connection would not be counted.
        for _ in 0..LAST_LOOKS_MAX {
            if !self.progress() {
                break;
            }
        }
        let Some(pmi) = self.job.pmi.as_mut() else { return Ok(()) };
        self.context.forget_fd(pmi.as_fd());
        match self.job.ways.agent {
            Some(_) => pmi.finalize(),
            None => Ok(()),
        }
    }

    /// Waits until everything that was sent needs this process no more, which may be idle for long. After
    /// [`Endpoint::finish`] it may even end then: attempts to connect, beside which early messages lie, are waited for.
    pub fn quiesce(&mut self) {
        self.flush();
        let mut backoff = Backoff::default();
        while self.job.finished && self.stat(Stat::Opening) > self.flying_ahead() {
            if !self.progress() {
                self.pause(&mut backoff);
            }
        }
    }

    /// Have all processes entered the fence that was begun? An error ends it too, and shows at the next question.
    pub(crate) fn fence_is_over(&mut self) -> bool {
        self.job.pmi.as_mut().is_none_or(|pmi| pmi.fence_poll(Duration::ZERO).unwrap_or(true))
    }

    /// Ends the whole job with an exit code.
    pub fn abort(&mut self, code: i32, why: &str) -> ! {
        // One write: whoever ends this process may do so in the middle of two.
        let text = format!("banyan: {} aborts with code {code}: {why}\n", self.name());
        sys::socket::write_stderr(text.as_bytes());
        self.publish_last_stats();
        if let Some(pmi) = self.job.pmi.as_mut() {
            pmi.abort(code);
        }
        let code = if code & 255 == 0 { 1 } else { code & 255 };
        std::process::exit(code)
    }
}

/// Tells the others where this process is. A card that is longer than a board takes goes there in pieces.
fn publish(pmi: &mut Client, me: Peer, context: &Context) -> Result<(), PmiError> {
    let text = context.card().to_string();
    // Whole bytes: a piece has an even number of digits.
    let most = (pmi.value_max(text.len())? & !1).max(2);
    for (number, piece) in text.as_bytes().chunks(most).enumerate() {
        let piece = String::from_utf8_lossy(piece);
        pmi.put(&reach::card_key(me, number), &piece)?;
    }
    Ok(())
}

fn device_config(config: &Config, facts: &JobFacts, serves: Option<NodeId>) -> fabric::Config {
    let node = match config.node {
        Some(segment) => Node::Agent { segment, slot: config.slot },
        None => Node::Own(Box::new(facts_without_agent(facts))),
    };
    // Each process has faults of its own.
    let number = serves.map_or(facts.rank.0.into(), |node| u64::from(node.0) | 1 << 32);
    fabric::Config {
        node,
        cma: config.cma,
        force_net: config.net.force,
        faults: config.faults.clone().map(|faults| faults.for_process(number)),
        ring_bytes_max: config.ring_bytes_max,
        conn_memory: config.conn_memory,
        imitation: config.imitation,
        xrc: shares(config, facts),
    }
}

/// Are connections to other nodes shared?
fn shares(config: &Config, facts: &JobFacts) -> bool {
    let remote = facts.size.saturating_sub(facts.local_size);
    match config.xrc {
        Xrc::On => true,
        Xrc::Off => false,
        Xrc::Auto => config.qp_budget.is_some_and(|budget| remote > budget),
    }
}

/// The node whose processes share the connection to the owner of the second card.
fn home(own: &wireup::Card, peer: &wireup::Card) -> Option<u64> {
    let [own, peer] = [own, peer].map(|card| fabric::Card::from_bytes(card.as_bytes()).ok());
    own?.shares(&peer?)
}

/// A node nobody made a segment for: alone, or under a foreign launcher.
fn facts_without_agent(facts: &JobFacts) -> NodeFacts {
    let cores = cpu::cores() as u32;
    let node = facts.node_of(facts.rank).0;
    let host = sys::node::host_id();
    NodeFacts {
        node,
        slots: 1,
        cores,
        core_set: CoreSet::default(),
        qp_max: QP_MAX,
        oversubscribed: facts.local_size > cores,
        // What the launcher calls two nodes are two hosts, even where they are namespaces of one kernel.
        host: [host[0], host[1] ^ u64::from(node) << 32],
        key: [0; 4],
        pid_space: sys::node::pid_space(),
    }
}

fn warn_of_unknown_variables() {
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    for unknown in env::unknown(names.iter().map(String::as_str)) {
        eprintln!("banyan: warning: {unknown}");
    }
}

/// The number of a job of one process, which nobody has named: it may still meet others.
fn own_number() -> Job {
    Job(crate::meeting::chance())
}
