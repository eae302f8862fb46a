//! The command line of `banyan run` and `mpiexec`. Long options may have one dash or two, as users of other
//! launchers have them in their fingers.
mod allocation;
mod entry;
mod environment;
mod foreign;
mod help;
mod hosts;
mod parser;
mod placing;
mod suggest;
mod table;
mod words;
mod written;

pub use entry::{Entry, Scope, Section as OptionSection, Takes};
pub use table::SECTIONS as OPTION_SECTIONS;

pub(crate) use environment::check_environment;
pub use help::EXIT_CODES;
pub(crate) use help::{help, info};

use crate::pattern::PatternError;
use crate::spec::{JobSpec, RANKS_MAX};
use allocation::AllocationError;
pub(crate) use hosts::HostsError;
use parser::{Next, Parser};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the user wants.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Box<JobSpec>, Option<StatsWish>),
    DryRun(Box<JobSpec>, DryForm),
    Help,
    HelpStats,
    Info,
    Version,
}

/// How is shown what would be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryForm {
    Picture,
    Json,
}

/// A command line that makes sense.
#[derive(Debug)]
pub(crate) struct Understood {
    pub(crate) command: Command,
    /// What the user should know of its options.
    pub(crate) notes: Vec<String>,
}

/// How statistics are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatsWish {
    pub(crate) form: StatsForm,
    pub(crate) file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsForm {
    Table,
    Json,
    Matrix,
    TableAndMatrix,
    JsonAndMatrix,
}

impl StatsForm {
    /// Is to be counted which ranks are connected?
    pub(crate) fn has_matrix(self) -> bool {
        !matches!(self, StatsForm::Table | StatsForm::Json)
    }
}

/// Why a command line is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("unknown option '{option}'{}", suggestion(.meant))]
    Unknown { option: String, meant: Option<&'static str> },
    #[error("option '{option}': {reason}")]
    Refused { option: String, reason: &'static str },
    #[error("option '{0}' needs a value")]
    NoValue(String),
    #[error("option '{option}': '{value}' is not {wanted}")]
    BadValue { option: String, value: String, wanted: Cow<'static, str> },
    #[error("{variable}: '{value}' is not {wanted}")]
    Variable { variable: &'static str, value: String, wanted: &'static str },
    #[error(transparent)]
    Environment(#[from] proto::env::BadValue),
    #[error("'{0}': srun does not enter hosts as another user; '--bootstrap ssh' does")]
    UserInSlurm(String),
    #[error("no program given")]
    NoProgram,
    #[error("{0} processes are more than {RANKS_MAX}")]
    TooMany(u64),
    #[error("option '{0}' concerns the whole job: give it before the first program")]
    NotHere(String),
    #[error(
        "option '{0}': hosts are those of the whole job: give them before the first program, in the order in which \
         programs take them, such as --hosts a:1,b:2"
    )]
    HostsHere(String),
    #[error("option '{0}' takes no value")]
    NeedlessValue(String),
    #[error("options '{0}' and '{1}' contradict each other")]
    Conflict(&'static str, &'static str),
    #[error("option '{option}': {error}")]
    Hosts { option: String, error: HostsError },
    #[error("option '{option}': '{value}': {error}")]
    Pattern { option: String, value: String, error: PatternError },
    #[error("option '{option}': cannot read '{file}': {reason}")]
    File { option: String, file: String, reason: String },
    #[error("option '{option}': '{file}', line {line}: a quote is not closed")]
    OpenQuote { option: String, file: String, line: usize },
    #[error("'{0}' behind '--configfile FILE': everything else comes from the file")]
    Behind(String),
    #[error("'--bootstrap {0}' needs hosts: give them with '--hosts' or '--hostfile'")]
    NoHosts(&'static str),
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    #[error("option '-s': there is no rank {rank} among {ranks}")]
    NoSuchRank { rank: u32, ranks: u32 },
}

fn suggestion(meant: &Option<&'static str>) -> String {
    meant.map_or_else(String::new, |name| format!(" (did you mean '{name}'?)"))
}

/// The names in a list of hosts.
pub(crate) fn parse_hosts(list: &str) -> Result<Vec<String>, HostsError> {
    hosts::expand_list(list)
}

/// Parses the arguments behind `banyan run`.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Understood, UsageError> {
    let mut parser = Parser::new(args);
    let command = loop {
        match parser.section()? {
            Next::Section => {}
            Next::End => return parser.finish(),
            Next::Help => break Command::Help,
            Next::HelpStats => break Command::HelpStats,
            Next::Info => break Command::Info,
            Next::Version => break Command::Version,
        }
    };
    Ok(Understood { command, notes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::Bootstrap;
    use crate::spec::{Bind, Inherit, Label, MapBy, StdinTo, Talk};
    use proto::env::ReadBy;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn run(line: &str) -> (JobSpec, Option<StatsWish>) {
        match parse(words(line)).unwrap().command {
            Command::Run(spec, wish) => (*spec, wish),
            other => panic!("{other:?}"),
        }
    }

    fn command(line: &str) -> Result<Command, UsageError> {
        parse(words(line)).map(|understood| understood.command)
    }

    fn notes(line: &str) -> Vec<String> {
        parse(words(line)).unwrap().notes
    }

    fn error(line: &str) -> String {
        parse(words(line)).unwrap_err().to_string()
    }

    #[test]
    fn options_come_before_the_program_with_one_dash_or_two() {
        let (spec, wish) =
            run("-np 4 --nodes=2 -bind-to core --stats=json -l -genv A 1 -genv B=2 ./prog -n 9 --x");
        assert_eq!((spec.ranks(), spec.nodes, &spec.bind, &spec.label), (4, 2, &Bind::Core, &Label::Rank));
        assert_eq!(spec.sections[0].program, "./prog");
        assert_eq!(spec.sections[0].args, ["-n", "9", "--x"]);
        assert_eq!(spec.env, [("A".into(), "1".into()), ("B".into(), "2".into())]);
        assert_eq!(wish, Some(StatsWish { form: StatsForm::Json, file: None }));
    }

    #[test]
    fn the_matrix_comes_alone_or_with_the_counters() {
        for (option, form, matrix) in [
            ("--stats", StatsForm::Table, false),
            ("--stats=matrix", StatsForm::Matrix, true),
            ("--stats=table,matrix", StatsForm::TableAndMatrix, true),
            ("--stats=json,matrix", StatsForm::JsonAndMatrix, true),
        ] {
            let (spec, wish) = run(&format!("-n 2 {option} ./prog"));
            assert_eq!((wish.unwrap().form, spec.matrix), (form, matrix), "{option}");
        }
        assert!(!run("-n 2 ./prog").0.matrix);
        assert!(error("-n 2 --stats=json,table ./prog").contains("'matrix'"));
    }

    #[test]
    fn several_programs_are_separated_by_colons() {
        let (spec, _) = run("--nodes 2 -n 2 a x : -n 3 -env K V b : c");
        let ranks: Vec<_> = spec.sections.iter().map(|section| section.ranks).collect();
        assert_eq!((ranks, spec.ranks()), (vec![2, 3, 1], 6));
        assert_eq!(spec.sections[1].env, [("K".into(), "V".into())]);
        assert_eq!(
            error("a : --nodes 2 b"),
            "option '--nodes' concerns the whole job: give it before the first program"
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(error("--frobnicate prog"), "unknown option '--frobnicate'");
        assert_eq!(error("-n"), "option '-n' needs a value");
        assert_eq!(error("-n 0 prog"), "option '-n': '0' is not a number of at least 1");
        let many = "option '-n': '9999999999999999999' is not a number of at most 4294967295";
        assert_eq!(error("-n 9999999999999999999 prog"), many);
        assert_eq!(error("-n 4294967295 a"), "4294967295 processes are more than 65536");
        assert_eq!(error("-env =x y prog"), "option '-env': '=x' is not the name of a variable");
        assert_eq!(
            error("--bind-to moon prog"),
            "option '--bind-to': 'moon' is not core, core:2, hwthread, socket, numa, user:0,1,... or none"
        );
        assert_eq!(error("-n 4"), "no program given");
        assert_eq!(error("-n 60000 a : -n 60000 b"), "120000 processes are more than 65536");
        for line in ["a :", "-n 4 : b", "a : : b"] {
            assert_eq!(error(line), "no program given");
        }
    }

    #[test]
    fn a_program_may_look_like_an_option_behind_two_dashes() {
        assert_eq!(run("-n 2 -- -prog -x").0.sections[0].program, "-prog");
    }

    #[test]
    fn help_wins() {
        assert!(matches!(command("-n 2 --help"), Ok(Command::Help)));
        assert!(matches!(command("--help-stats"), Ok(Command::HelpStats)));
        assert!(matches!(command("-version"), Ok(Command::Version)));
    }

    #[test]
    fn processes_per_node_say_how_many_nodes_there_are() {
        assert_eq!(run("-n 5 -ppn 2 a").0.slots, [2, 2, 2]);
        assert_eq!(run("-ppn=2 --nodes 2 -n 5 a").0.slots, [2, 2]);
        assert_eq!(run("-n 2 -ppn 4 --nodes 4000000000 a").0.placement().nodes(), 1);
        assert_eq!(error("-ppn 0 a"), "option '-ppn': '0' is not a number of at least 1");
    }

    #[test]
    fn what_is_inherited_can_be_chosen_for_all_and_for_one() {
        let (spec, _) = run("-genvlist A,B a : -envnone b : -envlist C c : -envall d");
        assert_eq!(spec.inherit, Inherit::Listed(vec!["A".into(), "B".into()]));
        let sections: Vec<_> = spec.sections.iter().map(|section| section.inherit.clone()).collect();
        let listed = Inherit::Listed(vec!["C".into()]);
        assert_eq!(sections, [None, Some(Inherit::Nothing), Some(listed), Some(Inherit::All)]);
        assert_eq!(run("-genvnone a").0.inherit, Inherit::Nothing);
        assert_eq!(run("-genvnone -genvall a").0.inherit, Inherit::All);
        assert_eq!(error("-genvnone=1 a"), "option '-genvnone=1' takes no value");
    }

    #[test]
    fn x_sets_or_passes_on_a_variable() {
        assert_eq!(run("-x K=V a").0.env, [("K".into(), "V".into())]);
        let path = std::env::var_os("PATH").unwrap();
        assert_eq!(run("-x PATH a").0.env, [("PATH".into(), path)]);
        assert!(run("-x NO_SUCH_VARIABLE_HERE a").0.env.is_empty());
    }

    #[test]
    fn a_variable_may_have_a_value_of_any_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let (pair, value) = (b"K=a\xff=b".to_vec(), OsString::from_vec(b"a\xff=b".to_vec()));
        for option in ["-genv", "-env", "-x"] {
            let line = [option.into(), OsString::from_vec(pair.clone()), "prog".into(), "arg".into()];
            let Command::Run(spec, _) = parse(line.into()).unwrap().command else { panic!("{option}") };
            let given = spec.env.iter().chain(&spec.sections[0].env);
            assert_eq!(given.collect::<Vec<_>>(), [&("K".into(), value.clone())], "{option}");
            assert_eq!((&spec.sections[0].program, spec.sections[0].args.len()), (&"prog".into(), 1));
        }
    }

    #[test]
    fn folders_are_the_jobs_or_a_programs() {
        let (spec, _) = run("-wdir / -path /a:/b a : -wdir /usr -path /c b");
        assert_eq!((spec.folder, spec.search), (Some("/".into()), Some("/a:/b".into())));
        assert_eq!(spec.sections[0].folder, None);
        assert_eq!(spec.sections[1].folder, Some("/usr".into()));
        assert_eq!(spec.sections[1].search, Some("/c".into()));
    }

    #[test]
    fn universe_map_stdin_and_talk_are_set() {
        assert_eq!(run("-usize infinite a").0.universe, None);
        assert_eq!(run("-usize SYSTEM --hosts localhost:3,127.0.0.2 -n 2 a").0.universe, Some(4));
        let (spec, _) = run("-n 3 -usize 8 --map-by node -s 2 -v a");
        assert_eq!((spec.universe, spec.map, spec.stdin), (Some(8), MapBy::Node, StdinTo::Rank(2)));
        assert_eq!(spec.talk, Talk::Verbose);
        assert_eq!(run("-s all a").0.stdin, StdinTo::All);
        assert_eq!(run("-s none a").0.stdin, StdinTo::Nobody);
        assert_eq!(error("-n 2 -s 2 a"), "option '-s': there is no rank 2 among 2");
        assert_eq!(error("-s x a"), "option '-s': 'x' is not a rank, all or none");
        assert_eq!(error("--map-by moon a"), "option '--map-by': 'moon' is not slot or node");
        assert_eq!(
            error("-usize x a"),
            "option '-usize': 'x' is not a number of at least 1, 'system' or 'infinite'"
        );
    }

    #[test]
    fn cores_can_be_listed() {
        assert_eq!(run("--bind-to user:0,3 a").0.bind, Bind::User(vec![0, 3]));
        assert_eq!(run("--bind-to hwthread a").0.bind, Bind::Core);
        assert_eq!(run("--bind-to core:4 a").0.bind, Bind::Several(4));
        assert_eq!(run("--bind-to socket a").0.bind, Bind::Package);
        assert_eq!(run("-bind-to numa -map-by core a").0.bind, Bind::Memory);
        assert!(error("--bind-to core:0 a").contains("'core:0' is not core, core:2"));
        assert!(error("--bind-to user: a").contains("'user:' is not core, core:2"));
        assert!(error("--bind-to user:1,x a").contains("'user:1,x' is not core, core:2"));
    }

    #[test]
    fn patterns_are_checked_at_once() {
        let (spec, _) = run("--outfile-pattern o.%r --errfile-pattern=e.%h --prepend-pattern %r: a");
        assert!(spec.out_files.is_some() && spec.err_files.is_some());
        assert!(matches!(spec.label, Label::Pattern(_)));
        assert_eq!(
            error("--outfile-pattern o.%q a"),
            "option '--outfile-pattern': 'o.%q': '%q' is none of %r (rank), %h (host), %p (node), %g or %w (group) \
            and %%"
        );
    }

    #[test]
    fn a_dry_run_is_another_command() {
        assert!(
            matches!(command("--dry-run -n 2 a"), Ok(Command::DryRun(spec, DryForm::Picture)) if spec.ranks() == 2)
        );
    }

    #[test]
    fn hosts_are_emulated_nodes_only_if_all_are_this_host() {
        assert_eq!(run("-n 4 --hosts localhost:3,127.0.0.2 a").0.slots, [3, 1]);
        assert_eq!(run("-n 4 -ppn 2 -hosts localhost:3,127.0.0.2 a").0.slots, [2, 2]);
        assert_eq!(run("--hosts localhost:3,127.0.0.2 a").0.ranks(), 4);
        assert_eq!(run("--hosts localhost:3,127.0.0.2 -ppn 2 a").0.ranks(), 4);
        assert_eq!(run("--hosts localhost:3 a : b").0.ranks(), 2);
        let (spec, _) = run("-n 20 --hosts n[01-64]:8,login a");
        assert_eq!((spec.slots.len(), spec.hosts.len()), (65, 65));
        assert_eq!((&spec.hosts[63], spec.slots[63], spec.slots[64]), (&"n64".into(), 8, 1));
        assert!(matches!(spec.bootstrap, Bootstrap::Shell(words) if words[0] == "ssh"));
        let (spec, _) = run("--hosts n1 --launcher-exec /opt/rsh_-q a");
        assert_eq!(spec.bootstrap, Bootstrap::Shell(vec!["/opt/rsh_-q".into()]));
        let (spec, _) =
            run("--hosts localhost --bootstrap ssh --degree 2 --start-timeout 5 --agent-path /b a");
        assert!(matches!(spec.bootstrap, Bootstrap::Shell(_)));
        assert_eq!((spec.degree, spec.start_timeout.as_secs(), spec.agent), (Some(2), 5, Some("/b".into())));
        let (spec, _) = run("--hosts n1 --bootstrap manual --key-file k a");
        assert!(
            matches!(spec.bootstrap, Bootstrap::Manual(file) if file.starts_with('/') && file.ends_with("/k"))
        );
        assert!(spec.start_timeout.is_zero());
        assert_eq!(
            error("--bootstrap ssh a"),
            "'--bootstrap ssh' needs hosts: give them with '--hosts' or '--hostfile'"
        );
        assert_eq!(
            error("--bootstrap pigeon a"),
            "option '--bootstrap': 'pigeon' is not ssh, slurm, manual or fork"
        );
        assert_eq!(error("--hosts a,,b a"), "option '--hosts': a host has no name");
        assert_eq!(
            error("--hosts localhost --nodes 2 a"),
            "options '--hosts' and '--nodes' contradict each other"
        );
    }

    #[test]
    fn hosts_and_programs_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = folder.path().join("hosts");
        std::fs::write(&hosts, "localhost slots=2\n127.0.0.1:3 # more\n").unwrap();
        assert_eq!(run(&format!("-n 4 -f {} a", hosts.display())).0.slots, [2, 3]);
        let programs = folder.path().join("programs");
        std::fs::write(&programs, "# two\n-n 2 a 'x y'\n-n 3 b\n").unwrap();
        let (spec, _) = run(&format!("-l --configfile {}", programs.display()));
        assert_eq!((spec.ranks(), spec.sections.len()), (5, 2));
        assert_eq!(spec.sections[0].args, ["x y"]);
        let behind = error(&format!("--configfile {} c", programs.display()));
        assert_eq!(behind, "'c' behind '--configfile FILE': everything else comes from the file");
        std::fs::write(&programs, format!("--configfile {}\n", programs.display())).unwrap();
        assert!(error(&format!("--configfile {}", programs.display())).contains("contradict"));
        assert!(
            error("--hostfile /no/such/file a")
                .starts_with("option '--hostfile': cannot read '/no/such/file': ")
        );
    }

    #[test]
    fn every_option_has_a_line_in_the_help() {
        let help = help();
        for name in table::entries().flat_map(Entry::all_names) {
            let is_word = |word: &str| word.split(['[', '.']).next() == Some(name);
            let found = help.split([' ', ',', '\n']).any(|word| word.starts_with('-') && is_word(word));
            assert!(found, "{name}");
        }
    }

    #[test]
    fn every_variable_that_users_set_has_a_line_in_the_help() {
        let help = help();
        for variable in proto::env::VARIABLES {
            let settable = matches!(variable.read_by, ReadBy::Library | ReadBy::Launcher);
            let listed = help.lines().any(|line| line.split_whitespace().next() == Some(variable.name));
            assert_eq!(listed, settable, "{}", variable.name);
        }
        assert!(help.lines().all(|line| line.chars().count() <= 119));
    }

    #[test]
    fn programs_can_be_checked() {
        let value = |line| run(line).0.env.iter().find(|(name, _)| name == "BANYAN_CHECK").cloned();
        let set = |value: &str| Some(("BANYAN_CHECK".into(), value.into()));
        assert_eq!((value("a"), value("--check a")), (None, set("on")));
        assert_eq!((value("--check=strict a"), value("--check=off a")), (set("strict"), set("off")));
        assert_eq!(
            error("--check=often a"),
            "option '--check=often': 'often' is not 'on', 'off' or 'strict'"
        );
    }

    #[test]
    fn traffic_between_hosts_can_be_directed() {
        let (spec, _) =
            run("--net ib0 --fabric verbs:rxe0:1 --port-range 40000-40999 --net-timeout 2.5 --force-net a");
        let variables: Vec<(OsString, OsString)> = spec.net.variables();
        let expected = [
            ("BANYAN_NET", "ib0"),
            ("BANYAN_FABRIC", "verbs:rxe0:1"),
            ("BANYAN_PORT_RANGE", "40000-40999"),
            ("BANYAN_NET_TIMEOUT", "2.5"),
            ("BANYAN_FORCE_NET", "on"),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.into(), value.into())));
        assert!(run("a").0.net.variables().is_empty());
        let (spec, _) = run("--net 10.1.0.0/16 --net-timeout 90 a");
        assert_eq!(spec.net.variables()[0].1, "10.1.0.0/16");
        assert_eq!(spec.net.variables()[1].1, "90");
        assert_eq!(
            error("--net 10.1.0.0/40 a"),
            "option '--net': '10.1.0.0/40' is not an interface or a network such as eth0 or 10.1.0.0/16"
        );
        assert_eq!(
            error("--port-range 5 a"),
            "option '--port-range': '5' is not a range of ports such as 40000-40999"
        );
        assert_eq!(error("--net-timeout x a"), "option '--net-timeout': 'x' is not a number of seconds");
        assert_eq!(error("--force-net=on a"), "option '--force-net=on' takes no value");
    }

    #[test]
    fn connections_can_be_limited() {
        let (spec, _) = run("--qp-budget 8 --conn-memory 4M --qp-max 64 --fault loss=5%,seed=7 a");
        let env: Vec<(String, String)> = spec
            .env
            .iter()
            .map(|(name, value)| (name.to_string_lossy().into(), value.to_string_lossy().into()))
            .collect();
        let expected = [
            ("BANYAN_QP_BUDGET", "8"),
            ("BANYAN_CONN_MEMORY", "4M"),
            ("BANYAN_NET_FAULTS", "loss=5%,seed=7"),
        ];
        assert_eq!(env, expected.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(spec.qp_max, Some(64));
        assert_eq!((spec.pattern, run("--pattern p a").0.pattern), (None, Some("p".into())));
        assert_eq!(error("--qp-budget 1 a"), "option '--qp-budget': '1' is not a number from 2 to 16777216");
        assert_eq!(
            error("--conn-memory 4X a"),
            "option '--conn-memory': '4X' is not a number of bytes such as 65536, 64K or 2M"
        );
        assert_eq!(error("--qp-max 0 a"), "option '--qp-max': '0' is not a number from 1 to 16777216");
    }

    #[test]
    fn hosts_may_be_entered_as_another_user() {
        let (spec, _) = run("-n 4 --hosts me@localhost:3,n2 a");
        assert!(matches!(spec.bootstrap, Bootstrap::Shell(_)), "another user is not emulated");
        assert_eq!(
            (spec.hosts[0].login(), spec.hosts[0].name.as_str()),
            ("me@localhost".into(), "localhost")
        );
        assert_eq!((spec.slots, spec.hosts[1].login()), (vec![3, 1], "n2".into()));
        let slurm = error("--bootstrap slurm --hosts n1,me@n2 a");
        assert_eq!(slurm, "'me@n2': srun does not enter hosts as another user; '--bootstrap ssh' does");
    }

    #[test]
    fn an_option_of_the_job_is_misplaced_behind_a_program() {
        for entry in table::entries().filter(|entry| entry.scope == Scope::Job) {
            let text = error(&format!("a : {} 1 b", entry.names[0]));
            assert!(text.contains("the whole job: give "), "{text}");
        }
    }

    #[test]
    fn every_option_of_the_table_is_read() {
        for entry in table::entries() {
            // Whatever is said of the value, somebody reads the option.
            for name in entry.all_names() {
                let _ = parse(words(&format!("{name} 1 2 3")));
            }
        }
    }

    #[test]
    fn options_of_other_launchers_do_what_is_meant() {
        assert_eq!(run("-n 4 -perhost 2 a").0.slots, [2, 2]);
        assert_eq!(run("-n4 --npernode=2 a").0.slots, [2, 2]);
        assert_eq!(run("-n 4 --map-by ppr:2:node:OVERSUBSCRIBE a").0.slots, [2, 2]);
        assert_eq!(run("-rr -n 2 a").0.slots, [1, 1]);
        assert_eq!(run("--ntasks=3 --label a").0.label, Label::Rank);
        assert_eq!(run("-map-by socket a").0.bind, Bind::Package);
        assert_eq!(run("-map-by socket -bind-to core a").0.bind, Bind::Core);
        assert_eq!(run("--cpus-per-task 2 a").0.bind, Bind::Several(2));
        assert_eq!(run("--rank-by node --nodes 2 a").0.map, MapBy::Node);
        assert_eq!(run("-iface eth3 a").0.net.variables()[0].1, "eth3");
        assert!(run("--report-bindings -print-all-exitcodes a").0.exit_codes);
        assert!(matches!(command("-info"), Ok(Command::Info)));
        for quiet in ["--oversubscribe a", "--allow-run-as-root a", "-rr a", "a : --oversubscribe b"] {
            assert_eq!(notes(quiet), [""; 0], "{quiet}");
        }
    }

    #[test]
    fn a_variable_for_all_may_stand_behind_a_colon() {
        let (spec, _) = run("a : -genv K V -x L=1 b");
        assert_eq!(spec.env, [("K".into(), "V".into()), ("L".into(), "1".into())]);
    }

    #[test]
    fn what_changes_nothing_is_noted_once() {
        let of_mca = "note: '--mca' is a setting of Open MPI's library and means nothing to Banyan's ('banyan info --env' \
                      lists what does)";
        assert_eq!(notes("--mca btl tcp,self --mca pml ob1 -n 2 a"), [of_mca]);
        assert_eq!(notes("-rmk slurm a").len(), 1);
        assert!(notes("-N 2 a")[0].contains("as in Open MPI"), "{:?}", notes("-N 2 a"));
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason_and_our_word() {
        for (line, reason) in [
            ("-disable-auto-cleanup a", "a process that dies ends its job here"),
            ("--output-filename out a", "'--outfile-pattern FILE.%r'"),
            ("--output=out a", "option '--output out': 'tag' is known"),
            ("--rank-by moon a", "'--map-by node'"),
            ("a : -host n2 b", "--hosts a:1,b:2"),
            ("--partition debug a", "'sbatch' or 'salloc'"),
            ("-c 2 a", "'--bind-to core:N'"),
            ("--bind_to core a", "unknown option '--bind_to' (did you mean '--bind-to'?)"),
        ] {
            assert!(error(line).contains(reason), "{}", error(line));
        }
    }
}
