//! What stands out in a job: the slowest phase and rank, the longest wait for a peer, the busiest pair.
use super::super::launcher::JobReport;
use crate::matrix::ranges;
use proto::stats::{Kind, Stat};

/// Ranges of ranks that are named.
const PIECES_MAX: usize = 16;

/// Sentences, the most telling first.
pub(super) fn findings(report: &JobReport) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(slowest_phase(report));
    if let Some((rank, ns)) = most(report, Stat::InitTotal) {
        let least = least(report, Stat::InitTotal).unwrap_or(ns);
        found.push(format!(
            "slowest init: rank {rank}, {} (the quickest took {})",
            millis(ns),
            millis(least)
        ));
    }
    if let Some((rank, ns)) = most(report, Stat::FirstMessageLongest) {
        found.push(format!("longest wait for a connection: rank {rank}, {}", millis(ns)));
    }
    if let Some((rank, ns)) = most(report, Stat::PlaceWaitLongest) {
        found.push(format!("longest wait for a place in the connection budget: rank {rank}, {}", millis(ns)));
    }
    for (stat, words) in [
        (Stat::Connections, "most connections"),
        (Stat::Evictions, "most connections closed to make place for others"),
        (Stat::Retransmits, "most handshake datagrams sent again"),
    ] {
        if let Some((rank, count)) = most(report, stat) {
            found.push(format!("{words}: rank {rank}, {count}"));
        }
    }
    if let Some((rank, bytes)) = most(report, Stat::BytesSent) {
        found.push(format!("most sent: rank {rank}, {}", size(bytes)));
    }
    if let Some(((a, b), bytes)) =
        report.traffic.pairs().max_by_key(|(pair, bytes)| (*bytes, std::cmp::Reverse(*pair)))
    {
        found.push(format!("busiest pair: ranks {a} and {b}, {}", size(bytes)));
    }
    let measured = |rank: &u32| report.stats.get(*rank as usize).is_some_and(|values| !values.is_empty());
    let silent: Vec<u32> = (0..report.ranks).filter(|rank| !measured(rank)).collect();
    if !silent.is_empty() {
        let noun = if silent.len() == 1 { "rank" } else { "ranks" };
        let why = "another library or none, or lost with the agent";
        found.push(format!("not measured: {noun} {} ({why})", ranges(&silent, PIECES_MAX)));
    }
    found
}

fn slowest_phase(report: &JobReport) -> Option<String> {
    let parts =
        Stat::ALL.iter().copied().filter(|stat| stat.kind() == Kind::PhaseNs && *stat != Stat::InitTotal);
    let (stat, (rank, ns)) =
        parts.filter_map(|stat| Some((stat, most(report, stat)?))).max_by_key(|(_, (_, ns))| *ns)?;
    let words = stat.line().trim_start_matches("Phase: ").trim_end_matches('.');
    Some(format!("slowest phase of start-up: '{}' ({words}), {} at rank {rank}", stat.phase()?, millis(ns)))
}

/// The rank that has most of something, if any has some.
fn most(report: &JobReport, stat: Stat) -> Option<(usize, u64)> {
    let values = report.stats.iter().enumerate();
    let values = values.filter_map(|(rank, values)| Some((rank, *values.get(stat as usize)?)));
    values.filter(|(_, value)| *value > 0).max_by_key(|(rank, value)| (*value, std::cmp::Reverse(*rank)))
}

fn least(report: &JobReport, stat: Stat) -> Option<u64> {
    report.stats.iter().filter_map(|values| values.get(stat as usize).copied()).min()
}

pub(super) fn millis(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = (0..UNITS.len() - 1).find(|at| bytes >> (10 * (at + 1)) == 0).unwrap_or(UNITS.len() - 1);
    if at == 0 {
        format!("{bytes} B")
    } else {
        format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * at)) as f64, UNITS[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!(
            [0, 1023, 1024, 1 << 20, 5 << 29].map(size),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "2.5 GiB"]
        );
        assert_eq!([1_234, 12_345_678, 1_500_000_000].map(millis), ["0.00 ms", "12.3 ms", "1.50 s"]);
    }
}
