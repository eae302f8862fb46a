//! The data server that a job has on a node: its start, its PMI service, and what is known of it at the end. What it does is
//! `mpi::server`'s.
//!
//! Ranks are started when it can be reached: it puts its card on the board, as they do, and the fence in which they publish theirs
//! publishes it as well. It takes no part in that fence. It lives until the job is over here, and is killed then: nothing that
//! it has outlives it.
use super::pmi::{PmiClient, RequestContext};
use super::template::environment;
use super::{Agent, Token};
use crate::agent::here::Here;
use crate::job::Group;
use crate::standing::outside;
use crate::{SERVER_NAME, SERVER_OPTION};
use proto::ids::NodeId;
use proto::lane::{Bytes, JobId};
use proto::tree::{Ended, Frame};
use proto::waits::Doing;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};
use sys::node::NodeSegment;
use sys::poll::{Interest, Poll};
use sys::process::spawn::{Failures, Program, Start};
use sys::process::{self, DescriptorLimit, Pid, Target};
use sys::signal::SIGKILL;
use sys::socket::{self, Transfer};

/// What it takes over of the environment of ranks, beside Banyan's own variables and those of RDMA libraries, which it loads
/// where ranks do: what preloads libraries into ranks, say, is not meant for it.
const TAKEN_OVER: [&[u8]; 9] =
    [b"PATH=", b"HOME=", b"TMPDIR=", b"LANG=", b"LD_LIBRARY_PATH=", b"IBV_", b"RDMAV_", b"MLX4_", b"MLX5_"];

/// See the module's head.
pub(crate) struct Server {
    pid: Option<Pid>,
    pmi: PmiClient,
    /// Where it says that it can be reached, until it has.
    ready: Option<OwnedFd>,
    /// Has it said so?
    is_ready: bool,
    /// Until when it must have.
    until: Option<Instant>,
    failures: Failures,
}

/// What a server is started with.
pub(crate) struct Seat<'a> {
    pub(crate) group: &'a Group,
    /// The first rank of its node, in whose place it knows the node.
    pub(crate) rank: u32,
    /// Its slot in the segment: as many as there are ranks.
    pub(crate) slot: u32,
    pub(crate) segment: &'a NodeSegment,
    pub(crate) variables: &'a [Vec<u8>],
    pub(crate) limit: DescriptorLimit,
    /// How long it may take to start; nothing: as long as it likes.
    pub(crate) patience: Option<Duration>,
}

impl Server {
    /// Starts it.
    pub(crate) fn start(seat: &Seat<'_>, poll: &Poll) -> io::Result<Server> {
        let job = seat.group.id.0;
        let mut server = Server {
            pid: None,
            pmi: PmiClient::new(Token::ServerPmi(job).pack()),
            ready: None,
            is_ready: false,
            until: seat.patience.map(|patience| Instant::now() + patience),
            failures: Failures::new()?,
        };
        let mut program = program(seat)?;
        let rank = program.add_number("PMI_RANK");
        let slot = program.add_number("MPI_LOCALRANKID");
        program.set(rank, seat.rank);
        program.set(slot, seat.slot);
        let null = OpenOptions::new().read(true).open("/dev/null")?;
        let (pmi_here, pmi_there) = socket::socket_pair()?;
        let (ready_here, ready_there) = socket::pipe()?;
        let stderr = io::stderr();
        let descriptors: [BorrowedFd<'_>; 4] =
            [null.as_fd(), ready_there.as_fd(), stderr.as_fd(), pmi_there.as_fd()];
        let start = Start { descriptors: &descriptors, cores: &[], limit: Some(seat.limit) };
        server.pid = Some(program.start(&start, &server.failures)?);
        server.pmi.open(pmi_here, poll)?;
        socket::set_nonblocking(ready_here.as_fd())?;
        poll.add(ready_here.as_fd(), Token::ServerReady(job).pack(), Interest::Read)?;
        server.ready = Some(ready_here);
        Ok(server)
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Can ranks be started?
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Until when it must be ready, if it is not.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.until.filter(|_| !self.is_ready && self.pid.is_some())
    }

    /// How it stands, for who asks why nothing happens.
    pub(crate) fn standing(&self) -> Option<(Pid, Doing)> {
        self.pid.map(|pid| (pid, outside(pid)))
    }

    /// Answers what it asks. What it says wrong closes its stream, and it ends then.
    pub(crate) fn serve(&mut self, context: &mut RequestContext<'_>, poll: &Poll) -> io::Result<()> {
        self.pmi.serve(context, poll).map(drop)
    }

    /// The board knows a key that it asked for.
    pub(crate) fn got(
        &mut self,
        key: &[u8],
        value: Option<&Bytes>,
        context: &mut RequestContext<'_>,
        poll: &Poll,
    ) -> io::Result<()> {
        self.pmi.got(key, value, context, poll).map(drop)
    }

    /// It may have said that it is ready. What it has put before is on the board when its stream has been served.
    fn hear(&mut self, poll: &Poll) -> io::Result<()> {
        let Some(ready) = &self.ready else { return Ok(()) };
        match socket::read(ready.as_fd(), &mut [0; 16])? {
            Transfer::WouldBlock => return Ok(()),
            Transfer::Bytes(_) => self.is_ready = true,
            Transfer::Closed => {}
        }
        let _ = poll.remove(ready.as_fd());
        self.ready = None;
        Ok(())
    }

    /// It is not there any more.
    fn close(&mut self, poll: &Poll) {
        self.pid = None;
        self.pmi.close(poll);
        if let Some(ready) = self.ready.take() {
            let _ = poll.remove(ready.as_fd());
        }
    }

    /// Its job is over here.
    pub(crate) fn kill(&mut self, poll: &Poll) {
        if let Some(pid) = self.pid {
            let _ = process::kill(Target::Process(pid), SIGKILL);
        }
        self.close(poll);
    }

    /// Why it was not executed, if it was not.
    fn failure(&self) -> String {
        let failure = self.failures.next_failure().ok().flatten();
        failure.map_or_else(String::new, |failure| failure.error.to_string())
    }
}

/// This program, as a data server.
fn program(seat: &Seat<'_>) -> io::Result<Program> {
    let own = CString::new(std::env::current_exe()?.into_os_string().into_vec())?;
    let theirs = seat.group.programs.first().map_or(&[][..], |found| &found.env);
    let is_taken = |variable: &&Vec<u8>| {
        variable.starts_with(proto::env::PREFIX.as_bytes())
            || TAKEN_OVER.iter().any(|name| variable.starts_with(name))
    };
    let env = theirs.iter().filter(is_taken).cloned().collect();
    let env = environment(env, seat.group, seat.slot, seat.segment, seat.variables)?;
    Program::new(&own, vec![SERVER_NAME.into(), SERVER_OPTION.into()], env, Some(c"/".into()))
}

impl Agent {
    fn index_of(&self, job: JobId) -> Option<usize> {
        self.jobs.iter().position(|here| here.group.id == job)
    }

    /// The server of a job asks something.
    pub(super) fn on_server(&mut self, job: JobId) -> io::Result<()> {
        let Some(index) = self.index_of(job) else { return Ok(()) };
        self.jobs[index].serve_server(&self.tree, &mut self.asks, &self.poll)
    }

    /// It can be reached, or has ended before.
    pub(super) fn on_server_ready(&mut self, job: JobId) -> io::Result<()> {
        self.on_server(job)?;
        let Some(index) = self.index_of(job) else { return Ok(()) };
        match self.jobs[index].server_mut() {
            Some(server) => server.hear(&self.poll),
            None => Ok(()),
        }
    }

    /// It could not be started.
    pub(super) fn server_missing(&mut self, job: JobId, error: &io::Error) {
        let (node, reason) = (self.node, error.to_string());
        self.report(&Frame::ServerEnded { node, job, pid: 0, ended: Ended::Exit(1), reason });
    }

    /// When the first server here must be ready that is not.
    pub(super) fn servers_due(&self) -> Option<Instant> {
        self.jobs.iter().filter_map(|here| here.server()?.due()).min()
    }

    /// A server that does not become ready would have its node's ranks wait for ever: none of them has been started.
    pub(super) fn check_servers(&mut self, now: Instant) {
        let is_late = |here: &Here| here.server().and_then(Server::due).is_some_and(|due| due <= now);
        let (node, seconds) = (self.node, self.tree.start_timeout.as_secs_f64());
        let mut late = Vec::new();
        for here in self.jobs.iter_mut().filter(|here| is_late(here)) {
            let job = here.group.id;
            let Some(server) = here.server_mut() else { continue };
            let doing =
                server.standing().map_or_else(String::new, |(pid, doing)| format!(": process {pid} {doing}"));
            server.kill(&self.poll);
            here.ranks.give_up_starting();
            let reason = format!("it was not ready within {seconds} s{doing}");
            late.push(Frame::ServerEnded { node, job, pid: 0, ended: Ended::Exit(1), reason });
        }
        if self.ending.is_none() {
            self.report_all(late);
        }
    }

    /// A process has ended. Was it a data server? Its job cannot go on without it.
    pub(super) fn on_server_end(&mut self, pid: Pid, ended: Ended) -> bool {
        let is_its = |here: &Here| here.server().and_then(Server::pid) == Some(pid);
        let Some(here) = self.jobs.iter_mut().find(|here| is_its(here)) else { return false };
        let job = here.group.id;
        let mut reason = String::new();
        if let Some(server) = here.server_mut() {
            reason = server.failure();
            server.close(&self.poll);
        }
        here.ranks.give_up_starting();
        if self.ending.is_none() {
            self.report(&Frame::ServerEnded { node: self.node, job, pid: pid.0, ended, reason });
        }
        true
    }
}

/// The number that a node of the tree has in a job's placement.
pub(super) fn number_of(group: &Group, node: NodeId) -> Option<u32> {
    group.nodes.iter().position(|at| *at == node).map(|at| at as u32)
}
