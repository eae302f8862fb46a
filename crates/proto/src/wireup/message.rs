//! The handshake's wire format: one layout for all messages.
//!
//! ```text
//! offset  bytes  field
//!      0      4  magic "BYNW"
//!      4      1  version
//!      5      1  kind: 1 request, 2 reply, 3 close, 4 close reply
//!      6      1  length of the card
//!      7      1  zero
//!      8     16  sender
//!     24     16  receiver
//!     40      4  sender's epoch, not 0
//!     44      4  receiver's epoch as the sender knows it, 0 if unknown (in a request)
//!     48      8  a request's time of sending by its sender's clock; an answer returns it
//!     56     32  connection parameters of the sender's queue pair
//!     88      4  the number that the sender gave the receiver, for the headers of what the receiver sends
//!     92  0-112  the sender's address card
//! ```
//! Numbers are little-endian. A datagram has exactly this length: anything else is refused, never guessed at.
use super::{Card, Epoch, Params};
use crate::ids::Peer;
use core::fmt;

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + Card::BYTES_MAX;

const MAGIC: [u8; 4] = *b"BYNW";
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 92;

// What a fabric has to carry as one datagram, with room for a tag of the job's key beside it.
const _: () = assert!(MESSAGE_BYTES_MAX <= 236);

/// A datagram of the handshake, valid by construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Asks or answers, opens or closes.
    pub kind: MessageKind,
    /// The sender.
    pub from: Peer,
    /// The receiver.
    pub to: Peer,
    /// Which of the sender's connections this is.
    pub epoch: Epoch,
    /// Which of the receiver's connections the sender means; who begins does not know.
    pub echo: Option<Epoch>,
    /// The sender's clock where it asks; where it answers, what the question had there.
    pub stamp_ns: u64,
    /// What the receiver needs to connect its queue pair to the sender's.
    pub params: Params,
    /// The number that the sender gave the receiver ([`PeerIx::to_wire`](crate::ids::PeerIx::to_wire)). The receiver
    /// puts it into the headers of what it sends, so that nobody has to be looked up by name.
    pub name: u32,
    /// Where the sender can be reached, so that an answer needs no lookup.
    pub card: Card,
}

/// What a message asks of its receiver. All kinds carry the same facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageKind {
    /// Connect to me, and tell me how to connect to you.
    Request = 1,
    /// The answer to a request.
    Reply = 2,
    /// Everything I had for you is sent: finish too, and let us destroy the connection.
    Close = 3,
    /// The answer to a close: nothing more comes.
    CloseReply = 4,
    /// I make a queue pair for you: make one for me, so that both are made at the same time. It has no parameters yet; its epoch
    /// is one that the connection will not fall below.
    Announce = 5,
}

/// Why bytes are not a handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The length does not fit the header or the card.
    #[error("{0} bytes are no handshake message: its length must be {HEADER_BYTES} plus that of its card")]
    Length(usize),
    /// Something else was sent to this address.
    #[error("not a handshake message: starts with {0:02x?}")]
    Magic([u8; 4]),
    /// A later Banyan, or damage.
    #[error("handshake version {0}, this process speaks {VERSION}")]
    Version(u8),
    /// No kind there is.
    #[error("handshake message of unknown kind {0}")]
    Kind(u8),
    /// A field holds what no sender writes.
    #[error("handshake message with an impossible {0}")]
    Field(&'static str),
}

impl Message {
    /// The bytes to send.
    pub fn emit(&self) -> Datagram {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        let kind = self.kind as u8;
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[VERSION, kind, self.card.as_bytes().len() as u8, 0]);
        bytes[8..24].copy_from_slice(&self.from.to_bytes());
        bytes[24..40].copy_from_slice(&self.to.to_bytes());
        bytes[40..44].copy_from_slice(&self.epoch.get().to_le_bytes());
        bytes[44..48].copy_from_slice(&self.echo.map_or(0, Epoch::get).to_le_bytes());
        bytes[48..56].copy_from_slice(&self.stamp_ns.to_le_bytes());
        bytes[56..88].copy_from_slice(&self.params.0);
        bytes[88..92].copy_from_slice(&self.name.to_le_bytes());
        let len = HEADER_BYTES + self.card.as_bytes().len();
        bytes[HEADER_BYTES..len].copy_from_slice(self.card.as_bytes());
        Datagram { len: len as u8, bytes }
    }

    /// Reads what [`emit`](Self::emit) wrote; anything may be handed in.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (header, card) = bytes.split_at_checked(HEADER_BYTES).ok_or(ParseError::Length(bytes.len()))?;
        let [m0, m1, m2, m3, version, kind, card_len, zero] = array(header, 0);
        if [m0, m1, m2, m3] != MAGIC {
            return Err(ParseError::Magic([m0, m1, m2, m3]));
        }
        if version != VERSION {
            return Err(ParseError::Version(version));
        }
        if card.len() != usize::from(card_len) {
            return Err(ParseError::Length(bytes.len()));
        }
        let kind = parse_kind(kind)?;
        if zero != 0 {
            return Err(ParseError::Field("reserved byte"));
        }
        let echo = Epoch::new(u32::from_le_bytes(array(header, 44)));
        let first = matches!(kind, MessageKind::Request | MessageKind::Announce);
        if !first && echo.is_none() {
            return Err(ParseError::Field("receiver's epoch"));
        }
        let epoch = Epoch::new(u32::from_le_bytes(array(header, 40)));
        Ok(Self {
            kind,
            from: Peer::from_bytes(array(header, 8)).ok_or(ParseError::Field("sender"))?,
            to: Peer::from_bytes(array(header, 24)).ok_or(ParseError::Field("receiver"))?,
            epoch: epoch.ok_or(ParseError::Field("sender's epoch"))?,
            echo,
            stamp_ns: u64::from_le_bytes(array(header, 48)),
            params: Params(array(header, 56)),
            name: u32::from_le_bytes(array(header, 88)),
            card: Card::new(card).map_err(|_| ParseError::Length(bytes.len()))?,
        })
    }
}

fn parse_kind(kind: u8) -> Result<MessageKind, ParseError> {
    use MessageKind::{Announce, Close, CloseReply, Reply, Request};
    let known = [Request, Reply, Close, CloseReply, Announce].into_iter().find(|known| *known as u8 == kind);
    known.ok_or(ParseError::Kind(kind))
}

/// `N` bytes of the header; the offsets are constants inside it.
fn array<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&header[at..at + N]);
    out
}

/// The bytes of one message, ready for the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    len: u8,
    bytes: [u8; MESSAGE_BYTES_MAX],
}

impl Datagram {
    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Message::parse(self.as_bytes()) {
            Ok(message) => message.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Job, NodeId, Rank};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn a_peer() -> impl Strategy<Value = Peer> {
        any::<(bool, u32, u64)>().prop_map(|(server, number, job)| match server {
            true => Peer::Server { job: Job(job), node: NodeId(number) },
            false => Peer::Rank { job: Job(job), rank: Rank(number) },
        })
    }

    fn a_message() -> impl Strategy<Value = Message> {
        let card = proptest::collection::vec(any::<u8>(), 0..=Card::BYTES_MAX);
        let fields = any::<(u32, u32, u64, [u8; 32], u32)>();
        (1..=5u8, a_peer(), a_peer(), fields, card).prop_map(|(kind, from, to, fields, card)| {
            let (epoch, echo, stamp_ns, params, name) = fields;
            let kind = parse_kind(kind).unwrap();
            let asks = matches!(kind, MessageKind::Request | MessageKind::Announce);
            Message {
                kind,
                from,
                to,
                epoch: Epoch::new(epoch.max(1)).unwrap(),
                echo: Epoch::new(if asks { echo } else { echo.max(1) }),
                stamp_ns,
                params: Params(params),
                name,
                card: Card::new(&card).unwrap(),
            }
        })
    }

    proptest! {
        #[test]
        fn parse_after_emit_is_the_identity(message in a_message()) {
            prop_assert_eq!(Message::parse(message.emit().as_bytes()), Ok(message));
        }

        #[test]
        fn what_parses_was_emitted(message in a_message(), at in 0..MESSAGE_BYTES_MAX, flip in 1..=255u8) {
            let mut bytes: Vec<u8> = message.emit().as_bytes().into();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            if let Ok(other) = Message::parse(&bytes) {
                let emitted = other.emit();
                prop_assert_eq!(emitted.as_bytes(), bytes.as_slice());
            }
        }

        #[test]
        fn parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::parse(&bytes);
        }

        #[test]
        fn a_cut_or_longer_message_is_refused(message in a_message(), len in 0..=MESSAGE_BYTES_MAX + 8) {
            let mut bytes: Vec<u8> = message.emit().as_bytes().into();
            prop_assume!(len != bytes.len());
            bytes.resize(len, 0);
            prop_assert_eq!(Message::parse(&bytes), Err(ParseError::Length(len)));
        }
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let text = std::format!("{}", Message::parse(&[0; 100]).unwrap_err());
        assert_eq!(text, "not a handshake message: starts with [00, 00, 00, 00]");
    }
}
