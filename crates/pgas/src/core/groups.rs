//! Groups of processes: each has a communicator, and knows which of all processes its members are.
use super::{Core, Driver};
use mpi::core::CommId;
use mpi::{ErrorClass, MpiError, Result};
use std::rc::Rc;

/// The group of all processes is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub u32);

/// Tag of the messages by which members make a group together.
const MAKING_TAG: i32 = 0x6172;

/// Processes.
#[derive(Clone, Debug)]
pub struct Group {
    /// Their communicator, if this process is one of them.
    comm: Option<CommId>,
    /// Which of all processes they are, by their rank here; `None`: all of them.
    members: Option<Rc<[u32]>>,
    size: u32,
}

impl Group {
    pub(super) fn all(comm: CommId, size: u32) -> Group {
        Group { comm: Some(comm), members: None, size }
    }

    /// Their communicator, of which this process has to be.
    pub fn comm(&self) -> Result<CommId> {
        self.comm.ok_or_else(|| MpiError::new(ErrorClass::Group, "this process is not in the group"))
    }

    /// How many they are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Which of all processes is this one.
    pub fn absolute(&self, rank: u32) -> Option<u32> {
        match &self.members {
            None => (rank < self.size).then_some(rank),
            Some(members) => members.get(rank as usize).copied(),
        }
    }

    /// Which one here is this process of all.
    pub fn rank_of(&self, absolute: u32) -> Option<u32> {
        match &self.members {
            None => (absolute < self.size).then_some(absolute),
            Some(members) => members.iter().position(|member| *member == absolute).map(|rank| rank as u32),
        }
    }
}

impl GroupId {
    /// All processes.
    pub const WORLD: GroupId = GroupId(0);
}

impl Core {
    /// A group.
    pub fn group(&self, group: GroupId) -> Result<&Group> {
        let found = self.groups.get(group.0 as usize).and_then(Option::as_ref);
        found.ok_or_else(|| MpiError::new(ErrorClass::Group, format!("there is no group {}", group.0)))
    }

    /// Collective over the members, which are named by their ranks in `parent`. Others may call as well: they know the group
    /// then, but are not in it.
    pub fn group_create(
        &mut self,
        driver: &mut impl Driver,
        parent: GroupId,
        ranks: &[i32],
    ) -> Result<GroupId> {
        let parent = self.group(parent)?.clone();
        let member = |rank: &i32| {
            let found = u32::try_from(*rank).ok().and_then(|rank| parent.absolute(rank));
            found.ok_or_else(|| {
                let text = format!("rank {rank} in a group of {} processes", parent.size);
                MpiError::new(ErrorClass::Rank, text)
            })
        };
        let members: Rc<[u32]> = ranks.iter().map(member).collect::<Result<_>>()?;
        let size = members.len() as u32;
        if !members.contains(&self.rank) {
            return Ok(self.add_group(Group { comm: None, size, members: Some(members) }));
        }
        let parent = parent.comm()?;
        let comm = driver.call(|mpi| {
            let all = mpi.comm_group(parent)?;
            let some = mpi.group_incl(all, ranks);
            mpi.group_free(all)?;
            let made = some.and_then(|some| {
                let made = mpi.start_create_group(parent, some, MAKING_TAG).and_then(|made| mpi.make(made));
                mpi.group_free(some)?;
                made
            })?;
            made.ok_or_else(|| MpiError::new(ErrorClass::Group, "a communicator without processes"))
        })?;
        Ok(self.add_group(Group { comm: Some(comm), size, members: Some(members) }))
    }

    fn add_group(&mut self, group: Group) -> GroupId {
        let free = self.groups.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() - 1
        });
        self.groups[at] = Some(group);
        GroupId(at as u32)
    }

    /// Collective over the members.
    pub fn group_free(&mut self, driver: &mut impl Driver, group: GroupId) -> Result<()> {
        if group == GroupId::WORLD {
            return Err(MpiError::new(ErrorClass::Group, "the group of all processes is not freed"));
        }
        let comm = self.group(group)?.comm;
        self.groups[group.0 as usize] = None;
        comm.map_or(Ok(()), |comm| driver.call(|mpi| mpi.comm_free(comm)))
    }
}
