//! Global arrays: dense arrays whose blocks are spread over processes, and of which everybody reads, writes and accumulates
//! any patch.
//!
//! | file | what is there |
//! |---|---|
//! | `patch`, `distribution`, `levels` | arithmetic: boxes of indices, who holds which, a transfer as strides |
//! | `array` | arrays, and access to patches and single elements |
//! | `block` | what a process works on in memory of its own |
//! | `elements` | many elements anywhere |
//! | `overlap` | access that goes on meanwhile |
//! | `whole`, `matmul`, `ghosts` | collective operations on arrays |
//!
//! A process names elements by their indices; who holds them follows from arithmetic that everybody can do
//! ([`Distribution`]), so that nobody is asked. What moves is one strided operation of [`Memory`](crate::Memory) for each
//! process that holds a part. No reference into shared memory is given out: a process works on a copy of its block.
//!
//! ```no_run
//! use pgas::ga::{GaError, GlobalArray};
//! fn main() -> Result<(), GaError> {
//!     let armci = pgas::Armci::new(&mpi::init()?.world())?;
//!     let squares = GlobalArray::<i64, 2>::create(&armci, [10, 10])?;
//!     squares.fill_with(|[i, j]| (i * j) as i64)?;
//!     // Whoever holds them:
//!     assert_eq!(squares.read([3..5, 7..9])?, [21, 24, 28, 32]);
//!     Ok(())
//! }
//! ```
mod array;
mod block;
mod distribution;
mod element;
mod elements;
mod error;
mod ghosts;
mod levels;
mod matmul;
mod overlap;
mod patch;
mod whole;

pub use array::{GlobalArray, Layout};
pub use block::Block;
pub use distribution::{DIMS_MAX, Distribution, ShapeError};
pub use element::{Counter, Element};
pub use error::{GaError, Result};
pub use ghosts::{Edge, Reach};
pub use matmul::{Operand, Tasks, Tiling};
pub use overlap::overlap;
pub use patch::Patch;
