//! The agents below this one: starting them, waiting for them, losing them.
use super::{Agent, Seed, Token, agent_main};
use crate::agent::Uplink;
use crate::bootstrap::{Bootstrap, Order, Starting, commands, manual_command, order_ms};
use crate::describe;
use crate::door::{Arrival, Door, DoorTokens, Refusals, addresses_towards, scoped};
use crate::job::{Tree, is_this_host};
use crate::link::Link;
use crate::program::own_program;
use proto::env::NetAddress;
use proto::ids::NodeId;
use proto::seal::{Key, LinkError};
use proto::tree::{Ended, Frame};
use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::poll::{Interest, Poll};
use sys::process::spawn::{Failures, Start};
use sys::process::{self, Pid, Target};
use sys::signal::{SIGKILL, signal_text};
use sys::socket::{self, Transfer};

/// How long the command that started a lost agent may take to tell more about it.
const TELLING_PATIENCE: Duration = Duration::from_millis(500);
/// What is kept of the words of a command.
const WORDS_BYTES_MAX: usize = 2048;

/// An agent below this one.
pub(crate) struct Below {
    pub(crate) node: NodeId,
    /// Its process, if it was forked.
    pub(crate) pid: Option<Pid>,
    pub(crate) link: Option<Link>,
    /// It has ended, or is not counted on any more.
    pub(crate) gone: bool,
    /// When its link was lost, until that is reported.
    lost: Option<(Instant, String)>,
}

/// A command that starts agents of other hosts, and lives as long as they do.
#[derive(Debug)]
pub(crate) struct Starter {
    pub(crate) pid: Pid,
    name: String,
    nodes: Vec<NodeId>,
    /// Its standard input; closing it ends the agents.
    stdin: Option<OwnedFd>,
    unsent: Vec<u8>,
    stderr: Option<OwnedFd>,
    words: Vec<u8>,
    ended: Option<Ended>,
}

/// What an agent needs to start agents of other hosts.
pub(crate) struct Outpost {
    key: Key,
    door: Option<Door>,
    starters: Vec<Starter>,
    failures: Failures,
    /// Until when agents may take to come.
    deadline: Option<Instant>,
    /// Frames of agents that were in, and had to be refused.
    refused: Refusals,
}

impl Outpost {
    pub(crate) fn new(key: Key) -> io::Result<Self> {
        Ok(Outpost {
            key,
            door: None,
            starters: Vec::new(),
            failures: Failures::new()?,
            deadline: None,
            refused: Refusals::default(),
        })
    }

    /// Commands that are alive.
    pub(crate) fn living(&self) -> impl Iterator<Item = Pid> {
        self.starters.iter().filter(|starter| starter.ended.is_none()).map(|starter| starter.pid)
    }
}

/// Forks the agent of a node below.
pub(super) fn fork_below(
    node: NodeId,
    index: u32,
    poll: &Poll,
    seed: impl FnOnce(Uplink) -> Seed,
) -> io::Result<Below> {
    let (here, there) = socket::socket_pair()?;
    let seed = seed(Uplink::Plain(there));
    let pid = process::fork(move || agent_main(seed))?;
    let link = Link::new(here, Token::Child(index).pack(), poll)?;
    Ok(Below { node, pid: Some(pid), link: Some(link), gone: false, lost: None })
}

/// The address as ranks are told it. One of loopback is of use only if all hosts of the tree are this one (tests put
/// several on a host); otherwise ranks find a better one themselves.
fn usable(tree: &Tree, address: SocketAddr) -> Option<NetAddress> {
    let is_alone = || tree.hosts.iter().all(|host| is_this_host(&host.name));
    (!address.ip().to_canonical().is_loopback() || is_alone()).then(|| scoped(address))
}

impl Agent {
    /// Starts the agents of other hosts that are below this one.
    pub(super) fn start_others(&mut self) -> io::Result<()> {
        let children: Vec<NodeId> = self.tree.shape.children(self.node).collect();
        if children.is_empty() || self.tree.bootstrap == Bootstrap::Fork {
            return Ok(());
        }
        let absent = |node| Below { node, pid: None, link: None, gone: false, lost: None };
        self.below = children.iter().copied().map(absent).collect();
        let Some(outpost) = &mut self.outpost else { return Ok(()) };
        let tokens = DoorTokens { listeners: Token::Listener(0).pack(), knocks: Token::Knock(0).pack() };
        let hosts = children.iter().map(|node| self.tree.hosts[node.index()].name.as_str());
        let addresses = addresses_towards(hosts);
        if self.address.is_none() {
            // The root, which has called nobody.
            let mut candidates = addresses.iter().map(|address| SocketAddr::new(*address, 0));
            self.address = candidates.find_map(|address| usable(&self.tree, address));
        }
        let mut door = Door::open(&addresses, outpost.key.clone(), tokens, &self.poll)?;
        children.iter().for_each(|node| door.expect(*node));
        let parents = door.addresses()?;
        outpost.door = Some(door);
        let timeout = self.tree.start_timeout;
        outpost.deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
        let order = |nodes: &[NodeId]| Order {
            key: outpost.key.clone(),
            parents: parents.clone(),
            nodes: nodes.iter().map(|node| (*node, self.tree.hosts[node.index()].name.clone())).collect(),
            timeout_ms: order_ms(timeout),
        };
        if let Bootstrap::Manual(key_file) = &self.tree.bootstrap {
            for node in &children {
                let command = manual_command(&self.tree, *node, &parents, key_file);
                eprintln!("banyan: on host {} run: {command}", self.tree.hosts[node.index()].login());
            }
        }
        let mut failed = Vec::new();
        for starting in commands(&self.tree, &children) {
            let token = outpost.starters.len() as u32;
            let order = order(&starting.nodes).emit().into_bytes();
            match Starter::start(&starting, order, token, &outpost.failures, &self.poll) {
                Ok(starter) => outpost.starters.push(starter),
                Err(reason) => failed.extend(starting.nodes.iter().map(|node| (*node, reason.clone()))),
            }
        }
        for (node, reason) in failed {
            self.report_missing(node, reason);
        }
        Ok(())
    }

    /// The address for this host's ranks to use, if other hosts can reach it.
    pub(super) fn usable(&self, address: SocketAddr) -> Option<NetAddress> {
        usable(&self.tree, address)
    }

    fn report_missing(&mut self, node: NodeId, reason: String) {
        if let Some(below) = self.below.iter_mut().find(|below| below.node == node) {
            below.gone = true;
        }
        self.report(&Frame::AgentMissing { node, reason });
    }

    /// Something happened at the door.
    pub(super) fn on_door(&mut self, token: u64) -> io::Result<()> {
        let Some(door) = self.outpost.as_mut().and_then(|outpost| outpost.door.as_mut()) else {
            return Ok(());
        };
        let Some(arrival) = door.handle(token, &self.poll, Instant::now()) else { return Ok(()) };
        let is_complete = door.missing().next().is_none();
        self.on_arrival(arrival)?;
        if is_complete {
            self.close_door();
        }
        Ok(())
    }

    /// Nobody is waited for any more.
    pub(super) fn close_door(&mut self) {
        let Some(outpost) = &mut self.outpost else { return };
        outpost.deadline = None;
        if let Some(door) = outpost.door.take() {
            let refusals = door.close(&self.poll);
            if refusals.total() > 0 {
                let last = refusals.last().unwrap_or_default();
                let text = format!("{refusals}; the last: {last}");
                self.report(&Frame::Note { node: self.node, text });
            }
        }
    }

    /// An agent has proven itself: it is told what the tree is and which jobs it has to do with.
    fn on_arrival(&mut self, arrival: Arrival) -> io::Result<()> {
        let Some(index) = self.below.iter().position(|below| below.node == arrival.node) else {
            return Ok(());
        };
        let text = format!("its agent calls from {}", arrival.peer);
        self.report(&Frame::Note { node: arrival.node, text });
        let token = Token::Child(index as u32).pack();
        let mut link = Link::sealed(arrival.fd, token, &self.poll, arrival.seal)?;
        for frame in describe::setup_frames(&describe::write_tree(&self.tree)) {
            link.send(&frame);
        }
        for here in self.jobs.iter().filter(|here| here.children.contains(&arrival.node)) {
            for frame in describe::frames(here.group.id, &describe::write_group(&here.group)) {
                link.send(&frame);
            }
        }
        if let Some(ending) = &self.ending {
            link.send(&Frame::End { grace_ms: ending.grace_ms() });
        }
        self.below[index].link = Some(link);
        Ok(())
    }

    /// A frame from below was not what it must be.
    pub(super) fn on_bad_frame(&mut self, error: &LinkError) {
        if let Some(outpost) = &mut self.outpost {
            outpost.refused.note_link(error);
            let text = format!("links: {}", outpost.refused);
            self.report(&Frame::Note { node: self.node, text });
        }
    }

    /// The link to an agent of another host is gone.
    pub(super) fn on_link_lost(&mut self, index: usize, reason: String) {
        let below = &mut self.below[index];
        if below.pid.is_none() && !below.gone && below.lost.is_none() {
            below.lost = Some((Instant::now(), reason));
        }
    }

    /// A command that starts agents says something, or takes what it is told.
    pub(super) fn on_starter(&mut self, index: u32) -> io::Result<()> {
        let starter = self.outpost.as_mut().and_then(|outpost| outpost.starters.get_mut(index as usize));
        starter.map_or(Ok(()), |starter| starter.talk(&self.poll))
    }

    /// A process has ended. Was it such a command?
    pub(super) fn on_starter_end(&mut self, pid: Pid, ended: Ended) -> io::Result<bool> {
        let Some(outpost) = &mut self.outpost else { return Ok(false) };
        let Some(starter) = outpost.starters.iter_mut().find(|starter| starter.pid == pid) else {
            return Ok(false);
        };
        let cannot_execute = outpost.failures.next_failure()?.map(|failure| failure.error);
        starter.talk(&self.poll)?;
        starter.end(ended, &self.poll);
        let (nodes, reason) = (starter.nodes.clone(), starter.reason(cannot_execute.as_ref()));
        for node in nodes {
            self.on_starter_gone(node, &reason)?;
        }
        Ok(true)
    }

    fn on_starter_gone(&mut self, node: NodeId, reason: &str) -> io::Result<()> {
        let Some(index) = self.below.iter().position(|below| below.node == node) else { return Ok(()) };
        self.drain_below(index as u32)?; // its last words first: they may name the cause
        let below = &mut self.below[index];
        if below.gone || self.ending.is_some() {
            below.gone = true;
            return Ok(());
        }
        let has_come = below.link.is_some() || below.lost.is_some();
        below.gone = true;
        if has_come {
            self.report(&Frame::AgentFailed { node, reason: reason.into() });
        } else {
            self.report(&Frame::AgentMissing { node, reason: reason.into() });
        }
        Ok(())
    }

    /// Who has not come in time, and who was lost without a word of explanation?
    pub(super) fn check_below(&mut self, now: Instant) -> io::Result<()> {
        let mut news = Vec::new();
        for below in self.below.iter_mut().filter(|below| !below.gone) {
            if below.lost.as_ref().is_some_and(|(since, _)| now >= *since + TELLING_PATIENCE)
                && let Some((_, reason)) = below.lost.take()
            {
                below.gone = true;
                news.push(Frame::AgentFailed { node: below.node, reason });
            }
        }
        let Some(outpost) = &mut self.outpost else { return Ok(()) };
        if let Some(door) = &mut outpost.door {
            door.expire(now, &self.poll);
        }
        if outpost.deadline.is_some_and(|deadline| now >= deadline) {
            outpost.deadline = None;
            let seconds = self.tree.start_timeout.as_secs_f64();
            let absent = self.below.iter_mut().filter(|below| below.link.is_none() && !below.gone);
            for below in absent {
                below.gone = true;
                let starter = outpost.starters.iter().find(|starter| starter.nodes.contains(&below.node));
                let words = starter.map_or(String::new(), Starter::last_words);
                let reason = format!("it did not come within {seconds} s{words}");
                news.push(Frame::AgentMissing { node: below.node, reason });
            }
        }
        if self.ending.is_none() {
            self.report_all(news);
        }
        Ok(())
    }

    /// When to call [`Agent::check_below`] at the latest.
    pub(super) fn below_deadline(&self) -> Option<Instant> {
        let lost = self.below.iter().filter(|below| !below.gone).filter_map(|below| below.lost.as_ref());
        let lost = lost.map(|(since, _)| *since + TELLING_PATIENCE);
        let outpost = self.outpost.as_ref();
        let door = outpost.and_then(|outpost| outpost.door.as_ref()).and_then(Door::next_deadline);
        lost.chain(door).chain(outpost.and_then(|outpost| outpost.deadline)).min()
    }

    /// The end has come: commands whose agents have not come are of no use any more, and neither is the door.
    pub(super) fn give_up_on_absent(&mut self) {
        self.close_door();
        let Some(outpost) = &self.outpost else { return };
        let has_come =
            |node: &NodeId| self.below.iter().any(|below| below.node == *node && below.link.is_some());
        for starter in outpost.starters.iter().filter(|starter| starter.ended.is_none()) {
            if !starter.nodes.iter().any(has_come) {
                let _ = process::kill(Target::Process(starter.pid), SIGKILL);
            }
        }
    }

    /// Nobody is above any more: agents below end when what started them ends.
    pub(super) fn abandon_others(&mut self) {
        self.close_door();
        if let Some(outpost) = &mut self.outpost {
            for starter in &mut outpost.starters {
                starter.hang_up(&self.poll);
                if starter.ended.is_none() {
                    let _ = process::kill(Target::Process(starter.pid), SIGKILL);
                }
            }
        }
    }
}

impl Starter {
    fn start(
        starting: &Starting,
        order: Vec<u8>,
        token: u32,
        failures: &Failures,
        poll: &Poll,
    ) -> Result<Self, String> {
        let name = starting.words[0].clone();
        let mut program = own_program(&starting.words).map_err(|error| format!("'{name}': {error}"))?;
        let begin = || -> io::Result<Self> {
            let null = OpenOptions::new().write(true).open("/dev/null")?;
            let (stdin_there, stdin) = socket::pipe()?;
            let (stderr, stderr_there) = socket::pipe()?;
            let descriptors = [stdin_there.as_fd(), null.as_fd(), stderr_there.as_fd()];
            let start = Start { descriptors: &descriptors, cores: &[], limit: None };
            let pid = program.start(&start, failures)?;
            socket::set_nonblocking(stdin.as_fd())?;
            socket::set_nonblocking(stderr.as_fd())?;
            poll.add(stdin.as_fd(), Token::StarterIn(token).pack(), Interest::Write)?;
            poll.add(stderr.as_fd(), Token::StarterErr(token).pack(), Interest::Read)?;
            Ok(Starter {
                pid,
                name: name.clone(),
                nodes: starting.nodes.clone(),
                stdin: Some(stdin),
                unsent: order,
                stderr: Some(stderr),
                words: Vec::new(),
                ended: None,
            })
        };
        begin().map_err(|error| format!("'{name}': {error}"))
    }

    /// Writes the rest of the order, and reads what there is.
    fn talk(&mut self, poll: &Poll) -> io::Result<()> {
        if let Some(stdin) = &self.stdin
            && !self.unsent.is_empty()
        {
            match socket::write(stdin.as_fd(), &self.unsent)? {
                Transfer::Bytes(n) => drop(self.unsent.drain(..n)),
                Transfer::WouldBlock => {}
                Transfer::Closed => self.unsent.clear(),
            }
            if self.unsent.is_empty() {
                poll.remove(stdin.as_fd())?; // it stays open: its closing is the order to end
            }
        }
        let mut bytes = [0; WORDS_BYTES_MAX];
        while let Some(stderr) = &self.stderr {
            match socket::read(stderr.as_fd(), &mut bytes)? {
                Transfer::Bytes(n) => {
                    self.words.extend_from_slice(&bytes[..n]);
                    let excess = self.words.len().saturating_sub(WORDS_BYTES_MAX);
                    self.words.drain(..excess);
                }
                Transfer::WouldBlock => break,
                Transfer::Closed => {
                    poll.remove(stderr.as_fd())?;
                    self.stderr = None;
                }
            }
        }
        Ok(())
    }

    fn hang_up(&mut self, poll: &Poll) {
        if let Some(stdin) = self.stdin.take()
            && !self.unsent.is_empty()
        {
            let _ = poll.remove(stdin.as_fd());
        }
    }

    fn end(&mut self, ended: Ended, poll: &Poll) {
        self.hang_up(poll);
        if let Some(stderr) = self.stderr.take() {
            let _ = poll.remove(stderr.as_fd());
        }
        self.ended = Some(ended);
    }

    /// What happened, in the words of the command.
    fn reason(&self, cannot_execute: Option<&io::Error>) -> String {
        let name = &self.name;
        let what = match (cannot_execute, self.ended) {
            (Some(error), _) => format!("'{name}': {error}"),
            (None, Some(Ended::Exit(code))) => format!("'{name}' exited with code {code}"),
            (None, Some(Ended::Signal(signal))) => {
                format!("'{name}' was killed by signal {signal} ({})", signal_text(signal))
            }
            (None, None) => format!("'{name}' is still running"),
        };
        what + &self.last_words()
    }

    /// `: WORDS`, the last lines of what the command said, or nothing.
    fn last_words(&self) -> String {
        /// Lines that are told.
        const LINES_MAX: usize = 3;
        let text = String::from_utf8_lossy(&self.words);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
        if last.is_empty() { String::new() } else { format!(": {}", last.join(" / ")) }
    }
}

/// Sends a frame to the agent of a node below, if it is still there.
pub(super) fn send_below(below: &mut [Below], child: NodeId, frame: &Frame) {
    let below = below.iter_mut().find(|below| below.node == child);
    if let Some(link) = below.and_then(|below| below.link.as_mut()) {
        link.send(frame);
    }
}
