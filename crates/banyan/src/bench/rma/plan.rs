//! What is measured of windows: sections, their jobs, the rows of the tables that each job fills, and the goals.
use super::super::job::{Better, Group, Row, row};
use super::super::net::plan::size_text;

const KI: usize = 1024;
const MI: usize = KI * KI;

/// How long a measurement takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// About 0.2 s.
    Full,
    /// As short as the clock allows.
    Quick,
}

/// One table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Libraries on one host.
    Host,
    /// Libraries between two hosts.
    Net,
    /// Banyan's schedules, and peers, between two hosts on a slow link.
    Link,
    /// Banyan's schedules on one host.
    HostSchedules,
}

impl Section {
    /// All, in the order of the report.
    pub const ALL: [Section; 4] = [Section::Host, Section::Net, Section::Link, Section::HostSchedules];

    /// What a user asks for to get it.
    pub fn group(self) -> Group {
        match self {
            Section::Host => Group::Host,
            Section::Net => Group::Net,
            Section::Link | Section::HostSchedules => Group::Schedules,
        }
    }

    /// Its name for scripts and in goals.
    pub fn key(self) -> &'static str {
        match self {
            Section::Host => "host",
            Section::Net => "net",
            Section::Link => "schedules",
            Section::HostSchedules => "schedules on one host",
        }
    }

    /// What stands above its table.
    pub fn title(self) -> &'static str {
        match self {
            Section::Host => "Windows on one host, 2 ranks",
            Section::Net => "Windows between two hosts over TCP",
            Section::Link => "Banyan's schedules between two hosts, 1 Gbit/s each way",
            Section::HostSchedules => "Banyan's schedules on one host, 2 ranks",
        }
    }

    /// Is it about hosts that have to be made?
    pub fn needs_hosts(self) -> bool {
        matches!(self, Section::Net | Section::Link)
    }

    /// Banyan's columns: with these orders of operations.
    pub fn schedules(self) -> &'static [Schedule] {
        match self {
            Section::Host | Section::Net => &[],
            Section::Link => &Schedule::ALL,
            Section::HostSchedules => &[Schedule::Issue, Schedule::Auto],
        }
    }

    /// What runs. A job that fails takes its rows with it, so what libraries do by different code is apart.
    pub fn jobs(self) -> Vec<Job> {
        let job = |scope, rows: &[Measured]| Job {
            scope,
            rows: rows.iter().map(|measured| measured.row(self.group())).collect(),
        };
        match self {
            Section::Host => {
                [&FLUSHED[..], &STREAMS, &ATOMIC, &HOST_EPOCHS].map(|rows| job(Scope::All, rows)).into()
            }
            Section::Net => {
                [&NET_EPOCHS[..], &NET_FLUSHED, &STREAMS, &ATOMIC].map(|rows| job(Scope::All, rows)).into()
            }
            Section::Link => vec![job(Scope::All, &PATTERN_1), job(Scope::Own, &OTHER_PATTERNS)],
            Section::HostSchedules => {
                [&PATTERN_1[..], &OTHER_PATTERNS].map(|rows| job(Scope::Own, rows)).into()
            }
        }
    }
}

/// In which order operations leave (`banyan run --rma`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// As the program calls them.
    Issue,
    /// Puts and gets in turn.
    Interleave,
    /// All gets before all puts.
    GetsFirst,
    /// Small ones together, and with the synchronization that follows.
    Aggregate,
    /// As Banyan chooses.
    Auto,
}

impl Schedule {
    /// All, in table order.
    pub const ALL: [Schedule; 5] =
        [Schedule::Issue, Schedule::Interleave, Schedule::GetsFirst, Schedule::Aggregate, Schedule::Auto];

    /// As the launcher's option has it.
    pub fn key(self) -> &'static str {
        match self {
            Schedule::Issue => "issue",
            Schedule::Interleave => "interleave",
            Schedule::GetsFirst => "gets-first",
            Schedule::Aggregate => "aggregate",
            Schedule::Auto => "auto",
        }
    }
}

/// Who takes part in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every column of the section.
    All,
    /// Banyan's.
    Own,
}

/// One run of the microbenchmark on two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Who takes part.
    pub scope: Scope,
    /// What it measures.
    pub rows: Vec<Row>,
}

impl Job {
    /// What the microbenchmark is asked for.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.key.as_str())
    }

    /// What the progress line says.
    pub fn describe(&self) -> String {
        let count = self.rows.len().saturating_sub(1);
        format!("{} and {count} more", self.keys().next().unwrap_or_default())
    }
}

/// A key of the microbenchmark without its bytes, and what the table says before and behind them.
#[derive(Clone, Copy)]
struct Kind {
    key: &'static str,
    label: (&'static str, &'static str),
    better: Better,
}

const fn kind(key: &'static str, label: (&'static str, &'static str), better: Better) -> Kind {
    Kind { key, label, better }
}

const PUT: Kind = kind("put", ("put + flush ", ", us"), Better::Lower);
const GET: Kind = kind("get", ("get + flush ", ", us"), Better::Lower);
const RATE: Kind = kind("rate", ("put rate ", ", M/s"), Better::Higher);
const BANDWIDTH: Kind = kind("bandwidth", ("put bandwidth ", ", GB/s"), Better::Higher);
const GET_RATE: Kind = kind("get_rate", ("get rate ", ", M/s"), Better::Higher);
const GET_BANDWIDTH: Kind = kind("get_bandwidth", ("get bandwidth ", ", GB/s"), Better::Higher);
const FETCH_RATE: Kind = kind("fetch_rate", ("fetch_and_op rate ", ", M/s"), Better::Higher);
const ACCUMULATE_RATE: Kind = kind("accumulate_rate", ("accumulate rate ", ", M/s"), Better::Higher);
const ACCUMULATE_BANDWIDTH: Kind =
    kind("accumulate_bandwidth", ("accumulate bandwidth ", ", GB/s"), Better::Higher);
const LOCK: Kind = kind("lock", ("lock + put ", " + unlock, us"), Better::Lower);
const FETCH: Kind = kind("fetch", ("fetch_and_op + flush ", ", us"), Better::Lower);
const SWAP: Kind = kind("swap", ("compare_and_swap + flush ", ", us"), Better::Lower);
const ACCUMULATE: Kind = kind("accumulate", ("accumulate + flush ", ", us"), Better::Lower);
const FENCE: Kind = kind("fence", ("fence", ", us"), Better::Lower);
const EPOCH_PUT: Kind = kind("epoch_put", ("put epoch ", ", ping-pong, us"), Better::Lower);
const EPOCH_GET: Kind = kind("epoch_get", ("get epoch ", ", ping-pong, us"), Better::Lower);
const PATTERN1: Kind = kind("pattern1", ("pattern 1, 16 + 16 x ", ", GB/s"), Better::Higher);
const PATTERN2: Kind = kind("pattern2", ("pattern 2, 1 + 1 x ", ", us"), Better::Lower);

/// A kind, at so many bytes; 0 where there are none.
struct Measured(Kind, usize);

impl Measured {
    fn row(&self, group: Group) -> Row {
        let Measured(kind, bytes) = self;
        let (before, behind) = kind.label;
        let size = if *bytes > 0 { size_text(*bytes) } else { String::new() };
        let label = format!("{before}{size}{behind}");
        row(&format!("{}_{bytes}", kind.key), label, group, kind.better)
    }
}

const FLUSHED: [Measured; 9] = [
    Measured(PUT, 8),
    Measured(GET, 8),
    Measured(PUT, 4 * KI),
    Measured(GET, 4 * KI),
    Measured(PUT, 64 * KI),
    Measured(GET, 64 * KI),
    Measured(PUT, MI),
    Measured(GET, MI),
    Measured(LOCK, 8),
];
const ATOMIC: [Measured; 6] = [
    Measured(FETCH, 8),
    Measured(SWAP, 8),
    Measured(ACCUMULATE, KI),
    Measured(FETCH_RATE, 8),
    Measured(ACCUMULATE_RATE, 8),
    Measured(ACCUMULATE_BANDWIDTH, 64 * KI),
];
/// Of many operations that one flush ends.
const STREAMS: [Measured; 4] = [
    Measured(RATE, 8),
    Measured(GET_RATE, 8),
    Measured(BANDWIDTH, 64 * KI),
    Measured(GET_BANDWIDTH, 64 * KI),
];
const HOST_EPOCHS: [Measured; 5] = [
    Measured(EPOCH_PUT, 8),
    Measured(EPOCH_GET, 8),
    Measured(PATTERN1, 64 * KI),
    Measured(PATTERN2, 64 * KI),
    Measured(FENCE, 0),
];
const NET_EPOCHS: [Measured; 2] = [Measured(EPOCH_PUT, 8), Measured(EPOCH_GET, 8)];
const NET_FLUSHED: [Measured; 2] = [Measured(PUT, 8), Measured(GET, 8)];
const PATTERN_1: [Measured; 3] =
    [Measured(PATTERN1, 64 * KI), Measured(PATTERN1, 256 * KI), Measured(PATTERN1, MI)];
const OTHER_PATTERNS: [Measured; 4] =
    [Measured(PATTERN2, 64 * KI), Measured(PATTERN2, MI), Measured(EPOCH_PUT, 8), Measured(EPOCH_GET, 8)];

/// What Banyan's figure is divided by: the one of the best schedule it has, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The best peer, in the same row. Rates are turned around, so that less is better everywhere.
    BestPeer,
    /// Banyan's own, with operations as the program calls them.
    Issue,
}

/// A ratio that Banyan wants to reach on a quiet machine.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// The table.
    pub section: Section,
    /// The row.
    pub key: &'static str,
    /// What it is divided by.
    pub beside: Beside,
    /// At most.
    pub at_most: f64,
}

const fn goal(section: Section, key: &'static str, beside: Beside, at_most: f64) -> Goal {
    Goal { section, key, beside, at_most }
}

/// All of them. What is to be larger is the inverse.
pub const GOALS: [Goal; 27] = [
    goal(Section::Host, "put_8", Beside::BestPeer, 1.0),
    goal(Section::Host, "epoch_put_8", Beside::BestPeer, 0.9),
    goal(Section::Host, "epoch_get_8", Beside::BestPeer, 0.9),
    goal(Section::Host, "fetch_8", Beside::BestPeer, 0.9),
    goal(Section::Host, "swap_8", Beside::BestPeer, 0.9),
    goal(Section::Host, "accumulate_1024", Beside::BestPeer, 0.9),
    goal(Section::Host, "pattern1_65536", Beside::BestPeer, 1.0 / 1.1),
    goal(Section::Net, "put_8", Beside::BestPeer, 0.9),
    goal(Section::Net, "get_8", Beside::BestPeer, 0.9),
    goal(Section::Net, "bandwidth_65536", Beside::BestPeer, 1.0),
    goal(Section::Link, "pattern1_65536", Beside::Issue, 1.0 / 1.7),
    goal(Section::Link, "pattern1_262144", Beside::Issue, 1.0 / 1.7),
    goal(Section::Link, "pattern1_1048576", Beside::Issue, 1.0 / 1.7),
    goal(Section::Link, "pattern1_65536", Beside::BestPeer, 1.0 / 1.4),
    goal(Section::Link, "pattern1_262144", Beside::BestPeer, 1.0 / 1.4),
    goal(Section::Link, "pattern1_1048576", Beside::BestPeer, 1.0 / 1.4),
    goal(Section::Link, "pattern2_65536", Beside::Issue, 0.7),
    goal(Section::Link, "pattern2_1048576", Beside::Issue, 0.7),
    goal(Section::Link, "epoch_put_8", Beside::Issue, 0.9),
    goal(Section::Link, "epoch_get_8", Beside::Issue, 0.7),
    // Where nothing leaves the host there is nothing to gain: what deciding costs must not show.
    goal(Section::HostSchedules, "pattern1_65536", Beside::Issue, 1.05),
    goal(Section::HostSchedules, "pattern1_262144", Beside::Issue, 1.05),
    goal(Section::HostSchedules, "pattern1_1048576", Beside::Issue, 1.05),
    goal(Section::HostSchedules, "pattern2_65536", Beside::Issue, 1.05),
    goal(Section::HostSchedules, "pattern2_1048576", Beside::Issue, 1.05),
    goal(Section::HostSchedules, "epoch_put_8", Beside::Issue, 1.05),
    goal(Section::HostSchedules, "epoch_get_8", Beside::Issue, 1.05),
];

#[cfg(test)]
mod tests {
    use super::super::super::table::LABEL_WIDTH;
    use super::*;

    #[test]
    fn every_goal_has_its_row() {
        for goal in GOALS {
            let jobs = goal.section.jobs();
            let job = jobs.iter().find(|job| job.keys().any(|key| key == goal.key));
            let job = job.unwrap_or_else(|| panic!("{goal:?}"));
            assert!(goal.beside == Beside::Issue || job.scope == Scope::All, "{goal:?}");
        }
    }

    #[test]
    fn every_label_leaves_a_blank_before_its_first_cell() {
        for job in Section::ALL.into_iter().flat_map(Section::jobs) {
            for row in job.rows {
                assert!(row.label.len() < LABEL_WIDTH, "{}", row.label);
            }
        }
    }

    #[test]
    fn keys_are_those_of_the_microbenchmark() {
        let source = include_str!("../../../bench/rma.c");
        for job in Section::ALL.into_iter().flat_map(Section::jobs) {
            for key in job.keys() {
                let (kind, bytes) = key.rsplit_once('_').unwrap();
                assert!(
                    source.contains(&format!("{{\"{kind}\", ")) && bytes.parse::<usize>().is_ok(),
                    "{key}"
                );
            }
        }
    }

    #[test]
    fn rows_say_what_they_are() {
        let labels: Vec<String> =
            Section::Net.jobs().into_iter().flat_map(|job| job.rows).map(|row| row.label).collect();
        assert_eq!(
            labels,
            [
                "put epoch 8 B, ping-pong, us",
                "get epoch 8 B, ping-pong, us",
                "put + flush 8 B, us",
                "get + flush 8 B, us",
                "put rate 8 B, M/s",
                "get rate 8 B, M/s",
                "put bandwidth 64 KiB, GB/s",
                "get bandwidth 64 KiB, GB/s",
                "fetch_and_op + flush 8 B, us",
                "compare_and_swap + flush 8 B, us",
                "accumulate + flush 1 KiB, us",
                "fetch_and_op rate 8 B, M/s",
                "accumulate rate 8 B, M/s",
                "accumulate bandwidth 64 KiB, GB/s",
            ]
        );
    }
}
