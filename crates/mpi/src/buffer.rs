//! Memory of the program as the engine sees it: an address whose length follows from a count and a datatype.
//!
//! The only module of the crate with `unsafe`. A [`SendBuf`] or [`RecvBuf`] is made by an unsafe constructor
//! whose promise covers the whole operation it is given to; everything behind that is bookkeeping.
#![allow(unsafe_code)]
use net::{UserBuf, UserBufMut};

/// Where an operation reads: an address, to which offsets of a datatype are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBuf {
    at: *const u8,
}

impl SendBuf {
    /// Stands for "the data is in the receive buffer already" (`MPI_IN_PLACE`).
    pub const IN_PLACE: SendBuf = SendBuf { at: usize::MAX as *const u8 };
    /// For operations that read nothing.
    pub const NONE: SendBuf = SendBuf { at: std::ptr::null() };

    /// # Safety
    /// Every byte that the count and datatype (given beside the buffer) describe relative to `at` must be
    /// readable, and not written, until the operation has completed.
    #[inline]
    pub const unsafe fn new(at: *const u8) -> Self {
        SendBuf { at }
    }

    /// Is this [`SendBuf::IN_PLACE`]?
    #[inline]
    pub fn is_in_place(self) -> bool {
        self == Self::IN_PLACE
    }

    /// The address, for a callback.
    #[inline]
    pub fn as_ptr(self) -> *const u8 {
        self.at
    }

    /// `bytes` from `offset`. Crate-private: callers stay inside the count and datatype of the operation.
    #[inline]
    pub(crate) fn range(self, offset: isize, bytes: usize) -> UserBuf {
        // SAFETY: the constructor promised every byte of the operation's count and datatype.
        unsafe { UserBuf::new(self.at.wrapping_offset(offset), bytes) }
    }
}

/// Where an operation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvBuf {
    at: *mut u8,
}

impl RecvBuf {
    /// For operations that write nothing.
    pub const NONE: RecvBuf = RecvBuf { at: std::ptr::null_mut() };
    /// Stands for "the data is in the send buffer" (`MPI_IN_PLACE` as receive buffer of a scatter).
    pub const IN_PLACE: RecvBuf = RecvBuf { at: usize::MAX as *mut u8 };

    /// # Safety
    /// Every byte that the count and datatype (given beside the buffer) describe relative to `at` must be
    /// writable, and not accessed, until the operation has completed.
    #[inline]
    pub const unsafe fn new(at: *mut u8) -> Self {
        RecvBuf { at }
    }

    /// Is this [`RecvBuf::IN_PLACE`]?
    #[inline]
    pub fn is_in_place(self) -> bool {
        self == Self::IN_PLACE
    }

    /// The address, for a callback.
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.at
    }

    /// The same memory as a source.
    #[inline]
    pub fn as_source(self) -> SendBuf {
        SendBuf { at: self.at }
    }

    /// `bytes` from `offset`. Crate-private: callers stay inside the count and datatype of the operation.
    #[inline]
    pub(crate) fn range(self, offset: isize, bytes: usize) -> UserBufMut {
        // SAFETY: the constructor promised every byte of the operation's count and datatype.
        unsafe { UserBufMut::new(self.at.wrapping_offset(offset), bytes) }
    }
}
