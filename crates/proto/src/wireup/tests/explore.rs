//! Every interleaving of two processes: what can be delivered, lost, repeated or overtaken is, at every point.
//!
//! From each reachable state the invariants are checked, every illegal input is tried, and a fair future without
//! further losses must bring both sides to the same end.
use super::super::state::EDGES;
use super::*;
use std::boxed::Box;
use std::collections::{BTreeSet, HashSet};
use std::format;

/// How much may still go wrong, and who wants the connection.
#[derive(Clone, Copy, Debug)]
struct Budget {
    needs: [u8; 2],
    losses: u8,
    copies: u8,
    ticks: [u8; 2],
    qp_failures: u8,
    deaths: u8,
}

/// One move of the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Need(usize),
    /// The driver of a side does its next work on queue pairs.
    Qp(usize),
    QpFails(usize),
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
    wireup: Wireup,
    alive: bool,
    /// Death notices that came: bad news may come twice.
    told: u8,
    /// Work of the driver on queue pairs, in order, and lookups, in their own time.
    qp_work: VecDeque<Action>,
    lookups: u32,
    /// The live queue pair and what it is connected to; queue pairs are numbered and never reused.
    qp: Option<u8>,
    connected_to: Option<u8>,
    /// Needs that have neither become ready nor failed.
    open_needs: u32,
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
    qps_made: u8,
}

impl World {
    fn new(budget: Budget) -> Self {
        let side = |me| Side {
            wireup: wireup(me),
            alive: true,
            told: 0,
            qp_work: VecDeque::new(),
            lookups: 0,
            qp: None,
            connected_to: None,
            open_needs: 0,
        };
        World { sides: [side(0), side(1)], net: Vec::new(), budget, now_ns: 0, qps_made: 0 }
    }

    /// Everything that can happen now.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            let mut add = |event, possible: bool| events.extend(possible.then_some(event));
            add(Event::Need(at), self.budget.needs[at] > 0);
            add(Event::Qp(at), !side.qp_work.is_empty());
            let creates = matches!(side.qp_work.front(), Some(Action::CreateQp { .. }));
            add(Event::QpFails(at), creates && self.budget.qp_failures > 0);
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

    fn apply(&mut self, event: Event, taken: &mut Taken) {
        match event {
            Event::Need(at) => {
                self.budget.needs[at] -= 1;
                self.need(at, taken);
            }
            Event::Qp(at) => self.qp_work(at, taken),
            Event::QpFails(at) => {
                self.budget.qp_failures -= 1;
                self.sides[at].qp_work.pop_front();
                self.input(at, InputName::QpFailed, taken, |w, peer, _| w.qp_failed(peer, "none left"));
            }
            Event::Lookup(at) => {
                self.sides[at].lookups -= 1;
                let card = config(1 - at as u32, 2).card;
                self.input(at, InputName::Card, taken, |w, peer, now| w.card(peer, card, now));
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
                self.input(at, InputName::Died, taken, |w, peer, _| {
                    w.peer_died(peer, "killed");
                    Ok(())
                });
            }
        }
    }

    fn need(&mut self, at: usize, taken: &mut Taken) {
        let now = self.now_ns;
        let side = &mut self.sides[at];
        let from = side.wireup.state(Rank(1 - at as u32));
        match side.wireup.need(Rank(1 - at as u32), now) {
            Ok(Progress::Pending) => side.open_needs += 1,
            Ok(Progress::Ready) => assert_eq!(from, StateName::Ready),
            Err(error) => assert!(matches!(error, NeedError::Lost { .. }), "{error}"),
        }
        self.after(at, from, InputName::Need, taken);
    }

    fn tick(&mut self, at: usize, taken: &mut Taken) {
        let due = self.sides[at].wireup.poll_timeout();
        self.now_ns = self.now_ns.max(due.expect("something is due"));
        self.input(at, InputName::Due, taken, |w, _, now| {
            w.tick(now);
            Ok(())
        });
    }

    fn deliver(&mut self, to: usize, message: Message, taken: &mut Taken) {
        if !self.sides[to].alive {
            return;
        }
        let name = match message.kind {
            MessageKind::Request => InputName::Request,
            MessageKind::Reply => InputName::Reply,
        };
        self.input(to, name, taken, |w, _, now| {
            w.datagram(message.emit().as_bytes(), now).expect("no peer lies here");
            Ok(())
        });
    }

    fn qp_work(&mut self, at: usize, taken: &mut Taken) {
        let work = self.sides[at].qp_work.pop_front().expect("there is work");
        match work {
            Action::CreateQp { .. } => {
                assert_eq!(self.sides[at].qp, None, "two live queue pairs for one pair");
                self.qps_made += 1;
                let number = self.qps_made;
                self.sides[at].qp = Some(number);
                self.input(at, InputName::QpReady, taken, |w, peer, now| {
                    w.qp_ready(peer, Params([number; 32]), now)
                });
            }
            Action::Connect { params, .. } => {
                assert!(self.sides[at].qp.is_some());
                self.sides[at].connected_to = Some(params.0[0]);
                self.input(at, InputName::Connected, taken, |w, peer, now| w.connected(peer, now));
            }
            Action::Destroy { .. } => {
                assert!(self.sides[at].qp.take().is_some(), "destroyed what is not there");
                self.sides[at].connected_to = None;
            }
            other => panic!("{other:?} is no work on queue pairs"),
        }
    }

    fn input(
        &mut self,
        at: usize,
        name: InputName,
        taken: &mut Taken,
        call: impl FnOnce(&mut Wireup, Rank, u64) -> Result<(), IllegalInput>,
    ) {
        let peer = Rank(1 - at as u32);
        let from = self.sides[at].wireup.state(peer);
        call(&mut self.sides[at].wireup, peer, self.now_ns).unwrap();
        self.after(at, from, name, taken);
    }

    /// Notes the edge, and hands the actions to driver, net and books.
    fn after(&mut self, at: usize, from: StateName, name: InputName, taken: &mut Taken) {
        let side = &mut self.sides[at];
        taken.insert((from, name, side.wireup.state(Rank(1 - at as u32))));
        while let Some(action) = side.wireup.poll_action() {
            match action {
                Action::Lookup { .. } => side.lookups += 1,
                Action::Send { datagram, .. } => {
                    self.net.push((1 - at, Message::parse(datagram.as_bytes()).unwrap()));
                }
                Action::Ready { .. } | Action::Failed { .. } => side.open_needs = 0,
                work => side.qp_work.push_back(work),
            }
        }
    }

    fn name(&self, at: usize) -> StateName {
        self.sides[at].wireup.state(Rank(1 - at as u32))
    }

    /// What holds at every moment.
    fn check(&self) {
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            if self.name(at) == StateName::Ready && self.sides[1 - at].alive {
                let theirs = self.sides[1 - at].qp;
                assert_eq!(side.connected_to, theirs, "ready, but connected to nothing: {self:#?}");
            }
            if side.open_needs > 0 {
                assert!(!matches!(self.name(at), StateName::Idle | StateName::Ready | StateName::Failed));
            }
            let due = side.wireup.poll_timeout().is_some();
            assert_eq!(due, self.name(at) == StateName::Requesting);
            self.check_refusals(at);
        }
    }

    /// Tries everything that is not in the table.
    fn check_refusals(&self, at: usize) {
        let (peer, side, from) = (Rank(1 - at as u32), &self.sides[at], self.name(at));
        let mut copy = side.wireup.clone();
        for name in [InputName::Card, InputName::QpReady, InputName::QpFailed, InputName::Connected] {
            if EDGES.iter().any(|edge| (edge.0, edge.1) == (from, name)) {
                continue;
            }
            let refused = match name {
                InputName::Card => copy.card(peer, config(0, 2).card, 0),
                InputName::QpReady => copy.qp_ready(peer, params(0), 0),
                InputName::QpFailed => copy.qp_failed(peer, ""),
                _ => copy.connected(peer, 0),
            };
            assert_eq!(refused, Err(IllegalInput { peer, state: from, input: name }));
        }
        assert_eq!(digest(&copy), digest(&side.wireup), "a refused input changed something");
    }

    /// A future in which nothing more goes wrong, in a fixed order. It has to come to a good end.
    fn finish(mut self) {
        let taken = &mut Taken::new();
        for _ in 0..100 {
            let Some(event) = self.fair_event() else { return self.check_end() };
            self.apply(event, taken);
            self.check();
        }
        panic!("no end: {self:#?}");
    }

    fn fair_event(&mut self) -> Option<Event> {
        self.budget = Budget { ticks: [1; 2], ..CALM };
        let wanted = |event: &Event| !matches!(event, Event::Tick(_));
        let events = self.events();
        events.iter().copied().find(wanted).or_else(|| {
            // Only when all is quiet, as a patient clock would.
            let waits = |at: &usize| self.sides[1 - at].alive;
            (0..2).filter(waits).map(Event::Tick).find(|tick| {
                let Event::Tick(at) = tick else { return false };
                self.sides[*at].alive && self.sides[*at].wireup.poll_timeout().is_some()
            })
        })
    }

    fn check_end(&self) {
        for (at, side) in self.sides.iter().enumerate().filter(|(_, side)| side.alive) {
            assert_eq!(side.open_needs, 0, "a need without an end: {self:#?}");
            match self.name(at) {
                StateName::Idle => assert_eq!((side.qp, self.peer_qp(at)), (None, None), "{self:#?}"),
                StateName::Ready => {
                    assert!(side.qp.is_some() && side.connected_to == self.peer_qp(at), "{self:#?}");
                }
                StateName::Failed => assert_eq!(side.qp, None, "half-open after a failure: {self:#?}"),
                other => panic!("{other} for ever: {self:#?}"),
            }
        }
    }

    fn peer_qp(&self, at: usize) -> Option<u8> {
        let peer = &self.sides[1 - at];
        peer.alive.then_some(peer.qp).flatten()
    }

    /// Worlds with the same digest have the same future, but for the clock.
    fn digest(&self) -> String {
        let mut net: Vec<_> = self
            .net
            .iter()
            .map(|(to, m)| format!("{to}{:?}{}{:?}{:?}", m.kind, m.epoch, m.echo, m.params))
            .collect();
        net.sort();
        let side = |side: &Side| {
            let Side { alive, told, qp_work, lookups, qp, connected_to, open_needs, .. } = side;
            let books = format!("{alive}{told}{qp_work:?}{lookups}{qp:?}{connected_to:?}{open_needs}");
            format!("{}{books}", digest(&side.wireup))
        };
        let Budget { needs, losses, copies, ticks, qp_failures, deaths } = self.budget;
        let budget = format!("{needs:?}{losses}{copies}{ticks:?}{qp_failures}{deaths}");
        format!("{}|{}|{net:?}|{budget}", side(&self.sides[0]), side(&self.sides[1]))
    }
}

/// A connection without its clock.
fn digest(wireup: &Wireup) -> String {
    let one = |(peer, state): (&Rank, &State)| match state {
        State::Preparing { card, remote } => {
            format!("{peer}P{}{:?}", card.is_some(), remote.map(|remote| (remote.epoch, remote.params.0[0])))
        }
        State::Addressing { local } => format!("{peer}A{}", local.epoch),
        State::Requesting { local, .. } => format!("{peer}R{}", local.epoch),
        State::Connecting { local, remote, answer } => {
            format!("{peer}C{}{}{answer:?}", local.epoch, remote.epoch)
        }
        State::Ready { local, remote_epoch } => format!("{peer}Y{}{remote_epoch}", local.epoch),
        State::Failed { why } => format!("{peer}F{why}"),
    };
    let peers: Vec<_> = wireup.peers.iter().map(one).collect();
    format!("{peers:?}{}", wireup.next_epoch)
}

const CALM: Budget = Budget { needs: [0; 2], losses: 0, copies: 0, ticks: [0; 2], qp_failures: 0, deaths: 0 };

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
    let budget = Budget { needs: [1, 0], losses: 2, copies: 2, ticks: [3, 3], ..CALM };
    let worlds = explore(budget, &mut Taken::new());
    assert!(worlds > 200, "{worlds}");
}

#[test]
fn both_ask_with_losses_and_copies() {
    let budget = Budget { needs: [1; 2], losses: 2, copies: 1, ticks: [2, 2], ..CALM };
    let worlds = explore(budget, &mut Taken::new());
    assert!(worlds > 2000, "{worlds}");
}

#[test]
fn queue_pairs_that_cannot_be_made_leave_nothing_half_open() {
    let budget = Budget { needs: [1; 2], losses: 1, ticks: [2, 2], qp_failures: 2, ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn a_death_at_any_moment_leaves_nothing_half_open() {
    let budget = Budget { needs: [1; 2], losses: 1, copies: 1, ticks: [1, 1], deaths: 1, ..CALM };
    assert!(explore(budget, &mut Taken::new()) > 1000);
}

#[test]
fn every_move_of_the_table_is_taken_and_no_other() {
    let mut taken = Taken::new();
    let small = Budget { losses: 1, copies: 1, ticks: [1, 1], qp_failures: 1, deaths: 1, ..CALM };
    for needs in [[2, 0], [1, 1]] {
        explore(Budget { needs, ..small }, &mut taken);
    }
    let table: Taken = EDGES.iter().flat_map(|edge| edge.2.iter().map(|&to| (edge.0, edge.1, to))).collect();
    let excess: Vec<_> = taken.difference(&table).collect();
    assert!(excess.is_empty(), "taken but not listed: {excess:?}");
    // Nobody answers what was not asked, as long as connections are not closed and opened again. The scripts
    // above show that such a reply changes nothing.
    let stray = [StateName::Idle, StateName::Preparing, StateName::Addressing, StateName::Requesting];
    let stray: Taken = stray.map(|state| (state, InputName::Reply, state)).into();
    let missing: Taken = table.difference(&taken).copied().collect();
    assert_eq!(missing, stray, "left: listed but never taken");
}
