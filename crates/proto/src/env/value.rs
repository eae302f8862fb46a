//! What a variable may be, and reading it as that.
use super::net::{FabricChoice, NetAddress, NetChoice, PortRange};
use alloc::string::String;
use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;

/// Longest time that can be asked for: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;
/// So much of a value is quoted in an error.
const QUOTE_LETTERS_MAX: usize = 64;

/// What a variable may be. As text it completes "is not ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// `on` or `off`.
    Switch,
    /// A number, from the first to the last.
    Number(u64, u64),
    /// A number of bytes, with a unit if need be.
    Bytes,
    /// A number of seconds, with a fraction if need be.
    Seconds,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A [`NetChoice`].
    Net,
    /// A [`FabricChoice`].
    Fabric,
    /// A [`PortRange`].
    Ports,
    /// A [`NetAddress`].
    Address,
    /// Where a segment is.
    Locator,
    /// Any text.
    Text,
}

/// A value that a variable cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: '{value}' is not {wanted}")]
pub struct BadValue {
    /// The variable.
    pub name: &'static str,
    /// The beginning of its value.
    pub value: String,
    /// What it should be.
    pub wanted: Values,
}

impl Values {
    /// May a variable of this kind have that value?
    pub fn check(self, name: &'static str, value: &str) -> Result<(), BadValue> {
        let fits = match self {
            Values::Switch => parse_switch(value).is_some(),
            Values::Number(first, last) => parse_number(value, first..=last).is_some(),
            Values::Bytes => parse_bytes(value).is_some(),
            Values::Seconds => parse_seconds(value).is_some(),
            Values::Words(words) => words.contains(&value),
            Values::Net => NetChoice::parse(value).is_some(),
            Values::Fabric => FabricChoice::parse(value).is_some(),
            Values::Ports => PortRange::parse(value).is_some(),
            Values::Address => NetAddress::parse(value).is_some(),
            Values::Locator | Values::Text => true,
        };
        if fits { Ok(()) } else { Err(bad(name, value, self)) }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Switch => f.write_str("'on' or 'off'"),
            Values::Number(first, last) => write!(f, "a number from {first} to {last}"),
            Values::Bytes => f.write_str("a number of bytes such as 65536, 64K or 2M"),
            Values::Seconds => f.write_str("a number of seconds"),
            Values::Words(words) => {
                for (at, word) in words.iter().enumerate() {
                    let before = [", ", " or "][usize::from(at + 1 == words.len())];
                    write!(f, "{}'{word}'", if at == 0 { "" } else { before })?;
                }
                Ok(())
            }
            Values::Net => f.write_str("an interface or a network such as eth0 or 10.1.0.0/16"),
            Values::Fabric => f.write_str("auto, soft, sockets, verbs or verbs:mlx5_0:1"),
            Values::Ports => f.write_str("a range of ports such as 40000-40999"),
            Values::Address => f.write_str("an address such as 10.1.0.5 or fe80::5%eth0"),
            Values::Locator => f.write_str("a segment's place (process:descriptor:start)"),
            Values::Text => f.write_str("a text"),
        }
    }
}

/// `on` or `off`.
pub fn switch(name: &'static str, value: &str) -> Result<bool, BadValue> {
    parse_switch(value).ok_or_else(|| bad(name, value, Values::Switch))
}

/// A number in a range.
pub fn number(name: &'static str, value: &str, range: RangeInclusive<u64>) -> Result<u64, BadValue> {
    let wanted = Values::Number(*range.start(), *range.end());
    parse_number(value, range).ok_or_else(|| bad(name, value, wanted))
}

/// A number of bytes: 65536, 64K, 2M, 1G; also with `iB` or `B` behind the unit.
pub fn bytes(name: &'static str, value: &str) -> Result<u64, BadValue> {
    parse_bytes(value).ok_or_else(|| bad(name, value, Values::Bytes))
}

/// A time in seconds, with a fraction if need be.
pub fn seconds(name: &'static str, value: &str) -> Result<Duration, BadValue> {
    parse_seconds(value).ok_or_else(|| bad(name, value, Values::Seconds))
}

/// One of some words: its index.
pub fn word(name: &'static str, value: &str, words: &'static [&'static str]) -> Result<usize, BadValue> {
    let at = words.iter().position(|word| *word == value);
    at.ok_or_else(|| bad(name, value, Values::Words(words)))
}

pub(super) fn bad(name: &'static str, value: &str, wanted: Values) -> BadValue {
    BadValue { name, value: value.chars().take(QUOTE_LETTERS_MAX).collect(), wanted }
}

fn parse_switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn parse_number(value: &str, range: RangeInclusive<u64>) -> Option<u64> {
    value.parse().ok().filter(|number| range.contains(number))
}

fn parse_bytes(value: &str) -> Option<u64> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let shift = match value[digits..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return None,
    };
    value[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn parse_seconds(value: &str) -> Option<Duration> {
    // The language's own reading knows infinities and exponents too.
    let is_plain = value.bytes().all(|letter| letter.is_ascii_digit() || letter == b'.');
    let seconds: f64 = value.parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn each_kind_is_read_or_named() {
        assert_eq!(switch("S", "off"), Ok(false));
        assert_eq!(switch("S", "0").unwrap_err().to_string(), "S: '0' is not 'on' or 'off'");
        assert_eq!(number("N", "5", 1..=9), Ok(5));
        assert_eq!(number("N", "10", 1..=9).unwrap_err().to_string(), "N: '10' is not a number from 1 to 9");
        assert!(number("N", "-1", 0..=9).is_err() && number("N", " 1", 0..=9).is_err());
        assert_eq!(seconds("T", "2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(seconds("T", "0"), Ok(Duration::ZERO));
        for text in ["", "-1", "inf", "nan", "1e3", "1s", "99999999999", "1.2.3"] {
            assert!(seconds("T", text).is_err(), "{text}");
        }
        assert_eq!(word("W", "b", &["a", "b", "c"]), Ok(1));
        assert_eq!(
            word("W", "d", &["a", "b", "c"]).unwrap_err().to_string(),
            "W: 'd' is not 'a', 'b' or 'c'"
        );
    }

    #[test]
    fn long_values_are_quoted_in_part() {
        let long: String = "é".repeat(500);
        assert_eq!(switch("S", &long).unwrap_err().value.chars().count(), QUOTE_LETTERS_MAX);
    }
}
