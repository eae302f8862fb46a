//! The matrix of connections, as a picture, as a list and as JSON. Pure.
//!
//! A rank that was not measured has no row.
use proto::stats::{Means, Met};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// More ranks or nodes than so many are not drawn.
const DRAWN_MAX: usize = 64;
/// More columns than so many are drawn without room between them, so that a row fits a screen.
const SPACED_MAX: usize = 26;

const INDENT: &str = "    ";

/// Who was connected to whom in a job.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// The node of each rank.
    pub nodes: Vec<u32>,
    /// Whom each rank was connected to, in order; nothing if that was not measured.
    pub rows: Vec<Option<Vec<Met>>>,
}

/// Is a list wanted where ranks cannot be drawn any more?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Always: it goes to a file.
    Always,
    /// Only where nodes cannot be drawn either.
    Reluctantly,
}

impl Matrix {
    /// From what ranks have reported: `met` and `measured` by rank. A pair was connected if one of both says so: who sends
    /// its last message and leaves does not wait for the answer that makes the connection ready at its end.
    pub(crate) fn new(nodes: Vec<u32>, met: Vec<Vec<Met>>, measured: impl Fn(usize) -> bool) -> Self {
        let ranks = nodes.len();
        let mut rows: Vec<Vec<Met>> = vec![Vec::new(); ranks];
        for (from, met) in met.into_iter().enumerate().take(ranks) {
            for Met { rank, means } in met.into_iter().filter(|met| (met.rank as usize) < ranks) {
                rows[from].push(Met { rank, means });
                rows[rank as usize].push(Met { rank: from as u32, means });
            }
        }
        let row = |(rank, row)| measured(rank).then(|| merged(row));
        Matrix { rows: rows.into_iter().enumerate().map(row).collect(), nodes }
    }

    /// How `from` was connected to `to`.
    pub fn means(&self, from: usize, to: usize) -> Means {
        let row = self.rows.get(from).and_then(Option::as_ref);
        let met = row.and_then(|row| row.iter().find(|met| met.rank as usize == to));
        met.map_or(Means::default(), |met| met.means)
    }

    /// For people: a picture by rank, or by node where there are many ranks, or a list.
    pub(crate) fn text(&self, listed: Listed) -> String {
        let nodes = self.nodes.iter().max().map_or(0, |last| *last as usize + 1);
        if self.rows.len() <= DRAWN_MAX {
            return self.by_rank();
        }
        let drawn = (2..=DRAWN_MAX).contains(&nodes);
        let mut text = if drawn { self.by_node(nodes) } else { String::new() };
        if listed == Listed::Always || !drawn {
            text += &self.list();
        } else {
            text += "(which ranks: with --stats-file FILE)\n";
        }
        text
    }

    fn by_rank(&self) -> String {
        let cell = |from: usize, to: usize| match &self.rows[from] {
            _ if from == to => '\\',
            None => '?',
            Some(_) => self.means(from, to).letter(),
        };
        let others = self.rows.len().saturating_sub(1);
        let total = |rank: usize| match &self.rows[rank] {
            None => "not measured".into(),
            Some(row) => format!("{} of {others}", row.len()),
        };
        let head = "who was connected to whom (m shared memory, s sockets, b both, . never)\n\n";
        head.to_string() + &grid(&self.nodes, cell, total)
    }

    fn by_node(&self, nodes: usize) -> String {
        let mut pairs = vec![vec![0usize; nodes]; nodes];
        let mut measured = vec![0usize; nodes];
        let mut ranks = vec![0usize; nodes];
        for (rank, row) in self.rows.iter().enumerate() {
            let node = self.nodes[rank] as usize;
            ranks[node] += 1;
            measured[node] += usize::from(row.is_some());
            for met in row.iter().flatten() {
                pairs[node][self.nodes[met.rank as usize] as usize] += 1;
            }
        }
        let mut text = "which share of the pairs of ranks was connected, by node\n\
                        (. none, 0 less than a tenth, 1 to 9 tenths, # all, ? not measured)\n\n"
            .to_string();
        let width = (nodes - 1).to_string().len();
        text += &header(INDENT.len() + "node  ".len() + width, nodes, |_| "");
        for from in 0..nodes {
            let cell = |to: usize| {
                let all = measured[from] * (ranks[to] - usize::from(from == to));
                share(pairs[from][to], all, measured[from])
            };
            let cells: String = (0..nodes).map(|to| format!("{:>1$}", cell(to), column(nodes))).collect();
            let sum: usize = pairs[from].iter().sum();
            let _ = writeln!(text, "{INDENT}node {from:>width$} {cells}   {sum} connections");
        }
        text
    }

    fn list(&self) -> String {
        let mut text = "who was connected to whom (m shared memory, s sockets, b both)\n".to_string();
        for (rank, row) in self.rows.iter().enumerate() {
            let _ = write!(text, "rank {rank} on node {}:", self.nodes[rank]);
            let Some(row) = row else {
                text += " not measured\n";
                continue;
            };
            for means in [Means::SHARED, Means::SOCKETS, Means::SHARED.and(Means::SOCKETS)] {
                let ranks: Vec<u32> =
                    row.iter().filter(|met| met.means == means).map(|met| met.rank).collect();
                if !ranks.is_empty() {
                    let _ = write!(text, " {} {}", means.letter(), ranges(&ranks, usize::MAX));
                }
            }
            text += if row.is_empty() { " nobody\n" } else { "\n" };
        }
        text
    }

    /// One object per rank: its node, and the ranks it was connected to through shared memory and through sockets;
    /// `null` where that was not measured.
    pub(crate) fn json(&self) -> Value {
        let of = |row: &Option<Vec<Met>>, means: Means| {
            let ranks = |row: &Vec<Met>| row.iter().filter(|m| m.means.has(means)).map(|m| m.rank).collect();
            row.as_ref().map(ranks)
        };
        let rank = |(rank, row): (usize, &Option<Vec<Met>>)| {
            let shared: Option<Vec<u32>> = of(row, Means::SHARED);
            let sockets: Option<Vec<u32>> = of(row, Means::SOCKETS);
            json!({ "rank": rank, "node": self.nodes[rank], "shared": shared, "sockets": sockets })
        };
        self.rows.iter().enumerate().map(rank).collect()
    }
}

/// In order of rank, each once.
fn merged(mut row: Vec<Met>) -> Vec<Met> {
    row.sort_unstable_by_key(|met| met.rank);
    row.dedup_by(|later, first| {
        let same = later.rank == first.rank;
        if same {
            first.means = first.means.and(later.means);
        }
        same
    });
    row
}

/// Draws one letter for each pair of ranks, with what is to be said about each rank behind its row. Nodes are set
/// apart where they have several ranks in a row.
pub fn grid(nodes: &[u32], cell: impl Fn(usize, usize) -> char, tail: impl Fn(usize) -> String) -> String {
    let ranks = nodes.len();
    let begins = |rank: usize| rank > 0 && nodes[rank] != nodes[rank - 1];
    let apart = (0..ranks).filter(|rank| begins(*rank)).count() * 2 <= ranks;
    let gap = |rank: usize| match (apart && begins(rank), ranks <= SPACED_MAX) {
        (false, _) => "",
        (true, true) => "  ",
        (true, false) => " ",
    };
    let rank_width = ranks.saturating_sub(1).to_string().len().max(2);
    let node_width = nodes.iter().max().map_or(1, |node| node.to_string().len());
    let label = |rank: usize| format!("node {:>node_width$}, rank {rank:>rank_width$}", nodes[rank]);
    let margin = INDENT.len() + "node , rank  ".len() + node_width + rank_width;
    let mut text = header(margin, ranks, gap);
    for from in 0..ranks {
        if ranks <= SPACED_MAX && !gap(from).is_empty() {
            text += "\n";
        }
        let cells: String =
            (0..ranks).map(|to| format!("{}{:>2$}", gap(to), cell(from, to), column(ranks))).collect();
        let _ = writeln!(text, "{INDENT}{} {cells}   {}", label(from), tail(from));
    }
    text
}

/// How wide a column is.
fn column(columns: usize) -> usize {
    if columns <= SPACED_MAX { 3 } else { 1 }
}

/// The numbers of columns, behind `margin` spaces: in one line, or digit below digit where columns are narrow.
fn header<'a>(margin: usize, columns: usize, gap: impl Fn(usize) -> &'a str) -> String {
    let line = |number: &dyn Fn(usize) -> String| {
        let numbers: String = (0..columns).map(|to| gap(to).to_string() + &number(to)).collect();
        format!("{:margin$}{numbers}\n", "")
    };
    if columns <= SPACED_MAX {
        return line(&|to| format!("{to:>3}"));
    }
    line(&|to| (to / 10).to_string()) + &line(&|to| (to % 10).to_string())
}

fn share(part: usize, all: usize, measured: usize) -> char {
    match part {
        _ if measured == 0 => '?',
        0 => '.',
        part if part >= all => '#',
        part => char::from_digit((part * 10 / all) as u32, 10).unwrap_or('?'),
    }
}

/// `0-3,7`; at most so many pieces.
pub(crate) fn ranges(numbers: &[u32], pieces_max: usize) -> String {
    let mut pieces: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match pieces.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => pieces.push((number, number)),
        }
    }
    let piece = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let shown: Vec<String> = pieces.iter().take(pieces_max).map(piece).collect();
    shown.join(",") + if pieces.len() > pieces_max { ",..." } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(rank: u32, means: Means) -> Met {
        Met { rank, means }
    }

    fn ring(ranks: u32, per_node: u32) -> Matrix {
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / per_node).collect();
        let means =
            |a: u32, b: u32| if a / per_node == b / per_node { Means::SHARED } else { Means::SOCKETS };
        let row = |rank: u32| {
            let [left, right] = [(rank + ranks - 1) % ranks, (rank + 1) % ranks];
            vec![met(right, means(rank, right)), met(left, means(rank, left))]
        };
        Matrix::new(nodes, (0..ranks).map(row).collect(), |rank| rank != 1)
    }

    #[test]
    fn a_few_ranks_are_a_picture() {
        let text = ring(4, 2).text(Listed::Reluctantly);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "                      0  1    2  3",
                "    node 0, rank  0   \\  m    .  s   2 of 3",
                "    node 0, rank  1   ?  \\    ?  ?   not measured",
                "",
                "    node 1, rank  2   .  s    \\  m   2 of 3",
                "    node 1, rank  3   s  .    m  \\   2 of 3",
            ]
        );
    }

    #[test]
    fn sixty_four_ranks_fit_a_screen() {
        let text = ring(64, 16).text(Listed::Reluctantly);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 2 + 64);
        assert!(lines.iter().all(|line| line.len() <= 110), "{text}");
        // The numbers stand above their columns.
        let column = |at: usize| [lines[0].as_bytes()[at], lines[1].as_bytes()[at]];
        let diagonal = lines[2 + 37].find('\\').unwrap();
        assert_eq!(column(diagonal), *b"37");
    }

    #[test]
    fn many_ranks_are_drawn_by_node_and_listed_in_a_file() {
        let matrix = ring(128, 4);
        let text = matrix.text(Listed::Reluctantly);
        assert!(
            text.contains("node  5") && text.contains("--stats-file") && !text.contains("rank 5"),
            "{text}"
        );
        let row = text.lines().find(|line| line.contains("node  5 ")).unwrap();
        // 6 of 12 pairs inside, 1 of 16 to either side.
        assert!(row.contains("....050...") && row.ends_with("8 connections"), "{row}");
        let file = matrix.text(Listed::Always);
        assert!(file.contains("rank 4 on node 1: m 5 s 3\n"), "{file}");
        assert!(file.contains("rank 1 on node 0: not measured\n"), "{file}");
    }

    #[test]
    fn many_ranks_of_one_node_are_a_list() {
        let text = ring(128, 128).text(Listed::Reluctantly);
        assert!(text.contains("rank 0 on node 0: m 1,127\n") && !text.contains("--stats-file"), "{text}");
    }

    #[test]
    fn json_has_lists_and_null_for_what_was_not_measured() {
        let json = ring(4, 2).json();
        assert_eq!(json[0], json!({ "rank": 0, "node": 0, "shared": [1], "sockets": [3] }));
        assert_eq!(json[1], json!({ "rank": 1, "node": 0, "shared": null, "sockets": null }));
    }

    #[test]
    fn who_was_met_in_two_ways_is_met_once() {
        let row = vec![met(1, Means::SHARED), met(1, Means::SOCKETS)];
        let matrix = Matrix::new(vec![0, 0], vec![row, vec![]], |_| true);
        assert_eq!(matrix.means(0, 1).letter(), 'b');
        assert_eq!(matrix.json()[0], json!({ "rank": 0, "node": 0, "shared": [1], "sockets": [1] }));
        assert!(matrix.text(Listed::Always).contains("1 of 1"));
    }

    #[test]
    fn a_pair_was_connected_if_one_of_both_says_so() {
        let met = vec![vec![met(1, Means::SOCKETS)], vec![], vec![]];
        let matrix = Matrix::new(vec![0, 0, 0], met, |rank| rank != 2);
        assert_eq!([matrix.means(0, 1), matrix.means(1, 0)], [Means::SOCKETS; 2]);
        assert_eq!(matrix.rows[2], None);
    }

    #[test]
    fn what_a_rank_reports_of_ranks_that_are_not_there_is_dropped() {
        let matrix = Matrix::new(vec![0, 0], vec![vec![met(7, Means::SHARED)], vec![]], |_| true);
        assert_eq!(matrix.rows, [Some(vec![]), Some(vec![])]);
    }

    #[test]
    fn neighbours_make_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8], 9), "0-2,5,7-8");
        assert_eq!(ranges(&[0, 2, 4], 2), "0,2,...");
        assert_eq!(ranges(&[], 2), "");
    }
}
