//! The way to the agent above, and what comes over it before anything else.
use super::token::Token;
use crate::describe::{Parts, read_tree};
use crate::job::{Tree, random_words};
use crate::link::{Link, LinkState};
use proto::seal::Seal;
use proto::tree::Frame;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use sys::poll::Poll;

/// How long an agent of another host waits for the description of the tree.
const SETUP_PATIENCE: Duration = Duration::from_secs(30);

/// The way to the agent above.
pub(crate) enum Uplink {
    /// A socket pair.
    Plain(OwnedFd),
    /// A connection to another host.
    Sealed(OwnedFd, Seal),
}

impl Uplink {
    pub(super) fn as_raw_fd(&self) -> RawFd {
        match self {
            Uplink::Plain(fd) | Uplink::Sealed(fd, _) => fd.as_raw_fd(),
        }
    }

    /// The address of this host at which its link to another one ends.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Uplink::Plain(_) => None,
            Uplink::Sealed(fd, _) => TcpStream::from(fd.try_clone().ok()?).local_addr().ok(),
        }
    }

    pub(super) fn open(self, poll: &Poll) -> io::Result<Link> {
        match self {
            Uplink::Plain(fd) => Link::new(fd, Token::Uplink.pack(), poll),
            Uplink::Sealed(fd, seal) => Link::sealed(fd, Token::Uplink.pack(), poll, seal),
        }
    }
}

/// Waits for the description of the tree. Whatever comes behind it stays in the link.
pub(super) fn await_tree(uplink: &mut Link, poll: &Poll) -> io::Result<Tree> {
    let deadline = Instant::now() + SETUP_PATIENCE;
    let mut parts = Parts::default();
    let mut ready = Vec::new();
    uplink.flush(poll)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u32;
        if left == 0 {
            return Err(io::Error::other("the agent above did not say what the job is"));
        }
        poll.wait(Some(left), &mut ready)?;
        if uplink.fill()? == LinkState::Closed {
            return Err(io::Error::other("the agent above is gone before the job began"));
        }
        while let Some(frame) = uplink.next_frame() {
            let Frame::Setup { rest, bytes } = frame.map_err(io::Error::other)? else {
                return Err(io::Error::other(
                    "the agent above did not begin with the description of the tree",
                ));
            };
            if let Some(whole) = parts.push(rest, &bytes).map_err(io::Error::other)? {
                let tree = read_tree(&whole).map_err(io::Error::other)?;
                // Nothing on this host is shared with ranks of another.
                return Ok(Tree { host: random_words()?, ..tree });
            }
        }
    }
}
