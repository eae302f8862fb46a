//! What is measured: jobs of the microbenchmark, and the rows of the table that each one fills.

/// What a user may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Ping-pong at four sizes.
    Latency,
    /// Windows of large messages.
    Bandwidth,
    /// Windows of small messages.
    Rate,
    /// Ping-pong of derived datatypes.
    Strided,
    /// How much of a transfer hides behind computing.
    Overlap,
    /// Small messages of several threads at once.
    Threads,
    /// Allreduce of 8 bytes.
    Allreduce,
    /// Other collectives, small and large.
    Coll,
    /// Init and the first barrier.
    Init,
    /// From the launcher's start to its end.
    Exit,
    /// Proportional set size.
    Memory,
    /// Packing of derived datatypes.
    Pack,
    /// Collectives of many ranks on few cores, and messages beside idle connections.
    Many,
    /// The first message to a new peer.
    First,
    /// A rank with many connections of which two are busy.
    Idle,
    /// Shared memory beside an open TCP connection.
    Shared,
    /// A stranger's flood.
    Flood,
    /// Spawned processes.
    Spawn,
    /// Two jobs that meet at a port.
    Meet,
    /// Windows on one host.
    Host,
    /// Windows between hosts.
    Net,
    /// Orders in which operations on windows leave.
    Schedules,
}

impl Group {
    /// Those that `bench peers` may be asked for, in table order.
    pub const PEERS_ASKED: &'static [Group] = &[
        Group::Latency,
        Group::Bandwidth,
        Group::Rate,
        Group::Strided,
        Group::Overlap,
        Group::Threads,
        Group::Allreduce,
        Group::Coll,
        Group::Init,
        Group::Exit,
        Group::Memory,
        Group::Pack,
        Group::Many,
    ];

    /// What it measures if nobody asks: for the last one most libraries take minutes.
    pub const PEERS: &'static [Group] = Group::PEERS_ASKED.split_at(Group::PEERS_ASKED.len() - 1).0;

    /// Those of `bench net`, in table order.
    pub const NET: &'static [Group] = &[
        Group::First,
        Group::Latency,
        Group::Bandwidth,
        Group::Rate,
        Group::Exit,
        Group::Idle,
        Group::Shared,
        Group::Flood,
    ];

    /// Those of `bench dynamic`, in table order.
    pub const DYNAMIC: &'static [Group] = &[Group::Spawn, Group::Meet];

    /// Those of `bench rma`, in the order of its tables.
    pub const RMA: &'static [Group] = &[Group::Host, Group::Net, Group::Schedules];

    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Group::Latency => "latency",
            Group::Bandwidth => "bandwidth",
            Group::Rate => "rate",
            Group::Strided => "strided",
            Group::Overlap => "overlap",
            Group::Threads => "threads",
            Group::Allreduce => "allreduce",
            Group::Coll => "coll",
            Group::Init => "init",
            Group::Exit => "exit",
            Group::Memory => "memory",
            Group::Pack => "pack",
            Group::Many => "many",
            Group::First => "first",
            Group::Idle => "idle",
            Group::Shared => "shared",
            Group::Flood => "flood",
            Group::Spawn => "spawn",
            Group::Meet => "meet",
            Group::Host => "host",
            Group::Net => "net",
            Group::Schedules => "schedules",
        }
    }
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times and sizes.
    Lower,
    /// Rates.
    Higher,
    /// Percentages of something good; what is missing to 100 is the cost.
    Full,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the microbenchmark (or the runner) calls it.
    pub key: String,
    /// What the table calls it, with its unit.
    pub label: String,
    /// Part of this group.
    pub group: Group,
    /// Which way is good.
    pub better: Better,
}

/// One way to start the microbenchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its argument.
    pub mode: &'static str,
    /// Ranks.
    pub ranks: usize,
    /// What it measures, of what was asked for.
    pub rows: Vec<Row>,
}

impl Job {
    /// The jobs that measure `groups`.
    pub fn plan(groups: &[Group]) -> Vec<Job> {
        let mut jobs = vec![Job { mode: "p2p", ranks: 2, rows: p2p_rows() }];
        jobs.push(Job { mode: "strided", ranks: 2, rows: strided_rows() });
        jobs.push(Job { mode: "overlap", ranks: 2, rows: overlap_rows() });
        jobs.push(Job { mode: "threads", ranks: 2, rows: threads_rows() });
        jobs.extend([2, 8, 32].map(|ranks| Job { mode: "allreduce", ranks, rows: allreduce_rows(ranks) }));
        jobs.extend([2, 8].map(|ranks| Job { mode: "coll", ranks, rows: coll_rows(ranks, COLL) }));
        jobs.extend([2, 8].map(|ranks| Job { mode: "blocks", ranks, rows: coll_rows(ranks, BLOCKS) }));
        jobs.push(Job { mode: "alltoall", ranks: 32, rows: coll_rows(32, ALLTOALL) });
        jobs.extend([2, 16, 64].map(|ranks| Job { mode: "init", ranks, rows: init_rows(ranks) }));
        jobs.extend([16, 64].map(|ranks| Job { mode: "memory", ranks, rows: memory_rows(ranks) }));
        jobs.push(Job { mode: "pack", ranks: 1, rows: pack_rows() });
        jobs.push(Job { mode: "many", ranks: MANY_RANKS, rows: many_rows() });
        jobs.extend(CROWDS.map(|ranks| Job { mode: "crowd", ranks, rows: crowd_rows(ranks) }));
        for job in &mut jobs {
            job.rows.retain(|row| groups.contains(&row.group));
        }
        jobs.retain(|job| !job.rows.is_empty());
        jobs
    }

    /// What the progress line says.
    pub fn describe(&self) -> String {
        format!("{} at {} rank{}", self.mode, self.ranks, if self.ranks == 1 { "" } else { "s" })
    }
}

/// Collectives of the mode `coll`: key, and name in the table.
const COLL: &[(&str, &str)] = &[
    ("bcast_8", "bcast 8 B"),
    ("bcast_1048576", "bcast 1 MiB"),
    ("allreduce_1048576", "allreduce 1 MiB"),
    ("reduce_1048576", "reduce 1 MiB"),
    ("alltoall_65536", "alltoall 64 KiB"),
];
/// That of the mode `alltoall`.
const ALLTOALL: &[(&str, &str)] = &[("alltoall_1024", "alltoall 1 KiB")];
/// Collectives of the mode `blocks`.
const BLOCKS: &[(&str, &str)] = &[
    ("allgather_8", "allgather 8 B"),
    ("allgather_65536", "allgather 64 KiB"),
    ("reduce_scatter_8", "reduce-scatter 8 B"),
    ("reduce_scatter_65536", "reduce-scatter 64 KiB"),
];

/// Ranks of the mode `many`, and its collectives.
const MANY_RANKS: usize = 64;
const MANY: &[(&str, &str)] = &[
    ("many_allreduce_8", "allreduce 8 B"),
    ("many_allreduce_1048576", "allreduce 1 MiB"),
    ("many_bcast_8", "bcast 8 B"),
    ("many_bcast_turns_8", "bcast 8 B in turn"),
    ("many_bcast_1048576", "bcast 1 MiB"),
    ("many_alltoall_1024", "alltoall 1 KiB"),
];
/// Ranks of the mode `crowd`: a node full of them, and a hundred that are idle.
const CROWDS: [usize; 2] = [64, 102];

/// The key of the runner's own measurement.
pub const EXIT_KEY: &str = "exit_ms";

/// A row of the table.
pub fn row(key: &str, label: String, group: Group, better: Better) -> Row {
    Row { key: key.to_string(), label, group, better }
}

fn p2p_rows() -> Vec<Row> {
    let sizes = [
        ("latency_8", "8 B"),
        ("latency_4096", "4 KiB"),
        ("latency_65536", "64 KiB"),
        ("latency_1048576", "1 MiB"),
    ];
    let mut rows: Vec<Row> = sizes
        .iter()
        .map(|(key, size)| row(key, format!("latency {size}, us"), Group::Latency, Better::Lower))
        .collect();
    for (key, size) in [("bandwidth", "1 MiB"), ("bandwidth_4194304", "4 MiB")] {
        rows.push(row(key, format!("bandwidth {size}, GB/s"), Group::Bandwidth, Better::Higher));
    }
    rows.push(row("rate", "message rate 8 B, M/s".into(), Group::Rate, Better::Higher));
    rows
}

fn strided_rows() -> Vec<Row> {
    let blocks = [("strided_8", "8 B"), ("strided_64", "64 B")];
    let row = |(key, block): (&str, &str)| {
        row(key, format!("strided 64 KiB, {block} each, us"), Group::Strided, Better::Lower)
    };
    blocks.map(row).into()
}

fn overlap_rows() -> Vec<Row> {
    let row = |key, label: &str, better| row(key, label.into(), Group::Overlap, better);
    vec![
        row("overlap", "overlap 1 MiB, %", Better::Full),
        row("overlap_test", "overlap 1 MiB, with tests, %", Better::Full),
        row("exposed", "1 MiB costs who computes, us", Better::Lower),
        row("exposed_test", "1 MiB costs who tests, us", Better::Lower),
    ]
}

fn threads_rows() -> Vec<Row> {
    let row = |key, what: &str, better| row(key, format!("2 threads: {what}"), Group::Threads, better);
    vec![
        row("threads_latency", "latency 8 B, us", Better::Lower),
        row("threads_rate", "rate 8 B, M/s", Better::Higher),
    ]
}

fn allreduce_rows(ranks: usize) -> Vec<Row> {
    vec![row("allreduce", format!("allreduce 8 B, {ranks} ranks, us"), Group::Allreduce, Better::Lower)]
}

fn coll_rows(ranks: usize, calls: &[(&str, &str)]) -> Vec<Row> {
    let row = |(key, what): &(&str, &str)| {
        row(key, format!("{what}, {ranks} ranks, us"), Group::Coll, Better::Lower)
    };
    calls.iter().map(row).collect()
}

fn many_rows() -> Vec<Row> {
    let row = |(key, what): &(&str, &str)| {
        row(key, format!("{what}, {MANY_RANKS} ranks, us"), Group::Many, Better::Lower)
    };
    MANY.iter().map(row).collect()
}

/// What two ranks measure, beside so many idle ones.
fn crowd_rows(ranks: usize) -> Vec<Row> {
    let idle = ranks - 2;
    let crowded = |row: Row| Row { label: format!("+{idle}: {}", row.label), group: Group::Many, ..row };
    let costs = overlap_rows().into_iter().filter(|row| row.better == Better::Lower);
    p2p_rows().into_iter().chain(costs).map(crowded).collect()
}

fn init_rows(ranks: usize) -> Vec<Row> {
    vec![
        row("init_ms", format!("init + barrier, {ranks} ranks, ms"), Group::Init, Better::Lower),
        row(EXIT_KEY, format!("launch to exit, {ranks} ranks, ms"), Group::Exit, Better::Lower),
    ]
}

fn memory_rows(ranks: usize) -> Vec<Row> {
    vec![row("pss_kib", format!("memory, {ranks} ranks, KiB each"), Group::Memory, Better::Lower)]
}

fn pack_rows() -> Vec<Row> {
    let types = [
        ("pack_vector", "strided vector"),
        ("pack_indexed", "indexed blocks"),
        ("pack_cube", "part of a cube"),
    ];
    let row = |(key, what): (&str, &str)| row(key, format!("pack {what}, ns"), Group::Pack, Better::Lower);
    types.map(row).into()
}

#[cfg(test)]
mod tests {
    use super::super::table::LABEL_WIDTH;
    use super::*;

    #[test]
    fn a_plan_holds_only_what_was_asked_for() {
        assert_eq!(
            Job::plan(Group::PEERS).iter().map(|job| job.rows.len()).sum::<usize>(),
            7 + 2 + 4 + 2 + 3 + 18 + 1 + 6 + 2 + 3
        );
        let jobs = Job::plan(&[Group::Rate, Group::Exit]);
        assert_eq!(
            jobs.iter().map(Job::describe).collect::<Vec<_>>(),
            ["p2p at 2 ranks", "init at 2 ranks", "init at 16 ranks", "init at 64 ranks"]
        );
        assert!(jobs.iter().all(|job| job.rows.len() == 1));
    }

    #[test]
    fn what_is_left_out_if_nobody_asks_is_many_ranks() {
        assert_eq!(Group::PEERS_ASKED.strip_prefix(Group::PEERS), Some(&[Group::Many][..]));
        let jobs: Vec<String> = Job::plan(&[Group::Many]).iter().map(Job::describe).collect();
        assert_eq!(jobs, ["many at 64 ranks", "crowd at 64 ranks", "crowd at 102 ranks"]);
    }

    #[test]
    fn every_label_leaves_a_blank_before_its_first_cell() {
        let rows: Vec<Row> = Job::plan(Group::PEERS_ASKED).into_iter().flat_map(|job| job.rows).collect();
        for row in rows {
            assert!(row.label.len() < LABEL_WIDTH, "{}", row.label);
        }
    }
}
