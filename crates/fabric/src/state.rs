//! The states of a queue pair and the moves between them: one table.
use core::fmt;

/// State of a queue pair, as in verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Made, and nothing else.
    Reset,
    /// Has a receive ring; knows no peer.
    Init,
    /// May receive.
    ReadyToReceive,
    /// May send and receive.
    ReadyToSend,
    /// Finishes what was posted; takes nothing new.
    SendDrained,
    /// Broken.
    Error,
}

use QpState::*;

/// Every legal move. Any state may also go to `Error`, and from `Error` to `Reset`.
pub const EDGES: &[(QpState, QpState)] = &[
    (Reset, Init),
    (Init, ReadyToReceive),
    (ReadyToReceive, ReadyToSend),
    (ReadyToSend, SendDrained),
    (SendDrained, ReadyToSend),
    (Init, Reset),
    (ReadyToReceive, Reset),
    (ReadyToSend, Reset),
    (SendDrained, Reset),
    (Error, Reset),
];

/// A move that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalMove {
    /// Number of the queue pair.
    pub qp: u32,
    /// Where it is, and stays.
    pub from: QpState,
    /// Where it was to go.
    pub to: QpState,
}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue pair {:#x} cannot go from {:?} to {:?}", self.qp, self.from, self.to)
    }
}

impl std::error::Error for IllegalMove {}

/// Checks a move.
pub fn check(qp: u32, from: QpState, to: QpState) -> Result<(), IllegalMove> {
    if to == Error || EDGES.contains(&(from, to)) { Ok(()) } else { Err(IllegalMove { qp, from, to }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_is_this_one() {
        let all = [Reset, Init, ReadyToReceive, ReadyToSend, SendDrained, Error];
        let mut graph = String::new();
        for from in all {
            let to: Vec<_> =
                all.iter().filter(|to| check(1, from, **to).is_ok()).map(|s| format!("{s:?}")).collect();
            graph += &format!("{from:?} -> {}\n", to.join(" "));
        }
        assert_eq!(
            graph,
            "Reset -> Init Error\n\
             Init -> Reset ReadyToReceive Error\n\
             ReadyToReceive -> Reset ReadyToSend Error\n\
             ReadyToSend -> Reset SendDrained Error\n\
             SendDrained -> Reset ReadyToSend Error\n\
             Error -> Reset Error\n"
        );
    }

    #[test]
    fn an_illegal_move_names_both_states() {
        let refused = check(0x1a, Init, ReadyToSend).unwrap_err();
        assert_eq!(refused.to_string(), "queue pair 0x1a cannot go from Init to ReadyToSend");
    }
}
