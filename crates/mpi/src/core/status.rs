//! How messages are addressed and how they ended.
use super::ids::RequestId;
use crate::error::{ErrorClass, Result};

/// The other side of a message, or the root of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A rank of the communicator; checked by the operation, so that a caller may pass any number.
    Rank(i32),
    /// Any sender (`MPI_ANY_SOURCE`).
    Any,
    /// Nobody (`MPI_PROC_NULL`): the operation does nothing and succeeds.
    Null,
    /// This process is the root, seen from its own group of an intercommunicator (`MPI_ROOT`).
    Root,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Rank(rank) => write!(f, "{rank}"),
            Peer::Any => f.write_str("MPI_ANY_SOURCE"),
            Peer::Null => f.write_str("MPI_PROC_NULL"),
            Peer::Root => f.write_str("MPI_ROOT"),
        }
    }
}

/// Which tag a receive or probe accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// This one.
    Is(i32),
    /// Any (`MPI_ANY_TAG`).
    Any,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dest {
    /// The receiver.
    pub peer: Peer,
    /// The message's tag.
    pub tag: i32,
}

impl Dest {
    /// To `peer`, with `tag`.
    #[inline]
    pub const fn new(peer: Peer, tag: i32) -> Self {
        Dest { peer, tag }
    }
}

/// Which messages a receive or probe accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Their sender.
    pub peer: Peer,
    /// Their tag.
    pub tag: Tag,
}

impl Source {
    /// From `peer`, with `tag`.
    #[inline]
    pub const fn new(peer: Peer, tag: Tag) -> Self {
        Source { peer, tag }
    }
}

/// The four send modes (MPI-5 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Complete when the buffer may be reused.
    Standard,
    /// Complete when, moreover, the receive has started.
    Synchronous,
    /// Complete at once; the message goes to the attached buffer.
    Buffered,
    /// The receive has been posted already (treated as standard).
    Ready,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender's rank in the communicator, `Any` in an empty status, `Null` for the null process.
    pub source: Peer,
    /// The sender's tag.
    pub tag: Tag,
    /// `Success`, `Truncate`, ... A caller raises it as the error of the operation.
    pub error: ErrorClass,
    /// Bytes received.
    pub bytes: usize,
    /// Was the operation cancelled?
    pub cancelled: bool,
}

impl Status {
    /// The empty status (MPI-5 3.7.3): of sends, of inactive requests, of collectives.
    pub const EMPTY: Status =
        Status { source: Peer::Any, tag: Tag::Any, error: ErrorClass::Success, bytes: 0, cancelled: false };
    /// Of a receive from the null process.
    pub const PROC_NULL: Status = Status { source: Peer::Null, ..Status::EMPTY };

    /// The status, or its error as one.
    #[inline]
    pub fn checked(self) -> Result<Status> {
        if self.error == ErrorClass::Success { Ok(self) } else { Err(self.into()) }
    }
}

/// How a blocking call came back from the engine.
///
/// A blocking call waits inside the engine, except when a reduction function of the program must run: such
/// a function may call MPI, so it runs while nobody borrows the engine. Then the call comes back with
/// `Pending`, and its caller goes on with [`super::Mpi::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Blocking {
    /// Complete.
    Done(Status),
    /// Not complete: wait for this request (which then is used up).
    Pending(RequestId),
}

/// What [`super::Mpi::wait`] came back with.
#[derive(Debug)]
#[must_use]
pub enum Waited {
    /// The request is complete, and freed unless persistent.
    Done(Status),
    /// Run this while the engine is not borrowed, give it back with [`super::Mpi::job_done`], wait again.
    Job(super::UserReduce),
}
