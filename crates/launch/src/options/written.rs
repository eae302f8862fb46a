//! One option as it was written, and what its value can be.
use super::hosts::HostsError;
use super::words::FILE_BYTES_MAX;
use super::{DryForm, StatsForm, UsageError};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An option as it was written: its name without dashes, and the value behind `=`.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) name: String,
    pub(super) value: Option<OsString>,
}

impl Written {
    /// `None` if the word is no option.
    pub(super) fn new(word: &OsStr) -> Option<Self> {
        let bytes = word.as_bytes();
        let name = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-"))?;
        let (name, value) = match name.iter().position(|byte| *byte == b'=') {
            Some(at) => (&name[..at], Some(OsStr::from_bytes(&name[at + 1..]).to_owned())),
            None => (name, None),
        };
        // A value may be any bytes, such as the name of a file.
        let name = String::from_utf8_lossy(name).into_owned();
        let text = word.to_string_lossy().into_owned();
        (bytes.len() > 1 && bytes != b"--").then_some(Written { text, name, value })
    }

    /// The same under another name.
    pub(super) fn called(self, name: &str) -> Self {
        Written { name: name.into(), ..self }
    }

    /// `-n4`, as `-n 4`.
    pub(super) fn with_number(&self) -> Option<[OsString; 2]> {
        let digits = self.name.find(|letter: char| letter.is_ascii_digit())?;
        let (name, number) = self.name.split_at(digits);
        let is_number = number.bytes().all(|letter| letter.is_ascii_digit());
        let is_counter = matches!(name, "n" | "np" | "ppn" | "N");
        (is_number && is_counter && self.value.is_none()).then(|| [format!("-{name}").into(), number.into()])
    }

    pub(super) fn refused(&self, value: &str, reason: &'static str) -> UsageError {
        UsageError::Refused {
            option: format!("{} {value}", self.text.split('=').next().unwrap_or_default()),
            reason,
        }
    }

    /// `what`, for an option without a value.
    pub(super) fn alone<T>(&self, what: T) -> Result<T, UsageError> {
        if self.value.is_some() { Err(UsageError::NeedlessValue(self.text.clone())) } else { Ok(what) }
    }

    pub(super) fn bad_hosts(&self, error: HostsError) -> UsageError {
        UsageError::Hosts { option: self.text.clone(), error }
    }

    pub(super) fn bad(&self, value: &str, wanted: impl Into<Cow<'static, str>>) -> UsageError {
        UsageError::BadValue { option: self.text.clone(), value: value.into(), wanted: wanted.into() }
    }
}

/// What `--check` tells the library.
pub(super) fn check_word(written: &Written) -> Result<&'static str, UsageError> {
    match written.value.as_deref().map(OsStr::to_string_lossy).as_deref() {
        None | Some("on") => Ok("on"),
        Some("off") => Ok("off"),
        Some("strict") => Ok("strict"),
        Some(other) => Err(written.bad(other, "'on', 'off' or 'strict'")),
    }
}

/// What `--dry-run` prints.
pub(super) fn dry_form(written: &Written) -> Result<DryForm, UsageError> {
    match written.value.as_deref().map(OsStr::to_string_lossy).as_deref() {
        None => Ok(DryForm::Picture),
        Some("json") => Ok(DryForm::Json),
        Some(other) => Err(written.bad(other, "'json'")),
    }
}

pub(super) fn stats_form(written: &Written) -> Result<StatsForm, UsageError> {
    match written.value.as_deref().map(OsStr::to_string_lossy).as_deref() {
        None | Some("table") => Ok(StatsForm::Table),
        Some("json") => Ok(StatsForm::Json),
        Some("matrix") => Ok(StatsForm::Matrix),
        Some("table,matrix" | "matrix,table") => Ok(StatsForm::TableAndMatrix),
        Some("json,matrix" | "matrix,json") => Ok(StatsForm::JsonAndMatrix),
        Some(other) => {
            Err(written.bad(other, "'table', 'json', 'matrix', or one of the first two and 'matrix'"))
        }
    }
}

pub(super) fn read_bounded(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_may_have_a_value_of_any_bytes() {
        let new = |bytes: &[u8]| Written::new(OsStr::from_bytes(bytes));
        let file = new(b"--wdir=a\xff=b").unwrap();
        assert_eq!((file.name.as_str(), file.value.unwrap().as_bytes()), ("wdir", &b"a\xff=b"[..]));
        assert_eq!(new(b"-\xff").unwrap().name, "\u{fffd}");
        for word in [&b""[..], b"-", b"--", b"a", b"\xff-n"] {
            assert!(new(word).is_none(), "{word:?}");
        }
    }
}
