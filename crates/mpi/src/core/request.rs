//! Requests: what is under way, and waiting for it.
use super::check::Expects;
use super::collective::Collective;
use super::comm::Roster;
use super::data::Checked;
use super::making::Making;
use super::p2p::{Sending, accepted, destination, incoming, outgoing, received, withdraw};
use super::partitioned::Partitioned;
use super::whereabouts::Inner;
use super::win::Fate;
use super::*;
use crate::buffer::{RecvBuf, Scratch, SendBuf};
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{Backoff, Rest};
use net::{Outcome, Process, ReqId, UserBufMut};
use std::cell::Cell;
use std::rc::Rc;

/// A generalized request: callbacks of the program, opaque words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grequest {
    /// Fills the status.
    pub query: usize,
    /// Frees the state.
    pub free: usize,
    /// Asked to cancel.
    pub cancel: usize,
    /// Extra state given to all.
    pub extra: usize,
}

/// Something under way.
pub(super) struct Request {
    pub(super) comm: Option<CommId>,
    pub(super) state: State,
    pub(super) recipe: Option<Box<(Recipe, Rc<Roster>)>>,
}

/// How far it is.
pub(super) enum State {
    /// Persistent, not started.
    Inactive,
    /// A persistent collective, not started.
    Idle(Box<Collective>),
    /// Not yet asked for.
    Complete(Status),
    Send {
        id: ReqId,
        more: Option<Box<MoreOfSend>>,
    },
    Recv(Receiving),
    Collective(Box<Collective>),
    Making(Box<Making>),
    /// Of a buffer: is it done?
    Flush(Rc<Cell<bool>>),
    /// Of an operation on the memory of a process.
    Access {
        fate: Rc<Fate>,
        target: Process,
    },
    /// One end of a partitioned message, active or not.
    Partitioned(Box<Partitioned>),
    Generalized {
        callbacks: Grequest,
        complete: bool,
    },
}

/// What most sends under way do not have.
pub(super) struct MoreOfSend {
    /// Keeps the bytes alive.
    #[allow(dead_code)]
    packed: Option<Scratch>,
    /// What its end gives, if the send is what is left of a larger operation.
    status: Status,
}

/// A receive under way.
pub(super) struct Receiving {
    pub(super) id: ReqId,
    pub(super) roster: Rc<Roster>,
    pub(super) more: Option<Box<MoreOfReceive>>,
}

/// What most receives under way do not have.
#[derive(Default)]
pub(super) struct MoreOfReceive {
    pub(super) unpack: Option<Box<Unpack>>,
    /// A send that must be complete too.
    pub(super) companion: Option<Sending>,
    /// Set where the program is checked.
    pub(super) expects: Option<Box<Expects>>,
}

impl Receiving {
    pub(super) fn new(
        id: ReqId,
        roster: Rc<Roster>,
        unpack: Option<Box<Unpack>>,
        expects: Option<Box<Expects>>,
    ) -> Self {
        let plain = unpack.is_none() && expects.is_none();
        let more = (!plain).then(|| Box::new(MoreOfReceive { unpack, companion: None, expects }));
        Receiving { id, roster, more }
    }

    /// The send that must be complete too, if it is not yet.
    pub(super) fn set_companion(&mut self, companion: Option<Sending>) {
        if companion.is_some() {
            self.more.get_or_insert_default().companion = companion;
        }
    }

    pub(super) fn companion(&self) -> Option<ReqId> {
        Some(self.more.as_ref()?.companion.as_ref()?.0)
    }
}

/// Received bytes that must be spread over the program's memory.
pub(super) struct Unpack {
    scratch: Scratch,
    bytes: usize,
    data: Checked<RecvBuf>,
}

impl Unpack {
    pub(super) fn new(data: Checked<RecvBuf>, bytes: usize) -> Self {
        Unpack { scratch: Scratch::with(bytes), bytes, data }
    }

    pub(super) fn room(&mut self) -> UserBufMut {
        self.scratch.part(self.bytes)
    }

    fn finish(mut self, bytes: usize) {
        let from = self.scratch.part(bytes.min(self.bytes)).as_source();
        self.data.ty.unpack(from, self.data.buf, self.data.count);
    }
}

/// What a persistent request does each time.
pub(super) enum Recipe {
    Send { data: Checked<SendBuf>, dest: Dest, mode: Mode },
    Recv { data: Checked<RecvBuf>, source: Source },
    Collective,
    Partitioned,
}

impl State {
    /// A send, with the bytes that it needs and the status that its end gives.
    pub(super) fn sending(id: ReqId, packed: Option<Scratch>, status: Status) -> Self {
        let plain = packed.is_none() && status == Status::EMPTY;
        State::Send { id, more: (!plain).then(|| Box::new(MoreOfSend { packed, status })) }
    }

    pub(super) fn is_active(&self) -> bool {
        match self {
            State::Inactive | State::Idle(_) => false,
            State::Partitioned(end) => end.is_active(),
            _ => true,
        }
    }
}

impl Request {
    pub(super) fn new(comm: CommId, state: State) -> Self {
        Request { comm: Some(comm), state, recipe: None }
    }

    pub(super) fn detached(state: State) -> Self {
        Request { comm: None, state, recipe: None }
    }

    pub(super) fn sent() -> Self {
        Request::detached(State::Complete(Status::EMPTY))
    }

    pub(super) fn persistent(comm: CommId, recipe: Recipe, roster: Rc<Roster>) -> Self {
        Request { comm: Some(comm), state: State::Inactive, recipe: Some(Box::new((recipe, roster))) }
    }

    pub(super) fn persistent_collective(
        comm: CommId,
        collective: Box<Collective>,
        roster: Rc<Roster>,
    ) -> Self {
        Request {
            comm: Some(comm),
            state: State::Idle(collective),
            recipe: Some(Box::new((Recipe::Collective, roster))),
        }
    }
}

impl Mpi {
    /// Moves things along; did anything move?
    pub fn progress(&mut self) -> bool {
        let mut moved = self.endpoint.progress();
        if !self.running.is_empty() {
            moved |= self.advance_running();
        }
        if !self.buffers.is_idle() {
            self.reap_buffered();
        }
        if !self.orphans.is_empty() {
            self.reap_orphans();
        }
        self.hall.look(&mut self.endpoint);
        moved
    }

    /// Call when `progress` moved nothing and the caller still waits: spins, yields or sleeps.
    pub fn pause(&mut self, backoff: &mut Backoff) {
        self.endpoint.pause(backoff);
    }

    /// As `pause`, but leaves it to the caller to yield or to sleep, where no other thread has to wait for it.
    pub fn rest(&mut self, backoff: &mut Backoff) -> Rest {
        self.endpoint.rest(backoff)
    }

    /// How many messages have ended so far.
    #[inline]
    pub fn ended(&self) -> u64 {
        self.endpoint.ended()
    }

    /// A program that does not wait has looked for something and found nothing: should it let others run?
    #[inline]
    pub fn looked_in_vain(&mut self) -> bool {
        self.endpoint.looked_in_vain()
    }

    /// Call behind a sleep that `rest` asked for.
    pub fn rested(&mut self) {
        self.endpoint.rested();
    }

    /// Has what was sent without waiting leave now.
    #[inline]
    pub fn push_out(&mut self) {
        self.endpoint.push_out();
    }

    /// Wakes threads that sleep if something that they may wait for has ended.
    #[inline]
    pub fn stir(&mut self) {
        self.endpoint.stir();
    }

    /// Is the request complete? If so it is freed (inactive, if persistent). An inactive request gives the
    /// empty status. Makes no progress.
    pub fn test(&mut self, request: RequestId) -> Result<Option<Status>> {
        if request == RequestId::SENT {
            return Ok(Some(Status::EMPTY));
        }
        if let Some(status) = self.take_short(request, true) {
            return Ok(Some(status));
        }
        let done = self.poll(request);
        if !matches!(done, Ok(None)) {
            self.release(request);
        }
        done
    }

    /// Would `test` say so? Makes no progress, and is cheap.
    #[inline]
    pub fn is_complete(&self, request: RequestId) -> Result<bool> {
        Ok(match &self.entry(request)?.state {
            State::Inactive | State::Idle(_) | State::Complete(_) => true,
            State::Collective(collective) => collective.is_finished(),
            State::Making(making) => making.is_finished(),
            State::Flush(done) => done.get(),
            State::Access { fate, .. } => fate.is_known(),
            State::Partitioned(end) => end.is_finished(),
            State::Generalized { complete, .. } => *complete,
            State::Send { id, .. } => self.endpoint.is_done(*id),
            State::Recv(receiving) => {
                self.endpoint.is_done(receiving.id)
                    && receiving.companion().is_none_or(|send| self.endpoint.is_done(send))
            }
        })
    }

    /// As `test`, but changes nothing (`MPI_Request_get_status`).
    pub fn peek(&mut self, request: RequestId) -> Result<Option<Status>> {
        let polled = self.poll(request);
        let state = &self.entry(request)?.state;
        let taken = matches!(state, State::Send { .. } | State::Recv(_) | State::Access { .. });
        let ended = taken || matches!(state, State::Collective(_));
        let status = match polled {
            // It has been told of, and will not be again.
            Err(error) if ended => Some(Status { error: error.class, ..Status::EMPTY }),
            polled => polled?,
        };
        if let (Some(status), Some(entry)) = (status, self.requests.get_mut(request.0)) {
            // Remember what was taken from the endpoint; inactive and generalized requests stay what they are.
            if taken {
                entry.state = State::Complete(status);
            }
        }
        Ok(status)
    }

    /// Waits for completion, or until a job is due.
    pub fn wait(&mut self, request: RequestId) -> Result<Waited> {
        self.wait_among(request, Focus::One(request))
    }

    /// The caller does nothing any more but wait for a request.
    #[inline]
    pub fn say_waits(&mut self, request: RequestId) {
        if self.endpoint.has_offers()
            && let Some(State::Send { id, .. }) = self.requests.get(request.0).map(|entry| &entry.state)
        {
            self.endpoint.say_waits(*id);
        }
    }

    /// The same for all of these.
    #[inline]
    pub fn say_waits_all(&mut self, requests: impl FnOnce() -> Vec<RequestId>) {
        if self.endpoint.has_offers() {
            requests().into_iter().for_each(|request| self.say_waits(request));
        }
    }

    /// The same, for who waits for others too.
    pub fn wait_among(&mut self, request: RequestId, focus: Focus<'_>) -> Result<Waited> {
        self.say_waits(request);
        self.until(focus, |mpi| match mpi.test(request)? {
            Some(status) => Ok(Some(Waited::Done(status))),
            None => Ok(mpi.next_job().map(Waited::Job)),
        })
    }

    /// Makes progress until `ready` gives something. `focus` is what is waited for, for who asks.
    #[inline(always)]
    pub(super) fn until<T>(
        &mut self,
        focus: Focus<'_>,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        self.endpoint.stay(true);
        let mut backoff = Backoff::default();
        let value = loop {
            if let Some(value) = ready(self).transpose() {
                break value;
            }
            if self.progress() {
                backoff = Backoff::default();
            } else {
                self.pause(&mut backoff);
                if self.is_asked() {
                    self.say_where(&backoff, focus);
                }
            }
        };
        self.endpoint.stay(false);
        value
    }

    /// Waits for a message, with nothing else under way.
    #[inline]
    pub(super) fn await_message(&mut self, id: ReqId) -> Result<Outcome> {
        let mut backoff = Backoff::default();
        loop {
            match self.endpoint.wait_unless_asked(id, &mut backoff) {
                Some(ended) => return Ok(ended?),
                None => self.say_inner(&backoff, Inner::Message(id)),
            }
        }
    }

    /// A caller begins to wait with [`Mpi::progress`] and [`Mpi::rest`], or has waited.
    #[inline]
    pub fn stay(&mut self, stays: bool) {
        self.endpoint.stay(stays);
    }

    /// Does any caller wait so?
    pub fn anybody_stays(&self) -> bool {
        self.endpoint.anybody_stays()
    }

    /// How often to look for a message before anything else is done: as long as one takes that comes at once.
    #[inline]
    pub fn rounds_at_once(&self) -> u32 {
        self.endpoint.rounds_at_once()
    }

    /// Waits for a request that has no number yet; gives it one if a job comes first.
    pub(super) fn block_on(&mut self, mut request: Request) -> Result<Blocking> {
        self.endpoint.stay(true);
        let mut backoff = Backoff::default();
        let ended = loop {
            match poll_state(&mut self.endpoint, &mut request.state) {
                Ok(None) if self.jobs.is_empty() => {}
                Ok(None) => break Ok(Blocking::Pending(self.add_request(request))),
                Ok(Some(status)) => break Ok(Blocking::Done(status)),
                Err(error) => break Err(error),
            }
            if self.progress() {
                backoff = Backoff::default();
            } else {
                self.pause(&mut backoff);
                if self.is_asked() {
                    self.say_inner(&backoff, Inner::Request(&request));
                }
            }
        };
        self.endpoint.stay(false);
        ended
    }

    /// Starts a persistent request.
    pub fn start_request(&mut self, request: RequestId) -> Result<()> {
        let entry = self.entry_mut(request)?;
        let Some(recipe) = entry.recipe.take() else {
            return fail(ErrorClass::Request, format!("request {} is not persistent", request.0));
        };
        if entry.state.is_active() {
            entry.recipe = Some(recipe);
            return fail(ErrorClass::Request, format!("persistent request {} is active", request.0));
        }
        let state = std::mem::replace(&mut entry.state, State::Inactive);
        let started = match state {
            State::Idle(collective) => Ok(self.restart(request, collective)),
            State::Partitioned(mut end) => {
                end.start();
                self.running.push(request);
                Ok(State::Partitioned(end))
            }
            _ => self.start_recipe(&recipe.0, &recipe.1),
        };
        let entry = self.entry_mut(request)?;
        entry.recipe = Some(recipe);
        entry.state = started?;
        Ok(())
    }

    fn start_recipe(&mut self, recipe: &Recipe, roster: &Rc<Roster>) -> Result<State> {
        match recipe {
            Recipe::Send { data: Checked { buf, count, ty }, dest, mode } => {
                let Some((to, envelope)) = destination(roster, *dest)? else {
                    return Ok(State::Complete(Status::EMPTY));
                };
                let outgoing = outgoing(*buf, *count, ty)?;
                self.note_type(ty, *count);
                let sent = self.start_send(to, envelope, outgoing, *mode, net::Push::Soon)?;
                Ok(match sent {
                    None => State::Complete(Status::EMPTY),
                    Some((id, packed)) => State::sending(id, packed, Status::EMPTY),
                })
            }
            Recipe::Recv { data: Checked { buf, count, ty }, source } => {
                let Some(pattern) = accepted(roster, *source)? else {
                    return Ok(State::Complete(Status::PROC_NULL));
                };
                let (into, expects) = (incoming(*buf, *count, ty)?, self.expects_type(ty));
                Ok(State::Recv(self.post(pattern, into, roster.clone(), expects)))
            }
            Recipe::Collective | Recipe::Partitioned => fail(ErrorClass::Intern, "it has its own start"),
        }
    }

    fn restart(&mut self, request: RequestId, mut collective: Box<Collective>) -> State {
        collective.restart(collective.tag);
        self.running.push(request);
        State::Collective(collective)
    }

    /// Is it persistent (it survives completion)?
    pub fn is_persistent(&self, request: RequestId) -> Result<bool> {
        Ok(self.entry(request)?.recipe.is_some())
    }

    /// Is it under way or complete but not yet asked for? False: inactive, ignored by waitany and the like.
    pub fn is_active(&self, request: RequestId) -> Result<bool> {
        Ok(self.entry(request)?.state.is_active())
    }

    /// The program gives the request up; it completes in the background.
    pub fn request_free(&mut self, request: RequestId) -> Result<()> {
        if request == RequestId::SENT {
            return Ok(());
        }
        let entry = self.entry_mut(request)?;
        entry.recipe = None;
        match &entry.state {
            State::Complete(_) | State::Generalized { .. } => _ = self.requests.remove(request.0),
            state if !state.is_active() => _ = self.requests.remove(request.0),
            _ => self.orphans.push(request),
        }
        Ok(())
    }

    /// Asks to cancel. Only receives can be cancelled; anything else goes on to its end.
    pub fn cancel(&mut self, request: RequestId) -> Result<()> {
        self.entry(request)?;
        if let Some(Request { state: State::Recv(receiving), .. }) = self.requests.get(request.0) {
            self.endpoint.cancel_recv(receiving.id);
        }
        Ok(())
    }

    /// The communicator of a request (for its error handler); `None` for generalized ones.
    pub fn request_comm(&self, request: RequestId) -> Result<Option<CommId>> {
        Ok(self.entry(request)?.comm)
    }

    /// A new generalized request.
    pub fn grequest_start(&mut self, grequest: Grequest) -> Result<RequestId> {
        self.room_for_request()?;
        let state = State::Generalized { callbacks: grequest, complete: false };
        Ok(self.add_request(Request::detached(state)))
    }

    /// The callbacks, if it is a generalized request. After `test` or `wait` said complete, such a request
    /// still exists: the caller runs `query` and `free`, then calls `request_free`.
    pub fn grequest(&self, request: RequestId) -> Result<Option<Grequest>> {
        Ok(match self.entry(request)?.state {
            State::Generalized { callbacks, .. } => Some(callbacks),
            _ => None,
        })
    }

    /// The program says that the operation is complete.
    pub fn grequest_complete(&mut self, request: RequestId) -> Result<()> {
        match &mut self.entry_mut(request)?.state {
            State::Generalized { complete, .. } => *complete = true,
            _ => return fail(ErrorClass::Request, format!("request {} is not a generalized one", request.0)),
        }
        self.endpoint.note_end();
        Ok(())
    }

    /// Whole elements of `ty` in a status; `None` is `MPI_UNDEFINED`.
    pub fn get_count(&self, status: &Status, ty: TypeId) -> Result<Option<u64>> {
        let size = self.datatype(ty)?.size;
        Ok(match size {
            0 => (status.bytes == 0).then_some(0),
            size => status.bytes.is_multiple_of(size).then_some((status.bytes / size) as u64),
        })
    }

    /// Basic elements in a status; `None` is `MPI_UNDEFINED`.
    pub fn get_elements(&self, status: &Status, ty: TypeId) -> Result<Option<u64>> {
        Ok(self.datatype(ty)?.elements(status.bytes))
    }

    /// Bytes that so many basic elements have, counted from the beginning of an element of the datatype.
    pub fn bytes_of_elements(&self, elements: u64, ty: TypeId) -> Result<u64> {
        match self.datatype(ty)?.bytes_of_elements(elements) {
            Some(bytes) => Ok(bytes),
            None => fail(ErrorClass::Arg, format!("{elements} basic elements of datatype {}", ty.0)),
        }
    }

    /// Asked before an operation starts that the program will know by a request: afterwards it is too late to refuse.
    #[inline(always)]
    pub(super) fn room_for_request(&self) -> Result<()> {
        if !self.requests.is_full(self.requests_max) {
            return Ok(());
        }
        fail_with(ErrorClass::NoMem, || format!("more than {} requests at a time", self.requests_max))
    }

    pub(super) fn add_request(&mut self, request: Request) -> RequestId {
        RequestId(self.requests.insert(request))
    }

    #[inline]
    fn entry(&self, request: RequestId) -> Result<&Request> {
        match self.requests.get(request.0) {
            Some(entry) => Ok(entry),
            None => no_request(request),
        }
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, request: RequestId) -> Result<&mut Request> {
        match self.requests.get_mut(request.0) {
            Some(entry) => Ok(entry),
            None => no_request(request),
        }
    }

    fn poll(&mut self, request: RequestId) -> Result<Option<Status>> {
        match self.requests.get_mut(request.0) {
            Some(entry) => poll_state(&mut self.endpoint, &mut entry.state),
            None => no_request(request),
        }
    }

    /// After completion: a persistent request becomes inactive, any other is gone. (A generalized one stays
    /// until its callbacks have run.)
    fn release(&mut self, request: RequestId) {
        let Some(entry) = self.requests.get_mut(request.0) else { return };
        if matches!(entry.state, State::Generalized { .. }) {
            return;
        }
        if entry.recipe.is_none() {
            if let Some(Request { state: State::Collective(done), .. }) = self.requests.remove(request.0) {
                self.recycle(done);
            }
            return;
        }
        entry.state = match std::mem::replace(&mut entry.state, State::Inactive) {
            State::Collective(done) => State::Idle(done),
            State::Idle(idle) => State::Idle(idle),
            State::Partitioned(mut end) => {
                end.rest();
                State::Partitioned(end)
            }
            _ => State::Inactive,
        };
    }

    /// Frees requests that were given up, once they are complete.
    fn reap_orphans(&mut self) {
        for request in std::mem::take(&mut self.orphans) {
            match self.poll(request) {
                Ok(None) => self.orphans.push(request),
                _ => self.release(request),
            }
        }
    }

    /// Lets everything that needs no peer's further call leave this process.
    pub(super) fn drain(&mut self) {
        // Nobody is left to be told of a message that failed.
        let _ = self.until(Focus::Anything, |mpi| Ok(mpi.buffers.is_idle().then_some(())));
        self.progress();
    }
}

/// Is it complete? Takes the result from the endpoint if so; ask no more then.
fn poll_state(endpoint: &mut net::Endpoint, state: &mut State) -> Result<Option<Status>> {
    match state {
        State::Inactive | State::Idle(_) => Ok(Some(Status::EMPTY)),
        State::Complete(status) => Ok(Some(*status)),
        State::Collective(collective) => collective.status(),
        State::Making(making) => making.poll(),
        State::Flush(done) => Ok(done.get().then_some(Status::EMPTY)),
        // (Where the target is lost, it ends when nothing writes into the program's memory any more.)
        State::Access { fate, .. } => Ok(fate.take()?.then_some(Status::EMPTY)),
        State::Partitioned(end) => end.status(),
        State::Generalized { complete, .. } => Ok(complete.then_some(Status::EMPTY)),
        State::Send { id, more } => match endpoint.take(*id) {
            None => Ok(None),
            Some(outcome) => {
                outcome?;
                Ok(Some(more.as_ref().map_or(Status::EMPTY, |more| more.status)))
            }
        },
        State::Recv(receiving) => {
            if let Some(id) = receiving.companion() {
                match endpoint.take(id) {
                    None => return Ok(None),
                    Some(Ok(_)) => receiving.more.iter_mut().for_each(|more| more.companion = None),
                    Some(Err(error)) => {
                        withdraw(endpoint, receiving.id);
                        return Err(error.into());
                    }
                }
            }
            let Some(outcome) = endpoint.take(receiving.id) else { return Ok(None) };
            let outcome = outcome?;
            let mut status = received(endpoint, &receiving.roster, &outcome);
            if let Some(more) = receiving.more.take() {
                if let Some(expects) = more.expects {
                    expects.judge(&outcome, &mut status);
                }
                if let Some(unpack) = more.unpack {
                    unpack.finish(status.bytes);
                }
            }
            Ok(Some(status))
        }
    }
}

#[cold]
fn no_request<T>(request: RequestId) -> Result<T> {
    fail(ErrorClass::Request, format!("there is no request {}", request.0))
}
