//! Many peers in virtual time: a net that loses, repeats and reorders, drivers that take their time, peers that do
//! not call the library for a while, budgets, devices that run out of queue pairs, connections that are closed and
//! opened again, and deaths. One number, the seed, decides everything about a run.
//!
//! `BANYAN_SEED=7 cargo test -p banyan-proto --lib simulate::one_run -- --nocapture` repeats one run and prints its
//! events. `BANYAN_TEST_RUNS=1000000 cargo test --release -p banyan-proto --lib simulate::many_runs -- --nocapture` makes
//! a million, on all cores, and tells how far it is.
mod world;

use super::*;
use crate::wireup::plant::Plant;
use std::ops::Range;
use std::string::String;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use world::{Body, Chance, Event, MS, Scene, World, ensure};

/// When faults have ended and everybody calls the library, all needs end within this time, and that much more for each
/// message that the busiest process has to do with.
const CALM_NS: u64 = 5_000 * MS;
const CALM_EACH_NS: u64 = 100 * MS;
/// Runs of the test, if nobody says how many.
const RUNS: u64 = 10_000;
/// One run in so many has 256 peers or more.
const LARGE_EVERY: u64 = 80;

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Each to some others.
    Random { each: u64 },
    /// Each to all others.
    All,
    /// All to one.
    Incast,
    /// Each to its neighbours, again and again.
    Ring { rounds: u64 },
}

/// Everything about one run.
#[derive(Clone, Debug)]
struct Plan {
    scene: Scene,
    pattern: Pattern,
    /// Sends are asked for within this time.
    within_ns: u64,
    offer_percent: u64,
    away_percent: u64,
    deaths: u64,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let chance = &mut Chance(seed);
        let size = match seed % LARGE_EVERY {
            0 => chance.from(256, 512),
            1..4 => chance.from(33, 96),
            4..20 => chance.from(9, 32),
            20..50 => chance.from(3, 8),
            _ => chance.from(2, 4),
        };
        let some = |chance: &mut Chance, percent, most| match chance.percent(percent) {
            true => chance.from(1, most),
            false => 0,
        };
        let limit = [0, 2, 2, 3, 4, 8, 16][chance.below(7) as usize];
        let per_node = chance.from(1, 8.min(size));
        let scene = Scene {
            size: size as u32,
            loss_percent: some(chance, 60, 40),
            copy_percent: some(chance, 60, 30),
            delay_max_ns: [20_000, 500_000, 5 * MS][chance.below(3) as usize],
            work_ns: [1_000, 100_000, MS][chance.below(3) as usize],
            refusal_percent: some(chance, 20, 30),
            close_percent: some(chance, 30, 90),
            streams: chance.percent(30),
            faults_until_ns: chance.from(100, 1000) * MS,
            budget: (if limit > 0 { 2 } else { 0 }, limit),
            per_node: per_node as u32,
            device: if chance.percent(25) { chance.from(2, 2 + 2 * per_node) as u32 } else { 0 },
            overlapped: seed.is_multiple_of(3),
            ahead: size <= 32 && seed.is_multiple_of(5),
            shared: seed.is_multiple_of(7),
            plant: None,
        };
        Plan {
            pattern: pattern(chance, size),
            within_ns: [100_000, 5 * MS, 50 * MS][chance.below(3) as usize],
            scene,
            offer_percent: some(chance, 50, 50),
            away_percent: some(chance, 50, 40),
            deaths: if chance.percent(20) { chance.from(1, 1 + size / 8) } else { 0 },
        }
    }

    /// Each process sends to some others, at different times; some are away for a while; some die.
    fn populate(&self, world: &mut World) {
        let size = u64::from(self.scene.size);
        for at in 0..size {
            if self.scene.ahead {
                world.schedule_within(self.within_ns, at as u32, Event::Ahead);
            }
            for _ in 0..self.sends(at) {
                let peer = self.receiver(&mut world.chance, at);
                let body = if world.chance.percent(self.offer_percent) { Body::Offer } else { Body::Plain };
                if peer != at {
                    world.schedule_within(self.within_ns, at as u32, Event::Send(peer as u32, body));
                }
            }
            if world.chance.percent(self.away_percent) {
                let (from, until) = (world.chance.below(self.within_ns), self.scene.faults_until_ns);
                let for_ns = world.chance.below(until - from);
                world.schedule(from, at as u32, Event::Away(for_ns));
            }
        }
        for _ in 0..self.deaths {
            let at = world.chance.below(size) as u32;
            world.schedule_within(100 * MS, at, Event::Dies);
        }
    }

    fn sends(&self, at: u64) -> u64 {
        let size = u64::from(self.scene.size);
        match self.pattern {
            Pattern::Random { each } => each,
            Pattern::All => 2 * size,
            Pattern::Incast => u64::from(at != 0),
            Pattern::Ring { rounds } => 2 * rounds,
        }
    }

    fn receiver(&self, chance: &mut Chance, at: u64) -> u64 {
        let size = u64::from(self.scene.size);
        match self.pattern {
            Pattern::Random { .. } | Pattern::All => chance.below(size),
            Pattern::Incast => 0,
            Pattern::Ring { .. } => (at + size + [1, size - 1][chance.below(2) as usize]) % size,
        }
    }

    /// When everything has to have ended.
    fn end_ns(&self) -> u64 {
        let size = u64::from(self.scene.size);
        // Twice: offers are answered.
        let busiest = match self.pattern {
            Pattern::Incast => 2 * size,
            _ => 4 * self.sends(1).max(8),
        };
        self.scene.faults_until_ns + CALM_NS + busiest * CALM_EACH_NS
    }
}

fn pattern(chance: &mut Chance, size: u64) -> Pattern {
    match chance.below(10) {
        0..2 if size <= 24 => Pattern::All,
        2..4 => Pattern::Incast,
        4..6 => Pattern::Ring { rounds: chance.from(1, 6) },
        _ => Pattern::Random { each: chance.from(1, if size < 100 { 10 } else { 4 }) },
    }
}

/// What a run tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    events: u64,
    ready: u64,
    reopened: u64,
    evicted: u64,
    crowded: u64,
    starved: u64,
    retransmits: u64,
    crossed: u64,
    stale: u64,
    closed: u64,
    crowded_longest_ns: u64,
    /// From the end of the faults to the end of the run.
    calm_longest_ns: u64,
}

impl Told {
    fn add(&mut self, other: &Told) {
        let Told { crowded_longest_ns, calm_longest_ns, .. } = *self;
        *self = Told {
            events: self.events + other.events,
            ready: self.ready + other.ready,
            reopened: self.reopened + other.reopened,
            evicted: self.evicted + other.evicted,
            crowded: self.crowded + other.crowded,
            starved: self.starved + other.starved,
            retransmits: self.retransmits + other.retransmits,
            crossed: self.crossed + other.crossed,
            stale: self.stale + other.stale,
            closed: self.closed + other.closed,
            crowded_longest_ns: crowded_longest_ns.max(other.crowded_longest_ns),
            calm_longest_ns: calm_longest_ns.max(other.calm_longest_ns),
        };
    }
}

fn run(seed: u64, plan: &Plan, trace: bool) -> Result<Told, String> {
    let mut world = World::new(seed, plan.scene.clone());
    world.trace = trace;
    plan.populate(&mut world);
    world.run(plan.end_ns())?;
    world.check_books();
    world.check_end()?;
    let calm_ns = world.now_ns.saturating_sub(plan.scene.faults_until_ns);
    let mut told = Told { events: world.events_made, calm_longest_ns: calm_ns, ..Told::default() };
    for process in &world.processes {
        let stats = process.wireup.stats();
        // A peer's nonsense is refused and counted; nobody talks nonsense here.
        ensure!(stats.refused == 0, "{} messages were refused", stats.refused);
        told.add(&Told {
            ready: stats.ready,
            reopened: stats.reopened,
            evicted: stats.evicted,
            crowded: stats.crowded,
            starved: stats.starved,
            retransmits: stats.retransmits,
            crossed: stats.crossed,
            stale: stats.stale,
            closed: stats.closed,
            crowded_longest_ns: stats.crowded_longest_ns,
            ..Told::default()
        });
    }
    Ok(told)
}

/// A run whose violation may also be a panic of the machine itself.
fn run_safely(seed: u64, plan: &Plan) -> Result<Told, String> {
    std::panic::catch_unwind(|| run(seed, plan, false)).unwrap_or_else(|payload| Err(words(&*payload)))
}

fn words(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").into()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: '{text}' is not a number")))
}

/// Makes the runs of these seeds on all cores.
fn campaign(seeds: Range<u64>, plan: impl Fn(u64) -> Plan + Sync) -> Told {
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let sum = Mutex::new(Told::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || failed.load(Ordering::Relaxed) {
                return;
            }
            match run_safely(seed, &plan(seed)) {
                Ok(told) => sum.lock().unwrap().add(&told),
                Err(violation) => {
                    failed.store(true, Ordering::Relaxed);
                    std::println!("violation with seed {seed}: {violation}\n{:?}", plan(seed));
                }
            }
            let done = seed - seeds.start + 1;
            if done.is_multiple_of(20_000) {
                std::println!("{done} of {} runs", seeds.end - seeds.start);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    assert!(!failed.into_inner(), "see above");
    sum.into_inner().unwrap()
}

/// The named command: see the head of this file.
#[test]
fn many_runs() {
    let runs = number("BANYAN_TEST_RUNS").unwrap_or(RUNS);
    let first = number("BANYAN_SEED").unwrap_or(0);
    let large = (first..first + runs).filter(|seed| seed % LARGE_EVERY == 0).count() as u64;
    let told = campaign(first..first + runs, Plan::of);
    std::println!("{runs} runs, {large} of them with 256 peers or more: {told:?}");
    assert!(runs < 1000 || large * 100 >= runs, "{large} large runs of {runs} are too few");
    let used = [told.evicted, told.reopened, told.crowded, told.starved, told.retransmits, told.crossed];
    assert!(runs < 1000 || used.iter().all(|count| *count > 1000), "hardly tried: {told:?}");
}

/// Repeats the run of one seed, and prints what happens if one was given.
#[test]
fn one_run() {
    let seed = number("BANYAN_SEED");
    let plan = Plan::of(seed.unwrap_or(0));
    if seed.is_some() {
        std::println!("{plan:?}");
    }
    let told = run(seed.unwrap_or(0), &plan, seed.is_some()).unwrap();
    assert_eq!(run(seed.unwrap_or(0), &plan, false), Ok(told), "the same seed, another run");
}

/// A run of the given size in which nothing goes wrong.
fn fair(size: u32, pattern: Pattern) -> Plan {
    let scene = Scene {
        size,
        loss_percent: 0,
        copy_percent: 0,
        delay_max_ns: 20_000,
        work_ns: 10_000,
        refusal_percent: 0,
        close_percent: 0,
        streams: false,
        faults_until_ns: 100 * MS,
        budget: (0, 0),
        per_node: 8,
        device: 0,
        overlapped: false,
        ahead: false,
        shared: false,
        plant: None,
    };
    Plan { scene, pattern, within_ns: 50 * MS, offer_percent: 0, away_percent: 0, deaths: 0 }
}

#[test]
fn nothing_is_stored_for_peers_that_nobody_uses() {
    let plan = fair(16, Pattern::Random { each: 0 });
    let mut world = World::new(1, plan.scene);
    world.schedule(0, 3, Event::Send(7, Body::Plain));
    world.run(10_000 * MS).unwrap();
    world.check_end().unwrap();
    let stored: usize = world.processes.iter().map(|process| process.wireup.peers.iter().count()).sum();
    assert_eq!(stored, 2);
}

#[test]
fn all_to_all_within_two_queue_pairs_each() {
    let mut plan = fair(24, Pattern::All);
    plan.scene.budget = (2, 2);
    let told = campaign(0..4, |_| plan.clone());
    assert!(told.evicted > 1000, "{told:?}");
}

#[test]
fn a_device_of_a_few_queue_pairs_serves_a_node() {
    let mut plan = fair(32, Pattern::Random { each: 20 });
    (plan.scene.device, plan.offer_percent) = (4, 30);
    let told = campaign(0..4, |_| plan.clone());
    assert!(told.starved > 1000 && told.evicted > 100, "{told:?}");
}

#[test]
fn talking_to_all_in_turn_keeps_to_the_budget() {
    let mut plan = fair(200, Pattern::Random { each: 0 });
    plan.scene.budget = (16, 16);
    let mut world = World::new(1, plan.scene);
    for peer in 1..200 {
        world.schedule(u64::from(peer) * 5 * MS, 0, Event::Send(peer, Body::Offer));
    }
    world.run(10_000 * MS).unwrap();
    world.check_end().unwrap();
    assert_eq!(world.processes[0].qps_peak, 16);
    assert!(world.processes[0].wireup.stats().evicted >= 199 - 16);
}

/// One peer after the other is met; the time until the connection is ready at both ends.
#[test]
fn what_is_lost_is_repaired_within_a_few_round_trips() {
    let mut plan = fair(400, Pattern::Random { each: 0 });
    (plan.scene.loss_percent, plan.scene.copy_percent) = (5, 5);
    plan.scene.faults_until_ns = u64::MAX;
    let mut world = World::new(1, plan.scene);
    let mut meet = |peer| {
        let since_ns = world.now_ns;
        world.schedule(0, 0, Event::Send(peer, Body::Plain));
        world.run(u64::MAX).unwrap();
        world.ready_ns - since_ns
    };
    let mut took_ns: Vec<u64> = (1..400).map(&mut meet).collect();
    took_ns.sort_unstable();
    let (median, most) = (took_ns[200], took_ns[395]);
    assert!(most > 2 * median, "nothing was lost");
    assert!(most <= 10 * median, "{most} against {median}");
    assert!(world.processes[0].wireup.stats().retransmits < 100);
}

/// Seeds that are tried to find a planted bug.
const SEARCH_MAX: u64 = 2000;

/// The bugs that others had, each planted, are found by some run; its seed is printed.
#[test]
fn planted_bugs_are_found() {
    use Plant::*;
    let plants = [
        RepeatedRequestDestroys,
        ReplyNeverResent,
        CrossedRequestsConnectTwice,
        StaleCloseKills,
        RetransmitStorm,
        StaleEpochReopens,
        PlaceFreeTooEarly,
        NoReserve,
        RefusalTriesTheNext,
        SharedPlaceGoesWithOne,
        NobodyWaitsForOthers,
        EvictionForgetsOffers,
        DrainDoesNotWait,
        NextRequestCutsStream,
    ];
    for plant in plants {
        let found = search(plant);
        let (seed, violation) = found.unwrap_or_else(|| panic!("{plant:?} was not found"));
        std::println!("{plant:?}: seed {seed}: {violation}");
        run(seed, &Plan::of(seed), false).expect("it is the planted bug");
    }
}

fn search(plant: Plant) -> Option<(u64, String)> {
    let small = (0..SEARCH_MAX).filter(|seed| seed % LARGE_EVERY > 0);
    { small }.find_map(|seed| {
        let mut plan = Plan::of(seed);
        plan.scene.plant = Some(plant);
        run_safely(seed, &plan).err().map(|violation| (seed, violation))
    })
}
