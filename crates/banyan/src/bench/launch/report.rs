//! The tables: medians with their spread, ratios, whether the goals are met, and the start by ranks per node. As text and
//! as JSON.
use super::super::machine;
use super::super::sample::number;
use super::super::verdict::{Verdict, ratio};
use super::Timing;
use super::growth::{Growth, SLOPE_MAX};
use super::launcher::Launcher;
use super::plan::{Cell, GOALS, Goal, Work};
use serde_json::{Map, Value, json};

const LABEL_WIDTH: usize = 28;
const CELL_WIDTH: usize = 25;
const RATIO_WIDTH: usize = 20;
const GROWTH_WIDTH: usize = 12;

/// Hydra makes every rank the leader of a session; Linux shares processors out between sessions (autogroups).
const BUSY_NOTE: &str = "\
Beside other load, ranks that lead sessions of their own (Hydra's) get a larger share of the processors than ranks that
share one (Banyan's, the bare loop's).";

/// A launcher of the table.
#[derive(Debug)]
pub struct Column {
    /// Which one.
    pub launcher: Launcher,
    /// What it calls itself, or why it could not be run.
    pub version: Result<String, String>,
}

/// One job, on every launcher.
#[derive(Debug)]
pub struct Line {
    /// Which job.
    pub cell: Cell,
    /// By column.
    pub(super) timings: Vec<Timing>,
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// Launchers.
    pub columns: Vec<Column>,
    /// Jobs.
    pub lines: Vec<Line>,
    /// Start times by ranks per node.
    pub growth: Growth,
    /// Rounds over all launchers.
    pub rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

/// What is divided by what in the table of ratios.
const RATIOS: [(Launcher, Launcher); 4] = [
    (Launcher::Banyan, Launcher::Bare),
    (Launcher::Banyan, Launcher::Hydra),
    (Launcher::BanyanMpich, Launcher::Hydra),
    (Launcher::Banyan, Launcher::OpenMpi),
];

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = self.head();
        text += &self.medians();
        text += &self.ratios();
        text += &self.growth_table();
        text += "\nGoals, for a quiet machine\n\n";
        for verdict in self.verdicts() {
            text += &verdict.line();
        }
        text
    }

    fn head(&self) -> String {
        let mut text = format!("{}\n", machine::describe());
        for column in &self.columns {
            let said = match &column.version {
                Ok(version) => version.clone(),
                Err(why) => format!("cannot be run: {}", why.lines().next().unwrap_or_default()),
            };
            text += &format!("  {:<14}{said}\n", column.launcher.key());
        }
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n{BUSY_NOTE}\n");
        }
        let rounds = self.rounds;
        text + &format!("\nStart to exit, ms: median of {rounds} interleaved runs [smallest..largest]\n\n")
    }

    fn medians(&self) -> String {
        let names = self.columns.iter().map(|c| format!("{:<CELL_WIDTH$}", c.launcher.key()));
        let mut text = line_of("", names);
        for line in &self.lines {
            let cells = self.columns.iter().zip(&line.timings);
            let cell = |(column, timing): (&Column, &Timing)| {
                let said = if column.launcher.takes(line.cell) { self.said(timing) } else { "-".into() };
                format!("{said:<width$}", width = CELL_WIDTH.max(said.len() + 1))
            };
            text += &line_of(&line.cell.to_string(), cells.map(cell));
        }
        text
    }

    /// A cell: the median, the spread, and what was different from the other cells.
    fn said(&self, timing: &Timing) -> String {
        let (runs, failed) = (timing.ms.runs(), timing.ms.failed());
        let mut said = match (timing.ms.median(), timing.ms.spread()) {
            (Some(median), Some((low, high))) => {
                format!("{} [{}..{}]", number(median), number(low), number(high))
            }
            _ => String::new(),
        };
        if runs > 0 && runs + failed < self.rounds {
            said += &format!(" {runs} run{}", if runs == 1 { "" } else { "s" });
        }
        if timing.hung > 0 {
            said += &format!(" hung {} of {}", timing.hung, runs + failed);
        }
        if failed > timing.hung {
            said += &format!(" failed {} of {}", failed - timing.hung, runs + failed);
        }
        if said.is_empty() { "-".into() } else { said.trim_start().into() }
    }

    fn ratios(&self) -> String {
        let has = |launcher: Launcher| self.columns.iter().any(|column| column.launcher == launcher);
        let ratios: Vec<_> = RATIOS.into_iter().filter(|(a, b)| has(*a) && has(*b)).collect();
        let names =
            ratios.iter().map(|(a, b)| format!("{:<RATIO_WIDTH$}", format!("{}/{}", a.key(), b.key())));
        let mut text = String::from("\nRatios of medians\n\n") + &line_of("", names);
        for line in &self.lines {
            let cells = ratios.iter().map(|&(a, b)| {
                let said = self.ratio(line.cell, a, b).map_or("-".into(), ratio);
                format!("{said:<RATIO_WIDTH$}")
            });
            text += &line_of(&line.cell.to_string(), cells);
        }
        text
    }

    fn median(&self, cell: Cell, launcher: Launcher) -> Option<f64> {
        let at = self.columns.iter().position(|column| column.launcher == launcher)?;
        self.lines.iter().find(|line| line.cell == cell)?.timings[at].ms.median()
    }

    fn ratio(&self, cell: Cell, of: Launcher, to: Launcher) -> Option<f64> {
        Some(self.median(cell, of)? / self.median(cell, to)?)
    }

    fn growth_table(&self) -> String {
        if self.growth.points().is_empty() {
            return String::new();
        }
        let mut text = String::from(
            "\nUntil all ranks have been started, ms (beyond: less the bare loop, per node)\n\n",
        );
        let names = ["banyan", "bare loop", "beyond"].map(|name| format!("{name:>GROWTH_WIDTH$}"));
        text += &line_of("", names);
        for point in self.growth.points() {
            let cells = match point.figures() {
                Some(figures) => figures.map(|ms| format!("{:>GROWTH_WIDTH$}", format!("{ms:.2}"))),
                None => ["failed", "-", "-"].map(|word| format!("{word:>GROWTH_WIDTH$}")),
            };
            text += &line_of(&point.shape.to_string(), cells);
        }
        text
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let of_goal = |goal: &Goal| {
            let library = if goal.cell.work == Work::Hello && goal.beside == Launcher::Hydra {
                " with MPICH"
            } else {
                ""
            };
            Verdict {
                what: format!("{}: banyan / {}{library}", goal.cell, goal.beside.key()),
                value: self.ratio(goal.cell, Launcher::Banyan, goal.beside),
                at_most: goal.at_most,
            }
        };
        let of_slope = |(nodes, slope): (usize, f64)| Verdict {
            what: format!("more ranks on each of {nodes} nodes: added start time / added bare spawns"),
            value: Some(slope),
            at_most: SLOPE_MAX,
        };
        GOALS.iter().map(of_goal).chain(self.growth.slopes().into_iter().map(of_slope)).collect()
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let versions =
            self.columns.iter().map(|c| (c.launcher.key().to_string(), json!(c.version.as_ref().ok())));
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "versions": versions.collect::<Map<_, _>>(),
            "jobs": self.lines.iter().map(|line| self.line_json(line)).collect::<Vec<_>>(),
            "started": self.growth.json(),
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }

    fn line_json(&self, line: &Line) -> Value {
        let timing_json = |timing: &Timing| {
            let spread = timing.ms.spread();
            json!({
                "median_ms": timing.ms.median(),
                "min_ms": spread.map(|(low, _)| low),
                "max_ms": spread.map(|(_, high)| high),
                "runs": timing.ms.runs(),
                "failed": timing.ms.failed(),
                "hung": timing.hung,
                "last_error": timing.why,
            })
        };
        let launchers = self.columns.iter().zip(&line.timings);
        let launchers = launchers.filter(|(column, _)| column.launcher.takes(line.cell));
        json!({
            "program": line.cell.work.key(),
            "nodes": line.cell.shape.nodes,
            "ranks_per_node": line.cell.shape.per_node,
            "launchers": launchers
                .map(|(column, timing)| (column.launcher.key().to_string(), timing_json(timing)))
                .collect::<Map<_, _>>(),
        })
    }
}

fn line_of(label: &str, cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().collect();
    format!("{label:<LABEL_WIDTH$}{cells}").trim_end().to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::super::runner::RunError;
    use super::super::plan::Shape;
    use super::*;
    use std::time::Duration;

    fn timing(times_ms: &[u64], hung: usize) -> Timing {
        let mut timing = Timing::default();
        times_ms.iter().for_each(|&ms| timing.add(Ok(Duration::from_millis(ms)), Duration::ZERO));
        (0..hung).for_each(|_| timing.add(Err(RunError::Hung(Duration::from_secs(10))), Duration::ZERO));
        timing
    }

    fn report() -> Report {
        let shape = Shape { nodes: 1, per_node: 256 };
        let column = |launcher| Column { launcher, version: Ok("1.0".into()) };
        let line = Line {
            cell: Cell { work: Work::True, shape },
            timings: vec![timing(&[80, 90, 100], 0), timing(&[99], 0), timing(&[120, 130], 1)],
        };
        Report {
            columns: vec![column(Launcher::Bare), column(Launcher::Banyan), column(Launcher::Hydra)],
            lines: vec![line],
            growth: Growth::empty(),
            rounds: 3,
            load_before: 0.0,
        }
    }

    #[test]
    fn hung_runs_and_missing_ones_are_said_in_their_cells() {
        let text = report().text();
        let line = text.lines().find(|line| line.starts_with("/bin/true, 1 node x 256")).unwrap();
        assert!(line.contains("90.0 [80.0..100]  "), "{line}");
        assert!(line.contains("99.0 [99.0..99.0] 1 run"), "{line}");
        assert!(line.ends_with("125 [120..130] hung 1 of 3"), "{line}");
    }

    #[test]
    fn goals_are_met_missed_or_not_measured() {
        let words: Vec<&str> = report().verdicts().iter().map(Verdict::word).collect();
        assert_eq!(words, ["met", "MISSED", "not measured", "not measured"]);
    }

    #[test]
    fn json_says_what_the_tables_say() {
        let json = report().json();
        let hydra = &json["jobs"][0]["launchers"]["hydra"];
        assert_eq!((&hydra["median_ms"], &hydra["hung"]), (&json!(125.0), &json!(1)));
        assert_eq!(json["goals"][0]["verdict"], json!("met"));
    }
}
