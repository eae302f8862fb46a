//! Connections: states, early messages, crossed requests, closing and opening again.
use super::rig::*;
use banyan_fabric::state::QpState;
use banyan_fabric::{ConnectError, Params, PostError, Posted, ProviderKind, Push, Qp, Role};
use sys::UserBuf;

crate::on_every_provider!(
    moves_outside_the_table_are_refused_and_change_nothing,
    a_stale_queue_pair_is_found_out,
    early_messages_arrive_without_the_senders_help,
    crossed_requests_make_one_connection_in_every_order,
    early_messages_of_crossed_requests_need_no_help_either,
    connections_open_and_close_many_times,
    a_new_queue_pair_in_an_old_place_starts_clean,
    messages_of_a_closed_queue_pair_come_before_those_of_the_next,
);

fn moves_outside_the_table_are_refused_and_change_nothing(kind: ProviderKind) {
    let (mut a, b) = pair(kind);
    let qp = a.context.create_qp_as(kind, Role::Answers).unwrap();
    assert!(matches!(a.context.to_rts(qp), Err(ConnectError::Move(_))));
    assert_eq!(a.context.qp_state(qp), QpState::Reset);
    let refused = a.context.post_send(qp, [0, 0], UserBuf::EMPTY, Push::Now);
    assert!(matches!(refused, Err(PostError::State { state: QpState::Reset, .. })));
    let card = b.card();
    a.context.to_init(qp, &card, Role::Answers).unwrap();
    // Who answers has nobody to send to yet.
    assert!(a.context.post_send(qp, [0, 0], UserBuf::EMPTY, Push::Now).is_err());
    assert!(a.context.to_rtr(qp, &card, &Params([0xff; 32])).is_err());
    assert_eq!(a.context.qp_state(qp), QpState::Init);
}

fn a_stale_queue_pair_is_found_out(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, qb) = connect(&mut a, &mut b);
    close(&mut a, &mut b, qa, qb);
    let (again, other) = connect(&mut a, &mut b);
    assert_eq!(again.index(), qa.index());
    assert_ne!(again, qa);
    assert_eq!(a.context.post_send(qa, [0, 0], UserBuf::EMPTY, Push::Now), Err(PostError::Stale));
    assert!(matches!(a.context.to_sqd(qa), Err(ConnectError::Stale)));
    a.context.destroy_qp(qa);
    assert_eq!((a.context.qp_state(qa), a.context.qp_state(again)), (QpState::Reset, QpState::ReadyToSend));
    a.send(again, [1, 2], b"new");
    assert_eq!(b.message(), (other, [1, 2], b"new".to_vec()));
}

fn early_messages_arrive_without_the_senders_help(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    if !a.context.caps(kind).early {
        return cannot(kind, "send before it is answered");
    }
    let (card_a, card_b) = (a.card(), b.card());
    let (qa, _) = a.ask(&card_b);
    for i in 0..10u64 {
        let posted = a.context.post_send(qa, [i, 0], source(&pattern(100, i as usize)), Push::Now);
        assert_eq!(posted, Ok(Posted::Done));
    }
    a.context.flush();
    // From here on the sender computes.
    let request = b.control();
    let qb = b.answer(&card_a, &request);
    for i in 0..10u64 {
        assert_eq!(b.message(), (qb, [i, 0], pattern(100, i as usize)));
    }
    b.send(qb, [5, 5], b"thanks");
    // The reply comes first, what is behind it when it can be received.
    let reply = a.control();
    a.connect(qa, &card_b, &reply);
    a.send(qa, [10, 0], b"late");
    assert_eq!(a.message(), (qa, [5, 5], b"thanks".to_vec()));
    assert_eq!(b.message(), (qb, [10, 0], b"late".to_vec()));
}

fn say(peer: &mut Peer, qp: Qp, header: [u64; 2]) {
    peer.send(qp, header, if header[1] == 1 { b"from a" } else { b"from b" });
}

/// Both ask, and both post early messages. The orders differ in who hears of the other first, and when.
fn crossed_requests_make_one_connection_in_every_order(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (card_a, card_b) = (a.card(), b.card());
    for order in 0..24 {
        let early = if a.context.caps(kind).early { order % 3 } else { 0 };
        let (qa, _) = a.ask(&card_b);
        (0..early).for_each(|i| say(&mut a, qa, [i, 1]));
        let (qb, _) = b.ask(&card_a);
        (0..early).for_each(|i| say(&mut b, qb, [i, 2]));
        let at_once = if a.context.caps(kind).early { order % 4 } else { 2 };
        if order % 2 == 0 {
            let request = b.control();
            b.connect(qb, &card_a, &request);
            if at_once == 0 {
                (early..4).for_each(|i| say(&mut b, qb, [i, 2]));
            }
            let request = a.control();
            a.connect(qa, &card_b, &request);
        } else {
            let (to_a, to_b) = (a.control(), b.control());
            a.connect(qa, &card_b, &to_a);
            if at_once == 1 {
                (early..4).for_each(|i| say(&mut a, qa, [i, 1]));
            }
            b.connect(qb, &card_a, &to_b);
        }
        settle(&mut a, &mut b, qa, qb);
        let first = if at_once == 1 { 4 } else { early };
        (first..4).for_each(|i| say(&mut a, qa, [i, 1]));
        let first = if at_once == 0 { 4 } else { early };
        (first..4).for_each(|i| say(&mut b, qb, [i, 2]));
        let (mut at_a, mut at_b) = (0, 0);
        wait("all messages", || {
            match a.poll() {
                Some(Got::Message(qp, header, bytes)) => {
                    assert_eq!((qp, header, &bytes[..]), (qa, [at_a, 2], &b"from b"[..]));
                    at_a += 1;
                }
                // A request may come twice.
                None | Some(Got::Control(_) | Got::Done(_, Ok(0))) => {}
                other => panic!("{other:?}"),
            }
            match b.poll() {
                Some(Got::Message(qp, header, bytes)) => {
                    assert_eq!((qp, header, &bytes[..]), (qb, [at_b, 1], &b"from a"[..]));
                    at_b += 1;
                }
                None | Some(Got::Control(_) | Got::Done(_, Ok(0))) => {}
                other => panic!("{other:?}"),
            }
            (at_a == 4 && at_b == 4).then_some(())
        });
        // What is left of crossed requests.
        while a.poll().is_some() || b.poll().is_some() {}
        close(&mut a, &mut b, qa, qb);
    }
    assert_eq!((a.context.qps(kind), b.context.qps(kind)), (0, 0));
}

/// Both ask and post, and one of them computes then. Which one loses its dial is a matter of chance.
fn early_messages_of_crossed_requests_need_no_help_either(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    if !a.context.caps(kind).early {
        return cannot(kind, "send before it is answered");
    }
    let (card_a, card_b) = (a.card(), b.card());
    for _ in 0..16 {
        let ((qa, _), (qb, _)) = (a.ask(&card_b), b.ask(&card_a));
        for i in 0..10u64 {
            a.send(qa, [i, 1], &pattern(100, i as usize));
            b.send(qb, [i, 2], &pattern(100, i as usize));
        }
        b.context.flush();
        let request = a.control();
        a.connect(qa, &card_b, &request);
        for i in 0..10u64 {
            assert_eq!(a.message(), (qa, [i, 2], pattern(100, i as usize)));
        }
        a.send(qa, [10, 1], b"late");
        let request = b.control();
        b.connect(qb, &card_a, &request);
        b.send(qb, [10, 2], b"late");
        let (mut at_a, mut at_b) = (10, 0);
        wait("all messages", || {
            match a.poll() {
                Some(Got::Message(_, header, _)) => {
                    assert_eq!(header, [at_a, 2]);
                    at_a += 1;
                }
                None | Some(Got::Control(_) | Got::Done(_, Ok(0))) => {}
                other => panic!("{other:?}"),
            }
            match b.poll() {
                Some(Got::Message(_, header, _)) => {
                    assert_eq!(header, [at_b, 1]);
                    at_b += 1;
                }
                None | Some(Got::Control(_) | Got::Done(_, Ok(0))) => {}
                other => panic!("{other:?}"),
            }
            (at_a == 11 && at_b == 11).then_some(())
        });
        while a.poll().is_some() || b.poll().is_some() {}
        close(&mut a, &mut b, qa, qb);
    }
}

fn connections_open_and_close_many_times(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    for round in 0..300u64 {
        let (qa, qb) = connect(&mut a, &mut b);
        a.send(qa, [round, 0], b"ping");
        assert_eq!(b.message(), (qb, [round, 0], b"ping".to_vec()));
        b.send(qb, [round, 1], &pattern(3000, 5));
        assert_eq!(a.message(), (qa, [round, 1], pattern(3000, 5)));
        if round % 2 == 0 {
            close(&mut a, &mut b, qa, qb);
        } else {
            close(&mut b, &mut a, qb, qa);
        }
        assert_eq!((a.context.qps(kind), b.context.qps(kind)), (0, 0));
    }
    assert!(a.is_quiet() && b.is_quiet());
}

fn a_new_queue_pair_in_an_old_place_starts_clean(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    for round in 0..20u64 {
        let (qa, qb) = connect(&mut a, &mut b);
        for i in 0..burst(kind) {
            a.context.post_send(qa, [round, i], source(&[1; 60]), Push::Soon).unwrap();
        }
        // Nobody takes them, and both ends go.
        a.context.destroy_qp(qa);
        b.context.destroy_qp(qb);
        assert!(b.is_quiet() && a.is_quiet());
    }
    // Nor is anything missing that they have used.
    let (qa, qb) = connect(&mut a, &mut b);
    a.send(qa, [7, 8], b"still here");
    assert_eq!(b.message(), (qb, [7, 8], b"still here".to_vec()));
    assert!(b.context.touched_bytes() < 200_000, "{} bytes after 20 connections", b.context.touched_bytes());
}

/// The old queue pair is full when it is closed, others are busy, and the next one is in use before anything was read.
fn messages_of_a_closed_queue_pair_come_before_those_of_the_next(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    if !a.context.caps(kind).early {
        return cannot(kind, "send before it is answered");
    }
    let (card_a, card_b) = (a.card(), b.card());
    let others: Vec<_> = (0..12).map(|_| connect(&mut a, &mut b).0).collect();
    for round in 0..6u64 {
        let (qa, qb) = connect(&mut a, &mut b);
        for i in 0..40 {
            a.send(qa, [round, i], b"old");
            for other in &others[..2 * round as usize] {
                a.send(*other, [99, 0], b"other");
            }
        }
        a.context.to_sqd(qa).unwrap();
        // What was said on a stream has been read when the peer's word has; elsewhere it is in memory.
        let (mut got, mut awaited) = (Vec::new(), 40 * 2 * round);
        if kind == ProviderKind::Sockets {
            got = take(&mut b, 40, &mut awaited);
        }
        while let Some(view) = b.context.poll_only(qb) {
            got.push(view.header()[1]);
        }
        let (next, _) = a.ask(&card_b);
        for i in 40..60 {
            a.send(next, [round, i], b"new");
        }
        a.context.flush();
        // The request reaches the other side by a datagram, which may come in between.
        let mut answered = None;
        while answered.is_none() || got.len() < 60 || awaited > 0 {
            match wait("a message", || b.poll_whole()) {
                Got::Control(request) => answered = Some(b.answer(&card_a, &request)),
                Got::Message(_, [99, _], _) => awaited -= 1,
                Got::Message(_, [_, i], _) => got.push(i),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got, (0..60).collect::<Vec<_>>(), "round {round}");
        let reply = a.control();
        a.connect(next, &card_b, &reply);
        b.context.destroy_qp(qb);
        a.context.destroy_qp(qa);
    }
}

/// The numbers of the next messages that are not others'.
fn take(peer: &mut Peer, count: usize, others: &mut u64) -> Vec<u64> {
    let mut got = Vec::new();
    while got.len() < count {
        match wait("a message", || peer.poll_whole()) {
            Got::Message(_, [99, _], _) => *others -= 1,
            Got::Message(_, [_, i], _) => got.push(i),
            other => panic!("{other:?}"),
        }
    }
    got
}
