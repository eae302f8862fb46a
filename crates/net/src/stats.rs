//! What a process counts, and where its agent finds it.
//!
//! Messages cost one addition each; everything else is counted when a connection changes, which is rare. Then the
//! counters are also written to the process's slot, so that a crash loses little.
use crate::endpoint::Endpoint;
use fabric::{MrKey, ProviderKind};
use proto::ids::{Peer, PeerIx};
use proto::stats::Stat;
use proto::wireup::StateName;
use sys::UserBuf;
use sys::node::PairBytes;

/// Bytes between this process and a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amounts {
    /// Over connections that are closed.
    pub carried: u64,
    /// Of long messages that it was to read: they go beside the connection,
    pub lent: u64,
    /// but for what went over it in fragments after all.
    pub streamed: u64,
}

/// A number that goes up and down, and the most it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    pub now: u64,
    pub peak: u64,
}

impl Level {
    fn add(&mut self, more: u64) {
        self.now += more;
        self.peak = self.peak.max(self.now);
    }

    fn sub(&mut self, less: u64) {
        self.now = self.now.saturating_sub(less);
    }
}

/// How long something took: how often, together and at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    pub count: u64,
    pub sum_ns: u64,
    pub longest_ns: u64,
}

impl Delays {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

/// Counters that are not kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Connections. Pairs that share one count together.
    pub all: Level,
    /// Those to other nodes.
    pub remote: Level,
    /// Those to data servers of other nodes.
    pub servers: Level,
    /// Operations done as a data server.
    pub served: u64,
    /// Connections by provider.
    pub open: [Level; ProviderKind::COUNT],
    /// Bytes of the program that peers may read.
    pub pinned: Level,
    /// From the need of a connection to its being ready.
    pub first: Delays,
    pub eager: u64,
    pub rendezvous: u64,
    pub bytes: u64,
    /// Collectives whose data went straight between memories.
    pub direct: u64,
    /// What this process has copied in them.
    pub direct_bytes: u64,
    /// Collectives through memory that all of a node map.
    pub common: u64,
    /// Such memory.
    pub common_bytes: u64,
    /// Cards found in the node's memory.
    pub cards_here: u64,
    /// Cards asked for.
    pub cards_asked: u64,
    /// What was put on the board about queue pairs at the start, its bytes, and what was read there.
    pub exchange_puts: u64,
    pub exchange_bytes: u64,
    pub exchange_gets: u64,
    /// Connections that were made with those of everybody else, for a collective.
    pub together: u64,
    /// Ranges of numbers of queue pairs that were made at the start.
    pub exchange_ranges: u64,
    /// What the device's commands took.
    pub qp_create_ns: u64,
    pub qp_ready_ns: u64,
    /// Peers that failed.
    pub failed: u64,
    /// Active messages without a handler.
    pub unhandled: u64,
    /// Is this the last that is written?
    pub complete: u64,
    /// Was it said that memory cannot be registered?
    pub refusal_told: bool,
}

/// A connection that is counted, to be counted out again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    kind: ProviderKind,
    remote: bool,
    /// Do the processes of the peer's node share it?
    shared: bool,
}

impl Endpoint {
    /// A counter of this process, now.
    pub fn stat(&self, stat: Stat) -> u64 {
        let counters = &self.counters;
        let wireup = self.wireup.stats();
        let open = |kind: ProviderKind| &counters.open[kind as usize];
        match stat {
            Stat::Connections if self.context.card().is_sharing() => counters.all.peak,
            Stat::Connections => self.wireup.connections().peak.into(),
            Stat::ConnectionsXrc => self.context.shared_counts().initiators_peak,
            Stat::PairsDirect => self.context.shared_counts().direct,
            Stat::PairsIndirect => self.context.shared_counts().indirect,
            Stat::ConnectionsRemote => counters.remote.peak,
            Stat::ConnectionsServers => counters.servers.peak,
            Stat::ConnectionsShared => open(ProviderKind::Soft).peak,
            Stat::ConnectionsSockets => open(ProviderKind::Sockets).peak,
            Stat::ConnectionsRdma => open(ProviderKind::Verbs).peak,
            Stat::OpenRdma => open(ProviderKind::Verbs).now,
            Stat::RdmaDevice => self.context.rdma_outcome() as u64,
            Stat::Registrations => self.context.registrations().0,
            Stat::RegistrationsKept => self.context.registrations().1,
            Stat::RegisteredBytes => self.context.registered_bytes(),
            Stat::OpenShared => open(ProviderKind::Soft).now,
            Stat::OpenSockets => open(ProviderKind::Sockets).now,
            Stat::Opening => self.count_states(is_opening),
            Stat::Closing => self.count_states(is_closing),
            Stat::Failed => counters.failed,
            Stat::MappedBytes => self.context.mapped_bytes(),
            Stat::TouchedBytes => self.context.touched_bytes(),
            Stat::SocketBytes => self.context.socket_bytes(),
            Stat::PinnedBytes => counters.pinned.now,
            Stat::PinnedBytesPeak => counters.pinned.peak,
            Stat::ConnectionsAhead => self.ahead_counts().connected,
            Stat::ConnectionsAheadUsed => self.ahead_counts().used,
            Stat::ConnectPolicy => self.job.connect.policy.number(),
            Stat::ConnectReason => self.job.connect.why as u64,
            Stat::ConnectedTogether => counters.together,
            Stat::Handshakes => wireup.started + wireup.answered,
            Stat::Retransmits => wireup.retransmits,
            Stat::Evictions => wireup.evicted,
            Stat::Reopenings => wireup.reopened,
            Stat::DeviceRefusals => wireup.starved,
            Stat::PlaceWaits => wireup.crowded,
            Stat::PlaceWaitLongest => wireup.crowded_longest_ns,
            Stat::FirstMessages => counters.first.count,
            Stat::FirstMessageSum => counters.first.sum_ns,
            Stat::FirstMessageLongest => counters.first.longest_ns,
            Stat::DatagramsDropped => self.waits.datagrams_dropped,
            Stat::Strangers => self.context.strangers() + wireup.refused,
            Stat::Repeated => self.context.repeated(),
            Stat::EagerSent => counters.eager,
            Stat::RendezvousSent => counters.rendezvous,
            Stat::BytesSent => counters.bytes,
            Stat::DirectCollectives => counters.direct,
            Stat::DirectBytes => counters.direct_bytes,
            Stat::CommonCollectives => counters.common,
            Stat::CommonBytes => counters.common_bytes,
            Stat::CardsHere => counters.cards_here,
            Stat::CardsAsked => counters.cards_asked,
            Stat::ExchangePuts => counters.exchange_puts,
            Stat::ExchangeBytes => counters.exchange_bytes,
            Stat::ExchangeGets => counters.exchange_gets,
            Stat::ExchangeRanges => counters.exchange_ranges,
            Stat::QpCreate => counters.qp_create_ns,
            Stat::QpReady => counters.qp_ready_ns,
            Stat::OperationsServed => counters.served,
            Stat::Complete => counters.complete,
            Stat::InitLoad
            | Stat::InitPmi
            | Stat::InitDevice
            | Stat::InitFence
            | Stat::InitCreate
            | Stat::InitExchange
            | Stat::InitConnect
            | Stat::InitRest
            | Stat::InitTotal => self.context.published_stat(stat as usize),
        }
    }

    fn count_states(&self, counts: fn(StateName) -> bool) -> u64 {
        self.wireup.peers().filter(|(ix, _)| counts(self.wireup.state(*ix))).count() as u64
    }

    /// What is counted of a peer beside its connection, if anybody wants to know.
    pub(crate) fn amounts(&mut self, ix: PeerIx) -> Option<&mut Amounts> {
        if !self.context.records_traffic() {
            return None;
        }
        if self.traffic.len() <= ix.index() {
            self.traffic.resize(ix.index() + 1, Amounts::default());
        }
        self.traffic.get_mut(ix.index())
    }

    /// Writes how many bytes went to whom, where that is wanted. It is known to the connections; nothing is counted for it but
    /// long messages, which do not go through them.
    fn publish_traffic(&mut self) {
        if !self.context.records_traffic() {
            return;
        }
        let peers: Vec<_> = self.wireup.peers().collect();
        for (ix, peer) in peers {
            let (Peer::Rank { job, rank }, Some(link)) = (peer, self.links.get(ix.index())) else { continue };
            if job != self.job.id || rank == self.rank() {
                continue;
            }
            let open = link.qp.map_or(0, |qp| self.context.traffic_bytes(qp));
            // Streams carry what is read over them.
            let streams = link.kind == Some(ProviderKind::Sockets);
            let Amounts { carried, lent, streamed } =
                self.traffic.get(ix.index()).copied().unwrap_or_default();
            let lent = if streams { 0 } else { lent.saturating_sub(streamed) };
            self.context.note_traffic(rank.0, PairBytes { carried: carried + open, lent });
        }
    }

    /// Writes the counters where the agent finds them.
    pub(crate) fn publish_stats(&mut self) {
        self.waits.datagrams_dropped = self.context.datagrams_dropped();
        for stat in Stat::ALL {
            self.context.publish_stat(*stat as usize, self.stat(*stat));
        }
    }

    /// Writes them for the last time: nothing is to come.
    pub(crate) fn publish_last_stats(&mut self) {
        self.counters.complete = 1;
        self.settle_ahead();
        self.publish_traffic();
        self.publish_stats();
    }

    /// Writes what a crash must not lose, but not what it takes long to find out.
    pub(crate) fn publish_soon(&mut self) {
        if self.waits.starting {
            return;
        }
        use Stat::{Closing, Opening, SocketBytes, TouchedBytes};
        let quick = |stat: &&Stat| !matches!(stat, TouchedBytes | SocketBytes | Opening | Closing);
        for stat in Stat::ALL.iter().filter(quick) {
            self.context.publish_stat(*stat as usize, self.stat(*stat));
        }
    }

    /// A connection is needed that is not ready.
    pub(crate) fn note_need(&mut self, ix: PeerIx, now_ns: u64) {
        self.link(ix).rare().needed_ns.get_or_insert(now_ns);
    }

    /// A connection is ready.
    pub(crate) fn note_ready(&mut self, ix: PeerIx, kind: ProviderKind) {
        let (now_ns, remote) = (self.now_ns(), self.is_remote(ix));
        let shares = self.link(ix).qp.is_some_and(|qp| self.context.shares(qp));
        let server = remote && self.is_server(ix);
        let first = !shares || !self.has_counted_beside(ix);
        let link = self.link(ix);
        let needed_ns = link.take_needed_ns();
        link.counted = Some(Counted { kind, remote, shared: shares });
        let counters = &mut self.counters;
        counters.servers.add(server.into());
        if first {
            counters.all.add(1);
            counters.open[kind as usize].add(1);
            counters.remote.add(remote.into());
        }
        if let Some(since_ns) = needed_ns {
            counters.first.add(now_ns.saturating_sub(since_ns));
        }
        if let Peer::Rank { job, rank } = self.who(ix)
            && job == self.job.id
        {
            self.context.note_met(rank.0, kind);
        }
        self.publish_soon();
    }

    fn is_server(&self, ix: PeerIx) -> bool {
        matches!(self.who(ix), Peer::Server { .. })
    }

    /// Is the connection counted that a peer shares, for another peer on its node?
    fn has_counted_beside(&self, ix: PeerIx) -> bool {
        let node = self.node_of_peer(self.who(ix));
        let counts = |other: PeerIx| {
            let counted = self.links.get(other.index()).and_then(|link| link.counted);
            other != ix && counted.is_some_and(|counted| counted.shared)
        };
        self.wireup.peers().any(|(other, peer)| counts(other) && self.node_of_peer(peer) == node)
    }

    /// A connection was closed.
    pub(crate) fn note_closed(&mut self, ix: PeerIx) {
        let counted = self.link(ix).counted.take();
        let server = counted.is_some_and(|counted| counted.remote) && self.is_server(ix);
        self.counters.servers.sub(server.into());
        if let Some(Counted { kind, remote, shared }) = counted
            && (!shared || !self.has_counted_beside(ix))
        {
            let counters = &mut self.counters;
            counters.all.sub(1);
            counters.open[kind as usize].sub(1);
            counters.remote.sub(remote.into());
        }
        self.publish_soon();
    }

    /// A peer is lost.
    pub(crate) fn note_failed(&mut self, ix: PeerIx) {
        self.forget_parked(ix);
        self.link(ix).take_needed_ns();
        self.note_closed(ix);
    }

    /// Registers memory of the program, for a peer to read.
    pub(crate) fn pin(&mut self, kind: ProviderKind, buf: UserBuf) -> Option<MrKey> {
        let Some(key) = self.context.register(kind, buf) else {
            self.warn_of_refusal();
            return None;
        };
        self.counters.pinned.add(buf.len() as u64);
        Some(key)
    }

    /// Says, once, that memory cannot be registered: what is sent from it goes another way, and slower.
    #[cold]
    pub(crate) fn warn_of_refusal(&mut self) {
        let Some(why) = self.context.take_refusal() else { return };
        if !std::mem::replace(&mut self.counters.refusal_told, true) {
            eprintln!("banyan: warning: {}: {why}; long messages are copied instead", self.name());
        }
    }

    /// Ends the registration of so many bytes.
    pub(crate) fn unpin(&mut self, kind: ProviderKind, key: MrKey, bytes: usize) {
        self.context.deregister(kind, key);
        self.counters.pinned.sub(bytes as u64);
    }
}

fn is_opening(state: StateName) -> bool {
    use StateName::{Addressing, Connecting, Crowded, Preparing, Requesting, Starved};
    matches!(state, Addressing | Preparing | Starved | Crowded | Requesting | Connecting)
}

fn is_closing(state: StateName) -> bool {
    matches!(state, StateName::Draining | StateName::Closing | StateName::Yielding)
}
