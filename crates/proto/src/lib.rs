//! What Banyan decides: wire formats and protocol state machines, without I/O.
//!
//! Nothing here opens a socket, reads a clock or starts a thread: inputs and a clock go in, actions
//! come out, so that the real endpoint, a simulator and exhaustive tests run the same code. The build
//! proves it: the crate is `no_std` and has no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod coll;
pub mod ids;
pub mod matching;
pub mod pmi;
pub mod stats;
pub mod tree;
pub mod wireup;
