//! The command line of `banyan bench rma`.
use super::super::args::{Common, each, list};
use super::super::job::Group;
use super::library::Name;
use super::plan::Pace;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench rma [OPTIONS]

Operations on windows that MPI allocates, between two ranks, each bound to a core: Banyan and other libraries in turn,
round by round. All data are new for each operation and checked where they arrive. Peers come from PyPI into a folder
of their own.

  host         on one host: puts, gets and atomic operations with a flush; epochs of post, start, complete and wait as
               a ping-pong; 16 puts and 16 gets in an epoch (pattern 1); a put and a get in an epoch, both ways in turn
               (pattern 2); fences; locks
  net          between two hosts over TCP (network namespaces that this command makes itself, which needs root): latency
               and bandwidth
  schedules    Banyan's orders of operations (banyan run --rma) beside each other: between two such hosts on a link of
               1 Gbit/s each way, with pattern 1 of the peers; and on one host

  --rounds N        rounds over all libraries (default 11)
  --quick           1 round of short measurements; gives up on one run after 20 seconds
  --only LIST       host,net,schedules
  --libs LIST       banyan,mpich,mpich-ofi,openmpi,intel (mpich-ofi: between hosts only, intel: on one host only)
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 120)
";

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// What to measure.
    pub groups: Vec<Group>,
    /// Which libraries.
    pub libraries: Vec<Name>,
    /// How thoroughly.
    pub pace: Pace,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(11, 120),
            groups: Group::RMA.to_vec(),
            libraries: Name::ALL.to_vec(),
            pace: Pace::Full,
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
                "--only" => options.groups = list(value()?, Group::RMA, Group::key)?,
                "--libs" => options.libraries = list(value()?, Name::ALL, Name::key)?,
                _ => options.common.take("rma", arg, value)?,
            }
            Ok(())
        })?;
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 1;
        self.common.timeout = Duration::from_secs(20);
        self.pace = Pace::Quick;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn lists_choose_and_keep_the_order_of_the_tables() {
        let options = Options::parse(&split("--only schedules,host --libs intel,mpich-ofi,banyan")).unwrap();
        assert_eq!(options.groups, [Group::Host, Group::Schedules]);
        assert_eq!(options.libraries, [Name::Banyan, Name::MpichOfi, Name::Intel]);
        assert_eq!((options.common.rounds, options.pace), (11, Pace::Full));
    }

    #[test]
    fn a_quick_run_can_have_more_rounds_and_time() {
        let options = Options::parse(&split("--quick")).unwrap();
        assert_eq!((options.common.rounds, options.pace), (1, Pace::Quick));
        assert_eq!(options.common.timeout, Duration::from_secs(20));
        let options = Options::parse(&split("--quick --rounds 3 --timeout 60")).unwrap();
        assert_eq!((options.common.rounds, options.pace), (3, Pace::Quick));
        assert_eq!(options.common.timeout, Duration::from_secs(60));
    }

    #[test]
    fn the_help_names_every_group_and_library() {
        let groups: Vec<&str> = Group::RMA.iter().map(|group| group.key()).collect();
        assert!(HELP.contains(&format!("--only LIST       {}\n", groups.join(","))));
        let libraries: Vec<&str> = Name::ALL.iter().map(|name| name.key()).collect();
        assert!(HELP.contains(&format!("--libs LIST       {} ", libraries.join(","))));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--only latency", "'latency'"),
                ("--only host,nets", "'nets'"),
                ("--libs banyan-nocma", "'banyan-nocma'"),
                ("--libs", "--libs needs"),
            ],
        );
    }
}
