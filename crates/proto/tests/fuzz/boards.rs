//! What the boards of neighbouring nodes tell each other, in the middle of a tree.
use crate::chance::Chance;
use crate::{Target, Verdict};
use banyan_proto::board::{self, Board, BoardConfig, BoardKind, Entry};
use banyan_proto::ids::NodeId;
use banyan_proto::lane::{Bytes, Generation, Head, JobId, MESSAGE_BYTES_MAX, Neighbour, Place};
use banyan_proto::tree::Shape;

/// The node under test is this one of seven, with a parent and two children, and two processes on each.
const NODE: NodeId = NodeId(1);
const NEIGHBOURS: [Neighbour; 3] =
    [Neighbour::Parent, Neighbour::Child(NodeId(3)), Neighbour::Child(NodeId(4))];
/// Bytes that a board under test may keep.
const BOARD_BYTES: usize = 64 << 10;
/// Actions that follow from one input, at most.
const ACTIONS_MAX: usize = 1000;

fn place() -> Place {
    let nodes: Vec<NodeId> = (0..14).map(|rank| NodeId(rank / 2)).collect();
    Place::new(Shape::new(7, 2), NODE, &nodes)
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes())
}

/// The next number on each link.
type Numbers = [u64; NEIGHBOURS.len()];

/// A head that is right, so that what is behind it counts; seldom the one that came.
fn right_head(head: &mut Head, from: usize, numbers: &mut Numbers, chance: &mut Chance) {
    if chance.below(32) != 0 {
        *head = Head { sequence: numbers[from], ..Head::default() };
        numbers[from] += 1;
    }
}

/// Boards of all kinds.
pub(crate) struct Boards {
    board: Board,
    numbers: Numbers,
}

impl Boards {
    pub(crate) fn new() -> Self {
        Self::of_kind(BoardKind::HcmabLru)
    }

    fn of_kind(kind: BoardKind) -> Self {
        let config =
            BoardConfig { bytes_max: BOARD_BYTES, ..BoardConfig::new(JobId(0), Generation(0), kind) };
        Boards { board: Board::new(config, &place()), numbers: [0; 3] }
    }

    /// The node's own processes go on meanwhile.
    fn live(&mut self, chance: &mut Chance) {
        let client = chance.below(2) as u32;
        let key = format!("key-{}", chance.below(8));
        let _ = match chance.below(3) {
            0 => self.board.put(client, key.as_bytes(), b"a value"),
            1 => self.board.get(client, key.as_bytes()).map(drop),
            _ => self.board.enter(client),
        };
    }
}

impl Target for Boards {
    fn seeds(&self) -> Vec<Vec<u8>> {
        let entry = |key: &str| Entry::new(bytes(key), bytes("a value"));
        let entries = || [entry("key-1"), entry("key-2"), entry("key-3")].into();
        let bodies = [
            board::Body::Put(entry("key-4")),
            board::Body::Part(entries()),
            board::Body::Enter { fence: 0, entries: entries() },
            board::Body::Leave { fence: 0, entries: entries() },
            board::Body::Stale([bytes("key-1"), bytes("key-5")].into()),
            board::Body::Get { key: bytes("key-6") },
            board::Body::Found { key: bytes("key-6"), value: bytes("a value") },
            board::Body::Absent { key: bytes("key-7") },
        ];
        let encoded = |body| {
            let mut out = Vec::new();
            board::Message { head: Head::default(), body }.encode(&mut out);
            out
        };
        bodies.into_iter().map(encoded).collect()
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let mut message = match board::Message::decode(input) {
            Ok(message) => message,
            Err(_) => return Verdict::Refused,
        };
        self.live(chance);
        let from = chance.below(NEIGHBOURS.len());
        right_head(&mut message.head, from, &mut self.numbers, chance);
        let heard = self.board.hear(NEIGHBOURS[from], message);
        let actions = std::iter::from_fn(|| self.board.poll_action()).count();
        assert!(actions < ACTIONS_MAX, "{actions} actions");
        assert!(self.board.counters().bytes_peak <= (BOARD_BYTES + MESSAGE_BYTES_MAX) as u64);
        if heard.is_err() {
            *self = Self::of_kind(BoardKind::ALL[chance.below(BoardKind::ALL.len())]);
        }
        heard.into()
    }
}
