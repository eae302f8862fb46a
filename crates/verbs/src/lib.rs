//! RDMA verbs as safe objects over `libibverbs.so.1`, which is loaded when it is first asked for: a program that is built
//! with this crate starts also where there is no such library, and is told so ([`Missing`]).
//!
//! What makes it safe: memory that a device reads or writes is named by a [`sys::UserBuf`] (whose maker has promised that it
//! stays) or belongs to an [`Arena`]; a work request names registered memory by its key, and the device refuses what lies
//! outside; every object keeps alive what it was made from.
//!
//! It knows nothing of Banyan: which device, when to connect and what the bytes mean is for others to say.
#![allow(unsafe_code)] // calls of a C library

mod arena;
mod completion;
mod device;
pub mod ffi;
mod library;
mod qp;
mod srq;
mod work;

pub use arena::Arena;
pub use completion::{Completion, Cq, Failed, Outcome};
pub use device::{
    AsyncEvent, Atomics, Context, Device, Gid, GidKind, Limits, LinkLayer, Port, PortState, devices,
};
pub use library::{Missing, VerbsError};
pub use qp::{Address, Ah, Dest, Qp, QpCaps, QpKind, QpSettings, State, Xrcd};
pub use srq::Srq;
pub use work::{Access, Local, Mr, Operation, Pd, Piece, Remote, Work};
