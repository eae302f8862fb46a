//! Questions that ranks ask of the launcher: names of services, and new jobs in the running tree.
use super::cause::with_last_words;
use super::outcome::Step;
use super::{Begun, Cause, Launcher, Stage, Who};
use crate::describe;
use crate::job::{Group, Spread, StdinBy};
use crate::options::parse_hosts;
use crate::program::{Found, Where, find_section};
use crate::reason::bounded;
use crate::spec::{MapBy, RANKS_MAX, Section, StdinTo};
use proto::ids::{NodeId, Rank};
use proto::lane::JobId;
use proto::placement::Placement;
use proto::tree::{Answer, Ended, Frame, PmiState, Question, SpawnCommand, SpawnWish};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::rc::Rc;
use sys::node::Ties;
use sys::signal::signal_text;

/// Jobs that may be in the tree at a time.
const JOBS_MAX: usize = 4096;

impl Launcher<'_> {
    pub(super) fn on_question(&mut self, node: NodeId, ask: u32, question: Question) {
        let answer = match question {
            Question::Publish { service, port } => self.names.publish(service, port),
            Question::Lookup { service } => self.names.lookup(&service),
            Question::Unpublish { service } => self.names.unpublish(&service),
            Question::Spawn(wish) => match self.spawn(&wish, (node, ask)) {
                Ok(()) => return, // answered when all ranks have begun PMI
                Err(reason) => Answer::NotSpawned(bounded(reason)),
            },
        };
        self.answer(node, ask, answer);
    }

    fn answer(&mut self, node: NodeId, ask: u32, answer: Answer) {
        if let Some(root) = &mut self.root {
            root.send(&Frame::Answer { node, ask, answer });
        }
    }

    /// All ranks of a spawned job have begun PMI.
    pub(super) fn answer_spawn(&mut self, job: JobId, (node, ask): (NodeId, u32)) {
        let Some(begun) = self.jobs.iter().find(|begun| begun.group.id == job) else { return };
        let (name, processes) = (begun.group.name.clone().into_bytes(), begun.group.ranks());
        self.answer(node, ask, Answer::Spawned { name, processes });
    }

    /// Begins a job in the running tree. The error is for the rank that asked.
    fn spawn(&mut self, wish: &SpawnWish, asked_by: (NodeId, u32)) -> Result<(), String> {
        if self.stage != Stage::Running {
            return Err("the job is ending".into());
        }
        if self.jobs.len() >= JOBS_MAX {
            return Err(format!("{JOBS_MAX} jobs are running already"));
        }
        let spawner = self.jobs.iter().find(|begun| begun.group.id == wish.by.job);
        let spawner = spawner.ok_or("the job that asks is unknown")?.group.name.clone();
        let programs = self.find_commands(wish)?;
        let total: u64 = programs.iter().map(|found| u64::from(found.ranks)).sum();
        if total == 0 || total > u64::from(RANKS_MAX) {
            return Err(format!("{total} processes; 1 to {RANKS_MAX} can be started"));
        }
        let id = JobId(self.next_job);
        let Places { placement, nodes } = self.place(wish)?;
        let group = Group {
            id,
            name: self.tree.name_of(id),
            spawner: Some(spawner),
            programs,
            placement,
            nodes,
            preputs: wish.preputs.clone(),
            stdin: StdinTo::Nobody,
            stdin_by: StdinBy::Descriptor,
            unfinished: self.jobs[0].group.unfinished,
        };
        self.next_job += 1;
        self.begin(group, asked_by);
        Ok(())
    }

    fn begin(&mut self, group: Group, asked_by: (NodeId, u32)) {
        self.outcome.begin(group.id, group.ranks());
        if let Some(root) = &mut self.root {
            for frame in describe::frames(group.id, &describe::write_group(&group)) {
                root.send(&frame);
            }
        }
        let (group, asked_by) = (Rc::new(group), Some(asked_by));
        self.jobs.push(Begun { group, nodes_started: 0, asked_by, ties: Ties::Bound });
    }

    /// All ranks of a spawned job have ended.
    pub(super) fn forget(&mut self, job: JobId) {
        self.jobs.retain(|begun| begun.group.id != job);
        self.outcome.forget(job);
        self.forget_ended(job);
        if let Some(root) = &mut self.root {
            root.send(&Frame::Over { job });
        }
    }

    /// A rank of a job has ended. If that job is being spawned, and the rank did not get through MPI before, those hear of
    /// it who wanted the job; else `None`.
    pub(super) fn ended_too_soon(
        &mut self,
        who: &Who,
        ended: Ended,
        pmi: PmiState,
        words: &str,
    ) -> Option<Step> {
        let is_through = pmi == PmiState::Finalized && matches!(ended, Ended::Exit(_));
        if is_through || self.outcome.cause().is_some() {
            return None;
        }
        let program = self.program_of(who.member).map_or_else(String::new, Found::name);
        self.revoke(who.member.job, &too_soon(who, &program, ended, pmi, words))
    }

    /// A rank of a job could not be started, or ended too soon. If that job is being spawned, only those hear of it who wanted it; else `None`.
    pub(super) fn revoke(&mut self, job: JobId, reason: &str) -> Option<Step> {
        let at = self.jobs.iter().position(|begun| begun.group.id == job && begun.asked_by.is_some())?;
        let (node, ask) = self.jobs.remove(at).asked_by?;
        self.answer(node, ask, Answer::NotSpawned(bounded(reason.into())));
        if let Some(root) = &mut self.root {
            root.send(&Frame::Revoke { job });
        }
        Some(self.outcome.forget(job))
    }

    /// What a rank of a spawned job has to do with other jobs.
    pub(super) fn set_ties(&mut self, job: JobId, ties: Ties) {
        let begun = self.jobs.iter_mut().find(|begun| begun.group.id == job && job != JobId(0));
        if let Some(begun) = begun {
            begun.ties = ties;
        }
    }

    /// Can this job end badly without the others?
    pub(super) fn is_spare(&self, job: JobId) -> bool {
        let mut jobs = self.jobs.iter();
        self.outcome.cause().is_none() && jobs.any(|begun| begun.group.id == job && begun.ties != Ties::Bound)
    }

    /// A rank asks for an end, or has to be ended: that of its job, if others can do without it, or of everything. Of a job that
    /// is being spawned those hear who wanted it.
    pub(super) fn fail_of(&mut self, job: JobId, cause: Cause) -> Step {
        if self.outcome.cause().is_none()
            && let Some(step) = self.revoke(job, &cause.to_string())
        {
            return step;
        }
        if self.is_spare(job) { self.end_alone(job, &cause, "") } else { self.outcome.fail(cause) }
    }

    pub(super) fn end_alone(&mut self, job: JobId, cause: &Cause, words: &str) -> Step {
        self.hide_progress();
        let parted = self.jobs.iter().any(|begun| begun.group.id == job && begun.ties == Ties::Parted);
        let others =
            if parted { "which had parted from the others" } else { "and those that talk to it get errors" };
        self.err.say(&format!("{}; ending that job, {others}", cause.told(words)));
        self.jobs.retain(|begun| begun.group.id != job);
        // Those that it was about to spawn will not meet it, and nobody else wants them.
        let name = self.tree.name_of(job);
        let orphans = self.jobs.iter_mut().filter(|begun| begun.group.spawner.as_ref() == Some(&name));
        orphans.filter(|begun| begun.ties == Ties::Bound).for_each(|begun| begun.ties = Ties::Met);
        if let Some(root) = &mut self.root {
            root.send(&Frame::Revoke { job });
        }
        self.outcome.lose(job, cause)
    }

    fn find_commands(&self, wish: &SpawnWish) -> Result<Vec<Found>, String> {
        let at = match self.tree.spread {
            Spread::OneHost => Where::Here,
            Spread::ManyHosts => Where::Elsewhere,
        };
        let find = |command: &SpawnCommand| {
            let section = section_of(command)?;
            find_section(self.spec, &section, at).map_err(|error| error.to_string())
        };
        wish.commands.iter().map(find).collect()
    }

    /// Where the ranks of a spawned job go: those of each program to the hosts that were asked for it, or else evenly to
    /// all, those with the fewest ranks first. Programs in a row for which the same is asked are dealt out together.
    fn place(&self, wish: &SpawnWish) -> Result<Places, String> {
        let mut parts: Vec<Places> = Vec::new();
        for alike in wish.commands.chunk_by(|a, b| hosts_of(a) == hosts_of(b)) {
            let nodes = match hosts_of(&alike[0]) {
                Some(list) => self.nodes_named(&String::from_utf8_lossy(list))?,
                None => self.nodes_by_load(&parts),
            };
            parts.push(self.deal(alike.iter().map(|command| command.processes).sum(), nodes));
        }
        Ok(Places::joined(parts))
    }

    fn deal(&self, ranks: u32, mut nodes: Vec<NodeId>) -> Places {
        let placement = match self.spec.map {
            MapBy::Slot => Placement::new(ranks, nodes.len() as u32),
            MapBy::Node => Placement::cyclic(ranks, nodes.len() as u32),
        };
        nodes.truncate(placement.nodes() as usize);
        Places { placement, nodes }
    }

    /// The nodes, those with the fewest ranks first; the ranks of `more` are not in any job yet.
    fn nodes_by_load(&self, more: &[Places]) -> Vec<NodeId> {
        let mut nodes = self.jobs[0].group.nodes.clone();
        let load = |node: NodeId| -> usize {
            let begun: usize = self.jobs.iter().map(|begun| begun.group.ranks_on(node).len()).sum();
            begun + more.iter().map(|places| places.count(node) as usize).sum::<usize>()
        };
        nodes.sort_by_cached_key(|node| load(*node));
        nodes
    }

    fn nodes_named(&self, list: &str) -> Result<Vec<NodeId>, String> {
        let hosts = parse_hosts(list).map_err(|error| error.to_string())?;
        let mut nodes = Vec::new();
        for host in hosts {
            let node = self.node_named(&host);
            let node = node.ok_or_else(|| format!("host '{host}' is none of this job's"))?;
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        Ok(nodes)
    }
}

/// Where ranks go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Places {
    placement: Placement,
    /// The node of the tree that each node of the placement is.
    nodes: Vec<NodeId>,
}

impl Places {
    /// The ranks on a node of the tree.
    fn count(&self, node: NodeId) -> u32 {
        let at = self.nodes.iter().position(|at| *at == node);
        at.map_or(0, |at| self.placement.count(NodeId(at as u32)))
    }

    /// The ranks of all parts, of which there is one at least, one part behind the other.
    fn joined(mut parts: Vec<Places>) -> Places {
        if parts.len() == 1 {
            return parts.remove(0); // its placement may be shorter than one that lists all ranks
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut of_ranks = Vec::new();
        for Places { placement, nodes: own } in &parts {
            let known = own.iter().map(|node| {
                let at = nodes.iter().position(|known| known == node);
                NodeId(at.unwrap_or_else(|| {
                    nodes.push(*node);
                    nodes.len() - 1
                }) as u32)
            });
            let known: Vec<NodeId> = known.collect();
            of_ranks.extend((0..placement.ranks()).map(|rank| known[placement.node_of(Rank(rank)).index()]));
        }
        let placement = Placement::from_nodes(&of_ranks).expect("every part has ranks");
        Places { placement, nodes }
    }
}

/// Why a job that is being spawned has no use.
fn too_soon(who: &Who, program: &str, ended: Ended, pmi: PmiState, words: &str) -> String {
    let ended = match ended {
        Ended::Exit(code) => format!("exited with code {code}"),
        Ended::Signal(signal) => format!("was killed by signal {signal} ({})", signal_text(signal)),
    };
    let when = match pmi {
        PmiState::Unused => "and never called MPI_Init",
        _ => "before all of its job had called MPI_Init",
    };
    with_last_words(format!("{who}, '{program}', {ended} {when}"), words)
}

fn section_of(command: &SpawnCommand) -> Result<Section, String> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    if command.processes == 0 {
        return Err("a program with no processes".into());
    }
    Ok(Section {
        ranks: command.processes,
        program: text(&command.program),
        args: command.args.iter().map(|arg| text(arg)).collect(),
        folder: info(command, &[b"wdir", b"wd"]).map(|value| text(value).into()),
        search: info(command, &[b"path"]).map(text),
        ..Section::default()
    })
}

/// The hosts that are asked for a program.
fn hosts_of(command: &SpawnCommand) -> Option<&[u8]> {
    info(command, &[b"host", b"hosts"])
}

/// The value of the first hint with one of these names.
fn info<'c>(command: &'c SpawnCommand, names: &[&[u8]]) -> Option<&'c [u8]> {
    let pair = command.infos.iter().find(|pair| names.contains(&pair.key.as_slice()))?;
    Some(&pair.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(placement: Placement, nodes: &[u32]) -> Places {
        Places { placement, nodes: nodes.iter().copied().map(NodeId).collect() }
    }

    #[test]
    fn each_program_keeps_its_own_hosts() {
        let parts = vec![
            places(Placement::new(3, 2), &[7, 2]),
            places(Placement::one_node(1), &[5]),
            places(Placement::cyclic(3, 2), &[2, 0]),
        ];
        let Places { placement, nodes } = Places::joined(parts.clone());
        let of_rank = |rank| nodes[placement.node_of(Rank(rank)).index()].0;
        assert_eq!((0..7).map(of_rank).collect::<Vec<_>>(), [7, 7, 2, 5, 2, 0, 2]);
        let all = Places { placement, nodes };
        assert_eq!([7, 2, 5, 0, 1].map(|node| all.count(NodeId(node))), [2, 3, 1, 1, 0]);
        // As the agents want it: every node once, and none without ranks.
        assert_eq!((all.nodes.len(), all.placement.nodes()), (4, 4));
        assert_eq!(Places::joined(parts[..1].to_vec()), parts[0]);
    }
}
