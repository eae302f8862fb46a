//! Memory of the program as the engine sees it: an address whose length follows from a count and a datatype.
//!
//! Here and in [`crate::datum`] stands the `unsafe` of the crate. A [`SendBuf`] or [`RecvBuf`] is made by an unsafe constructor
//! whose promise covers the whole operation it is given to; everything behind that is bookkeeping.
//!
//! For Banyan's own crates, as [`crate::core`] is. [`Scratch::as_send`] borrows nothing: whoever gives what it returns to an
//! operation keeps the `Scratch`, and leaves it as it is, until that operation has ended.
#![allow(unsafe_code)]
pub(crate) mod atomic;
mod kernel;

use crate::datum::Datum;
use net::{Common, UserBuf, UserBufMut};
pub(crate) use proto::rma::wire::Grid;
use std::arch::is_x86_feature_detected;

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

/// A buffer as an address.
pub(crate) trait At: Copy {
    fn at(self) -> usize;

    /// Does it stand for another buffer?
    fn is_in_place(self) -> bool {
        self.at() == usize::MAX
    }
}

impl At for SendBuf {
    #[inline]
    fn at(self) -> usize {
        self.at as usize
    }
}

impl At for RecvBuf {
    #[inline]
    fn at(self) -> usize {
        self.at as usize
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

    /// A place in memory that processes of a host have in common. Whoever keeps it keeps the memory as well.
    pub(crate) fn in_common(memory: &Common, offset: usize) -> Self {
        RecvBuf { at: (memory.addr() as *mut u8).wrapping_add(offset) }
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
pub struct Scratch {
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

    /// As a source. The caller keeps this `Scratch` as it is until the operation has ended that reads it: no borrow says so.
    #[doc(hidden)]
    pub fn as_send(&self) -> SendBuf {
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

/// Types whose bytes may be read and written as they are (padding aside): any bytes are a value. For the crate alone, which
/// knows that of the types below; what programs send has promised it as [`Datum`].
pub(crate) trait Plain: Copy {}

/// What a program sends, as an operand of [`combine`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Element<T>(pub(crate) T);

impl<T: Datum> Plain for Element<T> {}

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

/// IEEE's 16-bit number.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Half(pub(crate) u16);

impl Plain for Half {}

/// The upper half of a 32-bit number.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Brain(pub(crate) u16);

impl Plain for Brain {}

/// IEEE's 128-bit number.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Quad(pub(crate) u128);

impl Plain for Quad {}

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

/// Reductions of fewer bytes do not ask for wide registers.
const WIDE_BYTES_MIN: usize = 256;

/// target[i] = f(source[i], target[i]), for as many whole elements as the target has.
///
/// Addresses need no alignment: a program may hand us any. The loop is compiled for registers of 16, 32 and 64 bytes.
#[inline]
pub(crate) fn combine<T: Plain>(source: UserBuf, target: UserBufMut, f: impl Fn(T, T) -> T) {
    let count = target.len() / size_of::<T>();
    assert!(source.len() >= count * size_of::<T>());
    let (from, to) = (source.addr() as *const T, target.addr() as *mut T);
    match count * size_of::<T>() {
        // SAFETY: the processor has been asked; the buffers are as `combine_each` needs them.
        WIDE_BYTES_MIN.. if has_wide() => unsafe { combine_wide(from, to, count, f) },
        // SAFETY: as above.
        WIDE_BYTES_MIN.. if is_x86_feature_detected!("avx2") => unsafe { combine_half(from, to, count, f) },
        // SAFETY: `count` elements are inside both buffers, whose constructors promised that they may be read and written.
        _ => unsafe { combine_each(from, to, count, f) },
    }
}

/// As [`combine`], of values and indices without the gaps that they have in memory.
pub(crate) fn combine_packed<A: Plain, B: Plain>(
    source: UserBuf,
    target: UserBufMut,
    f: impl Fn(Pair<A, B>, Pair<A, B>) -> Pair<A, B>,
) {
    let width = size_of::<A>() + size_of::<B>();
    let count = target.len() / width;
    assert!(source.len() >= count * width);
    let (from, to) = (source.addr() as *const u8, target.addr() as *mut u8);
    for at in (0..count * width).step_by(width) {
        // SAFETY: both pairs are inside the buffers, whose constructors promised that they may be read.
        let (a, b) = unsafe { (read_packed(from.add(at)), read_packed(to.add(at).cast_const())) };
        let Pair { value, index } = f(a, b);
        // SAFETY: as above, and written; unaligned access is asked for.
        unsafe { to.add(at).cast::<A>().write_unaligned(value) };
        // SAFETY: as above.
        unsafe { to.add(at + size_of::<A>()).cast::<B>().write_unaligned(index) };
    }
}

/// # Safety
/// A value must be readable at `from`, and an index behind it.
unsafe fn read_packed<A: Plain, B: Plain>(from: *const u8) -> Pair<A, B> {
    // SAFETY: as the caller promises; `Plain` types have no invalid values; unaligned access is asked for.
    let value = unsafe { from.cast::<A>().read_unaligned() };
    // SAFETY: as above.
    let index = unsafe { from.add(size_of::<A>()).cast::<B>().read_unaligned() };
    Pair { value, index }
}

/// target[i] = f(target[i]), for as many whole elements as the target has.
pub(crate) fn change<T: Plain>(target: UserBufMut, f: impl Fn(T) -> T) {
    combine::<T>(target.as_source(), target, |old, _| f(old));
}

/// Has the processor what [`combine_wide`] needs?
fn has_wide() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
}

/// # Safety
/// As [`combine_each`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn combine_wide<T: Plain>(from: *const T, to: *mut T, count: usize, f: impl Fn(T, T) -> T) {
    // SAFETY: as the caller promises.
    unsafe { combine_each(from, to, count, f) };
}

/// # Safety
/// As [`combine_each`].
#[target_feature(enable = "avx2")]
unsafe fn combine_half<T: Plain>(from: *const T, to: *mut T, count: usize, f: impl Fn(T, T) -> T) {
    // SAFETY: as the caller promises.
    unsafe { combine_each(from, to, count, f) };
}

/// # Safety
/// `count` elements from `from` must be readable and as many from `to` writable.
#[inline(always)]
unsafe fn combine_each<T: Plain>(from: *const T, to: *mut T, count: usize, f: impl Fn(T, T) -> T) {
    for i in 0..count {
        // SAFETY: as the caller promises; `Plain` types have no invalid values; unaligned access is asked for.
        unsafe { to.add(i).write_unaligned(f(from.add(i).read_unaligned(), to.add(i).read_unaligned())) };
    }
}

/// Bytes in a row at a distance, up to where the next run in a list starts (counted without gaps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) at: i64,
    pub(crate) start: u64,
}

impl Run {
    /// Bytes of a list, whose last entry is its end.
    #[inline]
    pub(crate) fn bytes_of(runs: &[Run]) -> u64 {
        match (runs.first(), runs.last()) {
            (Some(first), Some(last)) => last.start - first.start,
            _ => 0,
        }
    }
}

/// Copies the blocks of a grid to the bytes of `to`, which must have as many.
#[inline]
pub(crate) fn gather_grid(from: SendBuf, grid: Grid, to: UserBufMut) {
    assert!(to.len() as u64 == grid.bytes());
    let spread = from.at.wrapping_offset(grid.at as isize).cast_mut();
    kernel::grid::<kernel::Gather>(spread, to.addr() as *mut u8, grid);
}

/// Copies `from` to the blocks of a grid, which must be as many bytes.
#[inline]
pub(crate) fn scatter_grid(from: UserBuf, to: RecvBuf, grid: Grid) {
    assert!(from.len() as u64 == grid.bytes());
    kernel::grid::<kernel::Scatter>(to.at.wrapping_offset(grid.at as isize), from.addr() as *mut u8, grid);
}

/// Copies `len` bytes at each of `places` to the bytes of `to`, which must have as many.
#[inline]
pub(crate) fn gather_listed(from: SendBuf, places: &[i64], len: usize, to: UserBufMut) {
    assert!(to.len() == len * places.len());
    kernel::listed::<kernel::Gather>(from.at.cast_mut(), to.addr() as *mut u8, places, len);
}

/// Copies `from` to `len` bytes at each of `places`, which must be as many bytes.
#[inline]
pub(crate) fn scatter_listed(from: UserBuf, to: RecvBuf, places: &[i64], len: usize) {
    assert!(from.len() == len * places.len());
    kernel::listed::<kernel::Scatter>(to.at, from.addr() as *mut u8, places, len);
}

/// Copies runs to the bytes of `to`, which must have as many.
#[inline]
pub(crate) fn gather_runs(from: SendBuf, runs: &[Run], to: UserBufMut) {
    assert!(to.len() as u64 == Run::bytes_of(runs));
    kernel::runs::<kernel::Gather>(from.at.cast_mut(), to.addr() as *mut u8, runs);
}

/// Copies `from` to runs, which must be as many bytes.
#[inline]
pub(crate) fn scatter_runs(from: UserBuf, to: RecvBuf, runs: &[Run]) {
    assert!(from.len() as u64 == Run::bytes_of(runs));
    kernel::runs::<kernel::Scatter>(to.at, from.addr() as *mut u8, runs);
}

/// Copies the blocks of a grid to the same places elsewhere.
pub(crate) fn copy_grid(from: SendBuf, to: RecvBuf, grid: Grid) {
    for row in 0..grid.rows as i64 {
        for block in 0..grid.count as i64 {
            let at = grid.at.wrapping_add(row * grid.row_stride).wrapping_add(block * grid.stride) as isize;
            to.range(at, grid.len as usize).copy_from(&from.range(at, grid.len as usize));
        }
    }
}

/// Copies runs to the same places elsewhere.
pub(crate) fn copy_runs(from: SendBuf, to: RecvBuf, runs: &[Run]) {
    for pair in runs.windows(2) {
        let len = (pair[1].start - pair[0].start) as usize;
        to.range(pair[0].at as isize, len).copy_from(&from.range(pair[0].at as isize, len));
    }
}

/// The elements of a program's slice as a source. Crate-private: the safe API keeps the borrow until the operation has
/// completed.
#[inline]
pub(crate) fn elements<T: Datum>(slice: &[T]) -> SendBuf {
    SendBuf { at: slice.as_ptr().cast() }
}

/// The elements of a program's slice as a target. Crate-private, as [`elements`].
#[inline]
pub(crate) fn room_for<T: Datum>(slice: &mut [T]) -> RecvBuf {
    RecvBuf { at: slice.as_mut_ptr().cast() }
}

/// As many elements, of zeros.
pub(crate) fn zeros<T: Datum>(count: usize) -> Vec<T> {
    // SAFETY: any bytes in the places of a `Datum`'s shape are a value of it, zeros among them, and no value of its padding is
    // wrong.
    let zero: T = unsafe { std::mem::zeroed() };
    vec![zero; count]
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
