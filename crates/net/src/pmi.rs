//! The client's side of PMI: how a process learns its rank, publishes its card and reads others'.
//!
//! One stream to the launcher's agent, answered in order. The grammar is `proto::pmi`; here are the
//! descriptor, the waiting, and errors that name the rank and what it was doing.
//!
//! Every wait for an answer is a switch to the agent and back, and at the start of a job all ranks of a node want
//! one. So a fence is split in two ([`Client::fence_begin`], [`Client::fence_end`]), and under Banyan's own
//! agent (which says so by `BANYAN_NODE`) questions whose answers are not needed at once are not waited for
//! either, and what the agent put into the environment is not asked: `PMI_JOBID` is the name of the key-value space
//! there, and `BANYAN_MAPPING` is the placement of ranks. So a process gets through init without once waiting for
//! the agent, which at that moment is busy with starting the others. Foreign servers may rely on PMI's lock-step,
//! so they get one question at a time. What the agent keeps on its board in memory (`BANYAN_BOARD`) is read there
//! ([`Client::get_here`]) without a word to the agent.
//!
//! PMI-1 is asked for first, because every known server speaks it (Slurm's PMI-2 plugin as well). A server that answers
//! with version 2, or refuses and then takes version 2, is spoken to in PMI-2: the stream translates, so that nothing
//! else here knows the difference. `BANYAN_PMI_VERSION=2` asks for version 2 at once.
//!
//! A closed stream is an error here and the end of the job; [`Client::is_closed`] watches for it.
mod board;
mod env;
mod stream;
mod two;

#[cfg(test)]
mod tests;

use board::Board;
use env::{AgentFacts, Contact};
use proto::ids::Rank;
use proto::meeting::service_word;
use proto::pmi::{KEY_MAPPING, Maxes, Reply, Request, Verb};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use stream::{Stream, StreamError};

pub use proto::pmi::{Pair as SpawnPair, Spawn};

/// The longest value that every known server takes (mpirun_rsh's limit, less its terminating zero), so that a
/// shorter one need not ask for limits first.
const VALUE_BYTES_SAFE: usize = 127;
/// Likewise for keys.
const KEY_BYTES_SAFE: usize = 63;
/// How long an abort waits for the end of a fence that a foreign server has not ended.
const ABORT_IN_FENCE_WAIT: Duration = Duration::from_millis(200);

/// A process's connection to its launcher.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    rank: Rank,
    size: u32,
    kvs_name: String,
    /// The placement of ranks, if the environment has it.
    mapping: Option<String>,
    maxes: Option<Maxes>,
    pace: Pace,
    /// Questions whose answers have not been read, oldest first.
    owed: VecDeque<Verb>,
    phase: Phase,
    board: Board,
    /// How spawns have ended, by their numbers, until somebody asks; and how many were begun.
    spawned: BTreeMap<u64, Result<(), PmiError>>,
    spawns_begun: u64,
}

/// May a question follow another before that is answered?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    LockStep,
    Ahead,
}

/// What the environment says about the first words.
#[derive(Debug)]
struct Greeting {
    /// Version to ask for.
    version: u32,
    /// The job's name, which PMI-2 repeats to the server.
    job: Option<String>,
}

/// Does the launcher still expect a finalize?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Finalized,
}

/// What Hydra tells of a spawned job whose placement it does not know.
const NO_MAPPING: &str = "(vector,0)";

/// Why PMI is of no use to this process. Every variant is the end of it.
#[derive(Debug, thiserror::Error)]
pub enum PmiError {
    /// A variable that the launcher should set is missing or makes no sense.
    #[error("{name}={value:?} in the environment: {why}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it holds (empty if it is not set).
        value: String,
        /// What it should be.
        why: String,
    },
    /// The launcher, or this node's agent, is gone.
    #[error("rank {rank}: the launcher closed the PMI connection during {during}")]
    Closed {
        /// This process.
        rank: Rank,
        /// What was asked.
        during: &'static str,
    },
    /// The stream failed.
    #[error("rank {rank}: PMI {during}: {source}")]
    Io {
        /// This process.
        rank: Rank,
        /// What was asked.
        during: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// The answer is no PMI.
    #[error("rank {rank}: PMI {during}: {why}")]
    BadAnswer {
        /// This process.
        rank: Rank,
        /// What was asked.
        during: &'static str,
        /// What is wrong with the answer.
        why: String,
    },
    /// The server said no.
    #[error("rank {rank}: PMI {during} refused (rc {rc}): {message}")]
    Refused {
        /// This process.
        rank: Rank,
        /// What was asked.
        during: &'static str,
        /// The server's code.
        rc: i32,
        /// The server's word.
        message: String,
    },
    /// Longer than the server takes.
    #[error("rank {rank}: PMI {what} of {bytes} bytes, the launcher takes at most {max}")]
    TooLong {
        /// This process.
        rank: Rank,
        /// Key or value.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The server's limit.
        max: usize,
    },
    /// The launcher's placement of ranks cannot be used.
    #[error("rank {rank}: the launcher's placement of ranks: {why}")]
    Placement {
        /// This process.
        rank: Rank,
        /// What is wrong with it.
        why: String,
    },
}

impl Client {
    /// Connects as the environment says and introduces itself; `None` if no launcher left a trace there.
    pub fn from_env() -> Result<Option<Self>, PmiError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, PmiError> {
        let agent = env::agent(&get)?;
        let greeting = Greeting { version: env::version(&get)?, job: get("PMI_JOBID") };
        match env::contact(get)? {
            None => Ok(None),
            Some(Contact::Descriptor { fd, rank, size }) => {
                Self::start(open(fd, rank)?, rank, size, agent, &greeting).map(Some)
            }
            Some(Contact::Address { stream, rank }) => {
                let mut stream = open(stream.into(), rank)?;
                let size = introduce(&mut stream, rank)?;
                Self::start(stream, rank, size, agent, &greeting).map(Some)
            }
        }
    }

    /// Init, and the name of the key-value space.
    fn start(
        stream: Stream,
        rank: Rank,
        size: u32,
        agent: Option<AgentFacts>,
        greeting: &Greeting,
    ) -> Result<Self, PmiError> {
        let pace = if agent.is_some() { Pace::Ahead } else { Pace::LockStep };
        let AgentFacts { kvs_name, mapping, board } = agent.unwrap_or_default();
        let mut client = Client {
            stream,
            rank,
            size,
            kvs_name: String::new(),
            mapping,
            maxes: None,
            pace,
            owed: VecDeque::new(),
            phase: Phase::Open,
            board,
            spawned: BTreeMap::new(),
            spawns_begun: 0,
        };
        match pace {
            Pace::Ahead => client.tell(&Request::Init { version: 1, subversion: 1 })?,
            Pace::LockStep => client.greet(greeting)?,
        }
        client.kvs_name = match kvs_name {
            Some(name) => name,
            None => client.ask(&Request::GetMyKvsname, |reply| match reply {
                Reply::KvsName(name) => Some(text(name)),
                _ => None,
            })?,
        };
        Ok(client)
    }

    /// Finds the version that the server speaks: the wanted one, or the other.
    fn greet(&mut self, greeting: &Greeting) -> Result<(), PmiError> {
        let first = self.ask_version(greeting.version)?;
        match (first, greeting.version) {
            (Ok(1), _) => Ok(()),
            (Ok(_), _) => self.start_two(greeting),
            (Err(refused), 1) => match self.ask_version(2)? {
                Ok(2) => self.start_two(greeting),
                _ => Err(refused),
            },
            (Err(refused), _) => Err(refused),
        }
    }

    /// The version that the server answers with (1 or 2), or its refusal.
    fn ask_version(&mut self, version: u32) -> Result<Result<u32, PmiError>, PmiError> {
        let subversion = if version == 1 { 1 } else { 0 };
        self.send(Verb::Init, &emit(&Request::Init { version, subversion }))?;
        let answered = self.answer(Verb::Init, |reply| match reply {
            Reply::Init { version, .. } => (1..=2).contains(&version).then_some(version),
            _ => None,
        });
        match answered {
            Ok(version) => Ok(Ok(version)),
            Err(refused @ PmiError::Refused { .. }) => Ok(Err(refused)),
            Err(error) => Err(error),
        }
    }

    /// Goes over to PMI-2, whose first frame says once more who this is.
    fn start_two(&mut self, greeting: &Greeting) -> Result<(), PmiError> {
        let job = greeting.job.as_ref().map(|job| job.as_bytes().to_vec());
        let (interpreter, frame) = two::Interpreter::new(self.rank.0, job);
        self.stream.interpret(interpreter, &frame).map_err(|error| self.failed(Verb::Init, error))?;
        let line = self.stream.receive().map_err(|error| self.failed(Verb::Init, error))?;
        self.read_answer(Verb::Init, &line, |reply| {
            matches!(reply, Reply::Init { version: 2, .. }).then_some(())
        })
    }

    /// This process's number.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The name of the job's key-value space, unique to the job.
    pub fn kvs_name(&self) -> &str {
        &self.kvs_name
    }

    /// Which program of a job of several this process runs.
    pub fn appnum(&mut self) -> Result<i32, PmiError> {
        self.ask(&Request::GetAppnum, |reply| match reply {
            Reply::Appnum(appnum) => Some(appnum),
            _ => None,
        })
    }

    /// How many processes the job may grow to, if the launcher knows.
    pub fn universe_size(&mut self) -> Result<Option<u32>, PmiError> {
        self.ask(&Request::GetUniverseSize, |reply| match reply {
            Reply::UniverseSize(size) => Some(size),
            _ => None,
        })
    }

    /// Which rank lives where, if the launcher tells.
    pub fn mapping(&mut self) -> Result<Option<String>, PmiError> {
        match self.mapping.take() {
            Some(mapping) => Ok(Some(mapping)),
            None => Ok(self.get(KEY_MAPPING)?.filter(|mapping| mapping != NO_MAPPING)),
        }
    }

    /// Publishes a key; others can read it after the next fence. The value is one line of text.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        self.check_lengths(key, value)?;
        let kvs_name = std::mem::take(&mut self.kvs_name);
        let (key, value) = (key.as_bytes(), value.as_bytes());
        let told = self.tell(&Request::Put { kvsname: kvs_name.as_bytes(), key, value });
        self.kvs_name = kvs_name;
        told
    }

    /// Reads a key; `None` if nobody published it. Ends a fence that was begun.
    pub fn get(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        self.settle()?;
        let get = Request::Get { kvsname: self.kvs_name.as_bytes(), key: key.as_bytes() };
        let bytes = emit(&get);
        self.send(Verb::Get, &bytes)?;
        // Servers differ in code and text for a key that is not there; they refuse a get for nothing else.
        self.answer(Verb::Get, |reply| match reply {
            Reply::Got(value) => Some(Some(text(value))),
            Reply::Refused { .. } => Some(None),
            _ => None,
        })
    }

    /// Has the launcher start processes, and does not wait for it: the last block ends the question.
    /// Gives the number of the spawn.
    pub fn spawn_begin(&mut self, blocks: &[Spawn<'_>]) -> Result<u64, PmiError> {
        self.settle()?;
        for block in blocks {
            self.send(Verb::Spawn, &emit(&Request::Spawn(block.clone())))?;
        }
        self.owed.push_back(Verb::Spawn);
        self.spawns_begun += 1;
        Ok(self.spawns_begun)
    }

    /// Have the processes of a spawn been started?
    pub fn spawn_poll(&mut self, spawn: u64) -> Result<bool, PmiError> {
        self.fence_poll(Duration::ZERO)?;
        self.spawned.remove(&spawn).map_or(Ok(false), |ended| ended.map(|()| true))
    }

    /// Publishes the name of a service; `false`: it is taken.
    pub fn publish(&mut self, service: &str, port: &str) -> Result<bool, PmiError> {
        let word = service_word(service);
        let publish = Request::Publish { service: word.as_bytes(), port: port.as_bytes() };
        self.ask_about_name(&publish, |reply| matches!(reply, Reply::Published).then_some(()))
            .map(|done| done.is_some())
    }

    /// The port of a service, if somebody published it.
    pub fn lookup(&mut self, service: &str) -> Result<Option<String>, PmiError> {
        let word = service_word(service);
        self.ask_about_name(&Request::Lookup { service: word.as_bytes() }, |reply| match reply {
            Reply::Found(port) => Some(text(port)),
            _ => None,
        })
    }

    /// Withdraws a service; `false`: there was none.
    pub fn unpublish(&mut self, service: &str) -> Result<bool, PmiError> {
        let word = service_word(service);
        let unpublish = Request::Unpublish { service: word.as_bytes() };
        self.ask_about_name(&unpublish, |reply| matches!(reply, Reply::Unpublished).then_some(()))
            .map(|done| done.is_some())
    }

    /// A refusal is an answer: servers refuse nothing else here.
    fn ask_about_name<T>(
        &mut self,
        request: &Request<'_>,
        pick: impl FnOnce(Reply<'_>) -> Option<T>,
    ) -> Result<Option<T>, PmiError> {
        match self.ask(request, pick) {
            Ok(value) => Ok(Some(value)),
            Err(PmiError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Enters a fence and does not wait for the others. Whatever asks next waits for its end.
    pub fn fence_begin(&mut self) -> Result<(), PmiError> {
        self.make_way()?;
        self.send(Verb::Barrier, &emit(&Request::Barrier))?;
        self.owed.push_back(Verb::Barrier);
        self.board.fence_begins();
        Ok(())
    }

    /// Waits until all processes have entered the fence that was begun, if one was.
    pub fn fence_end(&mut self) -> Result<(), PmiError> {
        self.settle()
    }

    /// Waits for the end of the fence for at most this long (in whole milliseconds); has it ended?
    pub fn fence_poll(&mut self, timeout: Duration) -> Result<bool, PmiError> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        while let Some(&verb) = self.owed.front() {
            match self.stream.receive_within(timeout_ms).map_err(|error| self.failed(verb, error))? {
                Some(line) => self.take_owed(&line)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The value of a key that was put before the last fence, if the node's board in memory has it and the fence
    /// is over. Makes no system call but for the first time, which opens the board. `None` says nothing: wait for the
    /// end of the fence, look again, and then [ask](Client::get).
    pub fn get_here(&mut self, key: &str) -> Option<String> {
        if !self.owed.contains(&Verb::Barrier) {
            self.board.open();
        }
        self.board.get(key)
    }

    /// Asks the launcher to end the job. There is no answer, and if the launcher is gone the job ends anyway: the
    /// caller exits.
    pub fn abort(&mut self, exit_code: i32) {
        // Hydra fails in its own way if a process leaves from inside a fence. Most fences end soon.
        if self.pace == Pace::LockStep {
            let _ = self.fence_poll(ABORT_IN_FENCE_WAIT);
        }
        let _ = self.stream.send(&emit(&Request::Abort { exit_code, message: b"" }));
    }

    /// Tells the agent that this process has waited long: the launcher asks all processes of the job why. `false`: there is
    /// no agent of ours that could.
    pub fn tell_waiting(&mut self, seconds: u64) -> bool {
        let told = Request::Waiting { seconds: u32::try_from(seconds).unwrap_or(u32::MAX) };
        self.pace == Pace::Ahead && self.stream.send(&emit(&told)).is_ok()
    }

    /// Says goodbye. A second call does nothing.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        if self.phase == Phase::Finalized {
            return Ok(());
        }
        self.phase = Phase::Finalized;
        self.ask(&Request::Finalize, |reply| matches!(reply, Reply::Finalized).then_some(()))
    }

    /// Has the launcher's end been closed? Does not wait.
    pub fn is_closed(&mut self) -> bool {
        self.stream.is_closed()
    }

    /// Did something come with the last look for the launcher's end that may be an answer which is due? Then there is no use in waiting
    /// for the descriptor.
    pub fn has_unheard(&self) -> bool {
        !self.owed.is_empty() && self.stream.has_unheard()
    }

    /// The launcher's limits; asked once.
    fn maxes(&mut self) -> Result<Maxes, PmiError> {
        if let Some(maxes) = self.maxes {
            return Ok(maxes);
        }
        let maxes = self.ask(&Request::GetMaxes, |reply| match reply {
            Reply::Maxes(maxes) => Some(maxes),
            _ => None,
        })?;
        self.maxes = Some(maxes);
        Ok(maxes)
    }

    /// How long a value may be, for one that has `bytes`. Most are shorter than what every server takes, and then it is
    /// not asked.
    pub fn value_max(&mut self, bytes: usize) -> Result<usize, PmiError> {
        if bytes <= VALUE_BYTES_SAFE {
            return Ok(VALUE_BYTES_SAFE);
        }
        // The limit counts a terminating zero.
        Ok((self.maxes()?.value as usize).saturating_sub(1).max(1))
    }

    fn check_lengths(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        if key.len() <= KEY_BYTES_SAFE && value.len() <= VALUE_BYTES_SAFE {
            return Ok(());
        }
        let maxes = self.maxes()?;
        for (what, bytes, max) in [("key", key.len(), maxes.key), ("value", value.len(), maxes.value)] {
            // The limits count a terminating zero.
            if bytes >= max as usize {
                let max = (max as usize).saturating_sub(1);
                return Err(PmiError::TooLong { rank: self.rank, what, bytes, max });
            }
        }
        Ok(())
    }

    /// Sends what only has to succeed. Its answer is read now, or before the next that is waited for.
    fn tell(&mut self, request: &Request<'_>) -> Result<(), PmiError> {
        let verb = request.verb();
        self.make_way()?;
        self.send(verb, &emit(request))?;
        self.owed.push_back(verb);
        match self.pace {
            Pace::LockStep => self.settle(),
            Pace::Ahead => Ok(()),
        }
    }

    /// Asks and takes what `pick` picks of the answer.
    fn ask<T>(
        &mut self,
        request: &Request<'_>,
        pick: impl FnOnce(Reply<'_>) -> Option<T>,
    ) -> Result<T, PmiError> {
        let verb = request.verb();
        self.make_way()?;
        self.send(verb, &emit(request))?;
        self.settle()?;
        self.answer(verb, pick)
    }

    /// Reads the answers that have to be read before another question is sent: in lock-step all of them. Nothing
    /// is asked inside a fence, because an agent answers it at once, before the end of the fence.
    fn make_way(&mut self) -> Result<(), PmiError> {
        match self.pace {
            Pace::Ahead if !self.owed.contains(&Verb::Barrier) => Ok(()),
            _ => self.settle(),
        }
    }

    /// Reads the answers that are owed.
    pub fn settle(&mut self) -> Result<(), PmiError> {
        while let Some(&verb) = self.owed.front() {
            let line = self.stream.receive().map_err(|error| self.failed(verb, error))?;
            self.take_owed(&line)?;
        }
        Ok(())
    }

    fn take_owed(&mut self, line: &[u8]) -> Result<(), PmiError> {
        let Some(verb) = self.owed.pop_front() else { return Ok(()) };
        if verb == Verb::Spawn {
            let ended = self.read_answer(verb, line, |_| Some(()));
            // Questions wait for the answer to a spawn, so that it is the last one that was begun.
            self.spawned.insert(self.spawns_begun, ended);
            return Ok(());
        }
        self.read_answer(verb, line, |reply| match reply {
            Reply::Init { version, .. } => (version == 1).then_some(()),
            _ => Some(()),
        })
    }

    fn answer<T>(&mut self, verb: Verb, pick: impl FnOnce(Reply<'_>) -> Option<T>) -> Result<T, PmiError> {
        let line = self.stream.receive().map_err(|error| self.failed(verb, error))?;
        self.read_answer(verb, &line, pick)
    }

    /// What `pick` makes of the answer; a refusal that it does not want is an error.
    fn read_answer<T>(
        &self,
        verb: Verb,
        line: &[u8],
        pick: impl FnOnce(Reply<'_>) -> Option<T>,
    ) -> Result<T, PmiError> {
        let (rank, during) = (self.rank, verb.request_name());
        let bad = |why| PmiError::BadAnswer { rank, during, why };
        let reply = Reply::parse(line).map_err(|error| bad(error.to_string()))?;
        if reply.verb() != verb {
            return Err(bad(format!("unexpected answer '{}'", text(line))));
        }
        let refused = match reply {
            Reply::Refused { rc, message, .. } if verb != Verb::Get => Some((rc, text(message))),
            _ => None,
        };
        match refused {
            Some((rc, message)) => Err(PmiError::Refused { rank, during, rc, message }),
            None => pick(reply).ok_or_else(|| bad(format!("unexpected answer '{}'", text(line)))),
        }
    }

    fn send(&mut self, verb: Verb, bytes: &[u8]) -> Result<(), PmiError> {
        self.stream.send(bytes).map_err(|error| self.failed(verb, error))
    }

    fn failed(&self, verb: Verb, error: StreamError) -> PmiError {
        stream_error(self.rank, verb.request_name(), error)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn open(fd: OwnedFd, rank: Rank) -> Result<Stream, PmiError> {
    Stream::new(fd).map_err(|source| PmiError::Io { rank, during: "connect", source })
}

/// The preface of TCP mode: says who it is, and is told the size of the job.
fn introduce(stream: &mut Stream, rank: Rank) -> Result<u32, PmiError> {
    let during = "initack";
    let failed = |error| stream_error(rank, during, error);
    let bad = |why: String| PmiError::BadAnswer { rank, during, why };
    stream.send(format!("cmd=initack pmiid={rank}\n").as_bytes()).map_err(failed)?;
    let first = text(&stream.receive().map_err(failed)?);
    if first.trim_end() != "cmd=initack rc=0" {
        return Err(bad(format!("unexpected answer '{first}'")));
    }
    let mut size = None;
    // Size, rank and debug, one line each.
    for _ in 0..3 {
        let line = text(&stream.receive().map_err(failed)?);
        let Some((name, value)) = line.strip_prefix("cmd=set ").and_then(|set| set.split_once('=')) else {
            return Err(bad(format!("unexpected answer '{line}'")));
        };
        if name == "size" {
            size = value.trim_end().parse().ok().filter(|&size: &u32| rank.0 < size);
        }
    }
    size.ok_or_else(|| bad("no size of the job larger than the rank".into()))
}

fn stream_error(rank: Rank, during: &'static str, error: StreamError) -> PmiError {
    match error {
        StreamError::Closed => PmiError::Closed { rank, during },
        StreamError::Io(source) => PmiError::Io { rank, during, source },
    }
}

fn emit(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.emit(&mut bytes);
    bytes
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
