//! Whether a process of this host runs, as the kernel says.
use std::fs;
use sys::process::Pid;

/// Which field behind the name holds the flags of the process,
const FLAGS: usize = 6;
/// and the one that is set from the beginning of its end (`PF_EXITING`).
const FLAG_EXITING: u32 = 4;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It runs, sleeps or waits for its turn.
    Runs,
    /// Somebody has stopped it.
    Stopped,
    /// It is ending: its links are closed or will be, and its children are about to get another parent.
    Ending,
    /// It is not there any more, or the kernel does not tell.
    Unknown,
}

impl Standing {
    /// May silence be held against a process that does this? One that is ending is about to be reaped.
    pub(crate) fn is_suspect(self) -> bool {
        matches!(self, Standing::Stopped | Standing::Unknown)
    }
}

pub(crate) fn standing(pid: Pid) -> Standing {
    fs::read(format!("/proc/{pid}/stat")).map_or(Standing::Unknown, |stat| parse(&stat))
}

/// The fields stand behind the name, which is in parentheses and may hold anything, other parentheses included.
fn parse(stat: &[u8]) -> Standing {
    let name_end = stat.iter().rposition(|&byte| byte == b')').unwrap_or(stat.len());
    let fields = str::from_utf8(stat.get(name_end + 1..).unwrap_or_default()).unwrap_or_default();
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let flags = fields.get(FLAGS).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    match fields.first() {
        Some(&("R" | "S" | "D" | "I" | "P")) if flags & FLAG_EXITING != 0 => Standing::Ending,
        Some(&("R" | "S" | "D" | "I" | "P")) => Standing::Runs,
        Some(&("T" | "t")) => Standing::Stopped,
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
        assert_eq!(parse(b"7 (sleep) R 1 7 7 0 -1 4194308 0 0"), Standing::Ending);
        assert_eq!(parse(b"7 (sleep) R 1 7 7 0 -1 4194304 0 0"), Standing::Runs);
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
