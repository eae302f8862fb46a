//! Everybody connects to everybody at once, because all are about to send to all.
use super::*;
use crate::Record;
use crate::together::Together;

const NONE: Record = [0; size_of::<Record>()];

fn world(ranks: u32, qp_max: u32, budget: Option<u32>) -> World {
    let ends = vec![(ProviderKind::Soft, 4096); ranks as usize];
    let mut world = World::with(&ends, qp_max, budget);
    world.ends.iter_mut().for_each(|end| end.job.together = Some(Together::for_tests()));
    world
}

/// What each offers each.
fn offers(world: &mut World) -> Vec<Vec<Record>> {
    let size = world.ends.len() as u32;
    let all: Vec<Process> = (0..size).map(Process).collect();
    let offer = |end: &mut Endpoint| {
        end.offer_together(&all).into_iter().map(|record| record.unwrap_or(NONE)).collect()
    };
    world.ends.iter_mut().map(offer).collect()
}

fn take(world: &mut World, offers: &[Vec<Record>]) {
    for (me, end) in world.ends.iter_mut().enumerate() {
        for (other, records) in offers.iter().enumerate() {
            end.take_together(Process(other as u32), &records[me]);
        }
    }
}

fn all_talk(world: &mut World) {
    let size = world.ends.len();
    for (a, b) in (0..size).flat_map(|a| (0..size).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        exchange(world, a, b, 100 + 5000 * (a % 2));
    }
    for end in &world.ends {
        assert_eq!(end.connected_peers().len(), size - 1);
    }
}

#[test]
fn all_are_connected_without_a_question() {
    let mut world = world(6, 10_000, None);
    let offers = offers(&mut world);
    assert!(offers.iter().enumerate().all(|(me, records)| {
        records.iter().enumerate().all(|(to, record)| (*record == NONE) == (me == to))
    }));
    take(&mut world, &offers);
    for end in &world.ends {
        assert_eq!((end.connected_peers().len(), end.stat(Stat::ConnectedTogether)), (5, 5));
    }
    all_talk(&mut world);
    assert!(world.ends.iter().all(|end| end.stat(Stat::Retransmits) == 0));
}

#[test]
fn who_is_connected_already_stays_so() {
    let mut world = world(4, 10_000, None);
    exchange(&mut world, 0, 1, 8);
    exchange(&mut world, 3, 1, 8);
    let offers = offers(&mut world);
    assert_eq!((offers[0][1], offers[1][3]), (NONE, NONE));
    take(&mut world, &offers);
    assert_eq!(world.ends[1].stat(Stat::ConnectedTogether), 1);
    all_talk(&mut world);
    assert!(world.ends.iter().all(|end| end.stat(Stat::Reopenings) == 0));
}

#[test]
fn who_offers_nothing_is_asked() {
    let mut world = world(4, 10_000, None);
    world.ends[2].job.together = None;
    let offers = offers(&mut world);
    assert_eq!(offers[2], [NONE; 4]);
    take(&mut world, &offers);
    assert_eq!(world.ends[0].stat(Stat::ConnectedTogether), 2);
    all_talk(&mut world);
}

#[test]
fn a_request_that_comes_meanwhile_is_answered() {
    let mut world = world(3, 10_000, None);
    world.ends[1].job.together = None;
    let offers = offers(&mut world);
    // Rank 1 is not there yet, and has something to say to one who has made a queue pair for it.
    exchange(&mut world, 1, 0, 8);
    take(&mut world, &offers);
    all_talk(&mut world);
    assert!(world.ends.iter().all(|end| end.stat(Stat::Reopenings) == 0));
}

#[test]
fn few_queue_pairs_are_offered_as_far_as_they_go() {
    for (qp_max, budget) in [(22, None), (10_000, Some(3))] {
        let mut world = world(5, qp_max, budget);
        let offers = offers(&mut world);
        let count = offers.iter().flatten().filter(|record| **record != NONE).count();
        assert!((1..20).contains(&count), "{count}");
        take(&mut world, &offers);
        for (a, b) in [(0, 4), (4, 1), (2, 3), (3, 0), (1, 2)] {
            exchange(&mut world, a, b, 100);
        }
    }
}
