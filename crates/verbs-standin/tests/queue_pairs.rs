//! Queue pairs of one process: order, errors on both sides, events, and XRC.
#![allow(unsafe_code)] // memory that a device writes
mod rig;

use rig::*;
use std::time::{Duration, Instant};
use sys::UserBufMut;
use verbs::*;

#[test]
fn messages_keep_their_order_and_wake_once() {
    with("", "messages_keep_their_order_and_wake_once", || {
        let side = Side::open(40);
        let (one, two) = side.pair();
        // What was there before is no reason to wake, and neither is anything before somebody asks.
        side.send(&one, 1000, b"first");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!is_readable(side.cq.wake_fd()));
        side.completions(2);
        side.cq.arm().expect("armed");
        for id in 0..20u64 {
            side.send(&one, 100 + id, &id.to_le_bytes());
        }
        let all = side.completions(40);
        assert!(is_readable(side.cq.wake_fd()));
        side.cq.take_events();
        assert!(!is_readable(side.cq.wake_fd()));
        let received: Vec<&Completion> = all.iter().filter(|completion| completion.qp == two.num()).collect();
        for (id, completion) in received.iter().enumerate() {
            assert_eq!(side.text(completion.id, 8), (id as u64).to_le_bytes());
        }
        assert_eq!(received.len(), 20);
    });
}

#[test]
fn eight_mebibytes_go_both_ways() {
    with("", "eight_mebibytes_go_both_ways", || {
        let side = Side::open(1);
        let (one, _two) = side.pair();
        let mut from: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        let (mut there, mut back) = (vec![0u8; 8 << 20], vec![0u8; 8 << 20]);
        let register = |bytes: &mut Vec<u8>, access| {
            // SAFETY: only looked at when nothing is under way.
            let memory = unsafe { UserBufMut::new(bytes.as_mut_ptr(), bytes.len()) };
            side.pd.register_mut(&memory, access).expect("registered")
        };
        let both = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let (mr, target, result) = (
            register(&mut from, Access::READ),
            register(&mut there, both),
            register(&mut back, Access::READ),
        );
        let at = Remote { addr: target.addr(), key: target.remote_key() };
        let part = [mr.local(mr.addr(), 8 << 20)];
        one.post(&Work::new(1, Operation::Write { from: &part, to: at })).expect("posted");
        let part = [result.local(result.addr(), 8 << 20)];
        one.post(&Work::new(2, Operation::Read { into: &part, from: at })).expect("posted");
        assert_eq!((side.done(), side.done()), (1, 2));
        assert!(from == there && from == back);
    });
}

#[test]
fn a_write_with_a_word_beside_takes_a_receive() {
    with("", "a_write_with_a_word_beside_takes_a_receive", || {
        let side = Side::open(1);
        let (one, _two) = side.pair();
        let mut word = 0u64;
        // SAFETY: only looked at when nothing is under way.
        let memory = unsafe { UserBufMut::new((&raw mut word).cast(), 8) };
        let mr = side.pd.register_mut(&memory, Access::REMOTE_WRITE).expect("registered");
        side.arena.write(40, 0, &7u64.to_le_bytes());
        let from = [side.arena.local(40, 8)];
        let to = Remote { addr: mr.addr(), key: mr.remote_key() };
        let work = Work { immediate: Some(77), ..Work::new(5, Operation::Write { from: &from, to }) };
        one.post(&work).expect("posted");
        let all = side.completions(2);
        let found = |completion: &Completion| match completion.outcome {
            Outcome::Done { received: true, immediate, bytes, .. } => Some((immediate, bytes)),
            _ => None,
        };
        assert_eq!(all.iter().find_map(found), Some((Some(77), 8)));
        drop(mr);
        assert_eq!(word, 7);
    });
}

#[test]
fn a_wrong_key_breaks_both_sides() {
    with("", "a_wrong_key_breaks_both_sides", || {
        let side = Side::open(1);
        let (one, two) = side.pair();
        let from = [side.arena.local(40, 8)];
        let nowhere = Remote { addr: 4096, key: 1 };
        one.post(&Work::new(1, Operation::Write { from: &from, to: nowhere })).expect("posted");
        side.send(&one, 2, b"behind it");
        let (id, failed) = side.failed();
        assert!(id == 1 && failed.was_refused(), "{id} {failed}");
        let (id, failed) = side.failed();
        assert!(id == 2 && failed.is_flushed(), "{id} {failed}");
        assert_eq!(side.event(), AsyncEvent::Qp(two.num(), "local access violation work queue error".into()));
        let mut rest = vec![side.event(), side.event()];
        rest.dedup();
        assert_eq!(rest, [AsyncEvent::Other("last WQE reached".into())]);
        assert_eq!((one.state().unwrap(), two.state().unwrap()), (State::Error, State::Error));
        // What is posted now is flushed, too.
        side.send(&one, 3, b"later");
        assert!(side.failed().1.is_flushed());
    });
}

#[test]
fn who_has_no_receive_is_asked_again() {
    with("", "who_has_no_receive_is_asked_again", || {
        let side = Side::open(0);
        let (one, _two) = side.pair();
        side.send(&one, 1, b"hello");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(side.cq.poll(|_| ()).unwrap(), 0);
        side.srq.post(9, &side.arena, 9).unwrap();
        side.completions(2);
        assert_eq!(side.text(9, 5), b"hello");
        let (few, _other) = side.pair_with(&QpSettings { rnr_retries: 2, ..SETTINGS });
        side.send(&few, 2, b"hello");
        let (id, failed) = side.failed();
        assert!(id == 2 && failed.had_no_receive(), "{failed}");
    });
}

#[test]
fn who_is_not_there_is_given_up() {
    with("", "who_is_not_there_is_given_up", || {
        let side = Side::open(4);
        // Nobody, a queue pair that does not receive, one that talks to another, and one elsewhere.
        let (closed, busy) = (side.qp(), side.pair());
        for to in [0xff_ffff, closed.num(), busy.0.num()] {
            let qp = side.qp();
            side.connect(&qp, to, &SETTINGS);
            let start = Instant::now();
            side.send(&qp, 1, b"hello");
            let (_, failed) = side.failed();
            assert!(failed.is_unanswered(), "{failed}");
            let waited = start.elapsed();
            assert!(waited > Duration::from_millis(200) && waited < Duration::from_secs(5), "{waited:?}");
        }
        let quick = QpSettings { timeout: 1, retries: 0, ..SETTINGS };
        let qp = side.qp();
        side.connect(&qp, 0xff_ffff, &quick);
        let start = Instant::now();
        side.send(&qp, 1, b"hello");
        assert!(side.failed().1.is_unanswered());
        assert!(start.elapsed() < Duration::from_millis(200));
    });
}

#[test]
fn moves_outside_the_table_are_refused() {
    with("", "moves_outside_the_table_are_refused", || {
        let side = Side::open(0);
        let qp = side.qp();
        let dest = Dest { address: side.address(), qp: 1, psn: 0 };
        assert!(qp.rtr(&dest, &SETTINGS).is_err() && qp.rts(0, &SETTINGS).is_err() && qp.sqd().is_err());
        assert_eq!(qp.state().unwrap(), State::Reset);
        assert!(qp.init(2, Access::READ).is_err(), "there is no such port");
        qp.init(1, Access::READ).unwrap();
        assert!(qp.post(&Work::new(1, Operation::SendCopied(&[]))).is_err());
        let elsewhere = Dest { address: Address { gids: None, ..side.address() }, ..dest };
        assert!(qp.rtr(&elsewhere, &SETTINGS).is_err(), "Ethernet needs a GID");
        qp.rtr(&dest, &SETTINGS).unwrap();
        qp.fail().unwrap();
        assert!(qp.rts(0, &SETTINGS).is_err());
        assert_eq!(qp.state().unwrap(), State::Error);
    });
}

#[test]
fn few_receives_are_told_once() {
    with("", "few_receives_are_told_once", || {
        let side = Side::open(4);
        side.srq.warn_below(3).unwrap();
        let (one, _two) = side.pair();
        (0..4).for_each(|id| side.send(&one, 100 + id, b"x"));
        side.completions(8);
        assert_eq!(side.event(), AsyncEvent::FewReceives);
        assert_eq!(side.context.next_event(), None);
    });
}

#[test]
fn a_queue_pair_breaks_by_itself() {
    with("", "a_queue_pair_breaks_by_itself", || {
        let side = Side::open(4);
        let (one, two) = side.pair();
        control(&format!("break={}", two.num()));
        let words = "local work queue catastrophic error".to_string();
        assert_eq!(side.event(), AsyncEvent::Qp(two.num(), words));
        assert_eq!(side.event(), AsyncEvent::Other("last WQE reached".into()));
        side.send(&one, 1, b"hello");
        assert!(side.failed().1.is_unanswered());
    });
}

#[test]
fn a_full_send_queue_takes_more_when_polled() {
    with("", "a_full_send_queue_takes_more_when_polled", || {
        let side = Side::open(64);
        let (one, _two) = side.pair();
        (0..64).for_each(|id| side.send(&one, 100 + id, b"x"));
        std::thread::sleep(Duration::from_millis(50));
        assert!(one.post(&Work::new(1, Operation::SendCopied(&[]))).is_err());
        side.completions(128);
        side.srq.post(0, &side.arena, 0).unwrap();
        side.send(&one, 1, b"x");
        side.completions(2);
    });
}

/// A domain with two shared receive queues, and both halves of a connection to it.
struct Xrc {
    side: Side,
    queues: Vec<std::rc::Rc<Srq>>,
    ini: Qp,
    tgt: Qp,
}

impl Xrc {
    fn new() -> Xrc {
        let side = Side::open(0);
        let domain = Xrcd::open(&side.context, None).expect("a domain");
        let queue = || Srq::of_domain(&domain, &side.pd, &side.cq, 16).expect("a shared receive queue");
        let queues = vec![queue(), queue()];
        let ini = Qp::new(&side.pd, QpKind::XrcSend, &side.cq, &side.cq, None, CAPS).expect("a sender");
        let tgt = Qp::of_domain(&side.pd, &domain).expect("a receiver");
        side.connect(&tgt, ini.num(), &SETTINGS);
        side.connect(&ini, tgt.num(), &SETTINGS);
        Xrc { side, queues, ini, tgt }
    }

    fn send(&self, id: u64, to: Option<u32>, text: &[u8]) {
        let pieces = [text.into()];
        let work = Work { srq: to, ..Work::new(id, Operation::SendCopied(&pieces)) };
        self.ini.post(&work).expect("posted");
    }
}

#[test]
fn xrc_two_receivers_are_behind_one_queue_pair() {
    with("", "xrc_two_receivers_are_behind_one_queue_pair", || {
        let xrc = Xrc::new();
        let numbers: Vec<Option<u32>> = xrc.queues.iter().map(|queue| queue.number()).collect();
        assert!(numbers[0].is_some() && numbers[0] != numbers[1]);
        xrc.queues[0].post(10, &xrc.side.arena, 10).unwrap();
        xrc.queues[1].post(11, &xrc.side.arena, 11).unwrap();
        xrc.send(1, numbers[1], b"to the second");
        xrc.send(2, numbers[0], b"to the first");
        let all = xrc.side.completions(4);
        let received: Vec<u64> = all
            .iter()
            .filter(|completion| completion.qp == xrc.tgt.num())
            .map(|completion| completion.id)
            .collect();
        assert_eq!(received, [11, 10]);
        assert_eq!(xrc.side.text(11, 13), b"to the second");
        assert_eq!(xrc.side.text(10, 12), b"to the first");
        // Only what comes is received: the receiving half sends nothing.
        assert!(xrc.tgt.post(&Work::new(3, Operation::SendCopied(&[]))).is_err());
    });
}

#[test]
fn xrc_reads_and_a_queue_that_is_not_there() {
    with("", "xrc_reads_and_a_queue_that_is_not_there", || {
        let xrc = Xrc::new();
        let mut word = 5u64;
        // SAFETY: only looked at when nothing is under way.
        let memory = unsafe { UserBufMut::new((&raw mut word).cast(), 8) };
        let mr = xrc.side.pd.register_mut(&memory, Access::REMOTE_ATOMIC).unwrap();
        let (into, at) = (xrc.side.arena.local(40, 8), Remote { addr: mr.addr(), key: mr.remote_key() });
        let srq = xrc.queues[0].number();
        let add = Operation::FetchAdd { into: &into, at, add: 2 };
        xrc.ini.post(&Work { srq, ..Work::new(1, add) }).unwrap();
        assert_eq!(xrc.side.done(), 1);
        drop(mr);
        assert_eq!(word, 7);
        xrc.send(2, Some(0xff_fff0), b"nobody");
        let (_, failed) = xrc.side.failed();
        assert!(failed.was_refused(), "{failed}");
    });
}

#[test]
fn xrc_is_not_everywhere() {
    with("no-xrc", "xrc_is_not_everywhere", || {
        let side = Side::open(0);
        assert!(!side.context.limits().unwrap().xrc);
        assert!(Xrcd::open(&side.context, None).is_err());
        assert!(Qp::new(&side.pd, QpKind::XrcSend, &side.cq, &side.cq, None, CAPS).is_err());
    });
}
