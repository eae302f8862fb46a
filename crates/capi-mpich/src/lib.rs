//! `libmpi.so.12`: Banyan's MPI with the MPICH ABI. Only exports; the translation is in `capi`.
#![allow(unsafe_code)] // exported names
#![allow(missing_docs)] // they are the standard's
#![allow(non_snake_case, clippy::too_many_arguments)]

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

/// Fortran's names for the beginning of MPI, as compilers write them. The bindings are another library's (MPICH's), which is
/// mostly found first; without it the program hears why it cannot go on.
mod fortran {
    use std::ffi::{CStr, c_int, c_void};

    type Init = extern "C" fn(*mut c_int);
    type InitThread = extern "C" fn(*mut c_int, *mut c_int, *mut c_int);

    /// The same name in a library that comes later.
    fn next(name: &CStr) -> *mut c_void {
        // SAFETY: a text that ends with a zero, for the duration of the call.
        unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
    }

    fn init(name: &CStr, error: *mut c_int) {
        let found = next(name);
        if found.is_null() {
            capi::fortran::refuse(&name.to_string_lossy());
        }
        // SAFETY: a function of this name has this one parameter in every library of Fortran bindings.
        let real = unsafe { std::mem::transmute::<*mut c_void, Init>(found) };
        real(error);
    }

    fn init_thread(name: &CStr, required: *mut c_int, provided: *mut c_int, error: *mut c_int) {
        let found = next(name);
        if found.is_null() {
            capi::fortran::refuse(&name.to_string_lossy());
        }
        // SAFETY: a function of this name has these three parameters in every library of Fortran bindings.
        let real = unsafe { std::mem::transmute::<*mut c_void, InitThread>(found) };
        real(required, provided, error);
    }

    #[unsafe(no_mangle)]
    extern "C" fn mpi_init(error: *mut c_int) {
        init(c"mpi_init", error);
    }
    #[unsafe(no_mangle)]
    extern "C" fn mpi_init_(error: *mut c_int) {
        init(c"mpi_init_", error);
    }
    #[unsafe(no_mangle)]
    extern "C" fn mpi_init__(error: *mut c_int) {
        init(c"mpi_init__", error);
    }
    #[unsafe(no_mangle)]
    extern "C" fn mpi_init_thread(required: *mut c_int, provided: *mut c_int, error: *mut c_int) {
        init_thread(c"mpi_init_thread", required, provided, error);
    }
    #[unsafe(no_mangle)]
    extern "C" fn mpi_init_thread_(required: *mut c_int, provided: *mut c_int, error: *mut c_int) {
        init_thread(c"mpi_init_thread_", required, provided, error);
    }
    #[unsafe(no_mangle)]
    extern "C" fn mpi_init_thread__(required: *mut c_int, provided: *mut c_int, error: *mut c_int) {
        init_thread(c"mpi_init_thread__", required, provided, error);
    }
}
