//! Where output of ranks ends up: the launcher's own standard output and error, or memory.
//!
//! Writing never waits: a terminal that is stopped must not stop the launcher. What cannot be written yet is
//! bounded by the credit that agents get only for what has been written.
//!
//! Agents send whole lines, where they are not told otherwise (`unfinished`). When a rank speaks while another's line is
//! unfinished, labelled lines and those on a terminal begin anew for each. Elsewhere nothing is ever inserted: what goes to a
//! file or a pipe is what ranks wrote.
use super::files::{FileTable, Files};
use crate::pattern::{Origin, Pattern};
use crate::spec::Label;
use proto::lane::JobId;
use proto::tree::Member;
use std::collections::VecDeque;
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
    /// Whose line is unfinished.
    open: Option<Member>,
}

/// What a write achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// This much credit is due.
    pub(crate) credit: u32,
    /// Why from now on everything is swallowed.
    pub(crate) lost: Option<Loss>,
}

/// Why nothing can be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The reader has gone.
    Closed,
    /// The system refused with this error number: the disk is full, perhaps.
    Refused(i32),
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
        Sink { target, unwritten: VecDeque::new(), owed: VecDeque::new(), label, files: None, open: None }
    }

    /// The same, but output of ranks goes to files.
    pub(crate) fn with_files(self, pattern: Option<&Pattern>, table: &FileTable) -> Self {
        Sink { files: pattern.map(|pattern| Files::new(pattern.clone(), table.clone())), ..self }
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
        if self.open != Some(from.who) && (self.label != Label::None || self.is_terminal()) {
            self.end_line();
        }
        match &self.label {
            Label::None => self.unwritten.extend(bytes),
            Label::Rank => self.push_labelled(&short_label(from.who), bytes),
            Label::Pattern(pattern) => {
                let label = pattern.fill(from);
                self.push_labelled(&label, bytes);
            }
        }
        self.open = (bytes.last() != Some(&b'\n')).then_some(from.who);
        self.owed.push_back((self.unwritten.len() - before, bytes.len() as u32));
    }

    /// Queues a message of the launcher's own.
    pub(crate) fn say(&mut self, text: &str) {
        let newline = if self.open.take().is_some() { "\n" } else { "" };
        self.write_raw(&format!("{newline}banyan: {text}\n"));
    }

    /// Queues a text of the launcher's own as it is.
    pub(crate) fn write_raw(&mut self, text: &str) {
        self.owed.push_back((text.len(), 0));
        self.unwritten.extend(text.as_bytes());
    }

    fn push_labelled(&mut self, label: &str, bytes: &[u8]) {
        for (at, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
            if at > 0 || self.open.is_none() {
                self.unwritten.extend(label.as_bytes());
            }
            self.unwritten.extend(line);
        }
    }

    fn end_line(&mut self) {
        if self.open.take().is_some() {
            self.unwritten.push_back(b'\n');
        }
    }

    /// Is there an unfinished line on a screen?
    pub(crate) fn shows_prompt(&self) -> bool {
        self.open.is_some() && self.is_terminal()
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
        let (written, lost) = self.write_target(ready);
        self.unwritten.drain(..written);
        if lost.is_some() {
            self.give_up(poll);
        }
        self.wait_for_room(poll)?;
        Ok(Written { credit: self.settle(written), lost })
    }

    fn write_target(&mut self, ready: Room) -> (usize, Option<Loss>) {
        let bytes = self.unwritten.make_contiguous();
        match &mut self.target {
            _ if bytes.is_empty() => (0, None),
            Target::Closed => (bytes.len(), None),
            Target::Memory(memory) => {
                let room = CAPTURE_BYTES_MAX - memory.len();
                memory.extend_from_slice(&bytes[..bytes.len().min(room)]);
                (bytes.len(), None)
            }
            Target::File { fd, kind: FileKind::Plain, .. } => write_all(fd, bytes),
            Target::File { fd, .. } if ready == Room::Some => {
                // Standard output and error may be the same pipe: what the poll set has found for both, one of them has taken.
                let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
                let (written, lost) = outcome_of(socket::write_now(fd.as_fd(), piece));
                (if lost.is_some() { bytes.len() } else { written }, lost)
            }
            Target::File { .. } => (0, None),
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

/// Writes everything to a file, for which nobody waits in the poll set. What is lost counts as written.
fn write_all(fd: &OwnedFd, bytes: &[u8]) -> (usize, Option<Loss>) {
    let mut done = 0;
    while done < bytes.len() {
        let (written, lost) = outcome_of(socket::write(fd.as_fd(), &bytes[done..]));
        if lost.is_some() {
            return (bytes.len(), lost);
        }
        if written == 0 {
            break;
        }
        done += written;
    }
    (done, None)
}

/// How much a write has taken, and why there will be no other.
fn outcome_of(written: io::Result<Transfer>) -> (usize, Option<Loss>) {
    match written {
        Ok(Transfer::Bytes(written)) => (written, None),
        Ok(Transfer::WouldBlock) => (0, None),
        Ok(Transfer::Closed) => (0, Some(Loss::Closed)),
        Err(error) => (0, Some(error.raw_os_error().map_or(Loss::Closed, Loss::Refused))),
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
    fn a_pipe_that_another_sink_has_filled_is_not_waited_for() {
        let poll = Poll::new().unwrap();
        let (_read, write) = socket::pipe().unwrap();
        let [mut out, mut err] = [1, 2].map(|token| Sink::file(&write, token, Label::None).unwrap());
        out.push(from(0), &[b'x'; 1 << 20]);
        err.push(from(0), b"x");
        // Both are told of room by one look at the poll set.
        let mut left = usize::MAX;
        while out.unwritten.len() < left {
            left = out.unwritten.len();
            out.write(Room::Some, &poll).unwrap();
        }
        assert!(left > 0);
        assert_eq!(err.write(Room::Some, &poll).unwrap(), Written { credit: 0, lost: None });
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

    /// What comes out when rank 1 is interrupted in the middle of a line.
    fn interrupted(mut sink: Sink) -> String {
        sink.push(from(1), b"name? ");
        sink.push(from(2), b"x\n");
        sink.push(from(1), b"thanks\n");
        sink.push(from(1), b"end");
        sink.say("the end");
        String::from_utf8(sink.unwritten.into()).unwrap()
    }

    #[test]
    fn an_unfinished_line_that_is_interrupted_goes_on_in_a_line_of_its_own() {
        let labelled = "[1] name? \n[2] x\n[1] thanks\n[1] end\nbanyan: the end\n";
        assert_eq!(interrupted(Sink::memory(Label::Rank)), labelled);
        let (_read, write) = socket::pipe().unwrap();
        let kind = FileKind::Terminal;
        let terminal = Target::File { fd: write, kind, token: 1, registered: false };
        let on_screen = "name? \nx\nthanks\nend\nbanyan: the end\n";
        assert_eq!(interrupted(Sink::new(terminal, Label::None)), on_screen);
    }

    #[test]
    fn nothing_is_inserted_between_bytes_of_ranks_in_a_file() {
        assert_eq!(interrupted(Sink::memory(Label::None)), "name? x\nthanks\nend\nbanyan: the end\n");
    }

    #[test]
    fn a_reader_that_has_gone_is_a_value() {
        let poll = Poll::new().unwrap();
        let _mask = sys::signal::SignalMask::block_all().unwrap();
        let (read, write) = socket::pipe().unwrap();
        drop(read);
        let mut sink = Sink::file(&write, 1, Label::None).unwrap();
        sink.push(from(0), b"x");
        assert_eq!(sink.write(Room::Some, &poll).unwrap(), Written { credit: 1, lost: Some(Loss::Closed) });
        sink.push(from(0), b"yz");
        assert_eq!(sink.write(Room::Unknown, &poll).unwrap(), Written { credit: 2, lost: None });
    }
}
