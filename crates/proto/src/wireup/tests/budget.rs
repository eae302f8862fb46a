//! A process with few places: who waits, who goes, and what is said about it.
use super::super::budget::{BUSY_PATIENCE_NS, HALF_LIFE_NS};
use super::super::pace::FIRST_UNKNOWN_NS;
use super::*;
use crate::wireup::handshake::Target;

pub(super) const MS: u64 = 1_000_000;
pub(super) const IDLE: Usage = Usage { traffic: 0, busy: false, reopen_cost: 1, spare: false };
pub(super) const BUSY: Usage = Usage { busy: true, ..IDLE };

/// One process of nine under a budget; ranks 1 to 8 have the numbers 1 to 8.
pub(super) fn limited(queue_pairs: u32) -> Machine {
    let budget = Budget { queue_pairs: Some(queue_pairs) };
    let mut me: Machine = Wireup::new(Config { budget, ..config(0, 9) });
    (1..9).for_each(|other| assert_eq!(me.intern(rank(other)), Ok(ix(other))));
    me
}

pub(super) fn ix(other: u32) -> PeerIx {
    PeerIx::new(other as usize, 0)
}

/// A need whose card is there at once.
pub(super) fn need(me: &mut Machine, other: u32, now_ns: u64) -> Actions {
    me.need(ix(other), now_ns).unwrap();
    let mut done = actions(me);
    assert_eq!(done.remove(0), Action::Lookup { ix: ix(other), peer: rank(other) });
    me.card(ix(other), card_of(other), now_ns).unwrap();
    done.extend(actions(me));
    done
}

/// What another process, whose epochs begin here, asks of this one.
pub(super) fn request(other: u32, epoch: u32) -> Message {
    let epoch = Epoch::new(epoch).unwrap();
    Message {
        kind: MessageKind::Request,
        from: rank(other),
        to: rank(0),
        epoch,
        echo: None,
        stamp_ns: 0,
        params: params(other),
        name: 1,
        card: card_of(other),
    }
}

pub(super) fn create(other: u32) -> Action<&'static str> {
    Action::CreateQp { ix: ix(other), peer: rank(other), card: card_of(other) }
}

pub(super) fn drain(other: u32) -> Action<&'static str> {
    Action::Drain { ix: ix(other) }
}

/// The peer asks, and all goes well.
pub(super) fn connect(me: &mut Machine, other: u32, now_ns: u64) {
    assert_eq!(deliver(me, &request(other, 1), now_ns), [create(other)]);
    me.qp_ready(ix(other), params(0), Medium::Datagrams, now_ns).unwrap();
    me.connected(ix(other), now_ns).unwrap();
    assert_eq!(me.state(ix(other)), StateName::Ready);
    actions(me);
}

/// The connection was drained, and the peer agrees to the close.
pub(super) fn agree(me: &mut Machine, other: u32, now_ns: u64) -> Actions {
    me.drained(ix(other), now_ns).unwrap();
    let close = sent(&actions(me))[0];
    let reply = Message {
        kind: MessageKind::CloseReply,
        echo: Some(close.epoch),
        epoch: close.echo.unwrap(),
        ..request(other, 1)
    };
    let mut done = deliver(me, &reply, now_ns);
    let other = ix(other);
    assert_eq!(done[..2], [Action::Destroy { ix: other }, Action::Closed { ix: other }]);
    done.split_off(2)
}

/// The use of the others, as a list; those that are not in it are idle.
pub(super) fn look(me: &mut Machine, now_ns: u64, usage: &[(u32, Usage)]) -> Actions {
    let find =
        |wanted: PeerIx| usage.iter().find(|(other, _)| ix(*other) == wanted).map_or(IDLE, |one| one.1);
    me.make_room(now_ns, find);
    check_books(me);
    actions(me)
}

/// The books agree with the rows.
pub(super) fn check_books(me: &Machine) {
    let places = &me.common.places;
    let held = me.peers.iter().filter(|row| row.2.holds_place()).count();
    let held = held - places.homes.rows_held() + places.homes.places_held() as usize;
    assert_eq!(places.held as usize, held);
    let unanswered = |state: &State<&str>| {
        matches!(
            state,
            State::Published { .. }
                | State::Requesting { .. }
                | State::Preparing { target: Target::Found(_) | Target::Ahead { .. }, .. }
        )
    };
    let unanswered = me.peers.iter().filter(|row| unanswered(row.2)).count();
    assert_eq!(places.asking as usize, unanswered - places.homes.asking_together());
    let crowded = me.peers.iter().filter(|row| row.2.name() == StateName::Crowded).count();
    assert_eq!(places.waiting(), crowded);
    assert!(places.limit.is_none_or(|limit| limit < 2 || places.asking < limit), "the reserve is taken");
    let limits = [places.budget, places.limit].map(|limit| limit.unwrap_or(u32::MAX));
    assert!(limits[0] >= limits[1], "{limits:?}");
}

#[test]
fn attempts_leave_one_place_for_the_requests_of_others() {
    let mut me = limited(3);
    assert_eq!(need(&mut me, 1, 0), [create(1)]);
    assert_eq!(need(&mut me, 2, 0), [create(2)]);
    assert_eq!(need(&mut me, 3, 0), [], "nothing is ready that could be closed");
    assert_eq!((me.state(ix(3)), me.common.places.asking, me.queue_pairs()), (StateName::Crowded, 2, 2));
    assert_eq!(deliver(&mut me, &request(4, 1), 1), [create(4)], "the last place is theirs");
    assert_eq!(deliver(&mut me, &request(5, 1), 1), []);
    assert_eq!(me.state(ix(5)), StateName::Crowded);
    check_books(&me);
}

#[test]
fn a_crossed_request_needs_no_second_place() {
    let mut me = limited(2);
    need(&mut me, 1, 0);
    me.qp_ready(ix(1), params(0), Medium::Datagrams, 0).unwrap();
    actions(&mut me);
    need(&mut me, 2, 1);
    let answer = deliver(&mut me, &request(1, 1), 2);
    assert!(
        matches!(answer[..], [Action::Connect { .. }, Action::CreateQp { ix: second, .. }] if second == ix(2)),
        "and the attempt that was answered lets the next begin: {answer:?}"
    );
    assert_eq!((me.queue_pairs(), me.common.places.asking), (2, 1));
}

#[test]
fn a_place_is_free_when_the_queue_pair_is_destroyed() {
    let mut me = limited(2);
    connect(&mut me, 1, 0);
    connect(&mut me, 2, 1);
    assert_eq!(need(&mut me, 3, 5 * MS), [Action::MakeRoom]);
    assert_eq!(look(&mut me, 5 * MS, &[]), [drain(1)]);
    assert_eq!(agree(&mut me, 1, 6 * MS), [], "it still counts");
    assert_eq!(me.queue_pairs(), 2);
    me.destroyed(ix(1), 7 * MS);
    assert_eq!(actions(&mut me), [create(3)]);
    let stats = me.stats();
    assert_eq!((stats.evicted, stats.crowded, stats.crowded_now), (1, 1, 0));
    assert_eq!(stats.crowded_longest_ns, 2 * MS);
}

#[test]
fn the_oldest_gets_the_place_and_a_refusal_keeps_the_age() {
    let mut me = limited(2);
    connect(&mut me, 1, 0);
    connect(&mut me, 2, 0);
    for (other, at) in [(3, 10), (4, 11), (5, 12)] {
        need(&mut me, other, at * MS);
    }
    look(&mut me, 20 * MS, &[]);
    agree(&mut me, 1, 21 * MS);
    me.destroyed(ix(1), 22 * MS);
    assert!(actions(&mut me).contains(&create(3)));
    me.qp_refused(ix(3), "the device has none", 23 * MS).unwrap();
    assert!(actions(&mut me).contains(&create(4)), "the place was given back");
    me.tick(26 * MS);
    assert_eq!(me.state(ix(3)), StateName::Crowded);
    me.qp_refused(ix(4), "the device has none", 27 * MS).unwrap();
    assert!(actions(&mut me).contains(&create(3)), "it is older than 5");
    check_books(&me);
}

#[test]
fn the_least_valuable_that_is_idle_goes() {
    let used = |traffic| Usage { traffic, ..IDLE };
    let cases: [([Usage; 4], u32); 5] = [
        ([used(0), used(0), used(7), Usage { spare: true, ..used(8) }], 4),
        ([used(9), used(3), used(7), used(8)], 2),
        ([used(9), BUSY, used(7), used(8)], 3),
        ([used(9), Usage { reopen_cost: 4, ..used(3) }, used(7), used(8)], 3),
        ([used(1 << 50), used(1 << 50), used(1 << 50), used(1 << 50)], 1),
    ];
    for (usage, victim) in cases {
        let mut me = limited(4);
        (1..5).for_each(|other| connect(&mut me, other, 0));
        assert_eq!(need(&mut me, 5, 5 * MS), [Action::MakeRoom]);
        let usage: Vec<_> = (1..).zip(usage).collect();
        assert_eq!(look(&mut me, 5 * MS, &usage), [drain(victim)], "{usage:?}");
    }
}

#[test]
fn use_long_ago_counts_little() {
    let mut me = limited(2);
    connect(&mut me, 1, 0);
    connect(&mut me, 2, 0);
    need(&mut me, 3, 2 * MS);
    let (often, seldom) = (Usage { traffic: 1000, ..BUSY }, BUSY);
    assert_eq!(look(&mut me, 2 * MS, &[(1, often), (2, seldom)]), [], "both are busy");
    let later = 2 * MS + 12 * HALF_LIFE_NS;
    me.tick(later);
    actions(&mut me);
    let (often, seldom) = (Usage { busy: false, ..often }, Usage { traffic: 1, ..IDLE });
    assert_eq!(look(&mut me, later, &[(1, often), (2, seldom)]), [drain(1)]);
}

#[test]
fn a_connection_that_has_just_become_ready_is_spared() {
    let mut me = limited(2);
    connect(&mut me, 1, 0);
    connect(&mut me, 2, 5 * MS);
    need(&mut me, 3, 5 * MS);
    let used = Usage { traffic: 1000, ..IDLE };
    assert_eq!(look(&mut me, 5 * MS, &[(1, used)]), [drain(1)], "rank 2 was not used yet");
    // But if there is no other, it goes: what was queued for it goes over it first.
    let mut me = limited(2);
    connect(&mut me, 1, 5 * MS);
    connect(&mut me, 2, 5 * MS + 1);
    need(&mut me, 3, 5 * MS + FIRST_UNKNOWN_NS / 2);
    assert_eq!(look(&mut me, 5 * MS + FIRST_UNKNOWN_NS / 2, &[]), [drain(1)]);
}

#[test]
fn busy_connections_are_spared_for_a_while() {
    let mut me = limited(2);
    connect(&mut me, 1, 0);
    connect(&mut me, 2, 0);
    need(&mut me, 3, 5 * MS);
    let busy = [(1, BUSY), (2, BUSY)];
    assert_eq!(look(&mut me, 5 * MS, &busy), []);
    let mut looks = 1;
    while let Some(due) = me.poll_timeout() {
        me.tick(due);
        assert_eq!(actions(&mut me), [Action::MakeRoom]);
        looks += 1;
        match look(&mut me, due, &busy)[..] {
            [] => assert!(due < 5 * MS + BUSY_PATIENCE_NS, "looked at {looks} times"),
            [Action::Drain { .. }] => {
                assert!(due >= 5 * MS + BUSY_PATIENCE_NS);
                break;
            }
            ref other => panic!("{other:?}"),
        }
    }
    assert!((5..20).contains(&looks), "{looks}");
}

#[test]
fn a_peer_that_does_not_agree_is_followed_by_another() {
    let mut me = limited(4);
    (1..5).for_each(|other| connect(&mut me, other, u64::from(other)));
    need(&mut me, 5, 5 * MS);
    assert_eq!(look(&mut me, 5 * MS, &[]), [drain(1)]);
    me.drained(ix(1), 5 * MS).unwrap();
    let (mut asked, mut times) = (std::vec![1], std::vec![5 * MS]);
    while let Some(due) = me.poll_timeout().filter(|due| *due < 100 * MS) {
        me.tick(due);
        if actions(&mut me).contains(&Action::MakeRoom) {
            for action in look(&mut me, due, &[]) {
                let other = action.ix().unwrap();
                assert_eq!(action, Action::Drain { ix: other });
                me.drained(other, due).unwrap();
                asked.push(other.index());
                times.push(due);
            }
        }
    }
    assert_eq!(asked, [1, 2, 3, 4]);
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] >= MS && gaps[1] >= 2 * gaps[0] && gaps[2] >= 2 * gaps[1], "{gaps:?}");
    let text = format!("{}", me.crowd(35_000 * MS).unwrap());
    let asked = "asked rank 1, rank 2, rank 3, rank 4 to close, no answer for 34 s";
    assert_eq!(text, format!("rank 5 waits for a place among 4 queue pairs; {asked}"));
}

#[test]
fn who_waits_behind_silent_peers_says_so() {
    let mut me = limited(2);
    need(&mut me, 1, 0);
    me.qp_ready(ix(1), params(0), Medium::Datagrams, 0).unwrap();
    actions(&mut me);
    need(&mut me, 2, 0);
    need(&mut me, 3, 0);
    let text = format!("{}", me.crowd(9_000 * MS).unwrap());
    let asked = "asked rank 1 to connect, no answer for 9 s";
    assert_eq!(text, format!("rank 2, rank 3 wait for a place among 2 queue pairs; {asked}"));
    assert_eq!(limited(2).crowd(0), None);
}

#[test]
fn a_victim_that_is_needed_again_waits_behind_the_others() {
    let mut me = limited(2);
    connect(&mut me, 1, 0);
    connect(&mut me, 2, 0);
    need(&mut me, 3, 5 * MS);
    assert_eq!(look(&mut me, 5 * MS, &[(2, BUSY)]), [drain(1)]);
    assert_eq!(me.need(ix(1), 6 * MS), Ok(Progress::Pending));
    assert_eq!(agree(&mut me, 1, 7 * MS), [], "one is waited for, and one is about to be free");
    assert_eq!(me.state(ix(1)), StateName::Crowded);
    me.destroyed(ix(1), 8 * MS);
    assert_eq!(actions(&mut me), [create(3)], "rank 3 came first");
}

#[test]
fn no_more_are_asked_to_close_than_are_waited_for() {
    let mut me = limited(8);
    (1..9).for_each(|other| connect(&mut me, other, 0));
    me.set_budget(Budget { queue_pairs: Some(7) }, 5 * MS);
    assert_eq!(actions(&mut me), [Action::MakeRoom]);
    assert_eq!(look(&mut me, 5 * MS, &[]).len(), 1);
    me.set_budget(Budget { queue_pairs: Some(2) }, 5 * MS);
    assert_eq!(actions(&mut me), [], "one at a time of two");
    me.set_budget(Budget::UNLIMITED, 5 * MS);
    assert_eq!((actions(&mut me), me.poll_timeout()), (std::vec![], None));
}

#[test]
fn a_smaller_budget_closes_until_it_is_kept() {
    let mut me = limited(8);
    (1..9).for_each(|other| connect(&mut me, other, 0));
    me.set_budget(Budget { queue_pairs: Some(3) }, 5 * MS);
    for _ in 0..5 {
        for action in actions(&mut me) {
            assert_eq!(action, Action::MakeRoom);
        }
        for action in look(&mut me, 5 * MS, &[]) {
            let other = action.ix().unwrap().index() as u32;
            agree(&mut me, other, 5 * MS);
            me.destroyed(ix(other), 5 * MS);
        }
    }
    assert_eq!((me.queue_pairs(), me.stats().evicted), (3, 5));
    assert_eq!((me.poll_timeout(), actions(&mut me)), (None, std::vec![]));
}

#[test]
fn a_lost_peer_gives_its_place_when_the_driver_is_done() {
    let mut me = limited(2);
    need(&mut me, 1, 0);
    need(&mut me, 2, 0);
    me.broken(ix(1), "gone");
    actions(&mut me);
    assert_eq!((me.queue_pairs(), me.common.places.asking), (1, 0), "it is still being made");
    me.qp_ready(ix(1), params(0), Medium::Datagrams, 1).unwrap();
    assert_eq!(actions(&mut me), [Action::Destroy { ix: ix(1) }, create(2)], "the second place was free");
    me.destroyed(ix(1), 2);
    assert_eq!(me.queue_pairs(), 1);
    me.broken(ix(2), "gone too");
    me.qp_refused(ix(2), "none", 3).unwrap();
    assert_eq!(me.queue_pairs(), 0);
    check_books(&me);
}

#[test]
fn a_retired_job_gives_its_places_when_the_driver_is_done() {
    let mut me = limited(4);
    me.admit(Job(7), 4);
    let strangers = [0, 1, 2, 3].map(|rank| Peer::Rank { job: Job(7), rank: Rank(rank) });
    let numbers = strangers.map(|peer| me.intern(peer).unwrap());
    for (at, one) in numbers.into_iter().enumerate() {
        me.need(one, 0).unwrap();
        me.card(one, card_of(9), 0).unwrap();
        if at < 2 {
            actions(&mut me);
        }
    }
    me.qp_ready(numbers[0], params(9), Medium::Datagrams, 0).unwrap();
    // One has a queue pair, one is being made, one was not yet asked for, one is crowded.
    me.retire(Job(7));
    assert_eq!((me.queue_pairs(), me.common.places.asking, me.stats().crowded_now), (2, 0, 0));
    check_books(&me);
    assert!(me.qp_ready(numbers[1], params(9), Medium::Datagrams, 1).is_err());
    me.destroyed(numbers[1], 1);
    assert_eq!(me.queue_pairs(), 1);
    me.destroyed(numbers[0], 1);
    assert_eq!(me.queue_pairs(), 0);
}

#[test]
#[should_panic(expected = "at least 2 are needed")]
fn one_queue_pair_is_too_few() {
    limited(1);
}
