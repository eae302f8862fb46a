//! The types of the endpoint's interface.
use proto::ids::{NodeId, Rank};

pub use proto::matching::Pattern;

/// What a message carries for matching, beside its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Separates communicators, and collectives from point-to-point.
    pub context: u32,
    /// The program's tag (any value; wildcards exist only in a [`Pattern`]).
    pub tag: i32,
}

/// When a send counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// When the buffer may be reused.
    Standard,
    /// When, moreover, the receive has been matched.
    Synchronous,
}

/// A message in progress. Names a slot and its generation: a stale id is found out, never misread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReqId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A message that a matched probe took out of the queue; only [`crate::Endpoint::imrecv`] receives it.
#[derive(Debug, PartialEq, Eq)]
pub struct Message(pub(crate) u64);

/// How a receive (or a send, where only `cancelled` and `error` matter) ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The sender.
    pub source: Rank,
    /// The sender's tag.
    pub tag: i32,
    /// Bytes written to the buffer.
    pub bytes: usize,
    /// Was the message longer than the buffer? Then the buffer holds its start.
    pub truncated: bool,
    /// Was the receive cancelled before it matched?
    pub cancelled: bool,
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The sender.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Length of the message.
    pub bytes: usize,
}

/// Why a message did not get through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// No such rank.
    #[error("rank {rank} of a job of {size}")]
    NoSuchRank {
        /// The rank.
        rank: Rank,
        /// Ranks there are.
        size: u32,
    },
    /// No connection to a peer.
    #[error("no connection to rank {rank} on node {node}: {why}")]
    Unreachable {
        /// The peer.
        rank: Rank,
        /// Its node.
        node: NodeId,
        /// What is known.
        why: String,
    },
    /// The peer broke the connection's protocol.
    #[error("rank {rank} on node {node} sent what no peer sends: {what}")]
    Broken {
        /// The peer.
        rank: Rank,
        /// Its node.
        node: NodeId,
        /// What it was.
        what: &'static str,
    },
    /// The id is not, or no longer, that of a message in progress.
    #[error("no such message in progress")]
    StaleRequest,
}
