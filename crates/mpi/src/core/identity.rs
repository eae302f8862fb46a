//! Members as another process understands them, who numbers processes in its own way: runs of ranks of jobs, in words.
//!
//! ```text
//! number of runs; of each: job, first rank (upper half) and length, stride
//! number of jobs; of each: job, size and whether it is checked (upper half)
//! of each member: bytes of its card (0: the reader can find it out), then the card, in whole words
//! ```
//! The members of a job in the usual order are one run, however many they are. Cards go to readers of other jobs only:
//! what all know is described in a few words.
use super::members::Members;
use super::*;
use crate::error::{ErrorClass, Result, fail};
use net::{Job, Process, Rank};

/// Words of a run.
const RUN_WORDS: usize = 3;
/// Longer than any card.
const CARD_BYTES_MAX: usize = 1024;

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
    /// Says who the members are, to processes of the job `to`; `None`: to anybody.
    pub(super) fn describe(&mut self, members: &Members, to: Option<Job>) -> Vec<u64> {
        let (mut runs, mut jobs): (Vec<Run>, Vec<Job>) = (Vec::new(), Vec::new());
        for process in members.iter() {
            let (job, rank) = self.name_of(process);
            if !runs.last_mut().is_some_and(|run| run.take(job, rank.0)) {
                runs.push(Run { job, first: rank.0, count: 1, stride: 1 });
            }
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        let mut words = vec![runs.len() as u64];
        runs.into_iter().for_each(|run| words.extend(run.words()));
        words.push(jobs.len() as u64);
        for job in &jobs {
            let (size, checked) = (self.endpoint.size_of(*job).unwrap_or(0), self.is_checked(*job));
            words.extend([job.0, u64::from(checked) << 32 | u64::from(size)]);
        }
        if jobs.iter().any(|job| Some(*job) != to) {
            self.add_cards(members, to, &mut words);
        }
        words
    }

    fn add_cards(&mut self, members: &Members, to: Option<Job>, words: &mut Vec<u64>) {
        for process in members.iter() {
            let (job, rank) = self.name_of(process);
            let wanted = Some(job) != to;
            let card = wanted.then(|| self.endpoint.card_bytes(net::Peer::Rank { job, rank })).flatten();
            let card = card.unwrap_or_default();
            words.push(card.len() as u64);
            for part in card.chunks(8) {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                words.push(u64::from_le_bytes(word));
            }
        }
    }

    /// Understands what [`Mpi::describe`] of another process says. Jobs that were not known are known afterwards.
    /// `key` is what this job and theirs share, if they have just met.
    pub(super) fn recognize(&mut self, words: &[u64], key: Option<[u8; 32]>) -> Result<Members> {
        let mut reader = Reader(words);
        let described = reader.runs().and_then(|runs| Some((runs, reader.jobs()?)));
        let Some((runs, jobs)) = described else { return nonsense() };
        for (job, size, checked) in jobs {
            self.endpoint.meet(job, size);
            self.dynamic.note_checked(job, checked);
        }
        let mut numbers = Vec::new();
        let has_cards = !reader.0.is_empty();
        for run in runs {
            let Some(ranks) = run.ranks() else { return nonsense() };
            for rank in ranks {
                let peer = net::Peer::Rank { job: run.job, rank };
                let known = |process: &Process| self.endpoint.peer_of(*process) == Some(peer);
                let Some(process) = self.endpoint.process(peer).filter(known) else {
                    return fail(ErrorClass::Comm, format!("{peer} of job {} is not known here", run.job));
                };
                if has_cards {
                    let Some(card) = reader.card() else { return nonsense() };
                    let learned =
                        if card.is_empty() { Ok(()) } else { self.endpoint.learn(peer, &card, key) };
                    if learned.is_err() {
                        return nonsense();
                    }
                }
                numbers.push(process.0);
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

/// Reads a description; everything is `None` where it ends too early or says what cannot be.
struct Reader<'w>(&'w [u64]);

impl<'w> Reader<'w> {
    fn take(&mut self, count: u64) -> Option<&'w [u64]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    fn runs(&mut self) -> Option<Vec<Run>> {
        let count = self.take(1)?[0];
        let words = self.take(count.checked_mul(RUN_WORDS as u64)?)?;
        Some(words.chunks_exact(RUN_WORDS).map(Run::parse).collect())
    }

    fn jobs(&mut self) -> Option<Vec<(Job, u32, bool)>> {
        let count = self.take(1)?[0];
        let words = self.take(count.checked_mul(2)?)?;
        let job =
            |job: &[u64]| (job[1] >> 33 == 0).then_some((Job(job[0]), job[1] as u32, job[1] >> 32 == 1));
        words.chunks_exact(2).map(job).collect()
    }

    fn card(&mut self) -> Option<Vec<u8>> {
        let bytes = usize::try_from(self.take(1)?[0]).ok().filter(|bytes| *bytes <= CARD_BYTES_MAX)?;
        let words = self.take(bytes.div_ceil(8) as u64)?;
        let mut card: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        card.truncate(bytes);
        Some(card)
    }
}

#[cold]
fn nonsense<T>() -> Result<T> {
    fail(ErrorClass::Intern, "a list of members that makes no sense")
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
        let mut mpi = Mpi::start().expect("a process alone");
        let (me, own) = (mpi.me(), mpi.endpoint.me().job());
        let short = mpi.describe(&Members::alone(me), Some(own));
        assert_eq!(short.len(), 2 + RUN_WORDS + 2, "no card for those who know it");
        let long = mpi.describe(&Members::alone(me), None);
        assert!(long.len() > short.len());
        for words in [&short, &long] {
            let members = mpi.recognize(words, None).expect("itself");
            assert_eq!(members.iter().collect::<Vec<_>>(), [me]);
            for cut in 1..words.len() {
                let whole = words == &long && cut == short.len();
                assert_eq!(mpi.recognize(&words[..cut], None).is_ok(), whole, "{cut} words of {words:?}");
            }
        }
        assert_eq!(mpi.recognize(&[0, 0], None).expect("nobody").len(), 0);
        for wrong in
            [vec![], vec![1], vec![u64::MAX, 0, 1, 1], vec![0, u64::MAX], vec![1, own.0, 1 << 32 | 1, 1, 0]]
        {
            assert!(mpi.recognize(&wrong, None).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn processes_of_another_job_are_met_and_forgotten() {
        let mut mpi = Mpi::start().expect("a process alone");
        let mut words = mpi.describe(&Members::alone(mpi.me()), None);
        (words[1], words[5]) = (7, 7); // as if it were of job 7, which has four ranks
        words[6] = 4;
        let members = mpi.recognize(&words, None).expect("a process of job 7");
        assert_eq!(members.iter().collect::<Vec<_>>(), [Process(1)], "behind this job's only rank");
        assert_eq!(mpi.endpoint.size_of(Job(7)), Some(4));
        mpi.endpoint.forget_job(Job(7));
        assert_eq!((mpi.endpoint.size_of(Job(7)), mpi.endpoint.peer_of(Process(1))), (None, None));
    }
}
