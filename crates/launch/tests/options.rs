//! Options of the command line, seen from the processes that are started.
mod common;

use common::{assert_nothing_left, launcher, run, texts};
use std::fs;
use std::io::Write;
use std::process::Stdio;

fn shell(options: &[&str], script: &str) -> (Option<i32>, String, String) {
    let mut args = options.to_vec();
    args.extend(["bash", "-c", script]);
    texts(&run(&args))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ppn_fills_nodes_in_blocks() {
    let script = "echo $PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS $BANYAN_MAPPING";
    let (code, out, err) = shell(&["-n", "5", "-ppn", "2"], script);
    let map = "(vector,(0,2,2),(2,1,1))";
    let expected: Vec<String> =
        ["0 0/2", "1 1/2", "2 0/2", "3 1/2", "4 0/1"].map(|line| format!("{line} {map}")).into();
    assert_eq!(sorted(&out), expected);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn map_by_node_deals_round_robin() {
    let script = "echo $PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS $BANYAN_MAPPING";
    let (_, out, _) = shell(&["-n", "3", "--nodes", "2", "--map-by", "node"], script);
    let map = "(vector,(0,2,1))";
    assert_eq!(sorted(&out), [format!("0 0/2 {map}"), format!("1 0/1 {map}"), format!("2 1/2 {map}")]);
}

#[test]
fn local_hosts_are_nodes() {
    let script = "echo $PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS";
    let (code, out, _) = shell(&["-n", "4", "--hosts", "localhost,127.0.0.2:3"], script);
    assert_eq!(sorted(&out), ["0 0/1", "1 0/3", "2 1/3", "3 2/3"]);
    assert_eq!(code, Some(0));
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_the_reason() {
    let (code, out, err) = shell(&["--hosts", "elsewhere", "--launcher-exec", "false"], "echo here");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("the agent of host elsewhere could not be started: 'false' exited with code 1"),
        "{err}"
    );
}

#[test]
fn only_the_variables_asked_for_are_inherited() {
    let (mut command, _) =
        launcher(&["-genvlist", "KEEP", "-genv", "SET", "1", "bash", "-c", "echo $KEEP-$DROP-$SET", ":"]);
    command.args(["-envall", "bash", "-c", "echo $KEEP-$DROP-$SET", ":"]);
    command.args(["-envnone", "-env", "SET", "2", "bash", "-c", "echo $KEEP-$DROP-$SET"]);
    let output = command.env("KEEP", "k").env("DROP", "d").output().unwrap();
    let (code, out, err) = texts(&output);
    assert_eq!(sorted(&out), ["--2", "k--1", "k-d-1"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn programs_have_folders_of_their_own_and_are_searched_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    std::os::unix::fs::symlink("/bin/pwd", folder.join("where-am-i")).unwrap();
    let text = folder.to_str().unwrap();
    let output = run(&["-path", text, "-wdir", "/", "where-am-i", ":", "-wdir", text, "where-am-i"]);
    let (code, out, err) = texts(&output);
    assert_eq!(sorted(&out), ["/", text]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn a_program_that_was_found_in_a_relative_folder_is_started_from_another() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/pwd", folder.path().join("where-am-i")).unwrap();
    let (mut by_option, _) = launcher(&["-path", ".", "-wdir", "/", "where-am-i"]);
    let (mut by_variable, _) = launcher(&["-wdir", "/", "where-am-i"]);
    by_variable.env("PATH", ".:/usr/bin:/bin");
    for command in [&mut by_option, &mut by_variable] {
        let output = command.current_dir(&folder).output().unwrap();
        assert_eq!(texts(&output), (Some(0), "/\n".into(), String::new()));
    }
}

#[test]
fn programs_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "# two programs\n-n 2 bash -c 'echo a $PMI_RANK'\nbash -c 'echo b $PMI_RANK'\n")
        .unwrap();
    let (code, out, _) = texts(&run(&["--configfile", file.path().to_str().unwrap()]));
    assert_eq!((code, sorted(&out)), (Some(0), vec!["a 0", "a 1", "b 2"]));
}

#[test]
fn the_universe_size_is_told() {
    let script = r#"exec 4<&3; printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_universe_size\ncmd=finalize\n' >&3
        read -r -u 4 a; read -r -u 4 b; read -r -u 4 c; echo "$b""#;
    let (code, out, _) = shell(&["-usize", "12"], script);
    assert_eq!((code, out.as_str()), (Some(0), "cmd=universe_size rc=0 size=12\n"));
}

#[test]
fn a_job_on_one_node_has_the_hosts_name() {
    let (_, out, _) = shell(&["-n", "1", "--prepend-pattern", "%h: "], "uname -n");
    let (label, name) = out.trim_end().split_once(": ").unwrap();
    assert_eq!(label, name);
}

#[test]
fn output_goes_to_files_by_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, err) = (path("out.%h.%r"), path("all.err"));
    let options = ["-n", "3", "--nodes", "2", "--outfile-pattern", &out, "--errfile-pattern", &err];
    let script = "echo one $PMI_RANK; echo two; echo bad $PMI_RANK >&2";
    assert_eq!(shell(&options, script), (Some(0), String::new(), String::new()));
    let read = |name: &str| fs::read_to_string(path(name)).unwrap();
    assert_eq!(read("out.node0.0"), "one 0\ntwo\n");
    assert_eq!(read("out.node0.1"), "one 1\ntwo\n");
    assert_eq!(read("out.node1.2"), "one 2\ntwo\n");
    assert_eq!(sorted(&read("all.err")), ["bad 0", "bad 1", "bad 2"]);
    // A second job begins the files anew.
    shell(&options, "echo new");
    assert_eq!(read("out.node1.2"), "new\n");
}

#[test]
fn an_output_file_that_cannot_be_written_ends_the_job() {
    let (code, _, err) = shell(&["--outfile-pattern", "/no/such/folder/%r"], "echo x; exec sleep 600");
    assert_eq!(code, Some(1));
    assert!(err.contains("cannot write '/no/such/folder/0': "), "{err}");
}

#[test]
fn lines_begin_with_a_pattern() {
    let (_, out, _) = shell(&["-n", "2", "--nodes", "2", "--prepend-pattern", "%h/%p.%g/%r: "], "echo x");
    assert_eq!(sorted(&out), ["node0/0.0/0: x", "node1/1.0/1: x"]);
}

#[test]
fn verbose_says_what_is_started_where() {
    let (code, _, err) = shell(&["-n", "3", "--nodes", "2", "-v"], "exit 0");
    assert_eq!((code, err.lines().count()), (Some(0), 4));
    let lines = sorted(&err);
    assert!(lines[0].starts_with("banyan: node 0 (agent ") && lines[0].contains("): ranks 0-1: "), "{err}");
    assert!(lines[1].starts_with("banyan: node 0: ranks 0-1 bound to none, may use "), "{err}");
    assert!(lines[2].starts_with("banyan: node 1 (agent ") && lines[2].contains("): rank 2: "), "{err}");
    assert!(lines[2].ends_with("/bash"), "{err}");
}

#[test]
fn bindings_are_reported_as_agents_made_them() {
    let core = sys::limit::allowed_cores().unwrap()[0];
    let bind = format!("user:{core}");
    let (code, _, err) = shell(&["-n", "3", "--bind-to", &bind, "--report-bindings"], "exit 0");
    assert_eq!(code, Some(0));
    assert_eq!(err, format!("banyan: node 0: ranks 0-2 bound to processor {core}\n"));
}

#[test]
fn every_exit_code_is_told_if_asked_for() {
    let (code, _, err) = shell(&["-n", "3", "-print-all-exitcodes"], "exit $((PMI_RANK / 2 * 5))");
    assert_eq!(code, Some(5));
    assert_eq!(err, "banyan: ranks 0-1: exited with code 0\nbanyan: rank 2: exited with code 5\n");
}

#[test]
fn a_note_on_an_option_of_another_launcher_does_not_stop_the_job() {
    let (code, out, err) = shell(&["-n", "1", "--mca", "btl", "self,tcp", "--oversubscribe"], "echo here");
    assert_eq!((code, out.as_str()), (Some(0), "here\n"));
    assert!(
        err.starts_with("banyan: note: '--mca' is a setting of Open MPI's library")
            && err.lines().count() == 1,
        "{err}"
    );
}

#[test]
fn a_dry_run_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let options = ["--dry-run", "-n", "3", "--nodes", "2", "touch", touched.to_str().unwrap()];
    let (code, out, err) = texts(&run(&options));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("agent of node 1: rank 2"), "{out}");
    assert!(!touched.exists());
}

#[test]
fn a_file_for_results_that_cannot_be_written_is_named_before_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (option, what) in [("--stats-file", "statistics"), ("--report", "the report")] {
        let (code, _, err) = texts(&run(&[option, "/no/such/folder/file", "touch", &path("touched")]));
        assert_eq!(code, Some(2), "{err}");
        let expected = format!("banyan: {what} cannot be written to '/no/such/folder/file': ");
        assert!(err.starts_with(&expected), "{err}");
        // Nor is one left empty by a job that cannot be started.
        let (code, _, err) = texts(&run(&[option, &path("new"), "--bind-to", "user:1023", "true"]));
        assert_eq!((code, fs::read_dir(folder.path()).unwrap().count()), (Some(1), 0), "{err}");
    }
}

#[test]
fn a_chosen_rank_reads_standard_input() {
    for (reader, expected) in [("12", "12 hello"), ("none", "")] {
        let script = "read -r line && echo $PMI_RANK $line || true";
        let (mut command, _) = launcher(&["-n", "13", "-ppn", "1", "-s", reader, "bash", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(b"hello\n"); // nobody may read it
        let (code, out, _) = texts(&child.wait_with_output().unwrap());
        assert_eq!((code, out.trim_end()), (Some(0), expected));
    }
}

#[test]
fn all_ranks_read_a_file_from_where_it_stands() {
    use std::io::{Seek, SeekFrom};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"skipped\none\ntwo\n").unwrap();
    file.seek(SeekFrom::Start(8)).unwrap();
    let script = "read -r a; read -r b; echo $PMI_RANK $a $b";
    let (mut command, _) = launcher(&["-n", "3", "--nodes", "2", "-s", "all", "bash", "-c", script]);
    let (code, out, err) = texts(&command.stdin(file).output().unwrap());
    assert_eq!(sorted(&out), ["0 one two", "1 one two", "2 one two"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(run(&["-s", "all", "cat"]).status.code(), Some(0)); // of /dev/null
}

#[test]
fn all_ranks_read_what_comes_through_a_pipe() {
    let script = "read -r a; read -r b; echo $PMI_RANK $a $b";
    let (mut command, _) = launcher(&["-n", "3", "--nodes", "2", "-s", "all", "bash", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let (code, out, err) = texts(&child.wait_with_output().unwrap());
    assert_eq!(sorted(&out), ["0 one two", "1 one two", "2 one two"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn ranks_are_bound_to_the_processors_listed() {
    let allowed = "grep Cpus_allowed_list /proc/self/status";
    let list = fs::read_to_string("/proc/self/status").unwrap();
    let list = list.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = list.split(['-', ',']).next().unwrap();
    let (code, out, _) = shell(&["-n", "2", "--bind-to", &format!("user:{first}")], allowed);
    assert_eq!(code, Some(0));
    assert!(out.lines().all(|line| line.split_whitespace().last() == Some(first)), "{out}");
    let (code, out, _) = shell(&["-n", "3", "--bind-to", "core:1000000"], allowed); // no more than there are
    assert_eq!((code, out.lines().count()), (Some(0), 3));
    assert!(out.lines().all(|line| line.split_whitespace().last() == Some(list)), "{out}");
    let (code, _, err) = shell(&["--bind-to", "user:1023"], allowed);
    assert_eq!(code, Some(1));
    assert!(err.contains("processor 1023 is none of those that may be used here"), "{err}");
}

/// The exit code, output and errors of a job for which a variable is set.
fn with_variable(name: &str, value: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let (mut command, mark) = launcher(args);
    let output = command.env(name, value).output().unwrap();
    assert_nothing_left(&mark);
    texts(&output)
}

#[test]
fn a_time_out_may_come_from_the_environment() {
    let sleep = |options: &[&'static str]| [options, &["--kill-grace", "10", "sleep", "600"]].concat();
    let (code, _, err) = with_variable("MPIEXEC_TIMEOUT", "1", &sleep(&[]));
    assert_eq!((code, err.as_str()), (Some(124), "banyan: the job took longer than 1 s; ending the job\n"));
    let (code, _, err) = with_variable("MPIEXEC_TIMEOUT", "600", &sleep(&["--timeout", "1"]));
    assert_eq!((code, err.as_str()), (Some(124), "banyan: the job took longer than 1 s; ending the job\n"));
    assert_eq!(with_variable("MPIEXEC_TIMEOUT", "-1", &["true"]).0, Some(0));
    let (code, _, err) = with_variable("MPIEXEC_TIMEOUT", "soon", &["true"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("banyan: MPIEXEC_TIMEOUT: 'soon' is not a number of seconds\n"), "{err}");
}

#[test]
fn hosts_may_come_from_a_file_that_the_environment_names() {
    let mut hosts = tempfile::NamedTempFile::new().unwrap();
    hosts.write_all(b"localhost:2\r\n# more\r\n127.0.0.1\r\n").unwrap();
    let file = hosts.path().to_str().unwrap();
    let script = ["sh", "-c", "echo $PMI_RANK $MPI_LOCALRANKID"];
    let (code, out, err) = with_variable("HYDRA_HOST_FILE", file, &script);
    assert_eq!((code, sorted(&out), err.as_str()), (Some(0), vec!["0 0", "1 1", "2 0"], ""));
    let (_, out, _) = with_variable("HYDRA_HOST_FILE", file, &[&["--nodes", "1"], &script[..]].concat());
    assert_eq!(out, "0 0\n");
    let (code, _, err) = with_variable("HYDRA_HOST_FILE", "/no/such/file", &script);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("banyan: HYDRA_HOST_FILE: cannot read '/no/such/file': "), "{err}");
}

#[test]
fn a_variable_with_a_bad_value_is_an_error_that_names_it() {
    let (code, out, err) = with_variable("BANYAN_QP_MAX", "many", &["echo", "started"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("banyan: BANYAN_QP_MAX: 'many' is not a number from 1 to "), "{err}");
    let (code, _, err) = shell(&["-genv", "BANYAN_CMA", "perhaps"], "true");
    assert_eq!(code, Some(2));
    assert!(err.starts_with("banyan: BANYAN_CMA: 'perhaps' is not 'on' or 'off'\n"), "{err}");
    assert_eq!(with_variable("BANYAN_QP_MAX", "64", &["true"]).0, Some(0));
}

#[test]
fn a_variable_that_nobody_reads_is_told_of_once() {
    let (code, out, err) =
        with_variable("BANYAN_NO_SUCH_NAME", "1", &["-n", "4", "--nodes", "2", "echo", "x"]);
    assert_eq!((code, out.as_str()), (Some(0), "x\nx\nx\nx\n"));
    assert_eq!(err, "banyan: warning: nothing reads BANYAN_NO_SUCH_NAME\n");
}

#[test]
fn ranks_are_told_about_traffic_between_hosts() {
    let script = "echo $BANYAN_NET $BANYAN_PORT_RANGE $BANYAN_NET_TIMEOUT $BANYAN_FORCE_NET";
    let options = ["--net", "10.0.0.0/8", "--port-range", "4000:4001", "--net-timeout", "5", "--force-net"];
    let (code, out, err) = shell(&[&["-genvlist", "PATH", "-n", "2"], &options[..]].concat(), script);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "10.0.0.0/8 4000-4001 5 on\n".repeat(2));
    let spawn = "mcmd=spawn\\nnprocs=2\\nexecname=bash\\ntotspawns=1\\nspawnssofar=1\\nargcnt=2\\narg1=-c\\n\
                 arg2=echo $BANYAN_NET; echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read a <&3; \
                 echo cmd=finalize >&3; read a <&3\\npreput_num=0\\ninfo_num=0\\nendcmd\\n";
    let spawner = format!(
        "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read a <&3; printf '{spawn}' >&3; read a <&3; \
         echo cmd=finalize >&3; read a <&3"
    );
    let (code, out, err) = shell(&["--net", "ib0"], &spawner);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "ib0\nib0\n", ""), "spawned ranks too");
    // Nodes on one host need no address.
    let (_, out, _) = shell(&["-n", "2", "--nodes", "2"], "echo ${BANYAN_NET_ADDRESS-none}");
    assert_eq!(out, "none\nnone\n");
}

/// A remote shell that writes down whom it should enter as, and stays here.
fn near_shell(folder: &std::path::Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join("near-shell");
    let text = format!("#!/bin/sh\necho \"$1\" >> {}/entered\nshift\nexec sh -c \"$*\"\n", folder.display());
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().into()
}

#[test]
fn a_user_is_for_the_remote_shell_and_an_address_for_the_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let shell_file = near_shell(folder.path());
    let options =
        ["--hosts", "localhost,me@127.0.0.1", "--launcher-exec", &shell_file, "--prepend-pattern", "%h "];
    let (code, out, err) = shell(&options, "echo $PMI_RANK $BANYAN_NET_ADDRESS");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["127.0.0.1 1 127.0.0.1", "localhost 0 127.0.0.1"]);
    assert_eq!(fs::read_to_string(folder.path().join("entered")).unwrap(), "me@127.0.0.1\n");
}

#[test]
fn programs_that_are_spawned_together_run_on_the_hosts_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let shell_file = near_shell(folder.path());
    let block = |number: u32, info: &str| {
        format!(
            "mcmd=spawn\\nnprocs=1\\nexecname=bash\\ntotspawns=2\\nspawnssofar={number}\\nargcnt=2\\narg1=-c\\n\
             arg2=echo program {number}; echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read a <&3; \
             echo cmd=finalize >&3; read a <&3\\npreput_num=0\\n{info}\\nendcmd\\n"
        )
    };
    let first = block(1, "info_num=1\\ninfo_key_0=host\\ninfo_val_0=localhost");
    // For the second nothing is asked: then the other host is the one with the fewest ranks.
    let blocks = first + &block(2, "info_num=0");
    let spawner = format!(
        "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read a <&3; \
         test $PMI_RANK = 1 || {{ printf '{blocks}' >&3; read a <&3; echo $a; }}; echo cmd=finalize >&3; read a <&3"
    );
    let hosts = ["--hosts", "localhost,me@127.0.0.1", "--launcher-exec", &shell_file];
    let (code, out, err) = shell(&[&hosts[..], &["--prepend-pattern", "%h "]].concat(), &spawner);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let expected = ["127.0.0.1 program 2", "localhost cmd=spawn_result rc=0", "localhost program 1"];
    assert_eq!(sorted(&out), expected);
}

#[test]
fn malformed_options_have_exit_code_2() {
    for options in [
        vec!["-ppn", "x", "true"],
        vec!["-usize", "0", "true"],
        vec!["-s", "9", "true"],
        vec!["--bind-to", "user:", "true"],
        vec!["--map-by", "x", "true"],
        vec!["--configfile", "/no/such/file"],
        vec!["--hostfile", "/no/such/file", "true"],
        vec!["--hosts", "n[", "true"],
        vec!["--hosts", "-u@n1", "true"],
        vec!["--net", "10.0.0.0/99", "true"],
        vec!["--port-range", "1", "true"],
        vec!["--net-timeout", "never", "true"],
        vec!["--outfile-pattern", "%", "true"],
        vec!["--errfile-pattern", "%q", "true"],
        vec!["--prepend-pattern", "", "true"],
        vec!["--dry-run=1", "true"],
        vec!["-genvlist"],
        vec!["-wdir"],
    ] {
        let (code, out, err) = texts(&run(&options));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{options:?}");
        assert!(err.starts_with("banyan: option '-"), "{err}");
    }
}
