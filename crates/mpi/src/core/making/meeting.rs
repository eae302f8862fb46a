//! Intercommunicators with processes of another job: accepted, called, spawned, or joined over a socket.
//!
//! The roots talk over a stream of their own ([`net::Meeting`]), each for its group, and pass on what they hear. From
//! then on all know each other, and agree on a number as two groups of one job do.
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

/// In place of a length: there is no list.
const FAILED: u64 = 1 << 63;
/// Below that, how many processes were wanted and one more (or 0), and the place of the error's class among all.
const PROCESSES_SHIFT: u32 = 16;

/// What those hear who were not at a meeting that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    class: ErrorClass,
    /// How many processes were to be started, if any.
    processes: Option<u32>,
}

impl Failure {
    fn to_word(self) -> u64 {
        let place = ErrorClass::ALL.iter().position(|class| *class == self.class);
        let class = place.unwrap_or(0) as u64; // only the program's own classes are not there
        FAILED | self.processes.map_or(0, |count| u64::from(count) + 1) << PROCESSES_SHIFT | class
    }

    /// `None`: it is a length.
    pub(super) fn from_word(word: u64) -> Option<Self> {
        let word = word.checked_sub(FAILED)?;
        let class = ErrorClass::ALL.get((word & ((1 << PROCESSES_SHIFT) - 1)) as usize);
        // Nobody fails with success.
        let class = class.copied().filter(|class| *class != ErrorClass::Success);
        let processes = (word >> PROCESSES_SHIFT).checked_sub(1).and_then(|count| u32::try_from(count).ok());
        Some(Failure { class: class.unwrap_or(ErrorClass::Other), processes })
    }
}

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
        making.meets = Some(Meets { chance, wanted: how.processes(), ..Meets::default() });
        match self.go_to_meeting(how, mine) {
            Ok(with) => {
                self.endpoint.expect_meeting(&with);
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
        self.endpoint.end_meeting(with);
        making.stage = Stage::Lengths { local: local.clone(), list: Vec::new() };
        self.end_meeting(making, heard);
        true
    }

    /// The others do not come to the meeting: it is not waited for.
    pub(super) fn give_up_meeting(&mut self, making: &mut Making) {
        if let Stage::Meeting { local, with } = &mut making.stage {
            with.give_up(&mut self.endpoint);
            self.endpoint.end_meeting(with);
            making.stage = Stage::Lengths { local: local.clone(), list: Vec::new() };
        }
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
                let failure = Failure { class: error.class, processes: meets.wanted };
                meets.failed = Some(error);
                failure.to_word()
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

/// The error for a process of the group: the root has its own, the others hear of it.
pub(super) fn failed_meeting(making: &mut Making, failure: Failure) -> MpiError {
    let own = making.meets.as_mut().and_then(|meets| meets.failed.take());
    let root = making.leaders.map_or(0, |leaders| leaders.own);
    own.unwrap_or_else(|| MpiError::at_root(failure.class, root, failure.processes))
}

#[cold]
fn nonsense<T>() -> Result<T> {
    fail(ErrorClass::Intern, "a root that says what makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_in_a_word_that_is_no_length() {
        for class in [ErrorClass::Spawn, ErrorClass::Arg, ErrorClass::Abi] {
            for processes in [None, Some(0), Some(3), Some(u32::MAX)] {
                let failure = Failure { class, processes };
                assert_eq!(Failure::from_word(failure.to_word()), Some(failure));
            }
        }
        assert_eq!([0, 1 << 28].map(Failure::from_word), [None; 2]);
        let other = Failure { class: ErrorClass::User(3), processes: None };
        assert_eq!(Failure::from_word(other.to_word()).unwrap().class, ErrorClass::Other);
        assert!(Failure::from_word(u64::MAX).is_some());
    }
}
