//! Rings under loom, which tries every order in which one end may see what the other has stored:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p banyan-sys --lib --release model -- --nocapture
//! ```
//!
//! Models of two threads have no bound. `LOOM_MAX_PREEMPTIONS` (3 if not set) is that of models of three.
//!
//! Neither end waits in a loop, as that has no end for loom: both try a few times, and what is left is read when the
//! other end is done. Lines and rings are smaller than real ones: a line holds one word of payload.
use super::*;
use crate::mem::{Place, SharedMemory};
use crate::segment::{PeerSegment, Segment};
use crate::sync::{beside, explore, finds};
use std::time::Duration;

/// The words of a ring of `lines` that begins at `at`.
pub(crate) fn places(at: usize, lines: usize) -> Vec<Place> {
    use Place::{Double, Single};
    let control = [
        Double(AT_CONSUMED),
        Single(AT_FLAGS),
        Single(AT_NEXT_BYTES),
        Double(AT_NEXT_OFFSET),
        Single(AT_WAITING),
        Single(AT_READY_ID),
    ];
    let slots = (LINE..LINE * (lines + 1)).step_by(8).map(Double);
    let moved = |place| match place {
        Double(offset) => Double(at + offset),
        Single(offset) => Single(at + offset),
    };
    control.into_iter().chain(slots).map(moved).collect()
}

/// Both ends of a ring of `lines` in a memory of its own.
pub(crate) fn pair(lines: usize) -> (RingTx, RingRx) {
    let bytes = LINE * (lines + 1);
    let memory = SharedMemory::modelled(places(0, lines));
    (RingTx::new(memory.map(0, bytes).unwrap()), RingRx::new(memory.map(0, bytes).unwrap()))
}

/// Message number `n`, of one line.
pub(crate) fn send(tx: &mut RingTx, n: u64) -> Result<(), Full> {
    tx.send_bytes([n, !n], &payload(n, 1))
}

fn payload(n: u64, words: u64) -> Vec<u8> {
    (0..words).flat_map(|word| (n * 16 + word).to_le_bytes()).collect()
}

/// Takes the message that is next, and asserts that it is number `n`.
fn take(rx: &mut RingRx, n: u64) {
    let view = rx.view();
    assert_eq!((view.header(), view.to_vec()), ([n, !n], payload(n, view.len() as u64 / 8)), "mangled");
}

/// Looks `looks` times, and takes messages from number `next` on.
fn read(rx: &mut RingRx, next: &mut u64, looks: usize) {
    for _ in 0..looks {
        match rx.next_slot() {
            Next::Message => {
                take(rx, *next);
                *next += 1;
            }
            Next::Empty => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The same by an end that comes back.
fn read_some(mut rx: RingRx, mut next: u64, looks: usize) -> (RingRx, u64) {
    read(&mut rx, &mut next, looks);
    (rx, next)
}

/// Messages around the end of the ring, with the writer short of credit.
fn messages_across_a_lap() {
    let (mut tx, mut rx) = pair(4);
    let mut next = 0;
    for n in 0..2 {
        send(&mut tx, n).unwrap();
    }
    read(&mut rx, &mut next, 2);
    let write = move || {
        let mut sent = 2;
        for _ in 0..4 {
            sent += u64::from(send(&mut tx, sent).is_ok());
        }
        sent
    };
    let (sent, (mut rx, mut next)) = beside(write, move || read_some(rx, next, 3));
    assert!(sent >= 4, "two have room in any case");
    read(&mut rx, &mut next, 4);
    assert_eq!((next, rx.next_slot()), (sent, Next::Empty), "lost");
}

#[test]
fn messages_arrive_once_and_in_order_over_a_lap() {
    explore(messages_across_a_lap);
}

/// A message of three lines is read while others are written, up to the last line that there is credit for.
fn long_message_is_read() {
    let (mut tx, rx) = pair(6);
    tx.send_bytes([0, !0], &payload(0, 9)).unwrap();
    let write = move || {
        let mut sent = 1 + u64::from(tx.send_bytes([1, !1], &payload(1, 9)).is_ok());
        for _ in 0..2 {
            sent += u64::from(send(&mut tx, sent).is_ok());
        }
        sent
    };
    let (sent, (mut rx, mut next)) = beside(write, move || read_some(rx, 0, 2));
    read(&mut rx, &mut next, 3);
    assert_eq!((next, rx.next_slot()), (sent, Next::Empty), "lost");
}

#[test]
fn lines_are_written_again_only_after_they_were_read() {
    explore(long_message_is_read);
}

#[test]
fn loom_finds_a_line_that_is_written_before_it_was_read() {
    finds(Bug::CreditBeforeReading, "mangled", long_message_is_read);
}

/// A long message's second line, which looks like the first one of the next lap, is the line behind a later message.
fn long_message_then_short_ones() {
    let (mut tx, mut rx) = pair(5);
    let long = [7u64, 2, 2, 2].map(u64::to_le_bytes).concat();
    let looks_like_lap_two = |tx: &mut RingTx| tx.send_bytes([0, !0], &long).is_ok();
    assert!(looks_like_lap_two(&mut tx) && rx.next_slot() == Next::Message);
    assert_eq!(rx.view().to_vec(), long);
    for n in 1..4 {
        send(&mut tx, n).unwrap();
        assert_eq!(rx.next_slot(), Next::Message);
        take(&mut rx, n);
    }
    let write = move || (4..6).for_each(|n| send(&mut tx, n).unwrap());
    let ((), (mut rx, mut next)) = beside(write, move || read_some(rx, 4, 3));
    read(&mut rx, &mut next, 2);
    assert_eq!((next, rx.next_slot()), (6, Next::Empty), "lost");
}

#[test]
fn the_middle_of_a_message_is_never_taken_for_the_start_of_one() {
    explore(long_message_then_short_ones);
}

#[test]
fn loom_finds_a_line_that_was_not_cleared() {
    finds(Bug::StaleLine, "mangled", long_message_then_short_ones);
}

const SMALL: usize = LINE * 5;
const LARGE: usize = LINE * 7;
/// Where the second ring begins.
const AT_LARGE: usize = 4096;

fn two_rings() -> SharedMemory {
    SharedMemory::modelled(places(0, 4).into_iter().chain(places(AT_LARGE, 6)))
}

fn small_ring(memory: &SharedMemory) -> SharedMap {
    memory.map(0, SMALL).unwrap()
}

/// A writer that changes rings when one is on offer, as queue pairs do.
struct Writer {
    tx: RingTx,
    memory: SharedMemory,
    sent: u64,
}

impl Writer {
    fn try_send(&mut self) {
        if let Growth::Offered { offset, bytes } = self.tx.growth() {
            assert_eq!((offset, bytes), (AT_LARGE as u64, LARGE), "another ring than was offered");
            if self.tx.bytes() == SMALL && self.tx.switch().is_ok() {
                self.tx = RingTx::new(self.memory.map(offset, bytes).unwrap());
            }
        }
        self.sent += u64::from(send(&mut self.tx, self.sent).is_ok());
    }
}

/// A reader that offers the other ring when it is asked, and goes on there after the last word.
struct Reader {
    rx: RingRx,
    next: Option<RingRx>,
    memory: SharedMemory,
    got: u64,
}

impl Reader {
    fn offer(&mut self) {
        self.next = Some(RingRx::new(self.memory.map(AT_LARGE as u64, LARGE).unwrap()));
        self.rx.offer(AT_LARGE as u64, LARGE);
    }

    fn look_often(mut self, looks: usize) -> Self {
        (0..looks).for_each(|_| self.look());
        self
    }

    fn look(&mut self) {
        match self.rx.next_slot() {
            Next::Message => {
                take(&mut self.rx, self.got);
                self.got += 1;
            }
            Next::Grow(_) if self.next.is_none() => self.offer(),
            Next::Switch => {
                let next = self.next.take().expect("nobody moves where nothing was offered");
                std::mem::replace(&mut self.rx, next).end();
            }
            Next::Empty | Next::Grow(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn growing_ring() {
    let memory = two_rings();
    let reader = Reader { rx: RingRx::new(small_ring(&memory)), next: None, memory: memory.again(), got: 0 };
    let mut writer = Writer { tx: RingTx::new(small_ring(&memory)), memory, sent: 0 };
    writer.try_send();
    writer.tx.ask_growth(payload_max(LARGE));
    let write = move || {
        (0..3).for_each(|_| writer.try_send());
        writer
    };
    let (mut writer, mut reader) = beside(write, move || reader.look_often(4));
    // In turn both come to an end, and the ring has been changed.
    for _ in 0..4 {
        (0..4).for_each(|_| reader.look());
        writer.try_send();
    }
    (0..4).for_each(|_| reader.look());
    assert_eq!((reader.got, reader.rx.bytes()), (writer.sent, LARGE), "lost");
    assert!(writer.sent >= 5);
}

#[test]
fn a_ring_that_grows_loses_and_reorders_nothing() {
    explore(growing_ring);
}

#[test]
fn loom_finds_an_offer_whose_length_is_seen_first() {
    finds(Bug::LengthBeforePlace, "another ring than was offered", growing_ring);
}

/// The reader offers another ring and asks for the move in the ring of the other direction.
#[test]
fn who_is_asked_to_move_finds_the_offer() {
    explore(|| {
        let memory = two_rings();
        let mut reader =
            Reader { rx: RingRx::new(small_ring(&memory)), next: None, memory: memory.again(), got: 0 };
        let mut writer = Writer { tx: RingTx::new(small_ring(&memory)), memory, sent: 0 };
        let (mut back, mut asked) = pair(4);
        let write = move || {
            writer.try_send();
            if asked.next_slot() == Next::Move {
                let offered = matches!(writer.tx.growth(), Growth::Offered { .. });
                assert!(offered || writer.tx.bytes() == LARGE, "asked before it was offered");
            }
            writer.try_send();
            writer
        };
        let read = move || {
            reader.offer();
            back.ask_move().unwrap();
            reader.look_often(3)
        };
        let (mut writer, mut reader) = beside(write, read);
        writer.try_send();
        (0..4).for_each(|_| reader.look());
        assert_eq!((reader.got, writer.sent, reader.rx.bytes()), (3, 3, LARGE), "lost");
    });
}

/// The memory of a ring that has been read to its end becomes another ring.
fn ring_used_again() {
    let memory = SharedMemory::modelled(places(0, 4));
    let mut tx = RingTx::new(small_ring(&memory));
    let mut rx = RingRx::new(small_ring(&memory));
    let write = move || {
        send(&mut tx, 0).unwrap();
        tx.switch().unwrap();
        if tx.is_read_to_its_end() {
            let map = tx.into_cleared(SMALL).expect("it may be used again");
            send(&mut RingTx::new(map), 1).unwrap();
            return true;
        }
        false
    };
    let read = move || {
        for _ in 0..3 {
            match rx.next_slot() {
                Next::Message => take(&mut rx, 0),
                Next::Switch => return rx.end(),
                Next::Empty => {}
                other => panic!("{other:?}"),
            }
        }
    };
    if beside(write, read).0 {
        let mut rx = RingRx::new(small_ring(&memory));
        assert_eq!(rx.map.u64_at(AT_CONSUMED).load(Ordering::Acquire), 0, "a late word of the last reader");
        assert_eq!(rx.next_slot(), Next::Message);
        take(&mut rx, 1);
    }
}

#[test]
fn the_memory_of_a_ring_is_used_again_after_its_last_reader() {
    explore(ring_used_again);
}

#[test]
fn loom_finds_a_ring_used_again_too_soon() {
    finds(Bug::CreditForTheLastWord, "late word", ring_used_again);
}

/// The ring is full. Its writer sleeps on its own doorbell; the reader rings when it has returned credit, which it does
/// for every second line.
fn waiting_writer() {
    let segment = Segment::modelled();
    let peer = PeerSegment::modelled(&segment);
    let (mut tx, mut rx) = pair(8);
    (0..6).for_each(|n| send(&mut tx, n).unwrap());
    assert!(!tx.has_room(8));
    let write = move || {
        while send(&mut tx, 6).is_err() {
            tx.set_waiting(true);
            segment.sleep(Duration::MAX, || !tx.has_room(8));
            tx.set_waiting(false);
        }
    };
    let read = move || {
        for n in 0..2 {
            assert_eq!(rx.next_slot(), Next::Message);
            take(&mut rx, n);
            if rx.take_writer_waits() {
                peer.ring();
            }
        }
        rx
    };
    let ((), rx) = beside(write, read);
    assert_eq!(read_some(rx, 2, 5).1, 7, "lost");
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    explore(waiting_writer);
}

/// The same, but the reader does no more than offer another ring.
#[test]
fn a_writer_that_waits_for_room_is_woken_by_an_offer() {
    explore(|| {
        let segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let (mut tx, mut rx) = pair(4);
        send(&mut tx, 0).unwrap();
        send(&mut tx, 1).unwrap();
        let wait = move || {
            while tx.growth() == Growth::Open {
                tx.set_waiting(true);
                segment.sleep(Duration::MAX, || tx.growth() == Growth::Open);
                tx.set_waiting(false);
            }
            assert_eq!(tx.growth(), Growth::Offered { offset: AT_LARGE as u64, bytes: LARGE });
        };
        let offer = move || {
            rx.offer(AT_LARGE as u64, LARGE);
            if rx.take_writer_waits() {
                peer.ring();
            }
        };
        beside(wait, offer);
    });
}

#[test]
fn loom_finds_a_writer_that_looks_for_room_and_then_arms() {
    finds(Bug::LookBeforeArming, "deadlock", waiting_writer);
}
