//! What MPI means, as a Rust library.
//!
//! Two faces on one engine:
//! - [`core`]: the engine, one object with `&mut self` methods and numbered objects, as the C interface
//!   needs it;
//! - the crate root: a safe API for Rust programs.
//!
//! It moves no bytes (`net` does) and knows no C (`capi` does).
#![deny(unsafe_code)]

pub mod buffer;
pub mod core;
pub mod error;

pub use buffer::{RecvBuf, SendBuf};
pub use error::{ErrorClass, MpiError, Result};
pub use net::Backoff;
