//! All exchanges of a job in one process, with processes that follow scripts, in virtual time.
use crate::exchange::{Action, Call, Exchange, Letter, Message, Outcome};
use crate::ids::{NodeId, Rank};
use crate::lane::world::Wires;
use crate::lane::{Generation, JobId, Neighbour, Place};
use crate::tree::Shape;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What a process does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Call(Call),
    Send(Letter),
    Recv(Option<Rank>, u32),
}

/// What a process got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Outcome(Outcome),
    Letter(Letter),
}

/// Does the net say things twice?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    Plain,
    Repeating,
}

pub(super) struct World {
    pub(super) shape: Shape,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) wires: Wires,
    pub(super) net: Net,
    /// By rank.
    pub(super) got: Vec<Vec<Got>>,
    /// Everything that was sent, if wanted.
    pub(super) record: Option<Vec<(NodeId, NodeId, Vec<u8>)>>,
    places: Vec<NodeId>,
    scripts: Vec<VecDeque<Step>>,
    ready: Vec<usize>,
}

impl World {
    /// `local` processes on each node, placed in turn.
    pub(super) fn new(nodes: u32, radix: u32, local: u32, seed: u64) -> Self {
        let places: Vec<NodeId> = (0..nodes * local).map(|rank| NodeId(rank % nodes)).collect();
        World::placed(Shape::new(nodes, radix), places, Generation(1), seed)
    }

    pub(super) fn placed(shape: Shape, places: Vec<NodeId>, generation: Generation, seed: u64) -> Self {
        let exchange = |node| Exchange::new(JobId(3), generation, Place::new(shape, NodeId(node), &places));
        World {
            shape,
            exchanges: (0..shape.nodes()).map(exchange).collect(),
            wires: Wires::new(seed),
            net: Net::Plain,
            got: alloc::vec![Vec::new(); places.len()],
            record: None,
            scripts: Vec::new(),
            ready: Vec::new(),
            places,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.places.len()
    }

    /// Runs the scripts of all processes to their end.
    pub(super) fn run(&mut self, script: impl Fn(usize) -> Vec<Step>) {
        self.scripts = (0..self.size()).map(|rank| script(rank).into()).collect();
        self.ready = (0..self.size()).collect();
        loop {
            let steps_first = self.wires.chance.below(2) == 0;
            let moved = (steps_first && self.step_one()) || self.deliver_one() || self.step_one();
            if !moved {
                break;
            }
        }
        assert_eq!(
            self.scripts.iter().position(|script| !script.is_empty()),
            None,
            "a process waits for ever"
        );
    }

    fn step_one(&mut self) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let at = self.wires.chance.below(self.ready.len());
        let rank = self.ready[at];
        let Some(step) = self.scripts[rank].pop_front() else {
            self.ready.swap_remove(at);
            return true;
        };
        let node = self.places[rank];
        let exchange = &mut self.exchanges[node.index()];
        match step {
            Step::Send(letter) => exchange.send(letter).expect("a valid letter"),
            Step::Recv(from, tag) => {
                match exchange.recv(Rank(rank as u32), from, tag).expect("a valid receive") {
                    Some(letter) => self.got[rank].push(Got::Letter(letter)),
                    None => drop(self.ready.swap_remove(at)),
                }
            }
            Step::Call(call) => {
                self.ready.swap_remove(at);
                exchange.enter(Rank(rank as u32), call).expect("a valid call");
            }
        }
        self.carry_out(node);
        true
    }

    fn carry_out(&mut self, node: NodeId) {
        while let Some(action) = self.exchanges[node.index()].poll_action() {
            let (rank, got) = match action {
                Action::Send(to, message) => {
                    self.send(node, to, &message);
                    continue;
                }
                Action::Received(letter) => (letter.to, Got::Letter(letter)),
                Action::Done { rank, outcome } => (rank, Got::Outcome(outcome)),
            };
            assert_eq!(self.places[rank.index()], node);
            self.got[rank.index()].push(got);
            self.ready.push(rank.index());
        }
    }

    fn send(&mut self, from: NodeId, to: Neighbour, message: &Message) {
        let to = match to {
            Neighbour::Parent => self.shape.parent(from).expect("the root has no parent"),
            Neighbour::Child(child) => child,
        };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if let Some(record) = &mut self.record {
            record.push((from, to, bytes.clone()));
        }
        if self.net == Net::Repeating && self.wires.chance.below(3) == 0 {
            self.wires.send(from, to, bytes.clone());
        }
        self.wires.send(from, to, bytes);
    }

    fn deliver_one(&mut self) -> bool {
        let Some((from, to, bytes)) = self.wires.next() else { return false };
        self.hear(from, to, &bytes);
        true
    }

    pub(super) fn hear(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let message = Message::decode(bytes).expect("a valid message");
        let from =
            if self.shape.parent(to) == Some(from) { Neighbour::Parent } else { Neighbour::Child(from) };
        self.exchanges[to.index()].hear(from, message).expect("a message in turn");
        self.carry_out(to);
    }

    pub(super) fn messages(&self) -> u64 {
        self.exchanges.iter().map(|exchange| exchange.counters().traffic.messages_sent).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.exchanges.iter().map(|exchange| exchange.counters().traffic.bytes_sent).sum()
    }
}
