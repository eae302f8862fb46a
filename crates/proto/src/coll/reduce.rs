//! Reduction to one process.
use super::tree::Tree;
use super::tuning::{self, Reduce};
use super::{Elements, Place, Schedule, Slice, direct, input, output, scratch};

/// Combines everyone's `Input` into the root's `Output`.
///
/// A tree whose top is rank 0 combines neighbouring ranges of ranks, so it keeps the order of operands; where order
/// does not matter the top is the root, which saves a message.
pub fn reduce(s: &mut Schedule, at: Place, root: u32, data: Elements) {
    let radix = match tuning::reduce(at, data) {
        Reduce::Tree { radix } => radix,
        Reduce::Direct => return direct::reduce(s, at, root, data),
    };
    let top = if data.commutes { root } else { 0 };
    let bytes = data.bytes();
    let tree = Tree::new(at, top, radix);
    let room = if at.rank == root { output(0, bytes) } else { scratch(0, bytes) };
    let result = tree.combine_up(s, data, input(0, bytes), room, bytes);
    if let Some(parent) = tree.parent() {
        s.send(parent, result);
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

impl Schedule {
    pub(super) fn copy_unless_same(&mut self, from: Slice, into: Slice) {
        if from != into {
            self.copy(from, into);
        }
    }
}
