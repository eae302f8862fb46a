//! Operations through memory that processes map together, one after the other.
use super::super::common::LAID_BYTES_MAX;
use super::*;

pub(super) use super::super::common::{BYTES, HALF_BYTES, PLACE_BYTES};

/// On one node, with cores of their own and shared.
const ONE_NODE: [u64; 2] = [46, 47];

/// Does a schedule use the memory?
fn uses(schedule: &Schedule) -> bool {
    schedule.steps().iter().any(|step| matches!(step, Step::Declare { .. }))
}

/// The largest block of an all-to-all for which it is used.
fn largest(size: u32) -> usize {
    let fits = LAID_BYTES_MAX / (size * size) as usize;
    if size == 2 { fits.min(tuning::COMMON_PAIR_BYTES_MAX) } else { fits }
}

#[test]
fn large_blocks_go_through_the_memory_and_larger_ones_do_not() {
    for seed in ONE_NODE {
        for size in [2, 3, 8, 32] {
            for (block, fits) in [(largest(size), true), (largest(size) + 1, false)] {
                let n = size as usize;
                let memory = |rank| (data(rank, n * block), n * block);
                let mut group = Group::new(size, seed, |s, at| alltoall(s, at, block), memory);
                let measured = size == 2 || seed & 1 == 1;
                assert_eq!(uses(&group.processes[0].schedule), fits && measured, "size {size} block {block}");
                group.run(nothing);
                for rank in 0..size {
                    let from = |other| data(other, n * block)[rank as usize * block..][..block].to_vec();
                    let expected: Vec<u8> = (0..size).flat_map(from).collect();
                    assert!(group.output(rank) == expected, "size {size} rank {rank} block {block}");
                }
            }
        }
    }
}

#[test]
fn one_that_cannot_map_it_is_enough_for_other_ways() {
    for seed in ONE_NODE {
        for size in [2, 3, 8, 17] {
            for block in [16 << 10, 60 << 10, 300 << 10] {
                let all = joined(size, block);
                let memory = |rank| (data(rank, block), all.len());
                let mut group = Group::new(size, seed, |s, at| allgather(s, at, block), memory);
                group.processes[size as usize / 2].maps = false;
                group.run(nothing);
                assert!(group.processes.iter().all(|process| process.uses == 0));
                for rank in 0..size {
                    assert!(group.output(rank) == all, "size {size} rank {rank} block {block}");
                }
            }
        }
    }
}

/// Operations of all kinds, each of which a process begins when it has left the one before, however late others are.
#[test]
fn nobody_finds_what_belongs_to_another_operation() {
    for size in [2_u32, 3, 5, 16] {
        for seed in [47, 1047, 2047] {
            let n = size as usize;
            let block = largest(size).min(20 << 10);
            let build = |s: &mut Schedule, at: Place, kind: usize| match kind % 3 {
                0 => alltoall(s, at, block),
                1 => allgather(s, at, block),
                _ => bcast(s, at, kind as u32 % size, n * block),
            };
            let memory = |rank| (data(rank, n * block), n * block);
            let mut group = Group::new(size, seed, |s, at| build(s, at, 0), memory);
            for process in &mut group.processes {
                process.memory[2].resize(1 << 20, 0);
            }
            let mut at_kind = vec![0; n];
            let mut steps = 0_u32;
            while at_kind.iter().any(|kind| *kind < 12) {
                let rank = group.dice(n);
                // Bursts, so that one process is far ahead where it may be.
                for _ in 0..group.dice(40) {
                    let process = &group.processes[rank];
                    if process.next < process.schedule.steps().len() {
                        group.advance(rank as u32, nothing);
                        continue;
                    }
                    let kind = at_kind[rank];
                    if kind == 12 {
                        break;
                    }
                    check(&group, rank as u32, size, kind, block);
                    at_kind[rank] += 1;
                    let place = Place {
                        rank: rank as u32,
                        size,
                        cores: Cores::Shared,
                        memory: Memory::OneNode(Shared::Mapped),
                    };
                    let process = &mut group.processes[rank];
                    process.schedule.clear();
                    if kind < 11 {
                        build(&mut process.schedule, place, kind + 1);
                    }
                    process.next = 0;
                    let is_root = (kind + 1) % 3 == 2 && (kind + 1) as u32 % size == rank as u32;
                    process.memory[1].fill(0xAA);
                    if is_root {
                        process.memory[1] = data(kind as u32 + 100, n * block);
                    }
                }
                steps += 1;
                assert!(steps < 1_000_000, "deadlock");
            }
            assert!(group.processes.iter().all(|process| process.uses >= 8), "most of them fit");
        }
    }
}

fn check(group: &Group, rank: u32, size: u32, kind: usize, block: usize) {
    let n = size as usize;
    let expected: Vec<u8> = match kind % 3 {
        0 => (0..size)
            .flat_map(|other| data(other, n * block)[rank as usize * block..][..block].to_vec())
            .collect(),
        1 => (0..size).flat_map(|other| data(other, n * block)[..block].to_vec()).collect(),
        _ => data(kind as u32 + 99, n * block),
    };
    assert!(group.output(rank) == expected, "size {size} rank {rank} operation {kind}");
}
