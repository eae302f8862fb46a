//! Which rank lives on which node, in memory that follows the number of blocks, not of ranks.
use proto::ids::{NodeId, Rank};
use proto::pmi::{Mapping, MappingBlock};

/// Who lives where in a job: blocks of ranks, repeated if they are fewer than the job has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By first rank; none is empty, the first begins at 0 and each where its predecessor ends.
    blocks: Vec<Block>,
    /// Ranks in all blocks: where the repetition begins.
    period: u32,
    size: u32,
}

/// `per_node` consecutive ranks on each of some consecutive nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first_rank: u32,
    first_node: u32,
    nodes: u32,
    per_node: u32,
}

/// Why a mapping places nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No rank in any block.
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
    /// The placement of `size` ranks by the launcher's mapping.
    pub fn new(mapping: &Mapping, size: u32) -> Result<Self, PlacementError> {
        Self::from_blocks(mapping.as_blocks(), size)
    }

    /// All ranks on node 0.
    pub fn one_node(size: u32) -> Self {
        let block = Block { first_rank: 0, first_node: 0, nodes: 1, per_node: size.max(1) };
        Self { blocks: vec![block], period: size.max(1), size }
    }

    /// The placement that lists each rank's node.
    pub fn from_nodes(nodes: &[NodeId]) -> Self {
        let mut blocks: Vec<MappingBlock> = Vec::new();
        for node in nodes {
            match blocks.last_mut() {
                Some(last) if last.first_node == node.0 => last.processes_per_node += 1,
                _ => blocks.push(MappingBlock { first_node: node.0, nodes: 1, processes_per_node: 1 }),
            }
        }
        let size = nodes.len() as u32;
        Self::from_blocks(&blocks, size).unwrap_or_else(|_| Self::one_node(size))
    }

    fn from_blocks(mapping: &[MappingBlock], size: u32) -> Result<Self, PlacementError> {
        let mut blocks = Vec::new();
        let mut period = 0;
        for &MappingBlock { first_node, nodes, processes_per_node } in mapping {
            if nodes == 0 || processes_per_node == 0 {
                continue;
            }
            if period >= size && !blocks.is_empty() {
                break;
            }
            let _last_node = first_node
                .checked_add(nodes - 1)
                .ok_or(PlacementError::TooManyNodes { first_node, nodes })?;
            blocks.push(Block { first_rank: period, first_node, nodes, per_node: processes_per_node });
            // Past the size of the job it does not matter how much is left.
            period = period.saturating_add(nodes.saturating_mul(processes_per_node));
        }
        if blocks.is_empty() {
            return Err(PlacementError::Empty);
        }
        Ok(Self { blocks, period, size })
    }

    /// How many ranks are placed.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Where a rank lives. Asking for one that the job does not have is a mistake of the caller.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        assert!(rank.0 < self.size, "rank {rank} in a job of {}", self.size);
        let at = rank.0 % self.period;
        let next = self.blocks.partition_point(|block| block.first_rank <= at);
        let block = &self.blocks[next - 1];
        NodeId(block.first_node + (at - block.first_rank) / block.per_node)
    }

    /// How many ranks below `rank` live on a node.
    pub fn count_before(&self, node: NodeId, rank: Rank) -> u32 {
        self.ranks_on(node).map(|range| range.end.min(rank.0).saturating_sub(range.start)).sum()
    }

    /// The ranks of a node, as ranges in order.
    pub fn ranks_on(&self, node: NodeId) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let starts = (0..self.size).step_by(self.period as usize);
        let ranges = starts.flat_map(move |start| {
            self.blocks.iter().filter_map(move |block| block.ranks_on(node, start, self.size))
        });
        ranges.filter(|range| !range.is_empty())
    }
}

impl Block {
    /// This block's ranks on a node, in the repetition that begins at rank `start`.
    fn ranks_on(&self, node: NodeId, start: u32, size: u32) -> Option<std::ops::Range<u32>> {
        let index = node.0.checked_sub(self.first_node).filter(|&index| index < self.nodes)?;
        let first =
            u64::from(start) + u64::from(self.first_rank) + u64::from(index) * u64::from(self.per_node);
        let clip = |rank: u64| rank.min(u64::from(size)) as u32;
        Some(clip(first)..clip(first + u64::from(self.per_node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition of the mapping, rank by rank.
    fn oracle(blocks: &[(u32, u32, u32)], size: u32) -> Vec<NodeId> {
        let mut all = Vec::new();
        while all.len() < size as usize {
            for &(first, nodes, per_node) in blocks {
                for node in first..first + nodes {
                    all.extend((0..per_node).map(|_| NodeId(node)));
                }
            }
        }
        all.truncate(size as usize);
        all
    }

    fn placement(blocks: &[(u32, u32, u32)], size: u32) -> Placement {
        let text: String =
            blocks.iter().map(|(first, nodes, each)| format!(",({first},{nodes},{each})")).collect();
        Placement::new(&Mapping::parse(&format!("(vector{text})")).unwrap(), size).unwrap()
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            blocks in proptest::collection::vec((0..6u32, 0..4u32, 0..4u32), 1..6),
            size in 1..60u32,
        ) {
            prop_assume!(blocks.iter().any(|block| block.1 * block.2 > 0));
            let expected = oracle(&blocks, size);
            let placement = placement(&blocks, size);
            let nodes: Vec<NodeId> = (0..size).map(|rank| placement.node_of(Rank(rank))).collect();
            prop_assert_eq!(&nodes, &expected);
            let listed = Placement::from_nodes(&expected);
            prop_assert!((0..size).map(Rank).all(|rank| listed.node_of(rank) == placement.node_of(rank)));
            for node in (0..12).map(NodeId) {
                let on: Vec<u32> = placement.ranks_on(node).flatten().collect();
                let wanted: Vec<u32> = (0..size).filter(|&rank| expected[rank as usize] == node).collect();
                prop_assert_eq!(&on, &wanted);
                for rank in 0..=size {
                    let before = wanted.iter().filter(|&&on| on < rank).count() as u32;
                    prop_assert_eq!(placement.count_before(node, Rank(rank)), before);
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\(vector(,\\([0-9]{1,11},[0-9]{1,11},[0-9]{1,11}\\)){0,3}\\)") {
            if let Ok(mapping) = Mapping::parse(&text)
                && let Ok(placement) = Placement::new(&mapping, 1_000_000)
            {
                placement.node_of(Rank(999_999));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in "\\PC{0,40}") {
            let _ = Mapping::parse(&text);
        }
    }

    #[test]
    fn a_million_ranks_cost_one_block() {
        let placement = placement(&[(0, 15_625, 64)], 1_000_000);
        assert_eq!(placement.blocks.len(), 1);
        assert_eq!(placement.node_of(Rank(999_999)), NodeId(15_624));
    }

    #[test]
    fn blocks_past_the_job_are_not_stored() {
        assert_eq!(placement(&[(0, 2, 2), (2, 100, 1)], 4), placement(&[(0, 2, 2)], 4));
    }

    #[test]
    fn nodes_past_the_numbers_are_refused() {
        let mapping = Mapping::parse("(vector,(4294967295,2,1))").unwrap();
        let error = Placement::new(&mapping, 2).unwrap_err();
        assert_eq!(error.to_string(), "a block of 2 nodes from node 4294967295 on");
    }
}
