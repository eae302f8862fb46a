//! What the agents counted, read from the statistics of a job.
use serde_json::Value;

/// One agent's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Messages to other agents.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Gets that this node answered: nobody put the key.
    pub absent_hits: u64,
    /// Most entries at a time.
    pub entries_peak: u64,
}

/// Those of all agents; the first is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(Vec<NodeCounters>);

impl Counters {
    /// From what `banyan run --stats=json` writes.
    pub fn parse(stats: &str) -> Result<Counters, String> {
        let stats: Value = serde_json::from_str(stats).map_err(|e| format!("the statistics: {e}"))?;
        let nodes = stats["board"]["nodes"].as_array().ok_or("the statistics have no board")?;
        let node = |value: &Value| -> Result<NodeCounters, String> {
            let field = |name: &str| {
                value[name]
                    .as_u64()
                    .ok_or_else(|| format!("the statistics of a board have no {name}: {value}"))
            };
            Ok(NodeCounters {
                messages: field("messages")?,
                bytes: field("bytes")?,
                absent_hits: field("absent_hits")?,
                entries_peak: field("entries_peak")?,
            })
        };
        let mut numbered = Vec::with_capacity(nodes.len());
        for value in nodes {
            numbered.push((value["node"].as_u64().ok_or("a board without its node")?, node(value)?));
        }
        numbered.sort_by_key(|(number, _)| *number);
        Ok(Counters(numbered.into_iter().map(|(_, node)| node).collect()))
    }

    /// Agents.
    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    /// Of all agents.
    pub fn messages(&self) -> u64 {
        self.0.iter().map(|node| node.messages).sum()
    }

    /// Of all agents.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|node| node.bytes).sum()
    }

    /// Of all agents.
    pub fn absent_hits(&self) -> u64 {
        self.0.iter().map(|node| node.absent_hits).sum()
    }

    /// The root's most entries.
    pub fn root_entries(&self) -> u64 {
        self.0.first().map_or(0, |root| root.entries_peak)
    }

    /// The most entries of any other agent.
    pub fn other_entries(&self) -> u64 {
        self.0.iter().skip(1).map(|node| node.entries_peak).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_summed_and_the_root_is_kept_apart() {
        let node = |number: u64, entries: u64| {
            format!(
                r#"{{"node": {number}, "messages": 3, "bytes": 50, "hits": 1, "absent_hits": 2, "entries_peak": {entries}}}"#
            )
        };
        let stats = format!(
            r#"{{"board": {{"kind": "hcs", "nodes": [{}, {}, {}]}}}}"#,
            node(2, 5),
            node(0, 9),
            node(1, 6)
        );
        let counters = Counters::parse(&stats).unwrap();
        assert_eq!(
            (counters.nodes(), counters.messages(), counters.bytes(), counters.absent_hits()),
            (3, 9, 150, 6)
        );
        assert_eq!((counters.root_entries(), counters.other_entries()), (9, 6));
    }

    #[test]
    fn statistics_without_a_board_say_so() {
        for (stats, word) in [
            ("", "statistics"),
            ("{}", "no board"),
            (r#"{"board": {"nodes": [{"node": 0, "messages": 1}]}}"#, "no bytes"),
        ] {
            let error = Counters::parse(stats).unwrap_err();
            assert!(error.contains(word), "{stats}: {error}");
        }
    }
}
