//! How processes agree on the number of a new communicator, several agreements at a time.
//!
//! A number separates the messages of communicators, so no process may use one twice. The members of a new communicator
//! agree by maxima, in rounds: each gives a word, and all hear the largest.
//!
//! * In the first round everybody gives the next number that it has never used. The largest is new to all of them.
//! * A process that has another agreement under way, or may begin one before this one ends, says so with its word. If
//!   nobody does, that is all.
//! * Otherwise everybody *claims* the number at this moment, and the second round asks whether all could. Somebody for
//!   whom it went to another agreement meanwhile says no, with the next number that it has; the largest of those is
//!   claimed next. A number that was claimed without success is not used again while an agreement is under way.
//!
//! Claims wait for nobody, so agreements that are begun in another order by each process all come to their ends. Who
//! has to try again leaves out some numbers by chance, so that two agreements do not meet again and again.
use alloc::collections::BTreeSet;

/// Numbers are less than this: two contexts are made of each, in 32 bits.
pub const NUMBERS_MAX: u32 = 1 << 31;

/// In a first word: others may be under way. In a later one: the number could not be claimed.
const OBJECTION: u64 = 1 << 32;
/// Numbers that are left out at most.
const LEFT_OUT_MAX: u64 = 8;

/// The numbers of one process.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// All below are used, or as good as used.
    floor: u32,
    /// Used or claimed, and not below the floor.
    claimed: BTreeSet<u32>,
    /// Agreements under way.
    open: u32,
    chance: u64,
}

/// One agreement as a process sees it.
#[derive(Clone, Debug)]
pub struct Agreement {
    claim: Option<u32>,
}

/// What the largest of all words says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The number is agreed on.
    Agreed(u32),
    /// Another round, with this word.
    Again(u64),
    /// There are no more numbers.
    Exhausted,
}

impl Numbers {
    /// `floor` numbers are in use from the start; the seed should be another one for each process.
    pub fn new(floor: u32, seed: u64) -> Self {
        Self { floor, claimed: BTreeSet::new(), open: 0, chance: seed }
    }

    /// Begins an agreement; the word for its first round. `alone`: this process begins no other one until this one ends.
    pub fn begin(&mut self, alone: bool) -> (Agreement, u64) {
        let others = self.open > 0 || !alone;
        self.open += 1;
        let word = u64::from(self.next()) | if others { OBJECTION } else { 0 };
        (Agreement { claim: None }, word)
    }

    /// The largest word of a round.
    pub fn hear(&mut self, agreement: &mut Agreement, word: u64) -> Heard {
        let (number, objection) = ((word & (OBJECTION - 1)) as u32, word & OBJECTION != 0);
        if number >= NUMBERS_MAX {
            self.end();
            return Heard::Exhausted;
        }
        match agreement.claim {
            Some(claim) if !objection => {
                self.end();
                return Heard::Agreed(claim);
            }
            None if !objection => {
                self.claim(number);
                self.end();
                return Heard::Agreed(number);
            }
            _ => {}
        }
        agreement.claim = Some(number);
        match self.claim(number) {
            true => Heard::Again(u64::from(number)),
            false => Heard::Again((u64::from(self.next()) + self.draw() % LEFT_OUT_MAX) | OBJECTION),
        }
    }

    /// An agreement under way comes to no end.
    pub fn abandon(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.floor = self.next();
            self.claimed.clear();
        }
    }

    fn next(&self) -> u32 {
        self.claimed.last().map_or(self.floor, |last| last + 1)
    }

    fn claim(&mut self, number: u32) -> bool {
        number >= self.floor && self.claimed.insert(number)
    }

    fn draw(&mut self) -> u64 {
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.chance >> 33
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Members, and what each of them has given, if it has begun.
    type Made = (Vec<usize>, Vec<Option<(Agreement, u64)>>);

    /// Agreements among some of the processes, whose rounds end in an order that a seed decides.
    struct World {
        numbers: Vec<Numbers>,
        made: Vec<Made>,
        chance: u64,
    }

    impl World {
        fn below(&mut self, n: usize) -> usize {
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((self.chance >> 33) % n as u64) as usize
        }
    }

    /// What each agreement ended with. Process 0 has one thread, all others as many as it takes.
    fn run(mut world: World) -> Vec<u32> {
        let count = world.made.len();
        let (mut agreed, mut begun) = (vec![None; count], BTreeSet::new());
        // (agreement, member) that have to hear the result of a round, whose largest word is known.
        let mut results: Vec<(usize, usize, u64)> = Vec::new();
        for _ in 0..100_000 {
            if agreed.iter().all(Option::is_some) && results.is_empty() {
                return agreed.into_iter().flatten().collect();
            }
            match world.below(3) {
                // Somebody begins.
                0 => {
                    let (which, member) = (world.below(count), world.below(8));
                    let (members, given) = &mut world.made[which];
                    let Some(process) = members.get(member) else { continue };
                    let (alone, numbers) = (*process == 0, &mut world.numbers[*process]);
                    let may = agreed[which].is_none() && (!alone || numbers.open == 0);
                    if may && given[member].is_none() && begun.insert((which, member)) {
                        given[member] = Some(numbers.begin(alone));
                    }
                }
                // Somebody hears the result of a round.
                _ if !results.is_empty() => {
                    let at = world.below(results.len());
                    let (which, member, word) = results.swap_remove(at);
                    let (members, given) = &mut world.made[which];
                    let (mut agreement, _) = given[member].take().expect("it has given a word");
                    match world.numbers[members[member]].hear(&mut agreement, word) {
                        Heard::Agreed(number) => {
                            assert!(agreed[which].is_none_or(|known| known == number));
                            agreed[which] = Some(number);
                        }
                        Heard::Again(next) => given[member] = Some((agreement, next)),
                        Heard::Exhausted => panic!("there are enough"),
                    }
                }
                _ => {}
            }
            // A round ends when all have given their words.
            for (which, (_, given)) in world.made.iter().enumerate() {
                let pending = results.iter().any(|(w, ..)| *w == which);
                if !pending && given.iter().all(Option::is_some) {
                    let largest = given.iter().flatten().map(|(_, word)| *word).max().expect("members");
                    results.extend((0..given.len()).map(|member| (which, member, largest)));
                }
            }
        }
        panic!("no end: {agreed:?}");
    }

    fn world(seed: u64, groups: &[&[usize]]) -> World {
        let numbers = (0..8).map(|process| Numbers::new(2, seed ^ process << 40)).collect();
        let made = groups.iter().map(|group| (group.to_vec(), vec![None; group.len()])).collect();
        World { numbers, made, chance: seed }
    }

    #[test]
    fn who_meets_in_two_agreements_gets_two_numbers() {
        let groups: &[&[usize]] =
            &[&[0, 1, 2, 3, 4, 5, 6, 7], &[0, 1, 2, 3, 4, 5, 6, 7], &[7, 6, 5], &[0, 5], &[1, 2, 3], &[3, 0]];
        for seed in 0..2_000 {
            let numbers = run(world(seed, groups));
            for (a, first) in groups.iter().enumerate() {
                for (b, second) in groups.iter().enumerate().skip(a + 1) {
                    let meet = first.iter().any(|process| second.contains(process));
                    assert!(!meet || numbers[a] != numbers[b], "seed {seed}: {a} and {b} got {}", numbers[a]);
                }
            }
        }
    }

    #[test]
    fn one_round_is_enough_for_who_is_alone() {
        let mut numbers: Vec<Numbers> = [2, 9, 5].map(|floor| Numbers::new(floor, 1)).into();
        for expected in 9..20 {
            let mut begun: Vec<_> = numbers.iter_mut().map(|numbers| numbers.begin(true)).collect();
            let largest = begun.iter().map(|(_, word)| *word).max().unwrap();
            for (numbers, (agreement, _)) in numbers.iter_mut().zip(&mut begun) {
                assert_eq!(numbers.hear(agreement, largest), Heard::Agreed(expected));
            }
        }
    }

    #[test]
    fn the_end_of_the_numbers_is_told() {
        let mut numbers = Numbers::new(NUMBERS_MAX - 1, 1);
        let (mut agreement, word) = numbers.begin(true);
        assert_eq!(numbers.hear(&mut agreement, word), Heard::Agreed(NUMBERS_MAX - 1));
        let (mut agreement, word) = numbers.begin(true);
        assert_eq!(numbers.hear(&mut agreement, word), Heard::Exhausted);
    }
}
