//! Whether a process of this host runs, and what it does, as the kernel says.
use proto::waits::Doing;
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

/// Processes from a wrapper script down to the program.
const BELOW_MAX: u32 = 8;

/// What a process does, for who cannot ask it.
pub(crate) fn outside(pid: Pid) -> Doing {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return Doing::Unknown };
    match state_of(&stat) {
        Some('R') => Doing::Runs,
        Some('S' | 'D' | 'I' | 'P') => Doing::Sleeps(sleeps_in(pid)),
        Some('T' | 't') => Doing::Stopped,
        _ => Doing::Unknown,
    }
}

/// The same of the program that a script runs, which does nothing but wait for it.
pub(crate) fn outside_below(pid: Pid) -> Doing {
    let mut pid = pid;
    for _ in 0..BELOW_MAX {
        match &children(pid)[..] {
            [one] => pid = *one,
            _ => break,
        }
    }
    outside(pid)
}

fn children(pid: Pid) -> Vec<Pid> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|word| word.parse().ok().map(Pid)).collect()
}

fn state_of(stat: &[u8]) -> Option<char> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end + 2).map(|&byte| byte.into())
}

/// The call of the system that a process sleeps in; empty where the kernel does not tell.
fn sleeps_in(pid: Pid) -> String {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = call.split_ascii_whitespace().next().and_then(|word| word.parse::<i64>().ok());
    if let Some(name) = number.and_then(sys::process::name_of_call) {
        return name.into();
    }
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    if place.trim() == "0" { String::new() } else { place.trim().into() }
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
        // (It may be on its way there, and what the kernel tells depends on what one may see.)
        let sleeps = |doing: Doing| matches!(doing, Doing::Sleeps(call) if call.is_empty() || call.contains("nanosleep"));
        assert!((0..1_000_000).any(|_| sleeps(outside(pid))));
        kill(Target::Process(pid), SIGSTOP).unwrap();
        assert!(until(Standing::Stopped));
        assert_eq!(outside(pid), Doing::Stopped);
        kill(Target::Process(pid), SIGCONT).unwrap();
        assert!(until(Standing::Runs));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(standing(pid), Standing::Unknown);
    }
}
