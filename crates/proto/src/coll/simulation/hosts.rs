//! The collectives of two levels, for every way in which a group may live on several hosts.
use super::*;

/// Ways in which processes may live on hosts.
fn shapes(size: u32) -> Vec<Vec<u32>> {
    let mut shapes: Vec<Vec<u32>> =
        [2, 3, 5].iter().map(|each| (0..size).map(|rank| rank / each).collect()).collect();
    shapes.push((0..size).map(|rank| rank % 3).collect());
    shapes.push((0..size).map(|rank| 9 - u32::from(rank > 1)).collect());
    shapes.push((0..size).map(|rank| rank * rank % 4).collect());
    shapes
}

/// Runs what `build` makes for every way to live on two hosts or more; tells the shape.
fn on_hosts(
    seed: u64,
    build: impl Fn(&mut Schedule, Place, &Hosts),
    memory: impl Fn(u32) -> (Vec<u8>, usize),
    sizes: impl Iterator<Item = u32>,
    check: impl Fn(&mut Group, u32, &[u32]),
) {
    for size in sizes {
        for shape in shapes(size) {
            let hosts = |rank| Hosts::new(rank, size, |rank| shape[rank as usize]);
            if hosts(0).is_none() {
                continue;
            }
            let build =
                |s: &mut Schedule, at: Place| build(s, at, &hosts(at.rank).expect("as for the first"));
            let mut group = Group::new(size, seed, build, &memory);
            check(&mut group, size, &shape);
        }
    }
}

/// How many hosts there are.
fn hosts_of(shape: &[u32]) -> usize {
    let mut hosts = shape.to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

/// Pairs of processes on different hosts that exchange messages.
fn crossings(group: &Group, shape: &[u32]) -> usize {
    let mut pairs = Vec::new();
    for (rank, process) in (0u32..).zip(&group.processes) {
        pairs.extend(
            process
                .peers
                .iter()
                .filter(|peer| shape[rank as usize] != shape[**peer as usize])
                .map(|peer| (rank, *peer)),
        );
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs.len() / 2
}

#[test]
fn nobody_leaves_a_barrier_on_several_hosts_before_everybody_has_come() {
    for seed in SEEDS {
        let build = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.barrier(s, at);
        on_hosts(
            seed,
            build,
            |_| (Vec::new(), 0),
            [3, 8, 13].into_iter(),
            |group, size, shape| {
                let late = size / 2;
                for _ in 0..6 * size {
                    for rank in (0..size).filter(|rank| *rank != late) {
                        group.advance(rank, nothing);
                    }
                }
                let left = |rank: &u32| {
                    let p = &group.processes[*rank as usize];
                    p.next == p.schedule.steps().len()
                };
                assert_eq!((0..size).filter(|rank| *rank != late).find(left), None, "{shape:?}");
                group.run(nothing);
                assert!(crossings(group, shape) <= hosts_of(shape) * hosts_of(shape), "{shape:?}");
            },
        );
    }
}

#[test]
fn a_broadcast_on_several_hosts_crosses_to_each_host_once() {
    for (seed, bytes) in [(40, 5), (41, 5), (40, tuning::BCAST_LARGE_BYTES + 13)] {
        for root in [0, 1, 4, 6] {
            let build = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.bcast(s, at, root, bytes);
            let memory = |rank| (Vec::new(), if rank == root { 0 } else { bytes });
            on_hosts(seed, build, memory, [7, 8, 16].into_iter(), |group, size, shape| {
                group.processes[root as usize].memory[1] = data(root, bytes);
                group.run(nothing);
                for rank in 0..size {
                    assert!(group.output(rank) == data(root, bytes), "{shape:?} root {root} rank {rank}");
                }
                if bytes < 100 {
                    assert_eq!(crossings(group, shape), hosts_of(shape) - 1, "{shape:?}");
                }
            });
        }
    }
}

#[test]
fn reductions_on_several_hosts_keep_the_order_of_ranks() {
    for seed in SEEDS {
        for e in cases().into_iter().filter(|e| e.count < 3000) {
            let bytes = e.bytes();
            let build = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.allreduce(s, at, e);
            on_hosts(
                seed,
                build,
                |rank| (data(rank, bytes), bytes),
                [3, 7, 12].into_iter(),
                |group, size, shape| {
                    group.run(operator(e.commutes));
                    let expected = fold(0..size, bytes, operator(e.commutes));
                    (0..size)
                        .for_each(|rank| assert!(group.output(rank) == expected, "{shape:?} {rank} {e:?}"));
                },
            );
            for root in [0, 1, 6] {
                let build = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.reduce(s, at, root, e);
                let memory = |rank| (data(rank, bytes), if rank == root { bytes } else { 0 });
                on_hosts(seed, build, memory, [7, 12].into_iter(), |group, size, shape| {
                    group.run(operator(e.commutes));
                    let expected = fold(0..size, bytes, operator(e.commutes));
                    assert!(group.output(root) == expected, "{shape:?} root {root} {e:?}");
                });
            }
        }
    }
}

#[test]
fn each_gets_its_block_of_a_combination_on_several_hosts() {
    for seed in SEEDS {
        for (commutes, scale) in [(true, 1), (false, 1), (true, 700), (false, 700)] {
            for size in [3, 7, 12] {
                let lens: Vec<usize> = (0..size as usize).map(|r| (r * 5 % 4) * 8 * scale).collect();
                let blocks: Vec<Block> =
                    (0..lens.len()).map(|r| Block { at: lens[..r].iter().sum(), len: lens[r] }).collect();
                let total: usize = lens.iter().sum();
                let e = Elements { count: total / 8, unit: 8, commutes, operands: Operands::Apart };
                let build = |s: &mut Schedule, at: Place, hosts: &Hosts| {
                    hosts.reduce_scatter(s, at, e, Blocks::Listed(&blocks))
                };
                let memory = |rank: u32| (data(rank, total), lens[rank as usize]);
                on_hosts(seed, build, memory, [size].into_iter(), |group, size, shape| {
                    group.run(operator(commutes));
                    let expected = fold(0..size, total, operator(commutes));
                    for rank in 0..size {
                        let b = blocks[rank as usize];
                        assert!(
                            group.output(rank) == &expected[b.at..b.at + b.len],
                            "{shape:?} {rank} {e:?}"
                        );
                    }
                    let hosts = hosts_of(shape);
                    let in_order = shape.windows(2).all(|two| two[0] <= two[1]);
                    assert!(!in_order || crossings(group, shape) <= hosts * hosts, "{shape:?}");
                });
            }
        }
    }
}

#[test]
fn scans_on_several_hosts_combine_the_ranks_up_to_this_one() {
    for seed in SEEDS {
        for e in cases().into_iter().filter(|e| e.count < 100) {
            let bytes = e.bytes();
            let memory = |rank| (data(rank, bytes), bytes);
            let scans = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.scan(s, at, e);
            on_hosts(seed, scans, memory, [3, 7, 12].into_iter(), |group, size, shape| {
                group.run(operator(e.commutes));
                for rank in 0..size {
                    let expected = fold(0..rank + 1, bytes, operator(e.commutes));
                    assert!(group.output(rank) == expected, "{shape:?} {rank} {e:?}");
                }
                let hosts = hosts_of(shape);
                let in_order = shape.windows(2).all(|two| two[0] <= two[1]);
                assert!(!in_order || crossings(group, shape) <= hosts * hosts, "{shape:?}");
            });
            let before = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.exscan(s, at, e);
            on_hosts(seed, before, memory, [3, 7, 12].into_iter(), |group, size, shape| {
                group.run(operator(e.commutes));
                assert_eq!(group.output(0), vec![0xAA; bytes], "exscan leaves rank 0 alone");
                for rank in 1..size {
                    let expected = fold(0..rank, bytes, operator(e.commutes));
                    assert!(group.output(rank) == expected, "{shape:?} {rank} {e:?}");
                }
            });
        }
    }
}

#[test]
fn blocks_are_gathered_by_all_on_several_hosts() {
    for seed in SEEDS {
        for block in [0, 3, 900, 40_000] {
            let build =
                |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.allgatherv(s, at, Blocks::Equal(block));
            for size in [4, 7, 12] {
                let memory = |rank| (data(rank, block), block * size as usize);
                on_hosts(seed, build, memory, [size].into_iter(), |group, size, shape| {
                    group.run(nothing);
                    let expected: Vec<u8> = (0..size).flat_map(|rank| data(rank, block)).collect();
                    (0..size)
                        .for_each(|rank| assert!(group.output(rank) == expected, "{shape:?} {rank} {block}"));
                });
            }
        }
    }
}

#[test]
fn small_blocks_of_a_host_cross_together() {
    for seed in SEEDS {
        for (size, block) in [(4, 3), (7, 0), (7, 900), (12, 3), (12, tuning::GATHER_LARGE_BYTES)] {
            let all = joined(size, block);
            for root in [0, 1, size - 1] {
                let at_root = |rank, bytes| if rank == root { bytes } else { 0 };
                let gathers = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.gather(s, at, root, block);
                let memory = |rank| (data(rank, block), at_root(rank, all.len()));
                on_hosts(seed, gathers, memory, [size].into_iter(), |group, _, shape| {
                    group.run(nothing);
                    assert!(group.output(root) == all, "{shape:?} root {root} block {block}");
                    let small = tuning::crosses_together(block);
                    assert!(!small || crossings(group, shape) < hosts_of(shape), "{shape:?} root {root}");
                });
                let scatters = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.scatter(s, at, root, block);
                let memory = |rank| (if rank == root { all.clone() } else { Vec::new() }, block);
                on_hosts(seed, scatters, memory, [size].into_iter(), |group, size, shape| {
                    group.run(nothing);
                    for rank in 0..size {
                        assert!(group.output(rank) == data(rank, block), "{shape:?} root {root} rank {rank}");
                    }
                    let small = tuning::crosses_together(block);
                    assert!(!small || crossings(group, shape) < hosts_of(shape), "{shape:?} root {root}");
                });
            }
            let bytes = size as usize * block;
            let exchanges = |s: &mut Schedule, at: Place, hosts: &Hosts| hosts.alltoall(s, at, block);
            on_hosts(
                seed,
                exchanges,
                |rank| (data(rank, bytes), bytes),
                [size].into_iter(),
                |group, size, shape| {
                    group.run(nothing);
                    for rank in 0..size as usize {
                        let row = |from: u32| data(from, bytes)[rank * block..][..block].to_vec();
                        let expected: Vec<u8> = (0..size).flat_map(row).collect();
                        assert!(group.output(rank as u32) == expected, "{shape:?} rank {rank} block {block}");
                    }
                    let pairs = hosts_of(shape) * (hosts_of(shape) - 1) / 2;
                    assert!(block > 1000 || crossings(group, shape) <= pairs, "{shape:?} block {block}");
                },
            );
        }
    }
}
