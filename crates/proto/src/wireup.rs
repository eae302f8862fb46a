//! How processes connect: the table of a process's peers, and its handshakes with them.
//!
//! [`Wireup`] decides, its driver does. The driver reports what happened (somebody needs a peer, a message came,
//! a queue pair was made) and carries out the actions that [`Wireup::poll_action`] hands out. A [`Peer`] gets a
//! number ([`PeerIx`]) at its first contact; nothing is stored for it before.
//!
//! # Opening
//! ```text
//!   A: need -> look up B's card -> create queue pair
//!      REQUEST(A's facts) ------------------------------->  B: create queue pair, connect it to A's
//!   A: connect to B's queue pair, ready  <---------------  REPLY(B's facts), ready
//! ```
//! All messages carry the same facts (epoch, connection parameters, number of the receiver at the sender, address
//! card), so when both sides ask at once *the crossed request is the reply*: each side connects with what it has
//! and nobody has to win. A queue pair that is not to be had at the moment is tried again, for as long as it takes.
//! Where a [`Budget`] limits their number, a need waits for a place, and connections are closed to make room: who goes,
//! who is next and why nobody waits for ever is said in `budget`.
//!
//! # Closing
//! ```text
//!   A: close -> drain -> CLOSE -------------------------->  B: drain
//!   A: destroy, closed  <---------------------------------  CLOSE REPLY, destroy, closed
//! ```
//! A side sends nothing after its CLOSE or CLOSE REPLY, and takes in what has arrived before it destroys its queue
//! pair; so nothing is lost. *The crossed close is the reply.* A need that comes meanwhile opens a new connection
//! when the old one is closed.
//!
//! # Messages that get lost
//! Datagrams may be lost, repeated and overtaken. The side that lacks the other's facts repeats its request, the side
//! that wants to close its close, at intervals that double up to a cap, for as long as it takes; the other side
//! answers every repetition. Each connection has an epoch at either end, higher than all before: what is late
//! is known by it. The last epoch that was closed is remembered with the peer, so that even a repeated CLOSE
//! of a connection that is gone gets its answer. A request of a *later* epoch while this side is still closing
//! says the same as the answer that got lost. Over a [`Medium::Stream`] each message is sent once; an
//! answer to a close that did not leave before the stream was given up is replaced by the [end](Wireup::ended) of the stream.
//!
//! Both ends have room for incoming data before they tell anyone about themselves, so the first side that
//! is ready may send at once.
//!
//! # Promises
//! - Never two live queue pairs for one pair of processes.
//! - Every need ends in [`Action::Ready`] or in [`Action::Failed`] with a reason, and only a notice from outside
//!   ([`Wireup::broken`]) fails it: silence never does, since a peer may compute for an hour without calling
//!   the library.
//! - When both sides are alive, a connection never stays open at one side only.
//! - An input that makes no sense in a state is refused with both named, and changes nothing.
//!
//! # What it is not
//! No queue of sends (the endpoint keeps those until `Ready`), no clock, no sockets. Time is an argument (nanoseconds of any monotonic clock), as is the seed of the jitter. Messages are
//! taken for the peer's own: who may send them is decided below, by the key that each pair of jobs shares. That key
//! is a new one each time two jobs meet, so nothing of an earlier meeting arrives after [`Wireup::retire`].
mod api;
mod budget;
mod bulletin;
mod card;
mod device;
mod handshake;
mod homes;
mod message;
mod pace;
mod peers;
mod plant;
mod policy;
mod room;
mod word;

#[cfg(test)]
mod tests;

pub use api::*;
pub use budget::{Budget, Usage};
pub use bulletin::{Bulletin, NoBulletin, Numbers};
pub use card::{Card, CardTooLong, Epoch, Params};
pub use device::{DeviceWord, Lack, NodeDevice, QpFor};
pub use handshake::{InputName, StateName};
pub use message::{Datagram, MESSAGE_BYTES_MAX, Message, MessageKind, ParseError};
pub use peers::PEERS_MAX;
pub use policy::{Exchange, Policy, Trigger, auto};
pub use room::{Crowd, Waits};
pub use word::Word;

use crate::ids::{Job, Peer, PeerIx, Process};
use alloc::collections::VecDeque;
use budget::Places;
use core::fmt::Debug;
use handshake::{Age, Common, Input, Pair, Refusal, Remote, State, edge};
use pace::Pace;
use peers::{Full, Peers};
use plant::{Plant, Planted};

/// The peers of one process and its connections to them. See the module's head. `W` is why something failed; it is
/// handed through and never looked at.
///
/// After any call that takes `&mut self`, call [`poll_action`](Self::poll_action) until it returns `None`, then ask
/// [`poll_timeout`](Self::poll_timeout) when [`tick`](Self::tick) is due.
#[derive(Clone, Debug)]
pub struct Wireup<W> {
    peers: Peers<W>,
    common: Common<W>,
}

impl<W: Clone + Debug> Wireup<W> {
    /// No connection, and nothing stored per peer. The process itself has index 0 and generation 0.
    pub fn new(config: Config) -> Self {
        let pace = Pace::new(config.seed);
        Self {
            peers: Peers::new(config.me, config.size),
            common: Common {
                actions: VecDeque::new(),
                next_epoch: Epoch::FIRST,
                places: Places::new(room::checked(config.budget), pace.unhurried_ns()),
                pace,
                stats: Stats::default(),
                planted: Planted::default(),
                config,
            },
        }
    }

    /// Ranks of another job, and its servers, may be peers from now on. The own job is admitted from the start.
    pub fn admit(&mut self, job: Job, size: u32) {
        self.peers.admit(job, size);
    }

    /// How many ranks a job has that was admitted.
    pub fn size_of(&self, job: Job) -> Option<u32> {
        self.peers.size_of(job)
    }

    /// The job disconnects: queue pairs to its peers are destroyed, without a farewell, and their numbers are
    /// stale. Needs must have ended before. What the driver is still making for such a peer, or has not been
    /// asked for yet, is not wanted any more: reporting it is refused as [`IllegalInput::Stale`].
    pub fn retire(&mut self, job: Job) {
        for (ix, state) in self.peers.retire(job) {
            self.common.places.moved(ix.index() as u32, &state, &State::Idle, 0);
            let asks = |action: &Action<W>| {
                use Action::{Announce, Connect, CreateAhead, CreateQp, Drain, Lookup};
                let creates = matches!(action, CreateQp { .. } | CreateAhead { .. });
                creates || matches!(action, Lookup { .. } | Announce { .. } | Connect { .. } | Drain { .. })
            };
            let creates =
                |action: &Action<W>| matches!(action, Action::CreateQp { .. } | Action::CreateAhead { .. });
            let of_peer = |action: &Action<W>| action.ix() == Some(ix);
            let unasked = self.common.actions.iter().any(|action| of_peer(action) && creates(action));
            self.common.actions.retain(|action| !of_peer(action) || !asks(action));
            let index = ix.index() as u32;
            if state.has_qp() {
                self.common.places.leave(index);
                self.common.actions.push_back(Action::Destroy { ix });
            } else if state.holds_place() && unasked {
                self.common.places.give_back(index);
            } else if state.holds_place() {
                self.common.places.leave(index);
                self.common.places.orphans.insert(ix);
            }
        }
    }

    /// This process can be reached in one more way: later messages carry this card.
    pub fn set_card(&mut self, card: Card) {
        self.common.config.card = card;
    }

    /// The peer's number, if it has one.
    #[inline]
    pub fn find(&self, peer: Peer) -> Option<PeerIx> {
        self.peers.find(peer)
    }

    /// The same, where the process is known by its number.
    #[inline]
    pub fn find_process(&self, process: Process) -> Option<PeerIx> {
        self.peers.find_process(process)
    }

    /// The number of a rank of the own job or of one that was admitted.
    #[inline]
    pub fn process(&self, peer: Peer) -> Option<Process> {
        self.peers.process(peer)
    }

    /// Whose number it is, if anybody's.
    pub fn peer_of(&self, process: Process) -> Option<Peer> {
        self.peers.peer_of(process)
    }

    /// The peer's number; it gets one if it has none.
    pub fn intern(&mut self, peer: Peer) -> Result<PeerIx, NeedError<W>> {
        if let Some(ix) = self.find(peer) {
            return Ok(ix);
        }
        self.peers.check(peer)?;
        self.peers.add(peer).map_err(|Full| NeedError::TooMany { peer, max: PEERS_MAX })
    }

    /// Whose number it is. `None`: stale, or nobody's.
    #[inline]
    pub fn who(&self, ix: PeerIx) -> Option<Peer> {
        self.peers.row(ix).map(|(peer, _)| peer)
    }

    /// Somebody wants to talk to the peer. Call it again as often as is convenient: it begins at most one
    /// handshake.
    pub fn need(&mut self, ix: PeerIx, now_ns: u64) -> Result<Progress, NeedError<W>> {
        let (peer, row) = self.peers.row(ix).ok_or(NeedError::Stale(ix))?;
        match row.state() {
            _ if ix == PeerIx::ME => return Err(NeedError::Oneself(peer)),
            State::Ready { .. } => return Ok(Progress::Ready),
            State::Failed { why } => return Err(NeedError::Lost { peer, why: why.clone() }),
            _ => {}
        }
        self.input(ix, Input::Need, now_ns).expect("a peer that is not lost can be needed");
        Ok(Progress::Pending)
    }

    /// A queue pair for the peer is to be made before anybody asks, if there is a place for it: [`Action::CreateAhead`].
    /// When the board has the peer's facts, tell them by [`facts`](Self::facts); if it has none, the two connect by messages.
    pub fn ahead(&mut self, ix: PeerIx, now_ns: u64) -> Result<(), IllegalInput> {
        match self.state(ix) {
            StateName::Idle => self.input(ix, Input::Ahead, now_ns),
            _ => Ok(()),
        }
    }

    /// What this side's queue pair for a peer is known by, while it waits for the board: what [`facts`](Self::facts)
    /// takes at the other side.
    pub fn published(&self, ix: PeerIx) -> Option<Published> {
        match self.peers.row(ix)?.1.state() {
            State::Published { local, .. } => {
                Some(Published { epoch: local.epoch, params: local.params, name: ix.to_wire() })
            }
            _ => None,
        }
    }

    /// What the board says of the peer's queue pair for this process, if it says something. Too late, it changes nothing.
    pub fn facts(
        &mut self,
        ix: PeerIx,
        facts: Option<Published>,
        card: Card,
        now_ns: u64,
    ) -> Result<(), IllegalInput> {
        let row = self.peers.row(ix).map(|(_, row)| row);
        let Some(row) = row.filter(|row| matches!(row.state(), State::Published { .. })) else {
            return Ok(());
        };
        // That of a queue pair which was used and closed already says nothing.
        let stale = |epoch| row.closed.is_some_and(|closed| epoch <= closed);
        let facts =
            facts.filter(|facts| !stale(facts.epoch) || self.common.planted.is(Plant::StaleFactsConnect));
        let input = match facts {
            Some(Published { epoch, params, name }) => {
                Input::Facts(Remote { epoch, params, name, card, stamp_ns: now_ns })
            }
            None => Input::NoFacts(card),
        };
        self.input(ix, input, now_ns)
    }

    /// A message came in. Call it with whatever the handshake's address receives, in any order.
    pub fn datagram(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), DatagramError> {
        let taken = self.take(bytes, now_ns);
        self.common.stats.refused += u64::from(taken.is_err());
        taken
    }

    /// The card that an [`Action::Lookup`] asked for. Harmless when it is not needed any more.
    pub fn card(&mut self, ix: PeerIx, card: Card, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(ix, Input::Card(card), now_ns)
    }

    /// The queue pair that an [`Action::CreateQp`] asked for is there, with room for incoming data. The medium says
    /// how messages to the peer travel from now on. If it is refused as [`IllegalInput::Stale`], destroy the queue pair
    /// and call [`destroyed`](Self::destroyed).
    pub fn qp_ready(
        &mut self,
        ix: PeerIx,
        params: Params,
        medium: Medium,
        now_ns: u64,
    ) -> Result<(), IllegalInput> {
        self.input(ix, Input::QpReady(params, medium), now_ns)
    }

    /// The queue pair that an [`Action::CreateQp`] asked for is not to be had at the moment. It is asked for again,
    /// at growing intervals, for as long as it takes.
    pub fn qp_refused(&mut self, ix: PeerIx, why: W, now_ns: u64) -> Result<(), IllegalInput> {
        self.orphan_refused(ix);
        self.settle(now_ns);
        self.input(ix, Input::QpRefused(why, Refusal::Passing), now_ns)
    }

    /// The queue pair was connected as an [`Action::Connect`] asked.
    pub fn connected(&mut self, ix: PeerIx, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(ix, Input::Connected, now_ns)
    }

    /// The queue pair broke, or the peer is lost or cannot be reached. Final, and the first cause is kept. A number
    /// that is stale already is ignored.
    pub fn broken(&mut self, ix: PeerIx, why: W) {
        assert_ne!(ix, PeerIx::ME, "a process is not lost to itself");
        if self.who(ix).is_some() {
            // No place gets free by that alone, so the time does not matter.
            self.turn(ix, Input::Broken(why), 0).expect("a connection may break in any state");
        }
    }

    /// The stream of a queue pair has ended in order, and not by a reset; all that came before has been taken in. `true`: that was
    /// the answer to this side's close, which got lost: a peer that was told of a close ends its stream only when it has agreed.
    /// `false`: nothing has changed, and the connection is [`broken`](Self::broken).
    pub fn ended(&mut self, ix: PeerIx, now_ns: u64) -> bool {
        let agreed = self.peers.row(ix).is_some_and(|(_, row)| row.state().waits_for_end());
        agreed && self.input(ix, Input::CloseReply, now_ns).is_ok()
    }

    /// This side would like to close a connection that is ready. Nothing happens if it is being closed already.
    pub fn close(&mut self, ix: PeerIx, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(ix, Input::Close, now_ns)
    }

    /// Everything was sent and finished, as an [`Action::Drain`] asked.
    pub fn drained(&mut self, ix: PeerIx, now_ns: u64) -> Result<(), IllegalInput> {
        self.input(ix, Input::Drained, now_ns)
    }

    /// Tries again what is due. Call it when the time that [`poll_timeout`](Self::poll_timeout) gave has come; a
    /// call too early or too late does no harm.
    pub fn tick(&mut self, now_ns: u64) {
        if self.common.places.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.common.places.rang(now_ns);
            self.settle(now_ns);
        }
        while let Some((due_ns, ix)) = self.peers.first_due() {
            if due_ns > now_ns {
                return;
            }
            self.input(ix, Input::Due, now_ns).expect("only what can be tried again is due");
        }
    }

    /// The next thing to do, if any. Call it until it returns `None`, after every call that takes `&mut self`.
    pub fn poll_action(&mut self) -> Option<Action<W>> {
        self.common.actions.pop_front()
    }

    /// When to call [`tick`](Self::tick), if no input comes before. Ask again after every call that takes
    /// `&mut self`.
    pub fn poll_timeout(&self) -> Option<u64> {
        let first = self.peers.first_due().map(|(due_ns, _)| due_ns);
        first.into_iter().chain(self.common.places.due_ns()).min()
    }

    /// How far the connection to a peer is; idle, if the number is stale.
    pub fn state(&self, ix: PeerIx) -> StateName {
        self.peers.row(ix).map_or(StateName::Idle, |(_, row)| row.state().name())
    }

    /// Every peer that has a number, this process included, in order of their places.
    pub fn peers(&self) -> impl Iterator<Item = (PeerIx, Peer)> {
        self.peers.iter().map(|(ix, peer, _)| (ix, peer))
    }

    /// The connections that wait for somebody, in order of first contact: to say for whom a process waits.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.peers.iter().filter_map(|(ix, peer, state)| {
            let tries = state.waits()?;
            Some(Waiting {
                ix,
                peer,
                state: state.name(),
                since_ns: tries.since_ns,
                attempts: tries.attempts,
            })
        })
    }

    /// Why there is no queue pair for a peer that is [`Starved`](StateName::Starved), as the driver gave it last.
    pub fn refusal(&self, ix: PeerIx) -> Option<&W> {
        match self.peers.row(ix)?.1.state() {
            State::Starved { why, .. } => Some(why),
            _ => None,
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        Stats { crowded_now: self.common.places.waiting() as u64, ..self.common.stats }
    }

    /// Connections over which data can flow, now and at most.
    pub fn connections(&self) -> Connections {
        self.peers.connections()
    }
}

impl<W: Clone + Debug> Wireup<W> {
    /// What was being made for a retired peer is not to be had.
    fn orphan_refused(&mut self, ix: PeerIx) {
        if self.common.places.orphans.remove(&ix) {
            self.common.places.left(ix.index() as u32);
        }
    }

    fn take(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), DatagramError> {
        let message = Message::parse(bytes)?;
        let Some(ix) = self.sender(&message)? else {
            self.common.stats.stale += 1;
            return Ok(());
        };
        let row = self.peers.row_mut(ix);
        let mut age = row.state().age(row.closed, &message);
        let closes = message.kind == MessageKind::Close && matches!(row.state(), State::Ready { .. });
        if closes && self.common.planted.is(Plant::StaleCloseKills) {
            age = Age::Current;
        }
        match age {
            Age::Current => self.input(ix, message.into(), now_ns).expect("the message is current"),
            Age::Closed => self.pair(ix, now_ns).close_again(&message),
            Age::Stale => self.common.stats.stale += 1,
            Age::Ahead { known } => {
                return Err(DatagramError::EpochAhead { peer: message.from, known, got: message.epoch });
            }
        }
        Ok(())
    }

    /// Who sent it. A request, or its announcement, is reason enough to give the sender a number; all else from somebody without one
    /// speaks of nothing that is here.
    fn sender(&mut self, message: &Message) -> Result<Option<PeerIx>, DatagramError> {
        let (me, peer) = (self.common.config.me, message.from);
        if message.to != me {
            return Err(DatagramError::Misdirected { to: message.to });
        }
        if peer == me {
            return Err(DatagramError::Oneself(peer));
        }
        self.peers.check(peer)?;
        match self.peers.find(peer) {
            None if matches!(message.kind, MessageKind::Request | MessageKind::Announce) => {
                let added =
                    self.peers.add(peer).map_err(|Full| DatagramError::TooMany { peer, max: PEERS_MAX });
                added.map(Some)
            }
            known => Ok(known),
        }
    }

    /// Something happened to a connection; places may have become free or be needed by that.
    fn input(&mut self, ix: PeerIx, input: Input<W>, now_ns: u64) -> Result<(), IllegalInput> {
        self.turn(ix, input, now_ns)?;
        self.settle(now_ns);
        Ok(())
    }

    /// The only way a connection changes: looks the move up, makes it, and holds it against the table.
    fn turn(&mut self, ix: PeerIx, input: Input<W>, now_ns: u64) -> Result<(), IllegalInput> {
        let name = input.name();
        let (peer, row) = self.peers.row(ix).ok_or(IllegalInput::Stale { ix, input: name })?;
        let from = row.state().name();
        let targets = edge(from, name).ok_or(IllegalInput::State { peer, state: from, input: name })?;
        let state = row.state().clone();
        let next = self.pair(ix, now_ns).step(state, input);
        let to = next.name();
        let listed = targets.contains(&to) || self.common.planted.any();
        assert!(listed, "{from} -{name}-> {to} is not in the table");
        let before = self.peers.set(ix, next);
        let (_, row) = self.peers.row(ix).expect("the row stays");
        self.common.places.moved(ix.index() as u32, &before, row.state(), now_ns);
        Ok(())
    }

    /// The peer of a number that was found valid, with what a move of its connection may use.
    fn pair(&mut self, ix: PeerIx, now_ns: u64) -> Pair<'_, W> {
        let row = self.peers.row_mut(ix);
        let peer = row.peer.expect("the row is in use");
        Pair { ix, peer, closed: &mut row.closed, now_ns, common: &mut self.common }
    }
}
