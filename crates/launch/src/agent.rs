//! The agent of one node: starts the agents below it, then the ranks that jobs have here, serves them, and ends
//! them.
//!
//! One thread, one poll loop. An agent lives as long as the job; losing its parent is the order to kill
//! everything and go.
mod alone;
mod asking;
mod asks;
mod beating;
mod below;
mod ending;
mod here;
mod input;
mod mirror;
mod orders;
mod output;
mod pmi;
mod ranks;
mod reports;
mod server;
mod start;
mod template;
mod token;
mod uplink;
mod words;

pub(crate) use here::COUNTER_KEYS;
pub(crate) use start::{Knows, Seed};
pub(crate) use token::Token;
pub(crate) use uplink::Uplink;

use crate::describe::Parts;
use crate::heartbeat::Heartbeat;
use crate::job::{Counters, Group, Spread, Tree};
use crate::leftover::Leftovers;
use crate::link::Link;
use alone::Lookout;
use asks::Asks;
use below::{Below, Outpost, send_below};
use ending::Ending;
use here::Here;
use output::{OutputQueue, Source};
use proto::env::NetAddress;
use proto::ids::NodeId;
use proto::lane::{JobId, Neighbour};
use proto::tree::{Ended, Frame, PmiState};
use ranks::Site;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;
use sys::poll::{Poll, Ready};
use sys::process::{self, Pid, Wait};
use sys::signal::{self, SignalQueue};

/// Ranks started between two looks at the links, so that an order to end is not kept waiting.
const STARTS_PER_TURN: u32 = 8;

/// What agents are called in lists of processes.
pub(crate) const AGENT_NAME: &str = "banyan-agent";

struct Agent {
    tree: Rc<Tree>,
    node: NodeId,
    cores: Vec<usize>,
    /// The address under which other hosts reach this one, where there are others.
    address: Option<NetAddress>,
    poll: Poll,
    signals: SignalQueue,
    uplink: Option<Link>,
    below: Vec<Below>,
    /// What it takes to start agents of other hosts.
    outpost: Option<Outpost>,
    jobs: Vec<Here>,
    /// Numbers of ranks that ever were here.
    seats: u32,
    asks: Asks,
    /// Descriptions of jobs on their way from above.
    parts: Parts,
    output: OutputQueue,
    ending: Option<Ending>,
    warden: Pid,
    warden_life: Option<OwnedFd>,
    launcher: Pid,
    limit: process::DescriptorLimit,
    leftovers: Leftovers,
    heart: Option<Heartbeat>,
    /// What ranks are being asked.
    asking: Option<asking::Asking>,
    /// Has a rank here ended otherwise than well?
    untidy: bool,
    /// Who looks for ranks that will not join the job.
    lookout: Lookout,
    has_children: bool,
}

/// The life of an agent, in a process of its own. Signals are blocked already. Returns the exit code.
pub(crate) fn agent_main(seed: Seed) -> i32 {
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

impl Agent {
    /// A job begins here.
    fn begin(&mut self, group: Rc<Group>, stdin: Option<OwnedFd>) -> io::Result<()> {
        let node = self.node;
        let ranks_of = |group: &Group| match self.tree.spread {
            Spread::OneHost => group.ranks(),
            Spread::ManyHosts => group.ranks_on(node).len() as u32,
        };
        let crowd = self.jobs.iter().map(|here| ranks_of(&here.group)).sum::<u32>() + ranks_of(&group);
        let beside = self.jobs.iter().find_map(|here| here.ranks.segment());
        let address = self.address.as_ref();
        let site = Site { tree: &self.tree, node, cores: &self.cores, crowd, address, beside };
        let here = Here::new(group, site, self.seats, stdin, self.limit)?;
        here.ranks.register(Token::Failures(here.group.id.0).pack(), &self.poll)?;
        self.seats += here.ranks.count();
        let job = here.group.id;
        self.jobs.push(here);
        if self.tree.data_server
            && let Some(here) = self.jobs.last_mut()
            && let Err(error) = here.start_server(self.tree.start_timeout, &self.poll)
        {
            here.ranks.give_up_starting();
            self.server_missing(job, &error);
        }
        Ok(())
    }

    fn run(&mut self) -> io::Result<i32> {
        let mut ready = Vec::new();
        self.take_orders()?; // what came with the description of the tree
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
            let now = Instant::now();
            self.show_unfinished(now);
            self.look_around(now);
            self.look_for_answers(now);
            self.check_servers(now);
            self.check_below(now)?;
            self.beat(now);
            self.pursue_end()?;
        }
    }

    /// Starts the next few ranks.
    fn start_some(&mut self) -> io::Result<()> {
        if self.ending.is_some() {
            return Ok(());
        }
        let Some(here) = self.jobs.iter_mut().find(|here| here.may_start()) else { return Ok(()) };
        if let Some(failed) = here.ranks.first_obstacle() {
            here.ranks.give_up_starting();
            self.report(&failed);
            return Ok(());
        }
        let (tree, node, cores) = (&self.tree, self.node, &self.cores);
        let site = Site { tree, node, cores, crowd: 0, address: self.address.as_ref(), beside: None };
        for _ in 0..STARTS_PER_TURN {
            if let Err(error) = here.ranks.start_next(site, &self.poll) {
                let failed = here.ranks.start_failed(&error);
                here.ranks.give_up_starting();
                self.report(&failed);
                break;
            }
            for text in here.ranks.take_warnings() {
                self.lookout.is_over |= text.starts_with("warning");
                let warning = Frame::Warn { node: self.node, text };
                self.uplink.iter_mut().for_each(|uplink| uplink.send(&warning));
            }
            if here.ranks.all_started() {
                let started = here.start_news(self.node);
                let bound = (tree.bindings == Counters::Wanted).then(|| here.ranks.bindings(site));
                let bound = bound.map(|text| Frame::Note { node: self.node, text });
                self.report_all(started.into_iter().chain(bound));
                break;
            }
        }
        Ok(())
    }

    fn is_starting(&self) -> bool {
        self.ending.is_none() && self.jobs.iter().any(Here::may_start)
    }

    fn on_failures(&mut self, job: JobId) -> io::Result<()> {
        let mut failures = Vec::new();
        if let Some(here) = self.jobs.iter_mut().find(|here| here.group.id == job) {
            while let Some(frame) = here.ranks.next_failure()? {
                here.ranks.give_up_starting();
                failures.push(frame);
            }
        }
        self.report_all(failures);
        Ok(())
    }

    fn report_all(&mut self, frames: impl IntoIterator<Item = Frame>) {
        frames.into_iter().for_each(|frame| self.report(&frame));
    }

    /// Tells the launcher something, behind what ranks have written before.
    fn report(&mut self, frame: &Frame) {
        self.send_output();
        if let Some(uplink) = &mut self.uplink {
            uplink.send(frame);
        }
    }

    /// Carries out what the boards decided, moves output up, and sends everything.
    fn pump(&mut self) -> io::Result<()> {
        self.pump_boards()?;
        let asks = self.asks.take_frames(self.node);
        self.report_all(asks);
        self.send_output();
        if let Some(uplink) = &mut self.uplink {
            uplink.flush(&self.poll)?;
        }
        for below in &mut self.below {
            if let Some(link) = &mut below.link {
                link.flush(&self.poll)?;
            }
        }
        let full = self.output.own_is_full();
        self.jobs.iter_mut().try_for_each(|here| here.ranks.pace_output(full, &self.poll))
    }

    /// Moves output up as far as credit reaches, and passes the credit on.
    fn send_output(&mut self) {
        let Some(uplink) = &mut self.uplink else { return };
        for (source, credit) in self.output.send_up(uplink) {
            if let Source::Child(index) = source
                && let Some(link) = &mut self.below[index as usize].link
            {
                link.send(&Frame::Credit { bytes: credit });
            }
        }
    }

    /// Lines that have not ended for a moment go up as they are.
    fn show_unfinished(&mut self, now: Instant) {
        if self.output.is_time_to_look(now) {
            self.jobs.iter_mut().for_each(|here| here.ranks.queue_unfinished(now, &mut self.output));
        }
    }

    fn pump_boards(&mut self) -> io::Result<()> {
        let mut said = Vec::new();
        for index in 0..self.jobs.len() {
            let (tree, asks, poll) = (&self.tree, &mut self.asks, &self.poll);
            while let Some((to, frame)) = self.jobs[index].next_message(tree, asks, poll, &mut said)? {
                match to {
                    Neighbour::Child(child) => send_below(&mut self.below, child, &frame),
                    Neighbour::Parent => {
                        if let Some(uplink) = &mut self.uplink {
                            uplink.send(&frame);
                        }
                    }
                }
            }
        }
        self.report_all(said);
        Ok(())
    }

    fn timeout_ms(&self) -> Option<u32> {
        if self.is_starting() {
            return Some(0);
        }
        let now = Instant::now();
        let ending = self.ending.as_ref().and_then(|ending| ending.timeout_ms(now, self.has_children));
        let due = self.below_deadline().into_iter().chain(self.beat_due()).chain(self.output.look_at());
        let due = due.chain(self.lookout.due()).chain(self.answers_due()).chain(self.servers_due()).min();
        let due = due.map(|at| at.saturating_duration_since(now).as_millis() as u32 + 1);
        ending.into_iter().chain(due).min()
    }

    fn handle(&mut self, event: Ready) -> io::Result<()> {
        match Token::unpack(event.token) {
            Some(Token::Signals) => self.on_signals(),
            Some(Token::Uplink) if event.readable => self.on_uplink(),
            Some(Token::Child(index)) if event.readable => self.on_below(index),
            Some(Token::Pmi(seat)) => self.on_pmi(seat),
            Some(Token::Failures(job)) => self.on_failures(JobId(job)),
            Some(Token::Listener(_) | Token::Knock(_)) => self.on_door(event.token),
            Some(Token::StarterIn(index) | Token::StarterErr(index)) => self.on_starter(index),
            Some(Token::Input(seat)) => self.on_input_room(seat),
            Some(Token::ServerPmi(job)) => self.on_server(JobId(job)),
            Some(Token::ServerReady(job)) => self.on_server_ready(JobId(job)),
            Some(Token::Warden) => self.on_warden_lost(),
            Some(Token::Out(seat) | Token::Err(seat)) => {
                let Some((index, slot)) = self.find_seat(seat) else { return Ok(()) };
                self.look_at_writer(index, slot);
                self.jobs[index].ranks.read_output(slot, &mut self.output, &self.poll)
            }
            _ => Ok(()),
        }
    }

    /// The job that a rank belongs to, and its local number there.
    fn find_seat(&self, seat: u32) -> Option<(usize, u32)> {
        let slots = self.jobs.iter().map(|here| here.ranks.slot_of_seat(seat));
        slots.enumerate().find_map(|(index, slot)| slot.map(|slot| (index, slot)))
    }

    fn on_pmi(&mut self, seat: u32) -> io::Result<()> {
        let Some((index, slot)) = self.find_seat(seat) else { return Ok(()) };
        self.serve(index, slot)
    }

    fn serve(&mut self, index: usize, slot: u32) -> io::Result<()> {
        let here = &mut self.jobs[index];
        let said =
            here.serve(&self.tree, &mut self.asks, &self.poll, |ranks, service| ranks.serve(slot, service))?;
        let news = here.start_news(self.node).into_iter().chain(here.fence_news(slot));
        self.report_all(said.into_iter().chain(news));
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
        let slots = self.jobs.iter().map(|here| here.ranks.slot_of(pid));
        if let Some((index, slot)) =
            slots.enumerate().find_map(|(index, slot)| slot.map(|slot| (index, slot)))
        {
            return self.on_rank_end(index, slot, pid, ended);
        }
        if self.on_server_end(pid, ended) || self.on_starter_end(pid, ended)? {
            return Ok(());
        }
        let Some(index) = self.below.iter().position(|below| below.pid == Some(pid)) else { return Ok(()) };
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

    fn on_rank_end(&mut self, index: usize, slot: u32, pid: Pid, ended: Ended) -> io::Result<()> {
        self.on_failures(self.jobs[index].group.id)?;
        self.serve(index, slot)?; // what it said last, such as an abort
        self.jobs[index].forget_waiter(slot);
        let ranks = &mut self.jobs[index].ranks;
        let (who, pmi) = ranks.finish(slot, &mut self.output, &self.poll)?;
        self.look_back(index, slot, ended, pmi);
        let ranks = &mut self.jobs[index].ranks;
        let is_bad = ended != Ended::Exit(0) || pmi == PmiState::Active;
        self.untidy |= is_bad;
        let spare = if is_bad { ranks.spare(slot) } else { None };
        let words = if ended == Ended::Exit(0) { String::new() } else { ranks.last_words(slot) };
        let account = ranks.take_account(slot);
        self.report_all(account.into_iter().chain(spare));
        self.report(&Frame::RankEnded { who, pid: pid.0, ended, pmi, words });
        Ok(())
    }
}

pub(crate) fn from_sys(ended: process::Ended) -> Ended {
    match ended {
        process::Ended::Exit(code) => Ended::Exit(code),
        process::Ended::Signal(signal) => Ended::Signal(signal),
    }
}
