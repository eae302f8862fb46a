//! What processes say to each other about windows, where the memory of one cannot be reached by the other: messages of one or
//! more items, which the target does in order, and answers.
use crate::buffer::Grid;
use crate::core::predefined::{Meaning, Predefined, Scalar, TABLE};
use crate::core::{OpId, TypeId};

/// The handler of these messages.
pub(super) const HANDLER: u32 = 1;

/// What a message is, and which window and rank it comes from: its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The number of the window's communicator.
    pub(super) window: u32,
    /// The rank of its sender there.
    pub(super) rank: u32,
    pub(super) kind: Kind,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
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
}

const RANK_BITS: u32 = 24;

impl Subject {
    pub(super) fn encode(self) -> u64 {
        u64::from(self.window) | u64::from(self.rank) << 32 | (self.kind as u64) << (32 + RANK_BITS)
    }

    pub(super) fn decode(word: u64) -> Option<Subject> {
        let kind = match (word >> (32 + RANK_BITS)) as u8 {
            1 => Kind::Post,
            2 => Kind::Complete,
            3 => Kind::Work,
            4 => Kind::Answers,
            5 => Kind::Nudge,
            _ => return None,
        };
        let rank = (word >> 32) as u32 & ((1 << RANK_BITS) - 1);
        Some(Subject { window: word as u32, rank, kind })
    }
}

/// No answer is wanted.
pub(super) const NO_ANSWER: u32 = u32::MAX;

/// How elements are combined: an operation, and a predefined datatype that says how they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Combination {
    pub(super) op: OpId,
    pub(super) meaning: Meaning,
    pub(super) scalar: Scalar,
}

impl Combination {
    /// A predefined datatype whose elements mean the same and are stored the same way.
    fn number(self) -> u32 {
        let same = |ty: &u32| {
            let row = &TABLE[*ty as usize];
            (row.meaning, row.scalar) == (self.meaning, self.scalar)
        };
        (0..TypeId::PREDEFINED).find(same).expect("the engine has got it from there")
    }

    fn decode(op: u8, ty: u32) -> Option<Self> {
        let (op, ty) = (OpId(op.into()), TypeId(ty));
        if op.0 >= OpId::PREDEFINED || ty.0 >= TypeId::PREDEFINED {
            return None;
        }
        let Predefined { meaning, scalar, .. } = TABLE[ty.index()];
        // Markers have no bytes to combine.
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
}

/// Where bytes are in a target's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// So many in a row.
    Row(u64),
    Blocks(Vec<Grid>),
}

impl Shape {
    /// Bytes, without gaps.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Shape::Row(bytes) => *bytes,
            Shape::Blocks(grids) => grids.iter().map(Grid::bytes).sum(),
        }
    }
}

/// Something that a target is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
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
        how: Combination,
        at: i64,
        shape: Shape,
        data: &'a [u8],
    },
    Swap {
        id: u32,
        how: Combination,
        at: i64,
        expected: &'a [u8],
        new: &'a [u8],
    },
    Lock {
        exclusive: bool,
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
}

/// What a target says to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
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
}

/// Writes a message.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn head(&mut self, kind: u8, id: u32) -> &mut Self {
        self.0.push(kind);
        self.u32(id)
    }

    fn u32(&mut self, word: u32) -> &mut Self {
        self.0.extend_from_slice(&word.to_le_bytes());
        self
    }

    fn u64(&mut self, word: u64) -> &mut Self {
        self.0.extend_from_slice(&word.to_le_bytes());
        self
    }

    fn shape(&mut self, at: i64, shape: &Shape) -> &mut Self {
        self.u64(at as u64);
        match shape {
            Shape::Row(bytes) => self.u32(0).u64(*bytes),
            Shape::Blocks(grids) => {
                self.u32(grids.len() as u32);
                for grid in grids {
                    let Grid { at, len, count, stride, rows, row_stride } = *grid;
                    for word in [at as u64, len, count, stride as u64, rows, row_stride as u64] {
                        self.u64(word);
                    }
                }
                self
            }
        }
    }

    /// The beginning of a put; its bytes follow.
    pub(super) fn put(&mut self, at: i64, shape: &Shape) {
        self.head(1, NO_ANSWER).shape(at, shape);
    }

    pub(super) fn get(&mut self, id: u32, at: i64, shape: &Shape) {
        self.head(2, id).shape(at, shape);
    }

    /// The beginning of an update; its bytes follow, if it has any.
    pub(super) fn update(&mut self, id: u32, how: Combination, at: i64, shape: &Shape) {
        self.head(3, id).u32(how.op.0).u32(how.number()).shape(at, shape);
    }

    /// The beginning of a conditional swap; what is expected and what is new follow.
    pub(super) fn swap(&mut self, id: u32, how: Combination, at: i64) {
        self.head(4, id).u32(how.op.0).u32(how.number()).u64(at as u64);
    }

    pub(super) fn lock(&mut self, exclusive: bool) {
        self.head(5, exclusive.into());
    }

    pub(super) fn unlock(&mut self, id: u32) {
        self.head(6, id);
    }

    pub(super) fn flush(&mut self, id: u32) {
        self.head(7, id);
    }

    pub(super) fn ask(&mut self, id: u32) {
        self.head(8, id);
    }

    /// The beginning of an answer with so many bytes, which follow.
    pub(super) fn data(&mut self, id: u32, bytes: usize) {
        self.head(16, id).u64(bytes as u64);
    }

    pub(super) fn done(&mut self, id: u32) {
        self.head(17, id);
    }

    pub(super) fn place(&mut self, id: u32, words: Option<[u64; 2]>) {
        let [first, second] = words.unwrap_or_default();
        self.head(18, id).u32(words.is_some().into()).u64(first).u64(second);
    }

    pub(super) fn outside(&mut self, id: u32) {
        self.head(19, id);
    }
}

/// Reads a message, of which nothing is taken for granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn shape(&mut self) -> Option<(i64, Shape)> {
        let at = self.u64()? as i64;
        let count = self.u32()? as usize;
        if count == 0 {
            return Some((at, Shape::Row(self.u64()?)));
        }
        // As many as there are bytes for.
        if self.0.len() / 48 < count {
            return None;
        }
        let mut grids = Vec::with_capacity(count);
        let mut total = 0_u64;
        for _ in 0..count {
            let grid = Grid {
                at: self.u64()? as i64,
                len: self.u64()?,
                count: self.u64()?,
                stride: self.u64()? as i64,
                rows: self.u64()?,
                row_stride: self.u64()? as i64,
            };
            let bytes = grid.len.checked_mul(grid.count)?.checked_mul(grid.rows)?;
            total = total.checked_add(bytes)?;
            grids.push(grid);
        }
        Some((at, Shape::Blocks(grids)))
    }

    fn combination(&mut self) -> Option<Combination> {
        let (op, ty) = (self.u32()?, self.u32()?);
        Combination::decode(u8::try_from(op).ok()?, ty)
    }

    /// The next item; `None` if it is none.
    pub(super) fn item(&mut self) -> Option<Item<'a>> {
        let (kind, id) = (self.u8()?, self.u32()?);
        Some(match kind {
            1 => {
                let (at, shape) = self.shape()?;
                let data = self.bytes(usize::try_from(shape.bytes()).ok()?)?;
                Item::Put { at, shape, data }
            }
            2 => {
                let (at, shape) = self.shape()?;
                Item::Get { id, at, shape }
            }
            3 => {
                let how = self.combination()?;
                let (at, shape) = self.shape()?;
                let bytes = if how.op == OpId::NO_OP { 0 } else { shape.bytes() };
                Item::Update { id, how, at, shape, data: self.bytes(usize::try_from(bytes).ok()?)? }
            }
            4 => {
                let how = self.combination()?;
                let at = self.u64()? as i64;
                let (expected, new) = (self.bytes(how.width())?, self.bytes(how.width())?);
                Item::Swap { id, how, at, expected, new }
            }
            5 => Item::Lock { exclusive: id != 0 },
            6 => Item::Unlock { id },
            7 => Item::Flush { id },
            8 => Item::Ask { id },
            _ => return None,
        })
    }

    /// The next answer; `None` if it is none.
    pub(super) fn reply(&mut self) -> Option<Reply<'a>> {
        let (kind, id) = (self.u8()?, self.u32()?);
        Some(match kind {
            16 => {
                let bytes = usize::try_from(self.u64()?).ok()?;
                Reply::Data { id, data: self.bytes(bytes)? }
            }
            17 => Reply::Done { id },
            18 => {
                let known = self.u32()? != 0;
                let words = [self.u64()?, self.u64()?];
                Reply::Place { id, words: known.then_some(words) }
            }
            19 => Reply::Outside { id },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_survive_the_wire() {
        for kind in [Kind::Post, Kind::Complete, Kind::Work, Kind::Answers, Kind::Nudge] {
            let subject = Subject { window: u32::MAX - 5, rank: (1 << RANK_BITS) - 1, kind };
            assert_eq!(Subject::decode(subject.encode()), Some(subject));
        }
        assert_eq!(Subject::decode(0), None);
    }

    #[test]
    fn nothing_is_combined_that_has_no_bytes() {
        let mut message = Writer::default();
        message.head(3, NO_ANSWER).u32(OpId::REPLACE.0).u32(TypeId::LB.0).shape(0, &Shape::Row(0));
        assert_eq!(Reader(&message.0).item(), None);
    }

    #[test]
    fn items_and_answers_survive_the_wire_and_what_is_cut_off_is_found_out() {
        let how = Combination { op: OpId::SUM, meaning: Meaning::Floating, scalar: Scalar::F64 };
        let blocks = Shape::Blocks(vec![Grid::row(-8, 8, 2, 32), Grid::row(64, 1, 1, 0)]);
        let mut message = Writer::default();
        message.lock(true);
        message.put(-3, &Shape::Row(2));
        message.0.extend_from_slice(&[7, 8]);
        message.get(1, 4, &blocks);
        message.update(2, how, 0, &Shape::Row(8));
        message.0.extend_from_slice(&[1; 8]);
        message.swap(3, how, 16);
        message.0.extend_from_slice(&[2; 16]);
        message.flush(4);
        message.unlock(5);
        message.ask(6);
        let mut reader = Reader(&message.0);
        let mut items = Vec::new();
        while !reader.is_empty() {
            items.push(reader.item().expect("an item"));
        }
        assert_eq!(
            items,
            [
                Item::Lock { exclusive: true },
                Item::Put { at: -3, shape: Shape::Row(2), data: &[7, 8] },
                Item::Get { id: 1, at: 4, shape: blocks },
                Item::Update { id: 2, how, at: 0, shape: Shape::Row(8), data: &[1; 8] },
                Item::Swap { id: 3, how, at: 16, expected: &[2; 8], new: &[2; 8] },
                Item::Flush { id: 4 },
                Item::Unlock { id: 5 },
                Item::Ask { id: 6 },
            ]
        );
        // Wherever it is cut, it ends in nothing, and never in a panic.
        for len in 0..message.0.len() {
            let mut reader = Reader(&message.0[..len]);
            while reader.item().is_some() {}
        }
        let mut answers = Writer::default();
        answers.data(1, 3);
        answers.0.extend_from_slice(&[9; 3]);
        answers.done(2);
        answers.place(3, Some([4, 5]));
        answers.place(3, None);
        answers.outside(6);
        let mut reader = Reader(&answers.0);
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
            ]
        );
    }
}
