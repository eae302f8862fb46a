//! Proofs that a stream or a datagram comes from a process that holds the job's key.
//!
//! Every process has a *nonce*, a random number that stands in its card. Who dials hashes, under the key, what it
//! says together with the nonce of the process it dials: that proves the key without a round trip, and is worth
//! nothing at any other process. Who accepts answers with a hash over the dialler's nonce and the number of this
//! dial. A stranger who has recorded a hello can repeat it at the same process only, where the number of the dial is
//! known already.
//!
//! ```text
//! hello                             welcome                     datagram
//! bytes  field                      bytes  field                bytes  field
//!     4  "BnyH"                         4  "BnyW"                   4  "BnyD"
//!     2  version                        2  version                 16  tag
//!     2  length of the message          2  0                      rest message
//!     8  the dialler's nonce           16  tag
//!     8  number of the dial
//!    16  tag
//!  rest  message
//! ```
//! A tag is the first half of a BLAKE3 hash. What follows on a stream is neither tagged nor secret.
use super::CONTROL_MAX;
use alloc::vec::Vec;
use constant_time_eq::constant_time_eq;
use core::fmt;

/// Bytes of a hello before its message.
pub const HELLO_HEAD_BYTES: usize = 40;
/// The longest hello.
pub const HELLO_BYTES_MAX: usize = HELLO_HEAD_BYTES + CONTROL_MAX;
/// Bytes of a welcome.
pub const WELCOME_BYTES: usize = 24;
/// Bytes of a datagram before its message.
pub const DATAGRAM_HEAD_BYTES: usize = 20;
/// The longest datagram.
pub const DATAGRAM_BYTES_MAX: usize = DATAGRAM_HEAD_BYTES + CONTROL_MAX;

const VERSION: u16 = 1;
const HELLO: &[u8; 4] = b"BnyH";
const WELCOME: &[u8; 4] = b"BnyW";
const DATAGRAM: &[u8; 4] = b"BnyD";
const TAG_BYTES: usize = 16;

/// The key that the processes of a job share, or those of two jobs that have met.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A key of bytes that nobody can guess.
    pub fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    /// What `from` says when it dials `to`.
    pub fn hello(&self, from: u64, to: u64, dial: u64, message: &[u8]) -> Vec<u8> {
        assert!(message.len() <= CONTROL_MAX, "a control message of {} bytes", message.len());
        let mut out = Vec::with_capacity(HELLO_HEAD_BYTES + message.len());
        out.extend_from_slice(HELLO);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(message.len() as u16).to_le_bytes());
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&dial.to_le_bytes());
        let tag = self.tag(HELLO, to, &[&out, message]);
        out.extend_from_slice(&tag);
        out.extend_from_slice(message);
        out
    }

    /// Checks a whole hello that came to `to`.
    pub fn check_hello<'a>(&self, to: u64, bytes: &'a [u8]) -> Result<Hello<'a>, HelloError> {
        let (head, message) = bytes.split_first_chunk().ok_or(HelloError::Length)?;
        if message.len() != hello_follows(head)? {
            return Err(HelloError::Length);
        }
        let (said, tag) = head.split_at(HELLO_HEAD_BYTES - TAG_BYTES);
        if !constant_time_eq(tag, &self.tag(HELLO, to, &[said, message])) {
            return Err(HelloError::Tag);
        }
        Ok(Hello { from: word(&said[8..]), dial: word(&said[16..]), message })
    }

    /// What `from` answers to the hello of the process `to`.
    pub fn welcome(&self, from: u64, to: u64, dial: u64) -> [u8; WELCOME_BYTES] {
        let mut out = [0; WELCOME_BYTES];
        out[..4].copy_from_slice(WELCOME);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        let tag = self.tag(WELCOME, to, &[&from.to_le_bytes(), &dial.to_le_bytes()]);
        out[8..].copy_from_slice(&tag);
        out
    }

    /// Is this what `from` answers to the hello of the process `to`?
    pub fn is_welcome(&self, from: u64, to: u64, dial: u64, bytes: &[u8]) -> bool {
        constant_time_eq(bytes, &self.welcome(from, to, dial))
    }

    /// A datagram for the process `to`.
    pub fn datagram(&self, to: u64, message: &[u8]) -> Vec<u8> {
        assert!(message.len() <= CONTROL_MAX, "a control message of {} bytes", message.len());
        let mut out = Vec::with_capacity(DATAGRAM_HEAD_BYTES + message.len());
        out.extend_from_slice(DATAGRAM);
        out.extend_from_slice(&self.tag(DATAGRAM, to, &[message]));
        out.extend_from_slice(message);
        out
    }

    /// The message in a datagram that came to `to`; `None`: it is a stranger's. What is not even of this form is
    /// refused without a hash, so that a flood costs little.
    pub fn check_datagram<'a>(&self, to: u64, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (head, message) = bytes.split_first_chunk::<DATAGRAM_HEAD_BYTES>()?;
        if head[..4] != *DATAGRAM || message.len() > CONTROL_MAX {
            return None;
        }
        constant_time_eq(&head[4..], &self.tag(DATAGRAM, to, &[message])).then_some(message)
    }

    /// All parts but the last have a fixed length, so that no two lists of parts are hashed alike.
    fn tag(&self, what: &[u8; 4], to: u64, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(what).update(&VERSION.to_le_bytes()).update(&to.to_le_bytes());
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        *hasher.finalize().as_bytes().first_chunk().expect("a hash is longer than a tag")
    }
}

/// What a dialler that holds the key has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Its nonce.
    pub from: u64,
    /// The number of its dial.
    pub dial: u64,
    /// The control message that it brings.
    pub message: &'a [u8],
}

/// A hello that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Something else altogether.
    #[error("it does not begin like a hello")]
    Magic,
    /// Another Banyan's.
    #[error("a hello of version {0} instead of {VERSION}")]
    Version(u16),
    /// Longer than any, or not as long as it says.
    #[error("a hello of a length that none has")]
    Length,
    /// The dialler does not hold the key, or has dialled somebody else.
    #[error("the tag of the hello is wrong")]
    Tag,
}

/// Bytes that follow the head of a hello, as far as it can be one.
pub fn hello_follows(head: &[u8; HELLO_HEAD_BYTES]) -> Result<usize, HelloError> {
    if head[..4] != *HELLO {
        return Err(HelloError::Magic);
    }
    let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    match (half(4), usize::from(half(6))) {
        (VERSION, len @ 0..=CONTROL_MAX) => Ok(len),
        (VERSION, _) => Err(HelloError::Length),
        (version, _) => Err(HelloError::Version(version)),
    }
}

/// Who says that it says this hello: its nonce, by which it is known which key it should have.
pub fn hello_from(head: &[u8; HELLO_HEAD_BYTES]) -> u64 {
    word(&head[8..])
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("inside the head"))
}
