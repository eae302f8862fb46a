//! What a job is: programs, how many ranks of each, and where they live.
use proto::ids::{NodeId, Rank};
use proto::pmi::Mapping;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Most ranks of a job.
pub const RANKS_MAX: u32 = 1 << 16;
/// Queue pairs of a node's device unless `BANYAN_QP_MAX` says otherwise (a ConnectX-6 has as many).
pub const QP_MAX_DEFAULT: u32 = 131_072;
/// How long ranks may take over a polite request to end.
pub const KILL_GRACE_DEFAULT: Duration = Duration::from_millis(200);

/// One program of a job.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Ranks that run it.
    pub ranks: u32,
    /// The program: a path, or a name searched in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables for these ranks only.
    pub env: Vec<(OsString, OsString)>,
}

/// Which core a rank may run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// Any.
    #[default]
    None,
    /// One core each, in turn.
    Core,
}

/// What happens to the output of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// It goes to this process's standard output and error.
    #[default]
    Inherit,
    /// It is kept for [`crate::JobReport`], up to a bound.
    Capture,
}

/// Is each line marked with its rank?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// No.
    #[default]
    None,
    /// `[3] ` before every line of rank 3.
    Rank,
}

/// A job.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Its programs; ranks are numbered through in this order.
    pub sections: Vec<Section>,
    /// Nodes to emulate; no more than there are ranks are used.
    pub nodes: u32,
    /// Binding of ranks to cores.
    pub bind: Bind,
    /// Variables for all ranks.
    pub env: Vec<(OsString, OsString)>,
    /// Working folder of ranks.
    pub folder: Option<PathBuf>,
    /// Marks on lines of output.
    pub label: Label,
    /// Where output goes.
    pub output: Output,
    /// Time between a polite request to end and SIGKILL.
    pub kill_grace: Duration,
    /// How long the job may take.
    pub timeout: Option<Duration>,
}

impl JobSpec {
    /// `ranks` of one program on one node, everything else at its default.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, ranks: u32) -> Self {
        JobSpec {
            sections: vec![Section { ranks, program: program.into(), args, env: Vec::new() }],
            nodes: 1,
            bind: Bind::None,
            env: Vec::new(),
            folder: None,
            label: Label::None,
            output: Output::Inherit,
            kill_grace: KILL_GRACE_DEFAULT,
            timeout: None,
        }
    }

    /// Ranks of all sections.
    pub fn ranks(&self) -> u32 {
        self.sections.iter().map(|section| section.ranks).sum()
    }
}

/// Which ranks live on which node: blocks, as equal as possible, the larger ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    ranks: u32,
    nodes: u32,
}

impl Placement {
    /// `ranks` on `nodes`, or on fewer nodes if there are fewer ranks.
    pub fn new(ranks: u32, nodes: u32) -> Self {
        assert!(ranks > 0 && nodes > 0);
        Placement { ranks, nodes: nodes.min(ranks) }
    }

    /// Ranks in the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Nodes in use.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The first rank of a node and how many it has.
    pub fn block(&self, node: NodeId) -> (Rank, u32) {
        let (each, more) = (self.ranks / self.nodes, self.ranks % self.nodes);
        let first = node.0 * each + node.0.min(more);
        (Rank(first), each + u32::from(node.0 < more))
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        let (each, more) = (self.ranks / self.nodes, self.ranks % self.nodes);
        let in_larger = more * (each + 1);
        if rank.0 < in_larger {
            NodeId(rank.0 / (each + 1))
        } else {
            NodeId(more + (rank.0 - in_larger) / each)
        }
    }

    /// The same, as PMI clients read it.
    pub fn mapping(&self) -> Mapping {
        Mapping::blocks(self.ranks, self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_ranks_and_agree_with_the_mapping() {
        for (ranks, nodes) in [(1, 1), (2, 5), (7, 3), (8, 2), (64, 8), (65, 8)] {
            let placement = Placement::new(ranks, nodes);
            let mapped = placement.mapping().nodes(ranks);
            let mut next = 0;
            for node in (0..placement.nodes()).map(NodeId) {
                let (first, count) = placement.block(node);
                assert_eq!(first.0, next);
                assert!(count > 0);
                next += count;
                assert!((first.0..next).all(|rank| placement.node_of(Rank(rank)) == node));
                assert!((first.0..next).all(|rank| mapped[rank as usize] == node));
            }
            assert_eq!(next, ranks);
        }
    }
}
