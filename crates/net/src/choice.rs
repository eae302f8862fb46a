//! By which policy a process connects: what all processes of its job know, from which `proto::wireup::auto` chooses, and what
//! came of it for the statistics.
use crate::job::JobFacts;
use crate::start::Config;
use fabric::Context;
use proto::env::FabricChoice;
use proto::ids::NodeId;
use proto::pattern::Pattern;
use proto::wireup::Policy;
use proto::wireup::auto::{Choice, Cores, Device, Facts, Forecast, Why};

/// What a command of an RDMA device takes at least: most take more.
const RDMA_CREATE_NS: u64 = 100_000;

/// What all processes know of the job, if they were told the same.
pub(crate) fn facts(config: &Config, job: &JobFacts, context: &Context, pattern: Option<&Pattern>) -> Facts {
    let placement = &job.placement;
    // The largest node decides for all of them.
    let largest = (0..placement.nodes()).map(|node| placement.count(NodeId(node))).max().unwrap_or(1);
    // (Through sockets nobody shares.)
    let shared = context.card().shared && config.is_on_one_host();
    let connections = match shared {
        true => largest - 1 + placement.nodes().saturating_sub(1),
        false => job.size.saturating_sub(1),
    };
    // Each process has a queue pair for datagrams as well, as many as there would be for itself.
    let (processes, each) = match (config.node, config.is_on_one_host()) {
        (None, _) => (1, largest), // a device of its own
        (Some(_), true) if shared => (largest, connections + 1),
        (Some(_), true) => (largest, job.size),
        (Some(_), false) => (largest, largest),
    };
    let device = Device { processes, each, max: context.facts().qp_max, kept: context.kept_qps() };
    let is_rdma = matches!(config.net.fabric, FabricChoice::Verbs { .. }) && !config.is_on_one_host();
    Facts {
        ranks: job.size,
        connections,
        budget: config.qp_budget,
        device: Some(device).filter(|_| !config.net.force), // sockets are none of the device's
        create_ns: if is_rdma { RDMA_CREATE_NS } else { config.imitation.create_ns },
        cores: if context.facts().oversubscribed { Cores::Shared } else { Cores::Own },
        forecast: pattern
            .map(|pattern| Forecast { peers: pattern.degree(job.size), failed: pattern.has_failed() }),
    }
}

/// What a process does that was told to connect everybody, and has no room for them.
pub(crate) const NO_ROOM: Choice = Choice { policy: Policy::OnDemand, why: Why::NoRoom };
