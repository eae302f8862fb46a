//! `banyan bench connect`: what connecting costs programs whose communication is known.
//!
//! Sections: `counts`, how many connections the processes of single calls and of kernels have, beside the counts of two
//! papers; `pair`, how long two processes take to connect; `startup`, how long it takes to connect everybody, by phases;
//! `first`, what the first exchange of everybody costs after that and without it; `static`, programs with static beside
//! on-demand connections; `auto`, programs by every policy and by the one that chooses itself; and `pattern`, what a recorded
//! pattern is worth. Counts follow from who talks to whom, and hardly depend on the machine: whether processes share
//! cores decides which algorithms collectives use, so that there is a table by the published ones as well (`--coll flat`).
//! Times are for a quiet machine; the jobs that are compared run in turn.
//!
//! The ranks are this same executable (`kernels` is in it), so that an installed Banyan needs nothing else for it.
mod auto;
mod compare;
mod counts;
mod device;
mod first;
mod graph;
mod options;
mod pair;
mod papers;
mod pattern;
mod plan;
mod rank;
mod report;
mod startup;

use super::counted::Counted;
use super::machine;
use super::progress::Progress;
use super::runner::Finished;
use auto::Auto;
use compare::Compare;
use counts::Count;
use first::First;
use options::{HELP, Options};
use pair::Pair;
use pattern::Patterns;
use plan::{Case, Section};
use report::Report;
use serde_json::Value;
use startup::Startup;
use std::path::Path;
use std::process::Command;

pub use rank::main as rank_main;

/// The hidden command of the ranks.
pub const RANK_COMMAND: &str = "connect-rank";
/// Ranks of the first alltoall.
const FIRST_RANKS: usize = 64;

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

fn measure(options: &Options) -> Result<Report, String> {
    let bench = Bench::new(options)?;
    let rounds = options.common.rounds;
    let has = |section| options.sections.contains(&section);
    let mut report =
        Report { rounds, busy: machine::busy_warning(machine::load_average()), ..Report::default() };
    if has(Section::Counts) {
        report.counts.extend(options.cases().into_iter().map(Count::new));
    }
    report.pair = has(Section::Pair).then(|| Pair::new(options.quick, options.costs()));
    report.startup = has(Section::Startup).then(|| Startup::new(&options.startup, options.costs()[0]));
    report.first = has(Section::First).then(|| First::new(if options.quick { 16 } else { FIRST_RANKS }));
    report.compare = has(Section::Static).then(|| Compare::new(&options.workloads, options.quick));
    report.auto = has(Section::Auto).then(|| Auto::new(&options.auto));
    report.pattern = has(Section::Pattern).then(|| Patterns::new(options.quick));
    for round in 0..rounds {
        bench.progress.round(round);
        for count in &mut report.counts {
            bench.count(count, round);
        }
        for _ in 0..options.repeats {
            report.pair.iter_mut().for_each(|pair| pair.run(&bench, round));
            report.startup.iter_mut().for_each(|startup| startup.run(&bench, round));
            report.first.iter_mut().for_each(|first| first.run(&bench, round));
            report.compare.iter_mut().for_each(|compare| compare.run(&bench, round));
            report.auto.iter_mut().for_each(|auto| auto.run(&bench, round));
            report.pattern.iter_mut().for_each(|pattern| pattern.run(&bench, round));
        }
    }
    Ok(report)
}

struct Bench<'a> {
    options: &'a Options,
    jobs: Counted,
    progress: Progress,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Result<Self, String> {
        let banyan = std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))?;
        let progress = Progress::new(options.common.rounds);
        Ok(Bench { options, jobs: Counted::new(banyan, "connect"), progress })
    }

    /// One job, to whose command line `add` adds: what it printed, and its statistics. One that fails is a cell and not the end.
    fn job(
        &self,
        what: &str,
        round: usize,
        ranks: usize,
        nodes: usize,
        add: impl FnOnce(&mut Command, &Path),
    ) -> Option<(Finished, Value)> {
        self.progress.step(round, what);
        let mut command = self.jobs.command(ranks, nodes);
        add(&mut command, self.jobs.banyan());
        let ended = self.jobs.run(command, self.options.common.timeout).and_then(|(finished, stats)| {
            let stats = serde_json::from_str(&stats).map_err(|e| format!("the statistics: {e}"))?;
            Ok((finished, stats))
        });
        ended.inspect_err(|why| self.progress.note(&format!("{what}: {why}"))).ok()
    }

    /// A job with a connection for each pair, and one with connections that nodes share.
    fn count(&self, count: &mut Count, round: usize) {
        let Case { workload, shape, algorithms } = count.case;
        let run = |xrc: &str| {
            let what = format!("{}, {} ranks, {}, xrc {xrc}", workload.name, shape.ranks, algorithms.key());
            let job = self.job(&what, round, shape.ranks, shape.nodes, |command, banyan| {
                command.args(["--coll", algorithms.key(), "--xrc", xrc]);
                command.arg(banyan).args(["bench", RANK_COMMAND, workload.name]);
            });
            job.map_or(Value::Null, |(_, stats)| stats)
        };
        count.add(&run("off"));
        count.add_xrc(&run("on"));
    }
}
