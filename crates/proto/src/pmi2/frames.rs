//! Cuts a byte stream into bodies, and puts the length in front of one.
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of the length in front of a body.
pub const HEADER_BYTES: usize = 6;
/// Most bytes of one body, as in `libpmi2`.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Most bytes that wait to be cut: one body and what one read may bring behind it.
const WAITING_BYTES_MAX: usize = HEADER_BYTES + 4 * BODY_BYTES_MAX;

/// Why the stream is of no use any more, or why a message cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    /// A body over the bound.
    #[error("PMI-2 message of {0} bytes, at most {BODY_BYTES_MAX} are allowed")]
    Body(usize),
    /// More was pushed than is ever in flight.
    #[error("more than {WAITING_BYTES_MAX} bytes of PMI-2 messages at once")]
    Waiting,
    /// Six characters that are no length.
    #[error("PMI-2 frame with '{0}' for a length")]
    NoLength(String),
}

/// Bytes in, bodies out.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Appends what was read. Take all bodies before pushing more: the bound is on what is left.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
            return Err(TooLong::Waiting);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole body, or `None` until more is pushed.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = &self.bytes[self.taken..];
        let Some((header, rest)) = rest.split_at_checked(HEADER_BYTES) else { return Ok(None) };
        let length = length(header)?;
        if rest.len() < length {
            return Ok(None);
        }
        let from = self.taken + HEADER_BYTES;
        self.taken = from + length;
        Ok(Some(&self.bytes[from..from + length]))
    }

    /// Is the start of a frame waiting for its end?
    pub fn has_partial(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

/// The number, justified left or right.
fn length(header: &[u8]) -> Result<usize, TooLong> {
    let text = header.trim_ascii();
    let wrong = || TooLong::NoLength(String::from_utf8_lossy(header).into_owned());
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(wrong());
    }
    // At most six digits, so this cannot overflow.
    let length = text.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    if length > BODY_BYTES_MAX { Err(TooLong::Body(length)) } else { Ok(length) }
}

/// Appends a frame whose body `write` appends. On error `out` is as it was.
pub(super) fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), TooLong> {
    let start = out.len();
    out.extend_from_slice(&[b' '; HEADER_BYTES]);
    write(out);
    let length = out.len() - start - HEADER_BYTES;
    if length > BODY_BYTES_MAX {
        out.truncate(start);
        return Err(TooLong::Body(length));
    }
    // To the left, as libpmi2 does it.
    let digits = alloc::format!("{length}");
    out[start..start + digits.len()].copy_from_slice(digits.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(stream: &[u8], cut: usize) -> Vec<Vec<u8>> {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for piece in stream.chunks(cut) {
            frames.push(piece).unwrap();
            while let Some(body) = frames.next_body().unwrap() {
                seen.push(body.to_vec());
            }
        }
        assert!(!frames.has_partial());
        seen
    }

    #[test]
    fn bodies_come_out_whole_however_the_bytes_arrive_and_lengths_are_justified() {
        let stream = b"10    cmd=a;b=c;     6cmd=x;0     000006cmd=y;";
        for cut in 1..stream.len() {
            assert_eq!(bodies(stream, cut), [&b"cmd=a;b=c;"[..], b"cmd=x;", b"", b"cmd=y;"]);
        }
    }

    #[test]
    fn wrong_lengths_are_quoted_and_long_bodies_refused_before_they_arrive() {
        let first = |stream: &[u8]| {
            let mut frames = Frames::default();
            frames.push(stream).unwrap();
            frames.next_body().map(|body| body.is_some()).unwrap_err()
        };
        assert_eq!(first(b"cmd=in"), TooLong::NoLength("cmd=in".into()));
        assert_eq!(first(b"      "), TooLong::NoLength("      ".into()));
        assert_eq!(first(b"-1    "), TooLong::NoLength("-1    ".into()));
        assert_eq!(first(b"999999"), TooLong::Body(999_999));
    }

    #[test]
    fn a_stream_that_nobody_takes_from_is_bounded() {
        let mut frames = Frames::default();
        let refused = (0..1 << 20).find_map(|_| frames.push(&[b'0'; 4096]).err());
        assert_eq!(refused, Some(TooLong::Waiting));
    }

    #[test]
    fn a_body_that_is_too_long_is_not_sent() {
        let mut out = b"before".to_vec();
        let refused = frame(&mut out, |out| out.resize(out.len() + BODY_BYTES_MAX + 1, b'x'));
        assert_eq!((refused, &out[..]), (Err(TooLong::Body(BODY_BYTES_MAX + 1)), &b"before"[..]));
    }
}
