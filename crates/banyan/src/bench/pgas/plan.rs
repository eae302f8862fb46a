//! What is measured of ARMCI's operations: jobs, the rows of the table that each fills, and the goals.
use super::super::job::{Better, Group, Row, row};
use super::super::net::plan::size_text;

const KI: usize = 1024;
const MI: usize = KI * KI;

/// What a user may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// ARMCI's operations.
    Operations,
    /// A target that computes.
    Computing,
    /// How many connections programs need.
    Connections,
    /// What these take, beside everybody connected.
    Memory,
}

impl Section {
    /// In the order of the report.
    pub const ALL: &'static [Section] =
        &[Section::Operations, Section::Computing, Section::Connections, Section::Memory];

    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Section::Operations => "operations",
            Section::Computing => "computing",
            Section::Connections => "connections",
            Section::Memory => "memory",
        }
    }
}

/// One run of the microbenchmark. A job that fails takes its rows with it, so different operations are apart.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it is of.
    pub name: &'static str,
    /// What it fills.
    pub rows: Vec<Row>,
}

/// A kind of measurement: its key, what stands before and behind the size in the table, and which way is good.
type Kind = (&'static str, &'static str, &'static str, Better);

const PUT: Kind = ("put", "put ", ", us", Better::Lower);
const PUT_FENCE: Kind = ("put_fence", "put + fence ", ", us", Better::Lower);
const GET: Kind = ("get", "get ", ", us", Better::Lower);
const ACC_FENCE: Kind = ("acc_fence", "accumulate + fence ", ", us", Better::Lower);
const RMW: Kind = ("rmw", "fetch-and-add ", ", M/s", Better::Higher);
const STREAMS: [Kind; 3] = [
    ("put_bandwidth", "put bandwidth ", ", GB/s", Better::Higher),
    ("get_bandwidth", "get bandwidth ", ", GB/s", Better::Higher),
    ("acc_bandwidth", "acc bandwidth ", ", GB/s", Better::Higher),
];
const STRIDED: [Kind; 3] = [
    ("put_strided", "put, rows of ", ", GB/s", Better::Higher),
    ("get_strided", "get, rows of ", ", GB/s", Better::Higher),
    ("acc_strided", "acc, rows of ", ", GB/s", Better::Higher),
];

fn measured((key, before, behind, better): Kind, bytes: usize) -> Row {
    row(&format!("{key}_{bytes}"), format!("{before}{}{behind}", size_text(bytes)), Group::Host, better)
}

/// What runs.
pub fn jobs() -> Vec<Job> {
    let small = [(PUT, 8), (PUT_FENCE, 8), (GET, 8), (PUT_FENCE, KI), (GET, KI)];
    let atomic = [(ACC_FENCE, 8), (ACC_FENCE, KI), (RMW, 8)];
    let of = |kinds: &[Kind], sizes: &[usize]| -> Vec<Row> {
        sizes.iter().flat_map(|bytes| kinds.iter().map(|kind| measured(*kind, *bytes))).collect()
    };
    let each = |kinds: &[(Kind, usize)]| kinds.iter().map(|(kind, bytes)| measured(*kind, *bytes)).collect();
    vec![
        Job { name: "latency", rows: each(&small) },
        Job { name: "atomic", rows: each(&atomic) },
        Job { name: "bandwidth", rows: of(&STREAMS, &[64 * KI, MI]) },
        Job { name: "strided", rows: of(&STRIDED, &[64, KI, 16 * KI]) },
    ]
}

/// A ratio that Banyan wants to reach on a quiet machine: its cost beside the peer's is at most this.
pub const GOALS: [(&str, f64); 5] = [
    ("put_8", 0.8),
    ("put_fence_8", 0.8),
    ("get_8", 0.8),
    ("put_strided_1024", 1.0 / 1.2),
    ("get_strided_1024", 1.0 / 1.2),
];

#[cfg(test)]
mod tests {
    use super::super::super::table::LABEL_WIDTH;
    use super::*;

    #[test]
    fn rows_can_be_measured_and_have_their_place_in_the_table() {
        let source = include_str!("../../../bench/armci.c");
        let rows: Vec<Row> = jobs().into_iter().flat_map(|job| job.rows).collect();
        for row in &rows {
            let (kind, bytes) = row.key.rsplit_once('_').unwrap();
            assert!(
                source.contains(&format!("{{\"{kind}\", ")) && bytes.parse::<usize>().is_ok(),
                "{}",
                row.key
            );
            assert!(row.label.len() < LABEL_WIDTH, "{}", row.label);
        }
        assert!(GOALS.iter().all(|(key, _)| rows.iter().any(|row| row.key == *key)));
        assert_eq!(rows[8].label, "put bandwidth 64 KiB, GB/s");
    }
}
