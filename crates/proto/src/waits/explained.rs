//! The answer to why a job hangs, and its lines for a screen.
use super::graph::Graph;
use super::words::{ranges, seconds};
use super::{Seen, ServerSeen, Standing};
use crate::tree::Member;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Lines of groups that fill a screen.
pub(super) const GROUPS_MAX: usize = 20;

/// Processes in the same situation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Who.
    pub members: Vec<Member>,
    /// How long the one that has waited longest does, if they wait.
    pub waited_ms: Option<u32>,
    /// What they do.
    pub text: String,
    /// What nearly fits.
    pub remarks: Vec<String>,
}

/// Why a job hangs, as far as can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// Processes of the jobs.
    pub processes: u32,
    /// Those that wait.
    pub waiting: u32,
    /// How long the one that has waited longest does.
    pub longest_ms: u32,
    /// All of them, by situation.
    pub groups: Vec<Group>,
    /// What follows: cycles first, then who keeps others waiting.
    pub verdicts: Vec<String>,
}

impl Explained {
    /// For a screen.
    pub fn lines(&self) -> Vec<String> {
        let plural = if self.processes == 1 { "process" } else { "processes" };
        let mut lines = vec![match self.waiting {
            0 => format!("none of {} {plural} waits in MPI", self.processes),
            waiting => format!(
                "{waiting} of {} {plural} wait in MPI, the longest for {}",
                self.processes,
                seconds(self.longest_ms)
            ),
        }];
        for group in self.groups.iter().take(GROUPS_MAX) {
            let waited = group.waited_ms.map_or_else(String::new, |ms| format!(" ({})", seconds(ms)));
            lines.push(format!("  {}: {}{waited}", ranges(&group.members), group.text));
            lines.extend(group.remarks.iter().map(|remark| format!("      {remark}")));
        }
        if let Some(rest) = self.groups.get(GROUPS_MAX..).filter(|rest| !rest.is_empty()) {
            let members: usize = rest.iter().map(|group| group.members.len()).sum();
            lines.push(format!("  and {members} more processes in {} other situations", rest.len()));
        }
        lines.extend(self.verdicts.iter().map(|verdict| format!("  => {verdict}")));
        lines
    }
}

/// Joins what all processes have said.
pub fn explain(seen: &[Seen], servers: &[ServerSeen]) -> Explained {
    let graph = Graph::new(seen, servers);
    let waits = seen.iter().filter_map(|seen| match &seen.standing {
        Standing::Told(place) => Some(place.waited_ms),
        _ => None,
    });
    Explained {
        processes: seen.len() as u32,
        waiting: waits.clone().count() as u32,
        longest_ms: waits.max().unwrap_or(0),
        groups: graph.groups(),
        verdicts: graph.verdicts(),
    }
}
