//! Cutting a number of processes into the dimensions of a grid, as `MPI_Dims_create` does (MPI-5 8.5.2).
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Cuts `number` into `parts` factors that are as close as possible (the least difference between the largest and the
/// smallest, and then the largest of the smallest, the largest of the next, and so on, as MPICH has it), largest first.
pub fn balanced(number: i32, parts: usize) -> Vec<i32> {
    match parts {
        0 => return Vec::new(),
        1 => return vec![number],
        _ => {}
    }
    let mut factoring = Factoring { divisors: divisors(number), hopeless: BTreeSet::new() };
    let mut best: Option<Vec<i32>> = None;
    for largest in factoring.divisors.clone() {
        let rest = number / largest;
        if power(largest, parts) < i64::from(number) {
            continue; // too small to be the largest
        }
        let spread = best.as_ref().map(|best| best[0] - best[parts - 1]);
        let smallest_at_most = root(rest, parts - 1);
        if spread.is_some_and(|spread| largest - smallest_at_most > spread) {
            break; // and larger ones are worse still
        }
        let better = |smallest: i32| spread.is_none_or(|spread| largest - smallest <= spread);
        let candidates: Vec<i32> =
            factoring.divisors.iter().copied().filter(|d| *d <= smallest_at_most && better(*d)).collect();
        for smallest in candidates.into_iter().rev().filter(|d| rest % d == 0) {
            if let Some(mut middle) = factoring.between(rest / smallest, parts - 2, smallest, largest) {
                middle.push(smallest);
                middle.push(largest);
                middle.sort_unstable_by_key(|factor| core::cmp::Reverse(*factor));
                best = Some(middle);
                break;
            }
        }
    }
    let mut best = best.unwrap_or_default();
    balance_middle(&mut best);
    best
}

/// The factors between the largest and the smallest, from the lowest on, are as large as they can be.
fn balance_middle(factors: &mut [i32]) {
    let [largest, middle @ .., smallest] = factors else { return };
    let (mut rest, mut least) = (middle.iter().product::<i32>(), *smallest);
    let mut factoring = Factoring { divisors: divisors(rest), hopeless: BTreeSet::new() };
    for place in (1..middle.len()).rev() {
        let most = root(rest, place + 1);
        let candidates = factoring.divisors.clone().into_iter().rev();
        let mut candidates = candidates.filter(|d| (least..=most).contains(d) && rest % d == 0);
        let fits = |d: &i32| factoring.between(rest / d, place, *d, *largest).is_some();
        // There is one: the caller, or the turn before, has found factors of the rest.
        let Some(factor) = candidates.find(fits) else { return };
        middle[place] = factor;
        (rest, least) = (rest / factor, factor);
        middle[0] = rest;
    }
}

/// The search for factors of a number.
struct Factoring {
    divisors: Vec<i32>,
    /// (what is left, into how many, none smaller) that have been tried; the largest is the same for each search.
    hopeless: BTreeSet<(i32, usize, i32, i32)>,
}

impl Factoring {
    /// Some `parts` factors of `number`, none below `least` or above `most`, in rising order.
    fn between(&mut self, number: i32, parts: usize, least: i32, most: i32) -> Option<Vec<i32>> {
        if parts == 0 {
            return (number == 1).then(Vec::new);
        }
        if parts == 1 {
            return (least..=most).contains(&number).then(|| vec![number]);
        }
        if power(least, parts) > number.into() || power(most, parts) < number.into() {
            return None;
        }
        if !self.hopeless.insert((number, parts, least, most)) {
            return None;
        }
        let from = self.divisors.partition_point(|d| *d < least);
        let upto = self.divisors.partition_point(|d| *d <= root(number, parts));
        for place in from..upto {
            let factor = self.divisors[place];
            if number % factor == 0
                && let Some(mut rest) = self.between(number / factor, parts - 1, factor, most)
            {
                rest.insert(0, factor);
                self.hopeless.remove(&(number, parts, least, most));
                return Some(rest);
            }
        }
        None
    }
}

fn divisors(number: i32) -> Vec<i32> {
    let small = (1..=number).take_while(|d| i64::from(*d) * i64::from(*d) <= i64::from(number));
    let mut all: Vec<i32> = small.filter(|d| number % d == 0).flat_map(|d| [d, number / d]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn power(base: i32, exponent: usize) -> i64 {
    let exponent = u32::try_from(exponent).unwrap_or(u32::MAX);
    i64::from(base).checked_pow(exponent).unwrap_or(i64::MAX)
}

/// The largest whole number whose power is not above `number`.
fn root(number: i32, exponent: usize) -> i32 {
    let (mut low, mut high) = (1, number);
    while low < high {
        let middle = low + (high - low + 1) / 2;
        if power(middle, exponent) <= number.into() {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against all ways to do it.
    #[test]
    fn no_factors_are_closer() {
        fn least_spread(number: i32, parts: usize, most: i32, smallest: i32, largest: i32) -> i32 {
            if parts == 0 {
                return if number == 1 { largest - smallest } else { i32::MAX };
            }
            let factors = (1..=number.min(most)).filter(|factor| number % factor == 0);
            factors
                .map(|f| least_spread(number / f, parts - 1, f, smallest.min(f), largest.max(f)))
                .min()
                .unwrap_or(i32::MAX)
        }
        for number in 1..400 {
            for parts in 1..5 {
                let dims = balanced(number, parts);
                let spread = dims[0] - dims[parts - 1];
                assert_eq!(spread, least_spread(number, parts, number, i32::MAX, 0), "{number}: {dims:?}");
            }
        }
    }
}
