//! Communication patterns: who talks to whom in a program, learned from one run and predicted for the next.
//!
//! ```text
//!   contacts of a run --learn--> Pattern --emit, parse--> Pattern --peers(rank, size)--> whom to connect to, in order
//! ```
//! A [`Pattern`] says it by rules over ranks ([`Shape`]): neighbours in a grid, strides, trees, a star. So it holds for a job
//! of another size, and where ranks live does not matter. Rules are found by their description length (see `learn`); what none
//! explains is kept as pairs of ranks, for jobs of the same size.
//!
//! # A wrong pattern
//! It costs little: nobody is predicted more than twice as many peers as ranks had on average ([`Pattern::peers`]), and
//! [`Ahead`], which decides when to ask for the next one, stops while those that it asked for are not used.
//!
//! # What it is not
//! No file, no variable, no clock: `launch` keeps the file, `net` asks for connections.
mod ahead;
mod learn;
mod shape;
#[cfg(test)]
mod tests;
mod text;

pub use ahead::{Ahead, Counts, Load, Need, Trust};
pub use learn::{Contact, Observed};
pub use shape::{Beyond, Branch, DIMS_MAX, Dims, Ends, Grid, Near, Order, RANKS_MAX, Shape, Step};
pub use text::{FILE_BYTES_MAX, LineError, ParseError, TEXT_BYTES_MAX};

use alloc::string::String;
use alloc::vec::Vec;
use shape::Placed;

/// Most peers that are predicted to one rank.
pub const PEERS_MAX: usize = 256;
/// As many are predicted even where ranks had fewer on average.
const PEERS_MIN: usize = 4;
/// Everybody talks to everybody in most jobs that are smaller, whatever the program does.
const ALL_RANKS_MIN: u32 = 8;
/// Ranks whose peers are counted to know how many there are on average.
const SAMPLED: u32 = 16;
/// What was first used later than this after the start is left to the first use.
const LATE_MS: u32 = 60_000;

/// Who talks to whom in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The program.
    pub program: String,
    /// Ranks of the run that was recorded last.
    pub ranks: u32,
    /// Peers that its ranks had on average, in hundredths.
    pub degree_percent: u32,
    /// How what was predicted for that run came true, if anything was.
    pub last: Option<Last>,
    /// The rules, in order of first use.
    pub generators: Vec<Generator>,
}

/// How a forecast came true, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// Peers that were predicted.
    pub predicted: u64,
    /// Those of them who were talked to.
    pub used: u64,
}

/// A rule, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    /// The rule.
    pub shape: Shape,
    /// When its connections were first used, in milliseconds since the start: the median.
    pub after_ms: u32,
    /// How well it fits what was recorded last.
    pub score: Score,
}

/// How well a rule fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Pairs of ranks that it says and that talked.
    pub hits: u64,
    /// Pairs that it says and that did not.
    pub misses: u64,
}

impl Pattern {
    /// Learns from a run. `before` is what was known, and was used to predict this run: of rules that explain the same, those
    /// that were known stay, and those that failed go.
    pub fn learn(program: &str, observed: &Observed, before: Option<&Pattern>) -> Pattern {
        let mut pattern = Pattern {
            program: text::program_name(program),
            ranks: observed.size(),
            degree_percent: observed.degree_percent(),
            last: before.map(|before| before.judge(observed)).filter(|last| last.predicted > 0),
            generators: learn::generators(observed, before),
        };
        pattern.fit_text();
        pattern
    }

    /// Does it say nothing?
    pub fn is_empty(&self) -> bool {
        self.generators.is_empty()
    }

    /// Is it of this program?
    pub fn is_of(&self, program: &str) -> bool {
        self.program == text::program_name(program)
    }

    /// Whom a rank of a job of this size will talk to, in order of first use. Never more than twice as many as ranks had on
    /// average when it was recorded, and nobody who was first needed late.
    pub fn peers(&self, rank: u32, size: u32) -> Vec<u32> {
        self.forecast(size).peers(rank)
    }

    /// How many peers a rank of a job of this size will have, on average: as recorded, or by the rules where the size is another.
    pub fn degree(&self, size: u32) -> u32 {
        if self.ranks == size {
            return self.degree_percent.div_ceil(100);
        }
        let is_all = |generator: &Generator| generator.shape == Shape::All && generator.after_ms <= LATE_MS;
        if self.ranks >= ALL_RANKS_MIN && self.generators.iter().any(is_all) {
            return size.saturating_sub(1); // whatever was seen of it: that was a smaller job
        }
        let (forecast, sampled) = (self.forecast(size), size.min(SAMPLED));
        // Spread over all: rules differ at the edges of a grid and at the top of a tree.
        let rank = |at: u32| (u64::from(at) * u64::from(size) / u64::from(sampled)) as u32;
        let peers: usize = (0..sampled).map(|at| forecast.peers(rank(at)).len()).sum();
        (peers as u32).div_ceil(sampled.max(1))
    }

    /// Did it predict the last run, and badly?
    pub fn has_failed(&self) -> bool {
        self.last.is_some() && self.trust() != Trust::Confirmed
    }

    fn forecast(&self, size: u32) -> Forecast<'_> {
        let applies = |generator: &&Generator| {
            generator.after_ms <= LATE_MS
                && (self.ranks == size || !matches!(generator.shape, Shape::Pairs(_)))
        };
        let timely = self.generators.iter().filter(applies);
        let shapes = timely.map(|generator| Placed::new(&generator.shape, size)).collect();
        let twice = (2 * self.degree_percent).div_ceil(100) as usize;
        Forecast { shapes, size, most: twice.clamp(PEERS_MIN, PEERS_MAX) }
    }

    /// How far the connections that it predicts can be relied on.
    pub fn trust(&self) -> Trust {
        match self.last {
            Some(Last { predicted, used }) if used >= predicted - predicted / 10 => Trust::Confirmed,
            _ => Trust::New,
        }
    }

    /// How it would have predicted a run.
    pub fn judge(&self, observed: &Observed) -> Last {
        let forecast = self.forecast(observed.size());
        let mut last = Last::default();
        for (rank, row) in observed.rows() {
            for peer in forecast.peers(rank) {
                last.predicted += 1;
                last.used += u64::from(row.has(peer).unwrap_or(true));
            }
        }
        last
    }
}

/// The rules of a pattern that hold in a job of one size.
struct Forecast<'p> {
    shapes: Vec<Placed<'p>>,
    size: u32,
    most: usize,
}

impl Forecast<'_> {
    fn peers(&self, rank: u32) -> Vec<u32> {
        let (mut peers, mut found) = (Vec::new(), Vec::new());
        if rank >= self.size {
            return peers;
        }
        for shape in &self.shapes {
            found.clear();
            shape.neighbours(rank, &mut found);
            for &peer in found.iter().filter(|peer| **peer != rank && **peer < self.size) {
                if peers.len() == self.most {
                    return peers;
                }
                if !peers.contains(&peer) {
                    peers.push(peer);
                }
            }
        }
        peers
    }
}
