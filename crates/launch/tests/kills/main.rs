//! Whatever is killed or stopped, whenever: nothing is left, and what happened is named.
//!
//! A test run takes a few events, the same ones each time. The campaign draws new ones:
//!
//! `BANYAN_SEED=random BANYAN_KILLS=2000 cargo test --release -p banyan-launch --test kills -- --nocapture`
//!
//! Every event is one job of 16 to 256 ranks on 1 to 16 nodes; half of the events come in its first 50 ms. The seed is
//! printed; as `BANYAN_SEED` it repeats a campaign. `BANYAN_KILL_RANKS` bounds the jobs, `BANYAN_KILL_PROGRAM` names a program
//! that runs for long (such as an MPI program) to be used besides those of the test, and `BANYAN_VERBOSE` tells
//! of each event.
#[path = "../common/mod.rs"]
mod common;
mod leftover;
mod plan;
mod watch;

use common::{Chance, Process, processes};
use leftover::Snapshot;
use plan::{Event, Hit, Plan, strike};
use std::time::Duration;
use watch::{Ended, Watched};

/// Events unless `BANYAN_KILLS` says otherwise.
const EVENTS_DEFAULT: u64 = 60;
/// What 99 of 100 events may take from the first word about them to the end of the launcher.
const CLEAN_UP_99_MAX: Duration = Duration::from_secs(1);
/// What any may take. Of a few events on a crowded machine nothing better can be said.
const CLEAN_UP_MAX: Duration = Duration::from_secs(60);
/// Events that make a campaign.
const CAMPAIGN_MIN: u64 = 500;
/// Failures that are told in full.
const TOLD_MAX: usize = 20;

/// What was found in all events together.
#[derive(Default)]
struct Tally {
    events: u64,
    ranks: u64,
    early: u64,
    orphans: usize,
    leftovers: usize,
    unnamed: usize,
    /// Events after which nobody was left who could name them.
    speechless: usize,
    hung: usize,
    wrong_codes: usize,
    clean_ups: Vec<Duration>,
    failures: Vec<String>,
}

#[test]
fn random_kills_and_stops_leave_nothing_and_are_named() {
    let mut chance = Chance::seeded();
    let events = plan::setting("BANYAN_KILLS", EVENTS_DEFAULT);
    let mut tally = Tally::default();
    for round in 0..events {
        let plan = Plan::draw(round, &mut chance);
        one_event(&plan, &mut chance, &mut tally);
    }
    tally.report();
    assert!(tally.failures.is_empty(), "{}", tally.failures[..tally.failures.len().min(TOLD_MAX)].join("\n"));
    let (slow, slowest) = (tally.percentile(99), tally.percentile(100));
    assert!(slowest <= CLEAN_UP_MAX, "clean-up took {slowest:?}");
    if events >= CAMPAIGN_MIN {
        assert!(slow <= CLEAN_UP_99_MAX, "clean-up took {slow:?} at the 99th percentile");
    }
}

/// One job, one event, all checks.
fn one_event(plan: &Plan, chance: &mut Chance, tally: &mut Tally) {
    let before = Snapshot::take();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut job = Watched::start(&plan.args(), folder.path());
    job.wait_for_launcher();
    std::thread::sleep(plan.delay); // the moment of the event is random on purpose
    let hit = strike(plan, &mut job, chance);
    let ended = job.end();
    let left = processes(&job.mark);
    job.kill_all();
    if std::env::var_os("BANYAN_VERBOSE").is_some() {
        println!("{plan}: hit {:?}, {:?}, {:?}", hit.pids(), ended.code, ended.clean_up());
    }
    tally.events += 1;
    tally.ranks += u64::from(plan.ranks);
    tally.early += u64::from(plan.is_early());
    tally.clean_ups.extend(ended.clean_up());
    tally.check(plan, &hit, &ended, &left);
    for file in before.new_files(folder.path(), &job.mark) {
        tally.leftovers += 1;
        tally.fail(plan, &hit, &ended, &format!("left {file}"));
    }
}

impl Tally {
    fn check(&mut self, plan: &Plan, hit: &Hit, ended: &Ended, left: &[Process]) {
        if !left.is_empty() {
            self.orphans += left.len();
            self.fail(plan, hit, ended, &format!("orphans: {left:?}"));
        }
        if ended.hung {
            self.hung += 1;
            self.fail(plan, hit, ended, "did not end");
            return;
        }
        if !code_is_right(plan, hit, ended) {
            self.wrong_codes += 1;
            self.fail(plan, hit, ended, "wrong exit code");
        }
        let named = is_named(plan, hit, ended);
        if !named && !hit.can_be_told {
            self.speechless += 1;
            println!("nobody could tell of it: launcher, warden and all agents were hit: {plan}");
        } else if !named {
            self.unnamed += 1;
            self.fail(plan, hit, ended, "the cause is not named");
        }
    }

    fn fail(&mut self, plan: &Plan, hit: &Hit, ended: &Ended, what: &str) {
        let Ended { code, text, .. } = ended;
        let told = format!("{what}; {plan}, hit {:?}, exit code {code:?}, said:\n{text}", hit.victims);
        println!("FAILURE: {told}");
        self.failures.push(told);
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.clean_ups.clone();
        times.sort_unstable();
        times.get((times.len().saturating_sub(1)) * percent / 100).copied().unwrap_or_default()
    }

    fn report(&self) {
        println!(
            "{} events ({} in the first 50 ms) on jobs of {} ranks in the mean: {} orphans, {} leftovers, {} unnamed \
             (and {} that nobody was left to name), {} wrong exit codes, {} hung; clean-up after {} detections: median {:?}, 99 % {:?}, longest {:?}",
            self.events,
            self.early,
            self.ranks / self.events.max(1),
            self.orphans,
            self.leftovers,
            self.unnamed,
            self.speechless,
            self.wrong_codes,
            self.hung,
            self.clean_ups.len(),
            self.percentile(50),
            self.percentile(99),
            self.percentile(100),
        );
    }
}

/// A killed launcher has no code; a job that nothing happened to ends well; all others do not.
fn code_is_right(plan: &Plan, hit: &Hit, ended: &Ended) -> bool {
    if hit.has_launcher() && plan.event.kills() {
        return ended.code.is_none();
    }
    if plan.event.is_harmless() {
        return ended.code == Some(0);
    }
    // A launcher that has only just been executed dies of a signal like any process.
    ended.code.is_some_and(|code| code != 0) || (hit.alone && ended.code.is_none())
}

/// Somebody said which process it was. Only a launcher killed before it had forked can go unnamed, and what is
/// no failure must not be called one.
fn is_named(plan: &Plan, hit: &Hit, ended: &Ended) -> bool {
    if plan.event.is_harmless() {
        return ended.detected.is_none();
    }
    if hit.alone {
        return true;
    }
    match plan.event {
        Event::StopRankAndEnd | Event::StopAgentAndEnd | Event::StopServerAndEnd => {
            ended.text.contains("signal 15")
        }
        _ => {
            let pids = hit.pids();
            pids.iter().chain(&hit.bereaved).any(|pid| ended.text.contains(&format!("(pid {pid}")))
        }
    }
}
