//! Communicators: who is in them, and what is kept with them. How new ones come about is in [`super::making`].
//!
//! A number separates the messages of communicators. Disjoint communicators made by one call share it: their members
//! never meet in it.
use super::attr::Attributes;
use super::collective::{Collective, Segment};
use super::info::Pairs;
use super::members::Members;
use super::topology::Topology;
use super::*;
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{NodeId, Process, Rank};
use proto::coll::inter::Sides;
use proto::coll::token::Reach;
use proto::coll::{Cores, Hosts, Memory, Place, Shared};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// What a program may promise of a communicator.
const HINTS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

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

/// What the processes of a job run on, and how many they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobCores {
    pub(super) cores: Cores,
    pub(super) ranks: u32,
    /// Do collectives know two levels: inside a node, and between nodes?
    pub(super) levels: bool,
    /// Which processes may be able to reach each other's memory.
    pub(super) together: Together,
}

/// Which processes of a job may be able to reach each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// None, or they are not to.
    Nobody,
    /// Those of a node.
    Node,
    /// All: its nodes are one host.
    Job,
}

/// What messages need to know of a communicator. Operations under way share it, so that it outlives a free.
#[derive(Debug)]
pub(super) struct Roster {
    /// Those whom messages go to: the remote group of an intercommunicator.
    pub(super) members: Members,
    /// The group of this process, if it is another one.
    pub(super) local: Option<Members>,
    /// In the group of this process.
    pub(super) rank: u32,
    /// How many members there are.
    pub(super) size: u32,
    /// Two contexts: twice this number for messages, one more for collectives.
    number: u32,
    /// Has everybody connected to everybody for a collective?
    pub(super) has_met: Cell<bool>,
    /// On which hosts its processes live, once a collective asks.
    hosts: OnceCell<Option<Rc<Hosts>>>,
    /// Are its processes on one host, once a collective asks?
    memory: OnceCell<Memory>,
    /// What this process knows of reaching the memory of the others.
    pub(super) reach: Cell<Reach>,
    /// Memory that all of them map.
    pub(super) segment: Segment,
}

impl Roster {
    pub(super) fn new(members: Members, me: Process, number: u32) -> Self {
        let (rank, size) = (members.rank_of(me).expect("a member"), members.len());
        Roster {
            members,
            local: None,
            rank,
            size,
            number,
            has_met: Cell::new(false),
            hosts: OnceCell::new(),
            memory: OnceCell::new(),
            reach: Cell::new(Reach::Untried),
            segment: Segment::new(),
        }
    }

    /// Of an intercommunicator, or of one that is being made, of which a process may know only its own side.
    pub(super) fn between(local: Members, remote: Members, me: Process, number: u32) -> Self {
        let (rank, size) = (local.rank_of(me).expect("a member"), remote.len());
        Roster {
            members: remote,
            local: Some(local),
            rank,
            size,
            number,
            has_met: Cell::new(false),
            hosts: OnceCell::new(),
            memory: OnceCell::new(),
            reach: Cell::new(Reach::Untried),
            segment: Segment::new(),
        }
    }

    /// Of a communicator that turned out to have no members.
    pub(super) const fn void() -> Self {
        Roster {
            members: Members::EMPTY,
            local: None,
            rank: 0,
            size: 0,
            number: 0,
            has_met: Cell::new(false),
            hosts: OnceCell::new(),
            memory: OnceCell::new(),
            reach: Cell::new(Reach::Untried),
            segment: Segment::new(),
        }
    }

    /// The group of this process.
    pub(super) fn local(&self) -> &Members {
        self.local.as_ref().unwrap_or(&self.members)
    }

    /// Is it between two groups?
    pub(super) fn is_inter(&self) -> bool {
        self.local.is_some()
    }

    #[inline]
    pub(super) fn context(&self) -> u32 {
        2 * self.number
    }

    #[inline]
    pub(super) fn collective_context(&self) -> u32 {
        2 * self.number + 1
    }

    pub(super) fn place(&self, job: JobCores) -> Place {
        let local = self.local();
        // All of the group must come to the same answer, and another job may know a different one.
        let cores = if local.reaches(job.ranks) { Cores::Own } else { job.cores };
        Place { rank: self.rank, size: local.len(), cores, memory: Memory::Apart }
    }

    /// On which hosts the processes live, if they are more than one and of one job; `node_of` tells.
    pub(super) fn hosts(&self, job: JobCores, node_of: impl Fn(Rank) -> NodeId) -> Option<Rc<Hosts>> {
        let look = || {
            let known = !self.is_inter() && !self.members.reaches(job.ranks);
            let name_of = |rank| node_of(Rank(self.members.at(rank).0)).0;
            known.then(|| Hosts::new(self.rank, self.size, name_of)).flatten().map(Rc::new)
        };
        self.hosts.get_or_init(look).clone()
    }

    /// May its processes be able to reach each other's memory? `node_of` tells the node of each.
    pub(super) fn memory(&self, job: JobCores, node_of: impl Fn(Rank) -> NodeId) -> Memory {
        let look = || {
            let known = !self.is_inter() && !self.members.reaches(job.ranks);
            let node_at = |rank| node_of(Rank(self.members.at(rank).0));
            let on_one_host = match job.together {
                Together::Nobody => false,
                Together::Job => known,
                Together::Node => known && (1..self.size).all(|rank| node_at(rank) == node_at(0)),
            };
            match on_one_host {
                true if (1..self.size).all(|rank| node_at(rank) == node_at(0)) => {
                    Memory::OneNode(Shared::Untried)
                }
                true => Memory::OneHost,
                false => Memory::Apart,
            }
        };
        *self.memory.get_or_init(look)
    }

    /// Where this process stands between two groups, if there are two.
    pub(super) fn sides(&self, job: JobCores) -> Option<Sides> {
        self.local.as_ref().map(|_| Sides { own: self.place(job), remote: self.size })
    }

    /// The process of a rank, checked.
    #[inline]
    pub(super) fn process(&self, rank: i32) -> Result<Process> {
        if (rank as u32) < self.size {
            return Ok(self.members.at(rank as u32));
        }
        fail_with(ErrorClass::Rank, || format!("rank {rank} in a communicator of {}", self.size))
    }

    /// The rank of a process that sent a message here.
    #[inline]
    pub(super) fn rank_of(&self, process: Option<Process>) -> Peer {
        let rank = process.and_then(|process| self.members.rank_of(process));
        rank.map_or(Peer::Any, |rank| Peer::Rank(rank as i32))
    }
}

/// A communicator.
#[derive(Debug)]
pub(super) struct Comm {
    pub(super) roster: Rc<Roster>,
    /// Number of the next collective: its messages carry it, so that operations under way do not mix.
    pub(super) sequence: u32,
    /// Collectives of which the next may be like one: see [`super::again`].
    #[allow(clippy::vec_box)]
    pub(super) kept: Vec<Box<Collective>>,
    pub(super) errhandler: ErrhandlerId,
    pub(super) attributes: Attributes,
    /// The session that it, or what it was made of, came from.
    pub(super) session: Option<SessionId>,
    pub(super) topology: Option<Rc<Topology>>,
    name: String,
    pub(super) info: Pairs,
}

impl Comm {
    /// The number of the next collective, as a tag.
    #[inline]
    pub(super) fn take_sequence(&mut self) -> i32 {
        let sequence = self.sequence;
        self.sequence = (sequence + 1) & SEQUENCE_MASK;
        sequence as i32
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn new(members: Members, me: Process, number: u32, name: &str) -> Self {
        Comm {
            roster: Rc::new(Roster::new(members, me, number)),
            sequence: 0,
            kept: Vec::new(),
            errhandler: ErrhandlerId::FATAL,
            attributes: Attributes::new(),
            session: None,
            topology: None,
            name: name.into(),
            info: Pairs::new(),
        }
    }
}

/// Sequence numbers wrap here; far more operations than can be under way.
pub(super) const SEQUENCE_MASK: u32 = 0x3fff_ffff;

impl Mpi {
    /// Number of processes; those of its own group, of an intercommunicator.
    #[inline]
    pub fn comm_size(&self, comm: CommId) -> Result<u32> {
        Ok(self.comm(comm)?.roster.local().len())
    }

    /// Number of processes of the remote group, if there is one.
    #[inline]
    pub fn comm_remote_size(&self, comm: CommId) -> Result<Option<u32>> {
        let roster = &self.comm(comm)?.roster;
        Ok(roster.is_inter().then_some(roster.size))
    }

    /// The remote group of an intercommunicator, as a new object.
    pub fn comm_remote_group(&mut self, comm: CommId) -> Result<GroupId> {
        let roster = &self.comm(comm)?.roster;
        if !roster.is_inter() {
            return fail(ErrorClass::Comm, "it is not an intercommunicator");
        }
        let members = roster.members.clone();
        let session = self.comm(comm)?.session;
        Ok(self.add_group(members, session))
    }

    /// This process's rank.
    #[inline]
    pub fn comm_rank(&self, comm: CommId) -> Result<u32> {
        Ok(self.comm(comm)?.roster.rank)
    }

    /// The group, as a new object.
    pub fn comm_group(&mut self, comm: CommId) -> Result<GroupId> {
        let members = self.comm(comm)?.roster.local().clone();
        let session = self.comm(comm)?.session;
        Ok(self.add_group(members, session))
    }

    /// This process among those that it may talk to.
    pub(super) fn me(&self) -> Process {
        Process(self.endpoint.rank().0)
    }

    /// An error for a communicator between two groups, where `what` needs one group.
    pub(super) fn one_group(&self, comm: CommId, what: &str) -> Result<()> {
        match self.comm(comm)?.roster.is_inter() {
            true => fail(ErrorClass::Comm, format!("{what}: not on an intercommunicator")),
            false => Ok(()),
        }
    }

    /// Collective. The caller copies attributes (it has the callbacks).
    pub fn comm_dup(&mut self, comm: CommId) -> Result<CommId> {
        let made = self.start_dup(comm, Meanwhile::Waits)?;
        Ok(self.make(made)?.expect("every member is in the copy"))
    }

    /// Collective. `color` None stands for `MPI_UNDEFINED`: no communicator for this process.
    pub fn comm_split(&mut self, comm: CommId, color: Option<i32>, key: i32) -> Result<Option<CommId>> {
        let made = self.start_split(comm, color, key)?;
        self.make(made)
    }

    /// Collective: one communicator per node (`MPI_COMM_TYPE_SHARED`), if `member`.
    pub fn comm_split_shared(&mut self, comm: CommId, member: bool, key: i32) -> Result<Option<CommId>> {
        let made = self.start_split_shared(comm, member, key)?;
        self.make(made)
    }

    /// The program gives the communicator up (it has deleted the attributes already).
    pub fn comm_free(&mut self, comm: CommId) -> Result<()> {
        self.comm(comm)?;
        if comm == CommId::WORLD || comm == CommId::SELF {
            return fail(ErrorClass::Comm, "a predefined communicator cannot be freed");
        }
        if self.check.is_some() {
            self.announce_end(comm, "MPI_Comm_free");
        }
        self.forget_comm(comm);
        Ok(())
    }

    pub(super) fn forget_comm(&mut self, comm: CommId) {
        self.dynamic.forget(comm);
        if let Some(old) = self.comms.remove(comm.0) {
            self.endpoint.forget_context(old.roster.context());
            self.endpoint.forget_context(old.roster.collective_context());
            self.drop_buffer(Holder::Comm(comm));
            registry().errhandler_release(old.errhandler);
            for (key, _) in old.attributes {
                self.release_keyval(key);
            }
            for operation in old.kept {
                self.recycle(operation);
            }
        }
    }

    /// Compares two communicators.
    pub fn comm_compare(&self, a: CommId, b: CommId) -> Result<Comparison> {
        let (first, second) = (self.comm(a)?, self.comm(b)?);
        if a == b {
            return Ok(Comparison::Identical);
        }
        if first.roster.is_inter() != second.roster.is_inter() {
            return Ok(Comparison::Unequal);
        }
        let own = first.roster.local().compare(second.roster.local());
        let all = first.roster.members.compare(&second.roster.members);
        Ok(match (own, all) {
            (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            _ => Comparison::Similar,
        })
    }

    /// Its name.
    pub fn comm_name(&self, comm: CommId) -> Result<&str> {
        Ok(&self.comm(comm)?.name)
    }

    /// Names it.
    pub fn comm_set_name(&mut self, comm: CommId, name: &str) -> Result<()> {
        self.comm_mut(comm)?.name = name.into();
        Ok(())
    }

    /// Its error handler.
    pub fn comm_errhandler(&self, comm: CommId) -> Result<ErrhandlerId> {
        Ok(self.comm(comm)?.errhandler)
    }

    /// Sets its error handler.
    pub fn comm_set_errhandler(&mut self, comm: CommId, handler: ErrhandlerId) -> Result<()> {
        self.comm(comm)?;
        registry().errhandler_retain(handler)?;
        let old = std::mem::replace(&mut self.comm_mut(comm)?.errhandler, handler);
        registry().errhandler_release(old);
        Ok(())
    }

    /// The hints, as a new info object.
    pub fn comm_info(&mut self, comm: CommId) -> Result<InfoId> {
        let info = self.comm(comm)?.info.clone();
        Ok(registry().info_with(info))
    }

    /// Replaces the hints.
    pub fn comm_set_info(&mut self, comm: CommId, info: Option<InfoId>) -> Result<()> {
        self.comm_mut(comm)?.info.clear();
        self.comm_update_info(comm, info)
    }

    /// Adds to the hints. Those that mean nothing here are not kept: a caller that asks learns what is used (MPI-5 7.4.4).
    pub fn comm_update_info(&mut self, comm: CommId, info: Option<InfoId>) -> Result<()> {
        let pairs = info.map_or(Ok(Pairs::new()), |info| registry().info_pairs(info))?;
        let hints = &mut self.comm_mut(comm)?.info;
        for (key, value) in pairs.into_iter().filter(|(key, _)| HINTS.contains(&key.as_str())) {
            hints.retain(|(known, _)| *known != key);
            hints.push((key, value));
        }
        Ok(())
    }

    /// Does the id name a communicator?
    pub fn comm_exists(&self, comm: CommId) -> bool {
        self.comms.get(comm.0).is_some()
    }

    #[inline]
    pub(super) fn comm(&self, comm: CommId) -> Result<&Comm> {
        match self.comms.get(comm.0) {
            Some(comm) => Ok(comm),
            None => fail_with(ErrorClass::Comm, || format!("there is no communicator {}", comm.0)),
        }
    }

    #[inline]
    pub(super) fn comm_mut(&mut self, comm: CommId) -> Result<&mut Comm> {
        match self.comms.get_mut(comm.0) {
            Some(comm) => Ok(comm),
            None => fail_with(ErrorClass::Comm, || format!("there is no communicator {}", comm.0)),
        }
    }

    /// The number of the next collective on a communicator, as a tag.
    pub(super) fn next_sequence(&mut self, comm: CommId) -> Result<i32> {
        Ok(self.comm_mut(comm)?.take_sequence())
    }
}

/// Is it a tag that a message may carry?
#[inline]
pub(super) fn check_tag(tag: i32) -> Result<()> {
    if (0..=TAG_UB).contains(&tag) { Ok(()) } else { fail_with(ErrorClass::Tag, || format!("tag {tag}")) }
}
