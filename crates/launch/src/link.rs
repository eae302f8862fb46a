//! One link of the tree: frames over a socket that never waits.
use proto::tree::{Frame, FrameError, Frames};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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

/// A link, registered with the poll set of its owner.
#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
    token: u64,
    frames: Frames,
    unsent: Vec<u8>,
    interest: Interest,
}

impl Link {
    /// Takes over one end of a socket pair.
    pub(crate) fn new(fd: OwnedFd, token: u64, poll: &Poll) -> io::Result<Self> {
        socket::set_nonblocking(fd.as_fd())?;
        poll.add(fd.as_fd(), token, Interest::Read)?;
        Ok(Link { fd, token, frames: Frames::default(), unsent: Vec::new(), interest: Interest::Read })
    }

    /// Queues a frame; [`Link::flush`] sends it.
    pub(crate) fn send(&mut self, frame: &Frame) {
        frame.emit(&mut self.unsent);
    }

    /// Has everything been sent?
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Sends what fits and waits for room for the rest. A link that is gone swallows everything: its loss
    /// is noticed by reading.
    pub(crate) fn flush(&mut self, poll: &Poll) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match socket::write(self.fd.as_fd(), &self.unsent[sent..])? {
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
        match socket::read(self.fd.as_fd(), &mut bytes)? {
            Transfer::Bytes(n) => self.frames.push(&bytes[..n]),
            Transfer::WouldBlock => {}
            Transfer::Closed => return Ok(LinkState::Closed),
        }
        Ok(LinkState::Open)
    }

    /// The next frame that has arrived.
    pub(crate) fn next_frame(&mut self) -> Option<Result<Frame, FrameError>> {
        self.frames.next_frame()
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
