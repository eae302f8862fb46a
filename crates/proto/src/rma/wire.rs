//! What processes say to each other about windows, where the memory of one cannot be reached by the other: messages of one or
//! more items, which the target does in order, and answers.
use super::lock::Want;
use crate::wire::{self as fields, Writer as Fields};
use alloc::vec::Vec;

/// The handler of these messages.
pub const HANDLER: u32 = 1;

/// What a message is, and which window and rank it comes from: its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The number of the window's communicator.
    pub window: u32,
    /// The rank of its sender there.
    pub rank: u32,
    /// What it is.
    pub kind: Kind,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The target exposes its memory to this process.
    Post = 1,
    /// This process's access is over, and everything it did is done. May bring items.
    Complete = 2,
    /// Items.
    Work = 3,
    /// Answers to items.
    Answers = 4,
    /// A lock may be free now.
    Nudge = 5,
    /// To a data server: it is to map the memory of a window ([`super::server`]).
    Register = 6,
    /// From a data server: whether it has.
    Registered = 7,
    /// To a data server: the window is gone.
    Forget = 8,
}

const RANK_BITS: u32 = 24;

impl Subject {
    /// As a word.
    pub fn encode(self) -> u64 {
        u64::from(self.window) | u64::from(self.rank) << 32 | (self.kind as u64) << (32 + RANK_BITS)
    }

    /// From a word; `None` if it is none.
    pub fn decode(word: u64) -> Option<Subject> {
        let kind = match (word >> (32 + RANK_BITS)) as u8 {
            1 => Kind::Post,
            2 => Kind::Complete,
            3 => Kind::Work,
            4 => Kind::Answers,
            5 => Kind::Nudge,
            6 => Kind::Register,
            7 => Kind::Registered,
            8 => Kind::Forget,
            _ => return None,
        };
        let rank = (word >> 32) as u32 & ((1 << RANK_BITS) - 1);
        Some(Subject { window: word as u32, rank, kind })
    }
}

/// Of a grid in a message.
const GRID_BYTES: usize = 6 * size_of::<u64>();

/// No answer is wanted.
pub const NO_ANSWER: u32 = u32::MAX;

/// How elements are combined, in numbers that the processes agree on: an operation, and a predefined datatype that says how
/// they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// The operation.
    pub op: u32,
    /// The datatype.
    pub ty: u32,
}

/// Blocks of `len` bytes in two loops: `rows` rows, each of `count` blocks. Distances are from a buffer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Grid {
    pub at: i64,
    pub len: u64,
    pub count: u64,
    pub stride: i64,
    pub rows: u64,
    pub row_stride: i64,
}

impl Grid {
    /// One row.
    #[inline]
    pub const fn row(at: i64, len: u64, count: u64, stride: i64) -> Self {
        Grid { at, len, count, stride, rows: 1, row_stride: 0 }
    }

    /// Bytes of all blocks.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.len * self.count * self.rows
    }

    /// Where its blocks are, in order.
    #[inline]
    pub fn places(self) -> impl Iterator<Item = i64> {
        let of_row = move |row: u64| {
            let start = self.at.wrapping_add((row as i64).wrapping_mul(self.row_stride));
            (0..self.count).map(move |block| start.wrapping_add((block as i64).wrapping_mul(self.stride)))
        };
        (0..self.rows).flat_map(of_row)
    }
}

/// Where bytes are in a target's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many in a row.
    Row(u64),
    /// In blocks.
    Blocks(Vec<Grid>),
}

impl Shape {
    /// Bytes, without gaps.
    pub fn bytes(&self) -> u64 {
        match self {
            Shape::Row(bytes) => *bytes,
            Shape::Blocks(grids) => grids.iter().map(Grid::bytes).sum(),
        }
    }

    fn emit(&self, at: i64, to: &mut Fields<'_>) {
        to.u64(at as u64);
        match self {
            Shape::Row(bytes) => {
                to.u32(0).u64(*bytes);
            }
            Shape::Blocks(grids) => {
                // Those without bytes are nothing to whoever reads this, and refused.
                let grids = || grids.iter().filter(|grid| grid.bytes() > 0);
                to.u32(grids().count() as u32);
                if grids().next().is_none() {
                    to.u64(0);
                }
                for grid in grids() {
                    let Grid { at, len, count, stride, rows, row_stride } = *grid;
                    for word in [at as u64, len, count, stride as u64, rows, row_stride as u64] {
                        to.u64(word);
                    }
                }
            }
        }
    }

    fn parse(from: &mut fields::Reader<'_>) -> Option<(i64, Self)> {
        let at = from.u64()? as i64;
        let count = from.u32()? as usize;
        if count == 0 {
            return Some((at, Shape::Row(from.u64()?)));
        }
        // As many as there are bytes for.
        if from.left() / GRID_BYTES < count {
            return None;
        }
        let mut grids = Vec::with_capacity(count);
        let mut total = 0_u64;
        for _ in 0..count {
            let grid = Grid {
                at: from.u64()? as i64,
                len: from.u64()?,
                count: from.u64()?,
                stride: from.u64()? as i64,
                rows: from.u64()?,
                row_stride: from.u64()? as i64,
            };
            let bytes = grid.len.checked_mul(grid.count)?.checked_mul(grid.rows)?;
            // As many blocks as bytes, then: whoever visits them comes to an end.
            if bytes == 0 {
                return None;
            }
            total = total.checked_add(bytes)?;
            grids.push(grid);
        }
        Some((at, Shape::Blocks(grids)))
    }
}

/// Something that a target is asked to do.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Item<'a> {
    Put {
        at: i64,
        shape: Shape,
        data: &'a [u8],
    },
    Get {
        id: u32,
        at: i64,
        shape: Shape,
    },
    /// `data` is empty where nothing is combined.
    Update {
        id: u32,
        how: How,
        at: i64,
        shape: Shape,
        data: &'a [u8],
    },
    /// `expected` and `new` are as long.
    Swap {
        id: u32,
        ty: u32,
        at: i64,
        expected: &'a [u8],
        new: &'a [u8],
    },
    Lock {
        want: Want,
    },
    Unlock {
        id: u32,
    },
    /// Is everything before it done?
    Flush {
        id: u32,
    },
    /// Where is the window's memory, for who can reach it directly?
    Ask {
        id: u32,
    },
    /// To a data server: a rank of the window tells the target that its memory is exposed, or that its access is over.
    Tell {
        kind: Kind,
        rank: u32,
    },
}

/// What a target says to it.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reply<'a> {
    Data {
        id: u32,
        data: &'a [u8],
    },
    Done {
        id: u32,
    },
    Place {
        id: u32,
        words: Option<[u64; 2]>,
    },
    /// It is not in the window.
    Outside {
        id: u32,
    },
    /// The last so many bytes of a message are no items: nothing of them was done.
    Unread {
        bytes: u64,
    },
}

/// Writes a message.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Has nothing been written?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn head(&mut self, kind: u8, id: u32) -> Fields<'_> {
        let mut to = Fields(&mut self.0);
        to.u8(kind).u32(id);
        to
    }

    /// The beginning of a put; its bytes follow.
    pub fn put(&mut self, at: i64, shape: &Shape) {
        shape.emit(at, &mut self.head(1, NO_ANSWER));
    }

    /// A get.
    pub fn get(&mut self, id: u32, at: i64, shape: &Shape) {
        shape.emit(at, &mut self.head(2, id));
    }

    /// The beginning of an update; its bytes follow.
    pub fn update(&mut self, id: u32, how: How, at: i64, shape: &Shape) {
        shape.emit(at, self.head(3, id).u32(how.op).u32(how.ty));
    }

    /// The beginning of a conditional swap of elements of so many bytes; what is expected and what is new follow.
    pub fn swap(&mut self, id: u32, ty: u32, bytes: u32, at: i64) {
        self.head(4, id).u32(bytes).u32(ty).u64(at as u64);
    }

    /// Asks for the lock.
    pub fn lock(&mut self, want: Want) {
        self.head(5, want as u32);
    }

    /// Gives it back.
    pub fn unlock(&mut self, id: u32) {
        self.head(6, id);
    }

    /// Asks whether everything before it is done.
    pub fn flush(&mut self, id: u32) {
        self.head(7, id);
    }

    /// Asks where the window's memory is.
    pub fn ask(&mut self, id: u32) {
        self.head(8, id);
    }

    /// Has a data server pass on that memory is exposed (`Post`), or that everything before this is done (`Complete`): the
    /// word of a rank of the window.
    pub fn tell(&mut self, kind: Kind, rank: u32) {
        self.head(if kind == Kind::Post { 10 } else { 11 }, rank);
    }

    /// An update that combines nothing: it gives what is there.
    pub fn load(&mut self, id: u32, how: How, at: i64, shape: &Shape) {
        shape.emit(at, self.head(9, id).u32(how.op).u32(how.ty));
    }

    /// The beginning of an answer with so many bytes, which follow.
    pub fn data(&mut self, id: u32, bytes: usize) {
        self.head(16, id).u64(bytes as u64);
    }

    /// It is done.
    pub fn done(&mut self, id: u32) {
        self.head(17, id);
    }

    /// Where the memory is, if it can be reached.
    pub fn place(&mut self, id: u32, words: Option<[u64; 2]>) {
        let [first, second] = words.unwrap_or_default();
        self.head(18, id).u32(words.is_some().into()).u64(first).u64(second);
    }

    /// It is not in the window.
    pub fn outside(&mut self, id: u32) {
        self.head(19, id);
    }

    /// The last so many bytes of a message make no sense.
    pub fn unread(&mut self, bytes: usize) {
        self.head(20, NO_ANSWER).u64(bytes as u64);
    }
}

/// Reads a message, of which nothing is taken for granted.
#[derive(Clone, Debug)]
pub struct Reader<'a>(fields::Reader<'a>);

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(fields::Reader::new(bytes))
    }

    /// Has everything been read?
    pub fn is_empty(&self) -> bool {
        self.0.is_at_end()
    }

    /// Bytes that have not been read.
    pub fn left(&self) -> usize {
        self.0.left()
    }

    fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        self.0.take(usize::try_from(count).ok()?)
    }

    fn how(&mut self) -> Option<How> {
        Some(How { op: self.0.u32()?, ty: self.0.u32()? })
    }

    /// The next item; `None` if it is none.
    pub fn item(&mut self) -> Option<Item<'a>> {
        let (kind, id) = (self.0.u8()?, self.0.u32()?);
        Some(match kind {
            1 => {
                let (at, shape) = Shape::parse(&mut self.0)?;
                let data = self.bytes(shape.bytes())?;
                Item::Put { at, shape, data }
            }
            2 => {
                let (at, shape) = Shape::parse(&mut self.0)?;
                Item::Get { id, at, shape }
            }
            3 | 9 => {
                let how = self.how()?;
                let (at, shape) = Shape::parse(&mut self.0)?;
                let data = self.bytes(if kind == 3 { shape.bytes() } else { 0 })?;
                Item::Update { id, how, at, shape, data }
            }
            4 => {
                let (bytes, ty) = (self.0.u32()?, self.0.u32()?);
                let at = self.0.u64()? as i64;
                let (expected, new) = (self.bytes(bytes.into())?, self.bytes(bytes.into())?);
                Item::Swap { id, ty, at, expected, new }
            }
            5 => Item::Lock { want: Want::from_number(id)? },
            6 => Item::Unlock { id },
            7 => Item::Flush { id },
            8 => Item::Ask { id },
            // No rank is larger, and what passes it on puts it beside a kind.
            10 | 11 if id >> RANK_BITS != 0 => return None,
            10 => Item::Tell { kind: Kind::Post, rank: id },
            11 => Item::Tell { kind: Kind::Complete, rank: id },
            _ => return None,
        })
    }

    /// The next answer; `None` if it is none.
    pub fn reply(&mut self) -> Option<Reply<'a>> {
        let (kind, id) = (self.0.u8()?, self.0.u32()?);
        Some(match kind {
            16 => {
                let bytes = self.0.u64()?;
                Reply::Data { id, data: self.bytes(bytes)? }
            }
            17 => Reply::Done { id },
            18 => {
                let known = self.0.u32()? != 0;
                let words = [self.0.u64()?, self.0.u64()?];
                Reply::Place { id, words: known.then_some(words) }
            }
            19 => Reply::Outside { id },
            20 => Reply::Unread { bytes: self.0.u64()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn subjects_survive_the_wire() {
        let answers = [Kind::Answers, Kind::Nudge, Kind::Register, Kind::Registered, Kind::Forget];
        for kind in [Kind::Post, Kind::Complete, Kind::Work].into_iter().chain(answers) {
            let subject = Subject { window: u32::MAX - 5, rank: (1 << RANK_BITS) - 1, kind };
            assert_eq!(Subject::decode(subject.encode()), Some(subject));
        }
        assert_eq!(Subject::decode(0), None);
    }

    #[test]
    fn items_and_answers_survive_the_wire_and_what_is_cut_off_is_found_out() {
        let how = How { op: 2, ty: 9 };
        let blocks = Shape::Blocks(vec![Grid::row(-8, 8, 2, 32), Grid::row(64, 1, 1, 0)]);
        let mut message = Writer::default();
        message.lock(Want::SharedNow);
        message.put(-3, &Shape::Row(2));
        message.0.extend_from_slice(&[7, 8]);
        message.get(1, 4, &blocks);
        message.update(2, how, 0, &Shape::Row(8));
        message.0.extend_from_slice(&[1; 8]);
        message.swap(3, 9, 8, 16);
        message.0.extend_from_slice(&[2; 16]);
        message.flush(4);
        message.unlock(5);
        message.ask(6);
        message.load(7, how, 24, &Shape::Row(8));
        message.tell(Kind::Post, 8);
        message.tell(Kind::Complete, 9);
        let mut reader = Reader::new(&message.0);
        let mut items = Vec::new();
        while !reader.is_empty() {
            items.push(reader.item().expect("an item"));
        }
        assert_eq!(
            items,
            [
                Item::Lock { want: Want::SharedNow },
                Item::Put { at: -3, shape: Shape::Row(2), data: &[7, 8] },
                Item::Get { id: 1, at: 4, shape: blocks },
                Item::Update { id: 2, how, at: 0, shape: Shape::Row(8), data: &[1; 8] },
                Item::Swap { id: 3, ty: 9, at: 16, expected: &[2; 8], new: &[2; 8] },
                Item::Flush { id: 4 },
                Item::Unlock { id: 5 },
                Item::Ask { id: 6 },
                Item::Update { id: 7, how, at: 24, shape: Shape::Row(8), data: &[] },
                Item::Tell { kind: Kind::Post, rank: 8 },
                Item::Tell { kind: Kind::Complete, rank: 9 },
            ]
        );
        // Wherever it is cut, it ends in nothing, and never in a panic.
        for len in 0..message.0.len() {
            let mut reader = Reader::new(&message.0[..len]);
            while reader.item().is_some() {}
        }
        let mut answers = Writer::default();
        answers.data(1, 3);
        answers.0.extend_from_slice(&[9; 3]);
        answers.done(2);
        answers.place(3, Some([4, 5]));
        answers.place(3, None);
        answers.outside(6);
        answers.unread(7);
        let mut reader = Reader::new(&answers.0);
        let mut replies = Vec::new();
        while let Some(reply) = reader.reply() {
            replies.push(reply);
        }
        assert_eq!(
            replies,
            [
                Reply::Data { id: 1, data: &[9; 3] },
                Reply::Done { id: 2 },
                Reply::Place { id: 3, words: Some([4, 5]) },
                Reply::Place { id: 3, words: None },
                Reply::Outside { id: 6 },
                Reply::Unread { bytes: 7 },
            ]
        );
    }

    #[test]
    fn blocks_without_bytes_are_refused_however_many_there_are() {
        let (none, many) = (Grid::row(0, 0, u64::MAX, 1), Grid { rows: 1 << 40, ..Grid::row(0, 1, 1, 0) });
        let rest = Grid::row(8, 4, 2, 8);
        let parse = |words: &[u64]| {
            let mut bytes = Vec::new();
            let mut to = Fields(&mut bytes);
            to.u64(0).u32(words.len() as u32 / 6);
            for word in words {
                to.u64(*word);
            }
            Shape::parse(&mut fields::Reader::new(&bytes)).map(|(_, shape)| shape)
        };
        let words = |grid: Grid| {
            let Grid { at, len, count, stride, rows, row_stride } = grid;
            [at as u64, len, count, stride as u64, rows, row_stride as u64]
        };
        assert_eq!(parse(&words(rest)), Some(Shape::Blocks(vec![rest])));
        for empty in [none, Grid { len: 0, ..many }, Grid { count: 0, ..many }, Grid { rows: 0, ..rest }] {
            assert_eq!(parse(&words(empty)), None, "{empty:?}");
            assert_eq!(parse(&[words(rest), words(empty)].concat()), None, "{empty:?}");
        }
        // Who has such blocks leaves them out, and says so if nothing remains.
        let emitted = |grids: Vec<Grid>| {
            let mut bytes = Vec::new();
            Shape::Blocks(grids).emit(3, &mut Fields(&mut bytes));
            Shape::parse(&mut fields::Reader::new(&bytes))
        };
        assert_eq!(emitted(vec![none, rest, none]), Some((3, Shape::Blocks(vec![rest]))));
        assert_eq!(emitted(vec![none]), Some((3, Shape::Row(0))));
    }

    #[test]
    fn words_of_ranks_that_cannot_be_are_no_items() {
        for (rank, is_one) in [((1 << RANK_BITS) - 1, true), (1 << RANK_BITS, false), (u32::MAX, false)] {
            for kind in [Kind::Post, Kind::Complete] {
                let mut message = Writer::default();
                message.tell(kind, rank);
                let item = Reader::new(&message.0).item();
                assert_eq!(item, is_one.then_some(Item::Tell { kind, rank }));
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_a_panic(
            kind in 0_u8..24,
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let message = [&[kind][..], &bytes].concat();
            let mut reader = Reader::new(&message);
            while reader.item().is_some() {}
            let mut reader = Reader::new(&message);
            while reader.reply().is_some() {}
        }
    }
}
