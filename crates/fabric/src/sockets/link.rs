//! A queue pair and its stream.
use super::crossed::Losing;
use super::dial::Dial;
use super::out::Out;
use crate::qp::WorkId;
use crate::state::QpState;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use sys::UserBufMut;
use sys::poll::{Interest, Poll};
use sys::tcp::Stream;

/// A queue pair. Unused it is this struct and nothing else; buffers exist while something is in them.
#[derive(Debug)]
pub(super) struct Link {
    pub state: QpState,
    /// The peer's listener.
    pub to: SocketAddr,
    /// The peer's nonce.
    pub nonce: u64,
    pub stream: Option<Stream>,
    /// This side asks, and it is not settled which stream carries the connection.
    pub dial: Option<Box<Dial>>,
    /// The stream that the peer has dialled too, while this side's, which stays, is not settled.
    pub losing: Option<Box<Losing>>,
    /// Bytes of the stream that were taken from the losing one already.
    pub skip: u64,
    pub out: Out,
    /// When something was written last.
    pub written_ns: u64,
    /// Since when what was written is on its way, as far as is known.
    pub silent_since_ns: Option<u64>,
    /// The beginning of a frame that has not arrived whole.
    pub partial: Vec<u8>,
    /// The rest of a long frame, and where it goes.
    pub body: Option<Box<Body>>,
    /// Requests to the peer that are not answered, in order.
    pub asked: VecDeque<Asked>,
    pub next_id: u32,
    pub interest: Interest,
    /// Does the kernel watch the stream while it is idle?
    pub keeps_alive: bool,
    /// The other end has closed its stream in order, and not been cut off.
    pub ended: bool,
    /// Writing failed; what has arrived is still read.
    pub write_error: Option<io::Error>,
    /// Is it in the list of streams with something to write? With something that the kernel did not take?
    pub dirty: bool,
    pub blocked: bool,
    /// The peer waits for a reply, and holds back all else until it has come: nothing is written before it.
    pub owes_reply: bool,
    /// Does the peer ask for rendezvous instead of eager messages?
    pub peer_frugal: bool,
}

/// A request to the peer.
#[derive(Debug)]
pub(super) struct Asked {
    pub id: u32,
    pub what: Request,
    pub work: WorkId,
}

#[derive(Debug)]
pub(super) enum Request {
    Read(UserBufMut),
    Write,
    Atomic,
}

/// A long frame of which the head has been taken.
#[derive(Debug)]
pub(super) struct Body {
    pub to: Dest,
    /// Bytes that are there, of `len`.
    pub got: usize,
    pub len: usize,
    pub then: Then,
}

/// Where bytes of a body go. What is longer than its destination is dropped.
#[derive(Debug)]
pub(super) enum Dest {
    /// Not known yet.
    Unknown,
    User(UserBufMut),
    Own(Vec<u8>),
}

/// What follows when a body is whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// The caller was asked where the message of this header goes.
    Announced([u64; 2]),
    /// A receive is done.
    Done(WorkId),
    /// A message is delivered.
    Receive([u64; 2]),
    /// The oldest request is answered.
    Answered,
    /// A write into registered memory is answered.
    Written { id: u32, number: u32 },
    /// A write that may not be is answered.
    Denied { id: u32 },
}

impl Dest {
    fn len(&self) -> usize {
        match self {
            Dest::Unknown => 0,
            Dest::User(buf) => buf.len(),
            Dest::Own(bytes) => bytes.len(),
        }
    }
}

impl Body {
    /// Takes bytes that have arrived; how many of them belong to it.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let part = bytes.len().min(self.len - self.got);
        let kept = part.min(self.to.len().saturating_sub(self.got));
        match &mut self.to {
            Dest::User(buf) if kept > 0 => buf.part(self.got, kept).copy_from_slice(&bytes[..kept]),
            Dest::Own(own) if kept > 0 => own[self.got..][..kept].copy_from_slice(&bytes[..kept]),
            _ => {}
        }
        self.got += part;
        part
    }

    /// Room in the program's buffer for what comes next.
    pub fn room(&self) -> UserBufMut {
        match &self.to {
            Dest::User(buf) if self.got < buf.len() => buf.part(self.got, buf.len() - self.got),
            _ => UserBufMut::EMPTY,
        }
    }

    /// Room in its own buffer for what comes next.
    pub fn own_room(&mut self) -> Option<&mut [u8]> {
        match &mut self.to {
            Dest::Own(own) if self.got < own.len() => Some(&mut own[self.got..]),
            _ => None,
        }
    }

    pub fn is_whole(&self) -> bool {
        self.got == self.len
    }
}

impl Link {
    pub fn new(to: SocketAddr) -> Self {
        Link {
            state: QpState::Reset,
            to,
            nonce: 0,
            stream: None,
            dial: None,
            losing: None,
            skip: 0,
            out: Out::default(),
            written_ns: 0,
            silent_since_ns: None,
            partial: Vec::new(),
            body: None,
            asked: VecDeque::new(),
            next_id: 0,
            interest: Interest::Hangup,
            keeps_alive: false,
            ended: false,
            write_error: None,
            dirty: false,
            blocked: false,
            owes_reply: false,
            peer_frugal: false,
        }
    }

    /// May frames of any kind be read and written?
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.dial.is_none() && self.stream.is_some()
    }

    /// May its stream be written to?
    pub fn may_write(&self) -> bool {
        self.write_error.is_none() && !self.owes_reply
    }

    /// How long its host has acknowledged nothing, if bytes are on their way there. A dial has its own patience.
    pub fn silent_for(&self) -> Option<Duration> {
        let up = self.dial.as_ref().is_none_or(|dial| dial.is_up());
        self.stream.as_ref().filter(|_| up)?.unanswered().ok().flatten()
    }

    /// Bytes of memory that it has.
    pub fn memory_bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |body| match &body.to {
            Dest::Own(own) => size_of::<Body>() + own.capacity(),
            _ => size_of::<Body>(),
        });
        let dial = self.dial.as_ref().map_or(0, |dial| dial.memory_bytes());
        let losing = self.losing.as_ref().map_or(0, |losing| losing.memory_bytes());
        let asked = self.asked.capacity() * size_of::<Asked>();
        size_of::<Link>() + self.out.memory_bytes() + self.partial.capacity() + asked + body + dial + losing
    }

    /// Changes what the stream is watched for.
    pub fn watch(&mut self, poll: &Poll, token: u64, interest: Interest) {
        if self.interest != interest
            && let Some(stream) = &self.stream
        {
            // Fails only without memory in the kernel; the stream is then looked at when it is hot, and late when not.
            let changed = poll.change(stream.as_fd(), token, interest);
            if changed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                // It was not watched, because there was nothing to wait for.
                let _ = poll.add(stream.as_fd(), token, interest);
            }
            self.interest = interest;
        }
    }
}
