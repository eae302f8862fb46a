//! `banyan bench`: what Banyan costs, beside other libraries on one host (`peers`) and
//! between hosts (`net`), other launchers (`launch`), other libraries whose jobs start and meet others (`dynamic`), the
//! kinds of its own bulletin board (`board`), budgets of connections (`budget`), the ways of messages by their length
//! (`sizes`) and the bare machine (`limit`).
mod args;
mod board;
mod budget;
mod counted;
mod dynamic;
mod job;
mod launch;
mod library;
mod limit;
mod machine;
mod net;
mod options;
mod peers;
mod progress;
mod ratio;
mod report;
mod runner;
mod sample;
mod sizes;
mod table;
mod verdict;
mod workshop;

use args::Common;

/// Dispatches to the benchmark.
pub fn main(args: &[String]) -> i32 {
    match args.split_first() {
        Some((what, rest)) if what == "peers" => peers::main(rest),
        Some((what, rest)) if what == "launch" => launch::main(rest),
        Some((what, rest)) if what == "net" => net::main(rest),
        Some((what, rest)) if what == net::STRANGER_COMMAND => net::stranger_main(rest),
        Some((what, rest)) if what == "dynamic" => dynamic::main(rest),
        Some((what, rest)) if what == "board" => board::main(rest),
        Some((what, rest)) if what == board::RANK_COMMAND => board::rank_main(rest),
        Some((what, rest)) if what == "budget" => budget::main(rest),
        Some((what, rest)) if what == "sizes" => sizes::main(rest),
        Some((what, rest)) if what == "limit" => limit::main(rest),
        Some((what, _)) => crate::usage_error(&format!("'{what}' is not a benchmark ({KNOWN})")),
        None => crate::usage_error(&format!("bench needs a benchmark ({KNOWN})")),
    }
}

const KNOWN: &str = "peers, net, launch, dynamic, board, budget, sizes, limit";

/// Reads the command line of a benchmark and does what it says. Returns the exit code.
fn run<T>(
    args: &[String],
    help: &str,
    parse: fn(&[String]) -> Result<T, String>,
    bench: impl FnOnce(&T) -> Result<(), String>,
) -> i32 {
    if args.iter().any(|arg| arg == "--help") {
        sys::out::print(help);
        return 0;
    }
    let options = match parse(args) {
        Ok(options) => options,
        Err(what) => return crate::usage_error(&what),
    };
    if let Err(what) = bench(&options) {
        eprintln!("bench: {what}");
        return 1;
    }
    0
}

/// Prints the table and writes the figures where they are wanted.
fn publish(text: &str, json: &serde_json::Value, options: &Common) -> Result<(), String> {
    // First what stays: the reader of the table may have gone.
    let written = options.json.as_ref().map_or(Ok(()), |path| {
        std::fs::write(path, format!("{json:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
    });
    sys::out::print(text);
    written
}
