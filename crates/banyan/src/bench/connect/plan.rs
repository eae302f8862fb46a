//! What is run: workloads, at some sizes, by some algorithms of collectives.
use super::super::machine;
use kernels::Workload;
use proto::coll::tuning::{self, Allgather, Allreduce, Alltoall, Bcast, Exchange};
use proto::coll::{Cores, Elements, Memory, Operands, Place, Shared};

/// What a user may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// How many connections programs need.
    Counts,
    /// How long two processes take to connect.
    Pair,
    /// How long it takes to connect everybody at the start.
    Startup,
    /// What the first exchange of everybody costs.
    First,
    /// Static beside on-demand connections.
    Static,
    /// Every policy beside the one that chooses itself.
    Auto,
    /// What a recorded pattern is worth, and what a wrong one costs.
    Pattern,
}

impl Section {
    /// In the order of the report.
    pub const ALL: &'static [Section] = &[
        Section::Counts,
        Section::Pair,
        Section::Startup,
        Section::First,
        Section::Static,
        Section::Auto,
        Section::Pattern,
    ];

    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Section::Counts => "counts",
            Section::Pair => "pair",
            Section::Startup => "startup",
            Section::First => "first",
            Section::Static => "static",
            Section::Auto => "auto",
            Section::Pattern => "pattern",
        }
    }
}

/// The size of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Ranks that the user asked for.
    pub asked: usize,
    /// Those that the workload takes.
    pub ranks: usize,
    /// Emulated nodes.
    pub nodes: usize,
}

/// By which algorithms collectives are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// The published ones, with messages only.
    Flat,
    /// What Banyan chooses.
    Auto,
}

impl Algorithms {
    /// In the order of the report.
    pub const ALL: [Algorithms; 2] = [Algorithms::Flat, Algorithms::Auto];

    /// The value of `--coll`.
    pub fn key(self) -> &'static str {
        match self {
            Algorithms::Flat => "flat",
            Algorithms::Auto => "auto",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Algorithms::Flat => "published algorithms (--coll flat)",
            Algorithms::Auto => "algorithms that Banyan chooses here (--coll auto)",
        }
    }

    /// What the choice is made from, in a job on this machine.
    fn place(self, ranks: usize, nodes: usize) -> Place {
        let near = if nodes == 1 { Memory::OneNode(Shared::Mapped) } else { Memory::OneHost };
        let (cores, memory) = match self {
            Algorithms::Flat => (Cores::Own, Memory::Apart),
            Algorithms::Auto if ranks > machine::cores() => (Cores::Shared, near),
            Algorithms::Auto => (Cores::Own, near),
        };
        Place { rank: 0, size: ranks as u32, cores, memory }
    }
}

/// A workload at a size.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is run.
    pub workload: &'static Workload,
    /// At which size.
    pub shape: Shape,
    /// By which algorithms.
    pub algorithms: Algorithms,
}

impl Case {
    /// The algorithm of a single call, as the library chooses it.
    pub fn algorithm(&self) -> Option<String> {
        let (at, bytes) = (self.algorithms.place(self.shape.ranks, self.shape.nodes), self.workload.size);
        let elements = Elements { count: bytes / 8, unit: 8, commutes: true, operands: Operands::Apart };
        Some(match self.workload.name {
            "ring" => "both neighbours".into(),
            "barrier" => exchange(tuning::barrier(at)),
            "bcast" => match tuning::bcast(at, bytes) {
                Bcast::Tree { radix } => tree(radix),
                Bcast::ScatterAllgather => "scatter and gather".into(),
                Bcast::Direct => "memory of the root".into(),
                Bcast::Common => COMMON.into(),
            },
            "allreduce" => match tuning::allreduce(at, elements) {
                Allreduce::Whole(how) => exchange(how),
                Allreduce::Halving => "halving and doubling distances".into(),
                Allreduce::Direct => "memory of all".into(),
            },
            "allgather" => match tuning::allgather(at, bytes * self.shape.ranks) {
                Allgather::Doubling => exchange(Exchange::Doubling),
                Allgather::Bruck => "Bruck's".into(),
                Allgather::Ring => "a ring".into(),
                Allgather::GatherBcast => "to rank 0 and back".into(),
                Allgather::Straight => "a message for each pair".into(),
                Allgather::Direct => "memory of all".into(),
                Allgather::Common => COMMON.into(),
            },
            "alltoall" => match tuning::alltoall(at, bytes) {
                Alltoall::Pairwise => "a message for each pair".into(),
                Alltoall::Bruck => "Bruck's".into(),
                Alltoall::Direct => "memory of all".into(),
                Alltoall::Common => COMMON.into(),
            },
            _ => return None,
        })
    }
}

/// How collectives go for which the processes of a node map memory together.
const COMMON: &str = "memory of the node";

fn exchange(how: Exchange) -> String {
    match how {
        Exchange::Doubling => "doubling distances".into(),
        Exchange::Tree { radix } => format!("up and down a {}", tree(radix)),
    }
}

fn tree(radix: u32) -> String {
    match radix {
        2 => "binomial tree".into(),
        _ => format!("tree of radix {radix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_call_has_an_algorithm_and_no_kernel_has() {
        let shape = Shape { asked: 16, ranks: 16, nodes: 4 };
        for workload in &kernels::ALL {
            for algorithms in Algorithms::ALL {
                let algorithm = Case { workload, shape, algorithms }.algorithm();
                assert_eq!(algorithm.is_some(), workload.is_call(), "{}", workload.name);
            }
        }
        let flat =
            |name| Case { workload: kernels::find(name).unwrap(), shape, algorithms: Algorithms::Flat };
        assert_eq!(flat("barrier").algorithm().unwrap(), "doubling distances");
        assert_eq!(flat("alltoall").algorithm().unwrap(), "a message for each pair");
    }
}
