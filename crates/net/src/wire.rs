//! What two endpoints say to each other on a queue pair: sixteen bytes of header, and a payload.
//!
//! Every header says who sends: the number that the *receiver* gave the sender when they connected, so that nothing
//! has to be looked up and many senders can share a queue. What is sent before the receiver has answered carries
//! [`UNNAMED`]; then the connection tells.
use crate::api::Envelope;

/// The sender has not been given a number yet.
pub(crate) const UNNAMED: u32 = u32::MAX;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A whole message.
    Eager = 1,
    /// A whole message whose sender waits for the match: answered by `Fin`.
    EagerSync = 2,
    /// A message that lies in the sender's memory: the payload is an [`Offer`].
    Offer = 3,
    /// The sender's message has been matched and read.
    Fin = 4,
    /// The receiver cannot read the sender's memory and asks for fragments.
    Clear = 5,
    /// A fragment.
    Fragment = 6,
    /// The receiver could not take the sender's message.
    Refuse = 7,
    /// For a handler of the receiver.
    Active = 8,
    /// The sender has not got the message any more that the receiver asks for.
    Withdraw = 9,
    /// The beginning of an active message that is longer than the connection takes.
    Part = 10,
    /// The receiver reads the sender's message and asks it to write a part: the payload is a [`Share`].
    Share = 11,
    /// The sender has written that part, or could not.
    Wrote = 12,
    /// The beginning of the message whose offer came just before.
    Head = 13,
    /// The receiver has read its parts of the sender's message: it is over if the sender has written the others.
    Took = 14,
}

impl Kind {
    #[inline]
    fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Eager,
            2 => Kind::EagerSync,
            3 => Kind::Offer,
            4 => Kind::Fin,
            5 => Kind::Clear,
            6 => Kind::Fragment,
            7 => Kind::Refuse,
            8 => Kind::Active,
            9 => Kind::Withdraw,
            10 => Kind::Part,
            11 => Kind::Share,
            12 => Kind::Wrote,
            13 => Kind::Head,
            14 => Kind::Took,
            _ => return None,
        })
    }
}

/// The header: kind (8 bits), a request of the addressee or the sender (24 bits), the sender's number (32 bits), and
/// what else the kind needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// `request` is the sender's, named in the answer; of plain eager messages, which nobody answers, it is the mark.
    Message { kind: Kind, envelope: Envelope, request: u32 },
    /// `request` is the addressee's.
    Fin { request: u32 },
    /// `request` is the addressee's. Is it of a collective that the sender of this has left, since somebody was lost?
    Refuse { request: u32, left: bool },
    /// `request` is the addressee's receive.
    Withdraw { request: u32 },
    /// `request` is the addressee's send; `into` the receive that takes the fragments. Has it the head already?
    Clear { request: u32, into: u32, headed: bool },
    /// `request` is the addressee's receive.
    Fragment { request: u32, offset: u64 },
    /// For the handler with this number; the argument is its own affair.
    Active { handler: u32, argument: u64 },
    /// More of the same active message follows.
    Part,
    /// `request` is the addressee's send; `into` the receive that it is to write a part of.
    Share { request: u32, into: u32 },
    /// `request` is the addressee's receive.
    Wrote { request: u32, well: bool },
    /// A part of the beginning of a message that was offered just before; `request` is the sender's. The last part?
    Head { request: u32, offset: u32, last: bool },
    /// `request` is the addressee's send.
    Took { request: u32 },
}

/// Requests in flight per process; an index must fit its field.
pub(crate) const REQUEST_MAX: u32 = (1 << 24) - 1;

impl Header {
    /// A plain eager message as it stands in the slot: as [`Header::encode`] does it, without a look at the kind.
    #[inline(always)]
    pub fn eager(envelope: Envelope, name: u32) -> [u64; 2] {
        let first = Kind::Eager as u64 | u64::from(envelope.context) << 32;
        [first, u64::from(envelope.tag as u32) | u64::from(name) << 32]
    }

    /// As it stands in the slot, from the sender with this number.
    #[inline]
    pub fn encode(self, name: u32) -> [u64; 2] {
        let first = |kind: Kind, request: u32, rest: u32| {
            kind as u64 | u64::from(request) << 8 | u64::from(rest) << 32
        };
        let second = |low: u32| u64::from(low) | u64::from(name) << 32;
        match self {
            Header::Message { kind, envelope, request } => {
                [first(kind, request, envelope.context), second(envelope.tag as u32)]
            }
            Header::Fin { request } => [first(Kind::Fin, request, 0), second(0)],
            Header::Refuse { request, left } => [first(Kind::Refuse, request, left.into()), second(0)],
            Header::Withdraw { request } => [first(Kind::Withdraw, request, 0), second(0)],
            Header::Clear { request, into, headed } => {
                [first(Kind::Clear, request, into), second(headed.into())]
            }
            Header::Fragment { request, offset } => [first(Kind::Fragment, request, name), offset],
            Header::Active { handler, argument } => [first(Kind::Active, handler, name), argument],
            Header::Part => [first(Kind::Part, 0, 0), second(0)],
            Header::Share { request, into } => [first(Kind::Share, request, into), second(0)],
            Header::Wrote { request, well } => [first(Kind::Wrote, request, well.into()), second(0)],
            Header::Head { request, offset, last } => {
                [first(Kind::Head, request, offset), second(last.into())]
            }
            Header::Took { request } => [first(Kind::Took, request, 0), second(0)],
        }
    }

    /// What stands in the slot, and the sender's number; `None` for what no endpoint writes.
    #[inline(always)]
    pub fn decode(words: [u64; 2]) -> Option<(Header, u32)> {
        if words[0] as u8 != Kind::Eager as u8 {
            return Self::decode_other(words);
        }
        // The commonest has a way without a table of kinds.
        let envelope = Envelope { context: (words[0] >> 32) as u32, tag: words[1] as i32 };
        let request = (words[0] >> 8) as u32 & REQUEST_MAX;
        Some((Header::Message { kind: Kind::Eager, envelope, request }, (words[1] >> 32) as u32))
    }

    #[inline(never)]
    fn decode_other(words: [u64; 2]) -> Option<(Header, u32)> {
        let request = (words[0] >> 8) as u32 & REQUEST_MAX;
        let rest = (words[0] >> 32) as u32;
        let (low, high) = (words[1] as u32, (words[1] >> 32) as u32);
        Some(match Kind::from_byte(words[0] as u8)? {
            kind @ (Kind::Eager | Kind::EagerSync | Kind::Offer) => {
                let envelope = Envelope { context: rest, tag: low as i32 };
                (Header::Message { kind, envelope, request }, high)
            }
            Kind::Fin => (Header::Fin { request }, high),
            Kind::Refuse => (Header::Refuse { request, left: rest != 0 }, high),
            Kind::Withdraw => (Header::Withdraw { request }, high),
            Kind::Clear => (Header::Clear { request, into: rest, headed: low != 0 }, high),
            Kind::Fragment => (Header::Fragment { request, offset: words[1] }, rest),
            Kind::Active => (Header::Active { handler: request, argument: words[1] }, rest),
            Kind::Part => (Header::Part, high),
            Kind::Share => (Header::Share { request, into: rest }, high),
            Kind::Wrote => (Header::Wrote { request, well: rest != 0 }, high),
            Kind::Head => (Header::Head { request, offset: rest, last: low != 0 }, high),
            Kind::Took => (Header::Took { request }, high),
        })
    }
}

/// Bytes of an encoded offer.
pub(crate) const OFFER_BYTES: usize = 24;

/// A message that lies in the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub addr: u64,
    pub bytes: u64,
    /// Key of the registration; `None` when the sender had none left, so that only fragments work.
    pub key: Option<u32>,
    /// The sender's request.
    pub request: u32,
    /// What the sender marked the message with.
    pub mark: u32,
    /// Does the sender do nothing but wait for the receiver?
    pub waits: bool,
    /// Does the beginning of the message follow at once?
    pub headed: bool,
}

const OFFER_KEY: u64 = 1 << 32;
const OFFER_WAITS: u64 = 1 << 33;
const OFFER_HEADED: u64 = 1 << 34;
/// The mark stands behind the bit that says whether there is a key.
const OFFER_MARK_SHIFT: u32 = 40;

impl Offer {
    /// As payload; the request travels in the header.
    pub fn encode(&self) -> [u8; OFFER_BYTES] {
        let mut out = [0; OFFER_BYTES];
        out[0..8].copy_from_slice(&self.addr.to_le_bytes());
        out[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        let key = self.key.map_or(0, |key| OFFER_KEY | u64::from(key));
        let waits = if self.waits { OFFER_WAITS } else { 0 };
        let headed = if self.headed { OFFER_HEADED } else { 0 };
        let last = key | waits | headed | u64::from(self.mark) << OFFER_MARK_SHIFT;
        out[16..24].copy_from_slice(&last.to_le_bytes());
        out
    }

    /// From a payload.
    pub fn decode(payload: [u8; OFFER_BYTES], request: u32) -> Offer {
        let word = |i: usize| u64::from_le_bytes(payload[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
        let key = (word(2) & OFFER_KEY != 0).then_some(word(2) as u32);
        let mark = (word(2) >> OFFER_MARK_SHIFT) as u32;
        let waits = word(2) & OFFER_WAITS != 0;
        let headed = word(2) & OFFER_HEADED != 0;
        Offer { addr: word(0), bytes: word(1), key, request, mark, waits, headed }
    }
}

/// Bytes of an encoded share.
pub(crate) const SHARE_BYTES: usize = 24;

/// Where the sender of a message may write parts of it: the receiver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub addr: u64,
    /// Of the registration.
    pub key: u32,
    /// Bytes of the message that are wanted.
    pub bytes: u64,
}

impl Share {
    /// As payload.
    pub fn encode(&self) -> [u8; SHARE_BYTES] {
        let mut out = [0; SHARE_BYTES];
        let words = [self.addr, self.key.into(), self.bytes];
        out.chunks_exact_mut(8).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
        out
    }

    /// From a payload.
    pub fn decode(payload: [u8; SHARE_BYTES]) -> Share {
        let word = |i: usize| u64::from_le_bytes(payload[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
        Share { addr: word(0), key: word(1) as u32, bytes: word(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire_with_their_senders_number() {
        let envelope = Envelope { context: u32::MAX, tag: -5 };
        let eager = Header::Message { kind: Kind::Eager, envelope, request: 0 };
        assert_eq!(Header::eager(envelope, 77), eager.encode(77));
        for header in [
            eager,
            Header::Message { kind: Kind::EagerSync, envelope, request: REQUEST_MAX },
            Header::Message { kind: Kind::Offer, envelope, request: 7 },
            Header::Fin { request: 1 },
            Header::Refuse { request: REQUEST_MAX, left: false },
            Header::Refuse { request: 1, left: true },
            Header::Withdraw { request: 9 },
            Header::Clear { request: 1, into: u32::MAX, headed: false },
            Header::Clear { request: 1, into: u32::MAX, headed: true },
            Header::Head { request: REQUEST_MAX, offset: 0, last: false },
            Header::Head { request: 1, offset: u32::MAX, last: true },
            Header::Fragment { request: 3, offset: u64::MAX },
            Header::Active { handler: 5, argument: u64::MAX },
            Header::Part,
            Header::Share { request: 4, into: u32::MAX },
            Header::Wrote { request: 5, well: true },
            Header::Wrote { request: 5, well: false },
            Header::Took { request: REQUEST_MAX },
        ] {
            for name in [0, 77, UNNAMED] {
                assert_eq!(Header::decode(header.encode(name)), Some((header, name)));
            }
        }
        assert_eq!(Header::decode([0, 0]), None);
        assert_eq!(Header::decode([99, 0]), None);
    }

    #[test]
    fn shares_survive_the_wire() {
        let share = Share { addr: 1 << 47, key: u32::MAX, bytes: 1 << 40 };
        assert_eq!(Share::decode(share.encode()), share);
    }

    #[test]
    fn offers_survive_the_wire() {
        for key in [None, Some(0), Some(u32::MAX)] {
            for mark in [0, 1, REQUEST_MAX] {
                for (waits, headed) in [(false, false), (true, false), (true, true)] {
                    let offer = Offer { addr: 1 << 47, bytes: 1 << 40, key, request: 9, mark, waits, headed };
                    assert_eq!(Offer::decode(offer.encode(), 9), offer);
                }
            }
        }
    }
}
