//! Registered memory, and what a queue pair can be asked to do with it.
use crate::device::Context;
use crate::ffi::*;
use crate::library::VerbsError;
use crate::qp::Ah;
use std::fmt;
use std::marker::PhantomData;
use std::ops::BitOr;
use std::rc::Rc;
use sys::{UserBuf, UserBufMut};

/// A protection domain: what may be used together.
pub struct Pd {
    pub(crate) context: Rc<Context>,
    pub(crate) pd: *mut ibv_pd,
}

impl fmt::Debug for Pd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pd")
    }
}

impl Pd {
    /// A new one.
    pub fn new(context: &Rc<Context>) -> Result<Rc<Pd>, VerbsError> {
        // SAFETY: an open device.
        let pd = unsafe { (context.library.ibv_alloc_pd)(context.context) };
        match pd.is_null() {
            true => Err(VerbsError::last("ibv_alloc_pd")),
            false => Ok(Rc::new(Pd { context: context.clone(), pd })),
        }
    }

    /// The device.
    pub fn context(&self) -> &Rc<Context> {
        &self.context
    }

    /// Registers memory that the device will only read.
    pub fn register(self: &Rc<Self>, memory: &UserBuf, access: Access) -> Result<Mr, VerbsError> {
        self.register_range(memory.addr(), memory.len(), access)
    }

    /// Registers memory that the device will write, too.
    pub fn register_mut(self: &Rc<Self>, memory: &UserBufMut, access: Access) -> Result<Mr, VerbsError> {
        self.register_range(memory.addr(), memory.len(), access | Access::LOCAL_WRITE)
    }

    /// (The kernel looks whether the range is there, and keeps its pages: nothing is read or written here.)
    pub(crate) fn register_range(
        self: &Rc<Self>,
        addr: u64,
        bytes: usize,
        access: Access,
    ) -> Result<Mr, VerbsError> {
        let start = std::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: a live domain; a range that is not there is refused.
        let mr = unsafe { (self.context.library.ibv_reg_mr)(self.pd, start, bytes, access.0 as i32) };
        match mr.is_null() {
            true => Err(VerbsError::last("ibv_reg_mr")),
            false => Ok(Mr { pd: self.clone(), mr }),
        }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: whatever was made from it is gone: it keeps this alive.
        unsafe { (self.context.library.ibv_dealloc_pd)(self.pd) };
    }
}

/// What may be done with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// The device may read it.
    pub const READ: Access = Access(0);
    /// The device may write it.
    pub const LOCAL_WRITE: Access = Access(IBV_ACCESS_LOCAL_WRITE);
    /// Peers may read it.
    pub const REMOTE_READ: Access = Access(IBV_ACCESS_REMOTE_READ);
    /// Peers may write it.
    pub const REMOTE_WRITE: Access = Access(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
    /// Peers may have atomic operations done on it.
    pub const REMOTE_ATOMIC: Access = Access(IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE);

    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// A registered range.
pub struct Mr {
    pd: Rc<Pd>,
    mr: *mut ibv_mr,
}

impl fmt::Debug for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mr({:#x}, {} bytes)", self.addr(), self.bytes())
    }
}

impl Mr {
    /// Where it begins.
    pub fn addr(&self) -> u64 {
        // SAFETY: registered.
        unsafe { (*self.mr).addr as usize as u64 }
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        // SAFETY: registered.
        unsafe { (*self.mr).length }
    }

    /// What peers name it by.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: registered.
        unsafe { (*self.mr).rkey }
    }

    fn local_key(&self) -> u32 {
        // SAFETY: registered.
        unsafe { (*self.mr).lkey }
    }

    /// A part of it, from an address.
    pub fn local(&self, addr: u64, bytes: usize) -> Local {
        Local(ibv_sge { addr, length: u32::try_from(bytes).unwrap_or(u32::MAX), lkey: self.local_key() })
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: registered, and given back once. Work that still names it ends in errors.
        unsafe { (self.pd.context.library.ibv_dereg_mr)(self.mr) };
    }
}

/// A part of registered memory of this process: an address and a key, which the device checks.
#[derive(Clone, Copy)]
pub struct Local(pub(crate) ibv_sge);

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({:#x}, {} bytes)", self.0.addr, self.0.length)
    }
}

/// A part of a peer's registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where.
    pub addr: u64,
    /// What the peer named it by.
    pub key: u32,
}

/// Bytes that are copied when they are posted.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Piece<'b>(pub(crate) ibv_sge, PhantomData<&'b [u8]>);

impl Piece<'_> {
    /// (What is copied needs no key.)
    #[inline]
    fn new(addr: u64, bytes: usize) -> Self {
        Piece(ibv_sge { addr, length: bytes as u32, lkey: 0 }, PhantomData)
    }
}

impl fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} bytes)", self.0.length)
    }
}

impl<'b> From<&'b [u8]> for Piece<'b> {
    #[inline]
    fn from(bytes: &'b [u8]) -> Self {
        Piece::new(bytes.as_ptr() as usize as u64, bytes.len())
    }
}

impl<'b> From<&'b UserBuf> for Piece<'b> {
    #[inline]
    fn from(bytes: &'b UserBuf) -> Self {
        Piece::new(bytes.addr(), bytes.len())
    }
}

/// What a queue pair is asked to do.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'w> {
    /// Copies these bytes now, and sends them as one message.
    SendCopied(&'w [Piece<'w>]),
    /// Sends registered memory as one message, which stays as it is until that has completed.
    Send(&'w [Local]),
    /// Writes into a peer's memory.
    Write {
        /// What.
        from: &'w [Local],
        /// Where.
        to: Remote,
    },
    /// Reads a peer's memory.
    Read {
        /// Where the bytes go.
        into: &'w [Local],
        /// From where.
        from: Remote,
    },
    /// Adds to a word of a peer's, whose old value comes here.
    FetchAdd {
        /// Where the old value goes.
        into: &'w Local,
        /// The word.
        at: Remote,
        /// What is added.
        add: u64,
    },
    /// Swaps a word of a peer's if it has a value; the old one comes here.
    CompareSwap {
        /// Where the old value goes.
        into: &'w Local,
        /// The word.
        at: Remote,
        /// What it must have.
        expected: u64,
        /// What it gets then.
        new: u64,
    },
}

/// A work request.
#[derive(Clone, Copy, Debug)]
pub struct Work<'w> {
    /// Named in its completion.
    pub id: u64,
    /// What is to be done.
    pub operation: Operation<'w>,
    /// Is its success to be told, too? (Failures always are.)
    pub told: bool,
    /// Travels beside a message.
    pub immediate: Option<u32>,
    /// Where a datagram goes: whom, which queue pair there, and its key.
    pub datagram: Option<(&'w Ah, u32, u32)>,
    /// The shared receive queue of a peer, for XRC.
    pub srq: Option<u32>,
}

impl<'w> Work<'w> {
    /// One that is told of.
    pub fn new(id: u64, operation: Operation<'w>) -> Self {
        Work { id, operation, told: true, immediate: None, datagram: None, srq: None }
    }
}
