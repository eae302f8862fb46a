//! Start, end, names, error codes and error handlers.
use super::comm::Comm;
use super::members::Members;
use super::slots::Slots;
use super::*;
use crate::error::{ErrorClass, MpiError, Result, fail};
use net::{Config, Endpoint};
use proto::coll::Cores;
use proto::context::Numbers;
use std::collections::BTreeMap;
use std::time::Instant;

/// An error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errhandler {
    /// Ends every process.
    Fatal,
    /// Gives the error to the caller.
    Return,
    /// Ends the processes of the object.
    Abort,
    /// A function of the program: an opaque word.
    User(usize),
}

/// A handler, and how many objects and programs still need it.
#[derive(Debug)]
pub(super) struct ErrhandlerEntry {
    handler: Errhandler,
    references: usize,
}

/// An error class or code of the program.
#[derive(Debug)]
pub(super) struct UserError {
    class: ErrorClass,
    text: String,
}

impl Mpi {
    /// Joins the job named by the environment, or starts alone.
    pub fn start() -> Result<Mpi> {
        let config = Config::from_env()?;
        let endpoint = Endpoint::start(&config)?;
        // Collectives need what all processes agree on: an agent says the same to all, own looks may differ.
        let shared = config.node.is_some() && endpoint.shares_cores() && !config.flat_collectives;
        Ok(Mpi::on(endpoint, if shared { Cores::Shared } else { Cores::Own }))
    }

    fn on(endpoint: Endpoint, cores: Cores) -> Mpi {
        let (rank, size) = (endpoint.rank(), endpoint.size());
        let mut mpi = Mpi {
            endpoint,
            cores,
            comms: Slots::new(),
            groups: Slots::new(),
            types: datatype::predefined_types(),
            ops: Slots::new(),
            requests: Slots::new(),
            requests_max: REQUESTS_MAX as usize,
            channels: Default::default(),
            messages: Slots::new(),
            infos: Slots::new(),
            keyvals: Slots::new(),
            errhandlers: Slots::new(),
            f90_types: Vec::new(),
            user_errors: Slots::new(),
            win_attributes: BTreeMap::new(),
            numbers: Numbers::new(2, u64::from(rank.0)),
            threaded: false,
            running: Vec::new(),
            orphans: Vec::new(),
            jobs: Vec::new(),
            lent: Vec::new(),
            spare: Vec::new(),
            buffered: Default::default(),
            origin: Instant::now(),
        };
        mpi.comms.insert(Comm::new(Members::world(size), rank, 0, "MPI_COMM_WORLD"));
        mpi.comms.insert(Comm::new(Members::alone(rank), rank, 1, "MPI_COMM_SELF"));
        mpi.groups.insert(Members::EMPTY);
        mpi.infos.insert(info::environment());
        mpi.requests.insert(request::Request::sent());
        for handler in [Errhandler::Fatal, Errhandler::Return, Errhandler::Abort] {
            // One reference is never given back: predefined handlers cannot be freed.
            mpi.errhandlers.insert(ErrhandlerEntry { handler, references: 2 });
        }
        mpi
    }

    /// Leaves the job; idempotent.
    pub fn finish(&mut self) -> Result<()> {
        self.drain();
        Ok(self.endpoint.finish()?)
    }

    /// Ends the job.
    pub fn abort(&mut self, code: i32, why: &str) -> ! {
        self.endpoint.abort(code, why)
    }

    /// Which application of a multi-program job this is (`MPI_APPNUM`).
    pub fn appnum(&mut self) -> Option<i32> {
        self.endpoint.appnum()
    }

    /// How many processes the launcher could start (`MPI_UNIVERSE_SIZE`).
    pub fn universe_size(&mut self) -> Option<i32> {
        self.endpoint.universe_size()
    }

    /// The node of a process, by rank in the world.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.endpoint.node_of(net::Rank(rank)).0
    }

    /// The processes this one is connected to now, by rank in the world.
    pub fn connected_peers(&self) -> Vec<u32> {
        self.endpoint.connected_peers().into_iter().map(|rank| rank.0).collect()
    }

    /// A counter of this process.
    pub fn stat(&self, stat: net::Stat) -> u64 {
        self.endpoint.stat(stat)
    }

    /// The host's name.
    pub fn processor_name(&self) -> String {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        if name.is_empty() { "localhost".into() } else { name.into() }
    }

    /// Seconds since some moment.
    pub fn wtime(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    /// Resolution of `wtime` in seconds.
    pub fn wtick(&self) -> f64 {
        1e-9
    }

    /// The library's name and version, one line.
    pub fn library_version() -> &'static str {
        concat!("Banyan ", env!("CARGO_PKG_VERSION"))
    }

    /// A new error class of the program: `ErrorClass::User(n)`, n from 0 on, shared with `add_error_code`.
    pub fn add_error_class(&mut self) -> ErrorClass {
        let number = self.user_errors.insert(UserError { class: ErrorClass::Success, text: String::new() });
        let class = ErrorClass::User(number);
        if let Some(entry) = self.user_errors.get_mut(number) {
            entry.class = class;
        }
        class
    }

    /// A new error code in `class`: the number n of `ErrorClass::User(n)` that stands for it.
    pub fn add_error_code(&mut self, class: ErrorClass) -> Result<u32> {
        if let ErrorClass::User(number) = class {
            self.user_error(number).ok_or_else(|| no_user_error(number))?;
        }
        Ok(self.user_errors.insert(UserError { class, text: String::new() }))
    }

    /// Sets the text of an added class or code.
    pub fn add_error_string(&mut self, number: u32, text: &str) -> Result<()> {
        let entry = self.user_errors.get_mut(number).ok_or_else(|| no_user_error(number))?;
        entry.text = text.into();
        Ok(())
    }

    /// Class and text of an added class or code.
    pub fn user_error(&self, number: u32) -> Option<(ErrorClass, &str)> {
        self.user_errors.get(number).map(|entry| (entry.class, entry.text.as_str()))
    }

    /// Removes an added class or code; a class only when none of its codes is left.
    pub fn remove_user_error(&mut self, number: u32) -> Result<()> {
        let class = ErrorClass::User(number);
        let codes = self.user_errors.iter().filter(|(other, entry)| entry.class == class && *other != number);
        match codes.count() {
            0 => self.user_errors.remove(number).map(drop).ok_or_else(|| no_user_error(number)),
            left => fail(ErrorClass::Other, format!("error class {number} still has {left} codes")),
        }
    }

    /// One more than the largest number of an added class or code.
    pub fn user_errors_end(&self) -> u32 {
        self.user_errors.iter().last().map_or(0, |(number, _)| number + 1)
    }

    /// A new error handler.
    pub fn errhandler_create(&mut self, function: usize) -> ErrhandlerId {
        let handler = Errhandler::User(function);
        ErrhandlerId(self.errhandlers.insert(ErrhandlerEntry { handler, references: 1 }))
    }

    /// What the handler does; valid also after it was freed, while an object uses it.
    pub fn errhandler(&self, handler: ErrhandlerId) -> Result<Errhandler> {
        match self.errhandlers.get(handler.0) {
            Some(entry) => Ok(entry.handler),
            None => fail(ErrorClass::Errhandler, format!("there is no error handler {}", handler.0)),
        }
    }

    /// The program gives the handler up. (Predefined ones stay.)
    pub fn errhandler_free(&mut self, handler: ErrhandlerId) -> Result<()> {
        self.errhandler(handler)?;
        self.release_errhandler(handler);
        Ok(())
    }

    /// One more object (or program) needs the handler.
    pub fn errhandler_retain(&mut self, handler: ErrhandlerId) -> Result<()> {
        self.errhandler(handler)?;
        if let Some(entry) = self.errhandlers.get_mut(handler.0) {
            entry.references += 1;
        }
        Ok(())
    }

    pub(super) fn release_errhandler(&mut self, handler: ErrhandlerId) {
        if handler.0 <= ErrhandlerId::ABORT.0 {
            return;
        }
        if let Some(entry) = self.errhandlers.get_mut(handler.0) {
            entry.references -= 1;
            if entry.references == 0 {
                self.errhandlers.remove(handler.0);
            }
        }
    }
}

#[cold]
fn no_user_error(number: u32) -> MpiError {
    MpiError::new(ErrorClass::Arg, format!("there is no added error class or code {number}"))
}
