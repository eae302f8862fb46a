//! Reads, writes and atomics on registered memory.
use super::rig::*;
use banyan_fabric::{
    AtomicOp, AtomicPosted, MrKey, Posted, ProviderKind, Qp, RdmaError, RemoteMemory, WorkError,
};

crate::on_every_provider!(
    reads_and_writes_touch_only_what_is_registered,
    many_requests_end_once_each_and_in_order,
    memory_that_comes_anew_is_read_anew,
    transfers_may_be_longer_than_messages,
    atomics_return_what_was_there,
);

/// Reading: the end, whatever way it comes. The other process serves.
fn read(a: &mut Peer, b: &mut Peer, qp: Qp, to: &mut [u8], from: RemoteMemory) -> Result<(), WorkError> {
    match a.context.rdma_read(qp, target(to), from) {
        Ok(posted) => end(a, b, posted),
        Err(RdmaError::Key) => Err(WorkError::Key),
        Err(error) => panic!("{error}"),
    }
}

fn write(a: &mut Peer, b: &mut Peer, qp: Qp, from: &[u8], to: RemoteMemory) -> Result<(), WorkError> {
    match a.context.rdma_write(qp, source(from), to) {
        Ok(posted) => end(a, b, posted),
        Err(RdmaError::Key) => Err(WorkError::Key),
        Err(error) => panic!("{error}"),
    }
}

fn end(a: &mut Peer, b: &mut Peer, posted: Posted) -> Result<(), WorkError> {
    let Posted::Later(work) = posted else { return Ok(()) };
    wait("the end of a request", || {
        assert_eq!(b.poll(), None);
        a.poll().map(|got| match got {
            Got::Done(ended, result) if ended == work => result.map(drop),
            other => panic!("{other:?}"),
        })
    })
}

/// A read that is refused, and breaks the connection.
fn refused(a: &mut Peer, b: &mut Peer, qp: Qp, to: &mut [u8], from: RemoteMemory) -> WorkError {
    let Ok(Posted::Later(work)) = a.context.rdma_read(qp, target(to), from) else {
        panic!("it is not posted")
    };
    let (mut why, mut broken) = (None, false);
    wait("the end of a request", || {
        b.poll();
        match a.poll() {
            Some(Got::Done(ended, Err(error))) if ended == work => why = Some(error),
            Some(Got::Broken(ended, _)) if ended == qp => broken = true,
            None => {}
            other => panic!("{other:?}"),
        }
        why.filter(|_| broken)
    })
}

fn reads_and_writes_touch_only_what_is_registered(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, _) = connect(&mut a, &mut b);
    for bytes in [1000usize, 300_000] {
        let mut memory = pattern(bytes, 0);
        let buf = target(&mut memory).as_source();
        let key = b.context.register(kind, buf).unwrap();
        let at = |offset: usize| RemoteMemory { addr: buf.addr() + offset as u64, key };
        let mut got = vec![0u8; bytes - 400];
        read(&mut a, &mut b, qa, &mut got, at(400)).unwrap();
        assert_eq!(got, pattern(bytes, 0)[400..]);
        write(&mut a, &mut b, qa, &vec![255; bytes - 990], at(990)).unwrap();
        write(&mut a, &mut b, qa, &[], at(bytes)).unwrap();
        if a.context.caps(kind).refusals_break {
            assert_eq!(refused(&mut a, &mut b, qa, &mut got, at(401)), WorkError::Key);
            return cannot(kind, "go on after a refusal (the rest of this one)");
        }
        assert_eq!(read(&mut a, &mut b, qa, &mut got, at(401)), Err(WorkError::Key));
        assert_eq!(write(&mut a, &mut b, qa, &got, at(401)), Err(WorkError::Key));
        let wrong = RemoteMemory { key: MrKey(key.0 + 1), ..at(0) };
        assert_eq!(read(&mut a, &mut b, qa, &mut got, wrong), Err(WorkError::Key));
        b.context.deregister(kind, key);
        assert_eq!(read(&mut a, &mut b, qa, &mut got, at(0)), Err(WorkError::Key));
        assert_eq!(write(&mut a, &mut b, qa, &[0], at(0)), Err(WorkError::Key));
        assert_eq!(
            (&memory[..990], &memory[990..]),
            (&pattern(bytes, 0)[..990], &vec![255; bytes - 990][..])
        );
        // After refusals the connection is as good as before.
        a.send(qa, [1, 1], b"still here");
        assert_eq!(b.message().2, b"still here");
    }
}

fn many_requests_end_once_each_and_in_order(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, _) = connect(&mut a, &mut b);
    let mut memory = pattern(1 << 20, 0);
    let buf = target(&mut memory).as_source();
    let key = b.context.register(kind, buf).unwrap();
    let mut got = vec![vec![0u8; 10_000]; 100];
    let mut later = Vec::new();
    for (i, to) in got.iter_mut().enumerate() {
        let from = RemoteMemory { addr: buf.addr() + 10_000 * i as u64, key };
        match a.context.rdma_read(qa, target(to), from) {
            Ok(Posted::Done) => {}
            Ok(Posted::Later(work)) => later.push(work),
            other => panic!("{other:?}"),
        }
    }
    for work in later {
        let got = wait("the end of a read", || {
            assert_eq!(b.poll(), None);
            a.poll()
        });
        assert_eq!(got, Got::Done(work, Ok(0)));
    }
    for (i, got) in got.iter().enumerate() {
        assert_eq!(got[..], memory[10_000 * i..][..10_000]);
    }
    assert!(a.is_quiet() && b.is_quiet());
}

/// Blocks of this size are mapped when they are allocated and unmapped when they are freed, as a rule at the same address.
fn memory_that_comes_anew_is_read_anew(kind: ProviderKind) {
    const BYTES: usize = 33 << 20;
    let (mut a, mut b) = pair(kind);
    let (qa, _) = connect(&mut a, &mut b);
    let mut places = Vec::new();
    for round in 1..=4u8 {
        let (mut memory, mut got) = (vec![round; BYTES], vec![0; BYTES]);
        let buf = target(&mut memory).as_source();
        places.push(buf.addr());
        // Twice: what is kept from the first time is used again.
        for again in 0..2 {
            let key = b.context.register(kind, buf).unwrap();
            for offset in [0, 5000, BYTES - 70_000] {
                let from = RemoteMemory { addr: buf.addr() + offset as u64, key };
                let to = &mut got[offset..offset + 70_000];
                read(&mut a, &mut b, qa, to, from).unwrap();
                assert!(to.iter().all(|byte| *byte == round), "round {round}, {again}, at {offset}");
                write(&mut a, &mut b, qa, &[round + 100; 7000], from).unwrap();
                assert!(memory[offset..offset + 7000].iter().all(|byte| *byte == round + 100));
                target(&mut memory[offset..offset + 7000]).copy_from(&source(&[round; 7000]));
            }
            b.context.deregister(kind, key);
        }
    }
    let (made, kept) = b.context.registrations();
    eprintln!("blocks were at {places:x?}; {made} registrations, {kept} times one that was kept");
}

fn transfers_may_be_longer_than_messages(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    let (qa, _) = connect(&mut a, &mut b);
    let most = a.context.rdma_bytes_max(kind);
    // (Through sockets, whoever asks cuts.)
    let cuts = kind == ProviderKind::Verbs && most <= 16 << 20;
    let bytes = if cuts { 2 * most + 777 } else { most.min(100_000) };
    let (mut memory, mut got) = (pattern(bytes, 3), vec![0; bytes]);
    let buf = target(&mut memory).as_source();
    let key = b.context.register(kind, buf).unwrap();
    let at = RemoteMemory { addr: buf.addr(), key };
    read(&mut a, &mut b, qa, &mut got, at).unwrap();
    assert!(got == pattern(bytes, 3));
    write(&mut a, &mut b, qa, &pattern(bytes, 8), at).unwrap();
    assert!(memory == pattern(bytes, 8));
}

fn atomics_return_what_was_there(kind: ProviderKind) {
    let (mut a, mut b) = pair(kind);
    if !a.context.caps(kind).atomics {
        return cannot(kind, "change words in one step");
    }
    let (qa, _) = connect(&mut a, &mut b);
    // Memory that every provider can do them in.
    let region = b.context.allocate(4096).unwrap().unwrap();
    let mut words = [0u64; 4];
    let (addr, key) = match kind {
        ProviderKind::Soft => (region.map.addr(), region.key),
        ProviderKind::Sockets | ProviderKind::Verbs => {
            // SAFETY: the words live until the end of the test, and are read when the operations are over.
            let buf = unsafe { sys::UserBufMut::new(words.as_mut_ptr().cast(), 32) };
            (buf.addr(), b.context.register(kind, buf.as_source()).unwrap())
        }
    };
    let mut atomic =
        |op, offset: u64| match a.context.rdma_atomic(qa, op, RemoteMemory { addr: addr + offset, key }) {
            Ok(AtomicPosted::Done(old)) => Ok(old),
            Ok(AtomicPosted::Later(work)) => wait("the end of an atomic", || {
                assert_eq!(b.poll(), None);
                a.poll().map(|got| match got {
                    Got::Done(ended, result) if ended == work => result,
                    other => panic!("{other:?}"),
                })
            }),
            Err(RdmaError::Key) => Err(WorkError::Key),
            Err(RdmaError::Atomic) => Err(WorkError::Atomic),
            Err(error) => panic!("{error}"),
        };
    assert_eq!(atomic(AtomicOp::Add(5), 8), Ok(0));
    assert_eq!(atomic(AtomicOp::Add(u64::MAX), 8), Ok(5));
    assert_eq!(atomic(AtomicOp::Swap { expected: 5, new: 9 }, 8), Ok(4));
    assert_eq!(atomic(AtomicOp::Swap { expected: 4, new: 9 }, 8), Ok(4));
    assert_eq!(atomic(AtomicOp::Add(0), 8), Ok(9));
    assert_eq!(atomic(AtomicOp::Add(1), 4), Err(WorkError::Atomic));
    if kind == ProviderKind::Verbs {
        cannot(kind, "go on after a refusal (the last of this one)");
    } else {
        assert_eq!(atomic(AtomicOp::Add(1), 1 << 20), Err(WorkError::Key));
    }
}
