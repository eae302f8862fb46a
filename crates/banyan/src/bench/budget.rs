//! `banyan bench budget`: what it costs that processes may have few connections, and how long it takes to make one.
//!
//! Budgets exchange time for memory and queue pairs. How much time depends on the program: one whose processes talk to a few
//! others, always the same, should not notice; one in which everybody talks to everybody closes a connection for each one
//! that it opens. Both are measured, limit after limit in turn.
mod options;
mod plan;
mod report;

use super::counted::Counted;
use super::library::MEASURE;
use super::machine;
use super::progress::Progress;
use super::runner::Finished;
use super::sample::Sample;
use super::workshop::Source;
use options::{HELP, Options};
use plan::{Contact, Group};
use report::{ContactTimes, Cost, Report};
use serde_json::Value;
use std::path::PathBuf;

const BUDGET: Source =
    Source { name: "budget.c", text: include_str!("../../bench/budget.c"), headers: &[MEASURE] };

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average(); // before our own preparations
    let bench = Bench::new(options)?;
    let Options { ranks, nodes, common, groups, .. } = options;
    let mut costs: Vec<Cost> = Vec::new();
    if groups.contains(&Group::Costs) {
        costs.extend(options.limits().into_iter().map(Cost::new));
    }
    let mut contacts: Vec<ContactTimes> = Vec::new();
    if groups.contains(&Group::Contacts) {
        contacts.extend(Contact::ALL.map(ContactTimes::new));
    }
    for round in 0..common.rounds {
        bench.progress.round(round);
        in_turn(&mut costs, round, |cost| bench.cost(cost, round));
        in_turn(&mut contacts, round, |times| bench.contact(times, round));
    }
    Ok(Report { costs, contacts, ranks: *ranks, nodes: *nodes, rounds: common.rounds, load_before })
}

/// All of them once; each round begins with another one.
fn in_turn<T>(rows: &mut [T], round: usize, mut measure: impl FnMut(&mut T)) {
    let first = round % rows.len().max(1);
    let (early, late) = rows.split_at_mut(first);
    late.iter_mut().chain(early).for_each(&mut measure);
}

struct Bench<'a> {
    options: &'a Options,
    jobs: Counted,
    program: PathBuf,
    progress: Progress,
}

/// What a job said, and what its processes counted.
struct Outcome {
    finished: Finished,
    stats: Value,
}

impl Outcome {
    /// What the program said of it.
    fn value(&self, key: &str) -> Option<f64> {
        self.finished.values(key).first().copied()
    }

    /// A counter, summed up over processes as `how` says.
    fn counter(&self, name: &str, how: &str) -> Option<f64> {
        self.stats[name][how].as_f64()
    }
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Result<Self, String> {
        let prefix = options.common.workshop.banyan_prefix()?;
        let program =
            options.common.workshop.compile(&prefix.join("bin/mpicc"), BUDGET, &[], "budget-banyan")?;
        let jobs = Counted::new(prefix.join("bin/banyan"), "budget");
        Ok(Bench { options, jobs, program, progress: Progress::new(options.common.rounds) })
    }

    fn cost(&self, cost: &mut Cost, round: usize) {
        let (label, limit) = (cost.limit.label(), cost.limit.args());
        let run = |mode| self.run(round, mode, &label, &limit);
        let (alltoall, halo) = (run("alltoall"), run("halo"));
        cost.halo_us.add(halo.and_then(|halo| halo.value("halo_us")));
        let counter = |name, how| alltoall.as_ref().and_then(|outcome| outcome.counter(name, how));
        cost.alltoall_ms.add(alltoall.as_ref().and_then(|outcome| outcome.value("alltoall_ms")));
        cost.connections.add(counter("connections", "avg"));
        cost.connections_max.add(counter("connections", "max"));
        cost.reopenings.add(counter("reopenings", "avg"));
        cost.evictions.add(counter("evictions", "avg"));
        cost.touched_kib.add(counter("touched_bytes", "avg").map(|bytes| bytes / 1024.0));
    }

    fn contact(&self, times: &mut ContactTimes, round: usize) {
        let ContactTimes { contact, ready_us, first_us } = times;
        let outcome = self.run(round, contact.mode(), contact.label(), &contact.args(round));
        let add = |samples: &mut [Sample; 2], keys: [&str; 2]| {
            for (sample, key) in samples.iter_mut().zip(keys) {
                sample.add(outcome.as_ref().and_then(|outcome| outcome.value(key)));
            }
        };
        add(ready_us, ["ready_median", "ready_99"]);
        add(first_us, ["first_median", "first_99"]);
    }

    /// A job with these options of the launcher, if it comes to its end.
    fn run(&self, round: usize, mode: &str, label: &str, condition: &[String]) -> Option<Outcome> {
        let Options { ranks, nodes, common, .. } = self.options;
        self.progress.step(round, &format!("{mode}, {label}"));
        let mut command = self.jobs.command(*ranks, *nodes);
        command.args(condition).arg(&self.program).arg(mode);
        command.env("BENCH_LIMIT_S", (common.timeout.as_secs() + 30).to_string());
        let outcome = self.jobs.run(command, common.timeout).and_then(|(finished, stats)| {
            let stats = serde_json::from_str(&stats).map_err(|e| format!("the statistics: {e}"))?;
            Ok(Outcome { finished, stats })
        });
        outcome.map_err(|why| self.progress.note(&format!("{mode}, {label}: {why}"))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_measures_all_and_begins_with_another() {
        let order = |round| {
            let mut seen = Vec::new();
            in_turn(&mut [1, 2, 3], round, |row| seen.push(*row));
            seen
        };
        assert_eq!([order(0), order(1), order(5)], [[1, 2, 3], [2, 3, 1], [3, 1, 2]]);
        in_turn(&mut [], 1, |(): &mut ()| unreachable!());
    }
}
