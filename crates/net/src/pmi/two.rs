//! PMI-2 behind the words of PMI-1: an interpreter between a client that speaks lines and a server that speaks frames.
//!
//! Both protocols have the same few ideas (a key-value space, a fence, a job with attributes), so each line becomes at
//! most one frame and each frame one line. What PMI-2 tells at the start and PMI-1 asks for later (the number of the
//! program, the limits) is answered here. The conversation is in lock-step.
use proto::pmi::{KEY_MAPPING, Maxes, Reply as Line, Request as Question, Verb};
use proto::pmi2::{self, Abort, Frames, FullInit, Reply, Request};
use std::collections::VecDeque;
use std::io;

/// What `libpmi2` takes; the limits of PMI-1 count a terminating zero.
const MAXES: Maxes =
    Maxes { kvsname: 256, key: pmi2::KEY_BYTES_MAX as u32 + 1, value: pmi2::VALUE_BYTES_MAX as u32 + 1 };

#[derive(Debug)]
pub(super) struct Interpreter {
    frames: Frames,
    rank: u32,
    appnum: i32,
    /// Questions whose frames have not been answered, oldest first.
    asked: VecDeque<Verb>,
    /// Lines that needed no frame.
    known: VecDeque<Vec<u8>>,
}

impl Interpreter {
    /// An interpreter, and the frame that introduces the process. The answer to it is a line that answers `init`.
    pub(super) fn new(rank: u32, job: Option<Vec<u8>>) -> (Self, Vec<u8>) {
        let interpreter = Interpreter {
            frames: Frames::default(),
            rank,
            appnum: -1,
            asked: VecDeque::from([Verb::Init]),
            known: VecDeque::new(),
        };
        let init = Request::FullInit(FullInit { job, rank: Some(rank), threaded: false });
        let mut frame = Vec::new();
        // A job's name that does not fit is left out: servers that want it gave a short one.
        if init.emit(None, &mut frame).is_err() {
            let init = Request::FullInit(FullInit { job: None, rank: Some(rank), threaded: false });
            init.emit(None, &mut frame).expect("a rank fits");
        }
        (interpreter, frame)
    }

    /// What to send for a line; empty if the answer is known.
    pub(super) fn say(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        let question = Question::parse(line).map_err(io::Error::other)?;
        let mut frame = Vec::new();
        match &question {
            Question::GetAppnum => self.know(&Line::Appnum(self.appnum)),
            Question::GetMaxes => self.know(&Line::Maxes(MAXES)),
            _ => {
                let no_word =
                    || io::Error::other(format!("PMI-2 has no word for {}", question.verb().request_name()));
                let request = translate(&question).ok_or_else(no_word)?;
                request.emit(None, &mut frame).map_err(io::Error::other)?;
                if question.verb() != Verb::Abort {
                    self.asked.push_back(question.verb());
                }
            }
        }
        Ok(frame)
    }

    /// Takes what was read.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.frames.push(bytes).map_err(io::Error::other)
    }

    /// The next answer as a line without its end.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(line) = self.known.pop_front() {
            return Ok(Some(line));
        }
        let Some(body) = self.frames.next_body().map_err(io::Error::other)? else { return Ok(None) };
        let reply = Reply::parse(body).map_err(io::Error::other)?.0;
        let unexpected =
            io::Error::other(format!("unexpected PMI-2 answer '{}'", String::from_utf8_lossy(body)));
        let verb = self.asked.pop_front();
        verb.and_then(|verb| self.answer(verb, &reply)).map(Some).ok_or(unexpected)
    }

    fn know(&mut self, line: &Line<'_>) {
        self.known.push_back(emit(line));
    }

    /// The line that answers `verb`; `None` if this is no answer to it.
    fn answer(&mut self, verb: Verb, reply: &Reply) -> Option<Vec<u8>> {
        let line = match (verb, reply) {
            (_, Reply::Refused { rc, message, .. }) => Line::Refused { verb, rc: *rc, message },
            (Verb::Init, Reply::FullInit { rank, appnum, .. }) if *rank == self.rank => {
                self.appnum = *appnum;
                Line::Init { version: 2, subversion: 0 }
            }
            (Verb::GetMyKvsname, Reply::JobId(job)) => Line::KvsName(job),
            (Verb::GetUniverseSize, Reply::JobAttribute(size)) => Line::UniverseSize(number(size.as_deref())),
            (Verb::Put, Reply::Put) => Line::Put,
            (Verb::Barrier, Reply::Fenced) => Line::BarrierOut,
            (Verb::Get, Reply::Got(value) | Reply::JobAttribute(value)) => {
                value.as_ref().map_or(Line::key_not_found(), |value| Line::Got(value))
            }
            (Verb::Publish, Reply::Published) => Line::Published,
            (Verb::Unpublish, Reply::Unpublished) => Line::Unpublished,
            (Verb::Lookup, Reply::Found(port)) => Line::Found(port),
            (Verb::Finalize, Reply::Finalized) => Line::Finalized,
            _ => return None,
        };
        Some(emit(&line))
    }
}

/// The request that a question becomes.
fn translate(question: &Question<'_>) -> Option<Request> {
    Some(match *question {
        Question::GetMyKvsname => Request::JobGetId,
        Question::GetUniverseSize => {
            Request::GetJobAttribute { key: pmi2::KEY_UNIVERSE_SIZE.as_bytes().to_vec() }
        }
        Question::Put { key, value, .. } => Request::Put { key: key.to_vec(), value: value.to_vec() },
        Question::Get { key, .. } if key == KEY_MAPPING.as_bytes() => {
            Request::GetJobAttribute { key: key.to_vec() }
        }
        Question::Get { kvsname, key } => {
            Request::Get { job: Some(kvsname.to_vec()), source: None, key: key.to_vec() }
        }
        Question::Barrier => Request::Fence,
        Question::Publish { service, port } => {
            Request::Publish { name: service.to_vec(), port: port.to_vec() }
        }
        Question::Lookup { service } => Request::Lookup { name: service.to_vec() },
        Question::Unpublish { service } => Request::Unpublish { name: service.to_vec() },
        Question::Finalize => Request::Finalize,
        Question::Abort { exit_code, message } => {
            Request::Abort(Abort { world: true, exit_code: Some(exit_code), message: message.to_vec() })
        }
        Question::Init { .. }
        | Question::GetAppnum
        | Question::GetMaxes
        | Question::Spawn(_)
        | Question::Waiting { .. } => return None,
    })
}

fn number(value: Option<&[u8]>) -> Option<u32> {
    std::str::from_utf8(value?).ok()?.trim().parse().ok()
}

fn emit(line: &Line<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    line.emit(&mut bytes);
    bytes.pop();
    bytes
}
