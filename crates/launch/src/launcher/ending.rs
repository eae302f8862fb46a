//! How a job's end is brought about: the tree is told, given time, and killed if it does not use it.
use super::outcome::Step;
use super::{Cause, Launcher, Stage};
use crate::heartbeat::{Beat, Seen};
use crate::spec::Talk;
use crate::standing::standing;
use crate::warden::{KILL_ALL, WAKE};
use proto::ids::NodeId;
use proto::tree::Frame;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use sys::process::{self, Pid, Target};
use sys::{signal, socket};

/// How long the tree may take over an end, beyond the grace for ranks, before it is killed whole.
const TREE_PATIENCE: Duration = Duration::from_secs(3);
/// The same when the root agent was silent before.
const SILENT_PATIENCE: Duration = Duration::from_millis(300);
/// Rounds of killing what is left, a millisecond apart.
const KILL_ROUNDS_MAX: u32 = 2000;

impl Launcher<'_> {
    pub(super) fn order_end(&mut self, grace: Duration) {
        self.phases.ended = self.begun.elapsed();
        self.wake_neighbours();
        self.stage = Stage::Ending(Instant::now() + grace + TREE_PATIENCE);
        if let Some(root) = &mut self.root {
            root.send(&Frame::End { grace_ms: grace.as_millis() as u32 });
        }
    }

    pub(super) fn check_time(&mut self) -> io::Result<()> {
        if let Some(limit) = self.timeout.filter(|limit| self.begun.elapsed() >= *limit)
            && !matches!(self.stage, Stage::Ending(_))
        {
            self.fail(Cause::TimedOut(limit));
        }
        self.look_at_root(Instant::now());
        match self.stage {
            Stage::Settling(until) if Instant::now() >= until => {
                let step = self.outcome.settle();
                self.take(step);
            }
            Stage::Ending(until) if Instant::now() >= until => {
                // After a good end, output that nobody takes yet is the only reason to be late.
                if self.outcome.cause().is_none() && !self.is_written() {
                    self.stage = Stage::Ending(Instant::now() + TREE_PATIENCE);
                } else {
                    self.kill_tree()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Has the root agent been silent for too long? Then it will hardly see to the end.
    fn look_at_root(&mut self, now: Instant) {
        let Some(heart) = &mut self.heart else { return };
        let (Some(beat), Some(root)) = (heart.beat(now), &mut self.root) else { return };
        // One that has not said yet who it is can only be listened for.
        let seen = if self.root_pid.is_some() { Seen::Here } else { Seen::Afar };
        let silence = heart.silence(root.pulse(), seen, now);
        root.age();
        if beat == Beat::Late {
            root.forgive(now); // this process itself was stopped
        } else if let Some(silence) = silence
            && !matches!(self.stage, Stage::Ending(_))
            && self.root_pid.is_none_or(|pid| standing(pid).is_suspect())
        {
            let seconds = silence.as_secs_f64();
            let reason = match self.root_pid {
                Some(pid) => format!("it (pid {pid}) has been silent for {seconds:.1} s"),
                None => {
                    format!("the warden (pid {}) has not brought it about for {seconds:.1} s", self.warden)
                }
            };
            self.fail(Cause::AgentFailed(self.spot(NodeId(0)), reason));
            self.stage = Stage::Ending(now + self.grace + SILENT_PATIENCE);
        }
    }

    /// A user does not want to wait for an end that is under way: asks twice, or for the first time when all ranks have ended
    /// well and output is left that nobody takes. It is lost then, and a good end it is no more.
    pub(super) fn cut_short(&mut self, signal: i32) -> io::Result<()> {
        if self.outcome.fail(Cause::Signalled(signal)) == Step::End {
            self.say_why();
        }
        self.kill_tree()
    }

    /// Kills the whole tree at once. The warden does it, and if it did not when it was asked, the launcher.
    pub(super) fn kill_tree(&mut self) -> io::Result<()> {
        self.stage = Stage::Ending(Instant::now() + TREE_PATIENCE);
        if self.warden_gone {
            return self.kill_rest();
        }
        let _ = socket::write(self.warden_link.as_fd(), &[KILL_ALL]);
        self.wake_neighbours();
        if std::mem::replace(&mut self.asked_to_kill, true) {
            let _ = process::kill(Target::Process(self.warden), signal::SIGKILL);
        }
        Ok(())
    }

    /// Somebody may have stopped the warden or the root agent; they would not hear of the end.
    fn wake_neighbours(&self) {
        let root = self.root_pid.filter(|_| self.root.is_some());
        if root.is_none() && self.root.is_some() {
            let _ = socket::write(self.warden_link.as_fd(), &[WAKE]); // it has not said yet who it is
        }
        for pid in root.into_iter().chain((!self.warden_gone).then_some(self.warden)) {
            let _ = process::kill(Target::Process(pid), signal::SIGCONT);
        }
    }

    /// Whatever still descends from here, if the warden could not see to it.
    pub(super) fn kill_rest(&self) -> io::Result<()> {
        for _ in 0..KILL_ROUNDS_MAX {
            if !process::has_children()? {
                return Ok(());
            }
            let left = process::descendants(Pid::own(), &self.strangers)?;
            for pid in &left {
                let _ = process::kill(Target::Process(*pid), signal::SIGKILL);
            }
            self.reap_adopted()?;
            if left.is_empty() {
                return Ok(());
            }
            let _ = self.poll.wait(Some(1), &mut Vec::new());
        }
        Ok(())
    }

    /// Removes what killed ranks left on this host. Ranks that ended well leave nothing.
    pub(super) fn tidy(&mut self) {
        if self.outcome.cause().is_none() {
            return;
        }
        let removed = self.leftovers.remove();
        if self.talk == Talk::Verbose {
            for what in removed {
                self.err.say(&format!("removed {what}, which nobody uses any more"));
            }
        }
    }

    /// Zombies that came to the launcher after the warden's death. The caller's own children are left alone.
    fn reap_adopted(&self) -> io::Result<()> {
        for pid in process::zombies_of(Pid::own())? {
            if !self.strangers.contains(&pid) {
                process::wait_for(pid)?;
            }
        }
        Ok(())
    }
}
