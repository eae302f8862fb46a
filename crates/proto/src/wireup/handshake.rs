//! The states of one connection, and the one table of legal moves.
use super::{Card, Epoch, Params};
use alloc::string::String;
use core::fmt;

/// One connection as far as it has got. A peer without one is [`StateName::Idle`] and costs nothing.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// The local queue pair is being made.
    Preparing { card: Option<Card>, remote: Option<Remote> },
    /// The queue pair is there; the peer's card is not.
    Addressing { local: Local },
    /// A request is out and will be repeated.
    Requesting { local: Local, card: Card, first_ns: u64, attempts: u32, due_ns: u64 },
    /// Both sides' facts are known; the driver connects the queue pair.
    Connecting { local: Local, remote: Remote, answer: Answer },
    /// Data flows.
    Ready { local: Local, remote_epoch: Epoch },
    /// The peer is lost, for good.
    Failed { why: String },
}

/// The local end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    pub epoch: Epoch,
    pub params: Params,
}

/// The peer's end, as its last request or reply told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub epoch: Epoch,
    pub params: Params,
    pub card: Card,
    pub stamp_ns: u64,
}

/// Does the peer still wait for this side's facts?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Owed,
    /// It has them, or repeats its request until it has.
    Sent,
}

impl State {
    pub(super) fn name(&self) -> StateName {
        match self {
            State::Preparing { .. } => StateName::Preparing,
            State::Addressing { .. } => StateName::Addressing,
            State::Requesting { .. } => StateName::Requesting,
            State::Connecting { .. } => StateName::Connecting,
            State::Ready { .. } => StateName::Ready,
            State::Failed { .. } => StateName::Failed,
        }
    }

    /// When the next request is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        match self {
            State::Requesting { due_ns, .. } => Some(*due_ns),
            _ => None,
        }
    }
}

/// The state of a connection, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// Nothing is there, and nothing is stored.
    Idle,
    /// The local queue pair is being made.
    Preparing,
    /// The queue pair is there, the peer's address card is not.
    Addressing,
    /// A request is out.
    Requesting,
    /// The driver connects the queue pair to the peer's.
    Connecting,
    /// Data flows.
    Ready,
    /// The peer is lost, for good.
    Failed,
}

/// An input, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputName {
    /// Somebody wants to send to or receive from the peer.
    Need,
    /// The peer's request arrived.
    Request,
    /// The peer's reply arrived.
    Reply,
    /// The board gave the peer's card.
    Card,
    /// The queue pair was made.
    QpReady,
    /// The queue pair could not be made.
    QpFailed,
    /// The queue pair was connected.
    Connected,
    /// The time to repeat a request came.
    Due,
    /// A death notice came.
    Died,
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

/// In a state, an input, and where it may lead.
pub(super) type Edge = (StateName, InputName, &'static [StateName]);

/// Every legal move. An input that has no line here is refused and changes nothing.
pub(super) const EDGES: &[Edge] = {
    use InputName::*;
    use StateName::*;
    &[
        (Idle, Need, &[Preparing]),
        (Idle, Request, &[Preparing]),
        (Idle, Reply, &[Idle]),
        (Idle, Card, &[Idle]),
        (Idle, Died, &[Failed]),
        (Preparing, Need, &[Preparing]),
        (Preparing, Request, &[Preparing]),
        (Preparing, Reply, &[Preparing]),
        (Preparing, Card, &[Preparing]),
        (Preparing, QpReady, &[Addressing, Requesting, Connecting]),
        (Preparing, QpFailed, &[Idle]),
        (Preparing, Died, &[Failed]),
        (Addressing, Need, &[Addressing]),
        (Addressing, Request, &[Connecting]),
        (Addressing, Reply, &[Addressing]),
        (Addressing, Card, &[Requesting]),
        (Addressing, Died, &[Failed]),
        (Requesting, Need, &[Requesting]),
        (Requesting, Request, &[Connecting]),
        (Requesting, Reply, &[Connecting, Requesting]),
        (Requesting, Card, &[Requesting]),
        (Requesting, Due, &[Requesting]),
        (Requesting, Died, &[Failed]),
        (Connecting, Need, &[Connecting]),
        (Connecting, Request, &[Connecting]),
        (Connecting, Reply, &[Connecting]),
        (Connecting, Card, &[Connecting]),
        (Connecting, Connected, &[Ready]),
        (Connecting, Died, &[Failed]),
        (Ready, Need, &[Ready]),
        (Ready, Request, &[Ready]),
        (Ready, Reply, &[Ready]),
        (Ready, Card, &[Ready]),
        (Ready, Died, &[Failed]),
        (Failed, Need, &[Failed]),
        (Failed, Request, &[Failed]),
        (Failed, Reply, &[Failed]),
        (Failed, Card, &[Failed]),
        // The driver was still at work when the notice came.
        (Failed, QpReady, &[Failed]),
        (Failed, QpFailed, &[Failed]),
        (Failed, Connected, &[Failed]),
        (Failed, Died, &[Failed]),
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
            for to in targets.iter().filter(|&to| to != from) {
                writeln!(text, "{from} -{input}-> {to}").unwrap();
            }
        }
        let expected = "\
Idle -Need-> Preparing
Idle -Request-> Preparing
Idle -Died-> Failed
Preparing -QpReady-> Addressing
Preparing -QpReady-> Requesting
Preparing -QpReady-> Connecting
Preparing -QpFailed-> Idle
Preparing -Died-> Failed
Addressing -Request-> Connecting
Addressing -Card-> Requesting
Addressing -Died-> Failed
Requesting -Request-> Connecting
Requesting -Reply-> Connecting
Requesting -Died-> Failed
Connecting -Connected-> Ready
Connecting -Died-> Failed
Ready -Died-> Failed
";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_move_is_listed_twice() {
        for (number, edge) in EDGES.iter().enumerate() {
            let again = EDGES[number + 1..].iter().find(|other| (other.0, other.1) == (edge.0, edge.1));
            assert_eq!(again, None);
        }
    }
}
