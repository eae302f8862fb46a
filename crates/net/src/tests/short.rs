//! The short way beside the long one.
use super::*;

fn any(tag: Option<i32>) -> Pattern<Process> {
    Pattern { context: ENVELOPE.context, source: None, tag }
}

/// Two that are connected, with nothing else under way.
fn pair() -> World {
    world(ProviderKind::Soft, 2)
}

/// Some, of which the first two are connected.
fn world(kind: ProviderKind, ranks: u32) -> World {
    let mut world = World::new(kind, ranks);
    exchange(&mut world, 0, 1, 8);
    exchange(&mut world, 1, 0, 8);
    world.until("peace", |ends| ends.iter_mut().all(|end| !end.progress() && !end.waits.errands));
    world
}

/// Does it in shared memory, and through an RDMA device if there is one.
fn each(test: impl Fn(ProviderKind)) {
    test(ProviderKind::Soft);
    match fabric::rdma::Rdma::open(&fabric::rdma::Config::default()) {
        Ok(_) => test(ProviderKind::Verbs),
        Err(missing) => eprintln!("skipped: no device: {missing}"),
    }
}

/// Sends on the short way, or else on the long one.
fn send(world: &mut World, envelope: Envelope, bytes: &[u8]) {
    if !world.ends[0].send_short(Process(1), envelope, source(bytes)) {
        let sent = world.ends[0].isend(Rank(1), envelope, source(bytes), SendMode::Standard).unwrap();
        sent.into_iter().for_each(|sent| _ = world.wait(0, sent).unwrap());
    }
}

/// Receives on the short way, or else on the long one.
fn receive(world: &mut World, pattern: Pattern<Process>, to: UserBufMut) -> Outcome {
    world.ends[1].recv_short(pattern, to).unwrap_or_else(|| {
        let id = world.ends[1].irecv(pattern, to);
        world.wait(1, id).unwrap()
    })
}

fn tagged(tag: i32) -> Envelope {
    Envelope { tag, ..ENVELOPE }
}

fn bytes_of(buf: UserBufMut, bytes: usize) -> Vec<u8> {
    let mut got = vec![0; bytes];
    buf.part(0, bytes).as_source().copy_to(&mut got);
    got
}

#[test]
fn messages_keep_their_order_on_both_ways() {
    each(keep_their_order);
}

fn keep_their_order(kind: ProviderKind) {
    let mut world = world(kind, 2);
    let mut chance = Chance(11);
    let lengths = [0, 1, 7, 8, 9, 40, 41, 300, 4000, 5000];
    let (mut short_sends, mut short_receives, mut due) = (0, 0, std::collections::VecDeque::new());
    for i in 0..20_000u32 {
        if chance.below(2) == 0 && due.len() < 40 {
            let length = lengths[chance.below(lengths.len())];
            let message = source(&vec![i as u8; length]);
            let is_short = chance.below(4) != 0 && world.ends[0].send_short(Process(1), ENVELOPE, message);
            short_sends += u32::from(is_short);
            let sent = match is_short {
                true => None,
                false => world.ends[0].isend(Rank(1), ENVELOPE, message, SendMode::Standard).unwrap(),
            };
            due.push_back((i as u8, length, sent));
        } else if let Some((first, length, sent)) = due.pop_front() {
            let to = UserBufMut::of_static(room(5000));
            let pattern = Pattern { source: Some(Process(0)), ..any(Some(ENVELOPE.tag)) };
            let taken = if chance.below(4) == 0 { None } else { world.ends[1].recv_short(pattern, to) };
            short_receives += u32::from(taken.is_some());
            let end = taken.unwrap_or_else(|| {
                let id = world.ends[1].irecv(pattern, to);
                world.wait(1, id).unwrap()
            });
            assert_eq!((end.bytes, end.tag, end.truncated), (length, ENVELOPE.tag, false), "message {i}");
            assert_eq!(bytes_of(to, length), vec![first; length]);
            sent.into_iter().for_each(|sent| _ = world.wait(0, sent).unwrap());
        }
    }
    assert!(short_sends > 1000 && short_receives > 100, "{short_sends} and {short_receives}");
}

#[test]
fn a_receive_that_was_posted_earlier_comes_first() {
    let mut world = pair();
    let (first, second) = (UserBufMut::of_static(room(8)), UserBufMut::of_static(room(8)));
    let posted = world.ends[1].irecv(any(None), first);
    assert!(world.ends[0].send_short(Process(1), ENVELOPE, source(&[1; 8])));
    assert!(world.ends[0].send_short(Process(1), ENVELOPE, source(&[2; 8])));
    assert_eq!(world.ends[1].recv_short(any(None), second), None, "it does not pass by");
    assert_eq!(world.wait(1, posted).unwrap().bytes, 8);
    let next = world.ends[1].irecv(any(None), second);
    world.wait(1, next).unwrap();
    assert_eq!((bytes_of(first, 8), bytes_of(second, 8)), (vec![1; 8], vec![2; 8]));
}

#[test]
fn other_messages_are_kept_for_their_receives() {
    each(|kind| {
        let mut world = world(kind, 2);
        let to = UserBufMut::of_static(room(8));
        // (Through a device several times: now and then the long way is taken, which has to look after more.)
        for _ in 0..100 {
            send(&mut world, tagged(5), &[5; 8]);
            send(&mut world, tagged(6), &[6; 8]);
            for tag in [6, 5] {
                let end = receive(&mut world, any(Some(tag)), to);
                assert_eq!((end.tag, bytes_of(to, 8)), (tag, vec![tag as u8; 8]));
            }
            assert!(world.ends[1].matcher.is_idle());
        }
    });
}

#[test]
fn messages_that_have_come_before_go_the_short_way_in_their_order() {
    let mut world = pair();
    let to = UserBufMut::of_static(room(8));
    for (number, tag) in [(1, 5), (2, 6), (3, 5), (4, 5)] {
        send(&mut world, tagged(tag), &[number; 8]);
    }
    for (tag, number) in [(6, 2), (5, 1), (5, 3)] {
        let end = world.ends[1].recv_short(any(Some(tag)), to).expect("it is there");
        assert_eq!((end.tag, end.bytes, bytes_of(to, 8)), (tag, 8, vec![number; 8]));
    }
    send(&mut world, tagged(5), &[5; 8]);
    for number in [4, 5] {
        let end = world.ends[1].recv_short(any(None), to.part(0, 4)).expect("it is there");
        assert!(end.truncated && end.bytes == 4, "{end:?}");
        assert_eq!(bytes_of(to, 4), vec![number; 4]);
    }
    assert!(world.ends[1].matcher.is_idle());
}

#[test]
fn who_waits_for_the_match_is_told_of_it() {
    let mut world = pair();
    let to = UserBufMut::of_static(room(8));
    for bytes in [0, 8] {
        let sent = world.ends[0].isend(Rank(1), ENVELOPE, source(&vec![3; bytes]), SendMode::Synchronous);
        let sent = sent.unwrap().expect("it waits");
        assert_eq!(world.ends[1].recv_short(any(None), to), None, "it is answered on the long way");
        assert!(!world.ends[0].is_done(sent));
        let received = world.ends[1].irecv(any(None), to);
        assert_eq!(world.wait(1, received).unwrap().bytes, bytes);
        world.wait(0, sent).unwrap();
    }
}

#[test]
fn a_message_that_does_not_fit_is_cut() {
    let mut world = pair();
    let to = UserBufMut::of_static(room(16));
    assert!(world.ends[0].send_short(Process(1), ENVELOPE, source(&[4; 9])));
    let end = world.ends[1].recv_short(any(None), to.part(0, 8)).expect("it is there");
    assert_eq!((end.bytes, end.truncated, bytes_of(to, 9)), (8, true, vec![4, 4, 4, 4, 4, 4, 4, 4, 0]));
}

#[test]
fn a_message_that_does_not_fit_is_cut_behind_a_device() {
    each(|kind| {
        let mut world = world(kind, 2);
        for _ in 0..100 {
            let to = UserBufMut::of_static(room(16));
            send(&mut world, ENVELOPE, &[4; 9]);
            let end = receive(&mut world, any(None), to.part(0, 8));
            let bytes = bytes_of(to, 9);
            assert_eq!((end.bytes, end.truncated, bytes), (8, true, vec![4, 4, 4, 4, 4, 4, 4, 4, 0]));
        }
    });
}

#[test]
fn a_receive_from_who_says_nothing_takes_the_long_way_soon() {
    let mut world = pair();
    let to = UserBufMut::of_static(room(8));
    assert_eq!(world.ends[1].recv_short(any(None), to), None);
    let (me, nobody) = (
        Pattern { source: Some(Process(1)), ..any(None) },
        Pattern { source: Some(Process(9)), ..any(None) },
    );
    assert_eq!(world.ends[1].recv_short(me, to), None);
    assert_eq!(world.ends[1].recv_short(nobody, to), None);
    assert!(!world.ends[1].send_short(Process(1), ENVELOPE, source(&[1])), "not to oneself");
    assert!(!world.ends[1].send_short(Process(9), ENVELOPE, source(&[1])), "not to nobody");
}

#[test]
fn a_flood_on_the_short_way_keeps_nobody_else_out() {
    each(flood);
}

fn flood(kind: ProviderKind) {
    let mut world = world(kind, 3);
    // Rank 2 has never been heard of, and knocks while rank 0 never pauses.
    let knock = world.ends[2].isend(Rank(1), tagged(9), source(&[9; 8]), SendMode::Standard).unwrap();
    let to = UserBufMut::of_static(room(8));
    let from_0 = Pattern { source: Some(Process(0)), ..any(Some(ENVELOPE.tag)) };
    for _ in 0..100_000 {
        while !world.ends[0].send_short(Process(1), ENVELOPE, source(&[1; 8])) {
            world.ends[0].progress();
            world.ends[1].progress();
        }
        if world.ends[1].recv_short(from_0, to).is_none() {
            let id = world.ends[1].irecv(from_0, to);
            world.ends[1].wait(id).unwrap();
        }
        world.ends[2].progress();
        if world.ends[1].unexpected().any(|(_, probed)| probed.tag == 9) {
            knock.into_iter().for_each(|sent| _ = world.wait(2, sent).unwrap());
            return;
        }
    }
    panic!("rank 2 was not heard");
}
