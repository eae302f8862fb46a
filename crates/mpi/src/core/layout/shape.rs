//! The shape of a datatype: where its bytes stand, as loops over runs of bytes. Pure.
//!
//! A shape is as large as its description: a vector of a billion blocks is one loop. It is brought to a normal form
//! when it is built: runs that touch are one run, a loop whose turns touch is one longer loop, a list with a
//! constant distance is a loop. The order of bytes is that of the type map and never changes.
//!
//! Loops at least double the bytes, so they nest at most 63 deep. Sequences nest as deep as the program likes:
//! nothing here or in [`super::walk`] recurses over them, and dropping does not either.
use crate::buffer::Run;
use crate::error::{ErrorClass, Result, fail_with};
use std::rc::Rc;

/// The runs of a part are taken over into a list of runs if they are no more than this: longer ones are shared.
const SPLICED_MAX: usize = 16;

/// Blocks of one length to this many bytes stay a list of equal blocks, although some touch, unless that makes them
/// [`JOINED_MIN`] times as few: equal blocks are copied without looking at lengths.
const EQUAL_BYTES_MAX: u64 = 32;
const JOINED_MIN: usize = 4;

/// A form at a distance from the element's address.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) at: i64,
    pub(super) form: Form,
}

/// What the bytes of a datatype, or of a part of it, look like; the first byte is at 0.
#[derive(Clone)]
pub(super) enum Form {
    /// So many bytes in a row.
    Bytes(u64),
    /// Anything else.
    Node(Rc<Node>),
}

/// A form of several runs.
pub(super) struct Node {
    /// Bytes of data.
    pub(super) bytes: u64,
    pub(super) shape: Shape,
}

/// How a [`Node`] is made of simpler forms.
pub(super) enum Shape {
    /// The same form again and again, at a constant distance.
    Strided { count: u64, stride: i64, inner: Form },
    /// The same form at given places.
    Listed { places: Box<[i64]>, inner: Form },
    /// Bytes in a row, of various lengths. The last entry is the end.
    Runs(Box<[Run]>),
    /// Different forms.
    Sequence(Box<[Part]>),
}

/// One form of a sequence.
pub(super) struct Part {
    pub(super) at: i64,
    /// Bytes of the parts before it.
    pub(super) start: u64,
    pub(super) form: Form,
}

impl Form {
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Form::Bytes(bytes) => *bytes,
            Form::Node(node) => node.bytes,
        }
    }

    fn of(bytes: u64, shape: Shape) -> Form {
        Form::Node(Rc::new(Node { bytes, shape }))
    }

    fn same(&self, other: &Form) -> bool {
        match (self, other) {
            (Form::Bytes(a), Form::Bytes(b)) => a == b,
            (Form::Node(a), Form::Node(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Placed {
    /// No bytes.
    pub(super) const EMPTY: Placed = Placed { at: 0, form: Form::Bytes(0) };

    /// The same, further on.
    pub(super) fn shifted(&self, distance: i64) -> Result<Placed> {
        Ok(Placed { at: sum(self.at, distance)?, form: self.form.clone() })
    }

    /// `count` times the same, each `stride` after the one before.
    pub(super) fn repeated(&self, count: u64, stride: i64) -> Result<Placed> {
        let bytes = self.form.bytes();
        if count == 0 || bytes == 0 {
            return Ok(Placed::EMPTY);
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let total = times(bytes, count)?;
        let form = match &self.form {
            Form::Bytes(len) if stride == *len as i64 => Form::Bytes(total),
            Form::Node(node) => match &node.shape {
                Shape::Strided { count: inside, stride: step, inner }
                    if step.checked_mul(*inside as i64) == Some(stride) =>
                {
                    let shape =
                        Shape::Strided { count: times(*inside, count)?, stride: *step, inner: inner.clone() };
                    Form::of(total, shape)
                }
                _ => Form::of(total, Shape::Strided { count, stride, inner: self.form.clone() }),
            },
            Form::Bytes(_) => Form::of(total, Shape::Strided { count, stride, inner: self.form.clone() }),
        };
        Ok(Placed { at: self.at, form })
    }

    /// One after the other, in this order.
    pub(super) fn sequence(mut pieces: Vec<Placed>) -> Result<Placed> {
        if pieces.iter().any(|piece| short_runs(piece).is_some()) {
            pieces = spliced(&pieces)?;
        }
        let joined = pieces.windows(2).filter(|pair| touch(&pair[0], &pair[1]).is_some()).count();
        let left = pieces.len() - joined;
        if left > 1 && left * JOINED_MIN > pieces.len() && are_small_equals(&pieces) {
            return equals(&pieces);
        }
        if joined > 0 {
            pieces.dedup_by(|next, piece| touch(piece, next).map(|form| piece.form = form).is_some());
        }
        let Some(first) = pieces.first() else { return Ok(Placed::EMPTY) };
        if pieces.len() == 1 {
            return Ok(first.clone());
        }
        if pieces.iter().all(|piece| piece.form.same(&first.form)) {
            return equals(&pieces);
        }
        let at = first.at;
        // The distances are inside the true extent, which has been checked.
        if pieces.iter().all(|piece| matches!(piece.form, Form::Bytes(_))) {
            return Ok(Placed { at, form: runs(&pieces, at) });
        }
        let mut start = 0;
        let parts = pieces.into_iter().map(|piece| {
            let part = Part { at: piece.at.wrapping_sub(at), start, form: piece.form };
            start += part.form.bytes();
            part
        });
        let parts: Box<[Part]> = parts.collect();
        Ok(Placed { at, form: Form::of(start, Shape::Sequence(parts)) })
    }
}

/// What a look at a list of blocks of bytes tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survey {
    /// Blocks.
    count: usize,
    /// Those that begin where the one before ends.
    joined: usize,
    first: (i64, u64),
    /// Are all of one length?
    equal: bool,
    /// The distance of all from the one before, if it is constant.
    stride: Option<i64>,
    /// Bytes of all.
    pub(super) bytes: u64,
    /// Where the first byte of all is, and the end of the last.
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Survey {
    /// Looks at blocks (place and length, none empty). `None`: there are none, or numbers are too large.
    pub(super) fn of(mut blocks: impl Iterator<Item = Option<(i64, u64)>>) -> Option<Survey> {
        let first = blocks.next()??;
        let (mut at, mut end) = (first.0, first.0.checked_add_unsigned(first.1)?);
        let mut seen = Survey {
            count: 1,
            joined: 0,
            first,
            equal: true,
            stride: None,
            bytes: first.1,
            low: at,
            high: end,
        };
        let mut even = true;
        for block in blocks {
            let (next, len) = block?;
            let distance = next.wrapping_sub(at);
            even &= *seen.stride.get_or_insert(distance) == distance;
            seen.joined += usize::from(next == end);
            seen.equal &= len == first.1;
            seen.count += 1;
            (at, end) = (next, next.checked_add_unsigned(len)?);
            seen.bytes = seen.bytes.checked_add(len)?;
            (seen.low, seen.high) = (seen.low.min(at), seen.high.max(end));
        }
        seen.stride = seen.stride.filter(|_| even);
        seen.high.checked_sub(seen.low)?;
        (seen.bytes <= i64::MAX as u64).then_some(seen)
    }
}

impl Placed {
    /// As [`Placed::sequence`] for blocks of bytes that have been looked at: there may be millions, so that no piece is
    /// made of each.
    pub(super) fn blocks(seen: &Survey, blocks: impl Iterator<Item = (i64, u64)>) -> Result<Placed> {
        let (at, len) = seen.first;
        let first = Placed { at, form: Form::Bytes(len) };
        if seen.count == 1 {
            return Ok(first);
        }
        let left = seen.count - seen.joined;
        let small = len <= EQUAL_BYTES_MAX && left > 1 && left * JOINED_MIN > seen.count;
        if seen.equal && (small || seen.joined == 0) {
            if let Some(stride) = seen.stride {
                return first.repeated(seen.count as u64, stride);
            }
            let mut places = Vec::with_capacity(seen.count);
            places.extend(blocks.map(|(place, _)| place.wrapping_sub(at)));
            let shape = Shape::Listed { places: places.into(), inner: Form::Bytes(len) };
            return Ok(Placed { at, form: Form::of(seen.bytes, shape) });
        }
        let mut list: Vec<Run> = Vec::with_capacity(left + 1);
        let (mut start, mut end) = (0, None);
        for (place, len) in blocks {
            if end != Some(place) {
                list.push(Run { at: place.wrapping_sub(at), start });
            }
            start += len;
            end = place.checked_add_unsigned(len);
        }
        list.push(Run { at: 0, start });
        let len_of = |pair: &[Run]| pair[1].start - pair[0].start;
        let joined_len = len_of(&list[..2]);
        if list.windows(2).all(|pair| len_of(pair) == joined_len) {
            let piece = |run: &Run| Placed { at: at.wrapping_add(run.at), form: Form::Bytes(joined_len) };
            let pieces: Vec<Placed> = list[..left].iter().map(piece).collect();
            return if left == 1 { Ok(pieces[0].clone()) } else { equals(&pieces) };
        }
        Ok(Placed { at, form: Form::of(start, Shape::Runs(list.into())) })
    }
}

/// Both as one, if they are bytes and the second begins where the first ends.
fn touch(piece: &Placed, next: &Placed) -> Option<Form> {
    match (&piece.form, &next.form) {
        (Form::Bytes(len), Form::Bytes(more)) if piece.at.checked_add_unsigned(*len) == Some(next.at) => {
            Some(Form::Bytes(len + more))
        }
        _ => None,
    }
}

/// A list of runs that is better taken over than shared.
fn short_runs(piece: &Placed) -> Option<&[Run]> {
    match &piece.form {
        Form::Node(node) => match &node.shape {
            Shape::Runs(runs) if runs.len() <= SPLICED_MAX => Some(runs),
            _ => None,
        },
        Form::Bytes(_) => None,
    }
}

/// The pieces, with the runs of short lists in their places.
fn spliced(pieces: &[Placed]) -> Result<Vec<Placed>> {
    let mut list = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let Some(runs) = short_runs(piece) else {
            list.push(piece.clone());
            continue;
        };
        for pair in runs.windows(2) {
            let form = Form::Bytes(pair[1].start - pair[0].start);
            list.push(Placed { at: sum(piece.at, pair[0].at)?, form });
        }
    }
    Ok(list)
}

fn are_small_equals(pieces: &[Placed]) -> bool {
    let same = |piece: &Placed| matches!(piece.form, Form::Bytes(len) if len <= EQUAL_BYTES_MAX);
    pieces.iter().all(|piece| same(piece) && piece.form.same(&pieces[0].form))
}

/// Several pieces of the same form: a loop if their distance is constant.
fn equals(pieces: &[Placed]) -> Result<Placed> {
    let (first, stride) = (&pieces[0], pieces[1].at.wrapping_sub(pieces[0].at));
    let even = pieces.windows(2).all(|pair| pair[1].at.wrapping_sub(pair[0].at) == stride);
    if even {
        return first.repeated(pieces.len() as u64, stride);
    }
    let places = pieces.iter().map(|piece| piece.at.wrapping_sub(first.at)).collect();
    let total = times(first.form.bytes(), pieces.len() as u64)?;
    Ok(Placed { at: first.at, form: Form::of(total, Shape::Listed { places, inner: first.form.clone() }) })
}

fn runs(pieces: &[Placed], at: i64) -> Form {
    let mut start = 0;
    let mut list: Vec<Run> = Vec::with_capacity(pieces.len() + 1);
    for piece in pieces {
        list.push(Run { at: piece.at.wrapping_sub(at), start });
        start += piece.form.bytes();
    }
    list.push(Run { at: 0, start });
    Form::of(start, Shape::Runs(list.into()))
}

impl Drop for Node {
    /// Without recursion: sequences may be nested a million deep.
    fn drop(&mut self) {
        let mut orphans = Vec::new();
        disown(self, &mut orphans);
        while let Some(mut node) = orphans.pop() {
            if let Some(node) = Rc::get_mut(&mut node) {
                disown(node, &mut orphans);
            }
        }
    }
}

/// Takes the nodes that `node` holds out of it.
fn disown(node: &mut Node, orphans: &mut Vec<Rc<Node>>) {
    let mut take = |form: &mut Form| {
        if let Form::Node(inner) = std::mem::replace(form, Form::Bytes(0)) {
            orphans.push(inner);
        }
    };
    match &mut node.shape {
        Shape::Strided { inner, .. } | Shape::Listed { inner, .. } => take(inner),
        Shape::Sequence(parts) => parts.iter_mut().for_each(|part| take(&mut part.form)),
        Shape::Runs(_) => {}
    }
}

/// A sum of displacements.
#[inline]
pub(super) fn sum(a: i64, b: i64) -> Result<i64> {
    match a.checked_add(b) {
        Some(sum) => Ok(sum),
        None => fail_with(ErrorClass::Arg, || format!("a displacement of {a} + {b} bytes")),
    }
}

/// A product of a count and a distance.
#[inline]
pub(in super::super) fn product(count: i64, distance: i64) -> Result<i64> {
    match count.checked_mul(distance) {
        Some(product) => Ok(product),
        None => fail_with(ErrorClass::Arg, || format!("a displacement of {count} times {distance} bytes")),
    }
}

/// A number of bytes or elements, less than 2^63.
#[inline]
pub(super) fn times(a: u64, b: u64) -> Result<u64> {
    match a.checked_mul(b).filter(|product| *product <= i64::MAX as u64) {
        Some(product) => Ok(product),
        None => fail_with(ErrorClass::Arg, || format!("a datatype of {a} times {b} bytes")),
    }
}
