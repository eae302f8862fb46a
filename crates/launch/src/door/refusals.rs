//! Connections that were turned away, and why.
use proto::seal::LinkError;
use proto::tree::FrameError;
use std::fmt;

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It does not hold the key, or speaks something else.
    Stranger,
    /// It repeated what an agent had said before.
    Replay,
    /// It announced more than is allowed.
    Oversized,
    /// It broke the protocol, or off.
    Malformed,
    /// It took too long.
    Late,
    /// It holds the key, and is not the agent that is waited for.
    UnexpectedNode,
    /// There were too many.
    Crowded,
}

/// Kind, and the words for one and for more of it.
const KINDS: [(Kind, &str, &str); 7] = [
    (Kind::Stranger, "stranger", "strangers"),
    (Kind::Replay, "replay", "replays"),
    (Kind::Oversized, "oversized", "oversized"),
    (Kind::Malformed, "malformed", "malformed"),
    (Kind::Late, "late", "late"),
    (Kind::UnexpectedNode, "unexpected node", "unexpected nodes"),
    (Kind::Crowded, "crowded out", "crowded out"),
];

/// Connections that were refused, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    counts: [u64; KINDS.len()],
    last: Option<String>,
}

impl Refusals {
    /// Counts one; `what` names the peer and what was wrong.
    pub(crate) fn note(&mut self, kind: Kind, what: &str) {
        self.counts[kind as usize] += 1;
        self.last = Some(what.to_owned());
    }

    /// Counts the link of an agent that was in, and had to be closed.
    pub(crate) fn note_link(&mut self, error: &LinkError) {
        let kind = match error {
            LinkError::Frame(FrameError::Length(_)) => Kind::Oversized,
            LinkError::Replayed { .. } | LinkError::Reflected { .. } => Kind::Replay,
            LinkError::Forged { .. } => Kind::Stranger,
            LinkError::Frame(_) | LinkError::Skipped { .. } | LinkError::Broken => Kind::Malformed,
        };
        self.note(kind, &error.to_string());
    }

    /// How many of this kind.
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// How many in all.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Peer and reason of the last one.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        write!(f, "{total} connection{} refused", if total == 1 { "" } else { "s" })?;
        let mut between = ": ";
        for (kind, one, more) in KINDS {
            let count = self.count(kind);
            if count > 0 {
                write!(f, "{between}{count} {}", if count == 1 { one } else { more })?;
                between = ", ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_kinds_that_occurred() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.to_string(), "0 connections refused");
        refusals.note(Kind::Late, "a");
        assert_eq!(refusals.to_string(), "1 connection refused: 1 late");
        refusals.note(Kind::Stranger, "b");
        refusals.note(Kind::Stranger, "c");
        assert_eq!(refusals.to_string(), "3 connections refused: 2 strangers, 1 late");
        assert_eq!(refusals.last(), Some("c"));
    }

    #[test]
    fn every_kind_has_its_place_in_the_table() {
        assert!(KINDS.iter().enumerate().all(|(at, (kind, _, _))| *kind as usize == at));
    }
}
