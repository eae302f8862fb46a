//! Many peers in virtual time: a net that loses, repeats and reorders, drivers that take their time, peers that do
//! not call the library for a while, connections that are closed and opened again, and deaths. A seed decides
//! everything; a failure prints it.
use super::*;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
/// Sends are asked for within this time.
const SENDS_WITHIN_NS: u64 = 50 * MS;
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

/// What happens to one process at a time. Peers are meant by rank.
#[derive(Clone, Debug)]
enum Event {
    Send(u32),
    Close(u32),
    Datagram(Datagram),
    Work(Action<&'static str>),
    /// The time that `poll_timeout` gave.
    Timeout,
    Dies,
    PeerDied(u32),
}

#[derive(Clone, Copy, Debug)]
struct Weather {
    loss_percent: u64,
    copy_percent: u64,
    delay_max_ns: u64,
    /// Chance that a queue pair is not to be had just now.
    refusal_percent: u64,
    /// Chance that one side of a connection that became ready closes it after a while.
    close_percent: u64,
    /// Pairs of an even and an odd rank use streams.
    streams: bool,
    deaths: u32,
}

const FAIR: Weather = Weather {
    loss_percent: 0,
    copy_percent: 0,
    delay_max_ns: 20_000,
    refusal_percent: 0,
    close_percent: 0,
    streams: false,
    deaths: 0,
};
const STORM: Weather = Weather { loss_percent: 40, copy_percent: 20, delay_max_ns: 5 * MS, ..FAIR };

/// What an endpoint keeps for one peer.
#[derive(Default)]
struct Link {
    /// The queue pair, and what it is connected to.
    qp: Option<(u32, Option<u32>)>,
    /// Is it about to be destroyed?
    doomed: bool,
    queued: u32,
    asked: u32,
    received: u32,
    failed: Option<&'static str>,
}

struct Process {
    wireup: Machine,
    alive: bool,
    /// Outside the library until then: events wait.
    away_until_ns: u64,
    links: BTreeMap<u32, Link>,
}

impl Process {
    fn link(&mut self, peer: u32) -> &mut Link {
        self.links.entry(peer).or_default()
    }

    fn rank_of(&self, ix: PeerIx) -> u32 {
        self.wireup.who(ix).and_then(Peer::rank).expect("a rank").0
    }
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
            links: BTreeMap::new(),
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

    /// Each process sends to some others, at different times; some are away for a while; some die.
    fn populate(&mut self, sends_each: u64) {
        let size = self.processes.len();
        for at in 0..size {
            for _ in 0..sends_each {
                let peer = self.chance.below(size as u64) as u32;
                if peer as usize != at {
                    self.schedule_within(SENDS_WITHIN_NS, at, Event::Send(peer));
                }
            }
            if self.chance.percent(20) {
                self.processes[at].away_until_ns = self.chance.below(2000 * MS);
            }
        }
        for _ in 0..self.weather.deaths {
            let at = self.chance.below(size as u64) as usize;
            self.schedule_within(2 * SENDS_WITHIN_NS, at, Event::Dies);
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
            Event::Send(peer) => self.ask(at, peer),
            Event::Close(peer) => {
                let ix = process.wireup.find(rank(peer)).expect("it was ready");
                // It may have been closed, or lost, meanwhile.
                let _ = process.wireup.close(ix, now);
            }
            Event::Datagram(datagram) => process.wireup.datagram(datagram.as_bytes(), now).unwrap(),
            Event::Work(action) => self.work(at, action),
            Event::Timeout => process.wireup.tick(now),
            Event::Dies => return self.die(at),
            Event::PeerDied(peer) => {
                let ix = process.wireup.intern(rank(peer)).unwrap();
                process.wireup.broken(ix, "killed by signal 9");
            }
        }
        self.after(at);
    }

    /// Somebody wants to send.
    fn ask(&mut self, at: usize, peer: u32) {
        let process = &mut self.processes[at];
        process.link(peer).asked += 1;
        let ix = process.wireup.intern(rank(peer)).unwrap();
        match process.wireup.need(ix, self.now_ns) {
            Ok(Progress::Ready) => self.transmit(at, peer, 1),
            Ok(Progress::Pending) => process.link(peer).queued += 1,
            Err(error) => assert!(matches!(error, NeedError::Lost { .. }), "{error}"),
        }
    }

    /// Puts sends into the peer's queue pair, which has to be there to take them in.
    fn transmit(&mut self, at: usize, peer: u32, sends: u32) {
        let (_, to) = self.processes[at].link(peer).qp.expect("a queue pair");
        let other = &mut self.processes[peer as usize];
        if other.alive {
            let link = other.link(at as u32);
            let live = link.qp.filter(|_| !link.doomed).map(|(number, _)| number);
            assert!(to.is_some() && to == live, "a send from {at} to {peer} is lost: {to:?}, {live:?}");
            link.received += sends;
        }
    }

    fn die(&mut self, dead: usize) {
        self.processes[dead].alive = false;
        for at in (0..self.processes.len()).filter(|at| *at != dead) {
            self.schedule_within(100 * MS, at, Event::PeerDied(dead as u32));
        }
    }

    fn medium(&self, at: usize, peer: u32) -> Medium {
        let streams = self.weather.streams && (at as u32 + peer) % 2 == 1;
        if streams { Medium::Stream } else { Medium::Datagrams }
    }

    /// The driver's work is done now.
    fn work(&mut self, at: usize, action: Action<&'static str>) {
        let (now, ix) = (self.now_ns, action.ix().expect("no budget"));
        let process = &mut self.processes[at];
        let peer = process.rank_of(ix);
        match action {
            Action::CreateQp { .. } if self.chance.percent(self.weather.refusal_percent) => {
                process.wireup.qp_refused(ix, "no queue pair left", now).unwrap();
            }
            Action::CreateQp { .. } => {
                self.qps_made += 1;
                let before = process.link(peer).qp.replace((self.qps_made, None));
                assert_eq!(before, None, "two live queue pairs from {at} to {peer}");
                let mut params = [0; 32];
                params[..4].copy_from_slice(&self.qps_made.to_le_bytes());
                let medium = self.medium(at, peer);
                self.processes[at].wireup.qp_ready(ix, Params(params), medium, now).unwrap();
            }
            Action::Connect { params, card, .. } => {
                assert_eq!(card, card_of(peer));
                let remote = u32::from_le_bytes(params.0[..4].try_into().unwrap());
                let qp = process.link(peer).qp.as_mut();
                qp.expect("a queue pair to connect").1 = Some(remote);
                process.wireup.connected(ix, now).unwrap();
            }
            Action::Drain { .. } => process.wireup.drained(ix, now).unwrap(),
            Action::Destroy { .. } => {
                let link = process.link(peer);
                link.qp.take().expect("a queue pair to destroy");
                link.doomed = false;
            }
            Action::Lookup { .. } => process.wireup.card(ix, card_of(peer), now).unwrap(),
            other => panic!("{other:?} takes no time"),
        }
    }

    /// Carries the actions out, and sets the alarm.
    fn after(&mut self, at: usize) {
        while let Some(action) = self.processes[at].wireup.poll_action() {
            let process = &mut self.processes[at];
            let peer = process.rank_of(action.ix().expect("no budget"));
            match action {
                Action::Send { card, datagram, .. } => {
                    assert_eq!(card, card_of(peer));
                    self.send(at, peer, datagram);
                }
                Action::Ready { name, .. } => self.ready(at, peer, name),
                Action::Closed { .. } => {}
                Action::Failed { why, .. } => {
                    let link = process.link(peer);
                    assert_eq!(link.failed.replace(why), None, "failed twice");
                    link.queued = 0;
                }
                // In order, as a driver works: the same delay for all.
                work @ (Action::CreateQp { .. } | Action::Connect { .. } | Action::Destroy { .. }) => {
                    process.link(peer).doomed |= matches!(work, Action::Destroy { .. });
                    self.schedule(MS, at, Event::Work(work));
                }
                later => self.schedule_within(2 * MS, at, Event::Work(later)),
            }
        }
        if let Some(due_ns) = self.processes[at].wireup.poll_timeout() {
            self.schedule(due_ns.saturating_sub(self.now_ns), at, Event::Timeout);
        }
    }

    fn ready(&mut self, at: usize, peer: u32, name: u32) {
        let here = self.processes[peer as usize].wireup.who(PeerIx::from_wire(name));
        assert_eq!(here, Some(rank(at as u32)), "the number that {peer} gave {at}");
        let queued = core::mem::take(&mut self.processes[at].link(peer).queued);
        self.transmit(at, peer, queued);
        if self.chance.percent(self.weather.close_percent) {
            self.schedule_within(SENDS_WITHIN_NS, at, Event::Close(peer));
        }
    }

    fn send(&mut self, from: usize, to: u32, datagram: Datagram) {
        let reliable = self.medium(from, to) == Medium::Stream;
        let copies = if !reliable && self.chance.percent(self.weather.copy_percent) { 2 } else { 1 };
        for _ in 0..copies {
            if reliable || !self.chance.percent(self.weather.loss_percent) {
                self.schedule_within(self.weather.delay_max_ns, to as usize, Event::Datagram(datagram));
            }
        }
    }

    /// All that was sent arrived, or there is a reason, and both ends agree about each connection.
    fn check_end(&self) {
        for (at, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            for (peer, link) in &process.links {
                let other = &self.processes[*peer as usize];
                let theirs = other.links.get(&(at as u32));
                assert_eq!(link.queued, 0, "{at} to {peer}: a need without an end");
                match (other.alive, link.failed) {
                    (false, why) => assert_eq!(why, Some("killed by signal 9"), "{at} to {peer}"),
                    (true, None) => assert_eq!(theirs.map_or(0, |link| link.received), link.asked),
                    (true, Some(why)) => panic!("{at} to {peer}, which lives: {why}"),
                }
                let Some((number, connected_to)) = link.qp else { continue };
                let theirs = theirs.and_then(|link| link.qp).map(|qp| (Some(qp.0), qp.1));
                assert_eq!(theirs, Some((connected_to, Some(number))), "{at} to {peer} is half open");
            }
            let ready = process.wireup.peers.iter().filter(|row| row.2.name() == StateName::Ready).count();
            assert_eq!(ready, process.links.values().filter(|link| link.qp.is_some()).count());
            assert_eq!(process.wireup.connections().now as usize, ready);
            assert_eq!(process.wireup.poll_timeout(), None);
            assert_eq!((process.wireup.waiting().count(), process.wireup.stats().refused), (0, 0));
        }
    }

    /// Peers stored anywhere, and pairs of whom one sent to the other.
    fn stored_and_used(&self) -> (usize, usize) {
        let stored = self.processes.iter().map(|process| process.wireup.peers.iter().count()).sum();
        let mut pairs = BTreeSet::new();
        for (at, process) in (0u32..).zip(&self.processes) {
            let used = process.links.iter().filter(|(_, link)| link.asked > 0);
            pairs.extend(used.map(|(&peer, _)| (at.min(peer), at.max(peer))));
        }
        (stored, pairs.len())
    }
}

fn simulate(seeds: std::ops::Range<u64>, size: u32, sends_each: u64, weather: Weather) -> Stats {
    let mut sum = Stats::default();
    for seed in seeds {
        let result = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed, size, weather);
            simulation.populate(sends_each);
            simulation.run();
            simulation.check_end();
            if weather.deaths == 0 {
                let (stored, used) = simulation.stored_and_used();
                assert_eq!(stored, 2 * used, "something is stored for a peer that nobody uses");
            }
            simulation.processes.iter().map(|process| process.wireup.stats()).collect::<Vec<_>>()
        });
        let Ok(stats) = result else { panic!("seed {seed}, {size} processes, {weather:?}") };
        for one in stats {
            sum.retransmits += one.retransmits;
            sum.crossed += one.crossed;
            sum.stale += one.stale;
            sum.ready += one.ready;
            sum.starved += one.starved;
            sum.closed += one.closed;
        }
    }
    sum
}

#[test]
fn nothing_is_stored_for_peers_that_nobody_uses() {
    let mut simulation = Simulation::new(1, 16, FAIR);
    simulation.schedule(0, 3, Event::Send(7));
    simulation.run();
    simulation.check_end();
    assert_eq!(simulation.stored_and_used(), (2, 1));
}

#[test]
fn storms_of_loss_copies_and_reordering() {
    let sum = simulate(0..60, 12, 6, STORM);
    assert!(sum.retransmits > 0 && sum.crossed > 0 && sum.stale > 0, "no storm: {sum:?}");
}

#[test]
fn queue_pairs_run_out_now_and_then() {
    let scarce = Weather { refusal_percent: 30, loss_percent: 10, close_percent: 50, ..FAIR };
    let sum = simulate(100..140, 10, 10, scarce);
    assert!(sum.ready > 0 && sum.starved > 0, "{sum:?}");
}

#[test]
fn deaths_end_every_need_of_the_dead_with_the_reason() {
    let war = Weather { deaths: 3, close_percent: 30, ..STORM };
    assert!(simulate(200..260, 12, 6, war).ready > 0);
}

#[test]
fn connections_close_and_open_again_in_a_storm() {
    let sum = simulate(400..460, 8, 40, Weather { close_percent: 90, ..STORM });
    assert!(sum.closed > 1000 && sum.ready > sum.closed / 2, "{sum:?}");
    // More than one connection for each pair: 60 runs of 28 pairs, both ends counted.
    assert!(sum.ready > 60 * 28 * 2 * 3 / 2, "few were opened again: {sum:?}");
}

#[test]
fn connections_close_and_open_again_over_streams() {
    let sum = simulate(500..540, 8, 40, Weather { close_percent: 90, streams: true, ..STORM });
    assert!(sum.closed > 500, "{sum:?}");
}

#[test]
fn all_to_all_among_many() {
    simulate(300..301, 64, 300, Weather { loss_percent: 5, ..FAIR });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let storm = Weather { close_percent: 50, ..STORM };
    assert_eq!(simulate(7..9, 12, 6, storm), simulate(7..9, 12, 6, storm));
}
