//! What a datatype is: bounds, size, the shape of its bytes and how it was made; and copying by it. Pure.
mod bounds;
mod shape;
mod signature;
#[cfg(test)]
mod tests;
mod walk;

use super::predefined::{Meaning, Predefined, Scalar, TABLE};
use super::{Combiner, TypeId, external};
use crate::buffer::{At, Grid, RecvBuf, Run, SendBuf, copy_grid, gather_grid, gather_listed, gather_runs};
use crate::buffer::{copy_runs, scatter_grid, scatter_listed, scatter_runs};
use crate::error::{ErrorClass, Result, fail_with};
use bounds::{Bounds, Collected};
use net::{UserBuf, UserBufMut};
pub(super) use shape::product;
use shape::{Form, Placed, Survey, sum, times};
pub(super) use signature::pair_parts;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use walk::{Elements, Sink, walk};

/// No memory of a process begins below this address.
pub const NOTHING_BELOW: usize = 4096;

/// Can there be anything, so far from the begin of a buffer? (Other mistakes than these cannot be seen.)
#[inline(always)]
pub(super) fn is_somewhere(buf: impl At, start: isize) -> bool {
    buf.at().wrapping_add_signed(start) >= NOTHING_BELOW
}

/// How a datatype was made.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) combiner: Combiner,
    pub(super) integers: Vec<i64>,
    pub(super) addresses: Vec<i64>,
    pub(super) types: Vec<Rc<Datatype>>,
}

/// A datatype. It never changes, except by being committed.
pub(super) struct Datatype {
    /// Bytes of data.
    pub(super) size: usize,
    /// From one element to the next.
    pub(super) extent: i64,
    /// Are elements in a row bytes in a row?
    dense: bool,
    pub(super) committed: Cell<bool>,
    /// Was it made by a function with large counts?
    pub(super) made_large: Cell<bool>,
    /// Where its bytes are.
    placed: Placed,
    bounds: Bounds,
    pub(super) true_lb: i64,
    pub(super) true_ub: i64,
    align: i64,
    /// Number of basic elements.
    basic: u64,
    /// Bytes in the representation "external32".
    pub(super) external_size: u64,
    /// The only predefined datatype in it, if there is but one. A pair is one, of two basic elements.
    uniform: Option<TypeId>,
    /// Set for predefined datatypes and their copies: what reductions see.
    pub(super) scalar: Option<(Meaning, Scalar)>,
    /// Set for predefined datatypes.
    pub(super) named: Option<TypeId>,
    pub(super) origin: Origin,
}

/// `count` blocks of `repeat` elements of a datatype, the first at `at`, `stride` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) at: i64,
    pub(super) count: i64,
    pub(super) stride: i64,
    pub(super) repeat: i64,
    pub(super) ty: &'a Rc<Datatype>,
}

impl<'a> Entry<'a> {
    /// `repeat` elements in a row.
    pub(super) fn block(at: i64, repeat: i64, ty: &'a Rc<Datatype>) -> Self {
        Entry { at, count: 1, stride: 0, repeat, ty }
    }
}

impl Datatype {
    pub(super) fn predefined(id: TypeId, row: &Predefined) -> Self {
        let (size, extent) = row.scalar.size_and_extent();
        let run = |at, len| Placed { at, form: Form::Bytes(len) };
        let pieces = match row.scalar {
            Scalar::PairI16I32 => vec![run(0, 2), run(4, 4)],
            Scalar::PairF80I32 => vec![run(0, 16), run(16, 4)],
            _ => vec![run(0, size as u64)],
        };
        let end = if row.scalar == Scalar::PairI16I32 { 8 } else { size as i64 };
        let pair = pair_parts(id);
        Datatype {
            size,
            extent: extent as i64,
            dense: size == extent,
            committed: Cell::new(true),
            made_large: Cell::new(false),
            placed: Placed::sequence(pieces).expect("small"),
            bounds: Bounds::predefined(row.scalar, extent as i64),
            true_lb: 0,
            true_ub: end,
            align: alignment(row.scalar),
            basic: if row.meaning == Meaning::Marker { 0 } else { pair.len().max(1) as u64 },
            external_size: match pair {
                [] => external::bytes_of(id),
                parts => parts.iter().map(|part| external::bytes_of(*part)).sum(),
            },
            uniform: Some(id),
            scalar: Some((row.meaning, row.scalar)),
            named: Some(id),
            origin: Origin::of(Combiner::Named),
        }
    }

    /// A datatype of entries, in order.
    pub(super) fn of<'a>(entries: impl IntoIterator<Item = Entry<'a>>, origin: Origin) -> Result<Self> {
        Datatype::try_of(entries.into_iter().map(Ok), origin)
    }

    /// As [`Datatype::of`], of entries that may be in error.
    pub(super) fn try_of<'a>(
        entries: impl Iterator<Item = Result<Entry<'a>>>,
        origin: Origin,
    ) -> Result<Self> {
        let mut builder = Builder::default();
        builder.pieces.reserve(entries.size_hint().0);
        for entry in entries {
            builder.add(entry?)?;
        }
        builder.finish(origin)
    }

    /// Blocks of a datatype, each so many elements at a place in bytes.
    pub(super) fn of_blocks(
        blocks: impl Iterator<Item = Result<(i64, i64)>> + Clone,
        ty: &Rc<Datatype>,
        origin: Origin,
    ) -> Result<Self> {
        match Builder::of_bytes(blocks.clone(), ty)? {
            Some(builder) => builder.finish(origin),
            // Errors have their words there, too.
            None => {
                let entry =
                    |block: Result<(i64, i64)>| block.map(|(at, repeat)| Entry::block(at, repeat, ty));
                Datatype::try_of(blocks.map(entry), origin)
            }
        }
    }

    /// The same data with other bounds.
    pub(super) fn resized(old: &Datatype, lb: i64, extent: i64, origin: Origin) -> Result<Self> {
        let mut new = Datatype::copied(old, origin);
        (new.bounds, new.extent, new.scalar) = (Bounds::set(lb, sum(lb, extent)?), extent, None);
        new.dense = is_dense(&new.placed, new.size, extent);
        new.committed = Cell::new(false);
        Ok(new)
    }

    /// A copy, with its own origin.
    pub(super) fn copied(old: &Datatype, origin: Origin) -> Self {
        Datatype {
            size: old.size,
            extent: old.extent,
            dense: old.dense,
            committed: old.committed.clone(),
            made_large: Cell::new(false),
            placed: old.placed.clone(),
            bounds: old.bounds,
            true_lb: old.true_lb,
            true_ub: old.true_ub,
            align: old.align,
            basic: old.basic,
            external_size: old.external_size,
            uniform: old.uniform,
            scalar: old.scalar,
            named: None,
            origin,
        }
    }

    /// Lower bound.
    pub(super) fn lb(&self) -> i64 {
        self.bounds.lb
    }

    /// (distance, bytes) if `count` elements are bytes in a row.
    #[inline]
    pub(super) fn flat(&self, count: usize) -> Option<(isize, usize)> {
        if self.dense || count == 0 || (count == 1 && matches!(self.placed.form, Form::Bytes(_))) {
            Some((self.placed.at as isize, self.size * count))
        } else {
            None
        }
    }

    /// As [`Datatype::flat`], of a datatype whose elements are always bytes in a row, and not too many.
    #[inline(always)]
    pub(super) fn row(&self, count: usize) -> Option<(isize, usize)> {
        let bytes = self.size.checked_mul(count)?;
        (self.dense && bytes <= isize::MAX as usize).then_some((self.placed.at as isize, bytes))
    }

    /// Bytes of `count` elements; an error if they do not fit in memory.
    #[inline]
    pub(super) fn bytes(&self, count: usize) -> Result<usize> {
        match self.size.checked_mul(count) {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
            _ => fail_with(ErrorClass::Count, || {
                format!("{count} elements of {} bytes do not fit in memory", self.size)
            }),
        }
    }

    /// Can there be `count` elements? Nothing is at a null address, unless the datatype holds absolute ones
    /// (`MPI_BOTTOM`).
    #[inline(always)]
    pub(super) fn check_at(&self, buf: impl At, count: usize) -> Result<()> {
        let begin = buf.at().wrapping_add(self.true_lb as usize);
        if begin < NOTHING_BELOW && count > 0 && self.size > 0 && !buf.is_in_place() {
            return fail_with(ErrorClass::Buffer, || format!("{count} elements at address 0x{begin:x}"));
        }
        Ok(())
    }

    /// Copies `count` elements to the bytes of `to`.
    pub(super) fn pack(&self, from: SendBuf, count: usize, to: UserBufMut) {
        self.pack_range(from, count, 0..(self.size * count) as u64, to);
    }

    /// Copies all of `from`, at most `count` elements, to where they belong.
    pub(super) fn unpack(&self, from: UserBuf, to: RecvBuf, count: usize) {
        self.unpack_range(from, to, count, 0);
    }

    /// Copies the bytes `range` (counted without gaps) of `count` elements to the beginning of `to`: a fragment.
    pub(super) fn pack_range(&self, from: SendBuf, count: usize, range: Range<u64>, to: UserBufMut) {
        walk(self.elements_of(count), range, &mut Pack { from, to, done: 0 });
    }

    /// Copies all of `from` to where the bytes from `start` on (counted without gaps) of `count` elements belong.
    pub(super) fn unpack_range(&self, from: UserBuf, to: RecvBuf, count: usize, start: u64) {
        let end = (start + from.len() as u64).min((self.size * count) as u64);
        walk(self.elements_of(count), start..end, &mut Unpack { from, to, done: 0 });
    }

    /// Copies `count` elements between two places of the same layout.
    pub(super) fn copy_elements(&self, from: SendBuf, to: RecvBuf, count: usize) {
        walk(self.elements_of(count), 0..(self.size * count) as u64, &mut Transfer { from, to });
    }

    /// Where the bytes `range` (counted without gaps) of `count` elements are, in blocks.
    pub(super) fn blocks(&self, count: usize, range: Range<u64>) -> Vec<Grid> {
        let mut found = Blocks(Vec::new());
        walk(self.elements_of(count), range, &mut found);
        found.0
    }

    /// What its predefined elements mean and how they are stored, if they are all of one kind.
    pub(super) fn predefined_element(&self) -> Option<(Meaning, Scalar)> {
        let row = &TABLE[self.uniform?.index()];
        Some((row.meaning, row.scalar))
    }

    fn elements_of(&self, count: usize) -> Elements<'_> {
        Elements { of: &self.placed, count: count as u64, extent: self.extent }
    }
}

impl Origin {
    /// Of a datatype that is made of nothing.
    pub(super) fn of(combiner: Combiner) -> Self {
        Origin { combiner, integers: Vec::new(), addresses: Vec::new(), types: Vec::new() }
    }
}

impl Drop for Datatype {
    /// Without recursion: a program may have made each datatype of the one before, a million times.
    fn drop(&mut self) {
        let mut orphans = std::mem::take(&mut self.origin.types);
        while let Some(mut ty) = orphans.pop() {
            if let Some(ty) = Rc::get_mut(&mut ty) {
                orphans.append(&mut ty.origin.types);
            }
        }
    }
}

impl fmt::Debug for Datatype {
    /// Without what it is made of, which may be a long chain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Datatype { size, extent, named, .. } = self;
        write!(f, "Datatype({:?} {named:?}, {size} bytes every {extent})", self.origin.combiner)
    }
}

/// Collects forms and bounds.
struct Builder<'a> {
    pieces: Vec<Placed>,
    size: u64,
    basic: u64,
    external_size: u64,
    align: i64,
    collected: Collected,
    /// `None`: nothing yet.
    uniform: Option<Option<TypeId>>,
    /// The block that was added last, at 0: lists often repeat it.
    last: Option<(i64, &'a Rc<Datatype>, Placed)>,
}

impl Default for Builder<'_> {
    fn default() -> Self {
        Builder {
            pieces: Vec::new(),
            size: 0,
            basic: 0,
            external_size: 0,
            align: 1,
            collected: Collected::default(),
            uniform: None,
            last: None,
        }
    }
}

impl<'a> Builder<'a> {
    fn add(&mut self, entry: Entry<'a>) -> Result<()> {
        let Entry { at, count, stride, repeat, ty } = entry;
        if repeat == 0 || count == 0 {
            return Ok(());
        }
        let elements = times(repeat as u64, count as u64)?;
        self.size = at_most(self.size.checked_add(times(ty.size as u64, elements)?))?;
        // Every basic element has a byte, so there are no more of them than bytes; and none grows outside.
        self.basic += ty.basic * elements;
        self.external_size += ty.external_size * elements;
        self.align = self.align.max(ty.align);
        let last = [shape::product(count - 1, stride)?, shape::product(repeat - 1, ty.extent)?];
        let low = sum(sum(at, last[0].min(0))?, last[1].min(0))?;
        let high = sum(sum(at, last[0].max(0))?, last[1].max(0))?;
        self.collected.add(ty, low, high)?;
        if ty.basic > 0 {
            self.uniform = match self.uniform {
                None => Some(ty.uniform),
                Some(before) => Some(before.filter(|_| before == ty.uniform)),
            };
        }
        if ty.size > 0 {
            let block = self.block(repeat, ty)?;
            self.pieces.push(block.repeated(count as u64, stride)?.shifted(at)?);
        }
        Ok(())
    }

    /// Of blocks of elements that are bytes in a row, in two passes over the list. `None`: they are something else, or
    /// a number is too large.
    fn of_bytes(
        blocks: impl Iterator<Item = Result<(i64, i64)>> + Clone,
        ty: &'a Rc<Datatype>,
    ) -> Result<Option<Self>> {
        let (Form::Bytes(size @ 1..), true) = (&ty.placed.form, ty.dense) else { return Ok(None) };
        let bytes = blocks.map(|block| {
            let (at, repeat) = block.ok()?;
            let len = u64::try_from(repeat).ok()?.checked_mul(*size)?;
            Some((at.checked_add(ty.placed.at)?, len))
        });
        let filled = bytes.filter(|block| !matches!(block, Some((_, 0))));
        let Some(seen) = Survey::of(filled.clone()) else { return Ok(None) };
        let elements = seen.bytes / size;
        let mut builder = Builder { size: seen.bytes, align: ty.align, ..Builder::default() };
        builder.basic = ty.basic * elements;
        builder.external_size = ty.external_size * elements;
        builder.uniform = (ty.basic > 0).then_some(ty.uniform);
        let (low, high) = (seen.low - ty.placed.at, seen.high - ty.placed.at - ty.extent);
        builder.collected.add(ty, low, high)?;
        builder.pieces.push(Placed::blocks(&seen, filled.flatten())?);
        Ok(Some(builder))
    }

    fn block(&mut self, repeat: i64, ty: &'a Rc<Datatype>) -> Result<Placed> {
        if let Some((count, of, block)) = &self.last
            && *count == repeat
            && Rc::ptr_eq(of, ty)
        {
            return Ok(block.clone());
        }
        let block = ty.placed.repeated(repeat as u64, ty.extent)?;
        self.last = Some((repeat, ty, block.clone()));
        Ok(block)
    }

    fn finish(self, origin: Origin) -> Result<Datatype> {
        let align = if origin.combiner == Combiner::Struct { self.align } else { 1 };
        let (bounds, (true_lb, true_ub)) = self.collected.finish(align)?;
        let placed = Placed::sequence(self.pieces)?;
        let extent = bounds.extent()?;
        Ok(Datatype {
            size: self.size as usize,
            extent,
            dense: is_dense(&placed, self.size as usize, extent),
            committed: Cell::new(false),
            made_large: Cell::new(false),
            placed,
            bounds,
            true_lb,
            true_ub,
            align: self.align,
            basic: self.basic,
            external_size: self.external_size,
            uniform: self.uniform.flatten(),
            scalar: None,
            named: None,
            origin,
        })
    }
}

fn at_most(bytes: Option<u64>) -> Result<u64> {
    match bytes.filter(|bytes| *bytes <= i64::MAX as u64) {
        Some(bytes) => Ok(bytes),
        None => fail_with(ErrorClass::Arg, || "a datatype of more than 2^63 bytes".into()),
    }
}

fn is_dense(placed: &Placed, size: usize, extent: i64) -> bool {
    size == 0 || (matches!(placed.form, Form::Bytes(_)) && size as i64 == extent)
}

fn alignment(scalar: Scalar) -> i64 {
    use Scalar::*;
    match scalar {
        I8 | U8 | Lower | Upper => 1,
        I16 | U16 | F16 | B16 | C16 => 2,
        I32 | U32 | F32 | C32 | PairF32I32 | PairI32I32 | PairI16I32 | PairF32F32 => 4,
        I64 | U64 | F64 | C64 | PairF64I32 | PairI64I32 | PairF64F64 => 8,
        I128 | F80 | F128 | C80 | C128 | PairF80I32 => 16,
    }
}

/// From the program's memory to bytes in a row.
struct Pack {
    from: SendBuf,
    to: UserBufMut,
    done: usize,
}

impl Pack {
    #[inline]
    fn next(&mut self, bytes: u64) -> UserBufMut {
        let room = self.to.part(self.done, bytes as usize);
        self.done += bytes as usize;
        room
    }
}

impl Sink for Pack {
    #[inline]
    fn grid(&mut self, grid: Grid) {
        let room = self.next(grid.bytes());
        gather_grid(self.from, grid, room);
    }

    #[inline]
    fn listed(&mut self, at: i64, places: &[i64], len: u64) {
        let room = self.next(len * places.len() as u64);
        gather_listed(self.from.shifted(at as isize), places, len as usize, room);
    }

    #[inline]
    fn runs(&mut self, at: i64, runs: &[Run]) {
        let room = self.next(Run::bytes_of(runs));
        gather_runs(self.from.shifted(at as isize), runs, room);
    }
}

/// From bytes in a row to the program's memory.
struct Unpack {
    from: UserBuf,
    to: RecvBuf,
    done: usize,
}

impl Unpack {
    #[inline]
    fn next(&mut self, bytes: u64) -> UserBuf {
        let part = self.from.part(self.done, bytes as usize);
        self.done += bytes as usize;
        part
    }
}

impl Sink for Unpack {
    #[inline]
    fn grid(&mut self, grid: Grid) {
        let part = self.next(grid.bytes());
        scatter_grid(part, self.to, grid);
    }

    #[inline]
    fn listed(&mut self, at: i64, places: &[i64], len: u64) {
        let part = self.next(len * places.len() as u64);
        scatter_listed(part, self.to.shifted(at as isize), places, len as usize);
    }

    #[inline]
    fn runs(&mut self, at: i64, runs: &[Run]) {
        let part = self.next(Run::bytes_of(runs));
        scatter_runs(part, self.to.shifted(at as isize), runs);
    }
}

/// Between two places of the same layout.
struct Transfer {
    from: SendBuf,
    to: RecvBuf,
}

impl Sink for Transfer {
    fn grid(&mut self, grid: Grid) {
        copy_grid(self.from, self.to, grid);
    }

    fn listed(&mut self, at: i64, places: &[i64], len: u64) {
        for place in places {
            self.bytes(at.wrapping_add(*place), len);
        }
    }

    fn runs(&mut self, at: i64, runs: &[Run]) {
        copy_runs(self.from.shifted(at as isize), self.to.shifted(at as isize), runs);
    }
}

/// Where the bytes are.
struct Blocks(Vec<Grid>);

impl Sink for Blocks {
    fn grid(&mut self, grid: Grid) {
        self.0.push(grid);
    }

    fn listed(&mut self, at: i64, places: &[i64], len: u64) {
        self.0.extend(places.iter().map(|place| Grid::row(at.wrapping_add(*place), len, 1, 0)));
    }

    fn runs(&mut self, at: i64, runs: &[Run]) {
        let block =
            |pair: &[Run]| Grid::row(at.wrapping_add(pair[0].at), pair[1].start - pair[0].start, 1, 0);
        self.0.extend(runs.windows(2).map(block));
    }
}
