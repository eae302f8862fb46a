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
/// their size: a call of `memcpy` for eight bytes costs more than the bytes.
mod kernel {
    use super::{Grid, Run};

    /// Which way bytes go.
    pub(super) trait Way {
        /// # Safety
        /// `len` bytes must be readable on one side and writable on the other, as the way demands.
        unsafe fn some(spread: *mut u8, packed: *mut u8, len: usize);
        /// # Safety
        /// As `some`, of `N` bytes.
        unsafe fn fixed<const N: usize>(spread: *mut u8, packed: *mut u8);
        /// # Safety
        /// As `fixed`, four times: blocks in a row on the packed side, at the given addresses on the other.
        unsafe fn four<const N: usize>(spread: [*mut u8; 4], packed: *mut u8);
    }

    pub(super) struct Gather;
    pub(super) struct Scatter;

    #[inline(always)]
    unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller promises N bytes on both sides; no alignment is assumed.
        unsafe { to.cast::<[u8; N]>().write_unaligned(from.cast::<[u8; N]>().read_unaligned()) };
    }

    /// Up to 128 bytes by registers, which may overlap in the middle; more by `memcpy`.
    #[inline(always)]
    unsafe fn copy_some(from: *const u8, to: *mut u8, len: usize) {
        macro_rules! ends {
            ($n:literal) => {{
                let (from_end, to_end) = (from.wrapping_add(len - $n), to.wrapping_add(len - $n));
                // SAFETY: len is $n to 2 * $n, so both copies are inside the range that the caller promises.
                unsafe {
                    copy::<$n>(from, to);
                    copy::<$n>(from_end, to_end);
                }
            }};
        }
        match len {
            0 => {}
            // SAFETY: one byte, as the caller promises.
            1 => unsafe { copy::<1>(from, to) },
            2..=3 => ends!(2),
            4..=7 => ends!(4),
            8..=15 => ends!(8),
            16..=31 => ends!(16),
            32..=63 => ends!(32),
            64..=128 => ends!(64),
            // SAFETY: as the caller promises; a packed buffer and the program's data never overlap.
            _ => unsafe { std::ptr::copy_nonoverlapping(from, to, len) },
        }
    }

    impl Way for Gather {
        #[inline(always)]
        unsafe fn some(spread: *mut u8, packed: *mut u8, len: usize) {
            // SAFETY: as the caller promises.
            unsafe { copy_some(spread, packed, len) };
        }
        #[inline(always)]
        unsafe fn fixed<const N: usize>(spread: *mut u8, packed: *mut u8) {
            // SAFETY: as the caller promises.
            unsafe { copy::<N>(spread, packed) };
        }
        #[inline(always)]
        unsafe fn four<const N: usize>(spread: [*mut u8; 4], packed: *mut u8) {
            // SAFETY: the caller promises N bytes at each place, and 4 * N packed ones.
            unsafe {
                let blocks = spread.map(|place| place.cast::<[u8; N]>().read_unaligned());
                packed.cast::<[[u8; N]; 4]>().write_unaligned(blocks);
            }
        }
    }

    impl Way for Scatter {
        #[inline(always)]
        unsafe fn some(spread: *mut u8, packed: *mut u8, len: usize) {
            // SAFETY: as the caller promises.
            unsafe { copy_some(packed, spread, len) };
        }
        #[inline(always)]
        unsafe fn fixed<const N: usize>(spread: *mut u8, packed: *mut u8) {
            // SAFETY: as the caller promises.
            unsafe { copy::<N>(packed, spread) };
        }
        #[inline(always)]
        unsafe fn four<const N: usize>(spread: [*mut u8; 4], packed: *mut u8) {
            // SAFETY: the caller promises N bytes at each place, and 4 * N packed ones.
            unsafe {
                let blocks = packed.cast::<[[u8; N]; 4]>().read_unaligned();
                for (block, place) in blocks.iter().zip(spread) {
                    place.cast::<[u8; N]>().write_unaligned(*block);
                }
            }
        }
    }

    /// Blocks of a size known to the compiler.
    #[inline(always)]
    fn grid_of<W: Way, const N: usize>(spread: *mut u8, mut packed: *mut u8, grid: Grid) {
        let stride = grid.stride as isize;
        for row in 0..grid.rows as isize {
            let mut at = spread.wrapping_offset(row.wrapping_mul(grid.row_stride as isize));
            for _ in 0..grid.count / 4 {
                let next = [0, 1, 2, 3].map(|i| at.wrapping_offset(stride.wrapping_mul(i)));
                // SAFETY: blocks of the grid; the callers of `grid` have both sides of all of them.
                unsafe { W::four::<N>(next, packed) };
                at = at.wrapping_offset(stride.wrapping_mul(4));
                packed = packed.wrapping_add(4 * N);
            }
            for _ in 0..grid.count % 4 {
                // SAFETY: as above.
                unsafe { W::fixed::<N>(at, packed) };
                at = at.wrapping_offset(stride);
                packed = packed.wrapping_add(N);
            }
        }
    }

    /// Copies the blocks of a grid. The callers are [`super::gather_grid`] and [`super::scatter_grid`], whose
    /// buffers' constructors promised every byte of the operation's count and datatype.
    #[inline]
    pub(super) fn grid<W: Way>(spread: *mut u8, packed: *mut u8, grid: Grid) {
        match grid.len {
            1 => grid_of::<W, 1>(spread, packed, grid),
            2 => grid_of::<W, 2>(spread, packed, grid),
            4 => grid_of::<W, 4>(spread, packed, grid),
            8 => grid_of::<W, 8>(spread, packed, grid),
            12 => grid_of::<W, 12>(spread, packed, grid),
            16 => grid_of::<W, 16>(spread, packed, grid),
            24 => grid_of::<W, 24>(spread, packed, grid),
            32 => grid_of::<W, 32>(spread, packed, grid),
            _ => grid_any::<W>(spread, packed, grid),
        }
    }

    fn grid_any<W: Way>(spread: *mut u8, mut packed: *mut u8, grid: Grid) {
        let len = grid.len as usize;
        for row in 0..grid.rows as isize {
            let mut at = spread.wrapping_offset(row.wrapping_mul(grid.row_stride as isize));
            for _ in 0..grid.count {
                // SAFETY: a block of the grid; the callers of `grid` have both sides of all of them.
                unsafe { W::some(at, packed, len) };
                at = at.wrapping_offset(grid.stride as isize);
                packed = packed.wrapping_add(len);
            }
        }
    }

    fn listed_of<W: Way, const N: usize>(spread: *mut u8, mut packed: *mut u8, places: &[i64]) {
        let (fours, rest) = places.as_chunks::<4>();
        for four in fours {
            // SAFETY: blocks of the list; the callers of `listed` have both sides of all of them.
            unsafe { W::four::<N>(four.map(|place| spread.wrapping_offset(place as isize)), packed) };
            packed = packed.wrapping_add(4 * N);
        }
        for place in rest {
            // SAFETY: as above.
            unsafe { W::fixed::<N>(spread.wrapping_offset(*place as isize), packed) };
            packed = packed.wrapping_add(N);
        }
    }

    /// Copies blocks at given places, as [`grid`].
    #[inline]
    pub(super) fn listed<W: Way>(spread: *mut u8, mut packed: *mut u8, places: &[i64], len: usize) {
        match len {
            1 => listed_of::<W, 1>(spread, packed, places),
            2 => listed_of::<W, 2>(spread, packed, places),
            4 => listed_of::<W, 4>(spread, packed, places),
            8 => listed_of::<W, 8>(spread, packed, places),
            12 => listed_of::<W, 12>(spread, packed, places),
            16 => listed_of::<W, 16>(spread, packed, places),
            24 => listed_of::<W, 24>(spread, packed, places),
            32 => listed_of::<W, 32>(spread, packed, places),
            _ => {
                for place in places {
                    // SAFETY: a block of the list; the callers have both sides of all of them.
                    unsafe { W::some(spread.wrapping_offset(*place as isize), packed, len) };
                    packed = packed.wrapping_add(len);
                }
            }
        }
    }

    /// Copies runs, as [`grid`].
    #[inline]
    pub(super) fn runs<W: Way>(spread: *mut u8, mut packed: *mut u8, runs: &[Run]) {
        for pair in runs.windows(2) {
            let len = (pair[1].start - pair[0].start) as usize;
            // SAFETY: one of the runs; the callers have both sides of all of them.
            unsafe { W::some(spread.wrapping_offset(pair[0].at as isize), packed, len) };
            packed = packed.wrapping_add(len);
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
