//! `libarmci.so`: ARMCI's names. What they do is in the MPI library that the process has loaded, either of the two, so that a
//! process has one engine, and one that brings an ARMCI of its own is not disturbed. A process without an MPI library gets
//! the one that is installed beside this.
#![allow(unsafe_code)] // exported names, and the way to the other library
#![allow(missing_docs)] // they are ARMCI's
#![allow(non_snake_case, clippy::too_many_arguments)]

use std::ffi::{CStr, CString, c_int, c_long, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::*};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// Both libraries of MPI, the one that is taken where there is none first.
const LIBRARIES: [&CStr; 2] = [c"libmpi.so.12", c"libmpi_abi.so.1"];
/// The function that says where the table is.
const FINDER: &CStr = c"BANYAN_armci";
/// A function of every MPI library.
const OF_EVERY: &CStr = c"MPI_Init";

static FOUND: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

#[inline(always)]
fn table() -> &'static Table {
    let found = FOUND.load(Acquire);
    let found = if found.is_null() { find() } else { found };
    // SAFETY: `find` gives a table of this very shape, which is never unloaded.
    unsafe { &*found }
}

#[cold]
fn find() -> *mut Table {
    let finder = loaded().or_else(opened).unwrap_or_else(|| fail("Banyan's MPI library is not to be found"));
    // SAFETY: the symbol is a function of Banyan's without arguments that gives a table.
    let finder: extern "C" fn() -> *mut Table = unsafe { std::mem::transmute(finder) };
    let found = finder();
    // SAFETY: every table begins with this number.
    if unsafe { (*found).fingerprint } != FINGERPRINT {
        fail("the MPI library of this process is of another version of Banyan");
    }
    FOUND.store(found, Release);
    found
}

/// In a library that the process has.
fn loaded() -> Option<*mut c_void> {
    let found = symbol(libc::RTLD_DEFAULT, FINDER);
    let privately = || {
        LIBRARIES
            .iter()
            .find_map(|name| open(name, libc::RTLD_NOLOAD))
            .and_then(|library| symbol(library, FINDER))
    };
    let found = found.or_else(privately);
    if found.is_none() && symbol(libc::RTLD_DEFAULT, OF_EVERY).is_some() {
        fail("the MPI library of this process is not Banyan's: link with Banyan's mpicc");
    }
    found
}

/// In the one beside this.
fn opened() -> Option<*mut c_void> {
    // SAFETY: zero is a value of each of its fields.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is of this library; `info` is written.
    let known = unsafe { libc::dladdr(find as *const c_void, &mut info) };
    let beside = |name: &CStr| {
        // SAFETY: `dladdr` has said where the name of the file is, which stays as long as this library.
        let own = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
        let folder = own.rsplit_once('/')?.0;
        CString::new(format!("{folder}/{}", name.to_str().ok()?)).ok()
    };
    let path = (known != 0).then(|| beside(LIBRARIES[0])).flatten();
    let library = path.and_then(|path| open(&path, 0)).or_else(|| open(LIBRARIES[0], 0));
    library.and_then(|library| symbol(library, FINDER))
}

fn open(name: &CStr, flags: c_int) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL | flags) };
    (!library.is_null()).then_some(library)
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a library that is open, or the default; the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn fail(why: &str) -> ! {
    eprintln!("banyan: libarmci: {why}");
    std::process::exit(1)
}
