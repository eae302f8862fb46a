//! Communicators of the safe API: messages between two processes, and new communicators.
use crate::buffer::zeros;
use crate::core::{
    CommId, Dest, Focus, Meanwhile, MessageId, Mode, Mpi, Peer, RequestId, Source as CoreSource,
    Status as CoreStatus, Synchronizing, Tag as CoreTag,
};
use crate::datum::Datum;
use crate::error::{ErrorClass, Result, fail};
use crate::universe::{Engine, Here, On, no_job};
use std::rc::Rc;

/// Accepts any sender or any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// Whom a receive accepts: a rank, or [`Any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(pub(crate) Peer);

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Source(peer(rank))
    }
}

impl From<Any> for Source {
    fn from(_: Any) -> Self {
        Source(Peer::Any)
    }
}

/// Which tag a receive accepts: a number, or [`Any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub(crate) CoreTag);

impl From<i32> for Tag {
    fn from(tag: i32) -> Self {
        Tag(CoreTag::Is(tag))
    }
}

impl From<Any> for Tag {
    fn from(_: Any) -> Self {
        Tag(CoreTag::Any)
    }
}

/// What errors call the calls of other crates on the engine.
const CORE: &str = "a call";

/// A rank as the engine takes it; one that is too large stays invalid.
pub(crate) fn peer(rank: usize) -> Peer {
    Peer::Rank(i32::try_from(rank).unwrap_or(i32::MAX))
}

/// What a receive accepts, as the engine takes it.
pub(crate) fn source(from: impl Into<Source>, tag: impl Into<Tag>) -> CoreSource {
    CoreSource::new(from.into().0, tag.into().0)
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender.
    pub source: usize,
    /// Its tag.
    pub tag: i32,
    /// Length in bytes, without the padding of structs.
    pub bytes: usize,
}

impl Status {
    pub(crate) fn new(status: &CoreStatus) -> Self {
        let source = if let Peer::Rank(rank) = status.source { rank as usize } else { usize::MAX };
        let tag = if let CoreTag::Is(tag) = status.tag { tag } else { -1 };
        Status { source, tag, bytes: status.bytes }
    }

    /// Whole elements of a type.
    pub fn count<T: Datum>(&self) -> usize {
        self.bytes.checked_div(T::SHAPE.bytes()).unwrap_or(0)
    }
}

/// A group of processes that communicate apart from others. Cheap to clone; freed with the last clone.
#[derive(Clone)]
pub struct Communicator {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Rc<Engine>,
    pub(crate) id: CommId,
    rank: usize,
    size: usize,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.id != CommId::WORLD && self.id != CommId::SELF {
            // Being dropped in the middle of an engine call can only be an unwinding panic, which ends the job.
            if let Ok(mut mpi) = self.engine.mpi.try_borrow_mut() {
                // The way to the parents is the engine's own, and is asked for as often as somebody likes.
                if mpi.parent() == Some(self.id) {
                    return;
                }
                let freed = mpi.comm_free(self.id);
                debug_assert!(freed.is_ok());
            }
        }
    }
}

impl Communicator {
    pub(crate) fn predefined(engine: Rc<Engine>, id: CommId) -> Self {
        Communicator::new(engine, id).expect("predefined communicators exist")
    }

    pub(crate) fn new(engine: Rc<Engine>, id: CommId) -> Result<Self> {
        let (rank, size) = {
            let mpi = engine.mpi.borrow();
            (mpi.comm_rank(id)? as usize, mpi.comm_size(id)? as usize)
        };
        Ok(Communicator { inner: Rc::new(Inner { engine, id, rank, size }) })
    }

    /// This process's number in the communicator.
    pub fn rank(&self) -> usize {
        self.inner.rank
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.inner.size
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn id(&self) -> CommId {
        self.inner.id
    }

    /// A call on this communicator, for its errors.
    pub(crate) fn here(&self, call: &'static str) -> Here {
        Here { call, on: On::Comm(self.inner.id) }
    }

    /// Its number in the engine, for a crate of Banyan that brings an interface of its own to it; as are the four that follow.
    ///
    /// They reach the engine past the safe API, so they are as safe as who calls them: what it has made itself (requests,
    /// windows, communicators) it may use and free; what the safe API has made, and is behind a value of the program, it only
    /// uses. A request that a scope waits for must not be freed or waited for elsewhere, nor a window freed that a
    /// [`Window`](crate::Window) stands for.
    #[doc(hidden)]
    pub fn core_id(&self) -> CommId {
        self.inner.id
    }

    /// One call of the engine, under the contract at [`Communicator::core_id`].
    #[doc(hidden)]
    pub fn core<T>(&self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T> {
        self.engine().call(self.here(CORE), call)
    }

    /// Waits for a synchronization of a window.
    #[doc(hidden)]
    pub fn core_settle(&self, what: Synchronizing) -> Result<()> {
        self.engine().settle(self.here(CORE), what)
    }

    /// Waits for a request whose operation combines nothing with a function of the program.
    #[doc(hidden)]
    pub fn core_wait(&self, request: RequestId) -> Result<CoreStatus> {
        self.engine().wait(self.here(CORE), request, no_job)
    }

    /// Waits until something holds that may come about with no message at all.
    #[doc(hidden)]
    pub fn core_watch(&self, ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()> {
        self.engine().watch(self.here(CORE), ready)
    }

    /// Did the last operation of this process fail, so that others may wait for it without end?
    pub fn has_failed(&self) -> bool {
        self.engine().has_failed()
    }

    /// Sends elements; returns when the slice may be reused.
    pub fn send<T: Datum>(&self, data: &[T], to: usize, tag: i32) -> Result<()> {
        self.send_as("send", data, Dest::new(peer(to), tag), Mode::Standard)
    }

    /// Sends elements; returns when the receiver has begun to receive them.
    pub fn ssend<T: Datum>(&self, data: &[T], to: usize, tag: i32) -> Result<()> {
        self.send_as("ssend", data, Dest::new(peer(to), tag), Mode::Synchronous)
    }

    fn send_as<T: Datum>(&self, call: &'static str, data: &[T], dest: Dest, mode: Mode) -> Result<()> {
        let (here, engine) = (self.here(call), self.engine());
        let data = engine.sent(data)?;
        match engine.call(here, |mpi| mpi.send(self.id(), data, dest, mode))? {
            None => Ok(()),
            Some(request) => engine.wait(here, request, no_job).map(|_| ()),
        }
    }

    /// Receives a message of any length.
    ///
    /// ```no_run
    /// # let world = mpi::init()?.world();
    /// let (words, status) = world.recv::<u64>(mpi::Any, 7)?;
    /// println!("{} words from {}", words.len(), status.source);
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn recv<T: Datum>(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<(Vec<T>, Status)> {
        let (here, engine, source) = (self.here("recv"), self.engine(), source(from, tag));
        let (mut backoff, element) = (net::Backoff::default(), T::SHAPE.bytes());
        let (message, status) = loop {
            match engine.call(here, |mpi| self.take_whole(mpi, source, element))? {
                Some(taken) => break taken,
                None => engine.idle(&mut backoff, Focus::Probe(self.id(), source)),
            }
        };
        let bytes = status.bytes;
        let mut data = zeros(bytes.checked_div(element).unwrap_or(0));
        let room = engine.received(&mut data)?;
        let request = engine.call(here, |mpi| mpi.imrecv(message, room))?;
        let status = engine.wait(here, request, no_job).and_then(CoreStatus::checked);
        Ok((data, Status::new(&engine.note(here, status)?)))
    }

    /// Takes a message of whole elements. Another one stays where it is, for a receive that fits it.
    fn take_whole(
        &self,
        mpi: &mut Mpi,
        source: CoreSource,
        element: usize,
    ) -> Result<Option<(MessageId, CoreStatus)>> {
        let Some(CoreStatus { bytes, .. }) = mpi.iprobe(self.id(), source)? else { return Ok(None) };
        if !bytes.is_multiple_of(element) {
            return fail(ErrorClass::Type, format!("{bytes} bytes are not whole elements of {element}"));
        }
        mpi.improbe(self.id(), source)
    }

    /// Receives into a slice. A message that is longer is an error; one that is shorter leaves the rest.
    pub fn recv_into<T: Datum>(
        &self,
        data: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (here, source, room) = (self.here("recv_into"), source(from, tag), self.engine().received(data)?);
        let status = self.engine().block(here, |mpi| mpi.recv(self.id(), room, source), no_job)?;
        Ok(Status::new(&status))
    }

    /// Sends one slice and receives another at the same time, with one tag.
    pub fn sendrecv<T: Datum, U: Datum>(
        &self,
        data: &[T],
        to: usize,
        into: &mut [U],
        from: impl Into<Source>,
        tag: i32,
    ) -> Result<Status> {
        let (id, dest, source) = (self.id(), Dest::new(peer(to), tag), source(from, tag));
        let (data, room) = (self.engine().sent(data)?, self.engine().received(into)?);
        let call = |mpi: &mut Mpi| mpi.sendrecv(id, (data, dest), (room, source));
        let status = self.engine().block(self.here("sendrecv"), call, no_job)?;
        Ok(Status::new(&status))
    }

    /// Waits for a message and says what it is, without receiving it.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let source = source(from, tag);
        let mut backoff = net::Backoff::default();
        loop {
            if let Some(status) =
                self.engine().call(self.here("probe"), |mpi| mpi.iprobe(self.id(), source))?
            {
                return Ok(Status::new(&status));
            }
            self.engine().idle(&mut backoff, Focus::Probe(self.id(), source));
        }
    }

    /// Is there a message?
    pub fn iprobe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let source = source(from, tag);
        let found = self.engine().call(self.here("iprobe"), |mpi| {
            let found = mpi.iprobe(self.id(), source)?;
            if found.is_none() {
                mpi.say_looking(Focus::Probe(self.id(), source));
            }
            Ok(found)
        })?;
        Ok(found.map(|status| Status::new(&status)))
    }

    /// Collective: the same processes, apart from this communicator's messages.
    pub fn dup(&self) -> Result<Communicator> {
        let made = self.make("dup", "MPI_Comm_dup", |mpi| mpi.start_dup(self.id(), Meanwhile::Waits))?;
        self.in_it("dup", made)
    }

    /// Collective: one communicator for each color, ordered by key (then by rank). `None` takes part in none.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        let color = match color.map(i32::try_from) {
            None => None,
            Some(Ok(color)) => Some(color),
            Some(Err(_)) => {
                let error = fail(ErrorClass::Arg, format!("color {color:?} is above 2^31 - 1"));
                return self.engine().note(self.here("split"), error);
            }
        };
        self.make("split", "MPI_Comm_split", |mpi| mpi.start_split(self.id(), color, key))
    }

    /// Collective: one communicator for each node.
    pub fn split_by_node(&self) -> Result<Communicator> {
        let key = self.rank() as i32;
        let start = |mpi: &mut Mpi| mpi.start_split_shared(self.id(), true, key);
        let made = self.make("split_by_node", "MPI_Comm_split_type", start)?;
        self.in_it("split_by_node", made)
    }

    /// Every process is in what was made.
    pub(crate) fn in_it(&self, call: &'static str, made: Option<Communicator>) -> Result<Communicator> {
        let missing = || fail(ErrorClass::Intern, "this process is not in the new communicator");
        made.map_or_else(|| self.engine().note(self.here(call), missing()), Ok)
    }
}
