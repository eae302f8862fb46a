//! Shared memory of System V that MPI libraries (UCX, Intel's) make.
//!
//! A segment goes if it is private (nobody finds it who was not told its number), belongs to this user, was made since
//! the second in which the job began here, nobody has it attached, and both who made it and who used it last are dead.
//! A segment made under a key may be meant to stay; a process that has got the number of a dead one saves its segment.
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::process::{self, Pid};
use sys::sysv::{self, Segment};

/// Those made since some moment.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    begun: SystemTime,
}

impl Segments {
    /// Those made since then. The kernel tells only in which second.
    pub(super) fn since(begun: SystemTime) -> Self {
        let seconds = begun.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Segments { begun: UNIX_EPOCH + Duration::from_secs(seconds) }
    }

    /// Removes those that nobody uses, and says which.
    pub(super) fn remove(&self) -> Vec<String> {
        let user = process::effective_user();
        let left =
            sysv::segments().into_iter().filter(|segment| self.is_left(segment, user, process::exists));
        let removed = left.filter(|segment| segment.remove().is_ok());
        removed.map(|Segment { id, bytes, .. }| format!("System V segment {id} of {bytes} bytes")).collect()
    }

    fn is_left(&self, segment: &Segment, user: u32, exists: impl Fn(Pid) -> bool) -> bool {
        let is_dead = |pid: Pid| pid.0 > 0 && !exists(pid);
        segment.is_private()
            && segment.owner == user
            && segment.attached == 0
            && segment.changed >= self.begun
            && is_dead(segment.creator)
            && (segment.last == Pid(0) || is_dead(segment.last)) // 0: nobody ever attached it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN_S: u64 = 1000;
    const USER: u32 = 7;
    const DEAD: Pid = Pid(10);
    const LIVING: Pid = Pid(11);

    fn second(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn left() -> Segment {
        Segment {
            key: 0,
            id: 1,
            bytes: 4096,
            creator: DEAD,
            last: DEAD,
            attached: 0,
            owner: USER,
            changed: second(BEGUN_S),
        }
    }

    #[test]
    fn only_what_nobody_can_use_any_more_goes() {
        let segments = Segments::since(second(BEGUN_S) + Duration::from_millis(900));
        let goes = |segment: Segment| segments.is_left(&segment, USER, |pid| pid == LIVING);
        assert!(goes(left()));
        assert!(goes(Segment { last: Pid(0), ..left() }), "never attached");
        for (why, segment) in [
            ("made under a key", Segment { key: 0x1234, ..left() }),
            ("of another user", Segment { owner: USER + 1, ..left() }),
            ("attached", Segment { attached: 1, ..left() }),
            ("older than the job", Segment { changed: second(BEGUN_S - 1), ..left() }),
            ("its maker lives", Segment { creator: LIVING, ..left() }),
            ("its maker is of another namespace", Segment { creator: Pid(0), ..left() }),
            ("its last user lives", Segment { last: LIVING, ..left() }),
        ] {
            assert!(!goes(segment), "{why}");
        }
    }
}
