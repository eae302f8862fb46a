//! What the soft provider does besides.
use super::rig::*;
use banyan_fabric::state::QpState;
use banyan_fabric::{
    Config, CreateError, PostError, ProviderKind, Push, Qp, QpWant, RdmaError, RemoteMemory, Role,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

const SOFT: ProviderKind = ProviderKind::Soft;

fn pair_without_cma() -> (Peer, Peer) {
    let host = Host::new(SOFT, 2, 100);
    let open = |slot| host.open_with(&Config { cma: false, ..host.config(slot) });
    (open(0), open(1))
}

#[test]
fn the_device_limit_is_refused_and_given_back() {
    let host = Host::new(SOFT, 2, 4);
    let (mut a, mut b) = (host.open(0), host.open(1)); // one each for datagrams
    let first = a.context.create_qp_as(SOFT, Role::Answers).unwrap();
    b.context.create_qp_as(SOFT, Role::Answers).unwrap();
    assert!(
        matches!(b.context.create_qp_as(SOFT, Role::Answers), Err(CreateError::Device(limit)) if limit.max == 4)
    );
    a.context.destroy_qp(first);
    b.context.create_qp_as(SOFT, Role::Answers).unwrap();
    drop(b);
    assert_eq!(host.node.qps_in_use(), 1);
}

#[test]
fn the_last_queue_pairs_are_kept_for_answers() {
    let host = Host::new(SOFT, 2, 16);
    let (mut a, mut b) = (host.open(0), host.open(1));
    let asks = (0..20).take_while(|_| a.context.create_qp_as(SOFT, Role::Asks).is_ok()).count();
    assert_eq!(asks, 12, "two are for datagrams, two are kept");
    let refused = b.context.create_qp_as(SOFT, Role::Asks).unwrap_err();
    let words =
        "the device has no queue pair left: 14 of 16 are in use on this node, 2 are kept for peers that ask";
    assert_eq!(refused.to_string(), words);
    b.context.want_qp(Some(QpWant::Any));
    assert!(a.context.qp_wanted() && !b.context.qp_wanted());
    b.context.create_qp_as(SOFT, Role::Answers).unwrap();
    drop(b);
    assert!(!a.context.qp_wanted(), "who is gone wants nothing");
}

/// Posts a message, with the peer polling until there is room for it.
fn post(a: &mut Peer, b: &mut Peer, qp: Qp, message: &[u8]) -> Result<(), PostError> {
    wait("room", || {
        assert_eq!(b.poll(), None);
        match a.context.post_send(qp, [0, 0], source(message), Push::Now) {
            Ok(_) => Some(Ok(())),
            Err(PostError::Full) => None,
            Err(error) => Some(Err(error)),
        }
    })
}

/// A receiver that takes only so many messages at a time, and then computes, does not leave a writer asleep for which it
/// has made room.
#[test]
fn a_writer_that_waits_for_room_is_something_to_look_at() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, _) = connect(&mut a, &mut b);
    assert!(b.is_quiet() && !b.context.has_others());
    let mut sent = 0;
    while a.context.post_send(qa, [0, 0], source(b""), Push::Now).is_ok() {
        sent += 1;
    }
    a.context.set_waiting(qa, true);
    let sleep = a.context.prepare_sleep(None).unwrap().expect("nothing is there");
    let mut taken = 0;
    while !b.context.has_others() {
        assert!(b.context.poll_ring().is_some(), "{taken} of {sent} messages taken");
        taken += 1;
    }
    assert!(taken < sent && taken < 64, "{taken} of {sent} messages taken before it was seen");
    b.poll().expect("the next message");
    let start = std::time::Instant::now();
    sleep.wait(Duration::from_secs(20));
    assert!(start.elapsed() < Duration::from_secs(10), "nobody woke the writer");
}

/// Times that are far from those the rig tells.
const LATER_NS: u64 = 1 << 60;

#[test]
fn a_large_ring_that_is_idle_becomes_small_again() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, qb) = connect(&mut a, &mut b);
    let (mapped, touched) = (a.context.mapped_bytes(), b.context.touched_bytes());
    let message = pattern(100_000, 0);
    post(&mut a, &mut b, qa, &message).unwrap();
    assert_eq!(b.message().2, message);
    assert!(b.context.touched_bytes() >= touched + 100_000);
    // Marks what has come; finds that nothing more has; and the writer moves although it has nothing to write.
    b.context.tick(LATER_NS);
    a.send(qa, [7, 0], b"before");
    assert_eq!(b.message().1, [7, 0]);
    b.context.tick(LATER_NS * 2);
    assert!(b.context.touched_bytes() >= touched + 100_000, "a message has come");
    b.context.tick(LATER_NS * 3);
    b.send(qb, [8, 0], b"the other way");
    assert_eq!(a.message().1, [8, 0]);
    assert!(b.is_quiet());
    assert!(b.context.touched_bytes() < touched + 16_384);
    assert_eq!(a.context.mapped_bytes(), mapped);
    assert_eq!(b.context.next_due_ns(), None);
    post(&mut a, &mut b, qa, &message).unwrap();
    assert_eq!(b.message().2, message);
}

/// It may be another connection's by then.
#[test]
fn a_peers_memory_is_left_alone_after_the_last_word() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, qb) = connect(&mut a, &mut b);
    post(&mut a, &mut b, qa, &pattern(100_000, 0)).unwrap();
    b.message();
    a.context.to_sqd(qa).unwrap();
    b.context.to_sqd(qb).unwrap();
    a.context.destroy_qp(qa);
    let (_, next) = connect(&mut a, &mut b);
    // The large ring, whose writer has left, is asked for to no purpose.
    b.context.tick(LATER_NS);
    b.context.tick(LATER_NS * 2);
    assert!(a.is_quiet());
    b.send(next, [9, 0], b"the first of the next connection");
    assert_eq!(a.message().1, [9, 0]);
}

#[test]
fn large_rings_stay_within_the_limit() {
    let host = Host::new(SOFT, 2, 100);
    let open = |slot| host.open_with(&Config { conn_memory: Some(70 << 10), ..host.config(slot) });
    let (mut a, mut b) = (open(0), open(1));
    let pairs: Vec<_> = (0..4).map(|_| connect(&mut a, &mut b)).collect();
    let (first, qps) =
        (pairs.first().map(|(_, qb)| *qb), pairs.iter().map(|(qa, _)| *qa).collect::<Vec<_>>());
    let max = a.context.caps(SOFT).message_max;
    assert!((4096..8192).contains(&max), "what every connection takes: {max}");
    let message = pattern(20_000, 0);
    for (n, qp) in qps.iter().enumerate() {
        let posted = post(&mut a, &mut b, *qp, &message);
        if n < 2 {
            assert_eq!((posted, b.message().2), (Ok(()), message.clone()), "connection {n}");
        } else {
            assert_eq!(posted, Err(PostError::TooLong { bytes: message.len(), max }), "connection {n}");
            a.send(*qp, [1, 1], &message[..max]);
            assert_eq!(b.message().2, message[..max]);
        }
    }
    // What a connection gives back can be had by the next one.
    let (qa, qb) = connect(&mut a, &mut b);
    assert!(post(&mut a, &mut b, qa, &message).is_err());
    close(&mut a, &mut b, qa, qb);
    let first = first.expect("four were made");
    close(&mut a, &mut b, qps[0], first);
    let (qa, _) = connect(&mut a, &mut b);
    assert_eq!((post(&mut a, &mut b, qa, &message), b.message().2), (Ok(()), message));
}

#[test]
fn nothing_is_lost_or_reordered_while_rings_change() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, qb) = connect(&mut a, &mut b);
    let mut chance = 7u64;
    let mut below = |n: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % n
    };
    let (mut sent, mut got, mut traffic, mut now_ns) = ([0u64; 2], [0u64; 2], 0, LATER_NS);
    let (mut before, mut changes) = (0, 0);
    for _ in 0..40_000 {
        let way = below(2) as usize;
        let (from, qp, to) = if way == 0 { (&mut a, qa, &mut b) } else { (&mut b, qb, &mut a) };
        match below(16) {
            0..8 => {
                let long = if sent[way] % 2_000 < 1_000 { 30_000 } else { 100 };
                let message = pattern(below(long) as usize, sent[way] as usize);
                if from.context.post_send(qp, [sent[way], 0], source(&message), Push::Now).is_ok() {
                    sent[way] += 1;
                }
            }
            8..15 => {
                if let Some(Got::Message(_, [n, _], bytes)) = to.poll() {
                    assert_eq!((n, &bytes), (got[way], &pattern(bytes.len(), n as usize)));
                    got[way] += 1;
                }
            }
            _ if below(20) == 0 => {
                // Nothing comes between the two: the ring is idle.
                now_ns += 4_000_000_000;
                to.context.tick(now_ns - 2_000_000_000);
                to.context.tick(now_ns);
            }
            _ => {}
        }
        let now = a.context.traffic(qa);
        assert!(now >= traffic, "{now} after {traffic}");
        traffic = now;
        let mapped = a.context.mapped_bytes();
        changes += u32::from(mapped != std::mem::replace(&mut before, mapped));
    }
    for (way, to) in [(0, &mut b), (1, &mut a)] {
        while got[way] < sent[way] {
            assert_eq!(to.message().1, [got[way], 0]);
            got[way] += 1;
        }
    }
    assert!(sent[0] > 5_000 && sent[1] > 5_000, "{sent:?}");
    assert!(changes > 20, "rings have changed {changes} times");
    assert!(traffic >= sent[0] + sent[1] - 100);
}

#[test]
fn a_busy_ring_grows_and_one_of_many_does_not() {
    let (mut a, mut b) = pair(SOFT);
    let qps: Vec<Qp> = (0..100).map(|_| connect(&mut a, &mut b).0).collect();
    let mapped = a.context.mapped_bytes();
    let message = pattern(4096, 0);
    // A message on each, again and again: every ring is full each time.
    for _ in 0..50 {
        for qp in &qps {
            while a.context.post_send(*qp, [0, 0], source(&message), Push::Now).is_ok() {}
        }
        while b.poll().is_some() {}
    }
    assert_eq!(a.context.mapped_bytes(), mapped);
    for _ in 0..50 {
        while a.context.post_send(qps[0], [0, 0], source(&message), Push::Now).is_ok() {}
        while b.poll().is_some() {}
    }
    assert!(a.context.mapped_bytes() > mapped);
}

#[test]
fn a_ring_grows_that_is_never_quite_full() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, qb) = connect(&mut a, &mut b);
    let mapped = a.context.mapped_bytes();
    for i in 0..100 {
        a.send(qa, [i, 0], &pattern(4096, 0));
        assert_eq!(b.message().1, [i, 0]);
        b.send(qb, [i, 1], b"back");
        assert_eq!(a.message().1, [i, 1]);
    }
    assert!(a.context.mapped_bytes() > mapped + 20_000);
}

#[test]
fn peers_of_closed_connections_are_unmapped() {
    let host = Host::new(SOFT, 101, 1000);
    let mut a = host.open(0);
    let (mut mapped, mut peers) = (Vec::new(), Vec::new());
    for slot in 1..101 {
        let mut b = host.open(slot);
        let (qa, qb) = connect(&mut a, &mut b);
        close(&mut a, &mut b, qa, qb);
        peers.push(b); // a process does not come again, with the same descriptors
        mapped.push((a.context.mapped_bytes(), a.context.touched_bytes()));
        // Those that were used last are not among them.
        for b in peers.iter().rev().take(8) {
            a.context.send_control(None, &b.card(), b"x").unwrap();
        }
        assert_eq!(a.context.mapped_bytes(), mapped[mapped.len() - 1].0, "peer {slot}");
    }
    let most = |part: &[(u64, u64)]| (part.iter().map(|m| m.0).max(), part.iter().map(|m| m.1).max());
    let (first, then) = (most(&mapped[..50]), most(&mapped[50..]));
    assert!(then.0 <= first.0 && then.1 <= first.1, "{first:?} {then:?}");
}

#[test]
fn a_peer_on_another_host_or_gone_is_an_error() {
    let (mut a, b) = pair(SOFT);
    let elsewhere = banyan_fabric::Card { host: [9, 9], ..b.card() };
    assert!(a.context.send_control(None, &elsewhere, b"x").is_err());
    let mut gone = b.card();
    if let Some(segment) = &mut gone.soft {
        segment.start_ticks += 1;
        segment.pid += 1_000_000;
    }
    assert!(a.context.send_control(None, &gone, b"x").is_err());
}

#[test]
fn parameters_of_no_ring_are_refused() {
    let (mut a, mut b) = pair(SOFT);
    let qp = a.context.create_qp_as(SOFT, Role::Answers).unwrap();
    let card = b.card();
    a.context.to_init(qp, &card, Role::Asks).unwrap();
    let other = b.context.create_qp_as(SOFT, Role::Answers).unwrap();
    let params = b.context.to_init(other, &a.card(), Role::Answers).unwrap();
    // Of the ring its number, offset and length; the length of the one for early messages.
    for at in [7, 15, 16, 20] {
        let mut wrong = params;
        wrong.0[at] ^= 0x81;
        assert!(a.context.to_rtr(qp, &card, &wrong).is_err(), "byte {at}");
        assert_eq!(a.context.qp_state(qp), QpState::Init);
    }
}

#[test]
fn a_longer_message_gets_a_larger_ring() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, _) = connect(&mut a, &mut b);
    let small = a.context.mapped_bytes();
    let message = pattern(100_000, 0);
    wait("room", || {
        assert_eq!(b.poll(), None);
        a.context.post_send(qa, [0, 0], source(&message), banyan_fabric::Push::Now).ok()
    });
    assert_eq!(b.message().2, message);
    assert!(a.context.mapped_bytes() > small);
}

#[test]
fn where_it_is_forbidden_rdma_says_so() {
    let (mut a, mut b) = pair_without_cma();
    let (qa, _) = connect(&mut a, &mut b);
    let memory = [5u8; 10];
    let key = b.context.register(SOFT, source(&memory)).unwrap();
    let at = RemoteMemory { addr: memory.as_ptr() as u64, key };
    let mut got = [0; 10];
    assert!(matches!(a.context.rdma_read(qa, target(&mut got), at), Err(RdmaError::Forbidden)));
}

#[test]
fn memory_in_the_segment_is_reached_without_cma() {
    let (mut a, mut b) = pair_without_cma();
    let (qa, _) = connect(&mut a, &mut b);
    let region = b.context.allocate(10_000).unwrap().unwrap();
    let at = |offset: u64| RemoteMemory { addr: region.map.addr() + offset, key: region.key };
    a.context.rdma_write(qa, source(&7u64.to_le_bytes()), at(8000)).unwrap();
    assert_eq!(region.map.u64_at(8000).load(Ordering::Acquire), 7);
    let mut got = [0; 16];
    a.context.rdma_read(qa, target(&mut got), at(7992)).unwrap();
    assert_eq!(got, [0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    let end = at(region.map.bytes() as u64 - 8);
    assert!(matches!(a.context.rdma_read(qa, target(&mut got), end), Err(RdmaError::Key)));
    let stale = at(0);
    b.context.free(region);
    assert!(matches!(a.context.rdma_read(qa, target(&mut got), stale), Err(RdmaError::Key)));
}

#[test]
fn queue_pairs_made_ahead_are_found_by_their_place() {
    let host = Host::new(SOFT, 2, 1000);
    let imitation = "gap=7".parse().unwrap();
    let open = |slot| host.open_with(&Config { imitation, ..host.config(slot) });
    let (mut a, mut b) = (open(0), open(1));
    let (ahead_a, ahead_b) =
        (a.context.create_ahead(SOFT, 100, 4).unwrap(), b.context.create_ahead(SOFT, 100, 1).unwrap());
    for ahead in [&ahead_a, &ahead_b] {
        assert_eq!(ahead.qps.len(), 100);
        assert!(ahead.qps.is_sorted_by_key(|(_, number)| *number), "by their numbers");
    }
    let (card_a, card_b) = (a.card(), b.card());
    // A place of one with another place of the other.
    for (at_a, at_b) in [(0, 0), (1, 99), (63, 17), (99, 50)] {
        let ((qa, number_a), (qb, number_b)) = (ahead_a.qps[at_a], ahead_b.qps[at_b]);
        let told_a = b.context.ahead_params(SOFT, ahead_a.facts, at_a as u32, number_a).unwrap();
        let told_b = a.context.ahead_params(SOFT, ahead_b.facts, at_b as u32, number_b).unwrap();
        a.connect(qa, &card_b, &told_b.0);
        a.send(qa, [1, at_a as u64], b"early");
        b.connect(qb, &card_a, &told_a.0);
        assert_eq!(b.message(), (qb, [1, at_a as u64], b"early".to_vec()));
        b.send(qb, [2, at_b as u64], b"late");
        assert_eq!(a.message(), (qa, [2, at_b as u64], b"late".to_vec()));
    }
    for (qp, _) in ahead_a.qps {
        a.context.destroy_qp(qp);
    }
    drop((a, b));
    assert_eq!(host.node.qps_in_use(), 0);
}

#[test]
fn a_device_with_few_queue_pairs_makes_few_ahead() {
    let host = Host::new(SOFT, 2, 16);
    let mut a = host.open(0);
    let ahead = a.context.create_ahead(SOFT, 100, 8).unwrap();
    assert_eq!(ahead.qps.len(), 12, "two are for datagrams, two are kept for answers");
    let (mut b, card) = (host.open(1), a.card());
    assert!(b.context.create_qp_as(SOFT, Role::Asks).is_err());
    let answer = b.context.create_qp_as(SOFT, Role::Answers).unwrap();
    b.context.to_init(answer, &card, Role::Answers).unwrap();
}

#[test]
fn what_is_made_before_it_is_needed_counts_and_is_used_first() {
    let host = Host::new(SOFT, 2, 100);
    let imitation = "create=1us".parse().unwrap();
    let mut a = host.open_with(&Config { imitation, ..host.config(0) });
    let mut b = host.open(1);
    let in_use = host.node.qps_in_use();
    assert!(a.context.keep_ready(2) && a.context.keep_ready(2) && !a.context.keep_ready(2));
    assert!(!b.context.keep_ready(2), "what costs nothing is made when it is needed");
    assert_eq!((host.node.qps_in_use(), a.context.qps(SOFT)), (in_use + 2, 0));
    let (qa, qb) = connect(&mut a, &mut b);
    assert_eq!((host.node.qps_in_use(), a.context.qps(SOFT)), (in_use + 3, 1), "and one for the other side");
    a.send(qa, [0, 0], b"over it");
    assert_eq!(b.message(), (qb, [0, 0], b"over it".to_vec()));
    drop((a, b));
    assert_eq!(host.node.qps_in_use(), 0);
}

/// Queue pairs that two processes make for each other before either has asked, connected.
fn connect_ahead(a: &mut Peer, b: &mut Peer) -> (Qp, Qp) {
    let made = [&mut *a, &mut *b].map(|peer| {
        let ahead = peer.context.create_ahead(SOFT, 1, 1).unwrap();
        let (qp, number) = ahead.qps[0];
        (qp, peer.context.ahead_params(SOFT, ahead.facts, 0, number).unwrap())
    });
    let (card_a, card_b) = (a.card(), b.card());
    a.connect(made[0].0, &card_b, &made[1].1.0);
    b.connect(made[1].0, &card_a, &made[0].1.0);
    (made[0].0, made[1].0)
}

#[test]
fn what_was_made_ahead_maps_its_peer_with_the_first_message() {
    let (mut a, mut b) = pair(SOFT);
    let before = (a.context.mapped_bytes(), b.context.mapped_bytes());
    let (qa, qb) = connect_ahead(&mut a, &mut b);
    let rings = a.context.mapped_bytes() - before.0;
    assert_eq!(b.context.mapped_bytes() - before.1, rings, "their own rings");
    assert!(a.is_quiet() && b.is_quiet() && b.context.fragment_max(qb) > 0);
    a.send(qa, [7, 0], b"one way");
    assert!(a.context.mapped_bytes() - before.0 > rings);
    assert_eq!(b.context.mapped_bytes() - before.1, rings);
    let (qp, header, bytes) = b.message();
    assert_eq!((qp, header[0], bytes.as_slice()), (qb, 7, b"one way".as_slice()));
    assert!(b.context.mapped_bytes() - before.1 > rings, "who took it can wake its writer");
    for n in 0..2000 {
        b.send(qb, [n, 0], &pattern(100, n as usize));
        let (qp, header, bytes) = a.message();
        assert_eq!((qp, header[0], bytes), (qa, n, pattern(100, n as usize)));
    }
    // Written before the reader has heard of its writer.
    let (mut c, mut d) = pair(SOFT);
    let made = [&mut c, &mut d].map(|peer| {
        let ahead = peer.context.create_ahead(SOFT, 1, 1).unwrap();
        (ahead.qps[0].0, peer.context.ahead_params(SOFT, ahead.facts, 0, ahead.qps[0].1).unwrap())
    });
    let (card_c, card_d) = (c.card(), d.card());
    c.connect(made[0].0, &card_d, &made[1].1.0);
    c.send(made[0].0, [3, 0], b"early");
    assert!(d.is_quiet());
    d.connect(made[1].0, &card_c, &made[0].1.0);
    assert_eq!(d.message().0, made[1].0);
}

#[test]
fn memory_of_a_peer_that_was_there_before_may_be_read_first() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, _) = connect_ahead(&mut a, &mut b);
    let (secret, mut seen) = (pattern(5000, 1), vec![0; 5000]);
    let key = b.context.register(SOFT, source(&secret)).unwrap();
    let from = RemoteMemory { addr: secret.as_ptr() as u64, key };
    a.context.rdma_read(qa, target(&mut seen), from).unwrap();
    assert_eq!(seen, secret);
}

#[test]
fn a_peer_that_is_gone_before_the_first_message_breaks_the_connection() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, _) = connect_ahead(&mut a, &mut b);
    drop(b);
    let refused = a.context.post_send(qa, [0, 0], source(b"nobody"), Push::Now);
    assert!(matches!(refused, Err(PostError::Full)), "{refused:?}");
    let why = match a.poll() {
        Some(Got::Broken(qp, why)) if qp == qa => why.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(why.contains("cannot map the memory of process"), "{why}");
    assert_eq!(a.context.qp_state(qa), QpState::Error);
    assert!(a.is_quiet());
}
