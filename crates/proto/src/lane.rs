//! Numbered messages of one job between neighbours of the tree.
//!
//! The bulletin board ([`crate::board`]) speaks over the links of the tree. Here is what does not depend on what it
//! says: where a node stands ([`Place`]), the [`Head`] that every message carries, and the counting of messages.
//! A link delivers in order, but after a restart it may still hold what an earlier generation said, and a sender
//! in doubt may say something twice: both are ignored and counted. A message that is missing, or of another
//! job, is an error: the link is of no use any more. Not here: sockets.
mod arrivals;
mod place;
pub(crate) mod wire;
#[cfg(test)]
pub(crate) mod world;

pub(crate) use arrivals::Arrivals;
pub use place::Place;
pub use wire::WireError;

use crate::ids::NodeId;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes that many hold and nobody changes.
pub type Bytes = Arc<[u8]>;

/// Most bytes of an encoded message; leaves room for the frame around it.
pub const MESSAGE_BYTES_MAX: usize = 192 << 10;
/// Bytes of content in one message of several items. A longer list goes in parts.
pub(crate) const PART_BYTES_MAX: usize = 112 << 10;

/// A job of the tree: the first, or one that was spawned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// How often the state of a job was set up anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// What every message carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The job.
    pub job: JobId,
    /// The sender's generation of it.
    pub generation: Generation,
    /// Number of the message on its link, in its direction, from 0.
    pub sequence: u64,
}

/// The other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbour {
    /// The node above.
    Parent,
    /// A node below.
    Child(NodeId),
}

impl core::fmt::Display for Neighbour {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Neighbour::Parent => write!(f, "the parent"),
            Neighbour::Child(node) => write!(f, "child {node}"),
        }
    }
}

/// Why a message cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// Not a neighbour that takes part in this job.
    #[error("{0} takes no part in this job")]
    Stranger(Neighbour),
    /// A message of another job.
    #[error("{from} speaks of job {got}, this is job {expected}")]
    Job {
        /// Who sent it.
        from: Neighbour,
        /// The message's job.
        got: u32,
        /// Ours.
        expected: u32,
    },
    /// A generation that has not begun here. The message may be offered again once it has.
    #[error("{from} is in generation {got}, this is generation {expected}")]
    Ahead {
        /// Who sent it.
        from: Neighbour,
        /// The message's generation.
        got: u32,
        /// Ours.
        expected: u32,
    },
    /// A message is missing.
    #[error("{from} sent message {got}, expected was {expected}")]
    Gap {
        /// Who sent it.
        from: Neighbour,
        /// The message's number.
        got: u64,
        /// The next one.
        expected: u64,
    },
}

/// What is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Take,
    Ignore,
}

/// What went over the links of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent to neighbours.
    pub messages_sent: u64,
    /// Their bytes, without frames.
    pub bytes_sent: u64,
    /// Messages of an earlier generation, ignored.
    pub late_ignored: u64,
    /// Messages seen before, ignored.
    pub repeats_ignored: u64,
    /// Messages refused with an error.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    next_out: u64,
    next_in: u64,
}

/// The links of a node for one generation of one job.
#[derive(Debug)]
pub(crate) struct Links {
    job: JobId,
    generation: Generation,
    parent: Option<Lane>,
    children: Vec<(NodeId, Lane)>,
    pub(crate) traffic: Traffic,
}

impl Links {
    pub(crate) fn new(job: JobId, generation: Generation, place: &Place) -> Self {
        Links {
            job,
            generation,
            parent: place.parent().map(|_| Lane::default()),
            children: place.children().iter().map(|child| (*child, Lane::default())).collect(),
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn has_parent(&self) -> bool {
        self.parent.is_some()
    }

    /// Who the children are, in order.
    pub(crate) fn child(&self, index: usize) -> Neighbour {
        Neighbour::Child(self.children[index].0)
    }

    pub(crate) fn child_index(&self, node: NodeId) -> Option<usize> {
        self.children.binary_search_by_key(&node, |(child, _)| *child).ok()
    }

    fn lane(&mut self, with: Neighbour) -> Option<&mut Lane> {
        match with {
            Neighbour::Parent => self.parent.as_mut(),
            Neighbour::Child(node) => self.child_index(node).map(|index| &mut self.children[index].1),
        }
    }

    /// The head of the next message to a neighbour; counts it.
    pub(crate) fn stamp(&mut self, to: Neighbour, encoded_bytes: usize) -> Head {
        let (job, generation) = (self.job, self.generation);
        self.traffic.messages_sent += 1;
        self.traffic.bytes_sent += encoded_bytes as u64;
        let lane = self.lane(to).expect("messages go to neighbours only");
        let sequence = lane.next_out;
        lane.next_out += 1;
        Head { job, generation, sequence }
    }

    /// Is the message new?
    pub(crate) fn admit(&mut self, from: Neighbour, head: Head) -> Result<Admission, LaneError> {
        let verdict = self.judge(from, head);
        match verdict {
            Ok(Admission::Ignore) if head.generation < self.generation => self.traffic.late_ignored += 1,
            Ok(Admission::Ignore) => self.traffic.repeats_ignored += 1,
            Ok(Admission::Take) => {}
            Err(_) => self.traffic.refused += 1,
        }
        verdict
    }

    fn judge(&mut self, from: Neighbour, head: Head) -> Result<Admission, LaneError> {
        let (job, generation) = (self.job, self.generation);
        let lane = self.lane(from).ok_or(LaneError::Stranger(from))?;
        if head.job != job {
            return Err(LaneError::Job { from, got: head.job.0, expected: job.0 });
        }
        if head.generation > generation {
            return Err(LaneError::Ahead { from, got: head.generation.0, expected: generation.0 });
        }
        if head.generation < generation || head.sequence < lane.next_in {
            return Ok(Admission::Ignore);
        }
        if head.sequence > lane.next_in {
            return Err(LaneError::Gap { from, got: head.sequence, expected: lane.next_in });
        }
        lane.next_in += 1;
        Ok(Admission::Take)
    }
}

/// Cuts items into parts of bounded size. The last part is always there, and may be empty: it goes with the
/// message that ends the list.
pub(crate) fn parts<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        let wanted = bytes_of(&item);
        if bytes > 0 && bytes + wanted > PART_BYTES_MAX {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += wanted;
        parts.last_mut().expect("there is always a last part").push(item);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Shape;

    fn links() -> Links {
        let places: Vec<NodeId> = (0..7).map(NodeId).collect();
        Links::new(JobId(3), Generation(2), &Place::new(Shape::new(7, 2), NodeId(1), &places))
    }

    fn head(job: u32, generation: u32, sequence: u64) -> Head {
        Head { job: JobId(job), generation: Generation(generation), sequence }
    }

    #[test]
    fn messages_are_numbered_by_link_and_direction() {
        let mut links = links();
        assert_eq!(links.stamp(Neighbour::Parent, 10), head(3, 2, 0));
        assert_eq!(links.stamp(Neighbour::Child(NodeId(3)), 10), head(3, 2, 0));
        assert_eq!(links.stamp(Neighbour::Parent, 10), head(3, 2, 1));
        assert_eq!(links.admit(Neighbour::Parent, head(3, 2, 0)), Ok(Admission::Take));
        assert_eq!((links.traffic.messages_sent, links.traffic.bytes_sent), (3, 30));
    }

    #[test]
    fn late_and_repeated_messages_are_ignored_and_counted() {
        let mut links = links();
        let from = Neighbour::Child(NodeId(4));
        assert_eq!(links.admit(from, head(3, 1, 9)), Ok(Admission::Ignore));
        assert_eq!(links.admit(from, head(3, 2, 0)), Ok(Admission::Take));
        assert_eq!(links.admit(from, head(3, 2, 0)), Ok(Admission::Ignore));
        assert_eq!(links.admit(from, head(3, 2, 1)), Ok(Admission::Take));
        assert_eq!((links.traffic.late_ignored, links.traffic.repeats_ignored), (1, 1));
    }

    #[test]
    fn what_cannot_be_right_is_refused_with_the_facts() {
        let mut links = links();
        let from = Neighbour::Parent;
        assert_eq!(links.admit(from, head(4, 2, 0)), Err(LaneError::Job { from, got: 4, expected: 3 }));
        assert_eq!(links.admit(from, head(3, 3, 0)), Err(LaneError::Ahead { from, got: 3, expected: 2 }));
        assert_eq!(links.admit(from, head(3, 2, 1)), Err(LaneError::Gap { from, got: 1, expected: 0 }));
        let stranger = Neighbour::Child(NodeId(2));
        assert_eq!(links.admit(stranger, head(3, 2, 0)), Err(LaneError::Stranger(stranger)));
        assert_eq!(links.traffic.refused, 4);
    }

    #[test]
    fn parts_are_bounded_and_lose_nothing() {
        let items: Vec<usize> = (0..1000).map(|i| i % 700 + 1).collect();
        let cut = parts(items.clone(), |bytes| *bytes);
        assert!(cut.len() > 2 && cut.iter().all(|part| part.iter().sum::<usize>() <= PART_BYTES_MAX));
        assert_eq!(cut.concat(), items);
        assert_eq!(parts(Vec::<usize>::new(), |bytes| *bytes), vec![Vec::new()]);
    }
}
