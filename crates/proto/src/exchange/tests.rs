//! Collective operations and letters on many trees, against what one process would compute.
mod world;

use super::*;
use crate::ids::NodeId;
use crate::lane::Head;
use crate::lane::world::Chance;
use crate::tree::Shape;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use proptest::prelude::*;
use world::{Got, Net, Step, World};

/// What `from` gives to `to` in a round; lengths vary, and some are empty.
fn data(round: usize, from: usize, to: usize) -> Bytes {
    let length = (round * 7 + from * 5 + to * 3) % 23;
    (0..length).map(|i| (round + from * 31 + to * 17 + i) as u8).collect()
}

/// Stands for "all" as a receiver.
const ALL: usize = 1 << 20;

fn any_collective(ranks: usize, chance: &mut Chance) -> Collective {
    let root = Rank(chance.below(ranks) as u32);
    match chance.below(6) {
        0 => Collective::Barrier,
        1 => Collective::Broadcast { root },
        2 => Collective::Gather { root },
        3 => Collective::Allgather,
        4 => Collective::Scatter { root },
        _ => Collective::Alltoall,
    }
}

fn call(collective: Collective, round: usize, rank: usize, ranks: usize) -> Call {
    let at_root = |root: Rank| root.index() == rank;
    let each = || (0..ranks).map(|to| data(round, rank, to)).collect::<Vec<_>>();
    match collective {
        Collective::Barrier => Call::Barrier,
        Collective::Broadcast { root } => {
            Call::Broadcast { root, data: at_root(root).then(|| data(round, rank, ALL)) }
        }
        Collective::Gather { root } => Call::Gather { root, data: data(round, rank, root.index()) },
        Collective::Allgather => Call::Allgather { data: data(round, rank, ALL) },
        Collective::Scatter { root } => Call::Scatter { root, data: at_root(root).then(each) },
        Collective::Alltoall => Call::Alltoall { data: each() },
    }
}

/// The oracle.
fn expected(collective: Collective, round: usize, rank: usize, ranks: usize) -> Outcome {
    let from_all = |to: usize| Outcome::Many((0..ranks).map(|from| data(round, from, to)).collect());
    match collective {
        Collective::Barrier => Outcome::Nothing,
        Collective::Broadcast { root } => Outcome::One(data(round, root.index(), ALL)),
        Collective::Gather { root } if root.index() == rank => from_all(rank),
        Collective::Gather { .. } => Outcome::Nothing,
        Collective::Allgather => from_all(ALL),
        Collective::Scatter { root } => Outcome::One(data(round, root.index(), rank)),
        Collective::Alltoall => from_all(rank),
    }
}

fn rounds_agree(world: &mut World, collectives: &[Collective]) {
    let ranks = world.size();
    let rounds = || collectives.iter().copied().enumerate();
    world.run(|rank| rounds().map(|(round, what)| Step::Call(call(what, round, rank, ranks))).collect());
    for rank in 0..ranks {
        let got = core::mem::take(&mut world.got[rank]);
        let expected: Vec<Got> =
            rounds().map(|(round, what)| Got::Outcome(expected(what, round, rank, ranks))).collect();
        assert_eq!(got, expected, "rank {rank}");
    }
}

fn every_collective(root: u32) -> [Collective; 6] {
    let root = Rank(root);
    [
        Collective::Barrier,
        Collective::Broadcast { root },
        Collective::Gather { root },
        Collective::Allgather,
        Collective::Scatter { root },
        Collective::Alltoall,
    ]
}

#[test]
fn every_collective_agrees_with_one_process_on_trees_of_many_shapes() {
    for (nodes, radix, local) in
        [(1, 1, 1), (1, 3, 4), (2, 1, 2), (9, 1, 1), (15, 2, 2), (40, 3, 1), (64, 8, 1), (65, 64, 2)]
    {
        let mut world = World::new(nodes, radix, local, u64::from(nodes * 10 + radix));
        rounds_agree(&mut world, &every_collective(nodes * local - 1));
        rounds_agree(&mut world, &every_collective(0));
        assert!(world.exchanges.iter().all(|exchange| exchange.counters().rounds == 12));
    }
}

#[test]
fn collectives_work_on_a_thousand_nodes() {
    for radix in [2, 3, 32] {
        let mut world = World::new(1000, radix, 1, u64::from(radix));
        rounds_agree(&mut world, &every_collective(777)[..5]);
    }
    let mut chain = World::new(1000, 1, 1, 4);
    rounds_agree(&mut chain, &every_collective(777)[..3]);
}

#[test]
fn every_collective_takes_one_message_up_and_one_down_per_link() {
    for what in every_collective(5) {
        let mut world = World::new(40, 3, 2, 5);
        rounds_agree(&mut world, &[what]);
        assert_eq!(world.messages(), 2 * 39, "{what:?}");
    }
}

#[test]
fn data_does_not_rise_above_the_lowest_common_node() {
    // Both processes on node 9 of a chain: only the word that all take part goes to the root.
    let bytes = |places: Vec<NodeId>| {
        let mut world = World::placed(Shape::new(10, 1), places, Generation(1), 6);
        world.run(|_| vec![Step::Call(Call::Alltoall { data: vec![vec![7; 1000].into(); 2] })]);
        world.bytes()
    };
    assert!(bytes(vec![NodeId(9), NodeId(9)]) < 1000);
    assert!(bytes(vec![NodeId(8), NodeId(9)]) < 2000 + 1000);
    assert!(bytes(vec![NodeId(0), NodeId(9)]) > 9 * 2000);
}

#[test]
fn operations_larger_than_a_message_are_sent_in_parts() {
    let mut world = World::new(7, 2, 1, 7);
    let large = |from: usize, to: usize| -> Bytes { vec![(from * 16 + to) as u8; 50_000].into() };
    world.run(|rank| vec![Step::Call(Call::Alltoall { data: (0..7).map(|to| large(rank, to)).collect() })]);
    for rank in 0..7 {
        let all: Arc<[Bytes]> = (0..7).map(|from| large(from, rank)).collect();
        assert_eq!(world.got[rank], [Got::Outcome(Outcome::Many(all))]);
    }
    assert!(world.messages() > 2 * 6);
}

/// Each process sends to some others, then receives as many from each as were sent to it.
fn letters_arrive(world: &mut World, letters: usize, seed: u64) {
    let ranks = world.size();
    let mut chance = Chance::new(seed);
    let mut sent: Vec<Vec<Letter>> = vec![Vec::new(); ranks];
    for (from, own) in sent.iter_mut().enumerate() {
        for nth in 0..letters {
            let (to, tag) = (chance.below(ranks), chance.below(2) as u32);
            let letter =
                Letter { from: Rank(from as u32), to: Rank(to as u32), tag, data: data(nth, from, to) };
            own.push(letter);
        }
    }
    let wanted = |to: usize| sent.iter().flatten().filter(move |letter| letter.to.index() == to);
    world.run(|rank| {
        let mut steps: Vec<Step> = sent[rank].iter().cloned().map(Step::Send).collect();
        steps.extend(wanted(rank).map(|letter| Step::Recv(Some(letter.from), letter.tag)));
        steps
    });
    for rank in 0..ranks {
        let got = core::mem::take(&mut world.got[rank]);
        let expected: Vec<Got> = wanted(rank).cloned().map(Got::Letter).collect();
        assert_eq!(got, expected, "rank {rank}: all letters, those of a pair and tag in order");
    }
}

#[test]
fn letters_find_their_way_on_trees_of_many_shapes() {
    for (nodes, radix, local) in [(1, 1, 3), (9, 1, 1), (15, 2, 2), (200, 3, 1), (65, 64, 1), (1000, 8, 1)] {
        let mut world = World::new(nodes, radix, local, u64::from(nodes));
        letters_arrive(&mut world, 4, u64::from(radix));
    }
}

#[test]
fn a_receive_from_anybody_takes_the_first_letter() {
    let mut world = World::new(7, 2, 1, 8);
    let letter = |from: u32| Letter { from: Rank(from), to: Rank(0), tag: 9, data: vec![from as u8].into() };
    world.run(|rank| match rank {
        0 => vec![Step::Recv(None, 9); 6],
        rank => vec![Step::Send(letter(rank as u32))],
    });
    let senders = world.got[0].iter().map(|got| match got {
        Got::Letter(letter) => letter.from.0,
        Got::Outcome(_) => unreachable!(),
    });
    let mut senders: Vec<u32> = senders.collect();
    senders.sort_unstable();
    assert_eq!(senders, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn letters_and_collectives_do_not_disturb_each_other() {
    let mut world = World::new(15, 2, 1, 9);
    let letter = |from: usize| Letter {
        from: Rank(from as u32),
        to: Rank((from as u32 + 1) % 15),
        tag: 0,
        data: data(0, from, 1),
    };
    world.run(|rank| {
        let before = Rank((rank as u32 + 14) % 15);
        vec![
            Step::Send(letter(rank)),
            Step::Call(Call::Barrier),
            Step::Recv(Some(before), 0),
            Step::Call(Call::Barrier),
        ]
    });
    assert!(world.got.iter().all(|got| got.len() == 3 && matches!(got[1], Got::Letter(_))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_agrees_with_one_process(
        nodes in 1u32..25, radix in 1u32..6, local in 1u32..4, repeating in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut world = World::new(nodes, radix, local, seed);
        world.net = if repeating { Net::Repeating } else { Net::Plain };
        let mut chance = Chance::new(seed);
        let collectives: Vec<Collective> = (0..6).map(|_| any_collective(world.size(), &mut chance)).collect();
        rounds_agree(&mut world, &collectives);
        letters_arrive(&mut world, 5, seed);
    }

    #[test]
    fn any_placement_agrees_with_one_process(
        nodes in 1u32..25, radix in 1u32..6, places in prop::collection::vec(any::<u32>(), 1..20), seed in any::<u64>(),
    ) {
        let places = places.into_iter().map(|place| NodeId(place % nodes)).collect();
        let mut world = World::placed(Shape::new(nodes, radix), places, Generation(1), seed);
        rounds_agree(&mut world, &every_collective(0));
        letters_arrive(&mut world, 5, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Neighbours that say anything, in any order, with heads that are right.
    #[test]
    fn whatever_neighbours_say_an_exchange_survives(
        node in 0u32..7, said in prop::collection::vec((0usize..5, message::tests::body(), 0u32..8), 0..60),
    ) {
        let places: Vec<NodeId> = [0, 0, 1, 1, 3, 4, 2, 2].map(NodeId).into();
        let place = Place::new(Shape::new(7, 2), NodeId(node), &places);
        let mut exchange = Exchange::new(JobId(3), Generation(1), place.clone());
        let mut sequences = [0; 3];
        for (who, body, number) in said {
            let child = |index| place.children().get(index).map(|child| Neighbour::Child(*child));
            let from = [place.parent().map(|_| Neighbour::Parent), child(0), child(1)];
            match from.get(who) {
                Some(Some(from)) => {
                    let _ = exchange.hear(*from, message(sequences[who], plausible(body, number)));
                    sequences[who] += 1;
                }
                Some(None) => {}
                None => {
                    let collective = every_collective(number)[number as usize % 6];
                    let _ = exchange.enter(Rank(number), call(collective, 0, number as usize, 8));
                    let _ = exchange.recv(Rank(number), None, 0);
                }
            }
            while exchange.poll_action().is_some() {}
        }
    }
}

/// Numbers that mean something here, so that more than the first check is passed.
fn plausible(mut body: Body, number: u32) -> Body {
    if let Body::Letter(letter) = &mut body {
        (letter.from, letter.to) = (Rank(letter.from.0 % 9), Rank(number));
    }
    if let Body::Up { round, .. } | Body::Down { round, .. } = &mut body {
        *round %= 2;
    }
    if let Body::Part(chunks) | Body::Up { chunks, .. } | Body::Down { chunks, .. } = &mut body {
        for chunk in chunks {
            (chunk.from, chunk.to) = (Rank(number), chunk.to.map(|to| Rank(to.0 % 8)));
        }
    }
    body
}

#[test]
fn messages_of_an_earlier_generation_and_repeats_are_ignored_and_counted() {
    let places: Vec<NodeId> = (0..7).map(NodeId).collect();
    let mut before = World::placed(Shape::new(7, 2), places, Generation(0), 10);
    before.record = Some(Vec::new());
    rounds_agree(&mut before, &every_collective(2));
    let late = before.record.take().unwrap();
    let mut world = World::new(7, 2, 1, 11);
    world.net = Net::Repeating;
    late.iter().for_each(|(from, to, bytes)| world.hear(*from, *to, bytes));
    rounds_agree(&mut world, &every_collective(3));
    late.iter().for_each(|(from, to, bytes)| world.hear(*from, *to, bytes));
    let counters = || world.exchanges.iter().map(|exchange| exchange.counters().traffic);
    assert_eq!(counters().map(|traffic| traffic.late_ignored).sum::<u64>(), 2 * late.len() as u64);
    assert!(counters().map(|traffic| traffic.repeats_ignored).sum::<u64>() > 0);
}

fn root() -> Exchange {
    let places = [NodeId(0), NodeId(0), NodeId(1), NodeId(2)];
    Exchange::new(JobId(3), Generation(1), Place::new(Shape::new(3, 2), NodeId(0), &places))
}

fn message(sequence: u64, body: Body) -> Message {
    Message { head: Head { job: JobId(3), generation: Generation(1), sequence }, body }
}

#[test]
fn processes_that_disagree_are_told_so() {
    let mut root = root();
    root.enter(Rank(0), Call::Barrier).unwrap();
    let gather = Collective::Gather { root: Rank(0) };
    let mismatch = ExchangeError::Mismatch { round: 0, got: gather, expected: Collective::Barrier };
    let call = || Call::Gather { root: Rank(0), data: Bytes::default() };
    assert_eq!(root.enter(Rank(1), call()), Err(mismatch.clone()));
    let up = Body::Up { round: 0, collective: gather, chunks: Vec::new() };
    assert_eq!(root.hear(Neighbour::Child(NodeId(1)), message(0, up)), Err(mismatch.clone()));
    assert!(mismatch.to_string().contains("operation 0 is Barrier for some and Gather"));
    assert_eq!(root.enter(Rank(0), Call::Barrier), Err(ExchangeError::EnteredTwice(Rank(0))));
    root.enter(Rank(1), Call::Barrier).unwrap();
    assert_eq!(root.poll_action(), None);
}

#[test]
fn what_breaks_the_protocol_is_refused() {
    let mut root = root();
    let child = Neighbour::Child(NodeId(1));
    let letter = |from, to| Letter { from: Rank(from), to: Rank(to), tag: 0, data: Bytes::default() };
    assert_eq!(root.send(letter(2, 0)), Err(ExchangeError::NotHere(Rank(2))));
    assert_eq!(root.send(letter(0, 4)), Err(ExchangeError::NoRank(Rank(4))));
    assert_eq!(root.recv(Rank(3), None, 0), Err(ExchangeError::NotHere(Rank(3))));
    let long = vec![0; CHUNK_BYTES_MAX + 1].into();
    let outcome = root.enter(Rank(0), Call::Allgather { data: long });
    assert_eq!(outcome, Err(ExchangeError::TooLong(CHUNK_BYTES_MAX + 1)));
    let wrong = ExchangeError::WrongParts { rank: Rank(0), got: 1, expected: 4 };
    assert_eq!(root.enter(Rank(0), Call::Alltoall { data: vec![Bytes::default()] }), Err(wrong));
    let nobody = Call::Broadcast { root: Rank(4), data: None };
    assert_eq!(root.enter(Rank(0), nobody), Err(ExchangeError::NoRank(Rank(4))));

    let misrouted = Err(ExchangeError::Misrouted(child));
    assert_eq!(root.hear(child, message(0, Body::Letter(letter(3, 0)))), misrouted, "not from there");
    assert_eq!(root.hear(child, message(1, Body::Letter(letter(2, 2)))), misrouted, "no need to come here");
    let chunk = Chunk { from: Rank(3), to: None, data: Bytes::default() };
    assert_eq!(root.hear(child, message(2, Body::Part(vec![chunk]))), misrouted);
    let down = Body::Down { round: 0, chunks: Vec::new() };
    assert_eq!(root.hear(child, message(3, down)), Err(ExchangeError::Misplaced(child)));
    let up = |round| Body::Up { round, collective: Collective::Barrier, chunks: Vec::new() };
    let wrong = |got| Err(ExchangeError::WrongRound { from: child, got, expected: 0 });
    assert_eq!(root.hear(child, message(4, up(1))), wrong(1));
    root.hear(child, message(5, up(0))).unwrap();
    assert_eq!(root.hear(child, message(6, up(0))), wrong(0));
    assert_eq!((root.poll_action(), root.counters().traffic.refused), (None, 6));
}

#[test]
fn an_operation_without_all_its_data_is_an_error() {
    let mut root = root();
    let up = Body::Up { round: 0, collective: Collective::Allgather, chunks: Vec::new() };
    let call = || Call::Allgather { data: Bytes::default() };
    root.enter(Rank(0), call()).unwrap();
    root.enter(Rank(1), call()).unwrap();
    root.hear(Neighbour::Child(NodeId(1)), message(0, up.clone())).unwrap();
    let outcome = root.hear(Neighbour::Child(NodeId(2)), message(0, up));
    assert_eq!(outcome, Err(ExchangeError::Incomplete { round: 0, collective: Collective::Allgather }));
}
