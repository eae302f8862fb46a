//! Devices of several processes: messages between them, one that is killed, one that forks, faults by file.
#![allow(unsafe_code)] // fork
mod rig;

use rig::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use verbs::*;

/// Names the domain's file to processes.
const DOMAIN: &str = "BANYAN_TEST_STANDIN_DOMAIN";

/// Another process of a test, which is told things by lines and answers by lines.
struct Other {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Other {
    fn start(test: &str, directory: &Path) -> Other {
        let mut command = process(test, "");
        command.env("BANYAN_TEST_STANDIN_DIR", directory).env(DOMAIN, directory.join("domain"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Other { child, to, from }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").expect("it hears");
    }

    /// The next line that begins with a sign: others are the test harness's.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).expect("it speaks") > 0, "it has ended");
            if let Some(at) = line.find("> ") {
                return line[at + 2..].trim().to_string();
            }
        }
    }

    /// A number that it says.
    fn number(&mut self) -> u32 {
        self.hear().parse().expect("a number")
    }

    fn ends_well(mut self) {
        drop(self.to);
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// The next line that this process is told; `None` at the end.
fn told() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).expect("lines") > 0).then(|| line.trim().to_string())
}

fn say(line: impl std::fmt::Display) {
    println!("> {line}");
}

/// Runs `child` in the processes that `parent` starts, which gets a directory.
fn among(test: &str, child: impl FnOnce(), parent: impl FnOnce(&Path)) {
    if is_child() {
        return child();
    }
    let directory = tempfile::tempdir().expect("a directory");
    parent(directory.path());
    let left =
        std::fs::read_dir(directory.path()).expect("it is there").map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "domain" && name != "control").collect();
    assert!(left.is_empty(), "{test} leaves {left:?}");
}

/// One queue pair, whose peer's number comes by a line; "send" sends, "take" waits for a message, "fail" for a failure.
fn obeys() {
    let side = Side::open(8);
    let qp = side.qp();
    say(qp.num());
    side.connect(&qp, told().expect("a number").parse().unwrap(), &QpSettings { timeout: 16, ..SETTINGS });
    say("connected");
    while let Some(line) = told() {
        match line.as_str() {
            "send" => {
                side.send(&qp, 100, b"hello");
                assert_eq!(side.done(), 100);
                say("sent");
            }
            "post" => {
                side.send(&qp, 100, b"hello");
                say("posted");
            }
            "sent" => {
                assert_eq!(side.done(), 100);
                say("sent");
            }
            "take" => say(String::from_utf8(side.text(side.done(), 5)).unwrap()),
            "fail" => say(side.failed().1),
            "event" => say(format!("{:?}", side.event())),
            "fork" => fork_and_exit(),
            other => panic!("{other}"),
        }
    }
}

/// A child that does nothing to the devices, though it has the memory in which they are.
fn fork_and_exit() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(code: i32) -> !;
    }
    // SAFETY: the child only asks for devices and ends.
    let pid = unsafe { fork() };
    if pid == 0 {
        let code = i32::from(devices().is_ok_and(|devices| devices[0].open().is_ok()));
        // SAFETY: ends the child without what the parent has to do at its end.
        unsafe { _exit(code) };
    }
    let mut status = -1;
    // SAFETY: a child and a place.
    assert_eq!(unsafe { waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "a child has no devices");
    say("forked");
}

fn pair(test: &str, directory: &Path) -> (Other, Other) {
    let (mut one, mut two) = (Other::start(test, directory), Other::start(test, directory));
    let numbers = (one.number(), two.number());
    assert_ne!(numbers.0, numbers.1);
    one.say(&numbers.1.to_string());
    two.say(&numbers.0.to_string());
    assert_eq!((one.hear(), two.hear()), ("connected".into(), "connected".into()));
    (one, two)
}

fn exchange(from: &mut Other, to: &mut Other) {
    from.say("send");
    to.say("take");
    assert_eq!((from.hear(), to.hear()), ("sent".into(), "hello".into()));
}

#[test]
fn messages_between_processes() {
    const TEST: &str = "messages_between_processes";
    among(TEST, obeys, |directory| {
        let (mut one, mut two) = pair(TEST, directory);
        exchange(&mut one, &mut two);
        exchange(&mut two, &mut one);
        one.ends_well();
        two.ends_well();
    });
}

#[test]
fn a_fork_leaves_the_parent_as_it_was() {
    const TEST: &str = "a_fork_leaves_the_parent_as_it_was";
    among(TEST, obeys, |directory| {
        let (mut one, mut two) = pair(TEST, directory);
        exchange(&mut one, &mut two);
        one.say("fork");
        assert_eq!(one.hear(), "forked");
        exchange(&mut two, &mut one);
        exchange(&mut one, &mut two);
        one.ends_well();
        two.ends_well();
    });
}

#[test]
fn who_is_killed_does_not_answer_and_leaves_nothing() {
    const TEST: &str = "who_is_killed_does_not_answer_and_leaves_nothing";
    among(TEST, obeys, |directory| {
        let (mut one, mut two) = pair(TEST, directory);
        exchange(&mut one, &mut two);
        two.child.kill().expect("killed");
        two.child.wait().expect("dead");
        one.say("post");
        one.say("fail");
        assert_eq!((one.hear(), one.hear()), ("posted".into(), "transport retry counter exceeded".into()));
        // The next ones find everything as it was.
        let (mut three, mut four) = pair(TEST, directory);
        exchange(&mut three, &mut four);
        one.ends_well();
        three.ends_well();
        four.ends_well();
    });
}

#[test]
fn a_file_takes_ports_down_for_all() {
    const TEST: &str = "a_file_takes_ports_down_for_all";
    among(TEST, obeys, |directory| {
        let (mut one, mut two) = pair(TEST, directory);
        let control = |words: &str| std::fs::write(directory.join("control"), words).expect("written");
        control("down=1");
        for other in [&mut one, &mut two] {
            other.say("event");
            assert_eq!(other.hear(), "PortDown(1)");
        }
        one.say("post");
        one.hear();
        control("up=1");
        one.say("sent");
        two.say("take");
        assert_eq!((one.hear(), two.hear()), ("sent".into(), "hello".into()));
        one.ends_well();
        two.ends_well();
    });
}

/// A process with a shared receive queue of the domain; the first one has the queue pair that all messages come to.
fn shares_a_domain() {
    let side = Side::open(0);
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(std::env::var_os(DOMAIN).expect("a name"))
        .expect("a file");
    let domain = Xrcd::open(&side.context, Some(std::os::fd::AsFd::as_fd(&file))).expect("a domain");
    let queue = Srq::of_domain(&domain, &side.pd, &side.cq, 4).expect("a shared receive queue");
    queue.post(7, &side.arena, 7).expect("a receive");
    say(queue.number().expect("a number"));
    let receiver = Qp::of_domain(&side.pd, &domain).expect("a receiver");
    say(receiver.num());
    let ini: u32 = told().expect("a number").parse().unwrap();
    side.connect(&receiver, ini, &SETTINGS);
    say("connected");
    while told().is_some() {
        say(String::from_utf8(side.text(side.done(), 5)).unwrap());
    }
}

/// A process that sends to shared receive queues, whose numbers it is told.
fn sends_to_queues() {
    let side = Side::open(0);
    let ini = Qp::new(&side.pd, QpKind::XrcSend, &side.cq, &side.cq, None, CAPS).expect("a sender");
    say(ini.num());
    side.connect(&ini, told().expect("a number").parse().unwrap(), &SETTINGS);
    say("connected");
    while let Some(line) = told() {
        let pieces = [b"hello"[..].into()];
        let srq = Some(line.parse().expect("a number"));
        ini.post(&Work { srq, ..Work::new(1, Operation::SendCopied(&pieces)) }).expect("posted");
        assert_eq!(side.done(), 1);
        say("sent");
    }
}

fn start_sender(test: &str, directory: &Path) -> Other {
    let mut command = process(test, "");
    command.env("BANYAN_TEST_STANDIN_DIR", directory).env("BANYAN_TEST_STANDIN_SENDS", "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    Other { child, to, from }
}

/// A process with a shared receive queue, and the receiving half that it makes, or opens if it is told which.
fn shares_a_receiver() {
    let side = Side::open(0);
    let name = std::env::var_os(DOMAIN).expect("a name");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(name).expect("a file");
    let domain = Xrcd::open(&side.context, Some(std::os::fd::AsFd::as_fd(&file))).expect("a domain");
    let queue = Srq::of_domain(&domain, &side.pd, &side.cq, 64).expect("a shared receive queue");
    (0..60).for_each(|slot| queue.post(slot, &side.arena, slot as usize).expect("a receive"));
    say(queue.number().expect("a number"));
    let line = told().expect("what it is to do");
    let receiver = match line.parse() {
        Ok(number) => Qp::open_of_domain(&side.pd, &domain, number).expect("it is there"),
        Err(_) => Qp::of_domain(&side.pd, &domain).expect("a receiver"),
    };
    assert!(Qp::open_of_domain(&side.pd, &domain, receiver.num() + 1).is_err(), "nobody has that");
    say(receiver.num());
    while let Some(line) = told() {
        match line.split_once(' ') {
            Some(("connect", ini)) => {
                receiver.reset().expect("RESET");
                side.connect(&receiver, ini.parse().unwrap(), &SETTINGS);
                say("connected");
            }
            _ => say(String::from_utf8(side.text(side.done(), 5)).unwrap()),
        }
    }
    assert_eq!(side.cq.poll(|_| ()).unwrap(), 0, "nothing came twice");
}

#[test]
fn xrc_receivers_outlive_the_process_that_made_them() {
    const TEST: &str = "xrc_receivers_outlive_the_process_that_made_them";
    let child = || match std::env::var_os("BANYAN_TEST_STANDIN_SENDS") {
        Some(_) => sends_to_queues(),
        None => shares_a_receiver(),
    };
    among(TEST, child, |directory| {
        let mut receivers: Vec<Other> = (0..3).map(|_| Other::start(TEST, directory)).collect();
        let queues: Vec<u32> = receivers.iter_mut().map(Other::number).collect();
        receivers[0].say("make");
        let number = receivers[0].number();
        for receiver in &mut receivers[1..] {
            receiver.say(&number.to_string());
            assert_eq!(receiver.number(), number);
        }
        let mut sender = start_sender(TEST, directory);
        let ini = sender.number();
        // Any of them connects it, for all.
        receivers[2].say(&format!("connect {ini}"));
        assert_eq!(receivers[2].hear(), "connected");
        sender.say(&number.to_string());
        assert_eq!(sender.hear(), "connected");
        let exchange = |sender: &mut Other, receiver: &mut Other, queue: u32| {
            sender.say(&queue.to_string());
            receiver.say("take");
            assert_eq!((sender.hear(), receiver.hear()), ("sent".into(), "hello".into()));
        };
        receivers
            .iter_mut()
            .zip(&queues)
            .for_each(|(receiver, queue)| exchange(&mut sender, receiver, *queue));
        // The one that made it is killed, another one ends: the last one goes on.
        let mut first = receivers.remove(0);
        first.child.kill().expect("it was there");
        first.child.wait().expect("it ends");
        for round in 0..10 {
            exchange(&mut sender, &mut receivers[round % 2], queues[1 + round % 2]);
        }
        receivers.remove(0).ends_well();
        for _ in 0..10 {
            exchange(&mut sender, &mut receivers[0], queues[2]);
        }
        sender.ends_well();
        receivers.into_iter().for_each(Other::ends_well);
    });
}

#[test]
fn xrc_reaches_the_queues_of_other_processes() {
    const TEST: &str = "xrc_reaches_the_queues_of_other_processes";
    let child = || match std::env::var_os("BANYAN_TEST_STANDIN_SENDS") {
        Some(_) => sends_to_queues(),
        None => shares_a_domain(),
    };
    among(TEST, child, |directory| {
        let mut receivers = [Other::start(TEST, directory), Other::start(TEST, directory)];
        let queues: Vec<u32> = receivers.iter_mut().map(Other::number).collect();
        let numbers: Vec<u32> = receivers.iter_mut().map(Other::number).collect();
        let mut sender = start_sender(TEST, directory);
        let ini = sender.number();
        sender.say(&numbers[0].to_string());
        receivers.iter_mut().for_each(|receiver| receiver.say(&ini.to_string()));
        assert_eq!(sender.hear(), "connected");
        for (receiver, queue) in receivers.iter_mut().zip(&queues).rev() {
            assert_eq!(receiver.hear(), "connected");
            sender.say(&queue.to_string());
            receiver.say("take");
            assert_eq!((sender.hear(), receiver.hear()), ("sent".into(), "hello".into()));
        }
        sender.ends_well();
        receivers.into_iter().for_each(Other::ends_well);
    });
}
