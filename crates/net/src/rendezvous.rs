//! Long messages: offered by the sender, fetched by the receiver when it has matched.
//!
//! ```text
//!   sender                          receiver
//!   OFFER(where, key) ----------->  matched: reads the sender's memory (alone, or with its help)
//!   done            <-----------  FIN
//! ```
//! A sender that does nothing but wait helps: messages of some length are copied by both sides through the ring (CLEAR),
//! their beginning at once (HEADs), so that nobody is idle while offer and answer travel. Of longer ones, and of those whose
//! sender may wait by now, the receiver reads parts from the front, while the sender, if it comes, writes others from the
//! end (SHARE), until they meet. If there are such others, the sender says when they are written (WROTE) and the receiver
//! that it has read the rest (TOOK) instead of a last word: so nobody waits for one who computes again by then.
//! Where memory cannot be read, or a read fails, the receiver asks for fragments (CLEAR); if the sender's memory is not
//! there at all, it refuses the message (REFUSE), so that the sender does not wait for ever. So does a receiver that has heard
//! of the loss of a job, for messages of collectives with it: it will not receive them.
use crate::api::{Cause, Envelope, NetError, Outcome, ReqId};
use crate::endpoint::{Endpoint, end_of, sent};
use crate::link::Pending;
use crate::request::{Lent, Reading, Sharing, State};
use crate::wire::{Header, Kind, Offer, Share};
use fabric::{MrKey, Posted, Push, Qp, RdmaError, RemoteMemory, WorkError, WorkId};
use proto::ids::PeerIx;
use proto::matching;
use proto::transfer::{self, Heads};
use std::sync::Arc;
use sys::{UserBuf, UserBufMut};

impl Endpoint {
    /// Offers a message to its receiver.
    pub(crate) fn offer(&mut self, ix: PeerIx, envelope: Envelope, data: Lent, push: Push) -> ReqId {
        self.counters.rendezvous += 1;
        let id = self.requests.insert(State::SendQueued);
        let waits = push == Push::Now;
        if waits {
            self.expect_long(ix, data.len());
        }
        let head = self.head_of(ix, &data, waits);
        let headed = head.map_or(0, |head| head.len());
        let offer = self.announce(ix, envelope, data, id, Help { waits, headed });
        self.enqueue(ix, offer, Push::Soon);
        if let Some(head) = head {
            self.send_head(ix, id, head);
        }
        id
    }

    /// The beginning of a message that goes with its offer, if one does.
    fn head_of(&mut self, ix: PeerIx, data: &Lent, waits: bool) -> Option<UserBuf> {
        let Lent::User(buf) = data else { return None };
        let link = &mut self.links[ix.index()];
        let qp = link.ready.filter(|_| link.queue.is_empty() && !self.job.oversubscribed)?;
        // Both at once or not at all: a beginning that had to wait could find another ring, or a send that is over.
        let room = self.context.room_out(qp);
        let bytes = Heads::of(buf.len(), room);
        let goes = link.heads.next(buf.len(), waits, room, self.job.long)
            && self.context.has_room(qp, Heads::free_for(bytes, room));
        goes.then(|| buf.part(0, bytes))
    }

    /// Sends the beginning of a message behind its offer, for which there was room.
    fn send_head(&mut self, ix: PeerIx, id: ReqId, head: UserBuf) {
        let link = &self.links[ix.index()];
        let Some(qp) = link.ready.filter(|_| link.queue.is_empty()) else { return self.head_ends(ix, id, 0) };
        let (name, most) = (link.name, transfer::fragment_bytes(self.context.room_out(qp)));
        let mut sent = 0;
        while sent < head.len() {
            let bytes = most.min(head.len() - sent);
            let last = sent + bytes == head.len();
            let header = Header::Head { request: id.index, offset: sent as u32, last }.encode(name);
            if self.context.post_send_copied(qp, header, head.part(sent, bytes), Push::Soon).is_err() {
                break;
            }
            sent += bytes;
        }
        self.head_ends(ix, id, sent);
    }

    /// So much of a beginning has been sent. What the receiver was promised and does not get comes with the rest.
    fn head_ends(&mut self, ix: PeerIx, id: ReqId, sent: usize) {
        if let Some(amounts) = self.amounts(ix) {
            amounts.streamed += sent as u64;
        }
        if let Some(State::SendOffered { headed, .. }) = self.requests.get_mut(id) {
            *headed = sent;
        }
    }

    /// Who waits for the receiver of a long message can copy together with it, through a ring that is large enough. That is
    /// worth its memory for who does so again and again.
    fn expect_long(&mut self, ix: PeerIx, bytes: usize) {
        // (Where cores are shared there are no streams: a ring that takes longer messages without asking is enough.)
        let cache_bytes = sys::cpu::own_cache_bytes().filter(|_| !self.job.oversubscribed);
        let wanted = transfer::stream_room_wanted(cache_bytes);
        if !transfer::may_stream(bytes, wanted, self.job.long) {
            return;
        }
        let link = &mut self.links[ix.index()];
        link.waited_long = link.waited_long.saturating_add(1);
        if link.waited_long >= transfer::LONG_BEFORE_GROWTH
            && let Some(qp) = link.ready
        {
            self.context.expect_stream(qp, wanted.max(bytes));
        }
    }

    /// The caller of a send does nothing any more but wait for its end. So its receiver may count on help, if it has not taken it.
    pub fn say_waits(&mut self, id: ReqId) {
        let Some(State::SendOffered { key: Some((kind, key)), to, data, waits: waits @ false, .. }) =
            self.requests.get_mut(id)
        else {
            return;
        };
        let (kind, key, to, bytes) = (*kind, *key, *to, data.len());
        *waits = true;
        if !self.job.oversubscribed {
            self.context.say_waits(kind, key);
            self.expect_long(to, bytes);
        }
    }

    /// Are there sends that a receiver has been offered and has not taken?
    pub fn has_offers(&self) -> bool {
        self.counters.pinned.now > 0
    }

    /// Offers a message that was to be sent eagerly. `waits` is who waits for it, if anybody does.
    pub(crate) fn offer_again(
        &mut self,
        ix: PeerIx,
        envelope: Envelope,
        data: Lent,
        waits: Option<ReqId>,
    ) -> Pending {
        let id = waits.unwrap_or_else(|| {
            let id = self.requests.insert(State::SendQueued);
            self.requests.forget(id);
            id
        });
        self.announce(ix, envelope, data, id, Help { waits: false, headed: 0 })
    }

    fn announce(&mut self, ix: PeerIx, envelope: Envelope, data: Lent, id: ReqId, help: Help) -> Pending {
        let (addr, bytes, key) = match &data {
            Lent::User(buf) => {
                // The provider is known once the peer's card is; before that only fragments can be promised.
                let kind = self.links[ix.index()].qp.map(|qp| qp.provider());
                let key = kind.and_then(|kind| Some((kind, self.pin(kind, *buf)?)));
                (buf.addr(), buf.len() as u64, key)
            }
            Lent::Own(bytes) => (0, bytes.len() as u64, None),
        };
        let (key_number, mark) = (key.map(|(_, key)| key.0), self.mark);
        let Help { waits, headed } = help;
        let request = id.index;
        let offer = Offer { addr, bytes, key: key_number, request, mark, waits, headed: headed > 0 };
        if let Some(amounts) = self.amounts(ix) {
            amounts.lent += data.len() as u64;
        }
        let offered = State::SendOffered { data, key, to: ix, envelope, waits, headed, unwritten: false };
        self.requests.replace(id, offered);
        let header = Header::Message { kind: Kind::Offer, envelope, request: id.index };
        Pending::owned(header, &offer.encode())
    }

    /// Takes an offered message: reads it, or asks for it in fragments where that is not possible.
    pub(crate) fn accept(&mut self, id: ReqId, buf: UserBufMut, from: matching::Envelope, offer: Offer) {
        let len = usize::try_from(offer.bytes).unwrap_or(usize::MAX);
        let bytes = buf.len().min(len);
        let end = end_of(from, len, bytes, offer.mark);
        if let Some(error) = self.link(from.source).failed().cloned() {
            self.requests.replace(id, State::Done(Err(Box::new(error))));
            return;
        }
        self.read(id, Reading { buf, offer, end });
    }

    /// Reads what was offered, now or when there is a connection: the one that brought the offer may be closed.
    fn read(&mut self, id: ReqId, reading: Reading) {
        let ix = reading.end.source;
        let bytes = reading.bytes();
        if let Some(qp) = self.link(ix).ready
            && self.is_shared(bytes, &reading.offer, qp)
            && self.share(id, reading, qp)
        {
            return;
        }
        self.read_alone(id, reading);
    }

    /// As [`Endpoint::read`], without the sender's help.
    fn read_alone(&mut self, id: ReqId, reading: Reading) {
        let Reading { buf, offer, end } = reading;
        let ix = end.source;
        let bytes = reading.bytes();
        let read = match (offer.key, self.link(ix).ready) {
            _ if bytes == 0 => Ok(Posted::Done),
            (Some(_), Some(qp)) if self.is_streamed(&offer, qp) => {
                return self.ask_fragments(id, buf, offer, end);
            }
            (Some(key), Some(qp)) => {
                let memory = RemoteMemory { addr: offer.addr, key: MrKey(key) };
                self.context.rdma_read(qp, buf.part(0, bytes), memory)
            }
            (Some(_), None) => {
                self.requests.replace(id, State::ReceiveReading(Box::new(reading)));
                self.link(ix).rare().reads.push(id);
                return self.need(ix);
            }
            (None, _) => Err(RdmaError::Forbidden),
        };
        match read {
            Ok(Posted::Done) => {
                self.finish_receive(id, end);
                self.answer(ix, offer.request);
            }
            Ok(Posted::Later(work)) => {
                self.requests.replace(id, State::ReceiveReading(Box::new(reading)));
                self.works.insert(work, id);
            }
            // Forbidden, a fault in the middle, no room: the sender can still send it.
            Err(error) if offer.bytes > 0 && fragments_help(&error) => {
                self.warn_of_refusal();
                self.ask_fragments(id, buf, offer, end)
            }
            Err(error) => self.give_up(id, offer, end, Cause::Read(Arc::new(error))),
        }
    }

    /// Does this side do nothing but wait, on a core of its own?
    fn only_waits(&self) -> bool {
        self.anybody_stays() && !self.job.oversubscribed
    }

    /// Do both sides do so?
    fn both_wait(&self, offer: &Offer, qp: Qp) -> bool {
        let sender_waits = || offer.key.is_some_and(|key| self.context.owner_waits(qp, MrKey(key)));
        self.only_waits() && (offer.waits || sender_waits())
    }

    fn is_shared(&self, bytes: usize, offer: &Offer, qp: Qp) -> bool {
        !self.job.oversubscribed && self.context.reads_alone(qp) && {
            let room = self.context.room_in(qp);
            transfer::is_shared(bytes, self.both_wait(offer, qp), room, self.job.long)
        }
    }

    fn is_streamed(&self, offer: &Offer, qp: Qp) -> bool {
        // All of it, also where the receiver wants less.
        let bytes = usize::try_from(offer.bytes).unwrap_or(usize::MAX);
        transfer::is_streamed(bytes, self.both_wait(offer, qp), self.context.room_in(qp), self.job.long)
    }

    /// Lets the sender write parts from the end, and reads from the front until there are no more. `false`: nothing has been
    /// done.
    fn share(&mut self, id: ReqId, reading: Reading, qp: Qp) -> bool {
        let Reading { buf, offer, end } = reading;
        let Some(key) = offer.key.map(MrKey) else { return false };
        let (bytes, kind) = (reading.bytes(), qp.provider());
        let count = transfer::parts(bytes);
        // As long as it has not been told, the sender takes none.
        let mut next = self.context.take_part(qp, key, count);
        if next.is_none() {
            return false;
        }
        let buf = buf.part(0, bytes);
        let Some(pinned) = self.pin(kind, buf.as_source()) else { return false };
        let share = Share { addr: buf.addr(), key: pinned.0, bytes: bytes as u64 };
        let header = Header::Share { request: offer.request, into: id.index };
        self.enqueue(end.source, Pending::owned(header, &share.encode()), Push::Now);
        let (mut read, mut missing) = (true, bytes);
        while let Some(part) = next {
            let (start, len) = transfer::part(bytes, part);
            let memory = RemoteMemory { addr: offer.addr.wrapping_add(start as u64), key };
            read &= matches!(self.context.rdma_read(qp, buf.part(start, len), memory), Ok(Posted::Done));
            missing -= len;
            next = self.context.take_part(qp, key, count);
        }
        let sharing = Sharing { reading, key: (kind, pinned), missing, read };
        if missing == 0 {
            self.end_shared(id, sharing, true);
        } else if let Some(error) = self.link(end.source).failed().cloned() {
            // Lost just now: nobody writes what is missing.
            self.unpin(kind, pinned, bytes);
            self.requests.replace(id, State::Done(Err(Box::new(error))));
        } else {
            if read {
                let took = Header::Took { request: offer.request };
                self.enqueue(end.source, Pending::owned(took, &[]), Push::Now);
            }
            self.requests.replace(id, State::ReceiveShared(Box::new(sharing)));
        }
        true
    }

    /// The receiver reads a message that was offered, and lets this side write parts of it. It is answered if there are any:
    /// the receiver does not end before that, so that nothing is written into memory which it has given away.
    pub(crate) fn write_share(&mut self, request: u32, into: u32, by: PeerIx, share: Share) {
        if let Some(well) = self.write_parts(request, by, share) {
            self.enqueue(by, Pending::owned(Header::Wrote { request: into, well }, &[]), Push::Now);
        }
    }

    /// `None`: there were no parts left. Otherwise, was everything written?
    pub(crate) fn write_parts(&mut self, request: u32, by: PeerIx, share: Share) -> Option<bool> {
        let id = self.requests.by_index(request)?;
        let State::SendOffered { data: Lent::User(buf), key: Some((kind, key)), to, .. } =
            self.requests.get(id)?
        else {
            return None;
        };
        let (buf, kind, key, to) = (*buf, *kind, *key, *to);
        let bytes = usize::try_from(share.bytes).ok()?;
        if to != by || bytes > buf.len() {
            return None;
        }
        let qp = self.links[by.index()].ready.filter(|qp| qp.provider() == kind)?;
        let count = transfer::parts(bytes);
        let mut well = None;
        while well != Some(false)
            && let Some(part) = self.context.take_own_part(kind, key, count)
        {
            let (start, len) = transfer::part(bytes, part);
            let to = RemoteMemory { addr: share.addr.wrapping_add(start as u64), key: MrKey(share.key) };
            let from = buf.part(start, len);
            let written = match well {
                None => self.context.rdma_write(qp, from, to),
                Some(_) => self.context.rdma_write_more(qp, from, to),
            };
            well = Some(matches!(written, Ok(Posted::Done)));
        }
        if well == Some(false)
            && let Some(State::SendOffered { unwritten, .. }) = self.requests.get_mut(id)
        {
            *unwritten = true;
        }
        well
    }

    /// The sender has written its parts of a message, or could not.
    pub(crate) fn receive_written(&mut self, request: u32, by: PeerIx, well: bool) {
        let Some(id) = self.requests.by_index(request) else { return };
        let Some(State::ReceiveShared(sharing)) = self.requests.get(id) else { return };
        if sharing.reading.end.source != by {
            return;
        }
        if let Some(State::ReceiveShared(sharing)) = self.requests.replace(id, State::SendQueued) {
            self.end_shared(id, *sharing, well);
        }
    }

    /// Both sides have done their parts. What one of them could not do is read after all.
    fn end_shared(&mut self, id: ReqId, sharing: Sharing, written: bool) {
        let Sharing { reading, key: (kind, key), missing, read } = sharing;
        self.unpin(kind, key, reading.bytes());
        if read && written {
            self.finish_receive(id, reading.end);
            if missing == 0 {
                self.answer(reading.end.source, reading.offer.request);
            }
        } else {
            self.read_alone(id, reading);
        }
    }

    /// There is a connection: what was offered on an earlier one is read.
    pub(crate) fn read_waiting(&mut self, ix: PeerIx) {
        if !self.link(ix).has_reads() {
            return;
        }
        for id in std::mem::take(&mut self.link(ix).rare().reads) {
            if matches!(self.requests.get(id), Some(State::ReceiveReading(_)))
                && let Some(State::ReceiveReading(reading)) = self.requests.replace(id, State::SendQueued)
            {
                self.read(id, *reading);
            }
        }
    }

    fn ask_fragments(&mut self, id: ReqId, buf: UserBufMut, offer: Offer, end: Outcome) {
        self.requests.replace(id, State::ReceiveStreaming { buf, missing: offer.bytes, end });
        let headed = offer.headed && self.requests.expect_head(end.source, offer.request, id);
        let header = Header::Clear { request: offer.request, into: id.index, headed };
        self.enqueue(end.source, Pending::owned(header, &[]), Push::Now);
    }

    /// The message cannot be had. The receive ends with an error, and so does the send.
    fn give_up(&mut self, id: ReqId, offer: Offer, end: Outcome, cause: Cause) {
        let error = self.unreachable(end.source, Arc::new(cause));
        self.requests.replace(id, State::Done(Err(Box::new(error))));
        let header = Header::Refuse { request: offer.request, left: false };
        self.enqueue(end.source, Pending::owned(header, &[]), Push::Now);
    }

    /// A read that was posted has ended.
    pub(crate) fn read_done(&mut self, id: ReqId, reading: Reading, result: Result<u64, WorkError>) {
        let Reading { buf, offer, end } = reading;
        match result {
            Ok(_) => {
                self.finish_receive(id, end);
                self.answer(end.source, offer.request);
            }
            Err(_) => self.ask_fragments(id, buf, offer, end),
        }
    }

    /// Tells the sender that its message was matched and read.
    pub(crate) fn answer(&mut self, to: PeerIx, request: u32) {
        if to == Self::SELF {
            self.send_finished(request, to);
            return;
        }
        self.enqueue(to, Pending::owned(Header::Fin { request }, &[]), Push::Soon);
    }

    /// A send that was offered has been taken by its receiver. Only that receiver may say so.
    pub(crate) fn send_finished(&mut self, request: u32, by: PeerIx) {
        if let Some(id) = self.end_offer(request, by) {
            self.requests.replace(id, State::Done(Ok(sent(by))));
        }
    }

    /// The receiver has read its parts of a send that was offered. That it lets this side write others came before, so that
    /// they are written by now, if they could be.
    pub(crate) fn send_taken(&mut self, request: u32, by: PeerIx) {
        let state = self.requests.by_index(request).and_then(|id| self.requests.get(id));
        if !matches!(state, Some(State::SendOffered { unwritten: true, .. })) {
            self.send_finished(request, by);
        }
    }

    /// The last fragment of a send that was offered is on its way out: it is over when that has left.
    pub(crate) fn send_leaves(&mut self, request: u32, by: PeerIx, work: WorkId) {
        if let Some(id) = self.end_offer(request, by) {
            self.requests.replace(id, State::SendPosted { to: by });
            self.works.insert(work, id);
        }
    }

    /// A message of a collective, whose sender waits for the match, will not be received: this process leaves it, since somebody
    /// was lost.
    pub(crate) fn refuse_lost(&mut self, to: PeerIx, request: u32) {
        if to == Self::SELF {
            return self.send_refused(request, to, true);
        }
        self.enqueue(to, Pending::owned(Header::Refuse { request, left: true }, &[]), Push::Now);
    }

    /// A send that was offered could not be read by its receiver, or is of a collective that it has left.
    pub(crate) fn send_refused(&mut self, request: u32, by: PeerIx, left: bool) {
        if let Some(id) = self.end_offer(request, by) {
            let peer = self.who(by);
            let error = if left { NetError::Left { peer } } else { NetError::Refused { peer } };
            self.requests.replace(id, State::Done(Err(Box::new(error))));
        }
    }

    /// The send that a receiver speaks of, if it is one of those offered to it. Its buffer is no longer lent.
    fn end_offer(&mut self, request: u32, by: PeerIx) -> Option<ReqId> {
        let id = self.requests.by_index(request)?;
        let State::SendOffered { key, to, data, headed, .. } = self.requests.get(id)? else { return None };
        if *to != by {
            return None;
        }
        let (bytes, in_vain) = (data.len(), *headed);
        if let Some((kind, key)) = *key {
            self.unpin(kind, key, bytes);
        }
        if in_vain > 0 {
            self.link(by).heads.in_vain();
        }
        Some(id)
    }

    /// The receiver asks for fragments.
    pub(crate) fn send_fragments(&mut self, request: u32, into: u32, has_head: bool, by: PeerIx) {
        let Some(id) = self.requests.by_index(request) else { return };
        let Some(State::SendOffered { data, to, waits, headed, .. }) = self.requests.get_mut(id) else {
            return;
        };
        if *to != by {
            return;
        }
        let len = match data {
            // It could not be read from outside. If the program has given the memory away, it cannot be read here either.
            // (The beginning was read here before.)
            Lent::User(buf) if !(*waits && has_head || buf.is_mapped()) => {
                return self.withdraw(id, into, by);
            }
            Lent::User(buf) => buf.len(),
            Lent::Own(bytes) => bytes.len(),
        };
        let offset = if has_head { std::mem::take(headed) } else { 0 };
        // (Behind something else an empty fragment says that all has left.)
        if offset == len && self.links[by.index()].queue.is_empty() {
            return self.send_finished(request, by);
        }
        if let Some(qp) = self.links[by.index()].ready {
            self.context.expect_stream(qp, len);
        }
        self.enqueue(by, Pending::Stream { request: id, into, offset, len }, Push::Now);
    }

    /// The message is not there any more: both ends get an error.
    fn withdraw(&mut self, id: ReqId, into: u32, by: PeerIx) {
        if self.end_offer(id.index, by).is_some() {
            let error = NetError::Gone { to: self.who(by) };
            self.requests.replace(id, State::Done(Err(Box::new(error))));
        }
        self.enqueue(by, Pending::owned(Header::Withdraw { request: into }, &[]), Push::Now);
    }

    /// The sender has not got the message any more.
    pub(crate) fn receive_withdrawn(&mut self, request: u32, by: PeerIx) {
        let id = self.requests.by_index(request);
        if let Some(id) = id
            && let Some(State::ReceiveStreaming { end, .. }) = self.requests.get(id)
            && end.source == by
        {
            let error = NetError::Withdrawn { peer: self.who(by) };
            self.requests.replace(id, State::Done(Err(Box::new(error))));
        }
    }

    /// The last fragment has come.
    pub(crate) fn streamed(&mut self, id: ReqId) {
        if let Some(State::ReceiveStreaming { end, .. }) = self.requests.get(id) {
            let end = *end;
            self.finish_receive(id, end);
        }
    }
}

/// What the sender of a long message does for its receiver.
struct Help {
    waits: bool,
    /// Bytes of its beginning that go with the offer.
    headed: usize,
}

impl Reading {
    /// Bytes that are wanted.
    pub fn bytes(&self) -> usize {
        self.buf.len().min(usize::try_from(self.offer.bytes).unwrap_or(usize::MAX))
    }
}

/// May the sender still be able to send what could not be read? Its own memory is always within its reach, unless the
/// read failed for what it said itself.
fn fragments_help(error: &RdmaError) -> bool {
    match error {
        RdmaError::Forbidden | RdmaError::Io(_) | RdmaError::Full | RdmaError::State | RdmaError::Key => true,
        RdmaError::Atomic => false,
    }
}
