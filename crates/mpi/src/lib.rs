//! What MPI means, as a Rust library.
//!
//! Two faces on one engine:
//! - the crate root: a safe API for Rust programs. [`init`] joins the job, [`Communicator`] sends, receives and
//!   runs collectives, [`Communicator::scope`] lets them go on while the program computes, a [`Window`] is memory
//!   that others access by themselves;
//! - [`core`]: the engine, one object with `&mut self` methods and numbered objects, as the C interface
//!   needs it.
//!
//! It moves no bytes (`net` does), knows no C (`capi` does), and decides no algorithm (`proto::coll` does).
//!
//! ```no_run
//! fn main() -> mpi::Result<()> {
//!     let world = mpi::init()?.world();
//!     let right = (world.rank() + 1) % world.size();
//!     let mut token = [0u32];
//!     world.sendrecv(&[world.rank() as u32], right, &mut token, mpi::Any, 0)?;
//!     println!("rank {} heard from {}", world.rank(), token[0]);
//!     Ok(())
//! }
//! ```
#![deny(unsafe_code)]

pub mod buffer;
mod collectives;
mod communicator;
pub mod core;
mod datum;
pub mod error;
mod neighbors;
mod scope;
#[doc(hidden)]
pub mod selftest;
mod universe;
mod window;

pub use buffer::{RecvBuf, Scratch, SendBuf};
pub use collectives::Order;
pub use communicator::{Any, Communicator, Source, Status, Tag};
pub use datum::{Datum, Op};
pub use error::{Cause, ErrorClass, MpiError, Result};
pub use neighbors::Neighbors;
pub use net::{Backoff, Nap, Rest, Stat};
pub use scope::{Pending, Scope};
pub use universe::{Universe, init};
pub use window::{Access, Lock, Locked, Window};
