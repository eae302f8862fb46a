//! The command line of `banyan bench net`.
use super::super::args::{Common, each, list, number, numbers};
use super::super::job::Group;
use super::hosts::HOSTS_MAX;
use super::library::Name;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench net [OPTIONS]

Between hosts, over TCP: Banyan, MPICH and Open MPI in turn, round by round, on hosts that this command makes itself
(network namespaces on one bridge, started without ssh), which needs root. Every message is rewritten before it is
sent and read after it has arrived. Peers come from PyPI into a folder of their own.

Of Banyan alone: a rank with many connections of which two are busy; shared memory while a TCP connection is open;
a stranger who sends 10,000 datagrams a second and opens 10,000 connections.

  --rounds N        rounds over all libraries (default 11; what Banyan does alone: 3 at most)
  --quick           1 round, launch on 2 and 4 hosts, 50 idle connections
  --only LIST       first,latency,bandwidth,rate,exit,idle,shared,flood
  --libs LIST       banyan,mpich,mpich-ofi,openmpi
  --hosts LIST      hosts for launch to exit (default 2,4,16)
  --idle N          idle connections (default 500)
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 120)
";

const IDLE_MAX: usize = 10_000;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// What to measure.
    pub groups: Vec<Group>,
    /// Which libraries.
    pub libraries: Vec<Name>,
    /// Hosts of launch to exit.
    pub hosts: Vec<usize>,
    /// Idle connections.
    pub idle: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(11, 120),
            groups: Group::NET.to_vec(),
            libraries: Name::ALL.to_vec(),
            hosts: vec![2, 4, 16],
            idle: 500,
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
                "--only" => options.groups = list(value()?, Group::NET, Group::key)?,
                "--libs" => options.libraries = list(value()?, Name::ALL, Name::key)?,
                "--hosts" => options.hosts = numbers(arg, value()?, HOSTS_MAX)?,
                "--idle" => options.idle = number(arg, value()?, IDLE_MAX)?,
                _ => options.common.take("net", arg, value)?,
            }
            Ok(())
        })?;
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 1;
        self.hosts = vec![2, 4];
        self.idle = 50;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn lists_choose_and_keep_the_order_of_the_table() {
        let options = Options::parse(&split("--only exit,latency --libs openmpi,mpich --hosts 3")).unwrap();
        assert_eq!(options.groups, [Group::Latency, Group::Exit]);
        assert_eq!(options.libraries, [Name::Mpich, Name::OpenMpi]);
        assert_eq!(options.hosts, [3]);
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--rounds", "--rounds needs"),
                ("--hosts 2,0", "'0'"),
                ("--only memory", "'memory'"),
                ("--libs intel", "'intel'"),
            ],
        );
    }
}
