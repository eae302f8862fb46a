//! The end of a connection, and what comes after it.
use super::*;

const IX: PeerIx = OTHER;

/// One side has drained and told the other; its message.
fn closing(side: &mut Machine, now_ns: u64) -> Message {
    side.close(IX, now_ns).unwrap();
    assert_eq!(actions(side), [Action::Drain { ix: IX }]);
    side.drained(IX, now_ns).unwrap();
    let close = sent(&actions(side));
    assert_eq!((close.len(), close[0].kind), (1, MessageKind::Close));
    close[0]
}

/// The other side agrees; its answer.
fn yielding(side: &mut Machine, close: &Message, now_ns: u64) -> Message {
    assert_eq!(deliver(side, close, now_ns), [Action::Drain { ix: IX }]);
    assert_eq!(side.state(IX), StateName::Yielding);
    side.drained(IX, now_ns).unwrap();
    let mut done = actions(side);
    let reply = sent(&done);
    assert_eq!((reply.len(), reply[0].kind), (1, MessageKind::CloseReply));
    assert_eq!(done.drain(1..).collect::<Vec<_>>(), CLOSED);
    reply[0]
}

const CLOSED: [Action<&str>; 2] = [Action::Destroy { ix: IX }, Action::Closed { ix: IX }];

fn names(sides: &[Machine; 2]) -> [StateName; 2] {
    [sides[0].state(IX), sides[1].state(IX)]
}

#[test]
fn both_sides_drain_before_they_destroy() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    let reply = yielding(&mut sides[1], &close, 20);
    assert_eq!(deliver(&mut sides[0], &reply, 30), CLOSED);
    assert_eq!(names(&sides), [StateName::Idle; 2]);
    for side in &sides {
        assert_eq!(side.connections(), Connections { now: 0, peak: 1 });
        assert_eq!((side.stats().closed, side.poll_timeout()), (1, None));
    }
}

#[test]
fn a_crossed_close_is_the_reply() {
    let mut sides = pair();
    let closes = [closing(&mut sides[0], 10), closing(&mut sides[1], 10)];
    for at in 0..2 {
        assert_eq!(deliver(&mut sides[at], &closes[1 - at], 20), CLOSED);
    }
    assert_eq!(names(&sides), [StateName::Idle; 2]);
}

#[test]
fn a_close_that_crosses_a_drain_is_answered_after_it() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    sides[1].close(IX, 10).unwrap();
    assert_eq!(actions(&mut sides[1]), [Action::Drain { ix: IX }]);
    assert_eq!(deliver(&mut sides[1], &close, 20), [], "it is draining already");
    sides[1].drained(IX, 21).unwrap();
    let done = actions(&mut sides[1]);
    assert_eq!(sent(&done)[0].kind, MessageKind::CloseReply);
    assert_eq!(done[1..], CLOSED);
    assert_eq!(deliver(&mut sides[0], &sent(&done)[0], 30), CLOSED);
}

#[test]
fn a_close_is_repeated_until_it_is_answered() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    for count in 1..=100 {
        let due = sides[0].poll_timeout().unwrap();
        sides[0].tick(due);
        assert_eq!(sent(&actions(&mut sides[0])), [Message { stamp_ns: due, ..close }]);
        assert_eq!(sides[0].waiting().next().unwrap().attempts, count + 1);
    }
    assert_eq!(sides[0].waiting().next().unwrap().state, StateName::Closing);
}

#[test]
fn a_lost_answer_is_given_again_after_the_end() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    let reply = yielding(&mut sides[1], &close, 20);
    let again = sent(&deliver(&mut sides[1], &close, 30))[0];
    assert_eq!((again.kind, again.epoch, again.echo), (reply.kind, reply.epoch, reply.echo));
    assert_eq!(sides[1].state(IX), StateName::Idle);
    assert_eq!(deliver(&mut sides[0], &again, 40), CLOSED);
    assert_eq!(deliver(&mut sides[0], &reply, 50), [], "the first answer was only late");
    assert_eq!(deliver(&mut sides[0], &again, 50), []);
}

#[test]
fn a_lost_answer_is_given_again_in_the_next_connection() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    yielding(&mut sides[1], &close, 20);
    sides[1].need(IX, 30).unwrap();
    sides[1].card(IX, card_of(0), 30).unwrap();
    sides[1].qp_ready(IX, params(1), Medium::Datagrams, 30).unwrap();
    actions(&mut sides[1]);
    let again = sent(&deliver(&mut sides[1], &close, 40));
    assert_eq!((again.len(), again[0].kind), (1, MessageKind::CloseReply));
    assert_eq!(sides[1].state(IX), StateName::Requesting);
}

#[test]
fn a_need_during_the_close_reopens_behind_it() {
    let (ix, peer, card) = (IX, rank(1), card_of(1));
    for when in 0..3 {
        let mut sides = pair();
        let need = |side: &mut Machine| {
            assert_eq!(side.need(IX, 15), Ok(Progress::Pending));
            assert_eq!(side.poll_action(), None);
        };
        sides[0].close(IX, 10).unwrap();
        actions(&mut sides[0]);
        if when == 0 {
            need(&mut sides[0]);
        }
        sides[0].drained(IX, 10).unwrap();
        let close = sent(&actions(&mut sides[0]))[0];
        if when == 1 {
            need(&mut sides[0]);
        }
        let reply = yielding(&mut sides[1], &close, 20);
        if when == 2 {
            need(&mut sides[0]);
        }
        let done = deliver(&mut sides[0], &reply, 30);
        assert_eq!(done[..2], CLOSED);
        assert_eq!(done[2..], [Action::CreateQp { ix, peer, card }]);
        assert_eq!(sides[0].state(IX), StateName::Preparing);
    }
}

#[test]
fn a_need_of_the_yielding_side_reopens_too() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    deliver(&mut sides[1], &close, 20);
    assert_eq!(sides[1].need(IX, 21), Ok(Progress::Pending));
    sides[1].drained(IX, 22).unwrap();
    let done = actions(&mut sides[1]);
    assert_eq!(done[1..3], CLOSED);
    assert!(matches!(done[3..], [Action::CreateQp { .. }]));
}

#[test]
fn a_later_request_says_that_the_close_was_seen_through() {
    let mut sides = pair();
    let close = closing(&mut sides[0], 10);
    deliver(&mut sides[1], &close, 20);
    sides[1].need(IX, 21).unwrap();
    sides[1].drained(IX, 22).unwrap();
    actions(&mut sides[1]);
    sides[1].qp_ready(IX, params(9), Medium::Datagrams, 23).unwrap();
    let request = sent(&actions(&mut sides[1]))[0];
    let done = deliver(&mut sides[0], &request, 30);
    assert_eq!(done[..2], CLOSED, "the old one is destroyed first");
    assert!(matches!(done[2..], [Action::CreateQp { .. }]));
    sides[0].qp_ready(IX, params(8), Medium::Datagrams, 31).unwrap();
    let connect = actions(&mut sides[0]);
    assert_eq!(connect, [Action::Connect { ix: IX, params: params(9), card: card_of(1) }]);
}

#[test]
fn messages_of_a_closed_connection_are_stale() {
    let (mut a, from_a) = requesting(0, 0);
    let (mut b, from_b) = requesting(1, 0);
    deliver(&mut a, &from_b, 5);
    deliver(&mut b, &from_a, 5);
    a.connected(IX, 6).unwrap();
    b.connected(IX, 6).unwrap();
    actions(&mut a);
    actions(&mut b);
    let close = closing(&mut a, 10);
    let reply = yielding(&mut b, &close, 20);
    deliver(&mut a, &reply, 30);
    let stale = a.stats().stale;
    assert_eq!(deliver(&mut a, &from_b, 40), [], "a late request opens nothing");
    let late = Message { kind: MessageKind::Reply, echo: Some(from_a.epoch), ..from_b };
    assert_eq!(deliver(&mut a, &late, 40), []);
    assert_eq!((a.state(IX), a.stats().stale), (StateName::Idle, stale + 2));
}

#[test]
fn a_close_that_overtakes_the_reply_brings_its_facts() {
    let (mut a, request) = requesting(0, 0);
    let mut b = wireup(1);
    deliver(&mut b, &request, 1);
    b.qp_ready(IX, params(1), Medium::Datagrams, 2).unwrap();
    b.connected(IX, 3).unwrap();
    let reply = sent(&actions(&mut b))[0];
    let close = closing(&mut b, 4);
    let connect = deliver(&mut a, &close, 5);
    assert_eq!(connect, [Action::Connect { ix: IX, params: params(1), card: card_of(1) }]);
    assert_eq!(deliver(&mut a, &reply, 6), []);
    a.connected(IX, 7).unwrap();
    let ready = Action::Ready { ix: IX, name: IX.to_wire() };
    assert_eq!(actions(&mut a), [ready, Action::Drain { ix: IX }], "what waits here is still sent");
    a.drained(IX, 8).unwrap();
    let answer = sent(&actions(&mut a))[0];
    assert_eq!(deliver(&mut b, &answer, 9), CLOSED);
}

#[test]
fn a_break_ends_a_close() {
    let mut sides = pair();
    closing(&mut sides[0], 10);
    sides[0].need(IX, 11).unwrap();
    sides[0].broken(IX, "its host is gone");
    let why = "its host is gone";
    assert_eq!(actions(&mut sides[0]), [Action::Destroy { ix: IX }, Action::Failed { ix: IX, why }]);
    assert_eq!((sides[0].poll_timeout(), sides[0].connections().now), (None, 0));
}

#[test]
fn the_end_of_a_stream_is_the_reply_that_got_lost() {
    for again in [false, true] {
        let mut sides = pair_by(Medium::Stream);
        assert!(!sides[0].ended(IX, 9), "nobody has spoken of an end");
        let close = closing(&mut sides[0], 10);
        yielding(&mut sides[1], &close, 20); // its answer is lost with the stream
        if again {
            sides[0].need(IX, 25).unwrap();
        }
        assert!(sides[0].ended(IX, 30));
        let done = actions(&mut sides[0]);
        assert_eq!(done[..2], CLOSED);
        let reopens = matches!(done[2..], [Action::CreateQp { .. }]);
        assert_eq!((done.len() > 2, reopens), (again, again));
        assert_eq!(sides[0].stats().closed, 1);
        assert!(!sides[0].ended(IX, 31), "it has ended once");
    }
}

#[test]
fn a_peer_that_begins_anew_is_heard_behind_the_end_of_its_stream() {
    let mut sides = pair_by(Medium::Stream);
    let close = closing(&mut sides[0], 10);
    deliver(&mut sides[1], &close, 20);
    sides[1].need(IX, 21).unwrap();
    sides[1].drained(IX, 22).unwrap();
    actions(&mut sides[1]);
    sides[1].qp_ready(IX, params(9), Medium::Stream, 23).unwrap();
    let request = sent(&actions(&mut sides[1]))[0];
    assert_eq!(deliver(&mut sides[0], &request, 30), [], "the old stream is not read to its end");
    assert!(sides[0].ended(IX, 31));
    let done = actions(&mut sides[0]);
    assert_eq!(done[..2], CLOSED);
    assert!(matches!(done[2..], [Action::CreateQp { .. }]));
}

#[test]
fn an_end_that_nobody_has_agreed_on_is_no_reply() {
    let mut sides = pair_by(Medium::Stream);
    sides[0].close(IX, 10).unwrap();
    assert!(!sides[0].ended(IX, 11), "the peer has not been told");
    assert_eq!(sides[0].state(IX), StateName::Draining);
    let mut datagrams = pair();
    closing(&mut datagrams[0], 10);
    assert!(!datagrams[0].ended(IX, 11), "there is no stream");
    assert_eq!(datagrams[0].state(IX), StateName::Closing);
}

#[test]
fn asking_twice_for_a_close_drains_once() {
    let mut sides = pair();
    sides[0].close(IX, 10).unwrap();
    sides[0].close(IX, 11).unwrap();
    assert_eq!(actions(&mut sides[0]), [Action::Drain { ix: IX }]);
    sides[0].drained(IX, 12).unwrap();
    sides[0].close(IX, 13).unwrap();
    assert_eq!(actions(&mut sides[0]).len(), 1);
}
