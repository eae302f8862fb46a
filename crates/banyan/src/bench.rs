//! `banyan bench`: what Banyan costs, beside other libraries (`peers`) and the bare machine (`limit`).
mod job;
mod library;
mod limit;
mod options;
mod peers;
mod report;
mod runner;
mod sample;

/// Dispatches to the benchmark.
pub fn main(args: &[String]) -> i32 {
    match args.split_first() {
        Some((what, rest)) if what == "peers" => peers::main(rest),
        Some((what, rest)) if what == "limit" => limit::main(rest),
        Some((what, _)) => crate::usage_error(&format!("'{what}' is not a benchmark (peers, limit)")),
        None => crate::usage_error("bench needs a benchmark: peers or limit"),
    }
}
