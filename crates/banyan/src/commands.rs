//! The subcommands: the one table from which help, completion and manual pages take them.

/// A subcommand.
pub struct Command {
    pub name: &'static str,
    /// What follows it.
    pub usage: &'static str,
    pub text: &'static str,
    /// What may follow it, but for what the user names.
    pub words: &'static [&'static str],
}

/// All of them, in the order of help.
pub const COMMANDS: [Command; 9] = [
    Command {
        name: "run",
        usage: "-n N [--nodes K] PROGRAM [ARGS]",
        text: "start N ranks (the same as mpiexec; `banyan run --help`)",
        words: &[],
    },
    Command {
        name: "demo",
        usage: "",
        text: "a tour: 8 ranks on 2 emulated nodes, checked and explained",
        words: &["--help"],
    },
    Command {
        name: "check",
        usage: "[--json] PROGRAM",
        text: "which MPI library a program would load, and what it lacks",
        words: &["--json", "--help"],
    },
    Command {
        name: "info",
        usage: "[--env] [--json]",
        text: "version, cores, what the kernel allows, RDMA devices; with --env, every variable that is read",
        words: &["--env", "--json", "--help"],
    },
    Command {
        name: "ps",
        usage: "[--json] [PID]",
        text: "your jobs on this machine, where their ranks are, and why they do not go on",
        words: &["--json", "--help"],
    },
    Command {
        name: "bench",
        usage: "WHAT",
        text: "what Banyan costs, beside others; WHAT is one of",
        words: &["--help"],
    },
    Command {
        name: "completion",
        usage: "SHELL",
        text: "completion for bash, zsh or fish: `eval \"$(banyan completion bash)\"`",
        words: &["bash", "zsh", "fish", "--help"],
    },
    Command {
        name: "man",
        usage: "[PAGE]",
        text: "a manual page (banyan, banyan-run, banyan-check), for `man -l -`",
        words: &["banyan", "banyan-run", "banyan-check", "--help"],
    },
    Command { name: "version", usage: "", text: "the version (and `help`: this text)", words: &[] },
];

/// What `banyan help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "Banyan starts parallel programs and connects their processes where a message needs it.\n\n\
         usage: banyan COMMAND [OPTIONS]\n\n",
    );
    for command in &COMMANDS {
        let usage = format!("{} {}", command.name, command.usage);
        text += &format!("  {usage:<36} {}\n", command.text);
        if command.name == "bench" {
            text += &crate::bench::list("    ");
        }
    }
    text + "\n`banyan COMMAND --help` says more.\n"
}

/// ` (did you mean 'NAME'?)`, if one is near.
pub fn meant(word: &str) -> String {
    let near = COMMANDS.iter().map(|command| (proto::env::distance(word, command.name), command.name));
    let nearest = near.filter(|(typos, _)| *typos <= 1 + word.len() / 4).min();
    nearest.map_or_else(String::new, |(_, name)| format!(" (did you mean '{name}'?)"))
}

/// If help is asked for, prints this.
pub fn is_help(args: &[String], help: &str) -> bool {
    let is_asked = args.iter().any(|arg| arg == "--help" || arg == "-h");
    if is_asked {
        sys::out::print(help);
    }
    is_asked
}
