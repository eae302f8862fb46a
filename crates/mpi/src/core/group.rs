//! Groups: ordered sets of processes, and their algebra.
use super::members::Members;
use super::*;
use crate::error::{ErrorClass, Result, fail};

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) members: Members,
    /// The session it comes from.
    pub(super) session: Option<SessionId>,
}

impl Mpi {
    /// Number of members.
    pub fn group_size(&self, group: GroupId) -> Result<u32> {
        Ok(self.members(group)?.len())
    }

    /// This process's rank in the group, if it is a member.
    pub fn group_rank(&self, group: GroupId) -> Result<Option<u32>> {
        Ok(self.members(group)?.rank_of(self.me()))
    }

    /// The ranks in `to` of members of `from`: `None` for one that is not there. The null process stays itself
    /// and is the caller's to handle.
    pub fn group_translate(&self, from: GroupId, ranks: &[i32], to: GroupId) -> Result<Vec<Option<u32>>> {
        let (from, to) = (self.members(from)?, self.members(to)?);
        ranks.iter().map(|rank| Ok(to.rank_of(from.at(checked(from, *rank)?)))).collect()
    }

    /// Compares two groups (never `Congruent`).
    pub fn group_compare(&self, a: GroupId, b: GroupId) -> Result<Comparison> {
        Ok(self.members(a)?.compare(self.members(b)?))
    }

    /// Members of either.
    pub fn group_union(&mut self, a: GroupId, b: GroupId) -> Result<GroupId> {
        let all = self.members(a)?.filtered(|_| true, self.members(b)?);
        let session = self.session_of_group(a).or(self.session_of_group(b));
        Ok(self.add_group(all, session))
    }

    /// Members of both.
    pub fn group_intersection(&mut self, a: GroupId, b: GroupId) -> Result<GroupId> {
        let other = self.members(b)?;
        let both = self.members(a)?.filtered(|process| other.contains(process), &Members::EMPTY);
        Ok(self.add_group(both, self.session_of_group(a)))
    }

    /// Members of `a` only.
    pub fn group_difference(&mut self, a: GroupId, b: GroupId) -> Result<GroupId> {
        let other = self.members(b)?;
        let rest = self.members(a)?.filtered(|process| !other.contains(process), &Members::EMPTY);
        Ok(self.add_group(rest, self.session_of_group(a)))
    }

    /// The listed members, in that order.
    pub fn group_incl(&mut self, group: GroupId, ranks: &[i32]) -> Result<GroupId> {
        let picked = pick(self.members(group)?, ranks)?;
        Ok(self.add_group(picked, self.session_of_group(group)))
    }

    /// All but the listed members.
    pub fn group_excl(&mut self, group: GroupId, ranks: &[i32]) -> Result<GroupId> {
        let members = self.members(group)?;
        let out = pick(members, ranks)?;
        let rest = members.filtered(|process| !out.contains(process), &Members::EMPTY);
        Ok(self.add_group(rest, self.session_of_group(group)))
    }

    /// As `group_incl`, by (first, last, stride).
    pub fn group_range_incl(&mut self, group: GroupId, ranges: &[[i32; 3]]) -> Result<GroupId> {
        let ranks = expand(self.members(group)?, ranges)?;
        self.group_incl(group, &ranks)
    }

    /// As `group_excl`, by (first, last, stride).
    pub fn group_range_excl(&mut self, group: GroupId, ranges: &[[i32; 3]]) -> Result<GroupId> {
        let ranks = expand(self.members(group)?, ranges)?;
        self.group_excl(group, &ranks)
    }

    /// The program gives the group up.
    pub fn group_free(&mut self, group: GroupId) -> Result<()> {
        self.members(group)?;
        if group != GroupId::EMPTY {
            self.groups.remove(group.0);
        }
        Ok(())
    }

    pub(super) fn members(&self, group: GroupId) -> Result<&Members> {
        match self.groups.get(group.0) {
            Some(group) => Ok(&group.members),
            None => fail(ErrorClass::Group, format!("there is no group {}", group.0)),
        }
    }

    pub(super) fn session_of_group(&self, group: GroupId) -> Option<SessionId> {
        self.groups.get(group.0)?.session
    }

    pub(super) fn add_group(&mut self, members: Members, session: Option<SessionId>) -> GroupId {
        if members.len() == 0 {
            return GroupId::EMPTY;
        }
        GroupId(self.groups.insert(Group { members, session }))
    }
}

fn checked(members: &Members, rank: i32) -> Result<u32> {
    match u32::try_from(rank) {
        Ok(rank) if rank < members.len() => Ok(rank),
        _ => fail(ErrorClass::Rank, format!("rank {rank} in a group of {}", members.len())),
    }
}

fn pick(members: &Members, ranks: &[i32]) -> Result<Members> {
    let mut seen = vec![false; members.len() as usize];
    let mut world = Vec::with_capacity(ranks.len());
    for rank in ranks {
        let rank = checked(members, *rank)?;
        if std::mem::replace(&mut seen[rank as usize], true) {
            return fail(ErrorClass::Rank, format!("rank {rank} is listed twice"));
        }
        world.push(members.at(rank).0);
    }
    Ok(Members::listed(world))
}

fn expand(members: &Members, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
    let mut ranks = Vec::new();
    for &[first, last, stride] in ranges {
        checked(members, first)?;
        if stride == 0 {
            return fail(ErrorClass::Arg, format!("range {first} to {last} with stride 0"));
        }
        let mut rank = i64::from(first);
        while if stride > 0 { rank <= i64::from(last) } else { rank >= i64::from(last) } {
            ranks.push(checked(members, rank as i32)? as i32);
            rank += i64::from(stride);
        }
    }
    Ok(ranks)
}
