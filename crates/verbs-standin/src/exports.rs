//! The functions of the library, by the names that programs look them up by. Structures of programs hold numbers of objects; the
//! objects are in the [`Adapter`].
mod device;
mod memory;
mod post;
mod qp;
mod queues;
mod words;

use crate::adapter::Adapter;
use crate::service::Shared;
use crate::socket::is_forked;
use std::ffi::c_int;
use std::sync::Arc;
use std::thread::JoinHandle;
use verbs::ffi::*;

/// What an open device is to a program, and what stands behind it.
#[repr(C)]
struct Opened {
    extended: verbs_context,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The open device that a program has this pointer of.
///
/// # Safety
/// The device is open.
unsafe fn opened<'c>(context: *mut ibv_context) -> &'c Opened {
    let before = std::mem::offset_of!(Opened, extended) + std::mem::offset_of!(verbs_context, context);
    // SAFETY: every context of this library is inside an `Opened`, at this place.
    unsafe { &*context.byte_sub(before).cast::<Opened>() }
}

/// Does something with an open device. In a forked child nothing is done: it is the parent's.
///
/// # Safety
/// The device is open.
unsafe fn with<T>(
    context: *mut ibv_context,
    act: impl FnOnce(&mut Adapter) -> Result<T, c_int>,
) -> Result<T, c_int> {
    if is_forked() {
        return Err(libc::EIO);
    }
    // SAFETY: as the caller promises.
    act(&mut unsafe { opened(context) }.shared.lock())
}

/// The end of a call that gives 0 or a code.
fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

/// The end of a call that gives a new structure, or null and a code in `errno`.
fn give<T>(result: Result<T, c_int>) -> *mut T {
    match result {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(code) => {
            set_errno(code);
            std::ptr::null_mut()
        }
    }
}

fn set_errno(code: c_int) {
    // SAFETY: gives the place of this thread's `errno`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: that place.
    unsafe { *place = code };
}

/// The end of a call that takes a structure away. In a forked child it stays, and nothing is said.
///
/// # Safety
/// `give` has made it, and nobody uses it any more if `result` is good.
unsafe fn take<T>(structure: *mut T, result: Result<(), c_int>) -> c_int {
    if is_forked() {
        return 0;
    }
    if result.is_ok() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(structure) });
    }
    code(result)
}
