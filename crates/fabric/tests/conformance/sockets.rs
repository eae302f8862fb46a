//! What the sockets provider does besides: long messages past buffers, breaks, strangers, peers out of reach.
use super::rig::*;
use banyan_fabric::state::QpState;
use banyan_fabric::{
    BreakReason, Config, CreateError, Node, PostError, Posted, ProviderKind, Push, Qp, RemoteMemory, Role,
    WorkError, WorkId, sockets,
};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

const SOCKETS: ProviderKind = ProviderKind::Sockets;
/// More than the kernel takes for a receiver that does not read.
const LONG: usize = 24 << 20;

fn connected() -> (Peer, Peer, Qp, Qp) {
    let (mut a, mut b) = pair(SOCKETS);
    let (qa, qb) = connect(&mut a, &mut b);
    (a, b, qa, qb)
}

fn later(posted: Posted) -> WorkId {
    match posted {
        Posted::Later(work) => work,
        Posted::Done => panic!("done at once"),
    }
}

#[test]
fn a_long_message_goes_straight_into_its_place() {
    let (mut a, mut b, qa, qb) = connected();
    let message = pattern(LONG, 3);
    let work = later(a.send(qa, [1, 2], &message));
    assert_eq!(a.send(qa, [3, 4], b"behind"), Posted::Later(WorkId(work.0 + 1)));
    assert_eq!(wait("the announcement", || b.poll()), Got::Incoming(qb, [1, 2], LONG));
    let mut to = vec![0; LONG];
    let placed = later(b.context.place(qb, target(&mut to)));
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    wait("all of it", || {
        sent.extend(a.poll());
        got.extend(b.poll());
        (sent.len() == 2 && got.len() == 2).then_some(())
    });
    assert_eq!(sent, [Got::Done(work, Ok(0)), Got::Done(WorkId(work.0 + 1), Ok(0))]);
    assert_eq!(got, [Got::Done(placed, Ok(0)), Got::Message(qb, [3, 4], b"behind".to_vec())]);
    assert!(to == message);
    assert!(a.is_quiet() && b.is_quiet());
}

#[test]
fn what_does_not_fit_its_place_is_dropped() {
    let (mut a, mut b, qa, qb) = connected();
    for room in [0, 10, 5000, 99_999] {
        let message = pattern(100_000, room);
        a.send(qa, [1, 2], &message);
        a.send(qa, [3, 4], b"behind");
        let Got::Incoming(..) = wait("the announcement", || b.poll()) else { panic!("not announced") };
        let mut to = vec![255; room + 1];
        let mut ended = b.context.place(qb, target(&mut to[..room])) == Posted::Done;
        let behind = wait("the next message", || {
            a.poll();
            b.poll().filter(|got| {
                let first = !std::mem::replace(&mut ended, true);
                !(first && matches!(got, Got::Done(_, Ok(0))))
            })
        });
        assert_eq!(behind, Got::Message(qb, [3, 4], b"behind".to_vec()));
        assert_eq!((&to[..room], to[room]), (&message[..room], 255));
    }
}

#[test]
fn collected_messages_stay_in_order() {
    let (mut a, mut b, qa, qb) = connected();
    let lengths = [100_000, 10, 4097, 0, 20_000, 5000, 70_000, 1];
    let messages: Vec<Vec<u8>> = lengths.iter().map(|bytes| pattern(*bytes, *bytes)).collect();
    for (i, message) in messages.iter().enumerate() {
        a.send(qa, [i as u64, 0], message);
    }
    for (i, message) in messages.into_iter().enumerate() {
        let got = wait("a message", || {
            a.poll();
            // Whoever does not answer an announcement gets the message as a whole.
            b.poll().filter(|got| !matches!(got, Got::Incoming(..)))
        });
        assert_eq!(got, Got::Message(qb, [i as u64, 0], message));
    }
}

/// What comes until the queue pair is broken and all its work has ended; in order.
fn until_broken(peer: &mut Peer, qp: Qp, works: &[WorkId]) -> (BreakReason, Vec<Got>) {
    let (mut broken, mut before, mut ended) = (None, Vec::new(), Vec::new());
    wait("the break", || {
        match peer.poll_whole() {
            Some(Got::Broken(at, why)) if at == qp && broken.is_none() => broken = Some(why),
            Some(Got::Done(work, Err(WorkError::Broken))) => ended.push(work),
            Some(got) => before.push(got),
            None => {}
        }
        (broken.is_some() && ended.len() >= works.len()).then_some(())
    });
    ended.sort();
    assert_eq!(ended, works);
    assert!(peer.is_quiet());
    assert_eq!(peer.context.qp_state(qp), QpState::Error);
    (broken.unwrap(), before)
}

#[test]
fn work_ends_once_when_the_peer_is_gone() {
    let (mut a, mut b, qa, qb) = connected();
    let (message, mut to) = (pattern(LONG, 1), vec![0; 1000]);
    let key = b.context.register(SOCKETS, source(&message)).unwrap();
    let at = RemoteMemory { addr: message.as_ptr() as u64, key };
    b.send(qb, [8, 8], b"last words");
    let mut works = vec![later(a.context.rdma_read(qa, target(&mut to), at).unwrap())];
    works.push(later(a.send(qa, [0, 0], &message)));
    works.push(later(a.send(qa, [1, 0], &message)));
    works.push(later(a.context.rdma_write(qa, source(&message[..1000]), at).unwrap()));
    drop(b);
    let (why, before) = until_broken(&mut a, qa, &works);
    assert_eq!(why, BreakReason::Closed);
    assert_eq!(before, [Got::Message(qa, [8, 8], b"last words".to_vec())]);
    let refused = a.context.post_send(qa, [0, 0], source(&message), Push::Now);
    assert!(matches!(refused, Err(PostError::State { state: QpState::Error, .. })));
    a.context.destroy_qp(qa);
    assert_eq!(a.context.qps(SOCKETS), 0);
}

#[test]
fn a_receive_in_progress_ends_when_the_peer_is_gone() {
    let (mut a, mut b, qa, qb) = connected();
    let message = pattern(LONG, 1);
    let work = later(a.send(qa, [0, 0], &message));
    let Got::Incoming(..) = wait("the announcement", || b.poll()) else { panic!("not announced") };
    let mut to = vec![0; LONG];
    let placed = later(b.context.place(qb, target(&mut to)));
    a.context.destroy_qp(qa);
    assert_eq!(a.done(work), Err(WorkError::Broken));
    let (why, before) = until_broken(&mut b, qb, &[placed]);
    assert_eq!((why, before), (BreakReason::Closed, vec![]));
}

#[test]
fn everything_sent_before_a_close_arrives() {
    let (mut a, mut b, qa, qb) = connected();
    let message = pattern(LONG, 9);
    for i in 0..5 {
        a.context.post_send_bytes(qa, [i, 0], &message[..3000], Push::Now).unwrap();
    }
    a.context.destroy_qp(qa);
    drop(a);
    for i in 0..5 {
        assert_eq!(b.message(), (qb, [i, 0], message[..3000].to_vec()));
    }
    assert_eq!(until_broken(&mut b, qb, &[]), (BreakReason::Closed, vec![]));
}

#[test]
fn an_end_in_order_is_told_from_being_cut_off() {
    for in_order in [true, false] {
        let (mut a, mut b, qa, qb) = connected();
        b.send(qb, [1, 0], b"last words");
        if !in_order {
            // The kernel resets a stream of which not all was read, and throws away what it would have to send again.
            assert_eq!(a.message(), (qa, [1, 0], b"last words".to_vec()));
            a.send(qa, [2, 0], b"too late");
            wait("the message", || a.context.is_drained(qa).then_some(()));
        }
        drop(b);
        let (why, before) = until_broken(&mut a, qa, &[]);
        assert_eq!((why, before.len()), (BreakReason::Closed, usize::from(in_order)));
        assert_eq!(a.context.has_ended(qa), in_order);
    }
}

/// Whoever posts with [`Push::Now`] computes when it is done, and nobody else sees to what is left.
#[test]
fn what_was_copied_is_done_when_the_kernel_has_it() {
    const POSTS_MAX: u64 = 10_000;
    let message = pattern(20_000, 4);
    for early in [true, false] {
        let (mut a, mut b) = pair(SOCKETS);
        let (card_a, card_b) = (a.card(), b.card());
        let (qa, _) = a.ask(&card_b);
        let request = b.control();
        let qb = b.answer(&card_a, &request);
        if !early {
            let reply = a.control();
            a.connect(qa, &card_b, &reply);
        }
        let post = |a: &mut Peer, i| a.context.post_send_bytes(qa, [i, 0], &message, Push::Now);
        let done = (0..POSTS_MAX).find(|i| post(&mut a, *i) != Ok(Posted::Done)).expect("no end of room");
        for i in 0..done {
            assert_eq!(b.message(), (qb, [i, 0], message.clone()));
        }
    }
}

#[test]
fn memory_that_is_withdrawn_is_not_touched_any_more() {
    let (mut a, mut b, qa, _) = connected();
    let (mut asked, mut given) = (pattern(LONG, 5), vec![0; LONG]);
    let bufs = [target(&mut asked).as_source(), target(&mut given).as_source()];
    let keys = bufs.map(|buf| b.context.register(SOCKETS, buf).unwrap());
    let at = |i: usize| RemoteMemory { addr: bufs[i].addr(), key: keys[i] };
    let (mut to, from) = (vec![0; LONG], vec![255; LONG]);
    let read = later(a.context.rdma_read(qa, target(&mut to), at(0)).unwrap());
    let write = later(a.context.rdma_write(qa, source(&from), at(1)).unwrap());
    // The other side begins with both and can end neither, since nobody takes or sends more.
    wait("the first bytes", || {
        assert_eq!(b.poll(), None);
        (given[0] == 255).then_some(())
    });
    assert_eq!(given[LONG - 1], 0);
    keys.into_iter().for_each(|key| b.context.deregister(SOCKETS, key));
    asked.fill(7);
    given.fill(7);
    let mut ended = Vec::new();
    wait("both ends", || {
        b.poll();
        ended.extend(a.poll());
        (ended.len() == 2).then_some(())
    });
    assert_eq!(ended[0], Got::Done(read, Ok(0)));
    assert_eq!(ended[1], Got::Done(write, Err(WorkError::Key)));
    assert!(to == pattern(LONG, 5), "what was there when it was asked for");
    assert!(given.iter().all(|byte| *byte == 7));
}

#[test]
fn a_read_of_memory_that_is_gone_is_refused() {
    let (mut a, mut b, qa, qb) = connected();
    let gone = unmapped(8192);
    let key = b.context.register(SOCKETS, gone).unwrap();
    let mut to = vec![0; 8192];
    let work =
        later(a.context.rdma_read(qa, target(&mut to), RemoteMemory { addr: gone.addr(), key }).unwrap());
    let got = wait("the refusal", || {
        assert_eq!(b.poll(), None);
        a.poll()
    });
    assert_eq!(got, Got::Done(work, Err(WorkError::Key)));
    b.send(qb, [1, 0], b"well");
    assert_eq!(a.message().2, b"well");
}

#[test]
fn a_send_of_memory_that_is_gone_breaks_the_connection() {
    for bytes in [8192, 1 << 20] {
        let (mut a, mut b, qa, qb) = connected();
        let work = later(a.context.post_send(qa, [1, 0], unmapped(bytes), Push::Now).unwrap());
        let (why, _) = until_broken(&mut a, qa, &[work]);
        assert!(why.to_string().contains("a buffer to be sent cannot be read"), "{why}");
        assert_eq!(until_broken(&mut b, qb, &[]).0, BreakReason::Closed);
    }
}

#[test]
fn a_read_is_served_behind_many_sends() {
    const SENDS: usize = 3000;
    let (mut a, mut b, qa, qb) = connected();
    let (message, mut to) = (pattern(LONG, 1), vec![0; 1000]);
    let key = b.context.register(SOCKETS, source(&message)).unwrap();
    b.send(qb, [0, 0], &message);
    for i in 0..SENDS {
        later(b.send(qb, [1, i as u64], &message[..20_000]));
    }
    let at = RemoteMemory { addr: message.as_ptr() as u64, key };
    let work = later(a.context.rdma_read(qa, target(&mut to), at).unwrap());
    let (mut got, mut answered) = (0, false);
    wait("the answer and all messages", || {
        let served = b.poll();
        assert!(matches!(served, None | Some(Got::Done(_, Ok(0)))), "{served:?}");
        match a.poll_whole() {
            Some(Got::Message(..)) => got += 1,
            Some(Got::Done(done, result)) => {
                assert_eq!((done, result), (work, Ok(0)));
                answered = true;
            }
            None => {}
            other => panic!("{other:?}"),
        }
        (answered && got == SENDS + 1).then_some(())
    });
    assert_eq!(to, message[..1000]);
}

#[test]
fn early_messages_are_bounded() {
    let (mut a, mut b) = pair(SOCKETS);
    let (card_a, card_b) = (a.card(), b.card());
    let (qa, _) = a.ask(&card_b);
    let message = pattern(1000, 0);
    let mut sent = 0;
    let post = |a: &mut Peer, i: u64| a.context.post_send(qa, [i, 0], source(&message), Push::Now);
    while post(&mut a, sent).is_ok() {
        sent += 1;
        assert!(sent < 1000, "no bound");
    }
    assert_eq!(post(&mut a, sent), Err(PostError::Full));
    let request = b.control();
    b.answer(&card_a, &request);
    let reply = a.control();
    a.connect(qa, &card_b, &reply);
    post(&mut a, sent).unwrap();
    for i in 0..=sent {
        assert_eq!(b.message().1, [i, 0]);
    }
}

#[test]
fn strangers_are_refused_counted_and_cost_nothing() {
    let (mut a, mut b, qa, _) = connected();
    let card = b.card().sockets.unwrap();
    let tcp = SocketAddr::new(card.addr, card.tcp);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = b.context.socket_bytes();
    let mut strangers = Vec::new();
    for i in 0..200usize {
        let mut stream = TcpStream::connect(tcp).unwrap();
        match i % 4 {
            0 => stream.write_all(b"GET / HTTP/1.1\r\nHost: somebody's\r\n\r\n       ").unwrap(),
            1 => stream.write_all(&pattern(500, i)).unwrap(),
            2 => stream.write_all(b"BnyH\x01\x00\x10\x00").unwrap(), // and then silence
            _ => {}
        }
        udp.send_to(&pattern(i, i), (card.addr, card.udp)).unwrap();
        udp.send_to(&[b"BnyD", &pattern(i, i)[..]].concat(), (card.addr, card.udp)).unwrap();
        strangers.push(stream);
        assert_eq!(b.poll(), None);
    }
    // Of the connections all but the last 64 silent ones, and all datagrams.
    wait("the last of them", || {
        assert_eq!(b.poll(), None);
        (b.context.strangers() >= 400 + 200 - 64).then_some(())
    });
    assert!(b.context.socket_bytes() < before + (20 << 10), "{} bytes", b.context.socket_bytes() - before);
    // The word that it was refused may be lost, and comes but once: who goes on talking hears it again.
    let first = &mut strangers[0];
    first.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    wait("the end of the first of them", || {
        let _ = first.write(b"?");
        match first.read(&mut [0; 8]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(0) | Err(_) => Some(()),
            Ok(bytes) => panic!("{bytes} bytes for a stranger"),
        }
    });
    a.send(qa, [1, 1], b"unimpressed");
    assert_eq!(b.message().2, b"unimpressed");
}

#[test]
fn whoever_has_another_key_gets_nowhere() {
    let host = Host::new(SOCKETS, 1, 100);
    let mut a = host.open(0);
    let facts = sys::node::NodeFacts { key: [9; 4], ..host.node.facts().clone() };
    let config = Config { node: Node::Own(Box::new(facts)), ..host.config(0) };
    let sockets = sockets::Config { key: Some([9; 32]), ..on_loopback() };
    let mut b = host.open_with_sockets(&config, Some(&sockets));
    let card = a.card();
    let (qb, _) = b.ask(&card);
    b.context.send_control(None, &card, b"let me in").unwrap();
    let why = wait("the refusal", || {
        assert_eq!(a.poll(), None);
        b.poll()
    });
    let Got::Broken(qp, BreakReason::Unreachable { why, .. }) = why else { panic!("{why:?}") };
    assert_eq!(qp, qb);
    assert!(why.contains("key"), "{why}");
    assert!(a.context.strangers() >= 2, "{}", a.context.strangers());
}

#[test]
fn an_impostor_behind_the_peers_port_is_found_out() {
    let (mut a, b) = pair(SOCKETS);
    let impostor = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut card = b.card();
    if let Some(section) = &mut card.sockets {
        section.tcp = impostor.local_addr().unwrap().port();
    }
    let (qa, _) = a.ask(&card);
    let (mut stream, _) = impostor.accept().unwrap();
    stream.write_all(&pattern(500, 0)).unwrap();
    assert_eq!(wait("the break", || a.poll()), Got::Broken(qa, BreakReason::Proof));
}

#[test]
fn nonsense_of_a_peer_breaks_its_connection_alone() {
    // A peer that holds the key and sends what no peer sends: it dials with a hello that was made elsewhere.
    let (mut a, mut b, qa, qb) = connected();
    let secret = proto::stream::Secret::new(key());
    let card = b.card().sockets.unwrap();
    let mut stream = TcpStream::connect((card.addr, card.tcp)).unwrap();
    let mut params = [0; 32];
    params[..8].copy_from_slice(&77u64.to_le_bytes());
    stream.write_all(&secret.hello(1234, card.nonce, 77, &params)).unwrap();
    stream.write_all(&[0xee; 100]).unwrap();
    let request = b.control();
    let mut fake = a.card();
    if let Some(section) = &mut fake.sockets {
        section.nonce = 1234;
    }
    let qp = b.answer(&fake, &request);
    let (why, _) = until_broken(&mut b, qp, &[]);
    assert!(matches!(why, BreakReason::Nonsense(_)), "{why:?}");
    a.send(qa, [1, 1], b"fine");
    assert_eq!(b.message(), (qb, [1, 1], b"fine".to_vec()));
}

fn key() -> [u8; 32] {
    let mut key = [0; 32];
    for (part, word) in key.chunks_exact_mut(8).zip([3u64, 4, 5, 6]) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    key
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let (mut a, b) = pair(SOCKETS);
    let mut card = b.card();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    if let Some(section) = &mut card.sockets {
        section.tcp = free.port();
    }
    let (qa, _) = a.ask(&card);
    let posted = a.context.post_send(qa, [0, 0], source(b"into the void"), Push::Now).unwrap();
    let (why, before) = until_broken(&mut a, qa, &[later(posted)]);
    let BreakReason::Unreachable { from, to, why, .. } = why else { panic!("{why:?}") };
    assert_eq!((from.as_str(), to, before), ("127.0.0.1 (lo)", free, vec![]));
    assert!(why.contains("refused"), "{why}");
}

#[test]
fn a_listener_that_comes_late_is_still_found() {
    let (mut a, mut b) = pair(SOCKETS);
    let (card_a, card_b) = (a.card(), b.card());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut elsewhere = card_b;
    if let Some(section) = &mut elsewhere.sockets {
        section.tcp = taken.port();
    }
    let (qa, _) = a.ask(&elsewhere);
    let posted = a.context.post_send(qa, [6, 6], source(b"patience"), Push::Now).unwrap();
    // Carries bytes between that port and the one where the peer listens.
    let Ok(relay) = TcpListener::bind(taken) else { return }; // somebody else has it now
    relay.set_nonblocking(true).unwrap();
    let mut events = Vec::new();
    let (mut from_a, _) = wait("another attempt", || {
        events.extend(a.poll());
        relay.accept().ok()
    });
    let section = card_b.sockets.unwrap();
    let mut to_b = TcpStream::connect((section.addr, section.tcp)).unwrap();
    from_a.set_nonblocking(true).unwrap();
    to_b.set_nonblocking(true).unwrap();
    let mut carry = move || {
        let mut bytes = [0; 4096];
        if let Ok(len) = from_a.read(&mut bytes) {
            to_b.write_all(&bytes[..len]).unwrap();
        }
        if let Ok(len) = to_b.read(&mut bytes) {
            from_a.write_all(&bytes[..len]).unwrap();
        }
    };
    let request = wait("the request", || {
        carry();
        events.extend(a.poll());
        b.poll()
    });
    let Got::Control(request) = request else { panic!("{request:?}") };
    let qb = b.answer(&card_a, &request);
    let mut at_b = Vec::new();
    wait("the reply", || {
        carry();
        at_b.extend(b.poll());
        events.extend(a.poll());
        matches!(events.last(), Some(Got::Control(_))).then_some(())
    });
    let Some(Got::Control(reply)) = events.pop() else { panic!("no reply") };
    assert_eq!(events, [Got::Done(later(posted), Ok(0))]);
    a.connect(qa, &elsewhere, &reply);
    wait("the early message", || {
        carry();
        assert_eq!(a.poll(), None);
        at_b.extend(b.poll());
        (!at_b.is_empty()).then_some(())
    });
    assert_eq!(at_b, [Got::Message(qb, [6, 6], b"patience".to_vec())]);
}

#[test]
fn an_idle_connection_costs_little_memory() {
    let host = Host::new(SOCKETS, 101, 1000);
    let mut hub = host.open(0);
    let mut others: Vec<Peer> = (1..101).map(|slot| host.open(slot)).collect();
    let before = hub.context.socket_bytes();
    let qps: Vec<(Qp, Qp)> = others.iter_mut().map(|other| connect(other, &mut hub)).collect();
    for (other, (qp, _)) in others.iter_mut().zip(&qps) {
        other.send(*qp, [1, 0], &pattern(3000, 0));
        hub.message();
    }
    let each = (hub.context.socket_bytes() - before) / 100;
    assert!(each < 1024, "{each} bytes per connection");
}

#[test]
fn a_peer_that_computes_is_not_lost() {
    let (mut a, mut b, qa, qb) = connected();
    let message = pattern(LONG, 0);
    let work = later(a.send(qa, [1, 0], &message));
    // Three times as long as a host may be silent, with more on its way than the peer's kernel takes.
    let start = Instant::now();
    wait("enough time", || {
        assert_eq!(a.poll(), None);
        (start.elapsed() > Duration::from_secs(3)).then_some(())
    });
    let (mut sent, mut got) = (None, None);
    wait("the message", || {
        sent = sent.take().or_else(|| a.poll());
        got = got.take().or_else(|| b.poll_whole());
        (sent.is_some() && got.is_some()).then_some(())
    });
    assert_eq!(sent, Some(Got::Done(work, Ok(0))));
    assert!(got == Some(Got::Message(qb, [1, 0], message)));
}

#[test]
fn a_sleeper_is_woken_by_a_message_and_by_room() {
    let (mut a, mut b, qa, qb) = connected();
    while b.poll().is_some() {}
    let sleep = b.context.prepare_sleep(None).unwrap().expect("nothing is there");
    a.send(qa, [1, 0], b"wake up");
    let start = Instant::now();
    sleep.wait(PATIENCE);
    assert!(start.elapsed() < PATIENCE / 2);
    assert_eq!(b.message(), (qb, [1, 0], b"wake up".to_vec()));
    // A sender with something left to write sleeps until the receiver has made room.
    let message = pattern(LONG, 0);
    let work = later(a.send(qa, [2, 0], &message));
    let mut ended = None;
    wait("the end of the send", || {
        if let Some(sleep) = a.context.prepare_sleep(None).unwrap() {
            let reader = std::thread::scope(|threads| {
                let sleeper = threads.spawn(move || sleep.wait(Duration::from_secs(5)));
                while !sleeper.is_finished() {
                    b.poll();
                }
                sleeper.join()
            });
            reader.unwrap();
        }
        ended = a.poll();
        ended.is_some().then_some(())
    });
    assert_eq!(ended, Some(Got::Done(work, Ok(0))));
}

/// A limit of descriptors is a process's own, so the test is one: it starts itself again.
#[test]
fn without_descriptors_connections_wait() {
    let test = std::env::current_exe().unwrap();
    let command = "ulimit -n 60 && exec \"$0\" --exact sockets::with_few_descriptors --ignored --nocapture";
    let output = Command::new("sh").args(["-c", command]).arg(test).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "started by without_descriptors_connections_wait"]
fn with_few_descriptors() {
    let (mut a, mut b, qa, _) = connected();
    let (card_a, card_b) = (a.card(), b.card());
    for spare in [0, 1] {
        let mut others = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            others.push(file);
            assert!(others.len() < 100, "no limit");
        }
        others.truncate(others.len() - spare);
        // Without a descriptor it cannot be dialled, with one for the dial it cannot be accepted.
        let (qp, _) = a.ask(&card_b);
        (0..1000).for_each(|_| assert_eq!((a.poll(), b.poll()), (None, None)));
        if spare == 0 {
            let refused = a.context.create_qp_as(SOCKETS, Role::Answers);
            assert!(matches!(refused, Err(CreateError::Descriptors { limit: 60 })), "{refused:?}");
        }
        // What is there goes on.
        a.send(qa, [spare as u64, 0], b"old");
        assert_eq!(b.message().2, b"old");
        drop(others);
        let request = wait("the request", || {
            assert_eq!(a.poll(), None);
            b.poll()
        });
        let Got::Control(request) = request else { panic!("{request:?}") };
        let other = b.answer(&card_a, &request);
        let reply = a.control();
        a.connect(qp, &card_b, &reply);
        a.send(qp, [spare as u64, 1], b"new");
        assert_eq!(b.message(), (other, [spare as u64, 1], b"new".to_vec()));
    }
}

/// The link is that of a network of the test's own.
#[test]
fn a_cut_link_is_noticed_and_a_short_cut_is_not() {
    if !Command::new("unshare").args(["-rn", "true"]).output().is_ok_and(|ran| ran.status.success()) {
        return; // not allowed here; `./test net` does the same between hosts
    }
    let test = std::env::current_exe().unwrap();
    let command =
        "ip link set lo up && exec \"$0\" --exact sockets::with_a_link_to_cut --ignored --nocapture";
    let mut inside = Command::new("unshare");
    // Long enough that a busy machine is not taken for a cut link.
    inside.args(["-rn", "sh", "-c", command]).arg(test).env("BANYAN_TEST_NET_TIMEOUT", "3");
    let output = inside.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "started by a_cut_link_is_noticed_and_a_short_cut_is_not"]
fn with_a_link_to_cut() {
    let link = |to: &str| {
        assert!(Command::new("ip").args(["link", "set", "lo", to]).status().unwrap().success());
    };
    let (mut a, mut b, qa, qb) = connected();
    let timeout = net_timeout();
    link("down");
    assert_eq!(a.send(qa, [1, 0], b"patience"), Posted::Done);
    let start = Instant::now();
    wait("half of the time", || {
        assert_eq!((a.poll(), b.poll()), (None, None));
        (start.elapsed() > timeout / 2).then_some(())
    });
    link("up");
    let got = wait("the message", || {
        assert_eq!(a.poll(), None);
        b.poll()
    });
    assert_eq!(got, Got::Message(qb, [1, 0], b"patience".to_vec()));
    b.send(qb, [1, 1], b"thanks"); // and an acknowledgement with it
    assert_eq!(a.message().2, b"thanks");
    // The cut is over before the silence is found to have been too long: the host answers a dial, and the stream stays.
    link("down");
    assert_eq!(a.send(qa, [1, 2], b"late"), Posted::Done);
    let start = Instant::now();
    wait("the end of the cut", || {
        let time = start.elapsed();
        assert!(time > timeout / 5 || a.poll().is_none());
        (time > timeout * 5 / 4).then_some(())
    });
    link("up");
    let got = wait("the late message", || {
        assert_eq!(a.poll(), None);
        b.poll()
    });
    assert_eq!(got, Got::Message(qb, [1, 2], b"late".to_vec()));
    link("down");
    a.send(qa, [2, 0], b"in vain");
    let start = Instant::now();
    let (why, _) = until_broken(&mut a, qa, &[]);
    assert!(matches!(why, BreakReason::Lost { .. }), "{why:?}");
    let time = start.elapsed();
    assert!(time > timeout / 2, "{time:?} {why:?}");
    // The other side has nothing on its way, and is asked by the kernel.
    let (why, _) = until_broken(&mut b, qb, &[]);
    assert!(matches!(why, BreakReason::Lost { .. }), "{why:?}");
}

/// Two processes at an address of this host: early messages, datagrams, closing and opening again.
fn talk_at(addr: IpAddr, interface: &str) {
    let host = Host::new(SOCKETS, 2, 100);
    let open = |slot| {
        let how = sockets::Config { addr, interface: interface.into(), ..on_loopback() };
        host.open_with_sockets(&host.config(slot), Some(&how))
    };
    let (mut a, mut b) = (open(0), open(1));
    let (card_a, card_b) = (a.card(), b.card());
    assert_eq!(card_a.sockets.unwrap().addr, addr);
    a.context.send_control(None, &card_b, b"a datagram").unwrap();
    assert_eq!(b.control(), b"a datagram");
    for (asks, answers) in [(0, 1), (1, 0)] {
        let (peers, cards) = ([&mut a, &mut b], [card_a, card_b]);
        let (asked, _) = peers[asks].ask(&cards[answers]);
        peers[asks].send(asked, [1, 1], b"early");
        let request = peers[answers].control();
        let answered = peers[answers].answer(&cards[asks], &request);
        assert_eq!(peers[answers].message(), (answered, [1, 1], b"early".to_vec()));
        peers[answers].send(answered, [2, 2], &pattern(5000, 1));
        let reply = peers[asks].control();
        peers[asks].connect(asked, &cards[answers], &reply);
        assert_eq!(peers[asks].message(), (asked, [2, 2], pattern(5000, 1)));
        let [first, second] = peers;
        match asks {
            0 => close(first, second, asked, answered),
            _ => close(second, first, asked, answered),
        }
    }
}

/// Has this host the address? A kernel may have been told to leave IPv6 out.
fn has_address(addr: IpAddr) -> bool {
    UdpSocket::bind((addr, 0)).is_ok()
}

#[test]
fn loopback_of_ipv6_serves_as_well() {
    let addr = IpAddr::from(Ipv6Addr::LOCALHOST);
    match has_address(addr) {
        true => talk_at(addr, "lo"),
        false => println!("skipped: this host has no {addr}"),
    }
}

#[test]
fn a_link_local_address_goes_with_its_interface() {
    let interfaces = sys::net::interfaces().unwrap();
    // An interface that is just being set up does not let its address be used yet.
    let usable = |interface: &&sys::net::Interface| match interface.addr {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            UdpSocket::bind(SocketAddrV6::new(v6, 0, 0, interface.index)).is_ok()
        }
        _ => false,
    };
    match interfaces.iter().find(usable) {
        Some(interface) => talk_at(interface.addr, &interface.name),
        None => println!("skipped: this host has no link-local address"),
    }
}
