//! How many bytes went between ranks, from what both of each pair know.
use proto::tree::TRAFFIC_MAX;
use std::collections::BTreeMap;

/// Pairs that are kept: those of some thousand ranks that all talk to all.
const PAIRS_MAX: usize = 1 << 24;

/// By pairs of ranks, the lower first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(BTreeMap<(u32, u32), Pair>);

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// Over the connection, both ways: as the one says who has seen more of it.
    carried: u64,
    /// Beside it: what each has lent the other.
    lent: u64,
}

impl Traffic {
    /// What a rank says; three words for each of the others.
    pub(crate) fn add(&mut self, of: u32, ranks: u32, words: &[u64]) {
        for entry in words.chunks_exact(3).take(TRAFFIC_MAX) {
            let Ok(other) = u32::try_from(entry[0]) else { continue };
            if other == of || other >= ranks || self.0.len() >= PAIRS_MAX {
                continue;
            }
            let pair = self.0.entry((of.min(other), of.max(other))).or_default();
            pair.carried = pair.carried.max(entry[1]);
            pair.lent = pair.lent.saturating_add(entry[2]);
        }
    }

    /// Bytes of each pair that had any.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = ((u32, u32), u64)> + '_ {
        self.0.iter().map(|(ranks, pair)| (*ranks, pair.carried.saturating_add(pair.lent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_of_a_pair_are_heard_and_nonsense_is_not() {
        let mut traffic = Traffic::default();
        traffic.add(1, 4, &[0, 128, 1000, 3, 64, 0, 1, 9, 9, 4, 9, 9, u64::MAX, 9, 9, 2, 9]);
        traffic.add(0, 4, &[1, 192, 500]);
        assert_eq!(traffic.pairs().collect::<Vec<_>>(), [((0, 1), 1692), ((1, 3), 64)]);
    }
}
