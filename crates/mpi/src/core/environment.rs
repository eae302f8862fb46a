//! Start, end, names, error codes and error handlers.
use super::*;
use crate::error::{ErrorClass, Result};

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

impl Mpi {
    /// Joins the job named by the environment, or starts alone.
    pub fn start() -> Result<Mpi> {
        unimplemented!()
    }
    /// Leaves the job; idempotent.
    pub fn finish(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// Ends the job.
    pub fn abort(&mut self, code: i32, why: &str) -> ! {
        self.endpoint.abort(code, why)
    }
    /// Which application of a multi-program job this is (`MPI_APPNUM`).
    pub fn appnum(&self) -> Option<i32> {
        unimplemented!()
    }
    /// How many processes the launcher could start (`MPI_UNIVERSE_SIZE`).
    pub fn universe_size(&self) -> Option<i32> {
        unimplemented!()
    }
    /// The host's name.
    pub fn processor_name(&self) -> String {
        unimplemented!()
    }
    /// Seconds since some moment.
    pub fn wtime(&self) -> f64 {
        unimplemented!()
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
        unimplemented!()
    }
    /// A new error code in `class`: the number n of `ErrorClass::User(n)` that stands for it.
    pub fn add_error_code(&mut self, class: ErrorClass) -> Result<u32> {
        unimplemented!()
    }
    /// Sets the text of an added class or code.
    pub fn add_error_string(&mut self, number: u32, text: &str) -> Result<()> {
        unimplemented!()
    }
    /// Class and text of an added class or code.
    pub fn user_error(&self, number: u32) -> Option<(ErrorClass, &str)> {
        unimplemented!()
    }
    /// Removes the newest added class or code; an error if `number` is not the newest.
    pub fn remove_user_error(&mut self, number: u32) -> Result<()> {
        unimplemented!()
    }
    /// A new error handler.
    pub fn errhandler_create(&mut self, function: usize) -> ErrhandlerId {
        unimplemented!()
    }
    /// What the handler does; valid also after it was freed, while an object uses it.
    pub fn errhandler(&self, handler: ErrhandlerId) -> Result<Errhandler> {
        unimplemented!()
    }
    /// The program gives the handler up.
    pub fn errhandler_free(&mut self, handler: ErrhandlerId) -> Result<()> {
        unimplemented!()
    }
}
