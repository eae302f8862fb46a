//! How an agent ends: politely, then by force, until nothing descends from it.
use super::{AGENT_NAME, Agent};
use crate::job::Spread;
use crate::standing::{Standing, standing};
use crate::stray::kill_strays;
use proto::ids::NodeId;
use proto::tree::Frame;
use std::io;
use std::time::{Duration, Instant};
use sys::process::{self, Pid, Target};
use sys::signal::{SIGCONT, SIGKILL, SIGTERM};

/// Between two looks at what is left.
const ROUND: Duration = Duration::from_millis(5);
/// The same when an end has waited long for output to be taken: somebody may read it page by page for an hour.
const OUTPUT_ROUND: Duration = Duration::from_millis(100);
/// How long agents below may take over their own clean-up before they are killed too.
const BELOW_PATIENCE: Duration = Duration::from_millis(1500);

/// Looks at a parent that is ending, a millisecond apart, before it is given up.
const PARENT_ROUNDS_MAX: u32 = 2000;

/// Who wanted the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The launcher: output still goes up.
    Ordered,
    /// Nobody is above any more.
    Orphaned,
}

/// What is above does with output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// It is taken as it comes.
    Taken,
    /// Some waits here for credit. Only then can some wait below: who passes everything on gives credit for it.
    Withheld,
}

/// An end under way.
#[derive(Debug)]
pub(crate) struct Ending {
    reason: Reason,
    grace: Duration,
    kill_at: Instant,
    force_at: Instant,
    next_round: Instant,
    /// Has this agent said itself why everything ends?
    told: bool,
}

impl Ending {
    pub(crate) fn ordered(grace_ms: u32, now: Instant) -> Self {
        Self::new(Reason::Ordered, Duration::from_millis(u64::from(grace_ms)), now)
    }

    pub(crate) fn orphaned(now: Instant) -> Self {
        Self::new(Reason::Orphaned, Duration::ZERO, now)
    }

    fn new(reason: Reason, grace: Duration, now: Instant) -> Self {
        let kill_at = now + grace;
        let force_at = kill_at + BELOW_PATIENCE;
        Ending { reason, grace, kill_at, force_at, next_round: kill_at, told: false }
    }

    /// The sooner of two ends. An orphan stays one.
    fn hasten(&mut self, other: Ending) {
        self.kill_at = self.kill_at.min(other.kill_at);
        self.force_at = self.force_at.min(other.force_at);
        self.next_round = self.next_round.min(other.next_round);
        if other.reason == Reason::Orphaned {
            self.reason = Reason::Orphaned;
        }
    }

    /// Is force due? This is a look at what is left, and says when the next one is.
    fn look(&mut self, now: Instant, output: Output) -> bool {
        let waits = output == Output::Withheld && self.reason == Reason::Ordered;
        let is_long = waits && now >= self.kill_at + BELOW_PATIENCE;
        self.next_round = now + if is_long { OUTPUT_ROUND } else { ROUND };
        if waits {
            // Agents below wait for credit too, and to kill them would lose what they hold. Their patience begins when all is
            // taken. After a bad end the launcher does not wait so long: it has the whole tree killed.
            self.force_at = self.force_at.max(now + BELOW_PATIENCE);
        }
        now >= self.force_at
    }

    /// What whoever comes too late is told.
    pub(crate) fn grace_ms(&self) -> u32 {
        self.grace.as_millis() as u32
    }

    pub(crate) fn timeout_ms(&self, now: Instant, has_children: bool) -> Option<u32> {
        // One more, because the clock of the poll is coarser: waking early would be a turn for nothing.
        has_children.then(|| self.next_round.saturating_duration_since(now).as_millis() as u32 + 1)
    }
}

impl Agent {
    pub(super) fn begin_end(&mut self, ending: Ending) {
        self.jobs.iter_mut().for_each(|here| here.ranks.give_up_starting());
        match &mut self.ending {
            Some(current) => current.hasten(ending),
            None => {
                if ending.kill_at > Instant::now() {
                    self.signal_ranks(SIGTERM);
                    self.signal_ranks(SIGCONT); // a stopped rank hears nothing before
                }
                self.ending = Some(ending);
                self.wake_neighbours();
                self.give_up_on_absent();
            }
        }
    }

    pub(super) fn signal_ranks(&self, signal: i32) {
        self.jobs.iter().for_each(|here| here.ranks.signal_all(signal));
    }

    /// A process that somebody stopped would not hear that the end has come.
    fn wake_neighbours(&self) {
        for pid in self.below.iter().filter(|below| !below.gone).filter_map(|below| below.pid) {
            let _ = process::kill(Target::Process(pid), SIGCONT);
        }
        if Pid::parent() == self.warden {
            let _ = process::kill(Target::Process(self.warden), SIGCONT);
        }
    }

    /// Is nobody left above who would care for what this agent does not know of? Not certain at the moment when the
    /// link above closes: a dying process closes its links before its children get another parent.
    fn is_alone(&self) -> bool {
        let parent = Pid::parent();
        parent != self.warden && parent != self.launcher && !process::is_called(parent, AGENT_NAME)
    }

    /// If nobody above can say what happened, it is said here.
    pub(super) fn tell_if_alone(&mut self) {
        let is_alone = self.is_alone();
        let Some(ending) = self.ending.as_mut().filter(|ending| is_alone && !ending.told) else { return };
        ending.told = true;
        let (launcher, warden, node) = (self.launcher, self.warden, self.node);
        eprintln!(
            "banyan: the launcher (pid {launcher}) and its warden (pid {warden}) died; node {node} ends the job"
        );
    }

    /// Takes the next step of the end, if it is time.
    pub(super) fn pursue_end(&mut self) -> io::Result<()> {
        if self.ending.is_none() {
            return Ok(());
        }
        self.reap()?;
        let now = Instant::now();
        let Some(ending) = &mut self.ending else { return Ok(()) };
        if !self.has_children || now < ending.next_round {
            return Ok(());
        }
        let output = if self.output.is_empty() { Output::Taken } else { Output::Withheld };
        let force = ending.look(now, output);
        if self.jobs.iter().any(|here| here.ranks.any_alive()) {
            self.signal_ranks(SIGKILL);
            if !force {
                return Ok(());
            }
        }
        self.kill_leftovers(force)
    }

    /// Whatever descends from here: processes that ranks left behind, and those of a lost agent below.
    fn kill_leftovers(&self, force: bool) -> io::Result<()> {
        let living = self.below.iter().filter(|below| !below.gone && !force);
        let mut spared: Vec<Pid> = living.filter_map(|below| below.pid).collect();
        if let Some(outpost) = self.outpost.as_ref().filter(|_| !force) {
            spared.extend(outpost.living());
        }
        // Most ends find nobody but agents that end as well. To look at all processes of the host takes some milliseconds.
        if process::children_are_among(&spared) {
            return Ok(());
        }
        for pid in process::descendants(Pid::own(), &spared)? {
            let _ = process::kill(Target::Process(pid), SIGKILL);
        }
        Ok(())
    }

    /// Nothing lives here any more. On the launcher's host, the launcher sees to what killed ranks left; on any other
    /// the agent of that host.
    fn tidy_host(&mut self) {
        let is_own_host = self.tree.spread == Spread::OneHost || self.node == NodeId(0);
        if is_own_host || !std::mem::take(&mut self.untidy) {
            return;
        }
        for what in self.leftovers.remove() {
            let text = format!("removed {what}, which nobody uses any more");
            self.report(&Frame::Note { node: self.node, text });
        }
    }

    /// The exit code, once nothing is left to do.
    pub(super) fn finished(&mut self) -> io::Result<Option<i32>> {
        let Some(ending) = &self.ending else { return Ok(None) };
        if self.has_children {
            return Ok(None);
        }
        let reason = ending.reason;
        self.tidy_host();
        for here in &mut self.jobs {
            here.ranks.drain(&mut self.output, &self.poll)?;
        }
        self.pump()?;
        let sent = self.output.is_empty() && self.uplink.as_ref().is_none_or(|link| link.is_flushed());
        Ok(match reason {
            Reason::Orphaned => {
                wait_for_parents_end();
                if self.is_alone() {
                    self.tell_if_alone();
                    kill_strays(&self.tree.name);
                }
                self.leftovers.remove(); // whoever is above may be gone as well
                Some(1)
            }
            Reason::Ordered => sent.then_some(0),
        })
    }
}

/// A dying process closes its links before its children get another parent. An agent that has nothing left to do waits
/// until then: only now it can tell whether anybody above is left to say what happened.
fn wait_for_parents_end() {
    for _ in 0..PARENT_ROUNDS_MAX {
        if standing(Pid::parent()) != Standing::Ending {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn agents_below_are_not_killed_while_output_is_withheld() {
        let begun = Instant::now();
        let mut ending = Ending::ordered(0, begun);
        let much_later = begun + 100 * BELOW_PATIENCE;
        assert!(!ending.look(much_later, Output::Withheld));
        // Once it is taken they have the usual time, and no more.
        let due = much_later + BELOW_PATIENCE;
        assert!(!ending.look(due - SOON, Output::Taken));
        assert!(ending.look(due, Output::Taken));
    }

    #[test]
    fn agents_below_have_their_time_and_no_more() {
        let begun = Instant::now();
        let mut ending = Ending::ordered(200, begun);
        let due = begun + Duration::from_millis(200) + BELOW_PATIENCE;
        assert!(!ending.look(due - SOON, Output::Taken));
        assert!(ending.look(due, Output::Taken));
    }

    #[test]
    fn nobody_waits_for_output_that_no_launcher_takes() {
        let begun = Instant::now();
        let mut ending = Ending::ordered(0, begun);
        let lost = begun + 100 * BELOW_PATIENCE;
        assert!(!ending.look(lost, Output::Withheld));
        ending.hasten(Ending::orphaned(lost));
        assert!(!ending.look(lost + BELOW_PATIENCE - SOON, Output::Withheld));
        assert!(ending.look(lost + BELOW_PATIENCE, Output::Withheld));
    }
}
