//! Compares what the members of a communicator call: behind `--check`, before a collective moves data, each member
//! tells the communicator's first member what it calls ([`Record`]), and waits for its word ([`Verdict`]). That member
//! compares ([`Hub`]). So a program is told of its mistake also where it would hang, or go on with wrong data.
//!
//! A collective that waits for all of its members is one that MPI allows, so that right programs go on as before.
//!
//! It is not: a search for deadlocks. Members that never call are named to those who wait, but nothing follows from it.
mod record;
mod signature;
#[cfg(test)]
mod tests;

pub use record::{Block, Flow, Key, Record};
pub use signature::Signature;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// Collectives under way that are compared at a time.
pub const MEETINGS_MAX: usize = 1 << 16;
/// Members that are named where many have not called.
const NAMED_MAX: usize = 8;

/// What a member is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<P> {
    /// Whom.
    pub to: P,
    /// Which of its records this is about.
    pub ticket: u64,
    /// What is wrong; `None`: nothing.
    pub fault: Option<String>,
}

/// What members have told of one collective.
#[derive(Debug)]
struct Meeting<P> {
    records: Vec<(Record, P)>,
    fault: Option<String>,
}

/// Compares what the members of communicators call: `P` names a process.
///
/// There are at most `meetings_max` meetings. If one more is to begin, the oldest that nobody waits at is forgotten: a
/// member may free as many communicators as it has before another frees the first. If somebody waits at each, the new
/// collective is let through, and with it each of its communicator up to it that has no meeting yet: what one member was
/// not asked to wait for, none is.
#[derive(Debug)]
pub struct Hub<P> {
    meetings: BTreeMap<Key, Meeting<P>>,
    meetings_max: usize,
    /// Meetings that began with somebody who does not wait, the oldest first; some of them have ended.
    idle: VecDeque<Key>,
    /// The last collective that was let through, of each communicator that has such.
    passed: BTreeMap<(u32, u64), u32>,
}

impl<P> Default for Hub<P> {
    fn default() -> Self {
        Hub {
            meetings: BTreeMap::new(),
            meetings_max: MEETINGS_MAX,
            idle: VecDeque::new(),
            passed: BTreeMap::new(),
        }
    }
}

impl<P: Copy> Hub<P> {
    /// Hears what a process calls; gives what is to be told now, and to whom.
    pub fn hear(&mut self, record: Record, from: P) -> Vec<Verdict<P>> {
        if !self.meetings.contains_key(&record.key) && !self.begins(&record) {
            return verdict(&record, from, None).into_iter().collect();
        }
        let (key, size) = (record.key, record.size as usize);
        let meeting =
            self.meetings.entry(key).or_insert_with(|| Meeting { records: Vec::new(), fault: None });
        let known = meeting.fault.is_some();
        if !known {
            meeting.fault = meeting.records.iter().find_map(|(other, _)| record.fault_beside(other));
        }
        let late = meeting.records.len();
        meeting.records.push((record, from));
        let all = meeting.records.len() >= size;
        let told = match (&meeting.fault, known) {
            (Some(_), true) => late..late + 1,
            (Some(_), false) => 0..late + 1,
            (None, _) if all => 0..late + 1,
            (None, _) => 0..0,
        };
        let told = meeting.records[told].iter();
        let verdicts = told.filter_map(|(record, to)| verdict(record, *to, meeting.fault.clone())).collect();
        if all {
            self.meetings.remove(&key);
        }
        verdicts
    }

    /// Is there to be a meeting for this record, which is the first of a collective? If not, it is let through.
    fn begins(&mut self, record: &Record) -> bool {
        let Key { number, members, sequence } = record.key;
        if self.passed.get(&(number, members)).is_some_and(|passed| sequence <= *passed) {
            return false;
        }
        if self.meetings.len() >= self.meetings_max && !self.forget_idle() {
            self.passed.insert((number, members), sequence);
            return false;
        }
        if !record.waits {
            if self.idle.len() >= 2 * self.meetings_max {
                self.idle.retain(|key| self.meetings.contains_key(key));
            }
            self.idle.push_back(record.key);
        }
        true
    }

    /// Forgets the oldest meeting that nobody waits at. Is there room now?
    fn forget_idle(&mut self) -> bool {
        while let Some(key) = self.idle.pop_front() {
            let waited_at = |meeting: &Meeting<P>| meeting.records.iter().any(|(record, _)| record.waits);
            if self.meetings.get(&key).is_some_and(|meeting| !waited_at(meeting)) {
                self.meetings.remove(&key);
                return true;
            }
        }
        false
    }

    /// Who of its members has not called a collective that others have called, in words. (Who compares is in the first
    /// of two groups.)
    pub fn missing(&self, key: Key) -> Option<String> {
        let meeting = self.meetings.get(&key)?;
        let (one, _) = meeting.records.first()?;
        let absent = |rank: &u32| meeting.records.iter().all(|(record, _)| record.rank != *rank);
        let own = named((0..one.first.min(one.size)).filter(absent));
        let others = named((one.first..one.size).filter(absent).map(|rank| rank - one.first));
        let others = others.map(|ranks| format!("rank {ranks} of the other group"));
        let lists = [own.map(|ranks| format!("rank {ranks}")), others];
        Some(format!("not called by {}", lists.into_iter().flatten().collect::<Vec<_>>().join(" and ")))
    }

    /// Collectives that not all members have called.
    pub fn open(&self) -> usize {
        self.meetings.len()
    }
}

/// Some ranks, if there are any.
fn named(mut ranks: impl Iterator<Item = u32>) -> Option<String> {
    let mut text = String::new();
    for rank in ranks.by_ref().take(NAMED_MAX) {
        let _ = write!(text, "{}{rank}", if text.is_empty() { "" } else { ", " });
    }
    let more = ranks.count();
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    (!text.is_empty()).then_some(text)
}

fn verdict<P>(record: &Record, to: P, fault: Option<String>) -> Option<Verdict<P>> {
    record.waits.then_some(Verdict { to, ticket: record.ticket, fault })
}
