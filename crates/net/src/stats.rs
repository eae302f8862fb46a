//! What a process counts, and where its agent finds it.
use crate::endpoint::Endpoint;
use fabric::ProviderKind;
use proto::stats::Stat;

/// Counters that are not kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub remote: u64,
    pub remote_peak: u64,
    pub sockets_peak: u64,
    pub eager: u64,
    pub rendezvous: u64,
    pub bytes: u64,
    /// Cards found in the node's memory.
    pub cards_here: u64,
    /// Cards asked for.
    pub cards_asked: u64,
    /// Peers that failed.
    pub failed: u64,
    /// Active messages without a handler.
    pub unhandled: u64,
}

impl Endpoint {
    /// A counter of this process, now.
    pub fn stat(&self, stat: Stat) -> u64 {
        let counters = &self.counters;
        let wireup = self.wireup.stats();
        match stat {
            Stat::Connections => self.wireup.connections().peak.into(),
            Stat::ConnectionsRemote => counters.remote_peak,
            Stat::ConnectionsSockets => counters.sockets_peak,
            Stat::MappedBytes => self.context.mapped_bytes(),
            Stat::TouchedBytes => self.context.touched_bytes(),
            Stat::SocketBytes => self.context.socket_bytes(),
            Stat::Handshakes => wireup.started + wireup.answered,
            Stat::Retransmits => wireup.retransmits,
            Stat::DatagramsDropped => self.waits.datagrams_dropped,
            Stat::Strangers => self.context.strangers() + wireup.refused,
            Stat::EagerSent => counters.eager,
            Stat::RendezvousSent => counters.rendezvous,
            Stat::BytesSent => counters.bytes,
            Stat::CardsHere => counters.cards_here,
            Stat::CardsAsked => counters.cards_asked,
            _ => self.context.published_stat(stat as usize),
        }
    }

    /// Writes the counters where the agent finds them.
    pub(crate) fn publish_stats(&mut self) {
        self.waits.datagrams_dropped = self.context.datagrams_dropped();
        for stat in Stat::ALL {
            self.context.publish_stat(*stat as usize, self.stat(*stat));
        }
    }

    /// A connection came up or went down: counts it, and writes what a crash must not lose.
    pub(crate) fn count_connections(&mut self, remote_change: i64) {
        let counters = &mut self.counters;
        counters.remote = counters.remote.saturating_add_signed(remote_change);
        counters.remote_peak = counters.remote_peak.max(counters.remote);
        counters.sockets_peak =
            counters.sockets_peak.max(self.context.qps(ProviderKind::Sockets) as u64);
        for stat in [Stat::Connections, Stat::ConnectionsRemote, Stat::ConnectionsSockets, Stat::MappedBytes] {
            self.context.publish_stat(stat as usize, self.stat(stat));
        }
    }
}
