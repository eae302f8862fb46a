//! Connections of programs to data servers, and of data servers to programs.
use super::super::sample::{Sample, failure};
use super::super::verdict::Verdict;
use super::options::Options;
use super::papers::{self, Shape};
use super::{Bench, plan::Section};
use pgas_kernels::Program;
use serde_json::{Value, json};

/// A program whose connections grow like the nodes reaches nearly all of them.
const MISSING_AT_MOST: f64 = 0.15;
/// One whose connections do not: their growth beside that of the nodes, from the smallest job to the largest.
const GROWTH_AT_MOST: f64 = 0.75;
const LABEL_WIDTH: usize = 10;
const CELL_WIDTH: usize = 9;
const HEAD: &str = "
Connections on demand to data servers (medians of the averages of runs). Client-server: of a process to servers of other
nodes; memory of its own node is mapped, where in the paper it connects to that server too. Server-client: of a server to
processes of other nodes.
";

/// A program at a size.
#[derive(Clone, Debug)]
pub struct Count {
    program: &'static Program,
    ranks: usize,
    nodes: usize,
    client_server: Sample,
    server_client: Sample,
}

/// SIZE of a program: enough work for 128 processes.
pub fn size(program: &Program, quick: bool) -> usize {
    match program.name {
        _ if quick => program.size,
        "lu" => 512,
        "random" => 16,
        "lj" => 512,
        "stencil" => 200,
        _ => program.size,
    }
}

impl Count {
    /// Every program at every size, nothing counted yet.
    pub fn all(options: &Options) -> Vec<Count> {
        let count = |program, ranks| Count {
            program,
            ranks,
            nodes: options.nodes(ranks),
            client_server: Sample::default(),
            server_client: Sample::default(),
        };
        let of = |program: &&'static Program| {
            let program = *program;
            options.ranks.iter().map(move |ranks| count(program, *ranks)).collect::<Vec<_>>()
        };
        options.programs.iter().flat_map(of).collect()
    }

    /// Counts once more.
    pub fn run(&mut self, bench: &Bench<'_>) {
        let Count { program, ranks, nodes, .. } = *self;
        let what = format!("{}, {} ranks on {nodes} nodes", program.name, ranks);
        let size = size(program, bench.options.quick).to_string();
        let stats = bench.job(&what, (ranks, nodes), &["--data-server"], &[program.name.to_string(), size]);
        self.client_server.add(stats["servers"]["client_server_avg"].as_f64());
        self.server_client.add(stats["servers"]["server_client_avg"].as_f64());
    }

    /// Runs that gave nothing.
    pub fn failure(&self) -> Option<String> {
        let what = format!("{}, {}, {} ranks", Section::Connections.key(), self.program.name, self.ranks);
        failure(&what, [&self.client_server, &self.server_client])
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        json!({
            "program": self.program.name,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "client_server": self.client_server.json(),
            "server_client": self.server_client.json(),
        })
    }
}

/// One of the tables: its title, what was counted, and what the paper has.
type Counted = (&'static str, fn(&Count) -> &Sample, fn(&papers::Published) -> f64);

/// The tables for people.
pub fn text(counts: &[Count]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut text = HEAD.to_string();
    let tables: [Counted; 2] = [
        ("Client-server connections", |count| &count.client_server, |published| published.1),
        ("Server-client connections", |count| &count.server_client, |published| published.2),
    ];
    for (title, ours, theirs) in tables {
        text += &format!("\n{title}\n\n{}", header(counts));
        for of in counts.chunk_by(|a, b| a.program.name == b.program.name) {
            let cell = |count: &Count| {
                ours(count).median().map_or("failed".into(), |average| format!("{average:.1}"))
            };
            text += &row(of[0].program.name, of.iter().map(cell));
            let published = papers::published(of[0].program.name);
            let cell = |published: &papers::Published| format!("{} at {}", theirs(published), published.0);
            text += &format!(
                "{:<LABEL_WIDTH$}  {}\n",
                "  paper",
                published.iter().map(cell).collect::<Vec<_>>().join(", ")
            );
        }
    }
    text += "\nWhat they come from\n\n";
    for of in counts.chunk_by(|a, b| a.program.name == b.program.name) {
        text += &format!("{:<LABEL_WIDTH$}  {}\n", of[0].program.name, papers::reason(of[0].program.name));
    }
    text
}

fn header(counts: &[Count]) -> String {
    let first = counts.chunk_by(|a, b| a.program.name == b.program.name).next().unwrap_or(&[]);
    row("ranks", first.iter().map(|count| count.ranks.to_string()))
        + &row("nodes", first.iter().map(|count| count.nodes.to_string()))
}

fn row(label: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("{cell:>CELL_WIDTH$}")).collect();
    format!("{label:<LABEL_WIDTH$}{cells}\n")
}

/// Have the counts the paper's shape?
pub fn verdicts(counts: &[Count]) -> Vec<Verdict> {
    let programs = counts.chunk_by(|a, b| a.program.name == b.program.name);
    programs.filter_map(verdict).collect()
}

fn verdict(counts: &[Count]) -> Option<Verdict> {
    let few = counts.iter().min_by_key(|count| count.ranks)?;
    let many = counts.iter().max_by_key(|count| count.ranks)?;
    let name = few.program.name;
    let others = |count: &Count| count.nodes as f64 - 1.0;
    let average = |count: &Count| count.client_server.median();
    match papers::shape(name) {
        Shape::Linear => Some(Verdict {
            what: format!(
                "{name}, {} ranks: part of the other nodes' servers without a connection",
                many.ranks
            ),
            value: average(many).map(|average| 1.0 - average / others(many)),
            at_most: MISSING_AT_MOST,
        }),
        Shape::Sublinear if few.nodes < many.nodes => Some(Verdict {
            what: format!(
                "{name}, {} to {} ranks: growth of connections / growth of other nodes",
                few.ranks, many.ranks
            ),
            value: match (average(few), average(many)) {
                (Some(first), Some(last)) if first > 0.0 => Some(last / first / (others(many) / others(few))),
                _ => None,
            },
            at_most: GROWTH_AT_MOST,
        }),
        Shape::Sublinear => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, ranks: usize, nodes: usize, average: Option<f64>) -> Count {
        let sample = |value| {
            let mut sample = Sample::default();
            sample.add(value);
            sample
        };
        Count {
            program: pgas_kernels::find(name).unwrap(),
            ranks,
            nodes,
            client_server: sample(average),
            server_client: sample(average.map(|average| average * (ranks / nodes) as f64)),
        }
    }

    #[test]
    fn shapes_are_judged_by_growth_and_by_what_is_reached() {
        let counts = [
            count("lu", 16, 3, Some(1.8)),
            count("lu", 128, 22, Some(9.0)),
            count("lj", 16, 3, Some(2.0)),
            count("lj", 128, 22, Some(21.0)),
            count("random", 128, 22, Some(10.0)),
            count("stencil", 16, 3, None),
            count("stencil", 128, 22, Some(2.0)),
        ];
        let words: Vec<&str> = verdicts(&counts).iter().map(Verdict::word).collect();
        assert_eq!(words, ["met", "met", "MISSED", "not measured"]);
        assert!((verdicts(&counts)[0].value.unwrap() - 5.0 / 10.5).abs() < 1e-9);
        let text = text(&counts[..4]);
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with("ranks ")).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let table: Vec<String> = lines[at..at + 3].iter().map(|line| words(line)).collect();
        assert_eq!(table, ["ranks 16 128", "nodes 3 22", "lu 1.8 9.0"]);
        assert!(text.contains("  paper     12 at 128, 19 at 256, 25 at 512, 31 at 1024\n"), "{text}");
        assert_eq!(counts[5].failure().unwrap(), "connections, stencil, 16 ranks (1 of 1)");
    }
}
