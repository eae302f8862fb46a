//! What Banyan connects with: queue pairs, completions, datagrams and registered memory, shaped like verbs.
//!
//! A [`Context`] is one process's open device. Its queue pairs follow one table of states ([`state`]);
//! messages are posted to a queue pair and come out of the peer's [`Context::poll`] as a view that is lent,
//! not as a buffer that was posted. Datagrams need no connection and may be lost. RDMA reads and writes
//! move bytes between registered memories without the peer's help.
//!
//! The *soft* provider, for processes of one host, is the only one so far: a queue pair is a ring in each
//! side's segment, made when the pair leaves RESET. The fabric decides no protocol: who connects to whom
//! and when is `proto::wireup`, driven by `net`.
#![forbid(unsafe_code)]

mod address;
mod context;
mod cq;
mod qp;
pub mod state;

pub use address::{Address, AddressError, CARD_BYTES, PARAMS_BYTES, QpParams};
pub use context::{Config, Context, Node, OpenError, SharedRegion};
pub use cq::Event;
pub use qp::{ConnectError, CreateError, MrKey, PostError, Qp, RdmaError, RemoteMemory};
pub use sys::ring::View;
pub use sys::segment::DATAGRAM_MAX;
