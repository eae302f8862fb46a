//! Every interleaving of two processes: what can be delivered, lost, repeated or overtaken is, at every point.
//!
//! From each reachable state the invariants are checked, every illegal input is tried, and a fair future without
//! further faults must bring both sides to the same end, with every send arrived, in order. The bounds are those of
//! [`Bounds`]: how many sends, closes and faults of each kind there may be in one history; within them nothing is left
//! out. `cargo test --release -p banyan-proto --lib explore::runs::wide -- --ignored --nocapture` takes wider bounds.
mod runs;

use super::super::budget::Claim;
use super::super::handshake::{Again, EDGES, Remote, Target};
use super::super::plant::{Plant, Planted};
use super::*;
use std::boxed::Box;
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How much may still go wrong, and who wants what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Bounds {
    sends: [u8; 2],
    closes: [u8; 2],
    losses: u8,
    copies: u8,
    ticks: [u8; 2],
    refusals: u8,
    deaths: u8,
    /// Times that all places of a process are taken away, and given back later.
    squeezes: u8,
    streams: bool,
    /// Last words on streams that are lost, so that the other side sees only the end.
    cuts: u8,
    /// Does each side tell the other before it makes its queue pair?
    overlapped: bool,
    /// Who makes a queue pair before anybody asks; both then look at the board.
    aheads: [bool; 2],
}

/// What went wrong in a history, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Loss = 1,
    Copy = 2,
    /// A message overtook another one.
    Overtaking = 4,
    Refusal = 8,
    Death = 16,
    Squeeze = 32,
}

const FAULTS: [Fault; 6] =
    [Fault::Loss, Fault::Copy, Fault::Overtaking, Fault::Refusal, Fault::Death, Fault::Squeeze];

/// One move of the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Send(usize),
    Close(usize),
    /// The driver of a side does its next work on queue pairs.
    Qp(usize),
    Refused(usize),
    /// The same, since the device of the node has no more.
    Withheld(usize),
    Lookup(usize),
    /// A side begins with a queue pair for the other, and reads the board when both have.
    Ahead(usize),
    Read(usize),
    Deliver(usize),
    Lose(usize),
    Copy(usize),
    Tick(usize),
    /// The first message on its way on the connection of a side arrives at the other.
    Arrive(usize),
    /// The last word on a stream that a side has given up is lost.
    Cut(usize),
    /// There is no place for this side's queue pair; there is again.
    Squeeze(usize),
    Relax(usize),
    /// The driver of a side answers that its connection is idle.
    Room(usize),
    /// A side dies; the other is told later.
    Dies(usize),
    Told(usize),
}

/// What is on its way on a connection, in order.
#[derive(Clone, Debug)]
enum Flying {
    /// A send, and the queue pair that it goes to.
    Send(u8, Option<u8>),
    /// What is said about a stream, all but the request that opens it.
    Control(Message),
    /// The end of a stream, in place of its last word.
    End(Message),
}

#[derive(Clone, Debug)]
struct Side {
    wireup: Machine,
    alive: bool,
    /// Death notices that came: bad news may come twice.
    told: u8,
    /// Work of the driver on queue pairs, in order, and lookups, in their own time.
    qp_work: VecDeque<Action<&'static str>>,
    lookups: u32,
    room: bool,
    /// What the board has of this side, and whether it has read what is there of the other.
    board: Option<Published>,
    fence: Fence,
    /// The queue pair and what it is connected to; numbers are never used again.
    qp: Option<u8>,
    connected_to: Option<u8>,
    qps_made: u8,
    /// Sends that wait for a connection, those on their way, all that were asked for, and what came from the
    /// other side; they have numbers, and go in order.
    queued: VecDeque<u8>,
    flight: VecDeque<Flying>,
    asked: u8,
    received: u8,
}

/// How far a side is that connects at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fence {
    Outside,
    Making,
    Reached,
    Behind,
}

impl Side {
    /// The queue pair, unless it is about to be destroyed: nothing may be sent to that any more.
    fn live_qp(&self) -> Option<u8> {
        let doomed = self.qp_work.iter().any(|work| matches!(work, Action::Destroy { .. }));
        self.qp.filter(|_| !doomed)
    }

    /// Where the last word of a stream is on its way that this side has closed.
    fn last_word(&self) -> Option<usize> {
        let closed = self.wireup.peers.row(OTHER).unwrap().1.closed;
        self.flight.iter().position(|flying| match flying {
            Flying::Control(message) => {
                let last = matches!(message.kind, MessageKind::Close | MessageKind::CloseReply);
                last && closed.is_some() && message.echo <= closed
            }
            Flying::Send(..) | Flying::End(_) => false,
        })
    }
}

/// Far more steps than a fair future needs.
const STEPS_MAX: usize = 200;

/// The edges that were taken, with the faults before them.
type Taken = BTreeSet<(StateName, InputName, StateName, u8)>;

#[derive(Clone, Debug)]
struct World {
    sides: [Side; 2],
    /// In flight, in order of sending: receiver and message. Any may be the next to arrive.
    net: Vec<(usize, Message)>,
    bounds: Bounds,
    faults: u8,
    now_ns: u64,
}

impl World {
    fn new(bounds: Bounds, plant: Option<Plant>) -> Self {
        let side = |me: u32| {
            let mut wireup = wireup(me);
            wireup.common.planted = Planted(plant);
            if bounds.overlapped {
                wireup.common.config.policy = Policy::Overlapped;
            }
            let starts = bounds.aheads != [false; 2];
            assert_eq!(wireup.intern(rank(1 - me)), Ok(OTHER));
            Side {
                wireup,
                alive: true,
                told: 0,
                qp_work: VecDeque::new(),
                lookups: 0,
                room: false,
                board: None,
                fence: if starts { Fence::Outside } else { Fence::Behind },
                qp: None,
                connected_to: None,
                qps_made: 0,
                queued: VecDeque::new(),
                flight: VecDeque::new(),
                asked: 0,
                received: 0,
            }
        };
        World { sides: [side(0), side(1)], net: Vec::new(), bounds, faults: 0, now_ns: 0 }
    }

    /// Everything that can happen now.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let bounds = &self.bounds;
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            let mut add = |event, possible: bool| events.extend(possible.then_some(event));
            add(Event::Send(at), bounds.sends[at] > 0);
            add(Event::Close(at), bounds.closes[at] > 0 && self.may_close(at));
            let front = side.qp_work.front();
            let drains = matches!(front, Some(Action::Drain { .. }));
            let waits = drains && !bounds.streams && !side.flight.is_empty();
            add(Event::Qp(at), front.is_some() && !waits);
            let creates = matches!(front, Some(Action::CreateQp { .. } | Action::CreateAhead { .. }));
            add(Event::Refused(at), creates && bounds.refusals > 0);
            add(Event::Withheld(at), creates && bounds.refusals > 0);
            add(Event::Lookup(at), side.lookups > 0);
            add(Event::Ahead(at), side.fence == Fence::Outside);
            let ends = !matches!(self.sides[1 - at].fence, Fence::Outside | Fence::Making);
            add(Event::Read(at), side.fence == Fence::Reached && ends);
            add(Event::Arrive(at), !side.flight.is_empty());
            add(Event::Cut(at), bounds.cuts > 0 && side.last_word().is_some());
            add(Event::Room(at), side.room);
            add(Event::Tick(at), side.wireup.poll_timeout().is_some() && bounds.ticks[at] > 0);
            let squeezed = side.wireup.common.places.budget.is_some();
            add(Event::Squeeze(at), !squeezed && bounds.squeezes > 0);
            add(Event::Relax(at), squeezed);
            add(Event::Dies(at), bounds.deaths > 0);
            add(Event::Told(at), !self.sides[1 - at].alive && side.told < 2);
        }
        for at in 0..self.net.len() {
            events.push(Event::Deliver(at));
            events.extend((bounds.losses > 0).then_some(Event::Lose(at)));
            events.extend((bounds.copies > 0).then_some(Event::Copy(at)));
        }
        events
    }

    fn may_close(&self, at: usize) -> bool {
        EDGES.iter().any(|edge| (edge.0, edge.1) == (self.name(at), InputName::Close))
    }

    fn apply(&mut self, event: Event, taken: &mut Taken) {
        match event {
            Event::Send(at) => {
                self.bounds.sends[at] -= 1;
                self.send(at, taken);
            }
            Event::Close(at) => {
                self.bounds.closes[at] -= 1;
                self.input(at, InputName::Close, taken, |w, now| w.close(OTHER, now));
            }
            Event::Qp(at) => self.qp_work(at, taken),
            Event::Refused(at) => {
                self.bounds.refusals -= 1;
                self.faults |= Fault::Refusal as u8;
                self.sides[at].qp_work.pop_front();
                self.input(at, InputName::QpRefused, taken, |w, now| w.qp_refused(OTHER, "none left", now));
                self.made_ahead(at);
            }
            Event::Withheld(at) => {
                self.bounds.refusals -= 1;
                self.faults |= Fault::Refusal as u8;
                self.sides[at].qp_work.pop_front();
                let node = NodeDevice::default();
                let withheld =
                    |w: &mut Machine, now| w.qp_withheld(OTHER, "none left on the node", &node, now);
                self.input(at, InputName::QpRefused, taken, withheld);
                self.made_ahead(at);
            }
            Event::Lookup(at) => {
                self.sides[at].lookups -= 1;
                let card = card_of(1 - at as u32);
                self.input(at, InputName::Card, taken, |w, now| w.card(OTHER, card, now));
            }
            Event::Ahead(at) => {
                self.sides[at].fence = Fence::Making;
                if self.bounds.aheads[at] && self.name(at) == StateName::Idle {
                    self.input(at, InputName::Ahead, taken, |w, now| w.ahead(OTHER, now));
                }
                self.made_ahead(at);
            }
            Event::Read(at) => {
                self.sides[at].fence = Fence::Behind;
                if self.name(at) == StateName::Published {
                    let (card, facts) = (card_of(1 - at as u32), self.sides[1 - at].board);
                    let closed = self.sides[at].wireup.peers.row(OTHER).unwrap().1.closed;
                    let useful = facts.is_some_and(|facts| closed.is_none_or(|closed| facts.epoch > closed));
                    let name = if useful { InputName::Facts } else { InputName::NoFacts };
                    self.input(at, name, taken, |w, now| w.facts(OTHER, facts, card, now));
                }
            }
            Event::Deliver(at) => {
                let (to, message) = self.net.remove(at);
                if self.net[..at].iter().any(|(other, _)| *other == to) {
                    self.faults |= Fault::Overtaking as u8;
                }
                self.deliver(to, message, taken);
            }
            Event::Lose(at) => {
                self.bounds.losses -= 1;
                self.faults |= Fault::Loss as u8;
                self.net.remove(at);
            }
            Event::Copy(at) => {
                self.bounds.copies -= 1;
                self.faults |= Fault::Copy as u8;
                self.net.insert(at, self.net[at]);
            }
            Event::Arrive(at) => self.arrive(at, taken),
            Event::Cut(at) => {
                self.bounds.cuts -= 1;
                let word = self.sides[at].last_word().expect("there is one");
                if let Flying::Control(message) = self.sides[at].flight[word] {
                    self.sides[at].flight[word] = Flying::End(message);
                }
            }
            Event::Squeeze(at) => {
                self.bounds.squeezes -= 1;
                self.faults |= Fault::Squeeze as u8;
                self.limit(at, Some(0), taken);
            }
            Event::Relax(at) => self.limit(at, None, taken),
            Event::Room(at) => {
                self.sides[at].room = false;
                let from = self.name(at);
                self.sides[at].wireup.make_room(self.now_ns, |_| Usage::default());
                self.settled(at, from, InputName::Close, taken);
            }
            Event::Tick(at) => {
                self.bounds.ticks[at] = self.bounds.ticks[at].saturating_sub(1);
                self.tick(at, taken);
            }
            Event::Dies(at) => {
                self.bounds.deaths -= 1;
                self.faults |= Fault::Death as u8;
                self.sides[at].alive = false;
            }
            Event::Told(at) => {
                self.sides[at].told += 1;
                self.input(at, InputName::Broken, taken, |w, _| {
                    w.broken(OTHER, "killed");
                    Ok(())
                });
            }
        }
    }

    /// Takes all places away, or gives them back.
    fn limit(&mut self, at: usize, limit: Option<u32>, taken: &mut Taken) {
        let from = self.name(at);
        let wireup = &mut self.sides[at].wireup;
        wireup.common.places.budget = limit;
        wireup.common.places.set_limit();
        wireup.settle(self.now_ns);
        self.settled(at, from, InputName::Place, taken);
    }

    /// What the budget may have done on its own account.
    fn settled(&mut self, at: usize, from: StateName, name: InputName, taken: &mut Taken) {
        if self.name(at) != from {
            taken.insert((from, name, self.name(at), self.faults));
        }
        self.carry_out(at);
    }

    fn send(&mut self, at: usize, taken: &mut Taken) {
        let (now, from) = (self.now_ns, self.name(at));
        let side = &mut self.sides[at];
        let number = side.asked;
        side.asked += 1;
        match side.wireup.need(OTHER, now) {
            Ok(Progress::Pending) => side.queued.push_back(number),
            Ok(Progress::Ready) => {
                assert_eq!(from, StateName::Ready);
                assert!(side.queued.is_empty(), "overtaken in the queue: {self:#?}");
                side.flight.push_back(Flying::Send(number, side.connected_to));
            }
            Err(error) => assert!(matches!(error, NeedError::Lost { .. }), "{error}"),
        }
        self.after(at, from, InputName::Need, taken);
    }

    /// The other side's queue pair has to be there to take it in.
    fn arrive(&mut self, at: usize, taken: &mut Taken) {
        let (number, to) = match self.sides[at].flight.pop_front().expect("something is on its way") {
            Flying::Send(number, to) => (number, to),
            Flying::Control(message) => return self.deliver(1 - at, message, taken),
            Flying::End(message) => return self.end(1 - at, &message, taken),
        };
        let other = &self.sides[1 - at];
        if other.alive && other.told == 0 {
            assert!(to.is_some() && to == other.live_qp(), "a send is lost: {self:#?}");
            assert_eq!(number, other.received, "out of order: {self:#?}");
            self.sides[1 - at].received += 1;
        }
    }

    fn tick(&mut self, at: usize, taken: &mut Taken) {
        let due = self.sides[at].wireup.poll_timeout();
        self.now_ns = self.now_ns.max(due.expect("something is due"));
        let from = self.name(at);
        let tries = |world: &World| world.sides[at].wireup.peers.first_due();
        let before = tries(self);
        self.sides[at].wireup.tick(self.now_ns);
        match before == tries(self) {
            true => self.settled(at, from, InputName::Place, taken),
            false => self.after(at, from, InputName::Due, taken),
        }
    }

    fn deliver(&mut self, to: usize, message: Message, taken: &mut Taken) {
        if !self.sides[to].alive {
            return;
        }
        let row = self.sides[to].wireup.peers.row_mut(OTHER);
        let current = row.state().age(row.closed, &message) == Age::Current;
        let from = self.name(to);
        let taken_from = self.sides[to].wireup.datagram(message.emit().as_bytes(), self.now_ns);
        taken_from.expect("no peer lies here");
        match current {
            true => self.after(to, from, Input::<&str>::from(message).name(), taken),
            false => {
                assert_eq!(self.name(to), from, "a message of the past changed something");
                self.carry_out(to);
            }
        }
    }

    /// A stream ends. The driver knows which one; that of a connection which is gone means nothing.
    fn end(&mut self, at: usize, last: &Message, taken: &mut Taken) {
        let row = self.sides[at].wireup.peers.row_mut(OTHER);
        if !self.sides[at].alive || row.state().age(row.closed, last) != Age::Current {
            return;
        }
        let from = self.name(at);
        assert!(self.sides[at].wireup.ended(OTHER, self.now_ns), "a break: {self:#?}");
        self.after(at, from, InputName::CloseReply, taken);
    }

    fn qp_work(&mut self, at: usize, taken: &mut Taken) {
        let medium = self.medium();
        let side = &mut self.sides[at];
        match side.qp_work.pop_front().expect("there is work") {
            work @ (Action::CreateQp { .. } | Action::CreateAhead { .. }) => {
                assert_eq!(side.qp, None, "two live queue pairs for one pair");
                if let Action::CreateQp { card, .. } = work {
                    assert_eq!(card, card_of(1 - at as u32));
                }
                side.qps_made += 1;
                let number = side.qps_made + 100 * at as u8;
                side.qp = Some(number);
                let params = Params([number; 32]);
                self.input(at, InputName::QpReady, taken, |w, now| w.qp_ready(OTHER, params, medium, now));
                // What is there stays.
                let facts = self.sides[at].wireup.published(OTHER);
                self.sides[at].board = self.sides[at].board.or(facts);
                self.made_ahead(at);
            }
            Action::Connect { params, .. } => {
                assert!(side.qp.is_some());
                side.connected_to = Some(params.0[0]);
                self.input(at, InputName::Connected, taken, |w, now| w.connected(OTHER, now));
            }
            Action::Drain { .. } => {
                self.input(at, InputName::Drained, taken, |w, now| w.drained(OTHER, now));
            }
            Action::Destroy { .. } => {
                assert!(side.qp.take().is_some(), "destroyed what is not there");
                side.connected_to = None;
                // A stream brings what was written to it, whatever becomes of its ends.
                if medium == Medium::Datagrams || side.wireup.state(OTHER) == StateName::Failed {
                    side.flight.clear();
                }
                self.settle_destroyed(at, taken);
            }
            other => panic!("{other:?} is no work on queue pairs"),
        }
    }

    /// What was to be made before the fence is made, or will not be.
    fn made_ahead(&mut self, at: usize) {
        let side = &mut self.sides[at];
        if side.fence == Fence::Making
            && !side.qp_work.iter().any(|work| matches!(work, Action::CreateAhead { .. }))
        {
            side.fence = Fence::Reached;
        }
    }

    fn settle_destroyed(&mut self, at: usize, taken: &mut Taken) {
        let from = self.name(at);
        self.sides[at].wireup.destroyed(OTHER, self.now_ns);
        self.settled(at, from, InputName::Place, taken);
    }

    fn medium(&self) -> Medium {
        if self.bounds.streams { Medium::Stream } else { Medium::Datagrams }
    }

    fn input(
        &mut self,
        at: usize,
        name: InputName,
        taken: &mut Taken,
        call: impl FnOnce(&mut Machine, u64) -> Result<(), IllegalInput>,
    ) {
        let from = self.name(at);
        call(&mut self.sides[at].wireup, self.now_ns).unwrap();
        self.after(at, from, name, taken);
    }

    /// Notes the edge, and does what follows.
    fn after(&mut self, at: usize, from: StateName, name: InputName, taken: &mut Taken) {
        let mut to = self.name(at);
        // Who waits may have its place at once, now that the peer asks: these are two moves.
        if (from, to) == (StateName::Crowded, StateName::Preparing) {
            taken.insert((from, InputName::Place, to, self.faults));
            to = from;
        }
        taken.insert((from, name, to, self.faults));
        self.carry_out(at);
    }

    /// Hands the actions to driver, net and books.
    fn carry_out(&mut self, at: usize) {
        while let Some(action) = self.sides[at].wireup.poll_action() {
            let side = &mut self.sides[at];
            match action {
                Action::Lookup { .. } => side.lookups += 1,
                // Where streams are used there is nobody to take it.
                Action::Announce { .. } if self.bounds.streams => {}
                Action::Announce { datagram, .. } => {
                    self.net.push((1 - at, Message::parse(datagram.as_bytes()).unwrap()));
                }
                Action::Send { datagram, .. } => {
                    let message = Message::parse(datagram.as_bytes()).unwrap();
                    match self.bounds.streams && message.kind != MessageKind::Request {
                        true => side.flight.push_back(Flying::Control(message)),
                        false => self.net.push((1 - at, message)),
                    }
                }
                Action::Ready { name, .. } => {
                    assert_eq!(name, OTHER.to_wire());
                    let queued = std::mem::take(&mut side.queued);
                    side.flight
                        .extend(queued.into_iter().map(|number| Flying::Send(number, side.connected_to)));
                }
                Action::Failed { .. } => side.queued.clear(),
                Action::Closed { .. } => {}
                Action::MakeRoom => side.room = true,
                work => side.qp_work.push_back(work),
            }
        }
    }

    fn name(&self, at: usize) -> StateName {
        self.sides[at].wireup.state(OTHER)
    }

    /// What holds at every moment.
    fn check(&self) {
        use StateName::{Closing, Draining, Failed, Idle, Ready, Requesting, Starved, Yielding};
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            let name = self.name(at);
            if matches!(name, Ready | Draining | Yielding) && self.sides[1 - at].alive {
                let theirs = self.sides[1 - at].live_qp();
                assert_eq!(side.connected_to, theirs, "open, but connected to nothing: {self:#?}");
            }
            assert!(side.queued.is_empty() || !matches!(name, Idle | Ready | Failed), "{self:#?}");
            let due = side.wireup.peers.first_due().is_some();
            let repeats = !self.bounds.streams && matches!(name, Requesting | Closing);
            assert_eq!(due, repeats || name == Starved);
            assert_eq!(side.wireup.connections().now, u32::from(name.is_open()));
            super::budget::check_books(&side.wireup);
        }
    }

    /// Tries everything that is not in the table.
    fn check_refusals(&self, at: usize) {
        let (peer, side, state) = (rank(1 - at as u32), &self.sides[at], self.name(at));
        let mut copy = side.wireup.clone();
        use InputName::{Close, Connected, Drained, QpReady, QpRefused};
        for input in [QpReady, QpRefused, Connected, Close, Drained] {
            if EDGES.iter().any(|edge| (edge.0, edge.1) == (state, input)) {
                continue;
            }
            let refused = match input {
                QpReady => copy.qp_ready(OTHER, params(0), self.medium(), 0),
                QpRefused => copy.qp_refused(OTHER, "", 0),
                Connected => copy.connected(OTHER, 0),
                Close => copy.close(OTHER, 0),
                _ => copy.drained(OTHER, 0),
            };
            assert_eq!(refused, Err(IllegalInput::State { peer, state, input }));
        }
        assert_eq!(sum(&copy), sum(&side.wireup), "a refused input changed something");
    }

    /// A future in which nothing more goes wrong, in a fixed order. It has to come to a good end. `good` are worlds
    /// of which that is known.
    fn finish(mut self, good: &mut HashSet<u128>) {
        let taken = &mut Taken::new();
        let Bounds { streams, overlapped, aheads, .. } = self.bounds;
        self.bounds = Bounds { streams, overlapped, aheads, ..CALM };
        let mut path = Vec::new();
        for _ in 0..STEPS_MAX {
            path.push(self.digest());
            let event = self.fair_event();
            if event.is_none() {
                self.check_end();
            }
            let Some(event) = event.filter(|_| !good.contains(&path[path.len() - 1])) else {
                return good.extend(path);
            };
            self.apply(event, taken);
            self.check();
        }
        panic!("no end: {self:#?}");
    }

    fn fair_event(&self) -> Option<Event> {
        // The clock moves only when all is quiet.
        let due = |at: &usize| self.sides[*at].alive.then(|| self.sides[*at].wireup.poll_timeout()).flatten();
        let first = (0..2).filter_map(|at| Some((due(&at)?, at))).min();
        self.events().first().copied().or(first.map(|(_, at)| Event::Tick(at)))
    }

    fn check_end(&self) {
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            let left = side.queued.len() + side.flight.len();
            assert_eq!(left, 0, "a need without an end: {self:#?}");
            match self.name(at) {
                StateName::Idle => assert_eq!((side.qp, self.peer_qp(at)), (None, None), "{self:#?}"),
                StateName::Ready => {
                    assert!(side.qp.is_some() && side.connected_to == self.peer_qp(at), "{self:#?}");
                }
                StateName::Failed => assert_eq!(side.qp, None, "half-open after a failure: {self:#?}"),
                other => panic!("{other} for ever: {self:#?}"),
            }
            if self.sides[1 - at].alive {
                assert_eq!(side.received, self.sides[1 - at].asked, "a send is lost: {self:#?}");
            }
        }
    }

    fn peer_qp(&self, at: usize) -> Option<u8> {
        let peer = &self.sides[1 - at];
        peer.alive.then_some(peer.qp).flatten()
    }

    /// Worlds with the same digest have the same future, but for the clock.
    fn digest(&self) -> u128 {
        let half = |salt: u8| {
            let mut hash = DefaultHasher::new();
            salt.hash(&mut hash);
            (self.bounds, self.faults).hash(&mut hash);
            for side in &self.sides {
                side.hash(&mut hash);
            }
            // Their order decides who overtakes whom.
            for (to, message) in &self.net {
                (to, said(message)).hash(&mut hash);
            }
            u128::from(hash.finish())
        };
        half(1) << 64 | half(2)
    }
}

impl Side {
    fn hash(&self, hash: &mut DefaultHasher) {
        let Side { alive, told, lookups, room, qp, connected_to, queued, asked, received, .. } = self;
        (alive, told, lookups, room, qp, connected_to, queued, asked, received).hash(hash);
        (self.fence, self.board.map(|facts| (facts.epoch, facts.params.0[0]))).hash(hash);
        for flying in &self.flight {
            match flying {
                Flying::Send(number, to) => (0, number, to).hash(hash),
                Flying::Control(message) => (1, said(message)).hash(hash),
                Flying::End(message) => (2, said(message)).hash(hash),
            }
        }
        for work in &self.qp_work {
            std::mem::discriminant(work).hash(hash);
        }
        hash.write_u8(0xff);
        sum_into(&self.wireup, hash);
    }
}

/// What a message says, without its clock.
fn said(message: &Message) -> (MessageKind, Epoch, Option<Epoch>, u8) {
    (message.kind, message.epoch, message.echo, message.params.0[0])
}

fn sum(wireup: &Machine) -> u64 {
    let mut hash = DefaultHasher::new();
    sum_into(wireup, &mut hash);
    hash.finish()
}

/// The connection without its clock.
fn sum_into(wireup: &Machine, hash: &mut DefaultHasher) {
    let end = |remote: &Remote| (remote.epoch, remote.params.0[0]);
    let ends = |link: &super::super::handshake::Link| (link.local.epoch, end(&link.remote));
    let (_, row) = wireup.peers.row(OTHER).unwrap();
    let places = &wireup.common.places;
    (row.state().name(), row.closed, wireup.common.next_epoch, places.limit, places.budget).hash(hash);
    [Claim::Ask, Claim::Answer].map(|claim| places.device.permits(claim)).hash(hash);
    match row.state() {
        State::Idle | State::Addressing { .. } | State::Failed { .. } => {}
        State::Preparing { target, .. } | State::Starved { target, .. } | State::Crowded { target, .. } => {
            match target {
                Target::Found(_) => {}
                Target::Ahead { needed } => needed.hash(hash),
                Target::Asked(remote) => end(remote).hash(hash),
            }
        }
        State::Published { local, .. } | State::Requesting { local, .. } => local.epoch.hash(hash),
        State::Connecting { link, answer, peer_closes } => {
            (ends(link), *answer as u8, *peer_closes as u8).hash(hash);
        }
        State::Ready { link } => ends(link).hash(hash),
        State::Draining { link, again }
        | State::Yielding { link, again }
        | State::Closing { link, again, .. } => {
            let asked = if let Again::Asked(remote) = again { Some(end(remote)) } else { None };
            (ends(link), std::mem::discriminant(again), asked).hash(hash);
        }
    }
}

const CALM: Bounds = Bounds {
    sends: [0; 2],
    closes: [0; 2],
    losses: 0,
    copies: 0,
    ticks: [0; 2],
    refusals: 0,
    deaths: 0,
    squeezes: 0,
    streams: false,
    cuts: 0,
    overlapped: false,
    aheads: [false; 2],
};
