//! The host's place in the network: its interfaces and addresses, which of them leads where, and connections that
//! notice when the other host is gone.
use crate::sockaddr::{self, set_option};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr;
use std::time::Duration;

/// Questions that an idle connection asks in the time that its other end may be silent.
const PROBES: u64 = 12;
/// The most that Linux takes: seconds between two questions, and questions.
const KEEP_SECONDS_MAX: u64 = 32767;
const KEEP_PROBES_MAX: u64 = 127;

/// An address of one of the host's interfaces. An interface with several addresses is listed several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number, which is also the scope of its link-local addresses.
    pub index: u32,
    /// An address of it.
    pub addr: IpAddr,
    /// Bits of the address that name the network.
    pub prefix: u8,
    /// Is it switched on, and its cable plugged in?
    pub up: bool,
    /// Does it lead nowhere but to this host?
    pub loopback: bool,
    /// Does it belong to containers or virtual machines of this host? Other hosts cannot reach it, and often have one
    /// with the same address.
    pub bridge: bool,
}

impl Interface {
    /// The address with `port`, and with the scope that a link-local address needs.
    pub fn socket_addr(&self, port: u16) -> SocketAddr {
        match self.addr {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => sockaddr::with_scope(self.addr, port, self.index),
            _ => sockaddr::with_scope(self.addr, port, 0),
        }
    }

    /// Is `addr` in the network that this address is in?
    pub fn reaches(&self, addr: IpAddr) -> bool {
        fn same(a: &[u8], b: &[u8], bits: usize) -> bool {
            let (whole, rest) = (bits / 8, bits % 8);
            a[..whole] == b[..whole] && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0)
        }
        match (self.addr, addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(&a.octets(), &b.octets(), self.prefix.min(32).into()),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(&a.octets(), &b.octets(), self.prefix.min(128).into()),
            _ => false,
        }
    }
}

/// The internet addresses of all interfaces of the host, also of those that are down.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first = ptr::null_mut();
    // SAFETY: `first` is writable; the list is given back below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at: *const libc::ifaddrs = first;
    while !at.is_null() {
        // SAFETY: an entry of the list, which lives until freeifaddrs; nobody writes to it.
        let entry = unsafe { &*at };
        // SAFETY: an entry from getifaddrs, not freed yet.
        found.extend(unsafe { interface(entry) });
        at = entry.ifa_next;
    }
    // SAFETY: the list from getifaddrs, of which nothing is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// # Safety
/// `entry` is one of a list from getifaddrs that is not freed yet.
unsafe fn interface(entry: &libc::ifaddrs) -> Option<Interface> {
    // SAFETY: null, or a socket address as long as its family says.
    let addr = unsafe { sockaddr::read(entry.ifa_addr) }?.ip();
    // SAFETY: as above.
    let prefix = unsafe { sockaddr::read(entry.ifa_netmask) }.map_or(0, |mask| prefix_of(mask.ip()));
    // SAFETY: a name that ends in NUL.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    // SAFETY: as above; 0 says that the interface is gone.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let name = name.to_string_lossy().into_owned();
    let has = |flag: i32| entry.ifa_flags & flag as u32 != 0;
    Some(Interface {
        index,
        addr,
        prefix,
        up: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
        loopback: has(libc::IFF_LOOPBACK),
        bridge: is_bridge(&name),
        name,
    })
}

fn prefix_of(mask: IpAddr) -> u8 {
    match mask {
        IpAddr::V4(v4) => u32::from(v4).leading_ones() as u8,
        IpAddr::V6(v6) => u128::from(v6).leading_ones() as u8,
    }
}

/// Names that container and virtual machine tools give to their side of the host.
const BRIDGE_NAMES: [&str; 6] = ["docker", "br-", "virbr", "veth", "cni", "lxc"];

fn is_bridge(name: &str) -> bool {
    // A label of an old kind of address ("eth0:1") is no folder there, and no bridge either.
    BRIDGE_NAMES.iter().any(|start| name.starts_with(start))
        || Path::new("/sys/class/net").join(name).join("bridge").exists()
}

/// The addresses under which other hosts may reach this one: of interfaces that are up, without loopback. Those that are
/// valid on one link only count where there is no other.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    Ok(reachable(&interfaces()?))
}

fn reachable(interfaces: &[Interface]) -> Vec<IpAddr> {
    let up = interfaces.iter().filter(|interface| interface.up && !interface.addr.is_loopback());
    let (of_links, others): (Vec<IpAddr>, Vec<IpAddr>) =
        up.map(|interface| interface.addr).partition(is_link_local);
    if others.is_empty() { of_links } else { others }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The address that this host would use towards `to`, if there is a way there. Nothing is sent.
pub fn source_towards(to: IpAddr) -> Option<IpAddr> {
    source_addr_towards(sockaddr::with_scope(to, 0, 0)).ok().map(|from| from.ip())
}

/// The same with the scope of a link-local address, and why there is no way. The port of the answer means nothing.
pub fn source_addr_towards(to: SocketAddr) -> io::Result<SocketAddr> {
    /// A port that the connection of a UDP socket can name; nothing goes there.
    const DISCARD: u16 = 9;
    let to = sockaddr::with_scope(to.ip(), DISCARD, sockaddr::scope_of(to));
    let anywhere: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((anywhere, 0))?;
    socket.connect(to)?;
    socket.local_addr()
}

/// Makes the TCP connection `fd` fail when its other end has answered nothing for about `silence`, whether bytes are on
/// their way or not. Without it, a host that lost its power is never noticed. A receiver that has had no room for so
/// long counts as silent too: for peers that read all the time.
pub fn notice_silence(fd: BorrowedFd<'_>, silence: Duration) -> io::Result<()> {
    let milliseconds = i32::try_from(silence.as_millis()).unwrap_or(i32::MAX);
    keep_alive(fd, silence)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, milliseconds)
}

/// Makes the TCP connection `fd` fail when nothing is on its way and its other end has not said for about `silence`
/// that it is there.
pub fn keep_alive(fd: BorrowedFd<'_>, silence: Duration) -> io::Result<()> {
    let (seconds, probes) = keep_alive_of(silence);
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, probes)
}

/// Seconds between questions, and how many. Together not less than `silence`, as far as the kernel counts.
fn keep_alive_of(silence: Duration) -> (i32, i32) {
    let seconds = (silence.as_secs() / PROBES).clamp(1, KEEP_SECONDS_MAX);
    let probes = silence.as_secs().div_ceil(seconds).clamp(1, KEEP_PROBES_MAX);
    (seconds as i32, probes as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn addresses_are_such_that_others_can_use() {
        let addresses = addresses().unwrap();
        assert!(addresses.iter().all(|address| !address.is_loopback() && !address.is_unspecified()));
        for address in addresses.into_iter().filter(|address| !is_link_local(address)) {
            TcpListener::bind((address, 0)).unwrap_or_else(|error| panic!("{address}: {error}"));
        }
    }

    #[test]
    fn addresses_of_a_link_are_better_than_none() {
        let of = |addr: &str, up| Interface {
            name: "eth0".into(),
            index: 2,
            addr: addr.parse().unwrap(),
            prefix: 64,
            up,
            loopback: false,
            bridge: false,
        };
        let texts = |list: &[Interface]| reachable(list).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&[of("::1", true), of("fe80::5", true), of("10.0.0.5", true)]), ["10.0.0.5"]);
        assert_eq!(texts(&[of("::1", true), of("fe80::5", true), of("10.0.0.5", false)]), ["fe80::5"]);
    }

    #[test]
    fn silence_is_a_matter_of_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_silence(stream.as_fd(), Duration::from_secs(30)).unwrap();
        let (pipe, _) = socket::pipe().unwrap();
        assert!(notice_silence(pipe.as_fd(), Duration::from_secs(30)).is_err());
    }

    #[test]
    fn an_idle_connection_waits_as_long_as_was_said() {
        let of = |seconds| keep_alive_of(Duration::from_secs(seconds));
        assert_eq!([of(0), of(1), of(5), of(60), of(600)], [(1, 1), (1, 1), (1, 5), (5, 12), (50, 12)]);
        for seconds in 1..4000 {
            let (between, probes) = of(seconds);
            assert!(between as u64 * probes as u64 >= seconds, "{seconds}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for silence in [Duration::from_secs(366 * 86400), Duration::MAX] {
            notice_silence(stream.as_fd(), silence).unwrap();
        }
    }

    #[test]
    fn loopback_is_an_interface_with_its_network() {
        let all = interfaces().unwrap();
        let home = IpAddr::from([127, 0, 0, 1]);
        let lo = all.iter().find(|interface| interface.addr == home).expect("no 127.0.0.1");
        assert!(lo.up && lo.loopback && !lo.bridge && lo.index > 0);
        assert_eq!(lo.prefix, 8);
        assert!(lo.reaches([127, 9, 9, 9].into()) && !lo.reaches([128, 0, 0, 1].into()));
        assert!(!lo.reaches("::1".parse().unwrap()));
        for interface in all {
            let link_local = matches!(interface.addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
            let scope = sockaddr::scope_of(interface.socket_addr(5));
            assert_eq!(scope, if link_local { interface.index } else { 0 });
        }
    }

    #[test]
    fn networks_end_inside_a_byte() {
        let at = |addr: &str, prefix| Interface {
            name: "x".into(),
            index: 1,
            addr: addr.parse().unwrap(),
            prefix,
            up: true,
            loopback: false,
            bridge: false,
        };
        assert!(at("10.0.64.1", 18).reaches("10.0.127.255".parse().unwrap()));
        assert!(!at("10.0.64.1", 18).reaches("10.0.128.0".parse().unwrap()));
        assert!(at("10.0.0.1", 0).reaches("200.0.0.1".parse().unwrap()));
        assert!(!at("10.0.0.1", 32).reaches("10.0.0.2".parse().unwrap()));
        assert!(at("fd00::1", 127).reaches("fd00::".parse().unwrap()));
    }

    #[test]
    fn bridges_of_containers_are_known_by_name() {
        assert!(["docker0", "br-12ab", "virbr0", "veth9", "cni0", "lxcbr0"].into_iter().all(is_bridge));
        assert!(!["lo", "eth0", "bridge-less", "ib0", "eth0:1"].into_iter().any(is_bridge));
    }

    #[test]
    fn the_way_to_an_address_has_a_source() {
        let home = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(source_towards(home), Some(home));
        for interface in interfaces().unwrap().iter().filter(|interface| interface.up) {
            let from = source_addr_towards(interface.socket_addr(1)).unwrap();
            assert_eq!(from.ip(), interface.addr, "{}", interface.name);
            assert_eq!(sockaddr::scope_of(from), sockaddr::scope_of(interface.socket_addr(1)));
        }
    }
}
