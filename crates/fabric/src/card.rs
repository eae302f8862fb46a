//! The card of a process: where it can be reached, a section per provider.
//!
//! ```text
//! bytes  field
//!     1  version
//!     1  sections: 1 shared memory, 2 sockets with an IPv4 address, 4 sockets with an IPv6 address, 8 an RDMA device,
//!          16 connections to its node in shared memory are shared, 32 those through its RDMA device
//!    16  host: equal values share memory
//!     4  node in the job
//!    16  shared memory: process (4), descriptor (4), start time (8)
//!  4/16  sockets: address,
//!  2 + 2   ports of TCP and UDP,
//!     8    a number that nobody had before: proofs made for another process are worth nothing here
//!    16  RDMA device: its address (or zeros),
//!     2    the same inside an InfiniBand subnet (or 0),
//! 4 + 4   the number of the queue pair for datagrams; what is the same for those who can reach each other,
//!     8    a number that nobody had before,
//!     8    the processes that share connections from elsewhere with it, where it does
//! ```
//! With IPv4 the text of a card is 108 characters, so that it fits the smallest board there is (127); with IPv6 it is
//! 132 and takes two keys on such boards, as one with an RDMA device does.
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use sys::Locator;

const VERSION: u8 = 2;
const SOFT: u8 = 1;
const SOCKETS_V4: u8 = 2;
const SOCKETS_V6: u8 = 4;
const VERBS: u8 = 8;
const SHARED: u8 = 16;
const VERBS_SHARED: u8 = 32;

/// Where a process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Names the host; equal values share memory.
    pub host: [u64; 2],
    /// Node in the job.
    pub node: u32,
    /// The process's segment, if others can map it.
    pub soft: Option<Locator>,
    /// Its sockets, if it has any.
    pub sockets: Option<SocketsSection>,
    /// Its RDMA device, if it has one.
    pub verbs: Option<VerbsSection>,
    /// Does it share connections in shared memory from other nodes with the processes of its own (XRC)?
    pub shared: bool,
}

/// Where a process is reached through its RDMA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerbsSection {
    /// The address of its port; zeros where none is needed.
    pub gid: [u8; 16],
    /// The same inside an InfiniBand subnet.
    pub lid: u16,
    /// The number of its queue pair for datagrams.
    pub datagrams: u32,
    /// The same for those who can reach each other.
    pub subnet: u32,
    /// A number that nobody had before.
    pub nonce: u64,
    /// Names the processes of its node that share connections from elsewhere (XRC); 0: it does not.
    pub domain: u64,
}

/// Where a process listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketsSection {
    /// The address of both sockets.
    pub addr: IpAddr,
    /// The port that takes connections.
    pub tcp: u16,
    /// The port that takes datagrams.
    pub udp: u16,
    /// A number that nobody had before.
    pub nonce: u64,
}

/// A card that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// Not hexadecimal digits.
    #[error("not the card of a process: '{0}'")]
    Text(String),
    /// A later Banyan's, or damaged.
    #[error("a card of version {0} instead of {VERSION}")]
    Version(u8),
    /// Sections that do not exist.
    #[error("a card with unknown sections {0:#x}")]
    Sections(u8),
    /// Too short or too long for its sections.
    #[error("a card of {0} bytes, which its sections do not have")]
    Length(usize),
}

impl Card {
    /// Names the peer's node, if a process with this card needs one connection for all processes there.
    pub fn shares(&self, peer: &Card) -> Option<u64> {
        if self.soft.is_some() && peer.soft.is_some() && self.host == peer.host {
            return (self.shared && peer.shared && self.node != peer.node).then_some(peer.node.into());
        }
        let (own, other) = (self.verbs?, peer.verbs?);
        let both = own.domain != 0 && other.domain != 0 && own.subnet == other.subnet;
        (both && own.domain != other.domain).then_some(other.domain)
    }

    /// Does it share connections with anybody?
    pub fn is_sharing(&self) -> bool {
        self.shared || self.verbs.is_some_and(|verbs| verbs.domain != 0)
    }

    /// As bytes, for datagrams.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION, if self.shared { SHARED } else { 0 }];
        self.host.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(self.node.to_le_bytes());
        if let Some(segment) = &self.soft {
            out[1] |= SOFT;
            out.extend(segment.pid.to_le_bytes());
            out.extend(segment.fd.to_le_bytes());
            out.extend(segment.start_ticks.to_le_bytes());
        }
        if let Some(sockets) = &self.sockets {
            match sockets.addr {
                IpAddr::V4(addr) => {
                    out[1] |= SOCKETS_V4;
                    out.extend(addr.octets());
                }
                IpAddr::V6(addr) => {
                    out[1] |= SOCKETS_V6;
                    out.extend(addr.octets());
                }
            }
            out.extend(sockets.tcp.to_le_bytes());
            out.extend(sockets.udp.to_le_bytes());
            out.extend(sockets.nonce.to_le_bytes());
        }
        if let Some(verbs) = &self.verbs {
            out[1] |= VERBS;
            out.extend(verbs.gid);
            out.extend(verbs.lid.to_le_bytes());
            out.extend(verbs.datagrams.to_le_bytes());
            out.extend(verbs.subnet.to_le_bytes());
            out.extend(verbs.nonce.to_le_bytes());
            if verbs.domain != 0 {
                out[1] |= VERBS_SHARED;
                out.extend(verbs.domain.to_le_bytes());
            }
        }
        out
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CardError> {
        let mut reader = Reader { bytes, len: bytes.len() };
        let [version, sections] = reader.take()?;
        if version != VERSION {
            return Err(CardError::Version(version));
        }
        let both = SOCKETS_V4 | SOCKETS_V6;
        let known = SOFT | both | VERBS | SHARED | VERBS_SHARED;
        let alone = sections & (VERBS | VERBS_SHARED) == VERBS_SHARED;
        if sections & !known != 0 || sections & both == both || alone {
            return Err(CardError::Sections(sections));
        }
        let host = [u64::from_le_bytes(reader.take()?), u64::from_le_bytes(reader.take()?)];
        let node = u32::from_le_bytes(reader.take()?);
        let soft = match sections & SOFT {
            0 => None,
            _ => Some(Locator {
                pid: u32::from_le_bytes(reader.take()?),
                fd: u32::from_le_bytes(reader.take()?),
                start_ticks: u64::from_le_bytes(reader.take()?),
            }),
        };
        let addr = match sections & both {
            0 => None,
            SOCKETS_V4 => Some(Ipv4Addr::from(reader.take::<4>()?).into()),
            _ => Some(Ipv6Addr::from(reader.take::<16>()?).into()),
        };
        let sockets = match addr {
            None => None,
            Some(addr) => Some(SocketsSection {
                addr,
                tcp: u16::from_le_bytes(reader.take()?),
                udp: u16::from_le_bytes(reader.take()?),
                nonce: u64::from_le_bytes(reader.take()?),
            }),
        };
        let verbs = match sections & VERBS {
            0 => None,
            _ => Some(VerbsSection {
                gid: reader.take()?,
                lid: u16::from_le_bytes(reader.take()?),
                datagrams: u32::from_le_bytes(reader.take()?),
                subnet: u32::from_le_bytes(reader.take()?),
                nonce: u64::from_le_bytes(reader.take()?),
                domain: match sections & VERBS_SHARED {
                    0 => 0,
                    _ => u64::from_le_bytes(reader.take()?),
                },
            }),
        };
        if !reader.bytes.is_empty() {
            return Err(CardError::Length(bytes.len()));
        }
        Ok(Card { host, node, soft, sockets, verbs, shared: sections & SHARED != 0 })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CardError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(CardError::Length(self.len))?;
        self.bytes = rest;
        Ok(*head)
    }
}

/// As text, for boards that carry text: the bytes in hexadecimal.
impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Card {
    type Err = CardError;

    fn from_str(text: &str) -> Result<Self, CardError> {
        let bad = || CardError::Text(text.into());
        let digit = |c: u8| (c as char).to_digit(16).ok_or_else(bad);
        let pairs = text.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| match pair {
            [high, low] => Ok((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => Err(bad()),
        });
        Card::from_bytes(&bytes.collect::<Result<Vec<u8>, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards() -> Vec<Card> {
        let soft = Locator { pid: 4_000_000, fd: 5, start_ticks: 1 << 40 };
        let v4 = SocketsSection { addr: [10, 1, 2, 3].into(), tcp: 65_535, udp: 1, nonce: u64::MAX };
        let v6 = SocketsSection { addr: Ipv6Addr::LOCALHOST.into(), ..v4 };
        let verbs =
            VerbsSection { gid: [9; 16], lid: 17, datagrams: 1 << 23, subnet: 5, nonce: 1, domain: 0 };
        let sharing = VerbsSection { domain: u64::MAX, ..verbs };
        let bare =
            Card { host: [u64::MAX, 7], node: 3, soft: None, sockets: None, verbs: None, shared: false };
        vec![
            bare,
            Card { soft: Some(soft), ..bare },
            Card { sockets: Some(v4), ..bare },
            Card { soft: Some(soft), sockets: Some(v4), ..bare },
            Card { soft: Some(soft), sockets: Some(v6), ..bare },
            Card { soft: Some(soft), sockets: Some(v6), verbs: Some(verbs), ..bare },
            Card { verbs: Some(verbs), ..bare },
            Card { soft: Some(soft), shared: true, ..bare },
            Card { verbs: Some(sharing), ..bare },
            Card { soft: Some(soft), sockets: Some(v6), verbs: Some(sharing), shared: true, ..bare },
        ]
    }

    #[test]
    fn a_card_survives_bytes_and_text() {
        for card in cards() {
            assert_eq!(Card::from_bytes(&card.to_bytes()), Ok(card));
            assert_eq!(card.to_string().parse(), Ok(card));
            assert!(proto::wireup::Card::new(&card.to_bytes()).is_ok());
        }
        assert_eq!(cards()[3].to_string().len(), 108);
    }

    #[test]
    fn cards_tell_who_shares_connections() {
        let all = cards();
        let (near, far) = (all[7], all[9]);
        let elsewhere = |card: Card| Card { node: 4, ..card };
        let other =
            |card: Card| Card { verbs: card.verbs.map(|verbs| VerbsSection { domain: 7, ..verbs }), ..card };
        assert_eq!((near.shares(&elsewhere(near)), near.shares(&near)), (Some(4), None));
        assert_eq!((far.shares(&far), far.shares(&elsewhere(far))), (None, Some(4)));
        let apart = Card { host: [1, 1], ..other(far) };
        assert_eq!((far.shares(&apart), far.shares(&Card { host: [1, 1], ..far })), (Some(7), None));
        assert_eq!((near.shares(&apart), all[6].shares(&apart)), (None, None));
        assert!(near.is_sharing() && far.is_sharing() && !all[5].is_sharing());
    }

    #[test]
    fn a_damaged_card_is_an_error() {
        for text in ["", "00", "zz", "0", &"ff".repeat(48), &"é".repeat(48)] {
            assert!(text.parse::<Card>().is_err(), "{text}");
        }
        for card in cards() {
            let bytes = card.to_bytes();
            for len in 0..bytes.len() {
                assert!(Card::from_bytes(&bytes[..len]).is_err());
            }
            assert!(Card::from_bytes(&[bytes, vec![0]].concat()).is_err());
        }
    }
}
