//! Replays the transcripts beside this file: commands as users type them, with what they print and their exit codes.
//!
//! ```text
//! needs: prefix cc        (first line, if any: what must be there; `prefix` is an installation)
//! # a comment
//! $ banyan run -n 2 sh -c \
//! >     'echo hello'      (more lines of the command)
//! hello                   (what it prints, standard error included)
//! he*                     (`*` is any text in a line)
//! ...                     (any number of lines)
//! [0]                     (the exit code, if it is not 0)
//! ```
//! Commands run in an empty folder, whose name is written HERE, with `banyan`, `mpiexec` and `mpirun` in PATH. Where
//! BANYAN_TEST_PREFIX names an installation, its programs are used, and its name is written PREFIX; transcripts that need
//! one are left out elsewhere. `./test transcripts` replays all.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One command of a transcript.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
    code: i32,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Transcript {
    needs: Vec<String>,
    steps: Vec<Step>,
}

fn parse(text: &str) -> Transcript {
    let mut transcript = Transcript::default();
    for (at, line) in text.lines().enumerate() {
        if let Some(needs) = line.strip_prefix("needs: ").filter(|_| at == 0) {
            transcript.needs = needs.split_whitespace().map(String::from).collect();
        } else if let Some(command) = line.strip_prefix("$ ") {
            transcript.steps.push(Step { line: at + 1, command: command.into(), ..Step::default() });
        } else if let Some(step) = transcript.steps.last_mut() {
            match line.strip_prefix('>').filter(|_| step.expected.is_empty()) {
                Some(more) => step.command += &format!("\n{}", more.strip_prefix(' ').unwrap_or(more)),
                None if line.starts_with("# ") => {}
                None => step.expected.push(line.into()),
            }
        }
    }
    for step in &mut transcript.steps {
        while step.expected.last().is_some_and(|line| line.is_empty()) {
            step.expected.pop();
        }
        let code =
            step.expected.last().and_then(|line| line.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
        if let Some(code) = code {
            step.code = code;
            step.expected.pop();
        }
    }
    transcript
}

/// Does a text fit a pattern in which `*` is any text?
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, rest)) => text.strip_prefix(before).is_some_and(|text| {
            let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            starts.any(|at| fits(rest, &text[at..]))
        }),
    }
}

fn all_fit(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => (0..=lines.len()).any(|at| all_fit(rest, &lines[at..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, more)| fits(first, line) && all_fit(rest, more))
        }
    }
}

struct Place {
    folder: tempfile::TempDir,
    prefix: Option<PathBuf>,
}

impl Place {
    fn new(prefix: Option<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if prefix.is_none() {
            fs::create_dir(folder.path().join(".bin")).unwrap();
            for name in ["banyan", "mpiexec", "mpirun"] {
                let link = folder.path().join(".bin").join(name);
                std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_banyan"), link).unwrap();
            }
        }
        Place { folder, prefix }
    }

    /// What a command prints, and its exit code.
    fn run(&self, command: &str) -> (String, i32) {
        let bin =
            self.prefix.as_ref().map_or_else(|| self.folder.path().join(".bin"), |prefix| prefix.join("bin"));
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("exec 2>&1\n{command}")).current_dir(self.folder.path());
        // What the tests are started with is not the user's.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy().into_owned();
            let prefixes = ["BANYAN_", "PMI_", "OMPI_", "SLURM_", "MPI", "LD_", "CARGO_", "HYDRA_"];
            if prefixes.iter().any(|prefix| name_text.starts_with(prefix)) {
                shell.env_remove(name);
            }
        }
        shell.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        shell.env("LC_ALL", "C").env("HOME", self.folder.path()).stdin(Stdio::null());
        let output = shell.output().expect("bash starts");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text = text.replace(self.folder.path().to_str().unwrap(), "HERE");
        if let Some(prefix) = &self.prefix {
            text = text.replace(prefix.to_str().unwrap(), "PREFIX");
        }
        (text, output.status.code().unwrap_or(-1))
    }
}

/// Is what a transcript needs there?
fn has(need: &str, prefix: &Option<PathBuf>) -> bool {
    match need {
        "prefix" => prefix.is_some(),
        program => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        }
    }
}

/// The steps that went otherwise.
fn replay(file: &Path) -> Vec<String> {
    let prefix =
        std::env::var_os("BANYAN_TEST_PREFIX").map(|prefix| PathBuf::from(prefix).canonicalize().unwrap());
    let transcript = parse(&fs::read_to_string(file).unwrap());
    assert!(!transcript.steps.is_empty(), "{} has no command", file.display());
    if let Some(missing) = transcript.needs.iter().find(|need| !has(need, &prefix)) {
        println!("{}: left out, there is no {missing}", file.display());
        return Vec::new();
    }
    let place = Place::new(prefix.filter(|_| transcript.needs.iter().any(|need| need == "prefix")));
    let mut failures = Vec::new();
    for step in &transcript.steps {
        let (text, code) = place.run(&step.command);
        let lines: Vec<&str> = text.lines().collect();
        if code != step.code || !all_fit(&step.expected, &lines) {
            failures.push(format!(
                "{}, line {}: $ {}\n--- expected, with code {}\n{}\n--- printed, with code {code}\n{text}",
                file.display(),
                step.line,
                step.command,
                step.code,
                step.expected.join("\n"),
            ));
        }
    }
    failures
}

#[test]
fn every_transcript_is_what_happens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let failures: Vec<String> = files.iter().flat_map(|file| replay(file)).collect();
    assert!(failures.is_empty(), "{} steps went otherwise\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn a_transcript_is_read_as_it_is_written() {
    let text = "needs: prefix cc\n# all\n$ echo a \\\n>   b\na b\n\n# more\n$ exit 3\n[3]\n";
    let step = |line, command: &str, expected: &[&str], code| Step {
        line,
        command: command.into(),
        expected: expected.iter().map(|line| (*line).into()).collect(),
        code,
    };
    let expected = Transcript {
        needs: vec!["prefix".into(), "cc".into()],
        steps: vec![step(3, "echo a \\\n  b", &["a b"], 0), step(8, "exit 3", &[], 3)],
    };
    assert_eq!(parse(text), expected);
}

#[test]
fn patterns_fit_what_they_should_and_nothing_else() {
    for (pattern, text, fit) in [
        ("a*c", "abbc", true),
        ("a*c", "abbd", false),
        ("*", "", true),
        ("*b*", "abc", true),
        ("", "x", false),
        ("a", "a", true),
    ] {
        assert_eq!(fits(pattern, text), fit, "{pattern}, {text}");
    }
    let patterns = |lines: &[&str]| lines.iter().map(|line| (*line).into()).collect::<Vec<String>>();
    assert!(all_fit(&patterns(&["a", "...", "d"]), &["a", "b", "c", "d"]));
    assert!(all_fit(&patterns(&["..."]), &[]));
    assert!(!all_fit(&patterns(&["a", "..."]), &["b"]));
    assert!(!all_fit(&patterns(&["a"]), &["a", "b"]));
}
