//! Output on its way up: whole lines from ranks, bounded by credit from above.
use super::words::LastWords;
use crate::link::Link;
use proto::tree::{Frame, Member, OUTPUT_BYTES_MAX, Stream};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use sys::socket::{self, Transfer};

/// Output that may be under way on a link without having been passed on by its upper end.
pub(crate) const OUTPUT_WINDOW_BYTES: u32 = 256 << 10;
/// Output of its own ranks that an agent holds before it stops reading their pipes.
const OWN_BYTES_MAX: usize = 128 << 10;

/// Whose output it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Own,
    Child(u32),
}

/// Output waiting for credit, in the order of its arrival.
#[derive(Debug)]
pub(crate) struct OutputQueue {
    pending: VecDeque<(Source, Frame, u32)>,
    credit: u64,
    own_bytes: usize,
}

impl Default for OutputQueue {
    fn default() -> Self {
        OutputQueue { pending: VecDeque::new(), credit: u64::from(OUTPUT_WINDOW_BYTES), own_bytes: 0 }
    }
}

impl OutputQueue {
    pub(crate) fn push(&mut self, source: Source, from: Member, stream: Stream, bytes: Vec<u8>) {
        let length = bytes.len();
        if source == Source::Own {
            self.own_bytes += length;
        }
        self.pending.push_back((source, Frame::Output { from, stream, bytes }, length as u32));
    }

    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(u64::from(bytes));
    }

    /// Should the pipes of own ranks be left alone for now?
    pub(crate) fn own_is_full(&self) -> bool {
        self.own_bytes >= OWN_BYTES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Hands to the link what credit allows. Returns whose output went, and how much of it.
    pub(crate) fn send_up(&mut self, link: &mut Link) -> Vec<(Source, u32)> {
        let mut sent = Vec::new();
        while let Some((source, frame, length)) = self.pending.front() {
            let (source, length) = (*source, *length);
            if u64::from(length) > self.credit {
                break;
            }
            self.credit -= u64::from(length);
            link.send(frame);
            if source == Source::Own {
                self.own_bytes -= length as usize;
            }
            sent.push((source, length));
            self.pending.pop_front();
        }
        sent
    }
}

/// One output pipe of a rank.
#[derive(Debug)]
pub(crate) struct LineStream {
    fd: Option<OwnedFd>,
    stream: Stream,
    partial: Vec<u8>,
    /// Of standard error.
    words: LastWords,
}

/// What reading a pipe gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeState {
    MayHaveMore,
    Empty,
    Ended,
}

impl LineStream {
    pub(crate) fn new(stream: Stream) -> Self {
        LineStream { fd: None, stream, partial: Vec::new(), words: LastWords::default() }
    }

    pub(crate) fn open(&mut self, fd: OwnedFd) -> io::Result<()> {
        socket::set_nonblocking(fd.as_fd())?;
        self.fd = Some(fd);
        Ok(())
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn close(&mut self) {
        self.fd = None;
    }

    /// Reads once and queues the lines that are whole now. At the end, what is left counts as a line.
    pub(crate) fn read(&mut self, who: Member, queue: &mut OutputQueue) -> io::Result<PipeState> {
        let Some(fd) = &self.fd else { return Ok(PipeState::Ended) };
        let mut bytes = [0; OUTPUT_BYTES_MAX];
        match socket::read(fd.as_fd(), &mut bytes)? {
            Transfer::Bytes(n) => {
                self.partial.extend_from_slice(&bytes[..n]);
                if self.stream == Stream::Err {
                    self.words.push(&bytes[..n]);
                }
                self.queue_lines(who, queue);
                Ok(PipeState::MayHaveMore)
            }
            Transfer::WouldBlock => Ok(PipeState::Empty),
            Transfer::Closed => {
                self.queue_rest(who, queue);
                Ok(PipeState::Ended)
            }
        }
    }

    fn queue_lines(&mut self, who: Member, queue: &mut OutputQueue) {
        while let Some(end) = cut(&self.partial) {
            let rest = self.partial.split_off(end);
            let part = std::mem::replace(&mut self.partial, rest);
            queue.push(Source::Own, who, self.stream, part);
        }
    }

    /// What was written last, if this is standard error.
    pub(crate) fn last_words(&self) -> String {
        self.words.text()
    }

    pub(crate) fn queue_rest(&mut self, who: Member, queue: &mut OutputQueue) {
        if !self.partial.is_empty() {
            queue.push(Source::Own, who, self.stream, std::mem::take(&mut self.partial));
        }
    }
}

/// Where to cut what may go now: behind the last newline of the first [`OUTPUT_BYTES_MAX`] bytes, or, in a
/// line longer than that, anywhere.
fn cut(bytes: &[u8]) -> Option<usize> {
    let window = &bytes[..bytes.len().min(OUTPUT_BYTES_MAX)];
    let newline = window.iter().rposition(|&b| b == b'\n').map(|at| at + 1);
    newline.or((window.len() == OUTPUT_BYTES_MAX).then_some(OUTPUT_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::Rank;
    use proto::lane::JobId;

    const WHO: Member = Member { job: JobId(0), rank: Rank(1) };

    #[test]
    fn lines_are_cut_whole_and_long_ones_bounded() {
        assert_eq!(cut(b""), None);
        assert_eq!(cut(b"half"), None);
        assert_eq!(cut(b"one\ntwo\nhalf"), Some(8));
        assert_eq!(cut(&vec![b'x'; OUTPUT_BYTES_MAX - 1]), None);
        assert_eq!(cut(&vec![b'x'; OUTPUT_BYTES_MAX + 5]), Some(OUTPUT_BYTES_MAX));
    }

    #[test]
    fn an_unterminated_last_line_is_kept_until_the_end() {
        let (read, write) = socket::pipe().unwrap();
        let mut stream = LineStream::new(Stream::Out);
        stream.open(read).unwrap();
        let mut queue = OutputQueue::default();
        socket::write(write.as_fd(), b"a\nb").unwrap();
        assert_eq!(stream.read(WHO, &mut queue).unwrap(), PipeState::MayHaveMore);
        assert_eq!(stream.read(WHO, &mut queue).unwrap(), PipeState::Empty);
        assert_eq!(queue.pending.len(), 1);
        drop(write);
        assert_eq!(stream.read(WHO, &mut queue).unwrap(), PipeState::Ended);
        let texts: Vec<_> = queue.pending.iter().map(|(_, frame, _)| frame.clone()).collect();
        let output = |bytes: &[u8]| Frame::Output { from: WHO, stream: Stream::Out, bytes: bytes.to_vec() };
        assert_eq!(texts, [output(b"a\n"), output(b"b")]);
    }
}
