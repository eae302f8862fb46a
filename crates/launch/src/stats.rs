//! What a job has cost, for people and for scripts.
use crate::agent::COUNTER_KEYS;
use crate::launcher::{Extent, JobReport, NodeBoard, NodeServer};
use crate::matrix::ranges;
use proto::stats::{Kind, RdmaDevice, Stat};
use proto::wireup::Policy;
use proto::wireup::auto::Why;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Most ranges of ranks that a table names.
const PIECES_MAX: usize = 16;

/// Average, minimum, maximum and sum over the ranks that have counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    ranks: usize,
    avg: f64,
    min: u64,
    max: u64,
    sum: u64,
}

/// `None`: no rank has counted.
fn spread(report: &JobReport, stat: Stat) -> Option<Spread> {
    let first = report.stats.iter().filter_map(|values| values.get(stat as usize));
    let first = first.map(|&value| (1, Extent { sum: value, min: value, max: value }));
    let spawned = report.spawned.of(stat).map(|extent| (report.spawned.ranks, extent));
    let all = first.chain(spawned).reduce(|(a, x), (b, y)| {
        let sum = x.sum.saturating_add(y.sum);
        (a + b, Extent { sum, min: x.min.min(y.min), max: x.max.max(y.max) })
    });
    let (ranks, Extent { sum, min, max }) = all?;
    Some(Spread { ranks, avg: sum as f64 / ranks as f64, min, max, sum })
}

/// Ranks that have counted, those of spawned jobs included.
fn measured(report: &JobReport) -> usize {
    report.stats.iter().filter(|values| !values.is_empty()).count() + report.spawned.ranks
}

/// Ranks of the first job that have not: they use another library or none, or were lost with their agent.
fn not_measured(report: &JobReport) -> Vec<u32> {
    let counted = |rank: u32| report.stats.get(rank as usize).is_some_and(|values| !values.is_empty());
    (0..report.ranks).filter(|rank| !counted(*rank)).collect()
}

fn of_kind(kind: Kind) -> impl Iterator<Item = Stat> {
    Stat::ALL.iter().copied().filter(move |stat| stat.kind() == kind)
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Three decimals are enough.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// One JSON object: `ranks`, `nodes`, how many ranks have counted and which have not, `{avg, min, max, sum, ranks}` per
/// counter (`null` if no rank has counted; `ranks` is how many have), `init_ms` and `init_least_ms` with the maximum and
/// the minimum over ranks of each phase of start-up, `launch_ms` with the launcher's own phases, `connect`
/// with the policies by which ranks connected and why, `board` with what the bulletin board has counted on each node, `servers` with the data servers, if there are any, `pattern` with what one was good for, and `matrix` with who was connected to whom, if that was
/// asked for.
pub fn json(report: &JobReport) -> Value {
    let mut object = Map::new();
    object.insert("ranks".into(), json!(report.ranks));
    object.insert("nodes".into(), json!(report.nodes));
    object.insert("exit_code".into(), json!(report.exit_code));
    object.insert("measured_ranks".into(), json!(measured(report)));
    object.insert("not_measured".into(), json!(not_measured(report)));
    for stat in Stat::ALL.iter().copied().filter(|stat| stat.phase().is_none()) {
        object.insert(stat.key().into(), spread(report, stat).map_or(Value::Null, |s| spread_json(stat, s)));
    }
    object.insert("init_ms".into(), phases_ms(report, |spread| spread.max));
    object.insert("init_least_ms".into(), phases_ms(report, |spread| spread.min));
    let phases = report.phases;
    let launch = |duration: std::time::Duration| round(duration.as_secs_f64() * 1e3);
    object.insert(
        "launch_ms".into(),
        json!({
            "agents": launch(phases.agents),
            "started": launch(phases.started),
            "ended": launch(phases.ended),
            "total": launch(phases.total),
        }),
    );
    let fabric = fabric(report).map(|(what, ranks)| (what.words().into(), json!(ranks)));
    object.insert("fabric".into(), Value::Object(fabric.collect()));
    let connecting = connecting(report)
        .map(|(policy, why, ranks)| json!({"policy": policy.name(), "why": why.words(), "ranks": ranks}));
    object.insert("connect".into(), connecting.collect());
    object.insert("board".into(), board(report));
    if let Some(servers) = servers(report) {
        object.insert("servers".into(), servers);
    }
    if let Some(pattern) = &report.pattern {
        object.insert("pattern".into(), pattern.json(report));
    }
    if let Some(matrix) = &report.matrix {
        object.insert("matrix".into(), matrix.json());
    }
    Value::Object(object)
}

/// Each phase of start-up in milliseconds: that of the rank which `of` takes.
fn phases_ms(report: &JobReport, of: fn(Spread) -> u64) -> Value {
    let phase = |stat: Stat| {
        let ms = spread(report, stat).map(|spread| round(millis(of(spread))));
        Some((stat.phase()?.into(), json!(ms)))
    };
    Value::Object(of_kind(Kind::PhaseNs).filter_map(phase).collect())
}

fn spread_json(stat: Stat, spread: Spread) -> Value {
    let Spread { ranks, avg, min, max, sum } = spread;
    let mut value = json!({ "avg": round(avg), "min": min, "max": max, "ranks": ranks });
    if stat.kind() == Kind::Spread {
        value["sum"] = json!(sum);
    }
    value
}

/// What carries traffic between hosts, and why: for how many ranks of the first job.
fn fabric(report: &JobReport) -> impl Iterator<Item = (RdmaDevice, usize)> {
    let count = |what: RdmaDevice| {
        let values = report.stats.iter().filter_map(|values| values.get(Stat::RdmaDevice as usize));
        values.filter(|value| **value == what as u64).count()
    };
    let asked = RdmaDevice::ALL.into_iter().filter(|what| *what != RdmaDevice::Unneeded);
    asked.map(move |what| (what, count(what))).filter(|(_, ranks)| *ranks > 0)
}

/// By which policy ranks of the first job connected, and why: how many.
pub(crate) fn connecting(report: &JobReport) -> impl Iterator<Item = (Policy, Why, usize)> {
    let count = |policy: Policy, why: Why| {
        let is = |values: &&Vec<u64>| {
            let value = |stat: Stat| values.get(stat as usize).copied();
            value(Stat::ConnectPolicy) == Some(policy.number())
                && value(Stat::ConnectReason) == Some(why as u64)
        };
        report.stats.iter().filter(is).count()
    };
    let all = Policy::ALL.into_iter().flat_map(|policy| Why::ALL.map(|why| (policy, why)));
    all.map(move |(policy, why)| (policy, why, count(policy, why))).filter(|(.., ranks)| *ranks > 0)
}

/// The kind of the board, and the counters of each node's part of it.
fn board(report: &JobReport) -> Value {
    let node = |board: &NodeBoard| {
        let counters = COUNTER_KEYS.iter().zip(&board.values);
        let mut object: Map<String, Value> =
            counters.map(|(key, value)| ((*key).into(), json!(value))).collect();
        object.insert("node".into(), json!(board.node.0));
        object.insert("job".into(), json!(board.job.0));
        Value::Object(object)
    };
    let mut nodes: Vec<&NodeBoard> = report.board.nodes.iter().collect();
    nodes.sort_by_key(|board| (board.job, board.node));
    json!({ "kind": report.board.kind.word(), "nodes": nodes.into_iter().map(node).collect::<Vec<_>>() })
}

/// Connections of a data server to processes of other nodes, at most at one time.
fn clients(server: &NodeServer) -> u64 {
    server.values.get(Stat::ConnectionsRemote as usize).copied().unwrap_or(0)
}

/// Connections of clients to servers and of servers to clients, as Vishnu and Krishnan count them: averages over processes, and
/// over nodes. `None`: there were no servers.
fn server_averages(report: &JobReport) -> Option<(f64, f64)> {
    let sum: u64 = report.servers.iter().map(clients).sum();
    let of_servers = (!report.servers.is_empty()).then(|| sum as f64 / report.servers.len() as f64)?;
    Some((spread(report, Stat::ConnectionsServers).map_or(0.0, |spread| spread.avg), of_servers))
}

/// What data servers have counted.
fn servers(report: &JobReport) -> Option<Value> {
    let (of_clients, of_servers) = server_averages(report)?;
    let node = |server: &NodeServer| {
        let counters = Stat::ALL.iter().zip(&server.values).filter(|(stat, _)| stat.phase().is_none());
        let mut object: Map<String, Value> =
            counters.map(|(stat, value)| (stat.key().into(), json!(value))).collect();
        object.insert("node".into(), json!(server.node.0));
        object.insert("job".into(), json!(server.job.0));
        Value::Object(object)
    };
    let mut nodes: Vec<&NodeServer> = report.servers.iter().collect();
    nodes.sort_by_key(|server| (server.job, server.node));
    Some(json!({
        "count": nodes.len(),
        "client_server_avg": round(of_clients),
        "server_client_avg": round(of_servers),
        "nodes": nodes.into_iter().map(node).collect::<Vec<_>>(),
    }))
}

/// The same in lines.
fn server_lines(report: &JobReport) -> String {
    let Some((of_clients, of_servers)) = server_averages(report) else { return String::new() };
    let most = report.servers.iter().map(clients).max().unwrap_or(0);
    let values =
        |stat: Stat| report.servers.iter().filter_map(move |server| server.values.get(stat as usize));
    let count = report.servers.len();
    let mut text = format!("{:<25} {:>14}\n", format!("data servers, {count}"), "");
    let _ = writeln!(text, "  {:<23} {of_clients:>14.2}  (average over processes)", "client-server");
    let _ = writeln!(
        text,
        "  {:<23} {of_servers:>14.2}  (average over servers, {most} at most)",
        "server-client"
    );
    for stat in [Stat::OperationsServed, Stat::Handshakes, Stat::Evictions, Stat::Strangers] {
        let _ = writeln!(text, "  {:<23} {:>14}", stat.key(), values(stat).sum::<u64>());
    }
    text
}

/// The names of all counters, with a line for each.
pub fn names() -> String {
    let mut text = "What Banyan's library counts in every process:\n\n".to_string();
    for stat in Stat::ALL {
        let _ = writeln!(text, "  {:<25} {}", stat.key(), stat.line());
    }
    text + "\nRanks of other libraries are not measured. '--stats' gives the phases of init in milliseconds.\n"
}

/// The same as a table.
pub fn table(report: &JobReport) -> String {
    let of = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("{} on {}\n", of(report.ranks, "rank"), of(report.nodes, "node"));
    let missing = not_measured(report);
    if !missing.is_empty() {
        let ranks = ranges(&missing, PIECES_MAX);
        let word = if missing.len() == 1 { "rank" } else { "ranks" };
        let _ = writeln!(text, "not measured: {word} {ranks} (without Banyan's library, or lost)");
    }
    for (what, ranks) in fabric(report) {
        let _ = writeln!(text, "between hosts, {ranks} ranks: {}", what.words());
    }
    for (policy, why, ranks) in connecting(report) {
        let _ = writeln!(text, "connecting, {ranks} ranks: {} ({})", policy.name(), why.words());
    }
    if let Some(together) = spread(report, Stat::ConnectedTogether).filter(|together| together.sum > 0) {
        let _ =
            writeln!(text, "connecting: {} made together, when a collective needed everybody", together.sum);
    }
    if let Some(pattern) = &report.pattern {
        text += &pattern.line(report);
    }
    let measured = measured(report);
    if measured > 0 {
        let who = format!("per process, {measured} measured");
        let _ =
            writeln!(text, "{who:<25} {:>14} {:>12} {:>12} {:>14}", "average", "minimum", "maximum", "sum");
        Stat::ALL.iter().for_each(|stat| write_spread(&mut text, report, *stat));
        let _ = writeln!(text, "{:<25} {:>14}", "init, slowest process", "ms");
        for stat in of_kind(Kind::PhaseNs) {
            let ms = millis(spread(report, stat).map_or(0, |spread| spread.max));
            let _ = writeln!(text, "  {:<23} {ms:>14.3}", stat.phase().unwrap_or_default());
        }
    }
    text += &server_lines(report);
    if !report.board.nodes.is_empty() {
        let _ = writeln!(text, "{:<25} {:>14}", format!("board ({})", report.board.kind.word()), "all nodes");
        for (index, key) in COUNTER_KEYS.iter().enumerate() {
            let values = || report.board.nodes.iter().filter_map(|board| board.values.get(index).copied());
            let total = if key.ends_with("peak") { values().max().unwrap_or(0) } else { values().sum() };
            let _ = writeln!(text, "  {key:<23} {total:>14}");
        }
    }
    let phases = report.phases;
    let _ = writeln!(text, "{:<25} {:>14}", "launch, since start", "ms");
    let steps = [
        ("agents", phases.agents),
        ("started", phases.started),
        ("ended", phases.ended),
        ("total", phases.total),
    ];
    for (name, duration) in steps {
        let _ = writeln!(text, "  {name:<23} {:>14.3}", duration.as_secs_f64() * 1e3);
    }
    text
}

fn write_spread(text: &mut String, report: &JobReport, stat: Stat) {
    let Some(Spread { avg, min, max, sum, .. }) = spread(report, stat) else { return };
    let _ = match stat.kind() {
        Kind::Spread => writeln!(text, "{:<25} {avg:>14.2} {min:>12} {max:>12} {sum:>14}", stat.key()),
        Kind::Longest => writeln!(text, "{:<25} {avg:>14.2} {min:>12} {max:>12}", stat.key()),
        Kind::PhaseNs => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> JobReport {
        let row = |connections: u64, init_ns: u64| {
            let mut values = vec![0; Stat::ALL.len()];
            values[Stat::Connections as usize] = connections;
            values[Stat::InitTotal as usize] = init_ns;
            values[Stat::RdmaDevice as usize] = connections / 2;
            values
        };
        JobReport {
            ranks: 3,
            nodes: 2,
            stats: vec![row(2, 1_500_000), row(4, 2_500_000), Vec::new()],
            ..JobReport::default()
        }
    }

    #[test]
    fn counters_are_spreads_and_phases_are_bounds_in_milliseconds() {
        let json = json(&report());
        let connections = json!({ "avg": 3.0, "min": 2, "max": 4, "sum": 6, "ranks": 2 });
        assert_eq!(json["connections"], connections);
        assert_eq!((&json["init_ms"]["total"], &json["init_least_ms"]["total"]), (&json!(2.5), &json!(1.5)));
        assert_eq!((&json["ranks"], &json["nodes"]), (&json!(3), &json!(2)));
        assert!(json.get("matrix").is_none());
    }

    #[test]
    fn how_ranks_connected_is_told_with_the_reason() {
        let mut report = report();
        report.stats[1][Stat::ConnectPolicy as usize] = Policy::RankByRank.number();
        report.stats[1][Stat::ConnectReason as usize] = Why::Everybody as u64;
        assert_eq!(json(&report)["connect"].as_array().unwrap().len(), 2);
        assert_eq!(
            json(&report)["connect"][1],
            json!({"policy": "rank-by-rank", "why": "auto: a pattern predicts nearly everybody", "ranks": 1})
        );
        let table = table(&report);
        assert!(table.contains("connecting, 1 ranks: on-demand (as asked for)\n"), "{table}");
        assert!(table.contains("connecting, 1 ranks: rank-by-rank (auto: a pattern predicts"), "{table}");
        assert!(!table.contains("together, when"), "{table}");
        report.stats[1][Stat::ConnectedTogether as usize] = 57;
        assert!(super::table(&report).contains("connecting: 57 made together, when a collective"));
    }

    #[test]
    fn what_carries_traffic_between_hosts_is_told() {
        let (open, missing) = (RdmaDevice::Open.words(), RdmaDevice::NoLibrary.words());
        let json = json(&report());
        assert_eq!((&json["fabric"][open], &json["fabric"][missing]), (&json!(1), &json!(1)));
        let text = table(&report());
        assert!(text.contains(&format!("between hosts, 1 ranks: {missing}")), "{text}");
        for (number, what) in RdmaDevice::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, number);
        }
    }

    #[test]
    fn spawned_ranks_count_without_a_row_for_each() {
        let mut report = report();
        for count in [1, 9, 5] {
            let mut values = vec![0; Stat::ALL.len()];
            values[Stat::Connections as usize] = count;
            report.spawned.add(&values);
            report.spawned.add(&[]); // of another library
        }
        let json = json(&report);
        assert_eq!(json["connections"], json!({ "avg": 4.2, "min": 1, "max": 9, "sum": 21, "ranks": 5 }));
        assert_eq!((&json["measured_ranks"], &json["not_measured"]), (&json!(5), &json!([2])));
        assert_eq!(report.stats.len(), 3);
    }

    #[test]
    fn connections_of_clients_and_servers_are_averages_of_their_own() {
        let mut report = report();
        assert!(json(&report).get("servers").is_none() && !table(&report).contains("data servers"));
        (
            report.stats[0][Stat::ConnectionsServers as usize],
            report.stats[1][Stat::ConnectionsServers as usize],
        ) = (1, 2);
        for (node, clients) in [(1, 3), (0, 6)] {
            let mut values = vec![0; Stat::ALL.len()];
            values[Stat::ConnectionsRemote as usize] = clients;
            let (node, job) = (proto::ids::NodeId(node), proto::lane::JobId(0));
            report.servers.push(NodeServer { node, job, values });
        }
        let servers = &json(&report)["servers"];
        assert_eq!(
            (&servers["client_server_avg"], &servers["server_client_avg"]),
            (&json!(1.5), &json!(4.5))
        );
        assert_eq!(
            (&servers["nodes"][0]["node"], &servers["nodes"][0]["connections_remote"]),
            (&json!(0), &json!(6))
        );
        let text = table(&report);
        assert!(
            text.contains("data servers, 2") && text.contains("4.50  (average over servers, 6 at most)"),
            "{text}"
        );
    }

    #[test]
    fn what_was_longest_is_not_added_up() {
        let json = json(&report());
        assert!(json["place_wait_longest_ns"].get("sum").is_none(), "{json}");
        let text = table(&report());
        let line = text.lines().find(|line| line.starts_with("place_wait_longest_ns")).unwrap();
        assert_eq!(line.split_whitespace().count(), 4, "{line}");
    }

    #[test]
    fn the_table_has_every_counter() {
        let text = table(&report());
        for stat in Stat::ALL {
            assert!(text.contains(stat.phase().unwrap_or(stat.key())), "{}", stat.key());
        }
    }

    #[test]
    fn ranks_that_have_not_counted_are_named() {
        assert_eq!(json(&report())["not_measured"], json!([2]));
        assert_eq!(json(&report())["measured_ranks"], json!(2));
        let text = table(&report());
        assert!(text.contains("not measured: rank 2 ") && text.contains("2 measured"), "{text}");
    }

    #[test]
    fn what_a_pattern_was_good_for_is_told() {
        let mut report = report();
        (
            report.stats[0][Stat::ConnectionsAhead as usize],
            report.stats[1][Stat::ConnectionsAhead as usize],
        ) = (4, 3);
        report.stats[1][Stat::ConnectionsAheadUsed as usize] = 2;
        report.pattern = Some(crate::PatternReport { file: "p".into(), rules: 3, written: true });
        let object =
            json!({ "file": "p", "rules": 3, "connected": 7, "used": 2, "unused": 5, "written": true });
        assert_eq!(json(&report)["pattern"], object);
        let text = table(&report);
        assert!(text.contains("\npattern 'p': 3 rules, 7 connections ahead, 2 used, 5 unused\n"), "{text}");
    }

    #[test]
    fn what_nobody_has_counted_is_not_zero() {
        let report = JobReport { ranks: 4, nodes: 1, stats: vec![Vec::new(); 2], ..JobReport::default() };
        let json = json(&report);
        assert_eq!((&json["connections"], &json["measured_ranks"]), (&Value::Null, &json!(0)));
        assert_eq!(json["init_ms"]["total"], Value::Null);
        let text = table(&report);
        assert!(text.contains("not measured: ranks 0-3 ") && !text.contains("connections"), "{text}");
    }

    #[test]
    fn every_name_has_a_line() {
        let text = names();
        for stat in Stat::ALL {
            let line = text.lines().find(|line| line.split_whitespace().next() == Some(stat.key()));
            assert!(line.is_some_and(|line| line.ends_with(stat.line())), "{}", stat.key());
        }
    }
}
