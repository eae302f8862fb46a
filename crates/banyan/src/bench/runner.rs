//! Runs one job of one library: with a time limit, and with its output read as results.
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a launcher may take to clean up after it was told to end.
const GRACE: Duration = Duration::from_secs(5);

/// A job that ended well.
#[derive(Debug)]
pub struct Finished {
    /// What it printed.
    pub stdout: String,
    /// From the launcher's start to its end.
    pub elapsed: Duration,
}

impl Finished {
    /// The values of a key, one per line that has it.
    pub fn values(&self, key: &str) -> Vec<f64> {
        let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
        self.stdout.lines().filter_map(value).collect()
    }
}

/// Runs `command` to its end or to `limit`. An error is one line that says what happened.
pub fn run(mut command: Command, limit: Duration) -> Result<Finished, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let (done, watched) = channel::<()>();
    let pid = child.id();
    let watchdog = thread::spawn(move || watch(pid, limit, &watched));
    let mut stderr = child.stderr.take().expect("piped above");
    let complaints = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut stdout = Vec::new();
    let read = child.stdout.take().expect("piped above").read_to_end(&mut stdout);
    let status = child.wait();
    let elapsed = start.elapsed();
    drop(done);
    let timed_out = watchdog.join().unwrap_or(false);
    let complaints = complaints.join().unwrap_or_default();
    if timed_out {
        return Err(format!("no end after {} s", limit.as_secs()));
    }
    read.map_err(|e| e.to_string())?;
    match status {
        Ok(status) if status.success() => {
            Ok(Finished { stdout: String::from_utf8_lossy(&stdout).into_owned(), elapsed })
        }
        Ok(status) => Err(format!("{status}: {}", last_line(&complaints))),
        Err(e) => Err(e.to_string()),
    }
}

/// Ends the process when the time is up; true if it had to. A launcher gets the chance to end its ranks.
fn watch(pid: u32, limit: Duration, done: &std::sync::mpsc::Receiver<()>) -> bool {
    if done.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
        return false;
    }
    signal(pid, "-TERM");
    if done.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
        signal(pid, "-KILL");
    }
    true
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status();
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
        assert!(error.contains("7") && error.ends_with("it broke"), "{error}");
    }

    #[test]
    fn a_hanging_job_is_ended() {
        let error = run(shell("exec sleep 600"), Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("no end"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(Command::new("/no/such/mpiexec"), Duration::from_secs(1)).unwrap_err();
        assert!(error.contains("/no/such/mpiexec"), "{error}");
    }
}
