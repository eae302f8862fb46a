//! Exchanges of two processes as scripts; all their interleavings in [`explore`], many peers in [`simulate`].
mod explore;
mod simulate;

use super::*;
use std::vec::Vec;

const JOB: u64 = 0xb0b;

fn config(me: u32, size: u32) -> Config {
    let card = Card::new(&[me as u8; 5]).unwrap();
    Config { me: Rank(me), size, job: JOB, card, seed: u64::from(me), policy: Policy::OnDemand }
}

fn wireup(me: u32) -> Wireup {
    Wireup::new(config(me, 2))
}

fn params(me: u32) -> Params {
    Params([me as u8 + 100; 32])
}

fn actions(wireup: &mut Wireup) -> Vec<Action> {
    std::iter::from_fn(|| wireup.poll_action()).collect()
}

/// The datagrams among the actions.
fn sent(actions: &[Action]) -> Vec<Datagram> {
    let datagrams = actions.iter().filter_map(|action| match action {
        Action::Send { datagram, .. } => Some(*datagram),
        _ => None,
    });
    datagrams.collect()
}

/// Brings one side to the point where its request is out.
fn requesting(me: u32, now_ns: u64) -> (Wireup, Datagram) {
    let (mut side, peer) = (wireup(me), Rank(1 - me));
    assert_eq!(side.need(peer, now_ns), Ok(Progress::Pending));
    assert_eq!(actions(&mut side), [Action::Lookup { peer }, Action::CreateQp { peer }]);
    side.card(peer, config(peer.0, 2).card, now_ns).unwrap();
    side.qp_ready(peer, params(me), now_ns).unwrap();
    let request = sent(&actions(&mut side));
    assert_eq!(request.len(), 1);
    (side, request[0])
}

#[test]
fn one_side_asks_and_both_become_ready() {
    let (mut a, request) = requesting(0, 10);
    let mut b = wireup(1);
    b.datagram(request.as_bytes(), 20).unwrap();
    assert_eq!(actions(&mut b), [Action::CreateQp { peer: Rank(0) }], "the request brought the card");
    b.qp_ready(Rank(0), params(1), 30).unwrap();
    let card = config(0, 2).card;
    assert_eq!(actions(&mut b), [Action::Connect { peer: Rank(0), params: params(0), card }]);
    b.connected(Rank(0), 40).unwrap();
    let answer = actions(&mut b);
    assert_eq!(answer[1..], [Action::Ready { peer: Rank(0) }]);
    a.datagram(sent(&answer)[0].as_bytes(), 50).unwrap();
    let card = config(1, 2).card;
    assert_eq!(actions(&mut a), [Action::Connect { peer: Rank(1), params: params(1), card }]);
    a.connected(Rank(1), 60).unwrap();
    assert_eq!(actions(&mut a), [Action::Ready { peer: Rank(1) }]);
    assert_eq!((a.poll_timeout(), b.poll_timeout()), (None, None));
    assert_eq!(a.need(Rank(1), 70), Ok(Progress::Ready));
}

#[test]
fn a_crossed_request_is_the_reply() {
    let (mut a, from_a) = requesting(0, 0);
    let (mut b, from_b) = requesting(1, 0);
    a.datagram(from_b.as_bytes(), 5).unwrap();
    b.datagram(from_a.as_bytes(), 5).unwrap();
    for (side, peer) in [(&mut a, Rank(1)), (&mut b, Rank(0))] {
        assert!(matches!(actions(side)[..], [Action::Connect { .. }]));
        side.connected(peer, 6).unwrap();
        assert_eq!(actions(side), [Action::Ready { peer }], "no reply is needed");
        assert_eq!(side.stats().crossed, 1);
    }
}

#[test]
fn a_request_lost_while_crossing_is_answered_when_it_comes_again() {
    let (mut a, from_b) = (requesting(0, 0).0, requesting(1, 0).1);
    a.datagram(from_b.as_bytes(), 5).unwrap();
    a.connected(Rank(1), 6).unwrap();
    assert_eq!(sent(&actions(&mut a)).len(), 0);
    a.datagram(from_b.as_bytes(), 1_000_000).unwrap();
    let reply = Message::parse(sent(&actions(&mut a))[0].as_bytes()).unwrap();
    assert_eq!((reply.kind, reply.params), (MessageKind::Reply, params(0)));
    assert_eq!(a.stats().repeated_replies, 1);
}

#[test]
fn a_request_that_comes_again_while_connecting_is_answered_at_once_when_ready() {
    let (mut a, from_b) = (requesting(0, 0).0, requesting(1, 0).1);
    a.datagram(from_b.as_bytes(), 5).unwrap();
    a.datagram(from_b.as_bytes(), 6).unwrap();
    a.connected(Rank(1), 7).unwrap();
    let replies = sent(&actions(&mut a));
    assert_eq!(replies.len(), 1, "its own request may have been lost");
    assert_eq!(Message::parse(replies[0].as_bytes()).unwrap().kind, MessageKind::Reply);
}

#[test]
fn silence_never_fails_a_need() {
    let (mut a, request) = requesting(0, 0);
    let mut now = 0;
    for count in 1..=1000 {
        let due = a.poll_timeout().expect("asks for as long as it takes");
        assert!(due > now && due - now <= pace::INTERVAL_MAX_NS);
        a.tick(due - 1);
        assert_eq!(a.poll_action(), None, "not before it is due");
        a.tick(due);
        let again = sent(&actions(&mut a));
        assert_eq!(Message::parse(again[0].as_bytes()).unwrap().stamp_ns, due);
        assert_eq!(again[0].as_bytes()[40..], request.as_bytes()[40..]);
        assert_eq!(a.stats().retransmits, count);
        now = due;
    }
    let waiting: Vec<_> = a.waiting().collect();
    assert_eq!(waiting, [Waiting { peer: Rank(1), since_ns: 0, attempts: 1001 }]);
}

#[test]
fn a_late_reply_changes_nothing() {
    let (mut a, _) = requesting(0, 0);
    let stranger = a.clone();
    let request = Message::parse(requesting(1, 0).1.as_bytes()).unwrap();
    let late = Message { kind: MessageKind::Reply, echo: Epoch::new(77), ..request };
    a.datagram(late.emit().as_bytes(), 5).unwrap();
    assert_eq!((a.state(Rank(1)), a.poll_action()), (StateName::Requesting, None));
    assert_eq!(a.poll_timeout(), stranger.poll_timeout());
    let mut idle = wireup(0);
    idle.datagram(late.emit().as_bytes(), 5).unwrap();
    assert_eq!((idle.state(Rank(1)), idle.poll_action()), (StateName::Idle, None));
    assert_eq!((a.stats().stale, idle.stats().stale), (1, 1));
}

#[test]
fn a_death_notice_names_the_reason_and_destroys_the_queue_pair() {
    let (mut a, _) = requesting(0, 0);
    a.peer_died(Rank(1), "killed by signal 9 on node 3");
    let why = String::from("killed by signal 9 on node 3");
    let peer = Rank(1);
    assert_eq!(actions(&mut a), [Action::Destroy { peer }, Action::Failed { peer, why: why.clone() }]);
    assert_eq!(a.poll_timeout(), None);
    a.peer_died(peer, "later news");
    let error = a.need(peer, 5).unwrap_err();
    assert_eq!(error, NeedError::Lost { peer, why });
    assert_eq!(std::format!("{error}"), "rank 1 is lost: killed by signal 9 on node 3");
}

#[test]
fn a_queue_pair_made_too_late_is_destroyed() {
    let mut a = wireup(0);
    let peer = Rank(1);
    a.need(peer, 0).unwrap();
    a.peer_died(peer, "gone");
    assert!(matches!(actions(&mut a)[..], [_, _, Action::Failed { .. }]));
    a.qp_ready(peer, params(0), 1).unwrap();
    assert_eq!(actions(&mut a), [Action::Destroy { peer }]);
}

#[test]
fn a_queue_pair_that_cannot_be_made_is_tried_again_at_the_next_request() {
    let (_, request) = requesting(0, 0);
    let (mut b, peer) = (wireup(1), Rank(0));
    for _ in 0..3 {
        b.datagram(request.as_bytes(), 0).unwrap();
        assert_eq!(actions(&mut b), [Action::CreateQp { peer }]);
        b.qp_failed(peer, "64 of 64 queue pairs in use").unwrap();
        let why = "64 of 64 queue pairs in use".into();
        assert_eq!(actions(&mut b), [Action::Failed { peer, why }]);
        assert_eq!(b.state(peer), StateName::Idle);
    }
}

#[test]
fn an_illegal_input_is_refused_with_both_names_and_changes_nothing() {
    let mut a = requesting(0, 0).0;
    let before = std::format!("{a:?}");
    let error = a.connected(Rank(1), 1).unwrap_err();
    assert_eq!(std::format!("{error}"), "connection to rank 1: Connected makes no sense while Requesting");
    assert!(a.qp_ready(Rank(1), params(0), 1).is_err());
    assert!(a.qp_failed(Rank(1), "").is_err());
    assert_eq!(std::format!("{a:?}"), before);
}

#[test]
fn datagrams_that_are_nobodys_are_refused_and_counted() {
    let mut a = wireup(0);
    let good = Message::parse(requesting(1, 0).1.as_bytes()).unwrap();
    let refused = |a: &mut Wireup, message: Message| a.datagram(message.emit().as_bytes(), 0).unwrap_err();
    assert_eq!(refused(&mut a, Message { job: 1, ..good }), DatagramError::OtherJob(1));
    assert_eq!(refused(&mut a, Message { to: Rank(1), ..good }), DatagramError::Misdirected(Rank(1)));
    for from in [Rank(0), Rank(2)] {
        assert_eq!(refused(&mut a, Message { from, ..good }), DatagramError::NoPeer(from));
    }
    assert!(matches!(a.datagram(b"hello", 0), Err(DatagramError::Parse(ParseError::Length(5)))));
    assert_eq!((a.stats().refused, a.state(Rank(1)), a.poll_action()), (5, StateName::Idle, None));
}

#[test]
fn a_peer_that_starts_anew_without_closing_is_refused_and_an_older_message_ignored() {
    let mut a = requesting(0, 0).0;
    let request = Message::parse(requesting(1, 0).1.as_bytes()).unwrap();
    let at = |number| Message { epoch: Epoch::new(number).unwrap(), ..request }.emit();
    a.datagram(at(5).as_bytes(), 0).unwrap();
    a.connected(Rank(1), 0).unwrap();
    actions(&mut a);
    a.datagram(at(4).as_bytes(), 0).unwrap();
    assert_eq!((a.poll_action(), a.stats().stale), (None, 1));
    let ahead = a.datagram(at(6).as_bytes(), 0).unwrap_err();
    assert!(matches!(ahead, DatagramError::EpochAhead { .. }), "{ahead}");
    assert_eq!(a.state(Rank(1)), StateName::Ready);
}

#[test]
fn only_peers_of_the_job_can_be_needed() {
    let mut a = wireup(0);
    assert_eq!(a.need(Rank(0), 0), Err(NeedError::Oneself(Rank(0))));
    assert_eq!(a.need(Rank(2), 0), Err(NeedError::NoSuchRank { peer: Rank(2), size: 2 }));
}
