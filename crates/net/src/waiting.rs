//! How to wait: spin, yield, sleep; what is due meanwhile; and for whom. The one place where time enters.
use crate::api::{NetError, Outcome, ReqId};
use crate::endpoint::Endpoint;
use crate::peers::Doomed;
use crate::request::{Lent, State};
use fabric::Sleep;
use proto::ids::{Peer, PeerIx};
use proto::wireup::{Budget, StateName, Waiting};
use std::fmt;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;
use sys::cpu;
use sys::poll::Poll;

/// Idle rounds between two looks at the clock.
const CLOCK_ROUNDS: u32 = 64;
/// Idle rounds of spinning when every process has a core: some ten microseconds.
const SPINS: u32 = 1_000;
/// The same where each round is a system call. Processes of other hosts that share the core (as in tests) are not known
/// here, and must not wait for long.
const SPINS_SOCKETS: u32 = 50;
/// And where each is a look at an RDMA device, which takes longer than one at memory.
const SPINS_RDMA: u32 = 200;
/// The first of them follow each other at once: telling the processor to rest takes longer than a message's way.
const SPINS_EAGER: u32 = 32;
/// Idle rounds of yielding after that. A yield costs little on a core of one's own, and something else may
/// run there after all; sleeping costs the waker a kick of a halted core, so it comes late.
const YIELDS_ALONE: u32 = 20_000;
/// Idle rounds of yielding when cores are shared, from the start.
const YIELDS_SHARED: u32 = 200;
/// The same for who has just been woken and watches sockets: a handshake comes in parts, and being woken for each takes
/// longer than all of them.
const YIELDS_AWAKE: u32 = 100;
/// Looks of [`Wait::SpinBlock`]: the spin count of MVICH, by which static and on-demand connections were compared first.
const SPINS_BLOCK: u32 = 100;
/// Rounds of [`Wait::Poll`] between two looks whether there is still a launcher, and whether it has been long.
const POLL_ROUNDS: u32 = 1 << 14;
/// Longest sleep: the launcher is looked after that often, if nothing tells of its end.
const SLEEP_MAX: Duration = Duration::from_secs(2);
/// A process that meets another job and has no descriptor to spare looks after it so often.
const MEETING_LOOK: Duration = Duration::from_millis(5);

/// Who looks in vain this often, without doing anything else for so long in between, lets others run.
const LOOKS_MAX: u32 = 8;
const LOOKS_CLOSE_NS: u64 = 5_000;

/// How a process waits for messages. What the launcher has to say (that all have started, or are ready to end) is always slept
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// It looks for them, lets others run, and sleeps in the end.
    #[default]
    Auto,
    /// It sleeps as soon as there is nothing to do: each message costs a wake-up, and a process that waits nothing.
    Sleep,
    /// It looks for them as long as it takes. It lets others run in between, from the start where cores are shared: more
    /// processes than cores would wait for each other's time slices otherwise.
    Poll,
    /// It looks for them a hundred times, whoever has the cores, and sleeps then.
    SpinBlock,
}

impl Wait {
    /// In the order of their words ([`proto::env::WAITS`]).
    pub const ALL: [Wait; proto::env::WAITS.len()] = [Wait::Auto, Wait::Sleep, Wait::Poll, Wait::SpinBlock];
}

/// How long a caller has been waiting. One per wait.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    rounds: u32,
    since_ns: u64,
    warned: u32,
}

impl Backoff {
    /// Since when, once that is worth the look at a clock; 0 before.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }
}

/// How long somebody may sleep who watches for what no message tells of, such as a lock in memory that processes share: twice
/// as long each time.
#[derive(Clone, Copy, Debug)]
pub struct Nap(Duration);

impl Default for Nap {
    fn default() -> Self {
        Nap(Duration::from_micros(20))
    }
}

impl Nap {
    const MAX: Duration = Duration::from_millis(1);

    /// The longest sleep now.
    pub fn most(self) -> Duration {
        self.0
    }

    /// It has slept in vain.
    pub fn again(&mut self) {
        self.0 = Nap::MAX.min(2 * self.0);
    }
}

/// What a caller that still waits should do, without holding what others need.
#[derive(Debug)]
pub enum Rest {
    /// Look again.
    Again,
    /// Let others run, then look again.
    Yield,
    /// Sleep, then call [`Endpoint::rested`].
    Sleep(Sleep, Duration),
}

/// Says what the program is doing, for who hears that it waits.
#[derive(Clone)]
pub struct Doing(pub Rc<dyn Fn() -> String>);

impl fmt::Debug for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doing")
    }
}

/// Names who is waited for, and what they are to do, where that is not to be seen from messages.
#[derive(Clone)]
pub struct Awaiting(pub Rc<dyn Fn() -> Option<(Peer, &'static str)>>);

impl fmt::Debug for Awaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaiting")
    }
}

/// What is waited for beside messages.
#[derive(Debug)]
pub(crate) struct Waits {
    warn_s: u64,
    shared: bool,
    wait: Wait,
    doing: Option<Doing>,
    awaiting: Option<Awaiting>,
    /// The last question of the agent where this process is that was seen, and the last one that was answered.
    pub asked: u32,
    pub answered: u32,
    /// Idle rounds of spinning.
    spins: u32,
    /// Peers whose cards are not on the board yet.
    pub lookups: Vec<PeerIx>,
    /// Peers that queue pairs are to be made for before anybody asks.
    pub aheads: Vec<PeerIx>,
    /// Queue pairs that are made before they are needed, by who has nothing else to do.
    pub keeps: usize,
    /// Is everybody being connected? Counters are written when that is done.
    pub starting: bool,
    /// Links that are to be closed.
    pub draining: Vec<PeerIx>,
    /// Are actions being carried out?
    pub carrying: bool,
    /// Was it said to the node that a queue pair of its device is lacking?
    pub lack: Option<proto::wireup::Lack>,
    /// Connections that an RDMA device had room for when it had none for more.
    pub fits: Option<u32>,
    /// The budget that holds again when there is room, where that was lacking for all processes of the node, not for this one.
    pub afterwards: Option<Budget>,
    /// Connections that are lost.
    pub doomed: Vec<Doomed>,
    /// Is anything timed, or to be looked after? And is there more of that than devices?
    pub timers: bool,
    pub errands: bool,
    /// Calls of progress that moved nothing, and that moved something while there were timers.
    pub idle: u32,
    pub busy: u32,
    /// Looks in vain, close behind each other, and when the last one was.
    looks: u32,
    looked_ns: u64,
    /// Meetings with other jobs that are coming about: who is waited for, in words.
    pub meetings: Vec<Rc<str>>,
    /// What wakes this process for their sake. It is there once they were slept for, until the last of them ends.
    pub meeting_set: Option<Rc<Poll>>,
    /// Those for which the launcher is to start processes, and has not answered.
    pub spawns: u32,
    /// Does anybody wait until the launcher owes no answer?
    pub questions: bool,
    /// When it is looked next whether processes of other jobs live.
    pub dead_due_ns: u64,
    /// Of how many jobs that were lost this process has heard.
    pub lost_seen: u32,
    /// Since when connections to a job that disconnects are being closed.
    pub farewell_ns: Option<u64>,
    /// Callers that wait until what they wait for has ended, and make progress until then.
    pub staying: u32,
    /// Threads that sleep.
    asleep: u32,
    /// Counts what a thread that sleeps may wait for, beside messages that end.
    pub news: u64,
    /// Of both, what sleepers were last woken for.
    told: u64,
    pub datagrams_dropped: u64,
}

impl Waits {
    /// Idle rounds of spinning that are worth it.
    #[inline]
    pub fn spins(&self) -> u32 {
        self.spins
    }

    /// Does somebody who waits let others run at once, since there are more processes than cores?
    pub fn yields_at_once(&self) -> bool {
        self.shared && matches!(self.wait, Wait::Auto | Wait::Poll)
    }

    /// Who is waited for at a window, and what they are to do.
    pub fn awaited(&self) -> Option<(Peer, &'static str)> {
        self.awaiting.as_ref().and_then(|awaiting| awaiting.0())
    }

    /// Nothing is to be done about a peer any more.
    pub fn forget(&mut self, ix: PeerIx) {
        self.lookups.retain(|other| *other != ix);
        self.draining.retain(|other| *other != ix);
        self.doomed.retain(|doomed| doomed.ix != ix);
    }

    pub fn new(warn_s: u64, shared: bool, wait: Wait) -> Self {
        Waits {
            warn_s,
            shared,
            wait,
            doing: None,
            awaiting: None,
            asked: 0,
            answered: 0,
            spins: 0,
            lookups: Vec::new(),
            aheads: Vec::new(),
            keeps: 0,
            starting: false,
            draining: Vec::new(),
            carrying: false,
            lack: None,
            fits: None,
            afterwards: None,
            doomed: Vec::new(),
            timers: false,
            errands: false,
            idle: 0,
            busy: 0,
            meetings: Vec::new(),
            meeting_set: None,
            spawns: 0,
            questions: false,
            dead_due_ns: 0,
            lost_seen: 0,
            farewell_ns: None,
            looks: 0,
            looked_ns: 0,
            staying: 0,
            asleep: 0,
            news: 0,
            told: 0,
            datagrams_dropped: 0,
        }
    }
}

impl Endpoint {
    /// The time, for everything that is timed here.
    pub(crate) fn now_ns(&self) -> u64 {
        cpu::now_ns()
    }

    /// Finds out whether there is anything that a clock decides, or that has to be looked after. Whoever may have
    /// changed that calls it: everything does so through [`Endpoint::carry_out`].
    pub(crate) fn set_timers(&mut self) {
        let waits = &self.waits;
        let errands = self.wireup.poll_timeout().is_some()
            || !waits.lookups.is_empty()
            || !waits.draining.is_empty()
            || !waits.doomed.is_empty()
            || !self.job.met.is_empty()
            || self.looks_ahead();
        let devices = self.context.has_devices();
        (self.waits.timers, self.waits.errands) = (errands || devices, errands);
        self.waits.spins = match (self.waits.wait, devices) {
            (Wait::SpinBlock, _) => SPINS_BLOCK,
            (Wait::Sleep, _) => 0,
            (Wait::Auto | Wait::Poll, _) if self.waits.shared => 0,
            (Wait::Auto | Wait::Poll, true) if self.context.has_only_rdma() => SPINS_RDMA,
            (Wait::Auto | Wait::Poll, true) => SPINS_SOCKETS,
            (Wait::Auto | Wait::Poll, false) => SPINS,
        };
    }

    /// Does what is due. Did anything move?
    pub(crate) fn tick(&mut self) -> bool {
        if !self.waits.timers {
            return false;
        }
        let now_ns = self.now_ns();
        let mut moved = self.look_again() | self.finish_drains() | self.lose_doomed(now_ns);
        moved |= self.look_for_dead(now_ns) | self.ask_ahead(now_ns);
        if self.context.next_due_ns().is_some_and(|due| due <= now_ns) {
            self.context.tick(now_ns);
            moved = true;
        }
        if self.wireup.poll_timeout().is_some_and(|due| due <= now_ns) {
            self.wireup.tick(now_ns);
            self.carry_out();
            moved = true;
        }
        self.set_timers();
        moved
    }

    /// A program that does not wait has looked for something in vain. Should it let others run? Where cores are shared,
    /// who does nothing but look keeps those from running for whom it looks.
    #[inline]
    pub fn looked_in_vain(&mut self) -> bool {
        self.waits.shared && self.looks_too_much()
    }

    fn looks_too_much(&mut self) -> bool {
        let now_ns = self.now_ns();
        let close = now_ns.saturating_sub(self.waits.looked_ns) < LOOKS_CLOSE_NS;
        let looks = if close { self.waits.looks + 1 } else { 0 };
        (self.waits.looks, self.waits.looked_ns) = (looks % LOOKS_MAX, now_ns);
        looks == LOOKS_MAX
    }

    /// Waits a moment: call it when [`Endpoint::progress`] moved nothing and the caller still waits. Spins
    /// first, then lets others run, then sleeps until something comes.
    #[inline]
    pub fn pause(&mut self, backoff: &mut Backoff) {
        if self.spins(backoff) {
            return;
        }
        match self.rest_long(backoff) {
            Rest::Again => {}
            Rest::Yield => cpu::yield_now(),
            Rest::Sleep(sleep, most) => {
                // A server does not know when its job ends: its agent kills it.
                if self.me().rank().is_none() {
                    self.publish_soon();
                }
                sleep.wait(most);
                self.rested();
            }
        }
    }

    /// As [`Endpoint::pause`], but leaves it to the caller to sleep where nobody has to wait for it.
    #[inline]
    pub fn rest(&mut self, backoff: &mut Backoff) -> Rest {
        if self.spins(backoff) { Rest::Again } else { self.rest_long(backoff) }
    }

    /// Goes round once more, while that is worth it.
    #[inline]
    fn spins(&mut self, backoff: &mut Backoff) -> bool {
        backoff.rounds += 1;
        let spins = backoff.rounds < self.waits.spins;
        if spins {
            if backoff.rounds.is_multiple_of(CLOCK_ROUNDS) {
                self.tick();
            }
            if backoff.rounds > SPINS_EAGER {
                cpu::relax();
            }
        }
        spins
    }

    #[cold]
    fn rest_long(&mut self, backoff: &mut Backoff) -> Rest {
        let yields = match () {
            () if self.waits.wait == Wait::Poll => return self.poll_on(backoff),
            () if matches!(self.waits.wait, Wait::Sleep | Wait::SpinBlock) => 0,
            // The launcher tells when all have started: those need the time.
            () if !self.waits.lookups.is_empty() && self.waits.spawns == 0 => 0,
            () if self.waits.shared => YIELDS_SHARED,
            () => self.waits.spins + YIELDS_ALONE,
        };
        // Who yields on a core of its own goes round quickly, and each look would be later by a tick. (What is due is seen to by
        // every sixteenth call of progress.)
        let may_tick = self.waits.shared || backoff.rounds >= yields;
        if may_tick && self.tick() {
            return Rest::Again;
        }
        if backoff.rounds < yields {
            return Rest::Yield;
        }
        let now_ns = self.now_ns();
        if backoff.since_ns == 0 {
            backoff.since_ns = now_ns;
        }
        if self.is_newly_asked() {
            return Rest::Again;
        }
        self.warn_if_long(backoff, now_ns);
        self.exit_if_abandoned();
        match self.prepare_sleep(now_ns) {
            Some((sleep, most)) => {
                if self.context.has_devices() {
                    backoff.rounds = yields.saturating_sub(YIELDS_AWAKE);
                }
                Rest::Sleep(sleep, most)
            }
            None => Rest::Again,
        }
    }

    /// Who never sleeps lets others run, and looks after the launcher now and then.
    fn poll_on(&mut self, backoff: &mut Backoff) -> Rest {
        if backoff.rounds >= self.waits.spins + POLL_ROUNDS {
            backoff.rounds = self.waits.spins;
            self.is_newly_asked();
            let now_ns = self.now_ns();
            if backoff.since_ns == 0 {
                backoff.since_ns = now_ns;
            }
            self.warn_if_long(backoff, now_ns);
            self.exit_if_abandoned();
        }
        Rest::Yield
    }

    /// Arms the doorbell, unless something is there already.
    fn prepare_sleep(&mut self, now_ns: u64) -> Option<(Sleep, Duration)> {
        if self.waits.keeps > 0 && self.context.keep_ready(self.waits.keeps) {
            return None;
        }
        let unwatched = match self.watch_meetings() {
            Ok(true) => return None,
            Ok(false) => false,
            Err(_) => true,
        };
        let waits = &self.waits;
        let answer_due = !waits.lookups.is_empty() || waits.spawns > 0 || waits.questions || self.job.leaving;
        if answer_due && self.job.pmi.as_ref().is_some_and(|pmi| pmi.has_unheard()) {
            self.waits.news += 1; // it may be for a thread that sleeps until it comes
            return None;
        }
        self.waits.datagrams_dropped = self.context.datagrams_dropped();
        self.ask_to_be_rung();
        let pmi = self.job.pmi.as_ref().map(|pmi| pmi.as_fd());
        let fd = pmi.filter(|_| answer_due);
        if let Some(pmi) = pmi.filter(|_| !answer_due) {
            self.context.forget_fd(pmi); // what comes there now is read by nobody, and must not wake anybody
        }
        if self.context.next_due_ns().is_some_and(|due| due <= now_ns) {
            self.context.tick(now_ns);
        }
        let sleep = self.context.prepare_sleep(fd).ok().flatten()?;
        // (It may have gone on in another ring, without getting anything in. And who asks rings once: a question that came
        // before the doorbell was armed is seen here.)
        if self.pump_all() || !self.ask_to_be_rung() || self.is_newly_asked() {
            drop(sleep);
            return None;
        }
        self.waits.asleep += 1;
        let due = [self.wireup.poll_timeout(), self.context.next_due_ns()];
        let due = due.into_iter().flatten().chain(self.waits.doomed.iter().map(|doomed| doomed.due_ns)).min();
        let until = due.map_or(SLEEP_MAX, |due| Duration::from_nanos(due.saturating_sub(now_ns)));
        let most = match () {
            () if unwatched => MEETING_LOOK,
            () if !self.job.met.is_empty() => {
                SLEEP_MAX.min(Duration::from_nanos(crate::meeting::DEAD_LOOK_NS))
            }
            () => SLEEP_MAX,
        };
        Some((sleep, until.min(most)))
    }

    /// Who waits for room in a peer's ring is rung for when there is some. Was that said before, to all of them?
    fn ask_to_be_rung(&mut self) -> bool {
        let mut said = true;
        for place in 0..self.waiting.len() {
            if let Some(qp) = self.links[self.waiting[place].index()].way() {
                said &= self.context.set_waiting(qp, true);
            }
        }
        said
    }

    /// Sleeps until something comes, or is due. For who waits long and has no hurry: spinning would only take a core from
    /// those that are waited for.
    pub(crate) fn sleep_until_news(&mut self) {
        if self.tick() {
            return;
        }
        self.exit_if_abandoned();
        let now_ns = self.now_ns();
        if let Some((sleep, most)) = self.prepare_sleep(now_ns) {
            sleep.wait(most);
            self.rested();
        }
    }

    /// A thread that slept is back. Others that sleep have to look as well: what woke this one may be theirs.
    pub fn rested(&mut self) {
        self.waits.asleep = self.waits.asleep.saturating_sub(1);
        if self.waits.asleep > 0 {
            return; // another one may still sleep for that room
        }
        for place in 0..self.waiting.len() {
            if let Some(qp) = self.links[self.waiting[place].index()].way() {
                self.context.set_waiting(qp, false);
            }
        }
    }

    /// Wakes threads that sleep, if messages have ended since they fell asleep: one of them may be waited for.
    #[inline]
    pub fn stir(&mut self) {
        if self.waits.asleep > 0 {
            self.tell_sleepers();
        }
    }

    /// Something has ended that was no message here, and that a thread may wait for: [`Endpoint::stir`] wakes it.
    pub fn note_end(&mut self) {
        self.waits.news += 1;
    }

    #[cold]
    fn tell_sleepers(&mut self) {
        // Whoever sleeps has seen to what was to be sent until then, not to what came behind it.
        self.context.flush();
        let now = self.ended();
        if self.waits.told != now {
            self.waits.told = now;
            self.context.sleeper().wake();
        }
    }

    /// Without its launcher a process has nobody to end it: it ends itself.
    pub(crate) fn exit_if_abandoned(&mut self) {
        if self.job.pmi.as_mut().is_some_and(|pmi| pmi.is_closed()) {
            eprintln!("banyan: {}: the launcher is gone; exiting", self.name());
            std::process::exit(1);
        }
    }

    /// Has warnings of a long wait say what the program is doing.
    pub fn set_doing(&mut self, doing: Doing) {
        self.waits.doing = Some(doing);
    }

    /// Has warnings of a long wait name who is waited for.
    pub fn set_awaiting(&mut self, awaiting: Awaiting) {
        self.waits.awaiting = Some(awaiting);
    }

    /// Says for whom this process waits, once it has waited long; again each time that doubles.
    fn warn_if_long(&mut self, backoff: &mut Backoff, now_ns: u64) {
        let waited_s = (now_ns - backoff.since_ns) / 1_000_000_000;
        if waited_s < self.waits.warn_s << backoff.warned.min(20) || self.waits.warn_s == 0 {
            return;
        }
        backoff.warned += 1;
        // The launcher asks all, and joins what they say.
        if self.job.pmi.as_mut().is_some_and(|pmi| pmi.tell_waiting(waited_s)) {
            return;
        }
        let doing = self.waits.doing.as_ref().map_or(String::new(), |doing| format!(" in {}", doing.0()));
        eprintln!("banyan: {} has waited {waited_s} s{doing}{}", self.name(), self.waits_for());
    }

    pub(crate) fn waits_for(&self) -> String {
        let mut text = String::new();
        for (pattern, _) in self.matcher.posted_iter().take(4) {
            let name = |ix| self.name_of(self.who(ix));
            let source = pattern.source.map_or("any rank".into(), name);
            let tag = pattern.tag.map_or("any tag".into(), |t| format!("tag {t}"));
            text += &format!(
                "; for a message from {source} with {tag} (communicator number {})",
                pattern.context / 2
            );
        }
        let under_way = self.requests.states().filter_map(|state| self.under_way(state));
        under_way.take(4).for_each(|words| text += &words);
        if let Some((peer, what)) = self.waits.awaited() {
            text += &format!("; for {} {what}", self.name_of(peer));
        }
        self.waits.meetings.iter().take(4).for_each(|awaited| text += &format!("; for {awaited}"));
        if self.waits.questions {
            text += "; for the launcher, until all ranks have started and it has started what was asked for";
        }
        text + &self.connection_words()
    }

    /// What is amiss with connections.
    pub(crate) fn connection_words(&self) -> String {
        let mut text = String::new();
        let waiting = self.wireup.waiting().filter(|waiting| waiting.state != StateName::Crowded);
        for Waiting { ix, peer, state, attempts, .. } in waiting.take(4) {
            let (state_is, tries) = (state.words(), if attempts == 1 { "try" } else { "tries" });
            text += &match self.wireup.refusal(ix) {
                Some(why) => format!("; for a connection to {peer} ({attempts} {tries}: {why})"),
                None if matches!(state, StateName::Draining | StateName::Closing) => {
                    format!("; for the connection to {peer} to close ({state_is}; {attempts} {tries})")
                }
                None => format!("; for a connection to {peer} ({state_is}; {attempts} {tries})"),
            };
        }
        if let Some(crowd) = self.wireup.crowd(self.now_ns()) {
            text += &format!("; {crowd}");
        }
        let lost = self.links.iter().filter_map(|link| link.failed());
        lost.take(4).for_each(|error| text += &format!("; {error}"));
        for ix in self.waiting.iter().take(4) {
            text += &format!(
                "; to send {} messages to {}, which takes no more for now",
                self.links[ix.index()].queue.len(),
                self.who(*ix)
            );
        }
        text
    }

    /// What a message that has met its peer still needs.
    pub(crate) fn under_way(&self, state: &State) -> Option<String> {
        let name = |ix| self.name_of(self.who(ix));
        Some(match state {
            State::SendOffered { data, to, .. } => {
                let bytes = match data {
                    Lent::User(buf) => buf.len(),
                    Lent::Own(bytes) => bytes.len(),
                };
                format!("; for {} to take a message of {bytes} bytes", name(*to))
            }
            State::SendPosted { to } => format!("; for the network to take a message to {}", name(*to)),
            State::ReceiveReading(reading) => {
                let (from, bytes) = (name(reading.end.source), reading.offer.bytes);
                format!("; for {from} to hand over a message of {bytes} bytes")
            }
            State::ReceiveShared(sharing) => {
                let (from, bytes) = (name(sharing.reading.end.source), sharing.missing);
                format!("; for {from} to write {bytes} bytes of a message")
            }
            State::ReceiveStreaming { missing, end, .. } => {
                format!("; for {missing} more bytes of a message from {}", name(end.source))
            }
            State::ReceivePlaced { end, .. } => {
                format!("; for the rest of a message of {} bytes from {}", end.bytes, name(end.source))
            }
            State::Accessing(accessing) => {
                format!("; for {} to give access to its memory", name(accessing.peer))
            }
            State::SendQueued | State::ReceivePosted { .. } | State::Done(_) => return None,
        })
    }

    /// A caller begins to wait in here, or has waited: it comes back until what it waits for has ended, so that a peer may
    /// count on it.
    #[inline]
    pub fn stay(&mut self, stays: bool) {
        self.waits.staying = self.waits.staying.wrapping_add_signed(if stays { 1 } else { -1 });
    }

    /// Does any caller stay?
    #[inline]
    pub fn anybody_stays(&self) -> bool {
        self.waits.staying > 0
    }

    /// Waits for a message to end and takes it.
    #[inline]
    pub fn wait(&mut self, id: ReqId) -> Result<Outcome, NetError> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(result) = self.wait_unless_asked(id, &mut backoff) {
                return result;
            }
            self.waits.answered = self.waits.asked; // there is nobody here who could answer
        }
    }

    /// As [`Endpoint::wait`], but `None` if this process is asked where it is: the caller answers, and waits on.
    #[inline]
    pub fn wait_unless_asked(
        &mut self,
        id: ReqId,
        backoff: &mut Backoff,
    ) -> Option<Result<Outcome, NetError>> {
        self.stay(true);
        let ended = loop {
            if let Some(result) = self.take(id) {
                break Some(result);
            }
            if self.progress() {
                *backoff = Backoff::default();
                continue;
            }
            self.pause(backoff);
            if self.is_asked() {
                break self.take(id);
            }
        };
        self.stay(false);
        ended
    }
}

/// When a wait for the process manager is worth a word: after so many seconds, and each time that doubles.
pub(crate) struct Patience {
    since_ns: u64,
    limit_s: u64,
}

impl Patience {
    pub fn new(limit_s: u64) -> Self {
        Patience { since_ns: cpu::now_ns(), limit_s }
    }

    /// The seconds waited.
    pub fn waited_s(&self) -> u64 {
        (cpu::now_ns() - self.since_ns) / 1_000_000_000
    }

    /// The same, if they have reached the limit. Never for a limit of 0.
    pub fn runs_out(&mut self) -> Option<u64> {
        let waited_s = self.waited_s();
        if self.limit_s == 0 || waited_s < self.limit_s {
            return None;
        }
        self.limit_s = self.limit_s.saturating_mul(2);
        Some(waited_s)
    }
}

/// Time since the last look.
pub(crate) struct PhaseClock(u64);

impl PhaseClock {
    pub fn start() -> Self {
        PhaseClock(cpu::now_ns())
    }

    pub fn lap(&mut self) -> u64 {
        let now_ns = cpu::now_ns();
        now_ns - std::mem::replace(&mut self.0, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::Config;
    use proto::env;

    #[test]
    fn every_word_is_a_way_to_wait() {
        let wait = |word: Option<&str>| {
            let get = |name: &str| word.filter(|_| name == env::WAIT).map(String::from);
            Config::from_variables(get).map(|config| config.wait)
        };
        let ways = [Wait::Auto, Wait::Sleep, Wait::Poll, Wait::SpinBlock];
        assert_eq!(env::WAITS, ["auto", "sleep", "poll", "spin-block"]);
        for (word, way) in env::WAITS.into_iter().zip(ways) {
            assert_eq!(wait(Some(word)).unwrap(), way);
        }
        assert_eq!(wait(None).unwrap(), Wait::Auto);
        let error = wait(Some("spin")).unwrap_err().to_string();
        assert!(error.contains("BANYAN_WAIT") && error.contains("spin-block"), "{error}");
    }
}
