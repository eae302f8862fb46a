//! Two groups in one simulation: those of the first are its processes 0.., those of the second follow.
use super::super::Operands;
use super::*;
use crate::coll::Step;
use crate::coll::simulation::{Group, add, compose, data, fold, nothing};
use std::vec;
use std::vec::Vec;

const SHAPES: [(u32, u32); 9] = [(1, 1), (1, 2), (3, 1), (2, 2), (3, 5), (8, 4), (7, 20), (33, 2), (1, 70)];

/// The process of the simulation that a party is.
fn absolute(party: u32, at: Sides, base: u32) -> u32 {
    let other = if base == 0 { at.own.size } else { 0 };
    if party < at.own.size { base + party } else { other + party - at.own.size }
}

/// Runs what `build` builds for each; it gets the side (0 or 1) too.
fn run(
    shape: (u32, u32),
    build: impl Fn(&mut Schedule, Sides, u32),
    memory: impl Fn(u32, u32) -> (Vec<u8>, usize),
    operator: fn(&[u8], &mut [u8]),
) -> Group {
    let (first, second) = shape;
    let side = |process: u32| if process < first { (0, process) } else { (1, process - first) };
    let built = |s: &mut Schedule, at: Place| {
        let (which, rank) = side(at.rank);
        let (own, remote) = if which == 0 { (first, second) } else { (second, first) };
        let sides = Sides { own: Place { rank, size: own, ..at.apart() }, remote };
        build(s, sides, which);
        for step in &mut s.steps {
            match step {
                Step::Send { to: party, .. } | Step::Recv { from: party, .. } => {
                    *party = absolute(*party, sides, which * first);
                }
                _ => {}
            }
        }
    };
    let seed = u64::from(first * 7 + second);
    let memory = |process| {
        let (which, rank) = side(process);
        memory(which, rank)
    };
    let mut group = Group::new(first + second, seed, built, memory);
    group.run(operator);
    group
}

fn outputs(group: &Group, shape: (u32, u32), side: u32) -> Vec<Vec<u8>> {
    let range = if side == 0 { 0..shape.0 } else { shape.0..shape.0 + shape.1 };
    range.map(|process| group.output(process).to_vec()).collect()
}

/// Contributions of the two sides differ.
fn of(side: u32, rank: u32, bytes: usize) -> Vec<u8> {
    data(100 * side + rank, bytes)
}

fn part(side: u32, rank: u32, root: u32) -> Part {
    match (side, rank == root) {
        (0, true) => Part::Root,
        (0, false) => Part::Aside,
        _ => Part::Member { root },
    }
}

fn root_of(shape: (u32, u32)) -> u32 {
    shape.0 - 1
}

#[test]
fn a_broadcast_reaches_the_other_group_only() {
    for shape in SHAPES {
        for bytes in [0, 1, 5_000, 300_000] {
            let root = root_of(shape);
            let group = run(
                shape,
                |s, at, side| {
                    if part(side, at.own.rank, root) == Part::Root {
                        s.copy(input(0, bytes), output(0, bytes));
                    }
                    bcast(s, at, part(side, at.own.rank, root), bytes);
                },
                |side, rank| (of(side, rank, bytes), bytes),
                nothing,
            );
            let expected = of(0, root, bytes);
            assert!(outputs(&group, shape, 1).iter().all(|got| *got == expected), "{shape:?}");
        }
    }
}

#[test]
fn gathers_and_scatters_go_between_the_root_and_the_other_group() {
    for shape in SHAPES {
        let (root, others) = (root_of(shape), shape.1 as usize);
        let gathered = run(
            shape,
            |s, at, side| gather(s, at, part(side, at.own.rank, root), 24, Blocks::Equal(24)),
            |side, rank| (of(side, rank, 24), 24 * others),
            nothing,
        );
        let all: Vec<u8> = (0..shape.1).flat_map(|rank| of(1, rank, 24)).collect();
        assert_eq!(outputs(&gathered, shape, 0)[root as usize], all, "{shape:?}");
        let dealt = run(
            shape,
            |s, at, side| scatter(s, at, part(side, at.own.rank, root), 24, Blocks::Equal(24)),
            |side, rank| (of(side, rank, 24 * others), 24),
            nothing,
        );
        let given = of(0, root, 24 * others);
        for (rank, got) in outputs(&dealt, shape, 1).iter().enumerate() {
            assert_eq!(*got, given[24 * rank..24 * (rank + 1)], "{shape:?}");
        }
    }
}

#[test]
fn an_allgather_gives_each_group_the_other() {
    for shape in SHAPES {
        // Side 0 gives 5 bytes each, side 1 gives 5 more for each rank.
        let len = |side: u32, rank: u32| if side == 0 { 5 } else { 5 * (rank as usize + 1) };
        for equal in [true, false] {
            let len = |side, rank| if equal { 7 * (side as usize + 1) } else { len(side, rank) };
            let list = |side: u32, count: u32| {
                let mut at = 0;
                let block = |rank| {
                    at += len(side, rank) + 3; // a gap before each
                    super::super::Block { at: at - len(side, rank), len: len(side, rank) }
                };
                (0..count).map(block).collect::<Vec<_>>()
            };
            let size = |side: u32| if side == 0 { shape.0 } else { shape.1 };
            let group = run(
                shape,
                |s, at, side| {
                    let blocks = list(1 - side, at.remote);
                    let blocks =
                        if equal { Blocks::Equal(len(1 - side, 0)) } else { Blocks::Listed(&blocks) };
                    allgather(s, at, len(side, at.own.rank), blocks);
                },
                |side, rank| {
                    let room = list(1 - side, size(1 - side)).last().map_or(0, |block| block.at + block.len);
                    (of(side, rank, len(side, rank)), room)
                },
                nothing,
            );
            for side in 0..2 {
                for got in outputs(&group, shape, side) {
                    for (rank, block) in (0..).zip(list(1 - side, size(1 - side))) {
                        let at = if equal { rank as usize * block.len } else { block.at };
                        assert_eq!(got[at..at + block.len], of(1 - side, rank, block.len), "{shape:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_all_to_all_pairs_the_groups() {
    for shape in SHAPES {
        let size = |side: u32| if side == 0 { shape.0 } else { shape.1 };
        let group = run(
            shape,
            |s, at, side| {
                let (mine, theirs) = (4 + 8 * side as usize, 12 - 8 * side as usize);
                alltoall(s, at, Blocks::Equal(mine), Blocks::Equal(theirs));
            },
            |side, rank| {
                let (mine, theirs) = (4 + 8 * side as usize, 12 - 8 * side as usize);
                let others = size(1 - side) as usize;
                (of(side, rank, mine * others), theirs * others)
            },
            nothing,
        );
        for side in 0..2 {
            let len = 12 - 8 * side as usize;
            for (rank, got) in outputs(&group, shape, side).iter().enumerate() {
                for other in 0..size(1 - side) {
                    let sent = of(1 - side, other, len * size(side) as usize);
                    let at = other as usize * len;
                    assert_eq!(got[at..at + len], sent[rank * len..(rank + 1) * len], "{shape:?}");
                }
            }
        }
    }
}

#[test]
fn reductions_keep_the_order_of_ranks() {
    for shape in SHAPES {
        for commutes in [true, false] {
            let e = Elements { count: 70, unit: 8, commutes, operands: Operands::Apart };
            let (bytes, operator) = (e.bytes(), if commutes { add } else { compose } as fn(&[u8], &mut [u8]));
            let of_side = |side: u32| {
                let size = if side == 0 { shape.0 } else { shape.1 };
                fold((0..size).map(|rank| 100 * side + rank), bytes, operator)
            };
            let memory = |side, rank| (of(side, rank, bytes), bytes);
            let group = run(shape, |s, at, _| allreduce(s, at, e), memory, operator);
            for side in 0..2 {
                let expected = of_side(1 - side);
                assert!(outputs(&group, shape, side).iter().all(|got| *got == expected), "{shape:?}");
            }
            let root = root_of(shape);
            let build = |s: &mut Schedule, at: Sides, side| reduce(s, at, part(side, at.own.rank, root), e);
            let group = run(shape, build, memory, operator);
            assert_eq!(outputs(&group, shape, 0)[root as usize], of_side(1), "{shape:?}");
        }
    }
}

#[test]
fn each_gets_its_block_of_what_the_other_group_has() {
    for shape in SHAPES {
        let count = (shape.0 * shape.1) as usize; // both can share it equally
        let e = Elements { count, unit: 8, commutes: false, operands: Operands::Apart };
        let group = run(
            shape,
            |s, at, _| reduce_scatter(s, at, e, Blocks::Equal(e.bytes() / at.own.size as usize)),
            |side, rank| (of(side, rank, e.bytes()), e.bytes()),
            compose,
        );
        for side in 0..2u32 {
            let (own, other) = if side == 0 { (shape.0, shape.1) } else { (shape.1, shape.0) };
            let all = fold((0..other).map(|rank| 100 * (1 - side) + rank), e.bytes(), compose);
            let len = e.bytes() / own as usize;
            for (rank, got) in outputs(&group, shape, side).iter().enumerate() {
                assert_eq!(got[..len], all[rank * len..(rank + 1) * len], "{shape:?}");
            }
        }
    }
}

#[test]
fn both_groups_agree_on_what_all_of_them_say() {
    for shape in SHAPES {
        let e = Elements { count: 3, unit: 8, commutes: true, operands: Operands::Apart };
        let leader = |size: u32| size / 2;
        let group = run(
            shape,
            |s, at, _| {
                let leaders = Leaders { own: leader(at.own.size), other: at.own.size + leader(at.remote) };
                agree(s, at.own, leaders, e);
            },
            |side, rank| (of(side, rank, 24), 24),
            add,
        );
        let all = (0..shape.0).chain(100..100 + shape.1);
        let expected = fold(all, 24, add);
        for side in 0..2 {
            assert!(outputs(&group, shape, side).iter().all(|got| *got == expected), "{shape:?}");
        }
    }
}

#[test]
fn leaders_swap_what_they_have_and_tables_hold_all() {
    for shape in SHAPES {
        let swapped = run(
            shape,
            |s, at, side| {
                let leaders = Leaders { own: at.own.size - 1, other: at.own.size + at.remote - 1 };
                swap(s, at.own, leaders, 8 + side as usize, 9 - side as usize);
            },
            |side, rank| (of(side, rank, 8 + side as usize), 9 - side as usize),
            nothing,
        );
        let last = |side: u32| if side == 0 { shape.0 - 1 } else { shape.1 - 1 };
        for side in 0..2 {
            let expected = of(1 - side, last(1 - side), 9 - side as usize);
            assert!(outputs(&swapped, shape, side).iter().all(|got| *got == expected), "{shape:?}");
        }
        let all = |_| (shape.0 + shape.1) as usize * 16;
        let tables =
            run(shape, |s, at, _| table(s, at, 16), |side, rank| (of(side, rank, 16), all(side)), nothing);
        let rows = |side: u32| (0..=last(side)).flat_map(move |rank| of(side, rank, 16));
        for side in 0..2 {
            let expected: Vec<u8> = rows(side).chain(rows(1 - side)).collect();
            assert!(outputs(&tables, shape, side).iter().all(|got| *got == expected), "{shape:?}");
        }
    }
}

#[test]
fn nobody_leaves_before_the_other_group_has_come() {
    for shape in SHAPES {
        let group = run(shape, |s, at, _| barrier(s, at), |_, _| (vec![], 0), nothing);
        // Rank 0 of each hears the other before it lets its own go: the way from anybody to anybody is there.
        let crosses = |process: u32, other: u32| group.talked_to(process).contains(&other);
        assert!(crosses(0, shape.0) && crosses(shape.0, 0), "{shape:?}");
    }
}
