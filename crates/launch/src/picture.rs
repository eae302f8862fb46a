//! What `--dry-run` prints: where ranks would live, and the tree of agents. Pure.
use crate::job::{Group, Tree};
use crate::launcher::Spot;
use proto::ids::{NodeId, Rank};
use serde_json::{Value, json};
use std::fmt::Write;

/// Draws a job that is not started.
pub(crate) fn draw(tree: &Tree, group: &Group, cores: &[usize]) -> String {
    let placement = &group.placement;
    let mut text =
        format!("{} on {}\n\n", counted(placement.ranks(), "rank"), counted(placement.nodes(), "node"));
    text.push_str("  rank   node  local   core  program\n");
    let binding = tree.binding(cores);
    for rank in (0..placement.ranks()).map(Rank) {
        let (node, local) = (placement.node_of(rank).0, placement.local_of(rank));
        let core = listed(binding.at(tree.turn(rank, local)));
        let program = group.programs[group.section_of(rank)].name();
        let host = tree.host_of(group.node_of(rank)).map_or_else(String::new, |host| format!("{host}: "));
        writeln!(text, "{:>6} {node:>6} {local:>6} {core:>6}  {host}{program}", rank.0)
            .expect("a string takes all");
    }
    text.push_str("\nlauncher\n");
    draw_agent(tree, group, NodeId(0), "", Place::Last, &mut text);
    text
}

/// The same for scripts.
pub(crate) fn json(tree: &Tree, group: &Group, cores: &[usize]) -> Value {
    let placement = &group.placement;
    let binding = tree.binding(cores);
    let rank = |rank: Rank| {
        let local = placement.local_of(rank);
        json!({
            "rank": rank.0,
            "node": placement.node_of(rank).0,
            "local_rank": local,
            "processors": binding.at(tree.turn(rank, local)),
            "host": tree.host_of(group.node_of(rank)),
            "program": group.programs[group.section_of(rank)].name(),
        })
    };
    let ranks: Vec<Value> = (0..placement.ranks()).map(Rank).map(rank).collect();
    json!({ "nodes": placement.nodes(), "ranks": ranks })
}

/// `0`, `0-3` or `0,2`; `-` for none.
pub(crate) fn listed(cores: &[usize]) -> String {
    match cores {
        [] => "-".into(),
        [only] => only.to_string(),
        [first, .., last] if last - first + 1 == cores.len() => format!("{first}-{last}"),
        all => all.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    }
}

/// Where among its siblings an agent stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Inner,
    Last,
}

fn draw_agent(tree: &Tree, group: &Group, node: NodeId, indent: &str, place: Place, text: &mut String) {
    let (branch, below) = match place {
        Place::Inner => ("├─ ", "│  "),
        Place::Last => ("└─ ", "   "),
    };
    let spot = Spot { node, host: tree.host_of(node).map(str::to_owned) };
    writeln!(text, "{indent}{branch}agent of {spot}: {}", ranks_on(group, node)).expect("a string takes all");
    let indent = format!("{indent}{below}");
    let mut children = tree.shape.children(node).peekable();
    while let Some(child) = children.next() {
        let place = if children.peek().is_some() { Place::Inner } else { Place::Last };
        draw_agent(tree, group, child, &indent, place, text);
    }
}

/// `rank 3`, `ranks 0-3`, `ranks 0,2,4`.
pub(crate) fn ranks_on(group: &Group, node: NodeId) -> String {
    /// More than so many numbers are not listed.
    const LISTED_MAX: usize = 16;
    let ranks = group.ranks_on(node);
    let (Some(first), Some(last)) = (ranks.first(), ranks.last()) else { return "no ranks".into() };
    if ranks.len() == 1 {
        return format!("rank {first}");
    }
    if (last.0 - first.0) as usize + 1 == ranks.len() {
        return format!("ranks {first}-{last}");
    }
    let listed: Vec<String> = ranks.iter().take(LISTED_MAX).map(Rank::to_string).collect();
    let more = if ranks.len() > LISTED_MAX { ",..." } else { "" };
    format!("ranks {}{more}", listed.join(","))
}

/// `: PROGRAM, PROGRAM`, or nothing.
pub(crate) fn programs_on(group: &Group, node: NodeId) -> String {
    let mut sections: Vec<usize> =
        group.ranks_on(node).into_iter().map(|rank| group.section_of(rank)).collect();
    sections.sort_unstable();
    sections.dedup();
    let path = |section: &usize| group.programs[*section].path.to_string_lossy().into_owned();
    let paths = sections.iter().map(path).collect::<Vec<_>>().join(", ");
    if paths.is_empty() { paths } else { format!(": {paths}") }
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::plan;
    use crate::spec::MapBy;
    use crate::spec::{Bind, JobSpec};

    fn drawn(spec: &JobSpec) -> String {
        let (tree, group) = plan(spec).unwrap();
        draw(&tree, &group, &sys::limit::allowed_cores().unwrap())
    }

    #[test]
    fn placement_and_tree_are_drawn() {
        let spec = JobSpec { nodes: 10, ..JobSpec::new("sh", Vec::new(), 11) };
        let text = drawn(&spec);
        assert!(text.starts_with("11 ranks on 10 nodes\n"), "{text}");
        assert!(text.contains("\n     1      0      1      -  sh\n"), "{text}");
        let tree = "launcher\n└─ agent of node 0: ranks 0-1\n   ├─ agent of node 1: rank 2\n   │  └─ agent of node 9: rank 10\n";
        assert!(text.contains(tree), "{text}");
        assert!(text.ends_with("   └─ agent of node 8: rank 9\n"), "{text}");
    }

    #[test]
    fn hosts_are_named() {
        let spec = JobSpec {
            bootstrap: crate::bootstrap::Bootstrap::Slurm,
            hosts: vec!["n1".into(), "n2".into()],
            slots: vec![2, 1],
            ..JobSpec::new("sh", Vec::new(), 3)
        };
        let text = drawn(&spec);
        assert!(text.contains("\n     2      1      0      -  n2: sh\n"), "{text}");
        let tree = "└─ agent of host localhost: no ranks\n   ├─ agent of host n1: ranks 0-1\n   └─ agent of host n2: rank 2\n";
        assert!(text.ends_with(tree), "{text}");
    }

    #[test]
    fn cores_and_scattered_ranks_are_shown() {
        let spec = JobSpec { nodes: 2, map: MapBy::Node, ..JobSpec::new("sh", Vec::new(), 5) };
        let core = sys::limit::allowed_cores().unwrap()[0];
        let spec = JobSpec { bind: Bind::User(vec![core]), ..spec };
        let text = drawn(&spec);
        assert!(text.contains("agent of node 0: ranks 0,2,4\n"), "{text}");
        assert!(text.contains(&format!("\n     3      1      1 {core:>6}  sh\n")), "{text}");
    }

    #[test]
    fn groups_of_processors_are_listed() {
        let tree = |bind| plan(&JobSpec { bind, ..JobSpec::new("sh", Vec::new(), 3) }).unwrap().0;
        let shown = |bind, cores: &[usize]| {
            let binding = tree(bind).binding(cores);
            (0..3).map(|turn| listed(binding.at(turn))).collect::<Vec<_>>()
        };
        assert_eq!(shown(Bind::None, &[0, 1]), ["-", "-", "-"]);
        assert_eq!(shown(Bind::Core, &[0, 1]), ["0", "1", "0"]);
        assert_eq!(shown(Bind::Several(2), &[0, 1, 4, 6, 7]), ["0-1", "4,6", "0-1"]);
        assert_eq!(shown(Bind::Several(4), &[0, 1]), ["0-1", "0-1", "0-1"]);
    }
}
