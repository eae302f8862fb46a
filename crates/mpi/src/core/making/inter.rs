//! Intercommunicators: two groups that do not know each other yet, and what can be made of one.
//!
//! The leaders tell each other their lists of members ([`super::super::identity`]) and pass them on; then all agree on
//! a number, as in one group.
use super::meeting::{Failure, failed_meeting};
use super::*;
use proto::coll::inter::swap;

/// Words of a list at most.
const LIST_WORDS_MAX: u64 = 1 << 28;
/// Tags of leaders that meet in a communicator begin below those of groups that do.
const LEADERS_TAG: i32 = -1 - (1 << 30);
/// Apart from other uses of the context in which groups meet without a communicator.
const GROUPS_SALT: u64 = 0x1b87_3593_cc9e_2d51;

/// How a leader reaches the other one.
#[derive(Clone, Copy, Debug)]
pub struct Bridge {
    /// A communicator that has both.
    pub comm: CommId,
    /// The rank of the other leader there.
    pub remote_leader: i32,
    /// Tells it from other intercommunicators that are made over the same bridge.
    pub tag: i32,
}

impl Mpi {
    /// Collective over two groups: an intercommunicator of this one and the one behind the bridge, which only the
    /// leader has to know.
    pub fn start_intercomm(&mut self, comm: CommId, leader: i32, bridge: Bridge) -> Result<Made> {
        self.one_group(comm, "an intercommunicator of it")?;
        let size = self.comm_size(comm)?;
        if leader as u32 >= size {
            return fail(ErrorClass::Rank, format!("leader {leader} in a communicator of {size}"));
        }
        let mut other = None;
        if self.comm_rank(comm)? == leader as u32 {
            check_tag(bridge.tag)?;
            let roster = &self.comm(bridge.comm)?.roster;
            let across = Envelope { context: roster.collective_context(), tag: LEADERS_TAG - bridge.tag };
            other = Some((roster.process(bridge.remote_leader)?, across));
        }
        let meeting = self.meet(comm)?;
        let local = meeting.roster.members.clone();
        let place = self.reserve_comm(comm)?;
        let meeting = self.bridged(meeting, leader as u32, other);
        Ok(self.exchange_lists(Some(place), comm, local, meeting))
    }

    /// As [`Mpi::start_intercomm`], for groups without communicators: `name` tells it from others that the same
    /// processes make. `remote` is the other group and the rank of its leader, which only the leader has to know.
    pub fn start_intercomm_of_groups(
        &mut self,
        group: GroupId,
        leader: i32,
        remote: Option<(GroupId, i32)>,
        name: &str,
    ) -> Result<Made> {
        let (local, me) = (self.members(group)?.clone(), self.me());
        let Some(rank) = local.rank_of(me) else {
            return fail(ErrorClass::Group, "this process is not in its local group");
        };
        if leader as u32 >= local.len() {
            return fail(ErrorClass::Rank, format!("leader {leader} in a group of {}", local.len()));
        }
        // Nobody else sends in the context of messages to itself.
        let context = self.comm(CommId::SELF)?.roster.collective_context();
        let tag = name_tag(name);
        let mut other = None;
        if let Some((group, remote_leader)) = remote.filter(|_| rank == leader as u32) {
            let remote = self.members(group)?;
            if remote_leader as u32 >= remote.len() {
                return fail(
                    ErrorClass::Rank,
                    format!("remote leader {remote_leader} in a group of {}", remote.len()),
                );
            }
            other = Some((remote.at(remote_leader as u32), Envelope { context, tag }));
        }
        let roster = Rc::new(Roster::new(local.clone(), me, 0));
        let place = self.reserve_comm(CommId::SELF)?;
        self.comm_mut(place)?.session = self.session_of_group(group);
        let meeting = Meeting { roster, context, tag, leaders: None, across: None };
        let meeting = self.bridged(meeting, leader as u32, other);
        Ok(self.exchange_lists(Some(place), CommId::SELF, local, meeting))
    }

    /// Collective over both groups of an intercommunicator: one communicator of all. The group that is `high` comes
    /// behind the one that is not.
    pub fn start_merge(&mut self, comm: CommId, high: bool) -> Result<Made> {
        let meeting = self.meet(comm)?;
        let roster = &meeting.roster;
        let Some(local) = &roster.local else {
            return fail(ErrorClass::Comm, "it is not an intercommunicator");
        };
        // Both sides must come to the same order.
        let first = |members: &Members| self.endpoint.peer_of(members.at(0));
        let (groups, high) = match first(local) < first(&roster.members) {
            true => ([local.clone(), roster.members.clone()], [u64::from(high), 0]),
            false => ([roster.members.clone(), local.clone()], [0, u64::from(high)]),
        };
        let place = self.reserve_comm(comm)?;
        Ok(self.agree(Some(place), comm, Who::Merged { groups, high }, meeting, Meanwhile::Waits))
    }

    /// A meeting of one group whose leader also talks to another one.
    fn bridged(&self, meeting: Meeting, leader: u32, other: Option<(Process, Envelope)>) -> Meeting {
        let local = meeting.roster.members.clone();
        let remote = other.map_or(Members::EMPTY, |(process, _)| Members::alone(process));
        let leaders = Some(Leaders { own: leader, other: local.len() });
        let roster = Rc::new(Roster::between(local, remote, self.me(), 0));
        Meeting { roster, leaders, across: other.map(|(_, across)| across), ..meeting }
    }

    /// Begins to tell the other side who is in this one's part of the new intercommunicator.
    pub(super) fn exchange_lists(
        &mut self,
        place: Option<CommId>,
        parent: CommId,
        local: Members,
        meeting: Meeting,
    ) -> Made {
        let speaks = meeting.leaders.is_some_and(|leaders| leaders.own == meeting.roster.rank);
        let list =
            if speaks { self.describe(&local, self.job_of_remote(&meeting.roster)) } else { Vec::new() };
        let length = list.len() as u64;
        let mut making = self.begin(place, Stage::Lengths { local, list }, meeting, Meanwhile::Waits);
        self.swap_words(&mut making, &[length], 1);
        self.carry_on(parent, making)
    }

    /// The length of the other side's list is known.
    pub(super) fn hear_length(&mut self, making: &mut Making) -> Result<()> {
        let words = making.round.staging.word(if making.meets.is_some() { 0 } else { 1 });
        if let Some(failure) = Failure::from_word(words) {
            return Err(failed_meeting(making, failure));
        }
        if words > LIST_WORDS_MAX {
            return fail(ErrorClass::Intern, format!("a list of members of {words} words"));
        }
        let Stage::Lengths { local, list } = &mut making.stage else { unreachable!("lengths are heard") };
        let (local, list) = (local.clone(), std::mem::take(list));
        if making.meets.is_some() {
            making.stage = Stage::Lists { local, own_words: 0, words: words as usize };
            self.tell_words(making, words as usize);
            return Ok(());
        }
        making.stage = Stage::Lists { local, own_words: list.len(), words: words as usize };
        self.swap_words(making, &list, words as usize);
        Ok(())
    }

    /// The other side's list is known: who is in it, and is it another one?
    pub(super) fn hear_list(&mut self, making: &mut Making) -> Result<()> {
        let Stage::Lists { local, own_words, words } = &making.stage else { unreachable!("lists are heard") };
        let list: Vec<u64> =
            (*own_words..own_words + words).map(|at| making.round.staging.word(at)).collect();
        let local = local.clone();
        let remote = match making.meets {
            None => self.recognize(&list, None)?,
            Some(_) => self.hear_stranger(making, &local, &list)?,
        };
        if let Some(both) = remote.iter().find(|process| local.contains(*process)) {
            return fail(ErrorClass::Comm, format!("process {both} would be in both groups"));
        }
        // Of a part of this side that is empty nothing is left to talk to; the other side comes to the same.
        let remote = if local.len() == 0 { Members::EMPTY } else { remote };
        making.stage = Stage::Number(Who::Two { local, remote });
        let word = making.word;
        self.largest_word(making, word);
        Ok(())
    }

    /// The job of the leader that is talked to, if it is known.
    fn job_of_remote(&self, roster: &Roster) -> Option<net::Job> {
        let leader = roster.members.iter().next()?;
        self.endpoint.peer_of(leader).map(net::Peer::job)
    }

    fn swap_words(&self, making: &mut Making, given: &[u64], taken: usize) {
        let Making { round, leaders, .. } = making;
        let leaders = leaders.expect("there are two groups");
        let place = round.roster.place(self.cores);
        round.schedule.clear();
        swap(&mut round.schedule, place, leaders, given.len() * WORD, taken * WORD);
        lay_out(round, given, taken);
    }
}

/// The tag of a meeting by name (FNV-1a).
fn name_tag(name: &str) -> i32 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ GROUPS_SALT, mix);
    (hash ^ hash >> 32) as i32
}
