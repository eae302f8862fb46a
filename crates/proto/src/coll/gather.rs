//! Gather and scatter.
use super::bcast::{absolute, lowest_bit, relative};
use super::tuning::{self, Gather};
use super::{Block, Blocks, Place, Schedule, Slice, direct, input, output, scratch};

/// Collects everyone's `Input` of `block` bytes in the root's `Output`, by rank.
pub fn gather(s: &mut Schedule, at: Place, root: u32, block: usize) {
    match tuning::gather(at, block) {
        Gather::Tree => gather_tree(s, at, root, block),
        Gather::Straight => gatherv(s, at, root, block, Blocks::Equal(block)),
        Gather::Direct => direct::gather(s, at, root, block),
    }
}

/// As [`gather`], for unequal blocks; `blocks` is significant only at the root.
pub fn gatherv(s: &mut Schedule, at: Place, root: u32, mine: usize, blocks: Blocks<'_>) {
    if at.rank != root {
        s.send(root, input(0, mine));
        s.wait();
        return;
    }
    for distance in 1..at.size {
        let from = at.right(distance);
        s.recv(from, blocks.output(from));
    }
    let own = blocks.of(root);
    s.copy(input(0, own.len), output(own.at, own.len));
    s.wait();
}

/// Gives everyone its block of the root's `Input`.
pub fn scatter(s: &mut Schedule, at: Place, root: u32, block: usize) {
    match tuning::gather(at, block) {
        Gather::Tree => scatter_tree(s, at, root, block),
        Gather::Straight => scatterv(s, at, root, block, Blocks::Equal(block)),
        Gather::Direct => direct::scatter(s, at, root, block),
    }
}

/// As [`scatter`], for unequal blocks; `blocks` is significant only at the root.
pub fn scatterv(s: &mut Schedule, at: Place, root: u32, mine: usize, blocks: Blocks<'_>) {
    if at.rank != root {
        s.recv(root, output(0, mine));
        s.wait();
        return;
    }
    for distance in 1..at.size {
        let to = at.right(distance);
        s.send(to, blocks.input(to));
    }
    let own = blocks.of(root);
    s.copy(input(own.at, own.len), output(0, own.len));
    s.wait();
}

/// Every process collects its subtree (a range of relative ranks) and passes it on in one message.
fn gather_tree(s: &mut Schedule, at: Place, root: u32, block: usize) {
    let me = relative(at, root);
    let end = lowest_bit(me, at.size);
    let is_leaf = end == 1 || me + 1 >= at.size;
    let mine =
        if is_leaf && me != 0 { input(0, block) } else { scratch(0, subtree(me, end, at.size) * block) };
    if me == 0 {
        return gather_at_root(s, at, block);
    }
    if !is_leaf {
        s.copy(input(0, block), scratch(0, block));
        let mut mask = 1;
        while mask < end && me + mask < at.size {
            let len = subtree(me + mask, mask, at.size) * block;
            s.recv(absolute(at, root, me + mask), scratch(mask as usize * block, len));
            mask <<= 1;
        }
        s.wait();
    }
    s.send(absolute(at, root, me - end), mine);
    s.wait();
}

/// The root gets every subtree in place, except the one whose ranks wrap around the end.
fn gather_at_root(s: &mut Schedule, at: Place, block: usize) {
    let root = at.rank;
    for_subtrees(at.size, |first, len| {
        let from = absolute(at, root, first);
        s.recv(from, landing(at, from, len, block, output(0, at.size as usize * block)));
    });
    s.copy(input(0, block), output(root as usize * block, block));
    s.wait();
    for_subtrees(at.size, |first, len| {
        for (part, all) in wrapped(at, absolute(at, root, first), len, block) {
            s.copy(scratch(part.at, part.len), output(all.at, all.len));
        }
    });
}

fn scatter_tree(s: &mut Schedule, at: Place, root: u32, block: usize) {
    let me = relative(at, root);
    if me == 0 {
        return scatter_at_root(s, at, block);
    }
    let end = lowest_bit(me, at.size);
    let parent = absolute(at, root, me - end);
    if end == 1 || me + 1 >= at.size {
        s.recv(parent, output(0, block));
        s.wait();
        return;
    }
    s.recv(parent, scratch(0, subtree(me, end, at.size) * block));
    s.wait();
    let mut mask = end / 2;
    while mask > 0 {
        if me + mask < at.size {
            let len = subtree(me + mask, mask, at.size) * block;
            s.send(absolute(at, root, me + mask), scratch(mask as usize * block, len));
        }
        mask /= 2;
    }
    s.copy(scratch(0, block), output(0, block));
    s.wait();
}

fn scatter_at_root(s: &mut Schedule, at: Place, block: usize) {
    let root = at.rank;
    for_subtrees(at.size, |first, len| {
        let to = absolute(at, root, first);
        for (part, all) in wrapped(at, to, len, block) {
            s.copy(input(all.at, all.len), scratch(part.at, part.len));
        }
        s.send(to, landing(at, to, len, block, input(0, at.size as usize * block)));
    });
    s.copy(input(root as usize * block, block), output(0, block));
    s.wait();
}

/// Processes in the subtree of `relative` whose tree span is `span`.
fn subtree(relative: u32, span: u32, size: u32) -> usize {
    span.min(size - relative) as usize
}

/// Calls with (first relative rank, number of ranks) for each subtree below the root, largest first.
fn for_subtrees(size: u32, mut f: impl FnMut(u32, u32)) {
    let mut mask = size.next_power_of_two() / 2;
    while mask > 0 {
        if mask < size {
            f(mask, subtree(mask, mask, size) as u32);
        }
        mask /= 2;
    }
}

/// Where the blocks of ranks `first..first + len` are: in `all`, or in scratch if they wrap around the end.
fn landing(at: Place, first: u32, len: u32, block: usize, all: Slice) -> Slice {
    let bytes = len as usize * block;
    if first + len <= at.size { all.part(first as usize * block, bytes) } else { scratch(0, bytes) }
}

/// For ranks that wrap around the end: the two parts, in scratch and in the whole. (At most one subtree wraps.)
fn wrapped(at: Place, first: u32, len: u32, block: usize) -> impl Iterator<Item = (Block, Block)> {
    let before = (at.size - first).min(len) as usize * block;
    let bytes = len as usize * block;
    let head = (Block { at: 0, len: before }, Block { at: first as usize * block, len: before });
    let tail = (Block { at: before, len: bytes - before }, Block { at: 0, len: bytes - before });
    let wraps = first + len > at.size;
    [head, tail].into_iter().filter(move |_| wraps)
}
