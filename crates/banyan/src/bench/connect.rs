//! `banyan bench connect`: what connecting costs programs whose communication is known.
//!
//! So far one section, `counts`: how many connections the processes of single calls and of kernels have, beside the counts
//! of two papers. Counts follow from who talks to whom, and hardly depend on the machine: whether processes share cores
//! decides which algorithms collectives use, so that there is a table by the published ones as well (`--coll flat`).
//!
//! The ranks are this same executable (`kernels` is in it), so that an installed Banyan needs nothing else for it.
mod counts;
mod options;
mod papers;
mod plan;
mod rank;
mod report;

use super::counted::Counted;
use super::progress::Progress;
use counts::Count;
use options::{HELP, Options};
use plan::{Case, Section};
use report::Report;

pub use rank::main as rank_main;

/// The hidden command of the ranks.
pub const RANK_COMMAND: &str = "connect-rank";

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

fn measure(options: &Options) -> Result<Report, String> {
    let bench = Bench::new(options)?;
    let rounds = options.common.rounds;
    let mut counts: Vec<Count> = Vec::new();
    if options.sections.contains(&Section::Counts) {
        counts.extend(options.cases().into_iter().map(Count::new));
    }
    for round in 0..rounds {
        bench.progress.round(round);
        for count in &mut counts {
            bench.count(count, round);
        }
    }
    Ok(Report { counts, rounds })
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

    /// One job; one that fails is a cell and not the end.
    fn count(&self, count: &mut Count, round: usize) {
        let Case { workload, shape, algorithms } = count.case;
        let what = format!("{}, {} ranks, {}", workload.name, shape.ranks, algorithms.key());
        self.progress.step(round, &what);
        let mut command = self.jobs.command_with_matrix(shape.ranks, shape.nodes);
        command.args(["--coll", algorithms.key()]);
        command.arg(self.jobs.banyan()).args(["bench", RANK_COMMAND, workload.name]);
        let stats = self
            .jobs
            .run(command, self.options.common.timeout)
            .and_then(|(_, stats)| serde_json::from_str(&stats).map_err(|e| format!("the statistics: {e}")));
        match stats {
            Ok(stats) => count.add(&stats),
            Err(why) => {
                self.progress.note(&format!("{what}: {why}"));
                count.add_failure();
            }
        }
    }
}
