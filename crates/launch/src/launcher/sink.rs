//! Where output of ranks ends up: the launcher's own standard output and error, or memory.
//!
//! Writing never waits: a terminal that is stopped must not stop the launcher. What cannot be written yet is
//! bounded by the credit that agents get only for what has been written.
use super::files::Files;
use crate::pattern::{Origin, Pattern};
use crate::spec::Label;
use proto::lane::JobId;
use proto::tree::Member;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, FileKind, Transfer};

/// What can be written to a pipe that has room without waiting (`PIPE_BUF`).
const PIECE_BYTES: usize = 4096;
/// Captured output beyond this is dropped.
pub(crate) const CAPTURE_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
enum Target {
    File {
        fd: OwnedFd,
        kind: FileKind,
        token: u64,
        registered: bool,
    },
    Memory(Vec<u8>),
    /// Nobody reads it any more.
    Closed,
}

/// Output on its way out.
#[derive(Debug)]
pub(crate) struct Sink {
    target: Target,
    unwritten: VecDeque<u8>,
    /// Bytes in the queue, and the credit due when they are written.
    owed: VecDeque<(usize, u32)>,
    label: Label,
    /// Where output of ranks goes instead.
    files: Option<Files>,
    /// Ranks whose last output did not end in a newline.
    midline: HashSet<Member>,
}

/// What a write achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// This much credit is due.
    pub(crate) credit: u32,
    /// The reader has just gone; from now on everything is swallowed.
    pub(crate) closed: bool,
}

impl Sink {
    /// Writes to a copy of `fd`.
    pub(crate) fn file(fd: impl AsFd, token: u64, label: Label) -> io::Result<Self> {
        // A launcher started without this descriptor still runs jobs.
        let target = match socket::duplicate(fd.as_fd()) {
            Ok(fd) => Target::File { kind: socket::file_kind(fd.as_fd()), fd, token, registered: false },
            Err(_) => Target::Closed,
        };
        Ok(Self::new(target, label))
    }

    /// Keeps it.
    pub(crate) fn memory(label: Label) -> Self {
        Self::new(Target::Memory(Vec::new()), label)
    }

    fn new(target: Target, label: Label) -> Self {
        Sink {
            target,
            unwritten: VecDeque::new(),
            owed: VecDeque::new(),
            label,
            files: None,
            midline: HashSet::new(),
        }
    }

    /// The same, but output of ranks goes to files.
    pub(crate) fn with_files(self, pattern: Option<&Pattern>) -> Self {
        Sink { files: pattern.cloned().map(Files::new), ..self }
    }

    /// Takes output of a rank. The error says which file it could not be written to.
    pub(crate) fn take(&mut self, from: Origin<'_>, bytes: &[u8]) -> Result<(), String> {
        let Some(files) = &mut self.files else {
            self.push(from, bytes);
            return Ok(());
        };
        self.owed.push_back((0, bytes.len() as u32));
        files.write(from, bytes)
    }

    /// Queues output of a rank.
    fn push(&mut self, from: Origin<'_>, bytes: &[u8]) {
        let before = self.unwritten.len();
        match &self.label {
            Label::None => self.unwritten.extend(bytes),
            Label::Rank => self.push_labelled(from.who, &short_label(from.who), bytes),
            Label::Pattern(pattern) => {
                let label = pattern.fill(from);
                self.push_labelled(from.who, &label, bytes);
            }
        }
        self.owed.push_back((self.unwritten.len() - before, bytes.len() as u32));
    }

    /// Queues a message of the launcher's own.
    pub(crate) fn say(&mut self, text: &str) {
        self.write_raw(&format!("banyan: {text}\n"));
    }

    /// Queues a text of the launcher's own as it is.
    pub(crate) fn write_raw(&mut self, text: &str) {
        self.owed.push_back((text.len(), 0));
        self.unwritten.extend(text.as_bytes());
    }

    fn push_labelled(&mut self, who: Member, label: &str, bytes: &[u8]) {
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            if !self.midline.remove(&who) {
                self.unwritten.extend(label.as_bytes());
            }
            self.unwritten.extend(line);
            if line.last() != Some(&b'\n') {
                self.midline.insert(who);
            }
        }
    }

    /// Does it end on a screen?
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.target, Target::File { kind: FileKind::Terminal, .. })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// What was captured.
    pub(crate) fn into_captured(self) -> Vec<u8> {
        match self.target {
            Target::Memory(bytes) => bytes,
            _ => Vec::new(),
        }
    }

    /// Writes what fits; waits (in the poll set) for room if something is left. `ready` says that the poll set
    /// found room.
    pub(crate) fn write(&mut self, ready: Room, poll: &Poll) -> io::Result<Written> {
        let (written, closed) = self.write_target(ready)?;
        self.unwritten.drain(..written);
        if closed {
            self.give_up(poll);
        }
        self.wait_for_room(poll)?;
        Ok(Written { credit: self.settle(written), closed })
    }

    fn write_target(&mut self, ready: Room) -> io::Result<(usize, bool)> {
        let bytes = self.unwritten.make_contiguous();
        match &mut self.target {
            _ if bytes.is_empty() => Ok((0, false)),
            Target::Closed => Ok((bytes.len(), false)),
            Target::Memory(memory) => {
                let room = CAPTURE_BYTES_MAX - memory.len();
                memory.extend_from_slice(&bytes[..bytes.len().min(room)]);
                Ok((bytes.len(), false))
            }
            Target::File { fd, kind, .. } => {
                let piece = match (*kind, ready) {
                    (FileKind::Plain, _) => bytes,
                    (_, Room::Some) => &bytes[..bytes.len().min(PIECE_BYTES)],
                    (_, Room::Unknown) => return Ok((0, false)),
                };
                match socket::write(fd.as_fd(), piece) {
                    Ok(Transfer::Bytes(n)) => Ok((n, false)),
                    Ok(Transfer::WouldBlock) => Ok((0, false)),
                    // A full disk is as good as nobody reading.
                    Ok(Transfer::Closed) | Err(_) => Ok((bytes.len(), true)),
                }
            }
        }
    }

    fn give_up(&mut self, poll: &Poll) {
        if let Target::File { fd, registered: true, .. } = &self.target {
            let _ = poll.remove(fd.as_fd());
        }
        self.target = Target::Closed;
    }

    fn wait_for_room(&mut self, poll: &Poll) -> io::Result<()> {
        let Target::File { fd, kind, token, registered } = &mut self.target else { return Ok(()) };
        let wanted = !self.unwritten.is_empty() && *kind != FileKind::Plain;
        if wanted && !*registered {
            poll.add(fd.as_fd(), *token, Interest::Write)?;
        } else if !wanted && *registered {
            poll.remove(fd.as_fd())?;
        }
        *registered = wanted;
        Ok(())
    }

    /// The credit for `written` more bytes.
    fn settle(&mut self, mut written: usize) -> u32 {
        let mut credit = 0;
        while let Some((bytes, due)) = self.owed.front_mut() {
            if *bytes > written {
                *bytes -= written;
                break;
            }
            written -= *bytes;
            credit += *due;
            self.owed.pop_front();
        }
        credit
    }
}

/// `[3] `, or `[1.3] ` for rank 3 of spawned job 1.
fn short_label(who: Member) -> String {
    match who.job {
        JobId(0) => format!("[{}] ", who.rank),
        JobId(job) => format!("[{job}.{}] ", who.rank),
    }
}

/// Is there room to write?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The poll set says so.
    Some,
    /// Not known.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::{NodeId, Rank};

    fn from(rank: u32) -> Origin<'static> {
        let who = Member { job: JobId(0), rank: Rank(rank) };
        Origin { who, node: NodeId(0), host: "node0" }
    }

    #[test]
    fn credit_is_due_when_everything_of_a_push_is_written() {
        let poll = Poll::new().unwrap();
        let (_read, write) = socket::pipe().unwrap();
        let mut sink = Sink::file(&write, 1, Label::None).unwrap();
        sink.push(from(0), &[b'x'; PIECE_BYTES + 1]);
        assert_eq!(sink.write(Room::Unknown, &poll).unwrap().credit, 0);
        assert_eq!(sink.write(Room::Some, &poll).unwrap().credit, 0);
        assert_eq!(sink.write(Room::Some, &poll).unwrap().credit, PIECE_BYTES as u32 + 1);
        assert!(sink.is_empty());
    }

    #[test]
    fn every_line_is_labelled_once() {
        let mut sink = Sink::memory(Label::Rank);
        sink.push(from(1), b"one\ntw");
        sink.push(from(1), b"o\n");
        sink.push(from(2), b"x\n");
        sink.write(Room::Unknown, &Poll::new().unwrap()).unwrap();
        assert_eq!(String::from_utf8(sink.into_captured()).unwrap(), "[1] one\n[1] two\n[2] x\n");
    }

    #[test]
    fn a_reader_that_has_gone_is_a_value() {
        let poll = Poll::new().unwrap();
        let _mask = sys::signal::SignalMask::block_all().unwrap();
        let (read, write) = socket::pipe().unwrap();
        drop(read);
        let mut sink = Sink::file(&write, 1, Label::None).unwrap();
        sink.push(from(0), b"x");
        assert_eq!(sink.write(Room::Some, &poll).unwrap(), Written { credit: 1, closed: true });
        sink.push(from(0), b"yz");
        assert_eq!(sink.write(Room::Unknown, &poll).unwrap(), Written { credit: 2, closed: false });
    }
}
