//! Memory of connections: on demand, and with everybody connected to everybody.
use super::super::sample::{Sample, failure};
use super::super::verdict::Verdict;
use super::options::Options;
use super::{Bench, counts};
use pgas_kernels::Program;
use serde_json::{Value, json};

/// Those whose processes have neighbours.
const PROGRAMS: [&str; 2] = ["lu", "stencil"];
/// On demand, and the two quickest ways to connect everybody.
const POLICIES: [&str; 3] = ["on-demand", "static-parallel", "rank-by-rank"];
/// Memory on demand beside that of everybody connected.
const MEMORY_AT_MOST: f64 = 0.5;
const HEAD: &str = "
Memory of a process for connections: what it has touched of its segment. Processes with data of other nodes connect to
each other here, not to data servers, since everybody connected means that.
";

/// A program by a policy.
#[derive(Clone, Debug)]
pub struct Memory {
    program: &'static Program,
    ranks: usize,
    nodes: usize,
    policy: &'static str,
    connections: Sample,
    touched_kib: Sample,
}

impl Memory {
    /// Nothing measured yet.
    pub fn all(options: &Options) -> Vec<Memory> {
        let ranks = options.ranks.iter().copied().max().unwrap_or(0);
        let memory = |program, policy| Memory {
            program,
            ranks,
            nodes: options.nodes(ranks),
            policy,
            connections: Sample::default(),
            touched_kib: Sample::default(),
        };
        let chosen = options.programs.iter().filter(|program| PROGRAMS.contains(&program.name));
        chosen.flat_map(|program| POLICIES.map(|policy| memory(*program, policy))).collect()
    }

    /// Measures once more.
    pub fn run(&mut self, bench: &Bench<'_>) {
        let Memory { program, ranks, nodes, policy, .. } = *self;
        let what = format!("memory, {}, {ranks} ranks on {nodes} nodes, {policy}", program.name);
        let size = counts::size(program, bench.options.quick).to_string();
        let stats =
            bench.job(&what, (ranks, nodes), &["--connect", policy], &[program.name.to_string(), size]);
        self.connections.add(stats["connections"]["avg"].as_f64());
        self.touched_kib.add(stats["touched_bytes"]["avg"].as_f64().map(|bytes| bytes / 1024.0));
    }

    /// Runs that gave nothing.
    pub fn failure(&self) -> Option<String> {
        let what = format!("memory, {}, {} ranks, {}", self.program.name, self.ranks, self.policy);
        failure(&what, [&self.connections, &self.touched_kib])
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        json!({
            "program": self.program.name,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "connect": self.policy,
            "connections": self.connections.json(),
            "touched_kib": self.touched_kib.json(),
        })
    }
}

/// The table for people.
pub fn text(memory: &[Memory]) -> String {
    let Some(first) = memory.first() else { return String::new() };
    let mut text = format!("{HEAD}\n{} ranks on {} nodes\n\n", first.ranks, first.nodes);
    text += &format!("{:<10}{:<18}{:>12}{:>14}\n", "", "", "connections", "KiB touched");
    for line in memory {
        let cell = |sample: &Sample| sample.median().map_or("failed".into(), |value| format!("{value:.1}"));
        let (connections, touched) = (cell(&line.connections), cell(&line.touched_kib));
        text += &format!("{:<10}{:<18}{connections:>12}{touched:>14}\n", line.program.name, line.policy);
    }
    text
}

/// Does it take less on demand?
pub fn verdicts(memory: &[Memory]) -> Vec<Verdict> {
    let programs = memory.chunk_by(|a, b| a.program.name == b.program.name);
    let verdict = |of: &[Memory]| Verdict {
        what: format!(
            "{}, {} ranks: memory, {} / {}",
            of[0].program.name, of[0].ranks, POLICIES[0], POLICIES[1]
        ),
        value: of[0].touched_kib.over(&of[1].touched_kib),
        at_most: MEMORY_AT_MOST,
    };
    programs.map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_demand_is_held_against_everybody_connected() {
        let mut memory = Memory::all(&Options::default());
        assert_eq!(memory.len(), PROGRAMS.len() * POLICIES.len());
        memory[0].touched_kib.add(Some(200.0));
        memory[1].touched_kib.add(Some(1000.0));
        memory[1].connections.add(Some(127.0));
        let verdicts = verdicts(&memory);
        assert_eq!(verdicts.iter().map(Verdict::word).collect::<Vec<_>>(), ["met", "not measured"]);
        assert!(text(&memory).contains("lu        static-parallel          127.0        1000.0\n"));
    }
}
