//! Members as another process understands them, who numbers processes in its own way: runs of ranks of jobs, in words.
//!
//! `count` runs, and of each: job, first rank (upper half) and length, stride. The members of a job in the usual order
//! are one run, however many they are.
use super::members::Members;
use super::*;
use crate::error::{ErrorClass, Result, fail};
use net::{Job, Process, Rank};

/// Words of a run.
const RUN_WORDS: usize = 3;

/// Ranks of one job at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    job: Job,
    first: u32,
    count: u32,
    stride: i64,
}

impl Run {
    fn last(&self) -> i64 {
        i64::from(self.first) + self.stride * (i64::from(self.count) - 1)
    }

    /// Makes it longer by one rank, if that is the next one.
    fn take(&mut self, job: Job, rank: u32) -> bool {
        let step = i64::from(rank) - self.last();
        let fits = job == self.job && (self.count == 1 || step == self.stride);
        if fits {
            (self.stride, self.count) = (step, self.count + 1);
        }
        fits
    }

    fn words(self) -> [u64; RUN_WORDS] {
        [self.job.0, u64::from(self.first) << 32 | u64::from(self.count), self.stride as u64]
    }

    fn parse(words: &[u64]) -> Run {
        let (first, count) = ((words[1] >> 32) as u32, words[1] as u32);
        Run { job: Job(words[0]), first, count, stride: words[2] as i64 }
    }

    /// The ranks, unless one cannot be.
    fn ranks(self) -> Option<impl Iterator<Item = Rank>> {
        let span = self.stride.checked_mul(i64::from(self.count) - 1)?;
        let last = i64::from(self.first).checked_add(span)?;
        (self.count > 0 && u32::try_from(last).is_ok()).then(|| {
            (0..self.count).map(move |i| Rank((i64::from(self.first) + i64::from(i) * self.stride) as u32))
        })
    }
}

impl Mpi {
    /// Says who the members are.
    pub(super) fn describe(&self, members: &Members) -> Vec<u64> {
        let mut runs: Vec<Run> = Vec::new();
        for process in members.iter() {
            let (job, rank) = self.name_of(process);
            if !runs.last_mut().is_some_and(|run| run.take(job, rank.0)) {
                runs.push(Run { job, first: rank.0, count: 1, stride: 1 });
            }
        }
        let mut words = vec![runs.len() as u64];
        runs.into_iter().for_each(|run| words.extend(run.words()));
        words
    }

    /// Understands what [`Mpi::describe`] of another process says.
    pub(super) fn recognize(&self, words: &[u64]) -> Result<Members> {
        let nonsense = || fail(ErrorClass::Intern, "a list of members that makes no sense");
        let Some((&count, rest)) = words.split_first() else { return nonsense() };
        if rest.len() as u64 != count.saturating_mul(RUN_WORDS as u64) {
            return nonsense();
        }
        let mut numbers = Vec::new();
        for run in rest.chunks_exact(RUN_WORDS).map(Run::parse) {
            let Some(ranks) = run.ranks() else { return nonsense() };
            for rank in ranks {
                let peer = net::Peer::Rank { job: run.job, rank };
                match self
                    .endpoint
                    .process(peer)
                    .filter(|process| self.endpoint.peer_of(*process) == Some(peer))
                {
                    Some(process) => numbers.push(process.0),
                    None => {
                        return fail(ErrorClass::Comm, format!("{peer} of job {} is not known here", run.job));
                    }
                }
            }
        }
        Ok(Members::listed(numbers))
    }

    /// Job and rank of a process; a number that is nobody's is a rank that the own job does not have.
    fn name_of(&self, process: Process) -> (Job, Rank) {
        match self.endpoint.peer_of(process) {
            Some(net::Peer::Rank { job, rank }) => (job, rank),
            _ => (self.endpoint.me().job(), Rank(process.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_they_can_be_and_come_back() {
        let ranks = |run: Run| run.ranks().map(|ranks| ranks.map(|rank| rank.0).collect::<Vec<_>>());
        let mut run = Run { job: Job(7), first: 9, count: 1, stride: 1 };
        assert!(run.take(Job(7), 6) && run.take(Job(7), 3));
        assert!(!run.take(Job(7), 1) && !run.take(Job(8), 0));
        assert_eq!(ranks(run), Some(vec![9, 6, 3]));
        assert_eq!(Run::parse(&run.words()), run);
        for wrong in [Run { count: 5, ..run }, Run { count: 0, ..run }, Run { stride: i64::MIN, ..run }] {
            assert_eq!(ranks(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn who_is_described_is_recognized_and_nonsense_is_not() {
        let mpi = Mpi::start().expect("a process alone");
        let words = mpi.describe(&Members::alone(mpi.me()));
        assert_eq!(words.len(), 1 + RUN_WORDS);
        let members = mpi.recognize(&words).expect("itself");
        assert_eq!(members.iter().collect::<Vec<_>>(), [mpi.me()]);
        assert_eq!(mpi.recognize(&[0]).expect("nobody").len(), 0);
        for wrong in [vec![], vec![1], vec![2, 0, 1, 1], vec![u64::MAX, 0, 1, 1], vec![1, 0, 1 << 32 | 1, 1]]
        {
            assert!(mpi.recognize(&wrong).is_err(), "{wrong:?}");
        }
    }
}
