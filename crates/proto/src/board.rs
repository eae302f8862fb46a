//! The bulletin board of a job: keys that processes put, and get after the next fence, over the tree.
//!
//! A [`Board`] is one node's part of it. How puts travel and where gets find them is a [`BoardKind`], after
//! the four node-level caches of ScELA. In all of them the root keeps everything and decides; every other node
//! has a cache, and a get that it cannot answer climbs the tree until some node can. Equal gets climb as one.
//!
//! | kind | a put | the end of a fence | a get that misses |
//! |---|---|---|---|
//! | [`Hcs`](BoardKind::Hcs) | goes up at once, by itself | only ends the fence | climbs |
//! | [`Hcma`](BoardKind::Hcma) | goes up with the fence, one message per node | only ends the fence | climbs |
//! | [`Hcmab`](BoardKind::Hcmab) | as above | brings all that was put | is absent: every get is local |
//! | [`HcmabLru`](BoardKind::HcmabLru) | as above | the same, kept within a bound | climbs after evictions |
//!
//! An answer is cached by every node that it passes on its way down.
//!
//! # What holds
//! - A key that was put before a fence is found by every get after it, with the last value.
//! - Before the fence a get may or may not see a put. The process that put finds its own put at once.
//! - A node remembers which keys are absent until a fence may have published them. That is safe because links
//!   keep their order: an answer never arrives later than the end of a fence that came after it.
//! - Where nothing was ever given up, a broadcasting board knows of every key: absence costs no message.
//!
//! Not here: names of services, the PMI grammar, sockets. A driver feeds [`put`](Board::put),
//! [`get`](Board::get), [`enter`](Board::enter) and [`hear`](Board::hear), and after each of them takes all of
//! [`poll_action`](Board::poll_action).
mod api;
mod cache;
mod fence;
mod message;
#[cfg(test)]
mod tests;

pub use api::{
    Action, BOARD_BYTES_MAX, BoardConfig, BoardCounters, BoardError, BoardKind, Change, ENTRIES_PER_PROCESS,
    GETS_PER_CLIENT_MAX, Got, KEY_BYTES_MAX, Mirror, VALUE_BYTES_MAX,
};
pub use message::{Body, Entries, Entry, Message};

use crate::lane::{Admission, Arrivals, Bytes, LaneError, Links, Neighbour, PART_BYTES_MAX, Place};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use cache::{Cache, Known};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    Client(u32),
    /// Index of the child.
    Child(u32),
}

/// A put of the current phase that has not gone up.
#[derive(Debug)]
struct Fresh {
    value: Bytes,
    contested: bool,
}

/// One node's part of the bulletin board.
#[derive(Debug)]
pub struct Board {
    kind: BoardKind,
    links: Links,
    clients: u32,
    guests: u32,
    children: usize,
    /// Bounds on what is kept here.
    entries_max: usize,
    bytes_max: usize,
    gets_max: usize,
    cache: Cache,
    /// Puts of this phase: at the root until the fence is over, elsewhere until they go up.
    fresh: BTreeMap<Bytes, Fresh>,
    fresh_bytes: usize,
    /// Does this node know of every key that a fence has published?
    complete: bool,
    waiting: BTreeMap<Bytes, Vec<Waiter>>,
    gets_open: Vec<u32>,
    fence: Arrivals,
    actions: VecDeque<Action>,
    mirror: Mirror,
    changes: VecDeque<Change>,
    counters: BoardCounters,
}

impl Board {
    /// The board of the node that stands at `place`.
    pub fn new(config: BoardConfig, place: &Place) -> Self {
        let processes = place.processes() as usize;
        let clients = place.local().len();
        let is_root = place.parent().is_none();
        let bounded = config.kind == BoardKind::HcmabLru && !is_root;
        // Half of the room is for puts under way, so at least one of each.
        let entries_max = if bounded { (config.entries_per_process * processes).max(2) } else { usize::MAX };
        Board {
            kind: config.kind,
            links: Links::new(config.job, config.generation, place),
            clients: clients as u32,
            guests: config.guests,
            children: place.children().len(),
            entries_max,
            bytes_max: config.bytes_max,
            gets_max: processes.saturating_mul(GETS_PER_CLIENT_MAX as usize),
            cache: Cache::new(),
            fresh: BTreeMap::new(),
            fresh_bytes: 0,
            complete: is_root || config.kind.broadcasts(),
            waiting: BTreeMap::new(),
            gets_open: vec![0; clients + config.guests as usize],
            fence: Arrivals::new(clients, place.children().len()),
            actions: VecDeque::new(),
            mirror: config.mirror,
            changes: VecDeque::new(),
            counters: BoardCounters::default(),
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next change of what is kept here, where [`BoardConfig::mirror`] asks for it. Take them all after
    /// every input, and before acting on the end of a fence.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// What was done so far.
    pub fn counters(&self) -> BoardCounters {
        BoardCounters { traffic: self.links.traffic, ..self.counters }
    }

    /// Entries that are kept here now.
    pub fn entries(&self) -> usize {
        self.cache.len() + self.fresh.len()
    }

    /// Are local processes waiting in a fence?
    pub fn in_fence(&self) -> bool {
        self.fence.has_clients()
    }

    /// Puts what is known before the job begins. The same on every node, before any other input.
    pub fn preload(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoardError> {
        check_length(key, value)?;
        let entry = Entry::new(key.into(), value.into());
        self.check_room(core::slice::from_ref(&entry))?;
        self.keep(entry.key, Known::Value(entry.value));
        Ok(())
    }

    /// A local process puts a key; everybody can get it after the next fence. A later put replaces it.
    pub fn put(&mut self, client: u32, key: &[u8], value: &[u8]) -> Result<(), BoardError> {
        self.check_client(client)?;
        check_length(key, value)?;
        let entry = Entry::new(key.into(), value.into());
        self.check_room(core::slice::from_ref(&entry))?;
        self.take_put(entry);
        Ok(())
    }

    /// A local process gets a key.
    pub fn get(&mut self, client: u32, key: &[u8]) -> Result<Got, BoardError> {
        self.check_client(client)?;
        check_length(key, &[])?;
        match self.look_up(key) {
            Some(Known::Value(value)) => Ok(Got::Value(value)),
            Some(Known::Absent) => Ok(Got::Absent),
            None if self.gets_open[client as usize] >= GETS_PER_CLIENT_MAX => {
                Err(BoardError::TooManyGets(client))
            }
            None => {
                self.gets_open[client as usize] += 1;
                self.climb(key.into(), Waiter::Client(client));
                Ok(Got::Later)
            }
        }
    }

    /// A local process enters the fence. When all are in, an [`Action::FenceDone`] says so.
    pub fn enter(&mut self, client: u32) -> Result<(), BoardError> {
        if client >= self.clients {
            return Err(BoardError::NoClient(client));
        }
        if !self.fence.client_enters(client as usize) {
            return Err(BoardError::EnteredTwice(client));
        }
        self.close_fence();
        Ok(())
    }

    /// A message from a neighbour. After an error the link is of no use, but for one generation that is
    /// [ahead](LaneError::Ahead): that message may be offered again to the next generation's board.
    pub fn hear(&mut self, from: Neighbour, message: Message) -> Result<(), BoardError> {
        if self.links.admit(from, message.head)? == Admission::Ignore {
            return Ok(());
        }
        let outcome = match from {
            Neighbour::Parent => self.hear_parent(message.body),
            Neighbour::Child(node) => {
                let child = self.links.child_index(node).ok_or(LaneError::Stranger(from))?;
                self.hear_child(from, child, message.body)
            }
        };
        self.links.traffic.refused += u64::from(outcome.is_err());
        outcome
    }

    fn hear_child(&mut self, from: Neighbour, child: usize, body: Body) -> Result<(), BoardError> {
        match body {
            Body::Put(entry) if self.kind == BoardKind::Hcs => self.take_puts(&[entry]),
            Body::Part(entries) if self.kind != BoardKind::Hcs => self.take_puts(&entries),
            Body::Enter { fence, entries } => {
                if fence != self.fence.number() || !self.fence.child_enters(child) {
                    return Err(BoardError::WrongFence { from, got: fence, expected: self.fence.number() });
                }
                self.take_puts(&entries)?;
                self.close_fence();
                Ok(())
            }
            Body::Get { key } => self.serve_child(from, child, key),
            _ => Err(BoardError::Misplaced(from)),
        }
    }

    fn hear_parent(&mut self, body: Body) -> Result<(), BoardError> {
        let from = Neighbour::Parent;
        match body {
            Body::Part(entries) if self.kind.broadcasts() => self.take_news(entries),
            Body::Leave { fence, entries } => {
                if fence != self.fence.number() || !self.fence.all_in() {
                    return Err(BoardError::WrongFence { from, got: fence, expected: self.fence.number() });
                }
                self.open_fence(entries);
            }
            Body::Stale(keys) => self.take_stale(keys),
            Body::Found { key, value } => return self.answer(key, Known::Value(value)),
            Body::Absent { key } => return self.answer(key, Known::Absent),
            _ => return Err(BoardError::Misplaced(from)),
        }
        Ok(())
    }

    fn check_client(&self, client: u32) -> Result<(), BoardError> {
        if client < self.clients + self.guests { Ok(()) } else { Err(BoardError::NoClient(client)) }
    }

    /// Only the root can be full: it keeps everything.
    fn check_room(&self, entries: &[Entry]) -> Result<(), BoardError> {
        let wanted = entries.iter().map(|entry| entry_cost(&entry.key, &entry.value)).sum();
        let used = self.cache.bytes() + self.fresh_bytes;
        if self.links.has_parent() || used + wanted <= self.bytes_max {
            return Ok(());
        }
        Err(BoardError::Full { used, max: self.bytes_max, wanted })
    }

    // Puts on their way to the root.

    fn take_puts(&mut self, entries: &[Entry]) -> Result<(), BoardError> {
        self.check_room(entries)?;
        entries.iter().for_each(|entry| self.take_put(entry.clone()));
        Ok(())
    }

    fn take_put(&mut self, entry: Entry) {
        if self.kind == BoardKind::Hcs && self.links.has_parent() {
            self.keep(entry.key.clone(), Known::Value(entry.value.clone()));
            self.send(Neighbour::Parent, Body::Put(entry));
            return;
        }
        let Entry { key, value, mut contested } = entry;
        self.fresh_bytes += entry_cost(&key, &value);
        if let Some(old) = self.fresh.remove(&key) {
            self.fresh_bytes -= entry_cost(&key, &old.value);
            contested |= old.contested || old.value != value;
        }
        self.fresh.insert(key, Fresh { value, contested });
        if self.links.has_parent() && self.fresh_is_large() {
            for part in self.take_fresh() {
                self.send(Neighbour::Parent, Body::Part(part));
            }
        }
        self.keep_bounds();
    }

    /// Would waiting for the fence save no message, or cost too much room?
    fn fresh_is_large(&self) -> bool {
        self.fresh_bytes >= PART_BYTES_MAX || self.fresh.len() > self.entries_max / 2
    }

    /// The puts of this phase, for the parent. They stay in the cache.
    fn take_fresh(&mut self) -> Vec<Entries> {
        self.fresh_bytes = 0;
        let entries: Vec<Entry> = core::mem::take(&mut self.fresh)
            .into_iter()
            .map(|(key, Fresh { value, contested })| Entry { key, value, contested })
            .collect();
        for entry in &entries {
            self.keep(entry.key.clone(), Known::Value(entry.value.clone()));
        }
        cut(entries)
    }

    // What is kept here.

    fn keep(&mut self, key: Bytes, known: Known) {
        if let (Mirror::On, Known::Value(value)) = (self.mirror, &known) {
            self.changes.push_back(Change::Kept(key.clone(), value.clone()));
        }
        self.cache.insert(key, known);
        self.keep_bounds();
    }

    fn keep_bounds(&mut self) {
        if self.links.has_parent() {
            while self.entries() > self.entries_max || self.cache.bytes() + self.fresh_bytes > self.bytes_max
            {
                let Some((key, known)) = self.cache.evict() else { break };
                self.complete &= known == Known::Absent;
                self.counters.evictions += 1;
                self.note_drop(&key, Some(known));
            }
        }
        self.counters.entries_peak = self.counters.entries_peak.max(self.entries() as u64);
        let bytes = self.cache.bytes() + self.fresh_bytes;
        self.counters.bytes_peak = self.counters.bytes_peak.max(bytes as u64);
    }

    fn note_drop(&mut self, key: &Bytes, known: Option<Known>) {
        if let (Mirror::On, Some(Known::Value(_))) = (self.mirror, known) {
            self.changes.push_back(Change::Dropped(key.clone()));
        }
    }

    /// What is known here about a key. `None`: somebody above has to be asked.
    fn look_up(&mut self, key: &[u8]) -> Option<Known> {
        let fresh = self.fresh.get(key).map(|fresh| Known::Value(fresh.value.clone()));
        let known =
            fresh.or_else(|| self.cache.get(key).cloned()).or_else(|| self.complete.then_some(Known::Absent));
        match known {
            Some(Known::Value(_)) => self.counters.hits += 1,
            Some(Known::Absent) => self.counters.absent_hits += 1,
            None => self.counters.misses += 1,
        }
        known
    }

    // Gets on their way up, and answers on their way down.

    fn climb(&mut self, key: Bytes, waiter: Waiter) {
        if let Some(waiters) = self.waiting.get_mut(&key) {
            self.counters.merged += 1;
            waiters.push(waiter);
            return;
        }
        self.waiting.insert(key.clone(), vec![waiter]);
        self.send(Neighbour::Parent, Body::Get { key });
    }

    fn serve_child(&mut self, from: Neighbour, child: usize, key: Bytes) -> Result<(), BoardError> {
        let waiter = Waiter::Child(child as u32);
        if self.waiting.get(&key).is_some_and(|waiters| waiters.contains(&waiter)) {
            return Err(BoardError::OutOfTurn(from));
        }
        match self.look_up(&key) {
            Some(known) => self.send(from, answer_body(key, known)),
            None if self.waiting.len() >= self.gets_max => return Err(BoardError::Flooded(from)),
            None => self.climb(key, waiter),
        }
        Ok(())
    }

    fn answer(&mut self, key: Bytes, known: Known) -> Result<(), BoardError> {
        let waiters = self.waiting.remove(&key).ok_or(BoardError::OutOfTurn(Neighbour::Parent))?;
        // A put that passed here since is newer than the answer.
        let newer = self
            .fresh
            .get(&key)
            .map(|fresh| Known::Value(fresh.value.clone()))
            .or_else(|| self.cache.peek(&key).filter(|known| **known != Known::Absent).cloned());
        let known = newer.unwrap_or_else(|| {
            self.keep(key.clone(), known.clone());
            known
        });
        for waiter in waiters {
            match waiter {
                Waiter::Child(index) => {
                    self.send(self.links.child(index as usize), answer_body(key.clone(), known.clone()));
                }
                Waiter::Client(client) => {
                    self.gets_open[client as usize] -= 1;
                    let value = match &known {
                        Known::Value(value) => Some(value.clone()),
                        Known::Absent => None,
                    };
                    self.actions.push_back(Action::Answer { client, key: key.clone(), value });
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, to: Neighbour, body: Body) {
        let head = self.links.stamp(to, body.encoded_bytes());
        self.actions.push_back(Action::Send(to, Message { head, body }));
    }

    fn send_below(&mut self, body: &Body) {
        for child in 0..self.children {
            self.send(self.links.child(child), body.clone());
        }
    }
}

fn check_length(key: &[u8], value: &[u8]) -> Result<(), BoardError> {
    if key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(BoardError::TooLong { key: key.len(), value: value.len() })
}

fn entry_cost(key: &Bytes, value: &Bytes) -> usize {
    cache::cost(key, &Known::Value(value.clone()))
}

fn answer_body(key: Bytes, known: Known) -> Body {
    match known {
        Known::Value(value) => Body::Found { key, value },
        Known::Absent => Body::Absent { key },
    }
}

fn cut(entries: Vec<Entry>) -> Vec<Entries> {
    crate::lane::parts(entries, Entry::encoded_bytes).into_iter().map(Entries::from).collect()
}
