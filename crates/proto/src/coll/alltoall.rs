//! Everyone sends a block to everyone.
use super::tuning::{self, ALLTOALL_WINDOW, Alltoall};
use super::{Blocks, Place, Schedule, common, direct, input, output, scratch};

/// Block `i` of everyone's `Input` goes to process `i`, into the block of the sender.
pub fn alltoall(s: &mut Schedule, at: Place, block: usize) {
    match tuning::alltoall(at, block) {
        Alltoall::Pairwise => alltoallv(s, at, Blocks::Equal(block), Blocks::Equal(block)),
        Alltoall::Bruck => bruck(s, at, block),
        Alltoall::Direct => direct::alltoall(s, at, block),
        Alltoall::Common => common::alltoall(s, at, block),
    }
}

/// As [`alltoall`], for unequal blocks.
///
/// In each step the processes exchange in pairs, so that what a pair says to each other falls into the same window: where
/// connections are few, one is enough for both ways.
pub fn alltoallv(s: &mut Schedule, at: Place, sends: Blocks<'_>, recvs: Blocks<'_>) {
    let partner = |step: u32| (step + at.size - at.rank) % at.size;
    let mut first = 0;
    while first < at.size {
        let end = (first + ALLTOALL_WINDOW).min(at.size);
        let partners = || (first..end).map(partner).filter(|peer| *peer != at.rank);
        for peer in partners() {
            s.recv(peer, recvs.output(peer));
        }
        for peer in partners() {
            s.send(peer, sends.input(peer));
        }
        if first == 0 {
            // While the others see what they are offered.
            s.copy(sends.input(at.rank), recvs.output(at.rank));
        }
        s.wait();
        first = end;
    }
}

/// Blocks are ordered by the distance they have to travel to the right. In round `k` all blocks whose distance
/// has bit `k` move `2^k` processes on, in one message.
fn bruck(s: &mut Schedule, at: Place, block: usize) {
    let n = at.size as usize;
    let slot = |distance: u32| scratch(distance as usize * block, block);
    let (behind, before) = ((n - at.rank as usize) * block, at.rank as usize * block);
    s.copy(input(before, behind), scratch(0, behind));
    s.copy(input(0, before), scratch(behind, before));
    let (outgoing, incoming) = (n * block, n * block + n.div_ceil(2) * block);
    let mut mask = 1;
    while mask < at.size {
        let moving = || (0..at.size).filter(move |d| d & mask != 0);
        for (i, d) in moving().enumerate() {
            s.copy(slot(d), scratch(outgoing + i * block, block));
        }
        let len = moving().count() * block;
        s.recv(at.left(mask), scratch(incoming, len));
        s.send(at.right(mask), scratch(outgoing, len));
        s.wait();
        for (i, d) in moving().enumerate() {
            s.copy(scratch(incoming + i * block, block), slot(d));
        }
        mask <<= 1;
    }
    // What came from distance `d` on the left stands in slot `d`.
    for d in 0..at.size {
        s.copy(slot(d), output(at.left(d) as usize * block, block));
    }
}
