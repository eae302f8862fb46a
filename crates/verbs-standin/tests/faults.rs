//! Limits, ports that go down, devices that are removed, datagrams that are lost.
mod rig;

use rig::*;
use std::time::{Duration, Instant};
use verbs::*;

#[test]
fn words_that_make_no_sense_leave_no_device() {
    const TEST: &str = "words_that_make_no_sense_leave_no_device";
    if is_child() {
        assert_eq!(devices().unwrap_err(), Missing::Device("there is none".into()));
        return;
    }
    let output = process(TEST, "qpz=3").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("standin: BANYAN_TEST_STANDIN: qpz=3: there is no such word"), "{said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn limits_are_told_and_kept() {
    let words = "qps=2,registered=300K,inline=0,sges=1,message=64K,cqes=300,no-atomics";
    with(words, "limits_are_told_and_kept", || {
        let side = Side::open(0);
        let limits = side.context.limits().unwrap();
        assert_eq!((limits.qps, limits.sges, limits.cq_entries), (2, 1, 300));
        assert_eq!((limits.region_bytes, limits.atomics), (300 << 10, Atomics::None));
        assert_eq!(side.port.message_max, 64 << 10);
        assert!(Cq::new(&side.context, 301).is_err());
        let refused = Arena::new(&side.pd, 64, SLOT_BYTES).unwrap_err();
        assert_eq!(refused.error.raw_os_error(), Some(12), "{refused}");
        let small = QpCaps { sges: 1, inline_bytes: 0, ..CAPS };
        let new = |caps| Qp::new(&side.pd, QpKind::Rc, &side.cq, &side.cq, Some(&side.srq), caps);
        assert!(new(QpCaps { inline_bytes: 1, ..small }).is_err());
        assert!(new(QpCaps { sges: 2, ..small }).is_err());
        let _two = (new(small).unwrap(), new(small).unwrap());
        let refused = new(small).unwrap_err();
        assert_eq!(refused.error.raw_os_error(), Some(12), "{refused}");
    });
}

#[test]
fn a_completion_queue_that_is_too_small_breaks() {
    with("", "a_completion_queue_that_is_too_small_breaks", || {
        let side = Side::open(8);
        let small = Cq::new(&side.context, 2).unwrap();
        let new = || Qp::new(&side.pd, QpKind::Rc, &small, &small, Some(&side.srq), CAPS).unwrap();
        let (one, two) = (new(), new());
        side.connect(&one, two.num(), &SETTINGS);
        side.connect(&two, one.num(), &SETTINGS);
        (0..2).for_each(|id| side.send(&one, 100 + id, b"x"));
        assert_eq!(side.event(), AsyncEvent::Fatal("CQ error".into()));
    });
}

#[test]
fn infiniband_needs_no_gid() {
    with("link=infiniband,ports=2,down=2,devices=2", "infiniband_needs_no_gid", || {
        let devices = devices().unwrap();
        assert_eq!(devices.iter().map(Device::name).collect::<Vec<_>>(), ["standin0", "standin1"]);
        let second = devices[1].open().unwrap();
        assert_ne!(second.port(1).unwrap().lid, second.port(2).unwrap().lid);
        assert_eq!(second.port(2).unwrap().state.to_string(), "down");
        let side = Side::open(4);
        assert!(side.gid.is_none() && side.port.lid != 0 && side.port.link == LinkLayer::InfiniBand);
        let (one, _two) = side.pair();
        side.send(&one, 1, b"hello");
        side.completions(2);
        // One device reaches the other one's queue pairs, at its address.
        let other = Side::on(second, 4);
        let (here, there) = (side.qp(), other.qp());
        for (own, qp, to) in [(&side, &here, (&other, &there)), (&other, &there, (&side, &here))] {
            qp.init(1, Access::READ).unwrap();
            qp.rtr(&Dest { address: to.0.address(), qp: to.1.num(), psn: 0 }, &SETTINGS).unwrap();
            qp.rts(0, &SETTINGS).unwrap();
            assert_ne!(own.address(), to.0.address());
        }
        side.send(&here, 2, b"over there");
        let received = other.completions(1);
        assert_eq!(other.text(received[0].id, 10), b"over there");
    });
}

#[test]
fn a_port_goes_down_and_comes_up() {
    with("", "a_port_goes_down_and_comes_up", || {
        let side = Side::open(8);
        let (one, _two) = side.pair_with(&QpSettings { timeout: 20, ..SETTINGS });
        control("down=1");
        assert_eq!(side.event(), AsyncEvent::PortDown(1));
        assert_eq!(side.context.port(1).unwrap().state.to_string(), "down");
        side.send(&one, 1, b"hello");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(side.cq.poll(|_| ()).unwrap(), 0);
        control("up=1");
        assert_eq!(side.event(), AsyncEvent::PortUp(1));
        side.completions(2);
    });
}

#[test]
fn a_port_that_stays_down_is_given_up() {
    with("", "a_port_that_stays_down_is_given_up", || {
        let side = Side::open(8);
        let (one, _two) = side.pair(); // 0.54 s
        control("down=1");
        let start = Instant::now();
        side.send(&one, 1, b"hello");
        assert!(side.failed().1.is_unanswered());
        assert!(start.elapsed() > Duration::from_millis(500));
    });
}

#[test]
fn a_removed_device_flushes_and_refuses() {
    with("", "a_removed_device_flushes_and_refuses", || {
        let side = Side::open(0);
        let (one, _two) = side.pair();
        side.send(&one, 1, b"nobody has a receive");
        control("remove");
        assert_eq!(side.event(), AsyncEvent::Fatal("local catastrophic error".into()));
        assert!(side.failed().1.is_flushed());
        let io = |error: VerbsError| assert_eq!(error.error.raw_os_error(), Some(5), "{error}");
        io(one.post(&Work::new(2, Operation::SendCopied(&[]))).unwrap_err());
        io(side.context.limits().unwrap_err());
        io(side.context.port(1).unwrap_err());
        io(Pd::new(&side.context).map(drop).unwrap_err());
        io(side.srq.post(1, &side.arena, 1).unwrap_err());
    });
}

#[test]
fn datagrams_are_lost_by_a_seed() {
    with("loss=30,seed=7", "datagrams_are_lost_by_a_seed", || {
        let count = || {
            let side = Side::open(32);
            let qp = Qp::new(&side.pd, QpKind::Ud, &side.cq, &side.cq, Some(&side.srq), CAPS).unwrap();
            qp.start_datagrams(1, 9).unwrap();
            let ah = Ah::new(&side.pd, &side.address()).unwrap();
            let pieces = [b"hello"[..].into()];
            for id in 0..20 {
                let datagram = Some((&ah, qp.num(), 9));
                qp.post(&Work { datagram, ..Work::new(100 + id, Operation::SendCopied(&pieces)) }).unwrap();
            }
            // And one that nobody takes: another key.
            let datagram = Some((&ah, qp.num(), 8));
            qp.post(&Work { datagram, ..Work::new(200, Operation::SendCopied(&pieces)) }).unwrap();
            let (mut sent, mut received) = (0, 0);
            let mut quiet_since = Instant::now();
            while sent < 21 || quiet_since.elapsed() < Duration::from_millis(100) {
                let some = side.cq.poll(|completion| match completion.id {
                    100.. => sent += 1,
                    _ => received += 1,
                });
                if some.unwrap() > 0 {
                    quiet_since = Instant::now();
                }
            }
            received
        };
        let received = count();
        assert!((8..20).contains(&received), "{received} of 20");
        assert_eq!(count(), received);
    });
}
