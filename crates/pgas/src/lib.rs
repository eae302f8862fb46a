//! A partitioned global address space: what ARMCI does, as a Rust library, on the windows of `mpi`.
//!
//! Two faces on one core, as in `mpi`:
//! - the crate root: a safe API. [`Armci`] is made over a communicator; a [`Memory`] is elements of every process that all
//!   of them put, get and accumulate, in a row or with strides;
//! - [`core`]: memory by addresses, operations on bytes, non-blocking handles, groups and mutexes, as the C interface needs
//!   them.
//!
//! Memory, atomicity and progress are those of windows; here is what ARMCI adds: blocking operations towards one process
//! take effect in their order, strides and scaled accumulates, and addresses instead of windows and displacements.
//!
//! ```no_run
//! fn main() -> mpi::Result<()> {
//!     let armci = pgas::Armci::new(&mpi::init()?.world())?;
//!     let shared = armci.malloc::<f64>(8)?;
//!     let right = (armci.rank() + 1) % armci.size();
//!     shared.put(&[0.5, 1.5], right, 2)?;
//!     armci.barrier()?;
//!     let mut got = [0.0; 2];
//!     shared.get(&mut got, armci.rank(), 2)?;
//!     assert_eq!(got, [0.5, 1.5]);
//!     Ok(())
//! }
//! ```
#![deny(unsafe_code)]

mod armci;
mod complex;
pub mod core;
pub mod ga;
mod memory;
mod mutexes;
mod scattered;
mod scope;
mod slices;

pub use armci::Armci;
pub use complex::{Complex32, Complex64};
pub use memory::{Element, Memory, Patch};
pub use mutexes::{Held, Mutexes};
pub use scope::Scope;
