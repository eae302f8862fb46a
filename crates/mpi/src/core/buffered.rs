//! Buffered sends: the program attaches memory, to the process, a session or a communicator; we copy messages into memory
//! of our own and keep the books.
use super::p2p::Outgoing;
use super::request::{Request, State};
use super::*;
use crate::buffer::Scratch;
use crate::error::{ErrorClass, MpiError, Result, fail};
use net::{Envelope, Process, ReqId};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes that a buffered message needs beside its data. Both binary interfaces promise at least this much in
/// `MPI_BSEND_OVERHEAD`.
const OVERHEAD: usize = 96;

/// What a buffer is attached to. A message goes through the buffer of its communicator, else through that of the session
/// that the communicator came from, else through that of the process (MPI-5 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The process (`MPI_Buffer_attach`).
    Process,
    /// A session.
    Session(SessionId),
    /// A communicator.
    Comm(CommId),
}

/// All buffers.
#[derive(Default)]
pub(super) struct Buffers {
    process: Buffered,
    /// Those that were attached elsewhere.
    others: BTreeMap<Holder, Buffered>,
    /// Number of the next message.
    next: u64,
}

/// An attached buffer, and the messages that are still in it.
#[derive(Default)]
struct Buffered {
    attached: Option<(usize, i64)>,
    used: usize,
    messages: Vec<Message>,
    /// Flushes under way: the first message each need not wait for.
    flushes: Vec<(u64, Rc<Cell<bool>>)>,
    /// The first message that failed, until somebody who waits for them is told.
    failed: Option<MpiError>,
}

struct Message {
    number: u64,
    id: ReqId,
    /// Keeps the bytes alive.
    #[allow(dead_code)]
    copy: Scratch,
    bytes: usize,
}

impl Buffers {
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.process.messages.is_empty() && (self.others.is_empty() || self.are_others_idle())
    }

    fn are_others_idle(&self) -> bool {
        self.others.values().all(|buffer| buffer.messages.is_empty())
    }

    /// The buffer of a holder, if it ever had one.
    fn of(&mut self, holder: Holder) -> Option<&mut Buffered> {
        match holder {
            Holder::Process => Some(&mut self.process),
            other => self.others.get_mut(&other),
        }
    }
}

impl Buffered {
    /// Forgets messages that have left.
    fn reap(&mut self, endpoint: &mut net::Endpoint) {
        let mut index = 0;
        while index < self.messages.len() {
            let Some(outcome) = endpoint.take(self.messages[index].id) else {
                index += 1;
                continue;
            };
            if let Err(error) = outcome {
                self.failed.get_or_insert_with(|| error.into());
            }
            self.used -= self.messages.swap_remove(index).bytes;
        }
        let oldest = self.messages.iter().map(|message| message.number).min().unwrap_or(u64::MAX);
        self.flushes.retain(|(until, done)| {
            done.set(oldest >= *until);
            oldest < *until
        });
    }
}

impl Mpi {
    /// Attaches memory of the program for buffered sends: `token` is given back by `buffer_detach`.
    pub fn buffer_attach(&mut self, holder: Holder, token: usize, bytes: i64) -> Result<()> {
        self.check_holder(holder)?;
        if bytes < 0 {
            return fail(ErrorClass::Arg, format!("a buffer of {bytes} bytes"));
        }
        let buffer = match holder {
            Holder::Process => &mut self.buffers.process,
            other => self.buffers.others.entry(other).or_default(),
        };
        if buffer.attached.is_some() {
            return fail(ErrorClass::Buffer, "a buffer is attached already");
        }
        buffer.attached = Some((token, bytes));
        Ok(())
    }

    /// Once buffered sends are gone: (token, bytes). Makes no progress.
    pub fn buffer_detach(&mut self, holder: Holder) -> Result<Option<(usize, i64)>> {
        if !self.buffer_is_flushed(holder)? {
            return Ok(None);
        }
        let attached = self.buffers.of(holder).and_then(|buffer| buffer.attached.take());
        self.buffers.others.remove(&holder);
        match attached {
            Some(attached) => Ok(Some(attached)),
            None => fail(ErrorClass::Buffer, "no buffer is attached"),
        }
    }

    /// Are buffered sends gone? An error if one of them failed, told once. Makes no progress.
    pub fn buffer_is_flushed(&mut self, holder: Holder) -> Result<bool> {
        self.check_holder(holder)?;
        let Some(buffer) = self.buffers.of(holder) else { return Ok(true) };
        buffer.reap(&mut self.endpoint);
        match buffer.failed.take_if(|_| buffer.messages.is_empty()) {
            Some(error) => Err(error),
            None => Ok(buffer.messages.is_empty()),
        }
    }

    /// A request that is complete when the messages that are in the buffer now are gone.
    pub fn start_buffer_flush(&mut self, holder: Holder) -> Result<RequestId> {
        self.room_for_request()?;
        let state = if self.buffer_is_flushed(holder)? {
            State::Complete(Status::EMPTY)
        } else {
            let (done, until) = (Rc::new(Cell::new(false)), self.buffers.next);
            if let Some(buffer) = self.buffers.of(holder) {
                buffer.flushes.push((until, done.clone()));
            }
            State::Flush(done)
        };
        Ok(self.add_request(Request::detached(state)))
    }

    pub(super) fn start_buffered(
        &mut self,
        to: Process,
        envelope: Envelope,
        outgoing: Outgoing,
    ) -> Result<()> {
        let (mut copy, len) = match outgoing {
            Outgoing::Packed(packed, len) => (packed, len),
            Outgoing::Flat(bytes) => {
                let mut copy = Scratch::with(bytes.len());
                copy.part(bytes.len()).copy_from(&bytes);
                (copy, bytes.len())
            }
        };
        let bytes = len + OVERHEAD;
        let holder = self.holder_for(envelope.context);
        self.reserve(holder, bytes)?;
        let bytes_of_it = copy.part(len).as_source();
        if let Some(id) = self.give(to, envelope, bytes_of_it, Mode::Standard, net::Push::Soon)? {
            let number = self.buffers.next;
            self.buffers.next += 1;
            if let Some(buffer) = self.buffers.of(holder) {
                buffer.used += bytes;
                buffer.messages.push(Message { number, id, copy, bytes });
            }
        }
        Ok(())
    }

    /// Whose buffer a message of this context goes through.
    fn holder_for(&self, context: u32) -> Holder {
        let others = &self.buffers.others;
        if others.is_empty() {
            return Holder::Process;
        }
        let found = self.comms.iter().find(|(_, comm)| comm.roster.context() == context);
        let Some((number, comm)) = found else { return Holder::Process };
        let (own, session) = (Holder::Comm(CommId(number)), comm.session.map(Holder::Session));
        let inner_first = [Some(own), session].into_iter().flatten();
        inner_first.into_iter().find(|holder| others.contains_key(holder)).unwrap_or(Holder::Process)
    }

    fn reserve(&mut self, holder: Holder, bytes: usize) -> Result<()> {
        let state = |mpi: &mut Self| {
            let buffer = mpi.buffers.of(holder).expect("it was just found");
            (buffer.used, buffer.attached.map_or(0, |(_, bytes)| bytes as usize))
        };
        let (mut used, room) = state(self);
        if used + bytes > room {
            self.progress();
            (used, _) = state(self);
        }
        if used + bytes <= room {
            return Ok(());
        }
        fail(ErrorClass::Buffer, format!("a buffered send needs {bytes} bytes; {used} of {room} are in use"))
    }

    /// Forgets messages that have left.
    pub(super) fn reap_buffered(&mut self) {
        self.buffers.process.reap(&mut self.endpoint);
        for buffer in self.buffers.others.values_mut() {
            buffer.reap(&mut self.endpoint);
        }
    }

    /// The holder goes. What is still in its buffer is ours, and leaves with what is in the process's.
    pub(super) fn drop_buffer(&mut self, holder: Holder) {
        if let Some(old) = self.buffers.others.remove(&holder) {
            let process = &mut self.buffers.process;
            process.messages.extend(old.messages.into_iter().map(|message| Message { bytes: 0, ..message }));
            process.flushes.extend(old.flushes);
        }
    }

    fn check_holder(&self, holder: Holder) -> Result<()> {
        match holder {
            Holder::Process => Ok(()),
            Holder::Comm(comm) => self.comm(comm).map(drop),
            Holder::Session(session) => self.session_errhandler(session).map(drop),
        }
    }
}
