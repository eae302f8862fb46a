//! Small programs with known communication: the kernels of the NAS Parallel Benchmarks in miniature, and single calls.
//!
//! What they are for is who talks to whom. Each kernel has the processes in the same arrangement as its model, exchanges
//! with the same others at the same points of its algorithm, and begins and ends as all of them do: a broadcast of the
//! problem, a barrier, and the longest time of a process. What it computes is smaller, but real, and is checked:
//!
//! | name | computes | exchanges | checked |
//! |---|---|---|---|
//! | `cg` | smallest eigenvalue of a sparse matrix, by conjugate gradients | sums along rows of a 2-D grid, transposition | residual; one process gives the same |
//! | `ep` | pairs of normal deviates | one sum at the end | one process gives the same; published sums |
//! | `ft` | heat in a box, by 3-D Fourier transforms | everybody with everybody | the closed solution; back and forth gives the input |
//! | `is` | sorts integers by buckets | sums, then everybody with everybody | order, number and sum of the keys |
//! | `lu` | Poisson's equation, by SSOR | planes of a wavefront on a 2-D grid | one process gives the same bits; the residual falls |
//! | `mg` | Poisson's equation, by V-cycles | faces on a 3-D grid, also of coarse levels that few have | the same bits; the residual falls |
//! | `sp` | heat, by alternating directions on a multi-partition | six neighbours, two of them diagonal | the same bits |
//!
//! They use nothing but the safe API, are no benchmark of speed, and share no code with the NAS Parallel Benchmarks.
//! `examples/kernels.rs` is a program of them; `banyan bench connect` counts their connections.
#![forbid(unsafe_code)]

mod adi;
mod calls;
mod cg;
mod ep;
mod ft;
mod is;
mod lu;
mod mg;
pub mod numbers;
mod shared;

use mpi::{Communicator, MpiError, Op, Universe};
use std::time::Instant;

/// Exit code for a command line, or a number of processes, that makes no sense.
const USAGE: i32 = 2;

/// Something that can be run.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What SIZE means.
    pub about: &'static str,
    /// Which numbers of processes it takes.
    pub ranks: Ranks,
    /// SIZE if nothing is said.
    pub size: usize,
    /// What a process does.
    body: Body,
}

/// What a process of a workload does.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// A call and nothing else.
    Call(fn(&Communicator, usize) -> Checked),
    /// A kernel, with what all kernels do before and after it.
    Kernel(fn(&Job, usize) -> Checked),
}

/// Which numbers of processes a workload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Any.
    Any,
    /// 1, 2, 4, 8, ...
    PowersOfTwo,
    /// 1, 4, 9, 16, ...
    Squares,
}

impl Ranks {
    /// Is this one of them?
    pub fn accept(self, ranks: usize) -> bool {
        match self {
            Ranks::Any => ranks > 0,
            Ranks::PowersOfTwo => ranks.is_power_of_two(),
            Ranks::Squares => ranks > 0 && ranks.isqrt().pow(2) == ranks,
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Ranks::Any => "any number of processes",
            Ranks::PowersOfTwo => "a power of two of processes",
            Ranks::Squares => "a square number of processes (1, 4, 9, 16, 25, 36, ...)",
        }
    }
}

/// What was checked, in a few words, or what is wrong.
type Checked = Result<String, Wrong>;

/// Why a workload failed.
#[derive(Debug)]
pub enum Wrong {
    /// MPI said no.
    Mpi(MpiError),
    /// It cannot be run so.
    Usage(String),
    /// The result is not what it must be.
    Result(String),
}

impl From<MpiError> for Wrong {
    fn from(error: MpiError) -> Self {
        Wrong::Mpi(error)
    }
}

/// The processes of a kernel, and this one alone, which computes the same for comparison.
struct Job {
    world: Communicator,
    alone: Communicator,
}

const fn call(name: &'static str, size: usize, body: fn(&Communicator, usize) -> Checked) -> Workload {
    Workload { name, about: "bytes of a block", ranks: Ranks::Any, size, body: Body::Call(body) }
}

/// All of them: calls first.
pub const ALL: [Workload; 13] = [
    call("ring", 8, calls::ring),
    call("barrier", 0, calls::barrier),
    call("bcast", 8, calls::bcast),
    call("allreduce", 8, calls::allreduce),
    call("allgather", 8, calls::allgather),
    call("alltoall", 1024, calls::alltoall),
    Workload {
        name: "cg",
        about: "unknowns",
        ranks: Ranks::PowersOfTwo,
        size: 1024,
        body: Body::Kernel(cg::run),
    },
    Workload {
        name: "ep",
        about: "2^SIZE pairs (24 and 25 have published sums)",
        ranks: Ranks::Any,
        size: 16,
        body: Body::Kernel(ep::run),
    },
    Workload {
        name: "ft",
        about: "points of an edge, a power of two",
        ranks: Ranks::PowersOfTwo,
        size: 64,
        body: Body::Kernel(ft::run),
    },
    Workload { name: "is", about: "2^SIZE keys", ranks: Ranks::Any, size: 16, body: Body::Kernel(is::run) },
    Workload {
        name: "lu",
        about: "points of an edge",
        ranks: Ranks::PowersOfTwo,
        size: 16,
        body: Body::Kernel(lu::run),
    },
    Workload {
        name: "mg",
        about: "points of an edge, a power of two",
        ranks: Ranks::PowersOfTwo,
        size: 32,
        body: Body::Kernel(mg::run),
    },
    Workload {
        name: "sp",
        about: "points of an edge",
        ranks: Ranks::Squares,
        size: 24,
        body: Body::Kernel(adi::run),
    },
];

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

/// Runs one process of a workload: `NAME [SIZE]`. Returns its exit code; the first process says what was checked.
pub fn main(args: &[String]) -> i32 {
    let universe = match mpi::init() {
        Ok(universe) => universe,
        Err(error) => {
            eprintln!("kernels: {error}");
            return 1;
        }
    };
    match parse(args) {
        Ok((workload, size)) => workload.run(&universe, size),
        Err(what) => refuse(universe.world().rank(), &what),
    }
}

/// Every process finds the same; one says it.
fn refuse(rank: usize, what: &str) -> i32 {
    if rank == 0 {
        eprintln!("{}", what.trim_end());
    }
    USAGE
}

fn parse(args: &[String]) -> Result<(&'static Workload, usize), String> {
    let (name, size) = match args {
        [name] => (name, None),
        [name, size] => (name, Some(size)),
        _ => return Err(usage()),
    };
    let workload = find(name).ok_or_else(|| format!("'{name}' is not a kernel\n{}", usage()))?;
    let number = |text: &String| text.parse().map_err(|_| format!("SIZE is a number, not '{text}'"));
    Ok((workload, size.map_or(Ok(workload.size), number)?))
}

fn usage() -> String {
    let line = |workload: &Workload| {
        let Workload { name, about, ranks, size, .. } = workload;
        format!("  {name:<11} {:<58} SIZE: {about} ({size})\n", ranks.words())
    };
    "usage: kernels NAME [SIZE]\n".to_string() + &ALL.iter().map(line).collect::<String>()
}

impl Workload {
    /// Is it a single call, and not a kernel?
    pub fn is_call(&self) -> bool {
        matches!(self.body, Body::Call(_))
    }

    /// Runs it in this process of a job. A wrong result ends the job.
    fn run(&self, universe: &Universe, size: usize) -> i32 {
        let world = universe.world();
        let (rank, ranks) = (world.rank(), world.size());
        if !self.ranks.accept(ranks) {
            return refuse(rank, &format!("{} takes {}, not {ranks}", self.name, self.ranks.words()));
        }
        let checked = match self.body {
            Body::Call(body) => body(&world, size),
            Body::Kernel(body) => as_kernel(&Job { world, alone: universe.itself() }, size, body),
        };
        match checked {
            Ok(what) => {
                if rank == 0 {
                    println!("{}: {ranks} processes, size {size}: {what}", self.name);
                }
                0
            }
            Err(Wrong::Usage(what)) => refuse(rank, &format!("{}: {what}", self.name)),
            Err(Wrong::Mpi(error)) => universe.abort(1, &format!("{}: {error}", self.name)),
            Err(Wrong::Result(what)) => universe.abort(1, &format!("{}: wrong: {what}", self.name)),
        }
    }
}

/// What all kernels do: the first process says what the problem is, all begin together, and the longest time is known in
/// the end. These calls are part of whom a process talks to.
fn as_kernel(job: &Job, size: usize, body: fn(&Job, usize) -> Checked) -> Checked {
    let mut problem = [size];
    job.world.bcast(&mut problem, 0)?;
    job.world.barrier()?;
    let start = Instant::now();
    let what = body(job, problem[0])?;
    let longest = job.world.reduce(&[start.elapsed().as_secs_f64()], Op::Max, 0)?;
    Ok(longest.map_or(what.clone(), |seconds| format!("{what} ({:.1} ms)", 1e3 * seconds[0])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_processes_are_what_the_words_say() {
        let accepted = |ranks: Ranks| (0..=36).filter(|n| ranks.accept(*n)).collect::<Vec<_>>();
        assert_eq!(accepted(Ranks::PowersOfTwo), [1, 2, 4, 8, 16, 32]);
        assert_eq!(accepted(Ranks::Squares), [1, 4, 9, 16, 25, 36]);
        assert_eq!(accepted(Ranks::Any).len(), 36);
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(String::from).collect();
            parse(&words).map(|(workload, size)| (workload.name, size))
        };
        assert_eq!(parse("cg 512"), Ok(("cg", 512)));
        assert_eq!(parse("ep"), Ok(("ep", 16)));
        for (line, word) in [("dt", "'dt'"), ("cg big", "'big'"), ("", "usage"), ("cg 1 2", "usage")] {
            assert!(parse(line).unwrap_err().contains(word), "{line}");
        }
    }
}
