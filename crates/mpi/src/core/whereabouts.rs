//! Where this process is, in MPI's words, for who asks why a job hangs: the call, what it waits for, and what has come that
//! nobody wants.
//!
//! Nothing is noted while nobody asks. Whoever waits finds that it is asked (see `net`), says what it waits for as a
//! [`Focus`], and the rest is looked up here.
use super::collective::Collective;
use super::comm::{Roster, SEQUENCE_MASK};
use super::request::{Request, State};
use super::win::WaitsForLock;
use super::*;
use net::waits::{
    ARRIVED_MAX, Arrived, COMMS_MAX, Held, Look, Manner, NEEDS_MAX, Need, Place, Run, Served, Server, Until,
    Who,
};
use net::{Backoff, Lack, ReqId};
use std::sync::OnceLock;

/// What a caller waits for. Requests are listed only if somebody asks.
#[derive(Clone, Copy)]
pub enum Focus<'a> {
    /// Whatever is under way.
    Anything,
    /// A request.
    One(RequestId),
    /// All of these.
    All(&'a dyn Fn() -> Vec<RequestId>),
    /// The first of these.
    Any(&'a dyn Fn() -> Vec<RequestId>),
    /// That there is a message.
    Probe(CommId, Source),
}

/// What only the engine waits for.
#[derive(Clone, Copy)]
pub(super) enum Inner<'a> {
    Message(ReqId),
    Request(&'a Request),
    Collective(&'a Collective),
}

/// Says which function of the C interface the program has called last.
static CALLED: OnceLock<fn() -> &'static str> = OnceLock::new();

/// Whoever has an interface of named functions says by this which one the program has called last.
pub fn set_called(called: fn() -> &'static str) {
    let _ = CALLED.set(called); // it is the same for the whole process
}

/// The function that the program has called last: of the C interface, or of the safe API. Empty where that is not known.
pub(super) fn called() -> &'static str {
    CALLED.get().map_or_else(super::check::current_call, |called| called())
}

/// The answer while it is put together.
struct Telling<'m> {
    mpi: &'m Mpi,
    place: Place,
}

impl Mpi {
    /// Is somebody waiting to hear where this process is?
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.endpoint.is_asked()
    }

    /// Tells who has asked that this process waits, and for what.
    #[cold]
    pub fn say_where(&mut self, backoff: &Backoff, focus: Focus<'_>) {
        let waited_ms = self.endpoint.waited_ms(backoff);
        let place = Telling::new(self, Manner::Blocked, waited_ms).of(focus);
        self.endpoint.answer_place(place);
    }

    #[cold]
    pub(super) fn say_inner(&mut self, backoff: &Backoff, inner: Inner<'_>) {
        let waited_ms = self.endpoint.waited_ms(backoff);
        let mut telling = Telling::new(self, Manner::Blocked, waited_ms);
        match inner {
            Inner::Message(id) => telling.message(id, None),
            Inner::Request(request) => telling.request(request),
            Inner::Collective(collective) => telling.collective(collective),
        }
        let place = telling.end();
        self.endpoint.answer_place(place);
    }

    /// A program has looked for something in vain. If somebody asks where it is, that is what it does.
    #[inline]
    pub fn say_looking(&mut self, focus: Focus<'_>) {
        if self.endpoint.look_asked() {
            self.say_polling(focus);
        }
    }

    #[cold]
    fn say_polling(&mut self, focus: Focus<'_>) {
        let place = Telling::new(self, Manner::Polls, 0).of(focus);
        self.endpoint.answer_place(place);
    }
}

impl<'m> Telling<'m> {
    fn new(mpi: &'m Mpi, manner: Manner, waited_ms: u32) -> Self {
        let place = Place { call: called().into(), manner, waited_ms, ..Place::default() };
        Telling { mpi, place }
    }

    fn of(mut self, focus: Focus<'_>) -> Place {
        match focus {
            Focus::Anything => {}
            Focus::One(id) => self.numbered(id),
            Focus::All(list) => list().into_iter().for_each(|id| self.numbered(id)),
            Focus::Any(list) => {
                self.place.until = Until::Any;
                list().into_iter().for_each(|id| self.numbered(id));
            }
            Focus::Probe(comm, source) => self.probe(comm, source),
        }
        self.end()
    }

    /// What is known whatever the call.
    fn end(mut self) -> Place {
        let endpoint = &self.mpi.endpoint;
        if let (Some((by, what)), Some(awaited)) = (endpoint.awaited_deed(), self.mpi.hall.awaits.get()) {
            let (win, target) = (awaited.win, endpoint.who_is(awaited.target));
            let lock = (awaited.lock == WaitsForLock::Perhaps).then_some(win);
            let served = |by| Need::Served(Served { target, by, lock, what: what.into() });
            let need = match by {
                _ if awaited.lock == WaitsForLock::Surely => Need::Lock { win, target },
                Ok(_) => served(Server::Target),
                Err(node) => served(Server::Node(node)),
            };
            self.need(need);
        }
        for what in endpoint.waited_beside() {
            self.need(Need::Other { what });
        }
        if self.place.needs.is_empty() {
            self.whatever_runs();
        }
        self.left_over();
        self.locks();
        for (_, comm) in self.mpi.comms.iter() {
            if comm.sequence > 0 {
                self.comm_of(&comm.roster);
            }
        }
        self.place.notes = self.mpi.endpoint.wait_notes();
        self.place
    }

    fn need(&mut self, need: Need) {
        if self.place.needs.len() < NEEDS_MAX {
            self.place.needs.push(need);
        } else {
            self.place.needs_more += 1;
        }
    }

    /// Nobody has said what is waited for: what is carried on in the background.
    fn whatever_runs(&mut self) {
        let mpi = self.mpi;
        mpi.running.iter().for_each(|id| self.numbered(*id));
    }

    fn numbered(&mut self, id: RequestId) {
        if let Some(request) = self.mpi.requests.get(id.0) {
            self.request(request);
        }
    }

    fn request(&mut self, request: &Request) {
        let other = |what: &str| Need::Other { what: what.into() };
        let need = match &request.state {
            State::Inactive | State::Idle(_) | State::Complete(_) => return,
            State::Send { id, .. } => return self.message(*id, request.comm),
            State::Recv(receiving) => {
                self.message(receiving.id, request.comm);
                return receiving.companion().into_iter().for_each(|id| self.message(id, request.comm));
            }
            State::Collective(collective) => return self.collective(collective),
            State::Making(making) => return self.collective(making.round()),
            State::Flush(_) => other("its buffered messages to leave"),
            State::Access { target, .. } => Need::Deed {
                who: self.mpi.endpoint.who_is(*target),
                what: "to do what it was sent for its window".into(),
            },
            State::Partitioned(_) => other("the rest of a partitioned message"),
            State::Generalized { .. } => other("the program itself to complete a generalized request"),
        };
        self.need(need);
    }

    /// A message under way.
    fn message(&mut self, id: ReqId, comm: Option<CommId>) {
        let need = match self.mpi.endpoint.lack_of(id) {
            None => return,
            Some(Lack::Message { context, from, tag }) => {
                let Some(comm) = self.comm_in(context, comm) else { return };
                Need::Message { comm, from, tag, look: Look::Receive }
            }
            Some(Lack::Taken { envelope: (context, tag), to, bytes }) => {
                Need::Taken { comm: self.comm_in(context, comm), to, tag: Some(tag), bytes }
            }
            Some(Lack::Deed(who, what)) => Need::Deed { who, what },
        };
        self.need(need);
    }

    fn probe(&mut self, comm: CommId, source: Source) {
        let Ok(entry) = self.mpi.comm(comm) else { return };
        let roster = &entry.roster;
        let from = match source.peer {
            Peer::Rank(rank) => match roster.process(rank) {
                Ok(process) => Some(self.mpi.endpoint.who_is(process)),
                Err(_) => return,
            },
            _ => None,
        };
        let tag = match source.tag {
            Tag::Is(tag) => Some(tag),
            Tag::Any => None,
        };
        let Some(comm) = self.comm_of(roster) else { return };
        self.need(Need::Message { comm, from, tag, look: Look::Probe });
    }

    fn collective(&mut self, collective: &Collective) {
        let lacks = collective.outstanding_ids().filter_map(|id| self.mpi.endpoint.lack_of(id));
        let mut awaits: Vec<Who> = lacks
            .filter_map(|lack| match lack {
                Lack::Message { from, .. } => from,
                Lack::Taken { to, .. } => Some(to),
                Lack::Deed(who, _) => Some(who),
            })
            .collect();
        awaits.sort_unstable();
        awaits.dedup();
        awaits.truncate(ARRIVED_MAX);
        let Some(comm) = self.comm_of(&collective.roster) else { return };
        let number = if collective.tag < 0 { 0 } else { (collective.tag as u32 & SEQUENCE_MASK) + 1 };
        let what = if collective.what.is_empty() { called() } else { collective.what };
        self.need(Need::Collective { comm, number, what: what.into(), awaits });
    }

    /// Messages that nobody has received. Those of collectives belong to who has not called them.
    fn left_over(&mut self) {
        let mpi = self.mpi;
        for message in mpi.endpoint.left_over().filter(|message| message.context & 1 == 0) {
            if self.place.arrived.len() == ARRIVED_MAX {
                self.place.arrived_more += 1;
                continue;
            }
            let Some(comm) = self.comm_in(message.context, None) else { continue };
            let net::LeftOver { from, tag, bytes, .. } = message;
            self.place.arrived.push(Arrived { comm, from, tag, bytes });
        }
    }

    fn locks(&mut self) {
        let mpi = self.mpi;
        let Ok(windows) = mpi.hall.windows.try_borrow() else { return };
        let held = windows.held_locks(NEEDS_MAX);
        let named = held.into_iter().map(|(win, target)| Held { win, target: mpi.endpoint.who_is(target) });
        self.place.locks = named.collect();
    }

    /// The place in the list of the communicator with this context.
    fn comm_in(&mut self, context: u32, known: Option<CommId>) -> Option<u16> {
        let mpi = self.mpi;
        let known = known.and_then(|comm| mpi.comm(comm).ok()).filter(|comm| is_of(comm, context));
        let comm = known.or_else(|| mpi.comms.iter().map(|(_, comm)| comm).find(|comm| is_of(comm, context)));
        self.comm_of(&comm?.roster)
    }

    fn comm_of(&mut self, roster: &Roster) -> Option<u16> {
        let (mpi, number) = (self.mpi, roster.context() / 2);
        let name = |process| mpi.endpoint.who_is(process);
        let firsts = [roster.members.len() > 0, roster.local.is_some()];
        let first = [&roster.members, roster.local()].into_iter().zip(firsts);
        let first = first.filter(|(_, there)| *there).map(|(members, _)| name(members.at(0))).min()?;
        let same = |comm: &net::waits::Comm| (comm.number, comm.first) == (number, first);
        if let Some(at) = self.place.comms.iter().position(same) {
            return u16::try_from(at).ok();
        }
        if self.place.comms.len() == COMMS_MAX {
            return None;
        }
        let entry =
            mpi.comms.iter().map(|(_, comm)| comm).find(|comm| comm.roster.context() == roster.context());
        let others = roster.local.iter().flat_map(|local| local.iter());
        let members = roster.members.iter().chain(others).map(name);
        let size = roster.members.len() + roster.local.as_ref().map_or(0, |local| local.len());
        self.place.comms.push(net::waits::Comm {
            number,
            first,
            name: entry.map_or_else(String::new, |comm| comm.name().into()),
            begun: entry.map_or(0, |comm| comm.sequence),
            size,
            members: Run::of(members),
        });
        u16::try_from(self.place.comms.len() - 1).ok()
    }
}

fn is_of(comm: &comm::Comm, context: u32) -> bool {
    comm.roster.context() == context & !1
}
