//! Jobs through the real launcher: exit codes, output, input, variables, PMI, signals.
mod common;

use common::{
    Job, assert_nothing_left, count_lines, kill, launcher, launcher_under, processes, run, start, state,
    texts, wait_until,
};
use std::io::{Read, Write};
use std::process::Stdio;

fn shell(options: &[&str], script: &str) -> (Option<i32>, String, String) {
    let mut args = options.to_vec();
    args.extend(["bash", "-c", script]);
    texts(&run(&args))
}

#[test]
fn ranks_are_placed_in_blocks_and_know_their_place() {
    let script = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS";
    let (code, out, err) = shell(&["-n", "5", "--nodes", "2"], script);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0/5 0/3", "1/5 1/3", "2/5 2/3", "3/5 0/2", "4/5 1/2"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn the_exit_code_is_the_largest() {
    assert_eq!(shell(&["-n", "4", "--nodes", "2"], "exit $PMI_RANK").0, Some(3));
    assert_eq!(shell(&["-n", "2"], "exit 0").0, Some(0));
}

#[test]
fn a_rank_killed_by_a_signal_ends_the_job_and_is_named() {
    let script = "if [ $PMI_RANK = 2 ]; then kill -SEGV $$; fi; sleep 600";
    let (code, _, err) = shell(&["-n", "4", "--nodes", "2", "--kill-grace", "10"], script);
    assert_eq!(code, Some(139));
    assert!(err.contains("rank 2 (pid "), "{err}");
    assert!(err.contains(", node 1) was killed by signal 11 (Segmentation fault); ending the job"), "{err}");
}

#[test]
fn a_plain_program_that_fails_does_not_end_the_others() {
    let script = "if [ $PMI_RANK = 0 ]; then exit 4; fi; read -t 0.3 <> <(:); echo done";
    let (code, out, err) = shell(&["-n", "2"], script);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(4), "done\n", ""));
}

#[test]
fn a_program_that_cannot_run_has_the_shells_exit_code() {
    let (code, _, err) = texts(&run(&["-n", "2", "/no/such/program"]));
    assert_eq!((code, err.as_str()), (Some(127), "banyan: program '/no/such/program' was not found\n"));
    let (code, _, err) = texts(&run(&["/etc/passwd"]));
    assert_eq!(
        (code, err.as_str()),
        (Some(126), "banyan: program '/etc/passwd' is not an executable file\n")
    );
    // Its interpreter is missing, which only the attempt shows.
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), "#!/no/such/interpreter\n").unwrap();
    let path = script.into_temp_path();
    make_executable(&path);
    let (code, _, err) = texts(&run(&["-n", "2", path.to_str().unwrap()]));
    assert_eq!(code, Some(127));
    assert!(err.contains("could not be started on node 0: the interpreter of '"), "{err}");
}

#[test]
fn a_program_for_another_machine_is_not_given_to_a_shell() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // A shell would find the command behind what it does not understand.
    std::fs::write(file.path(), b"\x7fELF\x01\x01\x01\necho a shell has read it\n").unwrap();
    let path = file.into_temp_path();
    make_executable(&path);
    let (code, out, err) = texts(&run(&["-n", "2", path.to_str().unwrap()]));
    assert_eq!((code, out.as_str()), (Some(126), ""));
    assert!(err.contains("is neither a program for this machine nor a script: Exec format error"), "{err}");
    // A script needs no line that names its interpreter.
    std::fs::write(&path, "echo a shell has read it\n").unwrap();
    let (code, out, _) = texts(&run(&["-n", "2", path.to_str().unwrap()]));
    assert_eq!((code, out.as_str()), (Some(0), "a shell has read it\na shell has read it\n"));
}

#[test]
fn a_folder_is_no_program() {
    let (code, _, err) = texts(&run(&["-n", "2", "/etc"]));
    assert_eq!((code, err.as_str()), (Some(126), "banyan: program '/etc' is a folder\n"));
    let (code, _, err) = texts(&run(&["-n", "2", "-wdir", "/no/such/folder", "./a"]));
    let expected = "banyan: working folder '/no/such/folder': No such file or directory (os error 2)\n";
    assert_eq!((code, err.as_str()), (Some(126), expected));
}

#[test]
fn a_lack_of_descriptors_is_not_blamed_on_the_program() {
    let starter = ["sh", "-c", "ulimit -n 40; exec \"$0\" \"$@\""];
    let (mut command, mark) = launcher_under(&starter, &["-n", "40", "sleep", "600"]);
    let (code, _, err) = texts(&command.output().unwrap());
    assert_eq!(code, Some(126));
    let why = "could not be started on node 0: Too many open files (os error 24); each takes three";
    assert!(err.contains(why), "{err}");
    assert_nothing_left(&mark);
}

#[test]
fn a_missing_working_folder_is_named() {
    let (code, _, err) = texts(&run(&["-n", "2", "-wdir", "/no/such/folder", "true"]));
    assert_eq!(code, Some(126));
    assert!(err.contains(" on node 0: working folder '/no/such/folder': No such file or directory"), "{err}");
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_wrong_command_line_says_what_is_wrong() {
    let (code, _, err) = texts(&run(&["--frobnicate", "x"]));
    assert_eq!(code, Some(2));
    assert!(err.contains("unknown option '--frobnicate'"), "{err}");
}

#[test]
fn lines_of_many_ranks_are_never_torn() {
    let script = r#"x=$(printf "%0100d" 0); for i in {1..300}; do echo -n "$PMI_RANK-$i-"; echo "$x"; done"#;
    let (code, out, _) = shell(&["-n", "8", "--nodes", "3"], script);
    assert_eq!(code, Some(0));
    let counts = count_lines(&out);
    let zeros = "0".repeat(100);
    for rank in 0..8 {
        for i in 1..=300 {
            let line = format!("{rank}-{i}-{zeros}");
            assert_eq!(counts.get(line.as_str()), Some(&1), "{line}");
        }
    }
    assert_eq!(counts.len(), 2400);
}

#[test]
fn the_last_line_needs_no_newline_and_streams_are_kept_apart() {
    let (_, out, err) = shell(&[], "echo -n out; echo -n err >&2");
    assert_eq!((out.as_str(), err.as_str()), ("out", "err"));
}

#[test]
fn a_very_long_line_arrives_whole() {
    let (code, out, _) = shell(&["-n", "1"], "head -c 1000000 /dev/zero | tr '\\0' x");
    assert_eq!((code, out.len()), (Some(0), 1_000_000));
    assert!(out.bytes().all(|b| b == b'x'));
}

#[test]
fn lines_are_labelled_on_request() {
    let (_, out, _) = shell(&["-n", "2", "-l"], "echo a; echo b");
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] a", "[0] b", "[1] a", "[1] b"]);
}

#[test]
fn rank_0_reads_the_launchers_input_and_the_others_read_nothing() {
    let (mut command, mark) = launcher(&["-n", "3", "--nodes", "2", "sh", "-c", "echo $PMI_RANK $(wc -c)"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![b'x'; 300_000]).unwrap();
    drop(stdin);
    let (code, out, _) = texts(&child.wait_with_output().unwrap());
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (Some(0), vec!["0 300000", "1 0", "2 0"]));
    assert_nothing_left(&mark);
}

#[test]
fn variables_are_set_and_those_of_other_launchers_scrubbed() {
    let script = "echo $A $B ${PMIX_RANK-none} $(pwd)";
    let mut args = vec!["-genv", "A", "1", "-wdir", "/", "-n", "1", "-env", "B", "2"];
    args.extend(["bash", "-c", script, ":", "-n", "1", "bash", "-c", script]);
    let (mut command, _) = launcher(&args);
    let output = command.env("PMIX_RANK", "7").env("B", "0").output().unwrap();
    let (_, out, _) = texts(&output);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1 0 none /", "1 2 none /"]);
}

#[test]
fn only_standard_descriptors_and_pmi_reach_a_rank() {
    let (_, out, _) = shell(&["-n", "4", "--nodes", "2"], "cd /proc/$$/fd; set -- *; echo $*");
    // 4 is the folder being listed.
    assert!(out.lines().all(|line| line == "0 1 2 3 4"), "{out}");
    assert_eq!(out.lines().count(), 4);
}

#[test]
fn what_a_rank_leaves_running_is_gone_with_the_job() {
    let (code, out, _) = shell(&["-n", "2"], "setsid sleep 600 & sleep 600 & echo started");
    assert_eq!((code, out.as_str()), (Some(0), "started\nstarted\n"));
}

#[test]
fn ctrl_c_ends_everything() {
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let job = start(&[
            "-n",
            "4",
            "--nodes",
            "2",
            "--kill-grace",
            "20",
            "sh",
            "-c",
            "trap '' TERM; sleep 600 & wait; wait",
        ]);
        job.wait_for("sleep", 4);
        kill(&[job.child.id() as i32], signal);
        let mark = job.mark.clone();
        let (code, err) = job.end();
        assert_eq!(code, Some(expected), "{err}");
        assert!(err.contains("ending the job"), "{err}");
        assert_nothing_left(&mark);
    }
}

#[test]
fn a_job_under_nohup_outlives_its_terminal() {
    let (mut command, mark) = launcher_under(&["env", "--ignore-signal=HUP"], &["-n", "2", "cat"]);
    let mut job = Job { child: command.stdin(Stdio::piped()).spawn().unwrap(), mark };
    job.wait_for("cat", 1);
    kill(&[job.child.id() as i32], "-HUP");
    drop(job.child.stdin.take()); // which ends the job
    let mark = job.mark.clone();
    assert_eq!(job.end(), (Some(0), String::new()));
    assert_nothing_left(&mark);
}

#[test]
fn the_ends_of_ranks_are_heard_where_sigchld_was_ignored() {
    let starter = ["timeout", "--signal=KILL", "60", "env", "--ignore-signal=CHLD"];
    let (mut command, mark) = launcher_under(&starter, &["-n", "3", "--nodes", "2", "sh", "-c", "exit 3"]);
    let (code, _, err) = texts(&command.output().unwrap());
    assert_eq!((code, err.as_str()), (Some(3), ""));
    assert_nothing_left(&mark);
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let (code, _, err) = texts(&run(&["-n", "2", "--timeout", "1", "--kill-grace", "10", "sleep", "600"]));
    assert_eq!((code, err.as_str()), (Some(124), "banyan: the job took longer than 1 s; ending the job\n"));
}

#[test]
fn a_full_disk_is_named() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (mut command, mark) = launcher(&["-n", "2", "echo", "a"]);
    let (code, _, err) = texts(&command.stdout(full).output().unwrap());
    let why = "cannot write to standard output: No space left on device (os error 28)";
    assert_eq!((code, err), (Some(1), format!("banyan: {why}; ending the job\n")));
    assert_nothing_left(&mark);
}

#[test]
fn ctrl_c_works_although_nobody_reads_the_output() {
    let mut job = start(&["-n", "2", "--kill-grace", "10", "yes"]);
    let mut first = [0; 2];
    let mut stdout = job.child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    kill(&[job.child.id() as i32], "-INT");
    let mark = job.mark.clone();
    let (code, _) = job.end();
    assert_eq!(code, Some(130));
    assert_nothing_left(&mark);
}

#[test]
fn a_slow_reader_does_not_make_agents_grow() {
    let mut job = start(&["-n", "4", "--nodes", "2", "yes"]);
    job.wait_for("yes", 4);
    // All pipes are full once every `yes` sleeps in a write.
    let asleep = |pid: i32| state(pid) == Some('S');
    wait_until("all writers to wait", || {
        let writers = processes(&job.mark).into_iter().filter(|process| process.name == "yes");
        writers.filter(|process| asleep(process.pid)).count() == 4
    });
    for agent in processes(&job.mark).iter().filter(|process| process.name == "banyan-agent") {
        assert!(resident_kib(agent.pid) < 20_000, "{} KiB", resident_kib(agent.pid));
    }
    drop(job.child.stdout.take()); // nobody will ever read it
    let mark = job.mark.clone();
    let (code, err) = job.end();
    assert_eq!(code, Some(141), "{err}");
    assert_nothing_left(&mark);
}

#[test]
fn ctrl_c_while_the_last_output_waits_for_a_reader_is_no_good_end() {
    // So much that all of its ranks end, and some of it is left: with the launcher, or with the agent of the second node.
    for (nodes, bytes) in [("1", "200000"), ("2", "650000")] {
        let script = "[ $(($PMI_RANK + 1)) != $PMI_SIZE ] || exec head -c $0 /dev/zero";
        let mut job = start(&["-n", nodes, "--nodes", nodes, "sh", "-c", script, bytes]);
        job.child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let is_rank = |name: &str| matches!(name, "sh" | "head");
        wait_until("ranks to end", || !processes(&job.mark).iter().any(|process| is_rank(&process.name)));
        kill(&[job.child.id() as i32], "-INT");
        let mark = job.mark.clone();
        let (code, err) = job.end();
        assert_eq!(code, Some(130), "{err}");
        assert_nothing_left(&mark);
    }
}

#[test]
fn a_launcher_that_only_writes_what_is_left_is_not_called() {
    // More than a pipe holds, and less than is sent without credit.
    let mut job = start(&["-n", "1", "--pmgr", "head", "-c", "200000", "/dev/zero"]);
    let own = format!("banyan-ps-{}-", job.child.id());
    job.child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    wait_until("all but the launcher to end", || processes(&job.mark).len() == 1);
    wait_until("the launcher to close its door", || sys::local::names(&own).is_empty());
    let output = job.child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 199_999));
}

fn resident_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn a_stopped_rank_is_no_failure() {
    let mut job = start(&["-n", "2", "sh", "-c", "kill -STOP $$; echo again"]);
    wait_until("both ranks to stop", || {
        let all = processes(&job.mark);
        let stopped = |pid: i32| state(pid) == Some('T');
        all.iter().filter(|process| process.name == "sh" && stopped(process.pid)).count() == 2
    });
    assert!(job.child.try_wait().unwrap().is_none());
    let ranks: Vec<i32> = processes(&job.mark).iter().filter(|p| p.name == "sh").map(|p| p.pid).collect();
    kill(&ranks, "-CONT");
    let output = job.child.wait_with_output().unwrap();
    assert_eq!(texts(&output), (Some(0), "again\nagain\n".into(), String::new()));
}

/// A PMI-1 client in shell: `ask LINE` sends a line and puts the answer into `$reply`.
const PMI_CLIENT: &str = r#"
ask() { echo "$1" >&$PMI_FD; read -r -u $PMI_FD reply; }
ask "cmd=init pmi_version=1 pmi_subversion=1"
ask "cmd=get_my_kvsname"; kvs=${reply##*kvsname=}
put() { ask "cmd=put kvsname=$kvs key=$1 value=$2"; }
get() { ask "cmd=get kvsname=$kvs key=$1"; }
barrier() { ask "cmd=barrier_in"; }
finalize() { ask "cmd=finalize"; }
"#;

fn pmi(options: &[&str], script: &str) -> (Option<i32>, String, String) {
    shell(options, &format!("{PMI_CLIENT}\n{script}"))
}

#[test]
fn keys_put_before_a_barrier_are_read_on_every_node_after_it() {
    let script = r#"
        for phase in 1 2 3; do
            put key-$phase-$PMI_RANK "value of=$PMI_RANK in $phase"; barrier
            for ((peer = 0; peer < PMI_SIZE; peer++)); do
                get key-$phase-$peer
                [ "$reply" = "cmd=get_result rc=0 msg=success value=value of=$peer in $phase" ] || echo "bad: $reply"
            done
        done
        get nothing; echo "$reply"
        get PMI_process_mapping; echo "$reply"
        finalize; echo "$reply""#;
    for nodes in ["1", "4"] {
        let (code, out, err) = pmi(&["-n", "6", "--nodes", nodes], script);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        let mapping = if nodes == "1" { "(vector,(0,1,6))" } else { "(vector,(0,2,2),(2,2,1))" };
        let mapping = format!("cmd=get_result rc=0 msg=success value={mapping}");
        let counts = count_lines(&out);
        assert_eq!(counts.get("cmd=get_result rc=1 msg=key_not_found"), Some(&6), "{out}");
        assert_eq!(counts.get(mapping.as_str()), Some(&6), "{out}");
        assert_eq!(counts.get("cmd=finalize_ack rc=0"), Some(&6), "{out}");
        assert_eq!(counts.len(), 3, "{out}");
    }
}

#[test]
fn names_are_found_from_every_node() {
    let script = r#"
        if [ $PMI_RANK = 3 ]; then ask "cmd=publish_name service=my service port=port#1"; fi
        barrier
        ask "cmd=lookup_name service=my service"; echo "$reply"
        barrier
        if [ $PMI_RANK = 0 ]; then ask "cmd=unpublish_name service=my service"; echo "$reply"; fi
        barrier
        ask "cmd=lookup_name service=my service"; echo "$reply"
        finalize"#;
    let (code, out, err) = pmi(&["-n", "4", "--nodes", "4"], script);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let counts = count_lines(&out);
    assert_eq!(counts.get("cmd=lookup_result info=ok rc=0 port=port#1"), Some(&4), "{out}");
    assert_eq!(counts.get("cmd=unpublish_result info=ok rc=0 msg=success"), Some(&1), "{out}");
    assert_eq!(counts.get("cmd=lookup_result info=ok rc=1 msg=service_not_found"), Some(&4), "{out}");
}

#[test]
fn facts_of_the_job_are_answered() {
    let script = r#"ask "cmd=get_maxes"; echo "$reply"; ask "cmd=get_appnum"; echo "$reply"
        ask "cmd=get_universe_size"; echo "$reply"; finalize"#;
    let (_, out, _) = pmi(&[], script);
    let expected = "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n\
        cmd=appnum rc=0 appnum=0\ncmd=universe_size rc=0 size=-1\n";
    assert_eq!(out, expected);
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let script = r#"if [ $PMI_RANK = 1 ]; then echo "cmd=abort exitcode=7 message=out of luck" >&$PMI_FD; fi; sleep 600"#;
    let (code, _, err) = pmi(&["-n", "3", "--nodes", "2", "--kill-grace", "10"], script);
    assert_eq!(code, Some(7));
    assert!(err.contains("node 0) called MPI_Abort with code 7: out of luck; ending the job"), "{err}");
}

#[test]
fn leaving_between_init_and_finalize_ends_the_job() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 0; fi; sleep 600";
    let (code, _, err) = pmi(&["-n", "2", "--kill-grace", "10"], script);
    assert_eq!(code, Some(1));
    assert!(err.contains("exited with code 0 but without MPI_Finalize"), "{err}");
    let (code, _, err) = pmi(&["-n", "2", "--kill-grace", "10"], &script.replace("exit 0", "exit 5"));
    assert_eq!(code, Some(5));
    assert!(err.contains("exited with code 5; ending the job"), "{err}");
}

#[test]
fn a_rank_that_ends_before_init_does_not_keep_the_others_waiting() {
    let script = format!("if [ $PMI_RANK = 1 ]; then exit 3; fi; {PMI_CLIENT} barrier");
    let (code, _, err) = shell(&["-n", "3", "--nodes", "2", "--kill-grace", "10"], &script);
    assert_eq!(code, Some(3));
    assert!(err.contains("exited with code 3 before MPI_Init, and rank"), "{err}");
}

#[test]
fn ctrl_z_stops_the_job_and_it_goes_on_afterwards() {
    let job = start(&[
        "-n",
        "2",
        "--nodes",
        "2",
        "sh",
        "-c",
        "echo up >&2; while [ ! -e \"$0\" ]; do :; done",
        "/no/such/file",
    ]);
    job.wait_for("sh", 2);
    let launcher = job.child.id() as i32;
    let is = |pid: i32, letter: char| state(pid) == Some(letter);
    let ranks =
        || processes(&job.mark).into_iter().filter(|process| process.name == "sh").map(|process| process.pid);
    kill(&[launcher], "-TSTP");
    wait_until("all to stop", || is(launcher, 'T') && ranks().all(|pid| is(pid, 'T')));
    kill(&[launcher], "-CONT");
    wait_until("all to go on", || !is(launcher, 'T') && ranks().all(|pid| is(pid, 'R')));
    kill(&[launcher], "-INT");
    assert_eq!(job.end().0, Some(130));
}

#[test]
fn codes_after_finalize_are_all_counted() {
    let (code, _, err) =
        pmi(&["-n", "4", "--nodes", "2", "--kill-grace", "60000"], "finalize; exit $PMI_RANK");
    assert_eq!((code, err.as_str()), (Some(3), ""));
}

#[test]
fn nonsense_on_the_pmi_descriptor_is_named_and_ends_the_job() {
    let script = "if [ $PMI_RANK = 1 ]; then echo hello >&$PMI_FD; fi; sleep 600";
    let (code, _, err) = pmi(&["-n", "2", "--kill-grace", "10"], script);
    assert_eq!(code, Some(1));
    assert!(err.contains("broke the PMI protocol: PMI message without a command: 'hello'"), "{err}");
}

#[test]
fn statistics_are_one_json_object() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&["-n", "6", "--nodes", "3", "--stats=json", "--stats-file", path, "true"]);
    assert_eq!(texts(&output), (Some(0), String::new(), String::new()));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!((&json["ranks"], &json["nodes"]), (&6.into(), &3.into()));
    // None of these ranks has counted anything, which is not the same as nothing.
    for key in ["connections", "mapped_bytes", "touched_bytes"] {
        assert!(json.get(key).is_some_and(serde_json::Value::is_null), "{key}");
    }
    assert!(json["init_ms"]["total"].is_null());
    assert_eq!(json["not_measured"], serde_json::json!([0, 1, 2, 3, 4, 5]));
    assert!(json["launch_ms"]["started"].as_f64().unwrap() > 0.0);
}

#[test]
fn ranks_that_count_nothing_are_said_to_be_not_measured() {
    let output = run(&["-n", "3", "--nodes", "2", "--stats=table,matrix", "true"]);
    let (code, _, err) = texts(&output);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("not measured: ranks 0-2 ") && !err.contains("connections  "), "{err}");
    assert_eq!(err.matches("?   not measured\n").count(), 2, "{err}");
}

#[test]
fn names_of_counters_are_explained() {
    let (code, out, _) = texts(&run(&["--help-stats"]));
    assert_eq!(code, Some(0));
    assert!(out.lines().any(|line| line.trim().starts_with("pinned_bytes_peak ")), "{out}");
}

#[test]
fn a_deep_tree_of_many_nodes_works() {
    let (code, out, err) = pmi(
        &["-n", "40", "--nodes", "40"],
        "put k-$PMI_RANK $PMI_RANK; barrier; get k-39; echo $reply; finalize",
    );
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(count_lines(&out).get("cmd=get_result rc=0 msg=success value=39"), Some(&40), "{out}");
}

#[test]
fn ranks_that_share_cores_are_told_to_sleep_where_they_wait() {
    let crowd = (std::thread::available_parallelism().unwrap().get() + 1).to_string();
    let said = |args: &[&str]| {
        let say = "test $PMI_RANK = 0 && echo \"mode ${I_MPI_WAIT_MODE-none}\"; true";
        let (code, out, errors) = texts(&run(&[args, &["sh", "-c", say]].concat()));
        assert_eq!(code, Some(0), "{errors}");
        out
    };
    assert_eq!(said(&["-n", &crowd]), "mode 1\n");
    assert_eq!(said(&["-n", "1"]), "mode none\n");
    assert_eq!(said(&["-env", "I_MPI_WAIT_MODE", "0", "-n", &crowd]), "mode 0\n");
}
