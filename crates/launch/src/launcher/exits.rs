//! How each rank ended, for who wants to know it of all. Pure.
use super::cause::{Ranks, Words};
use crate::job::Group;
use proto::ids::Rank;
use proto::lane::JobId;
use proto::tree::{Ended, Member};
use std::collections::BTreeMap;

/// Members by the way they ended.
#[derive(Debug, Default)]
pub(super) struct Exits(BTreeMap<(JobId, Way), Vec<Rank>>);

/// A way to end: killed by a signal or not, and the number.
type Way = (bool, i32);

impl Exits {
    pub(super) fn add(&mut self, member: Member, ended: Ended) {
        let way = match ended {
            Ended::Exit(code) => (false, code),
            Ended::Signal(signal) => (true, signal),
        };
        self.0.entry((member.job, way)).or_default().push(member.rank);
    }

    /// A line for each way. Ranks of the first job of which nothing was heard are named, too.
    pub(super) fn lines(&self, first: &Group) -> Vec<String> {
        let line = |(&(job, (is_signal, number)), ranks): (&(JobId, Way), &Vec<Rank>)| {
            let ended = if is_signal { Ended::Signal(number) } else { Ended::Exit(number) };
            let of_job = if job == JobId(0) { String::new() } else { format!(" of spawned job {}", job.0) };
            format!("{}{of_job}: {}", Ranks(ranks), Words(ended))
        };
        let mut heard: Vec<Rank> = self
            .0
            .iter()
            .filter(|((job, _), _)| *job == first.id)
            .flat_map(|(_, ranks)| ranks)
            .copied()
            .collect();
        heard.sort_unstable();
        let is_silent = |rank: &Rank| heard.binary_search(rank).is_err();
        let silent: Vec<Rank> = (0..first.ranks()).map(Rank).filter(is_silent).collect();
        let last = (!silent.is_empty()).then(|| format!("{}: not heard of", Ranks(&silent)));
        self.0.iter().map(line).chain(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::plan;
    use crate::spec::JobSpec;

    #[test]
    fn ranks_are_listed_by_the_way_they_ended() {
        let (_, group) = plan(&JobSpec::new("sh", Vec::new(), 6)).unwrap();
        let mut exits = Exits::default();
        for (rank, ended) in
            [(3, Ended::Exit(0)), (1, Ended::Signal(9)), (0, Ended::Exit(0)), (2, Ended::Exit(0))]
        {
            exits.add(group.member(Rank(rank)), ended);
        }
        exits.add(Member { job: JobId(1), rank: Rank(0) }, Ended::Exit(7));
        let expected = [
            "ranks 0 and 2-3: exited with code 0",
            "rank 1: killed by signal 9 (Killed)",
            "rank 0 of spawned job 1: exited with code 7",
            "ranks 4-5: not heard of",
        ];
        assert_eq!(exits.lines(&group), expected);
    }
}
