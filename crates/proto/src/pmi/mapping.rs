//! `PMI_process_mapping`: which rank lives on which node.
use crate::ids::NodeId;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Most blocks of a mapping.
pub const MAPPING_BLOCKS_MAX: usize = 65_536;

/// `processes_per_node` consecutive ranks on each of `nodes` consecutive nodes, from `first_node` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingBlock {
    /// First node of the block.
    pub first_node: u32,
    /// Nodes in the block.
    pub nodes: u32,
    /// Ranks on each of them.
    pub processes_per_node: u32,
}

/// The whole mapping: `(vector,(first,nodes,per_node),...)`. A short list is repeated, as clients expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    blocks: Vec<MappingBlock>,
}

/// Why a text is no mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a process mapping of the form (vector,(first,nodes,per_node),...)")]
pub struct MappingError(String);

impl Mapping {
    /// `ranks` in blocks over `nodes`, as equal as possible, the larger blocks first.
    pub fn blocks(ranks: u32, nodes: u32) -> Self {
        assert!(nodes > 0 && nodes <= ranks, "{ranks} ranks on {nodes} nodes");
        let (each, more) = (ranks / nodes, ranks % nodes);
        let larger = MappingBlock { first_node: 0, nodes: more, processes_per_node: each + 1 };
        let rest = MappingBlock { first_node: more, nodes: nodes - more, processes_per_node: each };
        Mapping { blocks: [larger, rest].into_iter().filter(|block| block.nodes > 0).collect() }
    }

    /// Parses a value of [`super::KEY_MAPPING`].
    pub fn parse(text: &str) -> Result<Self, MappingError> {
        parse_blocks(text)
            .filter(|blocks| blocks.iter().any(|block| block.nodes > 0 && block.processes_per_node > 0))
            .map(|blocks| Mapping { blocks })
            .ok_or_else(|| MappingError(text.chars().take(64).collect()))
    }

    /// The blocks in order.
    pub fn as_blocks(&self) -> &[MappingBlock] {
        &self.blocks
    }

    /// The node of each rank of a job of `size` ranks.
    pub fn nodes(&self, size: u32) -> Vec<NodeId> {
        let block_nodes = |block: &MappingBlock| {
            let each = block.processes_per_node;
            let first = block.first_node;
            (0..block.nodes).flat_map(move |n| (0..each).map(move |_| NodeId(first.saturating_add(n))))
        };
        self.blocks.iter().cycle().flat_map(block_nodes).take(size as usize).collect()
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(vector")?;
        for MappingBlock { first_node, nodes, processes_per_node } in &self.blocks {
            write!(f, ",({first_node},{nodes},{processes_per_node})")?;
        }
        f.write_str(")")
    }
}

fn parse_blocks(text: &str) -> Option<Vec<MappingBlock>> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = compact.strip_prefix("(vector")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let (block, after) = rest.strip_prefix(",(")?.split_once(')')?;
        if blocks.len() == MAPPING_BLOCKS_MAX {
            return None;
        }
        blocks.push(parse_block(block)?);
        rest = after;
    }
    Some(blocks)
}

fn parse_block(text: &str) -> Option<MappingBlock> {
    let mut numbers = text.split(',').map(|n| n.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    let block = MappingBlock { first_node: next()?, nodes: next()?, processes_per_node: next()? };
    numbers.next().is_none().then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn nodes(text: &str, size: u32) -> Vec<u32> {
        Mapping::parse(text).unwrap().nodes(size).into_iter().map(|n| n.0).collect()
    }

    #[test]
    fn blocks_are_as_equal_as_possible_and_parse_back() {
        for (ranks, count) in [(1, 1), (4, 2), (7, 3), (64, 8), (5, 5)] {
            let mapping = Mapping::blocks(ranks, count);
            assert_eq!(Mapping::parse(&mapping.to_string()), Ok(mapping.clone()));
            let placed = mapping.nodes(ranks);
            let on = |node: u32| placed.iter().filter(|n| n.0 == node).count() as u32;
            assert!((0..count).all(|n| on(n) == ranks / count || on(n) == ranks / count + 1), "{mapping}");
            assert!(placed.windows(2).all(|pair| pair[0] <= pair[1]));
        }
        assert_eq!(Mapping::blocks(4, 2).to_string(), "(vector,(0,2,2))");
        assert_eq!(Mapping::blocks(7, 3).to_string(), "(vector,(0,1,3),(1,2,2))");
    }

    #[test]
    fn a_short_list_wraps() {
        assert_eq!(nodes("(vector,(0,2,1))", 5), [0, 1, 0, 1, 0]);
        assert_eq!(nodes("(vector, (0,1,2), (4,1,1))", 4), [0, 0, 4, 0]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "(vector)",
            "(vector,(0,0,0))",
            "(vector,(0,1))",
            "(vector,(0,1,2,3))",
            "(vector,(0,1,x))",
            "(flat,(0,1,1))",
        ] {
            assert!(Mapping::parse(text).is_err(), "{text}");
        }
    }
}
