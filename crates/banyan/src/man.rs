//! `banyan man [PAGE]`: manual pages, from the tables of commands, options and variables.
use crate::commands::{COMMANDS, is_help};
use launch::{Entry, OPTION_SECTIONS};
use proto::env::{ReadBy, VARIABLES};

const HELP: &str = "\
usage: banyan man [PAGE]

Prints a manual page in the form of man(7): banyan (default), banyan-run or banyan-check. To read one at once:
  banyan man banyan-run | man -l -
./install puts them into PREFIX/share/man, also as mpiexec(1) and mpirun(1).
";

pub fn main(args: &[String]) -> i32 {
    if is_help(args, HELP) {
        return 0;
    }
    let page = match args {
        [] => banyan(),
        [page] => match page.as_str() {
            "banyan" => banyan(),
            "banyan-run" | "mpiexec" | "mpirun" => run(),
            "banyan-check" => check(),
            other => {
                return crate::usage_error(&format!(
                    "man: '{other}' is not banyan, banyan-run or banyan-check"
                ));
            }
        },
        [_, second, ..] => return crate::usage_error(&format!("man: '{second}' is one page too many")),
    };
    sys::out::print(&page);
    0
}

/// A text with nothing in it that steers the formatter.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with one of these would be a request.
    text.lines()
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}\n") } else { format!("{line}\n") })
        .collect()
}

fn head(name: &str, what: &str) -> String {
    format!(
        ".TH {} 1 \"\" \"banyan {}\" \"Banyan\"\n.SH NAME\n{} \\- {}",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION"),
        name.replace('-', "\\-"),
        plain(what)
    )
}

fn banyan() -> String {
    let mut text =
        head("banyan", "starts parallel programs and connects their processes where a message needs it");
    text += ".SH SYNOPSIS\n.B banyan\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n";
    for command in &COMMANDS {
        text += &format!(".TP\n.B {}\n", plain(&format!("{} {}", command.name, command.usage)).trim_end());
        text += &plain(command.text);
        if command.name == "bench" {
            text += &format!("{}.\n", plain(&crate::bench::names()).trim_end());
        }
    }
    text + &environment() + ".SH SEE ALSO\n.BR banyan\\-run (1),\n.BR banyan\\-check (1)\n"
}

fn run() -> String {
    let mut text = head("banyan-run", "start a parallel program");
    text += ".SH SYNOPSIS\n.B banyan run\n[OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n.br\n.B mpiexec\n\
             [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n.SH DESCRIPTION\n";
    text += &plain(
        "Starts a parallel program: any MPI program of the MPICH family, or any other command. Long options may be written \
         with one dash or two, and as '--name value' or '--name=value'. Options of Hydra, Open MPI, Intel MPI and srun that \
         mean the same are understood; of others it is said what they are here.",
    );
    for section in &OPTION_SECTIONS {
        text += &format!(".SH {}\n", plain(&section.title.to_uppercase()).trim_end());
        text.extend(section.entries.iter().map(option));
        if !section.note.is_empty() {
            text += &format!(".PP\n{}", plain(section.note));
        }
    }
    text += &format!(".SH EXIT STATUS\n{}", plain(launch::EXIT_CODES));
    text + &environment() + ".SH SEE ALSO\n.BR banyan (1),\n.BR banyan\\-check (1)\n"
}

fn option(entry: &Entry) -> String {
    let also = match entry.also {
        [] => String::new(),
        also => format!(" (also {})", also.join(", ")),
    };
    format!(".TP\n.B {}\n{}", plain(&entry.usage()).trim_end(), plain(&format!("{}{also}", entry.text)))
}

fn check() -> String {
    let mut text = head("banyan-check", "which MPI library a program would load, and what it lacks");
    text += ".SH SYNOPSIS\n.B banyan check\n[\\-\\-json] PROGRAM [ARGUMENTS]\n.SH DESCRIPTION\n";
    let (_, about) = crate::check::HELP.split_once("\n\n").unwrap_or_default();
    let (about, codes) = about.split_once("exit codes: ").unwrap_or((about, ""));
    text += &plain(about.trim());
    text + &format!(".SH EXIT STATUS\n{}", plain(&codes.split_whitespace().collect::<Vec<_>>().join(" ")))
}

fn environment() -> String {
    let is_settable = |read_by| matches!(read_by, ReadBy::Library | ReadBy::Launcher | ReadBy::Compilers);
    let variables = VARIABLES.iter().filter(|variable| is_settable(variable.read_by));
    let line = |variable: &proto::env::Variable| {
        let text = format!("{}: {}; default: {}", variable.meaning, variable.values, variable.default());
        format!(".TP\n.B {}\n{}", variable.name, plain(&text))
    };
    format!(".SH ENVIRONMENT\n{}", variables.map(line).collect::<String>())
}
