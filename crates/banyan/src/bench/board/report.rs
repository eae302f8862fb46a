//! The tables: messages, bytes and time of each cache, what agents keep, and whether the goals are met. As text and as
//! JSON.
use super::super::machine;
use super::super::sample::{Sample, number};
use super::super::verdict::{Verdict, ratio};
use proto::board::BoardKind;
use serde_json::{Value, json};

/// What one deed cost with one cache.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From the first put to the last get.
    pub ms: Sample,
    /// Between agents.
    pub messages: Sample,
    /// Their bytes.
    pub bytes: Sample,
}

/// All caches at one size.
#[derive(Clone, Debug)]
pub struct Row {
    /// Ranks of the job.
    pub ranks: usize,
    /// The cache, with two gets and with all gets.
    pub kinds: Vec<(BoardKind, Measured, Measured)>,
    /// Gets of the own key: two, and as many as ranks.
    pub own_ms: [Sample; 2],
}

/// What agents keep after so many rounds of new keys.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The cache.
    pub kind: BoardKind,
    /// Ranks of the job.
    pub ranks: usize,
    /// Its nodes.
    pub nodes: usize,
    /// Rounds, the root's most entries, the most entries of any other agent.
    pub entries: Vec<(usize, u64, u64)>,
}

/// What gets of a key that nobody puts cost.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// How many there were.
    pub gets: u64,
    /// Nodes of the job.
    pub nodes: usize,
    /// Answers by an agent that knew.
    pub at_once: u64,
    /// Messages between agents.
    pub messages: u64,
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// By size.
    pub rows: Vec<Row>,
    /// By cache.
    pub kept: Vec<Kept>,
    /// With the bounded cache.
    pub absent: Absent,
    /// Times that everything was measured.
    pub rounds: usize,
    /// Ranks on a node.
    pub per_node: usize,
    /// Rounds of new keys.
    pub keys_rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

/// What every rank does.
#[derive(Clone, Copy)]
enum Exchange {
    TwoGets,
    AllGets,
}

impl Exchange {
    const ALL: [Exchange; 2] = [Exchange::TwoGets, Exchange::AllGets];

    fn label(self) -> &'static str {
        match self {
            Exchange::TwoGets => "one put, two gets",
            Exchange::AllGets => "one put, p gets",
        }
    }

    /// The bound on HCMAB beside HCS.
    fn at_most(self) -> f64 {
        match self {
            Exchange::TwoGets => 1.0 / 3.0,
            Exchange::AllGets => 1.0 / 10.0,
        }
    }
}

impl Row {
    fn own(&self, deed: Exchange) -> Option<f64> {
        self.own_ms[deed as usize].median()
    }

    fn measured(&self, kind: BoardKind, deed: Exchange) -> Option<&Measured> {
        let (_, two, all) = self.kinds.iter().find(|(one, ..)| *one == kind)?;
        Some(match deed {
            Exchange::TwoGets => two,
            Exchange::AllGets => all,
        })
    }

    /// Messages, time, and time beyond that of the own key: HCMAB's as multiples of HCS's.
    fn ratios(&self, deed: Exchange) -> [Option<f64>; 3] {
        let median = |kind, of: fn(&Measured) -> &Sample| of(self.measured(kind, deed)?).median();
        let quotient = |of: &dyn Fn(BoardKind) -> Option<f64>| {
            let (hcmab, hcs) = (of(BoardKind::Hcmab)?, of(BoardKind::Hcs)?);
            (hcs > 0.0 && hcmab >= 0.0).then(|| hcmab / hcs)
        };
        let time = |kind| median(kind, |measured| &measured.ms);
        [
            quotient(&|kind| median(kind, |measured| &measured.messages)),
            quotient(&time),
            quotient(&|kind| Some(time(kind)? - self.own(deed)?)),
        ]
    }
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", machine::describe());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        for deed in Exchange::ALL {
            text += &self.table(deed);
        }
        text += &format!(
            "\nOwn key: the same gets, all of the rank's own key. That much of the time is ranks and sockets\non {} cores, with any cache; what is beyond it is the tree's.\n",
            machine::cores()
        );
        text += &self.kept_table();
        text += &self.absent_line();
        text += "\nGoals\n\n";
        text + &self.verdicts().iter().map(Verdict::line).collect::<String>()
    }

    fn table(&self, deed: Exchange) -> String {
        let mut text = format!(
            "\nEvery rank: {}; {} ranks on each node, medians of {}\n\n{:<20}{:>12}{:>14}{:>12}\n",
            deed.label(),
            self.per_node,
            self.rounds,
            "",
            "messages",
            "bytes",
            "ms"
        );
        let whole = |sample: &Sample| sample.median().map_or("-".into(), |value| format!("{value:.0}"));
        for row in &self.rows {
            for (kind, ..) in &row.kinds {
                let Some(Measured { ms, messages, bytes }) = row.measured(*kind, deed) else { continue };
                let label = format!("{} ranks, {}", row.ranks, kind.word());
                let ms = ms.median().map_or("-".into(), number);
                text += &format!("{label:<20}{:>12}{:>14}{ms:>12}\n", whole(messages), whole(bytes));
            }
            let label = format!("{} ranks, own key", row.ranks);
            text += &format!("{label:<20}{:>38}\n", row.own(deed).map_or("-".into(), number));
        }
        text
    }

    fn kept_table(&self) -> String {
        let Some(first) = self.kept.first() else { return String::new() };
        let mut text = format!(
            "\nMost entries that an agent kept at a time, {} ranks on {} nodes, in so many rounds of new keys: root / any other\n\n{:<20}",
            first.ranks, first.nodes, ""
        );
        for (rounds, ..) in &first.entries {
            text += &format!("{:>20}", format!("in {rounds}"));
        }
        text += "\n";
        for kept in &self.kept {
            text += &format!("{:<20}", kept.kind.word());
            for (_, root, other) in &kept.entries {
                text += &format!("{:>20}", format!("{root} / {other}"));
            }
            text += "\n";
        }
        text
    }

    fn absent_line(&self) -> String {
        let Absent { gets, nodes, at_once, messages } = self.absent;
        format!(
            "\n{gets} gets of a key that nobody puts, by ranks on {nodes} nodes, after keys were given up: {at_once} answers\nby agents that knew, {messages} messages between agents\n"
        )
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for deed in Exchange::ALL {
            for row in &self.rows {
                let [messages, time, beyond] = row.ratios(deed);
                let said = |value: Option<f64>| value.map_or("-".into(), ratio);
                let what = format!(
                    "messages, {}, {} ranks: hcmab / hcs (by time {}, beyond own key {})",
                    deed.label(),
                    row.ranks,
                    said(time),
                    said(beyond)
                );
                verdicts.push(Verdict { what, value: messages, at_most: deed.at_most() });
            }
        }
        verdicts.extend(self.flatness());
        verdicts.push(self.absence());
        verdicts
    }

    /// Ten times the rounds, the same entries.
    fn flatness(&self) -> Option<Verdict> {
        let lru = self.kept.iter().find(|kept| kept.kind == BoardKind::HcmabLru)?;
        let [.., (fewer, _, before), (more, _, after)] = lru.entries[..] else { return None };
        let what =
            format!("most entries of any agent but the root, hcmab-lru: {more} rounds / {fewer} rounds");
        Some(Verdict { what, value: (before > 0).then(|| after as f64 / before as f64), at_most: 1.0 })
    }

    /// A node asks once, over at most one link, and is answered once.
    fn absence(&self) -> Verdict {
        let asked_once = 2 * self.absent.nodes.saturating_sub(1) as u64;
        Verdict {
            what: "gets of an absent key: messages / one question and answer per node".into(),
            value: (asked_once > 0).then(|| self.absent.messages as f64 / asked_once as f64),
            at_most: 1.0,
        }
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let measured = |measured: &Measured| {
            json!({
                "messages": measured.messages.median(),
                "bytes": measured.bytes.median(),
                "ms": measured.ms.median(),
                "runs": measured.ms.runs(),
            })
        };
        let rows = self.rows.iter().flat_map(|row| {
            row.kinds.iter().map(move |(kind, two, all)| {
                json!({
                    "ranks": row.ranks,
                    "kind": kind.word(),
                    "two_gets": measured(two),
                    "all_gets": measured(all),
                    "two_own_gets_ms": row.own_ms[0].median(),
                    "all_own_gets_ms": row.own_ms[1].median(),
                })
            })
        });
        let kept = self.kept.iter().map(|kept| {
            let entries = kept.entries.iter().map(|(rounds, root, other)| {
                json!({"rounds": rounds, "root_entries_peak": root, "other_entries_peak": other})
            });
            json!({"kind": kept.kind.word(), "ranks": kept.ranks, "entries": entries.collect::<Vec<_>>()})
        });
        json!({
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "rounds": self.rounds,
            "keys_rounds": self.keys_rounds,
            "ranks_per_node": self.per_node,
            "jobs": rows.collect::<Vec<_>>(),
            "kept": kept.collect::<Vec<_>>(),
            "absent": {
                "gets": self.absent.gets,
                "at_once": self.absent.at_once,
                "messages": self.absent.messages,
            },
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Sample {
        let mut sample = Sample::default();
        sample.add(Some(value));
        sample
    }

    fn measured(messages: f64, ms: f64) -> Measured {
        Measured { ms: sample(ms), messages: sample(messages), bytes: sample(messages * 50.0) }
    }

    fn report() -> Report {
        let kinds = vec![
            (BoardKind::Hcs, measured(524.0, 10.0), measured(8072.0, 90.0)),
            (BoardKind::Hcmab, measured(126.0, 5.0), measured(126.0, 80.0)),
        ];
        let kept =
            |kind, last| Kept { kind, ranks: 64, nodes: 8, entries: vec![(10, 640, 256), (100, 6400, last)] };
        Report {
            rows: vec![Row { ranks: 64, kinds, own_ms: [sample(4.0), sample(70.0)] }],
            kept: vec![kept(BoardKind::HcmabLru, 256)],
            absent: Absent { gets: 640, nodes: 8, at_once: 640, messages: 14 },
            rounds: 1,
            per_node: 8,
            keys_rounds: 100,
            load_before: 0.0,
        }
    }

    #[test]
    fn messages_are_judged_and_time_is_said() {
        let mut report = report();
        let words = |report: &Report| report.verdicts().iter().map(Verdict::word).collect::<Vec<_>>();
        assert_eq!(words(&report), ["met", "met", "met", "met"]);
        assert!(
            report.verdicts()[0].line().contains("by time 0.50, beyond own key 0.17"),
            "{}",
            report.verdicts()[0].line()
        );
        report.rows[0].kinds[1].2 = measured(808.0, 1.0);
        assert_eq!(words(&report), ["met", "MISSED", "met", "met"]);
    }

    #[test]
    fn a_cache_that_grows_is_not_flat() {
        let mut report = report();
        report.kept[0].entries[1].2 = 257;
        assert_eq!(report.flatness().unwrap().word(), "MISSED");
    }

    #[test]
    fn tables_and_json_hold_the_figures() {
        let text = report().text();
        for words in ["524", "8072", "64 ranks, own key", "6400 / 256", "640 answers"] {
            assert!(text.contains(words), "no {words} in\n{text}");
        }
        let json = report().json();
        assert_eq!(json["jobs"][0]["two_gets"]["messages"], json!(524.0));
        assert_eq!(json["kept"][0]["entries"][1]["other_entries_peak"], json!(256));
    }
}
