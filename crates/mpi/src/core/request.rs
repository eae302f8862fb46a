//! Requests: what is under way, and waiting for it.
use super::*;
use crate::error::{ErrorClass, Result};
use crate::endpoint::Backoff;

/// A generalized request: callbacks of the program, opaque words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grequest {
    /// Fills the status.
    pub query: usize,
    /// Frees the state.
    pub free: usize,
    /// Asked to cancel.
    pub cancel: usize,
    /// Extra state given to all.
    pub extra: usize,
}

impl Mpi {
    /// Moves things along; did anything move?
    pub fn progress(&mut self) -> bool {
        unimplemented!()
    }
    /// Call when `progress` moved nothing and the caller still waits: spins, yields or sleeps.
    pub fn pause(&mut self, backoff: &mut Backoff) {
        unimplemented!()
    }
    /// A call of a reduction function that is due. Whoever waits by `test` asks after each `progress`.
    pub fn next_job(&mut self) -> Option<UserReduce> {
        unimplemented!()
    }
    /// The function has run.
    pub fn job_done(&mut self, job: UserReduce) {
        unimplemented!()
    }
    /// Is the request complete? If so it is freed (inactive, if persistent). An inactive request gives the
    /// empty status. Makes no progress.
    pub fn test(&mut self, request: RequestId) -> Result<Option<Status>> {
        unimplemented!()
    }
    /// As `test`, but changes nothing (`MPI_Request_get_status`).
    pub fn peek(&mut self, request: RequestId) -> Result<Option<Status>> {
        unimplemented!()
    }
    /// Waits for completion, or until a job is due.
    pub fn wait(&mut self, request: RequestId) -> Result<Waited> {
        unimplemented!()
    }
    /// Starts a persistent request.
    pub fn start_request(&mut self, request: RequestId) -> Result<()> {
        unimplemented!()
    }
    /// Is it persistent (it survives completion)?
    pub fn is_persistent(&self, request: RequestId) -> Result<bool> {
        unimplemented!()
    }
    /// Is it under way or complete but not yet asked for? False: inactive, ignored by waitany and the like.
    pub fn is_active(&self, request: RequestId) -> Result<bool> {
        unimplemented!()
    }
    /// The program gives the request up; it completes in the background.
    pub fn request_free(&mut self, request: RequestId) -> Result<()> {
        unimplemented!()
    }
    /// Asks to cancel.
    pub fn cancel(&mut self, request: RequestId) -> Result<()> {
        unimplemented!()
    }
    /// The communicator of a request (for its error handler); `None` for generalized ones.
    pub fn request_comm(&self, request: RequestId) -> Result<Option<CommId>> {
        unimplemented!()
    }
    /// A new generalized request.
    pub fn grequest_start(&mut self, grequest: Grequest) -> RequestId {
        unimplemented!()
    }
    /// The callbacks, if it is a generalized request. After `test` or `wait` said complete, such a request
    /// still exists: the caller runs `query` and `free`, then calls `request_free`.
    pub fn grequest(&self, request: RequestId) -> Result<Option<Grequest>> {
        unimplemented!()
    }
    /// The program says that the operation is complete.
    pub fn grequest_complete(&mut self, request: RequestId) -> Result<()> {
        unimplemented!()
    }
    /// Whole elements of `ty` in a status; `None` is `MPI_UNDEFINED`.
    pub fn get_count(&self, status: &Status, ty: TypeId) -> Result<Option<u64>> {
        unimplemented!()
    }
    /// Basic elements in a status; `None` is `MPI_UNDEFINED`.
    pub fn get_elements(&self, status: &Status, ty: TypeId) -> Result<Option<u64>> {
        unimplemented!()
    }
    /// Was it an error? For symmetry with [`Status`].
    pub fn status_error(status: &Status) -> Option<ErrorClass> {
        (status.error != ErrorClass::Success).then_some(status.error)
    }
}
