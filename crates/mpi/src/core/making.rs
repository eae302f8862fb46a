//! New communicators: their members agree on a number, step by step, while other things go on.
//!
//! Every way to make one begins here and is a request from then on. The communicator has its id at once; it can be used
//! when the request is complete.
use super::check::Answer;
use super::collective::{Advance, Collective};
use super::comm::{Comm, Roster, check_tag};
use super::edges::Edges;
use super::kernels::kernel;
use super::members::Members;
use super::op::Combine;
use super::predefined::{Meaning, Scalar};
use super::request::{Request, State};
use super::topology::Topology;
use super::*;
use crate::error::{ErrorClass, MpiError, Result, fail};
use proto::coll::{Elements, allgather, allreduce};
use proto::context::{Agreement, Heard};
use std::rc::Rc;

/// A communicator that is being made.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Complete when the communicator can be used. `None`: there is nothing to wait for.
    pub request: Option<RequestId>,
    /// `None` for a process that is not in it.
    pub comm: Option<CommId>,
}

/// May other agreements of this process be under way before this one ends?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// The caller waits for it.
    Waits,
    /// It may begin others.
    GoesOn,
}

/// An agreement under way.
pub(super) struct Making {
    place: Option<CommId>,
    who: Who,
    agreement: Agreement,
    round: Box<Collective>,
    /// What comes before the agreement: the processes of a distributed graph learn of their edges.
    before: Option<Box<Edges>>,
    end: Option<Result<()>>,
}

/// The members.
enum Who {
    Known(Members),
    /// Those of the color, in the order of their keys; the first round tells.
    OfColor(u64),
}

/// No color: others are shorter.
const NO_COLOR: u64 = u64::MAX;
const WORD: usize = size_of::<u64>();
/// Words that a process gives in the first round of a split: color, key, and its word of the agreement.
const SPLIT_WORDS: usize = 3;

impl Making {
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// How it ended, once it has. An error is told once.
    pub(super) fn poll(&mut self) -> Result<Option<Status>> {
        match self.end.take() {
            None => Ok(None),
            Some(end) => {
                self.end = Some(Ok(()));
                end.map(|()| Some(Status::EMPTY))
            }
        }
    }
}

/// Where the members of an agreement meet.
pub(super) struct Meeting {
    pub(super) roster: Rc<Roster>,
    pub(super) context: u32,
    pub(super) tag: i32,
}

impl Mpi {
    /// Several threads may call from now on.
    pub fn allow_threads(&mut self) {
        self.threaded = true;
    }

    /// Collective. The caller copies attributes (it has the callbacks).
    pub fn start_dup(&mut self, comm: CommId, meanwhile: Meanwhile) -> Result<Made> {
        if meanwhile == Meanwhile::GoesOn {
            self.room_for_request()?;
        }
        let meeting = self.meet(comm)?;
        let members = meeting.roster.members.clone();
        let place = self.reserve_comm(comm)?;
        let old = self.comm(comm)?;
        let (topology, info) = (old.topology.clone(), old.info.clone());
        let new = self.comm_mut(place)?;
        (new.topology, new.info) = (topology, info);
        Ok(self.agree(Some(place), comm, members, meeting, meanwhile))
    }

    /// Collective. `color` None stands for `MPI_UNDEFINED`: no communicator for this process.
    pub fn start_split(&mut self, comm: CommId, color: Option<i32>, key: i32) -> Result<Made> {
        if let Some(color) = color.filter(|color| *color < 0) {
            return fail(ErrorClass::Arg, format!("color {color}"));
        }
        self.split(comm, color.map(|color| color as u64), key)
    }

    /// Collective: one communicator per node (`MPI_COMM_TYPE_SHARED`), if `member`.
    pub fn start_split_shared(&mut self, comm: CommId, member: bool, key: i32) -> Result<Made> {
        let node = self.endpoint.node_of(self.endpoint.rank()).0;
        self.split(comm, member.then_some(u64::from(node)), key)
    }

    /// Collective: one communicator for each piece of hardware of a kind that processes belong to, and one for those on
    /// a node that belong to none of it, which are told so.
    pub fn start_split_hardware(
        &mut self,
        comm: CommId,
        kind: Resource,
        key: i32,
    ) -> Result<(Made, Option<u32>)> {
        let node = self.endpoint.node_of(self.endpoint.rank()).0;
        let piece = kind.of_this_process();
        // Processes that ask for different kinds, which they must not, do not get together. 0 is nobody's piece.
        let place = Resource::ALL.iter().position(|other| *other == kind).unwrap_or(0) as u64;
        let color = u64::from(node) << 32 | place << 24 | piece.map_or(0, |cpu| u64::from(cpu) + 1);
        Ok((self.split(comm, Some(color), key)?, piece))
    }

    /// Collective over `comm`: a communicator of the members of `group`.
    pub fn start_create(&mut self, comm: CommId, group: GroupId) -> Result<Made> {
        let members = self.members(group)?.clone();
        self.check_inside(comm, &members)?;
        let inside = members.contains(self.endpoint.rank());
        let meeting = self.meet(comm)?;
        let place = inside.then(|| self.reserve_comm(comm)).transpose()?;
        Ok(self.agree(place, comm, members, meeting, Meanwhile::Waits))
    }

    /// Collective over `comm`: a communicator of its first `count` members, which have a topology.
    pub(super) fn start_first(&mut self, comm: CommId, count: u32, topology: Topology) -> Result<Made> {
        let meeting = self.meet(comm)?;
        let members = meeting.roster.members.first(count);
        let inside = meeting.roster.rank < count;
        let place = inside.then(|| self.reserve_comm(comm)).transpose()?;
        if let Some(place) = place {
            self.comm_mut(place)?.topology = Some(Rc::new(topology));
        }
        Ok(self.agree(place, comm, members, meeting, Meanwhile::Waits))
    }

    /// Collective over `comm`: a communicator of the same processes, which learn of their edges first.
    pub(super) fn start_after(&mut self, comm: CommId, before: Edges) -> Result<Made> {
        let meeting = self.meet(comm)?;
        let members = meeting.roster.members.clone();
        let place = self.reserve_comm(comm)?;
        let mut making = self.agreement(Some(place), members, meeting, Meanwhile::Waits);
        making.before = Some(Box::new(before));
        Ok(self.carry_on(comm, making))
    }

    /// Collective over `group` only.
    pub fn start_create_group(&mut self, comm: CommId, group: GroupId, tag: i32) -> Result<Made> {
        check_tag(tag)?;
        let members = self.members(group)?.clone();
        self.check_inside(comm, &members)?;
        if !members.contains(self.endpoint.rank()) {
            return Ok(Made { request: None, comm: None });
        }
        let context = self.comm(comm)?.roster.collective_context();
        let roster = Rc::new(Roster::new(members.clone(), self.endpoint.rank(), 0));
        // Negative tags are apart from the sequence numbers of the parent's own collectives.
        let meeting = Meeting { roster, context, tag: -1 - tag };
        let place = self.reserve_comm(comm)?;
        Ok(self.agree(Some(place), comm, members, meeting, Meanwhile::Waits))
    }

    /// Waits for a communicator that is being made. Functions of the program that are due meanwhile have to wait.
    pub fn make(&mut self, made: Made) -> Result<Option<CommId>> {
        if let Some(request) = made.request {
            self.until(|mpi| mpi.test(request))?;
        }
        Ok(made.comm)
    }

    fn split(&mut self, comm: CommId, color: Option<u64>, key: i32) -> Result<Made> {
        let mine = color.unwrap_or(NO_COLOR);
        let Meeting { roster, context, tag } = self.meet(comm)?;
        let place = color.map(|_| self.reserve_comm(comm)).transpose()?;
        let (agreement, word) = self.numbers.begin(!self.threaded);
        let at = roster.place(self.cores);
        let mut round = self.fresh(roster);
        (round.context, round.tag) = (context, tag);
        allgather(&mut round.schedule, at, SPLIT_WORDS * WORD);
        round.staging.reserve((at.size as usize + 1) * SPLIT_WORDS * WORD);
        for (index, word) in [mine, key as u32 as u64, word].into_iter().enumerate() {
            round.staging.set_word(index, word);
        }
        let all = round.staging.as_recv().shifted((SPLIT_WORDS * WORD) as isize);
        (round.input, round.output) = (round.staging.as_send(), all);
        Ok(self.carry_on(
            comm,
            Making { place, who: Who::OfColor(mine), agreement, round, before: None, end: None },
        ))
    }

    pub(super) fn agree(
        &mut self,
        place: Option<CommId>,
        parent: CommId,
        members: Members,
        meeting: Meeting,
        meanwhile: Meanwhile,
    ) -> Made {
        let making = self.agreement(place, members, meeting, meanwhile);
        self.carry_on(parent, making)
    }

    /// An agreement that has not begun.
    fn agreement(
        &mut self,
        place: Option<CommId>,
        members: Members,
        meeting: Meeting,
        meanwhile: Meanwhile,
    ) -> Making {
        let alone = meanwhile == Meanwhile::Waits && !self.threaded;
        let (agreement, word) = self.numbers.begin(alone);
        let mut round = self.fresh(meeting.roster);
        (round.context, round.tag) = (meeting.context, meeting.tag);
        self.largest_word(&mut round, word);
        Making { place, who: Who::Known(members), agreement, round, before: None, end: None }
    }

    /// A round in which everybody hears the largest word.
    fn largest_word(&self, round: &mut Collective, word: u64) {
        let place = round.roster.place(self.cores);
        round.combine = kernel(OpId::MAX, Meaning::Integer, Scalar::U64).map(Combine::Kernel);
        round.schedule.clear();
        allreduce(&mut round.schedule, place, Elements { count: 1, unit: WORD, commutes: true });
        round.staging.reserve(2 * WORD);
        round.staging.set_word(0, word);
        (round.input, round.output) =
            (round.staging.as_send(), round.staging.as_recv().shifted(WORD as isize));
        round.restart(round.tag);
    }

    fn carry_on(&mut self, parent: CommId, mut making: Making) -> Made {
        let comm = making.place;
        if let Some(check) = &self.check {
            making.round.ticket = check.take_ticket(making.round.context, making.round.tag);
        }
        let id = self.add_request(Request::new(parent, State::Making(Box::new(making))));
        self.running.push(id);
        self.advance_one(id);
        Made { request: Some(id), comm }
    }

    /// Goes on as far as possible. Is it at its end?
    pub(super) fn advance_making(&mut self, making: &mut Making) -> bool {
        let edges = match making.round.admit() {
            Answer::Waiting => return false,
            Answer::Fine => self.advance_edges(making),
            Answer::Fault => Ok(true),
        };
        match edges {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                self.numbers.abandon();
                making.end = Some(Err(error));
                making.place.into_iter().for_each(|place| self.forget_comm(place));
                return true;
            }
        }
        while making.round.advance(&mut self.endpoint) == Advance::Done {
            let heard = making.round.status().map(|_| self.hear_round(making));
            match heard {
                Ok(Heard::Again(word)) => {
                    self.largest_word(&mut making.round, word);
                    continue;
                }
                Ok(Heard::Agreed(number)) => making.end = Some(self.settle(making, number)),
                Ok(Heard::Exhausted) => {
                    making.end = Some(Err(MpiError::new(ErrorClass::Other, "there were 2^31 communicators")));
                }
                Err(error) => {
                    self.numbers.abandon();
                    making.end = Some(Err(error));
                }
            }
            if let (Some(Err(_)), Some(place)) = (&making.end, making.place) {
                self.forget_comm(place);
            }
            return true;
        }
        false
    }

    /// Goes on with what comes before the agreement. Is it at its end?
    fn advance_edges(&mut self, making: &mut Making) -> Result<bool> {
        let Some(before) = &mut making.before else { return Ok(true) };
        let Some(edges) = before.advance(&mut self.endpoint)? else { return Ok(false) };
        making.before = None;
        if let Some(place) = making.place {
            self.comm_mut(place)?.topology = Some(Rc::new(Topology::Distributed(edges)));
        }
        Ok(true)
    }

    /// A round has ended.
    fn hear_round(&mut self, making: &mut Making) -> Heard {
        let staging = &making.round.staging;
        let word = match making.who {
            Who::Known(_) => staging.word(1),
            Who::OfColor(mine) => {
                let roster = &making.round.roster;
                let words = |rank: u32| {
                    let at = (rank as usize + 1) * SPLIT_WORDS;
                    [staging.word(at), staging.word(at + 1), staging.word(at + 2)]
                };
                let all: Vec<[u64; SPLIT_WORDS]> = (0..roster.size).map(words).collect();
                let mut chosen: Vec<(i32, u32)> = (0u32..)
                    .zip(&all)
                    .filter(|(_, [color, ..])| *color == mine)
                    .map(|(rank, [_, key, _])| (*key as u32 as i32, rank))
                    .collect();
                chosen.sort_unstable();
                let members = chosen.iter().map(|(_, rank)| roster.members.at(*rank).0).collect();
                making.who = Who::Known(Members::listed(members));
                all.iter().map(|[.., word]| *word).max().unwrap_or(0)
            }
        };
        self.numbers.hear(&mut making.agreement, word)
    }

    /// The number is agreed on.
    fn settle(&mut self, making: &mut Making, number: u32) -> Result<()> {
        let (Some(place), Who::Known(members)) = (making.place, &making.who) else { return Ok(()) };
        let roster = Roster::new(members.clone(), self.endpoint.rank(), number);
        self.comm_mut(place)?.roster = Rc::new(roster);
        Ok(())
    }

    /// Members of a communicator meet at its next collective.
    fn meet(&mut self, comm: CommId) -> Result<Meeting> {
        let tag = self.next_sequence(comm)?;
        let roster = self.comm(comm)?.roster.clone();
        let context = roster.collective_context();
        if self.check.is_some() {
            self.announce_making(comm, tag)?;
        }
        Ok(Meeting { roster, context, tag })
    }

    /// A place for a new communicator; error handler and session are those of the parent.
    fn reserve_comm(&mut self, parent: CommId) -> Result<CommId> {
        let Comm { errhandler: handler, session, .. } = *self.comm(parent)?;
        registry().errhandler_retain(handler)?;
        let me = self.endpoint.rank();
        // Nobody may use it yet, so that the numbers of messages to itself will do.
        let mut comm = Comm::new(Members::alone(me), me, CommId::SELF.0, "");
        (comm.errhandler, comm.session) = (handler, session);
        Ok(CommId(self.comms.insert(comm)))
    }

    fn check_inside(&self, comm: CommId, members: &Members) -> Result<()> {
        let parent = &self.comm(comm)?.roster.members;
        match members.iter().find(|process| !parent.contains(*process)) {
            Some(process) => fail(ErrorClass::Group, format!("process {process} is not in the communicator")),
            None => Ok(()),
        }
    }
}
