//! `banyan bench net`: messages and launches between hosts over TCP, beside other libraries. All take turns, round after
//! round, so that a noisy minute of the machine falls on all of them.
pub mod hosts;
pub mod library;
mod options;
pub mod plan;
mod report;
mod stranger;

use super::job::EXIT_KEY;
use super::machine;
use super::progress::Progress;
use super::runner::{self, Finished, RunError};
use super::sample::Sample;
use super::table::{Column, Line, Table};
use hosts::Hosts;
use library::{Library, Name};
use options::{HELP, Options};
use plan::{Job, Program, Scope};
use report::Report;
pub use stranger::{STRANGER_COMMAND, stranger_main};

/// A library that failed this often in a job, and never succeeded, is not tried again.
const FAILURES_MAX: usize = 2;
/// What Banyan does alone takes long, and each run compares for itself.
const OWN_ROUNDS_MAX: usize = 3;
/// Everything but launch to exit runs on two hosts.
const HOSTS_MIN: usize = 2;

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
    hosts: Hosts,
    contenders: Vec<Contender>,
    jobs: Vec<Job>,
    /// By job, contender, row.
    cells: Vec<Vec<Vec<Sample>>>,
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let jobs = Job::plan(options);
    let most = jobs.iter().map(|job| job.ranks_of_host.len()).max().unwrap_or(0).max(HOSTS_MIN);
    let hosts = Hosts::make(most, &options.common.workshop)?;
    let contenders = prepare(options, &hosts);
    if contenders.iter().all(|contender| contender.library.is_err()) {
        return Err("no library can be run".into());
    }
    let empty = |job: &Job| vec![vec![Sample::default(); job.rows.len()]; contenders.len()];
    let cells = jobs.iter().map(empty).collect();
    let mut bench = Bench { options, hosts, contenders, jobs, cells };
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        (0..bench.jobs.len()).for_each(|index| bench.round(round, index, &progress));
    }
    drop(progress);
    Ok(bench.report(load_before))
}

/// Fetching needs the world outside, so it comes before anything is run on the hosts.
fn prepare(options: &Options, hosts: &Hosts) -> Vec<Contender> {
    let prepared = |&name: &Name| {
        eprintln!("bench: preparing {}", name.key());
        let library = Library::prepare(name, &options.common.workshop)
            .and_then(|library| library.try_on(hosts, options.common.timeout));
        if let Err(why) = &library {
            eprintln!("bench: {} cannot be run: {why}", name.key());
        }
        Contender { name, library }
    };
    options.libraries.iter().map(prepared).collect()
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
            if hopeless || !takes(contender.name, job, round) {
                continue;
            }
            progress.step(round, &format!("{}, {}", job.describe(), contender.name.key()));
            let outcome = run(library, job, &self.hosts, self.options);
            if let Err(why) = &outcome {
                progress.note(&format!("{}, {}: {why}", job.describe(), contender.name.key()));
            }
            for (row, cell) in job.rows.iter().zip(cells) {
                cell.add(value(&row.key, &outcome));
            }
        }
    }

    fn report(self, load_before: f64) -> Report {
        let (all, own) = (self.table(Scope::All), self.table(Scope::Own));
        Report { all, own, rounds: self.options.common.rounds, load_before }
    }

    fn table(&self, scope: Scope) -> Table {
        let takes_part = |name: Name| scope == Scope::All || name == Name::Banyan;
        let column = |contender: &Contender| Column {
            key: contender.name.key(),
            side: contender.name.side(),
            version: contender.library.as_ref().map(|library| library.version.clone()).map_err(Clone::clone),
        };
        let columns: Vec<usize> =
            (0..self.contenders.len()).filter(|&at| takes_part(self.contenders[at].name)).collect();
        let mut lines = Vec::new();
        for (job, cells) in self.jobs.iter().zip(&self.cells).filter(|(job, _)| job.scope == scope) {
            for (at, row) in job.rows.iter().enumerate() {
                let cells = columns.iter().map(|&column| cells[column][at].clone()).collect();
                lines.push(Line { row: row.clone(), ranks: job.ranks(), cells });
            }
        }
        Table { columns: columns.iter().map(|&at| column(&self.contenders[at])).collect(), lines }
    }
}

fn takes(name: Name, job: &Job, round: usize) -> bool {
    job.scope == Scope::All || (name == Name::Banyan && round < OWN_ROUNDS_MAX)
}

fn run(library: &Library, job: &Job, hosts: &Hosts, options: &Options) -> Result<Finished, RunError> {
    let mut command = library.command(job, hosts);
    command.env("BENCH_LIMIT_S", (options.common.timeout.as_secs() + 30).to_string());
    if job.program == Program::Net("flood") {
        let own = std::env::current_exe().map_err(|e| RunError::Failed(e.to_string()))?;
        command.env("BENCH_STRANGER", format!("'{}' bench {STRANGER_COMMAND}", own.display()));
    }
    let finished = runner::run(command, options.common.timeout)?;
    all_said_hello(job, &finished)?;
    Ok(finished)
}

fn all_said_hello(job: &Job, finished: &Finished) -> Result<(), RunError> {
    let heard = finished.stdout.lines().filter(|line| line.starts_with("hello from ")).count();
    if job.program != Program::Hello || heard == job.ranks() {
        return Ok(());
    }
    Err(RunError::Failed(format!("{heard} of {} ranks said hello", job.ranks())))
}

/// What a finished run says about a row.
fn value(key: &str, outcome: &Result<Finished, RunError>) -> Option<f64> {
    let finished = outcome.as_ref().ok()?;
    if key == EXIT_KEY {
        return Some(finished.elapsed.as_secs_f64() * 1e3);
    }
    finished.values(key).first().copied()
}
