//! How long two processes take to connect, one step after the other and overlapped.
use super::super::ratio::Ratio;
use super::super::sample::{Sample, failure, median, number};
use super::super::verdict::Verdict;
use super::device::Costs;
use super::{Bench, RANK_COMMAND};
use serde_json::{Value, json};

/// The policies that are compared.
const POLICIES: [&str; 2] = ["on-demand", "overlapped"];
/// Connections of a job, and the first of them, which fault in what later ones find.
const EACH: usize = 40;
const EACH_QUICK: usize = 5;
const COLD: usize = 2;
/// Overlapped takes at most so much of the serial time, and so much of what it cannot avoid.
const OVER_SERIAL: f64 = 0.70;
const OVER_SUM: f64 = 1.05;
const HEAD: &str = "
Two processes on two nodes connect, speak and close the connection again. Microseconds: from the first need until both sides are
ready ('ready') and until the first message was answered ('answered'); commands of the device at the side where they took longer
('device'); a round trip on the open connection ('trip'). 'bound': device + trip, of which nothing can be done at the same time
when both sides work. Medians of jobs' medians (smallest..largest), policies in turn.
";

/// What is measured of a connection.
const KEYS: [&str; 4] = ["ready", "first", "device", "trip"];

/// A policy at some costs.
#[derive(Clone, Debug)]
struct Line {
    costs: Costs,
    policy: &'static str,
    cells: [Sample; KEYS.len()],
    bound: Sample,
}

impl Line {
    fn what(&self) -> String {
        format!("pair, {}, {}", self.policy, self.costs.key())
    }
}

/// The section.
#[derive(Clone, Debug)]
pub struct Pair {
    lines: Vec<Line>,
    costs: &'static [Costs],
    each: usize,
}

impl Pair {
    /// Nothing measured yet.
    pub fn new(quick: bool, costs: &'static [Costs]) -> Self {
        let line =
            |costs, policy| Line { costs, policy, cells: Default::default(), bound: Sample::default() };
        let lines = costs.iter().flat_map(|costs| POLICIES.map(|policy| line(*costs, policy))).collect();
        Pair { lines, costs, each: if quick { EACH_QUICK } else { EACH } }
    }

    /// A job for each line.
    pub fn run(&mut self, bench: &Bench<'_>, round: usize) {
        let count = (self.each + COLD).to_string();
        for line in &mut self.lines {
            let what = line.what();
            let finished = bench.job(&what, round, 2, 2, |command, banyan| {
                command.args(["--connect", line.policy]);
                line.costs.charge(command);
                command.arg(banyan).args(["bench", RANK_COMMAND, "pair", &count]);
            });
            let values = KEYS.map(|key| {
                let values = finished.as_ref().map_or(Vec::new(), |(finished, _)| finished.values(key));
                let mut warm = values.get(COLD..).unwrap_or_default().to_vec();
                warm.sort_by(f64::total_cmp);
                median(&warm)
            });
            line.cells.iter_mut().zip(values).for_each(|(cell, value)| cell.add(value));
            line.bound.add(values[2].zip(values[3]).map(|(device, trip)| device + trip));
        }
    }

    fn at(&self, costs: Costs, policy: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.costs == costs && line.policy == policy)
    }

    /// Overlapped beside serial, and beside its bound.
    fn ratios(&self, costs: Costs) -> [Option<Ratio>; 2] {
        let over = |a: &Sample, b: &Sample| Ratio::of(a.pairs(b).map(|(a, b)| a / b).collect());
        let lines = self.at(costs, POLICIES[0]).zip(self.at(costs, POLICIES[1]));
        [
            lines.and_then(|(serial, overlapped)| over(&overlapped.cells[0], &serial.cells[0])),
            lines.and_then(|(_, overlapped)| over(&overlapped.cells[0], &overlapped.bound)),
        ]
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}{}\n", self.costs[0].words());
        text += &row("", ["ready", "answered", "device", "trip", "bound"].map(String::from));
        for line in &self.lines {
            let [ready, first, device, trip] = line.cells.each_ref().map(cell);
            let label = format!("{}, {}", line.costs.key(), line.policy);
            text += &row(&label, [ready, first, device, trip, cell(&line.bound)]);
        }
        for costs in self.costs {
            let [serial, bound] =
                self.ratios(*costs).map(|ratio| ratio.map_or("not measured".into(), |ratio| ratio.text()));
            text +=
                &format!("{}: overlapped / on-demand {serial}, overlapped / bound {bound}\n", costs.key());
        }
        text
    }

    /// What it should show.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let costs = self.costs[0];
        if costs == Costs::Rdma {
            return Vec::new(); // the figures are those of an adapter
        }
        let [serial, bound] = self.ratios(costs).map(|ratio| ratio.map(|ratio| ratio.median));
        vec![
            Verdict {
                what: format!("both sides ready, {}: overlapped / on-demand", costs.key()),
                value: serial,
                at_most: OVER_SERIAL,
            },
            Verdict {
                what: format!("both sides ready, {}: overlapped / (device + trip)", costs.key()),
                value: bound,
                at_most: OVER_SUM,
            },
        ]
    }

    /// Runs that gave nothing, by lines.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.lines.iter().filter_map(|line| failure(&line.what(), &line.cells))
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            let mut row =
                json!({"costs": line.costs.key(), "policy": line.policy, "bound_us": line.bound.json()});
            for (key, cell) in KEYS.iter().zip(&line.cells) {
                row[format!("{key}_us")] = cell.json();
            }
            row
        };
        json!({"connections": self.each, "lines": self.lines.iter().map(line).collect::<Vec<_>>()})
    }
}

fn cell(sample: &Sample) -> String {
    match (sample.median(), sample.spread()) {
        (Some(median), Some((low, high))) => {
            format!("{} ({}..{})", number(median), number(low), number(high))
        }
        _ => "failed".into(),
    }
}

fn row(label: &str, cells: [String; 5]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>22}")).collect();
    format!("{label:<28}{cells}").trim_end().to_string() + "\n"
}
