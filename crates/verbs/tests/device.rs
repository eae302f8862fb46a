//! The wrappers on a real device, if there is one: two queue pairs of one process that talk to each other.
#![allow(unsafe_code)] // memory that a device writes

use banyan_verbs::*;
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::{UserBuf, UserBufMut};

const SETTINGS: QpSettings = QpSettings {
    mtu: 1024,
    reads_in: 4,
    reads_out: 4,
    timeout: 14,
    retries: 7,
    rnr_retries: 7,
    rnr_timer: 12,
};
const CAPS: QpCaps = QpCaps { work: 64, receives: 0, sges: 2, inline_bytes: 64 };
const SLOT_BYTES: usize = 4096;
const KEY: u32 = 0x1111_1111;

struct Side {
    context: Rc<Context>,
    pd: Rc<Pd>,
    cq: Rc<Cq>,
    srq: Rc<Srq>,
    arena: Rc<Arena>,
    port: Port,
    gid: Option<Gid>,
}

/// The first device with an active port; `None`, with a word, where there is none.
fn open() -> Option<Side> {
    let devices = match devices() {
        Ok(devices) => devices,
        Err(missing) => {
            eprintln!("skipped: no device: {missing}");
            return None;
        }
    };
    let context = devices.iter().find(|device| device.is_ib_transport())?.open().expect("the device opens");
    let port = context.port(1).expect("a port");
    assert_eq!(port.state, PortState::Active, "{port:?}");
    let gids = context.gids(&port);
    let gid = gids.iter().rev().find(|gid| gid.kind == GidKind::RoceV2).or(gids.first()).copied();
    let pd = Pd::new(&context).expect("a domain");
    let cq = Cq::new(&context, 256).expect("a completion queue");
    let srq = Srq::new(&pd, 64).expect("a shared receive queue");
    let arena = Arena::new(&pd, 64, SLOT_BYTES).expect("memory");
    (0..32).for_each(|slot| srq.post(slot, &arena, slot as usize).expect("a receive"));
    Some(Side { context, pd, cq, srq, arena, port, gid })
}

impl Side {
    fn address(&self) -> Address {
        Address { port: 1, lid: self.port.lid, gids: self.gid.map(|gid| (gid, gid.raw)) }
    }

    fn pair(&self) -> (Qp, Qp) {
        let new = || {
            Qp::new(&self.pd, QpKind::Rc, &self.cq, &self.cq, Some(&self.srq), CAPS).expect("a queue pair")
        };
        let (one, two) = (new(), new());
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        for (own, other, psn) in [(&one, &two, 7), (&two, &one, 9)] {
            assert_eq!(own.state().expect("a state"), State::Reset);
            own.init(1, access).expect("INIT");
            let dest = Dest { address: self.address(), qp: other.num(), psn: 16 - psn };
            own.rtr(&dest, &SETTINGS).expect("RTR");
            own.rts(psn, &SETTINGS).expect("RTS");
            assert_eq!(own.state().expect("a state"), State::Rts);
        }
        (one, two)
    }

    /// The next completion, slept for.
    fn next(&self) -> Completion {
        let until = Instant::now() + Duration::from_secs(20);
        let mut found = Vec::new();
        while found.is_empty() {
            assert!(Instant::now() < until, "nothing has completed");
            self.cq.arm().expect("armed");
            self.cq.poll(|completion| found.push(completion)).expect("polled");
            if found.is_empty() {
                sleep_for(&self.cq);
                self.cq.take_events();
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// The next two, of which one is a receive.
    fn both(&self) -> (Completion, Completion) {
        let received =
            |completion: &Completion| matches!(completion.outcome, Outcome::Done { received: true, .. });
        let mut all = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while all.len() < 2 {
            assert!(Instant::now() < until, "{all:?}");
            self.cq.poll(|completion| all.push(completion)).expect("polled");
        }
        let at = all.iter().position(received).expect("a receive");
        let receive = all.remove(at);
        (all.remove(0), receive)
    }
}

/// Sleeps until the queue has something, or a second.
fn sleep_for(cq: &Cq) {
    let set = sys::poll::Poll::new().expect("a set");
    set.add(cq.wake_fd(), 0, sys::poll::Interest::Read).expect("watched");
    set.wait(Some(1000), &mut Vec::new()).expect("slept");
}

fn done(completion: &Completion) -> (u64, usize) {
    match completion.outcome {
        Outcome::Done { bytes, .. } => (completion.id, bytes),
        ref failed => panic!("{completion:?}: {failed:?}"),
    }
}

#[test]
fn messages_reads_writes_and_atomics() {
    let Some(side) = open() else { return };
    let limits = side.context.limits().expect("limits");
    println!("{} {limits:?} {:?} {:?}", side.context.name(), side.port, side.context.gids(&side.port));
    let (one, two) = side.pair();
    println!("queue pairs {:#x} and {:#x}", one.num(), two.num());
    // Copied now, from two places.
    let (head, tail) = (*b"head", *b"and tail");
    one.post(&Work::new(100, Operation::SendCopied(&[head[..].into(), tail[..].into()]))).expect("posted");
    let (sent, received) = side.both();
    assert_eq!((done(&sent).0, done(&received).1), (100, 12));
    let mut text = [0; 12];
    side.arena.read(received.id as usize, 0, &mut text);
    assert_eq!(&text, b"headand tail");
    // From registered memory.
    side.arena.write(40, 0, &[5; SLOT_BYTES]);
    two.post(&Work::new(101, Operation::Send(&[side.arena.local(40, SLOT_BYTES)]))).expect("posted");
    let (_, received) = side.both();
    assert_eq!((received.qp, done(&received).1), (one.num(), SLOT_BYTES));
    // One-sided, and what may not be done.
    let mut memory = vec![0u64; 1024];
    // SAFETY: only looked at when nothing is under way.
    let target = unsafe { UserBufMut::new(memory.as_mut_ptr().cast(), 8192) };
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let mr = side.pd.register_mut(&target, access).expect("registered");
    let at = |word: u64| Remote { addr: mr.addr() + 8 * word, key: mr.remote_key() };
    side.arena.write(41, 0, &77u64.to_le_bytes());
    one.post(&Work::new(1, Operation::Write { from: &[side.arena.local(41, 8)], to: at(3) }))
        .expect("posted");
    assert_eq!(done(&side.next()).0, 1);
    let into = side.arena.local(42, 8);
    if limits.atomics != Atomics::None {
        one.post(&Work::new(2, Operation::FetchAdd { into: &into, at: at(3), add: 5 })).expect("posted");
        assert_eq!(done(&side.next()).0, 2);
        one.post(&Work::new(3, Operation::CompareSwap { into: &into, at: at(3), expected: 82, new: 9 }))
            .expect("posted");
        assert_eq!(done(&side.next()).0, 3);
    }
    one.post(&Work::new(4, Operation::Read { into: &[side.arena.local(43, 8)], from: at(3) }))
        .expect("posted");
    done(&side.next());
    let mut word = [0; 8];
    side.arena.read(43, 0, &mut word);
    assert_eq!(u64::from_le_bytes(word), if limits.atomics == Atomics::None { 77 } else { 9 });
    let outside = Remote { addr: mr.addr() + 8192, key: mr.remote_key() };
    one.post(&Work::new(5, Operation::Read { into: &[side.arena.local(43, 8)], from: outside }))
        .expect("posted");
    let Outcome::Failed(failed) = side.next().outcome else { panic!("outside of what is registered") };
    assert!(failed.was_refused(), "{failed}");
    assert_eq!(one.state().expect("a state"), State::Error);
    drop(mr);
    drop(memory);
}

#[test]
fn datagrams() {
    let Some(side) = open() else { return };
    let qp = Qp::new(&side.pd, QpKind::Ud, &side.cq, &side.cq, Some(&side.srq), CAPS).expect("a queue pair");
    qp.start_datagrams(1, KEY).expect("RTS");
    let ah = Ah::new(&side.pd, &side.address()).expect("an address");
    let hello = UserBuf::of_static(b"hello");
    let pieces = [(&hello).into()];
    let work = Work {
        datagram: Some((&ah, qp.num(), KEY)),
        immediate: Some(6),
        ..Work::new(8, Operation::SendCopied(&pieces))
    };
    qp.post(&work).expect("posted");
    let (_, received) = side.both();
    let Outcome::Done { bytes, immediate, source, .. } = received.outcome else { panic!("{received:?}") };
    // What a datagram went through comes before it.
    assert_eq!((bytes, immediate, source), (40 + 5, Some(6), qp.num()));
    let mut text = [0; 5];
    side.arena.read(received.id as usize, 40, &mut text);
    assert_eq!(&text, b"hello");
}

#[test]
fn what_a_device_lacks_is_an_error() {
    let Some(side) = open() else { return };
    let xrc = side.context.limits().expect("limits").xrc;
    assert_eq!(Xrcd::open(&side.context, None).is_ok(), xrc);
    assert!(
        Qp::new(&side.pd, QpKind::Rc, &side.cq, &side.cq, None, QpCaps { work: 1 << 30, ..CAPS }).is_err()
    );
    // SAFETY: never accessed: it is refused.
    let nowhere = unsafe { UserBuf::new(std::ptr::without_provenance(4096), 1 << 20) };
    let refused = side.pd.register(&nowhere, Access::READ).expect_err("nothing is there");
    assert!(refused.to_string().starts_with("ibv_reg_mr: "), "{refused}");
    assert!(side.context.next_event().is_none());
}
