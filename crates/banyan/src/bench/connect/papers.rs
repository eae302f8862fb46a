//! What the papers count, and why Banyan's counts differ where they do.
//!
//! - *On demand*: Wu, Liu, Wyckoff and Panda, "Impact of On-Demand Connection Management in MPI over VIA" (2002), table 2:
//!   the average number of connections of a process.
//! - *XRC*: Sridhar, "Scalable Job Startup and Inter-Node Communication in Multi-core InfiniBand Clusters" (2009), table 4.2:
//!   connections of a process to other nodes (it counts queue pairs, and ranks of a node use memory), at 64 processes on 8
//!   nodes, with one for each pair of processes (RC) and with one for each process and node (XRC).

/// By workload and number of processes.
const ON_DEMAND: [(&str, [(usize, f64); 2]); 11] = [
    ("ring", [(16, 2.0), (32, 2.0)]),
    ("barrier", [(16, 4.0), (32, 5.0)]),
    ("bcast", [(16, 4.0), (32, 5.0)]),
    ("allreduce", [(16, 4.0), (32, 5.0)]),
    ("allgather", [(16, 5.0), (32, 6.0)]),
    ("alltoall", [(16, 15.0), (32, 31.0)]),
    ("cg", [(16, 4.75), (32, 5.78)]),
    ("ep", [(16, 4.0), (32, 4.75)]),
    ("is", [(16, 15.0), (32, 31.0)]),
    ("mg", [(16, 15.0), (32, 15.0)]),
    ("sp", [(16, 8.0), (36, 9.83)]),
];

/// Processes and nodes of the table about XRC.
const XRC_SHAPE: (usize, usize) = (64, 8);

/// Average, minimum and maximum.
pub type Spread = [f64; 3];

/// Connections to other nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// One for each pair of processes.
    pub rc: Spread,
    /// One for each process and node.
    pub xrc: Spread,
}

const XRC: [(&str, Remote); 7] = [
    ("cg", Remote { rc: [3.84, 3.0, 4.0], xrc: [3.5, 3.0, 4.0] }),
    ("ep", Remote { rc: [3.0, 3.0, 3.0], xrc: [3.0, 3.0, 3.0] }),
    ("ft", Remote { rc: [55.91, 54.0, 56.0], xrc: [6.95, 5.0, 7.0] }),
    ("is", Remote { rc: [53.16, 50.0, 56.0], xrc: [6.98, 6.0, 7.0] }),
    ("lu", Remote { rc: [3.81, 3.0, 5.0], xrc: [3.81, 3.0, 5.0] }),
    ("mg", Remote { rc: [4.98, 4.0, 6.0], xrc: [4.0, 4.0, 4.0] }),
    ("sp", Remote { rc: [6.06, 6.0, 7.0], xrc: [3.73, 3.0, 5.0] }),
];

/// Half of the last digit that the papers print.
const ROUNDING: f64 = 0.005;

/// Connections of a process.
pub fn on_demand(name: &str, ranks: usize) -> Option<f64> {
    let (_, counts) = ON_DEMAND.iter().find(|(known, _)| *known == name)?;
    counts.iter().find(|(of, _)| *of == ranks).map(|(_, count)| *count)
}

/// Connections of a process to other nodes.
pub fn remote(name: &str, ranks: usize, nodes: usize) -> Option<Remote> {
    let known = XRC.iter().find(|(known, _)| *known == name).map(|(_, remote)| *remote);
    known.filter(|_| (ranks, nodes) == XRC_SHAPE)
}

/// A count beside the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judgement {
    /// As many, to the digits that the paper prints.
    Same,
    /// So many fewer.
    Fewer(f64),
    /// So many more.
    More(f64),
}

/// Judges a count.
pub fn judge(ours: f64, paper: f64) -> Judgement {
    match ours - paper {
        difference if difference.abs() <= ROUNDING => Judgement::Same,
        difference if difference < 0.0 => Judgement::Fewer(-difference),
        difference => Judgement::More(difference),
    }
}

impl Judgement {
    /// For people: a paper's count is what it should be at most.
    pub fn words(self) -> String {
        match self {
            Judgement::Same => "ok".into(),
            Judgement::Fewer(by) => format!("ok, -{by:.2}"),
            Judgement::More(by) => format!("more, +{by:.2}"),
        }
    }
}

/// What the counts of published algorithms come from here, and why a paper's may be others.
const REASONS: [(&str, &str); 13] = [
    ("ring", "both neighbours"),
    ("barrier", "exchanges at doubling distances need log2 p, where p is a power of two"),
    ("bcast", "a tree from one root needs 2 (p - 1) / p; in the paper, MPI_Init communicates as well"),
    ("allreduce", "exchanges at doubling distances need log2 p, where p is a power of two"),
    ("allgather", "exchanges at doubling distances need log2 p; in the paper, MPI_Init communicates as well"),
    ("alltoall", "everybody has a block for everybody"),
    (
        "cg",
        "log2 p for broadcast, barrier and sums, among them the partners along rows of the grid, and one for the transposed \
         place, which for those on the diagonal is their own",
    ),
    ("ep", "broadcast, barrier and sums at doubling distances: log2 p"),
    ("ft", "everybody has a block for everybody"),
    ("is", "everybody has keys for everybody; a pair that has none for each other would need no connection"),
    ("lu", "two to four neighbours on the grid, of which a column is on one node, and log2 p for sums"),
    (
        "mg",
        "neighbours at all strides, among them most partners of sums; faces are received from any source, which connects \
         nobody here and everybody in the paper about VIA (which has 15 at both sizes, and does not say why)",
    ),
    (
        "sp",
        "six neighbours, and log2 p for sums; where p is no power of two, sums, which keep the order of operands, have other \
         partners than barriers",
    ),
];

/// What a workload's counts come from.
pub fn reason(name: &str) -> &'static str {
    REASONS.iter().find(|(known, _)| *known == name).map_or("", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_judged_to_the_digits_that_the_paper_prints() {
        assert_eq!(judge(2.0, 2.0), Judgement::Same);
        assert_eq!(judge(5.781, 5.78), Judgement::Same);
        assert_eq!(
            (judge(5.75, 5.78).words(), judge(11.67, 9.83).words()),
            ("ok, -0.03".into(), "more, +1.84".into())
        );
        assert!(matches!(judge(31.01, 31.0), Judgement::More(_)));
    }

    #[test]
    fn what_the_papers_and_reasons_name_exists() {
        let of_papers = ON_DEMAND.iter().map(|(name, _)| *name).chain(XRC.iter().map(|(name, _)| *name));
        assert!(of_papers.into_iter().all(|name| kernels::find(name).is_some()));
        let reasons: Vec<&str> = REASONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(reasons, kernels::ALL.map(|workload| workload.name));
    }

    #[test]
    fn counts_belong_to_the_size_at_which_they_were_made() {
        assert_eq!((on_demand("cg", 16), on_demand("cg", 64), on_demand("ft", 16)), (Some(4.75), None, None));
        assert_eq!((on_demand("sp", 32), on_demand("sp", 36)), (None, Some(9.83)));
        assert_eq!(remote("ft", 64, 8).unwrap().rc[0], 55.91);
        assert_eq!((remote("ft", 64, 16), remote("ring", 64, 8)), (None, None));
    }
}
