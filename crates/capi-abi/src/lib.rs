//! `libmpi_abi.so.1`: Banyan's MPI with the MPI 5 standard ABI. Only exports; the translation is in `capi`.
#![allow(unsafe_code)] // exported names
#![allow(missing_docs)] // they are the standard's
#![allow(non_snake_case, clippy::too_many_arguments)]

use capi::args::{Buf, BufMut, In, Opaque, Ptr, Text, TextOut};
use capi::{Abi, Standard};
use std::ffi::c_int;

type Handle = <Standard as Abi>::Handle;
type Status = <Standard as Abi>::Status;

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
