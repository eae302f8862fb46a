//! What the tests of the two leaf crates share: the library as cargo builds it, its exports against the
//! table, and the C test programs run on it. Programs run alone here (every process can); under the launcher
//! they are run by the project's `test` script, with the installed compilers.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../../table/gen.rs"]
mod table;
pub use table::Side;

/// What `banyan.h` declares.
const EXTENSIONS: [&str; 2] = ["BANYAN_Stat", "BANYAN_Stat_name"];

/// Compares `nm` of the library called `file` with the table, plus `others`.
pub fn check(side: Side, file: &str, others: &[&str]) {
    let mut listed: BTreeSet<String> =
        others.iter().chain(&EXTENSIONS).map(|name| name.to_string()).collect();
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

/// The library, built: for a test cargo does not build a library that only C programs can link.
fn library(file: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its file");
    let target = test.ancestors().nth(3).expect("target/profile/deps/test");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--target-dir"])
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
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
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
        let mut command = Command::new(self.folder.join("program"));
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("PMI") || name.starts_with("BANYAN"))
        {
            command.env_remove(name);
        }
        command.args(args).output().expect("the program starts")
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

/// Every program that one process can run, and every mistake.
pub fn check_programs(side: Side, file: &str, soname: &str) {
    for name in [
        "always",
        "coll",
        "comm",
        "hardware",
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
    errors.fails("unimplemented", &["MPI_Open_port is not implemented", "MPI_ERR_UNSUPPORTED_OPERATION"]);
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
