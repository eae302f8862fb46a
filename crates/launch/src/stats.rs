//! What a job has cost, for people and for scripts.
use crate::agent::COUNTER_KEYS;
use crate::launcher::{JobReport, NodeBoard};
use proto::stats::{Kind, Stat};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Average, minimum and maximum over ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    avg: f64,
    min: u64,
    max: u64,
}

fn spread(report: &JobReport, stat: Stat) -> Option<Spread> {
    let values = || report.stats.iter().filter_map(|values| values.get(stat as usize).copied());
    let count = values().count();
    let avg = values().map(|value| value as f64).sum::<f64>() / count as f64;
    Some(Spread { avg, min: values().min()?, max: values().max()? })
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

/// One JSON object: `ranks`, `nodes`, a `{avg, min, max}` per counter, `init_ms` with the maximum over ranks of
/// each phase of start-up, `launch_ms` with the launcher's own phases, and `board` with what the bulletin board
/// has counted on each node.
pub fn json(report: &JobReport) -> Value {
    let mut object = Map::new();
    object.insert("ranks".into(), json!(report.ranks));
    object.insert("nodes".into(), json!(report.nodes));
    object.insert("exit_code".into(), json!(report.exit_code));
    for stat in of_kind(Kind::Spread) {
        let Spread { avg, min, max } = spread(report, stat).unwrap_or(Spread { avg: 0.0, min: 0, max: 0 });
        object.insert(stat.key().into(), json!({ "avg": round(avg), "min": min, "max": max }));
    }
    let phase =
        |stat: Stat| (stat.key().into(), json!(round(millis(spread(report, stat).map_or(0, |s| s.max)))));
    object.insert("init_ms".into(), Value::Object(of_kind(Kind::PhaseNs).map(phase).collect()));
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
    object.insert("board".into(), board(report));
    Value::Object(object)
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

/// The same as a table.
pub fn table(report: &JobReport) -> String {
    let mut text = format!("{} ranks on {} nodes\n", report.ranks, report.nodes);
    let _ = writeln!(text, "{:<22} {:>14} {:>12} {:>12}", "per process", "average", "minimum", "maximum");
    for stat in of_kind(Kind::Spread) {
        if let Some(Spread { avg, min, max }) = spread(report, stat) {
            let _ = writeln!(text, "{:<22} {avg:>14.2} {min:>12} {max:>12}", stat.key());
        }
    }
    let _ = writeln!(text, "{:<22} {:>14}", "init, slowest process", "ms");
    for stat in of_kind(Kind::PhaseNs) {
        let _ = writeln!(
            text,
            "  {:<20} {:>14.3}",
            stat.key(),
            millis(spread(report, stat).map_or(0, |s| s.max))
        );
    }
    if !report.board.nodes.is_empty() {
        let _ = writeln!(text, "{:<22} {:>14}", format!("board ({})", report.board.kind.word()), "all nodes");
        for (index, key) in COUNTER_KEYS.iter().enumerate() {
            let values = || report.board.nodes.iter().filter_map(|board| board.values.get(index).copied());
            let total = if key.ends_with("peak") { values().max().unwrap_or(0) } else { values().sum() };
            let _ = writeln!(text, "  {key:<20} {total:>14}");
        }
    }
    let phases = report.phases;
    let _ = writeln!(text, "{:<22} {:>14}", "launch, since start", "ms");
    let steps = [
        ("agents", phases.agents),
        ("started", phases.started),
        ("ended", phases.ended),
        ("total", phases.total),
    ];
    for (name, duration) in steps {
        let _ = writeln!(text, "  {name:<20} {:>14.3}", duration.as_secs_f64() * 1e3);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> JobReport {
        let row = |connections: u64, init_ns: u64| {
            let mut values = vec![0; Stat::ALL.len()];
            values[Stat::Connections as usize] = connections;
            values[Stat::InitTotal as usize] = init_ns;
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
    fn counters_are_spreads_and_phases_are_maxima_in_milliseconds() {
        let json = json(&report());
        assert_eq!(json["connections"], json!({ "avg": 3.0, "min": 2, "max": 4 }));
        assert_eq!(json["init_ms"]["total"], json!(2.5));
        assert_eq!((&json["ranks"], &json["nodes"]), (&json!(3), &json!(2)));
    }

    #[test]
    fn the_table_has_every_counter() {
        let text = table(&report());
        assert!(Stat::ALL.iter().all(|stat| text.contains(stat.key())));
    }

    #[test]
    fn no_statistics_at_all_are_zeros() {
        let json = json(&JobReport::default());
        assert_eq!(json["connections"], json!({ "avg": 0.0, "min": 0, "max": 0 }));
    }
}
