//! Broadcast. The data is in `Output` on every process, the root included.
use super::allgather::ring_of;
use super::tree::Tree;
use super::tuning::{self, Bcast};
use super::{Place, Schedule, common, direct, output};

/// Gives the root's `bytes` to all.
pub fn bcast(s: &mut Schedule, at: Place, root: u32, bytes: usize) {
    match tuning::bcast(at, bytes) {
        Bcast::Tree { radix } => tree(s, at, root, bytes, radix),
        Bcast::ScatterAllgather => scatter_allgather(s, at, root, bytes),
        Bcast::Direct => direct::bcast(s, at, root, bytes),
        Bcast::Common => common::broadcast(s, at, root, bytes),
    }
}

fn tree(s: &mut Schedule, at: Place, root: u32, bytes: usize, radix: u32) {
    let tree = Tree::new(at, root, radix);
    if let Some(parent) = tree.parent() {
        s.recv(parent, output(0, bytes));
        s.wait();
    }
    tree.send_down(s, output(0, bytes));
}

/// Scatters pieces down the tree (each process gets the pieces of its subtree), then gathers all pieces.
fn scatter_allgather(s: &mut Schedule, at: Place, root: u32, bytes: usize) {
    let me = relative(at, root);
    let piece = |index: u32| start_of(index.min(at.size), at.size, bytes);
    let span = |from: u32, to: u32| output(piece(from), piece(to) - piece(from));
    let mut mask = lowest_bit(me, at.size);
    if me != 0 {
        s.recv(absolute(at, root, me - mask), span(me, me + mask));
        s.wait();
    }
    mask >>= 1;
    while mask > 0 {
        if me + mask < at.size {
            s.send(absolute(at, root, me + mask), span(me + mask, me + 2 * mask));
        }
        mask >>= 1;
    }
    s.wait();
    if at.size.is_power_of_two() {
        let mut mask = 1;
        while mask < at.size {
            let (mine, theirs) = (me & !(mask - 1), (me ^ mask) & !(mask - 1));
            let partner = absolute(at, root, me ^ mask);
            s.recv(partner, span(theirs, theirs + mask));
            s.send(partner, span(mine, mine + mask));
            s.wait();
            mask <<= 1;
        }
    } else {
        ring_of(s, at, |rank| {
            let index = (rank + at.size - root) % at.size;
            span(index, index + 1)
        });
    }
}

/// First byte of piece `index` when `bytes` are cut into `size` pieces.
fn start_of(index: u32, size: u32, bytes: usize) -> usize {
    let (index, size) = (index as usize, size as usize);
    index * (bytes / size) + index.min(bytes % size)
}

pub(super) fn relative(at: Place, root: u32) -> u32 {
    (at.rank + at.size - root) % at.size
}

pub(super) fn absolute(at: Place, root: u32, relative: u32) -> u32 {
    (relative + root) % at.size
}

/// The lowest set bit; for 0, the first power of two that is not below `size`.
pub(super) fn lowest_bit(relative: u32, size: u32) -> u32 {
    if relative == 0 { size.next_power_of_two() } else { 1 << relative.trailing_zeros() }
}
