//! `banyan bench dynamic`: jobs that start others, and jobs of two launches that meet at a port, beside MPICH under its own
//! launcher. Both take turns, round after round, so that a noisy minute of the machine falls on both.
mod library;
mod options;
mod plan;
mod report;

use super::machine;
use super::progress::Progress;
use super::runner::{self, Finished, RunError};
use super::sample::Sample;
use super::table::{Column, Line, Table};
use library::{Library, Name};
use options::{HELP, Options};
use plan::{Job, Work};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A library that failed this often in a job, and never succeeded, is not tried again.
const FAILURES_MAX: usize = 2;
/// So often it is looked whether the first of two launches has left the name of its port.
const LOOK: Duration = Duration::from_millis(1);

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

struct Contender {
    name: Name,
    library: Result<Library, String>,
}

struct Bench<'a> {
    options: &'a Options,
    contenders: Vec<Contender>,
    jobs: Vec<Job>,
    /// By job, contender, row.
    cells: Vec<Vec<Vec<Sample>>>,
    /// Where a port's name is left.
    port: PathBuf,
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let jobs = Job::plan(options);
    let contenders: Vec<Contender> = options.libraries.iter().map(|&name| prepare(name, options)).collect();
    if contenders.iter().all(|contender| contender.library.is_err()) {
        return Err("no library can be run".into());
    }
    let empty = |job: &Job| vec![vec![Sample::default(); job.rows.len()]; contenders.len()];
    let cells = jobs.iter().map(empty).collect();
    let port = options.common.workshop.absolute_dir()?.join(format!("port-{}", std::process::id()));
    let mut bench = Bench { options, contenders, jobs, cells, port };
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        (0..bench.jobs.len()).for_each(|index| bench.round(round, index, &progress));
    }
    drop(progress);
    Ok(bench.report(load_before))
}

fn prepare(name: Name, options: &Options) -> Contender {
    let library = Library::prepare(name, &options.common.workshop, options.common.timeout);
    if let Err(why) = &library {
        eprintln!("bench: {} cannot be run: {why}", name.key());
    }
    Contender { name, library }
}

impl Bench<'_> {
    /// One job, once on every library; each round begins with another one.
    fn round(&mut self, round: usize, index: usize, progress: &Progress) {
        let job = &self.jobs[index];
        for turn in 0..self.contenders.len() {
            let at = (turn + round) % self.contenders.len();
            let contender = &self.contenders[at];
            let cells = &mut self.cells[index][at];
            let hopeless = cells.iter().all(|cell| cell.runs() == 0 && cell.failed() >= FAILURES_MAX);
            let Ok(library) = &contender.library else { continue };
            if hopeless {
                continue;
            }
            let what = format!("{}, {}", job.describe(), contender.name.key());
            progress.step(round, &what);
            let outcome = run(library, job, &self.port, self.options.common.timeout);
            if let Err(why) = &outcome {
                progress.note(&format!("{what}: {why}"));
            }
            let times = outcome.map(|finished| finished.values(job.key())).unwrap_or_default();
            for (row, cell) in job.rows.iter().zip(cells) {
                cell.add(row.part.of(&times));
            }
        }
    }

    fn report(self, load_before: f64) -> Report {
        let column = |contender: &Contender| Column {
            key: contender.name.key(),
            side: contender.name.side(),
            version: contender.library.as_ref().map(|library| library.version.clone()).map_err(Clone::clone),
        };
        let columns = self.contenders.iter().map(column).collect();
        let mut lines = Vec::new();
        for (job, cells) in self.jobs.iter().zip(&self.cells) {
            for (at, row) in job.rows.iter().enumerate() {
                let cells = cells.iter().map(|of_library| of_library[at].clone()).collect();
                lines.push(Line { row: row.row.clone(), ranks: job.processes(), cells });
            }
        }
        Report { table: Table { columns, lines }, rounds: self.options.common.rounds, load_before }
    }
}

fn run(library: &Library, job: &Job, port: &Path, limit: Duration) -> Result<Finished, RunError> {
    match job.work {
        Work::Spawn { .. } => runner::run(library.command(job, "spawn", port), limit),
        Work::Meet { .. } => {
            let _ = std::fs::remove_file(port);
            let [accept, connect] = ["accept", "connect"].map(|mode| library.command(job, mode, port));
            let met = side_by_side(accept, connect, port, limit);
            let _ = std::fs::remove_file(port);
            met
        }
    }
}

/// Two launches; the second begins when the first has left its port's name. What it says counts: how long the first one
/// waits depends on when the second comes.
fn side_by_side(first: Command, second: Command, port: &Path, limit: Duration) -> Result<Finished, RunError> {
    thread::scope(|scope| {
        let accepting = scope.spawn(move || runner::run(first, limit));
        while !port.exists() && !accepting.is_finished() {
            thread::sleep(LOOK);
        }
        let called = if port.exists() {
            runner::run(second, limit)
        } else {
            Err(RunError::Failed("there is no port".into()))
        };
        // The first one's complaint is the cause.
        accepting.join().expect("a run does not panic")?;
        called
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: String) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        command
    }

    #[test]
    fn the_second_launch_finds_the_port_and_says_how_long_it_took() {
        let folder = tempfile::tempdir().unwrap();
        let port = folder.path().join("port");
        let path = port.display(); // which is there only when all of it is
        let [write, read] =
            [format!("echo name > {path}.new && mv {path}.new {path}"), format!("cat {path}")].map(shell);
        let finished = side_by_side(write, read, &port, Duration::from_secs(20)).unwrap();
        assert_eq!(finished.stdout, "name\n");
    }

    #[test]
    fn a_first_launch_that_fails_is_not_called() {
        let folder = tempfile::tempdir().unwrap();
        let (never, called) = (folder.path().join("never"), folder.path().join("called"));
        let [fails, calls] = ["exit 3".to_string(), format!("touch {}", called.display())].map(shell);
        let error = side_by_side(fails, calls, &never, Duration::from_secs(20)).unwrap_err();
        assert!(error.to_string().contains('3') && !called.exists(), "{error}");
    }
}
