//! `banyan demo`: 8 ranks on 2 emulated nodes make a small tour, check its results, and show what it cost:
//! who connected to whom, memory per process beside a job in which everyone talks to everyone, and how long
//! each phase of start-up took.
//!
//! The demo starts this same executable as its ranks. They print what they saw, which the launcher collects,
//! instead of sending it: a message that collects facts about connections would make connections.
mod facts;
mod picture;
mod tour;

use facts::{JobFacts, RankFacts};
use launch::{JobSpec, Matrix, Output};
use proto::stats::Means;
use sys::say;

/// Ranks of the demo.
const RANKS: u32 = 8;
/// Emulated nodes they live on.
const NODES: u32 = 2;
/// How the demo starts its ranks: `banyan demo --rank TOUR`.
const RANK_OPTION: &str = "--rank";

const HELP: &str = "\
usage: banyan demo

8 ranks on 2 emulated nodes of this machine make a small tour, check its results, and show who connected to whom, what that
cost beside a job in which everyone talks to everyone, and how long each phase of start-up took.
";

/// Runs the demo, or one rank of it.
pub fn main(args: &[String]) -> i32 {
    if crate::commands::is_help(args, HELP) {
        return 0;
    }
    match args {
        [] => report(show()),
        [option, tour] if option == RANK_OPTION => report(tour::rank(tour)),
        [first, ..] => crate::usage_error(&format!("demo takes no arguments, got '{first}'")),
    }
}

fn report(result: Result<(), String>) -> i32 {
    let Err(what) = result else { return 0 };
    eprintln!("banyan demo: {what}");
    1
}

fn show() -> Result<(), String> {
    say!("Banyan demo: {RANKS} ranks on {NODES} emulated nodes of this machine\n");
    let tour = run(tour::TOUR)?;
    for line in picture::steps(&tour.ranks) {
        say!("{line}");
    }
    say!("\nWho connected to whom, and in which step first (. never):\n");
    sys::out::print(&picture::matrix(&tour.ranks));
    let crowd = run(tour::CROWD)?;
    say!("\nWhat it cost per process (average), beside the same with everyone connected to everyone:\n");
    sys::out::print(&picture::cost(&tour.job, &crowd.job));
    say!("\nHow long it took (of the ranks, the slowest):\n");
    sys::out::print(&picture::phases(&tour.job));
    tour.check_against(&crowd)?;
    say!("\nAll results are right.");
    Ok(())
}

/// A job that ended well.
struct Ran {
    ranks: Vec<RankFacts>,
    job: JobFacts,
    matrix: Option<Matrix>,
}

impl Ran {
    /// The point of it all: the tour needs fewer connections than there are peers.
    fn check_against(&self, crowd: &Ran) -> Result<(), String> {
        let (used, all) = (self.job.average("connections")?, crowd.job.average("connections")?);
        if all != f64::from(RANKS - 1) {
            return Err(format!("everyone talked to everyone over {all} connections per process"));
        }
        self.check_matrix()?;
        if used >= all {
            return Err(format!("the tour made {used} connections per process, as many as there can be"));
        }
        Ok(())
    }
}

impl Ran {
    /// What the ranks saw of their connections is what the launcher shows of any program's.
    fn check_matrix(&self) -> Result<(), String> {
        let matrix = self.matrix.as_ref().ok_or("the launcher does not say who was connected to whom")?;
        for (from, facts) in self.ranks.iter().enumerate() {
            let seen = facts.steps.last().map_or(&[][..], |step| &step.peers);
            let missing = seen.iter().find(|to| matrix.means(from, **to) == Means::default());
            if let Some(to) = missing {
                return Err(format!(
                    "rank {from} was connected to rank {to}, but the launcher does not know"
                ));
            }
        }
        Ok(())
    }
}

/// Runs one tour as a job.
fn run(tour: &str) -> Result<Ran, String> {
    let exe = std::env::current_exe().map_err(|e| format!("own executable: {e}"))?;
    let args = ["demo", RANK_OPTION, tour].map(Into::into).to_vec();
    let mut spec = JobSpec::new(exe, args, RANKS);
    spec.nodes = NODES;
    spec.output = Output::Capture;
    spec.matrix = true;
    let report = launch::run(&spec).map_err(|e| format!("the job '{tour}' could not be started: {e}"))?;
    if report.exit_code != 0 {
        let words = String::from_utf8_lossy(&report.stderr).into_owned();
        return Err(format!("the job '{tour}' ended with code {}\n{words}", report.exit_code));
    }
    let ranks = RankFacts::read_all(&String::from_utf8_lossy(&report.stdout))?;
    if ranks.len() != RANKS as usize {
        return Err(format!("{} of {RANKS} ranks of '{tour}' said what they saw", ranks.len()));
    }
    Ok(Ran { ranks, job: JobFacts::new(launch::stats_json(&report)), matrix: report.matrix })
}
