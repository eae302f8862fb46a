//! What is said of a process, as a line in which ranks stand apart from the words: so lines that differ in ranks only can be
//! told in one.
use super::codec::comm_of;
use super::{Comm, Doing, Look, Manner, Need, Outside, Place, Served, Server, Standing, Until};
use crate::lane::JobId;
use crate::tree::{Ended, Member, PmiState};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Ranges of ranks that a line names.
const RANGES_MAX: usize = 12;
/// Needs that a line names.
const NEEDS_SAID: usize = 3;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Words(String),
    Rank(Member),
}

/// How ranks are named in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// By their numbers.
    Number,
    /// By their distance from this one.
    From(Member),
    /// Not at all.
    Nothing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line(Vec<Part>);

impl Line {
    pub fn words(mut self, words: impl Into<String>) -> Self {
        self.0.push(Part::Words(words.into()));
        self
    }

    pub fn rank(mut self, member: Member) -> Self {
        self.0.push(Part::Rank(member));
        self
    }

    pub fn then(mut self, line: Line) -> Self {
        self.0.extend(line.0);
        self
    }

    pub fn text(&self, naming: Naming) -> String {
        let part = |part: &Part| match (part, naming) {
            (Part::Words(words), _) => words.clone(),
            (Part::Rank(member), Naming::Number) => member.to_string(),
            (Part::Rank(member), Naming::From(own)) if member.job == own.job => {
                match i64::from(member.rank.0) - i64::from(own.rank.0) {
                    0 => "itself".into(),
                    distance => format!("the rank of its own {distance:+}"),
                }
            }
            (Part::Rank(member), Naming::From(_)) => member.to_string(),
            (Part::Rank(_), Naming::Nothing) => "some rank each".into(),
        };
        self.0.iter().map(part).collect()
    }

    pub fn has_ranks(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Rank(_)))
    }
}

/// Members as `rank 3` or `ranks 0-3,7`, those of spawned jobs apart.
pub fn ranges(members: &[Member]) -> String {
    let mut sorted: Vec<Member> = members.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut texts: Vec<String> = Vec::new();
    for of_job in sorted.chunk_by(|a, b| a.job == b.job) {
        let runs: Vec<&[Member]> = of_job.chunk_by(|a, b| a.rank.0 + 1 == b.rank.0).collect();
        let run = |run: &&[Member]| match run {
            [one] => one.rank.to_string(),
            [a, b] => format!("{},{}", a.rank, b.rank),
            [a, .., b] => format!("{}-{}", a.rank, b.rank),
            [] => String::new(),
        };
        let mut text = runs.iter().take(RANGES_MAX).map(run).collect::<Vec<_>>().join(",");
        if runs.len() > RANGES_MAX {
            let left: usize = runs[RANGES_MAX..].iter().map(|run| run.len()).sum();
            text += &format!(" and {left} more");
        }
        let noun = if of_job.len() == 1 { "rank" } else { "ranks" };
        texts.push(match of_job[0].job {
            JobId(0) => format!("{noun} {text}"),
            JobId(job) => format!("{noun} {text} of spawned job {job}"),
        });
    }
    texts.join(" and ")
}

/// Milliseconds as people read them.
pub(super) fn seconds(ms: u32) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..600_000 => format!("{} s", ms / 1000),
        _ => format!("{} min", ms / 60_000),
    }
}

/// How a communicator is called.
pub(super) fn comm_name(comm: &Comm) -> String {
    if comm.name.is_empty() {
        format!("the communicator with number {} of {} processes", comm.number, comm.size)
    } else {
        comm.name.clone()
    }
}

/// What a process is doing.
pub(super) fn standing(standing: &Standing, named: &impl Fn(super::Who) -> Line) -> Line {
    match standing {
        Standing::Told(place) => told(place, named),
        Standing::Outside(outside) => Line::default().words(from_outside(outside)),
        Standing::Ended(ended) => Line::default().words(ended_words(*ended)),
        Standing::NotStarted => Line::default().words("has not been started"),
        Standing::Unheard => Line::default().words("is not known of: its agent has not answered"),
    }
}

fn told(place: &Place, named: &impl Fn(super::Who) -> Line) -> Line {
    let call = if place.call.is_empty() { "a call" } else { place.call.as_str() };
    let mut line = match place.manner {
        Manner::Blocked => Line::default().words(format!("in {call}")),
        Manner::Polls => Line::default().words(format!("calls {call} again and again")),
    };
    for (at, need) in place.needs.iter().take(NEEDS_SAID).enumerate() {
        let glue = match (at, place.until) {
            (0, _) => ": ",
            (_, Until::All) => "; and ",
            (_, Until::Any) => "; or ",
        };
        line = line.words(glue).then(self::need(need, place, named));
    }
    let more = place.needs.len().saturating_sub(NEEDS_SAID) as u32 + place.needs_more;
    if more > 0 {
        line = line.words(format!("; and {more} more such"));
    }
    place.notes.iter().fold(line, |line, note| line.words(format!("; {note}")))
}

/// What a process needs.
pub(super) fn need(need: &Need, place: &Place, named: &impl Fn(super::Who) -> Line) -> Line {
    let comm = comm_of(need).and_then(|comm| place.comms.get(usize::from(comm)));
    let on = comm.map_or_else(String::new, |comm| format!(" on {}", comm_name(comm)));
    let line = Line::default();
    match need {
        Need::Message { from, tag, look, .. } => {
            let line = line.words(match look {
                Look::Receive => "for a message from ",
                Look::Probe => "for there to be a message from ",
            });
            let line = match from {
                Some(from) => line.then(named(*from)),
                None => line.words("any rank"),
            };
            line.words(format!(" with {}{on}", tag_words(*tag)))
        }
        Need::Taken { to, tag, bytes, .. } => {
            let tag = tag.map_or_else(String::new, |tag| format!(" with tag {tag}"));
            let line = line.words("for ").then(named(*to));
            line.words(format!(" to receive its message of {bytes} bytes{tag}{on}"))
        }
        Need::Collective { number, what, .. } => {
            let of = comm.map_or_else(String::new, comm_name);
            let what =
                if *what == place.call || what.is_empty() { String::new() } else { format!(" ({what})") };
            line.words(format!("collective {number} of {of}{what}"))
        }
        Need::Deed { who, what } => line.words("for ").then(named(*who)).words(format!(" {what}")),
        Need::Lock { target, .. } => {
            line.words("for the lock of the window of ").then(named(*target)).words(", which others hold")
        }
        Need::Served(Served { by: Server::Target, target, what, .. }) => {
            line.words("for ").then(named(*target)).words(format!(" {what}"))
        }
        Need::Served(Served { by: Server::Node(node), what, .. }) => {
            line.words(format!("for the data server of node {node} {what}"))
        }
        Need::Everyone { what } => line.words(format!("for all other ranks {what}")),
        Need::Other { what } => line.words(format!("for {what}")),
    }
}

pub(super) fn tag_words(tag: Option<i32>) -> String {
    tag.map_or("any tag".into(), |tag| format!("tag {tag}"))
}

/// What the kernel says of a process.
pub(super) fn does(doing: &Doing) -> String {
    match doing {
        Doing::Runs => "runs".into(),
        Doing::Sleeps(call) if call.is_empty() => "sleeps".into(),
        Doing::Sleeps(call) => format!("sleeps in {call}"),
        Doing::Stopped => "is stopped (by a debugger or a signal)".into(),
        Doing::Unknown => "does not answer".into(),
    }
}

fn from_outside(outside: &Outside) -> String {
    let does = does(&outside.doing);
    if outside.doing == Doing::Stopped {
        return does;
    }
    match (outside.pmi, outside.ours, &outside.doing) {
        (PmiState::Finalized, ..) => format!("{does}, after MPI_Finalize"),
        (PmiState::Unused, false, _) => format!("{does}, and has not called MPI_Init"),
        (_, false, _) => format!("{does}; it uses another MPI library, and so is seen from outside only"),
        (_, true, Doing::Runs) => "computes: it runs, outside MPI".into(),
        (_, true, _) => format!("{does}, outside MPI"),
    }
}

fn ended_words(ended: Option<Ended>) -> String {
    match ended {
        None => "has finished".into(),
        Some(Ended::Exit(code)) => format!("has finished (exit code {code})"),
        Some(Ended::Signal(signal)) => format!("was killed by signal {signal}"),
    }
}
