//! `banyan bench`: what Banyan costs, beside other libraries (`peers`), other launchers (`launch`), the kinds of
//! its own bulletin board (`board`) and the bare machine (`limit`).
mod args;
mod board;
mod job;
mod launch;
mod library;
mod limit;
mod machine;
mod options;
mod peers;
mod progress;
mod report;
mod runner;
mod sample;
mod verdict;
mod workshop;

/// Dispatches to the benchmark.
pub fn main(args: &[String]) -> i32 {
    match args.split_first() {
        Some((what, rest)) if what == "peers" => peers::main(rest),
        Some((what, rest)) if what == "launch" => launch::main(rest),
        Some((what, rest)) if what == "board" => board::main(rest),
        Some((what, rest)) if what == board::RANK_COMMAND => board::rank_main(rest),
        Some((what, rest)) if what == "limit" => limit::main(rest),
        Some((what, _)) => crate::usage_error(&format!("'{what}' is not a benchmark ({KNOWN})")),
        None => crate::usage_error(&format!("bench needs a benchmark ({KNOWN})")),
    }
}

const KNOWN: &str = "peers, launch, board, limit";

/// Prints the table, writes the figures where they are wanted, and returns the exit code.
fn publish(text: &str, json: &serde_json::Value, file: Option<&std::path::Path>) -> i32 {
    print!("{text}");
    let Some(path) = file else { return 0 };
    match std::fs::write(path, format!("{json:#}\n")) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("bench: {}: {e}", path.display());
            1
        }
    }
}
