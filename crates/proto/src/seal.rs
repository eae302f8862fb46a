//! The seal of a link: proof that both ends belong to the job, and that each frame is the next one its sender sent.
//!
//! Agents of other hosts connect to their parents by TCP, where anybody can connect. All agents of a job hold
//! one [`Key`], which reaches them over the channel that started them. The two ends prove to each other that
//! they hold it ([`Child`], [`Parent`]) without showing it:
//!
//! ```text
//! child                                            parent
//!   magic, version, node, nonce            ->
//!                                          <-      magic, version, nonce, tag of the parent
//!   tag of the child                       ->
//!                                          <-      verdict, tag of the verdict
//! ```
//!
//! A tag is a keyed hash of what it is for and of both first messages. Fresh nonces on both sides make a recorded
//! conversation worthless; that a tag says what it is for makes a reflected one worthless. The keys of a link's two
//! directions are hashes of the same. Then every frame is followed by a tag over its number and its bytes:
//! what was altered, repeated, left out, moved or brought from elsewhere does not fit ([`Seal`]).
//!
//! Before its peer has proven itself, a side holds no more than one message of it (at most [`MESSAGE_BYTES_MAX`]
//! bytes). What is sealed is not secret: links carry the output of programs in the clear, as an `rsh` would.
mod frames;
mod handshake;
mod key;
#[cfg(test)]
mod tests;

pub use frames::{LinkError, Seal, TAG_BYTES};
pub use handshake::{
    Child, HandshakeError, MAGIC, MESSAGE_BYTES_MAX, Parent, Progress, Proven, Refusal, VERSION,
};
pub use key::{KEY_BYTES, Key, KeyError, NONCE_BYTES, Nonce};
