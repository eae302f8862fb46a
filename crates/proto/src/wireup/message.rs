//! The handshake's wire format: one layout for requests and replies.
//!
//! ```text
//! offset  bytes  field
//!      0      4  magic "BYNW"
//!      4      1  version
//!      5      1  kind: 1 request, 2 reply
//!      6      1  length of the card
//!      7      1  zero
//!      8      8  job
//!     16      4  sender's rank
//!     20      4  receiver's rank
//!     24      4  sender's epoch, not 0
//!     28      4  receiver's epoch as the sender knows it, 0 if unknown (in a request)
//!     32      8  a request's time of sending by its sender's clock; a reply returns it
//!     40     32  connection parameters of the sender's queue pair
//!     72   0-64  the sender's address card
//! ```
//! Numbers are little-endian. A datagram has exactly this length: anything else is refused, never guessed at.
use super::{Card, Epoch, Params};
use crate::ids::Rank;
use core::fmt;

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + Card::BYTES_MAX;

const MAGIC: [u8; 4] = *b"BYNW";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 72;

/// A datagram of the handshake, valid by construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Asks or answers.
    pub kind: MessageKind,
    /// Which job: a datagram that strayed from another job is no peer's.
    pub job: u64,
    /// The sender.
    pub from: Rank,
    /// The receiver.
    pub to: Rank,
    /// Which of the sender's connections this is.
    pub epoch: Epoch,
    /// Which of the receiver's connections the sender means; a reply always knows.
    pub echo: Option<Epoch>,
    /// In a request the sender's clock, in a reply what the request had there.
    pub stamp_ns: u64,
    /// What the receiver needs to connect its queue pair to the sender's.
    pub params: Params,
    /// Where the sender can be reached, so that an answer needs no lookup.
    pub card: Card,
}

/// What a message asks of its receiver. Both kinds carry the same facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Connect to me, and tell me how to connect to you.
    Request,
    /// The answer to a request.
    Reply,
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
    /// Neither request nor reply.
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
        let kind = match self.kind {
            MessageKind::Request => 1,
            MessageKind::Reply => 2,
        };
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[VERSION, kind, self.card.as_bytes().len() as u8, 0]);
        bytes[8..16].copy_from_slice(&self.job.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.to.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.epoch.get().to_le_bytes());
        bytes[28..32].copy_from_slice(&self.echo.map_or(0, Epoch::get).to_le_bytes());
        bytes[32..40].copy_from_slice(&self.stamp_ns.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.params.0);
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
        let echo = Epoch::new(u32::from_le_bytes(array(header, 28)));
        if zero != 0 || (kind == MessageKind::Reply && echo.is_none()) {
            return Err(ParseError::Field(if zero != 0 { "reserved byte" } else { "receiver's epoch" }));
        }
        let epoch = Epoch::new(u32::from_le_bytes(array(header, 24)));
        Ok(Self {
            kind,
            job: u64::from_le_bytes(array(header, 8)),
            from: Rank(u32::from_le_bytes(array(header, 16))),
            to: Rank(u32::from_le_bytes(array(header, 20))),
            epoch: epoch.ok_or(ParseError::Field("sender's epoch"))?,
            echo,
            stamp_ns: u64::from_le_bytes(array(header, 32)),
            params: Params(array(header, 40)),
            card: Card::new(card).map_err(|_| ParseError::Length(bytes.len()))?,
        })
    }
}

fn parse_kind(kind: u8) -> Result<MessageKind, ParseError> {
    match kind {
        1 => Ok(MessageKind::Request),
        2 => Ok(MessageKind::Reply),
        other => Err(ParseError::Kind(other)),
    }
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
    use proptest::prelude::*;
    use std::vec::Vec;

    fn a_message() -> impl Strategy<Value = Message> {
        let card = proptest::collection::vec(any::<u8>(), 0..=Card::BYTES_MAX);
        (any::<(bool, u64, u32, u32, u32, u32, u64, [u8; 32])>(), card).prop_map(|(fields, card)| {
            let (asks, job, from, to, epoch, echo, stamp_ns, params) = fields;
            Message {
                kind: if asks { MessageKind::Request } else { MessageKind::Reply },
                job,
                from: Rank(from),
                to: Rank(to),
                epoch: Epoch::new(epoch.max(1)).unwrap(),
                echo: Epoch::new(if asks { echo } else { echo.max(1) }),
                stamp_ns,
                params: Params(params),
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
    fn a_message_fits_a_small_datagram() {
        const { assert!(MESSAGE_BYTES_MAX <= 192) };
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let text = std::format!("{}", Message::parse(&[0; 80]).unwrap_err());
        assert_eq!(text, "not a handshake message: starts with [00, 00, 00, 00]");
    }
}
