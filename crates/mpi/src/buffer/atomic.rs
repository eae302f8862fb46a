//! Elements of windows that several processes change at once: each by one instruction of the processor, so that what
//! comes from other processes, other threads and the program's own atomic operations goes together.
use net::{UserBuf, UserBufMut};
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
