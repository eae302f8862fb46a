//! Collectives through memory that all processes of a node map.
//!
//! ```text
//!   what I have, into the memory      (small messages)      what I want, out of it
//!   and what I mean                   all are there         has everybody meant the same?
//! ```
//! Every byte is copied twice, by ordinary instructions, and nobody waits more than once: where processes share cores that
//! matters more than the second copy, since each wait is a switch to another process. Nor does a pair need a connection of its
//! own: that everybody is there travels along a tree.
//!
//! Operations take turns with the halves of the memory. Who lays something into a half has been told that all were there in the
//! operation before, and so have left the one before that, which had this half. So only operations of which a process has one
//! at a time, those that it waits for, go this way.
//!
//! The memory is made by the first operation that has a use for it. If anybody cannot map it, that operation and all that
//! follow go other ways.
use super::barrier::{Signals, barrier_with};
use super::hosts::{Spaces, retarget};
use super::token::Meant;
use super::{
    Blocks, Memory, Place, Schedule, Shared, Slice, Step, allgather, bcast, input, laid, output, scratch,
};

/// Bytes of the words that say where the memory is.
pub const PLACE_BYTES: usize = 24;
/// Most processes that use such memory.
pub const MEMBERS_MAX: u32 = 2 << 10;
/// What processes mean stands first, a word for each.
pub const WORDS_BYTES: usize = MEMBERS_MAX as usize * 8;
/// Most bytes that all of them lay into it.
pub const LAID_BYTES_MAX: usize = 4 << 20;
/// A half, and so the distance from one to the other.
pub const HALF_BYTES: usize = WORDS_BYTES + LAID_BYTES_MAX;
/// The whole. A page that nobody touches costs nothing.
pub const BYTES: usize = 2 * HALF_BYTES;

/// Which operation it is: all must call the same.
#[derive(Clone, Copy)]
enum Kind {
    Bcast = 1,
    Allgather,
    Alltoall,
}

impl Kind {
    fn of(self, bytes: usize, root: u32) -> Meant {
        Meant { bytes: bytes as u64, call: self as u64 | u64::from(root) << 8 }
    }
}

impl Meant {
    /// One word for both. Never 0, which stands for nothing.
    pub fn word(self) -> u64 {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        mix(mix(0, self.bytes), self.call) | 1
    }
}

/// Broadcast; the data is in `Output` everywhere.
pub(super) fn broadcast(s: &mut Schedule, at: Place, root: u32, bytes: usize) {
    let steps = |s: &mut Schedule| {
        let data = (laid(0, bytes), output(0, bytes));
        let is_root = at.rank == root;
        let lay = [(data.1, data.0)];
        s.through(at, Kind::Bcast.of(bytes, root), if is_root { &lay } else { &[] }, None);
        if !is_root {
            s.copy(data.0, data.1);
        }
    };
    with(s, at, steps, |s, at| bcast(s, at, root, bytes));
}

/// Gather to all.
pub(super) fn gather_to_all(s: &mut Schedule, at: Place, block: usize) {
    let (cut, mine) = (Blocks::Equal(block), input(0, block));
    let place = |rank: u32| laid(rank as usize * block, block);
    let steps = |s: &mut Schedule| {
        let own = Some((mine, cut.output(at.rank)));
        s.through(at, Kind::Allgather.of(block, 0), &[(mine, place(at.rank))], own);
        // What lies before the own block and behind it, each in one piece.
        let (before, behind) = (at.rank as usize * block, (at.rank as usize + 1) * block);
        let end = at.size as usize * block;
        s.copy(laid(behind, end - behind), output(behind, end - behind));
        s.copy(laid(0, before), output(0, before));
    };
    with(s, at, steps, |s, at| allgather(s, at, block));
}

/// Everybody's rows, from which everybody takes a column.
pub(super) fn alltoall(s: &mut Schedule, at: Place, block: usize) {
    let (cut, row) = (Blocks::Equal(block), at.size as usize * block);
    let steps = |s: &mut Schedule| {
        let own = Some((cut.input(at.rank), cut.output(at.rank)));
        let start = at.rank as usize * row;
        // The own block stays here.
        let (before, behind) = (at.rank as usize * block, (at.rank as usize + 1) * block);
        let lay = [
            (input(0, before), laid(start, before)),
            (input(behind, row - behind), laid(start + behind, row - behind)),
        ];
        s.through(at, Kind::Alltoall.of(block, 0), &lay, own);
        for other in at.others() {
            s.copy(laid(other as usize * row + at.rank as usize * block, block), cut.output(other));
        }
    };
    with(s, at, steps, |s, at| super::alltoall(s, at, block));
}

/// Adds `steps`, which use the memory. Where it is not there yet, it is made before, and `otherwise` is for where that
/// fails.
fn with(
    s: &mut Schedule,
    at: Place,
    steps: impl FnOnce(&mut Schedule),
    otherwise: impl FnOnce(&mut Schedule, Place),
) {
    if at.memory == Memory::OneNode(Shared::Mapped) {
        return steps(s);
    }
    let agree = s.make(at);
    let mapped = s.steps.len();
    steps(s);
    let end = s.steps.len();
    s.steps.push(Step::Go { to: 0 });
    // (Those that are taken first begin at 0 themselves.)
    let mut others = Schedule::new();
    otherwise(&mut others, at.on_one_host());
    s.append_otherwise(others);
    if let Step::Agree { mapped: first, otherwise: second, .. } = &mut s.steps[agree] {
        (*first, *second) = (mapped, end + 1);
    }
    s.steps[end] = Step::Go { to: s.steps.len() };
}

impl Schedule {
    /// One makes the memory, all map it, and all hear whether all have. Gives where [`Step::Agree`] stands.
    fn make(&mut self, at: Place) -> usize {
        let (place, votes) = (scratch(0, PLACE_BYTES), scratch(PLACE_BYTES, at.size as usize));
        let own = votes.part(at.rank as usize, 1);
        self.touch(votes);
        if at.rank == 0 {
            self.steps.push(Step::Provide { into: place.at });
        }
        let free = (votes.at + votes.len).next_multiple_of(64);
        let spaces = Spaces { input: place, output: place, scratch_at: free };
        retarget(self, spaces, |part| bcast(part, at.apart(), 0, PLACE_BYTES));
        self.steps.push(Step::Map { place: place.at, into: own.at });
        let spaces = Spaces { input: own, output: votes, scratch_at: free };
        retarget(self, spaces, |part| allgather(part, at.apart(), 1));
        self.steps.push(Step::Agree { at: votes.at, members: at.size, mapped: 0, otherwise: 0 });
        self.steps.len() - 1
    }

    /// Lays something into the memory, and goes on when all have. What a process copies for itself it does meanwhile.
    fn through(&mut self, at: Place, meant: Meant, lay: &[(Slice, Slice)], own: Option<(Slice, Slice)>) {
        self.steps.push(Step::Declare { meant });
        lay.iter().for_each(|(from, into)| self.copy(*from, *into));
        let start = self.steps.len();
        let signals = scratch(PLACE_BYTES, at.size as usize);
        self.touch(signals);
        barrier_with(self, at.apart(), Signals::Bytes { at: signals.at });
        if let Some((from, into)) = own.filter(|(from, _)| from.len > 0) {
            let waits = |step: &Step| *step == Step::Wait;
            let first = self.steps[start..].iter().position(waits).unwrap_or(0);
            self.steps.insert(start + first, Step::Copy { from, into });
        }
        self.steps.push(Step::Compare { members: at.size });
    }

    /// Adds steps that are taken instead of others, wherever they stand.
    fn append_otherwise(&mut self, others: Schedule) {
        let base = self.steps.len();
        let moved = |to: usize| to + base;
        self.scratch_otherwise =
            self.scratch_otherwise.max(others.scratch_bytes).max(others.scratch_otherwise);
        self.steps.extend(others.steps.into_iter().map(|step| match step {
            Step::Decide { table, direct, messages } => {
                Step::Decide { table, direct: moved(direct), messages: moved(messages) }
            }
            Step::Go { to } => Step::Go { to: moved(to) },
            step => step,
        }));
    }
}
