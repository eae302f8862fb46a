//! What programs make of an open device.
use crate::machine::{Kind, State};
use crate::memory::Piece;
use crate::socket::Counter;
use crate::target::Shared;
use crate::wire::{Action, Place};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use verbs::ffi::*;

/// Objects of a kind, by numbers that are not used again soon.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: BTreeMap<u32, T>,
    last: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { objects: BTreeMap::new(), last: 0 }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, object: T) -> u32 {
        self.last += 1;
        self.objects.insert(self.last, object);
        self.last
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.objects.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.objects.get_mut(&number)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        self.objects.remove(&number)
    }
}

/// A receive.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub id: u64,
    pub pieces: Vec<Piece>,
}

/// What is to be sent or asked for.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub id: u64,
    pub action: Action,
    pub immediate: Option<u32>,
    pub solicited: bool,
    pub told: bool,
    /// Copied when it was posted, if it was.
    pub copied: Option<Vec<u8>>,
    pub pieces: Vec<Piece>,
    pub addr: u64,
    pub rkey: u32,
    pub operand: u64,
    pub swap: u64,
    pub srq: u32,
    /// Of a datagram: where it goes, which queue pair there, and its key.
    pub datagram: Option<(Place, u32, u32)>,
}

impl Work {
    pub(crate) fn bytes(&self) -> u64 {
        match &self.copied {
            Some(bytes) => bytes.len() as u64,
            None => self.pieces.iter().map(|piece| u64::from(piece.bytes)).sum(),
        }
    }

    /// What a completion calls it.
    pub(crate) fn opcode(&self) -> Enum {
        match self.action {
            Action::Send => IBV_WC_SEND,
            Action::Write => IBV_WC_RDMA_WRITE,
            Action::Read => IBV_WC_RDMA_READ,
            Action::CompareSwap => IBV_WC_COMP_SWAP,
            Action::FetchAdd => IBV_WC_FETCH_ADD,
        }
    }
}

/// The first work of a send queue is under way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub number: u64,
    /// Which work it is, however often it is asked for.
    pub work: u64,
    /// The connection that its request went through, if it did.
    pub via: Option<u32>,
    pub retry_at: Option<Instant>,
    /// Since when nobody has answered.
    pub silent_since: Option<Instant>,
    /// How often a peer without a receive may still be asked.
    pub rnr_left: u8,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    /// The program's structure, by its address.
    pub raw: usize,
    pub kind: Kind,
    pub state: State,
    pub pd: u32,
    pub cap: Caps,
    pub send_cq: u32,
    pub receive_cq: u32,
    pub srq: Option<u32>,
    pub domain: u64,
    pub all_told: bool,
    pub attr: Attributes,
    pub work: VecDeque<Work>,
    pub receives: VecDeque<Receive>,
    /// Places of the send queue that are taken: until the completion is polled for.
    pub taken: u32,
    /// Those whose completions nobody asked for: they are free with the next one.
    pub untold: u32,
    pub flight: Option<Flight>,
    /// Of the receiving half of XRC: what others that have it open share.
    pub shared: Option<Shared>,
}

/// How much of what a queue pair has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// What a queue pair was told by its moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    pub port: u8,
    pub access: u32,
    pub qkey: u32,
    pub dest: u32,
    pub place: Place,
    pub receive_psn: u32,
    pub send_psn: u32,
    pub reads_in: u8,
    pub rnr_timer: u8,
    pub timeout: u8,
    pub retries: u8,
    pub rnr_retries: u8,
}

/// An entry of a completion queue.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub wc: ibv_wc,
    /// Places of the send queue that are free when it is polled for.
    pub frees: u32,
}

/// What a completion queue is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    No,
    Solicited,
    Any,
}

/// A completion queue.
pub(crate) struct Cq {
    pub raw: usize,
    pub most: usize,
    pub entries: VecDeque<Entry>,
    pub armed: Armed,
    pub channel: Option<u32>,
    /// Queue pairs and shared receive queues that complete here.
    pub users: u32,
    pub overrun: bool,
    /// Events that the program has got and not acknowledged.
    pub unacknowledged: u32,
}

/// What completion queues wake programs by.
#[derive(Debug)]
pub(crate) struct Channel {
    pub counter: Arc<Counter>,
    pub events: VecDeque<u32>,
    pub users: u32,
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct Srq {
    pub raw: usize,
    pub pd: u32,
    pub most: u32,
    pub limit: u32,
    pub receives: VecDeque<Receive>,
    pub users: u32,
    /// Its domain and completion queue, of XRC.
    pub xrc: Option<(u64, u32)>,
}

/// Something that the device tells by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub kind: Enum,
    /// A structure of the program's by its address, or the number of a port.
    pub element: usize,
}
