//! `banyan bench board`: what the bulletin board costs with each of its caches.
//!
//! The claim is about messages between agents, which do not depend on the machine. Times are shown too; on a host that
//! emulates all nodes they are mostly those of the ranks and their sockets. How much that is, a job shows in which ranks get
//! their own keys with the cache that broadcasts nothing; what is beyond it is the tree's.
mod client;
mod counters;
mod options;
mod rank;
mod report;

use super::counted::Counted;
use super::machine;
use super::progress::Progress;
use counters::Counters;
use options::{HELP, Options};
use proto::board::BoardKind;
use rank::Deed;
use report::{Absent, Kept, Measured, Report, Row};

/// The hidden command of the ranks.
pub const RANK_COMMAND: &str = "board-rank";
pub use rank::main as rank_main;

/// Runs the benchmark.
pub fn main(args: &[String]) -> i32 {
    super::run(args, HELP, Options::parse, |options| {
        let report = measure(options)?;
        super::publish(&report.text(), &report.json(), &options.common)
    })
}

fn measure(options: &Options) -> Result<Report, String> {
    let load_before = machine::load_average();
    let bench = Bench::new(options)?;
    let mut rows: Vec<Row> = options.ranks.iter().map(|&ranks| Row::new(ranks, &options.kinds)).collect();
    let progress = Progress::new(options.common.rounds);
    for round in 0..options.common.rounds {
        progress.round(round);
        for row in &mut rows {
            bench.round(row, |what| progress.step(round, what))?;
        }
    }
    progress.note("many rounds of new keys");
    let (kept, absent) = (bench.kept()?, bench.absent()?);
    let (rounds, per_node) = (options.common.rounds, options.per_node);
    Ok(Report { rows, kept, absent, rounds, per_node, keys_rounds: options.keys_rounds, load_before })
}

/// What a job of the benchmark says.
struct Outcome {
    counters: Counters,
    /// From the first rank's begin to the last rank's end.
    ms: f64,
}

struct Bench<'a> {
    options: &'a Options,
    jobs: Counted,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Result<Self, String> {
        let banyan = std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))?;
        Ok(Bench { options, jobs: Counted::new(banyan, "board") })
    }

    /// Every kind once, at one size.
    fn round(&self, row: &mut Row, tell: impl Fn(&str)) -> Result<(), String> {
        let ranks = row.ranks;
        for (kind, two, all) in &mut row.kinds {
            tell(&format!("{ranks} ranks, {}", kind.word()));
            let meeting = self.run(*kind, ranks, Deed::Meet)?;
            for (deed, measured) in [(Deed::TwoGets, two), (Deed::AllGets, all)] {
                measured.add(&self.run(*kind, ranks, deed)?, &meeting);
            }
        }
        tell(&format!("{ranks} ranks, own keys"));
        for (deed, own_ms) in [Deed::TwoOwnGets, Deed::AllOwnGets].into_iter().zip(&mut row.own_ms) {
            own_ms.add(Some(self.run(BoardKind::Hcma, ranks, deed)?.ms));
        }
        Ok(())
    }

    /// How much agents keep, after a hundredth, a tenth and all of the rounds.
    fn kept(&self) -> Result<Vec<Kept>, String> {
        let all = self.options.keys_rounds;
        let counts = [all.div_ceil(100), all.div_ceil(10), all];
        let of_kind = |&kind: &BoardKind| {
            let mut entries = Vec::new();
            for count in counts {
                let counters = self.run(kind, self.key_ranks(), Deed::Rounds(count))?.counters;
                entries.push((count, counters.root_entries(), counters.other_entries()));
            }
            Ok(Kept { kind, ranks: self.key_ranks(), nodes: self.nodes(self.key_ranks()), entries })
        };
        self.options.kinds.iter().map(of_kind).collect()
    }

    /// What gets of a key that nobody puts cost, after some keys have been given up.
    fn absent(&self) -> Result<Absent, String> {
        let (ranks, rounds) = (self.key_ranks(), self.options.keys_rounds.div_ceil(10));
        let without = self.run(BoardKind::HcmabLru, ranks, Deed::Rounds(rounds))?.counters;
        let with = self.run(BoardKind::HcmabLru, ranks, Deed::RoundsThenAbsent(rounds))?.counters;
        Ok(Absent {
            gets: (ranks * rank::ABSENT_GETS) as u64,
            nodes: self.nodes(ranks),
            at_once: with.absent_hits().saturating_sub(without.absent_hits()),
            messages: with.messages().saturating_sub(without.messages()),
        })
    }

    /// Ranks of the jobs with many rounds.
    fn key_ranks(&self) -> usize {
        self.options.ranks.iter().copied().min().unwrap_or(1)
    }

    fn nodes(&self, ranks: usize) -> usize {
        self.options.nodes(ranks)
    }

    fn run(&self, kind: BoardKind, ranks: usize, deed: Deed) -> Result<Outcome, String> {
        let mut command = self.jobs.command(ranks, self.nodes(ranks));
        command.args(["--board", kind.word()]);
        command.arg(self.jobs.banyan()).args(["bench", RANK_COMMAND]).args(deed.words());
        let named = |why: String| format!("{} at {ranks} ranks, {deed:?}: {why}", kind.word());
        let (finished, stats) = self.jobs.run(command, self.options.common.timeout).map_err(named)?;
        let counters = Counters::parse(&stats).map_err(named)?;
        if counters.nodes() != self.nodes(ranks) {
            return Err(named(format!("{} boards on {} nodes", counters.nodes(), self.nodes(ranks))));
        }
        let (began, ended) = (finished.values("began_us"), finished.values("ended_us"));
        if began.len() != ranks || ended.len() != ranks {
            return Err(named(format!("{} of {ranks} ranks ended", ended.len())));
        }
        let first = began.into_iter().fold(f64::INFINITY, f64::min);
        let last = ended.into_iter().fold(0.0, f64::max);
        Ok(Outcome { counters, ms: (last - first) / 1e3 })
    }
}

impl Measured {
    /// Adds a job, less what ranks that only meet cost.
    fn add(&mut self, outcome: &Outcome, meeting: &Outcome) {
        self.ms.add(Some(outcome.ms));
        let less =
            |of: fn(&Counters) -> u64| of(&outcome.counters).saturating_sub(of(&meeting.counters)) as f64;
        self.messages.add(Some(less(Counters::messages)));
        self.bytes.add(Some(less(Counters::bytes)));
    }
}

impl Row {
    fn new(ranks: usize, kinds: &[BoardKind]) -> Row {
        let kinds = kinds.iter().map(|&kind| (kind, Measured::default(), Measured::default())).collect();
        Row { ranks, kinds, own_ms: Default::default() }
    }
}
