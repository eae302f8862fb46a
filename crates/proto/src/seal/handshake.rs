//! How the two ends of a connection prove to each other that they hold the job's key.
//!
//! Both machines take bytes as they come and say how many they still want ([`Child::wants`], [`Parent::wants`]). A
//! driver that reads no more than that leaves the frames behind the handshake where they are.
use super::frames::Seal;
use super::key::{Key, NONCE_BYTES, Nonce};
use crate::ids::NodeId;
use alloc::vec::Vec;
use constant_time_eq::constant_time_eq_n;

/// What both sides begin with.
pub const MAGIC: [u8; 8] = *b"banyan\r\n";
/// Version of the handshake and of the seal.
pub const VERSION: u8 = 1;
/// Most bytes of one message of a handshake, and the most that a side holds of its peer before it has a seal.
pub const MESSAGE_BYTES_MAX: usize = WELCOME_BYTES;

const PROOF_BYTES: usize = 32;
const OPENING_BYTES: usize = MAGIC.len() + 1;
const HELLO_BYTES: usize = OPENING_BYTES + 4 + NONCE_BYTES;
const WELCOME_BYTES: usize = OPENING_BYTES + NONCE_BYTES + PROOF_BYTES;
const VERDICT_BYTES: usize = 1 + PROOF_BYTES;
const ADMITTED: u8 = 0;

/// Why there is no handshake with this peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Not one of ours at all.
    #[error("it does not speak Banyan's protocol")]
    BadMagic,
    /// Another version of ours.
    #[error("it speaks version {0} of the handshake, this is version {VERSION}")]
    Version(u8),
    /// It cannot prove that it holds the job's key: another job's, a stranger, or a recording of an earlier start.
    #[error("it does not hold the key of this job")]
    WrongKey,
    /// More bytes than were wanted.
    #[error("{got} bytes where {wanted} were wanted")]
    Oversized {
        /// Bytes that came.
        got: usize,
        /// Bytes that were wanted.
        wanted: usize,
    },
    /// A verdict that this version does not know.
    #[error("it answered with the unknown verdict {0}")]
    Verdict(u8),
    /// It holds the key and does not want us.
    #[error("it refused: {0}")]
    Refused(Refusal),
}

/// Why a parent does not want a child that holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The node is not below it.
    #[error("the node is not expected there")]
    Unknown = 1,
    /// The node is there already.
    #[error("the node is connected already")]
    Connected,
}

impl Refusal {
    const ALL: [Refusal; 2] = [Refusal::Unknown, Refusal::Connected];
}

/// How far a handshake is.
#[derive(Debug)]
pub enum Progress<T> {
    /// Push more bytes.
    More,
    /// Over.
    Done(T),
}

/// What a hash is for, so that none can stand for another.
#[derive(Clone, Copy)]
enum Purpose {
    ParentProof = 1,
    ChildProof,
    Verdict,
    KeyUp,
    KeyDown,
}

/// Both first messages, as far as they can differ between two handshakes of one job.
#[derive(Clone, Copy, Debug)]
struct Transcript {
    hello: [u8; HELLO_BYTES],
    parent: Nonce,
}

impl Transcript {
    fn hash(&self, key: &Key, purpose: Purpose, detail: u8) -> [u8; 32] {
        key.hash(&[&[purpose as u8, detail], &self.hello, &self.parent.0])
    }

    fn is_proven(&self, key: &Key, purpose: Purpose, detail: u8, proof: &[u8; PROOF_BYTES]) -> bool {
        constant_time_eq_n(&self.hash(key, purpose, detail), proof)
    }

    fn link_key(&self, key: &Key, purpose: Purpose) -> Key {
        Key::new(self.hash(key, purpose, 0))
    }
}

/// The side that connects.
#[derive(Debug)]
pub struct Child {
    key: Key,
    hello: [u8; HELLO_BYTES],
    inbox: Inbox,
    /// Set when the parent has proven itself.
    transcript: Option<Transcript>,
}

impl Child {
    /// Begins: appends the first message to `out`.
    pub fn new(key: Key, node: NodeId, nonce: Nonce, out: &mut Vec<u8>) -> Self {
        let mut hello = [0; HELLO_BYTES];
        let (opening, rest) = hello.split_at_mut(OPENING_BYTES);
        opening[..MAGIC.len()].copy_from_slice(&MAGIC);
        opening[MAGIC.len()] = VERSION;
        rest[..4].copy_from_slice(&node.0.to_le_bytes());
        rest[4..].copy_from_slice(&nonce.0);
        out.extend_from_slice(&hello);
        Child { key, hello, inbox: Inbox::new(WELCOME_BYTES), transcript: None }
    }

    /// Bytes to push before anything happens; at least one until the handshake is over.
    pub fn wants(&self) -> usize {
        self.inbox.wants()
    }

    /// Takes what was read, at most [`Child::wants`] bytes, and appends what to send to `out`. After an error the
    /// connection is of no use.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress<Seal>, HandshakeError> {
        self.inbox.push(bytes)?;
        match self.transcript {
            None => self.on_welcome(out).map(|()| Progress::More),
            Some(transcript) => self.on_verdict(transcript),
        }
    }

    fn on_welcome(&mut self, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        check_opening(&self.inbox.bytes)?;
        let Some(welcome) = self.inbox.whole::<WELCOME_BYTES>() else { return Ok(()) };
        let (nonce, proof) = welcome[OPENING_BYTES..].split_at(NONCE_BYTES);
        let transcript = Transcript { hello: self.hello, parent: Nonce(array(nonce)) };
        if !transcript.is_proven(&self.key, Purpose::ParentProof, 0, &array(proof)) {
            return Err(HandshakeError::WrongKey);
        }
        out.extend_from_slice(&transcript.hash(&self.key, Purpose::ChildProof, 0));
        self.transcript = Some(transcript);
        self.inbox = Inbox::new(VERDICT_BYTES);
        Ok(())
    }

    fn on_verdict(&mut self, transcript: Transcript) -> Result<Progress<Seal>, HandshakeError> {
        let Some([verdict, proof @ ..]) = self.inbox.whole::<VERDICT_BYTES>() else {
            return Ok(Progress::More);
        };
        if !transcript.is_proven(&self.key, Purpose::Verdict, verdict, &proof) {
            return Err(HandshakeError::WrongKey);
        }
        if verdict == ADMITTED {
            let up = transcript.link_key(&self.key, Purpose::KeyUp);
            return Ok(Progress::Done(Seal::new(up, transcript.link_key(&self.key, Purpose::KeyDown))));
        }
        let known = Refusal::ALL.into_iter().find(|refusal| *refusal as u8 == verdict);
        Err(known.map_or(HandshakeError::Verdict(verdict), HandshakeError::Refused))
    }
}

/// The side that listens.
#[derive(Debug)]
pub struct Parent {
    key: Key,
    nonce: Nonce,
    inbox: Inbox,
    transcript: Option<Transcript>,
}

/// A child that has proven that it holds the key, before its parent's verdict.
#[derive(Debug)]
pub struct Proven {
    key: Key,
    transcript: Transcript,
    /// The node that it says it is.
    pub node: NodeId,
}

impl Parent {
    /// Waits for the first message.
    pub fn new(key: Key, nonce: Nonce) -> Self {
        Parent { key, nonce, inbox: Inbox::new(HELLO_BYTES), transcript: None }
    }

    /// Bytes to push before anything happens; at least one until the child is proven.
    pub fn wants(&self) -> usize {
        self.inbox.wants()
    }

    /// The nonce of the child, once it has said it. One that was there before shows a recording.
    pub fn child_nonce(&self) -> Option<Nonce> {
        self.transcript.map(|transcript| Nonce(array(&transcript.hello[HELLO_BYTES - NONCE_BYTES..])))
    }

    /// Takes what was read, at most [`Parent::wants`] bytes, and appends what to send to `out`. After an error send
    /// that and close the connection.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress<Proven>, HandshakeError> {
        self.inbox.push(bytes)?;
        match self.transcript {
            None => self.on_hello(out).map(|()| Progress::More),
            Some(transcript) => self.on_proof(transcript),
        }
    }

    fn on_hello(&mut self, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        let opening = check_opening(&self.inbox.bytes);
        if let Err(HandshakeError::Version(_)) = opening {
            write_opening(out); // for the other to say what is wrong
        }
        opening?;
        let Some(hello) = self.inbox.whole::<HELLO_BYTES>() else { return Ok(()) };
        let transcript = Transcript { hello, parent: self.nonce };
        write_opening(out);
        out.extend_from_slice(&self.nonce.0);
        out.extend_from_slice(&transcript.hash(&self.key, Purpose::ParentProof, 0));
        self.transcript = Some(transcript);
        self.inbox = Inbox::new(PROOF_BYTES);
        Ok(())
    }

    fn on_proof(&mut self, transcript: Transcript) -> Result<Progress<Proven>, HandshakeError> {
        let Some(proof) = self.inbox.whole::<PROOF_BYTES>() else { return Ok(Progress::More) };
        if !transcript.is_proven(&self.key, Purpose::ChildProof, 0, &proof) {
            return Err(HandshakeError::WrongKey);
        }
        let node = u32::from_le_bytes(array(&transcript.hello[OPENING_BYTES..OPENING_BYTES + 4]));
        Ok(Progress::Done(Proven { key: self.key.clone(), transcript, node: NodeId(node) }))
    }
}

impl Proven {
    /// Takes the child: appends the verdict, and the link is sealed from here on.
    pub fn admit(self, out: &mut Vec<u8>) -> Seal {
        self.write_verdict(ADMITTED, out);
        let up = self.transcript.link_key(&self.key, Purpose::KeyUp);
        Seal::new(self.transcript.link_key(&self.key, Purpose::KeyDown), up)
    }

    /// Does not take the child: appends the verdict. Send it and close the connection.
    pub fn refuse(self, refusal: Refusal, out: &mut Vec<u8>) {
        self.write_verdict(refusal as u8, out);
    }

    fn write_verdict(&self, verdict: u8, out: &mut Vec<u8>) {
        out.push(verdict);
        out.extend_from_slice(&self.transcript.hash(&self.key, Purpose::Verdict, verdict));
    }
}

/// One message on its way in.
#[derive(Debug)]
struct Inbox {
    bytes: Vec<u8>,
    length: usize,
}

impl Inbox {
    fn new(length: usize) -> Self {
        Inbox { bytes: Vec::new(), length }
    }

    fn wants(&self) -> usize {
        self.length - self.bytes.len()
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        if bytes.len() > self.wants() {
            return Err(HandshakeError::Oversized { got: bytes.len(), wanted: self.wants() });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn whole<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes.as_slice().try_into().ok()
    }
}

fn write_opening(out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
}

/// Checks as much of magic and version as is there.
fn check_opening(bytes: &[u8]) -> Result<(), HandshakeError> {
    let magic = bytes.len().min(MAGIC.len());
    if bytes[..magic] != MAGIC[..magic] {
        return Err(HandshakeError::BadMagic);
    }
    match bytes.get(MAGIC.len()) {
        Some(version) if *version != VERSION => Err(HandshakeError::Version(*version)),
        _ => Ok(()),
    }
}

/// A part of a message whose length is a constant above.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("messages have fixed parts")
}
