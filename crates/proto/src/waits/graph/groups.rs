//! Processes in the same situation, and what nearly fits what they wait for.
use super::Graph;
use crate::waits::explained::{GROUPS_MAX, Group};
use crate::waits::words::{Line, Naming, comm_name, tag_words};
use crate::waits::{Arrived, Need, Place, Who};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// More groups than so many are joined where they differ in ranks only.
const GROUPS_APART: usize = 8;
/// Near misses that are told of one process.
const MISSES_MAX: usize = 3;

impl Graph<'_> {
    pub(in crate::waits) fn groups(&self) -> Vec<Group> {
        let lines: Vec<(Line, Vec<Line>)> =
            (0..self.seen.len()).map(|at| (self.does(at), self.near_misses(at))).collect();
        let grouped = |naming: &dyn Fn(usize) -> Naming| {
            let mut groups: Vec<Group> = Vec::new();
            let mut places: BTreeMap<(String, Vec<String>), usize> = BTreeMap::new();
            for (at, (line, remarks)) in lines.iter().enumerate() {
                let has_ranks = line.has_ranks() || remarks.iter().any(Line::has_ranks);
                let naming = if has_ranks { naming(at) } else { Naming::Number };
                let remarks: Vec<String> = remarks.iter().map(|line| line.text(naming)).collect();
                let key = (line.text(naming), remarks);
                let place = *places.entry(key.clone()).or_insert_with(|| {
                    let (text, remarks) = key;
                    groups.push(Group { members: Vec::new(), waited_ms: None, text, remarks });
                    groups.len() - 1
                });
                let group = &mut groups[place];
                group.members.push(self.seen[at].member);
                let waited_ms = self.place(at).map(|place| place.waited_ms).filter(|ms| *ms > 0);
                group.waited_ms = group.waited_ms.max(waited_ms);
            }
            groups
        };
        let apart = grouped(&|_| Naming::Number);
        if apart.len() <= GROUPS_APART {
            return apart;
        }
        let by_distance = grouped(&|at| Naming::From(self.seen[at].member));
        let fewer = if by_distance.len() < apart.len() { by_distance } else { apart };
        if fewer.len() <= GROUPS_MAX {
            return fewer;
        }
        let alike = grouped(&|_| Naming::Nothing);
        if alike.len() < fewer.len() { alike } else { fewer }
    }

    /// Messages that wait at a process, and would be what it waits for but for one thing.
    fn near_misses(&self, at: usize) -> Vec<Line> {
        let Some(place) = self.place(at) else { return Vec::new() };
        let mut misses: Vec<(u8, Line)> = Vec::new();
        for need in &place.needs {
            let Need::Message { comm, from, tag, .. } = need else { continue };
            let near =
                place.arrived.iter().filter_map(|there| self.near_miss(place, (*comm, *from, *tag), there));
            misses.extend(near);
        }
        misses.sort_by_key(|(rank, _)| *rank);
        let mut seen = BTreeSet::new();
        misses.retain(|(_, line)| seen.insert(line.clone()));
        let mut lines: Vec<Line> = misses.into_iter().map(|(_, line)| line).take(MISSES_MAX).collect();
        let looks = place.needs.iter().any(|need| matches!(need, Need::Message { .. }));
        if let (true, true, Some(first)) = (looks, lines.is_empty(), place.arrived.first()) {
            let all = place.arrived.len() as u32 + place.arrived_more;
            let line = Line::default().words(format!("no message here fits: {all} wait, the first from "));
            let on = place.comms.get(usize::from(first.comm)).map_or_else(String::new, comm_name);
            let line = line.then(self.named(first.from));
            lines.push(line.words(format!(" with tag {} on {on}", first.tag)));
        }
        lines
    }

    /// What is amiss, and how near that is.
    fn near_miss(
        &self,
        place: &Place,
        (comm, from, tag): (u16, Option<Who>, Option<i32>),
        there: &Arrived,
    ) -> Option<(u8, Line)> {
        let is_comm = there.comm == comm;
        let is_from = from.is_none_or(|from| from == there.from);
        let is_tag = tag.is_none_or(|tag| tag == there.tag);
        let line = Line::default().words("a message from ").then(self.named(there.from));
        let line = line.words(format!(" with tag {}", there.tag));
        let name = |comm: u16| place.comms.get(usize::from(comm)).map_or_else(String::new, comm_name);
        match (is_comm, is_from, is_tag) {
            (true, true, false) => {
                Some((0, line.words(format!(" waits here; what is asked for has {}", tag_words(tag)))))
            }
            (true, false, true) => {
                let line = line.words(" waits here; what is asked for is from ");
                Some((1, line.then(self.named(from?))))
            }
            (false, true, true) => {
                let (there, asked) = (name(there.comm), name(comm));
                Some((2, line.words(format!(" waits here on {there}; what is asked for is on {asked}"))))
            }
            _ => None,
        }
    }
}
