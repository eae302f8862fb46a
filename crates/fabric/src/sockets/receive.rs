//! Receiving: which stream to look at, and what to do with what is there.
//!
//! One buffer serves all streams. A look at a stream fills it, its frames are taken from there one by one, and what is
//! left of an unfinished frame goes to the stream, so that the buffer is free for the next. The body of a long frame
//! goes past it, straight to its destination.
//!
//! A few *hot* streams are read directly; all others are found by the poll set, which is asked now and then.
use super::link::{Body, Dest, Link, Request, Then};
use super::{Note, Sockets, Token};
use crate::event::{BytesView, Event, View};
use crate::provider::{BreakReason, Posted, WorkError};
use crate::qp::Qp;
use proto::stream::{Frame, HEAD_BYTES, Refusal};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use sys::UserBufMut;
use sys::poll::{Interest, Ready};
use sys::socket::Transfer;

/// The buffer that streams are read into.
const STAGING_BYTES: usize = 16 << 10;
/// A message that has not arrived whole is kept here until it has, if it is not longer.
const KEPT_MAX: usize = 4 << 10;
/// Streams that are read directly.
const HOT_MAX: usize = 4;
/// Looks without success after which a hot stream makes place for another one, and after which it is cold anyway while
/// others are active.
const QUIET_LOOKS: u64 = 64;
const COLD_LOOKS: u64 = 4096;
/// How often the poll set is asked: while hot streams are quiet, and while they are busy.
const QUIET_TURNS: u32 = 8;
const BUSY_TURNS: u32 = 64;
/// Streams that are read in one call of poll, if what comes from them is no event.
const ROUNDS_MAX: usize = 8;

/// Where to look, and what was found.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) staging: Box<[u8; STAGING_BYTES]>,
    /// The part of it that is not taken yet, and whose it is.
    pub(super) staged: Range<usize>,
    pub(super) owner: u32,
    /// A long message of this queue pair waits for its destination.
    announced: Option<u32>,
    /// What is lent to the caller.
    lent: Vec<u8>,
    hot: Vec<Hot>,
    /// Which hot stream is first.
    turn: usize,
    looks: u64,
    /// Looks at hot streams since the poll set was asked.
    unasked: u32,
    /// What the poll set has named.
    pub(super) ready: VecDeque<Ready>,
    answers: Vec<Ready>,
}

#[derive(Clone, Copy, Debug)]
struct Hot {
    index: u32,
    /// The look that was its last with success.
    last: u64,
}

impl Default for Inbox {
    fn default() -> Self {
        Inbox {
            staging: Box::new([0; STAGING_BYTES]),
            staged: 0..0,
            owner: 0,
            announced: None,
            lent: Vec::new(),
            hot: Vec::with_capacity(HOT_MAX),
            turn: 0,
            looks: 0,
            unasked: 0,
            ready: VecDeque::new(),
            answers: Vec::new(),
        }
    }
}

impl Inbox {
    /// Is there something to take without a look at a socket?
    pub fn has_some(&self) -> bool {
        !self.staged.is_empty() || !self.ready.is_empty()
    }

    #[cfg(test)]
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }

    pub fn bytes(&self) -> usize {
        STAGING_BYTES + self.lent.capacity()
    }

    /// A stream is not looked at any more.
    pub fn forget(&mut self, index: u32) {
        self.hot.retain(|hot| hot.index != index);
        if self.owner == index {
            self.staged = 0..0;
        }
        if self.announced == Some(index) {
            self.announced = None;
        }
    }
}

/// What was found, before it is lent.
enum Found {
    /// A message in the staging buffer.
    Message(u32, [u64; 2], Range<usize>),
    Incoming(u32, [u64; 2], usize),
    Note(Note),
}

impl Sockets {
    /// The next event, if there is one. Call again until there is none.
    #[inline]
    pub fn poll(&mut self) -> Option<Event<'_>> {
        let found = self.find()?;
        Some(match found {
            Found::Message(index, header, at) => {
                let payload = &self.inbox.staging[at];
                let qp = Qp::new(super::KIND, index as usize, self.links.generation(index));
                Event::Receive { qp, view: View::Bytes(BytesView { header, payload }) }
            }
            Found::Incoming(index, header, len) => Event::Incoming { qp: self.qp(index), header, len },
            Found::Note(Note::Kept(qp, header, bytes)) => {
                self.inbox.lent = bytes;
                let payload = &self.inbox.lent;
                Event::Receive { qp, view: View::Bytes(BytesView { header, payload }) }
            }
            Found::Note(Note::Control(bytes)) => {
                self.inbox.lent = bytes;
                Event::Datagram(&self.inbox.lent)
            }
            Found::Note(Note::Done(work, result)) => Event::Done(work, result),
            Found::Note(Note::Broken(qp, why)) => Event::Broken { qp, why },
        })
    }

    #[inline]
    fn find(&mut self) -> Option<Found> {
        if let Some(index) = self.inbox.announced.take() {
            self.collect(index);
        }
        let mut rounds = 0;
        loop {
            if !self.dirty.is_empty() {
                self.write_dirty();
            }
            // A message that was collected comes before those behind it.
            if let Some(note) = self.take_note() {
                return Some(Found::Note(note));
            }
            if let Some(found) = self.take_staged() {
                return Some(found);
            }
            if !self.dirty.is_empty() || !self.notes.is_empty() {
                continue;
            }
            rounds += 1;
            if rounds > ROUNDS_MAX || !self.look() {
                return self.take_note().map(Found::Note);
            }
        }
    }

    /// The next note that is not about a queue pair which is gone.
    fn take_note(&mut self) -> Option<Note> {
        loop {
            let note = self.notes.pop_front()?;
            match &note {
                Note::Broken(qp, _) | Note::Kept(qp, ..)
                    if self.links.get(qp.index(), qp.generation()).is_none() => {}
                _ => return Some(note),
            }
        }
    }

    /// Looks at sockets until one has something; `false`: none has.
    fn look(&mut self) -> bool {
        self.inbox.looks += 1;
        self.inbox.unasked += 1;
        if !self.blocked.is_empty() {
            self.retry_blocked();
        }
        // While answers are left it would name the same streams again.
        if self.inbox.ready.is_empty()
            && (self.slept.take() || self.inbox.unasked >= BUSY_TURNS || self.inbox.hot.is_empty())
        {
            self.ask();
        }
        if let Some(ready) = self.inbox.ready.pop_front() {
            self.attend(ready);
            return true;
        }
        if self.look_at_hot() {
            return true;
        }
        if !self.inbox.hot.is_empty() && self.inbox.unasked >= QUIET_TURNS {
            self.ask();
        }
        match self.inbox.ready.pop_front() {
            Some(ready) => self.attend(ready),
            None => return !self.notes.is_empty(),
        }
        true
    }

    #[inline]
    fn look_at_hot(&mut self) -> bool {
        let hot = self.inbox.hot.len();
        for turn in 0..hot {
            let at = (self.inbox.turn + turn) % hot;
            if self.read(self.inbox.hot[at].index) {
                // It may have broken, and be hot no more.
                if let Some(hot) = self.inbox.hot.get_mut(at) {
                    hot.last = self.inbox.looks;
                }
                self.inbox.turn = at + 1;
                if hot > 1 {
                    let looks = self.inbox.looks;
                    self.inbox.hot.retain(|hot| looks - hot.last < COLD_LOOKS);
                }
                return true;
            }
        }
        false
    }

    /// Asks the poll set what else is ready.
    fn ask(&mut self) {
        self.inbox.unasked = 0;
        let mut answers = std::mem::take(&mut self.inbox.answers);
        // An error would be a mistake of ours in the descriptor; what is ready is found the next time.
        let _ = self.poll.wait(Some(0), &mut answers);
        // Descriptors of others, such as an RDMA device's, are in the set for who sleeps: nothing is read from them here, and
        // asking again would name them again.
        self.inbox.ready.extend(answers.drain(..).filter(|ready| Token::unpack(ready.token).is_some()));
        self.inbox.answers = answers;
    }

    /// Something is ready.
    fn attend(&mut self, ready: Ready) {
        match Token::unpack(ready.token) {
            Some(Token::Listener) => self.accept(),
            Some(Token::Datagrams) => self.receive_datagrams(),
            Some(Token::Guest { index, generation }) => self.guest_stirs(index, generation),
            Some(Token::Leaving { index, generation }) => self.leaving_stirs(index, generation),
            Some(Token::Link { index, generation }) => self.link_stirs(index, generation, ready),
            Some(Token::Losing { index, generation }) => self.losing_stirs(index, generation),
            // The caller's own descriptors.
            None => {}
        }
    }

    fn link_stirs(&mut self, index: u32, generation: u32, ready: Ready) {
        let Some(link) = self.links.get(index as usize, generation) else { return };
        if !link.is_settled() {
            if ready.writable && link.blocked {
                self.write_out(index);
            }
            return match self.has_hung_up(index) {
                // What came before that is read when the connection is settled.
                true => self.unwatch(index),
                false => self.advance_dial(index),
            };
        }
        if ready.writable && link.blocked {
            self.write_out(index);
        }
        if ready.readable && self.read(index) {
            self.warm(index);
        }
    }

    fn unwatch(&self, index: u32) {
        if let Some(stream) = self.links.at(index).and_then(|link| link.stream.as_ref()) {
            let _ = self.poll.remove(stream.as_fd());
        }
    }

    /// Has the other end gone while its bytes were held back? What the poll set said may be from before.
    fn has_hung_up(&self, index: u32) -> bool {
        let link = self.links.at(index).filter(|link| link.interest == Interest::Hangup);
        let stream = link.and_then(|link| link.stream.as_ref());
        stream.is_some_and(|stream| !matches!(stream.connected(), Ok(true)))
    }

    /// A stream that was found by the poll set becomes hot if there is room, or one that has been quiet.
    fn warm(&mut self, index: u32) {
        let looks = self.inbox.looks;
        let hot = &mut self.inbox.hot;
        let new = Hot { index, last: looks };
        if let Some(hot) = hot.iter_mut().find(|hot| hot.index == index) {
            hot.last = looks;
        } else if !self.links.at(index).is_some_and(Link::is_settled) {
            // It has just broken.
        } else if hot.len() < HOT_MAX {
            hot.push(new);
        } else if let Some(quietest) = hot.iter_mut().min_by_key(|hot| hot.last)
            && looks - quietest.last > QUIET_LOOKS
        {
            *quietest = new;
        }
    }

    /// A stream is settled: looked at soon, since bytes may wait there already.
    pub(super) fn begin_receiving(&mut self, index: u32) {
        self.warm(index);
        let generation = self.links.generation(index);
        let token = Token::Link { index, generation }.pack();
        self.inbox.ready.push_back(Ready { token, readable: true, writable: false });
    }

    /// Reads a stream; `true`: something happened.
    #[inline]
    fn read(&mut self, index: u32) -> bool {
        let Some(link) = self.links.at_mut(index) else { return false };
        debug_assert!(self.inbox.staged.is_empty(), "bytes of another stream");
        let skip = link.skip > 0;
        if link.body.is_some() && !skip {
            return self.read_body(index);
        }
        let Some(stream) = &link.stream else { return false };
        let kept = link.partial.len();
        if kept >= HEAD_BYTES && wanted(&link.partial) == HEAD_BYTES {
            // A frame was held back while the connection was not settled, and nothing need come behind it.
            self.inbox.staging[..kept].copy_from_slice(&link.partial);
            link.partial = Vec::new();
            self.inbox.staged = 0..kept;
            self.inbox.owner = index;
            return true;
        }
        match stream.read(&mut self.inbox.staging[kept..]) {
            Ok(Transfer::Bytes(bytes)) => {
                if kept > 0 {
                    self.inbox.staging[..kept].copy_from_slice(&link.partial);
                    link.partial = Vec::new();
                }
                self.inbox.staged = 0..kept + bytes;
                self.inbox.owner = index;
                if skip {
                    self.skip_staged(index);
                }
                true
            }
            Ok(Transfer::WouldBlock) => false,
            Ok(Transfer::Closed) => {
                self.close_link(index);
                true
            }
            Err(error) => {
                self.lose(index, &error);
                true
            }
        }
    }

    /// Reads more of a long frame, straight to where it belongs; `true`: something happened.
    pub(super) fn read_body(&mut self, index: u32) -> bool {
        let Some(link) = self.links.at_mut(index) else { return false };
        let stream = match &link.losing {
            Some(losing) => losing.stream(),
            None => link.stream.as_ref(),
        };
        let (Some(body), Some(stream)) = (&mut link.body, stream) else { return false };
        let room = body.room();
        let straight = if room.is_empty() { body.own_room().map_or(0, |own| own.len()) } else { room.len() };
        let read = match body.own_room() {
            Some(own) if room.is_empty() => stream.read(own),
            _ => stream.read_into2(room, &mut self.inbox.staging[..]),
        };
        match read {
            Ok(Transfer::Bytes(bytes)) => {
                body.got += bytes.min(straight);
                if let Some(losing) = &mut link.losing {
                    losing.count(bytes);
                }
                self.inbox.staged = 0..bytes.saturating_sub(straight);
                self.inbox.owner = index;
                self.fill_body(index);
                true
            }
            Ok(Transfer::WouldBlock) => false,
            // The rest comes once more on the stream that stays.
            Ok(Transfer::Closed) | Err(_) if link.losing.is_some() => {
                self.end_losing(index);
                true
            }
            Ok(Transfer::Closed) => {
                self.close_link(index);
                true
            }
            Err(error) => {
                self.lose(index, &error);
                true
            }
        }
    }

    /// Gives a long frame what has been staged of it, and ends it when it is whole.
    pub(super) fn fill_body(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        let Some(body) = &mut link.body else { return };
        let taken = body.take(&self.inbox.staging[self.inbox.staged.clone()]);
        self.inbox.staged.start += taken;
        if body.is_whole()
            && !matches!(body.then, Then::Announced(_))
            && let Some(body) = link.body.take()
        {
            self.end_body(index, *body);
        }
    }

    fn end_body(&mut self, index: u32, body: Body) {
        match body.then {
            Then::Done(work) => self.notes.push_back(Note::Done(work, Ok(0))),
            Then::Receive(header) => {
                let bytes = if let Dest::Own(bytes) = body.to { bytes } else { Vec::new() };
                self.notes.push_back(Note::Kept(self.qp(index), header, bytes));
            }
            Then::Answered => self.answered(index, Ok(0)),
            Then::Written { id, number } => {
                self.memory.release(number);
                self.answer(index, Frame::Written { id });
            }
            Then::Denied { id } => self.answer(index, Frame::Refused { id, why: Refusal::Key }),
            Then::Announced(_) => unreachable!("its destination is asked for first"),
        }
    }

    /// Takes the next frame that has been staged.
    #[inline]
    fn take_staged(&mut self) -> Option<Found> {
        while !self.inbox.staged.is_empty() {
            let (index, staged) = (self.inbox.owner, self.inbox.staged.clone());
            let bytes = &self.inbox.staging[staged.clone()];
            let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
                self.stash();
                return None;
            };
            let Ok(frame) = Frame::parse(head) else {
                self.break_link(index, BreakReason::Nonsense("a frame that is none"));
                return None;
            };
            let there = bytes.len() - HEAD_BYTES;
            let start = staged.start + HEAD_BYTES;
            if let Frame::Data { header, len } = frame
                && len <= there
            {
                self.inbox.staged.start = start + len;
                return Some(Found::Message(index, header, start..start + len));
            }
            let streams = matches!(frame, Frame::Bytes { .. } | Frame::Write { .. });
            let long = streams || matches!(frame, Frame::Data { len, .. } if len > KEPT_MAX);
            if there < frame.follows() && !long {
                self.stash();
                return None;
            }
            self.inbox.staged.start = start;
            if let Some(found) = self.take_frame(index, frame) {
                return Some(found);
            }
        }
        None
    }

    /// Keeps the beginning of a frame for later.
    fn stash(&mut self) {
        let staged = std::mem::replace(&mut self.inbox.staged, 0..0);
        if let Some(link) = self.links.at_mut(self.inbox.owner) {
            let partial = self.inbox.staging[staged].to_vec();
            match &mut link.losing {
                Some(losing) => losing.keep(partial),
                None => link.partial = partial,
            }
        }
    }

    /// Deals with a frame whose head was taken; what follows it is staged, as a whole or, if it is long, in part.
    fn take_frame(&mut self, index: u32, frame: Frame) -> Option<Found> {
        let follows = frame.follows();
        match frame {
            Frame::Data { header, len } => {
                let body = Body { to: Dest::Unknown, got: 0, len, then: Then::Announced(header) };
                self.links.at_mut(index)?.body = Some(Box::new(body));
                self.inbox.announced = Some(index);
                return Some(Found::Incoming(index, header, len));
            }
            Frame::Control { .. } => {
                let bytes = self.take_bytes(follows).to_vec();
                return Some(Found::Note(Note::Control(bytes)));
            }
            Frame::Read { id, from, len } => self.serve_read(index, id, from, len),
            Frame::Write { id, to, len } => self.serve_write(index, id, to, len),
            Frame::Add { id, at } => {
                let by = word(self.take_bytes(follows));
                self.serve_atomic(index, id, at, |old| Some(old.wrapping_add(by)));
            }
            Frame::Swap { id, at } => {
                let bytes = self.take_bytes(follows);
                let (expected, new) = (word(bytes), word(&bytes[8..]));
                self.serve_atomic(index, id, at, |old| (old == expected).then_some(new));
            }
            Frame::Bytes { id, len } => self.take_answer(index, id, len),
            Frame::Written { id } => {
                self.match_answer(index, id, |what| matches!(what, Request::Write), Ok(0))
            }
            Frame::Old { id, value } => {
                self.match_answer(index, id, |what| matches!(what, Request::Atomic), Ok(value));
            }
            Frame::Refused { id, why } => {
                let why = if why == Refusal::Key { WorkError::Key } else { WorkError::Atomic };
                self.match_answer(index, id, |_| true, Err(why));
            }
            Frame::Frugal(on) => self.links.at_mut(index)?.peer_frugal = on,
            // Nothing was taken from the stream that the peer gives up.
            Frame::Crossed { .. } => {}
        }
        None
    }

    fn take_bytes(&mut self, bytes: usize) -> &[u8] {
        let start = self.inbox.staged.start;
        self.inbox.staged.start += bytes;
        &self.inbox.staging[start..start + bytes]
    }

    pub(super) fn begin_body(&mut self, index: u32, body: Body) {
        if let Some(link) = self.links.at_mut(index) {
            link.body = Some(Box::new(body));
            self.fill_body(index);
        }
    }

    pub(super) fn mark_dirty(&mut self, index: u32) {
        if let Some(link) = self.links.at_mut(index)
            && !std::mem::replace(&mut link.dirty, true)
        {
            self.dirty.push(index);
        }
    }

    /// Gives the message that was announced its destination. See [`crate::Context::place`].
    pub fn place(&mut self, qp: Qp, to: UserBufMut) -> Posted {
        let work = self.take_work();
        let index = qp.index() as u32;
        if !self.destine(qp, |body, _| {
            body.to = Dest::User(to.part(0, to.len().min(body.len)));
            body.then = Then::Done(work);
        }) {
            return Posted::Done;
        }
        self.fill_body(index);
        if self.links.at(index).is_some_and(|link| link.body.is_some()) {
            // Most often the rest has arrived meanwhile.
            self.read_body(index);
        }
        match self.notes.back() {
            Some(Note::Done(ended, Ok(0))) if *ended == work => {
                self.notes.pop_back();
                Posted::Done
            }
            _ => Posted::Later(work),
        }
    }

    /// Has the message that was announced collected. See [`crate::Context::keep`].
    pub fn keep(&mut self, qp: Qp) {
        self.inbox.announced = None;
        if self.destine(qp, |body, header| {
            body.to = Dest::Own(vec![0; body.len]);
            body.then = Then::Receive(header);
        }) {
            self.fill_body(qp.index() as u32);
        }
    }

    /// The caller has not said where the message goes that was announced.
    #[cold]
    fn collect(&mut self, index: u32) {
        self.keep(self.qp(index));
    }

    fn destine(&mut self, qp: Qp, set: impl FnOnce(&mut Body, [u64; 2])) -> bool {
        self.inbox.announced = None;
        let link = self.links.get_mut(qp.index(), qp.generation());
        let Some(body) = link.and_then(|link| link.body.as_mut()) else { return false };
        let Then::Announced(header) = body.then else { return false };
        set(body, header);
        true
    }

    /// The other end has closed, and everything before that was read.
    fn close_link(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        // Who has agreed to close leaves nothing half said: a process that is killed does.
        let is_whole = link.partial.is_empty() && link.body.is_none() && link.skip == 0;
        link.ended =
            is_whole && link.stream.as_ref().is_some_and(|stream| stream.has_ended().unwrap_or(false));
        match link.write_error.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => self.lose(index, &error),
            _ => self.break_link(index, BreakReason::Closed),
        }
    }

    /// The network gave a stream up.
    pub(super) fn lose(&mut self, index: u32, error: &io::Error) {
        let why = self.lost(index, error);
        self.break_link(index, why);
    }

    pub(super) fn lost(&self, index: u32, error: &io::Error) -> BreakReason {
        let to = self.links.at(index).map_or(SocketAddr::new(self.section.addr, 0), |link| link.to);
        BreakReason::Lost { from: self.from.clone(), to, why: error.to_string() }
    }
}

/// Bytes of the frame that begins with `partial`; its head alone if it is not to be had as a whole.
fn wanted(partial: &[u8]) -> usize {
    match partial.first_chunk::<HEAD_BYTES>().map(Frame::parse) {
        Some(Ok(frame)) => HEAD_BYTES + frame.follows(),
        _ => HEAD_BYTES,
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("as long as its frame says"))
}
