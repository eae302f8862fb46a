//! What the processes of a job counted.
use super::super::sample::{Sample, failure};
use super::plan::Case;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Average, minimum and maximum over processes; each of several runs.
#[derive(Clone, Debug, Default)]
pub struct Spread([Sample; 3]);

/// The words for them in statistics.
const HOW: [&str; 3] = ["avg", "min", "max"];

impl Spread {
    fn add(&mut self, values: [Option<f64>; 3]) {
        self.0.iter_mut().zip(values).for_each(|(sample, value)| sample.add(value));
    }

    /// The median of the runs' averages.
    pub fn average(&self) -> Option<f64> {
        self.0[0].median()
    }

    /// "2.00 (1..5)".
    pub fn text(&self) -> String {
        match self.0.each_ref().map(Sample::median) {
            [Some(average), Some(min), Some(max)] => format!("{average:.2} ({min:.0}..{max:.0})"),
            _ => "failed".into(),
        }
    }

    fn json(&self) -> Value {
        let values = self.0.iter().map(|sample| json!(sample.median()));
        Value::Object(HOW.map(String::from).into_iter().zip(values).collect())
    }
}

/// A case and what it needed.
#[derive(Clone, Debug)]
pub struct Count {
    /// What was run.
    pub case: Case,
    /// Most at one time.
    pub connections: Spread,
    /// Those to other nodes.
    pub remote: Spread,
    /// Other nodes to which there was one: connections if processes of a node shared them (XRC).
    pub nodes: Spread,
    /// Of a process, on average.
    pub handshakes: Sample,
    /// Of a process, on average.
    pub mapped_kib: Sample,
    /// Of a process, on average.
    pub touched_kib: Sample,
}

impl Count {
    /// Nothing counted yet.
    pub fn new(case: Case) -> Self {
        let (spread, none) = (Spread::default, Sample::default);
        Count {
            case,
            connections: spread(),
            remote: spread(),
            nodes: spread(),
            handshakes: none(),
            mapped_kib: none(),
            touched_kib: none(),
        }
    }

    /// Adds a run's statistics.
    pub fn add(&mut self, stats: &Value) {
        let value = |name: &str, how: &str| stats[name][how].as_f64();
        let spread = |name: &str| HOW.map(|how| value(name, how));
        let kib = |name: &str| value(name, "avg").map(|bytes| bytes / 1024.0);
        self.connections.add(spread("connections"));
        self.remote.add(spread("connections_remote"));
        self.nodes.add(nodes_met(&stats["matrix"]).map_or([None; 3], spread_of));
        self.handshakes.add(value("handshakes", "avg"));
        self.mapped_kib.add(kib("mapped_bytes"));
        self.touched_kib.add(kib("touched_bytes"));
    }

    /// Adds a run that failed.
    pub fn add_failure(&mut self) {
        self.add(&Value::Null);
    }

    /// Runs that gave nothing.
    pub fn failure(&self) -> Option<String> {
        let Case { workload, shape, algorithms } = self.case;
        let what = format!("counts, {}, {} ranks, {}", workload.name, shape.ranks, algorithms.key());
        failure(&what, self.connections.0.iter().chain(&self.nodes.0))
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let Case { workload, shape, algorithms } = self.case;
        json!({
            "workload": workload.name,
            "ranks": shape.ranks,
            "nodes": shape.nodes,
            "coll": algorithms.key(),
            "algorithm": self.case.algorithm(),
            "connections": self.connections.json(),
            "connections_remote": self.remote.json(),
            "nodes_connected": self.nodes.json(),
            "handshakes": self.handshakes.median(),
            "mapped_kib": self.mapped_kib.median(),
            "touched_kib": self.touched_kib.median(),
        })
    }
}

/// For each process, to how many other nodes it was connected; `None` if somebody did not say.
fn nodes_met(matrix: &Value) -> Option<Vec<usize>> {
    let rows = matrix.as_array()?;
    let node = |rank: usize| rows.get(rank)?["node"].as_u64();
    let met = |row: &Value| -> Option<usize> {
        // Whatever a connection went through, its list is named for it.
        let lists = row.as_object()?.values().filter_map(Value::as_array).flatten();
        let own = row["node"].as_u64()?;
        row["shared"].as_array()?; // null: not measured
        let nodes: Option<BTreeSet<u64>> = lists.map(|rank| node(rank.as_u64()? as usize)).collect();
        Some(nodes?.into_iter().filter(|node| *node != own).count())
    };
    rows.iter().map(met).collect()
}

fn spread_of(values: Vec<usize>) -> [Option<f64>; 3] {
    let (sum, count) = (values.iter().sum::<usize>(), values.len().max(1));
    let bound = |value: Option<&usize>| value.map(|value| *value as f64);
    [Some(sum as f64 / count as f64), bound(values.iter().min()), bound(values.iter().max())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_once_and_the_own_one_not() {
        let row = |rank: u64, shared: Value, sockets: Value| json!({"rank": rank, "node": rank / 2, "shared": shared, "sockets": sockets});
        let matrix = json!([
            row(0, json!([1, 2]), json!([3, 4])),
            row(1, json!([0]), json!([])),
            row(2, json!([0]), json!([])),
            row(3, json!([]), json!([0])),
            row(4, json!([]), json!([0])),
        ]);
        assert_eq!(nodes_met(&matrix), Some(vec![2, 0, 1, 1, 1]));
        assert_eq!(spread_of(vec![2, 0, 1, 1, 1]), [Some(1.0), Some(0.0), Some(2.0)]);
        assert_eq!(nodes_met(&json!([row(0, Value::Null, Value::Null)])), None);
        assert_eq!(nodes_met(&Value::Null), None);
    }
}
