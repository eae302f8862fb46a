//! A body: `cmd=NAME;` and fields `key=value;`, with `;` doubled inside values.
use super::frames::{TooLong, frame};
use super::{ParseError, ThreadId, quote};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Most fields of one message.
pub const FIELDS_MAX: usize = 16_384;

/// A body taken apart.
pub(super) struct Fields<'a> {
    /// Name of the command on the wire.
    pub(super) name: Cow<'a, [u8]>,
    pub(super) thread: Option<ThreadId>,
    /// The others, in order; keys may come more than once (in a spawn).
    pairs: Vec<(&'a [u8], Cow<'a, [u8]>)>,
}

impl<'a> Fields<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut rest = body;
        let no_command = || ParseError::NoCommand(quote(body));
        let (first, name) = take_pair(&mut rest).map_err(|_| no_command())?;
        if first != b"cmd" {
            return Err(no_command());
        }
        let mut fields = Fields { name, thread: None, pairs: Vec::new() };
        while !rest.is_empty() {
            let (key, value) = take_pair(&mut rest)?;
            if key == b"thrid" {
                fields.thread = Some(ThreadId(value.into_owned()));
            } else if fields.pairs.len() == FIELDS_MAX {
                return Err(ParseError::TooManyFields);
            } else {
                fields.pairs.push((key, value));
            }
        }
        Ok(fields)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &[u8])> {
        self.pairs.iter().map(|(key, value)| (*key, value.as_ref()))
    }

    /// The first value of `key`.
    pub(super) fn find(&self, key: &str) -> Option<&[u8]> {
        self.iter().find(|pair| pair.0 == key.as_bytes()).map(|pair| pair.1)
    }

    /// The value of `key`, or an error that names it.
    pub(super) fn need(&self, command: &'static str, key: &'static str) -> Result<Vec<u8>, ParseError> {
        self.find(key).map(<[u8]>::to_vec).ok_or(ParseError::Missing { command, field: key })
    }

    /// The number under `key`, if it is there.
    pub(super) fn number<T: TryFrom<i64>>(
        &self,
        command: &'static str,
        key: &'static str,
    ) -> Result<Option<T>, ParseError> {
        self.find(key).map(|value| number(command, key, value)).transpose()
    }

    /// The number under `key`, or an error that names it.
    pub(super) fn need_number<T: TryFrom<i64>>(
        &self,
        command: &'static str,
        key: &'static str,
    ) -> Result<T, ParseError> {
        self.number(command, key)?.ok_or(ParseError::Missing { command, field: key })
    }

    /// Is the value of `key` TRUE? Slurm ignores the case of it, so this does.
    pub(super) fn is_true(&self, key: &str) -> bool {
        self.find(key).is_some_and(|value| value.eq_ignore_ascii_case(b"TRUE"))
    }
}

pub(super) fn number<T: TryFrom<i64>>(
    command: &'static str,
    field: &'static str,
    value: &[u8],
) -> Result<T, ParseError> {
    let parsed = core::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<i64>().ok());
    parsed.and_then(|wide| T::try_from(wide).ok()).ok_or_else(|| ParseError::BadNumber {
        command,
        field,
        value: quote(value),
    })
}

/// Takes `key=value;` from the front. The last `;` of a body may be missing.
fn take_pair<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], Cow<'a, [u8]>), ParseError> {
    let all = *rest;
    let stop = all.iter().position(|&b| b == b'=' || b == b';');
    let equals = stop.filter(|&at| all[at] == b'=').ok_or_else(|| ParseError::NoValue(quote(all)))?;
    let (value, end) = take_value(&all[equals + 1..]);
    *rest = &all[equals + 1 + end..];
    Ok((&all[..equals], value))
}

/// The value, undoubled, and how many bytes it took with its end.
fn take_value(bytes: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let mut owned: Option<Vec<u8>> = None;
    let mut from = 0;
    loop {
        let semicolon = bytes[from..].iter().position(|&b| b == b';').map(|at| from + at);
        let end = semicolon.unwrap_or(bytes.len());
        let doubled = bytes.get(end + 1) == Some(&b';');
        match (&mut owned, doubled) {
            (_, true) => {
                owned.get_or_insert_default().extend_from_slice(&bytes[from..=end]);
                from = end + 2;
            }
            (None, false) => return (Cow::Borrowed(&bytes[..end]), (end + 1).min(bytes.len())),
            (Some(value), false) => {
                value.extend_from_slice(&bytes[from..end]);
                return (Cow::Owned(core::mem::take(value)), (end + 1).min(bytes.len()));
            }
        }
    }
}

/// Appends fields to a body that has been begun.
pub(super) struct Body<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Body<'o> {
    /// Appends one frame: the command, the thread, and the fields that `write` adds.
    pub(super) fn emit(
        out: &'o mut Vec<u8>,
        name: &[&str],
        thread: Option<&ThreadId>,
        write: impl FnOnce(&mut Body<'_>),
    ) -> Result<(), TooLong> {
        frame(out, |out| {
            out.extend_from_slice(b"cmd=");
            name.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
            out.push(b';');
            let mut body = Body { out };
            if let Some(thread) = thread {
                body.field("thrid", &thread.0);
            }
            write(&mut body);
        })
    }

    pub(super) fn field(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'=');
        for &byte in value {
            if byte == b';' {
                self.out.push(b';');
            }
            self.out.push(byte);
        }
        self.out.push(b';');
        self
    }

    pub(super) fn number(&mut self, key: &str, value: i64) -> &mut Self {
        self.field(key, alloc::format!("{value}").as_bytes())
    }

    pub(super) fn truth(&mut self, key: &str, value: bool) -> &mut Self {
        self.field(key, if value { b"TRUE" } else { b"FALSE" })
    }

    /// `keyN=value;`
    pub(super) fn indexed(&mut self, key: &str, index: usize, value: &[u8]) -> &mut Self {
        self.field(&alloc::format!("{key}{index}"), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_semicolons_are_part_of_the_value() {
        let fields = Fields::parse(b"cmd=x;thrid=7;a=;;1;;2;;;b=;c==;;;d=9").unwrap();
        assert_eq!((&fields.name[..], fields.thread.as_ref()), (&b"x"[..], Some(&ThreadId(b"7".to_vec()))));
        let pairs: Vec<_> = fields.iter().collect();
        assert_eq!(pairs, [(&b"a"[..], &b";1;2;"[..]), (b"b", b""), (b"c", b"=;"), (b"d", b"9")]);
    }

    #[test]
    fn what_is_no_field_is_quoted() {
        let error = |body: &[u8]| Fields::parse(body).err().unwrap().to_string();
        use std::string::ToString;
        assert_eq!(error(b""), "PMI-2 message without a command: ''");
        assert_eq!(error(b"key=1;"), "PMI-2 message without a command: 'key=1;'");
        assert_eq!(error(b"cmd=x;junk;a=1;"), "PMI-2 field without a value: 'junk;a=1;'");
    }
}
