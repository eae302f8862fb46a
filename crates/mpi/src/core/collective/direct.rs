//! The steps of a collective whose processes reach each other's memory.
//!
//! After a failure nothing is read or written any more, but the steps go on, so that the others find it out.
use super::Collective;
use crate::error::{ErrorClass, MpiError};
use net::{Endpoint, Process};
use proto::coll::token::{Meant, Reach, TOKEN_BYTES, Token, Verdict, verdict};
use proto::coll::{Remote, Shown, Slice, Space, Start, Table};
use std::num::NonZeroU32;

/// What [`Step::Decide`](proto::coll::Step::Decide) can come to.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    pub(super) direct: usize,
    pub(super) messages: usize,
    /// If somebody has to try first.
    pub(super) next: usize,
}

impl Collective {
    /// Writes the own token.
    pub(super) fn show(&mut self, endpoint: &Endpoint, shown: (Start, Start), meant: Meant, into: usize) {
        let here = endpoint.whereabouts();
        let reach = if here.is_some() { self.roster.reach.get() } else { Reach::Fails };
        let address = |start: Start| self.source(Slice { space: start.space, at: start.at, len: 0 }).addr();
        let token = Token {
            process: here.map_or(NonZeroU32::MIN, |here| here.process),
            rank: self.roster.rank,
            reach,
            secret_at: here.map_or(0, |here| here.secret_at),
            secret: here.map_or(0, |here| here.secret),
            input: address(shown.0),
            output: address(shown.1),
            meant,
        };
        let place = Slice { space: Space::Scratch, at: into, len: TOKEN_BYTES };
        self.target(place).copy_from_slice(&token.encode());
    }

    /// At which step it goes on.
    pub(super) fn decide(&mut self, endpoint: &mut Endpoint, table: Table, ways: Ways) -> usize {
        if self.has_failed() {
            // As all others, if this process has failed before it gave its token to anybody. If another one is lost in the
            // middle, the rest may not agree; then it is for whoever ends the job to end it.
            return ways.direct;
        }
        match verdict((0..table.members).map(|member| self.token(table, member))) {
            Verdict::Direct => {
                endpoint.note_direct();
                ways.direct
            }
            Verdict::Messages => {
                self.scratch.reserve(self.schedule.scratch_bytes_otherwise());
                ways.messages
            }
            Verdict::Try => ways.next,
            Verdict::Mismatch { other } => {
                let (rank, theirs) = (other.rank, other.meant.bytes);
                let first = self.token(table, 0).map_or(0, |token| token.meant.bytes);
                self.fail(if first != theirs {
                    let words = format!("rank {rank} takes part with {theirs} bytes, others with {first}");
                    MpiError::new(ErrorClass::Truncate, words)
                } else {
                    let words = format!("rank {rank} calls another collective, or with another root or cut");
                    MpiError::new(ErrorClass::NotSame, words)
                });
                ways.direct
            }
            Verdict::Nonsense => {
                self.fail(MpiError::new(ErrorClass::Intern, "a token that no process writes"));
                ways.direct
            }
        }
    }

    /// Tries to reach everybody.
    pub(super) fn attempt(&mut self, endpoint: &Endpoint, table: Table) {
        let found = |member| self.token(table, member).is_some_and(|token| endpoint.finds(&token));
        let reach = if (0..table.members).all(found) { Reach::Works } else { Reach::Fails };
        self.roster.reach.set(reach);
    }

    pub(super) fn read(&mut self, endpoint: &mut Endpoint, table: Table, from: Remote, into: Slice) {
        if let Some((who, process, from)) = self.place_of(table, from) {
            let read = endpoint.read_memory(who, process, from, self.target(into));
            read.unwrap_or_else(|error| self.fail_to_reach(error.into()));
        }
    }

    pub(super) fn write(&mut self, endpoint: &mut Endpoint, table: Table, from: Slice, into: Remote) {
        if let Some((who, process, into)) = self.place_of(table, into) {
            let written = endpoint.write_memory(who, process, self.source(from), into);
            written.unwrap_or_else(|error| self.fail_to_reach(error.into()));
        }
    }

    /// It is found out in the middle: from the next operation on all know it.
    #[cold]
    fn fail_to_reach(&mut self, error: MpiError) {
        self.roster.reach.set(Reach::Fails);
        self.fail(error);
    }

    /// Whose memory and which address; `None` after a failure.
    fn place_of(&self, table: Table, remote: Remote) -> Option<(Process, NonZeroU32, u64)> {
        if self.has_failed() {
            return None;
        }
        let token = self.token(table, remote.member)?;
        let start = match remote.shown {
            Shown::Input => token.input,
            Shown::Output => token.output,
        };
        Some((self.roster.members.at(token.rank), token.process, start.wrapping_add(remote.at as u64)))
    }

    fn token(&self, table: Table, member: u32) -> Option<Token> {
        let at = table.at + member as usize * TOKEN_BYTES;
        let mut bytes = [0; TOKEN_BYTES];
        self.source(Slice { space: Space::Scratch, at, len: TOKEN_BYTES }).copy_to(&mut bytes);
        Token::decode(&bytes)
    }

    fn has_failed(&self) -> bool {
        self.failed != ErrorClass::Success
    }
}
