//! What is measured: programs on shapes of a job, and the goals that the figures are held against.
use super::launcher::Launcher;

/// What the ranks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `/bin/true`: the launcher alone.
    True,
    /// An MPI hello, on the library that belongs to the launcher.
    Hello,
}

impl Work {
    /// All, in table order.
    pub const ALL: &'static [Work] = &[Work::True, Work::Hello];

    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Work::True => "true",
            Work::Hello => "hello",
        }
    }

    /// The name in the table.
    pub fn label(self) -> &'static str {
        match self {
            Work::True => "/bin/true",
            Work::Hello => "MPI hello",
        }
    }
}

/// Most nodes of a shape: each has a loopback address of its own.
pub const NODES_MAX: usize = 254;
/// Most ranks on a node.
pub const PER_NODE_MAX: usize = 1024;

/// How many ranks, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes; more than one are emulated.
    pub nodes: usize,
    /// Ranks on each.
    pub per_node: usize,
}

impl Shape {
    /// Ranks of the job.
    pub fn ranks(self) -> usize {
        self.nodes * self.per_node
    }

    /// `NODESxRANKS`.
    pub fn parse(text: &str) -> Result<Shape, String> {
        let number = |text: &str, max| text.parse().ok().filter(|n: &usize| (1..=max).contains(n));
        let parts = text.split_once('x');
        let shape = parts.and_then(|(nodes, per_node)| {
            let (nodes, per_node) = (number(nodes, NODES_MAX)?, number(per_node, PER_NODE_MAX)?);
            Some(Shape { nodes, per_node })
        });
        shape.ok_or_else(|| {
            format!(
                "'{text}' is not NODESxRANKS with up to {NODES_MAX} nodes and {PER_NODE_MAX} ranks on each"
            )
        })
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.nodes {
            1 => write!(f, "1 node x {}", self.per_node),
            nodes => write!(f, "{nodes} nodes x {}", self.per_node),
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The program.
    pub work: Work,
    /// The job.
    pub shape: Shape,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.work.label(), self.shape)
    }
}

/// Banyan's time as a multiple of another's, and how large it may be.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Where.
    pub cell: Cell,
    /// Beside whom.
    pub beside: Launcher,
    /// At most.
    pub at_most: f64,
}

const fn goal(work: Work, nodes: usize, per_node: usize, beside: Launcher, at_most: f64) -> Goal {
    Goal { cell: Cell { work, shape: Shape { nodes, per_node } }, beside, at_most }
}

/// What Banyan wants to reach on a quiet machine.
pub const GOALS: [Goal; 4] = [
    goal(Work::True, 1, 256, Launcher::Bare, 1.3),
    goal(Work::True, 1, 256, Launcher::Hydra, 0.75),
    goal(Work::True, 64, 4, Launcher::Hydra, 0.7),
    goal(Work::Hello, 1, 64, Launcher::Hydra, 0.15),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_meant() {
        assert_eq!(Shape::parse("64x4").unwrap().ranks(), 256);
        for text in ["", "4", "x", "0x4", "4x0", "255x1", "1x1025", "4x4x4", "-1x2"] {
            assert!(Shape::parse(text).unwrap_err().contains(text), "{text}");
        }
    }
}
