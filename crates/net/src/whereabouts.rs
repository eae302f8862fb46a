//! What a process says when its agent asks where it is, as far as the endpoint knows: messages that are waited for, offered or
//! left over, connections that are being made. The calls and communicators behind them are known above.
//!
//! The question is a number in the node's segment, and a ring of the doorbell for who sleeps. It is looked at by who has
//! nothing to do: before a sleep, between looks, and by programs that test in vain. Nothing is noted before somebody asks.
use crate::api::ReqId;
use crate::endpoint::Endpoint;
use crate::request::State;
use crate::waiting::Backoff;
use proto::ids::{NodeId, Peer, PeerIx, Process};
use proto::waits::{Need, Place, Standing, Who};
use sys::node::ANSWER_BYTES_MAX;

/// What a message under way still needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A receive without a message.
    Message {
        /// The context of its communicator.
        context: u32,
        /// From whom, unless from anybody.
        from: Option<Who>,
        /// With which tag, unless with any.
        tag: Option<i32>,
    },
    /// That the receiver takes it.
    Taken {
        /// The context of its communicator, and its tag.
        envelope: (u32, i32),
        /// By whom.
        to: Who,
        /// Its bytes.
        bytes: u64,
    },
    /// Something else of a peer.
    Deed(Who, String),
}

/// A message that nobody has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// The context of its communicator.
    pub context: u32,
    /// Its sender.
    pub from: Who,
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub bytes: u64,
}

impl Endpoint {
    /// Has the agent asked where this process is, as was seen when it last had nothing to do?
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.waits.asked != self.waits.answered
    }

    /// The same, seen now. For who does not wait, but looks in vain.
    #[inline]
    pub fn look_asked(&mut self) -> bool {
        self.waits.asked = self.context.asked();
        self.is_asked()
    }

    /// The question is seen for the first time.
    pub(crate) fn is_newly_asked(&mut self) -> bool {
        let before = std::mem::replace(&mut self.waits.asked, self.context.asked());
        self.waits.asked != before
    }

    /// Answers it.
    pub fn answer_place(&mut self, place: Place) {
        let ask = self.waits.asked;
        self.waits.answered = ask;
        self.context.answer(ask, &Standing::Told(place).emit(ANSWER_BYTES_MAX));
    }

    /// Answers it at the end, where all wait for all.
    pub(crate) fn answer_leaving(&mut self, waited_s: u64) {
        let everyone = Need::Everyone { what: "to call MPI_Finalize".into() };
        self.answer_place(Place {
            call: "MPI_Finalize".into(),
            waited_ms: u32::try_from(waited_s * 1000).unwrap_or(u32::MAX),
            needs: vec![everyone],
            notes: self.wait_notes(),
            ..Place::default()
        });
    }

    /// Since how many milliseconds a caller waits.
    pub fn waited_ms(&self, backoff: &Backoff) -> u32 {
        let waited_ns = match backoff.since_ns() {
            0 => 0,
            since_ns => self.now_ns().saturating_sub(since_ns),
        };
        u32::try_from(waited_ns / 1_000_000).unwrap_or(u32::MAX)
    }

    /// How a process is called by all.
    pub fn who_is(&self, process: Process) -> Who {
        self.named(self.peer_of(process).unwrap_or_else(|| self.me()))
    }

    fn name_at(&self, ix: PeerIx) -> Who {
        self.named(self.who(ix))
    }

    fn named(&self, peer: Peer) -> Who {
        Who { job: peer.job(), rank: peer.rank().unwrap_or_default() }
    }

    /// What a message still needs; `None` if it has ended.
    pub fn lack_of(&self, id: ReqId) -> Option<Lack> {
        let state = self.requests.get(id)?;
        match state {
            State::ReceivePosted { .. } => {
                let (pattern, _) = self.matcher.posted_iter().find(|(_, posted)| *posted == id)?;
                let from = pattern.source.map(|source| self.name_at(source));
                Some(Lack::Message { context: pattern.context, from, tag: pattern.tag })
            }
            State::SendOffered { data, to, envelope, .. } => Some(Lack::Taken {
                envelope: (envelope.context, envelope.tag),
                to: self.name_at(*to),
                bytes: data.len() as u64,
            }),
            State::SendQueued => {
                let queues = |ix: &&PeerIx| self.links[ix.index()].queue.holds(id);
                let to = self.waiting.iter().find(queues)?;
                Some(Lack::Deed(
                    self.name_at(*to),
                    "to take messages: its connection has no room, or is being made".into(),
                ))
            }
            State::Done(_) => None,
            state => {
                let peer = state.waits_for()?;
                let words = self.under_way(state).unwrap_or_default();
                // (In a sentence behind the peer's name.)
                let what = words.split_once(" to ").map_or(String::new(), |(_, what)| format!("to {what}"));
                Some(Lack::Deed(self.name_at(peer), what))
            }
        }
    }

    /// Messages that nobody has received, in the order in which they came.
    pub fn left_over(&self) -> impl Iterator<Item = LeftOver> + '_ {
        self.matcher.unexpected_iter().map(|(envelope, message)| LeftOver {
            context: envelope.context,
            from: self.name_at(envelope.source),
            tag: envelope.tag,
            bytes: message.bytes() as u64,
        })
    }

    /// What receives are posted for, in order.
    pub fn posted_receives(&self) -> impl Iterator<Item = ReqId> + '_ {
        self.matcher.posted_iter().map(|(_, id)| id)
    }

    /// Who is waited for at a window (a process, or the data server of a node), and what they are to do.
    pub fn awaited_deed(&self) -> Option<(Result<Who, NodeId>, &'static str)> {
        let (peer, what) = self.waits.awaited()?;
        Some(match peer {
            Peer::Rank { .. } => (Ok(self.named(peer)), what),
            Peer::Server { node, .. } => (Err(node), what),
        })
    }

    /// What is being waited for beside messages, in words.
    pub fn waited_beside(&self) -> Vec<String> {
        let mut words: Vec<String> =
            self.waits.meetings.iter().take(4).map(|awaited| awaited.to_string()).collect();
        if self.waits.questions {
            let all = "the launcher, until all ranks have started and it has started what was asked for";
            words.push(all.into());
        }
        words
    }

    /// What is amiss with connections, in words.
    pub fn wait_notes(&self) -> Vec<String> {
        let notes = self.connection_words();
        notes.split("; ").filter(|note| !note.is_empty()).map(String::from).collect()
    }
}
