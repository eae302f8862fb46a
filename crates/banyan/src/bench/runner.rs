//! Runs one job of one library or launcher: with a time limit, and with its output read as results.
//!
//! A job runs in a process group of its own, and is asked to end if the benchmark is killed. One that does not end is asked
//! to, then killed as a group, and what it may have left elsewhere, still holding a pipe open, is not waited for.
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a launcher may take to clean up after it was told to end, and its output to be read afterwards.
const GRACE: Duration = Duration::from_secs(5);

/// A job that ended well.
#[derive(Debug)]
pub struct Finished {
    /// What it printed.
    pub stdout: String,
    /// From the launcher's start to its end.
    pub elapsed: Duration,
}

/// A job that did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// It had to be ended after this time.
    Hung(Duration),
    /// It could not be started, or failed: one line that says what happened.
    Failed(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Hung(limit) => write!(f, "no end after {} s", limit.as_secs()),
            RunError::Failed(what) => f.write_str(what),
        }
    }
}

impl Finished {
    /// The values of a key, one per line that has it.
    pub fn values(&self, key: &str) -> Vec<f64> {
        let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
        self.stdout.lines().filter_map(value).collect()
    }
}

/// Runs `command` to its end or to `limit`.
pub fn run(mut command: Command, limit: Duration) -> Result<Finished, RunError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    sys::process::end_with_parent(&mut command);
    let start = Instant::now();
    let failed = |e: std::io::Error| RunError::Failed(e.to_string());
    let mut child =
        command.spawn().map_err(|e| RunError::Failed(format!("{}: {e}", command.get_program().display())))?;
    let (done, watched) = channel::<()>();
    let pid = child.id();
    let watchdog = thread::spawn(move || watch(pid, limit, &watched));
    let stdout = reader(child.stdout.take().expect("piped above"));
    let stderr = reader(child.stderr.take().expect("piped above"));
    let status = child.wait();
    let elapsed = start.elapsed();
    drop(done);
    if watchdog.join().unwrap_or(false) {
        return Err(RunError::Hung(limit));
    }
    let status = status.map_err(failed)?;
    let text = |bytes: &Receiver<Vec<u8>>| {
        let bytes = bytes.recv_timeout(GRACE).map_err(|_| "its output has no end")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    if !status.success() {
        let words: Result<String, &str> = stderr;
        return Err(RunError::Failed(format!("{status}: {}", last_line(&words.unwrap_or_default()))));
    }
    let stdout = stdout.map_err(|what: &str| RunError::Failed(what.into()))?;
    Ok(Finished { stdout, elapsed })
}

/// Reads to the end in a thread, so that a full pipe stops nobody and an endless one is not waited for.
fn reader(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

/// Ends the process when the time is up; true if it had to. A launcher gets the chance to end its ranks.
fn watch(pid: u32, limit: Duration, done: &Receiver<()>) -> bool {
    if done.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
        return false;
    }
    signal("-TERM", &pid.to_string());
    let gone = done.recv_timeout(GRACE) != Err(RecvTimeoutError::Timeout);
    if !gone {
        signal("-KILL", &pid.to_string());
    }
    // What is left of its group; the group's number is not used again while a member lives.
    signal("-KILL", &format!("-{pid}"));
    true
}

fn signal(name: &str, target: &str) {
    let _ = Command::new("kill").args([name, "--", target]).stderr(Stdio::null()).status();
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn results_are_the_lines_with_the_key() {
        let script = "echo init_ms 2.5; echo init_ms_other 9; echo noise; echo init_ms 3e1";
        let finished = run(shell(script), Duration::from_secs(20)).unwrap();
        assert_eq!(finished.values("init_ms"), [2.5, 30.0]);
        assert!(finished.values("rate").is_empty());
    }

    #[test]
    fn a_failing_job_says_its_last_words() {
        let error =
            run(shell("echo first >&2; echo it broke >&2; exit 7"), Duration::from_secs(20)).unwrap_err();
        let RunError::Failed(error) = error else { panic!("{error}") };
        assert!(error.contains("7") && error.ends_with("it broke"), "{error}");
    }

    #[test]
    fn a_hanging_job_is_ended() {
        let limit = Duration::from_millis(50);
        assert_eq!(run(shell("exec sleep 600"), limit).unwrap_err(), RunError::Hung(limit));
    }

    #[test]
    fn what_a_hanging_job_left_in_its_group_is_ended_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        // As long as it takes the shell to get so far.
        let mut limit = Duration::from_millis(500);
        let pid = loop {
            assert!(run(shell(&script), limit).is_err());
            match std::fs::read_to_string(&file) {
                Ok(pid) if pid.ends_with('\n') => break pid,
                _ => limit *= 2,
            }
            assert!(limit < Duration::from_secs(60), "the shell does not begin");
        };
        let status = format!("/proc/{}/stat", pid.trim());
        // Killed, and perhaps not yet reaped by whoever inherited it.
        let ended = || std::fs::read_to_string(&status).map_or(true, |text| text.contains(") Z "));
        while !ended() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(Command::new("/no/such/mpiexec"), Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("/no/such/mpiexec"), "{error}");
    }
}
