//! Cuts a byte stream into PMI-1 messages.
use alloc::vec::Vec;

/// Most bytes of one message (a spawn block is the largest by far).
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A message is longer than [`MESSAGE_BYTES_MAX`]; the stream is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PMI message longer than {MESSAGE_BYTES_MAX} bytes")]
pub struct TooLong;

/// Bytes in, messages out: a line, or the lines from `mcmd=` to `endcmd`. Empty lines are skipped.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    taken: usize,
}

const BLOCK_START: &[u8] = b"mcmd=";
const BLOCK_END: &[u8] = b"endcmd";

impl Lines {
    /// Appends what was read. Take all messages before pushing more: the bound is on what is left.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next complete message without its last newline, or `None` until more is pushed.
    pub fn next_message(&mut self) -> Option<&[u8]> {
        self.skip_empty_lines();
        let rest = &self.bytes[self.taken..];
        let end = if rest.starts_with(BLOCK_START) { block_end(rest)? } else { line_end(rest)? };
        let from = self.taken;
        self.taken += end + 1;
        Some(&self.bytes[from..from + end])
    }

    /// Is the start of a message waiting for its end?
    pub fn has_partial(&self) -> bool {
        self.bytes[self.taken..].iter().any(|&b| b != b'\n' && b != b'\r')
    }

    fn skip_empty_lines(&mut self) {
        while matches!(self.bytes.get(self.taken), Some(b'\n' | b'\r')) {
            self.taken += 1;
        }
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'\n')
}

/// Where the newline of the block's last line is.
fn block_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let end = at + line_end(&bytes[at..])?;
        if bytes[at..end].trim_ascii_end() == BLOCK_END {
            return Some(end);
        }
        at = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_the_bytes_arrive() {
        let stream = b"cmd=init pmi_version=1\n\n\ncmd=get_maxes\nmcmd=spawn\nnprocs=2\nendcmd\ncmd=x\n";
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for byte in stream {
            lines.push(&[*byte]).unwrap();
            while let Some(message) = lines.next_message() {
                seen.push(message.to_vec());
            }
        }
        let expected: [&[u8]; 4] =
            [b"cmd=init pmi_version=1", b"cmd=get_maxes", b"mcmd=spawn\nnprocs=2\nendcmd", b"cmd=x"];
        assert_eq!(seen, expected);
        assert!(!lines.has_partial());
    }

    #[test]
    fn a_message_without_end_is_bounded() {
        let mut lines = Lines::default();
        let chunk = [b'x'; 4096];
        let refused = (0..=MESSAGE_BYTES_MAX / chunk.len()).find_map(|_| lines.push(&chunk).err());
        assert_eq!(refused, Some(TooLong));
    }
}
