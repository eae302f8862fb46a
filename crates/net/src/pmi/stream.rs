//! Whole messages over a stream that may or may not wait by itself. They are lines of PMI-1, also where the server
//! speaks PMI-2.
use super::two::Interpreter;
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
    speech: Speech,
    /// The end of the stream was read.
    ended: bool,
    /// Bytes came while it was looked for the end, and were not looked at since.
    unheard: bool,
}

/// What the server speaks.
#[derive(Debug)]
enum Speech {
    One(Lines),
    Two(Interpreter),
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
        Ok(Self { fd, readable, speech: Speech::One(Lines::default()), ended: false, unheard: false })
    }

    /// From now on the server speaks PMI-2; `first` is the first frame.
    pub(super) fn interpret(&mut self, interpreter: Interpreter, first: &[u8]) -> Result<(), StreamError> {
        if let Speech::One(lines) = &self.speech
            && lines.has_partial()
        {
            return Err(io::Error::other("the server speaks before it is asked").into());
        }
        self.speech = Speech::Two(interpreter);
        self.write(first)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends a message.
    pub(super) fn send(&mut self, line: &[u8]) -> Result<(), StreamError> {
        match &mut self.speech {
            Speech::One(_) => self.write(line),
            Speech::Two(interpreter) => {
                let frame = interpreter.say(line)?;
                self.write(&frame)
            }
        }
    }

    /// Sends all bytes.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
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
            if let Some(message) = self.next_message()? {
                return Ok(message);
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
            if let Some(message) = self.next_message()? {
                return Ok(Some(message));
            }
            match self.fill_now()? {
                Transfer::Bytes(_) => continue,
                Transfer::Closed => return Err(StreamError::Closed),
                Transfer::WouldBlock if timeout_ms == 0 => return Ok(None),
                Transfer::WouldBlock => {}
            }
            if !self.is_readable(timeout_ms)? {
                return Ok(None);
            }
        }
    }

    /// Is there something to read, now or within so many milliseconds?
    fn is_readable(&self, timeout_ms: u32) -> io::Result<bool> {
        let mut ready = Vec::new();
        self.readable.wait(Some(timeout_ms), &mut ready)?;
        Ok(!ready.is_empty())
    }

    /// Has the other end gone? Never waits.
    pub(super) fn is_closed(&mut self) -> bool {
        // The bound: bytes that nobody asked for are taken in, but not for ever.
        for _ in 0..UNASKED_CHUNKS_MAX {
            match self.fill_now() {
                Ok(Transfer::Bytes(_)) => self.unheard = true,
                Ok(Transfer::WouldBlock) => break,
                Ok(Transfer::Closed) | Err(_) => {
                    self.ended = true;
                    break;
                }
            }
        }
        self.ended
    }

    /// Did bytes come that were not looked at? The descriptor does not tell: they were read.
    pub(super) fn has_unheard(&self) -> bool {
        self.unheard
    }

    fn next_message(&mut self) -> Result<Option<Vec<u8>>, StreamError> {
        self.unheard = false;
        match &mut self.speech {
            Speech::One(lines) => Ok(lines.next_message().map(<[u8]>::to_vec)),
            Speech::Two(interpreter) => Ok(interpreter.next_line()?),
        }
    }

    /// Takes in what comes next. May wait for it, if the descriptor does.
    fn fill(&mut self) -> Result<Transfer, StreamError> {
        if self.ended {
            return Ok(Transfer::Closed);
        }
        let mut chunk = [0; CHUNK_BYTES];
        let transfer = socket::read(self.fd.as_fd(), &mut chunk)?;
        self.take_in(transfer, &chunk)
    }

    /// Takes in what is there. One call of the system where the descriptor is a socket, as nearly all are.
    fn fill_now(&mut self) -> Result<Transfer, StreamError> {
        if self.ended {
            return Ok(Transfer::Closed);
        }
        let mut chunk = [0; CHUNK_BYTES];
        let transfer = match socket::read_now(self.fd.as_fd(), &mut chunk)? {
            Some(transfer) => transfer,
            None if self.is_readable(0)? => socket::read(self.fd.as_fd(), &mut chunk)?,
            None => Transfer::WouldBlock,
        };
        self.take_in(transfer, &chunk)
    }

    fn take_in(&mut self, transfer: Transfer, chunk: &[u8; CHUNK_BYTES]) -> Result<Transfer, StreamError> {
        match transfer {
            Transfer::Bytes(read) => match &mut self.speech {
                Speech::One(lines) => lines.push(&chunk[..read]).map_err(io::Error::other)?,
                Speech::Two(interpreter) => interpreter.hear(&chunk[..read])?,
            },
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
