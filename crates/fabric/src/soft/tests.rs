use super::*;
use crate::provider::PostError;
use proto::wireup::Params;

fn open(node: &NodeSegment, slot: u32) -> Soft {
    let node = Node::Agent { segment: node.locator().unwrap(), slot };
    let config = Config {
        node,
        cma: false,
        force_net: false,
        faults: None,
        ring_bytes_max: 1 << 20,
        conn_memory: None,
        imitation: Default::default(),
        xrc: false,
    };
    Soft::open(&config).unwrap()
}

fn card(of: &Soft) -> Card {
    Card {
        host: [1, 2],
        node: 0,
        soft: Some(of.locator().unwrap()),
        sockets: None,
        verbs: None,
        shared: false,
    }
}

/// Queue pairs of two processes that are connected to each other.
fn connected(a: &mut Soft, b: &mut Soft) -> (Qp, Qp) {
    let (qa, qb) = (a.create(QpClaim::Answer).unwrap(), b.create(QpClaim::Answer).unwrap());
    let (to_a, to_b) = (card(a), card(b));
    let of_a: Params = a.init(qa, &to_b, Role::Answers).unwrap();
    let of_b: Params = b.init(qb, &to_a, Role::Answers).unwrap();
    for (of, qp, to, params) in [(&mut *a, qa, to_b, of_b), (&mut *b, qb, to_a, of_a)] {
        of.rtr(qp, &to, &params).unwrap();
        of.rts(qp).unwrap();
    }
    (qa, qb)
}

#[test]
fn what_is_too_long_without_a_ring_that_cannot_be_mapped_is_said_to_be() {
    let facts = NodeFacts {
        node: 0,
        slots: 2,
        cores: 2,
        core_set: Default::default(),
        qp_max: 10,
        oversubscribed: true,
        host: [1, 2],
        key: [3, 4, 5, 6],
        pid_space: sys::node::pid_space(),
    };
    let node = NodeSegment::create(&facts).unwrap();
    let (mut a, mut b) = (open(&node, 0), open(&node, 1));
    let (qa, qb) = connected(&mut a, &mut b);
    let long = vec![7; 20_000];
    assert!(matches!(a.post_send_bytes(qa, [1, 1], &long), Err(PostError::Full)));
    // It asks for a larger one, and is offered one beyond the end of the peer's memory.
    let inbound = b.entry_mut(qb).unwrap().inbound.as_mut().unwrap();
    inbound.ring.offer(1 << 40, memory::RING_SIZES[1]);
    let refused = a.post_send_bytes(qa, [1, 1], &long);
    let Err(PostError::TooLong { bytes: 20_000, max }) = refused else { panic!("{refused:?}") };
    assert_eq!(a.fragment_max(qa), max);
    a.post_send_bytes(qa, [1, 1], &long[..max]).unwrap();
}
