//! What comes over the links of the tree, plain and sealed, and over the mailboxes of processes.
use crate::chance::{Chance, spoil};
use crate::{Target, Verdict};
use banyan_proto::ids::{Job, NodeId, Peer, Rank};
use banyan_proto::lane::JobId;
use banyan_proto::seal::{Child, HandshakeError, Key, Nonce, Parent, Progress, Seal, TAG_BYTES};
use banyan_proto::tree::{Answer, Ended, FRAME_BYTES_MAX, Frame, Frames, Member, Question, Stream, VERSION};
use banyan_proto::wireup::{Card, Epoch, Message, MessageKind, Params};

/// Kinds of frames and then some.
const KINDS: u8 = 40;
/// A length word.
const PREFIX_BYTES: usize = 4;

fn frames() -> Vec<Frame> {
    let (node, from) = (NodeId(3), Member { job: JobId(0), rank: Rank(7) });
    let publish = Question::Publish { service: b"a service".to_vec(), port: b"a port".to_vec() };
    vec![
        Frame::Hello { node, pid: 4711 },
        Frame::Output { from, stream: Stream::Err, bytes: b"some words\n".to_vec() },
        Frame::Credit { bytes: 65_536 },
        Frame::Board(vec![1; 40]),
        Frame::Ask { node, ask: 5, question: publish },
        Frame::Answer { node, ask: 5, answer: Answer::Found(b"a port".to_vec()) },
        Frame::Begin { job: JobId(1), rest: 0, bytes: vec![2; 30] },
        Frame::Stats { of: from, values: vec![1, 2, 3] },
        Frame::Aborted { who: from, pid: 4712, code: 3, message: "no".into() },
        Frame::AgentLost { node, pid: 4711, ended: Ended::Signal(9) },
        Frame::End { grace_ms: 100 },
        Frame::Signal { signal: 15 },
    ]
}

fn emitted(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.emit(&mut bytes);
    bytes
}

/// The reader of a link between processes of one host.
#[derive(Default)]
pub(crate) struct PlainLink {
    frames: Frames,
    waiting: usize,
}

impl Target for PlainLink {
    fn seeds(&self) -> Vec<Vec<u8>> {
        frames().iter().map(emitted).collect()
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let mut verdict = Verdict::Waiting;
        for piece in input.chunks(1 + chance.below(64)) {
            self.frames.push(piece);
            self.waiting += piece.len();
            while let Some(frame) = self.frames.next_frame() {
                verdict = frame.into();
                self.waiting = piece.len();
                if verdict == Verdict::Refused {
                    *self = PlainLink::default();
                    return verdict;
                }
            }
            assert!(self.waiting < PREFIX_BYTES + FRAME_BYTES_MAX + 2 * piece.len(), "it waits for ever");
        }
        // A length that grew would swallow all that follows.
        if verdict == Verdict::Waiting && chance.below(8) == 0 {
            *self = PlainLink::default();
        }
        verdict
    }
}

/// The parser behind it, with bodies of every kind; what it takes for a frame is one.
pub(crate) struct Bodies;

impl Target for Bodies {
    fn seeds(&self) -> Vec<Vec<u8>> {
        let known = frames().iter().map(|frame| emitted(frame)[PREFIX_BYTES..].to_vec()).collect::<Vec<_>>();
        let more = (0..KINDS).map(|kind| [&[VERSION, kind][..], &[0, 0, 0, 1].repeat(8)].concat());
        known.into_iter().chain(more).collect()
    }

    fn feed(&mut self, input: &[u8], _: &mut Chance) -> Verdict {
        let parsed = Frame::parse(input);
        if let Ok(frame) = &parsed {
            assert_eq!(Frame::parse(&emitted(frame)[PREFIX_BYTES..]).as_ref(), Ok(frame));
        }
        parsed.into()
    }
}

/// The reader of a link to another host: nothing that was spoilt comes out of it.
pub(crate) struct SealedLink {
    frames: Vec<Frame>,
    ends: Option<(Seal, Seal)>,
    before: Vec<u8>,
}

impl SealedLink {
    pub(crate) fn new() -> Self {
        SealedLink { frames: frames(), ends: None, before: Vec::new() }
    }
}

impl Target for SealedLink {
    /// Its inputs follow from those before them: only their number counts here.
    fn seeds(&self) -> Vec<Vec<u8>> {
        vec![vec![0; 16]]
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let (child, parent) =
            self.ends.get_or_insert_with(|| shake_hands(chance, &mut |_, _, _| {}).expect("the key"));
        let frame = &self.frames[chance.below(self.frames.len())];
        let mut right = Vec::new();
        child.emit(frame, &mut right);
        let mut bytes = right.clone();
        if input.iter().any(|byte| *byte != 0) || input.len() != 16 {
            spoil(&mut bytes, std::slice::from_ref(&self.before), chance);
        } else if chance.below(16) == 0 && !self.before.is_empty() {
            bytes.clone_from(&self.before);
        }
        let mut seen = Vec::new();
        for piece in bytes.chunks(1 + chance.below(64)) {
            parent.push(piece);
            while let Some(Ok(frame)) = parent.next_frame() {
                seen.push(frame);
            }
            assert!(parent.held_bytes() <= PREFIX_BYTES + FRAME_BYTES_MAX + TAG_BYTES + piece.len());
        }
        // An untouched frame comes out; a spoilt one does not, unless noise stands behind the whole of it.
        let whole = bytes.starts_with(&right);
        assert_eq!(seen.as_slice(), if whole { std::slice::from_ref(frame) } else { &[] });
        if bytes == right {
            self.before = right;
            return Verdict::Understood;
        }
        let failed = parent.next_frame().is_some();
        self.ends = None;
        if failed { Verdict::Refused } else { Verdict::Waiting }
    }
}

/// What happens to the message of this number on its way.
type OnTheWay<'a> = &'a mut dyn FnMut(usize, &mut Vec<u8>, &mut Chance);

/// A handshake in which every message may be spoilt on its way. Both sides hold the key.
fn shake_hands(chance: &mut Chance, tamper: OnTheWay<'_>) -> Result<(Seal, Seal), Option<HandshakeError>> {
    let key = Key::new(chance.bytes());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut child = Child::new(key.clone(), NodeId(7), Nonce(chance.bytes()), &mut up);
    let mut parent = Parent::new(key, Nonce(chance.bytes()));
    let mut at_parent = None;
    for number in 0..2 {
        tamper(2 * number, &mut up, chance);
        for piece in up.drain(..).as_slice().chunks(1 + chance.below(64)) {
            let wanted = parent.wants();
            let piece = &piece[..piece.len().min(wanted)];
            if let Progress::Done(proven) = parent.push(piece, &mut down).map_err(Some)? {
                at_parent = Some(proven.admit(&mut down));
                break;
            }
        }
        tamper(2 * number + 1, &mut down, chance);
        for piece in down.drain(..).as_slice().chunks(1 + chance.below(64)) {
            let wanted = child.wants();
            let piece = &piece[..piece.len().min(wanted)];
            if let Progress::Done(seal) = child.push(piece, &mut up).map_err(Some)? {
                return Ok((seal, at_parent.expect("the parent came first")));
            }
        }
    }
    Err(None)
}

/// Handshakes with an attacker on the network: one that was tampered with has no end.
pub(crate) struct Handshake;

impl Target for Handshake {
    /// Only their number counts here.
    fn seeds(&self) -> Vec<Vec<u8>> {
        vec![vec![0; 16]]
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let victim = if input == [0; 16] { usize::MAX } else { chance.below(4) };
        let (mut harmed, mut touched) = (false, false);
        let result = shake_hands(chance, &mut |number, message, chance| {
            if number == victim {
                let right = message.clone();
                spoil(message, std::slice::from_ref(&right), chance);
                (harmed, touched) = (!message.starts_with(&right), *message != right);
            }
        });
        // What only has something behind it may be taken, or spoil what follows.
        assert!(result.is_err() || !harmed, "message {victim}");
        assert!(result.is_ok() || touched, "message {victim}");
        match result {
            Err(None) => Verdict::Waiting,
            result => result.into(),
        }
    }
}

/// The datagrams by which two processes connect.
pub(crate) struct Datagrams;

impl Target for Datagrams {
    fn seeds(&self) -> Vec<Vec<u8>> {
        let message = |kind, card: &[u8]| Message {
            kind,
            from: Peer::Rank { job: Job(17), rank: Rank(1) },
            to: Peer::Server { job: Job(18), node: NodeId(2) },
            epoch: Epoch::new(3).expect("not 0"),
            echo: Epoch::new(4),
            stamp_ns: 5,
            params: Params([6; 32]),
            name: 7,
            card: Card::new(card).expect("short"),
        };
        let messages = [
            message(MessageKind::Request, b"a card"),
            message(MessageKind::Reply, b""),
            message(MessageKind::Close, &[8; Card::BYTES_MAX]),
            message(MessageKind::CloseReply, b"c"),
        ];
        messages.iter().map(|message| message.emit().as_bytes().to_vec()).collect()
    }

    fn feed(&mut self, input: &[u8], _: &mut Chance) -> Verdict {
        let parsed = Message::parse(input);
        if let Ok(message) = &parsed {
            assert_eq!(message.emit().as_bytes(), input);
        }
        parsed.into()
    }
}
