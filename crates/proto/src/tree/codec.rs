//! The bodies of frames, field by field: numbers little-endian, bytes behind their length.
use super::frame::{Ended, Entry, Frame, NameAnswer, NameRequest, PmiState, Stream};
use crate::ids::{NodeId, Rank};
use alloc::string::String;
use alloc::vec::Vec;

/// Appends the fields of frames.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        Writer { out }
    }

    /// Kind and body.
    pub(super) fn frame(&mut self, frame: &Frame) {
        let w = self;
        match frame {
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

/// Takes the fields of frames. `None` is always a malformed body.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn frame(&mut self, kind: u8) -> Option<Frame> {
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
