//! `banyan bench`: what Banyan costs, beside other libraries on one host (`peers`) and
//! between hosts (`net`), other launchers (`launch`), other libraries whose jobs start and meet others (`dynamic`) or
//! whose processes access windows (`rma`), libraries with ARMCI's interface and programs on global arrays (`pgas`), the kinds of its own bulletin board (`board`), budgets of connections
//! (`budget`), connections of programs beside published counts (`connect`), the ways of messages by their length (`sizes`),
//! an RDMA device (`verbs`) and the bare machine (`limit`).
mod args;
mod board;
mod budget;
mod connect;
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
mod pgas;
mod progress;
mod ratio;
mod report;
mod rma;
mod runner;
mod sample;
mod sizes;
mod table;
mod verbs;
mod verdict;
mod workshop;

use args::Common;

type Main = fn(&[String]) -> i32;

/// What can be measured, with what is said about it and who does it.
const KNOWN: [(&str, &str, Main); 12] = [
    (
        "peers",
        "messages, collectives, start-up and memory beside other MPI libraries on this host",
        peers::main,
    ),
    ("net", "messages and connections between hosts made for it, beside other libraries", net::main),
    ("rma", "operations on windows on this host and between hosts, beside other libraries", rma::main),
    ("pgas", "ARMCI's operations beside another library, and connections to data servers", pgas::main),
    ("launch", "how fast jobs start, beside other launchers", launch::main),
    ("dynamic", "jobs that start and meet others, beside MPICH", dynamic::main),
    ("board", "the kinds of the bulletin board", board::main),
    ("budget", "what few connections cost", budget::main),
    ("connect", "how many connections programs need, beside published counts", connect::main),
    ("sizes", "the ways of messages by their length", sizes::main),
    ("verbs", "an RDMA device, and messages through it beside perftest", verbs::main),
    ("limit", "what the bare machine allows", limit::main),
];

/// Dispatches to the benchmark.
pub fn main(args: &[String]) -> i32 {
    let Some((what, rest)) = args.split_first() else {
        return crate::usage_error(&format!("bench needs a benchmark ({})", names()));
    };
    match what.as_str() {
        "--help" | "-h" | "help" => {
            sys::out::print(&help());
            0
        }
        net::STRANGER_COMMAND => net::stranger_main(rest),
        verbs::NUMBERS_COMMAND => verbs::numbers_main(rest),
        board::RANK_COMMAND => board::rank_main(rest),
        connect::RANK_COMMAND => connect::rank_main(rest),
        pgas::RANK_COMMAND => pgas::rank_main(rest),
        name => match KNOWN.iter().find(|(known, ..)| *known == name) {
            Some((.., main)) => main(rest),
            None => crate::usage_error(&format!("'{what}' is not a benchmark ({})", names())),
        },
    }
}

/// Their names.
pub fn names() -> String {
    KNOWN.map(|(name, ..)| name).join(", ")
}

/// A line for each.
pub fn list(indent: &str) -> String {
    KNOWN.map(|(name, about, _)| format!("{indent}{name:<9} {about}\n")).concat()
}

fn help() -> String {
    format!(
        "usage: banyan bench WHAT [OPTIONS]\n\n{}\n`banyan bench WHAT --help` lists the options.\n",
        list("  ")
    )
}

/// Reads the command line of a benchmark and does what it says. Returns the exit code.
fn run<T>(
    args: &[String],
    help: &str,
    parse: fn(&[String]) -> Result<T, String>,
    bench: impl FnOnce(&T) -> Result<(), String>,
) -> i32 {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
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
