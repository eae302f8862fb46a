//! The command line of `banyan bench dynamic`.
use super::super::args::{Common, each, list, number, numbers};
use super::super::job::Group;
use super::library::Name;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench dynamic [OPTIONS]

Jobs that start others and meet others: Banyan under `banyan run` and MPICH under Hydra in turn, round by round.
A spawn is timed by the one process that asks for it, until a barrier between parent and children is through. A
meeting is timed by the job that calls another launch's port: connect, a barrier between the jobs, disconnect; the
first meeting of two launches and later ones are told apart. MPICH comes from PyPI into a folder of its own.

  --spawn LIST      processes to spawn (default 1,16,64)
  --spawns N        so often in each run (default 3)
  --ranks LIST      processes of each job that meets another (default 1,4)
  --meetings N      so often in each run, 2 at least (default 50)
  --only LIST       spawn,meet
  --libs LIST       banyan,mpich,mpich-ofi
  --rounds N        rounds over all libraries (default 7)
  --quick           1 round, 1 and 4 processes, 1 spawn and 5 meetings in a run
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 120)
";

const PROCESSES_MAX: usize = 1024;
const TIMES_MAX: usize = 1_000_000;
/// A first one and a later one.
const MEETINGS_MIN: usize = 2;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// Processes to spawn.
    pub children: Vec<usize>,
    /// How often in each run.
    pub spawns: usize,
    /// Processes of each job that meets another.
    pub ranks: Vec<usize>,
    /// How often in each run.
    pub meetings: usize,
    /// What to measure.
    pub groups: Vec<Group>,
    /// Which libraries.
    pub libraries: Vec<Name>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(7, 120),
            children: vec![1, 16, 64],
            spawns: 3,
            ranks: vec![1, 4],
            meetings: 50,
            groups: Group::DYNAMIC.to_vec(),
            libraries: Name::ALL.to_vec(),
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
                "--spawn" => options.children = numbers(arg, value()?, PROCESSES_MAX)?,
                "--spawns" => options.spawns = number(arg, value()?, TIMES_MAX)?,
                "--ranks" => options.ranks = numbers(arg, value()?, PROCESSES_MAX)?,
                "--meetings" => options.meetings = number(arg, value()?, TIMES_MAX)?.max(MEETINGS_MIN),
                "--only" => options.groups = list(value()?, Group::DYNAMIC, Group::key)?,
                "--libs" => options.libraries = list(value()?, Name::ALL, Name::key)?,
                _ => options.common.take("dynamic", arg, value)?,
            }
            Ok(())
        })?;
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 1;
        self.children = vec![1, 4];
        self.spawns = 1;
        self.ranks = vec![1, 4];
        self.meetings = 5;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::super::plan::Job;
    use super::*;

    #[test]
    fn every_number_of_processes_is_a_job() {
        let options = Options::parse(&split("--spawn 2,8 --ranks 3 --libs mpich,banyan")).unwrap();
        let jobs: Vec<String> = Job::plan(&options).iter().map(Job::describe).collect();
        assert_eq!(jobs, ["spawn of 2", "spawn of 8", "meetings of 3 and 3"]);
        assert_eq!(options.libraries, [Name::Banyan, Name::Mpich]);
        let options = Options::parse(&split("--only meet --meetings 1")).unwrap();
        assert_eq!((Job::plan(&options).len(), options.meetings), (2, 2));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--spawn", "--spawn needs"),
                ("--ranks 0", "'0'"),
                ("--only p2p", "'p2p'"),
                ("--libs x", "'x'"),
            ],
        );
    }
}
