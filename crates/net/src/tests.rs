//! Endpoints that meet in one process, over each provider: what two processes do, step by step.
mod ahead;
mod long;
mod meeting;
mod remote;
mod short;
mod stats;
mod together;

use crate::endpoint::Endpoint;
use crate::job::JobFacts;
use crate::reach::Ways;
use crate::start::Membership;
use crate::{Active, Cause, Envelope, NetError, Outcome, Pattern, ReqId, SendMode};
use fabric::{Config, Context, Node, ProviderKind, Push};
use proto::env::NetSettings;
use proto::ids::{Job, Peer, Process, Rank};
use proto::stats::Stat;
use proto::wireup::auto::{Choice, Why};
use proto::wireup::{self, StateName, Wireup};
use std::cell::RefCell;
use std::rc::Rc;
use sys::node::{NodeFacts, NodeSegment, Records};
use sys::{Locator, UserBuf, UserBufMut};

const ENVELOPE: Envelope = Envelope { context: 7, tag: 3 };
/// Rounds that anything may take, with a pause of some microseconds each.
const ROUNDS_MAX: usize = 2_000_000;

struct World {
    node: NodeSegment,
    ends: Vec<Endpoint>,
}

impl World {
    fn new(kind: ProviderKind, ranks: u32) -> Self {
        Self::of(&vec![kind; ranks as usize])
    }

    /// Ranks of which some share no memory.
    fn of(kinds: &[ProviderKind]) -> Self {
        let ends: Vec<(ProviderKind, usize)> = kinds.iter().map(|kind| (*kind, 256 << 10)).collect();
        Self::with_rings(&ends)
    }

    /// Each rank has memory for rings of that size.
    fn with_rings(kinds: &[(ProviderKind, usize)]) -> Self {
        Self::with(kinds, 10_000, None)
    }

    /// The node has so many queue pairs, and each rank may have so many.
    fn with(kinds: &[(ProviderKind, usize)], qp_max: u32, budget: Option<u32>) -> Self {
        let ranks = kinds.len() as u32;
        let facts = NodeFacts {
            node: 0,
            slots: ranks,
            cores: 64,
            core_set: Default::default(),
            qp_max,
            oversubscribed: false,
            host: [1, 2],
            key: [1, 2, 3, 4],
            pid_space: sys::node::pid_space(),
        };
        let node =
            NodeSegment::create_recording(&facts, Records { columns: ranks, contacts: 16, traffic: true })
                .unwrap();
        let at = node.locator().unwrap();
        let end = |(rank, (kind, bytes)): (u32, &(ProviderKind, usize))| {
            endpoint(*kind, at, rank, ranks, *bytes, budget)
        };
        let mut ends: Vec<Endpoint> = (0..).zip(kinds).map(end).collect();
        let cards: Vec<_> = ends.iter().map(|end| *end.context.card()).collect();
        ends.iter_mut().for_each(|end| end.job.cards = cards.clone());
        World { node, ends }
    }

    /// Lets all of them make progress until `done` says so.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut [Endpoint]) -> bool) {
        for _ in 0..ROUNDS_MAX {
            if done(&mut self.ends) {
                return;
            }
            self.ends.iter_mut().for_each(|end| _ = end.progress());
        }
        let waits: Vec<String> = self.ends.iter().map(Endpoint::waits_for).collect();
        panic!("no end of waiting for {what}: {waits:#?}");
    }

    fn wait(&mut self, at: usize, id: ReqId) -> Result<Outcome, NetError> {
        let mut result = None;
        self.until("a message", |ends| {
            result = ends[at].take(id);
            result.is_some()
        });
        result.expect("it has ended")
    }

    fn state(&self, at: usize, of: u32) -> StateName {
        let end = &self.ends[at];
        end.wireup.find_process(Process(of)).map_or(StateName::Idle, |ix| end.wireup.state(ix))
    }
}

fn endpoint(
    kind: ProviderKind,
    segment: Locator,
    rank: u32,
    size: u32,
    ring_bytes_max: usize,
    budget: Option<u32>,
) -> Endpoint {
    let force_net = kind != ProviderKind::Soft;
    let mut context = Context::open(&Config {
        node: Node::Agent { segment, slot: rank },
        cma: true,
        force_net,
        faults: None,
        ring_bytes_max,
        conn_memory: None,
        imitation: Default::default(),
        xrc: false,
    })
    .unwrap();
    if kind == ProviderKind::Verbs {
        context.open_rdma(&fabric::rdma::Config::default()).unwrap();
    }
    let net = NetSettings::read(|_| None).unwrap();
    let ways = Ways { net, hosts: false, agent: Some(segment) };
    ways.open_at_start(&mut context).unwrap();
    let id = Job(77);
    let facts = JobFacts::on_one_node(Rank(rank), size);
    let wireup = Wireup::new(wireup::Config {
        me: Peer::Rank { job: id, rank: Rank(rank) },
        size,
        card: wireup::Card::new(&context.card().to_bytes()).unwrap(),
        seed: rank.into(),
        policy: wireup::Policy::OnDemand,
        budget: wireup::Budget { queue_pairs: budget },
        homes: None,
    });
    let job = Membership {
        id,
        rank: Rank(rank),
        size,
        facts,
        serves: None,
        server: None,
        connect: Choice { policy: wireup::Policy::OnDemand, why: Why::Asked },
        together: None,
        pmi: None,
        oversubscribed: false,
        long: Default::default(),
        eager_grown: proto::transfer::EAGER_GROWN,
        wait: Default::default(),
        warn_s: 0,
        ways,
        leaving: false,
        spans: Default::default(),
        broken: Default::default(),
        losses: 0,
        met: Default::default(),
        keys: Default::default(),
        kernel_host: Default::default(),
        hosts: None,
        finished: true,
        cards: Vec::new(),
        connect_timeout: std::time::Duration::ZERO,
    };
    let mut end = Endpoint::new(job, context, wireup);
    end.link(Endpoint::SELF);
    end.set_timers();
    end
}

fn source(bytes: &[u8]) -> UserBuf {
    lend(bytes)
}

/// Memory for messages that lives as long as the test process: what is in flight is never taken away.
fn room(bytes: usize) -> &'static mut [u8] {
    Box::leak(vec![0; bytes].into_boxed_slice())
}

fn lend(bytes: &[u8]) -> UserBuf {
    UserBuf::of_static(Box::leak(bytes.to_vec().into_boxed_slice()))
}

fn both(test: impl Fn(ProviderKind)) {
    test(ProviderKind::Soft);
    test(ProviderKind::Sockets);
}

fn from(rank: u32) -> Pattern<Rank> {
    Pattern { context: ENVELOPE.context, source: Some(Rank(rank)), tag: None }
}

fn exchange(world: &mut World, a: usize, b: usize, bytes: usize) {
    let message: Vec<u8> = (0..bytes).map(|i| (i * 7 + a) as u8).collect();
    let to = room(bytes);
    let target = UserBufMut::of_static(to);
    let sent = world.ends[a].isend(Rank(b as u32), ENVELOPE, source(&message), SendMode::Standard).unwrap();
    let received = world.ends[b].irecv(from(a as u32), target);
    let outcome = world.wait(b, received).unwrap();
    assert_eq!((outcome.bytes, outcome.tag, outcome.mark), (bytes, 3, 0));
    let mut got = vec![0; bytes];
    target.as_source().copy_to(&mut got);
    assert_eq!(got, message, "{bytes} bytes");
    if let Some(sent) = sent {
        world.wait(a, sent).unwrap();
    }
}

#[test]
fn messages_of_all_lengths_arrive_both_ways() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        for bytes in [0, 8, 3000, 4096, 4097, 20_000, 65_536, 65_537, 1 << 20] {
            exchange(&mut world, 0, 1, bytes);
            exchange(&mut world, 1, 0, bytes);
        }
        assert_eq!(world.ends[0].stat(Stat::Connections), 1);
    });
}

#[test]
fn marks_arrive_with_messages_of_all_lengths_and_modes() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        for bytes in [0, 8, 4096, 4097, 65_537, 1 << 20] {
            for (mode, early) in [
                (SendMode::Standard, true),
                (SendMode::Standard, false),
                (SendMode::Synchronous, true),
                (SendMode::Synchronous, false),
            ] {
                let target = UserBufMut::of_static(room(bytes));
                let receive = |world: &mut World| world.ends[1].irecv(from(0), target);
                let posted = early.then(|| receive(&mut world));
                let marked = (Push::Soon, crate::MARKS - 1);
                let message = source(&vec![7; bytes]);
                let sent = world.ends[0].isend_marked(Rank(1), ENVELOPE, message, mode, marked).unwrap();
                if posted.is_none() {
                    world.until("a message", |ends| ends[1].unexpected().count() > 0);
                    let (context, probed) = world.ends[1].unexpected().next().unwrap();
                    assert_eq!((context, probed.tag, probed.bytes), (ENVELOPE.context, ENVELOPE.tag, bytes));
                }
                let posted = posted.unwrap_or_else(|| receive(&mut world));
                let outcome = world.wait(1, posted).unwrap();
                let mark = if bytes == 0 && mode == SendMode::Synchronous { 0 } else { crate::MARKS - 1 };
                assert_eq!((outcome.mark, outcome.bytes), (mark, bytes), "{bytes} bytes, {mode:?}");
                sent.into_iter().for_each(|sent| _ = world.wait(0, sent).unwrap());
            }
            exchange(&mut world, 0, 1, bytes); // the next message has none
        }
    });
}

#[test]
fn what_is_sent_before_the_answer_needs_no_more_help_of_the_sender() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        for i in 0..5u8 {
            world.ends[0].send(Rank(1), ENVELOPE, source(&[i; 100]), SendMode::Standard).unwrap();
        }
        // From here on rank 0 computes.
        for i in 0..5u8 {
            let to = UserBufMut::of_static(room(100));
            let id = world.ends[1].irecv(from(0), to);
            let mut rounds = 0;
            while !world.ends[1].is_done(id) {
                world.ends[1].progress();
                rounds += 1;
                assert!(rounds < ROUNDS_MAX, "message {i} does not come");
            }
            assert_eq!(world.ends[1].take(id).unwrap().unwrap().bytes, 100);
            let mut got = [0; 100];
            to.as_source().copy_to(&mut got);
            assert_eq!(got, [i; 100]);
        }
    });
}

/// `count` messages of these lengths in turn, from both sides at once, of which the receiver sees the order.
fn keep_their_order(world: &mut World, lengths: &[usize], count: usize) {
    let messages = || lengths.iter().cycle().take(count).enumerate();
    let mut sends = Vec::new();
    for (i, bytes) in messages() {
        for (me, other) in [(0usize, 1u32), (1, 0)] {
            let buf = source(&vec![i as u8; *bytes]);
            let sent = world.ends[me].isend(Rank(other), ENVELOPE, buf, SendMode::Standard).unwrap();
            sends.extend(sent.map(|id| (me, id)));
        }
    }
    for (i, bytes) in messages() {
        for (me, other) in [(0usize, 1u32), (1, 0)] {
            let to = UserBufMut::of_static(room(70_000));
            let id = world.ends[me].irecv(from(other), to);
            assert_eq!(world.wait(me, id).unwrap().bytes, *bytes, "message {i} to {me}");
            let mut first = [0];
            to.part(0, 1).as_source().copy_to(&mut first);
            assert_eq!(first, [i as u8], "message {i} of {bytes} bytes to {me}");
        }
    }
    for (me, id) in sends {
        world.wait(me, id).unwrap();
    }
}

#[test]
fn messages_keep_their_order_through_the_handshake() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        // More than is taken before the answer, small and large mixed.
        keep_their_order(&mut world, &[8, 900, 3000, 5000, 70_000], 120);
        assert_eq!((world.ends[0].stat(Stat::Connections), world.ends[1].stat(Stat::Connections)), (1, 1));
    });
}

#[test]
fn a_message_too_long_for_the_ring_keeps_its_place() {
    // The receiver turns out to have no memory for a larger ring, so what was on its way at once has to be offered, with
    // others behind it.
    let mut world = World::with_rings(&[(ProviderKind::Soft, 256 << 10), (ProviderKind::Soft, 4096)]);
    for _ in 0..3 {
        keep_their_order(&mut world, &[8, 4096, 900, 8, 3500, 8, 70_000], 120);
    }
}

#[test]
fn a_connection_that_was_closed_is_opened_again_when_it_is_needed() {
    both(|kind| {
        let mut world = World::new(kind, 3);
        for round in 0..30 {
            exchange(&mut world, 0, 1, 5000);
            exchange(&mut world, 1, 2, 8);
            let closer = round % 2;
            let other = world.ends[1 - closer].me();
            world.ends[closer].close(other);
            if round % 3 == 0 {
                // Both at once.
                let other = world.ends[closer].me();
                world.ends[1 - closer].close(other);
            }
            if round % 4 != 0 {
                world.until("the close", |ends| {
                    ends.iter_mut().for_each(|end| _ = end.tick());
                    ends[0].wireup.connections().now == 0 && ends[1].wireup.connections().now == 1
                });
                assert_eq!(world.state(0, 1), StateName::Idle);
                assert_eq!(world.ends[0].connected_peers(), []);
            }
        }
        exchange(&mut world, 0, 1, 100_000);
        assert_eq!(world.ends[0].wireup.connections().peak, 1);
        assert_eq!(world.ends[1].connected_peers(), [Rank(0), Rank(2)]);
    });
}

/// The peer has agreed, and its answer never left: it had no room for ten seconds, or the peer has finished.
#[test]
fn a_close_whose_answer_is_lost_with_the_stream_is_no_failure() {
    let mut world = World::new(ProviderKind::Sockets, 2);
    exchange(&mut world, 0, 1, 5000);
    exchange(&mut world, 1, 0, 5000); // which is answered, so that the connection is ready on both sides
    let peer = world.ends[1].me();
    world.ends[0].close(peer);
    let [closes, other] = &mut world.ends[..] else { panic!("two of them") };
    let moves = |closes: &mut Endpoint| {
        closes.progress();
        closes.tick();
    };
    let told = (0..ROUNDS_MAX).any(|_| {
        moves(closes);
        matches!(other.context.poll(), Some(fabric::Event::Datagram(_)))
    });
    assert!(told && world.state(0, 1) == StateName::Closing, "{:?}", world.state(0, 1));
    drop(world.ends.pop());
    let closes = &mut world.ends[0];
    let ended = (0..ROUNDS_MAX).any(|_| {
        moves(closes);
        closes.wireup.connections().now == 0
    });
    assert!(ended, "{}", closes.waits_for());
    assert_eq!(world.state(0, 1), StateName::Idle);
}

#[test]
fn a_node_with_as_many_targets_as_it_may_have_waits_for_one() {
    let world = World::new(ProviderKind::Soft, 1);
    let refused = world.ends[0].refused(fabric::CreateError::TargetsFull);
    assert!(matches!(refused, crate::peers::Refused::ForNow(_)), "{refused:?}");
}

/// Numbers by chance, from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Messages of all lengths between three ranks that close their connections all the time, polled in any order.
fn traffic_while_connections_close(kind: ProviderKind, seed: u64) {
    let mut world = World::new(kind, 3);
    let mut chance = Chance(seed);
    let mut sends = Vec::new();
    let mut receives = Vec::new();
    for i in 0..150u8 {
        let (from_, to) = [(0, 1), (1, 0), (0, 2), (2, 1)][chance.below(4)];
        let bytes = [1, 900, 4000, 20_000, 300_000][chance.below(5)];
        let mode = if chance.below(5) == 0 { SendMode::Synchronous } else { SendMode::Standard };
        let buf = source(&vec![i; bytes]);
        let sent = world.ends[from_].isend(Rank(to as u32), ENVELOPE, buf, mode).unwrap();
        sends.extend(sent.map(|id| (from_, id)));
        receives.push((from_, to, i, bytes));
        match chance.below(4) {
            0 => {
                let other = world.ends[to].me();
                world.ends[from_].close(other);
            }
            1 => {
                let other = world.ends[from_].me();
                world.ends[to].close(other);
            }
            _ => {}
        }
        for _ in 0..chance.below(20) {
            let end = &mut world.ends[chance.below(3)];
            end.progress();
            end.tick();
        }
    }
    for (from_, to, i, bytes) in receives {
        let buf = UserBufMut::of_static(room(bytes));
        let id = world.ends[to].irecv(from(from_ as u32), buf);
        if chance.below(3) == 0 {
            let other = world.ends[from_].me();
            world.ends[to].close(other);
        }
        world.until("a message", |ends| {
            ends.iter_mut().for_each(|end| _ = end.tick());
            ends[to].is_done(id)
        });
        assert_eq!(world.ends[to].take(id).unwrap().unwrap().bytes, bytes, "seed {seed}: message {i}");
        let mut got = vec![0; bytes];
        buf.as_source().copy_to(&mut got);
        assert!(got.iter().all(|byte| *byte == i), "seed {seed}: message {i} from {from_} to {to}");
    }
    for (at, id) in sends {
        world.until("a send", |ends| {
            ends.iter_mut().for_each(|end| _ = end.tick());
            ends[at].is_done(id)
        });
        world.ends[at].take(id).unwrap().unwrap();
    }
    assert!(world.ends[1].wireup.stats().closed > 0, "seed {seed}");
}

#[test]
fn nothing_is_lost_while_connections_close() {
    both(|kind| (1..=20).for_each(|seed| traffic_while_connections_close(kind, seed)));
}

/// Everybody sends to everybody, in any order, through fewer connections than that takes.
fn traffic_within(kind: ProviderKind, qp_max: u32, budget: Option<u32>, seed: u64) {
    const RANKS: usize = 6;
    let mut world = World::with(&[(kind, 256 << 10); RANKS], qp_max, budget);
    let mut chance = Chance(seed);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    let holds = |world: &World| {
        let held: Vec<usize> = world.ends.iter().map(|end| end.context.qps(kind)).collect();
        assert!(held.iter().all(|held| *held <= budget.map_or(usize::MAX, |most| most as usize)), "{held:?}");
        // One of each process is for datagrams.
        let all: usize = held.iter().sum();
        assert!(kind == ProviderKind::Sockets || all + RANKS <= qp_max as usize, "{held:?}");
    };
    for i in 0..200u8 {
        let from_ = chance.below(RANKS);
        let to = (from_ + 1 + chance.below(RANKS - 1)) % RANKS;
        let bytes = [1, 900, 4000, 100_000][chance.below(4)];
        let buf = source(&vec![i; bytes]);
        let sent = world.ends[from_].isend(Rank(to as u32), ENVELOPE, buf, SendMode::Standard).unwrap();
        sends.extend(sent.map(|id| (from_, id)));
        receives.push((from_, to, i, bytes));
        for _ in 0..chance.below(20) {
            let end = &mut world.ends[chance.below(RANKS)];
            end.progress();
            end.tick();
            holds(&world);
        }
    }
    // Others than were sent first are waited for first.
    receives.reverse();
    receives.sort_by_key(|(from_, to, ..)| (*to, *from_));
    let posted: Vec<_> = receives
        .iter()
        .rev()
        .map(|&(from_, to, i, bytes)| {
            let buf = UserBufMut::of_static(room(bytes));
            (to, world.ends[to].irecv(from(from_ as u32), buf), i, buf)
        })
        .collect();
    for (to, id, i, buf) in posted {
        world.until("a message", |ends| {
            ends.iter_mut().for_each(|end| _ = end.tick());
            ends[to].is_done(id)
        });
        holds(&world);
        let outcome = world.ends[to].take(id).unwrap().unwrap();
        let mut got = vec![0; outcome.bytes];
        buf.as_source().copy_to(&mut got);
        assert!(got.iter().all(|byte| *byte == i), "seed {seed}: message {i} to {to}");
    }
    for (at, id) in sends {
        world.until("a send", |ends| {
            ends.iter_mut().for_each(|end| _ = end.tick());
            ends[at].is_done(id)
        });
        world.ends[at].take(id).unwrap().unwrap();
    }
}

#[test]
fn few_connections_carry_everything() {
    both(|kind| (1..=5).for_each(|seed| traffic_within(kind, 10_000, Some(2), seed)));
    both(|kind| (6..=8).for_each(|seed| traffic_within(kind, 10_000, Some(3), seed)));
}

#[test]
fn a_device_with_few_queue_pairs_carries_everything() {
    (1..=5).for_each(|seed| traffic_within(ProviderKind::Soft, 6 + 5, None, seed));
    (6..=8).for_each(|seed| traffic_within(ProviderKind::Soft, 6 + 3, Some(4), seed));
}

#[test]
fn a_device_too_small_for_any_connection_is_named() {
    let mut world = World::with(&[(ProviderKind::Soft, 256 << 10); 2], 3, None);
    let sent = world.ends[0].send(Rank(1), ENVELOPE, source(&[1; 8]), SendMode::Standard);
    let text = sent.unwrap_err().to_string();
    assert!(text.contains("2 of 3 are in use") && text.contains("--qp-max"), "{text}");
}

#[test]
fn active_messages_run_their_handlers_and_may_answer() {
    both(|kind| {
        let mut world = World::new(kind, 2);
        let seen: Rc<RefCell<Vec<(u64, usize)>>> = Rc::default();
        let log = seen.clone();
        world.ends[0].set_handler(
            5,
            Some(Rc::new(move |_, _, active: Active| {
                log.borrow_mut().push((active.argument, active.bytes.len()));
            })),
        );
        world.ends[1].set_handler(
            4,
            Some(Rc::new(|end, peer, active: Active| {
                let answered = end.send_active(peer, 5, active.argument + 1, source(&active.bytes));
                assert!(answered.is_ok());
            })),
        );
        let to = world.ends[1].me();
        for i in 0..20 {
            world.ends[0].send_active(to, 4, i, source(&vec![1; i as usize * 100])).unwrap();
        }
        // Nobody listens there: dropped, not an error.
        world.ends[0].send_active(to, 9, 0, UserBuf::EMPTY).unwrap();
        world.until("answers", |_| seen.borrow().len() == 20);
        let expected: Vec<(u64, usize)> = (0..20).map(|i| (i + 1, i as usize * 100)).collect();
        assert_eq!(*seen.borrow(), expected);
    });
}

#[test]
fn an_active_message_that_no_ring_takes_comes_in_parts() {
    let mut world = World::with_rings(&[(ProviderKind::Soft, 0); 2]);
    let seen: Rc<RefCell<Vec<Active>>> = Rc::default();
    let log = seen.clone();
    world.ends[1].set_handler(4, Some(Rc::new(move |_, _, active: Active| log.borrow_mut().push(active))));
    let to = world.ends[1].me();
    let lengths = [4096, 10, 100_000, 0, 4000];
    let message = |i: usize| (0..lengths[i]).map(|at| (at * 13 + i) as u8).collect::<Vec<u8>>();
    for i in 0..lengths.len() {
        world.ends[0].send_active(to, 4, i as u64, source(&message(i))).unwrap();
    }
    world.until("all of them", |_| seen.borrow().len() == lengths.len());
    for (i, active) in seen.borrow().iter().enumerate() {
        assert_eq!((active.argument, active.bytes.to_vec()), (i as u64, message(i)));
    }
}

#[test]
fn a_peer_that_is_gone_ends_what_waits_for_it() {
    let mut world = World::new(ProviderKind::Sockets, 3);
    exchange(&mut world, 0, 1, 8);
    let posted = world.ends[0].irecv(from(1), UserBufMut::of_static(room(8)));
    let large = source(&vec![1; 1 << 20]);
    let offered = world.ends[0].isend(Rank(1), ENVELOPE, large, SendMode::Standard).unwrap().unwrap();
    let any = Pattern::<Rank> { context: ENVELOPE.context, source: None, tag: None };
    let waits_for_anybody = world.ends[0].irecv(any, UserBufMut::of_static(room(8)));
    world.ends.remove(1);
    for id in [posted, offered] {
        let error = world.wait(0, id).unwrap_err().to_string();
        assert!(error.contains("rank 1 on node 0"), "{error}");
    }
    let later = world.ends[0].isend(Rank(1), ENVELOPE, UserBuf::EMPTY, SendMode::Standard);
    assert!(matches!(later, Err(NetError::Unreachable { .. })), "{later:?}");
    let later = world.ends[0].irecv(from(1), UserBufMut::of_static(room(8)));
    assert!(world.wait(0, later).is_err());
    let said = world.ends[0].waits_for();
    assert!(said.contains("any rank") && said.contains("no connection to rank 1"), "{said}");
    // Others can still be heard.
    world.ends[1].isend(Rank(0), ENVELOPE, source(&[1; 8]), SendMode::Standard).unwrap();
    assert_eq!(world.wait(0, waits_for_anybody).unwrap().bytes, 8);
}

#[test]
fn a_buffer_is_the_programs_again_when_its_send_has_failed() {
    const BYTES: usize = 60_000;
    const MESSAGES_MAX: usize = 10_000;
    let mut world = World::new(ProviderKind::Sockets, 2);
    exchange(&mut world, 0, 1, 8);
    let memory = UserBufMut::of_static(room(BYTES));
    memory.copy_from(&source(&[1; BYTES]));
    // Until the kernel takes no more: the last one is lent.
    let lent = (0..MESSAGES_MAX).find_map(|_| {
        let sent = world.ends[0].isend(Rank(1), ENVELOPE, memory.as_source(), SendMode::Standard).unwrap()?;
        world.ends[0].progress();
        world.ends[0].take(sent).is_none().then_some(sent)
    });
    let lent = lent.expect("the kernel has an end");
    // The peer is given up, although it lives and reads on.
    let ix = world.ends[0].wireup.find_process(Process(1)).unwrap();
    let error = NetError::Refused { peer: world.ends[0].who(ix) };
    world.ends[0].fail(ix, error);
    assert!(world.ends[0].take(lent).expect("it has ended").is_err());
    memory.copy_from(&source(&[2; BYTES]));
    for _ in 0..MESSAGES_MAX {
        let to = UserBufMut::of_static(room(BYTES));
        let id = world.ends[1].irecv(from(0), to);
        if world.wait(1, id).is_err() {
            return;
        }
        let mut got = vec![0; BYTES];
        to.as_source().copy_to(&mut got);
        assert!(got.iter().all(|byte| *byte == 1), "what was written after the send had ended was sent");
    }
    panic!("the receiver hears of no end");
}

#[test]
fn what_was_offered_to_a_lost_peer_cannot_be_read_any_more() {
    let mut world = World::new(ProviderKind::Sockets, 3);
    exchange(&mut world, 0, 2, 8);
    exchange(&mut world, 1, 0, 8);
    let secret = lend(&[1; 1 << 20]);
    let offered = world.ends[0].isend(Rank(2), ENVELOPE, secret, SendMode::Standard).unwrap().unwrap();
    let key = world.ends[0].requests.states().find_map(|state| match state {
        crate::request::State::SendOffered { key, .. } => *key,
        _ => None,
    });
    let (_, key) = key.expect("the buffer is registered");
    world.ends.remove(2);
    assert!(world.wait(0, offered).is_err());
    let other = &mut world.ends[1];
    let ix = other.wireup.find_process(Process(0)).unwrap();
    let qp = other.links[ix.index()].qp.expect("rank 1 is connected");
    let into = UserBufMut::of_static(room(1 << 20));
    let from = fabric::RemoteMemory { addr: secret.addr(), key };
    assert!(matches!(other.context.rdma_read(qp, into, from), Ok(fabric::Posted::Later(_))));
    // What follows the refusal on the stream has come, so the refusal has, too.
    exchange(&mut world, 0, 1, 8);
    let mut got = vec![0; 1 << 20];
    into.as_source().copy_to(&mut got);
    assert!(got.iter().all(|byte| *byte == 0), "the buffer was read");
}

#[test]
fn a_peer_that_answers_and_is_gone_is_one_that_is_gone() {
    let mut world = World::new(ProviderKind::Sockets, 2);
    let posted = world.ends[0].irecv(from(1), UserBufMut::of_static(room(8)));
    world.ends[0].send(Rank(1), ENVELOPE, source(&[1; 8]), SendMode::Standard).unwrap();
    for _ in 0..ROUNDS_MAX {
        world.ends[1].progress();
        if world.state(1, 0) == StateName::Ready {
            break;
        }
    }
    world.ends.remove(1);
    // Its answer and its end are found together.
    let error = world.wait(0, posted).unwrap_err();
    let NetError::Unreachable { cause, .. } = &error else { panic!("{error}") };
    assert!(matches!(**cause, Cause::Break(_)), "{error}");
}

#[test]
fn who_leaves_first_is_no_error() {
    let mut world = World::new(ProviderKind::Sockets, 2);
    exchange(&mut world, 0, 1, 8);
    world.until("a connection", |ends| ends[0].connected_peers() == [Rank(1)]);
    world.ends[0].job.leaving = true;
    world.ends.remove(1);
    world.until("its end", |ends| ends[0].connected_peers().is_empty());
    assert_eq!(world.ends[0].counters.failed, 0);
}

#[test]
fn who_cannot_be_mapped_reaches_one_that_has_no_sockets_yet() {
    let mut world = World::of(&[ProviderKind::Sockets, ProviderKind::Soft, ProviderKind::Soft]);
    assert!(!world.ends[1].context.has_sockets());
    exchange(&mut world, 0, 1, 5000);
    exchange(&mut world, 2, 0, 8);
    exchange(&mut world, 1, 2, 8);
    let sockets: Vec<usize> = world.ends.iter().map(|end| end.context.qps(ProviderKind::Sockets)).collect();
    assert_eq!(sockets, [2, 1, 1]);
}

#[test]
fn a_rank_that_does_not_exist_is_an_error() {
    let mut world = World::new(ProviderKind::Soft, 2);
    let sent = world.ends[0].isend(Rank(2), ENVELOPE, UserBuf::EMPTY, SendMode::Standard);
    assert!(matches!(sent, Err(NetError::NoSuchPeer { size: 2, .. })), "{sent:?}");
    let id = world.ends[0].irecv(from(9), UserBufMut::EMPTY);
    assert!(matches!(world.wait(0, id), Err(NetError::NoSuchPeer { .. })));
}

#[test]
fn a_first_contact_that_fails_at_once_is_an_error_at_once() {
    let mut world = World::new(ProviderKind::Soft, 2);
    world.ends[0].job.cards[1].host = [9, 9];
    for _ in 0..2 {
        let sent = world.ends[0].send(Rank(1), ENVELOPE, source(&[1; 8]), SendMode::Standard);
        let text = sent.unwrap_err().to_string();
        assert_eq!(
            text,
            "no connection to rank 1 on node 0: it is on another host, and it has no network address; jobs on \
             different hosts meet if both have --net"
        );
    }
    let probed = world.ends[0].iprobe(from(1));
    assert!(matches!(probed, Err(NetError::Unreachable { .. })), "{probed:?}");
    let id = world.ends[0].irecv(from(1), UserBufMut::EMPTY);
    assert!(world.wait(0, id).is_err());
}

/// Where everybody has a core, nobody has to make way.
#[test]
fn who_only_looks_lets_others_run_where_cores_are_shared() {
    let mut world = World::new(ProviderKind::Soft, 1);
    let end = &mut world.ends[0];
    assert!(!(0..1_000).any(|_| end.looked_in_vain()));
    end.waits = crate::waiting::Waits::new(0, true, Default::default());
    assert!((0..ROUNDS_MAX).any(|_| end.looked_in_vain()));
}
