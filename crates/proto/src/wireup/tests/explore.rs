//! Every interleaving of two processes: what can be delivered, lost, repeated or overtaken is, at every point.
//!
//! From each reachable state the invariants are checked, every illegal input is tried, and a fair future without
//! further losses must bring both sides to the same end, with every send arrived.
use super::super::handshake::{EDGES, Remote, Target};
use super::*;
use std::boxed::Box;
use std::collections::{BTreeSet, HashSet};
use std::string::String;

/// How much may still go wrong, and who wants what.
#[derive(Clone, Copy, Debug)]
struct Budget {
    sends: [u8; 2],
    closes: [u8; 2],
    losses: u8,
    copies: u8,
    ticks: [u8; 2],
    refusals: u8,
    deaths: u8,
    medium: Medium,
}

/// One move of the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Send(usize),
    Close(usize),
    /// The driver of a side does its next work on queue pairs.
    Qp(usize),
    Refused(usize),
    Lookup(usize),
    Deliver(usize),
    Lose(usize),
    Copy(usize),
    Tick(usize),
    /// A side dies; the other is told later.
    Dies(usize),
    Told(usize),
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
    /// The queue pair and what it is connected to; numbers are never used again.
    qp: Option<u8>,
    connected_to: Option<u8>,
    qps_made: u8,
    /// Sends that wait for a connection, all that were asked for, and what came from the other side.
    queued: u8,
    asked: u8,
    received: u8,
}

impl Side {
    /// The queue pair, unless it is about to be destroyed: nothing may be sent to that any more.
    fn live_qp(&self) -> Option<u8> {
        let doomed = self.qp_work.iter().any(|work| matches!(work, Action::Destroy { .. }));
        self.qp.filter(|_| !doomed)
    }
}

/// The edges that were taken, over all scenarios.
type Taken = BTreeSet<(StateName, InputName, StateName)>;

#[derive(Clone, Debug)]
struct World {
    sides: [Side; 2],
    /// In flight: receiver and message. Any may be the next to arrive.
    net: Vec<(usize, Message)>,
    budget: Budget,
    now_ns: u64,
}

impl World {
    fn new(budget: Budget) -> Self {
        let side = |me: u32| {
            let mut wireup = wireup(me);
            assert_eq!(wireup.intern(rank(1 - me)), Ok(OTHER));
            Side {
                wireup,
                alive: true,
                told: 0,
                qp_work: VecDeque::new(),
                lookups: 0,
                qp: None,
                connected_to: None,
                qps_made: 0,
                queued: 0,
                asked: 0,
                received: 0,
            }
        };
        World { sides: [side(0), side(1)], net: Vec::new(), budget, now_ns: 0 }
    }

    /// Everything that can happen now.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            let mut add = |event, possible: bool| events.extend(possible.then_some(event));
            add(Event::Send(at), self.budget.sends[at] > 0);
            add(Event::Close(at), self.budget.closes[at] > 0 && self.may_close(at));
            add(Event::Qp(at), !side.qp_work.is_empty());
            let creates = matches!(side.qp_work.front(), Some(Action::CreateQp { .. }));
            add(Event::Refused(at), creates && self.budget.refusals > 0);
            add(Event::Lookup(at), side.lookups > 0);
            add(Event::Tick(at), side.wireup.poll_timeout().is_some() && self.budget.ticks[at] > 0);
            add(Event::Dies(at), self.budget.deaths > 0);
            add(Event::Told(at), !self.sides[1 - at].alive && side.told < 2);
        }
        for at in 0..self.net.len() {
            events.push(Event::Deliver(at));
            events.extend((self.budget.losses > 0).then_some(Event::Lose(at)));
            events.extend((self.budget.copies > 0).then_some(Event::Copy(at)));
        }
        events
    }

    fn may_close(&self, at: usize) -> bool {
        EDGES.iter().any(|edge| (edge.0, edge.1) == (self.name(at), InputName::Close))
    }

    fn apply(&mut self, event: Event, taken: &mut Taken) {
        match event {
            Event::Send(at) => {
                self.budget.sends[at] -= 1;
                self.send(at, taken);
            }
            Event::Close(at) => {
                self.budget.closes[at] -= 1;
                self.input(at, InputName::Close, taken, |w, now| w.close(OTHER, now));
            }
            Event::Qp(at) => self.qp_work(at, taken),
            Event::Refused(at) => {
                self.budget.refusals -= 1;
                self.sides[at].qp_work.pop_front();
                self.input(at, InputName::QpRefused, taken, |w, now| w.qp_refused(OTHER, "none left", now));
            }
            Event::Lookup(at) => {
                self.sides[at].lookups -= 1;
                let card = card_of(1 - at as u32);
                self.input(at, InputName::Card, taken, |w, now| w.card(OTHER, card, now));
            }
            Event::Deliver(at) => {
                let (to, message) = self.net.swap_remove(at);
                self.deliver(to, message, taken);
            }
            Event::Lose(at) => {
                self.budget.losses -= 1;
                self.net.swap_remove(at);
            }
            Event::Copy(at) => {
                self.budget.copies -= 1;
                self.net.push(self.net[at]);
            }
            Event::Tick(at) => {
                self.budget.ticks[at] -= 1;
                self.tick(at, taken);
            }
            Event::Dies(at) => {
                self.budget.deaths -= 1;
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

    fn send(&mut self, at: usize, taken: &mut Taken) {
        let (now, from) = (self.now_ns, self.name(at));
        let side = &mut self.sides[at];
        side.asked += 1;
        match side.wireup.need(OTHER, now) {
            Ok(Progress::Pending) => side.queued += 1,
            Ok(Progress::Ready) => {
                assert_eq!(from, StateName::Ready);
                self.transmit(at, 1);
            }
            Err(error) => assert!(matches!(error, NeedError::Lost { .. }), "{error}"),
        }
        self.after(at, from, InputName::Need, taken);
    }

    /// Puts sends into the other side's queue pair, which has to be there to take them in.
    fn transmit(&mut self, at: usize, sends: u8) {
        let to = self.sides[at].connected_to;
        assert!(to.is_some(), "sent without a connection: {self:#?}");
        if self.sides[1 - at].alive {
            assert_eq!(to, self.sides[1 - at].live_qp(), "a send is lost: {self:#?}");
            self.sides[1 - at].received += sends;
        }
    }

    fn tick(&mut self, at: usize, taken: &mut Taken) {
        let due = self.sides[at].wireup.poll_timeout();
        self.now_ns = self.now_ns.max(due.expect("something is due"));
        self.input(at, InputName::Due, taken, |w, now| {
            w.tick(now);
            Ok(())
        });
    }

    fn deliver(&mut self, to: usize, message: Message, taken: &mut Taken) {
        if !self.sides[to].alive {
            return;
        }
        let row = self.sides[to].wireup.peers.row_mut(OTHER);
        let current = row.state.age(row.closed, &message) == Age::Current;
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

    fn qp_work(&mut self, at: usize, taken: &mut Taken) {
        let medium = self.budget.medium;
        let side = &mut self.sides[at];
        match side.qp_work.pop_front().expect("there is work") {
            Action::CreateQp { card, .. } => {
                assert_eq!(side.qp, None, "two live queue pairs for one pair");
                assert_eq!(card, card_of(1 - at as u32));
                side.qps_made += 1;
                let number = side.qps_made + 100 * at as u8;
                side.qp = Some(number);
                let params = Params([number; 32]);
                self.input(at, InputName::QpReady, taken, |w, now| w.qp_ready(OTHER, params, medium, now));
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
            }
            other => panic!("{other:?} is no work on queue pairs"),
        }
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
        taken.insert((from, name, self.name(at)));
        self.carry_out(at);
    }

    /// Hands the actions to driver, net and books.
    fn carry_out(&mut self, at: usize) {
        while let Some(action) = self.sides[at].wireup.poll_action() {
            let side = &mut self.sides[at];
            match action {
                Action::Lookup { .. } => side.lookups += 1,
                Action::Send { datagram, .. } => {
                    self.net.push((1 - at, Message::parse(datagram.as_bytes()).unwrap()));
                }
                Action::Ready { name, .. } => {
                    assert_eq!(name, OTHER.to_wire());
                    let queued = std::mem::take(&mut side.queued);
                    self.transmit(at, queued);
                }
                Action::Failed { .. } => side.queued = 0,
                Action::Closed { .. } => {}
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
            assert!(side.queued == 0 || !matches!(name, Idle | Ready | Failed), "{self:#?}");
            let due = side.wireup.poll_timeout().is_some();
            let repeats = self.budget.medium == Medium::Datagrams && matches!(name, Requesting | Closing);
            assert_eq!(due, repeats || name == Starved);
            assert_eq!(side.wireup.connections().now, u32::from(name.is_open()));
            self.check_refusals(at);
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
                QpReady => copy.qp_ready(OTHER, params(0), self.budget.medium, 0),
                QpRefused => copy.qp_refused(OTHER, "", 0),
                Connected => copy.connected(OTHER, 0),
                Close => copy.close(OTHER, 0),
                _ => copy.drained(OTHER, 0),
            };
            assert_eq!(refused, Err(IllegalInput::State { peer, state, input }));
        }
        assert_eq!(digest(&copy), digest(&side.wireup), "a refused input changed something");
    }

    /// A future in which nothing more goes wrong, in a fixed order. It has to come to a good end.
    fn finish(mut self) {
        let taken = &mut Taken::new();
        for _ in 0..200 {
            let Some(event) = self.fair_event() else { return self.check_end() };
            self.apply(event, taken);
            self.check();
        }
        panic!("no end: {self:#?}");
    }

    fn fair_event(&mut self) -> Option<Event> {
        self.budget = Budget { ticks: [1; 2], medium: self.budget.medium, ..CALM };
        let wanted = |event: &Event| !matches!(event, Event::Tick(_));
        let events = self.events();
        // The clock moves only when all is quiet.
        events.iter().copied().find(wanted).or_else(|| events.first().copied())
    }

    fn check_end(&self) {
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            assert_eq!(side.queued, 0, "a need without an end: {self:#?}");
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
    fn digest(&self) -> String {
        let one =
            |(to, m): &(usize, Message)| format!("{to}{:?}{}{:?}{}", m.kind, m.epoch, m.echo, m.params.0[0]);
        let mut net: Vec<_> = self.net.iter().map(one).collect();
        net.sort();
        let side = |side: &Side| {
            let Side { alive, told, lookups, qp, connected_to, queued, asked, received, .. } = side;
            let work: Vec<_> = side.qp_work.iter().map(std::mem::discriminant).collect();
            let books =
                format!("{alive}{told}{work:?}{lookups}{qp:?}{connected_to:?}{queued}{asked}{received}");
            format!("{}{books}", digest(&side.wireup))
        };
        let Budget { sends, closes, losses, copies, ticks, refusals, deaths, .. } = self.budget;
        let budget = format!("{sends:?}{closes:?}{losses}{copies}{ticks:?}{refusals}{deaths}");
        format!("{}|{}|{net:?}|{budget}", side(&self.sides[0]), side(&self.sides[1]))
    }
}

/// The connection without its clock.
fn digest(wireup: &Machine) -> String {
    let end = |remote: &Remote| (remote.epoch.get(), remote.params.0[0]);
    let ends = |link: &super::super::handshake::Link| (link.local.epoch.get(), end(&link.remote));
    let (_, row) = wireup.peers.row(OTHER).unwrap();
    let state = match &row.state {
        State::Idle | State::Addressing { .. } | State::Failed { .. } => String::new(),
        State::Preparing { target, .. } | State::Starved { target, .. } | State::Crowded { target, .. } => {
            match target {
                Target::Found(_) => "found".into(),
                Target::Asked(remote) => format!("{:?}", end(remote)),
            }
        }
        State::Requesting { local, .. } => format!("{}", local.epoch),
        State::Connecting { link, answer, peer_closes } => {
            format!("{:?}{answer:?}{peer_closes:?}", ends(link))
        }
        State::Ready { link } => format!("{:?}", ends(link)),
        State::Draining { link, again } | State::Yielding { link, again } => {
            format!("{:?}{again:?}", ends(link))
        }
        State::Closing { link, again, .. } => format!("{:?}{again:?}", ends(link)),
    };
    format!("{:?}{state}{:?}{}", row.state.name(), row.closed, wireup.common.next_epoch)
}

const CALM: Budget = Budget {
    sends: [0; 2],
    closes: [0; 2],
    losses: 0,
    copies: 0,
    ticks: [0; 2],
    refusals: 0,
    deaths: 0,
    medium: Medium::Datagrams,
};

/// Visits every world that can be reached; how many there are.
fn explore(budget: Budget, taken: &mut Taken) -> usize {
    let mut seen = HashSet::new();
    let mut open: Vec<Box<World>> = std::vec![Box::new(World::new(budget))];
    while let Some(world) = open.pop() {
        if !seen.insert(world.digest()) {
            continue;
        }
        world.check();
        world.as_ref().clone().finish();
        for event in world.events() {
            let mut next = world.clone();
            next.apply(event, taken);
            open.push(next);
        }
    }
    seen.len()
}

#[test]
fn one_asks() {
    let budget = Budget { sends: [1, 0], losses: 2, copies: 2, ticks: [3, 3], ..CALM };
    let worlds = explore(budget, &mut Taken::new());
    assert!(worlds > 200, "{worlds}");
}

#[test]
fn both_ask_with_losses_and_copies() {
    let budget = Budget { sends: [1; 2], losses: 2, copies: 1, ticks: [2, 2], ..CALM };
    let worlds = explore(budget, &mut Taken::new());
    assert!(worlds > 2000, "{worlds}");
}

#[test]
fn queue_pairs_that_are_refused_leave_nothing_half_open() {
    let budget = Budget { sends: [1; 2], losses: 1, ticks: [2, 2], refusals: 2, ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn a_death_at_any_moment_leaves_nothing_half_open() {
    let budget = Budget { sends: [1; 2], losses: 1, copies: 1, ticks: [1, 1], deaths: 1, ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn one_closes_with_losses_and_copies() {
    let budget = Budget { sends: [1, 0], closes: [1, 0], losses: 1, copies: 1, ticks: [2, 2], ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn closes_cross_with_losses_and_copies() {
    let budget = Budget { sends: [1, 0], closes: [1; 2], losses: 1, copies: 1, ticks: [1, 1], ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn a_connection_is_reopened_while_it_is_closed() {
    let budget = Budget { sends: [2, 1], closes: [1, 0], losses: 1, ticks: [1, 1], ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn copies_of_an_old_connection_do_not_disturb_the_next() {
    let budget = Budget { sends: [2, 0], closes: [1, 1], copies: 2, ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn over_streams_that_overtake_each_other_all_ends_well() {
    let budget = Budget { sends: [2, 2], closes: [1, 1], refusals: 1, medium: Medium::Stream, ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn every_move_of_the_table_is_taken_and_no_other() {
    let mut taken = Taken::new();
    let small = Budget { losses: 1, ticks: [1, 1], ..CALM };
    explore(Budget { sends: [2, 0], closes: [1, 0], deaths: 1, ..small }, &mut taken);
    explore(Budget { sends: [1, 1], copies: 1, refusals: 1, deaths: 1, ..small }, &mut taken);
    explore(Budget { sends: [1, 1], closes: [2, 1], losses: 0, ..small }, &mut taken);
    explore(Budget { sends: [2, 1], closes: [1, 0], ..CALM }, &mut taken);
    let table: Taken = EDGES.iter().flat_map(|edge| edge.2.iter().map(|&to| (edge.0, edge.1, to))).collect();
    let excess: Vec<_> = taken.difference(&table).collect();
    assert!(excess.is_empty(), "taken but not listed: {excess:?}");
    let missing: Vec<_> = table.difference(&taken).collect();
    assert!(missing.is_empty(), "listed but never taken: {missing:?}");
}
