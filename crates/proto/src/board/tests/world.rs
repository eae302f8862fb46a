//! All boards of a job in one process, with processes that follow scripts, in virtual time.
use crate::board::{Action, Board, BoardConfig, BoardCounters, Got, Message};
use crate::ids::NodeId;
use crate::lane::world::Wires;
use crate::lane::{Neighbour, Place};
use crate::tree::Shape;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// What a process does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(Vec<u8>, Vec<u8>),
    Get(Vec<u8>),
    Fence,
}

/// A get and what it found.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) rank: usize,
    /// Fences that the process had passed.
    pub(super) phase: usize,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Process {
    node: NodeId,
    slot: u32,
    script: VecDeque<Step>,
    phase: usize,
}

/// Does the net say things twice?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    Plain,
    Repeating,
}

pub(super) struct World {
    pub(super) shape: Shape,
    pub(super) boards: Vec<Board>,
    pub(super) wires: Wires,
    pub(super) seen: Vec<Seen>,
    pub(super) net: Net,
    /// Everything that was sent, if wanted.
    pub(super) record: Option<Vec<(NodeId, NodeId, Vec<u8>)>>,
    /// Process by node and slot.
    ranks: Vec<Vec<usize>>,
    processes: Vec<Process>,
    ready: Vec<usize>,
}

impl World {
    /// `local` processes on each node, placed in turn.
    pub(super) fn new(nodes: u32, radix: u32, local: u32, config: BoardConfig, seed: u64) -> Self {
        let places: Vec<NodeId> = (0..nodes * local).map(|rank| NodeId(rank % nodes)).collect();
        World::placed(Shape::new(nodes, radix), &places, config, seed)
    }

    pub(super) fn placed(shape: Shape, places: &[NodeId], config: BoardConfig, seed: u64) -> Self {
        let mut ranks = vec![Vec::new(); shape.nodes() as usize];
        let mut processes = Vec::new();
        for (rank, node) in places.iter().enumerate() {
            let slot = ranks[node.index()].len() as u32;
            ranks[node.index()].push(rank);
            processes.push(Process { node: *node, slot, script: VecDeque::new(), phase: 0 });
        }
        let board = |node| Board::new(config, &Place::new(shape, NodeId(node), places));
        World {
            shape,
            boards: (0..shape.nodes()).map(board).collect(),
            wires: Wires::new(seed),
            seen: Vec::new(),
            net: Net::Plain,
            record: None,
            ranks,
            processes,
            ready: Vec::new(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.processes.len()
    }

    /// Runs the scripts of all processes to their end.
    pub(super) fn run(&mut self, script: impl Fn(usize) -> Vec<Step>) {
        for (rank, process) in self.processes.iter_mut().enumerate() {
            process.script = script(rank).into();
        }
        self.ready = (0..self.size()).collect();
        loop {
            let steps_first = self.wires.chance.below(2) == 0;
            let moved = (steps_first && self.step_one()) || self.deliver_one() || self.step_one();
            if !moved {
                break;
            }
        }
        let stuck = self.processes.iter().position(|process| !process.script.is_empty());
        assert_eq!(stuck, None, "a process waits for ever");
    }

    fn step_one(&mut self) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let at = self.wires.chance.below(self.ready.len());
        let rank = self.ready[at];
        let Process { node, slot, ref mut script, .. } = self.processes[rank];
        let Some(step) = script.pop_front() else {
            self.ready.swap_remove(at);
            return true;
        };
        let board = &mut self.boards[node.index()];
        match step {
            Step::Put(key, value) => board.put(slot, &key, &value).expect("room"),
            Step::Get(key) => match board.get(slot, &key).expect("a valid get") {
                Got::Value(value) => self.note(rank, key, Some(value.to_vec())),
                Got::Absent => self.note(rank, key, None),
                Got::Later => drop(self.ready.swap_remove(at)),
            },
            Step::Fence => {
                board.enter(slot).expect("not in the fence");
                self.ready.swap_remove(at);
            }
        }
        self.carry_out(node);
        true
    }

    fn note(&mut self, rank: usize, key: Vec<u8>, value: Option<Vec<u8>>) {
        let phase = self.processes[rank].phase;
        self.seen.push(Seen { rank, phase, key, value });
    }

    fn carry_out(&mut self, node: NodeId) {
        while let Some(action) = self.boards[node.index()].poll_action() {
            match action {
                Action::Send(to, message) => self.send(node, to, &message),
                Action::Answer { client, key, value } => {
                    let rank = self.ranks[node.index()][client as usize];
                    self.note(rank, key.to_vec(), value.map(|value| value.to_vec()));
                    self.ready.push(rank);
                }
                Action::FenceDone => {
                    for &rank in &self.ranks[node.index()] {
                        self.processes[rank].phase += 1;
                        self.ready.push(rank);
                    }
                }
            }
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
        if self.net == Net::Repeating && self.wires.chance.below(8) == 0 {
            self.wires.send(from, to, bytes);
        }
        true
    }

    pub(super) fn hear(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let message = Message::decode(bytes).expect("a valid message");
        let from =
            if self.shape.parent(to) == Some(from) { Neighbour::Parent } else { Neighbour::Child(from) };
        self.boards[to.index()].hear(from, message).expect("a message in turn");
        self.carry_out(to);
    }

    pub(super) fn total(&self, count: impl Fn(&BoardCounters) -> u64) -> u64 {
        self.boards.iter().map(|board| count(&board.counters())).sum()
    }

    pub(super) fn messages(&self) -> u64 {
        self.total(|counters| counters.traffic.messages_sent)
    }
}
