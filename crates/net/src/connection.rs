//! A peer this process has to do with: its queue pair, and what waits to be sent.
use crate::api::{NetError, ReqId};
use crate::endpoint::{Endpoint, sent};
use crate::request::State;
use crate::wire::Header;
use fabric::{PostError, Qp};
use proto::ids::Rank;
use std::collections::VecDeque;
use sys::UserBuf;

/// Bytes of a fragment. Small enough that both sides copy at the same time, large enough to hide the slot.
const FRAGMENT_BYTES: usize = 8 << 10;

/// A peer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub rank: Rank,
    /// Made, perhaps not connected yet.
    pub qp: Option<Qp>,
    /// Connected.
    pub ready: Option<Qp>,
    /// What waits, in order.
    pub queue: VecDeque<Pending>,
    /// Bytes of messages that were kept for it before it was connected.
    pub kept_bytes: usize,
    pub failed: Option<NetError>,
    /// Is it in the list of connections with something in their queue?
    listed: bool,
}

impl Connection {
    pub fn new(rank: Rank) -> Self {
        Connection {
            rank,
            qp: None,
            ready: None,
            queue: VecDeque::new(),
            kept_bytes: 0,
            failed: None,
            listed: false,
        }
    }
}

/// Something that waits to be sent.
#[derive(Debug)]
pub(crate) enum Pending {
    /// From the program's buffer; `request` is done when it has been posted.
    Lent { header: [u64; 2], buf: UserBuf, request: Option<ReqId> },
    /// From memory of its own.
    Owned { header: [u64; 2], bytes: Box<[u8]> },
    /// The rest of a buffer, in fragments.
    Stream { request: ReqId, buf: UserBuf, into: u32, offset: usize },
}

impl Pending {
    pub fn message(header: Header, buf: UserBuf, request: Option<ReqId>) -> Self {
        Pending::Lent { header: header.encode(), buf, request }
    }

    pub fn owned(header: Header, bytes: &[u8]) -> Self {
        Pending::Owned { header: header.encode(), bytes: bytes.into() }
    }

    /// A copy of the program's buffer.
    pub fn kept(header: Header, buf: UserBuf) -> Self {
        let mut bytes = vec![0; buf.len()].into_boxed_slice();
        buf.copy_to(&mut bytes);
        Pending::Owned { header: header.encode(), bytes }
    }
}

impl Endpoint {
    /// Puts something at the end of a connection's queue and sends what can be sent.
    pub(crate) fn enqueue(&mut self, index: u32, pending: Pending) {
        let connection = &mut self.connections[index as usize];
        connection.queue.push_back(pending);
        if connection.queue.len() == 1 && connection.ready.is_some() {
            self.pump(index);
        }
        self.list(index);
    }

    /// Notes that a connection has something in its queue.
    pub(crate) fn list(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !connection.listed && !connection.queue.is_empty() {
            connection.listed = true;
            self.waiting.push(index);
        }
    }

    /// Sends what waits, as far as there is room. Did anything move?
    pub(crate) fn pump_all(&mut self) -> bool {
        let mut moved = false;
        let mut place = 0;
        while place < self.waiting.len() {
            let index = self.waiting[place];
            moved |= self.pump(index);
            let connection = &mut self.connections[index as usize];
            if connection.queue.is_empty() {
                connection.listed = false;
                self.waiting.swap_remove(place);
            } else {
                place += 1;
            }
        }
        moved
    }

    /// Sends what waits for one peer. Did anything move?
    pub(crate) fn pump(&mut self, index: u32) -> bool {
        let Some(qp) = self.connections[index as usize].ready else { return false };
        let mut moved = false;
        while let Some(front) = self.connections[index as usize].queue.front_mut() {
            let posted = match front {
                Pending::Lent { header, buf, .. } => self.context.post_send(qp, *header, *buf),
                Pending::Owned { header, bytes } => self.context.post_send_bytes(qp, *header, bytes),
                Pending::Stream { buf, into, offset, .. } => {
                    let bytes = FRAGMENT_BYTES.min(buf.len() - *offset);
                    let header = Header::Fragment { request: *into, offset: *offset as u64 };
                    let posted = self.context.post_send(qp, header.encode(), buf.part(*offset, bytes));
                    if posted.is_ok() {
                        *offset += bytes;
                        moved = true;
                        if *offset < buf.len() {
                            continue;
                        }
                    }
                    posted
                }
            };
            match posted {
                Ok(()) => self.sent_front(index),
                Err(PostError::Full) => break,
                Err(error) => {
                    self.fail(index, error.to_string());
                    break;
                }
            }
            moved = true;
        }
        moved
    }

    /// The first in the queue has been sent.
    fn sent_front(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let rank = connection.rank;
        match connection.queue.pop_front() {
            Some(Pending::Lent { request: Some(id), .. }) => {
                self.requests.replace(id, State::Done(Ok(sent(rank))));
            }
            Some(Pending::Stream { request, .. }) => self.send_finished(request.index, rank),
            _ => {}
        }
    }

    /// The connection will never work (again): whoever waits for it is told.
    pub(crate) fn fail(&mut self, index: u32, why: String) {
        let rank = self.connections[index as usize].rank;
        let error = NetError::Unreachable { rank, node: self.node_of(rank), why };
        let connection = &mut self.connections[index as usize];
        connection.failed = Some(error.clone());
        connection.ready = None;
        let queue = std::mem::take(&mut connection.queue);
        if let Some(qp) = connection.qp.take() {
            self.context.destroy_qp(qp);
        }
        for pending in queue {
            if let Pending::Lent { request: Some(id), .. } = pending {
                self.requests.replace(id, State::Done(Err(error.clone())));
            }
        }
        let waits = |state: &State| match state {
            State::SendOffered { to, .. } => *to == rank,
            State::ReceiveStreaming { outcome, .. } => outcome.source == rank,
            _ => false,
        };
        for id in self.requests.ids_where(waits) {
            if let Some(State::SendOffered { key: Some(key), .. }) = self.requests.get(id) {
                self.context.deregister(*key);
            }
            self.requests.replace(id, State::Done(Err(error.clone())));
        }
    }
}
