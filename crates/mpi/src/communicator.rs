//! Communicators of the safe API: messages between two processes, and new communicators.
use crate::core::{
    CommId, Dest, Mode, Mpi, Peer, RequestId, Source as CoreSource, Status as CoreStatus, Synchronizing,
    Tag as CoreTag,
};
use crate::datum::{Datum, received, sent};
use crate::error::{ErrorClass, Result, fail};
use crate::universe::{Engine, no_job};
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
    /// Length in bytes.
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
        self.bytes / size_of::<T>()
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

    /// Its number in the engine, for a crate that brings an interface of its own to it; as are the three that follow.
    pub fn core_id(&self) -> CommId {
        self.inner.id
    }

    /// One call of the engine.
    pub fn core<T>(&self, call: impl FnOnce(&mut Mpi) -> Result<T>) -> Result<T> {
        self.engine().call(call)
    }

    /// Waits for a synchronization of a window.
    pub fn core_settle(&self, what: Synchronizing) -> Result<()> {
        self.engine().settle(what)
    }

    /// Waits for a request whose operation combines nothing with a function of the program.
    pub fn core_wait(&self, request: RequestId) -> Result<CoreStatus> {
        self.engine().wait(request, no_job)
    }

    /// Waits until something holds that may come about with no message at all.
    pub fn core_watch(&self, ready: impl FnMut(&mut Mpi) -> Result<bool>) -> Result<()> {
        self.engine().watch(ready)
    }

    /// Did the last operation of this process fail, so that others may wait for it in vain?
    pub fn has_failed(&self) -> bool {
        self.engine().has_failed()
    }

    /// Sends elements; returns when the slice may be reused.
    pub fn send<T: Datum>(&self, data: &[T], to: usize, tag: i32) -> Result<()> {
        self.send_as(data, to, tag, Mode::Standard)
    }

    /// Sends elements; returns when the receiver has begun to receive them.
    pub fn ssend<T: Datum>(&self, data: &[T], to: usize, tag: i32) -> Result<()> {
        self.send_as(data, to, tag, Mode::Synchronous)
    }

    fn send_as<T: Datum>(&self, data: &[T], to: usize, tag: i32, mode: Mode) -> Result<()> {
        let dest = Dest::new(peer(to), tag);
        match self.engine().call(|mpi| mpi.send(self.id(), sent(data), dest, mode))? {
            None => Ok(()),
            Some(request) => self.engine().wait(request, no_job).map(|_| ()),
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
        let source = source(from, tag);
        let mut backoff = net::Backoff::default();
        loop {
            let taken = self.engine().call(|mpi| mpi.improbe(self.id(), source))?;
            let Some((message, status)) = taken else {
                self.engine().mpi.borrow_mut().pause(&mut backoff);
                continue;
            };
            if !status.bytes.is_multiple_of(size_of::<T>()) {
                let text = format!("{} bytes are not whole elements of {}", status.bytes, size_of::<T>());
                return self.engine().note(fail(ErrorClass::Type, text));
            }
            let mut data = vec![T::default(); status.bytes / size_of::<T>()];
            let room = received(&mut data);
            let request = self.engine().call(|mpi| mpi.imrecv(message, room))?;
            let status = self.engine().wait(request, no_job)?.checked()?;
            return Ok((data, Status::new(&status)));
        }
    }

    /// Receives into a slice. A message that is longer is an error; one that is shorter leaves the rest.
    pub fn recv_into<T: Datum>(
        &self,
        data: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let source = source(from, tag);
        let status = self.engine().block(|mpi| mpi.recv(self.id(), received(data), source), no_job)?;
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
        let call = |mpi: &mut Mpi| mpi.sendrecv(id, (sent(data), dest), (received(into), source));
        let status = self.engine().block(call, no_job)?;
        Ok(Status::new(&status))
    }

    /// Waits for a message and says what it is, without receiving it.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let source = source(from, tag);
        let mut backoff = net::Backoff::default();
        loop {
            if let Some(status) = self.engine().call(|mpi| mpi.iprobe(self.id(), source))? {
                return Ok(Status::new(&status));
            }
            self.engine().mpi.borrow_mut().pause(&mut backoff);
        }
    }

    /// Is there a message?
    pub fn iprobe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let source = source(from, tag);
        let found = self.engine().call(|mpi| mpi.iprobe(self.id(), source))?;
        Ok(found.map(|status| Status::new(&status)))
    }

    /// Collective: the same processes, apart from this communicator's messages.
    pub fn dup(&self) -> Result<Communicator> {
        let id = self.engine().call(|mpi| mpi.comm_dup(self.id()))?;
        Communicator::new(self.inner.engine.clone(), id)
    }

    /// Collective: one communicator for each color, ordered by key (then by rank). `None` takes part in none.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        let color = match color.map(i32::try_from) {
            None => None,
            Some(Ok(color)) => Some(color),
            Some(Err(_)) => {
                let error = fail(ErrorClass::Arg, format!("color {color:?} is above 2^31 - 1"));
                return self.engine().note(error);
            }
        };
        let id = self.engine().call(|mpi| mpi.comm_split(self.id(), color, key))?;
        id.map(|id| Communicator::new(self.inner.engine.clone(), id)).transpose()
    }

    /// Collective: one communicator for each node.
    pub fn split_by_node(&self) -> Result<Communicator> {
        let id = self.engine().call(|mpi| mpi.comm_split_shared(self.id(), true, self.rank() as i32))?;
        match id {
            Some(id) => Communicator::new(self.inner.engine.clone(), id),
            None => fail(ErrorClass::Intern, "every process has a node"),
        }
    }
}
