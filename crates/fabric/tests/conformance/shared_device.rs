//! Connections through RDMA devices that the processes of a node share, where a device has XRC.
use super::rig::*;
use banyan_fabric::{Config, Node, Posted, ProviderKind, Push, Qp, RemoteMemory, Role, WorkError};
use sys::node::{NodeFacts, NodeSegment, Records};

const VERBS: ProviderKind = ProviderKind::Verbs;

/// A node with so many processes.
struct Home {
    host: Host,
    node: NodeSegment,
}

impl Home {
    fn new(node: u32, slots: u32) -> Self {
        Home { host: Host::new(VERBS, 1, 10), node: NodeSegment::create(&facts(node, slots)).unwrap() }
    }

    /// Another job on the same node.
    fn beside(&self, slots: u32) -> Self {
        let facts = facts(self.node.facts().node, slots);
        let node = NodeSegment::create_beside(&facts, Records::default(), Some(&self.node)).unwrap();
        Home { host: Host::new(VERBS, 1, 10), node }
    }

    fn config(&self, slot: u32) -> Config {
        let node = Node::Agent { segment: self.node.locator().unwrap(), slot };
        Config { node, xrc: true, ..self.host.config(0) }
    }

    fn open(&self, slot: u32) -> Peer {
        self.host.open_with(&self.config(slot))
    }

    fn open_all(&self) -> Vec<Peer> {
        (0..self.node.facts().slots).map(|slot| self.open(slot)).collect()
    }
}

fn facts(node: u32, slots: u32) -> NodeFacts {
    NodeFacts {
        node,
        slots,
        cores: 2,
        core_set: Default::default(),
        qp_max: 100,
        oversubscribed: true,
        host: [1, 2],
        key: [3, 4, 5, 6],
        pid_space: sys::node::pid_space(),
    }
}

/// Two nodes, the process of the first and those of the second, and their connections.
type OneAndMany = (Home, Home, Peer, Vec<Peer>, Vec<(Qp, Qp)>);

/// One process on a node, and so many on another, each connected to it.
fn one_and_many(many: u32) -> Option<OneAndMany> {
    if !has_xrc() {
        return None;
    }
    let (here, there) = (Home::new(0, 1), Home::new(1, many));
    let (mut a, mut others) = (here.open(0), there.open_all());
    let pairs = others.iter_mut().map(|b| connect(&mut a, b)).collect();
    Some((here, there, a, others, pairs))
}

fn word(peer: &mut Peer) -> (Qp, u64, Vec<u8>) {
    let (qp, header, bytes) = peer.message();
    (qp, header[0], bytes)
}

/// A message there and back.
fn exchange(a: &mut Peer, b: &mut Peer, (qa, qb): (Qp, Qp), number: u64) {
    a.send(qa, [number, 0], b"there");
    assert_eq!(word(b), (qb, number, b"there".to_vec()));
    b.send(qb, [number, 1], &pattern(3000, 5));
    assert_eq!(word(a), (qa, number, pattern(3000, 5)));
}

#[test]
fn all_processes_of_a_node_are_reached_by_one_queue_pair() {
    let Some((here, there, mut a, mut others, pairs)) = one_and_many(4) else { return };
    let counts = a.context.shared_counts();
    assert_eq!((counts.initiators, counts.direct, counts.indirect), (1, 1, 3));
    assert_eq!((here.node.targets(), there.node.targets()), (4, 1), "one for each process elsewhere");
    let found: u64 = others.iter().map(|b| b.context.shared_counts().targets_found).sum();
    assert_eq!(found, 3, "the first has made it for all");
    assert!(pairs.iter().all(|(qa, _)| a.context.shares(*qa)));
    for round in 0..100 {
        for (b, pair) in others.iter_mut().zip(&pairs) {
            exchange(&mut a, b, *pair, round);
        }
    }
    // Memory of each of them.
    let mut memories: Vec<Vec<u8>> = (0..4).map(|number| pattern(100_000, number)).collect();
    for (number, (b, (qa, _))) in others.iter_mut().zip(&pairs).enumerate() {
        let buf = target(&mut memories[number]).as_source();
        let from = RemoteMemory { addr: buf.addr(), key: b.context.register(VERBS, buf).unwrap() };
        let mut got = vec![0; 100_000];
        let Ok(Posted::Later(work)) = a.context.rdma_read(*qa, target(&mut got), from) else { panic!() };
        assert_eq!(a.done(work), Ok(0));
        assert!(got == pattern(100_000, number));
    }
}

#[test]
fn a_flood_to_all_processes_of_a_node_arrives() {
    let Some((_here, _there, mut a, mut others, pairs)) = one_and_many(6) else { return };
    const COUNT: u64 = 3000;
    let (mut sent, mut got) = ([0; 6], [0; 6]);
    wait("all messages", || {
        for (number, (qa, _)) in pairs.iter().enumerate() {
            let bytes = pattern(sent[number] as usize % 700, number);
            while sent[number] < COUNT
                && a.context.post_send(*qa, [sent[number], number as u64], source(&bytes), Push::Soon).is_ok()
            {
                sent[number] += 1;
            }
        }
        assert_eq!(a.poll(), None);
        for (number, b) in others.iter_mut().enumerate() {
            while let Some(Got::Message(_, header, _)) = b.poll() {
                assert_eq!(header, [got[number], number as u64]);
                got[number] += 1;
            }
        }
        (got == [COUNT; 6]).then_some(())
    });
}

#[test]
fn the_others_keep_what_the_first_has_made() {
    let Some((here, there, mut a, mut others, pairs)) = one_and_many(3) else { return };
    close(&mut a, &mut others[0], pairs[0].0, pairs[0].1);
    assert_eq!((a.context.shared_counts().passed_on, a.context.shared_counts().initiators), (1, 1));
    exchange(&mut a, &mut others[1], pairs[1], 1);
    // The process that has made the target is gone.
    drop(others.remove(0));
    there.node.clear_slot(0);
    assert_eq!(there.node.targets(), 1);
    (0..20).for_each(|round| {
        exchange(&mut a, &mut others[(round % 2) as usize], pairs[1 + (round % 2) as usize], round)
    });
    close(&mut a, &mut others[0], pairs[1].0, pairs[1].1);
    close(&mut a, &mut others[1], pairs[2].0, pairs[2].1);
    assert_eq!((here.node.targets(), there.node.targets()), (0, 0));
    assert_eq!(a.context.shared_counts().initiators, 0);
    // And again.
    let pair = connect(&mut a, &mut others[0]);
    exchange(&mut a, &mut others[0], pair, 9);
}

#[test]
fn a_process_that_goes_without_a_word_leaves_its_target_to_the_others() {
    let Some((_here, there, mut a, mut others, pairs)) = one_and_many(3) else { return };
    let gone = others.remove(0);
    drop(gone);
    there.node.clear_slot(0);
    for round in 0..20 {
        let number = (round % 2) as usize;
        exchange(&mut a, &mut others[number], pairs[1 + number], round);
    }
    a.context.destroy_qp(pairs[0].0);
    exchange(&mut a, &mut others[0], pairs[1], 7);
}

#[test]
fn processes_of_one_node_and_those_that_do_not_share_have_their_own() {
    if !has_xrc() {
        return;
    }
    let (here, there) = (Home::new(0, 2), Home::new(1, 2));
    let (mut a, mut b) = (here.open(0), here.open(1));
    let mut alone = there.host.open_with(&Config { xrc: false, ..there.config(0) });
    let (near, far) = (connect(&mut a, &mut b), connect(&mut a, &mut alone));
    assert!(!a.context.shares(near.0) && !a.context.shares(far.0));
    assert_eq!((a.card().shares(&b.card()), a.card().shares(&alone.card())), (None, None));
    exchange(&mut a, &mut b, near, 1);
    exchange(&mut a, &mut alone, far, 2);
    let mut sharing = there.open(1);
    let pair = connect(&mut a, &mut sharing);
    assert!(a.context.shares(pair.0) && a.card().shares(&sharing.card()).is_some());
    exchange(&mut a, &mut sharing, pair, 3);
    exchange(&mut a, &mut b, near, 4);
}

#[test]
fn a_spawned_job_finds_the_connections_of_its_node() {
    let Some((_here, there, mut a, mut others, pairs)) = one_and_many(2) else { return };
    let spawned = there.beside(2);
    let mut children = spawned.open_all();
    for child in &mut children {
        let pair = connect(&mut a, child);
        exchange(&mut a, child, pair, 1);
        assert_eq!(child.context.shared_counts().targets_found, 1);
    }
    assert_eq!((a.context.shared_counts().initiators, a.context.shared_counts().indirect), (1, 3));
    exchange(&mut a, &mut others[0], pairs[0], 2);
}

#[test]
fn what_breaks_one_breaks_all_of_its_node_and_all_can_connect_again() {
    let Some((_here, _there, mut a, mut others, pairs)) = one_and_many(3) else { return };
    let mut far = Home::new(2, 1).open(0);
    let unharmed = connect(&mut a, &mut far);
    exchange(&mut a, &mut far, unharmed, 1);
    let mut got = [0; 8];
    let nowhere = RemoteMemory { addr: 4096, key: banyan_fabric::MrKey(0) };
    let Ok(Posted::Later(work)) = a.context.rdma_read(pairs[1].0, target(&mut got), nowhere) else {
        panic!()
    };
    let (mut broken, mut failed) = (Vec::new(), None);
    wait("the end", || {
        match a.poll() {
            Some(Got::Done(ended, result)) if ended == work => failed = Some(result),
            Some(Got::Broken(qp, _)) => broken.push(qp),
            None => {}
            other => panic!("{other:?}"),
        }
        (broken.len() == 3 && failed.is_some()).then_some(())
    });
    assert_eq!(failed, Some(Err(WorkError::Key)));
    assert!(pairs.iter().all(|(qa, _)| broken.contains(qa)), "each with a word");
    for (b, (_, qb)) in others.iter_mut().zip(&pairs) {
        let heard = wait("a word", || b.poll());
        assert!(matches!(heard, Got::Broken(qp, _) if qp == *qb), "{heard:?}");
    }
    pairs.iter().for_each(|(qa, _)| a.context.destroy_qp(*qa));
    others.iter_mut().zip(&pairs).for_each(|(b, (_, qb))| b.context.destroy_qp(*qb));
    for b in &mut others {
        let pair = connect(&mut a, b);
        (0..5).for_each(|number| exchange(&mut a, b, pair, number));
    }
    exchange(&mut a, &mut far, unharmed, 2);
}

/// One side has closed, and its node has no target any more; the other has not, and connects to another process of that node.
#[test]
fn a_target_that_is_gone_is_followed_by_another() {
    let Some((_here, there, mut a, mut others, pairs)) = one_and_many(2) else { return };
    for _ in 0..10 {
        let Some((first, others)) = others.split_first_mut() else { panic!() };
        let (qa, qb) = connect(&mut a, first);
        exchange(&mut a, first, (qa, qb), 1);
        first.context.destroy_qp(pairs[0].1);
        others[0].context.destroy_qp(pairs[1].1);
        first.context.destroy_qp(qb);
        assert_eq!(there.node.targets(), 0);
        let pair = connect(&mut a, &mut others[0]);
        (0..5).for_each(|number| exchange(&mut a, &mut others[0], pair, number));
        a.context.destroy_qp(qa);
        exchange(&mut a, &mut others[0], pair, 7);
        close(&mut a, &mut others[0], pair.0, pair.1);
    }
}

#[test]
fn work_of_a_pair_that_goes_ends_and_the_others_go_on() {
    let Some((_here, _there, mut a, mut others, pairs)) = one_and_many(2) else { return };
    let mut memory = pattern(1 << 20, 3);
    let buf = target(&mut memory).as_source();
    let from = RemoteMemory { addr: buf.addr(), key: others[0].context.register(VERBS, buf).unwrap() };
    let mut got = vec![vec![0; 100_000]; 8];
    let mut works = Vec::new();
    for to in &mut got {
        let Ok(Posted::Later(work)) = a.context.rdma_read(pairs[0].0, target(to), from) else { panic!() };
        works.push(work);
        a.context.post_send(pairs[0].0, [1, 1], source(&[1; 60]), Push::Soon).unwrap();
    }
    a.context.destroy_qp(pairs[0].0);
    // Each ends once: the first ones may have been done before.
    let mut results: Vec<_> = works.into_iter().map(|work| a.done(work)).collect();
    results.dedup();
    assert!(
        matches!(&results[..], [Err(WorkError::Broken)] | [Ok(0), Err(WorkError::Broken)] | [Ok(0)]),
        "{results:?}"
    );
    (0..20).for_each(|number| exchange(&mut a, &mut others[1], pairs[1], number));
    assert!(a.is_quiet());
}

#[test]
fn who_sends_to_a_pair_that_is_gone_hears_of_it() {
    let Some((_here, _there, mut a, mut others, pairs)) = one_and_many(2) else { return };
    exchange(&mut a, &mut others[0], pairs[0], 1);
    let other = connect(&mut a, &mut others[0]); // that by which the target is still there
    others[0].context.destroy_qp(pairs[0].1);
    a.send(pairs[0].0, [2, 0], b"nobody");
    let heard = wait("a word", || {
        others[0].poll();
        a.poll()
    });
    assert!(matches!(heard, Got::Broken(qp, _) if qp == pairs[0].0), "{heard:?}");
    exchange(&mut a, &mut others[0], other, 3);
    exchange(&mut a, &mut others[1], pairs[1], 4);
}

#[test]
fn late_requests_of_a_queue_pair_that_is_gone_change_nothing() {
    if !has_xrc() {
        return;
    }
    let (here, there) = (Home::new(0, 1), Home::new(1, 2));
    let (mut a, mut b, mut c) = (here.open(0), there.open(0), there.open(1));
    let (first, _) = a.ask(&b.card());
    let late = b.control();
    a.context.destroy_qp(first); // it gives up, and begins again with another
    let pair = connect(&mut a, &mut c);
    exchange(&mut a, &mut c, pair, 1);
    let qb = b.context.create_qp_for(VERBS, Role::Answers, &a.card()).unwrap();
    b.context.to_init(qb, &a.card(), Role::Answers).unwrap();
    let params = banyan_fabric::Params(late.try_into().unwrap());
    assert!(b.context.to_rtr(qb, &a.card(), &params).is_err(), "what it names is gone");
    b.context.destroy_qp(qb);
    exchange(&mut a, &mut c, pair, 2);
}

#[test]
fn a_device_without_xrc_has_connections_of_its_own() {
    if !has_device() {
        return;
    }
    let (here, there) = (Home::new(0, 1), Home::new(1, 1));
    let (mut a, mut b) = (here.open(0), there.open(0));
    let pair = connect(&mut a, &mut b);
    let has = a.card().is_sharing();
    assert_eq!((a.context.shares(pair.0), a.card().shares(&b.card()).is_some()), (has, has));
    exchange(&mut a, &mut b, pair, 1);
}
