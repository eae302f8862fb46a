//! The text of a placement: the value of `PMI_process_mapping`, `(vector,(first,nodes,per_node),...)`.
use super::{Placement, PlacementError, Row};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Most blocks of a placement that is read.
pub const BLOCKS_MAX: usize = 65_536;
/// So much of a wrong text is quoted.
const QUOTE_LETTERS_MAX: usize = 64;

impl Placement {
    /// Reads the text for a job of so many ranks.
    pub fn parse(text: &str, ranks: u32) -> Result<Self, PlacementError> {
        let bad = || PlacementError::Text(text.chars().take(QUOTE_LETTERS_MAX).collect());
        Self::from_rows(ranks, &parse_rows(text).ok_or_else(bad)?)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(vector")?;
        for Row { first_node, nodes, per_node } in self.rows() {
            write!(f, ",({first_node},{nodes},{per_node})")?;
        }
        f.write_str(")")
    }
}

fn parse_rows(text: &str) -> Option<Vec<Row>> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = compact.strip_prefix("(vector")?.strip_suffix(')')?;
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let (row, after) = rest.strip_prefix(",(")?.split_once(')')?;
        if rows.len() == BLOCKS_MAX {
            return None;
        }
        rows.push(parse_row(row)?);
        rest = after;
    }
    Some(rows)
}

fn parse_row(text: &str) -> Option<Row> {
    let mut numbers = text.split(',').map(|n| n.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    let row = Row { first_node: next()?, nodes: next()?, per_node: next()? };
    numbers.next().is_none().then_some(row)
}
