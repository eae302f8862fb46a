//! Runs one schedule: a collective operation under way.
mod common;
mod direct;
mod meeting;

use super::again::Likeness;
use super::check::{Answer, Ticket};
use super::comm::Roster;
use super::data::Checked;
use super::op::Combine;
use super::whereabouts::Inner;
use super::*;
use crate::buffer::{RecvBuf, Scratch, SendBuf};
use crate::error::{ErrorClass, MpiError, Result};
pub(super) use common::Segment;
use net::{Backoff, Endpoint};
use net::{Envelope, Outcome, Pattern, Process, ReqId, SendMode, UserBuf, UserBufMut};
use proto::coll::{Schedule, Slice, Space, Step};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Working memory above this is given back when an operation ends.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What is kept for one kind of call has its working memory to this unit.
const KEPT_SCRATCH_UNIT: usize = 4 << 10;

/// Finished operations kept for reuse.
const SPARE_MAX: usize = 8;

/// A copy between the program's memory and our own.
pub(super) struct Move {
    /// The program's elements.
    pub(super) data: Checked<RecvBuf>,
    /// Distance in our memory.
    pub(super) at: usize,
    pub(super) form: Form,
}

/// How elements stand in our memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Without gaps.
    Packed,
    /// As in the program's memory: reduction functions see whole elements.
    Spread,
}

/// A message under way.
struct Pending {
    id: ReqId,
    /// Of one that is received, what the schedule expects.
    expected: Option<Expected>,
}

#[derive(Clone, Copy)]
struct Expected {
    /// The party of the schedule that sends.
    from: u32,
    bytes: usize,
}

/// The block of a process for itself: what it sends is not what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) sent: usize,
    pub(super) received: usize,
}

/// A collective operation.
pub(super) struct Collective {
    pub(super) schedule: Schedule,
    next: usize,
    outstanding: Vec<Pending>,
    pub(super) roster: Rc<Roster>,
    pub(super) context: u32,
    pub(super) tag: i32,
    /// What messages to the other group carry, if that is something else.
    pub(super) across: Option<Envelope>,
    pub(super) input: SendBuf,
    pub(super) output: RecvBuf,
    /// Working memory of the schedule.
    scratch: Scratch,
    /// What it has of memory that the group maps together.
    half: Option<common::Half>,
    /// Memory that stands for the program's where that has gaps.
    pub(super) staging: Scratch,
    /// Copies into `staging` at the start.
    pub(super) loads: Vec<Move>,
    /// Copies out of `staging` at the end.
    pub(super) stores: Vec<Move>,
    pub(super) combine: Option<Combine>,
    /// Bytes from one element of a reduction to the next, and of the first byte from the element's address.
    pub(super) unit: usize,
    pub(super) shift: isize,
    /// A mistake of this process that the others must not wait for: it takes part, and fails at the end.
    pub(super) misfit: Option<Misfit>,
    /// What was told of it where the program is checked; it begins when that is answered.
    pub(super) ticket: Option<Rc<Ticket>>,
    /// May it make queue pairs for whom it will need? Not where another thread may need them before.
    pub(super) offers: bool,
    /// The function that began it, if that is not the one that waits for it.
    pub(super) what: &'static str,
    /// If the next call like this one may use it again.
    pub(super) likeness: Option<Likeness>,
    started: bool,
    finished: bool,
    /// What failed first, until somebody asks; its class stays.
    error: Option<MpiError>,
    failed: ErrorClass,
}

impl fmt::Debug for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collective({}/{} steps)", self.next, self.schedule.steps().len())
    }
}

/// How far `advance` came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// Waits for messages.
    Stuck,
    /// Waits for a reduction function of the program.
    Job,
    /// Complete.
    Done,
}

impl Collective {
    pub(super) fn new(roster: Rc<Roster>) -> Self {
        Collective {
            schedule: Schedule::new(),
            next: 0,
            outstanding: Vec::new(),
            roster,
            context: 0,
            tag: 0,
            across: None,
            input: SendBuf::NONE,
            output: RecvBuf::NONE,
            scratch: Scratch::default(),
            half: None,
            staging: Scratch::default(),
            loads: Vec::new(),
            stores: Vec::new(),
            combine: None,
            unit: 1,
            shift: 0,
            misfit: None,
            ticket: None,
            offers: false,
            what: "",
            likeness: None,
            started: false,
            finished: false,
            error: None,
            failed: ErrorClass::Success,
        }
    }

    /// Ready for another operation; memory is kept.
    fn reset(&mut self, roster: Rc<Roster>) {
        self.roster = roster;
        self.schedule.clear();
        self.loads.clear();
        self.stores.clear();
        (self.input, self.output, self.combine) = (SendBuf::NONE, RecvBuf::NONE, None);
        (self.unit, self.shift, self.across) = (1, 0, None);
        (self.misfit, self.ticket, self.likeness, self.offers) = (None, None, None, false);
        self.what = "";
        self.half = None;
        self.restart(0);
    }

    /// Ready to run the same again.
    pub(super) fn restart(&mut self, tag: i32) {
        debug_assert!(self.outstanding.is_empty());
        self.tag = tag;
        (self.next, self.started, self.finished) = (0, false, false);
        (self.error, self.failed) = (None, ErrorClass::Success);
    }

    /// Ready to run the same again, with other buffers, and begun.
    pub(super) fn repeat(&mut self, tag: i32, input: SendBuf, output: RecvBuf) {
        self.restart(tag);
        (self.input, self.output, self.started) = (input, output, true);
    }

    /// It has other steps now.
    pub(super) fn make_room(&mut self) {
        self.scratch.reserve(self.schedule.scratch_bytes());
    }

    /// Gives back memory that another operation left to it and that it does not need.
    pub(super) fn shed(&mut self) {
        self.staging = Scratch::default();
        if self.scratch.bytes() > self.schedule.scratch_bytes().next_multiple_of(KEPT_SCRATCH_UNIT) {
            self.scratch = Scratch::with(self.schedule.scratch_bytes());
        }
    }

    pub(super) fn has_ended_well(&self) -> bool {
        self.finished
            && self.failed == ErrorClass::Success
            && self.outstanding.is_empty()
            && self.misfit.is_none()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Messages that it waits for at the moment.
    pub(super) fn outstanding_ids(&self) -> impl Iterator<Item = ReqId> + '_ {
        self.outstanding.iter().map(|pending| pending.id)
    }

    /// The status, once complete.
    pub(super) fn status(&mut self) -> Result<Option<Status>> {
        if !self.finished {
            return Ok(None);
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        Ok(Some(Status { error: self.failed, ..Status::EMPTY }))
    }

    #[cold]
    fn fail(&mut self, error: MpiError) {
        if self.failed == ErrorClass::Success {
            self.failed = error.class;
            self.error = Some(error);
        }
    }

    /// Goes on as far as possible.
    pub(super) fn advance(&mut self, endpoint: &mut Endpoint) -> Advance {
        if !self.started {
            match self.admit(endpoint) {
                Answer::Fine => self.begin(),
                Answer::Waiting => return Advance::Stuck,
                Answer::Fault => return Advance::Done,
            }
        }
        while let Some(&step) = self.schedule.steps().get(self.next) {
            match step {
                Step::Send { to, from } => self.send(endpoint, to, from),
                Step::Recv { from, into } => self.recv(endpoint, from, into),
                Step::Copy { from, into } => self.copy(from, into),
                Step::Reduce { from, into } => match self.combine {
                    Some(Combine::Kernel(kernel)) => kernel(self.source(from), self.target(into)),
                    Some(Combine::User(..)) => return Advance::Job,
                    None => unreachable!("only reductions combine"),
                },
                Step::Wait => {
                    if !self.settle(endpoint) {
                        return Advance::Stuck;
                    }
                }
                Step::Show { input, output, meant, into } => {
                    self.show(endpoint, (input, output), meant, into)
                }
                Step::Decide { table, direct, messages } => {
                    let ways = direct::Ways { direct, messages, next: self.next + 1 };
                    self.next = self.decide(endpoint, table, ways);
                    continue;
                }
                Step::Try { table } => self.attempt(endpoint, table),
                Step::Read { from, table, into } => self.read(endpoint, table, from, into),
                Step::Write { from, table, into } => self.write(endpoint, table, from, into),
                Step::Provide { into } => self.provide(into),
                Step::Map { place, into } => self.map_common(place, into),
                Step::Agree { at, members, mapped, otherwise } => {
                    self.next = if self.agree(endpoint, at, members) { mapped } else { otherwise };
                    continue;
                }
                Step::Declare { meant } => self.declare(endpoint, meant),
                Step::Compare { members } => self.compare(members),
                Step::Offer { slots, record } => self.offer(endpoint, slots, record),
                Step::Meet { slots, record } => self.meet(endpoint, slots, record),
                Step::Go { to } => {
                    self.next = to;
                    continue;
                }
            }
            self.next += 1;
        }
        if self.failed != ErrorClass::Success {
            endpoint.hear_of_losses();
            if self.half.is_some() {
                self.roster.segment.restart();
            }
        }
        // Not only who has waited for somebody who is gone: no result is that of all. It is also why others have sent
        // nothing.
        if let Some(error) = endpoint.loss_in(self.roster.collective_context()) {
            let error = MpiError::from(error);
            (self.failed, self.error) = (error.class, Some(error));
        }
        self.finish();
        Advance::Done
    }

    /// Goes on by the short way of messages, as far as that takes it: what comes at once is not even asked for. Is that the
    /// end? Where it is not, [`Collective::advance`] goes on.
    pub(super) fn hasten(&mut self, endpoint: &mut Endpoint) -> bool {
        while self.next < self.schedule.steps().len() {
            if !self.hasten_to_wait(endpoint) {
                return false;
            }
            self.next += 1;
        }
        endpoint.push_out();
        self.finished = self.failed == ErrorClass::Success && endpoint.loss_in(self.context).is_none();
        self.finished
    }

    /// What stands before the next wait, and that. All messages leave before the first is waited for; nothing else there
    /// can depend on one that comes.
    fn hasten_to_wait(&mut self, endpoint: &mut Endpoint) -> bool {
        let steps = &self.schedule.steps()[self.next..];
        let count = steps.iter().position(|step| matches!(step, Step::Wait)).unwrap_or(steps.len());
        let steps = self.next..self.next + count;
        self.next = steps.end;
        let mut expected = 0;
        for at in steps.clone() {
            match self.schedule.steps()[at] {
                Step::Send { to, from } => {
                    let (to, envelope) = self.way(to);
                    if !endpoint.send_short(to, envelope, self.source(from)) {
                        self.slow_down(endpoint, steps, at);
                        return false;
                    }
                }
                Step::Recv { .. } => expected += 1,
                step => self.work(endpoint, step),
            }
        }
        if expected == 0 {
            return true;
        }
        endpoint.push_out();
        for at in steps.clone() {
            let Step::Recv { from, into } = self.schedule.steps()[at] else { continue };
            let (source, Envelope { context, tag }) = self.way(from);
            let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
            let Some(end) = endpoint.recv_short(pattern, self.target(into)) else {
                self.recv_slowly(endpoint, at..steps.end);
                return false;
            };
            if end.truncated || end.bytes != into.len {
                self.fail(self.unexpected(&end, Expected { from, bytes: into.len }));
                self.recv_slowly(endpoint, at + 1..steps.end);
                return false;
            }
        }
        true
    }

    /// A step that is no message, of an operation that needs no function of the program.
    fn work(&mut self, endpoint: &mut Endpoint, step: Step) {
        match (step, &self.combine) {
            (Step::Copy { from, into }, _) => self.copy(from, into),
            (Step::Reduce { from, into }, Some(Combine::Kernel(kernel))) => {
                kernel(self.source(from), self.target(into))
            }
            (Step::Declare { meant }, _) => self.declare(endpoint, meant),
            (Step::Compare { members }, _) => self.compare(members),
            _ => unreachable!("kept operations copy, combine and exchange messages"),
        }
    }

    /// The message that the short way did not take, what stands behind it, and all messages that are expected.
    #[cold]
    fn slow_down(&mut self, endpoint: &mut Endpoint, steps: Range<usize>, refused: usize) {
        self.recv_slowly(endpoint, steps.clone());
        for at in refused..steps.end {
            match self.schedule.steps()[at] {
                Step::Send { to, from } => self.send(endpoint, to, from),
                Step::Recv { .. } => {}
                step => self.work(endpoint, step),
            }
        }
    }

    #[cold]
    fn recv_slowly(&mut self, endpoint: &mut Endpoint, messages: Range<usize>) {
        for at in messages {
            if let Step::Recv { from, into } = self.schedule.steps()[at] {
                self.recv(endpoint, from, into);
            }
        }
    }

    /// May it begin? After a fault it is at its end.
    #[inline]
    pub(super) fn admit(&mut self, endpoint: &Endpoint) -> Answer {
        let Some(ticket) = &self.ticket else { return Answer::Fine };
        // Who is gone tells nothing of it.
        if ticket.answer() == Answer::Waiting && endpoint.loss_in(self.context).is_some() {
            ticket.give_up();
        }
        let answer = ticket.answer();
        match answer {
            Answer::Waiting => return answer,
            Answer::Fine => {}
            Answer::Fault => {
                self.error = ticket.error();
                (self.started, self.finished, self.next) = (true, true, self.schedule.steps().len());
            }
        }
        self.ticket = None;
        answer
    }

    fn begin(&mut self) {
        self.started = true;
        self.make_room();
        if let Some(misfit) = self.misfit {
            self.fail(misfit.into());
        }
        let staging = self.staging.as_recv();
        for load in &self.loads {
            load.load(staging.shifted(load.at as isize));
        }
    }

    fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        let staging = self.staging.as_recv();
        for store in &self.stores {
            store.store(staging.shifted(store.at as isize));
        }
    }

    /// In place, both may be the same memory.
    fn copy(&mut self, from: Slice, into: Slice) {
        let (from, into) = (self.source(from), self.target(into));
        if from.addr() != into.addr() {
            into.copy_from(&from);
        }
    }

    fn send(&mut self, endpoint: &mut Endpoint, to: u32, from: Slice) {
        let (to, envelope) = self.way(to);
        // After a failure what is sent would be wrong. An empty message is not what the receiver expects, so that it
        // fails as well, and nobody waits. (Nor does it wait for what all will hear has failed.)
        let well = self.failed == ErrorClass::Success
            && endpoint.loss_in(self.roster.collective_context()).is_none();
        let len = if well { from.len } else { 0 };
        let from = self.source(Slice { len, ..from });
        match endpoint.isend(to, envelope, from, SendMode::Standard) {
            Ok(None) => {}
            Ok(Some(id)) => self.outstanding.push(Pending { id, expected: None }),
            Err(error) => self.fail(error.into()),
        }
    }

    fn recv(&mut self, endpoint: &mut Endpoint, from: u32, into: Slice) {
        let (source, Envelope { context, tag }) = self.way(from);
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        let expected = Some(Expected { from, bytes: into.len });
        let into = self.target(into);
        self.outstanding.push(Pending { id: endpoint.irecv(pattern, into), expected });
    }

    /// Whom the schedule means, and what messages between the two carry.
    #[inline]
    fn way(&self, party: u32) -> (Process, Envelope) {
        let own = Envelope { context: self.context, tag: self.tag };
        match &self.roster.local {
            None => (self.roster.members.at(party), own),
            Some(local) if party < local.len() => (local.at(party), own),
            Some(local) => (self.roster.members.at(party - local.len()), self.across.unwrap_or(own)),
        }
    }

    /// Is everything that was started complete?
    fn settle(&mut self, endpoint: &mut Endpoint) -> bool {
        while let Some(&Pending { id, .. }) = self.outstanding.last() {
            let Some(outcome) = endpoint.take(id) else { return false };
            self.note(outcome);
        }
        true
    }

    /// Takes the result of the newest outstanding message.
    fn note(&mut self, outcome: std::result::Result<Outcome, net::NetError>) {
        let expected = self.outstanding.pop().and_then(|pending| pending.expected);
        match (outcome, expected) {
            (Err(error), _) => self.fail(error.into()),
            (Ok(outcome), Some(expected)) if outcome.truncated || outcome.bytes != expected.bytes => {
                self.fail(self.unexpected(&outcome, expected));
            }
            _ => {}
        }
    }

    /// A message of another length: the sizes that processes gave differ, or its sender has failed.
    #[cold]
    fn unexpected(&self, outcome: &Outcome, expected: Expected) -> MpiError {
        let Expected { from, bytes } = expected;
        let from = match &self.roster.local {
            Some(local) if from >= local.len() => format!("rank {} of the other group", from - local.len()),
            _ => format!("rank {from}"),
        };
        let words = match outcome.bytes {
            _ if outcome.truncated => format!("{from} sent more than the {bytes} bytes that were expected"),
            0 => format!(
                "{from} sent nothing where {bytes} bytes were expected; it has failed, or its sizes differ"
            ),
            sent => format!("{from} sent {sent} bytes where {bytes} were expected"),
        };
        MpiError::new(ErrorClass::Truncate, words)
    }

    #[inline]
    fn source(&self, slice: Slice) -> UserBuf {
        match slice.space {
            Space::Input => self.input.range(slice.at as isize, slice.len),
            Space::Output => self.output.as_source().range(slice.at as isize, slice.len),
            Space::Scratch => self.scratch.as_send().range(slice.at as isize, slice.len),
            Space::Common => self.common().as_source().range(slice.at as isize, slice.len),
        }
    }

    #[inline]
    fn target(&mut self, slice: Slice) -> UserBufMut {
        match slice.space {
            Space::Input => unreachable!("the input is never written"),
            Space::Output => self.output.range(slice.at as isize, slice.len),
            Space::Scratch => self.scratch.as_recv().range(slice.at as isize, slice.len),
            Space::Common => self.common().range(slice.at as isize, slice.len),
        }
    }

    /// The part of the group's memory that is this operation's.
    #[inline]
    fn common(&self) -> RecvBuf {
        self.half.as_ref().expect("declared before it is used").start()
    }

    /// The reduction that `Advance::Job` stands for.
    fn job(&mut self, request: RequestId) -> Option<UserReduce> {
        let Some(&Step::Reduce { from, into }) = self.schedule.steps().get(self.next) else { return None };
        let Some(Combine::User(op, ty, _)) = self.combine else { return None };
        // A function gets the addresses of elements, not of their first bytes.
        let source = self.address(from).shifted(-self.shift);
        let target = self.address(into).shifted(-self.shift).as_recv();
        let count = (into.len / self.unit) as i64;
        Some(UserReduce { op, source, target, count, ty, request: Some(request), on_loan: false })
    }

    fn address(&mut self, slice: Slice) -> SendBuf {
        let base = match slice.space {
            Space::Input => self.input,
            Space::Output => self.output.as_source(),
            Space::Scratch => self.scratch.as_recv().as_source(),
            Space::Common => self.common().as_source(),
        };
        base.shifted(slice.at as isize)
    }
}

impl From<Misfit> for MpiError {
    fn from(Misfit { sent, received }: Misfit) -> Self {
        let words = format!("{sent} bytes sent to itself where {received} are received");
        MpiError::new(ErrorClass::Truncate, words)
    }
}

impl Move {
    fn load(&self, ours: RecvBuf) {
        let Checked { buf, count, ty } = &self.data;
        match self.form {
            Form::Packed => ty.pack(buf.as_source(), *count, ours.range(0, ty.size * count)),
            Form::Spread => ty.copy_elements(buf.as_source(), ours.shifted(-ty.true_lb as isize), *count),
        }
    }

    fn store(&self, ours: RecvBuf) {
        let (Checked { buf, count, ty }, ours) = (&self.data, ours.as_source());
        match self.form {
            Form::Packed => ty.unpack(ours.range(0, ty.size * count), *buf, *count),
            Form::Spread => ty.copy_elements(ours.shifted(-ty.true_lb as isize), *buf, *count),
        }
    }
}

impl Mpi {
    /// An operation object, new or used.
    pub(super) fn fresh(&mut self, roster: Rc<Roster>) -> Box<Collective> {
        match self.spare.pop() {
            Some(mut spare) => {
                spare.reset(roster);
                spare
            }
            None => Box::new(Collective::new(roster)),
        }
    }

    pub(super) fn recycle(&mut self, mut collective: Box<Collective>) {
        // Memory of the group may go with its communicator.
        collective.half = None;
        collective.roster = self.nobody.clone();
        let small = collective.scratch.bytes() + collective.staging.bytes() <= KEPT_BYTES_MAX;
        if small && collective.outstanding.is_empty() && self.spare.len() < SPARE_MAX {
            self.spare.push(collective);
        }
    }

    /// Runs to the end, or until a function of the program must run.
    pub(super) fn run(&mut self, comm: CommId, mut c: Box<Collective>) -> Result<Blocking> {
        let mut backoff = Backoff::default();
        loop {
            match c.advance(&mut self.endpoint) {
                Advance::Done => {
                    let status = c.status();
                    self.put_away(comm, c);
                    return Ok(Blocking::Done(status?.unwrap_or(Status::EMPTY)));
                }
                Advance::Job => return Ok(Blocking::Pending(self.adopt(comm, c))),
                Advance::Stuck if self.running.is_empty() => self.wait_for_newest(&mut c, &mut backoff),
                Advance::Stuck => {
                    if self.progress() {
                        backoff = Backoff::default();
                    } else {
                        self.pause(&mut backoff);
                        if self.is_asked() {
                            self.say_inner(&backoff, Inner::Collective(&c));
                        }
                    }
                    if !self.jobs.is_empty() {
                        return Ok(Blocking::Pending(self.adopt(comm, c)));
                    }
                }
            }
        }
    }

    /// Nothing else is under way: the endpoint's own wait is the shortest.
    fn wait_for_newest(&mut self, c: &mut Collective, backoff: &mut Backoff) {
        if let Some(&Pending { id, .. }) = c.outstanding.last() {
            match self.endpoint.wait_unless_asked(id, backoff) {
                Some(outcome) => c.note(outcome),
                None => self.say_inner(backoff, Inner::Collective(c)),
            }
        }
    }

    /// Makes it a request, which `progress` carries on.
    pub(super) fn adopt(&mut self, comm: CommId, collective: Box<Collective>) -> RequestId {
        let id = self.add_request(request::Request::new(comm, request::State::Collective(collective)));
        self.running.push(id);
        self.advance_one(id);
        id
    }

    /// Carries on all collectives that are requests; did one come to an end or start a message?
    pub(super) fn advance_running(&mut self) -> bool {
        let mut moved = false;
        let mut index = 0;
        while index < self.running.len() {
            let id = self.running[index];
            moved |= self.advance_one(id);
            if self.running.get(index) == Some(&id) {
                index += 1;
            }
        }
        moved
    }

    pub(super) fn advance_one(&mut self, id: RequestId) -> bool {
        let Some(entry) = self.requests.get_mut(id.0) else { return false };
        let c = match &mut entry.state {
            request::State::Collective(c) => c,
            request::State::Partitioned(end) => {
                let done = end.advance(&mut self.endpoint, &mut self.channels);
                if end.is_finished() {
                    self.running.retain(|other| *other != id);
                }
                return done;
            }
            making @ request::State::Making(_) => {
                let making = std::mem::replace(making, request::State::Inactive);
                return self.advance_taken(id, making);
            }
            _ => return false,
        };
        let before = c.next;
        match c.advance(&mut self.endpoint) {
            Advance::Stuck => c.next != before,
            Advance::Job => {
                if !self.jobs.contains(&id) && !self.lent.contains(&id) {
                    self.jobs.push(id);
                }
                c.next != before
            }
            Advance::Done => {
                self.running.retain(|other| *other != id);
                true
            }
        }
    }

    /// A communicator that is being made, taken out of its request meanwhile.
    fn advance_taken(&mut self, id: RequestId, mut state: request::State) -> bool {
        let request::State::Making(making) = &mut state else { return false };
        let done = self.advance_making(making);
        if let Some(entry) = self.requests.get_mut(id.0) {
            entry.state = state;
        }
        if done {
            self.running.retain(|other| *other != id);
        }
        done
    }

    /// A call of a reduction function that is due. Whoever waits by `test` asks after each `progress`.
    pub fn next_job(&mut self) -> Option<UserReduce> {
        let id = self.jobs.pop()?;
        let request::State::Collective(c) = &mut self.requests.get_mut(id.0)?.state else { return None };
        let mut job = c.job(id)?;
        // A datatype that the program has freed gets a number for as long as the function runs.
        if let Some(Combine::User(_, number, ty)) = &c.combine
            && !self.types.get(number.0).is_some_and(|entry| Rc::ptr_eq(&entry.ty, ty))
        {
            let ty = ty.clone();
            (job.ty, job.on_loan) = (self.new_type(ty), true);
        }
        self.lent.push(id);
        Some(job)
    }

    /// The function has run.
    pub fn job_done(&mut self, job: UserReduce) {
        if job.on_loan {
            self.types.remove(job.ty.0);
        }
        let Some(id) = job.request else { return };
        self.lent.retain(|lent| *lent != id);
        if let Some(request::Request { state: request::State::Collective(c), .. }) =
            self.requests.get_mut(id.0)
        {
            c.next += 1;
            self.advance_one(id);
            // Another thread may sleep until it is complete.
            self.endpoint.note_end();
        }
    }
}
