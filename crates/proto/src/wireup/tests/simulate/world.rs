//! The world of a simulation: processes with endpoints above their connections, a net, devices, and a clock.
//!
//! An endpoint numbers what it sends to a peer, keeps it until there is a connection, and sends at most [`WINDOW`]
//! messages that have not arrived. Some messages are offers, which the receiver answers much later, over whatever connection
//! there is then. Messages on a connection take time and keep their order; what arrives at a queue pair that is
//! no more is lost, and that is a violation. A process that is away answers nothing, but its queue pairs take in.
//! A connection that is a stream carries what is said about it too, behind the messages before that; all but the request,
//! which is what opens a stream. Whoever closes a stream has read it to its end.
mod board;
mod checks;
mod device;

use super::super::*;
use crate::wireup::pace::FIRST_MIN_NS;
use crate::wireup::plant::{Plant, Planted};
use std::boxed::Box;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::string::String;

pub(super) const MS: u64 = 1_000_000;
/// Messages on their way from one process to another.
const WINDOW: u32 = 4;
/// In worlds of at most this size the books are checked after every step; they take time.
const CHECKED_SIZE: u32 = 8;

/// Ends the step with a violation.
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}
pub(super) use ensure;

/// A step, or what it violated.
pub(super) type Step = Result<(), String>;

/// splitmix64.
#[derive(Clone)]
pub(super) struct Chance(pub u64);

impl Chance {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(super) fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Plain,
    /// To be answered.
    Offer,
    Answer,
}

/// A message on a connection; numbers count what one process asked to be sent to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    number: u32,
    body: Body,
}

/// What comes to a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arriving {
    Message(Sent),
    /// A word about the connection itself, where it is a stream: it keeps its place among the messages.
    Control(Datagram),
}

/// What happens to one process at a time. Peers are meant by rank.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Send(u32, Body),
    Close(u32),
    Datagram(Datagram),
    Work(Action<&'static str>),
    /// Something comes to a queue pair of this process.
    Arrives(u32, Arriving),
    /// The process takes in what has come to its queue pair.
    TakeIn(u32),
    /// A message of this process has arrived at the peer.
    Arrived(u32),
    /// The receiver gets round to an offer.
    Matches(u32),
    /// The time that `poll_timeout` gave.
    Timeout,
    /// A process of this node says something.
    Hears(DeviceWord),
    /// The process makes queue pairs for all others, and reads the board when all have.
    Ahead,
    Read,
    Away(u64),
    Dies,
    PeerDied(u32),
}

/// What is decided before a run.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub size: u32,
    pub loss_percent: u64,
    pub copy_percent: u64,
    pub delay_max_ns: u64,
    /// A piece of work of the driver takes this long.
    pub work_ns: u64,
    /// Chance that a queue pair is not to be had just now, whatever the device's limit.
    pub refusal_percent: u64,
    /// Chance that one side of a connection that became ready closes it after a while.
    pub close_percent: u64,
    /// Pairs of an even and an odd rank use streams.
    pub streams: bool,
    /// Faults end here, and so do absences.
    pub faults_until_ns: u64,
    /// Least and greatest budget; 0 is none.
    pub budget: (u32, u32),
    pub per_node: u32,
    /// Queue pairs of a node; 0 is no limit.
    pub device: u32,
    /// Do peers hear of a queue pair before it is made?
    pub overlapped: bool,
    /// Does everybody connect to everybody at the start, by the board?
    pub ahead: bool,
    /// Do the processes of four ranks in a row share connections from elsewhere?
    pub shared: bool,
    pub plant: Option<Plant>,
}

/// What an endpoint keeps for one peer.
#[derive(Default)]
pub(super) struct Link {
    qp: Option<u32>,
    ready: bool,
    /// While draining: messages of the queue that still go over this connection.
    drain: Option<usize>,
    queue: VecDeque<Sent>,
    unarrived: u32,
    /// Messages asked for, and messages that came.
    pub asked: u32,
    pub came: u32,
    /// Own offers without an answer, and offers of the peer that were not answered yet.
    pub offers: u32,
    owed: u32,
    traffic: u64,
    pub failed: bool,
    /// Requests or closes sent for the handshake under way, and since when.
    tries: u32,
    tries_since_ns: u64,
    /// When the driver's work for the peer, as far as it has been asked for, is done.
    works_until_ns: u64,
}

/// A queue pair of the device.
struct ModelQp {
    owner: u32,
    peer: u32,
    to: Option<u32>,
    inbox: Vec<Arriving>,
    /// When the last message on its way will have arrived at the other end: they keep their order.
    busy_until_ns: u64,
    /// To be destroyed, or destroyed.
    doomed: bool,
    alive: bool,
    /// Does the device count it as an attempt?
    attempt: bool,
    /// Where the queue pair leads that it shares.
    home: Option<u64>,
}

pub(super) struct Process {
    pub wireup: Machine,
    pub alive: bool,
    /// Outside the library until then: events wait.
    away_until_ns: u64,
    pub links: Vec<Option<Box<Link>>>,
    alarm_ns: u64,
    /// Ranks by the numbers that they have here, of those that were ready once.
    ranks: Vec<u32>,
    /// Queue pairs there are, by the device's count.
    pub qps: u32,
    pub qps_peak: u32,
    /// Those among them that pairs share, by where they lead.
    initiators: BTreeMap<u64, Initiator>,
    limit: u32,
    /// What the board has of it, by rank, and how many queue pairs it still makes for the board.
    board: Vec<Option<Published>>,
    making: Option<usize>,
}

impl Process {
    /// An attempt was answered, or given up. Is it one less for the device?
    fn answered(&mut self, home: Option<u64>) -> bool {
        home.and_then(|home| self.initiators.get_mut(&home)).is_none_or(|shared| {
            shared.asking -= 1;
            shared.asking == 0
        })
    }

    fn link(&mut self, peer: u32) -> &mut Link {
        self.links[peer as usize].get_or_insert_default()
    }
}

/// A queue pair that pairs share.
#[derive(Default)]
struct Initiator {
    pairs: u32,
    /// Those of them that nobody has answered.
    asking: u32,
}

/// What the processes of a node share.
#[derive(Default)]
struct Node {
    qps: u32,
    /// Those among them that are not connected and that no peer has asked for.
    attempts: u32,
    /// Queue pairs that were made, given back and refused.
    made: u64,
    destroyed: u64,
    refused: u64,
    /// Refusals that had nothing to do with the device.
    put_off: u64,
}

/// The node of a card's owner, if it is not the own one.
fn home_of(own: &Card, peer: &Card) -> Option<u64> {
    let [own, peer] = [own, peer].map(|card| u64::from(card.as_bytes()[0] / 4));
    (own != peer).then_some(peer)
}

pub(super) struct World {
    pub processes: Vec<Process>,
    qps: Vec<ModelQp>,
    nodes: Vec<Node>,
    /// By time, then by order of making, with the event's place: two runs with one seed are equal.
    due: BinaryHeap<Reverse<(u64, u64, u32)>>,
    events: Vec<Option<(u32, Event)>>,
    free: Vec<u32>,
    pub events_made: u64,
    pub now_ns: u64,
    /// When the last connection became ready at one of its ends.
    pub ready_ns: u64,
    pub chance: Chance,
    pub scene: Scene,
    pub trace: bool,
}

impl World {
    pub(super) fn new(seed: u64, scene: Scene) -> Self {
        let mut chance = Chance(seed ^ 0x5eed);
        let process = |me: u32| {
            let limit = chance.from(scene.budget.0.into(), scene.budget.1.into()) as u32;
            let budget = Budget { queue_pairs: (limit > 0).then_some(limit) };
            let seed = chance.below(u64::MAX);
            let mut wireup = Wireup::new(Config { seed, budget, ..config(me, scene.size) });
            if scene.overlapped {
                wireup.common.config.policy = Policy::Overlapped;
            }
            wireup.common.config.homes = scene.shared.then_some(home_of);
            wireup.common.planted = Planted(scene.plant);
            wireup.common.places.planted = Planted(scene.plant);
            Process {
                wireup,
                alive: true,
                away_until_ns: 0,
                links: (0..scene.size).map(|_| None).collect(),
                alarm_ns: u64::MAX,
                ranks: Vec::new(),
                qps: 0,
                qps_peak: 0,
                initiators: BTreeMap::new(),
                limit: if limit > 0 { limit } else { u32::MAX },
                board: Vec::new(),
                making: None,
            }
        };
        let processes = (0..scene.size).map(process).collect();
        let nodes = scene.size.div_ceil(scene.per_node);
        Self {
            processes,
            qps: Vec::new(),
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            due: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            events_made: 0,
            now_ns: 0,
            ready_ns: 0,
            chance,
            scene,
            trace: false,
        }
    }

    pub(super) fn schedule(&mut self, delay_ns: u64, at: u32, event: Event) {
        self.events_made += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() as u32 - 1
        });
        self.events[slot as usize] = Some((at, event));
        self.due.push(Reverse((self.now_ns + delay_ns, self.events_made, slot)));
    }

    pub(super) fn schedule_within(&mut self, bound_ns: u64, at: u32, event: Event) {
        let delay_ns = self.chance.below(bound_ns);
        self.schedule(delay_ns, at, event);
    }

    /// Runs until nothing is left to happen, at most until the given time.
    pub(super) fn run(&mut self, end_ns: u64) -> Step {
        while let Some(Reverse((time_ns, _, slot))) = self.due.pop() {
            let (at, event) = self.events[slot as usize].take().expect("every event happens once");
            self.free.push(slot);
            self.now_ns = time_ns;
            if !self.processes[at as usize].alive {
                continue;
            }
            if time_ns >= end_ns {
                return Err(format!(
                    "no end after {} ms: {event:?} at {at}{}",
                    end_ns / MS,
                    self.complaint()
                ));
            }
            let away_until_ns = self.processes[at as usize].away_until_ns;
            let waits = !matches!(event, Event::Dies | Event::Arrives(..) | Event::Away(_));
            if time_ns < away_until_ns && waits {
                self.schedule(away_until_ns - time_ns, at, event);
                continue;
            }
            if self.trace {
                std::eprintln!("{:9} us  {at:3}: {event:?}", time_ns / 1000);
            }
            self.happen(at, event)?;
            if self.scene.size <= CHECKED_SIZE {
                super::super::budget::check_books(&self.processes[at as usize].wireup);
            }
        }
        Ok(())
    }

    /// Who waits for a place, in words.
    fn complaint(&self) -> String {
        let crowds = self.processes.iter().enumerate().filter_map(|(at, process)| {
            process.wireup.crowd(self.now_ns).map(|crowd| format!("; at {at}: {crowd}"))
        });
        crowds.take(3).collect()
    }

    fn happen(&mut self, at: u32, event: Event) -> Step {
        let now = self.now_ns;
        let process = &mut self.processes[at as usize];
        match event {
            Event::Send(peer, body) => self.ask(at, peer, body),
            Event::Close(peer) => {
                let ix = process.wireup.find(rank(peer)).expect("it was ready");
                // It may have been closed, or lost, meanwhile.
                let _ = process.wireup.close(ix, now);
            }
            Event::Datagram(datagram) => self.hears(at, datagram)?,
            Event::Work(action) => self.work(at, action)?,
            Event::Arrives(qp, what) => return self.arrives(at, qp, what),
            Event::TakeIn(qp) => self.take_in(at, qp)?,
            Event::Arrived(peer) => {
                let link = process.link(peer);
                link.unarrived = link.unarrived.saturating_sub(1);
                self.pump(at, peer);
            }
            Event::Matches(peer) => self.answer(at, peer),
            Event::Timeout => {
                process.alarm_ns = u64::MAX;
                process.wireup.tick(now);
            }
            Event::Hears(word) => {
                let device = self.device(at);
                self.processes[at as usize].wireup.heard(word, &device, now);
            }
            Event::Ahead => self.ahead(at),
            Event::Read => self.read(at)?,
            Event::Away(for_ns) => process.away_until_ns = now + for_ns,
            Event::Dies => return self.die(at),
            Event::PeerDied(peer) => {
                let ix = process.wireup.intern(rank(peer)).unwrap();
                process.wireup.broken(ix, "killed by signal 9");
            }
        }
        self.after(at)
    }

    fn hears(&mut self, at: u32, datagram: Datagram) -> Step {
        let taken = self.processes[at as usize].wireup.datagram(datagram.as_bytes(), self.now_ns);
        ensure!(taken.is_ok(), "{at} refuses {datagram:?}: {taken:?}");
        Ok(())
    }

    /// Somebody wants to send.
    fn ask(&mut self, at: u32, peer: u32, body: Body) {
        let process = &mut self.processes[at as usize];
        let link = process.link(peer);
        if link.failed {
            return;
        }
        link.queue.push_back(Sent { number: link.asked, body });
        link.asked += 1;
        link.offers += u32::from(body == Body::Offer);
        let ix = process.wireup.intern(rank(peer)).unwrap();
        match process.wireup.need(ix, self.now_ns) {
            Ok(Progress::Ready) => self.pump(at, peer),
            Ok(Progress::Pending) => {}
            Err(error) => assert!(matches!(error, NeedError::Lost { .. }), "{error}"),
        }
    }

    /// Sends what the connection takes; tells when it is drained.
    fn pump(&mut self, at: u32, peer: u32) {
        // A stream brings what was written to it, whatever becomes of its ends.
        let streams = self.medium(at, peer) == Medium::Stream;
        let link = self.processes[at as usize].link(peer);
        if !link.ready {
            return;
        }
        let mut left = link.drain.unwrap_or(usize::MAX);
        let mut leaving = Vec::new();
        while link.unarrived < WINDOW && left > 0 {
            let Some(sent) = link.queue.pop_front() else { break };
            left -= 1;
            link.unarrived += 1;
            link.traffic += 1;
            let qp = &mut self.qps[link.qp.expect("it is ready") as usize];
            let delay_ns = self.chance.below(self.scene.delay_max_ns);
            qp.busy_until_ns = qp.busy_until_ns.max(self.now_ns + delay_ns);
            leaving.push((qp.busy_until_ns - self.now_ns, qp.to.expect("it is ready"), sent));
        }
        let draining = link.drain.is_some();
        link.drain = link.drain.map(|_| left.min(link.queue.len()));
        let waits = link.unarrived > 0 && !streams && self.scene.plant != Some(Plant::DrainDoesNotWait);
        let drained = draining && link.drain == Some(0) && !waits;
        link.ready &= !drained;
        for (delay_ns, to, sent) in leaving {
            self.schedule(delay_ns, peer, Event::Arrives(to, Arriving::Message(sent)));
        }
        if drained {
            self.processes[at as usize].link(peer).drain = None;
            let process = &mut self.processes[at as usize];
            let ix = process.wireup.find(rank(peer)).expect("it was ready");
            process.wireup.drained(ix, self.now_ns).expect("it was to be drained");
        }
    }

    /// Something comes to a queue pair, whether its process looks or not.
    fn arrives(&mut self, at: u32, qp: u32, what: Arriving) -> Step {
        let model = &mut self.qps[qp as usize];
        let from = model.peer;
        let here = &mut self.processes[at as usize];
        let failed = here.link(from).failed || !self.processes[from as usize].alive;
        if failed {
            return Ok(());
        }
        ensure!(
            model.alive && !model.doomed,
            "{what:?} from {from} to {at} comes to a queue pair that is no more"
        );
        model.inbox.push(what);
        if model.inbox.len() == 1 {
            self.schedule(0, at, Event::TakeIn(qp));
        }
        if matches!(what, Arriving::Message(_)) {
            self.schedule(0, from, Event::Arrived(at));
        }
        Ok(())
    }

    fn take_in(&mut self, at: u32, qp: u32) -> Step {
        let from = self.qps[qp as usize].peer;
        for what in std::mem::take(&mut self.qps[qp as usize].inbox) {
            let process = &mut self.processes[at as usize];
            let sent = match what {
                _ if process.link(from).failed => return Ok(()),
                Arriving::Message(sent) => sent,
                Arriving::Control(datagram) => {
                    self.hears(at, datagram)?;
                    continue;
                }
            };
            let link = process.link(from);
            ensure!(
                sent.number == link.came,
                "{at} expects message {} of {from}, not {}",
                link.came,
                sent.number
            );
            link.came += 1;
            link.traffic += 1;
            match sent.body {
                Body::Plain => {}
                Body::Offer => {
                    link.owed += 1;
                    let within_ns = if self.chance.percent(30) { 200 * MS } else { 5 * MS };
                    self.schedule_within(within_ns, at, Event::Matches(from));
                }
                Body::Answer => {
                    ensure!(link.offers > 0, "{from} answers {at}, which has offered nothing");
                    link.offers -= 1;
                }
            }
        }
        Ok(())
    }

    /// The receiver takes what was offered, and says so.
    fn answer(&mut self, at: u32, peer: u32) {
        let link = self.processes[at as usize].link(peer);
        if link.owed > 0 {
            link.owed -= 1;
            self.ask(at, peer, Body::Answer);
        }
    }

    fn die(&mut self, dead: u32) -> Step {
        self.processes[dead as usize].alive = false;
        // The agent clears the slots of the dead.
        let qps = self.processes[dead as usize].qps;
        let node = &mut self.nodes[(dead / self.scene.per_node) as usize];
        node.qps -= qps;
        let asks = |qp: &&ModelQp| qp.owner == dead && qp.alive && qp.attempt && qp.home.is_none();
        let attempts = self.qps.iter().filter(asks).count();
        let shared = self.processes[dead as usize].initiators.values().filter(|shared| shared.asking > 0);
        node.attempts -= (attempts + shared.count()) as u32;
        for at in (0..self.scene.size).filter(|at| *at != dead) {
            self.schedule_within(100 * MS, at, Event::PeerDied(dead));
        }
        self.end_fence();
        Ok(())
    }

    fn medium(&self, at: u32, peer: u32) -> Medium {
        let streams = self.scene.streams && (at + peer) % 2 == 1;
        if streams { Medium::Stream } else { Medium::Datagrams }
    }

    fn calm(&self) -> bool {
        self.now_ns >= self.scene.faults_until_ns
    }

    /// The driver's work is done now.
    fn work(&mut self, at: u32, action: Action<&'static str>) -> Step {
        let now = self.now_ns;
        let process = &mut self.processes[at as usize];
        let Some(ix) = action.ix() else {
            let Process { wireup, links, ranks, .. } = process;
            wireup.make_room(now, |ix| usage(links, ranks, ix));
            return Ok(());
        };
        let peer = index_of(process, ix);
        match action {
            Action::CreateQp { .. } => {
                let home = if self.scene.shared { home_of(&card_of(at), &card_of(peer)) } else { None };
                return self.create(at, peer, ix, home);
            }
            Action::CreateAhead { .. } => {
                self.create(at, peer, ix, None)?;
                self.made_ahead(at, peer, ix);
            }
            Action::Connect { params, card, .. } => {
                ensure!(card == card_of(peer), "{at} connects to {peer} with the card of another");
                let qp = process.link(peer).qp;
                ensure!(qp.is_some(), "{at} has no queue pair to connect to {peer}");
                let remote = u32::from_le_bytes(params.0[..4].try_into().unwrap());
                let qp = &mut self.qps[qp.unwrap() as usize];
                qp.to = Some(remote);
                let node = &mut self.nodes[(at / self.scene.per_node) as usize];
                let asked = std::mem::take(&mut qp.attempt);
                node.attempts -= u32::from(asked && process.answered(qp.home));
                process.wireup.connected(ix, now).map_err(|error| format!("{at}: {error}"))?;
            }
            Action::Destroy { .. } => self.destroy(at, peer, ix)?,
            Action::Lookup { .. } => process.wireup.card(ix, card_of(peer), now).unwrap(),
            other => panic!("{other:?} takes no time"),
        }
        Ok(())
    }

    /// Carries the actions out, and sets the alarm.
    fn after(&mut self, at: u32) -> Step {
        while let Some(action) = self.processes[at as usize].wireup.poll_action() {
            if let Action::Tell { slot, word } = action {
                self.tell(slot, word);
                continue;
            }
            let Some(ix) = action.ix() else {
                self.schedule_within(self.scene.work_ns, at, Event::Work(action));
                continue;
            };
            let process = &mut self.processes[at as usize];
            let peer = index_of(process, ix);
            match action {
                Action::Send { card, datagram, .. } => {
                    ensure!(card == card_of(peer), "{at} sends to {peer} with the card of another");
                    self.send(at, peer, datagram)?;
                }
                Action::Announce { card, datagram, .. } => {
                    ensure!(card == card_of(peer), "{at} tells {peer} with the card of another");
                    if self.medium(at, peer) == Medium::Datagrams {
                        self.send(at, peer, datagram)?;
                    }
                }
                Action::Ready { name, .. } => self.ready(at, peer, name)?,
                Action::Drain { .. } => {
                    let link = process.link(peer);
                    link.drain = Some(link.queue.len());
                    self.pump(at, peer);
                }
                Action::Closed { .. } => {
                    let link = process.link(peer);
                    link.tries = 0;
                    if self.scene.plant == Some(Plant::EvictionForgetsOffers) {
                        link.owed = 0;
                    }
                }
                Action::Failed { .. } => {
                    let link = process.link(peer);
                    ensure!(!link.failed, "{at} is told twice that {peer} is lost");
                    let Link { qp, works_until_ns, .. } = *link;
                    *link = Link { failed: true, qp, works_until_ns, ..Link::default() };
                }
                work @ (Action::CreateQp { .. }
                | Action::CreateAhead { .. }
                | Action::Connect { .. }
                | Action::Destroy { .. }) => {
                    self.begin_work(at, peer, work);
                }
                later => self.schedule_within(2 * self.scene.work_ns, at, Event::Work(later)),
            }
        }
        let process = &mut self.processes[at as usize];
        if let Some(due_ns) = process.wireup.poll_timeout().filter(|due_ns| *due_ns < process.alarm_ns) {
            process.alarm_ns = due_ns;
            self.schedule(due_ns.saturating_sub(self.now_ns), at, Event::Timeout);
        }
        Ok(())
    }

    /// Work takes its time. What is for one peer keeps its order; to destroy may take longer than to create, since it
    /// has no hurry.
    fn begin_work(&mut self, at: u32, peer: u32, work: Action<&'static str>) {
        let mut end_ns = self.now_ns + self.scene.work_ns;
        let link = self.processes[at as usize].link(peer);
        if let (Action::Destroy { .. }, Some(qp)) = (&work, link.qp) {
            link.ready = false;
            self.qps[qp as usize].doomed = true;
            end_ns += self.chance.below(2 * self.scene.work_ns);
        }
        link.works_until_ns = end_ns.max(link.works_until_ns);
        let delay_ns = link.works_until_ns - self.now_ns;
        self.schedule(delay_ns, at, Event::Work(work));
    }

    fn ready(&mut self, at: u32, peer: u32, name: u32) -> Step {
        self.ready_ns = self.now_ns;
        let other = &self.processes[peer as usize];
        let here = other.wireup.who(PeerIx::from_wire(name));
        ensure!(here == Some(rank(at)), "{at} does not have the number that {peer} gave it");
        let process = &mut self.processes[at as usize];
        let index = process.wireup.find(rank(peer)).expect("it is ready").index();
        process.ranks.resize(process.ranks.len().max(index + 1), 0);
        process.ranks[index] = peer;
        let link = process.link(peer);
        link.ready = true;
        link.unarrived = 0;
        link.tries = 0;
        let qp = link.qp.expect("it is ready") as usize;
        let to = self.qps[qp].to.map(|to| &self.qps[to as usize]);
        let fits = to.is_some_and(|to| (to.owner, to.peer) == (peer, at));
        ensure!(fits, "{at} is connected to a queue pair that is not for it");
        self.pump(at, peer);
        if !self.calm() && self.chance.percent(self.scene.close_percent) {
            self.schedule_within(50 * MS, at, Event::Close(peer));
        }
        Ok(())
    }

    fn send(&mut self, from: u32, to: u32, datagram: Datagram) -> Step {
        let kind = Message::parse(datagram.as_bytes()).expect("a message").kind;
        let now_ns = self.now_ns;
        if matches!(kind, MessageKind::Request | MessageKind::Close) {
            let link = self.processes[from as usize].link(to);
            if link.tries == 0 {
                link.tries_since_ns = now_ns;
            }
            link.tries += 1;
            let (tries, most) = (link.tries, tries_max(now_ns - link.tries_since_ns));
            ensure!(tries <= most, "{from} sends {kind:?} to {to} {tries} times, not {most}");
        }
        let reliable = self.medium(from, to) == Medium::Stream;
        if reliable
            && kind != MessageKind::Request
            && let Some(qp) = self.processes[from as usize].link(to).qp
            && let Some(other) = self.qps[qp as usize].to
        {
            let delay_ns = self.chance.below(self.scene.delay_max_ns);
            let qp = &mut self.qps[qp as usize];
            qp.busy_until_ns = qp.busy_until_ns.max(now_ns + delay_ns);
            let delay_ns = qp.busy_until_ns - now_ns;
            self.schedule(delay_ns, to, Event::Arrives(other, Arriving::Control(datagram)));
            return Ok(());
        }
        let faults = !reliable && !self.calm();
        let copies = if faults && self.chance.percent(self.scene.copy_percent) { 2 } else { 1 };
        for _ in 0..copies {
            if !faults || !self.chance.percent(self.scene.loss_percent) {
                self.schedule_within(self.scene.delay_max_ns, to, Event::Datagram(datagram));
            }
        }
        Ok(())
    }
}

/// How often a request or a close may have been sent in a time: the intervals double from the shortest to a sixth of a
/// second.
fn tries_max(elapsed_ns: u64) -> u32 {
    let doublings = (elapsed_ns / FIRST_MIN_NS + 1).ilog2().min(12);
    2 + doublings + (elapsed_ns / (160 * MS)) as u32
}

fn usage(links: &[Option<Box<Link>>], ranks: &[u32], ix: PeerIx) -> Usage {
    let link = links[ranks[ix.index()] as usize].as_ref().expect("it is ready");
    Usage {
        traffic: link.traffic,
        busy: !link.queue.is_empty() || link.unarrived > 0,
        reopen_cost: 1,
        spare: false,
    }
}

fn index_of(process: &Process, ix: PeerIx) -> u32 {
    process.wireup.who(ix).and_then(Peer::rank).expect("a rank").0
}
