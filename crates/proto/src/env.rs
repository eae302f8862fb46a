//! The environment: every variable named `BANYAN_*`, who reads it, and what it may be.
//!
//! This is the one list. Nothing here looks at the environment itself: readers pass in what they find. A value that a
//! variable cannot have is a [`BadValue`], which names the variable, its value and what it should be; a name that
//! nobody reads is an [`Unknown`], with the name that was probably meant. A variable that is set to nothing counts as
//! not set.
mod defaults;
mod net;
mod value;

pub use net::{FabricChoice, NetAddress, NetChoice, NetSettings, PortRange};
pub use value::{BadValue, Values, bytes, number, seconds, switch, word};

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What the names of all these variables begin with.
pub const PREFIX: &str = "BANYAN_";
/// What variables of single tests begin with; these are not listed.
pub const TEST_PREFIX: &str = "BANYAN_TEST_";

/// The node's segment.
pub const NODE: &str = "BANYAN_NODE";
/// The placement of ranks.
pub const MAPPING: &str = "BANYAN_MAPPING";
/// The job's board in memory.
pub const BOARD: &str = "BANYAN_BOARD";
/// The address that this node's ranks should use.
pub const NET_ADDRESS: &str = "BANYAN_NET_ADDRESS";
/// The interface or network for traffic between hosts.
pub const NET: &str = "BANYAN_NET";
/// The ports that ranks may listen at.
pub const PORT_RANGE: &str = "BANYAN_PORT_RANGE";
/// How long a host may take to answer.
pub const NET_TIMEOUT: &str = "BANYAN_NET_TIMEOUT";
/// Sockets inside a host too.
pub const FORCE_NET: &str = "BANYAN_FORCE_NET";
/// What carries traffic between hosts.
pub const FABRIC: &str = "BANYAN_FABRIC";
/// Bytes of the program's memory that stay registered with an RDMA device behind transfers.
pub const REG_CACHE: &str = "BANYAN_REG_CACHE";
/// When an RDMA device sends again what is not answered.
pub const RDMA_TIMEOUT: &str = "BANYAN_RDMA_TIMEOUT";
/// Faults of the network to imitate.
pub const NET_FAULTS: &str = "BANYAN_NET_FAULTS";
/// Largest ring of a connection in shared memory.
pub const RING_MAX: &str = "BANYAN_RING_MAX";
/// Most bytes that an RDMA device is asked to transfer at once.
pub const RDMA_PIECE: &str = "BANYAN_RDMA_PIECE";
/// Reading memory of other processes.
pub const CMA: &str = "BANYAN_CMA";
/// What it may be.
pub const COLLS: [&str; 3] = ["auto", "flat", "nodes"];
/// Choice of algorithms for collectives.
pub const COLL: &str = "BANYAN_COLL";
/// In which order operations on windows leave, where the program does not say ([`crate::rma::Policy`]).
pub const RMA: &str = "BANYAN_RMA";
/// Longest message inside a host that is sent without asking, once its connection has grown.
pub const EAGER_MAX: &str = "BANYAN_EAGER_MAX";
/// How long messages inside a host may travel.
pub const LONGS: [&str; 4] = ["auto", "read", "stream", "share"];
/// See [`LONGS`].
pub const LONG: &str = "BANYAN_LONG";
/// Finding mistakes of programs.
pub const CHECK: &str = "BANYAN_CHECK";
/// What that may be.
pub const CHECK_WORDS: &[&str] = &["off", "on", "strict", "0", "1"];
/// Version of PMI to ask for.
pub const PMI_VERSION: &str = "BANYAN_PMI_VERSION";
/// How a process may wait for messages.
pub const WAITS: [&str; 4] = ["auto", "sleep", "poll", "spin-block"];
/// See [`WAITS`].
pub const WAIT: &str = "BANYAN_WAIT";
/// When a waiting process says for whom it waits.
pub const WAIT_WARN: &str = "BANYAN_WAIT_WARN";
/// How long a process waits at a port of another job.
pub const CONNECT_TIMEOUT: &str = "BANYAN_CONNECT_TIMEOUT";
/// When connections are made ([`crate::wireup::Policy`]).
pub const CONNECT: &str = "BANYAN_CONNECT";
/// How many threads make them at the start.
pub const CONNECT_THREADS: &str = "BANYAN_CONNECT_THREADS";
/// Most of them.
pub const CONNECT_THREADS_MOST: u64 = 256;
/// Are connections to other nodes shared by the processes there?
pub const XRC: &str = "BANYAN_XRC";
/// What [`XRC`] may be.
pub const XRCS: [&str; 3] = ["auto", "on", "off"];
/// A device to imitate.
pub const DEVICE: &str = "BANYAN_DEVICE";
/// Queue pairs of a process.
pub const QP_BUDGET: &str = "BANYAN_QP_BUDGET";
/// Memory of a process's connections.
pub const CONN_MEMORY: &str = "BANYAN_CONN_MEMORY";
/// The file of a pattern, for `banyan run` and for ranks that another launcher has started.
pub const PATTERN: &str = "BANYAN_PATTERN";
/// The pattern itself, for ranks that Banyan's launcher has started.
pub const FORECAST: &str = "BANYAN_FORECAST";
/// How many programs the job has, if they are several: each may have been told something else.
pub const PROGRAMS: &str = "BANYAN_PROGRAMS";
/// Queue pairs of a node's device.
pub const QP_MAX: &str = "BANYAN_QP_MAX";

/// Is a data server started on each node?
pub const DATA_SERVER: &str = "BANYAN_DATA_SERVER";
/// The number of the node, where it has a data server.
pub const SERVER: &str = "BANYAN_SERVER";

/// Most queue pairs that a node's device can be given.
pub const QP_MAX_MOST: u64 = 1 << 24;

/// Who reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// Ranks: users may set it, and `banyan run` passes it on.
    Library,
    /// `banyan run`.
    Launcher,
    /// Ranks, which get it from the launcher: one that is inherited means nothing.
    LibraryFromLauncher,
    /// The compiler wrappers.
    Compilers,
    /// Banyan's own tests.
    Tests,
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Who reads it.
    pub read_by: ReadBy,
    /// What it may be.
    pub values: Values,
    /// What it means, in a few words.
    pub meaning: &'static str,
}

/// All of them.
pub const VARIABLES: [Variable; 49] = {
    use ReadBy::{Compilers, Launcher, Library, LibraryFromLauncher, Tests};
    [
        variable(NET, Library, Values::Net, "where traffic between hosts goes (--net)"),
        variable(PORT_RANGE, Library, Values::Ports, "where processes listen (--port-range)"),
        variable(
            NET_TIMEOUT,
            Library,
            Values::Seconds,
            "how long silent hosts are waited for; 0: no limit (--net-timeout)",
        ),
        variable(FABRIC, Library, Values::Fabric, "what carries it (--fabric)"),
        variable(REG_CACHE, Library, Values::Bytes, "memory that stays registered for RDMA (--reg-cache)"),
        variable(
            RDMA_TIMEOUT,
            Library,
            Values::Seconds,
            "until an RDMA device sends again what is not answered (--rdma-timeout)",
        ),
        variable(FORCE_NET, Library, Values::Switch, "sockets inside a host too (--force-net)"),
        variable(
            EAGER_MAX,
            Library,
            Values::Number(0, 64 << 10),
            "longest message inside a host that is sent unasked",
        ),
        variable(LONG, Library, Values::Words(&LONGS), "the way of long messages inside a host"),
        variable(COLL, Library, Values::Words(&COLLS), "algorithms of collectives (--coll)"),
        variable(RMA, Library, Values::Words(&crate::rma::Policy::NAMES), "order in windows (--rma)"),
        variable(CHECK, Library, Values::Words(CHECK_WORDS), "looks for mistakes of the program (--check)"),
        variable(CMA, Library, Values::Switch, "may processes read each other's memory"),
        variable(PMI_VERSION, Library, Values::Words(&["1", "2"]), "version of PMI that is asked for"),
        variable(WAIT, Library, Values::Words(&WAITS), "how it waits for messages (--wait)"),
        variable(WAIT_WARN, Library, Values::Seconds, "until a waiting process says for whom; 0 for never"),
        variable(CONNECT_TIMEOUT, Library, Values::Seconds, "how long MPI_Comm_connect waits; 0: no limit"),
        variable(
            CONNECT,
            Library,
            Values::Words(&crate::wireup::auto::Asked::NAMES),
            "when it connects (--connect)",
        ),
        variable(
            CONNECT_THREADS,
            Library,
            Values::Number(1, CONNECT_THREADS_MOST),
            "threads that make connections at the start (--connect-threads)",
        ),
        variable(XRC, Library, Values::Words(&XRCS), "one connection for all processes of a node (--xrc)"),
        variable(DEVICE, Library, Values::Text, "costs of another device, imitated inside a host (--device)"),
        variable(
            QP_BUDGET,
            Library,
            Values::Number(2, QP_MAX_MOST),
            "connections of a process (--qp-budget)",
        ),
        variable(CONN_MEMORY, Library, Values::Bytes, "memory of its connections' buffers (--conn-memory)"),
        variable(
            PATTERN,
            Library,
            Values::Text,
            "file of --pattern; only read where another launcher starts processes",
        ),
        variable(
            QP_MAX,
            Launcher,
            Values::Number(1, QP_MAX_MOST),
            "queue pairs of a node's device (--qp-max)",
        ),
        variable(DATA_SERVER, Launcher, Values::Switch, "a data server on each node (--data-server)"),
        variable(SERVER, LibraryFromLauncher, Values::Text, "the node's number, where it has a data server"),
        variable(NODE, LibraryFromLauncher, Values::Text, "where the node's segment is"),
        variable(MAPPING, LibraryFromLauncher, Values::Text, "the placement of ranks on nodes"),
        variable(BOARD, LibraryFromLauncher, Values::Text, "where the job's board is in memory"),
        variable(FORECAST, LibraryFromLauncher, Values::Text, "the pattern of connections to make ahead"),
        variable(PROGRAMS, LibraryFromLauncher, Values::Text, "how many programs the job has, if several"),
        variable(NET_ADDRESS, LibraryFromLauncher, Values::Address, "the address for ranks of this node"),
        variable(
            RING_MAX,
            Tests,
            Values::Number(4096, 1 << 20),
            "largest ring of a connection in shared memory",
        ),
        variable(RDMA_PIECE, Tests, Values::Bytes, "most bytes that an RDMA device transfers at once"),
        variable(NET_FAULTS, Tests, Values::Text, "faults of the network that the library imitates"),
        variable("BANYAN_CC", Compilers, Values::Text, "the C compiler"),
        variable("BANYAN_CXX", Compilers, Values::Text, "the C++ compiler"),
        variable("BANYAN_FUZZ", Tests, Values::Text, "inputs of each fuzzer"),
        variable("BANYAN_FUZZ_SEED", Tests, Values::Text, "repeats a run of the fuzzers"),
        variable(
            "BANYAN_SLURM_WAIT",
            Tests,
            Values::Text,
            "seconds in which a Slurm cluster has to be ready",
        ),
        variable("BANYAN_KILLS", Tests, Values::Text, "events of a campaign of kills"),
        variable("BANYAN_KILL_RANKS", Tests, Values::Text, "most ranks of a job in that campaign"),
        variable("BANYAN_KILL_PROGRAM", Tests, Values::Text, "one more program for that campaign"),
        variable("BANYAN_SEED", Tests, Values::Text, "repeats a test that draws by chance"),
        variable("BANYAN_VERBOSE", Tests, Values::Text, "has that campaign tell of each event"),
        variable("BANYAN_HOSTS_INSIDE", Tests, Values::Text, "hosts in namespaces: inside the first one"),
        variable("BANYAN_SLURM_INSIDE", Tests, Values::Text, "Slurm on loopback: inside it"),
        variable("BANYAN_SLURM_ROOT", Tests, Values::Text, "Slurm on loopback: where it is installed"),
    ]
};

const fn variable(name: &'static str, read_by: ReadBy, values: Values, meaning: &'static str) -> Variable {
    Variable { name, read_by, values, meaning }
}

/// The variable of this name.
pub fn find(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

/// Can the variable of this name have this value? What the launcher sets itself is not checked: it is not inherited.
pub fn check(name: &str, value: &str) -> Result<(), BadValue> {
    match find(name) {
        Some(variable) if variable.read_by != ReadBy::LibraryFromLauncher && !value.is_empty() => {
            variable.values.check(variable.name, value)
        }
        _ => Ok(()),
    }
}

/// A name that nobody reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing reads {name}{}", suggestion(.meant))]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// What was probably meant.
    pub meant: Option<&'static str>,
}

fn suggestion(meant: &Option<&'static str>) -> String {
    meant.map_or_else(String::new, |name| [" (did you mean ", name, "?)"].concat())
}

/// Those of these names that begin like ours and that nobody reads.
pub fn unknown<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<Unknown> {
    let is_unknown =
        |name: &&str| name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX) && find(name).is_none();
    let names = names.into_iter().filter(is_unknown);
    names.map(|name| Unknown { name: name.to_string(), meant: nearest(name) }).collect()
}

/// The name that users may set and that is at most this many letters away.
const TYPOS_MAX: usize = 2;

fn nearest(name: &str) -> Option<&'static str> {
    let settable = |variable: &&Variable| matches!(variable.read_by, ReadBy::Library | ReadBy::Launcher);
    let near =
        VARIABLES.iter().filter(settable).map(|variable| (distance(name, variable.name), variable.name));
    near.filter(|(typos, _)| *typos <= TYPOS_MAX).min_by_key(|(typos, _)| *typos).map(|(_, name)| name)
}

/// Letters to insert, remove or change to make one name of the other.
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_once_and_begin_alike() {
        for (at, variable) in VARIABLES.iter().enumerate() {
            assert!(variable.name.starts_with(PREFIX) && !variable.name.starts_with(TEST_PREFIX));
            assert!(VARIABLES[..at].iter().all(|other| other.name != variable.name), "{}", variable.name);
        }
    }

    #[test]
    fn names_that_nobody_reads_are_found() {
        let names = ["PATH", "BANYAN_CMA", "BANYAN_CAM", "BANYAN_TEST_MARK", "BANYAN_COLOUR_OF_LOGS"];
        let found: Vec<String> = unknown(names).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["nothing reads BANYAN_CAM (did you mean BANYAN_CMA?)", "nothing reads BANYAN_COLOUR_OF_LOGS"]
        );
        assert_eq!(unknown(["BANYAN_NET_TIMOUT"])[0].meant, Some(NET_TIMEOUT));
        // Only what users may set is suggested.
        assert_ne!(unknown(["BANYAN_NODES"])[0].meant, Some(NODE));
    }

    #[test]
    fn values_are_checked_by_name() {
        assert_eq!(check("BANYAN_CMA", "on"), Ok(()));
        let error = check("BANYAN_CMA", "maybe").unwrap_err();
        assert_eq!(error.to_string(), "BANYAN_CMA: 'maybe' is not 'on' or 'off'");
        let error = check("BANYAN_QP_MAX", "many").unwrap_err();
        assert_eq!(error.to_string(), "BANYAN_QP_MAX: 'many' is not a number from 1 to 16777216");
        // Set to nothing is not set; what is not inherited, and what is not ours, is not checked.
        assert_eq!(check("BANYAN_CMA", ""), Ok(()));
        assert_eq!(check("BANYAN_NODE", "nonsense"), Ok(()));
        assert_eq!(check("HOME", "maybe"), Ok(()));
    }

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("", "abc"), distance("abc", "abc")), (3, 0));
    }
}
