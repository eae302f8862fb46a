//! What moves messages: one process's endpoint.
//!
//! An [`Endpoint`] knows its job (rank, size, nodes, from PMI), connects to a peer at first contact, moves
//! tagged messages eagerly or by rendezvous, matches them, and makes progress only inside its caller's
//! thread. It knows nothing of communicators or datatypes: a *context* is a number, a message is bytes.
#![forbid(unsafe_code)]

pub use proto::ids::{NodeId, Rank};
pub use sys::{UserBuf, UserBufMut};

mod api;
pub use api::*;
