//! Fields of a line: `key=value` pairs delimited by the keys known for the command.
use super::{ParseError, quote};

/// The fields of one line whose command is known.
pub(super) struct Fields<'a> {
    command: &'static str,
    known: &'static [&'static str],
    rest: &'a [u8],
}

/// Splits off the command: its name, and the rest from the blank on.
pub(super) fn split_command(line: &[u8]) -> Result<(&[u8], &[u8]), ParseError> {
    let line = trim_end(line);
    let body = line.strip_prefix(b"cmd=").ok_or_else(|| ParseError::NoCommand(quote(line)))?;
    let end = body.iter().position(|&b| b == b' ').unwrap_or(body.len());
    Ok(body.split_at(end))
}

impl<'a> Fields<'a> {
    /// The fields of `rest`, in which only the `known` keys begin a field.
    pub(super) fn new(command: &'static str, known: &'static [&'static str], rest: &'a [u8]) -> Self {
        Fields { command, known, rest }
    }

    /// The value of `key`, if it is there. The last known key extends to the end of the line, so a value
    /// may contain anything there.
    pub(super) fn find(&self, key: &str) -> Option<&'a [u8]> {
        let at = (0..self.rest.len()).find(|&at| starts_field(&self.rest[at..], key))?;
        let value = &self.rest[at + key.len() + 2..];
        let is_last = self.known.last().is_some_and(|last| *last == key);
        let end = if is_last { value.len() } else { self.next_field(value) };
        Some(&value[..end])
    }

    /// The value of `key`, or an error that names it.
    pub(super) fn need(&self, key: &'static str) -> Result<&'a [u8], ParseError> {
        self.find(key).ok_or(ParseError::Missing { command: self.command, field: key })
    }

    /// The number under `key`; `default` if the key is absent.
    pub(super) fn number(&self, key: &'static str, default: Option<i64>) -> Result<i64, ParseError> {
        let Some(value) = self.find(key) else {
            return default.ok_or(ParseError::Missing { command: self.command, field: key });
        };
        // A number ends at a blank whatever follows: replies of other servers carry keys not known here.
        let word = value.split(|&b| b == b' ').next().unwrap_or_default();
        number(word).ok_or_else(|| ParseError::BadNumber {
            command: self.command,
            field: key,
            value: quote(word),
        })
    }

    /// The number under `key` as a narrower type.
    pub(super) fn int<T: TryFrom<i64>>(
        &self,
        key: &'static str,
        default: Option<i64>,
    ) -> Result<T, ParseError> {
        let wide = self.number(key, default)?;
        T::try_from(wide).map_err(|_| ParseError::BadNumber {
            command: self.command,
            field: key,
            value: quote(self.find(key).unwrap_or_default()),
        })
    }

    fn next_field(&self, value: &[u8]) -> usize {
        (0..value.len())
            .find(|&at| self.known.iter().any(|key| starts_field(&value[at..], key)))
            .unwrap_or(value.len())
    }
}

/// Does ` key=` begin here?
fn starts_field(bytes: &[u8], key: &str) -> bool {
    bytes.first() == Some(&b' ')
        && bytes[1..].starts_with(key.as_bytes())
        && bytes.get(key.len() + 1) == Some(&b'=')
}

/// A decimal number with an optional sign; blanks around it are ignored.
pub(super) fn number(bytes: &[u8]) -> Option<i64> {
    core::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn trim_end(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n' | b'\r'] = line {
        line = rest;
    }
    line
}
