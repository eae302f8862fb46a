//! Texts with placeholders: names of output files and marks on lines. Pure.
use proto::ids::NodeId;
use proto::tree::Member;

/// Longest pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// A text with `%r` (rank), `%h` (host or emulated node), `%p` (the node's number; Hydra's proxy), `%g` or `%w` (group, or world:
/// 0 for the job's own ranks, 1 and so on for spawned ones) and `%%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Rank,
    Host,
    Node,
    Group,
}

/// Where a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The rank.
    pub who: Member,
    /// Its node, counted among those of its job.
    pub node: NodeId,
    /// What the node is called.
    pub host: &'a str,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A placeholder that means nothing here.
    #[error("'%{0}' is none of %r (rank), %h (host), %p (node), %g or %w (group) and %%")]
    Unknown(char),
    /// It ends in a single `%`.
    #[error("it ends in a single '%'")]
    Unfinished,
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it is longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                plain.push(letter);
                continue;
            }
            let piece = match letters.next() {
                Some('%') => {
                    plain.push('%');
                    continue;
                }
                Some('r') => Piece::Rank,
                Some('h') => Piece::Host,
                Some('p') => Piece::Node,
                Some('g' | 'w') => Piece::Group,
                Some(other) => return Err(PatternError::Unknown(other)),
                None => return Err(PatternError::Unfinished),
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Pattern { pieces })
    }

    /// The text for what comes from there.
    pub fn fill(&self, from: Origin<'_>) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Rank => from.who.rank.to_string(),
            Piece::Host => from.host.to_owned(),
            Piece::Node => from.node.to_string(),
            Piece::Group => from.who.job.0.to_string(),
        };
        self.pieces.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::Rank;
    use proto::lane::JobId;

    #[test]
    fn placeholders_are_filled() {
        let who = Member { job: JobId(2), rank: Rank(3) };
        let from = Origin { who, node: NodeId(1), host: "n07" };
        let fill = |text: &str| Pattern::parse(text).unwrap().fill(from);
        assert_eq!(fill("out.%r.%h.%p"), "out.3.n07.1");
        assert_eq!(fill("100%%%w%g"), "100%22");
        assert_eq!(fill("plain"), "plain");
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        let error = |text: &str| Pattern::parse(text).unwrap_err();
        assert_eq!(error("a%q"), PatternError::Unknown('q'));
        assert_eq!(error("a%"), PatternError::Unfinished);
        assert_eq!(error(""), PatternError::Empty);
        assert_eq!(error(&"x".repeat(PATTERN_BYTES_MAX + 1)), PatternError::TooLong);
    }
}
