//! What a process tells the others of a group before they reach its memory.
//!
//! ```text
//!   Show: the own token      small messages: everybody gets all tokens      Decide: the same everywhere
//! ```
//! A token says where the process and its two buffers are, and what it knows of reaching the others' memory. Who has not
//! tried yet makes everybody try: each reads a word that the other process has told, so that a number that means another
//! process here (a container has its own) is found out, and writes it back. Then the tokens are exchanged once more. What
//! all have in hand is the same table, so all decide alike.
use core::num::NonZeroU32;

/// Bytes of a token: one cache line.
pub const TOKEN_BYTES: usize = 64;

/// What a process knows of reaching the memory of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// It has not tried.
    #[default]
    Untried,
    /// It can reach all of them.
    Works,
    /// It cannot, or may not.
    Fails,
}

/// What an operation is, as far as all processes must mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meant {
    /// Bytes of the data.
    pub bytes: u64,
    /// Which operation, with which root, and how the data is cut.
    pub call: u64,
}

/// A process and its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number for the kernel.
    pub process: NonZeroU32,
    /// Whom error messages name.
    pub rank: u32,
    /// What it knows.
    pub reach: Reach,
    /// Where `secret` stands in its memory.
    pub secret_at: u64,
    /// A random number of its choosing.
    pub secret: u64,
    /// The address of its input.
    pub input: u64,
    /// The address of its output.
    pub output: u64,
    /// The operation, as it sees it.
    pub meant: Meant,
}

impl Token {
    /// As it travels.
    pub fn encode(&self) -> [u8; TOKEN_BYTES] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [
            pair(self.process.get(), self.rank),
            self.reach as u64,
            self.secret_at,
            self.secret,
            self.input,
            self.output,
            self.meant.bytes,
            self.meant.call,
        ];
        let mut bytes = [0; TOKEN_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` for what no process writes.
    pub fn decode(bytes: &[u8; TOKEN_BYTES]) -> Option<Token> {
        let word = |i: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
            u64::from_le_bytes(word)
        };
        let reach = match word(1) {
            0 => Reach::Untried,
            1 => Reach::Works,
            2 => Reach::Fails,
            _ => return None,
        };
        Some(Token {
            process: NonZeroU32::new(word(0) as u32)?,
            rank: (word(0) >> 32) as u32,
            reach,
            secret_at: word(2),
            secret: word(3),
            input: word(4),
            output: word(5),
            meant: Meant { bytes: word(6), call: word(7) },
        })
    }
}

/// What all tokens together say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everybody reaches everybody.
    Direct,
    /// Somebody does not.
    Messages,
    /// Somebody has to try.
    Try,
    /// Two mean different operations or amounts of data: the program's mistake. The first that differs from the first of
    /// all.
    Mismatch {
        /// Its token.
        other: Token,
    },
    /// Not a table of tokens.
    Nonsense,
}

/// Decides. The first token is that of the first member.
pub fn verdict(tokens: impl Iterator<Item = Option<Token>>) -> Verdict {
    let mut first: Option<Meant> = None;
    let mut verdict = Verdict::Direct;
    for token in tokens {
        let Some(token) = token else { return Verdict::Nonsense };
        if *first.get_or_insert(token.meant) != token.meant {
            return Verdict::Mismatch { other: token };
        }
        verdict = match (verdict, token.reach) {
            (Verdict::Messages, _) | (_, Reach::Fails) => Verdict::Messages,
            (Verdict::Try, _) | (_, Reach::Untried) => Verdict::Try,
            (verdict, Reach::Works) => verdict,
        };
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(reach: Reach, bytes: u64) -> Option<Token> {
        let (process, meant) = (NonZeroU32::MIN, Meant { bytes, call: 7 });
        Some(Token { process, rank: 0, reach, secret_at: 0, secret: 0, input: 0, output: 0, meant })
    }

    proptest! {
        #[test]
        fn a_token_says_what_was_written(
            numbers in any::<[u64; 6]>(), process in 1..u32::MAX, rank in any::<u32>(), reach in 0..3usize,
        ) {
            let [secret_at, secret, input, output, bytes, call] = numbers;
            let meant = Meant { bytes, call };
            let process = NonZeroU32::new(process).unwrap();
            let reach = [Reach::Untried, Reach::Works, Reach::Fails][reach];
            let token = Token { process, rank, reach, secret_at, secret, input, output, meant };
            prop_assert_eq!(Token::decode(&token.encode()), Some(token));
        }

        #[test]
        fn any_bytes_are_a_token_or_not(bytes in any::<[[u8; 32]; 2]>()) {
            let mut whole = [0; TOKEN_BYTES];
            whole.copy_from_slice(bytes.as_flattened());
            if let Some(token) = Token::decode(&whole) {
                prop_assert_eq!(token.encode(), whole);
            }
        }
    }

    #[test]
    fn one_that_fails_is_enough_for_messages_and_one_untried_for_a_try() {
        use Reach::{Fails, Untried, Works};
        let all = |reach: &[Reach]| verdict(reach.iter().map(|reach| token(*reach, 8)));
        assert_eq!(all(&[Works, Works]), Verdict::Direct);
        assert_eq!(all(&[Works, Untried, Works]), Verdict::Try);
        assert_eq!(all(&[Untried, Fails, Works]), Verdict::Messages);
        assert_eq!(all(&[Fails, Untried]), Verdict::Messages);
    }

    #[test]
    fn different_amounts_of_data_or_operations_are_a_mistake_whatever_else() {
        let mut other = token(Reach::Works, 8).unwrap();
        other.meant.call += 1;
        let tokens = [token(Reach::Works, 8), Some(other)];
        assert_eq!(verdict(tokens.into_iter()), Verdict::Mismatch { other });
        let tokens = [token(Reach::Fails, 8), token(Reach::Works, 8), token(Reach::Works, 9)];
        assert_eq!(verdict(tokens.into_iter()), Verdict::Mismatch { other: tokens[2].unwrap() });
        assert_eq!(verdict([tokens[0], None].into_iter()), Verdict::Nonsense);
    }
}
