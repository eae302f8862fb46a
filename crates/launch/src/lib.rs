//! What starts: the launcher (`banyan run`, `mpiexec`) and the agents of a job.
//!
//! ```text
//! launcher ── warden ── agent of node 0 ─┬─ ranks of node 0
//!    │                    │              └─ agent of node 1 ─┬─ ranks of node 1
//!    └────── link ────────┘                    ...           └─ ...
//! ```
//!
//! The launcher is the user's process: it writes output, decides when the job is over and says why. Each node
//! has an agent, forked in a k-ary tree, that starts its ranks and serves them PMI. Launcher, warden and
//! agents are child subreapers: whatever is orphaned comes to the nearest of them that lives, and each kills
//! until nothing descends from it. The warden survives when launcher and agents are killed together.
//!
//! All are single-threaded poll loops. What can be decided without a system call is decided in `proto::tree`,
//! `proto::placement`, `proto::pmi` and the pure modules here (outcome, heartbeat, options).
#![forbid(unsafe_code)]

use sys::say;
mod agent;
mod bootstrap;
mod call;
mod describe;
mod door;
mod heartbeat;
mod job;
mod launcher;
mod leftover;
pub mod library;
mod link;
mod matrix;
mod options;
mod page;
mod pattern;
mod picture;
mod program;
pub mod ps;
mod reason;
mod recording;
mod remote;
mod result_file;
mod singleton;
mod spec;
mod standing;
mod stats;
mod stdin;
mod stray;
mod traffic;
mod unfinished;
mod warden;

pub use bootstrap::Bootstrap;
pub use launcher::{BoardReport, Cause, JobReport, NodeBoard, NodeServer, Phases, Spot, Who};
pub use matrix::{Matrix, grid};
pub use options::{EXIT_CODES, Entry, OPTION_SECTIONS, OptionSection, Scope, Takes};
pub use pattern::{Origin, Pattern, PatternError};
pub use proto::placement::Placement;
pub use recording::PatternReport;
pub use spec::{
    Bind, HostName, Inherit, JobSpec, KILL_GRACE_DEFAULT, Label, MapBy, NetOptions, Output, QP_MAX_DEFAULT,
    RANKS_MAX, Section, StdinTo, Talk,
};
pub use stats::{json as stats_json, names as stats_names, table as stats_table};

use job::{PlanError, plan};
use matrix::Listed;
use options::{Command, DryForm, StatsForm, StatsWish};
use recording::Recording;
use result_file::ResultFile;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// The first word of the command line with which an agent starts the data server of its node: this program has to understand it.
pub const SERVER_OPTION: &str = "--node-server";
/// What a data server is called in lists of processes.
pub const SERVER_NAME: &str = "banyan-server";

/// The exit code for a command line that makes no sense.
pub const EXIT_USAGE: i32 = 2;

/// Runs a job from start to end.
///
/// For a process with one thread: it is forked without executing anything. While the job runs, signals of
/// this process are the job's: SIGINT and the like end it.
///
/// # Errors
/// What the system refused. A program that cannot be found is no error: the report says so.
pub fn run(spec: &JobSpec) -> io::Result<JobReport> {
    if spec.sections.is_empty()
        || spec.sections.iter().any(|section| section.ranks == 0)
        || spec.nodes == 0
        || spec.slots.contains(&0)
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a job needs at least one rank and one node",
        ));
    }
    let mut warnings = Vec::new();
    let recording = Recording::open(spec, &mut warnings).map_err(io::Error::other)?;
    warnings.iter().for_each(|line| recording::say(spec, None, line));
    let Some(recording) = recording else { return run_planned(spec) };
    let mut told = spec.clone();
    told.env.extend(recording.forecast().map(|text| (proto::env::FORECAST.into(), text.into())));
    let mut report = run_planned(&told)?;
    let contacts = std::mem::take(&mut report.told);
    let (outcome, line) = recording.close(&report, contacts);
    let is_said = |line: &String| spec.talk == Talk::Verbose || line.starts_with("warning");
    if let Some(line) = line.filter(is_said) {
        recording::say(spec, Some(&mut report), &line);
    }
    report.pattern = Some(outcome);
    Ok(report)
}

fn run_planned(spec: &JobSpec) -> io::Result<JobReport> {
    match plan(spec) {
        Ok((tree, group)) => launcher::run_job(spec, tree, group),
        Err(PlanError::System(error)) => Err(error),
        Err(PlanError::Program(error)) => {
            let message = format!("banyan: {error}\n");
            let mut report =
                JobReport { exit_code: error.exit_code(), ranks: spec.ranks(), ..JobReport::default() };
            match spec.output {
                Output::Inherit => eprint!("{message}"),
                Output::Capture => report.stderr = message.into_bytes(),
            }
            Ok(report)
        }
    }
}

/// `banyan run` and `mpiexec`: parses `args` (without the program's own name), runs the job, prints what was
/// asked for, and returns the exit code. With `--agent` as the first word it is the agent of this host instead, for a job
/// that was started on another one.
pub fn main(mut args: Vec<OsString>) -> i32 {
    if args.first().is_some_and(|word| word == bootstrap::AGENT_OPTION) {
        args.remove(0);
        return remote::main(args);
    }
    if args.first().is_some_and(|word| word == singleton::BRIDGE_OPTION) {
        return singleton::bridge(&args[1..]);
    }
    if args.first().is_some_and(|word| word == singleton::CALL_OPTION) {
        return serve_caller(&args[1..]);
    }
    let understood = options::parse(args).map(|understood| {
        understood.notes.iter().for_each(|note| eprintln!("banyan: {note}"));
        understood.command
    });
    match understood {
        Ok(Command::Help) => {
            sys::out::print(&options::help());
            0
        }
        Ok(Command::HelpStats) => {
            sys::out::print(&stats::names());
            0
        }
        Ok(Command::Info) => {
            sys::out::print(&options::info());
            0
        }
        Ok(Command::Version) => {
            say!("banyan {}", env!("CARGO_PKG_VERSION"));
            0
        }
        Ok(Command::Run(spec, wish)) => with_environment(&spec, || run_and_print(&spec, wish.as_ref())),
        Ok(Command::DryRun(spec, form)) => with_environment(&spec, || dry_run(&spec, form)),
        Err(error) => misused(&error),
    }
}

/// Goes on if no variable has a value that it cannot have. Names that nobody reads are only told of.
fn with_environment(spec: &JobSpec, go_on: impl FnOnce() -> i32) -> i32 {
    match options::check_environment(std::env::vars_os(), spec) {
        Ok(unknown) => {
            unknown.iter().for_each(|unknown| eprintln!("banyan: warning: {unknown}"));
            go_on()
        }
        Err(error) => misused(&error.into()),
    }
}

fn misused(error: &options::UsageError) -> i32 {
    eprintln!("banyan: {error}\nbanyan: 'banyan run --help' shows what is understood");
    EXIT_USAGE
}

/// Is this the first word of a command line with which Banyan starts itself?
pub fn is_inner(word: &OsStr) -> bool {
    word == bootstrap::AGENT_OPTION || word == singleton::BRIDGE_OPTION
}

/// Becomes the launcher of a process that was started without one.
fn serve_caller(words: &[OsString]) -> i32 {
    let caller = match singleton::Caller::parse(words) {
        Ok(caller) => caller,
        Err(error) => {
            eprintln!("banyan: {error}");
            return EXIT_USAGE;
        }
    };
    match caller.job().and_then(|spec| run(&spec)) {
        Ok(report) => {
            caller.end_with(&report);
            report.exit_code
        }
        Err(error) => {
            eprintln!("banyan: the job could not be started: {error}");
            1
        }
    }
}

/// Prints what would be started where.
fn dry_run(spec: &JobSpec, form: DryForm) -> i32 {
    let drawn = plan(spec).and_then(|(tree, group)| {
        let cores = sys::limit::allowed_cores()?;
        Ok(match form {
            DryForm::Picture => picture::draw(&tree, &group, &cores),
            DryForm::Json => format!("{:#}\n", picture::json(&tree, &group, &cores)),
        })
    });
    match drawn {
        Ok(text) => {
            sys::out::print(&text);
            0
        }
        Err(error) => {
            eprintln!("banyan: {error}");
            match error {
                PlanError::Program(error) => error.exit_code(),
                PlanError::System(_) => 1,
            }
        }
    }
}

fn stats_text(report: &JobReport, wish: &StatsWish) -> String {
    let listed = if wish.file.is_some() { Listed::Always } else { Listed::Reluctantly };
    let matrix = || report.matrix.as_ref().map_or_else(String::new, |matrix| matrix.text(listed));
    match wish.form {
        StatsForm::Table => stats::table(report),
        StatsForm::Matrix => matrix(),
        StatsForm::TableAndMatrix => stats::table(report) + "\n" + &matrix(),
        // The matrix is in it, if it was asked for.
        StatsForm::Json | StatsForm::JsonAndMatrix => stats::json(report).to_string() + "\n",
    }
}

fn run_and_print(spec: &JobSpec, wish: Option<&StatsWish>) -> i32 {
    let stats_file = wish.and_then(|wish| wish.file.as_deref());
    let prepared = prepare("the report", spec.report.as_deref())
        .and_then(|page| Ok((page, prepare("statistics", stats_file)?)));
    let (page_file, stats_file) = match prepared {
        Ok(files) => files,
        Err(reason) => {
            eprintln!("banyan: {reason}");
            return EXIT_USAGE;
        }
    };
    let mut report = match run(spec) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("banyan: the job could not be started: {error}");
            return 1;
        }
    };
    if let Some(file) = page_file {
        let page = page::page(spec, &report, std::time::SystemTime::now());
        report.exit_code = written("the report", file, &page, report.exit_code);
    }
    let Some(wish) = wish else { return report.exit_code };
    let text = stats_text(&report, wish);
    match stats_file {
        Some(file) => written("statistics", file, &text, report.exit_code),
        None => {
            sys::socket::write_stderr(text.as_bytes());
            report.exit_code
        }
    }
}

/// Tries a file before the job, and not behind it, when what it is for would be lost.
fn prepare(what: &str, path: Option<&Path>) -> Result<Option<ResultFile>, String> {
    let Some(path) = path else { return Ok(None) };
    let file = ResultFile::prepare(path);
    file.map(Some).map_err(|error| format!("{what} cannot be written to '{}': {error}", path.display()))
}

/// Writes a file behind the job. Returns the exit code, which tells if that failed.
fn written(what: &str, file: ResultFile, text: &str, exit_code: i32) -> i32 {
    let path = file.path().to_owned();
    match file.write(text) {
        Ok(()) => exit_code,
        Err(error) => {
            eprintln!("banyan: cannot write {what} to '{}': {error}", path.display());
            exit_code.max(1)
        }
    }
}
