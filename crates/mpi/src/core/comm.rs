//! Communicators.
use super::*;
use crate::error::Result;

/// How two communicators or groups relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same object (or, for groups, the same members in the same order).
    Identical,
    /// Same members and order, other context.
    Congruent,
    /// Same members, other order.
    Similar,
    /// Anything else.
    Unequal,
}

impl Mpi {
    /// Number of processes.
    pub fn comm_size(&self, comm: CommId) -> Result<u32> {
        unimplemented!()
    }
    /// This process's rank.
    pub fn comm_rank(&self, comm: CommId) -> Result<u32> {
        unimplemented!()
    }
    /// The group, as a new object.
    pub fn comm_group(&mut self, comm: CommId) -> Result<GroupId> {
        unimplemented!()
    }
    /// Collective. The caller copies attributes (it has the callbacks).
    pub fn comm_dup(&mut self, comm: CommId) -> Result<CommId> {
        unimplemented!()
    }
    /// Collective. `color` None stands for `MPI_UNDEFINED`: no communicator for this process.
    pub fn comm_split(&mut self, comm: CommId, color: Option<i32>, key: i32) -> Result<Option<CommId>> {
        unimplemented!()
    }
    /// Collective: one communicator per node (`MPI_COMM_TYPE_SHARED`), if `member`.
    pub fn comm_split_shared(&mut self, comm: CommId, member: bool, key: i32) -> Result<Option<CommId>> {
        unimplemented!()
    }
    /// Collective over `comm`: a communicator of the members of `group`.
    pub fn comm_create(&mut self, comm: CommId, group: GroupId) -> Result<Option<CommId>> {
        unimplemented!()
    }
    /// Collective over `group` only.
    pub fn comm_create_group(&mut self, comm: CommId, group: GroupId, tag: i32) -> Result<Option<CommId>> {
        unimplemented!()
    }
    /// The program gives the communicator up (it has deleted the attributes already).
    pub fn comm_free(&mut self, comm: CommId) -> Result<()> {
        unimplemented!()
    }
    /// Compares two communicators.
    pub fn comm_compare(&self, a: CommId, b: CommId) -> Result<Comparison> {
        unimplemented!()
    }
    /// Its name.
    pub fn comm_name(&self, comm: CommId) -> Result<&str> {
        unimplemented!()
    }
    /// Names it.
    pub fn comm_set_name(&mut self, comm: CommId, name: &str) -> Result<()> {
        unimplemented!()
    }
    /// Its error handler.
    pub fn comm_errhandler(&self, comm: CommId) -> Result<ErrhandlerId> {
        unimplemented!()
    }
    /// Sets its error handler.
    pub fn comm_set_errhandler(&mut self, comm: CommId, handler: ErrhandlerId) -> Result<()> {
        unimplemented!()
    }
    /// The hints, as a new info object.
    pub fn comm_info(&mut self, comm: CommId) -> Result<InfoId> {
        unimplemented!()
    }
    /// Replaces the hints.
    pub fn comm_set_info(&mut self, comm: CommId, info: Option<InfoId>) -> Result<()> {
        unimplemented!()
    }
    /// Does the id name a communicator?
    pub fn comm_exists(&self, comm: CommId) -> bool {
        unimplemented!()
    }
}
