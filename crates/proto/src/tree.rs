//! The tree of agents: its shape, the frames on its links, and what a node of it decides.
//!
//! Node 0 is the root. A [`Node`] aggregates barriers and keeps the bulletin board: keys put in a phase go up
//! to the root with the barrier and come down to every node with its end, so every get is local. Names that
//! services publish live at the root. Frames about processes (output, ends, statistics) only pass through
//! on their way to the launcher, which is the parent of node 0: they are the agents' business.
mod board;
mod codec;
mod frame;
mod node;
mod shape;
#[cfg(test)]
mod tests;

pub use board::{BOARD_BYTES_MAX, BoardFull};
pub use frame::{
    Ended, Entry, FRAME_BYTES_MAX, Frame, FrameError, Frames, NameAnswer, NameRequest, OUTPUT_BYTES_MAX,
    PmiState, Stream, VERSION,
};
pub use node::{Action, NAMES_MAX, Node, NodeError};
pub use shape::Shape;
