//! Who is whose parent: a complete k-ary tree over the nodes, numbered breadth first.
use crate::ids::NodeId;

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
