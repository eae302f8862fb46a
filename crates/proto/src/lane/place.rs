//! Where a node stands in the tree of one job, and which of its processes are there.
use crate::ids::{NodeId, Rank};
use crate::tree::Shape;
use alloc::vec;
use alloc::vec::Vec;

/// A node's neighbours in one job. Branches without a process of the job take no part in it, so a small job in
/// a large tree costs what a small tree costs.
#[derive(Clone, Debug)]
pub struct Place {
    node: NodeId,
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    local: Vec<Rank>,
    processes: u32,
}

impl Place {
    /// The place of `node`, when process `r` is on node `places[r]`. Node 0 is the root in every job.
    pub fn new(shape: Shape, node: NodeId, places: &[NodeId]) -> Self {
        let branches = branches(shape, node);
        let local: Vec<Rank> =
            (0..places.len()).filter(|rank| places[*rank] == node).map(|rank| Rank(rank as u32)).collect();
        let mut has_ranks = vec![false; shape.children(node).count()];
        for place in places {
            if let Branch::Child(index) = branches[place.index()] {
                has_ranks[index] = true;
            }
        }
        let children: Vec<NodeId> =
            shape.children(node).zip(&has_ranks).filter(|(_, has)| **has).map(|(child, _)| child).collect();
        Place { node, parent: shape.parent(node), children, local, processes: places.len() as u32 }
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The node above; the root has none.
    pub fn parent(&self) -> Option<NodeId> {
        self.parent
    }

    /// The nodes below that take part, in order.
    pub fn children(&self) -> &[NodeId] {
        &self.children
    }

    /// The processes here, in order of their local numbers.
    pub fn local(&self) -> &[Rank] {
        &self.local
    }

    /// Processes of the job.
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Does this node take part at all?
    pub fn takes_part(&self) -> bool {
        self.parent.is_none() || !self.local.is_empty() || !self.children.is_empty()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Branch {
    Here,
    Child(usize),
    Elsewhere,
}

/// For every node, the branch of `at` it is on. A parent has a smaller number than its children: one pass does.
fn branches(shape: Shape, at: NodeId) -> Vec<Branch> {
    let mut branches = vec![Branch::Elsewhere; shape.nodes() as usize];
    branches[at.index()] = Branch::Here;
    for (index, child) in shape.children(at).enumerate() {
        branches[child.index()] = Branch::Child(index);
    }
    for node in at.0 + 1..shape.nodes() {
        let parent = shape.parent(NodeId(node)).expect("only node 0 has no parent");
        if let Branch::Child(index) = branches[parent.index()] {
            branches[node as usize] = Branch::Child(index);
        }
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_without_processes_take_no_part() {
        let shape = Shape::new(15, 2);
        let places = [NodeId(9), NodeId(9), NodeId(4)];
        let place = |node| Place::new(shape, NodeId(node), &places);
        assert_eq!(place(0).children(), [NodeId(1)]);
        assert_eq!(place(1).children(), [NodeId(4)]);
        assert_eq!(place(4).children(), [NodeId(9)]);
        assert_eq!(place(4).local(), [Rank(2)]);
        assert_eq!((place(9).local(), place(9).children()), (&[Rank(0), Rank(1)][..], &[][..]));
        assert_eq!(place(9).processes(), 3);
        assert!(!place(2).takes_part() && !place(3).takes_part() && place(0).takes_part());
    }
}
