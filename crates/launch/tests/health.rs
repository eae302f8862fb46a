//! What is said about a job that goes wrong, and what is left of it.
mod common;

use common::{assert_nothing_left, launcher, run, start, texts, wait_until};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use sys::process::{Pid, Target, kill};
use sys::signal::{SIGCONT, SIGSTOP, SIGTERM};

/// A rank's part of PMI-1 in a shell: init, and what follows.
fn pmi_rank(then: &str) -> String {
    format!("echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read answer <&3; {then}")
}

const FINALIZE: &str = "echo cmd=finalize >&3; read answer <&3";

#[test]
fn the_last_words_of_a_rank_that_dies_are_told() {
    let script = "echo nothing to worry about; test $PMI_RANK = 1 || exec sleep 60; \
                  echo looking at the disk >&2; echo 'the disk is full' >&2; kill -SEGV $$";
    let (code, _, errors) = texts(&run(&["-n", "3", "sh", "-c", script]));
    assert_eq!(code, Some(139));
    let cause = "was killed by signal 11 (Segmentation fault); \
                 its last words: \"looking at the disk / the disk is full\"; ending the job";
    assert!(errors.contains(cause), "{errors}");
    assert!(errors.starts_with("looking at the disk\nthe disk is full\nbanyan: rank 1 (pid "), "{errors}");
}

#[test]
fn a_rank_that_says_nothing_is_not_quoted() {
    let (code, _, errors) = texts(&run(&["-n", "2", "sh", "-c", "kill -9 $$"]));
    assert_eq!(code, Some(137));
    assert!(errors.ends_with("was killed by signal 9 (Killed); ending the job\n"), "{errors}");
}

/// Rank 0 strikes while its agent is starting the others, or the agents below it: some have not executed anything yet, and of
/// most nobody but that agent knows. (Inside the agent there is no such moment: it reaps between two starts, not during one.)
#[test]
fn whoever_dies_while_ranks_are_being_started_is_named() {
    let children = "kill -9 $(cat /proc/$PPID/task/$PPID/children)";
    for strike in ["kill -9 $PPID", children, &format!("{children} $PPID")] {
        for nodes in ["1", "4"] {
            let script = format!("test $PMI_RANK = 0 && {strike}; exec sleep 60");
            let (mut command, mark) = launcher(&["-n", "128", "--nodes", nodes, "sh", "-c", &script]);
            let (code, _, errors) = texts(&command.output().unwrap());
            assert_nothing_left(&mark);
            assert!(code.is_some_and(|code| code != 0), "{strike}: {code:?}: {errors}");
            let named = errors.contains("(pid ") && errors.contains("killed by signal 9 (Killed)");
            assert!(named, "{strike} on {nodes} nodes: {errors}");
        }
    }
}

#[test]
fn a_rank_that_dies_while_it_registers_is_named() {
    for word in ["cmd=ini", "cmd=init pmi_version=1 pmi_subversion=1\\ncmd=barr"] {
        let script = format!("test $PMI_RANK = 1 || exec sleep 60; printf '{word}' >&3; kill -9 $$");
        let (code, _, errors) = texts(&run(&["-n", "4", "--nodes", "2", "sh", "-c", &script]));
        assert_eq!(code, Some(137), "{errors}");
        assert!(errors.starts_with("banyan: rank 1 (pid "), "{errors}");
        assert!(errors.ends_with("was killed by signal 9 (Killed); ending the job\n"), "{errors}");
    }
}

#[test]
fn who_leaves_without_finalize_is_named_even_if_it_was_the_only_rank() {
    let (code, _, errors) = texts(&run(&["-n", "1", "sh", "-c", &pmi_rank("exit 0")]));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("exited with code 0 but without MPI_Finalize"), "{errors}");
}

#[test]
fn all_who_leave_without_finalize_are_named() {
    let script = pmi_rank(&format!("test $PMI_RANK -lt 3 && exit 0; {FINALIZE}"));
    let (code, _, errors) =
        texts(&run(&["-n", "5", "--nodes", "2", "--kill-grace", "60000", "sh", "-c", &script]));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains(" but without MPI_Finalize, and so did ranks "), "{errors}");
}

#[test]
fn a_good_end_stays_one() {
    let (code, _, errors) = texts(&run(&["-n", "4", "--nodes", "2", "sh", "-c", &pmi_rank(FINALIZE)]));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

/// The file that ranks of a job make in shared memory.
fn shared_file(mark: &str) -> PathBuf {
    Path::new("/dev/shm").join(format!("mpich_shm_{mark}"))
}

#[test]
fn files_of_killed_ranks_are_removed_from_shared_memory() {
    let script = ": > /dev/shm/mpich_shm_$BANYAN_TEST_MARK; kill -9 $$";
    let (mut command, mark) = launcher(&["-v", "-n", "2", "sh", "-c", script]);
    let (code, _, errors) = texts(&command.output().unwrap());
    assert_eq!(code, Some(137), "{errors}");
    assert!(!shared_file(&mark).exists(), "{errors}"); // any job that ends badly meanwhile may have removed it
}

#[test]
fn system_v_segments_of_killed_ranks_are_removed() {
    // Private ones, as libraries make them. Their numbers come on standard output.
    let script = "$| = 1; print shmget(0, 4096, 01600), qq(\\n); kill 9, $$";
    if std::process::Command::new("perl").arg("-v").output().is_err() {
        return eprintln!("skipped: no perl");
    }
    let (code, numbers, errors) = texts(&run(&["-n", "3", "--nodes", "2", "perl", "-e", script]));
    assert_eq!(code, Some(137), "{errors}");
    let numbers: Vec<i32> = numbers.lines().map(|line| line.parse().expect("a segment was made")).collect();
    assert!(!numbers.is_empty(), "{errors}");
    let left = sys::sysv::segments().into_iter().filter(|segment| numbers.contains(&segment.id));
    assert_eq!(left.count(), 0, "of {numbers:?}");
}

#[test]
fn stopped_and_deaf_ranks_with_deep_families_are_all_gone() {
    let script = "trap '' TERM INT HUP; (setsid sh -c 'sleep 600 & sleep 600' &) & sleep 600 & \
                  : > ready.$PMI_RANK; while :; do wait; done";
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let job = start(&["-n", "4", "--nodes", "2", "--kill-grace", "20", "-wdir", place, "sh", "-c", script]);
    wait_until("all ranks", || (0..4).all(|rank| folder.path().join(format!("ready.{rank}")).exists()));
    for process in common::processes(&job.mark).iter().filter(|process| process.name == "sh") {
        kill(Target::Process(Pid(process.pid)), SIGSTOP).unwrap();
    }
    kill(Target::Process(Pid(job.child.id() as i32)), SIGTERM).unwrap();
    let mark = job.mark.clone();
    let (code, errors) = job.end();
    assert_nothing_left(&mark);
    assert_eq!(code, Some(143), "{errors}");
}

/// The processes of a job with this name.
fn called(mark: &str, name: &str) -> Vec<i32> {
    common::processes(mark).iter().filter(|process| process.name == name).map(|process| process.pid).collect()
}

fn send(pid: i32, signal: i32) {
    kill(Target::Process(Pid(pid)), signal).unwrap();
}

#[test]
fn a_stopped_agent_is_noticed_by_its_silence() {
    let job = start(&["-n", "6", "--nodes", "3", "--heartbeat", "1", "sleep", "600"]);
    job.wait_for("sleep", 6);
    let victim = *called(&job.mark, "banyan-agent").last().unwrap();
    send(victim, SIGSTOP);
    let mark = job.mark.clone();
    let (code, errors) = job.end();
    assert_nothing_left(&mark);
    assert_ne!(code, Some(0), "{errors}");
    assert!(errors.contains(&format!("failed: it (pid {victim}) has been silent for ")), "{errors}");
}

#[test]
fn stopped_ranks_and_a_stopped_launcher_are_no_failure() {
    let script = "until test -e go; do sleep 0.05; done";
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let job = start(&["-n", "4", "--nodes", "2", "--heartbeat", "1", "-wdir", place, "sh", "-c", script]);
    job.wait_for("sh", 4);
    let mut stopped = called(&job.mark, "sh");
    stopped.push(job.child.id() as i32);
    stopped.iter().for_each(|pid| send(*pid, SIGSTOP));
    std::thread::sleep(Duration::from_millis(1600)); // longer than the limit: what is tested is time that passes
    std::fs::write(folder.path().join("go"), "").unwrap();
    stopped.iter().for_each(|pid| send(*pid, SIGCONT));
    let mark = job.mark.clone();
    let (code, errors) = job.end();
    assert_nothing_left(&mark);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

/// Processes that do nothing but run, on one core. They end with the test, however it ends.
struct Spinners(Vec<Child>);

impl Spinners {
    fn on(core: usize, count: usize) -> Self {
        let spin = ["-c", &core.to_string(), "sh", "-c", "while :; do :; done"];
        Spinners((0..count).map(|_| Command::new("taskset").args(spin).spawn().unwrap()).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a tool that changes how a process is scheduled.
fn schedule(words: &[&str], pid: i32) {
    let status = Command::new(words[0]).args(&words[1..]).arg(pid.to_string()).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "{words:?}");
}

#[test]
fn an_agent_that_waits_for_its_turn_is_not_dead() {
    let cores = sys::limit::allowed_cores().unwrap();
    let [crowded, free, ..] = cores[..] else { return }; // the launcher needs a core that is not crowded
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let script = "until test -e go; do sleep 0.05; done";
    let job = start(&["-n", "2", "--nodes", "2", "--heartbeat", "1", "-wdir", place, "sh", "-c", script]);
    job.wait_for("sh", 2);
    schedule(&["taskset", "-cp", &free.to_string()], job.child.id() as i32);
    for pid in &called(&job.mark, "banyan-agent") {
        schedule(&["taskset", "-cp", &crowded.to_string()], *pid);
        schedule(&["chrt", "--idle", "-p", "0"], *pid); // only when nobody else wants the core, or hardly ever
    }
    let spinners = Spinners::on(crowded, 8);
    std::thread::sleep(Duration::from_secs(4)); // four times the limit: what is tested is time that passes
    std::fs::write(folder.path().join("go"), "").unwrap();
    drop(spinners);
    let mark = job.mark.clone();
    let (code, errors) = job.end();
    assert_nothing_left(&mark);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

#[test]
fn ranks_whose_names_are_no_text_are_served_and_ended() {
    // What the kernel keeps of a long name may end in the middle of a letter.
    let script = "printf 'caf\\303' > /proc/$$/comm; setsid sh -c 'printf \"\\377)\" > /proc/$$/comm; : > $0; read x' \
                  ready.$PMI_RANK < $0 & wait";
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let job =
        start(&["-n", "4", "--nodes", "2", "--heartbeat", "1", "-wdir", place, "sh", "-c", script, "fifo"]);
    let _writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    wait_until("all ranks", || (0..4).all(|rank| folder.path().join(format!("ready.{rank}")).exists()));
    assert_eq!(called(&job.mark, "caf\u{fffd}").len(), 4);
    assert_eq!(called(&job.mark, "\u{fffd})").len(), 4);
    send(job.child.id() as i32, SIGTERM);
    let mark = job.mark.clone();
    let (code, errors) = job.end();
    assert_nothing_left(&mark);
    assert_eq!(code, Some(143), "{errors}");
}
