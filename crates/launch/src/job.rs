//! What launcher, warden and agents know of the tree and of the jobs in it. On one host it reaches them by fork, on
//! others over authenticated links: nothing secret is ever in an argument list or in the environment of ranks.
use crate::bootstrap::Bootstrap;
use crate::program::{Found, Where, find_programs};
use crate::spec::{Bind, HostName, JobSpec, QP_MAX_DEFAULT, StdinTo, Talk};
use crate::unfinished::Unfinished;
use proto::board::BoardKind;
use proto::ids::{NodeId, Rank};
use proto::lane::JobId;
use proto::placement::Placement;
use proto::tree::{LINKS_MAX, Member, Pair, Shape};
use std::env;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;
use sys::process;
use sys::topology::{self, Common};

/// Where ranks find the names of hosts, by node of the placement: for what they have to say about a peer.
const KEY_OF_HOSTS: &str = "banyan-hosts";
/// Names that are longer together are not told.
const HOSTS_BYTES_MAX: usize = 1000;

/// The facts of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Unique in the world.
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) spread: Spread,
    /// The hosts, by node of the tree; none where nodes are emulated.
    pub(crate) hosts: Vec<HostName>,
    pub(crate) bootstrap: Bootstrap,
    /// Where this program is on other hosts.
    pub(crate) agent: String,
    /// How long agents may take to come; no time is for ever.
    pub(crate) start_timeout: Duration,
    /// Silence of an agent after which it counts as dead; no time is never.
    pub(crate) heartbeat: Duration,
    pub(crate) board: BoardKind,
    pub(crate) universe: Option<u32>,
    pub(crate) bind: Bind,
    pub(crate) qp_max: u32,
    /// Does each node have a data server for each job?
    pub(crate) data_server: bool,
    /// Longest value of a key that PMI-1 clients are told, with its terminating zero.
    pub(crate) value_max: u32,
    /// Does the launcher want the counters of boards?
    pub(crate) counters: Counters,
    /// And to know which ranks were connected?
    pub(crate) matrix: Counters,
    /// And which processors each rank may use?
    pub(crate) bindings: Counters,
    /// And with whom each had to do first?
    pub(crate) contacts: Counters,
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

/// Is something to be counted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    Unwanted,
    Wanted,
}

impl Counters {
    fn wanted_if(asked: bool) -> Self {
        if asked { Counters::Wanted } else { Counters::Unwanted }
    }
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
    pub(crate) stdin_by: StdinBy,
    /// Whose unfinished lines are shown, on standard output and on standard error.
    pub(crate) unfinished: [Unfinished; 2],
}

/// How standard input gets to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdinBy {
    /// They inherit it.
    Descriptor,
    /// The launcher reads it and sends it over the tree.
    Frames,
}

impl Tree {
    /// Fixes the facts for a job.
    pub(crate) fn new(spec: &JobSpec, sites: &Sites) -> io::Result<Self> {
        let nodes = sites.nodes;
        let cores = sys::limit::allowed_cores()?;
        if let Bind::User(wanted) = &spec.bind
            && sites.hosts.is_empty()
            && let Some(core) = wanted.iter().find(|core| !cores.contains(core))
        {
            let text = format!("processor {core} is none of those that may be used here: {cores:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let qp_max = spec.qp_max.map_or_else(|| qp_max(env::var(proto::env::QP_MAX).ok()), Ok)?;
        Ok(Tree {
            name: format!("banyan-{:016x}", random_words::<1>()?[0]),
            shape: shape(spec, nodes, cores.len() as u32)?,
            spread: if sites.hosts.is_empty() { Spread::OneHost } else { Spread::ManyHosts },
            hosts: sites.hosts.clone(),
            bootstrap: spec.bootstrap.clone(),
            agent: agent_path(spec)?,
            start_timeout: spec.start_timeout,
            heartbeat: spec.heartbeat,
            board: spec.board,
            universe: spec.universe,
            bind: spec.bind.clone(),
            qp_max,
            data_server: spec.data_server || data_server(env::var(proto::env::DATA_SERVER).ok())?,
            value_max: spec.pmi_value_max,
            counters: Counters::wanted_if(spec.board_counters),
            matrix: Counters::wanted_if(spec.matrix),
            bindings: Counters::wanted_if(spec.report_bindings || spec.talk == Talk::Verbose),
            contacts: Counters::wanted_if(spec.pattern.is_some()),
            host: random_words()?,
            key: random_words()?,
        })
    }

    /// The name of a job of the tree, and of its key-value space.
    pub(crate) fn name_of(&self, job: JobId) -> String {
        if job == JobId(0) { self.name.clone() } else { format!("{}-{}", self.name, job.0) }
    }

    /// The name of a node's host, where nodes are hosts.
    pub(crate) fn host_of(&self, node: NodeId) -> Option<&str> {
        self.hosts.get(node.index()).map(|host| host.name.as_str())
    }

    /// What ranks are bound to in turn on a host that has these processors. Nothing if they are not bound.
    pub(crate) fn binding(&self, cores: &[usize]) -> Binding {
        Binding(match &self.bind {
            Bind::None => Vec::new(),
            Bind::Core => cores.iter().map(|core| vec![*core]).collect(),
            Bind::User(cores) => cores.iter().map(|core| vec![*core]).collect(),
            // What is left over at the end is too little for one more.
            Bind::Several(count) if cores.len() >= *count as usize => {
                cores.chunks_exact(*count as usize).map(<[usize]>::to_vec).collect()
            }
            Bind::Several(_) => vec![cores.to_vec()],
            Bind::Package => topology::groups(cores, Common::Package),
            Bind::Memory => topology::groups(cores, Common::Memory),
        })
    }

    /// Whose turn is it, when a rank with a local number is bound?
    pub(crate) fn turn(&self, rank: Rank, slot: u32) -> u32 {
        match self.spread {
            Spread::OneHost => rank.0,
            Spread::ManyHosts => slot,
        }
    }
}

/// Groups of processors that ranks are bound to in turn.
#[derive(Clone, Debug)]
pub(crate) struct Binding(Vec<Vec<usize>>);

impl Binding {
    /// The processors for a turn; none if nobody is bound.
    pub(crate) fn at(&self, turn: u32) -> &[usize] {
        match self.0.len() {
            0 => &[],
            groups => &self.0[turn as usize % groups],
        }
    }
}

impl Group {
    /// The job that is started first.
    pub(crate) fn first(spec: &JobSpec, tree: &Tree, sites: &Sites, programs: Vec<Found>) -> Self {
        let placement = spec.placement();
        let hosts = sites.of_placement.iter().filter_map(|node| tree.host_of(*node));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let preputs = if (1..HOSTS_BYTES_MAX).contains(&hosts.len()) {
            vec![Pair { key: KEY_OF_HOSTS.into(), value: hosts.into_bytes() }]
        } else {
            Vec::new()
        };
        Group {
            id: JobId(0),
            name: tree.name.clone(),
            spawner: None,
            programs,
            nodes: sites.of_placement.clone(),
            placement,
            preputs,
            stdin: spec.stdin,
            stdin_by: StdinBy::Descriptor,
            unfinished: [Unfinished::Kept; 2],
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

    /// Is standard input for this rank?
    pub(crate) fn reads_stdin(&self, rank: Rank) -> bool {
        match self.stdin {
            StdinTo::Rank(reader) => reader == rank.0,
            StdinTo::All => true,
            StdinTo::Nobody => false,
        }
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

/// Which nodes the tree has, and which of them the nodes of a placement are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sites {
    nodes: u32,
    of_placement: Vec<NodeId>,
    /// The hosts, by node; none where nodes are emulated.
    hosts: Vec<HostName>,
}

impl Sites {
    /// Where nodes are hosts, the root of the tree is the launcher's own host, whether it has ranks or not: it is
    /// the one host where a process can be started without asking anybody.
    pub(crate) fn new(spec: &JobSpec) -> Self {
        let used = spec.placement().nodes();
        if spec.bootstrap == Bootstrap::Fork {
            return Sites { nodes: used, of_placement: (0..used).map(NodeId).collect(), hosts: Vec::new() };
        }
        let all = &spec.hosts[..used as usize];
        let may_be_here = matches!(spec.bootstrap, Bootstrap::Shell(_));
        let here = all.iter().position(|host| may_be_here && is_here(host));
        let mut hosts = vec![here.map_or_else(|| "localhost".into(), |at| all[at].clone())];
        let mut of_placement = Vec::new();
        for (at, host) in all.iter().enumerate() {
            if here == Some(at) {
                of_placement.push(NodeId(0));
            } else {
                of_placement.push(NodeId(hosts.len() as u32));
                hosts.push(host.clone());
            }
        }
        Sites { nodes: hosts.len() as u32, of_placement, hosts }
    }
}

fn shape(spec: &JobSpec, nodes: u32, cores: u32) -> io::Result<Shape> {
    let links_max = spec.links_max.unwrap_or(LINKS_MAX);
    if let Bootstrap::Manual(_) = spec.bootstrap {
        // Users start agents in any order, so all of them call the launcher's host.
        if nodes > links_max.saturating_add(1) {
            let text =
                format!("{} hosts are more than the {links_max} that can be started by hand", nodes - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        return Ok(Shape::new(nodes, nodes));
    }
    let fitting = Shape::fitting(nodes, cores, links_max);
    Ok(spec.degree.map_or(fitting, |degree| Shape::new(nodes, degree)))
}

/// The limit of a node's device, as the environment says.
fn qp_max(value: Option<String>) -> io::Result<u32> {
    let Some(text) = value.filter(|text| !text.is_empty()) else { return Ok(QP_MAX_DEFAULT) };
    let number = proto::env::number(proto::env::QP_MAX, &text, 1..=proto::env::QP_MAX_MOST);
    let number = number.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(u32::try_from(number).expect("within its range"))
}

/// Does the environment want data servers?
fn data_server(value: Option<String>) -> io::Result<bool> {
    let Some(text) = value.filter(|text| !text.is_empty()) else { return Ok(false) };
    let wanted = proto::env::switch(proto::env::DATA_SERVER, &text);
    wanted.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn agent_path(spec: &JobSpec) -> io::Result<String> {
    let own = || env::current_exe().map(|path| path.to_string_lossy().into_owned());
    spec.agent.clone().map_or_else(own, Ok)
}

/// Does this process run on that host, as the user who is wanted there?
pub(crate) fn is_here(host: &HostName) -> bool {
    host.user.is_none() && is_this_host(&host.name)
}

/// Is this a name or an address of the host that this process runs on?
pub(crate) fn is_this_host(name: &str) -> bool {
    if name == "localhost" {
        return true;
    }
    match name.parse::<IpAddr>() {
        // Only an address of one's own can be bound.
        Ok(address) => address.is_loopback() || UdpSocket::bind((address, 0)).is_ok(),
        Err(_) => process::host_name().is_ok_and(|own| own == name),
    }
}

/// Tree and first job of what a user asks for.
pub(crate) fn plan(spec: &JobSpec) -> Result<(Tree, Group), PlanError> {
    let at = if spec.bootstrap == Bootstrap::Fork { Where::Here } else { Where::Elsewhere };
    let programs = find_programs(spec, at)?;
    let sites = Sites::new(spec);
    let tree = Tree::new(spec, &sites)?;
    let group = Group::first(spec, &tree, &sites, programs);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_host_is_the_root_whether_it_has_ranks_or_not() {
        let spec = |hosts: &[&str]| JobSpec {
            bootstrap: Bootstrap::Shell(vec!["rsh".into()]),
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            slots: vec![1; hosts.len()],
            ..JobSpec::new("sh", Vec::new(), hosts.len() as u32)
        };
        let sites = Sites::new(&spec(&["n1", "localhost", "n2"]));
        assert_eq!(sites.hosts, ["localhost", "n1", "n2"].map(HostName::from));
        assert_eq!(sites.of_placement, [1, 0, 2].map(NodeId));
        let sites = Sites::new(&spec(&["n1", "n2"]));
        assert_eq!((sites.hosts.len(), sites.of_placement), (3, vec![NodeId(1), NodeId(2)]));
        // Somebody else on this host is reached like any other host.
        let mut other = spec(&["localhost"]);
        other.hosts[0].user = Some("somebody".into());
        assert_eq!(Sites::new(&other).of_placement, [NodeId(1)]);
        let sites = Sites::new(&JobSpec { bootstrap: Bootstrap::Slurm, ..spec(&["localhost"]) });
        assert_eq!(sites.of_placement, [NodeId(1)]);
    }

    #[test]
    fn a_limit_of_queue_pairs_that_is_no_number_is_refused() {
        let limit = |text: &str| qp_max(Some(text.into()));
        assert_eq!((qp_max(None).unwrap(), limit("").unwrap()), (QP_MAX_DEFAULT, QP_MAX_DEFAULT));
        assert_eq!(limit("64").unwrap(), 64);
        assert_eq!(
            limit("64k").unwrap_err().to_string(),
            "BANYAN_QP_MAX: '64k' is not a number from 1 to 16777216"
        );
    }

    #[test]
    fn this_host_is_known_by_its_names() {
        assert!(is_this_host("localhost") && is_this_host("127.3.2.1") && is_this_host("::1"));
        assert!(is_this_host(&process::host_name().unwrap()));
        assert!(!is_this_host("no-such-host-anywhere") && !is_this_host("192.0.2.1"));
    }
}
