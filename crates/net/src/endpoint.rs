//! The endpoint: sends, receives and probes of one process.
use crate::api::{Envelope, Message, NetError, Outcome, Pattern, Probed, ReqId, SendMode};
use crate::connection::{Connection, Pending};
use crate::request::{Requests, State};
use crate::start::Job;
use crate::wire::{Header, Kind, Offer};
use fabric::{Context, Qp};
use proto::ids::{NodeId, Rank};
use proto::matching::{self, Matcher, Posted};
use sys::{UserBuf, UserBufMut};

/// Longest message that is sent without asking the receiver, where the receiver can read this process's memory
/// (one copy instead of two), and where it cannot.
const EAGER_MAX_READ: usize = 4 << 10;
const EAGER_MAX_COPY: usize = 8 << 10;
/// Bytes of eager messages kept per peer while its connection is being made.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Bytes of unexpected messages past which peers are asked for rendezvous.
const UNEXPECTED_BYTES_MAX: usize = 64 << 20;
const NO_CONNECTION: u32 = u32::MAX;

/// A message that came before its receive.
#[derive(Debug)]
pub(crate) enum Unexpected {
    /// All of it; `answer` is the sender's request if it waits for the match.
    Whole { bytes: Box<[u8]>, answer: Option<u32> },
    /// It lies in the sender's memory.
    Offer(Offer),
}

impl Unexpected {
    fn bytes(&self) -> usize {
        match self {
            Unexpected::Whole { bytes, .. } => bytes.len(),
            Unexpected::Offer(offer) => offer.bytes as usize,
        }
    }
}

/// Counters that are not kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub connected: u64,
    pub connected_peak: u64,
    pub connected_remote: u64,
    pub connected_remote_peak: u64,
    pub eager: u64,
    pub rendezvous: u64,
    pub bytes: u64,
}

/// One process's endpoint. See the crate's head.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) job: Job,
    pub(crate) context: Context,
    pub(crate) matcher: Matcher<ReqId, Unexpected>,
    pub(crate) requests: Requests,
    /// Connection of each rank; empty until the first one.
    by_rank: Vec<u32>,
    pub(crate) connections: Vec<Connection>,
    /// Connection of each queue pair.
    pub(crate) by_qp: Vec<u32>,
    pub(crate) counters: Counters,
    /// Connections with something in their queue.
    pub(crate) waiting: Vec<u32>,
    unexpected_bytes: usize,
    frugal: bool,
    /// Longest message that is sent without asking.
    eager_max: usize,
    /// Messages that matched probes took out.
    probed: Vec<(u64, matching::Envelope, Unexpected)>,
    probed_next: u64,
}

impl Endpoint {
    pub(crate) fn new(job: Job, context: Context) -> Self {
        let eager_max = if context.has_cma() { EAGER_MAX_READ } else { EAGER_MAX_COPY };
        Endpoint {
            job,
            context,
            matcher: Matcher::new(),
            requests: Requests::default(),
            by_rank: Vec::new(),
            connections: Vec::new(),
            by_qp: Vec::new(),
            counters: Counters::default(),
            waiting: Vec::new(),
            unexpected_bytes: 0,
            frugal: false,
            eager_max,
            probed: Vec::new(),
            probed_next: 0,
        }
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.job.rank
    }

    /// Processes of the job.
    #[inline]
    pub fn size(&self) -> u32 {
        self.job.size
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        self.job.facts.node_of(rank)
    }

    /// Do more processes than cores live on this host?
    pub fn shares_cores(&self) -> bool {
        self.job.oversubscribed
    }

    /// Sends a message. `None`: complete already, the buffer is free.
    #[inline]
    pub fn isend(
        &mut self,
        to: Rank,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<Option<ReqId>, NetError> {
        if let Some(connection) = self.connected(to) {
            let (index, qp) = connection;
            if buf.len() <= self.eager_max && mode == SendMode::Standard && !self.context.is_peer_frugal(qp) {
                let header = Header::Message { kind: Kind::Eager, envelope, request: 0 };
                if self.context.post_send(qp, header.encode(), buf).is_ok() {
                    self.counters.eager += 1;
                    self.counters.bytes += buf.len() as u64;
                    return Ok(None);
                }
            }
            return self.send_slowly(index, envelope, buf, mode);
        }
        self.send_first(to, envelope, buf, mode)
    }

    /// Sends a message and waits until the buffer is free.
    #[inline]
    pub fn send(
        &mut self,
        to: Rank,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<(), NetError> {
        match self.isend(to, envelope, buf, mode)? {
            None => Ok(()),
            Some(id) => self.wait(id).map(|_| ()),
        }
    }

    /// The connection to a rank, if it is up and nothing waits in front.
    #[inline]
    fn connected(&self, to: Rank) -> Option<(u32, Qp)> {
        let index = *self.by_rank.get(to.index())?;
        let connection = self.connections.get(index as usize)?;
        if connection.queue.is_empty() { connection.ready.map(|qp| (index, qp)) } else { None }
    }

    /// No ready connection yet, or the peer is this process.
    #[cold]
    fn send_first(
        &mut self,
        to: Rank,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<Option<ReqId>, NetError> {
        if to.0 >= self.size() {
            return Err(NetError::NoSuchRank { rank: to, size: self.size() });
        }
        if to == self.rank() {
            return Ok(self.send_to_self(envelope, buf, mode));
        }
        let index = self.connection_of(to);
        if let Some(error) = &self.connections[index as usize].failed {
            return Err(error.clone());
        }
        if self.connections[index as usize].ready.is_none() {
            self.need(to);
        }
        self.send_slowly(index, envelope, buf, mode)
    }

    /// Sends through the connection's queue: eagerly if it may, else as an offer.
    fn send_slowly(
        &mut self,
        index: u32,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<Option<ReqId>, NetError> {
        self.counters.bytes += buf.len() as u64;
        let frugal = self.connections[index as usize].ready.is_some_and(|qp| self.context.is_peer_frugal(qp));
        if buf.len() > self.eager_max || (frugal && !buf.is_empty()) {
            return Ok(Some(self.offer(index, envelope, buf)));
        }
        self.counters.eager += 1;
        if mode == SendMode::Synchronous {
            let state = State::SendOffered { buf, key: None, to: self.connections[index as usize].rank };
            let id = self.requests.insert(state);
            let header = Header::Message { kind: Kind::EagerSync, envelope, request: id.index };
            self.enqueue(index, Pending::message(header, buf, None));
            return Ok(Some(id));
        }
        let header = Header::Message { kind: Kind::Eager, envelope, request: 0 };
        let connection = &mut self.connections[index as usize];
        // A sender must not wait for a peer that is not in the library yet: small messages are kept.
        if connection.ready.is_none() && connection.kept_bytes + buf.len() <= KEPT_BYTES_MAX {
            connection.kept_bytes += buf.len();
            self.enqueue(index, Pending::kept(header, buf));
            return Ok(None);
        }
        let id = self.requests.insert(State::SendQueued);
        self.enqueue(index, Pending::message(header, buf, Some(id)));
        Ok(Some(id))
    }

    fn offer(&mut self, index: u32, envelope: Envelope, buf: UserBuf) -> ReqId {
        self.counters.rendezvous += 1;
        let key = self.context.register(buf);
        let to = self.connections[index as usize].rank;
        let id = self.requests.insert(State::SendOffered { buf, key, to });
        let (addr, bytes, key) = (buf.addr(), buf.len() as u64, key.map(|key| key.0));
        let offer = Offer { addr, bytes, key, request: id.index };
        let header = Header::Message { kind: Kind::Offer, envelope, request: id.index };
        self.enqueue(index, Pending::owned(header, &offer.encode()));
        id
    }

    fn send_to_self(&mut self, envelope: Envelope, buf: UserBuf, mode: SendMode) -> Option<ReqId> {
        let me = self.rank();
        let from_me = with_source(envelope, me);
        if let Some(receive) = self.matcher.arrive(from_me) {
            let Some(State::ReceivePosted { buf: to, .. }) = self.requests.get(receive) else { return None };
            let bytes = buf.len().min(to.len());
            to.copy_from(&buf.part(0, bytes));
            self.finish_receive(receive, from_me, buf.len(), bytes);
            return None;
        }
        let mut bytes = vec![0; buf.len()].into_boxed_slice();
        buf.copy_to(&mut bytes);
        let (answer, id) = match mode {
            SendMode::Standard => (None, None),
            SendMode::Synchronous => {
                let id = self.requests.insert(State::SendOffered { buf, key: None, to: me });
                (Some(id.index), Some(id))
            }
        };
        self.keep_unexpected(from_me, Unexpected::Whole { bytes, answer });
        id
    }

    /// Posts a receive.
    #[inline]
    pub fn irecv(&mut self, pattern: Pattern, buf: UserBufMut) -> ReqId {
        // The id is needed to post, the key of the post to cancel: the state is set behind it.
        let id = self.requests.insert(State::SendQueued);
        match self.matcher.post(pattern, id) {
            Posted::Queued(key) => {
                self.requests.replace(id, State::ReceivePosted { buf, key });
            }
            Posted::Matched(envelope, message) => self.receive_unexpected(id, buf, envelope, message),
        }
        id
    }

    fn receive_unexpected(
        &mut self,
        id: ReqId,
        buf: UserBufMut,
        envelope: matching::Envelope,
        message: Unexpected,
    ) {
        match message {
            Unexpected::Whole { bytes, answer } => {
                self.unexpected_bytes -= bytes.len();
                self.relax_frugality();
                let fits = bytes.len().min(buf.len());
                buf.copy_from_slice(&bytes[..fits]);
                self.finish_receive(id, envelope, bytes.len(), fits);
                if let Some(request) = answer {
                    self.answer(envelope.source, request);
                }
            }
            Unexpected::Offer(offer) => self.accept(id, buf, envelope, offer),
        }
    }

    /// Tells the sender that its message was matched and read.
    pub(crate) fn answer(&mut self, to: Rank, request: u32) {
        if to == self.rank() {
            self.send_finished(request, to);
            return;
        }
        let index = self.connection_of(to);
        self.enqueue(index, Pending::owned(Header::Fin { request }, &[]));
    }

    /// A send that was offered has been taken by its receiver. Only that receiver may say so.
    pub(crate) fn send_finished(&mut self, request: u32, by: Rank) {
        let Some(id) = self.requests.by_index(request) else { return };
        let Some(State::SendOffered { key, to, .. }) = self.requests.get(id) else { return };
        if *to != by {
            return;
        }
        if let Some(key) = *key {
            self.context.deregister(key);
        }
        self.requests.replace(id, State::Done(Ok(sent(by))));
    }

    #[inline]
    pub(crate) fn finish_receive(&mut self, id: ReqId, from: matching::Envelope, len: usize, bytes: usize) {
        let outcome =
            Outcome { source: from.source, tag: from.tag, bytes, truncated: len > bytes, cancelled: false };
        self.requests.replace(id, State::Done(Ok(outcome)));
    }

    pub(crate) fn keep_unexpected(&mut self, envelope: matching::Envelope, message: Unexpected) {
        if let Unexpected::Whole { bytes, .. } = &message {
            self.unexpected_bytes += bytes.len();
            if self.unexpected_bytes > UNEXPECTED_BYTES_MAX && !self.frugal {
                self.frugal = true;
                self.context.set_frugal(true);
            }
        }
        self.matcher.unexpected(envelope, message);
    }

    fn relax_frugality(&mut self) {
        if self.frugal && self.unexpected_bytes < UNEXPECTED_BYTES_MAX / 2 {
            self.frugal = false;
            self.context.set_frugal(false);
        }
    }

    /// Has it ended? Makes no progress. An id that is not live has.
    #[inline]
    pub fn is_done(&self, id: ReqId) -> bool {
        !matches!(self.requests.get(id), Some(state) if !matches!(state, State::Done(_)))
    }

    /// How it ended, once it has; the id is free then.
    #[inline]
    pub fn take(&mut self, id: ReqId) -> Option<Result<Outcome, NetError>> {
        match self.requests.get(id) {
            Some(State::Done(_)) => match self.requests.remove(id) {
                Some(State::Done(result)) => Some(result),
                _ => None,
            },
            Some(_) => None,
            None => Some(Err(NetError::StaleRequest)),
        }
    }

    /// Lets a message end by itself; its id is free.
    pub fn forget(&mut self, id: ReqId) {
        self.requests.forget(id);
    }

    /// Cancels a receive that has not matched. `false`: it has, and goes on.
    pub fn cancel_recv(&mut self, id: ReqId) -> bool {
        let Some(State::ReceivePosted { key, .. }) = self.requests.get(id) else { return false };
        if self.matcher.cancel(*key).is_none() {
            return false;
        }
        let outcome = Outcome { source: self.rank(), tag: 0, bytes: 0, truncated: false, cancelled: true };
        self.requests.replace(id, State::Done(Ok(outcome)));
        true
    }

    /// Is there a message that the pattern accepts? Makes no progress.
    pub fn iprobe(&mut self, pattern: Pattern) -> Option<Probed> {
        let (envelope, message) = self.matcher.probe(pattern)?;
        Some(Probed { source: envelope.source, tag: envelope.tag, bytes: message.bytes() })
    }

    /// Takes a message out of the queue for [`Endpoint::imrecv`]. Makes no progress.
    pub fn improbe(&mut self, pattern: Pattern) -> Option<(Message, Probed)> {
        let (envelope, message) = self.matcher.take(pattern)?;
        let probed = Probed { source: envelope.source, tag: envelope.tag, bytes: message.bytes() };
        let id = self.probed_next;
        self.probed_next += 1;
        self.probed.push((id, envelope, message));
        Some((Message(id), probed))
    }

    /// Receives a message that a matched probe took out.
    pub fn imrecv(&mut self, message: Message, buf: UserBufMut) -> ReqId {
        let id = self.requests.insert(State::SendQueued);
        match self.probed.iter().position(|(probed, ..)| *probed == message.0) {
            Some(at) => {
                let (_, envelope, message) = self.probed.swap_remove(at);
                self.receive_unexpected(id, buf, envelope, message);
            }
            None => drop(self.requests.replace(id, State::Done(Err(NetError::StaleRequest)))),
        }
        id
    }

    /// The connection record of a rank, made on first use.
    pub(crate) fn connection_of(&mut self, rank: Rank) -> u32 {
        if self.by_rank.is_empty() {
            self.by_rank = vec![NO_CONNECTION; self.size() as usize];
        }
        let index = self.by_rank[rank.index()];
        if index != NO_CONNECTION {
            return index;
        }
        let index = self.connections.len() as u32;
        self.connections.push(Connection::new(rank));
        self.by_rank[rank.index()] = index;
        index
    }
}

/// How a send ends; source and tag mean nothing there.
pub(crate) fn sent(to: Rank) -> Outcome {
    Outcome { source: to, tag: 0, bytes: 0, truncated: false, cancelled: false }
}

#[inline]
pub(crate) fn with_source(envelope: Envelope, source: Rank) -> matching::Envelope {
    matching::Envelope { context: envelope.context, source, tag: envelope.tag }
}
