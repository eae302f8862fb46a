//! Collective operations as schedules: who sends which bytes to whom, and what is combined when.
//!
//! A builder takes the process's place, the sizes and an algorithm, and fills a [`Schedule`]: a list of
//! [`Step`]s over three abstract buffers. Nothing here touches memory or messages; whoever runs a schedule
//! does. Blocking, non-blocking and persistent operations run the same schedules.
//!
//! Rules that builders keep and runners rely on:
//! - messages between two processes match in the order in which both sides list them;
//! - a slice that is being sent is not written, one being received is not touched, until the next `Wait`;
//! - `Input` is never written. It may be the same memory as the place in `Output` where its bytes end up
//!   (an operation "in place"), so it is read before that place is written.
//! - messages of no bytes are not sent, except by [`barrier`].
//!
//! All choices between algorithms are made in [`tuning`]. Where a group lives on several hosts, [`Hosts`] has the same
//! operations in two levels, so that one process of each host talks to the others.
use alloc::vec::Vec;

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
pub mod common;
mod direct;
mod gather;
mod hosts;
pub mod inter;
pub mod meeting;
mod neighbors;
mod reduce;
mod reduce_scatter;
mod scan;
#[cfg(test)]
mod simulation;
pub mod token;
mod tree;
pub mod tuning;

pub use allgather::{allgather, allgatherv};
pub use allreduce::allreduce;
pub use alltoall::{alltoall, alltoallv};
pub use barrier::barrier;
pub use bcast::bcast;
pub use gather::{gather, gatherv, scatter, scatterv};
pub use hosts::Hosts;
pub use neighbors::{Edge, neighbors};
pub use reduce::reduce;
pub use reduce_scatter::reduce_scatter;
pub use scan::{exscan, scan};

/// Where a process stands in the group that runs the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rank in the group.
    pub rank: u32,
    /// Size of the group, at least 1.
    pub size: u32,
    /// What its processes run on; the same for all.
    pub cores: Cores,
    /// Whether they may reach each other's memory; the same for all.
    pub memory: Memory,
}

/// What waiting costs the processes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Every process has its core: a waiting one disturbs nobody.
    Own,
    /// Processes take turns: every wait for a message may cost a switch to another process.
    Shared,
}

/// How the memories of a group's processes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Each for itself: bytes travel in messages.
    Apart,
    /// On one host, where a process may be able to read and write the memory of another.
    OneHost,
    /// The same, and they may have memory that all of them map: see [`common`].
    OneNode(Shared),
}

/// What is known of memory that the processes of a group map together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Nobody has made it yet.
    Untried,
    /// All have mapped it.
    Mapped,
}

impl Place {
    /// The same place, where processes at most reach into each other's memory.
    fn on_one_host(self) -> Place {
        Place { memory: Memory::OneHost, ..self }
    }

    /// The same place, where bytes travel in messages.
    fn apart(self) -> Place {
        Place { memory: Memory::Apart, ..self }
    }

    /// All other ranks, beginning with the right neighbour: so not everybody begins with the same.
    fn others(self) -> impl Iterator<Item = u32> {
        (1..self.size).map(move |distance| self.right(distance))
    }

    /// The rank at a distance to the right, around the end.
    fn right(self, distance: u32) -> u32 {
        (self.rank + distance) % self.size
    }

    /// The rank at a distance to the left, around the end.
    fn left(self, distance: u32) -> u32 {
        (self.rank + self.size - distance % self.size) % self.size
    }
}

/// The buffers of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// What the process contributes. Read only.
    Input,
    /// Where the result goes.
    Output,
    /// Working memory of [`Schedule::scratch_bytes`].
    Scratch,
    /// The half of the group's memory that is this operation's: see [`common`]. All processes have the same.
    Common,
}

/// Some bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which buffer.
    pub space: Space,
    /// First byte.
    pub at: usize,
    /// Number of bytes.
    pub len: usize,
}

impl Slice {
    fn part(self, at: usize, len: usize) -> Slice {
        debug_assert!(at + len <= self.len);
        Slice { space: self.space, at: self.at + at, len }
    }
}

fn input(at: usize, len: usize) -> Slice {
    Slice { space: Space::Input, at, len }
}

fn output(at: usize, len: usize) -> Slice {
    Slice { space: Space::Output, at, len }
}

fn scratch(at: usize, len: usize) -> Slice {
    Slice { space: Space::Scratch, at, len }
}

/// Behind the words by which processes compare what they mean.
fn laid(at: usize, len: usize) -> Slice {
    Slice { space: Space::Common, at: common::WORDS_BYTES + at, len }
}

/// Where a buffer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Which buffer.
    pub space: Space,
    /// First byte.
    pub at: usize,
}

/// One of the two buffers that a process shows to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What it contributes.
    Input,
    /// Where its result goes.
    Output,
}

/// A place in the memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Whose: the number of its token in the table.
    pub member: u32,
    /// In which of its buffers.
    pub shown: Shown,
    /// First byte.
    pub at: usize,
}

/// The tokens of all members, one after the other in scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// First byte.
    pub at: usize,
    /// How many.
    pub members: u32,
}

/// One thing to do.
///
/// Those from [`Step::Show`] to [`Step::Write`] are for processes that reach each other's memory, which they first have to find
/// out: see [`token`]. Those from [`Step::Provide`] to [`Step::Compare`] are for processes that map memory together: see
/// [`common`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Start to send.
    Send {
        /// Receiver.
        to: u32,
        /// What.
        from: Slice,
    },
    /// Start to receive.
    Recv {
        /// Sender.
        from: u32,
        /// Where to.
        into: Slice,
    },
    /// Copy; lengths are equal. The slices are disjoint or the same memory.
    Copy {
        /// Source.
        from: Slice,
        /// Target.
        into: Slice,
    },
    /// `into = from op into`, element by element: `from` holds the left operands.
    Reduce {
        /// Left operands.
        from: Slice,
        /// Right operands, then the results.
        into: Slice,
    },
    /// Go on only when everything started so far is complete.
    Wait,
    /// Write this process's token.
    Show {
        /// The buffers that others may reach.
        input: Start,
        /// See `input`.
        output: Start,
        /// The operation: all must mean the same.
        meant: token::Meant,
        /// Where to in scratch.
        into: usize,
    },
    /// Go on at one of two steps as all tokens say, or at the next one if somebody has to [`Step::Try`] first.
    Decide {
        /// The tokens.
        table: Table,
        /// The step at which memory is reached directly.
        direct: usize,
        /// The step at which messages do the same.
        messages: usize,
    },
    /// Try to reach everybody's memory; the next token tells the outcome.
    Try {
        /// The tokens.
        table: Table,
    },
    /// Copy from another process.
    Read {
        /// Source.
        from: Remote,
        /// The tokens.
        table: Table,
        /// Target.
        into: Slice,
    },
    /// Copy to another process.
    Write {
        /// Source.
        from: Slice,
        /// The tokens.
        table: Table,
        /// Target.
        into: Remote,
    },
    /// Make memory for the group, and write where it is.
    Provide {
        /// Where to in scratch: [`common::PLACE_BYTES`].
        into: usize,
    },
    /// Map what one of them has made, and write a byte: whether that was possible.
    Map {
        /// Where it is, in scratch.
        place: usize,
        /// Where to in scratch.
        into: usize,
    },
    /// Go on at one of two steps as the bytes of all say.
    Agree {
        /// The first of them, in scratch.
        at: usize,
        /// How many.
        members: u32,
        /// The step at which all have mapped it.
        mapped: usize,
        /// The step at which other ways do the same.
        otherwise: usize,
    },
    /// Take the other half of the memory than the last operation that used it, and write what this one is.
    Declare {
        /// As the others have to mean it too.
        meant: token::Meant,
    },
    /// Have all written the same?
    Compare {
        /// How many.
        members: u32,
    },
    /// Make queue pairs for others, and write what they have to know: see [`meeting`].
    Offer {
        /// Whom the record in each slot of scratch is for.
        slots: meeting::Slots,
        /// Bytes of a record.
        record: usize,
    },
    /// Connect to those who have told of theirs.
    Meet {
        /// Whom the record in each slot of scratch is from.
        slots: meeting::Slots,
        /// Bytes of a record.
        record: usize,
    },
    /// Go on at another step.
    Go {
        /// Which.
        to: usize,
    },
}

/// A list of steps. Meant to be reused: [`Schedule::clear`] keeps the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
    scratch_bytes: usize,
    /// Of the steps that are taken only where memory cannot be reached.
    scratch_otherwise: usize,
}

impl Schedule {
    /// No steps.
    pub const fn new() -> Self {
        Schedule { steps: Vec::new(), scratch_bytes: 0, scratch_otherwise: 0 }
    }

    /// Forgets the steps, keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        (self.scratch_bytes, self.scratch_otherwise) = (0, 0);
    }

    /// What to do, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How much working memory the steps use.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// The same once [`Step::Decide`] has decided for messages. What is in it may move then.
    pub fn scratch_bytes_otherwise(&self) -> usize {
        self.scratch_bytes.max(self.scratch_otherwise)
    }

    fn send(&mut self, to: u32, from: Slice) {
        if from.len > 0 {
            self.signal(to, from);
        }
    }

    fn recv(&mut self, from: u32, into: Slice) {
        if into.len > 0 {
            self.await_signal(from, into);
        }
    }

    fn signal(&mut self, to: u32, from: Slice) {
        self.touch(from);
        self.steps.push(Step::Send { to, from });
    }

    fn await_signal(&mut self, from: u32, into: Slice) {
        self.touch(into);
        self.steps.push(Step::Recv { from, into });
    }

    /// Sends and receives. Small messages leave at once, so the partner gets them sooner if the send comes first;
    /// of large ones the receive should be known before they arrive.
    fn exchange(&mut self, partner: u32, from: Slice, into: Slice) {
        if from.len <= tuning::SEND_FIRST_BYTES {
            self.send(partner, from);
            self.recv(partner, into);
        } else {
            self.recv(partner, into);
            self.send(partner, from);
        }
    }

    fn copy(&mut self, from: Slice, into: Slice) {
        debug_assert_eq!(from.len, into.len);
        if from.len > 0 {
            self.touch(from);
            self.touch(into);
            self.steps.push(Step::Copy { from, into });
        }
    }

    fn reduce(&mut self, from: Slice, into: Slice) {
        debug_assert_eq!(from.len, into.len);
        if from.len > 0 {
            self.touch(from);
            self.touch(into);
            self.steps.push(Step::Reduce { from, into });
        }
    }

    fn wait(&mut self) {
        self.steps.push(Step::Wait);
    }

    fn touch(&mut self, slice: Slice) {
        if slice.space == Space::Scratch {
            self.scratch_bytes = self.scratch_bytes.max(slice.at + slice.len);
        }
    }
}

/// The data of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub unit: usize,
    /// May operands change places?
    pub commutes: bool,
    /// Where this process's own are.
    pub operands: Operands,
}

/// Where a process's own operands of a reduction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Not where its result goes.
    Apart,
    /// `Input` and `Output` begin at the same byte.
    InPlace,
}

impl Elements {
    /// Bytes of all.
    pub fn bytes(self) -> usize {
        self.count * self.unit
    }
}

/// A process's block of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub at: usize,
    /// Number of bytes.
    pub len: usize,
}

/// The blocks of all processes.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// One after the other, each of this many bytes.
    Equal(usize),
    /// Anywhere, by rank.
    Listed(&'a [Block]),
}

impl Blocks<'_> {
    fn of(self, rank: u32) -> Block {
        match self {
            Blocks::Equal(len) => Block { at: rank as usize * len, len },
            Blocks::Listed(blocks) => blocks[rank as usize],
        }
    }

    fn input(self, rank: u32) -> Slice {
        let block = self.of(rank);
        input(block.at, block.len)
    }

    fn output(self, rank: u32) -> Slice {
        let block = self.of(rank);
        output(block.at, block.len)
    }
}

/// The largest power of two that is at most `size`.
fn power_of_two_below(size: u32) -> u32 {
    1 << size.ilog2()
}
