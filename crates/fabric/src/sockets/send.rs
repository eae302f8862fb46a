//! Sending: straight from the program's buffer into the kernel, together with what waits, or later.
//!
//! A write that fails breaks nothing by itself: what the peer sent before it closed is still to be read, and the
//! reader finds the end behind it. Only a buffer that the kernel cannot read breaks the connection here: the peer waits
//! for bytes that will never come, and its end is well.
use super::link::Link;
use super::out::{Lender, Out, Written};
use super::{Note, Sockets, Token};
use crate::provider::{PostError, Posted, Push};
use crate::qp::{Qp, WorkId};
use crate::state::QpState;
use proto::stream::{Frame, HEAD_BYTES, MESSAGE_MAX};
use std::io;
use std::os::fd::AsFd;
use sys::UserBuf;
use sys::poll::Interest;
use sys::socket::Transfer;
use sys::tcp::Stream;

/// Bytes that wait for each other, at most.
const SOON_MAX: usize = 16 << 10;
/// A send that comes later than this after the last write does not wait for others.
const FRESH_NS: u64 = 20_000;
/// Bytes of a stream's own behind which nothing more is copied.
const OWNED_MAX: usize = 64 << 10;
/// Messages that are copied behind their head to be written.
const SHORT_MAX: usize = 232;
/// How long a stream may take to write its last bytes when its queue pair is gone. All that the peer waits for has left before, but the
/// answer to its close, which the end of the stream replaces.
const LEAVE_NS: u64 = 10_000_000_000;

/// A stream whose queue pair is gone, and which has something left to write.
#[derive(Debug)]
pub(super) struct Leaving {
    stream: Stream,
    out: Out,
    until_ns: u64,
}

impl Sockets {
    /// Sends a message. See [`crate::Context::post_send`].
    #[inline]
    pub fn post_send(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: UserBuf,
        push: Push,
    ) -> Result<Posted, PostError> {
        let link = self.links.get_mut(qp.index(), qp.generation()).ok_or(PostError::Stale)?;
        let (index, len) = (qp.index() as u32, payload.len());
        if link.state != QpState::ReadyToSend || link.dial.is_some() || len > MESSAGE_MAX {
            return self.post_other(qp, header, payload, push);
        }
        let head = Frame::Data { header, len }.emit();
        if push == Push::Now || HEAD_BYTES + len > SOON_MAX {
            return Ok(self.post_now(index, &head, payload));
        }
        let fresh = self.clock.now_ns().wrapping_sub(link.written_ns) < FRESH_NS;
        if !fresh || link.out.owned() + HEAD_BYTES + len > SOON_MAX {
            return self.post_soon(index, &head, payload);
        }
        link.out.push(&head, &mut self.spare);
        link.out.push_copy(payload, &mut self.spare);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(index);
        }
        Ok(Posted::Done)
    }

    /// As [`Sockets::post_send`], from ordinary memory, which is copied. With [`Push::Now`] it is done only when it is
    /// in the kernel: the caller may compute from then on, and nobody else would see to the rest.
    pub fn post_send_bytes(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: &[u8],
        push: Push,
    ) -> Result<Posted, PostError> {
        let link = self.links.get_mut(qp.index(), qp.generation()).ok_or(PostError::Stale)?;
        let (index, len) = (qp.index() as u32, payload.len());
        if len > MESSAGE_MAX {
            return Err(PostError::TooLong { bytes: len, max: MESSAGE_MAX });
        }
        let head = Frame::Data { header, len }.emit();
        if link.state != QpState::ReadyToSend || link.dial.is_some() {
            self.check_early(qp, len)?;
            self.push_early(index, &[&head, payload]);
            return self.done_in_kernel(index, push);
        }
        if !link.out.is_empty() && link.out.owned() + HEAD_BYTES + len > OWNED_MAX {
            return Err(PostError::Full);
        }
        link.out.push(&head, &mut self.spare);
        link.out.push(payload, &mut self.spare);
        self.write_out(index);
        self.done_in_kernel(index, push)
    }

    /// How far something is that was copied.
    fn done_in_kernel(&mut self, index: u32, push: Push) -> Result<Posted, PostError> {
        let link = self.links.at(index).ok_or(PostError::Stale)?;
        let up = link.dial.as_ref().is_none_or(|dial| dial.is_up());
        if push == Push::Soon || (up && link.out.is_empty()) {
            return Ok(Posted::Done);
        }
        let work = self.take_work();
        let link = self.links.at_mut(index).ok_or(PostError::Stale)?;
        link.out.push_lent(UserBuf::EMPTY, Lender::Work(work));
        Ok(Posted::Later(work))
    }

    /// Not ready, not settled, or too long.
    #[cold]
    fn post_other(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: UserBuf,
        push: Push,
    ) -> Result<Posted, PostError> {
        let len = payload.len();
        if len > MESSAGE_MAX {
            return Err(PostError::TooLong { bytes: len, max: MESSAGE_MAX });
        }
        self.check_early(qp, len)?;
        let mut bytes = vec![0; len];
        payload.copy_to(&mut bytes);
        self.push_early(qp.index() as u32, &[&Frame::Data { header, len }.emit(), &bytes]);
        self.done_in_kernel(qp.index() as u32, push)
    }

    /// May a message of this length be posted before the connection is settled?
    fn check_early(&self, qp: Qp, len: usize) -> Result<(), PostError> {
        let link = self.links.get(qp.index(), qp.generation()).ok_or(PostError::Stale)?;
        let refused = PostError::State { qp: qp.index() as u32, state: link.state };
        let dial = link.dial.as_ref().ok_or(refused)?;
        if link.state != QpState::Init && link.state != QpState::ReadyToSend {
            return Err(refused);
        }
        let fits = dial.early.len() + HEAD_BYTES + len <= super::dial::EARLY_MAX;
        if fits { Ok(()) } else { Err(PostError::Full) }
    }

    /// A send whose caller waits: all that waits leaves with it, in one call.
    fn post_now(&mut self, index: u32, head: &[u8; HEAD_BYTES], payload: UserBuf) -> Posted {
        let work = self.take_work();
        let Some(link) = self.links.at_mut(index) else { return Posted::Done };
        if link.out.is_empty() {
            let sent = write_frame(link, head, payload);
            link.written_ns = self.clock.now_ns();
            self.silence_due_ns.get_or_insert(link.written_ns + self.silence_turn_ns);
            if sent == HEAD_BYTES + payload.len() {
                return Posted::Done;
            }
            link.out.push(&head[sent.min(HEAD_BYTES)..], &mut self.spare);
            let sent = sent.saturating_sub(HEAD_BYTES);
            link.out.push_lent(payload.part(sent, payload.len() - sent), Lender::Work(work));
            self.block(index);
            return Posted::Later(work);
        }
        link.out.push(head, &mut self.spare);
        link.out.push_lent(payload, Lender::Work(work));
        if self.write_out(index) == Some(Written::All) {
            // It was the last in the queue, so that its end is the last note.
            let last = self.notes.pop_back();
            debug_assert!(matches!(last, Some(Note::Done(ended, Ok(0))) if ended == work));
            return Posted::Done;
        }
        Posted::Later(work)
    }

    /// A send that need not leave at once, but does: the last write was long ago, or enough of them wait.
    fn post_soon(
        &mut self,
        index: u32,
        head: &[u8; HEAD_BYTES],
        payload: UserBuf,
    ) -> Result<Posted, PostError> {
        let bytes = HEAD_BYTES + payload.len();
        if self.links.at(index).is_some_and(|link| link.out.owned() + bytes > SOON_MAX) {
            self.write_out(index);
        }
        let Some(link) = self.links.at_mut(index) else { return Err(PostError::Stale) };
        if link.out.owned() + bytes > OWNED_MAX {
            return Err(PostError::Full);
        }
        let sent = if link.out.is_empty() { write_frame(link, head, payload) } else { 0 };
        if sent == bytes {
            link.written_ns = self.clock.now_ns();
            self.silence_due_ns.get_or_insert(link.written_ns + self.silence_turn_ns);
            return Ok(Posted::Done);
        }
        link.out.push(&head[sent.min(HEAD_BYTES)..], &mut self.spare);
        let sent = sent.saturating_sub(HEAD_BYTES);
        link.out.push_copy(payload.part(sent, payload.len() - sent), &mut self.spare);
        self.write_out(index);
        Ok(Posted::Done)
    }

    /// Has what was posted with [`Push::Soon`] leave now, and says what must wake a sleeper for the rest to leave.
    #[inline]
    pub fn flush(&mut self) {
        if !self.dirty.is_empty() {
            self.write_dirty();
        }
        if !self.blocked.is_empty() {
            self.retry_blocked();
            self.watch_blocked();
        }
    }

    /// Writes what waits.
    pub(super) fn write_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            if let Some(link) = self.links.at_mut(index)
                && std::mem::take(&mut link.dirty)
            {
                self.write_out(index);
            }
        }
        self.dirty = dirty;
    }

    /// Writes what the kernel did not take before.
    pub(super) fn retry_blocked(&mut self) {
        let mut blocked = std::mem::take(&mut self.blocked);
        blocked.retain(|index| {
            let blocked = self.links.at(*index).is_some_and(|link| link.blocked)
                && self.write_out(*index) == Some(Written::Blocked);
            if let Some(link) = self.links.at_mut(*index) {
                link.blocked = blocked;
            }
            blocked
        });
        blocked.append(&mut self.blocked);
        self.blocked = blocked;
    }

    fn watch_blocked(&mut self) {
        for at in 0..self.blocked.len() {
            let token = self.link_token(self.blocked[at]);
            let Some(link) = self.links.at_mut(self.blocked[at]) else { continue };
            match link.interest {
                Interest::Read => link.watch(&self.poll, token, Interest::ReadWrite),
                Interest::Hangup => link.watch(&self.poll, token, Interest::Write),
                Interest::Write | Interest::ReadWrite => {}
            }
        }
    }

    /// Marks a stream as one that has something the kernel did not take.
    fn block(&mut self, index: u32) {
        if let Some(link) = self.links.at_mut(index)
            && !std::mem::replace(&mut link.blocked, true)
        {
            self.blocked.push(index);
        }
    }

    /// Writes what a stream has. `None`: it cannot be written to, for now or for ever.
    pub(super) fn write_out(&mut self, index: u32) -> Option<Written> {
        let token = self.link_token(index);
        let link = self.links.at_mut(index)?;
        let up = link.dial.as_ref().is_none_or(|dial| dial.is_up()) && link.may_write();
        let stream = link.stream.as_ref().filter(|_| up)?;
        let (notes, memory) = (&mut self.notes, &mut self.memory);
        let written = link.out.write(stream, &mut self.spare, |lender| match lender {
            Lender::Work(work) => notes.push_back(Note::Done(work, Ok(0))),
            Lender::Request => {}
            Lender::Memory(number) => memory.release(number),
        });
        link.written_ns = self.clock.now_ns();
        self.silence_due_ns.get_or_insert(link.written_ns + self.silence_turn_ns);
        match written {
            Ok(Written::All) => {
                link.blocked = false;
                match link.interest {
                    Interest::ReadWrite => link.watch(&self.poll, token, Interest::Read),
                    Interest::Write => link.watch(&self.poll, token, Interest::Hangup),
                    Interest::Read | Interest::Hangup => {}
                }
                Some(Written::All)
            }
            Ok(Written::Blocked) => {
                self.block(index);
                Some(Written::Blocked)
            }
            Ok(Written::Closed) => {
                link.write_error = Some(io::ErrorKind::BrokenPipe.into());
                None
            }
            Err(error) if is_of_the_buffer(&error) => {
                let why = format!("a buffer to be sent cannot be read: {error}");
                self.lose(index, &io::Error::other(why));
                None
            }
            Err(error) => {
                link.write_error = Some(error);
                None
            }
        }
    }

    /// The queue pair of a stream is gone. What was written is not lost: the stream is closed by a reset only when the
    /// other host has everything, so that no port stays occupied.
    pub(super) fn leave(&mut self, stream: Stream, mut out: Out) {
        if let Ok(Written::Blocked) = out.write(&stream, &mut self.spare, |_| {}) {
            let until_ns = self.clock.now_ns() + LEAVE_NS;
            let (index, generation) = self.leaving.insert(Leaving { stream, out, until_ns });
            let token = Token::Leaving { index, generation }.pack();
            if let Some(leaving) = self.leaving.at(index) {
                let _ = self.poll.change(leaving.stream.as_fd(), token, Interest::Write);
            }
            return;
        }
        self.close(stream);
    }

    fn close(&mut self, stream: Stream) {
        let _ = self.poll.remove(stream.as_fd());
        if stream.unsent_bytes().is_ok_and(|bytes| bytes == 0) {
            stream.close_hard();
        }
    }

    /// There is room for the last bytes of a stream.
    pub(super) fn leaving_stirs(&mut self, index: u32, generation: u32) {
        let Some(leaving) = self.leaving.get_mut(index as usize, generation) else { return };
        let written = leaving.out.write(&leaving.stream, &mut self.spare, |_| {});
        if !matches!(written, Ok(Written::Blocked)) {
            self.end_leaving(index);
        }
    }

    fn end_leaving(&mut self, index: u32) {
        if let Some(leaving) = self.leaving.remove(index) {
            self.close(leaving.stream);
            self.accept_again();
        }
    }

    pub(super) fn tick_leaving(&mut self, now_ns: u64) {
        let late = self.leaving.iter().filter(|(_, leaving)| leaving.until_ns <= now_ns);
        for index in late.map(|(index, _)| index).collect::<Vec<_>>() {
            self.end_leaving(index);
        }
    }

    pub(super) fn leaving_due_ns(&self) -> Option<u64> {
        self.leaving.iter().map(|(_, leaving)| leaving.until_ns).min()
    }

    /// A number for work that is not done yet.
    #[inline]
    pub(super) fn take_work(&mut self) -> WorkId {
        self.works.take()
    }
}

/// Writes a frame before which nothing waits; the bytes that the kernel took.
fn write_frame(link: &mut Link, head: &[u8; HEAD_BYTES], payload: UserBuf) -> usize {
    let Some(stream) = link.stream.as_ref().filter(|_| link.may_write()) else { return 0 };
    let written = if payload.len() <= SHORT_MAX {
        // One piece of memory is cheaper for the kernel than two.
        let (mut bytes, len) = ([0; HEAD_BYTES + SHORT_MAX], HEAD_BYTES + payload.len());
        bytes[..HEAD_BYTES].copy_from_slice(head);
        payload.copy_to(&mut bytes[HEAD_BYTES..len]);
        stream.write(&bytes[..len])
    } else {
        stream.write_parts(head, payload)
    };
    match written {
        Ok(Transfer::Bytes(bytes)) => return bytes,
        Ok(Transfer::WouldBlock) => {}
        Ok(Transfer::Closed) => link.write_error = Some(io::ErrorKind::BrokenPipe.into()),
        // The caller queues it, and the next write of the queue breaks the connection.
        Err(error) if is_of_the_buffer(&error) => {}
        Err(error) => link.write_error = Some(error),
    }
    0
}

/// Is it that the kernel cannot read what it is given? Nothing of that reaches the reader of the stream.
fn is_of_the_buffer(error: &io::Error) -> bool {
    const EFAULT: i32 = 14;
    const EINVAL: i32 = 22;
    matches!(error.raw_os_error(), Some(EFAULT | EINVAL))
}
