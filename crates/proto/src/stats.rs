//! What a process counts about itself. The process writes the counters into its slot of the node's
//! segment, its agent reads them there, so they survive a crash of the process.

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $kind:ident;)*) => {
        /// A counter of one process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Stat { $($(#[$doc])* $name),* }

        impl Stat {
            /// All counters, in slot order.
            pub const ALL: &'static [Stat] = &[$(Stat::$name),*];

            /// The name in JSON and in tables.
            pub const fn key(self) -> &'static str {
                match self { $(Stat::$name => $key),* }
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
    /// Average, minimum and maximum over ranks.
    Spread,
    /// A phase of start-up, in nanoseconds in the slot: the maximum over ranks is shown, in milliseconds.
    PhaseNs,
}

stats! {
    /// Peak number of simultaneous RC connections, itself excluded.
    Connections = "connections", Spread;
    /// The part of `Connections` whose peer is on another node.
    ConnectionsRemote = "connections_remote", Spread;
    /// Peak number of connections over sockets.
    ConnectionsSockets = "connections_sockets", Spread;
    /// Bytes of shared memory mapped for communication (own segment in use, rings of peers).
    MappedBytes = "mapped_bytes", Spread;
    /// Bytes of the own segment that have pages behind them.
    TouchedBytes = "touched_bytes", Spread;
    /// Bytes of this process's own buffers for sockets.
    SocketBytes = "socket_bytes", Spread;
    /// Handshakes begun or answered, in total.
    Handshakes = "handshakes", Spread;
    /// Handshake datagrams sent again.
    Retransmits = "retransmits", Spread;
    /// Datagrams dropped because a mailbox was full.
    DatagramsDropped = "datagrams_dropped", Spread;
    /// Datagrams and connections of strangers, and handshakes that made no sense: refused.
    Strangers = "strangers_refused", Spread;
    /// Messages sent eagerly.
    EagerSent = "eager_sent", Spread;
    /// Messages sent by rendezvous.
    RendezvousSent = "rendezvous_sent", Spread;
    /// Bytes of messages sent.
    BytesSent = "bytes_sent", Spread;
    /// Cards of peers found on the board in the node's memory.
    CardsHere = "cards_from_memory", Spread;
    /// Cards of peers that the process manager was asked for.
    CardsAsked = "cards_asked", Spread;
    /// Phase: from the start of the process to the start of init.
    InitLoad = "load", PhaseNs;
    /// Phase: PMI init and job facts.
    InitPmi = "pmi", PhaseNs;
    /// Phase: opening the device (segment, mailbox).
    InitDevice = "device", PhaseNs;
    /// Phase: publishing the card and the fence.
    InitFence = "fence", PhaseNs;
    /// Phase: the rest of init.
    InitRest = "rest", PhaseNs;
    /// All of init.
    InitTotal = "total", PhaseNs;
}

/// Room for counters in a slot; more than there are, so that the layout keeps its size.
pub const SLOT_STATS_MAX: usize = 48;

const _: () = assert!(Stat::ALL.len() <= SLOT_STATS_MAX);
