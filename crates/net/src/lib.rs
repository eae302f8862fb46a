//! What moves messages: one process's endpoint.
//!
//! An [`Endpoint`] knows its job (rank, size, nodes, from PMI), connects to a peer at first contact, moves
//! tagged messages eagerly or by rendezvous, matches them, and makes progress only inside its caller's
//! thread. It knows nothing of communicators or datatypes: a *context* is a number, a message is bytes.
//!
//! | room | what happens there |
//! |---|---|
//! | `endpoint` | the interface: sends, receives, probes |
//! | `progress` | what came in, and where it goes |
//! | `short` | the short way of small messages inside a host |
//! | `rendezvous` | long messages: offer, read, place, fragments |
//! | `direct` | memory that collectives reach without a connection |
//! | `active` | messages for handlers, for windows and global arrays |
//! | `common` | memory that processes of a host share |
//! | `remote` | memory that a peer has lent, read and written in its turn among messages |
//! | `peers`, `link` | drives `proto::wireup`; what waits to be sent to a peer |
//! | `waiting` | spins, yields, sleeps; says for whom. The one place where time enters |
//! | `start`, `job`, `reach`, `pmi` | joining and leaving the job |
//! | `meeting` | processes of other jobs |
//! | `ahead` | connections that a pattern predicts, and first contacts |
//! | `stats` | what is counted |
#![forbid(unsafe_code)]

pub use fabric::Ties;
pub use proto::ids::{Job, NodeId, Peer, PeerIx, Process, Rank};
pub use sys::cma::Row;
pub use sys::{UserBuf, UserBufMut};

mod active;
mod ahead;
mod alone;
mod api;
mod choice;
mod common;
mod direct;
mod endpoint;
mod everyone;
mod job;
mod link;
mod meeting;
mod peers;
mod pmi;
mod progress;
mod reach;
mod remote;
mod rendezvous;
mod request;
mod room;
mod short;
mod start;
mod stats;
mod together;
mod waiting;
mod whereabouts;
mod wire;

#[cfg(test)]
mod tests;

pub use active::{Active, Handler};
pub use api::*;
pub use common::{COMMON_WORDS, Common};
pub use direct::Whereabouts;
pub use endpoint::Endpoint;
pub use fabric::{Push, RdmaError};
pub use meeting::{Door, KEY_OF_PARENT, MeetError, Meeting, Span, chance};
pub use pmi::{PmiError, Spawn, SpawnPair};
pub use proto::stats::Stat;
pub use proto::waits;
pub use remote::{Loan, Place};
pub use start::{Collectives, Config, StartError};
pub use together::Record;
pub use waiting::{Awaiting, Backoff, Doing, Nap, Rest, Wait};
pub use whereabouts::{Lack, LeftOver};
