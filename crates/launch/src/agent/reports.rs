//! What goes to the agents below and comes from them: the tree's business, or on its way to the launcher.
use super::Agent;
use super::output::Source;
use crate::link::{Link, LinkState};
use proto::board::Message;
use proto::ids::NodeId;
use proto::lane::Neighbour;
use proto::tree::Frame;
use std::io;

impl Agent {
    pub(super) fn on_below(&mut self, index: u32) -> io::Result<()> {
        if self.drain_below(index)? == LinkState::Closed
            && let Some(link) = self.below[index as usize].link.take()
        {
            let why = link.loss().map_or("it was closed".into(), io::Error::to_string);
            link.close(&self.poll); // how a forked one ended is known when it is reaped
            self.on_link_lost(index as usize, format!("the connection to it was lost: {why}"));
        }
        Ok(())
    }

    pub(super) fn drain_below(&mut self, index: u32) -> io::Result<LinkState> {
        let Some(link) = &mut self.below[index as usize].link else { return Ok(LinkState::Closed) };
        let state = link.fill()?;
        while let Some(frame) = self.below[index as usize].link.as_mut().and_then(Link::next_frame) {
            let node = self.below[index as usize].node;
            let outcome = match frame {
                Ok(frame) => self.on_report(index, node, frame),
                Err(error) => {
                    self.on_bad_frame(&error);
                    Err(error.to_string())
                }
            };
            if let Err(reason) = outcome {
                self.below[index as usize].gone |= self.below[index as usize].pid.is_none();
                self.report(&Frame::AgentFailed { node, reason });
                return Ok(LinkState::Closed);
            }
        }
        Ok(state)
    }

    /// A frame from below: the tree's business, or on its way to the launcher.
    fn on_report(&mut self, index: u32, node: NodeId, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::Output { from, stream, bytes } => {
                self.output.push(Source::Child(index), from, stream, bytes);
            }
            Frame::Board(message) => self.hear_board(Neighbour::Child(node), &message)?,
            Frame::Beat => {}
            frame => self.report(&frame),
        }
        Ok(())
    }

    /// A message between boards. One for a job that is over comes too late and does no harm.
    pub(super) fn hear_board(&mut self, from: Neighbour, bytes: &[u8]) -> Result<(), String> {
        let message = Message::decode(bytes).map_err(|error| error.to_string())?;
        let job = message.head.job;
        let here = self.jobs.iter_mut().find(|here| here.group.id == job);
        here.map_or(Ok(()), |here| here.hear(from, message))
    }

    pub(super) fn tell_all_below(&mut self, frame: &Frame) {
        for link in self.below.iter_mut().filter_map(|below| below.link.as_mut()) {
            link.send(frame);
        }
    }
}
