//! What a recorded pattern is worth in another job, and what a wrong one costs: section `pattern`.
use super::super::ratio::Ratio;
use super::super::sample::{Sample, failure, number};
use super::super::verdict::Verdict;
use super::device::{self, Costs};
use super::graph::{BEGUN, ENDED, Graph};
use super::{Bench, RANK_COMMAND};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What the ranks do.
pub const DEED: &str = "halo-steps";
/// Ranks of the jobs that are recorded.
const RANKS: usize = 64;
const RANKS_QUICK: usize = 16;
/// Ranks on a node there, and where the placement is another.
const PER_NODE: usize = 8;
const PER_NODE_OTHER: usize = 16;
const FIRST_OVER_LATER: f64 = 1.2;
const WRONG_OVER_NONE: f64 = 1.05;
const HEAD: &str = "
A program with four neighbours in a grid reads its parameters (bcast), works for 20 ms, takes a norm (allreduce) and begins to exchange
messages of 1 KiB with its neighbours. Milliseconds of the slowest process: the first exchange, and the middle one of later ones; and all
of the job's ranks from the first MPI_Init on ('whole'). 'pattern': it was recorded in two runs with as many ranks as the first line
has, and with 8 of them on a node (--pattern). 'everybody at the start' (static-parallel) has nothing left to connect. 'wrong': that of a program whose ranks talk to others, drawn by chance. Jobs in turn.
";

/// Which pattern a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    None,
    Own,
    Wrong,
    /// None, and everybody is connected at the start.
    All,
}

impl Known {
    fn has_file(self) -> bool {
        matches!(self, Known::Own | Known::Wrong)
    }
}

/// A job.
#[derive(Clone, Debug)]
struct Line {
    known: Known,
    ranks: usize,
    per_node: usize,
    first_ms: Sample,
    later_ms: Sample,
    whole_ms: Sample,
}

impl Line {
    fn what(&self) -> String {
        let known = match self.known {
            Known::None => "no pattern",
            Known::Own => "pattern",
            Known::Wrong => "wrong pattern",
            Known::All => "everybody at the start",
        };
        format!("{known}, {} ranks, {} on a node", self.ranks, self.per_node)
    }

    /// First / later.
    fn ratio(&self) -> Option<Ratio> {
        Ratio::of(self.first_ms.pairs(&self.later_ms).map(|(first, later)| first / later).collect())
    }
}

/// The section.
#[derive(Clone, Debug)]
pub struct Patterns {
    ranks: usize,
    lines: Vec<Line>,
}

impl Patterns {
    /// Nothing measured yet.
    pub fn new(quick: bool) -> Self {
        let ranks = if quick { RANKS_QUICK } else { RANKS };
        let line = |(known, ranks, per_node)| Line {
            known,
            ranks,
            per_node,
            first_ms: Sample::default(),
            later_ms: Sample::default(),
            whole_ms: Sample::default(),
        };
        let jobs = [
            (Known::None, ranks, PER_NODE),
            (Known::All, ranks, PER_NODE),
            (Known::Own, ranks, PER_NODE),
            (Known::Own, ranks, PER_NODE_OTHER),
            (Known::Own, 2 * ranks, PER_NODE),
            (Known::None, 2 * ranks, PER_NODE),
            (Known::Wrong, ranks, PER_NODE),
        ];
        Patterns { ranks, lines: jobs.map(line).into() }
    }

    /// A job for each line; before the first ones, those that are recorded.
    pub fn run(&mut self, bench: &Bench<'_>, round: usize) {
        for (known, deed) in [(Known::Own, DEED), (Known::Wrong, Graph::Random.key())] {
            if !file(known).exists() {
                let what = format!("pattern, {deed} is recorded");
                for _ in 0..2 {
                    bench.job(&what, round, self.ranks, self.ranks.div_ceil(PER_NODE), |command, banyan| {
                        command.arg("--pattern").arg(file(known));
                        Costs::Device.charge(command);
                        command.arg(banyan).args(["bench", RANK_COMMAND, deed, "10"]);
                    });
                }
            }
        }
        for line in &mut self.lines {
            // Each run adds to its file what it saw: the next one has the same as this one.
            let copy = file(line.known).with_extension("copy");
            let copied = line.known.has_file() && std::fs::copy(file(line.known), &copy).is_ok();
            let what = format!("pattern, {}", line.what());
            let nodes = line.ranks.div_ceil(line.per_node);
            let ended = bench.job(&what, round, line.ranks, nodes, |command, banyan| {
                if copied {
                    command.arg("--pattern").arg(&copy);
                }
                if line.known == Known::All {
                    command.args(["--connect", "static-parallel"]);
                }
                Costs::Device.charge(command);
                command.arg(banyan).args(["bench", RANK_COMMAND, DEED, "20"]);
            });
            let _ = std::fs::remove_file(copy);
            let values = |key| ended.as_ref().map_or(Vec::new(), |(finished, _)| finished.values(key));
            let ms = |key| values(key).first().map(|us| us / 1e3);
            line.first_ms.add(ms("first_us"));
            line.later_ms.add(ms("later_us"));
            let begun = values(BEGUN).into_iter().reduce(f64::min);
            let ended = values(ENDED).into_iter().reduce(f64::max);
            line.whole_ms.add(begun.zip(ended).map(|(begun, ended)| (ended - begun) / 1e6));
        }
    }

    /// The whole job with a wrong pattern beside that with none.
    fn wrong_over_none(&self) -> Option<Ratio> {
        let of = |known| self.lines.iter().find(|line| line.known == known && line.ranks == self.ranks);
        let (wrong, none) = (of(Known::Wrong)?, of(Known::None)?);
        Ratio::of(wrong.whole_ms.pairs(&none.whole_ms).map(|(wrong, none)| wrong / none).collect())
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}{}\n", device::WORDS);
        text += &row("", ["first", "later", "whole"].map(String::from), "first / later");
        for line in &self.lines {
            let cells = [&line.first_ms, &line.later_ms, &line.whole_ms];
            let cells = cells.map(|cell| cell.median().map_or("failed".into(), number));
            text += &row(&line.what(), cells, &words(line.ratio()));
        }
        text + &format!("whole, wrong pattern / no pattern: {}\n", words(self.wrong_over_none()))
    }

    /// What it should show.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let predicted = self.lines.iter().filter(|line| line.known == Known::Own);
        let first = predicted.map(|line| Verdict {
            what: format!("{}: first / later exchange", line.what()),
            value: line.ratio().map(|ratio| ratio.median),
            at_most: FIRST_OVER_LATER,
        });
        let wrong = Verdict {
            what: "whole job: wrong pattern / no pattern".into(),
            value: self.wrong_over_none().map(|ratio| ratio.median),
            at_most: WRONG_OVER_NONE,
        };
        first.chain([wrong]).collect()
    }

    /// Runs that gave nothing, by lines.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let of =
            |line: &Line| failure(&format!("pattern, {}", line.what()), [&line.first_ms, &line.whole_ms]);
        self.lines.iter().filter_map(of)
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "job": line.what(),
                "ranks": line.ranks,
                "first_ms": line.first_ms.json(),
                "later_ms": line.later_ms.json(),
                "whole_ms": line.whole_ms.json(),
            })
        };
        json!({"device": device::DEVICE, "lines": self.lines.iter().map(line).collect::<Vec<_>>()})
    }
}

impl Drop for Patterns {
    fn drop(&mut self) {
        for known in [Known::Own, Known::Wrong] {
            let _ = std::fs::remove_file(file(known));
        }
    }
}

fn file(known: Known) -> PathBuf {
    let name = if known == Known::Wrong { "wrong" } else { "halo" };
    std::env::temp_dir().join(format!("banyan-bench-{name}-{}.pattern", std::process::id()))
}

fn words(ratio: Option<Ratio>) -> String {
    ratio.map_or("-".into(), |ratio| ratio.text())
}

fn row(label: &str, cells: [String; 3], ratio: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    format!("{label:<44}{cells}   {ratio}").trim_end().to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_exchange_is_held_against_a_later_one_of_the_same_run() {
        let mut patterns = Patterns::new(true);
        for (at, line) in patterns.lines.iter_mut().enumerate() {
            line.first_ms.add(Some(2.15 + at as f64 / 10.0));
            line.later_ms.add(Some(2.0));
            line.whole_ms.add(Some(if line.known == Known::Wrong { 22.0 } else { 20.0 }));
        }
        let words: Vec<_> = patterns.verdicts().iter().map(Verdict::word).collect();
        assert_eq!(words, ["met", "MISSED", "MISSED", "MISSED"]);
        patterns.lines[4].first_ms.add(None);
        let failures: Vec<String> = patterns.failures().collect();
        assert_eq!(failures, ["pattern, pattern, 32 ranks, 8 on a node (1 of 2)"]);
    }
}
