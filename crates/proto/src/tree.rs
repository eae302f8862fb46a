//! The tree of agents: its shape and the frames on its links.
//!
//! Node 0 is the root; the launcher is its parent. Frames about processes (output, ends, statistics, questions)
//! pass up to the launcher, orders and answers pass down. The bulletin board has its own machine
//! ([`crate::board`]), whose messages travel in frames of this format. [`Names`] are the services that processes
//! publish.
mod codec;
mod frame;
mod names;
mod question;
mod shape;
#[cfg(test)]
mod tests;

pub use frame::{
    Ended, FRAME_BYTES_MAX, Frame, FrameError, Frames, MET_MAX, Member, OUTPUT_BYTES_MAX, PmiState,
    StartStep, Stream, TRAFFIC_MAX, VERSION,
};
pub use names::{NAMES_MAX, Names};
pub use question::{Answer, Pair, Question, SpawnCommand, SpawnWish};
pub use shape::{DEPTH_MAX, LINKS_MAX, Shape};
