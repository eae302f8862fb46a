//! Tag matching: the messages and receives of one process.
//!
//! A [`Matcher`] holds two queues: receives that were posted and have no message yet, and messages that
//! arrived and found no receive (*unexpected*). The rules are those of MPI-5 3.5:
//! - a message takes the **earliest posted** receive that accepts it, wildcards included;
//! - a receive takes the **earliest arrived** message that it accepts, so messages of one sender in one
//!   context never overtake each other.
//!
//! Every message of the process passes here, so the common case is a scan of the first [`SCAN_MAX`] entries
//! of a linked list in a slab: no hash, no allocation once the slab has grown. Only a search that gets
//! past them builds an index (a hash table from pattern to entries in order) and keeps it until the queue is
//! short again. Posted receives are indexed by their own pattern, and an arrival looks at the up to four
//! patterns that could accept it; messages are indexed by each of the four kinds of pattern that searches
//! really use. So a receive finds its message behind 100,000 others in constant time, and a queue that is
//! used in order never pays for an index.
//!
//! It is not: a place for payloads (`U` says where the caller keeps them), nor flow control (the caller
//! bounds how many unexpected messages it accepts).
//!
//! ```
//! use banyan_proto::{ids::PeerIx, matching::{Envelope, Matcher, Pattern, Posted}};
//! let mut matcher: Matcher<u32, &str> = Matcher::new();
//! let from_3 = Envelope { context: 0, source: PeerIx::from_wire(3), tag: 7 };
//! assert_eq!(matcher.arrive(from_3), None);
//! matcher.unexpected(from_3, "payload");
//! let any = Pattern { context: 0, source: None, tag: Some(7) };
//! assert_eq!(matcher.post(any, 1), Posted::Matched(from_3, "payload"));
//! ```
mod list;
mod posted;
mod unexpected;

#[cfg(test)]
mod tests;

use crate::ids::PeerIx;
use posted::PostedQueue;
use unexpected::UnexpectedQueue;

pub use posted::PostedKey;

/// Entries that a search looks at in order before it asks an index.
pub const SCAN_MAX: usize = 16;

/// A queue this short gives up its index. Half of [`SCAN_MAX`], so that a queue whose length swings around
/// the limit does not build one again and again.
const UNINDEX_LEN: usize = SCAN_MAX / 2;

/// What a message carries for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Separates communicators, and collectives from point-to-point.
    pub context: u32,
    /// The sender.
    pub source: PeerIx,
    /// The sender's tag (any value: wildcards exist only in a [`Pattern`]).
    pub tag: i32,
}

/// What a receive or a probe accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Must be equal.
    pub context: u32,
    /// `None` accepts any sender.
    pub source: Option<PeerIx>,
    /// `None` accepts any tag.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Does a receive with this pattern take a message with this envelope?
    #[inline]
    pub fn accepts(&self, envelope: &Envelope) -> bool {
        Wanted::from(*self).accepts(envelope)
    }
}

/// What became of a receive that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted<U> {
    /// A message was there already and is now the receive's.
    Matched(Envelope, U),
    /// The receive waits; the key cancels it.
    Queued(PostedKey),
}

/// The tag matching of one process: `R` names a receive, `U` an unexpected message. See the module's head.
#[derive(Debug)]
pub struct Matcher<R, U> {
    posted: PostedQueue<R>,
    unexpected: UnexpectedQueue<U>,
}

impl<R: Copy, U> Default for Matcher<R, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Copy, U> Matcher<R, U> {
    /// Nothing posted, nothing arrived. Allocates nothing yet.
    pub fn new() -> Self {
        Self { posted: PostedQueue::new(), unexpected: UnexpectedQueue::new() }
    }

    /// Posts a receive: it takes the earliest unexpected message that it accepts, else it is queued.
    #[inline(always)]
    pub fn post(&mut self, pattern: Pattern, receive: R) -> Posted<U> {
        let wanted = Wanted::from(pattern);
        if self.unexpected.len() > 0
            && let Some((envelope, message)) = self.unexpected.take(wanted)
        {
            return Posted::Matched(envelope, message);
        }
        Posted::Queued(self.posted.push(wanted, receive))
    }

    /// A message arrived: takes out the earliest posted receive that accepts it. After `None` the caller
    /// hands the message to [`unexpected`](Self::unexpected) before it asks for anything else.
    #[inline]
    pub fn arrive(&mut self, envelope: Envelope) -> Option<R> {
        self.posted.take(&envelope)
    }

    /// Queues a message for which [`arrive`](Self::arrive) just found no receive.
    pub fn unexpected(&mut self, envelope: Envelope, message: U) {
        self.unexpected.push(envelope, message);
    }

    /// Takes a queued receive back. `None` if it was matched or cancelled before; never another receive's.
    pub fn cancel(&mut self, key: PostedKey) -> Option<R> {
        self.posted.cancel(key)
    }

    /// Looks at the earliest unexpected message that the pattern accepts, and leaves it where it is.
    /// (`&mut`, because a long queue may get its index now.)
    pub fn probe(&mut self, pattern: Pattern) -> Option<(&Envelope, &U)> {
        self.unexpected.probe(pattern.into())
    }

    /// Takes out the earliest unexpected message that the pattern accepts (a matched probe).
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, U)> {
        self.unexpected.take(pattern.into())
    }

    /// Does neither a receive nor a message wait?
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.posted.len() == 0 && self.unexpected.len() == 0
    }

    /// How many receives wait.
    pub fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// How many messages wait.
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }

    /// The waiting receives, earliest first (to say what a process waits for).
    pub fn posted_iter(&self) -> impl Iterator<Item = (Pattern, R)> + '_ {
        self.posted.iter()
    }

    /// The waiting messages, earliest first (to name those nobody received).
    pub fn unexpected_iter(&self) -> impl Iterator<Item = (&Envelope, &U)> + '_ {
        self.unexpected.iter()
    }
}

/// A pattern with masks instead of options, so that a test is a few instructions without a branch. Wildcard
/// fields are 0, so equal patterns are equal values: this is also the key of the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Wanted {
    context: u32,
    source: u32,
    tag: u32,
    kind: Kind,
}

/// Which fields of a pattern are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
enum Kind {
    Exact,
    AnyTag,
    AnySource,
    Any,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Exact, Kind::AnyTag, Kind::AnySource, Kind::Any];

    /// All ones where the source counts.
    fn source_mask(self) -> u32 {
        ((self as u32) >> 1).wrapping_sub(1)
    }

    /// All ones where the tag counts.
    fn tag_mask(self) -> u32 {
        ((self as u32) & 1).wrapping_sub(1)
    }
}

impl Wanted {
    /// The one pattern of this kind that accepts the message.
    fn of_kind(kind: Kind, envelope: &Envelope) -> Self {
        let source = envelope.source.to_wire() & kind.source_mask();
        let tag = envelope.tag as u32 & kind.tag_mask();
        Self { context: envelope.context, source, tag, kind }
    }

    #[inline]
    fn accepts(&self, envelope: &Envelope) -> bool {
        let source = (self.source ^ envelope.source.to_wire()) & self.kind.source_mask();
        let tag = (self.tag ^ envelope.tag as u32) & self.kind.tag_mask();
        (self.context ^ envelope.context) | source | tag == 0
    }
}

impl From<Pattern> for Wanted {
    #[inline]
    fn from(pattern: Pattern) -> Self {
        let kind = match (pattern.source, pattern.tag) {
            (Some(_), Some(_)) => Kind::Exact,
            (Some(_), None) => Kind::AnyTag,
            (None, Some(_)) => Kind::AnySource,
            (None, None) => Kind::Any,
        };
        let source = pattern.source.map_or(0, PeerIx::to_wire);
        Self { context: pattern.context, source, tag: pattern.tag.unwrap_or(0) as u32, kind }
    }
}

impl From<Wanted> for Pattern {
    fn from(wanted: Wanted) -> Self {
        Self {
            context: wanted.context,
            source: (wanted.kind.source_mask() != 0).then_some(PeerIx::from_wire(wanted.source)),
            tag: (wanted.kind.tag_mask() != 0).then_some(wanted.tag as i32),
        }
    }
}
