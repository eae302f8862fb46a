//! Exchanges of two processes as scripts: here the opening and the table of peers, in [`closing`] the end of a
//! connection, in [`budget`] what happens if queue pairs are few. All their interleavings are in [`explore`], many peers in [`simulate`].
mod budget;
mod closing;
mod device;
mod explore;
mod simulate;

use super::*;
use crate::ids::{NodeId, Rank};
use std::format;
use std::vec::Vec;

type Machine = Wireup<&'static str>;
type Actions = Vec<Action<&'static str>>;

const JOB: Job = Job(0xb0b);
/// In a world of two, each has the other here.
const OTHER: PeerIx = PeerIx::new(1, 0);

fn rank(rank: u32) -> Peer {
    Peer::Rank { job: JOB, rank: Rank(rank) }
}

fn card_of(me: u32) -> Card {
    Card::new(&[me as u8; 5]).unwrap()
}

fn config(me: u32, size: u32) -> Config {
    let seed = u64::from(me);
    Config {
        me: rank(me),
        size,
        card: card_of(me),
        seed,
        policy: Policy::OnDemand,
        budget: Budget::UNLIMITED,
        homes: None,
    }
}

fn wireup(me: u32) -> Machine {
    Wireup::new(config(me, 2))
}

fn params(me: u32) -> Params {
    Params([me as u8 + 100; 32])
}

fn actions(wireup: &mut Machine) -> Actions {
    std::iter::from_fn(|| wireup.poll_action()).collect()
}

/// The messages among the actions.
fn sent(actions: &[Action<&'static str>]) -> Vec<Message> {
    let datagrams = actions.iter().filter_map(|action| match action {
        Action::Send { datagram, .. } => Some(Message::parse(datagram.as_bytes()).unwrap()),
        _ => None,
    });
    datagrams.collect()
}

fn deliver(to: &mut Machine, message: &Message, now_ns: u64) -> Actions {
    to.datagram(message.emit().as_bytes(), now_ns).unwrap();
    actions(to)
}

/// Brings one side to the point where its request is out.
fn requesting_by(me: u32, medium: Medium, now_ns: u64) -> (Machine, Message) {
    let (mut side, peer) = (wireup(me), rank(1 - me));
    let ix = side.intern(peer).unwrap();
    assert_eq!(ix, OTHER);
    assert_eq!(side.need(ix, now_ns), Ok(Progress::Pending));
    assert_eq!(actions(&mut side), [Action::Lookup { ix, peer }]);
    side.card(ix, card_of(1 - me), now_ns).unwrap();
    assert_eq!(actions(&mut side), [Action::CreateQp { ix, peer, card: card_of(1 - me) }]);
    side.qp_ready(ix, params(me), medium, now_ns).unwrap();
    let request = sent(&actions(&mut side));
    assert_eq!(request.len(), 1);
    (side, request[0])
}

fn requesting(me: u32, now_ns: u64) -> (Machine, Message) {
    requesting_by(me, Medium::Datagrams, now_ns)
}

/// Both sides ready.
fn pair_by(medium: Medium) -> [Machine; 2] {
    let (mut a, from_a) = requesting_by(0, medium, 0);
    let (mut b, from_b) = requesting_by(1, medium, 0);
    deliver(&mut a, &from_b, 5);
    deliver(&mut b, &from_a, 5);
    for side in [&mut a, &mut b] {
        side.connected(OTHER, 6).unwrap();
        assert!(matches!(actions(side)[..], [Action::Ready { .. }]), "no reply is needed");
    }
    [a, b]
}

fn pair() -> [Machine; 2] {
    pair_by(Medium::Datagrams)
}

#[test]
fn one_side_asks_and_both_become_ready() {
    let (mut a, request) = requesting(0, 10);
    let (mut b, ix) = (wireup(1), OTHER);
    let asked = deliver(&mut b, &request, 20);
    assert_eq!(
        asked,
        [Action::CreateQp { ix, peer: rank(0), card: card_of(0) }],
        "the request brought the card"
    );
    b.qp_ready(ix, params(1), Medium::Datagrams, 30).unwrap();
    assert_eq!(actions(&mut b), [Action::Connect { ix, params: params(0), card: card_of(0) }]);
    b.connected(ix, 40).unwrap();
    let answer = actions(&mut b);
    assert_eq!(answer[1..], [Action::Ready { ix, name: OTHER.to_wire() }]);
    let connect = deliver(&mut a, &sent(&answer)[0], 50);
    assert_eq!(connect, [Action::Connect { ix, params: params(1), card: card_of(1) }]);
    a.connected(ix, 60).unwrap();
    assert_eq!(actions(&mut a), [Action::Ready { ix, name: OTHER.to_wire() }]);
    assert_eq!((a.poll_timeout(), b.poll_timeout()), (None, None));
    assert_eq!(a.need(ix, 70), Ok(Progress::Ready));
    assert_eq!(a.connections(), Connections { now: 1, peak: 1 });
}

#[test]
fn a_crossed_request_is_the_reply() {
    for side in pair() {
        assert_eq!((side.state(OTHER), side.stats().crossed), (StateName::Ready, 1));
    }
}

#[test]
fn each_side_says_how_it_wants_to_be_addressed() {
    let mut a: Machine = Wireup::new(config(0, 9));
    for other in 2..7 {
        a.intern(rank(other)).unwrap();
    }
    let (mut b, request) = requesting(1, 0);
    deliver(&mut a, &request, 0);
    let ix = a.find(rank(1)).unwrap();
    a.qp_ready(ix, params(0), Medium::Datagrams, 0).unwrap();
    a.connected(ix, 0).unwrap();
    let answer = actions(&mut a);
    assert_eq!(answer.last(), Some(&Action::Ready { ix, name: OTHER.to_wire() }));
    deliver(&mut b, &sent(&answer)[0], 0);
    b.connected(OTHER, 0).unwrap();
    assert_eq!(actions(&mut b), [Action::Ready { ix: OTHER, name: ix.to_wire() }]);
    assert_eq!(ix.index(), 6);
}

#[test]
fn a_request_lost_while_crossing_is_answered_when_repeated() {
    let (mut a, from_b) = (requesting(0, 0).0, requesting(1, 0).1);
    deliver(&mut a, &from_b, 5);
    a.connected(OTHER, 6).unwrap();
    assert_eq!(sent(&actions(&mut a)).len(), 0);
    let reply = sent(&deliver(&mut a, &from_b, 1_000_000))[0];
    assert_eq!((reply.kind, reply.params), (MessageKind::Reply, params(0)));
    assert_eq!(a.stats().repeated_replies, 1);
}

#[test]
fn a_request_repeated_while_connecting_is_answered_when_ready() {
    let (mut a, from_b) = (requesting(0, 0).0, requesting(1, 0).1);
    deliver(&mut a, &from_b, 5);
    deliver(&mut a, &from_b, 6);
    a.connected(OTHER, 7).unwrap();
    let replies = sent(&actions(&mut a));
    assert_eq!(replies.len(), 1, "its own request may have been lost");
    assert_eq!(replies[0].kind, MessageKind::Reply);
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
        assert_eq!(sent(&actions(&mut a)), [Message { stamp_ns: due, ..request }]);
        assert_eq!(a.stats().retransmits, count);
        now = due;
    }
    let waiting: Vec<_> = a.waiting().collect();
    let (state, peer) = (StateName::Requesting, rank(1));
    assert_eq!(waiting, [Waiting { ix: OTHER, peer, state, since_ns: 0, attempts: 1001 }]);
}

#[test]
fn over_a_stream_nothing_is_sent_twice() {
    let (mut a, _) = requesting_by(0, Medium::Stream, 0);
    assert_eq!(a.poll_timeout(), None);
    a.tick(u64::MAX);
    assert_eq!(a.poll_action(), None);
    assert_eq!(a.waiting().count(), 1, "but it is known to wait");
    let [mut a, _] = pair_by(Medium::Stream);
    a.close(OTHER, 10).unwrap();
    a.drained(OTHER, 11).unwrap();
    assert_eq!((sent(&actions(&mut a)).len(), a.poll_timeout()), (1, None));
}

#[test]
fn a_late_reply_changes_nothing() {
    let (mut a, _) = requesting(0, 0);
    let before = a.poll_timeout();
    let late = Message { kind: MessageKind::Reply, echo: Epoch::new(77), ..requesting(1, 0).1 };
    assert_eq!(deliver(&mut a, &late, 5), []);
    assert_eq!((a.state(OTHER), a.poll_timeout()), (StateName::Requesting, before));
    let mut idle = wireup(0);
    assert_eq!(deliver(&mut idle, &late, 5), []);
    assert_eq!(idle.find(rank(1)), None, "nothing is stored for it");
    assert_eq!((a.stats().stale, idle.stats().stale), (1, 1));
}

#[test]
fn a_broken_connection_is_destroyed_and_keeps_its_first_cause() {
    let (mut a, _) = requesting(0, 0);
    let (ix, why) = (OTHER, "killed by signal 9 on node 3");
    a.broken(ix, why);
    assert_eq!(actions(&mut a), [Action::Destroy { ix }, Action::Failed { ix, why }]);
    assert_eq!(a.poll_timeout(), None);
    a.broken(ix, "later news");
    assert_eq!(a.poll_action(), None);
    let error = a.need(ix, 5).unwrap_err();
    assert_eq!(error, NeedError::Lost { peer: rank(1), why });
    assert_eq!(format!("{error}"), "rank 1 is lost: killed by signal 9 on node 3");
}

#[test]
fn a_lost_peer_is_told_of_even_without_a_connection() {
    let mut a = wireup(0);
    let ix = a.intern(rank(1)).unwrap();
    a.broken(ix, "gone");
    assert_eq!(actions(&mut a), [Action::Failed { ix, why: "gone" }]);
}

#[test]
fn a_queue_pair_made_too_late_is_destroyed() {
    let mut a = wireup(0);
    let ix = a.intern(rank(1)).unwrap();
    a.need(ix, 0).unwrap();
    a.card(ix, card_of(1), 0).unwrap();
    a.broken(ix, "gone");
    assert!(matches!(actions(&mut a)[..], [_, _, Action::Failed { .. }]));
    a.qp_ready(ix, params(0), Medium::Datagrams, 1).unwrap();
    assert_eq!(actions(&mut a), [Action::Destroy { ix }]);
}

#[test]
fn a_refused_queue_pair_is_asked_for_again_for_ever() {
    let (mut b, ix, peer) = (wireup(1), OTHER, rank(0));
    deliver(&mut b, &requesting(0, 0).1, 0);
    let mut now = 0;
    for attempts in 1..=1000 {
        b.qp_refused(ix, "64 of 64 queue pairs in use", now).unwrap();
        assert_eq!(b.poll_action(), None);
        let (state, waiting) = (StateName::Starved, b.waiting().collect::<Vec<_>>());
        assert_eq!(waiting, [Waiting { ix, peer, state, since_ns: 0, attempts }]);
        assert_eq!(b.refusal(ix), Some(&"64 of 64 queue pairs in use"));
        let due = b.poll_timeout().unwrap();
        assert!(due > now && due - now <= pace::INTERVAL_MAX_NS);
        b.tick(due);
        assert_eq!(actions(&mut b), [Action::CreateQp { ix, peer, card: card_of(0) }]);
        now = due;
    }
    assert_eq!(b.stats().starved, 1000);
    b.qp_ready(ix, params(1), Medium::Datagrams, now).unwrap();
    assert_eq!(b.state(ix), StateName::Connecting, "the request was kept");
}

#[test]
fn a_request_wakes_a_starved_connection() {
    let mut b = wireup(1);
    let (ix, peer, card) = (b.intern(rank(0)).unwrap(), rank(0), card_of(0));
    b.need(ix, 0).unwrap();
    b.card(ix, card, 0).unwrap();
    b.qp_refused(ix, "none left", 0).unwrap();
    actions(&mut b);
    let woken = deliver(&mut b, &requesting(0, 0).1, 1);
    assert_eq!(woken, [Action::CreateQp { ix, peer, card }]);
    b.qp_ready(ix, params(1), Medium::Datagrams, 2).unwrap();
    assert_eq!(b.state(ix), StateName::Connecting);
}

#[test]
fn an_illegal_input_is_refused_and_changes_nothing() {
    let mut a = requesting(0, 0).0;
    let before = format!("{a:?}");
    let error = a.connected(OTHER, 1).unwrap_err();
    assert_eq!(format!("{error}"), "connection to rank 1: Connected makes no sense while Requesting");
    assert!(a.qp_ready(OTHER, params(0), Medium::Datagrams, 1).is_err());
    assert!(a.qp_refused(OTHER, "", 1).is_err());
    assert!(a.close(OTHER, 1).is_err() && a.drained(OTHER, 1).is_err());
    let nobody = PeerIx::new(2, 0);
    assert_eq!(a.close(nobody, 1), Err(IllegalInput::Stale { ix: nobody, input: InputName::Close }));
    assert_eq!(format!("{a:?}"), before);
}

#[test]
fn datagrams_of_strangers_are_refused_and_counted() {
    let mut a = wireup(0);
    let good = requesting(1, 0).1;
    let refused = |a: &mut Machine, m: Message| a.datagram(m.emit().as_bytes(), 0).unwrap_err();
    let stranger = Peer::Rank { job: Job(1), rank: Rank(1) };
    let from = |from| Message { from, ..good };
    let no_job = NoSuchPeer::Job { peer: stranger };
    assert_eq!(refused(&mut a, from(stranger)), DatagramError::NoSuchPeer(no_job));
    let no_rank = NoSuchPeer::Rank { peer: rank(2), size: 2 };
    assert_eq!(refused(&mut a, from(rank(2))), DatagramError::NoSuchPeer(no_rank));
    assert_eq!(refused(&mut a, from(rank(0))), DatagramError::Oneself(rank(0)));
    for to in [rank(1), Peer::Server { job: JOB, node: NodeId(0) }] {
        assert_eq!(refused(&mut a, Message { to, ..good }), DatagramError::Misdirected { to });
    }
    assert!(matches!(a.datagram(b"hello", 0), Err(DatagramError::Parse(ParseError::Length(5)))));
    assert_eq!((a.stats().refused, a.find(rank(1)), a.poll_action()), (6, None, None));
}

#[test]
fn a_peer_that_starts_anew_without_closing_is_refused() {
    let mut a = requesting(0, 0).0;
    let request = requesting(1, 0).1;
    let at = |number| Message { epoch: Epoch::new(number).unwrap(), ..request };
    deliver(&mut a, &at(5), 0);
    a.connected(OTHER, 0).unwrap();
    actions(&mut a);
    assert_eq!(deliver(&mut a, &at(4), 0), []);
    assert_eq!(a.stats().stale, 1);
    let ahead = a.datagram(at(6).emit().as_bytes(), 0).unwrap_err();
    assert!(matches!(ahead, DatagramError::EpochAhead { .. }), "{ahead}");
    assert_eq!(a.state(OTHER), StateName::Ready);
}

#[test]
fn only_peers_of_admitted_jobs_get_a_number() {
    let mut a = wireup(0);
    let me = a.find(rank(0)).unwrap();
    assert_eq!((me, a.intern(rank(0)), a.who(me)), (PeerIx::new(0, 0), Ok(me), Some(rank(0))));
    assert_eq!(a.need(me, 0), Err(NeedError::Oneself(rank(0))));
    let error = a.intern(rank(2)).unwrap_err();
    assert_eq!(format!("{error}"), "rank 2 does not exist in a job of 2");
    let other = |rank| Peer::Rank { job: Job(7), rank: Rank(rank) };
    let error = a.intern(other(3)).unwrap_err();
    assert_eq!(
        format!("{error}"),
        "rank 3 belongs to job 0000000000000007, which is not connected to this one"
    );
    a.admit(Job(7), 4);
    let server = Peer::Server { job: JOB, node: NodeId(5) };
    for (peer, index) in [(other(3), 1), (server, 2), (rank(1), 3), (other(0), 4)] {
        assert_eq!(a.find(peer), None);
        assert_eq!(a.intern(peer).map(PeerIx::index), Ok(index));
        assert_eq!(a.find(peer).and_then(|ix| a.who(ix)), Some(peer));
    }
    assert_eq!(a.find(rank(0)), Some(me), "the others did not take its place");
}

#[test]
fn a_server_finds_its_own_number_and_the_ranks() {
    let me = Peer::Server { job: JOB, node: NodeId(1) };
    let mut server: Machine = Wireup::new(Config { me, ..config(0, 2) });
    assert_eq!(server.find(me), Some(PeerIx::new(0, 0)));
    assert_eq!(server.find(rank(0)), None);
    let ix = server.intern(rank(0)).unwrap();
    assert_eq!((ix.index(), server.find(rank(0)), server.find(rank(1))), (1, Some(ix), None));
}

#[test]
fn a_retired_job_leaves_stale_numbers_and_its_places() {
    let mut a = wireup(0);
    a.admit(Job(7), 4);
    let peers = [0, 1, 2].map(|rank| Peer::Rank { job: Job(7), rank: Rank(rank) });
    let [ready, asking, idle] = peers.map(|peer| a.intern(peer).unwrap());
    let stays = a.intern(rank(1)).unwrap();
    a.need(ready, 0).unwrap();
    a.card(ready, card_of(9), 0).unwrap();
    a.qp_ready(ready, params(9), Medium::Datagrams, 0).unwrap();
    actions(&mut a);
    a.need(asking, 0).unwrap();
    a.need(stays, 0).unwrap();
    a.retire(Job(7));
    let lookup = Action::Lookup { ix: stays, peer: rank(1) };
    assert_eq!(actions(&mut a), [lookup, Action::Destroy { ix: ready }], "and no lookup for who is gone");
    assert_eq!(a.poll_timeout(), None);
    for (ix, peer) in [ready, asking, idle].into_iter().zip(peers) {
        assert_eq!((a.who(ix), a.find(peer), a.state(ix)), (None, None, StateName::Idle));
        assert_eq!(a.need(ix, 1), Err(NeedError::Stale(ix)));
        a.broken(ix, "late news");
    }
    assert_eq!((a.poll_action(), a.who(stays)), (None, Some(rank(1))));
    a.admit(Job(8), 1);
    let new = a.intern(Peer::Rank { job: Job(8), rank: Rank(0) }).unwrap();
    assert_eq!((new.index(), new.generation()), (ready.index(), 1));
    assert_eq!((a.who(ready), a.find(peers[0])), (None, None));
}

#[test]
fn a_number_is_never_given_out_twice() {
    let mut a = wireup(0);
    let peer = Peer::Rank { job: Job(7), rank: Rank(0) };
    let mut given = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        a.admit(Job(7), 1);
        assert!(given.insert(a.intern(peer).unwrap()));
        a.retire(Job(7));
    }
    assert!(given.iter().all(|ix| a.who(*ix).is_none()));
    assert_eq!(given.iter().map(|ix| ix.index()).max(), Some(4), "256 numbers for each place");
}

#[test]
fn a_full_table_is_said_to_be_full() {
    let mut a: Machine = Wireup::new(config(0, 9));
    a.peers.rows_max = 3;
    a.intern(rank(4)).unwrap();
    a.intern(rank(5)).unwrap();
    let (peer, max) = (rank(1), PEERS_MAX);
    assert_eq!(a.intern(peer), Err(NeedError::TooMany { peer, max }));
    let request = requesting(1, 0).1;
    let refused = a.datagram(request.emit().as_bytes(), 0);
    assert_eq!(refused, Err(DatagramError::TooMany { peer, max }));
    assert_eq!((a.find(peer), a.intern(rank(5)).map(PeerIx::index)), (None, Ok(2)));
}

#[test]
fn later_messages_carry_a_new_card() {
    let (mut a, request) = requesting(0, 0);
    let card = Card::new(b"also by another way").unwrap();
    a.set_card(card);
    a.tick(a.poll_timeout().unwrap());
    let again = sent(&actions(&mut a))[0];
    assert_eq!((request.card, again.card), (card_of(0), card));
}
