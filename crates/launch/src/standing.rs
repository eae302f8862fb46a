//! Whether a process of this host runs, as the kernel says.
use std::fs;
use sys::process::Pid;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It runs, sleeps or waits for its turn.
    Runs,
    /// Somebody has stopped it.
    Stopped,
    /// It is not there any more, or the kernel does not tell.
    Unknown,
}

pub(crate) fn standing(pid: Pid) -> Standing {
    fs::read(format!("/proc/{pid}/stat")).map_or(Standing::Unknown, |stat| parse(&stat))
}

/// The state stands behind the name, which is in parentheses and may hold anything, other parentheses included.
fn parse(stat: &[u8]) -> Standing {
    let name_end = stat.iter().rposition(|&byte| byte == b')');
    match name_end.and_then(|at| stat.get(at + 2)) {
        Some(b'R' | b'S' | b'D' | b'I' | b'P') => Standing::Runs,
        Some(b'T' | b't') => Standing::Stopped,
        _ => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use sys::process::{Target, kill};
    use sys::signal::{SIGCONT, SIGSTOP};

    #[test]
    fn a_state_stands_behind_any_name() {
        assert_eq!(parse(b"7 (a) T b\xff\xc3) S 1 7"), Standing::Runs);
        assert_eq!(parse(b"7 (sleep) T 1 7"), Standing::Stopped);
        assert_eq!(parse(b"7 (sleep) t 1 7"), Standing::Stopped);
        assert_eq!(parse(b"7 (sleep) Z 1 7"), Standing::Unknown);
        for text in ["", "7 (sleep", "7 (sleep)", "7 (sleep) "] {
            assert_eq!(parse(text.as_bytes()), Standing::Unknown);
        }
    }

    #[test]
    fn a_process_runs_is_stopped_and_is_gone() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let until = |wanted| (0..1_000_000).any(|_| standing(pid) == wanted);
        assert!(until(Standing::Runs));
        kill(Target::Process(pid), SIGSTOP).unwrap();
        assert!(until(Standing::Stopped));
        kill(Target::Process(pid), SIGCONT).unwrap();
        assert!(until(Standing::Runs));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(standing(pid), Standing::Unknown);
    }
}
