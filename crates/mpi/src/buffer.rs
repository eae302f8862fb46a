//! Memory of the program as the engine sees it: an address whose length follows from a count and a datatype.
//!
//! The only module of the crate with `unsafe`. A [`SendBuf`] or [`RecvBuf`] is made by an unsafe constructor
//! whose promise covers the whole operation it is given to; everything behind that is bookkeeping.
#![allow(unsafe_code)]
use net::{UserBuf, UserBufMut};
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

/// Blocks of `len` bytes in two loops: `rows` rows, each of `count` blocks. Distances are from a buffer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) at: i64,
    pub(crate) len: u64,
    pub(crate) count: u64,
    pub(crate) stride: i64,
    pub(crate) rows: u64,
    pub(crate) row_stride: i64,
}

impl Grid {
    /// One row.
    #[inline]
    pub(crate) const fn row(at: i64, len: u64, count: u64, stride: i64) -> Self {
        Grid { at, len, count, stride, rows: 1, row_stride: 0 }
    }

    /// Bytes of all blocks.
    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.len * self.count * self.rows
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

/// The inner loops of packing and unpacking.
///
/// One side is *spread* over the program's memory, the other is *packed*. Blocks of a few bytes are moved by registers of
/// their size: a call of `memcpy` for eight bytes costs more than the bytes. Where the processor has masked moves, blocks of
/// any length to 64 bytes are one of each, without a branch that it would have to guess.
mod kernel {
    use super::{Grid, Run};
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{__m128i, __m512i, _mm_loadl_epi64, _mm_storeu_si128, _mm_unpacklo_epi64};
    use std::arch::x86_64::{_mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8};
    use std::hint::black_box;

    /// Blocks to this length are copied in line where there are wide registers; longer ones by `memcpy`.
    const INLINE_MAX: usize = 2048;

    /// A register that holds a block.
    pub(super) trait Block: Copy {
        /// # Safety
        /// The blocks at all places must be readable, and room for all of them at `to` writable.
        #[inline(always)]
        unsafe fn gather(places: [*mut u8; 8], to: *mut u8) {
            let to = to.cast::<Self>();
            for (i, place) in places.into_iter().enumerate() {
                // SAFETY: as the caller promises.
                unsafe { to.wrapping_add(i).write_unaligned(place.cast::<Self>().read_unaligned()) };
            }
        }
    }

    impl Block for u8 {}
    impl Block for u16 {}
    impl Block for u32 {}
    impl Block for __m128i {}
    impl Block for u64 {
        /// Two words are stored as one: stores are what such a loop waits for.
        #[inline(always)]
        unsafe fn gather(places: [*mut u8; 8], to: *mut u8) {
            // SAFETY: as the caller promises.
            unsafe {
                let pair = |i: usize| {
                    _mm_unpacklo_epi64(
                        _mm_loadl_epi64(places[i].cast()),
                        _mm_loadl_epi64(places[i + 1].cast()),
                    )
                };
                let pairs = (pair(0), pair(2), pair(4), pair(6));
                _mm_storeu_si128(to.cast(), pairs.0);
                _mm_storeu_si128(to.wrapping_add(16).cast(), pairs.1);
                _mm_storeu_si128(to.wrapping_add(32).cast(), pairs.2);
                _mm_storeu_si128(to.wrapping_add(48).cast(), pairs.3);
            }
        }
    }

    /// Which way bytes go.
    pub(super) trait Way {
        /// (from, to).
        fn route(spread: *mut u8, packed: *mut u8) -> (*const u8, *mut u8);
        /// # Safety
        /// A block at each of the spread places, and eight packed ones, must be readable or writable.
        unsafe fn eight<T: Block>(spread: [*mut u8; 8], packed: *mut u8);
    }

    pub(super) struct Gather;
    pub(super) struct Scatter;

    impl Way for Gather {
        #[inline(always)]
        fn route(spread: *mut u8, packed: *mut u8) -> (*const u8, *mut u8) {
            (spread, packed)
        }
        #[inline(always)]
        unsafe fn eight<T: Block>(spread: [*mut u8; 8], packed: *mut u8) {
            // SAFETY: as the caller promises.
            unsafe { T::gather(spread, packed) };
        }
    }

    impl Way for Scatter {
        #[inline(always)]
        fn route(spread: *mut u8, packed: *mut u8) -> (*const u8, *mut u8) {
            (packed, spread)
        }
        #[inline(always)]
        unsafe fn eight<T: Block>(spread: [*mut u8; 8], packed: *mut u8) {
            let from = packed.cast::<T>();
            for (i, place) in spread.into_iter().enumerate() {
                // SAFETY: as the caller promises.
                unsafe { place.cast::<T>().write_unaligned(from.wrapping_add(i).read_unaligned()) };
            }
        }
    }

    #[inline(always)]
    unsafe fn copy<T: Copy>((from, to): (*const u8, *mut u8)) {
        // SAFETY: the caller promises as many bytes on both sides; no alignment is assumed.
        unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) };
    }

    /// Up to 128 bytes by registers, which may overlap in the middle; more by `memcpy`.
    #[inline(always)]
    unsafe fn copy_some((from, to): (*const u8, *mut u8), len: usize) {
        macro_rules! ends {
            ($block:ty) => {{
                let last = len - size_of::<$block>();
                // SAFETY: there are one to two blocks, so both copies are inside the range that the caller promises.
                unsafe {
                    copy::<$block>((from, to));
                    copy::<$block>((from.wrapping_add(last), to.wrapping_add(last)));
                }
            }};
        }
        match len {
            0 => {}
            // SAFETY: one byte, as the caller promises.
            1 => unsafe { copy::<u8>((from, to)) },
            2..=3 => ends!(u16),
            4..=7 => ends!(u32),
            8..=15 => ends!(u64),
            16..=31 => ends!(__m128i),
            32..=63 => ends!([__m128i; 2]),
            64..=128 => ends!([__m128i; 4]),
            // SAFETY: as the caller promises; a packed buffer and the program's data never overlap.
            _ => unsafe { std::ptr::copy_nonoverlapping(from, to, len) },
        }
    }

    /// As [`copy_some`], for processors with masked moves of 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn copy_wide((from, to): (*const u8, *mut u8), len: usize) {
        if len.wrapping_sub(1) < 64 {
            let mask = u64::MAX >> (64 - len);
            // SAFETY: only the first `len` bytes are read and written, which the caller promises.
            unsafe {
                let bytes = _mm512_maskz_loadu_epi8(mask, from.cast());
                _mm512_mask_storeu_epi8(to.cast(), mask, bytes);
            }
        } else if len.wrapping_sub(1) < INLINE_MAX {
            let mut at = 0;
            while at + 64 < len {
                // SAFETY: inside the `len` bytes that the caller promises.
                unsafe { copy::<__m512i>((from.wrapping_add(at), to.wrapping_add(at))) };
                at += 64;
            }
            // SAFETY: the last 64 of more than 64 bytes.
            unsafe { copy::<__m512i>((from.wrapping_add(len - 64), to.wrapping_add(len - 64))) };
        } else {
            // SAFETY: as the caller promises; a packed buffer and the program's data never overlap.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
    }

    /// Has the processor what [`copy_wide`] needs?
    #[inline(always)]
    fn is_wide() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }

    /// Copies the blocks of a grid. The callers are [`super::gather_grid`] and [`super::scatter_grid`], whose
    /// buffers' constructors promised every byte of the operation's count and datatype.
    #[inline]
    pub(super) fn grid<W: Way>(spread: *mut u8, packed: *mut u8, grid: Grid) {
        match grid.len {
            1 => grid_of::<W, u8>(spread, packed, grid),
            2 => grid_of::<W, u16>(spread, packed, grid),
            4 => grid_of::<W, u32>(spread, packed, grid),
            8 => grid_of::<W, u64>(spread, packed, grid),
            16 => grid_of::<W, __m128i>(spread, packed, grid),
            // SAFETY: one block needs no wide registers and pays for no question; the others ask first.
            _ if grid.count * grid.rows > 1 && is_wide() => unsafe { grid_wide::<W>(spread, packed, grid) },
            // SAFETY: see above for the blocks.
            _ => grid_any(spread, packed, grid, |spread, packed, len| unsafe {
                copy_some(W::route(spread, packed), len)
            }),
        }
    }

    /// Blocks of a size known to the compiler.
    #[inline(always)]
    fn grid_of<W: Way, T: Block>(spread: *mut u8, mut packed: *mut u8, grid: Grid) {
        // The compiler must not know that the steps are multiples of one: it would compute each address from the one before,
        // and the loop would wait for that chain instead of for memory.
        let steps = black_box([1, 2, 3, 4].map(|n| (grid.stride as isize).wrapping_mul(n)));
        for row in 0..grid.rows as isize {
            let at = spread.wrapping_offset(row.wrapping_mul(grid.row_stride as isize));
            row_of::<W, T>(at, packed, steps, grid.count);
            packed = packed.wrapping_add(size_of::<T>() * grid.count as usize);
        }
    }

    #[inline(always)]
    fn row_of<W: Way, T: Block>(mut at: *mut u8, mut packed: *mut u8, steps: [isize; 4], count: u64) {
        let [one, two, three, four] = steps;
        for _ in 0..count / 8 {
            let next = at.wrapping_offset(four);
            let [a, b] = [at, next].map(|at| [one, two, three].map(|step| at.wrapping_offset(step)));
            let eight = [at, a[0], a[1], a[2], next, b[0], b[1], b[2]];
            // SAFETY: blocks of the grid; the callers of `grid` have both sides of all of them.
            unsafe { W::eight::<T>(eight, packed) };
            at = next.wrapping_offset(four);
            packed = packed.wrapping_add(8 * size_of::<T>());
        }
        for _ in 0..count % 8 {
            // SAFETY: as above.
            unsafe { copy::<T>(W::route(at, packed)) };
            at = at.wrapping_offset(one);
            packed = packed.wrapping_add(size_of::<T>());
        }
    }

    #[inline(always)]
    fn grid_any(spread: *mut u8, mut packed: *mut u8, grid: Grid, copy: impl Fn(*mut u8, *mut u8, usize)) {
        let len = grid.len as usize;
        for row in 0..grid.rows as isize {
            let mut at = spread.wrapping_offset(row.wrapping_mul(grid.row_stride as isize));
            for _ in 0..grid.count {
                copy(at, packed, len);
                at = at.wrapping_offset(grid.stride as isize);
                packed = packed.wrapping_add(len);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn grid_wide<W: Way>(spread: *mut u8, packed: *mut u8, grid: Grid) {
        // SAFETY: blocks of the grid; the callers of `grid` have both sides of all of them.
        grid_any(spread, packed, grid, |spread, packed, len| unsafe {
            copy_wide(W::route(spread, packed), len)
        });
    }

    /// Copies blocks at given places, as [`grid`].
    #[inline]
    pub(super) fn listed<W: Way>(spread: *mut u8, packed: *mut u8, places: &[i64], len: usize) {
        match len {
            1 => listed_of::<W, u8>(spread, packed, places),
            2 => listed_of::<W, u16>(spread, packed, places),
            4 => listed_of::<W, u32>(spread, packed, places),
            8 => listed_of::<W, u64>(spread, packed, places),
            16 => listed_of::<W, __m128i>(spread, packed, places),
            // SAFETY: the processor has been asked.
            _ if is_wide() => unsafe { listed_wide::<W>(spread, packed, places, len) },
            // SAFETY: blocks of the list; the callers have both sides of all of them.
            _ => listed_any(spread, packed, places, len, |spread, packed| unsafe {
                copy_some(W::route(spread, packed), len)
            }),
        }
    }

    fn listed_of<W: Way, T: Block>(spread: *mut u8, mut packed: *mut u8, places: &[i64]) {
        let (eights, rest) = places.as_chunks::<8>();
        for eight in eights {
            // SAFETY: blocks of the list; the callers of `listed` have both sides of all of them.
            unsafe { W::eight::<T>(eight.map(|place| spread.wrapping_offset(place as isize)), packed) };
            packed = packed.wrapping_add(8 * size_of::<T>());
        }
        for place in rest {
            // SAFETY: as above.
            unsafe { copy::<T>(W::route(spread.wrapping_offset(*place as isize), packed)) };
            packed = packed.wrapping_add(size_of::<T>());
        }
    }

    #[inline(always)]
    fn listed_any(
        spread: *mut u8,
        mut packed: *mut u8,
        places: &[i64],
        len: usize,
        copy: impl Fn(*mut u8, *mut u8),
    ) {
        for place in places {
            copy(spread.wrapping_offset(*place as isize), packed);
            packed = packed.wrapping_add(len);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn listed_wide<W: Way>(spread: *mut u8, packed: *mut u8, places: &[i64], len: usize) {
        // SAFETY: blocks of the list; the callers have both sides of all of them.
        listed_any(spread, packed, places, len, |spread, packed| unsafe {
            copy_wide(W::route(spread, packed), len)
        });
    }

    /// Copies runs, as [`grid`].
    #[inline]
    pub(super) fn runs<W: Way>(spread: *mut u8, packed: *mut u8, runs: &[Run]) {
        if is_wide() {
            // SAFETY: the processor has been asked.
            unsafe { runs_wide::<W>(spread, packed, runs) };
        } else {
            // SAFETY: runs of the list; the callers have both sides of all of them.
            runs_any(spread, packed, runs, |spread, packed, len| unsafe {
                copy_some(W::route(spread, packed), len)
            });
        }
    }

    #[inline(always)]
    fn runs_any(spread: *mut u8, packed: *mut u8, runs: &[Run], copy: impl Fn(*mut u8, *mut u8, usize)) {
        let Some(first) = runs.first() else { return };
        for pair in runs.windows(2) {
            let to = packed.wrapping_add((pair[0].start - first.start) as usize);
            copy(spread.wrapping_offset(pair[0].at as isize), to, (pair[1].start - pair[0].start) as usize);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn runs_wide<W: Way>(spread: *mut u8, packed: *mut u8, runs: &[Run]) {
        // SAFETY: runs of the list; the callers have both sides of all of them.
        runs_any(spread, packed, runs, |spread, packed, len| unsafe {
            copy_wide(W::route(spread, packed), len)
        });
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        type Copying = unsafe fn((*const u8, *mut u8), usize);

        /// Every way to copy a block, whichever this processor would choose.
        fn copies() -> Vec<Copying> {
            let mut all: Vec<Copying> = vec![copy_some];
            if is_wide() {
                all.push(copy_wide);
            }
            all
        }

        #[test]
        fn blocks_of_every_length_are_copied_and_nothing_else() {
            let from: Vec<u8> = (0..INLINE_MAX + 200).map(|i| (i * 7 + i / 255) as u8).collect();
            for copy in copies() {
                for len in (0..400).chain([INLINE_MAX - 1, INLINE_MAX, INLINE_MAX + 1, INLINE_MAX + 99]) {
                    let mut to = vec![0xEE; len + 64];
                    // SAFETY: both are longer than `len` bytes from byte 3 on.
                    unsafe { copy((from.as_ptr().wrapping_add(3), to.as_mut_ptr().wrapping_add(3)), len) };
                    assert_eq!(to[3..3 + len], from[3..3 + len], "{len} bytes");
                    assert!(to[..3].iter().chain(&to[3 + len..]).all(|byte| *byte == 0xEE), "{len} bytes");
                }
            }
        }

        #[test]
        fn rows_of_every_length_are_taken_in_order() {
            for count in 0..40 {
                let grid = Grid { rows: 2, row_stride: 16, ..Grid::row(0, 8, count, 24) };
                let mut spread: Vec<u64> = (0..3 * count + 3).collect();
                let mut packed = vec![0u64; 2 * count as usize];
                super::grid::<Gather>(spread.as_mut_ptr().cast(), packed.as_mut_ptr().cast(), grid);
                let expected: Vec<u64> =
                    (0..2).flat_map(|row| (0..count).map(move |i| i * 3 + row * 2)).collect();
                assert_eq!(packed, expected);
                spread.fill(u64::MAX);
                super::grid::<Scatter>(spread.as_mut_ptr().cast(), packed.as_mut_ptr().cast(), grid);
                assert!(expected.iter().all(|at| spread[*at as usize] == *at));
                assert_eq!(spread.iter().filter(|word| **word != u64::MAX).count(), expected.len());
            }
        }
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
