//! The last words of a rank: the end of what it wrote to standard error. Pure.
use std::fmt::Write;

/// Bytes kept.
const WORDS_BYTES_MAX: usize = 512;
/// Lines told.
const WORDS_LINES_MAX: usize = 3;

/// The end of a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    tail: Vec<u8>,
    /// Is the beginning of the tail the middle of a line?
    cut: bool,
}

impl LastWords {
    /// More was written.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(WORDS_BYTES_MAX)..];
        let room = WORDS_BYTES_MAX - kept.len();
        let gone = self.tail.len().saturating_sub(room);
        let last_gone = if kept.len() < bytes.len() {
            self.tail.clear();
            Some(bytes[bytes.len() - kept.len() - 1])
        } else {
            self.tail.drain(..gone).next_back()
        };
        if let Some(last) = last_gone {
            self.cut = last != b'\n';
        }
        self.tail.extend_from_slice(kept);
    }

    /// The last lines, one behind the other and fit for a message: nothing in them steers a terminal.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.tail);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let whole = lines.iter().enumerate().filter(|(at, line)| {
            let is_rest = *at == 0 && self.cut && lines.len() > 1;
            !line.is_empty() && !is_rest
        });
        let told: Vec<&str> = whole.map(|(_, line)| *line).collect();
        let mut words = String::new();
        for (at, line) in told[told.len().saturating_sub(WORDS_LINES_MAX)..].iter().enumerate() {
            let joint = if at == 0 { "" } else { " / " };
            let plain: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let _ = write!(words, "{joint}{plain}"); // a string takes all
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pieces: &[&[u8]]) -> String {
        let mut words = LastWords::default();
        pieces.iter().for_each(|piece| words.push(piece));
        words.text()
    }

    #[test]
    fn the_last_lines_are_told() {
        assert_eq!(words(&[]), "");
        assert_eq!(words(&[b"\n\n"]), "");
        assert_eq!(words(&[b"one\ntwo\n", b"thr", b"ee\n\nfour"]), "two / three / four");
    }

    #[test]
    fn nothing_in_them_steers_a_terminal() {
        assert_eq!(words(&[b"\x1b[2Jred\xff\talert\n"]), " [2Jred\u{fffd} alert");
    }

    #[test]
    fn much_is_bounded_and_a_line_cut_in_two_left_out() {
        let long = vec![b'x'; 3 * WORDS_BYTES_MAX];
        assert_eq!(words(&[&long]).len(), WORDS_BYTES_MAX);
        assert_eq!(words(&[&long, b"\nend\n"]), "end");
        assert_eq!(words(&[b"a\n", &long[..WORDS_BYTES_MAX]]).len(), WORDS_BYTES_MAX);
        let line = [b"first\n", &long[..WORDS_BYTES_MAX - 4], b"\nend"].concat();
        let told = words(&[&line]);
        assert!(told.starts_with("xxx") && told.ends_with("x / end"), "{told}");
        let many = words(&[b"abc\n".repeat(1000).as_slice()]);
        assert_eq!(many, "abc / abc / abc");
    }
}
