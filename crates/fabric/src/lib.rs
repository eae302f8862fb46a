//! What Banyan connects with: queue pairs, completions, datagrams and registered memory, shaped like verbs.
//!
//! A [`Context`] is one process's open device over several *providers*; which one carries a connection is
//! decided per peer, by the peer's [`Card`]. Queue pairs follow one table of states ([`state`]); messages are posted
//! to a queue pair and come out of the peer's [`Context::poll`] as a view that is lent, not as a buffer that was
//! posted. Work either is done when it has been posted or ends in an event ([`Posted`]). Datagrams need no
//! connection and may be lost. RDMA reads, writes and atomics move bytes between registered memories.
//!
//! - [`soft`]: processes of one host. A queue pair is a ring in each side's segment.
//! - [`rdma`]: processes of hosts with RDMA devices. A queue pair is one of the device.
//! - [`sockets`]: everybody else. A queue pair is a TCP stream, a datagram is one of UDP.
//!
//! The fabric decides no protocol: who connects to whom and when is `proto::wireup`, driven by `net`.
#![forbid(unsafe_code)]

mod card;
mod context;
mod event;
pub mod fault;
pub mod imitate;
mod provider;
mod qp;
pub mod rdma;
mod secrets;
pub mod sockets;
pub mod soft;
pub mod state;
mod table;

pub use card::{Card, CardError, SocketsSection, VerbsSection};
pub use context::{Config, Context, Node, OpenError, Sleep};
pub use event::{BytesView, Event, SlotView, View};
pub use proto::wireup::Params;
pub use provider::{
    Ahead, AtomicOp, AtomicPosted, BreakReason, Caps, ConnectError, ControlError, CreateError, PostError,
    Posted, Provider, Push, RdmaError, ReachError, Role, Sent, WorkError,
};
pub use qp::{MrKey, ProviderKind, Qp, RemoteMemory, WorkId};
pub use soft::{SharedCounts, SharedRegion};
pub use sys::node::{QpClaim, QpWant, Ties};

/// The longest datagram that every provider takes.
pub const DATAGRAM_MAX: usize = 240;
