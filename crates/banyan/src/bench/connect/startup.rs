//! How long it takes until everybody is connected to everybody, by phases, and what is exchanged for it.
use super::super::sample::{Sample, failure, number};
use super::super::verdict::Verdict;
use super::device::{self, Costs};
use super::{Bench, RANK_COMMAND};
use serde_json::{Value, json};

/// The policies that are compared.
const POLICIES: [&str; 4] =
    ["static-parallel:published", "static-parallel:batched", "rank-by-rank", "static-parallel"];
/// Nodes of every job: 896 ranks are 56 on each, as in the paper.
const NODES: usize = 16;
/// The size at which the paper's figures are.
const PAPER: usize = 896;
/// The part of the memory that is free now, and that connections of a job may take.
const MEMORY_PART: f64 = 0.5;
/// Rank by rank takes at most so much of the time and bytes of an honest exchange, and of a published start-up.
const EXCHANGE_PART: f64 = 1.0 / 3.0;
const BYTES_PART: f64 = 0.05;
const WHOLE_PART: f64 = 0.05;
const HEAD: &str = "
Everybody is connected to everybody before the program begins. Milliseconds of the slowest process: making queue pairs (with the
wait for its turn, if any), telling of them and hearing of others, connecting them, and all of MPI_Init. For a process: values
put on the board and got from there, bytes put, ranges of numbers. MiB: bytes put by all. By messages ('static-parallel'), queue
pairs are made while processes connect, and nothing is put. Who has told of its own waits for those who make theirs still: 'least'
is the exchange of the process that took the least, which is what it costs without that wait.
";

/// What is taken from statistics: milliseconds, then counts of a process.
const PHASES: [&str; 4] = ["create", "exchange", "connect", "total"];
const COUNTS: [&str; 4] = ["exchange_puts", "exchange_gets", "exchange_bytes", "exchange_ranges"];

/// A policy at a size.
#[derive(Clone, Debug)]
struct Line {
    ranks: usize,
    policy: &'static str,
    phases: [Sample; PHASES.len()],
    /// The exchange of the process that took the least.
    least: Sample,
    counts: [Sample; COUNTS.len()],
    bytes: Sample,
    touched: Sample,
    /// Why it was not run.
    why: Option<String>,
}

/// The section.
#[derive(Clone, Debug)]
pub struct Startup {
    lines: Vec<Line>,
    costs: Costs,
}

impl Startup {
    /// Nothing measured yet.
    pub fn new(sizes: &[usize], costs: Costs) -> Self {
        let line = |ranks, policy| Line {
            ranks,
            policy,
            phases: Default::default(),
            least: Sample::default(),
            counts: Default::default(),
            bytes: Sample::default(),
            touched: Sample::default(),
            why: None,
        };
        let of = |ranks: &usize| POLICIES.map(|policy| line(*ranks, policy));
        Startup { lines: sizes.iter().flat_map(of).collect(), costs }
    }

    /// A job for each line, unless its connections take more memory than there is.
    pub fn run(&mut self, bench: &Bench<'_>, round: usize) {
        let costs = self.costs;
        for at in 0..self.lines.len() {
            let needed = self.memory_needed(self.lines[at].ranks);
            let line = &mut self.lines[at];
            let most = memory_free() * MEMORY_PART;
            if let Some(needed) = needed.filter(|needed| *needed > most) {
                let gib = |bytes: f64| bytes / f64::from(1 << 30);
                line.why = Some(format!("takes {:.1} GiB, and {:.1} may be taken", gib(needed), gib(most)));
                continue;
            }
            let what = format!("startup, {} ranks, {}", line.ranks, line.policy);
            let ended = bench.job(&what, round, line.ranks, NODES.min(line.ranks), |command, banyan| {
                command.args(["--connect", line.policy]);
                costs.charge(command);
                command.arg(banyan).args(["bench", RANK_COMMAND, "idle", "1"]);
            });
            let stats = ended.map_or(Value::Null, |(_, stats)| stats);
            let phase = |name: &str| stats["init_ms"][name].as_f64();
            line.phases.iter_mut().zip(PHASES).for_each(|(cell, name)| cell.add(phase(name)));
            line.least.add(stats["init_least_ms"]["exchange"].as_f64());
            let count = |name: &str| stats[name]["avg"].as_f64();
            line.counts.iter_mut().zip(COUNTS).for_each(|(cell, name)| cell.add(count(name)));
            line.bytes.add(stats["exchange_bytes"]["sum"].as_f64());
            line.touched.add(stats["touched_bytes"]["avg"].as_f64());
        }
    }

    /// By the memory of connections in smaller jobs.
    fn memory_needed(&self, ranks: usize) -> Option<f64> {
        let seen = self.lines.iter().filter(|line| line.ranks < ranks).max_by_key(|line| line.ranks)?;
        let each = seen.touched.median()? / (seen.ranks.max(2) - 1) as f64;
        Some(each * (ranks * (ranks - 1)) as f64)
    }

    fn at(&self, ranks: usize, policy: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.ranks == ranks && line.policy == policy)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}{}", self.costs.words());
        for lines in self.lines.chunk_by(|a, b| a.ranks == b.ranks) {
            let ranks = lines[0].ranks;
            text += &format!("\n{ranks} ranks on {} nodes\n\n", NODES.min(ranks));
            let head =
                ["create", "exchange", "least", "connect", "init", "puts", "gets", "bytes", "ranges", "MiB"];
            text += &row("", head.map(String::from));
            for line in lines {
                let all = line.bytes.median().map_or("-".into(), |bytes| format!("{:.3}", bytes / 1048576.0));
                let [create, exchange, connect, total] = line.phases.each_ref().map(cell);
                let [puts, gets, bytes, ranges] = line.counts.each_ref().map(cell);
                text += &match &line.why {
                    Some(why) => format!("{:<28}not run: it {why}\n", line.policy),
                    None => {
                        let least = cell(&line.least);
                        let cells = [create, exchange, least, connect, total, puts, gets, bytes, ranges, all];
                        row(line.policy, cells)
                    }
                };
            }
            text += &self.dominant(ranks);
            text += &self.ratios(ranks);
        }
        text
    }

    /// Rank by rank beside another policy.
    fn over(&self, ranks: usize, of: fn(&Line) -> &Sample, that: &str) -> Option<f64> {
        of(self.at(ranks, POLICIES[2])?).over(of(self.at(ranks, that)?))
    }

    /// Rank by rank beside an honest exchange.
    fn ratios(&self, ranks: usize) -> String {
        let over = |of| self.over(ranks, of, POLICIES[1]).map_or("-".into(), |ratio| format!("{ratio:.3}"));
        format!(
            "rank-by-rank / batched: exchange {} ({} without waits), bytes {}, MPI_Init {}\n",
            over(|line| &line.phases[1]),
            over(|line| &line.least),
            over(|line| &line.bytes),
            over(|line| &line.phases[3])
        )
    }

    /// Which phase takes the most of the time.
    fn dominant(&self, ranks: usize) -> String {
        let most = |line: &Line| {
            let phases =
                PHASES[..3].iter().zip(&line.phases).filter_map(|(name, cell)| Some((cell.median()?, name)));
            let (ms, name) = phases.max_by(|a, b| a.0.total_cmp(&b.0))?;
            let total = line.phases[3].median().filter(|total| *total > 0.0)?;
            Some(format!("{} {name} {:.0} %", line.policy, 100.0 * ms / total))
        };
        let of = self.lines.iter().filter(|line| line.ranks == ranks).filter_map(most);
        format!("longest phase: {}\n", of.collect::<Vec<_>>().join(", "))
    }

    /// What it should show, at the paper's size or the largest that was measured.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let measured = self.lines.iter().filter(|line| line.phases[3].median().is_some());
        let sizes: Vec<usize> = measured.map(|line| line.ranks).collect();
        let ranks = if sizes.contains(&PAPER) { PAPER } else { sizes.into_iter().max().unwrap_or(PAPER) };
        if self.costs == Costs::Rdma {
            return Vec::new(); // the figures are those of an adapter
        }
        let over = |of: fn(&Line) -> &Sample, that: &str| self.over(ranks, of, that);
        let verdict =
            |what: &str, value, at_most| Verdict { what: format!("{ranks} ranks, {what}"), value, at_most };
        vec![
            verdict(
                "exchange without waits: rank-by-rank / batched",
                over(|line| &line.least, POLICIES[1]),
                EXCHANGE_PART,
            ),
            verdict(
                "exchange with waits: rank-by-rank / batched",
                over(|line| &line.phases[1], POLICIES[1]),
                EXCHANGE_PART,
            ),
            verdict("bytes: rank-by-rank / batched", over(|line| &line.bytes, POLICIES[1]), BYTES_PART),
            verdict(
                "MPI_Init: rank-by-rank / published",
                over(|line| &line.phases[3], POLICIES[0]),
                WHOLE_PART,
            ),
        ]
    }

    /// Runs that gave nothing, by lines.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let what = |line: &Line| format!("startup, {} ranks, {}", line.ranks, line.policy);
        self.lines.iter().filter_map(move |line| failure(&what(line), &line.phases))
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            let mut row = json!({"ranks": line.ranks, "policy": line.policy, "not_run": line.why});
            for (name, cell) in PHASES.iter().zip(&line.phases) {
                row[format!("{name}_ms")] = cell.json();
            }
            for (name, cell) in COUNTS.iter().zip(&line.counts) {
                row[*name] = json!(cell.median());
            }
            row["exchange_least_ms"] = line.least.json();
            row["exchange_bytes_of_all"] = json!(line.bytes.median());
            row
        };
        json!({"costs": self.costs.key(), "device": device::DEVICE, "threads": device::THREADS, "lines": self.lines.iter().map(line).collect::<Vec<_>>()})
    }
}

fn memory_free() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::MAX, |kib| 1024.0 * kib)
}

fn cell(sample: &Sample) -> String {
    sample.median().map_or("failed".into(), number)
}

fn row(label: &str, cells: [String; 10]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
    format!("{label:<28}{cells}").trim_end().to_string() + "\n"
}
