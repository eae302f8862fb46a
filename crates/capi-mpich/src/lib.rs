//! `libmpi.so.12`: Banyan's MPI with the MPICH ABI. Only exports; the translation is in `capi`.
#![allow(unsafe_code)] // exported names
#![allow(missing_docs)] // they are the standard's
#![allow(non_snake_case, clippy::too_many_arguments)]

mod fortran;

use capi::args::{Buf, BufMut, In, Opaque, Ptr, Text, TextOut};
use capi::{Abi, Mpich};
use std::ffi::{c_int, c_ulonglong};
use std::sync::atomic::AtomicPtr;

type Handle = <Mpich as Abi>::Handle;
type Status = <Mpich as Abi>::Status;

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// A counter of the library, by name (`banyan.h`).
#[unsafe(no_mangle)]
pub extern "C" fn BANYAN_Stat(name: Text, value: Ptr<c_ulonglong>) -> c_int {
    capi::stats::stat::<Mpich>(name, value)
}

/// The name of a counter, by number (`banyan.h`).
#[unsafe(no_mangle)]
pub extern "C" fn BANYAN_Stat_name(index: c_int, name: TextOut) -> c_int {
    capi::stats::stat_name::<Mpich>(index, name)
}

/// A constant pointer that C reads; only its value counts.
#[repr(transparent)]
pub struct Mark(*const c_int);

// SAFETY: nobody follows or changes the pointer.
unsafe impl Sync for Mark {}

#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Mark = Mark(&raw const capi::mpich::UNWEIGHTED);
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Mark = Mark(&raw const capi::mpich::WEIGHTS_EMPTY);
/// As `MPI_STATUS_IGNORE`.
const IGNORE: *const c_int = std::ptr::without_provenance(Mpich::C.status_ignore as usize);
/// MPICH's library of Fortran bindings writes where Fortran has its own `MPI_STATUS_IGNORE`, for `MPI_Status_f2c`'s users.
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(IGNORE.cast_mut());
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(IGNORE.cast_mut());
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Mark = Mark(IGNORE);
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Mark = Mark(IGNORE);
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Mark = Mark(IGNORE);

/// `MPI_COMM_DUP_FN` and its family: copies the value.
#[unsafe(no_mangle)]
pub extern "C" fn MPIR_Dup_fn(
    _object: Handle,
    _keyval: c_int,
    _extra_state: Opaque,
    value: BufMut,
    copy: BufMut,
    flag: Ptr<c_int>,
) -> c_int {
    let stored = copy.store(value.addr()).and_then(|()| flag.set(1));
    stored.map_or(Mpich::C.err_arg as c_int, |()| 0)
}

/// ARMCI's functions, for `libarmci.so`, so that both libraries of a process have one engine.
static ARMCI: capi::armci::Table = capi::armci::Table::of::<Mpich>();

/// Where they are.
#[unsafe(no_mangle)]
pub extern "C" fn BANYAN_armci() -> &'static capi::armci::Table {
    &ARMCI
}
