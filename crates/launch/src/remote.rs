//! An agent that was started on another host: what `banyan --agent` does.
//!
//! The process itself is the host's warden. It reads its order, forks the agent, which calls its parent, and ends
//! everything here when its standard input closes, because then nobody is left who could ask for it.
use crate::agent::{Knows, Seed, Uplink, agent_main};
use crate::bootstrap::{ORDER_BYTES_MAX, Order, SLURM_NODE};
use crate::call::call;
use crate::warden::{Above, Warden};
use proto::ids::NodeId;
use proto::seal::Key;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, Read};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;
use sys::net::Interface;
use sys::process::{self, DescriptorLimit, Ended, Pid, Subreaper};
use sys::signal::SignalMask;
use sys::socket;

/// How long an agent tries to reach its parent, if it is not told.
const TIMEOUT_DEFAULT_MS: u32 = 30_000;
/// Longest key file.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Where the order comes from.
enum Source {
    /// Standard input, whose closing is the end.
    Channel(Order),
    /// The command line and a file.
    User(Order),
}

/// Runs the agent of this host until the job is over. Returns the exit code.
pub(crate) fn main(args: Vec<OsString>) -> i32 {
    let order = match order(&args) {
        Ok(order) => order,
        Err(reason) => {
            eprintln!("banyan: the agent of this host cannot begin: {reason}");
            return crate::EXIT_USAGE;
        }
    };
    match run(order) {
        Ok(Some(Ended::Exit(code))) => code,
        Ok(Some(Ended::Signal(signal))) => 128 + signal,
        Ok(None) => 1,
        Err(error) => {
            eprintln!("banyan: the warden of this host failed: {error}");
            1
        }
    }
}

fn run(source: Source) -> io::Result<Option<Ended>> {
    let _mask = SignalMask::block_all()?;
    process::set_subreaper(Subreaper::On)?;
    let _ = process::lead_group(); // a session's leader does already
    let limit = DescriptorLimit::raise()?;
    let (order, link) = match source {
        Source::Channel(order) => (order, Some(socket::duplicate(io::stdin().as_fd())?)),
        Source::User(order) => (order, None),
    };
    if let Some(link) = &link {
        socket::set_nonblocking(link.as_fd())?;
    }
    socket::detach_stdio()?;
    let warden = Pid::own();
    // Its other end closes with this process: so the agent knows that nobody watches over it any more.
    let (life_there, _life) = socket::pipe()?;
    let agent = process::fork(move || remote_agent(&order, warden, life_there, limit))?;
    process::set_name("banyan-warden");
    Warden::new(link, Above::Starter, agent)?.run()
}

/// The life of the agent: call the parent, then do as it says.
fn remote_agent(order: &Order, warden: Pid, life: OwnedFd, limit: DescriptorLimit) -> i32 {
    process::set_name("banyan-agent");
    socket::close_all_but(&[life.as_raw_fd()]);
    let slurm_name = env::var(SLURM_NODE).ok();
    let (node, host) = match order.own_node(slurm_name.as_deref()) {
        Ok(own) => own,
        Err(error) => {
            eprintln!("banyan: {error}");
            return 1;
        }
    };
    let deadline = order.deadline(Instant::now());
    match call(&candidates(&order.parents), &order.key, node, deadline) {
        Ok((fd, seal)) => agent_main(Seed {
            knows: Knows::Nothing,
            node,
            uplink: Uplink::Sealed(fd, seal),
            stdin: None,
            key: Some(order.key.clone()),
            warden,
            warden_life: Some(life),
            launcher: warden,
            limit,
        }),
        Err(error) => {
            eprintln!("banyan: the agent of host {host}: {error}");
            1
        }
    }
}

/// The parent's addresses: those it gave, and what ssh or Slurm say about where we were started from.
fn candidates(given: &[SocketAddr]) -> Vec<SocketAddr> {
    // An address of a link comes with the interface, which is left to `on_each_link`.
    let told = |name: &str| -> Option<IpAddr> { env::var(name).ok()?.split([' ', '%']).next()?.parse().ok() };
    let seen = ["SSH_CONNECTION", "SLURM_LAUNCH_NODE_IPADDR"].into_iter().filter_map(told);
    let mut all = given.to_vec();
    let mut ports: Vec<u16> = given.iter().map(SocketAddr::port).collect();
    ports.dedup();
    for ip in seen {
        all.extend(ports.iter().map(|port| SocketAddr::new(ip, *port)));
    }
    let mut unique = Vec::new();
    for address in on_each_link(&all, &sys::net::interfaces().unwrap_or_default()) {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    unique
}

/// An address of IPv6 that is valid on one link only says nothing about which link of this host that is: it may be any
/// that has such an address too.
fn on_each_link(addresses: &[SocketAddr], interfaces: &[Interface]) -> Vec<SocketAddr> {
    let is_link = |interface: &&Interface| interface.up && is_of_a_link(interface.addr) && !interface.bridge;
    let links = |address: SocketAddrV6| {
        let scoped = move |link: &Interface| SocketAddrV6::new(*address.ip(), address.port(), 0, link.index);
        interfaces.iter().filter(is_link).map(scoped).map(SocketAddr::from).collect()
    };
    let each = |address: &SocketAddr| match *address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => links(v6),
        other => vec![other],
    };
    addresses.iter().flat_map(each).collect()
}

fn is_of_a_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn order(args: &[OsString]) -> Result<Source, String> {
    if args.is_empty() {
        let text = read_order(&mut io::stdin().lock()).map_err(|error| error.to_string())?;
        return Order::parse(&text).map(Source::Channel).map_err(|error| error.to_string());
    }
    user_order(args).map(Source::User)
}

/// Lines up to the last one of an order. What is behind it is not touched.
fn read_order(from: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    let mut from = from.take(ORDER_BYTES_MAX as u64);
    loop {
        let start = text.len();
        if from.read_line(&mut text)? == 0 || Order::ends_with(&text[start..]) {
            return Ok(text);
        }
    }
}

/// `--node N --connect ADDRESS,... [--key-file FILE]`; without a file, the key is the first line of standard input.
fn user_order(args: &[OsString]) -> Result<Order, String> {
    let (mut node, mut parents, mut file) = (None, Vec::new(), None);
    let mut words = args.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
        match word.as_ref() {
            "--node" => node = Some(value.parse().map_err(|_| format!("'{value}' is no node"))?),
            "--connect" => {
                let address =
                    |text: &str| text.parse().map_err(|_| format!("'{text}' is no address with a port"));
                parents = value.split(',').map(address).collect::<Result<_, String>>()?;
            }
            "--key-file" => file = Some(value.into_owned()),
            _ => return Err(format!("'{word}' is none of --node, --connect and --key-file")),
        }
    }
    let node = NodeId(node.ok_or("'--node' is missing")?);
    if parents.is_empty() {
        return Err("'--connect' is missing".into());
    }
    let key = read_key(file.as_deref())?;
    let nodes = vec![(node, process::host_name().unwrap_or_default())];
    Ok(Order { key, parents, nodes, timeout_ms: TIMEOUT_DEFAULT_MS })
}

fn read_key(file: Option<&str>) -> Result<Key, String> {
    let mut text = String::new();
    match file {
        Some(file) => {
            let opened = fs::File::open(file).map_err(|error| format!("'{file}': {error}"))?;
            let read = opened.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|error| format!("'{file}': {error}"))?;
        }
        None => {
            let mut stdin = io::stdin().lock().take(KEY_FILE_BYTES_MAX);
            stdin.read_line(&mut text).map_err(|error| format!("standard input: {error}"))?;
        }
    }
    Key::parse_hex(text.trim().as_bytes()).map_err(|error| format!("the key: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_ends_at_its_last_line() {
        let mut from = io::Cursor::new(b"banyan 1\nkey x\n.\nrest\n".to_vec());
        assert_eq!(read_order(&mut from).unwrap(), "banyan 1\nkey x\n.\n");
        let mut left = String::new();
        from.read_to_string(&mut left).unwrap();
        assert_eq!(left, "rest\n");
    }

    #[test]
    fn what_a_user_types_is_checked() {
        let error = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            user_order(&words).unwrap_err()
        };
        assert_eq!(error("--node x"), "'x' is no node");
        assert_eq!(error("--node"), "'--node' needs a value");
        assert_eq!(error("--node 1"), "'--connect' is missing");
        assert_eq!(error("--node 1 --connect here"), "'here' is no address with a port");
        assert_eq!(error("--frob 1"), "'--frob' is none of --node, --connect and --key-file");
        let missing = error("--node 1 --connect 127.0.0.1:1 --key-file /no/such/file");
        assert!(missing.starts_with("'/no/such/file': "), "{missing}");
    }

    #[test]
    fn each_address_is_tried_once() {
        let given = ["127.0.0.1:7", "127.0.0.1:7", "10.0.0.1:7"].map(|text| text.parse().unwrap());
        let all = candidates(&given);
        assert_eq!(all[..2], [given[0], given[2]]);
    }
    #[test]
    fn an_address_of_a_link_is_tried_on_each_link() {
        let interface = |index, addr: &str| Interface {
            name: format!("eth{index}"),
            index,
            addr: addr.parse().unwrap(),
            prefix: 64,
            up: index != 9,
            loopback: false,
            bridge: index == 8,
        };
        let interfaces = [
            interface(2, "10.0.0.1"),
            interface(2, "fe80::5"),
            interface(3, "fe80::6"),
            interface(8, "fe80::7"),
            interface(9, "fe80::8"),
        ];
        let given = ["10.0.0.9:7", "[fe80::1]:7"].map(|text| text.parse().unwrap());
        let all: Vec<String> = on_each_link(&given, &interfaces).iter().map(SocketAddr::to_string).collect();
        assert_eq!(all, ["10.0.0.9:7", "[fe80::1%2]:7", "[fe80::1%3]:7"]);
    }
}
