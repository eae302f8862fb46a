//! What the tests of the two leaf crates share: the library as cargo builds it, its exports against the
//! table, and the C test programs run on it. Programs run alone here (every process can); under the launcher
//! they are run by the project's `test` script, with the installed compilers.
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[path = "../../table/gen.rs"]
mod table;
pub use table::Side;

/// What `banyan.h` declares, and where `libarmci.so` finds the engine.
const EXTENSIONS: [&str; 3] = ["BANYAN_Stat", "BANYAN_Stat_name", "BANYAN_armci"];

/// How Fortran's compilers call the functions that begin MPI: they say that there are no bindings.
const OF_FORTRAN: [&str; 6] =
    ["mpi_init", "mpi_init_", "mpi_init__", "mpi_init_thread", "mpi_init_thread_", "mpi_init_thread__"];

/// Compares `nm` of the library called `file` with the table, plus `others`.
pub fn check(side: Side, file: &str, others: &[&str]) {
    let mut listed: BTreeSet<String> =
        others.iter().chain(&EXTENSIONS).chain(&OF_FORTRAN).map(|name| name.to_string()).collect();
    for f in table::functions().iter().filter(|f| f.exists_on(side)) {
        listed.insert(f.name.clone());
        listed.insert(format!("P{}", f.name));
    }
    let exported = exported(&library(file));
    let missing: Vec<_> = listed.difference(&exported).collect();
    let foreign: Vec<_> = exported.difference(&listed).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    assert!(foreign.is_empty(), "exported but not listed: {foreign:?}");
}

/// Checks the name that the dynamic linker knows the library by.
pub fn check_soname(file: &str, soname: &str) {
    let output = Command::new("readelf").arg("-d").arg(library(file)).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("[{soname}]")), "no soname {soname} in:\n{text}");
}

/// Each process has the library at another place: its segments want more than a page. See `PAGE_SIZE_MAX` of the table.
pub fn check_alignment(file: &str) {
    let output = Command::new("readelf").arg("-lW").arg(library(file)).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let loads: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("LOAD")).collect();
    assert!(!loads.is_empty() && loads.iter().all(|line| line.ends_with("0x2000")), "{loads:#?}");
}

/// The library, built: for a test cargo does not build a library that only C programs can link.
fn library(file: &str) -> PathBuf {
    built(env!("CARGO_PKG_NAME"), file)
}

/// A file that cargo builds from a package of the project.
fn built(package: &str, file: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its file");
    let target = test.ancestors().nth(3).expect("target/profile/deps/test");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", package, "--target-dir"])
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(built.success(), "{file} does not build");
    target.join("debug").join(file)
}

fn exported(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm runs");
    assert!(output.status.success(), "nm failed");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap_or(name).to_string())
        .collect()
}

/// A C program of `capi/tests/c`, built against the library with the generated header.
pub struct Program {
    folder: PathBuf,
}

impl Program {
    /// Compiles `name`.c; the library is found under `soname`.
    pub fn build(side: Side, name: &str, file: &str, soname: &str) -> Program {
        // Tests run at a time, and may build the same program.
        static BUILT: AtomicU32 = AtomicU32::new(0);
        let number = BUILT.fetch_add(1, Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{}-{number}-{name}", env!("CARGO_PKG_NAME")));
        let at = folder.as_path();
        let _ = std::fs::remove_dir_all(at);
        std::fs::create_dir_all(at).expect("a scratch folder");
        std::fs::write(at.join("mpi.h"), table::c_header(side)).expect("the header is written");
        std::os::unix::fs::symlink(library(file), at.join(soname)).expect("the library is linked");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/tests/c");
        let extensions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/include");
        let source = match name {
            "garbage" => at.join("garbage.c"),
            _ => tests.join(format!("{name}.c")),
        };
        let others = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
        let source =
            if name == "garbage" || source.exists() { source } else { others.join(format!("{name}.c")) };
        if name == "garbage" {
            std::fs::write(&source, garbage(side)).expect("the program is written");
        }
        let output = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-I"])
            .arg(at)
            .arg("-I")
            .arg(tests)
            .arg("-I")
            .arg(extensions)
            .arg(source)
            .arg("-o")
            .arg(at.join("program"))
            .arg(at.join(soname))
            .arg(format!("-Wl,-rpath,{}", at.display()))
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{name}.c: {}", String::from_utf8_lossy(&output.stderr));
        Program { folder }
    }

    /// Runs it as a job of one process.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = clean(Command::new(self.folder.join("program")));
        command.args(args).output().expect("the program starts")
    }

    /// Runs it under the launcher with these options. Gives its exit code and what it wrote to standard error.
    fn launch(&self, launcher: &Path, options: &str, args: &[&str]) -> (Option<i32>, String) {
        let mut command = clean(Command::new(launcher));
        command.arg("--timeout=120").args(options.split_whitespace()).arg(self.folder.join("program"));
        let output = command.args(args).output().expect("the launcher starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs it under the launcher until all `words` were written to standard error: it would not end by itself.
    fn says(&self, launcher: &Path, options: &str, mistake: &str, words: &[&str]) {
        let mut command = clean(Command::new(launcher));
        command.arg("--timeout=120").args(options.split_whitespace()).arg(self.folder.join("program"));
        let mut job = command.arg(mistake).stderr(Stdio::piped()).spawn().expect("the launcher starts");
        let mut text = String::new();
        let mut lines = BufReader::new(job.stderr.take().expect("it is piped"));
        while !words.iter().all(|word| text.contains(word)) {
            let more = lines.read_line(&mut text).expect("the launcher writes text");
            assert!(more > 0, "{mistake}: not all of {words:?} in:\n{text}");
        }
        job.kill().expect("the launcher runs");
        job.wait().expect("the launcher ends");
    }

    /// Runs it and demands success.
    pub fn succeeds(&self) {
        let output = self.run(&[]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Runs it and demands an error exit and a message that contains all `words`.
    pub fn fails(&self, mistake: &str, words: &[&str]) {
        let output = self.run(&[mistake]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{mistake}: it succeeded");
        assert!(output.status.code().is_some(), "{mistake}: it crashed: {output:?}");
        for word in words {
            assert!(text.contains(word), "{mistake}: no \"{word}\" in:\n{text}");
        }
    }
}

/// Without what the tests themselves were started with.
fn clean(mut command: Command) -> Command {
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("PMI") || name.starts_with("BANYAN"))
    {
        command.env_remove(name);
    }
    command
}

/// Mistakes of `wrong.c` that end the job, and what is said of each.
const FATAL: [(&str, &[&str]); 15] = [
    ("order", &["rank 0: MPI_Barrier()", "rank 1: MPI_Bcast(root 0, 4 x MPI_INT)", "different calls"]),
    ("root", &["rank 0: MPI_Bcast(root 0", "rank 1: MPI_Bcast(root 1", "different roots"]),
    ("operation", &["MPI_Allreduce(MPI_SUM, 4 x MPI_INT)", "MPI_Allreduce(MPI_MAX", "different operations"]),
    ("count", &["MPI_Bcast(root 0, 3 x MPI_INT)", "rank 0 sends rank 1 16 bytes for 12"]),
    ("signature", &["MPI_Allreduce(MPI_SUM, 4 x MPI_FLOAT)", "4 x MPI_INT)", "16 bytes of other datatypes"]),
    ("counts", &["MPI_Gatherv(root 0, 2 x MPI_INT)", "rank 1 sends rank 0 8 bytes for 4"]),
    (
        "nonblocking",
        &["rank 1: MPI_Ibarrier()", "rank 0: MPI_Barrier()", "as collective 1 of MPI_COMM_WORLD"],
    ),
    ("extra", &["rank 1: MPI_Barrier()", "rank 0: MPI_Finalize()"]),
    ("freed", &["rank 1: MPI_Barrier()", "rank 0: MPI_Comm_free()", "collective 1 of another world"]),
    ("splits", &["rank 1: MPI_Comm_dup()", "rank 0: MPI_Comm_split()"]),
    ("datatype", &["rank 1: MPI_Recv of 4 x MPI_FLOAT", "from rank 0 with tag 5 was sent as 4 x MPI_INT"]),
    (
        "groups",
        &[
            "rank 0 of its group (process 0 of the job): MPI_Barrier()",
            "MPI_Allreduce(MPI_SUM, 4 x MPI_INT)",
            "as collective 2 of communicator 2 (made by MPI_Intercomm_create)",
            "different calls",
        ],
    ),
    ("groups_root", &["(process 0 of the job): MPI_Bcast(root 0, 4 x MPI_INT)", "different roots"]),
    ("groups_count", &["MPI_Allgather(2 x MPI_INT)", "(process 0 of the job) sends rank ", "4 bytes for 12"]),
    ("part", &["MPI_Recv of 0 x MPI_INT and a part", "the message of 3 bytes", "was sent as 3 x MPI_CHAR"]),
];

/// Mistakes that are told at the end.
const TOLD: [(&str, &[&str]); 6] = [
    (
        "request",
        &[
            "rank 0: a request was never completed or freed: number 1 of its kind, made by MPI_Isend",
            "rank 1: a request was never completed or freed: number 1 of its kind, made by MPI_Irecv",
            "rank 1: a persistent request was still active: number 2 of its kind, made by MPI_Recv_init",
        ],
    ),
    (
        "objects",
        &[
            "rank 1: a communicator was never freed: number 2 of its kind, made by MPI_Comm_split",
            "a group was never freed: number 1 of its kind, made by MPI_Comm_group",
            "a datatype was never freed: number 1 of its kind, made by MPI_Type_contiguous",
            "a reduction operation was never freed: number 1 of its kind, made by MPI_Op_create",
            "a window was never freed: number 1 of its kind, made by MPI_Win_allocate",
            "an attribute key was never freed: number 1 of its kind, made by MPI_Comm_create_keyval",
            "an info object was never freed: number 1 of its kind, made by MPI_Info_create",
            "an error handler was never freed: number 1 of its kind, made by MPI_Comm_create_errhandler",
        ],
    ),
    ("probed", &["rank 1: a message that MPI_Mprobe has taken was never received"]),
    (
        "session",
        &[
            "rank 0: a communicator of a session was never freed: number 1 of its kind, made by \
             MPI_Comm_create_from_group",
            "rank 1: a group of a session was never freed: number 1 of its kind, made by MPI_Group_from_session_pset",
        ],
    ),
    ("many", &["number 10 of its kind", "rank 0: and 20 more of these", "rank 1: and 20 more of these"]),
    (
        "message",
        &["rank 1: 3 messages of 24 bytes from rank 0 with tag 17 on MPI_COMM_WORLD: never received"],
    ),
];

/// Every mistake is named, and whoever waits says in which call.
pub fn check_mistakes(side: Side, file: &str, soname: &str) {
    let (launcher, wrong) =
        (built("banyan-launch", "banyan-launch"), Program::build(side, "wrong", file, soname));
    let demand = |(mistake, words): (&str, &[&str]), options: &str, code: fn(Option<i32>) -> bool| {
        let (seen, text) = wrong.launch(&launcher, options, &[mistake]);
        assert!(code(seen), "{mistake}: {seen:?}\n{text}");
        for word in words {
            assert!(text.contains(word), "{mistake}: no \"{word}\" in:\n{text}");
        }
    };
    let failed: fn(Option<i32>) -> bool = |code| !matches!(code, None | Some(0 | 124));
    for ranks in [2, 4] {
        for (mistake, words) in FATAL {
            // Of more than two, any two that differ may be the first that meet.
            let after_rank = |word: &&'static str| match word.split_once(": ") {
                Some((rank, rest)) if ranks > 2 && rank.starts_with("rank ") => rest,
                _ => *word,
            };
            let words: Vec<&str> = words.iter().map(after_rank).collect();
            demand((mistake, &words), &format!("-n {ranks} --check"), failed);
        }
        for mistake in TOLD {
            demand(mistake, &format!("-n {ranks} --check"), |code| code == Some(0));
        }
    }
    for (mistake, _) in TOLD {
        demand((mistake, &[]), "-n 2 --check=strict", failed);
    }
    let waits = [
        "in MPI_Recv: for a message from rank 0",
        "collective 1 of MPI_COMM_WORLD (MPI_Barrier): not called by rank 1",
    ];
    wrong.says(&launcher, "-n 2 --check -genv BANYAN_WAIT_WARN 1", "waits", &waits);
    // What is right is not spoken of, and a program that handles its errors goes on.
    for right in ["nothing", "returned", "nulls"] {
        let (code, text) = wrong.launch(&launcher, "-n 2 --check=strict", &[right]);
        assert_eq!((code, text.as_str()), (Some(0), ""), "{right}");
    }
    // Without a launcher the variable does.
    for (value, code) in [("1", Some(0)), ("strict", Some(1))] {
        let mut alone = clean(Command::new(wrong.folder.join("program")));
        let output = alone.env("BANYAN_CHECK", value).arg("many").output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == code && text.contains("rank 0: and 20 more of these"), "{output:?}");
    }
}

/// Programs without mistakes (`errors` makes some on purpose), with the fewest ranks that they need.
const RIGHT: [(&str, u32); 23] = [
    ("always", 1),
    ("coll", 1),
    ("comm", 1),
    ("hardware", 1),
    ("inter", 1),
    ("p2p", 2),
    ("part", 1),
    ("sessions", 1),
    ("sessions_late", 1),
    ("sessions_only", 1),
    ("stats", 1),
    ("threads", 1),
    ("threads_comm", 1),
    ("threads_fair", 1),
    ("threads_sessions", 1),
    ("tool", 1),
    ("topo", 1),
    ("types", 1),
    // Of tests/programs.
    ("alltoall", 1),
    ("idle", 1),
    ("ring", 1),
    ("swap", 1),
    ("turn", 1),
];

/// Nothing is said of programs without mistakes.
pub fn check_no_false_alarm(side: Side, file: &str, soname: &str) {
    let launcher = built("banyan-launch", "banyan-launch");
    for (name, fewest) in RIGHT {
        let program = Program::build(side, name, file, soname);
        for ranks in [1, 2, 4].into_iter().filter(|ranks| *ranks >= fewest) {
            let (code, text) = program.launch(&launcher, &format!("-n {ranks} --check=strict"), &[]);
            assert!(code == Some(0) && !text.contains("check:"), "{name}, {ranks} ranks: {code:?}\n{text}");
        }
    }
    // This one ends with a job that it never disconnects from, on purpose.
    let (code, text) = Program::build(side, "dynamic", file, soname).launch(&launcher, "-n 2 --check", &[]);
    let mut told = text.lines().filter(|line| line.contains("check:"));
    assert!(code == Some(0) && told.all(|line| line.contains("made by MPI_Comm_spawn")), "{code:?}\n{text}");
}

/// Every program that one process can run, and every mistake.
pub fn check_programs(side: Side, file: &str, soname: &str) {
    for name in [
        "always",
        "coll",
        "comm",
        "hardware",
        "inter",
        "sessions",
        "sessions_late",
        "sessions_only",
        "stats",
        "threads",
        "threads_sessions",
        "tool",
        "garbage",
        "part",
        "topo",
    ] {
        Program::build(side, name, file, soname).succeeds();
    }
    let errors = Program::build(side, "errors", file, soname);
    errors.succeeds();
    errors.fails("early", &["MPI_Barrier", "before MPI_Init"]);
    errors.fails("late", &["MPI_Barrier", "after MPI_Finalize"]);
    errors.fails("rank", &["MPI_Send", "MPI_COMM_WORLD", "MPI_ERR_RANK", "rank 4"]);
    errors.fails(
        "unimplemented",
        &["MPI_Register_datarep is not implemented", "MPI_ERR_UNSUPPORTED_OPERATION"],
    );
    errors.fails("abort", &["MPI_Abort"]);
    assert_eq!(errors.run(&["abort"]).status.code(), Some(7));
}

/// A program that calls every implemented function with nonsense, twice: with handles that name nothing, and
/// with predefined handles; pointers are null and numbers negative. Nothing may crash, hang or end the
/// program.
fn garbage(side: Side) -> String {
    let mut calls = String::new();
    for f in table::functions().iter().filter(|f| f.exists_on(side) && f.module != "-") {
        let ends = ["MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Abort", "MPI_T_finalize"];
        if ends.contains(&f.name.as_str()) {
            continue;
        }
        for round in [Round::Foreign, Round::Predefined] {
            let args: Vec<String> = f.params.iter().filter_map(|p| nonsense(p, round)).collect();
            calls += &format!("    last = \"{0}\";\n    (void){0}({1});\n", f.name, args.join(", "));
        }
    }
    format!(
        "#include \"check.h\"\n#include <signal.h>\n#include <stdint.h>\n#include <unistd.h>\n\
         static const char *volatile last;\n\
         static void crashed(int s) {{ (void)s; (void)!write(2, last, strlen(last)); _exit(3); }}\n\
         int main(int argc, char **argv) {{\n    begin(&argc, &argv);\n\
         int level;\n    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);\n\
         signal(SIGSEGV, crashed);\n    signal(SIGBUS, crashed);\n    signal(SIGALRM, crashed);\n    alarm(60);\n\
         MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);\n\
         MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);\n{calls}    return finish(\"garbage\");\n}}\n"
    )
}

#[derive(Clone, Copy)]
enum Round {
    Foreign,
    Predefined,
}

/// An argument that no correct program passes.
fn nonsense(decl: &str, round: Round) -> Option<String> {
    if decl == "..." {
        return None;
    }
    let ctype = decl.trim_start_matches("const ").split([' ', '*']).next().expect("a type");
    Some(match (decl.contains(['*', '[']), ctype, round) {
        (true, ..) => "NULL".into(),
        (_, function, _) if function.ends_with("_function") => "NULL".into(),
        (_, "int" | "MPI_Fint" | "MPI_Count" | "MPI_Aint" | "MPI_Offset", _) => "-7".into(),
        (_, "MPI_Comm", Round::Predefined) => "MPI_COMM_WORLD".into(),
        (_, "MPI_Datatype", Round::Predefined) => "MPI_INT".into(),
        (_, "MPI_Op", Round::Predefined) => "MPI_SUM".into(),
        (_, "MPI_Group", Round::Predefined) => "MPI_GROUP_EMPTY".into(),
        (_, "MPI_Info", Round::Predefined) => "MPI_INFO_ENV".into(),
        (_, "MPI_Errhandler", Round::Predefined) => "MPI_ERRORS_RETURN".into(),
        (_, "MPI_Request", Round::Predefined) => "MPI_REQUEST_NULL".into(),
        (_, handle, _) => format!("({handle})(intptr_t)0x7badf00d"),
    })
}
