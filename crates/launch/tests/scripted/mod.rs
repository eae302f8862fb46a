//! This test binary again, as a rank of a job: scripts that speak to the launcher under test. A script is a function
//! named in the environment; what it [`say`]s is what the test gets to see.
#![allow(dead_code)] // each test file uses its part
use super::common::{assert_nothing_left, launcher, texts};
use proto::pmi2::{Frames, FullInit, Reply, Request, ThreadId};
use std::env;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The variable with the name of the script.
const SCRIPT: &str = "BANYAN_TEST_SCRIPT";
/// Before every line of a script's.
const MARK: &str = "> ";

/// The test under which a file has its scripts.
pub const ENTRY: &str = "as_a_rank";

/// Runs a job of ranks that follow `script`: exit code, what they said, and the launcher's standard error.
pub fn run(options: &[&str], script: &str) -> (Option<i32>, Vec<String>, String) {
    let mut args = options.to_vec();
    let program = env::current_exe().unwrap();
    args.extend(words(program.to_str().unwrap()));
    let (mut command, mark) = launcher(&args);
    let output = command.env(SCRIPT, script).output().unwrap();
    assert_nothing_left(&mark);
    let (code, out, err) = texts(&output);
    (code, said(&out), err)
}

/// The command line that makes this test binary a rank.
pub fn words(program: &str) -> [&str; 6] {
    [program, "--exact", ENTRY, "--ignored", "--nocapture", "--quiet"]
}

/// The script that this process is to follow, if it is a rank.
pub fn script() -> Option<String> {
    env::var(SCRIPT).ok()
}

/// What scripts have said, sorted.
pub fn said(out: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        out.lines().filter_map(|line| line.strip_prefix(MARK)).map(String::from).collect();
    lines.sort_unstable();
    lines
}

pub fn say(text: &str) {
    // The test runner may have begun a line.
    print!("\n{MARK}{text}\n");
    std::io::stdout().flush().unwrap();
}

pub fn number(name: &str) -> u32 {
    env::var(name).unwrap().parse().unwrap()
}

pub fn rank() -> u32 {
    number("PMI_RANK")
}

fn pmi() -> UnixStream {
    sys::inherit::inherited(number("PMI_FD") as i32).unwrap().into()
}

/// A client of PMI-1.
pub struct One {
    stream: UnixStream,
    pub kvs: String,
}

impl One {
    /// One that has said nothing yet.
    pub fn bare() -> Self {
        One { stream: pmi(), kvs: String::new() }
    }

    pub fn start() -> Self {
        let mut one = One::bare();
        let init = one.ask("cmd=init pmi_version=1 pmi_subversion=1");
        assert_eq!(init, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
        let name = one.ask("cmd=get_my_kvsname");
        one.kvs = name.strip_prefix("cmd=my_kvsname rc=0 kvsname=").unwrap().into();
        one
    }

    /// Sends a line (or several), and reads one.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    pub fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    pub fn put(&mut self, key: &str, value: &str) -> String {
        self.ask(&format!("cmd=put kvsname={} key={key} value={value}", self.kvs))
    }

    pub fn get(&mut self, key: &str) -> Option<String> {
        let reply = self.ask(&format!("cmd=get kvsname={} key={key}", self.kvs));
        match reply.strip_prefix("cmd=get_result rc=0 msg=success value=") {
            Some(value) => Some(value.into()),
            None => {
                assert_eq!(reply, "cmd=get_result rc=1 msg=key_not_found");
                None
            }
        }
    }

    pub fn barrier(&mut self) {
        assert_eq!(self.ask("cmd=barrier_in"), "cmd=barrier_out rc=0");
    }

    pub fn finalize(&mut self) {
        assert_eq!(self.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
    }
}

/// A client of PMI-2.
pub struct Two {
    stream: UnixStream,
    frames: Frames,
    pub spawner: Option<Vec<u8>>,
    pub program: i32,
    pub size: u32,
}

impl Two {
    pub fn greet() -> Self {
        let mut one = One::bare();
        let init = one.ask("cmd=init pmi_version=2 pmi_subversion=0");
        assert_eq!(init, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0");
        Two { stream: one.stream, frames: Frames::default(), spawner: None, program: -1, size: 0 }
    }

    pub fn start() -> Self {
        let mut two = Two::greet();
        match two.ask(Request::FullInit(FullInit::default())) {
            Reply::FullInit { rank: own, size, appnum, spawner } => {
                assert_eq!(own, rank());
                Two { size, program: appnum, spawner, ..two }
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn ask(&mut self, request: Request) -> Reply {
        self.send(&[(request, None)]);
        self.reply().0
    }

    /// Sends all at once, each for a thread.
    pub fn send(&mut self, requests: &[(Request, Option<&str>)]) {
        let mut bytes = Vec::new();
        for (request, thread) in requests {
            let thread = thread.map(|name| ThreadId(name.into()));
            request.emit(thread.as_ref(), &mut bytes).unwrap();
        }
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply, and the thread that it is for.
    pub fn reply(&mut self) -> (Reply, Option<String>) {
        loop {
            if let Some(body) = self.frames.next_body().unwrap() {
                let (reply, thread) = Reply::parse(body).unwrap();
                return (reply, thread.map(|thread| String::from_utf8(thread.0).unwrap()));
            }
            let mut bytes = [0; 4096];
            let n = self.stream.read(&mut bytes).unwrap();
            assert_ne!(n, 0, "the agent has closed");
            self.frames.push(&bytes[..n]).unwrap();
        }
    }

    pub fn put(&mut self, key: &str, value: &str) -> Reply {
        self.ask(Request::Put { key: key.into(), value: value.into() })
    }

    pub fn get(&mut self, key: &str) -> Option<String> {
        match self.ask(Request::Get { job: None, source: None, key: key.into() }) {
            Reply::Got(value) => value.map(|value| String::from_utf8(value).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub fn fence(&mut self) {
        assert_eq!(self.ask(Request::Fence), Reply::Fenced);
    }

    pub fn finalize(&mut self) {
        assert_eq!(self.ask(Request::Finalize), Reply::Finalized);
    }
}
