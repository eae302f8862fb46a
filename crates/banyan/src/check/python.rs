//! Python: what mpi4py would load. The interpreter is not asked; folders are looked at.
use super::report::Report;
use launch::library::{Environment, Program, look, program_path};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The interpreter of a program that is Python's: itself, or what runs the script.
pub(super) fn interpreter(path: &Path) -> Option<PathBuf> {
    if is_python(path.file_name()?) {
        return Some(path.to_owned());
    }
    let first = std::fs::read(path).ok().filter(|bytes| bytes.starts_with(b"#!"));
    let first = first
        .map(|bytes| String::from_utf8_lossy(bytes.split(|byte| *byte == b'\n').next()?).into_owned().into());
    let line: Option<String> = first.flatten();
    let word = match &line {
        Some(line) => line[2..]
            .split_whitespace()
            .find(|word| is_python(Path::new(word).file_name().unwrap_or_default()))?,
        None if path.extension().is_some_and(|extension| extension == "py") => "python3",
        None => return None,
    };
    program_path(OsStr::new(word)).ok()
}

fn is_python(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix("python"));
    rest.is_some_and(|rest| rest.bytes().all(|letter| letter.is_ascii_digit() || letter == b'.'))
}

/// Looks at mpi4py's modules, each built for one binary interface, or for the one that it found.
pub(super) fn check(interpreter: &Path, environment: &Environment, report: &mut Report) {
    if let Ok(Program::Script(_)) = look(interpreter, environment) {
        let text = format!(
            "{} is a script that chooses an interpreter: check what it chooses ('python3 -c \"import sys; \
             print(sys.executable)\"')",
            interpreter.display()
        );
        return report.unknown(text);
    }
    let Some(folder) =
        folders(interpreter).into_iter().map(|folder| folder.join("mpi4py")).find(|folder| folder.is_dir())
    else {
        return report.note(format!("{} has no mpi4py: 'pip install mpi4py'", interpreter.display()));
    };
    let modules = modules(&folder);
    let mut runs = false;
    let mut problems = Vec::new();
    for module in &modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(Program::Dynamic(linkage)) = look(module, environment) else { continue };
        let mut own = Report::new(module);
        super::of_linkage(&linkage, &mut own);
        let library = own.mpi.as_ref().map_or("no MPI library".into(), |mpi| match &mpi.path {
            Some(path) => format!("{} => {}, {} library", mpi.name, path.display(), mpi.maker),
            None => format!("{} => not found", mpi.name),
        });
        report.note(format!("mpi4py's {name} loads {library}"));
        if own.verdict() == super::Verdict::Runs {
            runs = true;
            report.mpi = own.mpi;
            report.functions = own.functions;
        } else {
            problems.push(own);
        }
    }
    match (runs, modules.is_empty()) {
        (_, true) => report.unknown(format!("{} has no module MPI", folder.display())),
        (true, _) if modules.len() > 1 => report.note(
            "mpi4py takes the module that fits the 'libmpi' it finds first; MPI4PY_LIBMPI=PREFIX/lib/libmpi.so.12 chooses \
             Banyan's"
                .into(),
        ),
        (true, _) => {}
        (false, _) => report.problem(
            "mpi4py finds no MPI library that Banyan's launcher starts: 'export LD_LIBRARY_PATH=PREFIX/lib' or \
             'MPI4PY_LIBMPI=PREFIX/lib/libmpi.so.12' names Banyan's"
                .into(),
        ),
    }
}

fn modules(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_module = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("MPI.") && name.ends_with(".so")
    };
    let mut modules: Vec<PathBuf> = entries.filter(is_module).collect();
    modules.sort();
    modules
}

/// Where an interpreter looks for packages: `PYTHONPATH`, its own folders, the user's.
fn folders(interpreter: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PYTHONPATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let real = interpreter.canonicalize().unwrap_or_else(|_| interpreter.to_owned());
    let user = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let prefixes = [prefix(interpreter), user, prefix(&real)];
    for prefix in prefixes.into_iter().flatten() {
        let mut versions: Vec<PathBuf> = std::fs::read_dir(prefix.join("lib"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        versions.retain(|path| path.file_name().is_some_and(is_python));
        versions.sort();
        folders.extend(
            versions.iter().flat_map(|path| [path.join("site-packages"), path.join("dist-packages")]),
        );
    }
    folders
}

/// `/usr` of `/usr/bin/python3`.
fn prefix(interpreter: &Path) -> Option<PathBuf> {
    Some(interpreter.parent()?.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_are_known_by_name() {
        for (name, known) in
            [("python", true), ("python3.11", true), ("python3-config", false), ("bash", false)]
        {
            assert_eq!(is_python(OsStr::new(name)), known, "{name}");
        }
    }
}
