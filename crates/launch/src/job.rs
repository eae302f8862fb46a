//! What launcher, warden and agents know of the tree and of the jobs in it. On one host it reaches them by fork, on
//! others over authenticated links: nothing secret is ever in an argument list or in the environment of ranks.
use crate::placement::Placement;
use crate::program::{Found, Where, find_programs};
use crate::spec::{Bind, JobSpec, QP_MAX_DEFAULT, StdinTo};
use proto::board::BoardKind;
use proto::ids::{NodeId, Rank};
use proto::lane::JobId;
use proto::tree::{LINKS_MAX, Member, Pair, Shape};
use std::env;
use std::io;
use sys::process;

/// The facts of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Unique in the world.
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) spread: Spread,
    pub(crate) board: BoardKind,
    pub(crate) universe: Option<u32>,
    pub(crate) bind: Bind,
    pub(crate) qp_max: u32,
    /// Longest value of a key that PMI-1 clients are told, with its terminating zero.
    pub(crate) value_max: u32,
    /// Does the launcher want the counters of boards?
    pub(crate) counters: Counters,
    /// What the ranks of one host have in common.
    pub(crate) host: [u64; 2],
    pub(crate) key: [u64; 4],
}

/// Where the nodes of a tree are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All on the launcher's host, and share its cores and memory.
    OneHost,
    /// Each on a host of its own.
    ManyHosts,
}

/// Are counters of boards wanted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    Unwanted,
    Wanted,
}

/// A job of the tree: the one that was started first, or one that was spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) id: JobId,
    /// Also the name of its key-value space.
    pub(crate) name: String,
    /// The name of the job that spawned it.
    pub(crate) spawner: Option<String>,
    pub(crate) programs: Vec<Found>,
    pub(crate) placement: Placement,
    /// The node of the tree that each node of the placement is.
    pub(crate) nodes: Vec<NodeId>,
    /// What its board has from the start.
    pub(crate) preputs: Vec<Pair>,
    pub(crate) stdin: StdinTo,
}

impl Tree {
    /// Fixes the facts for a job.
    pub(crate) fn new(spec: &JobSpec, nodes: u32) -> io::Result<Self> {
        let cores = sys::limit::allowed_cores()?;
        if let Bind::User(wanted) = &spec.bind
            && let Some(core) = wanted.iter().find(|core| !cores.contains(core))
        {
            let text = format!("processor {core} is none of those that may be used here: {cores:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let qp_max = env::var("BANYAN_QP_MAX").ok().and_then(|text| text.parse().ok());
        Ok(Tree {
            name: format!("banyan-{:016x}", random_words::<1>()?[0]),
            shape: Shape::fitting(nodes, cores.len() as u32, spec.links_max.unwrap_or(LINKS_MAX)),
            spread: Spread::OneHost,
            board: spec.board,
            universe: spec.universe,
            bind: spec.bind.clone(),
            qp_max: qp_max.unwrap_or(QP_MAX_DEFAULT),
            value_max: spec.pmi_value_max,
            counters: if spec.board_counters { Counters::Wanted } else { Counters::Unwanted },
            host: random_words()?,
            key: random_words()?,
        })
    }

    /// The core of a rank with a local number, if ranks are bound.
    pub(crate) fn core_of(&self, rank: Rank, slot: u32, cores: &[usize]) -> Option<usize> {
        let cores = match &self.bind {
            Bind::None => return None,
            Bind::Core => cores,
            Bind::User(cores) => cores,
        };
        let index = match self.spread {
            Spread::OneHost => rank.0,
            Spread::ManyHosts => slot,
        };
        (!cores.is_empty()).then(|| cores[index as usize % cores.len()])
    }
}

impl Group {
    /// The job that is started first.
    pub(crate) fn first(spec: &JobSpec, tree: &Tree, programs: Vec<Found>) -> Self {
        let placement = spec.placement();
        Group {
            id: JobId(0),
            name: tree.name.clone(),
            spawner: None,
            programs,
            nodes: (0..placement.nodes()).map(NodeId).collect(),
            placement,
            preputs: Vec::new(),
            stdin: spec.stdin,
        }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.placement.ranks()
    }

    pub(crate) fn member(&self, rank: Rank) -> Member {
        Member { job: self.id, rank }
    }

    /// The node of the tree where a rank is.
    pub(crate) fn node_of(&self, rank: Rank) -> NodeId {
        self.nodes[self.placement.node_of(rank).index()]
    }

    /// The same for all ranks.
    pub(crate) fn places(&self) -> Vec<NodeId> {
        (0..self.ranks()).map(|rank| self.node_of(Rank(rank))).collect()
    }

    /// The ranks on a node of the tree.
    pub(crate) fn ranks_on(&self, node: NodeId) -> Vec<Rank> {
        let here = self.nodes.iter().position(|at| *at == node);
        here.map(|here| self.placement.ranks_of(NodeId(here as u32)).collect()).unwrap_or_default()
    }

    /// The node of the tree whose rank reads standard input.
    pub(crate) fn stdin_node(&self) -> Option<NodeId> {
        match self.stdin {
            StdinTo::Rank(rank) if rank < self.ranks() => Some(self.node_of(Rank(rank))),
            _ => None,
        }
    }

    /// Which program a rank runs.
    pub(crate) fn section_of(&self, rank: Rank) -> usize {
        let mut end = 0;
        let is_behind = |found: &Found| {
            end += found.ranks;
            rank.0 < end
        };
        self.programs.iter().position(is_behind).expect("a rank of the job")
    }
}

/// Tree and first job of what a user asks for.
pub(crate) fn plan(spec: &JobSpec) -> Result<(Tree, Group), PlanError> {
    let programs = find_programs(spec, Where::Here)?;
    let tree = Tree::new(spec, spec.placement().nodes())?;
    let group = Group::first(spec, &tree, programs);
    Ok((tree, group))
}

/// Why nothing can be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Program(#[from] crate::program::ProgramError),
    #[error("the job could not be started: {0}")]
    System(#[from] io::Error),
}

pub(crate) fn random_words<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        process::random(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}
