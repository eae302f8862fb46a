//! The command line of `banyan bench pgas`.
use super::super::args::{Common, each, list, number, numbers};
use super::plan::Section;
use pgas_kernels::Program;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench pgas [OPTIONS]

A partitioned address space: ARMCI's operations, and programs on global arrays that check their own results.

  operations   put, get, accumulate and fetch-and-add of two ranks on this host, in a row and with strides, by a C
               program that knows ARMCI's interface only; beside another library that has it, in turn, round by round
  computing    put and fence to a rank of another emulated node that computes for 2 s, by its data server, beside one
               that waits
  connections  connections of processes to data servers of other nodes, and of those to processes, of four programs on
               emulated nodes (banyan run --data-server), beside the counts of a paper
  memory       connections on demand beside everybody connected to everybody, for two of the programs

  --armci-mpi DIR   armci-mpi, built and installed there (include/armci.h, lib); without it there is no other library
  --mpich DIR       the MPICH that it was built with (bin/mpicc, bin/mpiexec); default: the folder of --armci-mpi if it
                    has these, and otherwise PyPI's, of the same binary interface
  --ranks LIST      sizes of jobs (default 16,32,64,128); memory is measured at the largest
  --per-node N      ranks on each emulated node (default 6, as in the paper)
  --programs LIST   lu,random,lj,stencil
  --only LIST       operations,computing,connections,memory
  --rounds N        rounds over all libraries (default 11); programs are counted 3 times at most
  --quick           1 round of short measurements, and jobs of 16 ranks: that it works
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where peers and programs are built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 120)
";

const RANKS_MAX: usize = 4096;
/// Ranks on a node in the paper.
const PER_NODE: usize = 6;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// What is measured and counted.
    pub sections: Vec<Section>,
    /// Where another library is.
    pub armci_mpi: Option<PathBuf>,
    /// Where the MPI library below it is, if said.
    pub mpich: Option<PathBuf>,
    /// Sizes of jobs.
    pub ranks: Vec<usize>,
    /// Ranks on a node.
    pub per_node: usize,
    /// What is run.
    pub programs: Vec<&'static Program>,
    /// Is it only to be seen that all works?
    pub quick: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(11, 120),
            sections: Section::ALL.to_vec(),
            armci_mpi: None,
            mpich: None,
            ranks: vec![16, 32, 64, 128],
            per_node: PER_NODE,
            programs: pgas_kernels::ALL.iter().collect(),
            quick: false,
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let all: Vec<&Program> = pgas_kernels::ALL.iter().collect();
        let mut options = Options::default();
        each(args, |arg, value| {
            match arg {
                "--quick" => options.quick(),
                "--armci-mpi" => options.armci_mpi = Some(value()?.into()),
                "--mpich" => options.mpich = Some(value()?.into()),
                "--ranks" => options.ranks = numbers(arg, value()?, RANKS_MAX)?,
                "--per-node" => options.per_node = number(arg, value()?, RANKS_MAX)?,
                "--programs" => options.programs = list(value()?, &all, |program| program.name)?,
                "--only" => options.sections = list(value()?, Section::ALL, Section::key)?,
                _ => options.common.take("pgas", arg, value)?,
            }
            Ok(())
        })?;
        if options.mpich.is_some() && options.armci_mpi.is_none() {
            return Err("--mpich says what is below --armci-mpi DIR, which is not there".into());
        }
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 1;
        self.ranks = vec![16];
        self.quick = true;
    }

    /// Emulated nodes of a job.
    pub fn nodes(&self, ranks: usize) -> usize {
        ranks.div_ceil(self.per_node)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn nodes_are_as_in_the_paper_unless_said() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!([16, 128].map(|ranks| options.nodes(ranks)), [3, 22]);
        assert_eq!(Options::parse(&split("--per-node 8")).unwrap().nodes(128), 16);
    }

    #[test]
    fn lists_choose_and_what_is_said_last_holds() {
        let options =
            Options::parse(&split("--quick --ranks 32,8 --programs stencil,lu --only memory")).unwrap();
        assert_eq!((options.common.rounds, options.ranks.as_slice(), options.quick), (1, &[32, 8][..], true));
        assert_eq!(
            options.programs.iter().map(|program| program.name).collect::<Vec<_>>(),
            ["lu", "stencil"]
        );
        assert_eq!(options.sections, [Section::Memory]);
    }

    #[test]
    fn the_help_names_everything_that_can_be_asked_for() {
        let programs: Vec<&str> = pgas_kernels::ALL.iter().map(|program| program.name).collect();
        assert!(HELP.contains(&format!("--programs LIST   {}\n", programs.join(","))));
        let sections: Vec<&str> = Section::ALL.iter().map(|section| section.key()).collect();
        assert!(HELP.contains(&format!("--only LIST       {}\n", sections.join(","))));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--ranks 0", "'0'"),
                ("--only latency", "'latency'"),
                ("--programs cg", "'cg'"),
                ("--per-node 0", "'0'"),
                ("--armci-mpi", "--armci-mpi needs"),
                ("--mpich /opt", "--armci-mpi DIR"),
            ],
        );
    }
}
