//! The shape of the tree: a complete k-ary tree over the nodes, numbered breadth first.
use crate::ids::NodeId;

/// Most links that an agent has to other agents, unless told otherwise.
pub const LINKS_MAX: u32 = 128;
/// How many steps from the root a tree may have at most, where the links allow it.
pub const DEPTH_MAX: u32 = 4;
/// Children that one core starts at about the same time: what an agent does for each of them is little beside the
/// wait for its answer.
const CHILDREN_PER_CORE: u32 = 4;
/// Fewer children than this would make a small tree deep for nothing.
const CHILDREN_MIN: u32 = 8;

/// The shape of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    nodes: u32,
    radix: u32,
}

impl Shape {
    /// A tree of `nodes` in which each has at most `radix` children.
    pub fn new(nodes: u32, radix: u32) -> Self {
        assert!(nodes > 0 && radix > 0, "a tree of {nodes} nodes with radix {radix}");
        Shape { nodes, radix }
    }

    /// A tree of `nodes` for agents with so many cores: as narrow as cores can start children side by side, but
    /// wide enough to be at most [`DEPTH_MAX`] deep, and never with more than `links_max` links at an agent.
    pub fn fitting(nodes: u32, cores: u32, links_max: u32) -> Self {
        let most = links_max.saturating_sub(1).max(1); // one link leads up
        let mut radix = cores.saturating_mul(CHILDREN_PER_CORE).max(CHILDREN_MIN).min(most);
        while radix < most && Shape::new(nodes, radix).depth() > DEPTH_MAX {
            radix += 1;
        }
        Shape::new(nodes, radix)
    }

    /// Most children of a node.
    pub fn radix(&self) -> u32 {
        self.radix
    }

    /// Steps from the root to the node that is farthest away.
    pub fn depth(&self) -> u32 {
        let mut at = NodeId(self.nodes - 1);
        let mut steps = 0;
        while let Some(parent) = self.parent(at) {
            at = parent;
            steps += 1;
        }
        steps
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The parent; the root has none.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        node.0.checked_sub(1).map(|below| NodeId(below / self.radix))
    }

    /// The children, in order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let first = u64::from(node.0) * u64::from(self.radix) + 1;
        let end = (first + u64::from(self.radix)).min(u64::from(self.nodes));
        (first..end).map(|child| NodeId(child as u32))
    }

    /// The child of `from` on the way down to `to`; `None` if `to` is not below `from`.
    pub fn next_hop(&self, from: NodeId, to: NodeId) -> Option<NodeId> {
        if to.0 >= self.nodes {
            return None;
        }
        let mut at = to;
        while let Some(parent) = self.parent(at) {
            if parent == from {
                return Some(at);
            }
            at = parent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn children_and_parents_agree_and_every_node_is_reached() {
        for radix in [1, 2, 3, 8] {
            for nodes in [1, 2, 3, 9, 10, 200] {
                let shape = Shape::new(nodes, radix);
                let mut reached = Vec::from([NodeId(0)]);
                let mut next = 0;
                while let Some(&node) = reached.get(next) {
                    next += 1;
                    for child in shape.children(node) {
                        assert_eq!(shape.parent(child), Some(node));
                        reached.push(child);
                    }
                }
                assert_eq!(reached, (0..nodes).map(NodeId).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_degree_follows_cores_depth_and_links() {
        let radix = |nodes, cores, links| Shape::fitting(nodes, cores, links).radix();
        assert_eq!((radix(1, 1, 128), radix(64, 2, 128), radix(64, 16, 128)), (8, 8, 64));
        assert_eq!(radix(64, 64, 128), 127);
        assert_eq!(radix(64, 64, 5), 4);
        assert_eq!(radix(5, 1, 0), 1);
        for nodes in [100, 4_681, 4_682, 65_536] {
            let shape = Shape::fitting(nodes, 2, LINKS_MAX);
            assert!(shape.depth() <= DEPTH_MAX, "{shape:?} is {} deep", shape.depth());
            let narrower = Shape::new(nodes, shape.radix() - 1);
            assert!(shape.radix() == CHILDREN_MIN || narrower.depth() > DEPTH_MAX);
        }
    }

    #[test]
    fn a_route_leads_down_to_its_target() {
        let shape = Shape::new(100, 3);
        for to in 1..100 {
            let mut at = NodeId(0);
            while at != NodeId(to) {
                at = shape.next_hop(at, NodeId(to)).unwrap();
            }
        }
        assert_eq!(shape.next_hop(NodeId(1), NodeId(2)), None);
        assert_eq!(shape.next_hop(NodeId(0), NodeId(100)), None);
        assert_eq!(shape.next_hop(NodeId(5), NodeId(5)), None);
    }
}
