//! Slices as buffers of the engine. The only file of the crate with `unsafe`.
#![allow(unsafe_code)]
use mpi::Datum;
use mpi::{RecvBuf, SendBuf};

/// Elements that an operation reads.
///
/// Crate-private: whoever calls this keeps the borrow until the operation has ended, or ends the process.
pub(crate) fn source<T: Datum>(slice: &[T]) -> SendBuf {
    // SAFETY: the elements may be read; callers keep the slice and stay inside it until the operation has ended.
    unsafe { SendBuf::new(slice.as_ptr().cast()) }
}

/// Elements that an operation writes, as [`source`]. Any bytes are a value of a [`Datum`].
pub(crate) fn target<T: Datum>(slice: &mut [T]) -> RecvBuf {
    // SAFETY: as in `source`, and they may be written.
    unsafe { RecvBuf::new(slice.as_mut_ptr().cast()) }
}
