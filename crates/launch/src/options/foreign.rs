//! Options of other launchers (Hydra's, Open MPI's, Intel MPI's, srun's): what becomes of each here. Pure.
//!
//! What can be done is done in our words; what changes nothing is accepted, with a note where a user might expect that
//! it does; what cannot be done is refused with the reason and our word for it.
use super::entry::bare;

/// What becomes of an option.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    /// These words of ours instead, `{}` being its value.
    Means(&'static [&'static str]),
    /// The same, and it is said.
    Noted(&'static [&'static str], &'static str),
    /// By its value: the words instead, or that all others are refused, and why.
    Choice(&'static [(&'static str, &'static [&'static str])], &'static str),
    /// It is so anyway.
    Nothing,
    /// It changes nothing, and it is said.
    Ignored(&'static str),
    /// It is refused, and this is why.
    Refused(&'static str),
}

/// An option that is not ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign {
    /// Its names.
    pub(super) names: &'static [&'static str],
    /// How many words follow it.
    pub(super) words: usize,
    pub(super) does: Does,
}

/// The option of this name, without dashes.
pub(super) fn find(name: &str) -> Option<&'static Foreign> {
    ROWS.iter().find(|row| row.names.iter().any(|known| bare(known) == name))
}

/// The names of those that are understood.
pub(super) fn understood() -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().filter(|row| !matches!(row.does, Does::Refused(_)));
    rows.flat_map(|row| row.names).copied()
}

const fn row(names: &'static [&'static str], words: usize, does: Does) -> Foreign {
    Foreign { names, words, does }
}

/// Settings of another library.
const OF_OPEN_MPI: &str =
    "is a setting of Open MPI's library and means nothing to Banyan's ('banyan info --env' lists what does)";
const OF_BATCH: &str =
    "is for the batch system: give it to 'sbatch' or 'salloc', and start the program inside";
const OF_DEBUGGER: &str = "debuggers are not started from here; '-n 2 xterm -e gdb --args PROGRAM' starts one for each \
     process, and 'gdb -p PID' enters one that runs";
const OF_GPUS: &str = "devices are not dealt to processes here; a script around the program can choose one by \
     MPI_LOCALRANKID";
const OF_FAULTS: &str = "a process that dies ends its job here, whatever is asked for";
const OF_DAEMONS: &str = "there are no daemons here: agents start with a job and end with it";

const ROWS: &[Foreign] = {
    use Does::{Choice, Ignored, Means, Noted, Nothing, Refused};
    &[
        // How many, and where.
        row(&["-perhost", "-grr", "-npernode", "--ntasks-per-node"], 1, Means(&["-ppn", "{}"])),
        row(
            &["-N"],
            1,
            Noted(
                &["-ppn", "{}"],
                "is taken as in Open MPI, processes on each node (-ppn); hosts are named by --hosts",
            ),
        ),
        row(&["-rr", "-pernode"], 0, Means(&["-ppn", "1"])),
        row(&["--ntasks"], 1, Means(&["-n", "{}"])),
        row(
            &["-c"],
            1,
            Refused(
                "is the number of processes for some launchers, of processors for others: '-n N' or '--bind-to core:N'",
            ),
        ),
        row(&["--cpus-per-proc", "--cpus-per-rank", "--cpus-per-task"], 1, Means(&["--bind-to", "core:{}"])),
        row(
            &["-npersocket", "--ntasks-per-socket"],
            1,
            Refused("processes of a socket are not counted; '-ppn N' counts those of a node"),
        ),
        row(&["-H", "-w", "--nodelist"], 1, Means(&["--hosts", "{}"])),
        row(&["--default-hostfile", "-machine"], 1, Means(&["--hostfile", "{}"])),
        row(
            &["-x-hosts", "--exclude", "--nolocal"],
            0,
            Refused("hosts are not taken away from a list; '--hosts LIST' names those to use"),
        ),
        row(&["-hosts-group"], 1, Means(&["--hosts", "{}"])),
        row(&["--app"], 1, Means(&["--configfile", "{}"])),
        row(
            &["--multi-prog"],
            0,
            Refused("several programs are separated by ':' here, or stand in a '--configfile FILE'"),
        ),
        row(
            &["--rankfile", "-rf"],
            1,
            Refused(
                "single processes are not placed; '--hosts a:2,b:4' says how many each host takes, and '--bind-to user:0,2,...' on which processors",
            ),
        ),
        row(&["--bycore", "--byslot", "--bysocket"], 0, Means(&["--map-by", "slot"])),
        row(&["--bynode"], 0, Means(&["--map-by", "node"])),
        row(
            &["--rank-by"],
            1,
            Choice(
                &[
                    ("slot", &[]),
                    ("core", &[]),
                    ("hwthread", &[]),
                    ("fill", &[]),
                    ("node", &["--map-by", "node"]),
                ],
                "processes are numbered as they are placed: 'slot' or 'node', which is '--map-by node'",
            ),
        ),
        row(
            &["--distribution", "-m"],
            1,
            Choice(
                &[("block", &[]), ("cyclic", &["--map-by", "node"])],
                "'block' and 'cyclic' ('--map-by node') are known",
            ),
        ),
        row(&["--oversubscribe", "--overload-allowed", "--allow-run-as-root", "--overlap"], 0, Nothing),
        row(
            &["--nooversubscribe", "--exact", "--exclusive"],
            0,
            Ignored("more processes than processors are allowed here; nothing refuses them"),
        ),
        row(&["--use-hwthread-cpus", "--use-hwthreads-as-cpus", "--hetero-nodes"], 0, Nothing),
        row(&["-order-nodes"], 1, Ignored("hosts are used in the order in which they are given")),
        row(
            &["-skip-launch-node"],
            0,
            Refused("the launcher's host has processes only if '--hosts' names it"),
        ),
        row(
            &["-localhost"],
            1,
            Ignored("other hosts call the address over which they are reached; '--net IFACE' chooses it"),
        ),
        // Binding.
        row(&["-binding", "--bind"], 1, Means(&["--bind-to", "{}"])),
        row(&["--bind-to-core"], 0, Means(&["--bind-to", "core"])),
        row(&["--bind-to-socket"], 0, Means(&["--bind-to", "socket"])),
        row(&["--bind-to-none"], 0, Means(&["--bind-to", "none"])),
        row(&["--cpu-set", "--cpu-list"], 1, Means(&["--bind-to", "user:{}"])),
        row(
            &["--cpu-bind", "--cpu_bind"],
            1,
            Choice(
                &[
                    ("none", &["--bind-to", "none"]),
                    ("no", &["--bind-to", "none"]),
                    ("cores", &["--bind-to", "core"]),
                    ("threads", &["--bind-to", "hwthread"]),
                    ("rank", &["--bind-to", "core"]),
                    ("sockets", &["--bind-to", "socket"]),
                    ("ldoms", &["--bind-to", "numa"]),
                    ("verbose", &["--report-bindings"]),
                ],
                "'--bind-to core, socket, numa, user:0,2,... or none' says it here",
            ),
        ),
        row(
            &["-membind", "--mem-bind"],
            1,
            Refused("memory is where the process that touches it first runs: '--bind-to numa' keeps it near"),
        ),
        row(&["-topolib"], 1, Ignored("processors are found in /sys here")),
        row(&["-gpus-per-proc", "-gpu-subdevs-per-proc", "-g", "--gpus-per-task"], 1, Refused(OF_GPUS)),
        // How it starts.
        row(&["-iface"], 1, Means(&["--net", "{}"])),
        row(
            &["-rmk"],
            1,
            Ignored(
                "the allocation of a batch system is found by itself; '--bootstrap' says how its hosts are entered",
            ),
        ),
        row(
            &["--launch-agent", "--orte-launch-agent"],
            1,
            Refused("'--agent-path PATH' names this program on the other hosts"),
        ),
        row(
            &["--prefix"],
            1,
            Refused(
                "'--agent-path PREFIX/bin/banyan' names this program on the other hosts, '-genv LD_LIBRARY_PATH PREFIX/lib' the library",
            ),
        ),
        row(&["--noprefix"], 0, Nothing),
        row(
            &["--preload-binary", "--preload-files"],
            0,
            Refused("nothing is copied to other hosts: programs have to be there"),
        ),
        row(&["-branch-count"], 1, Means(&["--degree", "{}"])),
        row(
            &["-pmi-port", "-pmi-connect", "--personality"],
            1,
            Ignored("processes are served PMI-1 and PMI-2 on a descriptor of their own"),
        ),
        row(&["-pmi1", "-pmi2"], 0, Nothing),
        row(&["--mpi"], 1, Ignored("processes are served PMI-1 and PMI-2, whichever they ask for")),
        row(
            &[
                "--hostname-propagation",
                "-disable-hostname-propagation",
                "-enable-x",
                "-disable-x",
                "-noconf",
                "-nw",
            ],
            0,
            Ignored("there is nothing of the kind here to turn on or off"),
        ),
        row(&["--do-not-launch", "--donotlaunch"], 0, Means(&["--dry-run"])),
        row(&["--ompi-server", "-server-wait-time"], 1, Refused(OF_DAEMONS)),
        row(&["--dvm", "--dvm-uri"], 1, Refused(OF_DAEMONS)),
        // What programs get.
        row(&["--chdir", "-D"], 1, Means(&["-wdir", "{}"])),
        row(&["-umask"], 1, Refused("a shell sets it: '-n 4 sh -c \"umask 027; exec PROGRAM\"'")),
        row(&["-arch", "-soft", "-host-info"], 1, Refused("hosts are chosen by name only")),
        row(
            &["--export"],
            1,
            Choice(
                &[("ALL", &[]), ("NONE", &["-genvnone"])],
                "'-genv NAME VALUE' sets a variable, '-genvlist A,B' says which are inherited",
            ),
        ),
        row(
            &["--input", "-i"],
            1,
            Refused("'-s RANK', 'all' or 'none' says who reads standard input, and '< FILE' what"),
        ),
        row(&["--tmpdir"], 1, Ignored("no temporary files are made")),
        row(
            &["-mca", "--gmca", "--omca", "--prtemca", "--gprtemca", "--pmixmca", "--gpmixmca", "--oshmca"],
            2,
            Ignored(OF_OPEN_MPI),
        ),
        row(&["--am", "--tune"], 1, Ignored(OF_OPEN_MPI)),
        row(&["-check_mpi", "-check-mpi"], 0, Noted(&["--check"], "is '--check' here")),
        row(
            &["-trace", "-t", "-aps", "-mps"],
            0,
            Refused(
                "nothing is traced here; '--stats' counts, and a tool can stand before the program: '-n 4 TOOL PROGRAM'",
            ),
        ),
        row(
            &["-gtool", "-gtoolfile", "-strace", "-valgrind"],
            1,
            Refused(
                "a tool stands before the program here: '-n 4 TOOL PROGRAM'; for single processes, '-n 1 TOOL PROGRAM : -n 3 PROGRAM'",
            ),
        ),
        row(
            &["-rdma", "-RDMA", "-dapl", "-DAPL", "-ib", "-IB", "-mx", "-psm", "-psm2", "-ofi"],
            0,
            Refused("'--fabric verbs' asks for RDMA, '--fabric auto' (default) uses it where it is"),
        ),
        row(&["-tcp", "-TCP", "-sock"], 0, Means(&["--fabric", "sockets"])),
        row(&["-ilp64", "-v6", "-v4"], 0, Refused("is not known here")),
        // Output.
        row(&["--tag-output", "--label"], 0, Means(&["--prepend-rank"])),
        row(
            &["--output", "-o"],
            1,
            Choice(
                &[
                    ("tag", &["--prepend-rank"]),
                    ("rank", &["--prepend-rank"]),
                    ("tag-detailed", &["--prepend-pattern", "[%r %h] "]),
                ],
                "'tag' is known; '--outfile-pattern FILE.%r' writes the output of each process to a file",
            ),
        ),
        row(
            &["--error", "-e"],
            1,
            Refused("'--errfile-pattern FILE.%r' writes standard error of each process to a file"),
        ),
        row(
            &["--output-filename", "-outfile", "--output-directory"],
            1,
            Refused(
                "'--outfile-pattern FILE.%r' and '--errfile-pattern FILE.%r' write the output of each process to a file",
            ),
        ),
        row(&["--merge-stderr-to-stdout"], 0, Refused("'2>&1' behind the command does it")),
        row(&["--timestamp-output"], 0, Ignored("lines are not given the time")),
        row(
            &["--xml", "--xterm"],
            0,
            Refused("there is no such output; '-n 2 xterm -e PROGRAM' opens a window for each process"),
        ),
        row(&["--unbuffered", "-u", "-ordered-output"], 0, Nothing),
        row(&["-q", "--quiet", "-silent-abort"], 0, Ignored("only what goes wrong is said anyway")),
        row(
            &["--display"],
            1,
            Choice(
                &[
                    ("map", &["-v"]),
                    ("map-devel", &["-v"]),
                    ("allocation", &["-v"]),
                    ("alloc", &["-v"]),
                    ("bind", &["--report-bindings"]),
                    ("bindings", &["--report-bindings"]),
                ],
                "'-v' says what is started where, '--dry-run' draws it and starts nothing",
            ),
        ),
        row(
            &["--display-map", "--display-devel-map", "--display-allocation", "-print-rank-map"],
            0,
            Means(&["-v"]),
        ),
        row(&["--debug-daemons", "--debug-devel", "-d", "--leave-session-attached"], 0, Means(&["-v"])),
        row(&["-prot"], 0, Means(&["--stats"])),
        row(&["-profile"], 0, Means(&["--stats"])),
        // Ending.
        row(
            &[
                "-disable-auto-cleanup",
                "--enable-recovery",
                "--continuous",
                "-cleanup",
                "--with-ft",
                "--no-kill",
            ],
            0,
            Refused(OF_FAULTS),
        ),
        row(
            &[
                "--disable-recovery",
                "--abort-on-non-zero-status",
                "-enable-auto-cleanup",
                "-K",
                "--kill-on-bad-exit",
            ],
            0,
            Ignored("a process that fails after MPI_Init ends its job, one that never calls it does not"),
        ),
        row(
            &["-ckpointlib", "-ckpoint-prefix", "-ckpoint-num", "-ckpoint-interval"],
            1,
            Refused("jobs are not written to disk and taken up again here"),
        ),
        row(
            &["--get-stack-traces", "--report-state-on-timeout"],
            0,
            Ignored("a process that waits says for whom (BANYAN_WAIT_WARN)"),
        ),
        row(&["-gdb", "-tv", "--debug", "--debugger", "-ddt", "-idb"], 0, Refused(OF_DEBUGGER)),
        // The batch system's.
        row(
            &[
                "-p",
                "--partition",
                "-A",
                "--account",
                "--time",
                "--mem",
                "--mem-per-cpu",
                "-J",
                "--job-name",
                "--qos",
                "--constraint",
                "-C",
                "--reservation",
                "--gres",
                "--gpus",
                "-G",
            ],
            1,
            Refused(OF_BATCH),
        ),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::table;
    use std::collections::BTreeSet;

    #[test]
    fn no_option_is_ours_and_anothers() {
        for name in ROWS.iter().flat_map(|row| row.names) {
            assert!(table::find(bare(name)).is_none(), "{name}");
        }
    }

    #[test]
    fn what_they_mean_is_ours() {
        let choices = |does: Does| match does {
            Does::Means(words) | Does::Noted(words, _) => vec![words],
            Does::Choice(choices, _) => choices.iter().map(|(_, words)| *words).collect(),
            _ => Vec::new(),
        };
        for words in ROWS.iter().flat_map(|row| choices(row.does)).filter(|words| !words.is_empty()) {
            assert!(table::find(bare(words[0])).is_some(), "{words:?}");
        }
    }

    #[test]
    fn every_name_stands_in_one_row() {
        let mut seen = BTreeSet::new();
        for name in ROWS.iter().flat_map(|row| row.names) {
            assert!(seen.insert(bare(name)), "{name}");
        }
    }
}
