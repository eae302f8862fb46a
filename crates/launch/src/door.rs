//! The entrance for agents of other hosts: listening sockets, and the handshakes of those that connect.
//!
//! Anybody who reaches the host can connect. Until a peer has proven that it holds the job's key ([`proto::seal`]), it
//! costs one of [`KNOCKS_MAX`] places and less than a hundred bytes, for at most [`KNOCK_PATIENCE`]; when the places
//! are taken, those who have said nothing go first. Who is turned away is counted, by kind, and told no more
//! than is needed to find a mistake in the set-up.
//!
//! The door does not wait: its owner has it in a poll set, hands it the tokens that are the door's, and calls
//! [`Door::expire`] when [`Door::next_deadline`] has come. It does not start agents, and what an agent says once it is in
//! is the link's business.
mod address;
mod refusals;
#[cfg(test)]
mod tests;

pub(crate) use address::{addresses_towards, scoped};
pub(crate) use refusals::{Kind, Refusals};

use proto::ids::NodeId;
use proto::seal::{HandshakeError, Key, MESSAGE_BYTES_MAX, Nonce, Parent, Progress, Proven, Refusal, Seal};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

/// Most connections that have not proven themselves.
pub(crate) const KNOCKS_MAX: usize = 64;
/// How long one may take to prove itself.
pub(crate) const KNOCK_PATIENCE: Duration = Duration::from_secs(10);
/// After so much silence of its host, a connection is lost.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Connections accepted between two looks at what the others say.
const ACCEPTS_PER_TURN: usize = 16;
/// How long the door stays shut when the system has nothing left to accept with.
const REST: Duration = Duration::from_millis(100);
/// Nonces of children that came in, to tell recordings from strangers.
const NONCES_MAX: usize = 1024;

/// The tokens under which the door's descriptors are in the owner's poll set: one per address counted from the
/// first, and [`KNOCKS_MAX`] counted from the second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoorTokens {
    pub(crate) listeners: u64,
    pub(crate) knocks: u64,
}

/// An agent that has proven itself. Its connection is in no poll set.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) node: NodeId,
    pub(crate) peer: SocketAddr,
    pub(crate) fd: OwnedFd,
    pub(crate) seal: Seal,
}

/// Listening sockets and unfinished handshakes.
#[derive(Debug)]
pub(crate) struct Door {
    key: Key,
    tokens: DoorTokens,
    listeners: Vec<TcpListener>,
    knocks: [Option<Knock>; KNOCKS_MAX],
    expected: BTreeSet<NodeId>,
    arrived: BTreeSet<NodeId>,
    nonces: VecDeque<Nonce>,
    refusals: Refusals,
    /// Set while nothing can be accepted.
    shut_until: Option<Instant>,
}

impl Door {
    /// Listens on these addresses, at ports of the system's choosing; on all addresses of the host if there are none.
    pub(crate) fn open(addresses: &[IpAddr], key: Key, tokens: DoorTokens, poll: &Poll) -> io::Result<Door> {
        let listeners = if addresses.is_empty() {
            vec![listen_everywhere()?]
        } else {
            addresses.iter().map(|address| listen(*address)).collect::<io::Result<_>>()?
        };
        for (nth, listener) in listeners.iter().enumerate() {
            poll.add(listener.as_fd(), tokens.listeners + nth as u64, Interest::Read)?;
        }
        Ok(Door {
            key,
            tokens,
            listeners,
            knocks: [const { None }; KNOCKS_MAX],
            expected: BTreeSet::new(),
            arrived: BTreeSet::new(),
            nonces: VecDeque::new(),
            refusals: Refusals::default(),
            shut_until: None,
        })
    }

    /// Where to knock, as seen from other hosts.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let mut all = Vec::new();
        for listener in &self.listeners {
            let own = listener.local_addr()?;
            if own.ip().is_unspecified() {
                let v6 = own.is_ipv6();
                let reachable = sys::net::addresses()?.into_iter().filter(|ip| v6 || ip.is_ipv4());
                all.extend(reachable.map(|ip| SocketAddr::new(ip, own.port())));
            } else {
                all.push(own);
            }
        }
        Ok(all)
    }

    /// From now on this node is let in, once.
    pub(crate) fn expect(&mut self, node: NodeId) {
        self.expected.insert(node);
    }

    /// Nodes that are expected and have not come. With none left, the door can be closed.
    pub(crate) fn missing(&self) -> impl Iterator<Item = NodeId> {
        self.expected.iter().copied()
    }

    /// Who was turned away.
    #[cfg(test)]
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// When to call [`Door::expire`].
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let knocks = self.knocks.iter().flatten().map(|knock| knock.since + KNOCK_PATIENCE);
        knocks.chain(self.shut_until).min()
    }

    /// Turns away those whose time is over, and listens again after a rest.
    pub(crate) fn expire(&mut self, now: Instant, poll: &Poll) {
        for place in 0..KNOCKS_MAX {
            if self.knocks[place].as_ref().is_some_and(|knock| now >= knock.since + KNOCK_PATIENCE) {
                self.turn_away(place, Kind::Late, "it did not finish its handshake", poll);
            }
        }
        if self.shut_until.is_some_and(|until| now >= until) {
            self.shut_until = None;
            self.listen_for(Interest::Read, poll);
        }
    }

    /// Serves the descriptor of this token; call it whenever the poll set reports one of the door's. An agent that has
    /// proven itself comes out.
    pub(crate) fn handle(&mut self, token: u64, poll: &Poll, now: Instant) -> Option<Arrival> {
        if let Some(nth) = index(token, self.tokens.listeners, self.listeners.len()) {
            self.accept_some(nth, poll, now);
            return None;
        }
        let place = index(token, self.tokens.knocks, KNOCKS_MAX)?;
        let proven = self.advance(place, poll)?;
        self.decide(place, proven, poll)
    }

    /// Stops listening and turns away who is still knocking.
    pub(crate) fn close(mut self, poll: &Poll) -> Refusals {
        for place in 0..KNOCKS_MAX {
            self.turn_away(place, Kind::Late, "it was not expected any more", poll);
        }
        for listener in &self.listeners {
            let _ = poll.remove(listener.as_fd());
        }
        self.refusals
    }

    fn accept_some(&mut self, nth: usize, poll: &Poll, now: Instant) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listeners[nth].accept() {
                Ok((stream, peer)) => self.take_in(stream, peer, poll, now),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // It was gone before it was accepted.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return self.shut(poll, now),
                },
            }
        }
    }

    /// Nothing can be accepted, most likely for want of descriptors: gives some back, and rests. The listeners would be
    /// reported again and again until then.
    fn shut(&mut self, poll: &Poll, now: Instant) {
        if let Some(place) = self.least_deserving() {
            self.turn_away(place, Kind::Crowded, "the system cannot take more connections", poll);
        }
        self.shut_until = Some(now + REST);
        self.listen_for(Interest::Hangup, poll);
    }

    fn listen_for(&self, interest: Interest, poll: &Poll) {
        for (nth, listener) in self.listeners.iter().enumerate() {
            let _ = poll.change(listener.as_fd(), self.tokens.listeners + nth as u64, interest);
        }
    }

    fn take_in(&mut self, stream: TcpStream, peer: SocketAddr, poll: &Poll, now: Instant) {
        if self.knocks.iter().all(Option::is_some)
            && let Some(place) = self.least_deserving()
        {
            self.turn_away(place, Kind::Crowded, "others came after it", poll);
        }
        let place = self.knocks.iter().position(Option::is_none).expect("room was made");
        match Knock::new(stream, peer, &self.key, now) {
            Ok(knock) => {
                let _ = poll.add(knock.stream.as_fd(), self.tokens.knocks + place as u64, Interest::Read);
                self.knocks[place] = Some(knock);
                // Most say hello at once, and who has said something is not crowded out by the silent.
                self.advance(place, poll);
            }
            Err(error) => self.refusals.note(Kind::Crowded, &format!("{peer}: {error}")),
        }
    }

    /// Who has to go when there is no room: the oldest of those who have said nothing, else the oldest.
    fn least_deserving(&self) -> Option<usize> {
        let places = (0..KNOCKS_MAX).filter_map(|place| Some((place, self.knocks[place].as_ref()?)));
        places
            .min_by_key(|(_, knock)| (knock.handshake.child_nonce().is_some(), knock.since))
            .map(|(place, _)| place)
    }

    /// Takes the next message of the one in this place, if it is there. The first one is never a proof.
    fn advance(&mut self, place: usize, poll: &Poll) -> Option<Proven> {
        match self.knocks[place].as_mut()?.step(&self.nonces) {
            Ok(progress) => progress,
            Err((kind, why)) => {
                self.turn_away(place, kind, &why, poll);
                None
            }
        }
    }

    fn decide(&mut self, place: usize, proven: Proven, poll: &Poll) -> Option<Arrival> {
        let node = proven.node;
        let knock = self.knocks[place].as_mut()?;
        if !self.expected.contains(&node) {
            let (refusal, why) = match self.arrived.contains(&node) {
                true => (Refusal::Connected, format!("node {node} is connected already")),
                false => (Refusal::Unknown, format!("node {node} is not expected here")),
            };
            let mut verdict = Vec::new();
            proven.refuse(refusal, &mut verdict);
            let _ = knock.say(&verdict);
            self.turn_away(place, Kind::UnexpectedNode, &why, poll);
            return None;
        }
        let mut verdict = Vec::new();
        let seal = proven.admit(&mut verdict);
        if let Err((kind, why)) = knock.say(&verdict) {
            self.turn_away(place, kind, &why, poll);
            return None;
        }
        let Knock { stream, peer, handshake, .. } = self.knocks[place].take()?;
        let _ = poll.remove(stream.as_fd());
        self.expected.remove(&node);
        self.arrived.insert(node);
        self.nonces.extend(handshake.child_nonce());
        if self.nonces.len() > NONCES_MAX {
            self.nonces.pop_front();
        }
        Some(Arrival { node, peer, fd: stream.into(), seal })
    }

    fn turn_away(&mut self, place: usize, kind: Kind, why: &str, poll: &Poll) {
        if let Some(knock) = self.knocks[place].take() {
            let _ = poll.remove(knock.stream.as_fd());
            self.refusals.note(kind, &format!("{}: {why}", knock.peer));
        }
    }
}

/// A connection that has not proven itself.
#[derive(Debug)]
struct Knock {
    stream: TcpStream,
    peer: SocketAddr,
    since: Instant,
    handshake: Parent,
}

/// Why somebody is turned away: what to count, and what to say.
type TurnedAway = (Kind, String);

impl Knock {
    fn new(stream: TcpStream, peer: SocketAddr, key: &Key, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sys::net::notice_silence(stream.as_fd(), SILENCE_MAX)?;
        let handshake = Parent::new(key.clone(), Nonce(sys::random::bytes()?));
        Ok(Knock { stream, peer, since: now, handshake })
    }

    /// Reads and answers one message, as far as it is there. Never reads beyond it: what follows is reported again.
    fn step(&mut self, nonces: &VecDeque<Nonce>) -> Result<Option<Proven>, TurnedAway> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        let wanted = self.handshake.wants();
        let n = match socket::read(self.stream.as_fd(), &mut bytes[..wanted]) {
            Ok(Transfer::Bytes(n)) => n,
            Ok(Transfer::WouldBlock) => return Ok(None),
            Ok(Transfer::Closed) => return Err((Kind::Malformed, "it hung up in its handshake".into())),
            Err(error) => return Err((Kind::Malformed, error.to_string())),
        };
        let mut answer = Vec::new();
        let progress = self.handshake.push(&bytes[..n], &mut answer);
        if self.handshake.child_nonce().is_some_and(|nonce| nonces.contains(&nonce)) {
            return Err((Kind::Replay, "it repeats the words of an agent that came before".into()));
        }
        let said = self.say(&answer);
        match progress.map_err(|error| (kind_of(error), error.to_string()))? {
            Progress::More => said.map(|()| None),
            Progress::Done(proven) => Ok(Some(proven)),
        }
    }

    /// Sends all of `bytes`. The buffer of a connection that was told less than a hundred bytes has room for them.
    fn say(&self, bytes: &[u8]) -> Result<(), TurnedAway> {
        match socket::write(self.stream.as_fd(), bytes) {
            _ if bytes.is_empty() => Ok(()),
            Ok(Transfer::Bytes(n)) if n == bytes.len() => Ok(()),
            Ok(_) => Err((Kind::Malformed, "it does not listen".into())),
            Err(error) => Err((Kind::Malformed, error.to_string())),
        }
    }
}

fn kind_of(error: HandshakeError) -> Kind {
    match error {
        HandshakeError::BadMagic | HandshakeError::WrongKey => Kind::Stranger,
        HandshakeError::Oversized { .. } => Kind::Oversized,
        _ => Kind::Malformed,
    }
}

/// Which of `count` tokens from `base` is it?
fn index(token: u64, base: u64, count: usize) -> Option<usize> {
    let nth = usize::try_from(token.checked_sub(base)?).ok()?;
    (nth < count).then_some(nth)
}

fn listen(address: IpAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address, 0))
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// On a host without IPv6 only the old addresses.
fn listen_everywhere() -> io::Result<TcpListener> {
    listen(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| listen(Ipv4Addr::UNSPECIFIED.into()))
}
