//! One connection: bytes in, messages out.
use super::VERSIONS;
use super::message::{Operation, PAYLOAD_BYTES_MAX, ParseError, Reader, Speaker};
use alloc::string::String;
use alloc::vec::Vec;

/// Most bytes of an abort's text that are kept; the rest is dropped.
pub const ABORT_TEXT_MAX: usize = 1024;
/// What may wait: one operation and what one read may bring behind it.
const WAITING_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (64 << 10);

/// What a connection says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// It is the connection of this rank.
    Open {
        /// The rank.
        rank: u32,
    },
    /// It only came to end the job; nothing follows.
    Abort {
        /// The program's error code (some clients put the rank there that they lost).
        code: i32,
        /// Who says it.
        rank: i32,
        /// Why.
        text: String,
    },
    /// It takes part in a round.
    Operation(Operation),
}

/// Why the conversation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// An operation that makes no sense.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// More than is ever in flight.
    #[error("more than {WAITING_BYTES_MAX} bytes of PMGR operations at once")]
    TooLong,
}

/// A connection of a job with a given number of processes.
#[derive(Debug)]
pub struct Session {
    size: u32,
    phase: Phase,
    bytes: Vec<u8>,
    taken: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Has not said who it is.
    Greeting,
    /// Is a rank.
    Open(Speaker),
    /// Has said its last word.
    Ended,
}

impl Session {
    /// A connection that has said nothing yet.
    pub fn new(size: u32) -> Self {
        Session { size, phase: Phase::Greeting, bytes: Vec::new(), taken: 0 }
    }

    /// Takes what was read. What a rank sends ahead of its round waits here: while [`is_full`](Session::is_full),
    /// nothing should be read.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.phase == Phase::Ended {
            return Ok(());
        }
        if self.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
            return Err(SessionError::TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Should reading pause until messages have been taken?
    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.taken > PAYLOAD_BYTES_MAX
    }

    /// The rank whose connection this is, once it has said so.
    pub fn rank(&self) -> Option<u32> {
        match self.phase {
            Phase::Open(speaker) => Some(speaker.rank),
            _ => None,
        }
    }

    /// The next message, or `None` until more is pushed. `is_free` says whether a rank has not connected yet: the words of
    /// an abort and of a first contact look alike, and only a rank that is not there yet can come.
    pub fn next_message(&mut self, is_free: impl Fn(u32) -> bool) -> Result<Option<Message>, SessionError> {
        let bytes = &self.bytes[self.taken..];
        let parsed = match self.phase {
            Phase::Greeting => greeting(bytes, self.size, is_free),
            Phase::Open(speaker) => {
                Operation::parse(bytes, speaker)?.map(|(operation, n)| (Message::Operation(operation), n))
            }
            Phase::Ended => None,
        };
        let Some((message, length)) = parsed else { return Ok(None) };
        self.taken += length;
        self.phase = match (&message, self.phase) {
            (Message::Open { rank }, _) => Phase::Open(Speaker { rank: *rank, size: self.size }),
            (Message::Abort { .. } | Message::Operation(Operation::Close | Operation::Abort { .. }), _) => {
                Phase::Ended
            }
            (Message::Operation(_), phase) => phase,
        };
        Ok(Some(message))
    }

    /// The end of the stream was read: the last message, if the connection only came to abort and was cut short. Some
    /// clients send nothing but a rank.
    pub fn end(&mut self) -> Option<Message> {
        let was = core::mem::replace(&mut self.phase, Phase::Ended);
        let mut reader = Reader { bytes: &self.bytes[self.taken..], at: 0 };
        match (was, reader.word(), reader.word()) {
            (Phase::Greeting, Some(rank), None) => {
                Some(Message::Abort { code: 1, rank, text: String::new() })
            }
            (Phase::Greeting, Some(code), Some(rank)) => {
                Some(Message::Abort { code, rank, text: String::new() })
            }
            _ => None,
        }
    }
}

/// The first words: version and rank, or an abort's code, rank, length and text.
fn greeting(bytes: &[u8], size: u32, is_free: impl Fn(u32) -> bool) -> Option<(Message, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let (first, rank) = (reader.word()?, reader.word()?);
    let newcomer = u32::try_from(rank).ok().filter(|rank| *rank < size && is_free(*rank));
    if let Some(rank) = newcomer.filter(|_| VERSIONS.contains(&first)) {
        return Some((Message::Open { rank }, reader.at));
    }
    let length = usize::try_from(reader.word()?).unwrap_or(0);
    let text = reader.data(length.min(ABORT_TEXT_MAX))?;
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
    Some((Message::Abort { code: first, rank, text }, reader.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn operations_come_out_however_the_bytes_arrive() {
        let mut stream = words(&[8, 1]);
        let operations = [
            Operation::Barrier,
            Operation::Bcast { root: 0, size: 3, data: None },
            Operation::Bcast { root: 1, size: 3, data: Some(b"abc".to_vec()) },
            Operation::Gather { root: 0, data: b"de".to_vec() },
            Operation::Scatter { root: 1, size: 2, data: Some(b"fghijk".to_vec()) },
            Operation::Scatter { root: 2, size: 2, data: None },
            Operation::Allgather { data: b"".to_vec() },
            Operation::Alltoall { size: 1, data: b"lmn".to_vec() },
            Operation::Close,
        ];
        operations.iter().for_each(|operation| operation.emit(&mut stream));
        for cut in 1..stream.len() {
            let mut session = Session::new(3);
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                session.push(piece).unwrap();
                while let Some(message) = session.next_message(|_| true).unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen[0], Message::Open { rank: 1 });
            let rest = operations.iter().cloned().map(Message::Operation);
            assert!(seen[1..].iter().cloned().eq(rest), "cut {cut}: {seen:?}");
        }
    }

    #[test]
    fn an_abort_is_told_from_a_first_contact() {
        let abort = |first: i32, rank: i32| {
            let mut session = Session::new(4);
            let mut bytes = words(&[first, rank, 6]);
            bytes.extend(b"why?\n\0");
            session.push(&bytes).unwrap();
            session.next_message(|rank| rank != 2).unwrap().unwrap()
        };
        let expected = |code, rank| Message::Abort { code, rank, text: "why?".into() };
        assert_eq!(abort(1, 3), expected(1, 3));
        assert_eq!(abort(8, 2), expected(8, 2));
        assert_eq!(abort(8, 4), expected(8, 4));
        assert_eq!(abort(9, 3), Message::Open { rank: 3 });
    }

    #[test]
    fn an_abort_that_is_cut_short_is_one() {
        let ended = |bytes: &[u8]| {
            let mut session = Session::new(4);
            session.push(bytes).unwrap();
            assert_eq!(session.next_message(|_| true), Ok(None));
            session.end()
        };
        let expected = |code, rank| Some(Message::Abort { code, rank, text: String::new() });
        assert_eq!(ended(&words(&[2])), expected(1, 2));
        assert_eq!(ended(&words(&[-1, 3, 100])), expected(-1, 3));
        assert_eq!(ended(b"ab"), None);
    }

    #[test]
    fn nonsense_is_named() {
        let error = |said: &[i32]| {
            let mut session = Session::new(4);
            session.push(&words(&[8, 0])).unwrap();
            assert_eq!(session.next_message(|_| true), Ok(Some(Message::Open { rank: 0 })));
            session.push(&words(said)).unwrap();
            alloc::format!("{}", session.next_message(|_| true).unwrap_err())
        };
        assert_eq!(error(&[9]), "unknown PMGR opcode 9");
        assert_eq!(error(&[4, 4, 1]), "PMGR root 4 in a job of 4");
        assert_eq!(error(&[5, -1, 1]), "PMGR root -1 in a job of 4");
        let most = "at most 16777216 are allowed in one operation";
        assert_eq!(error(&[7, -5]), alloc::format!("PMGR data of -5 bytes, {most}"));
        assert_eq!(error(&[8, i32::MAX]), alloc::format!("PMGR data of 8589934588 bytes, {most}"));
    }
}
