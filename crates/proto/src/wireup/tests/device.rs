//! A process whose node has too few queue pairs: what it tries, whom it asks, and what it gives.
use super::budget::{BUSY, IDLE, MS, agree, check_books, connect, create, drain, ix, need};
use super::*;
use crate::wireup::device::SHORT_NS;

/// A device of 16 for four processes, three of which are in slots 1 to 3: each has a share of 3.
fn node(holding: [u32; 3], wanting: &[u32]) -> NodeDevice {
    NodeDevice {
        max: 16,
        kept: 2,
        processes: 4,
        holding: (1..).zip(holding).collect(),
        wanting: wanting.iter().map(|slot| (*slot, Lack::Spare)).collect(),
    }
}

fn unlimited() -> Machine {
    let mut me: Machine = Wireup::new(config(0, 9));
    (1..9).for_each(|other| assert_eq!(me.intern(rank(other)), Ok(ix(other))));
    me
}

fn tell(slot: u32, word: DeviceWord) -> Action<&'static str> {
    Action::Tell { slot, word }
}

fn lack(slot: u32) -> Action<&'static str> {
    tell(slot, DeviceWord::Lack)
}

#[test]
fn a_refused_attempt_waits_for_a_word_and_others_behind_it() {
    let mut me = unlimited();
    for other in [1, 2] {
        assert_eq!(need(&mut me, other, 0), [create(other)]);
    }
    me.qp_withheld(ix(1), "none", &node([6, 5, 2], &[]), 1).unwrap();
    assert_eq!(actions(&mut me), [lack(1), lack(2)], "those that have more than their share");
    me.qp_withheld(ix(2), "none", &node([6, 5, 2], &[]), 2).unwrap();
    actions(&mut me);
    assert_eq!(need(&mut me, 3, 3), [], "it would be refused as well");
    assert_eq!(me.lack(4), Some(Lack::Spare));
    me.heard(DeviceWord::Room, &node([6, 5, 2], &[]), 4);
    assert_eq!(actions(&mut me), [create(1)], "one is tried, the oldest");
    me.qp_ready(ix(1), params(0), Medium::Datagrams, 5).unwrap();
    assert!(actions(&mut me).contains(&create(2)), "and the next when that was made");
    check_books(&me);
}

#[test]
fn a_word_that_is_lost_is_made_up_for_by_a_timer() {
    let mut me = unlimited();
    need(&mut me, 1, 0);
    let mut now = 0;
    for _ in 0..50 {
        me.qp_withheld(ix(1), "none", &node([6, 5, 2], &[]), now).unwrap();
        actions(&mut me);
        let due = me.poll_timeout().unwrap();
        assert!(due > now && due - now <= 16 * MS, "{}", due - now);
        now = due;
        me.tick(now);
        assert_eq!(actions(&mut me), [create(1)]);
    }
    assert!(now > 500 * MS, "50 attempts in {now} ns are too many");
}

#[test]
fn an_answer_may_have_what_an_attempt_may_not() {
    let mut me = unlimited();
    need(&mut me, 1, 0);
    me.qp_withheld(ix(1), "none", &node([6, 5, 2], &[]), 1).unwrap();
    actions(&mut me);
    connect(&mut me, 2, 2);
    assert_eq!(me.lack(3), Some(Lack::Spare), "that says nothing about attempts");
    assert_eq!(actions(&mut me), []);
}

#[test]
fn who_has_more_than_its_share_makes_do_with_one_less() {
    let mut me = unlimited();
    (1..6).for_each(|other| connect(&mut me, other, 0));
    me.heard(DeviceWord::Lack, &node([3, 3, 3], &[]), 5 * MS);
    assert_eq!(actions(&mut me), [], "nobody lacks one any more");
    me.heard(DeviceWord::Lack, &node([3, 3, 2], &[3]), 5 * MS);
    assert_eq!(actions(&mut me), [Action::MakeRoom]);
    me.make_room(5 * MS, |_| IDLE);
    assert_eq!(actions(&mut me), [drain(1)]);
    agree(&mut me, 1, 5 * MS + 1);
    me.destroyed(ix(1), 5 * MS + 1);
    me.gave_back(&node([3, 3, 2], &[3]), 5 * MS + 1);
    assert_eq!(actions(&mut me), [tell(3, DeviceWord::Room)]);
    assert_eq!(need(&mut me, 6, 7 * MS), [Action::MakeRoom], "it makes do with four");
    let later = 7 * MS + SHORT_NS;
    me.make_room(later, |_| BUSY);
    assert!(actions(&mut me).contains(&create(6)), "long ago");
    check_books(&me);
}

/// Its attempts may wait for an answer for which the queue pair is lacking.
#[test]
fn who_has_more_than_its_share_by_attempts_alone_gives_what_is_idle() {
    let mut me = unlimited();
    connect(&mut me, 5, 0);
    for other in 1..5 {
        assert_eq!(need(&mut me, other, 0), [create(other)]);
        me.qp_ready(ix(other), params(0), Medium::Stream, 0).unwrap();
        actions(&mut me);
    }
    me.heard(DeviceWord::Lack, &node([3, 3, 3], &[1]), 5 * MS);
    assert_eq!(actions(&mut me), [Action::MakeRoom]);
    me.make_room(5 * MS, |_| IDLE);
    assert_eq!(actions(&mut me), [drain(5)]);
}

#[test]
fn at_its_share_a_process_gives_only_what_is_idle() {
    let mut me = unlimited();
    (1..4).for_each(|other| connect(&mut me, other, 0));
    me.heard(DeviceWord::Lack, &node([3, 3, 3], &[1]), 5 * MS);
    assert_eq!(actions(&mut me), [Action::MakeRoom]);
    me.make_room(5 * MS, |one| if one == ix(2) { IDLE } else { BUSY });
    assert_eq!(actions(&mut me), [drain(2)]);
    assert_eq!(need(&mut me, 5, 6 * MS), [create(5)], "it is not narrowed");
}

#[test]
fn what_is_given_back_goes_round() {
    let mut me = unlimited();
    (2..4).for_each(|other| connect(&mut me, other, 0));
    need(&mut me, 1, 0);
    me.qp_withheld(ix(1), "none", &node([2, 2, 2], &[2]), 1).unwrap();
    actions(&mut me);
    me.make_room(5 * MS, |_| IDLE);
    let drained = actions(&mut me);
    assert_eq!(drained, [drain(2)]);
    agree(&mut me, 2, 6 * MS);
    me.destroyed(ix(2), 6 * MS);
    me.gave_back(&node([2, 2, 2], &[2]), 6 * MS);
    assert_eq!(actions(&mut me)[..1], [tell(2, DeviceWord::Room)], "first the others");
    me.gave_back(&node([2, 2, 2], &[2]), 7 * MS);
    assert_eq!(actions(&mut me)[..1], [create(1)], "then this one");
}

/// What it gives back goes to its own attempt that has waited long, not to the answers that come all the time.
#[test]
fn an_attempt_that_has_waited_long_goes_before_answers() {
    let mut me = unlimited();
    connect(&mut me, 1, 0);
    need(&mut me, 2, 0);
    me.qp_withheld(ix(2), "none", &node([4, 4, 4], &[]), 1).unwrap();
    actions(&mut me);
    assert_eq!(me.qp_for(ix(2), 2), QpFor::Attempt);
    assert_eq!(me.lack(19 * MS), Some(Lack::Spare));
    assert_eq!(me.lack(20 * MS), Some(Lack::Any));
    me.close(ix(1), 21 * MS).unwrap();
    actions(&mut me);
    agree(&mut me, 1, 21 * MS);
    me.destroyed(ix(1), 21 * MS);
    assert_eq!(actions(&mut me), [create(2)]);
    assert_eq!(me.qp_for(ix(2), 21 * MS), QpFor::PressingAttempt);
}

#[test]
fn those_for_whom_any_will_do_are_told_first() {
    let mut me = unlimited();
    let mut told = |wanting: &[(u32, Lack)]| {
        me.gave_back(&NodeDevice { wanting: wanting.into(), ..node([4, 4, 4], &[]) }, 1);
        actions(&mut me)
    };
    let any = [(1, Lack::Spare), (2, Lack::Any), (3, Lack::Spare)];
    assert_eq!(told(&any), [tell(2, DeviceWord::Room)]);
    assert_eq!(told(&any), [tell(2, DeviceWord::Room)]);
    let spare = [(1, Lack::Spare), (3, Lack::Spare)];
    assert_ne!(told(&spare), told(&spare), "they take turns");
}
