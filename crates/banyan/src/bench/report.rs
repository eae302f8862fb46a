//! The table: medians with their spread, each library beside the best peer, latencies beside the machine's
//! limit. As text and as JSON.
use super::job::{Better, Group, Row};
use super::library::Name;
use super::machine;
use super::sample::{Sample, number};
use serde_json::{Map, Value, json};

const LABEL_WIDTH: usize = 30;
const CELL_WIDTH: usize = 26;
const RATIO_WIDTH: usize = 14;

/// A library of the table.
#[derive(Debug)]
pub struct Column {
    /// Which one.
    pub name: Name,
    /// What it calls itself, or why it could not be run.
    pub version: Result<String, String>,
}

/// A quantity, measured with every library.
#[derive(Debug)]
pub struct Line {
    /// What it is.
    pub row: Row,
    /// At how many ranks.
    pub ranks: usize,
    /// By column.
    pub cells: Vec<Sample>,
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// Libraries.
    pub columns: Vec<Column>,
    /// Quantities.
    pub lines: Vec<Line>,
    /// A cache line's way from core to core.
    pub limit_us: Sample,
    /// Rounds over all libraries.
    pub rounds: usize,
    /// What else ran on the machine when it began: the load average of the last minute.
    pub load_before: f64,
}

impl Line {
    /// The best median among peers.
    fn best_peer(&self, columns: &[Column]) -> Option<(Name, f64)> {
        let peers = columns.iter().zip(&self.cells).filter(|(column, _)| column.name.is_peer());
        let medians = peers.filter_map(|(column, cell)| Some((column.name, cell.median()?)));
        medians.min_by(|a, b| cost(self.row.better, a.1).total_cmp(&cost(self.row.better, b.1)))
    }

    /// How many times the cost of the best peer a median is: below 1 is better than every peer.
    fn ratio(&self, cell: &Sample, best: f64) -> Option<f64> {
        let median = cell.median()?;
        let (own, best) = (cost(self.row.better, median), cost(self.row.better, best));
        (best > 0.0).then(|| own / best)
    }
}

/// A number that is smaller where the library is better.
fn cost(better: Better, value: f64) -> f64 {
    match better {
        Better::Lower => value,
        Better::Higher => 1.0 / value,
    }
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = self.head();
        text += &self.medians();
        text += "\nTimes the cost of the best peer (below 1.00: better than every peer)\n\n";
        text += &self.ratios();
        text += &self.limits();
        text
    }

    fn head(&self) -> String {
        let mut text = format!("{}\n", machine::describe());
        for column in &self.columns {
            match &column.version {
                Ok(version) => text += &format!("  {:<14}{version}\n", column.name.key()),
                Err(why) => {
                    text += &format!("  {:<14}cannot be run: {}\n", column.name.key(), first_line(why))
                }
            }
        }
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        text += &format!(
            "\nMedian of {} interleaved runs [smallest..largest]; ranks bound to cores\n\n",
            self.rounds
        );
        text
    }

    fn header(&self, width: usize, last: &str) -> String {
        let names: String = self.columns.iter().map(|c| format!("{:<width$}", c.name.key())).collect();
        format!("{:<LABEL_WIDTH$}{names}{last}", "").trim_end().to_string() + "\n"
    }

    fn medians(&self) -> String {
        let mut text = self.header(CELL_WIDTH, "");
        for line in &self.lines {
            let cells = self.columns.iter().zip(&line.cells);
            let cells: String =
                cells.map(|(column, cell)| pad(&median_text(column, cell), CELL_WIDTH)).collect();
            text += format!("{:<LABEL_WIDTH$}{cells}", line.row.label).trim_end();
            text += "\n";
        }
        text
    }

    fn ratios(&self) -> String {
        let mut text = self.header(RATIO_WIDTH, "best peer");
        for line in &self.lines {
            let Some((name, best)) = line.best_peer(&self.columns) else { continue };
            let ratio =
                |cell: &Sample| line.ratio(cell, best).map_or("-".into(), |ratio| format!("{ratio:.2}"));
            let cells: String = line.cells.iter().map(|cell| pad(&ratio(cell), RATIO_WIDTH)).collect();
            text += &format!("{:<LABEL_WIDTH$}{cells}{}\n", line.row.label, name.key());
        }
        text
    }

    fn limits(&self) -> String {
        let Some(limit) = self.limit_us.median() else { return String::new() };
        let latencies: Vec<&Line> =
            self.lines.iter().filter(|line| line.row.group == Group::Latency).collect();
        if latencies.is_empty() {
            return String::new();
        }
        let (low, high) = self.limit_us.spread().unwrap_or((limit, limit));
        let mut text =
            format!("\nTimes a bare cache-line hand-over ({limit:.3} us [{low:.3}..{high:.3}] one way)\n\n");
        text += &self.header(RATIO_WIDTH, "");
        for line in latencies {
            let multiple =
                |cell: &Sample| cell.median().map_or("-".into(), |us| format!("{:.1}", us / limit));
            let cells: String = line.cells.iter().map(|cell| pad(&multiple(cell), RATIO_WIDTH)).collect();
            text += format!("{:<LABEL_WIDTH$}{cells}", line.row.label).trim_end();
            text += "\n";
        }
        text
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let versions =
            self.columns.iter().map(|c| (c.name.key().to_string(), json!(c.version.as_ref().ok())));
        let lines: Vec<Value> = self.lines.iter().map(|line| self.line_json(line)).collect();
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "limit_us": self.limit_us.median(),
            "versions": versions.collect::<Map<_, _>>(),
            "rows": lines,
        })
    }

    fn line_json(&self, line: &Line) -> Value {
        let best = line.best_peer(&self.columns);
        let cell_json = |cell: &Sample| {
            let spread = cell.spread();
            json!({
                "median": cell.median(),
                "min": spread.map(|(low, _)| low),
                "max": spread.map(|(_, high)| high),
                "runs": cell.runs(),
                "failed": cell.failed(),
                "ratio": best.and_then(|(_, best)| line.ratio(cell, best)),
            })
        };
        let cells = self.columns.iter().zip(&line.cells);
        let cells: Map<String, Value> =
            cells.map(|(c, cell)| (c.name.key().to_string(), cell_json(cell))).collect();
        json!({
            "key": line.row.key,
            "label": line.row.label,
            "ranks": line.ranks,
            "better": if line.row.better == Better::Lower { "lower" } else { "higher" },
            "best_peer": best.map(|(name, _)| name.key()),
            "libraries": cells,
        })
    }
}

fn median_text(column: &Column, cell: &Sample) -> String {
    match (cell.median(), cell.spread()) {
        (Some(median), Some((low, high))) => {
            let failed = if cell.failed() > 0 { format!(" {} failed", cell.failed()) } else { String::new() };
            format!("{} [{}..{}]{failed}", number(median), number(low), number(high))
        }
        _ if column.version.is_err() || cell.failed() > 0 => "failed".into(),
        _ => "-".into(),
    }
}

fn pad(text: &str, width: usize) -> String {
    format!("{text:<width$}", width = width.max(text.len() + 1))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::job::Job;
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        let mut sample = Sample::default();
        values.iter().for_each(|&value| sample.add(Some(value)));
        sample
    }

    fn report() -> Report {
        let rows = Job::plan(&[Group::Latency, Group::Rate]).remove(0).rows;
        let column = |name| Column { name, version: Ok("1.0".into()) };
        let mut broken = Sample::default();
        broken.add(None);
        let latency = Line {
            row: rows[0].clone(),
            ranks: 2,
            cells: vec![sample(&[0.5, 0.4, 0.6]), sample(&[2.0]), sample(&[0.4])],
        };
        let rate =
            Line { row: rows[4].clone(), ranks: 2, cells: vec![sample(&[8.0]), sample(&[4.0]), broken] };
        Report {
            columns: vec![column(Name::Banyan), column(Name::Mpich), column(Name::OpenMpi)],
            lines: vec![latency, rate],
            limit_us: sample(&[0.25]),
            rounds: 3,
            load_before: 0.1,
        }
    }

    #[test]
    fn ratios_are_costs_beside_the_best_peer_whichever_way_is_good() {
        let report = report();
        let [latency, rate] = &report.lines[..] else { panic!("two lines") };
        assert_eq!(latency.best_peer(&report.columns), Some((Name::OpenMpi, 0.4)));
        assert_eq!(latency.ratio(&latency.cells[0], 0.4), Some(1.25));
        assert_eq!(rate.best_peer(&report.columns), Some((Name::Mpich, 4.0)));
        assert_eq!(rate.ratio(&rate.cells[0], 4.0), Some(0.5));
    }

    #[test]
    fn a_failed_library_is_a_cell_not_the_end() {
        let text = report().text();
        let line = text.lines().find(|line| line.starts_with("message rate")).unwrap();
        assert!(line.contains("8.00 [8.00..8.00]") && line.ends_with("failed"), "{line}");
        assert!(text.contains("latency 8 B, us               2.0"), "{text}");
    }

    #[test]
    fn json_holds_median_spread_and_ratio() {
        let json = report().json();
        let cell = &json["rows"][0]["libraries"]["banyan"];
        assert_eq!((&cell["median"], &cell["min"], &cell["max"]), (&json!(0.5), &json!(0.4), &json!(0.6)));
        assert_eq!(cell["ratio"], json!(1.25));
        assert_eq!(json["rows"][1]["libraries"]["openmpi"]["failed"], json!(1));
        assert_eq!(json["limit_us"], json!(0.25));
    }
}
