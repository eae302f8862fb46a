//! What the process tests share: starting the launcher, and looking for what it left behind.
#![allow(dead_code)] // each test file uses its part

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Every process of a job has this variable, with a value of its own for each job.
const MARK: &str = "BANYAN_TEST_MARK";
/// Longer than any healthy job or clean-up takes, on a loaded machine too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A launcher under test.
pub struct Job {
    pub child: Child,
    pub mark: String,
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub name: String,
}

/// The launcher with these arguments, not started yet.
pub fn launcher(args: &[&str]) -> (Command, String) {
    marked(Command::new(env!("CARGO_BIN_EXE_banyan-launch")), args)
}

/// The same, started by another program such as `nohup`.
pub fn launcher_under(starter: &[&str], args: &[&str]) -> (Command, String) {
    let mut command = Command::new(starter[0]);
    command.args(&starter[1..]).arg(env!("CARGO_BIN_EXE_banyan-launch"));
    marked(command, args)
}

fn marked(mut command: Command, args: &[&str]) -> (Command, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    command.args(args).env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (command, mark)
}

/// Starts it.
pub fn start(args: &[&str]) -> Job {
    let (mut command, mark) = launcher(args);
    Job { child: command.spawn().expect("the launcher starts"), mark }
}

/// Runs it to its end, and checks that nothing is left.
pub fn run(args: &[&str]) -> Output {
    let job = start(args);
    let mark = job.mark.clone();
    let output = job.child.wait_with_output().expect("the launcher ends");
    assert_nothing_left(&mark);
    output
}

/// The exit code, and standard output and error as text.
pub fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The living processes that carry `mark`. Zombies have no environment any more.
pub fn processes(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes())
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| has_mark(*pid)).filter_map(process).collect()
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?; // names need not be UTF-8
    let (open, close) = (stat.iter().position(|&b| b == b'(')?, stat.iter().rposition(|&b| b == b')')?);
    let mut fields = std::str::from_utf8(&stat[close + 1..]).ok()?.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let name = String::from_utf8_lossy(&stat[open + 1..close]).into_owned();
    Some(Process { pid, parent, group, session, name })
}

/// The letter for what a process does: `R` runs, `S` sleeps, `T` is stopped.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = stat.iter().rposition(|&b| b == b')')?;
    stat.get(close + 2).map(|&letter| char::from(letter))
}

/// Waits until `done`, or fails with `what`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        std::thread::yield_now();
    }
}

/// No process of the job lives.
pub fn assert_nothing_left(mark: &str) {
    let left = processes(mark);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Sends a signal to all of these.
pub fn kill(pids: &[i32], signal: &str) {
    let pids = pids.iter().map(ToString::to_string);
    let status = Command::new("kill").arg(signal).args(pids).stderr(Stdio::null()).status();
    status.expect("kill runs");
}

impl Job {
    /// Waits for at least `count` processes called `name`.
    pub fn wait_for(&self, name: &str, count: usize) {
        let enough = || processes(&self.mark).iter().filter(|process| process.name == name).count() >= count;
        wait_until(&format!("{count} processes called {name}"), enough);
    }

    /// Waits for the end of the launcher: its exit code (`None` after a signal) and standard error.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        // Read first: a full pipe would keep the launcher waiting.
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

/// How often each line occurs.
pub fn count_lines(text: &str) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for line in text.lines() {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

/// The usual seed.
const SEED: u64 = 20_260_714;

/// A small generator of pseudo-random numbers (xorshift64*).
pub struct Chance(u64);

impl Chance {
    /// The same each time, unless `BANYAN_SEED` is a number or `random`; the seed is printed.
    pub fn seeded() -> Self {
        let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64);
        let seed = match std::env::var("BANYAN_SEED").as_deref() {
            Ok("random") => clock(),
            Ok(text) => text.parse().expect("BANYAN_SEED is a number or 'random'"),
            Err(_) => SEED,
        };
        println!("BANYAN_SEED={seed}");
        Chance(seed | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
