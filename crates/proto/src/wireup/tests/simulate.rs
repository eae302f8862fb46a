//! Many peers in virtual time: a net that loses, repeats and reorders, drivers that take their time, peers that do
//! not call the library for a while, and deaths. A seed decides everything; a failure prints it.
use super::*;
use std::collections::BTreeSet;

const MS: u64 = 1_000_000;
/// Needs begin within this time.
const NEEDS_WITHIN_NS: u64 = 50 * MS;
/// Far more than any run needs: a run that lasts longer has a need that never ends.
const END_NS: u64 = 60_000 * MS;

/// splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// What happens to one process at a time.
#[derive(Clone, Debug)]
enum Event {
    Need(Rank),
    Datagram(Datagram),
    Work(Action),
    /// The time that `poll_timeout` gave.
    Timeout,
    Dies,
    PeerDied(Rank),
}

#[derive(Clone, Copy, Debug)]
struct Weather {
    loss_percent: u64,
    copy_percent: u64,
    delay_max_ns: u64,
    /// Chance that a queue pair cannot be made just now.
    qp_failure_percent: u64,
    deaths: u32,
}

const FAIR: Weather =
    Weather { loss_percent: 0, copy_percent: 0, delay_max_ns: 20_000, qp_failure_percent: 0, deaths: 0 };

struct Process {
    wireup: Wireup,
    alive: bool,
    /// Outside the library until then: events wait.
    away_until_ns: u64,
    /// The queue pair to each peer, and what it is connected to.
    qps: BTreeMap<Rank, (u32, Option<u32>)>,
    needed: BTreeSet<Rank>,
    ready: BTreeSet<Rank>,
    failed: BTreeMap<Rank, String>,
}

struct Simulation {
    processes: Vec<Process>,
    /// By time, then by order of arrival in the queue: two runs with one seed are equal.
    events: BTreeMap<(u64, u64), (usize, Event)>,
    events_made: u64,
    now_ns: u64,
    chance: Chance,
    weather: Weather,
    qps_made: u32,
}

impl Simulation {
    fn new(seed: u64, size: u32, weather: Weather) -> Self {
        let process = |me| Process {
            wireup: Wireup::new(Config { seed: seed ^ u64::from(me), ..config(me, size) }),
            alive: true,
            away_until_ns: 0,
            qps: BTreeMap::new(),
            needed: BTreeSet::new(),
            ready: BTreeSet::new(),
            failed: BTreeMap::new(),
        };
        let processes = (0..size).map(process).collect();
        let (events, chance) = (BTreeMap::new(), Chance(seed));
        Self { processes, events, events_made: 0, now_ns: 0, chance, weather, qps_made: 0 }
    }

    fn schedule(&mut self, delay_ns: u64, at: usize, event: Event) {
        self.events_made += 1;
        self.events.insert((self.now_ns + delay_ns, self.events_made), (at, event));
    }

    fn schedule_within(&mut self, bound_ns: u64, at: usize, event: Event) {
        let delay_ns = self.chance.below(bound_ns);
        self.schedule(delay_ns, at, event);
    }

    /// Each process needs some others, at different times; some are away for a while; some die.
    fn populate(&mut self, needs_each: u64) {
        let size = self.processes.len();
        for at in 0..size {
            for _ in 0..needs_each {
                let peer = Rank(self.chance.below(size as u64) as u32);
                if peer.index() != at {
                    self.processes[at].needed.insert(peer);
                    self.schedule_within(NEEDS_WITHIN_NS, at, Event::Need(peer));
                }
            }
            if self.chance.percent(20) {
                self.processes[at].away_until_ns = self.chance.below(2000 * MS);
            }
        }
        for _ in 0..self.weather.deaths {
            let at = self.chance.below(size as u64) as usize;
            self.schedule_within(2 * NEEDS_WITHIN_NS, at, Event::Dies);
        }
    }

    fn run(&mut self) {
        while let Some(((time_ns, _), (at, event))) = self.events.pop_first() {
            assert!(time_ns < END_NS, "still at work: {event:?} at {at}");
            self.now_ns = time_ns;
            let away_until_ns = self.processes[at].away_until_ns;
            if !self.processes[at].alive {
                continue;
            }
            if time_ns < away_until_ns && !matches!(event, Event::Dies) {
                self.schedule(away_until_ns - time_ns, at, event);
                continue;
            }
            self.happen(at, event);
        }
    }

    fn happen(&mut self, at: usize, event: Event) {
        let now = self.now_ns;
        let process = &mut self.processes[at];
        match event {
            Event::Need(peer) => self.need(at, peer),
            Event::Datagram(datagram) => process.wireup.datagram(datagram.as_bytes(), now).unwrap(),
            Event::Work(action) => self.work(at, action),
            Event::Timeout => process.wireup.tick(now),
            Event::Dies => return self.die(at),
            Event::PeerDied(peer) => process.wireup.peer_died(peer, "killed by signal 9"),
        }
        self.after(at);
    }

    fn need(&mut self, at: usize, peer: Rank) {
        let process = &mut self.processes[at];
        if let Err(error) = process.wireup.need(peer, self.now_ns) {
            let NeedError::Lost { why, .. } = error else { panic!("{error}") };
            process.failed.insert(peer, why);
        }
    }

    fn die(&mut self, dead: usize) {
        self.processes[dead].alive = false;
        for at in 0..self.processes.len() {
            self.schedule_within(100 * MS, at, Event::PeerDied(Rank(dead as u32)));
        }
        // Its own notice does not reach it.
    }

    /// The driver's work is done now.
    fn work(&mut self, at: usize, action: Action) {
        let (now, process) = (self.now_ns, &mut self.processes[at]);
        match action {
            Action::CreateQp { peer } if self.chance.percent(self.weather.qp_failure_percent) => {
                process.wireup.qp_failed(peer, "no queue pair left").unwrap();
            }
            Action::CreateQp { peer } => {
                self.qps_made += 1;
                let before = process.qps.insert(peer, (self.qps_made, None));
                assert_eq!(before, None, "two live queue pairs from {at} to {peer}");
                let mut params = [0; 32];
                params[..4].copy_from_slice(&self.qps_made.to_le_bytes());
                process.wireup.qp_ready(peer, Params(params), now).unwrap();
            }
            Action::Connect { peer, params, card } => {
                assert_eq!(card, config(peer.0, 2).card);
                let remote = u32::from_le_bytes(params.0[..4].try_into().unwrap());
                process.qps.get_mut(&peer).expect("a queue pair to connect").1 = Some(remote);
                process.wireup.connected(peer, now).unwrap();
            }
            Action::Destroy { peer } => {
                process.qps.remove(&peer).expect("a queue pair to destroy");
            }
            Action::Lookup { peer } => process.wireup.card(peer, config(peer.0, 2).card, now).unwrap(),
            other => panic!("{other:?} takes no time"),
        }
    }

    /// Carries the actions out, and sets the alarm.
    fn after(&mut self, at: usize) {
        while let Some(action) = self.processes[at].wireup.poll_action() {
            match action {
                Action::Send { peer, card, datagram } => {
                    assert_eq!(card, config(peer.0, 2).card);
                    self.send(peer.index(), datagram);
                }
                Action::Ready { peer } => {
                    assert!(self.processes[at].ready.insert(peer), "ready twice");
                }
                Action::Failed { peer, why } => self.failed(at, peer, why),
                // In order, as a driver works: the same delay for all.
                work @ (Action::CreateQp { .. } | Action::Connect { .. } | Action::Destroy { .. }) => {
                    self.schedule(MS, at, Event::Work(work));
                }
                lookup => self.schedule_within(2 * MS, at, Event::Work(lookup)),
            }
        }
        if let Some(due_ns) = self.processes[at].wireup.poll_timeout() {
            self.schedule(due_ns.saturating_sub(self.now_ns), at, Event::Timeout);
        }
    }

    fn failed(&mut self, at: usize, peer: Rank, why: String) {
        if why == "no queue pair left" {
            // Whoever needs it tries again.
            if self.processes[at].needed.contains(&peer) {
                self.schedule(10 * MS, at, Event::Need(peer));
            }
            return;
        }
        self.processes[at].failed.insert(peer, why);
    }

    fn send(&mut self, to: usize, datagram: Datagram) {
        let copies = if self.chance.percent(self.weather.copy_percent) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.chance.percent(self.weather.loss_percent) {
                self.schedule_within(self.weather.delay_max_ns, to, Event::Datagram(datagram));
            }
        }
    }

    /// Everybody got what was needed, or a reason, and both ends agree about each connection.
    fn check_end(&self) {
        for (at, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            for peer in &process.needed {
                let dead = !self.processes[peer.index()].alive;
                match process.failed.get(peer) {
                    Some(why) => assert!(dead && why == "killed by signal 9", "{at} to {peer}: {why}"),
                    None => assert!(!dead && process.ready.contains(peer), "{at} to {peer}: no end"),
                }
            }
            for (peer, (number, connected_to)) in &process.qps {
                assert_eq!(process.wireup.state(*peer), StateName::Ready, "{at} to {peer} is half open");
                let theirs = self.processes[peer.index()].qps.get(&Rank(at as u32));
                assert_eq!(theirs.map(|qp| (Some(qp.0), qp.1)), Some((*connected_to, Some(*number))));
            }
            assert_eq!(process.wireup.poll_timeout(), None);
            assert_eq!(process.wireup.stats().refused, 0);
        }
    }

    /// Peers stored anywhere, and pairs that somebody needed.
    fn stored_and_needed(&self) -> (usize, usize) {
        let stored = self.processes.iter().map(|process| process.wireup.peers.len()).sum();
        let pair = |at: usize, peer: Rank| (at.min(peer.index()), at.max(peer.index()));
        let needs = self.processes.iter().enumerate();
        let pairs: BTreeSet<_> =
            needs.flat_map(|(at, process)| process.needed.iter().map(move |&peer| pair(at, peer))).collect();
        (stored, pairs.len())
    }
}

fn simulate(seeds: std::ops::Range<u64>, size: u32, needs_each: u64, weather: Weather) -> Stats {
    let mut sum = Stats::default();
    for seed in seeds {
        let result = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed, size, weather);
            simulation.populate(needs_each);
            simulation.run();
            simulation.check_end();
            if weather.deaths == 0 {
                let (stored, needed) = simulation.stored_and_needed();
                assert_eq!(stored, 2 * needed, "something is stored for a peer that nobody needed");
            }
            simulation.processes.iter().map(|process| process.wireup.stats()).collect::<Vec<_>>()
        });
        let Ok(stats) = result else { panic!("seed {seed}, {size} processes, {weather:?}") };
        for one in stats {
            sum.retransmits += one.retransmits;
            sum.crossed += one.crossed;
            sum.stale += one.stale;
            sum.ready += one.ready;
        }
    }
    sum
}

#[test]
fn nothing_is_stored_for_peers_that_nobody_needs() {
    let mut simulation = Simulation::new(1, 16, FAIR);
    simulation.schedule(0, 3, Event::Need(Rank(7)));
    simulation.processes[3].needed.insert(Rank(7));
    simulation.run();
    simulation.check_end();
    assert_eq!(simulation.stored_and_needed(), (2, 1));
}

#[test]
fn storms_of_loss_copies_and_reordering() {
    let storm = Weather { loss_percent: 40, copy_percent: 20, delay_max_ns: 5 * MS, ..FAIR };
    let sum = simulate(0..60, 12, 6, storm);
    assert!(sum.retransmits > 0 && sum.crossed > 0 && sum.stale > 0, "no storm: {sum:?}");
}

#[test]
fn queue_pairs_run_out_now_and_then() {
    let scarce = Weather { qp_failure_percent: 30, loss_percent: 10, ..FAIR };
    assert!(simulate(100..140, 10, 5, scarce).ready > 0);
}

#[test]
fn deaths_end_every_need_of_the_dead_with_the_reason() {
    let war = Weather { loss_percent: 20, copy_percent: 10, delay_max_ns: 5 * MS, deaths: 3, ..FAIR };
    assert!(simulate(200..260, 12, 6, war).ready > 0);
}

#[test]
fn all_to_all_among_many() {
    simulate(300..301, 64, 300, Weather { loss_percent: 5, ..FAIR });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let storm = Weather { loss_percent: 40, copy_percent: 20, delay_max_ns: 5 * MS, ..FAIR };
    assert_eq!(simulate(7..9, 12, 6, storm), simulate(7..9, 12, 6, storm));
}
