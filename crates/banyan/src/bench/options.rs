//! The command line of `banyan bench peers`.
use super::args::{list, number};
use super::job::Group;
use super::library::Name;
use super::workshop::Workshop;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench peers [OPTIONS]

Builds one C microbenchmark with each MPI library and runs the libraries in turn, each rank bound to a
core. Peers come from PyPI into a folder of their own.

  --runs N          rounds over all libraries (default 11)
  --quick           3 rounds
  --only LIST       latency,bandwidth,rate,allreduce,init,exit,memory
  --libs LIST       banyan,banyan-nocma,mpich,openmpi,intel
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 60)
";

const RUNS: usize = 11;
const RUNS_QUICK: usize = 3;
const RUNS_MAX: usize = 1000;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// Rounds.
    pub runs: usize,
    /// What to measure.
    pub groups: Vec<Group>,
    /// Which libraries.
    pub libraries: Vec<Name>,
    /// Where libraries and programs are found and built.
    pub workshop: Workshop,
    /// Where the figures go as JSON.
    pub json: Option<PathBuf>,
    /// Longest time for one run.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            runs: RUNS,
            groups: Group::ALL.to_vec(),
            libraries: Name::ALL.to_vec(),
            workshop: Workshop::default(),
            json: None,
            timeout: Duration::from_secs(60),
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.runs = RUNS_QUICK,
                "--runs" => options.runs = number(arg, value()?, RUNS_MAX)?,
                "--timeout" => options.timeout = Duration::from_secs(number(arg, value()?, 86_400)? as u64),
                "--only" => options.groups = list(value()?, Group::ALL, |group| group.key())?,
                "--libs" => options.libraries = list(value()?, Name::ALL, |name| name.key())?,
                "--prefix" => options.workshop.prefix = Some(PathBuf::from(value()?)),
                "--dir" => options.workshop.dir = PathBuf::from(value()?),
                "--json" => options.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("'{arg}' is not an option of bench peers")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn lists_choose_and_keep_the_order_of_the_table() {
        let options = parse("--only rate,latency --libs mpich --runs 5").unwrap();
        assert_eq!(options.groups, [Group::Latency, Group::Rate]);
        assert_eq!(options.libraries, [Name::Mpich]);
        assert_eq!(options.runs, 5);
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        for (line, word) in [
            ("--runs", "--runs needs"),
            ("--runs 0", "'0'"),
            ("--only latency,speed", "'speed'"),
            ("--libs lam", "'lam'"),
            ("--fast", "'--fast'"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
