//! Reduction to all processes.
use super::tree::Tree;
use super::tuning::{self, Allreduce, Exchange};
use super::{Elements, Place, Schedule, Slice, direct, input, output, power_of_two_below, scratch};

/// Combines everyone's `Input` into everyone's `Output`.
pub fn allreduce(s: &mut Schedule, at: Place, data: Elements) {
    let bytes = data.bytes();
    match tuning::allreduce(at, data) {
        Allreduce::Whole(how) => {
            let result = whole(s, at, data, how, output(0, bytes), 0);
            s.copy_unless_same(result, output(0, bytes));
        }
        Allreduce::Halving => halving(s, at, data),
        Allreduce::Direct => direct::allreduce(s, at, data),
    }
}

/// Combines without cutting the data. Works in `room` and in scratch from `spare_at` on; gives where the result is.
pub(super) fn whole(
    s: &mut Schedule,
    at: Place,
    data: Elements,
    how: Exchange,
    room: Slice,
    spare_at: usize,
) -> Slice {
    match how {
        Exchange::Doubling => doubling(s, at, data, room, scratch(spare_at, data.bytes())),
        Exchange::Tree { radix } => up_and_down(s, at, data, radix, room, spare_at),
    }
}

fn up_and_down(
    s: &mut Schedule,
    at: Place,
    data: Elements,
    radix: u32,
    room: Slice,
    spare_at: usize,
) -> Slice {
    let tree = Tree::new(at, 0, radix);
    let partial = tree.combine_up(s, data, input(0, data.bytes()), room, spare_at);
    match tree.parent() {
        Some(parent) => {
            s.send(parent, partial);
            s.wait();
            s.recv(parent, room);
            s.wait();
        }
        None => s.copy_unless_same(partial, room),
    }
    tree.send_down(s, room);
    room
}

/// A process's part in the power-of-two core of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Hands its data to the right neighbour and gets the result from it.
    Guest,
    /// In the core, under this number; `guest` is the left neighbour it speaks for.
    Core { number: u32, guest: Option<u32> },
}

/// Of the first `2 * extra` processes the even ones are guests of the odd ones: neighbours combine, so the
/// order of operands is kept.
fn role(at: Place) -> Role {
    let extra = at.size - power_of_two_below(at.size);
    match at.rank {
        rank if rank >= 2 * extra => Role::Core { number: rank - extra, guest: None },
        rank if rank % 2 == 0 => Role::Guest,
        rank => Role::Core { number: rank / 2, guest: Some(rank - 1) },
    }
}

fn rank_of(at: Place, number: u32) -> u32 {
    let extra = at.size - power_of_two_below(at.size);
    if number < extra { 2 * number + 1 } else { number + extra }
}

/// Exchanges everything with the partner at each distance. `a` and `b` are two areas to work in; gives the
/// one that holds the result.
fn doubling(s: &mut Schedule, at: Place, data: Elements, a: Slice, b: Slice) -> Slice {
    s.copy(input(0, data.bytes()), a);
    let (number, guest) = match role(at) {
        Role::Guest => {
            s.send(at.rank + 1, a);
            s.wait();
            s.recv(at.rank + 1, a);
            s.wait();
            return a;
        }
        Role::Core { number, guest } => (number, guest),
    };
    let (mut acc, mut spare) = (a, b);
    if let Some(guest) = guest {
        s.recv(guest, spare);
        s.wait();
        s.reduce(spare, acc);
    }
    let mut mask = 1;
    while mask < power_of_two_below(at.size) {
        let partner = rank_of(at, number ^ mask);
        s.exchange(partner, acc, spare);
        s.wait();
        if data.commutes || partner < at.rank {
            s.reduce(spare, acc);
        } else {
            s.reduce(acc, spare);
            (acc, spare) = (spare, acc);
        }
        mask <<= 1;
    }
    if let Some(guest) = guest {
        s.send(guest, acc);
        s.wait();
    }
    acc
}

/// Each core process ends up with the sum of one piece (halving the range at each distance), then pieces are
/// gathered on the way back (Rabenseifner). The order of operands is lost.
fn halving(s: &mut Schedule, at: Place, data: Elements) {
    let bytes = data.bytes();
    let (acc, spare) = (output(0, bytes), scratch(0, bytes));
    s.copy(input(0, bytes), acc);
    let (number, guest) = match role(at) {
        Role::Guest => {
            s.send(at.rank + 1, acc);
            s.wait();
            s.recv(at.rank + 1, acc);
            s.wait();
            return;
        }
        Role::Core { number, guest } => (number, guest),
    };
    if let Some(guest) = guest {
        s.recv(guest, spare);
        s.wait();
        s.reduce(spare, acc);
    }
    let core = power_of_two_below(at.size);
    let start = |piece: u32| {
        let (piece, core) = (piece as usize, core as usize);
        (piece * (data.count / core) + piece.min(data.count % core)) * data.unit
    };
    let span = |of: Slice, first: u32, len: u32| of.part(start(first), start(first + len) - start(first));
    let mut mask = core / 2;
    while mask > 0 {
        let (keep, give) = (number & !(mask - 1), (number ^ mask) & !(mask - 1));
        let partner = rank_of(at, number ^ mask);
        s.recv(partner, span(spare, keep, mask));
        s.send(partner, span(acc, give, mask));
        s.wait();
        s.reduce(span(spare, keep, mask), span(acc, keep, mask));
        mask /= 2;
    }
    mask = 1;
    while mask < core {
        let (have, want) = (number & !(mask - 1), (number ^ mask) & !(mask - 1));
        let partner = rank_of(at, number ^ mask);
        s.recv(partner, span(acc, want, mask));
        s.send(partner, span(acc, have, mask));
        s.wait();
        mask *= 2;
    }
    if let Some(guest) = guest {
        s.send(guest, acc);
        s.wait();
    }
}
