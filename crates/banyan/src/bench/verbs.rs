//! `banyan bench verbs`: what an RDMA device takes for the steps of a connection and for registering memory, how it numbers
//! queue pairs, and how messages of MPI do beside perftest, which uses the device alone. Both take turns, round after
//! round, so that a noisy minute of the machine falls on both of them.
mod numbers;
mod options;
mod perftest;
mod report;
mod steps;

use super::job::{Better, Group, Row, row};
use super::library::MEASURE;
use super::machine;
use super::progress::Progress;
use super::runner::{self, Finished, RunError};
use super::sample::Sample;
use super::table::{Column, Line, Side, Table};
use super::workshop::Source;
use fabric::rdma::Rdma;
pub use numbers::{NUMBERS_COMMAND, numbers_main};
use options::{HELP, Options};
use perftest::{Perftest, Tool};
use report::Report;
use std::path::PathBuf;
use std::process::Command;
use steps::{Steps, Times};

const VERBS: Source =
    Source { name: "verbs.c", text: include_str!("../../bench/verbs.c"), headers: &[MEASURE] };
const RANKS: usize = 2;

/// How those who wait learn that something has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// They look again and again.
    Polling,
    /// They sleep, and the device's event wakes them.
    Events,
}

impl Wait {
    const ALL: [Wait; 2] = [Wait::Polling, Wait::Events];

    fn key(self) -> &'static str {
        match self {
            Wait::Polling => "polling",
            Wait::Events => "events",
        }
    }
}

/// A figure that both sides have.
#[derive(Clone, Copy, Debug)]
struct Quantity {
    /// As the program calls it.
    key: &'static str,
    label: &'static str,
    group: Group,
    tool: Tool,
    bytes: usize,
}

const QUANTITIES: [Quantity; 4] = {
    use Group::{Bandwidth, Latency};
    use Tool::{ReadBandwidth, SendLatency};
    [
        quantity("latency_8", "latency 8 B, us", Latency, SendLatency, 8),
        quantity("latency_4096", "latency 4 KiB, us", Latency, SendLatency, 4 << 10),
        quantity("bandwidth_65536", "bandwidth 64 KiB, MB/s", Bandwidth, ReadBandwidth, 64 << 10),
        quantity("bandwidth_1048576", "bandwidth 1 MiB, MB/s", Bandwidth, ReadBandwidth, 1 << 20),
    ]
};

const fn quantity(
    key: &'static str,
    label: &'static str,
    group: Group,
    tool: Tool,
    bytes: usize,
) -> Quantity {
    Quantity { key, label, group, tool, bytes }
}

impl Quantity {
    fn row(&self, wait: Wait) -> Row {
        let better = if self.group == Group::Latency { Better::Lower } else { Better::Higher };
        let key = format!("{}_{}", self.key, wait.key());
        row(&key, format!("{}, {}", self.label, wait.key()), self.group, better)
    }
}

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let rdma = steps::open(&options.device)?;
    let steps = Steps::measure(&rdma, options.steps)?;
    let numbers = numbers::measure(&steps.numbers, &options.device, options.steps);
    let mut bench = Bench::prepare(options, &rdma);
    let device = rdma.device();
    drop(rdma); // its events and its memory are in nobody's way
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        Wait::ALL.into_iter().for_each(|wait| bench.round(round, wait, &progress));
    }
    drop(progress);
    let rounds = options.common.rounds;
    let connects = Times::new(bench.connects.clone());
    Ok(Report { device, steps, connects, numbers, table: bench.table(), rounds, load_before })
}

/// Both sides, and what they have measured.
struct Bench<'a> {
    options: &'a Options,
    banyan: Result<Banyan, String>,
    perftest: Result<Perftest, String>,
    /// By wait, quantity and side.
    cells: Vec<Vec<[Sample; 2]>>,
    /// How much longer the first round trip of a job took than a later one, in microseconds.
    connects: Vec<f64>,
}

impl<'a> Bench<'a> {
    fn prepare(options: &'a Options, rdma: &Rdma) -> Self {
        let banyan = Banyan::prepare(options, rdma);
        if let Err(why) = &banyan {
            eprintln!("bench: MPI cannot be measured: {why}");
        }
        let perftest = Perftest::find(rdma, options.common.timeout);
        if let Err(why) = &perftest {
            eprintln!("bench: {why}: only Banyan's side is measured");
        }
        let cells = vec![vec![Default::default(); QUANTITIES.len()]; Wait::ALL.len()];
        Bench { options, banyan, perftest, cells, connects: Vec::new() }
    }

    /// Each side once; each round begins with another one.
    fn round(&mut self, round: usize, wait: Wait, progress: &Progress) {
        for turn in 0..2 {
            match (turn + round) % 2 {
                0 => self.own(round, wait, progress),
                _ => self.theirs(round, wait, progress),
            }
        }
    }

    fn own(&mut self, round: usize, wait: Wait, progress: &Progress) {
        let Ok(banyan) = &self.banyan else { return };
        progress.step(round, &format!("banyan, {}", wait.key()));
        let outcome = banyan.run(wait, self.options);
        if let Err(why) = &outcome {
            progress.note(&format!("banyan, {}: {why}", wait.key()));
        }
        let value = |key: &str| outcome.as_ref().ok().and_then(|done| done.values(key).first().copied());
        for (quantity, cells) in QUANTITIES.iter().zip(&mut self.cells[wait as usize]) {
            cells[0].add(value(quantity.key));
        }
        self.connects.extend(value("connect").filter(|_| wait == Wait::Polling));
    }

    fn theirs(&mut self, round: usize, wait: Wait, progress: &Progress) {
        let Ok(perftest) = &self.perftest else { return };
        for (quantity, cells) in QUANTITIES.iter().zip(&mut self.cells[wait as usize]) {
            let what = format!("{} of {} bytes, {}", quantity.tool.name(), quantity.bytes, wait.key());
            progress.step(round, &what);
            let value = perftest.run(quantity.tool, quantity.bytes, wait, self.options.round_trips);
            if let Err(why) = &value {
                progress.note(&format!("{what}: {why}"));
            }
            cells[1].add(value.ok());
        }
    }

    fn table(self) -> Table {
        let (own, theirs) = (self.banyan.map(|own| own.version), self.perftest.map(|tools| tools.version));
        let columns = vec![
            Column { key: "banyan", side: Side::Own, version: own },
            Column { key: "perftest", side: Side::Peer, version: theirs },
        ];
        let mut lines = Vec::new();
        for (wait, cells) in Wait::ALL.into_iter().zip(self.cells) {
            for (quantity, cells) in QUANTITIES.iter().zip(cells) {
                lines.push(Line { row: quantity.row(wait), ranks: RANKS, cells: cells.into() });
            }
        }
        Table { columns, lines }
    }
}

/// MPI: the program and who starts it.
struct Banyan {
    launcher: PathBuf,
    program: PathBuf,
    fabric: String,
    version: String,
}

impl Banyan {
    fn prepare(options: &Options, rdma: &Rdma) -> Result<Banyan, String> {
        let workshop = &options.common.workshop;
        let prefix = workshop.banyan_prefix()?;
        let program = match &options.program {
            Some(program) => program.clone(),
            None => workshop.compile(&prefix.join("bin/mpicc"), VERBS, &[], "verbs-banyan")?,
        };
        let fabric = format!("verbs:{}:{}", rdma.context().name(), rdma.port().0.number);
        let mut banyan =
            Banyan { launcher: prefix.join("bin/mpiexec"), program, fabric, version: String::new() };
        let mut command = banyan.command();
        command.arg("version");
        let tried = runner::run(command, options.common.timeout).map_err(|e| e.to_string())?;
        let version = tried.stdout.lines().find_map(|line| line.strip_prefix("version "));
        banyan.version = version.ok_or("it printed no version")?.to_string();
        Ok(banyan)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(["--fabric", &self.fabric, "--force-net", "-n"]).arg(RANKS.to_string());
        command.arg(&self.program);
        command
    }

    fn run(&self, wait: Wait, options: &Options) -> Result<Finished, RunError> {
        let mut command = self.command();
        command.arg("p2p").arg(options.round_trips.to_string());
        command.env("BENCH_LIMIT_S", (options.common.timeout.as_secs() + 30).to_string());
        if wait == Wait::Events {
            command.env(proto::env::WAIT, "sleep");
        }
        runner::run(command, options.common.timeout)
    }
}
