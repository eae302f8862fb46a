//! What one node of the tree decides: barriers, the board, and the names at the root.
use super::board::{Board, BoardFull};
use super::{Entry, Frame, NameAnswer, NameRequest, Shape};
use crate::ids::NodeId;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// Most names that may be published at a time.
pub const NAMES_MAX: usize = 65_536;
/// Bytes of keys and values in one frame of entries. A single larger entry has a frame of its own.
const ENTRIES_BYTES_MAX: usize = 128 << 10;
/// Bytes that an entry costs beside its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 8;

/// What a node wants done. Take them with [`Node::poll_action`] after every input, until there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this to the parent.
    Up(Frame),
    /// Send this to a child.
    Down(NodeId, Frame),
    /// Tell all local ranks that the barrier is over.
    FenceDone,
    /// Tell a local rank what the name service answered.
    Named(u32, NameAnswer),
}

/// An input that breaks the protocol. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// A local rank entered the same barrier twice.
    #[error("local rank {0} entered the barrier twice")]
    EnteredTwice(u32),
    /// A frame belongs to another barrier than the current one.
    #[error("node {from} speaks of barrier {got}, this is barrier {expected}")]
    WrongFence {
        /// Who sent it.
        from: NodeId,
        /// Its number.
        got: u32,
        /// The current one.
        expected: u32,
    },
    /// A child entered the same barrier twice, or a node that is no child spoke as one.
    #[error("node {0} is not a child that may enter the barrier now")]
    NotExpected(NodeId),
    /// A frame that a node does not take from there.
    #[error("a frame from node {0} that has no business here")]
    Misplaced(NodeId),
    /// No such local rank.
    #[error("no local rank {0}")]
    NoSlot(u32),
    /// No room.
    #[error(transparent)]
    Full(#[from] BoardFull),
}

/// The state of one node.
#[derive(Debug)]
pub struct Node {
    id: NodeId,
    shape: Shape,
    board: Board,
    fence: u32,
    local_in: Vec<bool>,
    children: Vec<Child>,
    names: BTreeMap<Vec<u8>, Vec<u8>>,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
struct Child {
    id: NodeId,
    is_in: bool,
}

impl Node {
    /// Node `id` of the tree, with `local` ranks.
    pub fn new(id: NodeId, shape: Shape, local: u32) -> Self {
        Node {
            id,
            shape,
            board: Board::default(),
            fence: 0,
            local_in: vec![false; local as usize],
            children: shape.children(id).map(|id| Child { id, is_in: false }).collect(),
            names: BTreeMap::new(),
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A local rank puts a key. Every rank of the job can get it after the next barrier.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoardFull> {
        self.board.put(Entry { key: key.to_vec(), value: value.to_vec() })
    }

    /// The value of a key; always known here if it was put before the last barrier.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.board.get(key)
    }

    /// Are local ranks waiting in a barrier?
    pub fn in_fence(&self) -> bool {
        self.local_in.contains(&true)
    }

    /// A local rank enters the barrier.
    pub fn enter(&mut self, slot: u32) -> Result<(), NodeError> {
        let entered = self.local_in.get_mut(slot as usize).ok_or(NodeError::NoSlot(slot))?;
        if *entered {
            return Err(NodeError::EnteredTwice(slot));
        }
        *entered = true;
        self.close_fence()
    }

    /// A local rank asks the name service.
    pub fn ask_name(&mut self, slot: u32, request: NameRequest) {
        self.route_name(self.id, slot, request);
    }

    /// A frame from a child about barriers, keys or names.
    pub fn from_child(&mut self, from: NodeId, frame: Frame) -> Result<(), NodeError> {
        let child =
            self.children.iter().position(|child| child.id == from).ok_or(NodeError::NotExpected(from))?;
        match frame {
            Frame::Entries { fence, entries } => {
                self.check_fence(from, fence)?;
                entries.into_iter().try_for_each(|entry| self.board.put(entry))?;
            }
            Frame::FenceUp { fence } => {
                self.check_fence(from, fence)?;
                if core::mem::replace(&mut self.children[child].is_in, true) {
                    return Err(NodeError::NotExpected(from));
                }
                self.close_fence()?;
            }
            Frame::Name { node, slot, request } => self.route_name(node, slot, request),
            _ => return Err(NodeError::Misplaced(from)),
        }
        Ok(())
    }

    /// A frame from the parent about barriers, keys or names.
    pub fn from_parent(&mut self, frame: Frame) -> Result<(), NodeError> {
        let from = self.shape.parent(self.id).ok_or(NodeError::Misplaced(self.id))?;
        match frame {
            Frame::Entries { fence, entries } => {
                self.check_fence(from, fence)?;
                self.send_all_down(&Frame::Entries { fence, entries: entries.clone() });
                self.board.settle(entries)?;
            }
            Frame::FenceDown { fence } => {
                self.check_fence(from, fence)?;
                self.open_fence();
            }
            Frame::NameReply { node, slot, answer } => self.answer_name(node, slot, answer),
            _ => return Err(NodeError::Misplaced(from)),
        }
        Ok(())
    }

    fn check_fence(&self, from: NodeId, got: u32) -> Result<(), NodeError> {
        if got == self.fence {
            Ok(())
        } else {
            Err(NodeError::WrongFence { from, got, expected: self.fence })
        }
    }

    /// When everybody at and below this node is in: tell the parent, or, at the root, everybody.
    fn close_fence(&mut self) -> Result<(), NodeError> {
        if self.local_in.contains(&false) || self.children.iter().any(|child| !child.is_in) {
            return Ok(());
        }
        let fence = self.fence;
        let fresh = self.board.take_fresh();
        if self.shape.parent(self.id).is_some() {
            self.actions.extend(pack(fence, fresh).map(Action::Up));
            self.actions.push_back(Action::Up(Frame::FenceUp { fence }));
            return Ok(());
        }
        if !self.children.is_empty() {
            for frame in pack(fence, fresh.clone()) {
                self.send_all_down(&frame);
            }
        }
        self.board.settle(fresh)?;
        self.open_fence();
        Ok(())
    }

    /// The barrier is over, here and below.
    fn open_fence(&mut self) {
        self.send_all_down(&Frame::FenceDown { fence: self.fence });
        self.fence = self.fence.wrapping_add(1);
        self.local_in.fill(false);
        self.children.iter_mut().for_each(|child| child.is_in = false);
        self.actions.push_back(Action::FenceDone);
    }

    fn send_all_down(&mut self, frame: &Frame) {
        self.actions.extend(self.children.iter().map(|child| Action::Down(child.id, frame.clone())));
    }

    fn route_name(&mut self, node: NodeId, slot: u32, request: NameRequest) {
        if self.shape.parent(self.id).is_some() {
            self.actions.push_back(Action::Up(Frame::Name { node, slot, request }));
            return;
        }
        let answer = self.serve_name(request);
        self.answer_name(node, slot, answer);
    }

    /// Only at the root.
    fn serve_name(&mut self, request: NameRequest) -> NameAnswer {
        match request {
            NameRequest::Publish { service, .. } if self.names.contains_key(&service) => NameAnswer::Taken,
            NameRequest::Publish { .. } if self.names.len() >= NAMES_MAX => NameAnswer::Full,
            NameRequest::Publish { service, port } => {
                self.names.insert(service, port);
                NameAnswer::Done
            }
            NameRequest::Lookup { service } => {
                self.names.get(&service).map_or(NameAnswer::NotFound, |port| NameAnswer::Found(port.clone()))
            }
            NameRequest::Unpublish { service } => match self.names.remove(&service) {
                Some(_) => NameAnswer::Done,
                None => NameAnswer::NotFound,
            },
        }
    }

    /// Towards the node that asked. An answer for a node that is not below is dropped: nobody asked.
    fn answer_name(&mut self, node: NodeId, slot: u32, answer: NameAnswer) {
        if node == self.id {
            self.actions.push_back(Action::Named(slot, answer));
        } else if let Some(hop) = self.shape.next_hop(self.id, node) {
            self.actions.push_back(Action::Down(hop, Frame::NameReply { node, slot, answer }));
        }
    }
}

/// Entries in frames of bounded size.
fn pack(fence: u32, entries: Vec<Entry>) -> impl Iterator<Item = Frame> {
    let mut rest = entries.into_iter().peekable();
    core::iter::from_fn(move || {
        let mut part = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = rest.peek() {
            bytes += entry.key.len() + entry.value.len() + ENTRY_OVERHEAD_BYTES;
            if !part.is_empty() && bytes > ENTRIES_BYTES_MAX {
                break;
            }
            part.extend(rest.next());
        }
        (!part.is_empty()).then_some(Frame::Entries { fence, entries: part })
    })
}
