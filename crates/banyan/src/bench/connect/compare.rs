//! Static beside on-demand connections, under pure polling and under a few looks before a sleep, as "Impact of On-Demand
//! Connection Management in MPI over VIA" (2002) compares them: section `static`.
use super::super::ratio::Ratio;
use super::super::sample::{Sample, failure, number};
use super::super::verdict::Verdict;
use super::{Bench, RANK_COMMAND};
use kernels::Workload;
use serde_json::{Value, json};

/// Ways to wait, and policies: the first policy is what the second is held against.
const WAITS: [&str; 2] = ["poll", "spin-block"];
const POLICIES: [&str; 2] = ["static-parallel", "on-demand"];
const WAYS: usize = WAITS.len() * POLICIES.len();
/// Ranks and nodes of kernels, as in the paper's tables.
const RANKS: usize = 16;
const NODES: usize = 4;
/// Times of a short call in a job.
const CALLS: usize = 2000;
const CALLS_QUICK: usize = 50;
/// On demand takes at most so much of static connections' time.
const OVER_STATIC: f64 = 1.05;
const HEAD: &str = "
Static connections (made at the start, all at once) beside on demand, each where ranks look for messages all the time (--wait
poll) and where they sleep after a hundred looks (--wait spin-block). Kernels on 16 ranks and 4 nodes, by their own clock;
MPI_Init and touched memory of a process are those of the first kernel's job. 'ratio': on demand / static, median of rounds with
its 95 % confidence interval [from..to], or with their range (from..to) of fewer than 6 rounds.
";

/// What is measured, and in which job.
#[derive(Clone, Copy, Debug)]
enum Quantity {
    /// A line of a deed of two ranks.
    Pair(&'static str, &'static str),
    /// A line of a deed of several ranks.
    Together(&'static str, &'static str, usize),
    /// A kernel's time.
    Kernel(&'static Workload),
    /// From the statistics of the kernel before.
    Init,
    Memory,
}

impl Quantity {
    fn label(self) -> String {
        match self {
            Quantity::Pair(label, _) => format!("{label}, 2 ranks"),
            Quantity::Together(label, _, ranks) => format!("{label}, {ranks} ranks"),
            Quantity::Kernel(workload) => format!("{}, ms", workload.name),
            Quantity::Init => "MPI_Init, ms".into(),
            Quantity::Memory => "touched memory, KiB".into(),
        }
    }

    /// Is the time of on demand to be at most what static connections take?
    fn has_goal(self) -> bool {
        !matches!(self, Quantity::Init | Quantity::Memory)
    }
}

#[derive(Clone, Debug)]
struct Line {
    quantity: Quantity,
    cells: [Sample; WAYS],
}

/// The section.
#[derive(Clone, Debug)]
pub struct Compare {
    lines: Vec<Line>,
    calls: usize,
}

impl Compare {
    /// Nothing measured yet.
    pub fn new(workloads: &[&'static Workload], quick: bool) -> Self {
        let mut quantities = vec![
            Quantity::Pair("8 B one way, us", "latency_us"),
            Quantity::Pair("64 KiB in a stream, us", "block_us"),
        ];
        for ranks in [2, RANKS] {
            quantities.push(Quantity::Together("barrier, us", "barrier_us", ranks));
            quantities.push(Quantity::Together("allreduce 32 B, us", "allreduce_us", ranks));
        }
        let kernels = workloads.iter().filter(|workload| !workload.is_call());
        quantities.extend(kernels.map(|workload| Quantity::Kernel(workload)));
        quantities.extend([Quantity::Init, Quantity::Memory]);
        let line = |quantity| Line { quantity, cells: Default::default() };
        let lines = quantities.into_iter().map(line).collect();
        Compare { lines, calls: if quick { CALLS_QUICK } else { CALLS } }
    }

    /// All jobs of all ways, in turn.
    pub fn run(&mut self, bench: &Bench<'_>, round: usize) {
        let kernels: Vec<&'static Workload> = self
            .lines
            .iter()
            .filter_map(|line| match line.quantity {
                Quantity::Kernel(workload) => Some(workload),
                _ => None,
            })
            .collect();
        for way in 0..WAYS {
            self.run_calls(bench, round, way, "messages", 2);
            self.run_calls(bench, round, way, "together", 2);
            self.run_calls(bench, round, way, "together", RANKS);
        }
        for (at, workload) in kernels.into_iter().enumerate() {
            for way in 0..WAYS {
                self.run_kernel(bench, round, way, workload, at == 0);
            }
        }
    }

    fn run_calls(&mut self, bench: &Bench<'_>, round: usize, way: usize, deed: &str, ranks: usize) {
        let (wait, policy) = words(way);
        let what = format!("static, {deed}, {policy}, {wait}");
        // A barrier of many ranks on few cores is a turn for each of them.
        let calls = if ranks > 2 { self.calls / 10 } else { self.calls };
        let ended = bench.job(&what, round, ranks, NODES.min(ranks), |command, banyan| {
            command.args(["--connect", policy, "--wait", wait]);
            // Now and then two that are not bound are left on one core: twenty times as long, by whatever policy.
            command.args(["--bind-to", if ranks == 2 { "core" } else { "none" }]);
            command.arg(banyan).args(["bench", RANK_COMMAND, deed, &calls.max(1).to_string()]);
        });
        for line in &mut self.lines {
            let key = match line.quantity {
                Quantity::Pair(_, key) if deed == "messages" => key,
                Quantity::Together(_, key, of) if deed == "together" && of == ranks => key,
                _ => continue,
            };
            let value = ended.as_ref().and_then(|(finished, _)| finished.values(key).first().copied());
            line.cells[way].add(value);
        }
    }

    fn run_kernel(
        &mut self,
        bench: &Bench<'_>,
        round: usize,
        way: usize,
        kernel: &'static Workload,
        first: bool,
    ) {
        let (wait, policy) = words(way);
        let what = format!("static, {}, {policy}, {wait}", kernel.name);
        let ended = bench.job(&what, round, RANKS, NODES, |command, banyan| {
            command.args(["--connect", policy, "--wait", wait]);
            command.arg(banyan).args(["bench", RANK_COMMAND, kernel.name]);
        });
        let time = ended.as_ref().and_then(|(finished, _)| kernel_ms(&finished.stdout));
        let stats = ended.as_ref().map(|(_, stats)| stats);
        for line in &mut self.lines {
            let value = match line.quantity {
                Quantity::Kernel(workload) if workload.name == kernel.name => time,
                Quantity::Init if first => stats.and_then(|stats| stats["init_ms"]["total"].as_f64()),
                Quantity::Memory if first => {
                    stats.and_then(|stats| stats["touched_bytes"]["avg"].as_f64()).map(|bytes| bytes / 1024.0)
                }
                _ => continue,
            };
            line.cells[way].add(value);
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        let head =
            WAITS.iter().flat_map(|wait| [format!("{wait}: static"), "on demand".into(), "ratio".into()]);
        text += &row("", head);
        for line in &self.lines {
            let of_wait = |wait: usize| {
                let [fixed, demand] = [0, 1].map(|policy| cell(&line.cells[POLICIES.len() * wait + policy]));
                [fixed, demand, line.ratio(wait).map_or("-".into(), |ratio| ratio.text())]
            };
            text += &row(&line.quantity.label(), (0..WAITS.len()).flat_map(of_wait));
        }
        text
    }

    /// What it should show.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let of = |line: &Line| {
            let verdict = |wait: usize| Verdict {
                what: format!("{}, --wait {}: on demand / static", line.quantity.label(), WAITS[wait]),
                value: line.ratio(wait).map(|ratio| ratio.median),
                at_most: OVER_STATIC,
            };
            (0..WAITS.len()).map(verdict).collect::<Vec<_>>()
        };
        self.lines.iter().filter(|line| line.quantity.has_goal()).flat_map(of).collect()
    }

    /// Runs that gave nothing, by lines.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let of = |line: &Line| failure(&format!("static, {}", line.quantity.label()), &line.cells);
        self.lines.iter().filter_map(of)
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            let cell = |way: usize| {
                let (wait, policy) = words(way);
                json!({"wait": wait, "policy": policy, "value": line.cells[way].json()})
            };
            json!({"what": line.quantity.label(), "ways": (0..WAYS).map(cell).collect::<Vec<_>>()})
        };
        json!({"lines": self.lines.iter().map(line).collect::<Vec<_>>()})
    }
}

impl Line {
    /// On demand beside static, waiting so.
    fn ratio(&self, wait: usize) -> Option<Ratio> {
        let [fixed, demand] = [0, 1].map(|policy| &self.cells[POLICIES.len() * wait + policy]);
        Ratio::of(demand.pairs(fixed).filter(|(_, fixed)| *fixed > 0.0).map(|(a, b)| a / b).collect())
    }
}

/// How a job of this number waits and connects.
fn words(way: usize) -> (&'static str, &'static str) {
    (WAITS[way / POLICIES.len()], POLICIES[way % POLICIES.len()])
}

/// "... (32.1 ms)".
fn kernel_ms(text: &str) -> Option<f64> {
    text.trim_end().strip_suffix(" ms)")?.rsplit_once('(')?.1.parse().ok()
}

fn cell(sample: &Sample) -> String {
    sample.median().map_or("failed".into(), number)
}

fn row(label: &str, cells: impl Iterator<Item = String>) -> String {
    let widths = [20, 11, 20].into_iter().cycle();
    let cells: String = cells.zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
    format!("{label:<34}{cells}").trim_end().to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_time_is_read_from_what_it_says() {
        assert_eq!(kernel_ms("is: 4 processes, size 16: all right (3 times) (32.5 ms)\n"), Some(32.5));
        assert_eq!(kernel_ms("is: no time"), None);
    }

    #[test]
    fn every_way_to_wait_has_both_policies() {
        assert_eq!(
            (0..WAYS).map(words).collect::<Vec<_>>()[1..3],
            [("poll", "on-demand"), ("spin-block", "static-parallel")]
        );
    }
}
