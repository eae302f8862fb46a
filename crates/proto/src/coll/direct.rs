//! Collectives of large data on one host, whose processes reach each other's memory.
//!
//! ```text
//!   where are the buffers      everybody reads and writes      is everybody done
//!   (small messages)           (no messages)                   (small messages)
//! ```
//! Every byte goes straight from the memory of one program to that of another. In a reduction each process combines one piece of
//! the data: it reads everyone's, a block that stays in its cache at a time, and writes the result to whoever wants it. Nobody
//! else touches that piece of anybody's memory, so nothing has to be agreed on in between, and an operation in place needs no copy.
//!
//! The same steps begin with messages only, and go on with messages where memory cannot be reached ([`super::token`]).
use super::barrier::{Signals, barrier_with};
use super::hosts::{Spaces, retarget};
use super::token::{Meant, TOKEN_BYTES};
use super::tuning::DIRECT_BLOCK_BYTES;
use super::{
    Blocks, Elements, Operands, Place, Remote, Schedule, Shown, Slice, Space, Start, Step, Table, allgather,
    input, output, scratch, tuning,
};

/// Working memory begins at a multiple of this: reduction functions may want aligned elements.
const SCRATCH_ALIGN: usize = 64;

/// What builders of the direct steps need to know.
#[derive(Clone, Copy)]
struct Ground {
    at: Place,
    table: Table,
    /// Scratch is free from here on.
    free: usize,
}

impl Ground {
    fn new(at: Place) -> Self {
        let free = (at.size as usize * TOKEN_BYTES).next_multiple_of(SCRATCH_ALIGN);
        Ground { at, table: Table { at: 0, members: at.size }, free }
    }
}

/// Which operation it is: all must call the same.
#[derive(Clone, Copy)]
enum Kind {
    Bcast = 1,
    Allreduce,
    Reduce,
    ReduceScatter,
    GatherToAll,
    Alltoall,
    Gather,
    Scatter,
}

impl Kind {
    /// An operation on so many bytes, as all must mean it.
    fn of(self, bytes: usize) -> Meant {
        Meant { bytes: bytes as u64, call: self as u64 }
    }

    /// As [`Kind::of`], with a root.
    fn rooted(self, bytes: usize, root: u32) -> Meant {
        Meant { call: self as u64 | u64::from(root) << 8, ..self.of(bytes) }
    }

    /// As [`Kind::of`], of data that is cut so.
    fn cut(self, bytes: usize, at: Place, cut: Blocks<'_>) -> Meant {
        let mix = |hash: u64, rank| (hash ^ cut.of(rank).len as u64).wrapping_mul(0x100_0000_01b3);
        let lens = (0..at.size).fold(0xcbf2_9ce4_8422_2325, mix);
        Meant { call: self as u64 | lens << 8, ..self.of(bytes) }
    }
}

/// What is known of an operation before anybody is reached.
#[derive(Clone, Copy)]
struct Call {
    meant: Meant,
    /// What a process copies for itself, from and to, while the tokens travel. Where messages follow, they copy it again.
    own: Option<(Slice, Slice)>,
    /// The same when all are done. How often they meet must not depend on what one process does: that may be in place, and
    /// the others not.
    last: Option<(Slice, Slice)>,
}

impl Call {
    fn new(meant: Meant) -> Self {
        Call { meant, own: None, last: None }
    }
}

/// Adds the steps of `direct` and, for where memory cannot be reached, those of `messages`.
fn with(
    s: &mut Schedule,
    at: Place,
    Call { meant, own, last }: Call,
    direct: impl FnOnce(&mut Schedule, Ground),
    messages: impl FnOnce(&mut Schedule, Place),
) {
    let ground = Ground::new(at);
    let table = ground.table;
    let unknown = Step::Decide { table, direct: 0, messages: 0 };
    let start = s.steps.len();
    exchange_tokens(s, ground, meant);
    if let Some((from, into)) = own.filter(|(from, _)| from.len > 0) {
        let wait = s.steps[start..].iter().position(|step| *step == Step::Wait).unwrap_or(0);
        s.steps.insert(start + wait, Step::Copy { from, into });
    }
    let first = s.push(unknown);
    s.push(Step::Try { table });
    exchange_tokens(s, ground, meant);
    let second = s.push(unknown);
    let direct_at = s.steps.len();
    direct(s, ground);
    s.settle(ground);
    if let Some((from, into)) = last {
        s.copy(from, into);
    }
    let end = s.push(Step::Go { to: 0 });
    let messages_at = s.steps.len();
    let mut otherwise = Schedule::new();
    messages(&mut otherwise, at.apart());
    s.scratch_otherwise = s.scratch_otherwise.max(otherwise.scratch_bytes);
    s.steps.append(&mut otherwise.steps);
    let decide = Step::Decide { table, direct: direct_at, messages: messages_at };
    (s.steps[first], s.steps[second]) = (decide, decide);
    s.steps[end] = Step::Go { to: s.steps.len() };
}

/// Everybody gets everybody's token. The own one stands in its place of the table before.
fn exchange_tokens(s: &mut Schedule, ground: Ground, meant: Meant) {
    let Ground { at, table, free } = ground;
    let own = table.at + at.rank as usize * TOKEN_BYTES;
    let (input, output) = (Start { space: Space::Input, at: 0 }, Start { space: Space::Output, at: 0 });
    s.touch(scratch(own, TOKEN_BYTES));
    s.push(Step::Show { input, output, meant, into: own });
    let spaces = Spaces { input: scratch(own, 0), output: scratch(table.at, 0), scratch_at: free };
    retarget(s, spaces, |part| allgather(part, at.apart(), TOKEN_BYTES));
}

impl Schedule {
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    fn read(&mut self, ground: Ground, member: u32, shown: Shown, at: usize, into: Slice) {
        if into.len > 0 {
            self.touch(into);
            self.push(Step::Read { from: Remote { member, shown, at }, table: ground.table, into });
        }
    }

    fn write(&mut self, ground: Ground, from: Slice, member: u32, at: usize) {
        if from.len > 0 {
            self.touch(from);
            let into = Remote { member, shown: Shown::Output, at };
            self.push(Step::Write { from, table: ground.table, into });
        }
    }

    /// Nobody leaves before everybody is done. The messages have a byte, so that one that has failed can be told.
    fn settle(&mut self, ground: Ground) {
        barrier_with(self, ground.at, Signals::Bytes { at: ground.free });
    }
}

/// First byte of a process's piece of the data.
fn start_of(data: Elements, size: u32, index: u32) -> usize {
    let (size, index) = (size as usize, index as usize);
    (index * (data.count / size) + index.min(data.count % size)) * data.unit
}

/// Broadcast; the data is in `Output` everywhere. Everybody reads from the root, which may write a share to each meanwhile.
pub(super) fn bcast(s: &mut Schedule, at: Place, root: u32, bytes: usize) {
    let direct = |s: &mut Schedule, ground: Ground| {
        let read = bytes - tuning::bcast_share(at, bytes);
        if at.rank != root {
            s.read(ground, root, Shown::Output, 0, output(0, read));
        } else {
            at.others().for_each(|other| s.write(ground, output(read, bytes - read), other, read));
        }
    };
    let call = Call::new(Kind::Bcast.rooted(bytes, root));
    with(s, at, call, direct, |s, at| super::bcast(s, at, root, bytes));
}

/// Reduction to all.
pub(super) fn allreduce(s: &mut Schedule, at: Place, data: Elements) {
    let direct = |s: &mut Schedule, ground: Ground| {
        let span = (start_of(data, at.size, at.rank), start_of(data, at.size, at.rank + 1));
        for (from, len) in blocks(span, data.unit) {
            let acc = combine(s, ground, data, from, output(from, len));
            at.others().for_each(|other| s.write(ground, acc, other, from));
            s.copy_unless_same(acc, output(from, len));
        }
    };
    let call = Call::new(Kind::Allreduce.of(data.bytes()));
    with(s, at, call, direct, |s, at| super::allreduce(s, at, data));
}

/// Reduction to one. Who is not the root has no output.
pub(super) fn reduce(s: &mut Schedule, at: Place, root: u32, data: Elements) {
    let direct = |s: &mut Schedule, ground: Ground| {
        let span = (start_of(data, at.size, at.rank), start_of(data, at.size, at.rank + 1));
        for (from, len) in blocks(span, data.unit) {
            if at.rank == root {
                let acc = combine(s, ground, data, from, output(from, len));
                s.copy_unless_same(acc, output(from, len));
            } else {
                let apart = Elements { operands: Operands::Apart, ..data };
                let acc = combine(s, ground, apart, from, scratch(room_at(ground), len));
                s.write(ground, acc, root, from);
            }
        }
    };
    let call = Call::new(Kind::Reduce.rooted(data.bytes(), root));
    with(s, at, call, direct, |s, at| super::reduce(s, at, root, data));
}

/// Reduction whose result is cut into blocks, one for each process. `Output` may be where others read their block of this
/// process's `Input`: then the result waits in scratch until all have read.
pub(super) fn reduce_scatter(s: &mut Schedule, at: Place, data: Elements, cut: Blocks<'_>) {
    let own = cut.of(at.rank);
    let waits = data.operands == Operands::InPlace;
    let kept = room_at(Ground::new(at)).next_multiple_of(SCRATCH_ALIGN) + 2 * block_bytes(data.unit);
    let direct = |s: &mut Schedule, ground: Ground| {
        let apart = Elements { operands: Operands::Apart, ..data };
        for (from, len) in blocks((own.at, own.at + own.len), data.unit) {
            let done = from - own.at;
            let into = if waits { scratch(kept + done, len) } else { output(done, len) };
            let acc = combine(s, ground, apart, from, into);
            s.copy_unless_same(acc, into);
        }
    };
    let last = waits.then_some((scratch(kept, own.len), output(0, own.len)));
    let call = Call { last, ..Call::new(Kind::ReduceScatter.cut(data.bytes(), at, cut)) };
    with(s, at, call, direct, |s, at| super::reduce_scatter(s, at, data, cut));
}

/// Combines a block of everyone's input, in `acc` if the order of operands does not matter, and gives where the result is.
fn combine(s: &mut Schedule, ground: Ground, data: Elements, from: usize, acc: Slice) -> Slice {
    let at = ground.at;
    let (len, room) = (acc.len, room_at(ground));
    let next = scratch(room + block_bytes(data.unit), len);
    let own = input(from, len);
    if !data.commutes {
        // What is on the left combines into what is on the right, as in `Step::Reduce`.
        let acc = scratch(room, len);
        for rank in (0..at.size).rev() {
            match (rank == at.rank, rank == at.size - 1) {
                (true, true) => s.copy(own, acc),
                (true, false) => s.reduce(own, acc),
                (false, true) => s.read(ground, rank, Shown::Input, from, acc),
                (false, false) => {
                    s.read(ground, rank, Shown::Input, from, next);
                    s.reduce(next, acc);
                }
            }
        }
        return acc;
    }
    let mut others = at.others();
    if data.operands == Operands::Apart
        && let Some(first) = others.next()
    {
        s.read(ground, first, Shown::Input, from, acc);
        s.reduce(own, acc);
    }
    for other in others {
        s.read(ground, other, Shown::Input, from, next);
        s.reduce(next, acc);
    }
    acc
}

/// Two blocks to work in begin here.
fn room_at(ground: Ground) -> usize {
    (ground.free + ground.at.size as usize).next_multiple_of(SCRATCH_ALIGN)
}

fn block_bytes(unit: usize) -> usize {
    (DIRECT_BLOCK_BYTES / unit).max(1) * unit
}

/// The blocks of a piece: first byte and length of each.
fn blocks((from, to): (usize, usize), unit: usize) -> impl Iterator<Item = (usize, usize)> {
    let step = block_bytes(unit);
    (from..to).step_by(step).map(move |at| (at, step.min(to - at)))
}

/// Gather to all; blocks may be anywhere in `Output`.
pub(super) fn gather_to_all(s: &mut Schedule, at: Place, cut: Blocks<'_>) {
    let total = (0..at.size).map(|rank| cut.of(rank).len).sum();
    let direct = |s: &mut Schedule, ground: Ground| {
        at.others().for_each(|other| s.read(ground, other, Shown::Input, 0, cut.output(other)));
    };
    let own = Some((input(0, cut.of(at.rank).len), cut.output(at.rank)));
    let call = Call { own, ..Call::new(Kind::GatherToAll.cut(total, at, cut)) };
    with(s, at, call, direct, |s, at| match cut {
        Blocks::Equal(block) => allgather(s, at, block),
        Blocks::Listed(_) => super::allgatherv(s, at, cut),
    });
}

/// Everyone reads its block from everyone.
pub(super) fn alltoall(s: &mut Schedule, at: Place, block: usize) {
    let cut = Blocks::Equal(block);
    let direct = |s: &mut Schedule, ground: Ground| {
        let mine = cut.of(at.rank).at;
        at.others().for_each(|other| s.read(ground, other, Shown::Input, mine, cut.output(other)));
    };
    let own = Some((cut.input(at.rank), cut.output(at.rank)));
    let call = Call { own, ..Call::new(Kind::Alltoall.of(block)) };
    with(s, at, call, direct, |s, at| super::alltoall(s, at, block));
}

/// Everyone writes its block to the root.
pub(super) fn gather(s: &mut Schedule, at: Place, root: u32, block: usize) {
    let place = Blocks::Equal(block).output(at.rank);
    let direct = |s: &mut Schedule, ground: Ground| {
        if at.rank != root {
            s.write(ground, input(0, block), root, place.at);
        }
    };
    let own = (at.rank == root).then_some((input(0, block), place));
    let call = Call { own, ..Call::new(Kind::Gather.rooted(block, root)) };
    with(s, at, call, direct, |s, at| super::gather(s, at, root, block));
}

/// Everyone reads its block from the root.
pub(super) fn scatter(s: &mut Schedule, at: Place, root: u32, block: usize) {
    let place = Blocks::Equal(block).input(at.rank);
    let direct = |s: &mut Schedule, ground: Ground| {
        if at.rank != root {
            s.read(ground, root, Shown::Input, place.at, output(0, block));
        }
    };
    let own = (at.rank == root).then_some((place, output(0, block)));
    let call = Call { own, ..Call::new(Kind::Scatter.rooted(block, root)) };
    with(s, at, call, direct, |s, at| super::scatter(s, at, root, block));
}
