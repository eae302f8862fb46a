//! Connections that the processes of a node share.
use super::rig::*;
use banyan_fabric::{Config, CreateError, Node, ProviderKind, Qp, Role};
use sys::node::{NodeFacts, NodeSegment};

const SOFT: ProviderKind = ProviderKind::Soft;

/// A node of the host with so many processes.
struct Shared {
    host: Host,
    node: NodeSegment,
}

impl Shared {
    fn new(node: u32, slots: u32, qp_max: u32) -> Self {
        let facts = NodeFacts {
            node,
            slots,
            cores: 2,
            core_set: Default::default(),
            qp_max,
            oversubscribed: true,
            host: [1, 2],
            key: [3, 4, 5, 6],
            pid_space: sys::node::pid_space(),
        };
        Shared { host: Host::new(SOFT, 1, 10), node: NodeSegment::create(&facts).unwrap() }
    }

    fn config(&self, slot: u32) -> Config {
        let node = Node::Agent { segment: self.node.locator().unwrap(), slot };
        Config { node, xrc: true, ..self.host.config(0) }
    }

    fn open(&self, slot: u32) -> Peer {
        self.host.open_with(&self.config(slot))
    }
}

fn word(peer: &mut Peer) -> (Qp, u64, Vec<u8>) {
    let (qp, header, bytes) = peer.message();
    (qp, header[0], bytes)
}

#[test]
fn all_processes_of_a_node_are_reached_by_one_queue_pair() {
    let (here, there) = (Shared::new(0, 1, 100), Shared::new(1, 4, 100));
    let mut a = here.open(0);
    let mut others: Vec<Peer> = (0..4).map(|slot| there.open(slot)).collect();
    let pairs: Vec<(Qp, Qp)> = others.iter_mut().map(|b| connect(&mut a, b)).collect();
    let counts = a.context.shared_counts();
    assert_eq!((counts.initiators, counts.direct, counts.indirect), (1, 1, 3));
    assert_eq!(here.node.qps_in_use(), 2, "one more is for datagrams");
    assert_eq!(here.node.targets(), 4, "one for each process there");
    assert_eq!((there.node.qps_in_use(), there.node.targets()), (8, 1), "all have the one for that process");
    assert_eq!(others[3].context.shared_counts().targets_found, 1);
    for round in 0..300 {
        for (number, (qa, _)) in (0..).zip(&pairs) {
            a.send(*qa, [round, number], &pattern(number as usize * 900, round as usize));
        }
        for (number, (b, (_, qb))) in (0..).zip(others.iter_mut().zip(&pairs)) {
            let expected = (*qb, round, pattern(number * 900, round as usize));
            assert_eq!(word(b), expected);
            b.send(*qb, [number as u64, 0], b"back");
        }
        let mut back: Vec<(Qp, u64, Vec<u8>)> = others.iter().map(|_| word(&mut a)).collect();
        back.sort_by_key(|(_, number, _)| *number);
        for (number, (qp, from, bytes)) in (0..).zip(back) {
            assert_eq!((qp, from, bytes.as_slice()), (pairs[number as usize].0, number, b"back".as_slice()));
        }
    }
}

#[test]
fn the_others_keep_what_the_first_has_made() {
    let (here, there) = (Shared::new(0, 1, 100), Shared::new(1, 3, 100));
    let mut a = here.open(0);
    let mut others: Vec<Peer> = (0..3).map(|slot| there.open(slot)).collect();
    let pairs: Vec<(Qp, Qp)> = others.iter_mut().map(|b| connect(&mut a, b)).collect();
    close(&mut a, &mut others[0], pairs[0].0, pairs[0].1);
    assert_eq!((a.context.shared_counts().passed_on, here.node.qps_in_use()), (1, 2));
    a.send(pairs[1].0, [7, 0], b"still");
    assert_eq!(word(&mut others[1]), (pairs[1].1, 7, b"still".to_vec()));
    // A process that is gone takes nothing of the others with it.
    assert_eq!(there.node.targets(), 1);
    let gone = others.remove(0);
    drop(gone);
    there.node.clear_slot(0);
    assert_eq!(there.node.targets(), 1);
    a.send(pairs[2].0, [8, 0], b"too");
    assert_eq!(word(&mut others[1]), (pairs[2].1, 8, b"too".to_vec()));
    close(&mut a, &mut others[0], pairs[1].0, pairs[1].1);
    close(&mut a, &mut others[1], pairs[2].0, pairs[2].1);
    assert_eq!((a.context.shared_counts().initiators, here.node.qps_in_use()), (0, 1));
    assert_eq!((here.node.targets(), there.node.targets()), (0, 0));
    // And again.
    let (qa, qb) = connect(&mut a, &mut others[0]);
    a.send(qa, [9, 0], b"again");
    assert_eq!(word(&mut others[0]), (qb, 9, b"again".to_vec()));
}

#[test]
fn processes_of_one_node_and_those_that_do_not_share_have_rings() {
    let (here, there) = (Shared::new(0, 2, 100), Shared::new(1, 2, 100));
    let (mut a, mut b) = (here.open(0), here.open(1));
    let mut alone = there.host.open_with(&Config { xrc: false, ..there.config(0) });
    let (qa, qb) = connect(&mut a, &mut b);
    let (qc, qd) = connect(&mut a, &mut alone);
    assert_eq!(a.context.shared_counts().direct, 0);
    assert!(!a.context.shares(qa) && !a.context.shares(qc));
    a.send(qa, [1, 0], b"near");
    a.send(qc, [2, 0], b"far");
    assert_eq!((word(&mut b).0, word(&mut alone).0), (qb, qd));
}

#[test]
fn what_is_sent_before_the_end_is_known_waits_for_it() {
    let (here, there) = (Shared::new(0, 1, 100), Shared::new(1, 1, 100));
    let (mut a, mut b) = (here.open(0), there.open(0));
    let (qa, _) = a.ask(&b.card());
    let request = b.control();
    let qb = b.answer(&a.card(), &request);
    b.send(qb, [5, 0], b"at once");
    // The reply is still unread; the message is behind it.
    let reply = a.control();
    assert!(a.is_quiet());
    a.connect(qa, &b.card(), &reply);
    assert_eq!(word(&mut a), (qa, 5, b"at once".to_vec()));
}

#[test]
fn a_full_receive_queue_refuses_until_there_is_room() {
    let (here, there) = (Shared::new(0, 1, 100), Shared::new(1, 1, 100));
    let (mut a, mut b) = (here.open(0), there.open(0));
    let (qa, qb) = connect(&mut a, &mut b);
    let post = |a: &mut Peer, n: u64| {
        a.context.post_send(qa, [n, 0], source(b"x"), banyan_fabric::Push::Now).is_ok()
    };
    let sent = (0..1000).take_while(|n| post(&mut a, *n)).count() as u64;
    assert!(sent > 50 && !a.context.has_room(qa, 1));
    assert!(!a.context.set_waiting(qa, true) && a.context.set_waiting(qa, true));
    for n in 0..sent {
        assert_eq!(word(&mut b), (qb, n, b"x".to_vec()));
    }
    assert!(b.is_quiet() && a.context.has_room(qa, 1));
    assert!(!a.context.set_waiting(qa, true), "the receiver has told all, and forgotten it");
    assert!(post(&mut a, sent));
    let long = vec![1; 1 << 20];
    let refused = a.context.post_send(qa, [0, 0], source(&long), banyan_fabric::Push::Now).unwrap_err();
    assert!(refused.to_string().contains("the longest is"), "{refused}");
}

#[test]
fn a_small_device_has_room_for_a_node() {
    // For each process one for datagrams, one to send by, one that is kept for answers.
    let (here, there) = (Shared::new(0, 1, 3), Shared::new(1, 6, 100));
    let mut a = here.open(0);
    let mut others: Vec<Peer> = (0..6).map(|slot| there.open(slot)).collect();
    for b in &mut others {
        connect(&mut a, b);
    }
    assert_eq!((here.node.qps_in_use(), a.context.shared_counts().indirect), (2, 5));
    let far = Shared::new(2, 1, 100).open(0);
    let refused = a.context.create_qp_for(SOFT, Role::Asks, &far.card()).unwrap_err();
    assert!(matches!(refused, CreateError::Device(limit) if limit.max == 3), "{refused}");
    drop(a);
    assert_eq!((here.node.qps_in_use(), here.node.limit().used), (0, 0));
}
