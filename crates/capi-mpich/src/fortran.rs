//! Fortran's names for the beginning of MPI, as compilers write them; both libraries have them. The bindings are another
//! library's (MPICH's), which is mostly found first; without it the program hears why it cannot go on.
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
