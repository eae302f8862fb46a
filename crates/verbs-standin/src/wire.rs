//! What goes between open devices: requests and replies, in pieces that fit a packet of a socket.

/// Bytes of a message that go into a frame.
pub(crate) const PIECE_BYTES: usize = 32 << 10;
/// Bytes of a frame, at most.
pub(crate) const FRAME_BYTES_MAX: usize = PIECE_BYTES + 256;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const OPEN: u8 = 3;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Send,
    Write,
    Read,
    CompareSwap,
    FetchAdd,
}

impl Action {
    const ALL: [Action; 5] =
        [Action::Send, Action::Write, Action::Read, Action::CompareSwap, Action::FetchAdd];
}

/// Where a frame goes, as its sender has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub lid: u16,
    pub gid: Option<[u8; 16]>,
}

/// A request, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Named in the reply.
    pub flight: u64,
    /// The same each time that it is asked for.
    pub work: u64,
    pub action: Action,
    /// The queue pairs of the sender and the receiver.
    pub from: u32,
    pub to: u32,
    pub place: Place,
    /// Where the sender is, for what goes before a datagram.
    pub source: Place,
    /// The first number of its packets, of a connected one; the key, of a datagram.
    pub psn_or_key: u32,
    pub datagram: bool,
    pub solicited: bool,
    pub immediate: Option<u32>,
    pub addr: u64,
    pub rkey: u32,
    /// What an atomic compares with or adds, and what it swaps in.
    pub operand: u64,
    pub swap: u64,
    /// The shared receive queue, and (if another device passes it on) its domain.
    pub srq: u32,
    pub domain: Option<u64>,
    /// Bytes of the message, or those that are to be read.
    pub bytes: u32,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// There is no receive: ask again after the time of this code.
    NoReceive(u8),
    /// There is no such queue pair, or it does not receive. (A device says nothing then.)
    Absent,
    /// The port is down. (A device says nothing then.)
    Silent,
    /// Registered memory does not allow it.
    Refused,
    /// It makes no sense.
    Invalid,
    /// The receiver could not do it.
    Failed,
}

/// A reply, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub flight: u64,
    pub answer: Answer,
    /// Bytes that were read.
    pub bytes: u32,
}

/// Asks for a receiving half of XRC, which a process of the domain has. (The answer is descriptors.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub number: u32,
    pub domain: u64,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Request(Request),
    Reply(Reply),
    Open(Open),
}

impl Head {
    /// Bytes that come with it, in all of its frames.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Head::Request(request) if matches!(request.action, Action::Send | Action::Write) => {
                request.bytes as usize
            }
            Head::Request(_) | Head::Open(_) => 0,
            Head::Reply(reply) => reply.bytes as usize,
        }
    }

    /// The frames of a message.
    pub(crate) fn frames(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        debug_assert_eq!(bytes.len(), self.bytes());
        let frame = |piece: &[u8]| {
            let mut frame = Vec::with_capacity(256 + piece.len());
            self.write(&mut frame);
            frame.extend_from_slice(piece);
            frame
        };
        match bytes.is_empty() {
            true => vec![frame(&[])],
            false => bytes.chunks(PIECE_BYTES).map(frame).collect(),
        }
    }

    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Head::Request(request) => {
                let action = Action::ALL.iter().position(|action| *action == request.action);
                to.extend([REQUEST, action.unwrap_or(0) as u8]);
                to.extend([u8::from(request.datagram), u8::from(request.solicited)]);
                to.extend([u8::from(request.immediate.is_some()), u8::from(request.domain.is_some())]);
                for word in [request.from, request.to, request.psn_or_key, request.rkey, request.srq] {
                    to.extend(word.to_le_bytes());
                }
                to.extend(request.immediate.unwrap_or(0).to_le_bytes());
                to.extend(request.bytes.to_le_bytes());
                for word in [request.flight, request.work, request.addr, request.operand, request.swap] {
                    to.extend(word.to_le_bytes());
                }
                to.extend(request.domain.unwrap_or(0).to_le_bytes());
                for place in [request.place, request.source] {
                    to.extend(place.lid.to_le_bytes());
                    to.push(u8::from(place.gid.is_some()));
                    to.extend(place.gid.unwrap_or([0; 16]));
                }
            }
            Head::Reply(reply) => {
                let (code, wait) = match reply.answer {
                    Answer::Done => (0, 0),
                    Answer::NoReceive(wait) => (1, wait),
                    Answer::Absent => (2, 0),
                    Answer::Silent => (3, 0),
                    Answer::Refused => (4, 0),
                    Answer::Invalid => (5, 0),
                    Answer::Failed => (6, 0),
                };
                to.extend([REPLY, code, wait]);
                to.extend(reply.flight.to_le_bytes());
                to.extend(reply.bytes.to_le_bytes());
            }
            Head::Open(open) => {
                to.push(OPEN);
                to.extend(open.number.to_le_bytes());
                to.extend(open.domain.to_le_bytes());
            }
        }
    }

    /// The head of a frame, and the bytes behind it. `None`: no device of ours sends this.
    pub(crate) fn parse(frame: &[u8]) -> Option<(Head, &[u8])> {
        let mut reader = Reader(frame);
        let head = match reader.byte()? {
            REQUEST => Head::Request(reader.request()?),
            REPLY => Head::Reply(reader.reply()?),
            OPEN => Head::Open(Open { number: reader.word()?, domain: reader.long()? }),
            _ => return None,
        };
        Some((head, reader.0))
    }
}

/// Takes values off the beginning of a frame.
struct Reader<'f>(&'f [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn place(&mut self) -> Option<Place> {
        let lid = self.take().map(u16::from_le_bytes)?;
        let (global, gid) = (self.flag()?, self.take()?);
        Some(Place { lid, gid: global.then_some(gid) })
    }

    fn request(&mut self) -> Option<Request> {
        let action = *Action::ALL.get(usize::from(self.byte()?))?;
        let (datagram, solicited) = (self.flag()?, self.flag()?);
        let (with_immediate, with_domain) = (self.flag()?, self.flag()?);
        let (from, to, psn_or_key, rkey) = (self.word()?, self.word()?, self.word()?, self.word()?);
        let (srq, immediate, bytes) = (self.word()?, self.word()?, self.word()?);
        let (flight, work, addr) = (self.long()?, self.long()?, self.long()?);
        let (operand, swap) = (self.long()?, self.long()?);
        let domain = self.long()?;
        let (place, source) = (self.place()?, self.place()?);
        let immediate = with_immediate.then_some(immediate);
        let domain = with_domain.then_some(domain);
        Some(Request {
            flight,
            work,
            action,
            from,
            to,
            place,
            source,
            psn_or_key,
            datagram,
            solicited,
            immediate,
            addr,
            rkey,
            operand,
            swap,
            srq,
            domain,
            bytes,
        })
    }

    fn reply(&mut self) -> Option<Reply> {
        let (code, wait) = (self.byte()?, self.byte()?);
        let answer = match code {
            0 => Answer::Done,
            1 => Answer::NoReceive(wait),
            2 => Answer::Absent,
            3 => Answer::Silent,
            4 => Answer::Refused,
            5 => Answer::Invalid,
            6 => Answer::Failed,
            _ => return None,
        };
        Some(Reply { answer, flight: self.long()?, bytes: self.word()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_as_frames() {
        let place = Place { lid: 9, gid: Some([7; 16]) };
        let request = Request {
            flight: 1 << 40,
            work: 1 << 41,
            action: Action::CompareSwap,
            from: 1,
            to: 2,
            place,
            source: Place::default(),
            psn_or_key: 3,
            datagram: true,
            solicited: true,
            immediate: Some(4),
            addr: 5,
            rkey: 6,
            operand: 7,
            swap: 8,
            srq: 9,
            domain: Some(10),
            bytes: 8,
        };
        let reply = Reply { flight: 3, answer: Answer::NoReceive(12), bytes: 0 };
        let open = Open { number: 5, domain: 6 };
        for head in [Head::Request(request), Head::Reply(reply), Head::Open(open)] {
            let frames = head.frames(&[]);
            assert_eq!(Head::parse(&frames[0]), Some((head, &[][..])));
            (0..frames[0].len()).for_each(|len| assert_eq!(Head::parse(&frames[0][..len]), None));
        }
    }

    #[test]
    fn long_messages_are_cut() {
        let bytes: Vec<u8> = (0..PIECE_BYTES + 1).map(|at| at as u8).collect();
        let head = Head::Reply(Reply { flight: 3, answer: Answer::Done, bytes: bytes.len() as u32 });
        let frames = head.frames(&bytes);
        assert!(frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
        let pieces = frames.iter().map(|frame| Head::parse(frame).unwrap().1.to_vec());
        assert_eq!(pieces.collect::<Vec<_>>().concat(), bytes);
    }
}
