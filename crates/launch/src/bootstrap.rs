//! How agents of other hosts are started: the commands, and the order that goes to their standard input. Pure.
use crate::job::Tree;
use proto::ids::NodeId;
use proto::seal::Key;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How agents are started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bootstrap {
    /// By fork, on the launcher's host: nodes are emulated.
    #[default]
    Fork,
    /// By a remote shell: these words, the host, and the command.
    Shell(Vec<String>),
    /// By srun, inside an allocation.
    Slurm,
    /// By the user, who reads the job's key from this file.
    Manual(String),
}

/// The remote shell, unless the user names one. It must not ask for a password: nobody could answer.
pub(crate) const SSH: [&str; 5] = ["ssh", "-x", "-T", "-o", "BatchMode=yes"];
/// The option that makes a launcher an agent.
pub(crate) const AGENT_OPTION: &str = "--agent";
/// Longest order.
pub(crate) const ORDER_BYTES_MAX: usize = 1 << 20;
/// The shortest time that an agent takes to reach its parent.
const TIMEOUT_MIN_MS: u32 = 1000;
/// What the last line of an order is.
const END: &str = ".";
/// Where Slurm tells a process the name of its node.
pub(crate) const SLURM_NODE: &str = "SLURMD_NODENAME";

/// One command that starts the agents of some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Starting {
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) words: Vec<String>,
}

/// The commands that start the agents of `children`. None where users do that.
pub(crate) fn commands(tree: &Tree, children: &[NodeId]) -> Vec<Starting> {
    let agent = format!("exec {} {AGENT_OPTION}", quoted(&tree.agent));
    let host = |node: &NodeId| &tree.hosts[node.index()];
    match &tree.bootstrap {
        Bootstrap::Fork | Bootstrap::Manual(_) => Vec::new(),
        Bootstrap::Shell(shell) => {
            let start = |node: &NodeId| {
                let words = shell.iter().cloned().chain([host(node).login(), agent.clone()]).collect();
                Starting { nodes: vec![*node], words }
            };
            children.iter().map(start).collect()
        }
        Bootstrap::Slurm if children.is_empty() => Vec::new(),
        Bootstrap::Slurm => {
            let count = children.len().to_string();
            let list = children.iter().map(|node| host(node).name.as_str()).collect::<Vec<_>>().join(",");
            // The numbers are given, or those of the surrounding step would count.
            let fixed = ["--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit"];
            let mut words: Vec<String> = ["srun", "-N", &count, "-n", &count].map(String::from).into();
            words.extend(fixed.map(String::from));
            words.extend(["--overlap", "--quiet", "-w", &list, &tree.agent, AGENT_OPTION].map(String::from));
            vec![Starting { nodes: children.to_vec(), words }]
        }
    }
}

/// What a user types on a host, where users start agents.
pub(crate) fn manual_command(tree: &Tree, node: NodeId, parents: &[SocketAddr], key_file: &str) -> String {
    let parents = parents.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    let (agent, file) = (quoted(&tree.agent), quoted(key_file));
    format!("{agent} {AGENT_OPTION} --node {node} --connect {parents} --key-file {file}")
}

/// One word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What an agent is told by who starts it: enough to find its parent and to prove itself. All else comes over the
/// link.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) key: Key,
    pub(crate) parents: Vec<SocketAddr>,
    /// Nodes and names of hosts. Where one command starts several agents, each finds itself by its name.
    pub(crate) nodes: Vec<(NodeId, String)>,
    /// How long an agent may take to reach its parent; 0 is for ever.
    pub(crate) timeout_ms: u32,
}

/// A time as an order says it. What is too long for that is as long as can be said, and what is too short is not nothing.
pub(crate) fn order_ms(timeout: Duration) -> u32 {
    let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    if timeout.is_zero() { 0 } else { ms.max(1) }
}

/// Why an order is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("line {0} of the order on standard input makes no sense")]
    Line(usize),
    #[error("the order on standard input has no key, no parent, no node or no end")]
    Incomplete,
    #[error("it comes from version {0} of banyan, this is {version}", version = env!("CARGO_PKG_VERSION"))]
    Version(String),
    #[error("none of the hosts of the order is this one, '{0}'")]
    Elsewhere(String),
}

impl Order {
    pub(crate) fn emit(&self) -> String {
        let mut text = format!("banyan {}\nkey {}\n", env!("CARGO_PKG_VERSION"), self.key.hex());
        for parent in &self.parents {
            let _ = writeln!(text, "parent {parent}");
        }
        for (node, name) in &self.nodes {
            let _ = writeln!(text, "node {node} {name}");
        }
        let _ = writeln!(text, "timeout {}\n{END}", self.timeout_ms);
        text
    }

    /// Is this the last line?
    pub(crate) fn ends_with(line: &str) -> bool {
        line.trim_end() == END
    }

    pub(crate) fn parse(text: &str) -> Result<Self, OrderError> {
        let mut key = None;
        let mut order =
            Order { key: Key::new([0; 32]), parents: Vec::new(), nodes: Vec::new(), timeout_ms: 0 };
        let mut ended = false;
        for (number, line) in (1..).zip(text.lines()) {
            let bad = || OrderError::Line(number);
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "banyan" if rest == env!("CARGO_PKG_VERSION") => {}
                "banyan" => return Err(OrderError::Version(rest.chars().take(32).collect())),
                "key" => key = Some(Key::parse_hex(rest.as_bytes()).map_err(|_| bad())?),
                "parent" => order.parents.push(rest.parse().map_err(|_| bad())?),
                "node" => {
                    let (node, name) = rest.split_once(' ').ok_or_else(bad)?;
                    order.nodes.push((NodeId(node.parse().map_err(|_| bad())?), name.into()));
                }
                "timeout" => order.timeout_ms = rest.parse().map_err(|_| bad())?,
                END => ended = true,
                _ => return Err(bad()),
            }
        }
        order.key = key.filter(|_| ended).ok_or(OrderError::Incomplete)?;
        if order.parents.is_empty() || order.nodes.is_empty() {
            return Err(OrderError::Incomplete);
        }
        Ok(order)
    }

    /// Until when an agent that begins now may look for its parent; `None` is for ever.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let ms = u64::from(self.timeout_ms.max(TIMEOUT_MIN_MS));
        (self.timeout_ms > 0).then(|| now + Duration::from_millis(ms))
    }

    /// Which of the nodes this is, given the name that Slurm has for this host.
    pub(crate) fn own_node(&self, name: Option<&str>) -> Result<(NodeId, String), OrderError> {
        if let [only] = self.nodes.as_slice() {
            return Ok(only.clone());
        }
        let name = name.unwrap_or("without a name");
        let own = self.nodes.iter().find(|(_, host)| host == name);
        own.cloned().ok_or_else(|| OrderError::Elsewhere(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::plan;
    use crate::spec::{HostName, JobSpec};

    fn tree(bootstrap: Bootstrap) -> Tree {
        let (tree, _) = plan(&JobSpec { nodes: 4, ..JobSpec::new("sh", Vec::new(), 4) }).unwrap();
        let hosts = ["", "n1", "n2", "n3"].map(HostName::from).into();
        Tree { bootstrap, hosts, agent: "/opt/my banyan".into(), ..tree }
    }

    fn words(bootstrap: Bootstrap) -> Vec<String> {
        commands(&tree(bootstrap), &[NodeId(1), NodeId(3)])
            .iter()
            .map(|start| start.words.join(" "))
            .collect()
    }

    #[test]
    fn a_shell_starts_one_agent_and_slurm_all() {
        let shell = Bootstrap::Shell(vec!["rsh".into(), "-q".into()]);
        let expected = ["n1", "n3"].map(|host| format!("rsh -q {host} exec '/opt/my banyan' --agent"));
        assert_eq!(words(shell), expected);
        let mut other = tree(Bootstrap::Shell(vec!["rsh".into()]));
        other.hosts[3].user = Some("me".into());
        let [start] = commands(&other, &[NodeId(3)]).try_into().unwrap();
        assert_eq!(start.words[..2], ["rsh", "me@n3"]);
        let [srun] = words(Bootstrap::Slurm).try_into().unwrap();
        assert!(
            srun.starts_with("srun -N 2 -n 2 ") && srun.ends_with("-w n1,n3 /opt/my banyan --agent"),
            "{srun}"
        );
        assert_eq!(words(Bootstrap::Manual("k".into())), [""; 0]);
    }

    #[test]
    fn a_user_is_told_what_to_type() {
        let tree = tree(Bootstrap::Manual("k".into()));
        let parents = ["10.0.0.1:7".parse().unwrap(), "[::1]:8".parse().unwrap()];
        let text = manual_command(&tree, NodeId(2), &parents, "it's.key");
        let expected =
            r"'/opt/my banyan' --agent --node 2 --connect 10.0.0.1:7,[::1]:8 --key-file 'it'\''s.key'";
        assert_eq!(text, expected);
    }

    fn order() -> Order {
        Order {
            key: Key::new([7; 32]),
            parents: vec!["10.0.0.1:7".parse().unwrap(), "[fe80::1]:8".parse().unwrap()],
            nodes: vec![(NodeId(1), "n1".into()), (NodeId(3), "n3".into())],
            timeout_ms: 30_000,
        }
    }

    #[test]
    fn an_order_is_parsed_as_it_was_emitted_and_never_in_part() {
        let text = order().emit();
        assert_eq!(Order::parse(&text).unwrap().emit(), text);
        for (at, _) in text.char_indices().take(text.len() - 2) {
            assert!(Order::parse(&text[..at]).is_err(), "{}", &text[..at]);
        }
        assert_eq!(Order::parse("banyan 9.9\n").unwrap_err(), OrderError::Version("9.9".into()));
        assert_eq!(Order::parse("what\n").unwrap_err(), OrderError::Line(1));
    }

    #[test]
    fn an_order_without_a_time_has_no_deadline() {
        let now = Instant::now();
        let left = |seconds| {
            let order = Order { timeout_ms: order_ms(Duration::from_secs(seconds)), ..order() };
            let read = Order::parse(&order.emit()).unwrap();
            read.deadline(now).map(|deadline| deadline - now)
        };
        assert_eq!(left(0), None);
        assert_eq!(left(1), Some(Duration::from_secs(1)));
        assert_eq!(left(30), Some(Duration::from_secs(30)));
        let most = Duration::from_millis(u64::from(u32::MAX));
        assert_eq!(left(u64::from(u32::MAX)), Some(most), "it does not begin anew at 0");
        let short = Order { timeout_ms: order_ms(Duration::from_nanos(1)), ..order() };
        assert_eq!(short.deadline(now), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn an_agent_finds_itself_by_name_if_it_has_to() {
        assert_eq!(order().own_node(Some("n3")).unwrap(), (NodeId(3), "n3".into()));
        assert_eq!(order().own_node(Some("n9")), Err(OrderError::Elsewhere("n9".into())));
        assert!(order().own_node(None).is_err());
        let one = Order { nodes: vec![(NodeId(2), "n2".into())], ..order() };
        assert_eq!(one.own_node(None).unwrap().0, NodeId(2));
    }
}
