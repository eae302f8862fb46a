//! What a job says about traffic between hosts: which interface, which ports, how long to wait.
use super::value::{BadValue, Values, bad, bytes, seconds, switch};
use super::{
    FABRIC, FORCE_NET, NET, NET_ADDRESS, NET_FAULTS, NET_TIMEOUT, PORT_RANGE, RDMA_PIECE, RDMA_TIMEOUT,
    REG_CACHE,
};
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

/// Longest name of an interface, as the kernel has it.
const INTERFACE_BYTES_MAX: usize = 15;

/// Where traffic between hosts should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetChoice {
    /// Over the interface of this name.
    Interface(String),
    /// Over the interface that has an address in this network.
    Cidr {
        /// An address of the network.
        addr: IpAddr,
        /// Bits that all its addresses share.
        prefix: u8,
    },
}

impl NetChoice {
    /// The name of an interface, a network (`10.1.0.0/16`), or an address, which is a network of its own.
    pub fn parse(text: &str) -> Option<Self> {
        let (addr, prefix) = text.split_once('/').unwrap_or((text, ""));
        if let Ok(addr) = addr.parse::<IpAddr>() {
            let bits = if addr.is_ipv4() { 32 } else { 128 };
            let prefix = if text.contains('/') { prefix.parse().ok()? } else { bits };
            return (prefix <= bits).then_some(NetChoice::Cidr { addr, prefix });
        }
        is_interface(text).then(|| NetChoice::Interface(text.into()))
    }

    /// Is an address in this network? No for the name of an interface.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self, other) {
            (NetChoice::Cidr { addr: IpAddr::V4(addr), prefix }, IpAddr::V4(other)) => {
                shares(u128::from(addr.to_bits() ^ other.to_bits()), 32, *prefix)
            }
            (NetChoice::Cidr { addr: IpAddr::V6(addr), prefix }, IpAddr::V6(other)) => {
                shares(addr.to_bits() ^ other.to_bits(), 128, *prefix)
            }
            _ => false,
        }
    }
}

/// Is every difference between two addresses of so many bits behind the prefix?
fn shares(differences: u128, bits: u32, prefix: u8) -> bool {
    differences.checked_shr(bits - u32::from(prefix)).unwrap_or(0) == 0
}

impl fmt::Display for NetChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetChoice::Interface(name) => f.write_str(name),
            NetChoice::Cidr { addr, prefix } => write!(f, "{addr}/{prefix}"),
        }
    }
}

/// What the kernel takes as the name of an interface. Not a number alone: that is a forgotten part of a network.
fn is_interface(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '/' | ':' | '%' | ',');
    (1..=INTERFACE_BYTES_MAX).contains(&name.len())
        && name.chars().all(fits)
        && name.chars().any(|letter| letter.is_ascii_alphabetic())
}

/// Ports that processes may listen at, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port, at least 1.
    pub low: u16,
    /// Last port, not below the first.
    pub high: u16,
}

impl PortRange {
    /// `LOW-HIGH` or `LOW:HIGH`.
    pub fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once(['-', ':'])?;
        let range = PortRange { low: low.parse().ok()?, high: high.parse().ok()? };
        (range.low > 0 && range.low <= range.high).then_some(range)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// An address of this host, with the interface it belongs to where it means nothing without (link-local IPv6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetAddress {
    /// The address.
    pub addr: IpAddr,
    /// The interface.
    pub scope: Option<String>,
}

impl NetAddress {
    /// `10.1.0.5` or `fe80::5%eth0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (addr, scope) = match text.split_once('%') {
            Some((addr, scope)) => (addr, Some(Some(scope).filter(|scope| is_interface(scope))?)),
            None => (text, None),
        };
        Some(NetAddress { addr: addr.parse().ok()?, scope: scope.map(String::from) })
    }
}

impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(f, "{}%{scope}", self.addr),
            None => write!(f, "{}", self.addr),
        }
    }
}

/// What carries traffic between hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FabricChoice {
    /// RDMA where both sides have it, sockets otherwise.
    #[default]
    Auto,
    /// Shared memory only: there is no traffic between hosts.
    Soft,
    /// Sockets only.
    Sockets,
    /// RDMA, through this device, port and address if they are named.
    Verbs {
        /// Its name.
        device: Option<String>,
        /// Its port, from 1.
        port: Option<u8>,
        /// The place of the address in the port's table.
        gid: Option<u8>,
    },
}

impl FabricChoice {
    /// `auto`, `soft`, `sockets`, `verbs` or `verbs:DEVICE[:PORT[:GID]]`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        match (parts.next()?, text.contains(':')) {
            ("auto", false) => return Some(FabricChoice::Auto),
            ("soft", false) => return Some(FabricChoice::Soft),
            ("sockets", false) => return Some(FabricChoice::Sockets),
            ("verbs", _) => {}
            _ => return None,
        }
        let device = parts.next().map(String::from);
        let named =
            device.as_ref().is_none_or(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic()));
        let mut number = || parts.next().map(|text| text.parse::<u8>()).transpose().ok();
        let (port, gid) = (number()?, number()?);
        (named && port != Some(0) && parts.next().is_none()).then_some(FabricChoice::Verbs {
            device,
            port,
            gid,
        })
    }
}

impl fmt::Display for FabricChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricChoice::Auto => f.write_str("auto"),
            FabricChoice::Soft => f.write_str("soft"),
            FabricChoice::Sockets => f.write_str("sockets"),
            FabricChoice::Verbs { device, port, gid } => {
                f.write_str("verbs")?;
                device.iter().try_for_each(|device| write!(f, ":{device}"))?;
                [port, gid].into_iter().flatten().try_for_each(|number| write!(f, ":{number}"))
            }
        }
    }
}

/// Everything that a process is told about traffic between hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetSettings {
    /// Which interface the user wants.
    pub choice: Option<NetChoice>,
    /// What carries it.
    pub fabric: FabricChoice,
    /// Bytes of the program's memory that stay registered for RDMA, if the user says how many.
    pub reg_cache: Option<u64>,
    /// When an RDMA device sends again what is not answered, if the user says so.
    pub rdma_timeout: Option<Duration>,
    /// Most bytes that it transfers at once, if tests say so.
    pub rdma_piece: Option<u64>,
    /// Which ports the user wants.
    pub ports: Option<PortRange>,
    /// How long a host may take to answer; no time is for ever.
    pub timeout: Duration,
    /// Do processes of one host talk over sockets too?
    pub force: bool,
    /// What this node's agent says: the address that others reach it by.
    pub address: Option<NetAddress>,
    /// Faults to imitate; what they are is the library's business.
    pub faults: Option<String>,
}

impl NetSettings {
    /// How long a host may take to answer unless the user says otherwise.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

    /// Reads the variables through `get`.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, BadValue> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        Ok(NetSettings {
            choice: typed(get, NET, NetChoice::parse, Values::Net)?,
            fabric: typed(get, FABRIC, FabricChoice::parse, Values::Fabric)?.unwrap_or_default(),
            reg_cache: get(REG_CACHE).map(|text| bytes(REG_CACHE, &text)).transpose()?,
            rdma_timeout: get(RDMA_TIMEOUT).map(|text| seconds(RDMA_TIMEOUT, &text)).transpose()?,
            rdma_piece: get(RDMA_PIECE).map(|text| bytes(RDMA_PIECE, &text)).transpose()?,
            ports: typed(get, PORT_RANGE, PortRange::parse, Values::Ports)?,
            timeout: match get(NET_TIMEOUT) {
                Some(text) => seconds(NET_TIMEOUT, &text)?,
                None => Self::TIMEOUT_DEFAULT,
            },
            force: get(FORCE_NET).map_or(Ok(false), |text| switch(FORCE_NET, &text))?,
            address: typed(get, NET_ADDRESS, NetAddress::parse, Values::Address)?,
            faults: get(NET_FAULTS),
        })
    }
}

fn typed<T>(
    get: impl Fn(&str) -> Option<String>,
    name: &'static str,
    parse: fn(&str) -> Option<T>,
    wanted: Values,
) -> Result<Option<T>, BadValue> {
    let read = |text: String| parse(&text).ok_or_else(|| bad(name, &text, wanted));
    get(name).map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn fabrics_are_read_as_they_are_written() {
        let verbs = |device: &str, port, gid| FabricChoice::Verbs { device: Some(device.into()), port, gid };
        let bare = FabricChoice::Verbs { device: None, port: None, gid: None };
        for (text, choice) in [
            ("auto", FabricChoice::Auto),
            ("soft", FabricChoice::Soft),
            ("sockets", FabricChoice::Sockets),
            ("verbs", bare),
            ("verbs:mlx5_0", verbs("mlx5_0", None, None)),
            ("verbs:rxe0:1:3", verbs("rxe0", Some(1), Some(3))),
        ] {
            assert_eq!(FabricChoice::parse(text).as_ref(), Some(&choice));
            assert_eq!(choice.to_string(), text);
        }
        for text in ["", "ib", "auto:x", "verbs:", "verbs:a:0", "verbs:a:x", "verbs:a:1:2:3", "verbs:a:1:999"]
        {
            assert_eq!(FabricChoice::parse(text), None, "{text}");
        }
    }

    #[test]
    fn interfaces_and_networks_are_told_apart() {
        let cidr = |text: &str, prefix| NetChoice::Cidr { addr: text.parse().unwrap(), prefix };
        assert_eq!(NetChoice::parse("eth0"), Some(NetChoice::Interface("eth0".into())));
        assert_eq!(NetChoice::parse("10.1.0.0/16"), Some(cidr("10.1.0.0", 16)));
        assert_eq!(NetChoice::parse("10.1.2.3"), Some(cidr("10.1.2.3", 32)));
        assert_eq!(NetChoice::parse("fd00::/8"), Some(cidr("fd00::", 8)));
        for text in ["", "10.1.0.0/33", "10.1.0.0/", "fd00::/129", "16", "a b", "eth0/24", "0123456789abcdef"]
        {
            assert_eq!(NetChoice::parse(text), None, "{text}");
        }
        for text in ["eth0", "10.1.0.0/16", "fd00::/8"] {
            assert_eq!(NetChoice::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn networks_contain_their_addresses() {
        let contains = |net: &str, addr: &str| NetChoice::parse(net).unwrap().contains(addr.parse().unwrap());
        assert!(contains("10.1.0.0/16", "10.1.255.3") && !contains("10.1.0.0/16", "10.2.0.1"));
        assert!(contains("10.1.2.3/8", "10.255.0.1") && contains("0.0.0.0/0", "192.0.2.1"));
        assert!(contains("::/0", "fe80::1") && contains("fd00::/8", "fd12::1"));
        assert!(
            !contains("fd00::/8", "fe80::1")
                && !contains("::/0", "10.0.0.1")
                && !contains("eth0", "10.0.0.1")
        );
    }

    #[test]
    fn ranges_of_ports_have_two_ends() {
        let range = PortRange { low: 40000, high: 40999 };
        assert_eq!(
            (PortRange::parse("40000-40999"), PortRange::parse("40000:40999")),
            (Some(range), Some(range))
        );
        assert_eq!(range.to_string(), "40000-40999");
        for text in ["", "40000", "2-1", "0-5", "1-65536", "a-b", "1-2-3"] {
            assert_eq!(PortRange::parse(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_keep_their_scope() {
        for text in ["10.1.0.5", "fe80::5%eth0", "::1"] {
            assert_eq!(NetAddress::parse(text).unwrap().to_string(), text);
        }
        assert!(NetAddress::parse("fe80::5%").is_none() && NetAddress::parse("eth0").is_none());
    }

    #[test]
    fn settings_are_read_together() {
        let all = |name: &str| {
            let values = [
                (NET, "ib0"),
                (PORT_RANGE, "1-2"),
                (NET_TIMEOUT, "3"),
                (FORCE_NET, "on"),
                (RDMA_TIMEOUT, "0.1"),
                (NET_ADDRESS, "10.0.0.1"),
                (NET_FAULTS, ""),
            ];
            values.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
        };
        let settings = NetSettings::read(all).unwrap();
        assert_eq!(settings.choice, Some(NetChoice::Interface("ib0".into())));
        assert_eq!((settings.timeout, settings.force), (Duration::from_secs(3), true));
        assert_eq!((settings.faults, settings.rdma_timeout), (None, Some(Duration::from_millis(100))));
        let nothing = NetSettings::read(|_| None).unwrap();
        assert_eq!((nothing.timeout, nothing.force, nothing.choice), (Duration::from_secs(60), false, None));
        let bad = NetSettings::read(|name| (name == PORT_RANGE).then(|| "9-8".into())).unwrap_err();
        assert_eq!(bad.to_string(), "BANYAN_PORT_RANGE: '9-8' is not a range of ports such as 40000-40999");
    }
}
