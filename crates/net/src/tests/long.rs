//! Long messages whose sender does nothing but wait: both sides copy.
use super::*;
use crate::progress::{sender, take_in};
use crate::request::State;
use crate::wire::Share;
use fabric::MrKey;
use proto::transfer;

fn pattern_bytes(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i / 3 + i / 4096) as u8).collect()
}

/// A message whose sender waits, and its receive, which has seen the offer; and what was sent.
fn offered(world: &mut World, bytes: usize, push: Push, to: UserBufMut) -> (ReqId, ReqId, Vec<u8>) {
    let message = pattern_bytes(bytes);
    let received = world.ends[1].irecv(from(0), to);
    let buf = source(&message);
    let sent = match push {
        Push::Now => world.ends[0].isend_now(Rank(1), ENVELOPE, buf, SendMode::Standard),
        Push::Soon => world.ends[0].isend(Rank(1), ENVELOPE, buf, SendMode::Standard),
    };
    let sent = sent.unwrap().expect("it is not complete at once");
    world.ends[0].progress();
    world.ends[1].stay(true);
    world.ends[1].progress();
    world.ends[1].stay(false);
    (sent, received, message)
}

fn got(to: UserBufMut, bytes: usize) -> Vec<u8> {
    let mut got = vec![0; bytes];
    to.part(0, bytes).as_source().copy_to(&mut got);
    got
}

fn pair() -> World {
    let mut world = World::new(ProviderKind::Soft, 2);
    exchange(&mut world, 0, 1, 8);
    exchange(&mut world, 1, 0, 8);
    world
}

/// A message whose sender has taken the last part of it before its receiver saw the offer.
fn begun(world: &mut World, bytes: usize, to: UserBufMut) -> (ReqId, ReqId, Vec<u8>) {
    let message = pattern_bytes(bytes);
    let received = world.ends[1].irecv(from(0), to);
    let sent = world.ends[0].isend(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    let sent = sent.unwrap().expect("it is not complete at once");
    let (kind, key) = key_of(world, sent);
    let count = transfer::parts(bytes.min(to.len()));
    assert_eq!(world.ends[0].context.take_own_part(kind, key, count), Some(count - 1));
    world.ends[0].progress();
    world.ends[1].stay(true);
    world.ends[1].progress();
    world.ends[1].stay(false);
    (sent, received, message)
}

fn key_of(world: &World, sent: ReqId) -> (ProviderKind, MrKey) {
    match world.ends[0].requests.get(sent) {
        Some(State::SendOffered { key: Some(key), .. }) => *key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sender_that_does_not_come_is_read_alone_and_comes_too_late() {
    let mut world = pair();
    for (bytes, room_bytes) in [(2 << 20, 2 << 20), ((2 << 20) + 7, 3 << 20), (3 << 20, (2 << 20) + 1)] {
        for push in [Push::Now, Push::Soon] {
            let to = UserBufMut::of_static(room(room_bytes.max(bytes)));
            let (sent, received, message) = offered(&mut world, bytes, push, to.part(0, room_bytes));
            assert!(world.ends[1].is_done(received), "without the sender's help");
            let end = world.wait(1, received).unwrap();
            let fits = bytes.min(room_bytes);
            assert_eq!((end.bytes, end.truncated), (fits, fits < bytes));
            assert_eq!(got(to, fits), message[..fits]);
            assert!(
                got(to, room_bytes.max(bytes))[fits..].iter().all(|byte| *byte == 0),
                "nothing beyond it"
            );
            to.part(0, bytes).copy_from_slice(&vec![7; bytes]);
            world.wait(0, sent).unwrap();
            assert!(got(to, bytes).iter().all(|byte| *byte == 7), "it is the program's");
            assert_eq!(world.ends[1].stat(Stat::PinnedBytes), 0);
        }
    }
    exchange(&mut world, 0, 1, 8);
}

#[test]
fn the_sender_writes_what_nobody_has_read() {
    let mut world = pair();
    let bytes = (1 << 20) + 7;
    let to = UserBufMut::of_static(room(bytes + 64));
    let message = pattern_bytes(bytes);
    let sent = world.ends[0].isend(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    let sent = sent.unwrap().expect("it is not complete at once");
    let (kind, key) = key_of(&world, sent);
    let sender = world.ends[1].wireup.find_process(Process(0)).unwrap();
    let qp = world.ends[1].link(sender).ready.unwrap();
    assert_eq!(world.ends[1].context.take_part(qp, key, transfer::parts(bytes)), Some(0));
    let into = world.ends[1].pin(kind, to.part(0, bytes).as_source()).unwrap();
    let share = Share { addr: to.addr(), key: into.0, bytes: bytes as u64 };
    let receiver = world.ends[0].wireup.find_process(Process(1)).unwrap();
    assert_eq!(world.ends[0].write_parts(sent.index, receiver, share), Some(true));
    let (_, first) = transfer::part(bytes, 0);
    assert_eq!(got(to, bytes)[first..], message[first..]);
    assert!(got(to, first).iter().all(|byte| *byte == 0) && got(to, bytes + 64)[bytes..] == [0; 64]);
    assert_eq!(world.ends[0].write_parts(sent.index, receiver, share), None, "nothing is left");
    // What is not of the message, and what is not there, is not written.
    for (request, bytes) in [(sent.index, bytes as u64 + 1), (sent.index, u64::MAX), (u32::MAX, 8)] {
        assert_eq!(world.ends[0].write_parts(request, receiver, Share { bytes, ..share }), None);
    }
    world.ends[1].unpin(kind, into, bytes);
    let received = world.ends[1].irecv(from(0), to.part(0, bytes));
    world.wait(1, received).unwrap();
    assert_eq!(got(to, bytes), message);
    world.wait(0, sent).unwrap();
}

#[test]
fn a_receiver_waits_for_what_its_sender_writes() {
    for well in [true, false] {
        let mut world = pair();
        let to = UserBufMut::of_static(room(1 << 20));
        let (sent, received, message) = begun(&mut world, 1 << 20, to);
        let state = world.ends[1].requests.get(received);
        assert!(matches!(state, Some(State::ReceiveShared(sharing)) if sharing.read), "{state:?}");
        assert!(world.ends[1].waits_for().contains("to write"), "{}", world.ends[1].waits_for());
        let Some(State::SendOffered { unwritten, .. }) = world.ends[0].requests.get_mut(sent) else {
            panic!("it waits for its receiver")
        };
        *unwritten = !well;
        // The receiver may compute by now: who has written its parts does not wait for it.
        world.ends[0].progress();
        assert_eq!(world.ends[0].is_done(sent), well);
        let sender = world.ends[1].wireup.find_process(Process(0)).unwrap();
        world.ends[1].receive_written(received.index, sender, well);
        assert_eq!(world.wait(1, received).unwrap().bytes, 1 << 20);
        // What the sender says it has written is not read again; what it could not write is.
        let (last, _) = transfer::part(1 << 20, transfer::parts(1 << 20) - 1);
        assert_eq!(got(to, last), message[..last]);
        assert_eq!(got(to, 1 << 20) == message, !well);
        world.wait(0, sent).unwrap();
        assert_eq!(world.ends[1].stat(Stat::PinnedBytes), 0);
        exchange(&mut world, 0, 1, 8);
    }
}

#[test]
fn a_receiver_that_may_compute_does_not_wait_for_its_sender() {
    let mut world = pair();
    let to = UserBufMut::of_static(room(1 << 20));
    let message = pattern_bytes(1 << 20);
    let received = world.ends[1].irecv(from(0), to);
    let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    world.ends[0].progress();
    world.ends[1].progress();
    assert!(world.ends[1].is_done(received), "it may not come back for long");
    world.wait(1, received).unwrap();
    assert_eq!(got(to, 1 << 20), message);
    world.wait(0, sent.unwrap().unwrap()).unwrap();
}

#[test]
fn who_loses_the_writing_sender_is_told() {
    let mut world = pair();
    let to = UserBufMut::of_static(room(1 << 20));
    let (_, received, _) = begun(&mut world, 1 << 20, to);
    let sender = world.ends[1].wireup.find_process(Process(0)).unwrap();
    let error = NetError::Refused { peer: world.ends[1].who(sender) };
    world.ends[1].fail(sender, error);
    assert!(world.ends[1].wait(received).is_err());
    assert_eq!(world.ends[1].stat(Stat::PinnedBytes), 0, "nothing may be written any more");
}

#[test]
fn a_ring_grows_for_senders_that_wait_again_and_again_and_carries_a_stream_then() {
    // Of one length alone, and after shorter ones. (All are longer than the beginnings that go with offers.)
    for lengths in [[40_000, 40_000], [64 << 10, 64 << 10], [36_000, 64 << 10]] {
        let mut world = pair();
        world.ends[0].job.eager_grown = 8 << 10;
        let mut streamed = Vec::new();
        for turn in 0..24 {
            let bytes = lengths[turn / 12];
            let to = UserBufMut::of_static(room(bytes));
            let (sent, received, message) = offered(&mut world, bytes, Push::Now, to);
            let state = world.ends[1].requests.get(received);
            streamed.push(matches!(state, Some(State::ReceiveStreaming { .. })));
            world.wait(1, received).unwrap();
            assert_eq!(got(to, bytes), message);
            world.wait(0, sent).unwrap();
        }
        assert!(!streamed[0] && streamed[11] && streamed[23], "{streamed:?}");
        assert!(streamed[..12].is_sorted() && streamed[12..].is_sorted(), "{streamed:?}");
    }
}

#[test]
fn who_may_compute_is_read_alone_although_the_ring_has_grown() {
    let mut world = grown();
    let to = UserBufMut::of_static(room(64 << 10));
    let (sent, received, _) = offered(&mut world, 64 << 10, Push::Soon, to);
    assert!(world.ends[1].is_done(received));
    world.wait(1, received).unwrap();
    world.wait(0, sent).unwrap();
}

#[test]
fn who_waits_later_is_counted_on() {
    let mut world = grown();
    for waits in [true, false, true] {
        let message = pattern_bytes(64 << 10);
        let to = UserBufMut::of_static(room(64 << 10));
        let received = world.ends[1].irecv(from(0), to);
        let sent = world.ends[0].isend(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
        let sent = sent.unwrap().unwrap();
        assert!(!is_headed(&world, sent) && world.ends[0].has_offers());
        if waits {
            world.ends[0].say_waits(sent);
        }
        world.ends[1].stay(true);
        world.ends[1].progress();
        world.ends[1].stay(false);
        let state = world.ends[1].requests.get(received);
        assert_eq!(matches!(state, Some(State::ReceiveStreaming { .. })), waits, "{state:?}");
        world.wait(1, received).unwrap();
        assert_eq!(got(to, 64 << 10), message);
        world.wait(0, sent).unwrap();
        assert!(!world.ends[0].has_offers());
    }
}

/// Two ends whose ring has grown for messages of senders that wait.
fn grown() -> World {
    let mut world = pair();
    world.ends[0].job.eager_grown = 0; // all long messages are offered
    for _ in 0..12 {
        let to = UserBufMut::of_static(room(64 << 10));
        let (sent, received, _) = offered(&mut world, 64 << 10, Push::Now, to);
        world.wait(1, received).unwrap();
        world.wait(0, sent).unwrap();
    }
    world
}

fn is_headed(world: &World, sent: ReqId) -> bool {
    matches!(world.ends[0].requests.get(sent), Some(State::SendOffered { headed: 1.., .. }))
}

#[test]
fn the_beginning_of_a_message_comes_with_its_offer() {
    let mut world = grown();
    // Shorter than a beginning (of several fragments), as long, longer, and more than there is room for.
    for (bytes, room_bytes) in
        [(5000, 5000), (32 << 10, 32 << 10), (48 << 10, 48 << 10), (64 << 10, 100), (64 << 10, 64 << 10)]
    {
        let to = UserBufMut::of_static(room(bytes));
        let (sent, received, message) = offered(&mut world, bytes, Push::Now, to.part(0, room_bytes));
        let fits = bytes.min(room_bytes);
        assert!(is_headed(&world, sent));
        let begun = fits.min(32 << 10);
        assert_eq!(got(to, begun), message[..begun], "before the sender has heard of the match");
        let end = world.wait(1, received).unwrap();
        assert_eq!((end.bytes, end.truncated), (fits, fits < bytes));
        assert_eq!(got(to, fits), message[..fits]);
        assert!(got(to, bytes)[fits..].iter().all(|byte| *byte == 0), "nothing beyond it");
        world.wait(0, sent).unwrap();
    }
}

#[test]
fn a_beginning_that_nobody_waits_for_is_dropped_and_not_sent_again_soon() {
    let mut world = grown();
    let message = pattern_bytes(64 << 10);
    let mut headed = Vec::new();
    for _ in 0..20 {
        let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
        let sent = sent.unwrap().unwrap();
        headed.push(is_headed(&world, sent));
        world.ends[1].progress(); // both have come
        let to = UserBufMut::of_static(room(64 << 10));
        let received = world.ends[1].irecv(from(0), to);
        world.wait(1, received).unwrap();
        assert_eq!(got(to, 64 << 10), message);
        world.wait(0, sent).unwrap();
    }
    assert_eq!(headed.iter().filter(|headed| **headed).count(), 2, "{headed:?}");
}

#[test]
fn a_message_that_is_read_later_has_all_of_its_bytes() {
    let mut world = grown();
    let message = pattern_bytes(64 << 10);
    let to = UserBufMut::of_static(room(64 << 10));
    let received = world.ends[1].irecv(from(0), to);
    let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    let sent = sent.unwrap().unwrap();
    assert!(is_headed(&world, sent));
    // The receiver does not wait: it reads alone, and the beginning is of no use.
    world.ends[1].progress();
    assert!(world.ends[1].is_done(received));
    world.wait(1, received).unwrap();
    assert_eq!(got(to, 64 << 10), message);
    world.wait(0, sent).unwrap();
    exchange(&mut world, 0, 1, 8);
}

#[test]
fn a_receive_between_an_offer_and_its_beginning_takes_both() {
    let mut world = grown();
    let message = pattern_bytes(64 << 10);
    let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    let sent = sent.unwrap().unwrap();
    assert!(is_headed(&world, sent));
    let to = UserBufMut::of_static(room(64 << 10));
    // The short way finds an offer, which is nothing for it, and leaves the rest where it is.
    let pattern = Pattern { context: ENVELOPE.context, source: Some(Process(0)), tag: Some(ENVELOPE.tag) };
    assert!(world.ends[1].recv_short(pattern, to).is_none());
    world.ends[1].stay(true);
    let received = world.ends[1].irecv(from(0), to);
    world.ends[1].stay(false);
    world.ends[0].progress();
    assert!(!is_headed(&world, sent), "it is of use");
    world.wait(1, received).unwrap();
    assert_eq!(got(to, 64 << 10), message);
    world.wait(0, sent).unwrap();
}

#[test]
fn a_receive_between_the_parts_of_a_beginning_gets_all_of_it_again() {
    let mut world = grown();
    let message = pattern_bytes(64 << 10);
    let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    let sent = sent.unwrap().unwrap();
    assert!(is_headed(&world, sent));
    // The offer, and the first part, which passes by.
    for _ in 0..2 {
        let Endpoint { context, links, by_qp, matcher, requests, .. } = &mut world.ends[1];
        let (qp, view) = context.poll_ring().expect("it is there");
        let (header, source) = sender(view.header(), qp, links, by_qp, |_| true).unwrap();
        let after = take_in(source, header, fabric::View::Ring(view), matcher, requests);
        world.ends[1].act(after);
    }
    world.ends[1].stay(true);
    let to = UserBufMut::of_static(room(64 << 10));
    let received = world.ends[1].irecv(from(0), to);
    world.ends[1].progress();
    world.ends[1].stay(false);
    assert!(!world.ends[1].is_done(received) && got(to, 100) == [0; 100]);
    world.wait(1, received).unwrap();
    assert_eq!(got(to, 64 << 10), message);
    world.wait(0, sent).unwrap();
    exchange(&mut world, 0, 1, 8);
}

#[test]
fn a_beginning_without_room_stays_with_the_rest() {
    let mut world = grown();
    let small = source(&[7; 4000]);
    let mut before = 0;
    // The receiver does not look: what is left of the ring takes an offer, but no more.
    let room_left = |world: &mut World, bytes| {
        let qp = world.ends[0].links.iter().find_map(|link| link.ready).unwrap();
        world.ends[0].context.has_room(qp, bytes)
    };
    while room_left(&mut world, 32 << 10) {
        assert!(world.ends[0].isend(Rank(1), ENVELOPE, small, SendMode::Standard).unwrap().is_none());
        before += 1;
    }
    let message = pattern_bytes(64 << 10);
    let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), SendMode::Standard);
    let sent = sent.unwrap().unwrap();
    assert!(!is_headed(&world, sent));
    for _ in 0..before {
        let to = UserBufMut::of_static(room(4000));
        let received = world.ends[1].irecv(from(0), to);
        assert_eq!(world.wait(1, received).unwrap().bytes, 4000);
        assert_eq!(got(to, 4000), [7; 4000]);
    }
    let to = UserBufMut::of_static(room(64 << 10));
    let received = world.ends[1].irecv(from(0), to);
    world.wait(1, received).unwrap();
    assert_eq!(got(to, 64 << 10), message);
    world.wait(0, sent).unwrap();
}

#[test]
fn shorter_messages_go_without_asking_where_the_ring_takes_them() {
    let mut world = grown();
    world.ends[0].job.eager_grown = 8 << 10;
    let message = pattern_bytes(6000);
    let send = |world: &mut World, mode| {
        let sent = world.ends[0].isend_now(Rank(1), ENVELOPE, source(&message), mode).unwrap();
        let to = UserBufMut::of_static(room(6000));
        let received = world.ends[1].irecv(from(0), to);
        world.wait(1, received).unwrap();
        assert_eq!(got(to, 6000), message);
        sent.map(|sent| world.wait(0, sent).unwrap()).is_none()
    };
    assert!(send(&mut world, SendMode::Standard), "it is complete at once");
    assert!(!send(&mut world, SendMode::Synchronous), "its sender waits for the match");
    world.ends[1].context.set_frugal(true);
    assert!(!send(&mut world, SendMode::Standard), "the receiver is short of memory");
    world.ends[1].context.set_frugal(false);
    assert!(send(&mut world, SendMode::Standard));
    // In a ring that has not grown it is offered.
    let mut world = pair();
    assert!(!send(&mut world, SendMode::Standard));
}

#[test]
fn the_longest_that_go_without_asking_follow_each_other_round_the_ring_until_it_is_full() {
    let mut world = grown();
    let longest = proto::transfer::EAGER_GROWN;
    world.ends[0].job.eager_grown = longest;
    let messages: Vec<Vec<u8>> = (0..24u8).map(|number| vec![number; longest]).collect();
    // Every second round more are sent than the ring takes: the rest is offered, and order is kept.
    for round in 0..12 {
        let count = if round % 2 == 0 { 1 } else { messages.len() };
        let send = |message: &Vec<u8>| {
            world.ends[0].isend_now(Rank(1), ENVELOPE, source(message), SendMode::Standard).unwrap()
        };
        let sent: Vec<_> = messages[..count].iter().map(send).collect();
        assert_eq!(sent.iter().all(Option::is_none), count == 1, "a full ring takes no more");
        for message in &messages[..count] {
            let to = UserBufMut::of_static(room(longest));
            let received = world.ends[1].irecv(from(0), to);
            world.wait(1, received).unwrap();
            assert_eq!(got(to, longest), *message);
        }
        for sent in sent.into_iter().flatten() {
            world.wait(0, sent).unwrap();
        }
    }
}
