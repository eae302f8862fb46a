//! The table: medians with their spread, each library beside the best peer, latencies beside the machine's
//! limit. As text and as JSON.
use super::job::Group;
use super::machine;
use super::sample::Sample;
use super::table::{LABEL_WIDTH, Line, Table, pad};
use serde_json::{Value, json};

const LIMIT_WIDTH: usize = 14;

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// Libraries and quantities.
    pub table: Table,
    /// A cache line's way from core to core.
    pub limit_us: Sample,
    /// Rounds over all libraries.
    pub rounds: usize,
    /// What else ran on the machine when it began: the load average of the last minute.
    pub load_before: f64,
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = self.head();
        text += &self.table.medians();
        text += &format!("\n{}", self.table.ratios());
        text += &self.limits();
        text
    }

    fn head(&self) -> String {
        let mut text = format!("{}\n{}", machine::describe(), self.table.versions());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        text += &format!(
            "\nMedian of {} interleaved runs [smallest..largest]; ranks bound to cores\n\n",
            self.rounds
        );
        text
    }

    fn limits(&self) -> String {
        let Some(limit) = self.limit_us.median() else { return String::new() };
        let latencies: Vec<&Line> =
            self.table.lines.iter().filter(|line| line.row.group == Group::Latency).collect();
        if latencies.is_empty() {
            return String::new();
        }
        let (low, high) = self.limit_us.spread().unwrap_or((limit, limit));
        let mut text =
            format!("\nTimes a bare cache-line hand-over ({limit:.3} us [{low:.3}..{high:.3}] one way)\n\n");
        text += &self.table.header(LIMIT_WIDTH, "");
        for line in latencies {
            let multiple =
                |cell: &Sample| cell.median().map_or("-".into(), |us| format!("{:.1}", us / limit));
            let cells: String = line.cells.iter().map(|cell| pad(&multiple(cell), LIMIT_WIDTH)).collect();
            text += format!("{:<LABEL_WIDTH$}{cells}", line.row.label).trim_end();
            text += "\n";
        }
        text
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "limit_us": self.limit_us.median(),
            "versions": self.table.versions_json(),
            "rows": self.table.rows_json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::Job;
    use super::super::table::{Column, Side};
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        let mut sample = Sample::default();
        values.iter().for_each(|&value| sample.add(Some(value)));
        sample
    }

    fn report() -> Report {
        let rows = Job::plan(&[Group::Latency, Group::Rate]).remove(0).rows;
        let column = |key, side| Column { key, side, version: Ok("1.0".into()) };
        let mut broken = Sample::default();
        broken.add(None);
        let latency = Line {
            row: rows[0].clone(),
            ranks: 2,
            cells: vec![sample(&[0.5, 0.4, 0.6]), sample(&[2.0; 3]), sample(&[0.4, 0.1, 0.5])],
        };
        let rate =
            Line { row: rows[4].clone(), ranks: 2, cells: vec![sample(&[8.0]), sample(&[4.0]), broken] };
        let columns =
            vec![column("banyan", Side::Own), column("mpich", Side::Peer), column("openmpi", Side::Peer)];
        Report {
            table: Table { columns, lines: vec![latency, rate] },
            limit_us: sample(&[0.25]),
            rounds: 3,
            load_before: 0.1,
        }
    }

    #[test]
    fn ratios_are_costs_beside_the_best_peer_whichever_way_is_good() {
        let table = report().table;
        let [latency, rate] = &table.lines[..] else { panic!("two lines") };
        let own = |line: &Line| table.own_ratio(line).unwrap().median;
        assert_eq!((latency.best_peer(&table.columns), own(latency)), (Some(2), 1.25));
        assert_eq!((rate.best_peer(&table.columns), own(rate)), (Some(1), 0.5));
    }

    #[test]
    fn a_failed_library_is_a_cell_not_the_end() {
        let text = report().text();
        let line = text.lines().find(|line| line.starts_with("message rate")).unwrap();
        assert!(line.contains("8.00 [8.00..8.00]") && line.ends_with("failed"), "{line}");
        assert!(text.contains("latency 8 B, us                     2.0"), "{text}");
    }

    #[test]
    fn a_ratio_is_of_rounds_and_shows_how_well_it_is_known() {
        let text = report().table.ratios();
        let line = text.lines().find(|line| line.starts_with("latency")).unwrap();
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        // The rounds' ratios are 1.25, 4 and 1.2.
        assert_eq!(cells[..2], ["latency 8 B, us", "1.25 (1.20..4.00)"]);
        assert_eq!(cells[3..], ["1.00", "openmpi"]);
    }

    #[test]
    fn json_holds_median_spread_and_ratio() {
        let json = report().json();
        let cell = &json["rows"][0]["libraries"]["banyan"];
        assert_eq!((&cell["median"], &cell["min"], &cell["max"]), (&json!(0.5), &json!(0.4), &json!(0.6)));
        assert_eq!(cell["ratio"], json!(1.25));
        assert_eq!(cell["ratio_bounds"], json!({"low": 1.2, "high": 4.0, "kind": "range", "rounds": 3}));
        assert_eq!(json["rows"][0]["best_peer"], json!("openmpi"));
        assert_eq!(json["rows"][1]["libraries"]["openmpi"]["ratio_bounds"], json!(null));
        assert_eq!(json["rows"][1]["libraries"]["openmpi"]["failed"], json!(1));
        assert_eq!(json["limit_us"], json!(0.25));
    }
}
