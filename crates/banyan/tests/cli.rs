//! The binary's command line: what it answers, and with which exit code.
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_banyan"));
    command.args(args);
    command
}

fn banyan(args: &[&str]) -> Output {
    command(args).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_unknown_command_is_named_and_exits_with_2() {
    for args in [
        &["plant"][..],
        &["bench", "trees"],
        &["bench", "peers", "--fast"],
        &["bench", "launch", "--fast"],
        &["bench", "dynamic", "--fast"],
        &["bench", "rma", "--fast"],
        &["bench", "verbs", "--fast"],
        &["bench", "connect", "--fast"],
        &["demo", "long"],
    ] {
        let output = banyan(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(args.last().unwrap()), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn no_command_shows_help_and_exits_with_2() {
    let output = banyan(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("usage: banyan"));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (args, word) in [
        (&["help"][..], "  peers "),
        (&["--help"], "demo"),
        (&["bench", "-h"], "  sizes "),
        (&["--version"], "banyan 0."),
    ] {
        let output = banyan(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains(word), "{args:?}: {}", stdout(&output));
    }
}

#[test]
fn info_answers_every_question() {
    let output = banyan(&["info"]);
    assert_eq!(output.status.code(), Some(0));
    for word in ["cores", "kernel", "memfd", "process_vm_readv", "membarrier", "rdma", "between hosts"] {
        assert!(stdout(&output).contains(word), "no {word} in\n{}", stdout(&output));
    }
}

#[test]
fn info_for_scripts_is_one_object() {
    let output = banyan(&["info", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let facts: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one object");
    assert!(facts["cores"].as_array().is_some_and(|cores| !cores.is_empty()), "{facts}");
    assert!(facts["rdma"]["devices"].is_array() && facts["membarrier"]["allowed"].is_boolean(), "{facts}");
    let output = banyan(&["info", "--xml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("'--xml' is not an option"), "{}", stderr(&output));
}

/// Runs with a stream that nobody reads any more.
fn banyan_unread(args: &[&str], unread: fn(&mut Command, Stdio)) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_banyan"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    unread(&mut command, writer.into());
    command.spawn().expect("the binary starts").wait_with_output().expect("it ends")
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_command_quietly() {
    for args in [
        &["info"][..],
        &["help"],
        &["version"],
        &["demo"],
        &["bench", "limit"],
        &["bench", "net", "--help"],
        &["run", "--help"],
        &["run", "--version"],
        &["run", "--help-stats"],
        &["run", "--dry-run", "-n", "2", "true"],
    ] {
        let output = banyan_unread(args, |command, pipe| _ = command.stdout(pipe));
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(141), ""), "{args:?}");
    }
}

#[test]
fn an_unread_complaint_does_not_change_the_exit_code() {
    for (args, code) in [(&[][..], 2), (&["plant"], 2), (&["run", "--stats", "-n", "1", "true"], 0)] {
        let output = banyan_unread(args, |command, pipe| _ = command.stderr(pipe));
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), ""), "{args:?}");
    }
}

#[test]
fn run_passes_output_and_exit_code() {
    let output = banyan(&["run", "-n", "3", "sh", "-c", "echo rank $PMI_RANK; exit $PMI_RANK"]);
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0", "rank 1", "rank 2"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn under_the_name_mpiexec_it_is_the_launcher() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mpiexec", "mpirun"] {
        let link: PathBuf = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_banyan"), &link).unwrap();
        let output = Command::new(&link).args(["-n", "2", "echo", "hello"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stdout(&output), "hello\nhello\n");
    }
}

#[test]
fn the_launchers_benchmark_runs_without_any_peer() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, json) = (folder.path().to_str().unwrap(), folder.path().join("figures.json"));
    let mut args = vec!["bench", "launch", "--rounds", "1", "--only", "true", "--launchers", "bare,banyan"];
    args.extend(["--ranks", "3", "--nodes", "2x2", "--per-node", "1,2", "--dir", dir, "--json"]);
    args.push(json.to_str().unwrap());
    let output = banyan(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let jobs = figures["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2, "{figures:#}");
    for job in jobs {
        for launcher in ["bare", "banyan"] {
            assert!(job["launchers"][launcher]["median_ms"].as_f64().unwrap() > 0.0, "{job:#}");
        }
    }
    assert!(figures["started"].as_array().unwrap().iter().all(|point| point["runs"] == 1), "{figures:#}");
    assert!(stdout(&output).contains("/bin/true, 2 nodes x 2"), "{}", stdout(&output));
}

#[test]
fn the_boards_benchmark_counts_a_message_up_and_down_per_link() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let mut args = vec!["bench", "board", "--ranks", "16", "--per-node", "4", "--rounds", "1"];
    args.extend(["--keys-rounds", "200", "--json", json.to_str().unwrap()]);
    let output = banyan(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let of_kind =
        |kind: &str| figures["jobs"].as_array().unwrap().iter().find(|job| job["kind"] == kind).unwrap();
    for gets in ["two_gets", "all_gets"] {
        assert_eq!(of_kind("hcmab")[gets]["messages"], 6.0, "3 links: {figures:#}");
        assert!(of_kind("hcs")[gets]["messages"].as_f64().unwrap() > 18.0, "{figures:#}");
    }
    let lru = figures["kept"].as_array().unwrap().iter().find(|kept| kept["kind"] == "hcmab-lru").unwrap();
    assert_eq!(lru["entries"][2]["root_entries_peak"], 200 * 16, "{figures:#}");
    let bound = (16 * proto::board::ENTRIES_PER_PROCESS) as u64;
    assert!(lru["entries"][2]["other_entries_peak"].as_u64().unwrap() <= bound, "{figures:#}");
}

#[test]
fn the_benchmark_of_connections_counts_those_of_checked_programs() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let mut args = vec!["bench", "connect", "--ranks", "3", "--per-node", "2", "--workloads", "ring,ep,sp"];
    args.extend(["--only", "counts", "--json", json.to_str().unwrap()]);
    let output = banyan(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let of = |workload: &str, coll: &str| {
        let counts = figures["counts"].as_array().unwrap();
        counts.iter().find(|count| count["workload"] == workload && count["coll"] == coll).unwrap()
    };
    let two = serde_json::json!({"avg": 2.0, "min": 2.0, "max": 2.0});
    assert_eq!(of("ring", "flat")["connections"], two, "{figures:#}");
    assert_eq!(of("ring", "flat")["connections_xrc"]["max"], 1.0, "{figures:#}");
    assert_eq!(of("sp", "auto")["ranks"], 4, "a square: {figures:#}");
    assert!(of("ep", "flat")["touched_kib"].as_f64().unwrap() > 0.0, "{figures:#}");
}

#[test]
fn the_benchmark_of_connections_counts_what_is_exchanged_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let args = ["bench", "connect", "--quick", "--only", "pair,startup", "--startup", "6", "--json"];
    let output = banyan(&[&args[..], &[json.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let lines = figures["startup"]["lines"].as_array().unwrap();
    let of = |policy: &str, what: &str| {
        let line = lines.iter().find(|line| line["policy"] == policy).unwrap();
        line[what].as_f64().unwrap_or_else(|| panic!("{policy}, {what}: {line:#}"))
    };
    let [published, batched, ranges] =
        ["static-parallel:published", "static-parallel:batched", "rank-by-rank"];
    // Five numbers and what holds of all; a text of each of five others, and the number that is meant.
    assert_eq!((of(published, "exchange_puts"), of(published, "exchange_gets")), (6.0, 10.0));
    for policy in [batched, ranges] {
        assert_eq!((of(policy, "exchange_puts"), of(policy, "exchange_gets")), (1.0, 5.0), "{policy}");
    }
    assert!(of(ranges, "exchange_bytes") < of(batched, "exchange_bytes"));
    assert_eq!((of(ranges, "exchange_ranges"), of("static-parallel", "exchange_puts")), (1.0, 0.0));
    let pairs = figures["pair"]["lines"].as_array().unwrap();
    assert!(pairs.len() == 4 && pairs.iter().all(|pair| pair["ready_us"]["runs"] == 1), "{figures:#}");
}

#[test]
fn a_benchmark_whose_jobs_fail_says_which_and_fails() {
    let args = ["bench", "connect", "--quick", "--only", "pair,first"];
    let output = command(&args).env("BANYAN_WAIT", "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    for job in ["pair, overlapped, imitated device (1 of 1)", "first, rank-by-rank (1 of 1)"] {
        assert!(stderr(&output).lines().last().unwrap().contains(job), "{}", stderr(&output));
    }
}

#[test]
fn a_benchmark_that_is_killed_takes_its_job_along() {
    // The file of statistics that it cannot read any more is left there.
    let folder = tempfile::tempdir().unwrap();
    let mut bench = command(&["bench", "connect", "--ranks", "2", "--rounds", "1000", "--only", "counts"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", bench.id());
    let job = loop {
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        if let Some(pid) = text.split_whitespace().next() {
            break pid.to_string();
        }
    };
    bench.kill().unwrap();
    bench.wait().unwrap();
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{job}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    let start = std::time::Instant::now();
    while is_there() {
        assert!(start.elapsed().as_secs() < 60, "{job} goes on");
        std::thread::yield_now();
    }
}

#[test]
fn a_rank_says_that_it_was_run_wrongly() {
    for (args, word) in
        [(&["bench", "connect-rank", "dt"][..], "'dt'"), (&["bench", "connect-rank"], "usage")]
    {
        let output = banyan(args);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}");
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

#[test]
fn the_demo_checks_its_results_and_shows_who_connected_to_whom() {
    let output = banyan(&["demo"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: Vec<Vec<&str>> = text.lines().filter_map(matrix_row).collect();
    assert_eq!(rows.len(), 8, "{text}");
    for (rank, row) in rows.iter().enumerate() {
        // The ring is the same everywhere; whom an allreduce meets depends on the machine.
        assert_eq!((row[rank], row[(rank + 1) % 8], row[(rank + 7) % 8]), ("\\", "1", "1"), "{text}");
        assert!((0..8).all(|to| row[to] == rows[to][rank]), "both sides agree:\n{text}");
    }
    assert!(rows.iter().flatten().any(|cell| *cell == "."), "somebody met not everybody:\n{text}");
    assert!(text.trim_end().ends_with("All results are right."), "{text}");
}

/// The cells of "node 0, rank  1   1  \  ...   4 of 7".
fn matrix_row(line: &str) -> Option<Vec<&str>> {
    let (_, cells) = line.split_once(", rank")?;
    Some(cells.split_whitespace().skip(1).take(8).collect())
}

/// A rank waits eight times for a message that comes 40 ms later: how often did it sleep?
fn sleeps(ranks: &str, wait: &str) -> u64 {
    let program = env!("CARGO_BIN_EXE_banyan");
    let output =
        banyan(&["run", "-n", ranks, "--wait", wait, program, "bench", "connect-rank", "waits", "8"]);
    assert_eq!(output.status.code(), Some(0), "{wait}: {}", stderr(&output));
    let text = stdout(&output);
    text.trim()
        .strip_prefix("sleeps ")
        .and_then(|n| n.parse().ok())
        .unwrap_or_else(|| panic!("{wait}: {text}"))
}

#[test]
fn who_polls_never_sleeps_and_who_blocks_does() {
    // With a core for each, and with more ranks than cores.
    for ranks in ["2", "70"] {
        // (Page faults may wait for something, too.)
        assert!(sleeps(ranks, "poll") < 4, "{ranks} ranks");
        for wait in ["spin-block", "sleep"] {
            // (A process that does not get to run for long finds its message there.)
            assert!(sleeps(ranks, wait) >= 5, "{ranks} ranks, {wait}");
        }
    }
}

#[test]
fn a_way_to_wait_that_is_none_is_refused() {
    let output = banyan(&["run", "-n", "1", "--wait", "spin", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("'spin'") && text.contains("spin-block"), "{text}");
}
