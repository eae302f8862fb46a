//! One connection of the PMGR service: bytes in, shared pieces out, never waiting.
use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

const READ_BYTES: usize = 64 << 10;

pub(super) struct Connection {
    stream: TcpStream,
    token: u64,
    interest: Interest,
    unsent: VecDeque<Arc<[u8]>>,
    /// Bytes of the first piece that have gone.
    sent: usize,
    closing: bool,
    buffer: Vec<u8>,
}

/// What came of using it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow<'b> {
    Bytes(&'b [u8]),
    Nothing,
    /// It is over.
    Ended,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, token: u64, poll: &Poll) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        poll.add(stream.as_fd(), token, Interest::Read)?;
        Ok(Connection {
            stream,
            token,
            interest: Interest::Read,
            unsent: VecDeque::new(),
            sent: 0,
            closing: false,
            buffer: Vec::new(),
        })
    }

    pub(super) fn read(&mut self) -> Flow<'_> {
        self.buffer.resize(READ_BYTES, 0);
        match socket::read(self.stream.as_fd(), &mut self.buffer) {
            Ok(Transfer::Bytes(n)) => Flow::Bytes(&self.buffer[..n]),
            Ok(Transfer::WouldBlock) => {
                self.buffer = Vec::new(); // most connections are idle most of the time
                Flow::Nothing
            }
            Ok(Transfer::Closed) | Err(_) => Flow::Ended,
        }
    }

    pub(super) fn send(&mut self, bytes: Arc<[u8]>) {
        self.unsent.push_back(bytes);
    }

    pub(super) fn close_when_sent(&mut self) {
        self.closing = true;
    }

    /// Nothing is read until the server wants more.
    pub(super) fn pause(&mut self, poll: &Poll) {
        self.set_interest(false, poll);
    }

    /// Sends what fits.
    pub(super) fn flush(&mut self, wants_more: bool, poll: &Poll) -> Flow<'static> {
        while let Some(piece) = self.unsent.front() {
            match socket::write(self.stream.as_fd(), &piece[self.sent..]) {
                Ok(Transfer::Bytes(n)) => self.sent += n,
                Ok(Transfer::WouldBlock) => break,
                Ok(Transfer::Closed) | Err(_) => return Flow::Ended,
            }
            if self.sent == piece.len() {
                self.unsent.pop_front();
                self.sent = 0;
            }
        }
        if self.closing && self.unsent.is_empty() {
            return Flow::Ended;
        }
        self.set_interest(wants_more, poll);
        Flow::Nothing
    }

    fn set_interest(&mut self, wants_more: bool, poll: &Poll) {
        let wanted = match (wants_more, self.unsent.is_empty()) {
            (true, true) => Interest::Read,
            (true, false) => Interest::ReadWrite,
            (false, false) => Interest::Write,
            (false, true) => Interest::Hangup,
        };
        if wanted != self.interest && poll.change(self.stream.as_fd(), self.token, wanted).is_ok() {
            self.interest = wanted;
        }
    }

    pub(super) fn close(self, poll: &Poll) {
        let _ = poll.remove(self.stream.as_fd());
    }
}
