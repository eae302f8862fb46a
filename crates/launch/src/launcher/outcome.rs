//! How a job ends: what counts as a failure, which one was first, and the exit code. Pure.
use super::cause::{Cause, Who, code_of};
use proto::lane::JobId;
use proto::tree::{Ended, Member, PmiState};
use std::collections::BTreeMap;

/// What the launcher should do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on.
    Wait,
    /// A rank failed after it was done with MPI, or just left. The others are probably about to end by
    /// themselves: give them a moment, so that their codes count, then call [`Outcome::settle`].
    Settle,
    /// All ranks have ended: finish.
    Finish,
    /// End the job: [`Outcome::cause`] says why.
    End,
}

/// The record of the ranks of all jobs in the tree.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    jobs: BTreeMap<JobId, Joined>,
    /// Ranks that have not ended.
    left: u32,
    worst: i32,
    cause: Option<Cause>,
    /// The last words of the rank that is the cause.
    words: String,
    settling: Option<(Cause, String)>,
}

/// Who of a job has, or has not, joined the others.
#[derive(Debug, Default)]
struct Joined {
    /// Ranks that have not ended.
    left: u32,
    /// The first rank that ended without ever beginning PMI, and its last words.
    outsider: Option<(Who, Ended, String)>,
    /// A rank that waits, or has waited, in a barrier of the whole job.
    waiting: Option<Member>,
}

impl Outcome {
    /// A job of so many ranks begins.
    pub(crate) fn begin(&mut self, job: JobId, ranks: u32) {
        self.left += ranks;
        self.jobs.insert(job, Joined { left: ranks, ..Joined::default() });
    }

    /// Nothing more is heard of a spawned job. Was it the last one that others waited for?
    pub(crate) fn forget(&mut self, job: JobId) -> Step {
        let joined = self.jobs.remove(&job).unwrap_or_default();
        self.left = self.left.saturating_sub(joined.left);
        if joined.left > 0 && self.left == 0 && self.cause.is_none() { Step::Finish } else { Step::Wait }
    }

    /// Have all ranks of a job ended?
    pub(crate) fn is_over(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_none_or(|joined| joined.left == 0)
    }

    /// Why the job was ended, if it was.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// The same in words, with the last ones of the rank that is to blame.
    pub(crate) fn why(&self) -> Option<String> {
        Some(self.cause.as_ref()?.told(&self.words))
    }

    /// The job's exit code.
    pub(crate) fn exit_code(&self) -> i32 {
        match &self.cause {
            Some(cause @ (Cause::Signalled(_) | Cause::TimedOut(_))) => cause.exit_code(),
            Some(cause) => self.worst.max(cause.exit_code()),
            None => self.worst,
        }
    }

    /// Something ends the job. Only the first cause counts.
    pub(crate) fn fail(&mut self, cause: Cause) -> Step {
        self.fail_with(cause, String::new())
    }

    /// The same, with the last words of a rank.
    fn fail_with(&mut self, cause: Cause, words: String) -> Step {
        if self.cause.is_some() {
            return Step::Wait;
        }
        let is_order = matches!(cause, Cause::Signalled(_) | Cause::TimedOut(_));
        let (cause, words) = match self.settling.take() {
            // A rank that just left is what the others stumbled over.
            Some(earlier @ (Cause::LeftEarly(..), _)) if !is_order => earlier,
            _ => (cause, words),
        };
        self.cause = Some(cause);
        self.words = words;
        Step::End
    }

    /// A rank ended, with these last words.
    pub(crate) fn rank_ended(&mut self, who: Who, ended: Ended, pmi: PmiState, words: String) -> Step {
        let job = who.member.job;
        self.count_out(job);
        if self.cause.is_some() {
            return Step::Wait; // clean-up has begun: what it does to ranks does not count
        }
        self.worst = self.worst.max(code_of(ended));
        let all_ended = self.left == 0;
        match (ended, pmi) {
            (Ended::Signal(signal), _) => self.fail_with(Cause::Killed(who, signal), words),
            (Ended::Exit(code), PmiState::Active) if code != 0 => {
                self.fail_with(Cause::Failed(who, code), words)
            }
            (Ended::Exit(0), PmiState::Active) => {
                self.left_early(who, words);
                if all_ended { self.settle() } else { Step::Settle }
            }
            _ if all_ended && self.has_left_early() => self.settle(),
            _ if all_ended => Step::Finish,
            (_, PmiState::Unused) => {
                self.jobs.entry(job).or_default().outsider.get_or_insert((who, ended, words));
                self.check_joined(job)
            }
            (Ended::Exit(code), PmiState::Finalized) if code != 0 => {
                self.settling.get_or_insert((Cause::Failed(who, code), words));
                Step::Settle
            }
            _ => Step::Wait,
        }
    }

    /// A job that had parted from all others has failed: nobody else has to end, but it counts.
    pub(crate) fn lose(&mut self, job: JobId, cause: &Cause) -> Step {
        self.worst = self.worst.max(cause.exit_code());
        self.forget(job)
    }

    /// A rank ended that nobody waits for, whatever its code; the code counts.
    pub(crate) fn rank_ended_alone(&mut self, job: JobId, ended: Ended) -> Step {
        self.count_out(job);
        if self.cause.is_some() {
            return Step::Wait;
        }
        self.worst = self.worst.max(code_of(ended));
        if self.left == 0 { Step::Finish } else { Step::Wait }
    }

    /// One rank of a job has gone.
    fn count_out(&mut self, job: JobId) {
        self.left = self.left.saturating_sub(1);
        let joined = self.jobs.entry(job).or_default();
        joined.left = joined.left.saturating_sub(1);
    }

    /// A rank exited with code 0 although it had begun PMI and not finalized it. That is an abnormal end, even
    /// if no other rank suffers from it.
    fn left_early(&mut self, who: Who, words: String) {
        match &mut self.settling {
            Some((Cause::LeftEarly(first, others), _)) if first.member.job == who.member.job => {
                others.push(who.member.rank);
            }
            Some(_) => {}
            None => self.settling = Some((Cause::LeftEarly(who, Vec::new()), words)),
        }
    }

    fn has_left_early(&self) -> bool {
        matches!(self.settling, Some((Cause::LeftEarly(..), _)))
    }

    /// A rank waits in a barrier.
    pub(crate) fn fence_begun(&mut self, who: Member) -> Step {
        if let Some(joined) = self.jobs.get_mut(&who.job) {
            joined.waiting.get_or_insert(who);
        }
        self.check_joined(who.job)
    }

    /// A barrier needs all ranks of its job: with one that is gone and never joined, it cannot end.
    fn check_joined(&mut self, job: JobId) -> Step {
        match self.jobs.get(&job) {
            Some(Joined { outsider: Some((who, ended, words)), waiting: Some(waiting), .. }) => {
                let (cause, words) = (Cause::NeverJoined(who.clone(), *ended, *waiting), words.clone());
                self.fail_with(cause, words)
            }
            _ => Step::Wait,
        }
    }

    /// The moment given by [`Step::Settle`] is over.
    pub(crate) fn settle(&mut self) -> Step {
        match self.settling.take() {
            Some((cause, words)) => self.fail_with(cause, words),
            None => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cause::Spot;
    use super::*;
    use proto::ids::{NodeId, Rank};

    fn outcome(ranks: u32) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.begin(JobId(0), ranks);
        outcome
    }

    fn member(rank: u32) -> Member {
        Member { job: JobId(0), rank: Rank(rank) }
    }

    /// Four ranks on each node.
    fn who(rank: u32) -> Who {
        let spot = Spot { node: NodeId(rank / 4), host: None };
        Who { member: member(rank), pid: 100 + rank as i32, spot }
    }

    fn end(outcome: &mut Outcome, rank: u32, ended: Ended, pmi: PmiState) -> Step {
        outcome.rank_ended(who(rank), ended, pmi, String::new())
    }

    #[test]
    fn the_exit_code_is_the_maximum() {
        let mut job = outcome(4);
        for (rank, code, step) in
            [(0, 0, Step::Wait), (1, 3, Step::Wait), (2, 2, Step::Wait), (3, 0, Step::Finish)]
        {
            assert_eq!(end(&mut job, rank, Ended::Exit(code), PmiState::Unused), step);
        }
        assert_eq!((job.exit_code(), job.cause()), (3, None));
    }

    #[test]
    fn a_signal_ends_the_job_and_what_clean_up_does_is_not_counted() {
        let mut job = outcome(4);
        assert_eq!(end(&mut job, 3, Ended::Signal(11), PmiState::Unused), Step::End);
        assert_eq!(end(&mut job, 0, Ended::Signal(15), PmiState::Active), Step::Wait);
        assert_eq!(job.exit_code(), 139);
        let text = job.cause().unwrap().to_string();
        assert_eq!(text, "rank 3 (pid 103, node 0) was killed by signal 11 (Segmentation fault)");
    }

    #[test]
    fn a_failure_inside_mpi_ends_the_job_but_a_plain_program_just_exits() {
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(5), PmiState::Unused), Step::Wait);
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(5), PmiState::Active), Step::End);
        assert_eq!(job.exit_code(), 5);
    }

    #[test]
    fn leaving_without_finalize_is_an_error_and_all_who_did_are_named() {
        let mut job = outcome(8);
        assert_eq!(end(&mut job, 3, Ended::Exit(0), PmiState::Active), Step::Settle);
        for rank in [7, 0, 1] {
            assert_eq!(end(&mut job, rank, Ended::Exit(0), PmiState::Active), Step::Settle);
        }
        assert_eq!(end(&mut job, 2, Ended::Exit(0), PmiState::Finalized), Step::Wait);
        assert_eq!(job.settle(), Step::End);
        let text = "rank 3 (pid 103, node 0) exited with code 0 but without MPI_Finalize, and so did ranks 0-1 and 7";
        assert_eq!((job.exit_code(), job.why().unwrap().as_str()), (1, text));
    }

    #[test]
    fn leaving_without_finalize_is_an_error_for_the_last_rank_too() {
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Finalized), Step::Wait);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Active), Step::End);
        assert_eq!(job.exit_code(), 1);
        let mut job = outcome(2);
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Active), Step::Settle);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Finalized), Step::End);
        assert_eq!(job.exit_code(), 1);
    }

    #[test]
    fn who_stumbles_over_a_rank_that_left_is_not_the_cause() {
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Active), Step::Settle);
        assert_eq!(end(&mut job, 0, Ended::Exit(9), PmiState::Active), Step::End);
        assert!(matches!(job.cause(), Some(Cause::LeftEarly(who, _)) if who.member.rank == Rank(1)));
        assert_eq!(job.exit_code(), 9);
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Active), Step::Settle);
        assert_eq!(job.fail(Cause::Signalled(2)), Step::End);
        assert_eq!(job.exit_code(), 130);
    }

    #[test]
    fn last_words_are_told_with_the_cause_they_belong_to() {
        let mut job = outcome(2);
        job.rank_ended(who(1), Ended::Signal(6), PmiState::Active, "out of memory".into());
        let text =
            "rank 1 (pid 101, node 0) was killed by signal 6 (Aborted); its last words: \"out of memory\"";
        assert_eq!(job.why().unwrap(), text);
        let mut job = outcome(2);
        job.rank_ended(who(1), Ended::Exit(2), PmiState::Unused, "no such file".into());
        assert_eq!(job.fence_begun(member(0)), Step::End);
        assert!(job.why().unwrap().ends_with("; its last words: \"no such file\""));
        let mut job = outcome(2);
        job.fail(Cause::OutputClosed);
        assert_eq!(job.why().unwrap(), "standard output was closed");
    }

    #[test]
    fn codes_after_finalize_are_collected_for_a_moment() {
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 0, Ended::Exit(1), PmiState::Finalized), Step::Settle);
        assert_eq!(end(&mut job, 1, Ended::Exit(2), PmiState::Finalized), Step::Settle);
        assert_eq!(job.settle(), Step::End);
        assert_eq!(job.exit_code(), 2);
    }

    #[test]
    fn an_abort_is_never_zero() {
        for (code, expected) in [(7, 7), (0, 1), (256, 1), (-1, 255)] {
            let mut job = outcome(2);
            assert_eq!(job.fail(Cause::Aborted(who(0), code, String::new())), Step::End);
            assert_eq!(job.exit_code(), expected);
        }
    }

    #[test]
    fn a_rank_that_ends_before_init_does_not_keep_the_others_waiting() {
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Unused), Step::Wait);
        assert_eq!(job.fence_begun(member(2)), Step::End);
        assert_eq!(job.exit_code(), 1);
        let text = job.cause().unwrap().to_string();
        assert_eq!(
            text,
            "rank 1 (pid 101, node 0) exited with code 0 before MPI_Init, and rank 2 waits for it"
        );
        let mut job = outcome(3);
        assert_eq!(job.fence_begun(member(2)), Step::Wait);
        assert_eq!(end(&mut job, 1, Ended::Exit(127), PmiState::Unused), Step::End);
        assert_eq!(job.exit_code(), 127);
    }

    #[test]
    fn spawned_jobs_count_and_are_named() {
        let mut job = outcome(1);
        job.begin(JobId(1), 2);
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Finalized), Step::Wait);
        let child = |rank| Who { member: Member { job: JobId(1), rank: Rank(rank) }, ..who(rank) };
        let fine = (Ended::Exit(0), PmiState::Finalized);
        assert_eq!(job.rank_ended(child(0), fine.0, fine.1, String::new()), Step::Wait);
        assert!(!job.is_over(JobId(1)) && job.is_over(JobId(0)));
        assert_eq!(job.rank_ended(child(1), Ended::Signal(9), PmiState::Active, String::new()), Step::End);
        let text = job.cause().unwrap().to_string();
        assert_eq!(text, "rank 1 of spawned job 1 (pid 101, node 0) was killed by signal 9 (Killed)");
    }

    #[test]
    fn a_lost_data_server_is_named_with_its_node_and_job() {
        let host = Spot { node: NodeId(1), host: Some("n2".into()) };
        let mut job = outcome(2);
        let lost = Cause::ServerLost(host.clone(), JobId(0), 77, Ended::Signal(9));
        assert_eq!(job.fail(lost), Step::End);
        let text = "the data server of host n2 (pid 77) died: killed by signal 9 (Killed)";
        assert_eq!((job.exit_code(), job.why().unwrap().as_str()), (137, text));
        let ended = Cause::ServerLost(host, JobId(3), 77, Ended::Exit(0));
        let text = "the data server of host n2 for spawned job 3 (pid 77) died: exited with code 0";
        assert_eq!((ended.exit_code(), ended.to_string().as_str()), (1, text));
        let node = Spot { node: NodeId(1), host: None };
        let missing = Cause::ServerMissing(node, JobId(0), "No such file or directory (os error 2)".into());
        let text = "the data server of node 1 could not be started: No such file or directory (os error 2)";
        assert_eq!((missing.exit_code(), missing.to_string().as_str()), (1, text));
    }

    #[test]
    fn a_job_that_is_forgotten_is_waited_for_no_more() {
        let mut job = outcome(1);
        for number in 1..=3 {
            job.begin(JobId(number), 2);
        }
        assert_eq!((job.forget(JobId(1)), job.forget(JobId(2))), (Step::Wait, Step::Wait));
        assert_eq!(job.fence_begun(Member { job: JobId(1), rank: Rank(0) }), Step::Wait);
        assert_eq!((job.jobs.len(), job.left), (2, 3));
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Finalized), Step::Wait);
        assert_eq!(job.forget(JobId(3)), Step::Finish);
    }

    #[test]
    fn a_job_that_parted_counts_but_ends_nobody_else() {
        let mut job = outcome(1);
        job.begin(JobId(1), 2);
        let child = Who { member: Member { job: JobId(1), rank: Rank(0) }, ..who(0) };
        assert_eq!(job.lose(JobId(1), &Cause::Killed(child, 9)), Step::Wait);
        assert_eq!((job.cause(), job.left), (None, 1));
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Finalized), Step::Finish);
        assert_eq!(job.exit_code(), 137);
    }

    #[test]
    fn of_a_job_that_parted_a_code_after_finalize_ends_nobody() {
        let mut job = outcome(1);
        job.begin(JobId(1), 2);
        assert_eq!(job.rank_ended_alone(JobId(1), Ended::Exit(3)), Step::Wait);
        assert_eq!((job.cause(), job.left, job.is_over(JobId(1))), (None, 2, false));
        assert_eq!(end(&mut job, 0, Ended::Exit(0), PmiState::Finalized), Step::Wait);
        assert_eq!(job.rank_ended_alone(JobId(1), Ended::Exit(0)), Step::Finish);
        assert_eq!(job.exit_code(), 3);
    }

    #[test]
    fn only_the_first_cause_counts() {
        let mut job = outcome(2);
        assert_eq!(job.fail(Cause::Signalled(2)), Step::End);
        assert_eq!(job.fail(Cause::OutputClosed), Step::Wait);
        assert_eq!(job.exit_code(), 130);
    }
}
