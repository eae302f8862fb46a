//! `banyan check PROGRAM`: which MPI library a program would load, and whether it would run with it, before it runs.
//! Only files are read; nothing is executed.
mod functions;
mod python;
mod report;

use launch::library::{Environment, Family, Linkage, Maker, Program, Symbols, look, program_path};
use report::{Mpi, Report, Verdict};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use sys::say;

pub const HELP: &str = "\
usage: banyan check [--json] PROGRAM [ARGUMENTS]

Says, without running it, which MPI library a program would load, of which binary interface that is, and which functions
the program uses that are not there. What is searched, and where, is what the dynamic linker searches: RPATH, RUNPATH,
LD_LIBRARY_PATH, LD_PRELOAD, ld.so.cache. Of a Python interpreter (or script) it looks at mpi4py.

exit codes: 0 it runs, or has nothing to do with MPI; 1 it will not, or not as one job; 2 wrong usage, or no such program;
            3 cannot be told from files (a script, a static program)
";

/// What a file is not found, or the command line makes no sense.
const EXIT_USAGE: i32 = crate::USAGE;

pub fn main(args: &[OsString]) -> i32 {
    let mut is_json = false;
    let mut rest = args.iter();
    let program = loop {
        let Some(word) = rest.next() else {
            return crate::usage_error("check: no program given; `banyan check --help` says more");
        };
        match word.to_string_lossy().as_ref() {
            "--json" => is_json = true,
            "-h" | "--help" => {
                sys::out::print(HELP);
                return 0;
            }
            "--" => match rest.next() {
                Some(program) => break program,
                None => return crate::usage_error("check: no program given"),
            },
            option if option.starts_with('-') => {
                return crate::usage_error(&format!("check: '{option}' is not an option; there is --json"));
            }
            _ => break word,
        }
    };
    // `banyan check ./program --json` means the same.
    is_json |= rest.clone().any(|word| word == "--json");
    match checked(program) {
        Ok(report) if is_json => {
            say!("{:#}", report.json());
            report.verdict().exit_code()
        }
        Ok(report) => {
            sys::out::print(&report.text());
            report.verdict().exit_code()
        }
        Err(error) => {
            sys::socket::write_stderr(format!("banyan: check: {error}\n").as_bytes());
            EXIT_USAGE
        }
    }
}

fn checked(program: &OsString) -> Result<Report, String> {
    let shown = program.to_string_lossy();
    let path = match program_path(program) {
        Ok(path) => path,
        // A script that is given to an interpreter need not be executable.
        Err(_) if Path::new(program).is_file() => PathBuf::from(program),
        Err(error) => return Err(error),
    };
    let folder = std::env::current_dir().unwrap_or_default();
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let environment = Environment::new(variable, folder);
    let mut report = Report::new(&path);
    if let Some(interpreter) = python::interpreter(&path) {
        report.kind = "python".into();
        python::check(&interpreter, &environment, &mut report);
        return Ok(report);
    }
    match look(&path, &environment).map_err(|error| format!("'{shown}': {error}"))? {
        Program::Dynamic(linkage) => of_linkage(&linkage, &mut report),
        Program::Static(_) => of_static(&path, &mut report),
        Program::Script(interpreter) => {
            report.kind = "script".into();
            report.unknown(format!(
                "it is a script for '{interpreter}': check the program that it starts ('banyan check PROGRAM')"
            ));
        }
    }
    Ok(report)
}

fn of_static(path: &Path, report: &mut Report) {
    report.kind = "static".into();
    let symbols = Symbols::read(path).unwrap_or_default();
    if symbols.exports.contains("MPI_Init") {
        let whose = Maker::of(&symbols);
        report.unknown(format!(
            "it has its MPI library in itself ({whose}), which cannot be exchanged; if it is one of MPICH's family, \
             the launcher starts it"
        ));
    } else if symbols.exports.is_empty() {
        report.unknown("it is static and has no names: what is in it cannot be told".into());
    } else {
        report.note("it uses no MPI library: its processes know nothing of each other".into());
    }
}

/// What is loaded, and what of it is not there.
fn of_linkage(linkage: &Linkage, report: &mut Report) {
    report.kind = "dynamic".into();
    report.libraries =
        linkage.loaded.iter().skip(1).map(|loaded| (loaded.name.clone(), loaded.path.clone())).collect();
    report.missing = linkage.missing.clone();
    for missing in &linkage.missing {
        of_missing(missing, report);
    }
    let Some((name, family)) = linkage.mpi() else {
        if report.missing.is_empty() {
            report.note("it uses no MPI library: its processes know nothing of each other".into());
        }
        return;
    };
    let found = linkage.find(name);
    let maker = found.and_then(|loaded| Symbols::read(&loaded.path).ok()).map(|symbols| Maker::of(&symbols));
    let maker = maker.unwrap_or(Maker::Unknown);
    let path = found.map(|loaded| loaded.path.clone());
    report.mpi = Some(Mpi { name: name.into(), path, family, maker });
    report.fortran = linkage.fortran().map(String::from);
    functions::compare(linkage, name, family, maker, report);
    of_family(family, maker, report);
}

fn of_missing(missing: &launch::library::Missing, report: &mut Report) {
    let beside = std::env::current_exe().ok();
    let beside = beside.and_then(|own| launch::library::folder_beside(&own, &missing.name));
    match beside {
        Some(folder) => report.note(format!(
            "{} is not found, but Banyan's is in {}: 'banyan run' and 'mpiexec' give it to the program; without them, \
             'export LD_LIBRARY_PATH={}'",
            missing.name,
            folder.display(),
            folder.display()
        )),
        None if launch::library::family_of(&missing.name).is_some_and(Family::joins) => report.problem(format!(
            "{} is not found: './install PREFIX' of Banyan puts it into PREFIX/lib; then 'export \
             LD_LIBRARY_PATH=PREFIX/lib'",
            missing.name
        )),
        None => report.problem(format!("{} is not found; {} needs it", missing.name, missing.by)),
    }
}

fn of_family(family: Family, maker: Maker, report: &mut Report) {
    match family {
        Family::OpenMpi => report.problem(
            "Open MPI's library does not join a job of Banyan's launcher: every process would be rank 0 of 1. Compile \
             the program with Banyan's 'mpicc', or start it with Open MPI's 'mpirun'"
                .into(),
        ),
        Family::Unknown => report.unknown("whose library it is cannot be told from its name".into()),
        Family::Mpich | Family::Standard if !matches!(maker, Maker::Banyan | Maker::Unknown) => report.note(format!(
            "Banyan's launcher starts it with {maker} library. With Banyan's own: 'export LD_LIBRARY_PATH=PREFIX/lib' \
             (a path that was linked into the program as RPATH comes first)"
        )),
        _ => {}
    }
    if report.fortran.is_some() && maker == Maker::Banyan {
        report.note(
            "Banyan has no Fortran bindings of its own; those of Debian's MPICH 4 are known to run on its library, \
             Intel MPI's do not"
                .into(),
        );
    }
}

impl Verdict {
    fn exit_code(self) -> i32 {
        match self {
            Verdict::Runs => 0,
            Verdict::Problem => 1,
            Verdict::Unknown => 3,
        }
    }
}
