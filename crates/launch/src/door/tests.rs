//! Agents and strangers at a door on loopback.
use super::*;
use crate::call::call;
use crate::link::{Link, LinkState};
use proto::seal::{Child, LinkError};
use proto::tree::{FRAME_BYTES_MAX, Frame, FrameError};
use std::io::{Read, Write};
use std::thread;

const TOKENS: DoorTokens = DoorTokens { listeners: 1 << 32, knocks: 2 << 32 };
/// Longer than anything here takes, on a loaded machine too.
const LONG: Duration = Duration::from_secs(20);

/// A door and its owner's poll loop.
struct Owner {
    poll: Poll,
    door: Door,
    address: SocketAddr,
    /// Time that passes only when a test says so.
    now: Instant,
}

impl Owner {
    fn new() -> Self {
        let poll = Poll::new().unwrap();
        let mut door = Door::open(&addresses_towards(["127.0.0.1"]), key(), TOKENS, &poll).unwrap();
        door.expect(NodeId(3));
        let address = door.addresses().unwrap()[0];
        Owner { poll, door, address, now: Instant::now() }
    }

    /// One turn of the loop.
    fn turn(&mut self, timeout_ms: u32) -> Vec<Arrival> {
        let mut ready = Vec::new();
        self.poll.wait(Some(timeout_ms), &mut ready).unwrap();
        let arrivals =
            ready.iter().filter_map(|event| self.door.handle(event.token, &self.poll, self.now)).collect();
        assert!(
            self.door.knocks.iter().flatten().count() <= KNOCKS_MAX && self.door.nonces.len() <= NONCES_MAX
        );
        arrivals
    }

    /// Turns until so many were refused.
    fn until_refused(&mut self, count: u64) {
        let end = Instant::now() + LONG;
        while self.door.refusals().total() < count {
            assert!(Instant::now() < end, "{}", self.door.refusals());
            assert!(self.turn(100).is_empty());
        }
        assert_eq!(self.door.refusals().total(), count, "{}", self.door.refusals());
    }

    fn until_arrival(&mut self) -> Arrival {
        let end = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < end, "nobody came; {}", self.door.refusals());
            if let Some(arrival) = self.turn(100).pop() {
                return arrival;
            }
        }
    }

    fn stranger(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }
}

fn key() -> Key {
    Key::new([5; 32])
}

/// An agent in a thread of its own.
fn agent(address: SocketAddr, key: Key, node: u32) -> thread::JoinHandle<Result<(OwnedFd, Seal), String>> {
    let end = Instant::now() + LONG;
    thread::spawn(move || call(&[address], &key, NodeId(node), Some(end)).map_err(|error| error.to_string()))
}

/// Reads until the other side has hung up.
fn heard(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let _ = stream.read_to_end(&mut bytes); // a reset is an end too
    bytes
}

/// The next frame of a link, or what ended it.
fn next(link: &mut Link, poll: &Poll) -> Result<Frame, Option<LinkError>> {
    let end = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < end);
        if let Some(frame) = link.next_frame() {
            return frame.map_err(Some);
        }
        poll.wait(Some(100), &mut Vec::new()).unwrap();
        if link.fill().unwrap() == LinkState::Closed {
            return Err(None);
        }
    }
}

/// Both ends of a sealed link through the door, with a poll set for the child's.
fn linked() -> (Link, Poll, (OwnedFd, Seal)) {
    let mut owner = Owner::new();
    let child = agent(owner.address, key(), 3);
    let arrival = owner.until_arrival();
    let poll = Poll::new().unwrap();
    let link = Link::sealed(arrival.fd, 0, &poll, arrival.seal).unwrap();
    (link, poll, child.join().unwrap().unwrap())
}

#[test]
fn an_agent_with_the_key_comes_in_and_both_hear_each_other() {
    let (mut parent, poll, (fd, seal)) = linked();
    let child_poll = Poll::new().unwrap();
    let mut child = Link::sealed(fd, 9, &child_poll, seal).unwrap();
    let long = Frame::AgentFailed { node: NodeId(3), reason: "x".repeat(60_000) };
    for frame in [Frame::Hello { node: NodeId(3), pid: 1 }, long, Frame::Credit { bytes: 5 }] {
        child.send(&frame);
        parent.send(&frame);
        child.flush(&child_poll).unwrap();
        parent.flush(&poll).unwrap();
        assert_eq!(next(&mut parent, &poll), Ok(frame.clone()));
        assert_eq!(next(&mut child, &child_poll), Ok(frame));
    }
    child.close(&child_poll);
    assert_eq!(next(&mut parent, &poll), Err(None));
    assert!(parent.loss().is_none(), "it was closed, not lost");
}

#[test]
fn frames_that_the_parent_sent_at_once_are_there_for_the_link() {
    let mut owner = Owner::new();
    let child = agent(owner.address, key(), 3);
    let arrival = owner.until_arrival();
    let mut parent = Link::sealed(arrival.fd, 0, &owner.poll, arrival.seal).unwrap();
    (0..50).for_each(|bytes| parent.send(&Frame::Credit { bytes }));
    parent.flush(&owner.poll).unwrap();
    let (fd, seal) = child.join().unwrap().unwrap();
    let poll = Poll::new().unwrap();
    let mut link = Link::sealed(fd, 0, &poll, seal).unwrap();
    (0..50).for_each(|bytes| assert_eq!(next(&mut link, &poll), Ok(Frame::Credit { bytes })));
}

#[test]
fn strangers_are_refused_and_counted_by_what_they_did() {
    let mut owner = Owner::new();
    let mut web = owner.stranger();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    owner.until_refused(1);
    assert_eq!(heard(web), b"", "a stranger is told nothing");
    let other_job = agent(owner.address, Key::new([6; 32]), 3);
    owner.until_refused(2);
    let error = other_job.join().unwrap().unwrap_err();
    assert!(error.ends_with("(it does not hold the key of this job)"), "{error}");
    assert!(error.contains(&owner.address.to_string()), "{error}");
    let mut guesser = owner.stranger();
    let mut hello = Vec::new();
    Child::new(key(), NodeId(3), Nonce([1; 32]), &mut hello);
    guesser.write_all(&hello).unwrap();
    guesser.write_all(&[0; 32]).unwrap();
    owner.until_refused(3);
    let mut version = owner.stranger();
    version.write_all(b"banyan\r\n\x09").unwrap();
    owner.until_refused(4);
    assert_eq!(heard(version), b"banyan\r\n\x01", "to name both versions");
    assert_eq!(owner.door.refusals().to_string(), "4 connections refused: 2 strangers, 2 malformed");
    let last = owner.door.refusals().last().unwrap();
    assert!(last.ends_with("it speaks version 9 of the handshake, this is version 1"), "{last}");
    agent_comes_through(&mut owner);
}

fn agent_comes_through(owner: &mut Owner) {
    let child = agent(owner.address, key(), 3);
    let arrival = owner.until_arrival();
    assert!(arrival.node == NodeId(3) && arrival.peer.ip().is_loopback());
    assert!(child.join().unwrap().is_ok());
    assert_eq!(owner.door.missing().count(), 0);
}

#[test]
fn the_silent_and_the_slow_are_late() {
    let mut owner = Owner::new();
    let (silent, mut slow) = (owner.stranger(), owner.stranger());
    slow.write_all(b"banyan").unwrap();
    while owner.door.knocks.iter().flatten().count() < 2 {
        owner.turn(100);
    }
    assert_eq!(owner.door.next_deadline(), Some(owner.now + KNOCK_PATIENCE));
    owner.door.expire(owner.now + KNOCK_PATIENCE - Duration::from_millis(1), &owner.poll);
    assert_eq!(owner.door.refusals().total(), 0);
    owner.door.expire(owner.now + KNOCK_PATIENCE, &owner.poll);
    assert_eq!(owner.door.refusals().to_string(), "2 connections refused: 2 late");
    assert_eq!((heard(silent), heard(slow)), (vec![], vec![]));
    assert_eq!(owner.door.next_deadline(), None);
    agent_comes_through(&mut owner);
}

#[test]
fn an_agent_that_hangs_up_half_way_is_no_arrival() {
    let mut owner = Owner::new();
    let mut half = owner.stranger();
    let mut hello = Vec::new();
    Child::new(key(), NodeId(3), Nonce([1; 32]), &mut hello);
    half.write_all(&hello).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    owner.until_refused(1);
    assert_eq!(owner.door.refusals().count(Kind::Malformed), 1);
    agent_comes_through(&mut owner);
}

/// Stands between an agent and the door, and writes down what the agent says.
fn recorder(door: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let recording = thread::spawn(move || {
        let (mut agent, _) = listener.accept().unwrap();
        let mut parent = TcpStream::connect(door).unwrap();
        let mut said = Vec::new();
        for (bytes, answer) in [(45, 73), (32, 33)] {
            let (mut up, mut down) = (vec![0; bytes], vec![0; answer]);
            agent.read_exact(&mut up).unwrap();
            parent.write_all(&up).unwrap();
            parent.read_exact(&mut down).unwrap();
            agent.write_all(&down).unwrap();
            said.extend(up);
        }
        said
    });
    (address, recording)
}

#[test]
fn a_recorded_agent_does_not_come_in_again() {
    let mut owner = Owner::new();
    let (address, recording) = recorder(owner.address);
    let child = agent(address, key(), 3);
    assert_eq!(owner.until_arrival().node, NodeId(3));
    assert!(child.join().unwrap().is_ok(), "passing on unaltered is what networks do");
    let said = recording.join().unwrap();
    let mut enemy = owner.stranger();
    enemy.write_all(&said).unwrap();
    owner.until_refused(1);
    assert_eq!(owner.door.refusals().to_string(), "1 connection refused: 1 replay");
    // At another door, which does not know the words.
    let mut other = Owner::new();
    let mut enemy = other.stranger();
    enemy.write_all(&said).unwrap();
    other.until_refused(1);
    assert_eq!(other.door.refusals().to_string(), "1 connection refused: 1 stranger");
}

#[test]
fn agents_that_are_not_waited_for_are_told_so() {
    let mut owner = Owner::new();
    let unknown = agent(owner.address, key(), 4);
    owner.until_refused(1);
    assert!(unknown.join().unwrap().unwrap_err().contains("the node is not expected there"));
    agent_comes_through(&mut owner);
    let twin = agent(owner.address, key(), 3);
    owner.until_refused(2);
    assert!(twin.join().unwrap().unwrap_err().contains("the node is connected already"));
    assert_eq!(owner.door.refusals().to_string(), "2 connections refused: 2 unexpected nodes");
    let address = owner.address;
    assert_eq!(owner.door.close(&owner.poll).total(), 2);
    let error = agent(address, key(), 3).join().unwrap().unwrap_err();
    assert!(error.contains("onnection refused"), "{error}");
}

#[test]
fn a_thousand_strangers_do_not_keep_an_agent_out() {
    let mut owner = Owner::new();
    let mut crowd = Vec::new();
    let mut child = None;
    let mut arrivals = Vec::new();
    for nth in 0..1000u64 {
        let mut stranger = owner.stranger();
        match nth % 4 {
            0 => stranger.write_all(b"banyan\r\n").unwrap(),
            1 => stranger.write_all(&nth.to_le_bytes()).unwrap(),
            _ => {}
        }
        crowd.push(stranger);
        if nth == 500 {
            child = Some(agent(owner.address, key(), 3));
        }
        if nth % 16 == 0 {
            arrivals.extend(owner.turn(0));
        }
    }
    while arrivals.is_empty() {
        arrivals.push(owner.until_arrival());
    }
    assert!(child.unwrap().join().unwrap().is_ok());
    let end = Instant::now() + LONG;
    while owner.door.refusals().total() < 1000 - KNOCKS_MAX as u64 && Instant::now() < end {
        assert!(owner.turn(100).is_empty());
    }
    let refusals = owner.door.refusals();
    assert!(refusals.count(Kind::Stranger) >= 240 && refusals.count(Kind::Crowded) > 0, "{refusals}");
    assert_eq!(owner.door.knocks.len(), KNOCKS_MAX);
}

#[test]
fn an_announcement_out_of_bounds_ends_a_link_of_an_agent() {
    let (mut parent, poll, (fd, _seal)) = linked();
    let too_long = (FRAME_BYTES_MAX as u32 + 1).to_le_bytes();
    socket::write(fd.as_fd(), &too_long).unwrap();
    let error = next(&mut parent, &poll).unwrap_err().unwrap();
    assert_eq!(error, LinkError::Frame(FrameError::Length(FRAME_BYTES_MAX + 1)));
    let mut refusals = Refusals::default();
    refusals.note_link(&error);
    assert_eq!(refusals.to_string(), "1 connection refused: 1 oversized");
}

#[test]
fn a_frame_that_an_agent_did_not_seal_ends_its_link() {
    let (mut parent, poll, (fd, _seal)) = linked();
    let mut bytes = Vec::new();
    Frame::End { grace_ms: 0 }.emit(&mut bytes);
    bytes.extend([0; 16]);
    socket::write(fd.as_fd(), &bytes).unwrap();
    assert_eq!(next(&mut parent, &poll), Err(Some(LinkError::Forged { expected: 0 })));
}

#[test]
fn a_call_names_every_address_and_what_happened_there() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mute_address = mute.local_addr().unwrap();
    let owner = Owner::new(); // nobody turns its loop, so it does not answer either
    let addresses = [nobody, mute_address, owner.address];
    let deadline = Instant::now() + Duration::from_millis(300);
    let error = call(&addresses, &key(), NodeId(3), Some(deadline)).unwrap_err().to_string();
    let mut parts = error.split(", ");
    let first = parts.next().unwrap();
    assert!(first.starts_with(&format!("node 3 did not reach its parent: {nobody} (")), "{error}");
    assert_eq!(parts.next(), Some(format!("{mute_address} (it did not answer in time)").as_str()));
    assert_eq!(parts.next(), Some(format!("{} (it did not answer in time)", owner.address).as_str()));
    let error = call(&[], &key(), NodeId(3), Some(deadline)).unwrap_err().to_string();
    assert_eq!(error, "node 3 did not reach its parent: it was given no address");
}

#[test]
fn the_right_address_is_found_behind_wrong_ones() {
    let mut owner = Owner::new();
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let addresses = [nobody, owner.address];
    let child =
        thread::spawn(move || call(&addresses, &key(), NodeId(3), Some(Instant::now() + LONG)).is_ok());
    assert_eq!(owner.until_arrival().node, NodeId(3));
    assert!(child.join().unwrap());
}

#[test]
fn who_was_crowded_out_comes_again() {
    [Some(Instant::now() + LONG), None].into_iter().for_each(come_again);
}

fn come_again(deadline: Option<Instant>) {
    let mut owner = Owner::new();
    let rude = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addresses = [rude.local_addr().unwrap(), owner.address];
    // Both hang up at first: one by dropping, the other by closing its door on the connection.
    let child = thread::spawn(move || call(&addresses[..1], &key(), NodeId(3), deadline).is_ok());
    drop(rude.accept().unwrap());
    let (agent, _) = rude.accept().unwrap();
    owner.door.take_in(agent, addresses[0], &owner.poll, owner.now);
    assert_eq!(owner.until_arrival().node, NodeId(3));
    assert!(child.join().unwrap());
}

#[test]
fn a_door_without_addresses_is_open_everywhere() {
    let poll = Poll::new().unwrap();
    let door = Door::open(&[], key(), TOKENS, &poll).unwrap();
    let own = door.listeners[0].local_addr().unwrap();
    assert!(own.ip().is_unspecified());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, own.port())).is_ok());
    let told = door.addresses().unwrap();
    assert!(told.iter().all(|address| address.port() == own.port() && !address.ip().is_unspecified()));
    let refused = Door::open(&["192.0.2.1".parse().unwrap()], key(), TOKENS, &poll).unwrap_err();
    assert!(refused.to_string().starts_with("cannot listen on 192.0.2.1: "), "{refused}");
}
