//! The command line of `banyan bench budget`.
use super::super::args::{Common, each, list, number, numbers};
use super::plan::{Group, Limit};

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench budget [OPTIONS]

What it costs that processes may have few connections, and how long it takes to make one. Jobs without a limit, with a
budget of connections for each process and with few queue pairs for each node take turns, round by round:

  costs       an alltoall of 4 KiB (everybody needs everybody), and an exchange of 4 KiB with four neighbours, which should
              cost nothing once the budget is 4; connections, reopenings, evictions and memory are those of the alltoall
  contacts    how long first contacts take, one after the other and all at once, as it is and with 5 in 100 datagrams
              lost, 5 doubled and 5 reordered

  --ranks N         (default 64, from 9)
  --nodes K         emulated nodes (default 8)
  --budgets LIST    connections of a process (default 32,16,8,4,2)
  --devices LIST    queue pairs of a node (default: 8 and 2 for each of its ranks)
  --only LIST       costs,contacts
  --rounds N        times that everything is measured (default 7)
  --quick           once, 16 ranks on 2 nodes, budgets of 8 and 2
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where the program is built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 60)
";

const RANKS_MAX: usize = 4096;
/// With fewer, four neighbours are not four, or are everybody.
const RANKS_MIN: usize = 9;
const QUEUE_PAIRS_MAX: usize = 1 << 20;
/// One place for an attempt, one for the requests of others.
const BUDGET_MIN: usize = proto::wireup::Budget::QUEUE_PAIRS_MIN as usize;
/// Queue pairs of a device for each rank of its node, unless something else is said.
const DEVICE_PER_RANK: [usize; 2] = [8, 2];

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// Ranks of each job.
    pub ranks: usize,
    /// Its nodes.
    pub nodes: usize,
    /// Connections of a process.
    pub budgets: Vec<usize>,
    /// Queue pairs of a node, if said.
    pub devices: Option<Vec<usize>>,
    /// What to measure.
    pub groups: Vec<Group>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(7, 60),
            ranks: 64,
            nodes: 8,
            budgets: vec![32, 16, 8, 4, 2],
            devices: None,
            groups: Group::ALL.to_vec(),
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        each(args, |arg, value| {
            match arg {
                "--quick" => options.quick(),
                "--ranks" => options.ranks = number(arg, value()?, RANKS_MAX)?,
                "--nodes" => options.nodes = number(arg, value()?, RANKS_MAX)?,
                "--budgets" => options.budgets = numbers(arg, value()?, QUEUE_PAIRS_MAX)?,
                "--devices" => options.devices = Some(numbers(arg, value()?, QUEUE_PAIRS_MAX)?),
                "--only" => options.groups = list(value()?, Group::ALL, Group::key)?,
                _ => options.common.take("budget", arg, value)?,
            }
            Ok(())
        })?;
        options.checked()
    }

    /// What is wrong only together, or with a smallest value other than 1.
    fn checked(self) -> Result<Self, String> {
        let Options { ranks, nodes, .. } = self;
        if let Some(small) = self.budgets.iter().find(|budget| **budget < BUDGET_MIN) {
            return Err(format!("--budgets takes numbers from {BUDGET_MIN}, not '{small}'"));
        }
        if ranks < RANKS_MIN {
            return Err(format!("--ranks takes a number from {RANKS_MIN}, not '{ranks}'"));
        }
        if nodes > ranks {
            return Err(format!("--nodes {nodes} is more than there are ranks ({ranks})"));
        }
        Ok(self)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 1;
        self.ranks = 16;
        self.nodes = 2;
        self.budgets = vec![8, 2];
    }

    /// The rows of the table of costs.
    pub fn limits(&self) -> Vec<Limit> {
        let per_node = self.ranks.div_ceil(self.nodes);
        let own = || DEVICE_PER_RANK.map(|each| each * per_node).to_vec();
        let devices = self.devices.clone().unwrap_or_else(own);
        let budgets = self.budgets.iter().copied().map(Limit::Budget);
        std::iter::once(Limit::None).chain(budgets).chain(devices.into_iter().map(Limit::Device)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn devices_follow_the_ranks_of_a_node() {
        let limits = |line: &str| Options::parse(&split(line)).unwrap().limits();
        let two = |device| vec![Limit::None, Limit::Budget(4), device];
        assert_eq!(limits("--budgets 4 --devices 7"), two(Limit::Device(7)));
        assert_eq!(limits("--ranks 30 --nodes 4 --budgets 4")[2..], [64, 16].map(Limit::Device));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--budgets 8,1", "'1'"),
                ("--ranks 8", "'8'"),
                ("--ranks 9 --nodes 10", "--nodes 10"),
                ("--only contact", "'contact'"),
            ],
        );
    }
}
