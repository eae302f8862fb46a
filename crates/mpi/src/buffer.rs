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

    /// The address at a distance.
    #[inline]
    pub(crate) fn shifted(self, offset: isize) -> Self {
        SendBuf { at: self.at.wrapping_offset(offset) }
    }

    /// The same memory as a target: only for a place that the caller of the operation may write.
    #[inline]
    pub(crate) fn as_recv(self) -> RecvBuf {
        RecvBuf { at: self.at.cast_mut() }
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

    /// The address at a distance.
    #[inline]
    pub(crate) fn shifted(self, offset: isize) -> Self {
        RecvBuf { at: self.at.wrapping_offset(offset) }
    }

    /// `bytes` from `offset`. Crate-private: callers stay inside the count and datatype of the operation.
    #[inline]
    pub(crate) fn range(self, offset: isize, bytes: usize) -> UserBufMut {
        // SAFETY: the constructor promised every byte of the operation's count and datatype.
        unsafe { UserBufMut::new(self.at.wrapping_offset(offset), bytes) }
    }
}

/// Bytes per unit of a [`Scratch`]: alignment for every element type, and for vector instructions of a
/// program's reduction function.
const LINE: usize = 64;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Memory of our own that operations work in.
///
/// An operation under way refers to it by address, so whoever owns a `Scratch` keeps it, and does not grow it,
/// until the operation has completed. Moving the `Scratch` itself is fine: the bytes are on the heap.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lines: Vec<Line>,
}

impl Scratch {
    /// At least `bytes`.
    pub(crate) fn with(bytes: usize) -> Self {
        let mut scratch = Scratch::default();
        scratch.reserve(bytes);
        scratch
    }

    /// Makes it at least `bytes` long; contents are kept, addresses are not.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        let lines = bytes.div_ceil(LINE);
        if lines > self.lines.len() {
            self.lines.resize(lines, Line([0; LINE]));
        }
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * LINE
    }

    /// As a target.
    pub(crate) fn as_recv(&mut self) -> RecvBuf {
        RecvBuf { at: self.lines.as_mut_ptr().cast() }
    }

    /// As a source.
    pub(crate) fn as_send(&self) -> SendBuf {
        SendBuf { at: self.lines.as_ptr().cast() }
    }

    /// The first `bytes`.
    pub(crate) fn part(&mut self, bytes: usize) -> UserBufMut {
        assert!(bytes <= self.bytes());
        self.as_recv().range(0, bytes)
    }

    /// The number at word `index`.
    pub(crate) fn word(&self, index: usize) -> u64 {
        let (line, at) = (index * 8 / LINE, index * 8 % LINE);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.lines[line].0[at..at + 8]);
        u64::from_ne_bytes(bytes)
    }

    /// Sets the number at word `index`.
    pub(crate) fn set_word(&mut self, index: usize, value: u64) {
        let (line, at) = (index * 8 / LINE, index * 8 % LINE);
        self.lines[line].0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
}

/// Types whose bytes may be read and written as they are (padding aside): any bytes are a value.
pub trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty),*) => { $(impl Plain for $ty {})* };
}
plain!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, usize, f32, f64);
impl<T: Plain> Plain for [T; 2] {}
impl<A: Plain, B: Plain> Plain for Pair<A, B> {}

/// A value and its index, laid out as C does.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Pair<A, B> {
    pub(crate) value: A,
    pub(crate) index: B,
}

/// C's `long double` on x86-64: 80 bits in 16 bytes. Rust has no such type, so the old floating-point unit is asked.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct Extended([u8; 16]);

impl Plain for Extended {}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the datatypes of C are laid out for x86-64");

mod extended {
    use super::Extended;
    use std::arch::asm;
    use std::cmp::Ordering;

    macro_rules! operation {
        ($trait:ident, $method:ident, $instruction:literal) => {
            impl std::ops::$trait for Extended {
                type Output = Extended;

                fn $method(self, mut other: Extended) -> Extended {
                    // SAFETY: reads 10 bytes of each operand and writes 10 bytes of `other`, all inside; pushes and
                    // pops two values of the register stack, all of which is declared as changed.
                    unsafe {
                        asm!(
                            "fld tbyte ptr [{a}]", "fld tbyte ptr [{b}]", $instruction, "fstp tbyte ptr [{b}]",
                            a = in(reg) &raw const self.0, b = in(reg) &raw mut other.0,
                            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                            options(nostack),
                        )
                    };
                    other
                }
            }
        };
    }

    operation!(Add, add, "faddp st(1), st");
    operation!(Sub, sub, "fsubp st(1), st");
    operation!(Mul, mul, "fmulp st(1), st");

    impl PartialEq for Extended {
        fn eq(&self, other: &Extended) -> bool {
            self.partial_cmp(other) == Some(Ordering::Equal)
        }
    }

    impl PartialOrd for Extended {
        fn partial_cmp(&self, other: &Extended) -> Option<Ordering> {
            let (above, below, unordered): (u8, u8, u8);
            // SAFETY: reads 10 bytes of each operand, inside; pushes and pops two values of the register stack, all
            // of which is declared as changed.
            unsafe {
                asm!(
                    "fld tbyte ptr [{b}]", "fld tbyte ptr [{a}]", "fcomip st, st(1)",
                    "seta {above}", "setb {below}", "setp {unordered}", "fstp st(0)",
                    a = in(reg) &raw const self.0, b = in(reg) &raw const other.0,
                    above = out(reg_byte) above, below = out(reg_byte) below, unordered = out(reg_byte) unordered,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                )
            };
            match (unordered, above, below) {
                (1, ..) => None,
                (_, 1, _) => Some(Ordering::Greater),
                (_, _, 1) => Some(Ordering::Less),
                _ => Some(Ordering::Equal),
            }
        }
    }
}

/// target[i] = f(source[i], target[i]), for as many whole elements as the target has.
///
/// Addresses need no alignment: a program may hand us any.
#[inline]
pub(crate) fn combine<T: Plain>(source: UserBuf, target: UserBufMut, f: impl Fn(T, T) -> T) {
    let count = target.len() / size_of::<T>();
    assert!(source.len() >= count * size_of::<T>());
    let (from, to) = (source.addr() as *const T, target.addr() as *mut T);
    for i in 0..count {
        // SAFETY: element i is inside both buffers, whose constructors promised that they may be read and
        // written; `Plain` types have no invalid values; unaligned access is asked for.
        unsafe { to.add(i).write_unaligned(f(from.add(i).read_unaligned(), to.add(i).read_unaligned())) };
    }
}

/// The elements of a slice as a source. Crate-private: the safe API keeps the borrow until the operation has
/// completed.
#[inline]
pub(crate) fn source_of<T: Plain>(slice: &[T]) -> SendBuf {
    SendBuf { at: slice.as_ptr().cast() }
}

/// The elements of a slice as a target. Crate-private, as [`source_of`].
#[inline]
pub(crate) fn target_of<T: Plain>(slice: &mut [T]) -> RecvBuf {
    RecvBuf { at: slice.as_mut_ptr().cast() }
}
