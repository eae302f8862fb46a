//! Why does nothing happen? All ranks are asked where they are, and what they say is joined into one report: when one of them
//! has waited long, when the user asks with SIGQUIT (ctrl-\ at a terminal), and for `banyan ps`.
//!
//! A launcher listens under a name in the kernel's table of them, which no file holds, and answers processes of its own user
//! only.
use super::Launcher;
use crate::job::random_words;
use crate::ps;
use proto::ids::{Job, NodeId, Rank};
use proto::lane::JobId;
use proto::tree::{Ended, Frame, Member};
use proto::waits::{Doing, Explained, Seen, ServerSeen, Standing, Who, explain};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::local::{self, Listener};
use sys::poll::Interest;
use sys::process::Pid;
use sys::socket::{self, Transfer};

/// How long the tree has to answer; agents give their ranks half of it.
const PATIENCE: Duration = Duration::from_millis(1400);
/// Ranks that wait for each other say so one after the other: so long the first word of one waits for the others.
const GATHER: Duration = Duration::from_millis(200);
/// Another report by itself comes when a rank has waited that much longer again, in parts of its wait.
const AGAIN: (u64, u64) = (9, 20);
/// Processes that ask at a time.
const CALLERS_MAX: usize = 16;

pub(super) const TOKEN_LISTENER: u64 = 7;
pub(super) const TOKEN_CALLERS: u64 = 8;

/// What is asked and who wants to know.
#[derive(Default)]
pub(super) struct Asking {
    /// How often ranks have been asked.
    asked: u32,
    open: Option<Open>,
    /// How ranks have ended.
    pub(super) ended: BTreeMap<Member, Ended>,
    listener: Option<Listener>,
    callers: Vec<Caller>,
    /// A rank has waited long: when all are asked for its sake.
    complaint: Option<Instant>,
    /// When that was told last, and what.
    told: Option<(Instant, Vec<String>)>,
}

/// A question that has not been answered by all.
struct Open {
    until: Instant,
    nodes_left: u32,
    standings: BTreeMap<Member, Standing>,
    servers: Vec<ServerSeen>,
    why: Why,
}

/// Why ranks are asked. Callers hear of any answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    Called,
    Complaint,
    Signal,
}

/// A process that wants to know.
struct Caller {
    fd: OwnedFd,
    /// What it is told, once that is known.
    answer: Option<Vec<u8>>,
    sent: usize,
}

impl Asking {
    /// Begins to listen. A job can do without: nobody hears where its ranks are then but by signals.
    pub(super) fn listening(poll: &sys::poll::Poll) -> Self {
        let listener = random_words().ok().and_then(|[chance, _]: [u64; 2]| {
            let listener = Listener::bind(ps::name_of(Pid::own(), chance).as_bytes(), 16).ok()?;
            poll.add(listener.as_fd(), TOKEN_LISTENER, Interest::Read).ok()?;
            Some(listener)
        });
        Asking { listener, ..Asking::default() }
    }

    /// When something is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.until).into_iter().chain(self.complaint).min()
    }
}

impl Launcher<'_> {
    /// The user wants to know.
    pub(super) fn asked_by_signal(&mut self) {
        self.ask_all(Why::Signal);
    }

    /// A rank has waited long.
    pub(super) fn on_waiting(&mut self, seconds: u32) {
        let now = Instant::now();
        let (part, of) = AGAIN;
        let pause = Duration::from_millis(u64::from(seconds) * 1000 * part / of);
        let is_new = self.asking.told.as_ref().is_none_or(|(told, _)| now >= *told + pause);
        if is_new && self.asking.complaint.is_none() {
            self.asking.complaint = Some(now + GATHER);
        }
    }

    fn ask_all(&mut self, why: Why) {
        if let Some(open) = &mut self.asking.open {
            open.why = open.why.max(why);
            return;
        }
        self.asking.asked += 1;
        let (ask, until) = (self.asking.asked, Instant::now() + PATIENCE);
        let nodes_left = self.tree.shape.nodes();
        self.asking.open =
            Some(Open { until, nodes_left, standings: BTreeMap::new(), servers: Vec::new(), why });
        match &mut self.root {
            Some(root) => root.send(&Frame::Where { ask }),
            None => self.answered(),
        }
    }

    /// A rank is described.
    pub(super) fn on_here(&mut self, who: Member, ask: u32, standing: &[u8]) {
        let current = ask == self.asking.asked;
        if let (Some(open), true) = (&mut self.asking.open, current) {
            open.standings.insert(who, Standing::parse(standing).unwrap_or(Standing::Unheard));
        }
    }

    /// A data server is described.
    pub(super) fn on_server_here(
        &mut self,
        (node, job): (NodeId, JobId),
        ask: u32,
        (pid, is_ready): (i32, bool),
        standing: &[u8],
    ) {
        let Some(begun) = self.jobs.iter().find(|begun| begun.group.id == job) else { return };
        let group = &begun.group;
        let Some(number) = group.nodes.iter().position(|at| *at == node) else { return };
        let doing = match Standing::parse(standing) {
            Some(Standing::Outside(outside)) => outside.doing,
            _ => Doing::Unknown,
        };
        let host = self.tree.host_of(node).map_or_else(String::new, |host| format!(" (host {host})"));
        let spawned = if job.0 == 0 { "" } else { " for a spawned job" };
        let seen = ServerSeen {
            job: Job::named(&group.name),
            node: NodeId(number as u32),
            name: format!("the data server of node {number}{host}{spawned}, process {pid}"),
            is_ready,
            doing,
            of: group.ranks_on(node).into_iter().map(|rank| Member { job, rank }).collect(),
        };
        let current = ask == self.asking.asked;
        if let (Some(open), true) = (&mut self.asking.open, current) {
            open.servers.push(seen);
        }
    }

    /// All ranks of a node are.
    pub(super) fn on_told_all(&mut self, ask: u32) {
        let current = ask == self.asking.asked;
        if let (Some(open), true) = (&mut self.asking.open, current) {
            open.nodes_left = open.nodes_left.saturating_sub(1);
            if open.nodes_left == 0 {
                self.answered();
            }
        }
    }

    /// What is due is done.
    pub(super) fn look_at_asking(&mut self, now: Instant) {
        if self.asking.complaint.take_if(|due| *due <= now).is_some() {
            self.ask_all(Why::Complaint);
        }
        if self.asking.open.as_ref().is_some_and(|open| open.until <= now) {
            self.answered();
        }
    }

    /// Everybody has answered, or had the time to.
    fn answered(&mut self) {
        let Some(open) = self.asking.open.take() else { return };
        let seen = self.seen(open.standings);
        let explained = explain(&seen, &open.servers);
        match open.why {
            Why::Signal => self.tell(&explained),
            // Who has waited may have been served meanwhile.
            Why::Complaint if explained.waiting > 0 => self.tell_by_itself(&explained),
            Why::Complaint | Why::Called => {}
        }
        if self.asking.callers.iter().any(|caller| caller.answer.is_none()) {
            let answer = self.answer_for_callers(&seen, &explained);
            let callers = self.asking.callers.iter_mut().filter(|caller| caller.answer.is_none());
            callers.for_each(|caller| caller.answer = Some(answer.clone()));
            self.serve_callers();
        }
    }

    /// All ranks of all jobs, with what is known of each.
    fn seen(&self, mut standings: BTreeMap<Member, Standing>) -> Vec<Seen> {
        let mut seen = Vec::new();
        for begun in &self.jobs {
            let job = Job::named(&begun.group.name);
            for rank in (0..begun.group.ranks()).map(Rank) {
                let member = Member { job: begun.group.id, rank };
                let ended = self.asking.ended.get(&member).map(|ended| Standing::Ended(Some(*ended)));
                let standing = ended.or_else(|| standings.remove(&member)).unwrap_or(Standing::Unheard);
                seen.push(Seen { member, who: Who { job, rank }, standing });
            }
        }
        seen
    }

    fn tell(&mut self, explained: &Explained) {
        self.hide_progress();
        explained.lines().iter().for_each(|line| self.err.say(line));
    }

    /// The same situation is not told twice.
    fn tell_by_itself(&mut self, explained: &Explained) {
        let situation: Vec<String> = explained.groups.iter().map(|group| group.text.clone()).collect();
        let is_old = self.asking.told.as_ref().is_some_and(|(_, told)| *told == situation);
        self.asking.told = Some((Instant::now(), situation));
        if is_old {
            self.hide_progress();
            let first = explained.lines().into_iter().next().unwrap_or_default();
            self.err.say(&format!("{first}; nothing else has changed"));
        } else {
            self.tell(explained);
        }
    }

    // --- callers ---

    /// Somebody calls.
    pub(super) fn on_callers_door(&mut self) -> io::Result<()> {
        while let Some(fd) = self.asking.listener.as_ref().map_or(Ok(None), Listener::accept)? {
            let is_own =
                local::peer_user(fd.as_fd()).is_ok_and(|user| user == sys::process::effective_user());
            if !is_own || self.asking.callers.len() >= CALLERS_MAX {
                continue;
            }
            self.poll.add(fd.as_fd(), TOKEN_CALLERS, Interest::Read)?;
            self.asking.callers.push(Caller { fd, answer: None, sent: 0 });
            self.ask_all(Why::Called);
        }
        Ok(())
    }

    /// There is nothing to ask any more: callers hear that the job has ended.
    pub(super) fn end_asking(&mut self) {
        if let Some(listener) = self.asking.listener.take() {
            let _ = self.poll.remove(listener.as_fd());
        }
        for caller in self.asking.callers.drain(..) {
            let _ = self.poll.remove(caller.fd.as_fd());
        }
    }

    /// Writes what callers are owed, as far as they take it.
    pub(super) fn serve_callers(&mut self) {
        let poll = &self.poll;
        self.asking.callers.retain_mut(|caller| {
            let stays = caller.serve(poll);
            if !stays {
                let _ = poll.remove(caller.fd.as_fd());
            }
            stays
        });
    }

    fn answer_for_callers(&self, seen: &[Seen], explained: &Explained) -> Vec<u8> {
        let node = |member: Member| {
            let begun = self.jobs.iter().find(|begun| begun.group.id == member.job)?;
            Some(begun.group.node_of(member.rank))
        };
        let spot = |member: Member| node(member).map(|node| (node.0, self.tree.host_of(node)));
        let first = &self.jobs[0].group;
        let job = ps::Job {
            pid: Pid::own().0,
            command: first.programs.first().map_or_else(String::new, |found| found.name()),
            ranks: first.ranks(),
            nodes: self.tree.shape.nodes(),
            spawned: self.jobs.len() as u32 - 1,
            age: self.begun.elapsed(),
        };
        let mut text = ps::json(&job, seen, explained, spot).to_string();
        text.push('\n');
        text.into_bytes()
    }

    /// A rank has ended.
    pub(super) fn note_end(&mut self, who: Member, ended: Ended) {
        self.asking.ended.insert(who, ended);
    }

    /// Nobody asks for a spawned job that is over.
    pub(super) fn forget_ended(&mut self, job: JobId) {
        self.asking.ended.retain(|member, _| member.job != job);
    }
}

impl Caller {
    /// Does it still want something?
    fn serve(&mut self, poll: &sys::poll::Poll) -> bool {
        let Some(answer) = &self.answer else {
            // It says nothing; if there is something, that is its end.
            return matches!(socket::read(self.fd.as_fd(), &mut [0; 64]), Ok(Transfer::WouldBlock));
        };
        loop {
            match socket::write(self.fd.as_fd(), &answer[self.sent..]) {
                Ok(Transfer::Bytes(bytes)) => self.sent += bytes,
                Ok(Transfer::WouldBlock) => {
                    return poll.change(self.fd.as_fd(), TOKEN_CALLERS, Interest::Write).is_ok();
                }
                Ok(Transfer::Closed) | Err(_) => return false,
            }
            if self.sent == answer.len() {
                return false;
            }
        }
    }
}
