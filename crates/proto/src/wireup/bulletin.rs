//! What a process puts on the board about queue pairs that it made for everybody, before anybody asked.
//!
//! The queue pairs are for the other ranks of the job, in order. A device mostly gives numbers in a row, with gaps, so that a few
//! ranges tell all of them; everything else a peer has to know follows from two words of the provider's and from the
//! place in that order ([`Bulletin::place_of`]). As text, 24 bytes and 6 for each range are enough where numbers are below
//! 2^28 and gaps small; the batched form, to compare with, takes 16/3 bytes for each number.
use super::policy::Exchange;
use crate::ids::Rank;
use alloc::string::String;
use alloc::vec::Vec;

/// Numbers in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The first of each range, and how many there are.
    ranges: Vec<(u32, u32)>,
}

impl Numbers {
    /// Those numbers, which must rise.
    pub fn from_rising(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((first, count)) if *first + *count == number => *count += 1,
                last => {
                    let rises = last.is_none_or(|(first, count)| *first + *count < number);
                    assert!(rises, "{number} comes too late");
                    ranges.push((number, 1));
                }
            }
        }
        Numbers { ranges }
    }

    /// The number at this place.
    pub fn nth(&self, place: u32) -> Option<u32> {
        let mut left = place;
        for (first, count) in &self.ranges {
            if left < *count {
                return Some(first + left);
            }
            left -= count;
        }
        None
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.ranges.iter().map(|(_, count)| count).sum()
    }

    /// How many ranges.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().flat_map(|(first, count)| *first..first + count)
    }
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulletin {
    /// The provider of the queue pairs, by its number.
    pub provider: u8,
    /// What it has to say about all of them.
    pub facts: [u64; 2],
    /// Their numbers.
    pub numbers: Numbers,
}

/// Text that is no bulletin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes on the board tell nothing of queue pairs")]
pub struct NoBulletin(usize);

/// Six bits each.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Bulletin {
    /// Queue pairs that one may speak of.
    const MOST: u32 = 1 << 24;

    /// Which of a process's queue pairs is for which rank.
    pub fn place_of(rank: Rank, owner: Rank) -> u32 {
        rank.0 - u32::from(rank > owner)
    }

    /// For the board.
    pub fn to_text(&self, exchange: Exchange) -> String {
        let batched = exchange == Exchange::Batched;
        let mut bytes: Vec<u8> = Vec::new();
        bytes.push(self.provider << 1 | u8::from(batched));
        self.facts.iter().for_each(|fact| write(&mut bytes, *fact));
        if batched {
            self.numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        } else {
            let mut end = 0;
            for (first, count) in &self.numbers.ranges {
                write(&mut bytes, u64::from(first - end));
                write(&mut bytes, u64::from(*count));
                end = first + count;
            }
        }
        to_digits(&bytes)
    }

    /// What [`to_text`](Self::to_text) wrote; anything may be handed in.
    pub fn parse(text: &str) -> Result<Self, NoBulletin> {
        let parsed = from_digits(text).and_then(|bytes| Self::read(&bytes));
        parsed.ok_or(NoBulletin(text.len()))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&head, mut rest) = bytes.split_first()?;
        let facts = [read(&mut rest)?, read(&mut rest)?];
        let mut numbers = Numbers::default();
        if head & 1 != 0 {
            let (each, left) = rest.as_chunks::<4>();
            let mut last = None;
            for number in each.iter().map(|bytes| u32::from_le_bytes(*bytes)) {
                if last.is_some_and(|last| last >= number) {
                    return None;
                }
                last = Some(number);
            }
            if !left.is_empty() || last.is_some_and(|last| last == u32::MAX) {
                return None;
            }
            numbers = Numbers::from_rising(each.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        } else {
            let (mut end, mut all) = (0u32, 0u32);
            while !rest.is_empty() {
                let (gap, count) =
                    (u32::try_from(read(&mut rest)?).ok()?, u32::try_from(read(&mut rest)?).ok()?);
                let first = end.checked_add(gap)?;
                end = first.checked_add(count)?;
                all = all.checked_add(count).filter(|all| *all <= Self::MOST)?;
                // Two ranges that touch are one.
                if count == 0 || (gap == 0 && !numbers.ranges.is_empty()) {
                    return None;
                }
                numbers.ranges.push((first, count));
            }
        }
        Some(Bulletin { provider: head >> 1, facts, numbers })
    }
}

/// Seven bits to a byte, the lowest first.
fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn to_digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        let digits = [18, 12, 6, 0].map(|shift| char::from(DIGITS[(word >> shift & 63) as usize]));
        text.extend(&digits[..=chunk.len()]);
    }
    text
}

fn from_digits(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0;
        for (at, digit) in chunk.iter().enumerate() {
            let value = DIGITS.iter().position(|known| known == digit)? as u32;
            word |= value << (18 - 6 * at);
        }
        let [_, three @ ..] = word.to_be_bytes();
        let (whole, rest) = three.split_at(chunk.len().checked_sub(1)?);
        // A digit alone says nothing, and bits that nobody reads are zero.
        if whole.is_empty() || rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend(whole);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bulletin(numbers: Numbers) -> Bulletin {
        Bulletin { provider: 2, facts: [4096, 7], numbers }
    }

    #[test]
    fn ranges_have_gaps_and_are_found_by_place() {
        let numbers = Numbers::from_rising([5, 6, 7, 9, 20, 21]);
        assert_eq!((numbers.count(), numbers.ranges()), (6, 3));
        let found: Vec<Option<u32>> = (0..7).map(|place| numbers.nth(place)).collect();
        assert_eq!(found, [Some(5), Some(6), Some(7), Some(9), Some(20), Some(21), None]);
        assert_eq!([0, 1, 3, 4].map(|rank| Bulletin::place_of(Rank(rank), Rank(2))), [0, 1, 2, 3]);
    }

    #[test]
    fn few_bytes_tell_of_many_queue_pairs() {
        for gap in [1000, 100, 20] {
            let numbers = Numbers::from_rising((0..895).map(|n| (1 << 20) + n + n / gap));
            let ranges = numbers.ranges();
            let text = bulletin(numbers).to_text(Exchange::Ranges);
            assert!(text.len() <= 24 + 6 * ranges, "{} bytes for {ranges} ranges", text.len());
        }
        let all = bulletin(Numbers::from_rising(1..896));
        let (few, many) = (all.to_text(Exchange::Ranges), all.to_text(Exchange::Batched));
        assert!(few.len() * 20 <= many.len() && many.len() <= 24 + 895 * 16 / 3, "{few}: {}", many.len());
        assert_eq!((Bulletin::parse(&few), Bulletin::parse(&many)), (Ok(all.clone()), Ok(all)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in proptest::collection::btree_set(0..u32::MAX - 1, 0..50),
            facts in any::<[u64; 2]>(),
            batched in any::<bool>(),
        ) {
            let numbers: BTreeSet<u32> = numbers;
            let bulletin =
                Bulletin { provider: 3, facts, numbers: Numbers::from_rising(numbers.iter().copied()) };
            let text = bulletin.to_text(if batched { Exchange::Batched } else { Exchange::Ranges });
            prop_assert_eq!(Bulletin::parse(&text), Ok(bulletin));
        }

        #[test]
        fn nonsense_is_refused(text in "[A-Za-z0-9_-]{0,40}|.{0,20}") {
            if let Ok(bulletin) = Bulletin::parse(&text) {
                prop_assert!(bulletin.numbers.count() <= Bulletin::MOST);
            }
        }
    }
}
