//! What the first exchange of everybody with everybody costs, where connections are there already and where they are not.
use super::super::sample::{Sample, failure, number};
use super::device::{self, Costs};
use super::{Bench, RANK_COMMAND};
use serde_json::{Value, json};

const POLICIES: [&str; 3] = ["on-demand", "overlapped", "rank-by-rank"];
const NODES: usize = 8;
const HEAD: &str = "
The first alltoall of a program (blocks of 1 KiB), behind a barrier, and a later one: milliseconds of the slowest process. 'sum':
MPI_Init and the first alltoall.
";

#[derive(Clone, Debug)]
struct Line {
    policy: &'static str,
    init_ms: Sample,
    first_ms: Sample,
    later_ms: Sample,
    sum_ms: Sample,
}

/// The section.
#[derive(Clone, Debug)]
pub struct First {
    ranks: usize,
    lines: Vec<Line>,
}

impl First {
    /// Nothing measured yet.
    pub fn new(ranks: usize) -> Self {
        let none = Sample::default;
        let line =
            |policy| Line { policy, init_ms: none(), first_ms: none(), later_ms: none(), sum_ms: none() };
        First { ranks, lines: POLICIES.map(line).into() }
    }

    /// A job for each policy.
    pub fn run(&mut self, bench: &Bench<'_>, round: usize) {
        let (ranks, nodes) = (self.ranks, NODES.min(self.ranks));
        for line in &mut self.lines {
            let ended =
                bench.job(&format!("first, {}", line.policy), round, ranks, nodes, |command, banyan| {
                    // Each pair has a message: no algorithm takes detours.
                    command.args(["--connect", line.policy, "--coll", "flat"]);
                    Costs::Device.charge(command);
                    command.arg(banyan).args(["bench", RANK_COMMAND, "first", "1"]);
                });
            let of = |key| ended.as_ref().and_then(|(finished, _)| finished.values(key).first().copied());
            let ms = |key| of(key).map(|us| us / 1e3);
            let init = ended.as_ref().and_then(|(_, stats)| stats["init_ms"]["total"].as_f64());
            line.init_ms.add(init);
            line.first_ms.add(ms("first_us"));
            line.later_ms.add(ms("later_us"));
            line.sum_ms.add(init.zip(ms("first_us")).map(|(init, first)| init + first));
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let nodes = NODES.min(self.ranks);
        let mut text = format!("{HEAD}{}\n{} ranks on {nodes} nodes\n\n", device::WORDS, self.ranks);
        text += &row("", ["MPI_Init", "first", "later", "sum"].map(String::from));
        for line in &self.lines {
            let cells = [&line.init_ms, &line.first_ms, &line.later_ms, &line.sum_ms];
            text += &row(line.policy, cells.map(|cell| cell.median().map_or("failed".into(), number)));
        }
        text
    }

    /// Runs that gave nothing, by lines.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let of = |line: &Line| failure(&format!("first, {}", line.policy), [&line.sum_ms, &line.later_ms]);
        self.lines.iter().filter_map(of)
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "policy": line.policy,
                "init_ms": line.init_ms.json(),
                "first_ms": line.first_ms.json(),
                "later_ms": line.later_ms.json(),
                "sum_ms": line.sum_ms.json(),
            })
        };
        json!({"ranks": self.ranks, "lines": self.lines.iter().map(line).collect::<Vec<_>>()})
    }
}

fn row(label: &str, cells: [String; 4]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    format!("{label:<28}{cells}").trim_end().to_string() + "\n"
}
