//! The one binary: starts jobs (`run`, or under the names `mpiexec` and `mpirun`), shows what Banyan is
//! (`demo`), measures it (`bench`) and says what it runs on (`info`).
//!
//! It only dispatches: every subcommand is a module that takes its arguments and returns an exit code.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod commands;
mod completion;
mod demo;
mod info;
mod man;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use sys::say;

/// Exit code for a command line that makes no sense.
pub(crate) const USAGE: i32 = 2;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let invoked_as = args.next().unwrap_or_default();
    // Exit codes are bytes; a launcher's 128 + signal fits.
    ExitCode::from(dispatch(Path::new(&invoked_as), args.collect()) as u8)
}

fn dispatch(invoked_as: &Path, mut args: Vec<OsString>) -> i32 {
    if args.first().is_some_and(|word| word == launch::SERVER_OPTION) {
        sys::process::set_name(launch::SERVER_NAME);
        return mpi::serve_node();
    }
    if invoked_as.file_name().is_some_and(|name| name == "mpiexec" || name == "mpirun") {
        return launch::main(args);
    }
    if args.first().is_some_and(|word| launch::is_inner(word)) {
        return launch::main(args);
    }
    if args.first().is_some_and(|command| command == "run") {
        args.remove(0);
        return launch::main(args);
    }
    if args.first().is_some_and(|command| command == "check") {
        return check::main(&args[1..]);
    }
    // Only a job's program and arguments may be something else than text.
    let text = |arg: OsString| arg.to_string_lossy().into_owned();
    own_command(&args.into_iter().map(text).collect::<Vec<_>>())
}

fn own_command(args: &[String]) -> i32 {
    let Some((command, rest)) = args.split_first() else {
        sys::socket::write_stderr(commands::help().as_bytes());
        return USAGE;
    };
    match command.as_str() {
        "demo" => demo::main(rest),
        "bench" => bench::main(rest),
        "info" => info::main(rest),
        "completion" => completion::main(rest),
        "man" => man::main(rest),
        "ps" => launch::ps::main(rest),
        "help" | "--help" | "-h" => {
            sys::out::print(&commands::help());
            0
        }
        "version" | "--version" | "-V" => {
            say!("banyan {}", env!("CARGO_PKG_VERSION"));
            0
        }
        unknown => usage_error(&format!("'{unknown}' is not a command{}", commands::meant(unknown))),
    }
}

/// Says what is wrong with the command line and where help is.
fn usage_error(what: &str) -> i32 {
    let text = format!("banyan: {what}; `banyan help` lists what there is\n");
    sys::socket::write_stderr(text.as_bytes());
    USAGE
}
