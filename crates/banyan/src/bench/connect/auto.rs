//! Programs whose communication is a graph, by every policy and by the one that chooses itself: section `auto`.
use super::super::ratio::Ratio;
use super::super::sample::{Sample, failure, number};
use super::super::verdict::Verdict;
use super::device::{self, Costs};
use super::graph::{BEGUN, ENDED, Graph};
use super::{Bench, RANK_COMMAND};
use proto::wireup::Policy;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Ranks on a node.
const PER_NODE: usize = 8;
const NODES_MAX: usize = 16;
/// Times that ranks exchange messages.
const ROUNDS: &str = "10";
/// What chooses itself takes at most so much of the best policy's time.
const OVER_BEST: f64 = 1.10;
const HEAD: &str = "
Programs that exchange messages of 1 KiB ten times: with both neighbours (ring), with four in a grid (halo), with everybody
(alltoall, a message for each pair), and with about eight that are drawn by chance (random). Milliseconds from the beginning of the
first process's MPI_Init to the end of the last one's messages, policies in turn. 'auto' knows nothing of the program; 'auto,
pattern' has a pattern of earlier runs (--pattern). 'best' is the fixed policy whose median is the smallest; 'ratio': auto / best,
median of runs with its 95 % confidence interval [from..to], or with their range (from..to) of fewer than 6.
";

/// A way to run a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Fixed(&'static str),
    /// Whatever suits it.
    Auto,
    /// The same, where earlier runs were recorded.
    AutoByPattern,
}

impl Way {
    const AUTOS: [Way; 2] = [Way::Auto, Way::AutoByPattern];

    fn all() -> Vec<Way> {
        Policy::NAMES.map(Way::Fixed).into_iter().chain(Way::AUTOS).collect()
    }

    fn key(self) -> &'static str {
        match self {
            Way::Fixed(policy) => policy,
            Way::Auto => "auto",
            Way::AutoByPattern => "auto, pattern",
        }
    }

    fn policy(self) -> &'static str {
        match self {
            Way::Fixed(policy) => policy,
            Way::Auto | Way::AutoByPattern => "auto",
        }
    }
}

#[derive(Clone, Debug)]
struct Line {
    way: Way,
    ms: Sample,
    /// What was chosen last, and why.
    chosen: String,
}

/// A graph at a size.
#[derive(Clone, Debug)]
struct Table {
    graph: Graph,
    ranks: usize,
    lines: Vec<Line>,
}

impl Table {
    fn name(&self) -> &'static str {
        self.graph.key().trim_start_matches("graph-")
    }

    fn nodes(&self) -> usize {
        self.ranks.div_ceil(PER_NODE).min(NODES_MAX)
    }

    fn of(&self, way: Way) -> Option<&Line> {
        self.lines.iter().find(|line| line.way == way)
    }

    /// The fixed policy that took the least.
    fn best(&self) -> Option<&Line> {
        let fixed = self.lines.iter().filter(|line| matches!(line.way, Way::Fixed(_)));
        let measured = fixed.filter_map(|line| Some((line.ms.median()?, line)));
        measured.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, line)| line)
    }

    fn ratio(&self, way: Way) -> Option<Ratio> {
        let (auto, best) = (self.of(way)?, self.best()?);
        Ratio::of(auto.ms.pairs(&best.ms).map(|(auto, best)| auto / best).collect())
    }
}

/// The section.
#[derive(Clone, Debug)]
pub struct Auto {
    tables: Vec<Table>,
}

impl Auto {
    /// Nothing measured yet.
    pub fn new(sizes: &[usize]) -> Self {
        let line = |way| Line { way, ms: Sample::default(), chosen: String::new() };
        let table = |ranks, graph| Table { graph, ranks, lines: Way::all().into_iter().map(line).collect() };
        let of = |ranks: &usize| Graph::ALL.map(|graph| table(*ranks, graph));
        Auto { tables: sizes.iter().flat_map(of).collect() }
    }

    /// A job for each way to run each graph.
    pub fn run(&mut self, bench: &Bench<'_>, round: usize) {
        for table in &mut self.tables {
            let pattern = pattern_file(table);
            if !pattern.exists() {
                // Two are recorded: the second says whether the first predicted it well.
                for _ in 0..2 {
                    job(bench, round, table, Way::AutoByPattern);
                }
            }
            // Each time another one is the first: what runs before a job may matter.
            let (count, first) = (table.lines.len(), table.lines[0].ms.runs() + table.lines[0].ms.failed());
            for at in (0..count).map(|at| (first + at) % count) {
                let ended = job(bench, round, table, table.lines[at].way);
                let line = &mut table.lines[at];
                line.ms.add(ended.as_ref().and_then(|(ms, _)| *ms));
                line.chosen = ended.map_or(String::new(), |(_, chosen)| chosen);
            }
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}{}", device::WORDS);
        for table in &self.tables {
            text += &format!("\n{}, {} ranks on {} nodes\n\n", table.name(), table.ranks, table.nodes());
            let best = table.best().map(|line| line.way);
            for line in &table.lines {
                let ms = line.ms.median().map_or("failed".into(), number);
                let note = match line.way {
                    Way::Fixed(_) if best == Some(line.way) => "best".into(),
                    Way::Fixed(_) => String::new(),
                    way => {
                        let ratio = table.ratio(way).map_or("-".into(), |ratio| ratio.text());
                        format!("ratio {ratio}  {}", line.chosen)
                    }
                };
                text += format!("{:<28}{ms:>12}  {note}", line.way.key()).trim_end();
                text += "\n";
            }
        }
        text
    }

    /// What it should show.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let of = |table: &Table, way: Way| Verdict {
            what: format!("{}, {} ranks: {} / best fixed policy", table.name(), table.ranks, way.key()),
            value: table.ratio(way).map(|ratio| ratio.median),
            at_most: OVER_BEST,
        };
        self.tables.iter().flat_map(|table| Way::AUTOS.map(|way| of(table, way))).collect()
    }

    /// Runs that gave nothing, by lines.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.tables.iter().flat_map(|table| {
            let what = |line: &Line| what(table, line.way);
            table.lines.iter().filter_map(move |line| failure(&what(line), [&line.ms]))
        })
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let line =
            |line: &Line| json!({"policy": line.way.key(), "ms": line.ms.json(), "chosen": line.chosen});
        let table = |table: &Table| {
            json!({
                "graph": table.name(),
                "ranks": table.ranks,
                "best": table.best().map(|line| line.way.key()),
                "lines": table.lines.iter().map(line).collect::<Vec<_>>(),
            })
        };
        json!({"device": device::DEVICE, "tables": self.tables.iter().map(table).collect::<Vec<_>>()})
    }
}

impl Drop for Auto {
    fn drop(&mut self) {
        for table in &self.tables {
            let _ = std::fs::remove_file(pattern_file(table));
        }
    }
}

fn what(table: &Table, way: Way) -> String {
    format!("auto, {}, {} ranks, {}", table.name(), table.ranks, way.key())
}

fn pattern_file(table: &Table) -> PathBuf {
    let name = format!("banyan-bench-{}-{}-{}.pattern", table.name(), table.ranks, std::process::id());
    std::env::temp_dir().join(name)
}

/// Runs it: milliseconds, and what was chosen.
fn job(bench: &Bench<'_>, round: usize, table: &Table, way: Way) -> Option<(Option<f64>, String)> {
    let ended = bench.job(&what(table, way), round, table.ranks, table.nodes(), |command, banyan| {
        // A message for each pair: no algorithm of a collective takes detours.
        command.args(["--connect", way.policy(), "--coll", "flat"]);
        if way == Way::AutoByPattern {
            command.arg("--pattern").arg(pattern_file(table));
        }
        Costs::Device.charge(command);
        command.arg(banyan).args(["bench", RANK_COMMAND, table.graph.key(), ROUNDS]);
    });
    let (finished, stats) = ended?;
    let begun = finished.values(BEGUN).into_iter().reduce(f64::min);
    let ended = finished.values(ENDED).into_iter().reduce(f64::max);
    Some((begun.zip(ended).map(|(begun, ended)| (ended - begun) / 1e6), chosen(&stats)))
}

/// "rank-by-rank (auto: ...), 12 together".
fn chosen(stats: &Value) -> String {
    let first = &stats["connect"][0];
    let (policy, why) = (first["policy"].as_str().unwrap_or("-"), first["why"].as_str().unwrap_or("-"));
    match stats["connected_together"]["avg"].as_f64() {
        Some(peers) if peers > 0.0 => format!("{policy} ({why}); {peers} of a process made together"),
        _ => format!("{policy} ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_held_against_the_best_fixed_policy() {
        let mut auto = Auto::new(&[4]);
        let table = &mut auto.tables[0];
        for (at, line) in table.lines.iter_mut().enumerate() {
            let ms = match line.way {
                Way::Fixed("overlapped") => 10.0,
                Way::Fixed(_) => 20.0 + at as f64,
                Way::Auto => 10.5,
                Way::AutoByPattern => 15.0,
            };
            line.ms.add(Some(ms));
        }
        assert_eq!(table.best().unwrap().way, Way::Fixed("overlapped"));
        let words: Vec<_> = auto.verdicts().iter().take(3).map(Verdict::word).collect();
        assert_eq!(words, ["met", "MISSED", "not measured"]);
        auto.tables[3].lines[2].ms.add(None);
        let failures: Vec<String> = auto.failures().collect();
        assert_eq!(failures, ["auto, random, 4 ranks, static-serial (1 of 1)"]);
    }

    #[test]
    fn what_was_chosen_is_read_from_the_statistics() {
        let mut stats = json!({"connect": [{"policy": "on-demand", "why": "auto: so", "ranks": 4}]});
        assert_eq!(chosen(&stats), "on-demand (auto: so)");
        stats["connected_together"] = json!({"avg": 11.5});
        assert_eq!(chosen(&stats), "on-demand (auto: so); 11.5 of a process made together");
    }
}
