//! Who waits for whom: which waits can end, which form a cycle, and who keeps the others waiting.
use super::words::{self, Line, Naming, comm_name, ranges, seconds, tag_words};
use super::{Arrived, Comm, Need, Place, Seen, Standing, Until, Who};
use crate::tree::{Member, PmiState};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

/// Lines of groups that fill a screen.
const GROUPS_MAX: usize = 20;
/// More groups than so many are joined where they differ in ranks only.
const GROUPS_APART: usize = 8;
/// Near misses that are told of one process.
const MISSES_MAX: usize = 3;
/// Cycles, collectives, and culprits that are told.
const VERDICTS_MAX: usize = 4;
/// Members of a cycle that are named.
const CYCLE_NAMED: usize = 6;

/// Processes in the same situation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Who.
    pub members: Vec<Member>,
    /// How long the one that has waited longest does, if they wait.
    pub waited_ms: Option<u32>,
    /// What they do.
    pub text: String,
    /// What nearly fits.
    pub remarks: Vec<String>,
}

/// Why a job hangs, as far as can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// Processes of the jobs.
    pub processes: u32,
    /// Those that wait.
    pub waiting: u32,
    /// How long the one that has waited longest does.
    pub longest_ms: u32,
    /// All of them, by situation.
    pub groups: Vec<Group>,
    /// What follows: cycles first, then who keeps others waiting.
    pub verdicts: Vec<String>,
}

impl Explained {
    /// For a screen.
    pub fn lines(&self) -> Vec<String> {
        let plural = if self.processes == 1 { "process" } else { "processes" };
        let mut lines = vec![match self.waiting {
            0 => format!("none of {} {plural} waits in MPI", self.processes),
            waiting => format!(
                "{waiting} of {} {plural} wait in MPI, the longest for {}",
                self.processes,
                seconds(self.longest_ms)
            ),
        }];
        for group in self.groups.iter().take(GROUPS_MAX) {
            let waited = group.waited_ms.map_or_else(String::new, |ms| format!(" ({})", seconds(ms)));
            lines.push(format!("  {}: {}{waited}", ranges(&group.members), group.text));
            lines.extend(group.remarks.iter().map(|remark| format!("      {remark}")));
        }
        if let Some(rest) = self.groups.get(GROUPS_MAX..).filter(|rest| !rest.is_empty()) {
            let members: usize = rest.iter().map(|group| group.members.len()).sum();
            lines.push(format!("  and {members} more processes in {} other situations", rest.len()));
        }
        lines.extend(self.verdicts.iter().map(|verdict| format!("  => {verdict}")));
        lines
    }
}

/// Joins what all processes have said.
pub fn explain(seen: &[Seen]) -> Explained {
    let graph = Graph::new(seen);
    let waits = seen.iter().filter_map(|seen| match &seen.standing {
        Standing::Told(place) => Some(place.waited_ms),
        _ => None,
    });
    Explained {
        processes: seen.len() as u32,
        waiting: waits.clone().count() as u32,
        longest_ms: waits.max().unwrap_or(0),
        groups: graph.groups(),
        verdicts: graph.verdicts(),
    }
}

/// What has to be for a need to end.
#[derive(Clone, Debug)]
enum Requires {
    /// Nothing that is known: it may end at any time.
    Nothing,
    /// One of these must go on; others than the process itself, if it is not the only one.
    OneOf(Rc<[usize]>),
    /// All of these must.
    AllOf(Rc<[usize]>),
}

struct Graph<'a> {
    seen: &'a [Seen],
    index: BTreeMap<Who, usize>,
    /// What each of a process's needs requires.
    requires: Vec<Vec<Requires>>,
    /// Who may go on, now or after others have.
    live: Vec<bool>,
    /// What was found out about communicators and collectives: all members ask the same.
    members_of: RefCell<BTreeMap<(u32, Who), Members>>,
    missing_in: RefCell<BTreeMap<CollectiveKey, Rc<Missing>>>,
}

/// The members of a communicator, if all are known.
type Members = Option<Rc<[usize]>>;

/// What all members call a collective by.
type CollectiveKey = (u32, Who, u32);

/// Who of a communicator has not called a collective.
struct Missing {
    surely: Rc<[usize]>,
    /// They have not said.
    perhaps: Rc<[usize]>,
}

impl<'a> Graph<'a> {
    fn new(seen: &'a [Seen]) -> Self {
        let index = seen.iter().enumerate().map(|(at, seen)| (seen.who, at)).collect();
        let live = vec![false; seen.len()];
        let (members_of, missing_in) = Default::default();
        let mut graph = Graph { seen, index, requires: Vec::new(), live, members_of, missing_in };
        graph.requires = (0..seen.len())
            .map(|at| {
                let needs = graph.place(at).into_iter().flat_map(|place| &place.needs);
                needs.map(|need| graph.require(at, need)).collect()
            })
            .collect();
        graph.find_live();
        graph
    }

    fn place(&self, at: usize) -> Option<&'a Place> {
        match &self.seen[at].standing {
            Standing::Told(place) => Some(place),
            _ => None,
        }
    }

    fn is_blocked(&self, at: usize) -> bool {
        // One of those that it has no room to tell of may be enough.
        let told = |place: &Place| place.until == Until::All || place.needs_more == 0;
        self.place(at).is_some_and(|place| !place.needs.is_empty() && told(place))
    }

    fn require(&self, at: usize, need: &Need) -> Requires {
        let one = |who: &Who| match self.index.get(who) {
            Some(&other) => Requires::OneOf([other].into()),
            None => Requires::Nothing,
        };
        match need {
            Need::Message { from: Some(from), .. } => one(from),
            Need::Message { from: None, comm, .. } => {
                let comm = self.place(at).and_then(|place| place.comms.get(usize::from(*comm)));
                let members = comm.and_then(|comm| self.members(comm));
                members.map_or(Requires::Nothing, Requires::OneOf)
            }
            Need::Taken { to, .. } => one(to),
            Need::Collective { comm, number, awaits, .. } => {
                let comm = self.place(at).and_then(|place| place.comms.get(usize::from(*comm)));
                let Some(missing) = comm.map(|comm| self.missing(comm, *number)) else {
                    return Requires::Nothing;
                };
                match (missing.surely.is_empty(), missing.perhaps.is_empty()) {
                    (false, _) => Requires::AllOf(missing.surely.clone()),
                    (true, false) => Requires::AllOf(missing.perhaps.clone()),
                    (true, true) => {
                        let awaits: Vec<usize> =
                            awaits.iter().filter_map(|who| self.index.get(who).copied()).collect();
                        if awaits.is_empty() { Requires::Nothing } else { Requires::AllOf(awaits.into()) }
                    }
                }
            }
            Need::Deed { who, .. } => one(who),
            Need::Lock { win, target } => self.require_lock(at, *win, *target),
            Need::Everyone { .. } => self.require_all(at),
            Need::Other { .. } => Requires::Nothing,
        }
    }

    /// Those who hold a lock. Who computes may hold it as well; that cannot be told.
    fn require_lock(&self, at: usize, win: u32, target: Who) -> Requires {
        let holds = |place: &Place| place.locks.iter().any(|held| (held.win, held.target) == (win, target));
        let others = (0..self.seen.len()).filter(|other| *other != at);
        let holders: Vec<usize> = others.filter(|other| self.place(*other).is_some_and(holds)).collect();
        if holders.is_empty() { Requires::Nothing } else { Requires::AllOf(holders.into()) }
    }

    /// All processes of a job that have not come to its end.
    fn require_all(&self, at: usize) -> Requires {
        let there = |standing: &Standing| match standing {
            Standing::Told(place) => place.needs.iter().any(|need| matches!(need, Need::Everyone { .. })),
            Standing::Outside(outside) => outside.pmi == PmiState::Finalized,
            Standing::Ended(_) => true,
            Standing::Unheard => false,
        };
        let of_job = |seen: &Seen| seen.member.job == self.seen[at].member.job && !there(&seen.standing);
        let absent: Vec<usize> = (0..self.seen.len()).filter(|other| of_job(&self.seen[*other])).collect();
        if absent.is_empty() { Requires::Nothing } else { Requires::AllOf(absent.into()) }
    }

    /// All members, if they are known.
    fn members(&self, comm: &Comm) -> Option<Rc<[usize]>> {
        let look = || {
            let who = comm.members.iter().flat_map(|run| run.iter());
            let members: Rc<[usize]> = who.filter_map(|who| self.index.get(&who).copied()).collect();
            (members.len() == comm.size as usize).then_some(members)
        };
        self.members_of.borrow_mut().entry((comm.number, comm.first)).or_insert_with(look).clone()
    }

    fn missing(&self, comm: &Comm, number: u32) -> Rc<Missing> {
        let key = (comm.number, comm.first, number);
        let look = || Rc::new(self.find_missing(comm, number));
        self.missing_in.borrow_mut().entry(key).or_insert_with(look).clone()
    }

    fn find_missing(&self, comm: &Comm, number: u32) -> Missing {
        let who = comm.members.iter().flat_map(|run| run.iter());
        let (mut surely, mut perhaps) = (Vec::new(), Vec::new());
        for member in who.filter_map(|who| self.index.get(&who).copied()) {
            match &self.seen[member].standing {
                Standing::Told(place) => {
                    let same = |other: &&Comm| (other.number, other.first) == (comm.number, comm.first);
                    match place.comms.iter().find(same) {
                        Some(own) if own.begun >= number => {}
                        Some(_) => surely.push(member),
                        None if place.comms.len() < super::COMMS_MAX => surely.push(member),
                        None => perhaps.push(member),
                    }
                }
                Standing::Ended(_) => surely.push(member),
                Standing::Outside(_) | Standing::Unheard => perhaps.push(member),
            }
        }
        Missing { surely: surely.into(), perhaps: perhaps.into() }
    }

    /// Who does not wait may go on, and then who waits for those only. Who has ended does nothing any more.
    fn find_live(&mut self) {
        let ended = |at: usize| matches!(self.seen[at].standing, Standing::Ended(_));
        self.live = (0..self.seen.len()).map(|at| !self.is_blocked(at) && !ended(at)).collect();
        loop {
            let next = (0..self.seen.len()).filter(|at| !self.live[*at] && !ended(*at));
            let freed: Vec<usize> = next.filter(|at| self.can_go_on(*at)).collect();
            if freed.is_empty() {
                return;
            }
            freed.into_iter().for_each(|at| self.live[at] = true);
        }
    }

    fn can_go_on(&self, at: usize) -> bool {
        let met = |requires: &Requires| match requires {
            Requires::Nothing => true,
            // (It is not live itself.)
            Requires::OneOf(others) => others.iter().any(|other| self.live[*other]),
            Requires::AllOf(others) => others.iter().all(|other| self.live[*other]),
        };
        match self.place(at).map(|place| place.until) {
            Some(Until::Any) => self.requires[at].iter().any(met),
            _ => self.requires[at].iter().all(met),
        }
    }

    /// Whom a process waits for. Where anybody will do, it does not wait for itself.
    fn targets(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.requires[at].iter().flat_map(move |requires| {
            let (others, own) = match requires {
                Requires::Nothing => (&[][..], false),
                Requires::OneOf(others) => (&others[..], others.len() == 1),
                Requires::AllOf(others) => (&others[..], true),
            };
            others.iter().copied().filter(move |other| own || *other != at)
        })
    }

    fn named(&self, who: Who) -> Line {
        match self.index.get(&who) {
            Some(&at) => Line::default().rank(self.seen[at].member),
            None => Line::default().words(format!("rank {} of another job", who.rank)),
        }
    }

    fn names(&self, of: &[usize]) -> String {
        ranges(&of.iter().map(|at| self.seen[*at].member).collect::<Vec<_>>())
    }

    fn does(&self, at: usize) -> Line {
        words::standing(&self.seen[at].standing, &|who| self.named(who))
    }

    // --- groups ---

    fn groups(&self) -> Vec<Group> {
        let lines: Vec<(Line, Vec<Line>)> =
            (0..self.seen.len()).map(|at| (self.does(at), self.near_misses(at))).collect();
        let grouped = |naming: &dyn Fn(usize) -> Naming| {
            let mut groups: Vec<Group> = Vec::new();
            let mut places: BTreeMap<(String, Vec<String>), usize> = BTreeMap::new();
            for (at, (line, remarks)) in lines.iter().enumerate() {
                let has_ranks = line.has_ranks() || remarks.iter().any(Line::has_ranks);
                let naming = if has_ranks { naming(at) } else { Naming::Number };
                let remarks: Vec<String> = remarks.iter().map(|line| line.text(naming)).collect();
                let key = (line.text(naming), remarks);
                let place = *places.entry(key.clone()).or_insert_with(|| {
                    let (text, remarks) = key;
                    groups.push(Group { members: Vec::new(), waited_ms: None, text, remarks });
                    groups.len() - 1
                });
                let group = &mut groups[place];
                group.members.push(self.seen[at].member);
                let waited_ms = self.place(at).map(|place| place.waited_ms).filter(|ms| *ms > 0);
                group.waited_ms = group.waited_ms.max(waited_ms);
            }
            groups
        };
        let apart = grouped(&|_| Naming::Number);
        if apart.len() <= GROUPS_APART {
            return apart;
        }
        let by_distance = grouped(&|at| Naming::From(self.seen[at].member));
        let fewer = if by_distance.len() < apart.len() { by_distance } else { apart };
        if fewer.len() <= GROUPS_MAX {
            return fewer;
        }
        let alike = grouped(&|_| Naming::Nothing);
        if alike.len() < fewer.len() { alike } else { fewer }
    }

    /// Messages that wait at a process, and would be what it waits for but for one thing.
    fn near_misses(&self, at: usize) -> Vec<Line> {
        let Some(place) = self.place(at) else { return Vec::new() };
        let mut misses: Vec<(u8, Line)> = Vec::new();
        for need in &place.needs {
            let Need::Message { comm, from, tag, .. } = need else { continue };
            let near =
                place.arrived.iter().filter_map(|there| self.near_miss(place, (*comm, *from, *tag), there));
            misses.extend(near);
        }
        misses.sort_by_key(|(rank, _)| *rank);
        let mut seen = BTreeSet::new();
        misses.retain(|(_, line)| seen.insert(line.clone()));
        let mut lines: Vec<Line> = misses.into_iter().map(|(_, line)| line).take(MISSES_MAX).collect();
        let looks = place.needs.iter().any(|need| matches!(need, Need::Message { .. }));
        if let (true, true, Some(first)) = (looks, lines.is_empty(), place.arrived.first()) {
            let all = place.arrived.len() as u32 + place.arrived_more;
            let line = Line::default().words(format!("no message here fits: {all} wait, the first from "));
            let on = place.comms.get(usize::from(first.comm)).map_or_else(String::new, comm_name);
            let line = line.then(self.named(first.from));
            lines.push(line.words(format!(" with tag {} on {on}", first.tag)));
        }
        lines
    }

    /// What is amiss, and how near that is.
    fn near_miss(
        &self,
        place: &Place,
        (comm, from, tag): (u16, Option<Who>, Option<i32>),
        there: &Arrived,
    ) -> Option<(u8, Line)> {
        let is_comm = there.comm == comm;
        let is_from = from.is_none_or(|from| from == there.from);
        let is_tag = tag.is_none_or(|tag| tag == there.tag);
        let line = Line::default().words("a message from ").then(self.named(there.from));
        let line = line.words(format!(" with tag {}", there.tag));
        let name = |comm: u16| place.comms.get(usize::from(comm)).map_or_else(String::new, comm_name);
        match (is_comm, is_from, is_tag) {
            (true, true, false) => {
                Some((0, line.words(format!(" waits here; what is asked for has {}", tag_words(tag)))))
            }
            (true, false, true) => {
                let line = line.words(" waits here; what is asked for is from ");
                Some((1, line.then(self.named(from?))))
            }
            (false, true, true) => {
                let (there, asked) = (name(there.comm), name(comm));
                Some((2, line.words(format!(" waits here on {there}; what is asked for is on {asked}"))))
            }
            _ => None,
        }
    }

    // --- verdicts ---

    fn verdicts(&self) -> Vec<String> {
        let mut verdicts = self.cycles();
        verdicts.extend(self.locks());
        verdicts.extend(self.collectives());
        verdicts.extend(self.culprits());
        verdicts
    }

    fn cycles(&self) -> Vec<String> {
        let mut walked = vec![false; self.seen.len()];
        let mut found = Vec::new();
        for start in 0..self.seen.len() {
            let mut path = Vec::new();
            let mut at = start;
            while !walked[at] && !self.live[at] && self.is_blocked(at) {
                walked[at] = true;
                path.push(at);
                let Some(next) = self.targets(at).find(|other| !self.live[*other]) else { break };
                at = next;
                if let Some(begin) = path.iter().position(|other| *other == at) {
                    found.push(path[begin..].to_vec());
                    break;
                }
            }
        }
        let more = found.len().saturating_sub(VERDICTS_MAX);
        let mut texts: Vec<String> =
            found.iter().take(VERDICTS_MAX).map(|cycle| self.cycle_words(cycle)).collect();
        if more > 0 {
            texts.push(format!("and {more} more cycles of waits"));
        }
        texts
    }

    fn cycle_words(&self, cycle: &[usize]) -> String {
        let name = |at: &usize| {
            let call = self.place(*at).map_or("", |place| place.call.as_str());
            let member = self.seen[*at].member;
            if call.is_empty() { member.to_string() } else { format!("{member} ({call})") }
        };
        if let [alone] = cycle {
            return format!("{} waits for itself", name(alone));
        }
        let mut names: Vec<String> = cycle.iter().take(CYCLE_NAMED).map(name).collect();
        if cycle.len() > CYCLE_NAMED {
            names.push(format!("... ({} more)", cycle.len() - CYCLE_NAMED));
        }
        names.push(self.seen[cycle[0]].member.to_string());
        format!("a cycle of waits, which none of them can end: {}", names.join(" -> "))
    }

    /// Who holds the locks that others wait for.
    fn locks(&self) -> Vec<String> {
        let mut wanted: BTreeMap<(u32, Who), (Vec<usize>, &Requires)> = BTreeMap::new();
        for at in 0..self.seen.len() {
            let needs = self.place(at).into_iter().flat_map(|place| &place.needs);
            for (need, requires) in needs.zip(&self.requires[at]) {
                if let Need::Lock { win, target } = need {
                    wanted.entry((*win, *target)).or_insert((Vec::new(), requires)).0.push(at);
                }
            }
        }
        let told = wanted.into_iter().map(|((_, target), (who, holders))| {
            let of = self.named(target).text(Naming::Number);
            let verb = if who.len() == 1 { "waits" } else { "wait" };
            let by = match holders {
                Requires::AllOf(holders) | Requires::OneOf(holders) => {
                    let states: BTreeSet<String> =
                        holders.iter().map(|at| self.does(*at).text(Naming::Number)).collect();
                    let states: Vec<String> = states.into_iter().take(VERDICTS_MAX).collect();
                    format!("held by {} ({})", self.names(holders), states.join(" | "))
                }
                Requires::Nothing => "held by a process that has not said where it is".into(),
            };
            format!("{} {verb} for the lock of the window of {of}, {by}", self.names(&who))
        });
        told.take(VERDICTS_MAX).collect()
    }

    /// Collectives that some wait in and others have not called, or call another one instead.
    fn collectives(&self) -> Vec<String> {
        let mut waiting: BTreeMap<CollectiveKey, (&Comm, BTreeMap<&str, Vec<usize>>)> = BTreeMap::new();
        for at in 0..self.seen.len() {
            let Some(place) = self.place(at) else { continue };
            for need in &place.needs {
                let Need::Collective { comm, number, what, .. } = need else { continue };
                let Some(comm) = place.comms.get(usize::from(*comm)) else { continue };
                let (_, calls) =
                    waiting.entry((comm.number, comm.first, *number)).or_insert((comm, BTreeMap::new()));
                let what = if what.is_empty() { &place.call } else { what };
                calls.entry(what.as_str()).or_default().push(at);
            }
        }
        let told =
            waiting.iter().filter_map(|(key, (comm, calls))| self.collective_words(key.2, comm, calls));
        told.take(VERDICTS_MAX).collect()
    }

    fn collective_words(
        &self,
        number: u32,
        comm: &Comm,
        calls: &BTreeMap<&str, Vec<usize>>,
    ) -> Option<String> {
        let mut calling: Vec<(&str, &Vec<usize>)> = calls.iter().map(|(call, who)| (*call, who)).collect();
        calling.sort_by_key(|(_, who)| (core::cmp::Reverse(who.len()), who[0]));
        let of = format!("collective {number} of {}", comm_name(comm));
        if calling.len() > 1 {
            let each = calling.iter().map(|(call, who)| {
                let verb = if who.len() == 1 { "calls" } else { "call" };
                format!("{} {verb} {call}", self.names(who))
            });
            return Some(format!("different calls as {of}: {}", each.collect::<Vec<_>>().join(", ")));
        }
        let missing = self.missing(comm, number);
        let (who, sure) = match (missing.surely.is_empty(), missing.perhaps.is_empty()) {
            (false, _) => (&missing.surely, "not called by"),
            (true, false) => (&missing.perhaps, "not called, as far as can be told from outside, by"),
            (true, true) => return None,
        };
        let states: BTreeSet<String> =
            who.iter().map(|at| self.does(*at).text(Naming::Number)).take(VERDICTS_MAX).collect();
        let states: Vec<String> = states.into_iter().collect();
        let call = calling.first().map_or("", |(call, _)| call);
        Some(format!("{of} ({call}): {sure} {} ({})", self.names(who), states.join(" | ")))
    }

    /// Those who do not wait, or have ended, and whom others wait for.
    fn culprits(&self) -> Vec<String> {
        let mut by_state: BTreeMap<(bool, String), Vec<usize>> = BTreeMap::new();
        let mut awaited: BTreeSet<usize> = BTreeSet::new();
        for at in (0..self.seen.len()).filter(|at| self.is_blocked(*at)) {
            // Of many that one message may come from, none is to blame.
            let single = self.requires[at].iter().filter(|r| !matches!(r, Requires::OneOf(o) if o.len() > 1));
            let targets = single.flat_map(|requires| match requires {
                Requires::Nothing => &[][..],
                Requires::OneOf(others) | Requires::AllOf(others) => &others[..],
            });
            awaited.extend(targets.filter(|other| !self.is_blocked(**other)));
        }
        for at in awaited {
            let ended = matches!(self.seen[at].standing, Standing::Ended(_));
            by_state.entry((!ended, self.does(at).text(Naming::Number))).or_default().push(at);
        }
        let told = by_state.into_iter().map(|((_, state), who)| {
            let waiters = self.waiters(&who);
            let verb = if waiters.len() == 1 { "waits" } else { "wait" };
            format!("{} {verb} for {}, which {state}", self.names(&waiters), self.names(&who))
        });
        told.take(VERDICTS_MAX).collect()
    }

    /// Who waits for one of them, or for somebody who does.
    fn waiters(&self, of: &[usize]) -> Vec<usize> {
        let mut reached = vec![false; self.seen.len()];
        of.iter().for_each(|at| reached[*at] = true);
        loop {
            let next = (0..self.seen.len()).filter(|at| self.is_blocked(*at) && !reached[*at]);
            let new: Vec<usize> = next.filter(|at| self.targets(*at).any(|t| reached[t])).collect();
            if new.is_empty() {
                break;
            }
            new.into_iter().for_each(|at| reached[at] = true);
        }
        of.iter().for_each(|at| reached[*at] = false);
        (0..reached.len()).filter(|at| reached[*at]).collect()
    }
}
