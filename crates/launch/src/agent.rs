//! The agent of one node: starts the agents below it, then its ranks, serves them, and ends them.
//!
//! One thread, one poll loop. An agent lives as long as the job; losing its parent is the order to kill
//! everything and go.
mod ending;
mod output;
mod pmi;
mod ranks;

use crate::job::Job;
use crate::leftover::Leftovers;
use crate::link::{Link, LinkState};
use crate::spec::StdinTo;
use ending::Ending;
use output::{OutputQueue, Source};
use proto::ids::NodeId;
use proto::tree::{Action, Ended, Frame, Node};
use ranks::Ranks;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;
use sys::poll::{Poll, Ready};
use sys::process::{self, Pid, Wait};
use sys::signal::{self, SignalQueue};
use sys::socket;

/// Ranks started between two looks at the links, so that an order to end is not kept waiting.
const STARTS_PER_TURN: u32 = 8;

/// What a forked agent is given.
pub(crate) struct Seed<'j> {
    pub(crate) job: &'j Job,
    pub(crate) node: NodeId,
    pub(crate) uplink: OwnedFd,
    /// What the rank that reads standard input reads, if that rank is here or below.
    pub(crate) stdin: Option<OwnedFd>,
    /// Who tells the world when the launcher dies. An agent whose parent it is not any more does so itself.
    pub(crate) warden: Pid,
    pub(crate) launcher: Pid,
    pub(crate) limit: process::DescriptorLimit,
}

/// Tokens of the poll set: what it is, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Signals,
    Uplink,
    Child(u32),
    Pmi(u32),
    Out(u32),
    Err(u32),
    Failures,
}

impl Token {
    pub(crate) fn pack(self) -> u64 {
        let (kind, index) = match self {
            Token::Signals => (0, 0),
            Token::Uplink => (1, 0),
            Token::Child(index) => (2, index),
            Token::Pmi(index) => (3, index),
            Token::Out(index) => (4, index),
            Token::Err(index) => (5, index),
            Token::Failures => (6, 0),
        };
        kind << 32 | u64::from(index)
    }

    fn unpack(token: u64) -> Option<Token> {
        let index = token as u32;
        Some(match token >> 32 {
            0 => Token::Signals,
            1 => Token::Uplink,
            2 => Token::Child(index),
            3 => Token::Pmi(index),
            4 => Token::Out(index),
            5 => Token::Err(index),
            6 => Token::Failures,
            _ => return None,
        })
    }
}

/// An agent below this one.
struct Below {
    node: NodeId,
    pid: Pid,
    link: Option<Link>,
    gone: bool,
}

struct Agent<'j> {
    job: &'j Job,
    node: NodeId,
    poll: Poll,
    signals: SignalQueue,
    uplink: Option<Link>,
    below: Vec<Below>,
    tree: Node,
    ranks: Ranks,
    output: OutputQueue,
    ending: Option<Ending>,
    warden: Pid,
    launcher: Pid,
    leftovers: Leftovers,
    has_children: bool,
    /// Has the launcher heard that ranks here wait in barriers?
    told_fence: bool,
}

/// The life of an agent, in a process of its own. Signals are blocked already. Returns the exit code.
pub(crate) fn agent_main(seed: Seed<'_>) -> i32 {
    let node = seed.node;
    match Agent::start(seed).and_then(|mut agent| agent.run()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("banyan: the agent of node {node} failed: {error}");
            // Links close with the process; what is left below is the parent's to kill.
            1
        }
    }
}

impl<'j> Agent<'j> {
    fn start(seed: Seed<'j>) -> io::Result<Self> {
        let Seed { job, node, uplink, stdin, warden, launcher, limit } = seed;
        let leftovers = Leftovers::from_now();
        process::set_name("banyan-agent");
        process::set_subreaper(process::Subreaper::On)?;
        let mut keep = vec![uplink.as_raw_fd()];
        keep.extend(stdin.as_ref().map(|fd| fd.as_raw_fd()));
        socket::close_all_but(&keep);
        let poll = Poll::new()?;
        let signals = SignalQueue::new(&[signal::SIGCHLD, signal::SIGTERM, signal::SIGHUP, signal::SIGINT])?;
        poll.add(signals.as_fd(), Token::Signals.pack(), sys::poll::Interest::Read)?;
        let mut uplink = Link::new(uplink, Token::Uplink.pack(), &poll)?;
        uplink.send(&Frame::Hello { node, pid: Pid::own().0 });
        let mut below = Vec::new();
        let mut stdin = stdin;
        let all_read = job.stdin == StdinTo::All;
        let reader = job.stdin_node().and_then(|reader| job.shape.next_hop(node, reader));
        for (index, child) in job.shape.children(node).enumerate() {
            let stdin = match &stdin {
                Some(file) if all_read => Some(socket::duplicate(file.as_fd())?),
                Some(_) if reader == Some(child) => stdin.take(),
                _ => None,
            };
            below.push(start_below(job, child, index as u32, &poll, stdin, (warden, launcher, limit))?);
        }
        let ranks = Ranks::new(job, node, stdin, limit)?;
        ranks.register(Token::Failures.pack(), &poll)?;
        let tree = Node::new(node, job.shape, ranks.count());
        Ok(Agent {
            job,
            node,
            poll,
            signals,
            uplink: Some(uplink),
            below,
            tree,
            ranks,
            output: OutputQueue::default(),
            ending: None,
            warden,
            launcher,
            leftovers,
            has_children: true,
            told_fence: false,
        })
    }

    fn run(&mut self) -> io::Result<i32> {
        let mut ready = Vec::new();
        loop {
            self.start_some()?;
            self.pump()?;
            if let Some(code) = self.finished()? {
                return Ok(code);
            }
            ready.clear();
            self.poll.wait(self.timeout_ms(), &mut ready)?;
            for event in &ready {
                self.handle(*event)?;
            }
            self.pursue_end()?;
        }
    }

    /// Starts the next few ranks.
    fn start_some(&mut self) -> io::Result<()> {
        if self.ending.is_some() || self.ranks.all_started() {
            return Ok(());
        }
        for _ in 0..STARTS_PER_TURN {
            if let Err(error) = self.ranks.start_next(self.job, &self.poll) {
                let (rank, errno) = (self.ranks.next_rank(), error.raw_os_error().unwrap_or(0));
                self.report(&Frame::StartFailed { rank, errno });
                self.ranks.give_up_starting();
                break;
            }
            if self.ranks.all_started() {
                self.report(&Frame::Started { node: self.node });
                break;
            }
        }
        Ok(())
    }

    fn on_failures(&mut self) -> io::Result<()> {
        while let Some(frame) = self.ranks.next_failure()? {
            self.report(&frame);
            self.ranks.give_up_starting();
        }
        Ok(())
    }

    fn report(&mut self, frame: &Frame) {
        if let Some(uplink) = &mut self.uplink {
            uplink.send(frame);
        }
    }

    /// Carries out what the tree decided, moves output up, and sends everything.
    fn pump(&mut self) -> io::Result<()> {
        while let Some(action) = self.tree.poll_action() {
            match action {
                Action::Up(frame) => self.report(&frame),
                Action::Down(child, frame) => self.send_below(child, &frame),
                Action::FenceDone => self.ranks.release_barrier(&self.poll)?,
                Action::Named(slot, answer) => self.ranks.answer_name(slot, &answer, &self.poll)?,
            }
        }
        if let Some(uplink) = &mut self.uplink {
            for (source, credit) in self.output.send_up(uplink) {
                if let Source::Child(index) = source
                    && let Some(link) = &mut self.below[index as usize].link
                {
                    link.send(&Frame::Credit { bytes: credit });
                }
            }
            uplink.flush(&self.poll)?;
        }
        for below in &mut self.below {
            if let Some(link) = &mut below.link {
                link.flush(&self.poll)?;
            }
        }
        self.ranks.pace_output(self.output.own_is_full(), &self.poll)
    }

    fn send_below(&mut self, child: NodeId, frame: &Frame) {
        let below = self.below.iter_mut().find(|below| below.node == child);
        if let Some(link) = below.and_then(|below| below.link.as_mut()) {
            link.send(frame);
        }
    }

    fn timeout_ms(&self) -> Option<u32> {
        if self.ending.is_none() && !self.ranks.all_started() {
            return Some(0);
        }
        self.ending.as_ref().and_then(|ending| ending.timeout_ms(Instant::now(), self.has_children))
    }

    fn handle(&mut self, event: Ready) -> io::Result<()> {
        match Token::unpack(event.token) {
            Some(Token::Signals) => self.on_signals(),
            Some(Token::Uplink) if event.readable => self.on_uplink(),
            Some(Token::Child(index)) if event.readable => self.on_below(index),
            Some(Token::Pmi(slot)) => self.on_pmi(slot),
            Some(Token::Failures) => self.on_failures(),
            Some(Token::Out(slot) | Token::Err(slot)) => {
                self.ranks.read_output(slot, &mut self.output, &self.poll)
            }
            _ => Ok(()),
        }
    }

    fn on_pmi(&mut self, slot: u32) -> io::Result<()> {
        if let Some(frame) = self.ranks.serve(slot, &mut self.tree, self.job, &self.poll)? {
            self.report(&frame);
        }
        if !self.told_fence && self.tree.in_fence() {
            self.told_fence = true;
            self.report(&Frame::FenceBegun { rank: self.ranks.rank(slot) });
        }
        Ok(())
    }

    fn on_signals(&mut self) -> io::Result<()> {
        while let Some(number) = self.signals.next_signal() {
            // Only somebody who means this very process sends these: it shares no group with the launcher.
            if number != signal::SIGCHLD && self.ending.is_none() {
                let reason = format!("it got signal {number} ({})", signal::signal_text(number));
                self.report(&Frame::AgentFailed { node: self.node, reason });
            }
        }
        self.reap()
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            match process::wait_any()? {
                Wait::Ended(pid, ended) => self.on_end(pid, from_sys(ended))?,
                state => {
                    self.has_children = state == Wait::Running;
                    return Ok(());
                }
            }
        }
    }

    fn on_end(&mut self, pid: Pid, ended: Ended) -> io::Result<()> {
        if let Some(slot) = self.ranks.slot_of(pid) {
            return self.on_rank_end(slot, pid, ended);
        }
        let Some(index) = self.below.iter().position(|below| below.pid == pid) else { return Ok(()) };
        // Its last words first: they may name the cause.
        self.drain_below(index as u32)?;
        let below = &mut self.below[index];
        below.gone = true;
        if let Some(link) = below.link.take() {
            link.close(&self.poll);
        }
        let node = below.node;
        if self.ending.is_none() {
            self.report(&Frame::AgentLost { node, pid: pid.0, ended });
        }
        Ok(())
    }

    fn on_rank_end(&mut self, slot: u32, pid: Pid, ended: Ended) -> io::Result<()> {
        self.on_failures()?;
        self.on_pmi(slot)?; // what it said last, such as an abort
        let (rank, pmi) = self.ranks.finish(slot, &mut self.output, &self.poll)?;
        let values = self.ranks.take_stats(slot);
        self.report(&Frame::Stats { rank, values });
        self.report(&Frame::RankEnded { rank, pid: pid.0, ended, pmi });
        Ok(())
    }

    fn on_uplink(&mut self) -> io::Result<()> {
        let Some(uplink) = &mut self.uplink else { return Ok(()) };
        let state = uplink.fill()?;
        while let Some(frame) = self.uplink.as_mut().and_then(Link::next_frame) {
            match frame {
                Ok(frame) => self.on_order(frame)?,
                Err(error) => return Err(io::Error::other(format!("its parent sent a {error}"))),
            }
        }
        if state == LinkState::Closed {
            self.on_parent_lost();
        }
        Ok(())
    }

    /// A frame from above.
    fn on_order(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Credit { bytes } => self.output.add_credit(bytes),
            Frame::End { grace_ms } => {
                self.tell_all_below(&Frame::End { grace_ms });
                self.begin_end(Ending::ordered(grace_ms, Instant::now()));
            }
            Frame::Signal { signal } => {
                self.tell_all_below(&Frame::Signal { signal });
                self.ranks.signal_all(signal);
            }
            frame => self.tree.from_parent(frame).map_err(io::Error::other)?,
        }
        Ok(())
    }

    fn tell_all_below(&mut self, frame: &Frame) {
        for link in self.below.iter_mut().filter_map(|below| below.link.as_mut()) {
            link.send(frame);
        }
    }

    fn on_parent_lost(&mut self) {
        if let Some(uplink) = self.uplink.take() {
            uplink.close(&self.poll);
        }
        if self.node == NodeId(0) && Pid::parent() != self.warden && self.ending.is_none() {
            eprintln!(
                "banyan: the launcher (pid {}) and its warden (pid {}) died; ending the job",
                self.launcher, self.warden
            );
        }
        for below in &mut self.below {
            if let Some(link) = below.link.take() {
                link.close(&self.poll);
            }
        }
        self.begin_end(Ending::orphaned(Instant::now()));
    }

    fn on_below(&mut self, index: u32) -> io::Result<()> {
        if self.drain_below(index)? == LinkState::Closed
            && let Some(link) = self.below[index as usize].link.take()
        {
            link.close(&self.poll); // how it ended is known when it is reaped
        }
        Ok(())
    }

    fn drain_below(&mut self, index: u32) -> io::Result<LinkState> {
        let Some(link) = &mut self.below[index as usize].link else { return Ok(LinkState::Closed) };
        let state = link.fill()?;
        while let Some(frame) = self.below[index as usize].link.as_mut().and_then(Link::next_frame) {
            let node = self.below[index as usize].node;
            let outcome = match frame {
                Ok(frame) => self.on_report(index, node, frame),
                Err(error) => Err(error.to_string()),
            };
            if let Err(reason) = outcome {
                self.report(&Frame::AgentFailed { node, reason });
                return Ok(LinkState::Closed);
            }
        }
        Ok(state)
    }

    /// A frame from below: the tree's business, or on its way to the launcher.
    fn on_report(&mut self, index: u32, node: NodeId, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::Output { rank, stream, bytes } => {
                self.output.push(Source::Child(index), rank, stream, bytes);
            }
            Frame::Entries { .. } | Frame::FenceUp { .. } | Frame::Name { .. } => {
                self.tree.from_child(node, frame).map_err(|error| error.to_string())?;
            }
            frame => self.report(&frame),
        }
        Ok(())
    }
}

fn start_below(
    job: &Job,
    node: NodeId,
    index: u32,
    poll: &Poll,
    stdin: Option<OwnedFd>,
    (warden, launcher, limit): (Pid, Pid, process::DescriptorLimit),
) -> io::Result<Below> {
    let (here, there) = socket::socket_pair()?;
    let seed = Seed { job, node, uplink: there, stdin, warden, launcher, limit };
    let pid = process::fork(move || agent_main(seed))?;
    let link = Link::new(here, Token::Child(index).pack(), poll)?;
    Ok(Below { node, pid, link: Some(link), gone: false })
}

pub(crate) fn from_sys(ended: process::Ended) -> Ended {
    match ended {
        process::Ended::Exit(code) => Ended::Exit(code),
        process::Ended::Signal(signal) => Ended::Signal(signal),
    }
}
