//! What a provider is: the cold functions as a trait, and the words for what may go wrong.
//!
//! The hot functions (`post_send`, `poll`) are not here: [`crate::Context`] matches on the provider, so that the
//! shared-memory path stays inlined.
use crate::card::Card;
use crate::qp::{MrKey, ProviderKind, Qp, WorkId};
use crate::state::{IllegalMove, QpState};
use proto::ids::QpNum;
use proto::wireup::Params;
use std::io;
use std::net::SocketAddr;
use sys::UserBuf;
use sys::cpu::CoreSet;
use sys::node::TARGETS_MAX;
use sys::node::{QpClaim, QpLimit};
use sys::segment::RINGS_MAX;

/// What a provider can do. Facts; what follows from them is decided in `proto::transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The longest message that can be posted.
    pub message_max: usize,
    /// May messages be posted before the peer has answered (in INIT), on every connection? They reach it without this side's help.
    pub early: bool,
    /// Can memory of the peer be read without its help, in one copy?
    pub reads_alone: bool,
    /// Can memory of the peer be read at all, if need be with its help?
    pub reads: bool,
    /// Does a long message go from the sender's buffer into the receiver's without a copy in between?
    pub places: bool,
    /// Does a read or write that the peer refuses break the connection?
    pub refusals_break: bool,
    /// Can a word of the peer's memory be changed in one step?
    pub atomics: bool,
    /// Do control messages travel on the connection itself, and are never lost there?
    pub control_on_stream: bool,
}

/// Which side of a handshake makes a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has something to send, and asks the peer.
    Asks,
    /// The peer has asked.
    Answers,
}

impl From<Role> for QpClaim {
    fn from(role: Role) -> Self {
        match role {
            Role::Asks => QpClaim::Attempt,
            Role::Answers => QpClaim::Answer,
        }
    }
}

/// When a send has to leave this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// Now: its caller blocks until it has.
    Now,
    /// At the next poll at the latest: it may travel with others.
    Soon,
}

/// How far posted work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Done: the buffer is free, or the bytes are there.
    Done,
    /// The buffer is lent until the [`crate::Event::Done`] of this work.
    Later(WorkId),
}

/// How far a posted atomic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicPosted {
    /// Done; the old value.
    Done(u64),
    /// The old value comes with the [`crate::Event::Done`] of this work.
    Later(WorkId),
}

/// An operation on a double word of a peer's memory; returns the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds, wrapping.
    Add(u64),
    /// Stores `new` if the word is `expected`.
    Swap {
        /// What must be there.
        expected: u64,
        /// What is stored then.
        new: u64,
    },
}

/// What became of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way; a datagram may still be lost.
    Sent,
    /// It was lost here already (a full mailbox).
    Dropped,
}

/// Why there is no new queue pair at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The node's device has no more.
    #[error("the device has no queue pair left: {} of {} are in use on this node{}", .0.used, .0.max, kept(.0))]
    Device(QpLimit),
    /// The process has no more receive rings.
    #[error("a process can have {RINGS_MAX} connections at a time")]
    Rings,
    /// The process has no more descriptors.
    #[error("no descriptor is left for a connection: the limit (ulimit -n) is {limit}")]
    Descriptors {
        /// Descriptors the process may have.
        limit: u64,
    },
    /// The RDMA device says no.
    #[error("the RDMA device makes no queue pair: {}", io::Error::from_raw_os_error(*.code))]
    Refused {
        /// Why, as the system numbers it.
        code: i32,
    },
    /// The node knows too many processes elsewhere.
    #[error(
        "the processes of a node share connections with {TARGETS_MAX} processes elsewhere at a time, and no more; --xrc off gives each its own"
    )]
    TargetsFull,
    /// Another process of the node does not come to an end with a target.
    #[error("another process of this node has long been making a connection that both share")]
    TargetBusy,
}

fn kept(limit: &QpLimit) -> String {
    match limit.kept {
        0 => String::new(),
        kept => format!(", {kept} are kept for peers that ask"),
    }
}

/// Why a queue pair does not move on.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The move is not in the table.
    #[error(transparent)]
    Move(#[from] IllegalMove),
    /// There is none such (any more).
    #[error("there is no such queue pair")]
    Stale,
    /// Memory of this process's end is not to be had.
    #[error("no memory for a connection: {0}")]
    Memory(io::Error),
    /// The peer's memory cannot be mapped.
    #[error("cannot map the memory of process {pid}: {error}")]
    Map {
        /// The peer's process.
        pid: u32,
        /// What the system says.
        error: io::Error,
    },
    /// The parameters are not those of a ring.
    #[error("queue pair {num} has a ring {ring} of {bytes} bytes, which is no ring")]
    Params {
        /// The peer's queue pair.
        num: QpNum,
        /// Its ring.
        ring: u32,
        /// Its length.
        bytes: u32,
    },
    /// The peer names a stream that is not there.
    #[error("the stream that the peer speaks of is not there")]
    NoStream,
    /// The RDMA device says no.
    #[error("the RDMA device refuses: {0}")]
    Device(String),
    /// The peer cannot be reached this way.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// A descriptor could not be had.
    #[error("no descriptor is left for a connection: the limit (ulimit -n) is {limit}")]
    Descriptors {
        /// Descriptors the process may have.
        limit: u64,
    },
}

/// Why nobody here can reach the owner of a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// On another host, and one of the two has no address there.
    #[error(
        "it is on another host, and {who} has no network address; jobs on different hosts meet if both have --net"
    )]
    NoAddress {
        /// "it" or "this process".
        who: &'static str,
    },
    /// On this host, but memory cannot be shared, and there is no address either.
    #[error("it shares this host, but not its memory, and has no network address; try --force-net")]
    NotShared,
    /// Without it no socket takes or opens connections.
    #[error("the job's key is not known yet")]
    NoKey,
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// No room at the moment; try again after polling.
    #[error("no room at the moment")]
    Full,
    /// The queue pair may not send.
    #[error("queue pair {qp:#x} cannot send in state {state:?}")]
    State {
        /// Its number.
        qp: u32,
        /// Its state.
        state: QpState,
    },
    /// It is not there any more.
    #[error("there is no such queue pair")]
    Stale,
    /// Longer than this queue pair can ever take.
    #[error("a message of {bytes} bytes; the longest is {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// Why a control message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The peer cannot be reached this way.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The peer's memory cannot be mapped.
    #[error("cannot map the memory of process {pid}: {error}")]
    Map {
        /// The peer's process.
        pid: u32,
        /// What the system says.
        error: io::Error,
    },
    /// The RDMA device says no.
    #[error("{device}: {why}")]
    Device {
        /// Which one.
        device: String,
        /// What it says.
        why: String,
    },
    /// The network says no.
    #[error("{to}: {error}")]
    Net {
        /// The peer's address.
        to: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
}

/// Why an RDMA operation was not posted.
#[derive(Debug, thiserror::Error)]
pub enum RdmaError {
    /// The kernel (or the configuration) forbids it; it will not work later either.
    #[error("the memory of other processes may not be accessed here")]
    Forbidden,
    /// The key is not registered, or the range is outside.
    #[error("the remote range is not registered")]
    Key,
    /// The queue pair is not connected.
    #[error("the queue pair is not connected")]
    State,
    /// The atomic is not possible there (misaligned, or memory of a kind that cannot).
    #[error("no atomic operation is possible there")]
    Atomic,
    /// No room at the moment; try again after polling.
    #[error("no room at the moment")]
    Full,
    /// The copy failed; the peer's memory may be gone.
    #[error("copying failed: {0}")]
    Io(io::Error),
}

/// Why posted work did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The queue pair broke, or was destroyed.
    #[error("the connection broke")]
    Broken,
    /// The peer refused the key or the range.
    #[error("the remote range is not registered")]
    Key,
    /// The peer cannot do that there.
    #[error("no atomic operation is possible there")]
    Atomic,
}

/// Why a queue pair broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BreakReason {
    /// The peer wrote what no peer writes.
    #[error("it sent what no peer sends: {0}")]
    Nonsense(&'static str),
    /// The peer's end is gone.
    #[error("it closed the connection")]
    Closed,
    /// Its memory, which was to be mapped at the first message, cannot be.
    #[error("cannot map the memory of process {pid}: {why}")]
    Map {
        /// The peer's process.
        pid: u32,
        /// What the system says.
        why: String,
    },
    /// The peer could not be reached.
    #[error(
        "no connection from {from} to {to} ({why}, tried for {seconds} s); is it the right interface? (--net)"
    )]
    Unreachable {
        /// Address and interface of this side.
        from: String,
        /// The peer's address.
        to: SocketAddr,
        /// What the network said last.
        why: String,
        /// How long it was tried.
        seconds: u64,
    },
    /// The network gave up.
    #[error("the connection from {from} to {to} is lost: {why}")]
    Lost {
        /// Address and interface of this side.
        from: String,
        /// The peer's address.
        to: SocketAddr,
        /// What the network said.
        why: String,
    },
    /// The RDMA device has given up.
    #[error("the connection through {device} is lost: {why}")]
    Device {
        /// Which one.
        device: String,
        /// What it says.
        why: String,
    },
    /// The peer holds another key.
    #[error("it does not hold the job's key")]
    Proof,
}

/// Queue pairs that were made together.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// Each with its number; these rise.
    pub qps: Vec<(Qp, u32)>,
    /// What a peer has to know of all of them.
    pub facts: [u64; 2],
}

/// The cold functions of a provider.
pub trait Provider {
    /// Which one it is.
    fn kind(&self) -> ProviderKind;
    /// What it can do.
    fn caps(&self) -> Caps;
    /// A new queue pair, in RESET.
    fn create(&mut self, claim: QpClaim) -> Result<Qp, CreateError>;
    /// The same for the connection to the owner of a card, which may be one that the card's node shares.
    fn create_for(&mut self, claim: QpClaim, _peer: &Card) -> Result<Qp, CreateError> {
        self.create(claim)
    }
    /// Makes a queue pair that [`create`](Self::create) gives out later at once, if fewer than so many are kept. Was one made?
    fn keep_ready(&mut self, _count: usize) -> bool {
        false
    }
    /// New queue pairs in INIT for peers whose cards nobody has yet, made by so many threads at a time, which run on these
    /// cores; in the order of their numbers, and fewer than wanted where there are no more. `None`: this provider cannot.
    fn create_ahead(&mut self, _count: usize, _threads: usize, _cores: &CoreSet) -> Option<Ahead> {
        None
    }
    /// The same, with what a peer needs to connect to each. None, where this provider cannot.
    fn create_together(&mut self, _count: usize, _threads: usize) -> Vec<(Qp, Params)> {
        Vec::new()
    }
    /// So many queue pairs are going to be connected at a time, by as many threads as that; the next ones that are.
    fn ready_together(&mut self, _count: usize) {}
    /// What a peer needs to connect to the queue pair that is at a place of [`Ahead`].
    fn ahead_params(&self, _facts: [u64; 2], _place: u32, _number: u32) -> Option<Params> {
        None
    }
    /// RESET to INIT: room for what comes in, and what the peer must know. With [`Role::Asks`], where the provider has
    /// [`Caps::early`], messages may be posted from now on.
    fn init(&mut self, qp: Qp, peer: &Card, role: Role) -> Result<Params, ConnectError>;
    /// INIT to RTR: knows the peer's end, and begins to receive.
    fn rtr(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), ConnectError>;
    /// RTR to RTS: may send.
    fn rts(&mut self, qp: Qp) -> Result<(), ConnectError>;
    /// RTS to SQD: takes nothing new, and finishes what was posted.
    fn sqd(&mut self, qp: Qp) -> Result<(), ConnectError>;
    /// Is everything that was posted on it with the peer (or in its memory)?
    fn is_drained(&self, qp: Qp) -> bool;
    /// Is a message on its way in that has been seen in part, or something posted that is not with the peer?
    fn is_busy(&self, qp: Qp) -> bool;
    /// What has gone through a queue pair, both ways, in a unit of the provider's own. It never goes down; what does
    /// not change is idle.
    fn traffic(&self, qp: Qp) -> u64;
    /// The state of a queue pair; RESET for one that is not there.
    fn state(&self, qp: Qp) -> QpState;
    /// Ends a queue pair and gives back what it had. Its work ends in errors.
    fn destroy(&mut self, qp: Qp);
    /// Live queue pairs.
    fn count(&self) -> usize;
    /// Sends a control message: on the queue pair's own connection where there is one, else as a datagram.
    fn send_control(&mut self, qp: Option<Qp>, to: &Card, bytes: &[u8]) -> Result<Sent, ControlError>;
    /// Registers a buffer that peers of this provider may read and write. `None`: no more at the moment.
    fn register(&mut self, buf: UserBuf) -> Option<MrKey>;
    /// Ends a registration.
    fn deregister(&mut self, key: MrKey);
    /// Asks all peers for rendezvous instead of eager messages, or takes that back.
    fn set_frugal(&mut self, frugal: bool);
    /// Datagrams lost on this side because there was no room.
    fn datagrams_dropped(&mut self) -> u64;
    /// Bytes of memory that connections have here.
    fn memory_bytes(&self) -> u64;
}
