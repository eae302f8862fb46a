//! Whether starting a node's ranks costs more than the forks: the time until all ranks have been started, for more and more
//! ranks on a node, beside a bare loop that starts as many processes.
//!
//! What a rank costs more than a bare process shows in the *slope*: what 63 ranks more on every node add to the start,
//! as a multiple of what as many processes add to the bare loop. One means that there is nothing but the fork.
use super::super::limit::BareLoop;
use super::super::runner;
use super::super::sample::Sample;
use super::launcher;
use super::options::Options;
use super::plan::Shape;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Nodes that are tried.
const NODES: [usize; 2] = [1, 16];
const TIMEOUT: Duration = Duration::from_secs(30);
/// A slope up to which the start of a node counts as constant beyond the forks.
pub const SLOPE_MAX: f64 = 1.2;

/// Start times of one shape, in milliseconds.
#[derive(Debug)]
pub struct Point {
    /// The job.
    pub shape: Shape,
    /// Until all ranks have been started.
    pub started: Sample,
    /// Until the bare loop had started as many processes.
    pub bare: Sample,
}

impl Point {
    /// Medians: the start, the bare loop, and what is left per node.
    pub fn figures(&self) -> Option<[f64; 3]> {
        let (started, bare) = (self.started.median()?, self.bare.median()?);
        Some([started, bare, (started - bare) / self.shape.nodes as f64])
    }
}

/// All of them.
#[derive(Debug)]
pub struct Growth {
    banyan: PathBuf,
    stats: PathBuf,
    points: Vec<Point>,
}

impl Growth {
    /// What is to be measured.
    pub fn plan(options: &Options) -> Result<Growth, String> {
        let point = |nodes, per_node| {
            let shape = Shape { nodes, per_node };
            Point { shape, started: Sample::default(), bare: Sample::default() }
        };
        let of_nodes = |&nodes: &usize| options.per_node.iter().map(move |&per_node| point(nodes, per_node));
        let stats =
            options.common.workshop.absolute_dir()?.join(format!("started-{}.json", std::process::id()));
        Ok(Growth { banyan: launcher::own()?, stats, points: NODES.iter().flat_map(of_nodes).collect() })
    }

    /// Nothing is to be measured.
    #[cfg(test)]
    pub fn empty() -> Growth {
        Growth { banyan: PathBuf::new(), stats: PathBuf::new(), points: Vec::new() }
    }

    /// Measures each once.
    pub fn round(&mut self, tell: impl Fn(&str)) -> Result<(), String> {
        for point in &mut self.points {
            tell(&format!("start of {}", point.shape));
            let bare = BareLoop::run(point.shape.ranks()).map_err(|e| format!("the bare loop: {e}"))?;
            point.bare.add(Some(bare.started.as_secs_f64() * 1e3));
            let mut command = Command::new(&self.banyan);
            command.args(["run", "--stats=json", "--stats-file"]).arg(&self.stats);
            command.args(["--nodes", &point.shape.nodes.to_string(), "-n", &point.shape.ranks().to_string()]);
            command.arg("/bin/true");
            let ended = runner::run(command, TIMEOUT);
            let stats = std::fs::read_to_string(&self.stats).unwrap_or_default();
            let _ = std::fs::remove_file(&self.stats);
            point.started.add(ended.ok().and_then(|_| started_ms(&stats)));
        }
        Ok(())
    }

    /// What was measured.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Nodes with the slope of their start, where it was measured.
    pub fn slopes(&self) -> Vec<(usize, f64)> {
        NODES.iter().filter_map(|&nodes| Some((nodes, slope(&self.points, nodes)?))).collect()
    }

    /// The figures for scripts.
    pub fn json(&self) -> Value {
        let point = |point: &Point| {
            let figures = point.figures();
            json!({
                "nodes": point.shape.nodes,
                "ranks_per_node": point.shape.per_node,
                "started_ms": figures.map(|figures| figures[0]),
                "bare_started_ms": figures.map(|figures| figures[1]),
                "beyond_per_node_ms": figures.map(|figures| figures[2]),
                "runs": point.started.runs(),
                "failed": point.started.failed(),
            })
        };
        json!(self.points.iter().map(point).collect::<Vec<_>>())
    }
}

/// What the launcher says about itself.
fn started_ms(stats: &str) -> Option<f64> {
    serde_json::from_str::<Value>(stats).ok()?["launch_ms"]["started"].as_f64()
}

/// From the fewest to the most ranks per node: what they add to the start, beside what they add to the bare loop.
fn slope(points: &[Point], nodes: usize) -> Option<f64> {
    let of_nodes = || points.iter().filter(|point| point.shape.nodes == nodes);
    let fewest = of_nodes().min_by_key(|point| point.shape.per_node)?.figures()?;
    let most = of_nodes().max_by_key(|point| point.shape.per_node)?.figures()?;
    let (start, bare) = (most[0] - fewest[0], most[1] - fewest[1]);
    (bare > 0.0).then(|| start / bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(nodes: usize, per_node: usize, started: f64, bare: f64) -> Point {
        let sample = |value| {
            let mut sample = Sample::default();
            sample.add(Some(value));
            sample
        };
        Point { shape: Shape { nodes, per_node }, started: sample(started), bare: sample(bare) }
    }

    #[test]
    fn a_constant_beyond_the_forks_has_slope_one_however_large_it_is() {
        let points = [point(1, 1, 100.5, 0.5), point(1, 64, 132.0, 32.0), point(16, 1, 9.0, 8.0)];
        assert_eq!(slope(&points, 1), Some(1.0));
        assert_eq!(slope(&points, 16), None, "one point has no slope");
        assert_eq!(points[2].figures(), Some([9.0, 8.0, 1.0 / 16.0]));
    }

    #[test]
    fn statistics_that_are_none_give_no_value() {
        assert_eq!(started_ms(r#"{"launch_ms": {"started": 2.5}}"#), Some(2.5));
        assert_eq!(started_ms("{}"), None);
        assert_eq!(started_ms(""), None);
    }
}
