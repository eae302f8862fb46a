//! One library's cost beside another's: the median of the ratios of rounds, and how well it is known.
//!
//! Libraries run in turn, so a noisy minute falls on both sides of a round's ratio, where it cancels; a ratio of two
//! medians keeps it. The interval is that of the sign test: it lies between two of the ratios themselves, whose ranks follow
//! from coin throws, so it holds whatever the ratios are distributed like. A bootstrap was rejected: from the dozen rounds
//! that are usual it gives intervals that are too narrow, and it needs random numbers.
use super::sample::median;
use super::verdict::ratio;
use serde_json::{Value, json};

/// How often the true ratio may lie below the interval, and how often above it.
const OUTSIDE: f64 = 0.025;

/// What lies between the two bounds of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// The true ratio, with 95 % confidence at least.
    Interval,
    /// All ratios that were seen. Of fewer than 6 rounds even these are too few for 95 %.
    Range,
}

/// A ratio over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The middle one.
    pub median: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// What the bounds are.
    pub bounds: Bounds,
    /// How many rounds it is of.
    pub rounds: usize,
}

impl Ratio {
    /// Of the ratios of rounds; none if there are none.
    pub fn of(mut ratios: Vec<f64>) -> Option<Self> {
        ratios.sort_by(f64::total_cmp);
        let (median, rounds) = (median(&ratios)?, ratios.len());
        let (bounds, cut) = match cut_off(rounds) {
            Some(cut) => (Bounds::Interval, cut),
            None => (Bounds::Range, 0),
        };
        Some(Ratio { median, low: ratios[cut], high: ratios[rounds - 1 - cut], bounds, rounds })
    }

    /// For people: an interval is in brackets, a range in parentheses, and a point has neither.
    pub fn text(&self) -> String {
        let [median, low, high] = [self.median, self.low, self.high].map(ratio);
        match self.bounds {
            _ if self.low == self.high => median,
            Bounds::Interval => format!("{median} [{low}..{high}]"),
            Bounds::Range => format!("{median} ({low}..{high})"),
        }
    }

    /// For scripts: what stands beside the median.
    pub fn bounds_json(&self) -> Value {
        let kind = match self.bounds {
            Bounds::Interval => "95%",
            Bounds::Range => "range",
        };
        json!({"low": self.low, "high": self.high, "kind": kind, "rounds": self.rounds})
    }
}

/// How many of the smallest, and of the largest, of so many ratios lie outside the interval; nothing if all of them are
/// too few for one.
///
/// The true median lies below the k-th smallest ratio if fewer than k fell below it, each with a chance of 1/2.
fn cut_off(rounds: usize) -> Option<usize> {
    let mut exactly = 0.5_f64.powi(i32::try_from(rounds).ok()?); // no zero: a benchmark has 1,000 rounds at most
    let (mut fewer, mut k) = (exactly, 0);
    while fewer <= OUTSIDE {
        k += 1;
        exactly *= (rounds + 1 - k) as f64 / k as f64;
        fewer += exactly;
    }
    k.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        let cuts = [1, 5, 6, 8, 9, 11, 20, 100, 1000].map(cut_off);
        let expected = [None, None, Some(0), Some(0), Some(1), Some(1), Some(5), Some(39), Some(468)];
        assert_eq!(cuts, expected);
    }

    #[test]
    fn the_interval_covers_what_it_claims() {
        // All 2^n ways in which n ratios can fall below (0) or above (1) the true median are equally likely.
        for rounds in 6..=14 {
            let covered = |cut: usize| {
                let covers = |sides: &u32| {
                    let above = sides.count_ones() as usize;
                    above > cut && rounds - above > cut
                };
                (0..1 << rounds).filter(covers).count() as f64 / f64::from(1 << rounds)
            };
            let cut = cut_off(rounds).unwrap();
            assert!(covered(cut) >= 0.95 && covered(cut + 1) < 0.95, "{rounds} rounds");
        }
    }

    #[test]
    fn one_bad_round_of_eleven_moves_neither_median_nor_interval() {
        let mut ratios: Vec<f64> = (0..11).map(|i| 1.0 + 0.01 * f64::from(i)).collect();
        let quiet = Ratio::of(ratios.clone()).unwrap();
        assert_eq!((quiet.median, quiet.low, quiet.high), (1.05, 1.01, 1.09));
        ratios[10] = 40.0;
        assert_eq!(Ratio::of(ratios), Some(quiet));
    }

    #[test]
    fn few_rounds_have_a_range_and_say_so() {
        let five = Ratio::of(vec![0.9, 0.8, 1.2, 1.0, 0.02]).unwrap();
        assert_eq!((five.bounds, five.text().as_str()), (Bounds::Range, "0.90 (0.020..1.20)"));
        assert_eq!(five.bounds_json(), json!({"low": 0.02, "high": 1.2, "kind": "range", "rounds": 5}));
        let six = Ratio::of(vec![0.9, 0.8, 1.2, 1.0, 0.02, 0.8]).unwrap();
        assert_eq!((six.bounds, six.text().as_str()), (Bounds::Interval, "0.85 [0.020..1.20]"));
        assert_eq!(six.bounds_json()["kind"], json!("95%"));
        assert_eq!(Ratio::of(vec![1.5]).unwrap().text(), "1.50");
        assert_eq!(Ratio::of(Vec::new()), None);
    }
}
