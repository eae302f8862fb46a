//! The bulletin board in this node's memory, where Banyan's own agent keeps one: what it holds needs no question.
use super::PmiError;
use sys::Locator;
use sys::board::{BoardReader, Lookup};

/// Where the agent says where it is.
const NAME: &str = "BANYAN_BOARD";

/// The node's board, as this process may trust it.
#[derive(Debug)]
pub(super) struct Board {
    reader: BoardReader,
    /// Fences that have to be over: those before this process, which may have a predecessor under its rank, and its
    /// own. What is here was put before them.
    fences: u64,
}

impl Board {
    /// The board that the environment names. A board that cannot be opened (another host's, another user's,
    /// one whose agent is gone) is none: everything can be asked for.
    pub(super) fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Option<Board>, PmiError> {
        let Some(value) = get(NAME) else { return Ok(None) };
        let at: Locator = value.parse().map_err(|error| PmiError::Environment {
            name: NAME,
            why: format!("{error}"),
            value: value.clone(),
        })?;
        // Read now: no fence ends from here on until this process has entered it.
        let opened = BoardReader::open(&at).map(|reader| Board { fences: reader.fences(), reader });
        Ok(opened.ok())
    }

    /// This process enters a fence.
    pub(super) fn fence_begins(&mut self) {
        self.fences += 1;
    }

    /// The value of a key that was put before the last fence, if that is over and the value is here.
    pub(super) fn get(&mut self, key: &str) -> Option<String> {
        if self.reader.fences() < self.fences {
            return None;
        }
        match self.reader.get(key.as_bytes()) {
            Lookup::Value(value) => String::from_utf8(value).ok(),
            Lookup::NotHere => None,
        }
    }
}
