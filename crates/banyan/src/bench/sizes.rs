//! `banyan bench sizes`: how long messages of each length take on each way inside a host. The thresholds of
//! `proto::transfer` come from this table.
use super::args::{Common, each};
use super::library::{Library, MICRO, Name};
use super::machine;
use super::progress::Progress;
use super::runner;
use super::sample::{Sample, number};
use proto::env;
use serde_json::{Value, json};
use std::fmt::Write;

/// What `--help` prints.
const HELP: &str = "\
usage: banyan bench sizes [OPTIONS]

Half a round trip between two processes of this host, in microseconds, by the length of the message and the way that it
takes; buffers are rewritten before each send and read after it. Ways take turns, round by round:

  auto      as Banyan chooses
  eager     without asking, where a ring takes it (to 64 KiB)
  read      offered, and read by the receiver alone
  stream    offered, and copied by both through a ring
  share     offered; the receiver reads one half, the sender writes the other
  copied    as Banyan chooses where the memory of other processes cannot be read

  --rounds N        times that everything is measured (default 7)
  --quick           once
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where the program is built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 60)
";

/// A way, and the variables that have messages take it.
struct Way {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// The longest message that can take it.
    most: usize,
}

const WAYS: [Way; 6] = [
    Way { name: "auto", env: &[], most: usize::MAX },
    Way { name: "eager", env: &[(env::EAGER_MAX, "65536")], most: 64 << 10 },
    Way { name: "read", env: &[(env::EAGER_MAX, "0"), (env::LONG, "read")], most: usize::MAX },
    Way { name: "stream", env: &[(env::EAGER_MAX, "0"), (env::LONG, "stream")], most: usize::MAX },
    Way { name: "share", env: &[(env::EAGER_MAX, "0"), (env::LONG, "share")], most: usize::MAX },
    Way { name: "copied", env: &[(env::CMA, "off")], most: usize::MAX },
];

/// Shorter messages always go without asking. As in `bench/micro.c`.
const SIZES: [usize; 11] = [
    8 << 10,
    12 << 10,
    16 << 10,
    24 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    4 << 20,
];

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, parse, |common| {
        let table = measure(common)?;
        super::publish(&table.text(), &table.json(), common)
    })
}

fn parse(args: &[String]) -> Result<Common, String> {
    let mut common = Common::building(7, 60);
    each(args, |arg, value| match arg {
        "--quick" => {
            common.rounds = 1;
            Ok(())
        }
        _ => common.take("sizes", arg, value),
    })?;
    Ok(common)
}

/// Medians in microseconds, by way and length.
struct Table {
    cells: Vec<Vec<Sample>>,
    rounds: usize,
    load_before: f64,
}

fn measure(common: &Common) -> Result<Table, String> {
    let load_before = machine::load_average(); // before our own preparations
    let banyan = Library::prepare(Name::Banyan, MICRO, &common.workshop, common.timeout)?;
    let mut cells = vec![vec![Sample::default(); SIZES.len()]; WAYS.len()];
    let progress = Progress::new(common.rounds);
    for round in 0..common.rounds {
        progress.round(round);
        for turn in 0..WAYS.len() {
            let at = (turn + round) % WAYS.len(); // each round begins with another one
            let way = &WAYS[at];
            progress.step(round, way.name);
            let mut command = banyan.command("sizes", 2);
            command.envs(way.env.iter().copied());
            command.env("BENCH_LIMIT_S", (common.timeout.as_secs() + 30).to_string());
            let outcome = runner::run(command, common.timeout);
            if let Err(why) = &outcome {
                progress.note(&format!("{}: {why}", way.name));
            }
            for (cell, bytes) in cells[at].iter_mut().zip(SIZES) {
                let values =
                    outcome.as_ref().ok().map(|finished| finished.values(&format!("latency_{bytes}")));
                cell.add(values.and_then(|values| values.first().copied()));
            }
        }
    }
    Ok(Table { cells, rounds: common.rounds, load_before })
}

impl Table {
    /// The median of a way at a length, if messages of that length can take it.
    fn median(&self, way: usize, size: usize) -> Option<f64> {
        self.cells[way][size].median().filter(|_| SIZES[size] <= WAYS[way].most)
    }

    fn text(&self) -> String {
        let mut out =
            format!("half a round trip in us, medians of {} rounds; * is the fastest\n\n", self.rounds);
        let names: String = WAYS.iter().map(|way| format!(" {:>9}", way.name)).collect();
        let _ = writeln!(out, "{:>9}{names}", "bytes");
        for (size, bytes) in SIZES.iter().enumerate() {
            let medians: Vec<Option<f64>> = (0..WAYS.len()).map(|way| self.median(way, size)).collect();
            // What Banyan chooses is one of the others.
            let best = medians[1..].iter().flatten().copied().fold(f64::INFINITY, f64::min);
            let _ = write!(out, "{bytes:>9}");
            for (way, median) in medians.into_iter().enumerate() {
                let mark = if way > 0 && median == Some(best) { "*" } else { "" };
                let cell = median.map_or("-".into(), |us| format!("{}{mark}", number(us)));
                let _ = write!(out, " {cell:>9}");
            }
            out.push('\n');
        }
        let _ = write!(out, "\nload average before: {:.2}\n", self.load_before);
        out
    }

    fn json(&self) -> Value {
        let of_way = |(way, cells): (&Way, &Vec<Sample>)| {
            let by_size = cells.iter().zip(SIZES).map(|(cell, bytes)| (bytes.to_string(), cell.json()));
            (way.name.to_string(), Value::Object(by_size.collect()))
        };
        let ways: serde_json::Map<String, Value> = WAYS.iter().zip(&self.cells).map(of_way).collect();
        json!({ "unit": "us", "rounds": self.rounds, "load_before": self.load_before, "ways": ways })
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::mistakes_are_named;
    use super::*;

    fn table(us: [f64; WAYS.len()]) -> Table {
        let of = |us: f64| {
            let mut sample = Sample::default();
            sample.add(Some(us));
            vec![sample; SIZES.len()]
        };
        Table { cells: us.map(of).to_vec(), rounds: 1, load_before: 0.0 }
    }

    #[test]
    fn the_fastest_way_is_marked_where_messages_can_take_it() {
        let text = table([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).text();
        let line = |bytes: &str| {
            let mut lines = text.lines().map(str::trim_start);
            lines
                .find(|line| line.starts_with(bytes))
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(line("8192 "), "8192 1.00 2.00* 3.00 4.00 5.00 6.00");
        assert_eq!(line("1048576 "), "1048576 1.00 - 3.00* 4.00 5.00 6.00");
    }

    #[test]
    fn the_program_measures_these_lengths() {
        let program = include_str!("../../bench/micro.c");
        let list = program.split("LENGTHS[] = {").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
        let lengths: Vec<usize> = list.split(',').map(|bytes| bytes.trim().parse().unwrap()).collect();
        assert_eq!(lengths, SIZES);
    }

    #[test]
    fn variables_are_those_that_the_library_reads() {
        for (name, value) in WAYS.iter().flat_map(|way| way.env) {
            let known = env::VARIABLES.iter().find(|variable| variable.name == *name);
            assert!(known.is_some(), "{name}={value}");
        }
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(parse, &[("--ways auto", "'--ways'")]);
    }
}
