//! What a process says about itself: address card, connection parameters, epoch.
use core::{fmt, num::NonZeroU32};

/// Where a process can be reached: opaque bytes of its fabric, with a section for each provider that it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Card {
    len: u8,
    bytes: [u8; Card::BYTES_MAX],
}

/// More bytes than a card holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address card of {0} bytes: at most {max} fit", max = Card::BYTES_MAX)]
pub struct CardTooLong(pub usize);

impl Card {
    /// The longest card.
    pub const BYTES_MAX: usize = 112;

    /// A card with these bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, CardTooLong> {
        let mut card = Self { len: bytes.len() as u8, bytes: [0; Self::BYTES_MAX] };
        card.bytes.get_mut(..bytes.len()).ok_or(CardTooLong(bytes.len()))?.copy_from_slice(bytes);
        Ok(card)
    }

    /// The fabric's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Card({:02x?})", self.as_bytes())
    }
}

/// What a fabric has to know of another's queue pair to connect to it. Opaque here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params(pub [u8; 32]);

/// Which connection of its process an end belongs to: every new one gets a higher number, so that a late
/// message about an earlier one is known for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(NonZeroU32);

impl Epoch {
    pub(super) const FIRST: Epoch = Epoch(NonZeroU32::MIN);

    /// 0 stands for none.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The following one. A process that makes four billion connections has made one per millisecond for
    /// fifty days; it must not begin to confuse them.
    pub(super) fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("a process makes fewer than 2^32 connections"))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
