//! Memory of this process that peers reach, and memory of peers.
use super::post::Pending;
use super::*;
use crate::provider::{AtomicOp, AtomicPosted, Posted, RdmaError};
use crate::qp::RemoteMemory;
use sys::UserBufMut;
use verbs::{Mr, Remote};

/// What peers may reach, by its key.
#[derive(Debug, Default)]
pub(super) struct Regions(HashMap<u32, Mr>);

impl Regions {
    /// Memory that cannot be written is for reading only.
    pub(super) fn register(&mut self, pd: &Rc<Pd>, buf: UserBuf) -> Option<MrKey> {
        let all = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let mr = pd.register(&buf, all).or_else(|_| pd.register(&buf, Access::REMOTE_READ)).ok()?;
        let key = mr.remote_key();
        self.0.insert(key, mr);
        Some(MrKey(key))
    }

    pub(super) fn deregister(&mut self, key: MrKey) {
        self.0.remove(&key.0);
    }
}

/// A read, write or atomic that is under way.
#[derive(Debug)]
pub(super) struct Transfer {
    work: WorkId,
    keeps: Keeps,
}

#[derive(Debug)]
enum Keeps {
    /// The registration of this side's memory.
    Region(#[allow(dead_code)] Mr),
    /// A slot, into which the old value comes.
    Slot((usize, usize)),
}

impl Rdma {
    /// Bytes that are read or written at once, at most.
    pub fn transfer_max(&self) -> usize {
        self.port.message_max as usize
    }

    /// Reads the peer's memory into `to`.
    pub fn rdma_read(&mut self, qp: Qp, to: UserBufMut, from: RemoteMemory) -> Result<Posted, RdmaError> {
        self.room(qp)?;
        if to.is_empty() {
            return Ok(Posted::Done);
        }
        let mr =
            self.pd.register_mut(&to, Access::LOCAL_WRITE).map_err(|error| RdmaError::Io(error.error))?;
        let part = [mr.local(to.addr(), to.len())];
        let operation = Operation::Read { into: &part, from: remote(from) };
        Ok(Posted::Later(self.start(qp, Keeps::Region(mr), operation)?))
    }

    /// Writes `from` into the peer's memory.
    pub fn rdma_write(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<Posted, RdmaError> {
        self.room(qp)?;
        if from.is_empty() {
            return Ok(Posted::Done);
        }
        let mr = self.pd.register(&from, Access::READ).map_err(|error| RdmaError::Io(error.error))?;
        let part = [mr.local(from.addr(), from.len())];
        let operation = Operation::Write { from: &part, to: remote(to) };
        Ok(Posted::Later(self.start(qp, Keeps::Region(mr), operation)?))
    }

    /// Changes a double word of the peer's memory.
    pub fn rdma_atomic(&mut self, qp: Qp, op: AtomicOp, at: RemoteMemory) -> Result<AtomicPosted, RdmaError> {
        self.room(qp)?;
        if !at.addr.is_multiple_of(8) {
            return Err(RdmaError::Atomic);
        }
        let slot = self.outbox.take(&self.pd).ok_or(RdmaError::Full)?;
        let into = self.outbox.arena(slot).local(slot.1, 8);
        let operation = match op {
            AtomicOp::Add(add) => Operation::FetchAdd { into: &into, at: remote(at), add },
            AtomicOp::Swap { expected, new } => {
                Operation::CompareSwap { into: &into, at: remote(at), expected, new }
            }
        };
        match self.start(qp, Keeps::Slot(slot), operation) {
            Ok(work) => Ok(AtomicPosted::Later(work)),
            Err(error) => {
                self.outbox.give_back(slot);
                Err(error)
            }
        }
    }

    fn room(&mut self, qp: Qp) -> Result<(), RdmaError> {
        let link = self.links.get(qp.index(), qp.generation()).ok_or(RdmaError::State)?;
        match link.state {
            QpState::ReadyToSend | QpState::SendDrained if link.busy < WORK_MAX => Ok(()),
            QpState::ReadyToSend | QpState::SendDrained => Err(RdmaError::Full),
            _ => Err(RdmaError::State),
        }
    }

    fn start(&mut self, qp: Qp, keeps: Keeps, operation: Operation<'_>) -> Result<WorkId, RdmaError> {
        let index = qp.index() as u32;
        self.next_work += 1;
        let work = WorkId(self.next_work);
        let id = self.insert(Pending::Transfer { link: index, transfer: Transfer { work, keeps } });
        let link = self.links.at_mut(index).ok_or(RdmaError::State)?;
        if link.qp.post(&Work::new(id, operation)).is_err() {
            self.pending.remove(id as u32);
            return Err(RdmaError::Full);
        }
        link.busy += 1;
        link.traffic += 1;
        Ok(work)
    }

    pub(super) fn end_transfer(&mut self, transfer: Transfer, failed: Option<&Failed>) {
        let mut old = [0; 8];
        if let Keeps::Slot(slot) = transfer.keeps {
            self.outbox.arena(slot).read(slot.1, 0, &mut old);
            self.outbox.give_back(slot);
        }
        let result = match failed {
            None => Ok(u64::from_le_bytes(old)),
            Some(failed) if failed.was_refused() => Err(WorkError::Key),
            Some(_) => Err(WorkError::Broken),
        };
        self.notes.push_back(Note::Done(transfer.work, result));
    }

    pub(super) fn break_transfer(&mut self, transfer: Transfer) {
        if let Keeps::Slot(slot) = transfer.keeps {
            self.outbox.give_back(slot);
        }
        self.notes.push_back(Note::Done(transfer.work, Err(WorkError::Broken)));
    }
}

fn remote(at: RemoteMemory) -> Remote {
    Remote { addr: at.addr, key: at.key.0 }
}
