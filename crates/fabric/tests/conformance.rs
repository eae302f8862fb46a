//! What every provider must do. Two or more contexts in one process stand for as many processes.
#![allow(unsafe_code)] // buffers of the tests outlive the operations they are given to

use banyan_fabric::state::QpState;
use banyan_fabric::{
    Address, Config, ConnectError, Context, CreateError, DATAGRAM_MAX, Event, MrKey, Node, PostError, Qp,
    QpParams, RdmaError, RemoteMemory,
};
use std::sync::atomic::Ordering;
use sys::node::{NodeFacts, NodeSegment};
use sys::{UserBuf, UserBufMut};

/// A node of the soft provider with so many slots and queue pairs.
struct TestNode(NodeSegment);

impl TestNode {
    fn new(slots: u32, qp_max: u32, oversubscribed: bool) -> Self {
        let (host, key, pid_space) = ([1, 2], [0; 4], sys::node::pid_space());
        let facts = NodeFacts { node: 0, slots, cores: 2, qp_max, oversubscribed, host, key, pid_space };
        TestNode(NodeSegment::create(&facts).unwrap())
    }

    fn open(&self, slot: u32, cma: bool) -> Context {
        let node = Node::Agent { segment: self.0.locator().unwrap(), slot };
        Context::open(&Config { node, cma }).unwrap()
    }
}

fn pair() -> (Context, Context) {
    let node = TestNode::new(2, 1000, true);
    (node.open(0, true), node.open(1, true))
}

fn connect(a: &mut Context, b: &mut Context) -> (Qp, Qp) {
    let (qa, qb) = (a.create_qp().unwrap(), b.create_qp().unwrap());
    let (pa, pb) = (a.to_init(qa).unwrap(), b.to_init(qb).unwrap());
    let (aa, ab) = (*a.address(), *b.address());
    a.to_rtr(qa, &ab, &pb).unwrap();
    b.to_rtr(qb, &aa, &pa).unwrap();
    a.to_rts(qa).unwrap();
    b.to_rts(qb).unwrap();
    (qa, qb)
}

fn source(bytes: &[u8]) -> UserBuf {
    // SAFETY: the tests keep the bytes until the operation is over.
    unsafe { UserBuf::new(bytes.as_ptr(), bytes.len()) }
}

fn target(bytes: &mut [u8]) -> UserBufMut {
    // SAFETY: the tests keep the bytes, and read them only when the operation is over.
    unsafe { UserBufMut::new(bytes.as_mut_ptr(), bytes.len()) }
}

/// The next message, with its queue pair and header.
fn receive(context: &mut Context) -> Option<(Qp, [u64; 2], Vec<u8>)> {
    match context.poll()? {
        Event::Receive { qp, view } => Some((qp, view.header(), view.to_vec())),
        other => panic!("{other:?} instead of a message"),
    }
}

#[test]
fn messages_arrive_in_order_with_their_headers() {
    let (mut a, mut b) = pair();
    let (qa, qb) = connect(&mut a, &mut b);
    for i in 0..20u64 {
        a.post_send(qa, [i, !i], source(&vec![i as u8; i as usize * 5])).unwrap();
    }
    for i in 0..20u64 {
        assert_eq!(receive(&mut b), Some((qb, [i, !i], vec![i as u8; i as usize * 5])));
    }
    assert!(b.poll().is_none());
    b.post_send(qb, [7, 7], UserBuf::EMPTY).unwrap();
    assert_eq!(receive(&mut a), Some((qa, [7, 7], vec![])));
}

#[test]
fn a_full_queue_pair_takes_more_after_the_peer_has_polled() {
    let (mut a, mut b) = pair();
    let (qa, _) = connect(&mut a, &mut b);
    let (mut sent, mut got) = (0u64, 0u64);
    while got < 10_000 {
        while sent < 10_000 && a.post_send(qa, [sent, 0], source(&[1; 100])).is_ok() {
            sent += 1;
        }
        for _ in 0..17 {
            if let Some((_, header, _)) = receive(&mut b) {
                assert_eq!(header[0], got);
                got += 1;
            }
        }
    }
}

#[test]
fn a_message_too_long_for_the_first_ring_goes_through_a_larger_one() {
    let (mut a, mut b) = pair();
    let (qa, _) = connect(&mut a, &mut b);
    let small = a.mapped_bytes();
    for bytes in [5_000usize, 20_000, 30_000, 200_000, a.message_max()] {
        let message: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let mut tries = 0;
        while let Err(error) = a.post_send(qa, [bytes as u64, 0], source(&message)) {
            assert_eq!(error, PostError::Full);
            tries += 1;
            assert!(tries < 10, "no room for {bytes} bytes");
            assert!(receive(&mut b).is_none());
        }
        assert_eq!(receive(&mut b).unwrap().2, message);
    }
    assert!(a.mapped_bytes() > small);
    let max = a.message_max();
    let refused = a.post_send(qa, [0, 0], source(&vec![0; max + 1]));
    assert_eq!(refused, Err(PostError::TooLong { bytes: max + 1, max }));
}

#[test]
fn many_peers_are_all_heard() {
    let node = TestNode::new(41, 1000, true);
    let mut hub = node.open(0, true);
    let mut others: Vec<Context> = (1..41).map(|slot| node.open(slot, true)).collect();
    let qps: Vec<(Qp, Qp)> = others.iter_mut().map(|other| connect(other, &mut hub)).collect();
    let mut next = vec![0u64; others.len()];
    for round in 0..200u64 {
        for (i, other) in others.iter_mut().enumerate() {
            if !(round + i as u64).is_multiple_of(3) {
                other.post_send(qps[i].0, [round, 0], UserBuf::EMPTY).unwrap();
            }
        }
        while let Some((qp, header, _)) = receive(&mut hub) {
            let i = qps.iter().position(|pair| pair.1 == qp).unwrap();
            assert!(header[0] >= next[i]);
            next[i] = header[0] + 1;
        }
        let sent = |i: usize| !(round + i as u64).is_multiple_of(3);
        for (i, next) in next.iter().enumerate().filter(|(i, _)| sent(*i)) {
            assert_eq!(*next, round + 1, "message {round} of peer {i} was not seen");
        }
    }
}

#[test]
fn moves_outside_the_table_are_refused_and_change_nothing() {
    let (mut a, b) = pair();
    let qp = a.create_qp().unwrap();
    assert!(matches!(a.to_rts(qp), Err(ConnectError::Move(_))));
    assert_eq!(a.qp_state(qp), QpState::Reset);
    let refused = a.post_send(qp, [0, 0], UserBuf::EMPTY);
    assert!(matches!(refused, Err(PostError::State { state: QpState::Reset, .. })));
    let params = a.to_init(qp).unwrap();
    for wrong in [
        QpParams { ring_bytes: 100, ..params },
        QpParams { ring: 1 << 20, ..params },
        QpParams { ring_offset: 1 << 40, ..params },
        QpParams { ring_offset: 0, ..params },
    ] {
        assert!(a.to_rtr(qp, b.address(), &wrong).is_err(), "{wrong:?}");
        assert_eq!(a.qp_state(qp), QpState::Init);
    }
}

#[test]
fn a_peer_on_another_host_or_gone_is_an_error() {
    let (mut a, b) = pair();
    let elsewhere = Address { host: [9, 9], ..*b.address() };
    assert!(a.send_datagram(&elsewhere, b"x").is_err());
    let mut gone = *b.address();
    gone.segment.start_ticks += 1;
    gone.segment.pid += 1_000_000;
    assert!(a.send_datagram(&gone, b"x").is_err());
}

#[test]
fn the_device_limit_is_refused_and_given_back() {
    let node = TestNode::new(2, 4, true);
    let (mut a, mut b) = (node.open(0, true), node.open(1, true)); // one each for datagrams
    let first = a.create_qp().unwrap();
    b.create_qp().unwrap();
    assert!(matches!(b.create_qp(), Err(CreateError::Device(limit)) if limit.max == 4));
    a.destroy_qp(first);
    b.create_qp().unwrap();
    drop(b);
    assert_eq!(node.0.qps_in_use(), 1);
}

#[test]
fn datagrams_arrive_without_a_connection() {
    let (mut a, mut b) = pair();
    let to = *b.address();
    assert!(a.send_datagram(&to, &[3; DATAGRAM_MAX]).unwrap());
    match b.poll() {
        Some(Event::Datagram(bytes)) => assert_eq!(bytes, [3; DATAGRAM_MAX]),
        other => panic!("{other:?}"),
    }
    assert!(b.poll().is_none());
}

#[test]
fn rdma_reads_and_writes_only_what_is_registered() {
    let (mut a, mut b) = pair();
    let (qa, _) = connect(&mut a, &mut b);
    let mut memory = vec![5u8; 1000];
    let buf = source(&memory);
    let key = b.register(buf).unwrap();
    let at = |offset: u64| RemoteMemory { addr: buf.addr() + offset, key };
    let mut got = vec![0u8; 600];
    a.rdma_read(qa, target(&mut got), at(400)).unwrap();
    assert_eq!(got, vec![5; 600]);
    a.rdma_write(qa, source(&[9; 10]), at(990)).unwrap();
    assert!(matches!(a.rdma_read(qa, target(&mut got), at(401)), Err(RdmaError::Key)));
    let wrong = RemoteMemory { key: MrKey(key.0 + 1), ..at(0) };
    assert!(matches!(a.rdma_read(qa, target(&mut got), wrong), Err(RdmaError::Key)));
    b.deregister(key);
    assert!(matches!(a.rdma_read(qa, target(&mut got), at(0)), Err(RdmaError::Key)));
    assert_eq!(std::mem::take(&mut memory)[989..], [5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
}

#[test]
fn where_it_is_forbidden_rdma_says_so() {
    let node = TestNode::new(2, 100, true);
    let (mut a, mut b) = (node.open(0, false), node.open(1, false));
    let (qa, _) = connect(&mut a, &mut b);
    let memory = [5u8; 10];
    let key = b.register(source(&memory)).unwrap();
    let at = RemoteMemory { addr: memory.as_ptr() as u64, key };
    let mut got = [0; 10];
    assert!(matches!(a.rdma_read(qa, target(&mut got), at), Err(RdmaError::Forbidden)));
}

#[test]
fn memory_in_the_segment_is_reached_even_where_reading_processes_is_forbidden() {
    let node = TestNode::new(2, 100, true);
    let (mut a, mut b) = (node.open(0, false), node.open(1, false));
    let (qa, _) = connect(&mut a, &mut b);
    let region = b.allocate(10_000).unwrap().unwrap();
    let at = |offset: u64| RemoteMemory { addr: region.map.addr() + offset, key: region.key };
    a.rdma_write(qa, source(&7u64.to_le_bytes()), at(8000)).unwrap();
    assert_eq!(region.map.u64_at(8000).load(Ordering::Acquire), 7);
    let mut got = [0; 16];
    a.rdma_read(qa, target(&mut got), at(7992)).unwrap();
    assert_eq!(got, [0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    let end = at(region.map.bytes() as u64 - 8);
    assert!(matches!(a.rdma_read(qa, target(&mut got), end), Err(RdmaError::Key)));
    let stale = at(0);
    b.free(region);
    assert!(matches!(a.rdma_read(qa, target(&mut got), stale), Err(RdmaError::Key)));
}

#[test]
fn a_new_queue_pair_in_an_old_place_starts_clean() {
    let (mut a, mut b) = pair();
    for round in 0..20u64 {
        let (qa, qb) = connect(&mut a, &mut b);
        for i in 0..90 {
            while a.post_send(qa, [round, i], source(&[1; 60])).is_err() {
                receive(&mut b).unwrap();
            }
        }
        a.destroy_qp(qa);
        b.destroy_qp(qb);
        assert!(b.poll().is_none());
    }
    assert!(b.touched_bytes() < 100_000, "{} bytes after 20 connections", b.touched_bytes());
}
