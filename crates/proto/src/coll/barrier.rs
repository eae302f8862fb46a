//! Barrier.
use super::tree::Tree;
use super::tuning::{self, Exchange};
use super::{Place, Schedule, Slice, power_of_two_below, scratch};

/// Nobody leaves before everybody has come.
pub fn barrier(s: &mut Schedule, at: Place) {
    match tuning::barrier(at) {
        Exchange::Doubling => doubling(s, at),
        Exchange::Tree { radix } => tree(s, at, radix),
    }
}

fn tree(s: &mut Schedule, at: Place, radix: u32) {
    report(s, at, radix);
    release(s, at, radix);
}

/// Rank 0 hears that everybody has come.
pub(super) fn report(s: &mut Schedule, at: Place, radix: u32) {
    let tree = Tree::new(at, 0, radix);
    for level in tree.levels() {
        tree.children(level).for_each(|child| s.await_signal(child, nothing()));
    }
    s.wait();
    if let Some(parent) = tree.parent() {
        tell(s, parent);
    }
}

/// Everybody hears from rank 0.
pub(super) fn release(s: &mut Schedule, at: Place, radix: u32) {
    let tree = Tree::new(at, 0, radix);
    if let Some(parent) = tree.parent() {
        hear(s, parent);
    }
    for level in tree.levels().rev() {
        tree.children(level).for_each(|child| s.signal(child, nothing()));
    }
    s.wait();
}

/// Exchanges with the partner at `rank ^ 2^k`, not dissemination: it needs half as many connections. Processes
/// beyond the largest power of two report to one below and are told at the end.
fn doubling(s: &mut Schedule, at: Place) {
    let core = power_of_two_below(at.size);
    let extra = at.size - core;
    if at.rank >= core {
        tell(s, at.rank - core);
        hear(s, at.rank - core);
        return;
    }
    if at.rank < extra {
        hear(s, at.rank + core);
    }
    let mut mask = 1;
    while mask < core {
        s.signal(at.rank ^ mask, nothing());
        hear(s, at.rank ^ mask);
        mask <<= 1;
    }
    if at.rank < extra {
        tell(s, at.rank + core);
    }
}

fn nothing() -> Slice {
    scratch(0, 0)
}

fn tell(s: &mut Schedule, to: u32) {
    s.signal(to, nothing());
    s.wait();
}

fn hear(s: &mut Schedule, from: u32) {
    s.await_signal(from, nothing());
    s.wait();
}
