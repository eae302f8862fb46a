//! Sessions: ways into MPI that need no world (MPI-5 11.3). They name sets of processes, from which groups and then
//! communicators are made.
use super::comm::{Comm, Roster};
use super::info::Pairs;
use super::making::{Meeting, Who};
use super::members::Members;
use super::*;
use crate::error::{ErrorClass, Result, fail};
use std::rc::Rc;

/// The sets of processes that every session knows.
pub const PROCESS_SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    errhandler: ErrhandlerId,
    info: Pairs,
}

impl Mpi {
    /// A new session with these hints.
    pub fn session_begin(&mut self, handler: ErrhandlerId, info: Pairs) -> Result<SessionId> {
        registry().errhandler_retain(handler)?;
        Ok(SessionId(self.sessions.insert(Session { errhandler: handler, info })))
    }

    /// The session ends. Its communicators should be gone.
    pub fn session_end(&mut self, session: SessionId) -> Result<()> {
        self.session(session)?;
        if self.check.is_some() {
            self.report_session(session);
        }
        self.drop_buffer(Holder::Session(session));
        if let Some(old) = self.sessions.remove(session.0) {
            registry().errhandler_release(old.errhandler);
        }
        Ok(())
    }

    /// Does the id name a session?
    pub fn session_exists(&self, session: SessionId) -> bool {
        self.sessions.get(session.0).is_some()
    }

    /// Its error handler.
    pub fn session_errhandler(&self, session: SessionId) -> Result<ErrhandlerId> {
        Ok(self.session(session)?.errhandler)
    }

    /// Sets its error handler.
    pub fn session_set_errhandler(&mut self, session: SessionId, handler: ErrhandlerId) -> Result<()> {
        self.session(session)?;
        registry().errhandler_retain(handler)?;
        if let Some(session) = self.sessions.get_mut(session.0) {
            let old = std::mem::replace(&mut session.errhandler, handler);
            registry().errhandler_release(old);
        }
        Ok(())
    }

    /// The hints in use, as a new info object.
    pub fn session_info(&self, session: SessionId) -> Result<InfoId> {
        let pairs = self.session(session)?.info.clone();
        Ok(registry().info_with(pairs))
    }

    /// The number of processes in a set.
    pub fn pset_size(&self, session: SessionId, name: &str) -> Result<u32> {
        Ok(self.pset(session, name)?.len())
    }

    /// The processes of a set, as a new group.
    pub fn group_from_pset(&mut self, session: SessionId, name: &str) -> Result<GroupId> {
        let members = self.pset(session, name)?;
        Ok(self.add_group(members, Some(session)))
    }

    /// Collective over the members of `group`, which tell concurrent calls apart by `tag`.
    pub fn start_create_from_group(
        &mut self,
        group: GroupId,
        tag: &str,
        handler: ErrhandlerId,
    ) -> Result<Made> {
        let (members, session) = (self.members(group)?.clone(), self.session_of_group(group));
        if members.len() == 0 {
            return Ok(Made { request: None, comm: None });
        }
        let me = self.me();
        if !members.contains(me) {
            return fail(ErrorClass::Group, "this process is not in the group");
        }
        registry().errhandler_retain(handler)?;
        let mut comm = Comm::new(Members::alone(me), me, CommId::SELF.0, "");
        (comm.errhandler, comm.session) = (handler, session);
        let place = CommId(self.comms.insert(comm));
        // No communicator is common to the members. Each uses the number of its MPI_COMM_SELF, in which nobody else sends.
        let context = self.comm(CommId::SELF)?.roster.collective_context();
        let tag = -1 - (digest(tag, &members) & TAG_UB as u32) as i32;
        let roster = Rc::new(Roster::new(members.clone(), me, CommId::SELF.0));
        let meeting = Meeting { roster, context, tag, leaders: None, across: None };
        Ok(self.agree(Some(place), CommId::SELF, Who::One(members), meeting, Meanwhile::Waits))
    }

    fn pset(&self, session: SessionId, name: &str) -> Result<Members> {
        self.session(session)?;
        // Scheme and host of a URI do not depend on case.
        match PROCESS_SETS.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            Some(0) => Ok(Members::world(self.endpoint.size())),
            Some(_) => Ok(Members::alone(self.me())),
            None => fail(ErrorClass::Arg, format!("there is no process set '{name}'")),
        }
    }

    fn session(&self, session: SessionId) -> Result<&Session> {
        match self.sessions.get(session.0) {
            Some(session) => Ok(session),
            None => fail(ErrorClass::Session, format!("there is no session {}", session.0)),
        }
    }
}

/// FNV-1a over the tag and the members. Calls at a time that differ in either get the same only by a chance of one to 2^30.
fn digest(tag: &str, members: &Members) -> u32 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let start = tag.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let all = members.iter().fold(start, |hash, process| process.0.to_le_bytes().into_iter().fold(hash, mix));
    (all ^ all >> 32) as u32
}
