//! The bulletin board in this node's memory, where Banyan's own agent keeps one: what it holds needs no question.
use super::PmiError;
use sys::Locator;
use sys::board::{BoardReader, Lookup};

/// Where the agent says where it is.
const NAME: &str = "BANYAN_BOARD";

/// The node's board, as this process may trust it. Opened at the first look: a process that contacts nobody spends
/// nothing on it.
#[derive(Debug, Default)]
pub(super) enum Board {
    /// Not opened yet.
    At(Locator),
    /// Open.
    Open {
        reader: BoardReader,
        /// Fences that have to be over: what is here was put before them.
        fences: u64,
    },
    /// There is none, or it cannot be opened (another host's, another user's, one whose agent is gone):
    /// everything can be asked for.
    #[default]
    None,
}

impl Board {
    /// The board that the environment names.
    pub(super) fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Board, PmiError> {
        let Some(value) = get(NAME) else { return Ok(Board::None) };
        let wrong = |why: String| PmiError::Environment { name: NAME, value: value.clone(), why };
        value.parse().map(Board::At).map_err(|error: std::io::Error| wrong(error.to_string()))
    }

    /// This process enters a fence.
    pub(super) fn fence_begins(&mut self) {
        if let Board::Open { fences, .. } = self {
            *fences += 1;
        }
    }

    /// Opens the board. For a process whose fences are all over: no other can end without it, so the board's count
    /// of fences is what this process goes on counting from, whoever had its rank before.
    pub(super) fn open(&mut self) {
        if let Board::At(at) = self {
            let opened = BoardReader::open(at);
            *self = opened.map_or(Board::None, |reader| Board::Open { fences: reader.fences(), reader });
        }
    }

    /// The value of a key that was put before the last fence, if the board is open, the fence over and the value here.
    pub(super) fn get(&mut self, key: &str) -> Option<String> {
        let Board::Open { reader, fences } = self else { return None };
        if reader.fences() < *fences {
            return None;
        }
        match reader.get(key.as_bytes()) {
            Lookup::Value(value) => String::from_utf8(value).ok(),
            Lookup::NotHere => None,
        }
    }
}
