//! Gather to all processes.
use super::bcast::bcast;
use super::gather::gatherv;
use super::tuning::{self, Allgather};
use super::{Blocks, Place, Schedule, Slice, common, direct, input, output, scratch};

/// Collects everyone's `Input` of `block` bytes in everyone's `Output`, by rank.
pub fn allgather(s: &mut Schedule, at: Place, block: usize) {
    run(s, at, Blocks::Equal(block), tuning::allgather(at, block * at.size as usize));
}

/// As [`allgather`], for unequal blocks.
pub fn allgatherv(s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
    let total = (0..at.size).map(|rank| blocks.of(rank).len).sum();
    run(s, at, blocks, tuning::allgatherv(at, total));
}

fn run(s: &mut Schedule, at: Place, blocks: Blocks<'_>, how: Allgather) {
    match (how, blocks) {
        (Allgather::Doubling, Blocks::Equal(block)) => doubling(s, at, block),
        (Allgather::GatherBcast, Blocks::Equal(block)) => {
            gatherv(s, at, 0, block, blocks);
            bcast(s, at, 0, block * at.size as usize);
        }
        (Allgather::Straight, _) => straight(s, at, blocks),
        (Allgather::Common, Blocks::Equal(block)) => common::gather_to_all(s, at, block),
        (Allgather::Direct, _) => direct::gather_to_all(s, at, blocks),
        (Allgather::Ring, _) => {
            own_block(s, at, blocks);
            ring_of(s, at, |rank| blocks.output(rank));
        }
        _ => bruck(s, at, blocks),
    }
}

fn own_block(s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
    let own = blocks.of(at.rank);
    s.copy(input(0, own.len), output(own.at, own.len));
}

/// As many messages as there are pairs, but one wait.
fn straight(s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
    let others = || (1..at.size).map(|distance| at.right(distance));
    others().for_each(|peer| s.recv(peer, blocks.output(peer)));
    others().for_each(|peer| s.send(peer, input(0, blocks.of(at.rank).len)));
    own_block(s, at, blocks);
    s.wait();
}

fn doubling(s: &mut Schedule, at: Place, block: usize) {
    own_block(s, at, Blocks::Equal(block));
    let mut mask = 1;
    while mask < at.size {
        let span = |rank: u32| output((rank & !(mask - 1)) as usize * block, mask as usize * block);
        s.exchange(at.rank ^ mask, span(at.rank), span(at.rank ^ mask));
        s.wait();
        mask <<= 1;
    }
}

/// Blocks are kept in scratch in the order of their distance to the right of this process.
fn bruck(s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
    // The sums run once over the ranks: `first` is where the next block starts, by distance.
    let bytes =
        |from: u32, count: u32| -> usize { (from..from + count).map(|d| blocks.of(at.right(d)).len).sum() };
    s.copy(input(0, bytes(0, 1)), scratch(0, bytes(0, 1)));
    let mut known = 1;
    let mut known_bytes = bytes(0, 1);
    while known < at.size {
        let count = known.min(at.size - known);
        let outgoing = if count == known { known_bytes } else { bytes(0, count) };
        let incoming = bytes(known, count);
        s.recv(at.right(known), scratch(known_bytes, incoming));
        s.send(at.left(known), scratch(0, outgoing));
        s.wait();
        known += count;
        known_bytes += incoming;
    }
    unpack(s, at, blocks);
}

fn unpack(s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
    if let Blocks::Equal(block) = blocks {
        let (behind, before) = ((at.size - at.rank) as usize * block, at.rank as usize * block);
        s.copy(scratch(0, behind), output(before, behind));
        s.copy(scratch(behind, before), output(0, before));
        return;
    }
    let mut first = 0;
    for distance in 0..at.size {
        let to = blocks.output(at.right(distance));
        s.copy(scratch(first, to.len), to);
        first += to.len;
    }
}

/// Passes blocks on to the right neighbour until everyone has all; `block_of` says where a rank's block is.
pub(super) fn ring_of(s: &mut Schedule, at: Place, block_of: impl Fn(u32) -> Slice) {
    for distance in 1..at.size {
        s.recv(at.left(1), block_of(at.left(distance)));
        s.send(at.right(1), block_of(at.left(distance - 1)));
        s.wait();
    }
}
