//! Progress, in the caller's thread: what came in, and where it goes.
use crate::active::Active;
use crate::api::{Cause, ReqId};
use crate::endpoint::{Endpoint, Unexpected, end_of, with_source};
use crate::link::Link;
use crate::request::{Requests, State};
use crate::wire::{Header, Kind, OFFER_BYTES, Offer, SHARE_BYTES, Share, UNNAMED};
use fabric::{BreakReason, Event, Posted, Qp, View, WorkError, WorkId};
use proto::ids::PeerIx;
use proto::matching::{self, Matcher};
use proto::transfer;
use sys::UserBufMut;

/// Events handled in one call of [`Endpoint::progress`]; a flood must not keep the caller.
const EVENTS_MAX: usize = 64;
/// What a peer sent that has no meaning.
pub(crate) const NOBODYS: &str = "a message of unknown kind, or from an unknown sender";
/// Idle calls of it between two looks at what is due. Who waits looks by itself.
const TICK_ROUNDS: u32 = 16;
/// Calls that moved something between two such looks.
pub(crate) const TICK_BUSY_ROUNDS: u32 = 64;

impl Endpoint {
    /// Handles what came in and sends what can be sent. Did anything move?
    ///
    /// Who waits comes here again and again, so that the commonest case, messages in shared memory or nothing at all, has
    /// a short way of its own.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = self.take_from_rings();
        if self.context.has_others() {
            moved |= self.take_events();
        }
        if !self.waiting.is_empty() {
            moved |= self.pump_all();
        }
        if !moved {
            return self.idle();
        }
        if self.waits.timers {
            self.busy();
        }
        true
    }

    /// Something moved, perhaps always something: what is due must not wait for a pause in a flood.
    #[inline]
    fn busy(&mut self) {
        self.waits.busy = self.waits.busy.wrapping_add(1);
        if self.waits.busy.is_multiple_of(TICK_BUSY_ROUNDS) {
            self.tick();
        }
    }

    /// Nothing moved. A program that only polls has timers too: a handshake is sent again, a dial given up.
    #[inline]
    fn idle(&mut self) -> bool {
        self.waits.idle = self.waits.idle.wrapping_add(1);
        self.waits.timers && self.waits.idle.is_multiple_of(TICK_ROUNDS) && self.tick()
    }

    /// Handles messages in rings that are polled directly.
    fn take_from_rings(&mut self) -> bool {
        for count in 0..EVENTS_MAX {
            // A lent view keeps the device borrowed: take what is needed, give it back, then act.
            let Endpoint { context, wireup, links, by_qp, matcher, requests, .. } = self;
            let after = match context.poll_ring() {
                None => return count > 0,
                Some((qp, view)) => {
                    match sender(view.header(), qp, links, by_qp, |ix| wireup.who(ix).is_some()) {
                        Some((Header::Message { kind: Kind::Eager, envelope, request: mark }, ix)) => {
                            let envelope = with_source(envelope, ix);
                            take_whole(envelope, None, mark, View::Ring(view), matcher, requests)
                        }
                        Some((header, ix)) => take_in(ix, header, View::Ring(view), matcher, requests),
                        None => After::Nonsense(qp, NOBODYS),
                    }
                }
            };
            if !matches!(after, After::Nothing) {
                self.act(after);
            }
        }
        true
    }

    /// Handles the last messages of a queue pair that is closed.
    pub(crate) fn take_rest(&mut self, of: Qp) {
        loop {
            let Endpoint { context, wireup, links, by_qp, matcher, requests, .. } = self;
            let after = match context.poll_only(of) {
                None => return,
                Some(view) => match sender(view.header(), of, links, by_qp, |ix| wireup.who(ix).is_some()) {
                    Some((header, ix)) => take_in(ix, header, view, matcher, requests),
                    None => return,
                },
            };
            self.act(after);
        }
    }

    /// Handles whatever else came in.
    #[inline(never)]
    fn take_events(&mut self) -> bool {
        for count in 0..EVENTS_MAX {
            let Endpoint { context, wireup, links, by_qp, matcher, requests, .. } = self;
            let is_live = |ix| wireup.who(ix).is_some();
            let after = match context.poll() {
                None => return count > 0,
                Some(Event::Receive { qp, view }) => match sender(view.header(), qp, links, by_qp, is_live) {
                    Some((header, ix)) => take_in(ix, header, view, matcher, requests),
                    None => After::Nonsense(qp, NOBODYS),
                },
                Some(Event::Incoming { qp, header, len }) => {
                    match sender(header, qp, links, by_qp, is_live) {
                        Some((header, ix)) => After::Incoming { qp, ix, header, len },
                        None => After::Nonsense(qp, NOBODYS),
                    }
                }
                Some(Event::Done(work, result)) => After::Work(work, result),
                Some(Event::Datagram(bytes)) => After::Handshake(bytes.into()),
                Some(Event::Broken { qp, why }) => After::Broken(qp, why),
            };
            self.act(after);
            // The rest has its short way, or comes with the next look, for which a caller that has got what it waits for need not
            // wait.
            if !self.context.has_more() {
                return true;
            }
        }
        // The caller may not come back for long: nobody may wait for the room of the last message until then.
        self.context.give_back();
        true
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn act(&mut self, after: After) {
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
            After::Incoming { qp, ix, header, len } => self.incoming(qp, ix, header, len),
            After::Work(work, result) => self.work_done(work, result),
            After::Streamed(id) => self.streamed(id),
            After::Control(source, header) => self.handle_control(source, header),
            After::Active(ix, active) => self.deliver_whole(ix, active),
            After::Part(ix, bytes) => self.link(ix).rare().parts.extend_from_slice(&bytes),
            After::Share { source, request, into, share } => self.write_share(request, into, source, share),
            After::Handshake(bytes) => self.handshake(&bytes),
            After::Broken(qp, why) => self.broken(qp, Cause::Break(why)),
            After::Nonsense(qp, what) => self.broken(qp, Cause::Nonsense(what)),
        }
    }

    fn handle_control(&mut self, source: PeerIx, header: Header) {
        match header {
            Header::Fin { request } => self.send_finished(request, source),
            Header::Refuse { request, left } => self.send_refused(request, source, left),
            Header::Withdraw { request } => self.receive_withdrawn(request, source),
            Header::Clear { request, into, headed } => self.send_fragments(request, into, headed, source),
            Header::Wrote { request, well } => self.receive_written(request, source, well),
            Header::Took { request } => self.send_taken(request, source),
            Header::Message { .. }
            | Header::Fragment { .. }
            | Header::Active { .. }
            | Header::Part
            | Header::Share { .. }
            | Header::Head { .. } => {
                unreachable!("not control")
            }
        }
    }

    /// A long message has begun to arrive: into the receive that waits for it, or into memory of its own.
    fn incoming(&mut self, qp: Qp, ix: PeerIx, header: Header, len: usize) {
        let Header::Message { kind: kind @ (Kind::Eager | Kind::EagerSync), envelope, request } = header
        else {
            return self.context.keep(qp);
        };
        let envelope = with_source(envelope, ix);
        let Some(receive) = self.matcher.arrive(envelope) else { return self.context.keep(qp) };
        let buf = posted_buf(&self.requests, receive);
        let (answer, mark) = answer_and_mark(kind, request);
        let end = end_of(envelope, len, len.min(buf.len()), mark);
        match self.context.place(qp, buf) {
            Posted::Done => self.placed(receive, end, answer),
            Posted::Later(work) => {
                self.requests.replace(receive, State::ReceivePlaced { end, answer });
                self.works.insert(work, receive);
            }
        }
    }

    fn placed(&mut self, id: ReqId, end: crate::api::Outcome, answer: Option<u32>) {
        self.finish_receive(id, end);
        if let Some(request) = answer {
            self.answer(end.source, request);
        }
    }

    /// The device has ended some work.
    fn work_done(&mut self, work: WorkId, result: Result<u64, WorkError>) {
        let Some(id) = self.works.remove(&work) else { return };
        match self.requests.get(id) {
            Some(State::SendPosted { to }) => {
                let to = *to;
                match result {
                    Ok(_) => drop(self.requests.replace(id, State::Done(Ok(crate::endpoint::sent(to))))),
                    Err(error) => self.fail_work(id, to, error),
                }
            }
            Some(State::ReceivePlaced { end, answer }) => {
                let (end, answer) = (*end, *answer);
                match result {
                    Ok(_) => self.placed(id, end, answer),
                    Err(error) => self.fail_work(id, end.source, error),
                }
            }
            Some(State::ReceiveReading(reading)) if result == Err(WorkError::Broken) => {
                let from = reading.end.source;
                self.fail_work(id, from, WorkError::Broken);
            }
            Some(State::ReceiveReading(_)) => {
                if let Some(State::ReceiveReading(reading)) = self.requests.replace(id, State::SendQueued) {
                    self.read_done(id, *reading, result);
                }
            }
            Some(State::Accessing(_)) => self.piece_done(id, result),
            // It has ended before: its peer failed.
            _ => {}
        }
    }

    /// Work that ended because its connection broke is told why when that is known: the reason comes behind it.
    fn fail_work(&mut self, id: ReqId, peer: PeerIx, error: WorkError) {
        if error == WorkError::Broken && self.link(peer).failed().is_none() {
            return;
        }
        let error = self.unreachable(peer, std::sync::Arc::new(Cause::Work(error)));
        self.requests.replace(id, State::Done(Err(Box::new(error))));
    }
}

/// What is left to do when a message has been taken in.
pub(crate) enum After {
    Nothing,
    Answer { source: PeerIx, request: u32 },
    Unexpected(matching::Envelope, Unexpected),
    Offered { envelope: matching::Envelope, offer: Offer, receive: Option<(ReqId, UserBufMut)> },
    Incoming { qp: Qp, ix: PeerIx, header: Header, len: usize },
    Work(WorkId, Result<u64, WorkError>),
    Streamed(ReqId),
    Control(PeerIx, Header),
    Active(PeerIx, Active),
    Part(PeerIx, Vec<u8>),
    Share { source: PeerIx, request: u32, into: u32, share: Share },
    Handshake(Box<[u8]>),
    Broken(Qp, BreakReason),
    Nonsense(Qp, &'static str),
}

/// What a header says, and who sent it. What has no number yet came on a connection that is one peer's own.
#[inline(always)]
pub(crate) fn sender(
    words: [u64; 2],
    qp: Qp,
    links: &[Link],
    by_qp: &[Vec<PeerIx>; fabric::ProviderKind::COUNT],
    is_live: impl Fn(PeerIx) -> bool,
) -> Option<(Header, PeerIx)> {
    let (header, name) = Header::decode(words)?;
    if name == UNNAMED {
        let ix = *by_qp[qp.provider() as usize].get(qp.index())?;
        return Some((header, ix));
    }
    let ix = PeerIx::from_wire(name);
    (ix.index() < links.len() && is_live(ix)).then_some((header, ix))
}

/// Takes in a message that is whole. `answer` is the sender's request, if it waits for the match.
#[inline(always)]
fn take_whole(
    envelope: matching::Envelope,
    answer: Option<u32>,
    mark: u32,
    view: View<'_>,
    matcher: &mut Matcher<ReqId, Unexpected>,
    requests: &mut Requests,
) -> After {
    let Some(receive) = matcher.arrive(envelope) else {
        let bytes = view.to_vec().into_boxed_slice();
        return After::Unexpected(envelope, Unexpected::Whole { bytes, answer, mark });
    };
    let bytes = view.copy_to(0, posted_buf(requests, receive));
    requests.finish_posted(receive, end_of(envelope, view.len(), bytes, mark));
    answer.map_or(After::Nothing, |request| After::Answer { source: envelope.source, request })
}

/// Takes a message out of its ring: into the receive that waits for it, or into memory of its own.
pub(crate) fn take_in(
    source: PeerIx,
    header: Header,
    view: View<'_>,
    matcher: &mut Matcher<ReqId, Unexpected>,
    requests: &mut Requests,
) -> After {
    match header {
        Header::Message { kind: kind @ (Kind::Eager | Kind::EagerSync), envelope, request } => {
            let (answer, mark) = answer_and_mark(kind, request);
            take_whole(with_source(envelope, source), answer, mark, view, matcher, requests)
        }
        Header::Message { envelope, request, .. } => {
            let envelope = with_source(envelope, source);
            let offer = Offer::decode(view.start::<OFFER_BYTES>(), request);
            if offer.headed {
                requests.head_comes(source, request);
            }
            let receive = matcher.arrive(envelope).map(|id| (id, posted_buf(requests, id)));
            After::Offered { envelope, offer, receive }
        }
        Header::Fragment { request, offset } => {
            let id = requests.by_index(request);
            take_fragment(source, id, offset, view, requests)
        }
        Header::Head { request, offset, last } => {
            let id = requests.take_head(source, request, last);
            take_fragment(source, id, offset.into(), view, requests)
        }
        Header::Active { handler, argument } => {
            After::Active(source, Active { handler, argument, bytes: view.to_vec().into_boxed_slice() })
        }
        Header::Part => After::Part(source, view.to_vec()),
        Header::Share { request, into } => {
            let share = Share::decode(view.start::<SHARE_BYTES>());
            After::Share { source, request, into, share }
        }
        Header::Fin { .. }
        | Header::Refuse { .. }
        | Header::Withdraw { .. }
        | Header::Clear { .. }
        | Header::Wrote { .. }
        | Header::Took { .. } => After::Control(source, header),
    }
}

/// What a whole message says of its sender's request: which one is to be answered, and the mark where none is.
#[inline(always)]
fn answer_and_mark(kind: Kind, request: u32) -> (Option<u32>, u32) {
    if kind == Kind::EagerSync { (Some(request), 0) } else { (None, request) }
}

/// A fragment that nobody waits for belongs to a receive that has failed meanwhile: it is dropped.
fn take_fragment(
    from: PeerIx,
    id: Option<ReqId>,
    offset: u64,
    view: View<'_>,
    requests: &mut Requests,
) -> After {
    let Some(State::ReceiveStreaming { buf, missing, end }) = id.and_then(|id| requests.get_mut(id)) else {
        return After::Nothing;
    };
    if end.source != from {
        return After::Nothing;
    }
    let start = usize::try_from(offset).map_or(buf.len(), |start| start.min(buf.len()));
    let rest = buf.part(start, buf.len() - start);
    match transfer::goes_past_caches(end.bytes) {
        true => view.copy_past_caches(rest),
        false => view.copy_to(0, rest),
    };
    *missing = missing.saturating_sub(view.len() as u64);
    match id {
        Some(id) if *missing == 0 => After::Streamed(id),
        _ => After::Nothing,
    }
}

/// The buffer of a receive that the matcher gave out.
#[inline(always)]
fn posted_buf(requests: &Requests, id: ReqId) -> UserBufMut {
    match requests.get(id) {
        Some(State::ReceivePosted { buf, .. }) => *buf,
        _ => unreachable!("the matcher gives out posted receives only"),
    }
}
