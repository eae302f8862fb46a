//! An agent's beats: it tells its neighbours that it lives, and notices when they do not.
use super::Agent;
use crate::heartbeat::{Beat, Seen};
use crate::job::Spread;
use crate::link::Link;
use crate::standing::standing;
use proto::ids::NodeId;
use proto::tree::Frame;
use std::time::{Duration, Instant};
use sys::process::{self, Target};
use sys::signal::SIGKILL;

impl Agent {
    /// Beats if it is time. To be called when everything that has arrived was read.
    pub(super) fn beat(&mut self, now: Instant) {
        let Some(beat) = self.heart.as_mut().and_then(|heart| heart.beat(now)) else { return };
        let watched = self.is_watching_above();
        if let Some(uplink) = &mut self.uplink {
            uplink.beat();
        }
        // Agents of one host do not watch the one above: their link closes when it dies, and when it is stopped,
        // the one above it notices.
        let spread = self.tree.spread;
        let below = self.below.iter_mut().filter_map(|below| below.link.as_mut());
        below.filter(|_| spread == Spread::ManyHosts).for_each(Link::beat);
        if beat == Beat::Late {
            self.forgive(now);
        } else {
            if self.ending.is_none() {
                self.look_below(now);
            }
            if watched {
                self.look_above(now);
            }
        }
        let below = self.below.iter_mut().filter_map(|below| below.link.as_mut());
        below.chain(self.uplink.as_mut()).for_each(Link::age);
    }

    /// One that has heard nothing from above for too long is alone.
    fn look_above(&mut self, now: Instant) {
        if let Some(silence) = self.silence(self.uplink.as_ref(), Seen::Afar, now) {
            let (node, seconds) = (self.node, silence.as_secs_f64());
            eprintln!(
                "banyan: the agent of node {node} has heard nothing from above for {seconds:.1} s; it ends"
            );
            self.on_parent_lost();
        }
    }

    /// When the next beat is due.
    pub(super) fn beat_due(&self) -> Option<Instant> {
        self.heart.as_ref().map(|heart| heart.due())
    }

    fn is_watching_above(&self) -> bool {
        self.tree.spread == Spread::ManyHosts && self.node != NodeId(0)
    }

    fn silence(&self, link: Option<&Link>, seen: Seen, now: Instant) -> Option<Duration> {
        self.heart.as_ref()?.silence(link?.pulse(), seen, now)
    }

    /// Everybody's silence counts from now on.
    fn forgive(&mut self, now: Instant) {
        let below = self.below.iter_mut().filter_map(|below| below.link.as_mut());
        below.chain(self.uplink.as_mut()).for_each(|link| link.forgive(now));
    }

    /// Who below has been silent for too long is not waited for, unless it is seen to run.
    fn look_below(&mut self, now: Instant) {
        for index in 0..self.below.len() {
            let below = &self.below[index];
            let seen = if below.pid.is_some() { Seen::Here } else { Seen::Afar };
            let Some(silence) = self.silence(below.link.as_ref(), seen, now).filter(|_| !below.gone) else {
                continue;
            };
            if below.pid.is_some_and(|pid| !standing(pid).is_suspect()) {
                continue; // it waits for its turn, or has much to do
            }
            let (node, seconds) = (below.node, silence.as_secs_f64());
            let reason = match below.pid {
                Some(pid) => {
                    let _ = process::kill(Target::Process(pid), SIGKILL); // the rest when it is reaped
                    format!("it (pid {pid}) has been silent for {seconds:.1} s")
                }
                None => {
                    let below = &mut self.below[index];
                    below.gone = true;
                    if let Some(link) = below.link.take() {
                        link.close(&self.poll);
                    }
                    format!("it has been silent for {seconds:.1} s")
                }
            };
            self.report(&Frame::AgentFailed { node, reason });
        }
    }
}
