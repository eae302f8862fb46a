//! On which of its addresses a host is reached from another one.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

/// Any port will do: nothing is sent.
const DISCARD_PORT: u16 = 9;

/// The addresses to listen on for agents of these hosts, each once. Empty, which means everywhere, if for one of them no
/// address can be told.
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
        (!own.is_unspecified()).then_some(own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
