//! How two processes connect: the handshakes of one process with its peers.
//!
//! [`Wireup`] decides, its driver does. The driver reports what happened (somebody needs a peer, a datagram came,
//! a queue pair was made) and carries out the actions that [`Wireup::poll_action`] hands out. Nothing is
//! stored for a peer before it is needed or asks.
//!
//! # The handshake
//! ```text
//!   A: need -> create queue pair -> REQUEST(A's facts) ---->  B: create queue pair, connect it to A's
//!   A: connect to B's queue pair, ready  <----------------  REPLY(B's facts), ready
//! ```
//! Request and reply carry the same facts (epoch, connection parameters, address card), so when both sides
//! ask at once *the crossed request is the reply*: each side connects with what it has and nobody has to win.
//!
//! Datagrams may be lost, repeated and overtaken. The side that lacks the other's facts repeats its request, at
//! intervals that double up to a cap, for as long as it takes; the side that has them answers every repetition.
//! Both ends have room for incoming data before they tell anyone about themselves, so the first side that
//! is ready may send at once.
//!
//! # Promises
//! - Never two live queue pairs for one pair of processes.
//! - Every need ends in [`Action::Ready`] or in [`Action::Failed`] with a reason, and only a notice from
//!   outside ([`Wireup::peer_died`], [`Wireup::qp_failed`]) fails it: silence never does, since a peer may
//!   compute for an hour without calling the library.
//! - When both sides are alive, a connection never stays open at one side only.
//! - An input that makes no sense in a state is refused with both named, and changes nothing.
//!
//! # What it is not
//! No queue of sends (the endpoint keeps those until `Ready`), no closing yet, no clock, no sockets. Time is
//! an argument (nanoseconds of any monotonic clock), as is the seed of the jitter.
mod api;
mod card;
mod message;
mod pace;
mod state;

#[cfg(test)]
mod tests;

pub use api::*;
pub use card::{Card, CardTooLong, Epoch, Params};
pub use message::{Datagram, MESSAGE_BYTES_MAX, Message, MessageKind, ParseError};
pub use state::{InputName, StateName};

use crate::ids::Rank;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use pace::Pace;
use state::{Answer, Local, Remote, State, edge};

/// The connections of one process. See the module's head.
///
/// After any call that takes `&mut self`, call [`poll_action`](Self::poll_action) until it returns `None`, then ask
/// [`poll_timeout`](Self::poll_timeout) when [`tick`](Self::tick) is due.
#[derive(Clone, Debug)]
pub struct Wireup {
    config: Config,
    /// In order of rank, so that the same inputs give the same actions.
    peers: BTreeMap<Rank, State>,
    /// When which peer's request is due again.
    due: BTreeSet<(u64, Rank)>,
    actions: VecDeque<Action>,
    next_epoch: Epoch,
    pace: Pace,
    stats: Stats,
}

/// What happened to one peer.
#[derive(Debug)]
enum Input {
    Need,
    Request(Message),
    Reply(Message),
    Card(Card),
    QpReady(Params),
    QpFailed(String),
    Connected,
    Due,
    Died(String),
}

impl Input {
    fn name(&self) -> InputName {
        match self {
            Input::Need => InputName::Need,
            Input::Request(_) => InputName::Request,
            Input::Reply(_) => InputName::Reply,
            Input::Card(_) => InputName::Card,
            Input::QpReady(_) => InputName::QpReady,
            Input::QpFailed(_) => InputName::QpFailed,
            Input::Connected => InputName::Connected,
            Input::Due => InputName::Due,
            Input::Died(_) => InputName::Died,
        }
    }
}

impl Wireup {
    /// No connection, and nothing stored per peer.
    pub fn new(config: Config) -> Self {
        Self {
            peers: BTreeMap::new(),
            due: BTreeSet::new(),
            actions: VecDeque::new(),
            next_epoch: Epoch::FIRST,
            pace: Pace::new(config.seed),
            stats: Stats::default(),
            config,
        }
    }

    /// Somebody wants to talk to the peer. Call it again as often as is convenient: it begins at most one
    /// handshake. After an [`Action::Failed`] that came from [`qp_failed`](Self::qp_failed) it begins another.
    pub fn need(&mut self, peer: Rank, now_ns: u64) -> Result<Progress, NeedError> {
        if peer == self.config.me {
            return Err(NeedError::Oneself(peer));
        }
        if peer.0 >= self.config.size {
            return Err(NeedError::NoSuchRank { peer, size: self.config.size });
        }
        match self.peers.get(&peer) {
            Some(State::Ready { .. }) => return Ok(Progress::Ready),
            Some(State::Failed { why }) => return Err(NeedError::Lost { peer, why: why.clone() }),
            Some(_) => return Ok(Progress::Pending),
            None => {}
        }
        self.input(peer, Input::Need, now_ns).expect("an idle peer can be needed");
        Ok(Progress::Pending)
    }

    /// A datagram came in. Call it with whatever the handshake's address receives, in any order.
    pub fn datagram(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), DatagramError> {
        let checked = self.check(bytes);
        if checked.is_err() {
            self.stats.refused += 1;
        }
        let (message, age) = checked?;
        if age == Age::Stale {
            self.stats.stale += 1;
            return Ok(());
        }
        let input = match message.kind {
            MessageKind::Request => Input::Request(message),
            MessageKind::Reply => Input::Reply(message),
        };
        self.input(message.from, input, now_ns).expect("messages are legal in every state");
        Ok(())
    }

    /// The board gave the card that an [`Action::Lookup`] asked for. Harmless when it is not needed any more.
    pub fn card(&mut self, peer: Rank, card: Card, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(peer, Input::Card(card), now_ns)
    }

    /// The queue pair that an [`Action::CreateQp`] asked for is there, with room for incoming data.
    pub fn qp_ready(&mut self, peer: Rank, params: Params, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(peer, Input::QpReady(params), now_ns)
    }

    /// The queue pair that an [`Action::CreateQp`] asked for could not be made. The connection is given up, but not
    /// the peer: its next request, or the next need, tries again.
    pub fn qp_failed(&mut self, peer: Rank, why: &str) -> Result<(), IllegalInput> {
        self.input(peer, Input::QpFailed(why.into()), 0)
    }

    /// The queue pair was connected as an [`Action::Connect`] asked.
    pub fn connected(&mut self, peer: Rank, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(peer, Input::Connected, now_ns)
    }

    /// A notice from outside: the peer is gone, or can never be reached. Final.
    pub fn peer_died(&mut self, peer: Rank, why: &str) {
        self.input(peer, Input::Died(why.into()), 0).expect("a peer may die in any state");
    }

    /// Sends again what is due. Call it when the time that [`poll_timeout`](Self::poll_timeout) gave has come; a
    /// call too early or too late does no harm.
    pub fn tick(&mut self, now_ns: u64) {
        while let Some(&(due_ns, peer)) = self.due.first() {
            if due_ns > now_ns {
                return;
            }
            self.input(peer, Input::Due, now_ns).expect("only a waiting request is due");
        }
    }

    /// The next thing to do, if any. Call it until it returns `None`, after every call that takes `&mut self`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`tick`](Self::tick), if no input comes before. Ask again after every call that takes
    /// `&mut self`.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.due.first().map(|&(due_ns, _)| due_ns)
    }

    /// How far the connection to a peer is.
    pub fn state(&self, peer: Rank) -> StateName {
        self.peers.get(&peer).map_or(StateName::Idle, State::name)
    }

    /// The peers that have not answered a request yet, by rank: to say for whom a process waits.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting> + '_ {
        self.peers.iter().filter_map(|(&peer, state)| match *state {
            State::Requesting { first_ns, attempts, .. } => {
                Some(Waiting { peer, since_ns: first_ns, attempts })
            }
            _ => None,
        })
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

/// Does a message still say something about the connection there is?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Current,
    Stale,
}

impl Wireup {
    fn check(&self, bytes: &[u8]) -> Result<(Message, Age), DatagramError> {
        let message = Message::parse(bytes)?;
        if message.job != self.config.job {
            return Err(DatagramError::OtherJob(message.job));
        }
        if message.to != self.config.me {
            return Err(DatagramError::Misdirected(message.to));
        }
        let peer = message.from;
        if peer == self.config.me || peer.0 >= self.config.size {
            return Err(DatagramError::NoPeer(peer));
        }
        let known = match self.peers.get(&peer) {
            Some(State::Connecting { remote, .. }) => Some(remote.epoch),
            Some(State::Ready { remote_epoch, .. }) => Some(*remote_epoch),
            _ => None,
        };
        match known {
            Some(known) if message.epoch > known => {
                Err(DatagramError::EpochAhead { peer, known, got: message.epoch })
            }
            Some(known) if message.epoch < known => Ok((message, Age::Stale)),
            _ => Ok((message, Age::Current)),
        }
    }

    /// The only way a connection changes: looks the move up, makes it, and holds it against the table.
    fn input(&mut self, peer: Rank, input: Input, now_ns: u64) -> Result<(), IllegalInput> {
        let (from, name) = (self.state(peer), input.name());
        let targets = edge(from, name).ok_or(IllegalInput { peer, state: from, input: name })?;
        let state = self.peers.remove(&peer);
        if let Some(due_ns) = state.as_ref().and_then(State::due_ns) {
            self.due.remove(&(due_ns, peer));
        }
        let next = self.step(peer, state, input, now_ns);
        let to = next.as_ref().map_or(StateName::Idle, State::name);
        assert!(targets.contains(&to), "{from} -{name}-> {to} is not in the table");
        if let Some(next) = next {
            if let Some(due_ns) = next.due_ns() {
                self.due.insert((due_ns, peer));
            }
            self.peers.insert(peer, next);
        }
        Ok(())
    }

    /// One move: the old state and an input give the new state, and actions.
    fn step(&mut self, peer: Rank, state: Option<State>, input: Input, now_ns: u64) -> Option<State> {
        match (state, input) {
            (state, Input::Died(why)) => Some(self.fail(peer, state, why)),
            (None, input) => self.idle(peer, input),
            (Some(State::Preparing { card, remote }), input) => {
                self.preparing(peer, card, remote, input, now_ns)
            }
            (Some(State::Addressing { local }), Input::Card(card)) => {
                Some(self.request(peer, local, card, now_ns))
            }
            (Some(State::Addressing { local }), Input::Request(message)) => {
                Some(self.connect(peer, local, Remote::from(&message), Answer::Owed))
            }
            (Some(State::Requesting { local, card, first_ns, attempts, .. }), Input::Due) => {
                self.stats.retransmits += 1;
                Some(self.send_request(peer, local, card, first_ns, attempts, now_ns))
            }
            (Some(State::Requesting { local, .. }), Input::Request(message)) => {
                self.stats.crossed += 1;
                Some(self.connect(peer, local, Remote::from(&message), Answer::Sent))
            }
            (Some(state @ State::Requesting { .. }), Input::Reply(message)) => {
                Some(self.replied(peer, state, &message, now_ns))
            }
            (Some(State::Connecting { local, .. }), Input::Request(message)) => {
                // It came again, so this side's own request may have been lost.
                Some(State::Connecting { local, remote: Remote::from(&message), answer: Answer::Owed })
            }
            (Some(State::Connecting { local, remote, answer }), Input::Connected) => {
                Some(self.ready(peer, local, remote, answer))
            }
            (Some(State::Ready { local, remote_epoch }), Input::Request(message)) => {
                self.stats.repeated_replies += 1;
                self.reply(peer, local, &Remote::from(&message));
                Some(State::Ready { local, remote_epoch })
            }
            (Some(state @ State::Failed { .. }), Input::QpReady(_)) => {
                // It was being made when the notice came.
                self.actions.push_back(Action::Destroy { peer });
                Some(state)
            }
            (Some(state), Input::Reply(_) | Input::Request(_)) => {
                self.stats.stale += 1;
                Some(state)
            }
            (Some(state), _) => Some(state),
        }
    }

    fn idle(&mut self, peer: Rank, input: Input) -> Option<State> {
        let remote = match input {
            Input::Need => {
                self.stats.started += 1;
                self.actions.push_back(Action::Lookup { peer });
                None
            }
            Input::Request(message) => {
                self.stats.answered += 1;
                Some(Remote::from(&message))
            }
            Input::Reply(_) => {
                self.stats.stale += 1;
                return None;
            }
            _ => return None,
        };
        match self.config.policy {
            Policy::OnDemand => self.actions.push_back(Action::CreateQp { peer }),
        }
        Some(State::Preparing { card: remote.map(|remote| remote.card), remote })
    }

    fn preparing(
        &mut self,
        peer: Rank,
        card: Option<Card>,
        remote: Option<Remote>,
        input: Input,
        now_ns: u64,
    ) -> Option<State> {
        match input {
            Input::Request(message) => {
                let newest = remote.filter(|known| known.epoch > message.epoch);
                let newest = newest.unwrap_or_else(|| Remote::from(&message));
                Some(State::Preparing { card: Some(newest.card), remote: Some(newest) })
            }
            Input::Card(found) => Some(State::Preparing { card: card.or(Some(found)), remote }),
            Input::QpReady(params) => {
                let local = Local { epoch: self.take_epoch(), params };
                Some(match (remote, card) {
                    (Some(remote), _) => self.connect(peer, local, remote, Answer::Owed),
                    (None, Some(card)) => self.request(peer, local, card, now_ns),
                    (None, None) => State::Addressing { local },
                })
            }
            Input::QpFailed(why) => {
                self.actions.push_back(Action::Failed { peer, why });
                None
            }
            _ => Some(State::Preparing { card, remote }),
        }
    }

    fn request(&mut self, peer: Rank, local: Local, card: Card, now_ns: u64) -> State {
        self.send_request(peer, local, card, now_ns, 0, now_ns)
    }

    fn send_request(
        &mut self,
        peer: Rank,
        local: Local,
        card: Card,
        first_ns: u64,
        attempts: u32,
        now_ns: u64,
    ) -> State {
        self.send(peer, card, MessageKind::Request, local, None, now_ns);
        let due_ns = now_ns.saturating_add(self.pace.wait_ns(attempts));
        State::Requesting { local, card, first_ns, attempts: attempts.saturating_add(1), due_ns }
    }

    /// A reply to the request that is out, or a late one to an earlier.
    fn replied(&mut self, peer: Rank, state: State, message: &Message, now_ns: u64) -> State {
        match state {
            State::Requesting { local, .. } if message.echo == Some(local.epoch) => {
                if let Some(took_ns) = now_ns.checked_sub(message.stamp_ns) {
                    self.pace.sample(took_ns);
                }
                self.connect(peer, local, Remote::from(message), Answer::Sent)
            }
            state => {
                self.stats.stale += 1;
                state
            }
        }
    }

    fn connect(&mut self, peer: Rank, local: Local, remote: Remote, answer: Answer) -> State {
        self.actions.push_back(Action::Connect { peer, params: remote.params, card: remote.card });
        State::Connecting { local, remote, answer }
    }

    fn ready(&mut self, peer: Rank, local: Local, remote: Remote, answer: Answer) -> State {
        self.stats.ready += 1;
        if answer == Answer::Owed {
            self.reply(peer, local, &remote);
        }
        self.actions.push_back(Action::Ready { peer });
        State::Ready { local, remote_epoch: remote.epoch }
    }

    fn fail(&mut self, peer: Rank, state: Option<State>, why: String) -> State {
        let has_qp = match state {
            // The first notice is the cause.
            Some(State::Failed { why }) => return State::Failed { why },
            None => return State::Failed { why },
            Some(State::Preparing { .. }) => false,
            Some(_) => true,
        };
        if has_qp {
            self.actions.push_back(Action::Destroy { peer });
        }
        self.actions.push_back(Action::Failed { peer, why: why.clone() });
        State::Failed { why }
    }

    fn reply(&mut self, peer: Rank, local: Local, remote: &Remote) {
        self.send(peer, remote.card, MessageKind::Reply, local, Some(remote.epoch), remote.stamp_ns);
    }

    fn send(
        &mut self,
        peer: Rank,
        card: Card,
        kind: MessageKind,
        local: Local,
        echo: Option<Epoch>,
        stamp_ns: u64,
    ) {
        let message = Message {
            kind,
            job: self.config.job,
            from: self.config.me,
            to: peer,
            epoch: local.epoch,
            echo,
            stamp_ns,
            params: local.params,
            card: self.config.card,
        };
        self.actions.push_back(Action::Send { peer, card, datagram: message.emit() });
    }

    fn take_epoch(&mut self) -> Epoch {
        let epoch = self.next_epoch;
        self.next_epoch = epoch.next();
        epoch
    }
}

impl From<&Message> for Remote {
    fn from(message: &Message) -> Self {
        Self { epoch: message.epoch, params: message.params, card: message.card, stamp_ns: message.stamp_ns }
    }
}
