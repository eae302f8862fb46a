//! Going through the bytes of a datatype in order, from any byte to any other.
//!
//! A position is a number of bytes: it is found by division and by bisection, so packing may be cut into fragments
//! at any place at no cost worth mentioning. What is whole is handed to the [`Sink`] in units as large as its loops
//! allow; only the ends of a fragment are taken apart.
use super::shape::{Form, Part, Placed, Shape};
use crate::buffer::{Grid, Run};
use std::ops::Range;

/// Takes runs of bytes, in the order of the type map. Addresses are distances from the buffer's address.
pub(super) trait Sink {
    /// Blocks of one length in two loops.
    fn grid(&mut self, grid: Grid);
    /// `len` bytes at `at` + each of `places`.
    fn listed(&mut self, at: i64, places: &[i64], len: u64);
    /// Bytes in a row at `at` + each place; the last entry is the end.
    fn runs(&mut self, at: i64, runs: &[Run]);

    /// `len` bytes in a row.
    #[inline]
    fn bytes(&mut self, at: i64, len: u64) {
        self.grid(Grid::row(at, len, 1, 0));
    }
}

/// Elements of a datatype in a row.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a> {
    pub(super) of: &'a Placed,
    pub(super) count: u64,
    /// From one to the next.
    pub(super) extent: i64,
}

/// What is still to be done.
enum Frame<'a> {
    /// A part of the bytes of a form.
    Cut { form: &'a Form, at: i64, range: Range<u64> },
    /// Whole forms at a constant distance.
    Repeat { form: &'a Form, at: i64, stride: i64, left: u64 },
    /// Whole forms at given places.
    Places { form: &'a Form, at: i64, places: &'a [i64] },
    /// Whole parts of a sequence.
    Parts { at: i64, parts: &'a [Part] },
}

/// Gives the bytes of `range` (counted without gaps) to the sink.
pub(super) fn walk<S: Sink>(elements: Elements<'_>, range: Range<u64>, sink: &mut S) {
    if range.is_empty() {
        return;
    }
    let Elements { of: Placed { at, form }, count, extent } = elements;
    let whole = Frame::Repeat { form, at: *at, stride: extent, left: count };
    if range == (0..form.bytes() * count) {
        if !step_simple(&whole, sink) {
            Walk { frames: vec![whole], sink }.run();
        }
        return;
    }
    let mut walk = Walk { frames: Vec::with_capacity(8), sink };
    walk.cut_loop(form, *at, extent, range);
    walk.run();
}

struct Walk<'a, 's, S> {
    frames: Vec<Frame<'a>>,
    sink: &'s mut S,
}

impl<'a, S: Sink> Walk<'a, '_, S> {
    fn run(&mut self) {
        while let Some(frame) = self.frames.pop() {
            if step_simple(&frame, self.sink) {
                continue;
            }
            match frame {
                Frame::Cut { form, at, range } => self.cut(form, at, range),
                Frame::Repeat { form, at, stride, left } => {
                    if left > 1 {
                        let at = at.wrapping_add(stride);
                        self.frames.push(Frame::Repeat { form, at, stride, left: left - 1 });
                    }
                    self.whole(form, at);
                }
                Frame::Places { form, at, places } => {
                    if let Some((place, rest)) = places.split_first() {
                        self.frames.push(Frame::Places { form, at, places: rest });
                        self.whole(form, at.wrapping_add(*place));
                    }
                }
                Frame::Parts { at, parts } => self.parts(at, parts),
            }
        }
    }

    /// All of a form.
    fn whole(&mut self, form: &'a Form, at: i64) {
        if simple(form, at, self.sink) {
            return;
        }
        let Form::Node(node) = form else { return };
        match &node.shape {
            Shape::Strided { count, stride, inner } => {
                self.frames.push(Frame::Repeat { form: inner, at, stride: *stride, left: *count });
            }
            Shape::Listed { places, inner } => self.frames.push(Frame::Places { form: inner, at, places }),
            Shape::Sequence(parts) => self.frames.push(Frame::Parts { at, parts }),
            Shape::Runs(runs) => self.sink.runs(at, runs),
        }
    }

    fn parts(&mut self, at: i64, parts: &'a [Part]) {
        for (index, part) in parts.iter().enumerate() {
            let place = at.wrapping_add(part.at);
            if !simple(&part.form, place, self.sink) {
                self.frames.push(Frame::Parts { at, parts: &parts[index + 1..] });
                return self.whole(&part.form, place);
            }
        }
    }

    /// Some of the bytes of a form: what is whole stays together.
    fn cut(&mut self, form: &'a Form, at: i64, range: Range<u64>) {
        if range == (0..form.bytes()) {
            return self.whole(form, at);
        }
        let node = match form {
            Form::Bytes(_) => {
                return self.sink.bytes(at.wrapping_add_unsigned(range.start), range.end - range.start);
            }
            Form::Node(node) => node,
        };
        match &node.shape {
            Shape::Strided { stride, inner, .. } => self.cut_loop(inner, at, *stride, range),
            Shape::Listed { places, inner } => self.cut_list(inner, at, places, range),
            Shape::Runs(runs) => self.cut_runs(at, runs, range),
            Shape::Sequence(parts) => self.cut_parts(at, parts, range),
        }
    }

    fn cut_loop(&mut self, form: &'a Form, at: i64, stride: i64, range: Range<u64>) {
        let place = |index: u64| at.wrapping_add(stride.wrapping_mul(index as i64));
        let cut = Cut::new(range, form.bytes());
        self.push_cut(form, place(cut.whole.end), cut.tail);
        if !cut.whole.is_empty() {
            let (at, left) = (place(cut.whole.start), cut.whole.end - cut.whole.start);
            self.frames.push(Frame::Repeat { form, at, stride, left });
        }
        self.push_cut(form, place(cut.head_index), cut.head);
    }

    fn cut_list(&mut self, form: &'a Form, at: i64, places: &'a [i64], range: Range<u64>) {
        let place = |index: u64| places.get(index as usize).map_or(at, |place| at.wrapping_add(*place));
        let cut = Cut::new(range, form.bytes());
        self.push_cut(form, place(cut.whole.end), cut.tail);
        if !cut.whole.is_empty() {
            let places = &places[cut.whole.start as usize..cut.whole.end as usize];
            self.frames.push(Frame::Places { form, at, places });
        }
        self.push_cut(form, place(cut.head_index), cut.head);
    }

    fn push_cut(&mut self, form: &'a Form, at: i64, range: Range<u64>) {
        if !range.is_empty() {
            self.frames.push(Frame::Cut { form, at, range });
        }
    }

    fn cut_runs(&mut self, at: i64, runs: &[Run], range: Range<u64>) {
        let mut index = runs.partition_point(|run| run.start <= range.start) - 1;
        let mut position = range.start;
        if runs[index].start < position {
            // What is left of the first run.
            let inside = position - runs[index].start;
            let end = runs[index + 1].start.min(range.end);
            self.sink.bytes(at.wrapping_add(runs[index].at).wrapping_add_unsigned(inside), end - position);
            position = end;
            index += 1;
        }
        if position == range.end {
            return;
        }
        let last = index + runs[index..].partition_point(|run| run.start <= range.end) - 1;
        if last > index {
            self.sink.runs(at, &runs[index..=last]);
        }
        if runs[last].start < range.end {
            self.sink.bytes(at.wrapping_add(runs[last].at), range.end - runs[last].start);
        }
    }

    fn cut_parts(&mut self, at: i64, parts: &'a [Part], range: Range<u64>) {
        let first = parts.partition_point(|part| part.start <= range.start) - 1;
        let last = parts.partition_point(|part| part.start < range.end) - 1;
        let inside = |part: &Part| {
            let end = part.start + part.form.bytes();
            range.start.max(part.start) - part.start..range.end.min(end) - part.start
        };
        if last > first {
            let part = &parts[last];
            self.push_cut(&part.form, at.wrapping_add(part.at), inside(part));
            self.frames.push(Frame::Parts { at, parts: &parts[first + 1..last] });
        }
        let part = &parts[first];
        self.push_cut(&part.form, at.wrapping_add(part.at), inside(part));
    }
}

/// A range of bytes over equal parts: a rest of one part, whole parts, a beginning of another.
struct Cut {
    head_index: u64,
    head: Range<u64>,
    whole: Range<u64>,
    /// Of the part after the whole ones.
    tail: Range<u64>,
}

impl Cut {
    fn new(range: Range<u64>, each: u64) -> Cut {
        let (head_index, inside) = (range.start / each, range.start % each);
        if inside == 0 {
            let end = range.end / each;
            return Cut { head_index, head: 0..0, whole: head_index..end, tail: 0..range.end % each };
        }
        let next = (head_index + 1) * each;
        if range.end <= next {
            let head = inside..range.end - head_index * each;
            return Cut { head_index, head, whole: 0..0, tail: 0..0 };
        }
        let (from, to) = (head_index + 1, range.end / each);
        Cut { head_index, head: inside..each, whole: from..to, tail: 0..range.end % each }
    }
}

/// Does a frame at once if it consists of forms that need no stack.
#[inline]
fn step_simple<S: Sink>(frame: &Frame<'_>, sink: &mut S) -> bool {
    match *frame {
        Frame::Repeat { form, at, stride, left } => repeat_simple(form, at, stride, left, sink),
        Frame::Places { form, at, places } => match form {
            Form::Bytes(len) => {
                sink.listed(at, places, *len);
                true
            }
            Form::Node(_) if is_simple(form) => {
                places.iter().for_each(|place| {
                    simple(form, at.wrapping_add(*place), sink);
                });
                true
            }
            Form::Node(_) => false,
        },
        _ => false,
    }
}

#[inline]
fn repeat_simple<S: Sink>(form: &Form, at: i64, stride: i64, left: u64, sink: &mut S) -> bool {
    match form {
        Form::Bytes(len) => {
            sink.grid(Grid::row(at, *len, left, stride));
            return true;
        }
        Form::Node(node) => {
            if let Shape::Strided { count, stride: step, inner: Form::Bytes(len) } = &node.shape {
                let row = Grid::row(at, *len, *count, *step);
                sink.grid(Grid { rows: left, row_stride: stride, ..row });
                return true;
            }
        }
    }
    let all = is_simple(form);
    if all {
        for index in 0..left {
            simple(form, at.wrapping_add(stride.wrapping_mul(index as i64)), sink);
        }
    }
    all
}

/// Has [`simple`] an answer for it?
#[inline]
fn is_simple(form: &Form) -> bool {
    match form {
        Form::Bytes(_) => true,
        Form::Node(node) => match &node.shape {
            Shape::Strided { inner: Form::Bytes(_), .. } | Shape::Listed { inner: Form::Bytes(_), .. } => {
                true
            }
            Shape::Strided { inner: Form::Node(row), .. } => {
                matches!(&row.shape, Shape::Strided { inner: Form::Bytes(_), .. })
            }
            Shape::Runs(_) => true,
            _ => false,
        },
    }
}

/// Gives a whole form to the sink if one call is enough.
#[inline]
fn simple<S: Sink>(form: &Form, at: i64, sink: &mut S) -> bool {
    let node = match form {
        Form::Bytes(len) => {
            sink.bytes(at, *len);
            return true;
        }
        Form::Node(node) => node,
    };
    match &node.shape {
        Shape::Strided { count, stride, inner: Form::Bytes(len) } => {
            sink.grid(Grid::row(at, *len, *count, *stride));
        }
        Shape::Strided { count: rows, stride: row_stride, inner: Form::Node(row) } => {
            let Shape::Strided { count, stride, inner: Form::Bytes(len) } = &row.shape else { return false };
            let row = Grid::row(at, *len, *count, *stride);
            sink.grid(Grid { rows: *rows, row_stride: *row_stride, ..row });
        }
        Shape::Listed { places, inner: Form::Bytes(len) } => sink.listed(at, places, *len),
        Shape::Runs(runs) => sink.runs(at, runs),
        _ => return false,
    }
    true
}
