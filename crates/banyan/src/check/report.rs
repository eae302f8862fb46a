//! What is known of a program, as text and for scripts.
use launch::library::{Family, Maker, Missing};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Names that a line of text lists.
const LISTED_MAX: usize = 12;

/// In the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Runs,
    Problem,
    Unknown,
}

/// The MPI library that is loaded.
#[derive(Debug)]
pub(super) struct Mpi {
    pub(super) name: String,
    pub(super) path: Option<PathBuf>,
    pub(super) family: Family,
    pub(super) maker: Maker,
}

#[derive(Debug)]
pub(super) struct Report {
    program: PathBuf,
    pub(super) kind: String,
    pub(super) libraries: Vec<(String, PathBuf)>,
    pub(super) missing: Vec<Missing>,
    pub(super) mpi: Option<Mpi>,
    pub(super) fortran: Option<String>,
    /// Functions of MPI that it uses.
    pub(super) functions: usize,
    /// Names that nothing has which is loaded, and without which the program cannot be loaded.
    pub(super) unloadable: Vec<String>,
    /// Others that nothing has.
    pub(super) absent: Vec<String>,
    /// Functions that Banyan's library has only in name.
    pub(super) unsupported: Vec<String>,
    /// Functions of another's library that Banyan's does not have.
    pub(super) absent_in_banyan: Vec<String>,
    problems: Vec<String>,
    unknowns: Vec<String>,
    notes: Vec<String>,
}

impl Report {
    pub(super) fn new(program: &Path) -> Self {
        Report {
            program: program.to_owned(),
            kind: String::new(),
            libraries: Vec::new(),
            missing: Vec::new(),
            mpi: None,
            fortran: None,
            functions: 0,
            unloadable: Vec::new(),
            absent: Vec::new(),
            unsupported: Vec::new(),
            absent_in_banyan: Vec::new(),
            problems: Vec::new(),
            unknowns: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    pub(super) fn unknown(&mut self, text: String) {
        self.unknowns.push(text);
    }

    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Problems that were put down, and those that follow from what is missing.
    fn all_problems(&self) -> Vec<String> {
        let is_banyans =
            self.mpi.as_ref().is_some_and(|mpi| mpi.maker == Maker::Banyan || mpi.path.is_none());
        let mut all = self.problems.clone();
        if !self.unloadable.is_empty() {
            let whose = self.fortran.as_deref().unwrap_or("the program");
            all.push(format!("{whose} cannot be loaded: no library has {}", listed(&self.unloadable)));
        }
        if !self.absent.is_empty() {
            all.push(format!("no library has {}: a call ends the program", listed(&self.absent)));
        }
        if !self.unsupported.is_empty() && is_banyans {
            all.push(format!(
                "Banyan does not have {} yet: a call raises MPI_ERR_UNSUPPORTED_OPERATION",
                listed(&self.unsupported)
            ));
        }
        all
    }

    /// Do all problems come from functions that need not be called?
    fn is_only_of_calls(&self) -> bool {
        self.problems.is_empty() && self.unloadable.is_empty()
    }

    fn all_notes(&self) -> Vec<String> {
        let is_others = self.mpi.as_ref().is_some_and(|mpi| mpi.maker != Maker::Banyan && mpi.path.is_some());
        let lacking: Vec<String> = self.unsupported.iter().chain(&self.absent_in_banyan).cloned().collect();
        let mut all = self.notes.clone();
        if is_others && !lacking.is_empty() {
            all.push(format!("Banyan's library does not have {} yet", listed(&lacking)));
        }
        all
    }

    pub(super) fn verdict(&self) -> Verdict {
        match (self.all_problems().is_empty(), self.unknowns.is_empty()) {
            (false, _) => Verdict::Problem,
            (true, false) => Verdict::Unknown,
            (true, true) => Verdict::Runs,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line =
            |name: &str, value: String| writeln!(text, "{name:<12} {value}").expect("a string takes all");
        line("program", format!("{} ({})", self.program.display(), self.kind));
        if let Some(mpi) = &self.mpi {
            let found = mpi.path.as_ref().map_or("not found".into(), |path| path.display().to_string());
            line("MPI library", format!("{} => {found}", mpi.name));
            let whose = if mpi.path.is_some() { format!("; {} library", mpi.maker) } else { String::new() };
            line("interface", format!("{}{whose}", mpi.family));
            line("functions", format!("uses {} of MPI", self.functions));
        }
        if let Some(fortran) = &self.fortran {
            line("Fortran", format!("bindings in {fortran}"));
        }
        let (problems, notes) = (self.all_problems(), self.all_notes());
        problems.into_iter().for_each(|problem| line("problem", problem));
        self.unknowns.iter().for_each(|unknown| line("unknown", unknown.clone()));
        notes.into_iter().for_each(|note| line("note", note));
        let verdict = match (self.verdict(), &self.mpi) {
            (Verdict::Runs, Some(_)) => "it runs as a parallel job",
            (Verdict::Runs, None) => "it can be started",
            (Verdict::Problem, Some(_)) if self.is_only_of_calls() => {
                "it runs, as long as it does not call what is named"
            }
            (Verdict::Problem, _) => "it does not run as it is",
            (Verdict::Unknown, _) => "cannot be told",
        };
        line("verdict", verdict.into());
        text
    }

    pub(super) fn json(&self) -> Value {
        let libraries: Vec<Value> = self
            .libraries
            .iter()
            .map(|(name, path)| json!({ "name": name, "path": path.to_string_lossy() }))
            .collect();
        let missing: Vec<Value> = self
            .missing
            .iter()
            .map(|missing| json!({ "name": missing.name, "needed_by": missing.by }))
            .collect();
        let mpi = self.mpi.as_ref().map(|mpi| {
            json!({
                "name": mpi.name,
                "path": mpi.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
                "abi": mpi.family.word(),
                "maker": mpi.maker.word(),
                "functions_used": self.functions,
            })
        });
        json!({
            "program": self.program.to_string_lossy(),
            "kind": self.kind,
            "verdict": match self.verdict() {
                Verdict::Runs => "runs",
                Verdict::Problem => "problem",
                Verdict::Unknown => "unknown",
            },
            "mpi": mpi,
            "fortran": self.fortran,
            "libraries": libraries,
            "missing": missing,
            "unloadable": self.unloadable,
            "absent": self.absent,
            "unsupported_by_banyan": self.unsupported,
            "absent_in_banyan": self.absent_in_banyan,
            "problems": self.all_problems(),
            "unknowns": self.unknowns,
            "notes": self.all_notes(),
        })
    }
}

/// `a, b and 3 more`.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
