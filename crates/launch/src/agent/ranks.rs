//! The ranks that one job has on one node: starting them, their pipes and their PMI service.
use super::Token;
use super::asking;
use super::asks::Asks;
use super::input::InputPipe;
use super::output::{Hold, LineStream, OutputQueue, PipeState};
use super::pmi::{Attributes, PmiClient, RequestContext, Said, Woken};
use super::template::Template;
use crate::job::{Binding, Counters, Group, StdinBy, Tree};
use crate::launcher::Ranks as Listed;
use crate::picture::listed;
use crate::reason::bounded;
use crate::recording::{CONTACTS_MAX, contacts_told};
use crate::spec::StdinTo;
use crate::stdin::reopen;
use crate::unfinished::Unfinished;
use proto::board::Board;
use proto::env::NetAddress;
use proto::ids::{Job, NodeId, Rank};
use proto::lane::{Bytes, JobId};
use proto::pmi2::RequestId;
use proto::stats::{Means, Met, Stat};
use proto::tree::{Answer, Frame, MET_MAX, Member, PmiState, StartStep, Stream, TRAFFIC_MAX};
use proto::waits::Standing;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use sys::cpu::CoreSet;
use sys::node::{NodeFacts, NodeSegment, Records, Ties};
use sys::poll::{Interest, Poll};
use sys::process::spawn::{Failures, Start, Step};
use sys::process::{self, DescriptorLimit, Pid, Target};
use sys::signal::SIGKILL;
use sys::socket;

/// Reads from a pipe whose rank has ended; a process it left behind might go on writing for ever. What a pipe holds is less.
const LAST_READS_MAX: usize = 32;

/// One rank.
#[derive(Debug)]
struct State {
    pid: Option<Pid>,
    alive: bool,
    pmi: PmiClient,
    streams: [LineStream; 2],
    /// Where its standard input comes from over the tree.
    input: Option<InputPipe>,
}

pub(crate) struct Ranks {
    group: Rc<Group>,
    ranks: Vec<Rank>,
    /// The number, among all that ever were on this node, of the first of them.
    first_seat: u32,
    states: Vec<State>,
    next: u32,
    templates: Vec<Option<Template>>,
    failures: Failures,
    null: File,
    stdin: Option<OwnedFd>,
    segment: Option<NodeSegment>,
    /// What ranks here find in their environment, beside what all of the job find.
    variables: Vec<Vec<u8>>,
    limit: DescriptorLimit,
    slots: HashMap<Pid, u32>,
    binding: Binding,
    paused: bool,
    /// What is to be said of programs.
    warnings: Vec<String>,
    /// The last question where they are, in the segment.
    asked: u32,
}

/// What ranks are told about where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) node: NodeId,
    /// Cores that may be used on this host.
    pub(crate) cores: &'a [usize],
    /// Ranks that share them, as far as is known.
    pub(crate) crowd: u32,
    /// The address under which other hosts reach this one, where there are others.
    pub(crate) address: Option<&'a NetAddress>,
    /// The segment of another job here.
    pub(crate) beside: Option<&'a NodeSegment>,
}

impl Ranks {
    /// Prepares everything that the ranks of `group` here have in common.
    pub(crate) fn new(
        group: Rc<Group>,
        site: Site<'_>,
        first_seat: u32,
        stdin: Option<OwnedFd>,
        limit: DescriptorLimit,
    ) -> io::Result<Self> {
        let ranks = group.ranks_on(site.node);
        let count = ranks.len() as u32;
        // The slot behind those of the ranks is the data server's.
        let slots = count + u32::from(site.tree.data_server);
        let segment = (count > 0).then(|| segment_of(site, &group, slots)).transpose()?;
        let stream = |stream, slot: u32| {
            let hold = match group.unfinished[stream as usize] {
                Unfinished::Shown => Hold::Briefly,
                Unfinished::OfReaders if group.reads_stdin(ranks[slot as usize]) => Hold::Briefly,
                Unfinished::OfReaders | Unfinished::Kept => Hold::WholeLines,
            };
            LineStream::new(stream, hold)
        };
        let state = |slot| State {
            pid: None,
            alive: false,
            pmi: PmiClient::new(Token::Pmi(first_seat + slot).pack()),
            streams: [stream(Stream::Out, slot), stream(Stream::Err, slot)],
            input: None,
        };
        Ok(Ranks {
            states: (0..count).map(state).collect(),
            next: 0,
            templates: group.programs.iter().map(|_| None).collect(),
            group,
            ranks,
            first_seat,
            failures: Failures::new()?,
            null: OpenOptions::new().read(true).write(true).open("/dev/null")?,
            stdin,
            segment,
            variables: Vec::new(),
            limit,
            slots: HashMap::with_capacity(count as usize),
            binding: site.tree.binding(site.cores),
            paused: false,
            warnings: Vec::new(),
            asked: 0,
        })
    }

    /// What the ranks here share.
    pub(crate) fn segment(&self) -> Option<&NodeSegment> {
        self.segment.as_ref()
    }

    /// The first rank here.
    pub(crate) fn first(&self) -> Option<Rank> {
        self.ranks.first().copied()
    }

    /// What ranks here find in their environment, beside what all of the job find.
    pub(crate) fn variables(&self) -> &[Vec<u8>] {
        &self.variables
    }

    /// The limit of descriptors that processes here get.
    pub(crate) fn limit(&self) -> DescriptorLimit {
        self.limit
    }

    /// The counters in a slot, if a process is, or was, in it.
    pub(crate) fn counters_of(&self, slot: u32) -> Option<Vec<u64>> {
        let segment = self.segment.as_ref().filter(|segment| segment.is_claimed(slot))?;
        let value = |stat: &Stat| segment.stat(slot, *stat as usize).load(Ordering::Relaxed);
        Some(Stat::ALL.iter().map(value).collect())
    }

    /// Asks the ranks here where they are.
    pub(crate) fn ask(&mut self) {
        self.asked = self.segment.as_ref().map_or(0, asking::ask);
    }

    /// The number of that question.
    pub(super) fn asked(&self) -> u32 {
        self.asked
    }

    /// Has every rank answered that could?
    pub(super) fn have_answered(&self) -> bool {
        let Some(segment) = &self.segment else { return true };
        (0..self.count()).all(|slot| {
            let could = self.living(slot).is_some() && segment.is_claimed(slot);
            !could || segment.answer_to(slot, self.asked).is_some()
        })
    }

    /// The process of a rank that has been started and has not ended, and how far it is with PMI.
    pub(super) fn living(&self, slot: u32) -> Option<(Pid, PmiState)> {
        let state = self.states.get(slot as usize).filter(|state| state.alive)?;
        Some((state.pid?, state.pmi.state()))
    }

    /// Where the ranks are that have not ended: how those did, the launcher knows.
    pub(super) fn standings(&self) -> impl Iterator<Item = (Member, Standing)> + '_ {
        let living = (0..self.count()).filter(|slot| self.living(*slot).is_some());
        let living = living.map(|slot| (self.member(slot), asking::standing(self, slot)));
        living.chain((self.next..self.count()).map(|slot| (self.member(slot), Standing::NotStarted)))
    }

    /// One more variable (`K=V`) for all ranks here, before the first is started.
    pub(crate) fn add_variable(&mut self, variable: Vec<u8>) {
        self.variables.push(variable);
    }

    /// The local number of a seat.
    pub(crate) fn slot_of_seat(&self, seat: u32) -> Option<u32> {
        seat.checked_sub(self.first_seat).filter(|slot| *slot < self.count())
    }

    pub(crate) fn count(&self) -> u32 {
        self.states.len() as u32
    }

    pub(crate) fn all_started(&self) -> bool {
        self.next == self.count()
    }

    /// Has every rank been started? Those of a spawned job must have begun PMI as well: whoever wants them waits for that,
    /// and for ever if the program never calls MPI.
    pub(crate) fn all_up(&self) -> bool {
        let is_up = |state: &State| match self.group.spawner {
            None => state.pid.is_some(),
            Some(_) => state.pmi.state() != PmiState::Unused,
        };
        self.states.iter().all(is_up)
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

    pub(crate) fn member(&self, slot: u32) -> Member {
        self.group.member(self.ranks[slot as usize])
    }

    /// Starts the next rank.
    pub(crate) fn start_next(&mut self, site: Site<'_>, poll: &Poll) -> io::Result<()> {
        let slot = self.next;
        let rank = self.ranks[slot as usize];
        let (pmi_here, pmi_there) = socket::socket_pair()?;
        let (out_here, out_there) = socket::pipe()?;
        let (err_here, err_there) = socket::pipe()?;
        let stdin = self.stdin_of(slot)?;
        let cores = self.binding.at(site.tree.turn(rank, slot)).to_vec();
        let template = self.template(rank)?;
        template.program.set(template.rank, rank.0);
        template.program.set(template.local_rank, slot);
        if let Some(name) = template.pmgr_rank {
            template.program.set(name, rank.0);
        }
        let template = self.templates[self.group.section_of(rank)].as_mut().expect("just made");
        let stdin = stdin.as_ref().map_or(self.null.as_fd(), |fd| fd.as_fd());
        let descriptors: [BorrowedFd<'_>; 4] =
            [stdin, out_there.as_fd(), err_there.as_fd(), pmi_there.as_fd()];
        let start = Start { descriptors: &descriptors, cores: &cores, limit: Some(self.limit) };
        let pid = template.program.start(&start, &self.failures)?;
        self.next += 1;
        self.adopt(slot, pid, [out_here, err_here], pmi_here, poll)
    }

    /// The process of a living rank that has not begun PMI.
    pub(crate) fn silent_pid(&self, slot: u32) -> Option<Pid> {
        let state = &self.states[slot as usize];
        state.pid.filter(|_| state.alive && state.pmi.state() == PmiState::Unused)
    }

    /// What is to be said of the programs that have been made ready since the last time.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Which processors the ranks here may use.
    pub(crate) fn bindings(&self, site: Site<'_>) -> String {
        let mut by_set: BTreeMap<&[usize], Vec<Rank>> = BTreeMap::new();
        for (slot, &rank) in (0..).zip(&self.ranks) {
            by_set.entry(self.binding.at(site.tree.turn(rank, slot))).or_default().push(rank);
        }
        let line = |(&cores, ranks): (&&[usize], &Vec<Rank>)| match cores {
            [] => format!("{} bound to none, may use {}", Listed(ranks), listed(site.cores)),
            [core] => format!("{} bound to processor {core}", Listed(ranks)),
            cores => format!("{} bound to processors {}", Listed(ranks), listed(cores)),
        };
        by_set.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    /// What a rank reads, if that is not nothing.
    fn stdin_of(&mut self, slot: u32) -> io::Result<Option<OwnedFd>> {
        let reads = self.group.reads_stdin(self.ranks[slot as usize]);
        match (self.group.stdin_by, &self.stdin) {
            _ if !reads => Ok(None),
            (StdinBy::Frames, _) => {
                let (read, write) = socket::pipe()?;
                self.states[slot as usize].input = Some(InputPipe::new(write, self.first_seat + slot)?);
                Ok(Some(read))
            }
            (StdinBy::Descriptor, Some(file)) if self.group.stdin == StdinTo::All => reopen(file).map(Some),
            (StdinBy::Descriptor, _) => Ok(self.stdin.take()),
        }
    }

    /// Input for a rank. Returns how much of all that it was sent is taken.
    pub(crate) fn take_input(&mut self, to: Member, bytes: &[u8], poll: &Poll) -> io::Result<u32> {
        let slot = self.ranks.iter().position(|rank| *rank == to.rank);
        let Some(slot) = slot else { return Ok(bytes.len() as u32) };
        match &mut self.states[slot].input {
            Some(input) => {
                input.take(bytes);
                input.write(poll)
            }
            None => Ok(bytes.len() as u32),
        }
    }

    pub(crate) fn write_input(&mut self, slot: u32, poll: &Poll) -> io::Result<u32> {
        self.states[slot as usize].input.as_mut().map_or(Ok(0), |input| input.write(poll))
    }

    /// The program of a rank, made ready when its first rank is started.
    fn template(&mut self, rank: Rank) -> io::Result<&mut Template> {
        let section = self.group.section_of(rank);
        if self.templates[section].is_none() {
            let segment = self.segment.as_ref().expect("there is one where there are ranks");
            let mut template = Template::new(&self.group, section, self.count(), segment, &self.variables)?;
            self.warnings.append(&mut template.warnings);
            self.templates[section] = Some(template);
        }
        Ok(self.templates[section].as_mut().expect("just made"))
    }

    /// What a rank, whose start failed, has to say about it.
    pub(crate) fn next_failure(&self) -> io::Result<Option<Frame>> {
        let Some(failure) = self.failures.next_failure()? else { return Ok(None) };
        let Some(who) = self.slots.get(&failure.pid).map(|slot| self.member(*slot)) else { return Ok(None) };
        let program = &self.group.programs[self.group.section_of(who.rank)];
        let step = match failure.step {
            Step::Prepare => StartStep::Process,
            Step::Enter => StartStep::Folder,
            Step::Execute if failure.error.kind() == io::ErrorKind::NotFound && program.is_here() => {
                StartStep::Interpreter
            }
            Step::Execute => StartStep::Program,
        };
        Ok(Some(Frame::StartFailed { who, step, errno: failure.error.raw_os_error().unwrap_or(0) }))
    }

    /// Looks, before the first rank of a spawned job is started, for what would keep one from running: whoever wanted the
    /// job can only be told as long as it has not been started.
    pub(crate) fn first_obstacle(&self) -> Option<Frame> {
        if self.next > 0 || self.group.spawner.is_none() {
            return None;
        }
        let mut checked = None;
        for &rank in &self.ranks {
            let section = self.group.section_of(rank);
            if checked.replace(section) != Some(section)
                && let Err((step, error)) = self.group.programs[section].check_here()
            {
                let (who, errno) = (self.group.member(rank), error.raw_os_error().unwrap_or(0));
                return Some(Frame::StartFailed { who, step, errno });
            }
        }
        None
    }

    /// Says that the next rank could not be started, before there was a process that could have said so.
    pub(crate) fn start_failed(&self, error: &io::Error) -> Frame {
        let who = self.member(self.next.min(self.count() - 1));
        let errno = error.raw_os_error().unwrap_or(0);
        // A program that is looked for on this host has no process before it is found.
        let is_program = matches!(errno, process::ENOENT | process::EACCES);
        let step = if is_program { StartStep::Program } else { StartStep::Process };
        Frame::StartFailed { who, step, errno }
    }

    /// Waits for nothing any more.
    pub(crate) fn unregister(&mut self, poll: &Poll) {
        let _ = poll.remove(self.failures.as_fd());
        self.states.iter_mut().for_each(|state| state.pmi.close(poll));
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
        let (paused, seat) = (self.paused, self.first_seat + slot);
        self.slots.insert(pid, slot);
        let state = &mut self.states[slot as usize];
        state.pid = Some(pid);
        state.alive = true;
        state.pmi.open(pmi, poll)?;
        for ((stream, pipe), token) in
            state.streams.iter_mut().zip(pipes).zip([Token::Out(seat), Token::Err(seat)])
        {
            if !paused {
                poll.add(pipe.as_fd(), token.pack(), Interest::Read)?;
            }
            stream.open(pipe)?;
        }
        Ok(())
    }

    /// Sends a signal to the process groups of all living ranks. One that has not had its first turn on a processor, which
    /// may be long in coming, leads no group yet.
    pub(crate) fn signal_all(&self, signal: i32) {
        for pid in self.states.iter().filter(|state| state.alive).filter_map(|state| state.pid) {
            let _ = process::kill(Target::Leader(pid), signal);
            if signal == SIGKILL {
                let _ = process::kill(Target::Process(pid), signal); // it may have left its group to others
            }
        }
    }

    /// Answers what a rank asks. Returns what the launcher must hear.
    pub(crate) fn serve(&mut self, slot: u32, service: &mut Service<'_>) -> io::Result<Vec<Frame>> {
        self.with_client(slot, service, |client, context, poll| client.serve(context, poll))
    }

    /// The barrier is over.
    pub(crate) fn release_barrier(&mut self, service: &mut Service<'_>) -> io::Result<Vec<Frame>> {
        let mut frames = Vec::new();
        for slot in 0..self.count() {
            frames.extend(
                self.with_client(slot, service, |client, context, poll| client.release(context, poll))?,
            );
        }
        Ok(frames)
    }

    /// The board has found what a rank asked for, or knows that nobody has put it.
    pub(crate) fn answer_get(
        &mut self,
        slot: u32,
        key: &[u8],
        value: Option<&Bytes>,
        service: &mut Service<'_>,
    ) -> io::Result<Vec<Frame>> {
        self.with_client(slot, service, |client, context, poll| client.got(key, value, context, poll))
    }

    /// The launcher has answered a question.
    pub(crate) fn answer(
        &mut self,
        slot: u32,
        request: RequestId,
        answer: &Answer,
        service: &mut Service<'_>,
    ) -> io::Result<Vec<Frame>> {
        self.with_client(slot, service, |client, context, poll| {
            client.answered(request, answer, context, poll)
        })
    }

    /// Lets a rank's service act, and then those of the ranks that have waited for what it did.
    fn with_client(
        &mut self,
        slot: u32,
        service: &mut Service<'_>,
        act: impl FnOnce(&mut PmiClient, &mut RequestContext<'_>, &Poll) -> io::Result<Option<Said>>,
    ) -> io::Result<Vec<Frame>> {
        let mut woken = VecDeque::new();
        let mut frames = Vec::new();
        let said = self.with_one(slot, service, (&mut woken, &mut frames), act)?;
        frames.extend(said.as_ref().and_then(|_| self.spare(slot)).into_iter().chain(said));
        while let Some(next) = woken.pop_front() {
            let wake = |client: &mut PmiClient, context: &mut RequestContext<'_>, poll: &Poll| {
                client.wake(&next, context, poll)
            };
            let said = self.with_one(next.slot, service, (&mut woken, &mut frames), wake)?;
            frames.extend(said.as_ref().and_then(|_| self.spare(next.slot)).into_iter().chain(said));
        }
        Ok(frames)
    }

    fn with_one(
        &mut self,
        slot: u32,
        service: &mut Service<'_>,
        (woken, frames): (&mut VecDeque<Woken>, &mut Vec<Frame>),
        act: impl FnOnce(&mut PmiClient, &mut RequestContext<'_>, &Poll) -> io::Result<Option<Said>>,
    ) -> io::Result<Option<Frame>> {
        let (who, mut waiting) = (self.member(slot), None);
        let state = &mut self.states[slot as usize];
        let pid = state.pid.map_or(0, |pid| pid.0);
        let mut context = RequestContext {
            tree: service.tree,
            group: &self.group,
            rank: who.rank,
            slot,
            seat: self.first_seat + slot,
            board: service.board,
            asks: service.asks,
            attributes: service.attributes,
            woken,
            waiting: &mut waiting,
        };
        let said = act(&mut state.pmi, &mut context, service.poll)?;
        frames.extend(waiting.map(|seconds| Frame::Waiting { who, seconds }));
        Ok(said.map(|said| match said {
            Said::Abort(code, message) => Frame::Aborted { who, pid, code, message: bounded(message) },
            Said::Nonsense(reason) => Frame::BadPmi { who, pid, reason: bounded(reason) },
        }))
    }

    /// Reads both pipes of a rank once.
    pub(crate) fn read_output(&mut self, slot: u32, queue: &mut OutputQueue, poll: &Poll) -> io::Result<()> {
        let who = self.member(slot);
        for stream in &mut self.states[slot as usize].streams {
            if stream.read(who, queue)? == PipeState::Ended {
                close_stream(stream, poll);
            }
        }
        Ok(())
    }

    /// Queues the lines that have been unfinished for long enough.
    pub(crate) fn queue_unfinished(&mut self, now: Instant, queue: &mut OutputQueue) {
        for (state, &rank) in self.states.iter_mut().zip(&self.ranks) {
            let who = self.group.member(rank);
            state.streams.iter_mut().for_each(|stream| stream.queue_unfinished(who, now, queue));
        }
    }

    /// Stops or resumes waiting for output.
    pub(crate) fn pace_output(&mut self, full: bool, poll: &Poll) -> io::Result<()> {
        if full == self.paused {
            return Ok(());
        }
        self.paused = full;
        for (seat, state) in (self.first_seat..).zip(&self.states) {
            for (stream, token) in state.streams.iter().zip([Token::Out(seat), Token::Err(seat)]) {
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
    ) -> io::Result<(Member, PmiState)> {
        let who = self.member(slot);
        let state = &mut self.states[slot as usize];
        state.alive = false;
        for stream in &mut state.streams {
            drain_stream(stream, who, queue, poll)?;
        }
        state.pmi.close(poll);
        if let Some(input) = &mut state.input {
            input.close(poll);
        }
        Ok((who, state.pmi.state()))
    }

    /// To be said before a rank is the cause of something, if other jobs can do without its own.
    pub(crate) fn spare(&self, slot: u32) -> Option<Frame> {
        let segment = self.segment.as_ref().filter(|segment| segment.is_claimed(slot))?;
        let ties = segment.ties(slot);
        (ties != Ties::Bound).then(|| Frame::Spare { who: self.member(slot), parted: ties == Ties::Parted })
    }

    /// Another job has come to a bad end: its processes will not answer any more.
    pub(crate) fn tell_lost(&self, job: Job) {
        if let Some(segment) = &self.segment {
            segment.tell_lost(job.0);
        }
    }

    /// What a rank wrote last to standard error.
    pub(crate) fn last_words(&self, slot: u32) -> String {
        self.states[slot as usize].streams.iter().map(LineStream::last_words).collect()
    }

    /// All ranks are gone: takes what is left in any pipe and closes them.
    pub(crate) fn drain(&mut self, queue: &mut OutputQueue, poll: &Poll) -> io::Result<()> {
        for (state, &rank) in self.states.iter_mut().zip(&self.ranks) {
            let who = self.group.member(rank);
            for stream in &mut state.streams {
                drain_stream(stream, who, queue, poll)?;
                stream.queue_rest(who, queue);
                close_stream(stream, poll);
            }
        }
        Ok(())
    }

    /// What a rank left in its slot, which is free afterwards: its counters, and whom it has met. One that was never
    /// there has counted nothing.
    pub(crate) fn take_account(&self, slot: u32) -> Vec<Frame> {
        let of = self.member(slot);
        let Some(segment) = self.segment.as_ref().filter(|segment| segment.is_claimed(slot)) else {
            return vec![Frame::Stats { of, values: Vec::new() }];
        };
        let mut frames = vec![Frame::Stats { of, values: self.counters_of(slot).unwrap_or_default() }];
        let words = words_of(segment, slot);
        frames.extend(words.chunks(MET_MAX).map(|words| Frame::Met { of, words: words.to_vec() }));
        let traffic =
            segment.traffic(slot).flat_map(|(rank, bytes)| [rank.into(), bytes.carried, bytes.lent]);
        let traffic: Vec<u64> = traffic.collect();
        frames.extend(
            traffic.chunks(3 * TRAFFIC_MAX).map(|words| Frame::Traffic { of, words: words.to_vec() }),
        );
        if segment.records().contacts > 0 {
            let told = segment.contacts(slot, contacts_told(self.group.ranks()));
            let words = told.listed.into_iter().flat_map(|(rank, when_ms)| [rank, when_ms]).collect();
            frames.push(Frame::Contacts { of, count: told.count, words });
        }
        segment.clear_slot(slot);
        frames
    }
}

/// What the PMI service of a rank works with.
pub(crate) struct Service<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) board: &'a mut Board,
    pub(crate) attributes: &'a mut Attributes,
    pub(crate) asks: &'a mut Asks,
    pub(crate) poll: &'a Poll,
}

/// Whom the process in a slot has met, as words of [`Met`].
fn words_of(segment: &NodeSegment, slot: u32) -> Vec<u32> {
    let planes = [Means::SHARED, Means::SOCKETS].into_iter().enumerate();
    let met = planes.flat_map(|(plane, means)| segment.met(slot, plane).map(move |rank| Met { rank, means }));
    met.map(Met::to_word).collect()
}

fn segment_of(site: Site<'_>, group: &Group, slots: u32) -> io::Result<NodeSegment> {
    let columns = if site.tree.matrix == Counters::Wanted { group.ranks() } else { 0 };
    let facts = NodeFacts {
        node: site.node.0,
        slots,
        cores: site.cores.len() as u32,
        core_set: CoreSet::of(site.cores),
        qp_max: site.tree.qp_max,
        oversubscribed: site.crowd as usize > site.cores.len(),
        host: site.tree.host,
        key: site.tree.key,
        pid_space: sys::node::pid_space(),
    };
    // What spawned jobs do is not predicted.
    let is_recorded = site.tree.contacts == Counters::Wanted && group.id == JobId(0);
    let contacts = if is_recorded { CONTACTS_MAX } else { 0 };
    let traffic = columns > 0 && group.id == JobId(0);
    NodeSegment::create_beside(&facts, Records { columns, contacts, traffic }, site.beside)
}

fn drain_stream(
    stream: &mut LineStream,
    who: Member,
    queue: &mut OutputQueue,
    poll: &Poll,
) -> io::Result<()> {
    for _ in 0..LAST_READS_MAX {
        match stream.read(who, queue)? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::plan;
    use crate::spec::JobSpec;

    #[test]
    fn a_pipe_that_is_always_full_is_not_read_for_ever() {
        let (tree, group) = plan(&JobSpec::new("sh", Vec::new(), 1)).unwrap();
        let node = NodeId(0);
        let site = Site { tree: &tree, node, cores: &[0], crowd: 1, address: None, beside: None };
        let limit = DescriptorLimit::raise().unwrap();
        let mut ranks = Ranks::new(Rc::new(group), site, 0, None, limit).unwrap();
        // As if somebody refilled a pipe as fast as it is read.
        ranks.states[0].streams[0].open(File::open("/dev/zero").unwrap().into()).unwrap();
        let (mut queue, poll) = (OutputQueue::default(), Poll::new().unwrap());
        ranks.drain(&mut queue, &poll).unwrap();
        assert!(!queue.is_empty() && ranks.states[0].streams[0].fd().is_none());
    }
}
