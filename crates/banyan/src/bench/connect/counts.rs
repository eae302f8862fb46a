//! What the processes of a job counted.
use super::super::sample::{Sample, failure};
use super::plan::Case;
use serde_json::{Value, json};

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
    /// Those to other nodes, if the processes of a node share them (XRC).
    pub xrc: Spread,
    /// Of a process, on average.
    pub handshakes: Sample,
    /// Of a process, on average.
    pub mapped_kib: Sample,
    /// Of a process, on average.
    pub touched_kib: Sample,
    /// The same, if connections are shared.
    pub xrc_touched_kib: Sample,
}

impl Count {
    /// Nothing counted yet.
    pub fn new(case: Case) -> Self {
        let (spread, none) = (Spread::default, Sample::default);
        Count {
            case,
            connections: spread(),
            remote: spread(),
            xrc: spread(),
            handshakes: none(),
            mapped_kib: none(),
            touched_kib: none(),
            xrc_touched_kib: none(),
        }
    }

    /// Adds a run's statistics.
    pub fn add(&mut self, stats: &Value) {
        let value = |name: &str, how: &str| stats[name][how].as_f64();
        let spread = |name: &str| HOW.map(|how| value(name, how));
        let kib = |name: &str| value(name, "avg").map(|bytes| bytes / 1024.0);
        self.connections.add(spread("connections"));
        self.remote.add(spread("connections_remote"));
        self.handshakes.add(value("handshakes", "avg"));
        self.mapped_kib.add(kib("mapped_bytes"));
        self.touched_kib.add(kib("touched_bytes"));
    }

    /// Adds the statistics of a run in which connections are shared.
    pub fn add_xrc(&mut self, stats: &Value) {
        self.xrc.add(HOW.map(|how| stats["connections_remote"][how].as_f64()));
        self.xrc_touched_kib.add(stats["touched_bytes"]["avg"].as_f64().map(|bytes| bytes / 1024.0));
    }

    /// Runs that gave nothing.
    pub fn failure(&self) -> Option<String> {
        let Case { workload, shape, algorithms } = self.case;
        let what = format!("counts, {}, {} ranks, {}", workload.name, shape.ranks, algorithms.key());
        failure(&what, self.connections.0.iter().chain(&self.xrc.0))
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
            "connections_xrc": self.xrc.json(),
            "handshakes": self.handshakes.median(),
            "mapped_kib": self.mapped_kib.median(),
            "touched_kib": self.touched_kib.median(),
            "xrc_touched_kib": self.xrc_touched_kib.median(),
        })
    }
}
