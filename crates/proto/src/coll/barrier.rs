//! Barrier.
use super::{Place, Schedule, power_of_two_below, scratch};

/// Nobody leaves before everybody has come.
///
/// Exchanges with the partner at `rank ^ 2^k`, not dissemination: it needs half as many connections. Processes
/// beyond the largest power of two report to one below and are told at the end.
pub fn barrier(s: &mut Schedule, at: Place) {
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
        s.signal(at.rank ^ mask, scratch(0, 0));
        hear(s, at.rank ^ mask);
        mask <<= 1;
    }
    if at.rank < extra {
        tell(s, at.rank + core);
    }
}

fn tell(s: &mut Schedule, to: u32) {
    s.signal(to, scratch(0, 0));
    s.wait();
}

fn hear(s: &mut Schedule, from: u32) {
    s.await_signal(from, scratch(0, 0));
    s.wait();
}
