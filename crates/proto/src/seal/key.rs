//! The key of a job and numbers used once.
use alloc::string::String;
use core::fmt;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;

/// The secret that all agents of a job share. It is never printed but by [`Key::hex`].
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

/// Why a text is no key. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too short or too long.
    #[error("a key has {digits} hexadecimal digits, this has {0} characters", digits = 2 * KEY_BYTES)]
    Length(usize),
    /// Something else among the digits.
    #[error("character {0} of the key is no hexadecimal digit")]
    Digit(usize),
}

impl Key {
    /// A key from bytes that nobody can guess.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Key(bytes)
    }

    /// The key that [`Key::hex`] wrote; blanks and newlines around it do not matter.
    pub fn parse_hex(text: &[u8]) -> Result<Self, KeyError> {
        let digits = text.trim_ascii();
        if digits.len() != 2 * KEY_BYTES {
            return Err(KeyError::Length(digits.len()));
        }
        let digit = |at: usize| {
            let value = char::from(digits[at]).to_digit(16);
            value.map(|value| value as u8).ok_or(KeyError::Digit(at + 1))
        };
        let mut bytes = [0; KEY_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = digit(2 * at)? << 4 | digit(2 * at + 1)?;
        }
        Ok(Key(bytes))
    }

    /// The key as text, for a file or a pipe that only the job's owner reads.
    pub fn hex(&self) -> String {
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect()
    }

    /// The keyed hash of `parts`, one behind the other.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        *hasher.finalize().as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A number used once: random, of one side of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce(pub [u8; NONCE_BYTES]);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_key_is_read_as_it_was_written_and_debugging_does_not_show_it() {
        let key = Key::new(core::array::from_fn(|at| at as u8 * 7));
        let text = key.hex();
        assert_eq!(text.len(), 2 * KEY_BYTES);
        assert!(text.starts_with("00070e15"));
        let read = Key::parse_hex(format!(" {}\n", text.to_uppercase()).as_bytes()).unwrap();
        assert_eq!(read.0, key.0);
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    #[test]
    fn what_is_no_key_is_refused_without_repeating_it() {
        assert_eq!(Key::parse_hex(b"abcd").unwrap_err(), KeyError::Length(4));
        let mut text = [b'a'; 64];
        text[9] = b'g';
        let error = Key::parse_hex(&text).unwrap_err();
        assert_eq!(format!("{error}"), "character 10 of the key is no hexadecimal digit");
    }
}
