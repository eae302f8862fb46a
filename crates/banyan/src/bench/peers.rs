//! `banyan bench peers`: runs every library in turn, round after round, so that a noisy minute of the
//! machine falls on all of them.
use super::job::{EXIT_KEY, Job};
use super::library::{self, Library, MICRO, Name};
use super::machine;
use super::options::{HELP, Options};
use super::report::Report;
use super::runner::{self, Finished, RunError};
use super::sample::Sample;
use super::table::{Column, Line, Table};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A library that failed this often in a job, and never succeeded, is not tried again.
const FAILURES_MAX: usize = 2;
/// Sizes hardly vary, and a run at 64 ranks takes seconds.
const MEMORY_RUNS_MAX: usize = 3;
const LIMIT_TIME: Duration = Duration::from_millis(200);

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let jobs = Job::plan(&options.groups);
    let bare = library::bare_program(&options.common.workshop)?;
    let contenders = prepare(options);
    if contenders.iter().all(|contender| contender.library.is_err()) {
        return Err("no library can be run".into());
    }
    let mut bench =
        Bench { options, bare, contenders, cells: Vec::new(), limit: Sample::default(), load_before };
    bench.cells = jobs
        .iter()
        .map(|job| vec![vec![Sample::default(); job.rows.len()]; bench.contenders.len()])
        .collect();
    for round in 0..options.common.rounds {
        bench.limit.add(super::limit::line_one_way(LIMIT_TIME).ok().map(|time| time.as_secs_f64() * 1e6));
        for (index, job) in jobs.iter().enumerate() {
            if job.mode != "memory" || round < MEMORY_RUNS_MAX {
                bench.round(round, index, job);
            }
        }
    }
    Ok(bench.report(&jobs))
}

struct Contender {
    name: Name,
    library: Result<Library, String>,
}

fn prepare(options: &Options) -> Vec<Contender> {
    let prepared = |&name: &Name| {
        eprintln!("bench: preparing {}", name.key());
        let library = Library::prepare(name, MICRO, &options.common.workshop, options.common.timeout);
        if let Err(why) = &library {
            eprintln!("bench: {} cannot be run: {why}", name.key());
        }
        Contender { name, library }
    };
    options.libraries.iter().map(prepared).collect()
}

struct Bench<'a> {
    options: &'a Options,
    bare: PathBuf,
    contenders: Vec<Contender>,
    /// By job, contender, row.
    cells: Vec<Vec<Vec<Sample>>>,
    limit: Sample,
    load_before: f64,
}

impl Bench<'_> {
    /// One job, once on every library; each round begins with another one.
    fn round(&mut self, round: usize, index: usize, job: &Job) {
        let bare_kib = if job.mode == "memory" { bare_pss_kib(&self.bare, job.ranks) } else { Ok(0.0) };
        for turn in 0..self.contenders.len() {
            let at = (turn + round) % self.contenders.len();
            let contender = &self.contenders[at];
            let Ok(library) = &contender.library else { continue };
            let only_p2p = contender.name == Name::BanyanNoCma;
            let cells = &mut self.cells[index][at];
            let hopeless = cells.iter().all(|cell| cell.runs() == 0 && cell.failed() >= FAILURES_MAX);
            if (only_p2p && job.mode != "p2p") || hopeless {
                continue;
            }
            let outcome = runner::run(command(library, job, self.options), self.options.common.timeout);
            progress(round, self.options.common.rounds, job, contender.name, &outcome);
            for (row, cell) in job.rows.iter().zip(cells) {
                match reading(&row.key, &outcome, &bare_kib) {
                    Reading::Value(value) => cell.add(Some(value)),
                    Reading::Failed => cell.add(None),
                    Reading::NotOffered => {}
                }
            }
        }
    }

    fn report(self, jobs: &[Job]) -> Report {
        let mut lines = Vec::new();
        for (job, cells) in jobs.iter().zip(&self.cells) {
            for (at, row) in job.rows.iter().enumerate() {
                let cells = cells.iter().map(|contender| contender[at].clone()).collect();
                lines.push(Line { row: row.clone(), ranks: job.ranks, cells });
            }
        }
        let column = |contender: &Contender| Column {
            key: contender.name.key(),
            side: contender.name.side(),
            version: contender.library.as_ref().map(|library| library.version.clone()).map_err(Clone::clone),
        };
        Report {
            table: Table { columns: self.contenders.iter().map(column).collect(), lines },
            limit_us: self.limit,
            rounds: self.options.common.rounds,
            load_before: self.load_before,
        }
    }
}

fn command(library: &Library, job: &Job, options: &Options) -> Command {
    let mut command = library.command(job.mode, job.ranks);
    command.env("BENCH_LIMIT_S", (options.common.timeout.as_secs() + 30).to_string());
    command
}

/// What a run says about a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reading {
    Value(f64),
    /// The library says that it has no such thing.
    NotOffered,
    Failed,
}

/// What a run says about a row: the value of rank 0, or the worst or the mean over all ranks.
fn reading(key: &str, outcome: &Result<Finished, RunError>, bare_kib: &Result<f64, String>) -> Reading {
    let Ok(finished) = outcome else { return Reading::Failed };
    if key == EXIT_KEY {
        return Reading::Value(finished.elapsed.as_secs_f64() * 1e3);
    }
    let values = finished.values(key);
    if values.iter().any(|value| value.is_nan()) {
        return Reading::NotOffered;
    }
    value(key, &values, bare_kib).map_or(Reading::Failed, Reading::Value)
}

fn value(key: &str, values: &[f64], bare_kib: &Result<f64, String>) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| *value < 0.0) {
        return None;
    }
    if key == "pss_kib" {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        return Some(mean - bare_kib.as_ref().ok()?);
    }
    values.iter().copied().max_by(f64::total_cmp)
}

fn progress(round: usize, rounds: usize, job: &Job, name: Name, outcome: &Result<Finished, RunError>) {
    let end = match outcome {
        Ok(finished) => format!("{:.2} s", finished.elapsed.as_secs_f64()),
        Err(why) => format!("failed: {why}"),
    };
    eprintln!("bench: round {}/{rounds}, {}, {}: {end}", round + 1, job.describe(), name.key());
}

/// The mean proportional set size of `count` programs without MPI, all alive at once.
fn bare_pss_kib(program: &Path, count: usize) -> Result<f64, String> {
    let mut children = Vec::new();
    let mut sum = 0.0;
    for _ in 0..count {
        children.push(BareProcess::start(program)?);
    }
    for child in &children {
        sum += child.pss_kib()?;
    }
    Ok(sum / count as f64)
}

/// Ended and reaped on drop.
struct BareProcess(Child);

impl BareProcess {
    fn start(program: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", program.display()))?;
        let stdout = child.stdout.take().expect("piped above");
        let this = BareProcess(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(|e| e.to_string())?;
        if line.trim() == "ready" { Ok(this) } else { Err("the bare program did not start".into()) }
    }

    fn pss_kib(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/smaps_rollup", self.0.id());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("{path} has no Pss"))
    }
}

impl Drop for BareProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(stdout: &str) -> Result<Finished, RunError> {
        Ok(Finished { stdout: stdout.into(), elapsed: Duration::from_millis(1500) })
    }

    #[test]
    fn a_row_takes_the_worst_rank_the_mean_size_or_the_wall_time() {
        let outcome = finished("init_ms 3\ninit_ms 8\npss_kib 100\npss_kib 300\n");
        assert_eq!(reading("init_ms", &outcome, &Ok(0.0)), Reading::Value(8.0));
        assert_eq!(reading("pss_kib", &outcome, &Ok(50.0)), Reading::Value(150.0));
        assert_eq!(reading(EXIT_KEY, &outcome, &Ok(0.0)), Reading::Value(1500.0));
    }

    #[test]
    fn a_run_without_its_line_has_failed() {
        let broken = Err(RunError::Failed("it broke".into()));
        assert_eq!(reading("rate", &finished("latency_8 1\n"), &Ok(0.0)), Reading::Failed);
        assert_eq!(reading("rate", &broken, &Ok(0.0)), Reading::Failed);
        assert_eq!(reading("pss_kib", &finished("pss_kib -1\n"), &Ok(0.0)), Reading::Failed);
        assert_eq!(reading("pss_kib", &finished("pss_kib 5\n"), &Err("gone".into())), Reading::Failed);
    }

    #[test]
    fn what_a_library_does_not_offer_is_no_failure() {
        let without = finished("threads_latency nan\nthreads_rate nan\n");
        assert_eq!(reading("threads_rate", &without, &Ok(0.0)), Reading::NotOffered);
    }
}
