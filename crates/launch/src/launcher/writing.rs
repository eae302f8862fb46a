//! What the launcher writes: output of ranks, its own words, the progress of a slow start.
use super::cause::Cause;
use super::progress::Counts;
use super::sink::{Loss, Room};
use super::{ENDING_SIGNALS, LAST_WORDS, Launcher, Stage, TOKEN_ERR, TOKEN_OUT};
use crate::pattern::Origin;
use proto::ids::NodeId;
use proto::tree::{Frame, Member, Stream};
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

impl Launcher<'_> {
    pub(super) fn on_output(&mut self, from: Member, stream: Stream, bytes: &[u8]) {
        self.hide_progress();
        let (node, host) = self.origin(from).unwrap_or_default();
        let origin = Origin { who: from, node, host: &host };
        let sink = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        if let Err(reason) = sink.take(origin, bytes) {
            self.fail(Cause::OutputFile(reason));
        }
    }

    /// The node of a rank, counted among those of its job, and what it is called.
    fn origin(&self, from: Member) -> Option<(NodeId, String)> {
        let group = &self.jobs.iter().find(|begun| begun.group.id == from.job)?.group;
        let node = (from.rank.0 < group.ranks()).then(|| group.placement.node_of(from.rank))?;
        let name = self.host.clone().unwrap_or_else(|| self.spot(group.node_of(from.rank)).short());
        Some((node, name))
    }

    /// On a terminal: how far a slow start is.
    pub(super) fn show_progress(&mut self) {
        let first = &self.jobs[0];
        let nodes = first.group.placement.nodes();
        // The root of a tree over hosts may have no ranks.
        let counts = Counts { agents: self.agents.min(nodes), ready: first.nodes_started, nodes };
        let prompt = self.out.shows_prompt() || self.err.shows_prompt(); // which must not be erased
        let text = if counts.ready == nodes || self.stage != Stage::Running || prompt {
            self.progress.stop().map(str::to_owned)
        } else {
            self.progress.line(Instant::now(), counts)
        };
        if let Some(text) = text {
            self.err.write_raw(&text);
        }
    }

    /// Makes room on the terminal for other words.
    pub(super) fn hide_progress(&mut self) {
        if let Some(text) = self.progress.erase() {
            self.err.write_raw(text);
        }
    }

    pub(super) fn write_output(&mut self, out: Room, err: Room) -> io::Result<()> {
        let mut credit = 0;
        let written = self.out.write(out, &self.poll)?;
        credit += written.credit;
        let lost = written.lost;
        credit += self.err.write(err, &self.poll)?.credit;
        if let Some(root) = &mut self.root
            && credit > 0
        {
            root.send(&Frame::Credit { bytes: credit });
        }
        match lost {
            None => {}
            Some(Loss::Closed) => self.fail(Cause::OutputClosed),
            Some(Loss::Refused(number)) => {
                let error = io::Error::from_raw_os_error(number);
                self.fail(Cause::OutputFile(format!("cannot write to standard output: {error}")));
            }
        }
        Ok(())
    }

    pub(super) fn is_written(&self) -> bool {
        self.out.is_empty() && self.err.is_empty()
    }

    /// The tree is gone: only what is queued is left to write. After a failure a reader that does not read is
    /// not waited for.
    pub(super) fn write_rest(&mut self) -> io::Result<()> {
        let _ = self.poll.remove(self.warden_link.as_fd()); // closed, and so for ever ready
        // Nobody answers them any more, and who waits at a closed door is told so.
        self.end_asking();
        if let Some(pmgr) = self.pmgr.take() {
            pmgr.end(&self.poll);
        }
        if let Some(mut relay) = self.stdin.take() {
            relay.end(&self.poll)?;
        }
        self.end_feed()?;
        self.write_output(Room::Unknown, Room::Unknown)?;
        let mut last_progress = Instant::now();
        let mut ready = Vec::new();
        while !self.is_written() {
            ready.clear();
            let timeout = self.outcome.cause().map(|_| LAST_WORDS.as_millis() as u32);
            self.poll.wait(timeout, &mut ready)?;
            let asked =
                std::iter::from_fn(|| self.signals.next_signal()).find(|n| ENDING_SIGNALS.contains(n));
            if let Some(number) = asked {
                let _ = self.outcome.fail(Cause::Signalled(number)); // what is left is lost
                break;
            }
            let has = |token| ready.iter().any(|event| event.token == token);
            if has(TOKEN_OUT) || has(TOKEN_ERR) {
                last_progress = Instant::now();
            }
            if self.outcome.cause().is_some() && last_progress.elapsed() >= LAST_WORDS {
                break;
            }
            let room = |token| if has(token) { Room::Some } else { Room::Unknown };
            self.write_output(room(TOKEN_OUT), room(TOKEN_ERR))?;
        }
        Ok(())
    }
}
