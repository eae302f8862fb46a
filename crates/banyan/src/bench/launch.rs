//! `banyan bench launch`: from start to exit, beside other launchers and a bare loop of spawns. All take turns, round
//! after round, so that a noisy minute of the machine falls on all of them.
mod growth;
mod launcher;
mod options;
mod plan;
mod report;

use super::limit::BareLoop;
use super::machine;
use super::progress::Progress;
use super::runner::{self, RunError};
use super::sample::Sample;
use growth::Growth;
pub use launcher::HELLO;
use launcher::{Launcher, Rig};
use options::{HELP, Options};
use plan::{Cell, Work};
use report::{Column, Line, Report};
use std::time::{Duration, Instant};

/// A launcher that failed this often in a line, and never succeeded, is not tried again there.
const FAILURES_MAX: usize = 2;
/// When the runs of a launcher in a line have taken this long, there are no more of them.
const LINE_TIME_MAX: Duration = Duration::from_secs(20);

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

/// Runs of one launcher in one line of the table.
#[derive(Clone, Debug, Default)]
struct Timing {
    /// Milliseconds.
    ms: Sample,
    /// How many of the failed runs had to be ended.
    hung: usize,
    /// What all runs took, failed ones too.
    spent: Duration,
    /// What the last failed run said.
    why: Option<String>,
}

impl Timing {
    fn add(&mut self, outcome: Result<Duration, RunError>, spent: Duration) {
        self.spent += spent;
        self.ms.add(outcome.as_ref().ok().map(|time| time.as_secs_f64() * 1e3));
        if let Err(why) = outcome {
            self.hung += usize::from(matches!(why, RunError::Hung(_)));
            self.why = Some(why.to_string());
        }
    }

    /// Is another run of no use, or too expensive?
    fn is_over(&self) -> bool {
        let hopeless = self.ms.runs() == 0 && self.ms.failed() - self.hung >= FAILURES_MAX;
        hopeless || self.spent >= LINE_TIME_MAX
    }
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let prepare = |&launcher: &Launcher| {
        let rig = Rig::prepare(launcher, &options.works, &options.common.workshop);
        if let Err(why) = &rig {
            eprintln!("bench: {} cannot be run: {why}", launcher.key());
        }
        (launcher, rig)
    };
    let rigs: Vec<_> = options.launchers.iter().map(prepare).collect();
    let mut lines: Vec<(Cell, Vec<Timing>)> =
        options.cells().into_iter().map(|cell| (cell, vec![Timing::default(); rigs.len()])).collect();
    let mut growth = Growth::plan(options)?;
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        for (cell, timings) in &mut lines {
            for turn in 0..rigs.len() {
                let at = (turn + round) % rigs.len(); // each round begins with another one
                let Ok(rig) = &rigs[at].1 else { continue };
                if rig.launcher.takes(*cell) && !timings[at].is_over() {
                    progress.step(round, &format!("{cell}, {}", rig.launcher.key()));
                    run(rig, *cell, options, &mut timings[at], &progress);
                }
            }
        }
        growth.round(|what| progress.step(round, what))?;
    }
    drop(progress);
    let columns =
        rigs.into_iter().map(|(launcher, rig)| Column { launcher, version: rig.map(|rig| rig.version) });
    let lines = lines.into_iter().map(|(cell, timings)| Line { cell, timings }).collect();
    Ok(Report { columns: columns.collect(), lines, growth, rounds: options.common.rounds, load_before })
}

fn run(rig: &Rig, cell: Cell, options: &Options, timing: &mut Timing, progress: &Progress) {
    let start = Instant::now();
    let outcome = match rig.launcher {
        Launcher::Bare => BareLoop::run(cell.shape.ranks())
            .map(|times| times.reaped)
            .map_err(|e| RunError::Failed(e.to_string())),
        _ => timed(rig, cell, options),
    };
    if let Err(why) = &outcome {
        progress.note(&format!("{cell}, {}: {why}", rig.launcher.key()));
    }
    timing.add(outcome, start.elapsed());
}

fn timed(rig: &Rig, cell: Cell, options: &Options) -> Result<Duration, RunError> {
    let command = rig.command(cell).map_err(RunError::Failed)?;
    let finished = runner::run(command, options.limit(cell.work))?;
    if cell.work == Work::Hello {
        let ranks = cell.shape.ranks();
        let end = format!(" of {ranks}");
        let is_hello = |line: &&str| line.starts_with("hello from ") && line.ends_with(&end);
        let heard = finished.stdout.lines().filter(is_hello).count();
        if heard != ranks {
            return Err(RunError::Failed(format!("{heard} of {ranks} ranks said hello")));
        }
    }
    Ok(finished.elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_when_they_are_of_no_use_or_took_long_enough() {
        let second = Duration::from_secs(1);
        let mut slow = Timing::default();
        slow.add(Ok(second), LINE_TIME_MAX / 2);
        assert!(!slow.is_over());
        slow.add(Err(RunError::Hung(second)), LINE_TIME_MAX / 2);
        assert!(slow.is_over());
        assert_eq!((slow.ms.runs(), slow.ms.failed(), slow.hung), (1, 1, 1));
        let mut broken = Timing::default();
        for _ in 0..FAILURES_MAX {
            assert!(!broken.is_over());
            broken.add(Err(RunError::Failed("it broke".into())), second);
        }
        assert!(broken.is_over());
        let mut hanging = Timing::default();
        hanging.add(Err(RunError::Hung(second)), second);
        hanging.add(Err(RunError::Hung(second)), second);
        assert!(!hanging.is_over(), "how often it hangs is worth knowing");
    }
}
