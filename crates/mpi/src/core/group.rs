//! Groups: ordered sets of processes, and their algebra.
use super::*;
use crate::error::Result;

impl Mpi {
    /// Number of members.
    pub fn group_size(&self, group: GroupId) -> Result<u32> {
        unimplemented!()
    }
    /// This process's rank in the group, if it is a member.
    pub fn group_rank(&self, group: GroupId) -> Result<Option<u32>> {
        unimplemented!()
    }
    /// The ranks in `to` of members of `from`: `None` for one that is not there. The null process stays itself
    /// and is the caller's to handle.
    pub fn group_translate(&self, from: GroupId, ranks: &[i32], to: GroupId) -> Result<Vec<Option<u32>>> {
        unimplemented!()
    }
    /// Compares two groups (never `Congruent`).
    pub fn group_compare(&self, a: GroupId, b: GroupId) -> Result<Comparison> {
        unimplemented!()
    }
    /// Members of either.
    pub fn group_union(&mut self, a: GroupId, b: GroupId) -> Result<GroupId> {
        unimplemented!()
    }
    /// Members of both.
    pub fn group_intersection(&mut self, a: GroupId, b: GroupId) -> Result<GroupId> {
        unimplemented!()
    }
    /// Members of `a` only.
    pub fn group_difference(&mut self, a: GroupId, b: GroupId) -> Result<GroupId> {
        unimplemented!()
    }
    /// The listed members, in that order.
    pub fn group_incl(&mut self, group: GroupId, ranks: &[i32]) -> Result<GroupId> {
        unimplemented!()
    }
    /// All but the listed members.
    pub fn group_excl(&mut self, group: GroupId, ranks: &[i32]) -> Result<GroupId> {
        unimplemented!()
    }
    /// As `group_incl`, by (first, last, stride).
    pub fn group_range_incl(&mut self, group: GroupId, ranges: &[[i32; 3]]) -> Result<GroupId> {
        unimplemented!()
    }
    /// As `group_excl`, by (first, last, stride).
    pub fn group_range_excl(&mut self, group: GroupId, ranges: &[[i32; 3]]) -> Result<GroupId> {
        unimplemented!()
    }
    /// The program gives the group up.
    pub fn group_free(&mut self, group: GroupId) -> Result<()> {
        unimplemented!()
    }
}
