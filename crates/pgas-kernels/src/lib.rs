//! Small programs on global arrays: those with which Vishnu and Krishnan count connections ("Efficient On-Demand Connection
//! Management Mechanisms with PGAS Models over InfiniBand", 2010), in miniature.
//!
//! What they are for is who talks to whom. What they compute is real, and held against a serial run without global arrays:
//!
//! | name | computes | one-sided operations | checked |
//! |---|---|---|---|
//! | `lu` | a factorization, by blocks dealt out to a 2-D grid | panels of the own row and column of the grid | one process gives the same bits |
//! | `random` | updates of a table at random places | accumulates to everybody, 1,024 updates at a time | every element of the table |
//! | `lj` | atoms with Lennard-Jones forces, by velocity Verlet | blocks of the force matrix from a shared counter: gets and accumulates everywhere | positions and energy, to rounding |
//! | `stencil` | non-linear diffusion in a layer, by backward Euler | ghosts of the neighbours on a grid | one process gives the same bits |
//!
//! `examples/pgas_kernels.rs` is a program of them; `banyan bench pgas` counts their connections.
#![forbid(unsafe_code)]

mod lj;
mod lu;
mod random;
mod shared;
mod stencil;

use mpi::{Communicator, MpiError, Op, Universe};
use pgas::Armci;
use pgas::ga::GaError;
use std::time::Instant;

/// Exit code for a command line that makes no sense.
const USAGE: i32 = 2;

/// Something that can be run, on any number of processes.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name on the command line.
    pub name: &'static str,
    /// What SIZE means.
    pub about: &'static str,
    /// SIZE if nothing is said.
    pub size: usize,
    /// The largest one.
    pub size_max: usize,
    body: fn(&Job, usize) -> Checked,
}

/// What was checked, in a few words, or what is wrong.
type Checked = Result<String, Wrong>;

/// Why a program failed.
#[derive(Debug)]
enum Wrong {
    /// An operation failed.
    Failed(String),
    /// The result is not what it must be.
    Result(String),
}

impl From<MpiError> for Wrong {
    fn from(error: MpiError) -> Self {
        Wrong::Failed(error.to_string())
    }
}

impl From<GaError> for Wrong {
    fn from(error: GaError) -> Self {
        Wrong::Failed(error.to_string())
    }
}

/// The processes of a program.
struct Job {
    armci: Armci,
    world: Communicator,
}

/// All of them.
pub const ALL: [Program; 4] = [
    Program { name: "lu", about: "rows of the matrix", size: 256, size_max: 8192, body: lu::run },
    Program {
        name: "random",
        about: "2^SIZE numbers in the table",
        size: 12,
        size_max: 30,
        body: random::run,
    },
    Program { name: "lj", about: "atoms", size: 216, size_max: 100_000, body: lj::run },
    Program { name: "stencil", about: "cells of an edge", size: 40, size_max: 4096, body: stencil::run },
];

/// The program of this name.
pub fn find(name: &str) -> Option<&'static Program> {
    ALL.iter().find(|program| program.name == name)
}

/// Runs one process of a program: `NAME [SIZE]`. Returns its exit code; the first process says what was checked.
pub fn main(args: &[String]) -> i32 {
    let universe = match mpi::init() {
        Ok(universe) => universe,
        Err(error) => {
            eprintln!("pgas-kernels: {error}");
            return 1;
        }
    };
    match parse(args) {
        Ok((program, size)) => program.run(&universe, size),
        Err(what) => {
            if universe.world().rank() == 0 {
                eprintln!("{}", what.trim_end());
            }
            USAGE
        }
    }
}

fn parse(args: &[String]) -> Result<(&'static Program, usize), String> {
    let (name, size) = match args {
        [name] => (name, None),
        [name, size] => (name, Some(size)),
        _ => return Err(usage()),
    };
    let program = find(name).ok_or_else(|| format!("'{name}' is not a program\n{}", usage()))?;
    let most = program.size_max;
    let wrong = |text: &String| format!("SIZE of {name} is a number from 1 to {most}, not '{text}'");
    let number = |text: &String| match text.parse() {
        Ok(size) if (1..=most).contains(&size) => Ok(size),
        _ => Err(wrong(text)),
    };
    Ok((program, size.map_or(Ok(program.size), number)?))
}

fn usage() -> String {
    let line = |program: &Program| {
        let Program { name, about, size, .. } = program;
        format!("  {name:<9} SIZE: {about} ({size})\n")
    };
    "usage: pgas_kernels NAME [SIZE]\n".to_string() + &ALL.iter().map(line).collect::<String>()
}

impl Program {
    /// Runs it in this process of a job. A wrong result ends the job.
    fn run(&self, universe: &Universe, size: usize) -> i32 {
        match self.checked(universe, size) {
            Ok(what) => {
                if universe.world().rank() == 0 {
                    println!("{}: {} processes, size {size}: {what}", self.name, universe.world().size());
                }
                0
            }
            Err(Wrong::Failed(error)) => universe.abort(1, &format!("{}: {error}", self.name)),
            Err(Wrong::Result(what)) => universe.abort(1, &format!("{}: wrong: {what}", self.name)),
        }
    }

    fn checked(&self, universe: &Universe, size: usize) -> Checked {
        let world = universe.world();
        let job = Job { armci: Armci::new(&world)?, world };
        job.armci.barrier()?;
        let start = Instant::now();
        let what = (self.body)(&job, size)?;
        let longest = job.world.reduce(&[start.elapsed().as_secs_f64()], Op::Max, 0)?;
        Ok(longest.map_or(what.clone(), |seconds| format!("{what} ({:.1} ms)", 1e3 * seconds[0])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(String::from).collect();
            parse(&words).map(|(program, size)| (program.name, size))
        };
        assert_eq!(parse("lu 512"), Ok(("lu", 512)));
        assert_eq!(parse("stencil"), Ok(("stencil", 40)));
        for (line, word) in [("cg", "'cg'"), ("lu big", "'big'"), ("random 31", "1 to 30"), ("", "usage")] {
            assert!(parse(line).unwrap_err().contains(word), "{line}");
        }
    }
}
