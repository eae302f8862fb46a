//! The tables: counts beside those of the papers, why they differ, and whether they are what they should be at most. As text
//! and as JSON.
use super::super::machine;
use super::super::sample::{Sample, number};
use super::super::verdict::Verdict;
use super::auto::Auto;
use super::compare::Compare;
use super::counts::Count;
use super::first::First;
use super::pair::Pair;
use super::papers::{self, Judgement, judge};
use super::pattern::Patterns;
use super::plan::Algorithms;
use super::startup::Startup;
use serde_json::{Value, json};

const LABEL_WIDTH: usize = 15;
const SPREAD_WIDTH: usize = 17;
const CELL_WIDTH: usize = 12;
const PAPER_WIDTH: usize = 29;
const HEAD: &str = "\
Connections of a process at one time, itself excluded: average over processes (minimum..maximum). 'remote': those to other
nodes. 'xrc': the same where the processes of a node share them (--xrc on). Averages of handshakes, and of KiB of shared memory
mapped and touched, and touched where connections are shared.
  table 2    of \"Impact of On-Demand Connection Management in MPI over VIA\" (2002): connections
  table 4.2  of \"Scalable Job Startup and Inter-Node Communication in Multi-core InfiniBand Clusters\" (2009): RC beside
             'remote', XRC beside 'xrc' (BT has 6.06 and 4.06, in the arrangement of SP)
Beside a paper's count: ok, or more, and the difference.
";

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of the tables.
    pub counts: Vec<Count>,
    /// Times that everything was counted.
    pub rounds: usize,
    /// Sections that were asked for.
    pub pair: Option<Pair>,
    /// See there.
    pub startup: Option<Startup>,
    /// See there.
    pub first: Option<First>,
    /// Static beside on-demand connections.
    pub compare: Option<Compare>,
    /// Policies beside the one that chooses itself.
    pub auto: Option<Auto>,
    /// Patterns of other jobs.
    pub pattern: Option<Patterns>,
    /// Said if other things ran when it began.
    pub busy: Option<String>,
}

/// A paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    OnDemand,
    Rc,
    Xrc,
}

impl Table {
    fn label(self) -> &'static str {
        match self {
            Table::OnDemand => "table 2",
            Table::Rc => "table 4.2, RC",
            Table::Xrc => "table 4.2, XRC",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Table::OnDemand => "on_demand",
            Table::Rc => "rc",
            Table::Xrc => "xrc",
        }
    }
}

/// A count beside a paper's.
struct Beside {
    table: Table,
    ours: Option<f64>,
    /// The paper's average, by which ours is judged.
    paper: f64,
    /// Its minimum and maximum, if it has them.
    bounds: Option<[f64; 2]>,
}

impl Beside {
    fn judgement(&self) -> Option<Judgement> {
        self.ours.map(|ours| judge(ours, self.paper))
    }

    /// "3.81 (3..5) ok, -0.06".
    fn text(&self) -> String {
        let words = self.judgement().map_or("not measured".into(), Judgement::words);
        let bounds = self.bounds.map_or(String::new(), |[min, max]| format!("({min}..{max}) "));
        format!("{:.2} {bounds}{words}", self.paper)
    }

    fn json(&self) -> Value {
        let word = match self.judgement() {
            None => "not measured",
            Some(Judgement::More(_)) => "more",
            Some(Judgement::Same | Judgement::Fewer(_)) => "ok",
        };
        json!({"paper": self.paper, "bounds": self.bounds, "difference": self.ours.map(|ours| ours - self.paper), "judgement": word})
    }
}

impl Count {
    fn ranks(&self) -> usize {
        self.case.shape.ranks
    }

    fn on_demand(&self) -> Option<Beside> {
        let paper = papers::on_demand(self.case.workload.name, self.ranks())?;
        Some(Beside { table: Table::OnDemand, ours: self.connections.average(), paper, bounds: None })
    }

    fn remote(&self) -> Option<[Beside; 2]> {
        let paper = papers::remote(self.case.workload.name, self.ranks(), self.case.shape.nodes)?;
        let beside = |table, ours, [paper, min, max]: papers::Spread| Beside {
            table,
            ours,
            paper,
            bounds: Some([min, max]),
        };
        let rc = beside(Table::Rc, self.remote.average(), paper.rc);
        Some([rc, beside(Table::Xrc, self.xrc.average(), paper.xrc)])
    }

    /// Everything that a paper says of it.
    fn besides(&self) -> Vec<Beside> {
        self.on_demand().into_iter().chain(self.remote().into_iter().flatten()).collect()
    }

    fn label(&self) -> String {
        let shape = self.case.shape;
        let name = self.case.workload.name;
        if shape.ranks == shape.asked { name.into() } else { format!("{name} ({} ranks)", shape.ranks) }
    }
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let busy = self.busy.as_ref().map_or(String::new(), |warning| format!("{warning}\n"));
        let mut text = format!("{}\n{busy}", machine::describe());
        if !self.counts.is_empty() {
            text += &self.counts_text();
        }
        let sections = [
            self.pair.as_ref().map(|pair| ("Pairs", pair.text(), pair.verdicts())),
            self.startup.as_ref().map(|startup| ("Start-up", startup.text(), startup.verdicts())),
            self.first.as_ref().map(|first| ("First exchange", first.text(), Vec::new())),
            self.compare.as_ref().map(|compare| ("Static and on demand", compare.text(), compare.verdicts())),
            self.auto.as_ref().map(|auto| ("A policy that chooses itself", auto.text(), auto.verdicts())),
            self.pattern.as_ref().map(|pattern| ("Patterns", pattern.text(), pattern.verdicts())),
        ];
        for (title, section, verdicts) in sections.into_iter().flatten() {
            text += &format!("\n{title}\n{section}");
            if !verdicts.is_empty() {
                text += &format!("\nGoals\n\n{}", verdicts.iter().map(Verdict::line).collect::<String>());
            }
        }
        text
    }

    fn counts_text(&self) -> String {
        let mut text = format!("\n{HEAD}");
        // Cases of a table lie together.
        for table in self.counts.chunk_by(same_table) {
            text += &table_text(table);
        }
        text += &self.differences();
        text += "\nGoals: connections of a process, by the published algorithms\n\n";
        text + &self.verdicts().iter().map(Verdict::line).collect::<String>()
    }

    /// Why published algorithms give other counts than in the papers.
    fn differences(&self) -> String {
        let mut text =
            "\nWhere counts by the published algorithms differ, and what ours come from\n".to_string();
        for workload in &kernels::ALL {
            let of_it = |count: &&Count| count.case.workload.name == workload.name;
            let flat =
                self.counts.iter().filter(|count| count.case.algorithms == Algorithms::Flat).filter(of_it);
            let lines: String = flat.flat_map(difference_lines).collect();
            if !lines.is_empty() {
                text += &format!("\n{}: {}\n{lines}", workload.name, papers::reason(workload.name));
            }
        }
        text
    }

    /// What single calls should need at most.
    fn verdicts(&self) -> Vec<Verdict> {
        let flat = self.counts.iter().filter(|count| count.case.algorithms == Algorithms::Flat);
        let calls = flat.filter(|count| count.case.workload.is_call());
        let verdict = |count: &Count| {
            let Beside { ours, paper, .. } = count.on_demand()?;
            let by = count.case.algorithm().unwrap_or_default();
            let what = format!("{} at {} ranks ({by})", count.case.workload.name, count.ranks());
            Some(Verdict { what, value: ours, at_most: paper })
        };
        calls.filter_map(verdict).collect()
    }

    fn all_verdicts(&self) -> Vec<Verdict> {
        let mut all = self.verdicts();
        all.extend(self.pair.iter().flat_map(Pair::verdicts));
        all.extend(self.startup.iter().flat_map(Startup::verdicts));
        all.extend(self.compare.iter().flat_map(Compare::verdicts));
        all.extend(self.auto.iter().flat_map(Auto::verdicts));
        all.extend(self.pattern.iter().flat_map(Patterns::verdicts));
        all
    }

    /// Cells that lack runs.
    pub fn failures(&self) -> Vec<String> {
        let mut all: Vec<String> = self.counts.iter().filter_map(Count::failure).collect();
        all.extend(self.pair.iter().flat_map(Pair::failures));
        all.extend(self.startup.iter().flat_map(Startup::failures));
        all.extend(self.first.iter().flat_map(First::failures));
        all.extend(self.compare.iter().flat_map(Compare::failures));
        all.extend(self.auto.iter().flat_map(Auto::failures));
        all.extend(self.pattern.iter().flat_map(Patterns::failures));
        all
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let count = |count: &Count| {
            let mut row = count.json();
            for beside in count.besides() {
                row["papers"][beside.table.key()] = beside.json();
            }
            row
        };
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "counts": self.counts.iter().map(count).collect::<Vec<_>>(),
            "pair": self.pair.as_ref().map(Pair::json),
            "startup": self.startup.as_ref().map(Startup::json),
            "first": self.first.as_ref().map(First::json),
            "static": self.compare.as_ref().map(Compare::json),
            "auto": self.auto.as_ref().map(Auto::json),
            "pattern": self.pattern.as_ref().map(Patterns::json),
            "goals": self.all_verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }
}

fn same_table(a: &Count, b: &Count) -> bool {
    (a.case.shape.asked, a.case.algorithms) == (b.case.shape.asked, b.case.algorithms)
}

fn table_text(counts: &[Count]) -> String {
    let Some(first) = counts.first() else { return String::new() };
    let (shape, algorithms) = (first.case.shape, first.case.algorithms);
    let nodes = counts
        .iter()
        .find(|count| count.ranks() == shape.asked)
        .map_or(shape.nodes, |count| count.case.shape.nodes);
    let has_xrc = counts.iter().any(|count| count.remote().is_some());
    let papers: &[Table] = if has_xrc { &[Table::Rc, Table::Xrc] } else { &[Table::OnDemand] };
    let mut text = format!("\n{} ranks on {nodes} nodes, {}\n\n", shape.asked, algorithms.words());
    let names = ["connections", "remote", "xrc"].map(String::from);
    let counted = ["handshakes", "KiB mapped", "KiB touched", "xrc"].map(String::from);
    text += &line("", names, counted, papers.iter().map(|table| table.label().to_string()), "by");
    for count in counts {
        let spreads = [&count.connections, &count.remote, &count.xrc].map(|spread| spread.text());
        let cells =
            [&count.handshakes, &count.mapped_kib, &count.touched_kib, &count.xrc_touched_kib].map(cell);
        let beside = |table: &Table| {
            let of_paper = count.besides().into_iter().find(|beside| beside.table == *table);
            of_paper.map_or(String::new(), |beside| beside.text())
        };
        let by = count.case.algorithm().unwrap_or_default();
        text += &line(&count.label(), spreads, cells, papers.iter().map(beside), &by);
    }
    text
}

fn line(
    label: &str,
    spreads: [String; 3],
    cells: [String; 4],
    papers: impl Iterator<Item = String>,
    by: &str,
) -> String {
    let spreads: String = spreads.iter().map(|cell| format!("{cell:<SPREAD_WIDTH$}")).collect();
    let cells: String = cells.iter().map(|cell| format!("{cell:>CELL_WIDTH$}")).collect();
    let papers: String = papers.map(|cell| format!("  {cell:<PAPER_WIDTH$}")).collect();
    format!("{label:<LABEL_WIDTH$}{spreads}{cells}{papers}{by}").trim_end().to_string() + "\n"
}

fn cell(sample: &Sample) -> String {
    sample.median().map_or("failed".into(), number)
}

fn difference_lines(count: &Count) -> Vec<String> {
    let line = |beside: Beside| {
        let Beside { table, ours, paper, .. } = beside;
        let by = match judge(ours?, paper) {
            Judgement::Same => return None,
            Judgement::Fewer(by) => format!("{by:.2} fewer"),
            Judgement::More(by) => format!("{by:.2} more"),
        };
        Some(format!("  {} ranks, {}: {:.2}, not {paper:.2} ({by})\n", count.ranks(), table.label(), ours?))
    };
    count.besides().into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Case, Shape};
    use super::*;

    fn count(name: &str, ranks: usize, nodes: usize, algorithms: Algorithms, connections: f64) -> Count {
        let shape = Shape { asked: ranks, ranks, nodes };
        let mut count = Count::new(Case { workload: kernels::find(name).unwrap(), shape, algorithms });
        let spread = json!({"avg": connections, "min": 1, "max": 9});
        let one = |value: f64| json!({"avg": value});
        count.add(&json!({
            "connections": spread,
            "connections_remote": spread,
            "handshakes": one(4.0),
            "mapped_bytes": one(2048.0),
            "touched_bytes": one(1024.0),
        }));
        count.add_xrc(
            &json!({"connections_remote": {"avg": 1.0, "min": 1, "max": 1}, "touched_bytes": one(512.0)}),
        );
        count
    }

    fn report() -> Report {
        let mut failed = Count::new(count("bcast", 16, 4, Algorithms::Flat, 0.0).case);
        failed.add(&Value::Null);
        failed.add_xrc(&Value::Null);
        let counts = vec![
            count("ring", 16, 4, Algorithms::Flat, 2.0),
            failed,
            count("barrier", 16, 4, Algorithms::Flat, 4.5),
            count("cg", 16, 4, Algorithms::Flat, 4.75),
            count("barrier", 16, 4, Algorithms::Auto, 1.9),
            count("ft", 64, 8, Algorithms::Flat, 56.0),
        ];
        Report { counts, rounds: 1, ..Report::default() }
    }

    fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn a_count_stands_beside_the_papers_and_is_judged() {
        let text = report().text();
        assert_eq!(row(&text, "ring")[8..], ["2.00 ok", "both neighbours"]);
        assert_eq!(row(&text, "barrier")[8..], ["4.00 more, +0.50", "doubling distances"]);
        assert_eq!(row(&text, "cg")[8..], ["4.75 ok"]);
        assert_eq!(row(&text, "ft")[8..], ["55.91 (54..56) more, +0.09", "6.95 (5..7) ok, -5.95"]);
        assert_eq!(row(&text, "bcast")[0..2], ["bcast", "failed"]);
        assert_eq!(report().failures(), ["counts, bcast, 16 ranks, flat (1 of 1)"]);
        assert!(text.contains("64 ranks, table 4.2, RC: 56.00, not 55.91 (0.09 more)"), "{text}");
    }

    #[test]
    fn goals_are_those_of_single_calls_by_published_algorithms() {
        let words: Vec<_> =
            report().verdicts().iter().map(|verdict| (verdict.at_most, verdict.word())).collect();
        assert_eq!(words, [(2.0, "met"), (4.0, "not measured"), (4.0, "MISSED")]);
    }

    #[test]
    fn scripts_get_the_judgement_too() {
        let json = report().json();
        assert_eq!(
            json["counts"][2]["papers"]["on_demand"],
            json!({"paper": 4.0, "bounds": null, "difference": 0.5, "judgement": "more"})
        );
        assert_eq!(json["counts"][3]["connections"]["avg"], json!(4.75));
        assert_eq!(json["counts"][1]["connections"]["avg"], Value::Null);
        assert_eq!(json["counts"][5]["connections_xrc"]["avg"], json!(1.0));
    }
}
