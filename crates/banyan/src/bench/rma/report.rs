//! The tables of `banyan bench rma`: libraries beside each other, Banyan's schedules beside each other, and the goals. As
//! text and as JSON.
use super::super::machine;
use super::super::ratio::Ratio;
use super::super::table::{Line, Side, Table};
use super::super::verdict::Verdict;
use super::plan::{Beside, GOALS, Goal, Schedule, Section};
use serde_json::{Map, Value, json};

/// A section that was measured.
#[derive(Debug)]
pub struct Tabled {
    /// Which one.
    pub section: Section,
    /// Its figures.
    pub table: Table,
}

impl Tabled {
    fn column(&self, key: &str) -> Option<usize> {
        self.table.columns.iter().position(|column| column.key == key)
    }

    /// With operations as the program calls them, where schedules are compared.
    fn issue(&self) -> Option<usize> {
        self.column(Schedule::Issue.key())
    }

    /// Banyan as users have it.
    fn own(&self) -> Option<usize> {
        let first = || self.table.columns.iter().position(|column| column.side == Side::Own);
        self.column(Schedule::Auto.key()).or_else(first)
    }

    fn text(&self, rounds: usize) -> String {
        let Tabled { section, table } = self;
        if table.columns.is_empty() {
            return String::new();
        }
        let mut text =
            format!("\n{}: median of {rounds} interleaved runs [smallest..largest]\n", section.title());
        text += &format!("{}\n{}", table.versions(), table.medians());
        if let Some(issue) = self.issue() {
            text +=
                &format!("\nTimes the cost of operations as they are issued\n\n{}", table.ratios_to(issue));
        }
        if table.columns.iter().any(|column| column.side == Side::Peer) {
            text += &format!("\n{}", table.ratios());
        }
        text
    }

    fn json(&self) -> Value {
        json!({"versions": self.table.versions_json(), "rows": self.table.rows_json()})
    }

    fn ratio(&self, line: &Line, beside: Beside) -> Option<Ratio> {
        let beside = match beside {
            Beside::BestPeer => line.best_peer(&self.table.columns)?,
            Beside::Issue => self.issue()?,
        };
        line.ratio(self.own()?, beside)
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    /// Section by section.
    pub parts: Vec<Tabled>,
    /// What was asked for and could not be measured, with the reason.
    pub skipped: Vec<String>,
    /// Rounds over all libraries.
    pub rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", machine::describe());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        text += &self.parts.iter().map(|part| part.text(self.rounds)).collect::<String>();
        text += &self.skipped.iter().map(|what| format!("\nskipped: {what}\n")).collect::<String>();
        text += "\nGoals, for a quiet machine\n\n";
        text + &self.verdicts().iter().map(Verdict::line).collect::<String>()
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let parts: Map<String, Value> =
            self.parts.iter().map(|part| (part.section.key().to_string(), part.json())).collect();
        json!({
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "sections": parts,
            "skipped": self.skipped,
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }

    /// Of the sections that were measured.
    fn verdicts(&self) -> Vec<Verdict> {
        let of_part = |part| GOALS.iter().filter_map(move |goal| verdict(part, goal));
        self.parts.iter().flat_map(of_part).collect()
    }
}

fn verdict(part: &Tabled, goal: &Goal) -> Option<Verdict> {
    if part.section != goal.section {
        return None;
    }
    let line = part.table.lines.iter().find(|line| line.row.key == goal.key)?;
    let beside = match goal.beside {
        Beside::BestPeer => "the best peer",
        Beside::Issue => "issue",
    };
    Some(Verdict {
        what: format!("{}: {}: cost beside {beside}", part.section.key(), line.row.label),
        value: part.ratio(line, goal.beside).map(|ratio| ratio.median),
        at_most: goal.at_most,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::job::Better;
    use super::super::super::sample::Sample;
    use super::super::super::table::Column;
    use super::*;

    fn part(section: Section, figures: &[(&'static str, Side, f64)]) -> Tabled {
        let column = |&(key, side, _): &(_, _, _)| Column { key, side, version: Ok("1.0".into()) };
        let sample = |value| {
            let mut sample = Sample::default();
            sample.add(Some(value));
            sample
        };
        let rows = section.jobs().into_iter().flat_map(|job| job.rows);
        let line = |row: super::super::super::job::Row| {
            // The same cost whichever way is good.
            let figure = |value: f64| if row.better == Better::Higher { 1.0 / value } else { value };
            let cells = figures.iter().map(|&(_, _, value)| sample(figure(value))).collect();
            Line { row, ranks: 2, cells }
        };
        let lines = rows.map(line).collect();
        Tabled { section, table: Table { columns: figures.iter().map(column).collect(), lines } }
    }

    fn report(parts: Vec<Tabled>) -> Report {
        Report { parts, skipped: Vec::new(), rounds: 1, load_before: 0.0 }
    }

    fn words(report: &Report) -> String {
        report.verdicts().iter().map(|verdict| verdict.word()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_best_peer_decides_on_one_host_and_between_hosts() {
        let figures = [("banyan", Side::Own, 0.95), ("mpich", Side::Peer, 3.0), ("openmpi", Side::Peer, 1.0)];
        let host = report(vec![part(Section::Host, &figures)]);
        assert_eq!(words(&host), "met MISSED MISSED MISSED MISSED MISSED MISSED");
        assert!(host.verdicts().iter().all(|verdict| (verdict.value.unwrap() - 0.95).abs() < 1e-9));
        assert_eq!(words(&report(vec![part(Section::Net, &figures)])), "MISSED MISSED met");
        let alone = report(vec![part(Section::Net, &figures[..1])]);
        assert_eq!(words(&alone), "not measured not measured not measured");
    }

    #[test]
    fn what_banyan_chooses_is_held_against_issue_and_peers() {
        let own = [("issue", Side::Own, 1.0), ("gets-first", Side::Own, 0.1), ("auto", Side::Own, 0.8)];
        let peer = ("mpich", Side::Peer, 2.0);
        let link = report(vec![part(Section::Link, &[own[0], own[1], own[2], peer])]);
        assert_eq!(words(&link), "MISSED MISSED MISSED met met met MISSED MISSED met MISSED");
        let host = report(vec![part(Section::HostSchedules, &[own[0], own[2]])]);
        assert_eq!(words(&host), ["met"; 7].join(" "));
        let text = link.text();
        assert!(text.contains("Times the cost of operations as they are issued"), "{text}");
        assert!(text.contains("Times the cost of the best peer"), "{text}");
        assert!(!host.text().contains("Times the cost of the best peer"), "{}", host.text());
    }

    #[test]
    fn what_is_skipped_is_said_and_has_no_goals() {
        let mut report = report(Vec::new());
        report.skipped.push("net: hosts in network namespaces need root".into());
        assert!(report.text().contains("\nskipped: net: hosts in network namespaces need root\n"));
        assert_eq!((words(&report).as_str(), &report.json()["skipped"][0]), ("", &json!(report.skipped[0])));
    }
}
