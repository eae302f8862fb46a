//! The endpoint: sends, receives and probes of one process.
use crate::active::Handlers;
use crate::ahead::Watch;
use crate::api::{Addressee, Envelope, Message, NetError, Outcome, Pattern, Probed, ReqId, SendMode};
use crate::link::{Data, Link, Pending};
use crate::remote::Lives;
use crate::request::{Lent, Requests, State};
use crate::start::Membership;
use crate::stats::{Amounts, Counters};
use crate::waiting::Waits;
use crate::wire::{Header, Kind, Offer};
use fabric::{Context, Posted, Push, Qp, WorkId};
use proto::ids::{NodeId, Peer, PeerIx, Process, Rank};
use proto::matching::{self, Matcher};
use proto::stats::Stat;
use proto::wireup::Wireup;
use std::collections::HashMap;
use std::sync::Arc;
use sys::{UserBuf, UserBufMut};

/// Memory of unexpected messages past which peers are asked for rendezvous.
const UNEXPECTED_BYTES_MAX: usize = 256 << 20;
/// What one takes besides its bytes: its place among the others, in five lists, and the allocator's part.
const UNEXPECTED_COST: usize = 256;

/// A message that came before its receive.
#[derive(Debug)]
pub(crate) enum Unexpected {
    /// All of it; `answer` is the sender's request if it waits for the match.
    Whole { bytes: Box<[u8]>, answer: Option<u32>, mark: u32 },
    /// It lies in the sender's memory.
    Offer(Offer),
}

impl Unexpected {
    /// The sender's request, if it waits for the match.
    pub(crate) fn answer(&self) -> Option<u32> {
        match self {
            Unexpected::Whole { answer, .. } => *answer,
            Unexpected::Offer(offer) => Some(offer.request),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Unexpected::Whole { bytes, .. } => bytes.len(),
            Unexpected::Offer(offer) => offer.bytes as usize,
        }
    }
}

/// One process's endpoint. See the crate's head.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) job: Membership,
    pub(crate) context: Context,
    /// The peers, and how far the connection to each is.
    pub(crate) wireup: Wireup<Arc<crate::Cause>>,
    /// What waits to be sent, under the same index.
    pub(crate) links: Vec<Link>,
    /// Peer of each queue pair, by provider: for what arrives before its sender has a number, and for what breaks.
    pub(crate) by_qp: [Vec<PeerIx>; fabric::ProviderKind::COUNT],
    pub(crate) matcher: Matcher<ReqId, Unexpected>,
    pub(crate) requests: Requests,
    /// What the device works on.
    pub(crate) works: HashMap<WorkId, ReqId>,
    /// Links with something in their queue.
    pub(crate) waiting: Vec<PeerIx>,
    pub(crate) handlers: Handlers,
    pub(crate) lives: Lives,
    pub(crate) counters: Counters,
    /// Bytes by peer, where somebody wants to know.
    pub(crate) traffic: Vec<Amounts>,
    pub(crate) waits: Waits,
    /// First contacts, where they are recorded or predicted.
    pub(crate) watch: Option<Box<Watch>>,
    /// What the message that is being sent is marked with.
    pub(crate) mark: u32,
    unexpected_bytes: usize,
    frugal: bool,
    /// Messages that matched probes took out.
    probed: Vec<(u64, matching::Envelope, Unexpected)>,
    probed_next: u64,
}

impl Endpoint {
    pub(crate) fn new(job: Membership, context: Context, wireup: Wireup<Arc<crate::Cause>>) -> Self {
        Endpoint {
            waits: Waits::new(job.warn_s, job.oversubscribed, job.wait),
            job,
            context,
            wireup,
            links: Vec::new(),
            by_qp: Default::default(),
            matcher: Matcher::new(),
            requests: Requests::default(),
            works: HashMap::new(),
            waiting: Vec::new(),
            handlers: Handlers::default(),
            lives: Lives::default(),
            counters: Counters::default(),
            traffic: Vec::new(),
            watch: None,
            mark: 0,
            unexpected_bytes: 0,
            frugal: false,
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

    /// This process.
    #[inline]
    pub fn me(&self) -> Peer {
        match self.job.serves {
            None => self.peer(self.job.rank),
            Some(node) => Peer::Server { job: self.job.id, node },
        }
    }

    /// This process and its place, for people.
    pub(crate) fn name(&self) -> String {
        self.name_of(self.me())
    }

    /// A peer and its place, for people.
    pub(crate) fn name_of(&self, peer: Peer) -> String {
        match peer {
            Peer::Rank { .. } => format!("{peer} on {}", self.place_of(peer)),
            // Its name says which node.
            Peer::Server { node, .. } => match self.host_known(node) {
                Some(host) => format!("{peer} (host {host})"),
                None => peer.to_string(),
            },
        }
    }

    /// The data server of this process's node, if it has one.
    pub fn own_server(&self) -> Option<Peer> {
        self.job.server.map(|node| Peer::Server { job: self.job.id, node })
    }

    /// The data server of the node of a rank of the own job, if there is one there.
    pub fn server_of(&self, rank: Rank) -> Peer {
        Peer::Server { job: self.job.id, node: self.node_of(rank) }
    }

    /// A data server has done so many operations. It is written at once: nothing is to be heard of a server when its job ends.
    pub fn note_served(&mut self, operations: u64) {
        self.counters.served += operations;
        self.context.publish_stat(Stat::OperationsServed as usize, self.counters.served);
    }

    /// A rank of this process's own job.
    #[inline]
    pub fn peer(&self, rank: Rank) -> Peer {
        Peer::Rank { job: self.job.id, rank }
    }

    /// The node of a rank of this process's own job.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        self.job.facts.node_of(rank)
    }

    /// Do more processes than cores live on this host?
    pub fn shares_cores(&self) -> bool {
        self.job.oversubscribed
    }

    /// Has what was sent without waiting leave now.
    #[inline]
    pub fn push_out(&mut self) {
        self.context.flush();
    }

    /// Sends a message. `None`: complete already, the buffer is free. It leaves at the next call of
    /// [`Endpoint::progress`] at the latest.
    #[inline]
    pub fn isend(
        &mut self,
        to: impl Addressee,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<Option<ReqId>, NetError> {
        self.start_send(to, envelope, buf, mode, Push::Soon)
    }

    /// As [`Endpoint::isend`], but it is on its way when it is complete: for a caller that blocks elsewhere.
    #[inline]
    pub fn isend_now(
        &mut self,
        to: impl Addressee,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<Option<ReqId>, NetError> {
        self.start_send(to, envelope, buf, mode, Push::Now)
    }

    /// Sends a message and waits until the buffer is free. What has been sent is with the receiver or in the network.
    #[inline]
    pub fn send(
        &mut self,
        to: impl Addressee,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<(), NetError> {
        match self.start_send(to, envelope, buf, mode, Push::Now)? {
            None => Ok(()),
            Some(id) => self.wait(id).map(|_| ()),
        }
    }

    /// As [`Endpoint::send`], but it is left to the caller to wait ([`Endpoint::wait_unless_asked`]), who does nothing else.
    #[inline]
    pub fn begin_send(
        &mut self,
        to: impl Addressee,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
    ) -> Result<Option<ReqId>, NetError> {
        self.start_send(to, envelope, buf, mode, Push::Now)
    }

    /// As [`Endpoint::isend`], and the receiver is told a number of the sender's choosing below [`crate::MARKS`] (0: none).
    /// For programs that are checked: it is not the shortest way.
    pub fn isend_marked(
        &mut self,
        to: impl Addressee,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
        (push, mark): (Push, u32),
    ) -> Result<Option<ReqId>, NetError> {
        debug_assert!(mark < crate::MARKS);
        self.mark = mark;
        let sent = self.send_first(to.peer(self.job.id, &self.wireup), envelope, buf, mode, push);
        self.mark = 0;
        sent
    }

    #[inline]
    fn start_send(
        &mut self,
        to: impl Addressee,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
        push: Push,
    ) -> Result<Option<ReqId>, NetError> {
        let Some((ix, qp)) = self.connected(to) else {
            let to = to.peer(self.job.id, &self.wireup);
            return self.send_first(to, envelope, buf, mode, push);
        };
        let link = &self.links[ix.index()];
        let bytes = buf.len();
        let is_short = bytes <= link.eager_max as usize
            || bytes <= self.job.eager_grown && self.context.takes(qp, bytes);
        if is_short && mode == SendMode::Standard && !self.context.is_peer_frugal(qp) {
            let header = Header::Message { kind: Kind::Eager, envelope, request: 0 }.encode(link.name);
            if let Ok(posted) = self.context.post_send(qp, header, buf, push) {
                self.counters.eager += 1;
                self.counters.bytes += bytes as u64;
                return Ok(match posted {
                    Posted::Done => None,
                    Posted::Later(work) => Some(self.posted(ix, work)),
                });
            }
        }
        Ok(self.send_slowly(ix, envelope, buf, mode, push))
    }

    /// The connection to a peer, if it is up and nothing waits in front.
    #[inline]
    pub(crate) fn connected(&self, to: impl Addressee) -> Option<(PeerIx, Qp)> {
        let ix = to.find(&self.wireup)?;
        let link = self.links.get(ix.index())?;
        if link.queue.is_empty() { link.ready.map(|qp| (ix, qp)) } else { None }
    }

    /// A send that the device goes on with.
    pub(crate) fn posted(&mut self, to: PeerIx, work: WorkId) -> ReqId {
        let id = self.requests.insert(State::SendPosted { to });
        self.works.insert(work, id);
        id
    }

    /// No ready connection yet, or the peer is this process.
    #[cold]
    fn send_first(
        &mut self,
        to: Peer,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
        push: Push,
    ) -> Result<Option<ReqId>, NetError> {
        let ix = self.intern(to)?;
        if ix == Self::SELF {
            return Ok(self.send_to_self(envelope, buf, mode));
        }
        self.reach(ix)?;
        let sent = self.send_slowly(ix, envelope, buf, mode, push);
        let link = &mut self.links[ix.index()];
        link.owes |= sent.is_none() && link.ready.is_none();
        Ok(sent)
    }

    /// Sees to it that there is, or will be, a connection to a peer.
    pub(crate) fn reach(&mut self, ix: PeerIx) -> Result<(), NetError> {
        if self.link(ix).ready.is_none() && self.link(ix).failed().is_none() {
            self.need(ix); // which may fail at once
        }
        self.links[ix.index()].failed().cloned().map_or(Ok(()), Err)
    }

    /// Sends through the link's queue: eagerly if it may, else as an offer.
    fn send_slowly(
        &mut self,
        ix: PeerIx,
        envelope: Envelope,
        buf: UserBuf,
        mode: SendMode,
        push: Push,
    ) -> Option<ReqId> {
        self.counters.bytes += buf.len() as u64;
        let link = &self.links[ix.index()];
        let frugal = link.ready.is_some_and(|qp| self.context.is_peer_frugal(qp));
        // Where a request has to be named there is no room for a mark but in an offer.
        let marked = self.mark != 0 && mode == SendMode::Synchronous;
        if buf.len() > link.eager_max as usize || ((frugal || marked) && !buf.is_empty()) {
            return Some(self.offer(ix, envelope, Lent::User(buf), push));
        }
        self.counters.eager += 1;
        if mode == SendMode::Synchronous {
            let state = State::offered(Lent::User(buf), ix, envelope);
            let id = self.requests.insert(state);
            let header = Header::Message { kind: Kind::EagerSync, envelope, request: id.index };
            self.enqueue(ix, Pending::message(header, Data::User(buf), None), push);
            return Some(id);
        }
        let header = Header::Message { kind: Kind::Eager, envelope, request: self.mark };
        if self.links[ix.index()].queue.is_empty()
            && let Some(posted) = self.try_post(ix, header, buf, push)
        {
            return match posted {
                Posted::Done => None,
                Posted::Later(work) => Some(self.posted(ix, work)),
            };
        }
        if self.links[ix.index()].may_keep(buf.len(), push) {
            self.links[ix.index()].rare().kept_bytes += buf.len();
            self.enqueue(ix, Pending::message(header, Data::copy(buf), None), push);
            return None;
        }
        let id = self.requests.insert(State::SendQueued);
        self.enqueue(ix, Pending::message(header, Data::User(buf), Some(id)), push);
        Some(id)
    }

    fn send_to_self(&mut self, envelope: Envelope, buf: UserBuf, mode: SendMode) -> Option<ReqId> {
        let from_me = with_source(envelope, Self::SELF);
        if let Some(receive) = self.matcher.arrive(from_me) {
            let Some(State::ReceivePosted { buf: to, .. }) = self.requests.get(receive) else { return None };
            let bytes = buf.len().min(to.len());
            to.copy_from(&buf.part(0, bytes));
            self.finish_receive(receive, end_of(from_me, buf.len(), bytes, self.mark));
            return None;
        }
        let mut bytes = vec![0; buf.len()].into_boxed_slice();
        buf.copy_to(&mut bytes);
        let (answer, id) = match mode {
            SendMode::Standard => (None, None),
            SendMode::Synchronous => {
                let state = State::offered(Lent::User(buf), Self::SELF, envelope);
                let id = self.requests.insert(state);
                (Some(id.index), Some(id))
            }
        };
        self.keep_unexpected(from_me, Unexpected::Whole { bytes, answer, mark: self.mark });
        id
    }

    /// Posts a receive.
    #[inline(always)]
    pub fn irecv(&mut self, pattern: Pattern<impl Addressee>, buf: UserBufMut) -> ReqId {
        let pattern = match self.pattern(pattern) {
            Ok(pattern) => pattern,
            Err(error) => return self.requests.insert(State::Done(Err(Box::new(error)))),
        };
        // The id is needed to post, the key of the post to cancel: the state is set behind it.
        let id = self.requests.reserve();
        match self.matcher.post(pattern, id) {
            matching::Posted::Queued(key) => {
                self.requests.begin(id, State::ReceivePosted { buf, key });
                if self.counters.failed > 0 {
                    self.fail_if_hopeless(id, pattern);
                }
            }
            matching::Posted::Matched(envelope, message) => {
                self.requests.begin(id, State::SendQueued);
                self.receive_unexpected(id, buf, envelope, message)
            }
        }
        id
    }

    /// Receives, and waits for it.
    #[inline]
    pub fn recv(&mut self, pattern: Pattern<impl Addressee>, buf: UserBufMut) -> Result<Outcome, NetError> {
        self.stay(true);
        let id = self.irecv(pattern, buf);
        let received = self.wait(id);
        self.stay(false);
        received
    }

    /// The pattern with the sender as this endpoint numbers it.
    #[inline(always)]
    fn pattern(&mut self, pattern: Pattern<impl Addressee>) -> Result<matching::Pattern, NetError> {
        let source = match pattern.source {
            None => None,
            Some(peer) => Some(self.number(peer)?),
        };
        Ok(matching::Pattern { context: pattern.context, source, tag: pattern.tag })
    }

    fn receive_unexpected(
        &mut self,
        id: ReqId,
        buf: UserBufMut,
        envelope: matching::Envelope,
        message: Unexpected,
    ) {
        match message {
            Unexpected::Whole { bytes, answer, mark } => {
                let fits = self.copy_kept(&bytes, buf);
                self.finish_receive(id, end_of(envelope, bytes.len(), fits, mark));
                if let Some(request) = answer {
                    self.answer(envelope.source, request);
                }
            }
            Unexpected::Offer(offer) => self.accept(id, buf, envelope, offer),
        }
    }

    /// A message that was kept gets to its receive: so many bytes of it fit.
    pub(crate) fn copy_kept(&mut self, bytes: &[u8], buf: UserBufMut) -> usize {
        self.unexpected_bytes -= bytes.len() + UNEXPECTED_COST;
        self.relax_frugality();
        let fits = bytes.len().min(buf.len());
        buf.copy_from_slice(&bytes[..fits]);
        fits
    }

    #[inline]
    pub(crate) fn finish_receive(&mut self, id: ReqId, end: Outcome) {
        self.requests.finish(id, end);
    }

    /// Keeps a message until it is received. If it will not be, who waits for that hears of it.
    pub(crate) fn keep_unexpected(&mut self, envelope: matching::Envelope, message: Unexpected) {
        if let Some(request) = message.answer()
            && self.loss_of(&envelope).is_some()
        {
            return self.refuse_lost(envelope.source, request);
        }
        if let Unexpected::Whole { bytes, .. } = &message {
            self.unexpected_bytes += bytes.len() + UNEXPECTED_COST;
            if self.unexpected_bytes > UNEXPECTED_BYTES_MAX && !self.frugal {
                self.frugal = true;
                self.context.set_frugal(true);
            }
        }
        self.waits.news += 1;
        self.matcher.unexpected(envelope, message);
    }

    /// Messages with this envelope will not be received.
    pub(crate) fn refuse_kept(&mut self, envelope: matching::Envelope) {
        let matching::Envelope { context, source, tag } = envelope;
        let pattern = matching::Pattern { context, source: Some(source), tag: Some(tag) };
        while let Some((_, message)) = self.matcher.take(pattern) {
            if let Unexpected::Whole { bytes, .. } = &message {
                self.unexpected_bytes -= bytes.len() + UNEXPECTED_COST;
            }
            if let Some(request) = message.answer() {
                self.refuse_lost(source, request);
            }
        }
        self.relax_frugality();
    }

    fn relax_frugality(&mut self) {
        if self.frugal && self.unexpected_bytes < UNEXPECTED_BYTES_MAX / 2 {
            self.frugal = false;
            self.context.set_frugal(false);
        }
    }

    /// Counts what ends: messages, and whatever else somebody may wait for (a message that can be probed, the loss of a
    /// peer).
    #[inline]
    pub fn ended(&self) -> u64 {
        self.requests.ended().wrapping_add(self.waits.news)
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
                Some(State::Done(Ok(end))) => Some(Ok(end)),
                Some(State::Done(Err(error))) => Some(Err(*error)),
                _ => None,
            },
            Some(_) => None,
            None => Some(Err(NetError::StaleRequest)),
        }
    }

    /// How it ended, if it did, and well: as [`Endpoint::take`], the short way.
    #[inline(always)]
    pub fn take_end(&mut self, id: ReqId) -> Option<Outcome> {
        self.requests.take_end(id)
    }

    /// Who a number is. One that is retired meanwhile cannot be told from this process any more, and nobody asks: its
    /// job has disconnected.
    #[inline]
    pub fn who(&self, ix: PeerIx) -> Peer {
        self.wireup.who(ix).unwrap_or_else(|| self.me())
    }

    /// The process that a number stands for, if it is a rank of a job that is still connected.
    #[inline]
    pub fn process_of(&self, ix: PeerIx) -> Option<Process> {
        self.wireup.process(self.wireup.who(ix)?)
    }

    /// The number of a rank of the own job or of one that is connected.
    pub fn process(&self, peer: Peer) -> Option<Process> {
        self.wireup.process(peer)
    }

    /// Whose number it is, if anybody's.
    pub fn peer_of(&self, process: Process) -> Option<Peer> {
        self.wireup.peer_of(process)
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
        let end =
            Outcome { source: Self::SELF, tag: 0, bytes: 0, truncated: false, cancelled: true, mark: 0 };
        self.requests.replace(id, State::Done(Ok(end)));
        true
    }

    /// Is there a message that the pattern accepts? Makes no progress.
    pub fn iprobe(&mut self, pattern: Pattern<impl Addressee>) -> Result<Option<Probed>, NetError> {
        let pattern = self.pattern(pattern)?;
        let Some((envelope, message)) = self.matcher.probe(pattern) else {
            return self.failure_of(pattern).map_or(Ok(None), Err);
        };
        let (source, tag, bytes) = (envelope.source, envelope.tag, message.bytes());
        Ok(Some(Probed { source, tag, bytes }))
    }

    /// The messages that came before their receives, earliest first, each with its context.
    pub fn unexpected(&self) -> impl Iterator<Item = (u32, Probed)> + '_ {
        self.matcher.unexpected_iter().map(|(envelope, message)| {
            let (source, tag, bytes) = (envelope.source, envelope.tag, message.bytes());
            (envelope.context, Probed { source, tag, bytes })
        })
    }

    /// Takes a message out of the queue for [`Endpoint::imrecv`]. Makes no progress.
    pub fn improbe(
        &mut self,
        pattern: Pattern<impl Addressee>,
    ) -> Result<Option<(Message, Probed)>, NetError> {
        let pattern = self.pattern(pattern)?;
        let Some((envelope, message)) = self.matcher.take(pattern) else {
            return self.failure_of(pattern).map_or(Ok(None), Err);
        };
        let (tag, bytes) = (envelope.tag, message.bytes());
        let probed = Probed { source: envelope.source, tag, bytes };
        let id = self.probed_next;
        self.probed_next += 1;
        self.probed.push((id, envelope, message));
        Ok(Some((Message(id), probed)))
    }

    /// Receives a message that a matched probe took out.
    pub fn imrecv(&mut self, message: Message, buf: UserBufMut) -> ReqId {
        let id = self.requests.insert(State::SendQueued);
        match self.probed.iter().position(|(probed, ..)| *probed == message.0) {
            Some(at) => {
                let (_, envelope, message) = self.probed.swap_remove(at);
                self.receive_unexpected(id, buf, envelope, message);
            }
            None => drop(self.requests.replace(id, State::Done(Err(Box::new(NetError::StaleRequest))))),
        }
        id
    }
}

/// How a receive ends whose message was `len` bytes long.
#[inline]
pub(crate) fn end_of(from: matching::Envelope, len: usize, bytes: usize, mark: u32) -> Outcome {
    Outcome { source: from.source, tag: from.tag, bytes, truncated: len > bytes, cancelled: false, mark }
}

/// How a send ends; source and tag mean nothing there.
pub(crate) fn sent(to: PeerIx) -> Outcome {
    Outcome { source: to, tag: 0, bytes: 0, truncated: false, cancelled: false, mark: 0 }
}

#[inline]
pub(crate) fn with_source(envelope: Envelope, source: PeerIx) -> matching::Envelope {
    matching::Envelope { context: envelope.context, source, tag: envelope.tag }
}
