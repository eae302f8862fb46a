//! Where peers are, and where this process is for them: cards on the board, addresses, the job's key.
use crate::api::Cause;
use crate::endpoint::Endpoint;
use crate::pmi::PmiError;
use fabric::{Card, Context, rdma, sockets};
use proto::env::{FabricChoice, NetChoice, NetSettings};
use proto::ids::{NodeId, Peer};
use proto::wireup;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use sys::Locator;
use sys::net::Interface;

/// Where the job's key is on the board of a foreign launcher.
pub(crate) const KEY_OF_JOB: &str = "banyan-key";
/// Where the launcher puts the names of hosts, by node.
const KEY_OF_HOSTS: &str = "banyan-hosts";
/// Longer than any job.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Pieces of one card at most.
const PIECES_MAX: usize = 8;

/// Why this process has no way to other hosts.
#[derive(Debug, thiserror::Error)]
pub enum ReachSetupError {
    /// The interfaces of this host cannot be listed.
    #[error("cannot list the network interfaces: {0}")]
    Interfaces(io::Error),
    /// None is what the user wants.
    #[error("no interface of this host is {choice} (--net); there are: {there_are}")]
    NoSuchInterface {
        /// What was wanted.
        choice: NetChoice,
        /// What there is.
        there_are: String,
    },
    /// There is none, not even loopback.
    #[error("this host has no network address")]
    NoAddress,
    /// The address cannot be used.
    #[error(transparent)]
    Open(#[from] sockets::OpenError),
    /// There is no RDMA device as it is wanted.
    #[error("{0} (--fabric)")]
    Device(#[from] rdma::OpenError),
    /// Shared memory is all that the user wants, and it is not enough.
    #[error(
        "the job is on several hosts, or is to leave shared memory alone (--force-net): --fabric soft cannot be"
    )]
    SoftOnly,
    /// No key could be made.
    #[error("cannot make a key for the job: {0}")]
    Key(io::Error),
    /// The board has no key, or something else in its place.
    #[error("rank 0 has put no key for the job on the board")]
    NoKey,
}

/// The name of a process's card on the board, or of one more piece of it.
pub(crate) fn card_key(of: Peer, piece: usize) -> String {
    let name = match of {
        Peer::Rank { rank, .. } => format!("card-{rank}"),
        Peer::Server { node, .. } => format!("card-server-{node}"),
    };
    if piece == 0 { name } else { format!("{name}-{piece}") }
}

impl Endpoint {
    /// The card of a peer; `None` while not all have put theirs.
    pub(crate) fn card_of(&mut self, peer: Peer) -> Result<Option<Card>, Cause> {
        if peer.job() != self.job.id {
            return self.job.met.get(&peer).copied().map(Some).ok_or(Cause::NoCard);
        }
        #[cfg(test)]
        if let Some(card) = peer.rank().and_then(|rank| self.job.cards.get(rank.index())) {
            return Ok(Some(*card));
        }
        if let Some(card) = self.pieces(peer, Self::card_here)? {
            return Ok(Some(card));
        }
        if !self.fence_is_over() {
            return Ok(None);
        }
        let here = self.pieces(peer, Self::card_here)?;
        match here {
            Some(card) => Ok(Some(card)),
            None => self.pieces(peer, Self::card_asked)?.map(Some).ok_or(Cause::NoCard),
        }
    }

    /// A card from its pieces, if the first one is there.
    fn pieces(
        &mut self,
        of: Peer,
        get: fn(&mut Self, &str) -> Result<Option<String>, Cause>,
    ) -> Result<Option<Card>, Cause> {
        let Some(mut text) = get(self, &card_key(of, 0))? else { return Ok(None) };
        for piece in 1..PIECES_MAX {
            match text.parse::<Card>() {
                Ok(card) => return Ok(Some(card)),
                // Too short for what it says it holds.
                Err(fabric::CardError::Length(_)) => match get(self, &card_key(of, piece))? {
                    Some(more) => text += &more,
                    None => break,
                },
                Err(error) => return Err(error.into()),
            }
        }
        text.parse().map(Some).map_err(Cause::from)
    }

    fn card_here(&mut self, key: &str) -> Result<Option<String>, Cause> {
        let found = self.job.pmi.as_mut().ok_or(Cause::Alone)?.get_here(key);
        self.counters.cards_here += u64::from(found.is_some());
        Ok(found)
    }

    fn card_asked(&mut self, key: &str) -> Result<Option<String>, Cause> {
        self.counters.cards_asked += 1;
        let pmi = self.job.pmi.as_mut().ok_or(Cause::Alone)?;
        pmi.get(key).map_err(|error| Cause::Pmi(Arc::new(error)))
    }

    /// Opens sockets if they are not: peers are told about them, and strangers kept out.
    pub(crate) fn open_sockets(&mut self) -> Result<(), Cause> {
        if self.context.has_sockets() {
            return Ok(());
        }
        self.job.ways.to_open().and_then(|how| Ok(self.context.open_sockets(&how)?))?;
        if let Ok(card) = wireup::Card::new(&self.context.card().to_bytes()) {
            self.wireup.set_card(card);
        }
        if let Some(pmi) = self.job.pmi.as_mut().filter(|_| self.job.ways.agent.is_none()) {
            self.context.set_key(parse_key(pmi.get(KEY_OF_JOB)?)?);
        }
        Ok(())
    }

    /// The name of a node's host, where the launcher says it.
    pub(crate) fn host_of(&mut self, node: NodeId) -> Option<Arc<str>> {
        if self.job.hosts.is_none() {
            if !self.fence_is_over() {
                return None;
            }
            let listed = self.job.pmi.as_mut().and_then(|pmi| pmi.get(KEY_OF_HOSTS).ok()?);
            let names = listed.map(|text| text.split(',').map(String::from).collect());
            self.job.hosts = Some(names.unwrap_or_default());
        }
        let hosts = self.job.hosts.as_ref()?;
        hosts.get(node.index()).map(|name| name.as_str().into())
    }

    /// The name of a node's host, if it was asked for.
    pub(crate) fn host_known(&self, node: NodeId) -> Option<&str> {
        self.job.hosts.as_ref()?.get(node.index()).map(String::as_str)
    }

    /// Where a peer is, for people.
    pub(crate) fn place_of(&self, peer: Peer) -> String {
        let node = self.node_of_peer(peer);
        match self.host_known(node) {
            Some(host) => format!("node {node} (host {host})"),
            None => format!("node {node}"),
        }
    }
}

/// What decides how this process opens sockets. Nothing of the host is looked at before it has to.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub net: NetSettings,
    /// Are there other hosts?
    pub hosts: bool,
    /// The agent, whose network processes of the node have as a rule.
    pub agent: Option<Locator>,
}

impl Ways {
    /// How to open sockets. The job's key is not part of it.
    pub fn to_open(&self) -> Result<sockets::Config, ReachSetupError> {
        let here = !self.hosts && self.agent.is_none_or(shares_network);
        let reaches = if here { Reaches::ThisHost } else { Reaches::Hosts };
        let interfaces = sys::net::interfaces().map_err(ReachSetupError::Interfaces)?;
        let interface = choose(&self.net, reaches, &interfaces)?.ok_or(ReachSetupError::NoAddress)?;
        Ok(sockets::Config {
            addr: interface.addr,
            interface: interface.name.clone(),
            ports: self.net.ports.map(|ports| (ports.low, ports.high)),
            key: None,
            timeout: if self.net.timeout.is_zero() { FOR_EVER } else { self.net.timeout },
        })
    }

    /// Opens an RDMA device where one may be needed. Where nobody asks for one, and there is none, sockets do.
    fn open_device(&self, context: &mut Context) -> Result<(), ReachSetupError> {
        let mut how = rdma::Config {
            kept_bytes: self.net.reg_cache,
            answer_time: self.net.rdma_timeout.filter(|time| !time.is_zero()),
            piece_bytes: self.net.rdma_piece,
            ..rdma::Config::default()
        };
        match &self.net.fabric {
            FabricChoice::Auto if self.hosts => {
                // Why there is none is told by --stats.
                let _ = context.open_rdma(&how);
            }
            FabricChoice::Verbs { device, port, gid } if self.hosts || self.net.force => {
                (how.device, how.port, how.gid) = (device.clone(), *port, *gid);
                context.open_rdma(&how)?;
            }
            FabricChoice::Soft if self.hosts || self.net.force => return Err(ReachSetupError::SoftOnly),
            FabricChoice::Auto | FabricChoice::Soft | FabricChoice::Sockets | FabricChoice::Verbs { .. } => {}
        }
        Ok(())
    }

    /// Opens sockets where they are needed from the start: also where the user has chosen an interface, by which a job on
    /// another host may meet this one.
    pub fn open_at_start(&self, context: &mut Context) -> Result<(), ReachSetupError> {
        self.open_device(context)?;
        if self.hosts || self.net.force || self.net.choice.is_some() || context.is_unshared() {
            context.open_sockets(&self.to_open()?)?;
        }
        Ok(())
    }
}

/// Is this process's network that of its agent, and so of the other processes of the node? Containers may differ.
fn shares_network(agent: Locator) -> bool {
    let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    network(&agent.pid.to_string()).is_some_and(|there| Some(there) == network("self"))
}

/// Who has to be reached by sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaches {
    /// Other hosts, or containers with a network of their own.
    Hosts,
    /// Processes with the same network only.
    ThisHost,
}

/// The interface for traffic between hosts: what the user wants, what the agent was reached by, what leads to the world,
/// or any that is not a bridge for containers. Loopback where everybody is on this host.
fn choose<'i>(
    net: &NetSettings,
    reaches: Reaches,
    interfaces: &'i [Interface],
) -> Result<Option<&'i Interface>, ReachSetupError> {
    if let Some(choice) = &net.choice {
        let fits = |interface: &&Interface| match choice {
            NetChoice::Interface(name) => interface.name == *name,
            NetChoice::Cidr { .. } => choice.contains(interface.addr),
        };
        let mut fitting: Vec<&Interface> = interfaces.iter().filter(|i| i.up).filter(fits).collect();
        fitting.sort_by_key(|interface| (is_link_local(interface.addr), interface.addr.is_ipv6()));
        return match fitting.first() {
            Some(interface) => Ok(Some(interface)),
            None => Err(ReachSetupError::NoSuchInterface {
                choice: choice.clone(),
                there_are: describe(interfaces),
            }),
        };
    }
    if let Some(address) = &net.address {
        let given = |interface: &&Interface| {
            interface.addr == address.addr
                && address.scope.as_ref().is_none_or(|scope| *scope == interface.name)
        };
        if let Some(interface) = interfaces.iter().find(given) {
            return Ok(Some(interface));
        }
    }
    let loopback = || interfaces.iter().find(|interface| interface.loopback && interface.up);
    if reaches == Reaches::ThisHost
        && let Some(interface) = loopback()
    {
        return Ok(Some(interface));
    }
    // Addresses of documentation (RFC 5737, RFC 3849): nothing is sent, the route alone is asked for.
    let outside: [IpAddr; 2] = [[192, 0, 2, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()];
    let by_route = outside
        .into_iter()
        .filter_map(sys::net::source_towards)
        .find_map(|source| interfaces.iter().find(|interface| interface.addr == source));
    let usable = |interface: &&Interface| interface.up && !interface.loopback && !interface.bridge;
    let mut any: Vec<&Interface> = interfaces.iter().filter(usable).collect();
    any.sort_by_key(|interface| (is_link_local(interface.addr), interface.addr.is_ipv6()));
    Ok(by_route.or(any.first().copied()).or_else(loopback))
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn describe(interfaces: &[Interface]) -> String {
    let texts: Vec<String> =
        interfaces.iter().map(|i| format!("{} ({}/{})", i.name, i.addr, i.prefix)).collect();
    texts.join(", ")
}

/// A key for a job whose launcher has none, as text for its board.
pub(crate) fn new_key() -> Result<String, ReachSetupError> {
    let mut key = [0; 32];
    sys::process::random(&mut key).map_err(ReachSetupError::Key)?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The key that rank 0 has put on the board.
pub(crate) fn parse_key(text: Option<String>) -> Result<[u8; 32], ReachSetupError> {
    let text = text.filter(|text| text.len() == 64 && text.is_ascii()).ok_or(ReachSetupError::NoKey)?;
    let mut key = [0; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| ReachSetupError::NoKey)?;
    }
    Ok(key)
}

impl From<ReachSetupError> for Cause {
    fn from(error: ReachSetupError) -> Self {
        Cause::Sockets(Arc::new(error))
    }
}

/// A process manager that fails is told as it is.
impl From<PmiError> for Cause {
    fn from(error: PmiError) -> Self {
        Cause::Pmi(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, addr: &str, bridge: bool) -> Interface {
        let loopback = name == "lo";
        Interface {
            name: name.into(),
            index: 1,
            addr: addr.parse().unwrap(),
            prefix: 24,
            up: true,
            loopback,
            bridge,
        }
    }

    fn settings(get: impl Fn(&str) -> Option<String>) -> NetSettings {
        NetSettings::read(get).unwrap()
    }

    #[test]
    fn the_user_and_then_the_agent_decide_which_interface_it_is() {
        let interfaces = [
            interface("lo", "127.0.0.1", false),
            interface("docker0", "172.17.0.1", true),
            interface("eth0", "198.51.100.5", false),
            interface("ib0", "198.51.101.5", false),
        ];
        let chosen = |name: &str, value: &str| {
            let net = settings(|asked| (asked == name).then(|| value.to_string()));
            choose(&net, Reaches::Hosts, &interfaces)
                .map(|found| found.map(|interface| interface.name.clone()))
        };
        assert_eq!(chosen("BANYAN_NET", "ib0").unwrap(), Some("ib0".into()));
        assert_eq!(chosen("BANYAN_NET", "198.51.101.0/24").unwrap(), Some("ib0".into()));
        assert_eq!(chosen("BANYAN_NET_ADDRESS", "198.51.101.5").unwrap(), Some("ib0".into()));
        assert_eq!(chosen("NOTHING", "").unwrap(), Some("eth0".into()), "never a bridge");
        let here = choose(&settings(|_| None), Reaches::ThisHost, &interfaces).unwrap();
        assert_eq!(here.map(|interface| interface.name.as_str()), Some("lo"));
        let error = chosen("BANYAN_NET", "eth7").unwrap_err().to_string();
        assert!(error.contains("eth7") && error.contains("docker0 (172.17.0.1/24)"), "{error}");
    }

    #[test]
    fn a_key_survives_the_board() {
        let text = new_key().unwrap();
        assert_eq!(text.len(), 64);
        let key = parse_key(Some(text.clone())).unwrap();
        assert_eq!(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), text);
        for wrong in [None, Some(String::new()), Some("é".repeat(32)), Some("zz".repeat(32))] {
            assert!(parse_key(wrong).is_err());
        }
    }
}
