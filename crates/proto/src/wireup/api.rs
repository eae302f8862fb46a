//! The words that a [`Wireup`] and its driver exchange.
#[cfg(doc)]
use super::Wireup;
use super::{Budget, Card, Datagram, DeviceWord, Epoch, InputName, Params, ParseError, Policy, StateName};
use crate::ids::{Peer, PeerIx};

/// What a process is to others, and how it connects.
#[derive(Clone, Debug)]
pub struct Config {
    /// This process.
    pub me: Peer,
    /// How many ranks its job has.
    pub size: u32,
    /// Where this process can be reached.
    pub card: Card,
    /// Of the jitter. Give every process another one.
    pub seed: u64,
    /// When and in which order the steps are taken.
    pub policy: Policy,
    /// How many queue pairs there may be.
    pub budget: Budget,
    /// Which connections are shared (XRC): names the node of the second card's owner, if the owner of the first needs one
    /// connection for all processes there. `None`: none are.
    pub homes: Option<fn(&Card, &Card) -> Option<u64>>,
}

/// How the messages of one handshake travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Each by itself: it may get lost, come twice or overtake, and is sent again until there is an answer.
    Datagrams,
    /// On the connection itself, reliably: each is sent once.
    Stream,
}

/// What the driver has to do. Actions for one peer are carried out in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<W> {
    /// Find the peer's card, then call [`Wireup::card`], at once or much later (or [`Wireup::broken`], if the
    /// peer published none).
    Lookup {
        /// The peer's number here.
        ix: PeerIx,
        /// Whose card.
        peer: Peer,
    },
    /// Make a queue pair that can take in data at once, of a provider that the card has, then call
    /// [`Wireup::qp_ready`]; or [`Wireup::qp_refused`], if none is to be had at the moment; or
    /// [`Wireup::broken`], if the peer cannot be reached.
    CreateQp {
        /// The peer's number here.
        ix: PeerIx,
        /// Whom it will be connected to.
        peer: Peer,
        /// Where the peer can be reached.
        card: Card,
    },
    /// The same for a peer whose card is not known, in a way that any peer can be told of it by the board; then call
    /// [`Wireup::qp_ready`] or [`Wireup::qp_refused`]. What is refused is made when it is needed.
    CreateAhead {
        /// The peer's number here.
        ix: PeerIx,
        /// Whom it will be connected to.
        peer: Peer,
    },
    /// Send a message as a datagram, before there is a queue pair; it may get lost. Where handshakes go by
    /// [`Medium::Stream`], leave it.
    Announce {
        /// The peer's number here.
        ix: PeerIx,
        /// To whom.
        peer: Peer,
        /// Where the peer can be reached.
        card: Card,
        /// The bytes.
        datagram: Datagram,
    },
    /// Send a message of the handshake, as the medium of the peer's queue pair says. A message that closes the
    /// connection leaves before the [`Action::Destroy`] behind it is carried out.
    Send {
        /// The peer's number here.
        ix: PeerIx,
        /// To whom.
        peer: Peer,
        /// Where the peer can be reached.
        card: Card,
        /// The bytes.
        datagram: Datagram,
    },
    /// Connect the queue pair, then call [`Wireup::connected`] (or [`Wireup::broken`], if the peer's queue pair
    /// cannot be reached).
    Connect {
        /// The peer's number here.
        ix: PeerIx,
        /// What the peer's fabric said about its queue pair.
        params: Params,
        /// Where the peer can be reached.
        card: Card,
    },
    /// Sends to this peer may go. Comes once per connection, also when the peer asked for it.
    Ready {
        /// The peer's number here.
        ix: PeerIx,
        /// What the headers of messages to the peer carry: the number that *it* gave this process.
        name: u32,
    },
    /// The connection is about to be closed: send what is queued at this moment and finish what is posted, then call
    /// [`Wireup::drained`]. What is queued from now on waits for the next connection, so that even a sender that never
    /// stops can be closed; whoever wants to send calls [`Wireup::need`].
    Drain {
        /// The peer's number here.
        ix: PeerIx,
    },
    /// Take in everything that has already arrived on the queue pair, destroy it, then call [`Wireup::destroyed`], at
    /// once or later: until then the queue pair counts.
    Destroy {
        /// The peer's number here.
        ix: PeerIx,
    },
    /// The connection was closed by agreement. If a need came meanwhile, the handshake of a new one follows.
    Closed {
        /// The peer's number here.
        ix: PeerIx,
    },
    /// The peer is lost; whoever waits for it has to be told.
    Failed {
        /// The peer's number here.
        ix: PeerIx,
        /// The reason, as the driver gave it.
        why: W,
    },
    /// Somebody waits for a place within the budget: call [`Wireup::make_room`], soon.
    MakeRoom,
    /// Say a word to another process of this node, which passes it to [`Wireup::heard`]. It may get lost.
    Tell {
        /// The process's slot in the [`NodeDevice`](super::NodeDevice).
        slot: u32,
        /// What to say.
        word: DeviceWord,
    },
}

impl<W> Action<W> {
    /// The peer it is about, if it is about one.
    pub fn ix(&self) -> Option<PeerIx> {
        let ix = match *self {
            Action::MakeRoom | Action::Tell { .. } => return None,
            Action::Lookup { ix, .. }
            | Action::CreateQp { ix, .. }
            | Action::CreateAhead { ix, .. }
            | Action::Announce { ix, .. }
            | Action::Send { ix, .. }
            | Action::Connect { ix, .. }
            | Action::Ready { ix, .. }
            | Action::Drain { ix }
            | Action::Destroy { ix }
            | Action::Closed { ix }
            | Action::Failed { ix, .. } => ix,
        };
        Some(ix)
    }
}

/// What a peer has to know of a queue pair that was made ahead of any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Which of its process's connections it is.
    pub epoch: Epoch,
    /// What the peer needs to connect to it.
    pub params: Params,
    /// The number that its process gave the peer.
    pub name: u32,
}

impl Published {
    /// Bytes of a record that tells of one, or of none.
    pub const BYTES: usize = 40;

    /// As a record; no bits are set in one that tells of none.
    pub fn to_record(&self) -> [u8; Self::BYTES] {
        let mut record = [0; Self::BYTES];
        record[..4].copy_from_slice(&self.epoch.get().to_le_bytes());
        record[4..8].copy_from_slice(&self.name.to_le_bytes());
        record[8..].copy_from_slice(&self.params.0);
        record
    }

    /// From a record, if it tells of one.
    pub fn from_record(record: &[u8; Self::BYTES]) -> Option<Self> {
        let ([epoch, name], params) = record.as_chunks::<4>().0.split_first_chunk()?;
        Some(Published {
            epoch: Epoch::new(u32::from_le_bytes(*epoch))?,
            name: u32::from_le_bytes(*name),
            params: Params(params.as_flattened().try_into().ok()?),
        })
    }
}

/// How far a needed connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Sends may go now.
    Ready,
    /// An [`Action::Ready`] or [`Action::Failed`] will come.
    Pending,
}

/// Why there is no such peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchPeer {
    /// The job is smaller.
    #[error("{peer} does not exist in a job of {size}")]
    Rank {
        /// The peer.
        peer: Peer,
        /// Ranks of its job.
        size: u32,
    },
    /// The job was never admitted, or has been retired.
    #[error("{peer} belongs to job {}, which is not connected to this one", peer.job())]
    Job {
        /// The peer.
        peer: Peer,
    },
}

/// Why a peer cannot be connected to at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeedError<W> {
    /// A process sends to itself without a connection.
    #[error("{0} needs no connection to itself")]
    Oneself(Peer),
    /// Nobody has this name.
    #[error(transparent)]
    NoSuchPeer(#[from] NoSuchPeer),
    /// The table is full.
    #[error("{peer} would be one peer more than the {max} that a process can have")]
    TooMany {
        /// The peer.
        peer: Peer,
        /// Peers that fit.
        max: usize,
    },
    /// The peer was lost before.
    #[error("{peer} is lost: {why}")]
    Lost {
        /// The peer.
        peer: Peer,
        /// The first cause, as the driver gave it.
        why: W,
    },
    /// The peer's job has been retired.
    #[error("peer {0} belongs to a job that is not connected any more")]
    Stale(PeerIx),
}

/// The driver reported what cannot have happened. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IllegalInput {
    /// Not in this state.
    #[error("connection to {peer}: {input} makes no sense while {state}")]
    State {
        /// The peer.
        peer: Peer,
        /// How far the connection was.
        state: StateName,
        /// What was reported.
        input: InputName,
    },
    /// The peer's job has been retired meanwhile. What the driver made for it is the driver's to destroy.
    #[error("{input} for peer {ix}, whose job is not connected any more")]
    Stale {
        /// What used to be the peer's number here.
        ix: PeerIx,
        /// What was reported.
        input: InputName,
    },
}

/// Why a datagram was refused. Nothing was changed but a counter; the caller may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// No handshake message.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// For another process.
    #[error("a handshake message for {to} of job {}", to.job())]
    Misdirected {
        /// For whom.
        to: Peer,
    },
    /// From this process, or so it says.
    #[error("a handshake message from {0}, which is this process")]
    Oneself(Peer),
    /// From nobody that this process knows.
    #[error("a handshake message from a stranger: {0}")]
    NoSuchPeer(#[from] NoSuchPeer),
    /// The table is full.
    #[error("a handshake message from {peer}, one more than the {max} peers that a process can have")]
    TooMany {
        /// From whom.
        peer: Peer,
        /// Peers that fit.
        max: usize,
    },
    /// The peer speaks of a later connection although this one was never closed.
    #[error("{peer} speaks of its connection {got}, but its connection {known} was never closed")]
    EpochAhead {
        /// The peer.
        peer: Peer,
        /// The connection there is.
        known: Epoch,
        /// The one the message speaks of.
        got: Epoch,
    },
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handshakes this process began.
    pub started: u64,
    /// Handshakes a peer began.
    pub answered: u64,
    /// Handshakes both began.
    pub crossed: u64,
    /// Requests and closes sent again.
    pub retransmits: u64,
    /// Replies sent to requests and closes that came again.
    pub repeated_replies: u64,
    /// Messages that said nothing new (duplicates, late ones).
    pub stale: u64,
    /// Datagrams refused with a [`DatagramError`].
    pub refused: u64,
    /// Queue pairs that were not to be had at the moment.
    pub starved: u64,
    /// Times that somebody had to wait for a place within the budget.
    pub crowded: u64,
    /// The longest of these waits that has ended.
    pub crowded_longest_ns: u64,
    /// Those that wait for a place at this moment.
    pub crowded_now: u64,
    /// Connections that were closed to make room for others.
    pub evicted: u64,
    /// Connections that became ready.
    pub ready: u64,
    /// Those among them whose peer had one before.
    pub reopened: u64,
    /// Connections that were closed by agreement.
    pub closed: u64,
}

/// Connections over which data can flow, those about to be closed included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// At this moment.
    pub now: u32,
    /// The most there were at one time.
    pub peak: u32,
}

/// A connection that waits for somebody: for the peer's card, for a queue pair, for the peer's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The peer's number here.
    pub ix: PeerIx,
    /// The peer.
    pub peer: Peer,
    /// What it waits for: [`Addressing`](StateName::Addressing), [`Starved`](StateName::Starved),
    /// [`Crowded`](StateName::Crowded) ([`Wireup::crowd`] says why), [`Requesting`](StateName::Requesting) or [`Closing`](StateName::Closing).
    pub state: StateName,
    /// Since when.
    pub since_ns: u64,
    /// How often it was tried.
    pub attempts: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_of_a_queue_pair_or_of_none() {
        let params = Params(core::array::from_fn(|at| at as u8));
        let published = Published { epoch: Epoch::FIRST.next(), params, name: 0x0102_0304 };
        assert_eq!(Published::from_record(&published.to_record()), Some(published));
        assert_eq!(Published::from_record(&[0; Published::BYTES]), None);
    }
}
