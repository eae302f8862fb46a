//! What Banyan does to the machine: every system call, shared segment, ring and futex.
//!
//! `unsafe` lives here. What the crate offers is safe to use, with one exception that every user of a
//! program's memory goes through: the constructors of [`UserBuf`] and [`UserBufMut`]. Memory that another
//! process may write is reached through atomics or raw copies, never through `&[u8]`.
//!
//! It decides nothing: protocols are in `proto`, objects in `fabric`.
#![allow(unsafe_code)]

pub mod board;
pub mod cma;
pub mod cpu;
pub mod inherit;
pub mod limit;
pub mod local;
pub mod mem;
pub mod net;
pub mod node;
pub mod out;
pub mod poll;
pub mod pool;
pub mod probe;
pub mod process;
pub mod random;
pub mod ring;
pub mod segment;
pub mod signal;
mod sockaddr;
pub mod socket;
mod sync;
pub mod sysv;
pub mod tcp;
pub mod topology;
pub mod udp;
pub mod watch;

pub use mem::{Locator, SharedMap, SharedMemory, UserBuf, UserBufMut};
