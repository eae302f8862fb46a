//! Contexts to try things on, and a handshake like that of `proto::wireup`.
use banyan_fabric::{
    BreakReason, Card, Config, Context, Event, Node, Params, PostError, Posted, ProviderKind, Push, Qp, Role,
    WorkError, WorkId,
};
use banyan_fabric::{rdma, sockets};
use std::cell::Cell;
use std::time::{Duration, Instant};
use sys::node::{NodeFacts, NodeSegment};
use sys::{UserBuf, UserBufMut};

/// How long a test waits for anything; no test waits that long unless it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How many times that, on a machine that is busy or emulated.
fn times() -> u32 {
    std::env::var("BANYAN_TEST_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// When a peer that does not answer counts as unreachable: soon, because some tests wait for it, but not where packets are
/// lost on purpose.
pub fn net_timeout() -> Duration {
    let seconds = std::env::var("BANYAN_TEST_NET_TIMEOUT").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

/// Instantiates tests that take a provider, for all of them.
#[macro_export]
macro_rules! on_every_provider {
    ($($test:ident),* $(,)?) => {
        mod soft_provider {
            $(#[test] fn $test() { super::$test(banyan_fabric::ProviderKind::Soft); })*
        }
        mod shared_connections {
            $(#[test] fn $test() {
                $crate::rig::share_connections();
                super::$test(banyan_fabric::ProviderKind::Soft);
            })*
        }
        mod sockets_provider {
            $(#[test] fn $test() { super::$test(banyan_fabric::ProviderKind::Sockets); })*
        }
        mod verbs_provider {
            $(#[test] fn $test() {
                if $crate::rig::has_device() {
                    super::$test(banyan_fabric::ProviderKind::Verbs);
                }
            })*
        }
        mod verbs_shared {
            $(#[test] fn $test() {
                if $crate::rig::has_xrc() {
                    $crate::rig::share_connections();
                    super::$test(banyan_fabric::ProviderKind::Verbs);
                }
            })*
        }
    };
}

/// Is there an RDMA device? If not, it is said why.
pub fn has_device() -> bool {
    match rdma::Rdma::open(&rdma::Config::default()) {
        Ok(_) => true,
        Err(missing) => {
            eprintln!("skipped: no device: {missing}");
            false
        }
    }
}

/// Is there one whose connections a node can share?
pub fn has_xrc() -> bool {
    let Ok(rdma) = rdma::Rdma::open(&rdma::Config::default()) else { return has_device() };
    let has = rdma.context().limits().unwrap().xrc;
    if !has {
        eprintln!("skipped: no XRC");
    }
    has
}

/// A test ends here, since the provider lacks what it is about.
pub fn cannot(kind: ProviderKind, what: &str) {
    eprintln!("skipped: {kind:?} cannot {what}");
}

thread_local! {
    /// Is each process of this thread's hosts on a node of its own, and do nodes share connections?
    static SHARES: Cell<bool> = const { Cell::new(false) };
}

/// From now on each process of this thread's hosts is on a node of its own, and connections to nodes are shared.
pub fn share_connections() {
    SHARES.set(true);
}

/// A host whose processes talk through one provider.
pub struct Host {
    pub node: NodeSegment,
    /// Where each process has a node of its own.
    nodes: Vec<NodeSegment>,
    kind: ProviderKind,
}

impl Host {
    pub fn new(kind: ProviderKind, slots: u32, qp_max: u32) -> Self {
        let facts = NodeFacts {
            node: 0,
            slots,
            cores: 2,
            core_set: Default::default(),
            qp_max,
            oversubscribed: true,
            host: [1, 2],
            key: [3, 4, 5, 6],
            pid_space: sys::node::pid_space(),
        };
        let own = |node| NodeSegment::create(&NodeFacts { node, slots: 1, ..facts.clone() }).unwrap();
        let apart = kind != ProviderKind::Sockets && SHARES.get();
        let nodes = if apart { (0..slots).map(own).collect() } else { Vec::new() };
        Host { node: NodeSegment::create(&facts).unwrap(), nodes, kind }
    }

    pub fn config(&self, slot: u32) -> Config {
        let apart = self.kind != ProviderKind::Soft;
        let (node, slot) = match self.nodes.get(slot as usize) {
            Some(own) => (own, 0),
            None => (&self.node, slot),
        };
        Config {
            node: Node::Agent { segment: node.locator().unwrap(), slot },
            cma: true,
            force_net: apart,
            faults: None,
            ring_bytes_max: 1 << 20,
            conn_memory: None,
            imitation: Default::default(),
            xrc: SHARES.get(),
        }
    }

    pub fn open(&self, slot: u32) -> Peer {
        self.open_with(&self.config(slot))
    }

    pub fn open_with(&self, config: &Config) -> Peer {
        let sockets = (self.kind == ProviderKind::Sockets).then(on_loopback);
        self.open_with_sockets(config, sockets.as_ref())
    }

    pub fn open_with_sockets(&self, config: &Config, sockets: Option<&sockets::Config>) -> Peer {
        let mut context = Context::open(config).unwrap();
        if let Some(how) = sockets {
            context.open_sockets(how).unwrap();
        }
        if self.kind == ProviderKind::Verbs {
            context.open_rdma(&rdma::Config::default()).unwrap();
        }
        Peer { context, kind: self.kind, start: Instant::now() }
    }
}

pub fn on_loopback() -> sockets::Config {
    sockets::Config {
        addr: [127, 0, 0, 1].into(),
        interface: "lo".into(),
        ports: None,
        key: None,
        timeout: net_timeout(),
    }
}

/// Messages that a new connection takes before the peer has polled, if they are short.
pub fn burst(kind: ProviderKind) -> u64 {
    if kind == ProviderKind::Verbs { 8 } else { 30 }
}

pub fn pair(kind: ProviderKind) -> (Peer, Peer) {
    let host = Host::new(kind, 2, 1000);
    (host.open(0), host.open(1))
}

/// A process.
pub struct Peer {
    pub context: Context,
    pub kind: ProviderKind,
    start: Instant,
}

/// An event, copied out.
#[derive(Debug, PartialEq)]
pub enum Got {
    Message(Qp, [u64; 2], Vec<u8>),
    Incoming(Qp, [u64; 2], usize),
    Done(WorkId, Result<u64, WorkError>),
    Control(Vec<u8>),
    Broken(Qp, BreakReason),
}

impl Peer {
    pub fn card(&self) -> Card {
        *self.context.card()
    }

    /// The next event; a long message that is announced is not answered.
    pub fn poll(&mut self) -> Option<Got> {
        self.context.tick(self.start.elapsed().as_nanos() as u64);
        Some(match self.context.poll()? {
            Event::Receive { qp, view } => Got::Message(qp, view.header(), view.to_vec()),
            Event::Incoming { qp, header, len } => Got::Incoming(qp, header, len),
            Event::Done(work, result) => Got::Done(work, result),
            Event::Datagram(bytes) => Got::Control(bytes.to_vec()),
            Event::Broken { qp, why } => Got::Broken(qp, why),
        })
    }

    /// The next event, with long messages collected.
    pub fn poll_whole(&mut self) -> Option<Got> {
        match self.poll()? {
            Got::Incoming(qp, ..) => {
                self.context.keep(qp);
                None
            }
            got => Some(got),
        }
    }

    /// The next message.
    pub fn message(&mut self) -> (Qp, [u64; 2], Vec<u8>) {
        match wait("a message", || self.poll_whole()) {
            Got::Message(qp, header, bytes) => (qp, header, bytes),
            other => panic!("{other:?} instead of a message"),
        }
    }

    /// The next control message.
    pub fn control(&mut self) -> Vec<u8> {
        match wait("a control message", || self.poll()) {
            Got::Control(bytes) => bytes,
            other => panic!("{other:?} instead of a control message"),
        }
    }

    /// The end of posted work.
    pub fn done(&mut self, work: WorkId) -> Result<u64, WorkError> {
        match wait("the end of work", || self.poll()) {
            Got::Done(ended, result) if ended == work => result,
            other => panic!("{other:?} instead of the end of {work:?}"),
        }
    }

    /// Nothing comes, for a number of polls.
    pub fn is_quiet(&mut self) -> bool {
        (0..100).all(|_| self.poll().is_none())
    }

    pub fn send(&mut self, qp: Qp, header: [u64; 2], bytes: &[u8]) -> Posted {
        self.post(qp, header, bytes, Push::Now)
    }

    /// Sends as soon as there is room: the peer may not receive yet.
    pub fn post(&mut self, qp: Qp, header: [u64; 2], bytes: &[u8], push: Push) -> Posted {
        wait("room", || match self.context.post_send(qp, header, source(bytes), push) {
            Err(PostError::Full) if self.kind == ProviderKind::Verbs => {
                self.context.tick(self.start.elapsed().as_nanos() as u64);
                None
            }
            posted => Some(posted.unwrap()),
        })
    }

    /// Makes a queue pair that asks `peer`, and sends the request.
    pub fn ask(&mut self, peer: &Card) -> (Qp, Params) {
        let qp = self.context.create_qp_for(self.kind, Role::Asks, peer).unwrap();
        let params = self.context.to_init(qp, peer, Role::Asks).unwrap();
        self.context.send_control(Some(qp), peer, &params.0).unwrap();
        (qp, params)
    }

    /// Makes a queue pair for a request, connects it, and replies.
    pub fn answer(&mut self, peer: &Card, request: &[u8]) -> Qp {
        let qp = self.context.create_qp_for(self.kind, Role::Answers, peer).unwrap();
        let params = self.context.to_init(qp, peer, Role::Answers).unwrap();
        self.connect(qp, peer, request);
        self.context.send_control(Some(qp), peer, &params.0).unwrap();
        qp
    }

    /// Connects a queue pair with what the peer has said.
    pub fn connect(&mut self, qp: Qp, peer: &Card, params: &[u8]) {
        self.context.to_rtr(qp, peer, &Params(params.try_into().unwrap())).unwrap();
        self.context.to_rts(qp).unwrap();
    }
}

/// Connects two processes: the first one asks.
pub fn connect(a: &mut Peer, b: &mut Peer) -> (Qp, Qp) {
    let (card_a, card_b) = (a.card(), b.card());
    let (qa, _) = a.ask(&card_b);
    let request = b.control();
    let qb = b.answer(&card_a, &request);
    let reply = a.control();
    a.connect(qa, &card_b, &reply);
    (qa, qb)
}

/// Waits until both ends of a connection know that the other one receives.
pub fn settle(a: &mut Peer, b: &mut Peer, qa: Qp, qb: Qp) {
    if a.kind != ProviderKind::Verbs {
        return;
    }
    wait("the other end", || {
        let may_send = |peer: &mut Peer, qp: Qp| {
            peer.context.tick(peer.start.elapsed().as_nanos() as u64);
            peer.context.has_room(qp, 1)
        };
        (may_send(a, qa) & may_send(b, qb)).then_some(())
    });
}

/// Closes a connection by agreement: the first one begins.
pub fn close(a: &mut Peer, b: &mut Peer, qa: Qp, qb: Qp) {
    let (card_a, card_b) = (a.card(), b.card());
    for (peer, qp) in [(&mut *a, qa), (&mut *b, qb)] {
        peer.context.to_sqd(qp).unwrap();
        wait("an empty queue", || {
            peer.context.is_drained(qp).then_some(()).or_else(|| peer.poll().map(drop))
        });
    }
    a.context.send_control(Some(qa), &card_b, b"close").unwrap();
    assert_eq!(b.control(), b"close");
    b.context.send_control(Some(qb), &card_a, b"closed").unwrap();
    b.context.destroy_qp(qb);
    assert_eq!(a.control(), b"closed");
    a.context.destroy_qp(qa);
}

/// Does `step` until it yields something.
#[track_caller]
pub fn wait<T>(what: &str, mut step: impl FnMut() -> Option<T>) -> T {
    let (start, patience) = (Instant::now(), PATIENCE * times());
    loop {
        if let Some(value) = step() {
            return value;
        }
        assert!(start.elapsed() < patience, "no sign of {what}");
        std::thread::yield_now();
    }
}

pub fn source(bytes: &[u8]) -> UserBuf {
    // SAFETY: the tests keep the bytes until the operation is over.
    unsafe { UserBuf::new(bytes.as_ptr(), bytes.len()) }
}

/// Memory that is not there, as after the program has given it back: nothing is mapped so low.
pub fn unmapped(bytes: usize) -> UserBuf {
    // SAFETY: only the kernel is asked to read it, and refuses.
    unsafe { UserBuf::new(std::ptr::without_provenance(4096), bytes) }
}

pub fn target(bytes: &mut [u8]) -> UserBufMut {
    // SAFETY: the tests keep the bytes, and read them only when the operation is over.
    unsafe { UserBufMut::new(bytes.as_mut_ptr(), bytes.len()) }
}

/// Bytes in which every place differs from those near it.
pub fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| ((i + seed) % 251) as u8).collect()
}
