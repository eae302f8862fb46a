//! The tables of `banyan bench net`: libraries beside each other, Banyan beside itself, and the goals. As text and as JSON.
use super::super::machine;
use super::super::table::{Line, Table};
use super::super::verdict::Verdict;
use super::plan::{Beside, GOALS, Goal};
use serde_json::{Value, json};

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// Every library.
    pub all: Table,
    /// Banyan alone.
    pub own: Table,
    /// Rounds over all libraries.
    pub rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}", machine::describe(), self.all.versions());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        let rounds = self.rounds;
        if !self.all.lines.is_empty() {
            text += &format!(
                "\nBetween hosts over TCP: median of {rounds} interleaved runs [smallest..largest]\n\n{}",
                self.all.medians()
            );
            text += &format!("\n{}", self.all.ratios());
        }
        if !self.own.lines.is_empty() && !self.own.columns.is_empty() {
            text += &format!("\nBanyan beside itself\n\n{}", self.own.medians());
        }
        text += "\nGoals, for a quiet machine\n\n";
        text + &self.verdicts().iter().map(Verdict::line).collect::<String>()
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "versions": self.all.versions_json(),
            "rows": self.all.rows_json(),
            "own": self.own.rows_json(),
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }

    fn verdicts(&self) -> Vec<Verdict> {
        GOALS.iter().map(|goal| self.verdict(goal)).collect()
    }

    fn verdict(&self, goal: &Goal) -> Verdict {
        let line = |table: &'_ Table, key: &str| {
            let is_it = |line: &&Line| line.row.group == goal.group && line.row.key == key;
            table.lines.iter().position(|line| is_it(&line))
        };
        let (what, value) = match goal.beside {
            Beside::BestPeer => match line(&self.all, goal.key) {
                Some(at) => (self.all.lines[at].row.label.clone(), beside_peers(&self.all, at)),
                None => (goal.key.to_string(), None),
            },
            Beside::Own(other) => match (line(&self.own, goal.key), line(&self.own, other)) {
                (Some(this), Some(that)) => {
                    let [this, that] = [this, that].map(|at| &self.own.lines[at]);
                    (format!("{} / {}", this.row.label, that.row.label), own_ratio(this, that))
                }
                _ => (format!("{} {}", goal.group.key(), goal.key), None),
            },
        };
        let beside = if goal.beside == Beside::BestPeer { ": cost beside the best peer" } else { "" };
        Verdict { what: format!("{what}{beside}"), value, at_most: goal.at_most }
    }
}

fn beside_peers(table: &Table, at: usize) -> Option<f64> {
    Some(table.own_ratio(&table.lines[at])?.median)
}

fn own_ratio(this: &Line, that: &Line) -> Option<f64> {
    this.cells.first()?.over(that.cells.first()?)
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::Sample;
    use super::super::super::table::{Column, Side};
    use super::super::options::Options;
    use super::super::plan::{Job, Scope};
    use super::*;

    fn sample(value: f64) -> Sample {
        let mut sample = Sample::default();
        sample.add(Some(value));
        sample
    }

    /// Every figure of Banyan is 2, of its peer 4.
    fn report() -> Report {
        let column = |key, side| Column { key, side, version: Ok("1.0".into()) };
        let jobs = Job::plan(&Options::default());
        let lines = |scope: Scope, values: &[f64]| {
            let jobs = jobs.iter().filter(|job| job.scope == scope);
            let rows = jobs.flat_map(|job| job.rows.clone());
            rows.map(|row| Line { row, ranks: 2, cells: values.iter().map(|&v| sample(v)).collect() })
                .collect()
        };
        Report {
            all: Table {
                columns: vec![column("banyan", Side::Own), column("mpich", Side::Peer)],
                lines: lines(Scope::All, &[2.0, 4.0]),
            },
            own: Table { columns: vec![column("banyan", Side::Own)], lines: lines(Scope::Own, &[2.0]) },
            rounds: 1,
            load_before: 0.0,
        }
    }

    #[test]
    fn goals_turn_rates_around_and_compare_banyan_with_itself() {
        let verdicts = report().verdicts();
        let values: Vec<Option<f64>> = verdicts.iter().map(|verdict| verdict.value).collect();
        assert_eq!(values, [0.5, 0.5, 2.0, 2.0, 1.0, 1.0, 1.0].map(Some));
        let words: Vec<&str> = verdicts.iter().map(Verdict::word).collect();
        assert_eq!(words, ["met", "met", "MISSED", "MISSED", "met", "met", "met"]);
    }

    #[test]
    fn what_was_not_run_is_not_measured() {
        let mut report = report();
        report.all.columns.remove(1);
        report.all.lines.iter_mut().for_each(|line| line.cells.truncate(1));
        report.own.lines.clear();
        assert!(report.verdicts().iter().all(|verdict| verdict.word() == "not measured"));
        assert_eq!(report.json()["goals"][0]["verdict"], json!("not measured"));
    }
}
