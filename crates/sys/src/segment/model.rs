//! Doorbell, ready bits and mailbox under loom, which tries every order in which one side may see what the other has
//! stored. Who is never woken is a deadlock. See `ring/model.rs` for how to run them.
//!
//! Both barriers are full fences here ([`Barrier::Both`]); the kernel's asymmetric one promises as much, and loom has
//! nothing like it. Nor is the doorbell's pipe modelled: it differs in how the kernel wakes.
use super::doorbell::{AT_BELL, AT_PIPE};
use super::mailbox::{self, AT_DROPPED};
use super::*;
use crate::mem::Place::{Double, Single};
use crate::ring::Next;
use crate::ring::model::{pair, send};
use crate::sync::{DEAD, beside, explore, explore_three, finds, finds_three};
use loom::thread;

const LONG: Duration = Duration::MAX;
const OWNER: Locator = Locator { pid: 1, fd: 0, start_ticks: 0 };

impl Segment {
    /// One in modelled memory, with one word of ready bits.
    pub(crate) fn modelled() -> Segment {
        let words = [AT_MAGIC, AT_START, AT_MAIL, AT_READY, AT_READY_WORDS, AT_MAIL_WORDS].map(Double);
        let halves = [AT_FLAGS, AT_PIPE, AT_SLEEPING, AT_BELL, AT_DROPPED].map(Single);
        let memory = SharedMemory::modelled(words.into_iter().chain(halves).chain(mailbox::places()));
        Segment::in_memory(memory, OWNER.start_ticks, Barrier::Both).unwrap()
    }

    fn take_mail(&mut self) -> Option<u32> {
        let mut to = [0; DATAGRAM_MAX];
        let len = self.take_datagram(&mut to)?;
        assert_eq!(len, 4, "mangled");
        Some(u32::from_le_bytes(to[..4].try_into().unwrap()))
    }

    fn is_ready(&self) -> bool {
        let mut ready = false;
        self.take_ready(|_| ready = true);
        ready
    }
}

impl PeerSegment {
    pub(crate) fn modelled(of: &Segment) -> PeerSegment {
        PeerSegment::in_memory(of.memory.again(), &OWNER, Barrier::Both).unwrap()
    }

    fn mail(&self, me: u32, word: u32) -> bool {
        self.send_datagram_from(me, &word.to_le_bytes())
    }
}

/// The owner sleeps until a ready bit is set, which the sender does once.
fn ready_bit() {
    let segment = Segment::modelled();
    let peer = PeerSegment::modelled(&segment);
    let sleep = move || {
        while !segment.is_ready() {
            segment.sleep(LONG, || true);
        }
    };
    beside(move || peer.notify(3, || false), sleep);
}

#[test]
fn a_ready_bit_wakes_who_is_about_to_sleep() {
    explore(ready_bit);
}

#[test]
fn loom_finds_the_wake_up_lost_between_look_and_sleep() {
    finds(Bug::LookBeforeArming, "deadlock", ready_bit);
}

#[test]
fn loom_finds_that_arming_needs_a_barrier() {
    finds(Bug::ArmWithoutBarrier, "deadlock", ready_bit);
}

#[test]
fn loom_finds_that_a_ready_bit_needs_a_barrier() {
    finds(Bug::BitWithoutBarrier, "deadlock", ready_bit);
}

#[test]
fn loom_finds_a_bell_that_is_read_too_late() {
    finds(Bug::BellReadAtTheWait, "deadlock", ready_bit);
}

/// The owner looks at the ring itself.
#[test]
fn a_message_in_a_polled_ring_wakes_its_reader() {
    explore(|| {
        let segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let (mut tx, mut rx) = pair(4);
        rx.set_polled(true);
        let write = move || {
            send(&mut tx, 0).unwrap();
            peer.notify(3, || tx.is_polled());
        };
        let read = move || {
            while rx.next_slot() != Next::Message {
                segment.sleep(LONG, || !rx.is_ready());
            }
            segment
        };
        let ((), segment) = beside(write, read);
        assert!(!segment.is_ready(), "a bit for a ring that is polled");
    });
}

/// The reader stops looking at a ring by itself: from then on a bit must say what has come.
#[test]
fn a_ring_that_is_polled_no_more_loses_no_message() {
    explore(|| {
        let segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let (mut tx, rx) = pair(4);
        rx.set_polled(true);
        let write = move || {
            send(&mut tx, 0).unwrap();
            peer.notify(3, || tx.is_polled());
        };
        let read = move || {
            rx.set_polled(false);
            segment.settle();
            if !rx.is_ready() {
                while !segment.is_ready() {
                    segment.sleep(LONG, || true);
                }
                assert!(rx.is_ready(), "a bit before its message");
            }
        };
        beside(write, read);
    });
}

/// The ring is in the writer's memory, and its reader says late which bit to set.
#[test]
fn a_reader_that_comes_later_misses_no_message() {
    explore(|| {
        let segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let (mut tx, rx) = pair(4);
        let write = move || {
            send(&mut tx, 0).unwrap();
            peer.notify_reader(&tx);
        };
        let read = move || {
            rx.set_ready_id(3);
            segment.settle();
            while !rx.is_ready() {
                segment.sleep(LONG, || true);
                segment.is_ready();
            }
        };
        beside(write, read);
    });
}

#[test]
fn two_senders_wake_the_owner_for_both() {
    explore_three(|| {
        let segment = Segment::modelled();
        let senders = [3, 5].map(|ring| {
            let peer = PeerSegment::modelled(&segment);
            thread::spawn(move || peer.notify(ring, || false))
        });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            segment.take_ready(|ring| seen.push(ring));
            if seen.len() < 2 {
                segment.sleep(LONG, || true);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [3, 5]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Two threads of one process sleep; a ring wakes both, whoever armed first or leaves first.
#[test]
fn one_message_wakes_all_threads_that_were_asleep() {
    explore_three(|| {
        let segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let (first, second) = (segment.arm(), segment.arm());
        let sleeper = segment.sleeper();
        let other = thread::spawn(move || {
            sleeper.wait(&first, LONG);
            sleeper.disarm(first);
        });
        let sender = thread::spawn(move || peer.notify(3, || false));
        segment.sleeper().wait(&second, LONG);
        segment.disarm(second);
        other.join().unwrap();
        sender.join().unwrap();
    });
}

/// One thread sleeps until there is news; another arms and leaves again.
#[test]
fn a_thread_that_leaves_does_not_silence_the_doorbell() {
    explore_three(|| {
        let segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let sleeper = segment.sleeper();
        let sender = thread::spawn(move || peer.notify(3, || false));
        let other = thread::spawn(move || sleeper.disarm(sleeper.arm()));
        while !segment.is_ready() {
            segment.sleep(LONG, || true);
        }
        other.join().unwrap();
        sender.join().unwrap();
    });
}

/// A thread of the process has ended what another waits for.
#[test]
fn a_thread_wakes_another_of_its_process() {
    explore(|| {
        let segment = Segment::modelled();
        let sleeper = segment.sleeper();
        let done = loom::sync::Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let ends = done.clone();
        let end = move || {
            ends.store(1, Ordering::Release);
            sleeper.wake();
        };
        let wait = move || {
            while done.load(Ordering::Acquire) == 0 {
                segment.sleep(LONG, || done.load(Ordering::Acquire) == 0);
            }
        };
        beside(end, wait);
    });
}

#[test]
fn a_datagram_wakes_who_is_about_to_sleep() {
    explore(|| {
        let mut segment = Segment::modelled();
        let peer = PeerSegment::modelled(&segment);
        let read = move || {
            let mut got = segment.take_mail();
            while got.is_none() {
                segment.sleep(LONG, || true);
                got = segment.take_mail();
            }
            got
        };
        assert_eq!(beside(move || peer.mail(1, 77), read), (true, Some(77)));
    });
}

/// Two senders, three datagrams, two slots.
fn two_senders_and_a_reader() {
    let mut segment = Segment::modelled();
    let post = |me: u32, count: u32| {
        let peer = PeerSegment::modelled(&segment);
        thread::spawn(move || (0..count).map(|n| me * 10 + n).filter(|word| peer.mail(me, *word)).collect())
    };
    let senders: [thread::JoinHandle<Vec<u32>>; 2] = [post(1, 2), post(2, 1)];
    let mut got: Vec<u32> = (0..2).filter_map(|_| segment.take_mail()).collect();
    let mut sent: Vec<u32> = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
    got.extend(std::iter::from_fn(|| segment.take_mail()).take(3));
    got.sort_unstable();
    sent.sort_unstable();
    assert_eq!(got, sent, "lost, doubled or mangled");
    assert_eq!((segment.dropped() as usize, segment.has_news()), (3 - sent.len(), false));
}

#[test]
fn a_datagram_arrives_once_or_is_counted_as_dropped() {
    explore_three(two_senders_and_a_reader);
}

#[test]
fn loom_finds_a_slot_that_is_free_before_it_was_copied() {
    finds_three(Bug::SlotFreedBeforeCopy, "mangled", two_senders_and_a_reader);
}

#[test]
fn loom_finds_a_bit_that_is_set_before_its_datagram() {
    finds_three(Bug::BitBeforeDatagram, "lost", two_senders_and_a_reader);
}

#[test]
fn loom_finds_a_word_of_bits_that_is_wrongly_empty() {
    finds_three(Bug::EmptyWordNotChecked, "lost", two_senders_and_a_reader);
}

/// A sender has claimed a slot and goes no further.
#[test]
fn a_sender_that_stops_keeps_only_its_slot() {
    explore(|| {
        let mut segment = Segment::modelled();
        assert_eq!(mailbox::claim_first(&segment.head, 1), Some(0));
        let peer = PeerSegment::modelled(&segment);
        let post = move || (peer.mail(2, 20), peer.mail(2, 21));
        let read = move || ((0..2).filter_map(|_| segment.take_mail()).collect::<Vec<u32>>(), segment);
        let ((first, second), (mut got, mut segment)) = beside(post, read);
        got.extend(std::iter::from_fn(|| segment.take_mail()).take(2));
        assert!(first, "one slot was free");
        assert_eq!(got, if second { vec![20, 21] } else { vec![20] });
        assert_eq!(segment.dropped(), u32::from(!second));
    });
}

/// The owner repairs what a dead sender left while a live one is between any two steps.
#[test]
fn a_repair_beside_a_live_sender_loses_and_doubles_nothing() {
    explore(|| {
        let mut segment = Segment::modelled();
        assert_eq!(mailbox::claim_first(&segment.head, DEAD), Some(0));
        let peer = PeerSegment::modelled(&segment);
        let post = move || (peer.mail(1, 10), peer.mail(1, 11));
        let read = move || {
            segment.mailbox.repair(&segment.head, &segment.memory);
            (segment.take_mail().into_iter().collect::<Vec<u32>>(), segment)
        };
        let ((first, second), (mut got, mut segment)) = beside(post, read);
        got.extend(std::iter::from_fn(|| segment.take_mail()).take(2));
        got.sort_unstable();
        assert!(first, "one slot was free");
        assert_eq!(got, if second { vec![10, 11] } else { vec![10] });
        assert_eq!(mailbox::claim_first(&segment.head, 2), Some(0), "the dead sender's slot is free");
    });
}
