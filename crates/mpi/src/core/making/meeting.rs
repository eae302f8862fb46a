//! Intercommunicators with processes of another job: accepted, called, spawned, or joined over a socket.
//!
//! The roots talk over a stream of their own ([`net::Meeting`]), each for its group, and pass on what they hear. From
//! then on all know each other, and agree on a number as two groups of one job do.
use super::inter::FAILED;
use super::*;
use crate::core::dynamic::Meet;
use proto::coll::inter::tell;

/// What goes before the description of the members: the root among them, its number that nobody had before, and its
/// host as the kernel knows it.
const HEAD_WORDS: usize = 4;
/// What a root puts before it for its own group: the key that both jobs share, and what the two launchers call the
/// roots' host if that is one (else zeros).
const KEY_WORDS: usize = 4;
const HOST_WORDS: usize = 4;

/// Reasons that those hear who were not at the meeting.
const NO_PORT: u64 = 0;
const NO_SPAWN: u64 = 1;

impl Mpi {
    /// Collective over `comm`: its processes and those of another job get an intercommunicator. `how` they are met is
    /// the root's to say.
    pub fn start_meeting(&mut self, comm: CommId, root: i32, how: Meet<'_>) -> Result<Made> {
        self.one_group(comm, "a meeting")?;
        let size = self.comm_size(comm)?;
        if root as u32 >= size {
            return fail(ErrorClass::Root, format!("root {root} in a communicator of {size}"));
        }
        let (mut meeting, place) = (self.meet(comm)?, self.reserve_comm(comm)?);
        meeting.leaders = Some(Leaders { own: root as u32, other: size });
        let local = meeting.roster.members.clone();
        let stage = Stage::Lengths { local: local.clone(), list: Vec::new() };
        let mut making = self.begin(Some(place), stage, meeting, Meanwhile::Waits);
        making.meets = Some(Meets::default());
        if making.round.roster.rank == root as u32 {
            self.begin_meeting(&mut making, local, root, how);
        } else {
            self.tell_words(&mut making, 1);
        }
        Ok(self.carry_on(comm, making))
    }

    fn begin_meeting(&mut self, making: &mut Making, local: Members, root: i32, how: Meet<'_>) {
        let chance = net::chance();
        let [host, space] = self.endpoint.kernel_host();
        let mut words = vec![root as u64, chance, host, space];
        words.extend(self.describe(&local, None));
        let mine = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        making.meets = Some(Meets { chance, ..Meets::default() });
        match self.go_to_meeting(how, mine) {
            Ok(with) => {
                self.endpoint.expect_meetings(1);
                making.stage = Stage::Meeting { local, with: Box::new(with) };
            }
            Err(error) => self.end_meeting(making, Err(error)),
        }
    }

    /// Goes on with a meeting, if there is one. Is it over?
    pub(super) fn advance_meeting(&mut self, making: &mut Making) -> bool {
        let Stage::Meeting { local, with } = &mut making.stage else { return true };
        let heard = match with.poll(&mut self.endpoint) {
            Ok(None) => return false,
            Ok(Some(heard)) => Ok(heard),
            Err(error) => Err(error.into()),
        };
        self.endpoint.expect_meetings(-1);
        making.stage = Stage::Lengths { local: local.clone(), list: Vec::new() };
        self.end_meeting(making, heard);
        true
    }

    /// The root tells its group how it went.
    fn end_meeting(&mut self, making: &mut Making, heard: Result<(Vec<u8>, [u8; 32])>) {
        let heard = heard.and_then(|(bytes, key)| {
            let words = |bytes: &[u8]| -> Vec<u64> {
                let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
                bytes.chunks_exact(WORD).map(word).collect()
            };
            let (mut told, theirs) = (words(&key), words(&bytes));
            let Some((head, list)) = theirs.split_first_chunk::<HEAD_WORDS>() else { return nonsense() };
            // At once: the other root may call before this group has heard of it.
            let remote = self.recognize(list, Some(key))?;
            let host = self.one_host(head, &remote);
            self.share_host(host);
            told.extend(host.into_iter().chain(theirs));
            Ok(told)
        });
        let meets = making.meets.get_or_insert_default();
        let length = match heard {
            Ok(words) => {
                meets.theirs = words;
                meets.theirs.len() as u64
            }
            Err(error) => {
                let reason = if error.class == ErrorClass::Spawn { NO_SPAWN } else { NO_PORT };
                meets.failed = Some(error);
                FAILED + reason
            }
        };
        self.tell_words(making, 1);
        making.round.staging.set_word(0, length);
    }

    /// What the launchers call the host of both roots, if it is one host.
    fn one_host(&self, head: &[u64; HEAD_WORDS], remote: &Members) -> [u64; HOST_WORDS] {
        let [root, _, kernel @ ..] = *head;
        let root = u32::try_from(root).ok().filter(|root| *root < remote.len());
        let peer = root.and_then(|root| self.endpoint.peer_of(remote.at(root)));
        let theirs = peer.and_then(|peer| self.endpoint.launchers_host(peer));
        match (self.endpoint.launchers_host(self.endpoint.me()), theirs) {
            (Some([a, b]), Some([c, d])) if kernel == self.endpoint.kernel_host() => [a, b, c, d],
            _ => [0; HOST_WORDS],
        }
    }

    fn share_host(&mut self, [mine, space, theirs, their_space]: [u64; HOST_WORDS]) {
        if [mine, space] != [0, 0] {
            self.endpoint.share_host([mine, space], [theirs, their_space]);
        }
    }

    /// The error for a process of the group.
    pub(super) fn failed_meeting(&self, making: &mut Making, reason: u64) -> MpiError {
        let own = making.meets.as_mut().and_then(|meets| meets.failed.take());
        own.unwrap_or_else(|| match reason {
            NO_SPAWN => MpiError::new(ErrorClass::Spawn, "the root could not have processes started"),
            _ => MpiError::new(ErrorClass::Port, "the root could not meet another job"),
        })
    }

    /// A round in which all hear so many words of the root.
    pub(super) fn tell_words(&self, making: &mut Making, words: usize) {
        let Making { round, leaders, meets, .. } = making;
        let leader = leaders.expect("there is a root").own;
        let place = round.roster.place(self.cores);
        round.schedule.clear();
        tell(&mut round.schedule, place, leader, words * WORD);
        lay_out(round, &[], words);
        let theirs = meets.iter().flat_map(|meets| &meets.theirs).take(words);
        theirs.enumerate().for_each(|(index, word)| round.staging.set_word(index, *word));
    }

    /// Who the others are; from now on the roots talk directly.
    pub(super) fn hear_stranger(
        &mut self,
        making: &mut Making,
        local: &Members,
        list: &[u64],
    ) -> Result<Members> {
        let Some((words, list)) = list.split_first_chunk::<KEY_WORDS>() else { return nonsense() };
        let Some((&host, list)) = list.split_first_chunk::<HOST_WORDS>() else { return nonsense() };
        let Some((&[root, chance, ..], list)) = list.split_first_chunk::<HEAD_WORDS>() else {
            return nonsense();
        };
        self.share_host(host);
        let mut key = [0; KEY_WORDS * WORD];
        for (part, word) in key.chunks_exact_mut(WORD).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        let remote = self.recognize(list, Some(key))?;
        if root >= u64::from(remote.len()) {
            return fail(ErrorClass::Intern, "a root that is no member");
        }
        let own = making.meets.as_ref().map_or(0, |meets| meets.chance);
        let context = self.comm(CommId::SELF)?.roster.collective_context();
        making.round.across = Some(Envelope { context, tag: (chance ^ own) as i32 });
        if let Some(leaders) = &mut making.leaders {
            leaders.other = local.len() + root as u32;
        }
        let roster = Roster::between(local.clone(), remote.clone(), self.me(), 0);
        making.round.roster = Rc::new(roster);
        Ok(remote)
    }
}

#[cold]
fn nonsense<T>() -> Result<T> {
    fail(ErrorClass::Intern, "a root that says what makes no sense")
}
