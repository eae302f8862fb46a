//! The text of `--help`, from the table of options.

use super::entry::{Entry, Section};
use super::table::SECTIONS;
use proto::env::{ReadBy, VARIABLES};

/// Columns of a line.
const WIDTH: usize = 119;
/// Where the text of an option begins.
const INDENT: usize = 23;
/// The last column where it may begin behind a longer option.
const INDENT_MAX: usize = 32;

/// What `--help` prints.
pub(crate) fn help() -> String {
    let is_settable = |read_by| matches!(read_by, ReadBy::Library | ReadBy::Launcher);
    let variables = VARIABLES.iter().filter(|variable| is_settable(variable.read_by));
    let line = |variable: &proto::env::Variable| {
        wrapped(&format!("  {:<20} ", variable.name), &format!("{}: {}", variable.meaning, variable.values))
    };
    let sections = SECTIONS.iter().map(section).collect::<String>();
    let also = wrapped("", &format!("{}{}", HEAD_OF_NAMES, other_names()));
    let codes = wrapped("", &format!("Exit code: {EXIT_CODES}"));
    [HEAD, &sections, "\n", &also, "\n", &codes, TAIL].concat() + &variables.map(line).collect::<String>()
}

/// What `--info` prints.
pub(crate) fn info() -> String {
    format!(
        "banyan {}: launcher and MPI library\n\
         starts processes by    fork (this host, also as emulated nodes), ssh or any command like it, slurm (srun), manual\n\
         finds hosts of         Slurm, PBS, LSF, Grid Engine; --hosts, --hostfile, HYDRA_HOST_FILE\n\
         serves processes       PMI-1, PMI-2, PMGR (--pmgr)\n\
         binds processes to     core, hwthread, socket, numa, processors by number\n\
         'banyan info' tells of this machine, 'banyan check PROGRAM' which MPI library a program uses\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn section(section: &Section) -> String {
    let entries = section.entries.iter().map(entry).collect::<String>();
    let note = match section.note {
        "" => String::new(),
        note => format!("\n{}", wrapped("", note)),
    };
    format!("\n{}:\n{entries}{note}", section.title)
}

fn entry(entry: &Entry) -> String {
    let usage = format!("  {}", entry.usage());
    match usage.len() {
        short if short + 2 <= INDENT => wrapped(&format!("{usage:<INDENT$}"), entry.text),
        longer if longer + 2 <= INDENT_MAX => wrapped(&format!("{usage}  "), entry.text),
        _ => format!("{usage}\n{}", wrapped(&format!("{:INDENT$}", ""), entry.text)),
    }
}

/// `--host for --hosts, ...`.
fn other_names() -> String {
    let of_entry =
        |entry: &'static Entry| entry.also.iter().map(|name| format!("{name} for {}", entry.names[0]));
    let all: Vec<String> = SECTIONS.iter().flat_map(|section| section.entries).flat_map(of_entry).collect();
    all.join(", ") + "."
}

/// A text in lines that are as long as they may be; what it begins with stands before the first.
fn wrapped(first: &str, text: &str) -> String {
    let indent = if first.is_empty() { 0 } else { INDENT };
    let mut lines = first.to_owned();
    let mut column = first.len();
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 && column + 1 + word.len() > WIDTH {
            lines += &format!("\n{:indent$}", "");
            column = indent;
        } else if at > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += word.len();
    }
    lines + "\n"
}

const HEAD: &str = "\
Usage: banyan run [options] program [arguments] [: [options] program [arguments]]...
       mpiexec [options] program [arguments] [: [options] program [arguments]]...

Starts a parallel program: any MPI program of the MPICH family, or any other command.
";

const HEAD_OF_NAMES: &str = "\
Long options may be written with one dash or two, and as '--name value' or '--name=value'. Options of Hydra, Open MPI, \
Intel MPI and srun that mean the same are understood; of others it is said what they are here. Other names: ";

/// What exit codes mean.
pub const EXIT_CODES: &str = "\
the largest of the processes' exit codes; 128 + signal for a process killed by a signal; the code given to MPI_Abort \
(its low 8 bits, never 0); 130 after ctrl-C; 124 after a time-out; 127 if the program was not found, 126 if it cannot be \
executed; 2 for a wrong command line. A process that fails after MPI_Init ends the job.";

const TAIL: &str = "
In the environment, MPIEXEC_TIMEOUT and HYDRA_HOST_FILE stand for --timeout and --hostfile where those are not given,
and these stand for options or set what no option does ('banyan info --env' shows which are set):
";
