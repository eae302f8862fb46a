//! Chance with a seed, and what it does to an input.

/// Most bytes of a spoilt input.
const INPUT_BYTES_MAX: usize = 4096;

/// Small and fast.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }
}

/// Numbers that readers get wrong, as words and as text.
const WORDS: [u32; 10] = [0, 1, 2, 0x7f, 0xff, 0xffff, 1 << 18, (1 << 18) + 1, i32::MAX as u32, u32::MAX];
const TEXTS: [&str; 8] = ["-1", "0", "", "00", "4294967296", "18446744073709551616", "1e9", "999999"];

/// Spoils an input once to three times, or makes it noise.
pub(crate) fn spoil(input: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    if chance.below(16) == 0 {
        let length = chance.below(200);
        *input = (0..length).map(|_| chance.next() as u8).collect();
        return;
    }
    for _ in 0..=chance.below(3) {
        spoil_once(input, seeds, chance);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn spoil_once(input: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.below(input.len());
    let length = chance.below(16).min(input.len() - at);
    match chance.below(9) {
        _ if input.is_empty() => input.push(chance.next() as u8),
        0 => input[at] ^= 1 << chance.below(8),
        1 => input[at] = chance.next() as u8,
        2 => drop(input.drain(at..at + length)),
        3 => input.truncate(at),
        4 => drop(input.splice(at..at, chance.bytes::<3>())),
        5 => {
            let again = input[at..at + length].to_vec();
            input.splice(at..at, again);
        }
        6 => {
            let word = WORDS[chance.below(WORDS.len())].to_le_bytes();
            input.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
        }
        7 => {
            let digits = |byte: &u8| byte.is_ascii_digit();
            let from = at + input[at..].iter().position(digits).unwrap_or(0);
            let to = from + input[from..].iter().take_while(|byte| digits(byte)).count();
            input.splice(from..to, TEXTS[chance.below(TEXTS.len())].bytes());
        }
        _ => {
            let other = &seeds[chance.below(seeds.len())];
            input.truncate(at);
            input.extend_from_slice(&other[chance.below(other.len())..]);
        }
    }
}
