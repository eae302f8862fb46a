//! `banyan bench rma`: operations on windows, on one host and between hosts, beside other libraries, and Banyan's orders of
//! such operations beside each other. All take turns, round after round, so that a noisy minute of the machine falls on
//! all of them.
mod library;
mod options;
mod plan;
mod report;

use super::machine;
use super::net::hosts::{Hosts, Rate};
use super::progress::Progress;
use super::runner::{self, Finished, RunError};
use super::sample::Sample;
use super::table::{Column, Line, Side, Table};
use library::{Contender, Library, Shelf};
use options::{HELP, Options};
use plan::{Job, Scope, Section};
use report::{Report, Tabled};

/// A library that failed this often in a job, and never succeeded, is not tried again.
const FAILURES_MAX: usize = 2;
const HOSTS: usize = 2;
const RANKS: usize = 2;
/// Of the link on which schedules are compared, each way.
const LINK: Rate = Rate::Gbit(1);

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let ground = Ground::make(options);
    let mut shelf = Shelf::new(&options.common.workshop, options.common.timeout, ground.hosts.as_ref());
    let mut parts: Vec<Part> =
        ground.sections.iter().map(|&section| Part::new(section, &mut shelf, options)).collect();
    if parts.iter().all(|part| part.contenders.iter().all(|contender| contender.library.is_err())) {
        let why = ground.skipped.first().map_or(String::new(), |why| format!(" ({why})"));
        return Err(format!("no library can be run{why}"));
    }
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        for part in &mut parts {
            ground.at_rate(part.section, || part.round(round, options, ground.hosts.as_ref(), &progress))?;
        }
    }
    drop(progress);
    let parts = parts.into_iter().map(Part::tabled).collect();
    Ok(Report { parts, skipped: ground.skipped, rounds: options.common.rounds, load_before })
}

/// The hosts, and what can be measured with or without them.
struct Ground {
    hosts: Option<Hosts>,
    sections: Vec<Section>,
    /// What was asked for and cannot be measured.
    skipped: Vec<String>,
}

impl Ground {
    fn make(options: &Options) -> Ground {
        let asked = |section: &Section| options.groups.contains(&section.group());
        let sections: Vec<Section> = Section::ALL.into_iter().filter(asked).collect();
        let mut ground = Ground { hosts: None, sections, skipped: Vec::new() };
        if ground.sections.iter().any(|section| section.needs_hosts()) {
            match Hosts::make(HOSTS, &options.common.workshop) {
                Ok(hosts) => ground.hosts = Some(hosts),
                Err(why) => ground.skip(Section::needs_hosts, &why),
            }
        }
        if let Err(why) = ground.at_rate(Section::Link, || ()) {
            ground.skip(|section| section == Section::Link, &why);
        }
        ground
    }

    fn skip(&mut self, which: impl Fn(Section) -> bool, why: &str) {
        for section in self.sections.extract_if(.., |section| which(*section)) {
            eprintln!("bench: {} is skipped: {why}", section.key());
            self.skipped.push(format!("{}: {why}", section.key()));
        }
    }

    /// Has the hosts' link at the rate of a section while it is measured.
    fn at_rate(&self, section: Section, measure: impl FnOnce()) -> Result<(), String> {
        match &self.hosts {
            Some(hosts) if section == Section::Link && self.sections.contains(&section) => {
                hosts.set_rate(LINK)?;
                measure();
                hosts.set_rate(Rate::Free)
            }
            _ => {
                measure();
                Ok(())
            }
        }
    }
}

/// A section as it is being measured.
struct Part {
    section: Section,
    contenders: Vec<Contender>,
    jobs: Vec<Job>,
    /// By job, contender, row.
    cells: Vec<Vec<Vec<Sample>>>,
}

impl Part {
    fn new(section: Section, shelf: &mut Shelf, options: &Options) -> Part {
        let (contenders, jobs) = (shelf.contenders(section, &options.libraries), section.jobs());
        let empty = |job: &Job| vec![vec![Sample::default(); job.rows.len()]; contenders.len()];
        let cells = jobs.iter().map(empty).collect();
        Part { section, contenders, jobs, cells }
    }

    /// Each job once with every contender; each round begins with another one.
    fn round(&mut self, round: usize, options: &Options, hosts: Option<&Hosts>, progress: &Progress) {
        for (job, cells) in self.jobs.iter().zip(&mut self.cells) {
            for turn in 0..self.contenders.len() {
                let at = (turn + round) % self.contenders.len();
                let contender = &self.contenders[at];
                let Ok(library) = &contender.library else { continue };
                let cells = &mut cells[at];
                let hopeless = cells.iter().all(|cell| cell.runs() == 0 && cell.failed() >= FAILURES_MAX);
                if hopeless || (job.scope == Scope::Own && contender.side == Side::Peer) {
                    continue;
                }
                let what = format!("{}, {}, {}", self.section.key(), job.describe(), contender.key);
                progress.step(round, &what);
                let outcome = run(library, job, hosts, options);
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

    fn tabled(self) -> Tabled {
        let column = |contender: &Contender| Column {
            key: contender.key,
            side: contender.side,
            version: contender.library.as_ref().map(|library| library.version.clone()).map_err(Clone::clone),
        };
        let columns = self.contenders.iter().map(column).collect();
        let mut lines = Vec::new();
        for (job, cells) in self.jobs.iter().zip(&self.cells) {
            for (at, row) in job.rows.iter().enumerate() {
                let cells = cells.iter().map(|of_contender| of_contender[at].clone()).collect();
                lines.push(Line { row: row.clone(), ranks: RANKS, cells });
            }
        }
        Tabled { section: self.section, table: Table { columns, lines } }
    }
}

fn run(library: &Library, job: &Job, hosts: Option<&Hosts>, options: &Options) -> Result<Finished, RunError> {
    let mut command = library.command(job, options.pace, hosts);
    command.env("BENCH_LIMIT_S", (options.common.timeout.as_secs() + 30).to_string());
    runner::run(command, options.common.timeout)
}
