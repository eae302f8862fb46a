//! Finding mistakes of programs that they cannot find by themselves (`--check`, `BANYAN_CHECK`).
//!
//! * Members of a communicator that call different collectives, or the same one with arguments that do not fit
//!   ([`describe`]). Every collective waits for the word of the communicator's first member (see `proto::check`), so that a
//!   program hears of it where it would hang, through the error handler of the communicator.
//! * A receive whose datatype does not fit the message ([`receipt`]): the signature of what was sent travels as the mark of
//!   the message.
//! * What is left at the end: objects never freed, requests never completed, messages never received ([`leftover`]).
//!
//! Without it there is no [`Check`], and what is left of it is a branch where messages or objects are made. The shortest ways of
//! blocking sends and receives do not even have that: they are taken when nothing else is under way, and in a program that
//! is checked something always is ([`PRESENCE`]).
mod describe;
mod leftover;
mod receipt;

pub(super) use describe::Form;
pub(super) use leftover::{bounded, never_freed};
pub(super) use receipt::Expects;

use super::collective::Collective;
use super::comm::{Roster, SEQUENCE_MASK};
use super::members::Members;
use super::*;
use crate::buffer::Scratch;
use crate::error::{ErrorClass, MpiError, Result};
use net::{Active, Doing, Endpoint, Job, Process};
use proto::check::{Hub, Key, Record};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Handlers of the endpoint: what a process calls, and what it is told of that.
const RECORDS: u32 = 32;
const VERDICTS: u32 = 33;
/// Longest record or verdict: shorter than what every connection takes at once.
const WORDS_BYTES_MAX: usize = 3 << 10;
/// Stands for a collective that is always under way, and is no request.
const PRESENCE: RequestId = RequestId(u32::MAX);

/// How strictly a program is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rigor {
    /// What is left at the end is told.
    Tell,
    /// It makes the program fail.
    Fail,
}

/// Is the program to be checked?
pub(super) fn rigor() -> Option<Rigor> {
    rigor_in(registry().setting(proto::env::CHECK))
}

pub(super) fn rigor_in(value: Option<String>) -> Option<Rigor> {
    match value.as_deref() {
        Some("on" | "1") => Some(Rigor::Tell),
        Some("strict") => Some(Rigor::Fail),
        _ => None,
    }
}

thread_local! {
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

/// The program calls this function now: the name in what is told of it. (Empty: not a function of the C interface.)
pub fn enter_call(name: &'static str) {
    CALL.set(name);
}

pub(super) fn current_call() -> &'static str {
    CALL.get()
}

/// A process whose program is checked.
pub(super) struct Check {
    rigor: Rigor,
    shared: Rc<RefCell<Shared>>,
    /// That of the message that is being sent.
    mark: Cell<u32>,
    /// Was something left when a session ended?
    told: Cell<bool>,
}

/// What is told of a collective, and to whom.
type Told = (Record, Process);

/// Where the members of a communicator meet, the same for all of them.
struct Table {
    /// Tells communicators apart.
    digest: u64,
    size: u32,
    /// Members of the first group, which has the one who compares; all, if there is one group.
    first: u32,
    /// What the ranks of this process's group are counted from.
    own_from: u32,
    /// Who compares.
    head: Process,
}

/// What the handlers of the endpoint see too.
#[derive(Default)]
struct Shared {
    hub: Hub<net::Peer>,
    /// What this process has told and is not answered.
    open: Vec<Rc<Ticket>>,
    /// The last one that a new communicator waits for.
    making: Option<Rc<Ticket>>,
    next: u64,
}

/// What a process has told of a collective, and what it was answered.
#[derive(Debug)]
pub(super) struct Ticket {
    number: u64,
    key: Key,
    /// The messages of the collective.
    context: u32,
    tag: i32,
    what: String,
    answer: RefCell<Option<Option<String>>>,
}

/// How far that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not everybody has called it.
    Waiting,
    /// Everybody calls the same.
    Fine,
    /// Not so.
    Fault,
}

impl Ticket {
    pub(super) fn answer(&self) -> Answer {
        match &*self.answer.borrow() {
            None => Answer::Waiting,
            Some(None) => Answer::Fine,
            Some(Some(_)) => Answer::Fault,
        }
    }

    /// Nobody will answer: the collective itself will say why.
    pub(super) fn give_up(&self) {
        self.answer.replace(Some(None));
    }

    /// What is wrong.
    pub(super) fn error(&self) -> Option<MpiError> {
        let words = self.answer.borrow().clone().flatten();
        words.map(|words| MpiError::new(ErrorClass::Other, words))
    }
}

impl Check {
    /// What was told of the communicator that is being made with these messages.
    pub(super) fn take_ticket(&self, context: u32, tag: i32) -> Option<Rc<Ticket>> {
        let fits = |ticket: &mut Rc<Ticket>| ticket.context == context && ticket.tag == tag;
        self.shared.borrow_mut().making.take_if(fits)
    }

    /// The mark of the message that is being sent.
    pub(super) fn take_mark(&self) -> u32 {
        self.mark.take()
    }
}

impl Mpi {
    /// Checks the program from now on.
    pub(super) fn begin_check(&mut self, rigor: Rigor) {
        let shared = Rc::<RefCell<Shared>>::default();
        let (hub, open, doing) = (shared.clone(), shared.clone(), shared.clone());
        self.endpoint.set_handler(
            RECORDS,
            Some(Rc::new(move |endpoint, from, active| {
                hear(&hub, endpoint, from, active);
            })),
        );
        self.endpoint.set_handler(
            VERDICTS,
            Some(Rc::new(move |endpoint, _, active| {
                open.borrow_mut().settle(&active);
                endpoint.note_end();
            })),
        );
        self.endpoint.set_doing(Doing(Rc::new(move || doing.borrow().doing())));
        self.running.push(PRESENCE);
        self.check = Some(Box::new(Check { rigor, shared, mark: Cell::new(0), told: Cell::new(false) }));
    }

    /// How strictly the program is checked, if it is.
    pub fn rigor(&self) -> Option<Rigor> {
        self.check.as_ref().map(|check| check.rigor)
    }

    /// From now on every object that the program makes has a number.
    pub(super) fn note_births(&mut self) {
        registry().note_births();
        self.comms.note_births();
        self.groups.note_births();
        self.types.note_births();
        self.ops.note_births();
        self.requests.note_births();
        self.messages.note_births();
        self.keyvals.note_births();
        self.hall.note_births();
    }

    /// Tells of a collective, which begins when that is answered.
    #[cold]
    pub(super) fn announce_collective(
        &mut self,
        comm: CommId,
        call: &Coll<'_>,
        form: Form,
        operation: &mut Collective,
    ) -> Result<()> {
        let Some(told) = self.record_of(comm, call, form, operation.tag)? else { return Ok(()) };
        operation.ticket = Some(self.tell(told, (operation.context, operation.tag)));
        Ok(())
    }

    /// Tells of a communicator that members of another one make.
    #[cold]
    pub(super) fn announce_making(&mut self, comm: CommId, tag: i32) -> Result<()> {
        let name = named("a function that makes a communicator");
        let Some(told) = self.record(comm, name, tag)? else { return Ok(()) };
        let context = self.comm(comm)?.roster.collective_context();
        let ticket = self.tell(told, (context, tag));
        if let Some(check) = &self.check {
            check.shared.borrow_mut().making = Some(ticket);
        }
        Ok(())
    }

    /// Tells that this process will call no more collectives of a communicator: others may wait for one.
    #[cold]
    pub(super) fn announce_end(&mut self, comm: CommId, call: &str) {
        let Ok(tag) = self.next_sequence(comm) else { return };
        if let Ok(Some((record, head))) = self.record(comm, call.into(), tag) {
            self.tell((Record { waits: false, ..record }, head), (0, 0));
        }
    }

    /// A record without arguments, and who is told of it; `None` where nobody is to be asked.
    fn record(&self, comm: CommId, call: String, tag: i32) -> Result<Option<Told>> {
        let roster = &self.comm(comm)?.roster;
        let Some(table) = self.table(roster) else { return Ok(None) };
        let key =
            Key { number: roster.context(), members: table.digest, sequence: tag as u32 & SEQUENCE_MASK };
        let record = Record {
            key,
            rank: table.own_from + roster.rank,
            size: table.size,
            first: table.first,
            who: self.who_words(roster),
            ticket: 0,
            waits: true,
            comm: self.comm_words(comm),
            call,
            arguments: String::new(),
            root: None,
            op: None,
            same: None,
            gives: Default::default(),
            takes: Default::default(),
        };
        Ok(Some((record, table.head)))
    }

    /// A communicator, in words.
    fn comm_words(&self, comm: CommId) -> String {
        match self.comm_name(comm) {
            Ok(name) if !name.is_empty() => name.into(),
            _ => {
                let birth = self.comms.birth(comm.0);
                format!("communicator {} (made by {})", birth.number, leftover::maker(birth))
            }
        }
    }

    fn tell(&mut self, (mut record, head): Told, (context, tag): (u32, i32)) -> Rc<Ticket> {
        let shared = self.check.as_ref().map(|check| check.shared.clone()).unwrap_or_default();
        let ticket = {
            let mut shared = shared.borrow_mut();
            shared.next += 1;
            record.ticket = shared.next;
            let what = format!("collective {} of {}", record.key.sequence + 1, record.comm);
            let answer = RefCell::new(None);
            let ticket =
                Rc::new(Ticket { number: record.ticket, key: record.key, context, tag, what, answer });
            if record.waits {
                shared.open.retain(|open| open.answer() == Answer::Waiting);
                shared.open.push(ticket.clone());
            }
            ticket
        };
        let first = self.endpoint.peer_of(head);
        let words = bounded_record(record);
        if !first.is_some_and(|first| send(&mut self.endpoint, first, RECORDS, ticket.number, &words)) {
            ticket.give_up();
        }
        ticket
    }

    /// Where the members of a communicator meet; `None` for one that has nobody else in it, or somebody whose program is not
    /// checked. All members come to the same answer.
    fn table(&self, roster: &Roster) -> Option<Table> {
        let Some(local) = &roster.local else {
            let digest = self.members_digest(&roster.members)?;
            let (first, head) = (roster.size, roster.members.at(0));
            return (roster.size > 1).then_some(Table { digest, size: first, first, own_from: 0, head });
        };
        let (own, other) = (self.members_digest(local)?, self.members_digest(&roster.members)?);
        let digest = own.min(other).rotate_left(1) ^ own.max(other);
        let size = local.len() + roster.size;
        Some(match own < other {
            true => Table { digest, size, first: local.len(), own_from: 0, head: local.at(0) },
            false => {
                let first = roster.size;
                Table { digest, size, first, own_from: first, head: roster.members.at(0) }
            }
        })
    }

    /// Tells groups apart, the same for everybody.
    fn members_digest(&self, members: &Members) -> Option<u64> {
        let mix = |hash: u64, name: u64| (hash ^ name).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        members.iter().try_fold(0xcbf2_9ce4_8422_2325, |hash, process| {
            let name = match self.endpoint.peer_of(process) {
                Some(net::Peer::Rank { job, .. }) if !self.is_checked(job) => return None,
                Some(net::Peer::Rank { job, rank }) => job.0.rotate_left(32) ^ u64::from(rank.0),
                _ => 0,
            };
            Some(mix(hash, name))
        })
    }

    /// Is the program of a job checked? Jobs say so to those whom they meet.
    pub(super) fn is_checked(&self, job: Job) -> bool {
        if job == self.endpoint.me().job() { self.check.is_some() } else { self.dynamic.is_checked(job) }
    }

    /// This process as a member of a communicator, in words.
    fn who_words(&self, roster: &Roster) -> String {
        if !roster.is_inter() {
            return format!("rank {}", roster.rank);
        }
        let job = if self.endpoint.is_spawned() { "a spawned job" } else { "the job" };
        format!("rank {} of its group (process {} of {job})", roster.rank, self.endpoint.rank())
    }

    /// Waits until everybody is there who was told of.
    fn meet_all(&mut self, ticket: &Ticket) -> Result<()> {
        self.until(Focus::Anything, |_| Ok((ticket.answer() != Answer::Waiting).then_some(())))?;
        ticket.error().map_or(Ok(()), Err)
    }
}

impl Shared {
    /// Answers what this process has told.
    fn settle(&mut self, active: &Active) {
        let Some(at) = self.open.iter().position(|ticket| ticket.number == active.argument) else { return };
        let words = String::from_utf8_lossy(&active.bytes);
        let fault = (!words.is_empty()).then(|| words.into_owned());
        self.open.swap_remove(at).answer.replace(Some(fault));
    }

    /// What this process is doing, and who has not called what it waits for, where that is known here.
    fn doing(&self) -> String {
        let mut words = String::from(if current_call().is_empty() { "a call" } else { current_call() });
        let open = self.open.iter().filter(|ticket| ticket.answer() == Answer::Waiting);
        for ticket in open.take(leftover::LINES_MAX) {
            words += &format!("; {} has not been called by all", ticket.what);
            if let Some(missing) = self.hub.missing(ticket.key) {
                words += &format!(" ({missing})");
            }
        }
        words
    }
}

/// Compares what a process calls with what others call.
fn hear(shared: &RefCell<Shared>, endpoint: &mut Endpoint, from: net::Peer, active: Active) {
    let Some(record) = Record::parse(&active.bytes) else { return };
    let verdicts = shared.borrow_mut().hub.hear(record, from);
    for verdict in verdicts {
        let mut words = verdict.fault.unwrap_or_default();
        let most = (0..=WORDS_BYTES_MAX.min(words.len())).rev().find(|at| words.is_char_boundary(*at));
        words.truncate(most.unwrap_or(0));
        // If it is gone, it does not wait.
        send(endpoint, verdict.to, VERDICTS, verdict.ticket, words.as_bytes());
    }
}

/// Sends a few words to a handler. Can the peer be reached?
fn send(endpoint: &mut Endpoint, to: net::Peer, handler: u32, argument: u64, words: &[u8]) -> bool {
    let mut copy = Scratch::with(words.len());
    let part = copy.part(words.len());
    part.copy_from_slice(words);
    match endpoint.send_active(to, handler, argument, part.as_source()) {
        Ok(None) => true,
        Ok(Some(id)) => {
            // Longer than the connection takes at once: the bytes stay, they are few.
            endpoint.forget(id);
            std::mem::forget(copy);
            true
        }
        Err(_) => false,
    }
}

/// Without what is listed by rank if that makes it too long.
fn bounded_record(mut record: Record) -> Vec<u8> {
    let bytes = record.emit();
    if bytes.len() <= WORDS_BYTES_MAX {
        return bytes;
    }
    (record.gives, record.takes) = Default::default();
    for words in [&mut record.comm, &mut record.arguments] {
        *words = words.chars().take(WORDS_BYTES_MAX / 16).collect();
    }
    record.emit()
}

/// The function that the program calls, without the mark of those with large counts; or else this.
fn named(or: &str) -> String {
    let call = current_call();
    if call.is_empty() { or.into() } else { call.strip_suffix("_c").unwrap_or(call).into() }
}
