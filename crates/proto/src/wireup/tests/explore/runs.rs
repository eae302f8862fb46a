//! What is explored, within which bounds.
use super::*;

/// Visits every world that can be reached; how many there are.
fn explore(bounds: Bounds, taken: &mut Taken) -> usize {
    explore_planted(bounds, None, taken)
}

fn explore_planted(bounds: Bounds, plant: Option<Plant>, taken: &mut Taken) -> usize {
    let (mut seen, mut good) = (HashSet::new(), HashSet::new());
    let mut open: Vec<Box<World>> = std::vec![Box::new(World::new(bounds, plant))];
    while let Some(world) = open.pop() {
        if !seen.insert(world.digest()) {
            continue;
        }
        if seen.len().is_multiple_of(1_000_000) {
            std::println!("{} worlds so far", seen.len());
        }
        world.check();
        (0..2).filter(|at| world.sides[*at].alive).for_each(|at| world.check_refusals(at));
        world.as_ref().clone().finish(&mut good);
        for event in world.events() {
            let mut next = world.clone();
            next.apply(event, taken);
            open.push(next);
        }
    }
    std::println!("{} worlds: {bounds:?}", seen.len());
    seen.len()
}

#[test]
fn one_asks() {
    let bounds = Bounds { sends: [1, 0], losses: 2, copies: 2, ticks: [3, 3], ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 200);
}

#[test]
fn both_ask_with_losses_and_copies() {
    let bounds = Bounds { sends: [1; 2], losses: 2, copies: 1, ticks: [2, 2], ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 2000);
}

#[test]
fn queue_pairs_that_are_refused_leave_nothing_half_open() {
    let bounds = Bounds { sends: [1; 2], losses: 1, ticks: [2, 2], refusals: 2, ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn a_death_at_any_moment_leaves_nothing_half_open() {
    let bounds = Bounds { sends: [1; 2], losses: 1, copies: 1, ticks: [1, 1], deaths: 1, ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn one_closes_with_losses_and_copies() {
    let bounds = Bounds { sends: [1, 0], closes: [1, 0], losses: 1, copies: 1, ticks: [2, 2], ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn closes_cross_with_losses_and_copies() {
    let bounds = Bounds { sends: [1, 0], closes: [1; 2], losses: 1, copies: 1, ticks: [1, 1], ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn a_connection_is_reopened_while_it_is_closed() {
    let bounds = Bounds { sends: [2, 1], closes: [1, 0], losses: 1, ticks: [1, 1], ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn copies_of_an_old_connection_do_not_disturb_the_next() {
    let bounds = Bounds { sends: [2, 0], closes: [1, 1], copies: 2, ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn over_streams_that_overtake_each_other_all_ends_well() {
    let bounds = Bounds { sends: [2, 1], closes: [1, 1], refusals: 1, streams: true, ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn last_words_that_are_lost_with_their_stream_are_not_missed() {
    let bounds = Bounds { sends: [2, 1], closes: [1, 1], cuts: 2, streams: true, ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn a_connection_is_evicted_and_reopened() {
    let bounds = Bounds { sends: [2, 1], squeezes: 1, losses: 1, ticks: [1, 1], ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
    let bounds = Bounds { sends: [1, 1], closes: [0, 1], squeezes: 2, copies: 1, ..CALM };
    assert!(explore(bounds, &mut Taken::new()) > 1000);
}

#[test]
fn who_hears_early_makes_its_queue_pair_at_the_same_time() {
    let overlapped = Bounds { overlapped: true, ..CALM };
    let all = [
        Bounds { sends: [1, 0], losses: 2, copies: 1, ticks: [1, 1], ..overlapped },
        Bounds { sends: [1, 1], losses: 1, ticks: [1, 0], ..overlapped },
        Bounds { sends: [2, 0], closes: [1, 0], copies: 1, ..overlapped },
        Bounds { sends: [1, 0], squeezes: 1, deaths: 1, ..overlapped },
    ];
    assert!(all.map(|bounds| explore(bounds, &mut Taken::new())).iter().all(|worlds| *worlds > 500));
}

#[test]
fn what_was_made_ahead_connects_by_the_board_or_by_messages() {
    let both = Bounds { aheads: [true; 2], ..CALM };
    let all = [
        Bounds { sends: [1, 1], closes: [1, 0], losses: 1, ticks: [1, 1], ..both },
        Bounds { sends: [1, 0], refusals: 2, losses: 1, ticks: [1, 1], ..both },
        Bounds { sends: [1, 0], squeezes: 1, deaths: 1, ..both },
        Bounds { sends: [1, 1], copies: 1, aheads: [true, false], ..CALM },
    ];
    assert!(all.map(|bounds| explore(bounds, &mut Taken::new())).iter().all(|worlds| *worlds > 100));
}

/// The edges of the table, each where it may lead.
fn table() -> impl Iterator<Item = (StateName, InputName, StateName)> {
    EDGES.iter().flat_map(|edge| edge.2.iter().map(|&to| (edge.0, edge.1, to)))
}

#[test]
fn every_move_of_the_table_is_taken_under_every_fault() {
    let under_one = |fault: Fault| {
        let one = |wanted: Fault| u8::from(fault == wanted);
        let with = Bounds {
            losses: one(Fault::Loss),
            copies: one(Fault::Copy),
            refusals: one(Fault::Refusal),
            deaths: one(Fault::Death),
            squeezes: one(Fault::Squeeze),
            ..CALM
        };
        let mut taken = Taken::new();
        let worlds: usize = scripts(with).map(|bounds| explore(bounds, &mut taken)).iter().sum();
        (worlds, taken)
    };
    let (mut worlds, mut taken) = (0, Taken::new());
    std::thread::scope(|scope| {
        let threads = FAULTS.map(|fault| scope.spawn(move || under_one(fault)));
        for (one, edges) in threads.map(|thread| thread.join().expect("see above")) {
            worlds += one;
            taken.extend(edges);
        }
    });
    std::println!("{worlds} worlds, {} moves of the table under {} faults", table().count(), FAULTS.len());
    let listed: BTreeSet<_> = table().collect();
    let excess: Vec<_> = taken.iter().filter(|edge| !listed.contains(&(edge.0, edge.1, edge.2))).collect();
    assert!(excess.is_empty(), "taken but not listed: {excess:?}");
    for fault in FAULTS {
        let under = |edge: &(StateName, InputName, StateName)| {
            let is = |one: &&(StateName, InputName, StateName, u8)| (one.0, one.1, one.2) == *edge;
            taken.iter().filter(is).any(|one| one.3 & fault as u8 != 0)
        };
        // At the start of two processes nothing is on its way between them.
        let net = matches!(fault, Fault::Loss | Fault::Copy | Fault::Overtaking);
        let starts = |edge: &(StateName, InputName, StateName)| {
            use InputName::{Ahead, Card, Facts, NoFacts};
            // (That of an earlier connection, which these scripts are too short for.)
            let late = (edge.0, edge.1) == (StateName::Published, Card);
            late || (net && matches!(edge.1, Ahead | Facts | NoFacts))
        };
        let missing: Vec<_> = table().filter(|edge| !under(edge) && !starts(edge)).collect();
        assert!(missing.is_empty(), "never taken under {fault:?}: {missing:?}");
    }
}

/// What two processes may want of each other, beside one kind of fault.
fn scripts(with: Bounds) -> [Bounds; 10] {
    let ticks = [1, 0];
    let overlapped = Bounds { overlapped: true, ..with };
    let ahead = Bounds { aheads: [true; 2], ..with };
    [
        Bounds { sends: [1, 1], refusals: 1, ..overlapped },
        Bounds { sends: [1, 1], squeezes: 1, ..overlapped },
        Bounds { sends: [1, 0], closes: [0, 1], refusals: 1, ticks: [0, 1], ..ahead },
        Bounds { sends: [1, 1], refusals: 1, ticks: [0, 1], aheads: [true, false], ..with },
        Bounds { sends: [1, 0], squeezes: 1, deaths: 1, ..ahead },
        Bounds { sends: [1, 1], closes: [1, 1], ticks, ..with },
        Bounds { sends: [2, 1], closes: [1, 0], ..with },
        Bounds { sends: [1, 1], closes: [1, 0], squeezes: 1, ticks, ..with },
        Bounds { sends: [1, 1], refusals: 1, squeezes: 1, ticks, ..with },
        Bounds { sends: [2, 0], closes: [1, 0], refusals: 1, squeezes: 1, deaths: 1, ..with },
    ]
}

/// Wider bounds: many minutes. See the head of this file.
#[test]
#[ignore = "takes many minutes"]
fn wide() {
    let base = Bounds { sends: [2, 2], closes: [1, 1], losses: 1, copies: 1, ticks: [1, 1], ..CALM };
    let all = [
        Bounds { sends: [2, 1], ..base },
        Bounds { sends: [2, 2], closes: [1, 0], copies: 0, ticks: [2, 2], losses: 2, ..base },
        Bounds { sends: [1, 1], deaths: 1, ..base },
        Bounds { sends: [1, 1], squeezes: 1, ..base },
        Bounds { sends: [1, 1], refusals: 1, ..base },
        Bounds { sends: [2, 2], losses: 0, copies: 2, ticks: [0, 0], ..base },
    ];
    let worlds: usize = all.map(|bounds| explore(bounds, &mut Taken::new())).iter().sum();
    std::println!("{worlds} worlds in all");
}

/// Finds a planted bug within these bounds, which it does not violate without.
#[test]
fn planted_bugs_are_found() {
    let lossy = Bounds { losses: 1, ticks: [2, 1], ..CALM };
    let cases = [
        (Plant::RepeatedRequestDestroys, Bounds { sends: [1, 0], copies: 1, ..CALM }),
        (Plant::ReplyNeverResent, Bounds { sends: [1, 0], ..lossy }),
        (Plant::CrossedRequestsConnectTwice, Bounds { sends: [1, 1], ..CALM }),
        (Plant::StaleCloseKills, Bounds { sends: [2, 0], closes: [1, 0], copies: 1, ..CALM }),
        (Plant::StaleEpochReopens, Bounds { sends: [2, 0], closes: [1, 0], ..CALM }),
        (Plant::StaleFactsConnect, Bounds { sends: [1, 0], closes: [1, 1], aheads: [true; 2], ..CALM }),
        (Plant::NextRequestCutsStream, Bounds { sends: [1, 2], closes: [1, 0], streams: true, ..CALM }),
    ];
    for (plant, bounds) in cases {
        let found = std::panic::catch_unwind(|| explore_planted(bounds, Some(plant), &mut Taken::new()));
        assert!(found.is_err(), "{plant:?} was not found");
        explore(bounds, &mut Taken::new());
        std::println!("{plant:?} was found");
    }
}
