//! `banyan ps`: the jobs of this user on this machine, and where their ranks are.
//!
//! Every launcher listens under a name that begins with [`PREFIX`] and its process id. Who calls is told one JSON object, and
//! that is the end of it.
use proto::tree::{Ended, Member};
use proto::waits::{Doing, Explained, Manner, Outside, Seen, Standing};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::local;
use sys::poll::{Interest, Poll};
use sys::process::Pid;
use sys::socket::{self, Transfer};

/// What names of launchers begin with.
const PREFIX: &str = "banyan-ps-";
/// How long a launcher may take; it gives its tree less.
const PATIENCE: Duration = Duration::from_secs(5);
/// Ranks have so many fields in an answer that is believed.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) const HELP: &str = "\
usage: banyan ps [--json] [PID]

Lists the jobs of this user on this machine: their launchers' process ids, and how many of their ranks wait. With the id
of a launcher, or if there is but one job, it says where every rank is: in which call of MPI, on which communicator, for
which rank and tag it waits; which waits form a cycle; and who keeps the others waiting.

  --json    one JSON object per job and line

The same is printed by 'banyan run' itself when it gets SIGQUIT (ctrl-\\ at a terminal, or kill -QUIT PID), and by
itself when ranks have waited for BANYAN_WAIT_WARN seconds (30; 0 for never). Nothing is slower for it: ranks are asked,
and answer when they wait; those that compute, or use another MPI library, are described from outside.
";

/// The name under which a launcher listens.
pub(crate) fn name_of(pid: Pid, chance: u64) -> String {
    format!("{PREFIX}{pid}-{chance:016x}")
}

/// A job as its launcher knows it.
pub(crate) struct Job {
    pub(crate) pid: i32,
    pub(crate) command: String,
    pub(crate) ranks: u32,
    pub(crate) nodes: u32,
    pub(crate) spawned: u32,
    pub(crate) age: Duration,
}

/// What a caller is told. `spot` is the node of a rank, and its host if there are several.
pub(crate) fn json<'a>(
    job: &Job,
    seen: &[Seen],
    explained: &Explained,
    spot: impl Fn(Member) -> Option<(u32, Option<&'a str>)>,
) -> Value {
    let rank = |seen: &Seen| {
        let mut rank = Map::new();
        rank.insert("rank".into(), json!(seen.member.rank.0));
        if seen.member.job.0 != 0 {
            rank.insert("spawned_job".into(), json!(seen.member.job.0));
        }
        if let Some((node, host)) = spot(seen.member) {
            rank.insert("node".into(), json!(node));
            rank.extend(host.map(|host| ("host".into(), json!(host))));
        }
        state_of(&seen.standing, &mut rank);
        Value::Object(rank)
    };
    json!({
        "pid": job.pid,
        "command": job.command,
        "ranks": job.ranks,
        "nodes": job.nodes,
        "spawned_jobs": job.spawned,
        "age_s": job.age.as_secs(),
        "waiting": explained.waiting,
        "waited_s": f64::from(explained.longest_ms) / 1e3,
        "verdicts": explained.verdicts,
        "report": explained.lines(),
        "processes": seen.iter().map(rank).collect::<Vec<_>>(),
    })
}

fn state_of(standing: &Standing, rank: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| _ = rank.insert(key.into(), value);
    match standing {
        Standing::Told(place) => {
            put("state", json!(if place.manner == Manner::Polls { "polls" } else { "waits" }));
            put("call", json!(place.call));
            put("waited_s", json!(f64::from(place.waited_ms) / 1e3));
        }
        Standing::Outside(Outside { doing, ours, .. }) => {
            put(
                "state",
                json!(match doing {
                    Doing::Runs => "runs",
                    Doing::Sleeps(_) => "sleeps",
                    Doing::Stopped => "stopped",
                    Doing::Unknown => "unknown",
                }),
            );
            if let Doing::Sleeps(call) = doing
                && !call.is_empty()
            {
                put("system_call", json!(call));
            }
            put("library", json!(if *ours { "banyan" } else { "another or none yet" }));
        }
        Standing::Ended(ended) => {
            put("state", json!("ended"));
            match ended {
                Some(Ended::Exit(code)) => put("exit_code", json!(code)),
                Some(Ended::Signal(signal)) => put("signal", json!(signal)),
                None => {}
            }
        }
        Standing::NotStarted => put("state", json!("not started")),
        Standing::Unheard => put("state", json!("unknown")),
    }
}

/// `banyan ps`.
pub fn main(args: &[String]) -> i32 {
    let (mut as_json, mut wanted) = (false, None);
    for arg in args {
        match arg.as_str() {
            "--json" => as_json = true,
            "-h" | "--help" => {
                sys::out::print(HELP);
                return 0;
            }
            word if word.parse::<i32>().is_ok_and(|pid| pid > 0) && wanted.is_none() => {
                wanted = word.parse::<i32>().ok();
            }
            _ => {
                eprintln!("banyan: 'banyan ps' does not know '{arg}'; see 'banyan ps --help'");
                return crate::EXIT_USAGE;
            }
        }
    }
    let (jobs, failed) = jobs(wanted);
    if let (Some(pid), true) = (wanted, jobs.is_empty() && !failed) {
        eprintln!("banyan: {pid} is no launcher of a job of yours on this machine; 'banyan ps' lists them");
        return 1;
    }
    if as_json {
        sys::out::print(&jobs.iter().map(|job| format!("{job}\n")).collect::<String>());
    } else {
        sys::out::print(&text(&jobs));
    }
    i32::from(failed)
}

/// What launchers say, and whether one of them did not.
fn jobs(wanted: Option<i32>) -> (Vec<Value>, bool) {
    let pid = |name: &str| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<i32>().ok();
    let names = local::names(PREFIX);
    let names = names.iter().filter_map(|name| Some((pid(name)?, name)));
    let names: Vec<_> = names.filter(|(pid, _)| wanted.is_none_or(|wanted| wanted == *pid)).collect();
    // All are asked before the first is listened to.
    let called: Vec<(i32, OwnedFd)> =
        names.into_iter().filter_map(|(pid, name)| Some((pid, call(name)?))).collect();
    let (mut jobs, mut failed, until) = (Vec::new(), false, Instant::now() + PATIENCE);
    for (pid, fd) in called {
        match hear(&fd, until) {
            Ok(Some(job)) => jobs.push(job),
            Ok(None) => {} // it has just ended
            Err(error) => {
                eprintln!("banyan: the launcher with process id {pid} does not answer: {error}");
                failed = true;
            }
        }
    }
    (jobs, failed)
}

/// Calls a launcher, if it is one of this user's.
fn call(name: &str) -> Option<OwnedFd> {
    let fd = local::dial(name.as_bytes()).ok()?;
    local::peer_user(fd.as_fd()).is_ok_and(|user| user == sys::process::effective_user()).then_some(fd)
}

fn hear(fd: &OwnedFd, until: Instant) -> io::Result<Option<Value>> {
    let (poll, mut ready) = (Poll::new()?, Vec::new());
    poll.add(fd.as_fd(), 0, Interest::Read)?;
    let (mut text, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
    while text.len() < ANSWER_BYTES_MAX {
        match socket::read(fd.as_fd(), &mut bytes)? {
            Transfer::Bytes(n) => text.extend_from_slice(&bytes[..n]),
            Transfer::Closed if text.is_empty() => return Ok(None),
            Transfer::Closed => return serde_json::from_slice(&text).map(Some).map_err(io::Error::other),
            Transfer::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::Error::from(io::ErrorKind::TimedOut));
                }
                ready.clear();
                poll.wait(Some(left.as_millis() as u32 + 1), &mut ready)?;
            }
        }
    }
    Err(io::Error::other("it says too much"))
}

/// For people: a line per job, and where ranks are if there is but one.
fn text(jobs: &[Value]) -> String {
    if jobs.is_empty() {
        return "no job of yours runs on this machine\n".into();
    }
    let mut text =
        format!("{:>8} {:>6} {:>6} {:>8} {:>8}  COMMAND\n", "PID", "RANKS", "NODES", "WAITING", "AGE");
    for job in jobs {
        let number = |key: &str| job[key].as_u64().unwrap_or(0);
        let age = number("age_s");
        let age = format!("{}:{:02}:{:02}", age / 3600, age / 60 % 60, age % 60);
        let (pid, ranks, nodes, waiting) =
            (number("pid"), number("ranks"), number("nodes"), number("waiting"));
        let command = job["command"].as_str().unwrap_or_default();
        let _ = writeln!(text, "{pid:>8} {ranks:>6} {nodes:>6} {waiting:>8} {age:>8}  {command}");
    }
    if let [job] = jobs {
        text.push('\n');
        for line in job["report"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}
