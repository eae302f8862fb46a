//! Memory of this process that peers reach, and memory of peers.
//!
//! Registering takes longer than sending, so registrations are [kept](super::cache) where the system says when memory goes away
//! ([`Watch`]): of private memory without a file, whose pages stay those that the device was told of for as long as they are
//! neither unmapped nor given back, as a device keeps pages where they are, and where the kernel copies them for children that
//! are forked. What cannot be watched is registered for each transfer.
use super::cache::{Cache, KEPT_MAX};
use super::post::Pending;
use super::*;
use crate::provider::{AtomicOp, AtomicPosted, Posted, RdmaError};
use crate::qp::RemoteMemory;
use sys::UserBufMut;
use sys::watch::{Watch, Watched};
use verbs::{Local, Mr, Remote};

/// Pieces of a transfer that is longer than the device's messages which are under way at a time.
const PIECES: u32 = 4;

/// Registered memory of the program.
#[derive(Debug)]
pub(super) struct Regions {
    kept: Keeping,
    /// What peers may reach, by its key, and how often that was asked for.
    exposed: HashMap<u32, (Rc<Mr>, u32)>,
    /// Registrations that were made, and those that were kept from before.
    pub made: u64,
    pub found: u64,
    /// Why the last one was refused.
    pub refused: Option<VerbsError>,
}

/// Are registrations kept?
#[derive(Debug)]
enum Keeping {
    /// Not yet: nothing was registered. So many bytes may be.
    Unused(u64),
    Kept(Watch, Cache<Mr, Watched>),
    /// They are not wanted, or memory cannot be watched.
    Never,
}

impl Regions {
    /// Keeps up to so many bytes registered that nobody uses.
    pub(super) fn new(kept_bytes: u64) -> Self {
        let kept = if kept_bytes == 0 { Keeping::Never } else { Keeping::Unused(kept_bytes) };
        Regions { kept, exposed: HashMap::new(), made: 0, found: 0, refused: None }
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        match &self.kept {
            Keeping::Kept(_, cache) => cache.bytes(),
            Keeping::Unused(_) | Keeping::Never => 0,
        }
    }

    /// Memory that cannot be written is for reading only.
    pub(super) fn register(&mut self, pd: &Rc<Pd>, buf: UserBuf) -> Option<MrKey> {
        let mr = match self.get(pd, &buf, all()) {
            Ok(mr) => mr,
            Err(_) => self.get_new(pd, &buf, Access::REMOTE_READ).ok()?,
        };
        let key = mr.remote_key();
        self.exposed.entry(key).or_insert((mr, 0)).1 += 1;
        Some(MrKey(key))
    }

    pub(super) fn deregister(&mut self, key: MrKey) {
        if let Some((_, count)) = self.exposed.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.exposed.remove(&key.0);
            }
        }
    }

    /// The registration of a range, for a while.
    fn get(&mut self, pd: &Rc<Pd>, buf: &UserBuf, access: Access) -> Result<Rc<Mr>, VerbsError> {
        if let Keeping::Unused(most) = self.kept {
            self.kept = match Watch::new(KEPT_MAX) {
                Ok(watch) => Keeping::Kept(watch, Cache::new(most)),
                Err(_) => Keeping::Never,
            };
        }
        match self.get_kept(pd, buf) {
            Some(mr) => Ok(mr),
            None => self.get_new(pd, buf, access),
        }
    }

    /// One that is kept, now or from before.
    fn get_kept(&mut self, pd: &Rc<Pd>, buf: &UserBuf) -> Option<Rc<Mr>> {
        let Keeping::Kept(watch, cache) = &mut self.kept else { return None };
        let (start, end) = (buf.addr(), buf.addr().checked_add(buf.len() as u64)?);
        let mut gone = Vec::new();
        let found = cache.find(start, end, |watched| watch.is_intact(watched), |watched| gone.push(watched));
        gone.into_iter().for_each(|watched| watch.remove(watched));
        if found.is_some() {
            self.found += 1;
            return found;
        }
        if !cache.fits(end - start) || !cache.make_place(&mut |watched| watch.remove(watched)) {
            return None;
        }
        let watched = watch.add(buf.addr(), buf.len())?;
        let mut mr = pd.register(buf, all());
        // Others may take the room; and what nobody uses makes some.
        if mr.is_err() && cache.clear(&mut |watched| watch.remove(watched)) {
            mr = pd.register(buf, all());
        }
        match mr {
            Ok(mr) if watch.is_intact(&watched) => {
                self.made += 1;
                let mr = Rc::new(mr);
                cache.keep(start, end, mr.clone(), watched, &mut |watched| watch.remove(watched));
                Some(mr)
            }
            _ => {
                watch.remove(watched);
                None
            }
        }
    }

    /// One for this time only.
    fn get_new(&mut self, pd: &Rc<Pd>, buf: &UserBuf, access: Access) -> Result<Rc<Mr>, VerbsError> {
        let mut mr = pd.register(buf, access);
        if let (true, Keeping::Kept(watch, cache)) = (mr.is_err(), &mut self.kept)
            && cache.clear(&mut |watched| watch.remove(watched))
        {
            mr = pd.register(buf, access);
        }
        match mr {
            Ok(mr) => {
                self.made += 1;
                Ok(Rc::new(mr))
            }
            Err(error) => {
                let again = VerbsError { call: error.call, error: copy_of(&error.error) };
                self.refused = Some(error);
                Err(again)
            }
        }
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0))
}

/// What memory that is kept may be used for.
fn all() -> Access {
    Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC
}

/// A read, write or atomic that is under way.
#[derive(Debug)]
pub(super) struct Transfer {
    work: WorkId,
    link: u32,
    what: What,
    /// Pieces that the device has, and whether one of them failed.
    working: u32,
    failed: Option<WorkError>,
}

#[derive(Debug)]
enum What {
    /// Between this side's memory and a peer's, of which `posted` bytes have been asked for.
    Copy { mr: Rc<Mr>, here: u64, there: RemoteMemory, bytes: usize, posted: usize, reads: bool },
    /// The old value of a word comes into a slot.
    Word(super::slots::At),
}

impl Rdma {
    /// Bytes that are read or written at once, at most; longer transfers are cut.
    pub fn transfer_max(&self) -> usize {
        self.transfer_max
    }

    /// Registrations that were made, and those that were still there from an earlier transfer.
    pub fn registrations(&self) -> (u64, u64) {
        (self.regions.made, self.regions.found)
    }

    /// Why memory was not registered, if that has happened since the last question.
    pub fn take_refusal(&mut self) -> Option<String> {
        let error = self.regions.refused.take()?;
        Some(OpenError::Refused { device: self.device(), error }.to_string())
    }

    /// Reads the peer's memory into `to`.
    pub fn rdma_read(&mut self, qp: Qp, to: UserBufMut, from: RemoteMemory) -> Result<Posted, RdmaError> {
        self.copy(qp, to.as_source(), from, true)
    }

    /// Writes `from` into the peer's memory.
    pub fn rdma_write(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<Posted, RdmaError> {
        self.copy(qp, from, to, false)
    }

    fn copy(&mut self, qp: Qp, buf: UserBuf, there: RemoteMemory, reads: bool) -> Result<Posted, RdmaError> {
        self.room(qp)?;
        if buf.is_empty() {
            return Ok(Posted::Done);
        }
        let (here, bytes) = (buf.addr(), buf.len());
        let access = if reads { Access::LOCAL_WRITE } else { Access::READ };
        let mr = match self.regions.get(&self.pd, &buf, access) {
            Ok(mr) => mr,
            // What is under way gives memory back when it ends.
            Err(_) if self.transfers.len() > 0 => return Err(RdmaError::Full),
            Err(error) => return Err(RdmaError::Io(error.error)),
        };
        self.start(qp, What::Copy { mr, here, there, bytes, posted: 0, reads }).map(Posted::Later)
    }

    /// Changes a double word of the peer's memory.
    pub fn rdma_atomic(&mut self, qp: Qp, op: AtomicOp, at: RemoteMemory) -> Result<AtomicPosted, RdmaError> {
        self.room(qp)?;
        if !self.atomics || !at.addr.is_multiple_of(8) {
            return Err(RdmaError::Atomic);
        }
        let slot = self.outbox.take(&self.pd).map_err(|error| RdmaError::Io(error.error))?;
        let slot = slot.ok_or(RdmaError::Full)?;
        let into = self.outbox.arena(slot).local(slot.1, 8);
        let operation = match op {
            AtomicOp::Add(add) => Operation::FetchAdd { into: &into, at: remote(at), add },
            AtomicOp::Swap { expected, new } => {
                Operation::CompareSwap { into: &into, at: remote(at), expected, new }
            }
        };
        let (index, work) = self.new_transfer(qp, What::Word(slot));
        if self.post_part(index, operation) {
            return Ok(AtomicPosted::Later(work));
        }
        self.transfers.remove(index);
        self.outbox.give_back(slot);
        Err(RdmaError::Full)
    }

    fn room(&mut self, qp: Qp) -> Result<(), RdmaError> {
        let link = self.links.get(qp.index(), qp.generation()).ok_or(RdmaError::State)?;
        match link.state {
            QpState::ReadyToSend | QpState::SendDrained
                if link.meeting.open && link.has_work_left() && self.has_completions_left() =>
            {
                Ok(())
            }
            QpState::ReadyToSend | QpState::SendDrained => {
                self.ask_if_later(qp.index() as u32);
                Err(RdmaError::Full)
            }
            _ => Err(RdmaError::State),
        }
    }

    fn start(&mut self, qp: Qp, what: What) -> Result<WorkId, RdmaError> {
        let (index, work) = self.new_transfer(qp, what);
        self.post_pieces(index);
        if self.transfers.at(index).is_some_and(|transfer| transfer.working == 0) {
            self.transfers.remove(index);
            return Err(RdmaError::Full);
        }
        Ok(work)
    }

    fn new_transfer(&mut self, qp: Qp, what: What) -> (u32, WorkId) {
        let work = self.works.take();
        let transfer = Transfer { work, link: qp.index() as u32, what, working: 0, failed: None };
        (self.transfers.insert(transfer).0, work)
    }

    /// Posts what is left of a transfer, as far as that goes now.
    fn post_pieces(&mut self, index: u32) {
        let most = self.transfer_max();
        while let Some(transfer) = self.transfers.at_mut(index)
            && transfer.working < PIECES
            && let What::Copy { mr, here, there, bytes, posted, reads } = &mut transfer.what
            && *posted < *bytes
        {
            let (offset, len) = (*posted as u64, (*bytes - *posted).min(most));
            let part: [Local; 1] = [mr.local(*here + offset, len)];
            let at = Remote { addr: there.addr.wrapping_add(offset), key: there.key.0 };
            let operation = match *reads {
                true => Operation::Read { into: &part, from: at },
                false => Operation::Write { from: &part, to: at },
            };
            *posted += len;
            if !self.post_part(index, operation) {
                // It is tried again behind the pieces that are under way.
                if let Some(What::Copy { posted, .. }) = self.transfers.at_mut(index).map(|it| &mut it.what) {
                    *posted -= len;
                }
                return;
            }
        }
    }

    /// Posts a piece of a transfer. `false`: the device has no room for it.
    fn post_part(&mut self, index: u32, operation: Operation<'_>) -> bool {
        let Some(transfer) = self.transfers.at_mut(index) else { return false };
        let link = transfer.link;
        let via = self.links.at(link).map_or(0, Link::via);
        let id = self.insert(Pending::Transfer { link, via, index });
        let posted = match self.links.at_mut(link) {
            Some(link) if link.has_work_left() && link.post(id, operation).is_ok() => {
                link.begins();
                true
            }
            _ => false,
        };
        match self.transfers.at_mut(index) {
            Some(transfer) if posted => transfer.working += 1,
            _ => drop(self.pending.remove(id as u32)),
        }
        posted
    }

    /// A connection goes whose transfers are still under way: they fail when they end.
    pub(super) fn leave_transfers(&mut self, of: u32) {
        let is_its = |(index, transfer): (u32, &Transfer)| (transfer.link == of).then_some(index);
        for index in self.transfers.iter().filter_map(is_its).collect::<Vec<u32>>() {
            if let Some(transfer) = self.transfers.at_mut(index) {
                (transfer.link, transfer.failed) = (u32::MAX, transfer.failed.or(Some(WorkError::Broken)));
            }
        }
    }

    /// A piece has ended: the transfer goes on, or ends.
    pub(super) fn end_part(&mut self, index: u32, failed: Option<WorkError>) {
        let Some(transfer) = self.transfers.at_mut(index) else { return };
        transfer.working -= 1;
        transfer.failed = transfer.failed.or(failed);
        if transfer.failed.is_none() {
            self.post_pieces(index);
        }
        let Some(transfer) = self.transfers.at(index) else { return };
        if transfer.working > 0 {
            return;
        }
        let Some(transfer) = self.transfers.remove(index) else { return };
        let (mut old, mut failed) = ([0; 8], transfer.failed);
        match transfer.what {
            What::Word(slot) => {
                self.outbox.arena(slot).read(slot.1, 0, &mut old);
                self.outbox.give_back(slot);
            }
            // The device takes no more pieces of it: its queue pair is broken.
            What::Copy { bytes, posted, .. } if posted < bytes => failed = failed.or(Some(WorkError::Broken)),
            What::Copy { .. } => {}
        }
        let result = failed.map_or(Ok(u64::from_le_bytes(old)), Err);
        self.notes.push_back(Note::Done(transfer.work, result));
    }
}

/// What has become of work that failed.
pub(super) fn error_of(failed: &Failed) -> WorkError {
    if failed.was_refused() { WorkError::Key } else { WorkError::Broken }
}

fn remote(at: RemoteMemory) -> Remote {
    Remote { addr: at.addr, key: at.key.0 }
}
