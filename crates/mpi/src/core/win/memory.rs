//! What is done to the memory of a window, wherever it comes from: the process itself, a process of its host that has it
//! mapped, or a message.
//!
//! One rule makes accumulates atomic to each other on every path. An integer of 1, 2, 4 or 8 bytes at a place that is a
//! multiple of its length is changed by one instruction of the processor, alone or with its neighbours; so it also goes
//! together with atomic instructions of the program. Everything else is changed while the lock of its process is held, which is a word in
//! memory that all have who have the window mapped. MPI demands no more than that those who change a place at once do it
//! with the same basic datatype, and so by the same half of the rule.
use crate::buffer::atomic::{self, Change};
use crate::buffer::{Grid, RecvBuf, Scratch, gather_grid, scatter_grid};
use crate::core::kernels::{Kernel, packed_kernel};
use crate::core::predefined::{Meaning, Predefined, Scalar, TABLE};
use crate::core::{OpId, TypeId};
use net::{UserBuf, UserBufMut};
use proto::rma::wire::{How, Shape};
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Bytes that are changed at most while a lock is held, so that others do not wait long.
pub(super) const HELD_BYTES: usize = 64 << 10;
/// Looks at a lock that another holds before that one is given the processor.
const LOOKS: u32 = 64;

/// How elements are combined: an operation, and how they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Combination {
    pub(super) op: OpId,
    pub(super) meaning: Meaning,
    pub(super) scalar: Scalar,
}

impl Combination {
    /// In numbers: of a predefined datatype whose elements mean the same and are stored the same way.
    pub(super) fn encode(self) -> How {
        let same = |ty: &u32| {
            let row = &TABLE[*ty as usize];
            (row.meaning, row.scalar) == (self.meaning, self.scalar)
        };
        let ty = (0..TypeId::PREDEFINED).find(same).expect("the engine has got it from there");
        How { op: self.op.0, ty }
    }

    /// From numbers; `None` if there are no such, or an element has no bytes.
    pub(super) fn decode(how: How) -> Option<Self> {
        let (op, ty) = (OpId(how.op), TypeId(how.ty));
        if op.0 >= OpId::PREDEFINED || ty.0 >= TypeId::PREDEFINED {
            return None;
        }
        let Predefined { meaning, scalar, .. } = TABLE[ty.index()];
        (meaning != Meaning::Marker).then_some(Combination { op, meaning, scalar })
    }

    /// Bytes of an element, without gaps.
    pub(super) fn width(self) -> usize {
        self.scalar.size_and_extent().0
    }

    /// The bytes of as many whole elements as there is room for.
    pub(super) fn whole(self, room: usize) -> usize {
        room / self.width() * self.width()
    }

    /// Are there bytes in an element, or behind it, that are not its own? Then a block of memory need not end where an
    /// element does.
    pub(super) fn is_gapped(self) -> bool {
        let (size, extent) = self.scalar.size_and_extent();
        size != extent
    }

    /// Are the bytes of a shape whole elements? Each block by itself, or all of them together where a block may hold a part
    /// of one.
    pub(super) fn fits(self, shape: &Shape) -> bool {
        let is_whole = |bytes: u64| bytes.is_multiple_of(self.width() as u64);
        match shape {
            Shape::Blocks(grids) if !self.is_gapped() => grids.iter().all(|grid| is_whole(grid.len)),
            _ => is_whole(shape.bytes()),
        }
    }
}

/// How a combination works on elements.
#[derive(Clone, Copy)]
pub(super) struct Combining {
    pub(super) how: Combination,
    kernel: Kernel,
}

impl Combining {
    /// `None`: the operation is not defined on such elements.
    pub(super) fn of(how: Combination) -> Option<Self> {
        Some(Combining { how, kernel: packed_kernel(how.op, how.meaning, how.scalar)? })
    }

    fn change(&self) -> Change {
        match self.how.op {
            OpId::SUM => Change::Add,
            OpId::BAND => Change::And,
            OpId::BOR => Change::Or,
            OpId::BXOR => Change::Xor,
            OpId::REPLACE => Change::Store,
            OpId::NO_OP => Change::Load,
            _ => Change::With(self.kernel),
        }
    }

    /// Combines bytes in a row with others: whole elements.
    pub(super) fn combine(
        &self,
        source: UserBuf,
        target: UserBufMut,
        before: Option<UserBufMut>,
        lock: &AtomicU64,
    ) {
        let width = self.how.width();
        if is_integer(self.how.scalar) && atomic::fits(width, target) {
            return atomic::change(width, self.change(), source, target, before);
        }
        let step = self.how.whole(HELD_BYTES);
        for start in (0..target.len()).step_by(step) {
            let bytes = step.min(target.len() - start);
            let source = if self.how.op == OpId::NO_OP { source } else { source.part(start, bytes) };
            let before = before.map(|before| before.part(start, bytes));
            hold(lock, || self.combine_held(source, target.part(start, bytes), before));
        }
    }

    /// As [`Combining::combine`], while the lock is held.
    fn combine_held(&self, source: UserBuf, target: UserBufMut, before: Option<UserBufMut>) {
        if let Some(before) = before {
            before.copy_from(&target.as_source());
        }
        if self.how.op != OpId::NO_OP {
            (self.kernel)(source, target);
        }
    }

    /// Combines data without gaps with the elements of a shape, of at most [`HELD_BYTES`].
    pub(super) fn update(
        &self,
        base: RecvBuf,
        shape: &Shape,
        source: UserBuf,
        before: Option<UserBufMut>,
        lock: &AtomicU64,
    ) {
        if self.how.is_gapped() && matches!(shape, Shape::Blocks(_)) {
            return self.update_gapped(base, shape, source, before, lock);
        }
        let each = |combine: &dyn Fn(UserBuf, UserBufMut, Option<UserBufMut>)| {
            let mut done = 0;
            each_block(shape, |at, bytes| {
                let has_source = self.how.op != OpId::NO_OP;
                let source = if has_source { source.part(done, bytes) } else { UserBuf::EMPTY };
                let before = before.map(|before| before.part(done, bytes));
                combine(source, base.range(at as isize, bytes), before);
                done += bytes;
            });
        };
        match is_integer(self.how.scalar) {
            // Most need no lock.
            true => each(&|source, target, before| self.combine(source, target, before, lock)),
            // All blocks while it is held once: to take it costs as much as to add dozens of elements.
            false => hold(lock, || {
                each(&|source, target, before| self.combine_held(source, target, before));
            }),
        }
    }

    /// As [`Combining::update`], of elements of which a block may hold a part: they are combined beside the memory, and
    /// what is between them stays as it is.
    fn update_gapped(
        &self,
        base: RecvBuf,
        shape: &Shape,
        source: UserBuf,
        before: Option<UserBufMut>,
        lock: &AtomicU64,
    ) {
        let bytes = shape.bytes() as usize;
        let mut room = Scratch::with(bytes);
        let now = room.part(bytes);
        hold(lock, || {
            get(base, shape, now);
            if let Some(before) = before {
                before.copy_from(&now.as_source());
            }
            if self.how.op != OpId::NO_OP {
                (self.kernel)(source, now);
                put(base, shape, now.as_source());
            }
        });
    }

    /// Puts `new` there if `expected` is there; gives what was.
    pub(super) fn swap(
        &self,
        base: RecvBuf,
        expected: UserBuf,
        new: UserBuf,
        before: UserBufMut,
        lock: &AtomicU64,
    ) {
        let width = self.how.width();
        let target = base.range(0, width);
        if is_integer(self.how.scalar) && atomic::fits(width, target) {
            return atomic::swap_if(width, expected, new, target, before);
        }
        hold(lock, || {
            before.copy_from(&target.as_source());
            let bytes = |buf: UserBuf| {
                let mut bytes = [0; 32];
                buf.copy_to(&mut bytes[..width]);
                bytes
            };
            if bytes(before.part(0, width).as_source()) == bytes(expected.part(0, width)) {
                target.copy_from(&new.part(0, width));
            }
        });
    }
}

/// May elements that are stored so be swapped on a condition?
pub(super) fn is_integer(scalar: Scalar) -> bool {
    use Scalar::*;
    matches!(scalar, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Does something while nobody else does it under the same lock. Whoever holds it is about to give it back.
fn hold<R>(lock: &AtomicU64, what: impl FnOnce() -> R) -> R {
    let mut looks = 0_u32;
    while lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    #[cfg(test)]
    HOLDS.set(HOLDS.get() + 1);
    let result = what();
    lock.store(0, Release);
    result
}

#[cfg(test)]
thread_local! {
    /// How often this thread has held a lock.
    static HOLDS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn each_block(shape: &Shape, mut f: impl FnMut(i64, usize)) {
    match shape {
        Shape::Row(bytes) => f(0, *bytes as usize),
        Shape::Blocks(grids) => {
            for grid in grids {
                for row in 0..grid.rows as i64 {
                    for block in 0..grid.count as i64 {
                        f(grid.at + row * grid.row_stride + block * grid.stride, grid.len as usize);
                    }
                }
            }
        }
    }
}

/// Copies data to a shape.
pub(super) fn put(base: RecvBuf, shape: &Shape, data: UserBuf) {
    match shape {
        Shape::Row(bytes) => base.range(0, *bytes as usize).copy_from(&data),
        Shape::Blocks(grids) => {
            let mut done = 0;
            for grid in grids {
                let bytes = grid.bytes() as usize;
                scatter_grid(data.part(done, bytes), base, *grid);
                done += bytes;
            }
        }
    }
}

/// Copies the bytes of a shape to where there is room for them.
pub(super) fn get(base: RecvBuf, shape: &Shape, to: UserBufMut) {
    match shape {
        Shape::Row(bytes) => to.copy_from(&base.range(0, *bytes as usize).as_source()),
        Shape::Blocks(grids) => {
            let mut done = 0;
            for grid in grids {
                let bytes = grid.bytes() as usize;
                gather_grid(base.as_source(), *grid, to.part(done, bytes));
                done += bytes;
            }
        }
    }
}

/// The first and the last byte (exclusive) of a shape, if numbers are large enough for them.
pub(super) fn span(shape: &Shape) -> Option<(i64, i64)> {
    match shape {
        Shape::Row(bytes) => Some((0, i64::try_from(*bytes).ok()?)),
        Shape::Blocks(grids) => {
            let mut all: Option<(i64, i64)> = None;
            for grid in grids.iter().filter(|grid| grid.bytes() > 0) {
                let (low, high) = span_of(grid)?;
                all = Some(all.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
            }
            Some(all.unwrap_or((0, 0)))
        }
    }
}

fn span_of(grid: &Grid) -> Option<(i64, i64)> {
    let reach = |count: u64, stride: i64| i64::try_from(count.checked_sub(1)?).ok()?.checked_mul(stride);
    let (columns, rows) = (reach(grid.count, grid.stride)?, reach(grid.rows, grid.row_stride)?);
    let low = grid.at.checked_add(columns.min(0))?.checked_add(rows.min(0))?;
    let high = grid.at.checked_add(columns.max(0))?.checked_add(rows.max(0))?;
    Some((low, high.checked_add(i64::try_from(grid.len).ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{source_of, target_of};

    #[test]
    fn shapes_say_where_they_begin_and_end() {
        let grids = vec![
            Grid::row(-8, 8, 3, -16),
            Grid { at: 100, len: 4, count: 2, stride: 8, rows: 2, row_stride: 50 },
        ];
        assert_eq!(span(&Shape::Blocks(grids)), Some((-40, 162)));
        assert_eq!(span(&Shape::Row(0)), Some((0, 0)));
        assert_eq!(span(&Shape::Blocks(vec![Grid::row(i64::MAX, 8, 1, 0)])), None);
        assert_eq!(span(&Shape::Blocks(vec![Grid::row(0, 1, u64::MAX, 1)])), None);
    }

    #[test]
    fn doubles_in_blocks_are_added_under_the_lock_and_what_was_there_is_told() {
        let how = Combination { op: OpId::SUM, meaning: Meaning::Floating, scalar: Scalar::F64 };
        let (mut memory, lock) = ([1.0_f64, 2.0, 3.0, 4.0], AtomicU64::new(0));
        let (given, mut before) = ([10.0_f64, 20.0], [0.0_f64; 2]);
        let shape = Shape::Blocks(vec![Grid::row(0, 8, 2, 16)]);
        let into = target_of(&mut before).range(0, 16);
        let combining = Combining::of(how).unwrap();
        combining.update(target_of(&mut memory), &shape, source_of(&given).range(0, 16), Some(into), &lock);
        assert_eq!((memory, before, lock.into_inner()), ([11.0, 2.0, 23.0, 4.0], [1.0, 3.0], 0));
        assert!(Combining::of(Combination { op: OpId::BAND, ..how }).is_none());
    }

    #[test]
    fn all_rows_of_a_sum_are_added_under_one_hold_of_the_lock() {
        let how = Combination { op: OpId::SUM, meaning: Meaning::Floating, scalar: Scalar::F64 };
        let (mut memory, ones, lock) = ([1.0_f64; 64 * 16], [1.0_f64; 64 * 8], AtomicU64::new(0));
        let shape = Shape::Blocks(vec![Grid::row(0, 64, 64, 128)]);
        let source = source_of(&ones).range(0, 64 * 64);
        let before = HOLDS.get();
        Combining::of(how).unwrap().update(target_of(&mut memory), &shape, source, None, &lock);
        assert_eq!((HOLDS.get() - before, lock.into_inner()), (1, 0));
        assert!(memory.chunks(16).all(|row| row[..8] == [2.0; 8] && row[8..] == [1.0; 8]));
    }

    #[test]
    fn combinations_survive_as_numbers_but_markers_have_none() {
        let how = Combination { op: OpId::MINLOC, meaning: Meaning::Pair, scalar: Scalar::PairF64I32 };
        assert_eq!(Combination::decode(how.encode()), Some(how));
        let (op, ty) = (OpId::REPLACE.0, TypeId::LB.0);
        assert_eq!(Combination::decode(How { op, ty }), None);
        assert_eq!(Combination::decode(How { op, ty: TypeId::PREDEFINED }), None);
        assert_eq!(Combination::decode(How { op: OpId::PREDEFINED, ty: TypeId::INT.0 }), None);
    }

    #[test]
    fn pairs_are_combined_without_their_gaps() {
        // A short and an int, in blocks that are no whole pairs: the short, and the int behind a gap with the next short.
        let mut memory = [5_i16, -1, 9, 0, 6, -1, 9, 0];
        let given = [7_i16, 1, 0, 4, 2, 0];
        let mut before = [0_i16; 6];
        let shape = Shape::Blocks(vec![Grid::row(0, 2, 1, 0), Grid::row(4, 6, 1, 0), Grid::row(12, 4, 1, 0)]);
        let how = Combination { op: OpId::MAXLOC, meaning: Meaning::Pair, scalar: Scalar::PairI16I32 };
        let (source, into) = (source_of(&given).range(0, 12), target_of(&mut before).range(0, 12));
        let lock = AtomicU64::new(0);
        let combining = Combining::of(how).unwrap();
        combining.update(target_of(&mut memory), &shape, source, Some(into), &lock);
        assert_eq!(memory, [7, -1, 1, 0, 6, -1, 9, 0]);
        assert_eq!((before, lock.into_inner()), ([5, 9, 0, 6, 9, 0], 0));
        assert_eq!((how.width(), how.whole(HELD_BYTES) % 6), (6, 0));
    }
}
