//! The options of `banyan run`: the one table from which the parser, help, completion and manual pages take them.
use super::entry::{Entry, Scope, Section, Takes};
use proto::env::{COLLS, WAITS, XRCS};

/// All options, in the order of help.
pub static SECTIONS: [Section; 7] = [
    Section { title: "Processes, and where they live", entries: PLACES, note: "" },
    Section {
        title: "Starting on other hosts (inside a Slurm, PBS, LSF or Grid Engine allocation its hosts are found)",
        entries: HOSTS,
        note: "",
    },
    Section { title: "Traffic of Banyan's library between hosts", entries: TRAFFIC, note: "" },
    Section { title: "Connections of Banyan's library", entries: CONNECTIONS, note: "" },
    Section { title: "Programs and what they get", entries: PROGRAMS, note: "" },
    Section { title: "Output", entries: OUTPUT, note: LINES },
    Section { title: "Ending, and not going on", entries: ENDING, note: HANGS },
];

/// The entry of an option by any of its names, without dashes.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.all_names().any(|known| super::entry::bare(known) == name))
}

/// All entries.
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    SECTIONS.iter().flat_map(|section| section.entries)
}

const PLACES: &[Entry] = &[
    Entry::new(
        &["-n", "-np"],
        "N",
        Takes::Value,
        "number of processes (default 1, or as many as the hosts take); per program where several are separated by \
         ':'",
    )
    .at(Scope::Program),
    Entry::new(
        &["-ppn"],
        "N",
        Takes::Value,
        "N processes on each node; without --nodes, as many nodes as that takes",
    ),
    Entry::new(
        &["--nodes"],
        "K",
        Takes::Value,
        "emulate K nodes on this host (default 1; no more than processes are used)",
    ),
    Entry::new(
        &["--hosts"],
        "LIST",
        Takes::Value,
        "hosts, such as n[01-64]:8,login (8 processes on each of the first 64 before the next is used); if all are \
         this one, they are emulated nodes; user@host enters it as that user; an address of IPv6 stands in brackets \
         before a number: [fe80::1%eth0]:4",
    )
    .also(&["--host"]),
    Entry::new(
        &["-f", "--hostfile"],
        "FILE",
        Takes::File,
        "hosts from a file: 'host', 'host:2' or 'host slots=2' per line, '#' comments",
    )
    .also(&["--machinefile"]),
    Entry::new(
        &["--map-by"],
        "slot|node",
        Takes::Word(&["slot", "node", "core", "hwthread", "socket", "numa", "ppr:"]),
        "consecutive processes share a node (default; also core, hwthread, socket, numa), or nodes take turns; \
         ppr:N:node is -ppn N, and ':PE=N' behind it is --bind-to core:N",
    ),
    Entry::new(
        &["--bind-to"],
        "WHAT",
        Takes::Word(&["core", "core:", "hwthread", "socket", "numa", "user:", "none"]),
        "core or hwthread: a logical processor each, in turn; core:4 : four each; socket or numa: all of a socket or \
         near a memory each, in turn; user:0,2,... : these, in turn; none (default)",
    ),
    Entry::new(
        &["--report-bindings"],
        "",
        Takes::Nothing,
        "say which processors each process may use ('-v' does, too)",
    ),
    Entry::new(
        &["-usize"],
        "N",
        Takes::Word(&["system", "infinite"]),
        "the universe size that processes are told: a number, 'system' or 'infinite' (default)",
    ),
    Entry::new(
        &["--configfile"],
        "FILE",
        Takes::File,
        "options and programs from a file, one program per line, '#' comments",
    ),
    Entry::new(
        &["--dry-run"],
        "[=json]",
        Takes::Maybe(&["json"]),
        "print where everything would be started, as a picture or as one JSON object, and start nothing",
    ),
];

const HOSTS: &[Entry] = &[
    Entry::new(
        &["--bootstrap"],
        "HOW",
        Takes::Word(&["ssh", "slurm", "manual", "fork"]),
        "ssh (default for hosts), slurm (srun, default in its allocations), manual (prints a command for each host \
         and waits), fork (no other hosts)",
    )
    .also(&["--launcher"]),
    Entry::new(&["--launcher-exec"], "CMD", Takes::Value, "any command that is used like ssh: CMD HOST COMMAND")
        .also(&["--bootstrap-exec"]),
    Entry::new(
        &["--agent-path"],
        "PATH",
        Takes::File,
        "where this program is on the other hosts (default: where it is here)",
    ),
    Entry::new(
        &["--start-timeout"],
        "S",
        Takes::Value,
        "seconds for other hosts, and data servers, to answer (default 30, 'manual' 0; 0: no limit)",
    ),
    Entry::new(
        &["--degree"],
        "K",
        Takes::Value,
        "agents that an agent starts (default: follows from hosts and cores)",
    ),
    Entry::new(&["--max-links"], "N", Takes::Value, "most links of an agent to others (default 128)"),
    Entry::new(
        &["--key-file"],
        "FILE",
        Takes::File,
        "'manual': where the job's key is written for the other hosts",
    ),
];

const TRAFFIC: &[Entry] = &[
    Entry::new(
        &["--net"],
        "IFACE|CIDR",
        Takes::Value,
        "the interface, or the network that it is in (default: where the other hosts are); also for a job on one \
         host that jobs on others are to meet by MPI_Open_port",
    ),
    Entry::new(
        &["--fabric"],
        "auto|soft|sockets|verbs[:DEVICE[:PORT[:GID]]]",
        Takes::Word(&["auto", "soft", "sockets", "verbs"]),
        "what carries it: RDMA where both sides have it (default), nothing (there is but one host), only sockets, or \
         RDMA or an error",
    ),
    Entry::new(
        &["--reg-cache"],
        "BYTES",
        Takes::Value,
        "memory of the program that stays registered for RDMA (default 256M; 0: none)",
    ),
    Entry::new(
        &["--rdma-timeout"],
        "S",
        Takes::Value,
        "seconds until an RDMA device sends again what is not answered (default 1); a peer that has not answered after \
         seven times that is lost",
    ),
    Entry::new(&["--port-range"], "LOW-HIGH", Takes::Value, "listen only at these ports"),
    Entry::new(
        &["--net-timeout"],
        "S",
        Takes::Value,
        "seconds until a host that does not answer cannot be reached (default 60; 0: no limit)",
    ),
    Entry::new(&["--force-net"], "", Takes::Nothing, "inside a host too"),
    Entry::new(
        &["--fault"],
        "LIST",
        Takes::Value,
        "lose, double or reorder datagrams, for tests: loss=5%,dup=2%,reorder=5%,seed=7",
    ),
];

const CONNECTIONS: &[Entry] = &[
    Entry::new(
        &["--connect"],
        "HOW",
        Takes::Word(&proto::wireup::auto::Asked::NAMES),
        "when they are made: on-demand (as they are needed, the default), overlapped (the same, and both sides make \
         theirs at once), or everybody with everybody at the start: static-serial, static-parallel (by :published or \
         :batched numbers, if said so), rank-by-rank; or auto (by what --pattern predicts, and what there is room \
         for; '--stats' says what it was, and why)",
    ),
    Entry::new(
        &["--connect-threads"],
        "N",
        Takes::Value,
        "threads that make them at the start (default: as many as a process has cores; by turns, its node)",
    ),
    Entry::new(
        &["--xrc"],
        "on|off|auto",
        Takes::Word(&XRCS),
        "one connection of a process for all processes of another node: always, never (default), or where a process \
         has more peers on other nodes than it may have connections",
    ),
    Entry::new(
        &["--device"],
        "LIST",
        Takes::Value,
        "shared memory costs what another device does: create=367us,ready=105us,lanes=8,gap=100",
    ),
    Entry::new(
        &["--qp-budget"],
        "N",
        Takes::Value,
        "at most N connections of a process at any moment (from 2); others are closed for new ones",
    ),
    Entry::new(
        &["--conn-memory"],
        "BYTES",
        Takes::Value,
        "memory of a process for larger buffers of its connections, such as 4M",
    ),
    Entry::new(
        &["--qp-max"],
        "N",
        Takes::Value,
        "queue pairs that a node's device has, for all its processes (default 131072)",
    ),
    Entry::new(
        &["--pattern"],
        "FILE",
        Takes::File,
        "record who talks to whom, and connect ahead of use by what an earlier job has recorded there, also for \
         another number of processes; '--stats' says what was used of it",
    ),
];

const PROGRAMS: &[Entry] = &[
    Entry::new(&["-wdir"], "DIR", Takes::Folder, "working folder; behind a ':' of that program only")
        .also(&["-wd", "-dir"])
        .at(Scope::Either),
    Entry::new(
        &["-path"],
        "DIRS",
        Takes::Folder,
        "search programs here first; behind a ':' that program only",
    )
    .at(Scope::Either),
    Entry::new(&["-gwdir"], "DIR", Takes::Folder, "working folder of all programs"),
    Entry::new(&["-gpath"], "DIRS", Takes::Folder, "search all programs here first"),
    Entry::new(&["-genv"], "NAME VALUE", Takes::Pair, "set a variable for all processes, wherever it stands")
        .at(Scope::Anywhere),
    Entry::new(&["-x"], "NAME[=VALUE]", Takes::Value, "the same; without a value, pass on the one here")
        .at(Scope::Anywhere),
    Entry::new(&["-genvlist"], "A,B", Takes::Value, "inherit only these variables").at(Scope::Anywhere),
    Entry::new(&["-genvnone"], "", Takes::Nothing, "inherit no variables").at(Scope::Anywhere),
    Entry::new(&["-genvall"], "", Takes::Nothing, "inherit all variables (default)").at(Scope::Anywhere),
    Entry::new(&["-env"], "NAME VALUE", Takes::Pair, "set a variable for the processes of this program")
        .at(Scope::Program),
    Entry::new(
        &["-envlist"],
        "A,B",
        Takes::Value,
        "the processes of this program inherit only these variables",
    )
    .at(Scope::Program),
    Entry::new(&["-envnone"], "", Takes::Nothing, "the processes of this program inherit no variables")
        .at(Scope::Program),
    Entry::new(&["-envall"], "", Takes::Nothing, "the processes of this program inherit all variables")
        .at(Scope::Program),
    Entry::new(
        &["-s"],
        "RANK|all|none",
        Takes::Word(&["all", "none", "0"]),
        "who reads standard input (default 0)",
    )
    .also(&["--stdin"]),
    Entry::new(
        &["--board"],
        "KIND",
        Takes::Word(&["hcs", "hcma", "hcmab", "hcmab-lru"]),
        "how keys that processes put travel: hcs, hcma, hcmab or hcmab-lru (default)",
    ),
    Entry::new(
        &["--pmi-value-max"],
        "N",
        Takes::Value,
        "longest value of a key, with a zero behind it (default 1024; more saves messages, but programs built with \
         MPICH before 3.4 or MVAPICH2 cannot take it)",
    ),
    Entry::new(
        &["--pmgr"],
        "",
        Takes::Nothing,
        "also serve PMGR, the start-up protocol of MVAPICH's mpirun_rsh, over TCP",
    ),
    Entry::new(
        &["--wait"],
        "HOW",
        Takes::Word(&WAITS),
        "how the library waits for messages: 'auto' (default: looks for them, lets others run, sleeps in the end), \
         'poll' (never sleeps; lets others run in between, so that more processes than cores go on), 'spin-block' \
         (looks a hundred times, then sleeps) or 'sleep' (at once)",
    ),
    Entry::new(
        &["--coll"],
        "HOW",
        Takes::Word(&COLLS),
        "'auto' (default): collectives between hosts in two levels, so that one process of each host crosses, and \
         large ones of one host in memory; 'nodes': in two levels between emulated nodes too; 'flat': by the \
         published algorithms only, with messages",
    ),
    Entry::new(
        &["--data-server"],
        "",
        Takes::Nothing,
        "a process of each node does what other nodes ask of windows that the library has allocated \
         (MPI_Win_allocate), while the node's ranks compute; it sleeps when nobody asks",
    ),
    Entry::new(
        &["--rma"],
        "HOW",
        Takes::Word(&proto::rma::Policy::NAMES),
        "in which order operations on windows leave for other nodes: 'auto' (default), 'issue' (as the program calls \
         them), 'interleave', 'gets-first' or 'aggregate'; the info key banyan_rma of a window comes first",
    ),
    Entry::new(
        &["--check"],
        "[=strict]",
        Takes::Maybe(&["on", "off", "strict"]),
        "Banyan's library looks for mistakes of the program: collectives that do not fit each other, datatypes that \
         do not fit a message, and what is left at the end (objects never freed, requests never completed, messages \
         never received), which 'strict' makes a failure",
    ),
];

const OUTPUT: &[Entry] = &[
    Entry::new(&["-l", "--prepend-rank"], "", Takes::Nothing, "begin every line of output with '[rank] '"),
    Entry::new(
        &["--prepend-pattern"],
        "P",
        Takes::Value,
        "begin every line of output with P: %r is the rank, %h the host, %p the node's number, %g the group (0, or \
         the number of a spawned job; also %w), %% a '%'",
    ),
    Entry::new(
        &["--outfile-pattern"],
        "P",
        Takes::Value,
        "write the output of processes to files of such names",
    ),
    Entry::new(&["--errfile-pattern"], "P", Takes::Value, "the same for standard error"),
    Entry::new(
        &["-v", "--verbose"],
        "",
        Takes::Nothing,
        "say what is started where, and which processors each process may use",
    ),
    Entry::new(
        &["--print-all-exitcodes"],
        "",
        Takes::Nothing,
        "say at the end with which code, or by which signal, each process ended",
    ),
    Entry::new(
        &["--stats"],
        "[=json]",
        Takes::Maybe(&["table", "json", "matrix", "table,matrix", "json,matrix"]),
        "print at the end what connecting has cost, as a table or as one JSON object; '=matrix' prints who was \
         connected to whom, and how; '=table,matrix' and '=json,matrix' print both",
    ),
    Entry::new(&["--stats-file"], "FILE", Takes::File, "print it to FILE instead of standard error"),
    Entry::new(
        &["--report"],
        "FILE.html",
        Takes::File,
        "write a page for a browser: start-up by phase, who was connected to whom and how much went between them, a \
         table of ranks; also when the job fails",
    ),
    Entry::new(&["--help-stats"], "", Takes::Nothing, "the names of what is counted").at(Scope::Anywhere),
];

/// Behind the options of output.
const LINES: &str = "\
Lines of different processes do not mix. One that is not ended, such as a prompt, is shown after 0.1 s on a terminal or \
with labels (who speaks next begins a new line), and elsewhere if its process reads standard input that is no file, or \
is the only one. Nothing is ever inserted into output without labels that goes to a file or a pipe.";

/// Behind the options of ending.
const HANGS: &str = "\
A job that does not go on says why: SIGQUIT (ctrl-\\ at a terminal) has all ranks say in which call of MPI they are and \
for whom they wait, and so does 'banyan ps'; by themselves they do so after BANYAN_WAIT_WARN seconds. The job goes on.";

const ENDING: &[Entry] = &[
    Entry::new(&["--timeout"], "SECONDS", Takes::Value, "end the job if it takes longer"),
    Entry::new(
        &["--kill-grace"],
        "MS",
        Takes::Value,
        "milliseconds between asking processes to end and killing them (default 200), and for others to end by \
         themselves when one has failed without being killed",
    ),
    Entry::new(
        &["--heartbeat"],
        "SECONDS",
        Takes::Value,
        "silence of an agent after which it counts as dead (default 20; 0 never)",
    ),
    Entry::new(&["-h", "--help"], "", Takes::Nothing, "this text").at(Scope::Anywhere),
    Entry::new(&["--info"], "", Takes::Nothing, "the version, and what this launcher can do")
        .at(Scope::Anywhere),
    Entry::new(&["--version"], "", Takes::Nothing, "the version").also(&["-V"]).at(Scope::Anywhere),
];
