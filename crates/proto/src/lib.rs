//! What Banyan decides: wire formats and protocol state machines, without I/O.
//!
//! Nothing here opens a socket, reads a clock or starts a thread: inputs and a clock go in, actions
//! come out, so that the real endpoint, a simulator and exhaustive tests run the same code. The build
//! proves it: the crate is `no_std` and has no `unsafe`.
//!
//! | module | decides | driven by |
//! |---|---|---|
//! | [`wireup`] | who the peers are, when two of them connect and part, and with which messages | `net` |
//! | [`pattern`] | whom a process will talk to, from what was seen of an earlier run | `net`, `launch` |
//! | [`matching`] | which message meets which receive | `net` |
//! | [`coll`] | who sends what to whom in a collective operation | `mpi` |
//! | [`check`] | whether all members of a communicator call the same collective | `mpi` |
//! | [`context`] | the number of a new communicator | `mpi` |
//! | [`dims`] | the dimensions of a grid of processes | `mpi`, [`pattern`] |
//! | [`board`] | where a key that a process published is found by the others | `launch` |
//! | [`lane`] | which message of which job between two agents counts | `board` |
//! | [`tree`] | what launcher and agents tell each other, and who publishes which name | `launch` |
//! | [`seal`] | whether the other end of a link belongs to the job, and its frames to the link | `launch` |
//! | [`pmi`], [`pmi2`], [`pmgr`] | what a process and its launcher say to each other | `net`, `launch` |
//! | [`meeting`] | how processes of different jobs tell each other who they are | `net` |
//! | [`placement`] | which rank lives on which node | `net`, `launch` |
//! | [`env`] | what variables of the environment mean | everybody |
//! | [`stream`] | what processes of different hosts send each other, and how they prove who they are | `fabric` |
//! | [`transfer`] | how a message travels, by its length and by what a connection can do | `net` |
//! | [`rma`] | in which order and in which messages operations on a peer's memory leave, and who has its lock | `mpi` |
//! | [`waits`] | what processes wait for, and why a job hangs | `mpi`, `launch` |
//! | [`ids`], [`stats`], [`wire`] | the names of things, what is counted, and the fields of formats | everybody |
//!
//! # Conventions
//! - A machine is fed by methods, emptied by `poll_*` methods, and told the time in nanoseconds as an argument;
//!   each method says when to call it again.
//! - Chance is a seed. No order can be seen that a hash decides, so equal inputs give equal outputs.
//! - A wire format has a type that is valid by construction, an `emit` and a `parse`; parsing refuses with an
//!   error that has the facts, and never panics.
//! - Queues, tables and retries have named maxima.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod board;
pub mod check;
pub mod coll;
pub mod context;
pub mod dims;
pub mod env;
pub mod ids;
pub mod lane;
pub mod matching;
pub mod meeting;
pub mod pattern;
pub mod placement;
pub mod pmgr;
pub mod pmi;
pub mod pmi2;
pub mod rma;
pub mod seal;
pub mod stats;
pub mod stream;
pub mod transfer;
pub mod tree;
pub mod waits;
pub mod wire;
pub mod wireup;
