//! What follows from who waits for whom: cycles, locks that others hold, collectives that are not called, and who does not wait.
use super::{CollectiveKey, Graph, Requires};
use crate::waits::words::{self, Naming, comm_name, ranges};
use crate::waits::{Comm, Doing, Need, Served, Server, ServerSeen, Standing, Who};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// Cycles, collectives, and culprits that are told.
const VERDICTS_MAX: usize = 4;
/// Members of a cycle that are named.
const CYCLE_NAMED: usize = 6;

impl Graph<'_> {
    pub(in crate::waits) fn verdicts(&self) -> Vec<String> {
        let mut verdicts = self.cycles();
        verdicts.extend(self.servers());
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

    /// Data servers that are waited for, and what they do. One that has nothing to do is not to blame.
    fn servers(&self) -> Vec<String> {
        let told = self.servers.iter().filter_map(|server| {
            if !server.is_ready {
                let words = words::does(&server.doing);
                let verb = if server.of.len() == 1 { "waits" } else { "wait" };
                return Some(format!(
                    "{} {verb} for {} to start, which {words}",
                    ranges(&server.of),
                    server.name
                ));
            }
            let who: Vec<usize> = (0..self.seen.len()).filter(|at| self.asks(*at, server)).collect();
            let is_idle = matches!(server.doing, Doing::Sleeps(_));
            if who.is_empty() || is_idle {
                return None;
            }
            let verb = if who.len() == 1 { "waits" } else { "wait" };
            Some(format!(
                "{} {verb} for {}, which {}",
                self.names(&who),
                server.name,
                words::does(&server.doing)
            ))
        });
        told.take(VERDICTS_MAX).collect()
    }

    /// Does a process wait for what it has asked of a data server?
    fn asks(&self, at: usize, server: &ServerSeen) -> bool {
        let by = |need: &Need| matches!(need, Need::Served(served) if served.by == Server::Node(server.node));
        self.seen[at].who.job == server.job && self.place(at).is_some_and(|place| place.needs.iter().any(by))
    }

    /// Who holds the locks that others wait for.
    fn locks(&self) -> Vec<String> {
        let mut wanted: BTreeMap<(u32, Who), (Vec<usize>, &Requires)> = BTreeMap::new();
        for at in 0..self.seen.len() {
            let needs = self.place(at).into_iter().flat_map(|place| &place.needs);
            for (need, requires) in needs.zip(&self.requires[at]) {
                let lock = match need {
                    Need::Lock { win, target } => Some((*win, *target)),
                    Need::Served(Served { lock: Some(win), target, .. }) => {
                        // (It may have the lock, and wait for what it has sent with it.)
                        Some((*win, *target)).filter(|_| matches!(requires, Requires::AllOf(_)))
                    }
                    _ => None,
                };
                if let Some(lock) = lock {
                    wanted.entry(lock).or_insert((Vec::new(), requires)).0.push(at);
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
