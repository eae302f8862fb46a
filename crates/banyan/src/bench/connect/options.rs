//! The command line of `banyan bench connect`.
use super::super::args::{Common, each, list, number, numbers};
use super::device::Costs;
use super::plan::{Algorithms, Case, Section, Shape};
use kernels::Workload;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench connect [OPTIONS]

What connecting costs programs whose communication is known: single calls, and kernels that communicate as the NAS
Parallel Benchmarks do. Each checks its own result.

  counts      connections of a process at one time (itself excluded), those to other nodes, with and without XRC,
              handshakes and memory, beside the counts of two papers: by the published algorithms (--coll flat) and
              by those that Banyan chooses here
  pair        how long two processes take to connect, one step after the other and overlapped
  startup     how long it takes to connect everybody with everybody at the start, by phases, and what is exchanged
  first       the first alltoall of a program on demand, overlapped and rank by rank, and a later one
  static      messages, collectives and kernels with static and with on-demand connections, polling and sleeping
  auto        ring, halo, alltoall and a random graph by every policy, and by the one that chooses itself
  pattern     the first exchange of neighbours with a pattern of another job, and what a wrong one costs

  --ranks LIST      (default 16,32,64); a workload that does not take a number runs with the next that it takes
  --per-node N      ranks on each emulated node (default: as in the papers, 4, and 8 from 64 ranks on)
  --workloads LIST  ring,barrier,bcast,allreduce,allgather,alltoall,cg,ep,ft,is,lu,mg,sp
  --only LIST       counts,pair,startup,first,static,auto,pattern
  --startup LIST    ranks of startup, on 16 nodes (default 64,256,896,1024; what does not fit into memory is left out)
  --auto LIST       ranks of auto (default 64,256)
  --rdma            pair and startup on the host's RDMA device instead of an imitated one; only these two
  --repeats N       times that each job of all but counts is run in a round, in turn (default 7)
  --rounds N        times that everything is counted (default 1)
  --quick           16 ranks only, and each job once: that it works
  --json FILE       writes the figures there as well
  --timeout S       gives up on one job after S seconds (default 120)
";

const RANKS_MAX: usize = 4096;
const REPEATS_MAX: usize = 1000;
/// Ranks on a node in the papers: 4 of 32 ranks, and 8 of 64.
const PER_NODE: usize = 4;
const PER_NODE_MANY: usize = 8;
const MANY: usize = 64;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// Sizes of jobs.
    pub ranks: Vec<usize>,
    /// Ranks on a node, if said.
    pub per_node: Option<usize>,
    /// What is run.
    pub workloads: Vec<&'static Workload>,
    /// What is counted and measured.
    pub sections: Vec<Section>,
    /// Ranks of jobs that connect everybody.
    pub startup: Vec<usize>,
    /// Ranks of jobs whose policy is chosen.
    pub auto: Vec<usize>,
    /// Is the host's RDMA device measured?
    pub rdma: bool,
    /// Jobs of the same kind in a round.
    pub repeats: usize,
    /// Is it only to be seen that all works?
    pub quick: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::new(1, 120),
            ranks: vec![16, 32, 64],
            per_node: None,
            workloads: kernels::ALL.iter().collect(),
            sections: Section::ALL.to_vec(),
            startup: vec![64, 256, 896, 1024],
            auto: vec![64, 256],
            rdma: false,
            repeats: 7,
            quick: false,
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let all: Vec<&Workload> = kernels::ALL.iter().collect();
        let mut options = Options::default();
        each(args, |arg, value| {
            match arg {
                "--quick" => {
                    (options.ranks, options.startup, options.auto) = (vec![16], vec![16], vec![16]);
                    (options.repeats, options.quick) = (1, true);
                }
                "--rdma" => options.rdma = true,
                "--startup" => options.startup = numbers(arg, value()?, RANKS_MAX)?,
                "--auto" => options.auto = numbers(arg, value()?, RANKS_MAX)?,
                "--repeats" => options.repeats = number(arg, value()?, REPEATS_MAX)?,
                "--ranks" => options.ranks = numbers(arg, value()?, RANKS_MAX)?,
                "--per-node" => options.per_node = Some(number(arg, value()?, RANKS_MAX)?),
                "--workloads" => options.workloads = list(value()?, &all, |workload| workload.name)?,
                "--only" => options.sections = list(value()?, Section::ALL, Section::key)?,
                _ => options.common.take("connect", arg, value)?,
            }
            Ok(())
        })?;
        if options.rdma {
            options.sections.retain(|section| matches!(section, Section::Pair | Section::Startup));
        }
        Ok(options)
    }

    /// What sections about a device's costs are charged.
    pub fn costs(&self) -> &'static [Costs] {
        if self.rdma { Costs::REAL } else { Costs::IMITATED }
    }

    /// Every workload at every size by either algorithms, in the order of the report.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &asked in &self.ranks {
            for algorithms in Algorithms::ALL {
                cases.extend(self.workloads.iter().map(|&workload| {
                    let ranks = (asked..).find(|ranks| workload.ranks.accept(*ranks)).unwrap_or(asked);
                    Case { workload, shape: Shape { asked, ranks, nodes: self.nodes(ranks) }, algorithms }
                }));
            }
        }
        cases
    }

    fn nodes(&self, ranks: usize) -> usize {
        let usual = if ranks < MANY { PER_NODE } else { PER_NODE_MANY };
        ranks.div_ceil(self.per_node.unwrap_or(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn a_workload_runs_with_the_next_number_that_it_takes() {
        let shapes = |line: &str| {
            let cases = Options::parse(&split(line)).unwrap().cases();
            cases.iter().map(|case| (case.shape.ranks, case.shape.nodes)).collect::<Vec<_>>()
        };
        assert_eq!(
            shapes("--workloads sp --ranks 16,32,64"),
            [(16, 4), (16, 4), (36, 9), (36, 9), (64, 8), (64, 8)]
        );
        assert_eq!(shapes("--workloads cg --ranks 9 --per-node 3"), [(16, 6); 2]);
    }

    #[test]
    fn the_help_names_everything_that_can_be_asked_for() {
        let names: Vec<&str> = kernels::ALL.iter().map(|workload| workload.name).collect();
        assert!(HELP.contains(&names.join(",")));
        let sections: Vec<&str> = Section::ALL.iter().map(|section| section.key()).collect();
        assert!(HELP.contains(&format!("--only LIST       {}", sections.join(","))));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--ranks 0", "'0'"),
                ("--only count", "'count'"),
                ("--workloads dt", "'dt'"),
                ("--prefix /x", "--prefix"),
            ],
        );
    }
}
