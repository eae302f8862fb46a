//! Who waits for whom: which waits can end, which form a cycle, and who keeps the others waiting.
//!
//! Here is who must go on before a wait can end. [`groups`] finds the words for what processes do, [`verdicts`] for what follows.
mod groups;
mod verdicts;

use super::words::{self, Line, ranges};
use super::{Comm, Need, Place, Seen, Served, Server, ServerSeen, Standing, Until, Who};
use crate::tree::PmiState;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

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

pub(super) struct Graph<'a> {
    seen: &'a [Seen],
    servers: &'a [ServerSeen],
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
    pub(super) fn new(seen: &'a [Seen], servers: &'a [ServerSeen]) -> Self {
        let index = seen.iter().enumerate().map(|(at, seen)| (seen.who, at)).collect();
        let live = vec![false; seen.len()];
        let (members_of, missing_in) = Default::default();
        let mut graph = Graph { seen, servers, index, requires: Vec::new(), live, members_of, missing_in };
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
            Need::Served(served) => self.require_served(at, served),
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

    /// Whoever holds the lock that was asked for with it; or else who serves the memory, if that is a rank. A data server
    /// waits for nobody.
    fn require_served(&self, at: usize, served: &Served) -> Requires {
        let locked = served.lock.map(|win| self.require_lock(at, win, served.target));
        match (locked, served.by) {
            (Some(holders @ Requires::AllOf(_)), _) => holders,
            (_, Server::Target) => match self.index.get(&served.target) {
                Some(&other) => Requires::OneOf([other].into()),
                None => Requires::Nothing,
            },
            (_, Server::Node(_)) => Requires::Nothing,
        }
    }

    /// All processes of a job that have not come to its end.
    fn require_all(&self, at: usize) -> Requires {
        let there = |standing: &Standing| match standing {
            Standing::Told(place) => place.needs.iter().any(|need| matches!(need, Need::Everyone { .. })),
            Standing::Outside(outside) => outside.pmi == PmiState::Finalized,
            Standing::Ended(_) => true,
            Standing::NotStarted | Standing::Unheard => false,
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
                Standing::NotStarted => surely.push(member),
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
}
