//! Messages: order, lengths, back-pressure, many peers.
use super::rig::*;
use banyan_fabric::{DATAGRAM_MAX, PostError, Posted, ProviderKind, Push, Qp, Sent};

crate::on_every_provider!(
    messages_arrive_in_order_with_their_headers,
    messages_keep_their_order_on_the_short_way,
    messages_of_a_connection_that_goes_take_no_room,
    sends_that_may_wait_leave_with_the_next_poll,
    a_full_queue_pair_takes_more_after_the_peer_has_polled,
    messages_of_any_length_arrive,
    many_peers_are_all_heard,
    a_flood_of_one_peer_does_not_silence_the_others,
    a_flood_of_a_late_peer_does_not_silence_others,
    datagrams_arrive_without_a_connection,
    a_peer_that_is_short_of_memory_says_so,
);

fn messages_arrive_in_order_with_their_headers(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, qb) = connect(&mut a, &mut b);
    let count = burst(kind).min(20);
    for i in 0..count {
        assert_eq!(a.send(qa, [i, !i], &vec![i as u8; i as usize * 5]), Posted::Done);
    }
    for i in 0..count {
        assert_eq!(b.message(), (qb, [i, !i], vec![i as u8; i as usize * 5]));
    }
    assert!(b.is_quiet());
    b.send(qb, [7, 7], &[]);
    assert_eq!(a.message(), (qa, [7, 7], vec![]));
}

/// Both ways to send and both to receive, by turns.
fn messages_keep_their_order_on_the_short_way(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, qb) = connect(&mut a, &mut b);
    settle(&mut a, &mut b, qa, qb);
    let lengths = [0, 1, 8, 100, 240, 300, 4000];
    let message = |i: u64| pattern(lengths[i as usize % lengths.len()], i as usize);
    let (mut sent, mut short) = (0u64, 0);
    for i in 0..3000u64 {
        let got = wait("a message", || {
            while sent <= i + i % 7 {
                let bytes = message(sent);
                let is_short = i % 3 != 0 && a.context.send_short(qa, [sent, i], source(&bytes));
                short += u32::from(is_short);
                if !is_short && a.context.post_send(qa, [sent, i], source(&bytes), Push::Now).is_err() {
                    break;
                }
                sent += 1;
            }
            assert_eq!(a.poll(), None);
            let lent = if i % 2 == 0 { b.context.poll_rdma() } else { None };
            let found = lent.map(|(qp, view)| {
                let view = banyan_fabric::View::Slot(view);
                (qp, view.header(), view.to_vec())
            });
            found.or_else(|| match b.poll_whole()? {
                Got::Message(qp, header, bytes) => Some((qp, header, bytes)),
                other => panic!("{other:?}"),
            })
        });
        assert_eq!((got.0, got.1[0], got.2), (qb, i, message(i)));
    }
    // (Not every device copies messages when they are posted.)
    assert!(short > 0 || kind != ProviderKind::Soft || a.context.shares(qa));
}

/// More of them than a completion queue has entries.
fn messages_of_a_connection_that_goes_take_no_room(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    for round in 0..500u64 {
        let (qa, qb) = connect(&mut a, &mut b);
        settle(&mut a, &mut b, qa, qb);
        for i in 0..burst(kind) - 1 {
            if !a.context.send_short(qa, [round, i], source(&[7; 8])) {
                a.send(qa, [round, i], &[7; 8]);
            }
        }
        assert_eq!(b.message(), (qb, [round, 0], vec![7; 8]));
        a.context.destroy_qp(qa);
        b.context.destroy_qp(qb);
        while let Some(got) = b.poll() {
            assert!(matches!(got, Got::Broken(..) | Got::Message(..)), "{got:?}");
        }
        while a.poll().is_some() {}
    }
}

fn sends_that_may_wait_leave_with_the_next_poll(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, qb) = connect(&mut a, &mut b);
    // (Of those that the peer has taken it need not have told all.)
    let count = burst(kind) / 2 - 1;
    for round in 0..50u64 {
        for i in 0..count {
            assert_eq!(a.post(qa, [round, i], &[i as u8; 8], Push::Soon), Posted::Done);
        }
        match round % 3 {
            0 => a.context.flush(),
            1 => assert_eq!(a.poll(), None),
            _ => drop(a.send(qa, [round, count], b"now")),
        }
        for i in 0..count {
            assert_eq!(b.message(), (qb, [round, i], vec![i as u8; 8]));
        }
        if round % 3 == 2 {
            assert_eq!(b.message(), (qb, [round, count], b"now".to_vec()));
        }
    }
}

fn a_full_queue_pair_takes_more_after_the_peer_has_polled(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, _) = connect(&mut a, &mut b);
    let message = pattern(4000, 1);
    let post = |a: &mut Peer, i: u64| a.context.post_send(qa, [i, 0], source(&message), Push::Soon);
    let mut sent = 0u64;
    let full = loop {
        match post(&mut a, sent) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100_000, "there is always room");
    };
    assert_eq!(full, PostError::Full);
    let all = sent + 1000;
    for i in 0..all {
        let (_, header, bytes) = wait("a message", || {
            while sent < all && post(&mut a, sent).is_ok() {
                sent += 1;
            }
            assert_eq!(a.poll_whole(), None);
            b.poll_whole().map(|got| match got {
                Got::Message(qp, header, bytes) => (qp, header, bytes),
                other => panic!("{other:?}"),
            })
        });
        assert_eq!((header, bytes == message), ([i, 0], true));
    }
    assert_eq!((sent, b.is_quiet()), (all, true));
}

fn messages_of_any_length_arrive(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, qb) = connect(&mut a, &mut b);
    let max = a.context.caps(kind).message_max;
    let lengths = [0, 1, 4000, 4096, 4097, 5_000, 16_384, 20_000, 30_000, 100_000, max.min(5 << 20)];
    for bytes in lengths.into_iter().filter(|bytes| *bytes <= max) {
        let message = pattern(bytes, bytes);
        let posted = wait("room", || {
            let posted = a.context.post_send(qa, [bytes as u64, 0], source(&message), Push::Now);
            match posted {
                Ok(posted) => Some(posted),
                Err(PostError::Full) => {
                    assert_eq!(b.poll(), None);
                    None
                }
                Err(error) => panic!("{error}"),
            }
        });
        let mut ended = posted == Posted::Done;
        let got = wait("the message", || {
            if let Some(got) = a.poll() {
                assert!(!ended && matches!(got, Got::Done(work, Ok(0)) if posted == Posted::Later(work)));
                ended = true;
            }
            b.poll_whole()
        });
        assert_eq!(got, Got::Message(qb, [bytes as u64, 0], message));
        wait("the end of the send", || {
            ended.then_some(()).or_else(|| a.poll().map(|got| assert!(matches!(got, Got::Done(_, Ok(0))))))
        });
    }
    let too_long = vec![0; max + 1];
    let refused = a.context.post_send(qa, [0, 0], source(&too_long), Push::Now);
    assert_eq!(refused, Err(PostError::TooLong { bytes: max + 1, max }));
}

fn hub(kind: ProviderKind, others: u32) -> (Peer, Vec<Peer>, Vec<(Qp, Qp)>) {
    let host = Host::new(kind, others + 1, 1000);
    let mut hub = host.open(0);
    let mut others: Vec<Peer> = (1..=others).map(|slot| host.open(slot)).collect();
    let qps = others.iter_mut().map(|other| connect(other, &mut hub)).collect();
    (hub, others, qps)
}

fn many_peers_are_all_heard(kind: ProviderKind) {
    let (mut hub, mut others, qps) = hub(kind, 40);
    let mut next = vec![0u64; others.len()];
    for round in 0..200u64 {
        let speaks = |i: usize| !(round + i as u64).is_multiple_of(3);
        for (i, other) in others.iter_mut().enumerate().filter(|(i, _)| speaks(*i)) {
            other.send(qps[i].0, [round, 0], &[]);
        }
        for _ in (0..qps.len()).filter(|i| speaks(*i)) {
            let (qp, header, _) = hub.message();
            let i = qps.iter().position(|pair| pair.1 == qp).unwrap();
            assert!(speaks(i) && header[0] == round && next[i] <= round);
            next[i] = round + 1;
        }
        assert_eq!(hub.poll(), None);
    }
}

fn a_flood_of_one_peer_does_not_silence_the_others(kind: ProviderKind) {
    let (mut hub, mut others, qps) = hub(kind, 12);
    let card = hub.card();
    let flooder = qps[0];
    for (i, other) in others.iter_mut().enumerate().skip(1) {
        other.send(qps[i].0, [i as u64, 0], b"one");
        let sent = other.context.send_control(None, &card, &[i as u8]);
        assert!(matches!(sent, Ok(Sent::Sent)));
    }
    let (mut flood, mut heard, mut datagrams) = (0u64, 0, 0);
    wait("the others", || {
        for _ in 0..64 {
            let _ = others[0].context.post_send(flooder.0, [0, 0], source(&[1; 1000]), Push::Soon);
        }
        others[0].poll();
        for _ in 0..16 {
            match hub.poll_whole() {
                Some(Got::Message(qp, ..)) if qp == flooder.1 => flood += 1,
                Some(Got::Message(..)) => heard += 1,
                Some(Got::Control(_)) => datagrams += 1,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
        assert!(flood < 200_000, "{heard} messages and {datagrams} datagrams of others behind {flood}");
        (heard == 11 && datagrams == 11).then_some(())
    });
}

/// The peers that connected first may have places of their own; the flood comes from one that has none.
fn a_flood_of_a_late_peer_does_not_silence_others(kind: ProviderKind) {
    const FLOODER: usize = 8;
    let (mut hub, mut others, qps) = hub(kind, 12);
    let flood = |others: &mut Vec<Peer>| {
        for _ in 0..64 {
            let to = qps[FLOODER].0;
            let _ = others[FLOODER].context.post_send(to, [0, 0], source(&[1; 1000]), Push::Soon);
        }
        others[FLOODER].poll();
    };
    flood(&mut others);
    assert_eq!(hub.message().0, qps[FLOODER].1);
    for (i, other) in others.iter_mut().enumerate().skip(FLOODER + 1) {
        other.send(qps[i].0, [i as u64, 0], b"one");
    }
    let (mut flooded, mut heard) = (0u64, 0);
    wait("the others", || {
        flood(&mut others);
        match hub.poll_whole() {
            Some(Got::Message(qp, ..)) if qp == qps[FLOODER].1 => flooded += 1,
            Some(Got::Message(..)) => heard += 1,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        assert!(flooded < 20_000, "{heard} messages of others behind {flooded}");
        (heard == qps.len() - FLOODER - 1).then_some(())
    });
}

fn datagrams_arrive_without_a_connection(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let to = b.card();
    for bytes in [0, 1, DATAGRAM_MAX] {
        assert!(matches!(a.context.send_control(None, &to, &vec![3; bytes]), Ok(Sent::Sent)));
        assert_eq!(b.control(), vec![3; bytes]);
    }
    assert!(b.is_quiet());
}

fn a_peer_that_is_short_of_memory_says_so(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, qb) = connect(&mut a, &mut b);
    assert!(!a.context.is_peer_frugal(qa));
    for frugal in [true, false, true] {
        b.context.set_frugal(frugal);
        wait("the peer's wish", || {
            assert_eq!((a.poll(), b.poll()), (None, None));
            (a.context.is_peer_frugal(qa) == frugal).then_some(())
        });
    }
    assert!(!b.context.is_peer_frugal(qb));
    // Who connects later learns it as well.
    let (qa, _) = connect(&mut a, &mut b);
    wait("the peer's wish", || {
        assert_eq!((a.poll(), b.poll()), (None, None));
        a.context.is_peer_frugal(qa).then_some(())
    });
    a.send(qa, [1, 1], &[]);
    assert_eq!(b.message().1, [1, 1]);
}
