//! What one rank (0 unless another is chosen) reads: the launcher's standard input.
//!
//! A file or pipe is simply inherited. A terminal is not: the rank is in a process group of its own, and reading
//! the terminal from the background would stop it. Then the launcher copies.
use crate::job::{Group, Spread};
use crate::launcher::{TOKEN_STDIN, TOKEN_STDIN_PIPE};
use crate::spec::StdinTo;
use proto::ids::NodeId;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, FileKind, Transfer};

const PIECE_BYTES: usize = 4096;

/// Copies the terminal to a pipe.
#[derive(Debug)]
pub(crate) struct StdinRelay {
    terminal: OwnedFd,
    pipe: OwnedFd,
    unwritten: Vec<u8>,
    waits: Waits,
}

/// What the relay waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    Input,
    Room,
}

/// Is there more to copy?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relayed {
    GoesOn,
    Over,
}

impl Relayed {
    pub(crate) fn is_over(self) -> bool {
        self == Relayed::Over
    }
}

/// How the launcher's standard input gets to who reads it.
#[derive(Debug)]
pub(crate) enum Stdin {
    /// Not at all.
    Nothing,
    /// The readers get this descriptor. A relay writes to its other end, if there is one.
    Descriptor(OwnedFd, Option<StdinRelay>),
    /// It is read here and sent over the tree.
    Feed(OwnedFd),
}

impl Stdin {
    /// What suits the readers of a job, who may be on other hosts.
    pub(crate) fn for_job(group: &Group, spread: Spread) -> io::Result<Self> {
        let Ok(own) = socket::duplicate(io::stdin().as_fd()) else { return Ok(Stdin::Nothing) };
        let kind = socket::file_kind(own.as_fd());
        if group.stdin == StdinTo::Nobody
            || (kind == FileKind::Terminal && !socket::in_foreground(own.as_fd()))
        {
            return Ok(Stdin::Nothing); // reading a terminal from the background would stop this process
        }
        let is_here = spread == Spread::OneHost || group.stdin_node() == Some(NodeId(0));
        Ok(match group.stdin {
            StdinTo::All if kind == FileKind::Plain && spread == Spread::OneHost => {
                Stdin::Descriptor(own, None)
            }
            StdinTo::All => Stdin::Feed(own),
            _ if is_here => {
                let (fd, relay) = stdin_of_launcher()?;
                fd.map_or(Stdin::Nothing, |fd| Stdin::Descriptor(fd, relay))
            }
            _ => Stdin::Feed(own),
        })
    }
}

/// The descriptor for the rank that reads (`None` is /dev/null), and the relay if one is needed.
fn stdin_of_launcher() -> io::Result<(Option<OwnedFd>, Option<StdinRelay>)> {
    let Ok(own) = socket::duplicate(io::stdin().as_fd()) else { return Ok((None, None)) };
    if socket::file_kind(own.as_fd()) != FileKind::Terminal {
        return Ok((Some(own), None));
    }
    let (read, write) = socket::pipe()?;
    socket::set_nonblocking(write.as_fd())?;
    let relay = StdinRelay { terminal: own, pipe: write, unwritten: Vec::new(), waits: Waits::Nothing };
    Ok((Some(read), Some(relay)))
}

/// The same file once more, with a position of its own that begins where the other stands.
pub(crate) fn reopen(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let position = File::from(socket::duplicate(fd.as_fd())?).stream_position()?;
    let mut own = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    own.seek(SeekFrom::Start(position))?;
    Ok(own.into())
}

impl StdinRelay {
    pub(crate) fn register(&mut self, poll: &Poll) -> io::Result<()> {
        self.wait_for(Waits::Input, poll)
    }

    /// Copies once: called when the terminal has input or the pipe has room.
    pub(crate) fn relay(&mut self, poll: &Poll) -> io::Result<Relayed> {
        if self.waits == Waits::Input {
            let mut bytes = [0; PIECE_BYTES];
            match socket::read(self.terminal.as_fd(), &mut bytes) {
                Ok(Transfer::Bytes(n)) => self.unwritten.extend_from_slice(&bytes[..n]),
                Ok(Transfer::WouldBlock) => return Ok(Relayed::GoesOn),
                Ok(Transfer::Closed) | Err(_) => return self.end(poll),
            }
        }
        match socket::write(self.pipe.as_fd(), &self.unwritten)? {
            Transfer::Bytes(n) => drop(self.unwritten.drain(..n)),
            Transfer::WouldBlock => {}
            Transfer::Closed => return self.end(poll), // the rank reads no more
        }
        let waits = if self.unwritten.is_empty() { Waits::Input } else { Waits::Room };
        self.wait_for(waits, poll)?;
        Ok(Relayed::GoesOn)
    }

    /// Waits for nothing any more.
    pub(crate) fn end(&mut self, poll: &Poll) -> io::Result<Relayed> {
        self.wait_for(Waits::Nothing, poll)?;
        Ok(Relayed::Over)
    }

    fn wait_for(&mut self, waits: Waits, poll: &Poll) -> io::Result<()> {
        if waits == self.waits {
            return Ok(());
        }
        match self.waits {
            Waits::Nothing => {}
            Waits::Input => poll.remove(self.terminal.as_fd())?,
            Waits::Room => poll.remove(self.pipe.as_fd())?,
        }
        match waits {
            Waits::Nothing => {}
            Waits::Input => poll.add(self.terminal.as_fd(), TOKEN_STDIN, Interest::Read)?,
            Waits::Room => poll.add(self.pipe.as_fd(), TOKEN_STDIN_PIPE, Interest::Write)?,
        }
        self.waits = waits;
        Ok(())
    }
}
