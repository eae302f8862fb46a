//! A job whose agents come in over TCP, and the strangers at its door.
mod common;

use common::{Job, assert_nothing_left, launcher};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output};
use std::thread;
use std::time::{Duration, Instant};

/// Strangers who say something wrong, and strangers who say nothing.
const LOUD: usize = 200;
const SILENT: usize = 100;

/// A job of two hosts, both this one, that waits for its agents.
struct Waiting {
    job: Job,
    stderr: BufReader<std::process::ChildStderr>,
    /// What to run on each host, without the program.
    orders: Vec<Vec<String>>,
    key: String,
    folder: tempfile::TempDir,
}

impl Waiting {
    fn new(program: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("key");
        let mut args = vec!["-v", "--bootstrap", "manual", "--key-file", key_file.to_str().unwrap()];
        // A job that does not end is ended, so that the test fails instead of waiting.
        args.extend(["--timeout", "60", "--hosts", "localhost,127.0.0.1", "-n", "2"]);
        args.extend(program);
        let (mut command, mark) = launcher(&args);
        let mut job = Job { child: command.spawn().unwrap(), mark };
        let mut stderr = BufReader::new(job.child.stderr.take().unwrap());
        let mut orders = Vec::new();
        while orders.len() < 2 {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the launcher ended");
            if let Some((_, order)) = line.split_once(" run: ") {
                orders.push(order.split_whitespace().skip(1).map(String::from).collect());
            }
        }
        let key = fs::read_to_string(&key_file).unwrap().trim().to_owned();
        Waiting { job, stderr, orders, key, folder }
    }

    fn address(&self) -> &str {
        let at = self.orders[0].iter().position(|word| word == "--connect").unwrap();
        self.orders[0][at + 1].split(',').next().unwrap()
    }

    /// Starts the agent of a host as its user would, with another word behind some option.
    fn agent(&self, host: usize, but: Option<(&str, &str)>) -> (Child, String) {
        let mut words: Vec<&str> = self.orders[host].iter().map(String::as_str).collect();
        if let Some((option, word)) = but {
            let at = words.iter().position(|word| *word == option).unwrap();
            words[at + 1] = word;
        }
        let (mut command, mark) = launcher(&words);
        (command.spawn().unwrap(), mark)
    }

    /// Starts all agents and waits for the end: exit code, output, and what else the launcher said.
    fn finish(self) -> (Option<i32>, String, String) {
        let agents = (0..2).map(|host| self.agent(host, None)).collect();
        self.finish_with(agents, &|output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        })
    }

    fn finish_with(
        mut self,
        agents: Vec<(Child, String)>,
        check: &dyn Fn(&Output),
    ) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stderr.read_to_string(&mut err).unwrap();
        self.job.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let code = self.job.child.wait().unwrap().code();
        for (agent, mark) in agents {
            check(&agent.wait_with_output().unwrap());
            assert_nothing_left(&mark);
        }
        assert_nothing_left(&self.job.mark);
        (code, out, err)
    }
}

#[test]
fn a_job_starts_in_a_crowd_of_strangers_and_counts_them() {
    let waiting = Waiting::new(&["/bin/echo", "a rank"]);
    let mut crowd = Vec::new();
    for nth in 0..LOUD + SILENT {
        let mut stranger = TcpStream::connect(waiting.address()).unwrap();
        if nth < LOUD {
            let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = stranger.set_read_timeout(Some(Duration::from_secs(20)));
            let mut heard = Vec::new();
            let _ = stranger.read_to_end(&mut heard);
            assert!(heard.is_empty(), "a stranger was told {heard:?}");
        } else {
            crowd.push(stranger);
        }
    }
    let (code, out, err) = waiting.finish();
    assert_eq!((code, out.as_str()), (Some(0), "a rank\na rank\n"), "{err}");
    let note = err.lines().find(|line| line.contains("connections refused")).expect("they are counted");
    assert!(note.contains(&format!("{LOUD} strangers")), "{note}");
}

#[test]
fn an_agent_with_another_key_is_turned_away_and_says_why() {
    let waiting = Waiting::new(&["/bin/echo", "a rank"]);
    let wrong = waiting.folder.path().join("another key");
    fs::write(&wrong, "ab".repeat(32)).unwrap();
    let (agent, mark) = waiting.agent(1, Some(("--key-file", wrong.to_str().unwrap())));
    let output = agent.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(words.contains("it does not hold the key of this job"), "{words}");
    assert!(words.contains(waiting.address()), "{words}");
    assert_nothing_left(&mark);
    let (code, out, err) = waiting.finish();
    assert_eq!((code, out.as_str()), (Some(0), "a rank\na rank\n"), "{err}");
    assert!(err.contains("1 connection refused: 1 "), "{err}");
}

#[test]
fn the_key_is_in_no_argument_and_no_environment() {
    let show =
        "cat /proc/self/environ /proc/$PPID/environ /proc/$PPID/cmdline /proc/$$/cmdline | tr '\\0' '\\n'";
    let waiting = Waiting::new(&["/bin/sh", "-c", show]);
    let key = waiting.key.clone();
    assert_eq!(key.len(), 64);
    let (code, out, err) = waiting.finish();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("PMI_RANK=") && out.contains("--agent"), "{out}");
    assert!(!out.contains(&key) && !err.contains(&key));
}

/// Bytes of an agent's handshake, and the first byte behind it that is altered.
const HANDSHAKE_BYTES: usize = 45 + 32;
const ALTERED: usize = HANDSHAKE_BYTES + 12;

/// Stands between an agent and its parent, and alters one byte of what the agent says.
fn man_in_the_middle(parent: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut parent = TcpStream::connect(parent).unwrap();
    thread::spawn(move || {
        let (mut agent, _) = listener.accept().unwrap();
        let (mut from_parent, mut to_agent) = (parent.try_clone().unwrap(), agent.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from_parent, &mut to_agent);
            to_agent.shutdown(std::net::Shutdown::Both)
        });
        let (mut bytes, mut seen) = ([0; 1024], 0);
        while let Ok(n @ 1..) = agent.read(&mut bytes) {
            if (seen..seen + n).contains(&ALTERED) {
                bytes[ALTERED - seen] ^= 1;
            }
            seen += n;
            if parent.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = agent.shutdown(std::net::Shutdown::Both);
    });
    address
}

#[test]
fn a_frame_altered_on_its_way_ends_the_job_and_is_named() {
    let waiting = Waiting::new(&["/bin/sleep", "100"]);
    let between = man_in_the_middle(waiting.address());
    let agents = vec![waiting.agent(0, None), waiting.agent(1, Some(("--connect", &between)))];
    let begun = Instant::now();
    let (code, _, err) = waiting.finish_with(agents, &|_| {});
    assert!(code.is_some_and(|code| code != 0), "{err}");
    assert!(err.contains("forged or damaged frame in place of frame 0 of the link"), "{err}");
    assert!(begun.elapsed() < Duration::from_secs(50), "it took {:?}", begun.elapsed());
}
