//! Frames: what travels on a link of the tree. Length-prefixed, versioned, bounded.
use crate::ids::{NodeId, Rank};
use alloc::string::String;
use alloc::vec::Vec;

/// Version of the format. Both ends must have the same.
pub const VERSION: u8 = 1;
/// Most bytes of a frame behind its length word.
pub const FRAME_BYTES_MAX: usize = 1 << 18;
/// Most bytes of output in one frame.
pub const OUTPUT_BYTES_MAX: usize = 1 << 16;

/// Length word, then version and kind.
const PREFIX_BYTES: usize = 4;
const HEADER_BYTES: usize = 2;
/// Kinds are numbered from 1.
const KIND_MAX: u8 = 19;

/// A key of the board and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
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

/// What a rank asks of the name service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRequest {
    /// Publish a port under a service name.
    Publish {
        /// Service name.
        service: Vec<u8>,
        /// Port.
        port: Vec<u8>,
    },
    /// Find a port.
    Lookup {
        /// Service name.
        service: Vec<u8>,
    },
    /// Withdraw a service.
    Unpublish {
        /// Service name.
        service: Vec<u8>,
    },
}

/// What the name service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameAnswer {
    /// Published or withdrawn.
    Done,
    /// The port.
    Found(Vec<u8>),
    /// Nothing under that name.
    NotFound,
    /// The name is taken.
    Taken,
    /// No room for another name.
    Full,
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
    /// Up: all ranks of a node have been started.
    Started {
        /// The node.
        node: NodeId,
    },
    /// Up: output of a rank, whole lines where possible.
    Output {
        /// Who wrote it.
        rank: Rank,
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
    /// Both ways: keys of a phase of the board.
    Entries {
        /// Number of the barrier that ends the phase.
        fence: u32,
        /// The keys.
        entries: Vec<Entry>,
    },
    /// Up: all below are in the barrier.
    FenceUp {
        /// Number of the barrier.
        fence: u32,
    },
    /// Down: all are in the barrier.
    FenceDown {
        /// Number of the barrier.
        fence: u32,
    },
    /// Up: a question to the name service.
    Name {
        /// Who asks: the node,
        node: NodeId,
        /// and the local rank.
        slot: u32,
        /// What.
        request: NameRequest,
    },
    /// Down: its answer.
    NameReply {
        /// For this node,
        node: NodeId,
        /// and this local rank.
        slot: u32,
        /// The answer.
        answer: NameAnswer,
    },
    /// Up: the counters of a rank that ended.
    Stats {
        /// The rank.
        rank: Rank,
        /// Its counters.
        values: Vec<u64>,
    },
    /// Up: a rank ended.
    RankEnded {
        /// The rank.
        rank: Rank,
        /// Its process.
        pid: i32,
        /// How.
        ended: Ended,
        /// How far its use of PMI went.
        pmi: PmiState,
    },
    /// Up: a rank asks for the end of the job.
    Aborted {
        /// The rank.
        rank: Rank,
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
        rank: Rank,
        /// Its process.
        pid: i32,
        /// What is wrong.
        reason: String,
    },
    /// Up: a rank waits in a barrier; sent once by each node.
    FenceBegun {
        /// The rank.
        rank: Rank,
    },
    /// Up: a rank could not be started.
    StartFailed {
        /// The rank.
        rank: Rank,
        /// The system's error number.
        errno: i32,
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
    /// Up: an agent cannot go on, in its own words.
    AgentFailed {
        /// Its node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// Down: end all processes (politely first, if there is any grace), then yourself.
    End {
        /// Milliseconds between the polite signal and SIGKILL; 0 kills at once.
        grace_ms: u32,
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
        self.emit_body(&mut Writer { out });
        let length = out.len() - start - PREFIX_BYTES;
        assert!(length <= FRAME_BYTES_MAX, "frame of {length} bytes");
        out[start..start + PREFIX_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    }

    fn emit_body(&self, w: &mut Writer<'_>) {
        match self {
            Frame::Hello { node, pid } => w.kind(1).u32(node.0).i32(*pid),
            Frame::Started { node } => w.kind(2).u32(node.0),
            Frame::Output { rank, stream, bytes } => w.kind(3).u32(rank.0).u8(*stream as u8).bytes(bytes),
            Frame::Credit { bytes } => w.kind(4).u32(*bytes),
            Frame::Entries { fence, entries } => {
                w.kind(5).u32(*fence).u32(entries.len() as u32);
                for Entry { key, value } in entries {
                    w.bytes(key).bytes(value);
                }
                w
            }
            Frame::FenceUp { fence } => w.kind(6).u32(*fence),
            Frame::FenceDown { fence } => w.kind(7).u32(*fence),
            Frame::Name { node, slot, request } => w.kind(8).u32(node.0).u32(*slot).name_request(request),
            Frame::NameReply { node, slot, answer } => w.kind(9).u32(node.0).u32(*slot).name_answer(answer),
            Frame::Stats { rank, values } => {
                w.kind(10).u32(rank.0).u32(values.len() as u32);
                for value in values {
                    w.out.extend_from_slice(&value.to_le_bytes());
                }
                w
            }
            Frame::RankEnded { rank, pid, ended, pmi } => {
                w.kind(11).u32(rank.0).i32(*pid).ended(*ended).u8(*pmi as u8)
            }
            Frame::Aborted { rank, pid, code, message } => {
                w.kind(12).u32(rank.0).i32(*pid).i32(*code).bytes(message.as_bytes())
            }
            Frame::StartFailed { rank, errno } => w.kind(13).u32(rank.0).i32(*errno),
            Frame::AgentLost { node, pid, ended } => w.kind(14).u32(node.0).i32(*pid).ended(*ended),
            Frame::AgentFailed { node, reason } => w.kind(15).u32(node.0).bytes(reason.as_bytes()),
            Frame::End { grace_ms } => w.kind(16).u32(*grace_ms),
            Frame::Signal { signal } => w.kind(17).i32(*signal),
            Frame::FenceBegun { rank } => w.kind(19).u32(rank.0),
            Frame::BadPmi { rank, pid, reason } => w.kind(18).u32(rank.0).i32(*pid).bytes(reason.as_bytes()),
        };
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
        let mut reader = Reader { rest: body };
        let frame = reader.frame(*kind).ok_or(FrameError::Body(*kind))?;
        if reader.rest.is_empty() { Ok(frame) } else { Err(FrameError::Body(*kind)) }
    }
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.out.push(value);
        self
    }

    fn kind(&mut self, kind: u8) -> &mut Self {
        self.u8(kind)
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn i32(&mut self, value: i32) -> &mut Self {
        self.u32(value as u32)
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.out.extend_from_slice(bytes);
        self
    }

    fn ended(&mut self, ended: Ended) -> &mut Self {
        match ended {
            Ended::Exit(code) => self.u8(0).i32(code),
            Ended::Signal(signal) => self.u8(1).i32(signal),
        }
    }

    fn name_request(&mut self, request: &NameRequest) -> &mut Self {
        match request {
            NameRequest::Publish { service, port } => self.u8(0).bytes(service).bytes(port),
            NameRequest::Lookup { service } => self.u8(1).bytes(service),
            NameRequest::Unpublish { service } => self.u8(2).bytes(service),
        }
    }

    fn name_answer(&mut self, answer: &NameAnswer) -> &mut Self {
        match answer {
            NameAnswer::Done => self.u8(0),
            NameAnswer::Found(port) => self.u8(1).bytes(port),
            NameAnswer::NotFound => self.u8(2),
            NameAnswer::Taken => self.u8(3),
            NameAnswer::Full => self.u8(4),
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn frame(&mut self, kind: u8) -> Option<Frame> {
        Some(match kind {
            1 => Frame::Hello { node: self.node()?, pid: self.i32()? },
            2 => Frame::Started { node: self.node()? },
            3 => Frame::Output { rank: self.rank()?, stream: self.stream()?, bytes: self.vec()? },
            4 => Frame::Credit { bytes: self.u32()? },
            5 => Frame::Entries { fence: self.u32()?, entries: self.entries()? },
            6 => Frame::FenceUp { fence: self.u32()? },
            7 => Frame::FenceDown { fence: self.u32()? },
            8 => Frame::Name { node: self.node()?, slot: self.u32()?, request: self.name_request()? },
            9 => Frame::NameReply { node: self.node()?, slot: self.u32()?, answer: self.name_answer()? },
            10 => Frame::Stats { rank: self.rank()?, values: self.values()? },
            11 => {
                let (rank, pid) = (self.rank()?, self.i32()?);
                Frame::RankEnded { rank, pid, ended: self.ended()?, pmi: self.pmi()? }
            }
            12 => {
                let (rank, pid) = (self.rank()?, self.i32()?);
                Frame::Aborted { rank, pid, code: self.i32()?, message: self.text()? }
            }
            13 => Frame::StartFailed { rank: self.rank()?, errno: self.i32()? },
            14 => Frame::AgentLost { node: self.node()?, pid: self.i32()?, ended: self.ended()? },
            15 => Frame::AgentFailed { node: self.node()?, reason: self.text()? },
            16 => Frame::End { grace_ms: self.u32()? },
            17 => Frame::Signal { signal: self.i32()? },
            18 => Frame::BadPmi { rank: self.rank()?, pid: self.i32()?, reason: self.text()? },
            19 => Frame::FenceBegun { rank: self.rank()? },
            _ => return None,
        })
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.u32().map(|value| value as i32)
    }

    fn node(&mut self) -> Option<NodeId> {
        self.u32().map(NodeId)
    }

    fn rank(&mut self) -> Option<Rank> {
        self.u32().map(Rank)
    }

    fn vec(&mut self) -> Option<Vec<u8>> {
        let bytes = self.u32()? as usize;
        self.take(bytes).map(<[u8]>::to_vec)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.vec()?).ok()
    }

    /// As many items as announced. Nothing is reserved ahead: the announcement may be a lie.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.u32()?).map(|_| item(self)).collect()
    }

    fn entries(&mut self) -> Option<Vec<Entry>> {
        self.list(|reader| Some(Entry { key: reader.vec()?, value: reader.vec()? }))
    }

    fn values(&mut self) -> Option<Vec<u64>> {
        self.list(Self::u64)
    }

    fn stream(&mut self) -> Option<Stream> {
        [Stream::Out, Stream::Err].get(usize::from(self.u8()?)).copied()
    }

    fn pmi(&mut self) -> Option<PmiState> {
        [PmiState::Unused, PmiState::Active, PmiState::Finalized].get(usize::from(self.u8()?)).copied()
    }

    fn ended(&mut self) -> Option<Ended> {
        match self.u8()? {
            0 => Some(Ended::Exit(self.i32()?)),
            1 => Some(Ended::Signal(self.i32()?)),
            _ => None,
        }
    }

    fn name_request(&mut self) -> Option<NameRequest> {
        match self.u8()? {
            0 => Some(NameRequest::Publish { service: self.vec()?, port: self.vec()? }),
            1 => Some(NameRequest::Lookup { service: self.vec()? }),
            2 => Some(NameRequest::Unpublish { service: self.vec()? }),
            _ => None,
        }
    }

    fn name_answer(&mut self) -> Option<NameAnswer> {
        Some(match self.u8()? {
            0 => NameAnswer::Done,
            1 => NameAnswer::Found(self.vec()?),
            2 => NameAnswer::NotFound,
            3 => NameAnswer::Taken,
            4 => NameAnswer::Full,
            _ => return None,
        })
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
