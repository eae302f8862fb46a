//! What comes from above: orders for this agent, and what it passes on to those below.
use super::Agent;
use super::below::send_below;
use super::ending::Ending;
use crate::describe::read_group;
use crate::link::{Link, LinkState};
use proto::ids::Job;
use proto::lane::{JobId, Neighbour};
use proto::tree::{Answer, Frame};
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;
use sys::signal::SIGKILL;

impl Agent {
    pub(super) fn on_uplink(&mut self) -> io::Result<()> {
        let Some(uplink) = &mut self.uplink else { return Ok(()) };
        let state = uplink.fill()?;
        self.take_orders()?;
        if state == LinkState::Closed {
            self.on_parent_lost();
        }
        Ok(())
    }

    /// The frames that have arrived from above.
    pub(super) fn take_orders(&mut self) -> io::Result<()> {
        while let Some(frame) = self.uplink.as_mut().and_then(Link::next_frame) {
            match frame {
                Ok(frame) => self.on_order(frame)?,
                Err(error) => return Err(io::Error::other(format!("its parent sent a {error}"))),
            }
        }
        Ok(())
    }

    /// A frame from above.
    fn on_order(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Credit { bytes } => self.output.add_credit(bytes),
            Frame::Board(message) => {
                self.hear_board(Neighbour::Parent, &message).map_err(io::Error::other)?;
            }
            Frame::Answer { node, ask, answer } if node == self.node => self.on_answer(ask, &answer)?,
            Frame::Answer { node, .. } => {
                if let Some(child) = self.tree.shape.next_hop(self.node, node) {
                    send_below(&mut self.below, child, &frame);
                }
            }
            Frame::Begin { rest, bytes, .. } => self.on_description(rest, &bytes)?,
            Frame::Input { node, to, bytes } if node == self.node => self.on_input(to, bytes)?,
            Frame::Input { node, .. } => {
                if let Some(child) = self.tree.shape.next_hop(self.node, node) {
                    send_below(&mut self.below, child, &frame);
                }
            }
            Frame::Over { job } => {
                self.tell_all_below(&frame);
                self.forget(job)?;
            }
            Frame::Revoke { job } => {
                self.tell_all_below(&frame);
                self.revoke(job)?;
            }
            Frame::End { grace_ms } => {
                self.tell_all_below(&Frame::End { grace_ms });
                let stats = self.jobs.iter().map(|here| here.board_stats(&self.tree, self.node));
                let servers = self.jobs.iter().filter_map(|here| here.server_stats(self.node));
                let stats: Vec<Frame> = stats.flatten().chain(servers).collect();
                self.report_all(stats);
                self.begin_end(Ending::ordered(grace_ms, Instant::now()));
            }
            Frame::Where { ask } => {
                self.tell_all_below(&frame);
                self.ask_ranks(ask, Instant::now());
            }
            Frame::Signal { signal } => {
                self.tell_all_below(&Frame::Signal { signal });
                self.signal_ranks(signal);
            }
            Frame::Beat => {}
            frame => return Err(io::Error::other(format!("its parent sent {frame:?}"))),
        }
        Ok(())
    }

    /// A part of the description of a job that begins. The whole goes to those below that have to do with it.
    fn on_description(&mut self, rest: u32, bytes: &[u8]) -> io::Result<()> {
        let Some(whole) = self.parts.push(rest, bytes).map_err(io::Error::other)? else { return Ok(()) };
        let group = Rc::new(read_group(&whole, &self.tree).map_err(io::Error::other)?);
        if self.ending.is_some() {
            return Ok(());
        }
        let job = group.id;
        self.begin(group, None)?;
        let children = self.jobs.last().map_or(&[][..], |here| &here.children);
        for frame in crate::describe::frames(job, &whole) {
            children.iter().for_each(|child| send_below(&mut self.below, *child, &frame));
        }
        Ok(())
    }

    /// All ranks of a spawned job have ended.
    fn forget(&mut self, job: JobId) -> io::Result<()> {
        let Some(index) = self.jobs.iter().position(|here| here.group.id == job) else { return Ok(()) };
        let mut here = self.jobs.remove(index);
        here.ranks.drain(&mut self.output, &self.poll)?;
        let stats = here.board_stats(&self.tree, self.node).into_iter().chain(here.server_stats(self.node));
        self.report_all(stats);
        if let Some(server) = here.server_mut() {
            server.kill(&self.poll);
        }
        here.ranks.unregister(&self.poll);
        Ok(())
    }

    /// A spawned job could not be started everywhere, or has failed. Its ranks here are reaped as processes that nobody
    /// knows, and others that were connected to them hear of it.
    fn revoke(&mut self, job: JobId) -> io::Result<()> {
        let lost = Job::named(&self.tree.name_of(job));
        self.jobs.iter().filter(|here| here.group.id != job).for_each(|here| here.ranks.tell_lost(lost));
        if let Some(here) = self.jobs.iter_mut().find(|here| here.group.id == job) {
            here.ranks.give_up_starting();
            self.untidy |= here.ranks.any_alive();
            here.ranks.signal_all(SIGKILL);
        }
        self.forget(job)
    }

    fn on_answer(&mut self, ask: u32, answer: &Answer) -> io::Result<()> {
        let Some(asker) = self.asks.close(ask) else { return Ok(()) };
        let Some((index, slot)) = self.find_seat(asker.seat) else { return Ok(()) };
        let said = self.jobs[index].serve(&self.tree, &mut self.asks, &self.poll, |ranks, service| {
            ranks.answer(slot, asker.request, answer, service)
        })?;
        let fence = self.jobs[index].fence_news(slot);
        self.report_all(said.into_iter().chain(fence));
        Ok(())
    }

    /// Nobody would see to what is left if this process died too.
    pub(super) fn on_warden_lost(&mut self) -> io::Result<()> {
        if let Some(life) = self.warden_life.take() {
            self.poll.remove(life.as_fd())?;
            if self.ending.is_none() {
                let reason = format!("the warden of its host (pid {}) died", self.warden);
                self.report(&Frame::AgentFailed { node: self.node, reason });
            }
        }
        Ok(())
    }

    pub(super) fn on_parent_lost(&mut self) {
        if let Some(uplink) = self.uplink.take() {
            uplink.close(&self.poll);
        }
        for below in &mut self.below {
            if let Some(link) = below.link.take() {
                link.close(&self.poll);
            }
        }
        self.abandon_others();
        self.begin_end(Ending::orphaned(Instant::now()));
        self.tell_if_alone();
    }
}
