//! What is drawn by chance: the job, the event, its moment and its victims.
use crate::common::{Chance, Process, wait_until};
use crate::watch::Watched;
use std::fmt;
use std::time::Duration;
use sys::process::{Pid, Target, kill};
use sys::signal::{SIGCONT, SIGKILL, SIGSTOP, SIGTERM};

/// Fewest and most ranks of a job.
const RANKS_MIN: u64 = 16;
const RANKS_MAX: u64 = 256;
const NODES_MAX: u64 = 16;
/// Ranks that spin are few: the machine is needed for other things.
const SPINNERS_MAX: u32 = 16;
/// Longest a process is stopped for.
const STOP_MS_MAX: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    KillRank,
    KillAgent,
    KillWarden,
    KillLauncher,
    KillLauncherAndAgents,
    KillLauncherAndOneAgent,
    KillHalf,
    /// A rank is stopped and goes on: no failure.
    StopRank,
    /// A rank is stopped, and the job ended meanwhile.
    StopRankAndEnd,
    /// The launcher is stopped and goes on: no failure.
    StopLauncher,
    /// An agent is stopped, and never goes on.
    StopAgent,
    /// An agent is stopped, and the job ended meanwhile.
    StopAgentAndEnd,
    /// The warden is stopped, and never goes on; ranks end by themselves.
    StopWarden,
    /// The warden is stopped, and the launcher killed.
    StopWardenKillLauncher,
    KillServer,
    /// A data server is stopped and goes on: no failure.
    StopServer,
    /// A data server is stopped, and the job ended meanwhile.
    StopServerAndEnd,
}

/// Drawn as often as they are listed.
const EVENTS: [Event; 30] = [
    Event::KillRank,
    Event::KillRank,
    Event::KillRank,
    Event::KillRank,
    Event::KillAgent,
    Event::KillAgent,
    Event::KillAgent,
    Event::KillWarden,
    Event::KillWarden,
    Event::KillLauncher,
    Event::KillLauncher,
    Event::KillLauncher,
    Event::KillLauncherAndAgents,
    Event::KillLauncherAndAgents,
    Event::KillLauncherAndOneAgent,
    Event::KillLauncherAndOneAgent,
    Event::KillHalf,
    Event::KillHalf,
    Event::StopRank,
    Event::StopRank,
    Event::StopRankAndEnd,
    Event::StopLauncher,
    Event::StopAgent,
    Event::StopAgentAndEnd,
    Event::StopWarden,
    Event::StopWardenKillLauncher,
    Event::KillServer,
    Event::KillServer,
    Event::StopServer,
    Event::StopServerAndEnd,
];

impl Event {
    /// Does it kill what it hits?
    pub fn kills(self) -> bool {
        !matches!(
            self,
            Event::StopRank
                | Event::StopRankAndEnd
                | Event::StopLauncher
                | Event::StopAgent
                | Event::StopAgentAndEnd
                | Event::StopWarden
                | Event::StopServer
                | Event::StopServerAndEnd
        )
    }

    /// Does the job go on as if nothing had happened?
    pub fn is_harmless(self) -> bool {
        matches!(self, Event::StopRank | Event::StopLauncher | Event::StopWarden | Event::StopServer)
    }

    /// Is it a data server that is hit?
    fn hits_server(self) -> bool {
        matches!(self, Event::KillServer | Event::StopServer | Event::StopServerAndEnd)
    }
}

/// Ranks that run for long: plain, behind a shell, spinning, leaving a child in another session or a grandchild,
/// deaf to polite signals, speaking PMI-1 on descriptor 3 (this one leaves a file where and as MPI libraries do), and
/// spawning another job (and failing if that fails: one of those was killed before it was there).
const PROGRAMS: [&str; 8] = [
    "exec sleep 600",
    "sleep 600; true",
    "while :; do :; done",
    "setsid sleep 600 & sleep 600; true",
    "(sleep 600 &); (setsid sleep 600 & sleep 600 &) & sleep 600; true",
    "trap '' TERM INT HUP; sleep 600 & while :; do wait; done",
    "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read answer <&3; \
     : > /dev/shm/mpich_shm_banyan-test-$BANYAN_TEST_MARK-$$; \
     echo cmd=barrier_in >&3; read answer <&3; sleep 600; true",
    "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read answer <&3; \
     test $PMI_RANK = 0 && printf 'mcmd=spawn\\nnprocs=9\\nexecname=sh\\ntotspawns=1\\nspawnssofar=1\\n\
     argcnt=2\\narg1=-c\\narg2=echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read answer <&3; exec sleep 600\\n\
     preput_num=0\\ninfo_num=0\\nendcmd\\n' >&3 && read answer <&3; \
     case $answer in *rc=-1*) echo $answer >&2; exit 1;; esac; sleep 600; true",
];
const SPINNER: usize = 2;
/// Ranks that end soon, by themselves.
const SHORT_PROGRAMS: [&str; 2] = ["sleep 0.4; true", "exec sleep 0.4"];

/// One job and what happens to it.
#[derive(Debug)]
pub struct Plan {
    round: u64,
    pub event: Event,
    pub ranks: u32,
    nodes: u32,
    program: Vec<String>,
    pub delay: Duration,
    stop_for: Duration,
}

impl Plan {
    pub fn draw(round: u64, chance: &mut Chance) -> Self {
        let event = *chance.pick(&EVENTS);
        let most = setting("BANYAN_KILL_RANKS", RANKS_MAX).max(1);
        let least = RANKS_MIN.min(most);
        // Small jobs more often than large ones, all sizes now and then.
        let top = least + chance.below(most - least + 1);
        let mut ranks = (least + chance.below(top - least + 1)) as u32;
        let nodes = 1 + chance.below(NODES_MAX.min(u64::from(ranks))) as u32;
        let shell = |text: &str| vec!["sh".into(), "-c".into(), text.into()];
        let program = if event.is_harmless() {
            shell(SHORT_PROGRAMS[chance.below(SHORT_PROGRAMS.len() as u64) as usize])
        } else if let Some(given) = given_program(chance) {
            given
        } else {
            let kind = chance.below(PROGRAMS.len() as u64) as usize;
            ranks = if kind == SPINNER { ranks.min(SPINNERS_MAX) } else { ranks };
            shell(PROGRAMS[kind])
        };
        let delay_max_us = if round.is_multiple_of(2) { 50_000 } else { 300_000 };
        let delay = Duration::from_micros(chance.below(delay_max_us));
        let stop_for = Duration::from_millis(chance.below(STOP_MS_MAX));
        Plan { round, event, ranks, nodes: nodes.min(ranks), program, delay, stop_for }
    }

    pub fn args(&self) -> Vec<String> {
        let words = ["-n", &self.ranks.to_string(), "--nodes", &self.nodes.to_string(), "--kill-grace", "50"];
        let mut args: Vec<String> = words.map(String::from).to_vec();
        if !self.event.kills() {
            args.extend(["--heartbeat", "1"].map(String::from));
        }
        // Some of the others have servers as well.
        if self.event.hits_server() || self.round.is_multiple_of(5) {
            args.push("--data-server".into());
        }
        if self.event == Event::StopAgent {
            args.push("-v".into());
        }
        args.extend(self.program.iter().cloned());
        args
    }

    pub fn is_early(&self) -> bool {
        self.delay < Duration::from_millis(50)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { round, event, ranks, nodes, program, delay, .. } = self;
        write!(f, "event {round}: {event:?} after {delay:?}, {ranks} ranks on {nodes} nodes: {program:?}")
    }
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Now and then the program in `BANYAN_KILL_PROGRAM`, alone or behind a shell.
fn given_program(chance: &mut Chance) -> Option<Vec<String>> {
    let program = std::env::var("BANYAN_KILL_PROGRAM").ok()?;
    match chance.below(4) {
        0 => Some(vec![program]),
        1 => Some(vec!["sh".into(), "-c".into(), format!("{program}; true")]),
        _ => None,
    }
}

/// Who was hit.
#[derive(Debug)]
pub struct Hit {
    pub victims: Vec<Process>,
    /// Processes of ranks whose child was hit: a shell whose command is killed may end by itself before anything else does.
    pub bereaved: Vec<i32>,
    /// Was the launcher the only process of its job?
    pub alone: bool,
    /// Is somebody left who can say what happened? If launcher, warden and all agents are killed in one instant, what
    /// they know dies with them.
    pub can_be_told: bool,
    launcher: i32,
}

impl Hit {
    pub fn pids(&self) -> Vec<i32> {
        self.victims.iter().map(|process| process.pid).collect()
    }

    pub fn has_launcher(&self) -> bool {
        self.pids().contains(&self.launcher)
    }
}

/// The processes of a job by what they are.
struct Cast {
    launcher: Vec<Process>,
    warden: Vec<Process>,
    agents: Vec<Process>,
    ranks: Vec<Process>,
    servers: Vec<Process>,
    all: Vec<Process>,
}

impl Cast {
    fn of(job: &Watched) -> Self {
        let all = job.processes();
        let named = |name: &str| all.iter().filter(|p| p.name == name).cloned().collect::<Vec<_>>();
        let (warden, agents) = (named("banyan-warden"), named("banyan-agent"));
        let servers = named(banyan_launch::SERVER_NAME);
        let is_agent = |pid: i32| agents.iter().any(|agent| agent.pid == pid);
        // What a rank put into a session of its own comes to the agent when its parent ends.
        let is_rank =
            |p: &&Process| is_agent(p.parent) && !is_agent(p.pid) && p.group == p.pid && p.session != p.pid;
        let is_rank = |p: &&Process| is_rank(p) && servers.iter().all(|server| server.pid != p.pid);
        let ranks = all.iter().filter(is_rank).cloned().collect();
        let launcher = all.iter().filter(|p| p.pid == job.launcher()).cloned().collect();
        Cast { launcher, warden, agents, ranks, servers, all }
    }

    /// A process that is to be stopped for good must exist; what is killed may be anything that exists.
    fn when_ready(event: Event, job: &mut Watched) -> Self {
        let is_ready = |cast: &Cast| match event {
            Event::StopAgent | Event::StopAgentAndEnd => !cast.agents.is_empty(),
            // Without the first agent there is no job that could end well.
            Event::StopWarden => !cast.warden.is_empty() && !cast.agents.is_empty(),
            Event::StopWardenKillLauncher => !cast.warden.is_empty(),
            Event::KillServer | Event::StopServer | Event::StopServerAndEnd => !cast.servers.is_empty(),
            _ => true,
        };
        let mut cast = Cast::of(job);
        wait_until("a process to stop", || {
            if event == Event::StopAgent {
                // A rank that has not executed its program yet looks like an agent, but may be stopped for ever.
                let told = job.told_agents();
                cast.agents.retain(|agent| told.contains(&agent.pid));
            }
            // A short job may be over.
            let ready = is_ready(&cast) || cast.all.is_empty();
            if !ready {
                cast = Cast::of(job);
            }
            ready
        });
        cast
    }

    /// One of these, or if there are none yet, the launcher.
    fn one(&self, from: &[Process], chance: &mut Chance) -> Vec<Process> {
        if from.is_empty() { self.launcher.clone() } else { vec![chance.pick(from).clone()] }
    }

    /// Is a launcher, a warden or an agent left after these are killed? A rank that has not executed its program yet has
    /// the name of an agent: only one with children, or below the warden, is certainly one.
    fn can_speak_without(&self, victims: &[Process]) -> bool {
        let has_children = |agent: &Process| self.all.iter().any(|process| process.parent == agent.pid);
        let is_root = |agent: &Process| self.warden.iter().any(|warden| agent.parent == warden.pid);
        let agents = self.agents.iter().filter(|agent| has_children(agent) || is_root(agent));
        let mut speakers = self.launcher.iter().chain(&self.warden).chain(agents);
        speakers.any(|speaker| victims.iter().all(|victim| victim.pid != speaker.pid))
    }

    /// The parents of these, but for launcher, warden and agents.
    fn bereaved_by(&self, victims: &[Process]) -> Vec<i32> {
        let family = |pid: i32| {
            self.launcher.iter().chain(&self.warden).chain(&self.agents).any(|process| process.pid == pid)
        };
        victims.iter().map(|victim| victim.parent).filter(|parent| !family(*parent)).collect()
    }

    /// Half of all, but somebody of the launcher's family is left to clean up.
    fn half(&self, chance: &mut Chance) -> Vec<Process> {
        let family: Vec<i32> =
            self.launcher.iter().chain(&self.warden).chain(&self.agents).map(|p| p.pid).collect();
        let spared = if family.len() > 1 { Some(*chance.pick(&family)) } else { None };
        let drawn: Vec<Process> = self.all.iter().filter(|_| chance.below(2) == 0).cloned().collect();
        let drawn: Vec<Process> = drawn.into_iter().filter(|p| Some(p.pid) != spared).collect();
        if drawn.is_empty() { self.launcher.clone() } else { drawn }
    }
}

/// Does to the job what the plan says, to the processes that exist.
pub fn strike(plan: &Plan, job: &mut Watched, chance: &mut Chance) -> Hit {
    let cast = Cast::when_ready(plan.event, job);
    let victims = match plan.event {
        Event::KillRank | Event::StopRank | Event::StopRankAndEnd => cast.one(&cast.ranks, chance),
        Event::KillAgent | Event::StopAgent | Event::StopAgentAndEnd => cast.one(&cast.agents, chance),
        Event::KillServer | Event::StopServer | Event::StopServerAndEnd => cast.one(&cast.servers, chance),
        Event::KillWarden | Event::StopWarden | Event::StopWardenKillLauncher => {
            cast.one(&cast.warden, chance)
        }
        Event::KillLauncher | Event::StopLauncher => cast.launcher.clone(),
        Event::KillLauncherAndAgents => [cast.launcher.clone(), cast.agents.clone()].concat(),
        Event::KillLauncherAndOneAgent => [cast.launcher.clone(), cast.one(&cast.agents, chance)].concat(),
        Event::KillHalf => cast.half(chance),
    };
    let can_be_told = !plan.event.kills() || cast.can_speak_without(&victims);
    let bereaved = cast.bereaved_by(&victims);
    let mut hit =
        Hit { victims, bereaved, alone: cast.all.len() == 1, can_be_told, launcher: job.launcher() };
    match plan.event {
        Event::StopRank | Event::StopLauncher | Event::StopServer => {
            send(&hit.pids(), SIGSTOP);
            std::thread::sleep(plan.stop_for);
            send(&hit.pids(), SIGCONT);
        }
        Event::StopRankAndEnd | Event::StopAgentAndEnd | Event::StopServerAndEnd => {
            send(&hit.pids(), SIGSTOP);
            send(&[hit.launcher], SIGTERM);
            send(&[hit.launcher], SIGCONT); // there may have been no rank yet
        }
        Event::StopAgent | Event::StopWarden => send(&hit.pids(), SIGSTOP),
        Event::StopWardenKillLauncher => {
            send(&hit.pids(), SIGSTOP);
            send(&[hit.launcher], SIGKILL);
            hit.victims = cast.launcher;
        }
        _ => send(&hit.pids(), SIGKILL), // all in one go
    }
    hit
}

fn send(pids: &[i32], signal: i32) {
    for pid in pids {
        let _ = kill(Target::Process(Pid(*pid)), signal);
    }
}
