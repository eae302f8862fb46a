//! A stream to somebody of another job, and the talk on it.
use super::MeetError;
use proto::meeting::{Port, Talk};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};
use sys::{local, tcp};

/// Bytes that are read at once, at most and, where nothing else can come, at least.
const CHUNK: usize = 64 << 10;
const CHUNK_MIN: usize = 1 << 10;
/// Under which number lines and doors are watched: all are looked at, whichever is ready.
pub(super) const TOKEN: u64 = 0;

/// A stream and the talk on it.
#[derive(Debug)]
pub(super) struct Line {
    wire: Wire,
    pub talk: Talk,
    out: Vec<u8>,
    /// Where is read to.
    read: Vec<u8>,
    /// It is known that the stream is connected.
    connected: bool,
    /// The greeting is not sent yet: it leaves with the answer.
    holds_back: bool,
    /// Who sleeps is woken by this set, for this.
    watched: Option<(Rc<Poll>, Interest)>,
}

#[derive(Debug)]
pub(super) enum Wire {
    Tcp(tcp::Stream),
    /// To a process of this host.
    Local(OwnedFd),
    /// The program's: its flags are not changed, and nothing but the talk is read from it.
    Given(OwnedFd),
}

impl Wire {
    /// Calls the owner of a port: by the port's name on this host if it is here, which takes a fraction of the time.
    pub fn dial(port: &Port) -> Result<Wire, MeetError> {
        if let Ok(stream) = local::dial(port.local_name().as_bytes()) {
            return Ok(Wire::Local(stream));
        }
        let dialled = tcp::Stream::dial(None, port.addr);
        dialled.map(Wire::Tcp).map_err(|error| MeetError::Unanswered(port.addr, error))
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Tcp(stream) => stream.as_fd(),
            Wire::Local(fd) | Wire::Given(fd) => fd.as_fd(),
        }
    }
}

impl Line {
    /// A line on which both sides greet at once.
    pub fn new(wire: Wire, key: [u8; 32]) -> io::Result<Line> {
        let (mut nonce, mut out) = ([0; 16], Vec::new());
        sys::process::random(&mut nonce)?;
        let connected = !matches!(wire, Wire::Tcp(_));
        let talk = Talk::new(key, nonce, &mut out);
        Ok(Line { wire, talk, out, read: Vec::new(), connected, holds_back: false, watched: None })
    }

    /// The line to the owner of a port, on which `mine` is to be said. Was it?
    pub fn call(port: &Port, mine: &[u8]) -> Result<(Line, bool), MeetError> {
        let mut line = Line::new(Wire::dial(port)?, port.key)?;
        let said = matches!(line.wire, Wire::Local(_));
        if said {
            line.talk.say_first(mine, &mut line.out);
        }
        Ok((line, said))
    }

    /// The line of somebody who called.
    pub fn answer(wire: Wire, key: [u8; 32]) -> io::Result<Line> {
        let mut line = Line::new(wire, key)?;
        if let Wire::Local(_) = line.wire {
            line.talk.expect_first();
            line.holds_back = true;
        }
        Ok(line)
    }

    /// What somebody says who called.
    pub fn hear_caller(&mut self) -> Result<Option<Vec<u8>>, MeetError> {
        if !self.holds_back {
            self.flush()?;
        }
        self.hear()
    }

    /// Answers who was heard; an error if it is gone.
    pub fn answer_caller(&mut self, mine: &[u8]) -> Result<(), MeetError> {
        self.holds_back = false;
        self.talk.say(mine, &mut self.out);
        self.flush().map(drop)
    }

    /// Says something, when the other side has greeted.
    pub fn say(&mut self, what: &[u8]) {
        self.talk.say(what, &mut self.out);
    }

    /// Writes what is to be written; is all of it out?
    pub fn flush(&mut self) -> Result<bool, MeetError> {
        if let Wire::Tcp(stream) = &self.wire
            && !self.connected
        {
            self.connected = stream.connected()?;
            if !self.connected {
                return Ok(false);
            }
        }
        while !self.out.is_empty() {
            match socket::write(self.wire.as_fd(), &self.out)? {
                Transfer::Bytes(sent) => drop(self.out.drain(..sent)),
                Transfer::WouldBlock => return Ok(false),
                Transfer::Closed => return Err(MeetError::HungUp),
            }
        }
        Ok(true)
    }

    /// Reads what is there; gives what the other side says, once. A greeting is answered before more is read.
    pub fn hear(&mut self) -> Result<Option<Vec<u8>>, MeetError> {
        let greeted = self.talk.is_greeted();
        while self.connected && self.talk.wants() > 0 && self.talk.is_greeted() == greeted {
            // What stands behind the talk on a stream of the program's is the program's.
            let most = match self.wire {
                Wire::Given(_) => self.talk.wants().min(CHUNK),
                _ => self.talk.wants().clamp(CHUNK_MIN, CHUNK),
            };
            self.read.resize(most, 0);
            let not_a_socket = || io::Error::other("it is not a socket");
            let len = match socket::read_now(self.wire.as_fd(), &mut self.read)?.ok_or_else(not_a_socket)? {
                Transfer::Bytes(len) => len,
                Transfer::WouldBlock => break,
                Transfer::Closed => return Err(MeetError::HungUp),
            };
            let mut rest = &self.read[..len];
            while !rest.is_empty() && self.talk.wants() > 0 {
                let (part, behind) = rest.split_at(self.talk.wants().min(rest.len()));
                rest = behind;
                if let Some(said) = self.talk.push(part)? {
                    return Ok(Some(said));
                }
            }
        }
        Ok(None)
    }

    /// Everything was heard: has the other side left since? Nothing more can come from it.
    pub fn is_given_up(&self) -> bool {
        !matches!(socket::read_now(self.wire.as_fd(), &mut [0]), Ok(Some(Transfer::WouldBlock)))
    }

    /// Says that nothing more comes from this side.
    pub fn end_writing(&self) -> io::Result<()> {
        socket::end_writing(self.wire.as_fd())
    }

    #[cfg(test)]
    pub fn has_sent_all(&self) -> bool {
        self.connected && self.out.is_empty()
    }

    /// Has the set tell when there is something to do about it.
    pub fn watch(&mut self, set: &Rc<Poll>) -> io::Result<()> {
        let unsent = !self.connected || !self.out.is_empty();
        let out = unsent && !self.holds_back;
        let wants = match (out, self.talk.wants()) {
            (false, _) => Interest::Read,
            (true, 0) => Interest::Write,
            (true, _) => Interest::ReadWrite,
        };
        match &self.watched {
            Some((watched, interest)) if Rc::ptr_eq(watched, set) => {
                if *interest != wants {
                    set.change(self.wire.as_fd(), TOKEN, wants)?;
                }
            }
            _ => {
                self.unwatch();
                set.add(self.wire.as_fd(), TOKEN, wants)?;
            }
        }
        self.watched = Some((set.clone(), wants));
        Ok(())
    }

    fn unwatch(&mut self) {
        if let Some((set, _)) = self.watched.take() {
            let _ = set.remove(self.wire.as_fd());
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.unwatch();
    }
}
