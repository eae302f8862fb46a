//! Reduction to one process.
use super::bcast::{absolute, lowest_bit, relative};
use super::{Elements, Place, Schedule, Slice, input, output, scratch};

/// Combines everyone's `Input` into the root's `Output` along a binomial tree.
///
/// A tree rooted at rank 0 combines neighbouring ranges of ranks, so it keeps the order of operands; where order
/// does not matter the tree is rooted at the root, which saves a message.
pub fn reduce(s: &mut Schedule, at: Place, root: u32, data: Elements) {
    let top = if data.commutes { root } else { 0 };
    let bytes = data.bytes();
    let me = relative(at, top);
    let room = if at.rank == root { output(0, bytes) } else { scratch(0, bytes) };
    let result = combine_children(s, at, top, data, room);
    if me != 0 {
        s.send(absolute(at, top, me - lowest_bit(me, at.size)), result);
        s.wait();
    }
    match (at.rank == root, at.rank == top) {
        (true, true) => s.copy_unless_same(result, output(0, bytes)),
        (true, false) => {
            s.recv(top, output(0, bytes));
            s.wait();
        }
        (false, true) => {
            s.send(root, result);
            s.wait();
        }
        (false, false) => {}
    }
}

/// Combines the subtrees below this process; gives where the result is. `room` and a second area in scratch
/// take turns, because a left operand cannot be the target.
fn combine_children(s: &mut Schedule, at: Place, top: u32, data: Elements, room: Slice) -> Slice {
    let bytes = data.bytes();
    let me = relative(at, top);
    let mut acc = input(0, bytes);
    let mut spare = scratch(bytes, bytes);
    let mut mask = 1;
    let end = lowest_bit(me, at.size);
    while mask < end {
        if me + mask < at.size {
            if acc == input(0, bytes) && data.commutes {
                s.copy(acc, room);
                acc = room;
            }
            s.recv(absolute(at, top, me + mask), spare);
            s.wait();
            if data.commutes {
                s.reduce(spare, acc);
            } else {
                // The child's ranks are all higher: mine are the left operands.
                s.reduce(acc, spare);
                let free = if acc.space == super::Space::Input { scratch(0, bytes) } else { acc };
                (acc, spare) = (spare, free);
            }
        }
        mask <<= 1;
    }
    acc
}

impl Schedule {
    pub(super) fn copy_unless_same(&mut self, from: Slice, into: Slice) {
        if from != into {
            self.copy(from, into);
        }
    }
}
