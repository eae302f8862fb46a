//! The ranks of one node: starting them, their pipes and their PMI service.
use super::Token;
use super::output::{LineStream, OutputQueue, PipeState};
use super::pmi::{Facts, PmiClient, Said};
use crate::job::Job;
use crate::spec::StdinTo;
use crate::stdin::reopen;
use proto::ids::{NodeId, Rank};
use proto::stats::Stat;
use proto::tree::{Frame, NameAnswer, Node, PmiState, Stream};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use sys::node::{NodeFacts, NodeSegment};
use sys::poll::{Interest, Poll};
use sys::process::spawn::{Failures, Program, Slot, Start};
use sys::process::{self, DescriptorLimit, Pid, Target};
use sys::socket;

/// The descriptor under which a rank finds its agent: the first behind the standard ones.
const PMI_FD: &str = "PMI_FD=3";
/// Reads from a pipe whose rank has ended; a process it left behind might go on writing for ever.
const LAST_READS_MAX: usize = 32;
/// Longest reason passed on.
const REASON_BYTES_MAX: usize = 4096;
/// The longest placement that is told in the environment.
const MAPPING_BYTES_MAX: usize = 1024;

/// One rank.
#[derive(Debug)]
struct State {
    pid: Option<Pid>,
    alive: bool,
    pmi: PmiClient,
    streams: [LineStream; 2],
}

/// A program of the job with the variables that differ from rank to rank.
#[derive(Debug)]
struct Template {
    program: Program,
    rank: Slot,
    local_rank: Slot,
}

pub(crate) struct Ranks {
    ranks: Vec<Rank>,
    states: Vec<State>,
    next: u32,
    templates: Vec<Option<Template>>,
    failures: Failures,
    null: File,
    stdin: Option<OwnedFd>,
    segment: NodeSegment,
    limit: DescriptorLimit,
    slots: HashMap<Pid, u32>,
    paused: bool,
}

impl Ranks {
    /// Prepares everything that the ranks of `node` have in common.
    pub(crate) fn new(
        job: &Job,
        node: NodeId,
        stdin: Option<OwnedFd>,
        limit: DescriptorLimit,
    ) -> io::Result<Self> {
        let ranks: Vec<Rank> = job.placement.ranks_of(node).collect();
        let count = ranks.len() as u32;
        let segment = NodeSegment::create(&NodeFacts {
            node: node.0,
            slots: count,
            cores: job.cores.len() as u32,
            qp_max: job.qp_max,
            oversubscribed: job.oversubscribed(),
            host: job.host,
            key: job.key,
        })?;
        let mut templates: Vec<Option<Template>> = job.programs.iter().map(|_| None).collect();
        for section in ranks.iter().map(|rank| job.section_of(rank.0)) {
            if templates[section].is_none() {
                templates[section] = Some(Template::new(job, section, count, &segment)?);
            }
        }
        let state = |slot| State {
            pid: None,
            alive: false,
            pmi: PmiClient::new(Token::Pmi(slot).pack()),
            streams: [LineStream::new(Stream::Out), LineStream::new(Stream::Err)],
        };
        Ok(Ranks {
            ranks,
            states: (0..count).map(state).collect(),
            next: 0,
            templates,
            failures: Failures::new()?,
            null: OpenOptions::new().read(true).write(true).open("/dev/null")?,
            stdin,
            segment,
            limit,
            slots: HashMap::with_capacity(count as usize),
            paused: false,
        })
    }

    pub(crate) fn count(&self) -> u32 {
        self.states.len() as u32
    }

    pub(crate) fn all_started(&self) -> bool {
        self.next == self.count()
    }

    /// Ranks not started yet never will be.
    pub(crate) fn give_up_starting(&mut self) {
        self.next = self.count();
    }

    pub(crate) fn any_alive(&self) -> bool {
        self.states.iter().any(|state| state.alive)
    }

    pub(crate) fn slot_of(&self, pid: Pid) -> Option<u32> {
        self.slots.get(&pid).copied().filter(|slot| self.states[*slot as usize].alive)
    }

    pub(crate) fn rank(&self, slot: u32) -> Rank {
        self.ranks[slot as usize]
    }

    /// Starts the next rank.
    pub(crate) fn start_next(&mut self, job: &Job, poll: &Poll) -> io::Result<()> {
        let slot = self.next;
        let rank = self.rank(slot);
        let (pmi_here, pmi_there) = socket::socket_pair()?;
        let (out_here, out_there) = socket::pipe()?;
        let (err_here, err_there) = socket::pipe()?;
        let stdin = match (job.stdin, &self.stdin) {
            (StdinTo::Rank(reader), _) if reader == rank.0 => self.stdin.take(),
            (StdinTo::All, Some(file)) => Some(reopen(file)?),
            _ => None,
        };
        let stdin = stdin.as_ref().map_or(self.null.as_fd(), |fd| fd.as_fd());
        let descriptors: [BorrowedFd<'_>; 4] =
            [stdin, out_there.as_fd(), err_there.as_fd(), pmi_there.as_fd()];
        let start = Start { descriptors: &descriptors, core: job.core_of(rank.0), limit: Some(self.limit) };
        let template = self.templates[job.section_of(rank.0)].as_mut().expect("made for every local section");
        template.program.set(template.rank, rank.0);
        template.program.set(template.local_rank, slot);
        let pid = template.program.start(&start, &self.failures)?;
        self.next += 1;
        self.adopt(slot, pid, [out_here, err_here], pmi_here, poll)
    }

    /// What a rank, whose start failed, has to say about it.
    pub(crate) fn next_failure(&self) -> io::Result<Option<Frame>> {
        let Some((pid, error)) = self.failures.next_failure()? else { return Ok(None) };
        let rank = self.slots.get(&pid).map(|slot| self.rank(*slot));
        Ok(rank.map(|rank| Frame::StartFailed { rank, errno: error.raw_os_error().unwrap_or(0) }))
    }

    /// The rank that is started next.
    pub(crate) fn next_rank(&self) -> Rank {
        self.rank(self.next.min(self.count() - 1))
    }

    /// Waits for failures of starts.
    pub(crate) fn register(&self, token: u64, poll: &Poll) -> io::Result<()> {
        poll.add(self.failures.as_fd(), token, Interest::Read)
    }

    fn adopt(
        &mut self,
        slot: u32,
        pid: Pid,
        pipes: [OwnedFd; 2],
        pmi: OwnedFd,
        poll: &Poll,
    ) -> io::Result<()> {
        let paused = self.paused;
        self.slots.insert(pid, slot);
        let state = &mut self.states[slot as usize];
        state.pid = Some(pid);
        state.alive = true;
        state.pmi.open(pmi, poll)?;
        for ((stream, pipe), token) in
            state.streams.iter_mut().zip(pipes).zip([Token::Out(slot), Token::Err(slot)])
        {
            if !paused {
                poll.add(pipe.as_fd(), token.pack(), Interest::Read)?;
            }
            stream.open(pipe)?;
        }
        Ok(())
    }

    /// Sends a signal to the process groups of all living ranks.
    pub(crate) fn signal_all(&self, signal: i32) {
        for pid in self.states.iter().filter(|state| state.alive).filter_map(|state| state.pid) {
            let _ = process::kill(Target::Group(pid), signal);
        }
    }

    /// Answers what a rank asks. Returns what the launcher must hear.
    pub(crate) fn serve(
        &mut self,
        slot: u32,
        tree: &mut Node,
        job: &Job,
        poll: &Poll,
    ) -> io::Result<Option<Frame>> {
        let rank = self.rank(slot);
        let state = &mut self.states[slot as usize];
        let pid = state.pid.map_or(0, |pid| pid.0);
        let said = state.pmi.serve(&Facts { job, rank, slot }, tree, poll)?;
        Ok(said.map(|said| match said {
            Said::Abort(code, message) => Frame::Aborted { rank, pid, code, message: bounded(message) },
            Said::Nonsense(reason) => Frame::BadPmi { rank, pid, reason: bounded(reason) },
        }))
    }

    /// The barrier is over.
    pub(crate) fn release_barrier(&mut self, poll: &Poll) -> io::Result<()> {
        self.states.iter_mut().try_for_each(|state| state.pmi.release(poll))
    }

    pub(crate) fn answer_name(&mut self, slot: u32, answer: &NameAnswer, poll: &Poll) -> io::Result<()> {
        self.states.get_mut(slot as usize).map_or(Ok(()), |state| state.pmi.named(answer, poll))
    }

    /// Reads both pipes of a rank once.
    pub(crate) fn read_output(&mut self, slot: u32, queue: &mut OutputQueue, poll: &Poll) -> io::Result<()> {
        let rank = self.rank(slot);
        for stream in &mut self.states[slot as usize].streams {
            if stream.read(rank, queue)? == PipeState::Ended {
                close_stream(stream, poll);
            }
        }
        Ok(())
    }

    /// Stops or resumes waiting for output.
    pub(crate) fn pace_output(&mut self, full: bool, poll: &Poll) -> io::Result<()> {
        if full == self.paused {
            return Ok(());
        }
        self.paused = full;
        for (slot, state) in (0..).zip(&self.states) {
            for (stream, token) in state.streams.iter().zip([Token::Out(slot), Token::Err(slot)]) {
                let Some(fd) = stream.fd() else { continue };
                if full {
                    poll.remove(fd)?;
                } else {
                    poll.add(fd, token.pack(), Interest::Read)?;
                }
            }
        }
        Ok(())
    }

    /// A rank has been reaped: takes what its pipes still hold. They stay open if others have them.
    pub(crate) fn finish(
        &mut self,
        slot: u32,
        queue: &mut OutputQueue,
        poll: &Poll,
    ) -> io::Result<(Rank, PmiState)> {
        let rank = self.rank(slot);
        let state = &mut self.states[slot as usize];
        state.alive = false;
        for stream in &mut state.streams {
            drain_stream(stream, rank, queue, poll, LAST_READS_MAX)?;
        }
        state.pmi.close(poll);
        Ok((rank, state.pmi.state()))
    }

    /// All processes are gone: takes what is left in any pipe and closes them.
    pub(crate) fn drain(&mut self, queue: &mut OutputQueue, poll: &Poll) -> io::Result<()> {
        for (state, &rank) in self.states.iter_mut().zip(&self.ranks) {
            for stream in &mut state.streams {
                drain_stream(stream, rank, queue, poll, usize::MAX)?;
                stream.queue_rest(rank, queue);
                close_stream(stream, poll);
            }
        }
        Ok(())
    }

    /// The counters that a rank left in its slot, which is free afterwards.
    pub(crate) fn take_stats(&self, slot: u32) -> Vec<u64> {
        let values = Stat::ALL
            .iter()
            .map(|stat| self.segment.stat(slot, *stat as usize).load(Ordering::Relaxed))
            .collect();
        self.segment.clear_slot(slot);
        values
    }
}

impl Template {
    fn new(job: &Job, section: usize, local: u32, segment: &NodeSegment) -> io::Result<Self> {
        let found = &job.programs[section];
        let mut env = found.env.clone();
        env.push(PMI_FD.into());
        env.push(format!("PMI_SIZE={}", job.placement.ranks()).into());
        env.push(format!("PMI_JOBID={}", job.name).into());
        env.push(format!("MPI_LOCALNRANKS={local}").into());
        env.push(format!("BANYAN_NODE={}", segment.locator()?).into());
        // Spares Banyan's library a question; a placement that is no few blocks is asked for.
        let mapping = job.placement.mapping().to_string();
        if mapping.len() <= MAPPING_BYTES_MAX {
            env.push(format!("BANYAN_MAPPING={mapping}").into());
        }
        let mut args = vec![found.section.program.as_encoded_bytes().to_vec()];
        args.extend(found.section.args.iter().map(|arg| arg.as_encoded_bytes().to_vec()));
        let mut program = Program::new(&found.path, args, env, found.folder.clone())?;
        let rank = program.add_number("PMI_RANK");
        let local_rank = program.add_number("MPI_LOCALRANKID");
        Ok(Template { program, rank, local_rank })
    }
}

fn drain_stream(
    stream: &mut LineStream,
    rank: Rank,
    queue: &mut OutputQueue,
    poll: &Poll,
    reads_max: usize,
) -> io::Result<()> {
    for _ in 0..reads_max {
        match stream.read(rank, queue)? {
            PipeState::MayHaveMore => {}
            PipeState::Empty => return Ok(()),
            PipeState::Ended => {
                close_stream(stream, poll);
                return Ok(());
            }
        }
    }
    Ok(())
}

fn close_stream(stream: &mut LineStream, poll: &Poll) {
    if let Some(fd) = stream.fd() {
        let _ = poll.remove(fd); // not there while output is paused
    }
    stream.close();
}

fn bounded(mut text: String) -> String {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
