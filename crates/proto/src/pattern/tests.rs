//! Patterns of programs, recorded at one size and predicted for others.
use super::*;
use crate::dims::balanced;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;
use std::println;

type Pairs = BTreeSet<(u32, u32)>;

/// What a program does, written without the shapes that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Ring,
    Halo { dims: usize, periodic: bool },
    Doubling,
    Binomial,
    Star,
    Alltoall,
    HaloAndTree { dims: usize },
    HaloAndDoubling { dims: usize },
    Random(u64),
}

const PROGRAMS: [Program; 13] = [
    Program::Ring,
    Program::Halo { dims: 2, periodic: false },
    Program::Halo { dims: 2, periodic: true },
    Program::Halo { dims: 3, periodic: false },
    Program::Halo { dims: 3, periodic: true },
    Program::Halo { dims: 4, periodic: true },
    Program::Doubling,
    Program::Binomial,
    Program::Star,
    Program::Alltoall,
    Program::HaloAndTree { dims: 2 },
    Program::HaloAndDoubling { dims: 3 },
    Program::HaloAndTree { dims: 3 },
];

impl Program {
    fn pairs(self, size: u32) -> Pairs {
        let mut pairs = Pairs::new();
        let mut add = |a: u32, b: u32| {
            if a != b {
                pairs.insert((a.min(b), a.max(b)));
            }
        };
        match self {
            Program::Ring => (0..size).for_each(|rank| add(rank, (rank + 1) % size)),
            Program::Halo { dims, periodic } => halo(size, dims, periodic, &mut add),
            Program::Doubling => {
                for rank in 0..size {
                    (0..20).map(|bit| rank ^ 1 << bit).filter(|o| *o < size).for_each(|o| add(rank, o));
                }
            }
            Program::Binomial => (1..size).for_each(|rank| add(rank, rank & (rank - 1))),
            Program::Star => (1..size).for_each(|rank| add(0, rank)),
            Program::Alltoall => (0..size).for_each(|a| (0..a).for_each(|b| add(a, b))),
            Program::HaloAndTree { dims } => {
                halo(size, dims, false, &mut add);
                (1..size).for_each(|rank| add(rank, rank & (rank - 1)));
            }
            Program::HaloAndDoubling { dims } => {
                halo(size, dims, true, &mut add);
                for rank in 0..size {
                    (0..20).map(|bit| rank ^ 1 << bit).filter(|o| *o < size).for_each(|o| add(rank, o));
                }
            }
            Program::Random(seed) => {
                let mut state = seed | 1;
                for _ in 0..2 * size {
                    let mut next = || {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (state >> 33) as u32 % size
                    };
                    add(next(), next());
                }
            }
        }
        pairs
    }
}

fn halo(size: u32, dims: usize, periodic: bool, add: &mut impl FnMut(u32, u32)) {
    let dims = balanced(size as i32, dims);
    let rank_of = |at: &[i32]| at.iter().zip(&dims).fold(0, |rank, (at, dim)| rank * dim + at) as u32;
    for rank in 0..size {
        let (mut rest, mut at) = (rank as i32, vec![0; dims.len()]);
        for (at, dim) in at.iter_mut().zip(&dims).rev() {
            (*at, rest) = (rest % dim, rest / dim);
        }
        for dim in 0..dims.len() {
            let mut next = at.clone();
            next[dim] += 1;
            if next[dim] == dims[dim] {
                next[dim] = 0;
                if !periodic {
                    continue;
                }
            }
            add(rank, rank_of(&next));
        }
    }
}

fn observed(size: u32, pairs: &Pairs) -> Observed {
    Observed::new(size, pairs.iter().map(|&(from, to)| Contact { from, to, when_ms: 5 }), &[])
}

fn learned(program: Program, size: u32) -> Pattern {
    let pattern = Pattern::learn("prog", &observed(size, &program.pairs(size)), None);
    let text = pattern.emit();
    assert!(text.len() <= TEXT_BYTES_MAX);
    assert_eq!(Pattern::parse(&text).as_ref(), Ok(&pattern), "{text}");
    pattern
}

fn predicted(pattern: &Pattern, size: u32) -> Pairs {
    let pairs =
        |rank| pattern.peers(rank, size).into_iter().map(move |peer| (rank.min(peer), rank.max(peer)));
    (0..size).flat_map(pairs).collect()
}

/// How many of the program's pairs are predicted, and how many that are predicted are its.
fn recall_and_precision(program: Program, pattern: &Pattern, size: u32) -> (f64, f64) {
    let (real, said) = (program.pairs(size), predicted(pattern, size));
    let both = real.intersection(&said).count() as f64;
    let part = |of: usize| if of == 0 { 1.0 } else { both / of as f64 };
    (part(real.len()), part(said.len()))
}

#[test]
fn programs_are_predicted_at_the_size_they_were_recorded_at() {
    for program in PROGRAMS {
        for size in [16, 24, 27, 64, 100, 256] {
            let pattern = learned(program, size);
            let (recall, precision) = recall_and_precision(program, &pattern, size);
            let text = pattern.emit();
            assert!(recall > 0.97 && precision > 0.9, "{program:?} {size}: {recall} {precision}\n{text}");
        }
    }
}

#[test]
fn programs_are_predicted_at_other_sizes() {
    for program in PROGRAMS {
        let (mut worst, mut sum, mut count) = ((1.0_f64, 1.0_f64), (0.0, 0.0), 0.0);
        for recorded in [36_u32, 64, 100, 128] {
            let pattern = learned(program, recorded);
            for size in [16_u32, 32, 48, 64, 96, 128, 180, 256] {
                // What becomes of the ranks beyond a power of two cannot be seen where there are none.
                let is_open = recorded.is_power_of_two() && !size.is_power_of_two();
                if is_open && matches!(program, Program::Doubling | Program::HaloAndDoubling { .. }) {
                    continue;
                }
                let (recall, precision) = recall_and_precision(program, &pattern, size);
                worst = (worst.0.min(recall), worst.1.min(precision));
                sum = (sum.0 + recall, sum.1 + precision);
                count += 1.0;
            }
        }
        let mean = (sum.0 / count, sum.1 / count);
        println!(
            "{program:?}: recall {:.3} (at least {:.3}), precision {:.3} (at least {:.3})",
            mean.0, worst.0, mean.1, worst.1
        );
        // Who talks to everybody is cut at twice the peers of the recording.
        let least = if program == Program::Alltoall { 0.7 } else { 0.95 };
        assert!(mean.0 > least && mean.1 > 0.95, "{program:?}: {mean:?}, at worst {worst:?}");
    }
}

#[test]
fn a_halo_finds_its_neighbours_in_the_dimensions_of_another_size() {
    for (dims, periodic) in [(2, false), (2, true), (3, false), (3, true)] {
        let program = Program::Halo { dims, periodic };
        let pattern = learned(program, 64);
        assert_eq!(recall_and_precision(program, &pattern, 128), (1.0, 1.0), "{program:?}");
    }
    let text = learned(Program::Halo { dims: 3, periodic: true }, 64).emit();
    assert!(text.contains("\ngrid created:3 rows faces wrap after 5 hits 192 misses 0\n"), "{text}");
}

#[test]
fn a_grid_of_the_programs_own_fits_its_size_only() {
    let mut pairs = Pairs::new();
    for rank in 0..64_u32 {
        // 2 rows of 32
        (rank % 32 != 31).then(|| pairs.insert((rank, rank + 1)));
        (rank < 32).then(|| pairs.insert((rank, rank + 32)));
    }
    let pattern = Pattern::learn("prog", &observed(64, &pairs), None);
    assert!(pattern.emit().contains("\ngrid 2x32 rows faces open "), "{}", pattern.emit());
    assert_eq!(predicted(&pattern, 64), pairs);
    assert_eq!(predicted(&pattern, 128), Pairs::new());
}

#[test]
fn a_random_graph_is_a_list_that_means_nothing_elsewhere() {
    for (seed, size) in [(1, 16), (2, 32), (3, 64), (4, 100)] {
        let program = Program::Random(seed);
        let pattern = learned(program, size);
        let (recall, precision) = recall_and_precision(program, &pattern, size);
        assert!(recall > 0.95 && precision > 0.95, "{size}: {recall} {precision}\n{}", pattern.emit());
        for other in [size / 2, size + 1, 2 * size] {
            let most = pattern.peers(0, other).len().max(pattern.peers(3, other).len());
            assert!(most <= 2, "{size} and {other}: {most}\n{}", pattern.emit());
        }
    }
}

#[test]
fn what_is_used_first_comes_first_and_what_is_used_late_does_not_come() {
    let ring = (0..32).map(|from| Contact { from, to: (from + 1) % 32, when_ms: 900 });
    let star = (1..32).map(|from| Contact { from, to: 0, when_ms: 2 });
    let late = (0..32).map(|from| Contact { from, to: (from + 7) % 32, when_ms: 100_000 });
    let observed = Observed::new(32, ring.chain(star).chain(late), &[]);
    let pattern = Pattern::learn("prog", &observed, None);
    assert_eq!(pattern.peers(9, 32), [0, 8, 10], "{}", pattern.emit());
    assert_eq!(pattern.generators.len(), 3, "{}", pattern.emit());
}

#[test]
fn nobody_is_predicted_much_more_than_was_seen() {
    let pattern = learned(Program::Star, 64);
    assert_eq!(pattern.peers(0, 4096).len(), PEERS_MIN);
    assert_eq!(pattern.peers(4000, 4096), [0]);
    assert_eq!(learned(Program::Alltoall, 16).peers(3, 1024).len(), 30);
    let crowd = Pattern { degree_percent: 100_000, ..learned(Program::Alltoall, 16) };
    assert_eq!(crowd.peers(3, 1024).len(), PEERS_MAX);
}

#[test]
fn how_many_peers_there_will_be_is_known_at_any_size() {
    for size in [64, 256] {
        let degrees = |program| learned(program, 64).degree(size);
        assert_eq!(degrees(Program::Ring), 2);
        assert_eq!(degrees(Program::Halo { dims: 2, periodic: true }), 4);
        assert_eq!(degrees(Program::Alltoall), size - 1);
    }
    // Of three in a ring, each talks to all others.
    assert_eq!(learned(Program::Ring, 3).degree(3), 2);
    assert!(learned(Program::Ring, 3).degree(64) <= 4);
    assert_eq!(learned(Program::Random(3), 64).degree(256), 0, "pairs mean nothing there");
    assert_eq!(Pattern::default().degree(1), 0);
}

#[test]
fn a_rule_that_failed_is_dropped_and_one_that_held_stays() {
    let before = learned(Program::Halo { dims: 2, periodic: true }, 64);
    let ring = observed(64, &Program::Ring.pairs(64));
    let after = Pattern::learn("prog", &ring, Some(&before));
    let last = after.last.expect("something was predicted");
    // Each rank has its two neighbours in the ring but for the ends of rows: 16 of 64 pairs.
    assert_eq!((last.predicted, last.used), (256, 112));
    assert_eq!((before.trust(), after.trust()), (Trust::New, Trust::New));
    assert!(after.generators.iter().all(|g| !matches!(g.shape, Shape::Grid(_))), "{}", after.emit());
    let again = Pattern::learn("prog", &ring, Some(&after));
    assert_eq!((again.trust(), &again.generators), (Trust::Confirmed, &after.generators));
}

#[test]
fn what_is_known_stays_where_a_small_job_says_nothing_new() {
    let before = learned(Program::Halo { dims: 3, periodic: false }, 64);
    // With 8 ranks a grid of 2 by 2 by 2 is a cube, as in recursive doubling.
    let cube = observed(8, &Program::Halo { dims: 3, periodic: false }.pairs(8));
    let after = Pattern::learn("prog", &cube, Some(&before));
    assert_eq!(after.generators[0].shape, before.generators[0].shape);
}

#[test]
fn ranks_with_too_many_contacts_are_not_held_against_a_rule() {
    let contacts = (0..64)
        .flat_map(|from| (1..20).map(move |step| Contact { from, to: (from + step) % 64, when_ms: 0 }));
    let cut: Vec<u32> = (0..64).collect();
    let pattern = Pattern::learn("prog", &Observed::new(64, contacts, &cut), None);
    assert_eq!(pattern.generators.len(), 1);
    assert_eq!(pattern.generators[0].shape, Shape::All);
}

#[test]
fn a_large_job_is_judged_by_some_of_its_ranks() {
    let program = Program::Halo { dims: 2, periodic: false };
    let pattern = learned(program, 10_000);
    assert_eq!(pattern.generators.len(), 1, "{}", pattern.emit());
    assert_eq!(predicted(&pattern, 144), program.pairs(144));
}

#[test]
fn numbers_of_any_size_are_taken() {
    let most = u64::MAX;
    let text = format!("banyan pattern 1;ranks 9;degree 99.99;last predicted {most} used {most}");
    let text = format!(
        "{text};tree arity 1048576 root 3 after 0 hits {most} misses 0;xor 1048576 after 0 hits 0 misses 0"
    );
    let pattern = Pattern::parse(&text).unwrap();
    assert_eq!((pattern.trust(), pattern.peers(3, 9).len()), (Trust::Confirmed, 8));
    assert_eq!(pattern.peers(4, 9), [3]);
}

#[test]
fn contacts_that_make_no_sense_are_left_out() {
    let contact = |from, to| Contact { from, to, when_ms: 0 };
    let observed =
        Observed::new(4, [contact(0, 0), contact(4, 1), contact(1, u32::MAX), contact(2, 3)], &[9]);
    assert_eq!(observed.pairs(), 1);
    assert!(Pattern::learn("prog", &Observed::new(0, [], &[]), None).is_empty());
}

#[test]
fn a_bad_text_is_named_by_its_line() {
    let error = |text: &str| Pattern::parse(text).unwrap_err().to_string();
    let headed = |line: &str| error(&format!("banyan pattern 1\nranks 8\n{line}\n"));
    assert_eq!(error("# mine\nbanyan pattern 2\n"), "line 2: 'banyan pattern 2' is not 'banyan pattern 1'");
    assert_eq!(error(""), "it does not say how many ranks were recorded ('ranks N')");
    assert_eq!(headed("hexagon 3"), "line 3: 'hexagon' is nothing that a pattern has");
    assert_eq!(
        headed("stride"),
        "line 3: it ends where a number of ranks, or a part of them such as n/2 should be"
    );
    assert_eq!(
        headed("stride 0 open after 1 hits 1 misses 1").split(": ").nth(1).unwrap(),
        "'0' is not a number of ranks, or a part of them such as n/2"
    );
    assert_eq!(headed("all after 1 hits 1 misses 1 more"), "line 3: 'more' is too much");
    assert_eq!(headed("all after x hits 1 misses 1"), "line 3: 'x' is not a number of milliseconds");
    assert_eq!(headed("pairs 3-2 after 1 hits 1 misses 1"), "line 3: '3-2' is not two ranks such as 3-17");
    assert_eq!(
        headed("grid created:5 rows faces open"),
        "line 3: 'created:5' is not created:2 (to 4), or extents such as 4x16"
    );
    assert_eq!(
        headed(&"all after 1 hits 1 misses 1\n".repeat(17)),
        "line 19: there are more than 16 of them"
    );
    assert_eq!(error(&"x".repeat(FILE_BYTES_MAX + 1)), "it is longer than 65536 bytes");
    assert!(headed(&"é".repeat(100)).chars().count() < 90);
}

#[test]
fn programs_have_plain_names() {
    let pattern = Pattern::learn(" a;b\nc ", &observed(16, &Program::Ring.pairs(16)), None);
    assert_eq!(pattern.program, "a?b?c");
    assert!(pattern.is_of("a;b\nc") && !pattern.is_of("a"));
    assert_eq!(Pattern::parse(&pattern.emit_line()), Ok(pattern.clone()));
    assert!(!pattern.emit_line().contains('\n'));
}

proptest! {
    #[test]
    fn any_graph_is_learned_emitted_and_read_again(
        size in 2..80_u32,
        pairs in prop::collection::vec((0..80_u32, 0..80_u32, 0..5000_u32), 0..300),
    ) {
        let contacts = pairs.iter().map(|&(from, to, when_ms)| Contact { from: from % size, to: to % size, when_ms });
        let observed = Observed::new(size, contacts, &[]);
        let pattern = Pattern::learn("any", &observed, None);
        let text = pattern.emit();
        prop_assert!(text.len() <= TEXT_BYTES_MAX);
        prop_assert_eq!(Pattern::parse(&text), Ok(pattern.clone()));
        let last = pattern.judge(&observed);
        prop_assert!(last.used * 2 >= last.predicted, "{:?}\n{}", last, text);
        for rank in 0..size {
            let peers = pattern.peers(rank, size);
            prop_assert!(peers.iter().all(|peer| *peer < size && *peer != rank));
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "[a-z0-9 ;\n/:.,x-]{0,200}") {
        let _ = Pattern::parse(&text);
        let _ = Pattern::parse(&format!("banyan pattern 1;ranks 9;{text}")).map(|pattern| pattern.peers(1, 12));
    }

    #[test]
    fn every_word_of_a_pattern_may_be_another(place in 0..60_usize, word in "[a-z0-9/:.,x-]{1,12}") {
        let text = learned(Program::HaloAndTree { dims: 3 }, 64).emit();
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
        let word = word + " ";
        if let Some(at) = words.get_mut(place) {
            *at = &word;
        }
        let _ = Pattern::parse(&words.concat()).map(|pattern| pattern.peers(1, 12));
    }
}
