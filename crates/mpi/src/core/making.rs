//! New communicators: their members agree on a number, step by step, while other things go on.
//!
//! Every way to make one begins here and is a request from then on. The communicator has its id at once; it can be used
//! when the request is complete. Where two groups make an intercommunicator, one leader of each talks to the other
//! ([`inter`]).
mod inter;
mod meeting;

pub use inter::Bridge;

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
use net::{Envelope, Process, Span};
use proto::coll::inter::{Leaders, agree, table};
use proto::coll::{Elements, Operands, allgather, allreduce};
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
    stage: Stage,
    agreement: Agreement,
    /// What this process says in the first round about the number.
    word: u64,
    /// Who speaks for each of two groups, if there are two.
    leaders: Option<Leaders>,
    /// If another job is met: what only the root knows of it.
    meets: Option<Meets>,
    round: Box<Collective>,
    /// What comes before the agreement: the processes of a distributed graph learn of their edges.
    before: Option<Box<Edges>>,
    end: Option<Result<()>>,
}

/// What the present round is about.
enum Stage {
    /// Everybody's color, key and first word: the members are those of this color, in the order of their keys.
    Colors(u64),
    /// How long the other leader's list of members is.
    Lengths { local: Members, list: Vec<u64> },
    /// The other leader's list of members.
    Lists { local: Members, own_words: usize, words: usize },
    /// The root of one job meets that of another; the rest of its group is a stage ahead and waits.
    Meeting { local: Members, with: Box<net::Meeting> },
    /// The number of the communicator.
    Number(Who),
}

/// A meeting with another job.
#[derive(Default)]
struct Meets {
    /// A number that nobody had before.
    chance: u64,
    /// What the other side says.
    theirs: Vec<u64>,
    /// How many processes are to be started, if any.
    wanted: Option<u32>,
    failed: Option<MpiError>,
}

/// The members.
pub(super) enum Who {
    One(Members),
    Two {
        local: Members,
        remote: Members,
    },
    /// Two groups that become one: all know which is listed first here. What each says about being the higher one.
    Merged {
        groups: [Members; 2],
        high: [u64; 2],
    },
}

/// No word of an agreement.
const UNREACHED: u64 = u64::MAX;
/// No color: others are shorter.
const NO_COLOR: u64 = u64::MAX;
const WORD: usize = size_of::<u64>();
/// Words that a process gives in the first round of a split: color, key, and its word of the agreement.
const SPLIT_WORDS: usize = 3;

impl Making {
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// What its members exchange at the moment.
    pub(super) fn round(&self) -> &Collective {
        &self.round
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
    pub(super) leaders: Option<Leaders>,
    /// What messages between the leaders carry, if that is something else.
    pub(super) across: Option<Envelope>,
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
        let roster = &meeting.roster;
        let who = match &roster.local {
            None => Who::One(roster.members.clone()),
            Some(local) => Who::Two { local: local.clone(), remote: roster.members.clone() },
        };
        let place = self.reserve_comm(comm)?;
        let old = self.comm(comm)?;
        let (topology, info) = (old.topology.clone(), old.info.clone());
        let new = self.comm_mut(place)?;
        (new.topology, new.info) = (topology, info);
        Ok(self.agree(Some(place), comm, who, meeting, meanwhile))
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
        if self.comm(comm)?.roster.members.reaches(self.cores.ranks) {
            self.one_group(comm, "a split by nodes of two jobs")?;
        }
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
        self.one_group(comm, "a split by hardware")?;
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
        let inside = members.contains(self.me());
        let meeting = self.meet(comm)?;
        let place = inside.then(|| self.reserve_comm(comm)).transpose()?;
        if meeting.roster.is_inter() {
            return Ok(self.exchange_lists(place, comm, members, meeting));
        }
        Ok(self.agree(place, comm, Who::One(members), meeting, Meanwhile::Waits))
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
        Ok(self.agree(place, comm, Who::One(members), meeting, Meanwhile::Waits))
    }

    /// Collective over `comm`: a communicator of the same processes, which learn of their edges first.
    pub(super) fn start_after(&mut self, comm: CommId, before: Edges) -> Result<Made> {
        let meeting = self.meet(comm)?;
        let members = meeting.roster.members.clone();
        let place = self.reserve_comm(comm)?;
        let mut making = self.agreement(Some(place), Who::One(members), meeting, Meanwhile::Waits);
        making.before = Some(Box::new(before));
        Ok(self.carry_on(comm, making))
    }

    /// Collective over `group` only.
    pub fn start_create_group(&mut self, comm: CommId, group: GroupId, tag: i32) -> Result<Made> {
        check_tag(tag)?;
        self.one_group(comm, "a communicator of a group")?;
        let members = self.members(group)?.clone();
        self.check_inside(comm, &members)?;
        if !members.contains(self.me()) {
            return Ok(Made { request: None, comm: None });
        }
        let context = self.comm(comm)?.roster.collective_context();
        let roster = Rc::new(Roster::new(members.clone(), self.me(), 0));
        // Negative tags are apart from the sequence numbers of the parent's own collectives.
        let meeting = Meeting { roster, context, tag: -1 - tag, leaders: None, across: None };
        let place = self.reserve_comm(comm)?;
        Ok(self.agree(Some(place), comm, Who::One(members), meeting, Meanwhile::Waits))
    }

    /// Waits for a communicator that is being made. Functions of the program that are due meanwhile have to wait.
    pub fn make(&mut self, made: Made) -> Result<Option<CommId>> {
        if let Some(request) = made.request {
            self.until(Focus::One(request), |mpi| mpi.test(request))?;
        }
        Ok(self.made(made))
    }

    /// What was made, once its request is complete. Between two groups it may be nothing: nobody is there of the other.
    pub fn made(&mut self, made: Made) -> Option<CommId> {
        let comm = made.comm?;
        if self.comm(comm).is_ok_and(|comm| comm.roster.size > 0) {
            return Some(comm);
        }
        self.forget_comm(comm);
        None
    }

    fn split(&mut self, comm: CommId, color: Option<u64>, key: i32) -> Result<Made> {
        let mine = color.unwrap_or(NO_COLOR);
        let meeting = self.meet(comm)?;
        let place = color.map(|_| self.reserve_comm(comm)).transpose()?;
        let mut making = self.begin(place, Stage::Colors(mine), meeting, Meanwhile::Waits);
        let (round, row) = (&mut making.round, SPLIT_WORDS * WORD);
        let at = round.roster.place(self.cores);
        let sides = round.roster.sides(self.cores);
        match sides {
            None => allgather(&mut round.schedule, at, row),
            Some(sides) => table(&mut round.schedule, sides, row),
        }
        let rows = at.size as usize + sides.map_or(0, |sides| sides.remote as usize);
        round.staging.reserve((rows + 1) * row);
        for (index, word) in [mine, key as u32 as u64, making.word].into_iter().enumerate() {
            round.staging.set_word(index, word);
        }
        let all = round.staging.as_recv().shifted(row as isize);
        (round.input, round.output) = (round.staging.as_send(), all);
        Ok(self.carry_on(comm, making))
    }

    pub(super) fn agree(
        &mut self,
        place: Option<CommId>,
        parent: CommId,
        who: Who,
        meeting: Meeting,
        meanwhile: Meanwhile,
    ) -> Made {
        let making = self.agreement(place, who, meeting, meanwhile);
        self.carry_on(parent, making)
    }

    /// An agreement that has not begun.
    fn agreement(
        &mut self,
        place: Option<CommId>,
        who: Who,
        meeting: Meeting,
        meanwhile: Meanwhile,
    ) -> Making {
        let mut making = self.begin(place, Stage::Number(who), meeting, meanwhile);
        let word = making.word;
        self.largest_word(&mut making, word);
        making
    }

    fn begin(
        &mut self,
        place: Option<CommId>,
        stage: Stage,
        meeting: Meeting,
        meanwhile: Meanwhile,
    ) -> Making {
        let alone = meanwhile == Meanwhile::Waits && !self.threaded;
        let (agreement, word) = self.numbers.begin(alone);
        let mut round = self.fresh(meeting.roster);
        (round.context, round.tag, round.across) = (meeting.context, meeting.tag, meeting.across);
        Making {
            place,
            stage,
            agreement,
            word,
            leaders: meeting.leaders,
            meets: None,
            round,
            before: None,
            end: None,
        }
    }

    /// A round in which everybody hears the largest word (and what two groups say that become one).
    fn largest_word(&self, making: &mut Making, word: u64) {
        let Making { round, leaders, stage, .. } = making;
        let words = match stage {
            Stage::Number(Who::Merged { high: [first, second], .. }) => vec![word, *first, *second],
            _ => vec![word],
        };
        let place = round.roster.place(self.cores);
        round.combine = kernel(OpId::MAX, Meaning::Integer, Scalar::U64).map(Combine::Kernel);
        round.schedule.clear();
        let data = Elements { count: words.len(), unit: WORD, commutes: true, operands: Operands::Apart };
        match leaders {
            None => allreduce(&mut round.schedule, place, data),
            Some(leaders) => agree(&mut round.schedule, place, *leaders, data),
        }
        lay_out(round, &words, words.len());
        // If a leader cannot reach the other one, its group hears this.
        (words.len()..2 * words.len()).for_each(|index| round.staging.set_word(index, UNREACHED));
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
        let edges = match making.round.admit(&self.endpoint) {
            Answer::Waiting => return false,
            Answer::Fine if !self.advance_meeting(making) => return false,
            Answer::Fine => self.advance_edges(making),
            Answer::Fault => {
                self.give_up_meeting(making);
                Ok(true)
            }
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
            let heard = making.round.status().and_then(|_| self.hear_round(making));
            match heard {
                Ok(None) => continue,
                Ok(Some(Heard::Again(word))) => {
                    self.largest_word(making, word);
                    continue;
                }
                Ok(Some(Heard::Agreed(number))) => making.end = Some(self.settle(making, number)),
                Ok(Some(Heard::Exhausted)) => {
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

    /// A round has ended. `None`: the next one is prepared.
    fn hear_round(&mut self, making: &mut Making) -> Result<Option<Heard>> {
        let word = match &mut making.stage {
            Stage::Colors(mine) => {
                let (mine, rows) = (*mine, rows(&making.round));
                let word = rows.iter().map(|[.., word]| *word).max().unwrap_or(0);
                making.stage = Stage::Number(of_color(&making.round.roster, &rows, mine));
                word
            }
            Stage::Lengths { .. } => return self.hear_length(making).map(|()| None),
            Stage::Lists { .. } => return self.hear_list(making).map(|()| None),
            Stage::Meeting { .. } => unreachable!("it has no round"),
            Stage::Number(Who::Merged { high, .. }) => {
                *high = [making.round.staging.word(4), making.round.staging.word(5)];
                making.round.staging.word(3)
            }
            Stage::Number(_) => making.round.staging.word(1),
        };
        if word == UNREACHED {
            return fail(ErrorClass::Other, "the other group could not be reached");
        }
        Ok(Some(self.numbers.hear(&mut making.agreement, word)))
    }

    /// The number is agreed on.
    fn settle(&mut self, making: &mut Making, number: u32) -> Result<()> {
        let (Some(place), Stage::Number(who)) = (making.place, &making.stage) else { return Ok(()) };
        let me = self.me();
        let roster = match who {
            Who::One(members) => Roster::new(members.clone(), me, number),
            Who::Two { remote, .. } if remote.len() == 0 => Roster::void(),
            Who::Two { local, remote } => Roster::between(local.clone(), remote.clone(), me, number),
            Who::Merged { groups: [a, b], high } => {
                let (low, high) = if high[0] > high[1] { (b, a) } else { (a, b) };
                Roster::new(low.filtered(|_| true, high), me, number)
            }
        };
        let roster = Rc::new(roster);
        if making.meets.is_some() {
            self.bind(&roster);
        }
        for job in self.jobs_of(&roster) {
            self.endpoint.span(roster.context(), job, Span::Messages);
            self.endpoint.span(roster.collective_context(), job, Span::Collectives);
        }
        self.comm_mut(place)?.roster = roster;
        Ok(())
    }

    /// Members of a communicator meet at its next collective.
    fn meet(&mut self, comm: CommId) -> Result<Meeting> {
        let tag = self.next_sequence(comm)?;
        let roster = self.comm(comm)?.roster.clone();
        if self.check.is_some() {
            self.announce_making(comm, tag)?;
        }
        let (context, leaders) =
            (roster.collective_context(), roster.sides(self.cores).map(|sides| sides.leaders()));
        Ok(Meeting { roster, context, tag, leaders, across: None })
    }

    /// A place for a new communicator; error handler and session are those of the parent.
    fn reserve_comm(&mut self, parent: CommId) -> Result<CommId> {
        let Comm { errhandler: handler, session, .. } = *self.comm(parent)?;
        registry().errhandler_retain(handler)?;
        let me = self.me();
        // Nobody may use it yet, so that the numbers of messages to itself will do.
        let mut comm = Comm::new(Members::alone(me), me, CommId::SELF.0, "");
        (comm.errhandler, comm.session) = (handler, session);
        Ok(CommId(self.comms.insert(comm)))
    }

    fn check_inside(&self, comm: CommId, members: &Members) -> Result<()> {
        let parent = self.comm(comm)?.roster.local();
        match members.iter().find(|process| !parent.contains(*process)) {
            Some(process) => fail(ErrorClass::Group, format!("process {process} is not in the communicator")),
            None => Ok(()),
        }
    }
}

/// The memory of a round: `given` words go in, and `taken` come out behind them.
fn lay_out(round: &mut Collective, given: &[u64], taken: usize) {
    round.staging.reserve((given.len() + taken) * WORD);
    given.iter().enumerate().for_each(|(index, word)| round.staging.set_word(index, *word));
    let out = round.staging.as_recv().shifted((given.len() * WORD) as isize);
    (round.input, round.output) = (round.staging.as_send(), out);
    round.restart(round.tag);
}

/// What everybody has said in the first round of a split: the own group first, then the other one.
fn rows(round: &Collective) -> Vec<[u64; SPLIT_WORDS]> {
    let remote = if round.roster.is_inter() { round.roster.size } else { 0 };
    let row = |rank: u32| {
        let at = (rank as usize + 1) * SPLIT_WORDS;
        [round.staging.word(at), round.staging.word(at + 1), round.staging.word(at + 2)]
    };
    (0..round.roster.local().len() + remote).map(row).collect()
}

fn of_color(roster: &Roster, rows: &[[u64; SPLIT_WORDS]], mine: u64) -> Who {
    let (own, others) = rows.split_at(roster.local().len() as usize);
    let chosen = |members: &Members, rows: &[[u64; SPLIT_WORDS]]| {
        let mut chosen: Vec<(i32, u32)> = (0u32..)
            .zip(rows)
            .filter(|(_, [color, ..])| *color == mine)
            .map(|(rank, [_, key, _])| (*key as u32 as i32, rank))
            .collect();
        chosen.sort_unstable();
        Members::listed(chosen.iter().map(|(_, rank)| members.at(*rank).0).collect())
    };
    let local = chosen(roster.local(), own);
    match roster.is_inter() {
        false => Who::One(local),
        true => Who::Two { local, remote: chosen(&roster.members, others) },
    }
}
