//! `libmpi_abi.so.1`: Banyan's MPI with the MPI 5 standard ABI. Only exports; the translation is in `capi`.
#![allow(unsafe_code)] // exported names
#![allow(missing_docs)] // they are the standard's
#![allow(non_snake_case, clippy::too_many_arguments)]

#[path = "../../capi-mpich/src/fortran.rs"]
mod fortran;

use capi::args::{Buf, BufMut, In, Opaque, Ptr, Text, TextOut};
use capi::{Abi, Standard};
use std::ffi::{c_int, c_ulonglong};

type Handle = <Standard as Abi>::Handle;
type Status = <Standard as Abi>::Status;

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// A counter of the library, by name (`banyan.h`).
#[unsafe(no_mangle)]
pub extern "C" fn BANYAN_Stat(name: Text, value: Ptr<c_ulonglong>) -> c_int {
    capi::stats::stat::<Standard>(name, value)
}

/// The name of a counter, by number (`banyan.h`).
#[unsafe(no_mangle)]
pub extern "C" fn BANYAN_Stat_name(index: c_int, name: TextOut) -> c_int {
    capi::stats::stat_name::<Standard>(index, name)
}

/// ARMCI's functions, for `libarmci.so`, so that both libraries of a process have one engine.
static ARMCI: capi::armci::Table = capi::armci::Table::of::<Standard>();

/// Where they are.
#[unsafe(no_mangle)]
pub extern "C" fn BANYAN_armci() -> &'static capi::armci::Table {
    &ARMCI
}
