//! The launcher: the user's process. It starts the warden (and with it the tree), writes what ranks print, decides
//! when a job is over, and says why.
mod asking;
mod cause;
mod ending;
mod events;
mod exits;
mod feed;
mod files;
mod hints;
mod key;
mod outcome;
mod pmgr;
mod progress;
mod report;
mod sink;
mod spawning;
mod writing;

pub(crate) use cause::Ranks;
pub use cause::{Cause, Spot, Who};
pub(crate) use report::Extent;
pub use report::{BoardReport, JobReport, NodeBoard, NodeServer, Phases};

use crate::bootstrap::Bootstrap;
use crate::heartbeat::Heartbeat;
use crate::job::{Counters, Group, StdinBy, Tree};
use crate::leftover::Leftovers;
use crate::link::{Link, LinkState};
use crate::matrix::Matrix;
use crate::recording::Told;
use crate::spec::{JobSpec, Output, Talk};
use crate::stdin::{Stdin, StdinRelay};
use crate::traffic::Traffic;
use crate::unfinished::Unfinished;
use crate::warden::{HEARD, REPORT_BYTES, WardenSeed, parse_report, warden_main};
use asking::{Asking, TOKEN_CALLERS, TOKEN_LISTENER};
use exits::Exits;
use feed::Feed;
use files::FileTable;
use key::{KeyFile, new_key};
use outcome::{Outcome, Step};
use pmgr::Pmgr;
use progress::Progress;
use proto::ids::{NodeId, Rank};
use proto::stats::Met;
use proto::tree::{Ended, Frame, Names};
use report::Spawned;
use sink::{Room, Sink};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::node::Ties;
use sys::poll::{Interest, Poll, Ready};
use sys::process::{self, DescriptorLimit, Pid, Subreaper, Target, Wait};
use sys::signal::{self, SignalMask, SignalQueue};
use sys::socket::{self, Transfer};

const TOKEN_SIGNALS: u64 = 0;
const TOKEN_ROOT: u64 = 1;
const TOKEN_WARDEN: u64 = 2;
const TOKEN_OUT: u64 = 3;
const TOKEN_ERR: u64 = 4;
pub(crate) const TOKEN_STDIN: u64 = 5;
pub(crate) const TOKEN_STDIN_PIPE: u64 = 6;

/// How long a reader of output may take over the next piece when the job has failed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Signals that end the job.
const ENDING_SIGNALS: [i32; 3] = [signal::SIGINT, signal::SIGTERM, signal::SIGHUP];
/// The one that asks where ranks are, as users of other runtimes know it.
const ASKING_SIGNAL: i32 = signal::SIGQUIT;
/// Signals passed on to ranks. SIGTSTP stops the launcher as well; ranks get SIGSTOP for it, because a process
/// group without a terminal's foreground may ignore SIGTSTP.
const PASSED_SIGNALS: [i32; 4] = [signal::SIGUSR1, signal::SIGUSR2, signal::SIGTSTP, signal::SIGCONT];

/// How far the job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// One rank failed after finalize; the others have until then.
    Settling(Instant),
    /// The tree was told to end; it has until then.
    Ending(Instant),
}

struct Launcher<'j> {
    spec: &'j JobSpec,
    tree: Rc<Tree>,
    /// The jobs in the tree, the first one first.
    jobs: Vec<Begun>,
    /// The number of the next job that is spawned.
    next_job: u32,
    names: Names,
    grace: Duration,
    timeout: Option<Duration>,
    talk: Talk,
    poll: Poll,
    signals: SignalQueue,
    root: Option<Link>,
    root_pid: Option<Pid>,
    warden_link: OwnedFd,
    warden: Pid,
    warden_gone: bool,
    /// Has the warden been asked to kill everything?
    asked_to_kill: bool,
    strangers: Vec<Pid>,
    /// This host's name, where there is one node and it has no other.
    host: Option<String>,
    leftovers: Leftovers,
    heart: Option<Heartbeat>,
    out: Sink,
    err: Sink,
    stdin: Option<StdinRelay>,
    /// Standard input that goes over the tree.
    feed: Option<Feed>,
    key_file: Option<KeyFile>,
    outcome: Outcome,
    stage: Stage,
    stats: Vec<Vec<u64>>,
    /// What ranks of spawned jobs have counted.
    spawned: Spawned,
    /// Whom each rank of the first job has met.
    met: Vec<Vec<Met>>,
    /// How many bytes went between them.
    traffic: Traffic,
    /// And with whom it had to do first.
    told: Told,
    begun: Instant,
    phases: Phases,
    boards: Vec<NodeBoard>,
    servers: Vec<NodeServer>,
    agents: u32,
    progress: Progress,
    pmgr: Option<Pmgr>,
    asking: Asking,
    /// How each rank ended, if that is to be said.
    exits: Option<Exits>,
    /// What agents have warned of.
    warned: Vec<String>,
}

/// A job that has begun.
struct Begun {
    group: Rc<Group>,
    /// Nodes on which all its ranks have been started.
    nodes_started: u32,
    /// Who is told when they all have: the node, and its number for the question.
    asked_by: Option<(NodeId, u32)>,
    ties: Ties,
}

/// Runs a job from start to end. The calling process must have one thread.
pub(crate) fn run_job(spec: &JobSpec, tree: Tree, mut group: Group) -> io::Result<JobReport> {
    let pmgr = spec.pmgr.then(|| Pmgr::open(&mut group, tree.spread)).transpose()?;
    let mask = SignalMask::block_all()?;
    process::set_subreaper(Subreaper::On)?;
    let limit = DescriptorLimit::raise()?;
    let report = Launcher::start(spec, Rc::new(tree), group, limit)
        .and_then(|launcher| launcher.with_pmgr(pmgr))
        .and_then(Launcher::run);
    let _ = limit.set();
    process::set_subreaper(Subreaper::Off)?;
    drop(mask);
    report
}

impl<'j> Launcher<'j> {
    fn start(spec: &'j JobSpec, tree: Rc<Tree>, group: Group, limit: DescriptorLimit) -> io::Result<Self> {
        let begun = Instant::now();
        let leftovers = Leftovers::from_now();
        let strangers =
            if process::has_children()? { process::descendants(Pid::own(), &[])? } else { Vec::new() };
        let (root_here, root_there) = socket::socket_pair()?;
        let (warden_here, warden_there) = socket::socket_pair()?;
        let (mut stdin, mut relay, mut feed) = (None, None, None);
        let mut group = Group { unfinished: Unfinished::of_job(spec), ..group };
        match Stdin::for_job(&group, tree.spread)? {
            Stdin::Nothing => {}
            Stdin::Descriptor(fd, by) => (stdin, relay) = (Some(fd), by),
            Stdin::Feed(fd) => {
                group.stdin_by = StdinBy::Frames;
                feed = Some(Feed::new(fd, &group));
            }
        }
        let group = Rc::new(group);
        let key = (tree.bootstrap != Bootstrap::Fork).then(new_key).transpose()?;
        let key_file = match (&tree.bootstrap, &key) {
            (Bootstrap::Manual(file), Some(key)) => Some(KeyFile::write(file, key)?),
            _ => None,
        };
        let seed = WardenSeed {
            tree: tree.clone(),
            group: group.clone(),
            key,
            link: warden_there,
            root: root_there,
            stdin,
            launcher: Pid::own(),
            limit,
        };
        let warden = process::fork(move || warden_main(seed))?;
        let poll = Poll::new()?;
        let mut wanted = vec![signal::SIGCHLD, ASKING_SIGNAL];
        wanted.extend(ENDING_SIGNALS.iter().chain(&PASSED_SIGNALS));
        // A job under `nohup` outlives its terminal.
        wanted.retain(|number| *number != signal::SIGHUP || !signal::is_ignored(signal::SIGHUP));
        let signals = SignalQueue::new(&wanted)?;
        poll.add(signals.as_fd(), TOKEN_SIGNALS, Interest::Read)?;
        poll.add(warden_here.as_fd(), TOKEN_WARDEN, Interest::Read)?;
        socket::set_nonblocking(warden_here.as_fd())?;
        let (out, err) = match spec.output {
            Output::Inherit => (
                Sink::file(io::stdout(), TOKEN_OUT, spec.label.clone())?,
                Sink::file(io::stderr(), TOKEN_ERR, spec.label.clone())?,
            ),
            Output::Capture => (Sink::memory(spec.label.clone()), Sink::memory(spec.label.clone())),
        };
        let progress = if err.is_terminal() { Progress::on_terminal(begun) } else { Progress::none(begun) };
        if let Some(relay) = &mut relay {
            relay.register(&poll)?;
        }
        let mut outcome = Outcome::default();
        outcome.begin(group.id, group.ranks());
        let is_alone = tree.hosts.is_empty() && tree.shape.nodes() == 1;
        let host = is_alone.then(process::host_name).transpose()?;
        let asking = Asking::listening(&poll);
        let files = FileTable::default();
        Ok(Launcher {
            spec,
            tree,
            asking,
            next_job: 1,
            names: Names::default(),
            grace: spec.kill_grace,
            timeout: spec.timeout,
            talk: spec.talk,
            root_pid: None,
            root: Some(Link::new(root_here, TOKEN_ROOT, &poll)?),
            poll,
            signals,
            warden_link: warden_here,
            warden,
            warden_gone: false,
            asked_to_kill: false,
            strangers,
            host,
            leftovers,
            heart: Heartbeat::new(spec.heartbeat, begun),
            out: out.with_files(spec.out_files.as_ref(), &files),
            err: err.with_files(spec.err_files.as_ref(), &files),
            stdin: relay,
            feed,
            key_file,
            outcome,
            stage: Stage::Running,
            stats: vec![Vec::new(); group.ranks() as usize],
            spawned: Spawned::default(),
            met: vec![Vec::new(); group.ranks() as usize],
            traffic: Traffic::default(),
            told: Told::default(),
            jobs: vec![Begun { group, nodes_started: 0, asked_by: None, ties: Ties::Bound }],
            boards: Vec::new(),
            servers: Vec::new(),
            begun,
            phases: Phases::default(),
            agents: 0,
            progress,
            pmgr: None,
            exits: spec.exit_codes.then(Exits::default),
            warned: Vec::new(),
        })
    }

    fn run(mut self) -> io::Result<JobReport> {
        let mut ready = Vec::new();
        while !(self.warden_gone && self.root.is_none()) {
            ready.clear();
            self.poll.wait(self.timeout_ms(), &mut ready)?;
            for event in &ready {
                self.handle(*event)?;
            }
            if self.feed.as_ref().is_some_and(Feed::is_ready) {
                self.feed()?;
            }
            self.check_time()?;
            self.look_at_asking(Instant::now());
            self.show_progress();
            self.write_output(Room::Unknown, Room::Unknown)?;
            if let Some(root) = &mut self.root {
                root.flush(&self.poll)?;
            }
        }
        self.kill_rest()?;
        self.tidy();
        if let Some(exits) = &self.exits {
            exits.lines(&self.jobs[0].group).iter().for_each(|line| self.err.say(line));
        }
        drop(self.key_file.take());
        self.write_rest()?;
        self.phases.total = self.begun.elapsed();
        let matrix = (self.tree.matrix == Counters::Wanted).then(|| self.matrix());
        Ok(JobReport {
            exit_code: self.outcome.exit_code(),
            cause: self.outcome.cause().cloned(),
            ranks: self.jobs[0].group.ranks(),
            nodes: self.jobs[0].group.placement.nodes(),
            stats: self.stats,
            spawned: self.spawned,
            matrix,
            traffic: self.traffic,
            told: self.told,
            pattern: None,
            board: BoardReport { kind: self.tree.board, nodes: self.boards },
            servers: self.servers,
            phases: self.phases,
            stdout: self.out.into_captured(),
            stderr: self.err.into_captured(),
        })
    }

    /// Who was connected to whom in the first job.
    fn matrix(&mut self) -> Matrix {
        let placement = &self.jobs[0].group.placement;
        let nodes = (0..placement.ranks()).map(|rank| placement.node_of(Rank(rank)).0).collect();
        Matrix::new(nodes, std::mem::take(&mut self.met), |rank| !self.stats[rank].is_empty())
    }

    fn timeout_ms(&self) -> Option<u32> {
        if self.feed.as_ref().is_some_and(Feed::is_ready) {
            return Some(0);
        }
        let job_end = self.timeout.map(|limit| self.begun + limit);
        let beat = self.heart.as_ref().map(Heartbeat::due).into_iter().chain(self.asking.due()).min();
        let until = match self.stage {
            Stage::Running => job_end.into_iter().chain(self.progress.due()).chain(beat).min()?,
            Stage::Settling(until) => job_end.into_iter().chain(beat).fold(until, Instant::min),
            Stage::Ending(until) => until,
        };
        Some(until.saturating_duration_since(Instant::now()).as_millis() as u32 + 1)
    }

    fn handle(&mut self, event: Ready) -> io::Result<()> {
        match event.token {
            TOKEN_SIGNALS => self.on_signals(),
            TOKEN_ROOT if event.readable => self.on_root(),
            TOKEN_WARDEN => self.on_warden(),
            TOKEN_OUT => self.write_output(Room::Some, Room::Unknown),
            TOKEN_ERR => self.write_output(Room::Unknown, Room::Some),
            TOKEN_STDIN | TOKEN_STDIN_PIPE => self.on_stdin(),
            TOKEN_LISTENER => self.on_callers_door(),
            TOKEN_CALLERS => {
                self.serve_callers();
                Ok(())
            }
            pmgr::TOKENS.. => {
                self.on_pmgr(event);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_stdin(&mut self) -> io::Result<()> {
        self.feed()?;
        if let Some(relay) = &mut self.stdin
            && relay.relay(&self.poll)?.is_over()
        {
            self.stdin = None;
        }
        Ok(())
    }

    fn on_signals(&mut self) -> io::Result<()> {
        while let Some(number) = self.signals.next_signal() {
            if number == ASKING_SIGNAL {
                self.asked_by_signal();
            } else if ENDING_SIGNALS.contains(&number) {
                if matches!(self.stage, Stage::Ending(_)) {
                    self.cut_short(number)?;
                } else {
                    self.fail(Cause::Signalled(number));
                }
            } else if PASSED_SIGNALS.contains(&number)
                && let Some(root) = &mut self.root
            {
                let stops = number == signal::SIGTSTP;
                root.send(&Frame::Signal { signal: if stops { signal::SIGSTOP } else { number } });
                if stops {
                    root.flush(&self.poll)?;
                    process::kill(Target::Process(Pid::own()), signal::SIGSTOP)?;
                }
            }
        }
        self.reap()
    }

    fn reap(&mut self) -> io::Result<()> {
        if self.warden_gone {
            return Ok(());
        }
        if let Wait::Ended(pid, ended) = process::wait_for(self.warden)? {
            self.warden_gone = true;
            self.hear_warden()?; // what it said last comes first
            if !matches!(self.stage, Stage::Ending(_)) {
                self.fail(Cause::WardenLost(pid.0, crate::agent::from_sys(ended)));
            }
        }
        Ok(())
    }

    fn on_warden(&mut self) -> io::Result<()> {
        if self.hear_warden()? == LinkState::Closed {
            let _ = self.poll.remove(self.warden_link.as_fd()); // its end is reported by the kernel
        }
        Ok(())
    }

    fn hear_warden(&mut self) -> io::Result<LinkState> {
        let mut bytes = [0; REPORT_BYTES];
        match socket::read(self.warden_link.as_fd(), &mut bytes)? {
            Transfer::Bytes(n) => {
                if let Some((pid, ended)) = parse_report(&bytes[..n]) {
                    self.on_root_end(pid, crate::agent::from_sys(ended))?;
                }
                Ok(LinkState::Open)
            }
            Transfer::WouldBlock => Ok(LinkState::Open),
            Transfer::Closed => Ok(LinkState::Closed),
        }
    }

    /// The root agent has ended. If nobody told it to, that is the cause, unless it named one itself.
    fn on_root_end(&mut self, pid: Pid, ended: Ended) -> io::Result<()> {
        let _ = socket::write(self.warden_link.as_fd(), &[HEARD]);
        self.on_root()?;
        if !matches!(self.stage, Stage::Ending(_)) {
            self.fail(Cause::AgentLost(self.spot(NodeId(0)), pid.0, ended));
        }
        Ok(())
    }

    fn on_root(&mut self) -> io::Result<()> {
        loop {
            let Some(root) = &mut self.root else { return Ok(()) };
            let state = root.fill()?;
            let mut frames = 0;
            while let Some(frame) = self.root.as_mut().and_then(Link::next_frame) {
                frames += 1;
                match frame {
                    Ok(frame) => self.on_frame(frame),
                    Err(error) => self.fail(Cause::AgentFailed(self.spot(NodeId(0)), error.to_string())),
                }
            }
            if state == LinkState::Closed {
                if let Some(root) = self.root.take() {
                    root.close(&self.poll);
                }
                return Ok(());
            }
            if frames == 0 {
                return Ok(());
            }
        }
    }

    fn fail(&mut self, cause: Cause) {
        let step = self.outcome.fail(cause);
        self.take(step);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Settle if self.stage == Stage::Running => {
                self.stage = Stage::Settling(Instant::now() + self.grace)
            }
            Step::Settle => {}
            Step::Finish => self.order_end(Duration::ZERO),
            Step::End => {
                self.say_why();
                self.order_end(self.grace);
            }
        }
    }

    fn say_why(&mut self) {
        self.hide_progress();
        if let Some(why) = self.outcome.why() {
            self.err.say(&format!("{why}; ending the job"));
        }
    }
}
