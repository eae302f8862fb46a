//! The way to a peer as the endpoint sees it: its queue pair, and what waits to be sent.
use crate::api::{Addressee, NetError, ReqId};
use crate::endpoint::{Endpoint, sent};
use crate::meeting::Span;
use crate::remote::Access;
use crate::request::{Lent, State};
use crate::stats::Counted;
use crate::wire::{Header, UNNAMED};
use fabric::{PostError, Posted, ProviderKind, Push, Qp};
use proto::ids::{Job, PeerIx, Process};
use proto::matching;
use proto::transfer::{EAGER_UNKNOWN, Heads, fragment_bytes};
use std::collections::VecDeque;
use sys::UserBuf;

/// Bytes of eager messages kept per peer while its connection is being made.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A peer this process has to do with.
#[derive(Debug)]
pub(crate) struct Link {
    /// Made, perhaps not connected yet.
    pub qp: Option<Qp>,
    /// Connected, and open for sends.
    pub ready: Option<Qp>,
    /// Whose queue pairs lead to the peer, once it had one.
    pub kind: Option<ProviderKind>,
    /// The number that the peer gave this process.
    pub name: u32,
    /// Longest message that is sent without asking.
    pub eager_max: u32,
    /// What waits, in order.
    pub queue: Queue,
    /// What most peers have nothing of most of the time.
    rare: Option<Box<Rare>>,
    /// Messages that count as sent have not reached the peer yet: it has never answered.
    pub owes: bool,
    /// The connection that is counted.
    pub counted: Option<Counted>,
    /// Is it in the list of links with something in their queue?
    listed: bool,
    /// Long messages to it whose sender did nothing but wait, as far as they are counted.
    pub waited_long: u8,
    /// Which offers go with the beginning of their message.
    pub heads: Heads,
}

/// What a link has while it opens or closes, and after an accident.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// Since when a connection is needed that is not ready yet.
    pub needed_ns: Option<u64>,
    /// Bytes of messages that were kept for it before it was connected.
    pub kept_bytes: usize,
    /// To be closed: so many of the queue still go before that, and what comes behind them waits for the next connection.
    pub closing: Option<usize>,
    /// The beginning of an active message that comes in parts.
    pub parts: Vec<u8>,
    /// Receives that wait for a connection to read what was offered to them.
    pub reads: Vec<ReqId>,
    pub failed: Option<NetError>,
}

impl Rare {
    fn is_needed(&self) -> bool {
        let Rare { needed_ns, kept_bytes: _, closing, parts, reads, failed } = self;
        needed_ns.is_some() || closing.is_some() || failed.is_some() || !parts.is_empty() || !reads.is_empty()
    }
}

/// What waits to be sent to a peer, in order. Takes no memory while there is nothing.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "most are empty, and there is one for each peer ever talked to")]
pub(crate) struct Queue(Option<Box<VecDeque<Pending>>>);

impl Queue {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|queue| queue.is_empty())
    }

    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len())
    }

    /// Is a message of this request, or a part of it, in here?
    pub fn holds(&self, id: ReqId) -> bool {
        let is_it = |pending: &Pending| match pending {
            Pending::Message { request, .. } => *request == Some(id),
            Pending::Stream { request, .. } => *request == id,
            Pending::Access(_) => false,
        };
        self.0.as_ref().is_some_and(|queue| queue.iter().any(is_it))
    }

    fn pop_front(&mut self) -> Option<Pending> {
        self.0.as_mut()?.pop_front()
    }

    pub fn front_mut(&mut self) -> Option<&mut Pending> {
        self.0.as_mut()?.front_mut()
    }

    fn push_front(&mut self, pending: Pending) {
        self.0.get_or_insert_default().push_front(pending);
    }

    fn push_back(&mut self, pending: Pending) {
        self.0.get_or_insert_default().push_back(pending);
    }

    /// Gives memory back that is not used.
    pub fn tidy(&mut self) {
        if self.is_empty() {
            self.0 = None;
        }
    }

    fn take(&mut self) -> VecDeque<Pending> {
        self.0.take().map_or_else(VecDeque::new, |queue| *queue)
    }
}

impl Default for Link {
    fn default() -> Self {
        Link {
            qp: None,
            ready: None,
            kind: None,
            name: UNNAMED,
            eager_max: EAGER_UNKNOWN as u32,
            queue: Queue::default(),
            rare: None,
            owes: false,
            counted: None,
            listed: false,
            waited_long: 0,
            heads: Heads::default(),
        }
    }
}

impl Link {
    /// Where the first in the queue goes. Before the peer has answered, the device may still take messages for it.
    pub fn way(&self) -> Option<Qp> {
        self.ready.or(self.qp.filter(|_| self.closing() != Some(0)))
    }

    /// What it has rarely, to be changed.
    pub fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Gives memory back that is not used.
    pub fn tidy(&mut self) {
        self.queue.tidy();
        self.rare = self.rare.take().filter(|rare| rare.is_needed());
    }

    /// See [`Rare::closing`].
    pub fn closing(&self) -> Option<usize> {
        self.rare.as_ref()?.closing
    }

    /// Why there will never be a connection again, if that is so.
    pub fn failed(&self) -> Option<&NetError> {
        self.rare.as_ref()?.failed.as_ref()
    }

    /// Do receives wait to read?
    pub fn has_reads(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.reads.is_empty())
    }

    /// See [`Rare::parts`].
    pub fn take_parts(&mut self) -> Vec<u8> {
        self.rare.as_mut().map_or_else(Vec::new, |rare| std::mem::take(&mut rare.parts))
    }

    /// Does anybody need a connection that is not ready yet?
    pub fn is_needed(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.needed_ns.is_some())
    }

    /// See [`Rare::needed_ns`].
    pub fn take_needed_ns(&mut self) -> Option<u64> {
        self.rare.as_mut()?.needed_ns.take()
    }

    /// The connection is closed.
    pub fn end_closing(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.closing = None;
        }
    }

    /// What was kept until there is a connection is sent now.
    pub fn forget_kept(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.kept_bytes = 0;
        }
    }

    fn kept_bytes(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.kept_bytes)
    }

    fn closing_mut(&mut self) -> Option<&mut usize> {
        self.rare.as_mut()?.closing.as_mut()
    }

    /// Where a message goes that comes behind the queue.
    fn way_behind(&self) -> Option<Qp> {
        self.ready.or(self.qp.filter(|_| self.closing().is_none()))
    }

    /// Takes the first out of the queue.
    fn pop(&mut self) -> Option<Pending> {
        let first = self.queue.pop_front();
        if let (Some(left), true) = (self.closing_mut(), first.is_some()) {
            *left = left.saturating_sub(1);
        }
        first
    }

    /// Puts something before the rest of the queue.
    fn put_first(&mut self, pending: Pending) {
        self.queue.push_front(pending);
        if let Some(left) = self.closing_mut() {
            *left += 1;
        }
    }

    /// May a message be copied and kept until there is a connection? A sender must not wait for a peer that is not in
    /// the library yet. But who blocks has a promise that the message is on its way.
    pub fn may_keep(&self, bytes: usize, push: Push) -> bool {
        self.ready.is_none() && push == Push::Soon && self.kept_bytes() + bytes <= KEPT_BYTES_MAX
    }
}

/// Something that waits to be sent.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A message; `request` is done when it has been posted.
    Message { header: Header, data: Data, request: Option<ReqId> },
    /// The rest of a buffer, in fragments.
    Stream { request: ReqId, into: u32, offset: usize, len: usize },
    /// Bytes for or from the peer's memory.
    Access(Access),
}

/// The payload of a message that waits.
#[derive(Debug)]
pub(crate) enum Data {
    /// In the program's buffer.
    User(UserBuf),
    /// In memory of its own.
    Own(Box<[u8]>),
}

impl Data {
    /// A copy of the program's buffer.
    pub fn copy(buf: UserBuf) -> Self {
        let mut bytes = vec![0; buf.len()].into_boxed_slice();
        buf.copy_to(&mut bytes);
        Data::Own(bytes)
    }

    /// A copy of the first bytes, and the rest.
    fn split(self, first: usize) -> (Self, Self) {
        match self {
            Data::User(buf) => {
                (Data::copy(buf.part(0, first)), Data::User(buf.part(first, buf.len() - first)))
            }
            Data::Own(bytes) => (Data::Own(bytes[..first].into()), Data::Own(bytes[first..].into())),
        }
    }
}

impl Pending {
    pub fn message(header: Header, data: Data, request: Option<ReqId>) -> Self {
        Pending::Message { header, data, request }
    }

    pub fn owned(header: Header, bytes: &[u8]) -> Self {
        Pending::Message { header, data: Data::Own(bytes.into()), request: None }
    }
}

/// What became of the first in a queue.
pub(crate) enum Front {
    Sent,
    /// The device goes on with it.
    Working(fabric::WorkId),
    /// A part of it was sent.
    Part,
    /// No room.
    Stays,
    /// It never fits: so much would.
    TooLong(usize),
}

impl Endpoint {
    /// The link of a peer, made on first use.
    pub(crate) fn link(&mut self, ix: PeerIx) -> &mut Link {
        if self.links.len() <= ix.index() {
            self.links.resize_with(ix.index() + 1, Link::default);
        }
        &mut self.links[ix.index()]
    }

    /// Puts something at the end of a link's queue and sends what can be sent.
    pub(crate) fn enqueue(&mut self, ix: PeerIx, pending: Pending, push: Push) {
        if self.watch.is_some() {
            self.unpark(ix);
        }
        let link = self.link(ix);
        if link.failed().is_some() {
            return; // whoever waits for it has been told
        }
        let open = link.way_behind().is_some() || !link.queue.is_empty() && link.closing().is_none();
        link.queue.push_back(pending);
        if !open {
            self.need(ix); // an answer for a peer whose connection was closed meanwhile, or is being closed
        }
        if self.links[ix.index()].queue.len() == 1 {
            self.pump(ix, push);
        }
        self.list(ix);
    }

    /// Notes that a link has something in its queue.
    pub(crate) fn list(&mut self, ix: PeerIx) {
        let link = &mut self.links[ix.index()];
        if !link.listed && !link.queue.is_empty() {
            link.listed = true;
            self.waits.news += 1;
            self.waiting.push(ix);
        }
    }

    /// Sends what waits, as far as there is room. Did anything move?
    pub(crate) fn pump_all(&mut self) -> bool {
        let mut moved = false;
        let mut place = 0;
        while place < self.waiting.len() {
            let ix = self.waiting[place];
            moved |= self.pump(ix, Push::Now);
            let link = &mut self.links[ix.index()];
            if link.queue.is_empty() {
                link.listed = false;
                link.queue.tidy();
                self.waiting.swap_remove(place);
            } else {
                place += 1;
            }
        }
        moved
    }

    /// Posts one eager message on a link with an empty queue, if that is possible now.
    pub(crate) fn try_post(
        &mut self,
        ix: PeerIx,
        header: Header,
        buf: UserBuf,
        push: Push,
    ) -> Option<Posted> {
        let link = &self.links[ix.index()];
        let qp = link.way_behind()?;
        self.context.post_send(qp, header.encode(link.name), buf, push).ok()
    }

    /// Sends what waits for one peer. Did anything move?
    pub(crate) fn pump(&mut self, ix: PeerIx, push: Push) -> bool {
        let mut moved = false;
        loop {
            let link = &self.links[ix.index()];
            let Some(qp) = link.way() else { break };
            if link.queue.is_empty() {
                break;
            }
            let front = self.post_front(ix, qp, push);
            match front {
                Ok(Front::Sent) => self.sent_front(ix),
                Ok(Front::Working(work)) => self.work_front(ix, work),
                Ok(Front::Part) => {}
                Ok(Front::Stays) => break,
                Ok(Front::TooLong(max)) => self.cut_front(ix, max),
                // A queue pair that takes nothing has broken, and that is told by an event.
                Err(_) => break,
            }
            moved = true;
        }
        moved
    }

    /// Posts the first in the queue, or a part of it.
    fn post_front(&mut self, ix: PeerIx, qp: Qp, push: Push) -> Result<Front, PostError> {
        let Endpoint { links, context, requests, traffic, .. } = self;
        let link = &mut links[ix.index()];
        let (waits, name) = (link.ready.is_none() && link.closing().is_none(), link.name);
        let posted = match link.queue.front_mut() {
            None => return Ok(Front::Stays),
            Some(Pending::Message { header, data: Data::User(buf), .. }) => {
                context.post_send(qp, header.encode(name), *buf, push)
            }
            Some(Pending::Message { header, data: Data::Own(bytes), .. }) => {
                context.post_send_bytes(qp, header.encode(name), bytes, push)
            }
            Some(Pending::Stream { request, into, offset, len }) => {
                // Not before the peer has answered: fragments are an answer themselves.
                if waits {
                    return Ok(Front::Stays);
                }
                let Some(State::SendOffered { data, .. }) = requests.get(*request) else {
                    return Ok(Front::Sent); // it has ended otherwise
                };
                let most = fragment_bytes(context.room_out(qp)).min(context.fragment_max(qp));
                let bytes = most.min(*len - *offset);
                let header = Header::Fragment { request: *into, offset: *offset as u64 }.encode(name);
                let posted = match data {
                    Lent::User(buf) => context.post_send_copied(qp, header, buf.part(*offset, bytes), push),
                    Lent::Own(own) => {
                        context.post_send_bytes(qp, header, &own[*offset..*offset + bytes], push)
                    }
                };
                match posted {
                    Ok(posted) => {
                        *offset += bytes;
                        if let Some(amounts) = traffic.get_mut(ix.index()) {
                            amounts.streamed += bytes as u64;
                        }
                        return Ok(match posted {
                            _ if *offset < *len => Front::Part,
                            Posted::Done => Front::Sent,
                            Posted::Later(work) => Front::Working(work),
                        });
                    }
                    // The peer has just said that there will be no larger ring: the next one is shorter.
                    Err(PostError::TooLong { max, .. }) if max < bytes => return Ok(Front::Part),
                    Err(error) => Err(error),
                }
            }
            // Nor these: the peer's memory is reached over a connection that is up.
            Some(Pending::Access(_)) if waits => return Ok(Front::Stays),
            Some(Pending::Access(access)) => {
                let access = *access;
                return Ok(self.post_access(ix, qp, access));
            }
        };
        match posted {
            Ok(Posted::Done) => Ok(Front::Sent),
            Ok(Posted::Later(work)) => Ok(Front::Working(work)),
            Err(PostError::Full) => Ok(Front::Stays),
            Err(PostError::TooLong { max, .. }) => Ok(Front::TooLong(max)),
            Err(error) => Err(error),
        }
    }

    /// The first in the queue has been sent.
    fn sent_front(&mut self, ix: PeerIx) {
        match self.links[ix.index()].pop() {
            Some(Pending::Message { request: Some(id), .. }) => {
                self.requests.replace(id, State::Done(Ok(sent(ix))));
            }
            Some(Pending::Stream { request, .. }) => self.send_finished(request.index, ix),
            Some(Pending::Access(access)) => self.access_posted(access),
            Some(Pending::Message { request: None, .. }) | None => {}
        }
    }

    /// The device goes on with the first in the queue.
    fn work_front(&mut self, ix: PeerIx, work: fabric::WorkId) {
        match self.links[ix.index()].pop() {
            Some(Pending::Message { request: Some(id), .. }) => {
                self.requests.replace(id, State::SendPosted { to: ix });
                self.works.insert(work, id);
            }
            // The last fragment.
            Some(Pending::Stream { request, .. }) => self.send_leaves(request.index, ix, work),
            // A synchronous send waits for its answer, which cannot come before the bytes have gone; for the rest
            // nobody waits.
            Some(Pending::Message { request: None, .. }) | None => {}
            Some(Pending::Access(_)) => unreachable!("the work on its pieces is noted with each"),
        }
    }

    /// The connection can never take the first message in one piece: it is offered instead, or goes in parts. It keeps
    /// its place: what is behind it must not overtake it.
    fn cut_front(&mut self, ix: PeerIx, max: usize) {
        let Some(Pending::Message { header, data, request }) = self.links[ix.index()].pop() else {
            unreachable!("fragments are as short as they have to be");
        };
        let Header::Message { envelope, request: named, kind } = header else {
            let (part, rest) = data.split(max);
            let link = &mut self.links[ix.index()];
            link.put_first(Pending::message(header, rest, request));
            link.put_first(Pending::message(Header::Part, part, None));
            return;
        };
        let data = match data {
            Data::User(buf) => Lent::User(buf),
            Data::Own(bytes) => Lent::Own(bytes),
        };
        // Whoever waits for it waits for the receiver now.
        let (waits, mark) = match kind {
            crate::wire::Kind::EagerSync => (self.requests.by_index(named), 0),
            _ => (request, named),
        };
        let before = std::mem::replace(&mut self.mark, mark);
        let offer = self.offer_again(ix, envelope, data, waits);
        self.mark = before;
        self.links[ix.index()].put_first(offer);
    }

    /// The connection will never work (again): whoever waits for it is told.
    pub(crate) fn fail(&mut self, ix: PeerIx, error: NetError) {
        self.waits.news += 1;
        self.requests.forget_heads(ix);
        self.counters.failed += u64::from(self.link(ix).failed().is_none());
        let link = self.link(ix);
        let mut untold = link.owes;
        *link.rare() = Rare { failed: Some(error.clone()), ..Rare::default() };
        link.ready = None;
        let queue = link.queue.take();
        if let Some(qp) = link.qp.take() {
            self.context.destroy_qp(qp);
        }
        for pending in queue {
            if let Pending::Message { request: Some(id), .. } = pending {
                self.requests.replace(id, State::Done(Err(Box::new(error.clone()))));
                untold = false;
            }
        }
        for id in self.requests.ids_where(|state| state.waits_for() == Some(ix)) {
            let pinned = match self.requests.get(id) {
                Some(State::SendOffered { key: Some((kind, key)), data, .. }) => {
                    Some((*kind, *key, data.len()))
                }
                // What its sender has not written yet it must not write any more.
                Some(State::ReceiveShared(sharing)) => {
                    Some((sharing.key.0, sharing.key.1, sharing.reading.bytes()))
                }
                _ => None,
            };
            if let Some((kind, key, bytes)) = pinned {
                self.unpin(kind, key, bytes);
            }
            self.requests.replace(id, State::Done(Err(Box::new(error.clone()))));
            untold = false;
        }
        let job = self.who(ix).job();
        let own = job == self.job.id;
        self.job.losses += 1;
        if !own {
            self.job.broken.entry(job).or_insert_with(|| error.clone());
        }
        // Who waits for anybody of another job hears of it: no launcher ends those who are left.
        let spans = &self.job.spans;
        let is_hopeless = |pattern: &matching::Pattern| {
            pattern.source == Some(ix)
                || !own && spans.get(&(pattern.context, job)).is_some_and(|span| span.concerns(pattern))
        };
        let hopeless: Vec<ReqId> =
            self.matcher.posted_iter().filter(|(p, _)| is_hopeless(p)).map(|(_, id)| id).collect();
        untold &= (own || !error.is_end()) && hopeless.is_empty();
        hopeless.into_iter().for_each(|id| self.fail_receive(id, &error));
        if !own {
            self.refuse_offers();
        }
        // Who waits for anybody of the own job waits on: others may send. But perhaps none of them does.
        if own && self.matcher.posted_iter().any(|(pattern, _)| pattern.source.is_none()) {
            let text = format!("banyan: {} receives from any rank, and one is lost: {error}\n", self.name());
            sys::socket::write_stderr(text.as_bytes());
        }
        // (A server does without: the launcher says who is lost.)
        if untold && self.job.serves.is_none() {
            // Messages to it count as sent, so that nobody here could be told.
            self.abort(1, &error.to_string());
        }
    }

    /// A receive was posted: of a peer which has failed it never ends.
    pub(crate) fn fail_if_hopeless(&mut self, id: ReqId, pattern: matching::Pattern) {
        if let Some(error) = self.failure_of(pattern) {
            self.fail_receive(id, &error);
        }
    }

    /// Why nothing may come any more that the pattern accepts, if that is so.
    pub(crate) fn failure_of(&self, pattern: matching::Pattern) -> Option<NetError> {
        let failed = pattern.source.and_then(|ix| self.links.get(ix.index())?.failed().cloned());
        failed.or_else(|| self.find_loss(pattern.context, |span| span.concerns(&pattern)))
    }

    /// Has a job with processes that send in this context lost one of them, and how was that heard of?
    #[inline]
    pub fn loss_in(&self, context: u32) -> Option<NetError> {
        self.find_loss(context, |_| true)
    }

    /// Has any job lost a process that this one knows of, or this one its connection to anybody?
    #[inline]
    pub fn has_losses(&self) -> bool {
        self.job.losses > 0
    }

    /// How often it was heard that somebody is lost: who remembers the number knows whether there is news.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.job.losses
    }

    /// Has the job of a process lost one of its processes, so that all of it ends, and how was that heard of?
    #[inline]
    pub fn loss_of_job(&self, process: Process) -> Option<NetError> {
        if !self.has_losses() {
            return None;
        }
        self.job.broken.get(&self.peer_of(process)?.job()).cloned()
    }

    /// Why a peer cannot be reached any more, if that is so.
    #[inline]
    pub fn loss_of_peer(&self, peer: impl Addressee) -> Option<NetError> {
        if !self.has_losses() {
            return None;
        }
        self.links.get(peer.find(&self.wireup)?.index())?.failed().cloned()
    }

    #[inline]
    fn find_loss(&self, context: u32, concerned: impl Fn(Span) -> bool) -> Option<NetError> {
        if self.job.broken.is_empty() {
            return None;
        }
        let spans = self.job.spans.range((context, Job(0))..=(context, Job(u64::MAX)));
        let mut jobs = spans.filter(|(_, span)| concerned(**span)).map(|((_, job), _)| job);
        jobs.find_map(|job| self.job.broken.get(job).cloned())
    }

    /// Why a message with this envelope will not be received, if that is so: it is of a collective with a job that was lost.
    pub(crate) fn loss_of(&self, envelope: &matching::Envelope) -> Option<NetError> {
        let matching::Envelope { context, source, tag } = *envelope;
        let pattern = matching::Pattern { context, source: Some(source), tag: Some(tag) };
        self.find_loss(context, |span| span.concerns(&pattern))
    }

    /// Who waits for the match of a message of a collective with a job that was lost hears that it is not received.
    fn refuse_offers(&mut self) {
        let waiting = self.matcher.unexpected_iter().filter(|(_, message)| message.answer().is_some());
        let lost: Vec<_> = waiting
            .map(|(envelope, _)| *envelope)
            .filter(|envelope| self.loss_of(envelope).is_some())
            .collect();
        lost.into_iter().for_each(|envelope| self.refuse_kept(envelope));
    }

    fn fail_receive(&mut self, id: ReqId, error: &NetError) {
        if let Some(State::ReceivePosted { key, .. }) = self.requests.get(id)
            && self.matcher.cancel(*key).is_some()
        {
            self.requests.replace(id, State::Done(Err(Box::new(error.clone()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_peer_costs_six_words() {
        assert!(size_of::<Link>() <= 48, "{}", size_of::<Link>());
        let mut link = Link::default();
        link.queue.push_back(Pending::owned(Header::Part, &[]));
        link.rare().closing = Some(1);
        assert!(link.pop().is_some() && link.closing() == Some(0));
        link.rare().closing = None;
        link.tidy();
        assert!(link.rare.is_none() && link.queue.0.is_none());
        link.rare().parts.push(7);
        link.tidy();
        assert_eq!(link.rare().parts, [7], "the rest of it comes over the next connection");
    }
}
