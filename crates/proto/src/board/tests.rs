//! Boards of all kinds against one flat map, and what each kind costs.
mod world;

use super::*;
use crate::ids::NodeId;
use crate::lane::world::Chance;
use crate::lane::{Generation, Head, JobId};
use crate::tree::Shape;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;
use world::{Net, Step, World};

fn config(kind: BoardKind) -> BoardConfig {
    BoardConfig::new(JobId(7), Generation(1), kind)
}

fn key(rank: usize, index: usize) -> Vec<u8> {
    format!("card-{rank}-{index}").into_bytes()
}

fn unique_value(rank: usize, index: usize, phase: usize, nth: usize) -> Vec<u8> {
    format!("value {rank} {index} {phase} {nth}").into_bytes()
}

const KEYS_PER_RANK: usize = 3;

/// Scripts of some phases; in every other one nothing is put, so that gets have one right answer.
struct Plan {
    scripts: Vec<Vec<Step>>,
}

impl Plan {
    fn new(ranks: usize, phases: usize, gets: usize, seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x5EED);
        let scripts = (0..ranks).map(|rank| script(rank, ranks, phases, gets, &mut chance)).collect();
        Plan { scripts }
    }

    /// What the `nth` get of `rank` must find if the key is its own: the last value that it put.
    fn own(&self, rank: usize, nth: usize, key: &[u8]) -> Option<Vec<u8>> {
        let gets = |step: &&Step| matches!(step, Step::Get(_));
        let script = &self.scripts[rank];
        let at = script.iter().enumerate().filter(|(_, step)| gets(step)).nth(nth).map(|(at, _)| at).unwrap();
        script[..at].iter().rev().find_map(|step| match step {
            Step::Put(put, value) if put == key => Some(value.clone()),
            _ => None,
        })
    }

    /// What a get in `phase` may find: the last value of earlier phases, or any of this one.
    fn allowed(&self, key: &[u8], phase: usize) -> Vec<Option<Vec<u8>>> {
        let mut allowed = vec![None];
        let owner = core::str::from_utf8(key).unwrap().split('-').nth(1).unwrap();
        let Ok(owner) = owner.parse::<usize>() else { return allowed };
        let mut at = 0;
        for step in &self.scripts[owner] {
            match step {
                Step::Fence => at += 1,
                Step::Put(put, value) if put == key && at < phase => allowed = vec![Some(value.clone())],
                Step::Put(put, value) if put == key && at == phase => allowed.push(Some(value.clone())),
                _ => {}
            }
        }
        allowed
    }
}

fn script(rank: usize, ranks: usize, phases: usize, gets: usize, chance: &mut Chance) -> Vec<Step> {
    let mut steps = Vec::new();
    for phase in 0..phases {
        let puts = if phase % 2 == 0 { chance.below(4) } else { 0 };
        let mut part: Vec<Step> = (0..gets).map(|_| Step::Get(any_key(rank, ranks, chance))).collect();
        for nth in 0..puts {
            let index = chance.below(KEYS_PER_RANK);
            // In order, so that "the last value" is what the script says.
            let at = chance.below(part.len() + 1);
            let after =
                part.iter().rposition(|step| matches!(step, Step::Put(..))).map_or(0, |last| last + 1);
            let put = Step::Put(key(rank, index), unique_value(rank, index, phase, nth));
            part.insert(at.max(after), put);
        }
        steps.append(&mut part);
        steps.push(Step::Fence);
    }
    steps
}

/// Often its own or its neighbour's.
fn any_key(rank: usize, ranks: usize, chance: &mut Chance) -> Vec<u8> {
    let owner = match chance.below(6) {
        0 => return format!("none-x-{}", chance.below(3)).into_bytes(),
        1 => rank,
        2 => (rank + 1) % ranks,
        _ => chance.below(ranks),
    };
    key(owner, chance.below(KEYS_PER_RANK))
}

fn agrees_with_a_flat_map(world: &mut World, phases: usize, gets: usize, seed: u64) {
    let plan = Plan::new(world.size(), phases, gets, seed);
    world.run(|rank| plan.scripts[rank].clone());
    assert_eq!(world.seen.len(), world.size() * phases * gets);
    let mut gets = vec![0; world.size()];
    for seen in &world.seen {
        let is_own = seen.key.starts_with(format!("card-{}-", seen.rank).as_bytes());
        let allowed = match is_own {
            true => vec![plan.own(seen.rank, gets[seen.rank], &seen.key)],
            false => plan.allowed(&seen.key, seen.phase),
        };
        gets[seen.rank] += 1;
        assert!(
            allowed.contains(&seen.value),
            "rank {} in phase {} found {:?} for {:?}, not one of {allowed:?}",
            seen.rank,
            seen.phase,
            seen.value.as_deref().map(alloc::string::String::from_utf8_lossy),
            alloc::string::String::from_utf8_lossy(&seen.key),
        );
    }
}

#[test]
fn every_kind_agrees_with_a_flat_map_on_trees_of_many_shapes() {
    for kind in BoardKind::ALL {
        for (nodes, radix, local) in
            [(1, 1, 3), (2, 1, 2), (9, 1, 1), (15, 2, 2), (40, 3, 1), (65, 8, 1), (64, 64, 2), (200, 2, 1)]
        {
            let seed = u64::from(nodes * 100 + radix);
            let mut world = World::new(nodes, radix, local, config(kind), seed);
            agrees_with_a_flat_map(&mut world, 5, 4, seed);
        }
    }
}

#[test]
fn every_kind_agrees_with_a_flat_map_on_a_thousand_nodes() {
    for (kind, radix) in BoardKind::ALL.into_iter().zip([3, 2, 8, 32]) {
        let mut world = World::new(1000, radix, 1, config(kind), 11);
        agrees_with_a_flat_map(&mut world, 2, 1, 12);
    }
}

#[test]
fn a_chain_of_a_thousand_nodes_works() {
    let mut world = World::new(1000, 1, 1, config(BoardKind::HcmabLru), 13);
    agrees_with_a_flat_map(&mut world, 2, 1, 14);
}

/// Bounds so small that almost everything is given up.
fn tight(kind: BoardKind) -> BoardConfig {
    BoardConfig { entries_per_process: 0, ..config(kind) }
}

#[test]
fn nodes_that_keep_two_entries_still_find_everything() {
    for radix in [1, 2, 3] {
        let mut world = World::new(13, radix, 2, tight(BoardKind::HcmabLru), u64::from(radix));
        agrees_with_a_flat_map(&mut world, 7, 6, 3);
        assert!(world.total(|counters| counters.evictions) > 0);
        assert!(world.boards[1..].iter().all(|board| board.counters().entries_peak <= 2));
    }
}

#[test]
fn nodes_that_are_short_of_bytes_still_find_everything() {
    for kind in BoardKind::ALL {
        let mut world = World::new(13, 2, 2, config(kind), 31);
        world.boards[1..].iter_mut().for_each(|board| board.bytes_max = 1000);
        agrees_with_a_flat_map(&mut world, 7, 6, 4);
        assert!(world.total(|counters| counters.evictions) > 0);
        assert!(world.boards[1..].iter().all(|board| board.cache.bytes() <= 1000), "{kind:?}");
    }
}

#[test]
fn who_follows_the_changes_has_what_the_board_keeps() {
    for kind in BoardKind::ALL {
        let config = BoardConfig { entries_per_process: 1, mirror: Mirror::On, ..config(kind) };
        let mut world = World::new(7, 2, 2, config, 32);
        agrees_with_a_flat_map(&mut world, 7, 6, 5);
        for board in &mut world.boards {
            let mut copy = BTreeMap::new();
            while let Some(change) = board.poll_change() {
                match change {
                    Change::Kept(key, value) => drop(copy.insert(key, value)),
                    Change::Dropped(key) => assert!(copy.remove(&key).is_some()),
                }
            }
            let kept =
                copy.iter().all(|(key, value)| board.cache.peek(key) == Some(&Known::Value(value.clone())));
            assert!(kept && copy.len() == board.cache.values(), "{kind:?}");
        }
    }
}

#[test]
fn a_small_job_in_a_large_tree_involves_only_its_branches() {
    for kind in BoardKind::ALL {
        let places = [NodeId(9), NodeId(9), NodeId(4), NodeId(12)];
        let mut world = World::placed(Shape::new(400, 2), &places, config(kind), 5);
        agrees_with_a_flat_map(&mut world, 5, 4, 6);
        let silent = |node: usize| world.boards[node].counters().traffic.messages_sent == 0;
        assert!((0..400).all(|node| silent(node) != [0, 1, 2, 4, 5, 9, 12].contains(&node)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_agrees_with_a_flat_map(
        nodes in 1u32..30, radix in 1u32..6, local in 1u32..4, kind in 0usize..4, tight_bounds in any::<bool>(),
        repeating in any::<bool>(), seed in any::<u64>(),
    ) {
        let kind = BoardKind::ALL[kind];
        let config = if tight_bounds { BoardConfig { entries_per_process: 1, ..config(kind) } } else { config(kind) };
        let mut world = World::new(nodes, radix, local, config, seed);
        world.net = if repeating { Net::Repeating } else { Net::Plain };
        agrees_with_a_flat_map(&mut world, 5, 5, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Neighbours that say anything, in any order, with heads that are right.
    #[test]
    fn whatever_neighbours_say_a_board_survives_within_its_bounds(
        node in 0u32..7, kind in 0usize..4,
        said in prop::collection::vec((0usize..6, message::tests::body(), 0u32..2), 0..60),
    ) {
        let places: Vec<NodeId> = [0, 0, 1, 1, 3, 4, 2, 2].map(NodeId).into();
        let place = crate::lane::Place::new(Shape::new(7, 2), NodeId(node), &places);
        let config = BoardConfig { entries_per_process: 1, ..config(BoardKind::ALL[kind]) };
        let mut board = Board::new(config, &place);
        let mut sequences = [0; 3];
        for (who, mut body, client) in said {
            if let Body::Enter { fence, .. } | Body::Leave { fence, .. } = &mut body {
                *fence %= 2; // so that some are right
            }
            let child = |index| place.children().get(index).map(|child| Neighbour::Child(*child));
            let from = [place.parent().map(|_| Neighbour::Parent), child(0), child(1)];
            match from.get(who) {
                Some(Some(from)) => {
                    let _ = board.hear(*from, message(sequences[who], body));
                    sequences[who] += 1;
                }
                Some(None) => {}
                None => {
                    let key = format!("{}", sequences[0] % 5);
                    let _ = (board.put(client, key.as_bytes(), b"v"), board.get(client, key.as_bytes()));
                    let _ = board.enter(client);
                }
            }
            while board.poll_action().is_some() {}
            prop_assert!(board.entries() <= board.entries_max && board.waiting.len() <= board.gets_max);
        }
    }
}

/// One put and `gets` gets of the ranks that follow, by every process.
fn exchange(world: &mut World, round: usize, gets: usize) {
    let size = world.size();
    let name = |rank: usize| format!("round-{round:04}-card-{:04}", rank % size).into_bytes();
    world.seen.clear();
    world.run(|rank| {
        let mut steps = vec![Step::Put(name(rank), vec![b'v'; 40]), Step::Fence];
        steps.extend((1..=gets).map(|step| Step::Get(name(rank + step))));
        steps
    });
    assert!(world.seen.iter().all(|seen| seen.value.is_some()));
    assert_eq!(world.seen.len(), size * gets);
}

/// Messages and bytes on the tree.
fn cost_of_exchange(kind: BoardKind, radix: u32, local: u32, gets: usize) -> (u64, u64) {
    let mut world = World::new(64, radix, local, config(kind), 9);
    exchange(&mut world, 0, gets);
    (world.messages(), world.total(|counters| counters.traffic.bytes_sent))
}

#[test]
fn broadcasting_needs_a_third_of_the_messages_for_two_gets_and_a_tenth_for_all() {
    for radix in [2, 3, 8, 64] {
        for local in [1, 4] {
            let count = |gets| BoardKind::ALL.map(|kind| cost_of_exchange(kind, radix, local, gets));
            let (two, all) = (count(2), count(64 * local as usize));
            std::println!(
                "64 nodes x {local}, radix {radix}: (messages, bytes) of hcs, hcma, hcmab, hcmab-lru"
            );
            std::println!("  one put, two gets {two:?}\n  one put, p gets {all:?}");
            let [two, all] = [two, all].map(|costs| costs.map(|(messages, _)| messages));
            let [hcs, hcma, hcmab, lru] = two;
            assert!(hcmab * 3 <= hcs && lru == hcmab && hcmab < hcma && hcma < hcs);
            let [hcs, hcma, hcmab, lru] = all;
            assert!(hcmab * 10 <= hcs && lru == hcmab && hcmab < hcma && hcma < hcs);
            assert_eq!(hcmab, 126, "one message up and one down per link");
        }
    }
}

#[test]
fn memory_is_flat_over_a_thousand_rounds_everywhere_but_at_the_root() {
    let (nodes, local) = (13, 2);
    let mut world = World::new(nodes, 3, local, config(BoardKind::HcmabLru), 21);
    let bound = (nodes * local) as usize * ENTRIES_PER_PROCESS;
    let peaks = |world: &World| -> Vec<(u64, u64)> {
        let counters = world.boards[1..].iter().map(Board::counters);
        counters.map(|counters| (counters.entries_peak, counters.bytes_peak)).collect()
    };
    let mut early = Vec::new();
    for round in 0..1000 {
        exchange(&mut world, round, 2);
        if round == 2 * ENTRIES_PER_PROCESS {
            early = peaks(&world);
        }
    }
    assert_eq!(peaks(&world), early);
    assert!(early.iter().all(|(entries, _)| *entries as usize <= bound));
    assert_eq!(world.boards[0].entries(), 1000 * world.size());
    assert_eq!(world.messages(), 1000 * 2 * u64::from(nodes - 1), "recent keys are found without asking");
}

#[test]
fn the_other_kinds_grow_with_the_rounds() {
    for (kind, floor) in [(BoardKind::Hcs, 50), (BoardKind::Hcma, 50), (BoardKind::Hcmab, 50 * 13)] {
        let mut world = World::new(13, 3, 1, config(kind), 22);
        (0..50).for_each(|round| exchange(&mut world, round, 2));
        assert!(world.boards.iter().all(|board| board.entries() >= floor), "{kind:?}");
    }
}

#[test]
fn an_evicted_key_is_found_again_and_then_kept() {
    let mut world = World::new(13, 3, 1, config(BoardKind::HcmabLru), 23);
    (0..20).for_each(|round| exchange(&mut world, round, 1));
    let old = || b"round-0000-card-0007".to_vec();
    let before = world.messages();
    world.seen.clear();
    world.run(|_| vec![Step::Get(old())]);
    assert!(world.seen.len() == 13 && world.seen.iter().all(|seen| seen.value == Some(vec![b'v'; 40])));
    assert_eq!(world.messages() - before, 24, "every link is used once each way");
    world.run(|_| vec![Step::Get(old())]);
    assert_eq!(world.messages() - before, 24);
}

#[test]
fn absence_is_remembered_until_a_fence_publishes_the_key() {
    for kind in BoardKind::ALL {
        let mut world = World::new(7, 2, 4, tight(kind), 24);
        world.boards.iter_mut().for_each(|board| board.entries_max = board.entries_max.max(16));
        (0..4).for_each(|round| exchange(&mut world, round, 1));
        let before = world.messages();
        let ask = |world: &mut World| {
            world.seen.clear();
            world.run(|_| vec![Step::Get(b"missing".to_vec()); 3]);
        };
        ask(&mut world);
        let first = world.messages() - before;
        assert_eq!(
            first,
            if kind == BoardKind::Hcmab { 0 } else { 12 },
            "{kind:?}: once per link and direction"
        );
        assert!(world.seen.len() == 84 && world.seen.iter().all(|seen| seen.value.is_none()));
        ask(&mut world);
        assert_eq!(world.messages() - before, first, "{kind:?}");
        let publish = |rank| match rank {
            5 => vec![Step::Put(b"missing".to_vec(), b"found".to_vec()), Step::Fence],
            _ => vec![Step::Fence],
        };
        world.run(publish);
        ask(&mut world);
        assert!(world.seen.iter().all(|seen| seen.value.as_deref() == Some(b"found")), "{kind:?}");
    }
}

#[test]
fn nothing_given_up_means_absence_costs_no_message() {
    let mut world = World::new(31, 2, 2, config(BoardKind::default()), 25);
    exchange(&mut world, 0, 2);
    let before = world.messages();
    world.run(|_| vec![Step::Get(b"PMI_hwloc_xmlfile".to_vec())]);
    assert_eq!(world.messages(), before);
    assert_eq!(world.total(|counters| counters.absent_hits), 62);
}

#[test]
fn equal_gets_climb_as_one() {
    let places = vec![NodeId(1); 5];
    let place = crate::lane::Place::new(Shape::new(2, 1), NodeId(1), &places);
    let mut board = Board::new(config(BoardKind::Hcs), &place);
    for client in 0..5 {
        assert_eq!(board.get(client, b"k"), Ok(Got::Later));
    }
    let Some(Action::Send(Neighbour::Parent, Message { head, body: Body::Get { .. } })) = board.poll_action()
    else {
        panic!("a get goes up");
    };
    assert_eq!(board.poll_action(), None);
    let found = Body::Found { key: (*b"k").into(), value: (*b"v").into() };
    board.hear(Neighbour::Parent, Message { head, body: found }).unwrap();
    for client in 0..5 {
        let value = Some((*b"v").into());
        assert_eq!(board.poll_action(), Some(Action::Answer { client, key: (*b"k").into(), value }));
    }
    let counters = board.counters();
    assert_eq!((counters.misses, counters.merged, counters.traffic.messages_sent), (5, 4, 1));
}

#[test]
fn a_put_is_newer_than_an_answer_that_comes_after_it() {
    let place = crate::lane::Place::new(Shape::new(2, 1), NodeId(1), &[NodeId(1), NodeId(1)]);
    for kind in [BoardKind::Hcs, BoardKind::Hcma] {
        let mut board = Board::new(config(kind), &place);
        assert_eq!(board.get(0, b"k"), Ok(Got::Later));
        board.put(1, b"k", b"v").unwrap();
        let value: Bytes = (*b"v").into();
        board.hear(Neighbour::Parent, message(0, Body::Absent { key: (*b"k").into() })).unwrap();
        let answer = Action::Answer { client: 0, key: (*b"k").into(), value: Some(value.clone()) };
        assert!(core::iter::from_fn(|| board.poll_action()).any(|action| action == answer), "{kind:?}");
        assert_eq!(board.get(1, b"k"), Ok(Got::Value(value)), "{kind:?}");
    }
}

#[test]
fn messages_of_an_earlier_generation_are_ignored_and_counted() {
    for kind in BoardKind::ALL {
        let old = BoardConfig { generation: Generation(0), ..config(kind) };
        let mut before = World::new(7, 2, 2, old, 26);
        before.record = Some(Vec::new());
        exchange(&mut before, 0, 3);
        let late = before.record.take().unwrap();
        let mut world = World::new(7, 2, 2, config(kind), 27);
        late.iter().for_each(|(from, to, bytes)| world.hear(*from, *to, bytes));
        exchange(&mut world, 1, 3);
        late.iter().for_each(|(from, to, bytes)| world.hear(*from, *to, bytes));
        assert_eq!(world.total(|counters| counters.traffic.late_ignored), 2 * late.len() as u64);
        world.seen.clear();
        world.run(|_| vec![Step::Get(b"round-0000-card-0001".to_vec())]);
        assert!(world.seen.iter().all(|seen| seen.value.is_none()), "{kind:?}: nothing of it was kept");
    }
}

#[test]
fn repeated_messages_are_ignored_and_counted() {
    let mut world = World::new(20, 3, 2, config(BoardKind::Hcs), 28);
    world.net = Net::Repeating;
    exchange(&mut world, 0, 4);
    assert!(world.total(|counters| counters.traffic.repeats_ignored) > 100);
}

#[test]
fn a_phase_larger_than_a_message_is_sent_in_parts() {
    for kind in BoardKind::ALL {
        let mut world = World::new(5, 2, 1, config(kind), 29);
        let name = |rank: usize, index: usize| format!("big-{rank}-{index}").into_bytes();
        world.run(|rank| {
            let mut steps: Vec<Step> =
                (0..60).map(|i| Step::Put(name(rank, i), vec![rank as u8; 10_000])).collect();
            steps.push(Step::Fence);
            steps.extend((0..60).map(|i| Step::Get(name((rank + 2) % 5, i))));
            steps
        });
        assert_eq!(world.seen.len(), 300);
        assert!(world.seen.iter().all(|seen| seen.value == Some(vec![((seen.rank + 2) % 5) as u8; 10_000])));
    }
}

#[test]
fn what_is_known_beforehand_is_found_everywhere() {
    for kind in BoardKind::ALL {
        let mut world = World::new(7, 2, 1, config(kind), 30);
        world.boards.iter_mut().for_each(|board| board.preload(b"PARENT_ROOT_PORT_NAME", b"port").unwrap());
        world.run(|_| vec![Step::Get(b"PARENT_ROOT_PORT_NAME".to_vec())]);
        assert!(
            world.seen.len() == 7 && world.seen.iter().all(|seen| seen.value.as_deref() == Some(b"port"))
        );
        assert_eq!(world.messages(), 0);
    }
}

#[test]
fn words_name_the_kinds() {
    for kind in BoardKind::ALL {
        assert_eq!(BoardKind::from_word(kind.word()), Some(kind));
    }
    assert_eq!(BoardKind::from_word("lru"), None);
    assert_eq!(BoardKind::default(), BoardKind::HcmabLru);
}

fn root(kind: BoardKind, bytes_max: usize) -> Board {
    let places = [NodeId(0), NodeId(1), NodeId(2)];
    let place = crate::lane::Place::new(Shape::new(3, 2), NodeId(0), &places);
    Board::new(BoardConfig { bytes_max, ..config(kind) }, &place)
}

fn message(sequence: u64, body: Body) -> Message {
    Message { head: Head { job: JobId(7), generation: Generation(1), sequence }, body }
}

#[test]
fn a_full_root_refuses_and_keeps_what_it_has() {
    let mut board = root(BoardKind::HcmabLru, 1000);
    board.put(0, b"a", &[0; 500]).unwrap();
    let error = board.put(0, b"b", &[0; 500]).unwrap_err();
    assert!(matches!(error, BoardError::Full { max: 1000, .. }));
    assert!(error.to_string().contains("of 1000 bytes used"));
    let entries: Entries = [Entry::new((*b"c").into(), vec![0; 500].into())].into();
    let from = Neighbour::Child(NodeId(1));
    let outcome = board.hear(from, message(0, Body::Enter { fence: 0, entries }));
    assert!(matches!(outcome, Err(BoardError::Full { .. })));
    assert!(matches!(board.get(0, b"a"), Ok(Got::Value(_))));
    assert_eq!(board.get(0, b"b"), Ok(Got::Absent));
}

#[test]
fn what_breaks_the_protocol_is_refused() {
    let mut board = root(BoardKind::HcmabLru, BOARD_BYTES_MAX);
    let (one, two) = (Neighbour::Child(NodeId(1)), Neighbour::Child(NodeId(2)));
    let enter = |fence| Body::Enter { fence, entries: Entries::default() };
    assert_eq!(board.put(1, b"k", b""), Err(BoardError::NoClient(1)));
    assert!(matches!(board.put(0, &[0; KEY_BYTES_MAX + 1], b""), Err(BoardError::TooLong { .. })));
    board.enter(0).unwrap();
    assert_eq!(board.enter(0), Err(BoardError::EnteredTwice(0)));
    let wrong = |from, got| Err(BoardError::WrongFence { from, got, expected: 0 });
    assert_eq!(board.hear(one, message(0, enter(3))), wrong(one, 3));
    board.hear(one, message(1, enter(0))).unwrap();
    assert_eq!(board.hear(one, message(2, enter(0))), wrong(one, 0));
    let put = || Body::Put(Entry::new((*b"k").into(), (*b"v").into()));
    assert_eq!(board.hear(two, message(0, put())), Err(BoardError::Misplaced(two)));
    let absent = Body::Absent { key: (*b"k").into() };
    assert_eq!(board.hear(two, message(1, absent)), Err(BoardError::Misplaced(two)));
    let stranger = Neighbour::Child(NodeId(5));
    let outcome = board.hear(stranger, message(0, put()));
    assert_eq!(outcome, Err(BoardError::Lane(LaneError::Stranger(stranger))));
    assert_eq!(board.poll_action(), None);
    assert_eq!(board.counters().traffic.refused, 5);
}

#[test]
fn a_process_with_too_many_gets_is_told_so() {
    let place = crate::lane::Place::new(Shape::new(2, 1), NodeId(1), &[NodeId(1)]);
    let mut board = Board::new(config(BoardKind::Hcma), &place);
    for i in 0..GETS_PER_CLIENT_MAX {
        assert_eq!(board.get(0, &i.to_le_bytes()), Ok(Got::Later));
    }
    assert_eq!(board.get(0, b"one more"), Err(BoardError::TooManyGets(0)));
    let answer = Body::Absent { key: 0u32.to_le_bytes().into() };
    board.hear(Neighbour::Parent, message(0, answer.clone())).unwrap();
    assert_eq!(board.get(0, b"one more"), Ok(Got::Later));
    assert_eq!(
        board.hear(Neighbour::Parent, message(1, answer)),
        Err(BoardError::OutOfTurn(Neighbour::Parent))
    );
}
