//! A process that reaches one peer through an RDMA device and another one through sockets.
use super::rig::*;
use banyan_fabric::{Posted, ProviderKind, RemoteMemory, WorkId};

const VERBS: ProviderKind = ProviderKind::Verbs;
const SOCKETS: ProviderKind = ProviderKind::Sockets;

/// More than the kernel takes at once.
const LONG: usize = 32 << 20;

/// Who has both, and who has only the one or the other.
fn one_of_each() -> Option<(Peer, Peer, Peer)> {
    if !has_device() {
        return None;
    }
    let (device, net) = (Host::new(VERBS, 2, 100), Host::new(SOCKETS, 1, 100));
    let mut both = device.open(0);
    both.context.open_sockets(&on_loopback()).unwrap();
    Some((both, device.open(1), net.open(0)))
}

/// The end of work, whatever ends or comes before it.
fn ends(peer: &mut Peer, ended: &mut Vec<WorkId>) {
    match peer.poll_whole() {
        Some(Got::Done(work, result)) => {
            assert_eq!(result, Ok(0));
            ended.push(work);
        }
        None => {}
        other => panic!("{other:?}"),
    }
}

/// Both providers number their first work: whoever keeps it by its number must not take one for the other.
#[test]
fn verbs_and_sockets_number_their_work_apart() {
    let Some((mut a, mut b, mut c)) = one_of_each() else { return };
    let (to_b, _) = connect(&mut a, &mut b);
    a.kind = SOCKETS;
    let (to_c, at_c) = connect(&mut a, &mut c);
    let (message, memory, mut read) = (pattern(LONG, 1), pattern(100_000, 2), vec![0; 100_000]);
    let key = b.context.register(VERBS, source(&memory)).unwrap();
    let from = RemoteMemory { addr: memory.as_ptr() as u64, key };
    let Ok(Posted::Later(reads)) = a.context.rdma_read(to_b, target(&mut read), from) else { panic!() };
    let Posted::Later(sends) = a.send(to_c, [1, 2], &message) else { panic!("the kernel has taken it all") };
    assert_ne!(reads, sends);
    let (mut ended, mut got) = (Vec::new(), None);
    wait("both ends", || {
        ends(&mut a, &mut ended);
        got = got.take().or_else(|| c.poll_whole());
        (ended.len() == 2 && got.is_some()).then_some(())
    });
    ended.sort();
    let mut works = [reads, sends];
    works.sort();
    assert_eq!(ended, works);
    assert!(got == Some(Got::Message(at_c, [1, 2], message)) && read == memory);
}
