//! The placement of ranks on nodes, in memory that follows the number of blocks, not of ranks.
//!
//! A placement is a list of blocks, repeated until all ranks are placed: just what PMI calls the process mapping,
//! whose text is [`Placement`]'s text too. A million ranks in the usual order are one block of sixteen bytes.
mod text;

pub use text::BLOCKS_MAX;

use crate::ids::{NodeId, Rank};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Which ranks live on which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By first rank; none is empty, the first begins at 0 and each where its predecessor ends.
    blocks: Vec<Block>,
    /// Ranks in all blocks: where the repetition begins.
    period: u32,
    ranks: u32,
    /// The highest node that has a rank, and one.
    nodes: u32,
}

/// `per_node` consecutive ranks on each of some consecutive nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first_rank: u32,
    first_node: u32,
    nodes: u32,
    per_node: u32,
}

/// A block as it is written: so many consecutive ranks on each of some consecutive nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First node of the block.
    pub first_node: u32,
    /// Nodes in the block.
    pub nodes: u32,
    /// Ranks on each of them.
    pub per_node: u32,
}

/// Why there is no such placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not the text of a placement.
    #[error("'{0}' is not a process mapping of the form (vector,(first,nodes,per_node),...)")]
    Text(String),
    /// No rank in any block, or none to be placed.
    #[error("its blocks hold no rank")]
    Empty,
    /// Numbers of nodes past what a number holds.
    #[error("a block of {nodes} nodes from node {first_node} on")]
    TooManyNodes {
        /// First node of the block.
        first_node: u32,
        /// Nodes in the block.
        nodes: u32,
    },
}

impl Placement {
    /// `ranks` in blocks on `nodes` (or on fewer nodes if there are fewer ranks), as equal as possible, the
    /// larger blocks first.
    pub fn new(ranks: u32, nodes: u32) -> Self {
        assert!(ranks > 0 && nodes > 0);
        let nodes = nodes.min(ranks);
        let (each, more) = (ranks / nodes, ranks % nodes);
        let larger = Row { first_node: 0, nodes: more, per_node: each + 1 };
        Self::ours(ranks, &[larger, Row { first_node: more, nodes: nodes - more, per_node: each }])
    }

    /// All ranks on node 0.
    pub fn one_node(ranks: u32) -> Self {
        Self::new(ranks, 1)
    }

    /// The nodes take turns.
    pub fn cyclic(ranks: u32, nodes: u32) -> Self {
        assert!(ranks > 0 && nodes > 0);
        Self::ours(ranks, &[Row { first_node: 0, nodes: nodes.min(ranks), per_node: 1 }])
    }

    /// Blocks of `slots[i]` ranks on node i. Where all slots are not enough, nodes are filled again in the same
    /// way; where they are too many, the last nodes stay unused.
    pub fn slots(ranks: u32, slots: &[u32]) -> Self {
        let (rounds, mut left) = rounds(ranks, slots);
        let counts = slots.iter().map(|slots| {
            let last = left.min(*slots);
            left -= last;
            rounds * slots + last
        });
        let mut rows: Vec<Row> = Vec::new();
        for (node, count) in (0..).zip(counts.take_while(|count| *count > 0)) {
            match rows.last_mut() {
                Some(last) if last.per_node == count => last.nodes += 1,
                _ => rows.push(Row { first_node: node, nodes: 1, per_node: count }),
            }
        }
        Self::ours(ranks, &rows)
    }

    /// The nodes take turns, and none gets more than its slots until all are full. Then it begins again.
    pub fn dealt(ranks: u32, slots: &[u32]) -> Self {
        let (rounds, left) = rounds(ranks, slots);
        let mut counts: Vec<u32> = slots.iter().map(|slots| rounds * slots).collect();
        for node in deal(slots).take(left as usize) {
            counts[node as usize] += 1;
        }
        counts.retain(|count| *count > 0); // the last ones
        let (first, last) = (counts[0], counts[counts.len() - 1]);
        if counts.is_sorted_by(|a, b| a >= b) && first - last <= 1 {
            return Self::cyclic(ranks, counts.len() as u32);
        }
        let mut rows: Vec<Row> = Vec::new();
        for node in deal(&counts) {
            match rows.last_mut() {
                Some(last) if last.first_node + last.nodes == node => last.nodes += 1,
                _ => rows.push(Row { first_node: node, nodes: 1, per_node: 1 }),
            }
        }
        Self::ours(ranks, &rows)
    }

    /// The placement that lists each rank's node.
    pub fn from_nodes(nodes: &[NodeId]) -> Result<Self, PlacementError> {
        let mut rows: Vec<Row> = Vec::new();
        for node in nodes {
            match rows.last_mut() {
                Some(last) if last.first_node == node.0 => last.per_node += 1,
                _ => rows.push(Row { first_node: node.0, nodes: 1, per_node: 1 }),
            }
        }
        Self::from_rows(nodes.len() as u32, &rows)
    }

    /// `ranks` in these blocks, which are repeated where they are too few. Empty blocks are passed over.
    pub fn from_rows(ranks: u32, rows: &[Row]) -> Result<Self, PlacementError> {
        let (mut blocks, mut period, mut nodes_end) = (Vec::new(), 0_u32, 0);
        for &Row { first_node, nodes, per_node } in rows {
            if nodes == 0 || per_node == 0 {
                continue;
            }
            if period >= ranks {
                break;
            }
            first_node.checked_add(nodes).ok_or(PlacementError::TooManyNodes { first_node, nodes })?;
            blocks.push(Block { first_rank: period, first_node, nodes, per_node });
            nodes_end = nodes_end.max(first_node + nodes.min((ranks - period).div_ceil(per_node)));
            // Past the last rank it does not matter how much is left.
            period = period.saturating_add(nodes.saturating_mul(per_node));
        }
        if blocks.is_empty() {
            return Err(PlacementError::Empty);
        }
        Ok(Placement { blocks, period, ranks, nodes: nodes_end })
    }

    /// From rows that were made here.
    fn ours(ranks: u32, rows: &[Row]) -> Self {
        Self::from_rows(ranks, rows).expect("rows that hold ranks, on fewer nodes than ranks")
    }

    /// The blocks, from which [`Placement::from_rows`] makes it again.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let row = |block: &Block| Row {
            first_node: block.first_node,
            nodes: block.nodes,
            per_node: block.per_node,
        };
        self.blocks.iter().map(row)
    }

    /// How many ranks are placed.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many nodes there are: the highest that has a rank, and one.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Where a rank lives. Asking for one that the job does not have is a mistake of the caller.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        assert!(rank.0 < self.ranks, "rank {rank} in a job of {}", self.ranks);
        let at = rank.0 % self.period;
        let next = self.blocks.partition_point(|block| block.first_rank <= at);
        let block = &self.blocks[next - 1];
        NodeId(block.first_node + (at - block.first_rank) / block.per_node)
    }

    /// The number of a rank among those of its node.
    pub fn local_of(&self, rank: Rank) -> u32 {
        self.count_before(self.node_of(rank), rank.0)
    }

    /// How many ranks a node has.
    pub fn count(&self, node: NodeId) -> u32 {
        self.count_before(node, self.ranks)
    }

    /// The ranks of a node, in order.
    pub fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = Rank> + '_ {
        self.ranges_of(node).flatten().map(Rank)
    }

    /// The ranks of a node, as ranges in order.
    pub fn ranges_of(&self, node: NodeId) -> impl Iterator<Item = Range<u32>> + '_ {
        let starts = (0..self.ranks).step_by(self.period as usize);
        let ranges = starts.flat_map(move |start| {
            self.blocks.iter().filter_map(move |block| block.ranks_on(node, start, self.ranks))
        });
        ranges.filter(|range| !range.is_empty())
    }

    /// How many ranks of a node are below `end`. The repetitions are multiplied, not walked through.
    fn count_before(&self, node: NodeId, end: u32) -> u32 {
        let (whole, rest) = (end / self.period, end % self.period);
        let below = |end: u32| -> u32 {
            let ranges = self.blocks.iter().filter_map(|block| block.ranks_on(node, 0, end));
            ranges.map(|range| range.end - range.start).sum()
        };
        let each = if whole == 0 { 0 } else { below(self.period) };
        whole * each + below(rest)
    }
}

impl Block {
    /// This block's ranks on a node, in the repetition that begins at rank `start`, those below `end`.
    fn ranks_on(&self, node: NodeId, start: u32, end: u32) -> Option<Range<u32>> {
        let index = node.0.checked_sub(self.first_node).filter(|&index| index < self.nodes)?;
        let first =
            u64::from(start) + u64::from(self.first_rank) + u64::from(index) * u64::from(self.per_node);
        let clip = |rank: u64| rank.min(u64::from(end)) as u32;
        Some(clip(first)..clip(first + u64::from(self.per_node)))
    }
}

/// How often all slots are filled, and how many ranks are left then.
fn rounds(ranks: u32, slots: &[u32]) -> (u32, u32) {
    assert!(ranks > 0 && !slots.is_empty() && slots.iter().all(|slots| *slots > 0));
    let total: u64 = slots.iter().map(|slots| u64::from(*slots)).sum();
    ((u64::from(ranks) / total) as u32, (u64::from(ranks) % total) as u32)
}

/// One rank after the other to the next node that has room.
fn deal(counts: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let rounds = counts.iter().copied().max().unwrap_or(0);
    let open = move |round: u32| (0..).zip(counts).filter(move |(_, count)| **count > round);
    (0..rounds).flat_map(move |round| open(round).map(|(node, _)| node))
}

#[cfg(test)]
mod tests;
