//! PMI-2: frames, one question at a time from each thread of a client.
use super::{RequestContext, Said, Woken, nonsense};
use proto::board::Got;
use proto::lane::Bytes;
use proto::pmi::KEY_MAPPING;
use proto::pmi2::{
    self, Abort, AnswerError, AttributeAnswer, Event, KEY_UNIVERSE_SIZE, Reply, Request, RequestId, Session,
    Spawn, Verb, Wait, rc,
};
use proto::tree::{Answer, Pair, PmiState, Question, SpawnCommand, SpawnWish};

/// Most error codes in the answer to a spawn; beyond that, none at all says the same.
const ERRCODES_MAX: u32 = 4096;

/// A client that speaks PMI-2, or has not said anything yet.
#[derive(Debug)]
pub(super) struct Two {
    session: Session,
    state: PmiState,
    fence: Option<RequestId>,
    /// Keys that the board looks for.
    gets: Vec<(RequestId, Vec<u8>)>,
    /// Questions to the launcher.
    asked: Vec<(RequestId, Verb)>,
}

impl Default for Two {
    fn default() -> Self {
        Two {
            session: Session::new(),
            state: PmiState::Unused,
            fence: None,
            gets: Vec::new(),
            asked: Vec::new(),
        }
    }
}

impl Two {
    pub(super) fn state(&self) -> PmiState {
        self.state
    }

    /// Takes what was read. If that turns out to be another version, it is given back.
    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Said> {
        self.session.push(bytes).map_err(nonsense)?;
        self.pump(context, out)
    }

    fn pump(&mut self, context: &mut RequestContext<'_>, out: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Said> {
        while let Some(event) = self.session.next_event(out).map_err(nonsense)? {
            match event {
                Event::OtherVersion(bytes) => return Ok(Some(bytes)),
                Event::Asked { request: Request::Abort(abort), .. } => return Err(aborted(&abort)),
                Event::Asked { id, request } => {
                    if let Some(reply) = self.take(id, request, context) {
                        self.answer(id, &reply, out);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Answers later than at once, and goes on with what was held back.
    fn resume(
        &mut self,
        id: RequestId,
        reply: &Reply,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        self.answer(id, reply, out);
        self.pump(context, out).map(|_| ())
    }

    fn answer(&mut self, id: RequestId, reply: &Reply, out: &mut Vec<u8>) {
        match self.session.answer(id, reply, out) {
            // Too long: the session has said so.
            Ok(()) | Err(AnswerError::TooLong(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// The answer, if there is one at once.
    fn take(&mut self, id: RequestId, request: Request, context: &mut RequestContext<'_>) -> Option<Reply> {
        let verb = request.verb();
        let refused = |rc, message: &dyn ToString| Some(Reply::refused(verb, rc, &message.to_string()));
        Some(match request {
            Request::FullInit(_) => {
                self.state = PmiState::Active;
                full_init(context)
            }
            Request::JobGetId => Reply::JobId(context.group.name.clone().into_bytes()),
            Request::JobConnect { .. } | Request::JobDisconnect { .. } => {
                return refused(rc::FAIL, &"jobs here have no access to each other's keys");
            }
            Request::GetJobAttribute { key } => Reply::JobAttribute(job_attribute(context, &key)),
            Request::Put { key, value } => match context.board.put(context.slot, &key, &value) {
                Ok(()) => Reply::Put,
                Err(error) => return refused(rc::OTHER, &error),
            },
            Request::Fence => match context.board.enter(context.slot) {
                Ok(()) => {
                    self.fence = Some(id);
                    return None;
                }
                Err(error) => return refused(rc::OTHER, &error),
            },
            Request::Get { job, key, .. } => return self.get(id, job.as_deref(), &key, context),
            Request::PutNodeAttribute { key, value } => return Some(put_attribute(context, &key, &value)),
            Request::GetNodeAttribute { key, wait } => return get_attribute(context, id, &key, wait),
            Request::Publish { name, port } => {
                return self.ask(id, verb, Question::Publish { service: name, port }, context);
            }
            Request::Unpublish { name } => {
                return self.ask(id, verb, Question::Unpublish { service: name }, context);
            }
            Request::Lookup { name } => {
                return self.ask(id, verb, Question::Lookup { service: name }, context);
            }
            Request::Spawn(spawn) => {
                return self.ask(id, verb, Question::Spawn(wish(spawn, context)), context);
            }
            Request::Finalize => {
                self.state = PmiState::Finalized;
                Reply::Finalized
            }
            Request::Abort(_) => unreachable!("aborts are seen to before"),
        })
    }

    fn get(
        &mut self,
        id: RequestId,
        job: Option<&[u8]>,
        key: &[u8],
        context: &mut RequestContext<'_>,
    ) -> Option<Reply> {
        if job.is_some_and(|job| job != context.group.name.as_bytes()) {
            return Some(Reply::refused(Verb::Get, rc::INVALID_ARG, "keys of another job cannot be read"));
        }
        match context.board.get(context.slot, key) {
            Ok(Got::Value(value)) => Some(Reply::Got(Some(value.to_vec()))),
            Ok(Got::Absent) => Some(Reply::Got(None)),
            Ok(Got::Later) => {
                self.gets.push((id, key.to_vec()));
                None
            }
            Err(error) => Some(Reply::refused(Verb::Get, rc::OTHER, &error.to_string())),
        }
    }

    fn ask(
        &mut self,
        id: RequestId,
        verb: Verb,
        question: Question,
        context: &mut RequestContext<'_>,
    ) -> Option<Reply> {
        match context.ask(id, question) {
            Ok(()) => {
                self.asked.push((id, verb));
                None
            }
            Err(reason) => Some(Reply::refused(verb, rc::OTHER, &reason)),
        }
    }

    /// A fence is over.
    pub(super) fn release(
        &mut self,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        match self.fence.take() {
            Some(id) => self.resume(id, &Reply::Fenced, context, out),
            None => Ok(()),
        }
    }

    /// The board knows a key that was asked for.
    pub(super) fn got(
        &mut self,
        key: &[u8],
        value: Option<&Bytes>,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        let Some(at) = self.gets.iter().position(|(_, wanted)| wanted == key) else { return Ok(()) };
        let id = self.gets.remove(at).0;
        self.resume(id, &Reply::Got(value.map(|value| value.to_vec())), context, out)
    }

    /// The launcher answered.
    pub(super) fn answered(
        &mut self,
        id: RequestId,
        answer: &Answer,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        let Some(at) = self.asked.iter().position(|asked| asked.0 == id) else { return Ok(()) };
        let verb = self.asked.remove(at).1;
        let refused = |rc, message: &str| Reply::refused(verb, rc, message);
        let reply = match answer {
            Answer::Done if verb == Verb::Publish => Reply::Published,
            Answer::Done => Reply::Unpublished,
            Answer::Found(port) => Reply::Found(port.clone()),
            Answer::NotFound => refused(rc::FAIL, "service_not_found"),
            Answer::Taken => refused(rc::FAIL, "key_already_present"),
            Answer::Full => refused(rc::OTHER, "too_many_names"),
            Answer::Spawned { name, processes } => spawned(name, *processes),
            Answer::NotSpawned(reason) => refused(rc::OTHER, reason),
        };
        self.resume(id, &reply, context, out)
    }

    /// An attribute that was waited for is there.
    pub(super) fn wake(
        &mut self,
        woken: &Woken,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        self.resume(woken.request, &Reply::NodeAttribute(Some(woken.value.clone())), context, out)
    }
}

fn full_init(context: &RequestContext<'_>) -> Reply {
    Reply::FullInit {
        rank: context.rank.0,
        size: context.group.ranks(),
        appnum: context.group.section_of(context.rank) as i32,
        spawner: context.group.spawner.as_ref().map(|name| name.clone().into_bytes()),
    }
}

fn job_attribute(context: &RequestContext<'_>, key: &[u8]) -> Option<Vec<u8>> {
    if key == KEY_MAPPING.as_bytes() {
        Some(context.mapping().into_bytes())
    } else if key == KEY_UNIVERSE_SIZE.as_bytes() {
        context.tree.universe.map(|size| size.to_string().into_bytes())
    } else {
        None
    }
}

fn put_attribute(context: &mut RequestContext<'_>, key: &[u8], value: &[u8]) -> Reply {
    match context.attributes.put(key, value) {
        Ok(waiters) => {
            let woken = |(slot, request)| Woken { slot, request, value: value.to_vec() };
            context.woken.extend(waiters.into_iter().map(woken));
            Reply::NodeAttributePut
        }
        Err(error) => Reply::refused(Verb::PutNodeAttribute, rc::OTHER, &error.to_string()),
    }
}

fn get_attribute(context: &mut RequestContext<'_>, id: RequestId, key: &[u8], wait: Wait) -> Option<Reply> {
    match context.attributes.get(key, wait, (context.slot, id)) {
        Ok(AttributeAnswer::Found(value)) => Some(Reply::NodeAttribute(Some(value.to_vec()))),
        Ok(AttributeAnswer::NotFound) => Some(Reply::NodeAttribute(None)),
        Ok(AttributeAnswer::Later) => None,
        Err(error) => Some(Reply::refused(Verb::GetNodeAttribute, rc::OTHER, &error.to_string())),
    }
}

fn wish(spawn: Spawn, context: &RequestContext<'_>) -> SpawnWish {
    let pairs = |pairs: Vec<pmi2::Pair>| -> Vec<Pair> {
        pairs.into_iter().map(|pair| Pair { key: pair.key, value: pair.value }).collect()
    };
    let command = |command: pmi2::SpawnCommand| SpawnCommand {
        processes: command.processes,
        program: command.program,
        args: command.args,
        infos: pairs(command.infos),
    };
    let commands = spawn.commands.into_iter().map(command).collect();
    SpawnWish { by: context.group.member(context.rank), commands, preputs: pairs(spawn.preputs) }
}

fn spawned(name: &[u8], processes: u32) -> Reply {
    let codes = if processes <= ERRCODES_MAX { processes } else { 0 };
    Reply::Spawned { job: name.to_vec(), errcodes: vec![0; codes as usize] }
}

/// `libpmi2` has no field for the code, but MPICH's family says it in words:
/// "application called MPI_Abort(MPI_COMM_WORLD, 7) - process 0".
fn aborted(abort: &Abort) -> Said {
    let message = String::from_utf8_lossy(&abort.message).into_owned();
    let code = abort.exit_code.or_else(|| code_in_words(&message)).unwrap_or(1);
    Said::Abort(code, message)
}

fn code_in_words(message: &str) -> Option<i32> {
    let (_, call) = message.split_once("MPI_Abort(")?;
    let (arguments, _) = call.split_once(')')?;
    arguments.rsplit(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_abort_may_be_in_its_words() {
        let code = |exit_code, message: &str| match aborted(&Abort {
            world: true,
            exit_code,
            message: message.into(),
        }) {
            Said::Abort(code, _) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(None, "application called MPI_Abort(MPI_COMM_WORLD, 7) - process 0"), 7);
        assert_eq!(code(Some(9), "application called MPI_Abort(MPI_COMM_WORLD, 7) - process 0"), 9);
        assert_eq!(code(None, "MPI_Abort(x, y) of something else"), 1);
        assert_eq!(code(None, "no luck"), 1);
    }
}
