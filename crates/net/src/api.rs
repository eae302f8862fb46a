//! The types of the endpoint's interface.
use crate::pmi::PmiError;
use crate::reach::ReachSetupError;
use fabric::{
    BreakReason, CardError, ConnectError, ControlError, CreateError, RdmaError, ReachError, WorkError,
};
use proto::ids::{Job, NodeId, Peer, PeerIx, Process, Rank};
use proto::wireup::Wireup;
use std::fmt::Debug;
use std::sync::Arc;

/// What a message carries for matching, beside its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Separates communicators, and collectives from point-to-point.
    pub context: u32,
    /// The program's tag (any value; wildcards exist only in a [`Pattern`]).
    pub tag: i32,
}

/// Whom a message is for or from: any [`Peer`], a [`Process`], or a [`Rank`] of the own job. The short forms are not only
/// shorter to write: what is in one register is not copied through memory on the way down.
pub trait Addressee: Copy {
    /// Its number in the table, if it has one.
    fn find<W: Clone + Debug>(self, peers: &Wireup<W>) -> Option<PeerIx>;
    /// Its full name. Numbers that are nobody's are ranks that the own job does not have.
    fn peer<W: Clone + Debug>(self, own: Job, peers: &Wireup<W>) -> Peer;
}

impl Addressee for Peer {
    #[inline]
    fn find<W: Clone + Debug>(self, peers: &Wireup<W>) -> Option<PeerIx> {
        peers.find(self)
    }

    fn peer<W: Clone + Debug>(self, _: Job, _: &Wireup<W>) -> Peer {
        self
    }
}

impl Addressee for Rank {
    #[inline]
    fn find<W: Clone + Debug>(self, peers: &Wireup<W>) -> Option<PeerIx> {
        peers.find_process(Process(self.0))
    }

    fn peer<W: Clone + Debug>(self, own: Job, _: &Wireup<W>) -> Peer {
        Peer::Rank { job: own, rank: self }
    }
}

impl Addressee for Process {
    #[inline]
    fn find<W: Clone + Debug>(self, peers: &Wireup<W>) -> Option<PeerIx> {
        peers.find_process(self)
    }

    fn peer<W: Clone + Debug>(self, own: Job, peers: &Wireup<W>) -> Peer {
        peers.peer_of(self).unwrap_or(Peer::Rank { job: own, rank: Rank(self.0) })
    }
}

/// What a receive accepts; `None` accepts everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<A = Peer> {
    /// Messages of this context only.
    pub context: u32,
    /// From whom.
    pub source: Option<A>,
    /// With which tag.
    pub tag: Option<i32>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The sender; [`crate::Endpoint::who`] says who that is.
    pub source: PeerIx,
    /// The sender's tag.
    pub tag: i32,
    /// Bytes written to the buffer.
    pub bytes: usize,
    /// Was the message longer than the buffer? Then the buffer holds its start.
    pub truncated: bool,
    /// Was the receive cancelled before it matched?
    pub cancelled: bool,
    /// What the sender marked it with (see [`crate::Endpoint::isend_marked`]); 0 if it did not.
    pub mark: u32,
}

/// Marks are less than this.
pub const MARKS: u32 = crate::wire::REQUEST_MAX + 1;

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The sender; [`crate::Endpoint::who`] says who that is.
    pub source: PeerIx,
    /// Its tag.
    pub tag: i32,
    /// Length of the message.
    pub bytes: usize,
}

/// Why a message did not get through.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NetError {
    /// No such peer.
    #[error("there is no {peer} in a job of {size}")]
    NoSuchPeer {
        /// Who.
        peer: Peer,
        /// Ranks there are.
        size: u32,
    },
    /// No connection to a peer.
    #[error("no connection to {}: {cause}", placed(*peer, *node, host))]
    Unreachable {
        /// The peer.
        peer: Peer,
        /// Its node.
        node: NodeId,
        /// Its host, if it is another one and known.
        host: Option<Arc<str>>,
        /// What is known.
        cause: Arc<Cause>,
    },
    /// The receiver could not take the message: its memory is gone, or this side's.
    #[error("{peer} could not read the message from this process's memory")]
    Refused {
        /// The receiver.
        peer: Peer,
    },
    /// The receiver takes no part any more in the collective: somebody else was lost.
    #[error("{peer} has left the operation, since a job that takes part has ended")]
    Left {
        /// The receiver.
        peer: Peer,
    },
    /// The memory of a message that was being sent is not mapped any more.
    #[error("the buffer of a message to {to} was given away before it was sent")]
    Gone {
        /// The receiver.
        to: Peer,
    },
    /// The sender's memory is not there any more.
    #[error("{peer} gave the buffer of its message away before it was received")]
    Withdrawn {
        /// The sender.
        peer: Peer,
    },
    /// The memory of a process, which it has told others of, cannot be read or written.
    #[error("the memory of {peer} cannot be reached: {cause}")]
    OutOfReach {
        /// Whose.
        peer: Peer,
        /// What the kernel or the device says.
        cause: Arc<RdmaError>,
    },
    /// The process manager.
    #[error("process manager: {0}")]
    Pmi(Arc<PmiError>),
    /// The id is not, or no longer, that of a message in progress.
    #[error("no such message in progress")]
    StaleRequest,
}

impl NetError {
    /// Has somebody ended, or left an operation because of that?
    pub fn is_end(&self) -> bool {
        match self {
            NetError::Left { .. } => true,
            NetError::Unreachable { cause, .. } => {
                matches!(**cause, Cause::Ended | Cause::Break(BreakReason::Closed))
            }
            _ => false,
        }
    }

    /// The process that it is about, if it is about one.
    pub fn peer(&self) -> Option<Peer> {
        match self {
            NetError::NoSuchPeer { peer, .. }
            | NetError::Unreachable { peer, .. }
            | NetError::Refused { peer }
            | NetError::Left { peer }
            | NetError::Gone { to: peer }
            | NetError::Withdrawn { peer }
            | NetError::OutOfReach { peer, .. } => Some(*peer),
            NetError::Pmi(_) | NetError::StaleRequest => None,
        }
    }
}

/// A peer and its place. The name of a server says on which node it is.
fn placed(peer: Peer, node: NodeId, host: &Option<Arc<str>>) -> String {
    match (peer, host) {
        (Peer::Rank { .. }, Some(host)) => format!("{peer} on node {node} (host {host})"),
        (Peer::Rank { .. }, None) => format!("{peer} on node {node}"),
        (Peer::Server { .. }, Some(host)) => format!("{peer} (host {host})"),
        (Peer::Server { .. }, None) => peer.to_string(),
    }
}

/// Why there is no connection to a peer, or none any more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// Its job has come to a bad end.
    #[error("its job has ended")]
    Ended,
    /// The connection broke.
    #[error(transparent)]
    Break(#[from] BreakReason),
    /// No provider reaches it.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// Its card cannot be read.
    #[error(transparent)]
    Card(#[from] CardError),
    /// It has no card.
    #[error("it published no card; is it a program of another MPI library?")]
    NoCard,
    /// The process manager did not give its card.
    #[error("{0}")]
    Pmi(Arc<PmiError>),
    /// Sockets are needed for it, and there are none.
    #[error("no socket could be opened: {0}")]
    Sockets(Arc<ReachSetupError>),
    /// This process has no process manager.
    #[error("a process of its own has no peers")]
    Alone,
    /// There is no queue pair at the moment.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The RDMA device has no room for what connections are shared by.
    #[error("{0}: shared connections (--xrc) take a queue pair for each process of other nodes")]
    TooSmallToShare(CreateError),
    /// The node's device is too small for any connection.
    #[error(
        "{error}; one for each of the node's {slots} processes, those that are kept and one more are needed (--qp-max)"
    )]
    Device {
        /// What the device says.
        error: CreateError,
        /// Processes of the node.
        slots: u32,
    },
    /// The queue pair could not be connected.
    #[error("{0}")]
    Connect(Arc<ConnectError>),
    /// The handshake could not be sent.
    #[error("{0}")]
    Control(Arc<ControlError>),
    /// Its memory could not be read.
    #[error("{0}")]
    Read(Arc<RdmaError>),
    /// Work on the connection failed.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// It said what no peer says.
    #[error("it sent what no peer sends: {0}")]
    Nonsense(&'static str),
}
