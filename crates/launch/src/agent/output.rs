//! Output on its way up: lines of ranks, bounded by credit from above.
use super::words::LastWords;
use crate::link::Link;
use crate::unfinished::{STDIO_BLOCK_BYTES, UNFINISHED_AFTER};
use proto::tree::{Frame, Member, OUTPUT_BYTES_MAX, Stream};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;
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
    /// When to look for lines that are still unfinished.
    look_at: Option<Instant>,
}

impl Default for OutputQueue {
    fn default() -> Self {
        let credit = u64::from(OUTPUT_WINDOW_BYTES);
        OutputQueue { pending: VecDeque::new(), credit, own_bytes: 0, look_at: None }
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

    /// When a line will have been unfinished for long enough, at the earliest.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    fn look_not_later_than(&mut self, at: Instant) {
        self.look_at = Some(self.look_at.map_or(at, |sooner| sooner.min(at)));
    }

    /// Is it time? Then who looks says when to look again.
    pub(crate) fn is_time_to_look(&mut self, now: Instant) -> bool {
        self.look_at.take_if(|at| *at <= now).is_some()
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

/// How long a line is kept that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Until it ends.
    WholeLines,
    /// For a moment.
    Briefly,
}

/// One output pipe of a rank.
#[derive(Debug)]
pub(crate) struct LineStream {
    fd: Option<OwnedFd>,
    stream: Stream,
    hold: Hold,
    partial: Vec<u8>,
    /// When the partial line is to go, if it has not ended by then.
    due: Option<Instant>,
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
    pub(crate) fn new(stream: Stream, hold: Hold) -> Self {
        LineStream { fd: None, stream, hold, partial: Vec::new(), due: None, words: LastWords::default() }
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
                self.watch_partial(n, queue);
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
            self.due = None;
            queue.push(Source::Own, who, self.stream, part);
        }
    }

    /// What has been read last, `n` bytes, may have left a line unfinished.
    fn watch_partial(&mut self, n: usize, queue: &mut OutputQueue) {
        let goes_on = n.is_multiple_of(STDIO_BLOCK_BYTES);
        if self.hold == Hold::Briefly && !self.partial.is_empty() && !goes_on {
            let due = self.due.get_or_insert_with(|| Instant::now() + UNFINISHED_AFTER);
            queue.look_not_later_than(*due);
        }
    }

    /// Queues the line that has been unfinished for long enough, or asks to be looked at again.
    pub(crate) fn queue_unfinished(&mut self, who: Member, now: Instant, queue: &mut OutputQueue) {
        match self.due {
            Some(due) if due <= now => self.queue_rest(who, queue),
            Some(due) => queue.look_not_later_than(due),
            None => {}
        }
    }

    /// What was written last, if this is standard error.
    pub(crate) fn last_words(&self) -> String {
        self.words.text()
    }

    pub(crate) fn queue_rest(&mut self, who: Member, queue: &mut OutputQueue) {
        self.due = None;
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
    use std::time::Duration;

    const WHO: Member = Member { job: JobId(0), rank: Rank(1) };

    #[test]
    fn lines_are_cut_whole_and_long_ones_bounded() {
        assert_eq!(cut(b""), None);
        assert_eq!(cut(b"half"), None);
        assert_eq!(cut(b"one\ntwo\nhalf"), Some(8));
        assert_eq!(cut(&vec![b'x'; OUTPUT_BYTES_MAX - 1]), None);
        assert_eq!(cut(&vec![b'x'; OUTPUT_BYTES_MAX + 5]), Some(OUTPUT_BYTES_MAX));
    }

    /// A pipe, and what is read from it.
    struct Rig {
        write: OwnedFd,
        stream: LineStream,
        queue: OutputQueue,
    }

    impl Rig {
        fn new(hold: Hold) -> Self {
            let (read, write) = socket::pipe().unwrap();
            let mut stream = LineStream::new(Stream::Out, hold);
            stream.open(read).unwrap();
            Rig { write, stream, queue: OutputQueue::default() }
        }

        fn write(&mut self, bytes: &[u8]) {
            socket::write(self.write.as_fd(), bytes).unwrap();
            assert_eq!(self.stream.read(WHO, &mut self.queue).unwrap(), PipeState::MayHaveMore);
        }

        fn look(&mut self, now: Instant) {
            if self.queue.is_time_to_look(now) {
                self.stream.queue_unfinished(WHO, now, &mut self.queue);
            }
        }

        fn queued(&self) -> Vec<&str> {
            fn text(frame: &Frame) -> &str {
                let Frame::Output { from: WHO, stream: Stream::Out, bytes } = frame else {
                    panic!("{frame:?}")
                };
                str::from_utf8(bytes).unwrap()
            }
            self.queue.pending.iter().map(|(_, frame, _)| text(frame)).collect()
        }
    }

    #[test]
    fn an_unterminated_last_line_is_kept_until_the_end() {
        let mut rig = Rig::new(Hold::WholeLines);
        rig.write(b"a\nb");
        assert_eq!(rig.stream.read(WHO, &mut rig.queue).unwrap(), PipeState::Empty);
        assert_eq!((rig.queued(), rig.queue.look_at()), (vec!["a\n"], None));
        let Rig { write, mut stream, mut queue } = rig;
        drop(write);
        assert_eq!(stream.read(WHO, &mut queue).unwrap(), PipeState::Ended);
        assert_eq!(queue.pending.len(), 2);
    }

    #[test]
    fn a_prompt_goes_after_a_moment() {
        let mut rig = Rig::new(Hold::Briefly);
        rig.write(b"welcome\nname? ");
        let due = rig.queue.look_at().unwrap();
        rig.write(b"(yours) ");
        assert_eq!(rig.queue.look_at(), Some(due), "more of the line does not put it off");
        rig.look(due - Duration::from_nanos(1));
        assert_eq!(rig.queued(), ["welcome\n"]);
        rig.look(due);
        assert_eq!(rig.queued(), ["welcome\n", "name? (yours) "]);
        assert_eq!(rig.queue.look_at(), None);
    }

    #[test]
    fn a_line_that_ends_in_time_is_whole_and_the_next_has_a_moment_of_its_own() {
        let mut rig = Rig::new(Hold::Briefly);
        rig.write(b"one ");
        let due = rig.queue.look_at().unwrap();
        rig.write(b"line\nan");
        rig.look(due);
        assert_eq!(rig.queued(), ["one line\n"]);
        let due = rig.queue.look_at().unwrap();
        rig.write(b"other\n");
        rig.look(due);
        assert_eq!(rig.queued(), ["one line\n", "another\n"]);
    }

    #[test]
    fn a_line_that_was_cut_by_a_buffer_waits_for_its_rest() {
        let mut rig = Rig::new(Hold::Briefly);
        rig.write(&[b'x'; STDIO_BLOCK_BYTES]);
        assert_eq!(rig.queue.look_at(), None);
        rig.write(b"?");
        assert!(rig.queue.look_at().is_some());
    }
}
