//! On which of its addresses a host is reached from another one.
use proto::env::NetAddress;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// The kernel's list of IPv6 addresses: address, number of the interface, prefix, scope, flags, name of the interface.
const IPV6_ADDRESSES: &str = "/proc/self/net/if_inet6";

/// Any port will do: nothing is sent.
const DISCARD_PORT: u16 = 9;

/// The addresses to listen on for agents of these hosts, each once. Empty, which means everywhere, if for one of them no
/// address can be told, or none that means something without an interface.
pub(crate) fn addresses_towards<'h>(hosts: impl IntoIterator<Item = &'h str>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for host in hosts {
        let Some(address) = address_towards(host) else { return Vec::new() };
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// The local address of the route to a host, as the kernel chooses it for a datagram that is never sent.
pub(crate) fn address_towards(host: &str) -> Option<IpAddr> {
    let targets = (host, DISCARD_PORT).to_socket_addrs().ok()?;
    targets.into_iter().find_map(|target| {
        let any: IpAddr =
            if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(target).ok()?;
        let own = socket.local_addr().ok()?.ip();
        let is_of_a_link = matches!(own, IpAddr::V6(v6) if v6.is_unicast_link_local());
        (!own.is_unspecified() && !is_of_a_link).then_some(own)
    })
}

/// An address of this host with the name of its interface, if it means nothing without.
pub(crate) fn scoped(address: SocketAddr) -> NetAddress {
    let list = || String::from_utf8_lossy(&fs::read(IPV6_ADDRESSES).unwrap_or_default()).into_owned();
    let scope = match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => interface(&list(), *v6.ip(), v6.scope_id()),
        _ => None,
    };
    NetAddress { addr: address.ip().to_canonical(), scope }
}

/// The interface that has an address, in the kernel's list. Several may have the same one, so its number counts too,
/// where it is known.
fn interface(list: &str, address: Ipv6Addr, index: u32) -> Option<String> {
    let wanted = format!("{:032x}", address.to_bits());
    list.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [at, number, _, _, _, name] = fields.try_into().ok()?;
        let number = u32::from_str_radix(number, 16).ok()?;
        (at == wanted && (index == 0 || index == number)).then(|| name.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_valid_on_one_link_names_its_interface() {
        let list = "fe80000000000000021122fffe334455 02 40 20 80     eth0\n\
                    fe80000000000000021122fffe334455 0a 40 20 80     eth1\n\
                    00000000000000000000000000000001 01 80 10 80       lo\n";
        let address: Ipv6Addr = "fe80::211:22ff:fe33:4455".parse().unwrap();
        assert_eq!(interface(list, address, 10).as_deref(), Some("eth1"));
        assert_eq!(interface(list, address, 0).as_deref(), Some("eth0"));
        assert_eq!(interface(list, address, 3), None);
        assert_eq!(interface(list, "fe80::1".parse().unwrap(), 0), None);
        let scope = |text: &str| scoped(text.parse().unwrap()).to_string();
        assert_eq!((scope("10.0.0.1:5"), scope("[::1]:5")), ("10.0.0.1".into(), "::1".into()));
        assert_eq!(scope("[::ffff:10.0.0.1]:5"), "10.0.0.1");
    }

    #[test]
    fn the_way_to_loopback_starts_at_loopback() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(address_towards("127.0.0.1"), Some(loopback));
        assert_eq!(addresses_towards(["127.0.0.1", "127.0.0.2", "127.0.0.1"]), [loopback]);
    }

    #[test]
    fn a_host_that_is_no_name_means_everywhere() {
        assert_eq!(address_towards("no host has blanks"), None);
        assert!(addresses_towards(["127.0.0.1", "no host has blanks"]).is_empty());
    }
}
