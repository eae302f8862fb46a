//! Where the bytes of a datatype are: a list of pieces, made once, and copying by it. Pure.
use super::predefined::{Meaning, Predefined, Scalar};
use super::{Combiner, TypeId};
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{UserBuf, UserBufMut};
use std::cell::Cell;
use std::rc::Rc;

/// A datatype that needs more pieces than this is refused: the list would need gigabytes.
const PIECES_MAX: usize = 1 << 26;

/// Bytes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Distance from the element's address.
    pub(super) at: i64,
    /// Length.
    pub(super) len: usize,
}

/// How a datatype was made.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) combiner: Combiner,
    pub(super) integers: Vec<i64>,
    pub(super) addresses: Vec<i64>,
    pub(super) types: Vec<Rc<Datatype>>,
}

/// A datatype. It never changes, except by being committed.
#[derive(Debug)]
pub(super) struct Datatype {
    /// Bytes of data.
    pub(super) size: usize,
    /// From one element to the next.
    pub(super) extent: i64,
    /// Distance of the first piece.
    first: i64,
    /// Are elements in a row bytes in a row?
    dense: bool,
    pub(super) committed: Cell<bool>,
    pub(super) lb: i64,
    pub(super) true_lb: i64,
    pub(super) true_ub: i64,
    bounds_set: bool,
    align: i64,
    pieces: Box<[Piece]>,
    /// Number of basic elements.
    basic: u64,
    /// What it consists of, in order: for counting basic elements.
    parts: Vec<(u64, Rc<Datatype>)>,
    /// Set for predefined datatypes and their copies: what reductions see.
    pub(super) scalar: Option<(Meaning, Scalar)>,
    /// Set for predefined datatypes.
    pub(super) named: Option<TypeId>,
    pub(super) origin: Origin,
}

/// `repeat` elements of a datatype in a row, at a distance.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) at: i64,
    pub(super) repeat: i64,
    pub(super) ty: Rc<Datatype>,
}

impl Datatype {
    pub(super) fn predefined(id: TypeId, row: &Predefined, parts: Vec<(u64, Rc<Datatype>)>) -> Self {
        let (size, extent) = row.scalar.size_and_extent();
        let whole = Piece { at: 0, len: size };
        let pieces = match row.scalar {
            Scalar::PairI16I32 => vec![Piece { at: 0, len: 2 }, Piece { at: 4, len: 4 }],
            Scalar::PairF80I32 => vec![Piece { at: 0, len: 16 }, Piece { at: 16, len: 4 }],
            _ => vec![whole],
        };
        let end = pieces[pieces.len() - 1];
        let is_pair = row.meaning == Meaning::Pair;
        Datatype {
            size,
            extent: extent as i64,
            first: 0,
            dense: size == extent,
            committed: Cell::new(true),
            lb: 0,
            true_lb: 0,
            true_ub: end.at + end.len as i64,
            bounds_set: false,
            align: alignment(row.scalar),
            pieces: pieces.into(),
            basic: if is_pair { 2 } else { 1 },
            parts,
            scalar: Some((row.meaning, row.scalar)),
            named: Some(id),
            origin: Origin {
                combiner: Combiner::Named,
                integers: Vec::new(),
                addresses: Vec::new(),
                types: Vec::new(),
            },
        }
    }

    /// A datatype of entries, in order.
    pub(super) fn of(entries: &[Entry], origin: Origin) -> Result<Self> {
        let mut builder = Builder::default();
        for entry in entries {
            builder.add(entry)?;
        }
        Ok(builder.finish(entries, origin))
    }

    /// The same data with other bounds.
    pub(super) fn resized(old: &Rc<Datatype>, lb: i64, extent: i64, origin: Origin) -> Self {
        let mut new = Datatype::copied(old, origin);
        (new.lb, new.extent, new.bounds_set, new.scalar) = (lb, extent, true, None);
        new.dense = is_dense(&new.pieces, new.size, extent);
        new.committed = Cell::new(false);
        new
    }

    /// A copy, with its own origin.
    pub(super) fn copied(old: &Rc<Datatype>, origin: Origin) -> Self {
        Datatype {
            size: old.size,
            extent: old.extent,
            first: old.first,
            dense: old.dense,
            committed: old.committed.clone(),
            lb: old.lb,
            true_lb: old.true_lb,
            true_ub: old.true_ub,
            bounds_set: old.bounds_set,
            align: old.align,
            pieces: old.pieces.clone(),
            basic: old.basic,
            parts: vec![(1, old.clone())],
            scalar: old.scalar,
            named: None,
            origin,
        }
    }

    /// (distance, bytes) if `count` elements are bytes in a row.
    #[inline]
    pub(super) fn flat(&self, count: usize) -> Option<(isize, usize)> {
        if self.dense || (count == 1 && self.pieces.len() == 1) || count == 0 {
            Some((self.first as isize, self.size * count))
        } else {
            None
        }
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

    /// Copies `count` elements to the bytes of `to`.
    pub(super) fn pack(&self, from: SendBuf, count: usize, to: UserBufMut) {
        let mut at = 0;
        self.walk(count, self.size * count, |offset, len| {
            to.part(at, len).copy_from(&from.range(offset, len));
            at += len;
        });
    }

    /// Copies all of `from`, at most `count` elements, to where they belong.
    pub(super) fn unpack(&self, from: UserBuf, to: RecvBuf, count: usize) {
        let mut at = 0;
        self.walk(count, from.len(), |offset, len| {
            to.range(offset, len).copy_from(&from.part(at, len));
            at += len;
        });
    }

    /// Copies `count` elements between two places of the same layout.
    pub(super) fn copy_elements(&self, from: SendBuf, to: RecvBuf, count: usize) {
        self.walk(count, self.size * count, |offset, len| {
            to.range(offset, len).copy_from(&from.range(offset, len));
        });
    }

    /// Calls with every piece of `count` elements, at most `bytes` in all.
    fn walk(&self, count: usize, mut bytes: usize, mut f: impl FnMut(isize, usize)) {
        if let Some((offset, all)) = self.flat(count) {
            f(offset, all.min(bytes));
            return;
        }
        for element in 0..count as i64 {
            for piece in &self.pieces {
                let len = piece.len.min(bytes);
                if len == 0 {
                    return;
                }
                f((element * self.extent + piece.at) as isize, len);
                bytes -= len;
            }
        }
    }

    /// Basic elements in `bytes` of this datatype; `None` if the last one is not whole.
    pub(super) fn elements(&self, bytes: usize) -> Option<u64> {
        if self.size == 0 {
            return (bytes == 0).then_some(0);
        }
        let whole = (bytes / self.size) as u64 * self.basic;
        let mut rest = bytes % self.size;
        if rest == 0 {
            return Some(whole);
        }
        let mut inside = 0;
        for (repeat, part) in &self.parts {
            let all = part.size * *repeat as usize;
            if rest < all {
                return part.elements(rest).map(|elements| whole + inside + elements);
            }
            rest -= all;
            inside += repeat * part.basic;
            if rest == 0 {
                return Some(whole + inside);
            }
        }
        None
    }
}

/// Collects pieces and bounds.
struct Builder {
    pieces: Vec<Piece>,
    size: usize,
    basic: u64,
    align: i64,
    bounds: Option<(i64, i64)>,
    set_bounds: Option<(i64, i64)>,
    true_bounds: Option<(i64, i64)>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            pieces: Vec::new(),
            size: 0,
            basic: 0,
            align: 1,
            bounds: None,
            set_bounds: None,
            true_bounds: None,
        }
    }
}

fn widen(bounds: &mut Option<(i64, i64)>, low: i64, high: i64) {
    let (a, b) = bounds.unwrap_or((low, high));
    *bounds = Some((a.min(low), b.max(high)));
}

impl Builder {
    fn add(&mut self, entry: &Entry) -> Result<()> {
        let Entry { at, repeat, ty } = entry;
        if *repeat == 0 {
            return Ok(());
        }
        self.size += ty.bytes(*repeat as usize)?;
        self.basic += ty.basic * *repeat as u64;
        self.align = self.align.max(ty.align);
        let last = at + (repeat - 1) * ty.extent;
        let (first, last) = (*at.min(&last), *at.max(&last));
        let bounds = if ty.bounds_set { &mut self.set_bounds } else { &mut self.bounds };
        widen(bounds, first + ty.lb, last + ty.lb + ty.extent);
        if ty.size > 0 {
            widen(&mut self.true_bounds, first + ty.true_lb, last + ty.true_ub);
            self.add_pieces(entry)?;
        }
        Ok(())
    }

    fn add_pieces(&mut self, entry: &Entry) -> Result<()> {
        if let Some((offset, bytes)) = entry.ty.flat(entry.repeat as usize) {
            return self.push(Piece { at: entry.at + offset as i64, len: bytes });
        }
        for element in 0..entry.repeat {
            for piece in &entry.ty.pieces {
                self.push(Piece { at: entry.at + element * entry.ty.extent + piece.at, len: piece.len })?;
            }
        }
        Ok(())
    }

    fn push(&mut self, piece: Piece) -> Result<()> {
        if let Some(last) = self.pieces.last_mut().filter(|last| last.at + last.len as i64 == piece.at) {
            last.len += piece.len;
            return Ok(());
        }
        if self.pieces.len() == PIECES_MAX {
            return fail(ErrorClass::NoMem, format!("a datatype of more than {PIECES_MAX} pieces"));
        }
        self.pieces.push(piece);
        Ok(())
    }

    fn finish(self, entries: &[Entry], origin: Origin) -> Datatype {
        let (lb, mut ub) = self.set_bounds.or(self.bounds).unwrap_or((0, 0));
        if self.set_bounds.is_none() && origin.combiner == Combiner::Struct {
            // The extent of a structure is rounded up to its alignment (MPI-5 5.1).
            ub = lb + (ub - lb + self.align - 1) / self.align * self.align;
        }
        let (true_lb, true_ub) = self.true_bounds.unwrap_or((0, 0));
        Datatype {
            size: self.size,
            extent: ub - lb,
            first: self.pieces.first().map_or(0, |piece| piece.at),
            dense: is_dense(&self.pieces, self.size, ub - lb),
            committed: Cell::new(false),
            lb,
            true_lb,
            true_ub,
            bounds_set: self.set_bounds.is_some(),
            align: self.align,
            pieces: self.pieces.into(),
            basic: self.basic,
            parts: entries.iter().map(|e| (e.repeat as u64, e.ty.clone())).collect(),
            scalar: None,
            named: None,
            origin,
        }
    }
}

fn is_dense(pieces: &[Piece], size: usize, extent: i64) -> bool {
    size == 0 || (pieces.len() == 1 && size as i64 == extent)
}

fn alignment(scalar: Scalar) -> i64 {
    use Scalar::*;
    match scalar {
        I8 | U8 => 1,
        I16 | U16 | F16 | C16 => 2,
        I32 | U32 | F32 | C32 | PairF32I32 | PairI32I32 | PairI16I32 | PairF32F32 => 4,
        I64 | U64 | F64 | C64 | PairF64I32 | PairI64I32 | PairF64F64 => 8,
        I128 | F80 | F128 | C80 | C128 | PairF80I32 => 16,
    }
}
