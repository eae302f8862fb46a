//! The report of `banyan bench pgas`: libraries beside each other, counts and memory, and the goals. As text and as JSON.
use super::super::machine;
use super::super::table::{Line, Side, Table};
use super::super::verdict::Verdict;
use super::computing::Computing;
use super::counts::{self, Count};
use super::memory::{self, Memory};
use super::plan::GOALS;
use serde_json::{Value, json};

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Report {
    /// ARMCI's operations, if these were asked for.
    pub operations: Option<Table>,
    /// A target that computes, if it was asked for.
    pub computing: Option<Computing>,
    /// By program and size.
    pub counts: Vec<Count>,
    /// By program and policy.
    pub memory: Vec<Memory>,
    /// Were measurements short?
    pub quick: bool,
    /// Rounds over everything.
    pub rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", machine::describe());
        if let Some(warning) = machine::busy_warning(self.load_before).filter(|_| self.operations.is_some()) {
            text += &format!("\n{warning}\n");
        }
        if let Some(table) = &self.operations {
            text += &format!(
                "\nARMCI on one host, 2 ranks: median of {} interleaved runs [smallest..largest]\n",
                self.rounds
            );
            text += &format!("{}\n{}", table.versions(), table.medians());
            if table.columns.iter().any(|column| column.side == Side::Peer) {
                text += &format!("\n{}", table.ratios());
            }
        }
        if let Some(computing) = &self.computing {
            text += &computing.text(self.quick);
        }
        text += &counts::text(&self.counts);
        text += &memory::text(&self.memory);
        text += "\nGoals, for a quiet machine\n\n";
        text + &self.verdicts().iter().map(Verdict::line).collect::<String>()
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let operations = self.operations.as_ref();
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "operations": operations.map(|table| json!({
                "versions": table.versions_json(),
                "rows": table.rows_json(),
            })),
            "computing": self.computing.as_ref().map(Computing::json),
            "connections": self.counts.iter().map(Count::json).collect::<Vec<_>>(),
            "memory": self.memory.iter().map(Memory::json).collect::<Vec<_>>(),
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }

    /// Jobs of programs that failed. What a library could not do is in its table.
    pub fn failures(&self) -> Vec<String> {
        let counts = self.counts.iter().filter_map(Count::failure);
        let computing = self.computing.iter().filter_map(Computing::failure);
        computing.chain(counts).chain(self.memory.iter().filter_map(Memory::failure)).collect()
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let operations = self.operations.iter().flat_map(|table| {
            let goal = move |(key, at_most): (&str, f64)| {
                let line = table.lines.iter().find(|line| line.row.key == key)?;
                Some(verdict(table, line, at_most))
            };
            GOALS.into_iter().filter_map(goal)
        });
        let shapes = counts::verdicts(&self.counts).into_iter();
        let computing = self.computing.iter().map(Computing::verdict);
        operations.chain(computing).chain(shapes).chain(memory::verdicts(&self.memory)).collect()
    }
}

fn verdict(table: &Table, line: &Line, at_most: f64) -> Verdict {
    Verdict {
        what: format!("{}: cost beside armci-mpi", line.row.label),
        value: table.own_ratio(line).map(|ratio| ratio.median),
        at_most,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::Sample;
    use super::super::super::table::Column;
    use super::super::plan;
    use super::*;

    fn table(figures: &[(&'static str, Side, f64)]) -> Table {
        let column = |&(key, side, _): &(_, _, _)| Column { key, side, version: Ok("1.0".into()) };
        let line = |row| {
            let cell = |&(_, _, value): &(_, _, f64)| {
                let mut sample = Sample::default();
                sample.add(Some(value));
                sample
            };
            Line { row, ranks: 2, cells: figures.iter().map(cell).collect() }
        };
        let rows = plan::jobs().into_iter().flat_map(|job| job.rows);
        Table { columns: figures.iter().map(column).collect(), lines: rows.map(line).collect() }
    }

    #[test]
    fn goals_are_ratios_of_costs_and_unknown_without_a_peer() {
        let own = ("banyan", Side::Own, 1.0);
        let words = |table| {
            let report = Report { operations: Some(table), ..Report::default() };
            report.verdicts().iter().map(Verdict::word).collect::<Vec<_>>().join(" ")
        };
        // Twice the figure: a latency that is better, and a bandwidth that is worse.
        assert_eq!(words(table(&[own, ("armci-mpi", Side::Peer, 2.0)])), "met met met MISSED MISSED");
        assert_eq!(words(table(&[own, ("armci-mpi", Side::Peer, 0.5)])), "MISSED MISSED MISSED met met");
        assert_eq!(words(table(&[own])), ["not measured"; 5].join(" "));
        let text = Report { operations: Some(table(&[own])), ..Report::default() }.text();
        assert!(!text.contains("best peer") && text.contains("get 8 B, us"), "{text}");
    }
}
