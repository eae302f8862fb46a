//! Buffered sends: the program attaches memory; we copy messages into memory of our own and keep the books.
use super::p2p::Outgoing;
use super::*;
use crate::buffer::Scratch;
use crate::error::{ErrorClass, MpiError, Result, fail};
use net::{Envelope, Process, ReqId, SendMode};

/// Bytes that a buffered message needs beside its data. Both binary interfaces promise at least this much in
/// `MPI_BSEND_OVERHEAD`.
const OVERHEAD: usize = 96;

/// The attached buffer, and the messages that are still in it.
#[derive(Default)]
pub(super) struct Buffered {
    attached: Option<(usize, i64)>,
    used: usize,
    messages: Vec<(ReqId, Scratch, usize)>,
    /// The first message that failed, until somebody who waits for them is told.
    failed: Option<MpiError>,
}

impl Buffered {
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }
}

impl Mpi {
    /// Attaches memory of the program for buffered sends: `token` is given back by `buffer_detach`.
    pub fn buffer_attach(&mut self, token: usize, bytes: i64) -> Result<()> {
        if self.buffered.attached.is_some() {
            return fail(ErrorClass::Buffer, "a buffer is attached already");
        }
        if bytes < 0 {
            return fail(ErrorClass::Arg, format!("a buffer of {bytes} bytes"));
        }
        self.buffered.attached = Some((token, bytes));
        Ok(())
    }

    /// Waits until buffered sends are gone; gives (token, bytes).
    pub fn buffer_detach(&mut self) -> Result<(usize, i64)> {
        self.buffer_flush()?;
        match self.buffered.attached.take() {
            Some(attached) => Ok(attached),
            None => fail(ErrorClass::Buffer, "no buffer is attached"),
        }
    }

    /// Waits until buffered sends are gone. Functions of the program that are due meanwhile have to wait.
    pub fn buffer_flush(&mut self) -> Result<()> {
        self.until(|mpi| Ok(mpi.buffer_is_flushed()?.then_some(())))
    }

    /// Are buffered sends gone? An error if one of them failed, told once. Makes no progress.
    pub fn buffer_is_flushed(&mut self) -> Result<bool> {
        self.reap_buffered();
        match self.buffered.failed.take_if(|_| self.buffered.messages.is_empty()) {
            Some(error) => Err(error),
            None => Ok(self.buffered.is_idle()),
        }
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
        self.reserve(bytes)?;
        if let Some(id) = self.endpoint.isend(to, envelope, copy.part(len).as_source(), SendMode::Standard)? {
            self.buffered.used += bytes;
            self.buffered.messages.push((id, copy, bytes));
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let room = self.buffered.attached.map_or(0, |(_, bytes)| bytes as usize);
        if self.buffered.used + bytes > room {
            self.progress();
            self.reap_buffered();
        }
        if self.buffered.used + bytes <= room {
            return Ok(());
        }
        let used = self.buffered.used;
        fail(ErrorClass::Buffer, format!("a buffered send needs {bytes} bytes; {used} of {room} are in use"))
    }

    /// Forgets messages that have left.
    pub(super) fn reap_buffered(&mut self) {
        let mut index = 0;
        while index < self.buffered.messages.len() {
            let Some(outcome) = self.endpoint.take(self.buffered.messages[index].0) else {
                index += 1;
                continue;
            };
            if let Err(error) = outcome {
                self.buffered.failed.get_or_insert_with(|| error.into());
            }
            let (_, _, bytes) = self.buffered.messages.swap_remove(index);
            self.buffered.used -= bytes;
        }
    }
}
