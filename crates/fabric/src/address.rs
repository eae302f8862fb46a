//! What processes tell each other: the card of a process, the parameters of one queue pair.
use proto::ids::QpNum;
use std::fmt;
use std::str::FromStr;
use sys::Locator;

/// Bytes of an encoded card.
pub const CARD_BYTES: usize = 48;
/// Bytes of encoded queue-pair parameters.
pub const PARAMS_BYTES: usize = 32;

const VERSION: u32 = 1;

/// Where a process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Names the host; equal values share memory.
    pub host: [u64; 2],
    /// Node in the job.
    pub node: u32,
    /// The queue pair that takes datagrams.
    pub ud: QpNum,
    /// The process's segment.
    pub segment: Locator,
}

/// A card that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the card of a process: {0}")]
pub struct AddressError(String);

impl Address {
    /// As bytes, for datagrams.
    pub fn to_bytes(&self) -> [u8; CARD_BYTES] {
        let mut out = [0; CARD_BYTES];
        out[0..4].copy_from_slice(&VERSION.to_le_bytes());
        out[4..8].copy_from_slice(&self.node.to_le_bytes());
        out[8..16].copy_from_slice(&self.host[0].to_le_bytes());
        out[16..24].copy_from_slice(&self.host[1].to_le_bytes());
        out[24..32].copy_from_slice(&self.segment.start_ticks.to_le_bytes());
        out[32..36].copy_from_slice(&self.segment.pid.to_le_bytes());
        out[36..40].copy_from_slice(&self.segment.fd.to_le_bytes());
        out[40..44].copy_from_slice(&self.ud.0.to_le_bytes());
        out
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AddressError> {
        if bytes.len() != CARD_BYTES {
            return Err(AddressError(format!("{} bytes instead of {CARD_BYTES}", bytes.len())));
        }
        let version = u32_at(bytes, 0);
        if version != VERSION {
            return Err(AddressError(format!("version {version} instead of {VERSION}")));
        }
        Ok(Address {
            node: u32_at(bytes, 4),
            host: [u64_at(bytes, 8), u64_at(bytes, 16)],
            segment: Locator {
                start_ticks: u64_at(bytes, 24),
                pid: u32_at(bytes, 32),
                fd: u32_at(bytes, 36),
            },
            ud: QpNum(u32_at(bytes, 40)),
        })
    }
}

/// As text, for boards that carry text: the bytes in hexadecimal.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let digit = |c: u8| (c as char).to_digit(16).ok_or_else(|| AddressError(format!("'{text}'")));
        let pairs = text.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| match pair {
            [high, low] => Ok((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => Err(AddressError(format!("'{text}'"))),
        });
        Address::from_bytes(&bytes.collect::<Result<Vec<u8>, _>>()?)
    }
}

/// What a peer needs to send to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpParams {
    /// The queue pair.
    pub num: QpNum,
    /// Number of its receive ring.
    pub ring: u32,
    /// Where the ring lies in its owner's segment.
    pub ring_offset: u64,
    /// Length of the ring.
    pub ring_bytes: u32,
}

impl QpParams {
    /// As bytes, for datagrams.
    pub fn to_bytes(&self) -> [u8; PARAMS_BYTES] {
        let mut out = [0; PARAMS_BYTES];
        out[0..4].copy_from_slice(&self.num.0.to_le_bytes());
        out[4..8].copy_from_slice(&self.ring.to_le_bytes());
        out[8..16].copy_from_slice(&self.ring_offset.to_le_bytes());
        out[16..20].copy_from_slice(&self.ring_bytes.to_le_bytes());
        out
    }

    /// From bytes; what they mean is checked when the queue pair connects.
    pub fn from_bytes(bytes: &[u8; PARAMS_BYTES]) -> Self {
        QpParams {
            num: QpNum(u32_at(bytes, 0)),
            ring: u32_at(bytes, 4),
            ring_offset: u64_at(bytes, 8),
            ring_bytes: u32_at(bytes, 16),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_bytes_and_text() {
        let card = Address {
            host: [u64::MAX, 7],
            node: 3,
            ud: QpNum(9),
            segment: Locator { pid: 4_000_000, fd: 5, start_ticks: 1 << 40 },
        };
        assert_eq!(Address::from_bytes(&card.to_bytes()), Ok(card));
        assert_eq!(card.to_string().parse(), Ok(card));
    }

    #[test]
    fn a_damaged_card_is_an_error() {
        for text in ["", "00", "zz", "0", &"ff".repeat(CARD_BYTES), &"é".repeat(CARD_BYTES)] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
