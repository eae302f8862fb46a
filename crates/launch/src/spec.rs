//! What a job is: programs, how many ranks of each, and where they live.
use crate::bootstrap::Bootstrap;
use crate::pattern::Pattern;
use proto::board::BoardKind;
use proto::env::{self, FabricChoice, NetChoice, PortRange};
use proto::placement::Placement;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Most ranks of a job.
pub const RANKS_MAX: u32 = 1 << 16;
/// Queue pairs of a node's device unless `BANYAN_QP_MAX` says otherwise (a ConnectX-6 has as many).
pub const QP_MAX_DEFAULT: u32 = 131_072;
/// The longest value of a key that PMI-1 clients are told. Some of them have fixed buffers of this size.
pub const PMI_VALUE_MAX_DEFAULT: u32 = 1024;
/// How long agents of other hosts may take to come.
pub const START_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Silence of an agent after which it counts as dead.
pub const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(20);
/// How long ranks may take over a polite request to end.
pub const KILL_GRACE_DEFAULT: Duration = Duration::from_millis(200);

/// One program of a job.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Ranks that run it.
    pub ranks: u32,
    /// The program: a path, or a name searched in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables for these ranks only.
    pub env: Vec<(OsString, OsString)>,
    /// What these ranks inherit, if it is not what the job says.
    pub inherit: Option<Inherit>,
    /// Working folder of these ranks, if it is not the job's.
    pub folder: Option<PathBuf>,
    /// Folders (separated by colons) where the program is searched first, if not the job's.
    pub search: Option<OsString>,
}

/// Which variables of the launcher's environment reach ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// All but those that would mislead them.
    #[default]
    All,
    /// None.
    Nothing,
    /// Only these.
    Listed(Vec<OsString>),
}

/// Who reads the launcher's standard input. All others read an empty file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinTo {
    /// This rank.
    Rank(u32),
    /// Every rank, from where it stands: it must be a file.
    All,
    /// Nobody.
    Nobody,
}

/// Does the launcher say what it does?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Talk {
    /// Only what went wrong.
    #[default]
    Quiet,
    /// What is started where.
    Verbose,
}

/// In which order ranks are dealt to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapBy {
    /// Consecutive ranks share a node.
    #[default]
    Slot,
    /// Consecutive ranks are on different nodes, which take turns.
    Node,
}

/// Which processors a rank may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// Any.
    #[default]
    None,
    /// One logical processor each, in turn.
    Core,
    /// These logical processors, in turn.
    User(Vec<usize>),
    /// So many logical processors each, in turn.
    Several(u32),
    /// All those of a socket each, in turn.
    Package,
    /// All those near a memory each, in turn.
    Memory,
}

/// A host, and as whom it is entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// The host's name or address.
    pub name: String,
    /// The user, if it is another one than here.
    pub user: Option<String>,
}

impl HostName {
    /// What remote shells take: `user@host`, or the host alone.
    pub fn login(&self) -> String {
        self.user.as_ref().map_or_else(|| self.name.clone(), |user| format!("{user}@{}", self.name))
    }
}

impl From<&str> for HostName {
    fn from(name: &str) -> Self {
        HostName { name: name.into(), user: None }
    }
}

/// What ranks are told about traffic between hosts. What is not given here may come from their environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetOptions {
    /// The interface or network to use.
    pub choice: Option<NetChoice>,
    /// What carries it.
    pub fabric: Option<FabricChoice>,
    /// The ports to listen at.
    pub ports: Option<PortRange>,
    /// How long a host may take to answer; no time is for ever.
    pub timeout: Option<Duration>,
    /// Do ranks of one host talk over sockets too?
    pub force: bool,
}

impl NetOptions {
    /// The variables that say so to ranks.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let seconds = self.timeout.map(|timeout| timeout.as_secs_f64().to_string());
        let values = [
            (env::NET, self.choice.as_ref().map(NetChoice::to_string)),
            (env::FABRIC, self.fabric.as_ref().map(FabricChoice::to_string)),
            (env::PORT_RANGE, self.ports.as_ref().map(PortRange::to_string)),
            (env::NET_TIMEOUT, seconds),
            (env::FORCE_NET, self.force.then(|| "on".into())),
        ];
        values.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))).collect()
    }
}

/// What happens to the output of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// It goes to this process's standard output and error.
    #[default]
    Inherit,
    /// It is kept for [`crate::JobReport`], up to a bound.
    Capture,
}

/// Is each line marked with its rank?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// No.
    #[default]
    None,
    /// `[3] ` before every line of rank 3.
    Rank,
    /// A text of the user's before every line.
    Pattern(Pattern),
}

/// A job.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Its programs; ranks are numbered through in this order.
    pub sections: Vec<Section>,
    /// Nodes to emulate; no more than there are ranks are used.
    pub nodes: u32,
    /// Ranks per node, node by node; if there are any, they say how many nodes there are.
    pub slots: Vec<u32>,
    /// In which order ranks are dealt to nodes; round robin does not look at slots.
    pub map: MapBy,
    /// Binding of ranks to cores.
    pub bind: Bind,
    /// Variables for all ranks.
    pub env: Vec<(OsString, OsString)>,
    /// Which variables ranks inherit.
    pub inherit: Inherit,
    /// Working folder of ranks.
    pub folder: Option<PathBuf>,
    /// Folders (separated by colons) where programs are searched first.
    pub search: Option<OsString>,
    /// The hosts, where nodes are hosts; there are as many [`JobSpec::slots`].
    pub hosts: Vec<HostName>,
    /// How agents are started.
    pub bootstrap: Bootstrap,
    /// Where this program is on other hosts, if not where it is here.
    pub agent: Option<String>,
    /// How long agents of other hosts may take to come; no time is for ever.
    pub start_timeout: Duration,
    /// Silence of an agent after which it counts as dead; no time is never.
    pub heartbeat: Duration,
    /// Children of an agent in the tree, if that is not to follow from nodes and cores.
    pub degree: Option<u32>,
    /// Most links of an agent to others, if it is not the usual number.
    pub links_max: Option<u32>,
    /// How keys that ranks put travel, and where gets find them.
    pub board: BoardKind,
    /// Are the counters of boards wanted in the report?
    pub board_counters: bool,
    /// Is wanted in the report which ranks were connected?
    pub matrix: bool,
    /// Where the report is written as a page for a browser.
    pub report: Option<PathBuf>,
    /// Where it is kept who talks to whom, for the next job.
    pub pattern: Option<PathBuf>,
    /// The longest value that PMI-1 clients may put, with its terminating zero.
    pub pmi_value_max: u32,
    /// Queue pairs of a node's device, if the user says so.
    pub qp_max: Option<u32>,
    /// Does each node get a data server, for windows?
    pub data_server: bool,
    /// Are the ranks served PMGR, MVAPICH's old protocol, besides PMI?
    pub pmgr: bool,
    /// What ranks are told about traffic between hosts.
    pub net: NetOptions,
    /// The universe size that ranks are told.
    pub universe: Option<u32>,
    /// Who reads standard input.
    pub stdin: StdinTo,
    /// Marks on lines of output.
    pub label: Label,
    /// Where output goes.
    pub output: Output,
    /// Files for standard output of ranks, instead.
    pub out_files: Option<Pattern>,
    /// Files for standard error of ranks, instead.
    pub err_files: Option<Pattern>,
    /// What the launcher says.
    pub talk: Talk,
    /// Does it say on which processors each rank may run?
    pub report_bindings: bool,
    /// Does it say at the end how each rank ended?
    pub exit_codes: bool,
    /// Time between a polite request to end and SIGKILL, and for others to end by themselves when one has ended with a code
    /// after MPI_Finalize, or without it.
    pub kill_grace: Duration,
    /// How long the job may take.
    pub timeout: Option<Duration>,
}

impl JobSpec {
    /// `ranks` of one program on one node, everything else at its default.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, ranks: u32) -> Self {
        JobSpec {
            sections: vec![Section { ranks, program: program.into(), args, ..Section::default() }],
            nodes: 1,
            slots: Vec::new(),
            map: MapBy::Slot,
            bind: Bind::None,
            env: Vec::new(),
            inherit: Inherit::All,
            folder: None,
            search: None,
            hosts: Vec::new(),
            bootstrap: Bootstrap::Fork,
            agent: None,
            start_timeout: START_TIMEOUT_DEFAULT,
            heartbeat: HEARTBEAT_DEFAULT,
            degree: None,
            links_max: None,
            board: BoardKind::default(),
            board_counters: false,
            matrix: false,
            report: None,
            pattern: None,
            pmi_value_max: PMI_VALUE_MAX_DEFAULT,
            qp_max: None,
            data_server: false,
            pmgr: false,
            net: NetOptions::default(),
            universe: None,
            stdin: StdinTo::Rank(0),
            label: Label::None,
            output: Output::Inherit,
            out_files: None,
            err_files: None,
            talk: Talk::Quiet,
            report_bindings: false,
            exit_codes: false,
            kill_grace: KILL_GRACE_DEFAULT,
            timeout: None,
        }
    }

    /// Ranks of all sections.
    pub fn ranks(&self) -> u32 {
        self.sections.iter().map(|section| section.ranks).sum()
    }

    /// Where ranks live.
    pub fn placement(&self) -> Placement {
        let nodes = if self.slots.is_empty() { self.nodes } else { self.slots.len() as u32 };
        match self.map {
            MapBy::Node if self.slots.is_empty() => Placement::cyclic(self.ranks(), nodes),
            MapBy::Node => Placement::dealt(self.ranks(), &self.slots),
            MapBy::Slot if self.slots.is_empty() => Placement::new(self.ranks(), nodes),
            MapBy::Slot => Placement::slots(self.ranks(), &self.slots),
        }
    }
}
