//! The inner loops of packing and unpacking.
//!
//! One side is *spread* over the program's memory, the other is *packed*. Blocks of a few bytes are moved by registers of
//! their size: a call of `memcpy` for eight bytes costs more than the bytes. Where the processor has masked moves, blocks of
//! any length to 64 bytes are one of each, without a branch that it would have to guess.
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
                _mm_unpacklo_epi64(_mm_loadl_epi64(places[i].cast()), _mm_loadl_epi64(places[i + 1].cast()))
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
    grid_any(spread, packed, grid, |spread, packed, len| unsafe { copy_wide(W::route(spread, packed), len) });
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
    runs_any(spread, packed, runs, |spread, packed, len| unsafe { copy_wide(W::route(spread, packed), len) });
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
