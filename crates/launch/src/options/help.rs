//! The text of `--help`.

use proto::env::{ReadBy, VARIABLES};

/// What `--help` prints.
pub(crate) fn help() -> String {
    let is_settable = |read_by| matches!(read_by, ReadBy::Library | ReadBy::Launcher);
    let variables = VARIABLES.iter().filter(|variable| is_settable(variable.read_by));
    let line = |variable: &proto::env::Variable| {
        wrapped(&format!("  {:<20} {}: {}", variable.name, variable.meaning, variable.values))
    };
    HELP.to_owned() + &variables.map(line).collect::<String>()
}

/// A line that is as long as it may be, and more of them below its text.
fn wrapped(line: &str) -> String {
    const WIDTH: usize = 119;
    const INDENT: usize = 23;
    let mut text = String::new();
    let mut column = 0;
    for (at, word) in line.split(' ').enumerate() {
        if at > 0 && column + 1 + word.len() > WIDTH {
            text += &format!("\n{:INDENT$}", "");
            column = INDENT;
        } else if at > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += word.len();
    }
    text + "\n"
}

const HELP: &str = "\
Usage: banyan run [options] program [arguments] [: [options] program [arguments]]...

Starts a parallel program: any MPI program of the MPICH family, or any other command.

Processes, and where they live:
  -n, -np N            number of processes (default 1, or as many as the hosts take); per program where several are
                       separated by ':'
  -ppn N               N processes on each node; without --nodes, as many nodes as that takes
  --nodes K            emulate K nodes on this host (default 1; no more than processes are used)
  --hosts LIST         hosts, such as n[01-64]:8,login (8 processes on each of the first 64 before the next is
                       used); if all are this one, they are emulated nodes; user@host enters it as that user;
                       an address of IPv6 stands in brackets before a number: [fe80::1%eth0]:4
  -f, --hostfile FILE  hosts from a file: 'host', 'host:2' or 'host slots=2' per line, '#' comments
  --map-by slot|node   consecutive processes share a node (default; also core, hwthread), or nodes take turns
  --bind-to WHAT       core or hwthread: a logical processor each, in turn; core:4 : four each; socket or numa: all
                       of a socket or near a memory each, in turn; user:0,2,... : these, in turn; none (default)
  -usize N             the universe size that processes are told: a number, 'system' or 'infinite' (default)
  --configfile FILE    options and programs from a file, one program per line, '#' comments
  --dry-run            print where everything would be started, and start nothing

Starting on other hosts (inside a Slurm, PBS, LSF or Grid Engine allocation its hosts are found):
  --bootstrap HOW      ssh (default for hosts), slurm (srun, default in its allocations), manual (prints a command
                       for each host and waits), fork (no other hosts)
  --launcher-exec CMD  any command that is used like ssh: CMD HOST COMMAND
  --agent-path PATH    where this program is on the other hosts (default: where it is here)
  --start-timeout S    seconds for other hosts to answer (default 30, 'manual' 0; 0 waits for ever)
  --degree K           agents that an agent starts (default: follows from hosts and cores)
  --max-links N        most links of an agent to others (default 128)
  --key-file FILE      'manual': where the job's key is written for the other hosts

Traffic of Banyan's library between hosts:
  --net IFACE|CIDR     the interface, or the network that it is in (default: where the other hosts are);
                       also for a job on one host that jobs on others are to meet by MPI_Open_port
  --fabric auto|soft|sockets|verbs[:DEVICE[:PORT[:GID]]]
                       what carries it: RDMA where both sides have it (default), nothing (there is but one host),
                       only sockets, or RDMA or an error
  --reg-cache BYTES    memory of the program that stays registered for RDMA (default 256M; 0: none)
  --port-range LOW-HIGH  listen only at these ports
  --net-timeout S      seconds until a host that does not answer cannot be reached (default 60; 0 waits for ever)
  --force-net          inside a host too
  --fault LIST         lose, double or reorder datagrams, for tests: loss=5%,dup=2%,reorder=5%,seed=7

Connections of Banyan's library:
  --connect HOW        when they are made: on-demand (as they are needed, the default), overlapped (the same, and both
                       sides make theirs at once), or everybody with everybody at the start: static-serial,
                       static-parallel (by :published or :batched numbers, if said so), rank-by-rank; or auto (by
                       what --pattern foretells, and what there is room for; '--stats' says what it was, and why)
  --connect-threads N  threads that make them at the start (default: as many as a process has cores; by turns,
                       its node)
  --xrc on|off|auto    one connection of a process for all processes of another node: always, never (default), or where
                       a process has more peers on other nodes than it may have connections
  --device LIST        shared memory costs what another device does: create=367us,ready=105us,lanes=8,gap=100
  --qp-budget N        at most N connections of a process at any moment (from 2); others are closed for new ones
  --conn-memory BYTES  memory of a process for larger buffers of its connections, such as 4M
  --qp-max N           queue pairs that a node's device has, for all its processes (default 131072)
  --pattern FILE       record who talks to whom, and connect ahead of use by what an earlier job has recorded there,
                       also for another number of processes; '--stats' says what was used of it

Programs and what they get:
  -wdir DIR            working folder; behind a ':' of that program only
  -path DIRS           search programs here first; behind a ':' that program only
  -genv NAME VALUE     set a variable for all processes
  -x NAME[=VALUE]      the same; without a value, pass on the one here
  -genvlist A,B        inherit only these variables
  -genvnone, -genvall  inherit no variables, or all (default)
  -env NAME VALUE      set a variable for the processes of this program
  -envlist, -envnone, -envall  what the processes of this program inherit
  -s RANK|all|none     who reads standard input (default 0)
  --board KIND         how keys that processes put travel: hcs, hcma, hcmab or hcmab-lru (default)
  --pmi-value-max N    longest value of a key, with a zero behind it (default 1024; more saves messages, but
                       programs built with MPICH before 3.4 or MVAPICH2 cannot take it)
  --pmgr               also serve PMGR, the start-up protocol of MVAPICH's mpirun_rsh, over TCP
  --wait HOW           how the library waits for messages: 'auto' (default: looks for them, lets others run, sleeps
                       in the end), 'poll' (never sleeps; lets others run in between, so that more processes than
                       cores go on), 'spin-block' (looks a hundred times, then sleeps) or 'sleep' (at once)
  --coll HOW           'auto' (default): collectives between hosts in two levels, so that one process of each host
                       crosses, and large ones of one host in memory; 'nodes': in two levels between emulated
                       nodes too; 'flat': by the published algorithms only, with messages
  --rma HOW            in which order operations on windows leave for other nodes: 'auto' (default), 'issue' (as the
                       program calls them), 'interleave', 'gets-first' or 'aggregate'; the info key banyan_rma of a
                       window comes first
  --check[=strict]     Banyan's library looks for mistakes of the program: collectives that do not fit each other,
                       datatypes that do not fit a message, and what is left at the end (objects never freed, requests
                       never completed, messages never received), which 'strict' makes a failure

Output:
  -l, --prepend-rank   begin every line of output with '[rank] '
  --prepend-pattern P  begin every line of output with P: %r is the rank, %h the host, %p the node's number, %g the
                       group (0, or the number of a spawned job; also %w), %% a '%'
  --outfile-pattern P  write the output of processes to files of such names
  --errfile-pattern P  the same for standard error
  -v, --verbose        say what is started where
  --stats[=json]       print at the end what connecting has cost, as a table or as one JSON object
  --stats=matrix       print who was connected to whom, and how; 'table,matrix' and 'json,matrix' print both
  --stats-file FILE    print it to FILE instead of standard error
  --help-stats         the names of what is counted

Lines of different processes do not mix. One that is not ended, such as a prompt, is shown after 0.1 s on a terminal or
with labels (who speaks next begins a new line), and elsewhere if its process reads standard input that is no file, or
is the only one. Nothing is ever inserted into output without labels that goes to a file or a pipe.

Ending:
  --timeout SECONDS    end the job if it takes longer
  --kill-grace MS      milliseconds between asking processes to end and killing them (default 200), and for
                       others to end by themselves when one has ended badly but of its own accord
  --heartbeat SECONDS  silence of an agent after which it counts as dead (default 20; 0 never)
  -h, --help           this text
  --version            the version

Long options may be written with one dash or two, and as '--name value' or '--name=value'.
Other names: --host for --hosts, --machinefile for --hostfile, --launcher for --bootstrap, --bootstrap-exec for
--launcher-exec; -gwdir and -gpath for -wdir and -path of all.

Exit code: the largest of the processes' exit codes; 128 + signal for a process killed by a signal; the code
given to MPI_Abort (its low 8 bits, never 0); 130 after ctrl-C; 124 after a time-out; 127 if the program was
not found, 126 if it cannot be executed; 2 for a wrong command line. A process that fails after MPI_Init ends
the job.

In the environment, MPIEXEC_TIMEOUT and HYDRA_HOST_FILE stand for --timeout and --hostfile where those are not given,
and these stand for options or set what no option does:
";
