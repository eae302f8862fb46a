//! Collectives between two groups (MPI-5 6.2.3): what one group contributes, the other one gets.
//!
//! A schedule names processes of the own group by rank, and those of the other behind them: its rank `r` is *party*
//! `own.size + r`. So the steps inside a group are those of the collectives of one group. As a rule one process of each
//! side, its leader, talks to the other side, and the rest hear from it: few connections cross.
use super::tree::Tree;
use super::tuning::{self, ALLTOALL_WINDOW};
use super::{Blocks, Elements, Place, Schedule, Slice, input, output, scratch};

#[cfg(test)]
mod tests;

/// Where a process stands between two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// In its own group.
    pub own: Place,
    /// Size of the other group, at least 1.
    pub remote: u32,
}

/// What a process has to do with the root of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is the root (`MPI_ROOT`).
    Root,
    /// Another process of its group is (`MPI_PROC_NULL`).
    Aside,
    /// This one of the other group is.
    Member {
        /// Its rank there.
        root: u32,
    },
}

/// Who speaks for each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaders {
    /// A rank of the own group.
    pub own: u32,
    /// A party; it means something to the own leader only.
    pub other: u32,
}

/// Reduction elements that follow others in working memory begin at a multiple of this.
const ALIGN: usize = 64;

impl Sides {
    /// How a schedule names a rank of the other group.
    fn party(self, rank: u32) -> u32 {
        self.own.size + rank
    }

    /// Rank 0 of each.
    pub fn leaders(self) -> Leaders {
        Leaders { own: 0, other: self.party(0) }
    }
}

/// Nobody leaves before everybody of the other group has come.
pub fn barrier(s: &mut Schedule, at: Sides) {
    let nothing = scratch(0, 0);
    super::barrier(s, at.own);
    if at.own.rank == 0 {
        s.signal(at.party(0), nothing);
        s.await_signal(at.party(0), nothing);
        s.wait();
    }
    super::barrier(s, at.own);
}

/// Gives the root's `Output` to all of the other group, in their `Output`.
pub fn bcast(s: &mut Schedule, at: Sides, part: Part, bytes: usize) {
    match part {
        Part::Root => {
            s.send(at.party(0), output(0, bytes));
            s.wait();
        }
        Part::Aside => {}
        Part::Member { root } => {
            if at.own.rank == 0 {
                s.recv(at.party(root), output(0, bytes));
                s.wait();
            }
            super::bcast(s, at.own, 0, bytes);
        }
    }
}

/// Collects `Input` (`mine` bytes) of the other group in the root's `Output`; `blocks` counts at the root only.
pub fn gather(s: &mut Schedule, at: Sides, part: Part, mine: usize, blocks: Blocks<'_>) {
    match part {
        Part::Root => (0..at.remote).for_each(|rank| s.recv(at.party(rank), blocks.output(rank))),
        Part::Aside => return,
        Part::Member { root } => s.send(at.party(root), input(0, mine)),
    }
    s.wait();
}

/// Deals the blocks of the root's `Input` to the `Output` (`mine` bytes) of the other group.
pub fn scatter(s: &mut Schedule, at: Sides, part: Part, mine: usize, blocks: Blocks<'_>) {
    match part {
        Part::Root => (0..at.remote).for_each(|rank| s.send(at.party(rank), blocks.input(rank))),
        Part::Aside => return,
        Part::Member { root } => s.recv(at.party(root), output(0, mine)),
    }
    s.wait();
}

/// Everybody's `Input` (`mine` bytes) goes to all of the other group, whose `blocks` of `Output` it fills.
///
/// Blocks may differ in length, and only the other side knows those of this one: so each process sends to the other's
/// leader itself.
pub fn allgather(s: &mut Schedule, at: Sides, mine: usize, blocks: Blocks<'_>) {
    if at.own.rank == 0 {
        (0..at.remote).for_each(|rank| s.recv(at.party(rank), blocks.output(rank)));
    }
    s.send(at.party(0), input(0, mine));
    s.wait();
    match blocks {
        Blocks::Equal(len) => super::bcast(s, at.own, 0, len * at.remote as usize),
        Blocks::Listed(_) => {
            let all = (0..at.remote).map(|rank| blocks.output(rank));
            spread(s, at.own, 0, all);
        }
    }
}

/// Block `i` of everybody's `Input` goes to process `i` of the other group, into the block of the sender.
pub fn alltoall(s: &mut Schedule, at: Sides, sends: Blocks<'_>, recvs: Blocks<'_>) {
    // At each distance a process of one side meets one of the other, or nobody, in both directions.
    let round = at.own.size.max(at.remote);
    let (to, from) = (|d| (at.own.rank + d) % round, |d| (at.own.rank + round - d) % round);
    let mut distance = 0;
    while distance < round {
        let end = (distance + ALLTOALL_WINDOW).min(round);
        for rank in (distance..end).map(from).filter(|rank| *rank < at.remote) {
            s.recv(at.party(rank), recvs.output(rank));
        }
        for rank in (distance..end).map(to).filter(|rank| *rank < at.remote) {
            s.send(at.party(rank), sends.input(rank));
        }
        s.wait();
        distance = end;
    }
}

/// Combines `Input` of the other group into the root's `Output`.
pub fn reduce(s: &mut Schedule, at: Sides, part: Part, data: Elements) {
    match part {
        Part::Root => s.recv(at.party(0), output(0, data.bytes())),
        Part::Aside => return,
        Part::Member { root } => match combine(s, at.own, 0, data) {
            Some(result) => s.send(at.party(root), result),
            None => return,
        },
    }
    s.wait();
}

/// Combines `Input` of each group into the `Output` of all of the other.
pub fn allreduce(s: &mut Schedule, at: Sides, data: Elements) {
    let bytes = data.bytes();
    if let Some(result) = combine(s, at.own, 0, data) {
        s.exchange(at.party(0), result, output(0, bytes));
        s.wait();
    }
    super::bcast(s, at.own, 0, bytes);
}

/// As [`allreduce`], but the result is cut into `blocks`, one for each process of the group that gets it.
pub fn reduce_scatter(s: &mut Schedule, at: Sides, data: Elements, blocks: Blocks<'_>) {
    let own = blocks.of(at.own.rank);
    let Some(result) = combine(s, at.own, 0, data) else {
        s.recv(0, output(0, own.len));
        s.wait();
        return;
    };
    let theirs = scratch(s.scratch_bytes().next_multiple_of(ALIGN), data.bytes());
    s.exchange(at.party(0), result, theirs);
    s.wait();
    for rank in 1..at.own.size {
        let block = blocks.of(rank);
        s.send(rank, theirs.part(block.at, block.len));
    }
    s.copy(theirs.part(own.at, own.len), output(0, own.len));
    s.wait();
}

/// Combines `Input` of both groups into the `Output` of all; operands may change places.
pub fn agree(s: &mut Schedule, at: Place, leaders: Leaders, data: Elements) {
    let all = output(0, data.bytes());
    if let Some(result) = combine(s, at, leaders.own, data) {
        s.exchange(leaders.other, result, all);
        s.wait();
        s.reduce(result, all);
    }
    spread(s, at, leaders.own, [all]);
}

/// The leaders' `Input` (`given` bytes) goes to all of the other group, in their `Output` (`taken` bytes).
pub fn swap(s: &mut Schedule, at: Place, leaders: Leaders, given: usize, taken: usize) {
    let theirs = output(0, taken);
    if at.rank == leaders.own {
        s.recv(leaders.other, theirs);
        s.send(leaders.other, input(0, given));
        s.wait();
    }
    spread(s, at, leaders.own, [theirs]);
}

/// The leader's `Output` goes to all of its own group.
pub fn tell(s: &mut Schedule, at: Place, leader: u32, bytes: usize) {
    spread(s, at, leader, [output(0, bytes)]);
}

/// Everybody of both groups gets everybody's `Input` (`row` bytes): those of the own group first, by rank.
pub fn table(s: &mut Schedule, at: Sides, row: usize) {
    super::allgather(s, at.own, row);
    let own = output(0, at.own.size as usize * row);
    let theirs = output(own.len, at.remote as usize * row);
    if at.own.rank == 0 {
        s.exchange(at.party(0), own, theirs);
        s.wait();
    }
    spread(s, at.own, 0, [theirs]);
}

/// Combines `Input` of the own group; gives the result to its leader. The order of ranks is kept if that is rank 0.
fn combine(s: &mut Schedule, at: Place, leader: u32, data: Elements) -> Option<Slice> {
    let bytes = data.bytes();
    let tree = Tree::new(at, leader, tuning::radix(at, data.bytes()));
    let result = tree.combine_up(s, data, input(0, bytes), scratch(0, bytes), bytes);
    match tree.parent() {
        Some(parent) => {
            s.send(parent, result);
            s.wait();
            None
        }
        None => Some(result),
    }
}

/// The leader's slices go to all of its group, down a tree.
fn spread(s: &mut Schedule, at: Place, leader: u32, what: impl IntoIterator<Item = Slice, IntoIter: Clone>) {
    let slices = what.into_iter();
    let longest = slices.clone().map(|slice| slice.len).max().unwrap_or(0);
    let tree = Tree::new(at, leader, tuning::radix(at, longest));
    if let Some(parent) = tree.parent() {
        slices.clone().for_each(|slice| s.recv(parent, slice));
        s.wait();
    }
    slices.for_each(|slice| tree.send_each(s, slice));
    s.wait();
}
