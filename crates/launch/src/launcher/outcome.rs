//! How a job ends: what counts as a failure, which one was first, and the exit code. Pure.
use super::cause::{Cause, Who, code_of};
use crate::placement::Placement;
use proto::ids::Rank;
use proto::tree::{Ended, PmiState};

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

/// The record of a job's ranks.
#[derive(Debug)]
pub(crate) struct Outcome {
    placement: Placement,
    ended: u32,
    worst: i32,
    cause: Option<Cause>,
    /// The last words of the rank that is the cause.
    words: String,
    settling: Option<(Cause, String)>,
    /// The first rank that ended without ever beginning PMI, and its last words.
    outsider: Option<(Who, Ended, String)>,
    /// A rank that waits, or has waited, in a barrier of the whole job.
    waiting: Option<Rank>,
}

impl Outcome {
    pub(crate) fn new(placement: Placement) -> Self {
        Outcome {
            placement,
            ended: 0,
            worst: 0,
            cause: None,
            words: String::new(),
            settling: None,
            outsider: None,
            waiting: None,
        }
    }

    pub(crate) fn who(&self, rank: Rank, pid: i32) -> Who {
        Who { rank, pid, node: self.placement.node_of(rank) }
    }

    /// Why the job was ended, if it was.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// The same in words, with the last ones of the rank that is to blame.
    pub(crate) fn why(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        let silent = self.words.is_empty();
        Some(if silent { cause.to_string() } else { format!("{cause}; its last words: \"{}\"", self.words) })
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
        self.ended += 1;
        if self.cause.is_some() {
            return Step::Wait; // clean-up has begun: what it does to ranks does not count
        }
        self.worst = self.worst.max(code_of(ended));
        let all_ended = self.ended == self.placement.ranks();
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
                self.outsider.get_or_insert((who, ended, words));
                self.check_joined()
            }
            (Ended::Exit(code), PmiState::Finalized) if code != 0 => {
                self.settling.get_or_insert((Cause::Failed(who, code), words));
                Step::Settle
            }
            _ => Step::Wait,
        }
    }

    /// A rank exited with code 0 although it had begun PMI and not finalized it. That is an abnormal end, even
    /// if no other rank suffers from it.
    fn left_early(&mut self, who: Who, words: String) {
        match &mut self.settling {
            Some((Cause::LeftEarly(_, others), _)) => others.push(who.rank),
            Some(_) => {}
            None => self.settling = Some((Cause::LeftEarly(who, Vec::new()), words)),
        }
    }

    fn has_left_early(&self) -> bool {
        matches!(self.settling, Some((Cause::LeftEarly(..), _)))
    }

    /// A rank waits in a barrier.
    pub(crate) fn fence_begun(&mut self, rank: Rank) -> Step {
        self.waiting.get_or_insert(rank);
        self.check_joined()
    }

    /// A barrier needs all ranks: with one that is gone and never joined, it cannot end.
    fn check_joined(&mut self) -> Step {
        match (&self.outsider, self.waiting) {
            (Some((who, ended, words)), Some(waiting)) => {
                let (cause, words) = (Cause::NeverJoined(*who, *ended, waiting), words.clone());
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
    use super::*;

    fn outcome(ranks: u32) -> Outcome {
        Outcome::new(Placement::new(ranks, 2))
    }

    fn end(outcome: &mut Outcome, rank: u32, ended: Ended, pmi: PmiState) -> Step {
        let who = outcome.who(Rank(rank), 100 + rank as i32);
        outcome.rank_ended(who, ended, pmi, String::new())
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
        assert_eq!(text, "rank 3 (pid 103, node 1) was killed by signal 11 (Segmentation fault)");
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
        assert!(matches!(job.cause(), Some(Cause::LeftEarly(who, _)) if who.rank == Rank(1)));
        assert_eq!(job.exit_code(), 9);
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Active), Step::Settle);
        assert_eq!(job.fail(Cause::Signalled(2)), Step::End);
        assert_eq!(job.exit_code(), 130);
    }

    #[test]
    fn last_words_are_told_with_the_cause_they_belong_to() {
        let mut job = outcome(2);
        let who = job.who(Rank(1), 7);
        job.rank_ended(who, Ended::Signal(6), PmiState::Active, "out of memory".into());
        let text =
            "rank 1 (pid 7, node 1) was killed by signal 6 (Aborted); its last words: \"out of memory\"";
        assert_eq!(job.why().unwrap(), text);
        let mut job = outcome(2);
        job.rank_ended(who, Ended::Exit(2), PmiState::Unused, "no such file".into());
        assert_eq!(job.fence_begun(Rank(0)), Step::End);
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
            let who = job.who(Rank(0), 1);
            assert_eq!(job.fail(Cause::Aborted(who, code, String::new())), Step::End);
            assert_eq!(job.exit_code(), expected);
        }
    }

    #[test]
    fn a_rank_that_ends_before_init_does_not_keep_the_others_waiting() {
        let mut job = outcome(3);
        assert_eq!(end(&mut job, 1, Ended::Exit(0), PmiState::Unused), Step::Wait);
        assert_eq!(job.fence_begun(Rank(2)), Step::End);
        assert_eq!(job.exit_code(), 1);
        let text = job.cause().unwrap().to_string();
        assert_eq!(
            text,
            "rank 1 (pid 101, node 0) exited with code 0 before MPI_Init, and rank 2 waits for it"
        );
        let mut job = outcome(3);
        assert_eq!(job.fence_begun(Rank(2)), Step::Wait);
        assert_eq!(end(&mut job, 1, Ended::Exit(127), PmiState::Unused), Step::End);
        assert_eq!(job.exit_code(), 127);
    }

    #[test]
    fn only_the_first_cause_counts() {
        let mut job = outcome(2);
        assert_eq!(job.fail(Cause::Signalled(2)), Step::End);
        assert_eq!(job.fail(Cause::OutputClosed), Step::Wait);
        assert_eq!(job.exit_code(), 130);
    }
}
