//! Memory that peers lend each other: written, read, taken back.
use super::*;
use crate::{Loan, Place, RdmaError};

const KINDS: [ProviderKind; 2] = [ProviderKind::Soft, ProviderKind::Sockets];

fn memory(bytes: usize) -> UserBufMut {
    UserBufMut::of_static(room(bytes))
}

fn content(of: UserBufMut) -> Vec<u8> {
    let mut bytes = vec![0; of.len()];
    of.as_source().copy_to(&mut bytes);
    bytes
}

fn pattern_bytes(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i / 3 + i / 4096 + seed * 7 + 1) as u8).collect()
}

/// Two ranks that are connected, and memory of rank 1 that it has lent.
fn pair(kind: ProviderKind, bytes: usize) -> (World, UserBufMut, Loan) {
    let mut world = World::new(kind, 2);
    exchange(&mut world, 0, 1, 8);
    exchange(&mut world, 1, 0, 8);
    let window = memory(bytes);
    let loan = world.ends[1].lend(Rank(0), window.as_source()).unwrap();
    (world, window, loan)
}

impl World {
    /// Waits for an access of a rank, if it is not over.
    fn ended(&mut self, at: usize, access: Option<ReqId>) {
        let Some(id) = access else { return };
        self.until("an access", |ends| {
            ends.iter_mut().for_each(|end| _ = end.tick());
            ends[at].is_done(id)
        });
        self.ends[at].take(id).unwrap().unwrap();
    }

    /// Closes the connection between two ranks that have no other.
    fn close_and_wait(&mut self, at: usize, other: usize) {
        self.until("both to be connected", |ends| {
            [at, other].iter().all(|end| ends[*end].connected_peers().len() == 1)
        });
        let peer = self.ends[other].me();
        self.ends[at].close(peer);
        self.until("the close", |ends| {
            ends.iter_mut().for_each(|end| _ = end.tick());
            [at, other].iter().all(|end| ends[*end].connected_peers().is_empty())
        });
    }
}

fn is_key(error: &NetError) -> bool {
    matches!(error, NetError::OutOfReach { cause, .. } if matches!(**cause, RdmaError::Key))
}

#[test]
fn what_is_written_can_be_read_back() {
    both(|kind| {
        // The last ones are more than tests take at once.
        for bytes in [1, 8, 4096, 65_537, 1 << 20, (3 << 20) + 5] {
            let (mut world, window, loan) = pair(kind, bytes + 16);
            let at = loan.place().plus(7);
            let message = pattern_bytes(bytes, 1);
            let written = world.ends[0].write_remote(Rank(1), source(&message), at).unwrap();
            assert!(kind == ProviderKind::Sockets || written.is_none(), "copied at once inside a host");
            world.ended(0, written);
            let there = content(window);
            assert_eq!(there[7..bytes + 7], message, "{bytes} bytes over {kind}");
            assert!(there[..7].iter().chain(&there[bytes + 7..]).all(|byte| *byte == 0), "nothing beside it");
            let back = memory(bytes);
            let read = world.ends[0].read_remote(Rank(1), back, at).unwrap();
            world.ended(0, read);
            assert_eq!(content(back), message);
            assert_eq!(world.ends[1].stat(Stat::PinnedBytes), bytes as u64 + 16);
            world.ends[1].take_back(loan);
            assert_eq!(world.ends[1].stat(Stat::PinnedBytes), 0);
        }
    });
}

#[test]
fn a_message_finds_what_was_written_before_it() {
    const BYTES: [usize; 5] = [8, 5000, 70_000, (1 << 20) + 1, 300];
    const ROUNDS: usize = 40;
    for (kind, reopened) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let starts: Vec<usize> =
            (0..=ROUNDS).map(|round| (0..round).map(|i| BYTES[i % 5]).sum::<usize>()).collect();
        let (mut world, window, loan) = pair(kind, starts[ROUNDS]);
        let seen: Rc<RefCell<Vec<(u64, bool)>>> = Rc::default();
        let (log, ends) = (seen.clone(), starts.clone());
        world.ends[1].set_handler(
            4,
            Some(Rc::new(move |_, _, active: Active| {
                let round = active.argument as usize;
                let all = content(window.part(ends[round], BYTES[round % 5]));
                log.borrow_mut().push((active.argument, all == pattern_bytes(all.len(), round)));
            })),
        );
        if reopened {
            world.close_and_wait(0, 1);
        }
        let mut writes = Vec::new();
        for round in 0..ROUNDS {
            let message = source(&pattern_bytes(BYTES[round % 5], round));
            let at = loan.place().plus(starts[round] as u64);
            writes.extend(world.ends[0].write_remote(Rank(1), message, at).unwrap());
            let sent = world.ends[0].send_active(Rank(1), 4, round as u64, source(&vec![0; round * 400]));
            sent.unwrap().into_iter().for_each(|id| world.ends[0].forget(id));
        }
        world.until("all messages", |_| seen.borrow().len() == ROUNDS);
        let expected: Vec<(u64, bool)> = (0..ROUNDS as u64).map(|round| (round, true)).collect();
        assert_eq!(*seen.borrow(), expected, "{kind}, reopened: {reopened}");
        writes.into_iter().for_each(|id| world.ended(0, Some(id)));
        world.ends[1].take_back(loan);
    }
}

#[test]
fn an_access_opens_the_connection_that_it_needs() {
    both(|kind| {
        let mut world = World::new(kind, 3);
        let window = memory(5000);
        assert!(world.ends[1].lend(Rank(2), window.as_source()).is_none(), "they have never met");
        exchange(&mut world, 1, 2, 8);
        let loan = world.ends[1].lend(Rank(2), window.as_source()).unwrap();
        assert!(world.ends[1].covers(&loan, Rank(2)) && !world.ends[1].covers(&loan, Rank(0)));
        // Of what was lent to rank 2 rank 0 has heard.
        let message = pattern_bytes(5000, 3);
        assert!(!world.ends[0].reaches(Rank(1)));
        let written = world.ends[0].write_remote(Rank(1), source(&message), loan.place()).unwrap();
        assert!(written.is_some() && content(window).iter().all(|byte| *byte == 0));
        let back = memory(5000);
        let read = world.ends[0].read_remote(Rank(1), back, loan.place()).unwrap();
        world.ended(0, written);
        world.ended(0, read);
        assert_eq!((content(window), content(back)), (message.clone(), message));
        assert!(world.ends[0].reaches(Rank(1)) && world.ends[1].covers(&loan, Rank(0)));
        world.ends[1].take_back(loan);
    });
}

#[test]
fn what_is_lent_stays_lent_when_the_connection_is_closed() {
    both(|kind| {
        let (mut world, window, loan) = pair(kind, 70_000);
        for round in 0..6 {
            world.close_and_wait(round % 2, 1 - round % 2);
            let message = pattern_bytes(70_000, round);
            let written = world.ends[0].write_remote(Rank(1), source(&message), loan.place()).unwrap();
            assert!(written.is_some(), "there is no connection");
            world.ended(0, written);
            assert_eq!(content(window), message);
        }
        // And it can be lent while there is none.
        world.close_and_wait(0, 1);
        let other = world.ends[1].lend(Rank(0), window.as_source()).unwrap();
        let back = memory(70_000);
        let read = world.ends[0].read_remote(Rank(1), back, other.place()).unwrap();
        world.ended(0, read);
        assert_eq!(content(back), content(window));
        [loan, other].into_iter().for_each(|loan| world.ends[1].take_back(loan));
    });
}

/// Everybody writes to everybody and reads it back, with messages in between, through few connections.
fn accesses_within(kind: ProviderKind, budget: u32, seed: u64) {
    const RANKS: usize = 5;
    const SLOT: usize = 8000;
    const ROUNDS: usize = 120;
    let mut world = World::with(&[(kind, 256 << 10); RANKS], 10_000, Some(budget));
    let mut chance = Chance(seed);
    (0..RANKS).for_each(|rank| exchange(&mut world, rank, (rank + 1) % RANKS, 8));
    let windows: Vec<UserBufMut> = (0..RANKS).map(|_| memory(ROUNDS * SLOT)).collect();
    let neighbor = |rank: usize| Rank(((rank + 1) % RANKS) as u32);
    let ends = world.ends.iter_mut().zip(&windows).enumerate();
    let lend = ends.map(|(rank, (end, window))| end.lend(neighbor(rank), window.as_source()).unwrap());
    let loans: Vec<Loan> = lend.collect();
    let (mut accesses, mut checks, mut messages) = (Vec::new(), Vec::new(), 0);
    let heard: Rc<RefCell<usize>> = Rc::default();
    for end in &mut world.ends {
        let heard = heard.clone();
        end.set_handler(1, Some(Rc::new(move |_, _, _| *heard.borrow_mut() += 1)));
    }
    for round in 0..ROUNDS {
        let me = chance.below(RANKS);
        let owner = (me + 1 + chance.below(RANKS - 1)) % RANKS;
        let bytes = [1, 900, 5000, SLOT][chance.below(4)];
        let at = loans[owner].place().plus((round * SLOT) as u64);
        let (message, back, to) = (pattern_bytes(bytes, round), memory(bytes), Rank(owner as u32));
        let written = world.ends[me].write_remote(to, source(&message), at).unwrap();
        accesses.extend(written.map(|id| (me, id)));
        if chance.below(2) == 0 {
            messages += 1;
            assert!(world.ends[me].send_active(to, 1, 0, UserBuf::EMPTY).unwrap().is_none());
        }
        let read = world.ends[me].read_remote(to, back, at).unwrap();
        accesses.extend(read.map(|id| (me, id)));
        checks.push((windows[owner].part(round * SLOT, bytes), back, message));
        for _ in 0..chance.below(20) {
            let end = &mut world.ends[chance.below(RANKS)];
            end.progress();
            end.tick();
            assert!(end.context.qps(kind) <= budget as usize);
        }
    }
    accesses.into_iter().for_each(|(at, id)| world.ended(at, Some(id)));
    for (round, (there, back, message)) in checks.into_iter().enumerate() {
        assert_eq!(content(there), message, "seed {seed}: write {round}");
        assert_eq!(content(back), message, "seed {seed}: read {round}");
    }
    world.until("messages", |_| *heard.borrow() == messages);
    assert!(world.ends.iter().any(|end| end.stat(Stat::Reopenings) > 0), "seed {seed}");
    loans.into_iter().enumerate().for_each(|(rank, loan)| world.ends[rank].take_back(loan));
}

#[test]
fn few_connections_carry_all_accesses() {
    both(|kind| (1..=4).for_each(|seed| accesses_within(kind, 2, seed)));
    both(|kind| accesses_within(kind, 3, 5));
}

#[test]
fn more_accesses_than_the_device_takes_wait_for_their_turn() {
    const COUNT: usize = 3000;
    both(|kind| {
        let (mut world, window, loan) = pair(kind, COUNT * 64);
        let mut accesses = Vec::new();
        let mut read = Vec::new();
        for i in 0..COUNT {
            let at = loan.place().plus((i * 64) as u64);
            let message = source(&pattern_bytes(64, i));
            accesses.extend(world.ends[0].write_remote(Rank(1), message, at).unwrap());
            if i % 2 == 0 {
                read.push((i, memory(64)));
                accesses.extend(world.ends[0].read_remote(Rank(1), read[i / 2].1, at).unwrap());
            }
        }
        let ix = world.ends[0].wireup.find_process(Process(1)).unwrap();
        let waiting = world.ends[0].link(ix).queue.len();
        assert_eq!(waiting > COUNT / 3, kind == ProviderKind::Sockets, "{waiting} wait");
        assert_eq!(
            world.ends[0].requests.sends_open(),
            accesses.len(),
            "a process that leaves waits for them"
        );
        accesses.into_iter().for_each(|id| world.ended(0, Some(id)));
        for (i, written) in content(window).chunks(64).enumerate() {
            assert_eq!(written, pattern_bytes(64, i), "write {i}");
        }
        for (i, back) in read {
            assert_eq!(content(back), pattern_bytes(64, i), "read {i}");
        }
        world.ends[1].take_back(loan);
    });
}

#[test]
fn what_is_not_lent_is_not_touched() {
    both(|kind| {
        let (mut world, window, loan) = pair(kind, 4096);
        let end = loan.place().plus(4096);
        let [addr, key] = loan.place().to_words();
        let stranger = Place::from_words([addr, key + 1]).unwrap();
        let [stale, again] = [(); 2].map(|()| world.ends[1].lend(Rank(0), window.as_source()).unwrap());
        let gone = stale.place();
        world.ends[1].take_back(stale);
        let places = [end.plus(u64::MAX), loan.place().plus(u64::MAX), end, stranger, gone];
        for at in places.into_iter().chain([Place::from_words([0, 0]).unwrap()]) {
            for writes in [true, false] {
                let (message, back) = (source(&[9; 100]), memory(100));
                let begun = match writes {
                    true => world.ends[0].write_remote(Rank(1), message, at),
                    false => world.ends[0].read_remote(Rank(1), back, at),
                };
                let ended = begun.and_then(|id| world.wait(0, id.expect("refused at once, or later")));
                assert!(is_key(ended.as_ref().unwrap_err()), "{at:?}: {ended:?}");
                assert_eq!(content(back), [0; 100]);
            }
        }
        assert!(content(window).iter().all(|byte| *byte == 0));
        // Of others nothing was taken, and the connection is as good as before.
        let written = world.ends[0].write_remote(Rank(1), source(&[7; 100]), again.place()).unwrap();
        world.ended(0, written);
        assert_eq!(content(window)[..100], [7; 100]);
        exchange(&mut world, 0, 1, 70_000);
        [loan, again].into_iter().for_each(|loan| world.ends[1].take_back(loan));
    });
}

#[test]
fn an_access_of_which_a_piece_is_refused_ends_once() {
    const BYTES: usize = 5 << 20;
    let (mut world, window, loan) = pair(ProviderKind::Sockets, BYTES);
    let at = loan.place();
    let begun = [
        world.ends[0].write_remote(Rank(1), source(&vec![1; BYTES]), at).unwrap().unwrap(),
        world.ends[0].read_remote(Rank(1), memory(BYTES), at).unwrap().unwrap(),
    ];
    world.ends[1].take_back(loan);
    for id in begun {
        let ended = world.wait(0, id);
        assert!(is_key(ended.as_ref().unwrap_err()), "{ended:?}");
        assert!(matches!(world.ends[0].take(id), Some(Err(NetError::StaleRequest))));
    }
    assert!(content(window).iter().all(|byte| *byte == 0));
    exchange(&mut world, 0, 1, 8);
    exchange(&mut world, 1, 0, 8);
    assert!(world.ends[0].works.is_empty());
}

#[test]
fn a_peer_that_is_gone_ends_accesses_to_its_memory() {
    const BYTES: usize = 2 << 20;
    let (mut world, window, loan) = pair(ProviderKind::Sockets, BYTES);
    let at = loan.place();
    let mut begun = Vec::new();
    // More than kernel and device take, so that some are in the middle and some wait.
    for _ in 0..10 {
        begun.push(world.ends[0].write_remote(Rank(1), source(&vec![1; BYTES]), at).unwrap().unwrap());
        begun.push(world.ends[0].read_remote(Rank(1), memory(BYTES), at).unwrap().unwrap());
    }
    for _ in 0..1100 {
        begun.push(world.ends[0].write_remote(Rank(1), source(&[1; 8]), at).unwrap().unwrap());
    }
    let begins = (0..ROUNDS_MAX).any(|_| {
        world.ends[1].progress();
        content(window.part(0, 1)) == [1]
    });
    assert!(begins, "the first bytes arrive");
    assert!(world.ends[0].waits_for().contains("access to its memory"), "{}", world.ends[0].waits_for());
    world.ends.remove(1);
    let ended: Vec<_> = begun.into_iter().map(|id| world.wait(0, id)).collect();
    let lost = ended.iter().filter(|end| matches!(end, Err(NetError::Unreachable { .. }))).count();
    assert!(lost > 1000 && ended.iter().filter(|end| end.is_err()).count() == lost, "{lost} are lost");
    let later = world.ends[0].write_remote(Rank(1), source(&[1; 8]), at);
    assert!(matches!(later, Err(NetError::Unreachable { .. })), "{later:?}");
    let later = world.ends[0].read_remote(Rank(1), memory(8), at);
    assert!(matches!(later, Err(NetError::Unreachable { .. })), "{later:?}");
}

#[test]
fn a_peer_given_up_before_it_was_reached_ends_accesses() {
    both(|kind| {
        let mut world = World::new(kind, 3);
        exchange(&mut world, 1, 2, 8);
        let window = memory(64);
        let loan = world.ends[1].lend(Rank(2), window.as_source()).unwrap();
        let written = world.ends[0].write_remote(Rank(1), source(&[1; 64]), loan.place()).unwrap().unwrap();
        let read = world.ends[0].read_remote(Rank(1), memory(64), loan.place()).unwrap().unwrap();
        let ix = world.ends[0].wireup.find_process(Process(1)).unwrap();
        let error = NetError::Refused { peer: world.ends[0].who(ix) };
        world.ends[0].fail(ix, error);
        for id in [written, read] {
            let ended = world.ends[0].take(id).expect("it has ended");
            assert!(matches!(ended, Err(NetError::Refused { .. })), "{ended:?}");
        }
        assert_eq!(content(window), [0; 64]);
        world.ends[1].take_back(loan);
    });
}

#[test]
fn nothing_is_lent_to_oneself_and_no_bytes_go_nowhere() {
    let mut world = World::new(ProviderKind::Soft, 2);
    let window = memory(8);
    assert!(world.ends[0].lend(Rank(0), window.as_source()).is_none());
    let at = Place::from_words([window.addr(), 0]).unwrap();
    let written = world.ends[0].write_remote(Rank(0), source(&[1; 8]), at);
    assert!(matches!(written, Err(NetError::OutOfReach { .. })), "{written:?}");
    assert!(matches!(world.ends[0].write_remote(Rank(1), UserBuf::EMPTY, at), Ok(None)));
    assert_eq!(world.state(0, 1), StateName::Idle, "no connection is made for that");
    let nobody = world.ends[0].write_remote(Rank(2), source(&[1; 8]), at);
    assert!(matches!(nobody, Err(NetError::NoSuchPeer { .. })), "{nobody:?}");
}

#[test]
fn a_place_is_what_its_words_say() {
    let place = Place::from_words([7, u64::from(u32::MAX)]).unwrap();
    assert_eq!(place.to_words(), [7, u64::from(u32::MAX)]);
    assert_eq!(place.plus(3).to_words()[0], 10);
    assert!(Place::from_words([7, 1 << 32]).is_none());
}
