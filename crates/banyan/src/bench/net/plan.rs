//! What is measured between hosts: jobs, the rows of the table that each fills, and the goals.
use super::super::job::{Better, EXIT_KEY, Group, Row, row};
use super::options::Options;

/// What the ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The smallest MPI program.
    Hello,
    /// The microbenchmark, in this mode.
    Net(&'static str),
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every library.
    All,
    /// Banyan, against itself.
    Own,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What runs.
    pub program: Program,
    /// Ranks of host n1, n2, ...
    pub ranks_of_host: Vec<usize>,
    /// Who takes part.
    pub scope: Scope,
    /// What it measures, of what was asked for.
    pub rows: Vec<Row>,
}

impl Job {
    /// The jobs that measure what was asked for.
    pub fn plan(options: &Options) -> Vec<Job> {
        let job = |program, ranks_of_host, scope, rows| Job { program, ranks_of_host, scope, rows };
        let mut jobs = vec![job(Program::Net("p2p"), vec![1, 1], Scope::All, p2p_rows())];
        let exits = options.hosts.iter().map(|&hosts| {
            let label = format!("launch to exit, {hosts} hosts, ms");
            let row = row(EXIT_KEY, label, Group::Exit, Better::Lower);
            job(Program::Hello, vec![1; hosts], Scope::All, vec![row])
        });
        jobs.extend(exits);
        let many = vec![1, 2 + options.idle];
        jobs.push(job(Program::Net("idle"), many, Scope::Own, idle_rows(options.idle)));
        jobs.push(job(Program::Net("shared"), vec![2, 1], Scope::Own, shared_rows()));
        jobs.push(job(Program::Net("flood"), vec![1, 1], Scope::Own, flood_rows()));
        for job in &mut jobs {
            job.rows.retain(|row| options.groups.contains(&row.group));
        }
        jobs.retain(|job| !job.rows.is_empty());
        jobs
    }

    /// The one that asks a library what it is.
    pub fn version() -> Job {
        Job {
            program: Program::Net("version"),
            ranks_of_host: vec![1, 1],
            scope: Scope::All,
            rows: Vec::new(),
        }
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> usize {
        self.ranks_of_host.iter().sum()
    }

    /// `n1:2,n2:1`
    pub fn places(&self, between: &str) -> String {
        let place = |(at, ranks): (usize, &usize)| format!("n{}{between}{ranks}", at + 1);
        self.ranks_of_host.iter().enumerate().map(place).collect::<Vec<_>>().join(",")
    }

    /// What the progress line says.
    pub fn describe(&self) -> String {
        let what = match self.program {
            Program::Hello => "launch to exit",
            Program::Net(mode) => mode,
        };
        format!("{what}, {} ranks on {} hosts", self.ranks(), self.ranks_of_host.len())
    }
}

/// "8 B", "64 KiB", "4 MiB".
pub fn size_text(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

const LATENCY_SIZES: [usize; 8] = [8, 512, 4096, 16_384, 65_536, 262_144, 1 << 20, 4 << 20];
const BANDWIDTH_SIZES: [usize; 4] = [4096, 65_536, 1 << 20, 4 << 20];
const RATE_SIZES: [usize; 3] = [8, 512, 4096];

fn p2p_rows() -> Vec<Row> {
    let sized = |what: &str, label: &str, unit: &str, group, better, sizes: &[usize]| {
        let one = |&bytes: &usize| {
            row(&format!("{what}_{bytes}"), format!("{label} {}, {unit}", size_text(bytes)), group, better)
        };
        sizes.iter().map(one).collect::<Vec<_>>()
    };
    let mut rows = vec![row("first", "first round trip 8 B, us".into(), Group::First, Better::Lower)];
    rows.extend(sized("latency", "latency", "us", Group::Latency, Better::Lower, &LATENCY_SIZES));
    rows.extend(sized("bandwidth", "bandwidth", "GB/s", Group::Bandwidth, Better::Higher, &BANDWIDTH_SIZES));
    rows.extend(sized("rate", "message rate", "M/s", Group::Rate, Better::Higher, &RATE_SIZES));
    rows
}

fn idle_rows(idle: usize) -> Vec<Row> {
    let own = |key, label| row(key, label, Group::Idle, Better::Lower);
    vec![
        own("latency_alone", "8 B, 2 connections, us".into()),
        own("latency_idle", format!("8 B, {idle} idle beside 2, us")),
        own("idle_bytes", "memory per idle connection, B".into()),
    ]
}

fn shared_rows() -> Vec<Row> {
    let own = |key, label: &str| row(key, label.into(), Group::Shared, Better::Lower);
    vec![
        own("latency_alone", "8 B, shared memory only, us"),
        own("latency_beside_tcp", "8 B, one TCP open beside, us"),
    ]
}

fn flood_rows() -> Vec<Row> {
    let own = |key, label: &str| row(key, label.into(), Group::Flood, Better::Lower);
    vec![
        own("latency_quiet", "8 B, no flood, us"),
        own("latency_closed", "8 B, closed ports flooded, us"),
        own("latency_flooded", "8 B, own ports flooded, us"),
        own("growth_kib", "memory grown by that, KiB"),
    ]
}

/// What a figure is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The best peer, in the same row. Rates are turned around, so that less is better everywhere.
    BestPeer,
    /// Another figure of Banyan's, of the same group.
    Own(&'static str),
}

/// A ratio that Banyan wants to reach on a quiet machine.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// What is measured.
    pub group: Group,
    /// Its row.
    pub key: &'static str,
    /// What it is divided by.
    pub beside: Beside,
    /// At most.
    pub at_most: f64,
}

const fn goal(group: Group, key: &'static str, beside: Beside, at_most: f64) -> Goal {
    Goal { group, key, beside, at_most }
}

/// All of them.
pub const GOALS: [Goal; 7] = [
    goal(Group::Latency, "latency_8", Beside::BestPeer, 0.9),
    goal(Group::Latency, "latency_65536", Beside::BestPeer, 0.9),
    goal(Group::Bandwidth, "bandwidth_1048576", Beside::BestPeer, 1.0 / 1.1),
    goal(Group::Rate, "rate_8", Beside::BestPeer, 0.2),
    goal(Group::Idle, "latency_idle", Beside::Own("latency_alone"), 1.1),
    goal(Group::Shared, "latency_beside_tcp", Beside::Own("latency_alone"), 1.05),
    // "No slower", with room for what two runs of the same thing differ by.
    goal(Group::Flood, "latency_flooded", Beside::Own("latency_closed"), 1.05),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_holds_only_what_was_asked_for() {
        let options = Options { groups: vec![Group::Rate, Group::Exit], ..Options::default() };
        let jobs: Vec<String> = Job::plan(&options).iter().map(Job::describe).collect();
        assert_eq!(
            jobs,
            [
                "p2p, 2 ranks on 2 hosts",
                "launch to exit, 2 ranks on 2 hosts",
                "launch to exit, 4 ranks on 4 hosts",
                "launch to exit, 16 ranks on 16 hosts",
            ]
        );
        assert_eq!(Job::plan(&options)[0].rows.len(), RATE_SIZES.len());
    }

    #[test]
    fn every_goal_has_its_rows() {
        let rows: Vec<Row> = Job::plan(&Options::default()).into_iter().flat_map(|job| job.rows).collect();
        let there = |group: Group, key: &str| rows.iter().any(|row| row.group == group && row.key == key);
        for goal in GOALS {
            assert!(there(goal.group, goal.key), "{goal:?}");
            if let Beside::Own(key) = goal.beside {
                assert!(there(goal.group, key), "{goal:?}");
            }
        }
    }

    #[test]
    fn places_name_each_host_with_its_ranks() {
        let job = Job { ranks_of_host: vec![1, 502], ..Job::version() };
        assert_eq!((job.places(":").as_str(), job.ranks()), ("n1:1,n2:502", 503));
    }
}
