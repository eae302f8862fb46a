//! Single calls, a few times, of which the result is checked. Nothing else is called: whom a process talks to is what the
//! call's algorithm needs.
use crate::shared::expect;
use crate::{Checked, Wrong};
use mpi::{Communicator, Op};

/// How often each is called: connections do not depend on it.
const TIMES: u64 = 5;

/// Bytes as 8-byte elements, one at least.
fn elements(bytes: usize) -> usize {
    bytes.div_ceil(8).max(1)
}

/// What a process says in a round, at a place.
fn word(round: u64, rank: usize, at: usize) -> u64 {
    (round << 48) | ((rank as u64) << 24) | at as u64
}

fn right(call: &str, count: usize) -> Checked {
    Ok(format!("{TIMES} times {call} of {} bytes are right", 8 * count))
}

/// A block goes around and collects the ranks.
pub fn ring(world: &Communicator, bytes: usize) -> Checked {
    let (rank, size, count) = (world.rank(), world.size(), elements(bytes));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for round in 0..TIMES {
        let mut token = vec![round; count];
        if rank > 0 {
            world.recv_into(&mut token, before, 1)?;
        }
        token.iter_mut().for_each(|sum| *sum += rank as u64);
        if size > 1 {
            world.send(&token, next, 1)?;
        }
        if rank == 0 && size > 1 {
            world.recv_into(&mut token, before, 1)?;
            let expected = round + (size * (size - 1) / 2) as u64;
            expect(token.iter().all(|sum| *sum == expected), || format!("{token:?}, not {expected}"))?;
        }
    }
    right("around", count)
}

/// Nobody leaves before everybody has come.
pub fn barrier(world: &Communicator, _: usize) -> Checked {
    for _ in 0..TIMES {
        world.barrier()?;
    }
    Ok(format!("{TIMES} barriers end"))
}

/// From the first process.
pub fn bcast(world: &Communicator, bytes: usize) -> Checked {
    let count = elements(bytes);
    for round in 0..TIMES {
        let from = |root: usize| (0..count).map(move |at| word(round, root, at));
        let mut block: Vec<u64> = from(world.rank()).collect();
        world.bcast(&mut block, 0)?;
        expect(block.iter().copied().eq(from(0)), || format!("round {round} brings {:?}", block[0]))?;
    }
    right("bcast", count)
}

/// The sum of all ranks.
pub fn allreduce(world: &Communicator, bytes: usize) -> Checked {
    let (size, count) = (world.size() as u64, elements(bytes));
    for round in 0..TIMES {
        let mut sums = vec![0; count];
        world.allreduce(&vec![round + world.rank() as u64; count], &mut sums, Op::Sum)?;
        let expected = round * size + size * (size - 1) / 2;
        expect(sums.iter().all(|sum| *sum == expected), || {
            format!("a sum of {:?}, not {expected}", sums[0])
        })?;
    }
    right("allreduce", count)
}

/// Blocks of all processes.
pub fn allgather(world: &Communicator, bytes: usize) -> Checked {
    let count = elements(bytes);
    for round in 0..TIMES {
        let of = |rank: usize| (0..count).map(move |at| word(round, rank, at));
        let all = world.allgather(&of(world.rank()).collect::<Vec<_>>())?;
        expect(all.into_iter().eq((0..world.size()).flat_map(of)), || format!("round {round} differs"))?;
    }
    right("allgather", count)
}

/// A block from everybody for everybody.
pub fn alltoall(world: &Communicator, bytes: usize) -> Checked {
    let (rank, size, count) = (world.rank(), world.size(), elements(bytes));
    if size > 1 << 12 {
        return Err(Wrong::Usage("it takes 4,096 processes at the most".into()));
    }
    for round in 0..TIMES {
        let block = |from: usize, to: usize| (0..count).map(move |at| word(round, from << 12 | to, at));
        let mine: Vec<u64> = (0..size).flat_map(|to| block(rank, to)).collect();
        let all = world.alltoall(&mine)?;
        expect(all.into_iter().eq((0..size).flat_map(|from| block(from, rank))), || {
            format!("round {round} differs")
        })?;
    }
    right("alltoall", count)
}
