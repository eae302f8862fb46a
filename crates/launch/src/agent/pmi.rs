//! The PMI-1 service for one rank.
use crate::job::Job;
use proto::ids::Rank;
use proto::pmi::{KEY_MAPPING, Lines, Maxes, Reply, Request, Verb};
use proto::tree::{NameAnswer, NameRequest, Node, PmiState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

/// What names, keys and values may be; 1,024 is safe with every client.
const MAXES: Maxes = Maxes { kvsname: 256, key: 64, value: 1024 };
/// Replies a client may leave unread. It works in lock-step, so more is nonsense.
const UNREAD_BYTES_MAX: usize = 256 << 10;
const READ_BYTES: usize = 16 << 10;

/// A rank's side of the conversation.
#[derive(Debug)]
pub(crate) struct PmiClient {
    fd: Option<OwnedFd>,
    token: u64,
    lines: Lines,
    unsent: Vec<u8>,
    state: PmiState,
    in_barrier: bool,
    /// What it last asked the name service.
    asked: Verb,
    interest: Interest,
}

/// What a rank said that is not for its agent alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It wants the job to end.
    Abort(i32, String),
    /// It broke the protocol.
    Nonsense(String),
}

/// What the service needs to know about the rank.
pub(crate) struct Facts<'a> {
    pub(crate) job: &'a Job,
    pub(crate) rank: Rank,
    pub(crate) slot: u32,
}

impl PmiClient {
    pub(crate) fn new(token: u64) -> Self {
        PmiClient {
            fd: None,
            token,
            lines: Lines::default(),
            unsent: Vec::new(),
            state: PmiState::Unused,
            in_barrier: false,
            asked: Verb::Lookup,
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
    pub(crate) fn serve(
        &mut self,
        facts: &Facts<'_>,
        tree: &mut Node,
        poll: &Poll,
    ) -> io::Result<Option<Said>> {
        let mut bytes = [0; READ_BYTES];
        while let Some(fd) = &self.fd {
            match socket::read(fd.as_fd(), &mut bytes)? {
                Transfer::Bytes(n) => {
                    if let Err(said) = self.hear(&bytes[..n], facts, tree) {
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

    fn hear(&mut self, bytes: &[u8], facts: &Facts<'_>, tree: &mut Node) -> Result<(), Said> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(bytes).map_err(|error| Said::Nonsense(error.to_string()))?;
        while let Some(message) = lines.next_message() {
            let request = Request::parse(message).map_err(|error| Said::Nonsense(error.to_string()))?;
            self.answer(request, facts, tree)?;
        }
        self.lines = lines;
        Ok(())
    }

    fn answer(&mut self, request: Request<'_>, facts: &Facts<'_>, tree: &mut Node) -> Result<(), Said> {
        match request {
            Request::Init { version: 1, .. } => {
                self.state = PmiState::Active;
                self.reply(&Reply::Init { version: 1, subversion: 1 });
            }
            Request::Init { .. } => self.refuse(Verb::Init, b"only version 1 is spoken here"),
            Request::GetMaxes => self.reply(&Reply::Maxes(MAXES)),
            Request::GetAppnum => self.reply(&Reply::Appnum(facts.job.section_of(facts.rank.0) as i32)),
            Request::GetMyKvsname => self.reply(&Reply::KvsName(facts.job.name.as_bytes())),
            Request::GetUniverseSize => self.reply(&Reply::UniverseSize(facts.job.universe)),
            Request::Put { kvsname, key, value } => self.put(facts.job, tree, kvsname, key, value),
            Request::Get { kvsname, key } => self.get(facts.job, tree, kvsname, key),
            Request::Barrier => {
                self.in_barrier = true;
                tree.enter(facts.slot).map_err(|error| Said::Nonsense(error.to_string()))?;
            }
            Request::Publish { .. } | Request::Lookup { .. } | Request::Unpublish { .. } => {
                self.asked = request.verb();
                if let Some(request) = name_request(&request) {
                    tree.ask_name(facts.slot, request);
                }
            }
            Request::Finalize => {
                self.state = PmiState::Finalized;
                self.reply(&Reply::Finalized);
            }
            Request::Abort { exit_code, message } => {
                return Err(Said::Abort(exit_code, String::from_utf8_lossy(message).into_owned()));
            }
            Request::Spawn(spawn) if spawn.is_last() => {
                self.refuse(Verb::Spawn, b"spawn is not supported yet")
            }
            Request::Spawn(_) => {}
        }
        Ok(())
    }

    fn put(&mut self, job: &Job, tree: &mut Node, kvsname: &[u8], key: &[u8], value: &[u8]) {
        // The limits count a terminating zero.
        if kvsname != job.name.as_bytes() {
            self.refuse(Verb::Put, b"no such key-value space");
        } else if key.len() >= MAXES.key as usize || value.len() >= MAXES.value as usize {
            self.refuse(Verb::Put, b"key or value too long");
        } else if tree.put(key, value).is_err() {
            self.refuse(Verb::Put, b"the board is full");
        } else {
            self.reply(&Reply::Put);
        }
    }

    fn get(&mut self, job: &Job, tree: &Node, kvsname: &[u8], key: &[u8]) {
        if kvsname != job.name.as_bytes() {
            self.refuse(Verb::Get, b"no such key-value space");
        } else if key == KEY_MAPPING.as_bytes() {
            let mapping = job.placement.mapping().to_string();
            self.reply(&Reply::Got(mapping.as_bytes()));
        } else {
            self.reply(&tree.get(key).map_or(Reply::key_not_found(), Reply::Got));
        }
    }

    /// The barrier that this rank is in is over.
    pub(crate) fn release(&mut self, poll: &Poll) -> io::Result<()> {
        if std::mem::take(&mut self.in_barrier) {
            self.reply(&Reply::BarrierOut);
            self.flush(poll)?;
        }
        Ok(())
    }

    /// The name service answered.
    pub(crate) fn named(&mut self, answer: &NameAnswer, poll: &Poll) -> io::Result<()> {
        let asked = self.asked;
        match answer {
            NameAnswer::Done if asked == Verb::Publish => self.reply(&Reply::Published),
            NameAnswer::Done => self.reply(&Reply::Unpublished),
            NameAnswer::Found(port) => self.reply(&Reply::Found(port)),
            NameAnswer::NotFound => self.refuse_with(asked, 1, b"service_not_found"),
            NameAnswer::Taken => self.refuse_with(asked, 1, b"key_already_present"),
            NameAnswer::Full => self.refuse_with(asked, 1, b"too_many_names"),
        }
        self.flush(poll)
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

fn name_request(request: &Request<'_>) -> Option<NameRequest> {
    Some(match *request {
        Request::Publish { service, port } => {
            NameRequest::Publish { service: service.to_vec(), port: port.to_vec() }
        }
        Request::Lookup { service } => NameRequest::Lookup { service: service.to_vec() },
        Request::Unpublish { service } => NameRequest::Unpublish { service: service.to_vec() },
        _ => return None,
    })
}
