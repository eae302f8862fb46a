//! For tests: links in virtual time. Each delivers in order, at its own pace; a seed decides the pace.
use crate::ids::NodeId;
use alloc::collections::BTreeMap;

/// A small generator (xorshift64*), so that a failing seed can be replayed.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

/// Longest time a message takes when nothing is before it.
const LATENCY_NS_MAX: usize = 100_000;

/// Says the seed when a test panics.
struct SeedNote(u64);

impl Drop for SeedNote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("failed with seed {}", self.0);
        }
    }
}

/// Everything under way between nodes.
pub(crate) struct Wires {
    pub(crate) now_ns: u64,
    pub(crate) chance: Chance,
    under_way: BTreeMap<(u64, u64), (NodeId, NodeId, alloc::vec::Vec<u8>)>,
    last_on_link: BTreeMap<(NodeId, NodeId), u64>,
    sent: u64,
    _note: SeedNote,
}

impl Wires {
    pub(crate) fn new(seed: u64) -> Self {
        Wires {
            now_ns: 0,
            chance: Chance::new(seed),
            under_way: BTreeMap::new(),
            last_on_link: BTreeMap::new(),
            sent: 0,
            _note: SeedNote(seed),
        }
    }

    pub(crate) fn send(&mut self, from: NodeId, to: NodeId, bytes: alloc::vec::Vec<u8>) {
        let last = self.last_on_link.entry((from, to)).or_default();
        let at_ns = (self.now_ns + self.chance.below(LATENCY_NS_MAX) as u64).max(*last);
        *last = at_ns;
        self.under_way.insert((at_ns, self.sent), (from, to, bytes));
        self.sent += 1;
    }

    /// The next message to arrive: from, to, what.
    pub(crate) fn next(&mut self) -> Option<(NodeId, NodeId, alloc::vec::Vec<u8>)> {
        let ((at_ns, _), message) = self.under_way.pop_first()?;
        self.now_ns = at_ns;
        Some(message)
    }
}

#[test]
fn links_keep_their_order_and_overtake_each_other() {
    let mut wires = Wires::new(1);
    for i in 0..50 {
        wires.send(NodeId(0), NodeId(1), alloc::vec![i]);
        wires.send(NodeId(0), NodeId(2), alloc::vec![i]);
    }
    let (mut seen, mut overtaken) = ([0, 0], false);
    while let Some((_, to, bytes)) = wires.next() {
        let link = to.index() - 1;
        assert_eq!(bytes, [seen[link]]);
        seen[link] += 1;
        overtaken |= seen[1] > seen[0];
    }
    assert!(seen == [50, 50] && overtaken);
}
