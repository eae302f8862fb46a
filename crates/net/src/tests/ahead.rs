//! Connections that a pattern predicts, and what is noted of first contacts.
use super::*;
use proto::pattern::{Contact, Observed, Pattern as Forecast};

/// Everybody with the next one.
fn ring(size: u32) -> Forecast {
    let contacts = (0..size).map(|from| Contact { from, to: (from + 1) % size, when_ms: 0 });
    Forecast::learn("ring", &Observed::new(size, contacts, &[]), None)
}

fn watched(kind: ProviderKind, size: u32, forecast: Option<&Forecast>) -> World {
    let mut world = World::new(kind, size);
    for end in &mut world.ends {
        end.job.finished = false;
        end.watch(forecast, None);
    }
    world
}

fn stats(world: &World, stat: Stat) -> Vec<u64> {
    world.ends.iter().map(|end| end.stat(stat)).collect()
}

/// Ranks that a process had something to say to, in order.
fn contacts(world: &World, slot: u32) -> Vec<u32> {
    world.node.contacts(slot, 99).listed.into_iter().map(|(rank, _)| rank).collect()
}

#[test]
fn what_is_predicted_is_connected_without_a_message() {
    both(|kind| {
        let mut world = watched(kind, 6, Some(&ring(6)));
        world.until("connections", |ends| ends.iter().all(|end| end.connected_peers().len() == 2));
        assert_eq!(stats(&world, Stat::ConnectionsAhead), [2; 6]);
        assert_eq!(stats(&world, Stat::ConnectionsAheadUsed), [0; 6]);
        assert_eq!(world.ends[2].connected_peers(), [Rank(1), Rank(3)]);
        assert!((0..6).all(|slot| contacts(&world, slot).is_empty()), "nobody had anything to say");
    });
}

#[test]
fn messages_of_all_lengths_use_what_was_connected_ahead() {
    both(|kind| {
        for bytes in [0, 8, 5000, 65_537, 1 << 20] {
            let mut world = watched(kind, 4, Some(&ring(4)));
            world.until("connections", |ends| ends.iter().all(|end| end.connected_peers().len() == 2));
            let handshakes = stats(&world, Stat::Handshakes);
            exchange(&mut world, 0, 1, bytes);
            exchange(&mut world, 1, 0, bytes);
            exchange(&mut world, 3, 2, bytes);
            exchange(&mut world, 0, 1, bytes);
            assert_eq!(stats(&world, Stat::Handshakes), handshakes, "no new connection is made");
            assert_eq!(
                (contacts(&world, 0), contacts(&world, 1), contacts(&world, 3)),
                (vec![1], vec![0], vec![2])
            );
            let used = stats(&world, Stat::ConnectionsAheadUsed);
            assert_eq!((used[0], used[1], used[3]), (1, 1, 1), "{bytes} bytes");
            // Who has only received knows at the end.
            world.ends[2].settle_ahead();
            if kind == ProviderKind::Soft || bytes > 4096 {
                assert_eq!(world.ends[2].stat(Stat::ConnectionsAheadUsed), 1, "{bytes} bytes");
            }
        }
    });
}

#[test]
fn messages_keep_their_order_where_connections_are_parked() {
    both(|kind| {
        for forecast in [None, Some(&ring(2))] {
            let mut world = watched(kind, 2, forecast);
            if forecast.is_some() {
                world.until("connections", |ends| ends.iter().all(|end| end.connected_peers().len() == 1));
            }
            keep_their_order(&mut world, &[8, 900, 3000, 5000, 70_000], 120);
            assert_eq!(stats(&world, Stat::Connections), [1, 1]);
        }
    });
}

#[test]
fn a_need_at_once_meets_what_was_asked_for() {
    both(|kind| {
        let mut world = watched(kind, 4, Some(&ring(4)));
        exchange(&mut world, 0, 1, 100); // before anything is ready
        exchange(&mut world, 0, 2, 100); // which was not predicted
        world.until("connections", |ends| ends[3].connected_peers().len() == 2);
        assert_eq!(contacts(&world, 0), [1, 2]);
        let counts = |stat| world.ends[0].stat(stat);
        assert_eq!((counts(Stat::ConnectionsAhead), counts(Stat::ConnectionsAheadUsed)), (2, 1));
    });
}

#[test]
fn first_contacts_are_noted_without_a_forecast() {
    both(|kind| {
        let mut world = watched(kind, 3, None);
        for (from, to) in [(0, 2), (0, 1), (0, 2), (2, 0), (1, 0)] {
            exchange(&mut world, from, to, 70_000);
        }
        // Also by those whose connection was made by the other side.
        assert_eq!(
            (contacts(&world, 0), contacts(&world, 1), contacts(&world, 2)),
            (vec![2, 1], vec![0], vec![0])
        );
        assert_eq!(stats(&world, Stat::ConnectionsAhead), [0; 3]);
        for _ in 0..3 {
            let other = world.ends[0].me();
            world.ends[2].close(other);
            exchange(&mut world, 2, 0, 70_000);
            exchange(&mut world, 0, 2, 70_000);
        }
        assert_eq!(world.node.contacts(0, 99).count, 2, "another connection is no first contact");
    });
}

#[test]
fn under_a_budget_what_was_made_ahead_and_not_used_goes_first() {
    both(|kind| {
        let ends = vec![(kind, 256 << 10); 8];
        let mut world = World::with(&ends, 10_000, Some(4));
        let forecast = ring(8);
        for end in &mut world.ends {
            end.job.finished = false;
            end.watch(Some(&forecast), Some(4));
        }
        world.until("connections", |ends| ends.iter().all(|end| end.connected_peers().len() == 2));
        exchange(&mut world, 0, 1, 100);
        for other in [3, 4, 5] {
            exchange(&mut world, 0, other, 100);
            exchange(&mut world, other, 0, 100);
        }
        let left = world.ends[0].connected_peers();
        assert!(left.contains(&Rank(1)) && !left.contains(&Rank(7)), "{left:?}");
        assert!(world.ends[0].stat(Stat::Evictions) + world.ends[7].stat(Stat::Evictions) > 0);
    });
}

#[test]
fn a_closed_connection_that_was_parked_is_opened_when_it_is_needed() {
    both(|kind| {
        let mut world = watched(kind, 3, Some(&ring(3)));
        world.until("connections", |ends| ends.iter().all(|end| end.connected_peers().len() == 2));
        let other = world.ends[1].me();
        world.ends[0].close(other);
        exchange(&mut world, 0, 1, 70_000);
        exchange(&mut world, 1, 0, 8);
        assert_eq!(contacts(&world, 0), [1]);
    });
}

#[test]
fn receives_take_the_short_way_while_a_forecast_halts() {
    let everybody = "banyan pattern 1\nprogram x\nranks 12\ndegree 11.00\nall after 0 hits 9 misses 0\n";
    let mut world = watched(ProviderKind::Soft, 12, Some(&Forecast::parse(everybody).unwrap()));
    for _ in 0..20 {
        exchange(&mut world, 0, 1, 8);
        exchange(&mut world, 1, 0, 8);
    }
    for _ in 0..2000 {
        world.ends.iter_mut().for_each(|end| _ = end.progress());
    }
    let mut short = 0;
    for _ in 0..100 {
        let sent = world.ends[0].isend(Rank(1), ENVELOPE, source(&[1; 8]), SendMode::Standard).unwrap();
        sent.into_iter().for_each(|id| _ = world.wait(0, id).unwrap());
        let to = UserBufMut::of_static(room(8));
        let pattern = Pattern { context: ENVELOPE.context, source: None, tag: None };
        match world.ends[1].recv_short(pattern, to) {
            Some(_) => short += 1,
            None => {
                let id = world.ends[1].irecv(pattern, to);
                world.wait(1, id).unwrap();
            }
        }
    }
    assert!(short > 90, "{short} of 100 receives took the short way");
}
