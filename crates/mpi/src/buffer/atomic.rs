//! Elements of windows that several processes change at once: each by one instruction of the processor, so that what
//! comes from other processes, other threads and the program's own atomic operations goes together.
use net::{UserBuf, UserBufMut};
use std::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_add_epi16, _mm_add_epi32, _mm_add_epi64, _mm_and_si128, _mm_loadu_si128,
    _mm_or_si128, _mm_storeu_si128, _mm_xor_si128,
};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

/// What is done to an element of memory, given another one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// It is added, wrapping.
    Add,
    And,
    Or,
    Xor,
    /// It takes the place of the old one.
    Store,
    /// Nothing.
    Load,
    /// What a function makes of both: target = source op target.
    With(fn(UserBuf, UserBufMut)),
}

/// Can elements of so many bytes there be changed by one instruction?
#[inline]
pub(crate) fn fits(width: usize, target: UserBufMut) -> bool {
    matches!(width, 1 | 2 | 4 | 8) && target.addr().is_multiple_of(width as u64)
}

/// Changes all elements of `target` with those of `source`, one at a time, and puts what was there before into `before`. The
/// elements [fit](fits); the source has as many, unless nothing is done with it.
pub(crate) fn change(
    width: usize,
    what: Change,
    source: UserBuf,
    target: UserBufMut,
    before: Option<UserBufMut>,
) {
    assert!(fits(width, target) && target.len().is_multiple_of(width));
    assert!(source.len() >= target.len() || matches!(what, Change::Load));
    assert!(before.is_none_or(|before| before.len() >= target.len()));
    if let Some(together) = together(width, what)
        && target.len() >= BLOCKS_MIN
        && std::arch::is_x86_feature_detected!("cmpxchg16b")
    {
        let head = (target.addr().next_multiple_of(BLOCK as u64) - target.addr()) as usize;
        let blocks = (target.len() - head) / BLOCK * BLOCK;
        let part = |start: usize, bytes: usize| {
            (source.part(start, bytes), target.part(start, bytes), before.map(|all| all.part(start, bytes)))
        };
        let ((a, b, c), (x, y, z)) = (part(0, head), part(head + blocks, target.len() - head - blocks));
        change_each(width, what, a, b, c);
        let (source, target, before) = part(head, blocks);
        // SAFETY: the processor has been asked; blocks are aligned and inside all three.
        unsafe { change_blocks(together, source, target, before) };
        return change_each(width, what, x, y, z);
    }
    change_each(width, what, source, target, before);
}

/// Elements that are changed together, if there are at least so many bytes of them: by an instruction that exchanges a block
/// if it is as it was. To who changes one of its elements by an instruction of its own that is no different.
const BLOCKS_MIN: usize = 64;
const BLOCK: usize = size_of::<__m128i>();

/// A change of all elements of a block.
type Together = fn(__m128i, __m128i) -> __m128i;

fn together(width: usize, what: Change) -> Option<Together> {
    macro_rules! both {
        ($f:ident) => {
            Some(|a, b| {
                // SAFETY: every processor of this kind has these instructions.
                unsafe { $f(a, b) }
            })
        };
    }
    match (what, width) {
        (Change::Add, 1) => both!(_mm_add_epi8),
        (Change::Add, 2) => both!(_mm_add_epi16),
        (Change::Add, 4) => both!(_mm_add_epi32),
        (Change::Add, _) => both!(_mm_add_epi64),
        (Change::And, _) => both!(_mm_and_si128),
        (Change::Or, _) => both!(_mm_or_si128),
        (Change::Xor, _) => both!(_mm_xor_si128),
        (Change::Store | Change::Load | Change::With(_), _) => None,
    }
}

/// # Safety
/// `target` begins at a multiple of a block's length; the others have as many bytes.
unsafe fn change_blocks(combine: Together, source: UserBuf, target: UserBufMut, before: Option<UserBufMut>) {
    for at in (0..target.len()).step_by(BLOCK) {
        // SAFETY: inside, as the caller promises, and aligned; memory of a window as in `change_each`, which is changed
        // whole or not at all.
        unsafe {
            let given = _mm_loadu_si128((source.addr() as *const u8).add(at).cast());
            let place = (target.addr() as *mut u8).add(at);
            let mut old = place.cast::<u128>().read_volatile();
            loop {
                let mut new = 0_u128;
                _mm_storeu_si128(
                    (&raw mut new).cast(),
                    combine(given, _mm_loadu_si128((&raw const old).cast())),
                );
                let found = exchange(place.cast(), old, new);
                if found == old {
                    break;
                }
                old = found;
            }
            if let Some(before) = before {
                (before.addr() as *mut u8).add(at).cast::<u128>().write_unaligned(old);
            }
        }
    }
}

/// Stores `new` where `old` is; gives what was there. (The compiler's own would become a call of a function that there is
/// not, where it may not assume that the processor has the instruction.)
///
/// # Safety
/// The processor has the instruction; the place is aligned and may be written.
#[inline(always)]
unsafe fn exchange(place: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: as the caller promises; what the compiler keeps in `rbx` is put back.
    unsafe {
        std::arch::asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            in("rdi") place,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

fn change_each(width: usize, what: Change, source: UserBuf, target: UserBufMut, before: Option<UserBufMut>) {
    match width {
        1 => change_u8(what, source, target, before),
        2 => change_u16(what, source, target, before),
        4 => change_u32(what, source, target, before),
        _ => change_u64(what, source, target, before),
    }
}

/// Stores `new` where `expected` is; gives what was there. All have the width of an element, which [fits].
pub(crate) fn swap_if(width: usize, expected: UserBuf, new: UserBuf, target: UserBufMut, before: UserBufMut) {
    assert!(fits(width, target) && target.len() == width);
    assert!(expected.len() >= width && new.len() >= width && before.len() >= width);
    match width {
        1 => swap_u8(expected, new, target, before),
        2 => swap_u16(expected, new, target, before),
        4 => swap_u32(expected, new, target, before),
        _ => swap_u64(expected, new, target, before),
    }
}

macro_rules! elements {
    ($change:ident $swap:ident $atomic:ty, $word:ty) => {
        fn $change(what: Change, source: UserBuf, target: UserBufMut, before: Option<UserBufMut>) {
            let size = size_of::<$word>();
            let places = target.addr() as *const $atomic;
            for index in 0..target.len() / size {
                // SAFETY: the address is aligned and the element inside, as the caller asserted; memory of a window, which
                // lives as long as the operation, and which other processes change by such instructions only.
                let place = unsafe { &*places.add(index) };
                // SAFETY: inside, as asserted; every pattern is a number. (Not used by a load, which may have no source.)
                let given = || unsafe { (source.addr() as *const $word).add(index).read_unaligned() };
                let old = match what {
                    Change::Add => place.fetch_add(given(), AcqRel),
                    Change::And => place.fetch_and(given(), AcqRel),
                    Change::Or => place.fetch_or(given(), AcqRel),
                    Change::Xor => place.fetch_xor(given(), AcqRel),
                    Change::Store if before.is_none() => {
                        place.store(given(), Release);
                        continue;
                    }
                    Change::Store => place.swap(given(), AcqRel),
                    Change::Load => place.load(Acquire),
                    Change::With(combine) => {
                        let given = given();
                        let combined = |old: $word| {
                            let mut new = old;
                            // SAFETY: two numbers of this function's own, as long as the call.
                            let (from, to) = unsafe {
                                let from = UserBuf::new((&raw const given).cast(), size);
                                (from, UserBufMut::new((&raw mut new).cast(), size))
                            };
                            combine(from, to);
                            Some(new)
                        };
                        place.fetch_update(AcqRel, Acquire, combined).unwrap_or_else(|old| old)
                    }
                };
                if let Some(before) = before {
                    // SAFETY: inside, as asserted.
                    unsafe { (before.addr() as *mut $word).add(index).write_unaligned(old) };
                }
            }
        }

        fn $swap(expected: UserBuf, new: UserBuf, target: UserBufMut, before: UserBufMut) {
            // SAFETY: aligned and inside, as the caller asserted.
            let place = unsafe { &*(target.addr() as *const $atomic) };
            // SAFETY: long enough, as the caller asserted; every pattern is a number.
            let (expected, new) = unsafe {
                let number = |at: UserBuf| (at.addr() as *const $word).read_unaligned();
                (number(expected), number(new))
            };
            let old = place.compare_exchange(expected, new, AcqRel, Acquire).unwrap_or_else(|old| old);
            // SAFETY: long enough, as the caller asserted.
            unsafe { (before.addr() as *mut $word).write_unaligned(old) };
        }
    };
}

elements!(change_u8 swap_u8 AtomicU8, u8);
elements!(change_u16 swap_u16 AtomicU16, u16);
elements!(change_u32 swap_u32 AtomicU32, u32);
elements!(change_u64 swap_u64 AtomicU64, u64);

#[cfg(test)]
mod tests {
    use super::super::{source_of, target_of};
    use super::*;

    fn largest(source: UserBuf, target: UserBufMut) {
        super::super::combine::<u32>(source, target, |a, b| a.max(b));
    }

    /// Many elements are changed as few are, wherever they begin, whatever their width.
    #[test]
    fn blocks_change_as_elements_do() {
        let given: Vec<u8> = (0..512_u32).map(|i| (i * 37 + 11) as u8).collect();
        let old: Vec<u8> = (0..512_u32).map(|i| (i * 91 + 200) as u8).collect();
        #[repr(align(16))]
        struct Aligned([u8; 512]);
        for width in [1, 2, 4, 8] {
            for (start, len) in [(0, 512), (8, 496), (24, 64), (40, 200), (8, 48)] {
                for what in [Change::Add, Change::And, Change::Or, Change::Xor] {
                    let run = |by_blocks: bool| {
                        let (mut memory, mut before) = (Aligned([0; 512]), vec![0_u8; len]);
                        memory.0.copy_from_slice(&old);
                        let target = target_of(&mut memory.0).range(start as isize, len);
                        let told = Some(target_of(&mut before).range(0, len));
                        let source = source_of(&given).range(3, len);
                        if by_blocks {
                            change(width, what, source, target, told);
                        } else {
                            change_each(width, what, source, target, told);
                        }
                        (memory.0, before)
                    };
                    assert!(
                        run(true) == run(false),
                        "{what:?} of {len} bytes in elements of {width} at {start}"
                    );
                }
            }
        }
    }

    /// Those who change elements one by one and those who change blocks lose nothing of each other's.
    #[test]
    fn blocks_and_elements_are_changed_at_once() {
        const TIMES: u32 = 20_000;
        let cells: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
        let bytes = cells.len() * 8;
        let address = cells.as_ptr() as usize;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    let ones = [1_u32; 64];
                    // SAFETY: the cells, which live longer than the scope and are changed by atomic instructions only.
                    let target = unsafe { UserBufMut::new(address as *mut u8, bytes) };
                    for _ in 0..TIMES {
                        change(4, Change::Add, source_of(&ones).range(0, bytes), target, None);
                    }
                });
            }
            scope.spawn(|| {
                (0..TIMES).for_each(|i| _ = cells[i as usize % 32].fetch_add(1 << 32, Relaxed));
            });
        });
        for cell in &cells {
            let (low, high) = (cell.load(Relaxed) as u32, (cell.load(Relaxed) >> 32) as u32);
            assert_eq!((low, high), (2 * TIMES, 2 * TIMES + TIMES / 32));
        }
    }

    #[test]
    fn elements_change_and_what_was_there_is_told() {
        let mut memory = [1_u32, 2, 3];
        let (given, mut before) = ([10_u32, 1, 7], [0_u32; 3]);
        for (what, expected) in [
            (Change::Add, [11, 3, 10]),
            (Change::With(largest), [11, 3, 10]),
            (Change::Xor, [1, 2, 13]),
            (Change::Load, [1, 2, 13]),
            (Change::Store, [10, 1, 7]),
        ] {
            let old = memory;
            let target = target_of(&mut memory).range(0, 12);
            change(
                4,
                what,
                source_of(&given).range(0, 12),
                target,
                Some(target_of(&mut before).range(0, 12)),
            );
            assert_eq!((memory, before), (expected, old), "{what:?}");
        }
    }

    #[test]
    fn a_swap_needs_what_is_expected() {
        let mut memory = [5_u64];
        for (expected, new, after) in [(4_u64, 9_u64, 5), (5, 9, 9)] {
            let (old, mut before) = (memory[0], [0_u64]);
            let source = |number: &u64| source_of(std::slice::from_ref(number)).range(0, 8);
            let target = target_of(&mut memory).range(0, 8);
            swap_if(8, source(&expected), source(&new), target, target_of(&mut before).range(0, 8));
            assert_eq!((memory[0], before[0]), (after, old));
        }
    }
}
