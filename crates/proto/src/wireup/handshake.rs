//! The connection of one pair: its states, the one table of legal moves, and which messages still say something.
//! The moves themselves are in [`step`]; who the peers are is in [`super::peers`].
mod step;

pub(super) use step::{Common, Pair};

use super::{Card, Epoch, Medium, Message, MessageKind, Params};
use alloc::boxed::Box;
use core::fmt;

/// One connection as far as it has got.
#[derive(Clone, Debug)]
pub(super) enum State<W> {
    Idle,
    Addressing { since_ns: u64 },
    Preparing { target: Target, tries: Tries },
    Starved { target: Target, tries: Tries, due_ns: u64, why: W },
    Crowded { target: Target, tries: Tries, since_ns: u64 },
    Published { local: Local, tries: Tries },
    Requesting { local: Local, card: Card, tries: Tries, due_ns: Option<u64> },
    Connecting { link: Link, answer: Answer, peer_closes: PeerCloses },
    Ready { link: Link },
    Draining { link: Link, again: Again },
    Closing { link: Link, again: Again, tries: Tries, due_ns: Option<u64> },
    Yielding { link: Link, again: Again },
    Failed { why: W },
}

/// Whom a queue pair is made for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// This side asks; the card is known.
    Found(Card),
    /// The peer asks.
    Asked(Remote),
    /// Nobody asks yet: it is made before both sides tell each other by the board. Does somebody need it meanwhile?
    Ahead { needed: bool },
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub local: Local,
    pub remote: Remote,
}

/// The local end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    pub epoch: Epoch,
    pub params: Params,
    pub medium: Medium,
}

/// The peer's end, as its last message told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub epoch: Epoch,
    pub params: Params,
    pub name: u32,
    pub card: Card,
    pub stamp_ns: u64,
}

/// How long something has been tried, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    pub since_ns: u64,
    pub attempts: u32,
}

/// Does the peer still wait for this side's facts?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Owed,
    /// It has them, or repeats its request until it has.
    Sent,
}

/// Did the peer, which was ready first, ask for the close of a connection that is not ready here?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerCloses {
    NotYet,
    Asked,
}

/// Why there is no queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It may be had a little later.
    Passing,
    /// The device of the node has no more.
    Device,
}

/// What follows when the connection is closed.
#[derive(Clone, Debug)]
pub(super) enum Again {
    No,
    /// Somebody here needs the peer.
    Needed,
    /// The peer has asked for the next connection already.
    Asked(Box<Remote>),
}

impl Target {
    pub(super) fn card(&self) -> Option<Card> {
        match self {
            Target::Found(card) => Some(*card),
            Target::Asked(remote) => Some(remote.card),
            Target::Ahead { .. } => None,
        }
    }

    /// A request came.
    fn asked(self, remote: Remote) -> Self {
        match self {
            Target::Asked(known) if known.epoch > remote.epoch => self,
            _ => Target::Asked(remote),
        }
    }
}

impl From<&Message> for Remote {
    fn from(message: &Message) -> Self {
        let Message { epoch, params, name, card, stamp_ns, .. } = *message;
        Self { epoch, params, name, card, stamp_ns }
    }
}

impl<W> State<W> {
    pub(super) fn name(&self) -> StateName {
        match self {
            State::Idle => StateName::Idle,
            State::Addressing { .. } => StateName::Addressing,
            State::Preparing { .. } => StateName::Preparing,
            State::Starved { .. } => StateName::Starved,
            State::Crowded { .. } => StateName::Crowded,
            State::Published { .. } => StateName::Published,
            State::Requesting { .. } => StateName::Requesting,
            State::Connecting { .. } => StateName::Connecting,
            State::Ready { .. } => StateName::Ready,
            State::Draining { .. } => StateName::Draining,
            State::Closing { .. } => StateName::Closing,
            State::Yielding { .. } => StateName::Yielding,
            State::Failed { .. } => StateName::Failed,
        }
    }

    /// When the next attempt is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        match self {
            State::Starved { due_ns, .. } => Some(*due_ns),
            State::Requesting { due_ns, .. } | State::Closing { due_ns, .. } => *due_ns,
            _ => None,
        }
    }

    /// Since when it has been waiting for somebody else, if it has.
    pub(super) fn waits(&self) -> Option<Tries> {
        match *self {
            State::Addressing { since_ns } => Some(Tries { since_ns, attempts: 1 }),
            State::Starved { tries, .. }
            | State::Crowded { tries, .. }
            | State::Published { tries, .. }
            | State::Requesting { tries, .. }
            | State::Closing { tries, .. } => Some(tries),
            _ => None,
        }
    }

    fn local(&self) -> Option<&Local> {
        match self {
            State::Published { local, .. } | State::Requesting { local, .. } => Some(local),
            _ => self.link().map(|link| &link.local),
        }
    }

    fn link(&self) -> Option<&Link> {
        match self {
            State::Connecting { link, .. }
            | State::Ready { link }
            | State::Draining { link, .. }
            | State::Closing { link, .. }
            | State::Yielding { link, .. } => Some(link),
            _ => None,
        }
    }

    /// Has the peer nothing left to do here but to end the stream?
    pub(super) fn waits_for_end(&self) -> bool {
        matches!(self, State::Closing { link, .. } if link.local.medium == Medium::Stream)
    }

    /// Does it hold a place: is there a queue pair, or is one being made?
    pub(super) fn holds_place(&self) -> bool {
        self.has_qp() || matches!(self, State::Preparing { .. })
    }

    /// Is its queue pair being made before anybody has asked?
    #[cfg(test)]
    pub(super) fn is_ahead(&self) -> bool {
        matches!(self, State::Preparing { target: Target::Ahead { .. }, .. })
    }

    /// Is there a queue pair?
    pub(super) fn has_qp(&self) -> bool {
        self.local().is_some()
    }

    /// Does a message still say something about the connection there is? `closed` is the peer's last connection
    /// that was closed.
    pub(super) fn age(&self, closed: Option<Epoch>, message: &Message) -> Age {
        use MessageKind::{Announce, Close, CloseReply, Reply, Request};
        if matches!(self, State::Failed { .. }) {
            return Age::Stale;
        }
        if closed.is_some_and(|closed| message.epoch <= closed) {
            return if message.kind == Close { Age::Closed } else { Age::Stale };
        }
        let meant = message.echo.is_some() && message.echo == self.local().map(|local| local.epoch);
        let expected = match message.kind {
            Request => true,
            Reply => meant && matches!(self, State::Requesting { .. }),
            Close => meant,
            CloseReply => meant && matches!(self, State::Closing { .. }),
            Announce => !self.has_qp(),
        };
        let known = self.link().map(|link| link.remote.epoch);
        match known {
            _ if !expected => Age::Stale,
            Some(known) if message.epoch < known => Age::Stale,
            // Without the peer's answer to the close: it may only begin anew if it has seen the close through.
            Some(known) if message.epoch > known => match (self, message.kind) {
                (State::Closing { .. }, Request) => Age::Current,
                _ => Age::Ahead { known },
            },
            _ => Age::Current,
        }
    }
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// The connection there is, or one to be.
    Current,
    /// A connection that was closed here, and which the peer still wants to close: the answer got lost.
    Closed,
    /// Nothing that matters any more.
    Stale,
    /// A later connection, although the peer never closed this one.
    Ahead { known: Epoch },
}

/// The state of a connection, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// No connection.
    Idle,
    /// The peer's card is being looked up.
    Addressing,
    /// The local queue pair is being made.
    Preparing,
    /// No queue pair was to be had; it is tried again.
    Starved,
    /// It waits for a place within the budget.
    Crowded,
    /// The queue pair is made, and the peer learns of it by the board, as this side does of the peer's.
    Published,
    /// A request is out.
    Requesting,
    /// The driver connects the queue pair to the peer's.
    Connecting,
    /// Data flows.
    Ready,
    /// This side wants to close, and finishes what it has begun to send.
    Draining,
    /// This side has sent everything and told the peer.
    Closing,
    /// The peer wants to close, and this side finishes what it has begun to send.
    Yielding,
    /// The peer is lost, for good.
    Failed,
}

impl StateName {
    /// What is being done in this state, for people who wait for the connection.
    pub fn words(self) -> &'static str {
        match self {
            StateName::Idle => "there is no connection",
            StateName::Addressing => "its address is looked up",
            StateName::Preparing => "a queue pair is made",
            StateName::Starved => "no queue pair was to be had, and it is tried again",
            StateName::Crowded => "it has as many connections as it may have, and one must close first",
            StateName::Published => "the peer has not connected its side",
            StateName::Requesting => "the peer has not answered",
            StateName::Connecting => "the network connects it",
            StateName::Ready => "it is connected",
            StateName::Draining => "what was begun is still sent",
            StateName::Closing => "the peer has not agreed to close",
            StateName::Yielding => "the peer wants to close, and what was begun is still sent",
            StateName::Failed => "the peer is lost",
        }
    }

    /// May data be on its way?
    pub(super) fn is_open(self) -> bool {
        use StateName::{Closing, Draining, Ready, Yielding};
        matches!(self, Ready | Draining | Closing | Yielding)
    }
}

/// An input, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputName {
    /// Somebody wants to talk to the peer.
    Need,
    /// The peer's request arrived.
    Request,
    /// The peer's reply arrived.
    Reply,
    /// The peer's close arrived.
    CloseRequest,
    /// The peer's answer to a close arrived.
    CloseReply,
    /// The peer is making a queue pair for this side.
    Announce,
    /// A queue pair is to be made before anybody asks.
    Ahead,
    /// The board has the peer's facts.
    Facts,
    /// It has none that are of use.
    NoFacts,
    /// The peer's card was found.
    Card,
    /// The queue pair was made.
    QpReady,
    /// No queue pair was to be had at the moment.
    QpRefused,
    /// There is a place within the budget.
    Place,
    /// The queue pair was connected.
    Connected,
    /// The driver would like to close the connection.
    Close,
    /// Everything has been sent.
    Drained,
    /// The time of the next attempt came.
    Due,
    /// The queue pair broke, or the peer is lost.
    Broken,
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for InputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What happened to one peer. Messages are those that [`State::age`] calls current.
#[derive(Debug)]
pub(super) enum Input<W> {
    Need,
    Request(Message),
    Reply(Message),
    CloseRequest(Message),
    CloseReply,
    Announce(Card),
    Ahead,
    Facts(Remote),
    NoFacts(Card),
    Card(Card),
    QpReady(Params, Medium),
    QpRefused(W, Refusal),
    Place,
    Connected,
    Close,
    Drained,
    Due,
    Broken(W),
}

impl<W> Input<W> {
    pub(super) fn name(&self) -> InputName {
        match self {
            Input::Need => InputName::Need,
            Input::Request(_) => InputName::Request,
            Input::Reply(_) => InputName::Reply,
            Input::CloseRequest(_) => InputName::CloseRequest,
            Input::CloseReply => InputName::CloseReply,
            Input::Announce(_) => InputName::Announce,
            Input::Ahead => InputName::Ahead,
            Input::Facts(_) => InputName::Facts,
            Input::NoFacts(_) => InputName::NoFacts,
            Input::Card(_) => InputName::Card,
            Input::QpReady(..) => InputName::QpReady,
            Input::QpRefused(..) => InputName::QpRefused,
            Input::Place => InputName::Place,
            Input::Connected => InputName::Connected,
            Input::Close => InputName::Close,
            Input::Drained => InputName::Drained,
            Input::Due => InputName::Due,
            Input::Broken(_) => InputName::Broken,
        }
    }
}

impl<W> From<Message> for Input<W> {
    fn from(message: Message) -> Self {
        match message.kind {
            MessageKind::Request => Input::Request(message),
            MessageKind::Reply => Input::Reply(message),
            MessageKind::Close => Input::CloseRequest(message),
            MessageKind::CloseReply => Input::CloseReply,
            MessageKind::Announce => Input::Announce(message.card),
        }
    }
}

/// In a state, an input, and where it may lead.
pub(super) type Edge = (StateName, InputName, &'static [StateName]);

/// Every legal move. An input that has no line here is refused and changes nothing.
pub(super) const EDGES: &[Edge] = {
    use InputName::*;
    use StateName::*;
    &[
        (Idle, Need, &[Addressing]),
        (Idle, Request, &[Preparing, Crowded]),
        (Idle, Announce, &[Idle, Preparing]),
        (Idle, Ahead, &[Idle, Preparing]),
        (Idle, Card, &[Idle]),
        (Idle, Broken, &[Failed]),
        (Addressing, Need, &[Addressing]),
        (Addressing, Request, &[Preparing, Crowded]),
        (Addressing, Announce, &[Preparing, Crowded]),
        (Addressing, Card, &[Preparing, Crowded]),
        (Addressing, Broken, &[Failed]),
        (Preparing, Need, &[Preparing]),
        (Preparing, Request, &[Preparing]),
        (Preparing, Announce, &[Preparing]),
        (Preparing, Card, &[Preparing]),
        (Preparing, QpReady, &[Requesting, Connecting, Published]),
        (Preparing, QpRefused, &[Starved, Crowded, Idle, Addressing]),
        (Preparing, Broken, &[Failed]),
        (Starved, Need, &[Starved]),
        (Starved, Request, &[Preparing, Crowded]),
        (Starved, Announce, &[Starved]),
        (Starved, Card, &[Starved]),
        (Starved, Due, &[Preparing, Crowded]),
        (Starved, Broken, &[Failed]),
        (Crowded, Need, &[Crowded]),
        (Crowded, Request, &[Crowded]),
        (Crowded, Announce, &[Crowded]),
        (Crowded, Card, &[Crowded]),
        (Crowded, Place, &[Preparing]),
        (Crowded, Broken, &[Failed]),
        (Published, Need, &[Published]),
        (Published, Facts, &[Connecting]),
        (Published, Request, &[Connecting]),
        (Published, CloseRequest, &[Connecting]),
        (Published, NoFacts, &[Preparing, Crowded]),
        (Published, Card, &[Published]),
        (Published, Broken, &[Failed]),
        (Requesting, Need, &[Requesting]),
        (Requesting, Request, &[Connecting]),
        (Requesting, Reply, &[Connecting]),
        (Requesting, CloseRequest, &[Connecting]),
        (Requesting, Card, &[Requesting]),
        (Requesting, Due, &[Requesting]),
        (Requesting, Broken, &[Failed]),
        (Connecting, Need, &[Connecting]),
        (Connecting, Request, &[Connecting]),
        (Connecting, CloseRequest, &[Connecting]),
        (Connecting, Card, &[Connecting]),
        (Connecting, Connected, &[Ready, Yielding]),
        (Connecting, Broken, &[Failed]),
        (Ready, Need, &[Ready]),
        (Ready, Request, &[Ready]),
        (Ready, Card, &[Ready]),
        (Ready, Close, &[Draining]),
        (Ready, CloseRequest, &[Yielding]),
        (Ready, Broken, &[Failed]),
        (Draining, Need, &[Draining]),
        (Draining, Request, &[Draining]),
        (Draining, Card, &[Draining]),
        (Draining, Close, &[Draining]),
        (Draining, CloseRequest, &[Yielding]),
        (Draining, Drained, &[Closing]),
        (Draining, Broken, &[Failed]),
        (Closing, Need, &[Closing]),
        // The peer repeats its request, or begins anew: then it has seen the close through.
        (Closing, Request, &[Closing, Preparing, Crowded]),
        (Closing, Card, &[Closing]),
        (Closing, Close, &[Closing]),
        // A crossed close is the answer.
        (Closing, CloseRequest, &[Idle, Preparing, Crowded]),
        (Closing, CloseReply, &[Idle, Preparing, Crowded]),
        (Closing, Due, &[Closing]),
        (Closing, Broken, &[Failed]),
        (Yielding, Need, &[Yielding]),
        (Yielding, Request, &[Yielding]),
        (Yielding, Card, &[Yielding]),
        (Yielding, Close, &[Yielding]),
        (Yielding, CloseRequest, &[Yielding]),
        (Yielding, Drained, &[Idle, Preparing, Crowded]),
        (Yielding, Broken, &[Failed]),
        (Failed, Need, &[Failed]),
        // The driver was still at work when the notice came.
        (Failed, Card, &[Failed]),
        (Failed, QpReady, &[Failed]),
        (Failed, QpRefused, &[Failed]),
        (Failed, Connected, &[Failed]),
        (Failed, Close, &[Failed]),
        (Failed, Drained, &[Failed]),
        (Failed, Broken, &[Failed]),
    ]
};

/// Where an input may lead from a state, if it is legal there.
pub(super) fn edge(state: StateName, input: InputName) -> Option<&'static [StateName]> {
    EDGES.iter().find(|edge| (edge.0, edge.1) == (state, input)).map(|edge| edge.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fmt::Write, string::String};

    /// The moves that change state, as text: a change of the protocol shows here.
    #[test]
    fn graph() {
        let mut text = String::new();
        for (from, input, targets) in EDGES {
            for to in targets.iter().filter(|&to| to != from && *to != StateName::Failed) {
                writeln!(text, "{from} -{input}-> {to}").unwrap();
            }
        }
        let expected = "\
Idle -Need-> Addressing
Idle -Request-> Preparing
Idle -Request-> Crowded
Idle -Announce-> Preparing
Idle -Ahead-> Preparing
Addressing -Request-> Preparing
Addressing -Request-> Crowded
Addressing -Announce-> Preparing
Addressing -Announce-> Crowded
Addressing -Card-> Preparing
Addressing -Card-> Crowded
Preparing -QpReady-> Requesting
Preparing -QpReady-> Connecting
Preparing -QpReady-> Published
Preparing -QpRefused-> Starved
Preparing -QpRefused-> Crowded
Preparing -QpRefused-> Idle
Preparing -QpRefused-> Addressing
Starved -Request-> Preparing
Starved -Request-> Crowded
Starved -Due-> Preparing
Starved -Due-> Crowded
Crowded -Place-> Preparing
Published -Facts-> Connecting
Published -Request-> Connecting
Published -CloseRequest-> Connecting
Published -NoFacts-> Preparing
Published -NoFacts-> Crowded
Requesting -Request-> Connecting
Requesting -Reply-> Connecting
Requesting -CloseRequest-> Connecting
Connecting -Connected-> Ready
Connecting -Connected-> Yielding
Ready -Close-> Draining
Ready -CloseRequest-> Yielding
Draining -CloseRequest-> Yielding
Draining -Drained-> Closing
Closing -Request-> Preparing
Closing -Request-> Crowded
Closing -CloseRequest-> Idle
Closing -CloseRequest-> Preparing
Closing -CloseRequest-> Crowded
Closing -CloseReply-> Idle
Closing -CloseReply-> Preparing
Closing -CloseReply-> Crowded
Yielding -Drained-> Idle
Yielding -Drained-> Preparing
Yielding -Drained-> Crowded
";
        assert_eq!(text, expected);
    }

    #[test]
    fn every_state_may_break_and_nothing_leads_out_of_failed() {
        let edges = |input: InputName| EDGES.iter().filter(move |edge| edge.1 == input);
        assert_eq!(edges(InputName::Broken).count(), 13);
        assert!(edges(InputName::Broken).all(|edge| edge.2 == [StateName::Failed]));
        let failed = EDGES.iter().filter(|edge| edge.0 == StateName::Failed);
        assert!({ failed }.all(|edge| edge.2 == [StateName::Failed]));
    }

    #[test]
    fn no_move_is_listed_twice() {
        for (number, edge) in EDGES.iter().enumerate() {
            let again = EDGES[number + 1..].iter().find(|other| (other.0, other.1) == (edge.0, edge.1));
            assert_eq!(again, None);
        }
    }
}
