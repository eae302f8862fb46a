//! Whatever is killed, whenever: nothing is left, and what died is named.
mod common;

use common::{Chance, Job, Process, kill, processes, start, wait_until};
use std::time::{Duration, Instant};

/// Kills unless `BANYAN_KILLS` says otherwise.
const KILLS_DEFAULT: u64 = 20;
/// Most ranks of a job unless `BANYAN_KILL_RANKS` says otherwise.
const RANKS_DEFAULT: u64 = 8;
/// Clean-up beyond this counts as a failure.
const CLEAN_UP_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Rank,
    Agent,
    Launcher,
    Warden,
    LauncherAndAgents,
    LauncherAndOneAgent,
}

/// Was the launcher the only process of its job when it was struck?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    Alone,
    Others,
}

const VICTIMS: [Victim; 6] = [
    Victim::Rank,
    Victim::Agent,
    Victim::Launcher,
    Victim::Warden,
    Victim::LauncherAndAgents,
    Victim::LauncherAndOneAgent,
];

/// Programs that would run for long: plain, behind a shell, spinning, and leaving a child in another session.
const PROGRAMS: [&[&str]; 4] = [
    &["sleep", "600"],
    &["sh", "-c", "sleep 600; true"],
    &["sh", "-c", "while :; do :; done"],
    &["sh", "-c", "setsid sleep 600 & sleep 600; true"],
];

#[test]
fn random_kills_leave_nothing_and_are_named() {
    let mut chance = Chance::seeded();
    let kills =
        std::env::var("BANYAN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS_DEFAULT);
    let mut times: Vec<Duration> = (0..kills).map(|round| one_kill(round, &mut chance)).collect();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{kills} kills; clean-up median {:?}, 99 % {:?}, longest {:?}", at(50), at(99), at(100));
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A program of the list, or the one in `BANYAN_KILL_PROGRAM`, alone and behind a shell.
fn some_program(chance: &mut Chance) -> Vec<String> {
    let given = std::env::var("BANYAN_KILL_PROGRAM").ok().filter(|_| chance.below(2) == 0);
    match given {
        Some(program) if chance.below(2) == 0 => vec![program],
        Some(program) => vec!["sh".into(), "-c".into(), format!("{program}; true")],
        None => chance.pick(&PROGRAMS).iter().map(ToString::to_string).collect(),
    }
}

/// One job, one kill. Returns how long it took until nothing was left.
fn one_kill(round: u64, chance: &mut Chance) -> Duration {
    let victim = *chance.pick(&VICTIMS);
    let program = some_program(chance);
    let ranks = (1 + chance.below(setting("BANYAN_KILL_RANKS", RANKS_DEFAULT))).to_string();
    let nodes = (1 + chance.below(12)).to_string();
    let delay = Duration::from_micros(chance.below(delay_max_us(round)));
    let mut args = vec!["-n", &ranks, "--nodes", &nodes, "--kill-grace", "50"];
    args.extend(program.iter().map(String::as_str));
    let job = start(&args);
    std::thread::sleep(delay); // the moment of the kill is random on purpose
    wait_until("the launcher", || !processes(&job.mark).is_empty());
    let (killed, company) = strike(&job, victim, chance);
    let since = Instant::now();
    let mark = job.mark.clone();
    if std::env::var_os("BANYAN_VERBOSE").is_some() {
        println!("round {round}: {victim:?} {} killed after {delay:?}, {args:?}", killed.len());
    }
    let what = format!("round {round}: {victim:?} {killed:?} after {delay:?}, {args:?}");
    let (code, text) = job.end();
    wait_until(&format!("nothing left; {what}"), || processes(&mark).is_empty());
    let took = since.elapsed();
    assert!(took < CLEAN_UP_MAX, "{took:?}; {what}");
    assert_ne!(code, Some(0), "{what}: {text}");
    assert_named(&killed, company, &text, &what);
    took
}

/// Half of the kills come in the first 50 ms.
fn delay_max_us(round: u64) -> u64 {
    if round.is_multiple_of(2) { 50_000 } else { 300_000 }
}

/// Kills the victims that exist. If there are none yet, the launcher it is.
fn strike(job: &Job, victim: Victim, chance: &mut Chance) -> (Vec<Process>, Company) {
    let launcher_pid = job.child.id() as i32;
    let all = processes(&job.mark);
    let named = |name: &str| all.iter().filter(|process| process.name == name).cloned().collect::<Vec<_>>();
    let launcher: Vec<Process> = all.iter().filter(|process| process.pid == launcher_pid).cloned().collect();
    let agents = named("banyan-agent");
    let is_agent = |pid: i32| agents.iter().any(|agent| agent.pid == pid);
    let ranks: Vec<Process> =
        all.iter().filter(|p| is_agent(p.parent) && !is_agent(p.pid) && p.group == p.pid).cloned().collect();
    let one = |from: Vec<Process>, chance: &mut Chance| {
        if from.is_empty() { launcher.clone() } else { vec![chance.pick(&from).clone()] }
    };
    let victims = match victim {
        Victim::Rank => one(ranks, chance),
        Victim::Agent => one(agents, chance),
        Victim::Warden => one(named("banyan-warden"), chance),
        Victim::Launcher => launcher,
        Victim::LauncherAndAgents => launcher.into_iter().chain(agents).collect(),
        Victim::LauncherAndOneAgent => launcher.clone().into_iter().chain(one(agents, chance)).collect(),
    };
    kill(&victims.iter().map(|process| process.pid).collect::<Vec<_>>(), "-KILL"); // all in one go
    let company = if all.len() == 1 { Company::Alone } else { Company::Others };
    (victims, company)
}

/// Somebody said which process died. Only a launcher killed before it had forked can go unnamed.
fn assert_named(killed: &[Process], company: Company, text: &str, what: &str) {
    let is_named = |process: &Process| text.contains(&format!("(pid {}", process.pid));
    assert!(killed.iter().any(is_named) || company == Company::Alone, "not named; {what}\n{text}");
}
