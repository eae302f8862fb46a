//! A job under test: what it says and when, and how it ends.
use crate::common::{self, Process, processes};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use sys::process::{Pid, Target, kill};
use sys::signal::SIGKILL;

/// Longer than any healthy job or clean-up takes, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Watched {
    pub child: Child,
    pub mark: String,
    lines: Receiver<(Instant, String)>,
    said: Vec<(Instant, String)>,
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` after a signal.
    pub code: Option<i32>,
    pub text: String,
    /// When the first word about a cause came.
    pub detected: Option<Instant>,
    /// When launcher, warden and agents were gone.
    pub over: Instant,
    pub hung: bool,
}

impl Ended {
    /// From detection to the end of everything.
    pub fn clean_up(&self) -> Option<Duration> {
        self.detected.filter(|_| !self.hung).map(|detected| self.over.saturating_duration_since(detected))
    }
}

impl Watched {
    pub fn start(args: &[String], temporary: &Path) -> Self {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (mut command, mark) = common::launcher(&args);
        let mut child = command.env("TMPDIR", temporary).spawn().expect("the launcher starts");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in errors.split(b'\n').map_while(Result::ok) {
                if send.send((Instant::now(), String::from_utf8_lossy(&line).into_owned())).is_err() {
                    return;
                }
            }
        });
        Watched { child, mark, lines, said: Vec::new() }
    }

    pub fn launcher(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn processes(&self) -> Vec<Process> {
        processes(&self.mark)
    }

    /// The agents that a launcher with many words has told of so far.
    pub fn told_agents(&mut self) -> Vec<i32> {
        self.said.extend(self.lines.try_iter());
        self.said.iter().filter_map(|(_, line)| told_agent(line)).collect()
    }

    /// Waits until the launcher has been executed.
    pub fn wait_for_launcher(&self) {
        common::wait_until("the launcher", || !self.processes().is_empty());
    }

    /// Waits for the end of launcher, warden and agents, all of which hold standard error.
    pub fn end(&mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let (mut text, mut detected, mut hung) = (String::new(), None, false);
        let mut hear = |(at, line): (Instant, String)| {
            if line.starts_with("banyan:") && told_agent(&line).is_none() {
                detected.get_or_insert(at);
            }
            text += &line;
            text.push('\n');
        };
        self.said.drain(..).for_each(&mut hear);
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(said) => hear(said),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    hung = true;
                    break;
                }
            }
        }
        if hung {
            self.kill_all();
        }
        let code = self.child.wait().expect("the launcher is our child").code();
        Ended { code, text, detected, over: Instant::now(), hung }
    }

    /// Kills what is left, so that the next event finds a quiet machine.
    pub fn kill_all(&self) {
        for process in self.processes() {
            let _ = kill(Target::Process(Pid(process.pid)), SIGKILL);
        }
    }
}

/// The process in a line such as `banyan: node 3 (agent 1234): ranks 6-7: sleep`.
fn told_agent(line: &str) -> Option<i32> {
    let (place, _) = line.strip_prefix("banyan: ")?.split_once("): ")?;
    place.split_once("(agent ")?.1.parse().ok()
}
