//! The command line of `banyan bench launch`.
use super::super::args::{Common, each, list, numbers};
use super::launcher::Launcher;
use super::plan::{Cell, PER_NODE_MAX, Shape, Work};
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench launch [OPTIONS]

From start to exit: Banyan, Hydra, Open MPI's mpirun and a bare loop that starts and reaps as many processes, in
turn, round by round. Every rank runs /bin/true, or says hello in MPI on the library that belongs to its launcher.
Peers come from PyPI into a folder of their own. A launcher whose runs of a line have taken 20 s is not run again
in that line, so slow lines have fewer runs, which is said. A run that does not end is ended and counted as hung.

  --ranks LIST      on one node (default 1,16,64,256)
  --nodes LIST      emulated nodes and ranks on each, as NODESxRANKS (default 16x4,64x1,64x4); none: none
  --per-node LIST   start time by ranks per node, on 1 and 16 nodes (default 1,2,4,8,16,32,64); none: none
  --only LIST       true,hello
  --launchers LIST  bare,banyan,banyan+mpich,hydra,openmpi
  --rounds N        rounds (default 11)
  --quick           3 rounds of 1 and 16 ranks, 4x4 emulated nodes, 1, 2 and 4 ranks per node
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one hello after S seconds (default 120); on one /bin/true after 10 at most
";

/// No launcher needs as long for programs that do nothing.
const TRUE_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told; the time-out is for the hello.
    pub common: Common,
    /// Ranks on one node.
    pub ranks: Vec<usize>,
    /// Emulated nodes.
    pub nodes: Vec<Shape>,
    /// Ranks per node, for the time of starting.
    pub per_node: Vec<usize>,
    /// Programs.
    pub works: Vec<Work>,
    /// Who competes.
    pub launchers: Vec<Launcher>,
}

impl Default for Options {
    fn default() -> Self {
        let shape = |nodes, per_node| Shape { nodes, per_node };
        Options {
            common: Common::building(11, 120),
            ranks: vec![1, 16, 64, 256],
            nodes: vec![shape(16, 4), shape(64, 1), shape(64, 4)],
            per_node: vec![1, 2, 4, 8, 16, 32, 64],
            works: Work::ALL.to_vec(),
            launchers: Launcher::ALL.to_vec(),
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
                "--ranks" => options.ranks = numbers(arg, value()?, PER_NODE_MAX)?,
                "--nodes" => options.nodes = shapes(value()?)?,
                "--per-node" => options.per_node = unless_none(value()?, |text| numbers(arg, text, 64))?,
                "--only" => options.works = list(value()?, Work::ALL, Work::key)?,
                "--launchers" => options.launchers = list(value()?, Launcher::ALL, Launcher::key)?,
                _ => options.common.take("launch", arg, value)?,
            }
            Ok(())
        })?;
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 3;
        self.ranks = vec![1, 16];
        self.nodes = vec![Shape { nodes: 4, per_node: 4 }];
        self.per_node = vec![1, 2, 4];
    }

    /// The lines of the table.
    pub fn cells(&self) -> Vec<Cell> {
        let one_node = self.ranks.iter().map(|&per_node| Shape { nodes: 1, per_node });
        let shapes: Vec<Shape> = one_node.chain(self.nodes.iter().copied()).collect();
        let of_work =
            |&work: &Work| shapes.iter().map(move |&shape| Cell { work, shape }).collect::<Vec<_>>();
        self.works.iter().flat_map(of_work).collect()
    }

    /// Longest time for one run.
    pub fn limit(&self, work: Work) -> Duration {
        match work {
            Work::True => self.common.timeout.min(TRUE_TIMEOUT_MAX),
            Work::Hello => self.common.timeout,
        }
    }
}

fn shapes(text: &str) -> Result<Vec<Shape>, String> {
    unless_none(text, |text| text.split(',').map(Shape::parse).collect())
}

/// An empty list for the word "none".
fn unless_none<T>(text: &str, parse: impl Fn(&str) -> Result<Vec<T>, String>) -> Result<Vec<T>, String> {
    if text == "none" { Ok(Vec::new()) } else { parse(text) }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn every_program_meets_every_shape() {
        let options = Options::parse(&split("--ranks 2,8 --nodes 4x2 --only true,hello")).unwrap();
        let cells: Vec<String> = options.cells().iter().map(Cell::to_string).collect();
        assert_eq!(cells.len(), 6);
        assert_eq!(
            (cells[1].as_str(), cells[5].as_str()),
            ("/bin/true, 1 node x 8", "MPI hello, 4 nodes x 2")
        );
        assert_eq!(Options::parse(&split("--nodes none --ranks 1")).unwrap().cells().len(), 2);
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--ranks", "--ranks needs"),
                ("--ranks 0", "'0'"),
                ("--nodes 4", "'4'"),
                ("--only false", "'false'"),
                ("--launchers srun", "'srun'"),
            ],
        );
    }
}
