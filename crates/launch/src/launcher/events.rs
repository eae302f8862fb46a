//! What the tree reports: agents and ranks that start, end and fail.
use super::hints::hint;
use super::outcome::Step;
use super::{Cause, Launcher, NodeBoard, NodeServer, Spot, Who};
use crate::job::is_this_host;
use crate::picture;
use crate::program::Found;
use crate::spec::Talk;
use proto::ids::NodeId;
use proto::lane::JobId;
use proto::stats::Met;
use proto::tree::{Ended, Frame, Member, PmiState, StartStep};
use std::io;
use sys::node::Ties;
use sys::process::{self, Pid};

/// Warnings of a job.
const WARNINGS_MAX: usize = 16;

impl Launcher<'_> {
    pub(super) fn on_frame(&mut self, frame: Frame) {
        match frame {
            Frame::Output { from, stream, bytes } => self.on_output(from, stream, &bytes),
            Frame::Hello { node, pid } => self.on_agent(node, pid),
            Frame::Started { job, .. } => self.on_started(job),
            Frame::Ask { node, ask, question } => self.on_question(node, ask, question),
            Frame::InputTaken { from, bytes } => {
                if let Some(feed) = &mut self.feed {
                    feed.taken(from, bytes);
                    let _ = feed.wait(&self.poll); // a descriptor that cannot be polled is not fed from
                }
            }
            Frame::Waiting { seconds, .. } => self.on_waiting(seconds),
            Frame::Here { who, ask, standing } => self.on_here(who, ask, &standing),
            Frame::ServerHere { node, job, ask, pid, is_ready, standing } => {
                self.on_server_here((node, job), ask, (pid, is_ready), &standing);
            }
            Frame::ToldAll { ask, .. } => self.on_told_all(ask),
            Frame::Stats { of, values } if of.job == JobId(0) => {
                if let Some(stats) = self.stats.get_mut(of.rank.index()) {
                    *stats = values;
                }
            }
            Frame::Stats { values, .. } => self.spawned.add(&values),
            Frame::Met { of, words } if of.job == JobId(0) => {
                if let Some(met) = self.met.get_mut(of.rank.index()) {
                    met.extend(words.into_iter().map(Met::from_word));
                }
            }
            Frame::Met { .. } => {}
            Frame::Traffic { of, words } => {
                let ranks = self.jobs[0].group.ranks();
                if of.job == JobId(0) && of.rank.0 < ranks {
                    self.traffic.add(of.rank.0, ranks, &words);
                }
            }
            Frame::Contacts { of, count, words } => {
                if of.job == JobId(0) && of.rank.0 < self.jobs[0].group.ranks() {
                    self.told.add(of.rank.0, count, &words);
                }
            }
            Frame::BoardStats { node, job, values } => self.boards.push(NodeBoard { node, job, values }),
            Frame::ServerStats { node, job, values } => self.servers.push(NodeServer { node, job, values }),
            Frame::Warn { text, .. } => self.warn(text),
            Frame::Note { node, text } => {
                if self.talk == Talk::Verbose || self.spec.report_bindings {
                    let spot = self.spot(node);
                    self.err.say(&format!("{spot}: {text}"));
                }
            }
            frame => self.on_event(frame),
        }
    }

    /// Says what an agent warns of, once for all of them.
    fn warn(&mut self, text: String) {
        if self.warned.len() < WARNINGS_MAX && !self.warned.contains(&text) {
            self.hide_progress();
            self.err.say(&text);
            self.warned.push(text);
        }
    }

    fn on_agent(&mut self, node: NodeId, pid: i32) {
        if node == NodeId(0) {
            self.root_pid = Some(Pid(pid));
        }
        self.agents += 1;
        if self.talk == Talk::Verbose && node.0 < self.tree.shape.nodes() {
            self.hide_progress();
            let group = &self.jobs[0].group;
            let (ranks, programs) = (picture::ranks_on(group, node), picture::programs_on(group, node));
            let spot = self.spot(node);
            self.err.say(&format!("{spot} (agent {pid}): {ranks}{programs}"));
        }
        if self.agents == self.tree.shape.nodes() {
            self.phases.agents = self.begun.elapsed();
        }
    }

    /// All ranks that a job has on a node have been started, and have begun PMI if the job was spawned.
    fn on_started(&mut self, job: JobId) {
        let Some(begun) = self.jobs.iter_mut().find(|begun| begun.group.id == job) else { return };
        begun.nodes_started += 1;
        if begun.nodes_started < begun.group.placement.nodes() {
            return;
        }
        match begun.asked_by.take() {
            Some(asked_by) => self.answer_spawn(job, asked_by),
            None => {
                self.phases.started = self.begun.elapsed();
                if let Some(feed) = &mut self.feed {
                    feed.open();
                    let _ = feed.wait(&self.poll); // a descriptor that cannot be polled is not fed from
                }
            }
        }
    }

    /// How messages name a node.
    pub(super) fn spot(&self, node: NodeId) -> Spot {
        Spot { node, host: self.tree.host_of(node).map(str::to_owned) }
    }

    /// The node that a user means by the name of a host.
    pub(super) fn node_named(&self, name: &str) -> Option<NodeId> {
        let named = self.tree.hosts.iter().position(|host| host.name == name).map(|at| NodeId(at as u32));
        named
            .or_else(|| is_this_host(name).then_some(NodeId(0)))
            .filter(|node| self.jobs[0].group.nodes.contains(node))
    }

    /// How messages name a rank; `None` if there is no such rank.
    pub(super) fn who(&self, member: Member, pid: i32) -> Option<Who> {
        let begun = self.jobs.iter().find(|begun| begun.group.id == member.job)?;
        let node = (member.rank.0 < begun.group.ranks()).then(|| begun.group.node_of(member.rank))?;
        Some(Who { member, pid, spot: self.spot(node) })
    }

    /// What a rank runs.
    pub(super) fn program_of(&self, member: Member) -> Option<&Found> {
        let begun = self.jobs.iter().find(|begun| begun.group.id == member.job)?;
        Some(&begun.group.programs[begun.group.section_of(member.rank)])
    }

    /// A frame that may end the job.
    fn on_event(&mut self, frame: Frame) {
        let step = match frame {
            Frame::RankEnded { who, pid, ended, pmi, words } => match self.who(who, pid) {
                Some(who) => {
                    if let Some(exits) = &mut self.exits {
                        exits.add(who.member, ended);
                    }
                    if let Some(hint) = hint(&words, std::env::current_exe().ok().as_deref()) {
                        self.warn(hint);
                    }
                    self.rank_ended(who, ended, pmi, words)
                }
                None => Step::Wait,
            },
            Frame::Aborted { who, pid, code, message } => match self.who(who, pid) {
                Some(who) => self.fail_of(who.member.job, Cause::Aborted(who, code, message)),
                None => Step::Wait,
            },
            Frame::BadPmi { who, pid, reason } => match self.who(who, pid) {
                Some(who) => self.fail_of(who.member.job, Cause::BadPmi(who, reason)),
                None => Step::Wait,
            },
            Frame::Spare { who, parted } => {
                self.set_ties(who.job, if parted { Ties::Parted } else { Ties::Met });
                Step::Wait
            }
            Frame::FenceBegun { who } => self.outcome.fence_begun(who),
            Frame::StartFailed { who, step, errno } => match self.who(who, 0) {
                Some(who) => self.start_failed(who, step, errno),
                None => Step::Wait,
            },
            Frame::ServerEnded { node, job, pid, ended, reason } => {
                let spot = self.spot(node);
                let cause = match reason.is_empty() {
                    true => Cause::ServerLost(spot, job, pid, ended),
                    false => Cause::ServerMissing(spot, job, reason),
                };
                self.fail_of(job, cause)
            }
            Frame::AgentLost { node, pid, ended } => {
                self.outcome.fail(Cause::AgentLost(self.spot(node), pid, ended))
            }
            Frame::AgentFailed { node, reason } => {
                self.outcome.fail(Cause::AgentFailed(self.spot(node), reason))
            }
            Frame::AgentMissing { node, reason } => {
                self.outcome.fail(Cause::AgentMissing(self.spot(node), reason))
            }
            _ => Step::Wait,
        };
        self.take(step);
    }

    fn rank_ended(&mut self, who: Who, ended: Ended, pmi: PmiState, words: String) -> Step {
        let job = who.member.job;
        self.note_end(who.member, ended);
        let pmi = self.last_state(who.member, pmi);
        if let Some(step) = self.ended_too_soon(&who, ended, pmi, &words) {
            return step;
        }
        let alone = self.is_spare(job);
        let step = match (ended, pmi) {
            (Ended::Signal(signal), _) if alone => {
                return self.end_alone(job, &Cause::Killed(who, signal), &words);
            }
            (Ended::Exit(0), PmiState::Active) if alone => {
                return self.end_alone(job, &Cause::LeftEarly(who, Vec::new()), &words);
            }
            (Ended::Exit(code), PmiState::Active) if alone => {
                return self.end_alone(job, &Cause::Failed(who, code), &words);
            }
            // It had finalized: the others of its job do without it.
            (Ended::Exit(_), _) if alone => self.outcome.rank_ended_alone(job, ended),
            _ => self.outcome.rank_ended(who, ended, pmi, words),
        };
        if job != JobId(0) && self.outcome.is_over(job) {
            self.forget(job);
        }
        step
    }

    fn start_failed(&mut self, who: Who, step: StartStep, errno: i32) -> Step {
        let error = io::Error::from_raw_os_error(errno);
        let is_missing = step != StartStep::Folder && error.kind() == io::ErrorKind::NotFound;
        let code = if is_missing { 127 } else { 126 };
        let found = self.program_of(who.member);
        let program = found.map_or_else(String::new, Found::name);
        let reason = match step {
            StartStep::Process => match errno {
                process::EMFILE => format!("{error}; each takes three of its agent's ('ulimit -n')"),
                process::EAGAIN => format!("{error}; processes may be limited ('ulimit -u')"),
                _ => error.to_string(),
            },
            StartStep::Folder => {
                let folder = found.and_then(|found| found.folder.as_ref());
                let folder = folder.map_or("".into(), |folder| folder.to_string_lossy());
                format!("working folder '{folder}': {error}")
            }
            StartStep::Program if errno == process::ENOEXEC => {
                format!("'{program}' is neither a program for this machine nor a script: {error}")
            }
            StartStep::Program => format!("'{program}': {error}"),
            StartStep::Interpreter => format!("the interpreter of '{program}': {error}"),
        };
        let said = format!("{}: {reason}", who.spot);
        self.revoke(who.member.job, &said)
            .unwrap_or_else(|| self.outcome.fail(Cause::StartFailed(who.member, who.spot, reason, code)))
    }
}
