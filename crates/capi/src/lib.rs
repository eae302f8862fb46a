//! MPI for C programs: the translation between the engine of `mpi` and two binary interfaces.
//!
//! Everything is written once, generic over [`Abi`]: handles, statuses and constants differ, the rest does
//! not.
//! `table/` is the one list of functions and constants; headers, exports and stubs are generated from it.
//! The functions of the modules bear the names of the standard and are exported by the leaf crates
//! `capi-mpich` (`libmpi.so.12`) and `capi-abi` (`libmpi_abi.so.1`); nothing is exported from here, or it
//! would leak into both.
//!
//! What a C caller passes is checked as far as it can be: null pointers, null and foreign handles, negative
//! counts. An error goes to the error handler of the communicator; nothing panics across the border.
#![allow(unsafe_code)] // FFI: confined to `args`, `callbacks` and `engine`

pub mod abi;
pub mod args;
pub mod armci;
pub mod attr;
pub mod bsend;
mod callbacks;
pub mod coll;
pub mod comm;
pub mod constants;
pub mod cvar;
pub mod datatype;
pub mod decode;
pub mod dynamic;
pub mod engine;
pub mod env;
pub mod errhandler;
pub mod errors;
pub mod event;
pub mod fortran;
pub mod graph;
pub mod group;
pub mod handles;
pub mod info;
pub mod life;
pub mod mpich;
pub mod op;
pub mod p2p;
pub mod pack;
pub mod part;
pub mod pvar;
pub mod request;
pub mod session;
mod short;
pub mod standard;
pub mod stats;
pub mod status;
pub mod tool;
pub mod topo;
mod types;
pub mod win;

pub use abi::Abi;
pub use coll::neighborhood;
pub use mpich::Mpich;
pub use standard::Standard;
