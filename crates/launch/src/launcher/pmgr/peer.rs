//! The owner of a connection over loopback. TCP does not say it, but the system lists who owns which end.
use std::fs;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};

/// Is the other end a socket of this user? One that the system does not list is not.
pub(super) fn is_own(from: SocketAddr, listener: &TcpListener) -> bool {
    let (SocketAddr::V4(from), Ok(SocketAddr::V4(to))) = (from, listener.local_addr()) else { return false };
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    owner(&table, from, to) == Some(sys::process::effective_user())
}

/// The user whose socket goes from `local` to `remote`. Addresses are hexadecimal, in the order of the machine.
fn owner(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    let written = |address: SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (local, remote) = (written(local), written(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == local && fields.next()? == remote;
        is_it.then(|| fields.nth(4)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn the_owner_of_a_connection_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert!(is_own(from, &listener));
        drop(stream);
        let nobody: SocketAddr = (Ipv4Addr::LOCALHOST, 1).into();
        assert!(!is_own(nobody, &listener));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn users_are_read_from_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n\
             0: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000  1000        0 7 1\n";
        let (local, remote) = ("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:22".parse().unwrap());
        assert_eq!(owner(table, local, remote), Some(1000));
        assert_eq!(owner(table, remote, local), None);
    }
}
