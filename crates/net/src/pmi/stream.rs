//! Whole messages over a stream that may or may not wait by itself.
use proto::pmi::Lines;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

/// Read at once.
const CHUNK_BYTES: usize = 4096;
/// Chunks that one look for the end of the stream reads.
const UNASKED_CHUNKS_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Stream {
    fd: OwnedFd,
    /// Waits until `fd` can be read.
    readable: Poll,
    lines: Lines,
    /// The end of the stream was read.
    ended: bool,
}

#[derive(Debug)]
pub(super) enum StreamError {
    /// The other end is gone.
    Closed,
    Io(io::Error),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        StreamError::Io(error)
    }
}

impl Stream {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let readable = waiter(fd.as_fd(), Interest::Read)?;
        Ok(Self { fd, readable, lines: Lines::default(), ended: false })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends all bytes.
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            match socket::write(self.fd.as_fd(), bytes)? {
                Transfer::Bytes(sent) => bytes = &bytes[sent..],
                // Requests are small, so this is rare and the waiter is made for the occasion.
                Transfer::WouldBlock => {
                    waiter(self.fd.as_fd(), Interest::Write)?.wait(None, &mut Vec::new())?;
                }
                Transfer::Closed => return Err(StreamError::Closed),
            }
        }
        Ok(())
    }

    /// Waits for the next message.
    pub(super) fn receive(&mut self) -> Result<Vec<u8>, StreamError> {
        loop {
            if let Some(message) = self.lines.next_message() {
                return Ok(message.to_vec());
            }
            match self.fill()? {
                Transfer::Bytes(_) => {}
                Transfer::WouldBlock => self.readable.wait(None, &mut Vec::new())?,
                Transfer::Closed => return Err(StreamError::Closed),
            }
        }
    }

    /// Waits for the next message until so many milliseconds pass without a byte.
    pub(super) fn receive_within(&mut self, timeout_ms: u32) -> Result<Option<Vec<u8>>, StreamError> {
        loop {
            if let Some(message) = self.lines.next_message() {
                return Ok(Some(message.to_vec()));
            }
            let mut ready = Vec::new();
            self.readable.wait(Some(timeout_ms), &mut ready)?;
            if ready.is_empty() {
                return Ok(None);
            }
            if self.fill()? == Transfer::Closed {
                return Err(StreamError::Closed);
            }
        }
    }

    /// Has the other end gone? Never waits.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut ready = Vec::new();
        // The bound: bytes that nobody asked for are taken in, but not for ever.
        for _ in 0..UNASKED_CHUNKS_MAX {
            ready.clear();
            if self.ended || self.readable.wait(Some(0), &mut ready).is_err() || ready.is_empty() {
                break;
            }
            self.ended |= self.fill().is_err();
        }
        self.ended
    }

    fn fill(&mut self) -> Result<Transfer, StreamError> {
        if self.ended {
            return Ok(Transfer::Closed);
        }
        let mut chunk = [0; CHUNK_BYTES];
        let transfer = socket::read(self.fd.as_fd(), &mut chunk)?;
        match transfer {
            Transfer::Bytes(read) => self.lines.push(&chunk[..read]).map_err(io::Error::other)?,
            Transfer::Closed => self.ended = true,
            Transfer::WouldBlock => {}
        }
        Ok(transfer)
    }
}

fn waiter(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(fd, 0, interest)?;
    Ok(poll)
}
