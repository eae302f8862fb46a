//! What a process tells of a collective that it calls.
use crate::wire::{Reader, Writer};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Elements that move between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes of data.
    pub bytes: u64,
    /// Of their type signature; 0 if they fit anything.
    pub mark: u32,
}

impl Block {
    fn fits(self, other: Block) -> bool {
        let marks = self.mark == other.mark || self.mark == 0 || other.mark == 0;
        self.bytes == other.bytes && (self.bytes == 0 || marks)
    }

    fn difference(self, other: Block) -> String {
        match self.bytes == other.bytes {
            true => format!("{} bytes of other datatypes", self.bytes),
            false => format!("{} bytes for {}", self.bytes, other.bytes),
        }
    }
}

/// What goes to others, or is expected from them, in one collective.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Flow {
    /// Nothing, or nothing that can be compared.
    #[default]
    Unknown,
    /// The same for each.
    Every(Block),
    /// By rank.
    Each(Vec<Block>),
    /// Only to or from one rank.
    Only(u32, Block),
}

impl Flow {
    fn at(&self, rank: u32) -> Option<Block> {
        match self {
            Flow::Unknown => None,
            Flow::Every(block) => Some(*block),
            Flow::Each(blocks) => blocks.get(rank as usize).copied(),
            Flow::Only(only, block) => (*only == rank).then_some(*block),
        }
    }
}

/// Which collective of which communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The communicator's number.
    pub number: u32,
    /// Tells communicators apart that have the number one after the other.
    pub members: u64,
    /// Which of its collectives, from 0.
    pub sequence: u32,
}

/// What a process tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which collective.
    pub key: Key,
    /// Who tells: its rank in the communicator. The ranks of the second of two groups are counted on.
    pub rank: u32,
    /// Members of the communicator.
    pub size: u32,
    /// Those of the first group; all, if there is one group.
    pub first: u32,
    /// Who tells, in words.
    pub who: String,
    /// Named in the answer.
    pub ticket: u64,
    /// Does it wait for the answer?
    pub waits: bool,
    /// The communicator, in words.
    pub comm: String,
    /// The function.
    pub call: String,
    /// Its arguments, in words.
    pub arguments: String,
    /// The root, counted as `rank` is, if it has one and this member names it.
    pub root: Option<i32>,
    /// The reduction operation, if it has one and this member names it; those of programs are all the same.
    pub op: Option<u32>,
    /// What must be the same in all members.
    pub same: Option<Block>,
    /// What goes to others: by their ranks in their group.
    pub gives: Flow,
    /// What is expected from others, likewise.
    pub takes: Flow,
}

impl Record {
    /// What is wrong about two members, in words; `None`: nothing.
    pub fn fault_beside(&self, other: &Record) -> Option<String> {
        let what = self.difference(other)?;
        let number = u64::from(self.key.sequence) + 1;
        Some(format!(
            "{}: {}({}) as collective {number} of {}; {}: {}({}): {what}",
            self.who, self.call, self.arguments, self.comm, other.who, other.call, other.arguments
        ))
    }

    /// The rank in the group.
    fn own_rank(&self) -> u32 {
        self.rank.checked_sub(self.first).unwrap_or(self.rank)
    }

    /// May data move between two members? Of two groups, each sends to the other.
    fn exchanges_with(&self, other: &Record) -> bool {
        self.first >= self.size || (self.rank < self.first) != (other.rank < other.first)
    }

    fn difference(&self, other: &Record) -> Option<String> {
        if self.call != other.call {
            return Some("different calls".into());
        }
        if differ(self.root, other.root) {
            return Some("different roots".into());
        }
        if differ(self.op, other.op) {
            return Some("different operations".into());
        }
        if let (Some(mine), Some(its)) = (self.same, other.same)
            && !mine.fits(its)
        {
            return Some(mine.difference(its));
        }
        flow(self, other).or_else(|| flow(other, self))
    }

    /// As bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer(&mut out);
        w.u32(self.key.number).u64(self.key.members).u32(self.key.sequence);
        w.u32(self.rank).u32(self.size).u32(self.first).u64(self.ticket).u8(self.waits.into());
        w.bytes(self.who.as_bytes())
            .bytes(self.comm.as_bytes())
            .bytes(self.call.as_bytes())
            .bytes(self.arguments.as_bytes());
        option(&mut w, self.root, |w, root| _ = w.i32(root));
        option(&mut w, self.op, |w, op| _ = w.u32(op));
        option(&mut w, self.same, block);
        for flow in [&self.gives, &self.takes] {
            match flow {
                Flow::Unknown => _ = w.u8(0),
                Flow::Every(each) => block(w.u8(1), *each),
                Flow::Each(blocks) => _ = w.u8(2).list(blocks, |w, each| block(w, *each)),
                Flow::Only(rank, only) => block(w.u8(3).u32(*rank), *only),
            }
        }
        out
    }

    /// From bytes; `None` for what no process writes.
    pub fn parse(bytes: &[u8]) -> Option<Record> {
        let mut r = Reader::new(bytes);
        let key = Key { number: r.u32()?, members: r.u64()?, sequence: r.u32()? };
        let (rank, size, first) = (r.u32()?, r.u32()?, r.u32()?);
        let (ticket, waits, who) = (r.u64()?, r.u8()? != 0, r.text()?);
        let (comm, call, arguments) = (r.text()?, r.text()?, r.text()?);
        let root = read_option(&mut r, Reader::i32)?;
        let op = read_option(&mut r, Reader::u32)?;
        let same = read_option(&mut r, read_block)?;
        let (gives, takes) = (read_flow(&mut r)?, read_flow(&mut r)?);
        r.is_at_end().then_some(Record {
            key,
            rank,
            size,
            first,
            who,
            ticket,
            waits,
            comm,
            call,
            arguments,
            root,
            op,
            same,
            gives,
            takes,
        })
    }
}

/// Does what one gives fit what the other expects?
fn flow(from: &Record, to: &Record) -> Option<String> {
    if !from.exchanges_with(to) {
        return None;
    }
    let (sender, receiver) = (from.own_rank(), to.own_rank());
    let (given, taken) = (from.gives.at(receiver)?, to.takes.at(sender)?);
    let words = || format!("{} sends {} {}", from.who, to.who, given.difference(taken));
    (!given.fits(taken)).then(words)
}

/// Do two members name different ones?
fn differ<T: PartialEq>(mine: Option<T>, its: Option<T>) -> bool {
    mine.is_some() && its.is_some() && mine != its
}

fn block(w: &mut Writer<'_>, block: Block) {
    w.u64(block.bytes).u32(block.mark);
}

fn read_block(r: &mut Reader<'_>) -> Option<Block> {
    Some(Block { bytes: r.u64()?, mark: r.u32()? })
}

fn read_flow(r: &mut Reader<'_>) -> Option<Flow> {
    Some(match r.u8()? {
        0 => Flow::Unknown,
        1 => Flow::Every(read_block(r)?),
        2 => Flow::Each(r.list(read_block)?),
        3 => Flow::Only(r.u32()?, read_block(r)?),
        _ => return None,
    })
}

fn option<T>(w: &mut Writer<'_>, value: Option<T>, write: impl Fn(&mut Writer<'_>, T)) {
    w.u8(value.is_some().into());
    if let Some(value) = value {
        write(w, value);
    }
}

fn read_option<'a, T>(r: &mut Reader<'a>, read: impl Fn(&mut Reader<'a>) -> Option<T>) -> Option<Option<T>> {
    match r.u8()? {
        0 => Some(None),
        1 => read(r).map(Some),
        _ => None,
    }
}
