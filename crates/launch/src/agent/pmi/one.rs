//! PMI-1: lines, in lock-step.
use super::{RequestContext, Said, nonsense};
use proto::board::Got;
use proto::lane::Bytes;
use proto::pmi::{KEY_MAPPING, Lines, Maxes, Reply, Request, Spawn, Verb};
use proto::pmi2::RequestId;
use proto::tree::{Answer, Pair, PmiState, Question, SpawnCommand, SpawnWish};
use std::collections::VecDeque;

/// What names of key-value spaces and keys may be, with their terminating zeros.
const KVSNAME_MAX: u32 = 256;
const KEY_MAX: u32 = 64;
/// Requests that a client may send before it has its answer.
const HELD_MAX: usize = 64;
/// Programs of one spawn.
const COMMANDS_MAX: usize = 1024;
/// A client has one question at a time, so it needs no number.
const ONLY: RequestId = RequestId(0);

/// A client that speaks PMI-1.
#[derive(Debug)]
pub(super) struct One {
    lines: Lines,
    state: PmiState,
    waits: Option<Waits>,
    /// What it sent while it waits.
    held: VecDeque<Vec<u8>>,
    /// The blocks of a spawn so far.
    commands: Vec<SpawnCommand>,
    preputs: Vec<Pair>,
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Barrier,
    Get,
    Answer(Verb),
}

impl Default for One {
    fn default() -> Self {
        One {
            lines: Lines::default(),
            state: PmiState::Unused,
            waits: None,
            held: VecDeque::new(),
            commands: Vec::new(),
            preputs: Vec::new(),
        }
    }
}

impl One {
    pub(super) fn state(&self) -> PmiState {
        self.state
    }

    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(bytes).map_err(nonsense)?;
        while let Some(message) = lines.next_message() {
            self.hear_message(message, context, out)?;
        }
        self.lines = lines;
        Ok(())
    }

    /// What a client sends while it waits is kept for later, but for an abort.
    fn hear_message(
        &mut self,
        message: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        let request = Request::parse(message).map_err(nonsense)?;
        if self.waits.is_none() || matches!(request, Request::Abort { .. } | Request::Waiting { .. }) {
            return self.answer(request, context, out);
        }
        if self.held.len() >= HELD_MAX {
            return Err(Said::Nonsense(format!("more than {HELD_MAX} requests without waiting for answers")));
        }
        self.held.push_back(message.to_vec());
        Ok(())
    }

    /// What it waited for is there: goes on with what it sent meanwhile.
    fn resume(&mut self, context: &mut RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Said> {
        self.waits = None;
        while self.waits.is_none()
            && let Some(message) = self.held.pop_front()
        {
            self.hear_message(&message, context, out)?;
        }
        Ok(())
    }

    fn answer(
        &mut self,
        request: Request<'_>,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        match request {
            Request::Init { version: 1, .. } => {
                self.state = PmiState::Active;
                Reply::Init { version: 1, subversion: 1 }.emit(out);
            }
            // Version 2 would have been the first line.
            Request::Init { .. } => refuse(out, Verb::Init, b"only versions 1 and 2 are spoken here"),
            Request::GetMaxes => {
                let value = context.tree.value_max;
                Reply::Maxes(Maxes { kvsname: KVSNAME_MAX, key: KEY_MAX, value }).emit(out);
            }
            Request::GetAppnum => Reply::Appnum(context.group.section_of(context.rank) as i32).emit(out),
            Request::GetMyKvsname => Reply::KvsName(context.group.name.as_bytes()).emit(out),
            Request::GetUniverseSize => Reply::UniverseSize(context.tree.universe).emit(out),
            Request::Put { kvsname, key, value } => put(context, kvsname, key, value).emit(out),
            Request::Get { kvsname, key } => self.get(context, kvsname, key, out),
            Request::Barrier => {
                self.waits = Some(Waits::Barrier);
                context.board.enter(context.slot).map_err(nonsense)?;
            }
            Request::Finalize => {
                self.state = PmiState::Finalized;
                Reply::Finalized.emit(out);
            }
            Request::Abort { exit_code, message } => {
                return Err(Said::Abort(exit_code, String::from_utf8_lossy(message).into_owned()));
            }
            Request::Waiting { seconds } => *context.waiting = Some(seconds),
            Request::Spawn(spawn) => self.spawn(&spawn, context, out)?,
            Request::Publish { service, port } => {
                let (service, port) = (service.to_vec(), port.to_vec());
                self.ask(Verb::Publish, Question::Publish { service, port }, context, out);
            }
            Request::Lookup { service } => {
                self.ask(Verb::Lookup, Question::Lookup { service: service.to_vec() }, context, out);
            }
            Request::Unpublish { service } => {
                self.ask(Verb::Unpublish, Question::Unpublish { service: service.to_vec() }, context, out);
            }
        }
        Ok(())
    }

    fn get(&mut self, context: &mut RequestContext<'_>, kvsname: &[u8], key: &[u8], out: &mut Vec<u8>) {
        if kvsname != context.group.name.as_bytes() {
            return refuse(out, Verb::Get, b"no such key-value space");
        }
        if key == KEY_MAPPING.as_bytes() {
            return Reply::Got(context.mapping().as_bytes()).emit(out);
        }
        match context.board.get(context.slot, key) {
            Ok(Got::Value(value)) => Reply::Got(&value).emit(out),
            Ok(Got::Absent) => Reply::key_not_found().emit(out),
            Ok(Got::Later) => self.waits = Some(Waits::Get),
            Err(error) => refuse(out, Verb::Get, error.to_string().as_bytes()),
        }
    }

    fn spawn(
        &mut self,
        spawn: &Spawn<'_>,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        let pairs = |pairs: &[proto::pmi::Pair<'_>]| -> Vec<Pair> {
            pairs.iter().map(|pair| Pair { key: pair.key.to_vec(), value: pair.value.to_vec() }).collect()
        };
        if self.commands.len() >= COMMANDS_MAX {
            return Err(Said::Nonsense(format!("a spawn of more than {COMMANDS_MAX} programs")));
        }
        self.commands.push(SpawnCommand {
            processes: spawn.processes,
            program: spawn.program.to_vec(),
            args: spawn.args.iter().map(|arg| arg.to_vec()).collect(),
            infos: pairs(&spawn.infos),
        });
        // Some clients send them with every block, some only with the first.
        if self.preputs.is_empty() {
            self.preputs = pairs(&spawn.preputs);
        }
        if spawn.is_last() {
            let commands = std::mem::take(&mut self.commands);
            let preputs = std::mem::take(&mut self.preputs);
            let wish = SpawnWish { by: context.group.member(context.rank), commands, preputs };
            self.ask(Verb::Spawn, Question::Spawn(wish), context, out);
        }
        Ok(())
    }

    fn ask(&mut self, verb: Verb, question: Question, context: &mut RequestContext<'_>, out: &mut Vec<u8>) {
        match context.ask(ONLY, question) {
            Ok(()) => self.waits = Some(Waits::Answer(verb)),
            Err(reason) => refuse(out, verb, reason.as_bytes()),
        }
    }

    /// A barrier is over.
    pub(super) fn release(
        &mut self,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        if self.waits != Some(Waits::Barrier) {
            return Ok(());
        }
        Reply::BarrierOut.emit(out);
        self.resume(context, out)
    }

    /// The board knows the key that was asked for.
    pub(super) fn got(
        &mut self,
        value: Option<&Bytes>,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        if self.waits != Some(Waits::Get) {
            return Ok(());
        }
        value.map_or(Reply::key_not_found(), |value| Reply::Got(value)).emit(out);
        self.resume(context, out)
    }

    /// The launcher answered.
    pub(super) fn answered(
        &mut self,
        answer: &Answer,
        context: &mut RequestContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Said> {
        let Some(Waits::Answer(verb)) = self.waits else { return Ok(()) };
        let refused = |message| Reply::Refused { verb, rc: 1, message };
        let reply = match answer {
            Answer::Done if verb == Verb::Publish => Reply::Published,
            Answer::Done => Reply::Unpublished,
            Answer::Found(port) => Reply::Found(port),
            Answer::NotFound => refused(b"service_not_found"),
            Answer::Taken => refused(b"key_already_present"),
            Answer::Full => refused(b"too_many_names"),
            Answer::Spawned { .. } => Reply::Spawned,
            Answer::NotSpawned(reason) => Reply::Refused { verb, rc: -1, message: reason.as_bytes() },
        };
        reply.emit(out);
        self.resume(context, out)
    }
}

fn put(context: &mut RequestContext<'_>, kvsname: &[u8], key: &[u8], value: &[u8]) -> Reply<'static> {
    let refused = |message| Reply::Refused { verb: Verb::Put, rc: -1, message };
    if kvsname != context.group.name.as_bytes() {
        return refused(b"no such key-value space");
    }
    // The limits count a terminating zero.
    if key.len() >= KEY_MAX as usize {
        return refused(b"the key is too long");
    }
    if value.len() >= context.tree.value_max as usize {
        return refused(b"the value is too long");
    }
    match context.board.put(context.slot, key, value) {
        Ok(()) => Reply::Put,
        Err(_) => refused(b"the board is full"),
    }
}

fn refuse(out: &mut Vec<u8>, verb: Verb, message: &[u8]) {
    Reply::Refused { verb, rc: -1, message }.emit(out);
}
