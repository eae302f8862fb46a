//! What moves messages: one process's endpoint.
//!
//! An [`Endpoint`] knows its job (rank, size, nodes, from PMI), connects to a peer at first contact, moves
//! tagged messages eagerly or by rendezvous, matches them, and makes progress only inside its caller's
//! thread. It knows nothing of communicators or datatypes: a *context* is a number, a message is bytes.
#![forbid(unsafe_code)]

pub use proto::ids::{NodeId, Rank};
pub use sys::{UserBuf, UserBufMut};

mod api;
mod connect;
mod connection;
mod endpoint;
mod job;
mod pmi;
mod progress;
mod request;
mod start;
mod wire;

pub use api::*;
pub use endpoint::Endpoint;
pub use pmi::PmiError;
pub use progress::Backoff;
pub use proto::stats::Stat;
pub use start::{Config, StartError};
