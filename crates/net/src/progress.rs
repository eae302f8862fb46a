//! Progress, in the caller's thread: what came in, what can go out, and how to wait.
use crate::api::{NetError, Outcome, ReqId};
use crate::connection::Pending;
use crate::endpoint::{Endpoint, Unexpected, with_source};
use crate::request::{Requests, State};
use crate::wire::{Header, Kind, OFFER_BYTES, Offer};
use fabric::{Event, MrKey, Qp, RdmaError, RemoteMemory, View};
use proto::ids::Rank;
use proto::matching::{self, Matcher};
use std::time::Duration;
use sys::{UserBufMut, cpu};

/// Events handled in one call of [`Endpoint::progress`]; a flood must not keep the caller.
const EVENTS_MAX: usize = 64;
/// Idle rounds between two looks at the clock.
const CLOCK_ROUNDS: u32 = 64;
/// Idle rounds of spinning when every process has a core: some ten microseconds.
const SPINS: u32 = 1_000;
/// Idle rounds of yielding after that. A yield costs little on a core of one's own, and something else may
/// run there after all; sleeping costs the waker a kick of a halted core, so it comes late.
const YIELDS_ALONE: u32 = 20_000;
/// Idle rounds of yielding when cores are shared, from the start.
const YIELDS_SHARED: u32 = 200;
/// Longest sleep: retransmissions and dead launchers are looked after that often.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// How long a caller has been waiting. One per wait.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    rounds: u32,
    since_ns: u64,
    warned: u32,
}

impl Endpoint {
    /// Handles what came in and sends what can be sent. Did anything move?
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..EVENTS_MAX {
            if !self.handle_event() {
                break;
            }
            moved = true;
        }
        if !self.waiting.is_empty() {
            moved |= self.pump_all();
        }
        moved
    }

    /// Handles one event, if there is one.
    #[inline]
    fn handle_event(&mut self) -> bool {
        // A lent view keeps the device borrowed: take what is needed, give it back, then act.
        let after = match self.context.poll() {
            None => return false,
            Some(event) => {
                let rank_of = |qp: Qp| self.connections[self.by_qp[qp.index()] as usize].rank;
                take_event(event, rank_of, &mut self.matcher, &mut self.requests)
            }
        };
        match after {
            After::Nothing => {}
            after => self.act(after),
        }
        true
    }

    fn act(&mut self, after: After) {
        match after {
            After::Nothing => {}
            After::Answer { source, request } => self.answer(source, request),
            After::Unexpected(envelope, message) => self.keep_unexpected(envelope, message),
            After::Offered { envelope, offer, receive: None } => {
                self.keep_unexpected(envelope, Unexpected::Offer(offer));
            }
            After::Offered { envelope, offer, receive: Some((id, buf)) } => {
                self.accept(id, buf, envelope, offer)
            }
            After::Streamed(id) => self.streamed(id),
            After::Control(source, header) => self.handle_control(source, header),
            After::Handshake(bytes) => self.handshake(&bytes),
            After::Broken(qp, what) => self.broken(qp, what),
        }
    }

    fn handle_control(&mut self, source: Rank, header: Header) {
        match header {
            Header::Fin { request } => self.send_finished(request, source),
            Header::Clear { request, into } => {
                let Some(id) = self.requests.by_index(request) else { return };
                let Some(State::SendOffered { buf, to, .. }) = self.requests.get(id) else { return };
                if *to == source {
                    let buf = *buf;
                    let index = self.connection_of(source);
                    if let Some(qp) = self.connections[index as usize].ready {
                        self.context.expect_stream(qp, buf.len());
                    }
                    self.enqueue(index, Pending::Stream { request: id, buf, into, offset: 0 });
                }
            }
            Header::Message { .. } | Header::Fragment { .. } => unreachable!("not control"),
        }
    }

    fn broken(&mut self, qp: Qp, what: &'static str) {
        let index = self.by_qp[qp.index()];
        let rank = self.connections[index as usize].rank;
        let error = NetError::Broken { rank, node: self.node_of(rank), what };
        self.fail(index, error.to_string());
    }

    /// Reads an offered message, or asks for it in fragments where that is not possible.
    pub(crate) fn accept(&mut self, id: ReqId, buf: UserBufMut, from: matching::Envelope, offer: Offer) {
        let index = self.connection_of(from.source);
        let bytes = buf.len().min(offer.bytes as usize);
        let read = match (offer.key, self.connections[index as usize].ready) {
            _ if bytes == 0 => Ok(()),
            (Some(key), Some(qp)) => {
                let memory = RemoteMemory { addr: offer.addr, key: MrKey(key) };
                self.context.rdma_read(qp, buf.part(0, bytes), memory)
            }
            _ => Err(RdmaError::Forbidden),
        };
        match read {
            Ok(()) => {
                self.finish_receive(id, from, offer.bytes as usize, bytes);
                self.answer(from.source, offer.request);
            }
            Err(RdmaError::Forbidden) => {
                let truncated = offer.bytes as usize > bytes;
                let outcome =
                    Outcome { source: from.source, tag: from.tag, bytes, truncated, cancelled: false };
                self.requests.replace(id, State::ReceiveStreaming { buf, missing: offer.bytes, outcome });
                let header = Header::Clear { request: offer.request, into: id.index };
                self.enqueue(index, Pending::owned(header, &[]));
            }
            Err(error) => {
                let (rank, node) = (from.source, self.node_of(from.source));
                let error = NetError::Unreachable { rank, node, why: error.to_string() };
                self.requests.replace(id, State::Done(Err(error)));
            }
        }
    }

    /// The last fragment has come.
    fn streamed(&mut self, id: ReqId) {
        if let Some(State::ReceiveStreaming { outcome, .. }) = self.requests.get(id) {
            let outcome = outcome.clone();
            self.requests.replace(id, State::Done(Ok(outcome)));
        }
    }

    /// Waits a moment: call it when [`Endpoint::progress`] moved nothing and the caller still waits. Spins
    /// first, then lets others run, then sleeps until something comes.
    #[inline]
    pub fn pause(&mut self, backoff: &mut Backoff) {
        backoff.rounds += 1;
        if !self.job.oversubscribed && backoff.rounds < SPINS {
            if backoff.rounds.is_multiple_of(CLOCK_ROUNDS) {
                self.tick();
            }
            cpu::relax();
            return;
        }
        self.pause_long(backoff);
    }

    #[cold]
    fn pause_long(&mut self, backoff: &mut Backoff) {
        if self.tick() {
            return;
        }
        let yields = if self.job.oversubscribed { YIELDS_SHARED } else { SPINS + YIELDS_ALONE };
        if backoff.rounds < yields {
            cpu::yield_now();
            return;
        }
        let now_ns = cpu::now_ns();
        if backoff.since_ns == 0 {
            backoff.since_ns = now_ns;
        }
        self.warn_if_long(backoff, now_ns);
        let until_due =
            self.job.wireup.poll_timeout().map(|due| Duration::from_nanos(due.saturating_sub(now_ns)));
        // A queue that waits for room in a peer's ring is not rung for: look again soon.
        let most = if self.waiting.is_empty() { SLEEP_MAX } else { Duration::from_micros(50) };
        self.context.sleep(until_due.map_or(most, |due| due.min(most)));
        self.context.datagrams_dropped();
        self.exit_if_abandoned();
    }

    /// Without its launcher a process has nobody to end it: it ends itself.
    fn exit_if_abandoned(&mut self) {
        if self.job.pmi.as_mut().is_some_and(|pmi| pmi.is_closed()) {
            eprintln!(
                "banyan: rank {} on node {}: the launcher is gone; exiting",
                self.rank(),
                self.node_of(self.rank())
            );
            std::process::exit(1);
        }
    }

    /// Says for whom this process waits, once it has waited long; again each time that doubles.
    fn warn_if_long(&mut self, backoff: &mut Backoff, now_ns: u64) {
        let waited_s = (now_ns - backoff.since_ns) / 1_000_000_000;
        if waited_s < self.job.warn_s << backoff.warned.min(20) || self.job.warn_s == 0 {
            return;
        }
        backoff.warned += 1;
        eprintln!(
            "banyan: rank {} on node {} has waited {waited_s} s{}",
            self.rank(),
            self.node_of(self.rank()),
            self.waits_for()
        );
    }

    fn waits_for(&self) -> String {
        let mut text = String::new();
        for (pattern, _) in self.matcher.posted_iter().take(4) {
            let source =
                pattern.source.map_or("any rank".into(), |r| format!("rank {r} on node {}", self.node_of(r)));
            let tag = pattern.tag.map_or("any tag".into(), |t| format!("tag {t}"));
            text += &format!("; for a message from {source} with {tag} (context {})", pattern.context);
        }
        for waiting in self.job.wireup.waiting().take(4) {
            text += &format!("; for rank {} to connect ({} requests sent)", waiting.peer, waiting.attempts);
        }
        for index in self.waiting.iter().take(4) {
            let connection = &self.connections[*index as usize];
            text += &format!("; to send {} messages to rank {}", connection.queue.len(), connection.rank);
        }
        text
    }

    /// Waits for a message to end and takes it.
    #[inline]
    pub fn wait(&mut self, id: ReqId) -> Result<Outcome, NetError> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(result) = self.take(id) {
                return result;
            }
            if self.progress() {
                backoff = Backoff::default();
            } else {
                self.pause(&mut backoff);
            }
        }
    }
}

/// What is left to do when a message has been taken in.
enum After {
    Nothing,
    Answer { source: Rank, request: u32 },
    Unexpected(matching::Envelope, Unexpected),
    Offered { envelope: matching::Envelope, offer: Offer, receive: Option<(ReqId, UserBufMut)> },
    Streamed(ReqId),
    Control(Rank, Header),
    Handshake(Box<[u8]>),
    Broken(Qp, &'static str),
}

#[inline]
fn take_event(
    event: Event<'_>,
    rank_of: impl Fn(Qp) -> Rank,
    matcher: &mut Matcher<ReqId, Unexpected>,
    requests: &mut Requests,
) -> After {
    match event {
        Event::Receive { qp, view } => take_in(qp, rank_of(qp), view, matcher, requests),
        Event::Datagram(bytes) => After::Handshake(bytes.into()),
        Event::Broken(qp) => After::Broken(qp, "a slot no writer writes"),
    }
}

/// Takes a message out of its ring: into the receive that waits for it, or into memory of its own.
#[inline]
fn take_in(
    qp: Qp,
    source: Rank,
    view: View<'_>,
    matcher: &mut Matcher<ReqId, Unexpected>,
    requests: &mut Requests,
) -> After {
    let Some(header) = Header::decode(view.header()) else {
        return After::Broken(qp, "a message of unknown kind");
    };
    match header {
        Header::Message { kind: kind @ (Kind::Eager | Kind::EagerSync), envelope, request } => {
            let envelope = with_source(envelope, source);
            let Some(receive) = matcher.arrive(envelope) else {
                let bytes = view.to_vec().into_boxed_slice();
                let answer = (kind == Kind::EagerSync).then_some(request);
                return After::Unexpected(envelope, Unexpected::Whole { bytes, answer });
            };
            let bytes = view.copy_to(0, posted_buf(requests, receive));
            let (tag, truncated) = (envelope.tag, view.len() > bytes);
            let outcome = Outcome { source, tag, bytes, truncated, cancelled: false };
            requests.replace(receive, State::Done(Ok(outcome)));
            if kind == Kind::Eager { After::Nothing } else { After::Answer { source, request } }
        }
        Header::Message { envelope, request, .. } => {
            let envelope = with_source(envelope, source);
            let offer = Offer::decode(view.start::<OFFER_BYTES>(), request);
            let receive = matcher.arrive(envelope).map(|id| (id, posted_buf(requests, id)));
            After::Offered { envelope, offer, receive }
        }
        Header::Fragment { request, offset } => take_fragment(qp, source, request, offset, view, requests),
        Header::Fin { .. } | Header::Clear { .. } => After::Control(source, header),
    }
}

fn take_fragment(
    qp: Qp,
    from: Rank,
    request: u32,
    offset: u64,
    view: View<'_>,
    requests: &mut Requests,
) -> After {
    let id = requests.by_index(request);
    let Some(State::ReceiveStreaming { buf, missing, outcome }) = id.and_then(|id| requests.get_mut(id))
    else {
        return After::Broken(qp, "a fragment nobody asked for");
    };
    if outcome.source != from {
        return After::Broken(qp, "a fragment of another rank's message");
    }
    let start = usize::try_from(offset).map_or(buf.len(), |start| start.min(buf.len()));
    view.copy_to(0, buf.part(start, buf.len() - start));
    *missing = missing.saturating_sub(view.len() as u64);
    match id {
        Some(id) if *missing == 0 => After::Streamed(id),
        _ => After::Nothing,
    }
}

/// The buffer of a receive that the matcher gave out.
#[inline]
fn posted_buf(requests: &Requests, id: ReqId) -> UserBufMut {
    match requests.get(id) {
        Some(State::ReceivePosted { buf, .. }) => *buf,
        _ => unreachable!("the matcher gives out posted receives only"),
    }
}
