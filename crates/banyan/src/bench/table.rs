//! The table that benchmarks of libraries share: medians with their spread, and each library beside the best peer. As text
//! and as JSON.
use super::job::{Better, Row};
use super::ratio::Ratio;
use super::sample::{Sample, number};
use serde_json::{Map, Value, json};

/// Width of a row's name.
pub const LABEL_WIDTH: usize = 36;
const CELL_WIDTH: usize = 26;
const RATIO_WIDTH: usize = 22;
const RATIOS_HEAD: &str = "\
Times the cost of the best peer (below 1.00: better than every peer). Median of the ratios of rounds with its
95 % confidence interval [from..to]; where fewer than 6 rounds can be compared, with their range (from..to)
";

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
    /// The column of the peer with the best median.
    pub fn best_peer(&self, columns: &[Column]) -> Option<usize> {
        let peers = (0..columns.len()).filter(|&at| columns[at].side == Side::Peer);
        let costs = peers.filter_map(|at| Some((at, cost(self.row.better, self.cells[at].median()?))));
        costs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// How many times the cost of the library in column `best` the one in column `at` has, round by round: below 1 is
    /// better.
    pub fn ratio(&self, at: usize, best: usize) -> Option<Ratio> {
        let costs = |(own, best)| (cost(self.row.better, own), cost(self.row.better, best));
        let pairs = self.cells[at].pairs(&self.cells[best]).map(costs);
        Ratio::of(pairs.filter(|(_, best)| *best > 0.0).map(|(own, best)| own / best).collect())
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

    /// Each library beside the best peer, with a head; lines that no peer has are left out.
    pub fn ratios(&self) -> String {
        let header = self.header(RATIO_WIDTH, "best peer");
        format!("{RATIOS_HEAD}\n{header}{}", self.ratio_lines(|line| line.best_peer(&self.columns)))
    }

    /// Each column beside one of them, without a head.
    pub fn ratios_to(&self, column: usize) -> String {
        self.header(RATIO_WIDTH, "beside") + &self.ratio_lines(|_| Some(column))
    }

    fn ratio_lines(&self, beside: impl Fn(&Line) -> Option<usize>) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let Some(best) = beside(line) else { continue };
            let ratio = |at| line.ratio(at, best).map_or("-".into(), |ratio| ratio.text());
            let cells: String = (0..line.cells.len()).map(|at| pad(&ratio(at), RATIO_WIDTH)).collect();
            text += &format!("{:<LABEL_WIDTH$}{cells}{}\n", line.row.label, self.columns[best].key);
        }
        text
    }

    /// This project beside the best peer.
    pub fn own_ratio(&self, line: &Line) -> Option<Ratio> {
        let own = self.columns.iter().position(|column| column.side == Side::Own)?;
        line.ratio(own, line.best_peer(&self.columns)?)
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
        let cell_json = |(at, column): (usize, &Column)| {
            let ratio = best.and_then(|best| line.ratio(at, best));
            let mut cell_json = line.cells[at].json();
            cell_json["ratio"] = json!(ratio.map(|ratio| ratio.median));
            cell_json["ratio_bounds"] = json!(ratio.map(|ratio| ratio.bounds_json()));
            (column.key.to_string(), cell_json)
        };
        let cells: Map<String, Value> = self.columns.iter().enumerate().map(cell_json).collect();
        json!({
            "key": line.row.key,
            "label": line.row.label,
            "ranks": line.ranks,
            "better": match line.row.better {
                Better::Lower => "lower",
                Better::Higher | Better::Full => "higher",
            },
            "best_peer": best.map(|best| self.columns[best].key),
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
