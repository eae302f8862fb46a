//! What a program leaves behind: objects never freed, requests never completed, messages never received.
use super::super::slots::{Birth, Slots};
use super::*;

/// Lines about one kind of thing.
pub(super) const LINES_MAX: usize = 10;
/// Rounds of progress in which messages come that were sent before their senders came to the end.
const LAST_ROUNDS: u32 = 64;

/// One line for people.
pub(super) fn tell(me: net::Rank, words: &str) {
    eprintln!("banyan: check: rank {me}: {words}");
}

/// Not more than so many lines.
pub(in super::super) fn bounded(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more of these"));
    }
    lines
}

/// Who made something.
pub(super) fn maker(birth: Birth) -> &'static str {
    if birth.call.is_empty() { "the program" } else { birth.call }
}

/// Something is still there, in words.
pub(in super::super) fn never_freed(what: &str, birth: Birth) -> String {
    format!("{what} was never freed: number {} of its kind, made by {}", birth.number, maker(birth))
}

impl Mpi {
    /// The program has called everything it calls: everybody comes to this end, and what is left is told. Once. Gives an
    /// error if that makes the program fail.
    pub(in super::super) fn end_check(&mut self) -> Result<Option<MpiError>> {
        if self.check.is_none() {
            return Ok(None);
        }
        for (number, _) in self.numbered(&self.comms, CommId::SELF.0 + 1) {
            self.announce_end(CommId(number), "MPI_Finalize");
        }
        self.meet_at_end()?;
        // What was sent before is here, or on its way.
        for _ in 0..LAST_ROUNDS {
            self.progress();
        }
        let left = self.leftovers();
        left.iter().for_each(|words| tell(self.endpoint.rank(), words));
        let strict = self.rigor() == Some(Rigor::Fail);
        if strict {
            // Everybody tells first what it has to tell.
            self.meet_at_end()?;
        }
        self.release_handlers();
        self.running.retain(|other| *other != PRESENCE);
        let told = self.check.take().is_some_and(|check| check.told.get());
        let fails = strict && (told || !left.is_empty());
        let error = || MpiError::new(ErrorClass::Other, "something was left at the end (--check=strict)");
        Ok(fails.then(error))
    }

    /// Waits until all processes of the job are here.
    fn meet_at_end(&mut self) -> Result<()> {
        let tag = self.next_sequence(CommId::WORLD)?;
        let Some(told) = self.record(CommId::WORLD, "MPI_Finalize".into(), tag)? else { return Ok(()) };
        let ticket = self.tell(told, (0, 0));
        self.meet_all(&ticket)
    }

    /// Error handlers are left to the program until the process ends, but for those of communicators.
    fn release_handlers(&mut self) {
        for (number, _) in self.numbered(&self.comms, 0) {
            let released = self.comm_set_errhandler(CommId(number), ErrhandlerId::FATAL);
            debug_assert!(released.is_ok());
        }
    }

    /// What is left of a session that ends.
    #[cold]
    pub(in super::super) fn report_session(&self, session: SessionId) {
        let comms = self.comms.iter().filter(|(_, comm)| comm.session == Some(session));
        let comms =
            comms.map(|(number, _)| never_freed("a communicator of a session", self.comms.birth(number)));
        let groups = self.groups.iter().filter(|(_, group)| group.session == Some(session));
        let groups = groups.map(|(number, _)| never_freed("a group of a session", self.groups.birth(number)));
        for words in bounded(comms.collect()).iter().chain(&bounded(groups.collect())) {
            tell(self.endpoint.rank(), words);
            self.check.iter().for_each(|check| check.told.set(true));
        }
    }

    /// Everything that is left, a line each.
    fn leftovers(&self) -> Vec<String> {
        let of_session = |session: Option<SessionId>| session.is_some_and(|id| !self.session_exists(id));
        let shared = |ty: u32| self.f90_types.iter().any(|(_, f90)| f90.0 == ty);
        let windows = self.hall.left();
        let of_window = |comm: u32| windows.iter().any(|(_, own)| own.0 == comm);
        let lists = [
            self.requests_left(),
            windows.iter().map(|(birth, _)| never_freed("a window", *birth)).collect(),
            self.numbered(&self.comms, CommId::SELF.0 + 1)
                .into_iter()
                .filter(|(number, _)| !of_window(*number))
                .filter(|(number, _)| !of_session(self.comms.get(*number).and_then(|comm| comm.session)))
                // That of a spawned job with its parents was there before.
                .filter(|(_, birth)| birth.number > 0)
                .map(|(_, birth)| never_freed("a communicator", birth))
                .collect(),
            self.numbered(&self.groups, GroupId::EMPTY.0 + 1)
                .into_iter()
                .filter(|(number, _)| !of_session(self.groups.get(*number).and_then(|group| group.session)))
                .map(|(_, birth)| never_freed("a group", birth))
                .collect(),
            self.numbered(&self.types, TypeId::PREDEFINED)
                .into_iter()
                .filter(|(number, _)| !shared(*number))
                .map(|(_, birth)| never_freed("a datatype", birth))
                .collect(),
            all_left(self.numbered(&self.ops, 0), "a reduction operation"),
            self.numbered(&self.keyvals, 0)
                .into_iter()
                .filter(|(number, _)| self.keyvals.get(*number).is_some_and(|key| !key.freed))
                .map(|(_, birth)| never_freed("an attribute key", birth))
                .collect(),
            self.messages_left(),
        ];
        lists.into_iter().flat_map(bounded).collect()
    }

    fn requests_left(&self) -> Vec<String> {
        let left = self
            .requests
            .iter()
            .filter(|(number, _)| *number > RequestId::SENT.0 && !self.orphans.contains(&RequestId(*number)));
        let words = left.map(|(number, request)| {
            let birth = self.requests.birth(number);
            let how = match (request.recipe.is_some(), request.state.is_active()) {
                (true, true) => "a persistent request was still active",
                (true, false) => "a persistent request was never freed",
                (false, _) => "a request was never completed or freed",
            };
            format!("{how}: number {} of its kind, made by {}", birth.number, maker(birth))
        });
        words.collect()
    }

    /// Messages that nobody received, those that are alike together.
    fn messages_left(&self) -> Vec<String> {
        let mut alike: Vec<((String, i32, String), usize, usize)> = Vec::new();
        // Collectives have odd contexts, and the library's own messages negative tags.
        let programs = |(context, probed): &(u32, net::Probed)| context % 2 == 0 && probed.tag >= 0;
        for (context, probed) in self.endpoint.unexpected().filter(programs) {
            let comm = self.comms.iter().find(|(_, comm)| comm.roster.context() == context);
            let name = comm.map_or("a communicator that was freed".into(), |(number, _)| {
                self.comm_words(CommId(number))
            });
            let from =
                match comm.map(|(_, comm)| comm.roster.rank_of(self.endpoint.process_of(probed.source))) {
                    Some(Peer::Rank(rank)) => format!("rank {rank}"),
                    _ => format!("{}", self.endpoint.who(probed.source)),
                };
            let key = (from, probed.tag, name);
            match alike.iter_mut().find(|(known, ..)| *known == key) {
                Some((_, count, bytes)) => (*count, *bytes) = (*count + 1, *bytes + probed.bytes),
                None => alike.push((key, 1, probed.bytes)),
            }
        }
        let words = alike.into_iter().map(|((from, tag, comm), count, bytes)| {
            let many = if count == 1 { "1 message".into() } else { format!("{count} messages") };
            format!("{many} of {bytes} bytes from {from} with tag {tag} on {comm}: never received")
        });
        let probed = self
            .numbered(&self.messages, 0)
            .into_iter()
            .map(|(_, birth)| format!("a message that {} has taken was never received", maker(birth)));
        let own = (!self.buffers.is_idle()).then(|| "buffered messages were never received".to_string());
        words.chain(probed).chain(own).collect()
    }

    fn numbered<T>(&self, slots: &Slots<T>, from: u32) -> Vec<(u32, Birth)> {
        let numbers = slots.iter().map(|(number, _)| number).filter(|number| *number >= from);
        numbers.map(|number| (number, slots.birth(number))).collect()
    }
}

fn all_left(objects: Vec<(u32, Birth)>, what: &str) -> Vec<String> {
    objects.into_iter().map(|(_, birth)| never_freed(what, birth)).collect()
}
