//! `banyan bench pgas`: a partitioned address space. ARMCI's operations beside those of another library that has the same
//! interface; connections of programs on global arrays to data servers, beside published counts; and the memory of
//! connections on demand beside those of everybody with everybody.
//!
//! Sections: `operations`, two ranks on one host, libraries in turn, round by round; `computing`, a target on another node that
//! computes, and its data server; `connections` and `memory`, jobs on emulated nodes. In all but the first
//! the ranks are this same executable (`pgas-kernels` is in it). Counts follow from who accesses whose
//! memory, and hardly depend on the machine.
mod computing;
mod counts;
mod library;
mod memory;
mod options;
mod papers;
mod plan;
mod report;

use super::counted::Counted;
use super::machine;
use super::progress::Progress;
use super::runner;
use super::sample::Sample;
use super::table::{Column, Line, Table};
use computing::Computing;
use counts::Count;
use library::{Contender, Library};
use memory::Memory;
use options::{HELP, Options};
use plan::{Job, Section};
use report::Report;
use serde_json::Value;
use std::process::Command;

/// The hidden command of the ranks.
pub const RANK_COMMAND: &str = "pgas-rank";
/// A library that failed this often in a job, and never succeeded, is not tried again.
const FAILURES_MAX: usize = 2;
/// Counts hardly vary.
const COUNTS_MAX: usize = 3;

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)?;
        match report.failures() {
            failures if failures.is_empty() => Ok(()),
            failures => Err(format!("jobs failed: {}", failures.join("; "))),
        }
    })
}

/// Runs one rank: `NAME SIZE`.
pub fn rank_main(args: &[String]) -> i32 {
    match args.split_first() {
        Some((name, rest)) if name == computing::PROGRAM => computing::rank_main(rest),
        _ => pgas_kernels::main(args),
    }
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let has = |section| options.sections.contains(&section);
    let mut operations = if has(Section::Operations) { Some(Operations::prepare(options)?) } else { None };
    let banyan = std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))?;
    let jobs = Counted::new(banyan, "pgas");
    let mut counts = if has(Section::Connections) { Count::all(options) } else { Vec::new() };
    let mut computing = has(Section::Computing).then(Computing::default);
    let mut memory = if has(Section::Memory) { Memory::all(options) } else { Vec::new() };
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        if let Some(operations) = &mut operations {
            operations.round(round, options, &progress);
        }
        let bench = Bench { options, jobs: &jobs, progress: &progress, round };
        if let Some(computing) = &mut computing {
            computing.run(&bench);
        }
        if round < COUNTS_MAX {
            counts.iter_mut().for_each(|count| count.run(&bench));
            memory.iter_mut().for_each(|memory| memory.run(&bench));
        }
    }
    drop(progress);
    let operations = operations.map(Operations::tabled);
    Ok(Report {
        operations,
        computing,
        counts,
        memory,
        quick: options.quick,
        rounds: options.common.rounds,
        load_before,
    })
}

/// What runs jobs whose statistics are read.
struct Bench<'a> {
    options: &'a Options,
    jobs: &'a Counted,
    progress: &'a Progress,
    round: usize,
}

impl Bench<'_> {
    /// The statistics of a job of one of the programs. One that fails is a cell and not the end.
    fn job(&self, what: &str, shape: (usize, usize), options: &[&str], program: &[String]) -> Value {
        let Some((_, stats)) = self.run(what, shape, options, program) else { return Value::Null };
        let stats = serde_json::from_str(&stats).map_err(|e| format!("the statistics: {e}"));
        stats.inspect_err(|why| self.progress.note(&format!("{what}: {why}"))).unwrap_or(Value::Null)
    }

    /// What such a job prints.
    fn output(&self, what: &str, shape: (usize, usize), options: &[&str], program: &[String]) -> String {
        self.run(what, shape, options, program).unwrap_or_default().0
    }

    /// Standard output and statistics.
    fn run(
        &self,
        what: &str,
        (ranks, nodes): (usize, usize),
        options: &[&str],
        program: &[String],
    ) -> Option<(String, String)> {
        self.progress.step(self.round, what);
        let mut command: Command = self.jobs.command(ranks, nodes);
        command.args(options).arg(self.jobs.banyan()).args(["bench", RANK_COMMAND]).args(program);
        let ended = self.jobs.run(command, self.options.common.timeout);
        let ended = ended.inspect_err(|why| self.progress.note(&format!("{what}: {why}")));
        ended.ok().map(|(finished, stats)| (finished.stdout, stats))
    }
}

/// Libraries as they are being measured.
struct Operations {
    contenders: Vec<Contender>,
    jobs: Vec<Job>,
    /// By job, contender, row.
    cells: Vec<Vec<Vec<Sample>>>,
}

impl Operations {
    fn prepare(options: &Options) -> Result<Self, String> {
        let contenders = library::contenders(options);
        if let Some(why) = contenders[0].library.as_ref().err().filter(|_| contenders.len() == 1) {
            return Err(format!("no library can be run ({why})"));
        }
        let jobs = plan::jobs();
        let empty = |job: &Job| vec![vec![Sample::default(); job.rows.len()]; contenders.len()];
        let cells = jobs.iter().map(empty).collect();
        Ok(Operations { contenders, jobs, cells })
    }

    /// Each job once with every library; each round begins with another one.
    fn round(&mut self, round: usize, options: &Options, progress: &Progress) {
        for (job, cells) in self.jobs.iter().zip(&mut self.cells) {
            for turn in 0..self.contenders.len() {
                let at = (turn + round) % self.contenders.len();
                let contender = &self.contenders[at];
                let Ok(library) = &contender.library else { continue };
                let cells = &mut cells[at];
                if cells.iter().all(|cell| cell.runs() == 0 && cell.failed() >= FAILURES_MAX) {
                    continue;
                }
                let what = format!("{}, {}", job.name, contender.key);
                progress.step(round, &what);
                let outcome = run(library, job, options);
                if let Err(why) = &outcome {
                    progress.note(&format!("{what}: {why}"));
                }
                for (row, cell) in job.rows.iter().zip(cells) {
                    let finished = outcome.as_ref().ok();
                    cell.add(finished.and_then(|finished| finished.values(&row.key).first().copied()));
                }
            }
        }
    }

    fn tabled(self) -> Table {
        let column = |contender: &Contender| Column {
            key: contender.key,
            side: contender.side,
            version: contender.library.as_ref().map(|library| library.version.clone()).map_err(Clone::clone),
        };
        let mut lines = Vec::new();
        for (job, cells) in self.jobs.iter().zip(&self.cells) {
            for (at, row) in job.rows.iter().enumerate() {
                let cells = cells.iter().map(|of_contender| of_contender[at].clone()).collect();
                lines.push(Line { row: row.clone(), ranks: library::RANKS, cells });
            }
        }
        Table { columns: self.contenders.iter().map(column).collect(), lines }
    }
}

fn run(library: &Library, job: &Job, options: &Options) -> Result<runner::Finished, runner::RunError> {
    let mut command = library.command();
    if options.quick {
        command.arg("quick");
    }
    command.args(job.rows.iter().map(|row| &row.key));
    command.env("BENCH_LIMIT_S", (options.common.timeout.as_secs() + 30).to_string());
    runner::run(command, options.common.timeout)
}
