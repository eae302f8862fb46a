//! Which ranks live on which node. Pure.
use crate::spec::RANKS_MAX;
use proto::ids::{NodeId, Rank};
use proto::pmi::Mapping;
use std::fmt::Write;

/// In which order ranks are dealt to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapBy {
    /// Consecutive ranks share a node.
    #[default]
    Slot,
    /// Consecutive ranks are on different nodes, round robin.
    Node,
}

/// Which ranks live on which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    map: MapBy,
    /// Ranks on the nodes before each node, and at the end all of them.
    before: Vec<u32>,
    /// Round robin among nodes of different sizes: node and local number of each rank. Empty otherwise.
    dealt: Vec<(NodeId, u32)>,
}

impl Placement {
    /// `ranks` in blocks on `nodes` (or on fewer nodes if there are fewer ranks), as equal as possible, the
    /// larger blocks first.
    pub fn new(ranks: u32, nodes: u32) -> Self {
        Self::even(ranks, nodes, MapBy::Slot)
    }

    /// The same round robin.
    pub fn cyclic(ranks: u32, nodes: u32) -> Self {
        Self::even(ranks, nodes, MapBy::Node)
    }

    /// Blocks of `slots[i]` ranks on node i. Where all slots are not enough, nodes are filled again in the same
    /// way; where they are too many, the last nodes stay unused.
    pub fn slots(ranks: u32, slots: &[u32]) -> Self {
        assert!(ranks > 0 && !slots.is_empty() && slots.iter().all(|slots| *slots > 0));
        let total: u64 = slots.iter().map(|slots| u64::from(*slots)).sum();
        let (rounds, mut left) = ((u64::from(ranks) / total) as u32, (u64::from(ranks) % total) as u32);
        let counts = slots.iter().map(|slots| {
            let last = left.min(*slots);
            left -= last;
            rounds * slots + last
        });
        Self::from_counts(counts.take_while(|count| *count > 0), MapBy::Slot)
    }

    /// Round robin over nodes, none of which gets more than its slots until all are full. Then it begins again.
    pub fn dealt(ranks: u32, slots: &[u32]) -> Self {
        assert!(ranks > 0 && !slots.is_empty() && slots.iter().all(|slots| *slots > 0));
        let total: u64 = slots.iter().map(|slots| u64::from(*slots)).sum();
        let (rounds, left) = ((u64::from(ranks) / total) as u32, (u64::from(ranks) % total) as u32);
        let mut counts: Vec<u32> = slots.iter().map(|slots| rounds * slots).collect();
        for (node, _) in deal(slots).take(left as usize) {
            counts[node.index()] += 1;
        }
        Self::from_counts(counts.into_iter().take_while(|count| *count > 0), MapBy::Node)
    }

    fn even(ranks: u32, nodes: u32, map: MapBy) -> Self {
        assert!(ranks > 0 && nodes > 0);
        let nodes = nodes.min(ranks);
        let (each, more) = (ranks / nodes, ranks % nodes);
        Self::from_counts((0..nodes).map(|node| each + u32::from(node < more)), map)
    }

    fn from_counts(counts: impl Iterator<Item = u32>, map: MapBy) -> Self {
        let mut before = vec![0];
        let mut sum = 0;
        before.extend(counts.map(|count| {
            sum += count;
            sum
        }));
        let mut placement = Placement { map, before, dealt: Vec::new() };
        let (_, counts) = placement.parts();
        let is_even = counts.is_sorted_by(|a, b| a >= b)
            && counts.first().zip(counts.last()).is_none_or(|(first, last)| first - last <= 1);
        if map == MapBy::Node && !is_even {
            placement.dealt = deal(&counts).collect();
        }
        placement
    }

    /// The order, and how many ranks each node has.
    pub(crate) fn parts(&self) -> (MapBy, Vec<u32>) {
        (self.map, (0..self.nodes()).map(|node| self.count(NodeId(node))).collect())
    }

    /// The placement with these parts, if there is one.
    pub(crate) fn from_parts(map: MapBy, counts: &[u32]) -> Option<Self> {
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if counts.contains(&0) || !(1..=u64::from(RANKS_MAX)).contains(&total) {
            return None;
        }
        Some(Self::from_counts(counts.iter().copied(), map))
    }

    /// Ranks in the job.
    pub fn ranks(&self) -> u32 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Nodes in use.
    pub fn nodes(&self) -> u32 {
        self.before.len() as u32 - 1
    }

    /// How many ranks a node has.
    pub fn count(&self, node: NodeId) -> u32 {
        self.before[node.0 as usize + 1] - self.before[node.0 as usize]
    }

    /// The rank with this local number on a node.
    pub fn rank(&self, node: NodeId, local: u32) -> Rank {
        match self.map {
            MapBy::Slot => Rank(self.before[node.0 as usize] + local),
            MapBy::Node if !self.dealt.is_empty() => {
                let at = self.dealt.iter().position(|dealt| *dealt == (node, local));
                Rank(at.expect("a rank of this node") as u32)
            }
            MapBy::Node => Rank(node.0 + local * self.nodes()),
        }
    }

    /// The ranks of a node, in order.
    pub fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = Rank> + '_ {
        let dealt =
            (0..).zip(&self.dealt).filter(move |(_, (at, _))| *at == node).map(|(rank, _)| Rank(rank));
        let reckoned = if self.dealt.is_empty() { self.count(node) } else { 0 };
        (0..reckoned).map(move |local| self.rank(node, local)).chain(dealt)
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        match self.map {
            MapBy::Slot => NodeId(self.before.partition_point(|before| *before <= rank.0) as u32 - 1),
            MapBy::Node if !self.dealt.is_empty() => self.dealt[rank.index()].0,
            MapBy::Node => NodeId(rank.0 % self.nodes()),
        }
    }

    /// The number of a rank among those of its node.
    pub fn local_of(&self, rank: Rank) -> u32 {
        match self.map {
            MapBy::Slot => rank.0 - self.before[self.node_of(rank).0 as usize],
            MapBy::Node if !self.dealt.is_empty() => self.dealt[rank.index()].1,
            MapBy::Node => rank.0 / self.nodes(),
        }
    }

    /// The same, as PMI clients read it. A mapping that is too short is repeated, which is what round robin
    /// needs.
    pub fn mapping(&self) -> Mapping {
        let mut text = String::from("(vector");
        match self.map {
            MapBy::Node if !self.dealt.is_empty() => {
                let mut at = 0;
                while at < self.dealt.len() {
                    let first = self.dealt[at].0.0;
                    let row = (first..).zip(&self.dealt[at..]).take_while(|(node, dealt)| *node == dealt.0.0);
                    let nodes = row.count();
                    write!(text, ",({first},{nodes},1)").expect("a string takes all");
                    at += nodes;
                }
            }
            MapBy::Node => write!(text, ",(0,{},1)", self.nodes()).expect("a string takes all"),
            MapBy::Slot => {
                let mut first = 0;
                while first < self.nodes() {
                    let each = self.count(NodeId(first));
                    let alike = (first..self.nodes()).take_while(|node| self.count(NodeId(*node)) == each);
                    let nodes = alike.count() as u32;
                    write!(text, ",({first},{nodes},{each})").expect("a string takes all");
                    first += nodes;
                }
            }
        }
        text.push(')');
        Mapping::parse(&text).expect("no more blocks than ranks")
    }
}

/// One rank after the other to the next node that has room: node and local number.
fn deal(counts: &[u32]) -> impl Iterator<Item = (NodeId, u32)> + '_ {
    let rounds = counts.iter().copied().max().unwrap_or(0);
    let open = move |round: u32| (0..).zip(counts).filter(move |(_, count)| **count > round);
    (0..rounds).flat_map(move |round| open(round).map(move |(node, _)| (NodeId(node), round)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(placement: &Placement) {
        let ranks = placement.ranks();
        let mapped = placement.mapping().nodes(ranks);
        let mut seen = vec![false; ranks as usize];
        for node in (0..placement.nodes()).map(NodeId) {
            assert!(placement.count(node) > 0);
            for (local, rank) in (0..).zip(placement.ranks_of(node)) {
                assert_eq!((placement.node_of(rank), placement.local_of(rank)), (node, local));
                assert_eq!(mapped[rank.index()], node);
                assert!(!std::mem::replace(&mut seen[rank.index()], true));
            }
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    fn counts(placement: &Placement) -> Vec<u32> {
        (0..placement.nodes()).map(|node| placement.count(NodeId(node))).collect()
    }

    #[test]
    fn every_rank_has_one_place_and_the_mapping_agrees() {
        for (ranks, nodes) in [(1, 1), (2, 5), (7, 3), (8, 2), (64, 8), (65, 8)] {
            check(&Placement::new(ranks, nodes));
            check(&Placement::cyclic(ranks, nodes));
            check(&Placement::slots(ranks, &[1, 3, 2, 2]));
            check(&Placement::dealt(ranks, &[1, 3, 2, 2]));
            check(&Placement::dealt(ranks, &[2, 2]));
        }
    }

    #[test]
    fn even_blocks_are_told_shortly() {
        assert_eq!(Placement::new(7, 3).mapping().to_string(), "(vector,(0,1,3),(1,2,2))");
        assert_eq!(Placement::new(7, 3).mapping(), Mapping::blocks(7, 3));
        assert_eq!(Placement::cyclic(7, 3).mapping().to_string(), "(vector,(0,3,1))");
    }

    #[test]
    fn round_robin_passes_over_nodes_that_are_full() {
        let dealt = Placement::dealt(6, &[1, 3, 2]);
        let nodes: Vec<u32> = (0..6).map(|rank| dealt.node_of(Rank(rank)).0).collect();
        assert_eq!(nodes, [0, 1, 2, 1, 2, 1]);
        assert_eq!(dealt.mapping().to_string(), "(vector,(0,3,1),(1,2,1),(1,1,1))");
        assert_eq!(counts(&Placement::dealt(8, &[1, 3, 2])), [2, 4, 2]);
        assert_eq!(Placement::dealt(5, &[4, 4]), Placement::cyclic(5, 2));
        assert_eq!(counts(&Placement::dealt(1, &[4, 4])), [1]);
        let (map, parts) = dealt.parts();
        assert_eq!(Placement::from_parts(map, &parts), Some(dealt));
    }

    #[test]
    fn slots_are_filled_in_order_and_again_if_they_are_not_enough() {
        assert_eq!(counts(&Placement::slots(5, &[2, 2, 2])), [2, 2, 1]);
        assert_eq!(counts(&Placement::slots(2, &[2, 2])), [2]);
        assert_eq!(counts(&Placement::slots(9, &[1, 3])), [3, 6]);
        assert_eq!(counts(&Placement::slots(5, &[1, 3])), [2, 3]);
    }
}
