//! Point-to-point messages. The short way is: check, translate the rank, give the bytes to the endpoint.
use super::check::Expects;
use super::comm::{Roster, check_tag};
use super::data::Checked;
use super::layout::Datatype;
use super::request::{Receiving, Recipe, Request, State, Unpack};
use super::*;
use crate::buffer::{RecvBuf, Scratch, SendBuf};
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{Endpoint, Envelope, Message, Outcome, Process, Push, ReqId, SendMode, UserBuf, UserBufMut};
use std::rc::Rc;

/// What a receive accepts.
pub(super) type Pattern = net::Pattern<Process>;

/// What a send carries.
pub(super) enum Outgoing {
    /// Bytes where they are.
    Flat(UserBuf),
    /// A packed copy.
    Packed(Scratch, usize),
}

/// A send under way, and the bytes it needs.
pub(super) type Sending = (ReqId, Option<Scratch>);

/// Where a receive puts its bytes.
pub(super) enum Incoming {
    Flat(UserBufMut),
    /// A buffer of our own, unpacked at the end.
    Packed(Box<Unpack>),
}

/// A message that a matched probe took.
pub(super) struct Taken {
    message: Option<Message>,
    comm: CommId,
    roster: Rc<Roster>,
}

impl Mpi {
    /// Sends and waits until the buffer may be reused (or as `mode` says). What it gives is still to be waited for; not a
    /// [`Blocking`], whose status (always the empty one) would be copied through memory with each message.
    pub fn send(
        &mut self,
        comm: CommId,
        data: SendData,
        dest: Dest,
        mode: Mode,
    ) -> Result<Option<RequestId>> {
        let Some((to, envelope)) = self.address(comm, dest)? else { return Ok(None) };
        match self.outgoing(data)? {
            Outgoing::Flat(bytes) if mode != Mode::Buffered && self.running.is_empty() => {
                if let Some(id) = self.endpoint.begin_send(to, envelope, bytes, net_mode(mode))? {
                    self.await_message(id)?;
                }
                Ok(None)
            }
            outgoing => match self.start_noted(to, envelope, (data, outgoing), mode, Push::Now)? {
                None => Ok(None),
                Some((id, packed)) => match self.finish_send(comm, id, packed, Status::EMPTY)? {
                    Blocking::Done(_) => Ok(None),
                    Blocking::Pending(request) => Ok(Some(request)),
                },
            },
        }
    }

    /// Starts a send.
    pub fn isend(&mut self, comm: CommId, data: SendData, dest: Dest, mode: Mode) -> Result<RequestId> {
        self.isend_as(comm, data, dest, mode, Push::Soon)
    }

    /// Starts a send whose caller waits for it: what is complete is on its way.
    pub fn isend_now(&mut self, comm: CommId, data: SendData, dest: Dest, mode: Mode) -> Result<RequestId> {
        self.isend_as(comm, data, dest, mode, Push::Now)
    }

    #[inline(always)]
    fn isend_as(
        &mut self,
        comm: CommId,
        data: SendData,
        dest: Dest,
        mode: Mode,
        push: Push,
    ) -> Result<RequestId> {
        let Some((to, envelope)) = self.address(comm, dest)? else { return Ok(RequestId::SENT) };
        self.room_for_request()?;
        let outgoing = self.outgoing(data)?;
        Ok(match self.start_noted(to, envelope, (data, outgoing), mode, push)? {
            None if self.check.is_some() => {
                self.add_request(Request::new(comm, State::Complete(Status::EMPTY)))
            }
            None => RequestId::SENT,
            Some((id, packed)) => {
                self.add_request(Request::new(comm, State::sending(id, packed, Status::EMPTY)))
            }
        })
    }

    /// Receives. A truncated message is `Done` with the error in the status.
    pub fn recv(&mut self, comm: CommId, data: RecvData, source: Source) -> Result<Blocking> {
        let Some(pattern) = self.pattern(comm, source)? else {
            return Ok(Blocking::Done(Status::PROC_NULL));
        };
        match self.incoming(data)? {
            Incoming::Flat(bytes) => {
                if self.running.is_empty() {
                    self.endpoint.stay(true);
                    let id = self.endpoint.irecv(pattern, bytes);
                    let ended = self.await_message(id);
                    self.endpoint.stay(false);
                    let outcome = ended?;
                    return Ok(Blocking::Done(received(&self.endpoint, &self.comm(comm)?.roster, &outcome)));
                }
                let id = self.endpoint.irecv(pattern, bytes);
                let receiving = self.receiving(comm, id, None, data.ty)?;
                self.block_on(Request::new(comm, State::Recv(receiving)))
            }
            Incoming::Packed(mut unpack) => {
                let id = self.endpoint.irecv(pattern, unpack.room());
                let receiving = self.receiving(comm, id, Some(unpack), data.ty)?;
                self.block_on(Request::new(comm, State::Recv(receiving)))
            }
        }
    }

    /// Starts a receive.
    pub fn irecv(&mut self, comm: CommId, data: RecvData, source: Source) -> Result<RequestId> {
        self.room_for_request()?;
        let state = self.start_recv(comm, data, source)?;
        Ok(self.add_request(Request::new(comm, state)))
    }

    /// Prepares a send; [`Mpi::start_request`] starts it.
    pub fn send_init(&mut self, comm: CommId, data: SendData, dest: Dest, mode: Mode) -> Result<RequestId> {
        self.room_for_request()?;
        self.address(comm, dest)?;
        let recipe = Recipe::Send { data: self.checked(data)?, dest, mode };
        let roster = self.comm(comm)?.roster.clone();
        Ok(self.add_request(Request::persistent(comm, recipe, roster)))
    }

    /// Prepares a receive; [`Mpi::start_request`] starts it.
    pub fn recv_init(&mut self, comm: CommId, data: RecvData, source: Source) -> Result<RequestId> {
        self.room_for_request()?;
        self.pattern(comm, source)?;
        let recipe = Recipe::Recv { data: self.checked(data)?, source };
        let roster = self.comm(comm)?.roster.clone();
        Ok(self.add_request(Request::persistent(comm, recipe, roster)))
    }

    /// Sends and receives at the same time.
    pub fn sendrecv(
        &mut self,
        comm: CommId,
        send: (SendData, Dest),
        recv: (RecvData, Source),
    ) -> Result<Blocking> {
        let state = self.exchange(comm, send, recv, Push::Now)?;
        self.block_on(Request::new(comm, state))
    }

    /// Starts to send and to receive at the same time.
    pub fn isendrecv(
        &mut self,
        comm: CommId,
        send: (SendData, Dest),
        recv: (RecvData, Source),
    ) -> Result<RequestId> {
        self.room_for_request()?;
        let state = self.exchange(comm, send, recv, Push::Soon)?;
        Ok(self.add_request(Request::new(comm, state)))
    }

    /// As `sendrecv`, with one buffer.
    pub fn sendrecv_replace(
        &mut self,
        comm: CommId,
        data: RecvData,
        dest: Dest,
        source: Source,
    ) -> Result<Blocking> {
        let state = self.replace(comm, data, dest, source, Push::Now)?;
        self.block_on(Request::new(comm, state))
    }

    /// As `isendrecv`, with one buffer.
    pub fn isendrecv_replace(
        &mut self,
        comm: CommId,
        data: RecvData,
        dest: Dest,
        source: Source,
    ) -> Result<RequestId> {
        self.room_for_request()?;
        let state = self.replace(comm, data, dest, source, Push::Soon)?;
        Ok(self.add_request(Request::new(comm, state)))
    }

    fn exchange(
        &mut self,
        comm: CommId,
        (send, dest): (SendData, Dest),
        (recv, source): (RecvData, Source),
        push: Push,
    ) -> Result<State> {
        let to = self.address(comm, dest)?;
        let outgoing = self.outgoing(send)?;
        self.note_sent(send);
        self.both(comm, to.map(|to| (to, outgoing)), recv, source, push)
    }

    fn replace(
        &mut self,
        comm: CommId,
        data: RecvData,
        dest: Dest,
        source: Source,
        push: Push,
    ) -> Result<State> {
        let to = self.address(comm, dest)?;
        let Checked { buf, count, ty } = self.checked(data)?;
        // A copy even where the data is flat: the receive writes there at once.
        let outgoing = packed(buf.as_source(), count, &ty)?;
        self.note_sent(data);
        self.both(comm, to.map(|to| (to, outgoing)), data, source, push)
    }

    /// Starts to receive, and to send (unless to the null process).
    fn both(
        &mut self,
        comm: CommId,
        send: Option<((Process, Envelope), Outgoing)>,
        recv: RecvData,
        source: Source,
        push: Push,
    ) -> Result<State> {
        let state = self.start_recv(comm, recv, source)?;
        let Some(((to, envelope), outgoing)) = send else { return Ok(state) };
        let sent = match self.start_send(to, envelope, outgoing, Mode::Standard, push) {
            Ok(sent) => sent,
            Err(error) => {
                if let State::Recv(receiving) = &state {
                    withdraw(&mut self.endpoint, receiving.id);
                }
                return Err(error);
            }
        };
        Ok(match (state, sent) {
            (State::Recv(mut receiving), companion) => {
                receiving.set_companion(companion);
                State::Recv(receiving)
            }
            // The null process sends nothing: only the send is left to wait for.
            (State::Complete(status), Some((id, packed))) => State::sending(id, packed, status),
            (state, _) => state,
        })
    }

    /// Is there a message? Makes progress once if not.
    pub fn iprobe(&mut self, comm: CommId, source: Source) -> Result<Option<Status>> {
        let Some(pattern) = self.pattern(comm, source)? else { return Ok(Some(Status::PROC_NULL)) };
        let mut found = self.endpoint.iprobe(pattern)?;
        if found.is_none() {
            self.progress();
            found = self.endpoint.iprobe(pattern)?;
        }
        let roster = &self.comm(comm)?.roster;
        Ok(found.map(|probed| probed_status(&self.endpoint, roster, &probed)))
    }

    /// As `iprobe`, and takes the message.
    pub fn improbe(&mut self, comm: CommId, source: Source) -> Result<Option<(MessageId, Status)>> {
        let Some(pattern) = self.pattern(comm, source)? else {
            return Ok(Some((MessageId::NO_PROC, Status::PROC_NULL)));
        };
        let mut found = self.endpoint.improbe(pattern)?;
        if found.is_none() {
            self.progress();
            found = self.endpoint.improbe(pattern)?;
        }
        let Some((message, probed)) = found else { return Ok(None) };
        let roster = self.comm(comm)?.roster.clone();
        let status = probed_status(&self.endpoint, &roster, &probed);
        let id = self.messages.insert(Taken { message: Some(message), comm, roster });
        // Number 0 stands for the message of the null process.
        Ok(Some((MessageId(id + 1), status)))
    }

    /// Starts to receive a message that `improbe` took.
    pub fn imrecv(&mut self, message: MessageId, data: RecvData) -> Result<RequestId> {
        self.room_for_request()?;
        if message == MessageId::NO_PROC {
            return Ok(self.add_request(Request::detached(State::Complete(Status::PROC_NULL))));
        }
        self.message_comm(message)?;
        let incoming = self.incoming(data)?;
        let Some(taken) = self.messages.remove(message.0 - 1) else { return no_message(message) };
        let Some(inner) = taken.message else { return no_message(message) };
        let (id, unpack) = match incoming {
            Incoming::Flat(bytes) => (self.endpoint.imrecv(inner, bytes), None),
            Incoming::Packed(mut unpack) => (self.endpoint.imrecv(inner, unpack.room()), Some(unpack)),
        };
        let expects = self.expects(data.ty);
        let receiving = Receiving::new(id, taken.roster, unpack, expects);
        Ok(self.add_request(Request::new(taken.comm, State::Recv(receiving))))
    }

    /// The communicator on which the message was probed (for its error handler).
    pub fn message_comm(&self, message: MessageId) -> Result<CommId> {
        if message == MessageId::NO_PROC {
            return Ok(CommId::SELF);
        }
        match self.messages.get(message.0 - 1) {
            Some(taken) => Ok(taken.comm),
            None => no_message(message),
        }
    }

    /// Where a send goes; `None` for the null process.
    #[inline(always)]
    pub(super) fn address(&self, comm: CommId, dest: Dest) -> Result<Option<(Process, Envelope)>> {
        let roster = &self.comm(comm)?.roster;
        check_tag(dest.tag)?;
        destination(roster, dest)
    }

    /// What a receive accepts; `None` for the null process.
    #[inline(always)]
    pub(super) fn pattern(&self, comm: CommId, source: Source) -> Result<Option<Pattern>> {
        accepted(&self.comm(comm)?.roster, source)
    }

    #[inline(always)]
    fn outgoing(&self, data: SendData) -> Result<Outgoing> {
        outgoing(data.buf, element_count(data.count)?, self.committed(data.ty)?)
    }

    #[inline(always)]
    fn incoming(&self, data: RecvData) -> Result<Incoming> {
        incoming(data.buf, element_count(data.count)?, self.committed(data.ty)?)
    }

    /// As [`Mpi::start_send`], of this data.
    #[inline(always)]
    fn start_noted(
        &mut self,
        to: Process,
        envelope: Envelope,
        (data, outgoing): (SendData, Outgoing),
        mode: Mode,
        push: Push,
    ) -> Result<Option<Sending>> {
        self.note_sent(data);
        self.start_send(to, envelope, outgoing, mode, push)
    }

    /// Gives a send to the endpoint; `None` if it is complete.
    #[inline(always)]
    pub(super) fn start_send(
        &mut self,
        to: Process,
        envelope: Envelope,
        outgoing: Outgoing,
        mode: Mode,
        push: Push,
    ) -> Result<Option<Sending>> {
        if mode == Mode::Buffered {
            self.start_buffered(to, envelope, outgoing)?;
            return Ok(None);
        }
        Ok(match outgoing {
            Outgoing::Flat(bytes) => self.give(to, envelope, bytes, mode, push)?.map(|id| (id, None)),
            Outgoing::Packed(mut packed, len) => {
                let bytes = packed.part(len).as_source();
                self.give(to, envelope, bytes, mode, push)?.map(|id| (id, Some(packed)))
            }
        })
    }

    #[inline(always)]
    pub(super) fn give(
        &mut self,
        to: Process,
        envelope: Envelope,
        bytes: UserBuf,
        mode: Mode,
        push: Push,
    ) -> std::result::Result<Option<ReqId>, net::NetError> {
        if let Some(check) = &self.check {
            let marked = (push, check.take_mark());
            return self.endpoint.isend_marked(to, envelope, bytes, net_mode(mode), marked);
        }
        match push {
            Push::Soon => self.endpoint.isend(to, envelope, bytes, net_mode(mode)),
            Push::Now => self.endpoint.isend_now(to, envelope, bytes, net_mode(mode)),
        }
    }

    fn start_recv(&mut self, comm: CommId, data: RecvData, source: Source) -> Result<State> {
        let Some(pattern) = self.pattern(comm, source)? else {
            return Ok(State::Complete(Status::PROC_NULL));
        };
        let incoming = self.incoming(data)?;
        let roster = self.comm(comm)?.roster.clone();
        let expects = self.expects(data.ty);
        Ok(State::Recv(self.post(pattern, incoming, roster, expects)))
    }

    pub(super) fn post(
        &mut self,
        pattern: Pattern,
        incoming: Incoming,
        roster: Rc<Roster>,
        expects: Option<Box<Expects>>,
    ) -> Receiving {
        let (id, unpack) = match incoming {
            Incoming::Flat(bytes) => (self.endpoint.irecv(pattern, bytes), None),
            Incoming::Packed(mut unpack) => (self.endpoint.irecv(pattern, unpack.room()), Some(unpack)),
        };
        Receiving::new(id, roster, unpack, expects)
    }

    fn receiving(
        &self,
        comm: CommId,
        id: ReqId,
        unpack: Option<Box<Unpack>>,
        ty: TypeId,
    ) -> Result<Receiving> {
        let (roster, expects) = (self.comm(comm)?.roster.clone(), self.expects(ty));
        Ok(Receiving::new(id, roster, unpack, expects))
    }

    fn finish_send(
        &mut self,
        comm: CommId,
        id: ReqId,
        packed: Option<Scratch>,
        status: Status,
    ) -> Result<Blocking> {
        if self.running.is_empty() {
            self.await_message(id)?;
            return Ok(Blocking::Done(status));
        }
        self.block_on(Request::new(comm, State::sending(id, packed, status)))
    }
}

/// A count that is not negative.
#[inline(always)]
pub(super) fn element_count(count: i64) -> Result<usize> {
    if count < 0 {
        return fail_with(ErrorClass::Count, || format!("count {count} is negative"));
    }
    Ok(count as usize)
}

/// One of a list of counts, by rank.
pub(super) fn count_for(rank: usize, count: i64) -> Result<usize> {
    if count < 0 {
        return fail_with(ErrorClass::Count, || format!("count {count} for rank {rank} is negative"));
    }
    Ok(count as usize)
}

#[inline(always)]
pub(super) fn destination(roster: &Roster, dest: Dest) -> Result<Option<(Process, Envelope)>> {
    match dest.peer {
        Peer::Rank(rank) => {
            Ok(Some((roster.process(rank)?, Envelope { context: roster.context(), tag: dest.tag })))
        }
        Peer::Null => Ok(None),
        _ => fail_with(ErrorClass::Rank, || "a send needs one receiver".into()),
    }
}

#[inline(always)]
pub(super) fn accepted(roster: &Roster, source: Source) -> Result<Option<Pattern>> {
    let tag = match source.tag {
        Tag::Is(tag) => {
            check_tag(tag)?;
            Some(tag)
        }
        Tag::Any => None,
    };
    let source = match source.peer {
        Peer::Rank(rank) => Some(roster.process(rank)?),
        Peer::Any => None,
        Peer::Null => return Ok(None),
        Peer::Root => return fail_with(ErrorClass::Rank, || "a receive from the root".into()),
    };
    Ok(Some(Pattern { context: roster.context(), source, tag }))
}

#[inline(always)]
pub(super) fn outgoing(buf: SendBuf, count: usize, ty: &Rc<Datatype>) -> Result<Outgoing> {
    // Also for flat data: a length that overflows is an error.
    ty.bytes(count)?;
    ty.check_at(buf, count)?;
    match ty.flat(count) {
        Some((offset, bytes)) => Ok(Outgoing::Flat(buf.range(offset, bytes))),
        None => packed(buf, count, ty),
    }
}

#[inline(never)]
fn packed(buf: SendBuf, count: usize, ty: &Datatype) -> Result<Outgoing> {
    let bytes = ty.bytes(count)?;
    let mut packed = Scratch::with(bytes);
    ty.pack(buf, count, packed.part(bytes));
    Ok(Outgoing::Packed(packed, bytes))
}

#[inline(always)]
pub(super) fn incoming(buf: RecvBuf, count: usize, ty: &Rc<Datatype>) -> Result<Incoming> {
    let bytes = ty.bytes(count)?;
    ty.check_at(buf, count)?;
    Ok(match ty.flat(count) {
        Some((offset, bytes)) => Incoming::Flat(buf.range(offset, bytes)),
        None => Incoming::Packed(Box::new(Unpack::new(Checked { buf, count, ty: ty.clone() }, bytes))),
    })
}

#[inline]
fn net_mode(mode: Mode) -> SendMode {
    if mode == Mode::Synchronous { SendMode::Synchronous } else { SendMode::Standard }
}

/// The status of a receive.
#[inline(always)]
pub(super) fn received(endpoint: &Endpoint, roster: &Roster, outcome: &Outcome) -> Status {
    if outcome.cancelled {
        return Status { cancelled: true, ..Status::EMPTY };
    }
    Status {
        source: roster.rank_of(endpoint.process_of(outcome.source)),
        tag: Tag::Is(outcome.tag),
        error: if outcome.truncated { ErrorClass::Truncate } else { ErrorClass::Success },
        bytes: outcome.bytes,
        cancelled: false,
    }
}

fn probed_status(endpoint: &Endpoint, roster: &Roster, probed: &net::Probed) -> Status {
    Status {
        source: roster.rank_of(endpoint.process_of(probed.source)),
        tag: Tag::Is(probed.tag),
        bytes: probed.bytes,
        ..Status::EMPTY
    }
}

/// Takes a receive back: nothing writes to its buffer afterwards, which the program may free. One that has matched
/// comes to its end first.
#[cold]
pub(super) fn withdraw(endpoint: &mut net::Endpoint, receive: ReqId) {
    endpoint.cancel_recv(receive);
    // How it ended says nothing more: the operation has failed.
    let _ = endpoint.wait(receive);
}

#[cold]
fn no_message<T>(message: MessageId) -> Result<T> {
    fail(ErrorClass::Request, format!("there is no probed message {}", message.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::comm::Comm;
    use crate::core::members::Members;

    const THERE: Dest = Dest::new(Peer::Rank(1), 5);
    const HERE: Source = Source::new(Peer::Rank(0), Tag::Is(5));

    /// A process alone, with a communicator of which rank 1 is no process of the job: every send there fails.
    fn half_a_pair() -> (Mpi, CommId) {
        let mut mpi = Mpi::start().expect("a process alone");
        let members = Members::listed(vec![0, 9]);
        let me = mpi.me();
        let comm = CommId(mpi.comms.insert(Comm::new(members, me, 8, "half a pair")));
        (*mpi, comm)
    }

    fn bytes(scratch: &mut Scratch) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        scratch.part(8).as_source().copy_to(&mut bytes);
        bytes
    }

    /// A message that the receive would have taken stays where it is, and the receive's buffer as it was.
    fn nothing_is_posted(mpi: &mut Mpi, comm: CommId, room: &mut Scratch) {
        let mut mine = Scratch::with(8);
        mine.part(8).copy_from_slice(&[7; 8]);
        let (data, to) = (Data::new(mine.as_send(), 8, TypeId::BYTE), Dest::new(Peer::Rank(0), 5));
        let sent = mpi.send(comm, data, to, Mode::Standard).expect("a message to itself");
        assert_eq!(sent, None);
        assert_eq!(bytes(room), [0; 8], "a receive that was given up has received");
        assert!(mpi.iprobe(comm, HERE).expect("a probe").is_some());
    }

    #[test]
    fn a_send_that_cannot_start_takes_its_receive_back() {
        let (mut mpi, comm) = half_a_pair();
        let (mine, mut room) = (Scratch::with(8), Scratch::with(8));
        let (send, recv) =
            (Data::new(mine.as_send(), 8, TypeId::BYTE), Data::new(room.as_recv(), 8, TypeId::BYTE));
        let failed = mpi.sendrecv(comm, (send, THERE), (recv, HERE)).expect_err("rank 9 of 1");
        assert_eq!(failed.class, ErrorClass::Rank);
        let failed = mpi.sendrecv_replace(comm, recv, THERE, HERE).expect_err("rank 9 of 1");
        assert_eq!(failed.class, ErrorClass::Rank);
        nothing_is_posted(&mut mpi, comm, &mut room);
    }

    #[test]
    fn a_send_that_fails_later_takes_its_receive_back() {
        let (mut mpi, comm) = half_a_pair();
        let mut room = Scratch::with(8);
        let recv = Data::new(room.as_recv(), 8, TypeId::BYTE);
        let State::Recv(mut receiving) = mpi.start_recv(comm, recv, HERE).expect("a receive") else {
            panic!("a receive from itself waits")
        };
        // Any send that ends with an error will do: one that the endpoint no longer knows is the nearest.
        let pattern = Pattern { context: 99, source: None, tag: None };
        let gone = mpi.endpoint.irecv(pattern, Scratch::default().part(0));
        withdraw(&mut mpi.endpoint, gone);
        receiving.set_companion(Some((gone, None)));
        let request = mpi.add_request(Request::new(comm, State::Recv(receiving)));
        // Whoever looks first and takes later hears of it both times.
        let looked = mpi.peek(request).expect("it has ended").map(|status| status.error);
        assert_eq!(looked, Some(ErrorClass::Request));
        let taken = mpi.test(request).expect("it has ended").map(|status| status.error);
        assert_eq!(taken, Some(ErrorClass::Request));
        nothing_is_posted(&mut mpi, comm, &mut room);
    }

    #[test]
    fn too_many_requests_are_refused_before_anything_starts() {
        let mut mpi = Mpi::start().expect("a process alone");
        let (mine, mut room) = (Scratch::with(8), Scratch::with(8));
        let (send, recv) =
            (Data::new(mine.as_send(), 8, TypeId::BYTE), Data::new(room.as_recv(), 8, TypeId::BYTE));
        let nobody = Source::new(Peer::Any, Tag::Is(99));
        let held = mpi.irecv(CommId::WORLD, recv, nobody).expect("a receive");
        mpi.requests_max = mpi.requests.iter().count();
        let (to, comm) = (Dest::new(Peer::Rank(0), 5), CommId::WORLD);
        let refused = [
            mpi.irecv(comm, recv, HERE),
            mpi.isend(comm, send, to, Mode::Standard),
            mpi.isendrecv(comm, (send, to), (recv, HERE)),
            mpi.isendrecv_replace(comm, recv, to, HERE),
            mpi.send_init(comm, send, to, Mode::Standard),
            mpi.recv_init(comm, recv, HERE),
            mpi.psend_init(comm, send, 2, to),
            mpi.precv_init(comm, recv, 2, HERE),
            mpi.icollective(comm, Coll::Barrier),
            mpi.collective_init(comm, Coll::Barrier),
        ];
        for (place, refused) in refused.into_iter().enumerate() {
            assert_eq!(refused.expect_err("no room").class, ErrorClass::NoMem, "operation {place}");
        }
        assert_eq!(mpi.iprobe(comm, HERE).expect("a probe"), None, "something was sent");
        nothing_is_posted(&mut mpi, comm, &mut room);
        mpi.cancel(held).expect("a receive");
        assert!(mpi.test(held).expect("a receive").is_some());
        assert!(mpi.irecv(comm, recv, nobody).is_ok(), "there is room again");
    }

    #[test]
    fn a_receive_that_cannot_start_leaves_no_send_behind() {
        let mut mpi = Mpi::start().expect("a process alone");
        let mut memory = Scratch::with(8);
        let data = Data::new(memory.as_recv(), 8, TypeId::BYTE);
        let (to, nobody) = (Dest::new(Peer::Rank(0), 5), Source::new(Peer::Rank(4), Tag::Any));
        let failed = mpi.sendrecv_replace(CommId::WORLD, data, to, nobody).expect_err("rank 4 of 1");
        assert_eq!(failed.class, ErrorClass::Rank);
        assert_eq!(mpi.iprobe(CommId::WORLD, HERE).expect("a probe"), None);
    }
}
