//! What endpoints count of what they do.
use super::*;

/// Counters by kind: that of `kind`, and that of the other one.
fn by_kind(end: &Endpoint, kind: ProviderKind, shared: Stat, sockets: Stat) -> (u64, u64) {
    let (shared, sockets) = (end.stat(shared), end.stat(sockets));
    if kind == ProviderKind::Soft { (shared, sockets) } else { (sockets, shared) }
}

fn open(end: &Endpoint, kind: ProviderKind) -> (u64, u64) {
    by_kind(end, kind, Stat::OpenShared, Stat::OpenSockets)
}

/// Connects ranks 0 and 1, until both know.
fn connect(world: &mut World) {
    exchange(world, 0, 1, 8);
    world.until("the answer", |ends| ends[..2].iter().all(|end| end.wireup.connections().now == 1));
}

fn close_and_wait(world: &mut World) {
    let other = world.ends[1].me();
    world.ends[0].close(other);
    world.until("the close", |ends| {
        ends.iter_mut().for_each(|end| _ = end.tick());
        ends.iter().all(|end| end.wireup.connections().now == 0)
    });
}

#[test]
fn connections_are_counted_by_kind_and_state() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        let early = world.ends[0].isend(Rank(1), ENVELOPE, source(&[1; 8]), SendMode::Synchronous).unwrap();
        assert_eq!((world.ends[0].stat(Stat::Opening), open(&world.ends[0], kind)), (1, (0, 0)));
        let got = world.ends[1].irecv(from(0), UserBufMut::of_static(room(8)));
        world.wait(1, got).unwrap();
        world.wait(0, early.unwrap()).unwrap();
        world.until("the answer", |ends| ends.iter().all(|end| end.wireup.connections().now == 1));
        assert_eq!((world.ends[0].stat(Stat::Opening), open(&world.ends[0], kind)), (0, (1, 0)));
        close_and_wait(&mut world);
        for end in &world.ends {
            assert_eq!((open(end, kind), end.stat(Stat::Closing)), ((0, 0), 0));
            let peaks = by_kind(end, kind, Stat::ConnectionsShared, Stat::ConnectionsSockets);
            assert_eq!((peaks, end.stat(Stat::Connections)), ((1, 0), 1));
        }
    });
}

#[test]
fn a_connection_that_its_peer_has_not_closed_yet_is_closing() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        connect(&mut world);
        let other = world.ends[1].me();
        world.ends[0].close(other);
        assert_eq!((world.ends[0].stat(Stat::Closing), open(&world.ends[0], kind)), (1, (1, 0)));
    });
}

#[test]
fn who_needs_a_connection_counts_the_delay_and_who_is_asked_does_not() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        for round in 1..=2 {
            connect(&mut world);
            exchange(&mut world, 0, 1, 8);
            let [count, sum, longest] =
                [Stat::FirstMessages, Stat::FirstMessageSum, Stat::FirstMessageLongest]
                    .map(|s| world.ends[0].stat(s));
            assert!(count == round && longest > 0 && sum >= longest, "{count} {sum} {longest}");
            assert!(round == 1 || sum > longest);
            assert_eq!(world.ends[1].stat(Stat::FirstMessages), 0);
            close_and_wait(&mut world);
        }
    });
}

#[test]
fn memory_is_pinned_while_a_peer_may_read_it() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        connect(&mut world);
        let bytes = 1 << 20;
        let sent =
            world.ends[0].isend(Rank(1), ENVELOPE, source(&vec![1; bytes]), SendMode::Standard).unwrap();
        let pinned =
            |world: &World| [Stat::PinnedBytes, Stat::PinnedBytesPeak].map(|s| world.ends[0].stat(s));
        assert_eq!(pinned(&world), [bytes as u64; 2]);
        let got = world.ends[1].irecv(from(0), UserBufMut::of_static(room(bytes)));
        world.wait(1, got).unwrap();
        world.wait(0, sent.unwrap()).unwrap();
        assert_eq!(pinned(&world), [0, bytes as u64]);
    });
}

#[test]
fn a_peer_is_lost_once() {
    let mut world = World::new(ProviderKind::Soft, 2);
    connect(&mut world);
    let end = &mut world.ends[0];
    let ix = end.wireup.find_process(Process(1)).unwrap();
    end.fail(ix, NetError::StaleRequest);
    end.fail(ix, NetError::StaleRequest);
    assert_eq!(end.stat(Stat::Failed), 1);
}

#[test]
fn the_node_learns_whom_a_rank_met_and_how() {
    both(|kind| {
        let mut world = World::new(kind, 3);
        connect(&mut world);
        close_and_wait(&mut world);
        let met = |slot, plane| world.node.met(slot, plane).collect::<Vec<u32>>();
        let other = ProviderKind::Sockets as usize - kind as usize;
        assert_eq!((met(0, kind as usize), met(1, kind as usize)), (vec![1], vec![0]));
        assert!(met(0, other).is_empty() && met(2, kind as usize).is_empty());
    });
}

#[test]
fn what_was_counted_stands_in_the_slot() {
    let mut world = World::new(ProviderKind::Soft, 2);
    connect(&mut world);
    let slot = |world: &World, stat: Stat| world.ends[1].context.published_stat(stat as usize);
    // A crash from here on leaves this.
    assert_eq!([Stat::OpenShared, Stat::Handshakes, Stat::Complete].map(|s| slot(&world, s)), [1, 1, 0]);
    world.ends[1].publish_last_stats();
    assert_eq!(slot(&world, Stat::Complete), 1);
}
