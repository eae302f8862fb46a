//! Reduction whose result is cut into blocks, one for each process.
use super::allreduce::whole;
use super::tuning::{self, ReduceScatter};
use super::{Blocks, Elements, Place, Schedule, direct, input, output, scratch};

/// Combines everyone's `Input`; process `i` gets block `i` of the result at the start of its `Output`.
pub fn reduce_scatter(s: &mut Schedule, at: Place, data: Elements, blocks: Blocks<'_>) {
    match tuning::reduce_scatter(at, data) {
        ReduceScatter::Whole(how) => {
            let bytes = data.bytes();
            let own = blocks.of(at.rank);
            let result = whole(s, at, data, how, scratch(0, bytes), bytes);
            s.copy(result.part(own.at, own.len), output(0, own.len));
        }
        ReduceScatter::Pairwise => pairwise(s, at, blocks),
        ReduceScatter::Direct => direct::reduce_scatter(s, at, data, blocks),
    }
}

/// At distance `d`: my share of the block of the process on the right goes out, a share of mine comes in. The
/// result is built in scratch, since `Input` may be where `Output` is.
fn pairwise(s: &mut Schedule, at: Place, blocks: Blocks<'_>) {
    let own = blocks.of(at.rank);
    let (acc, incoming) = (scratch(0, own.len), scratch(own.len, own.len));
    s.copy(input(own.at, own.len), acc);
    for distance in 1..at.size {
        s.recv(at.left(distance), incoming);
        s.send(at.right(distance), blocks.input(at.right(distance)));
        s.wait();
        s.reduce(incoming, acc);
    }
    s.copy(acc, output(0, own.len));
}
