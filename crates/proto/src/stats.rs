//! What a process counts about itself. The process writes the counters into its slot of the node's
//! segment, its agent reads them there, so they survive a crash of the process.

macro_rules! stats {
    ($($(#[doc = $line:literal])+ $name:ident = $key:literal, $kind:ident;)*) => {
        /// A counter of one process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Stat { $($(#[doc = $line])+ $name),* }

        impl Stat {
            /// All counters, in slot order.
            pub const ALL: &'static [Stat] = &[$(Stat::$name),*];

            /// The name, as in JSON, in tables and for those who ask while the program runs.
            pub const fn key(self) -> &'static str {
                match self { $(Stat::$name => $key),* }
            }

            /// What it counts, in one line.
            pub fn line(self) -> &'static str {
                match self { $(Stat::$name => concat!($($line),+)),* }.trim()
            }

            /// How the counter is summed up over ranks.
            pub const fn kind(self) -> Kind {
                match self { $(Stat::$name => Kind::$kind),* }
            }
        }
    };
}

/// How a counter is summed up over the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Average, minimum, maximum and sum over ranks.
    Spread,
    /// Average, minimum and maximum: to add up what was longest here and there would mean nothing.
    Longest,
    /// A phase of start-up, in nanoseconds in the slot: the maximum over ranks is shown, in milliseconds.
    PhaseNs,
}

stats! {
    /// Most connections at one time, itself excluded.
    Connections = "connections", Spread;
    /// The most of them at one time whose peer was on another node.
    ConnectionsRemote = "connections_remote", Spread;
    /// The most of them at one time that went through shared memory.
    ConnectionsShared = "connections_shared", Spread;
    /// The most of them at one time that went through sockets.
    ConnectionsSockets = "connections_sockets", Spread;
    /// The most of them at one time that went through RDMA devices.
    ConnectionsRdma = "connections_rdma", Spread;
    /// The most of them at one time that went to data servers of other nodes (--data-server).
    ConnectionsServers = "connections_servers", Spread;
    /// Connections through shared memory that are open now (in the report: when the process left).
    OpenShared = "open_shared", Spread;
    /// Connections through sockets that are open now (in the report: when the process left).
    OpenSockets = "open_sockets", Spread;
    /// Connections through RDMA devices that are open now (in the report: when the process left).
    OpenRdma = "open_rdma", Spread;
    /// Connections that are being opened now.
    Opening = "opening", Spread;
    /// Connections that are being closed now; they are among the open ones until they are closed.
    Closing = "closing", Spread;
    /// Peers that were lost or could not be reached.
    Failed = "failed", Spread;
    /// Bytes of shared memory mapped for communication (own segment in use, rings of peers).
    MappedBytes = "mapped_bytes", Spread;
    /// Bytes of the own segment that have pages behind them.
    TouchedBytes = "touched_bytes", Spread;
    /// Bytes of this process's own buffers for sockets.
    SocketBytes = "socket_bytes", Spread;
    /// Bytes that are registered with the RDMA device: this process's own buffers, and memory of the program that is kept so.
    RegisteredBytes = "registered_bytes", Spread;
    /// What became of the RDMA device: 0 not asked for, 1 open, 2 no library, 3 no device, 4 no port is active, 5 it refuses.
    RdmaDevice = "rdma_device", Longest;
    /// Registrations of the program's memory with the RDMA device.
    Registrations = "registrations", Spread;
    /// Transfers whose memory was registered still, by an earlier one.
    RegistrationsKept = "registrations_kept", Spread;
    /// Bytes of the program's memory that are registered for peers to read, now.
    PinnedBytes = "pinned_bytes", Spread;
    /// The most bytes that were registered at one time.
    PinnedBytesPeak = "pinned_bytes_peak", Spread;
    /// Queue pairs that send to all processes of a node (--xrc), at most at one time; each counts as one connection.
    ConnectionsXrc = "connections_xrc", Spread;
    /// Pairs that made such a queue pair: direct connections.
    PairsDirect = "pairs_direct", Spread;
    /// Pairs that found one there: indirect connections.
    PairsIndirect = "pairs_indirect", Spread;
    /// Connections made, or asked for, ahead of their first use because a pattern predicted them (--pattern).
    ConnectionsAhead = "connections_ahead", Spread;
    /// Those of them that were used.
    ConnectionsAheadUsed = "connections_ahead_used", Spread;
    /// By which policy it connects: 0 on-demand, 1 overlapped, 2 to 4 static-serial (by messages, published, batched), 5 to 7 static-parallel, 8 rank-by-rank.
    ConnectPolicy = "connect_policy", Longest;
    /// Why by that one: 0 it was asked for, 1 no room for what was, and by --connect auto, 2 nobody else, 3 no pattern known, 4 and dear queue pairs, 5 some peers predicted, 6 nearly everybody, 7 but no room in the budget, 8 or in the device.
    ConnectReason = "connect_reason", Longest;
    /// Connections made together with those of everybody else, when a collective needed all of them (--connect auto).
    ConnectedTogether = "connected_together", Spread;
    /// Handshakes begun or answered, in total.
    Handshakes = "handshakes", Spread;
    /// Handshake datagrams sent again.
    Retransmits = "retransmits", Spread;
    /// Connections closed to make place for others.
    Evictions = "evictions", Spread;
    /// Connections opened to a peer that had been connected before.
    Reopenings = "reopenings", Spread;
    /// Attempts to make a queue pair that the node's device refused for the moment.
    DeviceRefusals = "device_refusals", Spread;
    /// Connections that had to wait for a place within the budget, or among the queue pairs that the device gave.
    PlaceWaits = "place_waits", Spread;
    /// The longest of these waits, in nanoseconds.
    PlaceWaitLongest = "place_wait_longest_ns", Longest;
    /// Connections that this process needed and got.
    FirstMessages = "first_messages", Spread;
    /// Nanoseconds from the need of a connection to its being ready, all together (short messages may leave earlier).
    FirstMessageSum = "first_message_sum_ns", Spread;
    /// The longest of these delays, in nanoseconds.
    FirstMessageLongest = "first_message_longest_ns", Longest;
    /// Nanoseconds in which queue pairs were made and initialised, all together.
    QpCreate = "qp_create_sum_ns", Spread;
    /// Nanoseconds in which they were connected: made ready to receive and to send.
    QpReady = "qp_ready_sum_ns", Spread;
    /// Datagrams dropped because a mailbox was full.
    DatagramsDropped = "datagrams_dropped", Spread;
    /// Datagrams and connections of strangers, and handshakes that made no sense: refused.
    Strangers = "strangers_refused", Spread;
    /// Messages that an RDMA device has brought twice, which it never should: dropped.
    Repeated = "messages_repeated", Spread;
    /// Messages sent eagerly.
    EagerSent = "eager_sent", Spread;
    /// Messages sent by rendezvous.
    RendezvousSent = "rendezvous_sent", Spread;
    /// Bytes of messages sent.
    BytesSent = "bytes_sent", Spread;
    /// Collectives in which processes of one host read and wrote each other's memory.
    DirectCollectives = "direct_collectives", Spread;
    /// Bytes that this process copied from or to the memory of others in them.
    DirectBytes = "direct_bytes", Spread;
    /// Collectives through memory that all processes of a node have mapped.
    CommonCollectives = "common_collectives", Spread;
    /// Bytes of such memory that this process has mapped. They are shared, and touched as far as they are used.
    CommonBytes = "common_bytes", Spread;
    /// Cards of peers found on the board in the node's memory.
    CardsHere = "cards_from_memory", Spread;
    /// Cards of peers that the process manager was asked for.
    CardsAsked = "cards_asked", Spread;
    /// Values that this process put on the board about queue pairs that it made for everybody at the start.
    ExchangePuts = "exchange_puts", Spread;
    /// Their bytes.
    ExchangeBytes = "exchange_bytes", Spread;
    /// Values that it read there about those of others.
    ExchangeGets = "exchange_gets", Spread;
    /// Ranges of numbers that its queue pairs made for everybody have.
    ExchangeRanges = "exchange_ranges", Spread;
    /// Operations on windows that a data server has done for processes of other nodes; ranks do none.
    OperationsServed = "operations_served", Spread;
    /// 1 if the counters were written when the process left; 0: they are those of init or of its last connection.
    Complete = "complete", Spread;
    /// Phase: from the start of the process to the start of init.
    InitLoad = "init_load_ns", PhaseNs;
    /// Phase: PMI init and job facts.
    InitPmi = "init_pmi_ns", PhaseNs;
    /// Phase: opening the device (segment, mailbox).
    InitDevice = "init_device_ns", PhaseNs;
    /// Phase: publishing the card and the fence.
    InitFence = "init_fence_ns", PhaseNs;
    /// Phase: making queue pairs for everybody, where that is done at the start.
    InitCreate = "init_create_ns", PhaseNs;
    /// Phase: telling everybody about them, and hearing of theirs.
    InitExchange = "init_exchange_ns", PhaseNs;
    /// Phase: connecting them.
    InitConnect = "init_connect_ns", PhaseNs;
    /// Phase: the rest of init.
    InitRest = "init_rest_ns", PhaseNs;
    /// All of init.
    InitTotal = "init_total_ns", PhaseNs;
}

impl Stat {
    /// The counter of this name.
    pub fn from_key(key: &str) -> Option<Stat> {
        Self::ALL.iter().copied().find(|stat| stat.key() == key)
    }

    /// The name of a phase of start-up, where its time is given in milliseconds.
    pub fn phase(self) -> Option<&'static str> {
        self.key().strip_prefix("init_")?.strip_suffix("_ns")
    }
}

/// Room for counters in a slot; more than there are, so that the layout keeps its size.
pub const SLOT_STATS_MAX: usize = 96;

const _: () = assert!(Stat::ALL.len() <= SLOT_STATS_MAX);

/// What became of the RDMA device of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum RdmaDevice {
    /// Nobody asked for one.
    #[default]
    Unneeded,
    /// It is open.
    Open,
    /// There is no library.
    NoLibrary,
    /// The library finds none.
    NoDevice,
    /// None has a port that can send.
    NoPort,
    /// It does not give what is needed.
    Refuses,
}

impl RdmaDevice {
    /// All of them, by their numbers.
    pub const ALL: [RdmaDevice; 6] = {
        use RdmaDevice::{NoDevice, NoLibrary, NoPort, Open, Refuses, Unneeded};
        [Unneeded, Open, NoLibrary, NoDevice, NoPort, Refuses]
    };

    /// What that means for traffic between hosts.
    pub const fn words(self) -> &'static str {
        match self {
            RdmaDevice::Unneeded => "no RDMA device was asked for",
            RdmaDevice::Open => "RDMA, with those who have it in the same network",
            RdmaDevice::NoLibrary => "sockets: there is no RDMA library",
            RdmaDevice::NoDevice => "sockets: there is no RDMA device",
            RdmaDevice::NoPort => "sockets: no port of an RDMA device can be used",
            RdmaDevice::Refuses => "sockets: the RDMA device does not give what is needed",
        }
    }
}

/// How two ranks were connected, as bits: both ways, where one followed the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Means(u8);

impl Means {
    /// Through shared memory.
    pub const SHARED: Means = Means(1);
    /// Through sockets.
    pub const SOCKETS: Means = Means(2);

    /// Both.
    pub const fn and(self, other: Means) -> Means {
        Means(self.0 | other.0)
    }

    /// Is `other` among them?
    pub const fn has(self, other: Means) -> bool {
        self.0 & other.0 != 0
    }

    /// One letter for pictures: `m`emory, `s`ockets, `b`oth.
    pub const fn letter(self) -> char {
        match self.0 {
            0 => '.',
            1 => 'm',
            2 => 's',
            _ => 'b',
        }
    }
}

/// That a rank was connected to another one of its job, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// The other rank.
    pub rank: u32,
    /// How.
    pub means: Means,
}

impl Met {
    /// Ranks that can be told.
    pub const RANKS_MAX: u32 = 1 << 30;

    /// As one word.
    pub const fn to_word(self) -> u32 {
        self.rank << 2 | self.means.0 as u32
    }

    /// From the word.
    pub const fn from_word(word: u32) -> Met {
        Met { rank: word >> 2, means: Means(word as u8 & 3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn every_name_is_used_once_and_has_a_line() {
        let names: BTreeSet<&str> = Stat::ALL.iter().map(|stat| stat.key()).collect();
        assert_eq!(names.len(), Stat::ALL.len());
        for stat in Stat::ALL {
            assert!(stat.line().ends_with('.') && stat.line().len() > 10, "{}", stat.key());
            assert_eq!(Stat::from_key(stat.key()), Some(*stat));
            assert_eq!(stat.phase().is_some(), stat.kind() == Kind::PhaseNs, "{}", stat.key());
        }
        assert_eq!(Stat::from_key("connection"), None);
    }

    #[test]
    fn whom_a_rank_met_survives_the_word() {
        for met in [
            Met { rank: 0, means: Means::SHARED },
            Met { rank: Met::RANKS_MAX - 1, means: Means::SHARED.and(Means::SOCKETS) },
        ] {
            assert_eq!(Met::from_word(met.to_word()), met);
        }
    }
}
