//! The tables: what limits cost beside none, how long first contacts take, and whether the goals are met. As text and as
//! JSON.
use super::super::machine;
use super::super::sample::{Sample, number};
use super::super::verdict::{Verdict, ratio};
use super::plan::{Contact, Faults, Limit};
use serde_json::{Value, json};

/// Neighbours of a rank in the exchange with neighbours.
const NEIGHBOURS: usize = 4;
/// How much slower that exchange may be within a budget that is large enough: what runs of the same thing differ by.
const HALO_AT_MOST: f64 = 1.1;
/// The 99th percentile of first contacts beside their median, with faults.
const CONTACT_AT_MOST: f64 = 10.0;
const LABEL_WIDTH: usize = 22;
const CELL_WIDTH: usize = 12;

/// What a limit costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The limit.
    pub limit: Limit,
    /// One alltoall.
    pub alltoall_ms: Sample,
    /// One exchange with the neighbours.
    pub halo_us: Sample,
    /// Most at a time, of a process: the mean over processes.
    pub connections: Sample,
    /// The most of any process.
    pub connections_max: Sample,
    /// Of a process.
    pub reopenings: Sample,
    /// Of a process.
    pub evictions: Sample,
    /// Of a process.
    pub touched_kib: Sample,
}

/// A column of the table of costs: its name for people and for scripts, and what is in it.
type Column = (&'static str, &'static str, fn(&Cost) -> &Sample);

/// What was counted, behind the times.
const COUNTED: [Column; 5] = [
    ("connections", "connections", |cost| &cost.connections),
    ("at most", "connections_max", |cost| &cost.connections_max),
    ("reopenings", "reopenings", |cost| &cost.reopenings),
    ("evictions", "evictions", |cost| &cost.evictions),
    ("KiB touched", "touched_kib", |cost| &cost.touched_kib),
];

/// How long first contacts take.
#[derive(Clone, Debug)]
pub struct ContactTimes {
    /// In which order, under which faults.
    pub contact: Contact,
    /// Until the connection was ready: the median and the 99th percentile of a run.
    pub ready_us: [Sample; 2],
    /// Of a first round trip: the same.
    pub first_us: [Sample; 2],
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// By limit; the first is none.
    pub costs: Vec<Cost>,
    /// By order and faults.
    pub contacts: Vec<ContactTimes>,
    /// Ranks of a job.
    pub ranks: usize,
    /// Its nodes.
    pub nodes: usize,
    /// Times that everything was measured.
    pub rounds: usize,
    /// The load average of the last minute when it began.
    pub load_before: f64,
}

impl Cost {
    /// Nothing measured yet.
    pub fn new(limit: Limit) -> Self {
        let none = Sample::default;
        Cost {
            limit,
            alltoall_ms: none(),
            halo_us: none(),
            connections: none(),
            connections_max: none(),
            reopenings: none(),
            evictions: none(),
            touched_kib: none(),
        }
    }
}

impl ContactTimes {
    /// Nothing measured yet.
    pub fn new(contact: Contact) -> Self {
        ContactTimes { contact, ready_us: Default::default(), first_us: Default::default() }
    }
}

impl Report {
    /// The tables for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", machine::describe());
        if let Some(warning) = machine::busy_warning(self.load_before) {
            text += &format!("\n{warning}\n");
        }
        let Report { ranks, nodes, rounds, .. } = self;
        text += &format!("\n{ranks} ranks on {nodes} nodes, medians of {rounds} interleaved runs\n");
        text += &self.costs_table();
        text += &self.contacts_table();
        text += "\nGoals, for a quiet machine\n\n";
        text + &self.verdicts().iter().map(Verdict::line).collect::<String>()
    }

    fn costs_table(&self) -> String {
        let Some(none) = self.costs.first() else { return String::new() };
        let names = ["alltoall, ms", "to none", "halo, us", "to none"].into_iter();
        let mut text =
            "\nWhat a limit costs; what is counted is of a process, in the alltoalls\n\n".to_string();
        text += &line("", names.chain(COUNTED.iter().map(|(name, ..)| *name)).map(String::from));
        for cost in &self.costs {
            let times = [(&cost.alltoall_ms, &none.alltoall_ms), (&cost.halo_us, &none.halo_us)];
            let times = times.into_iter().flat_map(|(this, none)| [median(this), ratio_text(this, none)]);
            let counted = COUNTED.iter().map(|(.., of)| median(of(cost)));
            text += &line(&cost.limit.label(), times.chain(counted));
        }
        text
    }

    fn contacts_table(&self) -> String {
        if self.contacts.is_empty() {
            return String::new();
        }
        let mut text =
            "\nFirst contacts, us: until the connection is ready, and the first round trip\n\n".to_string();
        text +=
            &line("", ["ready", "99 in 100", "ratio", "round trip", "99 in 100", "ratio"].map(String::from));
        for ContactTimes { contact, ready_us, first_us } in &self.contacts {
            let cells = [ready_us, first_us]
                .into_iter()
                .flat_map(|[middle, most]| [median(middle), median(most), ratio_text(most, middle)]);
            text += &line(contact.label(), cells);
        }
        text
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        json!({
            "ranks": self.ranks,
            "nodes": self.nodes,
            "rounds": self.rounds,
            "processor": crate::info::processor(),
            "cores": machine::cores(),
            "load_before": self.load_before,
            "costs": self.costs.iter().map(|cost| self.cost_json(cost)).collect::<Vec<_>>(),
            "contacts": self.contacts.iter().map(contact_json).collect::<Vec<_>>(),
            "goals": self.verdicts().iter().map(Verdict::json).collect::<Vec<_>>(),
        })
    }

    fn cost_json(&self, cost: &Cost) -> Value {
        let none = &self.costs[0];
        let mut row = json!({
            "limit": cost.limit.label(),
            "alltoall_ms": cost.alltoall_ms.json(),
            "alltoall_ratio": cost.alltoall_ms.over(&none.alltoall_ms),
            "halo_us": cost.halo_us.json(),
            "halo_ratio": cost.halo_us.over(&none.halo_us),
        });
        for (_, key, of) in COUNTED {
            row[key] = of(cost).json();
        }
        row
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let fits = |cost: &&Cost| matches!(cost.limit, Limit::Budget(most) if most >= NEIGHBOURS);
        let halo = self.costs.iter().filter(fits).map(|cost| Verdict {
            what: format!("exchange with {NEIGHBOURS} neighbours, {} / no limit", cost.limit.label()),
            value: cost.halo_us.over(&self.costs[0].halo_us),
            at_most: HALO_AT_MOST,
        });
        let faulty = |times: &&ContactTimes| times.contact.faults == Faults::Injected;
        let contacts = self.contacts.iter().filter(faulty).map(|times| Verdict {
            what: format!("first contacts {}: 99th percentile / median", times.contact.label()),
            value: times.ready_us[1].over(&times.ready_us[0]),
            at_most: CONTACT_AT_MOST,
        });
        halo.chain(contacts).collect()
    }
}

fn contact_json(times: &ContactTimes) -> Value {
    let ContactTimes { contact, ready_us, first_us } = times;
    let both = |[middle, most]: &[Sample; 2]| json!({"median": middle.json(), "percentile_99": most.json(), "ratio": most.over(middle)});
    json!({"contacts": contact.label(), "ready_us": both(ready_us), "round_trip_us": both(first_us)})
}

fn line(label: &str, cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!(" {cell:>CELL_WIDTH$}")).collect();
    format!("{label:<LABEL_WIDTH$}{cells}\n")
}

fn median(sample: &Sample) -> String {
    let none = || if sample.failed() > 0 { "failed".into() } else { "-".into() };
    sample.median().map_or_else(none, number)
}

fn ratio_text(this: &Sample, that: &Sample) -> String {
    this.over(that).map_or("-".into(), ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Sample {
        let mut sample = Sample::default();
        sample.add(Some(value));
        sample
    }

    fn report() -> Report {
        let cost = |limit, alltoall: f64, halo: f64| Cost {
            alltoall_ms: sample(alltoall),
            halo_us: sample(halo),
            ..Cost::new(limit)
        };
        let mut broken = Cost::new(Limit::Device(16));
        broken.alltoall_ms.add(None);
        let times =
            |contact| ContactTimes { ready_us: [sample(10.0), sample(101.0)], ..ContactTimes::new(contact) };
        Report {
            costs: vec![
                cost(Limit::None, 20.0, 50.0),
                cost(Limit::Budget(4), 60.0, 55.0),
                cost(Limit::Budget(2), 80.0, 500.0),
                broken,
            ],
            contacts: Contact::ALL.map(times).to_vec(),
            ranks: 64,
            nodes: 8,
            rounds: 1,
            load_before: 0.0,
        }
    }

    #[test]
    fn only_budgets_with_room_for_the_neighbours_have_a_goal() {
        let words: Vec<(Option<f64>, &str)> =
            report().verdicts().iter().map(|verdict| (verdict.value, verdict.word())).collect();
        assert_eq!(words, [(Some(1.1), "met"), (Some(10.1), "MISSED"), (Some(10.1), "MISSED")]);
    }

    #[test]
    fn a_limit_that_failed_is_a_cell_and_not_the_end() {
        let text = report().text();
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace();
        assert_eq!(row("device 16").collect::<Vec<_>>()[2..4], ["failed", "-"]);
        assert_eq!(row("budget 4").collect::<Vec<_>>()[2..6], ["60.0", "3.00", "55.0", "1.10"]);
        let json = report().json();
        assert_eq!(json["costs"][2]["alltoall_ratio"], json!(4.0));
        assert_eq!(json["costs"][3]["alltoall_ms"]["failed"], json!(1));
    }
}
