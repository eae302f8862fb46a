use super::*;
use crate::mem::SharedMemory;

fn pair(bytes: usize) -> (RingTx, RingRx) {
    let memory = SharedMemory::create("ring", bytes as u64).unwrap();
    (RingTx::new(memory.map(0, bytes).unwrap()), RingRx::new(memory.map(0, bytes).unwrap()))
}

fn buf(bytes: &[u8]) -> UserBuf {
    // SAFETY: the tests send before the slice goes away.
    unsafe { UserBuf::new(bytes.as_ptr(), bytes.len()) }
}

/// Every word looks like one of the first laps to a reader that takes the wrong line.
fn message(n: usize) -> Vec<u8> {
    (0..n).map(|i| if i % 4 == 0 { ((i / 4 + n) % 8 + 1) as u8 } else { 0 }).collect()
}

/// The next slot that is not a wish for more room.
fn next(rx: &mut RingRx) -> Next {
    loop {
        match rx.next_slot() {
            Next::Grow(0) => {}
            next => return next,
        }
    }
}

#[test]
fn messages_of_all_lengths_arrive_whole_and_in_order() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    for round in 0..50 {
        for n in (0..tx.payload_max() + 1).step_by(37 + round) {
            let sent = message(n);
            tx.send([n as u64, round as u64], buf(&sent)).unwrap();
            assert_eq!(next(&mut rx), Next::Message);
            let view = rx.view();
            assert_eq!((view.header(), view.to_vec()), ([n as u64, round as u64], sent));
            drop(view);
            assert_eq!(next(&mut rx), Next::Empty);
        }
    }
}

#[test]
fn a_full_ring_says_so_and_loses_nothing() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    let mut sent = 0u64;
    let mut got = 0u64;
    for n in 0..2000usize {
        while tx.send([sent, 0], buf(&message(n % 300))).is_ok() {
            sent += 1;
        }
        for _ in 0..3 {
            if next(&mut rx) != Next::Message {
                break;
            }
            assert_eq!(rx.view().header()[0], got);
            got += 1;
        }
    }
    while next(&mut rx) == Next::Message {
        assert_eq!(rx.view().header()[0], got);
        got += 1;
    }
    assert_eq!(sent, got);
    assert!(sent > 5000);
}

#[test]
fn a_writer_moves_to_the_larger_ring_it_asked_for() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    while tx.send([1, 0], UserBuf::EMPTY).is_ok() {}
    tx.ask_growth(10_000);
    assert_eq!(tx.growth(), Growth::Open);
    let mut asked = None;
    while asked.is_none() {
        match rx.next_slot() {
            Next::Grow(bytes) => asked = Some(bytes),
            Next::Message => drop(rx.view()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(asked, Some(10_000));
    rx.offer(4096, 32768);
    assert_eq!(tx.growth(), Growth::Offered { offset: 4096, bytes: 32768 });
    tx.switch().unwrap();
    assert_eq!(rx.next_slot(), Next::Switch);
}

#[test]
fn a_ring_that_is_read_to_its_end_is_not_touched_again() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    for _ in 0..lines_of(&rx.map) as usize / CREDIT_PART - 1 {
        tx.send([0, 0], UserBuf::EMPTY).unwrap();
    }
    tx.switch().unwrap();
    while rx.next_slot() == Next::Message {
        drop(rx.view());
    }
    assert!(!tx.is_read_to_its_end(), "the reader has seen the last word, and may still look");
    tx.set_waiting(true); // as if the memory were another ring's already
    rx.end();
    assert!(tx.is_read_to_its_end());
    assert_eq!(tx.map.u32_at(AT_WAITING).load(Ordering::Relaxed), 1);
    assert!(tx.into_cleared(RING_BYTES_MIN).is_some_and(|map| map.u64_at(LINE).load(Ordering::Relaxed) == 0));
}

#[test]
fn a_writer_asks_at_the_second_full_ring_and_then_rarely() {
    let mut pressure = Pressure::default();
    let asks: Vec<u64> = (1..=24).filter(|written| pressure.rises(*written)).collect();
    assert_eq!(asks, [2, 8, 16, 24]);
    assert!(!pressure.rises(24), "the same full ring");
}

#[test]
fn a_writer_that_always_looks_for_credits_asks_for_more() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    let mut asked = 0;
    for n in 0..40 {
        tx.send([n, 0], buf(&message(4096))).unwrap();
        while let next @ (Next::Message | Next::Grow(_)) = rx.next_slot() {
            if next == Next::Message {
                assert_eq!(rx.view().header()[0], n);
            } else {
                asked += 1;
            }
        }
    }
    assert_eq!(asked, 2);
    let (mut tx, mut rx) = pair(32 << 10);
    for _ in 0..400 {
        tx.send([0, 0], buf(&message(4096))).unwrap();
        drain(&mut rx, 1);
    }
    assert_eq!(rx.next_slot(), Next::Empty);
}

#[test]
fn a_word_for_the_other_direction_is_no_message() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    tx.ask_move().unwrap();
    tx.send([5, 0], UserBuf::EMPTY).unwrap();
    assert_eq!((rx.next_slot(), rx.next_slot()), (Next::Move, Next::Message));
    drop(rx.view());
    assert_eq!((rx.messages(), rx.lines_read(), tx.lines_written()), (1, 2, 2));
}

fn drain(rx: &mut RingRx, count: usize) {
    for _ in 0..count {
        assert_eq!(next(rx), Next::Message);
        drop(rx.view());
    }
}

#[test]
fn a_reader_learns_of_a_waiting_writer_with_the_credits_it_returns() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    let mut sent = 0;
    while tx.has_room(0) {
        tx.send([0, 0], UserBuf::EMPTY).unwrap();
        sent += 1;
    }
    assert_eq!(tx.send([0, 0], UserBuf::EMPTY), Err(Full));
    let returned = lines_of(&rx.map) as usize / CREDIT_PART;
    drain(&mut rx, returned);
    assert!(!rx.take_writer_waits() && tx.has_room(0));
    while tx.send([0, 0], UserBuf::EMPTY).is_ok() {
        sent += 1;
    }
    tx.set_waiting(true);
    assert!(!tx.has_room(0));
    drain(&mut rx, returned - 1);
    assert!(!rx.take_writer_waits(), "no credit has been returned yet");
    drain(&mut rx, 1);
    assert!(rx.take_writer_waits() && !rx.take_writer_waits());
    assert!(tx.has_room(0));
    drain(&mut rx, sent - 2 * returned);
    assert!(!rx.take_writer_waits(), "it was told already");
}

#[test]
fn an_offer_is_news_for_a_waiting_writer() {
    let (tx, mut rx) = pair(RING_BYTES_MIN);
    tx.set_waiting(true);
    rx.offer(4096, 32768);
    assert!(rx.take_writer_waits());
    tx.set_waiting(true);
    tx.set_waiting(false);
    rx.offer(4096, 32768);
    assert!(!rx.take_writer_waits());
}

#[test]
fn a_writer_that_sleeps_is_always_woken() {
    let (mut tx, mut rx) = pair(RING_BYTES_MIN);
    let bell = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0..20_000usize {
                let sent = message(n * 7919 % 1500);
                while tx.send([n as u64, 0], buf(&sent)).is_err() {
                    let rung = bell.load(Ordering::Acquire);
                    tx.set_waiting(true);
                    Barrier::Both.heavy();
                    if !tx.has_room(sent.len()) {
                        let start = std::time::Instant::now();
                        crate::sync::futex_wait(&bell, rung, std::time::Duration::from_secs(20));
                        assert!(start.elapsed().as_secs() < 10, "never woken");
                    }
                    tx.set_waiting(false);
                }
            }
        });
        let start = std::time::Instant::now();
        for n in 0..20_000u64 {
            while rx.next_slot() != Next::Message {
                assert!(start.elapsed().as_secs() < 60, "message {n} does not come");
                std::thread::yield_now();
            }
            assert_eq!(rx.view().header()[0], n);
            if rx.take_writer_waits() {
                bell.fetch_add(1, Ordering::AcqRel);
                crate::sync::futex_wake_all(&bell);
            }
        }
    });
}

#[test]
fn a_ring_in_the_writers_segment_is_read_by_who_comes_later() {
    use crate::segment::{PeerSegment, Segment};
    let mut writer = Segment::create(Barrier::Both).unwrap();
    let (offset, map) = writer.carve_packed(RING_BYTES_MIN).unwrap();
    let mut tx = RingTx::new(map);
    let mut sent = 0;
    while tx.send([sent, 0], buf(&message(sent as usize % 200))).is_ok() {
        sent += 1;
    }
    let peer = PeerSegment::open(&writer.locator().unwrap(), Barrier::Both).unwrap();
    let mut rx = RingRx::new(peer.map(offset, RING_BYTES_MIN).unwrap());
    rx.set_barrier(peer.barrier());
    // Credits go back into the writer's segment: several laps more.
    for n in 0..1000u64 {
        assert_eq!(next(&mut rx), Next::Message);
        let view = rx.view();
        assert_eq!((view.header()[0], view.to_vec()), (n, message(n as usize % 200)));
        drop(view);
        if tx.send([sent, 0], buf(&message(sent as usize % 200))).is_ok() {
            sent += 1;
        }
    }
    rx.set_polled(true);
    assert!(tx.is_polled());
    tx.ask_growth(10_000);
    drain(&mut rx, (sent - 1000) as usize);
    assert_eq!(next(&mut rx), Next::Grow(10_000));
    rx.offer(offset, RING_BYTES_MIN);
    assert_eq!(tx.growth(), Growth::Offered { offset, bytes: RING_BYTES_MIN });
}

#[test]
fn a_length_no_writer_writes_is_found_out() {
    let (tx, mut rx) = pair(RING_BYTES_MIN);
    tx.map.u64_at(LINE).store(1 | (1 << 20) << 32, Ordering::Release);
    assert_eq!(rx.next_slot(), Next::Broken);
}

#[test]
fn two_threads_exchange_without_loss() {
    for (bytes, longest) in
        [(RING_BYTES_MIN, 500), (RING_BYTES_MIN, payload_max(RING_BYTES_MIN)), (32768, 20_000)]
    {
        let (mut tx, mut rx) = pair(bytes);
        let length = |n: usize| n * 7919 % (longest + 1);
        std::thread::scope(|s| {
            s.spawn(move || {
                for n in 0..5_000usize {
                    let sent = message(length(n));
                    while tx.send([n as u64, 0], buf(&sent)).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..5_000usize {
                while rx.next_slot() != Next::Message {
                    std::thread::yield_now();
                }
                let view = rx.view();
                assert_eq!((view.header()[0], view.to_vec()), (n as u64, message(length(n))));
            }
        });
    }
}

#[test]
fn bits_are_set_as_if_one_by_one() {
    for from in [0, 1, 62, 63, 64, 100, 127, 128] {
        for count in [0, 1, 2, 63, 64, 65, 120] {
            let (mut words, mut expected) = ([1 << 5, 0, 0, 0], [1u64 << 5, 0, 0, 0]);
            super::set_bits(&mut words, from, count);
            (from..from + count).for_each(|at| expected[at / 64] |= 1 << (at % 64));
            assert_eq!(words, expected, "{count} from {from}");
        }
    }
}
