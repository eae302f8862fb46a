//! What a process knows of its job: its rank, and who lives where.
//!
//! The placement of ranks on nodes comes from the launcher as a few blocks and stays a few blocks: a job of a
//! million ranks in the usual order costs a process sixteen bytes, not a table. Without a launcher the
//! process is a job of its own.
use crate::pmi::{Client, PmiError};
use proto::ids::{NodeId, Rank};
use proto::placement::Placement;

/// The job, as seen by one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// This process.
    pub rank: Rank,
    /// How many processes the job has.
    pub size: u32,
    /// How many ranks of this process's node come before it.
    pub local_rank: u32,
    /// How many ranks live on this process's node.
    pub local_size: u32,
    /// Who lives where.
    pub placement: Placement,
}

impl JobFacts {
    /// Asks the launcher. If it does not tell the placement, all processes exchange their host names, which
    /// takes a fence. Without a launcher the process is rank 0 of 1.
    pub fn discover(client: Option<&mut Client>) -> Result<Self, PmiError> {
        match client {
            Some(client) => Ok(Self::new(client.rank(), placement(client)?)),
            None => Ok(Self::new(Rank(0), Placement::one_node(1))),
        }
    }

    /// A job whose ranks are all on one node.
    #[cfg(test)]
    pub(crate) fn on_one_node(rank: Rank, size: u32) -> Self {
        Self::new(rank, Placement::one_node(size))
    }

    fn new(rank: Rank, placement: Placement) -> Self {
        let (node, size) = (placement.node_of(rank), placement.ranks());
        let (local_rank, local_size) = (placement.local_of(rank), placement.count(node));
        Self { rank, size, local_rank, local_size, placement }
    }

    /// Where a rank lives.
    pub fn node_of(&self, rank: Rank) -> NodeId {
        self.placement.node_of(rank)
    }
}

fn placement(client: &mut Client) -> Result<Placement, PmiError> {
    let (rank, size) = (client.rank(), client.size());
    match client.mapping()? {
        Some(text) => {
            let placement = Placement::parse(&text, size);
            placement.map_err(|why| PmiError::Placement { rank, why: why.to_string() })
        }
        None if size == 1 => Ok(Placement::one_node(1)),
        None => exchange_host_names(client),
    }
}

fn exchange_host_names(client: &mut Client) -> Result<Placement, PmiError> {
    let (rank, size) = (client.rank(), client.size());
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    client.put(&host_key(rank), own.trim())?;
    client.fence_begin()?;
    let mut names: Vec<String> = Vec::new();
    let mut nodes = Vec::new();
    for peer in (0..size).map(Rank) {
        let silent = || format!("there is none, and rank {peer} published no host name");
        let name = client.get(&host_key(peer))?;
        let name = name.ok_or_else(|| PmiError::Placement { rank, why: silent() })?;
        // From the end: ranks of a host mostly follow each other.
        let known = names.iter().rposition(|known| *known == name);
        nodes.push(NodeId(known.unwrap_or(names.len()) as u32));
        if known.is_none() {
            names.push(name);
        }
    }
    Placement::from_nodes(&nodes).map_err(|why| PmiError::Placement { rank, why: why.to_string() })
}

fn host_key(rank: Rank) -> String {
    format!("host-{rank}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_launcher_is_alone_on_its_node() {
        let facts = JobFacts::discover(None).unwrap();
        assert_eq!((facts.rank, facts.size, facts.node_of(Rank(0))), (Rank(0), 1, NodeId(0)));
        assert_eq!((facts.local_rank, facts.local_size), (0, 1));
    }
}
