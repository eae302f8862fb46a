//! `banyan info`: the version, the machine, what its kernel allows and which RDMA devices it has.
mod variables;

use serde_json::{Map, Value, json};
use std::fmt::Display;
use sys::say;
use verbs::{Atomics, Context, GidKind, LinkLayer, Port};

/// What is known of one thing.
struct Fact {
    name: &'static str,
    text: String,
    value: Value,
}

impl Fact {
    fn new(name: &'static str, text: impl Display) -> Fact {
        let text = text.to_string();
        Fact { name, value: Value::from(text.clone()), text }
    }

    /// Something that the kernel allows, or not.
    fn allowed(name: &'static str, answer: Result<String, impl Display>) -> Fact {
        match answer {
            Ok(text) => {
                Fact { name, value: json!({ "allowed": true, "means": text }), text: format!("yes: {text}") }
            }
            Err(error) => {
                let (error, text) = (error.to_string(), format!("no: {error}"));
                Fact { name, value: json!({ "allowed": false, "why": error }), text }
            }
        }
    }
}

const HELP: &str = "\
usage: banyan info [--json]
       banyan info --env [--json]

The version, the machine, what its kernel allows, which RDMA devices there are and what carries messages between hosts.
With --env: every variable that Banyan reads, its value here, its default and its meaning; the exit code is 1 if one has a
value that it cannot have.
";

/// Prints one fact per line; with `--json`, all of them as one object.
pub fn main(args: &[String]) -> i32 {
    if crate::commands::is_help(args, HELP) {
        return 0;
    }
    if let Some(unknown) = args.iter().find(|arg| *arg != "--json" && *arg != "--env") {
        return crate::usage_error(&format!(
            "info: '{unknown}' is not an option; there are --env and --json"
        ));
    }
    let json = args.iter().any(|arg| arg == "--json");
    if args.iter().any(|arg| arg == "--env") {
        return variables::show(json);
    }
    let facts: Vec<Fact> = [machine(), kernel(), rdma()].into_iter().flatten().collect();
    if json {
        let all: Map<String, Value> = facts.into_iter().map(|fact| (fact.name.into(), fact.value)).collect();
        say!("{:#}", Value::from(all));
    } else {
        facts.iter().for_each(|fact| say!("{:<18} {}", fact.name, fact.text));
    }
    0
}

fn machine() -> Vec<Fact> {
    let cores = match sys::limit::allowed_cores() {
        Ok(cores) => {
            let text = format!("{} ({})", cores.len(), ranges(&cores));
            Fact { name: "cores", text, value: json!(cores) }
        }
        Err(error) => Fact::new("cores", format!("unknown: {error}")),
    };
    vec![Fact::new("banyan", env!("CARGO_PKG_VERSION")), Fact::new("processor", processor()), cores]
}

fn kernel() -> Vec<Fact> {
    let memfd =
        sys::SharedMemory::create("banyan-info", 4096).map(|_| "shared segments without files".into());
    let read =
        sys::probe::process_vm_readv().map(|()| "large messages are read directly from the sender".into());
    let barrier = sys::probe::membarrier().map(|(between, inside)| membarrier_text(between, inside));
    vec![
        Fact::new("kernel", self::read("/proc/sys/kernel/osrelease")),
        Fact::allowed("memfd", memfd),
        Fact::allowed("process_vm_readv", read),
        Fact::allowed("membarrier", barrier),
    ]
}

/// What carries messages between hosts, unless `--fabric` says otherwise, and why.
fn between_hosts() -> Fact {
    match fabric::rdma::Rdma::open(&fabric::rdma::Config::default()) {
        Ok(rdma) => Fact::new(
            "between hosts",
            format!("RDMA ({}) where the other host has it, else sockets", rdma.device()),
        ),
        Err(why) => Fact::new("between hosts", format!("sockets ({why})")),
    }
}

/// The RDMA devices, or why there are none; and how processes of different hosts talk.
fn rdma() -> Vec<Fact> {
    let hosts = between_hosts();
    let devices = match verbs::devices() {
        Ok(devices) => devices,
        Err(missing) => {
            let value = json!({ "devices": [], "why": missing.to_string() });
            return vec![Fact { name: "rdma", text: missing.to_string(), value }, hosts];
        }
    };
    let described: Vec<(String, Value)> = devices
        .iter()
        .map(|device| match device.open() {
            Ok(context) => device_facts(&context),
            Err(error) => {
                let text = format!("{}: cannot be opened: {error}", device.name());
                (text, json!({ "name": device.name(), "why": error.to_string() }))
            }
        })
        .collect();
    let (texts, values): (Vec<String>, Vec<Value>) = described.into_iter().unzip();
    let text = texts.join(&format!("\n{:<18} ", ""));
    vec![Fact { name: "rdma", text, value: json!({ "devices": values }) }, hosts]
}

fn device_facts(context: &Context) -> (String, Value) {
    let name = context.name();
    let limits = match context.limits() {
        Ok(limits) => limits,
        Err(error) => return (format!("{name}: {error}"), json!({ "name": name, "why": error.to_string() })),
    };
    let ports: Vec<Port> = (1..=limits.ports).filter_map(|number| context.port(number).ok()).collect();
    let words = |port: &Port| {
        let link = if port.link == LinkLayer::Ethernet { "Ethernet" } else { "InfiniBand" };
        format!(
            "port {} {} ({link}, packets of {}, messages to {} MiB)",
            port.number,
            port.state,
            port.mtu,
            port.message_max >> 20
        )
    };
    let xrc = if limits.xrc { "XRC" } else { "no XRC" };
    let text = format!(
        "{name}: {}; {} queue pairs, {} shared receive queues, {}, {xrc}",
        ports.iter().map(words).collect::<Vec<_>>().join("; "),
        limits.qps,
        limits.srqs,
        atomics(limits.atomics)
    );
    let port = |port: &Port| {
        let gids: Vec<Value> = context
            .gids(port)
            .iter()
            .map(|gid| json!({ "index": gid.index, "gid": std::net::Ipv6Addr::from(gid.raw).to_string(), "kind": gid_kind(gid.kind) }))
            .collect();
        json!({
            "number": port.number,
            "state": port.state.to_string(),
            "link": if port.link == LinkLayer::Ethernet { "ethernet" } else { "infiniband" },
            "mtu": port.mtu,
            "message_bytes_max": port.message_max,
            "lid": port.lid,
            "gids": gids,
        })
    };
    let value = json!({
        "name": name,
        "firmware": limits.firmware,
        "qps_max": limits.qps,
        "qp_work_max": limits.qp_work,
        "cqs_max": limits.cqs,
        "cq_entries_max": limits.cq_entries,
        "srqs_max": limits.srqs,
        "srq_work_max": limits.srq_work,
        "regions_max": limits.regions,
        "region_bytes_max": limits.region_bytes,
        "reads_out_max": limits.reads_out,
        "atomics": atomics(limits.atomics),
        "xrc": limits.xrc,
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
    });
    (text, value)
}

fn atomics(atomics: Atomics) -> &'static str {
    match atomics {
        Atomics::None => "no atomics",
        Atomics::AmongDevices => "atomics among devices",
        Atomics::WithProcessors => "atomics with processors",
    }
}

fn gid_kind(kind: GidKind) -> &'static str {
    match kind {
        GidKind::InfiniBand => "InfiniBand",
        GidKind::RoceV1 => "RoCE v1",
        GidKind::RoceV2 => "RoCE v2",
    }
}

/// The processor's name, as the kernel gives it.
pub fn processor() -> String {
    let text = read("/proc/cpuinfo");
    let name =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.to_string())
}

fn membarrier_text(between: bool, inside: bool) -> String {
    let word = |yes: bool| if yes { "yes" } else { "no" };
    format!("between processes {}, inside a process {}", word(between), word(inside))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_string())
}

/// "0-3,8" for 0, 1, 2, 3, 8.
fn ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let part = |&(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn cores_are_written_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
    }
}
