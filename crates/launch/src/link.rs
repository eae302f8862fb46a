//! One link of the tree: frames over a socket that never waits.
//!
//! Links between processes of one host are socket pairs that nobody else can reach and go in the clear. A link to
//! another host is sealed ([`proto::seal`]): each of its frames is checked before it is parsed.
use crate::heartbeat::Pulse;
use proto::seal::{LinkError, Seal};
use proto::tree::{Frame, Frames};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// What reading a link gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// The other end is there.
    Open,
    /// The other end is gone.
    Closed,
}

/// How frames stand in the stream.
#[derive(Debug)]
enum Wire {
    Plain(Frames),
    Sealed(Box<Seal>),
}

/// A link, registered with the poll set of its owner.
#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
    token: u64,
    wire: Wire,
    unsent: Vec<u8>,
    interest: Interest,
    loss: Option<io::Error>,
    pulse: Pulse,
}

impl Link {
    /// Takes over one end of a socket pair.
    pub(crate) fn new(fd: OwnedFd, token: u64, poll: &Poll) -> io::Result<Self> {
        Self::register(fd, token, poll, Wire::Plain(Frames::default()))
    }

    /// Takes over a connection whose ends have proven themselves.
    pub(crate) fn sealed(fd: OwnedFd, token: u64, poll: &Poll, seal: Seal) -> io::Result<Self> {
        Self::register(fd, token, poll, Wire::Sealed(Box::new(seal)))
    }

    fn register(fd: OwnedFd, token: u64, poll: &Poll, wire: Wire) -> io::Result<Self> {
        socket::set_nonblocking(fd.as_fd())?;
        poll.add(fd.as_fd(), token, Interest::Read)?;
        Ok(Link {
            fd,
            token,
            wire,
            unsent: Vec::new(),
            interest: Interest::Read,
            loss: None,
            pulse: Pulse::new(Instant::now()),
        })
    }

    /// Queues a frame; [`Link::flush`] sends it.
    pub(crate) fn send(&mut self, frame: &Frame) {
        match &mut self.wire {
            Wire::Plain(_) => frame.emit(&mut self.unsent),
            Wire::Sealed(seal) => seal.emit(frame, &mut self.unsent),
        }
    }

    /// Has everything been sent?
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Says that this end lives, unless there is more to say already.
    pub(crate) fn beat(&mut self) {
        if self.is_flushed() {
            self.send(&Frame::Beat);
        }
    }

    /// What is known of the other end's life.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// A beat of this end has passed.
    pub(crate) fn age(&mut self) {
        self.pulse.age();
    }

    /// The other end's silence so far does not count.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.pulse.forgive(now);
    }

    /// Sends what fits and waits for room for the rest. A link that is gone swallows everything: its loss
    /// is noticed by reading.
    pub(crate) fn flush(&mut self, poll: &Poll) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            let written = socket::write(self.fd.as_fd(), &self.unsent[sent..]);
            match self.or_lost(written)? {
                Transfer::Bytes(n) => sent += n,
                Transfer::WouldBlock => break,
                Transfer::Closed => sent = self.unsent.len(),
            }
        }
        self.unsent.drain(..sent);
        let wanted = if self.unsent.is_empty() { Interest::Read } else { Interest::ReadWrite };
        if wanted != self.interest {
            poll.change(self.fd.as_fd(), self.token, wanted)?;
            self.interest = wanted;
        }
        Ok(())
    }

    /// Reads what is there. Take the frames with [`Link::next_frame`] afterwards.
    pub(crate) fn fill(&mut self) -> io::Result<LinkState> {
        let mut bytes = [0; READ_BYTES];
        let read = socket::read(self.fd.as_fd(), &mut bytes);
        match self.or_lost(read)? {
            Transfer::Bytes(n) => {
                self.pulse.hear(Instant::now());
                match &mut self.wire {
                    Wire::Plain(frames) => frames.push(&bytes[..n]),
                    Wire::Sealed(seal) => seal.push(&bytes[..n]),
                }
            }
            Transfer::WouldBlock => {}
            Transfer::Closed => return Ok(LinkState::Closed),
        }
        Ok(LinkState::Open)
    }

    /// The next frame that has arrived. After an error the link is of no use: close it.
    pub(crate) fn next_frame(&mut self) -> Option<Result<Frame, LinkError>> {
        match &mut self.wire {
            Wire::Plain(frames) => frames.next_frame().map(|frame| frame.map_err(LinkError::Frame)),
            Wire::Sealed(seal) => seal.next_frame(),
        }
    }

    /// What the network said when it lost the other end; nothing if that just closed the link.
    pub(crate) fn loss(&self) -> Option<&io::Error> {
        self.loss.as_ref()
    }

    /// A host that cannot be reached is an end that is gone, and the reason is kept. (The kernel tells it only once.)
    fn or_lost(&mut self, result: io::Result<Transfer>) -> io::Result<Transfer> {
        use io::ErrorKind::{ConnectionAborted, HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
        match result {
            Err(error)
                if matches!(
                    error.kind(),
                    ConnectionAborted | HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut
                ) =>
            {
                self.loss = Some(error);
                Ok(Transfer::Closed)
            }
            result => result,
        }
    }

    /// Ends the link.
    pub(crate) fn close(self, poll: &Poll) {
        let _ = poll.remove(self.fd.as_fd());
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
