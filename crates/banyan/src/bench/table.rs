//! The table that benchmarks of libraries share: medians with their spread, and each library beside the best peer. As text
//! and as JSON.
use super::job::{Better, Row};
use super::sample::{Sample, number};
use serde_json::{Map, Value, json};

/// Width of a row's name.
pub const LABEL_WIDTH: usize = 36;
const CELL_WIDTH: usize = 26;
/// Width of a ratio.
pub const RATIO_WIDTH: usize = 14;

/// Whose library it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This project's.
    Own,
    /// Somebody else's.
    Peer,
}

/// A library of the table.
#[derive(Debug)]
pub struct Column {
    /// Its name on the command line.
    pub key: &'static str,
    /// Whose it is.
    pub side: Side,
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

/// Libraries and what was measured with them.
#[derive(Debug)]
pub struct Table {
    /// Libraries.
    pub columns: Vec<Column>,
    /// Quantities.
    pub lines: Vec<Line>,
}

impl Line {
    /// The best median among peers.
    pub fn best_peer(&self, columns: &[Column]) -> Option<(&'static str, f64)> {
        let peers = columns.iter().zip(&self.cells).filter(|(column, _)| column.side == Side::Peer);
        let medians = peers.filter_map(|(column, cell)| Some((column.key, cell.median()?)));
        medians.min_by(|a, b| cost(self.row.better, a.1).total_cmp(&cost(self.row.better, b.1)))
    }

    /// How many times the cost of the best peer a median is: below 1 is better than every peer.
    pub fn ratio(&self, cell: &Sample, best: f64) -> Option<f64> {
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
        // Not 1 / value: most libraries hide next to nothing, and 1 % is not three times as good as 0.3 %. A last percent
        // that may be noise is kept, so that nothing is divided by zero.
        Better::Full => (100.0 - value).max(1.0),
    }
}

impl Table {
    /// One line for each library: its version, or why it could not be run.
    pub fn versions(&self) -> String {
        let said = |column: &Column| match &column.version {
            Ok(version) => version.clone(),
            Err(why) => format!("cannot be run: {}", why.lines().next().unwrap_or_default()),
        };
        self.columns.iter().map(|column| format!("  {:<14}{}\n", column.key, said(column))).collect()
    }

    /// The names of the columns, each so wide.
    pub fn header(&self, width: usize, last: &str) -> String {
        let names: String = self.columns.iter().map(|c| format!("{:<width$}", c.key)).collect();
        format!("{:<LABEL_WIDTH$}{names}{last}", "").trim_end().to_string() + "\n"
    }

    /// Medians and spreads of the lines.
    pub fn medians(&self) -> String {
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

    /// Each library beside the best peer; lines that no peer has are left out.
    pub fn ratios(&self) -> String {
        let mut text = self.header(RATIO_WIDTH, "best peer");
        for line in &self.lines {
            let Some((name, best)) = line.best_peer(&self.columns) else { continue };
            let ratio =
                |cell: &Sample| line.ratio(cell, best).map_or("-".into(), |ratio| format!("{ratio:.2}"));
            let cells: String = line.cells.iter().map(|cell| pad(&ratio(cell), RATIO_WIDTH)).collect();
            text += &format!("{:<LABEL_WIDTH$}{cells}{name}\n", line.row.label);
        }
        text
    }

    /// Versions by library, for scripts.
    pub fn versions_json(&self) -> Value {
        let version = |column: &Column| (column.key.to_string(), json!(column.version.as_ref().ok()));
        Value::Object(self.columns.iter().map(version).collect())
    }

    /// All lines, for scripts.
    pub fn rows_json(&self) -> Vec<Value> {
        self.lines.iter().map(|line| self.line_json(line)).collect()
    }

    /// A line for scripts.
    fn line_json(&self, line: &Line) -> Value {
        let best = line.best_peer(&self.columns);
        let cell_json = |cell: &Sample| {
            let mut cell_json = cell.json();
            cell_json["ratio"] = json!(best.and_then(|(_, best)| line.ratio(cell, best)));
            cell_json
        };
        let cells = self.columns.iter().zip(&line.cells);
        let cells: Map<String, Value> = cells.map(|(c, cell)| (c.key.to_string(), cell_json(cell))).collect();
        json!({
            "key": line.row.key,
            "label": line.row.label,
            "ranks": line.ranks,
            "better": match line.row.better {
                Better::Lower => "lower",
                Better::Higher | Better::Full => "higher",
            },
            "best_peer": best.map(|(name, _)| name),
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

/// Filled up with blanks, one at least.
pub fn pad(text: &str, width: usize) -> String {
    format!("{text:<width$}", width = width.max(text.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_percentage_lacks_is_its_cost() {
        let costs = [0.0, 60.0, 99.5, 100.0].map(|value| cost(Better::Full, value));
        assert_eq!(costs, [100.0, 40.0, 1.0, 1.0]);
    }
}
