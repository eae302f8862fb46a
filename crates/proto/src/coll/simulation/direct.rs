//! Operations of processes that reach each other's memory, in ways that the other tests do not take.
use super::*;

/// Sizes around which the data is cut differently.
const SIZES: [u32; 4] = [2, 3, 5, 8];
/// One host, with cores of their own and shared.
const ONE_HOST: [u64; 2] = [42, 43];
const BLOCK: usize = tuning::DIRECT_BYTES + 5;

/// What happens to the processes before they run.
type Change = fn(&mut Group);

fn unchanged(_: &mut Group) {}

/// One process finds that it cannot reach the others.
fn one_fails(group: &mut Group) {
    let last = group.processes.len() - 1;
    group.processes[last / 2].found = Reach::Fails;
}

/// All but one know already that they can.
fn most_have_tried(group: &mut Group) {
    group.processes.iter_mut().skip(1).for_each(|process| process.reach = Reach::Works);
}

fn all_have_tried(group: &mut Group) {
    group.processes.iter_mut().for_each(|process| process.reach = Reach::Works);
}

/// Runs an operation in every way; `check` looks at the outcome.
fn every_way(
    build: impl Fn(&mut Schedule, Place),
    memory: impl Fn(u32) -> (Vec<u8>, usize),
    size: u32,
    operator: Operator,
    check: impl Fn(&Group),
) {
    let changes: [(Change, bool); 4] =
        [(unchanged, true), (one_fails, false), (most_have_tried, true), (all_have_tried, true)];
    for seed in ONE_HOST {
        for (change, direct) in changes {
            let mut group = Group::new(size, seed, &build, &memory);
            change(&mut group);
            group.run(operator);
            check(&group);
            let reaches = |step: &Step| matches!(step, Step::Read { .. } | Step::Write { .. });
            let chosen = group.processes.iter().any(|process| process.schedule.steps().iter().any(reaches));
            assert!(chosen || seed & 1 != 0, "with a core for each, size {size}");
            let reached = group.processes.iter().any(|process| process.direct);
            assert_eq!(reached, chosen && direct, "size {size} seed {seed}");
        }
    }
}

#[test]
fn all_ways_to_broadcast_give_everyone_the_bytes_of_the_root() {
    let bytes = tuning::DIRECT_BYTES + 13;
    for size in SIZES {
        for root in [0, size / 2, size - 1] {
            let build = |s: &mut Schedule, at| bcast(s, at, root, bytes);
            for seed in ONE_HOST {
                for change in [unchanged, one_fails, all_have_tried] {
                    let mut group = Group::new(size, seed, build, |_| (Vec::new(), bytes));
                    group.processes[root as usize].memory[1] = data(root, bytes);
                    change(&mut group);
                    group.run(nothing);
                    for rank in 0..size {
                        assert!(group.output(rank) == data(root, bytes), "size {size} root {root}");
                    }
                }
            }
        }
    }
}

fn large(commutes: bool, operands: Operands) -> Elements {
    Elements { count: tuning::DIRECT_TOTAL_BYTES / 8 + 3, unit: 8, commutes, operands }
}

#[test]
fn all_ways_to_reduce_combine_in_the_order_of_ranks() {
    for size in SIZES {
        for commutes in [true, false] {
            let e = large(commutes, Operands::Apart);
            let (bytes, op) = (e.bytes(), operator(commutes));
            let expected = fold(0..size, bytes, op);
            let all = |group: &Group| {
                for rank in 0..size {
                    assert!(group.output(rank) == expected, "allreduce, size {size} rank {rank} {e:?}");
                }
            };
            let build = |s: &mut Schedule, at| allreduce(s, at, e);
            every_way(build, |rank| (data(rank, bytes), bytes), size, op, all);
            for root in [0, size / 2] {
                let memory = |rank| (data(rank, bytes), if rank == root { bytes } else { 0 });
                let one =
                    |group: &Group| assert!(group.output(root) == expected, "reduce, size {size} {e:?}");
                every_way(|s, at| reduce(s, at, root, e), memory, size, op, one);
            }
        }
    }
}

/// The operands are where the result goes.
#[test]
fn a_reduction_in_place_is_the_same() {
    for size in SIZES {
        for (commutes, seed) in [(true, 42), (false, 42), (true, 43), (false, 43)] {
            let e = large(commutes, Operands::InPlace);
            let (bytes, op) = (e.bytes(), operator(commutes));
            let expected = fold(0..size, bytes, op);
            let build = |s: &mut Schedule, at| allreduce(s, at, e);
            let mut group = Group::new(size, seed, build, |_| (Vec::new(), 0));
            for (rank, process) in group.processes.iter_mut().enumerate() {
                (process.memory[1], process.in_place) = (data(rank as u32, bytes), Some(0));
            }
            group.run(op);
            for rank in 0..size {
                assert!(group.output(rank) == expected, "size {size} rank {rank} {e:?}");
            }
            // Of a reduction to one, only the root's are.
            let root = size / 2;
            let build = |s: &mut Schedule, at: Place| {
                let operands = if at.rank == root { Operands::InPlace } else { Operands::Apart };
                reduce(s, at, root, Elements { operands, ..e });
            };
            let memory = |rank| (data(rank, bytes), 0);
            let mut group = Group::new(size, seed, build, memory);
            let process = &mut group.processes[root as usize];
            (process.memory[1], process.in_place) = (data(root, bytes), Some(0));
            group.run(op);
            assert!(group.output(root) == expected, "reduce, size {size} {e:?}");
        }
    }
}

#[test]
fn a_result_in_blocks_may_overwrite_the_operands() {
    for size in SIZES {
        for (commutes, seed) in [(true, 42), (false, 42), (true, 43), (false, 43)] {
            let lens: Vec<usize> = (0..size as usize).map(|r| (r * 5 % 4) * 8 * 997).collect();
            let cut: Vec<Block> =
                (0..lens.len()).map(|r| Block { at: lens[..r].iter().sum(), len: lens[r] }).collect();
            let count = lens.iter().sum::<usize>().max(tuning::DIRECT_TOTAL_BYTES) / 8;
            let e = Elements { count, unit: 8, commutes, operands: Operands::InPlace };
            let (bytes, op) = (e.bytes(), operator(commutes));
            let expected = fold(0..size, bytes, op);
            // Who gets nothing may have no output, and be the only one that is not in place.
            for all_in_place in [true, false] {
                let in_place = |rank: u32| all_in_place || rank > 0;
                let build = |s: &mut Schedule, at: Place| {
                    let operands = if in_place(at.rank) { Operands::InPlace } else { Operands::Apart };
                    reduce_scatter(s, at, Elements { operands, ..e }, Blocks::Listed(&cut));
                };
                let memory = |rank| if in_place(rank) { (Vec::new(), 0) } else { (data(rank, bytes), bytes) };
                let mut group = Group::new(size, seed, build, memory);
                for (rank, process) in (0..).zip(&mut group.processes).filter(|(rank, _)| in_place(*rank)) {
                    (process.memory[1], process.in_place) = (data(rank, bytes), Some(0));
                }
                group.run(op);
                for (rank, block) in cut.iter().enumerate() {
                    let got = &group.output(rank as u32)[..block.len];
                    assert!(got == &expected[block.at..][..block.len], "size {size} rank {rank} {e:?}");
                }
            }
        }
    }
}

#[test]
fn all_ways_to_move_blocks_put_them_where_they_belong() {
    for size in SIZES {
        let n = size as usize;
        let all = joined(size, BLOCK);
        let everywhere = |group: &Group| {
            for rank in 0..size {
                assert!(group.output(rank) == all, "allgather, size {size} rank {rank}");
            }
        };
        let memory = |rank| (data(rank, BLOCK), all.len());
        if all.len() >= tuning::DIRECT_TOTAL_BYTES {
            every_way(|s, at| allgather(s, at, BLOCK), memory, size, nothing, everywhere);
        }
        let transposed = |group: &Group| {
            for rank in 0..size {
                let from = |other| data(other, n * BLOCK)[rank as usize * BLOCK..][..BLOCK].to_vec();
                let expected: Vec<u8> = (0..size).flat_map(from).collect();
                assert!(group.output(rank) == expected, "alltoall, size {size} rank {rank}");
            }
        };
        let memory = |rank| (data(rank, n * BLOCK), n * BLOCK);
        every_way(|s, at| alltoall(s, at, BLOCK), memory, size, nothing, transposed);
        let root = size / 2;
        let at_root = |rank, bytes| if rank == root { bytes } else { 0 };
        let memory = |rank| (data(rank, BLOCK), at_root(rank, all.len()));
        let gathered = |group: &Group| assert!(group.output(root) == all, "gather, size {size}");
        every_way(|s, at| gather(s, at, root, BLOCK), memory, size, nothing, gathered);
        let memory = |rank| (if rank == root { all.clone() } else { Vec::new() }, BLOCK);
        let scattered = |group: &Group| {
            for rank in 0..size {
                assert!(group.output(rank) == data(rank, BLOCK), "scatter, size {size} rank {rank}");
            }
        };
        every_way(|s, at| scatter(s, at, root, BLOCK), memory, size, nothing, scattered);
    }
}

/// Memory for the steps that are taken only where memory cannot be reached is not kept for those that are taken elsewhere.
#[test]
fn large_data_needs_little_scratch() {
    let at = Place { rank: 1, size: 8, cores: Cores::Own, memory: Memory::OneHost };
    let mut s = Schedule::new();
    allreduce(&mut s, at, Elements { count: 1 << 20, ..large(true, Operands::Apart) });
    assert!(s.scratch_bytes() <= 3 * tuning::DIRECT_BLOCK_BYTES, "{}", s.scratch_bytes());
    assert!(s.scratch_bytes_otherwise() >= 4 << 20);
}
