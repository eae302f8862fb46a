//! Asking ranks where they are, for the launcher: by a number in the node's segment and a ring of the doorbell, which costs
//! nothing until then. Who has not answered in a moment (it computes, it is stopped, it uses another library) is described
//! from outside.
use super::Agent;
use super::ranks::Ranks;
use crate::standing::outside;
use proto::tree::{Frame, PmiState};
use proto::waits::{Outside, Standing};
use std::time::{Duration, Instant};
use sys::cpu::Barrier;
use sys::node::NodeSegment;
use sys::process::Pid;
use sys::segment::PeerSegment;

/// How long ranks have to answer.
const PATIENCE: Duration = Duration::from_millis(700);
/// The first look for answers, and the longest time between two.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(40);

/// A question of the launcher that ranks here have not all answered.
#[derive(Debug)]
pub(super) struct Asking {
    ask: u32,
    until: Instant,
    look_at: Instant,
    pause: Duration,
}

impl Agent {
    /// The launcher asks where ranks are.
    pub(super) fn ask_ranks(&mut self, ask: u32, now: Instant) {
        self.jobs.iter_mut().for_each(|here| here.ranks.ask());
        let look_at = now + LOOK_FIRST;
        self.asking = Some(Asking { ask, until: now + PATIENCE, look_at, pause: LOOK_FIRST });
    }

    /// When answers are looked for next.
    pub(super) fn answers_due(&self) -> Option<Instant> {
        self.asking.as_ref().map(|asking| asking.look_at)
    }

    /// Looks whether all have answered, and tells the launcher once they have, or have had the time.
    pub(super) fn look_for_answers(&mut self, now: Instant) {
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.look_at <= now) else { return };
        let all = self.jobs.iter().all(|here| here.ranks.have_answered());
        if !all && now < asking.until {
            asking.pause = LOOK_MAX.min(2 * asking.pause);
            asking.look_at = now + asking.pause;
            return;
        }
        let (ask, node) = (asking.ask, self.node);
        self.asking = None;
        let told = self.jobs.iter().flat_map(|here| here.ranks.standings());
        let told = told.map(|(who, standing)| Frame::Here { who, ask, standing: standing.emit(usize::MAX) });
        let servers = self.jobs.iter().filter_map(|here| {
            let (server, job) = (here.server()?, here.group.id);
            let (pid, doing) = server.standing()?;
            let standing = Standing::Outside(Outside { doing, pmi: PmiState::Active, ours: true });
            let standing = standing.emit(usize::MAX);
            Some(Frame::ServerHere { node, job, ask, pid: pid.0, is_ready: server.is_ready(), standing })
        });
        let told: Vec<Frame> = told.chain(servers).collect();
        self.report_all(told);
        self.report(&Frame::ToldAll { node, ask });
    }
}

/// Asks the processes that have a slot. Returns the number of the question.
pub(super) fn ask(segment: &NodeSegment) -> u32 {
    let number = segment.ask();
    for slot in 0..segment.facts().slots {
        // One that is gone, or cannot be rung for, is described from outside.
        let doorbell = segment.doorbell(slot);
        if let Some(Ok(process)) = doorbell.map(|at| PeerSegment::open(&at, Barrier::Both)) {
            process.ring();
        }
    }
    number
}

/// How a rank stands.
pub(super) fn standing(ranks: &Ranks, slot: u32) -> Standing {
    let Some((pid, pmi)) = ranks.living(slot) else { return Standing::Unheard };
    let segment = ranks.segment();
    let answer = segment.and_then(|segment| segment.answer_to(slot, ranks.asked()));
    if let Some(told @ Standing::Told(_)) = answer.and_then(|bytes| Standing::parse(&bytes)) {
        return told;
    }
    let process = segment.and_then(|segment| segment.claimed_by(slot));
    let doing = match process {
        Some(process) => outside(Pid(process as i32)),
        None => crate::standing::outside_below(pid),
    };
    Standing::Outside(Outside { doing, pmi, ours: process.is_some() })
}
