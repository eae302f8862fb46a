//! A process that was started without a launcher calls for one: the test is that process.
mod common;
mod scripted;

use common::{Job, assert_nothing_left, launcher};
use scripted::{One, say};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

#[test]
#[ignore = "what the ranks of the other tests run"]
fn as_a_rank() {
    if scripted::script().is_none() {
        return;
    }
    let mut one = One::start();
    assert_eq!(one.get("PARENT").as_deref(), Some("tag=0"));
    one.barrier();
    one.finalize();
    say("spawned");
    std::process::exit(0);
}

/// The process that calls.
struct Caller {
    stream: BufReader<TcpStream>,
    kvs: String,
}

/// Has a launcher called to a port, and waits for it.
fn call() -> (Job, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (mut command, mark) = launcher(&["-pmi_args", &port, "default_interface", "default_key", "1"]);
    let child = command.env("BANYAN_TEST_SCRIPT", "spawned").spawn().unwrap();
    (Job { child, mark }, listener.accept().unwrap().0)
}

impl Caller {
    fn new(stream: TcpStream) -> Self {
        let mut caller = Caller { stream: BufReader::new(stream), kvs: String::new() };
        assert_eq!(caller.line(), "cmd=singinit authtype=none");
        let info = caller.ask("cmd=singinit pmi_version=1 pmi_subversion=2 stdio=yes authtype=none");
        let kvs = info.strip_prefix("cmd=singinit_info versionok=yes stdio=no kvsname=").unwrap();
        caller.kvs = kvs.into();
        let init = caller.ask("cmd=init pmi_version=1 pmi_subversion=1");
        assert_eq!(init, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
        caller
    }

    fn ask(&mut self, line: &str) -> String {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().into()
    }
}

fn spawn_block(processes: u32) -> String {
    let program = std::env::current_exe().unwrap();
    let words = scripted::words(program.to_str().unwrap());
    let args: String = (1..).zip(&words[1..]).map(|(i, arg)| format!("arg{i}={arg}\n")).collect();
    format!(
        "mcmd=spawn\nnprocs={processes}\nexecname={}\ntotspawns=1\nspawnssofar=1\nargcnt=5\n{args}preput_num=1\n\
         preput_key_0=PARENT\npreput_val_0=tag=0\ninfo_num=0\nendcmd",
        words[0]
    )
}

#[test]
fn a_process_without_a_launcher_gets_one_and_spawns() {
    let (job, stream) = call();
    let mut caller = Caller::new(stream);
    let kvs = caller.kvs.clone();
    assert_eq!(caller.ask("cmd=get_my_kvsname"), format!("cmd=my_kvsname rc=0 kvsname={kvs}"));
    assert_eq!(caller.ask(&spawn_block(3)), "cmd=spawn_result rc=0");
    assert_eq!(caller.ask("cmd=barrier_in"), "cmd=barrier_out rc=0");
    assert_eq!(caller.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
    drop(caller);
    let mark = job.mark.clone();
    let (code, out, err) = common::texts(&job.child.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(scripted::said(&out), ["spawned"; 3]);
    assert_nothing_left(&mark);
}

#[test]
fn the_end_of_its_connection_is_its_end() {
    let (job, stream) = call();
    drop(Caller::new(stream));
    let mark = job.mark.clone();
    let (code, err) = job.end();
    assert_eq!(code, Some(1));
    assert!(err.contains("banyan: rank 0 (pid ") && err.contains("without MPI_Finalize"), "{err}");
    assert_nothing_left(&mark);
}

#[test]
fn who_does_not_speak_the_protocol_is_quoted() {
    let (job, mut stream) = call();
    stream.write_all(b"HTTP/1.0 400 Bad Request\n").unwrap();
    let mark = job.mark.clone();
    let (code, err) = job.end();
    assert_eq!(code, Some(1));
    assert!(err.contains("that asked for a launcher: it answered 'HTTP/1.0 400 Bad Request'"), "{err}");
    assert_nothing_left(&mark);
    let output = common::run(&["-pmi_args", "1"]);
    let (code, _, err) = common::texts(&output);
    assert_eq!(code, Some(2));
    assert!(err.contains("'-pmi_args' needs a port, an interface, a key and a process id"), "{err}");
}
