//! What the soft provider does besides.
use super::rig::*;
use banyan_fabric::state::QpState;
use banyan_fabric::{Config, CreateError, ProviderKind, RdmaError, RemoteMemory, Role};
use std::sync::atomic::Ordering;

const SOFT: ProviderKind = ProviderKind::Soft;

fn pair_without_cma() -> (Peer, Peer) {
    let host = Host::new(SOFT, 2, 100);
    let open = |slot| host.open_with(&Config { cma: false, ..host.config(slot) });
    (open(0), open(1))
}

#[test]
fn the_device_limit_is_refused_and_given_back() {
    let host = Host::new(SOFT, 2, 4);
    let (mut a, mut b) = (host.open(0), host.open(1)); // one each for datagrams
    let first = a.context.create_qp(SOFT).unwrap();
    b.context.create_qp(SOFT).unwrap();
    assert!(matches!(b.context.create_qp(SOFT), Err(CreateError::Device(limit)) if limit.max == 4));
    a.context.destroy_qp(first);
    b.context.create_qp(SOFT).unwrap();
    drop(b);
    assert_eq!(host.node.qps_in_use(), 1);
}

#[test]
fn a_peer_on_another_host_or_gone_is_an_error() {
    let (mut a, b) = pair(SOFT);
    let elsewhere = banyan_fabric::Card { host: [9, 9], ..b.card() };
    assert!(a.context.send_control(None, &elsewhere, b"x").is_err());
    let mut gone = b.card();
    if let Some(segment) = &mut gone.soft {
        segment.start_ticks += 1;
        segment.pid += 1_000_000;
    }
    assert!(a.context.send_control(None, &gone, b"x").is_err());
}

#[test]
fn parameters_of_no_ring_are_refused() {
    let (mut a, mut b) = pair(SOFT);
    let qp = a.context.create_qp(SOFT).unwrap();
    let card = b.card();
    a.context.to_init(qp, &card, Role::Asks).unwrap();
    let other = b.context.create_qp(SOFT).unwrap();
    let params = b.context.to_init(other, &a.card(), Role::Answers).unwrap();
    // Of the ring its number, offset and length; the length of the one for early messages.
    for at in [7, 15, 16, 20] {
        let mut wrong = params;
        wrong.0[at] ^= 0x81;
        assert!(a.context.to_rtr(qp, &card, &wrong).is_err(), "byte {at}");
        assert_eq!(a.context.qp_state(qp), QpState::Init);
    }
}

#[test]
fn a_longer_message_gets_a_larger_ring() {
    let (mut a, mut b) = pair(SOFT);
    let (qa, _) = connect(&mut a, &mut b);
    let small = a.context.mapped_bytes();
    let message = pattern(200_000, 0);
    wait("room", || {
        assert_eq!(b.poll(), None);
        a.context.post_send(qa, [0, 0], source(&message), banyan_fabric::Push::Now).ok()
    });
    assert_eq!(b.message().2, message);
    assert!(a.context.mapped_bytes() > small);
}

#[test]
fn where_it_is_forbidden_rdma_says_so() {
    let (mut a, mut b) = pair_without_cma();
    let (qa, _) = connect(&mut a, &mut b);
    let memory = [5u8; 10];
    let key = b.context.register(SOFT, source(&memory)).unwrap();
    let at = RemoteMemory { addr: memory.as_ptr() as u64, key };
    let mut got = [0; 10];
    assert!(matches!(a.context.rdma_read(qa, target(&mut got), at), Err(RdmaError::Forbidden)));
}

#[test]
fn memory_in_the_segment_is_reached_without_cma() {
    let (mut a, mut b) = pair_without_cma();
    let (qa, _) = connect(&mut a, &mut b);
    let region = b.context.allocate(10_000).unwrap().unwrap();
    let at = |offset: u64| RemoteMemory { addr: region.map.addr() + offset, key: region.key };
    a.context.rdma_write(qa, source(&7u64.to_le_bytes()), at(8000)).unwrap();
    assert_eq!(region.map.u64_at(8000).load(Ordering::Acquire), 7);
    let mut got = [0; 16];
    a.context.rdma_read(qa, target(&mut got), at(7992)).unwrap();
    assert_eq!(got, [0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    let end = at(region.map.bytes() as u64 - 8);
    assert!(matches!(a.context.rdma_read(qa, target(&mut got), end), Err(RdmaError::Key)));
    let stale = at(0);
    b.context.free(region);
    assert!(matches!(a.context.rdma_read(qa, target(&mut got), stale), Err(RdmaError::Key)));
}
