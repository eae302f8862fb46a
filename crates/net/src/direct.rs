//! The memory of processes of this host that a collective reads and writes without a connection.
//!
//! Which process is meant, and where in it, it has told itself ([`proto::coll::token`]). Nothing is registered: a collective ends
//! only when nobody needs the memory any more.
use crate::api::{Addressee, NetError};
use crate::endpoint::Endpoint;
use crate::meeting::chance;
use fabric::RdmaError;
use proto::coll::token::Token;
use proto::ids::Process;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use sys::cma::Row;
use sys::{UserBuf, UserBufMut};

/// By which the others know that they have found this process. They write it too, always the same number.
static SECRET: OnceLock<Box<AtomicU64>> = OnceLock::new();

/// Where this process is for the others of its host.
#[derive(Clone, Copy, Debug)]
pub struct Whereabouts {
    /// For the kernel.
    pub process: NonZeroU32,
    /// A random number,
    pub secret: u64,
    /// and its address.
    pub secret_at: u64,
}

impl Endpoint {
    /// Where this process is, if others may look for it and it for others.
    pub fn whereabouts(&self) -> Option<Whereabouts> {
        if !self.context.reaches_processes() {
            return None;
        }
        let word = SECRET.get_or_init(|| Box::new(AtomicU64::new(chance())));
        let process = NonZeroU32::new(std::process::id())?;
        let secret_at = &raw const **word as u64;
        Some(Whereabouts { process, secret: word.load(Ordering::Relaxed), secret_at })
    }

    /// Can this process read and write the memory of the one that a token speaks of?
    pub fn finds(&self, token: &Token) -> bool {
        self.context.finds_process(token.process.get(), token.secret_at, token.secret)
    }

    /// Copies from an address of a process, which is `who`.
    pub fn read_memory(
        &mut self,
        who: Process,
        process: NonZeroU32,
        from: u64,
        to: UserBufMut,
    ) -> Result<(), NetError> {
        self.counters.direct_bytes += to.len() as u64;
        let read = self.context.read_process(process.get(), from, to);
        read.map_err(|error| self.out_of_reach(who, error))
    }

    /// Copies to an address of a process, which is `who`.
    pub fn write_memory(
        &mut self,
        who: Process,
        process: NonZeroU32,
        from: UserBuf,
        to: u64,
    ) -> Result<(), NetError> {
        self.counters.direct_bytes += from.len() as u64;
        let written = self.context.write_process(process.get(), from, to);
        written.map_err(|error| self.out_of_reach(who, error))
    }

    /// Copies from rows of a process, which is `who`.
    pub fn read_rows(
        &mut self,
        who: Process,
        process: NonZeroU32,
        rows: &mut dyn Iterator<Item = Row>,
        to: UserBufMut,
    ) -> Result<(), NetError> {
        self.counters.direct_bytes += to.len() as u64;
        let read = self.context.read_rows(process.get(), rows, to);
        read.map_err(|error| self.out_of_reach(who, error))
    }

    /// Copies to rows of a process, which is `who`.
    pub fn write_rows(
        &mut self,
        who: Process,
        process: NonZeroU32,
        from: UserBuf,
        rows: &mut dyn Iterator<Item = Row>,
    ) -> Result<(), NetError> {
        self.counters.direct_bytes += from.len() as u64;
        let written = self.context.write_rows(process.get(), from, rows);
        written.map_err(|error| self.out_of_reach(who, error))
    }

    /// Counts a collective whose data goes straight between memories.
    pub fn note_direct(&mut self) {
        self.counters.direct += 1;
    }

    /// Counts a collective through memory that all processes of the node have mapped.
    pub fn note_common(&mut self) {
        self.counters.common += 1;
    }

    /// Counts such memory.
    pub fn note_common_bytes(&mut self, bytes: u64) {
        self.counters.common_bytes += bytes;
    }

    #[cold]
    fn out_of_reach(&self, who: Process, error: RdmaError) -> NetError {
        NetError::OutOfReach { peer: who.peer(self.job.id, &self.wireup), cause: Arc::new(error) }
    }
}
