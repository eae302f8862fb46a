//! The table of `banyan bench dynamic`, and whether the goal is met in each of its rows. As text and as JSON.
use super::super::machine;
use super::super::table::{Line, Table};
use super::super::verdict::Verdict;
use super::plan::AT_MOST;
use serde_json::{Value, json};

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// Every library.
    pub table: Table,
    /// Rounds over all libraries.
    pub rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}", machine::describe(), self.table.versions());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        let rounds = self.rounds;
        text += &format!("\nMedian of {rounds} interleaved runs [smallest..largest]\n\n");
        text += &self.table.medians();
        text += &format!("\n{}", self.table.ratios());
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
            "versions": self.table.versions_json(),
            "rows": self.table.rows_json(),
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let verdict = |line: &Line| Verdict {
            what: format!("{}: beside the best peer", line.row.label),
            value: self.table.own_ratio(line).map(|ratio| ratio.median),
            at_most: AT_MOST,
        };
        self.table.lines.iter().map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::job::Row;
    use super::super::super::sample::Sample;
    use super::super::super::table::{Column, Side};
    use super::super::options::Options;
    use super::super::plan::Job;
    use super::*;

    /// Every figure of the libraries is what is said here.
    fn report(figures: &[(&'static str, Side, f64)]) -> Report {
        let column = |&(key, side, _): &(_, _, _)| Column { key, side, version: Ok("1.0".into()) };
        let sample = |&(_, _, value): &(_, _, f64)| {
            let mut sample = Sample::default();
            sample.add(Some(value));
            sample
        };
        let jobs = Job::plan(&Options::default());
        let rows = jobs.iter().flat_map(|job| job.rows.iter());
        let line = |row: Row| Line { row, ranks: 2, cells: figures.iter().map(sample).collect() };
        let lines = rows.map(|measured| line(measured.row.clone())).collect();
        let table = Table { columns: figures.iter().map(column).collect(), lines };
        Report { table, rounds: 1, load_before: 0.0 }
    }

    #[test]
    fn the_faster_peer_decides_in_every_row() {
        let banyan = ("banyan", Side::Own, 2.0);
        let peers = [("mpich", Side::Peer, 10.0), ("mpich-ofi", Side::Peer, 40.0)];
        let verdicts = report(&[banyan, peers[0], peers[1]]).verdicts();
        assert_eq!(verdicts.len(), 3 + 2 * 2);
        assert!(verdicts.iter().all(|verdict| verdict.value == Some(0.2) && verdict.word() == "met"));
        let alone = report(&[banyan]);
        assert!(alone.verdicts().iter().all(|verdict| verdict.word() == "not measured"));
        assert_eq!(alone.json()["rows"][0]["libraries"]["banyan"]["median"], json!(2.0));
    }
}
