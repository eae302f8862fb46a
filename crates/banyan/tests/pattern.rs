//! `--pattern` from end to end: jobs that record who talks to whom, and jobs that connect by it.
//!
//! The ranks of these jobs are this test itself: `the_ranks` is their program, and does nothing where nobody runs it.
use proto::dims::balanced;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// Tells a rank what to do.
const DEED: &str = "BANYAN_TEST_DEED";
/// Rounds in which neighbours exchange something.
const ROUNDS: usize = 3;

/// Whom a rank talks to.
fn neighbours(deed: &str, rank: usize, size: usize) -> Vec<usize> {
    let mut peers: Vec<usize> = match deed {
        "halo" | "halo-and-wait" => halo(rank, size),
        "ring" => vec![(rank + 1) % size, (rank + size - 1) % size],
        "shift" => vec![(rank + 5) % size, (rank + size - 5) % size],
        "all" => (0..size).collect(),
        _ => Vec::new(),
    };
    peers.retain(|peer| *peer != rank);
    peers.sort_unstable();
    peers.dedup();
    peers
}

/// In a grid of two dimensions with open ends.
fn halo(rank: usize, size: usize) -> Vec<usize> {
    let dims = balanced(size as i32, 2);
    let columns = dims[1] as usize;
    let (row, column) = (rank / columns, rank % columns);
    let mut peers = Vec::new();
    peers.extend((row > 0).then(|| rank - columns));
    peers.extend((rank + columns < size).then_some(rank + columns));
    peers.extend((column > 0).then(|| rank - 1));
    peers.extend((column + 1 < columns).then_some(rank + 1));
    peers
}

/// Connections of all ranks.
fn ends(deed: &str, size: usize) -> u64 {
    (0..size).map(|rank| neighbours(deed, rank, size).len() as u64).sum()
}

#[test]
fn the_ranks() {
    let Ok(deed) = std::env::var(DEED) else { return };
    let universe = mpi::init().unwrap();
    let world = universe.world();
    let peers = neighbours(&deed, world.rank(), world.size());
    for round in 0..ROUNDS {
        let mine = [world.rank() * 100 + round];
        let mut theirs = vec![[0_usize]; peers.len()];
        world
            .scope(|s| {
                for (peer, into) in peers.iter().zip(&mut theirs) {
                    s.irecv(into, *peer, 0)?;
                    s.isend(&mine, *peer, 0)?;
                }
                Ok(())
            })
            .unwrap();
        assert!(peers.iter().zip(&theirs).all(|(peer, theirs)| theirs[0] == peer * 100 + round));
    }
    if deed == "halo-and-wait" {
        println!("waiting");
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
}

/// A folder with a pattern, and a program of a fixed name that this test is.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), folder.path().join("prog")).unwrap();
        Place { folder }
    }

    fn pattern(&self) -> PathBuf {
        self.folder.path().join("pattern")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.pattern()).unwrap()
    }

    fn command(&self, options: &[&str], deed: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_banyan"));
        command.args(["run", "--pattern"]).arg(self.pattern()).args(options);
        command.arg(self.folder.path().join("prog")).args(["--exact", "the_ranks", "--nocapture"]);
        command.env(DEED, deed).stdin(Stdio::null());
        command
    }

    /// Runs a job, and gives its statistics.
    fn run(&self, options: &[&str], deed: &str) -> Value {
        let file = self.folder.path().join("stats");
        let file = file.to_str().unwrap();
        let mut all = options.to_vec();
        all.extend(["--stats=json", "--stats-file", file]);
        let output = self.command(&all, deed).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Rules that were known, connections that were made ahead, and those that were used and not.
fn outcome(stats: &Value) -> [u64; 4] {
    ["rules", "connected", "used", "unused"].map(|key| stats["pattern"][key].as_u64().unwrap())
}

#[test]
fn a_halo_is_connected_ahead_wherever_its_ranks_live_and_however_many() {
    let place = Place::new();
    let first = place.run(&["-n", "16"], "halo");
    assert_eq!((outcome(&first), &first["pattern"]["written"]), ([0; 4], &Value::Bool(true)));
    assert!(place.text().contains("\ngrid created:2 rows faces open after "), "{}", place.text());
    for options in [&["-n", "16", "--nodes", "4", "--map-by", "node"][..], &["-n", "32", "--nodes", "3"]] {
        let stats = place.run(options, "halo");
        let ends = ends("halo", options[1].parse().unwrap());
        assert_eq!(outcome(&stats), [1, ends, ends, 0], "{options:?}: {}", stats["pattern"]);
        assert_eq!(stats["connections"]["sum"].as_u64(), Some(ends), "no others are made");
        assert!(place.text().contains(&format!("\nlast predicted {ends} used {ends}\n")), "{}", place.text());
    }
}

#[test]
fn over_sockets_too() {
    let place = Place::new();
    place.run(&["-n", "12", "--force-net"], "halo");
    let stats = place.run(&["-n", "6", "--nodes", "2", "--force-net"], "halo");
    let ends = ends("halo", 6);
    assert_eq!(outcome(&stats), [1, ends, ends, 0], "{}", stats["pattern"]);
}

#[test]
fn a_wrong_pattern_costs_few_connections_and_is_replaced() {
    let place = Place::new();
    place.run(&["-n", "24"], "all");
    assert!(place.text().contains("\nall after "), "{}", place.text());
    let wrong = place.run(&["-n", "24"], "ring");
    let [rules, connected, used, unused] = outcome(&wrong);
    assert_eq!(rules, 1);
    // Each of 24 ranks was predicted 23 others, of whom it needs 2. It asks for 6, and for one more with each that it uses;
    // as many others ask it.
    assert!(connected <= 24 * 16 && unused <= 24 * 16 && used <= 48, "{}", wrong["pattern"]);
    assert!(!place.text().contains("\nall after "), "{}", place.text());
    let right = place.run(&["-n", "24"], "ring");
    assert_eq!(outcome(&right), [1, 48, 48, 0], "{}", right["pattern"]);
    // The same program does something else.
    let shifted = place.run(&["-n", "24"], "shift");
    let [_, connected, _, unused] = outcome(&shifted);
    assert!(connected <= 48 && unused <= 48, "{}", shifted["pattern"]);
}

#[test]
fn a_broken_file_is_a_warning_and_is_replaced() {
    let place = Place::new();
    fs::write(place.pattern(), "banyan pattern 1\nranks 16\ngrid of my own\n").unwrap();
    let output = place.command(&["-n", "4"], "ring").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let expected =
        format!("banyan: warning: pattern '{}': line 3: 'of' is not created:2", place.pattern().display());
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    assert!(place.text().contains("\nranks 4\n"), "{}", place.text());
}

#[test]
fn a_file_that_is_no_pattern_is_not_touched() {
    let place = Place::new();
    for text in ["int main(void) { return 0; }\n", "\u{fffd}\n"] {
        fs::write(place.pattern(), text).unwrap();
        let output = place.command(&["-n", "2"], "ring").output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("is not a pattern, and would be replaced by one"),
            "{}",
            stderr(&output)
        );
        assert_eq!(place.text(), text);
    }
}

#[test]
fn comments_of_a_file_may_be_any() {
    let place = Place::new();
    place.run(&["-n", "4"], "ring");
    let known = place.text();
    fs::write(place.pattern(), format!("# mine; keep\n{known}")).unwrap();
    let output = place.command(&["-n", "4"], "ring").output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("warning"), "{}", stderr(&output));
}

#[test]
fn a_pattern_of_another_program_is_replaced_after_a_word() {
    let place = Place::new();
    place.run(&["-n", "4"], "ring");
    let known = place.text().replace("program prog", "program other");
    fs::write(place.pattern(), known).unwrap();
    let output = place.command(&["-v", "-n", "8"], "ring").output().unwrap();
    assert!(stderr(&output).contains("is of 'other', not of 'prog': it is replaced"), "{}", stderr(&output));
    assert!(place.text().contains("program prog\nranks 8\n"), "{}", place.text());
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_before_anything_starts() {
    let place = Place::new();
    fs::create_dir(place.pattern()).unwrap();
    let output = place.command(&["-n", "2"], "ring").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{}", stderr(&output));
    let named = format!("the pattern file '{}' is not a file", place.pattern().display());
    assert!(stderr(&output).contains(&named), "{}", stderr(&output));
}

/// Reads lines of a job until all its ranks wait. The rest of its output is not read, but can be.
fn wait_for_ranks(child: &mut Child, ranks: usize) -> BufReader<ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let lines = output.by_ref().lines().map_while(Result::ok);
    assert_eq!(lines.filter(|line| line.contains("waiting")).take(ranks).count(), ranks);
    output
}

#[test]
fn a_killed_job_leaves_the_old_file_whole() {
    let place = Place::new();
    place.run(&["-n", "8"], "ring");
    let known = place.text();
    for signal in ["-TERM", "-KILL"] {
        let mut child = place.command(&["-n", "4"], "halo-and-wait").stdout(Stdio::piped()).spawn().unwrap();
        let _output = wait_for_ranks(&mut child, 4);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert!(!child.wait().unwrap().success());
        assert_eq!(place.text(), known, "{signal}");
        let names: BTreeSet<_> =
            fs::read_dir(place.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 3, "{signal}: {names:?}"); // the program, the pattern and statistics
    }
}

#[test]
fn without_a_launcher_a_broken_file_is_a_warning_too() {
    let place = Place::new();
    fs::write(place.pattern(), "moon\n").unwrap();
    let alone = |file: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_ranks", "--nocapture"]).env(DEED, "ring").env("BANYAN_PATTERN", file);
        command.output().unwrap()
    };
    let output = alone(&place.pattern());
    assert!(output.status.success(), "{}", stderr(&output));
    let expected =
        format!("warning: pattern '{}': line 1: 'moon' is not 'banyan pattern 1'", place.pattern().display());
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    let missing = alone(&place.folder.path().join("missing"));
    assert!(stderr(&missing).contains("it cannot be read: No such file"), "{}", stderr(&missing));
}
