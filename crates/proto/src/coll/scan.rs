//! Reductions over the processes before this one.
use super::{Elements, Place, Schedule, input, output, scratch};

/// Combines the `Input` of ranks up to and including this one into `Output`.
pub fn scan(s: &mut Schedule, at: Place, data: Elements) {
    prefix(s, at, data, Own::Included);
}

/// Combines the `Input` of ranks below this one into `Output`, which stays untouched on rank 0.
pub fn exscan(s: &mut Schedule, at: Place, data: Elements) {
    prefix(s, at, data, Own::Excluded);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Included,
    Excluded,
}

/// Exchanges the sums of whole ranges with the partner at each distance; what comes from the left also
/// extends the result to the left. The order of operands is always kept.
fn prefix(s: &mut Schedule, at: Place, data: Elements, own: Own) {
    let bytes = data.bytes();
    let result = output(0, bytes);
    let (mut acc, mut spare) = (scratch(0, bytes), scratch(bytes, bytes));
    s.copy(input(0, bytes), acc);
    let mut started = own == Own::Included;
    if started {
        s.copy(input(0, bytes), result);
    }
    let mut mask = 1;
    while mask < at.size {
        let partner = at.rank ^ mask;
        mask <<= 1;
        if partner >= at.size {
            continue;
        }
        s.exchange(partner, acc, spare);
        s.wait();
        if partner > at.rank {
            s.reduce(acc, spare);
            (acc, spare) = (spare, acc);
            continue;
        }
        if started {
            s.reduce(spare, result);
        } else {
            s.copy(spare, result);
            started = true;
        }
        s.reduce(spare, acc);
    }
}
