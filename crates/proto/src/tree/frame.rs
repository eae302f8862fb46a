//! Frames: what travels on a link of the tree. Length-prefixed, versioned, bounded.
use super::codec;
use super::question::{Answer, Question};
use crate::ids::{NodeId, Rank};
use crate::lane::JobId;
use crate::wire::{Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// Version of the format. Both ends must have the same.
pub const VERSION: u8 = 6;
/// Most bytes of a frame behind its length word.
pub const FRAME_BYTES_MAX: usize = 1 << 18;
/// Most bytes of output in one frame.
pub const OUTPUT_BYTES_MAX: usize = 1 << 16;

/// Most ranks in one frame that tells whom a rank has met.
pub const MET_MAX: usize = 1 << 15;

/// Most ranks in one frame that tells how many bytes went to them.
pub const TRAFFIC_MAX: usize = 1 << 13;

/// Length word, then version and kind.
const PREFIX_BYTES: usize = 4;
const HEADER_BYTES: usize = 2;
/// Kinds are numbered from 1.
const KIND_MAX: u8 = 39;

/// A process of the tree: its job and its rank there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The job: 0 is the one that was started first, the others were spawned.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
}

impl core::fmt::Display for Member {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.job {
            JobId(0) => write!(f, "rank {}", self.rank),
            JobId(job) => write!(f, "rank {} of spawned job {job}", self.rank),
        }
    }
}

/// Where a rank wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// How far a rank's use of PMI went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmiState {
    /// Not an MPI program, or not yet.
    Unused,
    /// Between init and finalize.
    Active,
    /// After finalize.
    Finalized,
}

/// What could not be done when a rank was to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartStep {
    /// Make a process, and what it needs.
    Process,
    /// Enter the working folder.
    Folder,
    /// Execute the program.
    Program,
    /// Execute the program, which is there: what it names as its interpreter or loader is not.
    Interpreter,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Up: an agent is there.
    Hello {
        /// Its node.
        node: NodeId,
        /// Its process.
        pid: i32,
    },
    /// Both ways: the sender lives.
    Beat,
    /// Up: all ranks that a job has on a node have been started; those of a spawned job have also begun PMI.
    Started {
        /// The node.
        node: NodeId,
        /// The job.
        job: JobId,
    },
    /// Up: output of a rank, whole lines where possible.
    Output {
        /// Who wrote it.
        from: Member,
        /// Where.
        stream: Stream,
        /// What.
        bytes: Vec<u8>,
    },
    /// Down: so many more bytes of output may be sent on this link.
    Credit {
        /// Bytes.
        bytes: u32,
    },
    /// Down: input for a rank; no bytes are its end.
    Input {
        /// The rank's node.
        node: NodeId,
        /// Who reads it.
        to: Member,
        /// What.
        bytes: Vec<u8>,
    },
    /// Up: a rank has taken so many bytes of its input.
    InputTaken {
        /// Who.
        from: Member,
        /// Bytes.
        bytes: u32,
    },
    /// Both ways: a message between the boards of two neighbours, encoded.
    Board(Vec<u8>),
    /// Up: a question that only the launcher can answer.
    Ask {
        /// Who asks: the node,
        node: NodeId,
        /// and its number for the question.
        ask: u32,
        /// What.
        question: Question,
    },
    /// Down: the answer.
    Answer {
        /// For this node,
        node: NodeId,
        /// and this question of its own.
        ask: u32,
        /// The answer.
        answer: Answer,
    },
    /// Down: some of the description of the tree, for an agent that does not have it.
    Setup {
        /// Bytes of the description that are still to come.
        rest: u32,
        /// The description, or a part of it.
        bytes: Vec<u8>,
    },
    /// Down: some of the description of a job that begins.
    Begin {
        /// The job.
        job: JobId,
        /// Bytes of the description that are still to come.
        rest: u32,
        /// The description, or a part of it. What is in it is the agents' business.
        bytes: Vec<u8>,
    },
    /// Down: all ranks of a spawned job have ended; it can be forgotten.
    Over {
        /// The job.
        job: JobId,
    },
    /// Down: a job could not be started whole; what there is of it is killed and forgotten.
    Revoke {
        /// The job.
        job: JobId,
    },
    /// Up: the counters of a rank that ended.
    Stats {
        /// The rank.
        of: Member,
        /// Its counters; none if it counted nothing.
        values: Vec<u64>,
    },
    /// Up: ranks of its job that a rank which ended was connected to, at most [`MET_MAX`]; more follow in other frames.
    Met {
        /// The rank.
        of: Member,
        /// The ranks, as words of [`Met`](crate::stats::Met).
        words: Vec<u32>,
    },
    /// Up: how many bytes went between a rank which ended and others of its job, at most [`TRAFFIC_MAX`] of them; more follow in
    /// other frames.
    Traffic {
        /// The rank.
        of: Member,
        /// Three words for each: the rank, what went over the connection, and what it has lent the other to read.
        words: Vec<u64>,
    },
    /// Up: to whom a rank which ended had something to say first, and when.
    Contacts {
        /// The rank.
        of: Member,
        /// How many there were; not all need be listed.
        count: u64,
        /// Rank and milliseconds in turn, at most [`MET_MAX`] words.
        words: Vec<u32>,
    },
    /// Up: the counters of a node's board at the end of the job.
    BoardStats {
        /// The node.
        node: NodeId,
        /// Whose board.
        job: JobId,
        /// Its counters.
        values: Vec<u64>,
    },
    /// Up: the counters of a node's data server at the end of its job.
    ServerStats {
        /// The node.
        node: NodeId,
        /// Whose server.
        job: JobId,
        /// Its counters.
        values: Vec<u64>,
    },
    /// Up: the data server of a node has ended, or could not be started.
    ServerEnded {
        /// The node.
        node: NodeId,
        /// Whose server.
        job: JobId,
        /// Its process.
        pid: i32,
        /// How.
        ended: Ended,
        /// Why it could not be started; nothing if it was.
        reason: String,
    },
    /// Up, before what this rank is the cause of: the other jobs can do without its own.
    Spare {
        /// The rank.
        who: Member,
        /// Had it parted from all of them? If not, they get errors.
        parted: bool,
    },
    /// Up: a rank ended.
    RankEnded {
        /// The rank.
        who: Member,
        /// Its process.
        pid: i32,
        /// How.
        ended: Ended,
        /// How far its use of PMI went.
        pmi: PmiState,
        /// What it wrote last to its standard error.
        words: String,
    },
    /// Up: a rank asks for the end of the job.
    Aborted {
        /// The rank.
        who: Member,
        /// Its process.
        pid: i32,
        /// The code it gave.
        code: i32,
        /// Its words.
        message: String,
    },
    /// Up: a rank broke the PMI protocol.
    BadPmi {
        /// The rank.
        who: Member,
        /// Its process.
        pid: i32,
        /// What is wrong.
        reason: String,
    },
    /// Up: a rank waits in a barrier; sent once by each node.
    FenceBegun {
        /// The rank.
        who: Member,
    },
    /// Up: a rank could not be started.
    StartFailed {
        /// The rank.
        who: Member,
        /// What could not be done.
        step: StartStep,
        /// The system's error number.
        errno: i32,
    },
    /// Up: the agent of a node could not be started.
    AgentMissing {
        /// Its node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// Up: an agent is gone.
    AgentLost {
        /// Its node.
        node: NodeId,
        /// Its process.
        pid: i32,
        /// How it ended.
        ended: Ended,
    },
    /// Up: an agent cannot go on, in its own words or in those of the agent above it.
    AgentFailed {
        /// Its node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// Up: something that a user who asks for words may like to know.
    Note {
        /// Whose.
        node: NodeId,
        /// The words.
        text: String,
    },
    /// Up: something that every user should know, once.
    Warn {
        /// Whose.
        node: NodeId,
        /// The words.
        text: String,
    },
    /// Down: end all processes (politely first, if there is any grace), then yourself.
    End {
        /// Milliseconds between the polite signal and SIGKILL; 0 kills at once.
        grace_ms: u32,
    },
    /// Up: a rank has waited long, and does not know why.
    Waiting {
        /// The rank.
        who: Member,
        /// For how many seconds.
        seconds: u32,
    },
    /// Down: all ranks are asked where they are.
    Where {
        /// The number of the question.
        ask: u32,
    },
    /// Up: where a rank is.
    Here {
        /// The rank.
        who: Member,
        /// The question.
        ask: u32,
        /// A [`Standing`](crate::waits::Standing), encoded.
        standing: Vec<u8>,
    },
    /// Up: how the data server of a node stands.
    ServerHere {
        /// The node.
        node: NodeId,
        /// Whose server.
        job: JobId,
        /// The question.
        ask: u32,
        /// Its process.
        pid: i32,
        /// Can it be reached?
        is_ready: bool,
        /// A [`Standing`](crate::waits::Standing), encoded, as the kernel tells it.
        standing: Vec<u8>,
    },
    /// Up: a node has told of all its ranks.
    ToldAll {
        /// The node.
        node: NodeId,
        /// The question.
        ask: u32,
    },
    /// Down: give this signal to all ranks.
    Signal {
        /// Its number.
        signal: i32,
    },
}

/// Why bytes are no frame. The link is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length word is out of bounds.
    #[error("frame of {0} bytes; {HEADER_BYTES} to {FRAME_BYTES_MAX} are allowed")]
    Length(usize),
    /// Another version.
    #[error("frame of version {0}, this is version {VERSION}")]
    Version(u8),
    /// No such kind.
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    /// The body does not fit its kind.
    #[error("frame of kind {0} with a malformed body")]
    Body(u8),
}

impl Frame {
    /// Appends the frame with its length word. A frame that would be too long is our own mistake.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        out.push(VERSION);
        codec::write(&mut Writer(out), self);
        let length = out.len() - start - PREFIX_BYTES;
        assert!(length <= FRAME_BYTES_MAX, "frame of {length} bytes");
        out[start..start + PREFIX_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    }

    /// Parses what follows a length word.
    pub fn parse(bytes: &[u8]) -> Result<Frame, FrameError> {
        let [version, kind, body @ ..] = bytes else { return Err(FrameError::Length(bytes.len())) };
        if *version != VERSION {
            return Err(FrameError::Version(*version));
        }
        if !(1..=KIND_MAX).contains(kind) {
            return Err(FrameError::Kind(*kind));
        }
        let mut reader = Reader::new(body);
        let frame = codec::read(&mut reader, *kind).ok_or(FrameError::Body(*kind))?;
        if reader.is_at_end() { Ok(frame) } else { Err(FrameError::Body(*kind)) }
    }
}

/// Cuts a byte stream into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Appends what was read. Take all frames before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame; `None` until more is pushed. After an error the stream is of no use.
    pub fn next_frame(&mut self) -> Option<Result<Frame, FrameError>> {
        let rest = &self.bytes[self.taken..];
        let (prefix, rest) = rest.split_first_chunk::<PREFIX_BYTES>()?;
        let length = u32::from_le_bytes(*prefix) as usize;
        if !(HEADER_BYTES..=FRAME_BYTES_MAX).contains(&length) {
            return Some(Err(FrameError::Length(length)));
        }
        let body = rest.get(..length)?;
        self.taken += PREFIX_BYTES + length;
        Some(Frame::parse(body))
    }
}
