//! The command line of `banyan bench peers`.
use super::args::{Common, each, list};
use super::job::Group;
use super::library::Name;
use super::table::Side;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench peers [OPTIONS]

Builds one C microbenchmark with each MPI library and runs the libraries in turn, each rank bound to a
core. Peers come from PyPI into a folder of their own.

  --rounds N        rounds over all libraries (default 11); also --runs
  --quick           3 rounds
  --only LIST       latency,bandwidth,rate,strided,overlap,threads,allreduce,coll,init,exit,memory,pack,
                    many (collectives of 64 ranks, and messages beside 62 and 100 idle connections; only if it is
                    named here, as most libraries take minutes for it)
  --libs LIST       banyan,banyan-nocma,mpich,openmpi,intel
  --beside DIR      an earlier Banyan, installed there, instead of other libraries
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 60)
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
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(11, 60),
            groups: Group::PEERS.to_vec(),
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
                "--quick" => options.common.rounds = 3,
                "--runs" => options.common.take("peers", "--rounds", value)?,
                "--only" => options.groups = list(value()?, Group::PEERS_ASKED, Group::key)?,
                "--libs" => options.libraries = list(value()?, Name::ALL, Name::key)?,
                "--beside" => options.common.workshop.earlier = Some(value()?.into()),
                _ => options.common.take("peers", arg, value)?,
            }
            Ok(())
        })?;
        if options.common.workshop.earlier.is_some() {
            options.libraries.retain(|name| name.side() == Side::Own);
            options.libraries.push(Name::Earlier);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn lists_choose_and_keep_the_order_of_the_table() {
        let options = Options::parse(&split("--only rate,latency --libs mpich --runs 5")).unwrap();
        assert_eq!(options.groups, [Group::Latency, Group::Rate]);
        assert_eq!(options.libraries, [Name::Mpich]);
        assert_eq!(options.common.rounds, 5);
    }

    #[test]
    fn the_help_names_every_group_in_the_order_of_the_table() {
        let groups: Vec<&str> = Group::PEERS.iter().map(|group| group.key()).collect();
        let line = HELP.split_once("--only LIST").unwrap().1.split_once(",\n").unwrap().0;
        assert_eq!(line.split_whitespace().collect::<String>(), groups.join(","));
    }

    #[test]
    fn an_earlier_build_stands_beside_instead_of_peers() {
        let options = Options::parse(&split("--beside /opt/before --only many,rate")).unwrap();
        assert_eq!(options.libraries, [Name::Banyan, Name::BanyanNoCma, Name::Earlier]);
        assert_eq!(options.groups, [Group::Rate, Group::Many]);
        let options = Options::parse(&split("--libs banyan --beside before")).unwrap();
        assert_eq!(options.libraries, [Name::Banyan, Name::Earlier]);
        assert!(!Options::default().groups.contains(&Group::Many));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--runs", "--runs needs"),
                ("--runs 0", "'0'"),
                ("--only latency,speed", "'speed'"),
                ("--libs lam", "'lam'"),
            ],
        );
    }
}
