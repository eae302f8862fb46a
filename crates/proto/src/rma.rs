//! In which order, and in which messages, the operations of an access epoch leave for their target.
//!
//! Within an epoch nothing orders puts and gets, which may wait, overtake each other and travel together; accumulates
//! keep their order (MPI-5 12.7.2). An [`Epoch`] has the operations towards one target. It holds those that gain by waiting,
//! and says what leaves:
//!
//! | policy | what it does |
//! |---|---|
//! | issue | nothing waits |
//! | interleave | puts and gets alternate, so that both directions of a link are busy |
//! | gets-first | who waits for gets waits less |
//! | aggregate | small operations share a message; large ones do not wait |
//! | auto | small operations share a message, with the synchronization if they can; requests of gets overtake large puts |
//!
//! The first four are the schemes of Huang, Santhanaraman, Jin and Panda (*Scheduling of MPI-2 One Sided Operations over
//! InfiniBand*), each by itself; the last one is what they add up to. It is not known here how an operation is carried
//! out, nor when it has ended.
//!
//! [`wire`] is what these messages look like, [`flow`] how much of them is under way, [`lock`] the word that says who may access
//! a process's memory, [`queue`] who waits for it, and [`server`] which messages go to a node's data server.
pub mod flow;
pub mod lock;
pub mod queue;
pub mod server;
#[cfg(test)]
mod tests;
pub mod wire;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Longest operation that shares a message, each way.
pub const SMALL: usize = 8 << 10;
/// Most bytes of a message that operations share, each way: longer ones gain nothing more by it.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// What an operation takes in a message besides its data.
pub const OPERATION_BYTES: usize = 64;
/// What is left in every shared message for the word of a synchronization.
pub const SYNCHRONIZATION_BYTES: usize = 64;
/// Most operations of an epoch that are held, and most bytes of them, both ways together.
pub const HELD_COUNT: usize = 4096;
/// See [`HELD_COUNT`].
pub const HELD_BYTES: usize = 64 << 20;

// Small operations always find room in a message.
const _: () = assert!(SMALL + OPERATION_BYTES + SYNCHRONIZATION_BYTES <= MESSAGE_BYTES);

/// How operations of an epoch are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As they are issued, at once.
    Issue,
    /// A get, a put, a get, and so on.
    Interleave,
    /// Gets, then puts.
    GetsFirst,
    /// As they are issued, small ones together.
    Aggregate,
    /// By what they are.
    #[default]
    Auto,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] =
        [Policy::Issue, Policy::Interleave, Policy::GetsFirst, Policy::Aggregate, Policy::Auto];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 5] = ["issue", "interleave", "gets-first", "aggregate", "auto"];

    /// The policy with this name.
    pub fn parse(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// What a user calls it.
    pub fn name(self) -> &'static str {
        Policy::NAMES[self as usize]
    }

    /// Do small operations share messages?
    fn shares(self) -> bool {
        matches!(self, Policy::Aggregate | Policy::Auto)
    }
}

/// What an operation does at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Writes.
    Put,
    /// Reads.
    Get,
    /// Combines, and may read what was there. Updates keep their order among themselves.
    Update,
}

/// An operation as the schedule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The caller's number for it.
    pub number: u32,
    /// What it does.
    pub direction: Direction,
    /// Bytes towards the target: data, and what says where it goes, if that is long.
    pub out: usize,
    /// Bytes that come back.
    pub back: usize,
    /// Can it do without the target's processor: bytes in a row, at an address that is known?
    pub direct: bool,
}

impl Operation {
    fn is_small(&self) -> bool {
        self.out <= SMALL && self.back <= SMALL
    }

    fn bytes(&self) -> usize {
        self.out.saturating_add(self.back)
    }

    /// As a step of its own.
    fn alone(&self) -> Step {
        if self.direct { Step::Direct(self.number) } else { Step::Together(vec![self.number]) }
    }
}

/// What leaves next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These operations, in this order, in one message. One that is not small has a message of its own.
    Together(Vec<u32>),
    /// This one by itself, direct.
    Direct(u32),
}

/// The operations of an access epoch towards one target that are held. See the module's head.
///
/// Steps are appended to a vector of the caller's, and leave in their order. An operation that is held costs no
/// allocation beyond its place.
#[derive(Clone, Debug, Default)]
pub struct Epoch {
    policy: Policy,
    /// Gets.
    gets: Lane,
    /// Puts and updates, as they were issued. Without the large puts of [`Policy::Auto`], but with the gets of
    /// [`Policy::Aggregate`].
    rest: Lane,
    /// Large puts of [`Policy::Auto`].
    puts: Lane,
    small_last: bool,
}

impl Epoch {
    /// An epoch without operations.
    pub fn new(policy: Policy) -> Self {
        Epoch { policy, ..Epoch::default() }
    }

    /// A new operation. What this appends has to leave now; if it is nothing, the operation is held.
    pub fn add(&mut self, op: Operation, steps: &mut Vec<Step>) {
        let is_get = op.direction == Direction::Get;
        match self.policy {
            Policy::Issue => steps.push(op.alone()),
            Policy::Interleave | Policy::GetsFirst if is_get => self.gets.hold(op),
            Policy::Interleave | Policy::GetsFirst => self.rest.hold(op),
            Policy::Aggregate if op.is_small() => self.rest.fill(op, steps),
            Policy::Aggregate => {
                if op.direction == Direction::Update && self.rest.has_update() {
                    self.rest.pack(steps);
                }
                steps.push(op.alone());
            }
            Policy::Auto => self.add_by_kind(op, steps),
        }
        if self.held_count() > HELD_COUNT || self.held_bytes() > HELD_BYTES {
            self.release(steps);
        }
    }

    /// As [`Policy::Auto`] has it.
    fn add_by_kind(&mut self, op: Operation, steps: &mut Vec<Step>) {
        match (op.direction, op.is_small()) {
            (Direction::Get, true) => self.gets.fill(op, steps),
            // Its request is short, and what it brings has the other direction of the link for itself.
            (Direction::Get, false) => steps.push(op.alone()),
            (Direction::Put | Direction::Update, true) => self.rest.fill(op, steps),
            (Direction::Update, false) => self.rest.hold(op),
            // Not before the requests of gets that come behind it.
            (Direction::Put, false) => self.puts.hold(op),
        }
    }

    /// A synchronization comes: everything that is held leaves, before what is added later. The word of the synchronization
    /// goes with the last message if [`Epoch::small_last`] says so, or else behind it.
    pub fn close(&mut self, steps: &mut Vec<Step>) {
        let shares = self.policy.shares();
        self.small_last = self.last().is_some_and(|op| op.is_small() && (shares || !op.direct));
        self.release(steps);
    }

    /// Was the last step of the last [`Epoch::close`] a message that has [`SYNCHRONIZATION_BYTES`] left?
    pub fn small_last(&self) -> bool {
        self.small_last
    }

    /// An operation is waited for: it leaves now, with what must leave before it, and what shares its message anyway. Nothing
    /// happens if it has left.
    pub fn urge(&mut self, number: u32, steps: &mut Vec<Step>) {
        let lanes = [&mut self.gets, &mut self.rest, &mut self.puts];
        let held = lanes.into_iter().find_map(|lane| lane.find(number).map(|at| (lane, at)));
        let Some((lane, at)) = held else { return };
        let op = lane.operations[at];
        if self.policy.shares() && (op.is_small() || op.direction == Direction::Update) {
            lane.pack_until(Some(number), steps);
        } else {
            lane.take(at, steps);
        }
    }

    /// Is nothing held?
    pub fn is_empty(&self) -> bool {
        self.held_count() == 0
    }

    /// Bytes of the operations that are held, both ways together.
    pub fn held_bytes(&self) -> usize {
        self.lanes().iter().fold(0, |sum, lane| sum.saturating_add(lane.bytes))
    }

    fn held_count(&self) -> usize {
        self.lanes().iter().map(|lane| lane.operations.len()).sum()
    }

    fn lanes(&self) -> [&Lane; 3] {
        [&self.gets, &self.rest, &self.puts]
    }

    /// Everything leaves.
    fn release(&mut self, steps: &mut Vec<Step>) {
        match self.policy {
            Policy::Issue => {}
            Policy::Interleave => alternate(self.gets.drain(), self.rest.drain(), steps),
            Policy::GetsFirst => steps.extend(self.gets.drain().chain(self.rest.drain())),
            Policy::Aggregate => self.rest.pack(steps),
            Policy::Auto => {
                self.gets.pack(steps);
                self.release_outward(steps);
            }
        }
    }

    /// The target's processor takes small operations out of their messages while large ones flow past it. The last message
    /// is kept for the synchronization.
    fn release_outward(&mut self, steps: &mut Vec<Step>) {
        if self.puts.operations.is_empty() {
            return self.rest.pack(steps);
        }
        let mut messages = Vec::new();
        self.rest.pack(&mut messages);
        let last = messages.pop();
        alternate(messages.into_iter(), self.puts.drain(), steps);
        steps.extend(last);
    }

    /// The operation that [`Epoch::release`] has leave last.
    fn last(&self) -> Option<&Operation> {
        let [gets, rest, puts] = self.lanes().map(|lane| lane.operations.back());
        match self.policy {
            Policy::Interleave if self.gets.operations.len() > self.rest.operations.len() => gets,
            _ => rest.or(puts).or(gets),
        }
    }
}

/// Takes from both in turn, from `first` first, until both have no more.
fn alternate(
    mut first: impl Iterator<Item = Step>,
    mut second: impl Iterator<Item = Step>,
    steps: &mut Vec<Step>,
) {
    loop {
        let before = steps.len();
        steps.extend(first.next().into_iter().chain(second.next()));
        if steps.len() == before {
            return;
        }
    }
}

/// What a message holds, each way.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    out: usize,
    back: usize,
}

impl Load {
    /// With one more operation, if there is room for it.
    fn with(self, op: &Operation) -> Option<Load> {
        let answer = if op.back > 0 { op.back + OPERATION_BYTES } else { 0 };
        let load = Load { out: self.out + op.out + OPERATION_BYTES, back: self.back + answer };
        let most = MESSAGE_BYTES - SYNCHRONIZATION_BYTES;
        (load.out <= most && load.back <= most).then_some(load)
    }
}

/// Operations that leave in the order in which they came.
#[derive(Clone, Debug, Default)]
struct Lane {
    operations: VecDeque<Operation>,
    bytes: usize,
    /// Of the last message that the lane would make: of the small operations at its end.
    load: Load,
}

impl Lane {
    /// Holds an operation that has a step of its own.
    fn hold(&mut self, op: Operation) {
        self.push(op);
        self.load = Load::default();
    }

    /// Holds a small operation. If its message has no room for it, that leaves, with all before it: it would gain nothing more
    /// by waiting.
    fn fill(&mut self, op: Operation, steps: &mut Vec<Step>) {
        let load = self.load.with(&op).or_else(|| {
            self.pack(steps);
            Load::default().with(&op)
        });
        self.push(op);
        self.load = load.unwrap_or_default();
    }

    fn push(&mut self, op: Operation) {
        self.bytes = self.bytes.saturating_add(op.bytes());
        self.operations.push_back(op);
    }

    fn find(&self, number: u32) -> Option<usize> {
        self.operations.iter().position(|op| op.number == number)
    }

    fn has_update(&self) -> bool {
        self.operations.iter().any(|op| op.direction == Direction::Update)
    }

    /// All of it, each operation by itself.
    fn drain(&mut self) -> impl Iterator<Item = Step> + '_ {
        (self.bytes, self.load) = (0, Load::default());
        self.operations.drain(..).map(|op| op.alone())
    }

    /// All of it, small operations together.
    fn pack(&mut self, steps: &mut Vec<Step>) {
        self.pack_until(None, steps);
    }

    /// As [`Lane::pack`], to the message that has an operation.
    fn pack_until(&mut self, number: Option<u32>, steps: &mut Vec<Step>) {
        let (mut open, mut found) = (None, false);
        while let Some(&op) = self.operations.front() {
            let joined = open.filter(|_| op.is_small()).and_then(|load: Load| load.with(&op));
            match (joined, steps.last_mut()) {
                (Some(_), Some(Step::Together(numbers))) => numbers.push(op.number),
                _ if found => break,
                _ if op.is_small() => steps.push(Step::Together(vec![op.number])),
                _ => steps.push(op.alone()),
            }
            open = joined.or_else(|| if op.is_small() { Load::default().with(&op) } else { None });
            found |= Some(op.number) == number;
            self.bytes = self.bytes.saturating_sub(op.bytes());
            self.operations.pop_front();
        }
        if self.operations.is_empty() {
            (self.bytes, self.load) = (0, Load::default());
        }
    }

    /// The operation at a place leaves by itself. Of an update, those before it leave first.
    fn take(&mut self, place: usize, steps: &mut Vec<Step>) {
        let is_update = |op: &Operation| op.direction == Direction::Update;
        let with_others = is_update(&self.operations[place]);
        let mut at = 0;
        self.operations.retain(|op| {
            let leaves = at == place || at < place && with_others && is_update(op);
            at += 1;
            if leaves {
                self.bytes = self.bytes.saturating_sub(op.bytes());
                steps.push(op.alone());
            }
            !leaves
        });
    }
}
