//! The words that a [`Wireup`] and its driver exchange.
#[cfg(doc)]
use super::Wireup;
use super::{Card, Datagram, Epoch, InputName, Params, ParseError, StateName};
use crate::ids::Rank;
use alloc::string::String;

/// What a process is to others, and how it connects.
#[derive(Clone, Debug)]
pub struct Config {
    /// This process.
    pub me: Rank,
    /// How many processes the job has.
    pub size: u32,
    /// A number of this job that others do not have: datagrams that strayed from another job are refused.
    pub job: u64,
    /// Where this process receives datagrams.
    pub card: Card,
    /// Of the jitter. Give every process another one.
    pub seed: u64,
    /// When and in which order the steps are taken.
    pub policy: Policy,
}

/// When and in which order the steps of a connection are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Nothing before the first need; then one step after the other: queue pair, request, connect.
    #[default]
    OnDemand,
}

/// What the driver has to do. The order of actions matters only for one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a queue pair that can take in data at once, then call [`Wireup::qp_ready`] or
    /// [`Wireup::qp_failed`].
    CreateQp {
        /// Whom it will be connected to.
        peer: Rank,
    },
    /// Ask the board for the peer's card, then call [`Wireup::card`] (or [`Wireup::peer_died`], if the peer
    /// published none).
    Lookup {
        /// Whose card.
        peer: Rank,
    },
    /// Send a datagram. It may get lost: it is sent again.
    Send {
        /// To whom.
        peer: Rank,
        /// Where the peer receives datagrams.
        card: Card,
        /// The bytes.
        datagram: Datagram,
    },
    /// Connect the queue pair, then call [`Wireup::connected`] (or [`Wireup::peer_died`], if the peer's queue
    /// pair cannot be reached).
    Connect {
        /// To whom.
        peer: Rank,
        /// What the peer's fabric said about its queue pair.
        params: Params,
        /// Where the peer receives datagrams.
        card: Card,
    },
    /// Sends to this peer may go. Comes once per connection, also when the peer asked for it.
    Ready {
        /// The peer.
        peer: Rank,
    },
    /// There will be no connection, or there is none any more; whoever waits for the peer has to be told.
    Failed {
        /// The peer.
        peer: Rank,
        /// The reason, as the driver gave it.
        why: String,
    },
    /// Destroy the queue pair.
    Destroy {
        /// Whom it was for.
        peer: Rank,
    },
}

/// How far a needed connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Sends may go now.
    Ready,
    /// An [`Action::Ready`] or [`Action::Failed`] will come.
    Pending,
}

/// Why a peer cannot be connected to at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeedError {
    /// A process sends to itself without a connection.
    #[error("rank {0} needs no connection to itself")]
    Oneself(Rank),
    /// The job is smaller.
    #[error("rank {peer} does not exist in a job of {size}")]
    NoSuchRank {
        /// The rank.
        peer: Rank,
        /// Ranks of the job.
        size: u32,
    },
    /// A death notice came before.
    #[error("rank {peer} is lost: {why}")]
    Lost {
        /// The peer.
        peer: Rank,
        /// The reason, as the notice gave it.
        why: String,
    },
}

/// The driver reported what cannot have happened. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection to rank {peer}: {input} makes no sense while {state}")]
pub struct IllegalInput {
    /// The peer.
    pub peer: Rank,
    /// How far the connection was.
    pub state: StateName,
    /// What was reported.
    pub input: InputName,
}

/// Why a datagram was refused. Nothing was changed but a counter; the caller may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// No handshake message.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// From a process of another job.
    #[error("a handshake message of job {0:#x}")]
    OtherJob(u64),
    /// For another process.
    #[error("a handshake message for rank {0}")]
    Misdirected(Rank),
    /// From a rank the job does not have, or from oneself.
    #[error("a handshake message from rank {0}, which is no peer")]
    NoPeer(Rank),
    /// The peer speaks of a later connection although this one was never closed.
    #[error("rank {peer} speaks of its connection {got}, but its connection {known} was never closed")]
    EpochAhead {
        /// The peer.
        peer: Rank,
        /// The connection there is.
        known: Epoch,
        /// The one the message speaks of.
        got: Epoch,
    },
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handshakes this process began.
    pub started: u64,
    /// Handshakes a peer began.
    pub answered: u64,
    /// Handshakes both began.
    pub crossed: u64,
    /// Requests sent again.
    pub retransmits: u64,
    /// Replies sent to requests that came again.
    pub repeated_replies: u64,
    /// Messages that said nothing new (duplicates, late ones).
    pub stale: u64,
    /// Datagrams refused with a [`DatagramError`].
    pub refused: u64,
    /// Connections that became ready.
    pub ready: u64,
}

/// A connection whose peer has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The peer.
    pub peer: Rank,
    /// When the first request was sent.
    pub since_ns: u64,
    /// Requests sent so far.
    pub attempts: u32,
}
