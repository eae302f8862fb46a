//! Processes exchange blocks with their neighbors in a graph.
use super::tuning::SEND_FIRST_BYTES;
use super::{Block, Place, Schedule, input, output};
use alloc::vec::Vec;

/// An edge of the graph as one of its ends sees it: the process at the other end, and the block that goes along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The other end.
    pub peer: u32,
    /// Where the block is: in `Input` of the sender, in `Output` of the receiver.
    pub block: Block,
}

/// Sends a block along every edge. Several edges between two processes meet in the order in which both list them; a
/// process may be its own neighbor.
///
/// All messages start at once. Rounds, as an all-to-all has them, could wait for each other in a circle: a process knows
/// its own edges only.
pub fn neighbors(s: &mut Schedule, at: Place, sends: &[Edge], recvs: &[Edge]) {
    let own = |edges: &[Edge]| {
        let own = edges.iter().filter(|edge| edge.peer == at.rank && edge.block.len > 0);
        own.map(|edge| edge.block).collect::<Vec<Block>>()
    };
    for (from, into) in own(sends).into_iter().zip(own(recvs)) {
        let len = from.len.min(into.len);
        s.copy(input(from.at, len), output(into.at, len));
    }
    let small = sends.iter().all(|edge| edge.block.len <= SEND_FIRST_BYTES);
    if small {
        send_all(s, at, sends);
    }
    for Edge { peer, block } in recvs.iter().filter(|edge| edge.peer != at.rank) {
        s.recv(*peer, output(block.at, block.len));
    }
    if !small {
        send_all(s, at, sends);
    }
    s.wait();
}

fn send_all(s: &mut Schedule, at: Place, sends: &[Edge]) {
    for Edge { peer, block } in sends.iter().filter(|edge| edge.peer != at.rank) {
        s.send(*peer, input(block.at, block.len));
    }
}
