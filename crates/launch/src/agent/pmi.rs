//! The PMI-1 service for one rank.
use super::asks::Asks;
use crate::job::{Group, Tree};
use proto::board::{Board, Got};
use proto::ids::Rank;
use proto::lane::Bytes;
use proto::pmi::{KEY_MAPPING, Lines, Maxes, Reply, Request, Spawn, Verb};
use proto::tree::{Answer, Pair, PmiState, Question, SpawnCommand, SpawnWish};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

/// What names of key-value spaces and keys may be, with their terminating zeros.
const KVSNAME_MAX: u32 = 256;
const KEY_MAX: u32 = 64;
/// Replies a client may leave unread. It works in lock-step, so more is nonsense.
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// Requests that a client may send before it has its answer.
const HELD_MAX: usize = 64;
/// Programs of one spawn.
const COMMANDS_MAX: usize = 1024;
const READ_BYTES: usize = 16 << 10;

/// A rank's side of the conversation.
#[derive(Debug)]
pub(crate) struct PmiClient {
    fd: Option<OwnedFd>,
    token: u64,
    lines: Lines,
    unsent: Vec<u8>,
    state: PmiState,
    waits: Option<Waits>,
    /// What it sent while it waits.
    held: VecDeque<Vec<u8>>,
    /// The blocks of a spawn so far.
    commands: Vec<SpawnCommand>,
    preputs: Vec<Pair>,
    interest: Interest,
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Barrier,
    Get,
    Answer(Verb),
}

/// What a rank said that is not for its agent alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It wants the job to end.
    Abort(i32, String),
    /// It broke the protocol.
    Nonsense(String),
}

/// What the service needs to serve a rank.
pub(crate) struct Desk<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) group: &'a Group,
    pub(crate) rank: Rank,
    pub(crate) slot: u32,
    pub(crate) seat: u32,
    pub(crate) board: &'a mut Board,
    pub(crate) asks: &'a mut Asks,
}

impl PmiClient {
    pub(crate) fn new(token: u64) -> Self {
        PmiClient {
            fd: None,
            token,
            lines: Lines::default(),
            unsent: Vec::new(),
            state: PmiState::Unused,
            waits: None,
            held: VecDeque::new(),
            commands: Vec::new(),
            preputs: Vec::new(),
            interest: Interest::Read,
        }
    }

    pub(crate) fn open(&mut self, fd: OwnedFd, poll: &Poll) -> io::Result<()> {
        socket::set_nonblocking(fd.as_fd())?;
        poll.add(fd.as_fd(), self.token, Interest::Read)?;
        self.fd = Some(fd);
        Ok(())
    }

    pub(crate) fn close(&mut self, poll: &Poll) {
        if let Some(fd) = self.fd.take() {
            let _ = poll.remove(fd.as_fd());
        }
    }

    pub(crate) fn state(&self) -> PmiState {
        self.state
    }

    /// Reads and answers what is there.
    pub(crate) fn serve(&mut self, desk: &mut Desk<'_>, poll: &Poll) -> io::Result<Option<Said>> {
        let mut bytes = [0; READ_BYTES];
        while let Some(fd) = &self.fd {
            match socket::read(fd.as_fd(), &mut bytes)? {
                Transfer::Bytes(n) => {
                    if let Err(said) = self.hear(&bytes[..n], desk) {
                        self.flush(poll)?;
                        self.close(poll);
                        return Ok(Some(said));
                    }
                }
                Transfer::WouldBlock => break,
                Transfer::Closed => self.close(poll),
            }
        }
        self.flush(poll)?;
        Ok(None)
    }

    fn hear(&mut self, bytes: &[u8], desk: &mut Desk<'_>) -> Result<(), Said> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(bytes).map_err(nonsense)?;
        while let Some(message) = lines.next_message() {
            self.hear_message(message, desk)?;
        }
        self.lines = lines;
        Ok(())
    }

    /// A client works in lock-step; what it sends while it waits is kept for later, but for an abort.
    fn hear_message(&mut self, message: &[u8], desk: &mut Desk<'_>) -> Result<(), Said> {
        let request = Request::parse(message).map_err(nonsense)?;
        if self.waits.is_none() || matches!(request, Request::Abort { .. }) {
            return self.answer(request, desk);
        }
        if self.held.len() >= HELD_MAX {
            return Err(Said::Nonsense(format!("more than {HELD_MAX} requests without waiting for answers")));
        }
        self.held.push_back(message.to_vec());
        Ok(())
    }

    /// What it waited for is there: goes on with what it sent meanwhile.
    fn resume(&mut self, desk: &mut Desk<'_>, poll: &Poll) -> io::Result<Option<Said>> {
        self.waits = None;
        while self.waits.is_none()
            && let Some(message) = self.held.pop_front()
        {
            if let Err(said) = self.hear_message(&message, desk) {
                self.flush(poll)?;
                self.close(poll);
                return Ok(Some(said));
            }
        }
        self.flush(poll)?;
        Ok(None)
    }

    fn answer(&mut self, request: Request<'_>, desk: &mut Desk<'_>) -> Result<(), Said> {
        match request {
            Request::Init { version: 1, .. } => {
                self.state = PmiState::Active;
                self.reply(&Reply::Init { version: 1, subversion: 1 });
            }
            Request::Init { .. } => self.refuse(Verb::Init, b"only version 1 is spoken here"),
            Request::GetMaxes => {
                let value = desk.tree.value_max;
                self.reply(&Reply::Maxes(Maxes { kvsname: KVSNAME_MAX, key: KEY_MAX, value }));
            }
            Request::GetAppnum => self.reply(&Reply::Appnum(desk.group.section_of(desk.rank) as i32)),
            Request::GetMyKvsname => self.reply(&Reply::KvsName(desk.group.name.as_bytes())),
            Request::GetUniverseSize => self.reply(&Reply::UniverseSize(desk.tree.universe)),
            Request::Put { kvsname, key, value } => self.put(desk, kvsname, key, value),
            Request::Get { kvsname, key } => self.get(desk, kvsname, key)?,
            Request::Barrier => {
                self.waits = Some(Waits::Barrier);
                desk.board.enter(desk.slot).map_err(nonsense)?;
            }
            Request::Finalize => {
                self.state = PmiState::Finalized;
                self.reply(&Reply::Finalized);
            }
            Request::Abort { exit_code, message } => {
                return Err(Said::Abort(exit_code, String::from_utf8_lossy(message).into_owned()));
            }
            Request::Spawn(spawn) => self.spawn(&spawn, desk)?,
            Request::Publish { service, port } => {
                let (service, port) = (service.to_vec(), port.to_vec());
                self.ask(Verb::Publish, Question::Publish { service, port }, desk);
            }
            Request::Lookup { service } => {
                self.ask(Verb::Lookup, Question::Lookup { service: service.to_vec() }, desk);
            }
            Request::Unpublish { service } => {
                self.ask(Verb::Unpublish, Question::Unpublish { service: service.to_vec() }, desk);
            }
        }
        Ok(())
    }

    fn put(&mut self, desk: &mut Desk<'_>, kvsname: &[u8], key: &[u8], value: &[u8]) {
        // The limits count a terminating zero.
        if kvsname != desk.group.name.as_bytes() {
            self.refuse(Verb::Put, b"no such key-value space");
        } else if key.len() >= KEY_MAX as usize || value.len() >= desk.tree.value_max as usize {
            self.refuse(Verb::Put, b"key or value too long");
        } else if let Err(error) = desk.board.put(desk.slot, key, value) {
            self.refuse(Verb::Put, error.to_string().as_bytes());
        } else {
            self.reply(&Reply::Put);
        }
    }

    fn get(&mut self, desk: &mut Desk<'_>, kvsname: &[u8], key: &[u8]) -> Result<(), Said> {
        if kvsname != desk.group.name.as_bytes() {
            self.refuse(Verb::Get, b"no such key-value space");
        } else if key == KEY_MAPPING.as_bytes() {
            let mapping = desk.group.placement.mapping().to_string();
            self.reply(&Reply::Got(mapping.as_bytes()));
        } else {
            match desk.board.get(desk.slot, key).map_err(nonsense)? {
                Got::Value(value) => self.reply(&Reply::Got(&value)),
                Got::Absent => self.reply(&Reply::key_not_found()),
                Got::Later => self.waits = Some(Waits::Get),
            }
        }
        Ok(())
    }

    fn spawn(&mut self, spawn: &Spawn<'_>, desk: &mut Desk<'_>) -> Result<(), Said> {
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
            let wish = SpawnWish { by: desk.group.member(desk.rank), commands, preputs };
            self.ask(Verb::Spawn, Question::Spawn(wish), desk);
        }
        Ok(())
    }

    fn ask(&mut self, verb: Verb, question: Question, desk: &mut Desk<'_>) {
        match desk.asks.ask(desk.seat, question) {
            Ok(()) => self.waits = Some(Waits::Answer(verb)),
            Err(error) => self.refuse(verb, error.to_string().as_bytes()),
        }
    }

    /// The barrier that this rank is in is over.
    pub(crate) fn release(&mut self, desk: &mut Desk<'_>, poll: &Poll) -> io::Result<Option<Said>> {
        if self.waits != Some(Waits::Barrier) {
            return Ok(None);
        }
        self.reply(&Reply::BarrierOut);
        self.resume(desk, poll)
    }

    /// The board knows the key that this rank asked for.
    pub(crate) fn got(
        &mut self,
        value: Option<&Bytes>,
        desk: &mut Desk<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        if self.waits != Some(Waits::Get) {
            return Ok(None);
        }
        match value {
            Some(value) => self.reply(&Reply::Got(value)),
            None => self.reply(&Reply::key_not_found()),
        }
        self.resume(desk, poll)
    }

    /// The launcher answered.
    pub(crate) fn answered(
        &mut self,
        answer: &Answer,
        desk: &mut Desk<'_>,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        let Some(Waits::Answer(verb)) = self.waits else { return Ok(None) };
        match answer {
            Answer::Done if verb == Verb::Publish => self.reply(&Reply::Published),
            Answer::Done => self.reply(&Reply::Unpublished),
            Answer::Found(port) => self.reply(&Reply::Found(port)),
            Answer::NotFound => self.refuse_with(verb, 1, b"service_not_found"),
            Answer::Taken => self.refuse_with(verb, 1, b"key_already_present"),
            Answer::Full => self.refuse_with(verb, 1, b"too_many_names"),
            Answer::Spawned { .. } => self.reply(&Reply::Spawned),
            Answer::NotSpawned(reason) => self.refuse(verb, reason.as_bytes()),
        }
        self.resume(desk, poll)
    }

    fn reply(&mut self, reply: &Reply<'_>) {
        reply.emit(&mut self.unsent);
    }

    fn refuse(&mut self, verb: Verb, message: &[u8]) {
        self.refuse_with(verb, -1, message);
    }

    fn refuse_with(&mut self, verb: Verb, rc: i32, message: &[u8]) {
        self.reply(&Reply::Refused { verb, rc, message });
    }

    fn flush(&mut self, poll: &Poll) -> io::Result<()> {
        let Some(fd) = &self.fd else {
            self.unsent.clear();
            return Ok(());
        };
        let mut sent = 0;
        let mut closed = false;
        while sent < self.unsent.len() && !closed {
            match socket::write(fd.as_fd(), &self.unsent[sent..])? {
                Transfer::Bytes(n) => sent += n,
                Transfer::WouldBlock => break,
                Transfer::Closed => closed = true,
            }
        }
        self.unsent.drain(..sent);
        let wanted = if self.unsent.is_empty() { Interest::Read } else { Interest::ReadWrite };
        if wanted != self.interest {
            poll.change(fd.as_fd(), self.token, wanted)?;
            self.interest = wanted;
        }
        if closed || self.unsent.len() > UNREAD_BYTES_MAX {
            self.close(poll);
        }
        Ok(())
    }
}

fn nonsense(error: impl std::fmt::Display) -> Said {
    Said::Nonsense(error.to_string())
}
