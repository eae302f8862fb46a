//! Barrier.
use super::tree::Tree;
use super::tuning::{self, Exchange};
use super::{Place, Schedule, Slice, power_of_two_below, scratch};

/// Nobody leaves before everybody has come.
pub fn barrier(s: &mut Schedule, at: Place) {
    barrier_with(s, at, Signals::Empty);
}

/// What the messages of a barrier carry.
#[derive(Clone, Copy)]
pub(super) enum Signals {
    /// Nothing.
    Empty,
    /// A byte from and to scratch, of which there is one for each rank from here on: one that sends none has failed.
    Bytes { at: usize },
}

impl Signals {
    fn of(self, rank: u32) -> Slice {
        match self {
            Signals::Empty => scratch(0, 0),
            Signals::Bytes { at } => scratch(at + rank as usize, 1),
        }
    }
}

/// As [`barrier`], with messages of some sort.
pub(super) fn barrier_with(s: &mut Schedule, at: Place, signals: Signals) {
    match tuning::barrier(at) {
        Exchange::Doubling => doubling(s, at, signals),
        Exchange::Tree { radix } => {
            report_with(s, at, radix, signals);
            release_with(s, at, radix, signals);
        }
    }
}

/// Rank 0 hears that everybody has come.
pub(super) fn report(s: &mut Schedule, at: Place, radix: u32) {
    report_with(s, at, radix, Signals::Empty);
}

fn report_with(s: &mut Schedule, at: Place, radix: u32, signals: Signals) {
    let tree = Tree::new(at, 0, radix);
    for level in tree.levels() {
        tree.children(level).for_each(|child| s.await_signal(child, signals.of(child)));
    }
    s.wait();
    if let Some(parent) = tree.parent() {
        tell(s, parent, signals.of(at.rank));
    }
}

/// Everybody hears from rank 0.
pub(super) fn release(s: &mut Schedule, at: Place, radix: u32) {
    release_with(s, at, radix, Signals::Empty);
}

fn release_with(s: &mut Schedule, at: Place, radix: u32, signals: Signals) {
    let tree = Tree::new(at, 0, radix);
    if let Some(parent) = tree.parent() {
        hear(s, parent, signals.of(parent));
    }
    for level in tree.levels().rev() {
        tree.children(level).for_each(|child| s.signal(child, signals.of(at.rank)));
    }
    s.wait();
}

/// Exchanges with the partner at `rank ^ 2^k`, not dissemination: it needs half as many connections. Processes
/// beyond the largest power of two report to one below and are told at the end.
fn doubling(s: &mut Schedule, at: Place, signals: Signals) {
    let own = signals.of(at.rank);
    let core = power_of_two_below(at.size);
    let extra = at.size - core;
    if at.rank >= core {
        tell(s, at.rank - core, own);
        hear(s, at.rank - core, signals.of(at.rank - core));
        return;
    }
    if at.rank < extra {
        hear(s, at.rank + core, signals.of(at.rank + core));
    }
    let mut mask = 1;
    while mask < core {
        s.signal(at.rank ^ mask, own);
        hear(s, at.rank ^ mask, signals.of(at.rank ^ mask));
        mask <<= 1;
    }
    if at.rank < extra {
        tell(s, at.rank + core, own);
    }
}

fn tell(s: &mut Schedule, to: u32, what: Slice) {
    s.signal(to, what);
    s.wait();
}

fn hear(s: &mut Schedule, from: u32, into: Slice) {
    s.await_signal(from, into);
    s.wait();
}
