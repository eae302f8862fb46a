//! The choice of device, port and address, and the peers that can be reached with them.
use super::{Config, OpenError};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;
use sys::net::Interface;
use verbs::{Context, Device, Gid, GidKind, LinkLayer, Port, PortState};

/// The longest time that devices know: 2.4 hours.
const LONGEST_POWER: u8 = 31;

/// The shortest time that devices know and that is not below this: 4.096 us times a power of two. (No power would be for ever.)
pub(super) fn power_for(time: Duration) -> u8 {
    let is_enough = |power: &u8| (4096 << power) >= time.as_nanos();
    (1..LONGEST_POWER).find(is_enough).unwrap_or(LONGEST_POWER)
}

/// The device and the port that are to be used.
pub(super) fn choose(devices: &[Device], config: &Config) -> Result<(Rc<Context>, Port), OpenError> {
    let mut why = Vec::new();
    for device in devices {
        let name = device.name();
        if config.device.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        if !device.is_ib_transport() {
            why.push(format!("{name} is no InfiniBand or RoCE device"));
            continue;
        }
        let context = match device.open() {
            Ok(context) => context,
            Err(error) => {
                why.push(format!("{name}: {error}"));
                continue;
            }
        };
        let ports = context.limits().map_or(1, |limits| limits.ports);
        for number in (1..=ports).filter(|number| config.port.is_none_or(|wanted| wanted == *number)) {
            match context.port(number) {
                Ok(port) if port.state == PortState::Active => return Ok((context, port)),
                Ok(port) => why.push(format!("port {number} of {name} is {}", port.state)),
                Err(error) => why.push(format!("port {number} of {name}: {error}")),
            }
        }
    }
    if why.is_empty() {
        let names: Vec<String> = devices.iter().map(Device::name).collect();
        why.push(format!("there is no such device or port; there is {}", names.join(", ")));
    }
    Err(OpenError::NoPort(why.join("; ")))
}

/// The address of the port that is to be used: inside an InfiniBand subnet none is needed.
pub(super) fn choose_gid(context: &Context, port: &Port, config: &Config) -> Result<Option<Gid>, OpenError> {
    let gids = context.gids(port);
    if let Some(wanted) = config.gid {
        let gid = gids.iter().find(|gid| gid.index == wanted);
        let none = || {
            OpenError::NoPort(format!("port {} of {} has no address {wanted}", port.number, context.name()))
        };
        return gid.copied().map(Some).ok_or_else(none);
    }
    if port.link == LinkLayer::InfiniBand {
        return Ok(None);
    }
    // One that goes through routers is best, and of an address that somebody gave rather than of one the kernel made up.
    let worth =
        |gid: &&Gid| (gid.kind == GidKind::RoceV2, !is_link_local(&gid.raw), std::cmp::Reverse(gid.index));
    match gids.iter().max_by_key(worth) {
        Some(gid) => Ok(Some(*gid)),
        None => Err(OpenError::NoPort(format!("port {} of {} has no address", port.number, context.name()))),
    }
}

fn is_link_local(raw: &[u8; 16]) -> bool {
    raw[0] == 0xfe && raw[1] & 0xc0 == 0x80
}

/// What is the same for those who can reach each other: the subnet of InfiniBand, the network of the address elsewhere.
pub(super) fn subnet_of(port: &Port, gid: Option<&Gid>) -> u32 {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let start = 0x811c_9dc5 ^ u32::from(port.link == LinkLayer::Ethernet);
    let Some(gid) = gid else { return start };
    let network = network_of(gid, &sys::net::interfaces().unwrap_or_default());
    [gid.kind as u8].iter().chain(&network).fold(start, mix)
}

/// The part of an address that all of its network have. If no interface is known to have it, that is its first half, as
/// InfiniBand has it.
fn network_of(gid: &Gid, interfaces: &[Interface]) -> [u8; 16] {
    let addr = Ipv6Addr::from(gid.raw);
    let of_v4 = addr.to_ipv4_mapped();
    let own = interfaces.iter().find(|interface| match (interface.addr, of_v4) {
        (IpAddr::V4(own), Some(addr)) => own == addr,
        (IpAddr::V6(own), None) => own == addr,
        _ => false,
    });
    let bits = match (own, of_v4) {
        (Some(own), Some(_)) => 96 + u32::from(own.prefix),
        (Some(own), None) => own.prefix.into(),
        (None, _) => 64,
    };
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
    (addr.to_bits() & mask).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_what_devices_know() {
        let power = |micros| power_for(Duration::from_micros(micros));
        assert_eq!((power(0), power(8), power(9), power(67_000), power(1_000_000)), (1, 1, 2, 14, 18));
        assert_eq!(power_for(Duration::MAX), 31);
    }

    #[test]
    fn networks_are_told_apart_by_what_interfaces_say() {
        let interface = |addr: IpAddr, prefix| Interface {
            name: "eth0".into(),
            index: 2,
            addr,
            prefix,
            up: true,
            loopback: false,
            bridge: false,
        };
        let gid = |addr: Ipv6Addr| Gid { index: 1, raw: addr.octets(), kind: GidKind::RoceV2 };
        let v4 = |last: [u8; 4]| gid(std::net::Ipv4Addr::from(last).to_ipv6_mapped());
        let here = [interface([10, 0, 1, 5].into(), 24)];
        let there = [interface([10, 0, 1, 9].into(), 24)];
        assert_eq!(network_of(&v4([10, 0, 1, 5]), &here), network_of(&v4([10, 0, 1, 9]), &there));
        let away = [interface([10, 0, 2, 9].into(), 24)];
        assert_ne!(network_of(&v4([10, 0, 1, 5]), &here), network_of(&v4([10, 0, 2, 9]), &away));
        let link = |last: u16| gid(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last));
        assert_eq!(network_of(&link(1), &[]), network_of(&link(2), &[]));
    }
}
